"""Looks for words in files from outside, purges and dies, writes beside a purge.

The process under test must not open its own file.
"""

import fcntl
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import mock

from plait.stores.sqlite import scrubbing, slack
from plait.types import Filter
from plait.writing import deleting
from tests.reliability import memories

SHARED_PREFIX = 2  # FTS5 stores a term without what it shares with its neighbour
PAGE = 4096
META_PAGE = 1  # dropping the mark of the purge is the last change; it leaves a number there
# The bytes of a database file that SQLite's shared lock is on.
SHARED_FIRST, SHARED_SIZE = 0x4000_0002, 510

_PLACES: dict[str, Any] = {"deleting": deleting, "scrubbing": scrubbing, "slack": slack}


def look(pipe: Connection, folder: Path, words: list[str], shared: int = SHARED_PREFIX) -> None:
    """Where these words can still be read."""
    places = []
    for file in sorted(folder.iterdir()):
        if file.is_file():
            data = file.read_bytes().lower()
            places += [f"{word} in {file.name}" for word in words if word[shared:].encode() in data]
    pipe.send(("places", places))


def free_bytes(pipe: Connection, path: Path) -> None:
    """How many free parts of pages are not zero, in a file whose journal is empty."""
    parts = slack.dirty_parts(path.read_bytes(), PAGE, first=True)
    pipe.send(("parts", sum(part.start // PAGE != META_PAGE for part in parts)))


def lock(pipe: Connection, path: Path) -> None:
    """Whether another process still holds its lock on the file."""
    with path.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, SHARED_SIZE, SHARED_FIRST)
        except OSError:
            pipe.send(("lock", True))
        else:
            pipe.send(("lock", False))


def read(pipe: Connection, path: Path) -> None:
    """Keep reading one state of the memory until told to stop."""
    with memories.open_memory(path) as memory:
        connection = memories.connection_of(memory)
        with connection:
            connection.execute("SELECT count(*) FROM documents").fetchall()
            pipe.send(("reading",))
            pipe.recv()


def purge_and_die(pipe: Connection, path: Path, tag: str, where: str, call: int) -> None:
    """Purge, and die by kill -9 where a function is called for the n-th time."""
    module, _, name = where.partition(".")
    honest = getattr(_PLACES[module], name)
    calls = 0

    def deadly(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            pipe.send(("dying",))
            os.kill(os.getpid(), signal.SIGKILL)
        return honest(*arguments, **named)

    memory = memories.open_memory(path, durability="normal")
    with mock.patch.object(_PLACES[module], name, deadly):
        memory.delete(where={"tags": (tag,)}, purge=True)
    pipe.send(("survived",))


def purge_in_turns(pipe: Connection, path: Path, tag: str, purge: bool) -> None:
    """Delete in slices, with a turn for others after each of them."""
    with (
        memories.open_memory(path, durability="normal") as memory,
        mock.patch.object(deleting, "HELD_S", 0.0),
        mock.patch.object(deleting, "TURN_S", 0.3),
    ):
        connection = memories.connection_of(memory)
        begun: list[bool] = []

        def committing() -> bool:
            if not begun:
                begun.append(True)
                pipe.send(("begun",))
            return False

        connection.set_commit_hook(committing)
        deleted = memory.delete(where={"tags": (tag,)}, purge=purge)
        connection.set_commit_hook(None)
        pipe.send(("deleted", len(deleted.ids), deleted.chunks_deleted))


def write_beside(pipe: Connection, path: Path, tag: str) -> None:
    """Write something; tell how many documents with the tag there were at that moment."""
    with memories.open_memory(path, durability="normal") as memory:
        pipe.send(("ready",))
        pipe.recv()
        store = memories.store_of(memory)
        with store.transaction() as transaction:
            left = store.scan(marked(tag))
            transaction.remember(embedder="beside")
        pipe.send(("wrote", len(left)))


def marked(tag: str) -> Filter:
    """Everything with a tag."""
    return memories.EVERYTHING._replace(tags=(tag,))
