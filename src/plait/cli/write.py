"""store, ingest, delete, watch: the verbs that change a memory."""

import sys
from argparse import ArgumentParser, Namespace

from plait import present
from plait.cli import INTERRUPTED
from plait.cli.filters import add_filters, filters_of, pair
from plait.cli.output import Output
from plait.errors import PlaitError, UsageError
from plait.memory import Memory
from plait.types import MEMORY_TYPES, ORIGINS, TRUSTS, IngestReport


def open_to_write(out: Output) -> Memory:
    """The memory, made if it does not exist yet."""
    memory = Memory.open(config=out.config)
    out.warn_all(memory.identity_warnings())
    return memory


def store_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait store``."""
    parser.add_argument("words", nargs="*", help="the text; - reads it from standard input")
    parser.add_argument("--text", help="the same, as one option")
    parser.add_argument("--file", help="take the text from a file")
    parser.add_argument(
        "--doc-id", "--key", dest="key", help="name it; storing the name again replaces it"
    )
    parser.add_argument("--title", default="", help="title (else the first heading or the name)")
    parser.add_argument("--type", help="decision, fact, preference, … or your own")
    parser.add_argument("--memory-type", choices=MEMORY_TYPES, help="kind of memory")
    parser.add_argument("--tags", default="", help="comma-separated")
    parser.add_argument("--metadata", nargs="+", action="extend", metavar="K=V", default=[])
    parser.add_argument("--summary", help="what a timeline shows of it")
    parser.add_argument("--session", help="the session it belongs to")
    parser.add_argument("--origin", choices=ORIGINS, default="user", help="where it came from")
    parser.add_argument("--trust", choices=TRUSTS, default="trusted", help="how far to trust it")
    parser.add_argument("--importance", type=float, help="0 to 1")
    parser.add_argument("--pinned", action="store_true", help="never let it sink")
    parser.add_argument("--event-at", help="when it happened: 2026-03-01, 2d")


def store_run(arguments: Namespace, out: Output) -> int:
    """Remember one text."""
    text, key, path = _text(arguments)
    with open_to_write(out) as memory:
        stored = memory.store(
            text,
            key=key,
            title=arguments.title,
            type=arguments.type,
            memory_type=arguments.memory_type,
            tags=[tag.strip() for tag in arguments.tags.split(",") if tag.strip()],
            metadata=dict(pair(text) for text in arguments.metadata),
            summary=arguments.summary,
            session=arguments.session,
            origin=arguments.origin,
            trust=arguments.trust,
            importance=arguments.importance,
            pinned=arguments.pinned,
            event_at=arguments.event_at,
            path=path,
        )
    verb = "Known already as" if stored.duplicate else "Replaced" if stored.replaced else "Stored"
    name = stored.doc_id if stored.doc_id != stored.id else stored.id[: present.SHORT_ID]
    out.result(present.stored_dict(stored), f"{verb} {name} ({stored.chunks} passages)")
    if stored.pending:
        out.warn(f"{stored.pending} passages wait for a vector. Run: plait reindex")
    return 0


def _text(arguments: Namespace) -> tuple[str, str | None, str | None]:
    """The text to store, its key and the file it came from, from exactly one place."""
    inline = " ".join(arguments.words) if arguments.words else None
    given = [value for value in (inline, arguments.text, arguments.file) if value is not None]
    if len(given) > 1:
        raise UsageError("Give the text once: as words, with --text, or with --file.")
    if arguments.file is not None:
        from plait import sources

        candidate = sources.named_file(arguments.file)
        content = sources.read(candidate)
        return content.text, arguments.key or candidate.key, candidate.path
    text = inline if arguments.text is None else arguments.text
    if text == "-" or (text is None and not sys.stdin.isatty()):
        return sys.stdin.read(), arguments.key, None
    if text is None:
        raise UsageError('There is no text to store. Give some, as in: plait store "a fact"')
    return text, arguments.key, None


def ingest_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait ingest``."""
    parser.add_argument("paths", nargs="*", help="files and folders; else the setting memory_dir")
    parser.add_argument("--path", dest="more_paths", action="append", default=[], help="the same")
    parser.add_argument(
        "--pattern", action="append", default=[], help="which files of a folder, as in *.md"
    )
    parser.add_argument(
        "--incremental", action="store_true", help="trust size and time of files already indexed"
    )


