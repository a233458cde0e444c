"""The cutting of texts: one table per rule, and the promises that hold for any text."""

import sys
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plait.errors import UsageError
from plait.types import Cut, Passage
from plait.writing.chunking import (
    DEFAULT_OVERLAP,
    DEFAULT_SIZE,
    Style,
    chunk,
    first_heading,
)

STYLES = ("markdown", "plain", "rst", "org")


def words(count: int, word: str = "word") -> str:
    return " ".join(f"{word}{number}" for number in range(count))


def end_of(passage: Passage) -> int:
    return passage.start + len(passage.text)


def headings(text: str, **options) -> list[str]:
    return [passage.heading for passage in chunk(text, **options)]


# What holds for any text.

MARKUP = st.sampled_from(
    (
        *("# One\n", "## Two\n", "### Three ###\n", "#tag ", "Title\n===\n", "Other\n---\n"),
        *("```\n", "```python\n", "~~~~\n", "- item\n", "  more\n", "1. first\n", "***\n"),
        *("\n", "\n\n", "\r\n", "word ", "A sentence ends. ", "Steps:\n", "x" * 70),
        *("漢字です。", "、", "かな" * 20, "e\u0301" * 20, "\x0b", "\x0c", "\x1c", "\x85"),
        *("\u2028", "\u2029", "\xa0", "\ufeff", "\x00", "\ud800", " " * 90, "\n" * 90, "\t"),
        *("> quote\n", "| a | b |\n", "---\n", "+++\n", "key: value\n", "* Star\n"),
        *("** Two stars\n", "====\nFramed\n====\n"),
    )
)
TEXTS = st.one_of(
    st.text(), st.lists(st.one_of(MARKUP, st.text(max_size=40)), max_size=60).map("".join)
)
SIZES = st.integers(50, 200).flatmap(
    lambda size: st.tuples(st.just(size), st.integers(0, (size - 1) // 2))
)


@given(TEXTS, SIZES, st.sampled_from(STYLES))
@example(
    " " * 80 + "---\n" + " " * 80 + "かな" * 20 + "、" + " " * 80 + "\nmore\n", (60, 29), "plain"
)
@example("===\n" + " " * 80 + "deeply indented\n", (50, 0), "markdown")
@example("---\n" + "\n" * 90 + "---\ntext\n", (50, 0), "markdown")
def test_passages_tile_the_text_without_a_gap(text, sizes, style):
    size, overlap = sizes
    passages = chunk(text, size=size, overlap=overlap, style=style)
    if not text.strip():
        assert passages == []
        return
    assert passages[0].start == 0
    assert end_of(passages[-1]) == len(text)
    assert [passage.ordinal for passage in passages] == list(range(len(passages)))
    for passage in passages:
        assert passage.text == text[passage.start : end_of(passage)]
        assert passage.text.strip()
    for before, after in pairwise(passages):
        assert before.start < after.start <= end_of(before) < end_of(after)
        assert end_of(before) - after.start <= overlap


@given(TEXTS, SIZES, st.sampled_from(STYLES))
@example("k: v\n" + " " * 80 + "> q    - item " + "い" * 30 + "、End. \n", (100, 0), "org")
def test_only_a_fence_makes_a_passage_longer_than_the_window(text, sizes, style):
    size, overlap = sizes
    for passage in chunk(text, size=size, overlap=overlap, style=style):
        fenced = style == "markdown" and ("```" in passage.text or "~~~" in passage.text)
        assert fenced or len(passage.text.strip()) <= 1.3 * size


@given(TEXTS, SIZES)
def test_line_numbers_are_those_of_the_first_and_last_visible_line(text, sizes):
    size, overlap = sizes
    lines = text.split("\n")
    for passage in chunk(text, size=size, overlap=overlap):
        visible = passage.text.strip()
        first = passage.start + passage.text.index(visible)
        assert passage.start_line == text.count("\n", 0, first) + 1
        assert passage.end_line == text.count("\n", 0, first + len(visible)) + 1
        assert lines[passage.start_line - 1].strip()
        assert lines[passage.end_line - 1].strip()


@given(TEXTS, SIZES, st.sampled_from(STYLES))
def test_the_same_text_is_always_cut_the_same_way(text, sizes, style):
    size, overlap = sizes
    options = {"size": size, "overlap": overlap, "style": style}
    assert chunk(text, **options) == chunk("".join(list(text)), **options)


PARAGRAPHS = st.integers(1, 60).map(lambda count: words(count) + ".\n")
FENCES = st.integers(1, 40).map(lambda lines: "```sh\n# run\n" + "make all\n\n" * lines + "```\n")
TITLES = st.tuples(st.integers(1, 6), st.sampled_from("ABC")).map(
    lambda at: f"{'#' * at[0]} {at[1]}\n"
)


@given(st.lists(st.one_of(PARAGRAPHS, FENCES, TITLES), min_size=1), SIZES)
def test_no_cut_and_no_overlap_falls_into_a_fence(parts, sizes):
    size, overlap = sizes
    text = "\n".join(parts)
    borders = {passage.start for passage in chunk(text, size=size, overlap=overlap)}
    at = 0
    for part in parts:
        if part.startswith("```"):
            assert not borders & set(range(at + 1, at + len(part)))
        at += len(part) + 1


@given(st.lists(st.one_of(PARAGRAPHS, TITLES), min_size=1), SIZES)
def test_an_overlap_holds_no_heading_and_starts_with_a_word(parts, sizes):
    size, overlap = sizes
    text = "\n".join(parts)
    for before, after in pairwise(chunk(text, size=size, overlap=overlap)):
        repeated = text[after.start : end_of(before)]
        assert "#" not in repeated
        assert text[after.start - 1].isspace()
        assert not after.text[0].isspace()


@given(st.lists(st.one_of(PARAGRAPHS, TITLES), min_size=1))
def test_a_breadcrumb_ends_with_the_nearest_heading_above_the_passage(parts):
    text = "\n".join(parts)
    for passage in chunk(text, size=100, overlap=10):
        marks = [line for line in text[: end_of(passage)].split("\n") if line.startswith("#")]
        nearest = marks[-1].lstrip("# ") if marks else ""
        assert passage.heading.split("; ")[-1].split(" > ")[-1] == nearest


# Headings and sections.


@pytest.mark.parametrize(
    ("text", "breadcrumbs"),
    [
        ("no heading at all\n", [""]),
        ("# A\nbody\n", ["A"]),
        ("before\n# A\nbody\n", ["", "A"]),
        ("# A\none\n## B\ntwo\n### C\nthree\n", ["A", "A > B", "A > B > C"]),
        ("# A\none\n### C\ntwo\n## B\nthree\n# D\nfour\n", ["A", "A > C", "A > B", "D"]),
        ("# Closed ##\nbody\n", ["Closed"]),
        ("# C#\nbody\n", ["C#"]),
        ("#   Wide \t title  \nbody\n", ["Wide title"]),
        ("   # Indented\nbody\n", ["Indented"]),
        ("    # code\nbody\n", [""]),
        ("#hashtag\nbody\n", [""]),
        ("####### seven\nbody\n", [""]),
        ("#\nbody\n", [""]),
        ("## ##\nbody\n", [""]),
        ("# A\r\nbody\r\n## B\r\nbody\r\n", ["A", "A > B"]),
        ("\ufeff# A\nbody\n", ["A"]),
        ("# A\x0b# not B\nbody\n", ["A # not B"]),
        ("\n\n# A\nbody\n", ["A"]),
        ("---\ntitle: A\n---\nbody\n", [""]),
        ("> # quoted\nbody\n", [""]),
    ],
)
def test_headings_make_breadcrumbs(text, breadcrumbs):
    assert list(dict.fromkeys(headings(spread(text), size=100, overlap=0))) == breadcrumbs


def spread(text: str) -> str:
    """Make every line of body text long enough to be a section of its own."""
    for body in ("body", "before", "one", "two", "three", "four"):
        text = text.replace(f"{body}\r\n", f"{words(12, body)}\r\n").replace(
            f"{body}\n", f"{words(12, body)}\n"
        )
    return text


@pytest.mark.parametrize(
    ("text", "breadcrumb"),
    [
        ("Title\n=====\nbody", "Title"),
        ("Title\n---\nbody", "Title"),
        ("Title\r\n=====\r\nbody", "Title"),
        ("# A\nTitle\n---\nbody", "A > Title"),
        ("```\ncode\n```\nTitle\n---\nbody", "Title"),
        ("text\n\nTitle\n---\nbody", "Title"),
        ("one line\nof a paragraph\n---\nbody", ""),
        ("- item\n---\nbody", ""),
        ("| cell |\n---\nbody", ""),
        ("Title\n--\nbody", ""),
        ("***\n---\nbody", ""),
        ("Title\n\n---\nbody", ""),
    ],
)
def test_an_underlined_line_of_its_own_is_a_heading(text, breadcrumb):
    assert headings(text)[-1].split("; ")[-1] == breadcrumb


def test_tiny_sections_share_a_passage_that_names_them_all():
    text = "# Guide\nHello.\n## Setup\nPlug in.\n## Usage\nPress go.\n"
    assert headings(text, size=400, overlap=0) == ["Guide; Guide > Setup; Guide > Usage"]
    assert headings(text, size=100, overlap=0) == [
        "Guide",
        "Guide > Setup",
        "Guide > Usage",
    ]


def test_a_tiny_section_does_not_join_a_longer_one():
    text = f"# Tiny\nHello.\n# Long\n{words(60)}\n# Small\nBye.\n# Last\nReally.\n"
    assert headings(text, size=600, overlap=0) == ["Tiny", "Long", "Small; Last"]


def test_text_before_the_first_heading_joins_a_tiny_section_without_a_name():
    assert headings("Hello.\n# A\nBye.\n#\nNameless.\n") == ["A"]


def test_sections_stop_joining_when_their_names_grow_too_long():
    text = "".join(f"# {'long name ' * 15}{number}\n" for number in range(10))
    assert all(len(heading) <= 400 for heading in headings(text, size=10_000, overlap=0))
    assert len(chunk(text, size=10_000, overlap=0)) == 5


def test_a_heading_followed_by_its_subheading_belongs_to_the_subheading():
    text = f"# A\n\n## B\n### C\n{words(20)}\n# D\n\n# E\n{words(20)}\n"
    passages = chunk(text, size=100, overlap=0)
    assert [passage.heading for passage in passages] == ["A > B > C", "A > B > C", "D", "E", "E"]
    assert passages[0].text.startswith("# A\n\n## B\n### C\nword0")


def test_an_endless_heading_is_shortened_in_the_breadcrumb():
    (passage,) = chunk(f"# {words(100)}\nbody\n", size=1000, overlap=0)
    assert passage.heading.endswith(" word29…")
    assert headings(f"# {'x' * 1000}\n")[0] == "x" * 200 + "…"


@pytest.mark.parametrize("title", ["A", "A title that is half as long as a passage"])
@pytest.mark.parametrize("body", [words(40), "```\n" + "word0\n" * 40 + "```"])
def test_a_heading_does_not_stand_alone_when_the_text_below_it_is_long(title, body):
    first = chunk(f"# {title}\n\n{body}\n", size=100, overlap=0)[0]
    assert "word0" in first.text


# Fences.


@pytest.mark.parametrize(
    "fence",
    [
        "```\n# no heading\n```\n",
        "```python\n# no heading\n```   \n",
        "~~~\n# no heading\n```\n# nor here\n~~~\n",
        "````\n```\n# no heading\n```\n````\n",
        "    ```\n# no heading\n    ```\n",
        "- ```\n# no heading\n  ```\n",
        "1. ```sh\n# no heading\n   ```\n",
        "```\r\n# no heading\r\n```\r\n",
        "```\n# no heading\n`````\n",
        "```\n# unclosed\n",
    ],
)
def test_a_hash_inside_a_fence_is_no_heading(fence):
    assert headings(f"# Real\n{fence}") == ["Real"]


@pytest.mark.parametrize(
    "text",
    ["``inline``\n# B\n", "``` inline ``` code\n# B\n", "~~ no ~~\n# B\n", "text ```\n# B\n"],
)
def test_backticks_in_a_line_open_no_fence(text):
    assert headings(f"# A\n{text}") == ["A; B"]


@pytest.mark.parametrize("lines", [10, 100, 1000])
def test_a_fence_stays_whole_whatever_its_size(lines):
    fence = "```\n" + "some code\n\n" * lines + "```\n"
    text = f"# A\n{words(40)}\n\n{fence}\n{words(40)}\n"
    holders = [
        passage for passage in chunk(text, size=200, overlap=20) if "some code" in passage.text
    ]
    assert len(holders) == 1
    assert fence in holders[0].text


def test_an_unclosed_fence_runs_to_the_end_unless_it_would_swallow_too_much():
    short, long = ("# A\n```\n" + "code line\n" * lines + "# B\n" for lines in (20, 400))
    assert headings(short, size=100, overlap=0) == ["A"]
    assert headings(long, size=100, overlap=0)[-1] == "B"


def test_a_short_introduction_stays_with_a_long_fence():
    fence = "```\n" + "some code\n" * 50 + "```\n"
    passages = chunk(f"Run this:\n\n{fence}\nThen rest.\n", size=100, overlap=0)
    assert [passage.text for passage in passages] == [f"Run this:\n\n{fence}\n", "Then rest.\n"]


def test_the_text_after_a_fence_does_not_repeat_the_fence():
    fence = "```\n" + "some code\n" * 15 + "```\n"
    passages = chunk(f"{words(20)}\n{fence}\n{words(30)}\n", size=150, overlap=60)
    (after,) = (index for index, passage in enumerate(passages) if "some code" in passage.text)
    assert passages[after + 1].text.startswith("word0")


# Where a cut falls.


def cut_before(text: str, **options) -> str:
    """The line before which the first cut falls."""
    return chunk(text, **options)[1].text.split("\n")[0]


FILLER = "filler text of one line\n"  # 24 characters


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("---\n", "\nparagraph\n"),
        ("***\n", "\nparagraph\n"),
        ("_ _ _\n", "\nparagraph\n"),
        ("\nparagraph\n", "- item\n"),
        ("- item\n", FILLER),
        ("2) item\n", FILLER),
    ],
)
def test_the_better_break_wins_whichever_comes_first(better, worse):
    options = {"size": 480, "overlap": 0}
    start, middle, end = FILLER * 17, FILLER * 3, FILLER * 20
    wanted = better.strip().split("\n")[0]
    assert cut_before(start + better + middle + worse + end, **options) == wanted
    assert cut_before(start + worse + middle + better + end, **options) == wanted


