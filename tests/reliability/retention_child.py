"""The process that is killed while the person's rules delete, archive and restore."""

from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from plait import Memory
from plait.errors import NotFound
from plait.settings.loading import load
from plait.writing import deleting
from tests.reliability import plants

RULES = {
    "keep_days": "note=100",
    "keep_most": "message=5,file=8",
    "archive_days": "observation=50",
    "delete_archived_days": 30,
}


def opened(path: Path) -> Memory:
    """Open a memory with rules under which most of it goes."""
    flags = {"db_path": str(path), "project": "", "embedding_provider": "none", **RULES}
    return Memory.open(config=load(flags, environ={}))


def live(pipe: Connection, path: Path, folder: Path, plant: str) -> None:
    """Maintain the memory and take it back, again and again, until somebody kills this process."""
    # More transactions per run, and no pauses between them: more moments to die in.
    deleting.SLICE_DOCUMENTS = 3
    deleting.give_turn = lambda held: 0.0
    with plants.planted(plant), opened(path) as memory:
        pipe.send(("ready",))
        while True:
            pipe.send(("begin",))
            memory.maintain(folder)
            pipe.send(("begin",))
            with suppress(NotFound):
                memory.undo()
