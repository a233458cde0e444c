"""store: store a text."""

import sys
from argparse import ArgumentParser, Namespace

from plait.cli import Output, as_list, as_number, as_path, to_run
from plait.cli.search import key_and_value
from plait.cli.shared import open_to_write, standard_input, vectors_missing
from plait.cli.suggestions import same_but_for_case, similar_entity
from plait.errors import SourceError, UsageError
from plait.present.json import stored_dict
from plait.present.text import pending_notice, stored_remarks, stored_text
from plait.types import MEMORY_TYPES, ORIGINS, STATUSES, TRUSTS
from plait.types.ids import SHORT_ID
from plait.types.records import NamedTuple
from plait.types.visibility import VISIBILITIES

IMPORTANCE_HELP = "importance, 0 to 1: ranks it up to a tenth higher or lower; 0.5 changes nothing"
STATUS_HELP = "active, done or archived; done and archived ones rank lower"
VISIBILITY_HELP = (
    "who sees it, in a memory with members: private (only you), project (members to whom its "
    "project was given) or team (default: as it was, or team)"
)


class FileText(NamedTuple):
    """The text of a file, its key, its whole path, and its title and lines as ingest has them."""

    text: str
    key: str
    path: str
    title: str
    lines: tuple[int, ...]


def store_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait store``."""
    parser.add_argument(
        "words", nargs="*", metavar="TEXT", help="the text; - reads it from standard input"
    )
    parser.add_argument("--text", metavar="TEXT", help="the text, as an option")
    parser.add_argument("--file", type=as_path, metavar="PATH", help="read the text from a file")
    parser.add_argument(
        "--doc-id",
        "--key",
        dest="key",
        metavar="NAME",
        help="a name for the text; storing the same name again replaces the text",
    )
    parser.add_argument("--title", metavar="TEXT", help="title (default: the first heading)")
    parser.add_argument(
        "--type", metavar="X", help="type of the text: decision, fact, preference, … or your own"
    )
    parser.add_argument(
        "--memory-type",
        choices=MEMORY_TYPES,
        metavar="X",
        help=f"memory type: {', '.join(MEMORY_TYPES)}",
    )
    parser.add_argument(
        "--tags",
        "--tag",
        action="extend",
        type=as_list,
        default=[],
        metavar="X,Y",
        help="tags, comma-separated",
    )
    parser.add_argument(
        "--metadata",
        nargs="+",
        action="extend",
        metavar="K=V",
        default=[],
        help="your own fields",
    )
    parser.add_argument(
        "--provenance",
        nargs="+",
        action="extend",
        metavar="K=V",
        default=[],
        help="what made the text: model, tool, branch, commit; kept in the metadata",
    )
    parser.add_argument("--summary", metavar="TEXT", help="short text to show in a timeline")
    parser.add_argument("--session", metavar="NAME", help="the session that the text belongs to")
    parser.add_argument(
        "--role",
        metavar="X",
        help="who said it: user, assistant, tool, …; the text is a message of the session",
    )
    parser.add_argument(
        "--messages",
        type=as_path,
        metavar="FILE",
        help="add messages to the session: JSON as chat APIs write it; - reads standard input",
    )
    parser.add_argument(
        "--origin",
        choices=ORIGINS,
        metavar="X",
        help=f"where the text comes from: {', '.join(ORIGINS)} (default: by the role, else user)",
    )
    parser.add_argument(
        "--trust",
        choices=TRUSTS,
        default="trusted",
        metavar="X",
        help=f"how far to trust the text: {', '.join(TRUSTS)}",
    )
    parser.add_argument("--importance", type=as_number, metavar="N", help=IMPORTANCE_HELP)
    parser.add_argument(
        "--pinned",
        action="store_true",
        help="recall the text first, whatever is asked, and never rank it lower for its age",
    )
    parser.add_argument("--status", choices=STATUSES, metavar="X", help=STATUS_HELP)
    parser.add_argument(
        "--event-at", metavar="TIME", help="when it happened: 2026-03-01, 2d (two days ago)"
    )
    parser.add_argument(
        "--entity", metavar="NAME", help="the entity that the fact is about; created if missing"
    )
    parser.add_argument(
        "--topic",
        metavar="NAME",
        help="what the fact is about; a newer fact on the same topic supersedes it",
    )
    parser.add_argument("--supersedes", metavar="ID", help="the older fact that this one replaces")
    parser.add_argument("--valid-from", metavar="TIME", help="when the fact becomes valid")
    parser.add_argument("--visibility", choices=VISIBILITIES, metavar="X", help=VISIBILITY_HELP)
    parser.add_argument(
        "--allow-secret",
        action="store_true",
        help="from an agent or a tool (--origin, --role): store keys, tokens and passwords too",
    )


def store_run(arguments: Namespace, out: Output) -> int:
    """Store one text."""
    _refuse_other_encodings(arguments)
    if arguments.messages is not None:
        from plait.cli.messages import add_messages

        return add_messages(arguments, out)
    text, key, file = _text(arguments, out)
    with open_to_write(out) as memory:
        similar = None if arguments.entity is None else same_but_for_case(memory, arguments.entity)
        stored = memory.store(
            text,
            key=key,
            title=arguments.title or (file.title if file else ""),
            type=arguments.type,
            memory_type=arguments.memory_type,
            tags=arguments.tags,
            metadata=dict(key_and_value(word) for word in arguments.metadata),
            provenance=dict(
                key_and_value(word, "--provenance model=m1") for word in arguments.provenance
            ),
            summary=arguments.summary,
            session=arguments.session,
            role=arguments.role,
            origin=arguments.origin,
            trust=arguments.trust,
            importance=arguments.importance,
            pinned=arguments.pinned,
            status=arguments.status,
            event_at=arguments.event_at,
            path=file.path if file else None,
            lines=file.lines if file else (),
            entity=arguments.entity,
            topic=arguments.topic,
            supersedes=arguments.supersedes,
            valid_from=arguments.valid_from,
            allow_secret=arguments.allow_secret,
            visibility=arguments.visibility,
        )
    project = out.config.project
    text = "" if memory.is_off else stored_text(stored, project)
    out.result(stored_dict(stored, project), text)
    out.warn_all(stored_remarks(stored))
    if similar is not None and stored.entity is not None:
        out.warn(similar_entity(arguments.entity, similar))
    if stored.superseded:
        replaced = " ".join(id_[:SHORT_ID] for id_ in stored.superseded)
        if arguments.topic is not None:  # only one fact on a topic holds
            out.suggest(f"plait delete {stored.id[:SHORT_ID]}", "to take it back, first delete it")
        out.suggest(f"plait mark {replaced} --not-superseded", "let what it replaced hold again")
    if stored.pending:
        out.warn_all(vectors_missing(stored.trouble))
        out.warn(pending_notice(stored.pending))
    return 0


# What `store` writes: its name in a message, and its name in the parsed arguments.
_WRITTEN = (
    ("The text", "words"),
    ("The text", "text"),
    ("--key", "key"),
    ("--title", "title"),
    ("--type", "type"),
    ("--tags", "tags"),
    ("--metadata", "metadata"),
    ("--provenance", "provenance"),
    ("--summary", "summary"),
    ("--session", "session"),
    ("--role", "role"),
    ("--entity", "entity"),
    ("--topic", "topic"),
    ("--project", "project"),
)


def _refuse_other_encodings(arguments: Namespace) -> None:
    """Refuse bytes that are not UTF-8: they would be stored as different text."""
    for label, name in _WRITTEN:
        value = getattr(arguments, name) or ""
        try:
            (value if isinstance(value, str) else " ".join(value)).encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{label} is not UTF-8 text (character {error.start + 1}). Nothing was stored. "
                "Convert it first, for example with: iconv -f latin1 -t utf-8"
            ) from error


def _text(arguments: Namespace, out: Output) -> tuple[str, str | None, FileText | None]:
    """Return the text to store, its key, and the file it came from."""
    inline = " ".join(arguments.words) if arguments.words else None
    given = [value for value in (inline, arguments.text, arguments.file) if value is not None]
    if len(given) > 1:
        raise UsageError("Give the text once: as words, with --text, or with --file.")
    limit = round(out.config.settings.max_file_mb * 1024 * 1024)
    if arguments.file not in (None, "-"):
        file = read_source(arguments.file, limit, out)
        if arguments.role is not None:
            return file.text, arguments.key, None  # what was said is no document of that name
        return file.text, file.key if arguments.key is None else arguments.key, file
    text = given[0] if given else None
    if text == "-" or (text is None and sys.stdin is not None and not sys.stdin.isatty()):
        return standard_input(limit), arguments.key, None
    if text is None:
        raise UsageError(to_run('There is no text to store. Example: plait store "a fact"'))
    return text, arguments.key, None


def read_source(path: str, limit: int, out: Output) -> FileText:
    """Read a file of at most ``limit`` bytes."""
    from plait.writing import sources
    from plait.writing.refusals import BINARY

    candidate = sources.named_file(path, max_bytes=limit)
    try:
        content = sources.read_file(candidate)
    except SourceError as error:
        hint = " Convert it to text first." if error.notice.text == BINARY else ""
        raise SourceError(
            f"Cannot store {candidate.path}: {error.notice.text}.{hint}",
            code=error.code,
            subject=error.subject,
            advice=error.advice,
        ) from error
    if content.remark:
        out.warn(f"{candidate.path}: {content.remark}")
    return FileText(content.text, candidate.key, candidate.path, content.title, content.lines)
