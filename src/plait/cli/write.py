"""store, ingest, delete, watch: the verbs that change a memory."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import partial

from plait import present
from plait.cli import INTERRUPTED
from plait.cli.filters import add_filters, filters_of, pair, split_commas
from plait.cli.meant import namesake
from plait.cli.output import Output
from plait.cli.read import NOTHING_FOUND, say_nothing_found, suggesting
from plait.cli.verbs import number, place
from plait.errors import PlaitError, SourceError, UsageError
from plait.memory import Memory
from plait.types import MEMORY_TYPES, ORIGINS, TRUSTS, IngestReport

# Documents whose text is held in memory at once while a delete looks for their files.
LOADED_AT_ONCE = 500


def open_to_write(out: Output) -> Memory:
    """The memory, made if it does not exist yet."""
    memory = Memory.open(config=out.config)
    out.warn_all(memory.identity_warnings())
    return memory


def store_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait store``."""
    parser.add_argument(
        "words", nargs="*", metavar="TEXT", help="the text; - reads it from standard input"
    )
    parser.add_argument("--text", metavar="TEXT", help="the same, as one option")
    parser.add_argument("--file", type=place, metavar="PATH", help="take the text from a file")
    parser.add_argument(
        "--doc-id",
        "--key",
        dest="key",
        metavar="NAME",
        help="name it; storing the name again replaces it",
    )
    parser.add_argument(
        "--title", default="", metavar="TEXT", help="title (else the first heading)"
    )
    parser.add_argument("--type", metavar="X", help="decision, fact, preference, … or your own")
    parser.add_argument(
        "--memory-type", choices=MEMORY_TYPES, metavar="X", help=", ".join(MEMORY_TYPES)
    )
    parser.add_argument(
        "--tags", "--tag", action="append", default=[], metavar="X,Y", help="comma-separated"
    )
    parser.add_argument(
        "--metadata", nargs="+", action="extend", metavar="K=V", default=[], help="your own fields"
    )
    parser.add_argument("--summary", metavar="TEXT", help="what a timeline shows of it")
    parser.add_argument("--session", metavar="NAME", help="the session it belongs to")
    parser.add_argument(
        "--origin",
        choices=ORIGINS,
        default="user",
        metavar="X",
        help=f"where it came from: {', '.join(ORIGINS)}",
    )
    parser.add_argument(
        "--trust",
        choices=TRUSTS,
        default="trusted",
        metavar="X",
        help=f"how far to trust it: {', '.join(TRUSTS)}",
    )
    parser.add_argument("--importance", type=number, metavar="N", help="0 to 1")
    parser.add_argument("--pinned", action="store_true", help="never let it sink")
    parser.add_argument("--event-at", metavar="TIME", help="when it happened: 2026-03-01, 2d")
    parser.add_argument("--entity", metavar="NAME", help="what it is about; made if need be")
    parser.add_argument(
        "--topic", metavar="NAME", help="what it answers; the last answer to a topic holds"
    )
    parser.add_argument("--supersedes", metavar="ID", help="the fact that it takes the place of")
    parser.add_argument("--valid-from", metavar="TIME", help="from when on it holds")


def store_run(arguments: Namespace, out: Output) -> int:
    """Remember one text."""
    _refuse_other_bytes(arguments)
    text, key, path = _text(arguments, out)
    with open_to_write(out) as memory:
        twin = None if arguments.entity is None else namesake(memory, arguments.entity)
        stored = memory.store(
            text,
            key=key,
            title=arguments.title,
            type=arguments.type,
            memory_type=arguments.memory_type,
            tags=split_commas(arguments.tags),
            metadata=dict(pair(word) for word in arguments.metadata),
            summary=arguments.summary,
            session=arguments.session,
            origin=arguments.origin,
            trust=arguments.trust,
            importance=arguments.importance,
            pinned=arguments.pinned,
            event_at=arguments.event_at,
            path=path,
            entity=arguments.entity,
            topic=arguments.topic,
            supersedes=arguments.supersedes,
            valid_from=arguments.valid_from,
        )
    project = out.config.project
    out.result(present.stored_dict(stored, project), present.stored_text(stored, project))
    out.warn_all(present.stored_remarks(stored))
    if twin is not None and stored.entity is not None:
        out.warn(present.beside_namesake(arguments.entity, twin))
    if stored.pending:
        out.warn_all(memory.troubles())
        out.warn(present.waiting(stored.pending))
    return 0


