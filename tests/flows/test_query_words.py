"""How the words of a query find: phrases, little matched, other forms, names of code."""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.errors import advise
from plait.memory import Memory
from plait.protocols import Store
from plait.stores.sqlite import rebuilding
from plait.stores.sqlite.store import SQLiteStore
from plait.testing import HashingEmbedder, InMemoryStore
from plait.types import Document, Hit, ModeName
from tests.builders import memory_on
from tests.reliability import memories

NOTES = {
    "rain": "The long rain reminded Mara of Vienna.",
    "drought": "A long drought, then rain at last, and long rivers.",
    "mara": "Mara reads about Venus, and what it reminds her of.",
    "keys": "Rotate the ssh keys every quarter.",
    "host": "The ssh host has other keys.",
    "staging": "The ssh keys of staging never change.",
    "garden": "Tomatoes grow best in full sun.",
}
ENGINES: dict[str, Callable[[], Store]] = {
    "sqlite": lambda: SQLiteStore(":memory:"),
    "dictionaries": InMemoryStore,
}


def filled(store: Store, notes: dict[str, str], *, vectors: bool = False) -> Memory:
    memory = memory_on(store, HashingEmbedder() if vectors else None)
    for key, text in notes.items():
        memory.store(text, key=key)
    return memory


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Callable[[], Store]:
    return ENGINES[request.param]


@pytest.fixture
def memory(engine: Callable[[], Store]) -> Iterator[Memory]:
    with filled(engine(), NOTES) as opened:
        yield opened


@pytest.fixture(scope="module")
def by_both() -> Iterator[Memory]:
    with filled(SQLiteStore(":memory:"), NOTES, vectors=True) as opened:
        yield opened


def keys(hits: Iterable[Hit]) -> list[str | None]:
    return [hit.document.key for hit in hits]


def follows(memory: Memory, query: str, *, strict: bool = False) -> bool:
    notices = memory.search(query, strict=strict).receipt.degraded
    return "words_follow" in [notice.code for notice in notices]


# -- phrases -------------------------------------------------------------------------------


def test_a_phrase_beside_words_ranks_and_requires_nothing(memory: Memory) -> None:
    hits = memory.search('what does "the long rain" remind her of')
    assert keys(hits)[0] == "rain"
    assert {"drought"} <= set(keys(hits))
    assert not follows(memory, 'what does "the long rain" remind her of')


def test_a_phrase_that_nothing_has_does_not_empty_the_answer(memory: Memory) -> None:
    assert "mara" in keys(memory.search('what did "The Illustrated Man" remind Mara of'))


def test_with_a_plus_or_strict_a_phrase_is_required(memory: Memory) -> None:
    assert keys(memory.search('+"long rain" Venus', strict=True)) == ["rain"]
    assert keys(memory.search('"long rain" Venus', strict=True)) == ["rain"]
    assert keys(memory.search('+"long rain" Venus'))[0] == "rain"
    assert follows(memory, '+"long rain" Venus')


def test_vectors_read_the_whole_text_of_a_boosting_phrase() -> None:
    asked: list[str] = []

    class Listening(HashingEmbedder):
        def embed(self, texts, kind):
            asked.extend(texts)
            return super().embed(texts, kind)

    with memory_on(InMemoryStore(), Listening()) as memory:
        memory.store("The long rain.")
        memory.search('who wrote "the long rain"?')
    assert asked[-1] == 'who wrote "the long rain"?'


# -- operators that match little -----------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "first", "others"),
    [
        ('"other keys"', ["host"], {"keys", "staging"}),
        ('"keys other"', [], {"keys", "staging", "host"}),
        ("rotate AND ssh", ["keys"], {"host", "staging"}),
        ("NEAR(host keys, 5)", ["host"], {"keys", "staging"}),
        ("tomat* AND ssh", [], {"garden", "keys", "host", "staging"}),
        ("(rotate AND ssh) NOT staging", ["keys"], {"host"}),
    ],
)
def test_words_follow_operators_that_match_little(
    memory: Memory, query: str, first: list[str], others: set[str]
) -> None:
    hits = memory.search(query)
    assert keys(hits)[: len(first)] == first
    assert set(keys(hits)[len(first) :]) == others
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert follows(memory, query)
    assert keys(memory.search(query, strict=True)) == first
    assert not follows(memory, query, strict=True)


@pytest.mark.parametrize("query", ["ssh AND keys", "ssh", "zebra AND unicorn", "ssh NOT keys"])
def test_nothing_follows_enough_matches_nor_words_that_nobody_wrote(
    memory: Memory, query: str
) -> None:
    assert not follows(memory, query)


