"""Two engines that get the same operations: what they answer, as plain values, and how it differs.

Ids and the time of day are the same for both: each operation begins with the same random bytes and
lasts no time. Numbers of passages differ, so passages are named by their ids.
"""

import math
import re
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Any

import pytest

from plait.errors import PlaitError
from plait.memory import Memory
from plait.protocols import Nearest, Scored, State, Store
from plait.testing.hashing import HashingEmbedder
from plait.types import Hit, Passage, Ref, ids
from tests.builders import EVERYTHING, NOW, memory_on

# The addition of floats in another order.
SLACK = 1e-6
BM25_SLACK = 1e-9
# What two engines need not have in common: sizes, names, versions, clocks, and hashes with a key.
# Cosines differ by up to a millionth; spread over the whole range from 0 to 1, by more, and two
# that are as near as that may change places.
_OWN = {
    "Stats": {"db_size_bytes", "free_bytes", "path", "schema"},
    "Receipt": {"milliseconds"},
    "AuditEntry": {"before", "after"},
    "Passage": {"ref"},
    "Signals": {"vector", "vector_rank"},
    "State": {"remote"},
    "Unembedded": {"ref"},
    "Erasure": {"copies"},
    "Deleted": {"copies"},
    "Trashed": {"place"},
    "RecalledItem": {"refs"},
    "Recalled": {"refs"},
}
PROJECTS = ("", "heron", "plover")
_NUMBER = re.compile(r"\d+\.\d+")


class World:
    """The time of day and the randomness of ids, for both engines."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = NOW
        self._bytes = Random(0)
        monkeypatch.setattr(time, "time_ns", lambda: self.now * 1_000_000)
        monkeypatch.setattr(ids, "urandom", lambda count: self._bytes.randbytes(count))

    def begin(self, number: int) -> None:
        """Let the next operation draw the same ids on every engine."""
        self._bytes = Random(number)


class Side:
    """One engine, with a memory for each project."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.dims = 64
        self._memories: dict[str, Memory] = {}

    def memory(self, project: str = "") -> Memory:
        if project not in self._memories:
            embedder = HashingEmbedder(self.dims)
            self._memories[project] = memory_on(self.store, embedder, project=project)
        return self._memories[project]

    def use_embedder(self, dims: int) -> None:
        for memory in self._memories.values():
            memory.write_down_use()
        self.dims = dims
        self._memories.clear()

    def reopen(self, store: Store) -> None:
        self.use_embedder(self.dims)
        self.store.close()
        self.store = store

    def named(self, refs: Iterable[Ref]) -> dict[Ref, str]:
        """The ids of passages by their numbers here."""
        listed = list(refs)
        return {ref: row.passage.id for ref, row in self.store.hydrate(listed).items()}

    def scored(self, hits: Iterable[Scored]) -> list[tuple[str, float]]:
        listed = list(hits)
        names = self.named(ref for ref, _ in listed)
        return [(names[ref], score) for ref, score in listed]

    def nearest(self, near: Nearest, limit: int) -> tuple[object, ...]:
        """The cosines of the nearest, in order, and whose they are.

        Two that differ by less than a millionth may change places, and the last one of a full list
        may be another one.
        """
        names = self.named(near.cosines)
        cosines = {names[ref]: cosine for ref, cosine in near.cosines.items()}
        last = near.hits[-1][1] + SLACK if len(near.hits) == limit else 0.0
        nearest = {names[ref] for ref, cosine in near.hits if cosine > last}
        others = cosines.keys() - {names[ref] for ref, _ in near.hits}
        listed = {name: cosines[name] for name in sorted({*nearest, *others})}
        return [cosine for _, cosine in near.hits], sorted(nearest), listed

    def refs(self, passages: Iterable[str]) -> list[Ref]:
        """The numbers here of passages that are named by their ids."""
        wanted = set(passages)
        return [
            passage.ref
            for document in self.store.scan(EVERYTHING)
            for passage in self.store.passages(document.id)
            if passage.id in wanted
        ]


def outcome(act: Callable[[], object]) -> object:
    """What an operation returns, as plain values, or its error."""
    try:
        return plain(act())
    except PlaitError as error:
        return ("error", type(error).__name__, error.code)


def plain(value: object) -> object:
    """Return a value without what engines need not have in common."""
    if isinstance(value, Passage):
        value = value._replace(ref=0)
    if isinstance(value, State):
        # Only SQLite draws other ids before these.
        value = value._replace(purged=value.purged and "drawn", retired=value.retired and "drawn")
    if isinstance(value, Hit):
        # Other numbers of a hit are compared; these are rounded.
        value = value._replace(reasons=tuple(_NUMBER.sub("#", row) for row in value.reasons))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        name = type(value).__name__
        left = [field for field in value._fields if field not in _OWN.get(name, ())]
        return (name, *(plain(getattr(value, field)) for field in left))
    if hasattr(value, "receipt"):
        return (plain(list(value)), plain(value.receipt))  # type: ignore[call-overload]
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in sorted(value.items(), key=repr)}
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value), key=repr)
    if isinstance(value, array):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


def differences(first: object, second: object, place: str = "", slack: float = SLACK) -> list[str]:
    """Return where two plain values differ, each with both values."""
    return list(_differences(first, second, place, slack))


def _differences(first: Any, second: Any, place: str, slack: float) -> Iterator[str]:
    if isinstance(first, float) or isinstance(second, float):
        same = _is_close(first, second, slack)
    elif type(first) is not type(second):
        same = False
    elif isinstance(first, dict) and first.keys() == second.keys():
        for key in first:
            yield from _differences(first[key], second[key], f"{place}.{key}", slack)
        return
    elif isinstance(first, list | tuple) and len(first) == len(second):
        for number, pair in enumerate(zip(first, second, strict=True)):
            yield from _differences(*pair, f"{place}[{number}]", slack)
        return
    else:
        same = first == second
    if not same:
        yield f"{place}: {first!r} | {second!r}"


def _is_close(first: object, second: object, slack: float) -> bool:
    numbers = isinstance(first, int | float) and isinstance(second, int | float)
    return numbers and math.isclose(first, second, rel_tol=0.0, abs_tol=slack)  # type: ignore[arg-type]
