r"""One document as a Markdown file: front matter of plait's own, then the text as it is.

Pure. A value of the front matter is JSON, which is also YAML, on one line. The text begins right
behind the second ``---`` and is repeated byte for byte, so it may have front matter of its own.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from unicodedata import normalize

from plait.exporting.jsonl import MOMENTS, ExportedRelation, places_of
from plait.types import KINDS, Document, Passage
from plait.types.ids import is_id
from plait.types.records import NamedTuple
from plait.types.steps import Step
from plait.types.visibility import Visibility

SNAPSHOT_VERSION = 1
FENCE = "---"
# Enough to notice an edit. It protects from accidents, not from a forger.
CHECKSUM_CHARS = 16
# Of a file's name: file systems allow 255 bytes, and people read fewer.
SLUG_CHARS = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ID_CHARS = 13
# What another memory finds out by itself. With it, every reindex would change every file.
_LEFT_OUT = ("text", "chunk_count", "indexed_at")
# Also what a person who edits a file leaves as it was.
_BOOKKEEPING = ("plait", "order", "passages", "checksum", "updated_at", "sha256")


class SnapshotFile(NamedTuple):
    """A file of a snapshot as it was read.

    ``record`` has the document's fields as in a line of JSON, ``order`` its place in the order of
    writing. It is ``intact`` if nobody has edited the file since plait wrote it.
    """

    record: dict[str, Any]
    relations: tuple[dict[str, Any], ...]
    order: int
    intact: bool


# -- writing -------------------------------------------------------------------------------


def file_name(document: Document) -> str:
    """Return the path of a document's file in the folder.

    It consists of a kind, ASCII letters and the id, so no two names differ only by case or by how
    an accent is written.

    >>> file_name(Document(id="abcdefghijklm", key="Ops/Schlüssel.md"))
    'note/ops-schlussel-md-abcdefghijklm.md'
    >>> file_name(Document(id="abcdefghijklm", kind="observation", created_at=86_400_000))
    'observation/1970-01-02-abcdefghijklm.md'
    """
    id_ = document.id
    if not is_id(id_):  # out of somebody else's file: it could be a path
        id_ = sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()[:_ID_CHARS]
    kind = document.kind if document.kind in KINDS else "note"
    name = _slug(document.key or "")
    if document.kind == "message" and document.session:
        name = f"{_slug(document.session)}-{document.turn or 0:05d}".lstrip("-")
    # A name made of the text would change with it.
    return f"{kind}/{name or str(_shown(document.created_at))[:10]}-{id_}.md"


def _slug(name: str) -> str:
    letters = normalize("NFKD", name[: 4 * SLUG_CHARS]).lower()
    kept = "".join(
        mark if mark.isascii() and mark.isalnum() else "" if ord(mark) in range(768, 880) else " "
        for mark in letters
    )
    return "-".join(kept.split())[:SLUG_CHARS].strip("-")


def file_text(
    document: Document,
    passages: Sequence[Passage],
    relations: Sequence[ExportedRelation],
    order: int,
    steps: Sequence[Step] = (),
    visibility: Visibility | None = None,
) -> str:
    """Return the file of a document; fields with their default value are left out."""
    fields: list[tuple[str, Any]] = [("plait", SNAPSHOT_VERSION)]
    defaults = Document._field_defaults
    for name, value in document._asdict().items():
        if name in _LEFT_OUT or value == defaults[name]:
            continue
        fields.append((name, _shown(value) if name in MOMENTS else value))
    if visibility is not None:
        fields.append(("visibility", visibility))
    fields += [("relation", _relation(edge, document.project)) for edge in relations]
    fields.append(("order", order))
    if steps:
        fields.append(("steps", list(steps)))
    fields.append(("passages", places_of(document.text, passages)))
    lines = [f"{name}: {_written(value)}\n" for name, value in fields]
    sum_ = f"checksum: {_written(checksum(lines, document.text))}\n"
    return "".join([f"{FENCE}\n", *lines, sum_, f"{FENCE}\n", document.text])


def _relation(exported: ExportedRelation, project: str | None) -> dict[str, Any]:
    """Return a relation as a value of its source's file, which names source and project."""
    edge = exported.relation._asdict()
    record = {
        name: _shown(value) if name in MOMENTS else value
        for name, value in edge.items()
        if name not in ("source", "source_id", "target_id")
        and (value not in (None, "", 0) or name == "type")
    }
    if exported.project != project:
        record["project"] = exported.project
    if exported.visibility is not None:
        record["visibility"] = exported.visibility
    return record


