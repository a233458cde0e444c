"""Replace a stored document: who may, with what trust, and what is kept of the one before.

The rules are in `plait.facts.trust`; these functions work inside a caller's transaction.
"""

from collections.abc import Sequence

from plait.errors import UsageError, advise, quoted
from plait.facts import trash as trash_rules
from plait.facts import trust as trust_rules
from plait.facts.names import PERSONAL, in_scope, is_item
from plait.protocols import Entry, Transaction, Trashed
from plait.types import DEFAULT_ENTITY_TYPE, Document, DocumentStatus
from plait.types.ids import ARCHIVED_FIELD, new_id
from plait.writing.documents import TITLE_CHARS


def replacing(
    transaction: Transaction, old: Document, document: Document, *, imported: bool = False
) -> Document:
    """Return a document as it replaces a stored one: same id and creation time, never more trust.

    Raises:
        UsageError: The stored one is more trusted.
    """
    if not trust_rules.may_replace(old, document):
        raise UsageError(
            f"{quoted(old.doc_id)} is {old.trust}, and a text that is {document.trust} does not "
            "replace it. Store it under another name.",
            code="more_trusted",
            subject=old.doc_id,
        )
    if trust_rules.keeps_earlier(old, document, imported=imported):
        keep_version(transaction, old)
    if document.sha256 is not None and document.sha256 == old.sha256:
        # In another memory a text may have been preferred to one that it ended.
        latest = max(old.updated_at, document.updated_at) if imported else old.updated_at
        document = document._replace(updated_at=latest)
    trust = trust_rules.when_joined(old, document, imported=imported)
    if old.kind == "file" and document.kind == "note" and document.path == old.path:
        # The same file, read by `store`: it stays where its folder's next run looks for it.
        title = document.title
        if title and title == (document.key or "")[-TITLE_CHARS:]:
            title = (old.key or "")[-TITLE_CHARS:]  # source code is called by its key
        document = document._replace(kind="file", key=old.key, source=old.source, title=title)
    status = _status_after(old, document)
    return document._replace(id=old.id, created_at=old.created_at, trust=trust, status=status)


def _status_after(old: Document, document: Document) -> DocumentStatus | None:
    """Return the status of a document that follows another.

    A file that was edited, or a note with a new text, is as done or archived as before, unless only
    its front matter said so, or a rule because nobody had changed it.
    """
    stated = old.metadata.get("status", "").lower() == old.status or ARCHIVED_FIELD in old.metadata
    return document.status or (None if stated else old.status)


def dated(entity: Document, now: int) -> Document:
    """Return a new entity with an id, a type and its times, before it has a profile."""
    return entity._replace(
        id=entity.id or new_id(),
        type=DEFAULT_ENTITY_TYPE if entity.type is None else entity.type,
        created_at=entity.created_at or now,
        updated_at=entity.updated_at or now,
        event_at=entity.event_at or now,
        indexed_at=entity.indexed_at or now,
        chunk_count=0,
        sha256=None,
    )


def existing(transaction: Transaction, document: Document) -> Document | None:
    """Return the stored document that a new one replaces, without its text."""
    if not (document.id or document.key is not None or document.path is not None):
        return None
    return transaction.known(document) or _namesake(transaction, document)


def _namesake(transaction: Transaction, document: Document) -> Document | None:
    """Return the stored document of the same file under another kind: one path is one document.

    A file meets the note that was stored from it, or that a person gave its name; a note that was
    stored from a file under that file's name meets the file. Other people's notes stay what they
    are: their trust must not become the file's.
    """
    if document.key is None or document.kind not in ("file", "note"):
        return None
    if document.kind == "file":
        for name in dict.fromkeys((document.key, document.key.rpartition("/")[2])):
            note = transaction.known(Document(key=name, project=document.project))
            if note is None or note.kind != "note" or note.origin != "user" or is_item(note):
                continue
            named_after = note.path is None and name == document.key and note.trust == "trusted"
            if named_after or note.path == document.path:
                return note
        return None
    if document.path is None:
        return None
    file = transaction.known(Document(kind="file", path=document.path, project=document.project))
    if file is None or file.project != document.project:
        return None
    named = (file.key, document.path.replace("\\", "/").rpartition("/")[2])
    return file if document.key in named else None


