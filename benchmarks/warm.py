"""Operations inside a process that is already running; one of them is measured per process.

    python benchmarks/warm.py OPERATION MEMORY QUESTIONS.json

Prints JSON: CPU milliseconds of each call (or, for rates, how many a CPU second), and the peak
memory of the process in MB. Run by run.py, with the plait that it installed.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))

from measure import cpu_ms, peak_mb

from plait.memory import Memory
from plait.types.reports import NewEntity

WARM_UP = 3  # calls that do not count: the first one loads modules and fills caches
FACTS = 100
STORED_CHARS = 200
Questions = dict[str, list[str]]
# One act after the other, each to be timed.
Acts = Iterator[Callable[[], object]]


def searches(memory: Memory, asked: list[str], **options: Any) -> Acts:
    for query in asked:
        yield lambda query=query: memory.search(query, **options)  # type: ignore[misc]


def recalls(memory: Memory, asked: Questions) -> Acts:
    for query in asked["mixed"]:
        yield lambda query=query: memory.recall(query)  # type: ignore[misc]


def gets(memory: Memory, asked: Questions) -> Acts:
    for key in asked["keys"]:
        yield lambda key=key: memory.get(key)  # type: ignore[misc]


def lists(memory: Memory, asked: Questions) -> Acts:
    for _ in asked["mixed"]:
        yield memory.timeline


def counts(memory: Memory, asked: Questions) -> Acts:
    for _ in asked["mixed"]:
        yield memory.stats


def stores(memory: Memory, asked: Questions) -> Acts:
    for number, text in enumerate(asked["texts"]):
        words = f"Remembered {number}: {text[:STORED_CHARS]}"
        yield lambda words=words: memory.store(words)  # type: ignore[misc]


def facts(memory: Memory, asked: Questions) -> Acts:
    texts = asked["texts"]
    known = tuple(f"Known {n}: {texts[n % len(texts)][-STORED_CHARS:]}" for n in range(FACTS))
    memory.graph.create([NewEntity("Ada", "person", known)])
    for words in (f"Fact {n}: {text[:STORED_CHARS]}" for n, text in enumerate(texts)):
        yield lambda words=words: memory.store(words, entity="Ada")  # type: ignore[misc]


def deletes(memory: Memory, asked: Questions) -> Acts:
    for key in asked["keys"]:
        yield lambda key=key: memory.delete(key)  # type: ignore[misc]


def after_store(memory: Memory, asked: Questions) -> Acts:
    for number, query in enumerate(asked["mixed"]):
        memory.store(f"Note {number} about {query}")
        yield lambda query=query: memory.search(query)  # type: ignore[misc]


OPERATIONS: dict[str, Callable[[Memory, Questions], Acts]] = {
    "search, short question": lambda memory, asked: searches(memory, asked["short"]),
    "search, long question": lambda memory, asked: searches(memory, asked["long"]),
    "by keyword, short question": lambda memory, asked: searches(
        memory, asked["short"], mode="keyword"
    ),
    "by keyword, long question": lambda memory, asked: searches(
        memory, asked["long"], mode="keyword"
    ),
    "by vector": lambda memory, asked: searches(memory, asked["mixed"], mode="vector"),
    "search, 1 % pass the filter": lambda memory, asked: searches(
        memory, asked["narrow"], where={"tags": ("one",)}
    ),
    "search, 50 % pass the filter": lambda memory, asked: searches(
        memory, asked["mixed"], where={"tags": ("half",)}
    ),
    "search, stop words": lambda memory, asked: searches(memory, asked["stop"]),
    "search right after a store": after_store,
    "recall": recalls,
    "get": gets,
    "timeline": lists,
    "stats": counts,
    "store": stores,
    "fact of an entity that has 100": facts,
    "delete": deletes,
}
WRITING = {
    "search right after a store",
    "store",
    "fact of an entity that has 100",
    "delete",
}


def second_search(path: Path, asked: Questions) -> list[float]:
    """The second search of a process, which pays for what the process keeps."""
    costs = []
    for first, second in zip(asked["mixed"][::2], asked["mixed"][1::2], strict=False):
        with opened(path) as memory:
            memory.search(first)
            costs.append(cpu_ms(lambda: memory.search(second)))  # noqa: B023
    return costs


def ingested(path: Path, folder: Path) -> list[float]:
    """Passages a CPU second, into a memory that is already filled."""
    with opened(path) as memory:
        before = memory.stats().chunk_count
        began = time.process_time()
        memory.ingest(folder)
        spent = time.process_time() - began
        return [(memory.stats().chunk_count - before) / spent]


def opened(path: Path) -> Memory:
    """The memory with the embedder it was built with, outside any project."""
    return Memory.open(path, create=False, project="")


def main() -> None:
    name, path, questions = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if name.startswith("ingest"):
        costs = ingested(path, questions)
    else:
        asked = json.loads(questions.read_text(encoding="utf-8"))
        if name == "second search of a process":
            costs = second_search(path, asked)
        else:
            with opened(path) as memory:
                costs = [cpu_ms(act) for act in OPERATIONS[name](memory, asked)][WARM_UP:]
    print(json.dumps({"costs": costs, "peak_mb": peak_mb()}))


if __name__ == "__main__":
    main()
