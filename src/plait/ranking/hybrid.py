"""Score the candidates of a hybrid search. Pure arithmetic, without stores, text or clocks.

The steps, in the order in which a search takes them:

1. Fusion merges the keyword and the vector ranking into one score in 0..1. `weighted` is the
   default; `rrf` and `max_fusion` are the merges of mcp-memory and hybrid-memory.
2. Neighbours: each message adds a share of its score to the messages around it.
3. A second look at the best candidates raises those with a sentence that says the same, and those
   that contain more of the query's words, by themselves or with what is around them.
4. Relevance measures the evidence for a candidate, independent of the others.
"""

import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import TypeVar

from plait.types import Ref
from plait.types.queries import Turn
from plait.types.records import NamedTuple

_Item = TypeVar("_Item", bound=Hashable)

# How rare each word of a query is.
Rarities = dict[str, float]
# The messages of one conversation by their places: the score of each, and whether it asks.
_ByNumber = dict[int, tuple[float, bool, Ref]]

# Cormack, Clarke & Büttcher, SIGIR 2009: k = 60 was near-optimal and not critical.
RRF_K = 60
# BM25 of common words alone is noise. Below this share of what one rare word could attain, the
# keyword signal loses weight in proportion, and vectors decide.
ATTAINABLE_SHARE = 0.1
# Keyword hits that contain less than this share of the query lose weight in proportion; the best of
# the first few decides. From benchmarks/quality.md: more costs Chinese, Thai and Hindi.
ENOUGH_COVERAGE = 0.4
JUDGED_BY = 10
MAX_KEYWORD_WEIGHT = 0.3
MAX_VECTOR_WEIGHT = 0.7
# Share of a score that goes to the messages one and two places away, on both sides. From
# benchmarks/quality.md, like all numbers below.
NEIGHBOUR_SHARES = (0.15, 0.15)
# An answer need not repeat a word of what was asked: the message after a question gets more of its
# score, and a question whose answer is known too is rarely what is looked for.
ANSWER_SHARE = 0.6
QUESTION_PENALTY = 0.15
# Only the first candidates get a second look, which reads their text: 12 loses 0.001, 30 gains
# nothing.
RERANKED = 20
# Added to the score of a candidate with a sentence that has every word of the query, or one that
# means the same.
SENTENCE_BOOST = 0.3
# The best of them are sorted once more by the words they contain: 10 to 50 do about as well, but
# further down many words are a matter of length.
COVERED = 10
# Added to the score of a candidate that contains every word of the query: 0.2 to 0.4 do about as
# well. Words that only other passages of its document contain count as much, those that only the
# messages around it contain count half.
COVERAGE_BOOST = 0.3
AROUND_SHARE = 0.5


# subtle: a search makes hundreds of `Fused`, and calling the class takes three times as long.
_new = tuple.__new__


class Fused(NamedTuple):
    """The score of a candidate and the parts that add up to it.

    The part of a signal is its value times its share; ``None`` is a signal that was absent.
    The last three are the parts from messages around it, from the query's words that it contains,
    and from its best sentence.
    """

    score: float
    keyword: float | None
    vector: float | None
    keyword_share: float = 1.0
    vector_share: float = 1.0
    neighbours: float = 0.0
    cover: float = 0.0
    sentence: float = 0.0


def _raised(
    candidates: Iterable[Fused], neighbours: Iterable[float], largest: float
) -> Iterator[Fused]:
    """Add what the messages around each one lend, and divide the scores and their parts."""
    for row, lent in zip(candidates, neighbours, strict=False):
        score, keyword, vector, keyword_share, vector_share, before, cover, sentence = row
        yield _new(
            Fused,
            (
                (score + lent) / largest,
                keyword,
                vector,
                keyword_share / largest,
                vector_share / largest,
                (lent or before) / largest,
                cover / largest,
                sentence / largest,
            ),
        )


# -- fusion --------------------------------------------------------------------------------


