"""review, mark, feedback and log at the command line and over MCP; one key each, and undo."""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from plait.cli import Output, arguments_for, main
from plait.cli import review as review_module
from plait.cli.review import Settling
from plait.memory import Memory
from plait.memory.review import review
from plait.present.review import calls_of, commands_of, entry_line, item_lines
from plait.types.audit import AuditEntry
from plait.types.review import Review, ReviewItem
from tests.mcp.talk import call, converse, text_of

PLACES = (
    *("sofa", "garden", "window", "kitchen", "attic", "cellar", "roof", "hall", "shed", "car"),
    "bed",
)
FIRST, SECOND = "The API listens on port 8080", "The API listens on port 8443"


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    path = str(tmp_path / "memory.db")
    monkeypatch.setenv("PLAIT_DB_PATH", path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with Memory.open(path, project="", embedder="builtin") as memory:
        memory.store(FIRST)
        memory.store(SECOND)
        memory.store("The otter lives in the lagoon", key="otter")
    return path


def run(capsys: Any, *words: str, code: int = 0) -> Any:
    assert main([*words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


# -- at the command line ---------------------------------------------------------------------


def test_a_review_lists_findings_with_their_exact_commands(database: str, capsys: Any) -> None:
    told = run(capsys, "review")
    assert (told["count"], told["counts"]) == (1, {"contradiction": 1})
    [item] = told["results"]
    assert [*item] == [
        *("kind", "ids", "why", "project", "action", "commands", "excerpts", "groups")
    ]
    [command] = item["commands"]
    assert main(command.split()[1:]) == 0
    capsys.readouterr()
    assert run(capsys, "review", code=3) == {"results": [], "count": 0, "counts": {}}


def test_a_review_is_text_for_people_and_says_what_it_left_out(database: str, capsys: Any) -> None:
    with Memory.open(database, project="", embedder="none") as memory:
        for name in ("cup", "pot", "pan"):
            memory.store(f"The {name} hangs on the wall", key=name)
            memory.store(f"The {name} hangs on the wall!", key=f"{name}2")
    assert main(["review", "--format", "text", "--limit", "2"]) == 0
    told = capsys.readouterr()
    assert "→ plait mark " in told.out
    assert FIRST in told.out
    assert "2 more; see --limit" in told.err
    assert main(["review", "--kind", "nonsense"]) == 2
    assert main(["review", "--kind", "secret,orphan"]) == 3


def test_a_finding_of_another_project_names_it(database: str, capsys: Any) -> None:
    with Memory.open(database, project="north", embedder="none") as memory:
        memory.store("The door code has 4 digits")
        memory.store("The door code has 6 digits")
    items = run(capsys, "review", "--all-projects", "--project", "south")["results"]
    [item] = [item for item in items if item["project"] == "north"]
    assert " --project north " in item["commands"][0]
    assert main(item["commands"][0].split()[1:]) == 0


def test_mark_and_feedback(database: str, capsys: Any) -> None:
    id_ = run(capsys, "mark", "otter", "--status", "done")["marked"][0]
    assert run(capsys, "get", "otter")["results"][0]["status"] == "done"
    assert run(capsys, "search", "otter", "--status", "done")["results"][0]["status"] == "done"
    assert run(capsys, "search", "otter", "--status", "archived", code=3)["results"] == []
    assert run(capsys, "feedback", "otter", "good") == {"id": id_, "verdict": "good"}
    explained = run(capsys, "search", "otter", "--explain")["results"][0]["reasons"]
    assert any("feedback 1.1000 (1 good, 0 wrong), status 0.9000" in line for line in explained)
    assert run(capsys, "feedback", "otter", "none")["verdict"] is None
    assert main(["feedback", "otter", "wrong", "--format", "text"]) == 0
    assert main(["feedback", "otter", "none", "--format", "text"]) == 0
    assert main(["mark", "otter", "--status", "archived", "--format", "text"]) == 0
    shown = capsys.readouterr()
    assert "Took all feedback" in shown.out
    [command] = [line for line in shown.err.splitlines() if "--status active" in line]
    run(capsys, *command.partition("  #")[0].split()[1:])
    assert run(capsys, "get", "otter")["results"][0]["status"] == "active"
    assert main(["mark", "otter"]) == 2
    run(capsys, "store", "The otter plays", "--key", "play")
    assert main(["mark", "otter", "--superseded-by", "play", "--format", "text"]) == 0
    assert " --not-superseded  # take it back" in capsys.readouterr().err
    assert main(["mark", "otter", "--superseded-by", "play", "--not-superseded"]) == 2
    capsys.readouterr()
    assert run(capsys, "mark", "otter", "--not-superseded")["marked"] == [id_]
    assert main(["feedback", "nobody", "good"]) == 3


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["mark", "otter", "--status", "done"], "Marked otter."),
        (["feedback", "otter", "good"], "Noted that otter was good (1 passage)."),
        (["feedback", "otter", "none"], "Took all feedback on otter back."),
    ],
    ids=" ".join,
)
def test_an_answer_has_the_name_that_was_typed(
    database: str, capsys: Any, words: list[str], answer: str
) -> None:
    assert main([*words, "--format", "text"]) == 0
    told = capsys.readouterr()
    assert told.out == f"{answer}\n"
    assert not told.err or f"plait {words[0]} otter " in told.err


