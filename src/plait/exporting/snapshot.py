"""Write a memory as a folder of Markdown files, which git can keep.

The folder follows the memory: a changed document changes its file, a deleted one removes it. A file
that a person has edited, and every file that plait did not write, stays as it is. Each file is
written aside and renamed, so that a kill leaves the old one or the new one.
"""

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

from plait.errors import UsageError, advise
from plait.exporting import folder as folders
from plait.exporting import jsonl, markdown
from plait.facts.credentials import document_secrets
from plait.protocols import Store
from plait.stores.sqlite.scratch import beside
from plait.types import KINDS, Filter
from plait.types.records import NamedTuple
from plait.types.reports import Exported
from plait.writing.removals import HANDFUL, LOST_SHARE

# Without it, git on Windows converts line ends, and a text with \r\n is not kept as it is.
ATTRIBUTES = "* -text\n"
PRIVATE_FOLDER, PRIVATE = 0o700, 0o600
# Larger than any file that plait writes.
_LARGEST = 1 << 33
# Between the numbers of two documents, for those that come between them later.
ORDER_STEP = 1000


class _Known(NamedTuple):
    """A file that is in the folder already."""

    id: str
    order: int
    mark: bytes
    intact: bool


def write_snapshot(
    store: Store,
    where: Filter,
    target: str,
    *,
    seen_by: jsonl.SeenBy,
    allow_removal: bool = False,
    overwrite: bool = False,
    damaged: list[str] | None = None,
) -> Exported:
    """Write the documents that pass a filter, and the relations between them, to a folder.

    Raises:
        UsageError: The folder has other files and is no snapshot ("not_a_snapshot"), or most of its
            files would be removed ("removes_most").
        OSError: The folder cannot be written.
    """
    _check_target(target)
    unreadable: list[str] = [] if damaged is None else damaged
    documents = store.scan(where, by_writing=True, damaged=damaged)
    known = _known(target) if Path(target).is_dir() else {}
    names = {document.id: markdown.file_name(document) for document in documents}
    kept_names = set(names.values())
    gone = [name for name, file in known.items() if file.intact and name not in kept_names]
    if not allow_removal:
        _check_removal(target, len(gone), len(known))
    places = {file.id: file.order for file in known.values()}
    orders = in_order([places.get(document.id, 0) for document in documents])
    by_id = dict(zip((document.id for document in documents), orders, strict=True))
    relations: dict[str, list[jsonl.ExportedRelation]] = {}
    hidden = jsonl.hidden_among(documents, seen_by)
    for edge in jsonl.relations_between(store, documents, hidden, damaged):
        relations.setdefault(edge.relation.source_id, []).append(edge)
    written = unchanged = held = 0
    kept: list[str] = []
    kinds: dict[str, None] = {}
    with _Files(target) as files:
        marker = folders.marker_text(store.state().changed_at)
        files.put(folders.MARKER, marker.encode())
        if not os.path.lexists(Path(target, ".gitattributes")):
            files.put(".gitattributes", ATTRIBUTES.encode())
        for document, passages in jsonl.whole_documents(store, documents, damaged):
            name = names[document.id]
            edges = relations.get(document.id, ())
            steps = jsonl.exported_steps(store, document, damaged)
            order, seen = by_id[document.id], hidden.get(document.id)
            data = markdown.file_text(document, passages, edges, order, steps, seen).encode()
            file = known.get(name)
            if file is not None and file.mark == sha256(data).digest():
                unchanged += 1
                continue
            path = Path(target, name)
            is_own = file is not None and (file.intact or _says(path, data))
            if not (is_own or overwrite) and os.path.lexists(path):
                kept.append(name)
                continue
            files.put(name, data)
            written += 1
            secrets = document_secrets(document)
            held += bool(secrets)
            kinds.update(dict.fromkeys(secrets))
        # What could not be read is still in the memory.
        gone = [name for name in gone if known[name].id not in unreadable]
        for name in gone:
            Path(target, name).unlink()
    edited = [name for name, file in known.items() if not file.intact and name not in kept_names]
    return Exported(
        target,
        written + unchanged + len(kept),
        written,
        unchanged,
        len(gone),
        tuple(sorted([*kept, *edited])),
        held,
        tuple(kinds),
    )


