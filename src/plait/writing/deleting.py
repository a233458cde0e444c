"""Delete documents by name, with everything that belongs to them."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from plait.errors import NotFound, Notice, PlaitError, StoreBusy, StoreFull, UsageError, advise
from plait.facts import names
from plait.facts import trash as trash_rules
from plait.protocols import Store, Transaction, Trashed
from plait.searching.names import resolve
from plait.text import clean
from plait.types import EVERYTHING, Document
from plait.types.ids import new_id
from plait.types.reports import Deleted, Finding
from plait.writing.changes import Changes
from plait.writing.replacing import to_trash
from plait.writing.retired import marks_of, unmarked, unmarked_contents

if TYPE_CHECKING:
    from plait.writing.backfill import Progress

# What one transaction deletes: less than a tenth of a second of CPU time. A larger document is one
# by itself. Of many small ones it takes more: each transaction waits for the disk.
SLICE_DOCUMENTS = 25
SLICE_PASSAGES = 100
SLICE_S = 0.1
MANY_DOCUMENTS = 400
# Seconds of deleting after which others get a turn, and of that turn; a purge that is slow, because
# the machine is busy, gives as long a turn as it took. SQLite has no queue: whoever waits for the
# lock looks again every tenth of a second, and may find another one there.
HELD_S = 0.2
TURN_S = 0.3


class Slices:
    """How many documents the next transaction takes."""

    def __init__(self) -> None:
        """Begin with few: nothing tells yet how long they take."""
        self.documents, self._done = SLICE_DOCUMENTS, 0

    @property
    def passages(self) -> int:
        """Return with how many passages a transaction has enough.

        Not in proportion: after many small documents, the next ones may be large.
        """
        return max(SLICE_PASSAGES, self.documents)

    def note(self, documents: int, seconds: float) -> None:
        """Note how long a transaction worked, before it waited for the disk."""
        self._done += documents
        if self.documents < SLICE_DOCUMENTS:
            return  # the disk is full
        if seconds > SLICE_S:
            self.documents = max(SLICE_DOCUMENTS, self.documents // 2)
        elif seconds < SLICE_S / 4 and self._done >= MANY_DOCUMENTS:
            self.documents = min(self.documents * 2, MANY_DOCUMENTS)


def delete(
    store: Store,
    ids: Sequence[str],
    *,
    purge: bool = False,
    home: str | None = None,
    still: Callable[[Document], bool] | None = None,
    others: Callable[[Sequence[str]], Collection[str]] = lambda _: (),
    by_rule: bool = False,
    progress: "Progress | None" = None,
) -> Deleted:
    """Delete documents, and what belongs to entities among them; undoable unless ``purge``.

    With ``still``, only those are deleted for which it is true inside the transaction; ``others``
    returns, there too, which of some ids are to stay. A purge also removes these ids from the
    trash, and reports those that were only there. ``home`` is the project in which they are
    deleted, empty for none; by default that of each document. Files that are deleted ``by_rule``
    stay out of the memory; those that anybody deletes otherwise come back with their folder, as if
    no rule had ever removed them.

    Many documents are deleted in slices, so that other writers need not wait for all of them. Each
    slice is one transaction that leaves the memory consistent. If a slice fails, the documents
    before it are gone and the others untouched; calling again deletes the rest. On a full disk, the
    slices become smaller. ``progress`` is told how many are gone, of how many, after each slice.
    """
    batch, left = new_id(), dict.fromkeys(ids)
    gone: list[tuple[str, str, int]] = []

    def choose(rows: Iterable[Document | None]) -> list[Document]:
        chosen = [row for row in rows if row is not None and (not still or still(row))]
        spared = others([row.id for row in chosen])
        return [row for row in chosen if row.id not in spared]

    try:
        _delete_slices(
            store,
            left,
            gone,
            batch=batch,
            purge=purge,
            home=home,
            choose=choose,
            by_rule=by_rule,
            progress=progress,
        )
        if purge and progress is not None:
            progress(len(gone), len(gone), "clearing the bytes")
        copies = store.tidy(purged=True) if purge else ()
    except PlaitError as error:
        raise (partly(error, deleted=len(gone)) if gone and left else error) from error
    except KeyboardInterrupt as stop:
        if not gone:
            raise KeyboardInterrupt("Interrupted: nothing was deleted.") from stop
        raise KeyboardInterrupt(_interrupted(len(gone), len(left))) from stop
    return Deleted(
        tuple(doc_id for doc_id, _, _ in gone),
        tuple(id_ for _, id_, _ in gone),
        sum(chunks for _, _, chunks in gone),
        purged=purge,
        copies=copies,
    )


def _delete_slices(
    store: Store,
    left: dict[str, None],
    gone: list[tuple[str, str, int]],
    *,
    batch: str,
    purge: bool,
    home: str | None,
    choose: Callable[[Iterable[Document | None]], list[Document]],
    by_rule: bool,
    progress: "Progress | None",
) -> None:
    """Delete the documents that are ``left``, and move each slice from there to ``gone``."""
    held, slices = 0.0, Slices()
    while left:
        try:
            with store.transaction() as transaction:
                since, state = time.monotonic(), transaction.state
                doomed = _next_slice(transaction, left, slices)
                chosen = choose(doomed.values())
                if not purge:
                    to_trash(transaction, chosen, batch, home)
                deleted, purged = _delete_slice(transaction, doomed, chosen, purge=purge)
                marks = marks_of(state, chosen) if by_rule else unmarked(state, *chosen, *purged)
                if purge:
                    marks |= unmarked_contents(store, state, [*chosen, *purged])
                transaction.remember(**marks)
                slices.note(len(doomed), time.monotonic() - since)
        except StoreFull as error:
            if not slices.documents or error.code != StoreFull.code:
                raise
            # The failure has emptied the journal, and a smaller slice needs less room.
            slices.documents //= 4
            continue
        gone += deleted
        for id_ in doomed:
            left.pop(id_, None)
        if progress is not None and gone:
            progress(len(gone), len(gone) + len(left), gone[-1][0])
        held += time.monotonic() - since
        if left:
            held = give_turn(held)


def give_turn(held: float) -> float:
    """Let other writers in if slices have taken long; return the seconds taken since."""
    if held < HELD_S:
        return held
    time.sleep(max(TURN_S, held))
    return 0.0


def _next_slice(
    transaction: Transaction, ids: Iterable[str], slices: Slices
) -> dict[str, Document | None]:
    """Return the documents to delete next, what belongs to an entity before the entity.

    At most so many, and at least one. An entity goes together with all of it, unless that alone
    fills several slices. ``None`` for an id that has no document.
    """
    doomed: dict[str, Document | None] = {}
    passages, most = 0, slices.documents
    for id_ in ids:
        family = [member for member in (*transaction.members([id_]), id_) if member not in doomed]
        if doomed and len(doomed) + len(family) > most:
            break
        family = family[: max(most, 1)]
        documents = {document.id: document for document in transaction.load(family)}
        doomed.update({member: documents.get(member) for member in family})
        passages += sum(document.chunk_count for document in documents.values())
        if passages >= slices.passages or len(doomed) >= most:
            break
    return doomed


def _delete_slice(
    transaction: Transaction, ids: Collection[str], documents: Sequence[Document], *, purge: bool
) -> tuple[list[tuple[str, str, int]], list[Document]]:
    """Delete documents, and purge their ids; return doc_id, id and passages of each that is gone.

    The second value is what the purge removed from the trash, earlier versions too.
    """
    gone = list(documents)
    changes = Changes(transaction)
    changes.delete(gone)
    changes.finish()
    purged = _purge(transaction, list(ids)) if purge else []
    known = {document.id for document in gone}
    gone += [row.document for row in purged if row.document.id not in known and not row.version_of]
    transaction.expire(transaction.now - trash_rules.KEPT_MS)
    told = [(document.doc_id, document.id, document.chunk_count) for document in gone]
    return told, [row.document for row in purged]


def partly(error: PlaitError, **counts: int) -> PlaitError:
    """Return an error that came after some documents were changed; say how many, and how."""
    (verb, count), *more = [(verb, count) for verb, count in counts.items() if count]
    also = "".join(f" and {count:,} {verb}" for verb, count in more)
    told = error.notice.text
    text = (
        f"{told}{'' if told.endswith(('.', '?')) else '.'} Before that, {documents_were(count)} "
        f"{verb}{also}; the others are untouched."
    )
    return error.with_notice(error.notice._replace(text=text))


def documents_were(count: int) -> str:
    """Return a number of documents, as the subject of what happened to them.

    >>> documents_were(1), documents_were(12345)
    ('1 document was', '12,345 documents were')
    """
    return "1 document was" if count == 1 else f"{count:,} documents were"


def left_over(count: int, state: str) -> str:
    """Say how many documents a run did not get to, and that it can go on.

    >>> left_over(1, "untouched")
    '1 is untouched. Run the same command again to go on.'
    """
    verb = "is" if count == 1 else "are"
    return f"{count:,} {verb} {state}. Run the same command again to go on."


def _interrupted(count: int, left: int) -> Notice:
    """Say how far a delete came that somebody stopped."""
    done = f"Interrupted: {documents_were(count)} deleted"
    if left:
        return Notice(f"{done}, {left_over(left, 'untouched')}")
    return Notice(
        f"{done}, but some of the deleted bytes may still be in the file until it is repaired.",
        advice=advise("doctor_fix"),
    )


def _purge(transaction: Transaction, ids: Sequence[str]) -> list[Trashed]:
    """Remove these documents from the trash; return what was there of them."""
    transaction.clear_cache()
    # Until the store has been tidied: a process may be killed before that. Who waits for a model's
    # answer knows by the other mark that it may repeat what is gone. The sample of chance was taken
    # from that, too.
    transaction.remember(unscrubbed=new_id(), purged=new_id(), chance=None)
    rows = trash_rules.belonging(transaction.trashed(ids, texts=False), set(ids))
    transaction.forget([*ids, *(row.document.id for row in rows)])
    return rows


def resolve_doomed(
    store: Store,
    wanted: Sequence[str],
    project: str | None,
    *,
    purge: bool,
    reach: names.Reach = "change",
    parts: bool = False,
) -> dict[str, Document]:
    """Return the named documents by id; for a purge, also those in the trash.

    ``reach`` says whether the names may refer to other projects, ``parts`` whether one passage may
    stand for its whole document although that has others.

    Raises:
        NotFound: One of the names is unknown.
        AmbiguousId: Several documents have it; the message lists them.
        UsageError: It names one passage of several; the code is "one_passage".
    """
    trash = store.trashed(texts=False) if purge else []
    doomed = [
        row for name in wanted for row in _with_trash(store, name, project, trash, reach, parts)
    ]
    return {document.id: document for document in doomed}


def _with_trash(
    store: Store,
    name: str,
    project: str | None,
    trash: Sequence[Trashed],
    reach: names.Reach,
    parts: bool,
) -> list[Document]:
    """Return what a name refers to, in the memory and in the trash, of one project only."""
    rows = trash_rules.named(trash, clean(name), project)
    if not rows and reach == "everything":
        rows = trash_rules.matching(trash, clean(name))
    older = [row.document for row in rows]
    try:
        document, passage = resolve(store, name, project, reach)
    except NotFound:
        if older:
            return older
        raise
    if passage is not None and not parts:
        _refuse_part(store, name, document)
    if older and older[0].project == project != document.project:
        return older  # the project's own hides the personal one, in the trash too
    return [document, *(row for row in older if row.project == document.project)]


def _refuse_part(store: Store, name: str, document: Document) -> None:
    """Refuse the name of a passage if more than this passage would go."""
    more = ""
    if document.kind == "entity":
        facts = len(store.scan(EVERYTHING._replace(parents=(document.id,))))
        known = "1 fact" if facts == 1 else f"{facts:,} facts"
        more = f"is the profile of an entity with {known}" if facts else ""
    elif document.chunk_count > 1:
        more = f"is one of the {document.chunk_count:,} passages of a {document.kind}"
    if more:
        raise UsageError(
            f"'{name}' {more}, and cannot be deleted alone. Nothing was deleted.",
            code="one_passage",
            subject=document.id,
            advice=advise("delete_document", id=document.id),
        )


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
        belonging = EVERYTHING._replace(parents=entities)
        doomed.update({row.id: row for row in store.scan(belonging)})
    return Deleted(
        tuple(row.doc_id for row in doomed.values()),
        tuple(doomed),
        sum(row.chunk_count for row in doomed.values()),
    )
