"""Cache the vectors of an external model, and check that it is still the same model.

A name may mean another model tomorrow: a tag is moved, a server is upgraded. The memory keeps
the vector of one fixed text as a sample. Every write that needs a new vector compares it, and so
does ``doctor``. A search asks for it beside its query, in the same request: at the first query,
then now and then, and when the server names another model.
"""

import json
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import local

from plait.embedders import CANARY, Embedder, Learnt
from plait.errors import EmbedderError, StoreError, advise
from plait.protocols import Store, Vector
from plait.types import Space, TextKind
from plait.types.records import NamedTuple
from plait.types.reports import Finding, finding_of

# Cosine of two vectors of one text by one model. Rounding on other hardware stays far above it.
SAME_MODEL_COSINE = 0.999
# Queries whose vectors stay in this process.
QUERIES_KEPT = 256
# How many vectors and uses may wait before they are written to the cache.
BACKLOG = 64
# Seconds and queries that the result of a search's comparison counts for.
RECHECK_S = 60.0
RECHECK_QUERIES = 16


class SampleCheck(NamedTuple):
    """The result of comparing the sample of a query: with which one, until when, and the name.

    ``answered_as`` is what the server called the model that was compared.
    """

    stamp: str
    same: bool
    until: float
    answered_as: str


class _Operation(local):
    """What one operation has learnt of the model. Each thread has its own operation.

    ``stamp`` is the hash of the sample: it tells which model made a cached vector. While the memory
    has no sample it is empty, and nothing is cached.
    """

    checked = False
    afresh = False
    stamp = ""


