"""Words that are all over the memory rank passages, but select none; nothing is lost by that."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from plait.protocols import Scored
from plait.stores.sqlite import frequent, keyword
from plait.stores.sqlite.store import SQLiteStore
from plait.text import parse
from plait.text.operators import loosened
from plait.types import Filter
from plait.types.queries import Query
from tests.builders import by_keyword, entry, write

STOP_WORDS = ("the", "who", "is", "to", "be", "or", "not", "it")


@pytest.fixture
def store() -> Iterator[SQLiteStore]:
    opened = SQLiteStore(":memory:")
    made_large(opened)
    yield opened
    opened.close()


def made_large(store: SQLiteStore) -> None:
    """Let a memory plan as if it were large."""
    store.keywords.passages, store.keywords.matches = 10, 5


def crowd(store: SQLiteStore, size: int = 40, **fields: Any) -> None:
    texts = [f"the report is to be number {n} or not" for n in range(size)]
    write(store, *[entry(f"c{n}", text, **fields) for n, text in enumerate(texts)])


def asked(store: SQLiteStore, words: str, limit: int, where: Filter = Filter()) -> list[Scored]:  # noqa: B008
    return store.keyword(parse(words), limit, where)


def ranked_by_all_words(
    store: SQLiteStore,
    words: str,
    limit: int,
    where: Filter = Filter(),  # noqa: B008
) -> list[Scored]:
    store.keywords.planner = "never"
    try:
        return asked(store, words, limit, where)
    finally:
        store.keywords.planner = "auto"


def steps_of(store: SQLiteStore, words: str, where: Filter = Filter()) -> int:  # noqa: B008
    """How many hundreds of steps SQLite takes for a question: a measure that no load changes."""
    connection = store._connections.get()
    # In how many parts FTS5 keeps its words, which it looks into one after the other, is by chance.
    connection.execute("INSERT INTO passages_fts (passages_fts) VALUES ('optimize')")
    taken = [0]

    def step() -> bool:
        taken[0] += 1
        return False

    connection.set_progress_handler(step, 100)
    asked(store, words, 5, where)
    connection.set_progress_handler(None)
    return taken[0]


def steps_of_ranking_all(store: SQLiteStore, words: str) -> int:
    store.keywords.planner = "never"
    try:
        return steps_of(store, words)
    finally:
        store.keywords.planner = "auto"


@pytest.mark.parametrize("words", ["The Goodies", "what is the goodies", "goodies or not to be"])
def test_the_rarer_word_selects_and_every_word_ranks(store: SQLiteStore, words: str) -> None:
    crowd(store)
    write(store, entry("a", "the goodies are the best"), entry("b", "who is who among goodies"))
    write(store, entry("c", "goodies"), entry("d", "goodies " + "padding " * 30))
    hits = asked(store, words, 4)
    plain = ranked_by_all_words(store, words, 4)
    assert [ref for ref, _ in hits] == [ref for ref, _ in plain]
    assert [score for _, score in hits] == pytest.approx([score for _, score in plain])


@pytest.mark.parametrize("words", ["The Goodies", "the", "to be or not to be", "who is it"])
@pytest.mark.parametrize("where", [Filter(), Filter(tags=("kept",))])
def test_as_many_passages_are_found_as_by_ranking_all(
    store: SQLiteStore, words: str, where: Filter
) -> None:
    crowd(store, tags=("kept",))
    write(store, entry("other", "who is it, the goodies"))
    plain = ranked_by_all_words(store, words, 20, where)
    assert len(asked(store, words, 20, where)) == len(plain) == 20


@pytest.mark.parametrize("words", ["the goodies", "in the beginning", "the who", "who is the"])
def test_a_question_takes_no_longer_because_the_memory_grew(
    store: SQLiteStore, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frequent, "NEWEST_RANKED", 10)
    monkeypatch.setattr(frequent, "COUNTED", 0)
    write(store, entry("a", "the goodies"), entry("b", "in the beginning the who"))
    crowd(store, 100)
    few, every = steps_of(store, words), steps_of_ranking_all(store, words)
    texts = [f"the report of {n} is in" for n in range(1_900)]
    write(store, *[entry(f"m{n}", text) for n, text in enumerate(texts)])
    assert steps_of(store, words) < 4 * few
    assert steps_of_ranking_all(store, words) > 10 * every


def test_a_phrase_of_frequent_words_is_found_wherever_it_is(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frequent, "NEWEST_RANKED", 10)
    monkeypatch.setattr(frequent, "COUNTED", 0)
    write(store, entry("hamlet", "to be or not to be, that is the question"))
    crowd(store)
    assert by_keyword(store, "to be or not to be", 1) == ["hamlet"]
    write(store, entry("band", "a band", title="The Who"))
    crowd(store, 60)
    write(store, *[entry(f"w{n}", f"who knows {n}") for n in range(10)])
    assert by_keyword(store, "the who", 1) == ["band"]


def test_a_frequent_word_that_is_a_name_is_found_by_it(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frequent, "NEWEST_RANKED", 10)
    monkeypatch.setattr(frequent, "COUNTED", 0)
    write(store, entry("novel", "a novel", title="It"))
    write(store, *[entry(f"i{n}", f"it is {n}") for n in range(30)])
    assert by_keyword(store, "it", 1) == ["novel"]


def test_frequent_words_decide_among_many_passages_with_the_rarer_one(
    store: SQLiteStore,
) -> None:
    write(store, *[entry(f"s{n}", "spoken " * 2 + "words") for n in range(5)])
    write(store, entry("full", "who is spoken to"))
    write(store, *[entry(f"w{n}", f"who is {n}") for n in range(10)])
    write(store, *[entry(f"o{n}", f"other {n}") for n in range(60)])
    hits = asked(store, "who is spoken", 3)
    spoken = {ref for ref, _ in asked(store, "spoken", 10)}
    plain = [hit for hit in ranked_by_all_words(store, "who is spoken", 50) if hit[0] in spoken][:3]
    assert hits[0][0] == 6, "the one with all words, though others have the rarest one twice"
    assert [ref for ref, _ in hits] == [ref for ref, _ in plain]
    assert [score for _, score in hits] == pytest.approx([score for _, score in plain])


@pytest.mark.parametrize("words", ["the goodies", "the", "to be or not to be"])
@pytest.mark.parametrize("listed", [True, False])
def test_what_a_filter_excludes_is_never_found(
    store: SQLiteStore, words: str, *, listed: bool
) -> None:
    if not listed:
        store.selections.listed = store.selections.short = 3
    crowd(store, tags=("kept",))
    write(store, *[entry(f"x{n}", "the goodies, to be or not to be") for n in range(20)])
    where = Filter(tags=("kept",))
    names = by_keyword(store, words, 60, where)
    assert len(names) == 40
    assert all(name.startswith("c") for name in names)


@pytest.mark.parametrize(
    "query",
    [
        loosened(parse("the AND kube*")),
        loosened(parse("kube* AND report AND zanzibar")),
        # Beside a word of another language, an English one has other forms too.
        parse("report kubernetis отчёты"),
    ],
)
@pytest.mark.parametrize("listed", [True, False])
def test_beginnings_of_rarer_words_select_too(
    store: SQLiteStore, query: Query, *, listed: bool
) -> None:
    if not listed:
        store.selections.listed = store.selections.short = 3
    write(store, entry("a", "a kubernetes cluster", tags=("kept",)))
    crowd(store, tags=("kept",))
    write(store, *[entry(f"r{n}", f"отчёты {n}", tags=("kept",)) for n in range(20)])
    for where in (Filter(), Filter(tags=("kept",))):
        assert store.keyword(query, 3, where)[0][0] == 1


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("unknown", ["zanzibar", "goodies"])
def test_a_word_that_nothing_has_leaves_the_best_of_the_others(
    store: SQLiteStore, unknown: str, *, listed: bool
) -> None:
    if not listed:
        store.selections.listed = store.selections.short = 3
    where = Filter(tags=("kept",))
    write(store, entry("best", "report, report, report", tags=("kept",)))
    crowd(store, tags=("kept",))
    write(store, entry("excluded", "goodies"))
    alone = [ref for ref, _ in asked(store, "report", 5, where)]
    assert alone[0] == 1
    assert [ref for ref, _ in asked(store, f"report {unknown}", 5, where)] == alone
    assert [ref for ref, _ in asked(store, "report zanzibar", 5)] == alone


TEXTS = st.lists(
    st.lists(st.sampled_from([*STOP_WORDS * 2, "goodies", "report"]), min_size=1, max_size=8).map(
        " ".join
    ),
    min_size=12,
    max_size=30,
)


@settings(max_examples=20)
@given(texts=TEXTS, stop_words=st.lists(st.sampled_from(STOP_WORDS), min_size=1, max_size=3))
def test_passages_with_the_rarer_word_have_the_scores_of_ranking_all(
    texts: list[str], stop_words: list[str]
) -> None:
    assume(sum("goodies" in text for text in texts) < 6)  # else that is frequent too
    store = SQLiteStore(":memory:")
    made_large(store)
    write(store, *[entry(f"{n}", text) for n, text in enumerate(texts)])
    words = " ".join([*stop_words, "goodies"])
    plain = dict(ranked_by_all_words(store, words, 100))
    hits = dict(asked(store, words, 100))
    assert hits.keys() == plain.keys()
    for ref, text in enumerate(texts, start=1):
        if "goodies" in text:
            assert hits[ref] == pytest.approx(plain[ref])
    store.close()


def test_among_few_passages_a_frequent_word_has_the_score_that_fts5_gives(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd(store)
    write(store, *[entry(f"t{n}", "the who " * n + "is it", tags=("few",)) for n in range(1, 6)])
    where = Filter(tags=("few",))
    plain = asked(store, "who is the", 10, where)
    calls: list[str] = []
    of_word = frequent.of_word

    def noted(connection: Any, match: str, *others: Any) -> list[Scored]:
        calls.append(match)
        return of_word(connection, match, *others)

    monkeypatch.setattr(keyword, "PLAIN_OR_MATCHES", 20)
    monkeypatch.setattr(frequent, "of_word", noted)
    hits = asked(store, "who is the", 10, where)
    assert sorted(calls) == ['"is"', '"the"'], "the words of more than 20 passages"
    assert [ref for ref, _ in hits] == [ref for ref, _ in plain]
    assert [score for _, score in hits] == pytest.approx([score for _, score in plain])
