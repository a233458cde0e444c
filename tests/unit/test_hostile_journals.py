"""A journal or a pipe in the place of a file: SQLite meets neither, and deletes nothing."""

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from plait.errors import PlaitError, StoreError
from plait.memory import Memory
from plait.stores.sqlite import journal
from tests.codes import has_code

MAGIC = bytes.fromhex("d9d505f920a163d7")


def add_journal(path: Path, victim: Path) -> None:
    """Put a hot rollback journal beside a database that names another file as its super-journal."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    size, pages = connection.pragma("page_size"), connection.pragma("page_count")
    connection.close()
    header = (MAGIC + struct.pack(">IIIII", 0, 1, pages, 512, size)).ljust(512, b"\0")
    name = os.fsencode(victim)
    tail = struct.pack(">I", 0x40000000 // size + 1) + name
    tail += struct.pack(">II", len(name), sum(name)) + MAGIC
    Path(f"{path}-journal").write_bytes(header + tail)
    victim.write_text("precious", "utf-8")


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    with Memory.open(tmp_path / "memory.db", embedder="none", project="") as memory:
        memory.store("text", key="k")
        memory.backup(tmp_path / "backup.db")
    return tmp_path / "backup.db"


DOORS: dict[str, Callable[[Path], Any]] = {
    "open": lambda path: Memory.open(path, embedder="none", project=""),
    "read only": lambda path: Memory.open(path, embedder="none", project="", read_only=True),
    "examine": Memory.examine,
    "repair": lambda path: Memory.examine(path, fix=True),
    "restore": lambda path: Memory.restore(path, path.with_name("memory.db")),
    "restore over": lambda path: Memory.restore(path.with_name("memory.db"), path),
    "import": lambda path: Memory.open(":memory:", embedder="none").import_from(path),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("linked", [False, True], ids=["named", "linked"])
def test_a_journal_that_names_another_file_never_reaches_sqlite(
    door: str, linked: bool, backup: Path, tmp_path: Path
) -> None:
    add_journal(backup, tmp_path / "victim.txt")
    named = backup
    if linked:
        named = tmp_path / "link.db"
        named.symlink_to(backup)
    before = backup.read_bytes(), Path(f"{backup}-journal").read_bytes()
    code = "unreadable_database" if door == "import" else "hostile_journal"
    with pytest.raises(StoreError, check=has_code(code)) as refused:
        DOORS[door](named)
    assert "journal" in str(refused.value)
    assert (tmp_path / "victim.txt").read_text("utf-8") == "precious"
    assert (backup.read_bytes(), Path(f"{backup}-journal").read_bytes()) == before


def test_salvage_leaves_such_a_journal_alone(backup: Path, tmp_path: Path) -> None:
    add_journal(backup, tmp_path / "victim.txt")
    Memory.salvage(backup, tmp_path / "new.db")
    assert (tmp_path / "victim.txt").exists()
    assert Path(f"{backup}-journal").exists()


@pytest.mark.parametrize("wal", [b"", b"x" * 64], ids=["no log", "log"])
def test_an_import_gives_sqlite_no_hot_journal(
    wal: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "theirs.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE documents (doc_id, source_path, file_mtime, indexed_at)")
    connection.close()
    add_journal(path, tmp_path / "victim.txt")
    Path(f"{path}-wal").write_bytes(wal)
    memory = Memory.open(":memory:", embedder="none", project="")
    monkeypatch.setattr(apsw, "Connection", lambda *_, **__: pytest.fail("SQLite opened it"))
    with pytest.raises(StoreError, match="not closed cleanly"):
        memory.import_from(path, dry_run=True)


KILLED = """
import apsw, os, sys
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE documents SET key = 'changed'")
connection.cache_flush()
os._exit(0)
"""


def test_an_own_rollback_journal_is_applied(backup: Path) -> None:
    """On a network disk plait has one, and a killed program leaves it behind."""
    subprocess.run([sys.executable, "-c", KILLED, str(backup)], check=True)
    assert journal.is_hot(str(backup))
    with Memory.open(backup, embedder="none", project="") as memory:
        assert memory.lookup("k")[0].text == "text"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
@pytest.mark.parametrize("ending", ["", "-wal", "-journal"])
@pytest.mark.parametrize("door", ["read only", "restore", "restore over", "import"])
def test_a_pipe_is_refused_and_not_waited_for(door: str, ending: str, backup: Path) -> None:
    place = Path(f"{backup}{ending}")
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    # With a writer, opening it to read returns, so that this test fails instead of waiting.
    writer = os.open(place, os.O_RDWR | os.O_NONBLOCK)
    # An import opens the file alone if no regular file is beside it.
    code = "own_database" if door == "import" and ending else "not_a_file"
    try:
        with pytest.raises(PlaitError, check=has_code(code)):
            DOORS[door](backup)
    finally:
        os.close(writer)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_salvage_does_not_wait_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.db")
    writer = os.open(tmp_path / "pipe.db", os.O_RDWR | os.O_NONBLOCK)
    try:
        with pytest.raises(StoreError, check=has_code("not_a_file")):
            Memory.salvage(tmp_path / "pipe.db", tmp_path / "new.db")
    finally:
        os.close(writer)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_that_is_opened_to_write_is_no_full_disk(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.db")
    for place in (tmp_path / "pipe.db", Path("/dev/null")):
        with pytest.raises(PlaitError, check=has_code("not_a_file")):
            Memory.open(place, embedder="none")
