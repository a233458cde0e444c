"""What every engine promises (`plait.protocols.Store`), in the order of the protocol."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import apsw
import pytest

from plait.errors import EmbedderError, NotFound, PlaitError, StoreError, UsageError
from plait.protocols import Entry, Store
from plait.stores import open_store
from plait.text import parse
from plait.types import Document, Filter, Group, Passage, Query, Relation, Space, Term
from tests.builders import NOW, SPACE, document, entry, vector

OTHER = Space("test", "other axes", 4)
Fields = dict[str, Any]
EVERYTHING = Filter(trusts=("trusted", "untrusted", "quarantined"), all_versions=True)
X, Y, Z = vector(1, 0, 0, 0), vector(0, 1, 0, 0), vector(0, 0, 1, 0)

ENGINES: dict[str, Callable[[Path], str]] = {
    "sqlite file": lambda folder: str(folder / "memory.db"),
    "sqlite in memory": lambda _: ":memory:",
}


@pytest.fixture(params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(ENGINES[request.param](tmp_path), timeout=5.0)
    yield opened
    opened.close()


def found(store: Store, words: str, limit: int = 10, where: Filter = EVERYTHING) -> list[str]:
    """Keys of the documents that the keyword branch finds, best first."""
    refs = [ref for ref, _ in store.keyword(parse(words), limit, where)]
    rows = store.passages(refs)
    return [rows[ref][1].doc_id for ref in refs]


def near(store: Store, *numbers: float, limit: int = 10) -> list[str]:
    """Keys of the documents that the vector branch finds, nearest first."""
    refs = [ref for ref, _ in store.vector(vector(*numbers), SPACE, limit, EVERYTHING)]
    rows = store.passages(refs)
    return [rows[ref][1].doc_id for ref in refs]


def passages(store: Store, key: str) -> list[Passage]:
    [(stored, _)] = store.find(key, EVERYTHING)
    return store.neighbours(stored.id, 0, 1_000)


def is_sound(store: Store) -> bool:
    return all(finding.level != "error" for finding in store.check())


# put, load


def test_documents_come_back_whole_and_in_the_order_asked_for(store: Store) -> None:
    texts = {"a": ("First. ", "Second."), "b": ("Alone",), "c": ("naïve 日本語 🦊\n", "\tend \n")}
    written = store.put([entry(key, *pieces) for key, pieces in texts.items()])
    assert [done.chunks for done in written] == [2, 1, 2]
    ids = [done.id for done in reversed(written)]
    assert [(d.key, d.text) for d in store.load([*ids, "unknown"])] == [
        ("c", "naïve 日本語 🦊\n\tend \n"),
        ("b", "Alone"),
        ("a", "First. Second."),
    ]


def test_every_field_of_a_document_survives(store: Store) -> None:
    full = document(
        "k",
        "text",
        id="abcdefghijklm",
        kind="file",
        title="Tïtle",
        path="/p",
        source="/s",
        project="proj",
        memory_type="semantic",
        type="decision",
        tags=("one", "two"),
        metadata={"author": "Ana"},
        summary="short",
        origin="web",
        trust="untrusted",
        session="s1",
        parent="par",
        topic="top",
        supersedes="old",
        importance=0.25,
        pinned=True,
        created_at=1,
        updated_at=2,
        event_at=3,
        valid_from=4,
        valid_to=5,
        size=6,
        mtime=7,
        sha256="8",
        indexed_at=9,
        chunk_count=1,
    )
    store.put([entry("k", "text")._replace(document=full)])
    assert store.load(["abcdefghijklm"]) == [full]
    assert all(
        getattr(full, name) != default for name, default in Document._field_defaults.items()
    ), "a field at its default proves nothing"


def test_text_before_the_first_passage_is_kept(store: Store) -> None:
    front = "---\ntitle: x\n---\n"
    one = entry("k", "body")
    [done] = store.put([one._replace(document=one.document._replace(text=front + "body"))])
    assert store.load([done.id])[0].text == front + "body"


def test_text_without_any_passage_is_kept(store: Store) -> None:
    [done] = store.put([entry("k")._replace(document=document("k", "---\na: b\n---\n"))])
    assert (done.chunks, store.load([done.id])[0].text) == (0, "---\na: b\n---\n")


def test_the_same_key_replaces_the_document_and_keeps_its_id_and_birthday(store: Store) -> None:
    [first] = store.put([entry("k", "about apples", created_at=1)])
    [second] = store.put([entry("k", "about pears", created_at=2)])
    assert (first.replaced, second.replaced, second.id) == (False, True, first.id)
    assert (found(store, "apples"), found(store, "pears")) == ([], ["k"])
    assert store.load([first.id])[0].created_at == 1
    assert store.stats().doc_count == 1


@pytest.mark.parametrize("fields", [{"project": "p"}, {"source": "/s"}])
def test_the_same_key_elsewhere_is_another_document(store: Store, fields: Fields) -> None:
    store.put([entry("k", "one"), entry("k", "two", **fields)])
    assert store.stats().doc_count == 2


def test_the_same_id_replaces_the_document_under_a_new_key(store: Store) -> None:
    store.put([entry("old", "text", id="aaaaaaaaaaaaa")])
    store.put([entry("new", "text", id="aaaaaaaaaaaaa")])
    assert [d.key for d in store.scan(EVERYTHING)] == ["new"]


def a_file(source: str, key: str, text: str = "apple", **fields: Any) -> Entry:
    return entry(key, text, kind="file", source=source, path=f"{source}/{key}", **fields)


@pytest.mark.parametrize("project", [None, "p"])
def test_a_file_read_again_as_part_of_another_folder_is_the_same_document(
    store: Store, project: str | None
) -> None:
    [alone] = store.put([a_file("/notes/sub", "a.md")])
    again = a_file("/notes", "sub/a.md", project=project)
    known, _ = store.known(again.document)
    assert known is not None
    assert known.id == alone.id
    [part] = store.put([again])
    assert (part.id, part.replaced) == (alone.id, True)
    [kept] = store.scan(EVERYTHING)
    assert (kept.source, kept.key, kept.project) == ("/notes", "sub/a.md", project)
    assert is_sound(store)


def test_of_two_projects_that_read_a_file_its_own_comes_first(store: Store) -> None:
    store.put([a_file("/n", "a.md", id="aaaaaaaaaaaaa", project="p")])
    store.put([a_file("/elsewhere", "a.md", id="bbbbbbbbbbbbb", project="q")])
    moved = entry("a.md", "apple", kind="file", source="/elsewhere", path="/n/a.md", project="q")
    store.put([moved])  # by its name: the path of the other one
    for project in ("p", "q"):
        probe = document("x", kind="file", source="/", path="/n/a.md", project=project)
        known, _ = store.known(probe)
        assert known is not None
        assert known.project == project


@pytest.mark.parametrize("fields", [{"kind": "note"}, {"path": None}, {"path": "/notes/b.md"}])
def test_only_a_file_is_known_by_its_path(store: Store, fields: Fields) -> None:
    place: Fields = {"kind": "file", "source": "/notes", "path": "/notes/a.md"}
    store.put([entry("a.md", "one", **place)])
    store.put([entry("b.md", "two", **{**place, **fields})])
    assert store.stats().doc_count == 2


def test_a_deleted_file_whose_path_was_read_again_stays_in_the_trash(store: Store) -> None:
    [alone] = store.put([a_file("/notes/sub", "a.md")])
    store.delete([alone.id])
    store.put([a_file("/notes", "sub/a.md")])
    assert store.restore() == []
    assert store.stats().doc_count == 1


def test_entries_are_written_all_or_none(store: Store) -> None:
    store.put([entry("kept", "kept", vectors=[X])])
    with pytest.raises(EmbedderError):
        store.put([entry("a", "apple"), entry("b", "banana", vectors=[vector(1, 2)])])
    assert found(store, "apple banana kept") == ["kept"]
    assert is_sound(store)


def test_unchanged_passages_keep_id_ref_and_vector(store: Store) -> None:
    store.put([entry("k", "one ", "two ", "three", vectors=[X, Y, Z])])
    before = passages(store, "k")
    [done] = store.put([entry("k", "zero ", "one ", "2 ", "three")])
    after = passages(store, "k")
    same = {passage.text: (passage.id, passage.ref) for passage in before}
    assert [same.get(passage.text) == (passage.id, passage.ref) for passage in after] == [
        False,
        True,
        False,
        True,
    ]
    assert [passage.ordinal for passage in after] == [0, 1, 2, 3]
    assert [passage.start for passage in after] == [0, 5, 9, 11]
    refs = [passage.ref for passage in after]
    assert store.cosines(X, SPACE, refs) == {refs[1]: pytest.approx(1.0), refs[3]: 0.0}
    assert done.pending == 2
    assert is_sound(store)


def test_a_passage_under_another_heading_is_another_passage(store: Store) -> None:
    store.put([entry("k", "text", heading="A")])
    [before] = passages(store, "k")
    store.put([entry("k", "text", heading="B")])
    [after] = passages(store, "k")
    assert (before.heading, after.heading) == ("A", "B")
    assert before.id != after.id


def test_passages_that_say_the_same_are_each_kept_once(store: Store) -> None:
    store.put([entry("k", "same ", "same ", "same ")])
    before = {passage.ref for passage in passages(store, "k")}
    store.put([entry("k", "same ", "same ")])
    after = {passage.ref for passage in passages(store, "k")}
    assert len(after) == 2
    assert after < before


def test_a_ref_is_never_used_again(store: Store) -> None:
    [done] = store.put([entry("a", "one")])
    [before] = passages(store, "a")
    store.delete([done.id], purge=True)
    store.put([entry("b", "two")])
    [after] = passages(store, "b")
    assert after.ref > before.ref


def test_a_new_title_is_found_and_makes_the_vectors_wait(store: Store) -> None:
    store.put([entry("k", "text", title="apples", vectors=[X])])
    [done] = store.put([entry("k", "text", title="pears")])
    assert (found(store, "apples"), found(store, "pears")) == ([], ["k"])
    assert done.pending == 1
    assert near(store, 1, 0, 0, 0) == []
    assert is_sound(store)


@pytest.mark.parametrize("words", ["tagged", "rotate"])
def test_tags_and_a_files_own_name_are_searched(store: Store, words: str) -> None:
    one = entry("ops/rotate-keys.md", "text", title="Keys", kind="file", tags=("tagged",))
    store.put([one, entry("other", "text")])
    assert found(store, words) == ["ops/rotate-keys.md"]


# duplicates


@pytest.mark.parametrize(
    ("fields", "duplicate"),
    [
        ({}, True),
        ({"project": "p"}, False),
        ({"parent": "ana"}, False),
        ({"kind": "note"}, False),
        ({"key": "k"}, False),
    ],
)
def test_an_observation_said_again_is_kept_once(
    store: Store, fields: Fields, duplicate: bool
) -> None:
    [first] = store.put([entry(None, "We deploy on Fridays", kind="observation")])
    said: Fields = {"key": None, "kind": "observation", **fields}
    again = entry(said.pop("key"), "We  deploy on\nFridays ", **said)
    [second] = store.put([again])
    assert second.duplicate is duplicate
    assert (second.id == first.id) is duplicate


def test_an_observation_in_other_letters_is_another_fact(store: Store) -> None:
    written = store.put(
        [entry(None, f"the password is {word}", kind="observation") for word in ("Ab", "ab")]
    )
    assert [done.duplicate for done in written] == [False, False]


def test_an_observation_that_is_over_can_be_said_again(store: Store) -> None:
    store.put([entry(None, "raining", kind="observation", valid_to=NOW)])
    [again] = store.put([entry(None, "raining", kind="observation")])
    assert not again.duplicate


# delete, trash, restore


def test_a_deleted_document_is_nowhere(store: Store) -> None:
    store.put([entry("gone", "apple ", "apple", vectors=[X, Y]), entry("kept", "apple pie")])
    [(doomed, _)] = store.find("gone", EVERYTHING)
    refs = [passage.ref for passage in passages(store, "gone")]
    deleted = store.delete([doomed.id, "unknown"])
    assert deleted == (("gone",), (doomed.id,), 2, False)
    assert found(store, "apple") == ["kept"]
    assert near(store, 1, 1, 0, 0) == []
    assert store.cosines(X, SPACE, refs) == {}
    assert store.passages(refs) == {}
    assert store.load([doomed.id]) == []
    assert store.find("gone", EVERYTHING) == []
    assert [d.key for d in store.scan(EVERYTHING)] == ["kept"]
    assert is_sound(store)


def test_restore_brings_the_latest_delete_back_as_it_was(store: Store) -> None:
    store.put([entry(key, f"{key} text ", "more", tags=("t",), title=key) for key in "abc"])
    ids = {key: store.find(key, EVERYTHING)[0][0].id for key in "abc"}
    before = {key: (store.load([ids[key]]), passages(store, key)) for key in "abc"}
    store.delete([ids["a"]])
    store.delete([ids["b"], ids["c"]])
    assert [d.key for _, _, d in store.trashed()][-1] == "a"
    assert {d.key for d in store.restore()} == {"b", "c"}
    assert [d.key for _, _, d in store.trashed()] == ["a"]
    for key in "bc":
        again = passages(store, key)
        assert store.load([ids[key]]) == before[key][0]
        assert [p._replace(ref=0) for p in again] == [p._replace(ref=0) for p in before[key][1]]
    assert sorted(found(store, "text")) == ["b", "c"]
    assert [d.key for d in store.restore([ids["a"]])] == ["a"]
    assert store.restore() == []
    assert is_sound(store)


def test_two_quick_deletes_are_undone_one_by_one(store: Store) -> None:
    written = store.put([entry(key, key) for key in "abcdef"])
    for done in written:
        store.delete([done.id])
    assert [store.restore()[0].key for _ in written] == ["f", "e", "d", "c", "b", "a"]


def test_what_has_a_newer_namesake_stays_in_the_trash_and_the_rest_comes_back(
    store: Store,
) -> None:
    [older, taken, free] = store.put([entry(key, key) for key in ("older", "taken", "free")])
    store.delete([older.id])
    store.delete([taken.id, free.id])
    [newer] = store.put([entry("taken", "new")])
    assert [d.key for d in store.restore()] == ["free"]
    assert {d.id for _, _, d in store.trashed()} == {older.id, taken.id}
    assert [d.key for d in store.restore()] == ["older"], "the next undo reaches an older delete"
    assert store.restore() == []
    assert found(store, "new taken", limit=1) == ["taken"]
    assert store.restore([taken.id]) == []
    store.delete([newer.id], purge=True)
    assert [d.id for d in store.restore([taken.id])] == [taken.id]
    assert (store.trashed(), found(store, "new")) == ([], [])
    assert is_sound(store)


def test_an_observation_that_was_said_again_since_does_not_come_back_twice(store: Store) -> None:
    [first] = store.put([entry(None, "raining", kind="observation")])
    store.delete([first.id])
    [again] = store.put([entry(None, "raining", kind="observation")])
    assert store.restore() == []
    assert [d.id for d in store.scan(EVERYTHING)] == [again.id]
    store.delete([again.id], purge=True)
    assert [d.id for d in store.restore([first.id])] == [first.id]


def test_undo_passes_over_a_delete_whose_names_are_all_taken(store: Store) -> None:
    [older, taken] = store.put([entry(key, key) for key in ("older", "taken")])
    for doomed in (older, taken):
        store.delete([doomed.id])
    store.put([entry("taken", "new")])
    assert [[d.key for d in store.restore()] for _ in range(3)] == [[], ["older"], []]


def test_what_was_not_deleted_to_be_undone_comes_back_by_its_id_only(store: Store) -> None:
    [wanted, vanished] = store.put([entry("wanted", "a"), entry("vanished", "b")])
    store.delete([wanted.id])
    store.delete([vanished.id], undoable=False)
    assert [(batch == "", d.key) for batch, _, d in store.trashed()] == [
        (True, "vanished"),
        (False, "wanted"),
    ]
    assert [d.key for d in store.restore()] == ["wanted"]
    assert store.restore() == []
    assert [d.key for d in store.restore([vanished.id, "unknown"])] == ["vanished"]


def test_purge_leaves_nothing_to_restore(store: Store) -> None:
    [first] = store.put([entry("k", "old")])
    assert store.delete([first.id], purge=True).purged
    assert (store.trashed(), store.restore()) == ([], [])


def test_purge_clears_what_is_in_the_trash_already(store: Store) -> None:
    [first] = store.put([entry("k", "old")])
    [other, live] = store.put([entry("other", "a ", "b"), entry("live", "c")])
    store.delete([first.id])
    store.delete([other.id])
    deleted = store.delete([live.id, other.id, "unknown"], purge=True)
    assert deleted == (("live", "other"), (live.id, other.id), 3, True)
    assert [d.key for _, _, d in store.trashed()] == ["k"]


def test_purge_reports_a_document_once_that_lives_and_lies_in_the_trash(store: Store) -> None:
    [first] = store.put([entry("k", "old ", "text")])
    store.delete([first.id])
    store.put([entry("k", "new", id=first.id)])
    assert store.delete([first.id], purge=True) == (("k",), (first.id,), 1, True)
    assert store.trashed() == []


# keyword


def test_keyword_hits_come_best_first_with_positive_scores(store: Store) -> None:
    store.put(
        [
            entry("twice", "apple apple"),
            entry("once", "apple and a great many other words that dilute it"),
            entry("none", "banana"),
            *[entry(f"filler {n}", "nothing of the kind") for n in range(8)],
        ]
    )
    hits = store.keyword(parse("apple"), 10, EVERYTHING)
    assert found(store, "apple") == ["twice", "once"]
    assert hits[0][1] > hits[1][1] > 0.0


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ("apple banana", ["a", "ab", "b"]),
        ("apple AND banana", ["ab"]),
        ("apple NOT banana", ["a"]),
        ('"banana apple"', ["ab"]),
        ('"apple banana"', []),
        ("appl*", ["a", "ab"]),
        ("NEAR(banana apple, 3)", ["ab"]),
        ("apples", ["a", "ab"]),
        ("cherry", []),
        ("???", []),
    ],
)
def test_words_are_joined_by_or_and_operators_hold(
    store: Store, words: str, keys: list[str]
) -> None:
    store.put([entry("a", "apple"), entry("b", "banana"), entry("ab", "banana apple")])
    assert sorted(found(store, words)) == keys


def test_an_empty_query_finds_nothing(store: Store) -> None:
    store.put([entry("a", "apple")])
    assert store.keyword(Query("", ()), 10, EVERYTHING) == []


def test_an_expression_may_come_without_words(store: Store) -> None:
    store.put([entry("a", "apple"), entry("b", "banana")])
    either = Group("or", (Term(("apple",)), Term(("pear",))))
    assert len(store.keyword(Query("", (), either), 10, EVERYTHING)) == 1


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_both_branches_keep_to_the_limit(store: Store, limit: int) -> None:
    store.put([entry(f"{n}", f"apple {n}", vectors=[X]) for n in range(3)])
    assert len(found(store, "apple", limit)) == min(3, limit)
    assert len(near(store, 1, 0, 0, 0, limit=limit)) == min(3, limit)


# vector, cosines


def test_vector_hits_come_nearest_first_and_only_on_this_side(store: Store) -> None:
    store.put(
        [
            entry("far", "a", vectors=[vector(1, 1, 1, 0)]),
            entry("same", "b", vectors=[vector(5, 0, 0, 0)]),
            entry("square", "c", vectors=[Y]),
            entry("behind", "d", vectors=[vector(-1, 0, 0, 0)]),
            entry("near", "e", vectors=[vector(1, 0.1, 0, 0)]),
        ]
    )
    hits = store.vector(X, SPACE, 10, EVERYTHING)
    assert near(store, 1, 0, 0, 0) == ["same", "near", "far"]
    assert [cosine for _, cosine in hits] == pytest.approx([1.0, 0.995, 0.577], abs=0.01)


def test_cosines_are_given_for_any_passage_that_has_a_vector(store: Store) -> None:
    store.put([entry("k", "a ", "b ", "c", vectors=[X, None, vector(-1, 0, 0, 0)])])
    refs = [passage.ref for passage in passages(store, "k")]
    assert store.cosines(X, SPACE, [*refs, 99_999]) == {
        refs[0]: pytest.approx(1.0),
        refs[2]: pytest.approx(-1.0),
    }


def test_vectors_of_another_space_are_never_compared(store: Store) -> None:
    store.put([entry("k", "a", vectors=[X])])
    [passage] = passages(store, "k")
    assert store.vector(X, OTHER, 10, EVERYTHING) == []
    assert store.cosines(X, OTHER, [passage.ref]) == {}


def test_a_memory_without_vectors_answers_nothing(store: Store) -> None:
    store.put([entry("k", "a")])
    assert store.vector(X, SPACE, 10, EVERYTHING) == []
    assert store.space() is None


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
def test_a_vector_that_is_none_is_refused_everywhere(store: Store, bad: object) -> None:
    store.put([entry("k", "a", vectors=[X]), entry("waits", "b")])
    waiting = store.pending(SPACE, 0, 10)[0].ref
    for act in (
        lambda: store.put([entry("new", "b", vectors=[bad])]),  # type: ignore[list-item]
        lambda: store.fill(SPACE, [(waiting, bad)]),  # type: ignore[list-item]
        lambda: store.vector(bad, SPACE, 10, EVERYTHING),  # type: ignore[arg-type]
    ):
        with pytest.raises(EmbedderError):
            act()
    assert store.stats().embedded_count == 1
    assert is_sound(store)


# tokens, frequencies


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Running DEPLOYS", ["run", "deploi"]),
        ("naïve Über", ["naiv", "uber"]),
        ("日本語 ok", ["日本", "本語", "ok"]),
        ("— fox! —", ["fox"]),
        ("", []),
    ],
)
def test_tokens_are_the_terms_of_the_index_with_their_places(
    store: Store, text: str, terms: list[str]
) -> None:
    tokens = store.tokens(text)
    assert [term for _, _, term in tokens] == terms
    assert all(0 <= start < end <= len(text) for start, end, _ in tokens)
    assert all(text[start:end].strip() == text[start:end] for start, end, _ in tokens)


def test_frequencies_count_passages_not_occurrences(store: Store) -> None:
    store.put([entry("a", "apple apple ", "apple", "pear"), entry("b", "plum")])
    terms = [term for _, _, term in store.tokens("apple pear cherry")]
    assert store.frequencies(terms) == (4, dict(zip(terms, (2, 1, 0), strict=True)))


# looking up


def test_a_hydrated_passage_brings_its_document_without_the_text(store: Store) -> None:
    store.put([entry("k", "one ", "two", title="T")])
    first, second = passages(store, "k")
    rows = store.passages([second.ref, first.ref, 424_242])
    assert {ref: (p.text, d.title, d.text) for ref, (p, d) in rows.items()} == {
        first.ref: ("one ", "T", ""),
        second.ref: ("two", "T", ""),
    }
    assert rows[first.ref][0] == first


@pytest.mark.parametrize(
    ("ordinal", "window", "texts"),
    [(0, 0, "a"), (0, 1, "ab"), (2, 1, "bcd"), (4, 2, "cde"), (9, 1, "")],
)
def test_neighbours_are_those_of_one_document(
    store: Store, ordinal: int, window: int, texts: str
) -> None:
    [done, _] = store.put([entry("k", *"abcde"), entry("other", *"vwxyz")])
    assert "".join(p.text for p in store.neighbours(done.id, ordinal, window)) == texts


def test_whole_messages_tell_which_session_they_belong_to(store: Store) -> None:
    store.put(
        [
            entry("one", "hello", kind="message", session="talk"),
            entry("two", "long ", "message", kind="message", session="talk"),
            entry("three", "no session", kind="message"),
            entry("four", "a note", session="talk"),
        ]
    )
    refs = {key: passages(store, key)[0].ref for key in ("one", "two", "three", "four")}
    assert store.sessions([*refs.values(), 10_000]) == {refs["one"]: "talk"}
    assert store.sessions([]) == {}


def test_things_are_found_by_every_name_they_have(store: Store) -> None:
    [done] = store.put([entry("notes/a.md", "one ", "two", id="aabbccddeeffg")])
    second = passages(store, "notes/a.md")[1]
    assert store.find("notes/a.md", EVERYTHING) == [(store.scan(EVERYTHING)[0], None)]
    for name in (done.id, done.id[:6], done.id[:12].upper()):
        assert [(d.id, p) for d, p in store.find(name, EVERYTHING)] == [(done.id, None)]
    for name in (second.id, second.id[:8], "notes/a.md-1", f"{done.id}-1"):
        assert [(d.id, p) for d, p in store.find(name, EVERYTHING)] == [(done.id, second)]


@pytest.mark.parametrize(
    "name",
    ["aabbc", "notes/", "notes/a.md-2", "notes/a.md-", "notes/a.md-٣", "a%", "", "-0", "k" * 40],
)
def test_what_is_no_name_finds_nothing(store: Store, name: str) -> None:
    store.put([entry("notes/a.md", "one ", "two", id="aabbccddeeffg")])
    assert store.find(name, EVERYTHING) == []


def test_an_ambiguous_prefix_finds_all_that_it_fits(store: Store) -> None:
    store.put([entry("a", "one", id="aaaaaaaaaaaab"), entry("b", "two", id="aaaaaaaaaaaac")])
    assert sorted(d.key or "" for d, _ in store.find("aaaaaaaa", EVERYTHING)) == ["a", "b"]


def test_a_key_is_read_as_a_key_before_it_is_read_as_a_passage(store: Store) -> None:
    store.put([entry("k", "one ", "two"), entry("k-1", "three")])
    [(document_, passage)] = store.find("k-1", EVERYTHING)
    assert (document_.key, passage) == ("k-1", None)


def test_a_key_is_looked_up_where_the_filter_says(store: Store) -> None:
    store.put([entry("k", "one", project="p"), entry("k", "two")])
    assert len(store.find("k", EVERYTHING)) == 2
    assert [d.project for d, _ in store.find("k", Filter(projects=("p",)))] == ["p"]


def test_a_scan_is_newest_first_and_pages_without_gap_or_repeat(store: Store) -> None:
    moments = [5, 3, 3, 3, 9, 1, 3]
    store.put([entry(f"{n}", "x", event_at=moment) for n, moment in enumerate(moments)])
    whole = store.scan(EVERYTHING)
    assert [d.event_at for d in whole] == sorted(moments, reverse=True)
    assert all(d.text == "" for d in whole)
    paged: list[Document] = []
    cursor: tuple[int, str] | None = None
    while page := store.scan(EVERYTHING, limit=2, before=cursor):
        paged += page
        cursor = (page[-1].event_at or 0, page[-1].id)
    assert paged == whole


# known, pending, generations


def test_known_tells_what_would_be_replaced_and_which_vectors_stay(store: Store) -> None:
    assert store.known(document("k")) == (None, frozenset())
    store.put([entry("k", "one ", "two ", "three", vectors=[X, None, Z], title="T")])
    again = entry("k", "three", "new", "one ", "two ", title="T")
    old, ready = store.known(again.document, again.passages)
    assert old is not None
    assert (old.key, ready) == ("k", frozenset({0, 2}))
    _, after_new_title = store.known(again.document._replace(title="U"), again.passages)
    assert after_new_title == frozenset()


def test_the_first_vectors_make_all_older_passages_wait(store: Store) -> None:
    store.put([entry("old", "a ", "b")])
    store.put([entry("new", "c", vectors=[X])])
    assert store.space() == SPACE
    assert store.pending_count() == 2
    assert [row.text for row in store.pending(SPACE, 0, 10)] == ["a ", "b"]
    assert is_sound(store)


def test_filling_gives_vectors_and_marks_what_has_none(store: Store) -> None:
    store.put([entry("k", "a ", "b ", "c", heading="H", title="T")])
    assert store.begin(SPACE)
    rows = store.pending(SPACE, 0, 2)
    assert [row[1:] for row in rows] == [("T", "H", "a "), ("T", "H", "b ")]
    [last] = store.pending(SPACE, rows[-1].ref, 10)
    filled = store.fill(SPACE, [(rows[0].ref, X), (rows[1].ref, None), (424_242, Y)])
    assert filled == 1
    assert store.pending(SPACE, 0, 10) == [last]
    stats = store.stats()
    assert (stats.embedded_count, stats.pending_count, stats.chunk_count) == (1, 1, 3)
    assert is_sound(store)


def test_filling_a_space_that_was_never_begun_does_nothing(store: Store) -> None:
    store.put([entry("k", "a")])
    assert store.fill(SPACE, [(1, X)]) == 0
    assert store.pending(SPACE, 0, 10) == []
    assert not store.swap(SPACE)


def test_a_new_space_answers_only_after_the_swap(store: Store) -> None:
    store.put([entry("k", "a ", "b", vectors=[X, Y])])
    assert not store.begin(OTHER)
    rows = store.pending(OTHER, 0, 10)
    store.fill(OTHER, [(rows[0].ref, Y)], upto=rows[0].ref)
    assert not store.swap(OTHER), "one passage has not been seen"
    assert (store.space(), near(store, 1, 0, 0, 0)) == (SPACE, ["k"])
    assert is_sound(store)
    assert [row.ref for row in store.pending(OTHER, 0, 10)] == [rows[1].ref]
    store.fill(OTHER, [(rows[1].ref, X)], upto=rows[1].ref)
    assert store.swap(OTHER)
    assert store.space() == OTHER
    assert [ref for ref, _ in store.vector(X, OTHER, 10, EVERYTHING)] == [rows[1].ref]
    assert near(store, 1, 0, 0, 0) == []
    assert is_sound(store)


def test_what_is_written_while_a_space_fills_is_in_it_after_the_swap(store: Store) -> None:
    store.put([entry("k", "a ", "b", vectors=[X, Y]), entry("doomed", "c", vectors=[Z])])
    store.begin(OTHER)
    rows = store.pending(OTHER, 0, 10)
    store.fill(OTHER, [(row.ref, X) for row in rows], upto=rows[-1].ref)
    store.put([entry("k", "a ", "new", vectors=[None, Y], space=OTHER)])
    store.delete([store.find("doomed", EVERYTHING)[0][0].id])
    assert not store.swap(OTHER), "a passage was stored behind its back"
    more = store.pending(OTHER, 0, 10)
    assert [row.text for row in more] == ["new"]
    store.fill(OTHER, [(more[0].ref, Y)], upto=more[0].ref)
    assert store.swap(OTHER)
    hits = store.vector(vector(1, 1, 0, 0), OTHER, 10, EVERYTHING)
    assert len(hits) == 2
    assert is_sound(store)


def test_a_passage_written_twice_while_a_space_fills_waits_there(store: Store) -> None:
    store.put([entry("k", "a", title="T", vectors=[X])])
    store.begin(OTHER)
    [row] = store.pending(OTHER, 0, 10)
    store.fill(OTHER, [(row.ref, X)], upto=row.ref)
    store.put([entry("k", "a", title="U", vectors=[Y])])
    assert [waiting.ref for waiting in store.pending(OTHER, 0, 10)] == [row.ref]
    assert is_sound(store)


def test_beginning_anew_builds_the_same_space_beside_the_current_one(store: Store) -> None:
    store.put([entry("k", "a", vectors=[X])])
    assert store.begin(SPACE)
    assert not store.begin(SPACE, anew=True)
    [row] = store.pending(SPACE, 0, 10)
    store.put([entry("late", "b", vectors=[Y])])
    assert sorted(near(store, 1, 1, 0, 0)) == ["k", "late"]
    store.fill(SPACE, [(row.ref, Y)], upto=row.ref)
    assert near(store, 1, 0, 0, 0) == ["k"]
    late = store.pending(SPACE, 0, 10)
    store.fill(SPACE, [(late[0].ref, X)], upto=late[0].ref)
    assert store.swap(SPACE)
    assert near(store, 1, 0, 0, 0) == ["late"]
    assert is_sound(store)


def test_a_space_that_was_given_up_is_dropped_when_the_current_one_is_confirmed(
    store: Store,
) -> None:
    store.put([entry("k", "a", vectors=[X])])
    store.begin(OTHER)
    assert store.begin(SPACE)
    assert store.swap(SPACE)
    assert [f.check for f in store.check() if "vectors" in f.check] == ["vectors"]


# the memory as a whole


def test_rebuilding_the_keyword_index_changes_no_answer(store: Store) -> None:
    store.put([entry(f"{n}", f"apple {n} 日本語", title=f"t{n}") for n in range(5)])
    store.delete([store.find("2", EVERYTHING)[0][0].id])
    before = store.keyword(parse("apple"), 10, EVERYTHING)
    assert store.rebuild_keywords() == 4
    assert store.keyword(parse("apple"), 10, EVERYTHING) == before
    assert len(found(store, "日本")) == 4
    assert is_sound(store)


def test_settling_and_compacting_lose_nothing(store: Store) -> None:
    store.put([entry("k", "apple", vectors=[X])])
    store.settle()
    store.compact()
    assert (found(store, "apple"), near(store, 1, 0, 0, 0)) == (["k"], ["k"])
    assert is_sound(store)


def test_facts_about_the_memory_are_kept(store: Store) -> None:
    assert store.meta("chunker") is None
    store.set_meta("chunker", "1")
    store.set_meta("chunker", "2")
    assert store.meta("chunker") == "2"


def test_an_empty_store_answers_everything(store: Store) -> None:
    assert found(store, "apple") == []
    assert near(store, 1, 0, 0, 0) == []
    assert not [*store.scan(EVERYTHING), *store.load(["x"]), *store.trashed(), *store.restore()]
    assert store.frequencies(["a"]) == (0, {"a": 0})
    assert (store.newest(), store.space(), store.pending_count()) == (None, None, 0)
    assert store.rebuild_keywords() == 0
    assert is_sound(store)


def test_stats_count_what_is_there(store: Store) -> None:
    store.put(
        [
            entry("a", "x ", "y", vectors=[X, None], project="p", event_at=5),
            entry("b", "z", kind="file", source="/s", event_at=7, indexed_at=NOW + 9),
            entry("c", "w"),
        ]
    )
    store.delete([store.find("c", EVERYTHING)[0][0].id])
    stats = store.stats()
    assert (stats.doc_count, stats.chunk_count, stats.embedded_count) == (2, 3, 1)
    assert (stats.pending_count, stats.trash_count, stats.space) == (2, 1, SPACE)
    assert stats.kinds == (("file", 1), ("note", 1))
    assert stats.projects == ((None, 1), ("p", 1))
    assert stats.sources == (("/s", 1),)
    assert (stats.first_event_at, stats.last_event_at) == (5, 7)
    assert stats.indexed_at == store.newest() == NOW + 9
    assert stats.db_size_bytes > 0


def test_a_backup_is_a_whole_store(store: Store, tmp_path: Path) -> None:
    store.put([entry("k", "apple ", "pie", vectors=[X, None])])
    target = tmp_path / "copy.db"
    store.backup(str(target))
    copy = open_store(str(target), create=False)
    try:
        assert passages(copy, "k") == passages(store, "k")
        assert found(copy, "apple") == ["k"]
        assert (near(copy, 1, 0, 0, 0), copy.pending_count()) == (["k"], 1)
        assert is_sound(copy)
    finally:
        copy.close()


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.stats()


def test_a_filter_sees_what_another_thread_has_just_written(store: Store) -> None:
    where = Filter(projects=("p",))
    store.put([entry("a", "apple", project="p"), entry("b", "apple", project="q")])
    assert found(store, "apple", where=where) == ["a"]
    writer = Thread(target=lambda: store.put([entry("c", "apple", project="p")]))
    writer.start()
    writer.join()
    assert sorted(found(store, "apple", where=where)) == ["a", "c"]


def test_many_threads_write_and_search_one_store(store: Store) -> None:
    threads, notes = 4, 10
    together = Barrier(threads)
    trouble: list[BaseException] = []

    def work(name: int) -> None:
        try:
            together.wait()
            for number in range(notes):
                one = entry(f"{name}/{number}", "apple", vectors=[X], project=f"p{name}")
                store.put([one])
                mine = Filter(projects=(f"p{name}",))
                assert len(store.keyword(parse("apple"), 100, mine)) == number + 1
                assert len(store.vector(X, SPACE, 100, mine)) == number + 1
        except BaseException as error:  # noqa: BLE001 - it is raised again by the test
            trouble.append(error)

    workers = [Thread(target=work, args=(name,)) for name in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert trouble == []
    assert store.stats().doc_count == threads * notes
    assert is_sound(store)


@pytest.mark.parametrize("value", ["\udcff", "a\ud800"])
def test_text_that_is_no_unicode_is_a_clear_refusal(store: Store, value: str) -> None:
    for act in (
        lambda: store.find(value, EVERYTHING),
        lambda: store.put([entry("k", "x", title=value)]),
        lambda: store.scan(Filter(source=value)),
        lambda: store.put([entry(None, value, kind="observation")]),
    ):
        with pytest.raises(UsageError, match="cannot be stored"):
            act()
    assert store.stats().doc_count == 0


def test_a_number_past_64_bits_is_a_clear_refusal(store: Store) -> None:
    with pytest.raises(UsageError, match="cannot be stored"):
        store.put([entry("k", "x", event_at=2**70)])


def test_metadata_and_tags_may_hold_anything(store: Store) -> None:
    odd = {"a'b\"c": "日本 \n\t\\", "": ""}
    store.put([entry("k", "x", metadata=odd, tags=("", "two words", "[]", "{}"))])
    [back] = store.scan(EVERYTHING)
    assert back.metadata == odd
    assert back.tags == ("", "two words", "[]", "{}")
    assert json.dumps(back.metadata)


def test_an_unknown_engine_is_named_in_the_refusal() -> None:
    with pytest.raises(UsageError, match="PostgreSQL"):
        open_store("postgresql://localhost/x")


# in_order, scan the other way


def test_documents_come_in_the_order_of_their_writing_however_often_replaced(store: Store) -> None:
    for key in ("b", "a", "c", "b"):
        store.put([entry(key, f"text of {key}")])
    assert [(d.key, d.text) for d in store.in_order(EVERYTHING)] == [
        ("b", "text of b"),
        ("a", "text of a"),
        ("c", "text of c"),
    ]
    assert [d.text for d in store.in_order(Filter(keys=("a",)), whole=False)] == [""]


def test_a_scan_goes_both_ways_from_a_cursor_and_never_shows_it(store: Store) -> None:
    ids = [f"{letter * 13}" for letter in "abcdefg"]
    moments = [1, 2, 2, 2, 2, 3, 4]
    store.put(
        [entry(id_, "x", id=id_, event_at=moment) for id_, moment in zip(ids, moments, strict=True)]
    )
    for place, id_ in enumerate(ids):
        cursor = (moments[place], id_)
        after = store.scan(EVERYTHING, after=cursor, limit=2)
        before = store.scan(EVERYTHING, before=cursor, limit=2)
        assert [d.id for d in after] == ids[place + 1 : place + 3]
        assert [d.id for d in before] == ids[max(0, place - 2) : place][::-1]


# facts


def said(text: str, **fields: Any) -> Entry:
    belongs = {name: fields.pop(name) for name in ("entity", "belongs") if name in fields}
    return entry(None, text, kind="observation", **fields)._replace(**belongs)


def named(name: str, **fields: Any) -> Entry:
    return Entry(Document(key=name, kind="entity", **fields), ())


def text_of(store: Store, name: str) -> str:
    [(found, _)] = store.find(name, EVERYTHING)
    return store.load([found.id])[0].text


def test_a_fact_closes_what_has_its_topic_and_says_so(store: Store) -> None:
    [old] = store.put([said("old", topic="t")])
    [new] = store.put([said("new", topic="t")])
    [other] = store.put([said("other", topic="t", project="p")])
    assert (old.superseded, new.superseded, other.superseded) == ((), (old.id,), ())
    closed, current = store.load([old.id, new.id])
    assert closed.valid_to == current.valid_from
    assert current.supersedes == old.id


def test_a_fact_that_supersedes_nothing_real_writes_nothing(store: Store) -> None:
    store.put([entry("file", "x", kind="file", path="/x")])
    [(file, _)] = store.find("file", EVERYTHING)
    refused: list[tuple[Fields, type[PlaitError]]] = [
        ({"supersedes": "nothing"}, NotFound),
        ({"supersedes": file.id}, UsageError),
        ({"supersedes": file.id, "project": "p"}, UsageError),
    ]
    for fields, error in refused:
        with pytest.raises(error):
            store.put([said("first"), said("text", **fields)])
    assert store.stats().doc_count == 1


def test_an_entity_is_made_by_what_is_said_of_it(store: Store) -> None:
    done = store.put([said("likes tea", entity="Ana"), said("has a cat", entity="Ana")])
    assert done[0].parent == done[1].parent
    assert text_of(store, "Ana") == "Ana (Generic)\n- has a cat\n- likes tea"
    assert set(found(store, "tea")) == {"Ana", done[0].id}


def test_what_belongs_to_an_unknown_entity_can_be_refused_or_left_out(store: Store) -> None:
    with pytest.raises(NotFound, match="no entity named 'Ana'"):
        store.put([said("first"), said("likes tea", entity="Ana", belongs="known")])
    assert store.stats().doc_count == 0
    first = [named("Ana", type="person"), said("likes tea", entity="Ana", belongs="new")]
    assert [bool(done.id) for done in store.put(first)] == [True, True]
    again = [named("Ana", type="cat")._replace(belongs="new"), said("purrs", entity="Ana")]
    again[1] = again[1]._replace(belongs="new")
    assert [done.id != "" for done in store.put(again)] == [True, False]
    assert text_of(store, "Ana") == "Ana (person)\n- likes tea"


def test_an_entity_learns_from_a_second_making(store: Store) -> None:
    store.put([named("Ana")])
    store.put([named("Ana", type="person", tags=("friend",))])
    assert text_of(store, "Ana") == "Ana (person)"
    assert found(store, "friend") == ["Ana"]
    store.put([named("Ana", tags=("colleague",))])
    assert (found(store, "friend"), found(store, "colleague")) == ([], ["Ana"])
    assert store.stats().doc_count == 1


def test_entities_stand_before_what_belongs_to_them_in_any_order(store: Store) -> None:
    batch = [
        said("likes tea", parent="aaaaaaaaaaaaa", id="bbbbbbbbbbbbb"),
        named("Ana", id="aaaaaaaaaaaaa"),
    ]
    assert [done.id for done in store.put(batch)] == ["bbbbbbbbbbbbb", "aaaaaaaaaaaaa"]
    assert text_of(store, "Ana") == "Ana (Generic)\n- likes tea"


def test_an_entity_of_another_id_but_the_same_name_is_the_known_one(store: Store) -> None:
    [known] = store.put([named("Ana")])
    store.put([said("likes tea", parent="zzzzzzzzzzzzz"), named("Ana", id="zzzzzzzzzzzzz")])
    assert text_of(store, "Ana") == "Ana (Generic)\n- likes tea"
    assert [d.parent for d in store.scan(Filter(kinds=("observation",)))] == [known.id]


# relate, unrelate, relations


def test_edges_are_listed_with_at_least_one_end_among_the_entities(store: Store) -> None:
    made = store.put([named(name) for name in "abc"])
    assert store.relate([Relation("a", "b", "x", "why"), Relation("b", "c", "y")], None) == [
        True,
        True,
    ]
    assert store.relate([Relation("a", "b", "x")], None) == [False]
    [edge] = store.relations([made[0].id], EVERYTHING)
    assert edge[:4] == ("a", "b", "x", "why")
    assert (edge.source_id, edge.target_id) == (made[0].id, made[1].id)
    assert len(store.relations([made[1].id], EVERYTHING)) == 2
    assert len(store.relations(None, EVERYTHING)) == 2
    assert store.relations(None, Filter(projects=("p",))) == []
    assert store.relations([], EVERYTHING) == []
    assert store.unrelate([Relation("a", "b", "x"), Relation("a", "b", "x")], None) == 1
    assert store.unrelate([Relation("b", "c", "y")], None, end=5) == 1
    assert store.relations(None, Filter()) == []
    assert [edge.valid_to for edge in store.relations(None, Filter(as_of=4))] == [5]


def test_edges_need_both_ends_in_the_same_project(store: Store) -> None:
    store.put([named("a"), named("b", project="p")])
    with pytest.raises(NotFound, match="'b'"):
        store.relate([Relation("a", "a", "self"), Relation("a", "b", "x")], None)
    assert store.relations(None, EVERYTHING) == []


def test_edges_go_and_come_back_with_their_entities(store: Store) -> None:
    made = store.put([named("a"), named("b"), said("of a", entity="a")])
    store.relate([Relation("a", "b", "x", "why")], None)
    gone = store.delete([made[0].id])
    assert set(gone.ids) == {made[0].id, made[2].id}
    assert store.relations(None, EVERYTHING) == []
    assert {d.id for d in store.restore()} == set(gone.ids)
    assert [edge[:4] for edge in store.relations(None, EVERYTHING)] == [("a", "b", "x", "why")]
    assert text_of(store, "a") == "a (Generic)\n- of a"
    assert is_sound(store)


# touch, uses


def test_use_is_counted_alone_and_together(store: Store) -> None:
    store.put([entry(key, key) for key in "abc"])
    a, b, c = (passages(store, key)[0].ref for key in "abc")
    assert store.uses([a, b, c]) == ({}, {})
    store.touch([[a, b], [a], [a, a]])
    uses = store.uses([a, b, c])
    assert {ref: use.reads for ref, use in uses.of.items()} == {a: 3, b: 1}
    assert uses.of[a].days == 1
    assert [times for times, _ in uses.together.values()] == [1]
    assert store.uses([c]) == ({}, {})
    store.touch([[10_000]])  # deleted meanwhile


def test_untrusted_passages_earn_nothing(store: Store) -> None:
    store.put([entry("a", "a"), entry("b", "b", trust="untrusted")])
    refs = [passages(store, key)[0].ref for key in "ab"]
    store.touch([refs])
    assert list(store.uses(refs).of) == [refs[0]]
    assert store.uses(refs).together == {}


def test_use_goes_with_the_passage(store: Store) -> None:
    store.put([entry("a", "a"), entry("b", "b")])
    refs = [passages(store, key)[0].ref for key in "ab"]
    store.touch([refs])
    store.delete([store.find("a", EVERYTHING)[0][0].id])
    assert list(store.uses(refs).of) == [refs[1]]
    assert store.uses(refs).together == {}


def test_the_relations_of_an_entity_count_for_its_use(store: Store) -> None:
    store.put([named(name) for name in "abc"])
    store.relate([Relation("a", "b", "x"), Relation("c", "a", "y"), Relation("a", "c", "z")], None)
    store.unrelate([Relation("a", "c", "z")], None, end=5)
    [ref] = [part.ref for part in passages(store, "a")]
    store.touch([[ref]])
    assert store.uses([ref]).of[ref].degree == 2


def test_a_busy_store_counts_nothing_and_waits_for_nobody(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.db")
    store = open_store(path, timeout=5.0)
    store.put([entry("a", "a")])
    [ref] = [part.ref for part in passages(store, "a")]
    other = apsw.Connection(path)
    other.execute("BEGIN IMMEDIATE")
    store.touch([[ref]])
    other.execute("ROLLBACK")
    other.close()
    assert store.uses([ref]) == ({}, {})
    store.touch([[ref]])
    assert store.uses([ref]).of[ref].reads == 1
    store.close()
