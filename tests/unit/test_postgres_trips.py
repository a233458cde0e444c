"""What a search costs the server: how often it is asked, and what it does for every row."""

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from plait.errors import DeadlineExceeded
from plait.memory import Memory
from plait.protocols import Entry
from plait.searching.recall import Recalled
from plait.testing.hashing import HashingEmbedder
from plait.text import parse
from plait.types import Document, Filter
from plait.types.ids import AGENT_FIELD, new_id
from plait.types.steps import Step
from plait.writing.documents import now_ms
from tests import servers
from tests.builders import memory_on
from tests.reliability.scale import SOAK

MOST_TRIPS = 6
# Where every word is known: what the memory is and has; both branches; their candidates.
OF_KNOWN_WORDS = 3


stopped_at: list[int] = []


@pytest.fixture
def stopped_clock() -> Iterator[None]:
    """Both of two answers are of one moment: a read counts the less, the longer it is ago."""
    stopped_at.append(now_ms())
    yield
    stopped_at.clear()


def filled() -> Memory:
    from plait.stores.postgres.store import PostgresStore

    store = PostgresStore(
        servers.address(new_id()), clock=lambda: stopped_at[0] if stopped_at else now_ms()
    )
    opened = memory_on(store, HashingEmbedder())
    texts = [f"We rotate key {number} on Fridays, and deploy with care." for number in range(60)]
    for number, text in enumerate(texts):
        opened.store(text, key=f"note-{number}", tags=["ops"])
    opened.store("Ключи от сервера лежат в сейфе.", key="keys")
    return opened


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with filled() as opened:
        yield opened


def trips(memory: Memory, act: Callable[[], object]) -> int:
    """Count how often the driver waits: until the server is ready for more, or has sent all."""
    messages = [line.split(b"\t") for line in traced(memory, act)]
    names = [columns[3] for columns in messages if len(columns) > 3]
    waits = [name for before, name in pairwise(names) if name == b"Flush" and before != b"Sync"]
    return names.count(b"ReadyForQuery") + len(waits)


def answers(memory: Memory, kind: bytes, act: Callable[[], object]) -> int:
    """Count the server's answers of one kind."""
    return sum(kind in line for line in traced(memory, act))


def traced(memory: Memory, act: Callable[[], object]) -> list[bytes]:
    """Return what went from (F) and to (B) the driver, a line for each message."""
    from plait.stores.postgres.store import PostgresStore

    store = memory.engine
    assert isinstance(store, PostgresStore)
    with tempfile.TemporaryFile() as trace:
        with store._connections.lent() as session:
            # To prepare a statement takes a trip, once.
            session.connection.prepare_threshold = None
            session.connection.pgconn.trace(trace.fileno())
        act()
        with store._connections.lent() as session:
            session.connection.pgconn.untrace()
        trace.seek(0)
        return trace.read().splitlines()


QUERIES = ["how do we rotate keys", "deploy", "rotate rotate key 7", "ключи от сервера", "Fridays?"]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
def test_a_search_makes_few_trips(memory: Memory, query: str, mode: str) -> None:
    assert 0 < trips(memory, lambda: memory.search(query, mode=mode)) <= MOST_TRIPS  # type: ignore[arg-type]


def test_more_hits_take_no_more_trips(memory: Memory) -> None:
    assert trips(memory, lambda: memory.search("rotate keys", limit=20)) <= MOST_TRIPS


def test_a_deadline_takes_no_trip_of_its_own(memory: Memory) -> None:
    query, store = parse("rotate keys"), memory.engine
    deadline = time.monotonic() + 60
    assert trips(memory, lambda: store.keyword(query, 10, Filter(), deadline=deadline)) == 1
    # It holds for that statement only.
    assert store.keyword(query, 10, Filter())


