"""Read what is to be imported, by what it is: lines, a folder, or another program's database.

Everything is read and checked before anything is written.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

from plait.errors import UsageError, advise, quoted
from plait.exporting import jsonl, reference
from plait.types.ids import is_address
from plait.types.records import NamedTuple

# A transcript may begin with lines about the session.
_LINES_LOOKED_AT = 5
# Characters: where an object over several lines shows that it has messages.
_OPENING_CHARS = 200
_CONVERSATION = "a conversation"
# Endings of files that are read to be searched, not imported.
_NOTES = frozenset((".md", ".markdown", ".txt", ".rst", ".org", ".html", ".htm"))
# What a record of another program is, whose import reads it, and the signs by which it is known.
_TRANSCRIPTS = (
    (
        "a transcript of Claude Code",
        "claude-code",
        ({"sessionId", "type"}, {"type", "leafUuid"}, {"messageId"}),
    ),
    ("a transcript of Codex", "codex", ({"payload", "type"}, {"instructions", "timestamp", "id"})),
    ("an export of ChatGPT", "chatgpt", ({"mapping"},)),
    ("an export of Claude", "claude", ({"chat_messages"},)),
    (_CONVERSATION, "", ({"role", "content"}, {"messages"})),
)


class Importable(NamedTuple):
    """What was read: the parts of an export, or the graph of a reference memory server.

    ``source`` names the format or the system, ``left_out`` says what of it cannot be kept.
    """

    parts: list[jsonl.ExportPart] = []  # noqa: RUF012 - never changed
    graph: reference.ReferenceGraph | None = None
    source: str = "plait"
    left_out: tuple[str, ...] = ()


def read_path(path: str, max_bytes: int) -> Importable:
    """Read a file or a folder.

    Raises:
        UsageError: It is of no known format, or a part of it cannot be stored.
        StoreError: A database cannot be read.
        OSError: A file cannot be read.
        UnicodeDecodeError: A file of lines is not UTF-8.
    """
    if is_address(path):
        from plait.stores.databases import refuse_without_file

        refuse_without_file(path, "import")
    if Path(path).is_dir():
        from plait.exporting.folder import read_snapshot

        snapshot = read_snapshot(path, max_bytes)
        others = snapshot.others
        files = "file" if others == 1 else "files"
        left_out = (f"{others:,} other Markdown {files}",) if others else ()
        return Importable(snapshot.parts, source="markdown", left_out=left_out)
    from plait.stores.sqlite.others import looks_like_database

    status = Path(path).stat()
    if looks_like_database(path):
        from plait.exporting.databases import read_database

        other = read_database(path, max_bytes, status.st_mtime_ns // 1_000_000)
        return Importable([*other.parts], source=other.system, left_out=other.left_out)
    with Path(path).open(encoding="utf-8") as lines:
        if Path(path).suffix.lower() in _NOTES:
            _refuse_notes(path, lines)
        return read_lines(lines)


def read_lines(lines: Iterable[str]) -> Importable:
    """Read an export, or a reference memory server's file.

    Raises:
        UsageError: A line belongs to neither format; the message names the line.
    """
    rest = iter(lines)
    first = list(islice(rest, _LINES_LOOKED_AT))
    _refuse_transcript(first)
    is_reference, rest = reference.recognise(chain(first, rest))
    if is_reference:
        return Importable(graph=reference.read_graph_file(rest), source="graph")
    return Importable(list(jsonl.read_export(rest)))


def _refuse_notes(path: str, lines: TextIO) -> None:
    """Refuse a text that begins with no object of JSON, as every export does."""
    first = next(filter(str.strip, lines), "{")
    lines.seek(0)
    if not first.lstrip().startswith("{"):
        raise UsageError(
            f"{quoted(path)} is no export: its lines are not JSON. Nothing was imported.",
            code="bad_export",
            subject=path,
            advice=advise("ingest", path=path),
        )


def _refuse_transcript(lines: Sequence[str]) -> None:
    for record in _first_records(lines):
        if "format" in record or "text" in record:
            continue
        for what, agent, signs in _TRANSCRIPTS:
            if any(sign <= record.keys() for sign in signs):
                raise _transcript(what, agent)


def _transcript(what: str, agent: str) -> UsageError:
    return UsageError(
        f"This is {what}, which belongs to a session. Nothing was imported.",
        code="transcript",
        subject=what,
        advice=advise("import_history", agent=agent) if agent else advise("store_messages"),
    )


def _first_records(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the objects on lines of their own, or the first one of a list over several lines."""
    if not all(isinstance(line, str) for line in lines):
        return
    for line in lines:
        try:
            record: Any = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, list) and record:
            record = record[0]
        if isinstance(record, dict):
            yield record
    text = "".join(lines).lstrip("\ufeff \t\r\n[")
    with suppress(ValueError, RecursionError):
        record, _ = json.JSONDecoder().raw_decode(text)
        if isinstance(record, dict):
            yield record
    if "".join(text[:_OPENING_CHARS].split()).startswith('{"messages":[{'):
        yield {"messages": []}
