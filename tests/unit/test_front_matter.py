"""Front matter: one table per kind of block, and the promises that hold for any text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.text.front_matter import front_matter

MARKUP = st.sampled_from(
    (
        *("---\n", "+++\n", "...\n", "key: value\n", "key = 'value'\n", "tags: [a, 'b']\n"),
        *("tags:\n", "- item\n", "  more\n", "text: |\n", "text: >\n", "[table]\n", "# why\n"),
        *("\n", "\r\n", "word ", "'", '"', "[", "]", "{", "\ufeff", "\x00", "\ud800", "\u2028"),
    )
)
TEXTS = st.one_of(
    st.text(), st.lists(st.one_of(MARKUP, st.text(max_size=40)), max_size=60).map("".join)
)


@pytest.mark.parametrize(
    ("block", "values"),
    [
        ("", {}),
        ("title: Keys", {"title": "Keys"}),
        ("title: Keys   ", {"title": "Keys"}),
        ("title: Keys # why", {"title": "Keys"}),
        ("title: # why", {"title": ""}),
        ("title: C#", {"title": "C#"}),
        ("url: https://example.org/a#b", {"url": "https://example.org/a#b"}),
        ("title: 'It''s: here' # why", {"title": "It's: here"}),
        ('title: "Say \\"hi\\" # no"', {"title": 'Say "hi" # no'}),
        ("title: 'half", {"title": "'half"}),
        ("title: 'a' and 'b' more", {"title": "'a' and 'b' more"}),
        ("title: '", {"title": "'"}),
        ('"quoted key": 1', {"quoted key": "1"}),
        ("two words: 1", {"two words": "1"}),
        ("clé: été", {"clé": "été"}),
        ("empty:", {"empty": ""}),
        ("a: 1\na: 2", {"a": "2"}),
        ("a: 1\n\n# why\nb: 2", {"a": "1", "b": "2"}),
        ("a: 1\r\nb: 2\r", {"a": "1", "b": "2"}),
        ("tags: [a, b]", {"tags": ["a", "b"]}),
        ("tags: [a, b] # why", {"tags": ["a", "b"]}),
        ("tags: []", {"tags": []}),
        ("tags: [\"a, b\", 'c''d', e f, ]", {"tags": ["a, b", "c'd", "e f"]}),
        ("tags: [a,\n  b]", {"tags": ["a", "b"]}),
        ("tags: [a, 'b]", {"tags": "[a, 'b]"}),
        ("tags: [a", {"tags": "[a"}),
        ("tags: [a] b", {"tags": "[a] b"}),
        ("tags: [a, [b]]", {"tags": "[a, [b]]"}),
        ("tags:\n  - a\n  # why\n  - 'b c'", {"tags": ["a", "b c"]}),
        ("tags:\n- a\n-\n- b", {"tags": ["a", "", "b"]}),
        ("tags: # why\n- a", {"tags": ["a"]}),
        ("list:\n  - name: a\n  - b", {"list": ["name: a", "b"]}),
        ("map: {a: b}", {"map": "{a: b}"}),
        ("map:\n  a: 1\n  b:\n    - c", {"map": "a: 1\nb:\n  - c"}),
        ("text: |\n  one\n    # two", {"text": "one\n  # two"}),
        ("text: >-\n  one\n  two", {"text": "one two"}),
        ("text: one\n  two", {"text": "one two"}),
    ],
)
def test_front_matter_reads_a_small_part_of_yaml(block, values):
    text = f"---\n{block}\n---\n"
    assert front_matter(text + "# Title\n") == (values, len(text))
    assert front_matter(f"\ufeff{text}# Title\n") == (values, len(text) + 1)


@pytest.mark.parametrize(
    ("block", "values"),
    [
        ("title = 'Keys'", {"title": "Keys"}),
        ('title = "Keys" # why', {"title": "Keys"}),
        ("draft = true\nweight=3", {"draft": "true", "weight": "3"}),
        ('tags = ["a", "b"]', {"tags": ["a", "b"]}),
        ('tags = [\n  "a",\n  "b",\n]', {"tags": ["a", "b"]}),
        ("[extra]\nkey = 'v'", {"extra.key": "v"}),
        ("[[menu.main]]\nweight = 1", {"menu.main.weight": "1"}),
    ],
)
def test_front_matter_reads_a_small_part_of_toml(block, values):
    text = f"+++\n{block}\n+++\n"
    assert front_matter(text + "# Title\n") == (values, len(text))


@pytest.mark.parametrize("ending", ["---", "---\n", "--- \r\n", "...\n"])
def test_front_matter_ends_with_its_closing_line(ending):
    text = f"---\r\na: 1\r\n{ending}"
    assert front_matter(text) == ({"a": "1"}, len(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "---",
        "---\n",
        "---\na: 1\n",
        "---\na: 1\n+++\n",
        "----\na: 1\n----\n",
        " ---\na: 1\n---\n",
        "text\n---\na: 1\n---\n",
        "---\nA paragraph between two rules.\n---\n",
        "---\n- a list\n---\n",
        "---\nhttps://example.org\n---\n",
        f"---\n{'long ' * 20}: 1\n---\n",
        "+++\na: 1\n+++\n",
    ],
)
def test_what_is_not_wholly_values_is_no_front_matter(text):
    assert front_matter(text) == ({}, 0)


@given(
    st.one_of(
        TEXTS,
        TEXTS.map(lambda text: f"---\n{text}\n---\n"),
        TEXTS.map(lambda text: f"+++\n{text}\n+++\n"),
    )
)
def test_front_matter_never_fails_and_never_reaches_past_the_text(text):
    values, length = front_matter(text)
    assert 0 <= length <= len(text)
    assert length or not values


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,9}", fullmatch=True), st.text("abc '#:,[]", max_size=20)
    )
)
def test_single_quoted_values_come_back_as_they_were(values):
    lines = [f"{key}: '{value.replace(chr(39), chr(39) * 2)}'\n" for key, value in values.items()]
    assert front_matter(f"---\n{''.join(lines)}---\n")[0] == values
