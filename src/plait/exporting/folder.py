"""Read the folder of a Markdown snapshot, which may be somebody else's.

Links are not followed, special files not opened, and a file that is too large is refused before it
is read. What a file says is in `markdown`; writing the folder is in `snapshot`.
"""

import json
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from plait.errors import (
    NotFound,
    PlaitError,
    UsageError,
    advise,
    flattened,
    lacks_descriptors,
    quoted,
)
from plait.exporting import jsonl, markdown
from plait.exporting.columns import size_of
from plait.protocols import Entry
from plait.types import Document
from plait.types.ids import is_address
from plait.types.records import NamedTuple
from plait.writing.opening import open_inside
from plait.writing.refusals import amount

# It names the format, so that a folder of notes is not taken for a snapshot.
MARKER = "snapshot.json"
SNAPSHOT_FORMAT = "plait-markdown"
# The front matter of a file lists its passages; a text has one in about a thousand characters.
ROOM_FOR_FRONT_MATTER = 2_000_000
MAX_FILES = 1_000_000
DEEPEST_FOLDER = 16
_MAX_MARKER_BYTES = 10_000
_PROBLEM_CHARS = 200
# Fields that are not the content of a document.
_OF_A_COPY = (
    *("id", "created_at", "updated_at", "indexed_at", "event_at"),
    *("size", "mtime", "sha256", "chunk_count"),
)
# NONBLOCK: do not wait for a pipe. NOFOLLOW: do not follow a link that has replaced a file.
_READ_ONLY = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
)


class FolderFile(NamedTuple):
    """A Markdown file of a folder: its name there, its bytes, and when it was changed."""

    name: str
    data: bytes
    mtime: int


class _Read(NamedTuple):
    """What a file says; ``place`` puts files in the order in which they were written."""

    place: tuple[int, int, str]
    name: str
    entry: Entry
    relations: list[jsonl.ExportedRelation]


class Snapshot(NamedTuple):
    """The contents of a snapshot, as `importing` takes them; ``others`` counts other files."""

    parts: list[Entry | jsonl.ExportedRelation | jsonl.ExportHeader]
    others: int = 0


def is_snapshot(folder: str) -> bool:
    """Tell whether a folder is a snapshot."""
    try:
        _read_marker(folder)
    except (OSError, PlaitError):
        return False
    return True


def snapshot_near(db_path: str, memory_dir: str | None) -> str | None:
    """Return the snapshot that belongs to a memory: `memory_dir`, or the folder of its own name.

    ``notes/memory.db`` has it in ``notes/memory``.
    """
    has_own = not is_address(db_path) and Path(db_path).suffix
    beside = str(Path(db_path).with_suffix("")) if has_own else None
    folders = [folder for folder in (memory_dir, beside) if folder]
    return next((folder for folder in folders if is_snapshot(folder)), None)


def is_owned(folder: str) -> bool:
    """Tell whether a folder belongs to whoever runs this; where no folder has an owner, yes."""
    return not hasattr(os, "getuid") or os.lstat(folder).st_uid == os.getuid()


def read_snapshot(folder: str, max_bytes: int) -> Snapshot:
    """Return the documents and relations of a snapshot, in the order in which they were written.

    Raises:
        NotFound: There is no such folder.
        UsageError: The folder is no snapshot ("not_a_snapshot"), or a file of it is too large or
            says something that cannot be stored ("bad_snapshot").
    """
    header = _read_marker(folder)
    others = 0
    files: list[_Read] = []
    for file in files_of(folder, max_bytes + ROOM_FOR_FRONT_MATTER):
        if not markdown.is_snapshot_file(file.data):
            others += 1
            continue
        try:
            content = markdown.read_file(file.data)
            entry = jsonl.read_entry(_record(content, file.mtime))
            relations = [_relation(row, entry.document) for row in content.relations]
        except (TypeError, ValueError, LookupError) as error:
            raise bad_file(file.name, str(error)) from None
        if size_of(entry.document.text) > max_bytes:
            raise too_large(file.name, max_bytes)
        place = (content.order, entry.document.created_at, entry.document.id)
        files.append(_Read(place, file.name, entry, relations))
    files = _without_twins(sorted(files, key=lambda file: (file.place, file.name)))
    edges = [edge for file in files for edge in file.relations]
    edges.sort(key=lambda row: row.relation.created_at)
    return Snapshot([header, *(file.entry for file in files), *edges], others)


def _without_twins(files: Iterable[_Read]) -> list[_Read]:
    """Return the files without those that say what another one says.

    Raises:
        UsageError: Two files are one document, by id or by key, and differ. Which of them is newer
            cannot be told: a checkout changes the time of a file.
    """
    kept: dict[str, _Read] = {}
    ids: dict[str, _Read] = {}
    keys: dict[tuple[str | None, ...], _Read] = {}
    # A file that a person wrote has no id, and adds nothing to one that plait wrote.
    for file in sorted(files, key=lambda file: not file.entry.document.id):
        document = file.entry.document
        twin = ids.setdefault(document.id, file) if document.id else file
        if twin is not file:
            if (twin.entry, twin.relations) != (file.entry, file.relations):
                raise _differ(file, twin, "document")
            continue
        # Entities of one name are merged.
        if document.key is not None and document.kind != "entity":
            # A member may have a private note of the same key as one of the team.
            name = (document.project, document.source, document.key, file.entry.visibility)
            twin = keys.setdefault(name, file)
            if twin is not file:
                if not _says_the_same(document, twin.entry.document):
                    raise _differ(file, twin, "key")
                continue
        kept[file.name] = file
    return sorted(kept.values(), key=lambda file: (file.place, file.name))


