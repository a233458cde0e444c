"""What was probably meant by a name that nothing has; looked up only once that has gone wrong.

Names are part of what is stored, so they are suggested at this door only, where its owner reads.
"""

from collections.abc import Sequence

from plait import present, scope
from plait.memory import Memory
from plait.names import nothing_named
from plait.settings import ALMOST_THE_SAME, did_you_mean
from plait.types import Kind

# The newest so many are considered: an answer to a typing error must not take seconds.
LOOKED_AT = 20_000
# So many of the same name in different folders are offered.
OFFERED = 3


def no_entity(memory: Memory, name: str) -> str:
    """That there is no entity of a name, and which one may be meant."""
    said = f"There is no entity named '{name}'. See: plait entity list"
    return with_entity(memory, name, said)


def with_entity(memory: Memory, name: str, said: str) -> str:
    """The refusal of a name, with the entity in it that may be meant."""
    refusal = f"There is no entity named '{name}'."
    if not said.startswith(refusal):
        return said
    names = _keys(memory, ("entity",))
    alike = _alike(name, names)
    hint = did_you_mean(name, names) if not alike else f" Did you mean {alike[0]!r}?"
    return f"{refusal}{hint}{said[len(refusal) :]}"


def with_document(memory: Memory, name: str, said: str) -> str:
    """The refusal of a name, or with it the document that has this name in some folder."""
    if said != nothing_named(name):
        return said
    keys = _keys(memory, ("file", "note"))
    below = f"/{name.casefold()}"
    near = _alike(name, keys) or [key for key in keys if key.casefold().endswith(below)]
    if near:
        offered = " or ".join(present.on_a_line(key) for key in sorted(near, key=len)[:OFFERED])
        return f"Nothing is named '{name}'. Did you mean {offered}?"
    hint = did_you_mean(name, keys, ALMOST_THE_SAME)
    return f"Nothing is named '{name}'.{hint}" if hint else said


def namesake(memory: Memory, name: str) -> str | None:
    """The entity whose name differs from a new one's by its case only."""
    here = scope.to_filter(
        {"kinds": ("entity",), "keys": (name,)}, memory.config.project, all_projects=False
    )
    if memory.engine.scan(here, limit=1):
        return None
    return next(iter(_alike(name, _keys(memory, ("entity",)))), None)


def _alike(name: str, names: Sequence[str]) -> list[str]:
    return [one for one in names if one.casefold() == name.casefold()]


def _keys(memory: Memory, kinds: tuple[Kind, ...]) -> list[str]:
    here = scope.to_filter({"kinds": kinds}, memory.config.project, all_projects=False)
    return [row.key for row in memory.engine.scan(here, limit=LOOKED_AT) if row.key]
