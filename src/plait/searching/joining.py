"""Read consecutive passages, and put them together again."""

from collections.abc import Sequence

from plait.protocols import Store
from plait.types import Passage


def join(passages: Sequence[Passage]) -> str:
    """Return consecutive passages as one text."""
    parts: list[str] = []
    reached: int | None = None
    for passage in passages:
        text = passage.text
        if reached is not None and passage.start < reached:
            text = text[reached - passage.start :]
        parts.append(text)
        reached = max(reached or 0, passage.start + len(passage.text))
    return "".join(parts)


def spans_of(store: Store, spans: Sequence[tuple[str, int, int]]) -> list[list[Passage]]:
    """Return passages of several documents: each an id, a first and a last ordinal."""
    ahead = store.ahead
    return [store.passages(*span) for span in spans] if ahead is None else ahead.spans(spans)
