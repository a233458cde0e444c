"""A chat model whose answers are cached, if the person wants that."""

from collections.abc import Iterator, Sequence

from plait.chat.turns import ChatTurn, Model, ModelCall, Part
from plait.errors import Notice
from plait.memory.responses import CachedAnswer, ResponseCache, response_key
from plait.times import show_time

# The code of the notice that an answer is cached.
FROM_CACHE = "cached_answer"


class CachedModel:
    """Answers a request that was made before, word for word, without asking the model again.

    An answer that calls tools is never cached: what it does would not be done. ``hit`` is the
    cached answer that the last request got, ``None`` if the model was asked.
    """

    def __init__(
        self, model: Model, cache: ResponseCache, name: str, *, refresh: bool = False
    ) -> None:
        """Take the model and its full name; with ``refresh`` it is asked, and its answer kept."""
        self._model = model
        self._cache = cache
        self._name = name
        self._refresh = refresh
        self.hit: CachedAnswer | None = None

    def answer(self, system: str, turns: Sequence[ChatTurn], *, tools: bool) -> Iterator[Part]:
        """Yield the parts of the next answer."""
        name, project = f"{self._name} {tools}", self._cache.project
        key = response_key(name, system, [_named(turn) for turn in turns], project=project)
        self.hit = None if self._refresh else self._cache.get(key)
        if self.hit is not None:
            yield self.hit.text
            return
        pieces: list[str] = []
        is_whole = True
        for part in self._model.answer(system, turns, tools=tools):
            if isinstance(part, str):
                pieces.append(part)
            elif isinstance(part, ModelCall | Notice):
                is_whole = False
            yield part
        if is_whole:
            self._cache.put(key, "".join(pieces))

    def close(self) -> None:
        """Close the connection."""
        self._model.close()


def _named(turn: ChatTurn) -> tuple[object, ...]:
    """Return what of a turn counts; the ids of calls are random."""
    calls = [(call.name, call.arguments) for call in turn.calls]
    return turn.role, turn.text, calls, turn.tool, turn.is_error


def cache_notice(hit: CachedAnswer) -> Notice:
    """Say that an answer is an earlier one, from when, and how often it was used since."""
    when = show_time(hit.made_at)[:16].replace("T", " ")
    times = "once" if hit.hits == 1 else f"{hit.hits:,} times"
    return Notice(f"This answer is from the cache: made {when}, used {times}.", FROM_CACHE)
