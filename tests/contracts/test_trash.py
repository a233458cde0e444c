"""The trash: what is kept, in which order it is listed, and what is dropped."""

from itertools import pairwise
from typing import Any

from plait.errors import advise
from plait.protocols import Store, Trashed
from plait.types.relations import Relation
from plait.writing import deleting, undoing
from tests.builders import EVERYTHING, delete, entry, is_sound, passages_of, vector, write


def trash(store: Store, *keys: str, batch: str = "b", at: int = 5, **fields: Any) -> None:
    """Move documents to the trash and delete them, in one transaction."""
    ids = [store.find(key, EVERYTHING)[0][0].id for key in keys]
    with store.transaction() as tx:
        rows = [Trashed(batch, at, document, tx.passages(document.id)) for document in tx.load(ids)]
        tx.trash([row._replace(**fields) for row in rows])
        tx.delete(ids)


def listed(store: Store) -> list[tuple[str, str | None]]:
    return [(row.batch, row.document.key) for row in store.trashed()]


def test_a_part_of_the_trash_can_be_read(store: Store) -> None:
    [ana] = write(store, entry("Ana", "Ana", kind="entity"))
    write(store, entry("tea", "tea", parent=ana.id), entry("x", "x"), entry("y", "y"))
    trash(store, "x", batch="first")
    trash(store, "tea", "Ana", batch="second")
    trash(store, "y", batch="")
    ids = {row.document.key: row.document.id for row in store.trashed()}
    with store.transaction() as tx:
        for asked, keys in (
            (["Ana"], {"Ana", "tea"}),
            (["tea"], {"Ana", "tea"}),
            (["x", "y"], {"x", "y"}),
            ([], set()),
        ):
            part = tx.trashed([ids[key] for key in asked])
            assert {row.document.key for row in part} == keys
            assert part == [row for row in store.trashed() if row in part]
            alone = tx.trashed([ids[key] for key in asked], related=False)
            assert alone == [row for row in store.trashed() if row.document.key in asked]
        assert tx.trashed() == store.trashed()


def test_a_version_is_kept_beside_its_document_and_found_by_it(store: Store) -> None:
    write(store, entry("k", "old", id="aaaaaaaaaaaaa"))
    [live] = store.load(["aaaaaaaaaaaaa"])
    with store.transaction() as tx:
        old = live._replace(id="bbbbbbbbbbbbb")
        tx.trash([Trashed("", 5, old, tx.passages(live.id), version_of=live.id)])
        [row] = tx.trashed([live.id])
        assert (row.version_of, row.document.text) == (live.id, "old")
    assert store.trashed() == [row]
    assert store.load([live.id]) == [live]


def test_the_trash_can_be_read_without_its_texts(store: Store) -> None:
    write(store, entry("k", "one ", "two", title="T"), entry("l", "three"))
    trash(store, "k", "l")
    bare = [row.without_texts for row in store.trashed()]
    assert store.trashed(texts=False) == bare
    assert {row.document.text for row in bare} == {""}
    assert {len(row.names) for row in bare} == {1, 2}
    with store.transaction() as tx:
        ids = [row.document.id for row in bare]
        assert tx.trashed(ids, texts=False) == tx.trashed(texts=False) == bare
        assert tx.trashed(ids) == store.trashed()


def test_a_name_of_metadata_is_not_taken_for_use(store: Store) -> None:
    [kept, purged] = write(store, entry("k", "k", metadata={"use": "none"}), entry("p", "p"))
    trash(store, "k", "p")
    with store.transaction() as tx:
        tx.forget([purged.id])
    assert [row.document.id for row in store.trashed()] == [kept.id]


def test_deletes_of_one_moment_are_ordered(store: Store) -> None:
    write(store, *[entry(key, key) for key in "abcdef"])
    for key in "abcdef":
        trash(store, key, batch=key, at=5)
    assert [row.document.key for row in store.trashed()] == [*"fedcba"]


def test_a_trashed_document_is_whole(store: Store) -> None:
    write(store, entry("k", "one ", "two", title="T", tags=("t",), metadata={"a": "b"}))
    [(before, _)] = store.find("k", EVERYTHING)
    whole, passages = store.load([before.id]), passages_of(store, "k")
    trash(store, "k")
    [row] = store.trashed()
    assert (row.batch, row.deleted_at, [row.document]) == ("b", 5, whole)
    assert list(row.passages) == [passage._replace(ref=0) for passage in passages]
    assert row.names == tuple(passage.id for passage in passages)
    assert store.stats().trash_count == 1
    with store.transaction() as tx:
        assert tx.trashed() == [row]


