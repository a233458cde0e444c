"""Relevance: a probability that grows with the evidence, on the scale of this memory."""

import functools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.ranking.relevance import (
    FAR,
    LEARNED,
    LEARNED_FROM_LOOKUPS,
    LEARNED_FROM_VECTOR,
    LEARNED_FROM_WORDS,
    NEAREST,
    NONSENSE,
    SAMPLED,
    chance_among,
    relevance,
)
from plait.types import WEAK_RELEVANCE, Space, Tuning
from plait.types.queries import Chance

SHARE = st.floats(0.0, 1.0)
RARITY = st.floats(0.0, 200.0)
COSINE = st.floats(-1.0, 1.0)
CHANCES = st.builds(Chance, st.floats(0.0, 1.0), st.floats(0.01, 0.3), st.integers(1, 10_000_000))
TUNING = Tuning(unrelated=0.2, spread=0.04)
MIDDLING = Chance(0.25, 0.04, 2_000)
SPACE = Space("test", "axes", 4)


@given(SHARE, RARITY, st.none() | COSINE, CHANCES, st.none() | SHARE, st.booleans(), st.booleans())
def test_relevance_is_a_probability(
    covered: float,
    rarity: float,
    cosine: float | None,
    chance: Chance,
    sentence: float | None,
    lookup: bool,
    across: bool,
) -> None:
    share = relevance(
        covered, rarity, cosine, chance, sentence=sentence, lookup=lookup, across=across
    )
    assert 0.0 <= share <= 1.0


@given(SHARE, RARITY, COSINE, SHARE, CHANCES, st.none() | SHARE, st.booleans(), st.booleans())
def test_more_evidence_never_lowers_relevance(
    covered: float,
    rarity: float,
    cosine: float,
    more: float,
    chance: Chance,
    sentence: float | None,
    lookup: bool,
    across: bool,
) -> None:
    judged = functools.partial(
        relevance, chance=chance, sentence=sentence, lookup=lookup, across=across
    )
    before = judged(covered, rarity, cosine)
    more_words = min(1.0, covered + more)
    assert judged(more_words, rarity, cosine) >= before - 1e-12
    assert judged(covered, rarity, min(1.0, cosine + more)) >= before - 1e-12
    assert judged(more_words, rarity, None) >= judged(covered, rarity, None) - 1e-12
    if sentence is not None:
        better = judged(covered, rarity, cosine, sentence=min(1.0, sentence + more))
        assert better >= before - 1e-12


@given(SHARE, RARITY, COSINE, CHANCES)
def test_the_same_cosine_means_less_where_chance_comes_nearer(
    covered: float, rarity: float, cosine: float, chance: Chance
) -> None:
    nearer = chance._replace(cosine=chance.cosine + 0.1)
    assert relevance(covered, rarity, cosine, nearer) <= relevance(covered, rarity, cosine, chance)


@pytest.mark.parametrize(
    "learned", [LEARNED, LEARNED_FROM_VECTOR, LEARNED_FROM_LOOKUPS, LEARNED_FROM_WORDS]
)
def test_the_learned_numbers_cannot_turn_evidence_around(learned: tuple[float, ...]) -> None:
    _, _, by_rarity, by_cover, by_all, by_nearness, by_sentence = learned
    assert min(by_rarity, by_cover) > 0.0 and min(by_all, by_nearness, by_sentence) >= 0.0
    if learned is not LEARNED_FROM_WORDS:
        # Cover tells the less, the nearer a passage is: nearness must tell more than is lost.
        assert by_nearness > by_cover / NEAREST


@pytest.mark.parametrize(
    ("covered", "rarity", "cosine", "weak"),
    [
        (1.0, 20.0, 0.5, False),  # every word, and near
        (1.0, 20.0, None, False),  # every word of a passage without a vector
        (1.0, 7.0, 0.25, False),  # one rare word, no nearer than chance
        (0.2, 30.0, 0.25, True),  # some words, no nearer than chance
        (0.0, 30.0, 0.30, True),  # no word, a little nearer than chance
        (0.0, 30.0, 0.57, False),  # no word, but far nearer than chance: another language
        (0.0, 30.0, None, True),
    ],
)
def test_what_is_weak_in_a_memory_of_some_size(
    covered: float, rarity: float, cosine: float | None, weak: bool
) -> None:
    assert (relevance(covered, rarity, cosine, MIDDLING) < WEAK_RELEVANCE) is weak


@given(SHARE, RARITY, COSINE, CHANCES, st.none() | SHARE)
def test_words_that_a_passage_in_another_language_lacks_do_not_speak_against_it(
    covered: float, rarity: float, cosine: float, chance: Chance, sentence: float | None
) -> None:
    judged = functools.partial(relevance, covered, rarity, cosine, chance, sentence=sentence)
    assert judged(across=True) >= judged()


def test_nothing_speaks_for_a_passage_without_words_that_is_farther_than_chance() -> None:
    far = MIDDLING.cosine + FAR * MIDDLING.spread - 1e-9
    assert relevance(0.0, 10.0, far, MIDDLING) == 0.0
    assert relevance(0.0, 10.0, None, MIDDLING) == 0.0
    assert 0.0 < NONSENSE < WEAK_RELEVANCE


# What chance finds


@given(CHANCES, st.integers(1, 10_000_000), st.integers(1, 10_000_000))
def test_chance_comes_nearer_as_a_memory_grows(chance: Chance, one: int, other: int) -> None:
    few, many = sorted((one, other))
    less, more = (chance_among(chance, TUNING, size) for size in (few, many))
    assert less.cosine <= more.cosine and less.spread == more.spread
    assert (less.passages, more.passages) == (few, many)


def test_a_sample_counts_before_the_numbers_of_the_embedder() -> None:
    assert chance_among(MIDDLING, TUNING, 2_000) == MIDDLING
    assert chance_among(None, TUNING, SAMPLED) == Chance(0.2, 0.04, SAMPLED)
    assert chance_among(None, TUNING, 0).passages == 1


@given(st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=80), st.integers(1, 10**9))
def test_a_sample_does_not_depend_on_the_order_of_the_questions(
    cosines: list[float], passages: int
) -> None:
    chance = Chance.of(cosines, passages)
    assert chance == Chance.of(sorted(cosines), passages)
    assert 0.0 <= chance.cosine <= 1.0 and 0.0 < chance.spread <= 2.0


def test_a_memory_about_some_of_the_questions_is_foreign_to_the_others() -> None:
    foreign = [0.2 + 0.001 * number for number in range(60)]
    assert Chance.of([*foreign, *[0.9] * 12], 100).cosine < 0.25


def test_whatever_a_file_says_relevance_stays_a_number() -> None:
    for sample in (Chance(1.0, 1e-12, 1), Chance(0.0, 1.0, 2**62)):
        for size in (1, 10**9):
            chance = chance_among(sample, TUNING, size)
            assert math.isfinite(relevance(0.5, 10.0, 0.9, chance))