def _shown(moment: int) -> str | int:
    """Return a moment as people read it, exact; as a number if it has no date.

    >>> _shown(1_772_366_400_123)
    '2026-03-01T12:00:00.123Z'
    """
    try:
        shown = _EPOCH + timedelta(milliseconds=moment)
    except OverflowError:
        return moment
    return shown.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _written(value: object) -> str:
    value = dict(value) if isinstance(value, Mapping) else value
    text = json.dumps(value, ensure_ascii=False)
    # Editors and other programs break lines at more than \n.
    return text if text.isprintable() else json.dumps(value)


def checksum(lines: Sequence[str], text: str) -> str:
    """Return the mark of a file as plait writes it: of its front matter and its text."""
    content = "".join((*lines, text)).encode("utf-8", "surrogatepass")
    return sha256(content).hexdigest()[:CHECKSUM_CHARS]


# -- reading -------------------------------------------------------------------------------


def is_snapshot_file(data: bytes) -> bool:
    """Tell whether bytes begin like a file of a snapshot, rather than another Markdown file."""
    head = data[:32].removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    return head.startswith(b"---\nplait:")


def read_file(data: bytes) -> SnapshotFile:
    """Return what a file of a snapshot says; the values are checked by `jsonl`.

    Raises:
        ValueError: It is not such a file, or not UTF-8; the message says why.
    """
    whole = data.removeprefix(b"\xef\xbb\xbf").decode()
    if whole.startswith(f"{FENCE}\r\n"):
        # plait writes \n: a program has converted the line ends of the whole file.
        whole = whole.replace("\r\n", "\n")
    head, fence, text = whole.removeprefix(f"{FENCE}\n").partition(f"\n{FENCE}\n")
    if not fence and not head.endswith(f"\n{FENCE}"):
        raise ValueError("its front matter has no end")
    head = head if fence else head.removesuffix(f"\n{FENCE}")
    lines = [f"{line}\n" for line in head.split("\n")]
    record: dict[str, Any] = {}
    relations: list[dict[str, Any]] = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError(f"the line {line.strip()[:40]!r} of its front matter has no colon")
        if name == "relation":
            relations.append(_read_relation(_read(value)))
        elif name in record:
            raise ValueError(f"it has two values for {name[:40]}")
        else:
            record[name] = _moment(name, _read(value)) if name in MOMENTS else _read(value)
    version, order = record.pop("plait", None), record.pop("order", 0)
    if version != SNAPSHOT_VERSION:
        raise ValueError(f"it has version {version!r} of the format, not {SNAPSHOT_VERSION}")
    if type(order) is not int or not 0 <= order < 2**53:
        raise ValueError("order is not a whole number")
    own = [line for line in lines if not line.startswith("checksum:")]
    intact = record.pop("checksum", None) == checksum(own, text)
    if not intact:
        # Its passages are those of another text.
        record.pop("passages", None)
    return SnapshotFile({**record, "text": text}, tuple(relations), order, intact)


def _read(value: str) -> Any:
    """Return a value; what is not JSON is taken for plain text, as a person writes it."""
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value.strip()


def _read_relation(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("a relation is not an object")
    return {name: _moment(name, part) if name in MOMENTS else part for name, part in value.items()}


def _moment(name: str, value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"{name} is {value[:40]!r}, which is not a time") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def same_content(record: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether two files say the same, apart from plait's bookkeeping."""
    fields = [
        {name: value for name, value in row.items() if name not in _BOOKKEEPING}
        for row in (record, other)
    ]
    return fields[0] == fields[1]
