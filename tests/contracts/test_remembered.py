"""What a store remembers between two searches follows every change, whoever makes it."""

import pytest

from plait.errors import StoreError
from plait.protocols import Store
from plait.text import parse
from plait.types import Filter
from tests.builders import NOW, Engine, delete, entry, refs_of, write

OURS = Filter(projects=("ours",))


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
