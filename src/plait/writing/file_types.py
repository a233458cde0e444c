"""Which files of a folder count, and by which option those of other types do."""

from collections.abc import Mapping, Sequence

from plait.types import FILE_PATTERNS
from plait.writing.chunking import Style

_ENDINGS: dict[Style, str] = {
    "python": "py pyi",
    "javascript": "js mjs cjs jsx ts mts cts tsx",
    "go": "go",
    "rust": "rs",
    "java": "java kt kts cs swift scala",
    "c": "c h cc cpp cxx hh hpp hxx",
    "ruby": "rb",
    "php": "php",
    "shell": "sh bash zsh",
    "sql": "sql",
}
# The language of source code, by the ending of a file's name.
LANGUAGES: dict[str, Style] = {
    ending: language for language, endings in _ENDINGS.items() for ending in endings.split()
}
# Words for patterns. Code is not among the default ones: beside a repository, it would be most of
# what a search finds. A JSON file may be anything; a PDF needs a package.
PATTERN_GROUPS: Mapping[str, tuple[str, ...]] = {
    "notes": FILE_PATTERNS,
    "code": tuple(f"*.{ending}" for ending in LANGUAGES),
    "pdf": ("*.pdf",),
    "chats": ("*.json",),
}
# Endings of files in which there is no text to read, so that no option is offered for them.
_NO_TEXT = (
    "png jpg jpeg gif webp bmp ico tif tiff heic avif psd ai sketch fig raw "
    "mp3 wav flac ogg m4a aac mp4 m4v mov avi mkv webm "
    "zip gz bz2 xz zst 7z rar tar tgz jar whl dmg iso apk deb rpm "
    "ttf otf woff woff2 eot exe dll so dylib a o obj lib class pyc pyo wasm bin dat "
    "db sqlite sqlite3 parquet npy npz pkl pt onnx safetensors gguf "
    "xls xlsx ppt pptx doc odt ods odp pages numbers key epub mobi "
    "lock swp bak tmp"
)


def expanded(patterns: Sequence[str]) -> tuple[str, ...]:
    """Return patterns with the words for groups of them spelled out.

    >>> expanded(["*.md", "pdf"])
    ('*.md', '*.pdf')
    """
    groups = [PATTERN_GROUPS.get(pattern, (pattern,)) for pattern in patterns]
    return tuple(dict.fromkeys(pattern for group in groups for pattern in group))


def ending_of(name: str) -> str:
    """Return the type of a file as a report shows it: the ending of its name with its dot.

    >>> ending_of("a/B.TXT"), ending_of("Makefile"), ending_of("a.b/c")
    ('.txt', '', '')
    """
    base = name.rpartition("/")[2]
    stem, dot, ending = base.rpartition(".")
    return f".{ending.lower()}" if dot and stem and ending.isalnum() and len(ending) <= 10 else ""


def include_for(ending: str) -> str:
    """Return the word or pattern that includes files of a type; empty if they have no text.

    >>> include_for(".py"), include_for(".pdf"), include_for(".tex"), include_for(".png")
    ('code', 'pdf', '*.tex', '')
    """
    if not ending or ending.lstrip(".") in _NO_TEXT.split():
        return ""
    pattern = f"*{ending}"
    return next((word for word, group in PATTERN_GROUPS.items() if pattern in group), pattern)
