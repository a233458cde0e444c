"""What the checks of the doctor have in common: findings about damage, and the advice to repair."""

from plait.errors import StoreDamaged, advise
from plait.stores.sqlite.connection import Connections
from plait.types.reports import Finding

FIX = advise("doctor_fix")
NAMED_ROWS = 5  # as many as a person reads; their number is told anyway


def broken(connections: Connections, problem: str, check: str = "pages") -> Finding:
    """Return the finding that ends the checks: nothing can be repaired in this file."""
    return Finding(
        check,
        "error",
        f"The file is damaged: {problem}. Restore a backup.",
        advice=advise("salvage", path=connections.path),
        code=StoreDamaged.code,
    )


def unsafe(connections: Connections, table: str, check: str) -> Finding:
    """Return the finding that a repair may lose rows: those of several tables are mixed up."""
    return broken(connections, f"rows of {table} and of others are mixed up", check)


def first_of(names: list[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - NAMED_ROWS} more" if len(names) > NAMED_ROWS else ""
    return ", ".join(names[:NAMED_ROWS]) + more
