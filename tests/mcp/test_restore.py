"""A server whose file is replaced: it follows, or refuses, and never acknowledges into nothing."""

import re
import subprocess
from pathlib import Path

import pytest

from plait.memory import Memory
from tests.interfaces.command import spawn
from tests.mcp.talk import Talk, talking
from tests.reliability.processes import posix_only

pytestmark = posix_only


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A memory with a backup beside it, and one note more than the backup."""
    place = tmp_path / "memory.db"
    with Memory.open(place, embedder="none", project="") as memory:
        memory.store("apples from the backup", key="backup")
        memory.backup(tmp_path / "backup.db")
        memory.store("pears since then", key="since")
    return place


def command(path: Path, *words: str) -> int:
    return spawn("--db", str(path), "--embedder", "none", *words).code


def replace(path: Path, by: str) -> None:
    backup = path.with_name("backup.db")
    if by == "restore":
        assert command(path, "restore", str(backup)) == 0
        return
    if by == "rm and mv":
        path.unlink()
    subprocess.run(["cp" if by == "cp" else "mv", backup, path], check=True)


def known_to(talk: Talk) -> int:
    return len(re.findall(r"^[a-z2-7]{8} ", talk.text("memory_timeline"), re.M))


def stored_by(talk: Talk, key: str) -> bool:
    return not talk.tool("memory_store", text=f"a note about {key}", key=key).get("isError")


@pytest.mark.parametrize("by", ["restore", "mv", "rm and mv", "cp"])
def test_a_server_follows_a_restored_file_and_loses_nothing_that_it_acknowledged(path, by):
    words = ("--db", str(path), "--project", "personal", "--embedder", "none", "mcp")
    with talking(*words) as talk:
        talk.hello()
        assert stored_by(talk, "before")
        replace(path, by)
        if by == "cp":
            # The file is the same one with other contents: only the user can say what counts.
            refused = talk.tool("memory_store", text="lost", key="lost")
            assert refused["isError"]
            told = refused["content"][0]["text"]
            assert f"plait --db {path} --project personal restore" in told
            assert command(path, "restore") == 0
        assert stored_by(talk, "after")
        assert known_to(talk) == 2
        assert talk.leave() == 0
    assert command(path, "doctor") == 0
    with Memory.open(path, embedder="none", project="") as memory:
        assert sorted(row.doc_id for row in memory.timeline()) == ["after", "backup"]
