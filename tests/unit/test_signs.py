"""Signs of vectors: what they are, that they only choose, and that they follow every write."""

import random
from array import array
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.errors import StoreDamaged
from plait.memory import Memory
from plait.protocols import Entry, Nearest, Vector
from plait.stores.sqlite import rowcheck, signs, vectors
from plait.stores.sqlite.connection import rows
from plait.stores.sqlite.store import SQLiteStore
from plait.testing import HashingEmbedder
from plait.types import Document, Filter, Passage, Space
from tests.builders import begin, delete, fill, refs_of, swap, write

DIMS = 12
SPACE = Space("test", "signs", DIMS)
OTHER = Space("test", "other", DIMS)
BLOCK = 4
EVERYTHING = Filter()
NUMBERS = st.lists(st.integers(-127, 127), min_size=1, max_size=20)


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few passages are a large memory of several blocks."""
    for module in (vectors, rowcheck):
        monkeypatch.setattr(module, "BLOCK_ROWS", BLOCK)
    monkeypatch.setattr(signs, "LEAST_PASSAGES", 2 * BLOCK)
    monkeypatch.setattr(signs, "CHUNK_BLOCKS", 3)
    monkeypatch.setattr(signs, "MADE_AT_ONCE", 2)


def vector_of(seed: int) -> Vector:
    chance = random.Random(seed)
    return array("f", [chance.uniform(-1, 1) for _ in range(DIMS)])


def entry(number: int, vector: Vector | None = None, space: Space = SPACE) -> Entry:
    tags = tuple(f"of {each}" for each in (2, 7) if number % each == 0)
    document = Document(key=f"{number}", text="x", tags=tags)
    return Entry(document, [Passage("x")], [vector or vector_of(number)], space)


def a_store(path: Path | str = ":memory:", passages: int = 30) -> SQLiteStore:
    store = SQLiteStore(str(path))
    write(store, *[entry(number) for number in range(passages)])
    store.tidy()
    return store


def signed(store: SQLiteStore) -> list[int]:
    sql = "SELECT s.block FROM vector_signs AS s ORDER BY s.generation, s.block"
    return [block for (block,) in store._connections.get().execute(sql)]


def row_count(store: SQLiteStore) -> int:
    return int(store._connections.get().execute("SELECT count(*) FROM vector_rows").get)


def answers(store: SQLiteStore, number: int, limit: int = 5) -> list[Nearest]:
    """What a question gets without a filter, with a wide one, and with a narrow one."""
    wheres = (EVERYTHING, Filter(tags=("of 2",)), Filter(tags=("of 7",)))
    also = range(40)
    return [store.vector(vector_of(number), SPACE, limit, where, also=also) for where in wheres]


def exact(store: SQLiteStore, number: int, limit: int = 5) -> list[Nearest]:
    """The same without signs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signs, "LEAST_PASSAGES", 10**9)
        return answers(store, number, limit)


def assert_exact(store: SQLiteStore) -> None:
    """With as many candidates as there are passages, signs lose nothing."""
    for number in (3, 50, 51):
        for mine, expected in zip(answers(store, number), exact(store, number), strict=True):
            assert mine.hits == expected.hits
            assert mine.cosines == pytest.approx(expected.cosines)


# what signs are


@given(rows=st.lists(NUMBERS, min_size=1, max_size=5), dims=st.integers(1, 20))
def test_a_sign_is_one_bit_of_its_row(rows: list[list[int]], dims: int) -> None:
    padded = [(row + [0] * dims)[:dims] for row in rows]
    data = b"".join(array("b", row).tobytes() for row in padded)
    width = (dims + 7) // 8
    made = signs.signs_of(data, dims)
    assert len(made) == len(rows) * width
    for number, row in enumerate(padded):
        bits = "".join(f"{byte:08b}" for byte in made[number * width : (number + 1) * width])
        assert bits == "".join("01"[value < 0] for value in row).ljust(8 * width, "0")