@pytest.mark.parametrize(("lines", "wanted"), [(17, "after the code"), (20, "```sh")])
def test_code_is_the_best_break_on_the_side_nearer_to_the_size(lines, wanted):
    code = "```sh\nmake\n```\nafter the code\n"
    text = FILLER * lines + code + FILLER * 2 + "---\n" + FILLER * 20
    assert cut_before(text, size=480, overlap=0) == wanted


def test_of_two_equal_breaks_the_one_nearer_to_the_size_wins():
    text = (
        FILLER * 15
        + "\nfar below\n"
        + FILLER * 4
        + "\nnear\n"
        + FILLER * 4
        + "\nfar above\n"
        + FILLER * 20
    )
    assert cut_before(text, size=480, overlap=0) == "near"


def test_the_end_of_a_list_is_a_better_break_than_a_blank_line():
    text = FILLER * 14 + "- a\n- b\n\nafter the list\n" + FILLER * 3 + "\nparagraph\n" + FILLER * 20
    assert cut_before(text, size=480, overlap=0) == "after the list"


def test_a_list_that_fits_moves_whole_into_the_next_passage():
    items = "".join(
        f"- item number {number}\n\n  and its second paragraph\n\n" for number in range(9)
    )
    passages = chunk(FILLER * 8 + "\n" + items, size=400, overlap=0)
    assert [passage.text for passage in passages] == [FILLER * 8 + "\n", items]


