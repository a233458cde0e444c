"""The embedding cache: vectors by the hash of their text; the least recently used are dropped.

Each member has its own: whoever finds a text in a cache knows that somebody has stored it.
"""

from collections.abc import Iterable, Mapping, Sequence

from plait.protocols import Vector
from plait.stores.postgres.connection import Channel
from plait.stores.sqlite.cache import SLACK, is_vector
from plait.types.ids import CACHED_ANSWER

_CACHED = (
    "SELECT text_hash, embedding FROM plait.embedding_cache "
    "WHERE ns = %(ns)s AND label = %(label)s AND text_hash = ANY(%(names)s)"
)
_KEEP = (
    "INSERT INTO plait.embedding_cache (ns, text_hash, embedding, created_at, accessed_at, label) "
    "SELECT %(ns)s, v.name, v.data, %(now)s, %(now)s, %(label)s "
    "FROM unnest(%(names)s::text[], %(rows)s::bytea[]) AS v (name, data) "
    "ON CONFLICT (ns, text_hash, label) DO UPDATE SET embedding = excluded.embedding, "
    "accessed_at = excluded.accessed_at"
)
_USED = (
    "UPDATE plait.embedding_cache SET accessed_at = %(now)s "
    "WHERE ns = %(ns)s AND label = %(label)s AND text_hash = ANY(%(names)s)"
)
_COUNT = "SELECT count(*) FROM plait.embedding_cache WHERE ns = %(ns)s AND label = %(label)s"
_OLDEST = (
    "DELETE FROM plait.embedding_cache WHERE ns = %(ns)s AND label = %(label)s AND text_hash IN "
    "(SELECT c.text_hash FROM plait.embedding_cache AS c WHERE c.ns = %(ns)s "
    "AND c.label = %(label)s ORDER BY c.accessed_at, c.text_hash LIMIT %(count)s)"
)
_FORGET = "DELETE FROM plait.embedding_cache WHERE ns = %(ns)s"
_FORGET_ANSWERS = "DELETE FROM plait.histories WHERE ns = %(ns)s AND starts_with(name, %(prefix)s)"


def find(session: Channel, names: Sequence[str]) -> dict[str, Vector]:
    """Return the vectors that are cached, by name."""
    vectors: dict[str, Vector] = {}
    own = session.membership.personal
    for name, data in session.rows(_CACHED, names=list(names), label=own):
        if is_vector(data):  # what is damaged is made again
            vectors[name] = vector = Vector("f")
            vector.frombytes(data)
    return vectors


def keep(
    session: Channel, vectors: Mapping[str, Vector], used: Iterable[str], most: int, now: int
) -> None:
    """Add vectors, note which others were used, and drop a batch of the oldest above ``most``."""
    own = session.membership.personal
    session.execute(_USED, now=now, names=list(used), label=own)
    if vectors:
        rows = [vector.tobytes() for vector in vectors.values()]
        session.execute(_KEEP, now=now, names=list(vectors), rows=rows, label=own)
    count = session.value(_COUNT, label=own)
    if count > most * (1 + SLACK):
        session.execute(_OLDEST, count=count - most, label=own)


def forget(session: Channel) -> None:
    """Empty the caches: it is unknown which vectors and answers came from a purged text."""
    session.execute(_FORGET)
    forget_answers(session)


def forget_answers(session: Channel) -> None:
    """Drop the answers of models."""
    session.execute(_FORGET_ANSWERS, prefix=CACHED_ANSWER)
