"""Real text for the measurements, from this machine: Python's library, manuals, documentation.

Passages are distinct, about 400 characters long, and the same on every run of one machine: files
are read in a seeded order until there are enough. No text is kept or committed.
"""

import gzip
import os
import random
import re
import sys
import sysconfig
import zlib
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

SEED = 20_261_115
PASSAGE_CHARS = 400
LEAST_CHARS = 200
LEAST_LETTERS = 0.6  # share of letters and spaces: tables of numbers and line art are no text
FILE_BYTES = 2_000_000
PER_FILE = 400  # so that no single changelog makes up the corpus
PASSAGES_PER_DOCUMENT = 8

# Prose first; program text is used where that is not enough.
PROSE = (".md", ".rst", ".txt", ".gz", ".1", ".3", ".5", ".7", ".8", ".html")
NO_PROSE = (".json.gz", ".xml.gz", ".svg.gz")
PROGRAMS = (".py", ".pyi", ".h", ".hpp", ".pm", ".pl", ".c", ".js", ".sh", ".cmake")

_ROFF = re.compile(r"^[.'].*$|\\f[A-Z]|\\[-&]|\\\([a-z]{2}", re.MULTILINE)
_MARKUP = re.compile(r"<[^>]{1,200}>")
_WORD = re.compile(r"[A-Za-z]{2,}")


class Passage(NamedTuple):
    """A piece of a file; ``document`` numbers the group of neighbours it belongs to."""

    text: str
    source: str
    document: int


def roots() -> list[Path]:
    """Return the folders that may have text, on Linux, macOS and in a bare container."""
    library = Path(sysconfig.get_path("stdlib"))
    places = [
        Path("/usr/share/doc"),
        Path("/usr/share/man"),
        Path("/usr/share/info"),
        library,
        Path(sysconfig.get_path("purelib")),
        Path(sys.base_prefix) / "include",
        Path("/usr/lib/python3"),
        Path("/usr/share/perl"),
        Path("/usr/include"),
        Path("/usr/lib"),
        Path("/usr/share"),
    ]
    return [place for place in dict.fromkeys(places) if place.is_dir()]


def _files(endings: tuple[str, ...]) -> list[Path]:
    paths: dict[Path, None] = {}
    for root in roots():
        for folder, _, names in os.walk(root):
            for name in names:
                if name.endswith(endings) and not name.endswith(NO_PROSE):
                    paths.setdefault(Path(folder) / name)
    files = sorted(paths)
    random.Random(SEED).shuffle(files)
    return files


def _text(path: Path) -> str:
    try:
        if path.is_symlink() or path.stat().st_size > FILE_BYTES:
            return ""
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)[:FILE_BYTES]
        text = data.decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error):
        return ""
    if "/man/" in str(path):
        text = _ROFF.sub("", text)
    return _MARKUP.sub(" ", text) if path.suffix == ".html" else text


def _pieces(text: str) -> Iterator[str]:
    """Yield runs of whole lines of about the wanted length."""
    lines: list[str] = []
    size = 0
    for line in text.splitlines():
        line = line.rstrip()[: 2 * PASSAGE_CHARS]
        if size + len(line) > PASSAGE_CHARS and size >= LEAST_CHARS:
            yield "\n".join(lines).strip()
            lines, size = [], 0
        lines.append(line)
        size += len(line) + 1
    if size >= LEAST_CHARS:
        yield "\n".join(lines).strip()


def _reads_as_text(piece: str) -> bool:
    if len(piece) < LEAST_CHARS:
        return False
    letters = sum(map(str.isalpha, piece)) + piece.count(" ")
    return letters >= LEAST_LETTERS * len(piece) and len(_WORD.findall(piece)) >= 20


def read_passages(wanted: int) -> list[Passage]:
    """Return distinct passages of real text; fewer than wanted if the machine has no more."""
    passages: list[Passage] = []
    seen: set[bytes] = set()
    document = 0
    for endings in (PROSE, PROGRAMS):
        for path in _files(endings):
            mine = 0
            for piece in _pieces(_text(path)):
                mark = blake2b(" ".join(piece.split()).lower().encode(), digest_size=8).digest()
                if mark in seen or not _reads_as_text(piece):
                    continue
                seen.add(mark)
                if mine % PASSAGES_PER_DOCUMENT == 0:
                    document += 1
                passages.append(Passage(piece, str(path), document))
                mine += 1
                if len(passages) == wanted:
                    return passages
                if mine == PER_FILE:
                    break
    return passages


def queries(passages: list[Passage], number: int = 200, seed: int = SEED) -> list[str]:
    """Return queries: half of 2 or 3 long words of a passage, half of 8 to 12 words in a row."""
    chosen = random.Random(seed)
    asked: list[str] = []
    while len(asked) < number:
        words = _WORD.findall(chosen.choice(passages).text.lower())
        if len(asked) < number // 2:
            content = [word for word in dict.fromkeys(words) if len(word) > 4]
            if len(content) >= 3:
                asked.append(" ".join(chosen.sample(content, chosen.choice((2, 3)))))
        else:
            length = chosen.randint(8, 12)
            if len(words) > length:
                first = chosen.randrange(len(words) - length)
                asked.append(" ".join(words[first : first + length]) + "?")
    return asked


# Questions that a search cannot narrow down by rare words.
STOP_WORDS_ALONE = (
    "in the beginning",
    "who is it",
    "to be or not to be",
    "what is this",
    "how do you do",
)


def stop_word_questions(passages: list[Passage], number: int = 40, seed: int = SEED) -> list[str]:
    """Return stop words beside one word of a passage, and, each fourth, stop words alone."""
    chosen = random.Random(seed)
    asked: list[str] = []
    while len(asked) < number:
        words = [word for word in _WORD.findall(chosen.choice(passages).text) if len(word) > 4]
        if len(asked) % 4 == 3:
            asked.append(STOP_WORDS_ALONE[len(asked) // 4 % len(STOP_WORDS_ALONE)])
        elif words:
            asked.append(f"{chosen.choice(('The', 'what is', 'about the'))} {chosen.choice(words)}")
    return asked
