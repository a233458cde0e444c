"""Recognise files that were moved, renamed or brought back, so that their documents stay the same.

A file without a document is the same as a known one if it has the same content and nothing is left
at the old path. A folder has moved if nothing that is known of it is left, and at least half of its
files are at the new place with the same names and contents. A folder that is merely missing may be
on a disk that is not mounted: without that evidence nothing of it moves.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from plait.errors import SourceError
from plait.facts.names import PERSONAL
from plait.protocols import Store, Transaction
from plait.types import EVERYTHING, Document
from plait.types.ids import share_files
from plait.types.records import NamedTuple
from plait.writing import sources
from plait.writing.retired import unmarked

EVERY_FILE = EVERYTHING._replace(kinds=("file",))
# This share of a folder's files at the new place shows that the folder has moved; with the larger
# share it has moved whole, and what is not there was deleted.
MOVED_SHARE = 0.5
WHOLE_SHARE = 0.9
# Contents that more files share, such as a licence, are no evidence of where one of them went.
MOST_TWINS = 8
# Documents per transaction: other writers must not wait for a large folder.
MOVED_AT_ONCE = 256


class Moves(NamedTuple):
    """What became of known files, by their new paths.

    ``folders`` has the documents of moved folders, as they were before; ``taken`` the projects that
    some of them were in, if it was another. ``formers`` has documents under another path, or in the
    trash, whose single files are now here.
    """

    folders: Mapping[str, Document] = MappingProxyType({})
    formers: Mapping[str, Document] = MappingProxyType({})
    taken: Mapping[str, str] = MappingProxyType({})


def is_missing(path: str) -> bool:
    """Tell whether nothing is at a path; a path that cannot be examined may be there."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def real_place(path: str) -> str:
    """Return where a path leads, or ``""`` if there is no link on the way."""
    real = os.path.realpath(path)
    return "" if real == path else real


def is_bare(folder: str) -> bool:
    """Tell whether a folder has nothing in it, like one that a disk is not mounted on."""
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except OSError:
        return False


def surely_unchanged(old: Document, file: sources.SourceFile) -> bool:
    """Tell by size and times alone, unless the file changed close to its last indexing."""
    return (
        old.size == file.size
        and old.mtime == file.mtime
        and file.is_untouched_since(old.indexed_at)
    )


def is_below(path: str, folder: str) -> bool:
    """Tell whether a path is inside a folder."""
    return folder not in ("", path) and path.startswith(folder.rstrip(os.sep) + os.sep)


def follow(
    store: Store,
    root: str,
    newcomers: Sequence[sources.SourceFile],
    project: str | None,
    is_retired: Callable[[Document], bool] = lambda _: False,
) -> Moves:
    """Find out where the files that have no document came from; move the documents of folders.

    ``is_retired`` tells whether a rule removed the file of a document in the trash from this folder
    or one around it: under another name there, it does not come back.
    """
    if not newcomers:
        return Moves()
    search = _Search(store, newcomers, project, is_retired)
    targets = search.targets(search.moved_folders(), project)
    moved = moved_to(store, targets, root, project)
    formers = search.formers(moved, project)
    for old, path in targets:
        # Another process has removed it just now: its file continues what is in the trash.
        if path not in moved:
            formers[path] = old
    taken = {
        path: old.project or PERSONAL
        for path, old in moved.items()
        if placed(old, path, root, project).project != old.project
    }
    return Moves(moved, formers, taken)


