"""Vacuum and count tables without waiting forever for whoever has locked one.

A limit for locks would be a setting of the session, because a vacuum runs outside of transactions;
and a session may be somebody else's next, behind a pooler. So tables that are locked are skipped,
and tried again. Knows nothing of memories.
"""

from typing import Any

from psycopg import errors, sql

from plait.stores.postgres.pool import Patience

# What a server tells of a table that it has skipped.
_LOCKED = errors.LockNotAvailable.sqlstate


def vacuum(connection: Any, table: str, *, patience: Patience, truncate: bool = True) -> bool:
    """Vacuum a table and count its rows; return whether it was done, or locked all the time."""
    options = "ANALYZE, SKIP_LOCKED" if truncate else "ANALYZE, SKIP_LOCKED, TRUNCATE false"
    return _done(connection, f"VACUUM ({options}) plait.{{}}", table, patience)


def count(connection: Any, table: str, *, patience: Patience) -> bool:
    """Count the rows of a table; return whether it was done, or locked all the time."""
    return _done(connection, "ANALYZE (SKIP_LOCKED) plait.{}", table, patience)


def _done(connection: Any, act: str, table: str, patience: Patience) -> bool:
    told: list[str | None] = []

    def note(message: Any) -> None:
        told.append(message.sqlstate)

    connection.add_notice_handler(note)
    try:
        while True:
            try:
                connection.execute(sql.SQL(act).format(sql.Identifier(table)))
            except errors.LockNotAvailable:
                # subtle: indexes that are locked are waited for, up to the role's `lock_timeout`.
                told.append(_LOCKED)
            if _LOCKED not in told:
                return True
            told.clear()
            if not patience.wait():
                return False
    finally:
        connection.remove_notice_handler(note)
