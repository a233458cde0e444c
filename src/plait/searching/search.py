"""Search: run the keyword and the vector branch, fuse them, then score.

A search never fails because an embedder is down, slow or changed: the other branch answers and the
receipt says what is missing.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from plait.embedders import Embedder
from plait.errors import (
    DeadlineExceeded,
    EmbedderError,
    Notice,
    StoreDamaged,
    UsageError,
    advise,
    quoted,
)
from plait.protocols import Scored, State, Store, Vector
from plait.ranking import hybrid
from plait.ranking.relevance import chance_among
from plait.searching.evidence import Evidence, matched, survey, unknown_in
from plait.searching.scoring import Branches, Request, Scorer
from plait.text import parse
from plait.text.asking import question_in
from plait.types import Answer, Hit, Mode, Receipt, Ref, check_range
from plait.types.guarding import weights_problem
from plait.types.queries import Query, Vocabulary, may_be_name
from plait.types.records import NamedTuple

if TYPE_CHECKING:
    from plait.protocols import ReadAhead

MAX_LIMIT = 1_000
MAX_WINDOW = 5
# Fewer candidates cost quality: the union must contain what either branch ranks well.
KEYWORD_CANDIDATES = 200
VECTOR_CANDIDATES = 100
LONG_QUERY = "long_query"  # codes of notices
MISREAD = "operators_misread"
# A token of English is about four bytes of UTF-8; one of Chinese or Thai, three bytes a character,
# about three quarters of a character. Tokenizers differ by a quarter around that.
BYTES_PER_TOKEN = 4
ANYTHING = ("", "*")  # queries that ask for whatever is newest
MATCHES = 10_000  # of an operator query; beyond that, vectors may miss some but never add any


class Plan(NamedTuple):
    """One running search: the request, the memory, and the weight of each branch."""

    store: Store
    ahead: "ReadAhead | None"
    state: State
    embedder: Embedder
    request: Request
    query: Query
    vocabulary: Vocabulary
    keyword_weight: float
    vector_weight: float

    @property
    def mode(self) -> Mode:
        """The branches to run: a weight of 0 switches its branch off, with no call and no scan."""
        if self.request.mode != "hybrid":
            return self.request.mode
        if self.vector_weight <= 0.0:
            return "keyword"
        return "vector" if self.keyword_weight <= 0.0 else "hybrid"


def search(store: Store, embedder_of: Callable[[State], Embedder], request: Request) -> Answer:
    """Answer one request, by the embedder for the state of the memory.

    Raises:
        UsageError: A number is out of range.
    """
    began = time.perf_counter()
    check(request)
    if request.text.strip() in ANYTHING:
        from plait.searching.newest import newest

        return newest(store, request, store.state())
    asked = request.text
    if not request.strict:
        request = request._replace(text=question_in(asked))
    query = parse(request.text, strict=request.strict)
    if query.misread and request.strict:
        raise UsageError(
            f"The operators of {quoted(request.text)} cannot be read.",
            code=MISREAD,
            subject="query",
        )
    ahead = store.ahead
    state, vocabulary = survey(store, ahead, request, query)
    if query.forms:
        from plait.searching.forms import held

        query = held(store, ahead, query, vocabulary, request.where)
    embedder = embedder_of(state)
    weights = keyword_weight, vector_weight = request.weights(embedder.tuning)
    plan = Plan(store, ahead, state, embedder, request, query, vocabulary, *weights)
    corrections: tuple[tuple[str, str], ...] = ()
    if (unknown := unknown_in(vocabulary)) and not (query.strict or request.strict):
        from plait.searching.spelling import corrected

        changed, query, vocabulary, corrections = corrected(
            store, request, query, vocabulary, unknown, ahead
        )
        plan = plan._replace(request=changed, query=query, vocabulary=vocabulary)
    if request.offset:
        from plait.searching.pages import later

        page = later(plan)
    else:
        page = ranked(plan, request.limit)
    hits, branches = page.hits, page.branches
    if request.window:
        from plait.searching.joining import widened

        hits = widened(store, ahead, hits, request.window)
    receipt = Receipt(
        query=asked,
        mode_asked=request.mode,
        mode_used=branches.mode_used,
        fusion=request.fusion,
        keyword_weight=keyword_weight,
        vector_weight=vector_weight,
        degraded=page.degraded,
        keyword_candidates=len(branches.keyword or ()),
        vector_candidates=len(branches.vector or ()),
        approximate=branches.approximate,
        candidates=page.candidates,
        pending_vectors=_pending(plan),
        indexed_at=state.indexed_at,
        milliseconds=round((time.perf_counter() - began) * 1000, 2),
        tokens=sum(tokens_of(hit.text) for hit in hits),
        corrections=corrections or page.corrections,
    )
    return Answer(hits, receipt)


class Ranked(NamedTuple):
    """The hits of a plan, and what they were chosen from."""

    hits: list[Hit]
    branches: Branches
    candidates: int
    degraded: tuple[Notice, ...]
    corrections: tuple[tuple[str, str], ...] = ()


def ranked(plan: Plan, pool: int) -> Ranked:
    """Rank the candidates for ``pool`` hits; where operators match little, words follow."""
    branches = candidates_for(plan, pool)
    if not plan.query.strict:
        best = rank(plan, pool, branches)
        if not may_be_name(plan.request.text):
            return best
        from plait.searching.named import with_named

        return with_named(plan, best)
    from plait.searching.following import followed, matches_little, told_of_not

    words_follow = not plan.request.strict and matches_little(branches)
    best = followed(plan, pool, branches) if words_follow else rank(plan, pool, branches)
    return best if best.hits else told_of_not(plan, best)


def candidates_for(plan: Plan, pool: int) -> Branches:
    """Return the candidates for so many hits."""
    wide = plan._replace(request=plan.request._replace(limit=pool))
    return _confined(wide, run_branches(wide))


def weighs_turns(plan: Plan, branches: Branches) -> bool:
    """Tell whether messages lend to each other; who asks for vectors alone wants their order."""
    weighs = branches.keyword is not None and plan.request.fusion == "weighted"
    return weighs and plan.state.has_messages


def rank(plan: Plan, pool: int, branches: Branches) -> Ranked:
    """Rank the candidates for ``pool`` hits; return as many hits as the request asks for."""
    wide = plan._replace(request=plan.request._replace(limit=pool))
    evidence = Evidence(
        plan.store,
        plan.query,
        plan.vocabulary,
        remote=plan.state.remote,
        ahead=plan.ahead,
        window=plan.request.window,
    )
    talks, turns = weighs_turns(plan, branches), None
    if plan.ahead is not None:
        from plait.searching.ahead import gather

        turns = gather(plan, plan.ahead, branches, pool, evidence)
    covered = _best_coverage(branches, evidence)
    fused = fuse(wide, branches, covered)
    if talks:
        from plait.searching.answers import with_turns

        fused = with_turns(plan.store, plan.query, plan.request.where, fused, turns)
    seen = plan.vocabulary.passages if branches.among is None else branches.among
    chance = chance_among(plan.state.chance, plan.embedder.tuning, seen)
    scorer = Scorer(
        plan.store, plan.request, evidence, branches, fused, covered, chance, plan.embedder
    )
    hits = scorer.best()
    return Ranked(hits, branches, len(fused), (*branches.degraded, *evidence.degraded))


def tokens_of(text: str) -> int:
    """Estimate how many tokens a text costs, rounded up.

    >>> tokens_of(""), tokens_of("We deploy on Fridays"), tokens_of("我们周五部署")
    (0, 5, 5)
    """
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def awaits_vectors(embedder: Embedder) -> bool:
    """Tell whether a memory without vectors is to have some: its embedder was down so far."""
    return embedder.dims != 0 or embedder.reason is not None


def _pending(plan: Plan) -> int:
    if plan.state.space is None and awaits_vectors(plan.embedder):
        return plan.vocabulary.passages
    return plan.state.pending


def check(request: Request) -> None:
    """Check a request.

    Raises:
        UsageError: A number is out of range.
    """
    check_range("limit", request.limit, 1, MAX_LIMIT)
    check_range("offset", request.offset, 0, MAX_LIMIT - request.limit)
    check_range("window", request.window, 0, MAX_WINDOW)
    check_range("min_score", request.min_score, 0, 1)
    keyword, vector = request.keyword_weight, request.vector_weight
    for name, weight in (("keyword_weight", keyword), ("vector_weight", vector)):
        if weight is not None:
            check_range(name, weight, 0, 1)
    problem = None if keyword is None or vector is None else weights_problem(keyword, vector)
    if problem:
        raise UsageError(problem, code="bad_weights", subject="keyword_weight")


# -- the two branches --------------------------------------------------------------------------


def run_branches(plan: Plan) -> Branches:
    """Search by words and by meaning.

    Raises:
        StoreDamaged: Damage leaves nothing to answer from: silence would look like no hits.
    """
    mode, degraded, embed = plan.mode, _cut_off(plan), None
    if mode != "keyword" and vectors_can_answer(plan.embedder, plan.state, mode, degraded):
        embed = _start_embedding(plan)
    if embed is not None and plan.ahead is not None:
        from plait.searching.ahead import both_branches

        branches = both_branches(plan, plan.ahead, embed, degraded)
        if branches is not None:
            return branches._replace(degraded=tuple(degraded))
    return _one_after_the_other(plan, embed, degraded)


def _one_after_the_other(
    plan: Plan, embed: Callable[[], Vector | None] | None, degraded: list[Notice]
) -> Branches:
    mode, query, keyword, damage = plan.mode, plan.query, None, None
    if mode != "vector" or embed is None or query.strict:
        keyword, damage = _by_keyword(plan, degraded)
    branches = Branches()
    if embed is not None:
        branches = _by_vector(plan, embed, keyword or [], degraded)
        if branches.vector is None and keyword is None and damage is None:
            keyword, damage = _by_keyword(plan, degraded)
    if damage is not None and (branches.vector is None or query.strict):
        raise damage
    return branches._replace(keyword=keyword, degraded=tuple(degraded))


def _confined(plan: Plan, branches: Branches) -> Branches:
    """Return as many of the best as a plan asks for; only what matches its operators is near."""
    keyword, vector = branches.keyword, branches.vector
    if vector is not None:
        vector = vector[: over_fetch(plan.request, VECTOR_CANDIDATES)]
        if plan.query.strict:
            allowed = {ref for ref, _ in keyword or ()}
            # Alone, they rank all that matches, however far, the equally near in order of writing.
            near = sorted(branches.cosines.items()) if plan.mode == "vector" else vector
            vector = sorted((row for row in near if row[0] in allowed), key=lambda row: -row[1])
    if plan.mode == "vector" and vector is not None:
        keyword = None
    elif keyword is not None:
        keyword = keyword[: over_fetch(plan.request, KEYWORD_CANDIDATES)]
    return branches._replace(keyword=keyword, vector=vector)


def _cut_off(plan: Plan) -> list[Notice]:
    """Return the notices that a query was not searched as it was written."""
    query = plan.query
    notices: list[Notice] = []
    if query.misread or query.unbegun:
        from plait.searching.following import read_otherwise

        notices += read_otherwise(query, strict=plan.request.strict)
    if query.left_out:
        used = f"keyword search used its first {len(query.words)} different words"
        notices.append(Notice(f"the query is too long: {used}", LONG_QUERY))
    elif len(query.text) < len(plan.request.text.rstrip()):
        used = f"keyword search used its first {len(query.text):,} characters"
        notices.append(Notice(f"the query is too long: {used}", LONG_QUERY))
    return notices


def _by_keyword(
    plan: Plan, degraded: list[Notice]
) -> tuple[list[Scored] | None, StoreDamaged | None]:
    """Return passages with the query's words, or the damage that leaves it unknown which."""
    request = plan.request
    # An operator query limits what the vector branch may return, so all matches are needed.
    size = MATCHES if plan.query.strict else over_fetch(request, KEYWORD_CANDIDATES)
    deadline = time.monotonic() + request.deadline
    try:
        if plan.ahead is not None:
            from plait.searching.ahead import by_keyword

            return by_keyword(plan, plan.ahead, size, deadline), None
        return plan.store.keyword(matched(plan.query), size, request.where, deadline=deadline), None
    except DeadlineExceeded:
        degraded.append(stopped(request))
    except StoreDamaged as error:
        degraded.append(error.notice.explaining("keyword search failed"))
        return None, error
    return [], None


