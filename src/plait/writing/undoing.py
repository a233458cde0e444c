"""Restore deleted documents: those of the latest delete in a project, or named ones."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from plait.errors import NotFound, PlaitError, advise
from plait.facts import names, versions
from plait.facts import trash as trash_rules
from plait.facts.fingerprints import fingerprint
from plait.protocols import Store, Transaction, Trashed
from plait.text import clean
from plait.types import Document
from plait.types.ids import SCOPE_PREFIX
from plait.writing.changes import Changes
from plait.writing.deleting import (
    SLICE_DOCUMENTS,
    Slices,
    documents_were,
    give_turn,
    left_over,
    partly,
)
from plait.writing.retired import unmarked_copies

if TYPE_CHECKING:
    from plait.writing.backfill import Progress


class _OnlyAsked(Exception):
    """Takes a transaction back: a dry run restores as an undo does, and keeps nothing of it."""


def undo_named(
    store: Store,
    wanted: Sequence[str],
    project: str | None,
    *,
    dry_run: bool = False,
    progress: "Progress | None" = None,
) -> list[Document]:
    """Restore what the latest delete in a project removed, or the named documents.

    The project is empty for none, and ``None`` for any. With ``dry_run``, only return what would be
    restored.

    Raises:
        NotFound: No such document was deleted here in the last 30 days; nothing is restored.
    """
    trash = store.trashed(texts=False)
    ids: list[str] = []
    for name in wanted:
        matching = (
            trash_rules.matching(trash, clean(name))
            if project is None
            else trash_rules.named(trash, clean(name), project or None)
        )
        rows = trash_rules.newest(matching)
        if not rows:
            raise _not_in_trash(trash, name)
        ids += [row.document.id for row in rows if row.document.id not in ids]
    back = forecast(store, ids, project) if dry_run else undo(store, ids, project, progress)
    if not back:
        wanted_rows = trash_rules.family(trash, ids) or trash_rules.latest_batch(trash, project)
        raise _kept_away(store, wanted_rows) or _nothing_to_undo(trash, project or "")
    return back


def undo(
    store: Store,
    ids: Sequence[str] = (),
    project: str | None = "",
    progress: "Progress | None" = None,
) -> list[Document]:
    """Restore documents from the trash; without ids, those of the latest delete in a project.

    The project is empty for none, and ``None`` for any.

    A document that cannot be restored, because a newer one has its name or repeats it, stays in the
    trash under its id only, so that the next call without ids reaches an older delete.

    Many documents are restored in slices, like those of a delete. If a slice fails, the documents
    before it are restored and the others are still in the trash; calling again restores the rest.
    """
    trash = store.trashed(texts=False)
    latest = trash_rules.latest_batch(trash, project)
    rows = trash_rules.family(trash, ids) if ids else latest
    back: dict[str, Document] = {}
    left, held, slices = len(rows), 0.0, Slices()
    try:
        for part in _slices(trash_rules.restore_order(rows), slices):
            with store.transaction() as transaction:
                since = time.monotonic()
                restored = _restore(transaction, part, by_id=bool(ids))
                others = (row.document for row in trash if row.document.id not in restored)
                transaction.remember(
                    **unmarked_copies(store, transaction.state, restored.values(), others)
                )
                if len(part) == left:
                    _finish(transaction, back | restored)
                slices.note(len(part), time.monotonic() - since)
            back.update(restored)
            left -= len(part)
            held += time.monotonic() - since
            if progress is not None and restored:
                progress(len(rows) - left, len(rows), [*restored.values()][-1].doc_id)
            if left:
                held = give_turn(held)
    except PlaitError as error:
        raise (partly(error, restored=len(back)) if back else error) from error
    except KeyboardInterrupt as stop:
        if not back:
            raise KeyboardInterrupt("Interrupted: nothing was restored.") from stop
        raise KeyboardInterrupt(
            f"Interrupted: {documents_were(len(back))} restored, "
            f"{left_over(left, 'still in the trash')}"
        ) from stop
    return list(back.values())


def forecast(store: Store, ids: Sequence[str] = (), project: str | None = "") -> list[Document]:
    """Return what `undo` would restore; nothing changes."""
    trash = store.trashed(texts=False)
    rows = trash_rules.family(trash, ids) if ids else trash_rules.latest_batch(trash, project)
    back: dict[str, Document] = {}
    # subtle: in one transaction, because what is restored may depend on what came before it.
    with suppress(_OnlyAsked), store.transaction() as transaction:
        back = _restore(transaction, trash_rules.restore_order(rows), by_id=True)
        raise _OnlyAsked
    return list(back.values())


def _slices(rows: Sequence[Trashed], slices: Slices) -> Iterator[Sequence[Trashed]]:
    """Yield what one transaction restores: at least one document."""
    start = passages = 0
    for place, row in enumerate(rows):
        passages += len(row.names)
        size = place - start
        if size and (size >= slices.documents or passages > slices.passages):
            yield rows[start:place]
            start, passages = place, len(row.names)
    yield rows[start:]


def _restore(
    transaction: Transaction, part: Sequence[Trashed], *, by_id: bool
) -> dict[str, Document]:
    """Restore documents, by their ids in the trash."""
    rows = {
        row.document.id: row
        for row in transaction.trashed([row.document.id for row in part], related=False)
    }
    changes = Changes(transaction)
    back: dict[str, Document] = {}
    for listed in part:
        row = rows.get(listed.document.id)
        # Another process may have restored it meanwhile, or deleted it again.
        document = changes.revive(row) if row is not None and row.batch == listed.batch else None
        if document is not None:
            back[listed.document.id] = document
    changes.finish()
    if not by_id:
        transaction.set_aside([id_ for id_ in rows if id_ not in back])
    return back


def _finish(transaction: Transaction, back: Mapping[str, Document]) -> None:
    """Restore the edges, and drop the entities from the trash.

    Until then an entity is there too, so that its name finds what is left of an interrupted undo.
    """
    transaction.restore_edges()
    entities = [id_ for id_, document in back.items() if document.kind == "entity"]
    transaction.forget(entities, edges=False)


def _not_in_trash(trash: Sequence[Trashed], name: str) -> NotFound:
    elsewhere = trash_rules.matching(trash, clean(name))
    if elsewhere:
        return names.out_of_reach(name, elsewhere[0].document, "change")
    return NotFound(
        f"Nothing named {name} was deleted in the last 30 days.", code="not_in_trash", subject=name
    )


def _kept_away(store: Store, rows: Sequence[Trashed]) -> NotFound | None:
    """Return the error that says why one of the deleted documents cannot come back, if known."""
    error = None
    # An entity first: what stands in its way keeps its facts away, too.
    ids = [row.document.id for row in trash_rules.restore_order(rows)[:SLICE_DOCUMENTS]]
    with suppress(_OnlyAsked), store.transaction() as transaction:
        whole = {row.document.id: row for row in transaction.trashed(ids, related=False)}
        obstacles = (_obstacle(transaction, whole[id_]) for id_ in ids if id_ in whole)
        error = next(filter(None, obstacles), None)
        raise _OnlyAsked
    return error


def _obstacle(transaction: Transaction, row: Trashed) -> NotFound | None:
    """Return the error that names what stands in the way of a document; see `Changes.revive`."""
    document = row.document._replace(id=row.version_of or row.document.id)
    present = transaction.known(document)
    if present is not None:
        if present.id != document.id:
            return _in_the_way(document, present.id, "it has that name now.")
        if row.version_of:
            reason = "the present text is more trusted."
            return _in_the_way(document, present.id, reason, step=False)
        return None  # another process has restored it
    if document.parent is not None and transaction.known(Document(id=document.parent)) is None:
        return NotFound(
            f"{document.id} cannot come back: its entity was deleted, and is no longer in the "
            "trash.",
            code="nothing_to_undo",
            subject=document.parent,
        )
    if document.kind != "observation" or document.key is not None:
        return None
    now = versions.present(transaction.state, transaction.now)
    rivals = transaction.rivals(document, fingerprint(document.text), now)
    for mate in rivals.same_topic:
        if versions.is_taken(document, [mate], now):
            return _in_the_way(document, mate.id, "both are on one topic.")
    for twin in rivals.same_text:
        if versions.find_twin(document, [twin], now) is not None:
            return _in_the_way(document, twin.id, "both say the same.", step=False)
    return None


def _in_the_way(document: Document, rival: str, reason: str, *, step: bool = True) -> NotFound:
    return NotFound(
        f"{document.id} cannot come back beside {rival}: {reason}",
        code="nothing_to_undo",
        subject=rival,
        advice=advise("delete_first", id=rival) if step else None,
    )


def _nothing_to_undo(trash: Sequence[Trashed], project: str) -> NotFound:
    """Return the error for an empty trash; its advice names the project of the latest delete."""
    text = (
        "Nothing to undo in this project: nothing was deleted here in the last 30 days, or newer "
        "documents have taken the names."
    )
    # What was deleted in users' scopes is undone there, and nowhere else.
    projects = [row for row in trash if not row.deleted_in.startswith(SCOPE_PREFIX)]
    latest = trash_rules.latest_batch(projects)
    if not latest or latest[0].deleted_in == project:
        return NotFound(text, code="nothing_to_undo", advice=advise("not_superseded"))
    home = latest[0].deleted_in or names.PERSONAL
    return NotFound(
        f"{text} The latest delete was made in another project.",
        code="nothing_to_undo",
        subject=home,
        advice=advise("act_in_project", project=home),
    )