@pytest.mark.parametrize(("dims", "steps"), [(8, 1), (256, 1), (257, 2), (300, 2), (768, 4)])
def test_levels_are_how_many_signs_differ(dims: int, steps: int) -> None:
    pytest.importorskip("simsimd")
    chance = random.Random(dims)
    width = (dims + 7) // 8
    query, *rows = [chance.randbytes(width) for _ in range(9)]
    compare = signs.kernel(dims)
    assert compare is not None
    differing = [
        (int.from_bytes(query, "big") ^ int.from_bytes(row, "big")).bit_count() for row in rows
    ]
    levels = compare(query, memoryview(b"".join(rows)))
    assert list(levels) == [count // steps for count in differing]


@pytest.mark.parametrize("failure", [TypeError, ValueError, None])
def test_a_simsimd_that_counts_otherwise_means_exact_scans(
    monkeypatch: pytest.MonkeyPatch, failure: type[Exception] | None
) -> None:
    simsimd = pytest.importorskip("simsimd")

    def hamming(*_: object, **__: object) -> bytes:
        if failure is not None:
            raise failure
        return b"\x01\x02"

    store = a_store()
    monkeypatch.setattr(simsimd, "hamming", hamming)
    assert signs.kernel(DIMS) is None
    assert not any(answer.approximate for answer in answers(store, 3))
    assert_exact(store)
    store.close()


# choosing by signs


def test_with_enough_candidates_signs_find_exactly_the_nearest(tmp_path: Path) -> None:
    store = a_store(tmp_path / "memory.db")
    store.selections.short, store.selections.share = 5, 0.0
    assert signed(store) == [0, 1, 2, 3, 4, 5, 6]  # but not the last block, which is not full
    for _ in range(3):  # a warm memory answers like a cold one
        assert_exact(store)
    everything, wide, narrow = answers(store, 3)
    assert everything.approximate
    assert wide.approximate
    assert not narrow.approximate  # its rows are compared one by one
    store.close()


@pytest.mark.parametrize("over_fetch", [1, 4])
def test_a_filter_that_is_not_listed_chooses_among_what_passes(over_fetch: int) -> None:
    store = a_store()
    store.selections.short, store.selections.share = 0, 0.0
    store.vectors.over_fetch = over_fetch
    assert_exact(store)
    store.close()


def test_few_candidates_are_the_nearest_by_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    store = a_store()
    monkeypatch.setattr(signs, "CANDIDATES", 1)
    # Whoever asks with a passage's own vector differs from it in no sign.
    for number in range(25):
        [(ref, cosine), *_] = store.vector(vector_of(number), SPACE, 1, EVERYTHING).hits
        assert ref == number + 1
        assert cosine == pytest.approx(1.0, abs=1e-3)
    store.close()


def test_small_memories_are_compared_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signs, "LEAST_PASSAGES", 8 * BLOCK + 1)
    store = a_store(passages=8 * BLOCK - 1)
    assert signed(store) == []
    assert not answers(store, 3)[0].approximate
    write(store, entry(31))
    store.tidy()
    assert signed(store) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert answers(store, 3)[0].approximate
    store.close()


# following what is written


def test_signs_and_rows_follow_every_write(tmp_path: Path) -> None:
    store = a_store(tmp_path / "memory.db")
    other = SQLiteStore(str(tmp_path / "memory.db"))
    answers(store, 3)
    for writer in (store, other):
        [ref] = refs_of(store, "5")
        fill(writer, [(ref, vector_of(50))], SPACE)
        assert_exact(store)
        fill(writer, [(ref, vector_of(51))], SPACE)
        assert_exact(store)
    delete(other, "5", "6", "29")
    assert_exact(store)
    write(other, entry(40), entry(41), entry(5, vector_of(3)))
    assert_exact(store)
    other.tidy()
    assert_exact(store)
    assert [row.level for row in store.check() if row.check == "vectors"] == ["ok"]
    store.close()
    other.close()


