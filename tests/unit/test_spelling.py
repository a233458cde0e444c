"""How far two spellings are apart, and which words are left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.embedders.pieces import is_word
from plait.text import spelling

WORDS = st.text("abcdefß\u0430\u0431", max_size=9)


@given(WORDS, WORDS)
def test_the_distance_is_symmetric_and_bounded(left, right):
    edits = spelling.edits(left, right)
    assert edits == spelling.edits(right, left)
    assert abs(len(left) - len(right)) <= edits <= max(len(left), len(right))
    assert (edits == 0) == (left == right)


@given(WORDS, st.data())
def test_every_single_slip_is_one_edit(word, data):
    at = data.draw(st.integers(0, len(word)))
    letter = data.draw(st.sampled_from("xyz"))
    assert spelling.edits(word, word[:at] + letter + word[at:]) == 1
    if at < len(word):
        assert spelling.edits(word, word[:at] + letter + word[at + 1 :]) == 1
    if at + 1 < len(word) and word[at] != word[at + 1]:
        swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        assert spelling.edits(word, swapped) == 1


@given(WORDS, WORDS, st.integers(0, 2))
def test_the_fast_test_never_takes_a_word_that_is_farther(left, right, most):
    if spelling.is_within(left, right, most):
        assert spelling.edits(left, right) <= most


@given(WORDS, WORDS)
def test_the_fast_test_knows_every_single_edit(left, right):
    assert spelling.is_within(left, right, 1) == (spelling.edits(left, right) <= 1)


@given(WORDS, WORDS)
def test_a_slip_that_hands_make_often_costs_less_but_never_nothing(left, right):
    edits, cost = spelling.edits(left, right), spelling.cost(left, right)
    extra = spelling.FIRST_LETTER if left[:1] != right[:1] else 0.0
    assert spelling.DOUBLED * edits <= cost + 1e-9
    assert cost <= edits + extra + 1e-9


@given(st.text("abcdefgh", min_size=4, max_size=9), st.data())
def test_the_variants_of_the_beginning_have_every_slip_there(word, data):
    at = data.draw(st.integers(0, spelling.kept_letters(word) - 1))
    letter = data.draw(st.sampled_from("klm"))
    typed = word[:at] + letter + word[at + 1 :]
    assert word in set(spelling.beginnings(typed))


@pytest.mark.parametrize(
    ("typed", "stem"),
    [
        ("certifcate", "certif"),
        ("certificaet", "certif"),
        ("deplyo", "deploi"),
        ("studis", "studi"),
    ],
)
def test_a_typed_word_begins_with_its_stem_in_spite_of_one_edit(typed, stem):
    assert spelling.begins(stem, typed, 1)


@pytest.mark.parametrize("word", ["ssh", "utf8", "x509", "日本語文", "ไทยไทย", "a" * 41, ""])
def test_short_words_numbers_and_unspaced_scripts_are_left_alone(word):
    assert spelling.allowed(word) == 0


@pytest.mark.parametrize("word", ["pregnancy", "servers", "searched", "making"])
def test_english_words_are_known(word):
    assert is_word(word)


@pytest.mark.parametrize("word", ["certifcate", "kubernets", "databse"])
def test_misspelt_words_are_not(word):
    assert not is_word(word)
