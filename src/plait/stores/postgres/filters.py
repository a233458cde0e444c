"""A `Filter` as SQL: conditions on a document ``d``, with their values by name."""

from collections.abc import Callable, Sequence
from typing import Any

from plait.stores.postgres.connection import Escaped, escaped
from plait.stores.postgres.terms import POSITION_BITS, TEXT_COLUMN, listed_terms, terms_of
from plait.stores.sqlite.filters import after, spellings_of, words_of
from plait.stores.sqlite.state import CHANGED_AT, PROFILES_DUE
from plait.times import LAST_MOMENT
from plait.types import Filter
from plait.types.ids import SCOPE_PREFIX

# Never a moment before the last change of a fact: clocks are set back.
_NOW = "%(now)s::bigint"
_CHANGED = f"max(value::bigint) FILTER (WHERE name = '{CHANGED_AT}')"
_BETWEEN = "(o.{0} >= (SELECT due FROM moment) AND o.{0} <= (SELECT present FROM moment))"
# What conditions refer to, each read once and only if it is: the present, and the entities whose
# profiles are out of date. The next write makes those anew; until then their facts are found.
_REFERRED = (
    f"moment AS MATERIALIZED (SELECT greatest({_NOW}, least({LAST_MOMENT}, "  # noqa: S608
    f"coalesce({_CHANGED}, {_NOW}))) AS present, "
    f"max(value::bigint) FILTER (WHERE name = '{PROFILES_DUE}') AS due FROM plait.facts "
    f"WHERE ns = %(ns)s AND name IN ('{CHANGED_AT}', '{PROFILES_DUE}')), "
    "outdated AS MATERIALIZED (SELECT o.parent FROM plait.documents AS o WHERE o.ns = %(ns)s "
    f"AND o.parent IS NOT NULL AND ({_BETWEEN.format('valid_from')} "
    f"OR {_BETWEEN.format('valid_to')}))"
)
_PRESENT = "(SELECT present FROM moment)"
_FRESH = "(d.kind <> 'entity' OR d.id NOT IN (SELECT parent FROM outdated))"
_ANY = {
    "kinds": "d.kind",
    "memory_types": "d.memory_type",
    "types": "d.type",
    "keys": "d.key",
    "origins": "d.origin",
    "statuses": "coalesce(d.status, 'active')",
    "parents": "d.parent",
    "topics": "d.topic",
    "hashes": "d.sha256",
    "trusts": "d.trust",
}
_SAME = {"source": "d.source", "session": "d.session"}
# Of many conditions of one kind, the server would take minutes to plan: they are one, over a list.
FEW_TAGS = 4
_ALL_OF = (
    "NOT EXISTS (SELECT 1 FROM generate_series(0, {last}) AS n WHERE NOT EXISTS (SELECT 1 "
    "FROM {own} JOIN unnest({numbers}::int[], {names}::text[], {values}::text[]) "
    "AS w (number, name, value) ON {same} WHERE w.number = n))"
)
_OWN_TAGS = "(SELECT g.tag FROM plait.tags AS g WHERE g.ns = %(ns)s AND g.document = d.place) AS t"
_SAME_TAG = "(t.tag = w.name OR starts_with(t.tag, w.value))"
_OWN_METADATA = "jsonb_each_text(d.metadata::jsonb) AS m"
_SAME_METADATA = "(m.key = w.name AND m.value = w.value)"
_NAMED = (
    "EXISTS (SELECT 1 FROM unnest({}::text[]) AS part "
    'WHERE strpos(lower(d.key), lower(part COLLATE "C")) > 0 '
    "OR strpos(lower(concat_ws(', ', d.metadata::jsonb ->> 'aliases', "
    'd.metadata::jsonb ->> \'alias\') COLLATE "C"), lower(part COLLATE "C")) > 0)'
)
_LOWER = 'lower({} COLLATE "C")'
_HAS_PART = f"strpos({_LOWER.format('m.text')}, {_LOWER.format('part.words')}) > 0"
# Materialized: a server that has not counted its tables yet would look for them anew for each
# document, for minutes.
_ONCE = "d.place IN (WITH mentioned AS MATERIALIZED ({}) SELECT document FROM mentioned)"
# Words are found by their postings in the text's own column, one after the other: letters inside of
# a longer word are not meant. Any number of parts is one condition.
_MENTIONED = _ONCE.format(
    "SELECT m.document FROM unnest({}::text[], {}::text[]) AS part (words, terms) "  # noqa: S608
    "JOIN plait.postings AS t ON t.ns = %(ns)s AND t.term = (part.terms::text[])[1] "
    "JOIN plait.passages AS m ON m.ns = %(ns)s AND m.ref = t.ref "
    "CROSS JOIN LATERAL unnest(t.places) AS x "
    f"WHERE x >> {POSITION_BITS} = {TEXT_COLUMN} AND {_HAS_PART} AND NOT EXISTS (SELECT 1 "
    "FROM generate_series(2, cardinality(part.terms::text[])) AS i WHERE NOT EXISTS (SELECT 1 "
    "FROM plait.postings AS o WHERE o.ns = %(ns)s AND o.term = (part.terms::text[])[i] "
    "AND o.ref = t.ref AND x + i - 1 = ANY(o.places)))"
)
_CONTAINED = _ONCE.format(
    "SELECT m.document FROM unnest({}::text[]) AS part (words) "  # noqa: S608
    f"JOIN plait.passages AS m ON m.ns = %(ns)s AND {_HAS_PART}"
)