def test_a_long_list_is_cut_between_its_items():
    items = "".join(f"- item {number}\n  goes on here\n" for number in range(60))
    passages = chunk(items, size=300, overlap=0)
    assert len(passages) > 3
    assert all(passage.text.startswith("- item") for passage in passages)


def test_a_line_that_announces_a_list_stays_with_it():
    text = FILLER * 10 + "\nThe steps are these:\n\n" + "- step\n" * 30 + "\n" + FILLER * 10
    assert cut_before(text, size=330, overlap=0) == "The steps are these:"


def test_wrapped_prose_is_cut_where_a_line_ends_a_sentence():
    text = FILLER * 17 + "and here it ends.\n" + "New thought\n" + FILLER * 30
    assert cut_before(text, size=480, overlap=0) == "New thought"


def test_blank_lines_belong_to_the_passage_before_them():
    text = "\n \n" + FILLER * 4 + "\n\n\n" + FILLER * 4 + "\n\n"
    assert [passage.text for passage in chunk(text, size=96, overlap=0)] == [
        "\n \n" + FILLER * 4 + "\n\n\n",
        FILLER * 4 + "\n\n",
    ]


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\r\n\t\x0b\u2028\x85"])
def test_a_text_of_white_space_has_no_passages(text):
    assert chunk(text) == []


