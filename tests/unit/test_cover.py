"""The last look at the best hits: more of the question's words, further up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.ranking.cover import FULL_COVER, LOOKED_AT, favour
from plait.ranking.fuse import Fused

SHARE = st.floats(0.0, 1.0)
RANKED = st.lists(st.tuples(SHARE, SHARE), max_size=30).map(
    lambda pairs: sorted(pairs, key=lambda pair: -pair[0])
)


def scores(pairs: list[tuple[float, float]]) -> list[float]:
    ranked = [Fused(score, score, None) for score, _ in pairs]
    return [one.score for one in favour(ranked, [covered for _, covered in pairs])]


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([(0.5, 0.0), (0.2, 0.0)], [0.5, 0.2], id="no word at all"),
        pytest.param([(0.5, 0.5), (0.4, 1.0)], [0.7, 0.8], id="all words beat half of them"),
        pytest.param([(1.0, 1.0), (0.7, 0.0)], [1.0, 0.5], id="never above 1"),
    ],
)
def test_words_add_to_the_score(pairs: list[tuple[float, float]], expected: list[float]) -> None:
    assert FULL_COVER == 0.4, "the figures of this table are made with it"
    assert scores(pairs) == pytest.approx(expected)


def test_only_the_first_ones_are_looked_at() -> None:
    pairs = [(0.5, 0.0)] * LOOKED_AT + [(0.5, 1.0)]
    assert scores(pairs) == [0.5] * (LOOKED_AT + 1)
    assert scores(pairs[1:]) == pytest.approx([0.5] * (LOOKED_AT - 1) + [0.9])


@given(RANKED)
def test_what_was_not_looked_at_never_passes_what_was(pairs: list[tuple[float, float]]) -> None:
    found = scores(pairs)
    assert found[LOOKED_AT:] == sorted(found[LOOKED_AT:], reverse=True)
    assert min(found[:LOOKED_AT], default=1.0) >= max(found[LOOKED_AT:], default=0.0) - 1e-12


@given(RANKED)
def test_every_score_lies_in_0_to_1_and_is_the_sum_of_its_parts(
    pairs: list[tuple[float, float]],
) -> None:
    ranked = [Fused(score, score, None, neighbours=0.0) for score, _ in pairs]
    for one in favour(ranked, [covered for _, covered in pairs]):
        assert 0.0 <= one.score <= 1.0
        own = (one.keyword or 0.0) * one.keyword_share
        assert own + one.neighbours + one.cover == pytest.approx(one.score)
