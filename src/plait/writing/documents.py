"""Check new documents, and complete them from their front matter, name and the clock."""

import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from plait.errors import UsageError, advise
from plait.facts.messages import origin_of
from plait.text import clean
from plait.text.front_matter import front_matter
from plait.text.links import inline_tags
from plait.text.normal_form import composed
from plait.times import parse_time
from plait.types import (
    MEMORY_TYPES,
    ORIGINS,
    STATUSES,
    TRUSTS,
    Document,
    DocumentStatus,
    Passage,
    check_choice,
    check_range,
)
from plait.types.ids import RESERVED_FIELDS, bare_tag, without
from plait.types.records import NamedTuple
from plait.writing import chunking, filenames, sources
from plait.writing.file_types import LANGUAGES
from plait.writing.refusals import amount

TITLE_CHARS = 80
# Characters. Each message of a session repeats its name: a few long ones would fill a disk.
LONGEST_NAME = 500

# Files that are converted become Markdown.
STYLES: dict[str, chunking.Style] = {
    **dict.fromkeys(("md", "markdown", "html", "htm", "xhtml", "ipynb", "docx", "pdf"), "markdown"),
    "json": "markdown",
    "rst": "rst",
    "org": "org",
    **LANGUAGES,
}
# Files in which a word after a number sign is a tag.
TAGGED = frozenset({"md", "markdown"})
_ORG_TITLE = re.compile(r"^#\+title:[ \t]*+([^\n]*\S)", re.I | re.M)
_ORG_HEAD_CHARS = 2_000
# Front matter fields with a meaning of their own; the rest of it becomes metadata.
FRONT_FIELDS = frozenset({"title", "tags", "type", "memory_type", "summary", "date"})
_NOT_METADATA = FRONT_FIELDS.union(RESERVED_FIELDS)

# Fields that are compared with what a caller names; a file's key stays as the file system has it.
NAMES = ("type", "topic", "session", "role")
# Fields that are a number, or nothing.
NUMBERS = ("turn", "importance", "event_at", "valid_from", "valid_to", "size", "mtime")

# Fields that may hold a text; the others are numbers, tags and metadata.
_TEXT_FIELDS = tuple(
    name
    for name, default in Document._field_defaults.items()
    if isinstance(default, str) or (default is None and name not in NUMBERS)
)
_TEXTS = itemgetter(*map(Document._fields.index, _TEXT_FIELDS))
_NAMES_OF = itemgetter(*(Document._fields.index(name) for name in _TEXT_FIELDS if name != "text"))

FrontMatter = dict[str, str | list[str]]


class Draft(NamedTuple):
    """A completed document, and where its body begins behind the front matter.

    ``lines`` has, for each line of the text, its line in the file; empty if they are the same.
    """

    document: Document
    body_start: int
    lines: Sequence[int] = ()

    @property
    def body(self) -> str:
        """The text behind the front matter."""
        return self.document.text[self.body_start :]


def now_ms() -> int:
    """Return the present in UTC milliseconds."""
    return time.time_ns() // 1_000_000


def new_document(
    text: str,
    *,
    key: str | None,
    role: str | None,
    session: str | None,
    memory_type: str | None,
    tags: Iterable[str] | str,
    metadata: Mapping[str, str] | None,
    origin: str | None,
    trust: str,
    importance: float | None,
    entity: str | None,
    topic: str | None,
    status: str | None = None,
    **fields: Any,
) -> Document:
    """Return a text as a document: a message with a role, a note with a key, or an observation.

    Raises:
        UsageError: A field has a bad value.
    """
    if importance is not None:
        check_range("importance", importance, 0, 1)
    check_name("entity", entity)
    check_name("topic", topic)
    of_facts = (entity, topic, fields["supersedes"], fields["valid_from"])
    is_fact = any(value is not None for value in of_facts)
    if key is not None:
        _check_key(key)
        if is_fact and role is None:
            raise UsageError(
                "A text with a key is a note, and a note has no entity, topic, supersedes or "
                "valid_from. Leave out the key, or the others.",
                code="note_with_fact_fields",
            )
    if role is not None:
        check_message(role, session, is_fact=is_fact)
        origin = origin or origin_of(role)
    return Document(
        key=key,
        kind="message" if role is not None else "observation" if key is None else "note",
        role=role and role.strip(),
        session=session,
        text=text,
        memory_type=check_choice("memory_type", memory_type, MEMORY_TYPES) if memory_type else None,
        tags=(tags,) if isinstance(tags, str) else tuple(dict.fromkeys(tags)),
        metadata=dict(metadata or {}),
        origin=check_choice("origin", origin or "user", ORIGINS),
        trust=check_choice("trust", trust, TRUSTS),
        importance=importance,
        status=None if status is None else check_choice("status", status, STATUSES),
        topic=None if topic is None else clean(topic),
        mtime=_modified(fields.get("path")),
        **fields,
    )


