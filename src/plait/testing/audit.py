"""The audit log of `InMemoryStore`: what changed, told by the tables before and after.

Only for tests: it compares all documents, and its hashes have no key of their own.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b

from plait.testing.tables import Reads, Tables
from plait.types import Document
from plait.types.audit import ACTORS, UNDO, AuditEntry, AuditQuery, caller
from plait.types.ids import SCOPE_PREFIX
from plait.types.relations import Relation

_Mark = tuple[str, bytes | None, bytes | None]


def record(before: Tables, after: Tables, now: int) -> None:
    """Add to the log what changed from one state of the tables to the next."""
    act = caller()
    rows = [*_documents(before, after)]
    changed = [*rows, *_edges(before, after), *_feedback(before, after)]
    if not changed and not after.purged:
        return
    written = {
        id_: after.documents[id_].origin
        for id_, _, mark in rows
        if act.verb != UNDO and mark is not None and before.texts.get(id_) != after.texts[id_]
    }
    who = next(iter(written.values()), ACTORS[act.door])
    base = AuditEntry(now, who, act.door, act.verb or "write")
    gone = {*after.purged}
    homes = {row.document: row.project for row in after.audit}
    homes.update({id_: before.documents[id_].project for id_ in gone & before.documents.keys()})
    after.audit = [row for row in after.audit if row.document not in gone]
    for id_, first, last in changed:
        if id_ in gone:
            continue
        document = after.documents.get(id_) or before.documents[id_]
        session, home = act.session or document.session, document.project
        own = base._replace(origin=written.get(id_, who), session=session, project=home)
        after.audit.append(own._replace(document=id_, before=first, after=last))
    for home, count in Counter(homes.get(id_) for id_ in gone).items():
        purge = base._replace(verb="purge", after=_hash(count))
        is_known = act.verb != "erase"
        after.audit.append(purge._replace(session=act.session, project=home) if is_known else purge)
    after.purged = []


def _documents(before: Tables, after: Tables) -> Iterator[_Mark]:
    for id_ in dict.fromkeys((*before.documents, *after.documents)):
        marks = [_mark(tables.documents.get(id_)) for tables in (before, after)]
        if marks[0] != marks[1]:
            yield id_, marks[0], marks[1]


def _mark(document: Document | None) -> bytes | None:
    """Return the hash of a document without what changes with every reading of the same text."""
    if document is None:
        return None
    return _hash(document._replace(updated_at=0, indexed_at=0, mtime=0, chunk_count=0))


def _edges(before: Tables, after: Tables) -> Iterator[_Mark]:
    for key in dict.fromkeys((*before.edges, *after.edges)):
        old, new = before.edges.get(key), after.edges.get(key)
        edge = new or old
        if old == new or edge is None or not {*key[:2]} <= after.documents.keys():
            continue
        for id_ in dict.fromkeys(key[:2]):
            yield id_, None if new else _edge(edge), _edge(edge) if new else None


def _edge(edge: Relation) -> bytes:
    return _hash(edge)


def _feedback(before: Tables, after: Tables) -> Iterator[_Mark]:
    marks: dict[str, _Mark] = {}
    for ref, id_ in after.owners.items():
        old, new = (tables.reads.get(ref, Reads())[4:] for tables in (before, after))
        if ref in before.owners and old != new:
            is_kept = any(new)
            marks[id_] = (id_, None if is_kept else _hash(old), _hash(new) if is_kept else None)
    yield from marks.values()


def _hash(value: object) -> bytes:
    return blake2b(repr(value).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def find(entries: Sequence[AuditEntry], wanted: AuditQuery, limit: int) -> list[AuditEntry]:
    """Return entries, the newest first."""
    return [row for row in reversed(entries) if _meets(row, wanted)][:limit]


def _meets(row: AuditEntry, wanted: AuditQuery) -> bool:
    in_lists = (
        (wanted.documents, row.document),
        (wanted.verbs, row.verb),
        (wanted.doors, row.door),
        (wanted.origins, row.origin),
    )
    is_scoped = (row.project or "").startswith(SCOPE_PREFIX)
    if wanted.projects is not None:
        at_home = row.project in wanted.projects
    else:
        at_home = wanted.scopes or not is_scoped
    return (
        at_home
        and all(not chosen or value in chosen for chosen, value in in_lists)
        and wanted.session in (None, row.session)
        and (wanted.since is None or row.at >= wanted.since)
    )