# Option, and where argparse keeps it: what `store` would write down.
_WRITTEN = (
    ("The text", "words"),
    ("The text", "text"),
    ("--key", "key"),
    ("--title", "title"),
    ("--type", "type"),
    ("--tags", "tags"),
    ("--metadata", "metadata"),
    ("--summary", "summary"),
    ("--session", "session"),
    ("--entity", "entity"),
    ("--topic", "topic"),
    ("--project", "project"),
)


def _refuse_other_bytes(arguments: Namespace) -> None:
    """Bytes that are no UTF-8 would be stored as something else than was meant."""
    for label, name in _WRITTEN:
        value = getattr(arguments, name) or ""
        try:
            (value if isinstance(value, str) else " ".join(value)).encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{label} is not UTF-8 text (character {error.start + 1}). Nothing was stored. "
                "Convert it first, as in: iconv -f latin1 -t utf-8"
            ) from error


def _text(arguments: Namespace, out: Output) -> tuple[str, str | None, str | None]:
    """The text to store, its key and the file it came from, from exactly one place."""
    inline = " ".join(arguments.words) if arguments.words else None
    given = [value for value in (inline, arguments.text, arguments.file) if value is not None]
    if len(given) > 1:
        raise UsageError("Give the text once: as words, with --text, or with --file.")
    limit = round(out.config.settings.max_file_mb * 1024 * 1024)
    if arguments.file not in (None, "-"):
        from plait import sources

        candidate = sources.named_file(arguments.file, max_bytes=limit)
        try:
            content = sources.read(candidate)
        except SourceError as error:
            raise SourceError(f"Cannot take {candidate.path}: {error}.") from error
        key = candidate.key if arguments.key is None else arguments.key
        return content.text, key, candidate.path
    text = given[0] if given else None
    if text == "-" or (text is None and sys.stdin is not None and not sys.stdin.isatty()):
        return _standard_input(limit), arguments.key, None
    if text is None:
        raise UsageError('There is no text to store. Give some, as in: plait store "a fact"')
    return text, arguments.key, None


def _standard_input(limit: int) -> str:
    """All of it, under the rules that hold for files: UTF-8, and no more than the size cap."""
    data = sys.stdin.buffer.read(limit + 1)
    if len(data) > limit:
        raise UsageError(
            f"Standard input holds more than {limit / 1024 / 1024:g} MB. "
            "Raise the cap with: plait config set max_file_mb 50"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"Standard input is not UTF-8 text (byte {error.start}). "
            "Convert it first, as in: iconv -f latin1 -t utf-8"
        ) from error


def ingest_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait ingest``."""
    parser.add_argument(
        "paths",
        nargs="*",
        type=place,
        metavar="PATH",
        help="files and folders; else the setting memory_dir",
    )
    parser.add_argument(
        "--path",
        dest="more_paths",
        action="append",
        type=place,
        default=[],
        metavar="PATH",
        help="the same",
    )
    parser.add_argument(
        "--pattern",
        action="append",
        default=[],
        metavar="GLOB",
        help="which files of a folder, as in '*.md,*.txt'; may be given several times",
    )
    parser.add_argument(
        "--incremental", action="store_true", help="trust size and time of files already indexed"
    )


def ingest_run(arguments: Namespace, out: Output) -> int:
    """Index files and folders."""
    report = _ingest(arguments, out)
    if not report.interrupted and report.count("added", "changed", "unchanged"):
        out.suggest("plait search WORDS", "ask it something")
    return _code(report)


def _code(report: IngestReport) -> int:
    if report.interrupted:
        return INTERRUPTED
    return 1 if report.count("failed") or report.pending else 0


def _ingest(arguments: Namespace, out: Output) -> IngestReport:
    places = [*arguments.paths, *arguments.more_paths] or [None]
    reports = []
    with open_to_write(out) as memory:
        for path in places:
            report = memory.ingest(
                path,
                patterns=split_commas(arguments.pattern),
                incremental=arguments.incremental,
                progress=out.progress,
            )
            reports.append(report)
            if report.interrupted:
                break
        out.end_progress()
        out.warn_all(memory.troubles())
    report = _together(reports)
    project = out.config.project
    out.result(present.ingest_dict(report, project), present.ingest_text(report, project))
    if report.interrupted:
        out.warn("interrupted; what was indexed stays. Run the same command to go on.")
    return report


def _together(reports: list[IngestReport]) -> IngestReport:
    return IngestReport(
        tuple(row for report in reports for row in report.reports),
        sum(report.ignored for report in reports),
        sum(report.pending for report in reports),
        interrupted=any(report.interrupted for report in reports),
    )


def delete_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait delete``."""
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="ids, unique beginnings of six or more characters, or keys",
    )
    parser.add_argument(
        "--doc-id",
        "--key",
        dest="keys",
        action="append",
        default=[],
        metavar="NAME",
        help="the same, as an option",
    )
    parser.add_argument(
        "--undo", action="store_true", help="bring back the latest delete, or what is named"
    )
    parser.add_argument("--purge", action="store_true", help="leave no byte and no way back")
    parser.add_argument("--dry-run", action="store_true", help="only say what would go")
    parser.add_argument("--yes", action="store_true", help="purge by filter without asking")
    add_filters(parser)


