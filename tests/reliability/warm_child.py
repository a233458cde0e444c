"""Processes that write vectors of many blocks at once, and one that searches them, always warm."""

import math
from multiprocessing.connection import Connection
from pathlib import Path

from plait.protocols import Unembedded, Vector
from plait.stores.sqlite import signs, vectors
from plait.stores.sqlite.store import SQLiteStore
from plait.types import Filter, Space
from tests.builders import entry, refs_of, write

DIMS = 8
SPACE = Space("test", "warm", DIMS)
BLOCK = 4
GROUP = [f"member {number}" for number in range(6 * BLOCK)]
CLOCK = "clock"
LAST_ROUND = 40
EVERYTHING = Filter()


def of_round(number: int) -> Vector:
    """A vector whose cosine with that of round 0 falls with each round."""
    angle = number / LAST_ROUND
    return Vector("f", [math.cos(angle), math.sin(angle), *[0.0] * (DIMS - 2)])


def prepare(path: Path, least: int) -> None:
    """A memory in round 0: a clock, and a group that fills several blocks."""
    store = open_small(path, least)
    clock = entry(CLOCK, "x", title="0", vectors=[None], space=SPACE)
    members = [entry(name, "x", vectors=[of_round(0)], space=SPACE) for name in GROUP]
    write(store, clock, *members)
    store.tidy()
    store.close()


def open_small(path: Path, least: int) -> SQLiteStore:
    """Open a memory with small blocks, and signs from a size on; only in a process of its own."""
    vectors.BLOCK_ROWS = BLOCK
    signs.LEAST_PASSAGES = least
    return SQLiteStore(str(path), durability="normal")


def time_of(store: SQLiteStore) -> int:
    """The round that is committed now."""
    [(document, _)] = store.find(CLOCK, EVERYTHING)
    return int(document.title)


def turn(pipe: Connection, path: Path, least: int) -> None:
    """Give the whole group the vector of the next round, with the clock, in one transaction."""
    store = open_small(path, least)
    refs = refs_of(store, *GROUP)
    rows = [Unembedded(ref, "", "", "x") for ref in refs]
    [(document, _)] = store.find(CLOCK, EVERYTHING)
    clock = document.id
    pipe.send(("ready",))
    pipe.recv()
    while True:
        with store.transaction() as tx:
            now = time_of(store)
            if now >= LAST_ROUND:
                break
            made = [(row, of_round(now + 1)) for row in rows]
            assert tx.fill(SPACE, made, building=False) == len(rows)
            tx.amend(clock, title=str(now + 1))
    store.close()


def watch(pipe: Connection, path: Path, least: int) -> None:
    """Search until the last round; report every answer that is of no round, or of another."""
    store = open_small(path, least)
    rounds = {round(cosine_of(number), 6): number for number in range(LAST_ROUND + 1)}
    assert len(rounds) == LAST_ROUND + 1
    seen: set[int] = set()
    before = 0
    while before < LAST_ROUND:
        before = time_of(store)
        hits, _, _, approximate = store.vector(of_round(0), SPACE, len(GROUP), EVERYTHING)
        assert approximate == (least <= len(GROUP))
        after = time_of(store)
        told = {rounds.get(round(cosine, 6)) for _, cosine in hits}
        [number] = told if len(told) == 1 else [None]
        if len(hits) != len(GROUP) or number is None or not before <= number <= after:
            pipe.send(("wrong", before, sorted(map(str, told)), len(hits), after))
            return
        if not seen:
            pipe.send(("ready",))
            pipe.recv()
        seen.add(number)
    pipe.send(("seen", len(seen)))
    store.close()


def cosine_of(number: int) -> float:
    """What a search tells of a round."""
    rows = memoryview(vectors.quantise(of_round(number), DIMS))
    [distance] = vectors.kernel()(vectors.quantise(of_round(0), DIMS), rows, DIMS)
    return 1.0 - distance
