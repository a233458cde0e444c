"""Undo an import: delete the messages that it brought, and only those."""

from collections.abc import Iterator

from plait.agents.importing import LIVE, RUN_FIELD
from plait.agents.ledger import Ledger, token_of
from plait.errors import NotFound
from plait.memory import Memory
from plait.types import Document
from plait.types.audit import acting
from plait.types.ids import AGENT_FIELD


def undo_import(
    memory: Memory, run: str | None = None, *, dry_run: bool = False
) -> tuple[str, int]:
    """Delete the messages of an import; return its name and how many.

    By default it is the latest one of which anything is left. What hooks saved is none: name it.

    They are in the trash for 30 days like all that is deleted, and if they are restored, the import
    can be undone again. The next import of the same files brings them again.

    Raises:
        NotFound: There is no such import, or nothing is left to undo.
    """
    ledger = Ledger(memory.engine)
    runs = ledger.runs()
    listed = [name for name in runs if not name.startswith(LIVE)]
    for chosen in reversed(listed if run is None else [run]):
        doomed = list(_messages_of(memory, ledger, chosen)) if chosen in runs else []
        if doomed or (chosen == run and run in runs and not ledger.undone(run)):
            break
    else:
        left = [name for name in runs if (run or name in listed) and not ledger.undone(name)]
        known = f" There are: {', '.join(left)}." if left else " No import is left to undo."
        known = known if run else " No sessions were imported, or all of them are undone."
        raise NotFound(
            (f"There is no import named '{run}'." if run else "There is no import to undo.")
            + known,
            code="no_import",
            subject=run or "",
        )
    if dry_run:
        return chosen, len(doomed)
    # First what is known of them: if the rest is interrupted, it can be undone and imported again.
    memory._check_writable()
    with memory.engine.transaction() as transaction:
        ledger.reload()
        gone = [(document.session or "", token) for document, token in doomed]
        transaction.remember(**ledger.without_run(chosen, gone))
    if doomed:
        # In the order in which they were indexed, the keyword index drops each from the front of
        # its lists: that takes about half the time.
        rows = sorted((document for document, _ in doomed), key=_indexed)
        with acting("undo"):
            memory._deleted({document.id: document for document in rows})
    return chosen, len(doomed)


def _indexed(message: Document) -> tuple[int, str, int]:
    return message.indexed_at, message.session or "", message.turn or 0


def _messages_of(memory: Memory, ledger: Ledger, run: str) -> Iterator[tuple[Document, str]]:
    """Yield what is left of the messages that a run brought, each with its token.

    Anyone can write the name of a run into the metadata of a message. That it was imported, only
    the ledger tells.
    """
    where = {"metadata": {RUN_FIELD: run}, "kinds": ("message",)}
    named = memory.delete(where=where, all_projects=True, dry_run=True).ids
    undone = ledger.undone(run)
    for document in memory.engine.load(list(named)):
        token = token_of(document.metadata.get(AGENT_FIELD, ""), document.key or "")
        if token in undone or ledger.owner(token) == document.session:
            yield document, token
