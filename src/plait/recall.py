"""The read path: keyword beside vector, fused, explained, hydrated once.

Nothing here fails because an embedder is down, slow or changed: the other branch answers and the
receipt says what was missing.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from plait import text as words
from plait.embedders import embed_safely
from plait.errors import DeadlineExceeded, EmbedderError, StoreDamaged, UsageError
from plait.protocols import Embedder, Scored, Store, Token, Vector
from plait.ranking import context, cover, evidence, fuse, trace
from plait.types import (
    Answer,
    Branch,
    Document,
    Filter,
    Fusion,
    Hit,
    Mode,
    Passage,
    Query,
    Receipt,
    Ref,
    Signals,
    Tuning,
)

MAX_LIMIT = 1_000
MAX_WINDOW = 5
DEADLINE_S = 2.0
# Fewer candidates than these cost quality: the union must hold what either branch ranks well.
KEYWORD_CANDIDATES = 200
VECTOR_CANDIDATES = 100
SNIPPET_CHARS = 200
CHARS_PER_TOKEN = 4  # the usual estimate for English text
HYDRATE_BATCH = 25
DAY_MS = 24 * 3600 * 1000
MATCHES = 10_000  # of an operator query; beyond that vectors may miss some, never add any


class Request(NamedTuple):
    """One search, with every choice made."""

    text: str
    limit: int = 10
    mode: Mode = "hybrid"
    where: Filter = Filter()
    fusion: Fusion = "weighted"
    keyword_weight: float | None = None
    vector_weight: float | None = None
    min_score: float = 0.0
    floor: str = "relevance"
    window: int = 0
    best_per_document: bool = False
    explain: bool = False
    expansion_factor: int = 3
    rrf_k: int = fuse.RRF_K
    deadline: float = DEADLINE_S
    # Constants of `plait.ranking.limbic` other than usual; ``None`` leaves use and age out.
    limbic: tuple[tuple[str, float], ...] | None = None


class _Branches(NamedTuple):
    """What the two branches found; ``None`` is a branch that did not run."""

    keyword: list[Scored] | None
    vector: list[Scored] | None
    query_vector: Vector | None
    degraded: tuple[str, ...]


def search(store: Store, embedder: Embedder, request: Request) -> Answer:
    """Answer one request.

    Raises:
        UsageError: The query is empty, or a number is out of its range.
    """
    began = time.perf_counter()
    check(request)
    query = words.parse(request.text)
    tuning = tuning_of(embedder)
    keyword_weight, vector_weight = _weights(request, tuning)
    mode = _mode(request.mode, keyword_weight, vector_weight)
    found = _run_branches(store, embedder, request, query, mode, tuning)
    used = _mode_used(found)
    fused, cosines = _fuse(store, embedder, request, found, keyword_weight, vector_weight)
    hits = _Scorer(store, query, request, found, cosines, fused, tuning).best()
    receipt = Receipt(
        query=request.text,
        mode_asked=request.mode,
        mode_used=used,
        fusion=request.fusion,
        keyword_weight=keyword_weight,
        vector_weight=vector_weight,
        degraded=found.degraded,
        keyword_candidates=len(found.keyword or ()),
        vector_candidates=len(found.vector or ()),
        candidates=len(fused),
        pending_vectors=store.pending_count(),
        indexed_at=store.newest(),
        milliseconds=round((time.perf_counter() - began) * 1000, 2),
        tokens=sum(len(hit.text) for hit in hits) // CHARS_PER_TOKEN,
    )
    return Answer(hits, receipt)


def tuning_of(embedder: Embedder) -> Tuning:
    """What the embedder says about itself, or cautious defaults."""
    tuning = getattr(embedder, "tuning", None)
    return tuning if isinstance(tuning, Tuning) else Tuning()


def check(request: Request) -> None:
    """Refuse what no search can mean."""
    if not request.text.strip():
        raise UsageError('The query is empty. Say what to look for, as in: plait search "ssh keys"')
    if not 1 <= request.limit <= MAX_LIMIT:
        raise UsageError(f"limit is {request.limit}; choose 1 to {MAX_LIMIT}.")
    if not 0 <= request.window <= MAX_WINDOW:
        raise UsageError(f"window is {request.window}; choose 0 to {MAX_WINDOW}.")
    if not 0.0 <= request.min_score <= 1.0:
        raise UsageError(f"min_score is {request.min_score}; choose 0 to 1.")


def _weights(request: Request, tuning: Tuning) -> tuple[float, float]:
    """The caller's weights, else the merge's own, else what suits the embedder."""
    if request.fusion == "seed001":
        defaults = fuse.SEED001_KEYWORD_WEIGHT, fuse.SEED001_VECTOR_WEIGHT
    else:
        defaults = tuning.keyword_weight, tuning.vector_weight
    keyword, vector = request.keyword_weight, request.vector_weight
    if keyword is None and vector is None:
        return defaults
    if keyword is None:
        return 1.0 - vector if vector is not None else 1.0, vector or 0.0
    return keyword, 1.0 - keyword if vector is None else vector


def _mode(asked: Mode, keyword_weight: float, vector_weight: float) -> Mode:
    """A weight of 0 switches its branch off: no call, no scan."""
    if asked != "hybrid":
        return asked
    if vector_weight <= 0.0:
        return "keyword"
    return "vector" if keyword_weight <= 0.0 else "hybrid"


def _mode_used(found: _Branches) -> Mode:
    if found.vector is None:
        return "keyword"
    return "vector" if found.keyword is None else "hybrid"


def _run_branches(
    store: Store,
    embedder: Embedder,
    request: Request,
    query: Query,
    mode: Mode,
    tuning: Tuning,
) -> _Branches:
    degraded: list[str] = []
    embed = None
    if mode != "keyword" and not _is_obstructed(store, embedder, mode, degraded):
        # What follows NOT must not attract: with operators only the wanted words are embedded.
        text = " ".join(query.words) if query.strict else request.text
        embed = _start_embedding(embedder, text, tuning, request.deadline)
    by_keyword = None
    if mode != "vector" or embed is None or query.strict:
        by_keyword = _by_keyword(store, request, query, degraded)
    vector, by_vector = None, None
    if embed is not None:
        vector, by_vector = _by_vector(store, embedder, request, embed, degraded)
        if by_vector is not None and query.strict:
            allowed = {ref for ref, _ in by_keyword or ()}
            by_vector = [pair for pair in by_vector if pair[0] in allowed]
        if by_vector is None and by_keyword is None:
            by_keyword = _by_keyword(store, request, query, degraded)
    if mode == "vector" and by_vector is not None:
        by_keyword = None
    elif by_keyword is not None:
        by_keyword = by_keyword[: _over_fetch(request, KEYWORD_CANDIDATES)]
    return _Branches(by_keyword, by_vector, vector, tuple(degraded))


def _by_vector(
    store: Store,
    embedder: Embedder,
    request: Request,
    embed: Callable[[], Vector | None],
    degraded: list[str],
) -> tuple[Vector | None, list[Scored] | None]:
    """The query's vector and its neighbours; neither where the embedder has nothing to say."""
    try:
        vector = embed()
        if vector is None:
            return None, None
        size = _over_fetch(request, VECTOR_CANDIDATES)
        return vector, store.vector(vector, embedder.space, size, request.where)
    except EmbedderError as error:
        # Down, slow, or a vector that the store refuses: no finite direction, wrong length.
        degraded.append(f"vector search skipped: {error}")
        return None, None


