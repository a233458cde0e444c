"""postgres: what concerns a database rather than a memory in it."""

from argparse import ArgumentParser, Namespace

from plait.cli import Output
from plait.errors import UsageError, advise, quoted
from plait.present.text import counted
from plait.stores import is_address


def postgres_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait postgres``."""
    parser.add_argument(
        "action",
        choices=("distribute",),
        metavar="ACTION",
        help="distribute: spread the tables over the servers of Citus, by memory",
    )
    parser.add_argument(
        "address",
        nargs="?",
        metavar="ADDRESS",
        help="postgresql://…?namespace=NAME; by default that of your memory",
    )


def postgres_run(arguments: Namespace, out: Output) -> int:
    """Spread the tables of a database."""
    settings = out.config.settings
    address = arguments.address or settings.db_path
    if not is_address(address):
        raise UsageError(
            f"{quoted(address)} is not the address of a database, such as "
            "postgresql://db.example/team.",
            code="no_database_address",
        )
    from plait.stores.postgres.address import parse

    try:
        from plait.stores.postgres.distributing import distribute
    except ImportError as error:
        raise UsageError(
            f"A memory in PostgreSQL needs the package psycopg: {error}.",
            code="not_installed",
            subject="psycopg",
            advice=advise("install", extra="postgres"),
        ) from error
    done = distribute(address, timeout=settings.sqlite_open_timeout_secs)
    place = parse(address).shown
    before = f"; {counted(len(done.before), 'table')} already were" if done.before else ""
    spread = f"{counted(len(done.made), 'table')} of {place} spread by memory"
    text = f"{spread}{before}" if done.made else f"All tables of {place} are spread already"
    out.result({"path": place, "spread": list(done.made), "before": list(done.before)}, text)
    return 0
