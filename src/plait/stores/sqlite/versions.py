"""Truth over time: which current observations a new one closes, inside a caller's transaction.

Only an explicit id or the same topic closes anything, never a likeness. What is closed stays, with
the moment at which it ceased to hold.
"""

from typing import NamedTuple

import apsw

from plait.errors import NotFound, UsageError
from plait.stores.sqlite import terms
from plait.stores.sqlite.filters import LATEST_TURN
from plait.stores.sqlite.rows import rows
from plait.times import LAST_MOMENT
from plait.types import Document, Trust

# Whoever is trusted less never overrules whoever is trusted more.
_WORD: dict[Trust, int] = {"quarantined": 0, "untrusted": 1, "trusted": 2}
_REPLACEABLE = ("observation", "note")

_COLUMNS = "SELECT rowid, id, kind, project, parent, trust, valid_from, valid_to FROM documents "
_MATES = _COLUMNS + (
    "WHERE topic = ? AND project = ? AND coalesce(parent, '') = ? AND kind = 'observation' "
    "AND (valid_to IS NULL OR valid_to > ?) AND id <> ? ORDER BY rowid"
)
_SAME_TOPIC = (
    "SELECT 1 FROM documents WHERE topic = ? AND project = ? AND coalesce(parent, '') = ? "
    "AND kind = 'observation' LIMIT 1"
)
_ONE = _COLUMNS + "WHERE id = ?"
_SUCCESSOR = "SELECT id FROM documents WHERE supersedes = ? ORDER BY rowid DESC LIMIT 1"
# A clock that was set to local time for UTC, and then some.
CLOCKS_DIFFER_MS = 24 * 3600 * 1000
# Nothing may end before it began.
_CLOSE = "UPDATE documents SET valid_to = max(?1, coalesce(valid_from, ?1)) WHERE rowid = ?2"


class Version(NamedTuple):
    """What deciding between two versions needs to know of one."""

    rowid: int
    id: str
    kind: str
    project: str
    parent: str | None
    trust: Trust
    valid_from: int | None
    valid_to: int | None

    def holds(self, moment: int) -> bool:
        """Whether it holds at a moment."""
        begun = self.valid_from is None or self.valid_from <= moment
        return begun and (self.valid_to is None or self.valid_to > moment)

    def follows(self, moment: int) -> bool:
        """Whether it begins after a moment; what never holds does not."""
        if self.valid_from is None or self.valid_from <= moment:
            return False
        return self.valid_to is None or self.valid_to > self.valid_from


class Closing(NamedTuple):
    """What a new observation puts an end to, and what it contradicts without the right to.

    It holds itself ``until`` the next one of its topic begins that is already known.
    """

    closed: tuple[Version, ...] = ()
    beside: tuple[Version, ...] = ()
    until: int | None = None


def outranks(one: Trust, other: Trust) -> bool:
    """Whether whoever said one thing is trusted more than whoever said the other."""
    return _WORD[one] > _WORD[other]


def next_moment(connection: apsw.Connection, now: int) -> int:
    """The moment from which on something new holds, later than every earlier such moment."""
    latest = terms.get_meta(connection, LATEST_TURN)
    return now if latest is None else max(now, min(int(latest), LAST_MOMENT) + 1)


def closing(connection: apsw.Connection, document: Document, start: int) -> Closing:
    """What a new observation that holds from ``start`` on closes: what holds at that moment.

    What begins later stays as it was planned, and puts an end to the new one.

    Raises:
        NotFound: There is nothing of the id that it supersedes.
        UsageError: What it supersedes was superseded before, or lies elsewhere.
    """
    found: dict[str, Version] = {}
    if document.supersedes is not None:
        old = _superseded(connection, document, start)
        found[old.id] = old
    others = mates(connection, document, start) if document.topic is not None else []
    found.update({mate.id: mate for mate in others if mate.holds(start)})
    later = [
        mate.valid_from
        for mate in others
        if mate.valid_from is not None and mate.follows(start) and mate.id not in found
        if not outranks(document.trust, mate.trust)
    ]
    return Closing(
        tuple(old for old in found.values() if not outranks(old.trust, document.trust)),
        tuple(old for old in found.values() if outranks(old.trust, document.trust)),
        min(later, default=None),
    )