def _says_the_same(document: Document, other: Document) -> bool:
    """Tell whether two documents have one content, as far as both tell."""
    if (document.kind, document.text, document.trust) != (other.kind, other.text, other.trust):
        return False
    rows = zip(Document._fields, document, other, Document(), strict=True)
    return all(
        name in _OF_A_COPY or first == second or blank in (first, second)
        for name, first, second, blank in rows
    )


def _differ(file: _Read, twin: _Read, what: str) -> UsageError:
    names = f"it is the same {what} as {quoted(twin.name)}, with another content"
    return bad_file(file.name, f"{names}; keep one of the two files")


def files_of(folder: str, max_bytes: int) -> Iterator[FolderFile]:
    """Yield the Markdown files of a folder and its subfolders, by name.

    Raises:
        UsageError: A file is too large, or there are too many.
    """
    place = Path(folder).absolute()
    for count, name in enumerate(_names(folder, "", DEEPEST_FOLDER)):
        if count >= MAX_FILES:
            raise bad_file(name, f"the folder has more than {MAX_FILES:,} files")
        content = read_regular(place / name, max_bytes, inside=str(place))
        if content is not None:
            yield FolderFile(name, *content)


def _names(folder: str, below: str, depth: int) -> Iterator[str]:
    with os.scandir(Path(folder, below)) as entries:
        rows = sorted(entries, key=lambda row: row.name)
    for row in rows:
        name = f"{below}{row.name}"
        if row.name.startswith(".") or row.name.endswith(".partial"):
            continue
        if row.is_dir(follow_symlinks=False):
            if depth:
                yield from _names(folder, f"{name}/", depth - 1)
        elif row.name.lower().endswith(".md") and row.is_file(follow_symlinks=False):
            yield name


def read_regular(path: Path, max_bytes: int, inside: str = "") -> tuple[bytes, int] | None:
    """Return the bytes of a regular file and its time; ``None`` for a link or a special file.

    With ``inside``, a folder, also if there is a link on the way from there.

    Raises:
        UsageError: It is too large.
    """
    try:
        file = open_inside(str(path), inside, _READ_ONLY)
    except OSError as error:
        if lacks_descriptors(error) or isinstance(error, PermissionError):
            raise
        return None
    with file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return None
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise too_large(path.name, max_bytes)
    return data, status.st_mtime_ns // 1_000_000


def _read_marker(folder: str) -> jsonl.ExportHeader:
    if not Path(folder).is_dir():
        raise NotFound(
            f"There is no folder {folder}. Check the path.", code="no_folder", subject=folder
        )
    content = read_regular(Path(folder, MARKER), _MAX_MARKER_BYTES)
    if content is None:
        raise UsageError(
            f"{folder} is no snapshot of a memory: it has no {MARKER}.",
            code="not_a_snapshot",
            subject=folder,
            advice=advise("ingest", path=folder),
        )
    try:
        record: dict[str, Any] = json.loads(content[0])
        name, version = record.get("format"), record.get("version")
        header = jsonl.read_header(record)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise bad_file(MARKER, str(error)) from None
    if (name, version) != (SNAPSHOT_FORMAT, markdown.SNAPSHOT_VERSION):
        raise bad_file(MARKER, f"the format is {name!r} version {version!r}")
    return header


def marker_text(changed_at: int | None) -> str:
    """Return the file that names the format, and when a fact last replaced another."""
    record: dict[str, object] = {"format": SNAPSHOT_FORMAT, "version": markdown.SNAPSHOT_VERSION}
    if changed_at is not None:
        record["latest_turn"] = changed_at
    return json.dumps(record, indent=2) + "\n"


def _record(content: markdown.SnapshotFile, mtime: int) -> dict[str, Any]:
    record = dict(content.record)
    if not content.intact:
        # Its hash is that of another text, and the edit is newer than what plait wrote.
        record.pop("sha256", None)
        if type(record.get("updated_at", 0)) is int:
            record["updated_at"] = max(record.get("updated_at", 0), mtime)
    return record


def _relation(fields: dict[str, Any], document: Document) -> jsonl.ExportedRelation:
    if document.kind != "entity":
        raise ValueError("only an entity has relations")
    project = fields.get("project", document.project)
    beside = {"project": project, "visibility": fields.get("visibility")}
    named = {name: value for name, value in fields.items() if name not in beside}
    return jsonl.read_relation({"relation": {**named, "source": document.key}, **beside})


def too_large(name: str, max_bytes: int) -> UsageError:
    """Return the error that a file of a folder is too large."""
    return UsageError(
        f"{quoted(name)} is too large: more than {amount(max_bytes)}. Nothing was imported.",
        code="too_large",
        subject=name,
        advice=advise("raise_limit"),
    )


def bad_file(name: str, problem: str) -> UsageError:
    """Return the error that a file of a folder cannot be imported."""
    return UsageError(
        f"{quoted(name)} cannot be imported: {flattened(problem)[:_PROBLEM_CHARS]}. Nothing was "
        "imported.",
        code="bad_snapshot",
        subject=name,
    )
