"""One worker of the chaos test: acts on a memory through one door until it is killed.

    python -m tests.reliability.chaos_worker DOOR DATABASE FOLDER NAME LIFE PLANT

It owns one project, so it knows what its acts must lead to. Before each act it writes the expected
outcome into its ledger, afterwards that the act was acknowledged. Its test reads the ledger.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from plait.errors import NotFound, PlaitError
from plait.memory import Memory
from plait.types import Document
from plait.types.reports import NewEntity
from tests.reliability import plants

NAMES = 6
MANY = 120  # more than two slices of a delete
FILES = 5

# What a name leads to: its text, or nothing.
Outcome = dict[str, str | None]


class Worker:
    """Chooses acts, and writes down what they must lead to."""

    def __init__(self, door: "Door", folder: Path, name: str, life: int) -> None:
        self._door = door
        self._dice = random.Random(f"{name} {life}")
        self._name, self._life, self._count = name, life, 0
        self._files = folder / name
        self._files.mkdir(exist_ok=True)
        self._ledger = (folder / f"{name}.ledger").open("a", encoding="utf-8")
        self._alive: dict[str, str] = {}

    def act(self) -> None:
        """Do one thing; what others hold back is tried again as another act."""
        self._count += 1
        key = f"{self._name}-{self._dice.randrange(NAMES)}"
        token = f"{self._name}x{self._life}x{self._count}"
        verbs: list[Callable[[str, str], None]] = [
            *[self._store] * 4,
            self._fact,
            self._observe,
            self._delete,
            self._undo,
            self._delete_and_undo,
            self._purge,
            *[self._ingest] * 2,
            self._purge_many,
            self._look_after,
        ]
        self._dice.choice(verbs)(key, token)

    def _ledgered(self, outcome: Outcome, act: Callable[[], object], **more: object) -> bool:
        """Run an act between two lines of the ledger; a refusal is written down, too."""
        self._write({"begun": outcome, **more})
        try:
            act()
        except NotFound:
            self._write({"refused": True})
            return False
        self._write({"done": True})
        self._alive |= {name: text for name, text in outcome.items() if text is not None}
        for name, text in outcome.items():
            if text is None:
                self._alive.pop(name, None)
        return True

    def _write(self, line: dict[str, object]) -> None:
        self._ledger.write(json.dumps(line) + "\n")
        self._ledger.flush()

    def _store(self, key: str, token: str) -> None:
        text = f"Note {token} of {key} about anchors."
        self._ledgered({key: text}, lambda: self._door.store(text, key=key))

    def _fact(self, key: str, token: str) -> None:
        text = f"The code word is {token}."
        topic = f"{self._name}-topic"
        self._ledgered({f"topic {topic}": text}, lambda: self._door.store(text, topic=topic))

    def _observe(self, key: str, token: str) -> None:
        text = f"Observed {token} there."
        entity = f"{self._name}-entity"
        self._ledgered({f"fact {token}": text}, lambda: self._door.observe(entity, text))

    def _delete(self, key: str, token: str) -> None:
        if key in self._alive:
            self._ledgered({key: None}, lambda: self._door.delete(key))

    def _undo(self, key: str, token: str) -> None:
        if key not in self._alive:
            # What comes back was this worker's, whichever version it is.
            self._write({"begun": {}, "any": key})
            try:
                self._door.undo(key)
            except NotFound:
                self._write({"refused": True})
            else:
                self._write({"done": True})

    def _delete_and_undo(self, key: str, token: str) -> None:
        """Undo without a name brings back this project's latest delete, and nobody else's."""
        text = self._alive.get(key)
        if text is not None and self._ledgered({key: None}, lambda: self._door.delete(key)):
            self._ledgered({key: text}, self._door.undo)

    def _purge(self, key: str, token: str) -> None:
        if key in self._alive:
            self._ledgered({key: None}, lambda: self._door.purge(key), purged=[key])

    def _purge_many(self, key: str, token: str) -> None:
        """Many documents are deleted in slices: each counts."""
        prefix = f"{self._name}-many-{self._life}-{self._count}-"
        outcome: Outcome = {f"{prefix}{n}": f"Note {token}y{n} of many." for n in range(MANY)}
        if self._ledgered(outcome, lambda: self._door.store_many(outcome)):
            gone: Outcome = dict.fromkeys(outcome)
            self._ledgered(gone, lambda: self._door.purge_many(prefix), purged=list(gone))

    def _ingest(self, key: str, token: str) -> None:
        outcome: Outcome = {}
        for number in range(FILES):
            file = self._files / f"{number}.md"
            if number == 0 or self._dice.random() < 0.4:
                text = f"File {token} number {number} about harbours."
                file.write_text(text, encoding="utf-8")
            elif self._dice.random() < 0.1:
                file.unlink(missing_ok=True)
            text = file.read_text(encoding="utf-8") if file.exists() else ""
            outcome[f"file {file}"] = text or None
        self._ledgered(outcome, lambda: self._door.ingest(self._files))

    def _look_after(self, key: str, token: str) -> None:
        self._ledgered({}, lambda: self._door.look_after(self._dice))


class Door:
    """A way into a memory. What is refused because there is nothing raises `NotFound`."""

    def store(self, text: str, *, key: str | None = None, topic: str | None = None) -> None:
        raise NotImplementedError

    def observe(self, entity: str, text: str) -> None:
        raise NotImplementedError

    def delete(self, key: str) -> None:
        raise NotImplementedError

    def purge(self, key: str) -> None:
        raise NotImplementedError

    def undo(self, key: str | None = None) -> None:
        raise NotImplementedError

    def store_many(self, texts: Mapping[str, str | None]) -> None:
        raise NotImplementedError

    def purge_many(self, prefix: str) -> None:
        raise NotImplementedError

    def ingest(self, folder: Path) -> None:
        raise NotImplementedError

    def look_after(self, dice: random.Random) -> None:
        raise NotImplementedError


class Library(Door):
    """`Memory`, open for the whole life of the worker."""

    def __init__(self, database: str, project: str) -> None:
        self._memory = Memory.open(database, project=project)
        self._aside = f"{database}.{project}.backup"

    def store_many(self, texts: Mapping[str, str | None]) -> None:
        self._memory.store_many(
            Document(key=key, text=text or "", kind="note") for key, text in texts.items()
        )

    def purge_many(self, prefix: str) -> None:
        self._memory.delete(where={"key_prefix": prefix}, purge=True)

    def store(self, text: str, *, key: str | None = None, topic: str | None = None) -> None:
        self._memory.store(text, key=key, topic=topic)

    def observe(self, entity: str, text: str) -> None:
        self._memory.graph.create([NewEntity(entity, "thing")])
        self._memory.graph.observe([(entity, [text])])

    def delete(self, key: str) -> None:
        self._memory.delete(key)

    def purge(self, key: str) -> None:
        self._memory.delete(key, purge=True)

    def undo(self, key: str | None = None) -> None:
        self._memory.undo(*([key] if key else []))

    def ingest(self, folder: Path) -> None:
        report = self._memory.ingest(folder)
        assert not report.count("failed"), report

    def look_after(self, dice: random.Random) -> None:
        match dice.randrange(4):
            case 0:
                Path(self._aside).unlink(missing_ok=True)
                self._memory.backup(self._aside)
                with Memory.open(self._aside, create=False) as copy:
                    assert not [one for one in copy.doctor() if one.level == "error"]
            case 1:
                self._memory.reindex()
            case 2:
                assert not [one for one in self._memory.doctor() if one.level == "error"]
            case _:
                lines = list(self._memory.export())
                assert json.loads(lines[0])


class CommandLine(Door):
    """One process per act."""

    def __init__(self, database: str, project: str, plant: str) -> None:
        self._library = Library(database, project)
        self._words = ["--db", database, "--project", project]
        self._code = f"from tests.reliability.chaos_worker import command; command({plant!r})"

    def _run(self, *words: str) -> None:
        done = subprocess.run(
            [sys.executable, "-c", self._code, *self._words, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if done.returncode == NotFound.exit_code:
            raise NotFound(done.stderr)
        assert done.returncode == 0, (words, done.returncode, done.stderr)

    def store(self, text: str, *, key: str | None = None, topic: str | None = None) -> None:
        named = ["--key", key] if key else []
        self._run("store", text, *named, *(["--topic", topic] if topic else []))

    def observe(self, entity: str, text: str) -> None:
        self._run("entity", "observe", entity, text)

    def delete(self, key: str) -> None:
        self._run("delete", key)

    def purge(self, key: str) -> None:
        self._run("delete", key, "--purge")

    def undo(self, key: str | None = None) -> None:
        self._run("delete", "--undo", *([key] if key else []))

    def store_many(self, texts: Mapping[str, str | None]) -> None:
        self._library.store_many(texts)

    def purge_many(self, prefix: str) -> None:
        self._run("delete", "--key-prefix", prefix, "--purge", "--yes")

    def ingest(self, folder: Path) -> None:
        self._run("ingest", str(folder))

    def look_after(self, dice: random.Random) -> None:
        words = [["doctor"], ["doctor", "--fix"], ["reindex"], ["reindex", "--compact"]]
        words += [["reindex", "--embedder", name] for name in ("builtin", "hashing")]
        self._run(*dice.choice(words))


class Server(Door):
    """`plait mcp`, spoken to over its pipes. What it has no tool for goes through the library."""

    def __init__(self, database: str, project: str, plant: str) -> None:
        words = ["--db", database, "--project", project, "mcp", "--tools", "core,graph"]
        code = f"from tests.reliability.chaos_worker import command; command({plant!r})"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
        self._number = 0
        self._library = Library(database, project)
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}}
        self._ask("initialize", {**hello, "clientInfo": {"name": "chaos", "version": "1"}})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdout is not None
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        while line := self._process.stdout.readline():
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
        raise AssertionError("the server is gone")

    def _call(self, tool: str, **arguments: object) -> None:
        result = self._ask("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            text = result["content"][0]["text"]
            if "othing" in text or "not found" in text:
                raise NotFound(text)
            raise AssertionError(text)

    def store(self, text: str, *, key: str | None = None, topic: str | None = None) -> None:
        if topic is None:
            self._call("memory_store", text=text, key=key)
        else:
            self._call("memory_store", text=text, topic=topic)

    def observe(self, entity: str, text: str) -> None:
        self._call("create_entities", entities=[_entity(entity)])
        facts = [{"entityName": entity, "contents": [text]}]
        self._call("add_observations", observations=facts)

    def delete(self, key: str) -> None:
        self._call("memory_delete", ids=[key])

    def purge(self, key: str) -> None:
        self._library.purge(key)

    def store_many(self, texts: Mapping[str, str | None]) -> None:
        self._library.store_many(texts)

    def purge_many(self, prefix: str) -> None:
        self._library.purge_many(prefix)

    def undo(self, key: str | None = None) -> None:
        if key is None:
            self._library.undo()
        else:
            self._call("memory_delete", ids=[key], undo=True)

    def ingest(self, folder: Path) -> None:
        self._library.ingest(folder)

    def look_after(self, dice: random.Random) -> None:
        self._call("memory_search", query=f"anchors {dice.random()}")


def _entity(name: str) -> dict[str, object]:
    return {"name": name, "entityType": "thing", "observations": []}


def command(plant: str) -> None:
    """Run the command line with a planted bug, or with none."""
    from plait.cli import main

    with plants.planted(plant):
        sys.exit(main(sys.argv[1:]))


def run(door: str, database: str, folder: str, name: str, life: str, plant: str) -> None:
    """Work until killed."""
    os.environ["PLAIT_QUIET"] = "1"
    with plants.planted(plant):
        doors: dict[str, Callable[[], Door]] = {
            "library": lambda: Library(database, name),
            "command line": lambda: CommandLine(database, name, plant),
            "server": lambda: Server(database, name, plant),
        }
        worker = Worker(doors[door](), Path(folder), name, int(life))
        while True:
            try:
                worker.act()
            except PlaitError as error:
                raise AssertionError(f"{type(error).__name__} {error.code}: {error}") from error


if __name__ == "__main__":
    run(*sys.argv[1:])
