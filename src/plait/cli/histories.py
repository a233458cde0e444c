"""import AGENT: the sessions of agents on this machine as conversations."""

import os
from argparse import Namespace
from collections.abc import Mapping
from contextlib import AbstractContextManager
from time import sleep
from typing import Any

from plait.agents.choosing import Wanted, all_histories
from plait.agents.histories import EXPORTED, READERS, HistoryFile, Places
from plait.agents.importing import VECTORS, import_histories, new_run, sources_of
from plait.agents.reports import HistoryReport
from plait.agents.undoing import undo_import
from plait.cli import INTERRUPTED, NOTHING_FOUND, Output, to_run
from plait.cli.maintain import Upkeep
from plait.cli.pace import Pace
from plait.cli.shared import open_existing, open_to_write, or_empty, vectors_missing
from plait.errors import PlaitError, SourceError, UsageError, advise, flattened, quoted
from plait.facts.names import PERSONAL
from plait.memory import Memory
from plait.present.text import counted, on_a_line
from plait.settings.loading import environment, home_folder, working_folder
from plait.stores import exists
from plait.times import parse_time

# Seconds between two looks. One at 1,000 files takes a few hundredths of a second.
EVERY_S = 15
# The name that stands for all of them.
AUTO = "auto"
_MEGABYTE = 1_000_000
# Files that cannot be read.
_MOST_NAMED = 5
# Nouns at the end of reasons for leaving something out, and their plurals.
_NOUNS = """
archive attachment block command conversation event file line record result session subagent
"""
_PLURALS = {noun: f"{noun}s" for noun in _NOUNS.split()}
_PLURALS |= {"copy": "copies", "summary": "summaries"}
_OPTIONS = ("file", "since", "folder", "session", "subagents", "headless", "again")


def is_meant(arguments: Namespace) -> bool:
    """Tell whether sessions of agents are to be imported, and refuse what does not go together."""
    if arguments.undo is not None:
        return True
    if arguments.path in READERS or arguments.path == AUTO:
        _check(arguments)
        return True
    if arguments.path is None:
        raise UsageError(
            f"Name a file, or an agent: {', '.join(READERS)}, or auto.", code="nothing_to_import"
        )
    names = ", ".join(READERS)
    _refuse_options(arguments, f"{{option}} is about the sessions of an agent. Name one: {names}.")
    return False


def _check(arguments: Namespace) -> None:
    """Refuse what the import of an agent's sessions cannot do.

    Raises:
        UsageError: The file is missing, or nobody's, or an option is one of other imports.
    """
    agent = arguments.path
    if agent == AUTO and arguments.file:
        raise UsageError(
            f"auto reads what it finds itself. Whose file is it? Name one: {', '.join(READERS)}.",
            code="bad_value",
            subject="FILE",
        )
    if agent in EXPORTED and not arguments.file:
        raise UsageError(
            f"{agent} keeps no sessions on this machine. Export them there, then name the file: "
            + to_run(f"plait import {agent} FILE"),
            code="nothing_to_import",
            subject=agent,
        )
    if arguments.trust != "trusted" or arguments.scopes:
        option = "--scopes" if arguments.scopes else "--trust"
        raise UsageError(
            f"{option} is about an export of plait. Of sessions, only the user's words are trusted."
        )


def _refuse_options(arguments: Namespace, sentence: str) -> None:
    for name in _OPTIONS:
        if getattr(arguments, name) not in (None, False):
            option = {"file": "FILE", "folder": "--path"}.get(name, f"--{name}")
            raise UsageError(sentence.format(option=option))


def run(arguments: Namespace, out: Output) -> int:
    """Import the sessions, or undo an import."""
    if arguments.undo is not None:
        return _undo(arguments, out)
    wanted = _wanted(arguments)
    places = _places(arguments.file, may_be_folder=arguments.path in EXPORTED)
    if arguments.path == AUTO:
        listed = all_histories(places)
        for agent, sources in listed.items():
            out.warn(_listed_text(agent, sources))
        chosen = [source for sources in listed.values() for source in sources]
    else:
        chosen = sources_of(places, [arguments.path])
    if not chosen:
        out.result(report_dict(HistoryReport(dry_run=arguments.dry_run)), "")
        out.warn(_why_nothing(arguments.path, arguments.file))
        return NOTHING_FOUND
    with _opened(arguments, out) as memory:
        if memory.is_off:
            return 0
        reading, embedding = Pace(out), Pace(out)

        def show(done: int, total: int, name: str) -> None:
            if name == VECTORS:
                embedding.show(done, total, name)
            else:
                reading.show_bytes(done, total, name)

        report = import_histories(
            memory,
            chosen,
            wanted,
            dry_run=arguments.dry_run,
            progress=show,
            visibility=arguments.visibility,
            named=bool(arguments.file),
        )
        out.end_progress()
    return _told(report, arguments, out)