def check_home(old: Document, document: Document) -> None:
    """Refuse a document that has the id or the entity of another project.

    A file is one document whatever its project: its folder may have been read from several.

    Raises:
        UsageError: The stored one belongs to another project.
    """
    personal_entity = old.kind == "entity" and old.project is None
    if old.project != document.project and old.kind != "file" and not personal_entity:
        raise UsageError(
            f"{old.id} belongs to another project and is not changed from outside.",
            code="other_project",
            subject=old.id,
            advice=in_scope(old) or advise("act_in_project", project=old.project or PERSONAL),
        )


def to_trash(
    transaction: Transaction, documents: Sequence[Document], batch: str, home: str | None
) -> None:
    """Copy whole documents that are about to be deleted to the trash.

    An import may have brought one back whose id is there already, with another text: that becomes
    an earlier version.
    """
    going = {document.id: document for document in documents if document.kind != "entity"}
    for row in transaction.trashed(list(going), related=False, texts=False):
        if going[row.document.id].sha256 != row.document.sha256:
            _make_version(transaction, row)
    transaction.trash([_trashed(transaction, document, batch, home) for document in documents])


def taken_back(transaction: Transaction, entry: Entry, row: Trashed) -> Entry:
    """Return a file that came back, with the ids, the status and the use of its deleted document.

    If its text is another one, the deleted one is kept as an earlier version.
    """
    if row.document.sha256 == entry.document.sha256:
        transaction.forget([row.document.id], edges=False)
    else:
        _make_version(transaction, row)
    status = _status_after(row.document, entry.document)
    entry = entry._replace(document=entry.document._replace(status=status))
    return trash_rules.continued(entry, row)


def _trashed(
    transaction: Transaction, document: Document, batch: str, home: str | None = None
) -> Trashed:
    """Return a whole document as it goes to the trash."""
    passages = transaction.passages(document.id)
    names = tuple(passage.id for passage in passages)
    if document.kind == "entity":
        # Its text repeats its observations: purging one of those must leave no byte here.
        document, passages = document._replace(text="", chunk_count=0), []
    return Trashed(batch, transaction.now, document, passages, names=names, home=home)


def keep_version(transaction: Transaction, old: Document) -> None:
    """Copy a document that is about to be replaced to the trash, restorable by its name."""
    for whole in transaction.load([old.id]):
        _add_version(transaction, _trashed(transaction, whole, trash_rules.BY_ID_ONLY))
    transaction.expire(transaction.now - trash_rules.KEPT_MS)


def _make_version(transaction: Transaction, row: Trashed) -> None:
    """Turn a deleted document, whose id another text gets, into an earlier version of that."""
    id_ = row.document.id
    for whole in transaction.trashed([id_], related=False):
        transaction.forget([id_], edges=False)
        _add_version(transaction, whole._replace(batch=trash_rules.BY_ID_ONLY))


def _add_version(transaction: Transaction, row: Trashed) -> None:
    """Add an earlier version of a document to the trash; the oldest make room for it."""
    id_ = row.document.id
    kept = [old for old in transaction.trashed([id_], texts=False) if old.version_of == id_]
    surplus = [old.document.id for old in kept[trash_rules.VERSIONS_KEPT - 1 :]]
    transaction.forget(surplus, edges=False)
    version = row._replace(document=row.document._replace(id=new_id()), version_of=id_)
    transaction.trash([version])


def raised(entity: Document, by: Document, *, imported: bool = False) -> Document:
    """Return an entity with the trust that a text about it gives it.

    Only its name is the same: what else the less trusted source wrote about it is dropped.
    """
    trust = trust_rules.when_joined(entity, by, imported=imported)
    if trust == entity.trust:
        return entity
    return entity._replace(
        trust=trust,
        type=DEFAULT_ENTITY_TYPE,
        tags=(),
        metadata={},
        summary=None,
        importance=None,
        pinned=False,
        memory_type=None,
        status=None,
    )
