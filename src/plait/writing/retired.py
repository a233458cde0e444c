"""Files that a rule has removed from the memory: their folder's next run leaves them out.

A mark is kept of each until a document has its path again, or its folder is read without it. Marks
are keyed hashes, like those of the audit log: paths and contents may be secret.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import PurePath
from typing import TYPE_CHECKING

from plait.errors import SourceError
from plait.protocols import State, Store
from plait.types import Document
from plait.types.ids import SCOPE_PREFIX, new_id
from plait.types.records import NamedTuple
from plait.writing.file_types import ending_of

if TYPE_CHECKING:  # a store that reads no file does not load it
    from plait.writing.sources import SourceFile

# What stands before the hash of a path where its mark is kept.
RETIRED = "history:retired:"
_KEY_LETTERS = 26  # 130 random bits
_MOST_KEY_BYTES = 64  # that the hash takes; a file may come from anywhere
_HASH_BYTES = 10
_MOST_DIGITS = 18  # of a time in milliseconds


class _Mark(NamedTuple):
    """What is kept of a file, all but the last as hashes.

    ``times`` are its size and time. ``source`` is the folder that it was read from. ``read_at`` is
    when, in milliseconds; marks of older versions do not tell.
    """

    project: str
    source: str
    ending: str
    times: str
    content: str
    read_at: str = "0"


def marks_of(state: State, rows: Iterable[Document]) -> dict[str, str | None]:
    """Return what to remember of documents that a rule deletes; nothing of those that are no files.

    A user's scope remembers nothing: there, files that still exist come back.
    """
    files = [row for row in rows if _may_be_marked(row)]
    key = state.retired or new_id(_KEY_LETTERS)
    marks: dict[str, str | None] = {
        _name(key, row.path): " ".join(
            _Mark(
                project=_hash(key, row.project),
                source=_hash(key, row.source),
                ending=_hash(key, ending_of(row.path or "")),
                times=_hash(key, row.size, row.mtime),
                content=_hash(key, row.sha256),
                read_at=str(max(0, row.indexed_at)),
            )
        )
        for row in files
    }
    return {**marks, "retired": key} if files and state.retired is None else marks


def unmarked(state: State, *rows: Document | None) -> dict[str, str | None]:
    """Return what to remember where documents are written, or move: their paths have no mark."""
    key = state.retired
    if key is None:
        return {}
    return {_name(key, row.path): None for row in rows if row is not None and _may_be_marked(row)}


def unmarked_contents(
    store: Store, state: State, rows: Iterable[Document]
) -> dict[str, str | None]:
    """Return what to remember where files are purged: no mark has their bytes, whatever its path.

    A removed file that was renamed since has its mark under a name that no document tells.
    """
    key = state.retired
    if key is None:
        return {}
    contents = {_hash(key, row.sha256) for row in rows if _may_be_marked(row)}
    marks = store.remembered(RETIRED) if contents else {}
    return {
        name: None
        for name, value in marks.items()
        if (mark := _mark_of(value)) is not None and mark.content in contents
    }


def unmarked_copies(
    store: Store, state: State, rows: Iterable[Document], others: Iterable[Document]
) -> dict[str, str | None]:
    """Return what to remember where files come back: they do under another name, too.

    Unless one of the ``others``, which stay away, has that name.
    """
    marks = unmarked_contents(store, state, rows)
    # Whoever restores a whole trash asks in each of its slices: only few have a mark.
    stay = unmarked(state, *others).keys() if marks else ()
    return {name: None for name in marks.keys() - stay}


class Retired:
    """The marks of a memory, for one run over a folder.

    A mark holds in the project that the file was removed from. Where nobody chose a project, as on
    a schedule, it also holds for the folder that the file was read from.
    """

    def __init__(
        self, store: Store, state: State, root: str, project: str | None, *, chosen: bool
    ) -> None:
        self._key = state.retired or ""
        self._marks: dict[str, _Mark] = {}
        for name, value in store.remembered(RETIRED).items() if state.retired else ():
            mark = _mark_of(value)
            if mark is not None:
                self._marks[name] = mark
        self._removed = {(mark.source, mark.content) for mark in self._marks.values()}
        self._project, self._chosen = self._hashed(project), chosen
        # The folder that is read, and those that it is inside of: one of them may be the source.
        folders = [root, *map(str, PurePath(root).parents)] if self._marks else []
        self._folders = {self._hashed(folder): folder for folder in folders}
        self.followed: list[str] = []  # names of marks whose files `renamed` has found

    def has(self, file: "SourceFile", *, incremental: bool) -> bool:
        """Tell whether a rule has removed a file, and it still holds the same bytes.

        ``incremental``: its size and times are enough if they tell that nothing was written to it
        since it was read. Otherwise it is read again: a copy may keep the time, and a checkout give
        it another.
        """
        mark = self._marks.get(_name(self._key, file.path)) if self._marks else None
        if mark is None or not self._holds(mark, file):
            return False
        if (
            incremental
            and mark.times == self._hashed(file.size, file.mtime)
            and file.is_untouched_since(int(mark.read_at))
        ):
            return True
        return mark.content == self._content(file)

    def _holds(self, mark: _Mark, file: "SourceFile") -> bool:
        """Tell whether a mark is about files of this run."""
        same_folder = mark.source in self._folders or mark.source == self._hashed(file.root)
        return mark.project == self._project or (same_folder and not self._chosen)

    def _content(self, file: "SourceFile") -> str | None:
        from plait.writing.sources import hash_file

        try:
            return self._hashed(hash_file(file))
        except SourceError:
            return None  # whoever reads it will tell why

    def covers(self, row: Document) -> bool:
        """Tell whether a rule removed the file of a document from this folder, or one around it.

        By its bytes: it may have been renamed there more than once.
        """
        content = self._hashed(row.sha256) if self._removed else ""
        return any((source, content) in self._removed for source in self._folders)

    def renamed(
        self, gone: Iterable[str], newcomers: Iterable["SourceFile"]
    ) -> dict["SourceFile", str]:
        """Return new files that hold the bytes of removed ones that are gone, with their marks.

        ``gone`` are the names of these marks, of the folder that is read; those of folders around
        it are looked for. Each is the mark of one file at most, best of one with the same time: a
        copy beside it is a new file. Their next runs read them again, because a rename is a change
        to the system.
        """
        newcomers = list(newcomers)
        left: dict[str, list[str]] = {}
        for mark_name in (*gone, *self._gone_around(newcomers)):
            left.setdefault(self._marks[mark_name].content, []).append(mark_name)
        if not left:
            return {}
        times = {mark.times for mark in self._marks.values()}

        def is_touched(file: "SourceFile") -> bool:
            return self._hashed(file.size, file.mtime) not in times

        renamed: dict[SourceFile, str] = {}
        for file in sorted(newcomers, key=is_touched):
            names = left.get(self._content(file) or "", [])
            name = next((name for name in names if self._holds(self._marks[name], file)), None)
            if name is not None:
                names.remove(name)
                self.followed.append(name)
                mark = self._marks[name]._replace(ending=self._hashed(ending_of(file.path)))
                renamed[file] = " ".join(mark)
        return renamed

    def _gone_around(self, newcomers: Sequence["SourceFile"]) -> list[str]:
        """Return the names of marks with the bytes of new files whose files are nowhere any more.

        Of folders around the one that is read: the walk met a part of them only.
        """
        around = [*self._folders][1:]
        if not any(mark.source in around for mark in self._marks.values()):
            return []
        contents = {self._content(file) for file in newcomers}
        wanted: dict[str, set[str]] = {}
        for name, mark in self._marks.items():
            if mark.source in around and mark.content in contents:
                wanted.setdefault(mark.source, set()).add(name)
        return [
            name
            for source, names in wanted.items()
            for name in names - self._there(self._folders[source], names)
        ]

    def _there(self, folder: str, names: Collection[str]) -> set[str]:
        """Return which marks are of files in a folder; all of them if a part cannot be read."""
        errors: list[OSError] = []
        met = set()
        for place, inside, files in os.walk(folder, onerror=errors.append):
            # No run enters these: nothing in them was known, and some are not for everyone.
            inside[:] = [name for name in inside if not name.startswith(".")]
            paths = (os.path.join(place, file) for file in files)  # noqa: PTH118
            met |= {name for path in paths if (name := _name(self._key, path)) in names}
        return {*names} if errors else met

    def of_files(self, marks: Mapping["SourceFile", str]) -> dict[str, str]:
        """Return marks by the names under which they are kept."""
        return {_name(self._key, file.path): mark for file, mark in marks.items()}

    def stale(self, root: str, met: Iterable[str], passed_over: Collection[str]) -> list[str]:
        """Return the names of marks of a folder's files that a walk did not meet.

        Of files with an ending that it passed over it says nothing: its patterns may be narrower.
        """
        if not self._marks:
            return []
        source, paths = self._hashed(root), {_name(self._key, path) for path in met}
        endings = {self._hashed(ending) for ending in passed_over}
        return [
            name
            for name, mark in self._marks.items()
            if mark.source == source and mark.ending not in endings and name not in paths
        ]

    def _hashed(self, *parts: object) -> str:
        return _hash(self._key, *parts)


def _mark_of(value: str) -> _Mark | None:
    """Return a mark as it is kept; ``None`` for what plait did not write."""
    parts = value.split()
    least = len(_Mark._fields) - len(_Mark._field_defaults)
    if not least <= len(parts) <= len(_Mark._fields):
        return None
    mark = _Mark(*parts)
    moment = mark.read_at
    return mark if moment.isdecimal() and len(moment) <= _MOST_DIGITS else None


def _may_be_marked(row: Document) -> bool:
    scoped = (row.project or "").startswith(SCOPE_PREFIX)
    return row.kind == "file" and bool(row.path) and not scoped


def _name(key: str, path: str | None) -> str:
    return RETIRED + _hash(key, path)


def _hash(key: str, *parts: object) -> str:
    data = repr(parts).encode("utf-8", "surrogatepass")
    secret = key.encode("utf-8", "surrogatepass")[:_MOST_KEY_BYTES]
    return blake2b(data, key=secret, digest_size=_HASH_BYTES).hexdigest()
