"""ingest and watch: index files and folders, once or whenever they change."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from plait.cli import INTERRUPTED, Output, as_list, as_path, in_shell, to_run
from plait.cli.pace import Pace
from plait.cli.shared import open_to_write, vectors_missing
from plait.cli.store import VISIBILITY_HELP
from plait.errors import Notice, PlaitError, UsageError, advise, flattened, shell_word
from plait.present.json import ingest_dict
from plait.present.text import counted, ingest_remarks, ingest_text
from plait.settings.loading import Config, find_project, project_name, repository_of
from plait.types.ids import is_address
from plait.types.reports import IngestInterrupted, IngestReport, Outcome
from plait.types.visibility import VISIBILITIES

WAKE_MS = 1000  # a change that was made while the watcher started is seen after this time


def ingest_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait ingest``."""
    parser.add_argument(
        "paths",
        nargs="*",
        type=as_path,
        metavar="PATH",
        help="files and folders (default: the memory_dir setting)",
    )
    parser.add_argument(
        "--path",
        dest="more_paths",
        action="append",
        type=as_path,
        default=[],
        metavar="PATH",
        help="a file or folder, as an option",
    )
    parser.add_argument(
        "--pattern",
        action="extend",
        type=as_list,
        default=[],
        metavar="GLOB",
        help="which files to read, for example '*.md,*.txt'; may be repeated",
    )
    parser.add_argument(
        "--include",
        action="extend",
        type=as_list,
        default=[],
        metavar="WHAT",
        help="read these files too: notes, code, pdf, chats or a pattern; may be repeated",
    )
    parser.add_argument(
        "--incremental",
        action="store_true",
        help="skip files whose size and modification time are unchanged",
    )
    parser.add_argument(
        "--allow-removal",
        action="store_true",
        help="forget missing files even if the folder has lost nearly all of them",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="name every file that was skipped, not their number"
    )
    parser.add_argument("--visibility", choices=VISIBILITIES, metavar="X", help=VISIBILITY_HELP)


# Outcomes that a run without changes does not have.
_NEWS: tuple[Outcome, ...] = ("added", "changed", "moved", "removed", "kept")


def ingest_run(arguments: Namespace, out: Output) -> int:
    """Index files and folders."""
    report = _ingest(arguments, out, set())
    _suggest(report, out)
    if report.interrupted:
        return INTERRUPTED
    return 1 if report.count("failed", "kept") or report.pending or report.unread else 0


def _suggest(report: IngestReport, out: Output) -> None:
    for project in report.taken_from:
        if os.path.isabs(project) and not os.path.lexists(project):
            former = shell_word(project, "NAME")
            why = "move its notes and facts here, too, if it was renamed"
            out.suggest(f"plait mark --project {former} --to-project .", why)
    if report.count("removed"):
        out.suggest("plait delete --undo", "restore what was removed, within 30 days")
    elif not report.interrupted and (
        stored := report.count("added", "changed", "moved", "unchanged")
    ):
        is_here = sum(report.elsewhere.values()) < stored
        scope = "" if is_here else " --all-projects"
        out.suggest(f"plait search WORDS{scope}", "find something")


def _ingest(
    arguments: Namespace, out: Output, told: set[Notice | str], *, only_news: bool = False
) -> IngestReport:
    """Index what the arguments name; what the run before has ``told`` is not repeated.

    With ``only_news``, a run that finds nothing new prints nothing.
    """
    from plait.writing.file_types import check_patterns

    check_patterns((*arguments.pattern, *arguments.include))  # before a memory is made
    paths = [*arguments.paths, *arguments.more_paths] or [None]
    reports = []
    with open_to_write(out) as memory:
        for path in paths:
            pace = Pace(out)
            try:
                report = memory.ingest(
                    path,
                    patterns=arguments.pattern,
                    include=arguments.include,
                    incremental=arguments.incremental,
                    allow_removal=arguments.allow_removal,
                    progress=pace.show,
                    on_file=pace.count,
                    visibility=arguments.visibility,
                )
            except IngestInterrupted as stop:
                report = stop.report
            reports.append(report)
            if report.interrupted:
                break
        out.end_progress()
    hints = _hints(out, paths[: len(reports)], reports)
    report = _merged(reports)
    if only_news and not (report.count(*_NEWS) or report.pending or report.interrupted):
        return report
    project = out.config.project
    out.result(
        ingest_dict(report, project, in_shell, hints),
        ingest_text(report, project, in_shell, verbose=arguments.verbose),
    )
    # Both decide the exit code, so they are told under --quiet too.
    for notice in vectors_missing(report.trouble):
        out.error(notice)
    cautions = dict.fromkeys(report.caution for report in reports if report.caution)
    cautions |= dict.fromkeys(row.unread for row in reports if row.unread)
    for caution in cautions:
        if caution not in told:
            out.error(caution)
    out.warn_all([*ingest_remarks(report), *(hint for hint in hints if hint not in told)])
    once = {hint for hint in told if isinstance(hint, str)}
    told.clear()
    told.update(cautions, hints, once)
    if report.interrupted:
        out.warn("interrupted; indexed files are kept. Run the same command again to continue.")
    return report