def test_log_tells_who_changed_what(database: str, capsys: Any) -> None:
    run(capsys, "mark", "otter", "--status", "done")
    newest, *others = run(capsys, "log")["results"]
    assert (newest["door"], newest["who"], newest["verb"]) == ("cli", "user", "mark")
    assert len(newest["before"]) == len(newest["after"]) == 32
    assert {row["door"] for row in others} == {"library"}
    assert run(capsys, "log", "--door", "cli")["count"] == 1
    assert run(capsys, "log", "otter")["count"] == 2
    assert run(capsys, "log", newest["id"], "--verb", "store")["count"] == 1
    hit = run(capsys, "search", "otter")["results"][0]["id"]
    for name in (hit, hit[:8]):
        assert run(capsys, "log", name)["count"] == 2, "a search shows ids of passages"
    assert run(capsys, "log", "--since", "1h", "--origin", "user", "--limit", "1")["count"] == 4
    for words in (("--door", "mcp"), ("--session", "s"), ("--verb", "erase"), ("--origin", "web")):
        assert run(capsys, "log", *words, code=3)["count"] == 0
    assert main(["log", "--format", "text", "--limit", "1"]) == 0
    line = capsys.readouterr().out
    assert f"cli mark by user  {newest['id'][:8]}" in line
    assert "otter" not in line


def test_log_names_a_purge_without_its_documents(database: str, capsys: Any) -> None:
    run(capsys, "delete", "otter", "--purge")
    newest = run(capsys, "log")["results"][0]
    assert (newest["verb"], newest["id"]) == ("purge", None)
    assert main(["log", "--format", "text", "--limit", "1"]) == 0
    assert "cli purge by user" in capsys.readouterr().out


# -- in a terminal ---------------------------------------------------------------------------


def settle(database: str, keys: Iterable[str], capsys: Any, results: Review | None = None) -> str:
    """Press some keys for the findings of a memory; return what was shown."""
    _, arguments = arguments_for(["--format", "text", "review"])
    pressed = iter(keys)
    with Memory.open(database, project="", embedder="builtin") as memory:
        shown = review(memory) if results is None else results
        Settling(memory, Output(arguments), lambda: next(pressed, "")).run(shown)
    told = capsys.readouterr()
    return str(told.out + told.err)


def exported(database: str) -> list[str]:
    with Memory.open(database, project="", embedder="builtin") as memory:
        return list(memory.export())


@pytest.mark.parametrize("key", ["y", "d", "a"])
def test_one_key_settles_and_one_takes_it_back(database: str, capsys: Any, key: str) -> None:
    with Memory.open(database, project="", embedder="builtin") as memory:
        memory.store("The cup hangs on the wall", key="cup")
        memory.store("The cup hangs on the wall!", key="cup2")
        memory.get("cup2")
        memory.write_down_use()
        assert review(memory).total == 2
    before = exported(database)
    told = settle(database, f"{key}uun", capsys)
    assert "Took back: " in told
    assert "Nothing to undo." in told
    assert "0 changes made." in told
    assert exported(database) == before
    told = settle(database, f"x{key}n", capsys)
    assert "1 change made." in told
    assert exported(database) != before


def test_keys_that_leave_everything_as_it_is(database: str, capsys: Any) -> None:
    before = exported(database)
    for keys in ("n", "q", "", "\x04", "\0"):
        assert "0 changes made." in settle(database, keys, capsys)
    assert exported(database) == before


