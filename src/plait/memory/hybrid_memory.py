"""The public functions of hybrid-memory under their names, thin, over plait's own code.

Nothing of plait uses this module: it is for programs that were written for that system. New ones
use `Memory`, which has projects, trust and receipts.
"""

from __future__ import annotations

import json
import math
from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from plait.embedders import OLLAMA_URL, Embedder
from plait.embedders.ollama import OLLAMA_MODEL, Ollama
from plait.errors import EmbedderError, NotFound
from plait.memory import Memory
from plait.protocols import Vector
from plait.ranking.hybrid import MAX_KEYWORD_WEIGHT, MAX_VECTOR_WEIGHT, max_fusion
from plait.settings.loading import load
from plait.types import Hit, ModeName, Space, TextKind, Tuning
from plait.types.guarding import guarded
from plait.writing.chunking import chunk

__all__ = [
    "Chunk",
    "FTSIndex",
    "HybridStore",
    "OllamaEmbedder",
    "VectorSearch",
    "chunk_text",
    "cosine_similarity",
    "decode_embedding",
    "encode_embedding",
    "merge_results",
]

# What `config.json` had there; ``fusion`` makes the scores those of its merge.
DEFAULT_CONFIG: Mapping[str, object] = {
    "chunk_size": 512,
    "chunk_overlap": 50,
    "keyword_weight": MAX_KEYWORD_WEIGHT,
    "vector_weight": MAX_VECTOR_WEIGHT,
    "fusion": "max",
}
NOMIC_DIMS = 768  # of Ollama's default model, until the server has answered
QUERIES_CACHED = 256

ResultRow = dict[str, Any]


class Embeds(Protocol):
    """What an embedder of hybrid-memory has."""

    def embed(self, text: str) -> Sequence[float]:
        """Return the vector of a text; empty if it failed."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a text, the headings above it, and its number from 0."""

    text: str
    heading: str
    index: int


def chunk_text(text: str, chunk_size: int = 512, overlap: int = 50) -> list[Chunk]:
    r"""Split Markdown into overlapping pieces that know their headings.

    >>> [(piece.heading, piece.index) for piece in chunk_text("# Keys\n\nRotate them.")]
    [('Keys', 0)]
    """
    passages = chunk(text, size=chunk_size, overlap=overlap)
    return [Chunk(row.text, row.heading, index) for index, row in enumerate(passages)]


# -- vectors -------------------------------------------------------------------------------


