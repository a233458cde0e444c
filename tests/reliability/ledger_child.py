"""The processes of the load test: writers with a ledger each, and readers who believe nothing."""

import random
import re
import time
from multiprocessing.connection import Connection
from pathlib import Path

import apsw

from plait.errors import NotFound
from plait.memory import Memory
from plait.types import Document
from tests.reliability import memories, plants

KEYS_PER_WRITER = 12
# A busy machine may give a process no time for more than a few: not enough to meet another's.
LEAST_OPERATIONS = 60
TOKEN = re.compile(r"w\d+[ko]\d+(?:v\d+)?").findall
WRITERS = 4
# Postings of which the passage is gone, seen in one snapshot: a ghost, not a race.
GHOSTS = (
    "SELECT count(*) FROM passages_fts AS f LEFT JOIN passages AS p ON p.rowid = f.rowid "
    "WHERE passages_fts MATCH ? AND p.rowid IS NULL"
)


def write(pipe: Connection, path: Path, number: int, seconds: float, plant: str) -> None:
    """Store, replace and delete for this long at least; then send the ledger."""
    with plants.planted(plant), memories.open_memory(path) as memory:
        dice = random.Random(number)
        ledger: memories.Contents = {}
        operations = 0
        pipe.send(("ready",))
        pipe.recv()
        end = time.monotonic() + seconds
        while time.monotonic() < end or operations < LEAST_OPERATIONS:
            operations += 1
            key = f"w{number}k{dice.randrange(KEYS_PER_WRITER)}"
            name = f"note:{key}"
            choice = dice.random()
            if choice < 0.25 and name in ledger:
                memory.delete(key, purge=choice < 0.05)
                del ledger[name]
            elif choice < 0.35:
                text = memories.prose(f"w{number}o{operations}", 3)
                memory.store(text)
                ledger[f"observation:{memories.token_of(text)}"] = text
            elif choice < 0.37:
                memory.reindex()
            else:
                text = memories.prose(f"{key}v{operations}", dice.randint(2, 9))
                memory.store(text, key=key)
                ledger[name] = text
        pipe.send(("ledger", ledger, operations))


def read(pipe: Connection, path: Path, number: int, seconds: float) -> None:
    """Search for what the writers may just be changing; every hit must be whole."""
    with memories.open_memory(path) as memory:
        dice = random.Random(number)
        broken: list[str] = []
        searches = hits = 0
        pipe.send(("ready",))
        pipe.recv()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            key = f"w{dice.randrange(WRITERS)}k{dice.randrange(KEYS_PER_WRITER)}"
            answer = memory.search(f"{key} {dice.choice(memories.WORDS)}", limit=5)
            searches += 1
            hits += len(answer)
            broken += [
                f"a passage that nobody wrote: {hit.text!r}"
                for hit in answer
                if not any(hit.text in memories.prose(token, 20) for token in TOKEN(hit.text)[:1])
            ]
            broken += _whole(memory, key)
            if ghosts := _ghosts(memories.connection_of(memory), dice.choice(memories.WORDS)):
                broken.append(f"{ghosts} postings without a passage")
        pipe.send(("read", broken, searches, hits))


def _whole(memory: Memory, key: str) -> list[str]:
    """The whole document, or nothing of it."""
    try:
        document = memory.get(key)
    except NotFound:
        return []
    assert isinstance(document, Document)
    token = memories.token_of(document.text)
    sentences = document.text.count("\n")
    if document.text != memories.prose(token, sentences):
        return [f"{key} is not what anybody stored: {document.text!r}"]
    return []


def _ghosts(connection: apsw.Connection, word: str) -> int:
    return int(connection.execute(GHOSTS, (word,)).get)


def start_first(pipe: Connection, path: Path, number: int, plant: str) -> None:
    """Open a memory that may not exist yet, at the same moment as others, and store one note."""
    pipe.send(("ready",))
    pipe.recv()
    with plants.planted(plant), memories.open_memory(path) as memory:
        memory.store(memories.prose(f"first{number}"), key=f"first{number}")
    pipe.send(("done",))