def _why_nothing(agent: str, file: str | None) -> str:
    """Say whose sessions were looked for, and what can be read instead."""
    if file:
        return f"no sessions of {agent} are in {flattened(file)}. {_other_file(agent)}"
    if agent != AUTO:
        command = to_run(f"plait import {agent} FILE")
        return f"no sessions of {agent} were found on this machine. To read a file: {command}"
    *others, last = [name for name in READERS if name not in EXPORTED]
    return (
        f"no sessions of {', '.join(others)} or {last} were found on this machine. "
        f"To read an export: {to_run(f'plait import {EXPORTED[0]} FILE')} "
        f"To begin with notes: {to_run('plait ingest FOLDER')}"
    )


def _told(report: HistoryReport, arguments: Namespace, out: Output) -> int:
    """Print what an import did, and return the exit code."""
    if arguments.file and report.unreadable and not (_brought(report) or report.interrupted):
        out.result(report_dict(report), "")
        out.error(_refused_file(arguments.path, report))
        return 1
    out.result(report_dict(report), report_text(report))
    out.warn_all(vectors_missing(report.trouble))
    _warn_of_unreadable(report, out)
    if report.interrupted:
        out.warn("interrupted; what was imported is kept. Run the same command again to continue.")
        return INTERRUPTED
    if report.messages and not report.dry_run:
        out.suggest(f"plait import --undo {report.run}", "delete what this import brought")
    elif report.messages and out.form == "text" and not out.quiet:
        from plait.cli.wording import typed_again

        command = typed_again(word for word in out.words if word != "--dry-run")
        out.suggest_line(command, "import them")
    return 0


def _brought(report: HistoryReport) -> int:
    """Return how many messages were understood."""
    return report.messages + report.replaced + report.unchanged


def _refused_file(agent: str, report: HistoryReport) -> str:
    """Say that a file that was named cannot be imported, and what to name instead."""
    path, cause = next(iter(report.unreadable.items()))
    return f"cannot import {flattened(path)}: {flattened(cause)}. {_other_file(agent)}"


def _other_file(agent: str) -> str:
    """Say which file to name instead."""
    if agent in EXPORTED:
        return "Name the zip that the service exports, or conversations.json out of it."
    everything = to_run(f"plait import {agent}")
    return f"Name a file that {agent} wrote, or none to import all of them: {everything}"


def _warn_of_unreadable(report: HistoryReport, out: Output) -> None:
    """Name the files that could not be read, and why: an agent may have locked its database."""
    for path, cause in list(report.unreadable.items())[:_MOST_NAMED]:
        out.warn(f"cannot read {flattened(path)}: {flattened(cause)}. The next import tries again.")
    left = len(report.unreadable) - _MOST_NAMED
    if left > 0:
        out.warn(f"{counted(left, 'more file')} cannot be read; --json names all.")


def _missing(file: str) -> str:
    """Return why a path is no file to be read."""
    try:
        os.lstat(file)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return "there is no such file"
    except OSError as error:
        return error.strerror or "there is no such file"
    return "it is no file"


def _places(file: str | None, *, may_be_folder: bool = False) -> Places:
    """Return where to look: everywhere, or only at one file, or the folder of an export."""
    if file and not (os.path.isfile(file) or (may_be_folder and os.path.isdir(file))):
        what = _missing(file)
        raise SourceError(f"Cannot read {file}: {what}. Check the path.")
    files = (os.path.abspath(file),) if file else ()
    environ = environment()
    return Places(home_folder(environ), environ, (working_folder(),), files)


def import_new(memory: Memory, visibility: str | None) -> HistoryReport:
    """Import what agents have written on this machine since the last time."""
    chosen = [row for rows in all_histories(_places(None)).values() for row in rows]
    return import_histories(memory, chosen, visibility=visibility)


def watch(arguments: Namespace, out: Output) -> int:
    """Import what agents write, again and again, until Ctrl-C."""
    if arguments.paths or arguments.more_paths:
        raise UsageError("--agents takes no PATH. Watch folders with a command of their own.")
    out.warn("watching; press Ctrl-C to stop")
    # One name: a look brings a few messages, and nobody would undo them one look after another.
    places, run = _places(None), new_run()
    upkeep, unreadable = Upkeep(out), set[str]()
    try:
        while True:
            chosen = [row for rows in all_histories(places).values() for row in rows]
            try:
                with open_to_write(out) as memory:
                    report = import_histories(
                        memory, chosen, run=run, visibility=arguments.visibility
                    )
            except PlaitError as error:
                # The cause, such as a locked file, may be gone the next time.
                out.warn(error.notice)
            else:
                if report.messages or report.replaced:
                    out.result(report_dict(report), report_text(report))
                if set(report.unreadable) != unreadable:
                    unreadable = set(report.unreadable)
                    _warn_of_unreadable(report, out)
                if report.interrupted:
                    break
            out.flush()
            upkeep.look()
            sleep(EVERY_S)
    except KeyboardInterrupt:
        pass  # the only way to stop it
    return INTERRUPTED


