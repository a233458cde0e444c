"""Turn the bytes of a file into the text that is stored; the ending of its name tells the format.

One module per format: bytes go in, a `Converted` comes out, in linear time and bounded memory,
whatever the bytes are. Nothing here opens files; cutting texts belongs in `plait.writing.chunking`.
"""

import codecs
import re
from collections.abc import Callable

from plait.errors import SourceError
from plait.writing.formats.encodings import Converted, NotText, decoded

__all__ = ["Converted", "NotText", "converted"]

# A converter takes the bytes, the name of the file for messages, and the most bytes of text.
Converter = Callable[[bytes, str, int], Converted]
# It would be in the memory twice, with the front matter as its words and its trust lost.
PART_OF_EXPORT = "plait's own export, or part of it; use import, not ingest"
# How such a file begins, of Markdown or of JSON lines, whatever an editor has made of its bytes. A
# person's note may have a field of this name, but no id behind it.
_EXPORTED = re.compile(
    r"\s*(?:---\s{1,2}plait: \d+\s{1,2}id: \"[a-z2-7]{13}\"\s"
    r"|\{\s?\"format\": ?\"plait\", ?\"version\": ?\d)"
)
_HEAD_BYTES = 400
# What a reader with a defect raises for a file that nobody has thought of. One such file must not
# end the reading of all others. Failures of the system (`OSError`) are no defects.
_DEFECTS = (
    ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, MemoryError,
    RuntimeError, TypeError, ValueError,
)  # fmt: skip


def _converter(ending: str) -> Converter | None:
    # Imported on use: most folders have one format, and reading Markdown needs none of these.
    if ending in ("html", "htm", "xhtml"):
        from plait.writing.formats.web_pages import convert_page

        return convert_page
    if ending == "ipynb":
        from plait.writing.formats.notebooks import convert_notebook

        return convert_notebook
    if ending in ("srt", "vtt"):
        from plait.writing.formats.subtitles import convert_subtitles

        return convert_subtitles
    if ending == "json":
        from plait.writing.formats.chats import convert_chat

        return convert_chat
    if ending == "docx":
        from plait.writing.formats.word import convert_word

        return convert_word
    if ending == "pdf":
        from plait.writing.formats.pdf import convert_pdf

        return convert_pdf
    return None


def _is_exported(data: bytes) -> bool:
    """Tell whether a file is an export, or one of its folder."""
    head = data[:_HEAD_BYTES]
    wide = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = head.decode("utf-16" if wide else "utf-8-sig", "ignore")
    return _EXPORTED.match(text) is not None


def converted(data: bytes, name: str, max_bytes: int) -> Converted:
    """Return the text of a file.

    Args:
        data: The bytes of the file.
        name: Its name or path; the ending tells the format.
        max_bytes: The most bytes that the text may have.

    Raises:
        NotText: It has no text, or is not what its name says. The message is the reason.
        SourceError: Its reader failed.
    """
    ending = name.rpartition(".")[2].lower()
    converter = _converter(ending)
    if _is_exported(data):
        raise NotText(PART_OF_EXPORT, code="exported", subject=name)
    if converter is None:
        return decoded(data, name)
    try:
        result = converter(data, name, max_bytes)
    except _DEFECTS as error:
        raise SourceError(
            f"it cannot be read as {ending}: {type(error).__name__}",
            code="unreadable_format",
            subject=name,
        ) from error
    size = len(result.text.encode("utf-8", "replace"))
    if size > max_bytes:
        from plait.writing.refusals import amount

        raise NotText(
            f"too large: its text is {amount(size)}, limit {amount(max_bytes)}",
            code="too_large",
            subject=name,
        )
    return result
