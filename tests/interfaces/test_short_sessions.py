"""Every verb that takes a session knows an imported one by the short name that answers show."""

import json

import pytest

from plait import AmbiguousId, Document, Memory
from plait.tools import run
from tests.agents.test_claude_code import answer, text, transcript, user

SHOP = "/nowhere/shop"
OURS = "33333333-0000-4000-8000-000000000001"
OTHER = "44444444-0000-4000-8000-000000000002"
ALIKE = "44444444-0000-4000-8000-000000000003"
SHORT = "claude-code:33333333"
TWO = "claude-code:44444444"
IN_SHOP = ("--project", SHOP)


@pytest.fixture
def sessions(plait, home):
    for name in (OURS, OTHER, ALIKE):
        start = name[:2] + name[-1]
        transcript(
            home,
            user(f"u{start}", f"why is the zebra {name[-1]} striped", cwd=SHOP),
            answer(f"a{start}", text("because zebras are"), id=f"msg_{start}"),
            session=name,
        )
    assert plait("import", "claude-code").json["messages"] == 6
    return plait


@pytest.mark.parametrize(
    "words",
    [
        ("search", "zebra", "--session"),
        ("recall", "zebra", "--session"),
        ("timeline", "--session"),
        ("delete", "--dry-run", "--session"),
        ("export", "--session"),
    ],
    ids=lambda words: words[0],
)
def test_a_short_name_means_the_session_that_begins_so(sessions, words):
    done = sessions(*words, SHORT, *IN_SHOP)
    assert done.code == 0
    assert "u331" in done.out
    assert not [key for key in ("u442", "u443") if key in done.out]


@pytest.mark.parametrize(
    "words",
    [
        ("get",),
        ("search", "zebra", "--session"),
        ("recall", "zebra", "--session"),
        ("timeline", "--session"),
        ("delete", "--session"),
        ("export", "--session"),
    ],
    ids=lambda words: words[0],
)
def test_a_short_name_of_two_sessions_is_refused_by_name(sessions, words):
    done = sessions(*words, TWO, *IN_SHOP, "--format", "text")
    assert done.code not in (0, 3)
    assert f"'{TWO}' matches 2 sessions" in done.err
    assert sessions("stats", *IN_SHOP).json["doc_count"] == 6


def test_a_delete_takes_one_session_and_names_too_short_none(sessions):
    assert sessions("delete", "--session", "claude-code:3333333", *IN_SHOP).code == 3
    gone = sessions("delete", "--session", SHORT, *IN_SHOP).json
    assert len(gone["ids"]) == 2
    assert sessions("stats", *IN_SHOP).json["doc_count"] == 4


def test_a_session_of_exactly_that_name_comes_first(sessions):
    with Memory.open(project=SHOP) as memory:
        own = Document(key="own", text="zebra crossing", session=SHORT)
        memory.store_many([own])  # it takes documents as they are
    gone = sessions("delete", "--dry-run", "--session", SHORT, *IN_SHOP).json
    assert gone["doc_ids"] == ["own"]
    assert "zebra 1" in sessions("get", SHORT, *IN_SHOP, "--format", "text").out


def test_filters_in_python_take_short_names(sessions, home):
    with Memory.open(project=SHOP) as memory:
        hits = memory.search("zebra", where={"session": SHORT})
        assert {hit.document.session for hit in hits} == {f"claude-code:{OURS}"}
        assert len(memory.timeline(where={"session": SHORT})) == 2
        with pytest.raises(AmbiguousId):
            memory.delete(where={"session": TWO})


TURN = {"role": "user", "content": "and the okapi?"}
STORING = {
    "store": lambda memory, name: memory.store("A zebra fact.", session=name),
    "a message": lambda memory, name: memory.store("Why?", role="user", session=name),
    "add_messages": lambda memory, name: memory.add_messages([TURN], session=name),
    "tool": lambda memory, name: run(memory, "memory_store", {"text": "Zebras.", "session": name}),
}