def test_a_short_text_is_one_passage():
    assert chunk("just this") == [Passage("just this", "", 1, 1, 0, 0)]


# Lines longer than a passage.


def test_an_oversize_paragraph_is_cut_after_its_sentences():
    text = " ".join(f"Sentence number {number} says little." for number in range(60))
    passages = chunk(text, size=512, overlap=0)
    assert len(passages) == 4
    assert all(passage.text.startswith("Sentence") for passage in passages)


@pytest.mark.parametrize(
    ("sentence", "opening"),
    [
        ("Is it so? ", "Is"),
        ("He said “so it is!” ", "He"),
        ("これは短い文です。", "これは"),
        ("本当ですか？！", "本当"),
        ("「これは短い文です。」", "「"),
        ("यह एक वाक्य है। ", "यह"),
        ("version 1.5 of a.b.c is out. ", "version"),
        ("これは、", "これは"),
        ("nothing ends here ", ("nothing", "ends", "here")),
    ],
)
def test_every_passage_of_a_long_line_starts_at_a_sentence_or_else_a_word(sentence, opening):
    for overlap in (0, 40):
        passages = chunk(sentence * 200, size=100, overlap=overlap)
        assert len(passages) > 5
        assert all(passage.text.startswith(opening) for passage in passages)


def test_an_endless_word_is_cut_anywhere_but_not_before_an_accent():
    passages = chunk("e\u0301\u0302" * 1000, size=100, overlap=20)
    assert len(passages) > 10
    assert all(passage.text.startswith("e") for passage in passages)