def test_the_notice_says_which_hits_match(memory: Memory) -> None:
    def text(query: str) -> str:
        return memory.search(query).receipt.degraded[0].text

    assert text('"keys other"').startswith("nothing matches the operators")
    assert "only the first hit matches" in text("rotate AND ssh")
    assert "only the first 2 hits match" in text("(rotate OR host) AND ssh AND keys")


def test_pages_of_operators_and_words_neither_repeat_nor_miss_a_hit(by_both: Memory) -> None:
    for query in ("rotate AND ssh", '"other keys"', "(rotate AND ssh) NOT staging"):
        whole = keys(by_both.search(query, limit=7))
        for size in (1, 2, 3):
            paged = [
                key
                for start in range(0, 8, size)
                for key in keys(by_both.search(query, limit=size, offset=start))
            ]
            assert sorted(map(str, paged)) == sorted(map(str, whole))
            assert paged[0] == whole[0]


def test_filters_and_floors_hold_for_words_that_follow(memory: Memory) -> None:
    where = {"keys": ("host", "garden")}
    assert keys(memory.search("rotate AND ssh", where=where)) == ["host"]
    assert keys(memory.search("rotate AND ssh", min_score=0.5)) == ["keys"]
    documents = keys(memory.search("rotate AND ssh", best_per_document=True))
    assert len(documents) == len(set(documents))


def test_recall_follows_and_is_strict_too(memory: Memory) -> None:
    assert memory.recall('"keys other"').items
    assert not memory.recall('"keys other"', strict=True).items


WORD = st.sampled_from(
    ["ssh", "keys", "rotate", "staging", "host", "long", "rain", "mara", "zebra"]
)
PHRASE = st.tuples(WORD, WORD).map(lambda pair: f'"{pair[0]} {pair[1]}"')
OPERATOR = st.sampled_from([" AND ", " OR ", " "])
WANTED = st.lists(st.tuples(st.one_of(WORD, PHRASE), OPERATOR), min_size=1, max_size=4)
DENIED = st.lists(WORD, min_size=1, max_size=2)


@given(wanted=WANTED, denied=DENIED, mode=st.sampled_from(["keyword", "hybrid", "vector"]))
def test_what_not_excludes_is_in_no_answer(
    by_both: Memory, wanted: list[tuple[str, str]], denied: list[str], mode: ModeName
) -> None:
    joined = "".join(operand + operator for operand, operator in wanted[:-1]) + wanted[-1][0]
    query = f"({joined}) NOT {' NOT '.join(denied)}"
    for hit in by_both.search(query, mode=mode):
        assert not set(denied) & set(re.findall(r"\w+", hit.text.lower()))


# -- other forms of a word -----------------------------------------------------------------

RUSSIAN = {
    "ключи": "Мы меняем ключи каждый квартал.",
    "сервер": "Доступ к серверам закрыт.",
    "сад": "Помидоры любят солнце.",
}


@pytest.mark.parametrize(
    ("query", "key", "word"),
    [("сервера", "сервер", "серверам"), ("ключей", "ключи", "ключи")],
)
def test_another_form_of_a_word_finds_covers_and_is_marked(
    engine: Callable[[], Store], query: str, key: str, word: str
) -> None:
    with filled(engine(), RUSSIAN) as memory:
        hit = memory.search(query)[0]
    assert hit.document.key == key
    assert (hit.signals.coverage, hit.signals.matched) == (1.0, (query,))
    assert [hit.snippet[start:end] for start, end in hit.highlights] == [word]


def test_another_form_is_found_by_every_plan_and_among_a_few() -> None:
    store = SQLiteStore(":memory:")
    with filled(store, RUSSIAN) as memory:
        for key in range(40):
            memory.store(f"Общий квартал номер {key}", key=f"общий{key}")
        store.keywords.planner = "always"
        store.keywords.alone = 1
        assert keys(memory.search("квартала серверами"))[0] == "сервер"
        assert keys(memory.search("серверами", where={"key_prefix": "с"})) == ["сервер"]
        with memory.scope("ana") as scoped:
            scoped.store("Доступ к серверам закрыт.", key="мой")
            hit = scoped.search("сервера")[0]
            assert (hit.document.key, hit.signals.coverage) == ("мой", 1.0)


