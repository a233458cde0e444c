"""Open a memory in a database, and what a memory in a file can do and it cannot."""

from importlib.util import find_spec
from typing import NoReturn

from plait.errors import StoreError, UsageError, advise
from plait.protocols import Store


def open_database(
    address: str, *, create: bool, timeout: float, durability: str, read_only: bool
) -> Store:
    """Open the memory at an address.

    Raises:
        UsageError: The address cannot be read, or the driver is not installed.
        StoreError: The memory cannot be used.
    """
    check_driver(address)
    from plait.stores.postgres.store import PostgresStore

    return PostgresStore(
        address, create=create, timeout=timeout, durability=durability, read_only=read_only
    )


def check_driver(address: str) -> None:
    """Check that an address can be read, and that plait has what it needs there.

    Raises:
        UsageError: The address cannot be read, or the driver is not installed.
        StoreError: The driver cannot be loaded.
    """
    from plait.stores.postgres.address import parse

    shown = parse(address).shown
    if find_spec("psycopg") is None:
        raise UsageError(
            f"{shown} is in PostgreSQL, which needs the package psycopg.",
            code="not_installed",
            subject="psycopg",
            advice=advise("install", extra="postgres"),
        )
    try:
        import plait.stores.postgres.store  # noqa: F401
    except ImportError as error:  # installed, but without the library that it needs
        raise StoreError(
            f"The package psycopg cannot be loaded: {str(error).splitlines()[0]}.",
            code="not_installed",
            subject="psycopg",
            advice=advise("install", extra="postgres"),
        ) from error


def refuse_without_file(address: str, verb: str) -> NoReturn:
    """Refuse what only a memory in a file can do.

    Raises:
        UsageError: Always; the code is "no_file".
    """
    from plait.stores.postgres.address import parse

    shown = parse(address).shown
    instead = {
        "back up": advise("dump", source=shown),
        "import": advise("dump", source=shown),
        "restore": advise("restore_dump"),
        "salvage": advise("doctor_fix"),
    }
    raise UsageError(
        f"plait cannot {verb} {shown}: it is in a database, and not in a file.",
        code="no_file",
        subject=shown,
        advice=instead[verb],
    )
