"""Processes that have a memory open while it is replaced, or that replace it until they die."""

import os
import resource
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from unittest import mock

from plait.errors import PlaitError
from plait.memory import Memory
from plait.stores.sqlite import restoring
from tests.reliability import memories


def write_and_die(pipe: Connection, path: Path, count: int, checkpoint: bool = False) -> None:
    """Write notes and leave the journal behind, as kill -9 does."""
    memory = memories.open_memory(path)
    for number in range(count):
        memory.store(memories.prose(f"w{number}"), key=f"w{number}")
    if checkpoint:
        memory.engine.tidy()
        memory.store(memories.prose("last"), key="last")
    os.kill(os.getpid(), signal.SIGKILL)


def serve(pipe: Connection, path: Path) -> None:
    """Keep a memory open and do what the parent says; answer with what came of it."""
    memory = memories.open_memory(path)
    memory.store(memories.prose("served"), key="served")
    pipe.send(("ready",))
    while (order := pipe.recv()) is not None:
        act, name = order
        try:
            if act == "store":
                memory.store(memories.prose(name), key=name)
                pipe.send(("stored", name))
            else:
                names = sorted(document.doc_id for document in memories.documents(memory))
                pipe.send(("names", names))
        except PlaitError as error:
            pipe.send(("refused", error.code))
    memory.close()
    pipe.send(("closed",))


def store_until_killed(pipe: Connection, path: Path, name: str) -> None:
    """Store notes for ever, and say which of them were acknowledged or refused."""
    memory = memories.open_memory(path)
    pipe.send(("ready",))
    number = 0
    while not pipe.poll():
        key = f"{name}n{number}"
        try:
            memory.store(memories.prose(key, 3), key=key)
            pipe.send(("ack", key))
        except PlaitError as error:
            pipe.send(("refused", key, error.code))
        number += 1
    memory.close()


def restore_and_die(pipe: Connection, path: Path, source: Path, step: int) -> None:
    """Restore, and die at the n-th step that touches a name."""
    left = [step]

    def dying(honest):
        def act(*arguments, **how):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return honest(*arguments, **how)

        return act

    names = ("link", "replace", "unlink", "fsync", "ftruncate", "pwrite", "open")
    patches = [mock.patch.object(os, name, dying(getattr(os, name))) for name in names]
    for patch in patches:
        patch.start()
    try:
        Memory.restore(source, path)
    finally:
        for patch in patches:
            patch.stop()
    pipe.send(("finished",))


def copy_slowly(pipe: Connection, path: Path, source: Path) -> None:
    """Restore, and wait with the copy made until the parent says more."""
    honest = restoring._swap

    def swap(*arguments):
        pipe.send(("copying",))
        pipe.recv()
        return honest(*arguments)

    with mock.patch.object(restoring, "_swap", swap):
        Memory.restore(source, path)
    pipe.send(("finished",))


def restore_without_room(pipe: Connection, path: Path, source: Path) -> None:
    """Restore where no file may grow past half of the backup."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (source.stat().st_size // 2, most))
    try:
        Memory.restore(source, path)
    except PlaitError as error:
        pipe.send(("refused", error.code, str(error)))