def test_a_deleted_vector_leaves_no_bytes_in_signs_or_rows(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = a_store(path)
    row = vectors.quantise(vector_of(5), DIMS)
    delete(store, "5")
    store.close()
    assert row not in path.read_bytes()


def test_signs_are_kept_until_their_block_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = a_store(tmp_path / "memory.db"), SQLiteStore(str(tmp_path / "memory.db"))
    read: list[int] = []

    def noted(
        connection: apsw.Connection, places: list[vectors.Place], buffer: bytearray, size: int
    ) -> None:
        read.extend(block for block, *_ in places)
        actual(connection, places, buffer, size)

    actual = signs._read
    monkeypatch.setattr(signs, "_read", noted)
    answers(mine, 3)
    assert read == [0, 1, 2, 3, 4, 5, 6]
    read.clear()
    answers(mine, 4)
    assert read == []
    delete(other, "14")  # in block 3, of the second three
    answers(mine, 4)
    assert set(read) == {3, 4, 5}
    mine.close()
    other.close()


def test_new_vectors_get_new_signs_and_the_rows_of_old_ones_go() -> None:
    store = a_store()
    assert row_count(store) == 7 * BLOCK
    begin(store, OTHER)
    waiting = store.pending(OTHER, 40, building=True)
    fill(store, [(row.ref, vector_of(row.ref + 100)) for row in waiting], OTHER, building=True)
    assert_exact(store)  # the old ones answer until then
    assert swap(store, OTHER)
    assert (signed(store), row_count(store)) == ([], 0)
    store.tidy()
    assert (len(signed(store)), row_count(store)) == (7, 7 * BLOCK)
    hits = store.vector(vector_of(105), OTHER, 1, EVERYTHING)
    assert [ref for ref, _ in hits.hits] == [5]
    assert hits.approximate
    assert swap(store, Space("none", "", 0))
    assert (signed(store), row_count(store)) == ([], 0)
    store.close()


def test_half_made_signs_answer_with_the_rest_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "memory.db"
    store = SQLiteStore(str(path))
    write(store, *[entry(number) for number in range(30)])
    actual = signs._make_one

    def torn(connection: apsw.Connection, generation: object, block: int) -> None:
        actual(connection, generation, block)  # type: ignore[arg-type]
        if block == 3:
            raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(signs, "_make_one", torn)
        with pytest.raises(ZeroDivisionError):
            store.tidy()
    assert (signed(store), row_count(store)) == ([0, 1], 2 * BLOCK)
    assert_exact(store)
    store.tidy()
    assert len(signed(store)) == 7
    assert_exact(store)
    store.close()


def test_no_write_fails_because_signs_cannot_be_made_now(tmp_path: Path) -> None:
    store = SQLiteStore(str(tmp_path / "memory.db"), timeout=0.05)
    write(store, *[entry(number) for number in range(30)])
    other = apsw.Connection(str(tmp_path / "memory.db"))
    other.execute("BEGIN IMMEDIATE")
    store.tidy()
    other.close()
    assert signed(store) == []
    connection = store._connections.get()
    pages = connection.execute("PRAGMA page_count").get
    connection.execute(f"PRAGMA max_page_count = {pages}")  # a full disk
    store.tidy()
    assert_exact(store)
    connection.execute(f"PRAGMA max_page_count = {10 * pages}")
    store.tidy()
    assert len(signed(store)) == 7
    assert_exact(store)
    store.close()


# damage


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE vector_signs SET data = zeroblob(length(data)) WHERE block = 2",
        "UPDATE vector_signs SET data = x'00' WHERE block = 2",
        "UPDATE vector_rows SET data = zeroblob(length(data)) WHERE rowid = 9",
        "UPDATE vector_rows SET data = x'00' WHERE rowid = 9",
        "DELETE FROM vector_rows WHERE rowid = 9",
    ],
)
def test_doctor_drops_signs_and_rows_that_are_not_those_of_the_vectors(
    tmp_path: Path, damage: str
) -> None:
    store = a_store(tmp_path / "memory.db")
    store._connections.get().execute(damage)
    assert [row.level for row in store.check() if row.check == "signs"] == ["error"]
    assert [row.fixed for row in store.check(fix=True) if row.check == "signs"] == [True]
    assert signed(store) == [0, 1, 3, 4, 5, 6]
    assert_exact(store)
    store.tidy()
    assert len(signed(store)) == 7
    assert {row.level for row in store.check()} <= {"ok", "warning"}
    assert_exact(store)
    store.close()


