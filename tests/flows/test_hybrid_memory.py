"""hybrid-memory's public functions do what that system describes; its own test cases, by name."""

import hashlib
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from plait.memory.hybrid_memory import (
    FTSIndex,
    HybridStore,
    OllamaEmbedder,
    VectorSearch,
    chunk_text,
    cosine_similarity,
    decode_embedding,
    encode_embedding,
    merge_results,
)
from plait.types import ModeName
from tests.embedding_server import DIMS, EmbeddingServer

KEYS = {"doc_id", "chunk_id", "heading", "text", "score", "source"}


class MockEmbedder:
    """The mock of that system's tests: a direction that the hash of the text draws."""

    down = False

    def embed(self, text: str) -> list[float]:
        if self.down:
            return []
        draw = random.Random(hashlib.md5(text.encode()).hexdigest())
        return [draw.gauss(0, 1) for _ in range(768)]

    def embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.embed(text) for text in texts]

    def dims(self) -> int:
        return 768

    def is_available(self) -> bool:
        return True


@pytest.fixture
def embedder() -> MockEmbedder:
    return MockEmbedder()


@pytest.fixture
def store(tmp_path: Path, embedder: MockEmbedder) -> Iterator[HybridStore]:
    opened = HybridStore(str(tmp_path / "h.db"), embedder=embedder)
    opened.store("TOOLS", "# SSH\n\nThe password of the GPU server is hunter2.\n")
    opened.store("MEMORY", "# Network\n\nThe Raspberry Pi has the address 10.0.0.7.\n")
    yield opened
    opened.close()


# chunker


def test_chunks() -> None:
    assert chunk_text("") == []
    assert [(c.text, c.heading, c.index) for c in chunk_text("one line")] == [("one line", "", 0)]
    long = "# A\n\n" + "The heron fishes. " * 60 + "\n# B\n\n" + "Ein Kranich tanzt – さぎ. " * 60
    chunks = chunk_text(long)
    assert {piece.heading for piece in chunks} == {"A", "B"}
    assert [piece.index for piece in chunks] == list(range(len(chunks)))
    assert all(len(piece.text.strip()) <= 512 * 1.3 for piece in chunks)
    first, second = chunks[:2]
    assert second.text[:20] in first.text[-70:]


# fts


def test_keyword_search_ranks_by_bm25(store: HybridStore) -> None:
    index = FTSIndex(store)
    [hit] = index.search("raspberry")
    assert hit.keys() == KEYS
    assert hit["doc_id"] == "MEMORY"
    assert hit["score"] > 0
    assert index.search("xylophone") == []
    for odd in ('"', "ssh-password", "C++", "foo:bar", "(", "AND"):
        index.search(odd)
    [marked] = index.snippet("raspberry")
    assert "**Raspberry**" in marked["snippet"]
    store.delete("MEMORY")
    index.reindex()
    assert index.search("raspberry") == []


# vector


def test_vectors_and_their_bytes() -> None:
    assert cosine_similarity([1, 0], [0, 1]) == 0.0
    assert cosine_similarity([1, 0], [1, 0]) == 1.0
    assert cosine_similarity([0, 0], [1, 0]) == 0.0
    assert cosine_similarity([1], [1, 0]) == 0.0
    vector = [0.5, -1.25, 3.0]
    assert decode_embedding(encode_embedding(vector)) == vector
    assert len(encode_embedding([0.0] * 768)) == 3072


def test_vector_search_ranks_by_cosine(store: HybridStore, tmp_path: Path) -> None:
    hits = VectorSearch(store).search("anything")
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)
    assert all(0 < hit["score"] <= 1 for hit in hits)
    empty = HybridStore(str(tmp_path / "none.db"), embedder="none")
    empty.store("a", "The heron fishes.")
    assert VectorSearch(empty).search("heron") == []
    empty.close()


# merger


def row(chunk_id: str, score: float) -> dict[str, object]:
    return {"chunk_id": chunk_id, "score": score}


