"""The name of a session in the memory: the same for an import and for a hook."""

from plait.facts.credentials import secret_kinds
from plait.text import clean


def session_name(agent: str, id_: str) -> str:
    """Return the name of an agent's session; an id that holds a secret is replaced.

    >>> session_name("codex", "019a")
    'codex:019a'
    """
    if secret_kinds(id_):
        from plait.agents.histories.values import hashed

        id_ = hashed(id_)
    return clean(f"{agent}:{id_}")
