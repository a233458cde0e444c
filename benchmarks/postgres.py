"""A memory in PostgreSQL: what it costs, and whether it answers as well as a file.

    python benchmarks/postgres.py speed postgresql://localhost/test
    python benchmarks/postgres.py speed ADDRESS --member postgresql://ana@localhost/test
    python benchmarks/postgres.py quality postgresql://localhost/test /data/scifact

``speed`` makes memories of its own and deletes their rows; sizes are those of the whole database,
so use an empty one. Server time is the CPU time of the one process that serves the connection, as
its kernel counts it (only on the same machine); beside it is the time of a clock, with the trips.
With ``--member``, the address of the same database for another role, that role becomes a member and
asks the same questions; the tables keep their fences. ``quality`` runs ``plait eval`` on a file and
on the server, and prints what differs in the fourth decimal.
"""

import argparse
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import corpus
from measure import Spread, spread
from psycopg.conninfo import conninfo_to_dict

from plait.evaluate import EvaluationOptions, evaluate
from plait.evaluate.metrics import Run
from plait.memory import Memory, named_embedder
from plait.protocols import Entry, Store, Vector
from plait.settings.loading import load
from plait.stores.postgres.connection import number_of
from plait.stores.postgres.store import PostgresStore
from plait.text import parse
from plait.types import Document, Filter, Passage
from plait.types.ids import new_id