def _is_obstructed(store: Store, embedder: Embedder, mode: Mode, degraded: list[str]) -> bool:
    """Whether vectors cannot answer; says why unless there are simply none to ask."""
    obstacle = _vector_obstacle(store, embedder, mode)
    if obstacle:
        degraded.append(obstacle)
    return obstacle is not None


def _vector_obstacle(store: Store, embedder: Embedder, mode: Mode) -> str | None:
    """Why vectors cannot answer; empty when nothing is wrong, there are just none."""
    space = store.space()
    if embedder.dims == 0:
        reason = getattr(embedder, "reason", "")
        if reason and space is not None:
            return f"vector search skipped: {reason}"
        if mode == "vector":
            return "vector search skipped: no embedder is configured"
        return ""
    if space is None:
        if store.newest() is None:
            return ""
        return f"no vectors yet. Run: plait reindex --embedder {embedder.space.spec}"
    if space != embedder.space:
        return (
            f"vector search skipped: this memory's vectors are {space.beside(embedder.space)}, the "
            f"embedder is {embedder.space.beside(space)}. "
            f"Run: plait reindex --embedder {embedder.space.spec}"
        )
    return None


def _start_embedding(
    embedder: Embedder, text: str, tuning: Tuning, deadline: float
) -> Callable[[], Vector | None]:
    """The query's vector, when called for; an external one works while keywords are searched."""

    def embed() -> Vector | None:
        return embed_safely(embedder, [text[: tuning.max_chars]], "query")[0]

    if not tuning.external:
        return embed
    at_hand = getattr(embedder, "at_hand", None)
    ready = at_hand(text[: tuning.max_chars]) if at_hand is not None else None
    if ready is not None:
        return lambda: ready
    from threading import Thread

    outcome: list[Vector | EmbedderError | None] = []

    def work() -> None:
        try:
            outcome.append(embed())
        except EmbedderError as error:
            outcome.append(error)

    thread = Thread(target=work, daemon=True)
    until = time.monotonic() + deadline
    thread.start()

    def wait() -> Vector | None:
        # The keyword branch has used up part of the time already.
        thread.join(max(0.0, until - time.monotonic()))
        if not outcome:
            raise EmbedderError(f"the embedder gave no answer within {deadline:g} s")
        if isinstance(outcome[0], EmbedderError):
            raise outcome[0]
        return outcome[0]

    return wait


