"""What a search did not look at: other projects, and facts that no longer hold.

Every system that plait replaces has one flat memory. Where a search of this project finds little,
every interface says what the rest of the memory has.
"""

import time
from typing import TYPE_CHECKING

from plait.searching.where import given_fields
from plait.types.records import NamedTuple

if TYPE_CHECKING:
    from plait.memory import Memory
    from plait.searching.where import Where
    from plait.types import Document

# Enough to say that there is more; counting all would be a search of its own.
MOST_COUNTED = 20


class Beyond(NamedTuple):
    """How many hits lie in other projects, and how many were replaced or have ended here."""

    elsewhere: int = 0
    earlier: int = 0


def beyond(
    memory: "Memory",
    query: str,
    where: "Where | None" = None,
    *,
    all_projects: bool = False,
    min_score: float = 0.0,
    strict: bool = False,
) -> Beyond:
    """Return what the same search finds beyond this project and beyond today, up to 20 each.

    Args:
        memory: The memory.
        query: The query that found little.
        where: Its filter. One that names projects, a time or all versions was chosen by the caller.
        all_projects: It was made in all projects.
        min_score: Minimum `relevance` of a hit that counts.
        strict: It was strict.
    """
    fields = given_fields(where)
    fixed = {"as_of", "all_versions"} & fields.keys()
    everywhere = all_projects or "projects" not in fields
    answer = uncounted(memory).search(
        query,
        limit=2 * MOST_COUNTED,
        min_score=min_score,
        strict=strict,
        where=fields if fixed else {**fields, "all_versions": True},
        all_projects=everywhere,
    )
    now = time.time_ns() // 1_000_000
    elsewhere = earlier = 0
    for hit in answer:
        foreign = is_foreign(hit.document, memory.config.project) and not all_projects
        end = hit.document.valid_to
        ended = end is not None and end <= now
        elsewhere += foreign and not ended
        earlier += ended and not foreign and not fixed
    return Beyond(elsewhere, earlier)


def documents_elsewhere(memory: "Memory", where: "Where | None" = None) -> int:
    """Return how many documents of other projects a timeline with this filter would list."""
    fields = given_fields(where)
    if "projects" in fields or "entity" in fields:
        return 0
    documents = memory.timeline(limit=MOST_COUNTED, where=fields, all_projects=True)
    return sum(is_foreign(document, memory.config.project) for document in documents)


def is_foreign(document: "Document", project: str | None) -> bool:
    """Tell whether a document belongs to another project; personal ones belong to all.

    >>> from plait.types import Document
    >>> [is_foreign(Document(project=name), "acme") for name in (None, "acme", "other")]
    [False, False, True]
    """
    return document.project not in (None, project)


def uncounted(memory: "Memory") -> "Memory":
    """Return the same memory for searches that nobody reads: they count nothing as listed."""
    from copy import copy

    twin = copy(memory)
    settings = memory.config.settings._replace(signals_count="read")
    twin.config = memory.config._replace(settings=settings)
    return twin
