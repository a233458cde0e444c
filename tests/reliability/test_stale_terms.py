"""Words of replaced profiles: no search or count sees them, and a purge erases them."""

from itertools import count
from pathlib import Path
from random import Random

import apsw
import pytest

from plait.memory import Memory
from plait.protocols import Entry
from plait.stores.sqlite import rebuilding, stale_terms
from plait.stores.sqlite.connection import Connections
from plait.stores.sqlite.state import STALE_TERMS, get_meta
from plait.stores.sqlite.store import SQLiteStore
from plait.stores.sqlite.write_lock import WriteLock
from plait.types import Document, Passage
from tests.reliability import memories, purge_child
from tests.reliability.processes import Child, children, posix_only

pytestmark = [posix_only, pytest.mark.slow]

WORD = "qzbkgdtfplmxw"
ROUNDS = 40  # more than the parts that FTS5 leaves unmerged


def look(path: Path) -> list[str]:
    """The files in the folder of a memory with the word in them, read by another process."""
    with children(Child(purge_child.look, path.parent, [WORD])) as (child,):
        places: list[str] = child.expect("places")[1]
        child.finish()
    return places


def with_profiles(memory: Memory) -> str:
    """Replace a profile often, with a word that it shows for some time; return the fact's id."""
    memory.store("sails: Ana does.", entity="Ana")
    fact = memory.store(f"owner: Ana owns the {WORD}.", entity="Ana")
    for number in range(ROUNDS):
        memory.store(f"letter{number}: Ana wrote to Ben about the harbour.", entity="Ana")
    return fact.id


def is_in_index(connection: apsw.Connection, word: str = WORD) -> bool:
    rows = "SELECT block FROM passages_fts_data UNION ALL SELECT term FROM passages_fts_idx"
    blocks = connection.execute(rows).fetchall()
    # FTS5 leaves out what a word has in common with the one before.
    return any(isinstance(block, bytes) and word[2:].encode() in block for (block,) in blocks)


def vocabulary(connection: apsw.Connection) -> list[tuple[object, ...]]:
    return connection.execute("SELECT * FROM passages_vocab ORDER BY term").fetchall()


def test_no_search_and_no_count_sees_what_a_profile_said(tmp_path: Path) -> None:
    with memories.open_memory(tmp_path / "memory.db", durability="normal") as memory:
        fact = with_profiles(memory)
        memory.delete(fact)
        connection = memories.connection_of(memory)
        assert get_meta(connection, STALE_TERMS) is not None
        assert is_in_index(connection), "marked as deleted, and not erased"
        assert not memory.search(WORD, mode="keyword").hits
        assert memory.search("Ana wrote to Ben", mode="keyword").hits
        listed = vocabulary(connection)
        connection.execute("INSERT INTO passages_fts (passages_fts) VALUES ('rebuild')")
        assert vocabulary(connection) == listed
        assert memories.faults(memory) == []


def test_a_purge_erases_what_profiles_said_before(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with memories.open_memory(path, durability="normal") as memory:
        fact = with_profiles(memory)
        memory.delete(fact)
        memories.store_of(memory).tidy()
        assert look(path)
        memory.delete(fact, purge=True)
        connection = memories.connection_of(memory)
        assert get_meta(connection, STALE_TERMS) is None
        assert not is_in_index(connection)
        assert look(path) == []
        memory.store("sold: Ana has no boat.", entity="Ana")
        assert memory.search("Ana sold", mode="keyword").hits
        assert memories.faults(memory) == []


def test_a_large_index_is_merged_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilding, "MERGED_PASSAGES", 20)
    monkeypatch.setattr(stale_terms, "SLICE_PAGES", 1)
    with memories.open_memory(tmp_path / "memory.db", durability="normal") as memory:
        with_profiles(memory)
        store, connection = memories.store_of(memory), memories.connection_of(memory)
        words = "Ana wrote to Ben"
        before = [hit.passage.id for hit in memory.search(words, mode="keyword", limit=50).hits]
        assert parts_of_index(connection) > 1
        assert isinstance(store, SQLiteStore)
        store.tidied_passages = 20
        store.tidy()
        assert parts_of_index(connection) == 1
        assert get_meta(connection, STALE_TERMS) is None
        after = memory.search(words, mode="keyword", limit=50).hits
        assert [hit.passage.id for hit in after] == before
        assert memories.faults(memory) == []


