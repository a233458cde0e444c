"""doctor: check, repair or salvage a memory."""

from argparse import ArgumentParser, Namespace

from plait.cli import NOTHING_FOUND, Output, as_database_path, in_shell
from plait.cli.shared import or_empty
from plait.memory import Memory
from plait.present.json import findings_dict
from plait.present.text import findings_text
from plait.types.reports import NO_MEMORY, Salvaged


def doctor_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait doctor``."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--fix", action="store_true", help="repair what can be repaired")
    group.add_argument(
        "--salvage",
        type=as_database_path,
        metavar="NEW.db",
        help="copy all that can still be read into a new memory; the old file is not changed",
    )


def doctor_run(arguments: Namespace, out: Output) -> int:
    """Check the memory, and repair it with ``--fix`` or copy it with ``--salvage``."""
    if arguments.salvage is not None:
        return _salvage_run(arguments.salvage, out)
    from plait.agents.connecting.checking import check_connections
    from plait.cli.connect import chosen_launch, machine_here

    findings = [
        *Memory.examine(out.config.settings.db_path, fix=arguments.fix, config=out.config),
        *check_connections(machine_here(), chosen_launch({})),
    ]
    out.result(
        findings_dict(findings, in_shell),
        findings_text(findings, in_shell, color=out.color),
    )
    if any(finding.level == "error" for finding in findings):
        return 1
    return NOTHING_FOUND if any(finding.code == NO_MEMORY for finding in findings) else 0


def _salvage_run(target: str, out: Output) -> int:
    """Copy what can be read of a damaged memory into a new one, and finish that."""
    from plait.present.json import salvaged_dict
    from plait.present.text import salvaged_text

    path, config = out.config.settings.db_path, out.config_with(db_path=target)
    with or_empty(out, salvaged_dict(Salvaged(path, target))):
        done = Memory.salvage(path, target, config=config)
    out.result(salvaged_dict(done), salvaged_text(done))
    out.suggest("plait reindex", "make its vectors", db_path=done.target)
    return 1 if done.lost else 0
