"""A process whose files may not grow: it writes until the disk is full, reads on, and gets room."""

import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from plait.errors import StoreFull
from plait.memory import Memory
from tests.reliability import memories, plants

ROUNDS = 15  # enough writes to reach most limits of the sweep


@contextmanager
def _room() -> Iterator[None]:
    """The harness's own files are not part of the experiment."""
    limit, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))


def live(pipe: Connection, path: Path, operation: str, limit: int, plant: str) -> None:
    """Do one kind of thing under a limit of file size in bytes, and say what was promised."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with plants.planted(plant):
        worker = Worker(pipe, path)
        if operation != "create":
            worker.prepare()
        act: Callable[[int], None] = getattr(worker, operation)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        for number in range(ROUNDS):
            try:
                act(number)
            except StoreFull as error:
                pipe.send(("full", str(error)))
                break
        worker.read_on()
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        act(ROUNDS)
        worker.store(ROUNDS + 1)
        worker.close()


def write_and_die(pipe: Connection, path: Path, moved: int, more: int) -> None:
    """Leave a journal behind: first what has been moved into the file, then what has not."""
    memory = memories.open_memory(path, durability="normal")
    for number in range(moved + more):
        if number == moved:
            memory.engine.tidy()  # the journal begins anew, and keeps its size
        memory.store(memories.prose(f"w{number}"), key=f"w{number}")
    os.kill(os.getpid(), signal.SIGKILL)


class Worker:
    """Sends ``promise`` with each document that was acknowledged."""

    def __init__(self, pipe: Connection, path: Path) -> None:
        self._pipe = pipe
        self._path = path
        self._memory: Memory | None = None
        self._ledger: memories.Contents = {}

    def _open(self) -> Memory:
        if self._memory is None:
            self._memory = memories.open_memory(self._path)
        return self._memory

    def _promise(self, name: str, text: str) -> None:
        self._ledger[name] = text
        self._pipe.send(("promise", name, text))

    def close(self) -> None:
        """Leave as a program does at its end."""
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()

    def prepare(self) -> None:
        """Some notes that are in the file itself, with an empty journal."""
        memory = self._open()
        for number in range(4):
            text = memories.prose(f"old{number}")
            memory.store(text, key=f"old{number}")
            self._promise(f"note:old{number}", text)
        memory.doctor(fix=True)

    def create(self, number: int) -> None:
        """The first start, then one note."""
        self.store(number)

    def store(self, number: int) -> None:
        """One note."""
        text = memories.prose(f"new{number}", 12)
        self._open().store(text, key=f"new{number}")
        self._promise(f"note:new{number}", text)

    def ingest(self, number: int) -> None:
        """A folder with two more files than before."""
        folder = self._path.with_name("notes")
        folder.mkdir(exist_ok=True)
        texts = {f"{number}-{part}.md": memories.prose(f"f{number}p{part}", 12) for part in (0, 1)}
        with _room():
            for name, text in texts.items():
                (folder / name).write_text(text, encoding="utf-8")
        self._open().ingest(folder)
        for file in folder.iterdir():
            self._promise(f"file:{file.name}", file.read_text(encoding="utf-8"))

    def reindex(self, number: int) -> None:
        """All indexes anew, in another space each time."""
        with memories.open_memory(self._path, memories.DIMS * (1 + number % 2)) as other:
            other.reindex(embeddings=True)

    def backup(self, number: int) -> None:
        """A copy beside the file."""
        self.store(number)
        self._open().backup(self._path.with_name(f"copy{number}.db"))

    def read_on(self) -> None:
        """A full disk keeps nobody from reading."""
        if not self._ledger:
            return
        memory = self._open()
        problems = memories.differences(memory, self._ledger)
        # Files of a run that failed half-way are whole or absent; which of the two is open.
        problems = [row for row in problems if not row.startswith("back from the dead: file")]
        name = next(iter(self._ledger))
        token = memories.token_of(self._ledger[name])
        problems += memories.unsearchable(memory, self._ledger, {token: name})
        if problems:
            self._pipe.send(("wrong", f"while full: {problems}"))


def begin_full(pipe: Connection, path: Path) -> None:
    """Open a memory while nothing can be written, read it, and go on once there is room."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, most))
    with memories.open_memory(path) as memory:
        pipe.send(("notices", [notice.code for notice in memory.opening_notices]))
        pipe.send(("found", [hit.document.key for hit in memory.search("harbour")]))
        pipe.send(("counted", memory.stats().doc_count, len(memory.timeline())))
        for act in (lambda: memory.store("the harbour fee"), lambda: memory.delete("old")):
            try:
                act()
            except StoreFull as error:
                pipe.send(("full", str(error)))
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        memory.backup(path.with_name("copy.db"))
        memory.store("the harbour fee", key="new")
        pipe.send(("later", sorted(hit.document.key or "" for hit in memory.search("harbour"))))