FORMS = {
    "server": "Мы закрыли сервер в пятницу.",
    "servers": "Пятницу мы провели с серверами.",
    "service": "Новый сервис вышел в пятницу.",
    "quiet": "Тихо было в пятницу.",
    "nice": "Пятницу: schön.",
    "nicer": "Пятницу: schöne Tage.",
    "compound": "Пятницу мы провели в серверостроении.",
    "greek": "Пятницу: διακομιστής.",
    "cafe": "Пятницу: cafés.",
    "cafeteria": "Пятницу: cafeteria.",
    "town": "Пятницу: Zürich.",
    "lake": "Пятницу: Zürichsee.",
    "street": "Пятницу: Straße.",
    "tram": "Пятницу: Straßenbahn.",
    "many": "Пятницу: nhiều.",
    "more": "Пятницу: nhiềuu.",
}


@pytest.mark.parametrize(
    ("query", "left_out"),
    [
        ("пятницу NOT сервер", {"server", "servers"}),
        ("пятницу NOT серверами", {"servers"}),
        ("пятницу NOT (сервер OR тихо)", {"server", "servers", "quiet"}),
        ("пятницу NOT сервер NOT сервис", {"server", "servers", "service"}),
        ('пятницу NOT "закрыли сервер"', {"server"}),
        ('пятницу NOT "сервер"', {"server"}),
        ('+"пятницу" NOT "сервер"', {"server"}),
        ('пятницу NOT ("сервер" OR тихо)', {"server", "quiet"}),
        ("пятницу NOT сервер*", {"server", "servers", "compound"}),
        ("пятницу NOT διακομιστή", {"greek"}),
        ("пятницу NOT schön", {"nice"}),
        ("пятницу NOT cafés", {"cafe"}),
        ("пятницу NOT Zürich", {"town"}),
        ("пятницу NOT Straße", {"street"}),
        ("пятницу NOT nhiều", {"many"}),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_not_excludes_the_longer_forms_of_an_inflected_word_and_no_other_words(
    engine: Callable[[], Store], query: str, left_out: set[str], strict: bool
) -> None:
    with filled(engine(), FORMS) as memory:
        hits = keys(memory.search(query, strict=strict, limit=50))
        with memory.scope("ana") as scoped:
            for key, text in FORMS.items():
                scoped.store(text, key=key)
            own = keys(scoped.search(query, strict=strict, limit=50))
    assert set(hits) == set(own) == FORMS.keys() - left_out


@pytest.mark.parametrize(
    ("query", "left_out"),
    [
        ("ssh NOT key", {"keys", "host", "staging"}),
        ("ssh NOT stag", set()),
        ("ssh NOT rotateKeys", set()),
    ],
)
def test_not_excludes_what_the_word_itself_would_match(
    memory: Memory, query: str, left_out: set[str]
) -> None:
    if not isinstance(memory.engine, SQLiteStore):
        pytest.skip("the dictionaries do not stem")
    assert set(keys(memory.search(query, strict=True))) == {"keys", "host", "staging"} - left_out


def test_latin_words_beside_other_letters_have_forms_and_english_ones_have_not(
    engine: Callable[[], Store],
) -> None:
    notes = {"tr": "Kitaplarin yazari bilinmiyor.", "en": "The contest was easy."}
    with filled(engine(), notes) as memory:
        assert keys(memory.search("kitaplari çıkan")) == ["tr"]
        assert keys(memory.search("easygoing")) == []


@pytest.mark.parametrize(("query", "key"), [("tomat*", "garden"), ('"full su"*', "garden")])
def test_what_a_prefix_matches_counts_as_a_match(memory: Memory, query: str, key: str) -> None:
    hit = memory.search(query, strict=True)[0]
    assert hit.document.key == key
    assert hit.signals.coverage == 1.0
    assert hit.highlights


def test_a_single_character_of_a_script_without_spaces_counts_as_a_match() -> None:
    with filled(SQLiteStore(":memory:"), {"water": "京都の水温", "other": "天気"}) as memory:
        hit = memory.search("水")[0]
    assert (hit.document.key, hit.signals.coverage) == ("water", 1.0)
    assert hit.highlights


# -- names of code -------------------------------------------------------------------------

CODE = {
    "call": "def save(rows): arrayToCSV(rows)",
    "prose": "How to write an array to csv.",
    "state": "const [n, setN] = useState(0)",
    "retries": "max_retries = 3",
    "apart": "The retries are many; a max was never set.",
    "array": "An array of numbers.",
}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("arrayToCSV", ["call", "prose"]),
        ("array to csv", ["prose", "call"]),
        ("useState", ["state"]),
        ("use state", ["state"]),
        ("usestate", ["state"]),
        ("max_retries", ["retries", "apart"]),
    ],
)
def test_names_of_code_are_found_whole_and_by_their_parts(query: str, expected: list[str]) -> None:
    with filled(SQLiteStore(":memory:"), CODE) as memory:
        hits = keys(memory.search(query))
    assert hits[: len(expected)] == expected


