"""What neighbouring messages lend each other: only within a session, and never out of 0..1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.ranking.context import SHARES, beside, lend
from plait.ranking.fuse import Fused

NEAR, FAR = SHARES
SCORES = st.dictionaries(st.integers(1, 12), st.floats(0.0, 1.0), max_size=12)
SESSIONS = st.dictionaries(st.integers(1, 12), st.sampled_from("ab"), max_size=12)


def candidates(scores: dict[int, float]) -> dict[int, Fused]:
    return {ref: Fused(score, score, None) for ref, score in scores.items()}


@pytest.mark.parametrize(
    ("refs", "found"),
    [
        ([], []),
        ([5], []),
        ([5, 6], [5, 6]),
        ([7, 5], [7, 5]),
        ([5, 8], []),
        ([1, 4, 6, 20], [4, 6]),
    ],
)
def test_only_refs_within_two_places_of_each_other_are_looked_up(
    refs: list[int], found: list[int]
) -> None:
    assert beside(refs) == found


@pytest.mark.parametrize(
    ("scores", "sessions", "expected"),
    [
        pytest.param({1: 0.4, 2: 0.2}, {1: "s", 2: "s"}, {1: 0.45, 2: 0.3}, id="next to it"),
        pytest.param({1: 0.4, 3: 0.2}, {1: "s", 3: "s"}, {1: 0.43, 3: 0.26}, id="two away"),
        pytest.param({1: 0.4, 4: 0.2}, {1: "s", 4: "s"}, {1: 0.4, 4: 0.2}, id="three away"),
        pytest.param({1: 0.4, 2: 0.2}, {1: "s", 2: "t"}, {1: 0.4, 2: 0.2}, id="other session"),
        pytest.param({1: 0.4, 2: 0.2}, {1: "s"}, {1: 0.4, 2: 0.2}, id="one is no message"),
        pytest.param({1: 0.4, 2: 0.2}, {}, {1: 0.4, 2: 0.2}, id="no messages"),
        pytest.param({1: 0.4}, {1: "s", 2: "s"}, {1: 0.4}, id="its neighbour is no candidate"),
        pytest.param({}, {}, {}, id="nothing"),
        pytest.param(
            {1: 0.1, 2: 0.2, 3: 0.4},
            dict.fromkeys((1, 2, 3), "s"),
            {1: 0.1 + 0.05 + 0.06, 2: 0.2 + 0.025 + 0.1, 3: 0.4 + 0.05 + 0.015},
            id="both sides",
        ),
    ],
)
def test_messages_of_one_session_lend_a_share_of_their_score(
    scores: dict[int, float], sessions: dict[int, str], expected: dict[int, float]
) -> None:
    assert (NEAR, FAR) == (0.25, 0.15), "the figures of this table are made with these"
    found = {ref: one.score for ref, one in lend(candidates(scores), sessions).items()}
    assert found == pytest.approx(expected)


def test_a_reply_without_the_words_passes_a_stranger_with_a_few() -> None:
    scores = {10: 1.0, 11: 0.3, 20: 0.5}
    found = lend(candidates(scores), {10: "talk", 11: "talk", 20: "other"})
    assert sorted(found, key=lambda ref: -found[ref].score) == [10, 11, 20]


@given(SCORES, SESSIONS)
def test_scores_stay_in_0_to_1_and_are_the_sum_of_their_parts(
    scores: dict[int, float], sessions: dict[int, str]
) -> None:
    found = lend(candidates(scores), sessions)
    assert found.keys() == scores.keys()
    for one in found.values():
        assert 0.0 <= one.score <= 1.0
        own = (one.keyword or 0.0) * one.keyword_share
        assert own + one.neighbours == pytest.approx(one.score)


@given(SCORES, SESSIONS)
def test_passages_outside_conversations_keep_their_order(
    scores: dict[int, float], sessions: dict[int, str]
) -> None:
    found = lend(candidates(scores), sessions)
    strangers = [ref for ref in scores if ref not in sessions]
    for one in strangers:
        for other in strangers:
            if scores[one] >= scores[other]:
                assert found[one].score >= found[other].score
