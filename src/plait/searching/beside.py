"""What a recall shows beside its hits: replies, what is pinned, the passages around, the past."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from plait.facts.versions import MOST_EARLIER, count_earlier
from plait.protocols import ReadAhead, Store
from plait.searching.conversations import REPLY_WITHIN, is_last_word, with_replies
from plait.searching.pinned import MOST_PINNED, pinned_hits, pinned_ones
from plait.searching.recall import span_of, surroundings
from plait.types import Answer, Filter, Passage
from plait.types.ids import AGENT_FIELD
from plait.types.records import NamedTuple


class RecallParts(NamedTuple):
    """All hits that a recall shows, and what it shows beside them.

    ``around`` has the passages around each hit, ``earlier`` how many documents came before one.
    """

    hits: Answer
    around: Sequence[Sequence[Passage]] = ()
    earlier: Mapping[str, int] = {}


@contextmanager
def one_question(store: Store | None, sizes: Collection[int]) -> Iterator[ReadAhead | None]:
    """Let searches for these numbers of hits be those of one question: nothing is read twice."""
    ahead = None if store is None else store.ahead
    if ahead is None:
        yield None
        return
    ahead.kept, ahead.sizes, ahead.reads_beside = 1, sizes, True
    with ahead.shared():
        yield ahead


def expect_pinned(ahead: ReadAhead | None, where: Filter) -> None:
    """Read what is pinned with the search."""
    if ahead is not None:
        ahead.expect_pinned(pinned_ones(where), MOST_PINNED)


def with_beside(
    store: Store | None, ahead: ReadAhead | None, answer: Answer, where: Filter, budget: int
) -> RecallParts:
    """Return the hits of a search with what belongs to them.

    Args:
        store: The memory; ``None`` if there is none yet.
        ahead: What the search has read ahead.
        answer: The hits.
        where: Which documents count.
        budget: Maximum number of tokens of the text.
    """
    if store is None:
        return RecallParts(answer)
    if ahead is not None:
        _read_beside(ahead, answer, where)
    if any(hit.document.turn is not None for hit in answer):
        answer = with_replies(store, answer, where, ahead)
    pinned = pinned_hits(store, answer, where, budget, ahead)
    first = {hit.document.id for hit in pinned}
    rest = [hit for hit in answer if hit.document.id not in first]
    around = surroundings(store, pinned, rest, ahead)
    answer = Answer([*pinned, *rest], answer.receipt)
    replacing = [hit.document for hit in answer if hit.document.supersedes is not None]
    known = {} if ahead is None else ahead.earlier()
    missing = [document for document in replacing if document.id not in known]
    counted = {id_: count for id_, count in known.items() if count}
    earlier = {**counted, **(count_earlier(store, missing) if missing else {})}
    return RecallParts(answer, around, earlier)


def _read_beside(ahead: ReadAhead, answer: Answer, where: Filter) -> None:
    """Read all that is asked for next in one trip."""
    documents = [*(hit.document for hit in answer), *(row for row, _ in ahead.pinned())]
    messages = [
        hit.document.id for hit in answer if hit.document.turn is not None and not is_last_word(hit)
    ]
    imported = [document.id for document in documents if AGENT_FIELD in document.metadata]
    replacing = [document.id for document in documents if document.supersedes is not None]
    spans = [span_of(hit) for hit in answer if hit.document.chunk_count > 1]
    most = REPLY_WITHIN, MOST_EARLIER
    ahead.beside(spans, messages, imported, where, replacing, most)
