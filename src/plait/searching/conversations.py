"""Read what was said in a session, in its order."""

from collections.abc import Sequence

from plait.facts.names import Named
from plait.protocols import Store
from plait.ranking.hybrid import NEIGHBOUR_SHARES
from plait.searching.readable import load_readable
from plait.types import Answer, Document, Filter, Hit

# No document of a session has a later place.
_THE_END = (2**63 - 1, "")


def here(store: Store, where: Filter, project: str | None) -> Filter:
    """Return a filter for the session of this project; the personal one if this has no such.

    One name in two projects is two sessions. As with other names, the project's hides the other.
    """
    if project is None or where.session is None or where.projects != (None, project):
        return where
    own = where._replace(projects=(project,))
    is_spoken = store.scan(own._replace(kinds=("message",)), limit=1, by_turn=True)
    return own if is_spoken else where


def conversation(
    store: Store, where: Filter, last: int | None, damaged: list[str] | None = None
) -> list[Document]:
    """Return messages whole, in the order of their turns; with ``last`` only so many at the end."""
    if last is None:
        heads = store.scan(where, by_turn=True, damaged=damaged)
    else:
        heads = store.scan(where, by_turn=True, before=_THE_END, limit=last, damaged=damaged)[::-1]
    return load_readable(store, [head.id for head in heads], damaged)


def with_replies(store: Store, answer: Answer, where: Filter) -> Answer:
    """Return an answer in which each message is followed by the next turn, if that is one passage.

    A reply often shares no word with its question, and then has no evidence of its own. A gap in
    the numbering is a gap in the conversation.
    """
    known = {hit.document.id for hit in answer}
    hits: list[Hit] = []
    for hit in answer:
        hits.append(hit)
        document = hit.document
        if document.turn is None:
            continue
        home = where._replace(session=document.session, projects=(document.project,))
        for reply in store.scan(home, by_turn=True, after=document.place, limit=1):
            if reply.turn == document.turn + 1 and reply.chunk_count == 1 and reply.id not in known:
                known.add(reply.id)
                score = hit.score * NEIGHBOUR_SHARES[0]
                for passage in store.passages(reply.id):
                    hits.append(Hit(passage, reply, score, 0.0, hit.source, passage.text))
    return Answer(hits, answer.receipt)


def by_importance(rows: Sequence[Named]) -> list[tuple[int, Named]]:
    """Return documents with their places, in the order in which they are kept if some do not fit.

    Of a conversation its end is kept: a reader wants to go on from there.
    """
    places = list(enumerate(rows))
    messages = [row for row in places if _is_message(row)]
    return [*(row for row in places if not _is_message(row)), *reversed(messages)]


def _is_message(row: tuple[int, Named]) -> bool:
    _, (document, _) = row
    return document.kind == "message"