def by_id(connection: apsw.Connection, id_: str) -> list[Version]:
    """The document of this id, if there is one."""
    return [Version(*row) for row in rows(connection, _ONE, (id_,))]


def mates(connection: apsw.Connection, document: Document, start: int) -> list[Version]:
    """Other observations of the same topic, project and entity that still hold at ``start``."""
    wanted = (document.topic, document.project or "", document.parent or "", start, document.id)
    return [Version(*row) for row in rows(connection, _MATES, wanted)]


def is_first(connection: apsw.Connection, document: Document) -> bool:
    """Whether nothing was ever said of this topic: then it may always have been so."""
    if document.topic is None:
        return True
    wanted = (document.topic, document.project or "", document.parent or "")
    return not connection.execute(_SAME_TOPIC, wanted).get


def _superseded(connection: apsw.Connection, document: Document, start: int) -> Version:
    found = by_id(connection, document.supersedes or "")
    if not found:
        raise NotFound(
            f"There is nothing named '{document.supersedes}' to supersede. "
            "Look for it with: plait search WORDS"
        )
    old = found[0]
    if old.project != (document.project or ""):
        raise UsageError(
            f"{old.id} belongs to {old.project or 'no project'}, the new text to "
            f"{document.project or 'no project'}. Store it there: --project "
            f"{old.project or 'personal'}"
        )
    if old.kind not in _REPLACEABLE:
        raise UsageError(
            f"{old.id} is of kind {old.kind}, and only an observation or a note can be superseded."
        )
    if old.valid_to is not None and old.valid_to <= start:
        successor = connection.execute(_SUCCESSOR, (old.id,)).get
        by = f" by {successor}. Supersede that one" if successor else ". Store it without"
        raise UsageError(f"{old.id} was superseded already{by}.")
    return old


def close(connection: apsw.Connection, closed: tuple[Version, ...], start: int) -> None:
    """Put an end to these at ``start``."""
    for old in closed:
        connection.execute(_CLOSE, (start, old.rowid))


def remember(connection: apsw.Connection, moment: int) -> None:
    """Note the moment of a change of truth, so that a clock set back does not undo it."""
    latest = terms.get_meta(connection, LATEST_TURN)
    if latest is None or int(latest) < moment:
        terms.set_meta(connection, LATEST_TURN, str(moment))


def advance(connection: apsw.Connection, turn: int, now: int) -> None:
    """Let the present be no earlier than the latest turn of another memory.

    Only as far as clocks differ: a turn of the next century would date every change to come.
    """
    if turn <= now + CLOCKS_DIFFER_MS:
        remember(connection, turn)


def reconciled(connection: apsw.Connection, document: Document, now: int) -> Document:
    """An observation from an export beside what holds here: the later one of a topic stays."""
    if document.topic is None or document.kind != "observation" or _is_over(document, now):
        return document
    begun = _begun(document.valid_from, document.created_at)
    for mate in mates(connection, document, now):
        theirs = _begun(mate.valid_from, _created_at(connection, mate))
        if mate.trust != document.trust or not _meet(document, mate, now):
            continue
        if theirs > begun:
            document = document._replace(valid_to=max(theirs, document.valid_from or theirs))
        else:
            connection.execute(_CLOSE, (begun, mate.rowid))
    return document


def is_taken(connection: apsw.Connection, document: Document, now: int) -> bool:
    """Whether another of the same topic holds, now or later, while this one would."""
    if document.topic is None or _is_over(document, now):
        return False
    others = mates(connection, document, now)
    return any(mate.trust == document.trust and _meet(document, mate, now) for mate in others)


def _is_over(document: Document, now: int) -> bool:
    return document.valid_to is not None and document.valid_to <= now


def _meet(document: Document, mate: Version, now: int) -> bool:
    """Whether both hold at one moment that is not past."""
    begun = max(document.valid_from or now, mate.valid_from or now, now)
    ends = [end for end in (document.valid_to, mate.valid_to) if end is not None]
    return begun < min(ends, default=begun + 1)


def _begun(valid_from: int | None, created_at: int) -> int:
    return created_at if valid_from is None else valid_from


def _created_at(connection: apsw.Connection, version: Version) -> int:
    sql = "SELECT created_at FROM documents WHERE rowid = ?"
    return int(connection.execute(sql, (version.rowid,)).get)
