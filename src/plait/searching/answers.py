"""Messages around candidates: what they lend to each other, and answers that no branch lists.

An answer may share nothing with what was asked, so that neither words nor meaning find it.

Loaded only for a memory with messages.
"""

from collections.abc import Iterator, Mapping

from plait.protocols import Replies, Store
from plait.ranking.hybrid import ANSWER_SHARE, Fused, lend
from plait.searching.readable import readable_passages
from plait.types import Filter, Hit, Ref
from plait.types.queries import Query, Turn
from plait.types.records import NamedTuple

QUESTIONS_FOLLOWED = 5  # the best ones
_AFTER_EVERY_ID = "~"


class Conversation(NamedTuple):
    """The places of the candidates that are messages, and what comes after their questions."""

    turns: dict[Ref, Turn]
    replies: Replies


def with_turns(
    store: Store,
    query: Query,
    where: Filter,
    fused: dict[Ref, Fused],
    known: Conversation | None,
) -> dict[Ref, Fused]:
    """Return the candidates with what the messages around them lend; ``known`` was read before."""
    if not fused:
        return fused
    turns = store.turns([*fused]) if known is None else known.turns
    if not query.strict:
        replies = None if known is None else known.replies
        fused, turns = with_answers(store, where, fused, turns, replies)
    return lend(fused, turns)


def with_answers(
    store: Store,
    where: Filter,
    fused: Mapping[Ref, Fused],
    turns: Mapping[Ref, Turn],
    replies: Replies | None = None,
) -> tuple[dict[Ref, Fused], dict[Ref, Turn]]:
    """Return the candidates with the messages that follow the best questions among them.

    ``replies`` has those of all candidates, if they were read already.
    """
    candidates, places = dict(fused), dict(turns)
    known = {(turn.session, turn.number) for turn in turns.values()}
    asked = sorted(
        (ref for ref, turn in turns.items() if turn.asks), key=lambda ref: -fused[ref].score
    )
    for ref in asked[:QUESTIONS_FOLLOWED]:
        turn = turns[ref]
        if (turn.session, turn.number + 1) in known or not fused[ref].score:
            continue
        following = _following(store, where, turn) if replies is None else replies.get(ref, ())
        for place, reply in following:
            candidates[place] = fused[ref]._replace(score=0.0, keyword=None, vector=None)
            places[place] = reply
    return candidates, places


def _following(store: Store, where: Filter, turn: Turn) -> Iterator[tuple[Ref, Turn]]:
    """Return the message after one, if it is a whole one, and its place."""
    project, _, session = turn.session.partition("\0")
    home = where._replace(session=session, projects=(project or None,))
    after = (turn.number, _AFTER_EVERY_ID)
    damaged: list[str] = []  # told by `get` and `doctor`
    for reply in store.scan(home, by_turn=True, after=after, limit=1, damaged=damaged):
        if reply.turn != turn.number + 1 or reply.chunk_count != 1:
            continue
        for passage in readable_passages(store, reply.id, 0, 0, damaged):
            yield passage.ref, Turn.of(turn.session, reply.turn, passage.text)


def answering(hits: list[Hit]) -> list[Hit]:
    """Return the hits; the message after a question is as relevant as that, but for a share."""
    asked = {
        (row.project, row.session, row.turn + 1): hit.relevance * ANSWER_SHARE
        for hit in hits
        if (row := hit.document).turn is not None and Turn.of("", row.turn, hit.text).asks
    }
    if not asked:
        return hits
    inherited = [
        asked.get((row.project, row.session, row.turn or 0), 0.0)
        for row in (hit.document for hit in hits)
    ]
    return [
        hit._replace(relevance=max(hit.relevance, share))
        for hit, share in zip(hits, inherited, strict=True)
    ]