class _Search:
    """Compares the files without a document with the documents without a file."""

    def __init__(
        self,
        store: Store,
        newcomers: Sequence[sources.SourceFile],
        project: str | None,
        is_retired: Callable[[Document], bool],
    ) -> None:
        self._store, self._project, self._is_retired = store, project, is_retired
        self._newcomers = {file.path: file for file in newcomers}
        self._missing: dict[str, bool] = {}
        self._known_inside: dict[str, list[Document]] = {}
        # subtle: before the trash, where another process may put them meanwhile.
        has_files = bool(store.scan(EVERY_FILE, limit=1))
        self._trash = self._deleted()
        # A new file is read twice, unless there is nothing that it could be.
        self._hashes = self._read(newcomers) if has_files or self._trash else {}
        self._lost: dict[str, list[Document]] = {}
        # Only those that may be one of the new files: a disk that does not answer may hold others.
        for row in self._files(hashes=tuple({*self._hashes.values()})) if self._hashes else ():
            if self._is_missing(row.path or ""):
                self._lost.setdefault(row.sha256 or "", []).append(row)
        if self._lost:
            # subtle: another process may be removing the files of a folder in slices. What it has
            # removed since is in the trash by now; without it, the last one left would seem single.
            self._trash = self._deleted()
        contents = {*self._hashes.values()}
        self._lost_inside = _by_folder(row for rows in self._lost.values() for row in rows)
        self._removed_inside = _by_folder(row for row in self._trash if row.sha256 in contents)

    def _deleted(self) -> list[Document]:
        """Return the documents of files in the trash that this run may bring back."""
        return [
            row.document
            for row in self._store.trashed(texts=False)
            if row.document.kind == "file" and row.document.path and row.document.sha256
            if row.document.project == self._project  # what was deleted elsewhere is undone there
            if not row.version_of  # that document may still be there
        ]

    def _files(self, **where: Any) -> list[Document]:
        """Return the documents of files that this run may move, in the order of their paths."""
        rows = self._store.scan(EVERY_FILE._replace(**where))
        files = [
            row
            for row in rows
            if row.path and row.sha256 and share_files(row.project, self._project)
        ]
        return sorted(files, key=lambda row: row.path or "")

    def _is_missing(self, path: str) -> bool:
        """Tell whether nothing is at a path, or only a link that leads to one of the new files."""
        if path not in self._missing:
            self._missing[path] = is_missing(path) or real_place(path) in self._newcomers
        return self._missing[path]

    def _read(self, newcomers: Iterable[sources.SourceFile]) -> dict[str, str]:
        """Return the hash of each new file, except of one that only came back."""
        trash = {(row.path, row.size, row.mtime): row.indexed_at for row in self._trash}
        hashes = {}
        for file in newcomers:
            read_at = trash.get((file.path, file.size, file.mtime))
            if read_at is None or not file.is_untouched_since(read_at):
                try:
                    hashes[file.path] = sources.hash_file(file)
                except SourceError:
                    continue  # it will be reported when its turn comes
        return hashes

    # -- folders ---------------------------------------------------------------------------

    def moved_folders(self) -> dict[str, str]:
        """Return the folders that have moved, outermost first, with their new places."""
        candidates = {
            pair
            for path, mark in self._hashes.items()
            if len(self._lost.get(mark, ())) <= MOST_TWINS
            for row in self._lost.get(mark, ())
            for pair in self._folder_pairs(row.path or "", path)
        }
        moved: dict[str, str] = {}
        for old, new in sorted(candidates, key=lambda pair: (len(pair[0]), pair)):
            done = any(old == outer or is_below(old, outer) for outer in moved)
            if not done and new not in moved.values() and self._share(old, new) >= MOVED_SHARE:
                moved[old] = new
        return moved

    def _folder_pairs(self, old: str, new: str) -> list[tuple[str, str]]:
        """Return the folders that may have become one another if one file became the other."""
        depth = len(self._newcomers[new].key.split("/"))
        pairs = []
        while depth and os.path.basename(old) == os.path.basename(new):  # noqa: PTH119
            old, new, depth = os.path.dirname(old), os.path.dirname(new), depth - 1  # noqa: PTH120
            pairs.append((old, new))
        return pairs

    def _inside(self, folder: str) -> list[Document]:
        if folder not in self._known_inside:
            prefix = folder.rstrip(os.sep) + os.sep
            # subtle: also what another process has removed since, one by one: whether a folder has
            # moved must not depend on how far that process is.
            lost = self._lost_inside.get(folder, ())
            # A filter also selects what is spelt in another way.
            files = self._files(path_prefix=prefix)
            present = [row for row in files if is_below(row.path or "", prefix)]
            rows = {row.id: row for row in (*lost, *present)}
            self._known_inside[folder] = sorted(rows.values(), key=lambda row: row.path or "")
        return self._known_inside[folder]

    def _share(self, old: str, new: str) -> float:
        """Return how much of a folder is at a new place; 0 if something is left at the old one."""
        inside = self._inside(old)
        if not inside:
            return 0.0  # another process has moved them just now
        # What was removed and is at the new place came along.
        inside = inside + [
            row
            for row in self._removed_inside.get(old, ())
            if self._hashes.get(_at_new_place(row, old, new)) == row.sha256
        ]
        if len(inside) == 1 and inside[0].source != old:
            return 0.0  # a single file, see `formers`
        if not all(self._is_missing(row.path or "") for row in inside):
            return 0.0
        same = sum(self._hashes.get(_at_new_place(row, old, new)) == row.sha256 for row in inside)
        return same / len(inside)

    def targets(
        self, folders: Mapping[str, str], project: str | None
    ) -> list[tuple[Document, str]]:
        """Return the documents to move, with their new paths.

        Only a whole folder, as it was ingested, takes its documents to another project: a clone may
        have half of the files of a folder whose disk is not there.
        """
        targets = []
        for old, new in folders.items():
            whole = self._share(old, new) >= WHOLE_SHARE
            for row in self._inside(old):
                path = _at_new_place(row, old, new)
                at_home = row.project == project or is_below(path, row.source)
                ingested = row.source == old or is_below(row.source, old)
                if not at_home and not (whole and ingested):
                    continue
                if path in self._newcomers or (whole and is_missing(path)):
                    targets.append((row, path))
        return targets

    # -- single files ----------------------------------------------------------------------

    def formers(self, moved: Mapping[str, Document], project: str | None) -> dict[str, Document]:
        """Return the documents of single files that were renamed, moved or brought back.

        One file is weaker evidence than a folder: it never takes a document from another project.
        Its content tells more than what was deleted at its path: a draft that gets the name of an
        old version is the draft. A document that is there still goes before one in the trash.
        """
        formers: dict[str, Document] = {}
        if not self._newcomers.keys() <= moved.keys():
            # Another process may have deleted some that were there, or that moved folders had.
            self._trash = self._deleted()
        trash = {row.path: row for row in reversed(self._trash)}
        new = [path for path in self._newcomers if path not in moved]
        for path in new:
            if path not in self._hashes and path in trash:
                formers[path] = trash[path]
        lost = self._of_living_folders()
        deleted = {row.id for row in self._trash}
        pairs = [
            (row.id in deleted, -_common_end(row.path or "", path), path, row)
            for path in new
            for row in self._same(path, lost, trash)
            if row.project == project or is_below(path, row.source)
        ]
        taken = {row.id for row in (*formers.values(), *moved.values())}
        for *_, path, row in sorted(pairs, key=lambda pair: (*pair[:3], pair[3].id)):
            if path not in formers and row.id not in taken:
                formers[path] = row
                taken.add(row.id)
        for path in new:
            if path not in formers and path in trash and trash[path].id not in taken:
                formers[path] = trash[path]
        return formers

    def _same(
        self, path: str, lost: Mapping[str, list[Document]], trash: Mapping[str | None, Document]
    ) -> list[Document]:
        """Return the documents without a file that have the content of a new one."""
        mark = self._hashes.get(path, "")
        rows = lost.get(mark, [])[:MOST_TWINS]
        here = trash.get(path)
        return [*rows, here] if here is not None and here.sha256 == mark else rows

    def _of_living_folders(self) -> dict[str, list[Document]]:
        """Return by content the documents without a file whose folder is still in use."""
        alive: dict[str, bool] = {}
        lost: dict[str, list[Document]] = {}
        for mark, rows in self._lost.items():
            for row in rows:
                source = row.source
                if source not in alive:
                    alive[source] = not (is_missing(source) or is_bare(source))
                if alive[source]:
                    lost.setdefault(mark, []).append(row)
        for row in self._trash:
            if self._is_missing(row.path or "") and not self._is_retired(row):
                lost.setdefault(row.sha256 or "", []).append(row)
        return lost


