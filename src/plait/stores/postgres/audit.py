"""The audit log: who changed which document, inside a caller's transaction."""

from collections.abc import Sequence
from os import urandom

from plait.stores import recording
from plait.stores.postgres.connection import Channel
from plait.stores.postgres.documents import JOINED, by_id, plain_row
from plait.stores.postgres.state import get_fact, set_fact
from plait.stores.recording import AUDIT_KEY_BYTES, DocumentRow
from plait.stores.sqlite.audit import KEY, MOST_ENTRIES, TRIMMED_EVERY, is_key
from plait.types import Ref
from plait.types.audit import AuditEntry, AuditQuery
from plait.types.ids import SCOPE_PREFIX

_NAMES = ("at", "origin", "door", "verb", "session", "project", "document", "before", "after")
_ADD = (
    f"INSERT INTO plait.audit (ns, number, {', '.join(_NAMES)}) "  # noqa: S608
    f"VALUES (%(ns)s, %(number)s, {', '.join(f'%({name})s' for name in _NAMES)})"
)
_LISTED = f"SELECT {', '.join(_NAMES)} FROM plait.audit WHERE "  # noqa: S608
_LAST = "SELECT coalesce(max(number), 0) FROM plait.audit WHERE ns = %(ns)s"
_TRIM = (
    "DELETE FROM plait.audit WHERE ns = %(ns)s AND number <= (SELECT a.number "
    "FROM plait.audit AS a WHERE a.ns = %(ns)s ORDER BY a.number DESC OFFSET %(most)s LIMIT 1)"
)
_OWNERS = f"SELECT DISTINCT d.id FROM {JOINED} AND p.ref = ANY(%(refs)s)"  # noqa: S608
_HOMES = "SELECT document, project FROM plait.audit WHERE ns = %(ns)s AND document = ANY(%(ids)s)"
_ERASE = "DELETE FROM plait.audit WHERE ns = %(ns)s AND document = ANY(%(ids)s)"
_ERASE_PROJECT = "DELETE FROM plait.audit WHERE ns = %(ns)s AND project = %(project)s"
_ANY = {"documents": "document", "verbs": "verb", "doors": "door", "origins": "origin"}


class Recorder(recording.Recorder):
    """Collects what one transaction changes; `finish` writes it down."""

    def __init__(self, session: Channel) -> None:
        super().__init__()
        self._session = session

    def _key(self) -> bytes:
        kept = get_fact(self._session, KEY)
        if kept is None or not is_key(kept):
            kept = urandom(AUDIT_KEY_BYTES).hex()
            set_fact(self._session, KEY, kept)
        return bytes.fromhex(kept)

    def _row(self, id_: str) -> DocumentRow | None:
        row = by_id(self._session, id_)
        return None if row is None else plain_row(row[1:])

    def _owners(self, refs: Sequence[Ref]) -> list[str]:
        return [id_ for (id_,) in self._session.rows(_OWNERS, refs=list(refs))]

    def _homes(self, ids: Sequence[str]) -> dict[str, str]:
        return dict(self._session.rows(_HOMES, ids=list(ids)))

    def _erase(self, ids: Sequence[str]) -> None:
        self._session.execute(_ERASE, ids=list(ids))

    def _write(self, entries: Sequence[AuditEntry]) -> None:
        # Numbers of its own, one after the other: by them the oldest are dropped now and then.
        first = 1 + int(self._session.value(_LAST))
        for number, entry in enumerate(entries, start=first):
            values = entry._replace(project=entry.project or "")._asdict()
            self._session.execute(_ADD, values, number=number)
        if first % TRIMMED_EVERY < len(entries):
            self._session.execute(_TRIM, most=MOST_ENTRIES)


def erase_project(session: Channel, project: str) -> None:
    """Drop all entries of a project."""
    session.execute(_ERASE_PROJECT, project=project)


def find(session: Channel, wanted: AuditQuery, limit: int) -> list[AuditEntry]:
    """Return entries, the newest first."""
    conditions, values = ["ns = %(ns)s"], dict[str, object]()
    for name, column in _ANY.items():
        if chosen := getattr(wanted, name):
            conditions.append(f"{column} = ANY(%({name})s)")
            values[name] = list(chosen)
    if wanted.projects is not None:
        conditions.append("project = ANY(%(projects)s)")
        values["projects"] = [project or "" for project in wanted.projects]
    elif not wanted.scopes:
        conditions.append(f"NOT starts_with(project, '{SCOPE_PREFIX}')")
    if wanted.session is not None:
        conditions.append("session = %(session)s")
    if wanted.since is not None:
        conditions.append("at >= %(since)s")
    values |= {"session": wanted.session, "since": wanted.since, "limit": limit}
    sql = f"{_LISTED}{' AND '.join(conditions)} ORDER BY number DESC LIMIT %(limit)s"
    entries = [AuditEntry(*row) for row in session.rows(sql, values)]
    return [entry._replace(project=entry.project or None) for entry in entries]
