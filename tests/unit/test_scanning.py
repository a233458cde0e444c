"""The vector scan: exact whatever the blocks, ties and filters, never answered from old bytes."""

import random
from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait import stores
from plait.memory import Memory
from plait.protocols import Entry, Unembedded, Vector
from plait.settings.loading import load
from plait.stores.sqlite import generations, resembling, vectors
from plait.stores.sqlite.store import SQLiteStore
from plait.types import Document, Filter, Passage, Ref, Space
from tests.builders import cosines, delete, keys_of, refs_of, write

DIMS = 8
SPACE = Space("test", "scan", DIMS)
# Few values, so that ties are common; 1.0 is a cosine of 0 or no vector at all.
# The same text, or nearly, has a distance around 0.
DISTANCES = st.sampled_from([-1e-9, 0.0, 1e-7, 0.25, 0.5, 0.501, 0.75, 1.0, 1.5, 2.0])
BLOCKS = st.lists(st.lists(DISTANCES, min_size=4, max_size=4), max_size=6)


def scan_of(blocks: list[list[float]]) -> vectors.Scan:
    return {block: memoryview(array("d", near)) for block, near in enumerate(blocks)}


def expected(
    blocks: list[list[float]], limit: int, chosen: set[int] | None
) -> list[tuple[int, float]]:
    flat = [(d, ref) for ref, d in enumerate(d for near in blocks for d in near)]
    hits = sorted(pair for pair in flat if pair[0] < 1.0 and (chosen is None or pair[1] in chosen))
    return [(ref, 1.0 - d) for d, ref in hits[:limit]]


@given(BLOCKS, st.integers(1, 9), st.none() | st.sets(st.integers(0, 23)))
def test_nearest_is_the_head_of_the_whole_sorted_list(
    blocks: list[list[float]], limit: int, chosen: set[int] | None
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "BLOCK_ROWS", 4)
        flags = None if chosen is None else vectors.flagged(chosen)
        hits = vectors.nearest(scan_of(blocks), limit, flags)
    assert hits == expected(blocks, limit, chosen)


@given(
    st.lists(st.integers(0, 255), max_size=30),
    st.integers(1, 60),
    st.integers(1, 5_000),
    st.randoms(use_true_random=False),
)
def test_the_level_of_the_nearest_is_found_whatever_a_sample_tells(
    few: list[int], times: int, wanted: int, chance: random.Random
) -> None:
    levels = few * times
    chance.shuffle(levels)
    near = [level for level in sorted(levels)[wanted - 1 : wanted] if level <= 0xEF]
    assert vectors.level_of(bytes(levels), wanted) == (near[0] if near else 0xEF)


@given(BLOCKS, st.lists(st.integers(0, 30), unique=True))
def test_a_scan_gives_back_its_own_cosines_and_admits_what_it_does_not_know(
    blocks: list[list[float]], refs: list[int]
) -> None:
    flat = [d for near in blocks for d in near]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "BLOCK_ROWS", 4)
        computed, unknown = vectors.scanned_cosines(scan_of(blocks), refs)
    near = {ref: 1.0 - flat[ref] for ref in refs if ref < len(flat) and flat[ref] != 1.0}
    assert computed == near
    assert unknown == [ref for ref in refs if ref not in near]


@given(st.lists(DISTANCES), st.sampled_from([0.25, 0.5, 0.75]))
def test_no_place_of_a_near_distance_is_left_out(near: list[float], farthest: float) -> None:
    slots = list(resembling.near_slots(memoryview(array("d", near)), farthest))
    assert slots == sorted(slots)
    assert {slot for slot, d in enumerate(near) if d <= farthest} <= {*slots}
    assert all(near[slot] < farthest * 1.07 for slot in slots)  # a level spans a sixteenth


