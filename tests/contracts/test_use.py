"""Use: how often passages were read, on how many days, and with which others."""

from plait.protocols import Store, Use
from plait.times import DAY_MS
from plait.types import Filter, Ref
from plait.types.relations import Relation
from plait.types.reports import DocumentUsage
from tests.builders import (
    EVERYTHING,
    NOW,
    Engine,
    delete,
    entry,
    passages_of,
    refs_of,
    write,
)


def touch(store: Store, *answers: list[Ref]) -> None:
    with store.transaction() as tx:
        tx.touch(answers)


def uses(store: Store, refs: list[Ref]) -> dict[Ref, Use]:
    rows = store.hydrate(refs, ranking=True)
    return {ref: row.use for ref, row in rows.items() if row.use is not None}


def test_use_is_counted_alone_and_together(store: Store) -> None:
    write(store, *[entry(key, key) for key in "abc"])
    a, b, c = refs_of(store, *"abc")
    assert uses(store, [a, b, c]) == {}
    touch(store, [a, b], [a], [a, a])
    read = uses(store, [a, b, c])
    assert {ref: use.reads for ref, use in read.items()} == {a: 3, b: 1}
    assert read[a].days == 1
    assert {ref: times for ref, (times, _) in read[a].together.items()} == {b: 1}
    assert {ref: times for ref, (times, _) in read[b].together.items()} == {a: 1}
    assert uses(store, [c]) == {}
    touch(store, [10_000])  # deleted in the meantime
    assert uses(store, [a, b, c]) == read


def test_days_are_counted_and_a_clock_set_back_counts_nothing(engine: Engine) -> None:
    moments = [NOW]
    store = engine(clock=lambda: moments[-1])
    write(store, entry("a", "a"))
    [ref] = refs_of(store, "a")
    for moment in (NOW, NOW + DAY_MS, NOW - DAY_MS, NOW + DAY_MS + 1):
        moments.append(moment)
        touch(store, [ref])
    use = uses(store, [ref])[ref]
    assert (use.reads, use.days, use.last_read) == (4, 2, NOW + DAY_MS + 1)
    store.close()


def test_untrusted_passages_earn_nothing(store: Store) -> None:
    write(store, entry("a", "a"), entry("b", "b", trust="untrusted"))
    refs = refs_of(store, "a", "b")
    touch(store, refs)
    read = uses(store, refs)
    assert list(read) == [refs[0]]
    assert dict(read[refs[0]].together) == {}


def test_use_goes_with_the_passage(store: Store) -> None:
    write(store, entry("a", "a"), entry("b", "b"))
    refs = refs_of(store, "a", "b")
    touch(store, refs)
    delete(store, "a")
    read = uses(store, refs)
    assert list(read) == [refs[1]]
    assert dict(read[refs[1]].together) == {}


def test_a_changed_text_loses_its_use_unless_told_to_keep_it(store: Store) -> None:
    write(store, entry("a", "a ", "tail"), entry("b", "b"))
    refs = refs_of(store, "a", "b")
    touch(store, refs)
    before = uses(store, refs)[refs[0]]
    write(store, entry("a", "changed ", "tail"), keep_use=True)
    again = refs_of(store, "a", "b")
    assert again[0] != refs[0]
    kept = uses(store, again)
    assert kept[again[0]]._replace(together={}) == before._replace(together={})
    assert dict(kept[again[0]].together) == {refs[1]: before.together[refs[1]]}
    write(store, entry("a", "changed again ", "tail"))
    assert refs_of(store, "a")[0] not in uses(store, refs_of(store, "a", "b"))


def test_an_unchanged_text_keeps_its_use(store: Store) -> None:
    write(store, entry("a", "a ", "tail"))
    [ref] = refs_of(store, "a")
    touch(store, [ref])
    for keep_use in (True, False):
        write(store, entry("a", "a ", "other tail"), keep_use=keep_use)
        assert uses(store, [ref])[ref].reads == 1
        write(store, entry("a", "a ", "tail"), keep_use=keep_use)
        assert uses(store, [ref])[ref].reads == 1


def test_the_current_relations_of_an_entity_count_for_its_use(engine: Engine) -> None:
    store = engine(clock=lambda: NOW)
    write(store, *[entry(name, name, kind="entity") for name in "abc"])
    ids = {name: store.find(name, EVERYTHING)[0][0].id for name in "abc"}
    with store.transaction() as tx:
        for source, target, type_, end in (
            ("a", "b", "x", None),
            ("c", "a", "y", NOW + 1),
            ("a", "c", "z", NOW),
        ):
            edge = Relation(source, target, type_, None, 1, None, end, ids[source], ids[target])
            tx.put_edge(edge)
    [ref] = [passage.ref for passage in passages_of(store, "a")]
    touch(store, [ref])
    assert uses(store, [ref])[ref].degree == 2
    store.close()


def test_the_usage_of_documents_sums_up_that_of_their_passages(engine: Engine) -> None:
    moments = [NOW]
    store = engine(clock=lambda: moments[-1])
    write(store, entry("a", "één ", "tail"), entry("b", "b", kind="note"), entry("c", "c"))
    first, second, *_ = (passage.ref for key in "ab" for passage in passages_of(store, key))
    touch(store, [first, second], [first])
    moments.append(NOW + 5)
    touch(store, [second])
    by_key = {row.key: row.id for row in store.scan(EVERYTHING)}
    usage = store.usage(EVERYTHING)
    assert usage == {
        by_key["a"]: DocumentUsage(len("één tail".encode()), 4, NOW + 5),
        by_key["b"]: DocumentUsage(1),
        by_key["c"]: DocumentUsage(1),
    }
    assert store.usage(Filter(keys=("c",))) == {by_key["c"]: DocumentUsage(1)}
    with store.transaction() as tx:
        tx.judge([passage.ref for passage in passages_of(store, "c")], good=1)
    assert store.usage(Filter(keys=("c",))) == {by_key["c"]: DocumentUsage(1)}
    store.close()
