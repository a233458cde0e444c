"""A connection that is lost, at every place of a read and of a write."""

import random
from collections import Counter

import psycopg
import pytest

from plait.errors import PlaitError
from plait.protocols import Store
from plait.stores.postgres import commits
from plait.stores.postgres.connection import Channel
from plait.stores.postgres.store import PostgresStore
from plait.text import parse
from plait.types.ids import new_id
from tests.builders import EVERYTHING, entry
from tests.codes import has_code
from tests.postgres.conftest import Opening
from tests.postgres.own_server import OwnServer
from tests.postgres.proxy import Cut, Proxy
from tests.reliability.scale import SOAK

BEFORE_COMMIT = [
    *("BEGIN", "lock_timeout", "FOR UPDATE", "SET commits", "INTO plait.commits"),
    *("INTO plait.documents", "INTO plait.postings", "INTO plait.passages"),
]
SEEDS = range(40) if SOAK else range(3)


def put(store: Store, name: str) -> None:
    with store.transaction() as transaction:
        transaction.write(entry(name, f"the text of {name}", id=name))


def names(store: Store) -> list[str]:
    return [str(document.key) for document in store.scan(EVERYTHING)]


def assert_sound(store: Store) -> None:
    assert [finding for finding in store.check() if finding.level == "error"] == []


@pytest.mark.parametrize("where", ["before", "half", "after"])
@pytest.mark.parametrize("needle", BEFORE_COMMIT)
def test_a_write_cut_before_its_commit_is_done_once(
    server: OwnServer, proxy: Proxy, opening: Opening, needle: str, where: str
) -> None:
    store = opening(proxy.dsn)
    put(store, "first")
    proxy.cuts.append(Cut("up", needle.encode(), where))  # type: ignore[arg-type]
    put(store, "second")
    assert proxy.cuts == []
    assert sorted(names(store)) == ["first", "second"]
    assert_sound(store)


@pytest.mark.parametrize(
    "cut",
    [
        Cut("up", b"COMMIT\0", "before"),
        Cut("up", b"COMMIT\0", "half"),
        Cut("up", b"COMMIT\0", "after"),
        Cut("down", b"COMMIT\0", "before"),
        Cut("down", b"COMMIT\0", "half"),
    ],
    ids=lambda cut: f"{cut.way}-{cut.where}",
)
def test_a_write_cut_in_its_commit_is_done_once(
    server: OwnServer, proxy: Proxy, opening: Opening, cut: Cut
) -> None:
    store = opening(proxy.dsn)
    put(store, "first")
    proxy.cuts.append(cut)
    put(store, "second")
    assert proxy.cuts == []
    assert sorted(names(store)) == ["first", "second"]
    assert_sound(store)


@pytest.mark.parametrize(
    "cut", [Cut("up", b"COMMIT\0", "before"), Cut("down", b"COMMIT\0", "before")]
)
def test_what_others_write_meanwhile_does_not_hide_whether_a_commit_happened(
    server: OwnServer, proxy: Proxy, opening: Opening, cut: Cut
) -> None:
    store, other = opening(proxy.dsn), opening(server.dsn)
    put(store, "first")
    proxy.on_cut = lambda: put(other, "other")
    proxy.cuts.append(cut)
    if cut.way == "down":
        put(store, "second")
        assert sorted(names(other)) == ["first", "other", "second"]
    else:
        with pytest.raises(PlaitError, match="was lost", check=has_code("connection_lost")):
            put(store, "second")
        assert sorted(names(other)) == ["first", "other"]
    assert_sound(other)


def test_a_write_that_others_overtook_is_not_repeated(
    server: OwnServer, proxy: Proxy, opening: Opening
) -> None:
    """What it read before it was cut may not hold any more."""
    store, other = opening(proxy.dsn), opening(server.dsn)
    lost = pytest.raises(PlaitError, check=has_code("connection_lost"))
    with lost, store.transaction() as transaction:
        transaction.write(entry("mine", "mine", id="mine"))
        proxy.cut()
        put(other, "other")
        transaction.write(entry("late", "late", id="late"))
    assert names(other) == ["other"]
    put(store, "again")
    assert sorted(names(other)) == ["again", "other"]


def test_what_went_over_the_connection_itself_is_not_repeated(
    server: OwnServer, proxy: Proxy, opening: Opening
) -> None:
    store = opening(proxy.dsn)
    lost = pytest.raises(PlaitError, check=has_code("connection_lost"))
    with lost, store._connections.writing() as session:  # type: ignore[attr-defined]
        session.connection.execute("SELECT 1")  # a COPY, for example
        proxy.cut()
        session.value("SELECT 1")


def test_a_commit_that_nobody_can_ask_about_is_said_to_be_unknown(
    server: OwnServer, proxy: Proxy, opening: Opening
) -> None:
    store = opening(proxy.dsn, timeout=0.3)
    put(store, "first")
    proxy.on_cut = lambda: setattr(proxy, "refusing", True)
    proxy.cuts.append(Cut("down", b"COMMIT\0"))
    unknown = pytest.raises(
        PlaitError, match="Look before you repeat it", check=has_code("commit_unknown")
    )
    with unknown:
        put(store, "second")
    proxy.refusing = False
    assert sorted(names(store)) == ["first", "second"]