def _by_keyword(store: Store, request: Request, query: Query, degraded: list[str]) -> list[Scored]:
    # An operator query decides what the vector branch may return: then all that match are wanted.
    size = MATCHES if query.strict else _over_fetch(request, KEYWORD_CANDIDATES)
    deadline = time.monotonic() + request.deadline
    try:
        return store.keyword(query, size, request.where, deadline=deadline)
    except DeadlineExceeded:
        degraded.append(f"keyword search stopped after {request.deadline:g} s")
    except StoreDamaged as error:
        degraded.append(f"keyword search failed: {error}")
    return []


def _over_fetch(request: Request, least: int) -> int:
    size = request.limit * request.expansion_factor
    return max(size, least) if request.fusion == "weighted" else size


def _fuse(
    store: Store,
    embedder: Embedder,
    request: Request,
    found: _Branches,
    keyword_weight: float,
    vector_weight: float,
) -> tuple[dict[Ref, fuse.Fused], dict[Ref, float]]:
    cosines = dict(found.vector or ())
    if request.fusion == "rrf":
        return fuse.rrf(found.keyword, found.vector, k=request.rrf_k), cosines
    if request.fusion == "seed001":
        fused = fuse.seed001(
            found.keyword,
            found.vector,
            keyword_weight=keyword_weight,
            vector_weight=vector_weight,
        )
        return fused, cosines
    candidates = list(
        dict.fromkeys([ref for ref, _ in [*(found.keyword or ()), *(found.vector or ())]])
    )
    if found.query_vector is not None:
        missing = [ref for ref in candidates if ref not in cosines]
        cosines.update(store.cosines(found.query_vector, embedder.space, missing))
    passages, _ = _frequencies(store, ())
    fused = fuse.weighted(
        found.keyword,
        cosines if found.vector is not None else None,
        candidates,
        keyword_weight=keyword_weight,
        vector_weight=vector_weight,
        attainable=evidence.attainable_bm25(passages),
    )
    if found.keyword is None:
        return fused, cosines  # Who asks by vectors alone wants their order.
    return context.lend(fused, store.sessions(context.beside(candidates))), cosines


