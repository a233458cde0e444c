"""Vectors: the nearest passages, spaces that are filled and swapped, and the cache."""

from typing import Any

import pytest

from plait.errors import EmbedderError
from plait.protocols import Store, Unembedded, Vector
from plait.text import parse
from plait.types import Space
from tests.builders import (
    EVERYTHING,
    NOW,
    SPACE,
    Engine,
    begin,
    by_vector,
    cosines,
    delete,
    document,
    entry,
    fill,
    is_sound,
    keys_of,
    passages_of,
    refs_of,
    swap,
    vector,
    write,
)

OTHER = Space("test", "other axes", 4)
X, Y, Z = vector(1, 0, 0, 0), vector(0, 1, 0, 0), vector(0, 0, 1, 0)


def pending(store: Store, space: Space = SPACE, *, building: bool = False) -> list[Unembedded]:
    return store.pending(space, 100, building=building)


# vector


def test_vector_hits_come_nearest_first_and_only_on_this_side(store: Store) -> None:
    write(
        store,
        entry("far", "a", vectors=[vector(1, 1, 1, 0)]),
        entry("same", "b", vectors=[vector(5, 0, 0, 0)]),
        entry("square", "c", vectors=[Y]),
        entry("behind", "d", vectors=[vector(-1, 0, 0, 0)]),
        entry("near", "e", vectors=[vector(1, 0.1, 0, 0)]),
    )
    nearest = store.vector(X, SPACE, 10, EVERYTHING)
    assert by_vector(store, 1, 0, 0, 0) == ["same", "near", "far"]
    assert [cosine for _, cosine in nearest.hits] == pytest.approx([1.0, 0.995, 0.577], abs=0.01)
    assert nearest.cosines == dict(nearest.hits)


def test_half_as_near_is_near_enough_to_be_the_same_text_on_every_engine(store: Store) -> None:
    """It is the cosine of many short texts, and engines differ in its last digits."""
    write(
        store,
        entry("a", "a", vectors=[vector(1, 0, 1, 0)]),
        entry("b", "b", vectors=[vector(1, 0, 0, 1)]),
        entry("other", "c", vectors=[vector(0, 0, 1, 1)]),
    )
    near = store.vector(vector(1, 1, 0, 0), SPACE, 5, EVERYTHING, latest=True).hits
    assert [cosine for _, cosine in near if cosine > 0.1] == pytest.approx([0.5, 0.5], abs=1e-6)


def test_hits_of_both_branches_are_read_together(store: Store) -> None:
    write(store, entry("a", "apple", vectors=[vector(1, 0, 0, 0)]), entry("b", "banana"))
    near = store.vector(vector(1, 0, 0, 0), SPACE, 5, EVERYTHING).hits
    words = store.keyword(parse("banana"), 5, EVERYTHING)
    refs = [ref for ref, _ in [*near, *words]]
    assert [type(ref) for ref in refs] == [int, int]
    assert store.turns(refs) == {}
    assert list(store.hydrate(refs)) == refs


def test_cosines_are_given_for_any_passage_that_has_a_vector(store: Store) -> None:
    write(store, entry("k", "a ", "b ", "c", vectors=[X, None, vector(-1, 0, 0, 0)]))
    refs = [passage.ref for passage in passages_of(store, "k")]
    assert cosines(store, X, [*refs, 99_999]) == {
        refs[0]: pytest.approx(1.0),
        refs[2]: pytest.approx(-1.0),
    }


def test_cosines_asked_for_come_beside_those_of_the_hits(store: Store) -> None:
    write(store, *[entry(f"{n}", "x", vectors=[vector(1, n, 0, 0)]) for n in range(4)])
    first, second, _, last = refs_of(store, "0", "1", "2", "3")
    nearest = store.vector(X, SPACE, 2, EVERYTHING, also=[last, first])
    assert [ref for ref, _ in nearest.hits] == [first, second]
    assert nearest.cosines.keys() == {first, second, last}
    assert nearest.cosines[last] == pytest.approx(0.316, abs=0.01)


def test_vectors_of_another_space_are_never_compared(store: Store) -> None:
    write(store, entry("k", "a", vectors=[X]))
    [ref] = refs_of(store, "k")
    assert store.vector(X, OTHER, 10, EVERYTHING, also=[ref])[:2] == ([], {})


def test_a_memory_without_vectors_answers_nothing(store: Store) -> None:
    write(store, entry("k", "a"))
    assert store.vector(X, SPACE, 10, EVERYTHING)[:2] == ([], {})
    assert store.state().space is None


