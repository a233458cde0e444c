"""Looks for words in files from outside: the process under test must not open its own file."""

from multiprocessing.connection import Connection
from pathlib import Path

SHARED_PREFIX = 2  # FTS5 stores a term without what it shares with its neighbour


def look(pipe: Connection, folder: Path, words: list[str]) -> None:
    """Where these words can still be read."""
    places = []
    for file in sorted(folder.iterdir()):
        data = file.read_bytes().lower()
        places += [
            f"{word} in {file.name}" for word in words if word[SHARED_PREFIX:].encode() in data
        ]
    pipe.send(("places", places))