def test_a_purge_asks_twice_and_cannot_be_undone(database: str, capsys: Any) -> None:
    with Memory.open(database, project="", embedder="none") as memory:
        memory.store("password = 'x7-Kqz92!fWm'", key="secret")
        secrets = review(memory, ["secret"])
    assert "0 changes made." in settle(database, "ynq", capsys, secrets)
    assert "0 changes made." in settle(database, "yyyyq", capsys, secrets), "a key held down"
    told = settle(database, "yp", capsys, secrets)
    assert "Purged " in told
    assert "Kqz92" not in told
    with Memory.open(database, project="", embedder="none") as memory:
        assert review(memory, ["secret"]).total == 0
        memory.store("password = 'x7-Kqz92!fWm'", key="secret")
        memory.store("password = 'y7-Kqz92!fWm'", key="other")
        both = review(memory, ["secret"])
    told = settle(database, "aypuuq", capsys, both)
    assert "Took back: Archived " in told
    assert "A purge cannot be undone." in told
    assert "1 change made." in told


@pytest.mark.parametrize("keys", ["yp", "d"])
def test_that_the_file_stays_is_told(database: str, capsys: Any, tmp_path: Path, keys: str) -> None:
    path = tmp_path / "notes" / "router.md"
    path.parent.mkdir()
    path.write_text("password = 'x7-Kqz92!fWm'", encoding="utf-8")
    with Memory.open(database, project="", embedder="none") as memory:
        memory.ingest(path)
        results = review(memory, ["secret"])
    capsys.readouterr()
    _, arguments = arguments_for(["--format", "text", "review"])
    pressed = iter(keys)
    with Memory.open(database, project="", embedder="none") as memory:
        Settling(memory, Output(arguments), lambda: next(pressed, "")).run(results)
    assert f"the file is still at {path}" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["y", "d", "a"])
def test_what_changed_since_the_review_is_left_alone(database: str, capsys: Any, key: str) -> None:
    with Memory.open(database, project="", embedder="none") as memory:
        memory.store("The cup hangs on the wall", key="cup")
        memory.store("The cup hangs on the wall!", key="cup2")
        results = review(memory, ["duplicate"])
        changed = memory.lookup(results.items[0].ids[0])[0].key

    def keys() -> Iterator[str]:
        with Memory.open(database, project="", embedder="none") as other:
            other.store("Quite another text", key=changed)
        yield from (key, "q")

    told = settle(database, keys(), capsys, results)
    assert "has changed since" in told
    assert "0 changes made." in told
    with Memory.open(database, project="", embedder="none") as memory:
        assert memory.lookup(changed or "")[0].text == "Quite another text"
        assert memory.lookup(changed or "")[0].status is None


def test_a_split_moves_facts(database: str, capsys: Any) -> None:
    with Memory.open(database, project="", embedder="builtin") as memory:
        for animal in ("Cats", "Birds"):
            for place in PLACES:
                memory.store(f"{animal} like the {place} most", entity="Zoo")
        large = review(memory, ["oversized"])
    before = exported(database)
    told = settle(database, "yuq", capsys, large)
    assert "[u] undo the last one" in told
    assert "0 changes made." in told
    assert exported(database) == before, "all of it is one act"
    assert "Moved 11 facts to Zoo: " in settle(database, "y", capsys, large)
    with Memory.open(database, project="", embedder="builtin") as memory:
        assert {"Zoo: cats", "Zoo: birds"} <= {row.name for row in memory.graph.read().entities}
        large = review(memory, ["oversized"])
        assert large.items == ()
    assert exported(database) != before


def test_one_key_takes_a_whole_split_back(database: str, capsys: Any) -> None:
    with Memory.open(database, project="", embedder="builtin") as memory:
        for animal in ("Cats", "Birds"):
            for place in PLACES:
                memory.store(f"{animal} like the {place} most", entity="Zoo")
        large = review(memory, ["oversized"])
    before = exported(database)
    assert len(large.items[0].groups) > 1
    assert "0 changes made." in settle(database, "yuq", capsys, large)
    assert exported(database) == before
    lost = large.items[0].groups[0][1][0]
    with Memory.open(database, project="", embedder="builtin") as memory:
        memory.delete(lost)
        before = exported(database)
    groups = (large.items[0].groups[1], large.items[0].groups[0])
    partly = large._replace(items=(large.items[0]._replace(groups=groups),))
    assert "0 changes made." in settle(database, "yq", capsys, partly)
    assert exported(database) == before


def test_undo_returns_to_its_finding_also_from_the_end(database: str, capsys: Any) -> None:
    before = exported(database)
    told = settle(database, "auxnu", capsys)
    assert told.count("1 of 1") == 2
    assert "[u] undo the last one" in told
    assert exported(database) == before
    assert "1 change made." in settle(database, "axq", capsys)
    assert exported(database) != before