@pytest.mark.parametrize(
    "bad",
    [
        vector(1, 0),
        vector(0, 0, 0, 0),
        vector(float("nan"), 0, 0, 1),
        vector(float("inf"), 0, 0, 1),
    ],
    ids=["short", "zero", "nan", "inf"],
)
def test_a_vector_without_a_direction_is_refused_everywhere(store: Store, bad: object) -> None:
    write(store, entry("k", "a", vectors=[X]), entry("waits", "b"))
    waiting = pending(store)[0].ref
    for act in (
        lambda: write(store, entry("new", "b", vectors=[bad])),  # type: ignore[list-item]
        lambda: fill(store, [(waiting, bad)]),  # type: ignore[list-item]
        lambda: store.vector(bad, SPACE, 10, EVERYTHING),  # type: ignore[arg-type]
    ):
        with pytest.raises(EmbedderError):
            act()
    assert store.stats().embedded_count == 1
    assert is_sound(store)


# embedded


def test_vectors_that_survive_a_rewrite_are_known_beforehand(store: Store) -> None:
    assert store.embedded(document("k"), entry("k", "one").passages) == frozenset()
    row = entry("k", "one ", "two ", "three ", "four", vectors=[X, None, Z, None], title="T")
    write(store, row._replace(declined=frozenset({3})))
    again = entry("k", "three ", "new", "one ", "two ", "four", title="T")
    assert store.embedded(again.document, again.passages) == frozenset({0, 2})
    retitled = again.document._replace(title="U")
    assert store.embedded(retitled, again.passages) == frozenset()
    assert store.embedded(document("other"), again.passages) == frozenset()


# pending, begin, fill, swap


def test_the_first_vectors_make_all_older_passages_wait(store: Store) -> None:
    write(store, entry("old", "a ", "b"))
    write(store, entry("new", "c", vectors=[X]))
    state = store.state()
    assert (state.space, state.pending, state.building) == (SPACE, 2, None)
    assert [row.text for row in pending(store)] == ["a ", "b"]
    assert is_sound(store)


def test_a_space_of_unknown_size_cannot_be_begun(store: Store) -> None:
    with pytest.raises(EmbedderError):
        begin(store, Space("test", "unknown", 0))
    assert store.state().space is None


def test_filling_gives_vectors_and_marks_what_has_none(store: Store) -> None:
    write(store, entry("k", "a ", "b ", "c", heading="H", title="T"))
    assert begin(store)
    rows = store.pending(SPACE, 2, building=False)
    assert [row[1:] for row in rows] == [("T", "H", "a "), ("T", "H", "b ")]
    assert fill(store, [(rows[0].ref, X), (rows[1].ref, None), (424_242, Y)]) == 1
    assert [row.text for row in pending(store)] == ["c"]
    stats = store.stats()
    assert (stats.embedded_count, stats.pending_count, stats.chunk_count) == (1, 1, 3)
    assert is_sound(store)


@pytest.mark.parametrize("made", [X, None], ids=["embedded", "declined"])
@pytest.mark.parametrize(
    ("fields", "stays"),
    [({"title": "New"}, False), ({"text": "other"}, False), ({"tags": ("t",)}, True), ({}, True)],
)
def test_a_vector_of_what_a_passage_no_longer_says_is_not_written(
    store: Store, fields: dict[str, Any], stays: bool, made: Vector | None
) -> None:
    [done] = write(store, entry("k", "text", id="aaaaaaaaaaaaa", title="Old"))
    begin(store)
    [row] = pending(store)
    now = {"text": "text", "title": "Old", **fields}
    write(store, entry("k", now.pop("text"), id=done.id, **now))
    with store.transaction() as tx:
        assert tx.fill(SPACE, [(row, made)], building=False) == (stays and made is not None)
    assert (pending(store) == []) is stays
    assert is_sound(store)


def test_what_the_embedder_declined_is_not_pending(store: Store) -> None:
    row = entry("k", "a ", "b", vectors=[X, None])
    [done] = write(store, row._replace(declined=frozenset({1})))
    assert (done.pending, pending(store), store.state().pending) == (0, [], 0)
    assert store.stats().embedded_count == 1
    assert is_sound(store)


def test_filling_a_space_that_was_never_begun_does_nothing(store: Store) -> None:
    write(store, entry("k", "a"))
    [ref] = refs_of(store, "k")
    assert fill(store, [(ref, X)]) == 0
    assert pending(store) == pending(store, building=True) == []
    assert not swap(store)


