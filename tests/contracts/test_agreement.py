"""Two engines that know nothing of each other give the same scores."""

import pytest
from hypothesis import given
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
    both_engines: tuple[Engine, Engine], rows: list[tuple[str, str, str]], queries: list[Query]
) -> None:
    stores = [engine() for engine in both_engines]
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


@given(text=st.text(st.sampled_from('apple banana "()*ANDORNOTEAR,3日本 '), max_size=24))
def test_both_engines_read_a_typed_query_alike(
    both_engines: tuple[Engine, Engine], text: str
) -> None:
    query = parse(text)
    texts = ["apple banana", "banana", "日本 apple near", "AND or not", "a b c d e"]
    answers = []
    for engine in both_engines:
        store = engine()
        write(store, *[entry(f"{n}", passage) for n, passage in enumerate(texts)])
        answers.append(scores(store, query) if query.words or query.expression else {})
        store.close()
    assert answers[0] == pytest.approx(answers[1], rel=1e-9)


@given(
    rows=st.lists(st.lists(st.integers(-9, 9), min_size=4, max_size=4).filter(any), max_size=8),
    query=st.lists(st.integers(-9, 9), min_size=4, max_size=4).filter(any),
)
def test_both_engines_know_the_same_cosines(
    both_engines: tuple[Engine, Engine], rows: list[list[int]], query: list[int]
) -> None:
    answers = []
    for engine in both_engines:
        store = engine()
        write(store, *[entry(f"{n}", "x", vectors=[vector(*row)]) for n, row in enumerate(rows)])
        documents = {row.id: row.doc_id for row in store.scan(EVERYTHING)}
        refs = {store.passages(id_)[0].ref: key for id_, key in documents.items()}
        nearest = store.vector(vector(*query), SPACE, 10, EVERYTHING, also=list(refs))
        answers.append({refs[ref]: cosine for ref, cosine in nearest.cosines.items()})
        store.close()
    assert answers[0] == pytest.approx(answers[1], abs=0.02)