def in_order(places: Sequence[int]) -> list[int]:
    """Return ascending numbers for documents, as many as possible as they are; 0 is none.

    Numbers leave room: a document that comes between two others changes neither of their files.

    >>> in_order([0, 0]), in_order([1000, 0, 3000]), in_order([7000, 1000, 2000])
    ([1000, 2000], [1000, 2000, 3000], [500, 1000, 2000])
    >>> in_order([1, 0, 2])
    [1, 2, 3]
    """
    # The longest ascending row of those that have a number.
    ends: list[int] = []
    rows: list[int] = []
    before: dict[int, int | None] = {}
    for place, number in enumerate(places):
        if number <= 0:
            continue
        at = bisect_left(ends, number)
        ends[at : at + 1] = [number]
        rows[at : at + 1] = [place]
        before[place] = rows[at - 1] if at else None
    staying: set[int] = set()
    last = rows[-1] if rows else None
    while last is not None:
        staying.add(last)
        last = before[last]
    numbers: list[int] = []
    reached = 0
    waiting = 0  # documents that need a number between the last one that stays and the next
    for place, number in enumerate([*places, 0]):
        is_end = place == len(places)
        if not is_end and place not in staying:
            waiting += 1
            continue
        step = ORDER_STEP if is_end else max(1, (number - reached) // (waiting + 1))
        numbers += [reached + step * (count + 1) for count in range(waiting)]
        reached, waiting = (numbers[-1] if waiting else reached), 0
        if not is_end:
            reached = max(number, reached + 1)
            numbers.append(reached)
    return numbers


def _check_target(target: str) -> None:
    if Path(target).is_dir() and not folders.is_snapshot(target):
        others = [path.name for path in Path(target).iterdir() if not path.name.startswith(".")]
        if [name for name in others if not name.endswith(".partial")]:
            raise UsageError(
                f"{target} has other files and is no snapshot of a memory. Choose a new or an "
                "empty folder.",
                code="not_a_snapshot",
                subject=target,
            )
    elif os.path.lexists(target) and not Path(target).is_dir():
        raise UsageError(
            f"{target} is not a folder. A Markdown export is one; choose another name.",
            code="not_a_folder",
            subject=target,
        )


def _check_removal(target: str, gone: int, known: int) -> None:
    """Refuse to remove nearly everything: this may be another memory, or a lost one."""
    if gone >= HANDFUL and gone >= LOST_SHARE * known:
        raise UsageError(
            f"{gone:,} of the {known:,} documents in {target} are not in this export. Nothing was "
            "written.",
            code="removes_most",
            subject=target,
            advice=advise("allow_snapshot_removal", path=target),
        )


def _known(target: str) -> dict[str, _Known]:
    """Return the files of a snapshot that bear the name which plait gives them."""
    known: dict[str, _Known] = {}
    for file in _own_files(target):
        try:
            content = markdown.read_file(file.data)
            document = jsonl.read_entry(dict(content.record)).document
        except (TypeError, ValueError, LookupError):
            continue
        mark = sha256(file.data).digest()
        if markdown.file_name(document) == file.name:
            known[file.name] = _Known(document.id, content.order, mark, content.intact)
        elif not content.intact:
            # A person may have edited what the name is made of.
            known[file.name] = _Known("", 0, mark, intact=False)
    return known


def _own_files(target: str) -> Iterator[folders.FolderFile]:
    for file in folders.files_of(target, _LARGEST):
        if markdown.is_snapshot_file(file.data):
            yield file


def _says(path: Path, data: bytes) -> bool:
    """Tell whether an edited file says what is to be written: the edit was imported."""
    content = folders.read_regular(path, _LARGEST)
    if content is None:
        return False
    try:
        old, new = markdown.read_file(content[0]), markdown.read_file(data)
    except (TypeError, ValueError):
        return False
    return old.relations == new.relations and markdown.same_content(old.record, new.record)


class _Files:
    """Puts whole files into a folder. Subfolders that are links are refused."""

    def __init__(self, target: str) -> None:
        self._target = Path(target)
        self._stack = ExitStack()
        self._aside = Path()

    def __enter__(self) -> "_Files":
        self._target.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        for kind in KINDS:
            folder = self._target / kind
            if folder.is_symlink():
                raise UsageError(
                    f"{folder} is a link. Replace it by a folder; nothing was written.",
                    code="not_a_folder",
                    subject=str(folder),
                )
        self._aside = Path(self._stack.enter_context(beside(str(self._target / "snapshot"))))
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def put(self, name: str, data: bytes) -> None:
        """Write one file, unless it is there already with these bytes."""
        path = self._target / name
        there = None if "/" in name else folders.read_regular(path, len(data))
        if there is not None and there[0] == data:
            return
        aside = self._aside / "file"
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        path.parent.mkdir(PRIVATE_FOLDER, exist_ok=True)
        aside.replace(path)