def weighted(
    keyword: Sequence[tuple[_Item, float]] | None,
    cosines: Mapping[_Item, float] | None,
    candidates: Sequence[_Item],
    *,
    keyword_weight: float,
    vector_weight: float,
    attainable: float = 0.0,
    covered: float = 1.0,
) -> dict[_Item, Fused]:
    """Divide both signals by their maximum and add them by weight, for every candidate.

    Every candidate is scored by both signals, so that a passage that only one branch listed does
    not suffer from the other's short list.

    Args:
        keyword: BM25 of the keyword branch's candidates; the others count 0.
        cosines: Cosine of every candidate that has a vector; a candidate whose vector is still
            pending gets the median, so that it keeps its place.
        candidates: The union of both branches.
        keyword_weight: Share of the keyword signal.
        vector_weight: Share of the vector signal.
        attainable: BM25 that one rare word could reach; separates weak keywords from strong ones.
        covered: The `coverage` of the best keyword hits; words in another language than the
            passages, or vague ones, cover little.
    """
    bm25 = dict(keyword or ())
    top = max(bm25.values(), default=0.0)
    enough = attainable * ATTAINABLE_SHARE
    strength = top / enough if 0.0 < top < enough else 1.0
    strength *= min(1.0, covered / ENOUGH_COVERAGE)
    # subtle: `max` for each of hundreds of candidates takes three times as long.
    positive = {item: cosine if cosine > 0.0 else 0.0 for item, cosine in (cosines or {}).items()}
    bm25 = {item: score if score > 0.0 else 0.0 for item, score in bm25.items()}
    nearest = max(positive.values(), default=0.0)
    has_keyword, has_vector = bool(bm25) and top > 0.0, nearest > 0.0
    pending = sorted(positive.values())[(len(positive) - 1) // 2] if has_vector else 0.0
    share_k = keyword_weight * strength if has_keyword else 0.0
    share_v = vector_weight if has_vector else 0.0
    if not share_k + share_v:
        # Only a signal of weight 0 has scores: its order is still better than none.
        share_k, share_v = float(has_keyword), float(has_vector)
    total = (share_k + share_v) or 1.0
    fused: dict[_Item, Fused] = {}
    part_k, part_v = share_k / total, share_v / total
    for item in candidates:
        by_keyword = bm25.get(item, 0.0) / top if has_keyword else None
        by_vector = positive.get(item, pending) / nearest if has_vector else None
        mixed = share_k * (by_keyword or 0.0) + share_v * (by_vector or 0.0)
        row = (mixed / total, by_keyword, by_vector, part_k, part_v, 0.0, 0.0, 0.0)
        fused[item] = _new(Fused, row)
    return fused


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[_Item]], *, k: int = RRF_K
) -> dict[_Item, float]:
    """Sum ``1 / (k + rank)`` over the rankings that list an item; ranks start at 1.

    >>> scores = reciprocal_rank_fusion([["a", "b"], ["b", "c"]], k=1)
    >>> {item: round(score, 4) for item, score in scores.items()}
    {'a': 0.5, 'b': 0.8333, 'c': 0.3333}
    """
    scores: dict[_Item, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, start=1):
            scores[item] = scores.get(item, 0.0) + 1.0 / (k + rank)
    return scores


def rrf(
    keyword: Sequence[tuple[_Item, float]] | None,
    vector: Sequence[tuple[_Item, float]] | None,
    *,
    k: int = RRF_K,
) -> dict[_Item, Fused]:
    """Fuse by reciprocal rank, divided by the score of an item that is first in every ranking.

    ``None`` is a branch that did not run; an empty one ran and has no hits.
    """
    lists = [branch for branch in (keyword, vector) if branch is not None]
    rankings = [[item for item, _ in branch] for branch in lists]
    best = len(rankings) / (k + 1)
    parts = [reciprocal_rank_fusion([ranking], k=k) for ranking in rankings]
    fused: dict[_Item, Fused] = {}
    for item, score in reciprocal_rank_fusion(rankings, k=k).items():
        shares = [part.get(item, 0.0) / best for part in parts]
        first = shares[0] if keyword is not None else None
        second = shares[-1] if vector is not None else None
        fused[item] = Fused(score / best, first, second)
    return fused


def max_fusion(
    keyword: Sequence[tuple[_Item, float]] | None,
    vector: Sequence[tuple[_Item, float]] | None,
    *,
    keyword_weight: float = MAX_KEYWORD_WEIGHT,
    vector_weight: float = MAX_VECTOR_WEIGHT,
) -> dict[_Item, Fused]:
    """Divide each branch by its maximum and add by weight; an item that a branch lacks counts 0.

    This is exactly the merge of hybrid-memory.
    """
    by_keyword = _by_maximum(keyword or ())
    by_vector = _by_maximum([(item, cosine) for item, cosine in vector or () if cosine > 0.0])
    fused: dict[_Item, Fused] = {}
    for item in dict.fromkeys([*by_keyword, *by_vector]):
        first, second = by_keyword.get(item), by_vector.get(item)
        score = keyword_weight * (first or 0.0) + vector_weight * (second or 0.0)
        fused[item] = Fused(score, first, second, keyword_weight, vector_weight)
    return fused


def _by_maximum(scores: Sequence[tuple[_Item, float]]) -> dict[_Item, float]:
    """Divide scores by the largest, unless that is not positive."""
    top = max((score for _, score in scores), default=0.0)
    return {item: score / top if top > 0.0 else score for item, score in scores}


# -- neighbours ----------------------------------------------------------------------------


def lend(fused: Mapping[Ref, Fused], turns: Mapping[Ref, Turn]) -> dict[Ref, Fused]:
    """Add a share of the scores of the messages one and two turns away in the same session.

    The answer in a conversation often shares no word with the question: the message before it
    asked, or the message after it names the subject. A gap in the numbering is a gap in the
    conversation. Scores stay in 0..1 and keep their order: where one exceeds 1, all are divided by
    the largest.

    Args:
        fused: The candidates.
        turns: The place of each candidate that is a whole message; no two messages share one. The
            other candidates neither give nor get a share.
    """
    sessions: dict[str, _ByNumber] = {}
    for ref, (name, number, asks) in turns.items():
        if ref in fused:
            sessions.setdefault(name, {})[number] = fused[ref].score, asks, ref
    extras: dict[Ref, float] = {}
    for session in sessions.values():
        if len(session) > 1:
            extras |= _lent(session)
    if not extras:
        return dict(fused)
    lent = [extras.get(ref, 0.0) for ref in fused]
    sums = [row.score + extra for row, extra in zip(fused.values(), lent, strict=True)]
    largest = max(1.0, *sums)
    return dict(zip(fused, _raised(fused.values(), lent, largest), strict=True))