class _Scorer:
    """Walks the fused ranking from the top, hydrating in batches, until the answer is full."""

    def __init__(
        self,
        store: Store,
        query: Query,
        request: Request,
        found: _Branches,
        cosines: dict[Ref, float],
        fused: dict[Ref, fuse.Fused],
        tuning: Tuning,
    ) -> None:
        self._store = store
        self._request = request
        self._cosines = cosines
        self._fused = fused
        self._tuning = tuning
        self._bm25 = dict(found.keyword or ())
        self._keywords_found_nothing = found.keyword is not None and not found.keyword
        # Who asks by vectors alone, or for another system's merge, wants that order.
        self._favours = request.fusion == "weighted" and found.keyword is not None
        self._keyword_rank = _ranks(found.keyword)
        self._vector_rank = _ranks(found.vector)
        # Shown as the caller wrote them: "deploy", not the stem "deploi".
        self._word_of = {term: word for word in query.words for _, _, term in store.tokens(word)}
        self._wanted = frozenset(self._word_of)
        content = [word for word in query.words if word not in words.empty_words()]
        telling = frozenset(content or query.words)
        self._telling = frozenset(term for term, word in self._word_of.items() if word in telling)
        self._passages, self._holding = _frequencies(store, self._telling)

    def best(self) -> list[Hit]:
        request = self._request
        # Those that the last look may bring up are read even if fewer are wanted: how many are
        # asked for must not decide which is first.
        wanted = max(request.limit, cover.LOOKED_AT) if self._favours else request.limit
        order = [ref for _, ref in sorted((-row.score, ref) for ref, row in self._fused.items())]
        hits: list[Hit] = []
        seen: set[str] = set()
        start = 0
        while start < len(order) and len(hits) < wanted:
            end = self._batch_end(order, start, wanted - len(hits))
            for ref, passage, document in self._hydrated(order[start:end]):
                if request.best_per_document and document.id in seen:
                    continue
                if _is_said_already(passage, document, hits):
                    continue
                # Last, because telling what matched means reading the passage word by word.
                hit = self._hit(ref, passage, document)
                if self._convincing(hit):
                    seen.add(document.id)
                    hits.append(hit)
                if len(hits) == wanted:
                    break
            start = end
        hits = self._about(self._scored(hits)[: request.limit])
        return [self._widened(hit) for hit in hits] if request.window else hits

    def _about(self, hits: list[Hit]) -> list[Hit]:
        """The hits with the names of the entities that they are facts about."""
        parents = {hit.document.parent for hit in hits} - {None}
        if not parents:
            return hits
        names = {one.id: one.title for one in self._store.load([id_ for id_ in parents if id_])}
        return [hit._replace(entity=names.get(hit.document.parent or "")) for hit in hits]

    def _scored(self, hits: list[Hit]) -> list[Hit]:
        """The hits in their final order, with their final scores and what these are made of."""
        fused = [self._fused[hit.passage.ref] for hit in hits]
        if self._favours:
            fused = cover.favour(fused, [hit.signals.coverage for hit in hits])
        explain = self._request.explain
        found = [
            hit._replace(
                score=one.score,
                reasons=trace.explain(one, hit.relevance, hit.signals) if explain else (),
            )
            for hit, one in zip(hits, fused, strict=True)
        ]
        return sorted(self._weighed(found), key=lambda hit: -hit.score)

    def _weighed(self, hits: list[Hit]) -> list[Hit]:
        """The hits with what their use and age do to their scores."""
        changed = self._request.limbic
        if changed is None or self._request.fusion != "weighted":
            return hits  # who asks for another system's merge wants its scores
        refs = [hit.passage.ref for hit in hits]
        uses = self._store.uses(refs)
        if not uses.of and all(hit.document.kind == "file" for hit in hits):
            return hits  # files do not age, and nobody has read any of these
        from plait.ranking import limbic

        constants = limbic.constants_from(changed)
        # Whole days, so that the same search gives the same answer again.
        now = time.time_ns() // 1_000_000 // DAY_MS * DAY_MS
        found = []
        for hit in hits:
            use = limbic.history(hit.passage.ref, hit.document, uses.of, uses.together)
            document = hit.document
            weight = limbic.weigh(
                use,
                now,
                constants,
                kind=document.kind,
                trust=document.trust,
                pinned=document.pinned,
            )
            reasons = (*hit.reasons, limbic.explain(weight, use)) if hit.reasons else ()
            found.append(hit._replace(score=hit.score * weight.factor, reasons=reasons))
        largest = max([1.0, *(hit.score for hit in found)])
        return [hit._replace(score=hit.score / largest) for hit in found]

    def _batch_end(self, order: Sequence[Ref], start: int, wanted: int) -> int:
        """Equal scores stay in one batch, since only their keys can put them in order."""
        end = min(len(order), start + max(wanted, HYDRATE_BATCH if start else wanted))
        while (
            end < len(order) and self._fused[order[end]].score == self._fused[order[end - 1]].score
        ):
            end += 1
        return end

    def _hydrated(self, refs: Sequence[Ref]) -> list[tuple[Ref, Passage, Document]]:
        rows = self._store.passages(refs)
        # A passage may have been deleted since the branches ran: it is simply no longer there.
        found = [(ref, *rows[ref]) for ref in refs if ref in rows]
        found.sort(key=lambda row: (-self._fused[row[0]].score, row[2].doc_id, row[1].ordinal))
        return found

    def _hit(self, ref: Ref, passage: Passage, document: Document) -> Hit:
        fused = self._fused[ref]
        tokens = self._store.tokens(passage.text)
        found = {term for _, _, term in tokens}
        beside = "\n".join((document.title, passage.heading, *document.tags))
        found.update(term for _, _, term in self._store.tokens(beside))
        matched = self._wanted & found
        covered = evidence.coverage(self._telling, matched, self._passages, self._holding)
        cosine = self._cosines.get(ref)
        snippet, highlights = self._snippet(passage, tokens)
        signals = Signals(
            bm25=self._bm25.get(ref),
            cosine=cosine,
            keyword=fused.keyword,
            vector=fused.vector,
            keyword_rank=self._keyword_rank.get(ref),
            vector_rank=self._vector_rank.get(ref),
            coverage=covered,
            matched=tuple(sorted({self._word_of[term] for term in matched})),
        )
        relevance = evidence.relevance(covered, cosine, self._tuning)
        return Hit(
            passage=passage,
            document=document,
            score=fused.score,
            relevance=relevance,
            source=self._source(ref),
            snippet=snippet,
            highlights=highlights,
            signals=signals,
        )

    def _snippet(
        self, passage: Passage, tokens: Sequence[Token]
    ) -> tuple[str, tuple[tuple[int, int], ...]]:
        """The words that answer; headings are shown beside them, not again inside."""
        start = _after_headings(passage.text)
        if start:
            tokens = [(a - start, b - start, term) for a, b, term in tokens if a >= start]
        return words.snippet(passage.text[start:], tokens, self._wanted, SNIPPET_CHARS)

    def _source(self, ref: Ref) -> Branch:
        """Which branch's own list held the hit, before the union was completed."""
        if ref in self._keyword_rank:
            return "hybrid" if ref in self._vector_rank else "keyword"
        return "vector"

    def _convincing(self, hit: Hit) -> bool:
        if self._request.floor == "rrf" and self._request.fusion == "rrf":
            return hit.score >= self._request.min_score
        lent = self._fused[hit.passage.ref].neighbours
        if hit.relevance <= 0.0 and (self._keywords_found_nothing or (self._favours and not lent)):
            return False  # the nearest is not near at all: better no answer than a wrong one
        return hit.relevance >= self._request.min_score

    def _widened(self, hit: Hit) -> Hit:
        """The hit with its neighbours' text, overlaps laid over each other."""
        around = self._store.neighbours(hit.document.id, hit.passage.ordinal, self._request.window)
        return hit._replace(context=join(around))


