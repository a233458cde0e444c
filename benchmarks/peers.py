"""Other systems on the same passages and questions; each step is a process of its own.

    python benchmarks/peers.py NAME build MEMORY FOLDER
    python benchmarks/peers.py NAME warm MEMORY FOLDER
    python benchmarks/peers.py NAME once QUESTION.json FOLDER

Run by run.py in an environment that has them. They get plait's own vectors of passages and
questions, so none of them pays for embedding; plait does. Each returns ten, in one thread.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time

# A new process is measured with these imports: what only types or only building needs is below.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Search = Callable[[str, list[float]], object]
    Build = Callable[[list[str], str, str], None]

TOP = 10
DEPTH = 50  # of each of two rankings that are fused
RRF_K = 60
DIMS = 256
BATCH = 5_000
_WORD = re.compile(r"\w+")


class Peer:
    """A system: what pip installs, what it ranks by, and how to build and open it."""

    def __init__(
        self, package: str, ranks: str, build: Build, open: Callable[[str], Search]
    ) -> None:
        self.package, self.ranks, self.build, self.open = package, ranks, build, open


def _either(question: str) -> str:
    return " OR ".join(f'"{word}"' for word in _WORD.findall(question))


def _matrix(vectors: str) -> Any:
    import numpy

    return numpy.fromfile(vectors, dtype=numpy.float32).reshape(-1, DIMS)


# -- FTS5 and sqlite-vec, through APSW --------------------------------------------------------


def _connection(folder: str) -> Any:
    import apsw

    connection = apsw.Connection(os.path.join(folder, "index.db"))
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    return connection


def _build_fts5(texts: list[str], vectors: str, folder: str) -> None:
    connection = _connection(folder)
    connection.execute("CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'porter')")
    with connection:
        rows = list(enumerate(texts))
        connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", rows)
    connection.execute("INSERT INTO words (words) VALUES ('optimize')")


def _open_fts5(folder: str) -> Search:
    connection = _connection(folder)
    sql = "SELECT rowid, text FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
    return lambda question, _: connection.execute(sql, (_either(question), TOP)).fetchall()


def _with_vectors(folder: str) -> Any:
    from importlib.util import find_spec

    connection = _connection(folder)
    connection.enable_load_extension(True)
    # Only its path: importing the package would import numpy where that is installed.
    [place] = find_spec("sqlite_vec").submodule_search_locations
    connection.load_extension(os.path.join(place, "vec0"))
    return connection


def _build_sqlite_vec(texts: list[str], vectors: str, folder: str) -> None:
    _build_fts5(texts, vectors, folder)
    connection = _with_vectors(folder)
    connection.execute(f"CREATE VIRTUAL TABLE near USING vec0 (vector float[{DIMS}])")
    with open(vectors, "rb") as file:
        data, size = file.read(), 4 * DIMS
    rows = [(n, data[n * size : (n + 1) * size]) for n in range(len(texts))]
    with connection:
        connection.executemany("INSERT INTO near (rowid, vector) VALUES (?, ?)", rows)


def _open_sqlite_vec(folder: str) -> Search:
    from array import array

    connection = _with_vectors(folder)
    words = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
    near = "SELECT rowid FROM near WHERE vector MATCH ? AND k = ? ORDER BY distance"
    read = "SELECT rowid, text FROM words WHERE rowid = ?"

    def search(question: str, vector: list[float]) -> object:
        scores: dict[int, float] = {}
        asked = [(words, _either(question)), (near, array("f", vector).tobytes())]
        for sql, value in asked:
            for rank, (row,) in enumerate(connection.execute(sql, (value, DEPTH)), 1):
                scores[row] = scores.get(row, 0.0) + 1 / (RRF_K + rank)
        best = sorted(scores, key=lambda row: -scores[row])[:TOP]
        return [connection.execute(read, (row,)).fetchall() for row in best]

    return search


# -- tantivy, LanceDB, Chroma -----------------------------------------------------------------


def _build_tantivy(texts: list[str], vectors: str, folder: str) -> None:
    import tantivy

    schema = tantivy.SchemaBuilder().add_text_field("text", stored=True).build()
    index = tantivy.Index(schema, path=folder)
    writer = index.writer(200_000_000, 1)
    for text in texts:
        writer.add_document(tantivy.Document(text=text))
    writer.commit()
    writer.wait_merging_threads()


def _open_tantivy(folder: str) -> Search:
    import tantivy

    index = tantivy.Index.open(folder)
    searcher = index.searcher()

    def search(question: str, _: list[float]) -> object:
        query = index.parse_query(" ".join(_WORD.findall(question)), ["text"])
        return [searcher.doc(address) for _, address in searcher.search(query, TOP).hits]

    return search


def _build_lancedb(texts: list[str], vectors: str, folder: str) -> None:
    import lancedb

    matrix = _matrix(vectors)
    rows = [{"text": text, "vector": matrix[n]} for n, text in enumerate(texts)]
    table = lancedb.connect(folder).create_table("passages", rows)
    table.create_fts_index("text", use_tantivy=False)


def _open_lancedb(folder: str) -> Search:
    import lancedb

    table = lancedb.connect(folder).open_table("passages")

    def search(question: str, vector: list[float]) -> object:
        words = " ".join(_WORD.findall(question))
        asked = table.search(query_type="hybrid").vector(vector).text(words)
        return asked.limit(TOP).to_list()

    return search


def _chroma(folder: str) -> Any:
    import chromadb

    settings = chromadb.Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(folder, settings)
    return client.get_or_create_collection(
        "passages", embedding_function=None, metadata={"hnsw:space": "cosine"}
    )


def _build_chroma(texts: list[str], vectors: str, folder: str) -> None:
    matrix, collection = _matrix(vectors), _chroma(folder)
    for start in range(0, len(texts), BATCH):
        part = texts[start : start + BATCH]
        ids = [str(start + n) for n in range(len(part))]
        collection.add(ids, embeddings=matrix[start : start + BATCH], documents=part)


def _open_chroma(folder: str) -> Search:
    collection = _chroma(folder)
    return lambda _, vector: collection.query(query_embeddings=[vector], n_results=TOP)


# -- usearch, faiss ---------------------------------------------------------------------------


def _build_usearch(texts: list[str], vectors: str, folder: str) -> None:
    import numpy
    from usearch.index import Index

    index = Index(ndim=DIMS, metric="cos", dtype="i8")
    index.add(numpy.arange(len(texts)), _matrix(vectors), threads=1)
    index.save(os.path.join(folder, "index.usearch"))


def _open_usearch(folder: str) -> Search:
    import numpy
    from usearch.index import Index

    index = Index.restore(os.path.join(folder, "index.usearch"))
    return lambda _, vector: index.search(numpy.array(vector, dtype=numpy.float32), TOP)


def _build_faiss(texts: list[str], vectors: str, folder: str) -> None:
    import faiss

    matrix = _matrix(vectors)
    kind = faiss.ScalarQuantizer.QT_8bit
    index = faiss.IndexScalarQuantizer(DIMS, kind, faiss.METRIC_INNER_PRODUCT)
    index.train(matrix)
    index.add(matrix)
    faiss.write_index(index, os.path.join(folder, "index.faiss"))


def _open_faiss(folder: str) -> Search:
    import faiss
    import numpy

    faiss.omp_set_num_threads(1)
    index = faiss.read_index(os.path.join(folder, "index.faiss"))
    return lambda _, vector: index.search(numpy.array([vector], dtype=numpy.float32), TOP)


PEERS = {
    "FTS5": Peer("apsw", "words", _build_fts5, _open_fts5),
    "sqlite-vec + FTS5": Peer("sqlite-vec", "both, by RRF", _build_sqlite_vec, _open_sqlite_vec),
    "tantivy": Peer("tantivy", "words", _build_tantivy, _open_tantivy),
    "LanceDB": Peer("lancedb", "both, by RRF", _build_lancedb, _open_lancedb),
    "Chroma": Peer("chromadb", "vectors", _build_chroma, _open_chroma),
    "usearch, int8": Peer("usearch", "vectors", _build_usearch, _open_usearch),
    "faiss, int8 flat": Peer("faiss-cpu", "vectors", _build_faiss, _open_faiss),
}


def _read(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main() -> None:
    name, act, source, folder = sys.argv[1:]
    peer = PEERS[name]
    if act == "once":
        question = _read(source)
        peer.open(folder)(question["text"], question["vector"])
        return
    from importlib.metadata import version

    base = os.path.splitext(source)[0]
    told: dict[str, Any] = {"version": version(peer.package)}
    if act == "build":
        texts = _read(f"{base}.texts.json")
        began = time.process_time()
        peer.build(texts, f"{base}.f32", folder)
        told["rows_per_second"] = len(texts) / (time.process_time() - began)
    else:
        sys.path.append(os.path.dirname(os.path.abspath(__file__)))
        from measure import peak_mb

        search = peer.open(folder)
        for kind, questions in _read(f"{base}.peers.json").items():
            costs = []
            for place, question in enumerate([questions[0], *questions]):
                began = time.process_time()
                search(question["text"], question["vector"])
                if place:  # the first one warms up
                    costs.append((time.process_time() - began) * 1000)
            told[kind] = costs
        told["peak_mb"] = peak_mb()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