def test_a_text_of_nothing_but_accents_is_cut_all_the_same():
    passages = chunk("\u0301" * 1000, size=100, overlap=0)
    assert {len(passage.text) for passage in passages} == {100}


def test_an_overlap_does_not_start_in_the_middle_of_an_endless_word():
    second = chunk("x" * 72 + " " + words(60), size=100, overlap=49)[1]
    assert second.text.startswith("word0")


def test_the_paragraph_after_a_short_heading_is_cut_rather_than_left_behind():
    text = "# Title\n\n" + "A sentence of some length. " * 25
    assert len(text) > 1.3 * 512
    assert len(chunk(text, size=512, overlap=50)[0].text) > 0.7 * 512


# Overlap.


@pytest.mark.parametrize(
    ("overlap", "repeated"),
    [
        (0, ""),
        (8, "line\n"),
        (30, FILLER),
        (60, FILLER * 2),
    ],
)
def test_an_overlap_repeats_whole_lines_or_else_whole_words(overlap, repeated):
    first, second, *_ = chunk(FILLER * 60, size=480, overlap=overlap)
    assert first.text[second.start - first.start :] == repeated


def test_an_overlap_prefers_a_sentence_to_a_word():
    line = "Some longer words come first. Then it ends.\n"
    first, second, *_ = chunk(line * 30, size=440, overlap=30)
    assert first.text[second.start - first.start :] == "Then it ends.\n"


