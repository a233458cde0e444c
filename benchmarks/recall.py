"""Recall@10 of the vector scan against exact float32.

    .venv/bin/python benchmarks/recall.py

The share of ten answers that are at least as near, in exact float32, as the true tenth.
"""

import random
from array import array
from collections.abc import Sequence
from typing import Any

import corpus

from plait.protocols import Entry, Vector
from plait.stores.sqlite.store import SQLiteStore
from plait.testing import HashingEmbedder
from plait.types import Document, Filter, Passage, Space

PASSAGES = 20_000
QUERIES = 100
DIMS = 256
TOP = 10


def on_text() -> float:
    """Of vectors of real text, which the stand-in makes."""
    passages = corpus.read_passages(PASSAGES)
    embedder = HashingEmbedder()
    texts = [passage.text for passage in passages]
    exact = [vector for vector in embedder.embed(texts, "passage") if vector is not None]
    asked = corpus.queries(passages, QUERIES)
    queries = [vector for vector in embedder.embed(asked, "query") if vector is not None]
    return _recall(exact, queries, embedder.space)


def on_clusters() -> float:
    """Of random vectors around cluster centres: the hard case of many near neighbours."""
    chance = random.Random(corpus.SEED)
    centres = [[chance.gauss(0, 1) for _ in range(DIMS)] for _ in range(PASSAGES // 50)]

    def near(centre: list[float]) -> Vector:
        return array("f", [value + chance.gauss(0, 1) for value in centre])

    exact = [near(chance.choice(centres)) for _ in range(PASSAGES)]
    asked = [near(chance.choice(centres)) for _ in range(QUERIES)]
    return _recall(exact, asked, Space("benchmark", "clusters", DIMS))


def _recall(exact: Sequence[Vector], asked: Sequence[Vector], space: Space) -> float:
    import simsimd

    store = SQLiteStore(":memory:")
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
        found = store.vector(query, space, TOP, Filter()).hits
        # A new memory numbers its passages from 1.
        hits += sum(distances[ref - 1] <= worst for ref, _ in found)
    store.close()
    return hits / (TOP * len(asked))


if __name__ == "__main__":
    print(f"recall@10 among {PASSAGES:,} passages: {on_text():.3f} of text")
    print(f"recall@10 among {PASSAGES:,} vectors in clusters: {on_clusters():.3f}")