@pytest.mark.parametrize("door", STORING)
def test_what_is_stored_under_a_short_name_joins_the_session_that_begins_so(sessions, door):
    with Memory.open(project=SHOP) as memory:
        STORING[door](memory, SHORT)
        newest = memory.timeline(limit=1)[0]
        assert newest.session == f"claude-code:{OURS}"
        if newest.kind == "message":
            assert memory.conversation(SHORT)[-1].id == newest.id


def test_commands_that_store_join_it_too(sessions, home):
    turns = home / "turns.json"
    turns.write_text(json.dumps([TURN]), encoding="utf-8")
    for words in (["Zebras graze.", "--role", "user"], ["--messages", str(turns)]):
        assert sessions("store", *words, "--session", SHORT, *IN_SHOP).code == 0
    told = sessions("get", SHORT, *IN_SHOP, "--format", "text").out
    assert told.index("zebra 1") < told.index("Zebras graze.") < told.index("okapi")


def test_a_name_that_begins_several_sessions_stores_nothing(sessions):
    with Memory.open(project=SHOP) as memory:
        for store in (STORING["store"], STORING["add_messages"]):
            with pytest.raises(AmbiguousId):
                store(memory, TWO)
        assert "error" in STORING["tool"](memory, TWO)
        assert memory.stats().doc_count == 6


@pytest.mark.parametrize("name", ["claude-code:3333", "codex:33333333", "standup", "a:b"])
def test_a_name_that_begins_no_session_is_a_session_of_its_own(sessions, name):
    with Memory.open(project=SHOP) as memory:
        STORING["a message"](memory, name)
        assert memory.timeline(limit=1)[0].session == name
    with Memory.open(project="elsewhere") as memory:
        STORING["a message"](memory, SHORT)
        assert memory.timeline(limit=1)[0].session == SHORT


def test_a_short_name_is_known_after_an_undo_that_was_taken_back(sessions):
    undone = sessions("import", "--undo").json
    assert undone["messages"] == 6
    assert sessions("get", SHORT, *IN_SHOP).code == 3
    assert sessions("delete", "--undo").code == 0
    assert sessions("timeline", "--session", SHORT, *IN_SHOP).code == 0
    assert "zebra 1" in sessions("get", SHORT, *IN_SHOP).out
    assert sessions("import", "--undo").json["messages"] == 6


@pytest.mark.parametrize("form", ["lines", "folder"])
def test_a_short_name_is_known_where_an_export_was_imported(sessions, home, form):
    words, place = (["--format", "markdown"], "md") if form == "folder" else ([], "all.jsonl")
    assert sessions("export", *words, str(home / place), *IN_SHOP).code == 0
    other = ("--db", str(home / "other.db"))
    assert sessions("import", str(home / place), *other).code == 0
    read = sessions("get", SHORT, *IN_SHOP, *other)
    assert (read.code, "zebra 1" in read.out, "zebra 2" in read.out) == (0, True, False)
    assert sessions("get", TWO, *IN_SHOP, *other).code == 2
    # What the export brought is no import of an agent's history.
    assert sessions("import", "--undo", *other).code == 3
    assert sessions("import", str(home / place), *other).code == 0


def test_a_session_that_only_looks_imported_is_not_named_in_short(plait, home):
    name = f"claude-code:{OURS}"
    for metadata in ({}, {"agent": "codex"}):
        turn = {"kind": "message", "text": "hi", "session": name, "role": "user", "turn": 1}
        (home / "e.jsonl").write_text(json.dumps({**turn, "metadata": metadata}), encoding="utf-8")
        assert plait("import", str(home / "e.jsonl")).code == 0
    assert plait("get", SHORT).code == 3


def test_a_scope_imports_the_sessions_of_an_export(sessions, home):
    assert sessions("export", str(home / "all.jsonl"), *IN_SHOP).code == 0
    lines = (home / "all.jsonl").read_text(encoding="utf-8").splitlines()
    with Memory.open(":memory:", project="") as memory:
        assert memory.scope("user:7").import_lines(lines).added == 6
        assert memory.scope("user:7").conversation(f"claude-code:{OURS}")