@pytest.mark.parametrize("query", ["7 AND ro*", "ro* AND 7", "7 NOT ro*", "NEAR(key 7, 2) AND w*"])
def test_operators_read_only_passages_that_may_match(memory: Memory, query: str) -> None:
    """Not every passage with a word that begins so: all sixty have one."""
    store = memory.engine
    asked = parse(query)
    assert asked.expression is not None
    rows = answers(memory, b"DataRow", lambda: store.keyword(asked, 10, Filter()))
    assert 0 < rows < 10


KINDS: list[tuple[str, dict[str, Any]]] = [
    ("who rotates the keys", {}),
    ("who rotates the keys", {"mode": "keyword"}),
    ("who rotates the keys", {"mode": "vector"}),
    ("who rotates the keys", {"fusion": "rrf"}),
    ("who rotates the keys", {"limit": 50}),
    ("who rotates the keys", {"window": 2}),
    ("who rotates the keys", {"diverse": True, "best_per_document": True}),
    ("rotate keys", {"where": {"tags": ["ops"], "kinds": ["note"], "since": "2020-01-01"}}),
    ("deploy", {"where": {"session": "standup"}}),
    ("rotate AND key", {}),
    ("rotate NOT (7 OR 8)", {}),
    ("rotate NOT серверами", {}),
    ("NEAR(rotate key, 3)", {}),
    ('+"rotate key"', {}),
    ("7 AND care", {}),  # one passage: the words follow
    ("ro*", {}),
    ("", {}),
    ("rotaet", {}),
    ("deplyo on fridais", {}),
    ("how do we rotat kyes with crae", {}),
    ("zzyqx", {}),
    ("сервеар", {}),
    ("rotate AND kyes", {}),  # no passage has that word: nobody is asked for both
    ('+"rotaet key" deplyo', {}),
    ("who rotates the keys", {"limit": 5, "offset": 5}),
    ("who rotates the keys", {"limit": 20, "offset": 40}),
    ("who deploys", {"limit": 3, "offset": 3, "diverse": True}),
    ("deploy", {"limit": 5, "offset": 5, "window": 1}),
    ("deploy", {"limit": 5, "offset": 5, "mode": "keyword"}),
    ("rotate AND key", {"limit": 5, "offset": 5}),
    ("rotate NOT серверами", {"limit": 2, "offset": 2}),
    ("deploy Ana1", {"min_score": 0.9}),
    ("deploy Ana1", {"limit": 50, "best_per_document": True}),
    ("keys", {"where": {"entity": "Ana1"}}),
    ("keys", {"where": {"as_of": "2030-01-01"}}),
    ("keys", {"where": {"session": "claude:12345678"}}),
    ("keys", {"all_projects": True, "where": {"all_versions": True}}),
]
# With misspelt words, which take three trips: stems, their passages, and the company of each word.
MISSPELT = (
    *("deplyo on fridais", "how do we rotat kyes with crae", "deploy kye Ana1", "PostgerSQL kye"),
    *("rotaet AND kyes", "rotaet OR kyes", "rotaet NOT fridais", "NEAR(rotaet kyes, 3)"),
    *(
        "rotate NOT (fridais OR deplyo)",
        "(rotate OR deplyo) AND fridays",
        "deplyo AND 7",
        "kyes NOT 7",
    ),
    *('+"rotaet key" deplyo', '"rotate key" deplyo', "rotaet ro*", "сервеар AND ключи"),
    *("rotaet NOT серверами", "NEAR(key kyes, 3) OR deplyo", "7 AND care", "Schlussel AND key"),
)
PAGES: tuple[dict[str, Any], ...] = (
    *({"limit": 5, "offset": 5}, {"limit": 1, "offset": 1}, {"limit": 20, "offset": 20}),
    {"limit": 2, "offset": 3, "diverse": True},
    {"limit": 4, "offset": 4, "window": 1},
    {"best_per_document": True, "diverse": True, "window": 2},
    {"limit": 2, "offset": 2, "mode": "keyword"},
    {"limit": 2, "offset": 2, "mode": "vector"},
    {"limit": 3, "offset": 3, "fusion": "rrf"},
    *({"strict": True}, {"min_score": 0.3}, {"fusion": "max"}, {"mode": "keyword"}),
    {"where": {"session": "standup"}},
    {"where": {"entity": "Ana1"}},
    {"where": {"tags": ["ops"]}},
)
OF_MISSPELT = [
    (query, options)
    for place, query in enumerate(MISSPELT)
    for options in ({}, *PAGES[::4][slice(None) if SOAK else slice(place % 4, place % 4 + 1)])
]


