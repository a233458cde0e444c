"""Files and folders: which of them count, and what one of them says.

Here are the walk with its ignore rules, the safe reading of one file, and what a file's name tells.
Nothing here knows of passages or stores, and nothing here ever writes.

Every entry a walk meets ends in exactly one way: as a `Candidate`, as a `Skipped` with its reason,
or in one of the counts ``ignored`` (files of other types) and ``excluded`` (hidden or ruled out).
"""

import codecs
import errno
import fnmatch
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from plait.errors import SourceError
from plait.types import FILE_PATTERNS, MEMORY_TYPES, MemoryType

# Twice the longest text people keep as one file (a whole Bible is about 4.5 MB). A file is read
# whole and exists several times over until its passages are written, so the cap bounds the memory.
MAX_FILE_BYTES = 10 * 1024 * 1024
# Only our own ignore file counts, not .gitignore: notes and diaries beside code are often
# git-ignored on purpose, and they are exactly what a memory is for.
IGNORE_FILE = ".plaitignore"

# Bytes. No hand-written list of rules comes near; a larger file is something else.
_MAX_IGNORE_BYTES = 64 * 1024
# Machine-made folders that no one means, even when hidden folders are wanted.
_NEVER_ENTERED = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__"})
# What a virtual environment holds, whatever it is called: "env" may well be a folder of notes.
_ENVIRONMENT_MARKS = frozenset({"pyvenv.cfg", "conda-meta"})
# Bytes looked at for a NUL, as git and grep do: enough for every binary format with a header.
_SNIFFED_BYTES = 8 * 1024
# A file that changes under our eyes is read again once; one that never rests is reported.
_READ_ATTEMPTS = 2
# NONBLOCK: a pipe put in a file's place must not hold us. NOFOLLOW: neither must a link lead away.
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
# UTF-32 first: its little-endian mark begins with that of UTF-16.
_WIDE_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Windows' junctions are links to folders that lstat() shows as plain folders.
_JUNCTION_TAG = 0xA0000003


class NotText(SourceError):
    """The file can be read, but it is binary or in an unknown encoding."""


class Candidate(NamedTuple):
    """A file worth reading. ``key`` is its POSIX path below ``root``; times are milliseconds.

    ``ctime`` is when the system last saw it change, which no program can set back; ``target`` is
    the file to open where ``path`` is a link; ``max_bytes`` still holds when it has grown since.
    """

    path: str
    key: str
    root: str
    size: int
    mtime: int
    ctime: int = 0
    target: str = ""
    max_bytes: int = MAX_FILE_BYTES


class Skipped(NamedTuple):
    """A file, or a whole folder, that is left out although it seemed meant, and why."""

    path: str
    key: str
    reason: str
    folder: bool = False


class Content(NamedTuple):
    """What a file said: its text with plain newlines, and the stamp of its bytes."""

    text: str
    sha256: str
    size: int
    mtime: int


