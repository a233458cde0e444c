"""Queries as FTS5 text: nothing a person types is an operator unless it was parsed as one."""

from collections.abc import Iterator
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.stores.sqlite.analysis import TOKENIZER
from plait.stores.sqlite.anchoring import anchors
from plait.stores.sqlite.keyword import (
    compile_expression,
    matching,
    operands,
    quote,
)
from plait.stores.sqlite.state import get_meta
from plait.stores.sqlite.store import SQLiteStore
from plait.text import parse
from plait.types import Filter
from plait.types.queries import Expression, Group, Query, Term
from tests.builders import by_keyword, entry, write

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
WORDS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
TERMS = st.builds(
    Term,
    st.lists(WORDS, min_size=1, max_size=3).map(tuple),
    prefix=st.booleans(),
    near=st.sampled_from([0, 1, 5, 1_000]),
)
EXPRESSIONS: st.SearchStrategy[Expression] = st.recursive(
    TERMS,
    lambda inner: st.builds(
        Group,
        st.sampled_from(["and", "or", "not"]),
        st.lists(inner, min_size=2, max_size=3).map(tuple),
    ),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def index() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    connection.execute(f'CREATE VIRTUAL TABLE t USING fts5 (text, tokenize = "{TOKENIZER}")')
    for text in ("apple pie", "banana split", "apple banana", "c++ and -- NOT", 'say "hi"'):
        connection.execute("INSERT INTO t VALUES (?)", (text,))
    yield connection
    connection.close()


def matches(index: apsw.Connection, text: str) -> list[int]:
    return [ref for (ref,) in index.execute("SELECT rowid FROM t WHERE t MATCH ?", (text,))]


@pytest.mark.parametrize(
    "word",
    ["NOT", "AND", "OR", "NEAR", "a:b", "-a", "a*", '"', '""', "(", "^a", "{a}", "a\0b", "+"],
)
def test_a_quoted_word_is_never_an_operator(index: apsw.Connection, word: str) -> None:
    matches(index, quote(word))
    matches(index, matching(Query("", (word, "apple"))))


@given(text=ANY_TEXT)
def test_quoting_never_makes_fts5_fail(index: apsw.Connection, text: str) -> None:
    matches(index, quote(text))


@given(expression=EXPRESSIONS)
def test_every_compiled_expression_is_accepted_by_fts5(
    index: apsw.Connection, expression: Expression
) -> None:
    matches(index, compile_expression(expression))


@given(text=ANY_TEXT)
def test_every_plan_of_every_string_is_accepted_by_fts5(index: apsw.Connection, text: str) -> None:
    query = parse(text)
    if query.words or query.expression:
        matches(index, matching(query))
        counts = {word: place * 1_000 for place, word in enumerate(operands(query))}
        anchored = anchors(counts)
        if anchored is not None:
            matches(index, anchored)


@pytest.mark.parametrize(
    ("expression", "text", "refs"),
    [
        (Term(("apple",)), '"apple"', [1, 3]),
        (Term(("apple", "pie")), '"apple pie"', [1]),
        (Term(("app",), prefix=True), '"app" *', [1, 3]),
        (Term(("banana", "apple"), near=3), 'NEAR("banana" "apple", 3)', [3]),
        (Group("and", (Term(("apple",)), Term(("banana",)))), '("apple" AND "banana")', [3]),
        (Group("or", (Term(("pie",)), Term(("split",)))), '("pie" OR "split")', [1, 2]),
        (Group("not", (Term(("apple",)), Term(("pie",)))), '("apple" NOT "pie")', [3]),
        (
            Group("not", (Term(("apple",)), Group("or", (Term(("pie",)), Term(("banana",)))))),
            '("apple" NOT ("pie" OR "banana"))',
            [],
        ),
        (Term(('"hi"',)), '"""hi"""', [5]),
    ],
)
def test_an_expression_means_in_fts5_what_it_says(
    index: apsw.Connection, expression: Expression, text: str, refs: list[int]
) -> None:
    assert compile_expression(expression) == text
    assert matches(index, text) == refs


@pytest.mark.parametrize(
    ("counts", "anchored"),
    [
        ({}, None),
        ({"a": 1_000, "b": 500}, None),
        ({"a": 1_000, "b": 501}, '"b"'),
        ({"common": 9_000, "rare": 3}, '"rare"'),
        ({"one": 8_000, "other": 9_000}, '("one" AND "other")'),
        ({"common": 9_000, "unheard": 0}, None),
        ({"x": 9_000, "rare": 10, "y": 2_000}, '"rare" OR ("y" AND "x")'),
    ],
)
def test_passages_worth_ranking_hold_a_rare_word_or_two_common_ones(
    counts: dict[str, int], anchored: str | None
) -> None:
    assert anchors({quote(word): count for word, count in counts.items()}) == anchored


def test_an_expression_is_matched_as_it_stands() -> None:
    assert matching(Query("", ("a", "b"), Term(("a", "b")))) == '"a b"'
    assert matching(Query("", ("a", "b"))) == '"a" OR "b"'


def test_only_the_rarest_of_the_common_words_are_paired() -> None:
    anchored = anchors({quote(f"w{number}"): 5_000 + number for number in range(12)})
    assert anchored is not None
    assert '"w3"' in anchored
    assert '"w4"' not in anchored


@pytest.mark.parametrize("planner", ["always", "never", "auto"])
def test_every_plan_finds_the_passage_with_most_of_the_words(
    store: SQLiteStore, planner: Any
) -> None:
    write(store, *[entry(f"{n}", f"common filler {n}") for n in range(30)])
    write(store, entry("wanted", "common rare precious"), entry("half", "common rare"))
    store.keywords.planner = planner
    assert store.keywords.planner == planner
    assert by_keyword(store, "common rare precious", 3)[:2] == ["wanted", "half"]


@pytest.fixture
def crowded(store: SQLiteStore) -> SQLiteStore:
    """A memory that counts as large, with a common word, a rare one and one in between."""
    store.keywords.passages, store.keywords.matches, store.keywords.alone = 20, 10, 5
    write(store, *[entry(f"c{n}", f"common {n}") for n in range(30)])
    write(store, *[entry(f"r{n}", "common " * n + "rare") for n in range(3)])
    write(store, *[entry(f"m{n}", "middling filler") for n in range(8)])
    return store


def test_a_large_memory_ranks_what_is_worth_it_by_all_words_as_a_small_one_does(
    crowded: SQLiteStore,
) -> None:
    query = parse("common rare middling")
    crowded.keywords.planner = "never"
    plain = crowded.keyword(query, 3, Filter())
    crowded.keywords.planner = "auto"
    assert crowded.keyword(query, 3, Filter()) == plain


def test_in_a_large_memory_one_common_word_alone_gives_way_to_two_together(
    crowded: SQLiteStore,
) -> None:
    write(crowded, entry("both", "common middling" + " padding" * 300))
    crowded.keywords.planner = "never"
    assert by_keyword(crowded, "common middling", 1) != ["both"]
    crowded.keywords.planner = "auto"
    assert by_keyword(crowded, "common middling", 1) == ["both"]


@pytest.mark.parametrize("query", ["common rare", "common middling", "common rare middling 7"])
def test_a_large_memory_never_finds_less_than_a_small_one(crowded: SQLiteStore, query: str) -> None:
    crowded.keywords.planner = "never"
    plain = crowded.keyword(parse(query), 100, Filter())
    crowded.keywords.planner = "auto"
    assert crowded.keyword(parse(query), 100, Filter()) == plain


@pytest.mark.parametrize("planner", ["always", "never"])
def test_a_filter_that_lets_few_passages_through_sees_all_of_them_whatever_the_plan(
    crowded: SQLiteStore, planner: Any
) -> None:
    query, strict = parse("common rare middling"), parse("common OR rare OR middling")
    everything = dict(crowded.keyword(strict, 100, Filter()))
    crowded.keywords.planner = planner
    where = Filter(keys=("c3", "m0", "r1"))
    assert len(crowded.keyword(query, 100, where)) == 3
    few = crowded.keyword(strict, 100, where)
    assert len(few) == 3
    assert dict(few).items() <= everything.items(), "operators are ranked as everywhere"
    assert crowded.keyword(query, 100, Filter(keys=("absent",))) == []


def test_common_terms_are_counted_once_and_again_when_the_memory_grew(store: SQLiteStore) -> None:
    store.keywords.passages = store.tidied_passages = 10
    connection = store._connections.get()

    def counted() -> tuple[str | None, int, int]:
        words = store.vocabulary(["common"])
        return get_meta(connection, "counted_passages"), words.passages, words.holding["common"]

    write(store, *[entry(f"{n}", "common") for n in range(12)])
    store.tidy()
    assert counted() == ("12", 12, 12)
    write(store, entry("more", "common"))
    store.tidy()
    assert counted() == ("12", 13, 12), "one more passage misleads nobody"
    write(store, *[entry(f"m{n}", "common") for n in range(12)])
    store.tidy(purged=True)
    assert counted()[0] == "12", "a purge waits for nothing else"
    store.tidy()
    assert counted() == ("25", 25, 25)
