"""Answers that neither branch lists, because they share nothing with what was asked.

Loaded only for a memory with messages.
"""

from collections.abc import Mapping

from plait.protocols import Store
from plait.ranking.hybrid import Fused
from plait.searching.readable import readable_passages
from plait.types import Filter, Ref
from plait.types.queries import Turn

QUESTIONS_FOLLOWED = 5  # the best ones
_AFTER_EVERY_ID = "~"


def with_answers(
    store: Store, where: Filter, fused: Mapping[Ref, Fused], turns: Mapping[Ref, Turn]
) -> tuple[dict[Ref, Fused], dict[Ref, Turn]]:
    """Return the candidates with the messages that follow the best questions among them."""
    candidates, places = dict(fused), dict(turns)
    known = {(turn.session, turn.number) for turn in turns.values()}
    asked = sorted(
        (ref for ref, turn in turns.items() if turn.asks), key=lambda ref: -fused[ref].score
    )
    for ref in asked[:QUESTIONS_FOLLOWED]:
        turn = turns[ref]
        if (turn.session, turn.number + 1) in known or not fused[ref].score:
            continue
        project, _, session = turn.session.partition("\0")
        home = where._replace(session=session, projects=(project or None,))
        after = (turn.number, _AFTER_EVERY_ID)
        damaged: list[str] = []  # told by `get` and `doctor`
        for reply in store.scan(home, by_turn=True, after=after, limit=1, damaged=damaged):
            if reply.turn != turn.number + 1 or reply.chunk_count != 1:
                continue
            for passage in readable_passages(store, reply.id, 0, 0, damaged):
                nothing = fused[ref]._replace(score=0.0, keyword=None, vector=None)
                candidates[passage.ref] = nothing
                places[passage.ref] = Turn.of(turn.session, reply.turn, passage.text)
    return candidates, places
