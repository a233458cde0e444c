"""Ranking by use: the formulas of mcp-memory to the digit, and the factor of plain search."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.ranking.hybrid import reciprocal_rank_fusion
from plait.ranking.use import (
    DEFAULT_CONSTANTS,
    HIGHEST,
    HOUR_MS,
    LOWEST,
    Constants,
    EntityCandidate,
    History,
    Weight,
    base_relevance,
    constants_from,
    cooccurrence,
    explain_weight,
    importance,
    rank,
    temporal,
    weigh,
)
from plait.types import KINDS, STATUSES, TRUSTS, DocumentStatus

DAY = 24 * HOUR_MS
NOW = 1_800_000_000_000
# Floating point may round a product of three factors differently than the same product of others.
ROUNDING = 1e-12

# Whatever SQLite can hold as a moment, on either side of any clock.
MOMENTS = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.integers(-5, 10**9)
PAIRS = st.lists(st.tuples(COUNTS, MOMENTS), max_size=5).map(tuple)
USES = st.builds(
    History,
    reads=COUNTS,
    days=COUNTS,
    last_read=st.none() | MOMENTS,
    degree=COUNTS,
    moment=st.none() | MOMENTS,
    together=PAIRS,
    good=st.just(0),
    wrong=st.just(0),
)
JUDGED = st.builds(
    lambda history, good, wrong: history._replace(good=good, wrong=wrong), USES, COUNTS, COUNTS
)
CANDIDATES = st.builds(
    EntityCandidate,
    history=USES,
    distance=st.none() | st.floats(0.0, 2.0),
    rrf=st.floats(0.0, 0.1),
    kind=st.sampled_from(KINDS),
)
DOCUMENTS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(KINDS),
        "trust": st.sampled_from(TRUSTS),
        "pinned": st.booleans(),
        "stated": st.none() | st.floats(0.0, 1.0),
        "status": st.sampled_from([None, *STATUSES]),
    }
)
SHARES = st.floats(0.0, 1.0)
CONSTANTS = st.builds(
    Constants,
    beta_sal=SHARES,
    beta_deg=SHARES,
    alpha_cons=SHARES,
    d_max=st.integers(0, 100),
    lambda_hourly=SHARES,
    temporal_floor=SHARES,
    cooc_floor=SHARES,
    gamma=SHARES,
    half_lives=st.dictionaries(st.sampled_from(KINDS), st.floats(0.01, math.inf)),
    use_weight=SHARES,
    age_weight=SHARES,
    full_reads=st.integers(0, 1_000),
    full_days=st.integers(0, 1_000),
    importance_weight=SHARES,
    feedback_weight=SHARES,
    done_cost=SHARES,
    archived_cost=SHARES,
)


def days_ago(days: float) -> int:
    return NOW - round(days * DAY)


def factor(history: History, now: int, *constants: Constants, **document: Any) -> float:
    return weigh(history, now, *constants, **document).factor


# The measured values of mcp-memory


@pytest.mark.parametrize(
    ("days", "left"),
    [
        (0, 1.0),
        (1, 0.9976),
        (7, 0.9833),
        (30, 0.9305),
        (90, 0.8057),
        (180, 0.6492),
        (289, 0.4998),
        (365, 0.4164),
        (730, 0.1734),
        (960, 0.1),
    ],
)
def test_what_time_leaves_is_golden(days: int, left: float) -> None:
    assert round(temporal(days_ago(days), NOW), 4) == left


@pytest.mark.parametrize(
    ("reads", "most_reads", "degree", "days", "most_days", "value"),
    [
        (0, 10, 0, 1, 1, 0.0),
        (1, 10, 0, 1, 1, 0.2891),
        (5, 10, 0, 1, 1, 0.7472),
        (10, 10, 0, 1, 1, 1.0),
        (10, 10, 15, 1, 1, 1.15),
        (10, 10, 30, 1, 1, 1.15),
        (10, 10, 15, 5, 10, 1.3219),
        (10, 10, 15, 10, 10, 1.38),
        (0, 0, 15, 0, 0, 0.0),
    ],
)
def test_importance_is_golden(
    reads: int, most_reads: int, degree: int, days: int, most_days: int, value: float
) -> None:
    history = History(reads=reads, days=days, degree=degree)
    assert round(importance(history, most_reads, most_days), 4) == value


@pytest.mark.parametrize(("last", "value"), [(NOW, 3.4594), (days_ago(5_000), 0.3459)])
def test_co_occurrence_is_golden(last: int, value: float) -> None:
    assert round(cooccurrence(((10, last),), NOW), 4) == value


def test_co_occurrence_adds_up_over_the_other_candidates() -> None:
    pairs = ((10, NOW), (1, NOW), (0, NOW))
    assert cooccurrence(pairs, NOW) == pytest.approx(math.log2(11) + 1.0)
    assert cooccurrence((), NOW) == 0.0


EXAMPLE = {
    1: EntityCandidate(History(10, 1, NOW, 15, together=((4, days_ago(1)),)), distance=0.1),
    2: EntityCandidate(History(1, 1, days_ago(30), 0, together=((4, days_ago(1)),)), distance=0.2),
    3: EntityCandidate(History(5, 1, days_ago(365), 3)),
}


def example() -> dict[int, EntityCandidate]:
    fused = reciprocal_rank_fusion([[1, 2], [3, 1]])
    return {item: row._replace(rrf=fused[item]) for item, row in EXAMPLE.items()}


def test_the_rank_fusion_of_the_example_is_golden() -> None:
    rounded = {item: round(row.rrf, 6) for item, row in example().items()}
    assert rounded == {1: 0.032522, 2: 0.016129, 3: 0.016393}


def test_the_limbic_scores_of_the_example_are_golden() -> None:
    ranked = rank(example(), NOW)
    assert [(item, round(scoring.limbic_score, 4)) for item, scoring in ranked] == [
        (1, 1.4503),
        (2, 0.8718),
        (3, 0.1209),
    ]


def test_the_pieces_of_a_score_are_those_of_the_single_formulas() -> None:
    scorings = dict(rank(example(), NOW))
    assert scorings[3].importance == importance(EXAMPLE[3].history, 10, 1)
    assert scorings[3].temporal_factor == temporal(days_ago(365), NOW)
    assert scorings[2].cooc_boost == cooccurrence(EXAMPLE[2].history.together, NOW)


@pytest.mark.parametrize(
    ("distance", "rrf", "value"),
    [
        (0.0, 0.0, 1.0),
        (0.35, 0.9, 0.65),
        (1.2, 0.9, 0.0),
        (None, 0.01, 0.2),
        (None, 0.02, 0.5),
        (None, 0.03, 0.8),
    ],
)
def test_the_base_is_the_cosine_or_the_place_among_the_fused(
    distance: float | None, rrf: float, value: float
) -> None:
    assert base_relevance(distance, rrf, 0.01, 0.03) == pytest.approx(value)


def test_a_single_hit_by_keywords_has_the_lowest_base() -> None:
    ((_, scoring),) = rank({"a": EntityCandidate(rrf=1 / 61)}, NOW)
    assert scoring.limbic_score == pytest.approx(0.2)


def test_without_a_read_the_age_counts_from_the_moment_it_happened() -> None:
    read = EntityCandidate(History(moment=days_ago(900), last_read=days_ago(90)), distance=0.0)
    unread = EntityCandidate(History(moment=days_ago(90)), distance=0.0)
    scores = dict(rank({"read": read, "unread": unread}, NOW))
    assert scores["read"].temporal_factor == scores["unread"].temporal_factor < 1.0


def test_nothing_ranked_is_nothing() -> None:
    assert rank({}, NOW) == []


def test_equal_scores_keep_the_order_given() -> None:
    same = EntityCandidate(distance=0.3)
    assert [item for item, _ in rank({"b": same, "a": same, "c": same}, NOW)] == ["b", "a", "c"]


@given(st.dictionaries(st.integers(), CANDIDATES, max_size=6), MOMENTS, CONSTANTS)
def test_every_candidate_is_ranked_once_by_a_finite_score(
    candidates: dict[int, EntityCandidate], now: int, constants: Constants
) -> None:
    ranked = rank(candidates, now, constants)
    scores = [scoring.limbic_score for _, scoring in ranked]
    assert sorted(item for item, _ in ranked) == sorted(candidates)
    assert scores == sorted(scores, reverse=True)
    assert all(math.isfinite(number) and number >= 0 for _, each in ranked for number in each)


# Decay


@pytest.mark.parametrize(("kind", "days"), [("message", 7.0), ("note", 30.0)])
def test_half_of_a_kind_is_left_after_its_half_life(kind: Any, days: float) -> None:
    constants = Constants(half_lives={"message": 7.0, "note": 30.0})
    assert temporal(days_ago(days), NOW, constants, kind) == pytest.approx(0.5)


def test_a_half_life_says_the_same_as_a_rate_an_hour() -> None:
    constants = Constants(half_lives={"entity": math.log(2) / 0.0001 / 24})
    assert temporal(days_ago(200), NOW, constants) == pytest.approx(temporal(days_ago(200), NOW))


def test_an_infinite_half_life_never_ages() -> None:
    assert temporal(days_ago(10_000), NOW, Constants(half_lives={"entity": math.inf})) == 1.0


@given(st.none() | MOMENTS, MOMENTS, MOMENTS, CONSTANTS, st.sampled_from(KINDS))
def test_time_only_takes_away_and_leaves_the_floor(
    moment: int | None, now: int, later: int, constants: Constants, kind: Any
) -> None:
    now, later = sorted((now, later))
    early, late = (temporal(moment, at, constants, kind) for at in (now, later))
    assert constants.temporal_floor <= late <= early <= 1.0


@given(MOMENTS, st.integers(0, 10**15))
def test_a_clock_set_back_makes_nothing_younger_than_new(now: int, ahead: int) -> None:
    assert temporal(now + ahead, now) == 1.0


# The factor of plain search


@pytest.mark.parametrize(
    ("history", "document", "value"),
    [
        (History(), {}, 1.0),
        (History(moment=NOW), {}, 1.0),
        (History(moment=days_ago(30)), {}, 0.9972),
        (History(moment=days_ago(365)), {}, 0.9767),
        (History(moment=days_ago(1_461)), {}, 0.964),
        (History(moment=days_ago(30)), {"kind": "message"}, 0.964),
        (History(moment=days_ago(1_461)), {"kind": "file"}, 1.0),
        (History(1, 1, NOW, 0, NOW), {}, 1.0349),
        (History(5, 3, NOW, 0, NOW), {}, 1.0952),
        (History(20, 10, NOW, 15, NOW), {}, 1.2),
        (History(900, 99, NOW, 15, NOW), {}, 1.2),
        (History(900, 99, NOW, 15, NOW, ((99, NOW), (99, NOW))), {}, 1.25),
        (History(5, 3, days_ago(365), 0, days_ago(900)), {}, 1.0154),
        (History(5, 3, days_ago(1_461), 0, days_ago(1_461)), {}, 0.9732),
        (History(5, 3, days_ago(365), 0, days_ago(900)), {"kind": "file"}, 1.0396),
        (History(0, 0, None, 99, NOW), {}, 1.0),
        (History(9, 9, NOW, 9, NOW), {"trust": "untrusted"}, 1.0),
        (History(9, 9, NOW, 9, days_ago(365)), {"trust": "untrusted"}, 0.9767),
        (History(9, 9, NOW, 9, days_ago(365)), {"trust": "quarantined"}, 0.9767),
        (History(moment=days_ago(1_461)), {"pinned": True}, 1.0),
        (History(5, 3, NOW, 0, NOW), {"pinned": True}, 1.0952),
        (History(5, 3, NOW, 0, NOW), {"pinned": True, "trust": "untrusted"}, 1.0),
    ],
)
def test_the_factor_of_a_history_is_golden(
    history: History, document: dict[str, Any], value: float
) -> None:
    assert round(factor(history, NOW, **document), 4) == value


@given(JUDGED, MOMENTS, CONSTANTS, DOCUMENTS)
def test_a_factor_keeps_its_bounds_for_any_history_and_clock(
    history: History, now: int, constants: Constants, document: dict[str, Any]
) -> None:
    value = factor(history, now, constants, **document)
    assert LOWEST <= value <= HIGHEST
    if document["pinned"]:
        assert value >= 1.0
    if document["trust"] != "trusted":
        assert value <= 1.0


@given(USES, MOMENTS, CONSTANTS, DOCUMENTS, COUNTS, COUNTS, COUNTS)
def test_more_use_never_lowers_a_factor(
    history: History,
    now: int,
    constants: Constants,
    document: dict[str, Any],
    reads: int,
    days: int,
    degree: int,
) -> None:
    more = history._replace(
        reads=max(history.reads, reads),
        days=max(history.days, days),
        degree=max(history.degree, degree),
    )
    before, after = (factor(each, now, constants, **document) for each in (history, more))
    assert after >= before - ROUNDING


@given(USES, MOMENTS, CONSTANTS, DOCUMENTS, COUNTS, MOMENTS)
def test_being_read_with_one_more_candidate_never_lowers_a_factor(
    history: History,
    now: int,
    constants: Constants,
    document: dict[str, Any],
    count: int,
    last: int,
) -> None:
    more = history._replace(together=(*history.together, (count, last)))
    before, after = (factor(each, now, constants, **document) for each in (history, more))
    assert after >= before - ROUNDING


@given(USES, MOMENTS, MOMENTS, CONSTANTS, DOCUMENTS)
def test_time_that_passes_never_raises_a_factor(
    history: History, now: int, later: int, constants: Constants, document: dict[str, Any]
) -> None:
    now, later = sorted((now, later))
    early, late = (factor(history, at, constants, **document) for at in (now, later))
    assert late <= early + ROUNDING


@given(USES, MOMENTS, CONSTANTS, DOCUMENTS, MOMENTS)
def test_the_older_of_two_equal_histories_is_never_higher(
    history: History, now: int, constants: Constants, document: dict[str, Any], moment: int
) -> None:
    older, younger = sorted((moment, now if history.moment is None else history.moment))
    low, high = (
        factor(history._replace(moment=each), now, constants, **document)
        for each in (older, younger)
    )
    assert low <= high + ROUNDING


@given(MOMENTS, MOMENTS, CONSTANTS, DOCUMENTS)
def test_a_memory_that_is_new_and_unread_keeps_its_order(
    now: int, ahead: int, constants: Constants, document: dict[str, Any]
) -> None:
    document.update(stated=None, status=None)
    assert factor(History(moment=max(now, ahead)), now, constants, **document) == 1.0


@given(USES, MOMENTS, CONSTANTS, st.booleans())
def test_a_file_does_not_age(
    history: History, now: int, constants: Constants, pinned: bool
) -> None:
    without_age = history._replace(moment=None)
    of_file, unaged = (
        factor(each, now, constants, kind="file", pinned=pinned) for each in (history, without_age)
    )
    assert of_file == unaged >= 1.0


@given(USES, MOMENTS, CONSTANTS, st.sampled_from(["untrusted", "quarantined"]), st.booleans())
def test_the_use_of_a_text_that_is_not_trusted_changes_nothing(
    history: History, now: int, constants: Constants, trust: Any, pinned: bool
) -> None:
    never_read = History(moment=history.moment)
    used, unused = (
        factor(each, now, constants, trust=trust, pinned=pinned) for each in (history, never_read)
    )
    assert used == unused


@given(USES, MOMENTS, CONSTANTS, DOCUMENTS)
def test_switched_off_every_factor_is_one(
    history: History, now: int, constants: Constants, document: dict[str, Any]
) -> None:
    assert weigh(history, now, constants._replace(enabled=False), **document) == Weight()
    assert Weight().factor == 1.0


@given(JUDGED, MOMENTS, DOCUMENTS)
def test_without_weights_every_factor_is_one(
    history: History, now: int, document: dict[str, Any]
) -> None:
    weightless = DEFAULT_CONSTANTS._replace(
        use_weight=0.0,
        age_weight=0.0,
        gamma=0.0,
        importance_weight=0.0,
        feedback_weight=0.0,
        done_cost=0.0,
        archived_cost=0.0,
    )
    assert factor(history, now, weightless, **document) == 1.0


@given(JUDGED, JUDGED, MOMENTS, CONSTANTS, DOCUMENTS, st.floats(0.01, 1.0))
def test_what_outscores_another_by_far_is_never_overtaken(
    history: History,
    other: History,
    now: int,
    constants: Constants,
    document: dict[str, Any],
    score: float,
) -> None:
    far_below = 0.63 * score
    first, second = (factor(each, now, constants, **document) for each in (history, other))
    assert score * first > far_below * second


# A history of two years: what is read now and then, what was dropped, what nobody ever read


def test_used_facts_rise_stale_ones_sink_and_pinned_ones_do_not() -> None:
    created = days_ago(730)
    used = factor(History(12, 8, days_ago(3), 2, created), NOW)
    dropped = factor(History(12, 8, days_ago(700), 2, created), NOW)
    untouched = factor(History(moment=created), NOW)
    fresh = factor(History(moment=days_ago(1)), NOW)
    pinned = factor(History(moment=created), NOW, pinned=True)
    assert used > 1.1
    assert untouched < dropped < fresh < used
    assert untouched < 0.97
    assert pinned == 1.0


# Importance that was stated when the text was stored


@pytest.mark.parametrize(
    ("stated", "document", "expected"),
    [
        (None, {}, 1.0),
        (0.5, {}, 1.0),
        (1.0, {}, 1.1),
        (0.0, {}, 0.9),
        (0.0, {"pinned": True}, 1.0),
        (1.0, {"trust": "untrusted"}, 1.0),
        (0.0, {"trust": "untrusted"}, 0.9),
    ],
)
def test_stated_importance_moves_a_score_a_little(
    stated: float | None, document: dict[str, Any], expected: float
) -> None:
    moved = factor(History(moment=NOW), NOW, stated=stated, **document)
    assert moved == pytest.approx(expected)


def test_importance_weight_switches_stated_importance_off() -> None:
    constants = constants_from([("importance_weight", 0)])
    assert weigh(History(moment=NOW), NOW, constants, stated=1.0).factor == 1.0


# Explaining it


@pytest.mark.parametrize(
    ("history", "document", "line"),
    [
        (
            History(5, 3, NOW, 0, NOW),
            {},
            "limbic x 1.0952: use 1.0952 (5 reads on 3 days), together 1.0000, age 1.0000",
        ),
        (
            History(1, 1, NOW, 0, NOW, ((3, NOW),)),
            {},
            "limbic x 1.0556: use 1.0349 (1 read on 1 day), together 1.0200, age 1.0000",
        ),
        (
            History(moment=days_ago(1_461)),
            {"pinned": True},
            "limbic x 1.0000: use 1.0000 (0 reads on 0 days), together 1.0000, age 0.9640, "
            "bounded from 0.9640",
        ),
        (
            History(moment=NOW),
            {"stated": 0.8},
            "limbic x 1.0600: use 1.0000 (0 reads on 0 days), together 1.0000, age 1.0000, "
            "importance 1.0600",
        ),
    ],
)
def test_the_explanation_names_every_part_and_the_bound(
    history: History, document: dict[str, Any], line: str
) -> None:
    assert explain_weight(weigh(history, NOW, **document), history) == line


@pytest.mark.parametrize(
    ("name", "number"),
    [
        *(("nonsense", 1), ("gamma", -1), ("half_life_message", 0), ("half_life_dreams", 3)),
        *(("enabled", 1), ("half_lives", 1), ("message", 3)),
    ],
)
def test_a_constant_that_does_not_exist_is_refused(name: str, number: float) -> None:
    with pytest.raises(ValueError, match=name):
        constants_from([(name, number)])


def test_constants_are_changed_by_name() -> None:
    changed = constants_from([("d_max", 7.0), ("age_weight", 0.5), ("half_life_note", 30)])
    assert (changed.d_max, changed.age_weight) == (7, 0.5)
    assert changed.half_lives == {"message": 7.0, "note": 30}
    assert constants_from(()) == DEFAULT_CONSTANTS


# Feedback and status


@given(USES, MOMENTS, CONSTANTS, DOCUMENTS)
def test_without_feedback_and_status_the_factor_is_exactly_what_it_was(
    history: History, now: int, constants: Constants, document: dict[str, Any]
) -> None:
    unjudged = {**document, "status": None}
    weight = weigh(history, now, constants, **unjudged)
    assert (weight.feedback, weight.status) == (None, None)
    stated = 1.0 if weight.stated is None else weight.stated
    low = 1.0 if document["pinned"] else LOWEST
    before = weight.use * weight.together * weight.age * stated
    assert weight.factor == min(HIGHEST, max(low, before))
    assert weigh(history, now, constants, **{**document, "status": "active"}) == weight


@pytest.mark.parametrize(
    ("good", "wrong", "status", "value"),
    [
        (1, 0, None, 1.1),
        (3, 0, None, 1.15),
        (0, 1, None, 0.9),
        (0, 3, None, 0.85),
        (2, 2, None, 1.0),
        (10**9, 0, None, 1.2),
        (0, 10**9, None, 0.8),
        (0, 0, "active", 1.0),
        (0, 0, "done", 0.9),
        (0, 0, "archived", 0.8),
        (0, 3, "archived", 0.8),
        (1, 0, "done", 0.99),
    ],
)
def test_the_factor_of_feedback_and_status_is_golden(
    good: int, wrong: int, status: DocumentStatus | None, value: float
) -> None:
    judged = History(moment=NOW, good=good, wrong=wrong)
    assert factor(judged, NOW, status=status) == pytest.approx(value)


@given(JUDGED, MOMENTS, CONSTANTS, DOCUMENTS, COUNTS)
def test_praise_never_lowers_and_blame_never_raises_a_factor(
    history: History, now: int, constants: Constants, document: dict[str, Any], more: int
) -> None:
    history = history._replace(good=max(0, history.good), wrong=max(0, history.wrong))
    better = history._replace(good=history.good + max(0, more))
    worse = history._replace(wrong=history.wrong + max(0, more))
    values = [factor(each, now, constants, **document) for each in (worse, history, better)]
    assert values[0] <= values[1] + ROUNDING
    assert values[1] <= values[2] + ROUNDING


def test_praise_of_a_text_that_is_not_trusted_changes_nothing() -> None:
    praised, blamed = History(moment=NOW, good=9), History(moment=NOW, wrong=9)
    assert factor(praised, NOW, trust="untrusted") == 1.0
    assert factor(blamed, NOW, trust="untrusted") < 1.0


def test_feedback_and_status_are_explained() -> None:
    history = History(moment=NOW, good=2, wrong=1)
    line = explain_weight(weigh(history, NOW, status="done"), history)
    assert line.endswith("feedback 1.0500 (2 good, 1 wrong), status 0.9000")