def _is_said_already(passage: Passage, document: Document, hits: Sequence[Hit]) -> bool:
    """Whether a profile and one of the observations it is made of would both be shown."""
    if document.kind == "entity":
        return any(hit.document.parent == document.id for hit in hits)
    if document.parent is None:
        return False
    # A profile holds what is trusted and has room: anything else still has to speak for itself.
    line = "- " + " ".join(passage.text.split())
    return any(
        hit.document.id == document.parent and line in hit.passage.text.splitlines() for hit in hits
    )


def _frequencies(store: Store, terms: Iterable[str]) -> tuple[int, dict[str, int]]:
    """How common terms are; nothing is known where the keyword index is damaged."""
    try:
        return store.frequencies(terms)
    except StoreDamaged:
        return 0, {}


def join(passages: Sequence[Passage]) -> str:
    """Consecutive passages as one text."""
    parts: list[str] = []
    reached: int | None = None
    for passage in passages:
        text = passage.text
        if reached is not None and passage.start < reached:
            text = text[reached - passage.start :]
        parts.append(text)
        reached = max(reached or 0, passage.start + len(passage.text))
    return "".join(parts)


def _after_headings(text: str) -> int:
    """Where the body of a passage begins; 0 when it is nothing but headings."""
    place = 0
    while place < len(text) and text[place] in "#\n":
        end = text.find("\n", place)
        if end < 0:
            return 0
        place = end + 1
    return place


def _ranks(branch: list[Scored] | None) -> dict[Ref, int]:
    return {ref: rank for rank, (ref, _) in enumerate(branch or (), start=1)}