def _opened(arguments: Namespace, out: Output) -> AbstractContextManager[Memory]:
    """Open the memory; a dry run creates no file."""
    if not arguments.dry_run:
        return open_to_write(out)
    if exists(out.config.settings.db_path):
        return open_existing(out)
    return Memory.open(":memory:")


def _wanted(arguments: Namespace) -> Wanted:
    since = None
    if arguments.since is not None:
        since = parse_time(arguments.since)
        if since is None:
            raise UsageError(
                f"--since is '{arguments.since}', which is not a time.",
                code="bad_time",
                subject="--since",
                advice=advise("write_time"),
            )
    return Wanted(
        since=since,
        folder=os.path.abspath(arguments.folder) if arguments.folder else None,
        session=arguments.session,
        subagents=arguments.subagents,
        headless=arguments.headless,
        again=arguments.again,
    )


def _undo(arguments: Namespace, out: Output) -> int:
    if arguments.path is not None:
        raise UsageError(
            f"--undo takes back a whole import, not only {quoted(arguments.path)}. Name the import "
            "after --undo, or nothing for the latest one.",
            code="bad_value",
            subject="undo",
        )
    _refuse_options(arguments, "--undo takes back a whole import, and goes without {option}.")
    run = None if arguments.undo is True else arguments.undo
    empty = {"run": run, "messages": 0, "dry_run": arguments.dry_run}
    with or_empty(out, empty), open_existing(out) as memory:
        chosen, count = undo_import(memory, run, dry_run=arguments.dry_run)
    verb = "Would delete" if arguments.dry_run else "Deleted"
    text = f"{verb} {counted(count, 'message')} of the import {chosen}"
    out.result({"run": chosen, "messages": count, "dry_run": arguments.dry_run}, text)
    if count and not arguments.dry_run:
        out.suggest("plait delete --undo", "restore, within 30 days")
    return 0


def _listed_text(agent: str, sources: list[HistoryFile]) -> str:
    size = sum(source.size for source in sources)
    shown = f"{size / _MEGABYTE:,.1f} MB" if size >= _MEGABYTE else f"{-(-size // 1000)} KB"
    return f"{agent}: {counted(len(sources), 'file')}, {shown}"


def report_dict(report: HistoryReport) -> dict[str, Any]:
    """Return what an import did, for programs."""
    values = report._asdict()
    del values["trouble"]
    values["by_month"] = [
        {"project": project, "month": month, "messages": count}
        for (project, month), count in report.by_month.items()
    ]
    return values


def report_text(report: HistoryReport) -> str:
    """Return what an import did, for people."""
    verb = "Would import" if report.dry_run else "Imported"
    lines = [f"Nothing new in {counted(report.sources, 'file')}"]
    if report.messages or report.replaced:
        known = [(report.replaced, "replaced"), (report.unchanged, "unchanged")]
        lines = [
            f"{verb} {counted(report.messages, 'message')} of "
            f"{counted(report.sessions, 'session')}"
            + "".join(f", {count:,} {what}" for count, what in known if count)
        ]
    projects: dict[str, list[str]] = {}
    for (project, month), count in report.by_month.items():
        projects.setdefault(on_a_line(project or PERSONAL), []).append(f"{month}: {count:,}")
    lines += [f"  {project}  {', '.join(months)}" for project, months in projects.items()]
    if report.masked:
        verb = "would be" if report.dry_run else "were"
        lines.append(f"  secrets {verb} masked in {counted(report.masked, 'message')}")
    if report.skipped:
        lines.append(f"  left out: {_reasons(report.skipped)}")
    if report.days_left is not None:
        left = counted(report.days_left, "day")
        agent = report.days_left_of
        lines.append(f"  {agent} deletes its oldest file in {left}; what was imported stays")
    return "\n".join(lines)


def _reasons(skipped: Mapping[str, int]) -> str:
    ranked = sorted(skipped.items(), key=lambda row: (-row[1], row[0]))
    return ", ".join(f"{count:,} {_numbered(reason, count)}" for reason, count in ranked)


def _numbered(reason: str, count: int) -> str:
    """Return why something was left out, in the singular or plural if it is a thing.

    >>> _numbered("tool result", 4), _numbered("subagent sessions", 1), _numbered("not wanted", 2)
    ('tool results', 'subagent session', 'not wanted')
    """
    head, blank, last = reason.rpartition(" ")
    noun = last.removesuffix("s")
    if noun not in _PLURALS:
        return reason
    return f"{head}{blank}{noun if count == 1 else _PLURALS[noun]}"
