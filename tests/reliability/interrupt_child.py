"""Interrupt an ingest at every line of the code that begins and ends transactions.

Prints one line for each point after which the memory is not as it should be, and how many there
were. A process of its own, because it traces.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import apsw

from plait import Memory

WATCHED = {"write_lock.py": ("WriteLock",), "connection.py": ("Guard",)}
WATCHED |= {"journal.py": ("patiently",), "store.py": ("SQLiteStore.transaction",)}
Tracer = Callable[[FrameType, str, object], Any]


def is_watched(frame: FrameType) -> bool:
    code = frame.f_code
    folder, _, name = code.co_filename.rpartition("/")
    return folder.endswith("stores/sqlite") and code.co_qualname.startswith(WATCHED.get(name, "\0"))


def interrupting(number: int, points: list[str]) -> Tracer:
    """Raise KeyboardInterrupt at the so manieth line or return that is watched."""

    def inside(frame: FrameType, event: str, _: object) -> Any:
        if event in ("line", "return"):
            points.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}:{event}")
            if len(points) == number:
                sys.settrace(None)
                raise KeyboardInterrupt
        return inside

    return lambda frame, event, _: inside if is_watched(frame) else None


def problems(folder: Path, number: int, points: list[str]) -> list[str]:
    """What is wrong after an interruption; ``points`` tells where it came."""
    notes, path = folder / "notes", folder / f"{number}.db"
    memory = Memory.open(path, embedder="none", project="")
    sys.settrace(interrupting(number, points))
    try:
        memory.ingest(notes)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    wrong = []
    memory.ingest(notes)
    other = apsw.Connection(str(path))
    try:
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
    except apsw.BusyError:
        wrong.append("others are locked out")
    other.close()
    memory.close()
    with Memory.open(path, create=False) as again:
        if again.stats().doc_count != len(list(notes.iterdir())):
            wrong.append("notes are missing")
    return wrong


def main(folder: Path) -> None:
    (folder / "notes").mkdir()
    for number in range(3):
        (folder / "notes" / f"{number}.md").write_text(f"Word{number}.", encoding="utf-8")
    number = 0
    while True:
        number += 1
        points: list[str] = []
        wrong = problems(folder, number, points)
        if len(points) < number:
            break
        for problem in wrong:
            sys.stdout.write(f"{points[-1]} {problem}\n")
    sys.stdout.write(f"points {number - 1}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
