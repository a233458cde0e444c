"""Deleted documents: which ones a name refers to, and which are restored together."""

from collections.abc import Collection, Sequence

from plait.facts.trust import when_joined
from plait.protocols import Entry, Trashed
from plait.text.normal_form import composed
from plait.times import DAY_MS
from plait.types import Document
from plait.types.ids import ID_PREFIX

KEPT_MS = 30 * DAY_MS
# Of each document: an agent may update a long note a thousand times a day.
VERSIONS_KEPT = 10
# The batch of documents that can be restored only by id.
BY_ID_ONLY = ""


def named(trash: Sequence[Trashed], name: str, project: str | None) -> list[Trashed]:
    """Return the deleted documents that a name refers to: those of the project, else personal ones.

    >>> from plait.types import Document
    >>> mine, ours = (Trashed("", 0, Document(key="k", project=home)) for home in (None, "p"))
    >>> named([mine, ours], "k", "p") == [ours], named([mine, ours], "k", "q") == [mine]
    (True, True)
    """
    for home in dict.fromkeys((project, None)):
        rows = matching([row for row in trash if row.document.project == home], name)
        if rows:
            return rows
    return []


def matching(trash: Sequence[Trashed], name: str) -> list[Trashed]:
    """Return the deleted documents that have a name, whatever their project.

    A name refers to the same document as before the delete: an id or a key, else the id of a
    passage or its chunk_id, else an id prefix, else the key of a message. Accents may be written in
    either way.
    """
    own, inside, begun, spoken = [], [], [], []
    wanted = composed(name) or None
    for row in trash:
        document = row.document
        has_key = wanted is not None and wanted == composed(document.key or "")
        if name in (document.id, row.version_of) or (has_key and document.kind != "message"):
            own.append(row)
        elif has_key:
            spoken.append(row)
        elif name in row.names or wanted in _chunk_ids(row):
            inside.append(row)
        elif len(name) >= ID_PREFIX and any(
            id_.startswith(name.lower()) for id_ in (document.id, row.version_of, *row.names)
        ):
            begun.append(row)
    return own or inside or begun or spoken


def newest(rows: Sequence[Trashed]) -> list[Trashed]:
    """Return the latest of each document's versions; ``rows`` lists the latest delete first."""
    latest: dict[str, Trashed] = {}
    for row in rows:
        latest.setdefault(row.version_of or row.document.id, row)
    return list(latest.values())


def _chunk_ids(row: Trashed) -> set[str]:
    names = (row.version_of or row.document.id, composed(row.document.key or ""))
    return {f"{name}-{ordinal}" for name in names if name for ordinal in range(len(row.names))}


def latest_batch(trash: Sequence[Trashed], home: str | None = None) -> list[Trashed]:
    """Return what the latest undoable delete removed; ``trash`` lists the latest first.

    ``home`` is the project in which it was deleted, empty for none; ``None``: in any.
    """
    here = [row for row in trash if home is None or row.deleted_in == home]
    batch = next((row.batch for row in here if row.batch != BY_ID_ONLY), None)
    return [] if batch is None else [row for row in here if row.batch == batch]


def family(trash: Sequence[Trashed], ids: Collection[str]) -> list[Trashed]:
    """Return these documents and those restored with them.

    An entity brings back what was deleted with it, not earlier versions of that; an observation
    brings back its entity.
    """
    batches = {row.document.id: row.batch for row in trash if row.document.id in ids}
    parents = {row.document.parent for row in trash if row.document.id in ids}
    return [
        row
        for row in trash
        if row.document.id in ids
        or row.document.id in parents
        or (batches.get(row.document.parent or "") == row.batch and not row.version_of)
    ]


def belonging(trash: Sequence[Trashed], ids: Collection[str]) -> list[Trashed]:
    """Return these documents, their versions, and those that belong to the entities among them."""
    return [
        row
        for row in trash
        if row.document.id in ids or row.document.parent in ids or row.version_of in ids
    ]


def restore_order(rows: Sequence[Trashed]) -> list[Trashed]:
    """Return entities first, then everything else in the order of first writing."""
    return sorted(rows, key=lambda row: (row.document.kind != "entity", row.place))


def detached(document: Document) -> Document:
    """Return a restored document without the time of its file.

    Whoever restores a file wants to keep it, whether or not the file still exists: it stays until
    its file has been read again.
    """
    return document._replace(mtime=None) if document.kind == "file" else document


def is_detached(document: Document) -> bool:
    """Tell whether a file's document was restored and its file has not been read since."""
    return document.kind == "file" and document.mtime is None


def is_same_file(old: Document | None, document: Document) -> bool:
    """Tell whether a file is stored with these very bytes: another process was faster."""
    if old is None or not old.kind == document.kind == "file":
        return False
    return (old.path, old.sha256) == (document.path, document.sha256)


def continued(entry: Entry, row: Trashed) -> Entry:
    """Return a file that came back with the ids of its deleted document and its passages.

    What is known of the use of these passages comes back with them.
    """
    known: dict[tuple[str, str], list[str]] = {}
    for passage in row.passages:
        known.setdefault((passage.heading, passage.text), []).append(passage.id)
    passages = []
    for passage in entry.passages:
        ids = known.get((passage.heading, passage.text))
        passages.append(passage._replace(id=ids.pop(0)) if ids else passage)
    before = row.document
    trust = when_joined(before, entry.document)
    document = entry.document._replace(id=before.id, created_at=before.created_at, trust=trust)
    gone = {*row.names} - {passage.id for passage in passages}
    use = {name: read for name, read in (row.use or {}).items() if gone.isdisjoint(name.split(" "))}
    return entry._replace(document=document, passages=passages, use=use)
