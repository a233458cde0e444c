"""Put consecutive passages together again."""

from collections.abc import Sequence

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