@pytest.mark.parametrize(
    ("keyword", "vector", "weights", "merged"),
    [
        ([], [], (), []),
        ([row("a", 4)], [], (), [("a", 0.3, "keyword")]),
        ([], [row("a", 0.4)], (), [("a", 0.7, "vector")]),
        (
            [row("a", 4), row("b", 2)],
            [row("b", 0.8), row("c", 0.4)],
            (),
            [("b", 0.85, "hybrid"), ("c", 0.35, "vector"), ("a", 0.3, "keyword")],
        ),
        ([row("a", 0)], [], (), [("a", 0.0, "keyword")]),
        (
            [row("a", 4)],
            [row("b", 0.8)],
            (1.0, 0.0),
            [("a", 1.0, "keyword"), ("b", 0.0, "vector")],
        ),
    ],
)
def test_merge(
    keyword: list[dict[str, object]],
    vector: list[dict[str, object]],
    weights: tuple[float, ...],
    merged: list[tuple[str, float, str]],
) -> None:
    rows = merge_results(keyword, vector, *weights)
    assert [(row["chunk_id"], round(row["score"], 6), row["source"]) for row in rows] == merged


# store


def test_the_store(store: HybridStore, embedder: MockEmbedder) -> None:
    [first, *_] = store.search("raspberry address", mode="keyword")
    assert first.keys() == KEYS
    assert (first["doc_id"], first["chunk_id"], first["heading"]) == (
        "MEMORY",
        "MEMORY-0",
        "Network",
    )
    assert store.store("MEMORY", "Now the heron.") == 1
    assert store.search("raspberry", mode="keyword") == []
    assert store.stats().keys() == {
        "doc_count",
        "chunk_count",
        "embedded_count",
        "db_size_bytes",
    }
    assert store.stats()["embedded_count"] == 2
    embedder.down = True
    assert store.store("more", "Cranes dance.") == 1
    assert [hit["doc_id"] for hit in store.search("cranes")] == ["more"]
    embedder.down = False
    store.reindex()
    assert store.stats()["embedded_count"] == 3
    assert store.delete("more") == 1
    assert store.delete("more") == store.delete("nobody") == 0


@pytest.mark.parametrize("mode", ["keyword", "vector"])
def test_the_best_of_one_mode_scores_one(store: HybridStore, mode: ModeName) -> None:
    hits = store.search("raspberry pi address password", mode=mode)
    assert hits[0]["score"] == pytest.approx(1.0)
    assert {hit["source"] for hit in hits} == {mode}


def test_the_scores_are_those_of_its_merge(store: HybridStore) -> None:
    query = "the password of the raspberry"
    merged = merge_results(FTSIndex(store).search(query), VectorSearch(store).search(query))
    hybrid = store.search(query)
    assert [hit["chunk_id"] for hit in hybrid] == [row["chunk_id"] for row in merged]
    for hit, other in zip(hybrid, merged, strict=True):
        assert hit["score"] == pytest.approx(other["score"], abs=1e-3)


# embedder


def test_the_embedder(tmp_path: Path) -> None:
    with EmbeddingServer() as server:
        embedder = OllamaEmbedder(server.url, cache_size=2)
        assert embedder.dims() == 768
        assert embedder.is_available()
        asked = len(server.requests)
        vector = embedder.embed("a")
        assert len(vector) == DIMS == embedder.dims()
        assert embedder.embed("a") == vector
        assert len(server.requests) == asked + 1
        embedder.embed_batch(["b", "c"])
        embedder.embed("a")
        assert len(server.requests) == asked + 4
        store = HybridStore(str(tmp_path / "o.db"), {"ollama_url": server.url})
        store.store("heron", "The heron fishes.")
        assert store.stats()["embedded_count"] == 1
        assert store.memory.embedder.space.spec == "ollama:nomic-embed-text"
        store.close()
        server.fault = "refuse"
        assert embedder.embed("d") == []
        assert not OllamaEmbedder(server.url).is_available()


def test_metadata_that_is_not_text_is_kept_as_json(tmp_path: Path) -> None:
    store = HybridStore(str(tmp_path / "m.db"), embedder=MockEmbedder())
    given = {"n": 3, "tags": ["a", "ü"], "done": True, "none": None, "text": "as it is"}
    assert store.store("doc", "Some text.", given) == 1
    document = store.memory.lookup("doc")[0]
    assert document.metadata == {
        **{"n": "3", "tags": '["a", "ü"]', "done": "true", "none": "null"},
        "text": "as it is",
    }
    store.close()