def check_message(role: str | None, session: str | None, *, is_fact: bool) -> None:
    """Refuse a message without a session, or with what only facts have.

    Raises:
        UsageError: It is one.
    """
    check_name("role", role)
    check_name("session", session)
    if session is None:
        raise UsageError(
            "A text with a role is a message, and a message belongs to a session."
            if role is not None
            else "A message belongs to a session.",
            code="no_session",
            subject="session",
            advice=advise("give_session"),
        )
    for field, name in (("role", role), ("session", session)):
        if name is not None and len(name) > LONGEST_NAME:
            raise UsageError(
                f"The {field} of a message has {len(name):,} characters; the limit is "
                f"{LONGEST_NAME}.",
                code="long_name",
                subject=field,
            )
    if is_fact:
        raise UsageError(
            "A text with a role is a message, and a message has no entity, topic, supersedes or "
            "valid_from. Leave out the role, or the others.",
            code="message_with_fact_fields",
        )


def _modified(path: str | None) -> int | None:
    """Return when the file that a text comes from was changed; ``None`` if there is none now."""
    try:
        return None if path is None else os.stat(path).st_mtime_ns // 1_000_000  # noqa: PTH116
    except (OSError, ValueError):
        return None


def _check_key(key: str) -> None:
    if not key.strip():
        raise UsageError(
            "The key is empty.", code="empty_name", subject="key", advice=advise("give_key")
        )


def check_name(field: str, name: str | None) -> None:
    """Refuse a name that is empty.

    Raises:
        UsageError: It is.
    """
    if name is not None and not name.strip():
        raise UsageError(
            f"The {field} is empty. Name it, or leave it out.",
            code="empty_name",
            subject=field,
        )


def texts_of(document: Document) -> list[str]:
    """Return every text that a document consists of: its fields, tags and metadata."""
    fields = [value for value in filter(None, _TEXTS(document)) if isinstance(value, str)]
    return [*fields, *document.tags, *document.metadata, *map(str, document.metadata.values())]


def check_size(texts: Sequence[str], max_bytes: int) -> None:
    """Refuse texts that are together larger than a file may be.

    Raises:
        UsageError: They are too large; the message gives their size and the limit.
    """
    if sum(map(len, texts)) * 4 <= max_bytes:  # a character takes at most four bytes
        return
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    if size > max_bytes:
        raise UsageError(
            f"The text, with its title, tags and other fields, is too large: {amount(size)}, limit "
            f"{amount(max_bytes)}. Nothing was stored.",
            code="too_large",
            subject=str(size),
            advice=advise("raise_limit"),
        )


def check_text(text: str) -> str:
    r"""Return a text as it is stored: valid Unicode, with ``\n`` at the end of its lines.

    Raises:
        UsageError: There is no text, or it contains NUL bytes.
    """
    if not text.strip():
        raise UsageError("There is no text to store.", code="no_text", advice=advise("give_text"))
    if "\0" in text:
        raise UsageError(
            "The text contains NUL bytes; it looks like a binary file.", code="binary_text"
        )
    return clean(text).replace("\r\n", "\n").replace("\r", "\n")


def check_body(draft: Draft) -> None:
    """Refuse a text that has only front matter.

    Raises:
        UsageError: There is nothing behind the front matter.
    """
    if not draft.body.strip():
        raise UsageError(
            "There is no text after the front matter. Add some, then store it again.",
            code="no_body",
        )


