"""The vector scan: exact whatever the blocks, ties and filters, never answered from old bytes."""

import random
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.protocols import Entry, Vector
from plait.stores.sqlite import vectors
from plait.stores.sqlite.store import SQLiteStore
from plait.types import Document, Filter, Passage, Space
from tests.builders import cosines, keys_of, write

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
