"""Searches in a process that is already running, and where their time goes."""

import random
from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from time import thread_time
from typing import Any, NamedTuple, cast

from measure import Spread, cpu_ms, spread

from plait import text as words
from plait.memory import Memory
from plait.protocols import Entry, Store, Vector
from plait.stores.sqlite import vectors
from plait.stores.sqlite.keyword import Planner
from plait.stores.sqlite.store import SQLiteStore
from plait.testing import HashingEmbedder
from plait.types import Document, Filter, Passage, Space

WARM_UP = 3
KEYWORD_LIMIT = 200
VECTOR_LIMIT = 100
TOP = 10
EVERYTHING = Filter()
PLANS: tuple[Planner, ...] = ("never", "auto")


class _Timed:
    """A store that notes the CPU time spent in each of its methods."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.spent: dict[str, float] = defaultdict(float)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def timed(*values: Any, **named: Any) -> Any:
            began = thread_time()
            try:
                return found(*values, **named)
            finally:
                self.spent[name] += (thread_time() - began) * 1000

        return timed


class Split(NamedTuple):
    """CPU milliseconds of a hybrid search and of its parts."""

    total: Spread
    keyword: Spread
    vector: Spread
    rest: Spread


def open_memory(path: Path) -> Memory:
    """The memory with the embedder it was built with, outside any project."""
    return Memory.open(path, create=False, project="")


def hybrid(path: Path, asked: Sequence[str]) -> Split:
    """Total and parts of every query; `rest` is all but the two branches."""
    costs: list[tuple[float, float, float]] = []
    with open_memory(path) as memory:
        timed = _Timed(memory.engine)
        memory._store = cast(Store, timed)
        for query in asked[:WARM_UP]:
            memory.search(query)
        for query in asked:
            timed.spent.clear()
            total = cpu_ms(lambda query=query: memory.search(query))  # type: ignore[misc]
            vector = timed.spent["vector"] + timed.spent["cosines"]
            costs.append((total, timed.spent["keyword"], vector))
    return Split(
        spread(total for total, _, _ in costs),
        spread(keyword for _, keyword, _ in costs),
        spread(vector for _, _, vector in costs),
        spread(total - keyword - vector for total, keyword, vector in costs),
    )


def kernels(path: Path, asked: Sequence[str], slow_queries: int) -> dict[str, Spread]:
    """The vector branch alone, by simsimd and by plain Python."""
    found: dict[str, Spread] = {}
    with open_memory(path) as memory:
        store, embedder = memory.engine, memory.embedder
        assert isinstance(store, SQLiteStore)
        for name, build, number in (
            ("simsimd", vectors._by_simsimd, len(asked)),
            ("by hand", vectors._by_hand, slow_queries),
        ):
            store.vectors.distances = build()
            questions = [embedder.embed([query], "query")[0] for query in asked[:number]]
            asks = [
                _nearest(store, vector, embedder.space, EVERYTHING)
                for vector in questions
                if vector
            ]
            for ask in asks[: WARM_UP if number > WARM_UP else 0]:
                ask()
            found[name] = spread(cpu_ms(ask) for ask in asks)
    return found


def _nearest(
    store: SQLiteStore, vector: Vector, space: Space, where: Filter
) -> Callable[[], object]:
    return lambda: store.vector(vector, space, VECTOR_LIMIT, where)


class Filtered(NamedTuple):
    """One filter: its first query and the later ones, by branch."""

    tag: str
    keyword_first: float
    vector_first: float
    keyword: Spread
    vector: Spread


def filtered(path: Path, asked: Sequence[str], tags: Sequence[str]) -> list[Filtered]:
    """Both branches under filters of known selectivity; the first query of each is cold."""
    found = []
    for tag in tags:
        where = Filter(tags=(tag,))
        first: dict[str, float] = {}
        later: dict[str, Spread] = {}
        for branch in ("keyword", "vector"):
            with open_memory(path) as memory:
                asks = _asks(memory, branch, asked, where)
                # The file's pages are in memory already: only the filter itself is cold.
                for plain in _asks(memory, branch, asked[:WARM_UP], EVERYTHING):
                    plain()
                first[branch] = cpu_ms(asks[0])
                later[branch] = spread(cpu_ms(ask) for ask in asks)
        found.append(
            Filtered(tag, first["keyword"], first["vector"], later["keyword"], later["vector"])
        )
    return found


def _asks(
    memory: Memory, branch: str, asked: Sequence[str], where: Filter
) -> list[Callable[[], object]]:
    store, embedder = memory.engine, memory.embedder
    if branch == "keyword":
        parsed = [words.parse(query) for query in asked]
        return [lambda q=query: store.keyword(q, KEYWORD_LIMIT, where) for query in parsed]  # type: ignore[misc]
    assert isinstance(store, SQLiteStore)
    found = [embedder.embed([query], "query")[0] for query in asked]
    return [_nearest(store, vector, embedder.space, where) for vector in found if vector]


class Planned(NamedTuple):
    """Long questions by plain OR and by the planner, and how far their best ten agree."""

    plain: Spread
    planned: Spread
    overlap: float
    same_first: float


def planner(path: Path, questions: Sequence[str]) -> Planned:
    """What the plan for large memories saves and what it changes."""
    costs: dict[str, list[float]] = {plan: [] for plan in PLANS}
    best: dict[str, list[list[int]]] = {plan: [] for plan in PLANS}
    parsed = [words.parse(query) for query in questions]
    with open_memory(path) as memory:
        store = memory.engine
        assert isinstance(store, SQLiteStore)
        # One plan after the other: the second would find the pages of a question already read.
        for plan in PLANS:
            store.planner = plan
            for query in parsed:
                began = thread_time()
                found = store.keyword(query, KEYWORD_LIMIT, EVERYTHING)
                costs[plan].append((thread_time() - began) * 1000)
                best[plan].append([ref for ref, _ in found[:TOP]])
    pairs = list(zip(best["never"], best["auto"], strict=True))
    return Planned(
        spread(costs["never"]),
        spread(costs["auto"]),
        sum(len({*one} & {*other}) / max(1, len(one)) for one, other in pairs) / len(pairs),
        sum(one[:1] == other[:1] for one, other in pairs) / len(pairs),
    )


def recall_on_text(found: Sequence[str], asked: Sequence[str]) -> float:
    """Recall@10 of the int8 scan against exact float32, on the stand-in's vectors of real text."""
    embedder = HashingEmbedder()
    exact = [vector for vector in embedder.embed(found, "passage") if vector is not None]
    queries = [vector for vector in embedder.embed(asked, "query") if vector is not None]
    return _recall(SQLiteStore(":memory:"), exact, queries, embedder.space)


