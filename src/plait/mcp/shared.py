"""The one memory behind a server: opened when first asked for, never before."""

from collections.abc import Callable
from pathlib import Path

from plait.memory import READS_PUT_OFF, Memory
from plait.stores import exists

# Answers after which their use is written down. One call may read twice, and the memory itself
# would not wait beyond READS_PUT_OFF.
ENOUGH_READS = READS_PUT_OFF // 2

Opener = Callable[[bool], Memory]


class Shared:
    """A memory that is opened late, and again when its file is another one than before.

    Not for several threads: the server asks from the one thread that does its work.
    """

    def __init__(self, opener: Opener) -> None:
        """Remember how to open it; ``opener`` is told whether to make an absent file."""
        self._opener = opener
        self._memory: Memory | None = None
        self._file: tuple[int, int] | None = None

    @classmethod
    def of(cls, memory: Memory) -> "Shared":
        """One that is open already."""
        shared = cls(lambda create: memory)
        shared._memory = memory
        shared._file = _identity(memory.path)
        return shared

    def memory(self, *, create: bool = False) -> Memory:
        """The memory; without ``create`` an absent file stays absent and answers empty."""
        if self._memory is not None and _identity(self._memory.path) != self._file:
            # Deleted or restored under us: writing on would write into a file that nobody sees.
            self.close()
        if self._memory is not None:
            return self._memory
        opened = self._opener(create)
        if create or exists(opened.path) or opened.path == ":memory:":
            self._memory, self._file = opened, _identity(opened.path)
        return opened

    def write_down_use(self) -> None:
        """Write down what was read, once enough of it waits: an answer must not wait for that."""
        if self._memory is not None:
            self._memory.write_down_use(ENOUGH_READS)

    def close(self) -> None:
        """Release the file, if it was ever opened."""
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()


def _identity(path: str) -> tuple[int, int] | None:
    """Which file a path means now; ``None`` where there is none."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
