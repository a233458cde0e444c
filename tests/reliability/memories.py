"""Small memories for the harnesses: how they are opened, what is put in, and what must hold."""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import apsw

from plait.memory import Memory
from plait.settings.loading import Config
from plait.settings.schema import Settings
from plait.stores.sqlite.store import SQLiteStore
from plait.testing import HashingEmbedder
from plait.types import TRUSTS, Document, Filter
from plait.writing.documents import now_ms

DIMS = 64
OTHER_DIMS = 128
PASSAGE_CHARS = 200  # several passages per document, so that half of one would be seen
EVERYTHING = Filter(trusts=TRUSTS, all_versions=True)
WORDS = (
    *("anchor", "basket", "copper", "dragon", "ember", "falcon", "garden", "harbor", "island"),
    *("jacket", "kettle", "ladder", "marble", "needle", "orchid", "pepper", "quartz", "ribbon"),
    *("saddle", "timber", "umbrella", "velvet", "willow", "zephyr"),
)

Contents = dict[str, str]


def settings(path: Path, *, durability: str = "full", timeout: float = 30.0) -> Config:
    """Settings that owe nothing to the machine the test runs on."""
    chosen = Settings(
        db_path=str(path),
        chunk_size=PASSAGE_CHARS,
        chunk_overlap=20,
        durability="full" if durability == "full" else "normal",
        sqlite_open_timeout_secs=timeout,
    )
    return Config(chosen, {}, (), None, ())


def open_memory(path: Path, dims: int = DIMS, *, durability: str = "full") -> Memory:
    """A memory through the door that everybody uses."""
    config = settings(path, durability=durability)
    return Memory.open(embedder=HashingEmbedder(dims), config=config)


def open_to_read(path: Path, dims: int = DIMS) -> Memory:
    """A memory through the door of those who must not write."""
    return Memory.open(embedder=HashingEmbedder(dims), config=settings(path), read_only=True)


def open_specially(
    path: Path,
    dims: int = DIMS,
    *,
    durability: str = "full",
    vfs: str | None = None,
    clock: Callable[[], int] = now_ms,
) -> Memory:
    """A memory on another VFS or clock, which the front door does not offer."""
    store = SQLiteStore(str(path), durability=durability, vfs=vfs, clock=clock)
    config = settings(path, durability=durability)
    return Memory(store, HashingEmbedder(dims), config, path=str(path))


def store_of(memory: Memory) -> SQLiteStore:
    """The store behind a memory."""
    store = memory.engine
    assert isinstance(store, SQLiteStore)
    return store


def connection_of(memory: Memory) -> apsw.Connection:
    """The connection of this thread."""
    return store_of(memory)._connections.get()


def prose(token: str, sentences: int = 9) -> str:
    """A text that can be told whole from broken: all of it follows from the token, which stands in
    every sentence and therefore in every passage."""
    dice = random.Random(token)
    lines = []
    for number in range(sentences):
        some = " ".join(dice.choices(WORDS, k=7))
        lines.append(f"{token} {number} {some}.")
    return "\n".join(lines) + "\n"


def name_of(document: Document) -> str:
    """What a document is called in a ledger; an observation has only its text."""
    if document.kind == "observation":
        return f"observation:{token_of(document.text)}"
    return f"{document.kind}:{document.key}"


def contents(memory: Memory) -> Contents:
    """Every document's name and text, as the memory has them."""
    return {name_of(document): document.text for document in documents(memory)}


def documents(memory: Memory) -> list[Document]:
    """Every document, whole."""
    store = store_of(memory)
    return store.load([document.id for document in store.scan(EVERYTHING)])


def faults(memory: Memory) -> list[str]:
    """Everything that is wrong with a memory by itself: ghosts, pieces, twins, miscounts."""
    problems = [
        f"{finding.check}: {finding.message}"
        for finding in memory.doctor()
        if finding.level == "error" or (finding.check == "counts" and finding.level != "ok")
    ]
    whole = documents(memory)
    twins = [name for name, count in Counter(map(name_of, whole)).items() if count > 1]
    problems += [f"{name} is there twice" for name in twins]
    for document in whole:
        passages = memory.passages_of(document.id)
        if len(passages) != document.chunk_count or not passages:
            problems.append(f"{name_of(document)} has {len(passages)} of its passages")
    return problems


def differences(memory: Memory, expected: Contents) -> list[str]:
    """How a memory departs from what it should hold."""
    actual = contents(memory)
    problems = []
    for name in sorted(actual.keys() | expected.keys()):
        if name not in actual:
            problems.append(f"lost: {name}")
        elif name not in expected:
            problems.append(f"back from the dead: {name}")
        elif actual[name] != expected[name]:
            problems.append(f"not the text that was stored: {name}")
    return problems


def token_of(text: str) -> str:
    """The word that only this text holds; empty for an empty text."""
    return text.partition(" ")[0]


def unsearchable(memory: Memory, expected: Contents, tokens: Mapping[str, str]) -> list[str]:
    """Documents that are stored but not found by their token, or found though they are gone.

    ``tokens`` gives, for each token to try, the name of the document it was written into.
    """
    problems = []
    for token, name in tokens.items():
        hits = memory.search(token, mode="keyword", limit=100)
        ids = list(dict.fromkeys(hit.document.id for hit in hits))
        named = {name_of(document) for document in store_of(memory).load(ids)}
        stored = token in expected.get(name, "").split()
        if stored and name not in named:
            problems.append(f"stored but not found by {token}: {name}")
        if not stored and name in named:
            problems.append(f"gone but found by {token}: {name}")
        if any(token not in hit.text for hit in hits):
            problems.append(f"found by {token}, which it does not hold: {name}")
    return problems


def documents_per_transaction(memory: Memory, act: Callable[[], object], kind: int) -> list[int]:
    """How many documents each transaction of an act adds or deletes, of those that do."""
    connection = connection_of(memory)
    counts = [0]

    def changed(change: int, _: str, table: str, __: int) -> None:
        counts[-1] += table == "documents" and change == kind

    def committing() -> bool:
        counts.append(0)
        return False

    connection.set_update_hook(changed)
    connection.set_commit_hook(committing)
    act()
    connection.set_update_hook(None)
    connection.set_commit_hook(None)
    return [count for count in counts if count]
