"""Delete and restore documents by name, with everything that belongs to them."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from plait.errors import NotFound, PlaitError, StoreBusy, advise
from plait.facts import names
from plait.facts import trash as trash_rules
from plait.protocols import Store, Transaction, Trashed
from plait.searching.names import resolve
from plait.text import clean
from plait.types import TRUSTS, Document, Filter, new_id
from plait.types.reports import Deleted, Finding
from plait.writing.changes import Changes
from plait.writing.replacing import trashed

EVERYTHING = Filter(trusts=TRUSTS, all_versions=True)
# What one transaction deletes: about a tenth of a second. A larger document is one by itself.
SLICE_DOCUMENTS = 50
SLICE_PASSAGES = 200
# Seconds of deleting after which others get a turn, and of that turn. SQLite has no queue: whoever
# waits for the lock looks again every tenth of a second.
HELD_S = 0.2
TURN_S = 0.15


def delete(
    store: Store,
    ids: Sequence[str],
    *,
    purge: bool = False,
    undoable: bool = True,
    home: str | None = None,
    still: Callable[[Document], bool] | None = None,
) -> Deleted:
    """Delete documents, and what belongs to entities among them; undoable unless ``purge``.

    Without ``undoable`` they can be restored only by id. With ``still``, only those are deleted for
    which it is true inside the transaction. A purge also removes these ids from the trash, and
    reports those that were only there. ``home`` is the project in which they are deleted, empty for
    none; by default that of each document.

    Many documents are deleted in slices, so that other writers need not wait for all of them. Each
    slice is one transaction that leaves the memory consistent. If a slice fails, the documents
    before it are gone and the others untouched; calling again deletes the rest.
    """
    batch = new_id() if undoable else trash_rules.BY_ID_ONLY
    left = list(dict.fromkeys(ids))
    gone: list[tuple[str, str, int]] = []
    since = time.monotonic()
    while True:
        try:
            with store.transaction() as transaction:
                doomed = _next_slice(transaction, left)
                chosen = [
                    row for row in doomed.values() if row is not None and (not still or still(row))
                ]
                if not purge:
                    transaction.trash([trashed(transaction, row, batch, home) for row in chosen])
                deleted = _delete_slice(transaction, doomed, chosen, purge=purge)
        except PlaitError as error:
            raise (_partly(error, len(gone)) if gone else error) from error
        gone += deleted
        left = [id_ for id_ in left if id_ not in doomed]
        if not left:
            break
        if time.monotonic() - since >= HELD_S:
            time.sleep(TURN_S)
            since = time.monotonic()
    if purge:
        store.tidy(purged=True)
    return Deleted(
        tuple(doc_id for doc_id, _, _ in gone),
        tuple(id_ for _, id_, _ in gone),
        sum(chunks for _, _, chunks in gone),
        purged=purge,
    )


def _next_slice(transaction: Transaction, ids: Sequence[str]) -> dict[str, Document | None]:
    """Return the documents to delete next, what belongs to an entity before the entity.

    An entity goes together with all of it, unless that alone fills several slices. ``None`` for an
    id that has no document.
    """
    doomed: dict[str, Document | None] = {}
    passages = 0
    for id_ in ids:
        family = [member for member in (*transaction.members([id_]), id_) if member not in doomed]
        if doomed and len(doomed) + len(family) > SLICE_DOCUMENTS:
            break
        family = family[:SLICE_DOCUMENTS]
        documents = {document.id: document for document in transaction.load(family)}
        doomed.update({member: documents.get(member) for member in family})
        passages += sum(document.chunk_count for document in documents.values())
        if passages >= SLICE_PASSAGES or len(doomed) >= SLICE_DOCUMENTS:
            break
    return doomed


def _delete_slice(
    transaction: Transaction, ids: Collection[str], documents: Sequence[Document], *, purge: bool
) -> list[tuple[str, str, int]]:
    """Delete documents, and purge their ids; return doc_id, id and passages of each."""
    gone = list(documents)
    changes = Changes(transaction)
    changes.delete(gone)
    changes.finish()
    if purge:
        gone += _purge(transaction, list(ids), known={document.id for document in gone})
    transaction.expire(transaction.now - trash_rules.KEPT_MS)
    return [(document.doc_id, document.id, document.chunk_count) for document in gone]


def _partly(error: PlaitError, count: int) -> PlaitError:
    """Return an error that came after some documents were deleted, and say how many."""
    notice = error.notice
    text = (
        f"{notice.text.rstrip('.')}. Before that, {count} documents were deleted; the others are "
    )
    text += "untouched."
    return error.with_notice(notice._replace(text=text))


def _purge(
    transaction: Transaction, ids: Sequence[str], *, known: Collection[str]
) -> list[Document]:
    """Remove these documents from the trash; return those that were only there."""
    transaction.clear_cache()
    # Until the store has been tidied: a process may be killed before that.
    transaction.remember(unscrubbed=new_id())
    rows = trash_rules.belonging(transaction.trashed(ids), set(ids))
    transaction.forget([*ids, *(row.document.id for row in rows)])
    return [row.document for row in rows if row.document.id not in known and not row.version_of]


def undo(store: Store, ids: Sequence[str] = (), project: str | None = None) -> list[Document]:
    """Restore documents from the trash; without ids, those of the latest delete in a project.

    A document that cannot be restored, because a newer one has its name or repeats it, stays in the
    trash under its id only, so that the next call without ids reaches an older delete.
    """
    with store.transaction() as transaction:
        if ids:
            rows = trash_rules.family(transaction.trashed(ids), ids)
        else:
            rows = trash_rules.latest_batch(transaction.trashed(latest_in=project or ""))
        changes = Changes(transaction)
        back: dict[str, Document] = {}
        for row in trash_rules.restore_order(rows):
            document = changes.revive(row)
            if document is not None:
                back[row.document.id] = document
        transaction.restore_edges()
        changes.finish()
        transaction.forget(list(back), edges=False)
        if not ids:
            transaction.set_aside([row.document.id for row in rows if row.document.id not in back])
    return list(back.values())


def undo_named(store: Store, wanted: Sequence[str], project: str | None) -> list[Document]:
    """Restore what the latest delete in a project removed, or the named documents.

    Raises:
        NotFound: No such document was deleted here in the last 30 days; nothing is restored.
    """
    trash = store.trashed() if wanted else []
    ids: list[str] = []
    for name in wanted:
        rows = trash_rules.newest(trash_rules.named(trash, clean(name), project))
        if not rows:
            raise _not_in_trash(trash, name)
        ids += [row.document.id for row in rows if row.document.id not in ids]
    back = undo(store, ids, project)
    if not back:
        raise NotFound(
            "Nothing to undo here: nothing was deleted in the last 30 days, or newer documents "
            "have taken the names.",
            code="nothing_to_undo",
        )
    return back


def _not_in_trash(trash: Sequence[Trashed], name: str) -> NotFound:
    elsewhere = trash_rules.matching(trash, clean(name))
    if elsewhere:
        return names.out_of_reach(name, elsewhere[0].document, "change")
    return NotFound(
        f"Nothing named {name} was deleted in the last 30 days.", code="not_in_trash", subject=name
    )


def resolve_doomed(
    store: Store,
    wanted: Sequence[str],
    project: str | None,
    *,
    purge: bool,
    reach: names.Reach = "change",
) -> dict[str, Document]:
    """Return the named documents by id; for a purge, also those in the trash.

    ``reach`` says whether the names may refer to other projects.

    Raises:
        NotFound: One of the names is unknown.
        AmbiguousId: Several documents have it; the message lists them.
    """
    trash = store.trashed() if purge else []
    doomed = [row for name in wanted for row in _with_trash(store, name, project, trash, reach)]
    return {document.id: document for document in doomed}


def _with_trash(
    store: Store, name: str, project: str | None, trash: Sequence[Trashed], reach: names.Reach
) -> list[Document]:
    """Return what a name refers to, in the memory and in the trash, of one project only."""
    rows = trash_rules.named(trash, clean(name), project)
    if not rows and reach == "everything":
        rows = trash_rules.matching(trash, clean(name))
    older = [row.document for row in rows]
    try:
        document, _ = resolve(store, name, project, reach)
    except NotFound:
        if older:
            return older
        raise
    if older and older[0].project == project != document.project:
        return older  # the project's own hides the personal one, in the trash too
    return [document, *(row for row in older if row.project == document.project)]


def check_purges(store: Store, *, fix: bool) -> list[Finding]:
    """Report a purge that removed documents but did not get to clear their bytes."""
    if store.state().unscrubbed is None:
        return []
    if fix:
        try:
            store.tidy(purged=True)
        except StoreBusy as error:
            return [Finding("purge", "warning", f"{error.notice.text} Then repeat this.")]
        return [Finding("purge", "ok", "cleared what a purge had left behind", fixed=True)]
    text = "A purge was interrupted: bytes of deleted documents may still be in the file."
    return [Finding("purge", "warning", text, advice=advise("doctor_fix"))]


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