class Conditions:
    """Conditions that are joined by AND, and the values that they name.

    ``of_parents``: they select facts of named entities.
    """

    def __init__(self, now: int, *, of_parents: bool = False) -> None:
        self.values: dict[str, Any] = {"now": now}
        self.of_parents = of_parents
        self._sql = ["d.ns = %(ns)s"]

    def stated(self, statement: str) -> str:
        """Return a statement with the conditions in their place, after what they refer to."""
        whole = statement.replace("{conditions}", " AND ".join(self._sql))
        head, own, tail = whole.partition("WITH ")
        return f"WITH {_REFERRED}, {tail}" if own and not head else f"WITH {_REFERRED} {whole}"

    def add(self, sql: str) -> None:
        """Add a condition; its values have been bound."""
        self._sql.append(sql)

    def bind(self, value: object) -> str:
        """Bind a value; return the placeholder for it."""
        name = f"w{len(self.values)}"
        self.values[name] = value
        return f"%({name})s"


def conditions(where: Filter, now: int, *, searching: bool = False) -> Conditions:
    """Return the conditions of a filter; a search also leaves out profiles that are out of date."""
    built = Conditions(now, of_parents=bool(where.parents))
    _scope(built, where)
    for name, column in _ANY.items():
        if wanted := getattr(where, name):
            built.add(f"{column} = ANY({built.bind(spellings_of(*wanted))})")
    for name, column in _SAME.items():
        if (value := getattr(where, name)) is not None:
            built.add(f"{column} = ANY({built.bind(spellings_of(value))})")
    _contents(built, where)
    for sign, moment in ((">=", where.since), ("<", where.until)):
        if moment is not None:
            built.add(f"d.event_at {sign} {built.bind(moment)}")
    if searching:
        built.add(_FRESH)
    return built


def _contents(built: Conditions, where: Filter) -> None:
    """Add the conditions on beginnings of names, and on what a document has several of."""
    for prefix, column in ((where.key_prefix, "d.key"), (where.path_prefix, "d.path")):
        if prefix:
            built.add(_begins(built, column, prefix))
    if where.pinned is not None:
        built.add(f"d.pinned = {int(where.pinned)}")
    if len(where.tags) <= FEW_TAGS:
        for tag in where.tags:
            built.add(_tagged(built, tag))
    else:
        below = [[(form, f"{form}/") for form in spellings_of(tag)] for tag in where.tags]
        built.add(_all_of(built, below, _OWN_TAGS, _SAME_TAG))
    if where.metadata:
        pairs = [
            [(own, text) for own in spellings_of(name) for text in spellings_of(value)]
            for name, value in where.metadata
        ]
        built.add(_all_of(built, pairs, _OWN_METADATA, _SAME_METADATA))
    if where.named:
        built.add(_NAMED.format(built.bind(spellings_of(*where.named))))
    if where.mentions:
        built.add(_mentions(built, spellings_of(*where.mentions)))


def _all_of(
    built: Conditions, wanted: Sequence[Sequence[tuple[str, str]]], own: str, same: str
) -> str:
    """Return the condition that a document has, of each of these lists, one at least."""
    rows = [(number, *form) for number, forms in enumerate(wanted) for form in forms]
    numbers, names, values = (built.bind(list(column)) for column in zip(*rows, strict=True))
    return _ALL_OF.format(
        last=len(wanted) - 1, own=own, same=same, numbers=numbers, names=names, values=values
    )


def _scope(built: Conditions, where: Filter) -> None:
    if where.projects:
        names = spellings_of(*(project or "" for project in where.projects))
        built.add(f"d.project = ANY({built.bind(names)})")
    elif not where.scopes:
        built.add(f"NOT starts_with(d.project, '{SCOPE_PREFIX}')")
    if where.as_of is not None:
        built.add("d.kind <> 'entity'")  # a profile describes the present
    if not where.all_versions:
        moment = _PRESENT if where.as_of is None else built.bind(where.as_of)
        built.add(f"(d.valid_from IS NULL OR d.valid_from <= {moment})")
        built.add(f"(d.valid_to IS NULL OR d.valid_to > {moment})")


def _any_of(parts: Sequence[str]) -> str:
    return f"({' OR '.join(parts)})"


def _begins(built: Conditions, column: str, prefix: str) -> str:
    return _any_of([range_of(built.bind, column, start) for start in spellings_of(prefix)])


def range_of(bind: Callable[[object], str], column: str, prefix: str) -> str:
    """Return the condition that a column begins with something, as a range of its index."""
    # subtle: the end of what is kept; that of the prefix itself may be less than both.
    start = escaped(prefix)
    ends = bind(Escaped(start)), bind(Escaped(after(start)))
    return f"({column} >= {ends[0]} AND {column} < {ends[1]})"


def _tagged(built: Conditions, tag: str) -> str:
    below = _begins(built, "t.tag", f"{tag}/")
    return (
        "d.place IN (SELECT t.document FROM plait.tags AS t WHERE t.ns = %(ns)s "  # noqa: S608
        f"AND (t.tag = ANY({built.bind(spellings_of(tag))}) OR {below}))"
    )


def _mentions(built: Conditions, parts: Sequence[str]) -> str:
    """Return the condition that the text has one of some parts, as words where they are words."""
    words = {part: terms_of(words_of(part)) for part in parts}
    spoken = {part: listed_terms(terms) for part, terms in words.items() if terms}
    others = [part for part, terms in words.items() if not terms]
    conditions = []
    if spoken:
        bound = built.bind(list(spoken)), built.bind(list(spoken.values()))
        conditions.append(_MENTIONED.format(*bound))
    if others:
        conditions.append(_CONTAINED.format(built.bind(others)))
    return _any_of(conditions)