def test_a_commit_before_too_many_others_is_said_to_be_unknown(
    server: OwnServer, proxy: Proxy, opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note of a write is dropped after many later ones; then nothing is guessed."""
    monkeypatch.setattr(commits, "NOTED_WRITES", 2)
    monkeypatch.setattr(commits, "DROPPED_EVERY", 1)
    store, other = opening(proxy.dsn), opening(server.dsn)

    def write_three() -> None:
        for number in range(3):
            put(other, f"other{number}")

    proxy.on_cut = write_three
    proxy.cuts.append(Cut("down", b"COMMIT\0"))
    with pytest.raises(PlaitError, check=has_code("commit_unknown")):
        put(store, "first")


def test_notes_of_old_writers_are_dropped(
    server: OwnServer, opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "NOTED_WRITES", 2)
    monkeypatch.setattr(commits, "DROPPED_EVERY", 4)
    for number in range(9):
        store = opening(server.dsn)
        put(store, f"note{number}")
    with store._connections.lent() as session:  # type: ignore[attr-defined]
        sql = "SELECT number FROM plait.commits WHERE ns = %(ns)s ORDER BY 1"
        assert session.rows(sql) == [(6,), (7,), (8,), (9,)]


def test_a_writer_that_vanished_blocks_others_only_for_a_while(
    server: OwnServer, opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "IDLE_TRANSACTION_S", 0.3)
    store, other = opening(server.dsn), opening(server.dsn)
    lost = pytest.raises(PlaitError, check=has_code("connection_lost"))
    with lost, store.transaction() as transaction:
        transaction.write(entry("mine", "mine", id="mine"))
        put(other, "other")  # waits until the server has ended the first one
        transaction.write(entry("late", "late", id="late"))
    assert names(other) == ["other"]


def test_a_read_in_the_way_of_others_is_repeated(server: OwnServer, opening: Opening) -> None:
    """A replica stops a read that keeps it from following its primary."""
    tries = []

    def act(session: Channel) -> int:
        tries.append(session)
        if len(tries) < 3:
            raise psycopg.errors.SerializationFailure
        return len(tries)

    assert opening(server.dsn)._connections.read(act) == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", ["up", "down"])
@pytest.mark.parametrize("where", ["before", "half"])
def test_a_read_is_repeated(
    server: OwnServer, proxy: Proxy, opening: Opening, way: str, where: str
) -> None:
    store = opening(proxy.dsn)
    put(store, "first")
    needle = b"plait.postings" if way == "up" else b"score"
    proxy.cuts.append(Cut(way, needle, where))  # type: ignore[arg-type]
    [(ref, _)] = store.keyword(parse("text"), 5, EVERYTHING)
    assert proxy.cuts == []
    proxy.cut()
    assert store.hydrate([ref])[ref].document.key == "first"


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize(
    "needle", ["max(version)", "SELECT name FROM", "INSERT INTO plait.namespaces", "to_regtype"]
)
def test_an_opening_is_repeated(
    server: OwnServer, proxy: Proxy, opening: Opening, needle: str, where: str
) -> None:
    opening(server.dsn).close()  # the tables are there
    proxy.cuts.append(Cut("up", needle.encode(), where))  # type: ignore[arg-type]
    store = PostgresStore(f"{proxy.dsn}&namespace={new_id()}", timeout=5.0)
    try:
        assert proxy.cuts == []
        put(store, "first")
        assert names(store) == ["first"]
    finally:
        store.close()


def test_tables_are_made_once_though_the_answer_was_lost(server: OwnServer, proxy: Proxy) -> None:
    server.execute("CREATE DATABASE cut_while_made")
    proxy.cuts.append(Cut("up", b"COMMIT\0", "after"))
    address = proxy.dsn.replace("/postgres?", "/cut_while_made?")
    store = PostgresStore(address, timeout=5.0)
    try:
        assert proxy.cuts == []
        assert store.has_vectors
        put(store, "first")
        assert names(store) == ["first"]
    finally:
        store.close()


def test_all_idle_connections_may_be_dead(
    server: OwnServer, proxy: Proxy, opening: Opening
) -> None:
    store = opening(proxy.dsn)
    put(store, "first")
    connections = store._connections  # type: ignore[attr-defined]
    lent = [connections.lent() for _ in range(6)]
    for session in lent:
        session.__enter__()
    for session in lent:
        session.__exit__(None, None, None)
    proxy.cut()
    before = proxy.count
    put(store, "second")
    assert len(names(store)) == 2
    assert proxy.count - before <= 2  # the others were not tried one after another


def test_slow_and_halved_packets_change_nothing(
    server: OwnServer, proxy: Proxy, opening: Opening
) -> None:
    proxy.delay_s, proxy.in_halves = 0.001, True
    store = opening(proxy.dsn)
    put(store, "first")
    assert names(store) == ["first"]


@pytest.mark.parametrize("seed", SEEDS)
def test_cuts_at_random_bytes_lose_and_double_nothing(
    server: OwnServer, proxy: Proxy, opening: Opening, seed: int
) -> None:
    chance = random.Random(seed)
    outside = opening(server.dsn)
    store = opening(proxy.dsn)
    proxy.limit = lambda: chance.randrange(500, 12_000)
    proxy.cut()
    kept, failed, unknown = list[str](), list[str](), list[str]()
    for number in range(12):
        name = f"note{number}"
        try:
            put(store, name)
        except PlaitError as error:
            (unknown if error.code == "commit_unknown" else failed).append(name)
        else:
            kept.append(name)
    counted = Counter(names(outside))
    assert {*kept} <= {*counted} <= {*kept, *unknown}
    assert {*counted.values()} == {1}
    assert not {*failed} & {*counted}
    assert proxy.count > 3
    assert_sound(outside)