def test_what_cannot_be_taken_back_is_told_and_the_review_goes_on(
    database: str, capsys: Any
) -> None:
    with Memory.open(database, project="", embedder="builtin") as memory:
        [item] = review(memory).items
        pressed = iter("d*unq")

        def key() -> str:
            """Press a key; at the star, somebody else takes what was deleted away for good."""
            if (pressing := next(pressed, "")) == "*":
                memory.delete(item.ids[0], purge=True)
            return pressing

        _, arguments = arguments_for(["--format", "text", "review"])
        Settling(memory, Output(arguments), key).run(Review((item, item), (("orphan", 2),)))
    told = capsys.readouterr()
    assert "was deleted in the last 30 days" in told.err
    assert "0 changes made." in told.out


@pytest.mark.parametrize("key", ["y", "d", "a"])
def test_a_finding_of_another_project_is_settled_and_taken_back(
    tmp_path: Path, capsys: Any, key: str
) -> None:
    path = str(tmp_path / "projects.db")
    with Memory.open(path, project="north", embedder="none") as memory:
        memory.store("The door code has 4 digits")
        memory.store("The door code has 6 digits")
    _, arguments = arguments_for(["--format", "text", "review"])
    with Memory.open(path, project="south", embedder="none") as memory:
        before = list(memory.export(all_projects=True))
        for keys in (f"{key}uq", f"{key}q"):
            pressed = iter(keys)
            settling = Settling(memory, Output(arguments), partial(next, pressed, ""))
            settling.run(review(memory, all_projects=True))
            assert (list(memory.export(all_projects=True)) == before) == ("u" in keys)
    assert "plait:" not in capsys.readouterr().err


