"""A process that writes notes to one memory, and tells what was acknowledged, line by line.

Usage: writing_child.py ADDRESS NAME. It ends when its input does.
"""

import os
import sys

from plait.errors import PlaitError
from plait.protocols import Entry, Store
from plait.stores.postgres.store import PostgresStore
from plait.types import Document, Passage


def write_note(store: Store, name: str, number: int) -> str:
    """Write one note, and every third time delete an earlier one; return what came of it."""
    id_ = f"{name}-{number}"
    words = f"note {number} of writer {name}"
    try:
        with store.transaction() as transaction:
            transaction.write(Entry(Document(id=id_, key=id_, text=words), [Passage(words)]))
            if number % 3 == 0:
                transaction.delete([f"{name}-{number - 2}"])
    except PlaitError as error:
        return error.code
    return "kept"


def main(address: str, name: str) -> None:
    os.set_blocking(sys.stdin.fileno(), False)
    store = PostgresStore(address, timeout=60.0)
    number = 0
    while sys.stdin.buffer.read(1) is None:  # neither input nor its end
        number += 1
        sys.stdout.write(f"{write_note(store, name, number)} {number}\n")
        sys.stdout.flush()
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
