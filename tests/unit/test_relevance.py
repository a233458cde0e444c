"""Relevance: a probability that grows with the evidence, on the scale of this memory."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.ranking.relevance import (
    FAR,
    FARTHEST,
    LEARNED,
    LEARNED_FROM_WORDS,
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


@given(SHARE, RARITY, st.none() | COSINE, CHANCES)
def test_relevance_is_a_probability(
    covered: float, rarity: float, cosine: float | None, chance: Chance
) -> None:
    assert 0.0 <= relevance(covered, rarity, cosine, chance) <= 1.0


@given(SHARE, RARITY, COSINE, st.floats(0.0, 1.0), CHANCES)
def test_more_evidence_never_lowers_relevance(
    covered: float, rarity: float, cosine: float, more: float, chance: Chance
) -> None:
    before = relevance(covered, rarity, cosine, chance)
    more_words = min(1.0, covered + more)
    assert relevance(more_words, rarity, cosine, chance) >= before - 1e-12
    assert relevance(covered, rarity, min(1.0, cosine + more), chance) >= before - 1e-12
    alone = relevance(covered, rarity, None, chance)
    assert relevance(more_words, rarity, None, chance) >= alone - 1e-12


@given(SHARE, RARITY, COSINE, CHANCES)
def test_the_same_cosine_means_less_where_chance_comes_nearer(
    covered: float, rarity: float, cosine: float, chance: Chance
) -> None:
    nearer = chance._replace(cosine=chance.cosine + 0.1)
    assert relevance(covered, rarity, cosine, nearer) <= relevance(covered, rarity, cosine, chance)


def test_the_learned_numbers_cannot_turn_evidence_around() -> None:
    _, _, by_cover, by_all, by_rarity, by_nearness, by_both = LEARNED
    assert min(by_cover, by_all, by_rarity, by_nearness, by_nearness + by_both) > 0.0
    assert by_cover + by_both * FARTHEST > 0.0 and by_cover + by_both * 8.0 > 0.0
    assert min(LEARNED_FROM_WORDS[2:]) > 0.0


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
