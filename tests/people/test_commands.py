"""plait team, --visibility and what is shown of it, by commands of members."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from plait import Memory
from plait.cli import main
from plait.memory.responses import response_cache
from plait.protocols.transaction import Transaction
from plait.settings.loading import load
from plait.stores.postgres.store import PostgresStore
from plait.types import EVERYTHING, Document
from plait.types.ids import CACHED_ANSWER
from plait.types.reports import NewEntity
from tests.interfaces.test_json_shapes import differences, documented
from tests.people.conftest import Opened, Team
from tests.people.filling import fill
from tests.postgres.statements import Sent, recorded

Run = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def run(team: Team, capsys: pytest.CaptureFixture[str]) -> Run:
    def ran(role: str | None, *words: str) -> tuple[int, Any, str]:
        capsys.readouterr()
        code = main(["--db", team.address(role), "--embedder", "none", "--json", *words])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out.startswith("{") else out, err

    return ran


def test_a_stranger_is_told_the_command_of_an_owner_without_his_own_address(
    team: Team, run: Run
) -> None:
    ana, zoe = team.person("ana"), team.person("zoe")
    assert run(None, "team", "add", ana, "--role", "owner")[0] == 0
    code, _, told = run(zoe, "search", "x")
    assert (code, told.rstrip().endswith(f"An owner can run: plait team add {zoe}")) == (1, True)
    code, _, told = run(ana, "store", "x", "--project", "shop", "--visibility", "project")
    expected = f"An owner can run: plait team add {ana} --project shop"
    assert (code, told.rstrip().endswith(expected)) == (2, True)


def test_a_team_by_commands(team: Team, run: Run) -> None:
    ana, ben = team.person("ana"), team.person("ben")

    def answer(role: str | None, *words: str) -> Any:
        given = run(role, "team", *words)[1]
        assert differences(given, documented(f"team {words[0]}"), "") == []
        return given

    assert run(None, "team", "add", ana, "--role", "owner")[0] == 0
    added = answer(None, "add", ben, "--project", "shop")["member"]
    assert added == {"name": ben, "role": "writer", "projects": ["shop"]}
    assert answer(ana, "role", ben, "reader")["member"]["role"] == "reader"
    listed = answer(ben, "list")["members"]
    assert [(row["name"], row["role"]) for row in listed] == [(ana, "owner"), (ben, "reader")]
    code, _, told = run(ben, "store", "x", "--key", "y")
    assert (code, f"{ben} is a reader of the memory" in told) == (1, True)
    # The owner runs it: with the reader's own address, it would be refused again.
    assert told.rstrip().endswith(f"An owner can run: plait team role {ben} writer")
    code, _, told = run(ben, "team", "remove", ana)
    assert (code, "reader" in told) == (1, True)
    assert answer(ana, "remove", ben)["removed"] is True
    code, _, told = run(ben, "search", "x")
    assert (code, f"team add {ben}" in told) == (1, True)
    verbs = [(row["verb"], row["id"]) for row in run(ana, "log", "--verb", "team")[1]["results"]]
    assert verbs == [("team", ben), ("team", ben), ("team", ben), ("team", ana)]


def test_visibility_is_stored_shown_and_changed(team: Team, run: Run) -> None:
    ana, ben = team.member("ana"), team.member("ben")
    assert run(ana, "store", "plums", "--key", "diary", "--visibility", "private")[0] == 0
    assert run(ana, "get", "diary")[1]["results"][0]["visibility"] == "private"
    assert run(ben, "get", "diary")[0] == 3
    assert run(ana, "mark", "diary", "--visibility", "team")[0] == 0
    assert "visibility" not in run(ben, "get", "diary")[1]["results"][0]
    code, _, told = run(ana, "store", "x", "--visibility", "secret")
    assert (code, "secret" in told) == (2, True)


def test_whatever_store_writes_can_be_private(team: Team, run: Run, tmp_path: Path) -> None:
    ana, ben = team.member("ana"), team.member("ben")
    talk, note = tmp_path / "talk.json", tmp_path / "note.md"
    talk.write_text('[{"role": "user", "content": "plums in a talk"}]', encoding="utf-8")
    note.write_text("# Plums\n\nplums in a file\n", encoding="utf-8")
    ways = (
        ("plums without a key",),
        ("plums of a plan", "--key", "plan"),
        ("plums of Ana", "--entity", "Ana"),
        ("plums that were said", "--session", "s", "--role", "user"),
        ("--messages", str(talk), "--session", "s"),
        ("--file", str(note)),
    )
    for words in ways:
        assert run(ana, "store", *words, "--visibility", "private")[0] == 0
        assert run(ben, "search", "plums", "--mode", "keyword")[0] == 3, words
    assert len(run(ana, "search", "plums", "--limit", "20")[1]["results"]) >= len(ways)
    assert run(ben, "get", "s")[0] == 3
    assert run(ben, "stats")[1]["doc_count"] == 0


def test_files_of_a_folder_can_be_private(team: Team, run: Run, tmp_path: Any) -> None:
    ana, ben = team.member("ana"), team.member("ben")
    (tmp_path / "a.md").write_text("# Plums\n\nRipe plums.\n", "utf-8")
    assert run(ana, "ingest", str(tmp_path), "--visibility", "private")[0] == 0
    assert run(ben, "search", "plums")[0] == 3
    (tmp_path / "a.md").write_text("# Plums\n\nRiper plums.\n", "utf-8")
    assert run(ana, "ingest", str(tmp_path))[0] == 0
    assert run(ben, "search", "plums")[0] == 3
    assert len(run(ana, "search", "plums")[1]["results"]) == 1


def test_entities_can_be_private(team: Team, run: Run) -> None:
    ana, ben = team.member("ana"), team.member("ben")
    private = ("--visibility", "private")
    assert run(ana, "entity", "add", "Plum", "is ripe", *private)[0] == 0
    assert run(ana, "entity", "observe", "Plum", "is blue", *private)[0] == 0
    assert run(ana, "entity", "observe", "Plum", "is round")[0] == 0, "as its entity"
    assert run(ben, "entity", "show", "Plum")[0] == 3
    shown = run(ana, "entity", "show", "Plum")[1]["entities"]
    assert len(shown[0]["observations"]) == 3
    code, _, told = run(ana, "entity", "show", "Plum", *private)
    assert (code, "--visibility works with entity add and observe" in told) == (2, True)


HISTORY = {
    "type": "user",
    "uuid": "u1",
    "sessionId": "s1",
    "timestamp": "2026-11-11T08:00:00Z",
    "message": {"role": "user", "content": "The plum jam is in the cellar"},
}


def test_sessions_of_agents_can_be_private(
    team: Team, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana, ben = team.member("ana"), team.member("ben")
    file = tmp_path / ".claude" / "projects" / "shop" / "s1.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(HISTORY) + "\n", encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / ".claude"))
    code, report, told = run(ana, "import", "claude-code", "--visibility", "private")
    assert (code, report["messages"]) == (0, 1), told
    assert len(run(ana, "search", "plum jam")[1]["results"]) == 1
    assert run(ben, "search", "plum jam")[0] == 3
    again = {**HISTORY, "uuid": "u2", "message": {"role": "user", "content": "More plum jam"}}
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(again) + "\n")
    assert run(ana, "import", "claude-code", "--visibility", "private")[1]["messages"] == 1
    assert len(run(ana, "get", "claude-code:s1")[1]["results"]) == 2
    assert run(ben, "search", "plum jam")[0] == 3


def test_an_import_is_for_whom_the_command_says_unless_the_file_does(
    team: Team, run: Run, tmp_path: Path
) -> None:
    ana, ben = team.member("ana"), team.member("ben")
    run(ana, "store", "open plums", "--key", "open")
    run(ana, "store", "secret plums", "--key", "secret", "--visibility", "private")
    file = str(tmp_path / "all.jsonl")
    run(ana, "export", file)
    for name in ("open", "secret"):
        run(ana, "delete", name, "--purge")
    assert run(ana, "import", file, "--visibility", "private")[1]["added"] == 2
    assert run(ben, "search", "plums")[0] == 3
    for name in ("open", "secret"):
        run(ana, "delete", name, "--purge")
    assert run(ana, "import", file, "--visibility", "team")[1]["added"] == 2
    assert [row["doc_id"] for row in run(ben, "search", "plums")[1]["results"]] == ["open"]


def test_many_documents_and_messages_can_be_private(team: Team, opened: Opened) -> None:
    ana, ben = opened(team.member("ana")), opened(team.member("ben"))
    ana.store_many([Document(key="k", text="many plums")], visibility="private")
    talk = [{"role": "user", "content": "plums in a talk"}]
    ana.add_messages(talk, session="s", visibility="private")
    with ana.team.writing("private"):
        ana.graph.create([NewEntity("Plum", None, ("plums are blue",))])
    assert len(ana.search("plums", limit=10)) == 3
    assert len(ben.search("plums", limit=10)) == 0
    assert ben.engine.usage(EVERYTHING) == {}
    assert len(ana.engine.usage(EVERYTHING)) == 4
    assert ana.prune(keep_most={"note": 0}, dry_run=False).doc_ids == ("k",)


def test_every_statement_of_a_member_asks_for_his_labels(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = team.member("ana")
    store = PostgresStore(team.address(member))
    sent: dict[str, Sent] = {}
    with recorded(monkeypatch, sent):
        fill(store, "plum", "private")
    store.close()
    asked = [row.sql for row in sent.values() if "plait." in row.sql and row.values]
    assert len(asked) > 30
    for sql in asked:
        assert sql.count("ns = %(ns)s") == sql.count("label = ANY(%(labels)s)"), sql


def test_new_files_and_sessions_of_a_schedule_can_be_private(
    team: Team, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana, ben = team.member("ana"), team.member("ben")
    file = tmp_path / ".claude" / "projects" / "shop" / "s1.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(HISTORY) + "\n", encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / ".claude"))
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("# Plums\n\nRipe plums.\n", "utf-8")
    code, report, told = run(ana, "maintain", str(notes), "--agents", "--visibility", "private")
    assert (code, report["files"], report["messages"]) == (0, 1, 1), told
    assert len(run(ana, "search", "plums")[1]["results"]) == 2
    assert run(ben, "search", "plums")[0] == 3


def test_answers_that_were_cached_before_the_first_member_are_gone(team: Team) -> None:
    flags = {"db_path": team.address(), "project": "", "embedding_provider": "none"}
    config = load({**flags, "response_cache_enabled": "on"}, environ={})
    with Memory.open(config=config) as memory:
        memory.store("We deploy on Fridays.", key="deploys")
        cache = response_cache(memory)
        assert cache is not None
        cache.put("k", "On Fridays.")
        assert len(memory.engine.remembered(CACHED_ANSWER)) == 1
        team.member("ana")
        assert memory.engine.remembered(CACHED_ANSWER) == {}
        cache.put("k", "On Fridays, in a conversation that goes on.")
        assert memory.engine.remembered(CACHED_ANSWER) == {}
        assert response_cache(memory) is None


def test_an_answer_that_the_first_member_overtakes_is_not_kept(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = {"db_path": team.address(), "project": "", "embedding_provider": "none"}
    config = load({**flags, "response_cache_enabled": "on"}, environ={})
    with Memory.open(config=config) as memory:
        memory.store("We deploy on Fridays.", key="deploys")
        cache = response_cache(memory)
        assert cache is not None
        begin = memory.engine.transaction

        def after_the_first_member(**options: bool) -> AbstractContextManager[Transaction]:
            monkeypatch.setattr(memory.engine, "transaction", begin)
            team.member("ana")
            return begin(**options)

        monkeypatch.setattr(memory.engine, "transaction", after_the_first_member)
        cache.put("k", "On Fridays.")
        assert memory.engine.remembered(CACHED_ANSWER) == {}
