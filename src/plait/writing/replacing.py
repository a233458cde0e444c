"""Replace a stored document: who may, with what trust, and what is kept of the one before.

The rules are in `plait.facts.trust`; these functions work inside a caller's transaction.
"""

from plait.errors import UsageError, advise, as_word, quoted
from plait.facts import trash as trash_rules
from plait.facts import trust as trust_rules
from plait.facts.names import PERSONAL
from plait.protocols import Transaction, Trashed
from plait.types import DEFAULT_ENTITY_TYPE, Document, new_id


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
        document = document._replace(updated_at=old.updated_at)
    trust = trust_rules.when_joined(old, document, imported=imported)
    return document._replace(id=old.id, created_at=old.created_at, trust=trust)


def check_home(old: Document, document: Document) -> None:
    """Refuse a document that has the id or the entity of another project.

    A file is one document whatever its project: its folder may have been read from several.

    Raises:
        UsageError: The stored one belongs to another project.
    """
    personal_entity = old.kind == "entity" and old.project is None
    if old.project != document.project and old.kind != "file" and not personal_entity:
        home = old.project or PERSONAL
        raise UsageError(
            f"{old.id} belongs to {quoted(home)} and is not changed from outside.",
            code="other_project",
            subject=old.id,
            advice=advise("act_in_project", project=as_word(home)),
        )


def trashed(
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
        version = trashed(transaction, whole, trash_rules.BY_ID_ONLY)
        document = version.document._replace(id=new_id())
        transaction.trash([version._replace(document=document, version_of=old.id)])
    transaction.expire(transaction.now - trash_rules.KEPT_MS)


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
    )