def test_the_part_of_a_name_is_marked_and_covers(engine: Callable[[], Store]) -> None:
    with filled(engine(), {"state": CODE["state"]}) as memory:
        hit = memory.search("state")[0]
    assert [hit.snippet[start:end] for start, end in hit.highlights] == ["State"]
    assert hit.signals.coverage == 1.0


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("useState", "We use some state."),
        ("useState", "a usestate of old"),
        ("useState", "const n = useState(0)"),
        ("HTTPServer2", "the http server is slow"),
        ("HTTPServer2", "class HTTPServer2:"),
        ("HTTPServer2", "class httpserver2:"),
    ],
)
def test_a_name_of_code_is_covered_by_itself_or_by_all_its_parts(
    engine: Callable[[], Store], query: str, text: str
) -> None:
    with filled(engine(), {**NOTES, "name": text}) as memory:
        hit = memory.search(query)[0]
    assert (hit.document.key, hit.signals.coverage) == ("name", 1.0)


@pytest.mark.parametrize(
    ("query", "text"),
    [("useState", "The state of things."), ("useState hooks", "We use some state.")],
)
def test_a_part_of_a_name_covers_its_share(
    engine: Callable[[], Store], query: str, text: str
) -> None:
    with filled(engine(), {**NOTES, "name": text, "other": "Hooks, and a use."}) as memory:
        hit = next(hit for hit in memory.search(query) if hit.document.key == "name")
    assert 0.0 < hit.signals.coverage < 1.0


@pytest.mark.parametrize(
    ("query", "other"),
    [
        ("YouTube", "Buy a tube of toothpaste."),
        ("iPhone", "The phone rings."),
        ("iPhone15", "The phone rings."),
        ("OneDrive", "The drive is broken."),
        ("TomTom", "Tom rings."),
    ],
)
def test_one_telling_part_of_a_name_is_not_the_name(
    engine: Callable[[], Store], query: str, other: str
) -> None:
    notes = {**NOTES, "other": other, "named": f"We saw {query}.", "lower": query.lower()}
    with filled(engine(), notes) as memory:
        coverage = {hit.document.key: hit.signals.coverage for hit in memory.search(query)}
    assert coverage["named"] == coverage["lower"] == 1.0
    assert coverage.get("other", 0.0) < 0.6


def test_a_file_of_older_rules_answers_and_learns_parts_when_it_is_reindexed(
    tmp_path: Path,
) -> None:
    database = str(tmp_path / "memory.db")
    with Memory.open(database, embedder="none", project="") as memory:
        memory.store("We call useState here.", key="state")
    connection = apsw.Connection(database)
    connection.execute(
        "UPDATE passages SET heading_terms = NULL, title_terms = replace(title_terms, 'state', '')"
    )
    connection.execute(
        "UPDATE meta SET value = replace(value, 'split 2', 'split 1') WHERE name = 'analyzer'"
    )
    connection.close()
    with Memory.open(database, embedder="none", project="") as memory:
        assert [notice.code for notice in memory.opening_notices] == ["other_analyzer"]
        assert keys(memory.search("useState")) == ["state"]
        assert keys(memory.search("here")) == ["state"]
        assert keys(memory.search("state")) == []
        memory.store("And arrayToCSV there.", key="new")
        assert keys(memory.search("array")) == ["new"]
        memory.reindex()
        assert keys(memory.search("state")) == ["state"]
    with Memory.open(database, embedder="none", project="") as memory:
        assert not memory.opening_notices


# As an older plait leaves them: nothing is split but scripts without spaces, and every passage of a
# document repeats all its names.
_UNSPLIT = """UPDATE passages SET heading_terms = NULL, text_terms = NULL, title_terms = (
    SELECT d.title || ' ' || d.tags || ' ' || d.metadata || ' ' || coalesce(d.key, '')
    FROM documents AS d WHERE d.rowid = document) WHERE document >= ?"""
_NAMED: dict[str, dict[str, Any]] = {
    "title": {"text": "A hook.", "title": "useState"},
    "tag": {"text": "A hook.", "tags": ["useState"]},
    "alias": {"text": "A hook.", "metadata": {"aliases": "useState"}},
    "heading": {"text": "Intro.\n\n# On useState\n\nA hook."},
    "text": {"text": "We call useState here."},
    "a later passage": {"text": "A hook of old. " * 400, "title": "useState"},
}


