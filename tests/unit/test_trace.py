"""The reasons of a hit: readable, and they add up to its score."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.ranking.fuse import Fused, rrf, seed001, weighted
from plait.ranking.trace import explain
from plait.types import Fusion, Signals

NAMES = st.sampled_from("abcdef")
KEYWORD = st.none() | st.dictionaries(NAMES, st.floats(0.01, 50.0), max_size=6)
COSINES = st.none() | st.dictionaries(NAMES, st.floats(0.01, 1.0), max_size=6)
FUSIONS = st.sampled_from(["weighted", "rrf", "seed001"])


def added_up(lines: tuple[str, ...]) -> float:
    """What a reader gets who adds the contributions with a pencil."""
    total = 0.0
    for line in lines:
        if line.startswith(("keyword ", "vector ", "neighbours ", "words ")):
            numbers = line.split(" (")[0].split(" ")
            total += float(numbers[-1])
            if len(numbers) > 2:
                value, share = float(numbers[1]), float(numbers[3])
                assert value * share == pytest.approx(float(numbers[-1]), abs=0.006)
    return total


def fuse(
    fusion: Fusion,
    keyword: dict[str, float] | None,
    cosines: dict[str, float] | None,
    weights: tuple[float, float],
) -> dict[str, Fused]:
    ranked = None if keyword is None else sorted(keyword.items(), key=lambda pair: -pair[1])
    near = None if cosines is None else sorted(cosines.items(), key=lambda pair: -pair[1])
    if fusion == "rrf":
        return rrf(ranked, near)
    if fusion == "seed001":
        return seed001(ranked, near, keyword_weight=weights[0], vector_weight=weights[1])
    return weighted(
        ranked,
        cosines,
        list(dict.fromkeys([*(keyword or ()), *(cosines or ())])),
        keyword_weight=weights[0],
        vector_weight=weights[1],
    )


@given(FUSIONS, KEYWORD, COSINES, st.sampled_from([0.0, 0.25, 0.3, 0.5, 0.6, 1.0]))
def test_the_contributions_add_up_to_the_score(
    fusion: Fusion,
    keyword: dict[str, float] | None,
    cosines: dict[str, float] | None,
    weight: float,
) -> None:
    for one in fuse(fusion, keyword, cosines, (weight, 1.0 - weight)).values():
        lines = explain(one, 0.5, Signals(bm25=1.0, cosine=0.5))
        [total] = [line for line in lines if line.startswith("score ")]
        assert float(total.split()[1]) == pytest.approx(one.score, abs=1e-4)
        assert added_up(lines) == pytest.approx(one.score, abs=2e-4)


@pytest.mark.parametrize(
    ("signals", "said"),
    [
        (
            Signals(keyword=1.0, bm25=3.25, keyword_rank=2, vector=0.5, cosine=0.4, vector_rank=7),
            ["keyword 1.0000 x 0.6000 = 0.6000 (bm25 3.250, rank 2)",
             "vector 0.5000 x 0.4000 = 0.2000 (cosine 0.400, rank 7)"],
        ),
        (
            Signals(keyword=0.0, vector=1.0, cosine=0.9, vector_rank=1),
            ["keyword 0.0000 x 0.6000 = 0.0000 (not among the keyword candidates)",
             "vector 1.0000 x 0.4000 = 0.4000 (cosine 0.900, rank 1)"],
        ),
        (
            Signals(keyword=1.0, bm25=1.0, keyword_rank=1, vector=0.5, cosine=0.4),
            ["keyword 1.0000 x 0.6000 = 0.6000 (bm25 1.000, rank 1)",
             "vector 0.5000 x 0.4000 = 0.2000 (cosine 0.400, not among the vector candidates)"],
        ),
        (
            Signals(keyword=1.0, bm25=1.0, keyword_rank=1, vector=0.5),
            ["keyword 1.0000 x 0.6000 = 0.6000 (bm25 1.000, rank 1)",
             "vector 0.5000 x 0.4000 = 0.2000 (vector pending: median of the others)"],
        ),
        (
            Signals(keyword=1.0, bm25=1.0, keyword_rank=1),
            ["keyword 1.0000 (bm25 1.000, rank 1)"],
        ),
        (Signals(), []),
    ],
)  # fmt: skip
def test_each_line_names_its_signal_and_where_it_came_from(
    signals: Signals, said: list[str]
) -> None:
    alone = signals.vector is None
    fused = Fused(0.5, signals.keyword, signals.vector, 1.0 if alone else 0.6, 0.4)
    lines = explain(fused, 0.9, signals)
    assert [line for line in lines if re.match("keyword|vector", line)] == said


def test_what_neighbours_and_words_added_is_told_before_the_score() -> None:
    fused = Fused(0.75, 0.5, None, 0.8, neighbours=0.1, cover=0.25)
    lines = explain(fused, 0.9, Signals(keyword=0.5, bm25=1.0, keyword_rank=1, coverage=0.625))
    assert lines[1:4] == (
        "neighbours 0.1000 (messages before and after it)",
        "words 0.2500 (62% of the question's, by rarity)",
        "score 0.7500",
    )
    assert added_up(lines) == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("matched", "words"), [((), "words found none (0%)"), (("key", "ssh"), "words found key, ssh")]
)
def test_the_last_line_tells_the_evidence(matched: tuple[str, ...], words: str) -> None:
    signals = Signals(keyword=1.0, matched=matched, coverage=0.5 if matched else 0.0)
    lines = explain(Fused(1.0, 1.0, None), 0.25, signals)
    assert lines[-1].startswith("relevance 0.25")
    assert words in lines[-1]
