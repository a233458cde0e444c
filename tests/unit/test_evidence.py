"""Relevance: absolute, in 0..1, and independent of the other hits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.ranking.evidence import attainable_bm25, coverage, idf, relevance
from plait.types import Tuning

SHARES = st.floats(0.0, 1.0)
COSINES = st.none() | st.floats(-1.0, 1.0)
TUNING = Tuning(floor=0.2, ceiling=0.8)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_rarer_word_tells_more_and_every_word_tells_something(
    passages: int, holding: int
) -> None:
    assert idf(passages, holding) > 0.0
    assert idf(passages, holding) >= idf(passages, holding + 1)


def test_counts_that_lag_behind_do_no_harm() -> None:
    # The count of passages may be older than that of the term, in another process's write.
    assert idf(3, 10) == idf(10, 10)


@pytest.mark.parametrize(
    ("found", "share"),
    [((), 0.0), (("rare", "common"), 1.0), (("rare", "common", "unasked"), 1.0)],
)
def test_coverage_is_the_share_of_the_words_found(found: tuple[str, ...], share: float) -> None:
    assert coverage(["rare", "common"], found, 100, {"rare": 1, "common": 60}) == share


def test_a_rare_word_covers_more_than_a_common_one() -> None:
    holding = {"rare": 1, "common": 60}
    rare = coverage(["rare", "common"], ["rare"], 100, holding)
    common = coverage(["rare", "common"], ["common"], 100, holding)
    assert rare + common == pytest.approx(1.0)
    assert rare > 0.8


def test_a_query_without_words_covers_nothing() -> None:
    assert coverage([], ["a"], 10, {}) == 0.0


@pytest.mark.parametrize(
    ("covered", "cosine", "expected"),
    [
        (0.0, None, 0.0),
        (0.4, None, 0.4),
        (0.0, 0.2, 0.0),
        (0.0, 0.8, 1.0),
        (0.0, 0.95, 1.0),
        (0.0, -1.0, 0.0),
        (0.0, 0.5, 0.5),
        (0.5, 0.5, 0.75),
        (1.0, 0.0, 1.0),
    ],
)
def test_either_signal_convinces_and_two_weak_ones_add_up(
    covered: float, cosine: float | None, expected: float
) -> None:
    assert relevance(covered, cosine, TUNING) == pytest.approx(expected)


@given(SHARES, COSINES)
def test_relevance_lies_in_0_to_1_and_is_at_least_the_coverage(
    covered: float, cosine: float | None
) -> None:
    assert covered - 1e-12 <= relevance(covered, cosine, TUNING) <= 1.0


@given(SHARES, st.floats(-1.0, 1.0), st.floats(0.0, 0.5))
def test_more_evidence_never_lowers_relevance(covered: float, cosine: float, more: float) -> None:
    before = relevance(covered, cosine, TUNING)
    assert relevance(min(1.0, covered + more), cosine, TUNING) >= before - 1e-12
    assert relevance(covered, min(1.0, cosine + more), TUNING) >= before - 1e-12


def test_an_embedder_whose_floor_is_its_ceiling_is_a_step() -> None:
    step = Tuning(floor=0.5, ceiling=0.5)
    assert relevance(0.0, 0.4, step) == 0.0
    assert relevance(0.0, 0.6, step) == 1.0


@pytest.mark.parametrize("passages", [0, 1, 2, 3])
def test_in_a_tiny_memory_nothing_bounds_the_divisor(passages: int) -> None:
    assert 0.0 <= attainable_bm25(passages) < 2.0


@given(st.integers(3, 10**7))
def test_what_a_word_could_attain_grows_with_the_memory(passages: int) -> None:
    assert attainable_bm25(passages + 1) > attainable_bm25(passages) > 0.0
