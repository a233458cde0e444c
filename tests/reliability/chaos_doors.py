"""The doors through which the workers of the chaos test act on a memory."""

import json
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plait.errors import NotFound, PlaitError
from plait.memory import Memory
from plait.types import TRUSTS, Document, Filter
from plait.types.reports import NewEntity

EVERYTHING = Filter(trusts=TRUSTS, all_versions=True)
# What somebody is told whose act meets the moment at which the memory is replaced.
REPLACED = ("file_replaced", "foreign_journal")
REPLACED_WORDS = "was replaced"
# What the text of a tool says where the library raises `NotFound`.
REFUSED_WORDS = ("othing", "not found", "cannot come back")
# After this time a file is written again: after a run that failed, because the memory was just
# replaced, only the next change starts another.
REPEAT_S = 2.0
PATIENCE_S = 120.0  # far above what anything needs: a hang becomes a failure


RUN = "from tests.reliability.chaos_worker import command; command({!r})"


class Unsure(Exception):
    """The memory was replaced during an act: nobody knows in which of the two it counts."""


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


def _healthy(memory: Memory) -> None:
    wrong = [one for one in memory.doctor() if one.level == "error"]
    assert not wrong, wrong


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
                    _healthy(copy)
            case 1:
                self._memory.reindex()
            case 2:
                _healthy(self._memory)
            case _:
                lines = list(self._memory.export())
                assert json.loads(lines[0])


class CommandLine(Door):
    """One process per act."""

    def __init__(self, database: str, project: str, plant: str) -> None:
        self._library = Library(database, project)
        self._words = ["--db", database, "--project", project]
        self._code = RUN.format(plant)

    def _run(self, *words: str) -> None:
        done = subprocess.run(
            [sys.executable, "-c", self._code, *self._words, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if REPLACED_WORDS in done.stderr:
            raise Unsure(done.stderr)
        if done.returncode == NotFound.exit_code:
            raise NotFound(done.stderr)
        # Beside another change of the embedder, a reindex may leave vectors missing: exit code 1.
        allowed = (0, 1) if words[0] == "reindex" else (0,)
        assert done.returncode in allowed, (words, done.returncode, done.stdout, done.stderr)

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
        code = RUN.format(plant)
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
            if REPLACED_WORDS in text:
                raise Unsure(text)
            if any(words in text for words in REFUSED_WORDS):
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


class Watch(Library):
    """`plait watch`, which sees files change. The rest goes through the library."""

    def __init__(self, database: str, project: str, plant: str, folder: Path) -> None:
        super().__init__(database, project)
        words = ["--db", database, "--project", project, "watch", str(folder)]
        # Only the first time: later, a text that nobody stored would be read over one that was.
        if not (folder / "0.md").exists():
            (folder / "0.md").write_text("The first file about harbours.", encoding="utf-8")
        self._process = subprocess.Popen(
            [sys.executable, "-c", RUN.format(plant), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def ingest(self, folder: Path) -> None:
        """Wait until the memory has every file as it is."""
        texts = {str(file): file.read_text(encoding="utf-8") for file in folder.iterdir()}
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            again = time.monotonic() + REPEAT_S
            while time.monotonic() < again:
                if self._texts(folder) == texts:
                    return
                assert self._process.poll() is None, "watch is gone"
                time.sleep(0.05)
            for file, text in texts.items():
                Path(file).write_text(text, encoding="utf-8")
        raise AssertionError(f"watch did not see {texts}")

    def _texts(self, folder: Path) -> dict[str, str]:
        store = self._memory.engine
        ids = [row.id for row in store.scan(EVERYTHING) if (row.path or "").startswith(str(folder))]
        return {str(document.path): document.text for document in store.load(ids)}


class Keeper:
    """Makes backups, and replaces the memory by them through two doors."""

    def __init__(self, database: str) -> None:
        self._database = Path(database)
        self.adopt()
        self._memory = Memory.open(database, project="keeper")

    def close(self) -> None:
        self._memory.close()

    def mark(self, text: str) -> None:
        """Store a text that tells which state a memory is in."""
        self._memory.store(text, key=MARK)

    def marked(self) -> str:
        """Return that text."""
        return mark_of(self._memory)

    def backup(self, target: str) -> None:
        self._memory.backup(target)

    def restore(self, source: str, dice: random.Random) -> None:
        if dice.random() < 0.5:
            Memory.restore(source, self._database)
        else:
            words = ["--db", str(self._database), "restore", source]
            code = RUN.format("")
            subprocess.run([sys.executable, "-c", code, *words], check=True, **SILENT)

    def adopt(self) -> None:
        """Accept a file that was put in place by hand, unless somebody has noticed it himself."""
        try:
            Memory.restore(None, self._database)
        except PlaitError as error:
            if error.code != "no_backup":
                raise


MARK = "mark"
SILENT: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True}


def mark_of(memory: Memory) -> str:
    """Return what the keeper stored last, in the memory as it is now."""
    listed = [row for row in memory.engine.scan(EVERYTHING) if row.key == MARK]
    [document] = memory.engine.load([row.id for row in listed]) or [Document(text="")]
    return document.text


def _entity(name: str) -> dict[str, object]:
    return {"name": name, "entityType": "thing", "observations": []}
