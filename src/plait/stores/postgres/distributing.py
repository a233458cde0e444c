"""Spread the tables over the servers of Citus, by memory: each memory stays on one of them.

Every table has its memory first in its key, and every statement names one memory. So the tables are
spread by that column, rows of one memory lie together, and the same statements run unchanged.
"""

from typing import Any

import psycopg

from plait.errors import StoreError
from plait.stores.postgres import fences
from plait.stores.postgres.address import parse
from plait.stores.postgres.commits import holding_all
from plait.stores.postgres.connection import Connections
from plait.types.records import NamedTuple

_HAS_CITUS = "SELECT 1 FROM pg_extension WHERE extname = 'citus'"
# In one transaction, one table after another: in parallel, Citus would refuse the second kind.
_ONE_BY_ONE = "SELECT set_config('citus.multi_shard_modify_mode', 'sequential', true)"
_TABLES = (
    "SELECT c.relname, EXISTS (SELECT 1 FROM pg_attribute AS a WHERE a.attrelid = c.oid "
    "AND a.attname = 'ns' AND NOT a.attisdropped), EXISTS (SELECT 1 FROM pg_dist_partition AS p "
    "WHERE p.logicalrelid = c.oid) FROM pg_class AS c WHERE c.relkind = 'r' "
    "AND c.relnamespace = 'plait'::regnamespace ORDER BY c.relname"
)
# What every server has whole, then the table that the others lie beside, then these.
_COPY = "SELECT create_reference_table(%s::regclass)"
_SPREAD = "SELECT create_distributed_table(%s::regclass, 'ns', colocate_with => %s)"
_FIRST = "namespaces"


class Spread(NamedTuple):
    """The tables that are spread now, and those that were before."""

    made: tuple[str, ...]
    before: tuple[str, ...]


def distribute(address: str, *, timeout: float = 30.0) -> Spread:
    """Spread plait's tables over the servers of Citus; those that are already stay as they are.

    Raises:
        StoreError: The server has no Citus, or no tables of plait, or these have members.
    """
    from plait.stores.postgres.schema import refresh

    place = parse(address)
    connections = Connections(place, timeout=timeout, durability="full")
    try:
        refresh(connections)
        with connections.lent() as session:
            if not has_citus(session.connection):
                raise StoreError(
                    f"The server of {place.shown} has no extension named citus, so its tables "
                    "stay on one server.",
                    code="no_citus",
                    subject=place.shown,
                )
            if fences.are_up(session.connection):
                raise StoreError(
                    f"{place.shown} has members, and the fences between them work on one server "
                    "only. Its tables stay there.",
                    code="members_not_spread",
                    subject=place.shown,
                )
            with holding_all(session.connection, timeout):
                return spread(session.connection)
    finally:
        connections.close()


def has_citus(connection: "psycopg.Connection[Any]") -> bool:
    """Tell whether the database has Citus."""
    return connection.execute(_HAS_CITUS).fetchone() is not None


def is_spread(connection: "psycopg.Connection[Any]") -> bool:
    """Tell whether plait's tables are spread, so that a new one must be, too."""
    listed = connection.execute(_TABLES).fetchall() if has_citus(connection) else []
    return any(name == _FIRST and done for name, _, done in listed)


def spread(connection: "psycopg.Connection[Any]") -> Spread:
    """Spread the tables that are not yet, in the caller's transaction."""
    connection.execute(_ONE_BY_ONE)
    listed = connection.execute(_TABLES).fetchall()
    before = tuple(name for name, _, done in listed if done)
    left = [(name, by_memory) for name, by_memory, done in listed if not done]
    left.sort(key=lambda row: (row[1], row[0] != _FIRST))
    for name, by_memory in left:
        if not by_memory:
            connection.execute(_COPY, (f"plait.{name}",))
        else:
            beside = "none" if name == _FIRST else f"plait.{_FIRST}"
            connection.execute(_SPREAD, (f"plait.{name}", beside))
    return Spread(tuple(name for name, _ in left), before)
