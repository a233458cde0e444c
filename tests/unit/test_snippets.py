"""Snippets show the wanted terms, cut between words, with their places."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.searching.snippets import snippet
from plait.text.unspaced import grams, segments
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
    assert all(set(shown[start:end]) <= letters | {" ", "\n"} for start, end in places)
    assert bool(places) == bool(wanted)


# -- lines ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Hard-wrapped prose\nis one line.", "Hard-wrapped prose is one line."),
        ("Two paragraphs.\n\nBoth prose.", "Two paragraphs. Both prose."),
        ("Steps:\n\n- one\n- two\n  goes on\n\nDone.", "Steps:\n- one\n- two goes on\nDone."),
        ("1. one\n   - inner\n2) two", "1. one\n   - inner\n2) two"),
        (
            "Run:\n```sh\ncd x\n\nls  -l\n```\nThat is all.\nReally.",
            "Run:\n```sh\ncd x\nls -l\n```\nThat is all. Really.",
        ),
        ("~~~\n```\nno end\n~~~\nout\nside", "~~~\n```\nno end\n~~~\nout side"),
        (
            "Text.\n\n    def f():\n        return\n\nMore.",
            "Text.\n    def f():\n        return\nMore.",
        ),
        ("    indented = 1\n    also = 2\n", "indented = 1\nalso = 2"),
        ("\tif x:\n\t\ty()\n", "if x:\n\ty()"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "| a | b |\n|---|---|\n| 1 | 2 |"),
        ("> quoted\n> twice\nlazy", "> quoted\n> twice lazy"),
        ("In 1999.\n1999. was a year", "In 1999.\n1999. was a year"),
        ("- a\u2028 - b\x0b\x85- c", "- a - b - c"),
        ("- a\n\u2028\u2028- b", "- a\n  - b"),
    ],
)
def test_lines_of_code_lists_and_tables_stay_lines(text: str, shown: str) -> None:
    assert snippet(text, [], frozenset(), 400)[0] == shown


def test_every_line_of_a_file_of_code_stays_a_line() -> None:
    text = "import os\nimport sys\n\n\ndef f():\n  return 1\n"
    shown, _ = snippet(text, [], frozenset(), 400, keep_lines=True)
    assert shown == "import os\nimport sys\ndef f():\n  return 1"


def test_a_cut_inside_code_keeps_the_lines_and_marks_the_words() -> None:
    lines = "\n".join(f"    step_{n}( a,  b )" for n in range(40))
    text = f"Before.\n```\n{lines}\n```\nAfter."
    tokens = [(text.index("step_20"), text.index("step_20") + 7, "step_20")]
    shown, [(start, end)] = snippet(text, tokens, frozenset({"step_20"}), 90)
    assert shown[start:end] == "step_20"
    assert "\nstep_20( a, b )\n" in shown.replace("\n    ", "\n")


PIECES = st.sampled_from(
    ["- ", "1. ", "```", "~~~", "    ", "\t", "\n", "\n\n", " ", "|", "> ", "word", "\u2028", "é"]
)


@given(st.lists(PIECES, max_size=40).map("".join), st.integers(1, 80), st.booleans())
def test_only_white_space_differs_and_no_line_is_empty(text: str, width: int, keep: bool) -> None:
    tokens = [(at, at + 4, "word") for at in range(len(text)) if text.startswith("word", at)]
    shown, places = snippet(text, tokens, frozenset({"word"}), width, keep_lines=keep)
    assert "".join(shown.strip("…").split()) in "".join(text.split())
    assert shown.splitlines() == shown.split("\n") or not shown
    assert all(line.strip() for line in shown.split("\n")) or not shown
    assert len(shown) <= width + 2
    if width >= 8:
        assert all(set(shown[a:b]) <= set("word") for a, b in places)