def test_a_document_comes_back_with_its_ids(store: Store) -> None:
    write(store, entry("k", "one ", "two"))
    passages = passages_of(store, "k")
    trash(store, "k")
    with store.transaction() as tx:
        [row] = tx.trashed()
        tx.write(entry("k")._replace(document=row.document, passages=row.passages))
        tx.forget([row.document.id])
    assert [p._replace(ref=0) for p in passages_of(store, "k")] == [
        p._replace(ref=0) for p in passages
    ]
    assert store.load([row.document.id]) == [row.document]
    assert store.trashed() == []
    assert is_sound(store)


def test_names_may_be_given(store: Store) -> None:
    write(store, entry("k", "one"))
    trash(store, "k", names=("x", "y"))
    assert store.trashed()[0].names == ("x", "y")


def test_the_latest_delete_is_listed_first(store: Store) -> None:
    write(store, *[entry(key, key, id=key * 13) for key in "abcd"])
    trash(store, "b", "a", batch="first", at=5)
    trash(store, "c", batch="second", at=7)
    trash(store, "d", batch="a third", at=7)
    assert listed(store) == [
        ("a third", "d"),
        ("second", "c"),
        ("first", "a"),
        ("first", "b"),
    ]


def test_places_follow_the_order_of_first_writing(store: Store) -> None:
    for key in "cab":
        write(store, entry(key, key))
    write(store, entry("c", "changed"))
    trash(store, "a", "b", "c")
    places = {row.document.key: row.place for row in store.trashed()}
    assert sorted("abc", key=lambda key: places[key]) == ["c", "a", "b"]


def test_the_same_document_is_kept_once(store: Store) -> None:
    write(store, entry("k", "old", id="aaaaaaaaaaaaa"))
    trash(store, "k", batch="first", at=5)
    write(store, entry("k", "new", id="aaaaaaaaaaaaa"))
    trash(store, "k", batch="second", at=6)
    assert [(row.batch, row.document.text) for row in store.trashed()] == [("second", "new")]


def test_documents_can_be_set_aside_forgotten_and_expired(store: Store) -> None:
    write(store, *[entry(key, key, id=key * 13) for key in "abcd"])
    for at, key in enumerate("abcd"):
        trash(store, key, batch=key, at=at)
    with store.transaction() as tx:
        tx.set_aside(["c" * 13, "unknown"])
        tx.forget(["b" * 13, "unknown"])
    assert listed(store) == [("d", "d"), ("", "c"), ("a", "a")]
    with store.transaction() as tx:
        tx.expire(2)
    assert listed(store) == [("d", "d"), ("", "c")]


# edges


def edges(store: Store) -> list[str]:
    return [
        f"{edge.source}-{edge.type}-{edge.target}" for edge in store.relations(None, EVERYTHING)
    ]


def connect(store: Store, *names: str) -> dict[str, str]:
    """Write entities and an edge from each to the next one."""
    write(store, *[entry(name, name, kind="entity") for name in names])
    ids = {name: store.find(name, EVERYTHING)[0][0].id for name in names}
    with store.transaction() as tx:
        for moment, (source, target) in enumerate(pairwise(names), start=1):
            edge = Relation(source, target, "x", None, moment)
            tx.put_edge(edge._replace(source_id=ids[source], target_id=ids[target]))
    return ids


def bring_back(store: Store) -> None:
    with store.transaction() as tx:
        for row in tx.trashed():
            tx.write(entry("k")._replace(document=row.document, passages=row.passages))
            tx.forget([row.document.id], edges=False)
        tx.restore_edges()


def test_edges_go_and_come_back_with_their_ends(store: Store) -> None:
    connect(store, "a", "b", "c")
    trash(store, "b")
    assert edges(store) == []
    with store.transaction() as tx:
        tx.restore_edges()
    assert edges(store) == [], "one end is missing"
    bring_back(store)
    assert edges(store) == ["a-x-b", "b-x-c"]
    bring_back(store)
    assert edges(store) == ["a-x-b", "b-x-c"], "each came back once"
    assert is_sound(store)


def test_edges_of_a_purged_end_do_not_come_back(store: Store) -> None:
    ids = connect(store, "a", "b", "c")
    trash(store, "b")
    with store.transaction() as tx:
        tx.forget([ids["a"]])
    bring_back(store)
    assert edges(store) == ["b-x-c"]


