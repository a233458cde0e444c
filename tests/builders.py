"""Short ways to build documents, entries, vectors and failing embedders, and to use a store."""

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from plait.embedders import Embedder
from plait.embedders.none import NoEmbedder
from plait.errors import EmbedderError
from plait.facts.fingerprints import fingerprint
from plait.memory import Memory
from plait.protocols import Entry, Store, Unembedded, Vector
from plait.settings.loading import load
from plait.testing.hashing import HashingEmbedder
from plait.text import parse
from plait.types import Document, Filter, Passage, Ref, Space, TextKind
from plait.types.ids import new_id

NOW = 1_700_000_000_000  # a fixed moment, so that no test depends on the clock
SPACE = Space("test", "axes", 4)
# Opens an empty store; an argument ``clock`` replaces the time of day.
Engine = Callable[..., Store]
EVERYTHING = Filter(trusts=("trusted", "untrusted", "quarantined"), all_versions=True)


def vector(*numbers: float) -> Vector:
    return array("f", numbers)


def document(key: str | None = "note", text: str = "", **fields: Any) -> Document:
    times = {"created_at": NOW, "updated_at": NOW, "event_at": NOW, "indexed_at": NOW}
    return Document(**{**times, "key": key, "text": text, **fields})


def entry(
    key: str | None,
    *texts: str,
    vectors: Sequence[Vector | None] = (),
    space: Space | None = None,
    heading: str = "",
    **fields: Any,
) -> Entry:
    """A document that consists of exactly these passages, one line each."""
    passages = []
    start = 0
    for ordinal, text in enumerate(texts):
        line = ordinal + 1
        passages.append(Passage(text, heading, line, line, start, ordinal))
        start += len(text)
    if vectors and space is None:
        space = SPACE
    return Entry(document(key, "".join(texts), **fields), passages, vectors, space)


class Put(NamedTuple):
    """What `write` did with one entry."""

    id: str
    chunks: int
    pending: int
    replaced: bool


def write(store: Store, *entries: Entry, keep_use: bool = False) -> list[Put]:
    """Write entries in one transaction, each over the document that it replaces, if any."""
    written = []
    with store.transaction() as tx:
        for row in entries:
            document = row.document
            known = tx.known(document)
            if known is not None:
                document = document._replace(id=known.id, created_at=known.created_at)
            document = document._replace(id=document.id or new_id())
            mark = fingerprint(document.text) if document.kind == "observation" else None
            done = tx.write(row._replace(document=document), fingerprint=mark, keep_use=keep_use)
            written.append(Put(document.id, done.chunks, done.pending, known is not None))
    return written


def delete(store: Store, *names: str) -> int:
    """Delete documents by id or key, without a trace; the number of passages."""
    ids = [document.id for name in names for document, _ in store.find(name, EVERYTHING)]
    with store.transaction() as tx:
        return tx.delete(ids)


def fill(
    store: Store,
    vectors: Sequence[tuple[Ref, Vector | None]],
    space: Space = SPACE,
    *,
    building: bool = False,
) -> int:
    seen = {
        ref: Unembedded(ref, row.document.title, row.passage.heading, row.passage.text)
        for ref, row in store.hydrate([ref for ref, _ in vectors]).items()
    }
    made = [(seen.get(ref, Unembedded(ref, "", "", "")), vector) for ref, vector in vectors]
    with store.transaction() as tx:
        return tx.fill(space, made, building=building)


def begin(store: Store, space: Space = SPACE, **options: Any) -> bool:
    with store.transaction() as tx:
        return tx.begin(space, **options)


def swap(store: Store, space: Space = SPACE) -> bool:
    with store.transaction() as tx:
        return tx.swap(space)


def keys_of(store: Store, refs: Iterable[Ref]) -> list[str]:
    """Names of the documents of these passages, in order."""
    listed = list(refs)
    rows = store.hydrate(listed)
    return [rows[ref].document.doc_id for ref in listed]


def by_keyword(store: Store, words: str, limit: int = 10, where: Filter = EVERYTHING) -> list[str]:
    """Names of the documents that the keyword branch finds, best first."""
    return keys_of(store, [ref for ref, _ in store.keyword(parse(words), limit, where)])


def by_vector(
    store: Store, *numbers: float, limit: int = 10, where: Filter = EVERYTHING
) -> list[str]:
    """Names of the documents that the vector branch finds, nearest first."""
    hits = store.vector(vector(*numbers), SPACE, limit, where).hits
    return keys_of(store, [ref for ref, _ in hits])


def cosines(
    store: Store, numbers: Vector, refs: Sequence[Ref], space: Space = SPACE
) -> dict[Ref, float]:
    """The cosines of these passages, none of which is searched for."""
    nothing = Filter(keys=("no document has this key",))
    return store.vector(numbers, space, 1, nothing, also=refs).cosines


def passages_of(store: Store, name: str) -> list[Passage]:
    [(document, _)] = store.find(name, EVERYTHING)
    return store.passages(document.id)


def refs_of(store: Store, *names: str) -> list[Ref]:
    """The ref of the first passage of each document."""
    return [passages_of(store, name)[0].ref for name in names]


def is_sound(store: Store) -> bool:
    return all(finding.level != "error" for finding in store.check())


def memory_on(store: Store, embedder: Embedder | None = None, **flags: object) -> Memory:
    """A memory over any engine, by keyword only unless it gets an embedder."""
    config = load({"db_path": ":memory:", "project": "", **flags})
    return Memory(store, embedder or NoEmbedder(), config, path=":memory:")


class Counting(HashingEmbedder):
    """Remembers what it was asked."""

    def __init__(self, dims: int = 256) -> None:
        super().__init__(dims)
        self.asked: list[tuple[TextKind, str]] = []

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        self.asked += [(kind, text) for text in texts]
        return super().embed(texts, kind)


class Failing(HashingEmbedder):
    """Works for a number of calls, then is down until ``healthy`` is set."""

    def __init__(self, calls: int = 0, dims: int = 256) -> None:
        super().__init__(dims)
        self.healthy = False
        self._left = calls

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        if not self.healthy:
            self._left -= 1
            if self._left < 0:
                raise EmbedderError("the embedder is down")
        return super().embed(texts, kind)
