"""The memories of a database: which there are, and how one is dropped."""

from plait.stores.moving import TABLES, VECTOR_TABLE
from plait.stores.postgres.address import parse
from plait.stores.postgres.connection import Channel, Connections
from plait.stores.postgres.hnsw import Indexes
from plait.stores.postgres.labels import refuse_member
from plait.stores.postgres.schema import prepare
from plait.types.records import NamedTuple

_LIST = "SELECT name, passages FROM plait.namespaces ORDER BY name"
_TABLES_THERE = "SELECT to_regclass('plait.namespaces')"
# What is not moved, because it is made of the rest, or belongs to this database.
_BESIDE = ("tags", "postings", "commits", "members")


class KeptMemory(NamedTuple):
    """A memory of a database."""

    name: str
    passages: int


def memories(address: str, *, timeout: float) -> list[KeptMemory]:
    """Return the memories of a database, by name; a member sees its own.

    Raises:
        StoreError: The database cannot be used.
    """
    connections = Connections(parse(address), timeout=timeout, durability="full")
    try:
        with connections.lent() as session:
            if session.value(_TABLES_THERE) is None:
                return []
            return [KeptMemory(name, passages) for name, passages in session.rows(_LIST)]
    finally:
        connections.close()


def drop_memory(address: str, *, timeout: float) -> None:
    """Delete a memory with all that belongs to it; only the owner of the tables may.

    Raises:
        StoreError: There is no such memory, or this role may not.
    """
    place = parse(address)
    connections = Connections(place, timeout=timeout, durability="full")
    try:
        has_vectors = prepare(connections, place.namespace, create=False, read_only=False)
        refuse_member(connections.membership, "drop a memory")
        with connections.writing() as session:
            drop_rows(session, has_vectors=has_vectors)
        if has_vectors:
            with connections.lent() as session:
                Indexes().tidy(session)
    finally:
        connections.close()


def drop_rows(session: Channel, *, has_vectors: bool) -> None:
    """Delete all rows of a memory, in the caller's transaction."""
    names = ["embeddings" if table.name == VECTOR_TABLE.name else table.name for table in TABLES]
    for name in (*_BESIDE, *names, "namespaces"):
        if name != "embeddings" or has_vectors:
            session.execute(f"DELETE FROM plait.{name} WHERE ns = %(ns)s")  # noqa: S608
