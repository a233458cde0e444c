"""An entity's profile, its only passage: name, type and current observations."""

from collections.abc import Iterable, Sequence

from plait.errors import Notice, advise
from plait.protocols import Standing
from plait.types import Document, Trust
from plait.types.ids import SHORT_ID

# Text of other trust must not speak in the entity's own name.
SHOWN_TRUST: Trust = "trusted"
PROFILE_CHARS = 2_000
# One long observation must not crowd out all others.
OBSERVATION_CHARS = 400
# A profile never has room for more, so no more are read.
MOST_OBSERVATIONS = 200
# The importance of an observation without one: halfway.
USUAL_IMPORTANCE = 0.5


def compose(name: str, type_: str | None, observations: Iterable[str]) -> str:
    r"""Return a profile: name and type, then one observation per line while there is room.

    >>> compose("Deploy", "process", ["Fridays only", "Ana approves"])
    'Deploy (process)\n- Fridays only\n- Ana approves'
    """
    head = f"{name} ({type_})" if type_ else name
    lines = [head[:PROFILE_CHARS]]
    left = PROFILE_CHARS - len(lines[0])
    for text in observations:
        line = profile_line(text)
        if len(line) < left:
            lines.append(line)
            left -= len(line) + 1
    return "\n".join(lines)


def profile_line(text: str) -> str:
    """Return an observation as a profile shows it."""
    line = "- " + " ".join(text.split())
    return line if len(line) <= OBSERVATION_CHARS else line[: OBSERVATION_CHARS - 1] + "…"


def unshown(profile: str, observations: Iterable[str]) -> int:
    r"""Return how many observations a profile does not show, or not whole.

    >>> unshown("Deploy\n- Fridays only", ["Fridays only", "Ana approves"])
    1
    """
    lines = set(profile.split("\n"))
    return sum("- " + " ".join(text.split()) not in lines for text in observations)


def unshown_notice(entity: Document, observations: Iterable[str]) -> Notice | None:
    """Return how many facts an entity's profile does not show, and where they are."""
    count = unshown(entity.text, observations)
    if not count:
        return None
    what = "fact is" if count == 1 else "facts are"
    return Notice(
        f"{count:,} more {what} known about {entity.id[:SHORT_ID]}.",
        code="more_facts",
        subject=str(count),
        advice=advise("show_facts", name=entity.key or ""),
    )


def prominent(observations: Sequence[Standing]) -> list[str]:
    """Return the ids of the observations that a profile shows, given in the order of writing.

    Pinned ones first, then by importance, then by event, the latest first.

    >>> prominent([Standing("a"), Standing("b"), Standing("c", importance=0.1)])
    ['b', 'a', 'c']
    """
    ordered = sorted(reversed(observations), key=_prominence, reverse=True)
    return [observation.id for observation in ordered[:MOST_OBSERVATIONS]]


def _prominence(observation: Standing) -> tuple[bool, float, int]:
    importance = USUAL_IMPORTANCE if observation.importance is None else observation.importance
    return observation.pinned, importance, observation.event_at or 0
