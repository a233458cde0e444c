"""FTS5's tokenizer without a file, for engines that have none of their own."""

from _thread import _local
from typing import Any

import apsw

_own: Any = _local()


def connection() -> apsw.Connection:
    """Return this thread's connection to nothing."""
    if not hasattr(_own, "connection"):
        _own.connection = apsw.Connection(":memory:")
    opened: apsw.Connection = _own.connection
    return opened
