"""A `Filter` as SQL, and which passages it selects.

Conditions that every document of a memory meets are left out. Most memories have one project,
nothing quarantined and nothing superseded; small indexes tell that in microseconds, and then no
passage has to be tested.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

import apsw

from plait.stores.sqlite.connection import rows
from plait.stores.sqlite.state import (
    CHANGED_AT,
    PROFILES_DUE,
    data_version,
    get_number,
    may_remember,
)
from plait.times import LAST_MOMENT
from plait.types import Filter, Ref
from plait.types.ids import SCOPE_PREFIX

# A selection of at most this many passages, or this share of them, is short: fetching their vectors
# one by one is cheaper than scanning all.
SHORT_PASSAGES = 200
SHORT_SHARE = 0.05
# A selection of at most this many passages is kept as a list. One statement reads the list for each
# word of a query: 0.1 ms per thousand.
LISTED_PASSAGES = 1_000
CACHED_SELECTIONS = 8
# Conditions that are joined without parentheses.
CHAINED_CONDITIONS = 50

_FOREIGN_BELOW = "SELECT 1 FROM documents WHERE project < ? LIMIT 1"
_FOREIGN_BETWEEN = "SELECT 1 FROM documents WHERE project > ? AND project < ? LIMIT 1"
_FOREIGN_ABOVE = "SELECT 1 FROM documents WHERE project > ? LIMIT 1"
# The next one: to list the distinct ones, SQLite would read the whole index.
_DISTRUSTED = "SELECT min(trust) FROM documents WHERE trust <> 'trusted' AND trust > ?"
_DATED = (
    "SELECT EXISTS (SELECT 1 FROM documents WHERE valid_to IS NOT NULL) "
    "OR EXISTS (SELECT 1 FROM documents WHERE valid_from IS NOT NULL)"
)
_CHANGES = (
    "SELECT max(valid_from) FROM documents WHERE valid_from <= ?1 "
    "UNION ALL SELECT max(valid_to) FROM documents WHERE valid_to <= ?1"
)
BEFORE_ALL = -(2**63)  # no moment that SQLite can hold is earlier
_SELECTED = (
    "SELECT p.rowid FROM documents AS d JOIN passages AS p ON p.document = d.rowid "
    "WHERE /*conditions*/ LIMIT ?"
)
# For conditions on the rows of documents alone, such as those of tags: the documents stay unread.
_OF_DOCUMENT_ROWS = _SELECTED.replace(
    "documents AS d JOIN passages AS p ON p.document = d.rowid", "passages AS p"
)
_IS_AMONG = "p.rowid IN (SELECT value FROM json_each(?))"

OF_PARENTS = "d.parent IN (SELECT value FROM json_each(?))"
_IN = {
    "kinds": "d.kind IN (SELECT value FROM json_each(?))",
    "memory_types": "d.memory_type IN (SELECT value FROM json_each(?))",
    "types": "d.type IN (SELECT value FROM json_each(?))",
    "keys": "d.key IN (SELECT value FROM json_each(?))",
    "origins": "d.origin IN (SELECT value FROM json_each(?))",
    "statuses": "coalesce(d.status, 'active') IN (SELECT value FROM json_each(?))",
    "parents": OF_PARENTS,
    "topics": "d.topic IN (SELECT value FROM json_each(?))",
    "hashes": "d.sha256 IN (SELECT value FROM json_each(?))",
}
_IS = {"source": "d.source", "session": "d.session"}
# subtle: a partial index serves only a query that says its condition, and says it in the statement.
_FILES = "d.kind = 'file'"
_FOLDERS = "d.source <> '' AND "
_UNCHANGED = (
    "(d.kind <> 'entity' OR NOT EXISTS (SELECT 1 FROM documents AS o WHERE o.parent = d.id AND "
    "((o.valid_from > ? AND o.valid_from <= ?) OR (o.valid_to > ? AND o.valid_to <= ?))))"
)
_PROJECT = "d.project IN (SELECT value FROM json_each(?))"
# `_SCOPED` is a seek in the index of names.
_IN_SCOPES = f"project >= '{SCOPE_PREFIX}' AND {{0}}project < '{SCOPE_PREFIX[:-1]};'"
_SCOPED = f"SELECT 1 FROM documents WHERE {_IN_SCOPES.format('')} LIMIT 1"  # noqa: S608
_UNSCOPED = f"NOT (d.{_IN_SCOPES.format('d.')})"
_TRUST = "d.trust IN (SELECT value FROM json_each(?))"
_NO_MESSAGE = "d.kind <> 'message' AND "
_TAG = "d.tags <> '[]' AND EXISTS (SELECT 1 FROM json_each(d.tags) AS tag WHERE {})"
# A tag by which at most this share of the documents is found is looked up in the list of tags.
FEW_TAGGED = 0.05
LEAST_TAGGED = 1_000
# subtle: not joined by OR, for which SQLite would sort the documents.
_WITH_TAG = (
    "SELECT tag.document FROM document_tags AS tag WHERE {} "
    "UNION ALL SELECT tag.document FROM document_tags AS tag WHERE {}"
)
_TAGGED = f"d.rowid IN ({_WITH_TAG})"
_MANY_TAGGED = (
    f"SELECT 1 FROM ({_WITH_TAG}) "  # noqa: S608
    "LIMIT 1 OFFSET (SELECT max(?, CAST(? * coalesce(max(rowid), 0) AS INTEGER)) FROM documents)"
)
_METADATA = "EXISTS (SELECT 1 FROM json_each(d.metadata) AS m WHERE {name} AND {value})"

_WORDS = re.compile(r"[^\W_](?:.*[^\W_])?", re.S)

Clause = tuple[str, list[object]]

_TAGS_OF = (
    "json_each(CASE WHEN json_valid({0}.tags) THEN {0}.tags ELSE '[]' END) AS tag "
    "WHERE tag.type = 'text'"
)
_ADD_TAGS = (
    # A row that is there already, in a damaged list, must not keep a document from being written.
    "INSERT OR IGNORE INTO document_tags (tag, document) "  # noqa: S608
    f"SELECT DISTINCT tag.value, new.rowid FROM {_TAGS_OF.format('new')}"
)
_DROP_TAGS = (
    "DELETE FROM document_tags WHERE document = old.rowid "  # noqa: S608
    f"AND tag IN (SELECT tag.value FROM {_TAGS_OF.format('old')})"
)
# Part of migration 8: never edit them.
FIRST_TAG_TRIGGERS = (
    "CREATE TRIGGER documents_inserted AFTER INSERT ON documents WHEN new.tags <> '[]' BEGIN "
    f"{_ADD_TAGS}; END",
    "CREATE TRIGGER documents_deleted AFTER DELETE ON documents WHEN old.tags <> '[]' BEGIN "
    f"{_DROP_TAGS}; END",
    "CREATE TRIGGER documents_updated AFTER UPDATE OF tags ON documents "
    f"WHEN new.tags <> old.tags BEGIN {_DROP_TAGS}; {_ADD_TAGS}; END",
)
# They keep the list of tags in step with documents that change or go. New ones are listed by their
# writer: beside a trigger, SQLite copies every page that a new row changes, in case it has to undo
# that row alone, which took longer than to insert it.
TAG_TRIGGERS = FIRST_TAG_TRIGGERS[1:]
LIST_TAGS_OF_NEW = (
    "INSERT OR IGNORE INTO document_tags (tag, document) "  # noqa: S608
    f"SELECT DISTINCT tag.value, new.rowid FROM (SELECT ? AS rowid, ? AS tags) AS new, "
    f"{_TAGS_OF.format('new')}"
)
LIST_TAGS = (
    "INSERT INTO document_tags (tag, document) SELECT DISTINCT tag.value, d.rowid "  # noqa: S608
    f"FROM documents AS d CROSS JOIN {_TAGS_OF.format('d')} AND d.tags <> '[]' ORDER BY 1, 2"
)


def clauses(connection: apsw.Connection, where: Filter, now: int) -> list[Clause]:
    """Return the conditions on a document ``d`` that not every document meets anyway."""
    conditions = _scope(connection, where, now)
    for name, sql in _IN.items():
        values = getattr(where, name)
        if values == ("file",) and name == "kinds":
            conditions.append((_NO_MESSAGE + _FILES, []))
        elif values:
            others = _NO_MESSAGE if name == "kinds" and "message" not in values else ""
            conditions.append((others + sql, [json.dumps(spellings_of(*values))]))
    conditions += [
        _equals(column, value)
        for name, column in _IS.items()
        if (value := getattr(where, name)) is not None
    ]
    conditions += [_has_tag(connection, tag) for tag in where.tags]
    conditions += [_has_metadata(name, value) for name, value in where.metadata]
    if where.named or where.mentions:
        from plait.stores.sqlite.mentioned import named_or_mentioned

        conditions += named_or_mentioned(connection, where)
    if where.key_prefix:
        conditions.append(_begins("d.key", where.key_prefix))
    if where.path_prefix:
        of_files = f"{_FILES} AND " if where.kinds == ("file",) else ""
        conditions.append(_begins("d.path", where.path_prefix, of_files))
    if where.pinned is not None:
        conditions.append((f"d.pinned = {int(where.pinned)}", []))
    if where.since is not None:
        conditions.append(("d.event_at >= ?", [where.since]))
    if where.until is not None:
        conditions.append(("d.event_at < ?", [where.until]))
    return conditions


def spellings_of(*names: str) -> list[str]:
    """Return names in all their spellings: an accented letter can be written in two ways."""
    if all(map(str.isascii, names)):
        return list(names)
    from plait.text.normal_form import all_spellings

    return all_spellings(names)


def _equals(column: str, name: str) -> Clause:
    """Return the condition that a column has a name, in any of its spellings."""
    forms = spellings_of(name)
    partly = _FOLDERS if column == _IS["source"] and name else ""
    return f"{partly}{column} IN ({', '.join('?' * len(forms))})", [*forms]


def _begins(column: str, prefix: str, also: str = "") -> Clause:
    """Return the condition that a column begins with a name, in any of its spellings.

    With several, an index serves each by itself, if that says the condition of the index: ``also``.
    """
    starts = spellings_of(prefix)
    ranges = " OR ".join([f"({also}{column} >= ? AND {column} < ?)"] * len(starts))
    ends: list[object] = [end for start in starts for end in (start, after(start))]
    return f"({ranges})" if starts[1:] else ranges, ends


def words_of(part: str) -> str:
    """Return the words of a part as they are indexed; empty if it has none."""
    from plait.text.unspaced import split

    words = _WORDS.search(part)
    if words is None:
        return ""
    pieces = split(words[0])
    # Single characters of scripts without spaces are not indexed.
    if pieces is not None and min(map(len, pieces.split()), default=0) < 2:
        return ""
    return pieces or words[0]


def _has_tag(connection: apsw.Connection, tag: str) -> Clause:
    """Return the condition that a document has a tag, or one below it."""
    same, forms = _equals("tag.tag", tag)
    below, ends = _begins("tag.tag", f"{tag}/")
    values = forms + ends
    many = _MANY_TAGGED.format(same, below)
    if not connection.execute(many, (*values, LEAST_TAGGED, FEW_TAGGED)).get:
        return _TAGGED.format(same, below), values
    # Of many, the tags of a document at hand are read faster than the list of all.
    either = f"({same} OR {below})".replace("tag.tag", "tag.value")
    return _TAG.format(either), values


def _has_metadata(name: str, value: str) -> Clause:
    (name_sql, names), (value_sql, values) = _equals("m.key", name), _equals("m.value", value)
    return _METADATA.format(name=name_sql, value=value_sql), names + values


def _scope(connection: apsw.Connection, where: Filter, now: int) -> list[Clause]:
    """Return conditions on project, trust and validity: nearly always given, rarely selective."""
    conditions: list[Clause] = []
    if where.projects:
        names = sorted(set(spellings_of(*(project or "" for project in where.projects))))
        if _has_other_projects(connection, names):
            conditions.append((_PROJECT, [json.dumps(names)]))
    elif not where.scopes and connection.execute(_SCOPED).get:
        conditions.append((_UNSCOPED, []))
    if where.trusts and (
        "trusted" not in where.trusts
        or any(trust not in where.trusts for trust in _distrusted(connection))
    ):
        # Most are trusted; the partial index on the others serves only a query that says this.
        others = "" if "trusted" in where.trusts else "d.trust <> 'trusted' AND "
        conditions.append((others + _TRUST, [json.dumps(where.trusts)]))
    if where.as_of is not None:
        # A profile describes the present, whatever moment is asked about.
        conditions.append(("d.kind <> 'entity'", []))
    if not where.all_versions and connection.execute(_DATED).get:
        asked = present_moment(connection, now) if where.as_of is None else where.as_of
        moment = last_change(connection, asked)
        conditions.append(("(d.valid_from IS NULL OR d.valid_from <= ?)", [moment]))
        conditions.append(("(d.valid_to IS NULL OR d.valid_to > ?)", [moment]))
    return conditions


def _distrusted(connection: apsw.Connection) -> Iterator[str]:
    """Yield the trusts of documents that are not trusted, each once."""
    trust = connection.execute(_DISTRUSTED, ("",)).get
    while trust is not None:
        yield trust
        trust = connection.execute(_DISTRUSTED, (trust,)).get


def of_fresh_profiles(connection: apsw.Connection, now: int) -> list[Clause]:
    """Return the condition that leaves out profiles which are out of date.

    The next write rebuilds them; until then searches find their observations instead.
    """
    due = get_number(connection, PROFILES_DUE)
    moment = now if due is None else present_moment(connection, now)
    if due is None or due > moment:
        return []
    since, until = due - 1, last_change(connection, moment)
    return [(_UNCHANGED, [since, until, since, until])]


class KnownConditions:
    """Finds the conditions of searches; remembers them until the file changes.

    A search asks three to five times.
    """

    _known: tuple[object, dict[Filter, list[Clause]]] = (None, {})

    def of(self, connection: apsw.Connection, where: Filter, now: int) -> list[Clause]:
        """Return the conditions of a search, which leaves out profiles that are out of date."""
        version, (latest, known) = data_version(connection), self._known
        if version != latest or len(known) >= CACHED_SELECTIONS:
            # Another thread may set its own meanwhile: never use what is in the attribute by then.
            known = {}
            self._known = version, known
        conditions = known.get(where)
        if conditions is None:
            conditions = clauses(connection, where, now) + of_fresh_profiles(connection, now)
            if may_remember(connection) and not _depends_on_time(connection):
                known[where] = conditions
        return [*conditions]


def _depends_on_time(connection: apsw.Connection) -> bool:
    """Tell whether some documents become or cease to be valid, or profiles out of date."""
    due = get_number(connection, PROFILES_DUE)
    return due is not None or bool(connection.execute(_DATED).get)


def present_moment(connection: apsw.Connection, now: int) -> int:
    """Return now, but never a moment before the last change of a fact: clocks are set back."""
    return max(now, min(LAST_MOMENT, get_number(connection, CHANGED_AT) or now))


def last_change(connection: apsw.Connection, moment: int) -> int:
    """Return the last moment up to this one at which any document began or ceased to be valid.

    Both moments select the same documents, and only this one stays the same between two searches.
    """
    changes = [at for (at,) in connection.execute(_CHANGES, (moment,)) if at is not None]
    return max(changes, default=BEFORE_ALL)


def _has_other_projects(connection: apsw.Connection, names: list[str]) -> bool:
    """Tell whether any document lies outside these projects, by index seeks alone."""
    if not names:
        return True
    if connection.execute(_FOREIGN_BELOW, (names[0],)).get:
        return True
    if connection.execute(_FOREIGN_ABOVE, (names[-1],)).get:
        return True
    return any(connection.execute(_FOREIGN_BETWEEN, pair).get for pair in pairwise(names))


def after(prefix: str) -> str:
    """Return the smallest string above every string that starts with this one.

    >>> after("conv-26/")
    'conv-260'
    """
    code = ord(prefix[-1]) + 1
    if 0xD800 <= code <= 0xDFFF:  # surrogates are not characters and cannot be bound
        code = 0xE000
    return prefix[:-1] + chr(code) if code <= 0x10FFFF else prefix + "\U0010ffff"


def joined(conditions: list[Clause]) -> tuple[str, list[object]]:
    """Join conditions into one SQL expression with its values."""
    if not conditions:
        return "1", []
    return (
        _all_of([sql for sql, _ in conditions]),
        [value for _, values in conditions for value in values],
    )


def _all_of(conditions: Sequence[str]) -> str:
    """Join conditions, nested by halves: SQLite takes expressions of at most a thousand levels."""
    if len(conditions) < CHAINED_CONDITIONS:
        return " AND ".join(conditions)
    half = len(conditions) // 2
    return f"({_all_of(conditions[:half])}) AND ({_all_of(conditions[half:])})"


class Selection:
    """The passages that a filter selects.

    ``refs`` lists them, or is ``None`` if there are too many. ``short``: fetching the vectors of
    the list is cheaper than scanning all. ``flags`` marks rows of blocks, once a scan needs that.
    """

    __slots__ = ("flags", "refs", "short")

    def __init__(self, refs: Collection[Ref] | None, *, short: bool) -> None:
        self.refs = refs
        self.short = short
        self.flags: dict[int, bytearray] | None = None


class Selections:
    """Finds the passages that filters select; remembers them until the file changes."""

    def __init__(self, *, short: int = SHORT_PASSAGES, share: float = SHORT_SHARE) -> None:
        self.short = short
        self.share = share
        self.listed = LISTED_PASSAGES
        self._known: dict[tuple[object, ...], Selection] = {}

    def find(
        self, connection: apsw.Connection, conditions: list[Clause], passages: int
    ) -> Selection:
        """Return what these conditions select among all ``passages``."""
        sql, values = joined(conditions)
        key = (sql, *values, *data_version(connection))
        selection = self._known.get(key)
        if selection is None:
            short = max(self.short, round(passages * self.share))
            listed = max(short, self.listed)
            refs = passing(connection, conditions, limit=listed + 1)
            selection = Selection(refs if len(refs) <= listed else None, short=len(refs) <= short)
            if may_remember(connection):
                # subtle: a copy, because another thread may add to the cache meanwhile.
                for old in list(self._known)[: 1 - CACHED_SELECTIONS]:
                    self._known.pop(old, None)
                self._known[key] = selection
        return selection

    def size(
        self, connection: apsw.Connection, conditions: list[Clause], passages: int
    ) -> int | None:
        """Return how many passages the conditions select; ``None`` for all, or for many."""
        refs = self.find(connection, conditions, passages).refs if conditions else None
        return None if refs is None else len(refs)


def passing(
    connection: apsw.Connection,
    conditions: list[Clause],
    *,
    among: Sequence[Ref] | None = None,
    limit: int = -1,
) -> list[Ref]:
    """Return the passages that meet the conditions, of all or of these."""
    sql, values = joined(conditions)
    if among is not None:
        sql, values = f"{_IS_AMONG} AND {sql}", [json.dumps(list(among)), *values]
    selected, of_rows = _SELECTED, sql.replace("d.rowid", "p.document")
    if among is None and "d." not in of_rows:
        selected, sql = _OF_DOCUMENT_ROWS, of_rows
    listed = rows(connection, selected.replace("/*conditions*/", sql), (*values, limit))
    return [ref for (ref,) in listed]


def first_passing(
    connection: apsw.Connection,
    conditions: list[Clause],
    hits: Sequence[tuple[Ref, float]],
    limit: int,
) -> list[tuple[Ref, float]]:
    """Return the first hits that meet the conditions, up to a limit.

    Testing the best ones is far cheaper than listing everything that passes.
    """
    kept: list[tuple[Ref, float]] = []
    step = limit + limit // 2
    for start in range(0, len(hits), step):
        part = hits[start : start + step]
        among = set(passing(connection, conditions, among=[ref for ref, _ in part]))
        kept += [pair for pair in part if pair[0] in among]
        if len(kept) >= limit:
            return kept[:limit]
    return kept
