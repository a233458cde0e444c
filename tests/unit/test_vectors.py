"""Vectors as int8 rows in blocks: what gets in, and that the nearest are found exactly."""

import math
import random
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plait.errors import EmbedderError
from plait.protocols import Vector
from plait.stores.sqlite import blocks, kernels, vectors
from plait.stores.sqlite.store import SQLiteStore
from plait.stores.sqlite.vectors import quantise
from plait.testing.hashing import cosine
from plait.types import Filter, Ref, Space
from tests.builders import begin, cosines, delete, entry, fill, vector, write

DIMS = 8
SPACE = Space("test", "small", DIMS)
BLOCK = 4
EVERYTHING = Filter()
SMALL = st.lists(st.integers(-127, 127), min_size=DIMS, max_size=DIMS)
KERNELS = {
    "simsimd": vectors.by_simsimd,
    "numpy": kernels.by_numpy,
    "by hand": kernels.by_hand,
}


def a_kernel(name: str) -> vectors.Distances:
    if name != "by hand":
        pytest.importorskip(name)
    return KERNELS[name]()


@pytest.fixture(params=KERNELS)
def distances(request: pytest.FixtureRequest) -> vectors.Distances:
    return a_kernel(request.param)


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> Iterator[None]:
    """A few passages then fill several blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "BLOCK_ROWS", BLOCK)
        yield


Quantise = Callable[[Vector, int], bytes]


def row(*numbers: int) -> bytes:
    return array("b", [*numbers, *[0] * (DIMS - len(numbers))]).tobytes()


def exact(first: bytes, second: bytes) -> float:
    """The cosine of two int8 rows in whole numbers, so that nothing is rounded before the end."""
    a, b = array("b", first), array("b", second)
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    lengths = math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))
    return dot / lengths if lengths else 0.0


# quantise


# Of a query, and of a row that is written.
both_ways = pytest.mark.parametrize("made", [quantise, blocks.quantised])


@both_ways
@pytest.mark.parametrize(
    ("numbers", "dims"),
    [
        ((1.0, 2.0), 3),
        ((1.0, 2.0, 3.0, 4.0), 3),
        ((), 3),
        ((0.0, 0.0, 0.0), 3),
        ((-0.0, 0.0, 0.0), 3),
        ((math.nan, 1.0, 0.0), 3),
        ((1.0, math.nan, 0.0), 3),
        ((math.inf, 1.0, 0.0), 3),
        ((1.0, -math.inf, 0.0), 3),
        ((math.inf, -math.inf, 0.0), 3),
    ],
)
def test_what_has_no_direction_or_the_wrong_length_is_refused(
    made: Quantise, numbers: tuple[float, ...], dims: int
) -> None:
    with pytest.raises(EmbedderError):
        made(vector(*numbers), dims)


FLOATS = st.floats(-(2.0**100), 2.0**100, width=32)


@given(st.lists(FLOATS, min_size=1, max_size=16).filter(any))
def test_the_largest_part_of_a_row_is_127_and_its_sign_is_kept(numbers: list[float]) -> None:
    quantised = array("b", quantise(vector(*numbers), len(numbers)))
    largest = max(range(len(numbers)), key=lambda place: abs(numbers[place]))
    assert abs(quantised[largest]) == 127
    assert all(mine * theirs >= 0 for mine, theirs in zip(quantised, numbers, strict=True))


@both_ways
@given(numbers=st.lists(FLOATS, min_size=1, max_size=16).filter(any))
@example(numbers=[127.0, 0.5, 1.5, -0.5, -1.5, 2.5])  # halves go to the even number
@example(numbers=[762.0, 9.0, 3.0, -9.0])  # so do products that are halves only when rounded
def test_every_part_is_rounded_as_python_rounds(made: Quantise, numbers: list[float]) -> None:
    stored = vector(*numbers)
    scale = 127 / max(map(abs, stored))
    expected = [round(number * scale) for number in stored]
    assert array("b", made(stored, len(numbers))).tolist() == expected


def test_rows_are_written_without_simsimd_too(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = vector(0.5, -1.0, 0.3, 0.125)
    written = blocks.quantised(numbers, 4)
    blocks._scaled_sum.cache_clear()
    monkeypatch.setitem(sys.modules, "simsimd", None)
    assert blocks.quantised(numbers, 4) == written == quantise(numbers, 4)
    blocks._scaled_sum.cache_clear()


@given(st.lists(st.floats(-1.0, 1.0, width=32), min_size=32, max_size=32).filter(any))
def test_a_row_points_where_its_vector_points(numbers: list[float]) -> None:
    if max(map(abs, numbers)) > 1e-3:
        back = array("f", array("b", quantise(vector(*numbers), 32)))
        assert cosine(vector(*numbers), back) > 0.999


@given(st.integers(-60, 60))
def test_length_does_not_matter(power: int) -> None:
    numbers = [0.5, -1.0, 0.3, 0.125]
    longer = [number * 2.0**power for number in numbers]
    assert quantise(vector(*numbers), 4) == quantise(vector(*longer), 4)


# kernels


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((127,), (0, 127), 0.0),
        ((127,), (5,), 1.0),
        ((127,), (-3,), -1.0),
        ((127,), (), 0.0),
        ((3, 4), (4, 3), 24 / 25),
    ],
)
def test_every_kernel_knows_the_cosine_of_simple_rows(
    distances: vectors.Distances, first: tuple[int, ...], second: tuple[int, ...], expected: float
) -> None:
    [distance] = distances(row(*first), memoryview(row(*second)), DIMS)
    assert 1.0 - distance == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("name", ["simsimd", "numpy"])
@given(query=SMALL.filter(any), rows=st.lists(SMALL, min_size=1, max_size=9))
def test_fast_kernels_agree_with_the_one_written_by_hand(
    name: str, query: list[int], rows: list[list[int]]
) -> None:
    fast, slow = a_kernel(name), a_kernel("by hand")
    data = memoryview(b"".join(row(*numbers) for numbers in rows))
    mine, theirs = (list(way(row(*query), data, DIMS)) for way in (fast, slow))
    assert mine == pytest.approx(theirs, abs=2e-3)


def test_the_first_kernel_that_can_be_imported_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert vectors.kernel().__qualname__.startswith("by_simsimd")
    monkeypatch.setitem(sys.modules, "simsimd", None)  # as if it were not installed
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert vectors.kernel().__qualname__.startswith("by_hand")


# The nearest, through the store


def a_store(kernel: str = "by hand") -> SQLiteStore:
    store = SQLiteStore(":memory:")
    store.vectors.distances = a_kernel(kernel)
    return store


def padded(*numbers: float) -> Vector:
    return vector(*numbers, *[0.0] * (DIMS - len(numbers)))


def stock(store: SQLiteStore, rows: Sequence[list[int] | None], tags: Sequence[str] = ()) -> None:
    """One passage each, whose ref is its place counted from 1; no direction, no vector."""
    begin(store, SPACE)
    write(
        store,
        *[
            entry(
                f"{place:03}",
                "x",
                vectors=[padded(*numbers) if numbers and any(numbers) else None],
                space=SPACE,
                tags=(tags[place],) if place < len(tags) else (),
            )
            for place, numbers in enumerate(rows)
        ],
    )


def brute_force(
    rows: dict[Ref, bytes], query: bytes, limit: int, among: set[Ref]
) -> list[tuple[Ref, float]]:
    scored = sorted((-exact(query, data), ref) for ref, data in rows.items() if ref in among)
    return [(ref, -negative) for negative, ref in scored[:limit] if negative < 0]


@pytest.mark.parametrize("long", [False, True], ids=["short list", "flags"])
@given(
    rows=st.lists(SMALL, max_size=3 * BLOCK),
    query=SMALL.filter(any),
    limit=st.integers(1, 3 * BLOCK),
    tags=st.lists(st.sampled_from(["in", "out"]), min_size=3 * BLOCK, max_size=3 * BLOCK),
    filtered=st.booleans(),
)
def test_the_nearest_are_exactly_those_of_brute_force(
    long: bool,
    rows: list[list[int]],
    query: list[int],
    limit: int,
    tags: list[str],
    filtered: bool,
) -> None:
    store = a_store()
    if long:
        store.selections.short, store.selections.share = 0, 0.0
    stock(store, rows, tags)
    asked = padded(*query)
    where = Filter(tags=("in",)) if filtered else EVERYTHING
    stored = {
        ref: quantise(padded(*numbers), DIMS)
        for ref, numbers in enumerate(rows, start=1)
        if any(numbers)
    }
    among = {ref for ref in stored if not filtered or tags[ref - 1] == "in"}
    expected = brute_force(stored, quantise(asked, DIMS), limit, among)
    refs = range(len(rows) + 5)
    near = {ref: exact(quantise(asked, DIMS), data) for ref, data in stored.items()}
    for _ in range(3):  # a warm memory answers like a cold one
        hits = store.vector(asked, SPACE, limit, where).hits
        assert [ref for ref, _ in hits] == [ref for ref, _ in expected]
        assert [c for _, c in hits] == pytest.approx([c for _, c in expected])
        assert store.vector(asked, SPACE, limit, where, also=refs).cosines == pytest.approx(near)
    assert cosines(store, asked, refs, SPACE) == pytest.approx(near)
    store.close()


def clustered(count: int, dims: int, seed: int) -> list[Vector]:
    """Vectors as embedders make them: crowded around topics, not spread evenly."""
    dice = random.Random(seed)
    centres = [[dice.gauss(0, 1) for _ in range(dims)] for _ in range(20)]
    return [
        vector(*[middle + dice.gauss(0, 0.6) for middle in dice.choice(centres)])
        for _ in range(count)
    ]


def test_int8_keeps_nearly_all_of_the_exact_ten_nearest() -> None:
    dims, queries = 64, 40
    space = Space("test", "clustered", dims)
    everything = clustered(2_000 + queries, dims, seed=7)
    stored, asked = everything[:-queries], everything[-queries:]
    store = SQLiteStore(":memory:")
    write(store, entry(None, *["x"] * len(stored), vectors=stored, space=space))
    unit = [[value / math.hypot(*row) for value in row] for row in stored]
    kept = 0
    for query in asked:
        refs = {ref for ref, _ in store.vector(query, space, 10, EVERYTHING).hits}
        products = [sum(map(float.__mul__, query, row)) for row in unit]
        true = sorted(range(len(unit)), key=lambda place: -products[place])[:10]
        kept += len(refs & {place + 1 for place in true})
    assert kept / (10 * queries) >= 0.98
    store.close()


@pytest.mark.parametrize("name", KERNELS)
def test_a_row_of_zeros_is_no_vector_and_no_hit(name: str) -> None:
    store = a_store(name)
    stock(store, [[9], None, [-9], [1, 1], None, [2]])
    delete(store, "003")
    asked = padded(1.0)
    for _ in range(3):
        hits = store.vector(asked, SPACE, 10, EVERYTHING).hits
        assert sorted(ref for ref, _ in hits) == [1, 6]
        assert cosines(store, asked, range(40), SPACE) == {
            1: pytest.approx(1.0, abs=1e-3),
            3: pytest.approx(-1.0, abs=1e-3),
            6: pytest.approx(1.0, abs=1e-3),
        }
    store.close()


@pytest.mark.parametrize("name", KERNELS)
def test_a_right_angle_is_a_cosine_of_nothing_and_no_vector_is_none(name: str) -> None:
    store = a_store(name)
    stock(store, [[9], None, [0, 5], [0, 0, -3], None])
    asked = padded(1.0)
    assert cosines(store, asked, range(40), SPACE) == {1: pytest.approx(1.0, abs=1e-3), 3: 0, 4: 0}
    narrow = Filter(keys=("001", "002", "003", "004"))
    assert store.vector(asked, SPACE, 10, narrow).hits == []
    store.close()


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 9])
def test_of_a_narrow_filter_as_many_come_as_are_wanted_equal_ones_as_stored(limit: int) -> None:
    store = a_store()
    stock(store, [[1, 1], [7], [1, 1], [2], [-4], [1, 2], None])
    narrow = Filter(keys=tuple(f"{number:03}" for number in range(7)))
    hits = store.vector(padded(1.0), SPACE, limit, narrow).hits
    assert [ref for ref, _ in hits] == [2, 4, 1, 3, 6][:limit]
    store.close()


@pytest.mark.parametrize("limit", range(1, 3 * BLOCK))
def test_equal_vectors_come_in_the_order_they_were_stored(limit: int) -> None:
    store = a_store()
    stock(store, [[7, 7]] * (2 * BLOCK + 1))
    asked = padded(1.0, 1.0)
    hits = store.vector(asked, SPACE, limit, EVERYTHING).hits
    assert [ref for ref, _ in hits] == list(range(1, 2 * BLOCK + 2))[:limit]
    store.close()


@pytest.mark.parametrize("warm", [0, 1, 2, 3])
def test_a_vector_written_after_a_search_is_found_by_the_next(warm: int) -> None:
    store = a_store()
    stock(store, [[1], [2], None])
    asked = padded(1.0)
    for _ in range(warm):
        store.vector(asked, SPACE, 10, EVERYTHING)
    fill(store, [(3, asked)], SPACE)
    delete(store, "000")
    assert [ref for ref, _ in store.vector(asked, SPACE, 10, EVERYTHING).hits] == [2, 3]
    assert cosines(store, asked, [1, 2, 3], SPACE).keys() == {2, 3}
    store.close()


def test_doctor_reads_which_passages_have_a_vector_from_the_bytes_themselves() -> None:
    store = a_store()
    stock(store, [[1], None, [0, 0, -1], *[[5]] * BLOCK])
    listed = blocks.occupied(store._connections.get(), 1, DIMS)
    assert [ref for refs in listed for ref in refs] == [1, 3, 4, 5, 6, 7]
    store.close()


def test_clearing_what_never_had_a_vector_makes_no_block() -> None:
    store = a_store()
    stock(store, [None] * (3 * BLOCK))
    delete(store, *[document.id for document in store.scan(EVERYTHING)])
    assert store._connections.get().execute("SELECT count(*) FROM vector_blocks").get == 0
    store.close()
