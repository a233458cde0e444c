"""Which score a query should trust: seed 002's points and its two mixtures."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.ranking.routing import blend, points, strategy

STRATEGIES = ("cosine_heavy", "hybrid_balanced", "limbic_heavy")
SCORED = st.lists(
    st.tuples(st.integers(), st.floats(0.0, 3.0), st.none() | st.floats(0.0, 2.0)),
    unique_by=lambda row: row[0],
    max_size=8,
)
EXAMPLE = [(1, 1.4503, 0.1), (2, 0.8718, 0.2), (3, 0.1209, None)]


def test_the_limbic_heavy_mixture_turns_the_shares_around() -> None:
    mixed = dict(blend(EXAMPLE, "limbic_heavy"))
    assert mixed[1] == pytest.approx(0.3 * 0.9 + 0.7)
    assert mixed[3] == 0.0


def test_the_balanced_strategy_leaves_the_limbic_scores_alone() -> None:
    assert blend(EXAMPLE, "hybrid_balanced") == [(1, 1.4503), (2, 0.8718), (3, 0.1209)]


def test_equal_limbic_scores_leave_the_cosine_to_decide() -> None:
    assert blend([("a", 1.0, 0.5), ("b", 1.0, 0.0)], "cosine_heavy") == [("b", 0.7), ("a", 0.35)]


@given(SCORED, st.sampled_from(STRATEGIES))
def test_a_mixture_holds_every_item_once_best_first(scored: Any, chosen: Any) -> None:
    mixed = blend(scored, chosen)
    scores = [score for _, score in mixed]
    assert sorted(item for item, _ in mixed) == sorted(item for item, _, _ in scored)
    assert scores == sorted(scores, reverse=True)
    if chosen != "hybrid_balanced":
        assert all(0.0 <= score <= 1.0 + 1e-12 for score in scores)


@pytest.mark.parametrize(
    ("query", "limit", "total"),
    [
        ("one two three four", 5, 0),
        ("one two three", 5, 1),
        ("one two three four", 3, 1),
        ("one two three four", 10, -1),
        ("1 2 3 4 5 6 7 8 9 10", 5, -1),
        ("What is our largest customer called?", 5, 2),
        ("¿Qué es lo que usamos aquí?", 5, 2),
        ("please install the parser package", 5, 1),
        ("tell me about our old parser", 5, -2),
        ("háblame de nuestro analizador viejo", 5, -2),
        ("tell me about it, an overview please", 5, -4),
        ("whatsoever isolated words follow here", 5, 0),
    ],
)
def test_points_of_phrases_length_and_limit_add_up(query: str, limit: int, total: int) -> None:
    assert points(query, limit) == total


@pytest.mark.parametrize(
    ("query", "limit", "chosen"),
    [
        ("what is the port of the API", 5, "cosine_heavy"),
        ("ssh", 3, "cosine_heavy"),
        ("tell me about our old parser", 5, "limbic_heavy"),
        ("rotate the deploy keys today", 5, "hybrid_balanced"),
        ("", 5, "hybrid_balanced"),
    ],
)
def test_two_points_either_way_decide(query: str, limit: int, chosen: str) -> None:
    assert strategy(query, limit) == chosen
