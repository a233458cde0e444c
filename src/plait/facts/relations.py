"""Edges between entities: at most one of a type is valid at a time."""

from collections.abc import Sequence

from plait.types.relations import Relation


def merge(new: Relation, known: Sequence[Relation], now: int) -> tuple[Relation | None, bool]:
    """Return the edge to write for a new one, if any, and whether it is a new edge.

    A valid edge is updated with the given fields. An edge that was created at the same moment is
    the same edge, also in another memory.

    Args:
        new: The edge, with the ids of its ends; ``created_at`` is 0 unless it is imported.
        known: The stored edges of the same ends and type, as first written.
        now: The present.
    """
    same = next((edge for edge in known if edge.created_at == new.created_at), None)
    if new.created_at and same is not None:
        if same.valid_to is not None and new.valid_to is None:
            return None, False  # it has ended since then
        if new.valid_to is not None:
            earlier = same.valid_to is None or new.valid_to < same.valid_to
            return (ended(same, new.valid_to) if earlier else None), False
    if new.valid_to is None or new.valid_to > now:
        held = current(known, now)
        if held:
            return _amended(held[0], new), False
    elif any(_content(edge) == _content(new) for edge in known):
        return None, False  # a past that is known already
    latest = max((edge.created_at for edge in known), default=0)
    return new._replace(created_at=new.created_at or max(now, latest + 1)), True


def current(known: Sequence[Relation], now: int) -> list[Relation]:
    """Return the edges that have not ended, those without an end first."""
    open_ = [edge for edge in known if edge.valid_to is None or edge.valid_to > now]
    return sorted(open_, key=lambda edge: edge.valid_to is not None)


def ended(edge: Relation, moment: int) -> Relation:
    """Return an edge that ends at a moment, never before it began."""
    begun = moment if edge.valid_from is None else edge.valid_from
    return edge._replace(valid_to=max(moment, begun))


def _content(edge: Relation) -> tuple[str | None, int | None, int | None]:
    return edge.context, edge.valid_from, edge.valid_to


def _amended(held: Relation, new: Relation) -> Relation | None:
    """Return an edge with the given fields; the others stay."""
    amended = held._replace(
        context=held.context if new.context is None else new.context,
        valid_from=held.valid_from if new.valid_from is None else new.valid_from,
        valid_to=held.valid_to if new.valid_to is None else new.valid_to,
    )
    return None if amended == held else amended