def complete(document: Document, now: int, lines: Sequence[int] = ()) -> Draft:
    """Fill in what the caller left open from the front matter, the name and the clock."""
    is_plain = _is_plain(document)
    given = document = _cleaned(document, is_plain=is_plain)
    values, body_start = _front_matter(document)
    document = _with_front_matter(document, values, body_start)
    is_plain &= document is given and not document.tags
    names = {} if is_plain else _composed_names(document)
    if names.get("key", document.key) != document.key:
        document = document._replace(**names)
    event = document.event_at
    completed = document._replace(
        **names,
        title=document.title or _title(document, values, body_start),
        created_at=document.created_at or now,
        updated_at=document.updated_at or now,
        event_at=_event_time(document, values, now) if event is None else event,
        indexed_at=document.indexed_at or now,
        # subtle: a file's hash is over its bytes, and only its reader can know it.
        sha256=document.sha256 if document.kind == "file" else _text_hash(document.text),
    )
    return Draft(completed, body_start, lines)


def as_draft(document: Document, passages: Sequence[Passage] = ()) -> Draft:
    """Return a stored document, complete already, as a draft to be cut again.

    ``passages`` are those it has: they know the lines of a file that was converted.
    """
    body_start = _front_matter(document)[1]
    return Draft(document, body_start, _lines_of(document.text, body_start, passages))


def _lines_of(text: str, body_start: int, passages: Sequence[Passage]) -> list[int]:
    """Return the lines in the file that stored passages tell, exact at their beginnings."""
    lines: list[int] = []
    place = 0
    for passage in passages:
        start = body_start + passage.start
        start += len(passage.text) - len(passage.text.lstrip())
        before = text.count("\n", place, start)
        place = start
        if not lines:
            lines.append(max(1, passage.start_line - before))
        lines += [min(lines[-1] + step, passage.start_line) for step in range(1, before)]
        if before:
            lines.append(passage.start_line)
    rest = text.count("\n", place) + 1
    last_line = passages[-1].end_line if passages else 1
    return lines + [min(lines[-1] + step, last_line) for step in range(1, rest)] if lines else []


def with_front_matter(document: Document) -> Document:
    """Return a document with the fields of its front matter."""
    return _with_front_matter(document, *_front_matter(document))


def _front_matter(document: Document) -> tuple[FrontMatter, int]:
    """Return the front matter of a text and where its body begins; a message is all body."""
    return ({}, 0) if document.kind == "message" else front_matter(document.text)


def _text_hash(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode()).hexdigest()


def _with_front_matter(document: Document, values: FrontMatter, body_start: int) -> Document:
    name, inside = _file_name(document), _tags_inside(document, body_start)
    is_given = "" not in (document.memory_type, document.type, document.summary)
    if not (values or name or inside) and is_given:
        return document
    texts = {
        name: value if isinstance(value, str) else ", ".join(value)
        for name, value in values.items()
    }
    return document._replace(
        memory_type=document.memory_type or filenames.memory_type_for(name, values),
        type=document.type or _text(values.get("type")),
        tags=(document.tags or _tags(values.get("tags"))) + inside,
        metadata={**without(texts, _NOT_METADATA), **document.metadata},
        summary=document.summary or _text(values.get("summary")),
        status=document.status or _status(values),
    )


def _status(values: FrontMatter) -> DocumentStatus | None:
    """Return the status that the front matter states; other words for one are only metadata."""
    stated = str(values.get("status", "")).strip().lower()
    return next((status for status in STATUSES if status == stated), None)


def _file_name(document: Document) -> str:
    """Return the name of the file that a text came from, with its folder; empty if none."""
    if document.kind == "file":
        return document.key or ""
    if document.path is None:
        return ""
    return "/".join(document.path.replace(os.sep, "/").split("/")[-2:])


def _is_plain(document: Document) -> bool:
    return _are_plain([*filter(None, _NAMES_OF(document)), *document.tags], document.metadata)


def _cleaned(document: Document, *, is_plain: bool) -> Document:
    """Replace in every field what cannot be encoded as UTF-8."""
    if is_plain:
        text = clean(document.text)
        return document if text is document.text else document._replace(text=text)
    texts: dict[str, Any] = {
        name: cleaned
        for name, value in zip(_TEXT_FIELDS, _TEXTS(document), strict=True)
        if value and isinstance(value, str) and (cleaned := clean(value)) is not value
    }
    metadata = {clean(name): clean(text) for name, text in document.metadata.items()}
    if not texts and not document.tags and metadata == document.metadata:
        return document
    return document._replace(**texts, tags=tuple(map(clean, document.tags)), metadata=metadata)