def parts_of_index(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT count(DISTINCT segid) FROM passages_fts_idx").get)


@pytest.mark.parametrize("writes", ["once", "always"])
def test_a_profile_that_is_replaced_between_two_slices_is_merged_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: str
) -> None:
    """In slices again; as a whole, for which others wait, only if they write all the time."""
    path = tmp_path / "memory.db"
    monkeypatch.setattr(stale_terms, "SLICE_PAGES", 1)
    slices, whole = count(), []
    merge_at_once = stale_terms._merge_at_once
    with (
        memories.open_memory(path, durability="normal") as memory,
        memories.open_memory(path, durability="normal") as other,
    ):
        victim = with_profiles(memory)
        connection = memories.connection_of(memory)

        def beside(connections: Connections) -> WriteLock:
            number = next(slices)
            if number == 2:  # after the slices, before it is looked what they did
                other.delete(victim)
            elif writes == "always":
                other.store(f"again{number}: Ana wrote to Ben.", entity="Ana")
            return WriteLock(connections)

        def noted(locked: apsw.Connection) -> None:
            whole.append(locked)
            merge_at_once(locked)

        monkeypatch.setattr(stale_terms, "WriteLock", beside)
        monkeypatch.setattr(stale_terms, "_merge_at_once", noted)
        stale_terms.merge(memories.store_of(memory)._connections)
        assert len(whole) == (0 if writes == "once" else 1)
        assert get_meta(connection, STALE_TERMS) is None
        assert not is_in_index(connection)
        assert memories.faults(memory) == []


@pytest.mark.parametrize("seed", range(3))
def test_no_word_is_left_of_facts_that_are_purged_one_after_another(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)

    def word() -> str:
        return "".join(random.choices("bcdfghjklmnpqrstvwxz", k=14))

    facts = {}
    with memories.open_memory(tmp_path / "memory.db", durability="normal") as memory:
        # Segments of one size: each purge then leaves more levels without any.
        for _ in range(12):
            first, others = word(), " ".join(word()[:8] for _ in range(20))
            facts[memory.store(f"{first}: {others}", entity="Ana").id] = first
        connection = memories.connection_of(memory)
        for number, id_ in enumerate(random.sample([*facts], 10)):
            memory.delete(id_, purge=True)
            assert not is_in_index(connection, facts[id_]), number
            assert get_meta(connection, STALE_TERMS) is None
        assert memories.faults(memory) == []


def test_an_index_is_merged_with_one_segment_on_the_highest_level() -> None:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE passages_fts USING fts5 (title)")

    def run(command: str) -> None:
        connection.execute("INSERT INTO passages_fts (passages_fts) VALUES (?)", (command,))

    def levels() -> list[int]:
        block = connection.execute("SELECT block FROM passages_fts_data WHERE id = 10").get
        return stale_terms.segments_by_level(block)

    assert levels() == []
    assert stale_terms.is_merged(connection)
    for number in range(3):
        connection.execute("INSERT INTO passages_fts (rowid, title) VALUES (?, 'ana')", (number,))
        run("flush")
    assert not stale_terms.is_merged(connection)
    run("optimize")
    assert levels() == [0, 1]
    assert stale_terms.is_merged(connection)
    # As large as the merged one, which so comes down to it.
    connection.execute("DELETE FROM passages_fts WHERE rowid = 1")
    run("flush")
    assert levels() == [2, 0]
    run("optimize")
    assert levels() == [0, 1]


@pytest.mark.parametrize("block", [b"", b"\0\0\0\0", b"\0\0\0\0\x05\1\0", None, 7])
def test_a_list_of_segments_that_cannot_be_read_is_no_proof(block: object) -> None:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE passages_fts_data (id INTEGER PRIMARY KEY, block)")
    connection.execute("INSERT INTO passages_fts_data VALUES (10, ?)", (block,))
    assert not stale_terms.is_merged(connection)


def test_what_is_deleted_after_a_failed_write_of_a_profile_is_erased(tmp_path: Path) -> None:
    with memories.open_memory(tmp_path / "memory.db", durability="normal") as memory:
        memory.store("sails: Ana does.", entity="Ana")
        memory.store(f"The {WORD} is hers.", key="note")
        store, connection = memories.store_of(memory), memories.connection_of(memory)
        entity = store.load([memory.store("Ana reads.", entity="Ana").entity or ""])[0]
        profile = Entry(entity._replace(text="Ana"), [Passage("Ana")])
        with pytest.raises(ZeroDivisionError), store.transaction() as transaction:
            transaction.write(profile, keep_use=True)
            raise ZeroDivisionError
        with store.transaction() as transaction:
            known = transaction.known(Document(key="note", project=memory.config.project))
            assert known is not None
            transaction.delete([known.id])
        assert not is_in_index(connection)
