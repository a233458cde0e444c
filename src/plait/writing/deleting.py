"""Delete and restore documents by name, with everything that belongs to them."""

from collections.abc import Collection, Mapping, Sequence

from plait.errors import NotFound
from plait.facts import names
from plait.facts import trash as trash_rules
from plait.protocols import Store, Transaction, Trashed
from plait.text import clean
from plait.types import TRUSTS, Document, Filter, new_id
from plait.types.reports import Deleted
from plait.writing.changes import Changes

EVERYTHING = Filter(trusts=TRUSTS, all_versions=True)


def delete(
    store: Store, ids: Sequence[str], *, purge: bool = False, undoable: bool = True
) -> Deleted:
    """Delete documents, and what belongs to entities among them; undoable unless ``purge``.

    Without ``undoable`` they can be restored only by id. A purge also removes these ids from the
    trash, and reports those that were only there.
    """
    with store.transaction() as transaction:
        doomed = list(dict.fromkeys([*ids, *transaction.members(ids)]))
        gone = transaction.load(doomed)
        if not purge:
            _trash(transaction, gone, batch=new_id() if undoable else trash_rules.BY_ID_ONLY)
        changes = Changes(transaction)
        chunks = changes.delete(gone)
        changes.finish()
        if purge:
            older = _purge(transaction, doomed, known={document.id for document in gone})
            gone += older
            chunks += sum(document.chunk_count for document in older)
        transaction.expire(transaction.now - trash_rules.KEPT_MS)
    if purge:
        store.tidy(purged=True)
    return Deleted(
        tuple(document.doc_id for document in gone),
        tuple(document.id for document in gone),
        chunks,
        purged=purge,
    )


def _trash(transaction: Transaction, documents: Sequence[Document], *, batch: str) -> None:
    rows = []
    for document in documents:
        passages = transaction.passages(document.id)
        passage_ids = tuple(passage.id for passage in passages)
        if document.kind == "entity":
            # Its text repeats its observations: purging one of those must leave no byte here.
            document, passages = document._replace(text="", chunk_count=0), []
        rows.append(Trashed(batch, transaction.now, document, passages, names=passage_ids))
    transaction.trash(rows)


def _purge(
    transaction: Transaction, ids: Sequence[str], *, known: Collection[str]
) -> list[Document]:
    """Remove these documents from the trash; return those that were only there."""
    transaction.clear_cache()
    rows = trash_rules.belonging(transaction.trashed(ids), set(ids))
    transaction.forget([*ids, *(row.document.id for row in rows)])
    return [row.document for row in rows if row.document.id not in known]


def undo(store: Store, ids: Sequence[str] = ()) -> list[Document]:
    """Restore documents from the trash; without ids, those of the latest delete.

    A document that cannot be restored, because a newer one has its name or repeats it, stays in the
    trash under its id only, so that the next call without ids reaches an older delete.
    """
    with store.transaction() as transaction:
        if ids:
            rows = trash_rules.family(transaction.trashed(ids), ids)
        else:
            rows = trash_rules.latest_batch(transaction.trashed(latest=True))
        changes = Changes(transaction)
        back: dict[str, Document] = {}
        for row in trash_rules.restore_order(rows):
            document = changes.revive(row)
            if document is not None:
                back[document.id] = document
        transaction.restore_edges()
        changes.finish()
        transaction.forget(list(back), edges=False)
        if not ids:
            transaction.set_aside([row.document.id for row in rows if row.document.id not in back])
    return list(back.values())


def undo_named(store: Store, wanted: Sequence[str]) -> list[Document]:
    """Restore what the latest delete removed, or the named documents.

    Raises:
        NotFound: No such document was deleted in the last 30 days; nothing is restored.
    """
    trash = store.trashed() if wanted else []
    ids: list[str] = []
    for name in wanted:
        rows = trash_rules.named(trash, clean(name))
        if not rows:
            raise NotFound(
                f"Nothing named {name} was deleted in the last 30 days.",
                code="not_in_trash",
                subject=name,
            )
        ids += [row.document.id for row in rows if row.document.id not in ids]
    back = undo(store, ids)
    if not back:
        raise NotFound(
            "Nothing to undo: nothing was deleted in the last 30 days, or newer documents have "
            "taken the names.",
            code="nothing_to_undo",
        )
    return back


def resolve_doomed(
    store: Store, wanted: Sequence[str], project: str | None, *, purge: bool
) -> dict[str, Document]:
    """Return the named documents by id; for a purge, also those in the trash.

    Raises:
        NotFound: One of the names is unknown.
        AmbiguousId: Several documents have it; the message lists them.
    """
    trash = store.trashed() if purge else []
    doomed = [row for name in wanted for row in _with_trash(store, name, project, trash)]
    return {document.id: document for document in doomed}


def _with_trash(
    store: Store, name: str, project: str | None, trash: Sequence[Trashed]
) -> list[Document]:
    older = [
        row.document
        for row in trash_rules.named(trash, clean(name))
        if row.document.key != name or row.document.project in (project, None)
    ]
    try:
        document, _ = names.choose(name, store.find(clean(name), EVERYTHING), project)
    except NotFound:
        if older:
            return older
        raise
    return [document, *older]


def forecast(store: Store, chosen: Mapping[str, Document]) -> Deleted:
    """Return what deleting these documents would remove, without deleting anything."""
    doomed = dict(chosen)
    entities = tuple(row.id for row in chosen.values() if row.kind == "entity")
    if entities:
        belonging = Filter(parents=entities, trusts=TRUSTS, all_versions=True)
        doomed.update({row.id: row for row in store.scan(belonging)})
    return Deleted(
        tuple(row.doc_id for row in doomed.values()),
        tuple(doomed),
        sum(row.chunk_count for row in doomed.values()),
    )