def _hints(out: Output, paths: Sequence[str | None], reports: Sequence[IngestReport]) -> list[str]:
    """Say in which project documents are that a search elsewhere, or here, does not find."""
    config = out.config
    places = [
        path or config.settings.memory_dir or ""
        for path, report in zip(paths, reports, strict=True)
        if report.count("added")
    ]
    outside = [flattened(place) for place in places if _is_outside(place, config)]
    elsewhere = _merged(list(reports)).elsewhere
    if not outside and not elsewhere:
        return []
    from plait.cli.wording import in_all_projects

    hints = [
        f"{place} is outside of the repository {flattened(config.project or '')}, but what was "
        "added is in that repository's project and found only there."
        for place in outside
    ]
    hints += [
        f"{counted(count, 'file')} {'is' if count == 1 else 'are'} in project "
        f"{flattened(project)} and found only there."
        for project, count in elsewhere.items()
    ]
    return [f"{hint} To find it everywhere: {in_all_projects(out.words)}" for hint in hints]


def _is_outside(place: str, config: Config) -> bool:
    """Tell whether the repository in which a command runs named the project of other notes."""
    project = config.project
    if project is None or config.origins.get("project", "default") != "default":
        return False
    from plait.settings.project import leads_into

    # Worktrees have the project of their repository.
    own = project_name(repository_of(find_project(os.path.dirname(os.path.realpath(place)))))
    return own != project and not leads_into(place, project)


def _merged(reports: list[IngestReport]) -> IngestReport:
    return IngestReport(
        tuple(row for report in reports for row in report.reports),
        sum(report.ignored for report in reports),
        sum(report.pending for report in reports),
        interrupted=any(report.interrupted for report in reports),
        trouble=next((report.trouble for report in reports if report.trouble), None),
        caution=next((report.caution for report in reports if report.caution), None),
        ignored_types=tuple(_types_of(reports).items()),
        left=sum(report.left for report in reports),
        unread=next((report.unread for report in reports if report.unread), None),
    )


def _types_of(reports: list[IngestReport]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for ending, count in (pair for report in reports for pair in report.ignored_types):
        counts[ending] = counts.get(ending, 0) + count
    return counts


def watch_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait watch``."""
    ingest_options(parser)
    parser.add_argument(
        "--agents", action="store_true", help="import the sessions of agents instead of files"
    )


def watch_run(arguments: Namespace, out: Output) -> int:
    """Index folders now and whenever a file in them changes, until Ctrl-C."""
    from plait.cli.maintain import Upkeep
    from plait.writing import sources

    if arguments.agents:
        from plait.cli import histories

        return histories.watch(arguments, out)
    paths = [*arguments.paths, *arguments.more_paths] or [out.config.settings.memory_dir]
    if paths == [None]:
        raise UsageError(to_run("There is no folder to watch. Example: plait watch ~/notes"))
    for path in paths:
        sources.walk(path)  # raises if the path does not exist
    try:
        from watchfiles import watch
    except ImportError as error:
        raise PlaitError(
            "plait watch needs the package watchfiles.",
            code="not_installed",
            subject="watchfiles",
            advice=advise("install", extra="watch"),
        ) from error
    arguments.incremental = True
    told: set[Notice | str] = set()
    report = _ingest(arguments, out, told)
    _suggest(report, out)
    if report.interrupted:
        return INTERRUPTED
    out.flush()
    out.warn("watching; press Ctrl-C to stop")
    database = out.config.settings.db_path
    changes = watch(
        *paths,
        # The memory's own file may be in the folder; every write to it would start another run.
        watch_filter=lambda _, path: is_address(database) or not path.startswith(database),
        rust_timeout=WAKE_MS,
        yield_on_timeout=True,
    )
    upkeep = Upkeep(out)
    try:
        for number, changed in enumerate(changes):
            # The first time, the watcher is up: what changed before that, nobody told it.
            is_due = changed or number == 0
            if is_due and _was_interrupted(arguments, out, told, only_news=not changed):
                break
            upkeep.look()
    except KeyboardInterrupt:
        pass  # the only way to stop it
    return INTERRUPTED


def _was_interrupted(
    arguments: Namespace, out: Output, told: set[Notice | str], *, only_news: bool
) -> bool:
    """Index what changed, and return whether the user stopped that."""
    try:
        return _ingest(arguments, out, told, only_news=only_news).interrupted
    except PlaitError as error:
        # The cause, such as a locked file, may be gone at the next change.
        out.warn(error.notice)
        return False
    finally:
        out.flush()