def _lent(session: _ByNumber) -> dict[Ref, float]:
    """Return what the messages around each one lend to it; a question with an answer has a penalty.

    A question that nothing around it supports does not fall below nothing.
    """
    near, far = NEIGHBOUR_SHARES
    at, extras = session.get, {}
    for number, (score, asks, ref) in session.items():
        # subtle: a loop over the places takes twice as long, for hundreds of messages.
        first, before, after, last = at(number - 2), at(number - 1), at(number + 1), at(number + 2)
        if not (first or before or after or last):
            continue  # as most candidates stand alone
        total = -QUESTION_PENALTY if asks and after else 0.0
        by_question = before[0] * (ANSWER_SHARE if before[1] else near) if before else 0.0
        total += by_question + (after[0] * near if after else 0.0)
        total += (first[0] * far if first else 0.0) + (last[0] * far if last else 0.0)
        if total:
            extras[ref] = max(total, -score)
    return extras


# -- coverage ------------------------------------------------------------------------------


def idf(passages: int, containing: int) -> float:
    """Return the rarity of a word: near 0 for one that every passage contains."""
    return math.log1p((max(passages, containing) - containing + 0.5) / (containing + 0.5))


def rarities(words: Collection[str], passages: int, containing: Mapping[str, int]) -> Rarities:
    """Return the rarity of each word.

    Args:
        words: The query's words.
        passages: How many passages the memory has.
        containing: How many of them contain each word.
    """
    return {word: idf(passages, containing.get(word, 0)) for word in words}


def rarity(words: Rarities, containing: Mapping[str, int]) -> float:
    """Return the rarity of some words together; 0 if no passage contains any of them."""
    if not any(containing.get(word) for word in words):
        return 0.0
    # Words come in sets, whose order differs from process to process: an exact sum does not.
    return math.fsum(words.values())


def coverage(wanted: Rarities, matched: Collection[str]) -> float:
    """Return the share of the query's words that a passage contains, each weighted by its rarity.

    >>> round(coverage(rarities(["ssh", "the"], 100, {"ssh": 1, "the": 90}), ["ssh"]), 2)
    0.97

    Args:
        wanted: The query's words.
        matched: Those of them that the passage contains.
    """
    total = math.fsum(wanted.values())
    if not total:
        return 0.0
    return math.fsum([rare for word, rare in wanted.items() if word in matched]) / total


class SecondLook(NamedTuple):
    """What the text of a candidate told: shares of the query in 0..1.

    ``coverage`` is that of its own words, ``document`` and ``around`` that of its document's
    candidates and of the messages around it, together with its own, ``sentence`` that of its best
    sentence by meaning.
    """

    coverage: float
    document: float = 0.0
    around: float = 0.0
    sentence: float = 0.0

    @property
    def with_messages(self) -> float:
        """The share of its own words, and a part of that of the messages around it."""
        return self.coverage + AROUND_SHARE * max(0.0, self.around - self.coverage)


def rerank(ranked: Sequence[Fused], looks: Sequence[SecondLook]) -> list[Fused]:
    """Raise the first candidates by what their text told; keep the given order.

    BM25 lets one frequent word outweigh two that occur once, but a reader prefers the passage with
    all words; one vector per passage blurs what its best sentence says; and a note may answer with
    several passages. Where a score exceeds 1, all are divided by the largest.

    Args:
        ranked: The candidates, best first.
        looks: What the text of the first `RERANKED` told.
    """
    sums = list(ranked)
    for place, look in enumerate(looks[:RERANKED]):
        sentence = SENTENCE_BOOST * look.sentence
        score = ranked[place].score + sentence
        sums[place] = ranked[place]._replace(score=score, sentence=sentence)
    best = sorted(range(len(looks[:RERANKED])), key=lambda place: -sums[place].score)[:COVERED]
    for place in best:
        look = looks[place]
        cover = COVERAGE_BOOST * max(look.with_messages, look.document)
        sums[place] = sums[place]._replace(score=sums[place].score + cover, cover=cover)
    largest = max([1.0, *(candidate.score for candidate in sums)])
    return sums if largest == 1.0 else [*_raised(sums, repeat(0.0), largest)]


def attainable_bm25(passages: int, k1: float = 1.2) -> float:
    """Return the BM25 of a word that one passage alone contains, in a memory of this size."""
    return max(0.0, math.log((passages - 0.5) / 1.5)) * (k1 + 1.0) if passages > 2 else 0.0
