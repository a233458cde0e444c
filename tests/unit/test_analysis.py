"""Where terms are in a text: the short way finds what the tokenizer finds."""

import re
from typing import Any

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plait.stores.sqlite import analysis
from plait.stores.sqlite.analysis import (
    _PLAIN,
    _words_beginning_like,
    tokens_among,
    tokens_and_parts,
)

_CONNECTION = apsw.Connection(":memory:")
# Every rule of Porter's has an ending here; the roots are short and long.
ROOTS = """
rel cond val hes dig vil sens form fil fail hop hopp agre trou tri siz conflat oper feud decis call
electr hope good rev allow infer air gyros adjust depend homolog communic activ angul effect probat
rat cea control roll happ sk d t 2nd IPv MAX get
"""
ENDINGS = """
s y e ed ing ies ied eed sses ational tional enci anci izer abli alli entli eli ousli ization ation
ator alism iveness fulness ousness aliti iviti biliti icate ative alize iciti ical ful ness al ance
ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize ll le ability ibly ying ies'
Name Server2 4
"""
WORDS = st.builds(
    "{}{}".format, st.sampled_from(ROOTS.split()), st.sampled_from(["", *ENDINGS.split()])
)
TEXTS = st.lists(
    st.one_of(
        WORDS, WORDS.map(str.upper), st.sampled_from(["—", "don’t", "_", "café", "ключи", "."])
    ),
    max_size=20,
).flatmap(
    lambda words: st.sampled_from([" ", "-", "_", "", " … "]).map(lambda gap: gap.join(words))
)


def listed(text: str) -> list[tuple[int, int, str]]:
    return tokens_and_parts(_CONNECTION, text)


@given(TEXTS, st.lists(WORDS, max_size=4))
@example("possibly feasibility", ["feasible", "possible"])
@example("ties dies ponies", ["tie", "die", "pony"])
def test_the_places_of_some_terms_are_those_that_the_tokenizer_finds(
    text: str, words: list[str]
) -> None:
    wanted = {term for word in words for _, _, term in listed(word)}
    wanted |= {term for _, _, term in listed(text)[::3]}
    expected = [token for token in listed(text) if token[2] in wanted]
    assert sorted(tokens_among(_CONNECTION, text, frozenset(wanted))) == sorted(expected)


# Letters beside which words may begin or end, and texts in which a word is inside another.
PLAIN_TEXTS = st.text("aab2_-' \t\n\0\xa0\xb0\u2014\u2019\u2122\u2192", max_size=40)
BEGINNINGS = st.lists(st.text("ab2", min_size=1, max_size=4), max_size=6)


@given(PLAIN_TEXTS, BEGINNINGS)
@example("abba ab b", ["b", "ab", "abb"])
@example("a", ["aa", "a"])
def test_words_that_begin_alike_are_the_words_with_these_beginnings(
    text: str, beginnings: list[str]
) -> None:
    words = [(word.start(), word.end(), word[0]) for word in re.finditer("[a-z0-9]+", text)]
    expected = [word for word in words if word[2].startswith(tuple(beginnings))]
    assert _words_beginning_like(beginnings, text) == expected


class Searched(str):
    """A text that counts how often it is searched."""

    searches = 0

    def find(self, *where: Any) -> int:
        self.searches += 1
        return super().find(*where)


def test_a_word_is_looked_at_once_for_each_beginning() -> None:
    beginnings = ["a" * length for length in range(1, 65)]
    text = Searched("b" + "a" * 5_000 + " deploy")
    assert _words_beginning_like(beginnings, text) == []
    assert text.searches <= 2 * len(beginnings)


def test_characters_of_plain_texts_divide_words_as_the_tokenizer_does() -> None:
    others = [chr(code) for code in range(0x80, 0x1_0000) if _PLAIN.fullmatch(chr(code))]
    assert len(others) > 100
    for mark in others:
        assert [token[:2] for token in listed(f"b{mark}b{mark} b")] == [(0, 1), (2, 3), (5, 6)]
        assert mark.lower() == mark


@given(TEXTS)
def test_without_terms_all_are_listed(text: str) -> None:
    assert tokens_among(_CONNECTION, text, None) == listed(text)
    assert tokens_among(_CONNECTION, text, frozenset()) == []


# Endings that Porter's rules remove or change; many of them take another one before them.
ENDINGS = """
    s es ies ed ied ing eed ated bled ized y ly al ance ence er ic able ible ant ement ment ent sion
    tion ou ism ate ive ize e ational tional enci anci izer bli bly alli entli eli ousli ization
    ation ator alism iveness fulness ousness aliti iviti biliti bility ability logi logy icate ative
    alize iciti ical ful ness ency ancy ally ently ously ivity ality
"""


@pytest.mark.parametrize("ending", ENDINGS.split())
def test_a_word_is_found_by_its_stem_whatever_its_endings(ending: str) -> None:
    roots = ("", "a", "b", "y", "tr", "abl", "hop", "fall", "sens", "electr", "w0")
    for word in (root + first + ending for root in roots for first in ("", *ENDINGS.split())):
        [(_, _, term)] = listed(word)
        assert tokens_among(_CONNECTION, word, frozenset({term})) == [(0, len(word), term)]


def test_stems_are_kept_until_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "MOST_STEMS", 2)
    terms = frozenset({"deploi", "kei", "server"})
    for text in ("deploy deploys deployed keys", "servers serving deploying", "keyed key"):
        expected = [token for token in listed(text) if token[2] in terms]
        assert tokens_among(_CONNECTION, text, terms) == expected
