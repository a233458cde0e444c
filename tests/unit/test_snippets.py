"""Snippets show the wanted terms, cut between words, with their places."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.searching.scoring import snippet
from plait.text import grams, segments
from tests.unit.test_text import MIXED


def tokens_of(text: str) -> list[tuple[int, int, str]]:
    tokens: list[tuple[int, int, str]] = []
    for start, end, n in segments(text):
        if n:
            tokens += grams(text, start, end, n)
            continue
        at = start
        for word in text[start:end].split(" "):
            if word.strip():
                tokens.append((at, at + len(word), word.lower()))
            at += len(word) + 1
    return tokens


def cut(text: str, *wanted: str, width: int = 40) -> tuple[str, list[str]]:
    shown, places = snippet(text, tokens_of(text), frozenset(wanted), width)
    return shown, [shown[start:end] for start, end in places]


FILLER = "lorem ipsum dolor sit amet " * 20


@pytest.mark.parametrize(
    ("text", "wanted", "width", "shown", "marked"),
    [
        ("", ("x",), 40, "", []),
        ("short text", (), 40, "short text", []),
        ("Rotate the keys", ("keys", "rotate"), 40, "Rotate the keys", ["Rotate", "keys"]),
        ("  two\n\n  lines \t here  ", ("lines",), 40, "two lines here", ["lines"]),
        ("one two three four five", (), 13, "one two three…", []),
        ("one two three four five", ("four",), 10, "…four…", ["four"]),
        ("one two three four five", ("three",), 7, "…three…", ["three"]),
        ("東京都の天気は晴れです", ("天気",), 6, "…都の天気は晴…", ["天気"]),
        ("東京都庁", ("東京", "京都", "都庁"), 40, "東京都庁", ["東京都庁"]),
        ("x" * 50, ("x" * 50,), 10, "x" * 10 + "…", ["x" * 10]),
    ],
)
def test_snippet_shows_the_wanted_terms(
    text: str, wanted: tuple[str, ...], width: int, shown: str, marked: list[str]
) -> None:
    assert cut(text, *wanted, width=width) == (shown, marked)


def test_snippet_prefers_distinct_terms_over_repeated_ones() -> None:
    text = f"keys keys keys keys {FILLER} rotate ssh keys {FILLER}"
    shown, marked = cut(text, "rotate", "ssh", "keys")
    assert marked == ["rotate", "ssh", "keys"]
    assert shown.startswith("…")
    assert shown.endswith("…")


def test_snippet_takes_the_first_of_equal_windows() -> None:
    text = f"early needle {FILLER} late needle {FILLER}"
    assert cut(text, "needle")[0].startswith("early needle")


def test_snippet_never_cuts_a_spaced_word_in_two() -> None:
    text = FILLER + "needle " + FILLER
    for width in range(10, 80):
        shown, _ = cut(text, "needle", width=width)
        assert set(shown.strip("…").split()) <= {*FILLER.split(), "needle"}


@given(MIXED, st.data(), st.integers(1, 60))
def test_highlights_lie_inside_the_snippet_and_on_wanted_text(
    text: str, data: st.DataObject, width: int
) -> None:
    tokens = tokens_of(text)
    terms = sorted({term for _, _, term in tokens})
    wanted = frozenset(data.draw(st.lists(st.sampled_from(terms)))) if terms else frozenset()
    shown, places = snippet(text, tokens, wanted, width)
    assert len(shown) <= width + 2
    assert list(places) == sorted(places)
    assert all(0 <= start < end <= len(shown) for start, end in places)
    assert all(before[1] < after[0] for before, after in pairwise(places))
    letters = {
        letter for start, end, term in tokens if term in wanted for letter in text[start:end]
    }
    assert all(set(shown[start:end]) <= letters | {" "} for start, end in places)
    assert bool(places) == bool(wanted)
