"""plait team, --visibility and what is shown of it, by commands of members."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from plait.cli import main
from plait.stores.postgres.store import PostgresStore
from tests.people.conftest import Team
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


def test_a_team_by_commands(team: Team, run: Run) -> None:
    ana, ben = team.person("ana"), team.person("ben")
    assert run(None, "team", "add", ana, "--role", "owner")[0] == 0
    added = run(None, "team", "add", ben, "--project", "shop")[1]["member"]
    assert added == {"name": ben, "role": "writer", "projects": ["shop"]}
    assert run(ana, "team", "role", ben, "reader")[1]["member"]["role"] == "reader"
    listed = run(ben, "team", "list")[1]["members"]
    assert [(row["name"], row["role"]) for row in listed] == [(ana, "owner"), (ben, "reader")]
    code, _, told = run(ben, "store", "x", "--key", "y")
    assert (code, f"{ben} is a reader of the memory" in told) == (1, True)
    assert f"team role {ben} writer" in told
    code, _, told = run(ben, "team", "remove", ana)
    assert (code, "reader" in told) == (1, True)
    assert run(ana, "team", "remove", ben)[1]["removed"] is True
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


def test_files_of_a_folder_can_be_private(team: Team, run: Run, tmp_path: Any) -> None:
    ana, ben = team.member("ana"), team.member("ben")
    (tmp_path / "a.md").write_text("# Plums\n\nRipe plums.\n", "utf-8")
    assert run(ana, "ingest", str(tmp_path), "--visibility", "private")[0] == 0
    assert run(ben, "search", "plums")[0] == 3
    (tmp_path / "a.md").write_text("# Plums\n\nRiper plums.\n", "utf-8")
    assert run(ana, "ingest", str(tmp_path))[0] == 0
    assert run(ben, "search", "plums")[0] == 3
    assert len(run(ana, "search", "plums")[1]["results"]) == 1


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