def test_edges_expire_with_the_trash(store: Store) -> None:
    connect(store, "a", "b")
    trash(store, "b", at=5)
    with store.transaction() as tx:
        tx.expire(6)
    write(store, entry("b", "b", kind="entity"))
    with store.transaction() as tx:
        tx.restore_edges()
    assert edges(store) == []


def test_an_edge_does_not_come_back_beside_a_new_one_that_has_no_end(store: Store) -> None:
    ids = connect(store, "a", "b")
    trash(store, "b")
    with store.transaction() as tx:
        [row] = tx.trashed()
        tx.write(entry("k")._replace(document=row.document, passages=row.passages))
        tx.put_edge(Relation("a", "b", "x", "new", 99, None, None, ids["a"], ids["b"]))
        tx.restore_edges()
    assert [edge.context for edge in store.relations(None, EVERYTHING)] == ["new"]


def test_deleting_without_the_trash_leaves_nothing(store: Store) -> None:
    write(store, entry("k", "text"))
    delete(store, "k")
    assert store.trashed() == []
    assert store.stats().trash_count == 0


def test_many_documents_are_deleted_as_one_and_come_back_as_one(store: Store) -> None:
    count = deleting.SLICE_DOCUMENTS * 2 + 3
    write(store, entry("stays", "x"), *[entry(f"k{n}", "a ", f"b{n}") for n in range(count)])
    ids = [document.id for document in store.scan(EVERYTHING) if document.key != "stays"]
    deleted = deleting.delete(store, [*ids, "nosuchdocumen", *ids])
    assert (sorted(deleted.ids), deleted.chunks_deleted) == (sorted(ids), 2 * count)
    assert {row.batch for row in store.trashed()} == {store.trashed()[0].batch}
    assert [row.id for row in store.scan(EVERYTHING)] == [store.find("stays", EVERYTHING)[0][0].id]
    assert len(undoing.undo(store)) == count
    assert store.trashed() == []
    assert is_sound(store)


def test_a_purge_empties_trash_and_cache_and_is_marked_until_it_is_tidied(store: Store) -> None:
    count = deleting.SLICE_DOCUMENTS + 2
    [ana] = write(store, entry("Ana", "Ana", kind="entity"))
    write(store, *[entry(f"k{n}", f"b{n}", parent=ana.id) for n in range(count)])
    deleting.delete(store, [store.find("k1", EVERYTHING)[0][0].id])
    with store.transaction() as tx:
        tx.cache({"name": vector(1, 0)}, (), 9)
        tx.remember(unscrubbed="mark")
    assert store.state().unscrubbed == "mark"
    deleted = deleting.delete(store, [ana.id], purge=True)
    assert len(set(deleted.ids)) == len(deleted.ids) == count + 1
    assert store.state().unscrubbed is None
    assert (store.trashed(), store.scan(EVERYTHING), store.cached(["name"])) == ([], [], {})
    assert is_sound(store)


def test_doctor_reports_a_purge_that_was_not_tidied_and_finishes_it(store: Store) -> None:
    write(store, entry("k", "text"))
    assert deleting.check_purges(store, fix=False) == []
    with store.transaction() as tx:
        tx.remember(unscrubbed="mark")
    [row] = deleting.check_purges(store, fix=False)
    assert (row.check, row.level, row.advice) == ("purge", "warning", advise("doctor_fix"))
    [row] = deleting.check_purges(store, fix=True)
    assert (row.level, row.fixed) == ("ok", True)
    assert deleting.check_purges(store, fix=False) == []


def test_what_is_not_trusted_is_listed_apart_the_latest_first(store: Store) -> None:
    claims = {"trust": "trusted", "document": '{"trust": "trusted"}'}
    for number, trust in enumerate(["untrusted", "trusted", "quarantined", "untrusted"]):
        key = f"{number}"
        write(store, entry(key, "one ", "two", trust=trust, metadata=claims))
        trash(store, key, at=number)

    def keys(passages: int) -> list[str | None]:
        return [row.document.key for row in store.trashed(distrusted=passages)]

    assert keys(100) == ["3", "2", "0"]
    assert keys(3) == ["3", "2"]
    assert keys(2) == ["3"]
    assert keys(0) == []
    assert [row.document.text for row in store.trashed(distrusted=1)] == ["one two"]
