"""Messages around candidates: what they lend to each other, and answers that no branch lists.

An answer may share nothing with what was asked, so that neither words nor meaning find it.

Loaded only for a memory with messages.
"""

from collections.abc import Mapping

from plait.errors import StoreDamaged
from plait.protocols import Replies, Store
from plait.ranking.hybrid import ANSWER_SHARE, Fused, lend
from plait.types import Filter, Hit, Ref
from plait.types.queries import Query, Turn
from plait.types.records import NamedTuple

QUESTIONS_FOLLOWED = 5  # the best ones


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
    open_ones = [
        ref
        for ref in asked[:QUESTIONS_FOLLOWED]
        if (turns[ref].session, turns[ref].number + 1) not in known and fused[ref].score
    ]
    if open_ones and replies is None:
        try:
            replies = store.replies(open_ones, where)
        except StoreDamaged:
            replies = {}  # told by `get` and `doctor`
    for ref in open_ones:
        for place, reply in (replies or {}).get(ref, ()):
            candidates[place] = fused[ref]._replace(score=0.0, keyword=None, vector=None)
            places[place] = reply
    return candidates, places


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
        hit._replace(relevance=share) if share > hit.relevance else hit
        for hit, share in zip(hits, inherited, strict=True)
    ]