# A question is asked with one in so many of the pages, or other options; the next with others.
ASKED_EVERY = 1 if SOAK else 4


def some_of(every: tuple[dict[str, Any], ...], place: int) -> list[dict[str, Any]]:
    """The options of the question at this place of its list, after no options at all."""
    return [{}, *every[place % ASKED_EVERY :: ASKED_EVERY]]


@pytest.fixture(scope="module")
def talking() -> Iterator[Memory]:
    """With conversations whose questions have answers that nothing else finds, and with facts."""
    memory = filled()
    for turn in range(1, 8):
        said = f"Ana does that ({turn})." if turn % 2 else f"Who rotates the keys on day {turn}?"
        memory.store(said, session="standup", role="assistant" if turn % 2 else "user")
        memory.store("And who deploys?", session=f"other{turn}", role="user")
        memory.store("Ben.", session=f"other{turn}", role="user")
    for number in range(3):
        memory.store(f"Ana{number} rotates keys and hates Fridays.", entity=f"Ana{number}")
    yield memory
    memory.close()


@pytest.mark.parametrize(("query", "options"), KINDS)
def test_no_kind_of_question_takes_more_trips(
    talking: Memory, query: str, options: dict[str, Any]
) -> None:
    assert 0 < trips(talking, lambda: talking.search(query, **options)) <= MOST_TRIPS


@pytest.mark.parametrize("query", MISSPELT)
def test_misspelt_words_take_no_more_trips(talking: Memory, query: str) -> None:
    for options in some_of(PAGES, MISSPELT.index(query)):
        taken = trips(talking, lambda options=options: talking.search(query, **options))  # type: ignore[misc]
        assert 0 < taken <= MOST_TRIPS, options