def recall_on_clusters(number: int, dims: int, seed: int, queries: int) -> float:
    """The same on random vectors around cluster centres: the hard case of many near neighbours."""
    chance = random.Random(seed)
    centres = [[chance.gauss(0, 1) for _ in range(dims)] for _ in range(number // 50)]

    def near(centre: list[float]) -> Vector:
        return array("f", [value + chance.gauss(0, 1) for value in centre])

    exact = [near(chance.choice(centres)) for _ in range(number)]
    asked = [near(chance.choice(centres)) for _ in range(queries)]
    space = Space("benchmark", "clusters", dims)
    return _recall(SQLiteStore(":memory:"), exact, asked, space)


def _recall(
    store: SQLiteStore, exact: Sequence[Vector], asked: Sequence[Vector], space: Space
) -> float:
    """Share of the ten answers that are as near, in float32, as the true tenth."""
    import simsimd

    passages = [Passage(str(place), start=place, ordinal=place) for place in range(len(exact))]
    with store.transaction() as tx:
        tx.write(Entry(Document(id="all", key="all", text=""), passages, exact, space))
    flat = array("f")
    for vector in exact:
        flat.extend(vector)
    matrix = memoryview(flat).cast("B").cast("f", shape=[len(exact), space.dims])
    hits = 0
    for query in asked:
        tensor: Any = simsimd.cosine(memoryview(query), matrix)
        distances = memoryview(tensor).tolist()
        worst = sorted(distances)[TOP - 1] + 1e-6
        found = store.vector(query, space, TOP, EVERYTHING).hits
        # A new memory numbers its passages from 1.
        hits += sum(distances[ref - 1] <= worst for ref, _ in found)
    store.close()
    return hits / (TOP * len(asked))
