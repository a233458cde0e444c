"""What a store remembers between two searches follows every change, also one that is undone."""

from collections.abc import Callable

import pytest

from plait.errors import StoreError
from plait.protocols import Store, Unembedded
from plait.text import parse
from plait.types import Filter
from tests.builders import (
    EVERYTHING,
    NOW,
    SPACE,
    Engine,
    delete,
    entry,
    refs_of,
    vector,
    write,
)

OURS = Filter(projects=("ours",))
RED = Filter(tags=("red",))


def found(store: Store, where: Filter) -> list[int]:
    return sorted(ref for ref, _ in store.keyword(parse("lamp"), 10, where))


def test_the_state_follows_every_change(store: Store) -> None:
    write(store, entry("one", "lamp"))
    assert store.state() == store.state()
    assert (store.state().passages, store.state().has_messages) == (1, False)
    with pytest.raises(StoreError), store.transaction() as tx:
        tx.write(entry("two", "lamp", id="two-of-them", kind="message", session="talk", turn=1))
        store.state()
        raise StoreError("rolled back")
    assert (store.state().passages, store.state().has_messages) == (1, False)
    write(store, entry("two", "lamp", kind="message", session="talk", turn=1))
    assert (store.state().passages, store.state().has_messages) == (2, True)
    delete(store, "two")
    assert (store.state().passages, store.state().has_messages) == (1, False)


def test_a_search_keeps_to_its_project_whatever_was_there_before(store: Store) -> None:
    write(store, entry("mine", "lamp", project="ours"))
    [mine] = refs_of(store, "mine")
    assert found(store, OURS) == found(store, Filter()) == [mine]
    write(store, entry("yours", "lamp", project="theirs"))
    [yours] = refs_of(store, "yours")
    assert (found(store, OURS), found(store, Filter())) == ([mine], [mine, yours])
    with pytest.raises(StoreError), store.transaction() as tx:
        row = tx.known(entry("yours", "lamp", project="theirs").document)
        assert row is not None
        tx.delete([row.id])
        assert found(store, OURS) == [mine]
        raise StoreError("rolled back")
    assert (found(store, OURS), found(store, Filter())) == ([mine], [mine, yours])


def test_what_ceases_to_be_valid_is_not_found_afterwards(engine: Engine) -> None:
    now = [NOW]
    store = engine(clock=lambda: now[0])
    write(store, entry("passing", "lamp", valid_from=NOW - 10, valid_to=NOW + 10))
    write(store, entry("coming", "lamp", valid_from=NOW + 10))
    [passing], [coming] = refs_of(store, "passing"), refs_of(store, "coming")
    assert found(store, Filter()) == found(store, Filter()) == [passing]
    now[0] = NOW + 10
    assert found(store, Filter()) == [coming]
    store.close()


def near(store: Store, where: Filter) -> list[int]:
    return sorted(ref for ref, _ in store.vector(vector(1, 0.5, 0, 0), SPACE, 10, where).hits)


@pytest.mark.parametrize("where", [OURS, RED])
@pytest.mark.parametrize("look", [found, near])
def test_what_is_read_in_a_transaction_is_forgotten_when_it_is_rolled_back(
    store: Store, where: Filter, look: Callable[[Store, Filter], list[int]]
) -> None:
    for key in ("one", "two"):
        row = entry(key, "lamp", project="ours", tags=("red",), vectors=[vector(1, 0, 0, 0)])
        write(store, row)
    write(store, entry("yours", "lamp", project="theirs", vectors=[vector(1, 0, 0, 0)]))
    [one], [two] = refs_of(store, "one"), refs_of(store, "two")
    [(document, _)] = store.find("one", EVERYTHING)
    with pytest.raises(StoreError), store.transaction() as tx:
        tx.delete([document.id])
        look(store, where)  # sees it gone in SQLite, not in the other engines
        raise StoreError("rolled back")
    assert look(store, where) == [one, two]


def test_a_vector_that_was_rolled_back_is_near_to_nothing(store: Store) -> None:
    write(store, entry("one", "lamp", tags=("red",), vectors=[vector(1, 0, 0, 0)]))
    write(store, entry("two", "lamp"))
    [one], [two] = refs_of(store, "one"), refs_of(store, "two")
    row = store.hydrate([two])[two]
    text = Unembedded(two, row.document.title, row.passage.heading, row.passage.text)
    with pytest.raises(StoreError), store.transaction() as tx:
        assert tx.fill(SPACE, [(text, vector(1, 1, 0, 0))], building=False) == 1
        near(store, Filter())
        raise StoreError("rolled back")
    also = store.vector(vector(1, 0.5, 0, 0), SPACE, 10, RED, also=[two])
    assert list(also.cosines) == [one]


def test_a_store_follows_what_another_one_writes_and_nothing_that_it_takes_back(
    two_stores: tuple[Store, Store],
) -> None:
    store, other = two_stores
    write(store, entry("one", "lamp", project="ours", tags=("red",)))
    [one] = refs_of(store, "one")
    for where in (OURS, RED):
        assert found(store, where) == [one]
    write(other, entry("two", "lamp", project="ours", tags=("red",)))
    write(other, entry("yours", "lamp", project="theirs"))
    [two] = refs_of(other, "two")
    for where in (OURS, RED):
        assert found(store, where) == [one, two]
    with pytest.raises(StoreError), other.transaction() as tx:
        tx.delete([document.id for document, _ in other.find("one", EVERYTHING)])
        for where in (OURS, RED):
            found(other, where)
            assert found(store, where) == [one, two]
        raise StoreError("rolled back")
    for where in (OURS, RED):
        assert found(other, where) == found(store, where) == [one, two]
    delete(other, "one")
    for where in (OURS, RED):
        assert found(store, where) == [two]
