"""A hit tells when files that its message touched were written since."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import apsw
import pytest

from plait import Memory
from plait.cli import main
from plait.errors import StoreError
from plait.facts.echo import unfenced
from plait.facts.names import changed_mark
from plait.memory.changes import changes_since
from plait.protocols import Store
from plait.searching.recall import tokens_of
from plait.searching.steps import stored_steps
from plait.types.steps import Step
from tests.agents.test_importing import imported
from tests.agents.test_work import Told
from tests.mcp.talk import call, told

FIRST, SECOND = "the heron total is a Decimal now", "the heron label is blue now"
QUERY = "heron total"
LATE = 4_000_000_000.0


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("PLAIT_DB", str(tmp_path / "memory.db"))
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)
    (folder / "src").mkdir()
    for name in ("cart.py", "tax.py", "(label).py"):
        (folder / "src" / name).write_text("x", "utf-8")
        os.utime(folder / "src" / name, (1, 1))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def memory(shop: Path, tmp_path: Path) -> Iterator[Memory]:
    talk = Told(tmp_path, "s1", cwd=str(shop)).ask("make the total of the heron exact")
    talk.say(FIRST).edit(f"{shop}/src/cart.py").do("Read", file_path=f"{shop}/src/tax.py")
    talk.ask("and the label?").say(SECOND).edit(f"{shop}/src/(label).py").edit("/etc/hostname")
    talk.write()
    with Memory.open(tmp_path / "memory.db", embedder="hashing", project=str(shop)) as opened:
        imported(opened, tmp_path)
        yield opened


def write(shop: Path, name: str, at: float = LATE) -> None:
    os.utime(shop / "src" / name, (at, at))


def changed(memory: Memory, text: str = FIRST) -> tuple[str, ...]:
    [hit] = [hit for hit in memory.search(text) if text in hit.text]
    return hit.changed_since


def test_a_hit_names_the_files_that_were_written_after_its_message(
    memory: Memory, shop: Path
) -> None:
    assert changed(memory) == changed(memory, SECOND) == ()
    write(shop, "cart.py")
    assert changed(memory) == ("src/cart.py",)
    write(shop, "tax.py")
    assert changed(memory) == ("src/cart.py", "src/tax.py")
    assert changed(memory, SECOND) == ()
    (shop / "src" / "cart.py").unlink()
    assert changed(memory) == ("src/tax.py",)


def test_what_a_message_did_itself_is_no_change_however_long_it_took(
    shop: Path, tmp_path: Path
) -> None:
    talk = Told(tmp_path, "s2", cwd=str(shop)).ask("go").say(FIRST).edit("src/cart.py")
    talk._records += [talk._records[-1]] * 3_000  # fifty minutes later
    talk.ask("and then?").say(SECOND).edit("src/tax.py").write()
    with Memory.open(tmp_path / "memory.db", embedder="hashing", project=str(shop)) as memory:
        imported(memory, tmp_path)
        [hit] = [hit for hit in memory.search(FIRST) if FIRST in hit.text]
        begun = (hit.document.event_at or 0) / 1000
        for after, expected in ((30, ()), (2_900, ()), (3_600, ("src/cart.py",))):
            write(shop, "cart.py", begun + after)
            assert changed(memory) == expected
        [hit] = [hit for hit in memory.search(SECOND) if SECOND in hit.text]
        # Nobody knows how long the last message took.
        for after, expected in ((900, ()), (3_600, ("src/tax.py",))):
            write(shop, "tax.py", (hit.document.event_at or 0) / 1000 + after)
            assert changed(memory, SECOND) == expected


def test_only_files_of_the_current_project_are_looked_at(
    memory: Memory, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cart.py", "tax.py", "(label).py"):
        write(shop, name)
    assert changed(memory, SECOND) == ("src/(label).py",), "a file outside is none of the project"
    with Memory.open(tmp_path / "memory.db", embedder="hashing", project="/elsewhere") as other:
        hits = other.search(QUERY, all_projects=True)
        assert hits and not any(hit.changed_since for hit in hits)


def test_damaged_steps_do_not_stop_a_search(memory: Memory, shop: Path, tmp_path: Path) -> None:
    write(shop, "cart.py")
    connection = apsw.Connection(str(tmp_path / "memory.db"))
    connection.execute("UPDATE steps SET tool = x'00'")
    connection.close()
    assert changed(memory) == ()


class Lost:
    """The read-ahead of a server that goes away when it is asked in one of two ways."""

    def __init__(self, when: str, store: Store) -> None:
        self._when, self._store = when, store

    def steps(self, ids: list[str]) -> dict[str, list[Step]]:
        if self._when == "steps":
            raise StoreError("The server is gone.")
        return {id_: [*stored_steps(self._store, id_)] for id_ in ids}

    def followed(self, *_: object) -> dict[str, int | None]:
        raise StoreError("The server is gone.")


@pytest.mark.parametrize("when", ["steps", "followed"])
def test_a_server_that_is_lost_after_the_search_takes_no_hits(
    memory: Memory, shop: Path, when: str
) -> None:
    write(shop, "cart.py")
    documents = [hit.document for hit in memory.search(FIRST)]
    store = cast(Store, SimpleNamespace(ahead=Lost(when, memory.engine)))
    assert changes_since(memory.engine, documents, str(shop)) != {}
    assert changes_since(store, documents, str(shop)) == {}


def test_nothing_is_asked_for_messages_that_were_not_imported(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory.open("other.db", embedder="hashing", project=str(shop)) as memory:
        memory.store(FIRST, role="user", session="s1")
        monkeypatch.setattr(type(memory.engine), "steps", None)
        assert memory.search(FIRST)[0].changed_since == ()


# -- what people, programs and models see --------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    main(words)
    return capsys.readouterr().out


def test_every_command_that_shows_a_message_tells_it(
    memory: Memory, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [hit] = [hit for hit in memory.search(FIRST) if FIRST in hit.text]
    verbs = (("search", FIRST), ("recall", FIRST), ("get", hit.id), ("get", hit.document.id))
    for words in verbs:
        assert "hanged since" not in run(capsys, *words, "--format", "text")
        assert "changed_since" not in run(capsys, *words, "--json")
    write(shop, "cart.py")
    write(shop, "tax.py")
    for words in verbs:
        text = run(capsys, *words, "--format", "text")
        told = "Changed since: src/cart.py, src/tax.py" if words[0] == "get" else ""
        assert (told or "changed since: cart.py +1") in text
        rows = json.loads(run(capsys, *words, "--json"))["results"]
        marks = [row.get("changed_since") for row in rows if row.get("changed_since")]
        assert marks == [["src/cart.py", "src/tax.py"]]
    recalled = run(capsys, "recall", FIRST, "--format", "text").strip()
    assert unfenced(recalled) == ("", True)


def test_models_are_told_it(memory: Memory, shop: Path) -> None:
    write(shop, "cart.py")
    [hit] = [hit for hit in memory.search(FIRST) if FIRST in hit.text]
    for tool, arguments, profile in (
        ("memory_search", {"query": FIRST}, "core"),
        ("memory_recall", {"query": FIRST}, "core"),
        ("memory_get", {"ids": [hit.id]}, "core"),
        ("search_memories", {"query": FIRST}, "layers"),
        ("memory_work", {"kind": "about", "query": "src/cart.py"}, "work"),
    ):
        text = told(memory, tool, arguments, profiles=[profile])
        assert "hanged since" in text, tool
    asked: dict[str, dict[str, object]] = {
        "memory_search": {"query": FIRST, "limit": 1},
        "memory_recall": {"query": FIRST, "limit": 1},
        "memory_get": {"ids": [hit.document.id]},
    }
    for tool, given in asked.items():
        data = call(memory, tool, given).structured_content or {}
        rows = [row for row in data["results"] if "changed_since" in row]
        assert [row["changed_since"] for row in rows] == [["src/cart.py"]], tool


def test_a_mark_costs_a_hit_at_most_eight_tokens(shop: Path, tmp_path: Path) -> None:
    for number in range(8):
        talk = Told(
            tmp_path, f"{number}2345678-1f7a-4c0f-9a55-3c1f6f0e5d0b", 1 + number, cwd=str(shop)
        )
        talk.ask(f"what about heron {number}?").say(f"{FIRST}, in {number} ways. " * 9)
        talk.edit("src/cart.py").edit("src/tax.py").write()
    write(shop, "cart.py")
    write(shop, "tax.py")
    with Memory.open(tmp_path / "memory.db", embedder="hashing", project=str(shop)) as memory:
        imported(memory, tmp_path)
        for limit in (2, 5, 10):
            text = told(memory, "memory_search", {"query": FIRST, "limit": limit})
            marks = text.count("changed since: cart.py +1")
            assert marks == min(limit, 8)
            assert tokens_of(text) <= 20 + 25 * limit + 8 * marks, text


@pytest.mark.parametrize(
    ("paths", "mark"),
    [
        (["src/(a).py"], "changed since: a .py"),
        (["src/a\x1b[2J\nb.py"], "changed since: a  2J b.py"),
        (["x" * 200], f"changed since: {'x' * 23}…"),
    ],
)
def test_a_mark_stays_on_its_line_and_in_its_brackets(paths: list[str], mark: str) -> None:
    assert changed_mark(paths) == mark
