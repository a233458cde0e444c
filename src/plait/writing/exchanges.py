"""Recognise files that exchanged their names, so that each document follows its contents.

Two files were swapped, or several each took the name of the next: chapters that are numbered anew,
say. Every file is then at a path that another document has, and `moves` finds none of them missing.

A document follows its contents to the path of another one only if that one has gone on, too. One
file that is copied and then edited is none of this: it stays at its path.
"""

from collections.abc import Iterable, Mapping, Sequence

from plait.errors import SourceError
from plait.protocols import Store, Transaction
from plait.types import EVERYTHING, Document
from plait.writing import sources
from plait.writing.moves import is_missing, placed, surely_unchanged
from plait.writing.retired import unmarked

_EVERY_FILE = EVERYTHING._replace(kinds=("file",))

Known = Mapping[sources.SourceFile, Document]


def follow(
    store: Store,
    root: str,
    known: Mapping[sources.SourceFile, Document | None],
    newcomers: Sequence[sources.SourceFile],
    project: str | None,
) -> dict[str, Document]:
    """Give documents the paths to which their contents went; return them by path, as before.

    ``known`` are the files of a run with their documents, ``newcomers`` those without.
    """
    rows = {
        file: row
        for file, row in known.items()
        if row is not None and row.project == project and row.kind == "file" and row.sha256
    }
    changed = _changed(rows)
    if not changed:
        return {}
    targets = _Contents(store, changed, newcomers).targets()
    return _move(store, targets, root, project) if targets else {}


def _changed(known: Known) -> Known:
    """Return the files that may have the content of others, without reading one.

    Those of the same size that were written since are none: a checkout that touched all files does
    not read them twice. A file that was moved keeps the time at which it was written.
    """
    latest = max((row.indexed_at for row in known.values()), default=0)
    return {
        file: row
        for file, row in known.items()
        if not surely_unchanged(row, file)
        if file.size != row.size or file.mtime <= latest
    }


class _Contents:
    """Compares the contents of changed and new files with those that documents had."""

    def __init__(
        self, store: Store, changed: Known, newcomers: Sequence[sources.SourceFile]
    ) -> None:
        self._store = store
        self._rows = {file.path: row for file, row in changed.items()}
        self._files = {file.path: file for file in (*changed, *newcomers)}
        self._hashes: dict[str, str | None] = {}
        self._of_size: dict[int, list[str]] = {}
        for path, file in self._files.items():
            self._of_size.setdefault(file.size, []).append(path)

    def targets(self) -> dict[str, Document]:
        """Return the documents that went on, by their new paths."""
        went: dict[str, Document] = {}
        for mark, rows in _by_hash(self._rows.values()).items():
            sized = self._of_size.get(rows[0].size or 0, [])
            paths = [path for path in sized if self._hash(path) == mark]
            # With several of one content, nothing tells which of them went where.
            if len(rows) == len(paths) == 1 and paths[0] != rows[0].path:
                went[paths[0]] = rows[0]
        for path in [row.path or "" for row in went.values()]:
            if path not in went:
                went |= self._missing_one(path)
        return self._whole(went)

    def _hash(self, path: str) -> str | None:
        if path not in self._hashes:
            try:
                self._hashes[path] = sources.hash_file(self._files[path])
            except SourceError:
                self._hashes[path] = None  # it will be reported when its turn comes
        return self._hashes[path]

    def _missing_one(self, path: str) -> dict[str, Document]:
        """Return the document whose file is gone, and whose content is now at a path."""
        mark, project = self._hash(path), self._rows[path].project
        rows = self._store.scan(_EVERY_FILE._replace(hashes=(mark,))) if mark else []
        if len(rows) == 1 and rows[0].project == project and is_missing(rows[0].path or ""):
            return {path: rows[0]}
        return {}

    def _whole(self, went: dict[str, Document]) -> dict[str, Document]:
        """Return what is left without those that would push another document away.

        A single file at a new path, with another text at its old one, may be a copy.
        """
        left = dict(went)
        while True:
            gone = {row.path for row in left.values()}
            stays = [path for path in left if path in self._rows and path not in gone]
            if not stays:
                break
            for path in stays:
                del left[path]
        return {
            path: row
            for path, row in left.items()
            if path in self._rows or row.path in left or is_missing(row.path or "")
        }


def _by_hash(rows: Iterable[Document]) -> dict[str, list[Document]]:
    """Return documents by the hashes of their contents."""
    grouped: dict[str, list[Document]] = {}
    for row in rows:
        grouped.setdefault(row.sha256 or "", []).append(row)
    return grouped


def _move(
    store: Store, targets: Mapping[str, Document], root: str, project: str | None
) -> dict[str, Document]:
    """Give documents their new paths, all of them or none."""
    with store.transaction() as transaction:
        ids = {row.id for row in targets.values()}
        places = [placed(row, path, root, project) for path, row in targets.items()]
        if not all(_is_free(transaction, place, ids) for place in places):
            return {}
        if not all(_is_as_before(transaction, row) for row in targets.values()):
            return {}  # another process was faster
        for id_ in ids:  # first away: no two have one name
            transaction.amend(id_, path=None, key=None)
        for place in places:
            transaction.amend(
                place.id,
                path=place.path,
                source=place.source,
                key=place.key,
                project=place.project,
            )
            transaction.remember(**unmarked(transaction.state, place))
    return dict(targets)


def _is_free(transaction: Transaction, place: Document, ids: set[str]) -> bool:
    stored = transaction.known(place._replace(id=""))
    return stored is None or stored.id in ids


def _is_as_before(transaction: Transaction, row: Document) -> bool:
    stored = transaction.known(Document(id=row.id))
    return stored is not None and (stored.path, stored.sha256) == (row.path, row.sha256)
