"""The process of finding 2: writes, perhaps sniffs at its own file, writes on, and is killed."""

import sqlite3
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from unittest import mock

from plait.stores.sqlite.connection import Connections
from tests.reliability import memories, raw_open

MORE = 40  # few enough that SQLite does not move its journal into the file meanwhile


def write(pipe: Connection, path: Path, sniff: bool) -> None:
    """One note; then, after somebody else came and went, forty more."""
    memory = memories.open_memory(path)
    memory.store(memories.prose("n0"), key="n0")
    with ExitStack() as stack:
        if sniff:
            stack.enter_context(raw_open.permitted())
            with path.open("rb") as file:
                file.read(16)
            # plait notices that the visitor removed its journal, and would spare us the lesson.
            stack.enter_context(mock.patch.object(Connections, "renew", lambda _: None))
            stack.enter_context(mock.patch.object(Connections, "is_replaced", lambda *_: False))
        pipe.send(("ready",))
        pipe.recv()
        for number in range(1, MORE + 1):
            memory.store(memories.prose(f"n{number}"), key=f"n{number}")
        pipe.send(("done",))
        pipe.recv()


def visit(pipe: Connection, path: Path) -> None:
    """Open the file as any tool does, look, and close it cleanly.

    The tool brings its own SQLite. The newer one inside APSW looks at one lock more before it
    removes a journal, and would spare us the lesson.
    """
    connection = sqlite3.connect(path)
    connection.execute("SELECT count(*) FROM documents").fetchall()
    connection.close()
    pipe.send(("seen",))
