"""The audit log: who changed which document, inside a caller's transaction."""

from collections.abc import Sequence
from os import urandom

from plait.stores import recording
from plait.stores.postgres.commits import Write
from plait.stores.postgres.connection import Channel
from plait.stores.postgres.documents import JOINED, by_id, plain_row
from plait.stores.postgres.labels import TEAM_LABEL
from plait.stores.postgres.state import set_fact
from plait.stores.recording import AUDIT_KEY_BYTES, DocumentRow
from plait.stores.sqlite.audit import KEY, MOST_ENTRIES, TRIMMED_EVERY, is_key
from plait.types import Ref
from plait.types.audit import AuditEntry, AuditQuery
from plait.types.ids import SCOPE_PREFIX

_NAMES = ("at", "origin", "door", "verb", "session", "project", "document", "before", "after")
_ADD = (
    f"INSERT INTO plait.audit (ns, number, label, member, {', '.join(_NAMES)}) "  # noqa: S608
    "VALUES (%(ns)s, %(number)s, %(label)s, %(member)s, "
    f"{', '.join(f'%({name})s' for name in _NAMES)})"
)
_LISTED = f"SELECT {', '.join(_NAMES)}, member FROM plait.audit WHERE "  # noqa: S608
# Numbers of its own, one after the other: by them the oldest are dropped now and then.
_TAKE = "UPDATE plait.namespaces SET audited = audited + %(count)s WHERE ns = %(ns)s"
_LABELS = (
    "SELECT id, label FROM plait.documents WHERE ns = %(ns)s AND id = ANY(%(ids)s) "
    "UNION SELECT id, label FROM plait.trash WHERE ns = %(ns)s AND id = ANY(%(ids)s)"
)
_TRIM = (
    "DELETE FROM plait.audit WHERE ns = %(ns)s AND number <= (SELECT a.number "
    "FROM plait.audit AS a WHERE a.ns = %(ns)s ORDER BY a.number DESC OFFSET %(most)s LIMIT 1)"
)
_OWNERS = f"SELECT DISTINCT d.id FROM {JOINED} AND p.ref = ANY(%(refs)s)"  # noqa: S608
_HOMES = (
    "SELECT document, project, label FROM plait.audit WHERE ns = %(ns)s "
    "AND document = ANY(%(ids)s) ORDER BY number"
)
_ERASE = "DELETE FROM plait.audit WHERE ns = %(ns)s AND document = ANY(%(ids)s)"
_ERASE_PROJECT = "DELETE FROM plait.audit WHERE ns = %(ns)s AND project = %(project)s"
_ANY = {"documents": "document", "verbs": "verb", "doors": "door", "origins": "origin"}


class Recorder(recording.Recorder):
    """Collects what one transaction changes; `finish` writes it down."""

    def __init__(self, session: Write) -> None:
        super().__init__()
        self._session = session
        self._labels: dict[str, int] = {}
        self._purged_labels: set[int] = set()

    def label(self, id_: str, label: int) -> None:
        """Note who may see the entries of a document."""
        self._labels[id_] = label

    def share(self, id_: str, visibility: str, before: int) -> None:
        """Note that a document is shown to others from now on; for those who saw it before."""
        self._labels[id_] = before
        self._marks.append((id_, ("visibility", visibility), False))

    def join(self, member: str, role: str, projects: Sequence[str]) -> None:
        """Note that somebody is a member now, as what; its name is in the place of a document."""
        self._labels[member] = TEAM_LABEL
        self._marks.append((member, (role, *projects), False))

    def _key(self) -> bytes:
        kept = self._session.audit_key
        if kept is None or not is_key(kept):
            kept = self._session.audit_key = urandom(AUDIT_KEY_BYTES).hex()
            set_fact(self._session, KEY, kept)
        return bytes.fromhex(kept)

    def _row(self, id_: str) -> DocumentRow | None:
        row = by_id(self._session, id_)
        return None if row is None else plain_row(row[1:])

    def _owners(self, refs: Sequence[Ref]) -> list[str]:
        return [id_ for (id_,) in self._session.rows(_OWNERS, refs=list(refs))]

    def _homes(self, ids: Sequence[str]) -> dict[str, str]:
        listed = self._session.rows(_HOMES, ids=list(ids))
        # What was once shown to all stays hidden if it was hidden last.
        labels = {id_: label for id_, _, label in listed} | self._labels
        self._purged_labels.update(labels[id_] for id_ in ids if id_ in labels)
        return {id_: project for id_, project, _ in listed}

    def _erase(self, ids: Sequence[str]) -> None:
        self._session.execute(_ERASE, ids=list(ids))

    def _write(self, entries: Sequence[AuditEntry]) -> None:
        membership = self._session.membership
        member = None if membership.is_administrator else membership.name
        labels = self._labels_of([entry.document for entry in entries])
        first = 1 + self._session.counters["audited"]
        self._session.counters["audited"] += len(entries)
        self._session.execute(_TAKE, count=len(entries))
        for number, entry in enumerate(entries, start=first):
            values = entry._replace(project=entry.project or "", member=member)._asdict()
            self._session.execute(_ADD, values, number=number, label=labels[entry.document])
        if first % TRIMMED_EVERY < len(entries):
            self._session.execute(_TRIM, most=MOST_ENTRIES)

    def _labels_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Return who may see the entries of documents; a purge has none, and names no document."""
        # Of several circles of people, that something was purged is told to all.
        circles = self._purged_labels
        labels = {"": next(iter(circles)) if len(circles) == 1 else TEAM_LABEL} | self._labels
        if unknown := [id_ for id_ in ids if id_ not in labels]:
            personal = self._session.membership.personal
            known: dict[str, int] = {}
            for id_, label in self._session.rows(_LABELS, ids=unknown):
                known[id_] = known.get(id_) or label  # that of fewer people
            labels |= {id_: known.get(id_, personal) for id_ in unknown}
        return labels


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