def cosine_similarity(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the cosine of two vectors; 0 if one has no length or they differ in size.

    >>> cosine_similarity([1, 0], [1, 0]), cosine_similarity([1, 0], [0, 0])
    (1.0, 0.0)
    """
    lengths = math.hypot(*a) * math.hypot(*b)
    if len(a) != len(b) or not lengths:
        return 0.0
    return math.sumprod(a, b) / lengths if hasattr(math, "sumprod") else _dot(a, b) / lengths


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def encode_embedding(v: Sequence[float]) -> bytes:
    """Return a vector as 32-bit floats.

    >>> decode_embedding(encode_embedding([1.0, -0.5]))
    [1.0, -0.5]
    """
    return array("f", v).tobytes()


def decode_embedding(b: bytes) -> list[float]:
    """Return the vector that `encode_embedding` packed."""
    vector = array("f")
    vector.frombytes(b)
    return vector.tolist()


class OllamaEmbedder:
    """A model that Ollama serves; the latest vectors are kept in this process."""

    def __init__(
        self,
        base_url: str = OLLAMA_URL,
        model: str = OLLAMA_MODEL,
        cache_size: int = QUERIES_CACHED,
    ) -> None:
        self._ollama = Ollama(model, url=base_url)
        self._cache: OrderedDict[str, list[float]] = OrderedDict()
        self._size = cache_size

    def embed(self, text: str) -> list[float]:
        """Return the vector of a text; empty if Ollama fails."""
        if text in self._cache:
            self._cache.move_to_end(text)
            return self._cache[text]
        try:
            [vector] = self._ollama.embed_safely([text], "passage")
        except EmbedderError:
            return []
        if vector is None:
            return []
        self._cache[text] = vector.tolist()
        while len(self._cache) > self._size:
            self._cache.popitem(last=False)
        return vector.tolist()

    def embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of several texts."""
        return [self.embed(text) for text in texts]

    def dims(self) -> int:
        """Return the length of a vector."""
        return self._ollama.dims or NOMIC_DIMS

    def is_available(self) -> bool:
        """Tell whether Ollama answers and has the model."""
        return all(finding.level != "error" for finding in self._ollama.check())


class _Adapted(Embedder):
    """An embedder of hybrid-memory as plait needs it."""

    tuning = Tuning(keyword_weight=MAX_KEYWORD_WEIGHT, vector_weight=MAX_VECTOR_WEIGHT)

    def __init__(self, own: Embeds) -> None:
        self._own = own
        self._size = len(own.embed("dims"))

    @property
    def dims(self) -> int | None:
        """Length of a vector, or ``None`` if the embedder was down."""
        return self._size or None

    @property
    def space(self) -> Space:
        """The identity of its vectors: the name of its class, and their length."""
        return Space("hybrid-memory", type(self._own).__name__, self._size)

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        """Return one vector per text."""
        vectors = [array("f", self._own.embed(text)) for text in texts]
        if not all(vectors):
            raise EmbedderError(f"{type(self._own).__name__} returned no vector")
        self._size = len(vectors[0]) if vectors else self._size
        return vectors


# -- the store -----------------------------------------------------------------------------


def _result(hit: Hit, score: float | None) -> ResultRow:
    return {
        "doc_id": hit.doc_id,
        "chunk_id": hit.chunk_id,
        "heading": hit.heading,
        "text": hit.text,
        "score": hit.score if score is None else score,
        "source": hit.source,
    }


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


@guarded
class HybridStore:
    """A memory with hybrid-memory's methods, chunks and scores. It has no projects.

    Args of the constructor: the file, the keys of its ``config.json``, and an embedder: one of
    hybrid-memory's, plait's, or its name. Without one, Ollama is used, as there.
    """

    def __init__(
        self,
        db_path: str = "hybrid_search.db",
        config: Mapping[str, Any] | None = None,
        *,
        embedder: Any = None,
    ) -> None:
        given = {**DEFAULT_CONFIG, **(config or {}), "db_path": db_path, "project": ""}
        if embedder is not None and not isinstance(embedder, Embedder | str):
            embedder = _Adapted(embedder)
        elif embedder is None:
            given.setdefault("embedding_provider", "ollama")
        elif isinstance(embedder, str):
            given["embedding_provider"] = embedder
        self.memory = Memory.open(
            config=load(given), embedder=embedder if isinstance(embedder, Embedder) else None
        )

    def store(self, doc_id: str, text: str, metadata: Mapping[str, Any] | None = None) -> int:
        """Store a document, or replace the one of that name; return the number of its chunks.

        Values of metadata that are not text are kept as JSON.
        """
        texts = {name: _as_text(value) for name, value in (metadata or {}).items()}
        return self.memory.store(text, key=doc_id, metadata=texts).chunks

    def search(
        self, query: str, limit: int = 10, mode: ModeName = "hybrid"
    ) -> list[dict[str, Any]]:
        """Return the best chunks, best first, as dicts."""
        answer = self.memory.search(query, limit=limit, mode=mode)
        return [_result(hit, None) for hit in answer]

    def delete(self, doc_id: str) -> int:
        """Delete a document and return how many chunks it had; 0 if there is none."""
        try:
            return self.memory.delete(doc_id).chunks_deleted
        except NotFound:
            return 0

    def reindex(self) -> None:
        """Rebuild the keyword index, and compute missing vectors."""
        self.memory.reindex()

    def stats(self) -> dict[str, int]:
        """Return the counts and the size of the file."""
        stats = self.memory.stats()
        names = ("doc_count", "chunk_count", "embedded_count", "db_size_bytes")
        return {name: getattr(stats, name) for name in names}

    def close(self) -> None:
        """Close the file."""
        self.memory.close()


class FTSIndex:
    """Keyword search of a store. There it took a connection; here it takes the store."""

    def __init__(self, store: HybridStore) -> None:
        self._memory = store.memory

    def search(self, query: str, limit: int = 10) -> list[ResultRow]:
        """Return chunks with the query's words; the score is BM25, higher is better."""
        answer = self._memory.search(query, limit=limit, mode="keyword", fusion="max")
        return [_result(hit, hit.signals.bm25) for hit in answer]

    def snippet(self, query: str, limit: int = 10) -> list[ResultRow]:
        """Return the same with a ``snippet``, whose matching words stand between ``**``."""
        answer = self._memory.search(query, limit=limit, mode="keyword", fusion="max")
        return [{**_result(hit, hit.signals.bm25), "snippet": _marked(hit)} for hit in answer]

    def reindex(self) -> None:
        """Rebuild the keyword index."""
        self._memory.reindex()


def _marked(hit: Hit) -> str:
    parts, reached = [], 0
    for start, end in hit.highlights:
        parts += [hit.snippet[reached:start], f"**{hit.snippet[start:end]}**"]
        reached = end
    return "".join([*parts, hit.snippet[reached:]])


class VectorSearch:
    """Vector search of a store, by its own embedder. There it took a connection and an embedder."""

    def __init__(self, store: HybridStore) -> None:
        self._memory = store.memory

    def search(self, query: str, limit: int = 10) -> list[ResultRow]:
        """Return the nearest chunks; the score is the cosine. None if there are no vectors."""
        answer = self._memory.search(query, limit=limit, mode="vector", fusion="max")
        if answer.receipt.mode_used != "vector":
            return []  # plait answers by keyword then; this function never did
        return [_result(hit, hit.signals.cosine) for hit in answer]


def merge_results(
    keyword_results: Sequence[Mapping[str, Any]],
    vector_results: Sequence[Mapping[str, Any]],
    keyword_weight: float = MAX_KEYWORD_WEIGHT,
    vector_weight: float = MAX_VECTOR_WEIGHT,
) -> list[ResultRow]:
    """Divide each side by its best score, add by weight, and name each chunk once, best first.

    >>> merge_results([{"chunk_id": "a-0", "score": 4.0}], [{"chunk_id": "a-0", "score": 0.5}])
    [{'chunk_id': 'a-0', 'score': 1.0, 'source': 'hybrid'}]
    """
    keyword = [(str(row["chunk_id"]), float(row["score"])) for row in keyword_results]
    vector = [(str(row["chunk_id"]), float(row["score"])) for row in vector_results]
    rows = {str(row["chunk_id"]): row for row in (*vector_results, *keyword_results)}
    fused = max_fusion(keyword, vector, keyword_weight=keyword_weight, vector_weight=vector_weight)
    by_keyword, by_vector = dict(keyword), dict(vector)
    merged: list[ResultRow] = []
    for name, scored in fused.items():
        both = name in by_keyword and name in by_vector
        source = "hybrid" if both else "keyword" if name in by_keyword else "vector"
        merged.append({**rows[name], "score": scored.score, "source": source})
    return sorted(merged, key=lambda row: -row["score"])
