"""Scores of a hybrid search: fusion, neighbours and coverage."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plait.ranking.hybrid import (
    ANSWER_SHARE,
    AROUND_SHARE,
    COVERAGE_BOOST,
    COVERED,
    ENOUGH_COVERAGE,
    NEIGHBOUR_SHARES,
    QUESTION_PENALTY,
    RERANKED,
    SENTENCE_BOOST,
    Fused,
    SecondLook,
    attainable_bm25,
    coverage,
    idf,
    lend,
    max_fusion,
    rarities,
    rarity,
    reciprocal_rank_fusion,
    rerank,
    rrf,
    weighted,
)
from plait.types.queries import Turn

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


def test_the_table_of_mcp_memory_is_golden() -> None:
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
    there = {item: fused.score for item, fused in rrf(keyword, vector).items()}
    back = {item: fused.score for item, fused in rrf(vector, keyword).items()}
    assert there == pytest.approx(back)


@given(RANKINGS, RANKINGS)
def test_an_item_in_both_rankings_beats_an_item_ranked_alike_in_one(
    keyword: Ranking, vector: Ranking
) -> None:
    fused = rrf(keyword, vector)
    for place, (item, _) in enumerate(keyword):
        if item in dict(vector) and place < len(vector) and vector[place][0] not in dict(keyword):
            assert fused[item].score > fused[vector[place][0]].score


# hybrid-memory's merge


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
def test_the_merge_of_hybrid_memory_is_golden(
    keyword: Ranking | None,
    vector: Ranking | None,
    weights: tuple[float, float] | None,
    scores: dict[str, float],
) -> None:
    if weights is None:
        fused = max_fusion(keyword, vector)
    else:
        fused = max_fusion(keyword, vector, keyword_weight=weights[0], vector_weight=weights[1])
    assert {item: row.score for item, row in fused.items()} == pytest.approx(scores)


def test_the_parts_of_max_fusion_tell_which_branch_listed_the_item() -> None:
    fused = max_fusion([("a", 4.0), ("b", 2.0)], [("b", 0.8), ("c", 0.2)])
    assert fused["a"][1:3] == (1.0, None)
    assert fused["b"][1:3] == (0.5, 1.0)
    assert fused["c"].keyword is None
    assert fused["c"].vector == pytest.approx(0.25)


# Weighted fusion, every candidate scored by both signals


def test_every_candidate_is_scored_by_both_signals() -> None:
    fused = blend([("k", 10.0), ("both", 5.0)], {"v": 0.8, "both": 0.4, "k": 0.2})
    assert {item: row.score for item, row in fused.items()} == pytest.approx(
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


@pytest.mark.parametrize("attainable", [5e-324, 1e-310, 1e-300])
def test_what_is_hardly_attainable_is_attained(attainable: float) -> None:
    assert blend([("a", 8.0)], {"a": 0.2, "b": 0.8}, attainable=attainable) == blend(
        [("a", 8.0)], {"a": 0.2, "b": 0.8}
    )


@given(RANKINGS, COSINES, WEIGHTS, st.floats(0.0, 20.0))
@example([("a", 1.0)], {"a": 0.5}, (0.6, 0.4), 5e-324)
def test_every_fused_score_and_part_lies_in_0_to_1(
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
    theirs = max_fusion(keyword, vector, keyword_weight=weights[0], vector_weight=weights[1])
    for fused in (ours, theirs, rrf(keyword, vector)):
        for row in fused.values():
            assert 0.0 <= row.score <= 1.0 + 1e-9
            assert all(part is None or 0.0 <= part <= 1.0 + 1e-9 for part in row[1:])


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
    for first in fused.values():
        for second in fused.values():
            if all((a or 0.0) >= (b or 0.0) for a, b in zip(first[1:3], second[1:3], strict=True)):
                assert first.score >= second.score - 1e-12, (first, second)


@given(RANKINGS)
def test_weighted_keeps_the_order_of_a_single_ranking(ranking: Ranking) -> None:
    scores = [blend(ranking, None)[name].score for name, _ in ranking]
    assert scores == sorted(scores, reverse=True)
    assert not ranking or math.isclose(scores[0], 1.0)


# Neighbours: messages of one session lend each other a share of their scores

NEAR, FAR = NEIGHBOUR_SHARES
# Every third message asks something.
TURNS = st.builds(
    lambda session, number: Turn(session, number, asks=number % 3 == 0),
    st.sampled_from("ab"),
    st.integers(1, 12),
)
# Scores by session and turn.
MESSAGES = st.dictionaries(TURNS, st.floats(0.0, 1.0), max_size=12)
OUTSIDERS = st.lists(st.floats(0.0, 1.0), max_size=4)


def candidates(scores: Mapping[int, float]) -> dict[int, Fused]:
    return {ref: Fused(score, score, None) for ref, score in scores.items()}


def lend_by_ref(fused: dict[int, Fused], sessions: dict[int, str]) -> dict[int, Fused]:
    """Lend by row number: the rule for messages that were stored one after the other."""
    lent = {
        ref: sum(
            share * fused[place].score
            for away, share in ((1, NEAR), (2, FAR))
            for place in (ref - away, ref + away)
            if place in fused and sessions.get(place) == session
        )
        for ref, session in sessions.items()
        if ref in fused
    }
    largest = max([1.0, *(row.score + lent.get(ref, 0.0) for ref, row in fused.items())])
    return {
        ref: row._replace(
            score=(row.score + lent.get(ref, 0.0)) / largest,
            keyword_share=row.keyword_share / largest,
            vector_share=row.vector_share / largest,
            neighbours=lent.get(ref, 0.0) / largest,
        )
        for ref, row in fused.items()
    }


@pytest.mark.parametrize(
    ("scores", "turns", "expected"),
    [
        pytest.param(
            {1: 0.4, 2: 0.2}, {1: Turn("s", 7), 2: Turn("s", 8)}, {1: 0.43, 2: 0.26}, id="next turn"
        ),
        pytest.param(
            {1: 0.4, 2: 0.2},
            {1: Turn("s", 7), 2: Turn("s", 9)},
            {1: 0.43, 2: 0.26},
            id="two turns away",
        ),
        pytest.param(
            {1: 0.4, 2: 0.2},
            {1: Turn("s", 7), 2: Turn("s", 10)},
            {1: 0.4, 2: 0.2},
            id="three turns away",
        ),
        pytest.param(
            {9: 0.4, 500: 0.2},
            {9: Turn("s", 2), 500: Turn("s", 1)},
            {9: 0.43, 500: 0.26},
            id="refs far off",
        ),
        pytest.param(
            {1: 0.4, 2: 0.2},
            {1: Turn("s", 1), 2: Turn("t", 2)},
            {1: 0.4, 2: 0.2},
            id="other session",
        ),
        pytest.param({1: 0.4, 2: 0.2}, {1: Turn("s", 1)}, {1: 0.4, 2: 0.2}, id="one is no message"),
        pytest.param({1: 0.4, 2: 0.2}, {}, {1: 0.4, 2: 0.2}, id="no messages"),
        pytest.param(
            {1: 0.4},
            {1: Turn("s", 1), 2: Turn("s", 2)},
            {1: 0.4},
            id="its neighbour is no candidate",
        ),
        pytest.param({}, {}, {}, id="nothing"),
        pytest.param(
            {1: 0.1, 2: 0.2, 3: 0.4},
            {1: Turn("s", 1), 2: Turn("s", 2), 3: Turn("s", 3)},
            {1: 0.1 + 0.03 + 0.06, 2: 0.2 + 0.015 + 0.06, 3: 0.4 + 0.03 + 0.015},
            id="both sides",
        ),
    ],
)
def test_messages_of_one_session_lend_a_share_of_their_score(
    scores: dict[int, float], turns: dict[int, Turn], expected: dict[int, float]
) -> None:
    assert (NEAR, FAR) == (0.15, 0.15), "the figures of this table are made with these"
    lent = {ref: row.score for ref, row in lend(candidates(scores), turns).items()}
    assert lent == pytest.approx(expected)


def test_a_reply_without_the_words_passes_a_stranger_with_a_few() -> None:
    scores = {10: 1.0, 11: 0.3, 20: 0.5}
    turns = {10: Turn("talk", 1, asks=True), 11: Turn("talk", 2), 20: Turn("other", 3)}
    lent = lend(candidates(scores), turns)
    assert sorted(lent, key=lambda ref: -lent[ref].score) == [11, 10, 20]


def stored(
    messages: Mapping[Turn, float], outsiders: Sequence[float], refs: Sequence[int]
) -> tuple[dict[int, Fused], dict[int, Turn]]:
    """Candidates and turns of messages and other passages that were stored under these refs."""
    fused = candidates(dict(zip(refs, [*messages.values(), *outsiders], strict=False)))
    return fused, dict(zip(refs, messages, strict=False))


@given(MESSAGES, OUTSIDERS)
def test_scores_with_neighbours_stay_in_0_to_1_and_are_the_sum_of_their_parts(
    messages: dict[Turn, float], outsiders: list[float]
) -> None:
    fused, turns = stored(messages, outsiders, range(16))
    lent = lend(fused, turns)
    assert lent.keys() == fused.keys()
    for row in lent.values():
        assert 0.0 <= row.score <= 1.0
        own = (row.keyword or 0.0) * row.keyword_share
        assert own + row.neighbours == pytest.approx(row.score)


@given(MESSAGES, OUTSIDERS)
def test_passages_outside_conversations_keep_their_order(
    messages: dict[Turn, float], outsiders: list[float]
) -> None:
    fused, turns = stored(messages, outsiders, range(16))
    lent = lend(fused, turns)
    others = [ref for ref in fused if ref not in turns]
    for first in others:
        for second in others:
            if fused[first].score >= fused[second].score:
                assert lent[first].score >= lent[second].score


@given(MESSAGES, OUTSIDERS, st.permutations(range(16)), st.randoms(use_true_random=False))
def test_refs_and_the_order_of_storing_change_nothing(
    messages: dict[Turn, float], outsiders: list[float], refs: list[int], random: Any
) -> None:
    fused, turns = stored(messages, outsiders, range(16))
    shuffled = [*messages.items()]
    random.shuffle(shuffled)
    again, turns_again = stored(dict(shuffled), outsiders, [1000 * ref for ref in refs])
    lent, lent_again = lend(fused, turns), lend(again, turns_again)
    by_turn = {turns[ref]: lent[ref] for ref in turns}
    assert by_turn == {turns_again[ref]: lent_again[ref] for ref in turns_again}
    without = [lent[ref] for ref in fused if ref not in turns]
    assert without == [lent_again[ref] for ref in again if ref not in turns_again]


@given(MESSAGES)
def test_sessions_never_mix(messages: dict[Turn, float]) -> None:
    # Low scores, so that no session makes the others smaller by exceeding 1.
    low = {turn: score / 4 for turn, score in messages.items()}
    fused, turns = stored(low, (), range(16))
    together = lend(fused, turns)
    for session in "ab":
        mine = {ref: row for ref, row in fused.items() if turns[ref][0] == session}
        alone = lend(mine, {ref: turns[ref] for ref in mine})
        assert alone == {ref: together[ref] for ref in mine}


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        pytest.param(
            {1: Turn("s", 1, asks=True), 2: Turn("s", 2)},
            {1: 0.4 - 0.15 + 0.03, 2: 0.2 + 0.24},
            id="an answer gets more, the question less",
        ),
        pytest.param(
            {1: Turn("s", 1), 2: Turn("s", 2, asks=True)},
            {1: 0.4 + 0.03, 2: 0.2 + 0.06},
            id="before a question as before any message",
        ),
        pytest.param(
            {1: Turn("s", 1, asks=True), 2: Turn("s", 3)},
            {1: 0.4 + 0.03, 2: 0.2 + 0.06},
            id="two turns after a question as after any message",
        ),
        pytest.param({2: Turn("s", 1, asks=True)}, {1: 0.4, 2: 0.2}, id="a question by itself"),
    ],
)
def test_answers_follow_questions(turns: dict[int, Turn], expected: dict[int, float]) -> None:
    assert (ANSWER_SHARE, QUESTION_PENALTY) == (0.6, 0.15), "the figures are made with these"
    lent = lend(candidates({1: 0.4, 2: 0.2}), turns)
    assert {ref: row.score for ref, row in lent.items()} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Mara: where is the key?", True),
        ('He said "where?"', True),
        ("**Really?**\n", True),
        ("\u9375\u306f\u3069\u3053\uff1f", True),
        ("\u0623\u064a\u0646 \u0627\u0644\u0645\u0641\u062a\u0627\u062d\u061f", True),
        ("What? No.", False),
        ("", False),
    ],
)
def test_a_message_asks_if_it_ends_with_a_question_mark(text: str, asks: bool) -> None:
    assert Turn.of("talk", 1, text).asks == asks


@given(
    st.dictionaries(st.integers(1, 12), st.floats(0.0, 1.0), max_size=12),
    st.dictionaries(st.integers(1, 12), st.sampled_from("ab"), max_size=12),
)
def test_where_messages_are_stored_densely_the_result_is_that_by_row_number(
    scores: dict[int, float], sessions: dict[int, str]
) -> None:
    fused = candidates(scores)
    turns = {ref: Turn(session, ref) for ref, session in sessions.items()}
    lent, expected = lend(fused, turns), lend_by_ref(fused, sessions)
    assert {ref: row.score for ref, row in lent.items()} == pytest.approx(
        {ref: row.score for ref, row in expected.items()}
    )


# The second look: sentences, documents and words

SHARE = st.floats(0.0, 1.0)
LOOKED_AT = st.lists(
    st.tuples(SHARE, st.builds(SecondLook, SHARE, SHARE, SHARE, SHARE)), max_size=30
).map(lambda pairs: sorted(pairs, key=lambda pair: -pair[0]))
Looked = list[tuple[float, SecondLook]]


def reranked(pairs: Looked) -> list[Fused]:
    return rerank([Fused(score, score, None) for score, _ in pairs], [look for _, look in pairs])


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([(0.5, 0.0), (0.2, 0.0)], [0.5, 0.2], id="no word at all"),
        pytest.param([(0.5, 0.5), (0.4, 1.0)], [0.65, 0.7], id="all words beat half of them"),
        pytest.param([(1.0, 1.0), (0.65, 0.0)], [1.0, 0.5], id="never above 1"),
    ],
)
def test_coverage_adds_to_the_score(
    pairs: list[tuple[float, float]], expected: list[float]
) -> None:
    assert COVERAGE_BOOST == 0.3, "the figures of this table are made with it"
    rows = reranked([(score, SecondLook(covered)) for score, covered in pairs])
    assert [row.score for row in rows] == pytest.approx(expected)


def test_a_sentence_and_words_around_add_to_the_score() -> None:
    boosts = (SENTENCE_BOOST, COVERAGE_BOOST, AROUND_SHARE)
    assert boosts == (0.3, 0.3, 0.5), "the figures are made with these"
    rows = reranked(
        [
            (0.3, SecondLook(0.0, sentence=0.5)),
            (0.2, SecondLook(0.25, document=0.75)),
            (0.1, SecondLook(0.5, document=0.25)),
            (0.05, SecondLook(0.4, around=0.8)),
        ]
    )
    assert [row.score for row in rows] == pytest.approx([0.45, 0.425, 0.25, 0.05 + 0.18])
    assert [(row.sentence, row.cover) for row in rows] == [
        pytest.approx((0.15, 0.0)),
        pytest.approx((0.0, 0.225)),
        pytest.approx((0.0, 0.15)),
        pytest.approx((0.0, 0.18)),
    ]


def test_words_count_for_the_best_after_their_sentences_were_read() -> None:
    nothing = [(0.5, SecondLook(0.0))] * COVERED
    with_words = [(0.5, SecondLook(1.0))]
    assert [row.cover for row in reranked(nothing + with_words)] == [0.0] * (COVERED + 1)
    with_sentence = [(0.5, SecondLook(1.0, sentence=0.1))]
    assert reranked(nothing + with_sentence)[-1].cover > 0.0


@given(LOOKED_AT)
def test_candidates_without_a_second_look_never_pass_those_with_one(pairs: Looked) -> None:
    lifted = [row.score for row in reranked(pairs)]
    first, rest = lifted[:RERANKED], lifted[RERANKED:]
    assert rest == sorted(rest, reverse=True)
    assert min(first, default=1.0) >= max(rest, default=0.0) - 1e-12


@given(LOOKED_AT)
def test_reranked_scores_stay_in_0_to_1_and_are_the_sum_of_their_parts(pairs: Looked) -> None:
    for row in reranked(pairs):
        assert 0.0 <= row.score <= 1.0
        own = (row.keyword or 0.0) * row.keyword_share
        parts = own + row.neighbours + row.cover + row.sentence
        assert parts == pytest.approx(row.score)


@given(LOOKED_AT.filter(bool), st.integers(0, 29), SHARE)
def test_more_words_or_a_better_sentence_never_lower_a_candidate(
    pairs: Looked, place: int, more: float
) -> None:
    place %= len(pairs)
    score, look = pairs[place]
    for better in (
        look._replace(
            coverage=max(look.coverage, more),
            document=max(look.document, more),
            around=max(look.around, more),
        ),
        look._replace(sentence=max(look.sentence, more)),
    ):
        changed = [*pairs]
        changed[place] = (score, better)
        before, after = reranked(pairs), reranked(changed)
        others = [other for other in range(len(pairs)) if other != place]
        ahead = {other for other in others if before[other].score < before[place].score - 1e-9}
        assert all(after[other].score <= after[place].score + 1e-9 for other in ahead)


@given(SHARE)
def test_keyword_hits_that_cover_little_weigh_little(covered: float) -> None:
    fused = weighted(
        [("a", 8.0)],
        {"a": 0.2, "b": 0.8},
        ["a", "b"],
        keyword_weight=0.6,
        vector_weight=0.4,
        covered=covered,
    )
    strength = 0.6 * min(1.0, covered / ENOUGH_COVERAGE)
    assert fused["a"].keyword_share == pytest.approx(strength / (strength + 0.4))


# Coverage: absolute, in 0..1, independent of the other hits


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_rarer_word_tells_more_and_every_word_tells_something(
    passages: int, containing: int
) -> None:
    assert idf(passages, containing) > 0.0
    assert idf(passages, containing) >= idf(passages, containing + 1)


def test_counts_that_lag_behind_do_no_harm() -> None:
    # The count of passages may be older than that of the term, in another process's write.
    assert idf(3, 10) == idf(10, 10)


@pytest.mark.parametrize(
    ("matched", "share"),
    [((), 0.0), (("rare", "common"), 1.0), (("rare", "common", "unasked"), 1.0)],
)
def test_coverage_is_the_share_of_the_matched_words(matched: tuple[str, ...], share: float) -> None:
    words = rarities(["rare", "common"], 100, {"rare": 1, "common": 60})
    assert coverage(words, matched) == share


def test_a_rare_word_covers_more_than_a_common_one() -> None:
    words = rarities(["rare", "common"], 100, {"rare": 1, "common": 60})
    rare, common = coverage(words, ["rare"]), coverage(words, ["common"])
    assert rare + common == pytest.approx(1.0)
    assert rare > 0.8


def test_a_query_without_words_covers_nothing() -> None:
    assert coverage({}, ["a"]) == 0.0


def test_rarity_adds_up_the_words_and_does_not_look_at_the_passage() -> None:
    containing = {"rare": 1, "common": 60}
    total = idf(100, 1) + idf(100, 60)
    words = rarities(["rare", "common"], 100, containing)
    assert rarity(words, containing) == pytest.approx(total)
    unknown = rarities(["unknown"], 100, containing)
    assert rarity({}, containing) == rarity(unknown, containing) == 0.0


@pytest.mark.parametrize("passages", [0, 1, 2, 3])
def test_in_a_tiny_memory_nothing_bounds_the_divisor(passages: int) -> None:
    assert 0.0 <= attainable_bm25(passages) < 2.0


@given(st.integers(3, 10**7))
def test_what_a_word_could_attain_grows_with_the_memory(passages: int) -> None:
    assert attainable_bm25(passages + 1) > attainable_bm25(passages) > 0.0
