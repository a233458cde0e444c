"""Edges between entities, as an engine keeps them. How to merge two is for `plait.facts`."""

from typing import Any

import pytest

from plait.protocols import Store
from plait.types import Filter
from plait.types.relations import Relation
from tests.builders import EVERYTHING, NOW, Engine, delete, entry, write

Ids = dict[str, str]


@pytest.fixture
def ids(store: Store) -> Ids:
    return entities(store, "a", "b", "c")


def entities(store: Store, *names: str, **fields: Any) -> Ids:
    write(store, *[entry(name, name, kind="entity", **fields) for name in names])
    return {name: store.find(name, EVERYTHING)[0][0].id for name in names}


def edge(ids: Ids, source: str, target: str, type_: str = "x", **fields: Any) -> Relation:
    made = Relation(source, target, type_, created_at=1)
    return made._replace(source_id=ids[source], target_id=ids[target])._replace(**fields)


def put(store: Store, *edges: Relation) -> None:
    with store.transaction() as tx:
        for relation in edges:
            tx.put_edge(relation)


def ends(relations: list[Relation]) -> list[str]:
    return [f"{row.source}{row.target}" for row in relations]


def test_every_field_of_an_edge_survives(store: Store, ids: Ids) -> None:
    full = edge(ids, "a", "b", context="why", valid_from=3, valid_to=9)
    put(store, full)
    assert store.relations(None, EVERYTHING) == [full]
    with store.transaction() as tx:
        assert tx.edges(ids["a"], ids["b"], "x") == [full]


def test_edges_are_listed_with_at_least_one_end_among_the_entities(store: Store, ids: Ids) -> None:
    put(store, edge(ids, "a", "b"), edge(ids, "b", "c", created_at=0))
    assert ends(store.relations([ids["a"]], EVERYTHING)) == ["ab"]
    assert ends(store.relations([ids["b"], "unknown"], EVERYTHING)) == ["ab", "bc"]
    assert ends(store.relations(None, EVERYTHING)) == ["ab", "bc"]
    assert store.relations([], EVERYTHING) == []


def test_an_edge_replaces_the_one_made_at_the_same_moment_and_keeps_its_place(
    store: Store, ids: Ids
) -> None:
    put(store, edge(ids, "a", "b", context="old"), edge(ids, "b", "c"))
    put(store, edge(ids, "a", "b", context="new", valid_to=7))
    assert [(row.source, row.context) for row in store.relations(None, EVERYTHING)] == [
        ("a", "new"),
        ("b", None),
    ]


def test_edges_between_two_entities_come_as_first_written(store: Store, ids: Ids) -> None:
    put(
        store,
        edge(ids, "a", "b", created_at=9, valid_to=10),
        edge(ids, "a", "b", created_at=3, valid_to=4),
        edge(ids, "a", "b", created_at=20),
        edge(ids, "b", "a"),
        edge(ids, "a", "b", "y"),
    )
    with store.transaction() as tx:
        assert [row.created_at for row in tx.edges(ids["a"], ids["b"], "x")] == [9, 3, 20]
        assert tx.edges(ids["a"], ids["c"], "x") == []


def test_a_dropped_edge_is_gone_and_no_other(store: Store, ids: Ids) -> None:
    put(store, edge(ids, "a", "b", created_at=1, valid_to=5), edge(ids, "a", "b", created_at=6))
    with store.transaction() as tx:
        tx.drop_edge(edge(ids, "a", "b", created_at=6))
        tx.drop_edge(edge(ids, "a", "b", created_at=7))
    assert [row.created_at for row in store.relations(None, EVERYTHING)] == [1]


def test_only_edges_that_are_valid_count(engine: Engine) -> None:
    store = engine(clock=lambda: NOW)
    ids = entities(store, "a", "b", "c")
    put(
        store,
        edge(ids, "a", "b", valid_to=NOW),
        edge(ids, "b", "c", valid_from=NOW),
        edge(ids, "c", "a", valid_from=NOW + 1),
    )
    assert ends(store.relations(None, Filter())) == ["bc"]
    assert ends(store.relations(None, Filter(as_of=NOW - 1))) == ["ab"]
    assert ends(store.relations(None, Filter(as_of=NOW + 1))) == ["bc", "ca"]
    assert ends(store.relations(None, Filter(all_versions=True))) == ["ab", "bc", "ca"]
    with store.transaction() as tx:
        tx.remember(changed_at=str(NOW + 1))
    assert ends(store.relations(None, Filter())) == ["bc", "ca"], "the present has moved on"
    store.close()


def test_both_ends_must_be_wanted(store: Store, ids: Ids) -> None:
    ids = ids | entities(store, "p", project="p") | entities(store, "u", trust="untrusted")
    put(store, edge(ids, "a", "b"), edge(ids, "a", "p"), edge(ids, "a", "u"))
    assert ends(store.relations(None, Filter())) == ["ab", "ap", "au"]
    assert ends(store.relations(None, Filter(projects=(None,)))) == ["ab", "au"]
    assert ends(store.relations(None, Filter(projects=(None, "p")))) == ["ab", "ap", "au"]
    assert ends(store.relations(None, Filter(projects=("p",)))) == []
    assert ends(store.relations(None, Filter(projects=()))) == ["ab", "ap", "au"]
    assert ends(store.relations(None, Filter(trusts=("trusted",)))) == ["ab", "ap"]
    assert ends(store.relations(None, Filter(trusts=()))) == ["ab", "ap", "au"]


def test_edges_go_with_their_ends_and_carry_present_names(store: Store, ids: Ids) -> None:
    put(store, edge(ids, "a", "b"), edge(ids, "b", "c"))
    with store.transaction() as tx:
        tx.amend(ids["c"], key="renamed")
    assert ends(store.relations(None, EVERYTHING)) == ["ab", "brenamed"]
    delete(store, "a")
    assert ends(store.relations(None, EVERYTHING)) == ["brenamed"]