def test_a_process_that_kept_wrong_signs_reads_those_that_were_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm = a_store(tmp_path / "memory.db")
    connection = warm._connections.get()
    kept: list[tuple[int, bytes]] = rows(connection, "SELECT rowid, data FROM vector_signs")
    turned = [(bytes(byte ^ 255 for byte in data), rowid) for rowid, data in kept]
    connection.executemany("UPDATE vector_signs SET data = ? WHERE rowid = ?", turned)
    answers(warm, 3)
    mender = SQLiteStore(str(tmp_path / "memory.db"))
    mender.check(fix=True)
    mender.tidy()
    assert len(signed(warm)) == 7
    mender.close()
    monkeypatch.setattr(signs, "CANDIDATES", 1)
    fresh = SQLiteStore(str(tmp_path / "memory.db"))
    assert [near.hits for near in answers(warm, 3, 1)] == [
        near.hits for near in answers(fresh, 3, 1)
    ]
    warm.close()
    fresh.close()


STRAYS = {
    "signs of no vectors": "INSERT INTO vector_signs VALUES (99, 9, 1, x'00')",
    "signs of no block": "INSERT INTO vector_signs VALUES (99, 1, 600, zeroblob(8))",
    "signs of an impossible block": f"INSERT INTO vector_signs VALUES (99, 1, {2**63 - 1}, x'00')",
    "signs of a block below all": "INSERT INTO vector_signs VALUES (99, 1, -3, zeroblob(8))",
    "signs of a block without rows": "INSERT INTO vector_signs VALUES (99, 1, 7, zeroblob(8))",
    "rows without signs": "DELETE FROM vector_signs WHERE block = 2",
    "rows without any signs": "DELETE FROM vector_signs",
    "a row above all": f"INSERT INTO vector_rows VALUES ({2**63 - 1}, zeroblob(12))",
    "a row below all": "INSERT INTO vector_rows VALUES (-5, zeroblob(12))",
    "a block that is lost": "DELETE FROM vector_blocks WHERE block = 2",
    "a block that is cut off": "UPDATE vector_blocks SET data = x'00' WHERE block = 2",
    "an impossible block": "UPDATE vector_blocks SET block = -(-9223372036854775807) "
    "WHERE block = 2",
    "no versions": "DELETE FROM block_versions",
    "a version of no block": "INSERT INTO block_versions VALUES (1, 500, x'00')",
    "a version of an impossible block": f"INSERT INTO block_versions VALUES (1, {2**63 - 1}, x'')",
    "vectors of an unreadable space": "UPDATE generations SET space = '[1'",
}


@pytest.mark.parametrize("damage", STRAYS.values(), ids=STRAYS)
def test_after_a_repair_versions_signs_and_rows_are_those_of_the_vectors(
    tmp_path: Path, damage: str
) -> None:
    store = a_store(tmp_path / "memory.db")
    connection = store._connections.get()
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute(damage)
    connection.execute("PRAGMA foreign_keys = ON")
    assert "error" in {row.level for row in store.check()}
    store.check(fix=True)
    assert {row.level for row in store.check()} <= {"ok", "warning"}  # some wait for a vector
    assert not connection.execute(
        "SELECT generation, block FROM vector_blocks EXCEPT SELECT generation, block "
        "FROM block_versions UNION ALL SELECT generation, block FROM block_versions "
        "EXCEPT SELECT generation, block FROM vector_blocks"
    ).fetchall()
    stored = {block for (block,) in connection.execute("SELECT block FROM vector_blocks")}
    assert stored.issuperset(signed(store))
    rows = {ref // BLOCK for (ref,) in connection.execute("SELECT rowid FROM vector_rows")}
    assert rows == {*signed(store)}
    assert_exact(store)
    write(store, *[entry(number) for number in range(30, 40)])
    store.tidy()
    assert_exact(store)
    store.close()


def test_a_purge_clears_the_row_of_a_block_that_lost_its_vectors(tmp_path: Path) -> None:
    store = a_store(tmp_path / "memory.db")
    store._connections.get().execute("DELETE FROM vector_blocks WHERE block = 2")
    fill(store, [(9, vector_of(50))], SPACE)
    sql = "SELECT count(*) FROM vector_rows WHERE rowid / ? = 2"
    assert store._connections.get().execute(sql, (BLOCK,)).get == 0
    store.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE vector_signs SET data = x'00'",
        "UPDATE vector_signs SET data = 7 WHERE block = 2",
        "DELETE FROM vector_rows",
        "DELETE FROM vector_rows WHERE rowid = 9",
        "UPDATE vector_rows SET data = 7 WHERE rowid = 9",
    ],
)
def test_signs_that_cannot_be_read_are_damage(tmp_path: Path, damage: str) -> None:
    store = a_store(tmp_path / "memory.db")
    store._connections.get().execute(damage)
    with pytest.raises(StoreDamaged):
        store.vector(vector_of(3), SPACE, 5, EVERYTHING)
    store.close()