def test_a_new_space_answers_only_after_the_swap(store: Store) -> None:
    write(store, entry("k", "a ", "b", vectors=[X, Y]))
    assert not begin(store, OTHER)
    assert store.state().building == OTHER
    assert pending(store, OTHER) == [], "not the space that answers"
    rows = pending(store, OTHER, building=True)
    assert fill(store, [(rows[0].ref, Y)], OTHER) == 0
    assert fill(store, [(rows[0].ref, Y)], OTHER, building=True) == 1
    assert not swap(store, OTHER), "one passage is still pending"
    assert (store.state().space, by_vector(store, 1, 0, 0, 0)) == (SPACE, ["k"])
    assert is_sound(store)
    assert [row.ref for row in pending(store, OTHER, building=True)] == [rows[1].ref]
    fill(store, [(rows[1].ref, X)], OTHER, building=True)
    assert swap(store, OTHER)
    state = store.state()
    assert (state.space, state.building) == (OTHER, None)
    assert [ref for ref, _ in store.vector(X, OTHER, 10, EVERYTHING).hits] == [rows[1].ref]
    assert by_vector(store, 1, 0, 0, 0) == []
    assert is_sound(store)


def test_what_is_written_while_a_space_is_filled_is_in_it_after_the_swap(store: Store) -> None:
    write(store, entry("k", "a ", "b", vectors=[X, Y]), entry("doomed", "c", vectors=[Z]))
    begin(store, OTHER)
    rows = pending(store, OTHER, building=True)
    fill(store, [(row.ref, X) for row in rows], OTHER, building=True)
    write(store, entry("k", "a ", "new", vectors=[None, Y], space=OTHER))
    write(store, entry("late", "d", vectors=[X]))
    delete(store, "doomed")
    assert not swap(store, OTHER), "a passage was written that it does not have"
    more = pending(store, OTHER, building=True)
    assert [row.text for row in more] == ["d"]
    fill(store, [(more[0].ref, Y)], OTHER, building=True)
    assert swap(store, OTHER)
    assert len(store.vector(vector(1, 1, 0, 0), OTHER, 10, EVERYTHING).hits) == 3
    assert is_sound(store)


def test_a_passage_that_waits_again_is_not_passed_over(store: Store) -> None:
    """No mark on the order of refs: whatever lacks a vector is listed, however old it is."""
    write(store, *[entry(f"{n}", f"text {n}", title="T", vectors=[X]) for n in range(6)])
    begin(store, OTHER)
    rows = pending(store, OTHER, building=True)
    fill(store, [(row.ref, X) for row in rows[:4]], OTHER, building=True)
    write(store, entry("1", "text 1", title="U", vectors=[Y]))
    waiting = pending(store, OTHER, building=True)
    assert {row.ref for row in waiting} == {rows[1].ref, rows[4].ref, rows[5].ref}
    fill(store, [(rows[5].ref, X), (rows[4].ref, X)], OTHER, building=True)
    assert not swap(store, OTHER)
    fill(store, [(rows[1].ref, X)], OTHER, building=True)
    assert swap(store, OTHER)
    assert is_sound(store)


def test_beginning_afresh_builds_the_same_space_beside_the_current_one(store: Store) -> None:
    write(store, entry("k", "a", vectors=[X]))
    assert begin(store)
    assert not begin(store, afresh=True, sample=Z)
    state = store.state()
    assert (state.space, state.building, state.sample) == (SPACE, SPACE, None)
    assert state.sample_of(SPACE, building=True) == Z
    [row] = pending(store, building=True)
    write(store, entry("late", "b", vectors=[Y]))
    assert sorted(by_vector(store, 1, 1, 0, 0)) == ["k", "late"]
    fill(store, [(row.ref, Y)], building=True)
    assert by_vector(store, 1, 0, 0, 0) == ["k"]
    fill(store, [(waiting.ref, X) for waiting in pending(store, building=True)], building=True)
    assert swap(store)
    assert store.state().sample == Z
    assert is_sound(store)


def test_an_unfinished_space_is_taken_up_again_unless_it_must_not(store: Store) -> None:
    write(store, entry("k", "a ", "b", vectors=[X, Y]))
    begin(store, OTHER, sample=X)
    first, _ = pending(store, OTHER, building=True)
    fill(store, [(first.ref, X)], OTHER, building=True)
    begin(store, OTHER, sample=Y)
    assert store.state().building_sample == X
    assert len(pending(store, OTHER, building=True)) == 1
    begin(store, OTHER, sample=Y, resume=False)
    assert store.state().building_sample == Y
    assert len(pending(store, OTHER, building=True)) == 2
    assert is_sound(store)


