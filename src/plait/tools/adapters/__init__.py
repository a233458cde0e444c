"""plait behind the memory interfaces of frameworks, one module each.

A module imports its framework, and says what to install if it is missing. Nothing else in plait
imports these modules, so that no framework is needed without them.
"""

from plait.errors import NotFound
from plait.memory import Memory
from plait.protocols import Store


def store_of(memory: Memory) -> Store | None:
    """Return the store of a memory; ``None`` if nothing is stored yet, or the memory is off.

    That of one user's part of a memory reaches nothing else.
    """
    try:
        return memory._required()
    except NotFound:
        return None
