"""Which documents a walk over a source can say something about, and which of them it did not meet.

Reads the memory, and looks whether files are there. Deletes nothing: `removals` says what is kept.
"""

import os
from collections.abc import Collection, Sequence

from plait.errors import SourceError, advise
from plait.facts.trash import is_detached
from plait.protocols import Store
from plait.types import Document
from plait.types.ids import share_files
from plait.types.records import NamedTuple
from plait.writing import linked, moves, refusals, sources


def walk_known(
    store: Store,
    path: str | os.PathLike[str],
    *,
    project: str | None,
    patterns: Sequence[str],
    max_bytes: int,
    allow_removal: bool,
    refresh: bool = False,
) -> sources.Walk:
    """Return the walk over a source; with ``allow_removal``, over a known folder that is gone too.

    With ``refresh``, files of other types that are documents of this folder already count too.

    Raises:
        SourceError: It is not there, or cannot be read.
    """
    try:
        walk = sources.walk(path, patterns=patterns, max_bytes=max_bytes)
    except SourceError as error:
        if error.code != "no_such_source":
            raise
        gone = sources.walk(path, patterns=patterns, max_bytes=max_bytes, gone=True)
        known = moves.is_missing(gone.root) and any(
            belongs(document, gone) for document in files_of(store, gone, project)
        )
        if known and allow_removal:
            return gone
        if known:
            raise error.with_notice(
                error.notice._replace(
                    text=f"No such folder: {error.subject}. What is known of its files was kept.",
                    advice=advise("allow_removal", path=gone.root),
                )
            ) from error
        raise
    if not refresh:
        # Whoever chooses what is read says nothing about other documents. The memory tool does so:
        # what is outside of a folder that was swapped for a link is not the model's.
        walk.alias = ""
    elif walk.is_folder:
        walk.known = _of_other_types(store, walk, project)
    return walk


def _of_other_types(store: Store, walk: sources.Walk, project: str | None) -> frozenset[str]:
    """Return the files of documents that the patterns of a walk leave out."""
    start = len(walk.root.rstrip(os.sep)) + 1
    return frozenset(
        path
        for row in files_of(store, walk, project)
        if (path := row.path) and not walk.wants(path[start:].replace(os.sep, "/"))
        if not is_detached(row)
    )


class Lost(NamedTuple):
    """Documents whose files a walk did not meet, and the paths of others that it covers.

    ``vanished``: the file is gone, or has no text any more; ``excluded``: the rules leave it
    out, or it is read under another name.
    """

    vanished: list[Document]
    excluded: list[Document]
    left: frozenset[str] = frozenset()


def files_of(store: Store, walk: sources.Walk, project: str | None) -> list[Document]:
    """Return the documents that a walk covers, whatever their project, but none of other users."""
    where = moves.EVERY_FILE._replace(source=walk.root)
    if walk.is_folder:
        where = moves.EVERY_FILE._replace(path_prefix=walk.root.rstrip(os.sep) + os.sep)
    return [row for row in store.scan(where) if share_files(row.project, project)]


def belongs(document: Document, walk: sources.Walk) -> bool:
    """Tell whether a walk can say anything about a file.

    It cannot about a folder inside that was read on its own: it may be a disk that is not there.
    """
    return document.source == walk.root or moves.is_below(walk.root, document.source)


def _is_concealed(path: str, places: Sequence[str]) -> bool:
    return any(path == place or moves.is_below(path, place) for place in places)


def _is_excluded(document: Document, walk: sources.Walk) -> bool:
    """Tell whether a file that exists was left out by the rules.

    A run with narrower patterns says nothing about files that it did not look for.
    """
    wanted = document.source == walk.root and walk.is_folder and walk.wants(document.key or "")
    return wanted and os.path.lexists(document.path or "")


def lost_to(
    store: Store,
    walk: sources.Walk,
    project: str | None,
    *,
    seen: Collection[str],
    read: Collection[str],
    unseen: Sequence[sources.Skipped],
) -> Lost:
    """Compare the documents that a walk covers with the files that it met.

    ``seen`` are the paths of its files, ``read`` those whose text is in the memory, ``unseen`` what
    it could not look at.
    """
    lost, left = Lost(vanished=[], excluded=[]), set()
    places = [entry.path for entry in unseen if entry.reason != refusals.LINK_TO_IGNORED]
    behind = linked.behind(store, [walk.alias] if walk.alias else [], project)
    rows = [*files_of(store, walk, project), *(row for rows in behind.values() for row in rows)]
    rows = [row for row in rows if row.path not in seen and not is_detached(row)]
    unmet = {row.path or "": row for row in rows}
    concealed = {path for path in unmet if _is_concealed(path, places)}
    elsewhere = linked.read_elsewhere(store, [unmet[path] for path in concealed])
    for document in rows:
        path = document.path or ""
        hidden = path in concealed
        behind_alias = walk.alias and not moves.is_below(path, walk.root)
        is_read = (hidden or behind_alias) and moves.real_place(path) in read
        if is_read or path in elsewhere:
            lost.excluded.append(document)
        elif behind_alias or not belongs(document, walk):
            continue
        elif not hidden and moves.is_missing(path):
            lost.vanished.append(document)
        else:
            left.add(path)
            if not hidden and _is_excluded(document, walk):
                lost.excluded.append(document)
    return lost._replace(left=frozenset(left))