@pytest.mark.parametrize("query", ["who rotates the keys", "rotaet kyes", "rotaet AND kyes"])
def test_an_embedder_on_another_machine_takes_no_trip_more(
    talking: Memory, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = trips(talking, lambda: talking.search(query))
    external = talking.embedder.tuning._replace(external=True)
    monkeypatch.setattr(talking.embedder, "tuning", external)
    assert trips(talking, lambda: talking.search(query)) == own <= MOST_TRIPS


RECALLS: tuple[dict[str, Any], ...] = (
    *({"limit": 1}, {"limit": 10}, {"min_score": 0.3}, {"strict": True}),
    *({"where": {"tags": ["ops"]}}, {"where": {"entity": "Tea"}}),
    *({"where": {"session": "standup"}}, {"where": {"as_of": "2030-01-01"}}),
)
RECALLED = (
    *("who waters it", "who watesr it", "watesr AND it"),
    *("who rotates the keys", "who deploys", "Ana1", "keys", "gardens", "what does tea cost"),
    *("deplyo on fridais", "gardesn words", "tae costs", "who deplyos", "zzyqx", "сервеар"),
    *("rotaet AND kyes", "7 AND care", "who rotates the keys NOT fridays", '"rotate key" deplyo'),
    *("deplyo fridais rotaet kyes crae", "gardesn frdiay rotaet kyes deplyo crae wrods mornign"),
)


@pytest.fixture(scope="module")
def recalling(talking: Memory) -> Memory:
    """With long texts, pinned ones, copies, and facts that replaced others."""
    for number in range(4):
        talking.store(f"# A\n\n{f'words about gardens {number} ' * 300}", key=f"long-{number}")
    talking.store("We deploy in the evening always.", key="pin", pinned=True)
    for price in range(3, 6):
        talking.store(f"Tea costs {price} euros.", entity="Tea", topic="price")
        # Pinned, and of no question here: what they replaced is counted, too.
        talking.store(f"The fee is {price}.", entity="Fee", topic="price", pinned=True)
    for number in range(30):
        talking.store("Gardens need water.", key=f"copy-{number}")
    imported = {AGENT_FIELD: "claude"}
    for turn in range(1, 8):
        role, text = ("user", "Who waters it?") if turn % 2 else ("assistant", f"Ben, {turn}.")
        talking.store(text, session="claude:12345678abc", role=role, metadata=imported)
    return talking


# A key, the ends of keys, an alias, names that are misspelt, of nothing, or of too many; words that
# other forms join.
NAMES = (
    *("gifts.md", "notes/gifts.md", "gifts", "door-code", "gate-pin", "note-7", "note-77"),
    *("gitfs.md", "door-coed", "keys/rotaet", "same.md", "user@example.com", "2026-01-01"),
    *("claude:12345678abc", "back-up", "wi-fi", "wi fi", "wi fi deplyo fridais rotaet kyes"),
)


@pytest.fixture(scope="module")
def named(recalling: Memory) -> Memory:
    """With documents that have names."""
    recalling.store("# Gifts\n\nA lamp for Ana.", key="notes/gifts.md")
    recalling.store("The code is 4711.", key="door-code", metadata={"aliases": "gate-pin"})
    recalling.store("A backup of the wifi settings.", key="settings")
    for number in range(5):
        recalling.store(f"We decided {number}; the wifi is slow.", key=f"{number}/same.md")
    return recalling


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("query", NAMES)
def test_the_name_of_a_document_takes_no_more_trips_and_finds_the_same(
    named: Memory, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from plait.stores.postgres.store import PostgresStore

    for options in some_of(PAGES, NAMES.index(query)):
        told: list[Any] = []
        ask = partial(named.search, query, explain=True, **options)
        taken = trips(named, lambda: told.append(ask()))  # noqa: B023
        assert 0 < taken <= MOST_TRIPS, options
        with monkeypatch.context() as patch:
            patch.setattr(PostgresStore, "ahead", None)
            told.append(ask())
        together, apart = told
        assert together.hits == apart.hits, options
        same = apart.receipt._replace(milliseconds=together.receipt.milliseconds)
        assert together.receipt == same
    named.write_down_use()
    assert 0 < trips(named, lambda: named.recall(query)) <= MOST_TRIPS


def test_a_name_is_looked_up_in_one_trip(named: Memory) -> None:
    for name in ("notes/gifts.md", "note-7", "note-77", "2026-01-01", "abcdefgh"):
        assert trips(named, lambda name=name: named.engine.find(name, Filter())) == 1  # type: ignore[misc]


@pytest.mark.parametrize("query", ["who waters it", "who watesr it", "watesr NOT keys"])
def test_messages_of_agents_take_no_more_trips(recalling: Memory, query: str) -> None:
    for options in ({}, *PAGES):
        taken = trips(recalling, lambda options=options: recalling.search(query, **options))  # type: ignore[misc]
        assert 0 < taken <= MOST_TRIPS, options


@pytest.fixture(scope="module")
def indexed() -> Iterator[Memory]:
    """With so many texts that their vectors have an index, if that is made for a thousand."""
    from plait.stores.postgres.store import PostgresStore

    with filled() as memory:
        memory.store_many(Document(text=f"Plum {n} and plum {n % 97} fell.") for n in range(1_200))
        for turn in range(1, 8):
            role, text = ("user", "Who waters it?") if turn % 2 else ("assistant", f"Ben, {turn}.")
            memory.store(text, session="talk", role=role)
        store = memory.engine
        assert isinstance(store, PostgresStore)
        store.indexes.least = 1_000
        store.tidy(compact=True)
        yield memory


INDEXED = ("who fell", "plmu fele", "plum AND 7", "plum AND kyes", "7 AND 8 AND 9", "who watesr it")


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("query", INDEXED)
def test_an_index_of_the_vectors_takes_no_more_trips(
    indexed: Memory, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from plait.stores.postgres.store import PostgresStore

    store = indexed.engine
    assert isinstance(store, PostgresStore)
    pages: tuple[dict[str, Any], ...] = ({}, PAGES[0], {"limit": 20, "offset": 20, "window": 1})
    told: list[Any] = []
    acts: list[partial[Any]] = [partial(indexed.search, query, **page) for page in pages]
    for asked in (*acts, partial(indexed.recall, query)):
        told.clear()
        indexed.write_down_use()
        store.indexes.forget()
        assert 0 < trips(indexed, lambda asked=asked: told.append(asked())) <= MOST_TRIPS  # type: ignore[misc]
        with monkeypatch.context() as patch:
            patch.setattr(PostgresStore, "ahead", None)
            told.append(asked())
        together, apart = (row.items if isinstance(row, Recalled) else row.hits for row in told)
        assert together == apart
    assert indexed.search("who fell").receipt.approximate


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("query", RECALLED)
def test_a_recall_takes_no_more_trips_and_says_the_same(
    recalling: Memory, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from plait.stores.postgres.store import PostgresStore

    for options in some_of(RECALLS, RECALLED.index(query)):
        recalled: list[Recalled] = []
        recalling.write_down_use()  # or it is written down after some of them
        taken = trips(recalling, lambda: recalled.append(recalling.recall(query, **options)))  # noqa: B023
        assert 0 < taken <= MOST_TRIPS, options
        with monkeypatch.context() as patch:
            patch.setattr(PostgresStore, "ahead", None)
            apart = recalling.recall(query, **options)
        [together] = recalled
        assert together.items == apart.items
        assert together.left_out == apart.left_out
        same = apart.receipt._replace(milliseconds=together.receipt.milliseconds)
        assert together.receipt == same


@pytest.mark.parametrize("query", QUERIES)
def test_known_words_take_the_fewest_trips(memory: Memory, query: str) -> None:
    assert trips(memory, lambda: memory.search(query)) == OF_KNOWN_WORDS


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize(("query", "options"), [*KINDS, *OF_MISSPELT])
def test_what_is_read_together_is_what_is_read_apart(
    talking: Memory, query: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from plait.stores.postgres.store import PostgresStore

    talking.write_down_use()  # or it is written down between the two
    at_once = talking.search(query, explain=True, **options)
    monkeypatch.setattr(PostgresStore, "ahead", None)
    apart = talking.search(query, explain=True, **options)
    assert at_once.hits == apart.hits
    same = apart.receipt._replace(milliseconds=at_once.receipt.milliseconds)
    assert at_once.receipt == same


def test_other_forms_of_a_word_count_wherever_it_is_looked_up(talking: Memory) -> None:
    store, words, sight = talking.engine, ["серверами", "сейфами"], Filter()
    counted = store.vocabulary(words, seen_by=sight)
    ahead = store.ahead
    assert ahead is not None
    [vocabulary] = ahead.company([], 10, sight, words)[1]
    assert vocabulary.holding == counted.holding
    ahead.foresee([], sight, words, sight)
    assert ahead.vocabulary(words, sight) == counted
    assert counted.holding["серверами"] == 1


def test_a_slow_search_by_words_leaves_the_other_one(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from plait.stores.postgres.ahead import Ahead

    query, space = parse("rotate keys"), memory.embedder.space
    [vector] = memory.embedder.embed(["rotate keys"], "query")
    ahead, late = memory.engine.ahead, time.monotonic() - 1
    assert ahead is not None
    assert vector is not None
    with pytest.raises(DeadlineExceeded):
        ahead.branches(query, vector, space, (10, 10, 10), Filter(), deadline=late)
    branches = Ahead.branches

    def stopped(*given: Any, **options: Any) -> object:
        return branches(*given, **{**options, "deadline": late})

    monkeypatch.setattr(Ahead, "branches", stopped)
    answer = memory.search("rotate keys")
    assert [notice.code for notice in answer.receipt.degraded] == ["deadline_exceeded"]
    assert {hit.source for hit in answer} == {"vector"}


# What the memory is, and whether it has this or the like; the memory's row, what it is now, and
# whether the name or the text is there by now; the document, then all that belongs to it.
TRIPS_OF_A_NOTE = 8
TRIPS_OF_A_FACT = 10


def test_a_write_makes_few_trips(memory: Memory) -> None:
    for name in ("Ben", "Dora", "Emil"):  # at the 64th text, a sample of the vectors is due
        memory.store(f"{name} likes tea and hates coffee.")
    note = trips(memory, lambda: memory.store("A text about gardening", key="garden"))
    fact = trips(memory, lambda: memory.store("Carl likes green tea in the morning."))
    assert 0 < note <= TRIPS_OF_A_NOTE
    assert 0 < fact <= TRIPS_OF_A_FACT


def test_a_long_text_takes_no_more_trips(memory: Memory) -> None:
    text = "\n\n".join(f"# Part {number}\n\n" + "words " * 300 for number in range(20))
    assert trips(memory, lambda: memory.store(text, key="long")) <= TRIPS_OF_A_NOTE


def test_a_prepared_statement_reads_the_question_once(memory: Memory) -> None:
    """Not for every row: that took ten times as long as to compare the vectors."""
    from plait.stores.postgres import vectors
    from plait.stores.postgres.filters import conditions
    from plait.stores.postgres.store import PostgresStore

    store = memory.engine
    assert isinstance(store, PostgresStore)
    where = conditions(Filter(), 0, searching=True)
    exact = vectors.NEAREST_OF_MEMORY.replace("{scan}", vectors._SCAN)
    for statement in (exact, vectors._LATEST, vectors._BEST_OF_TRUSTED):
        sql = where.stated(statement)
        names = sorted(set(re.findall(r"%\((\w+)\)s", sql)))
        for number, name in enumerate(names, start=1):
            sql = sql.replace(f"%({name})s", f"${number}")
        with store._connections.lent() as session:
            if session.connection.info.server_version < 160_000:
                pytest.skip("the server does not tell how it would plan a prepared statement")
            plan = session.connection.execute(f"EXPLAIN (GENERIC_PLAN, VERBOSE) {sql}").fetchall()
        compared = [line for (line,) in plan if "<=>" in line]
        assert compared
        assert not [line for line in compared if "::halfvec" in line]


def test_files_that_changed_since_take_one_trip_for_all_hits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After which message each was written is asked at once."""
    from plait.stores.postgres.store import PostgresStore

    (tmp_path / "cart.py").write_text("x", encoding="utf-8")
    with filled() as memory:
        memory.config = memory.config._replace(project=str(tmp_path))
        imported = {AGENT_FIELD: "claude"}
        for turn in range(6):
            said, step = f"The heron {turn} is exact.", [Step("Edit", path="cart.py")]
            stored = memory.store(said, session="claude:1", role="assistant", metadata=imported)
            with memory.engine.transaction() as transaction:
                [document] = transaction.load([stored.id])
                passages = transaction.passages(stored.id)
                transaction.write(Entry(document, passages, steps=step))

        def changed() -> list[tuple[str, ...]]:
            return [hit.changed_since for hit in memory.search("heron exact", limit=6)]

        os.utime(tmp_path / "cart.py", (1, 1))
        before = trips(memory, changed)
        os.utime(tmp_path / "cart.py", (4e9, 4e9))
        assert trips(memory, changed) <= before + 1
        found = changed()
        assert len(found) == 6 and all(names == ("cart.py",) for names in found)
        monkeypatch.setattr(PostgresStore, "ahead", None)
        assert changed() == found