def source_root(path: str | os.PathLike[str]) -> str:
    """The absolute folder a path stands for: itself, or for a file the folder that holds it.

    Links are resolved, so that one folder reached by two names is one source.

    Raises:
        SourceError: The path is no path, or a loop of links.
    """
    place = Path(path)
    try:
        # A path that is gone stands for itself: its source may still be in a memory.
        names_file = place.exists() and not place.is_dir()
        return str((place.parent if names_file else place).resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise SourceError(f"Cannot use the path {_printable(str(path))}: {error}.") from error


def walk(
    path: str | os.PathLike[str],
    *,
    patterns: Sequence[str] = FILE_PATTERNS,
    max_bytes: int = MAX_FILE_BYTES,
    ignore_file: str | None = IGNORE_FILE,
    hidden: bool = False,
) -> "Walk":
    """Find the files of a folder, or the one file that is named, in an order that never varies.

    Args:
        path: A folder, or a file, which then counts whatever its name.
        patterns: Which files count, by name (``*.md``) or path (``diary/**/*.md``), in any case.
        max_bytes: Larger files are skipped.
        ignore_file: Name of the files that hold ignore rules, like git's; ``None`` for no rules.
        hidden: Whether names with a leading dot count.

    Raises:
        SourceError: There is no such file or folder, or the folder cannot be read.
    """
    shown = _printable(str(path)) or "''"
    try:
        # subtle: Path("") is the working folder, which nobody means by naming nothing.
        status = os.stat(path)  # noqa: PTH116
        if stat.S_ISDIR(status.st_mode):
            os.scandir(path).close()
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        raise SourceError(
            f"No such file or folder: {shown}. Check the spelling, or give the full path."
        ) from error
    except OSError as error:
        raise SourceError(
            f"Cannot read {shown}: {error.strerror}. Check its permissions."
        ) from error
    root = source_root(path)
    if _printable(root) != root:
        raise SourceError(f"Cannot use {shown}: its name is not valid UTF-8. Rename it first.")
    name = None if stat.S_ISDIR(status.st_mode) else Path(path).name
    # A lone string is a sequence too, of one-letter patterns.
    wanted = (patterns,) if isinstance(patterns, str) else patterns
    return Walk(root, name, wanted, max_bytes, ignore_file, hidden)


def named_file(path: str | os.PathLike[str], *, max_bytes: int = MAX_FILE_BYTES) -> Candidate:
    """The one file that a path names.

    Raises:
        SourceError: It is no file, or one that cannot be taken.
    """
    found = walk(path, max_bytes=max_bytes)
    if found.is_folder:
        raise SourceError(f"{path} is a folder. Index it with: plait ingest {path}")
    (only,) = found
    if isinstance(only, Skipped):
        raise SourceError(f"Cannot take {only.path}: {only.reason}.")
    return only


class Walk:
    """One pass over a source each time it is iterated: real files first, then links to files.

    When the pass has ended, ``ignored`` is the number of files of other types and ``excluded`` that
    of entries left out by name or rule; a folder left out counts once, with all it holds.
    """

    def __init__(
        self,
        root: str,
        name: str | None,
        patterns: Sequence[str],
        max_bytes: int,
        ignore_file: str | None,
        hidden: bool,
    ) -> None:
        """Take what `walk` has looked over; ``name`` is set when the source is a single file."""
        self.root = root
        self.ignored = 0
        self.excluded = 0
        self._name = name
        self._wanted = [rule for line in patterns if (rule := _rule(line.lower(), 0))]
        self._max_bytes = max_bytes
        self._ignore_file = ignore_file
        self._hidden = hidden
        self._closed: set[Path] = set()
        self._found: dict[tuple[int, int], str] = {}

    @property
    def is_folder(self) -> bool:
        """Whether the source is a folder rather than one named file."""
        return self._name is None

    def __iter__(self) -> Iterator[Candidate | Skipped]:
        """Walk depth first, by name within each folder."""
        self.ignored = self.excluded = 0
        self._closed, self._found = set(), {}
        if self._name is not None:
            yield self._named_file(self._name)
            return
        links: list[_Place] = []
        # A stack instead of recursion: the depth of a tree is its owner's choice, not Python's.
        stack = [_Place(Path(self.root))]
        while stack:
            place = stack.pop()
            try:
                status = place.path.lstat()
            except OSError as error:
                yield place.skipped(_reason(error))
                continue
            folder = stat.S_ISDIR(status.st_mode)
            if place.parts and self._rules_out(place, folder):
                self._exclude(place)
            elif _is_link(status):
                links.append(place)
            elif folder:
                yield from self._enter(place, stack)
            else:
                yield from self._file(place, status)
        # Links come last, so that a file found under its own name is never taken for its link.
        for place in links:
            yield from self._link(place)

    def _named_file(self, name: str) -> Candidate | Skipped:
        place = _Place(Path(self.root, name), (name,))
        try:
            # Whoever names a link means what it leads to, wherever that is.
            target = place.path.resolve()
            return self._judge(place, target.stat(), target)
        except (OSError, RuntimeError) as error:
            return place.skipped(_reason(error))

    def _rules_out(self, place: "_Place", folder: bool) -> bool:
        name = place.parts[-1]
        if (folder and name in _NEVER_ENTERED) or (name.startswith(".") and not self._hidden):
            return True
        verdict = False
        for rule in place.rules:
            # The last rule that fits decides; one that would change nothing need not be tried.
            if rule.negated == verdict and rule.fits(place.parts, folder):
                verdict = not rule.negated
        return verdict

    def _exclude(self, place: "_Place") -> None:
        self.excluded += 1
        self._closed.add(place.path)

    def _enter(self, place: "_Place", stack: "list[_Place]") -> Iterator[Skipped]:
        if not place.is_printable:
            yield place.skipped("its name is not valid UTF-8; rename it", folder=True)
            return
        try:
            with os.scandir(place.path) as entries:
                names = sorted(entry.name for entry in entries)
        except OSError as error:
            yield place.skipped(_reason(error), folder=True)
            return
        if place.parts and not _ENVIRONMENT_MARKS.isdisjoint(names):
            self._exclude(place)
            return
        try:
            rules = place.rules + self._rules_of(place, names)
        except (OSError, SourceError) as error:
            # Better to read nothing here than what the unread rules would have kept private.
            self._closed.add(place.path)
            reason = _reason(error) if isinstance(error, OSError) else str(error)
            yield place.skipped(f"its {self._ignore_file} is no use: {reason}", folder=True)
            return
        stack.extend(
            _Place(place.path / name, (*place.parts, name), rules) for name in reversed(names)
        )

    def _rules_of(self, place: "_Place", names: list[str]) -> "tuple[_Rule, ...]":
        if self._ignore_file is None or self._ignore_file not in names:
            return ()
        data, _ = _read_bytes(str(place.path / self._ignore_file), _MAX_IGNORE_BYTES, _OPEN_FLAGS)
        depth = len(place.parts)
        return tuple(
            rule
            for line in _decode(data).split("\n")
            if not line.startswith("#") and (rule := _rule(line, depth))
        )

    def _file(self, place: "_Place", status: os.stat_result) -> Iterator[Candidate | Skipped]:
        if not self.wants(place.key):
            self.ignored += 1
            return
        outcome = self._judge(place, status, place.path)
        if isinstance(outcome, Candidate):
            self._found[status.st_dev, status.st_ino] = outcome.key
        yield outcome

    def _link(self, place: "_Place") -> Iterator[Candidate | Skipped]:
        try:
            status = place.path.stat()
            target = place.path.resolve()
        except (OSError, RuntimeError) as error:
            if self.wants(place.key):
                yield place.skipped(_link_reason(error))
            else:
                self.ignored += 1
            return
        known = self._found.get((status.st_dev, status.st_ino))
        if stat.S_ISDIR(status.st_mode):
            yield place.skipped("a link to a folder; links to folders are not followed")
        elif not self.wants(place.key):
            self.ignored += 1
        elif not target.is_relative_to(self.root):
            yield place.skipped("a link that leads out of the folder")
        elif not self._closed.isdisjoint((target, *target.parents)):
            yield place.skipped("a link to a hidden or ignored file")
        elif known is not None:
            yield place.skipped(f"a link to {known}, which is read under its own name")
        else:
            outcome = self._judge(place, status, target)
            if isinstance(outcome, Candidate):
                self._found[status.st_dev, status.st_ino] = outcome.key
            yield outcome

    def wants(self, key: str) -> bool:
        """Whether a file of this name would count, going by the patterns alone."""
        # README.MD and NOTES.TXT are meant by *.md and *.txt.
        parts = tuple(key.lower().split("/"))
        return any(rule.fits(parts, folder=False) for rule in self._wanted)

    def _judge(self, place: "_Place", status: os.stat_result, target: Path) -> Candidate | Skipped:
        if not place.is_printable:
            return place.skipped("its name is not valid UTF-8; rename it")
        if refusal := _refusal(status, self._max_bytes):
            return place.skipped(refusal)
        return Candidate(
            path=str(place.path),
            key=place.key,
            root=self.root,
            size=status.st_size,
            mtime=_milliseconds(status.st_mtime_ns),
            ctime=_milliseconds(status.st_ctime_ns),
            target=str(target),
            max_bytes=self._max_bytes,
        )


class _Place(NamedTuple):
    """Somewhere in the tree: ``parts`` are its names below the root, ``rules`` those in force."""

    path: Path
    parts: tuple[str, ...] = ()
    rules: "tuple[_Rule, ...]" = ()

    @property
    def key(self) -> str:
        return "/".join(self.parts) or "."

    @property
    def is_printable(self) -> bool:
        return not self.parts or _printable(self.parts[-1]) == self.parts[-1]

    def skipped(self, reason: str, *, folder: bool = False) -> Skipped:
        return Skipped(_printable(str(self.path)), _printable(self.key), reason, folder)


class _Rule(NamedTuple):
    """One line of an ignore file that lies ``depth`` folders below the root; ``None`` is ``**``."""

    depth: int
    segments: tuple[re.Pattern[str] | None, ...]
    negated: bool
    folders_only: bool

    def fits(self, parts: tuple[str, ...], folder: bool) -> bool:
        """Whether the rule speaks of this path; its parents are known not to be ruled out."""
        if self.folders_only and not folder:
            return False
        first, last = self.segments[0], self.segments[-1]
        if len(self.segments) == 2 and first is None and last is not None:
            # Nearly every rule is a bare name: no need to step through the whole path.
            return last.match(parts[-1]) is not None
        # Every position in the rule that the path so far can have reached: never exponential.
        reached = self._past_stars({0})
        end = len(self.segments)
        for part in parts[self.depth :]:
            moved = set()
            for place in reached - {end}:
                segment = self.segments[place]
                if segment is None:
                    moved.add(place)
                elif segment.match(part):
                    moved.add(place + 1)
            reached = self._past_stars(moved)
        return end in reached

    def _past_stars(self, reached: set[int]) -> set[int]:
        for place, segment in enumerate(self.segments):
            if segment is None and place in reached:
                reached.add(place + 1)
        return reached


def _rule(line: str, depth: int) -> _Rule | None:
    """Read one line the way git does: https://git-scm.com/docs/gitignore#_pattern_format."""
    text = line.rstrip()
    if text.endswith("\\") and text != line:
        text += " "
    negated = text.startswith("!")
    text = text[negated:]
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    names = [name for name in text.split("/") if name]
    if not names:
        return None
    if "/" not in text:
        names.insert(0, "**")
    if names[-1] == "**":
        # What lies inside a folder is meant, not the folder itself.
        names.append("*")
    segments = tuple(None if name == "**" else _segment(name) for name in names)
    return _Rule(depth, segments, negated, folders_only)


def _segment(name: str) -> re.Pattern[str]:
    # fnmatch knows no backslash and writes [!a] where git also writes [^a].
    plain = re.sub(r"\\(.)", lambda match: _literal(match[1]), name.replace("[^", "[!"))
    return re.compile(fnmatch.translate(plain))


def _literal(character: str) -> str:
    return f"[{character}]" if character in "*?[" else character


def read(candidate: Candidate) -> Content:
    r"""Read one file whole, as text, without ever waiting for it or following it elsewhere.

    Newlines become ``\n``: line numbers then agree with every editor, and a file that only changed
    its line ends keeps its passages. The hash is over the bytes as they are.

    Raises:
        NotText: The file is binary or in an unknown encoding; the message is the reason.
        SourceError: It is gone, unreadable, too large, or changed while it was read; likewise.
    """
    try:
        path = candidate.target or candidate.path
        data, status = _read_bytes(path, candidate.max_bytes, _OPEN_FLAGS | _NO_FOLLOW)
    except OSError as error:
        raise SourceError(_reason(error)) from error
    return Content(
        text=_decode(data),
        sha256=sha256(data).hexdigest(),
        size=len(data),
        mtime=_milliseconds(status.st_mtime_ns),
    )


def _read_bytes(path: str, max_bytes: int, flags: int) -> tuple[bytes, os.stat_result]:
    """The bytes of an ordinary file at one moment, and its status at that moment."""
    rested = True
    for _ in range(_READ_ATTEMPTS):
        with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as file:
            before = os.fstat(file.fileno())
            if refusal := _refusal(before, max_bytes):
                raise SourceError(refusal)
            # One byte more than promised shows a file that grew; None comes from odd devices.
            data = file.read(before.st_size + 1) or b""
            after = os.fstat(file.fileno())
        rested = _stamp(before) == _stamp(after)
        if rested and len(data) == before.st_size:
            return data, after
    if rested:
        raise SourceError("holds more or less than its size says, as files of the system do")
    raise SourceError("changed while it was read; ingest it again when it is at rest")


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _decode(data: bytes) -> str:
    encoding = next((name for mark, name in _WIDE_MARKS if data.startswith(mark)), "utf-8")
    if encoding == "utf-8" and b"\0" in data[:_SNIFFED_BYTES]:
        raise NotText("binary, not text")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise NotText(
            f"not {encoding.upper()} text: byte 0x{data[error.start]:02X} at offset"
            f" {error.start:,} (line {line:,}); convert it to UTF-8"
        ) from error
    # A stray NUL far inside would end the text early for whoever reads it as a C string.
    text = text.removeprefix("\ufeff").replace("\0", "\ufffd")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _refusal(status: os.stat_result, max_bytes: int) -> str:
    """Why a file of this status must not be read; empty when it may."""
    mode = status.st_mode
    if stat.S_ISREG(mode):
        if status.st_size <= max_bytes:
            return ""
        return f"too large: {_amount(status.st_size)}, limit {_amount(max_bytes)}"
    if stat.S_ISFIFO(mode):
        return "a pipe, not a file"
    if stat.S_ISSOCK(mode):
        return "a socket, not a file"
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        return "a device, not a file"
    return "not an ordinary file"


def _amount(size: int) -> str:
    """``12.3 MB``, rounded up, so that a size past the limit never looks equal to it."""
    unit, name = 1, "bytes"
    for name in ("bytes", "KB", "MB", "GB", "TB"):
        if size < unit * 1024 or name == "TB":
            break
        unit *= 1024
    return f"{-(-size * 10 // unit) / 10:g} {name}"


def _reason(error: OSError | RuntimeError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "vanished since the folder was listed"
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "a link took its place since the folder was listed"
    return f"unreadable: {getattr(error, 'strerror', None) or error}"


def _link_reason(error: OSError | RuntimeError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "a dangling link: what it leads to does not exist"
    if isinstance(error, RuntimeError) or error.errno == errno.ELOOP:
        return "symbolic link loop"
    return _reason(error)


def _is_link(status: os.stat_result) -> bool:
    junction: bool = getattr(status, "st_reparse_tag", 0) == _JUNCTION_TAG
    return junction or stat.S_ISLNK(status.st_mode)


def _milliseconds(nanoseconds: int) -> int:
    return nanoseconds // 1_000_000


def _printable(name: str) -> str:
    r"""A name that any output can carry; bytes that are not UTF-8 show as ``\xff``."""
    return re.sub("[\ud800-\udfff]", lambda match: f"\\x{ord(match[0]) & 0xFF:02x}", name)


def title_from_name(key: str) -> str:
    """A title made of a file's name, for a text that gives none itself.

    >>> title_from_name("ops/rotate-ssh_keys.md"), title_from_name("2026-03-01-outage.md")
    ('rotate ssh keys', '2026-03-01 outage')
    """
    name = PurePosixPath(key).name
    stem, dot, suffix = name.rpartition(".")
    if dot and stem and not suffix.isdigit():
        name = stem
    # Between digits the sign belongs to a date or a version.
    title = re.sub(r"(?<!\d)[-_\s]+|[-_\s]+(?!\d)", " ", name).strip()
    return title or PurePosixPath(key).name


def day_in_name(key: str) -> str | None:
    """The day that a file's name begins with.

    >>> day_in_name("diary/2026-03-01-outage.md"), day_in_name("notes.md")
    ('2026-03-01', None)
    """
    found = _DATED.match(PurePosixPath(key).name)
    return found[0] if found else None


_TYPE_OF_NAME: dict[str, MemoryType] = {
    "tools": "procedural", "agents": "procedural", "procedural": "procedural",
    "memory": "semantic",
}  # fmt: skip
_TYPE_OF_FOLDER: dict[str, MemoryType] = {
    "diary": "episodic", "journal": "episodic", "session": "episodic", "log": "episodic",
    "runbook": "procedural", "how-to": "procedural", "howto": "procedural",
    "procedure": "procedural", "playbook": "procedural",
    "decision": "semantic", "fact": "semantic", "people": "semantic",
}  # fmt: skip
_DATED = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?!\d)")
_TELLING_WORD = re.compile(
    r"(?:^|-)(runbook|how-to|howto|procedure|playbook|decision|fact|people)s?(?=-|$)"
)


def memory_type_for(key: str, values: Mapping[str, object]) -> MemoryType | None:
    """The memory type of a file: what its front matter says, else what name and folders suggest.

    The nearest folder speaks before a date: ``decisions/2026-03-01-sqlite.md`` is a decision.

    >>> memory_type_for("diary/2026-03-01.md", {}), memory_type_for("TOOLS.md", {})
    ('episodic', 'procedural')
    """
    said = str(values.get("memory_type", "")).strip().lower()
    for memory_type in MEMORY_TYPES:
        if said == memory_type:
            return memory_type
    *folders, name = [re.sub(r"[\s_]+", "-", part.lower()) for part in key.split("/")]
    stem = PurePosixPath(name).stem
    if stem in _TYPE_OF_NAME:
        return _TYPE_OF_NAME[stem]
    for folder in reversed(folders):
        found = _TYPE_OF_FOLDER.get(folder) or _TYPE_OF_FOLDER.get(folder.removesuffix("s"))
        if found:
            return found
    if _DATED.match(stem):
        return "episodic"
    word = _TELLING_WORD.search(stem)
    return _TYPE_OF_FOLDER[word[1]] if word else None
