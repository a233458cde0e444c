"""Recognise files that are now reached through a link, so that their documents stay the same.

Somebody moved a file or a folder and left a link to its new place: nothing is missing at the old
path, so `moves` finds nothing, and yet the file is read under its own name only. The link tells
where it went; no content needs to be compared.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from plait.facts.names import PERSONAL
from plait.facts.trash import is_detached
from plait.facts.trust import may_replace
from plait.protocols import Store
from plait.types import Document
from plait.types.ids import share_files
from plait.types.visibility import TEAM, Visibility
from plait.writing import sources
from plait.writing.moves import EVERY_FILE, Moves, is_below, moved_to, placed, real_place


def links_of(
    walk: sources.Walk, entries: Iterable[sources.SourceFile | sources.Skipped]
) -> list[str]:
    """Return the paths at which a walk met links, and the one by which it was named, if it has."""
    links = [entry.path for entry in entries if isinstance(entry, sources.Skipped) and entry.link]
    return [*links, walk.alias] if walk.alias else links


def behind(store: Store, links: Sequence[str], project: str | None) -> dict[str, list[Document]]:
    """Return for each path the document there, or those whose paths lead through it."""
    wanted = [Document(kind="file", path=link, project=project) for link in links]
    rows: dict[str, list[Document]] = {}
    for link, row in zip(links, store.known(wanted), strict=True):
        if row is not None:
            rows[link] = [row]
        elif not Path(link).is_file():  # a folder's files have names below its own
            where = EVERY_FILE._replace(path_prefix=link.rstrip(os.sep) + os.sep)
            inside = [row for row in store.scan(where) if share_files(row.project, project)]
            # A filter also selects what is spelt in another way.
            rows[link] = [row for row in inside if is_below(row.path or "", link)]
    return rows


def read_elsewhere(store: Store, rows: Sequence[Document]) -> frozenset[str]:
    """Return the paths of documents whose files a link now leads to, where they are known too.

    In the same project, or personal, and seen by all who see the old text: whoever looks for that
    finds the present one.
    """
    reals = {row.path or "": real_place(row.path or "") for row in rows}
    rows = [row for row in rows if (real := reals[row.path or ""]) and Path(real).is_file()]
    wanted = [
        Document(kind="file", path=reals[row.path or ""], project=row.project) for row in rows
    ]
    pairs = [
        (row, there)
        for row, there in zip(rows, store.known(wanted), strict=True)
        if there is not None and there.id != row.id and not is_detached(there)
        if there.project in (row.project, None) and may_replace(row, there)
    ]
    # Only some stores have members.
    asked: Callable[[Sequence[str]], Mapping[str, Visibility]] | None
    asked = getattr(store, "visibilities", None) if pairs else None
    who = asked([row.id for pair in pairs for row in pair]) if asked else {}

    def is_seen(row: Document, there: Document) -> bool:
        seen_by = who.get(there.id, TEAM)
        return seen_by == TEAM or (seen_by == who.get(row.id) and there.project == row.project)

    return frozenset(row.path or "" for row, there in pairs if is_seen(row, there))


def leading_nowhere(store: Store, walk: sources.Walk, project: str | None) -> list[sources.Skipped]:
    """Return the links without a target that documents are behind, after a walk."""
    known = behind(store, [entry.path for entry in walk.dangling], project)
    return [entry for entry in walk.dangling if known.get(entry.path)]


def follow(
    store: Store,
    root: str,
    links: Sequence[str],
    newcomers: Sequence[sources.SourceFile],
    project: str | None,
) -> Moves:
    """Give the documents behind links the paths at which their files are now read."""
    new = {file.path for file in newcomers}
    targets = {
        place: row
        for rows in (behind(store, links, project) if new else {}).values()
        for row in rows
        if (place := real_place(row.path or "")) in new
    }
    pairs = [(row, place) for place, row in targets.items()]
    moved = moved_to(store, pairs, root, project)
    taken = {
        place: row.project or PERSONAL
        for place, row in moved.items()
        if placed(row, place, root, project).project != row.project
    }
    return Moves(moved, {}, taken)