def _by_folder(rows: Iterable[Document]) -> dict[str, list[Document]]:
    """Return documents by each of the folders that their files were in."""
    inside: dict[str, list[Document]] = {}
    for row in rows:
        folder, inner = os.path.dirname(row.path or ""), ""  # noqa: PTH120
        while folder not in ("", inner):
            inside.setdefault(folder, []).append(row)
            folder, inner = os.path.dirname(folder), folder  # noqa: PTH120
    return inside


def _at_new_place(document: Document, old: str, new: str) -> str:
    return new.rstrip(os.sep) + (document.path or "")[len(old.rstrip(os.sep)) :]


def _common_end(first: str, second: str) -> int:
    """Return how many names two paths have in common at their end."""
    same = 0
    for one, other in zip(Path(first).parts[::-1], Path(second).parts[::-1], strict=False):
        if one != other:
            break
        same += 1
    return same


def moved_to(
    store: Store,
    targets: Sequence[tuple[Document, str]],
    root: str,
    project: str | None,
) -> dict[str, Document]:
    """Give documents their new paths; return by new path those that really have moved.

    Another process may have done the same meanwhile, or stored the new files as new documents:
    inside the transaction, only what is still at its old path moves, and only to a free one.
    """
    moved = {}
    for start in range(0, len(targets), MOVED_AT_ONCE):
        with store.transaction() as transaction:
            state = transaction.state
            for old, path in targets[start : start + MOVED_AT_ONCE]:
                place = placed(old, path, root, project)
                if transaction.known(place._replace(id="")) is None and _is_at(
                    transaction, old.id, old.path
                ):
                    transaction.amend(
                        old.id,
                        path=place.path,
                        source=place.source,
                        key=place.key,
                        project=place.project,
                    )
                    transaction.remember(**unmarked(state, place))
                    moved[path] = old
    return moved


def _is_at(transaction: Transaction, id_: str, path: str | None) -> bool:
    stored = transaction.known(Document(id=id_))
    return stored is not None and stored.path == path


def placed(document: Document, path: str, root: str, project: str | None) -> Document:
    """Return a document as that of a file at another path.

    Inside the folder that it was read from, it stays in that folder and project; elsewhere it gets
    those of this run.
    """
    if is_below(path, document.source):
        root, project = document.source, document.project
    key = os.path.relpath(path, root).replace(os.sep, "/")
    return document._replace(path=path, source=root, key=key, project=project)