PASSAGES = 10_000
NAMESPACES, OF_EACH = 1_000, 100
QUESTIONS = 200
STORES = 50
BATCH = 500
WORDS_ASKED = 4
LIMIT = 200
EVERYTHING = Filter(trusts=("trusted", "untrusted", "quarantined"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["speed", "quality"])
    parser.add_argument("address", help="of a database, without a namespace")
    parser.add_argument("collections", nargs="*")
    parser.add_argument("--member", help="the address of the same database for another role")
    parser.add_argument("--passages", type=int, default=PASSAGES)
    parser.add_argument("--namespaces", type=int, default=NAMESPACES)
    parser.add_argument("--max-queries", type=int, default=2_000)
    given = parser.parse_args()
    if given.what == "speed":
        measure_speed(given.address, given.passages, given.namespaces, given.member)
    elif not all([compare_quality(given.address, *row) for row in _collections(given)]):
        sys.exit("PostgreSQL and SQLite differ")


def _collections(given: argparse.Namespace) -> Iterator[tuple[str, int]]:
    for folder in given.collections:
        yield folder, given.max_queries


def open_memory(address: str, name: str) -> Memory:
    """Open a memory of this name, with the built-in model."""
    mark = "&" if "?" in address else "?"
    store: Store = PostgresStore(f"{address}{mark}namespace={name}")
    config = load({"db_path": ":memory:", "project": ""})
    return Memory(store, named_embedder("builtin", config), config, path=":memory:")


# -- speed -----------------------------------------------------------------------------------


class Server:
    """The process of the server that serves a store's connection."""

    def __init__(self, store: PostgresStore) -> None:
        with store._connections.lent() as session:
            self.process = session.value("SELECT pg_backend_pid()")

    def cpu_ms(self) -> float:
        status = Path(f"/proc/{self.process}/stat").read_text("ascii").rpartition(")")[2].split()
        ticks = int(status[11]) + int(status[12])
        return ticks * 1_000 / os.sysconf("SC_CLK_TCK")


def timed(server: Server, acts: Sequence[Callable[[], object]]) -> tuple[float, Spread]:
    """Return the mean CPU milliseconds of the server for some acts, and their time by a clock."""
    before, times = server.cpu_ms(), []
    for act in acts:
        began = time.perf_counter()
        act()
        times.append((time.perf_counter() - began) * 1_000)
    return (server.cpu_ms() - before) / len(acts), spread(times)


def row(name: str, measured: tuple[float, Spread]) -> None:
    print(f"| {name} | {measured[0]:.2f} | {measured[1]} |", flush=True)


def entries(texts: Sequence[str], vectors: Sequence[Vector | None], memory: Memory) -> list[Entry]:
    """Notes of one passage each."""
    now = time.time_ns() // 1_000_000
    times: dict[str, Any] = dict.fromkeys(("created_at", "updated_at", "event_at"), now)
    return [
        Entry(
            Document(id=new_id(), key=new_id(), text=text, indexed_at=now, **times),
            [Passage(text, "", 1, 1, 0, 0)],
            [vector],
            memory.embedder.space,
        )
        for text, vector in zip(texts, vectors, strict=True)
    ]


def write(store: Store, rows: Sequence[Entry]) -> None:
    with store.transaction() as transaction:
        for entry in rows:
            transaction.write(entry)


def questions_of(texts: Sequence[str], count: int) -> list[str]:
    """A few words of a passage each."""
    chosen = random.Random(corpus.SEED)
    return [
        " ".join(chosen.sample(sorted(set(text.split())), min(WORDS_ASKED, len(set(text.split())))))
        for text in chosen.sample(list(texts), count)
    ]


def measure_speed(address: str, passages: int, namespaces: int, member: str | None) -> None:
    texts = [passage.text for passage in corpus.read_passages(passages + 2 * STORES)]
    texts, others = texts[:passages], texts[passages:]
    with scratch(address) as memory:
        store = memory.engine
        assert isinstance(store, PostgresStore)
        server = Server(store)
        vectors = memory.embedder.embed(texts, "passage")
        rows = entries(texts, vectors, memory)
        print("| | server CPU, ms | by a clock, ms |\n|---|---|---|")
        batches = [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]
        used, waited = timed(server, [lambda batch=batch: write(store, batch) for batch in batches])  # type: ignore[misc]
        per_second = BATCH * 1_000 / waited.median
        row(f"{BATCH} passages at once ({per_second:,.0f} a second)", (used, waited))
        store.tidy()
        ask(f"{passages:,} passages", memory, server, questions_of(texts, QUESTIONS))
        stores = [lambda text=text: memory.store(text, key=new_id()) for text in others[:STORES]]  # type: ignore[misc]
        row("store one note", timed(server, stores))
        facts = [lambda text=text: memory.store(text) for text in others[STORES:]]  # type: ignore[misc]
        row("store one fact", timed(server, facts))
        sizes(store, passages)
    if namespaces:
        many_namespaces(address, texts, vectors, namespaces)
    if member:
        ask_as_member(address, member, rows, questions_of(texts, QUESTIONS))


def ask_as_member(
    address: str, member: str, rows: Sequence[Entry], questions: Sequence[str]
) -> None:
    """Ask as the administrator and as a member, of the same rows; all are the team's."""
    name = f"bench-{new_id()}"
    memory = open_memory(address, name)
    try:
        write(memory.engine, rows)
        memory.engine.tidy()
        assert isinstance(memory.engine, PostgresStore)
        memory.engine.admit(str(conninfo_to_dict(member)["user"]), "writer", ())
        for who, place in (("administrator", address), ("member", member)):
            asking = open_memory(place, name)
            assert isinstance(asking.engine, PostgresStore)
            ask(f"{len(rows):,} passages, {who}", asking, Server(asking.engine), questions)
            asking.close()
    finally:
        drop(memory.engine, [number_of(name)])
        memory.close()


def ask(name: str, memory: Memory, server: Server, questions: Sequence[str]) -> None:
    store, space = memory.engine, memory.embedder.space
    parsed = [parse(question) for question in questions]
    # A question without a word that the model knows has none.
    asked = [vector for vector in memory.embedder.embed(questions, "query") if vector is not None]
    # Warm: the first questions plan, and read what the others have in memory.
    for acts in (
        [lambda query=query: store.keyword(query, LIMIT, EVERYTHING) for query in parsed],
        [lambda vector=vector: store.vector(vector, space, 100, EVERYTHING) for vector in asked],  # type: ignore[misc]
        [lambda question=question: memory.search(question) for question in questions],
    ):
        for act in acts[:10]:
            act()  # type: ignore[operator]
    row(
        f"{name}: by words",
        timed(server, [lambda q=q: store.keyword(q, LIMIT, EVERYTHING) for q in parsed]),  # type: ignore[misc]
    )
    row(
        f"{name}: by vector",
        timed(server, [lambda v=v: store.vector(v, space, 100, EVERYTHING) for v in asked]),  # type: ignore[misc]
    )
    row(f"{name}: search", timed(server, [lambda q=q: memory.search(q) for q in questions]))  # type: ignore[misc]


@contextmanager
def scratch(address: str) -> Iterator[Memory]:
    """A memory of its own, which is deleted at the end."""
    name = f"bench-{new_id()}"
    memory = open_memory(address, name)
    try:
        yield memory
    finally:
        drop(memory.engine, [number_of(name)])
        memory.close()


def tables_of(store: PostgresStore) -> list[str]:
    sql = (
        "SELECT table_name FROM information_schema.columns "
        "WHERE table_schema = 'plait' AND column_name = 'ns' ORDER BY 1"
    )
    with store._connections.lent() as session:
        return [name for (name,) in session.rows(sql)]


def drop(store: Store, numbers: Sequence[int]) -> None:
    assert isinstance(store, PostgresStore)
    tables = tables_of(store)
    with store._connections.lent() as session:
        for table in tables:
            sql = f"DELETE FROM plait.{table} WHERE ns = ANY(%(numbers)s)"
            session.execute(sql, numbers=list(numbers))


def sizes(store: PostgresStore, passages: int) -> None:
    """Print the bytes of each table; they are those of the memory if no other one is there."""
    print("\n| table | bytes a passage |\n|---|---|")
    tables = tables_of(store)
    total = 0.0
    with store._connections.lent() as session:
        for table in tables:
            sql = "SELECT pg_total_relation_size(%(table)s::regclass)"
            size = session.value(sql, table=f"plait.{table}") / passages
            total += size
            if size >= 1:
                print(f"| {table} | {size:,.0f} |")
    print(f"| all | {total:,.0f} |\n", flush=True)


def many_namespaces(
    address: str, texts: Sequence[str], vectors: Sequence[Vector | None], count: int
) -> None:
    """Ask many small memories, one after the other, on one connection."""
    names = [f"bench-{new_id()}" for _ in range(count)]
    with scratch(address) as memory:
        store = memory.engine
        assert isinstance(store, PostgresStore)
        server, own = Server(store), store._connections.membership
        sql = "INSERT INTO plait.namespaces (ns, name, analyzer) VALUES (%(ns)s, %(name)s, '')"
        chosen = random.Random(corpus.SEED)
        try:
            began = time.perf_counter()
            for name in names:
                store._connections.joined_as(own._replace(ns=number_of(name)))
                with store._connections.lent() as session:
                    session.execute(sql, name=name)
                places = chosen.sample(range(len(texts)), OF_EACH)
                write(
                    store,
                    entries([texts[p] for p in places], [vectors[p] for p in places], memory),
                )
            rate = count * OF_EACH / (time.perf_counter() - began)
            store.tidy()
            questions = questions_of(texts, QUESTIONS)
            where = chosen.choices(names, k=QUESTIONS)
            asked = memory.embedder.embed(questions, "query")

            def both(place: int) -> None:
                store._connections.joined_as(own._replace(ns=number_of(where[place])))
                store.keyword(parse(questions[place]), LIMIT, EVERYTHING)
                vector = asked[place]
                if vector is not None:
                    store.vector(vector, memory.embedder.space, 100, EVERYTHING)

            for place in range(10):
                both(place)
            acts = [lambda place=place: both(place) for place in range(QUESTIONS)]  # type: ignore[misc]
            row(
                f"{count:,} memories of {OF_EACH}: both ({rate:,.0f} a second)", timed(server, acts)
            )
        finally:
            store._connections.joined_as(own)
            drop(store, [number_of(name) for name in names])


# -- quality ---------------------------------------------------------------------------------


def compare_quality(address: str, folder: str, most: int) -> bool:
    """Measure a collection in a file and on the server; tell whether both are as good."""
    options = EvaluationOptions(half="both", max_queries=most, deep=False, grep=False)
    name = f"eval-{new_id()}"
    file, server = (
        evaluate(folder, options, open_memory=opener)
        for opener in (
            lambda path: Memory.open(path, project=""),
            lambda path: open_memory(address, name),
        )
    )
    memory = open_memory(address, name)
    drop(memory.engine, [number_of(name)])
    memory.close()
    same = file.silence == server.silence
    for one, other in zip(file.runs, server.runs, strict=True):
        same &= figures(one) == figures(other)
        mark = "=" if figures(one) == figures(other) else "DIFFERS"
        print(f"{file.collection} | {one.name} | {figures(one)[0]} | {figures(other)[0]} | {mark}")
    print(f"{file.collection} | silence | {file.silence} | {server.silence}", flush=True)
    return same


def figures(run: Run) -> list[tuple[float | int | None, ...]]:
    """The quality of all questions and of each half, to the fourth decimal."""
    qualities = [run.quality, *(quality for _, quality in run.halves)]
    return [
        tuple(round(value, 4) if isinstance(value, float) else value for value in quality)
        for quality in qualities
    ]


if __name__ == "__main__":
    main()
