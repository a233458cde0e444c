"""postgres: what concerns a database rather than a memory in it."""

from argparse import ArgumentParser, Namespace

from plait.cli import Output, as_database_path
from plait.errors import UsageError, quoted
from plait.present.text import counted
from plait.types.ids import is_address


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
        type=as_database_path,
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
    from plait.stores.databases import check_driver
    from plait.stores.postgres.address import parse

    check_driver(address)
    from plait.stores.postgres.distributing import distribute

    done = distribute(address, timeout=settings.sqlite_open_timeout_secs)
    place = parse(address).shown
    before = f"; {counted(len(done.before), 'table')} already were" if done.before else ""
    spread = f"{counted(len(done.made), 'table')} of {place} spread by memory"
    text = f"{spread}{before}" if done.made else f"All tables of {place} are spread already"
    out.result({"path": place, "spread": list(done.made), "before": list(done.before)}, text)
    return 0