def test_no_text_is_repeated_across_a_heading():
    text = "".join(f"# Part {number}\n{words(30)}\n" for number in range(5))
    passages = chunk(text, size=200, overlap=90)
    for before, after in pairwise(passages):
        if before.heading != after.heading:
            assert after.start == end_of(before)
            assert after.text.startswith("# Part")


def test_an_overlap_does_not_reach_back_into_heading_lines():
    text = f"# {words(8)}\n## Sub\nBody of one line.\n\n{words(15)}\n"
    first, second, *_ = chunk(text, size=100, overlap=49)
    assert first.text.endswith("## Sub\nBody of one line.\n\n")
    assert second.text.startswith("Body")


def test_a_passage_is_never_mostly_repetition():
    line = "This line has forty-five characters, no more\n"
    text = f"{line * 2}---\n\n{'endless' * 17}\n"
    assert len(chunk(text, size=100, overlap=49)) == 2
    for before, after in pairwise(chunk(text, size=100, overlap=49)):
        assert end_of(after) - end_of(before) >= 30


def test_a_line_that_is_cut_anyway_keeps_its_overlap():
    first, second, *_ = chunk(f"{words(16)}\n\n{words(60)}\n", size=100, overlap=20)
    assert first.text == f"{words(16)}\n\n"
    assert second.text.startswith("word14 word15\n\nword0")


def test_the_overlap_gives_way_when_the_next_line_needs_the_room():
    line = "A line of medium length that is repeated, all of it. " * 12 + "\n"
    assert 0.6 * 1000 < len(line) < 1.3 * 500
    passages = chunk(line * 3, size=500, overlap=240)
    assert [passage.text for passage in passages] == [line] * 3


def test_seed_sizes_give_passages_of_about_512_characters():
    text = "\n\n".join(words(25) + "." for _ in range(60))
    passages = chunk(text, size=512, overlap=50)
    assert all(len(passage.text) <= 1.3 * 512 for passage in passages)
    assert all(len(passage.text) >= 0.7 * 512 for passage in passages[:-1])


# Other styles.


def test_plain_text_has_neither_headings_nor_fences():
    text = "# not a heading\n```\n" + FILLER * 40 + "```\n"
    passages = chunk(text, size=200, overlap=0, style="plain")
    assert {passage.heading for passage in passages} == {""}
    assert all(len(passage.text) <= 260 for passage in passages)


@pytest.mark.parametrize(
    ("text", "breadcrumbs"),
    [
        ("A\n===\nbody\nB\n---\nbody\nC\n===\nbody\n", ["A", "A > B", "C"]),
        ("===\n A\n===\nbody\nB\n===\nbody\n", ["A", "A > B"]),
        ("Longer title\n===\nbody\n", [""]),
        ("before\n\n----\n\nbody\n", [""]),
        ("# A\nbody\n", [""]),
        ("\ufeffA\r\n===\r\nbody\r\n", ["A"]),
    ],
)
def test_underlines_make_the_headings_of_rst(text, breadcrumbs):
    breadcrumbs_in_order = headings(spread(text), size=100, overlap=0, style="rst")
    assert list(dict.fromkeys(breadcrumbs_in_order)) == breadcrumbs


