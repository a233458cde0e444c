"""The cache of a model's answers, for prompts that are asked again word for word.

It is kept in the memory, because answers repeat what is remembered: a purge clears it. Of the
prompt only a hash is kept.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256

from plait.errors import StoreError
from plait.facts.credentials import secret_kinds
from plait.facts.echo import untagged
from plait.memory import Memory
from plait.times import LAST_MOMENT
from plait.types.ids import CACHED_ANSWER, SCOPE_PREFIX
from plait.types.records import NamedTuple
from plait.writing.documents import now_ms

_MINUTE_MS = 60_000
# Characters of an answer that is cached: a longer one is rarely asked for twice.
MOST_CACHED_CHARS = 100_000
# What is known of an answer beside its text: how many numbers.
_NUMBERS = 3


class CachedAnswer(NamedTuple):
    """An answer that was given before: when, how often it was used since, and when last."""

    text: str
    made_at: int
    hits: int = 0
    used_at: int = 0


def response_key(
    model: str,
    system: str,
    turns: Sequence[Sequence[object]],
    *,
    project: str | None = None,
    session: str = "",
) -> str:
    """Return the name of a prompt: that of another model, or with one word more, is another.

    The same words in another project are another prompt, and so they are in another session where
    the turns before are not among ``turns``. The tags of recalled text are random, and do not
    count.

    >>> one = response_key("m", "Be brief.", [("user", "Hi")])
    >>> one == response_key("m", "Be brief.", [("user", "Hi")]) != response_key("m", "", [])
    True
    """
    plain = [[untagged(part) if isinstance(part, str) else part for part in turn] for turn in turns]
    text = json.dumps([project, session, model, untagged(system), plain], default=str)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def response_cache(memory: Memory) -> "ResponseCache | None":
    """Return the cache, if the person wants one and this memory can have it.

    Not in a user's scope, nor in a memory with members: a purge by one of them would not reach the
    answers that others were given.
    """
    settings = memory.config.settings
    if not settings.response_cache_enabled or settings.read_only or memory.is_off:
        return None
    if not memory.is_there or (memory.config.project or "").startswith(SCOPE_PREFIX):
        return None
    try:
        return None if memory._members.has_members else ResponseCache(memory)
    except StoreError:  # whatever is wrong with the memory, a model can be asked
        return None


class ResponseCache:
    """The cached answers of one memory.

    Open it before anything is recalled: after a purge it keeps no answer, since one may be to a
    prompt that still held what was purged.
    """

    def __init__(self, memory: Memory) -> None:
        self.project = memory.config.project
        self._store = memory._required()
        self._members = memory._members
        self._purged = self._store.state().purged
        settings = memory.config.settings
        self._most = settings.response_cache_max_entries
        self._lasts_ms = settings.response_cache_ttl_minutes * _MINUTE_MS

    def get(self, key: str) -> CachedAnswer | None:
        """Return an answer that is young enough, and count that it was used."""
        name = CACHED_ANSWER + key
        known = _parsed(self._kept(name).get(name, ""))
        now = now_ms()
        if known is None or not self._is_fresh(known, now):
            return None
        counted = known._replace(hits=known.hits + 1, used_at=now)
        self._write({name: json.dumps(counted)}, unless_purged=True)
        return counted

    def put(self, key: str, text: str) -> None:
        """Keep an answer; those that are too old, or beyond the limit, make room for it.

        One with a secret is not kept: a model may repeat what nobody wanted to store.
        """
        if not text.strip() or len(text) > MOST_CACHED_CHARS or secret_kinds(text):
            return
        now = now_ms()
        name = CACHED_ANSWER + key
        kept = {CACHED_ANSWER + key: CachedAnswer(text, now, used_at=now)}
        gone: dict[str, str | None] = {}
        for other, value in self._kept(CACHED_ANSWER).items():
            row = _parsed(value)
            if other != name and row is not None and self._is_fresh(row, now):
                kept[other] = row
            elif other != name:
                gone[other] = None
        oldest = sorted(kept, key=lambda other: (kept[other].used_at, other))
        gone |= dict.fromkeys(oldest[: max(0, len(kept) - self._most)])
        values = {**gone, name: None if name in gone else json.dumps(kept[name])}
        self._write(values, unless_purged=True)

    def clear(self) -> tuple[int, int]:
        """Drop every answer; return how many there were, and how often they were used."""
        rows = self._store.remembered(CACHED_ANSWER)
        hits = sum(row.hits for row in map(_parsed, rows.values()) if row is not None)
        if rows:
            with self._store.transaction() as transaction:
                transaction.remember(**dict.fromkeys(rows))
        return len(rows), hits

    def drop_expired(self) -> int:
        """Drop answers that are too old; return how many."""
        now = now_ms()
        old = [
            name
            for name, value in self._store.remembered(CACHED_ANSWER).items()
            if (row := _parsed(value)) is None or not self._is_fresh(row, now)
        ]
        if old:
            self._write(dict.fromkeys(old))
        return len(old)

    def _is_fresh(self, answer: CachedAnswer, now: int) -> bool:
        # One from the future is of a clock that was ahead: it would stay for as long again.
        return answer.made_at <= now < answer.made_at + self._lasts_ms

    # An answer is worth more than its copy: a memory that is away, busy or full does not stop it.

    def _kept(self, prefix: str) -> dict[str, str]:
        with suppress(StoreError):
            return self._store.remembered(prefix)
        return {}

    def _write(self, values: dict[str, str | None], *, unless_purged: bool = False) -> None:
        with suppress(StoreError), self._store.transaction() as transaction:
            # subtle: the first member may have come, or a text have gone, during a conversation.
            # Asked inside the transaction: whoever comes later drops what it has written.
            if unless_purged and (
                transaction.state.purged != self._purged or self._members.has_members
            ):
                return
            transaction.remember(**values)


def _parsed(value: str) -> CachedAnswer | None:
    """Return what `put` has written; ``None`` for anything else, as in a file of somebody else."""
    try:
        text, *numbers = json.loads(value)
    except (ValueError, TypeError, RecursionError):
        return None
    is_sound = type(text) is str and all(
        type(number) is int and 0 <= number <= LAST_MOMENT for number in numbers
    )
    return CachedAnswer(text, *numbers) if is_sound and len(numbers) == _NUMBERS else None
