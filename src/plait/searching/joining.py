"""Read consecutive passages, and put them together again."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from plait.protocols import Store
from plait.types import Hit, Passage

if TYPE_CHECKING:
    from plait.protocols import ReadAhead


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


def widened(store: Store, ahead: "ReadAhead | None", hits: Sequence[Hit], window: int) -> list[Hit]:
    """Return hits with their neighbours' texts, overlaps merged."""
    spans = [
        (hit.document.id, hit.passage.ordinal - window, hit.passage.ordinal + window)
        for hit in hits
    ]
    around = spans_of(store, ahead, spans)
    return [
        hit._replace(context=join(passages)) for hit, passages in zip(hits, around, strict=True)
    ]


def spans_of(
    store: Store, ahead: "ReadAhead | None", spans: Sequence[tuple[str, int, int]]
) -> list[list[Passage]]:
    """Return passages of several documents: each an id, a first and a last ordinal."""
    return [store.passages(*span) for span in spans] if ahead is None else ahead.spans(spans)
