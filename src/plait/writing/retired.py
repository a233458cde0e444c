"""Files that a rule has removed from the memory: their folder's next run leaves them out.

A mark is kept of each until a document has its path again, or its folder is read without it. Marks
are keyed hashes, like those of the audit log: paths and contents may be secret.
"""

from collections.abc import Collection, Iterable
from hashlib import blake2b
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


class _Mark(NamedTuple):
    """What is kept of a file, each as a hash.

    ``times`` are its size and time. ``source`` is the folder that it was read from.
    """

    project: str
    source: str
    ending: str
    times: str
    content: str


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


class Retired:
    """The marks of a memory, for one run over a folder.

    A mark holds in the project that the file was removed from. Where nobody chose a project, as on
    a schedule, it also holds for the folder that the file was read from.
    """

    def __init__(self, store: Store, state: State, project: str | None, *, chosen: bool) -> None:
        self._key = state.retired or ""
        self._marks: dict[str, _Mark] = {}
        for name, value in store.remembered(RETIRED).items() if state.retired else ():
            parts = value.split()
            if len(parts) == len(_Mark._fields):
                self._marks[name] = _Mark(*parts)
        self._project, self._chosen = self._hashed(project), chosen

    def has(self, file: "SourceFile", *, incremental: bool) -> bool:
        """Tell whether a rule has removed a file, and it still holds the same bytes.

        ``incremental``: its size and time are enough. Otherwise a file is read, because an editor
        may keep its time, and a checkout give it another.
        """
        mark = self._marks.get(_name(self._key, file.path)) if self._marks else None
        if mark is None:
            return False
        if mark.project != self._project and (
            self._chosen or mark.source != self._hashed(file.root)
        ):
            return False
        if incremental and mark.times == self._hashed(file.size, file.mtime):
            return True
        from plait.writing.sources import hash_file

        try:
            return mark.content == self._hashed(hash_file(file))
        except SourceError:
            return False  # whoever reads it will tell why

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


def _may_be_marked(row: Document) -> bool:
    scoped = (row.project or "").startswith(SCOPE_PREFIX)
    return row.kind == "file" and bool(row.path) and not scoped


def _name(key: str, path: str | None) -> str:
    return RETIRED + _hash(key, path)


def _hash(key: str, *parts: object) -> str:
    data = repr(parts).encode("utf-8", "surrogatepass")
    secret = key.encode("utf-8", "surrogatepass")[:_MOST_KEY_BYTES]
    return blake2b(data, key=secret, digest_size=_HASH_BYTES).hexdigest()