@pytest.mark.parametrize("data", ["x''", "x'00'", "zeroblob(99)", "'text'", "7"])
def test_signs_that_cannot_be_written_are_damage(tmp_path: Path, data: str) -> None:
    store = a_store(tmp_path / "memory.db")
    store._connections.get().execute(f"UPDATE vector_signs SET data = {data} WHERE block = 2")
    with pytest.raises(StoreDamaged):
        delete(store, "8")
    assert refs_of(store, "8")
    store.close()


@pytest.mark.parametrize("data", ["x'00'", "'text'", "7"])
def test_a_block_that_cannot_be_read_is_damage_also_for_near_duplicates(data: str) -> None:
    store = a_store()
    store._connections.get().execute(f"UPDATE vector_blocks SET data = {data} WHERE block = 6")
    with pytest.raises(StoreDamaged):
        store.vector(vector_of(3), SPACE, 5, EVERYTHING, latest=True)
    store.close()


def test_a_block_that_was_lost_does_not_get_its_old_signs_back() -> None:
    store = a_store()
    store._connections.get().execute("DELETE FROM vector_blocks WHERE block = 2")
    fill(store, [(9, vector_of(50))], SPACE)
    assert 2 not in signed(store)
    assert_exact(store)
    store.close()


# what keeps signs from being made


def test_a_full_disk_keeps_signs_from_being_made_and_nothing_else(tmp_path: Path) -> None:
    store = a_store(tmp_path / "memory.db", passages=0)
    write(store, *[entry(number) for number in range(600)])
    store.tidied_passages = 1_000  # to merge the keyword index needs room, too
    connection = store._connections.get()
    pages = connection.execute("PRAGMA page_count").get
    connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()
    store.tidy()
    few = len(signed(store))
    assert few < 150
    assert row_count(store) == few * BLOCK
    assert_exact(store)
    connection.execute("PRAGMA max_page_count = 1000000").fetchall()
    store.tidy()
    assert len(signed(store)) == 150
    assert_exact(store)
    store.close()


def test_another_writer_keeps_signs_from_being_made_and_nobody_waits(tmp_path: Path) -> None:
    store = a_store(tmp_path / "memory.db", passages=0)
    write(store, *[entry(number) for number in range(30)])
    other = apsw.Connection(store.path)
    other.execute("BEGIN IMMEDIATE")
    store.tidy()
    assert signed(store) == []
    other.execute("ROLLBACK")
    other.close()
    store.tidy()
    assert len(signed(store)) == 7
    store.close()


# what users are told


def test_the_receipt_says_that_signs_chose(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    with Memory.open(tmp_path / "memory.db", embedder=embedder, project="") as memory:
        memory.store_many([Document(text=f"a note about apple number {n}") for n in range(2)])
        assert not memory.search("apple").receipt.approximate
        memory.store_many([Document(text=f"a note about pears, number {n}") for n in range(12)])
        answer = memory.search("apple")
        assert answer.receipt.approximate
        assert answer.to_dict()["receipt"]["approximate"] is True
        assert not memory.search("apple", mode="keyword").receipt.approximate