def written_by_an_older_version(database: str, *, since: int = 0) -> None:
    connection = apsw.Connection(database)
    connection.execute(_UNSPLIT, (since,))
    connection.close()


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("mended_by", ["reindex", "doctor"])
@pytest.mark.parametrize("place", _NAMED)
def test_passages_that_an_older_version_wrote_are_noticed_and_indexed_anew(
    tmp_path: Path, place: str, mended_by: str, large: bool
) -> None:
    database = str(tmp_path / "memory.db")
    with Memory.open(database, embedder="none", project="") as memory:
        memory.store("Tomatoes, and fooBar.", key="other")
        memory.store(key="hook", **_NAMED[place])
    written_by_an_older_version(database, since=2)
    with Memory.open(database, embedder="none", project="") as memory:
        assert not memory.opening_notices
        engine = memory.engine
        assert isinstance(engine, SQLiteStore)
        if large:
            engine.rebuilt_passages = 1
        assert keys(memory.search("state", mode="keyword")) == []
        [noticed] = [row for row in memory.doctor() if row.check == "keyword index"]
        assert noticed.level == "warning"
        assert noticed.advice == advise("doctor_fix")
        if mended_by == "reindex":
            memory.reindex()
        else:
            [mended] = [row for row in memory.doctor(fix=True) if row.check == "keyword index"]
            assert mended.fixed
        assert set(keys(memory.search("state", mode="keyword", limit=50))) == {"hook"}
        assert {row.level for row in memory.doctor()} == {"ok"}
        if place == "a later passage":
            hits = memory.search("state", mode="keyword", limit=50)
            assert {hit.passage.ordinal for hit in hits} >= {0, 1}


def test_the_name_of_a_file_has_its_parts_again_after_a_reindex(tmp_path: Path) -> None:
    database = str(tmp_path / "memory.db")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "useState.md").write_text("# Hooks\n\nOf old.", encoding="utf-8")
    with Memory.open(database, embedder="none", project="") as memory:
        memory.ingest(tmp_path / "notes")
    written_by_an_older_version(database)
    with Memory.open(database, embedder="none", project="") as memory:
        assert keys(memory.search("state", mode="keyword")) == []
        memory.reindex()
        assert keys(memory.search("state", mode="keyword")) == ["useState.md"]


@pytest.mark.parametrize("query", ["useState", "state"])
@pytest.mark.parametrize("vectors", [False, True])
def test_a_file_is_found_by_its_name_alone(
    tmp_path: Path, engine: Callable[[], Store], query: str, vectors: bool
) -> None:
    (tmp_path / "useState.md").write_text("# Hooks\n\nOf old.", encoding="utf-8")
    with filled(engine(), NOTES, vectors=vectors) as memory:
        memory.ingest(tmp_path)
        hit = memory.search(query)[0]
    assert hit.document.key == "useState.md"
    assert hit.signals.coverage == 1.0


def test_one_passage_of_older_rules_is_noticed_wherever_it_is(tmp_path: Path) -> None:
    database = str(tmp_path / "memory.db")
    with Memory.open(database, embedder="none", project="") as memory:
        memory.store_many([Document(key=f"{n}", text=f"useState {n}") for n in range(2_100)])
    connection = apsw.Connection(database)
    connection.execute("UPDATE passages SET heading_terms = NULL WHERE rowid = 2")
    connection.close()
    with Memory.open(database, embedder="none", project="") as memory:
        engine = memory.engine
        assert isinstance(engine, SQLiteStore)
        engine.rebuilt_passages = 1
        [noticed] = [row for row in memory.doctor() if row.check == "keyword index"]
        assert noticed.level == "warning"
        memory.reindex()
        [mended] = [row for row in memory.doctor() if row.check == "keyword index"]
        assert mended.level == "ok"
        assert keys(memory.search("state 1", mode="keyword", limit=1)) == ["1"]


def test_a_document_that_cannot_be_read_keeps_the_index_of_its_names() -> None:
    with filled(SQLiteStore(":memory:"), NOTES) as memory:
        connection = memories.connection_of(memory)
        connection.execute("UPDATE documents SET tags = '[' WHERE key = 'keys'")
        connection.execute("UPDATE passages SET title_terms = 'kept' WHERE rowid = 4")
        rebuilding.rebuild(connection)
        assert connection.execute("SELECT title_terms FROM passages WHERE rowid = 4").get == "kept"
