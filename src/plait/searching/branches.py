"""The two branches of a search, by words and by vector, and the plan that they follow.

A search never fails because an embedder is down, slow or changed: the other branch answers and the
receipt says what is missing.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from plait.embedders import Embedder
from plait.errors import DeadlineExceeded, EmbedderError, Notice, StoreDamaged, advise, quoted
from plait.protocols import Scored, State, Store, Vector
from plait.searching.evidence import matched
from plait.searching.scoring import Branches, Request
from plait.types import Mode
from plait.types.queries import Query, Vocabulary
from plait.types.records import NamedTuple

if TYPE_CHECKING:
    from plait.protocols import ReadAhead

# Fewer candidates cost quality: the union must contain what either branch ranks well.
KEYWORD_CANDIDATES = 200
VECTOR_CANDIDATES = 100
MATCHES = 10_000  # of an operator query; beyond that, vectors may miss some but never add any
LONG_QUERY = "long_query"  # the code of a notice


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


def confined(plan: Plan, branches: Branches) -> Branches:
    """Return as many of the best as the plan asks for; near ones must match its operators."""
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
    """Return the passages with the query's words, or the damage that hides them."""
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