def delete_run(arguments: Namespace, out: Output) -> int:
    """Forget documents, or bring them back."""
    names = [*arguments.names, *arguments.keys]
    where = filters_of(arguments)
    if arguments.undo:
        return _undo(names, where, out)
    if arguments.purge and where and not (arguments.yes or arguments.dry_run):
        raise UsageError("Purging by filter cannot be undone. Look with --dry-run, then add --yes.")
    with Memory.open(config=out.config, create=False) as memory:
        delete = partial(
            memory.delete,
            *names,
            where=where or None,
            purge=arguments.purge,
            all_projects=arguments.all_projects,
        )
        with suggesting(memory, entities=where.get("entity", ()), documents=names):
            deleted = delete(dry_run=True)
        files = [] if arguments.dry_run else _files_of(memory, deleted.ids)
        if not arguments.dry_run:
            deleted = delete()
        if not deleted.ids:
            say_nothing_found(memory, arguments, out, "no document fits, nothing was deleted")
    verb = "Would delete" if arguments.dry_run else "Purged" if deleted.purged else "Deleted"
    text = f"{verb} {present.deleted_text(deleted)}" if deleted.ids else ""
    out.result({**present.deleted_dict(deleted), "dry_run": arguments.dry_run}, text)
    if not deleted.ids:
        return NOTHING_FOUND
    if files:
        from plait.sources import IGNORE_FILE

        out.warn(present.still_there(files, IGNORE_FILE))
    if not (deleted.purged or arguments.dry_run):
        out.suggest("plait delete --undo", "bring it back, within 30 days")
    return 0


def _files_of(memory: Memory, ids: Sequence[str]) -> list[str]:
    """Paths of the files among these documents that are still on the disk."""
    found = []
    for start in range(0, len(ids), LOADED_AT_ONCE):
        rows = memory.engine.load(ids[start : start + LOADED_AT_ONCE])
        found += [row.path for row in rows if row.kind == "file" and row.path is not None]
    return [path for path in found if os.path.exists(path)]


def _undo(names: list[str], where: dict[str, object], out: Output) -> int:
    if where:
        raise UsageError("--undo brings back the latest delete, or what you name; no filters.")
    with Memory.open(config=out.config, create=False) as memory:
        back = memory.undo(*names)
    ids = [document.doc_id for document in back]
    out.result({"restored": ids}, f"Brought back {', '.join(ids)}")
    return 0


def watch_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait watch``."""
    ingest_options(parser)


def watch_run(arguments: Namespace, out: Output) -> int:
    """Index a folder now and whenever something in it changes, until Ctrl-C."""
    from plait import sources

    places = [*arguments.paths, *arguments.more_paths] or [out.config.settings.memory_dir]
    if places == [None]:
        raise UsageError("Say what to watch, as in: plait watch ~/notes")
    for path in places:
        sources.walk(path)  # refuses what is not there
    try:
        from watchfiles import watch
    except ImportError as error:
        raise PlaitError(
            "watch needs one more package: pip install 'plait[watch]', or pip install watchfiles"
        ) from error
    arguments.incremental = True
    if ingest_run(arguments, out) == INTERRUPTED:
        return INTERRUPTED
    out.flush()
    out.warn("watching; stop with Ctrl-C")
    database = out.config.settings.db_path
    try:
        # The memory's own file may lie in the folder, and each look at it would wake us again.
        for _ in watch(*places, watch_filter=lambda _, path: not path.startswith(database)):
            if _ingest_again(arguments, out):
                break
    except KeyboardInterrupt:
        pass  # its only end
    return INTERRUPTED


def _ingest_again(arguments: Namespace, out: Output) -> bool:
    """Whether that was stopped by Ctrl-C."""
    try:
        return _ingest(arguments, out).interrupted
    except PlaitError as error:
        # A locked file or a vanished folder now need not be one at the next change.
        out.warn(str(error))
        return False
    finally:
        out.flush()
