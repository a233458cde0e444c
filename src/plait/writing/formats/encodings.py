r"""Decode the bytes of a text file: Unicode by its marks, else UTF-8, else Windows-1252."""

import codecs
import re

from plait.errors import SourceError
from plait.types.records import NamedTuple
from plait.writing import refusals

# Bytes searched for a NUL, as git and grep do. The header of any binary format is shorter.
_SNIFFED_BYTES = 8 * 1024
# UTF-32 comes first: its little-endian mark starts with that of UTF-16.
_WIDE_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# In Western European languages, at most one letter in six has an accent, and hardly ever two in a
# row do; in KOI8, Windows-1251, Shift-JIS or Big5 nearly every letter is above 127.
_MOST_ACCENTS = 0.3
_MOST_IN_A_ROW = 3
_HIGH = re.compile(rb"[\x80-\xff]+")
_ACCENTED = re.compile(rb"[\xc0-\xff]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_UNUSED = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")  # no characters of Windows-1252
_LETTERS = re.compile(rb"[A-Za-z]")
WINDOWS_1252 = "read as Windows-1252 (Latin-1): it is not UTF-8"


class NotText(SourceError):
    """The file can be read, but it is binary or in an unknown encoding."""

    code = "not_text"


class Converted(NamedTuple):
    """The text of a file.

    ``lines`` has, for each line of the text, its line in the file; empty if they are the same.
    ``title`` is the file's own, if its format has one. ``remark`` is for the report.
    """

    text: str
    lines: tuple[int, ...] = ()
    title: str = ""
    remark: str = ""


def decoded(data: bytes, subject: str, *, strict: bool = False) -> Converted:
    r"""Return the text of some bytes, with ``\n`` as its line ends.

    >>> decoded("Ein Gruß aus Köln".encode("cp1252"), "a.txt").text
    'Ein Gruß aus Köln'

    Args:
        data: The bytes.
        subject: Their file, for messages.
        strict: Only Unicode counts.

    Raises:
        NotText: They are binary or in an unknown encoding. The message is the reason.
    """
    encoding = next((name for mark, name in _WIDE_MARKS if data.startswith(mark)), "utf-8")
    if encoding == "utf-8" and b"\0" in data[:_SNIFFED_BYTES]:
        raise NotText(refusals.BINARY, subject=subject)
    remark = ""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        if strict or encoding != "utf-8" or not _is_western(data):
            line = data.count(b"\n", 0, error.start) + 1
            raise NotText(
                f"not {encoding.upper()} text: byte 0x{data[error.start]:02X} at offset"
                f" {error.start:,} (line {line:,}); convert it to UTF-8",
                subject=subject,
            ) from error
        text, remark = data.decode("cp1252"), WINDOWS_1252
    # A NUL further inside would end the text early for readers of C strings.
    text = text.removeprefix("\ufeff").replace("\0", "\ufffd")
    return Converted(text.replace("\r\n", "\n").replace("\r", "\n"), remark=remark)


def _is_western(data: bytes) -> bool:
    """Tell whether bytes that are not UTF-8 are a text in Windows-1252, and not another's."""
    if _CONTROL.search(data) or _UNUSED.search(data):
        return False
    runs = [len(match[0]) for match in _ACCENTED.finditer(data)]
    letters = sum(runs) + len(_LETTERS.findall(data))
    if sum(runs) > _MOST_ACCENTS * letters or max(runs, default=0) > _MOST_IN_A_ROW:
        return False
    # A UTF-8 text with some broken bytes would lose all its other accents.
    return not any(_is_utf8(match[0]) for match in _HIGH.finditer(data))


def _is_utf8(run: bytes) -> bool:
    try:
        run.decode()
    except UnicodeDecodeError:
        return False
    return True