def _are_plain(names: Iterable[object], metadata: Mapping[str, str]) -> bool:
    """Tell whether names and metadata are of ASCII alone, which no rule on characters changes."""
    try:
        texts = "".join([*names, *metadata, *metadata.values()])  # type: ignore[list-item]
    except TypeError:
        return False  # a value of another type
    return texts.isascii() and "\0" not in texts


def _composed_names(document: Document) -> dict[str, Any]:
    names = NAMES if document.kind == "file" else (*NAMES, "key")
    given_names = [value for name in names if (value := getattr(document, name))]
    if not document.tags and _are_plain(given_names, document.metadata):
        return {}
    given = {name: getattr(document, name) for name in names}
    fields: dict[str, Any] = {name: value and composed(value) for name, value in given.items()}
    fields["tags"] = tuple(dict.fromkeys(bare_tag(composed(tag)) for tag in document.tags))
    fields["metadata"] = {
        composed(name): composed(text) for name, text in document.metadata.items()
    }
    return fields


def _title(document: Document, values: FrontMatter, body_start: int) -> str:
    title = values.get("title")
    if isinstance(title, str) and title:
        return title[:TITLE_CHARS]
    if document.kind not in ("file", "note"):
        return ""
    style, key = style_of(document), document.key or ""
    if _is_of_file(document) and _ending(document) in LANGUAGES:
        return key[-TITLE_CHARS:]
    if style == "org" and (keyword := _ORG_TITLE.search(document.text[:_ORG_HEAD_CHARS])):
        return keyword[1].strip()[:TITLE_CHARS]
    body = document.text[body_start:]
    if style == "markdown" and _is_of_file(document):
        heading = chunking.title_of_file(body)
    else:
        heading = chunking.first_heading(body, "markdown" if style == "plain" else style)
    return heading[:TITLE_CHARS] or (filenames.title_from_name(key) if key else "")


def _event_time(document: Document, values: FrontMatter, now: int) -> int:
    """Return when it happened: by the front matter, else a file's name, else its time stamp."""
    dates: list[object] = [values.get(name) for name in ("date", "event_at", "created")]
    dates.append(filenames.day_in_name(_file_name(document)))
    for date in dates:
        moment = _moment_of(date) if isinstance(date, str) and date else None
        if moment is not None:
            return moment
    return now if document.mtime is None else document.mtime


def _moment_of(date: str) -> int | None:
    """Return the time that a note gives itself; a day may be in words: ``March 5, 2026``."""
    moment = parse_time(date)
    if moment is None and any(map(str.isdecimal, date)):
        from plait.text.dates import day_of

        moment = parse_time(day_of(date))
    return moment


def document_from_file(
    file: sources.SourceFile, content: sources.Content, project: str | None
) -> Document:
    """Return a file as a document; `complete` adds the fields of its front matter."""
    return Document(
        key=file.key,
        kind="file",
        title=content.title[:TITLE_CHARS],
        text=content.text,
        path=file.path,
        source=file.root,
        project=project,
        origin="file",
        size=content.size,
        mtime=content.mtime,
        sha256=content.sha256,
    )


def _text(value: str | list[str] | None) -> str | None:
    return value if isinstance(value, str) and value else None


def _tags(value: str | list[str] | None) -> tuple[str, ...]:
    names = value.replace(",", " ").split() if isinstance(value, str) else value or []
    return tuple(dict.fromkeys(name.lstrip("#") for name in names if name.lstrip("#")))


def _tags_inside(document: Document, body_start: int) -> tuple[str, ...]:
    """Return the tags that a note or a Markdown file has in its text."""
    is_tagged = _ending(document) in TAGGED if _is_of_file(document) else document.kind == "note"
    if not is_tagged:
        return ()
    text = document.text
    return tuple(inline_tags(text[body_start:] if body_start else text)) if "#" in text else ()


def style_of(document: Document) -> chunking.Style:
    """Return the markup style of a text: by the ending of its file, else Markdown."""
    return STYLES.get(_ending(document), "plain") if _is_of_file(document) else "markdown"


def _is_of_file(document: Document) -> bool:
    """Tell whether a text is a file's, whichever verb read it."""
    return document.kind == "file" or (document.kind == "note" and document.path is not None)


def _ending(document: Document) -> str:
    name = document.key if document.kind == "file" else document.path
    return os.path.splitext(name or "")[1][1:].lower()  # noqa: PTH122