@given(st.lists(DISTANCES, max_size=9), st.integers(1, 20), DISTANCES.filter(lambda d: d <= 1.0))
def test_the_least_distance_is_that_of_the_whole_list(
    few: list[float], times: int, bar: float
) -> None:
    near = few * times  # more than a few are compared one after the other
    assert generations._least(memoryview(array("d", near)), bar) == min([bar, *near])


def vector_of(seed: int) -> Vector:
    chance = random.Random(seed)
    return array("f", [chance.uniform(-1, 1) for _ in range(DIMS)])


def entry(key: str, vector: Vector | None, tags: tuple[str, ...] = ()) -> Entry:
    document = Document(key=key, text=key, tags=tags)
    return Entry(document, [Passage(key)], [vector], SPACE)


def keys_near(store: SQLiteStore, vector: Vector, limit: int, where: Filter) -> list[str]:
    hits = store.vector(vector, SPACE, limit, where).hits
    return keys_of(store, [ref for ref, _ in hits])


@pytest.mark.parametrize("searches_before", [0, 1, 2, 3])
def test_what_another_process_wrote_is_found_however_warm_the_search(
    tmp_path: Path, searches_before: int
) -> None:
    mine = SQLiteStore(str(tmp_path / "memory.db"))
    other = SQLiteStore(str(tmp_path / "memory.db"))
    write(mine, *[entry(f"old {n}", vector_of(n)) for n in range(20)])
    wanted = vector_of(99)
    for _ in range(searches_before):
        assert "new" not in keys_near(mine, wanted, 5, Filter())
    write(other, entry("new", wanted))
    assert keys_near(mine, wanted, 5, Filter())[0] == "new"
    (ref, cosine), *_ = mine.vector(wanted, SPACE, 1, Filter()).hits
    assert cosines(mine, wanted, [ref], SPACE) == {ref: pytest.approx(cosine)}
    write(other, entry("new", vector_of(100)))
    assert cosines(mine, wanted, [ref], SPACE).get(ref, 0.0) < cosine
    mine.close()
    other.close()


@pytest.mark.parametrize("kept_bytes", [0, vectors.KEPT_BYTES])
def test_blocks_are_kept_only_up_to_a_size_and_answer_the_same(kept_bytes: int) -> None:
    store = SQLiteStore(":memory:")
    store.vectors.blocks.kept_bytes = kept_bytes
    write(store, *[entry(f"{n}", vector_of(n)) for n in range(50)])
    answers = [store.vector(vector_of(7), SPACE, 10, Filter()) for _ in range(4)]
    assert answers[1:] == answers[:1] * 3
    assert keys_near(store, vector_of(7), 1, Filter()) == ["7"]
    store.close()


# -- what a warm process keeps ---------------------------------------------------------------

