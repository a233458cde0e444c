"""The memory behind a server: opened at the first request, not at the start."""

import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from plait.errors import PlaitError
from plait.memory import Memory
from plait.settings.loading import Config
from plait.stores import exists
from plait.text import visible
from plait.types.audit import acting
from plait.types.ids import is_address
from plait.writing.use import MAX_UNWRITTEN

# Answers after which their use is recorded. One call may read twice, and the memory itself
# writes at MAX_UNWRITTEN, in the middle of an answer.
ENOUGH_READS = MAX_UNWRITTEN // 2

Opener = Callable[[bool], Memory]


class LazyMemory:
    """A memory that is opened late, and reopened when its file is replaced.

    Not safe for several threads: the server uses it from its one worker thread.
    """

    def __init__(self, opener: Opener, config: Config | None = None) -> None:
        """Take the function that opens the memory, and the settings that it will have.

        The function's argument says whether to create the file.
        """
        self._opener = opener
        # Needed before it is open: an error may tell why it cannot be opened.
        self.config = config
        self._memory: Memory | None = None
        # The path of the memory, and which file was there when it was last open.
        self._path = ""
        self._file: tuple[int, int] | None = None
        self._next_look = 0.0

    @classmethod
    def opened(cls, memory: Memory) -> "LazyMemory":
        """Wrap a memory that is already open; it follows its file by itself."""
        lazy = cls(lambda create: memory, memory.config)
        lazy._memory = memory
        return lazy

    def get(self, *, create: bool = False) -> Memory:
        """Return the memory; without ``create``, one that never was there answers empty.

        Raises:
            StoreError: The file was there and is gone. Its disk may come back: an empty memory in
                its place would answer "no hits", and take what belongs into the other one.
        """
        is_other = self._file is not None and _file_identity(self._path) != self._file
        if self._memory is not None and is_other:
            # The file was deleted or replaced. Close the store first: what was read in the old
            # file must not be counted in the new one.
            self._memory.engine.close()
            self.close()
        if self._memory is not None:
            return self._memory
        if self._file is not None and not exists(self._path):
            from plait.stores.sqlite.replaced import vanished

            raise vanished(self._path)
        memory = self._opener(create)
        if create or memory.is_there:
            self._remember(memory)
        return memory

    def _remember(self, memory: Memory) -> None:
        self._memory, self._path = memory, memory.path
        self._file = _file_identity(memory.path)

    def write_down_use(self) -> None:
        """Record which passages were read, once enough of them wait."""
        if self._memory is not None:
            self._memory.write_down_use(ENOUGH_READS)

    def maintain_if_due(self) -> None:
        """Do what is due, if the person wants that and it is long ago; call it between requests."""
        if self.config is None or self.config.settings.maintain_hours is None:
            return
        if self._memory is None or monotonic() < self._next_look:
            return
        from plait.memory.upkeep import LOOK_S, is_due

        self._next_look = monotonic() + LOOK_S

        try:
            if is_due(self._memory):
                with acting(door="mcp"):
                    done = self._memory.maintain(light=True)
                for notice in done.troubles:
                    sys.stderr.write(f"{visible(notice.text)}\n")
        except PlaitError as error:
            sys.stderr.write(f"{visible(str(error))}\n")  # the next look tries again

    def close(self) -> None:
        """Release the file, if it was opened."""
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()


def _file_identity(path: str) -> tuple[int, int] | None:
    """Return device and inode of the file at a path; ``None`` if there is none."""
    if is_address(path):
        return None
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
