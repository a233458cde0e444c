"""Tidy up after many writes, and remove what a purge left in the server's pages."""

from contextlib import suppress

from psycopg import errors

from plait.stores.postgres.connection import Connections
from plait.stores.postgres.hnsw import Indexes
from plait.stores.postgres.state import set_fact
from plait.stores.sqlite.state import UNSCRUBBED

# Rows that were written since the server last counted a table: more, and its plans are guesses.
UNCOUNTED_ROWS = 1_000
UNCOUNTED_SHARE = 0.2
_OWN_TABLES = (
    "SELECT relname, n_mod_since_analyze, n_live_tup FROM pg_stat_user_tables "
    "WHERE schemaname = 'plait'"
)
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
            for table, changed, rows in session.rows(_OWN_TABLES) if may_vacuum else ():
                grown = changed > max(UNCOUNTED_ROWS, UNCOUNTED_SHARE * rows)
                if compact or grown:
                    # Until then, a search by words looks up every row twice. To give pages back
                    # to the disk, others would have to wait.
                    options = "ANALYZE" if compact else "ANALYZE, TRUNCATE false"
                    session.connection.execute(f'VACUUM ({options}) plait."{table}"')
    if indexes is not None:
        # Only the owner of the tables makes indexes; without one, searches compare exactly.
        with connections.lent() as session, suppress(errors.InsufficientPrivilege):
            indexes.tidy(session)
    if purged:
        with connections.writing() as session:
            set_fact(session, UNSCRUBBED, None)
    return left_by_purge(connections.path) if purged and not may_vacuum else ()


def left_by_purge(path: str) -> tuple[str, ...]:
    """Return where somebody who may not vacuum has left what was purged."""
    return (f"free pages of {path} (the owner of its tables can run reindex --compact)",)
