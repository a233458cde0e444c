"""`Memory.mark`: settle what a review found, or move facts. Loaded only for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from plait.errors import UsageError
from plait.text import clean
from plait.text.normal_form import composed
from plait.types import Document, Filter
from plait.types.review import MarkedDocuments
from plait.writing import marking

if TYPE_CHECKING:
    from plait.facts.names import Reach
    from plait.memory.storing import StoringMemory


def mark(
    memory: StoringMemory,
    names: Sequence[str],
    *,
    all_projects: bool,
    visibility: str | None,
    superseded_by: str | None,
    to_project: str | None,
    **values: Any,
) -> MarkedDocuments:
    """Change what is known about documents; the values are those of `Memory.mark`.

    Raises:
        NotFound: One of the names is unknown.
        UsageError: There is nothing to change, or it cannot be; nothing is changed.
    """
    others = (superseded_by, visibility, *values.values())
    whole = bool(to_project) and memory.config.project is not None and not any(others)
    if not (names or whole) or not any((*others, to_project)):
        raise UsageError("Name the documents, and what to change.", code="nothing_to_mark")
    if memory.is_off:
        return MarkedDocuments()
    reach: Reach = "everything" if all_projects else "change"
    rows = [memory._named(name, reach)[0] for name in names] if names else _facts(memory)
    memory._check_changeable(rows)
    memory._check_writable()
    by = None if superseded_by is None else memory._named(superseded_by, reach)[0].id
    shared = None if visibility is None else memory.team.sharing(visibility)
    done = marking.mark(
        memory._required(),
        [row.id for row in rows],
        superseded_by=by,
        to_project=None if to_project is None else composed(clean(to_project)).strip(),
        share=shared,
        **values,
    )
    memory._embed_changed()
    return done


def _facts(memory: StoringMemory) -> list[Document]:
    """Return the notes and facts of the project of a memory, and only of it."""
    here = Filter(projects=(memory.config.project,), kinds=("note", "observation"))
    return memory._required().scan(here._replace(all_versions=True))
