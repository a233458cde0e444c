"""Find the files of a source, and read one of them.

A source is a folder or a single file. This module walks it and reads files safely; it never writes.
The ignore rules are in `ignoring`, the reasons for leaving a file out in `refusals`, and what a
file's name means in `filenames`. Passages and stores belong elsewhere.

A walk yields each file as a `SourceFile`, or as a `Skipped` with the reason. It counts files of
other types. It does not report hidden and ignored entries.
"""

import os
import re
import stat
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from plait.errors import SourceError, advise, lacks_descriptors, too_many_files
from plait.types import FILE_PATTERNS
from plait.types.records import NamedTuple
from plait.writing import refusals
from plait.writing.file_types import check_patterns, ending_of, expanded
from plait.writing.formats import converted
from plait.writing.formats.encodings import decoded
from plait.writing.ignoring import (
    MAX_RULES,
    MAX_RULES_OF_A_SOURCE,
    IgnoreRule,
    is_ignored,
    parse_ignore_file,
    parse_rule,
)
from plait.writing.opening import open_inside

# Twice the longest text that people keep in one file (a whole Bible is about 4.5 MB). A file is
# read whole, and several copies exist until its passages are written: the limit bounds the memory.
MAX_SOURCE_BYTES = 10 * 1024 * 1024
# .gitignore does not count: people often hide notes and diaries next to their code from git, and a
# memory should read them.
IGNORE_FILE = ".plaitignore"

# Bytes. No list of rules written by hand is as long; a larger file is something else.
_MAX_IGNORE_BYTES = 64 * 1024
# Folders made by machines, left out even when hidden folders count.
_NEVER_ENTERED = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__"})
# A virtual environment is recognised by its content: "env" may be a folder of notes.
_ENVIRONMENT_MARKS = frozenset({"pyvenv.cfg", "conda-meta"})
# A file changed within this time of its last indexing may have kept its time stamp.
RACY_MS = 2_000
# A file that changes during the read is read once more. If it changes again, the read fails.
_READ_ATTEMPTS = 2
# NONBLOCK: do not wait for a pipe that has replaced a file.
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
# Windows' junctions are links to folders, but lstat() shows them as folders.
_JUNCTION_TAG = 0xA0000003


class SourceFile(NamedTuple):
    """A file to read. ``key`` is its POSIX path below ``root``; times are in milliseconds.

    ``ctime`` is when the system last saw it change; no program can set it back. ``target`` is the
    file to open if ``path`` is a link. ``max_bytes`` still applies if the file grows later.
    """

    path: str
    key: str
    root: str
    size: int
    mtime: int
    ctime: int = 0
    target: str = ""
    max_bytes: int = MAX_SOURCE_BYTES

    def is_untouched_since(self, moment: int) -> bool:
        """Tell by its times alone; false if they are so close that it may have kept them."""
        return max(self.mtime, self.ctime) + RACY_MS < moment


class Skipped(NamedTuple):
    """A file, folder or link that should have counted but was left out, and the reason."""

    path: str
    key: str
    reason: str
    folder: bool = False
    link: bool = False


class Content(NamedTuple):
    r"""The text of a file, with ``\n`` as its line ends, and the hash and status of its bytes.

    ``lines``, ``title`` and ``remark`` are those of `Converted`.
    """

    text: str
    sha256: str
    size: int
    mtime: int
    lines: tuple[int, ...] = ()
    title: str = ""
    remark: str = ""


