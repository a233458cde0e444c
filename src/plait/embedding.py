"""Somebody else's model, made fit for a memory: its vectors are cached, and a sample is checked.

The same name may stand for another model tomorrow: a tag is re-pointed, a server is upgraded. The
vector of one fixed text, kept with the memory's vectors, tells; it is compared when something is
written or examined, never on a search.
"""

import json
import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from plait.embedders import embed_safely
from plait.errors import EmbedderError
from plait.protocols import Embedder, Store, Vector
from plait.types import Finding, Space, TextKind, Tuning

CANARY = "The canary in the mine sang until the air went bad; then the miners knew."
# Cosine of two vectors of one text by one model: rounding on other hardware stays far above it.
SAME = 0.999
QUERIES_KEPT = 256
# Vectors that wait for a quiet moment to be written into the cache.
BACKLOG = 64


class CachedEmbedder:
    """An embedder whose vectors are made once; `flush` writes down what was learnt."""

    def __init__(self, inner: Embedder, store: Store, size: int) -> None:
        self._inner = inner
        self._store = store
        self._size = size
        self._known = store.space()
        self._queries: OrderedDict[str, Vector | None] = OrderedDict()
        self._made: dict[str, Vector] = {}
        self._used: set[str] = set()
        self._canary: Vector | None = None
        self._checked = False
        self._anew = False

    @property
    def space(self) -> Space:
        """Identity of the vectors; what only the first one could tell, the memory may know."""
        space = self._inner.space
        if self._known is None or space.dims or self._known._replace(dims=0) != space:
            return space
        return self._known

    @property
    def dims(self) -> int | None:
        """Length of a vector; ``None`` until the first one tells."""
        return self.space.dims or self._inner.dims

    @property
    def tuning(self) -> Tuning:
        """What the embedder says of itself."""
        tuning = getattr(self._inner, "tuning", None)
        return tuning if isinstance(tuning, Tuning) else Tuning(external=True)

    def anew(self) -> None:
        """From here on, ask for every passage again, and take the model as it is now."""
        self._anew, self._checked, self._canary = True, False, None
        self._known = None
        forget = getattr(self._inner, "forget_dims", None)
        if forget is not None:
            forget()

    def at_hand(self, text: str) -> Vector | None:
        """The vector of a query that was asked before."""
        if text in self._queries:
            self._queries.move_to_end(text)
            return self._queries[text]
        if self.dims is None or not self._size:
            return None
        name = self._name("query", text)
        found = self._store.cached([name]).get(name)
        if found is not None:
            self._used.add(name)
            self._remember(text, found)
        return found

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        """One vector per text, in order.

        Raises:
            EmbedderError: The embedder failed, or is not the one that made this memory's vectors.
        """
        return self._asked(texts) if kind == "query" else self._passages(texts)

    def _asked(self, texts: Sequence[str]) -> list[Vector | None]:
        # No look into the store: this may run on a thread that is soon gone.
        expected = self.space
        found = embed_safely(self._inner, texts, "query")
        if expected.dims and self.space != expected:
            raise EmbedderError(
                f"{self.space} made vectors of {expected.dims} dims for this memory. "
                "Run: plait reindex"
            )
        for text, vector in zip(texts, found, strict=True):
            self._remember(text, vector)
            self._keep(self._name("query", text), vector)
        return found

    def _passages(self, texts: Sequence[str]) -> list[Vector | None]:
        ready: dict[str, Vector] = {}
        if self._size and not self._anew and self.dims is not None:
            names = {self._name("passage", text): text for text in texts}
            cached = self._store.cached(list(names))
            self._used.update(cached)
            ready = {names[name]: vector for name, vector in cached.items()}
        wanted = list(dict.fromkeys(text for text in texts if text not in ready))
        made: dict[str, Vector | None] = {**ready}
        if wanted:
            asked = wanted if self._checked else [*wanted, CANARY]
            found = embed_safely(self._inner, asked, "passage")
            if not self._checked:
                self._check(found[-1])
            for text, vector in zip(wanted, found, strict=False):
                made[text] = vector
                self._keep(self._name("passage", text), vector)
        if len(self._made) + len(self._used) >= BACKLOG:
            self.flush()
        return [made[text] for text in texts]

    def learn(self, *, building: bool = False) -> None:
        """Make sure that the model is there and the one it was, and how long its vectors are.

        With ``building`` the one it was when the vectors in the wings were begun.

        Raises:
            EmbedderError: It is not.
        """
        if not self._checked:
            canary = embed_safely(self._inner, [CANARY], "passage")[0]
            self._check(canary, building=building)

    def check(self) -> list[Finding]:
        """What doctor should know about the embedder."""
        ask = getattr(self._inner, "check", None)
        findings: list[Finding] = list(ask()) if ask is not None else []
        if any(finding.level == "error" for finding in findings):
            return findings
        try:
            self.learn()
        except EmbedderError as error:
            return [*findings, Finding("embedder", "error", str(error))]
        return [*findings, Finding("embedder", "ok", f"{self.space} gives the vectors it gave")]

    def flush(self) -> None:
        """Write the cache and the sample down, unless the memory is busy."""
        made, used = self._made, self._used
        self._made, self._used = {}, set()
        if self._size and (made or used):
            self._store.cache(made, used - made.keys(), self._size)
        if self._canary is not None and self._store.mark(self.space, self._canary):
            self._canary = None

    def _check(self, canary: Vector | None, *, building: bool = False) -> None:
        if canary is None:
            raise EmbedderError(f"{self.space} gives no vector for a plain sentence")
        before = None if self._anew else self._store.marked(self.space, building=building)
        if before is None:
            self._canary = canary
        elif not _same(before, canary):
            raise EmbedderError(
                f"{self.space} is no longer the model that made this memory's vectors: the same "
                "text gets another vector. To make all of them anew run: plait reindex --embeddings"
            )
        self._checked = True

    def _keep(self, name: str, vector: Vector | None) -> None:
        if vector is not None:
            self._made[name] = vector

    def _remember(self, text: str, vector: Vector | None) -> None:
        self._queries[text] = vector
        while len(self._queries) > QUERIES_KEPT:
            self._queries.popitem(last=False)

    def _name(self, kind: TextKind, text: str) -> str:
        from hashlib import sha256

        whole = json.dumps([*self.space, kind, text])
        return sha256(whole.encode()).hexdigest()


def learn(embedder: Embedder, *, anew: bool = False) -> None:
    """Make sure that an embedder's space is known before its vectors are all made.

    Raises:
        EmbedderError: It does not answer.
    """
    if isinstance(embedder, CachedEmbedder):
        if anew:
            embedder.anew()
        embedder.learn(building=True)
    elif embedder.dims is None:
        embed_safely(embedder, [CANARY], "passage")


def _same(one: Iterable[float], other: Iterable[float]) -> bool:
    a, b = list(one), list(other)
    if len(a) != len(b):
        return False
    lengths = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
    return bool(lengths) and sum(x * y for x, y in zip(a, b, strict=True)) / lengths >= SAME
