"""Pages of a search: together they are one ranking, without repetitions and without gaps."""

import pytest

from plait.memory import Memory
from plait.types import Document

NOTES = 700


@pytest.fixture(scope="module")
def many():
    words = ("tea", "rum", "moon", "port", "ship")
    with Memory.open(":memory:", embedder="hashing", project="") as memory:
        memory.store_many(
            Document(
                text=f"Harbour note {n}: {words[n % 5]} {words[n % 3]} of day {n % 31}.",
                key=f"n{n}",
            )
            for n in range(NOTES)
        )
        yield memory


@pytest.mark.unmeasured
@pytest.mark.parametrize("fusion", ["weighted", "rrf", "max"])
@pytest.mark.parametrize("diverse", [False, True])
@pytest.mark.parametrize("limit", [100])
def test_pages_neither_repeat_nor_miss_a_hit(many, fusion, diverse, limit):
    pages = [
        many.search("harbour tea", limit=limit, offset=at, fusion=fusion, diverse=diverse)
        for at in range(0, NOTES + limit, limit)
    ]
    ids = [hit.id for page in pages for hit in page]
    assert len(ids) == len(set(ids)) == NOTES


@pytest.mark.parametrize("fusion", ["weighted", "rrf", "max"])
def test_a_page_begins_where_the_one_before_ends(many, fusion):
    small = [
        [hit.id for hit in many.search("harbour moon", limit=10, offset=at, fusion=fusion)]
        for at in (0, 10, 20, 90, 100)
    ]
    shifted = [hit.id for hit in many.search("harbour moon", limit=10, offset=5, fusion=fusion)]
    assert shifted == [*small[0][5:], *small[1][:5]]
    assert len({id_ for page in small for id_ in page}) == 50
