"""Tidy up after many writes, and remove what a purge left in the server's pages."""

from contextlib import suppress

from psycopg import errors

from plait.stores.postgres import vacuuming
from plait.stores.postgres.connection import Channel, Connections
from plait.stores.postgres.hnsw import Indexes
from plait.stores.postgres.pool import Patience
from plait.stores.postgres.state import set_fact
from plait.stores.sqlite.state import UNSCRUBBED

# Rows that were written since the server last counted a table: more, and its plans are guesses. The
# share is one of the memory's own rows: of a memory that it has not counted, a server with much
# larger ones expects a single row, and looks up all of them again and again.
UNCOUNTED_ROWS = 1_000
UNCOUNTED_SHARE = 0.2
# Seconds for all tables that somebody has locked; the server does it by itself, too.
LOCKED_S = 3.0
_OWN_TABLES = (
    "SELECT relname, n_mod_since_analyze, n_live_tup FROM pg_stat_user_tables "
    "WHERE schemaname = 'plait'"
)
# A server tells what this connection has written a second later, unless it is asked to.
_TELL_NOW = "SELECT pg_stat_force_next_flush()"
_PASSAGES = "SELECT passages FROM plait.namespaces WHERE ns = %(ns)s"
# subtle: whoever may not is only warned, and the table is left out.
_MAY_VACUUM = (
    "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class "
    "WHERE oid = to_regclass('plait.namespaces')"
)


def tidy(
    connections: Connections, *, compact: bool, purged: bool, indexes: Indexes | None
) -> tuple[str, ...]:
    """Let the server clear the pages of many writes or a purge, and count what it plans by.

    Only the owner of the tables may. It returns where a purge may have left something.
    """
    may_vacuum = True
    if compact or connections.wrote:
        with connections.lent() as session:
            may_vacuum = bool(session.value(_MAY_VACUUM))
            session.execute(_TELL_NOW)
            tables = session.rows(_OWN_TABLES) if may_vacuum else []
            passages = max([1, *(rows for table, _, rows in tables if table == "passages")])
            own = min(1.0, int(session.value(_PASSAGES) or 0) / passages)
            patience = Patience(LOCKED_S)  # whoever locks a table may be vacuuming it
            for table, changed, rows in tables:
                if compact:
                    # subtle: it waits for a lock, and so ends an automatic one that holds it.
                    session.connection.execute(f'VACUUM (ANALYZE) plait."{table}"')
                else:
                    _keep_up(session, table, changed, rows, own, patience)
    if indexes is not None:
        # Only the owner of the tables makes indexes; without one, searches compare exactly.
        with connections.lent() as session, suppress(errors.InsufficientPrivilege):
            indexes.tidy(session)
    if purged:
        with connections.writing() as session:
            set_fact(session, UNSCRUBBED, None)
    return left_by_purge(connections.path) if purged and not may_vacuum else ()


def _keep_up(
    session: Channel, table: str, changed: int, rows: int, own: float, patience: Patience
) -> None:
    """Do what a table needs of which so many rows were written, given the memory's share."""
    if changed > max(UNCOUNTED_ROWS, UNCOUNTED_SHARE * rows):
        # Until then, a search by words looks up every row twice. To give pages back to the disk,
        # others would have to wait.
        vacuuming.vacuum(session.connection, table, patience=patience, truncate=False)
    elif changed > max(UNCOUNTED_ROWS, UNCOUNTED_SHARE * rows * own):
        vacuuming.count(session.connection, table, patience=patience)


def left_by_purge(path: str) -> tuple[str, ...]:
    """Return where somebody who may not vacuum has left what was purged."""
    return (f"free pages of {path} (the owner of its tables can run reindex --compact)",)