def ingest_run(arguments: Namespace, out: Output) -> int:
    """Index files and folders."""
    places = [*arguments.paths, *arguments.more_paths] or [None]
    reports = []
    with open_to_write(out) as memory:
        for place in places:
            report = memory.ingest(
                place,
                patterns=arguments.pattern,
                incremental=arguments.incremental,
                progress=out.progress,
            )
            reports.append(report)
            if report.interrupted:
                break
        out.end_progress()
        out.warn_all(memory.troubles())
    report = _together(reports)
    out.result(present.ingest_dict(report), present.ingest_text(report))
    if report.interrupted:
        out.warn("interrupted; what was indexed stays. Run the same command to go on.")
        return INTERRUPTED
    if report.count("added", "changed", "unchanged"):
        out.suggest("plait search WORDS", "ask it something")
    return 1 if report.count("failed") or report.pending else 0


def _together(reports: list[IngestReport]) -> IngestReport:
    return IngestReport(
        tuple(row for report in reports for row in report.reports),
        sum(report.ignored for report in reports),
        sum(report.pending for report in reports),
        interrupted=any(report.interrupted for report in reports),
    )


def delete_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait delete``."""
    parser.add_argument("names", nargs="*", help="ids, prefixes of six or more, or keys")
    parser.add_argument("--doc-id", "--key", dest="keys", action="append", default=[], help="same")
    parser.add_argument("--undo", action="store_true", help="bring back the latest delete")
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
        deleted = memory.delete(
            *names,
            where=where or None,
            purge=arguments.purge,
            dry_run=arguments.dry_run,
            all_projects=arguments.all_projects,
        )
    verb = "Would delete" if arguments.dry_run else "Purged" if deleted.purged else "Deleted"
    listed = ", ".join(deleted.doc_ids[:8]) + (" …" if len(deleted.doc_ids) > 8 else "")
    text = f"{verb} {len(deleted.ids)} documents, {deleted.chunks_deleted} passages: {listed}"
    out.result({**present.deleted_dict(deleted), "dry_run": arguments.dry_run}, text)
    if not deleted.ids:
        out.warn("no document fits.")
        return 3
    if not (deleted.purged or arguments.dry_run):
        out.suggest("plait delete --undo", "bring it back, within 30 days")
    return 0


def _undo(names: list[str], where: dict[str, object], out: Output) -> int:
    if names or where:
        raise UsageError("--undo brings back the latest delete as a whole; give it no names.")
    with Memory.open(config=out.config, create=False) as memory:
        back = memory.undo()
    ids = [document.doc_id for document in back]
    out.result({"restored": ids}, f"Brought back {', '.join(ids)}")
    return 0


def watch_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait watch``."""
    ingest_options(parser)


def watch_run(arguments: Namespace, out: Output) -> int:
    """Index a folder now and whenever something in it changes, until Ctrl-C."""
    try:
        from watchfiles import watch
    except ImportError as error:
        raise PlaitError("watch needs one more package: pip install 'plait[watch]'") from error
    places = [*arguments.paths, *arguments.more_paths] or [out.config.settings.memory_dir]
    if places == [None]:
        raise UsageError("Say what to watch, as in: plait watch ~/notes")
    arguments.incremental = True
    ingest_run(arguments, out)
    out.flush()
    out.warn("watching; stop with Ctrl-C")
    for _ in watch(*places, raise_interrupt=False):
        ingest_run(arguments, out)
        out.flush()
    return 0
