"""The embedding cache: vectors by the hash of their text; the least recently used are dropped."""

import json
from collections.abc import Iterable, Mapping, Sequence

import apsw

from plait.protocols import Vector
from plait.stores.sqlite import histories
from plait.stores.sqlite.connection import rows
from plait.types.ids import CACHED_ANSWER

# The share of rows above the limit at which a batch of the oldest is dropped: sorting for every new
# vector would cost more than the cache saves.
SLACK = 0.05

_CACHED = (
    "SELECT text_hash, embedding FROM embedding_cache "
    "WHERE text_hash IN (SELECT value FROM json_each(?))"
)
_KEEP = (
    "INSERT INTO embedding_cache (text_hash, embedding, created_at, accessed_at) "
    "VALUES (?, ?, ?, ?) ON CONFLICT (text_hash) DO UPDATE SET embedding = excluded.embedding, "
    "accessed_at = excluded.accessed_at"
)
_USED = (
    "UPDATE embedding_cache SET accessed_at = ? WHERE text_hash IN (SELECT value FROM json_each(?))"
)
_OLDEST = (
    "DELETE FROM embedding_cache WHERE text_hash IN "
    "(SELECT text_hash FROM embedding_cache ORDER BY accessed_at, text_hash LIMIT ?)"
)


def is_vector(data: object) -> bool:
    """Tell whether a value can be read as a vector."""
    return isinstance(data, bytes) and bool(data) and len(data) % Vector("f").itemsize == 0


def find(connection: apsw.Connection, names: Sequence[str]) -> dict[str, Vector]:
    """Return the vectors that are cached, by name."""
    vectors: dict[str, Vector] = {}
    for name, data in rows(connection, _CACHED, (json.dumps(list(names)),)):
        if is_vector(data):  # what is damaged is made again
            vectors[name] = vector = Vector("f")
            vector.frombytes(data)
    return vectors


def keep(
    connection: apsw.Connection,
    vectors: Mapping[str, Vector],
    used: Iterable[str],
    most: int,
    now: int,
) -> None:
    """Add vectors, note which others were used, and drop a batch of the oldest above ``most``."""
    connection.execute(_USED, (now, json.dumps(list(used))))
    connection.executemany(
        _KEEP, [(name, vector.tobytes(), now, now) for name, vector in vectors.items()]
    )
    count = int(connection.execute("SELECT count(*) FROM embedding_cache").get)
    if count > most * (1 + SLACK):
        connection.execute(_OLDEST, (count - most,))


def forget(connection: apsw.Connection) -> None:
    """Empty the caches: it is unknown which vectors and answers came from a purged text."""
    connection.execute("DELETE FROM embedding_cache")
    histories.forget(connection, CACHED_ANSWER)
