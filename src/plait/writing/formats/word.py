"""Read Word documents (.docx): a zip archive with XML in it.

Only paragraphs, headings, lists and tables are read. expat keeps no tree, so nesting costs nothing;
a document type is refused, because entities of entities can grow without end.
"""

import io
import struct
import zipfile
import zlib
from typing import Any, Protocol
from xml.parsers import expat

from plait.writing.formats.encodings import Converted, NotText

# Bytes. The XML of a document is about ten times its text; pictures are not unpacked.
_UNPACKED_PER_BYTE = 16
_BODY, _CORE = "word/document.xml", "docProps/core.xml"
_CORE_BYTES = 64 * 1024
_BLOCK = 64 * 1024
_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main "
_W_STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main "
_TITLE = "http://purl.org/dc/elements/1.1/ title"
_MOST_DEPTH = 1_000


def convert_word(data: bytes, name: str, max_bytes: int) -> Converted:
    """Return a Word document as Markdown. It has no lines, so those of the text count.

    Raises:
        NotText: It is not one, it is damaged, or it unpacks to too much.
    """
    body = _Body()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = frozenset(archive.namelist())
            if _BODY not in parts:
                raise NotText("not a Word document: it has no text part", subject=name)
            _parse(archive, _BODY, body, _UNPACKED_PER_BYTE * max_bytes)
            title = _Core()
            if _CORE in parts:
                _parse(archive, _CORE, title, _CORE_BYTES)
    except (
        zipfile.BadZipFile, zlib.error, struct.error, expat.ExpatError, EOFError, OSError,
        RuntimeError, ValueError, LookupError, OverflowError,
    ) as error:  # fmt: skip
        raise NotText("not a Word document, or a damaged or encrypted one", subject=name) from error
    except _TooMuch as error:
        raise NotText(str(error), subject=name) from error
    return Converted(body.text, title=" ".join("".join(title.words).split())[:200])


class _TooMuch(Exception):
    """The archive is made to exhaust the reader."""


class _Reader(Protocol):
    """What happens at the beginning and end of an element, and at its text."""

    def start(self, name: str, attributes: dict[str, str]) -> None: ...

    def end(self, name: str) -> None: ...

    def words_of(self, words: str) -> None: ...


def _parse(archive: zipfile.ZipFile, part: str, reader: _Reader, most: int) -> None:
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _MOST_DEPTH:
            raise _TooMuch("its elements are nested too deeply")
        reader.start(name, attributes)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        reader.end(name)

    def refuse(*_: Any) -> None:
        raise _TooMuch("it declares a document type, which no Word document does")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = reader.words_of
    parser.StartDoctypeDeclHandler = refuse
    unpacked = 0
    # Word writes no other; of these two alone Python unpacks no more than it is asked for.
    if archive.getinfo(part).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise _TooMuch("it is packed in a way that no Word document is")
    with archive.open(part) as stream:
        while block := stream.read(_BLOCK):
            unpacked += len(block)
            if unpacked > most:
                raise _TooMuch(f"it unpacks to more than {most // 1024 // 1024:,} MB of XML")
            parser.Parse(block, False)
    parser.Parse(b"", True)


class _Core:
    """The properties of a document: its title."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._is_title = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._is_title = name == _TITLE

    def end(self, name: str) -> None:
        self._is_title = False

    def words_of(self, words: str) -> None:
        if self._is_title:
            self.words.append(words)


class _Body:
    """The text of a document as Markdown."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._words: list[str] = []
        self._prefix = ""
        self._in_text = False
        self._cells = 0

    @property
    def text(self) -> str:
        return "".join(self._parts).strip("\n") + "\n" if self._parts else ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        match _local(name):
            case "t":
                self._in_text = True
            case "tab":
                self._words.append("\t")
            case "br" | "cr":
                self._words.append("\n" if not self._cells else " ")
            case "pStyle":
                self._prefix = _heading_mark(_value(attributes)) or self._prefix
            case "numPr":
                self._prefix = self._prefix or "- "
            case "outlineLvl" if _value(attributes) in set("012345"):
                self._prefix = "#" * (int(_value(attributes)) + 1) + " "
            case "tc":
                self._cells += 1

    def end(self, name: str) -> None:
        match _local(name):
            case "t":
                self._in_text = False
            case "p":
                self._end_paragraph()
            case "tc":
                self._cells = max(0, self._cells - 1)
                self._parts.append(" | ")
            case "tr":
                self._parts.append("\n")
            case "tbl":
                self._parts.append("\n")

    def words_of(self, words: str) -> None:
        if self._in_text:
            self._words.append(words)

    def _end_paragraph(self) -> None:
        text = "".join(self._words).strip()
        prefix, self._prefix, self._words = self._prefix, "", []
        if not text:
            return
        if self._cells:
            self._parts.append(text + " ")
        else:
            heading = prefix.startswith("#")
            shown = " ".join(text.split()) if heading else text
            self._parts.append(f"{prefix}{shown}\n" + ("" if prefix == "- " else "\n"))


def _local(name: str) -> str:
    """Return the name of an element of a Word document; empty for another one."""
    for space in (_W, _W_STRICT):
        if name.startswith(space):
            return name[len(space) :]
    return ""


def _value(attributes: dict[str, str]) -> str:
    return attributes.get(f"{_W}val") or attributes.get(f"{_W_STRICT}val") or ""


def _heading_mark(style: str) -> str:
    """Return the Markdown of a heading style.

    >>> _heading_mark("Heading2"), _heading_mark("Title"), _heading_mark("BodyText")
    ('## ', '# ', '')
    """
    name = style.lower().replace(" ", "")
    if name == "title":
        return "# "
    # German, French, Spanish and Dutch Word name their styles in their language.
    for word in ("heading", "berschrift", "titre", "ttulo", "título", "kop"):
        level = name.rpartition(word)[2] if word in name else ""
        if level in set("123456"):
            return "#" * int(level) + " "
    return ""