def stopped(request: Request) -> Notice:
    """Return the notice that the search by words took too long."""
    return Notice(f"keyword search stopped after {request.deadline:g} s", DeadlineExceeded.code)


def _by_vector(
    plan: Plan,
    embed: Callable[[], Vector | None],
    keyword: list[Scored],
    degraded: list[Notice],
) -> Branches:
    """Return the query's nearest passages, and the cosines of the keyword hits."""
    try:
        vector = embed()
        if vector is None:
            return Branches()
        if plan.query.strict and not keyword:
            return Branches(None, [], {})  # nothing that is near would be left
        nearest = plan.store.vector(
            vector,
            plan.embedder.space,
            over_fetch(plan.request, VECTOR_CANDIDATES),
            plan.request.where,
            also=[ref for ref, _ in keyword[: over_fetch(plan.request, KEYWORD_CANDIDATES)]],
        )
    except EmbedderError as error:
        # Down, slow, or a vector that the store refuses: not finite, or of the wrong length.
        degraded.append(error.notice.explaining("vector search skipped"))
        return Branches()
    except StoreDamaged as error:
        degraded.append(error.notice.explaining("vector search failed"))
        return Branches()
    return Branches(None, nearest.hits, nearest.cosines, nearest.among, nearest.approximate)


def vectors_can_answer(
    embedder: Embedder, state: State, mode: Mode, degraded: list[Notice]
) -> bool:
    """Tell whether vector search is possible; report why not, unless there are no vectors."""
    space = state.space
    if state.vectorless is not None:
        if mode == "vector" or embedder.space.provider != "none":
            degraded.append(state.vectorless)
        return False
    if state.vector_damage is not None:
        text = f"vector search failed: the memory is damaged ({state.vector_damage})."
        degraded.append(Notice(text, StoreDamaged.code, advice=advise("doctor_fix")))
        return False
    if embedder.dims == 0:
        if embedder.reason is not None and space is not None:
            degraded.append(embedder.reason.explaining("vector search skipped"))
        elif mode == "vector":
            text = "vector search skipped: no embedder is configured"
            degraded.append(Notice(text, "no_embedder"))
        return False
    if space is None:
        if state.indexed_at is not None:
            reindex = advise("reindex_with", embedder=embedder.space.spec)
            degraded.append(Notice("no vectors yet.", "no_vectors", advice=reindex))
        return False
    if space != embedder.space:
        reindex = advise("reindex_with", embedder=embedder.space.spec)
        text = (
            f"vector search skipped: this memory's vectors are from "
            f"{quoted(space.beside(embedder.space))}, but the embedder is "
            f"{embedder.space.beside(space)}."
        )
        degraded.append(Notice(text, "other_embedder", advice=reindex))
        return False
    return True


