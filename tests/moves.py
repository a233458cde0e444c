"""Memories to move: with something in every table, and how they are compared."""

from array import array
from pathlib import Path
from typing import Any

from plait.exporting import migrating
from plait.memory import Memory
from plait.protocols import Entry, Store
from plait.stores.moving import TABLES, Row
from plait.stores.sqlite.store import SQLiteStore
from plait.testing.hashing import HashingEmbedder
from plait.text import plain
from plait.types import Space
from plait.types.ids import is_address, new_id
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from plait.types.steps import Step
from tests import servers
from tests.builders import EVERYTHING, entry, memory_on, write

DIMS = 16
OTHER = Space("test", "half built", 4)
# What PostgreSQL cannot keep as it is, and the mark by which it is kept.
ODD = "ab \ue000 \ue001\ue002 日本語 naïve"
WORDS = [
    "anchor",
    "basket",
    "copper",
    "dragon",
    "ember",
    "falcon",
    "garden",
    "harbor",
    "island",
    "jacket",
    "kettle",
]


def text_of(number: int) -> str:
    """A text of several words that no other number has in this order."""
    return " ".join(WORDS[(number * step + step * step) % len(WORDS)] for step in range(1, 9))


def new_place(folder: Path, kind: str) -> str:
    """A place where no memory is yet."""
    return servers.address(new_id()) if kind == "database" else str(folder / f"{new_id()}.db")


def open_store(place: str) -> Store:
    """The store at a place."""
    if is_address(place):
        from plait.stores.postgres.store import PostgresStore

        return PostgresStore(place)
    return SQLiteStore(place)


def open_at(place: str) -> Memory:
    """A memory at a place, with its embedder."""
    return memory_on(open_store(place), HashingEmbedder(DIMS))


def furnish(place: str, notes: int = 12) -> None:
    """Make a memory that has a row in every table."""
    with open_at(place) as memory:
        for number in range(notes):
            memory.store(text_of(number), key=f"note {number}", tags=["ops", f"t{number % 3}"])
        memory.store(f"{ODD} text", key="odd", title=ODD, tags=[ODD], metadata={ODD: ODD})
        odd: dict[str, Any] = {
            "title": "a\0",
            "tags": ("x\0y", "\ue000"),
            "metadata": {"n\0": "\ue000\0"},
        }
        write(memory.engine, entry("nul", "word\0 word", heading="h\0", **odd))
        memory.store("???", key="marks only")
        memory.store("The sky is grey.", topic="sky", importance=0.25)
        memory.store("The sky is blue.", topic="sky", pinned=True)
        memory.store("Said by nobody known.", trust="untrusted")
        memory.mark("note 1", status="done")
        memory.graph.create(
            [NewEntity("Ana", "person", ("Ana sails.",)), NewEntity("Bo", "person", ("Bo rows.",))]
        )
        memory.graph.relate([Relation("Ana", "Bo", "knows", "from school")])
        messages = [{"role": role, "content": f"{role} {ODD}"} for role in ("user", "assistant")]
        memory.add_messages(messages, session="s1")
        memory.search("anchor basket")
        memory.get("note 3")
        for name in ("note 3", "note 4"):
            memory.feedback(name, "good")
        memory.delete("note 5")
        memory.graph.create([NewEntity("Cy", "person", ("Cy swims.",))])
        memory.graph.relate([Relation("Cy", "Bo", "likes", None)])
        memory.delete("Cy")
        _beside(memory)


def _beside(memory: Memory) -> None:
    """Add what programs keep in a memory: steps, marks, cached vectors, vectors being built."""
    store = memory.engine
    [message] = [row for row in store.scan(EVERYTHING) if row.kind == "message"][:1]
    refs = [passage.ref for passage in store.passages(message.id)]
    hits = [ref for ref, _ in store.keyword(plain("anchor basket copper"), 4, EVERYTHING)]
    with store.transaction() as tx:
        steps = [Step("Bash", None, "make " + ODD, "make", 1, "KeyError", 7), Step("Read", "a/b")]
        tx.write(Entry(message, tx.passages(message.id), steps=steps))
        tx.remember(**{"history:codex:/a/\ue000": "{}", "history:b": ODD}, chance='["?"]')
        tx.cache({"0a": array("f", [0.5, 1.0]), "ff": array("f", [2.0])}, [], 100)
        tx.touch([hits, refs])
        tx.begin(OTHER, sample=array("f", [1.0, 0.0, 0.0, 0.5]))
    waiting = store.pending(OTHER, 6, building=True)
    with store.transaction() as tx:
        made = [(row, array("f", [1.0, -1.0, 0.5, 0.0])) for row in waiting[1:]]
        tx.fill(OTHER, [(waiting[0], None), *made], building=True)


def rows_of(place: str) -> dict[str, set[Row]]:
    """All rows of a memory, by table."""
    opened = migrating._rows_at(place, create=False, timeout=5.0)
    try:
        with opened.reading() as reader:
            return {table.name: {*migrating._all(reader, table)} for table in TABLES}
    finally:
        opened.close()


def is_sound(place: str) -> bool:
    """Whether the memory at a place has no fault."""
    store = open_store(place)
    try:
        return [row for row in store.check() if row.level == "error"] == []
    finally:
        store.close()
