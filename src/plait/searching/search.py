"""Search: parse the query, run the keyword and the vector branch, fuse them, then score."""

import time
from collections.abc import Callable

from plait.embedders import Embedder
from plait.errors import Notice, UsageError, quoted
from plait.protocols import State, Store
from plait.ranking import hybrid
from plait.ranking.relevance import chance_among
from plait.searching.branches import Plan, confined, run_branches
from plait.searching.evidence import Evidence, survey, unknown_in
from plait.searching.scoring import Branches, Request, Scorer
from plait.text import parse
from plait.text.asking import question_in
from plait.types import Answer, Hit, Receipt, Ref, check_range
from plait.types.guarding import weights_problem
from plait.types.queries import Query, may_be_name
from plait.types.records import NamedTuple

MAX_LIMIT = 1_000
MAX_WINDOW = 5
MISREAD = "operators_misread"  # the code of a notice
# A token of English is about four bytes of UTF-8; one of Chinese or Thai, three bytes a character,
# about three quarters of a character. Tokenizers differ by a quarter around that.
BYTES_PER_TOKEN = 4
ANYTHING = ("", "*")  # queries that ask for whatever is newest


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
    request, query = parsed(request)
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

        query = held(store, ahead, query, vocabulary, request)
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


def parsed(request: Request) -> tuple[Request, Query]:
    """Return a request for what a question asks, and its query."""
    if not request.strict:
        request = request._replace(text=question_in(request.text))
    return request, parse(request.text, strict=request.strict)


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
    """Return the candidates for ``pool`` hits."""
    wide = plan._replace(request=plan.request._replace(limit=pool))
    return confined(wide, run_branches(wide))


def weighs_turns(plan: Plan, branches: Branches) -> bool:
    """Tell whether messages raise each other: not in the order of one branch, or another fusion."""
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