def _start_embedding(plan: Plan) -> Callable[[], Vector | None]:
    """Return a function that returns the query's vector; an external model starts right away."""
    embedder, deadline = plan.embedder, plan.request.deadline
    # Words after NOT must not attract hits: with operators, only the wanted words are embedded.
    text = " ".join(plan.query.words) if plan.query.strict else plan.request.text
    text = text[: embedder.tuning.max_chars]

    def embed() -> Vector | None:
        return embedder.embed_safely([text], "query")[0]

    if not embedder.tuning.external:
        return embed
    cached = embedder.cached_query(text)
    if cached is not None:
        return lambda: cached
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
            raise EmbedderError(f"the embedder did not answer within {deadline:g} s")
        if isinstance(outcome[0], EmbedderError):
            raise outcome[0]
        return outcome[0]

    return wait


def over_fetch(request: Request, least: int) -> int:
    """Return how many candidates a branch is asked for."""
    size = (request.offset + request.limit) * request.expansion_factor
    return max(size, least) if request.fusion == "weighted" else size


# -- one ranking -------------------------------------------------------------------------------


def fuse(plan: Plan, branches: Branches, covered: float) -> dict[Ref, hybrid.Fused]:
    """Merge both branches into one ranking."""
    request, keyword, vector = plan.request, branches.keyword, branches.vector
    if request.fusion == "rrf":
        return hybrid.rrf(keyword, vector, k=request.rrf_k)
    if request.fusion == "max":
        # One side alone counts whole, as there: its best hit has the score 1.
        alone = request.mode != "hybrid" or keyword is None or vector is None
        return hybrid.max_fusion(
            keyword,
            vector,
            keyword_weight=1.0 if alone else plan.keyword_weight,
            vector_weight=1.0 if alone else plan.vector_weight,
        )
    candidates = list(dict.fromkeys([ref for ref, _ in [*(keyword or ()), *(vector or ())]]))
    # Only theirs: a passage that an operator excludes must not set the scale of the others.
    cosines = {ref: branches.cosines[ref] for ref in candidates if ref in branches.cosines}
    return hybrid.weighted(
        keyword,
        cosines if vector is not None else None,
        candidates,
        keyword_weight=plan.keyword_weight,
        vector_weight=plan.vector_weight,
        attainable=hybrid.attainable_bm25(plan.vocabulary.passages),
        covered=covered,
    )


def _best_coverage(branches: Branches, evidence: Evidence) -> float:
    """Return how much of the query the best keyword hits contain; 1 if they are not weighed."""
    if branches.vector is None or branches.keyword is None:
        return 1.0
    return evidence.best_coverage([ref for ref, _ in branches.keyword[: hybrid.JUDGED_BY]])
