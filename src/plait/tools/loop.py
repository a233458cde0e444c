"""A turn of an agent's own loop: recall, prompt, answer, save.

For programs that call a model themselves. Nothing here asks one: the program brings the function
that does.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from plait.errors import Notice, PlaitError
from plait.facts.masking import masked
from plait.searching.recall import DEFAULT_RECALLED
from plait.searching.where import Where
from plait.types.records import NamedTuple

if TYPE_CHECKING:
    from plait.memory import Memory
    from plait.memory.responses import ResponseCache
    from plait.types import Filter
    from plait.types.reports import Stored


class Prompt(NamedTuple):
    """What a person typed, and what the memory knows about it, fenced; as a text, both.

    ``context`` is empty if there is nothing, and alone it fits into a system prompt. ``notices``
    tell what failed or was degraded.
    """

    text: str
    context: str = ""
    notices: tuple[Notice, ...] = ()

    def __str__(self) -> str:
        return f"{self.context}\n\n{self.text}" if self.context else self.text


class TurnTaken(NamedTuple):
    """A whole turn: the prompt that was answered, the answer, and what was saved of it.

    ``cached``: the same prompt was answered before, and nobody was asked.
    """

    prompt: Prompt
    answer: str
    saved: "tuple[Stored, ...]" = ()
    notices: tuple[Notice, ...] = ()
    cached: bool = False


def with_context(
    memory: "Memory",
    text: str,
    *,
    limit: int = DEFAULT_RECALLED,
    budget_tokens: int | None = None,
    min_score: float | None = None,
    where: "Filter | Where | None" = None,
) -> Prompt:
    """Return a prompt with what the memory knows about it; without secrets, for it leaves you.

    A memory that fails does not stop the turn: the context is empty, and a notice tells why.

    Args:
        memory: An open memory.
        text: What the person typed.
        limit: How many hits at most.
        budget_tokens: Maximum size of the context; 1,500 by default.
        min_score: Minimum `relevance` of a hit; by default, no weak ones.
        where: Which documents count, as for `Memory.recall`.
    """
    if not text.strip():
        return Prompt(text)
    try:
        recalled = memory.recall(
            text, limit=limit, budget_tokens=budget_tokens, min_score=min_score, where=where
        )
    except PlaitError as error:
        told = f"The memory was not searched: {error.notice.text}"
        return Prompt(text, notices=(error.notice._replace(text=told),))
    return Prompt(text, masked(recalled.text)[0], tuple(recalled.receipt.degraded))


def remember_turn(
    memory: "Memory", session: str, text: str, answer: str = ""
) -> "tuple[Stored, ...]":
    """Append a question and its answer to a session, if the setting ``auto_save`` is on.

    Secrets are masked, and text that was recalled is left out: nobody looks at what is saved.
    Returns what was stored; nothing if ``auto_save`` is off or the memory is read-only.
    """
    settings = memory.config.settings
    if not settings.auto_save or settings.read_only:
        return ()
    spoken = (("user", text), ("assistant", answer))
    messages = [{"role": role, "content": masked(part)[0]} for role, part in spoken if part.strip()]
    return tuple(memory.add_messages(messages, session=session)) if messages else ()


def take_turn(
    memory: "Memory", session: str, text: str, answer: Callable[[str], str], *, model: str = ""
) -> TurnTaken:
    """Recall what belongs to a text, have it answered, save the turn, and return all of it.

    >>> from plait import Memory
    >>> with Memory.open(":memory:", project="") as memory:
    ...     _ = memory.store("We deploy on Fridays.")
    ...     turn = take_turn(memory, "s1", "When do we deploy?", lambda prompt: prompt[-18:])
    >>> turn.answer, "We deploy on Fridays." in turn.prompt.context, turn.saved
    ('When do we deploy?', True, ())

    Args:
        memory: An open memory; its setting ``auto_save`` decides whether the turn is saved.
        session: The name of the conversation.
        text: What the person typed.
        answer: Gets the prompt and returns the model's answer. What it raises is passed on, and
            nothing is saved.
        model: The name of whoever answers. With it, and the setting ``response_cache_enabled``, a
            prompt that was answered before in this project and session is answered from the cache.
    """
    cache = _cache_of(memory, model)
    prompt = with_context(memory, text)
    answered, cached = _answered(cache, session, str(prompt), answer, model)
    try:
        saved = remember_turn(memory, session, text, answered)
    except PlaitError as error:
        told = f"This turn was not saved: {error.notice.text}"
        notices = (*prompt.notices, error.notice._replace(text=told))
        return TurnTaken(prompt, answered, notices=notices, cached=cached)
    return TurnTaken(prompt, answered, saved, prompt.notices, cached)


def _cache_of(memory: "Memory", model: str) -> "ResponseCache | None":
    """Return the response cache, if this turn may use it."""
    if not (model and memory.config.settings.response_cache_enabled):
        return None
    from plait.memory.responses import response_cache

    return response_cache(memory)


def _answered(
    cache: "ResponseCache | None",
    session: str,
    prompt: str,
    answer: Callable[[str], str],
    model: str,
) -> tuple[str, bool]:
    """Return the answer to a prompt, and whether it is a cached one."""
    if cache is None:
        return answer(prompt), False
    from plait.memory.responses import response_key

    # Whoever answers may know the session's earlier turns, which the prompt does not show.
    turns = [("user", prompt)]
    key = response_key(model, "", turns, project=cache.project, session=session)
    known = cache.get(key)
    if known is not None:
        return known.text, True
    answered = answer(prompt)
    cache.put(key, answered)
    return answered, False
