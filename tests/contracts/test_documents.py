"""Documents: written whole, replaced, named, listed and deleted."""

import json
from typing import Any

import pytest

from plait.errors import StoreError, UsageError
from plait.protocols import Entry, Store
from plait.types import Document, Filter
from plait.types.ids import new_id
from tests.builders import (
    EVERYTHING,
    by_keyword,
    by_vector,
    cosines,
    delete,
    document,
    entry,
    is_sound,
    passages_of,
    vector,
    write,
)

Fields = dict[str, Any]
X, Y, Z = vector(1, 0, 0, 0), vector(0, 1, 0, 0), vector(0, 0, 1, 0)
FULL = document(
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
    role="user",
    turn=12,
    parent="par",
    topic="top",
    supersedes="old",
    importance=0.25,
    pinned=True,
    status="done",
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


# write, load


def test_documents_come_back_whole_and_in_the_order_asked_for(store: Store) -> None:
    texts = {"a": ("First. ", "Second."), "b": ("Alone",), "c": ("naïve 日本語 🦊\n", "\tend \n")}
    written = write(store, *[entry(key, *pieces) for key, pieces in texts.items()])
    assert [done.chunks for done in written] == [2, 1, 2]
    ids = [done.id for done in reversed(written)]
    expected = [
        ("c", "naïve 日本語 🦊\n\tend \n"),
        ("b", "Alone"),
        ("a", "First. Second."),
    ]
    assert [(d.key, d.text) for d in store.load([*ids, "unknown"])] == expected
    with store.transaction() as tx:
        assert [(d.key, d.text) for d in tx.load([*ids, "unknown"])] == expected


def test_every_field_of_a_document_survives(store: Store) -> None:
    write(store, entry("k", "text")._replace(document=FULL))
    assert store.load(["abcdefghijklm"]) == [FULL]
    assert all(
        getattr(FULL, name) != default for name, default in Document._field_defaults.items()
    ), "a field at its default proves nothing"


def test_the_text_before_the_first_passage_is_kept(store: Store) -> None:
    front = "---\ntitle: x\n---\n"
    row = entry("k", "body")
    [done] = write(store, row._replace(document=row.document._replace(text=front + "body")))
    assert store.load([done.id])[0].text == front + "body"


def test_a_text_without_any_passage_is_kept(store: Store) -> None:
    [done] = write(store, entry("k")._replace(document=document("k", "---\na: b\n---\n")))
    assert (done.chunks, store.load([done.id])[0].text) == (0, "---\na: b\n---\n")


def test_the_same_key_replaces_the_document(store: Store) -> None:
    [first] = write(store, entry("k", "about apples", created_at=1))
    [second] = write(store, entry("k", "about pears", created_at=2))
    assert (first.replaced, second.replaced, second.id) == (False, True, first.id)
    assert (by_keyword(store, "apples"), by_keyword(store, "pears")) == ([], ["k"])
    assert store.stats().doc_count == 1


@pytest.mark.parametrize("fields", [{"project": "p"}, {"source": "/s"}])
def test_the_same_key_elsewhere_is_another_document(store: Store, fields: Fields) -> None:
    write(store, entry("k", "one"), entry("k", "two", **fields))
    assert store.stats().doc_count == 2


def test_two_documents_cannot_have_one_name(store: Store) -> None:
    write(store, entry("k", "one", id="aaaaaaaaaaaaa"))
    with pytest.raises(StoreError), store.transaction() as tx:
        tx.write(entry("k", "two", id="bbbbbbbbbbbbb"))
    assert [d.id for d in store.scan(EVERYTHING)] == ["aaaaaaaaaaaaa"]


def test_the_same_id_replaces_the_document_under_a_new_key(store: Store) -> None:
    write(store, entry("old", "text", id="aaaaaaaaaaaaa"))
    write(store, entry("new", "text", id="aaaaaaaaaaaaa"))
    assert [d.key for d in store.scan(EVERYTHING)] == ["new"]


def a_file(source: str, key: str, text: str = "apple", **fields: Any) -> Entry:
    return entry(key, text, kind="file", source=source, path=f"{source}/{key}", **fields)


@pytest.mark.parametrize("project", [None, "p"])
def test_a_file_read_again_as_part_of_another_folder_is_the_same_document(
    store: Store, project: str | None
) -> None:
    [alone] = write(store, a_file("/notes/sub", "a.md"))
    again = a_file("/notes", "sub/a.md", project=project)
    [known] = store.known([again.document])
    assert known is not None
    assert known.id == alone.id
    [part] = write(store, again)
    assert (part.id, part.replaced) == (alone.id, True)
    [kept] = store.scan(EVERYTHING)
    assert (kept.source, kept.key, kept.project) == ("/notes", "sub/a.md", project)
    assert is_sound(store)


def test_of_two_projects_that_read_a_file_its_own_comes_first(store: Store) -> None:
    write(store, a_file("/n", "a.md", id="aaaaaaaaaaaaa", project="p"))
    write(store, a_file("/elsewhere", "a.md", id="bbbbbbbbbbbbb", project="q"))
    moved = entry("a.md", "apple", kind="file", source="/elsewhere", path="/n/a.md", project="q")
    write(store, moved)  # by its name: the path is the other one's
    for project in ("p", "q"):
        probe = document("x", kind="file", source="/", path="/n/a.md", project=project)
        [known] = store.known([probe])
        assert known is not None
        assert known.project == project


def test_a_file_of_a_scope_is_known_by_its_path_only_there(store: Store) -> None:
    write(
        store, entry("a.md", "apple", kind="file", source="/n", path="/n/a.md", project="scope:a")
    )
    for project in (None, "q", "scope:b", "scope:a"):
        probe = document("x", kind="file", source="/", path="/n/a.md", project=project)
        [known] = store.known([probe])
        assert (known is not None) == (project == "scope:a")
    write(store, entry("x", "pear", kind="file", source="/", path="/n/a.md", project="q"))
    probe = document("y", kind="file", source="/m", path="/n/a.md", project="scope:b")
    assert store.known([probe]) == [None]


@pytest.mark.parametrize("fields", [{"kind": "note"}, {"path": None}, {"path": "/notes/b.md"}])
def test_only_a_file_is_known_by_its_path(store: Store, fields: Fields) -> None:
    place: Fields = {"kind": "file", "source": "/notes", "path": "/notes/a.md"}
    write(store, entry("a.md", "one", **place))
    write(store, entry("b.md", "two", **{**place, **fields}))
    assert store.stats().doc_count == 2


def test_known_answers_for_each_document(store: Store) -> None:
    write(store, entry("a", "one"), entry(None, "two", id="bbbbbbbbbbbbb"))
    probes = [document("a"), document("x"), document(None, id="bbbbbbbbbbbbb"), document(None)]
    known = store.known(probes)
    assert [None if row is None else row.doc_id for row in known] == [
        "a",
        None,
        "bbbbbbbbbbbbb",
        None,
    ]
    assert all(row is None or row.text == "" for row in known)


# passages


def test_unchanged_passages_keep_id_ref_and_vector(store: Store) -> None:
    write(store, entry("k", "one ", "two ", "three", vectors=[X, Y, Z]))
    before = passages_of(store, "k")
    [done] = write(store, entry("k", "zero ", "one ", "2 ", "three"))
    after = passages_of(store, "k")
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
    assert cosines(store, X, refs) == {refs[1]: pytest.approx(1.0), refs[3]: 0.0}
    assert done.pending == 2
    assert is_sound(store)


def test_a_passage_under_another_heading_is_another_passage(store: Store) -> None:
    write(store, entry("k", "text", heading="A"))
    [before] = passages_of(store, "k")
    write(store, entry("k", "text", heading="B"))
    [after] = passages_of(store, "k")
    assert (before.heading, after.heading) == ("A", "B")
    assert before.id != after.id


def test_passages_with_the_same_text_are_each_kept_once(store: Store) -> None:
    write(store, entry("k", "same ", "same ", "same "))
    before = {passage.ref for passage in passages_of(store, "k")}
    write(store, entry("k", "same ", "same "))
    after = {passage.ref for passage in passages_of(store, "k")}
    assert len(after) == 2
    assert after < before


def test_a_passage_gets_the_id_it_asks_for_unless_that_is_taken(store: Store) -> None:
    row = entry("a", "one")
    wanted = row._replace(passages=[row.passages[0]._replace(id="ppppppppppppp")])
    write(store, wanted)
    write(store, wanted._replace(document=wanted.document._replace(key="b")))
    assert passages_of(store, "a")[0].id == "ppppppppppppp"
    assert passages_of(store, "b")[0].id not in ("ppppppppppppp", "")
    edited = row._replace(
        document=row.document._replace(text="two"),
        passages=[row.passages[0]._replace(id="ppppppppppppp", text="two")],
    )
    write(store, edited)
    assert passages_of(store, "a")[0].id == "ppppppppppppp", "its own id is free again"


def test_a_ref_is_never_used_again(store: Store) -> None:
    seen = set()
    for number in range(20):
        write(store, entry("a", f"text {number}"))
        [passage] = passages_of(store, "a")
        seen.add(passage.ref)
        delete(store, "a")
    assert len(seen) == 20


def test_a_new_title_is_found_and_makes_the_vectors_wait(store: Store) -> None:
    write(store, entry("k", "text", title="apples", vectors=[X]))
    [done] = write(store, entry("k", "text", title="pears"))
    assert (by_keyword(store, "apples"), by_keyword(store, "pears")) == ([], ["k"])
    assert done.pending == 1
    assert by_vector(store, 1, 0, 0, 0) == []
    assert is_sound(store)


@pytest.mark.parametrize("words", ["tagged", "rotate"])
def test_tags_and_the_name_of_a_file_are_searched(store: Store, words: str) -> None:
    row = entry("ops/rotate-keys.md", "text", title="Keys", kind="file", tags=("tagged",))
    write(store, row, entry("other", "text"))
    assert by_keyword(store, words) == ["ops/rotate-keys.md"]


@pytest.mark.parametrize(
    ("first", "last", "texts"),
    [(0, 0, "a"), (0, None, "abcde"), (1, 3, "bcd"), (3, 9, "de"), (9, 10, "")],
)
def test_passages_of_one_document_are_read_by_ordinal(
    store: Store, first: int, last: int | None, texts: str
) -> None:
    [done, _] = write(store, entry("k", *"abcde"), entry("other", *"vwxyz"))
    assert "".join(passage.text for passage in store.passages(done.id, first, last)) == texts
    with store.transaction() as tx:
        assert "".join(passage.text for passage in tx.passages(done.id)) == "abcde"
    assert store.passages("unknown") == []


# amend


def test_fields_can_be_changed_without_the_text(store: Store) -> None:
    [done] = write(store, entry("k", "apple ", "pie", title="old", vectors=[X, Y]))
    before = passages_of(store, "k")
    changes: Fields = {
        "title": "new",
        "tags": ("red",),
        "project": "p",
        "pinned": True,
        "metadata": {"a": "b"},
        "valid_to": 5,
    }
    with store.transaction() as tx:
        tx.amend(done.id, **changes)
        tx.amend("unknown", title="x")
    [after] = store.load([done.id])
    assert {name: getattr(after, name) for name in changes} == changes
    assert (after.text, after.key, after.chunk_count) == ("apple pie", "k", 2)
    assert passages_of(store, "k") == before
    assert (by_keyword(store, "old"), by_keyword(store, "red")) == ([], ["k", "k"])
    assert store.state().pending == 0
    assert is_sound(store)


def test_a_file_can_be_given_another_place(store: Store) -> None:
    old: Fields = {"kind": "file", "path": "/a/x.md", "source": "/a", "project": "p"}
    new: Fields = {"path": "/b/c/y.md", "source": "/b", "project": "q", "mtime": None}
    [done] = write(store, entry("x.md", "apple", vectors=[X], mtime=5, **old))
    before = passages_of(store, "x.md")
    with store.transaction() as tx:
        tx.amend(done.id, key="c/y.md", **new)
        places: list[Fields] = [{"path": "/b/c/y.md"}, {"key": "c/y.md", **new}]
        for place in places:
            moved = tx.known(Document(kind="file", **place))
            assert moved is not None
            assert (moved.id, moved.mtime) == (done.id, None)
        assert tx.known(Document(key="x.md", **old)) is None
    assert passages_of(store, "c/y.md") == before
    # A file's name is indexed with its title.
    assert (by_keyword(store, "x"), by_keyword(store, "y")) == ([], ["c/y.md"])
    assert by_vector(store, 1, 0, 0, 0) == ["c/y.md"]
    assert store.state().pending == 0
    assert is_sound(store)


# delete


def test_a_deleted_document_is_gone_everywhere(store: Store) -> None:
    write(store, entry("gone", "apple ", "apple", vectors=[X, Y]), entry("kept", "apple pie"))
    [(doomed, _)] = store.find("gone", EVERYTHING)
    refs = [passage.ref for passage in passages_of(store, "gone")]
    with store.transaction() as tx:
        assert tx.delete([doomed.id, "unknown"]) == 2
    assert by_keyword(store, "apple") == ["kept"]
    assert by_vector(store, 1, 1, 0, 0) == []
    assert cosines(store, X, refs) == {}
    assert store.hydrate(refs) == {}
    assert store.load([doomed.id]) == []
    assert store.find("gone", EVERYTHING) == []
    assert [d.key for d in store.scan(EVERYTHING)] == ["kept"]
    assert is_sound(store)


# find


def test_things_are_found_by_every_name_they_have(store: Store) -> None:
    [done] = write(store, entry("notes/a.md", "one ", "two", id="aabbccddeeffg"))
    second = passages_of(store, "notes/a.md")[1]
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
    write(store, entry("notes/a.md", "one ", "two", id="aabbccddeeffg"))
    assert store.find(name, EVERYTHING) == []


def test_an_ambiguous_prefix_finds_all_that_it_fits(store: Store) -> None:
    write(store, entry("a", "one", id="aaaaaaaaaaaab"), entry("b", "two", id="aaaaaaaaaaaac"))
    row = entry("c", "three")
    write(store, row._replace(passages=[row.passages[0]._replace(id="aaaaaaaaaaaad")]))
    assert sorted(d.key or "" for d, _ in store.find("aaaaaaaa", EVERYTHING)) == ["a", "b", "c"]


def test_a_key_is_read_as_a_key_before_it_is_read_as_a_passage(store: Store) -> None:
    write(store, entry("k", "one ", "two"), entry("k-1", "three"))
    [(named, passage)] = store.find("k-1", EVERYTHING)
    assert (named.key, passage) == ("k-1", None)


def test_a_key_is_looked_up_where_the_filter_says(store: Store) -> None:
    write(store, entry("k", "one", project="p"), entry("k", "two"))
    assert len(store.find("k", EVERYTHING)) == 2
    assert [d.project for d, _ in store.find("k", Filter(projects=("p",)))] == ["p"]
    assert [d.project for d, _ in store.find("k-0", Filter(projects=("p",)))] == ["p"]


def test_an_id_is_looked_up_where_the_filter_says(store: Store) -> None:
    write(store, entry("k", "one", project="p", id="aabbccddeeffg"))
    passage = passages_of(store, "k")[0]
    for name in ("aabbccddeeffg", "aabbccddeeffg-0", "aabbcc", passage.id, passage.id[:7]):
        assert len(store.find(name, Filter(projects=("p",)))) == 1
        assert store.find(name, Filter(projects=("q", None))) == []


# scan


def test_a_scan_is_newest_first_and_pages_without_gap_or_repeat(store: Store) -> None:
    moments = [5, 3, 3, 3, 9, 1, 3]
    write(store, *[entry(f"{n}", "x", event_at=moment) for n, moment in enumerate(moments)])
    whole = store.scan(EVERYTHING)
    assert [d.event_at for d in whole] == sorted(moments, reverse=True)
    assert all(d.text == "" for d in whole)
    paged: list[Document] = []
    cursor: tuple[int, str] | None = None
    while page := store.scan(EVERYTHING, limit=2, before=cursor):
        paged += page
        cursor = (page[-1].event_at or 0, page[-1].id)
    assert paged == whole


def test_a_scan_goes_both_ways_from_a_cursor_and_never_shows_it(store: Store) -> None:
    ids = [f"{letter * 13}" for letter in "abcdefg"]
    moments = [1, 2, 2, 2, 2, 3, 4]
    rows = zip(ids, moments, strict=True)
    write(store, *[entry(id_, "x", id=id_, event_at=moment) for id_, moment in rows])
    for place, id_ in enumerate(ids):
        cursor = (moments[place], id_)
        after = store.scan(EVERYTHING, after=cursor, limit=2)
        before = store.scan(EVERYTHING, before=cursor, limit=2)
        assert [d.id for d in after] == ids[place + 1 : place + 3]
        assert [d.id for d in before] == ids[max(0, place - 2) : place][::-1]


def test_documents_come_in_the_order_of_their_writing_however_often_replaced(store: Store) -> None:
    for key in ("b", "a", "c", "b"):
        write(store, entry(key, f"text of {key}"))
    written = store.scan(EVERYTHING, by_writing=True, whole=True)
    assert [(d.key, d.text) for d in written] == [
        ("b", "text of b"),
        ("a", "text of a"),
        ("c", "text of c"),
    ]
    assert [d.text for d in store.scan(Filter(keys=("a",)), by_writing=True)] == [""]
    assert [d.key for d in store.scan(EVERYTHING, by_writing=True, limit=2)] == ["b", "a"]


def test_the_moment_of_creation_comes_before_the_order_of_writing(store: Store) -> None:
    write(store, entry("imported", "x", created_at=9), entry("older", "x", created_at=3))
    assert [d.key for d in store.scan(EVERYTHING, by_writing=True)] == ["older", "imported"]


# values of all kinds


@pytest.mark.parametrize("value", ["\udcff", "a\ud800"])
def test_text_that_is_no_unicode_is_refused(store: Store, value: str) -> None:
    for act in (
        lambda: store.find(value, EVERYTHING),
        lambda: write(store, entry("k", "x", title=value)),
        lambda: store.scan(Filter(source=value)),
        lambda: write(store, entry(None, value)),
    ):
        with pytest.raises(UsageError):
            act()
    assert store.stats().doc_count == 0


def test_a_number_past_64_bits_is_refused(store: Store) -> None:
    with pytest.raises(UsageError):
        write(store, entry("k", "x", event_at=2**70))


def test_metadata_and_tags_may_hold_anything(store: Store) -> None:
    odd = {"a'b\"c": "日本 \n\t\\", "": "", "nul": "a\0b"}
    write(store, entry("k", "x", metadata=odd, tags=("", "two words", "[]", "{}")))
    [back] = store.scan(EVERYTHING)
    assert back.metadata == odd
    assert back.tags == ("", "two words", "[]", "{}")
    assert json.dumps(back.metadata)


@pytest.mark.parametrize(
    "text", ["a\0b", "\0", "  \n\t ", "é é", "🦊" * 40, "'; DROP TABLE documents; --", '"%_*']
)
def test_any_text_comes_back_as_it_was(store: Store, text: str) -> None:
    [done] = write(store, entry(text.replace("\0", "") + "k", text, title=text))
    [back] = store.load([done.id])
    assert (back.text, back.title) == (text, text)
    assert store.passages(done.id)[0].text == text


def test_the_order_of_writing_does_not_depend_on_ids_or_refs(store: Store) -> None:
    ids = [new_id() for _ in range(12)]
    for id_ in ids:
        write(store, entry(None, f"text {id_}", id=id_))
    assert [d.id for d in store.scan(EVERYTHING, by_writing=True)] == ids


def test_the_key_of_a_message_is_the_last_thing_that_a_name_means(store: Store) -> None:
    spoken: Fields = {"kind": "message", "session": "s", "source": "session:s"}
    for turn, name in enumerate(("n", "n-0", "abcdefgh"), start=1):
        write(store, entry(name, f"spoken {name}", turn=turn, **spoken))
        assert [row.kind for row, _ in store.find(name, EVERYTHING)] == ["message"]
    write(store, entry("n", "a note", id="abcdefghijklm"))
    for name in ("n", "n-0", "abcdefgh"):
        assert {row.kind for row, _ in store.find(name, EVERYTHING)} == {"note"}