BLOCK = 4
BLANK = "UPDATE vector_blocks SET data = zeroblob(length(data)) WHERE block = ?"


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few passages then fill several blocks."""
    monkeypatch.setattr(vectors, "BLOCK_ROWS", BLOCK)


def a_file(path: Path, passages: int = 5 * BLOCK) -> SQLiteStore:
    store = SQLiteStore(str(path))
    write(store, *[entry(f"{n}", vector_of(n)) for n in range(passages)])
    return store


def blocks_read(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch, also: Sequence[Ref] | None = None
) -> set[int]:
    """The blocks that the next search reads from the file: every one that it checks.

    With ``also``, one that reads single passages only.
    """
    read: set[int] = set()
    check = vectors.check_block

    def noted(block: int, size: int, dims: int) -> None:
        read.add(block)
        check(block, size, dims)

    with monkeypatch.context() as patch:
        patch.setattr(vectors, "check_block", noted)
        if also is None:
            store.vector(vector_of(7), SPACE, 10, Filter())
        else:
            cosines(store, vector_of(7), also, SPACE)
    return read


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("by_other", [False, True], ids=["own write", "other process"])
def test_after_a_write_only_the_blocks_that_changed_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_other: bool
) -> None:
    mine = a_file(tmp_path / "memory.db")
    writer = SQLiteStore(str(tmp_path / "memory.db")) if by_other else mine
    assert blocks_read(mine, monkeypatch) == {0, 1, 2, 3, 4, 5}
    assert blocks_read(mine, monkeypatch) == set()
    [ref] = refs_of(writer, "9")
    with writer.transaction() as tx:
        tx.touch([[ref]])  # a write, but of no vector
    assert blocks_read(mine, monkeypatch) == set()
    write(writer, entry("new", vector_of(99)))
    assert blocks_read(mine, monkeypatch) == {5}
    delete(writer, "9")
    assert blocks_read(mine, monkeypatch) == {ref // BLOCK}
    assert "9" not in keys_near(mine, vector_of(9), 50, Filter())
    assert keys_near(mine, vector_of(99), 1, Filter()) == ["new"]
    mine.close()
    writer.close()


@pytest.mark.usefixtures("small_blocks")
def test_cosines_of_single_passages_come_from_kept_blocks_only_while_these_are_current(
    tmp_path: Path,
) -> None:
    mine, other = a_file(tmp_path / "memory.db"), SQLiteStore(str(tmp_path / "memory.db"))
    old, kept = refs_of(mine, "3", "12")
    asked = vector_of(3)
    mine.vector(asked, SPACE, 10, Filter())
    before = cosines(mine, asked, [old, kept], SPACE)
    delete(other, "3")
    other._connections.get().execute(BLANK, (kept // BLOCK,))  # as no plait would
    assert cosines(mine, asked, [old, kept], SPACE) == {kept: pytest.approx(before[kept])}
    mine.close()
    other.close()


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kept_bytes", [vectors.KEPT_BYTES, 0])
def test_blocks_of_single_passages_are_kept_too_and_read_again_when_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_bytes: int
) -> None:
    store = a_file(tmp_path / "memory.db")
    store.vectors.blocks.kept_bytes = kept_bytes
    few = refs_of(store, "3", "12")
    theirs = {ref // BLOCK for ref in few}
    assert blocks_read(store, monkeypatch, few) == theirs
    assert blocks_read(store, monkeypatch, few) == (set() if kept_bytes else theirs)
    delete(store, "4")  # beside the first one
    changed = {few[0] // BLOCK}
    assert blocks_read(store, monkeypatch, few) == (changed if kept_bytes else theirs)
    store.close()


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kept_bytes", [vectors.KEPT_BYTES, 0])
def test_a_narrow_search_reads_each_block_once_and_answers_like_a_wide_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_bytes: int
) -> None:
    store = a_file(tmp_path / "memory.db")
    store.vectors.blocks.kept_bytes = kept_bytes
    keys = ("1", "3", "12", "13")
    refs = refs_of(store, *keys)
    wide = store.vector(vector_of(3), SPACE, 50, Filter(), also=refs)
    store.vectors.blocks._kept = {}
    read: list[int] = []
    check = vectors.check_block

    def noted(block: int, size: int, dims: int) -> None:
        read.append(block)
        check(block, size, dims)

    monkeypatch.setattr(vectors, "check_block", noted)
    narrow = store.vector(vector_of(3), SPACE, 2, Filter(keys=keys), also=refs)
    assert read == sorted({ref // BLOCK for ref in refs})
    assert narrow.hits == [hit for hit in wide.hits if hit[0] in refs][:2]
    assert narrow.cosines == {ref: wide.cosines[ref] for ref in refs}
    store.close()


@pytest.mark.usefixtures("small_blocks")
def test_a_rolled_back_write_leaves_no_bytes_behind(tmp_path: Path) -> None:
    store = a_file(tmp_path / "memory.db")
    asked = vector_of(99)
    expected = store.vector(asked, SPACE, 5, Filter()).hits
    [ref] = refs_of(store, "3")
    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        tx.fill(SPACE, [(Unembedded(ref, "", "", "3"), asked)], building=False)
        assert [hit for hit, _ in store.vector(asked, SPACE, 1, Filter()).hits] == [ref]
        raise ZeroDivisionError
    assert store.vector(asked, SPACE, 5, Filter()).hits == expected
    store.close()


@pytest.mark.usefixtures("small_blocks")
def test_blocks_of_a_file_that_was_replaced_are_not_answered_from(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = a_file(path)
    store.backup(str(tmp_path / "backup.db"))
    # As many writes to the same block here and, after the restore, there.
    write(store, entry("new", vector_of(98)))
    assert keys_near(store, vector_of(98), 1, Filter()) == ["new"]
    stores.restore(str(path), str(tmp_path / "backup.db"))
    other = SQLiteStore(str(path))
    write(other, entry("new", vector_of(99)))
    [(ref, cosine)] = store.vector(vector_of(99), SPACE, 1, Filter()).hits
    assert keys_of(store, [ref]) == ["new"]
    assert cosine == pytest.approx(1.0, abs=1e-3)
    store.close()
    other.close()


@pytest.mark.usefixtures("small_blocks")
def test_a_block_without_a_version_is_read_each_time(tmp_path: Path) -> None:
    store = a_file(tmp_path / "memory.db")
    connection = store._connections.get()
    connection.execute("DELETE FROM block_versions WHERE block = 1")
    asked = vector_of(3)
    [ref] = refs_of(store, "3")
    for _ in range(2):
        assert ref in dict(store.vector(asked, SPACE, 50, Filter()).hits)
    connection.execute(BLANK, (1,))
    assert ref not in dict(store.vector(asked, SPACE, 50, Filter()).hits)
    store.close()


@pytest.mark.parametrize("version", ["CAST(x'ff' AS TEXT)", "'text'", "7", "x''"])
def test_whatever_stands_in_the_place_of_a_version_the_vectors_answer(
    tmp_path: Path, version: str
) -> None:
    store = a_file(tmp_path / "memory.db")
    expected = store.vector(vector_of(3), SPACE, 5, Filter())
    store._connections.get().execute(f"UPDATE block_versions SET version = {version}")
    assert [store.vector(vector_of(3), SPACE, 5, Filter()) for _ in range(3)] == [expected] * 3
    write(store, entry("new", vector_of(99)))
    assert keys_near(store, vector_of(99), 1, Filter()) == ["new"]
    store.close()


@pytest.mark.parametrize("brief", [False, True])
def test_a_process_that_may_search_again_reads_the_blocks_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, brief: bool
) -> None:
    path = tmp_path / "memory.db"
    a_file(path).close()
    config = load({"db_path": str(path), "project": ""})._replace(brief=brief)
    with Memory.open(config=config) as memory:
        store = memory.engine
        assert isinstance(store, SQLiteStore)
        read = [bool(blocks_read(store, monkeypatch)) for _ in range(3)]
    assert read == [True, brief, False]


# A short list; what the nearest few happen to hold; flags for every row.
@pytest.mark.parametrize(("few", "over_fetch"), [(200, 4), (0, 4), (0, 1)])
@pytest.mark.parametrize("tag", ["every", "half", "tenth", "nobody"])
def test_a_filter_leaves_the_nearest_that_pass_however_it_is_applied(
    few: int, over_fetch: int, tag: str
) -> None:
    shares = {"every": 1, "half": 2, "tenth": 10}
    store = SQLiteStore(":memory:")
    store.selections.short, store.selections.share = few, 0.0
    store.vectors.over_fetch = over_fetch
    rows = [
        entry(f"{n}", vector_of(n), tuple(t for t, each in shares.items() if n % each == 0))
        for n in range(120)
    ]
    write(store, *rows)
    everything = keys_near(store, vector_of(500), 120, Filter())
    each = shares.get(tag)
    passing = [key for key in everything if each and int(key) % each == 0]
    for limit in (1, 7, 120):
        assert keys_near(store, vector_of(500), limit, Filter(tags=(tag,))) == passing[:limit]
    store.close()
