"""Two rankings into one: the two merges of the seed systems to the letter, and our own."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.ranking.fuse import Fused, reciprocal_rank_fusion, rrf, seed001, weighted

Ranking = list[tuple[str, float]]

NAMES = st.sampled_from("abcdefghij")
SCORES = st.floats(0.01, 50.0)
RANKINGS = st.dictionaries(NAMES, SCORES, max_size=10).map(
    lambda scores: sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
)
COSINES = st.dictionaries(NAMES, st.floats(-1.0, 1.0), max_size=10)
WEIGHTS = st.floats(0.0, 1.0).map(lambda keyword: (keyword, 1.0 - keyword))
MAYBE = st.none() | RANKINGS


def order(fused: dict[str, Fused]) -> list[str]:
    return sorted(fused, key=lambda item: (-fused[item].score, item))


def union(keyword: Ranking | None, vector: Sequence[tuple[str, float]] | None) -> list[str]:
    return list(dict.fromkeys([item for item, _ in [*(keyword or ()), *(vector or ())]]))


def blend(
    keyword: Ranking | None, cosines: dict[str, float] | None, **options: Any
) -> dict[str, Fused]:
    settings = {"keyword_weight": 0.6, "vector_weight": 0.4, **options}
    return weighted(keyword, cosines, union(keyword, [*(cosines or {}).items()]), **settings)


# Reciprocal rank fusion


def test_seed_002s_table_is_golden() -> None:
    by_vector = ["A", "B", "v3", "v4", "D"]
    by_keyword = ["C", "D", "A"]
    scores = reciprocal_rank_fusion([by_vector, by_keyword])
    assert {item: round(scores[item], 4) for item in "ABCD"} == {
        "A": 0.0323,
        "B": 0.0161,
        "C": 0.0164,
        "D": 0.0315,
    }


@pytest.mark.parametrize(
    ("keyword", "vector", "scores"),
    [
        ([("a", 9.0)], [("a", 0.9)], {"a": 1.0}),
        ([("a", 9.0)], [], {"a": 0.5}),
        ([("a", 9.0)], None, {"a": 1.0}),
        (None, [("a", 0.9)], {"a": 1.0}),
        (None, [("a", 0.9), ("b", 0.8)], {"a": 1.0, "b": 61 / 62}),
        ([("a", 9.0)], [("b", 0.9)], {"a": 0.5, "b": 0.5}),
        ([], [], {}),
        (None, None, {}),
    ],
)
def test_rrf_is_divided_by_what_the_first_of_every_list_would_get(
    keyword: Ranking | None, vector: Ranking | None, scores: dict[str, float]
) -> None:
    assert {item: fused.score for item, fused in rrf(keyword, vector).items()} == pytest.approx(
        scores
    )


@given(MAYBE, MAYBE, st.integers(1, 100))
def test_rrf_agrees_with_a_few_lines_written_independently(
    keyword: Ranking | None, vector: Ranking | None, k: int
) -> None:
    lists = [ranking for ranking in (keyword, vector) if ranking is not None]
    expected = {
        item: sum(
            1 / (k + 1 + [name for name, _ in ranking].index(item))
            for ranking in lists
            if item in dict(ranking)
        )
        * (k + 1)
        / len(lists)
        for item in union(keyword, vector)
    }
    got = {item: fused.score for item, fused in rrf(keyword, vector, k=k).items()}
    assert got == pytest.approx(expected)


@given(RANKINGS)
def test_fusing_one_ranking_keeps_its_order(ranking: Ranking) -> None:
    names = [name for name, _ in ranking]
    assert order(rrf(ranking, None)) == names
    assert order(rrf(None, ranking)) == names


@given(RANKINGS, RANKINGS)
def test_rrf_does_not_care_which_branch_is_which(keyword: Ranking, vector: Ranking) -> None:
    one = {item: fused.score for item, fused in rrf(keyword, vector).items()}
    other = {item: fused.score for item, fused in rrf(vector, keyword).items()}
    assert one == pytest.approx(other)


@given(RANKINGS, RANKINGS)
def test_an_item_in_both_rankings_beats_an_item_ranked_alike_in_one(
    keyword: Ranking, vector: Ranking
) -> None:
    fused = rrf(keyword, vector)
    for place, (item, _) in enumerate(keyword):
        if item in dict(vector) and place < len(vector) and vector[place][0] not in dict(keyword):
            assert fused[item].score > fused[vector[place][0]].score


# Seed 001's merge


@pytest.mark.parametrize(
    ("keyword", "vector", "weights", "scores"),
    [
        pytest.param([("a", 4.0), ("b", 1.0)], [], None, {"a": 0.3, "b": 0.075}, id="keyword only"),
        pytest.param([], [("a", 0.8), ("b", 0.4)], None, {"a": 0.7, "b": 0.35}, id="vector only"),
        pytest.param(
            [("a", 4.0), ("b", 2.0)],
            [("b", 0.8), ("c", 0.2)],
            None,
            {"a": 0.3, "b": 0.15 + 0.7, "c": 0.175},
            id="overlap appears once",
        ),
        pytest.param([("a", 0.0), ("b", 0.0)], [], None, {"a": 0.0, "b": 0.0}, id="all zero"),
        pytest.param(
            [("a", -1.0)], [], None, {"a": -0.3}, id="never divided by what is not positive"
        ),
        pytest.param(
            [("a", 4.0), ("b", 2.0)],
            [("b", 0.8), ("a", 0.2)],
            (0.0, 1.0),
            {"a": 0.25, "b": 1.0},
            id="keyword weight 0: vectors decide",
        ),
        pytest.param(
            [("a", 4.0), ("b", 2.0)],
            [("b", 0.8), ("a", 0.2)],
            (1.0, 0.0),
            {"a": 1.0, "b": 0.5},
            id="vector weight 0: keywords decide",
        ),
        pytest.param([], [], None, {}, id="nothing on either side"),
        pytest.param(None, None, None, {}, id="no side at all"),
        pytest.param([], [("a", 0.5), ("b", 0.0), ("c", -0.5)], None, {"a": 0.7}, id="no cosine"),
    ],
)
def test_seed_001s_merge_is_golden(
    keyword: Ranking | None,
    vector: Ranking | None,
    weights: tuple[float, float] | None,
    scores: dict[str, float],
) -> None:
    if weights is None:
        fused = seed001(keyword, vector)
    else:
        fused = seed001(keyword, vector, keyword_weight=weights[0], vector_weight=weights[1])
    assert {item: one.score for item, one in fused.items()} == pytest.approx(scores)


def test_seed_001s_parts_tell_which_side_held_the_item() -> None:
    fused = seed001([("a", 4.0), ("b", 2.0)], [("b", 0.8), ("c", 0.2)])
    assert fused["a"][1:3] == (1.0, None)
    assert fused["b"][1:3] == (0.5, 1.0)
    assert fused["c"].keyword is None
    assert fused["c"].vector == pytest.approx(0.25)


# Weighted, every candidate scored by both signals


def test_every_candidate_is_scored_by_both_signals() -> None:
    fused = blend([("k", 10.0), ("both", 5.0)], {"v": 0.8, "both": 0.4, "k": 0.2})
    assert {item: one.score for item, one in fused.items()} == pytest.approx(
        {"k": 0.6 + 0.4 * 0.25, "both": 0.3 + 0.2, "v": 0.4}
    )


@pytest.mark.parametrize(
    ("cosines", "median"),
    [({"a": 0.8, "b": 0.4, "c": 0.2}, 0.5), ({"a": 0.8, "b": 0.4}, 0.5), ({"a": 0.8}, 1.0)],
)
def test_a_passage_whose_vector_is_pending_gets_the_median(
    cosines: dict[str, float], median: float
) -> None:
    fused = blend([("pending", 10.0)], cosines)
    assert fused["pending"].vector == pytest.approx(median)
    assert fused["pending"].score == pytest.approx(0.6 + 0.4 * median)


def test_a_pending_note_keeps_its_place_among_equals() -> None:
    ranking = [(name, 5.0) for name in "abcde"]
    cosines = {"a": 0.9, "b": 0.7, "d": 0.3, "e": 0.1}
    assert order(blend(ranking, cosines)) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("keyword", "cosines"),
    [
        ([("hit", 3.0)], None),
        ([("hit", 3.0)], {}),
        ([("hit", 3.0)], {"hit": -0.2}),
        ([("hit", 3.0)], {"other": 0.0}),
        (None, {"hit": 0.1}),
        ([], {"hit": 0.1}),
    ],
)
def test_the_only_signal_there_is_decides_alone(
    keyword: Ranking | None, cosines: dict[str, float] | None
) -> None:
    assert blend(keyword, cosines)["hit"].score == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("keyword", "cosines", "weights"),
    [
        ([("a", 4.0), ("b", 2.0)], None, {"keyword_weight": 0.0, "vector_weight": 1.0}),
        (None, {"a": 0.4, "b": 0.2}, {"keyword_weight": 1.0, "vector_weight": 0.0}),
    ],
)
def test_a_signal_of_weight_0_still_orders_when_it_alone_answered(
    keyword: Ranking | None, cosines: dict[str, float] | None, weights: dict[str, float]
) -> None:
    fused = blend(keyword, cosines, **weights)
    assert [fused["a"].score, fused["b"].score] == pytest.approx([1.0, 0.5])


def test_bm25_of_everyday_words_is_not_blown_up_to_perfection() -> None:
    noise = blend([("a", 1e-6)], {"a": 0.2, "b": 0.8}, attainable=10.0)
    assert noise["a"].keyword_share < 0.01
    assert order(noise) == ["b", "a"]
    assert noise["b"].score == pytest.approx(1.0, abs=0.01)
    telling = blend([("a", 8.0)], {"a": 0.2, "b": 0.8}, attainable=10.0)
    assert telling["a"].keyword_share == pytest.approx(0.6)
    assert blend([("a", 1e-6), ("b", 5e-7)], None, attainable=10.0)["a"].score == 1.0


def test_a_cosine_below_zero_counts_as_zero() -> None:
    assert blend(None, {"a": 0.5, "b": -0.5})["b"] == Fused(0.0, None, 0.0, 0.0, 1.0)


@given(RANKINGS, COSINES, WEIGHTS, st.floats(0.0, 20.0))
def test_every_score_lies_in_0_to_1_and_is_the_sum_of_its_parts(
    keyword: Ranking, cosines: dict[str, float], weights: tuple[float, float], attainable: float
) -> None:
    vector = sorted(
        ((item, cosine) for item, cosine in cosines.items() if cosine > 0),
        key=lambda pair: -pair[1],
    )
    ours = blend(
        keyword,
        cosines,
        keyword_weight=weights[0],
        vector_weight=weights[1],
        attainable=attainable,
    )
    theirs = seed001(keyword, vector, keyword_weight=weights[0], vector_weight=weights[1])
    for fused in (ours, theirs, rrf(keyword, vector)):
        for one in fused.values():
            assert 0.0 <= one.score <= 1.0 + 1e-9
            assert all(part is None or 0.0 <= part <= 1.0 + 1e-9 for part in one[1:])


@given(RANKINGS, COSINES, st.randoms(use_true_random=False))
def test_weighted_scores_do_not_depend_on_the_order_of_the_inputs(
    keyword: Ranking, cosines: dict[str, float], random: Any
) -> None:
    shuffled, pairs = list(keyword), list(cosines.items())
    random.shuffle(shuffled)
    random.shuffle(pairs)
    assert blend(keyword, cosines) == blend(shuffled, dict(pairs))


@given(RANKINGS, COSINES)
def test_a_better_signal_never_lowers_a_score(keyword: Ranking, cosines: dict[str, float]) -> None:
    fused = blend(keyword, cosines)
    for one, first in fused.items():
        for other, second in fused.items():
            if all((a or 0.0) >= (b or 0.0) for a, b in zip(first[1:3], second[1:3], strict=True)):
                assert first.score >= second.score - 1e-12, (one, other)


@given(RANKINGS)
def test_weighted_keeps_the_order_of_a_single_ranking(ranking: Ranking) -> None:
    scores = [blend(ranking, None)[name].score for name, _ in ranking]
    assert scores == sorted(scores, reverse=True)
    assert not ranking or math.isclose(scores[0], 1.0)