class CachedEmbedder(Embedder):
    """Ask an embedder only for vectors that are not cached; `flush` stores the new ones."""

    def __init__(
        self,
        inner: Embedder,
        store: Store,
        size: int,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inner = inner
        self.tuning = inner.tuning
        self._store = store
        self._size = size
        self._known = store.state().space
        self._queries: OrderedDict[str, Vector] = OrderedDict()
        self._made: dict[str, Vector] = {}
        self._used: set[str] = set()
        self._query_stamp = ""
        self._query_sample: Vector | None = None
        self._verdict: SampleCheck | None = None
        # Vectors of queries since the last comparison: the next one shows whether to keep them.
        self._unproven: dict[str, Vector] = {}
        self._clock = clock
        self._operation = _Operation()

    @property
    def space(self) -> Space:
        """Identity of the vectors; the memory may know a length that the embedder does not."""
        own = self._inner.space
        if own == self._known:
            return own
        self._known = self._store.state().space
        return self._assumed(own)

    def _assumed(self, own: Space) -> Space:
        known = self._known
        if (
            known is not None
            and known._replace(dims=own.dims) == own
            and not self._operation.afresh
        ):
            if own.dims:
                # Meanwhile another process gave the memory vectors of another length.
                self._inner.forget_dims()
            return known
        return own

    @property
    def dims(self) -> int | None:
        """Length of a vector; ``None`` until the first one shows it."""
        return self.space.dims or self._inner.dims

    def recheck(self) -> None:
        """Compare the sample again before the next vectors: the model may have changed."""
        self._operation.checked = self._operation.afresh = False

    def cached_query(self, text: str) -> Vector | None:
        """Return the cached vector of a query."""
        space = self.space
        sample = self._store.state().sample_of(space) if space.dims else None
        stamp = self._stamp_of(sample)
        self._query_stamp, self._query_sample = stamp, sample
        if not stamp:
            return None
        if len(self._made) + len(self._used) >= BACKLOG:
            self.flush()
        name = self._name("query", text, stamp)
        if name in self._queries:
            self._queries.move_to_end(name)
            return self._queries[name]
        vector = self._store.cached([name]).get(name) if self._size else None
        if vector is not None:
            self._used.add(name)
            self._remember(name, vector)
        return vector

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        """Return one vector per text, in order.

        Raises:
            EmbedderError: The embedder failed, or is not the one that made this memory's vectors.
        """
        return self._embed_queries(texts) if kind == "query" else self._embed_passages(texts)

    def _embed_queries(self, texts: Sequence[str]) -> list[Vector | None]:
        # The store is not read: this may run on a thread that does not live long.
        known, stamp, sample = self._known, self._query_stamp, self._query_sample
        canary: list[Vector | None] = []
        if sample is None or self._counts(stamp):
            vectors = self._inner.embed_safely(texts, "query")
            if sample is not None and not self._is_by_same_name():
                canary = self._inner.embed_safely([CANARY], "passage")
        else:
            first, *canary = self._inner.embed_with_sample(texts[0])
            more = texts[1:]
            vectors = [first, *(self._inner.embed_safely(more, "query") if more else ())]
        self._refuse_other_length(known)
        if sample is not None and canary:
            self._judge(stamp, _is_same_model(sample, canary[0]))
        for text, vector in zip(texts, vectors, strict=True):
            if stamp and vector is not None:
                name = self._name("query", text, stamp)
                self._remember(name, vector)
                (self._made if canary else self._unproven)[name] = vector
        return vectors

    def _counts(self, stamp: str) -> bool:
        """Tell whether the last comparison still counts.

        Raises:
            EmbedderError: It does, and showed another model.
        """
        verdict = self._verdict
        if verdict is None or verdict.stamp != stamp or self._clock() >= verdict.until:
            return False
        if not verdict.same:
            raise self._model_changed()
        return len(self._unproven) < RECHECK_QUERIES

    def _is_by_same_name(self) -> bool:
        return self._verdict is not None and self._inner.answered_as == self._verdict.answered_as

    def _judge(self, stamp: str, same: bool) -> None:
        """Record a comparison, and keep or drop the vectors of queries since the last one.

        Raises:
            EmbedderError: It is another model.
        """
        before, until = self._verdict, self._clock() + RECHECK_S
        self._verdict = SampleCheck(stamp, same, until, self._inner.answered_as)
        unproven, self._unproven = self._unproven, {}
        if same:
            # After a reindex elsewhere, the new sample proves nothing about them.
            if before is not None and before.stamp == stamp:
                self._made.update(unproven)
            return
        for name in unproven:
            self._queries.pop(name, None)
        raise self._model_changed()

    def _refuse_other_length(self, known: Space | None) -> None:
        own = self._inner.space
        if known is not None and own != known and own._replace(dims=known.dims) == known:
            self._inner.forget_dims()
            raise EmbedderError(
                f"{own} no longer returns vectors of {known.dims} dims, like those of this memory.",
                code="wrong_dims",
                subject=own.spec,
                advice=advise("reindex"),
            )

    def _embed_passages(self, texts: Sequence[str]) -> list[Vector | None]:
        vectors: dict[str, Vector | None] = dict(self._cached_passages(texts))
        missing = list(dict.fromkeys(text for text in texts if text not in vectors))
        if missing:
            asked = missing if self._operation.checked else [*missing, CANARY]
            answers = self._inner.embed_safely(asked, "passage")
            if not self._operation.checked:
                self._compare_sample(answers[-1])
            for text, vector in zip(missing, answers, strict=False):
                vectors[text] = vector
                if vector is not None:
                    self._made[self._name("passage", text, self._operation.stamp)] = vector
        if len(self._made) + len(self._used) >= BACKLOG:
            self.flush()
        return [vectors[text] for text in texts]

    def _cached_passages(self, texts: Sequence[str]) -> dict[str, Vector]:
        """Return the vectors that are cached, by text."""
        if not self._operation.checked:
            # Cached vectors are the memory's own model's, whatever the server runs now.
            self._operation.stamp = self._stamp_of(self._store.state().sample_of(self.space))
        if not (self._size and self._operation.stamp) or self._operation.afresh:
            return {}
        names = {self._name("passage", text, self._operation.stamp): text for text in texts}
        cached = self._store.cached(list(names))
        self._used.update(cached)
        return {names[name]: vector for name, vector in cached.items()}

    def learn(self, *, afresh: bool = False) -> Learnt:
        """Check that the model answers and is still the same, and learn its vectors' length.

        With ``afresh`` the model is taken as it is now, and every passage is embedded again.

        Raises:
            EmbedderError: It does not answer, or is not the model that made the memory's vectors.
        """
        if afresh:
            self._operation.afresh, self._known = True, None
            self._inner.forget_dims()
            self._queries.clear()
            self._made, self._unproven, self._used = {}, {}, set()
        # Two texts: a single vector cannot show that its length is wrong.
        canary, _ = self._inner.embed_safely([CANARY, CANARY.upper()], "passage")
        self._compare_sample(canary, building=True)
        unfinished = self._store.state().sample_of(self.space, building=True)
        return Learnt(canary, unfinished is None or _is_same_model(unfinished, canary))

    def check(self) -> list[Finding]:
        """Return the findings about the embedder for ``doctor``."""
        findings = self._inner.check()
        if any(finding.level == "error" for finding in findings):
            return findings
        try:
            self._compare_sample(self._inner.embed_safely([CANARY], "passage")[0])
        except EmbedderError as error:
            return [*findings, finding_of(error)]
        return [*findings, Finding("embedder", "ok", f"{self.space} is still the same model")]

    def flush(self) -> None:
        """Write new vectors into the cache, unless the memory is busy."""
        made, used = self._made, self._used
        self._made, self._used = {}, set()
        if self._size and (made or used):
            try:
                with self._store.transaction(patient=False) as transaction:
                    transaction.cache(made, used - made.keys(), self._size)
            except StoreError:
                return  # only a cache

    def _compare_sample(self, canary: Vector | None, *, building: bool = False) -> None:
        if canary is None:
            raise EmbedderError(
                f"{self._inner.space} returns no vector for a plain sentence.",
                code="no_vector",
                subject=self._inner.space.spec,
            )
        space = self.space
        before = self._store.state().sample_of(space, building=building)
        if before is not None and not self._operation.afresh and not _is_same_model(before, canary):
            raise self._model_changed()
        self._operation.checked = True
        self._operation.stamp = self._stamp_of(
            canary if self._operation.afresh or before is None else before
        )

    def _model_changed(self) -> EmbedderError:
        space = self._inner.space
        return EmbedderError(
            f"{space} is no longer the model that made this memory's vectors: the same text "
            "gets another vector. All vectors must be recomputed.",
            code="model_changed",
            subject=space.spec,
            advice=advise("reindex_embeddings"),
        )

    def _remember(self, name: str, vector: Vector) -> None:
        self._queries[name] = vector
        while len(self._queries) > QUERIES_KEPT:
            self._queries.popitem(last=False)

    def _name(self, kind: TextKind, text: str, stamp: str) -> str:
        # Without dims, which may be unknown before the first answer; the stamp implies them.
        space = self._inner.space._replace(dims=0)
        return _hash(json.dumps([*space, stamp, kind, text]).encode())

    @staticmethod
    def _stamp_of(sample: Vector | None) -> str:
        return "" if sample is None else _hash(sample.tobytes())


def _hash(data: bytes) -> str:
    from hashlib import sha256

    return sha256(data).hexdigest()


def _is_same_model(before: Sequence[float], now: Sequence[float] | None) -> bool:
    if now is None or len(before) != len(now):
        return False
    lengths = math.sqrt(sum(x * x for x in before)) * math.sqrt(sum(x * x for x in now))
    dot = sum(x * y for x, y in zip(before, now, strict=True))
    return bool(lengths) and dot / lengths >= SAME_MODEL_COSINE
