"""Ingests a folder beside others that ingest the same, in a process of its own."""

from multiprocessing.connection import Connection
from pathlib import Path

from plait.memory import Memory


def ingest(pipe: Connection, database: Path, folder: Path, allow_removal: bool) -> None:
    """Wait for the start, then ingest once."""
    with Memory.open(database, embedder="hashing", project="") as memory:
        pipe.send(("ready",))
        pipe.recv()
        report = memory.ingest(folder, allow_removal=allow_removal)
        pipe.send(("done", [row.outcome for row in report.reports]))