def test_a_space_that_was_given_up_is_dropped_when_the_current_one_is_confirmed(
    store: Store,
) -> None:
    write(store, entry("k", "a", vectors=[X]))
    begin(store, OTHER)
    assert begin(store)
    assert swap(store)
    assert store.state().building is None
    assert pending(store, OTHER, building=True) == []


def test_one_transaction_may_write_begin_fill_and_swap(store: Store) -> None:
    [first] = write(store, entry("a", "one", vectors=[X]))
    with store.transaction() as tx:
        tx.write(entry("b", "two", id="bbbbbbbbbbbbb", vectors=[Y]))
        tx.begin(OTHER)
        tx.write(entry("c", "three", id="ccccccccccccc", vectors=[Z], space=OTHER))
        passages = [tx.passages(id_)[0] for id_ in (first.id, "bbbbbbbbbbbbb")]
        rows = [Unembedded(passage.ref, "", "", passage.text) for passage in passages]
        tx.fill(OTHER, [(row, X) for row in rows], building=True)
        assert tx.swap(OTHER)
    assert store.state().space == OTHER
    assert store.stats().embedded_count == 3
    assert is_sound(store)


# cache


def test_cached_vectors_come_back_by_name(store: Store) -> None:
    with store.transaction() as tx:
        tx.cache({"a": X, "b": Y}, (), 10)
    assert store.cached(["b", "a", "unknown"]) == {"a": X, "b": Y}
    with store.transaction() as tx:
        tx.cache({"a": Z}, (), 10)
    assert store.cached(["a"]) == {"a": Z}
    with store.transaction() as tx:
        tx.clear_cache()
    assert store.cached(["a", "b"]) == {}


def test_the_cache_keeps_what_was_used_last(engine: Engine) -> None:
    moments = iter(range(NOW, NOW + 1000))
    store = engine(clock=lambda: next(moments))
    for number in range(100):
        with store.transaction() as tx:
            tx.cache({f"{number}": X}, ["0", "unknown"], 20)
    kept = store.cached([f"{number}" for number in range(100)])
    assert 20 <= len(kept) <= 21, "a few more than the limit may stay for a while"
    assert {"0", "99", "85"} <= kept.keys()
    store.close()


def test_pending_passages_are_those_of_one_project_if_asked(store):
    write(store, entry("theirs", "a ", "b ", "c"), entry("ours", "d", project="p"))
    begin(store)
    assert len(store.pending(SPACE, 10, building=False)) == 4
    [waiting] = store.pending(SPACE, 1, building=False, project="p")
    assert keys_of(store, [waiting.ref]) == ["ours"]
    assert store.pending(SPACE, 1, building=False, project="q") == []


# what chance finds


def test_chance_is_sampled_from_the_nearest_passages_of_foreign_questions(store: Store) -> None:
    write(store, entry("k", "a ", "b", vectors=[X, vector(1, 1, 0, 0)]))
    assert (store.state().passages, store.state().chance) == (2, None)
    # Their nearest passages have cosines of 1, 0.71, 0, 0.71 and 0.
    store.sample_chance(SPACE, [X, Y, Z, vector(0, 1, 0, 0), vector(0, 0, 0, 1)])
    chance = store.state().chance
    assert chance is not None and chance.passages == 2
    assert chance.cosine == pytest.approx(0.707, abs=0.01)
    assert chance.spread == pytest.approx(0.707 / 1.349, abs=0.01)


def test_no_vectors_of_that_space_no_sample(store: Store) -> None:
    write(store, entry("k", "a"))
    store.sample_chance(SPACE, [X])
    assert store.state().chance is None


def test_a_sample_ends_with_the_vectors_it_was_taken_from(store: Store) -> None:
    write(store, entry("k", "a", vectors=[X]))
    store.sample_chance(SPACE, [X, Y])
    assert store.state().chance is not None
    begin(store, OTHER)
    fill(store, [(ref, Y) for ref in refs_of(store, "k")], OTHER, building=True)
    assert swap(store, OTHER)
    assert store.state().chance is None


def test_a_sample_can_be_dropped(store: Store) -> None:
    write(store, entry("k", "a", vectors=[X]))
    store.sample_chance(SPACE, [X, Y])
    with store.transaction() as transaction:
        transaction.remember(chance=None)
    assert store.state().chance is None


def test_a_search_tells_how_many_passages_its_filter_selects(store: Store) -> None:
    write(store, entry("k", "a ", "b", vectors=[X, Y]), entry("other", "c", vectors=[Z]))
    one = EVERYTHING._replace(keys=("k",))
    assert store.vector(X, SPACE, 10, one).among == 2
    assert store.vector(X, SPACE, 10, EVERYTHING).among in (None, 3)
