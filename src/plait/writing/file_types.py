"""Which files of a folder count, and by which option those of other types do."""

from collections.abc import Mapping, Sequence

from plait.errors import UsageError, advise, quoted
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


# How similar (0 to 1) a plain word must be to one of the groups to be a typing error: `makefile` is
# the name of a file.
_SIMILAR_WORD = 0.75


def check_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return patterns, none of which is a typing error: that would pass over files silently.

    Raises:
        UsageError: A ``[`` has no ``]``, or a word is nearly that of a group.
    """
    for pattern in patterns:
        if "]" not in pattern.rpartition("[")[2] and "[" in pattern:
            raise UsageError(
                f"The pattern {quoted(pattern)} has a [ without a ]. For example: '[a-m]*.md'",
                code="bad_value",
                subject="patterns",
            )
        if pattern.isalpha() and pattern not in PATTERN_GROUPS and (close := _group_like(pattern)):
            raise UsageError(
                f"{quoted(pattern)} is no group of files; these are: {', '.join(PATTERN_GROUPS)}.",
                code="bad_value",
                subject="patterns",
                advice=advise("did_you_mean", name=close),
            )
    return patterns


def _group_like(word: str) -> str:
    """Return the group whose word is nearly this one, if there is one."""
    from difflib import get_close_matches  # 2 ms that only an unusual word costs

    return next(iter(get_close_matches(word, PATTERN_GROUPS, n=1, cutoff=_SIMILAR_WORD)), "")


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
