"""A typed edge between two entities."""

from plait.types.records import NamedTuple


class Relation(NamedTuple):
    """A typed edge between two entities, by their names; ``valid_to`` is exclusive."""

    source: str
    target: str
    type: str
    context: str | None = None
    created_at: int = 0
    valid_from: int | None = None
    valid_to: int | None = None
    source_id: str = ""
    target_id: str = ""
