"""postgres: what concerns a database rather than one memory in it."""

from argparse import ArgumentParser, Namespace

from plait.cli import Output, as_database_path
from plait.errors import UsageError, quoted
from plait.present.text import counted, on_a_line
from plait.types.ids import is_address

_ACTIONS = {
    "list": "the memories of the database",
    "drop": "delete a memory with all that belongs to it (with --yes)",
    "distribute": "spread the tables over the servers of Citus, by memory",
}


def postgres_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait postgres``."""
    parser.add_argument(
        "action",
        choices=tuple(_ACTIONS),
        metavar="ACTION",
        help="; ".join(f"{name}: {what}" for name, what in _ACTIONS.items()),
    )
    parser.add_argument(
        "address",
        nargs="?",
        type=as_database_path,
        metavar="ADDRESS",
        help="postgresql://…?namespace=NAME; by default that of your memory",
    )
    parser.add_argument("--yes", action="store_true", help="drop: do it; nothing brings it back")


def postgres_run(arguments: Namespace, out: Output) -> int:
    """List or drop memories, or spread the tables."""
    address = arguments.address or out.config.settings.db_path
    if not is_address(address):
        raise UsageError(
            f"{quoted(address)} is not the address of a database, such as "
            "postgresql://db.example/team.",
            code="no_database_address",
        )
    if arguments.yes and arguments.action != "drop":
        raise UsageError("--yes belongs to the action drop.", code="bad_value", subject="--yes")
    from plait.stores.databases import check_driver

    check_driver(address)
    acts = {"list": _list, "drop": _drop, "distribute": _distribute}
    acts[arguments.action](address, arguments, out)
    return 0


def _list(address: str, arguments: Namespace, out: Output) -> None:
    from plait.stores.postgres.memories import memories

    listed = memories(address, timeout=out.config.settings.sqlite_open_timeout_secs)
    lines = [f"{on_a_line(row.name)}  {counted(row.passages, 'passage')}" for row in listed]
    rows = [row._asdict() for row in listed]
    out.result({"memories": rows}, "\n".join(lines) or "No memories here")


def _drop(address: str, arguments: Namespace, out: Output) -> None:
    from plait.stores.postgres.address import parse
    from plait.stores.postgres.memories import drop_memory

    place = parse(address).shown
    if not arguments.yes:
        raise UsageError(
            f"This deletes the memory {place} for everybody, and nothing brings it back. Add --yes "
            "to do it.",
            code="not_confirmed",
            subject=place,
        )
    drop_memory(address, timeout=out.config.settings.sqlite_open_timeout_secs)
    out.result({"dropped": place}, f"Deleted the memory {place}")


def _distribute(address: str, arguments: Namespace, out: Output) -> None:
    from plait.stores.postgres.address import parse
    from plait.stores.postgres.distributing import distribute

    done = distribute(address, timeout=out.config.settings.sqlite_open_timeout_secs)
    place = parse(address).shown
    before = f"; {counted(len(done.before), 'table')} already were" if done.before else ""
    spread = f"{counted(len(done.made), 'table')} of {place} spread by memory"
    text = f"{spread}{before}" if done.made else f"All tables of {place} are spread already"
    out.result({"path": place, "spread": list(done.made), "before": list(done.before)}, text)
