"""Somebody else's model, made fit for a memory: its vectors are cached, and a sample is checked.

The same name may stand for another model tomorrow: a tag is re-pointed, a server is upgraded. The
vector of one fixed text, kept with the memory's vectors, tells; it is compared by every act that
writes or examines, never by a search.
"""

import json
import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

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


class Learnt(NamedTuple):
    """What an embedder showed of itself before all vectors are made.

    ``sample`` is to be kept with them; ``resume`` tells whether what an earlier run left in the
    wings is by the same model.
    """

    sample: Vector | None = None
    resume: bool = True


class CachedEmbedder:
    """An embedder whose vectors are made once; `flush` writes down what was learnt."""

    def __init__(self, inner: Embedder, store: Store, size: int) -> None:
        self._inner = inner
        self._store = store
        self._size = size
        self._known = store.space()
        self._queries: OrderedDict[str, Vector] = OrderedDict()
        self._made: dict[str, Vector] = {}
        self._used: set[str] = set()
        # Which model made what is cached: the memory's sample of it, hashed; empty while there is
        # none, and then nothing is cached.
        self._stamp = ""
        # Apart, because a search on another thread must not relabel what a reindex is caching.
        self._query_stamp = ""
        self._checked = False
        self._anew = False

    @property
    def space(self) -> Space:
        """Identity of the vectors; what only the first one could tell, the memory may know."""
        own = self._inner.space
        if own == self._known:
            return own
        self._known = self._store.space()
        return self._assumed(own)

    def _assumed(self, own: Space) -> Space:
        known = self._known
        if known is not None and known._replace(dims=own.dims) == own and not self._anew:
            if own.dims:
                # Another process has given the memory vectors of another length meanwhile.
                self._forget_dims()
            return known
        return own

    @property
    def dims(self) -> int | None:
        """Length of a vector; ``None`` until the first one tells."""
        return self.space.dims or self._inner.dims

    @property
    def tuning(self) -> Tuning:
        """What the embedder says of itself."""
        tuning = getattr(self._inner, "tuning", None)
        return tuning if isinstance(tuning, Tuning) else Tuning(external=True)

    def doubt(self) -> None:
        """A new act begins: the model may be another by now."""
        self._checked = self._anew = False

    def at_hand(self, text: str) -> Vector | None:
        """The vector of a query that was asked before."""
        space = self.space
        stamp = self._stamp_of(self._store.marked(space)) if space.dims else ""
        self._query_stamp = stamp
        if not stamp:
            return None
        name = self._name("query", text, stamp)
        if name in self._queries:
            self._queries.move_to_end(name)
            return self._queries[name]
        found = self._store.cached([name]).get(name) if self._size else None
        if found is not None:
            self._used.add(name)
            self._remember(name, found)
        return found

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        """One vector per text, in order.

        Raises:
            EmbedderError: The embedder failed, or is not the one that made this memory's vectors.
        """
        return self._asked(texts) if kind == "query" else self._passages(texts)

    def _asked(self, texts: Sequence[str]) -> list[Vector | None]:
        # No look into the store: this may run on a thread that is soon gone.
        known, stamp = self._known, self._query_stamp
        found = embed_safely(self._inner, texts, "query")
        own = self._inner.space
        if known is not None and own != known and own._replace(dims=known.dims) == known:
            self._forget_dims()
            raise EmbedderError(
                f"{own} made vectors of {known.dims} dims for this memory. Run: plait reindex"
            )
        for text, vector in zip(texts, found, strict=True):
            if stamp and vector is not None:
                name = self._name("query", text, stamp)
                self._remember(name, vector)
                self._made[name] = vector
        return found

    def _passages(self, texts: Sequence[str]) -> list[Vector | None]:
        made: dict[str, Vector | None] = dict(self._ready(texts))
        wanted = list(dict.fromkeys(text for text in texts if text not in made))
        if wanted:
            asked = wanted if self._checked else [*wanted, CANARY]
            found = embed_safely(self._inner, asked, "passage")
            if not self._checked:
                self._check(found[-1])
            for text, vector in zip(wanted, found, strict=False):
                made[text] = vector
                if vector is not None:
                    self._made[self._name("passage", text, self._stamp)] = vector
        if len(self._made) + len(self._used) >= BACKLOG:
            self.flush()
        return [made[text] for text in texts]

    def _ready(self, texts: Sequence[str]) -> dict[str, Vector]:
        """What need not be asked for."""
        if not self._checked:
            # What is cached is by the model of the memory's vectors, whatever the server has now.
            self._stamp = self._stamp_of(self._store.marked(self.space))
        if not (self._size and self._stamp) or self._anew:
            return {}
        names = {self._name("passage", text, self._stamp): text for text in texts}
        cached = self._store.cached(list(names))
        self._used.update(cached)
        return {names[name]: vector for name, vector in cached.items()}

    def learn(self, *, anew: bool = False) -> Learnt:
        """See that the model is there and the one it was, and how long its vectors are.

        With ``anew`` it is taken as it is now, and every passage is asked for again.

        Raises:
            EmbedderError: It does not answer, or is another than the one that began.
        """
        if anew:
            self._anew, self._known = True, None
            self._forget_dims()
            self._queries.clear()
            self._made, self._used = {}, set()
        # Two texts: a single vector cannot show that its length is wrong.
        canary, _ = embed_safely(self._inner, [CANARY, CANARY.upper()], "passage")
        self._check(canary, building=True)
        wings = self._store.marked(self.space, building=True)
        return Learnt(canary, wings is None or _same(wings, canary))

    def check(self) -> list[Finding]:
        """What doctor should know about the embedder."""
        ask = getattr(self._inner, "check", None)
        findings: list[Finding] = list(ask()) if ask is not None else []
        if any(finding.level == "error" for finding in findings):
            return findings
        try:
            self._check(embed_safely(self._inner, [CANARY], "passage")[0])
        except EmbedderError as error:
            return [*findings, Finding("embedder", "error", str(error))]
        return [*findings, Finding("embedder", "ok", f"{self.space} gives the vectors it gave")]

    def flush(self) -> None:
        """Write the cache down, unless the memory is busy."""
        made, used = self._made, self._used
        self._made, self._used = {}, set()
        if self._size and (made or used):
            self._store.cache(made, used - made.keys(), self._size)

    def _check(self, canary: Vector | None, *, building: bool = False) -> None:
        if canary is None:
            raise EmbedderError(f"{self._inner.space} gives no vector for a plain sentence")
        space = self.space
        before = self._store.marked(space, building=building)
        if before is not None and not self._anew and not _same(before, canary):
            raise EmbedderError(
                f"{space} is no longer the model that made this memory's vectors: the same text "
                "gets another vector. To make all of them anew run: plait reindex --embeddings"
            )
        self._checked = True
        self._stamp = self._stamp_of(canary if self._anew or before is None else before)

    def _forget_dims(self) -> None:
        forget = getattr(self._inner, "forget_dims", None)
        if forget is not None:
            forget()

    def _remember(self, name: str, vector: Vector) -> None:
        self._queries[name] = vector
        while len(self._queries) > QUERIES_KEPT:
            self._queries.popitem(last=False)

    def _name(self, kind: TextKind, text: str, stamp: str) -> str:
        # The sample tells the dims too, and before the first answer nobody else does.
        space = self._inner.space._replace(dims=0)
        return _hash(json.dumps([*space, stamp, kind, text]).encode())

    @staticmethod
    def _stamp_of(sample: Vector | None) -> str:
        return "" if sample is None else _hash(sample.tobytes())


def learn(embedder: Embedder, *, anew: bool = False) -> Learnt:
    """Make sure that an embedder's space is known before its vectors are all made.

    Raises:
        EmbedderError: It does not answer, or is another than the one that began.
    """
    if isinstance(embedder, CachedEmbedder):
        return embedder.learn(anew=anew)
    if embedder.dims is None:
        embed_safely(embedder, [CANARY], "passage")
    return Learnt()


def _hash(data: bytes) -> str:
    from hashlib import sha256

    return sha256(data).hexdigest()


def _same(one: Sequence[float], other: Sequence[float] | None) -> bool:
    if other is None or len(one) != len(other):
        return False
    lengths = math.sqrt(sum(x * x for x in one)) * math.sqrt(sum(x * x for x in other))
    return bool(lengths) and sum(x * y for x, y in zip(one, other, strict=True)) / lengths >= SAME
