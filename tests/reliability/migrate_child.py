"""The process that is killed while it moves a memory."""

from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from pytest import MonkeyPatch

from plait.exporting import migrating
from plait.stores.moving import TABLES


def live(pipe: Connection, source: str, target: str) -> None:
    """Move a memory in small steps; say after each that it is done."""
    pipe.send(("ready",))
    move_in_steps(source, target, lambda: pipe.send(("step",)))
    pipe.send(("done",))


def move_in_steps(source: str, target: str, step: Callable[[], None]) -> None:
    """Move a memory a few rows at a time; tell of every step, also of the last ones."""
    small = tuple(table._replace(batch=4) for table in TABLES)
    compare = migrating._compare_answers

    def compared(*arguments: Any) -> int:
        step()
        same = compare(*arguments)
        step()
        return same

    with MonkeyPatch.context() as patch:
        patch.setattr(migrating, "TABLES", small)
        patch.setattr(migrating, "QUERIES", 3)
        patch.setattr(migrating, "_compare_answers", compared)
        migrating.migrate(source, target, progress=lambda *_: step())