def test_what_is_gone_meanwhile_is_told_and_the_next_is_asked(database: str, capsys: Any) -> None:
    with Memory.open(database, project="", embedder="none") as memory:
        results = review(memory)
        memory.delete(results.items[0].ids[0], purge=True)
    assert "0 changes made." in settle(database, "yn", capsys, results)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A terminal as standard input; what is written to it are keys."""
    pty = pytest.importorskip("pty", reason="no terminals here")
    tty = pytest.importorskip("tty", reason="no terminals here")
    ours, theirs = pty.openpty()
    tty.setcbreak(theirs)  # else a key counts only with the line's end behind it
    with os.fdopen(theirs, "r", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        yield ours
    os.close(ours)


def test_keys_are_read_one_by_one_from_a_terminal(
    database: str, terminal: int, capsys: Any
) -> None:
    os.write(terminal, b"y")
    assert review_module.read_key() == "y"
    os.write(terminal, b"n")
    assert main(["review", "--format", "text"]) == 0
    told = capsys.readouterr().out
    assert "[y] do it" in told
    assert "0 changes made." in told
    assert main(["review", "--format", "text", "--list"]) == 0
    assert "[y] do it" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "sent",
    [b"\x1b[D", b"\x1b[A", b"\x1b[1;5D", b"\x1b[3~", b"\x1bOD", b"\x1ba", b"\x1b"],
    ids=["left", "up", "ctrl-left", "delete", "keypad", "alt-a", "escape"],
)
def test_a_key_that_sends_letters_settles_nothing(
    database: str, terminal: int, capsys: Any, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = exported(database)
    if sent == b"\x1b":
        monkeypatch.setattr(review_module, "TOGETHER_S", 0)
        os.write(terminal, sent)
        assert review_module.read_key() == "\x1b"
        return
    os.write(terminal, sent + b"n")
    assert main(["review", "--format", "text"]) == 0
    assert "0 changes made." in capsys.readouterr().out
    assert exported(database) == before


# -- over MCP --------------------------------------------------------------------------------


def test_agents_review_and_settle(database: str) -> None:
    with Memory.open(database, project="", embedder="builtin") as memory:
        reply = call(memory, "memory_review", {}, profiles=["review"])
        told = text_of(reply)
        assert told.startswith("<<plait-recall")
        assert "Ask the user before you settle any of them." in told
        [item] = reply.structured_content["results"]
        assert item["commands"][0].startswith("memory_mark(ids=[")
        old, new = item["ids"]
        given = {"ids": [old], "superseded_by": new}
        assert old in text_of(call(memory, "memory_mark", given, profiles=["review"]))
        reply = call(memory, "memory_review", {}, profiles=["review"])
        assert text_of(reply) == "Nothing to settle."
        assert memory.log()[0].door == "mcp"
        for verdict in ("good", "none"):
            given = {"ids": ["otter"], "feedback": verdict}
            assert verdict in text_of(call(memory, "memory_mark", given, profiles=["review"]))
        for wrong in ({"feedback": "good", "status": "done"}, {}, {"status": "gone"}):
            given = {"ids": ["otter"], **wrong}
            assert call(memory, "memory_mark", given, profiles=["review"]).is_error


def test_feedback_of_agents_counts_once_or_not_at_all(database: str) -> None:
    with Memory.open(database, project="", embedder="none") as memory:
        id_ = memory.lookup("otter")[0].id

        def given(*ids: str) -> bool:
            arguments = {"ids": [*ids], "feedback": "good"}
            return not call(memory, "memory_mark", arguments, profiles=["review"]).is_error

        def good() -> int:
            [part] = memory.engine.passages(id_)
            use = memory.engine.hydrate([part.ref], ranking=True)[part.ref].use
            return 0 if use is None else use.good

        assert not given("otter", "nobody")
        assert good() == 0
        assert given("otter", id_, id_[:8])
        assert good() == 1


def test_agents_get_no_call_for_what_they_cannot_settle(database: str) -> None:
    with Memory.open(database, project="north", embedder="none") as memory:
        memory.store("The door code has 4 digits")
        memory.store("The door code has 6 digits")
    given = {"all_projects": True, "kinds": ["contradiction"]}
    with Memory.open(database, project="south", embedder="none") as memory:
        told = (call(memory, "memory_review", given, profiles=["review"]).structured_content or {})[
            "results"
        ]
    commands = {item["project"]: item["commands"][0] for item in told}
    assert commands["north"] == "ask the user to settle it in project north"
    assert commands[None].startswith("memory_mark(")


def test_a_long_review_fits_its_budget(database: str) -> None:
    with Memory.open(database, project="", embedder="none") as memory:
        for number in range(30):
            name = "abcdefghijklmnopqrstuvwxyzäöüß"[number] * 5
            memory.store(f"The {name} hangs on the wall", key=f"a{number}")
            memory.store(f"The {name} hangs on the wall!", key=f"b{number}")
        given = {"kinds": ["duplicate"], "max_tokens": 300}
        reply = call(memory, "memory_review", given, profiles=["review"])
        assert "left out: raise limit or max_tokens" in text_of(reply)
        data = reply.structured_content or {}
        assert len(data["results"]) + data["left_out"] == 30


def test_the_profile_has_two_short_tools(database: str) -> None:
    from plait.searching.recall import tokens_of

    with Memory.open(database, project="", embedder="none") as memory:
        listed = converse(memory, lambda client: client.list_tools(), profiles=["review"])
    assert [tool.name for tool in listed.tools] == ["memory_review", "memory_mark"]
    wire = [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed.tools]
    assert tokens_of(json.dumps(wire, ensure_ascii=False, separators=(",", ":"))) <= 500


# -- commands --------------------------------------------------------------------------------

NAME = 'Zoo: it\'s "big"; rm -r ~'
ITEMS = {
    "supersede": (
        ("plait mark a --superseded-by b",),
        ('memory_mark(ids=["a"], superseded_by="b")',),
    ),
    "archive": (
        ("plait mark a --status archived",),
        ('memory_mark(ids=["a"], status="archived")',),
    ),
    "delete": (("plait delete a",), ('memory_delete(ids=["a"])',)),
    "purge": (("plait delete a --purge",), ("ask the user to purge it",)),
    "split": (
        ("""plait mark b c --entity 'Zoo: it'"'"'s "big"; rm -r ~'""",),
        (r"""memory_mark(ids=["b", "c"], entity="Zoo: it's \"big\"; rm -r ~")""",),
    ),
}


@pytest.mark.parametrize("action", ITEMS)
def test_each_action_has_its_command_and_its_call(action: Any) -> None:
    item = ReviewItem("stale", ("a", "b"), "why", action, ("x", "y"), None, ((NAME, ("b", "c")),))
    assert (commands_of(item), calls_of(item)) == ITEMS[action]
    hidden = item._replace(excerpts=())
    assert item_lines(hidden, ())[1:] == ["  a", "  b"]


def test_an_entry_of_a_foreign_file_stays_on_its_line() -> None:
    odd = "\x1b[2J\n"
    line = entry_line(AuditEntry(1, odd, odd, odd, odd, None, odd, b"1", None))
    assert "\n" not in line
    assert "\x1b" not in line
