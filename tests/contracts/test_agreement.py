"""Two engines that know nothing of each other give the same scores."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.protocols import Store
from plait.text import parse
from plait.types import Ref
from plait.types.queries import Expression, Group, Query, Term
from tests.builders import EVERYTHING, SPACE, Engine, entry, vector, write

WORDS = st.sampled_from(["apple", "apples", "banana", "cherry", "naïve", "日本", "x"])
TEXTS = st.lists(WORDS, max_size=8).map(" ".join)
ROWS = st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=7)
TERMS = st.builds(
    Term,
    st.lists(WORDS | st.just("???"), min_size=1, max_size=3).map(tuple),
    prefix=st.booleans(),
    near=st.sampled_from([0, 0, 1, 2, 5]),
    ending=st.just(0),
)
EXPRESSIONS: st.SearchStrategy[Expression] = st.recursive(
    TERMS,
    lambda inner: st.builds(
        Group,
        st.sampled_from(["and", "or", "not"]),
        st.lists(inner, min_size=2, max_size=3).map(tuple),
    ),
    max_leaves=6,
)
BAGS = st.lists(WORDS, min_size=1, max_size=4, unique=True)
Rows = list[tuple[str, str, str]]
# Each opens a memory on a server.
FEW = settings(max_examples=20, deadline=None)
QUERIES = EXPRESSIONS.map(lambda expression: Query("", (), expression)) | BAGS.map(
    lambda words: Query("", tuple(words))
)


def scores(store: Store, query: Query) -> dict[str, float]:
    hits: list[tuple[Ref, float]] = store.keyword(query, 100, EVERYTHING)
    rows = store.hydrate([ref for ref, _ in hits])
    return {rows[ref].document.doc_id: score for ref, score in hits}


def has_empty_minuend(store: Store, expression: Expression | None) -> bool:
    """Whether some ``a NOT b`` starts from nothing.

    FTS5 then leaves ``b`` where it first occurs and counts it there, if another part of the query
    matches that passage; nobody would ask for the same.
    """
    if not isinstance(expression, Group):
        return False
    first, *others = expression.parts
    if expression.operator == "not":
        begun = [Group("not", expression.parts[: end + 1]) for end in range(1, len(others))]
        if not all(store.keyword(Query("", (), part), 1, EVERYTHING) for part in (first, *begun)):
            return True
    return any(has_empty_minuend(store, part) for part in expression.parts)


@given(rows=ROWS, queries=st.lists(QUERIES, min_size=1, max_size=6))
def test_both_engines_score_every_query_alike(
    both_engines: tuple[Engine, Engine], rows: Rows, queries: list[Query]
) -> None:
    compare_scores(both_engines, rows, queries)


@given(rows=ROWS, queries=st.lists(QUERIES, min_size=1, max_size=6))
@FEW
def test_postgres_scores_every_query_as_sqlite_does(
    with_postgres: tuple[Engine, Engine], rows: Rows, queries: list[Query]
) -> None:
    compare_scores(with_postgres, rows, queries)


def compare_scores(engines: tuple[Engine, Engine], rows: Rows, queries: list[Query]) -> None:
    stores = [engine() for engine in engines]
    for store in stores:
        for number, (title, heading, text) in enumerate(rows):
            write(store, entry(f"{number}", text, title=title, heading=heading))
    for query in queries:
        if has_empty_minuend(stores[0], query.expression):
            continue
        first, second = (scores(store, query) for store in stores)
        assert first == pytest.approx(second, rel=1e-9)
        assert list(first) == list(second)
    for store in stores:
        store.close()


TYPED = st.text(st.sampled_from('apple banana "()*ANDORNOTEAR,3日本 '), max_size=24)


@given(text=TYPED)
def test_both_engines_read_a_typed_query_alike(
    both_engines: tuple[Engine, Engine], text: str
) -> None:
    compare_typed(both_engines, text)


@given(text=TYPED)
@FEW
def test_postgres_reads_a_typed_query_as_sqlite_does(
    with_postgres: tuple[Engine, Engine], text: str
) -> None:
    compare_typed(with_postgres, text)


def compare_typed(engines: tuple[Engine, Engine], text: str) -> None:
    query = parse(text)
    texts = ["apple banana", "banana", "日本 apple near", "AND or not", "a b c d e"]
    answers = []
    for engine in engines:
        store = engine()
        write(store, *[entry(f"{n}", passage) for n, passage in enumerate(texts)])
        answers.append(scores(store, query) if query.words or query.expression else {})
        store.close()
    assert answers[0] == pytest.approx(answers[1], rel=1e-9)


NUMBERS = st.lists(st.integers(-9, 9), min_size=4, max_size=4).filter(any)


@given(rows=st.lists(NUMBERS, max_size=8), query=NUMBERS)
def test_both_engines_know_the_same_cosines(
    both_engines: tuple[Engine, Engine], rows: list[list[int]], query: list[int]
) -> None:
    compare_cosines(both_engines, rows, query, slack=0.02)


@given(rows=st.lists(NUMBERS, max_size=8), query=NUMBERS)
@FEW
def test_postgres_knows_the_cosines_of_sqlite(
    with_postgres: tuple[Engine, Engine], rows: list[list[int]], query: list[int]
) -> None:
    compare_cosines(with_postgres, rows, query, slack=1e-6)


def compare_cosines(
    engines: tuple[Engine, Engine], rows: list[list[int]], query: list[int], slack: float
) -> None:
    answers = []
    for engine in engines:
        store = engine()
        write(store, *[entry(f"{n}", "x", vectors=[vector(*row)]) for n, row in enumerate(rows)])
        documents = {row.id: row.doc_id for row in store.scan(EVERYTHING)}
        refs = {store.passages(id_)[0].ref: key for id_, key in documents.items()}
        nearest = store.vector(vector(*query), SPACE, 10, EVERYTHING, also=list(refs))
        answers.append({refs[ref]: cosine for ref, cosine in nearest.cosines.items()})
        store.close()
    assert answers[0] == pytest.approx(answers[1], abs=slack)