def test_rst_headings_deeper_than_six_levels_are_siblings():
    text = "".join(f"Title{mark}\n{mark * 8}\n{words(12)}\n" for mark in "=-~^*+#:")
    assert headings(text, size=100, overlap=0, style="rst")[-1].count(" > ") == 5


@pytest.mark.parametrize(
    ("text", "breadcrumbs"),
    [
        ("* A\nbody\n** B\nbody\n* C\nbody\n", ["A", "A > B", "C"]),
        ("*bold* text\nbody\n", [""]),
        (" * item\nbody\n", [""]),
        ("******* A\nbody\n********* B\nbody\n", ["A", "B"]),
    ],
)
def test_stars_make_the_headings_of_org(text, breadcrumbs):
    breadcrumbs_in_order = headings(spread(text), size=100, overlap=0, style="org")
    assert list(dict.fromkeys(breadcrumbs_in_order)) == breadcrumbs


# Settings.


@pytest.mark.parametrize(
    ("options", "code", "subject", "advice"),
    [
        ({"size": 49}, "bad_chunk_size", "49", "at least 50"),
        ({"size": 100, "overlap": -1}, "bad_overlap", "-1", "0 to 49"),
        ({"size": 100, "overlap": 50}, "bad_overlap", "50", "0 to 49"),
        ({"size": 101, "overlap": 51}, "bad_overlap", "51", "0 to 50"),
        ({"style": "html"}, "unknown_style", "html", "markdown, plain, rst, org"),
    ],
)
def test_settings_out_of_range_are_refused_with_the_range(options, code, subject, advice):
    with pytest.raises(UsageError, match=advice) as caught:
        chunk("text", **options)
    assert (caught.value.notice.code, caught.value.notice.subject) == (code, subject)


def test_the_largest_overlap_allowed_still_moves_on():
    passages = chunk(words(500), size=101, overlap=50)
    assert all(after.start - before.start >= 20 for before, after in pairwise(passages))


def test_the_identity_names_rules_size_and_overlap():
    assert Cut(512, 50, rules=3).identity == "3:512:50"
    assert Cut().identity == Cut(DEFAULT_SIZE, DEFAULT_OVERLAP).identity


# Linear time, counted in calls, since a clock would count the neighbours too.


def calls(text: str, style: Style) -> int:
    count = 0

    def note(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(note)
    try:
        chunk(text, size=100, overlap=40, style=style)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "a ",
        "a\n",
        "a. ",
        "# a\n",
        "# a\n## b\n",
        "```a\n",
        "```\n",
        "````a\n```\n",
        "~~~\n```\n",
        "- a\n\n",
        "Title\n---\n",
        "A\n==\n",
        "* a\n",
        "漢、",
        "漢。",
        "e\u0301",
        " " * 70 + "a\n",
        "word " * 30 + "\n",
    ],
)
@pytest.mark.parametrize("style", STYLES)
def test_every_further_part_of_a_text_takes_the_same_work(unit, style):
    part = unit * (2_500 // len(unit))
    once, twice, thrice = (calls(part * times, style) for times in (1, 2, 3))
    assert thrice - twice <= 1.2 * (twice - once) + 200


def test_falling_fences_do_not_each_search_the_whole_text():
    def text(count: int) -> str:
        return "".join("`" * length + "a\n" for length in range(count, 3, -1)) + "```\n" * count * 9

    # Length and number of fences both double, so the text is four times as long.
    assert len(text(200)) < 4 * len(text(100))
    assert calls(text(200), "markdown") <= 4.4 * calls(text(100), "markdown")


# Headings and front matter.


def test_front_matter_holds_no_headings():
    text = "---\n# comment\ntitle: A\n---\nB\n---\ntext\n"
    assert headings(text) == ["B"]


@pytest.mark.parametrize(
    ("text", "heading"),
    [("", ""), ("text\n", ""), ("text\n\n## B\n# A\n", "B"), ("```\n# no\n```\n# A\n", "A")],
)
def test_the_first_heading_is_found_outside_fences(text, heading):
    assert first_heading(text) == heading