def source_root(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a folder, or of the folder that contains a file.

    Links are resolved, so that a folder with two names is one source.

    Raises:
        SourceError: The path is invalid or a loop of links.
    """
    place = Path(path)
    try:
        # A path that no longer exists counts as a folder: its source may still be in a memory.
        names_file = place.exists() and not place.is_dir()
        return str((place.parent if names_file else place).resolve())
    except (OSError, RuntimeError, ValueError) as error:
        shown = _printable(str(path))
        raise SourceError(
            f"Cannot use the path {shown}: {error}.", code="bad_path", subject=shown
        ) from error


def walk(
    path: str | os.PathLike[str],
    *,
    patterns: Sequence[str] = FILE_PATTERNS,
    max_bytes: int = MAX_SOURCE_BYTES,
    ignore_file: str | None = IGNORE_FILE,
    hidden: bool = False,
    gone: bool = False,
) -> "Walk":
    """Return a walk over the files of a folder, or over one named file. Its order never varies.

    Args:
        path: A folder or a file. A named file counts whatever its name.
        patterns: Which files count: by name (``*.md``) or path (``diary/**/*.md``), in any case, or
            by a word for several of them (``code``).
        max_bytes: Larger files are skipped.
        ignore_file: The name of files with ignore rules, as in git; ``None`` for no rules.
        hidden: Whether names with a leading dot count.
        gone: It is a folder that no longer exists, and has no files.

    Raises:
        SourceError: There is no such file or folder, or the folder cannot be read.
        UsageError: A pattern is a typing error.
    """
    shown = _printable(str(path)) or "''"
    # A single string is a sequence too, of one-letter patterns.
    wanted = expanded(check_patterns((patterns,) if isinstance(patterns, str) else tuple(patterns)))
    if gone:
        return Walk(source_root(path), None, wanted, max_bytes, ignore_file, hidden, gone=True)
    try:
        # subtle: Path("") is the working folder, but an empty name does not mean that.
        status = os.stat(path)  # noqa: PTH116
        if stat.S_ISDIR(status.st_mode):
            os.scandir(path).close()
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        raise SourceError(
            f"No such file or folder: {shown}. Check the spelling, or give the full path.",
            code="no_such_source",
            subject=shown,
        ) from error
    except OSError as error:
        if lacks_descriptors(error):
            raise too_many_files(shown) from error
        raise SourceError(
            f"Cannot read {shown}: {error.strerror}. Check its permissions.",
            code="unreadable_source",
            subject=shown,
        ) from error
    root = source_root(path)
    if _printable(root) != root:
        raise SourceError(
            f"Cannot use {shown}: its name is not valid UTF-8. Rename it first.",
            code="name_not_utf8",
            subject=shown,
        )
    name = None if stat.S_ISDIR(status.st_mode) else Path(path).name
    files = Walk(root, name, wanted, max_bytes, ignore_file, hidden)
    given = os.path.abspath(path)  # noqa: PTH100
    if name is None and given != root and _printable(given) == given:
        files.alias = given
    return files


def named_file(path: str | os.PathLike[str], *, max_bytes: int = MAX_SOURCE_BYTES) -> SourceFile:
    """Return the file at a path.

    Raises:
        SourceError: There is no such file, it is a folder, or it cannot be read.
    """
    files = walk(path, max_bytes=max_bytes)
    if files.is_folder:
        shown = _printable(str(path))
        raise SourceError(
            f"{shown} is a folder.",
            code="is_folder",
            subject=shown,
            advice=advise("ingest", path=str(path)),
        )
    (file,) = files
    if isinstance(file, Skipped):
        raise refusals.unread(file.path, file.reason)
    return file


class Walk:
    """The files of a source. Each iteration walks it again: files first, then links to files.

    After an iteration, ``ignored_types`` counts the files of other types by their endings.
    """

    def __init__(
        self,
        root: str,
        name: str | None,
        patterns: Sequence[str],
        max_bytes: int,
        ignore_file: str | None,
        hidden: bool,
        *,
        gone: bool = False,
    ) -> None:
        """Take the arguments that `walk` has checked; ``name`` is set if the source is one file."""
        self.root = root
        self.ignored_types: Counter[str] = Counter()
        self._name = name
        self._wanted = [rule for line in patterns if (rule := parse_rule(line.lower(), 0))]
        self._max_bytes = max_bytes
        self._ignore_file = ignore_file
        self._hidden = hidden
        self._gone = gone
        self.alias = ""  # the path of a folder as it was given, if it leads there through a link
        self.dangling: list[Skipped] = []  # of other types: perhaps folders on a missing disk
        # Files of other types that are documents already: they are read again.
        self.known: Collection[str] = frozenset()
        # Files and folders that no link may lead into.
        self._off_limits: set[Path] = set()
        self._rules_read = 0
        # The key of each file by its device and inode.
        self._keys: dict[tuple[int, int], str] = {}

    @property
    def ignored(self) -> int:
        """How many files of other types the last iteration passed over."""
        return self.ignored_types.total()

    @property
    def is_folder(self) -> bool:
        """Whether the source is a folder rather than one named file."""
        return self._name is None

    def __iter__(self) -> Iterator[SourceFile | Skipped]:
        """Walk depth first, by name within each folder."""
        self.ignored_types.clear()
        self.dangling.clear()
        self._off_limits, self._keys, self._rules_read = set(), {}, 0
        if self._name is not None:
            yield self._named_file(self._name)
            return
        links: list[_Place] = []
        # A stack instead of recursion: a tree may be deeper than Python's recursion limit.
        stack = [] if self._gone else [_Place(Path(self.root))]
        while stack:
            place = stack.pop()
            try:
                status = place.path.lstat()
            except OSError as error:
                yield place.skipped(refusals.error_reason(error))
                continue
            folder = stat.S_ISDIR(status.st_mode)
            if place.parts and self._is_left_out(place, folder):
                self._off_limits.add(place.path)
            elif _is_link(status):
                links.append(place)
            elif folder:
                yield from self._enter(place, stack)
            else:
                yield from self._file(place, status)
        # Links come last, so that a file is listed under its own name and not under a link's.
        for place in links:
            for entry in self._link(place):
                yield entry._replace(link=True) if isinstance(entry, Skipped) else entry

    def wants(self, key: str) -> bool:
        """Return whether the patterns match a file's key."""
        # The patterns *.md and *.txt also match README.MD and NOTES.TXT.
        parts = tuple(key.lower().split("/"))
        return any(rule.matches(parts, folder=False) for rule in self._wanted)

    def _counts(self, place: "_Place") -> bool:
        return self.wants(place.key) or str(place.path) in self.known

    def _named_file(self, name: str) -> SourceFile | Skipped:
        place = _Place(Path(self.root, name), (name,))
        try:
            # A named link stands for its target, wherever that is.
            target = place.path.resolve()
            return self._judge(place, target.stat(), target)
        except (OSError, RuntimeError) as error:
            return place.skipped(refusals.error_reason(error))

    def _is_left_out(self, place: "_Place", folder: bool) -> bool:
        name = place.parts[-1]
        if (folder and name in _NEVER_ENTERED) or (name.startswith(".") and not self._hidden):
            return True
        return is_ignored(place.rules, place.parts, folder)

    def _enter(self, place: "_Place", stack: "list[_Place]") -> Iterator[Skipped]:
        if not place.is_printable:
            yield place.skipped(refusals.NAME_NOT_UTF8, folder=True)
            return
        try:
            with os.scandir(place.path) as entries:
                names = sorted(entry.name for entry in entries)
        except OSError as error:
            yield place.skipped(refusals.error_reason(error), folder=True)
            return
        if place.parts and not _ENVIRONMENT_MARKS.isdisjoint(names):
            self._off_limits.add(place.path)
            return
        try:
            rules = place.rules + self._rules_of(place, names)
        except (OSError, SourceError) as error:
            # The rules that cannot be read may keep files private, so no file here is read.
            self._off_limits.add(place.path)
            reason = (
                refusals.error_reason(error) if isinstance(error, OSError) else error.notice.text
            )
            yield place.skipped(f"its {self._ignore_file} cannot be used: {reason}", folder=True)
            return
        stack.extend(
            _Place(place.path / name, (*place.parts, name), rules) for name in reversed(names)
        )

    def _rules_of(self, place: "_Place", names: list[str]) -> tuple[IgnoreRule, ...]:
        if self._ignore_file is None or self._ignore_file not in names:
            return ()
        path = str(place.path / self._ignore_file)
        data, _ = _read_bytes(path, _MAX_IGNORE_BYTES, subject=path)
        most = min(MAX_RULES - len(place.rules), MAX_RULES_OF_A_SOURCE - self._rules_read)
        rules = parse_ignore_file(decoded(data, path, strict=True).text, len(place.parts), most)
        self._rules_read += len(rules)
        return rules

    def _file(self, place: "_Place", status: os.stat_result) -> Iterator[SourceFile | Skipped]:
        if self._counts(place):
            yield self._list(place, status, place.path)
        else:
            self.ignored_types[ending_of(place.key)] += 1

    def _link(self, place: "_Place") -> Iterator[SourceFile | Skipped]:
        try:
            status = place.path.stat()
            target = place.path.resolve()
        except (OSError, RuntimeError) as error:
            dangling = place.skipped(refusals.link_error_reason(error))
            if self._counts(place):
                yield dangling
            else:
                self.dangling.append(dangling._replace(link=True))
                self.ignored_types[ending_of(place.key)] += 1
            return
        listed = self._keys.get((status.st_dev, status.st_ino))
        if stat.S_ISDIR(status.st_mode):
            yield place.skipped(refusals.LINK_TO_FOLDER)
        elif not self._counts(place):
            self.ignored_types[ending_of(place.key)] += 1
        elif not target.is_relative_to(self.root):
            yield place.skipped(refusals.LINK_LEADS_OUT)
        elif not self._off_limits.isdisjoint((target, *target.parents)):
            yield place.skipped(refusals.LINK_TO_IGNORED)
        elif listed is not None:
            yield place.skipped(f"a link to {listed}, which is read under its own name")
        else:
            yield self._list(place, status, target)

    def _list(self, place: "_Place", status: os.stat_result, target: Path) -> SourceFile | Skipped:
        """Judge a file, and remember it so that a later link to it is skipped."""
        outcome = self._judge(place, status, target)
        if isinstance(outcome, SourceFile):
            self._keys[status.st_dev, status.st_ino] = outcome.key
        return outcome

    def _judge(self, place: "_Place", status: os.stat_result, target: Path) -> SourceFile | Skipped:
        if not place.is_printable:
            return place.skipped(refusals.NAME_NOT_UTF8)
        if refusal := refusals.refusal_of(status, self._max_bytes):
            return place.skipped(refusal.reason)
        return SourceFile(
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
    """An entry of the tree: its names below the root, and the ignore rules that apply to it."""

    path: Path
    parts: tuple[str, ...] = ()
    rules: tuple[IgnoreRule, ...] = ()

    @property
    def key(self) -> str:
        return "/".join(self.parts) or "."

    @property
    def is_printable(self) -> bool:
        return not self.parts or _printable(self.parts[-1]) == self.parts[-1]

    def skipped(self, reason: str, *, folder: bool = False) -> Skipped:
        return Skipped(_printable(str(self.path)), _printable(self.key), reason, folder)


def read_file(file: SourceFile) -> Content:
    r"""Read a file whole, as text, without waiting for a pipe or following a link elsewhere.

    Line ends become ``\n``: line numbers then agree with every editor, and a file keeps its
    passages when only its line ends change. The hash is that of the bytes on the disk.

    Raises:
        NotText: The file is binary, in an unknown encoding or not of the format that its name says.
            The message is the reason.
        SourceError: The file is gone, unreadable or too large, or it changed during the read. The
            message is the reason.
    """
    data, status = _file_bytes(file)
    text, lines, title, remark = converted(data, file.path, file.max_bytes)
    hashed, changed_at = sha256(data).hexdigest(), _milliseconds(status.st_mtime_ns)
    return Content(text, hashed, len(data), changed_at, lines, title, remark)


def hash_file(file: SourceFile) -> str:
    """Return the hash of a file's bytes, whatever they are.

    Raises:
        SourceError: As for `read_file`.
    """
    return sha256(_file_bytes(file)[0]).hexdigest()


def _file_bytes(file: SourceFile) -> tuple[bytes, os.stat_result]:
    try:
        return _read_bytes(
            file.target or file.path, file.max_bytes, inside=file.root, subject=file.path
        )
    except OSError as error:
        reason = refusals.error_reason(error)
        raise SourceError(reason, code="unreadable_source", subject=file.path) from error


def _read_bytes(
    path: str, max_bytes: int, *, inside: str = "", subject: str
) -> tuple[bytes, os.stat_result]:
    """Return the bytes of a regular file at one moment, and its status at that moment.

    With ``inside``, a folder, no link below it is followed.
    """
    unchanged = True
    for _ in range(_READ_ATTEMPTS):
        with open_inside(path, inside, _OPEN_FLAGS) as file:
            before = os.fstat(file.fileno())
            if refusal := refusals.refusal_of(before, max_bytes):
                raise SourceError(refusal.reason, code=refusal.code, subject=subject)
            # One more byte than the size shows whether the file grew. Some devices return None.
            data = file.read(before.st_size + 1) or b""
            after = os.fstat(file.fileno())
        unchanged = _stamp(before) == _stamp(after)
        if unchanged and len(data) == before.st_size:
            return data, after
    if unchanged:
        raise SourceError(refusals.WRONG_SIZE, code="wrong_size", subject=subject)
    raise SourceError(refusals.CHANGED_DURING_READ, code="changed_during_read", subject=subject)


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _is_link(status: os.stat_result) -> bool:
    junction: bool = getattr(status, "st_reparse_tag", 0) == _JUNCTION_TAG
    return junction or stat.S_ISLNK(status.st_mode)


def _milliseconds(nanoseconds: int) -> int:
    return nanoseconds // 1_000_000


def _printable(name: str) -> str:
    r"""Return a name that can be printed; bytes that are not UTF-8 become ``\xff``."""
    return re.sub("[\ud800-\udfff]", lambda match: f"\\x{ord(match[0]) & 0xFF:02x}", name)
