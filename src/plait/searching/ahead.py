"""Search a memory on another machine, where each read is a trip and costs more than what it reads.

Reads that a search makes one after the other elsewhere go there together, by `Store.ahead`. The
values are the same. Loaded only for such a store.
"""

import time
from collections.abc import Callable, Mapping

from plait.errors import DeadlineExceeded, EmbedderError, Notice, StoreDamaged
from plait.protocols import ReadAhead, Scored, Vector
from plait.ranking import hybrid
from plait.searching.answers import Conversation
from plait.searching.evidence import Evidence
from plait.searching.scoring import Branches, first_read
from plait.searching.search import (
    KEYWORD_CANDIDATES,
    VECTOR_CANDIDATES,
    Plan,
    over_fetch,
    run_branches,
    stopped,
)
from plait.types import Ref
from plait.types.queries import Expression, Term, Vocabulary


def both_branches(
    plan: Plan, ahead: ReadAhead, embed: Callable[[], Vector | None], degraded: list[Notice]
) -> Branches | None:
    """Search by words and by meaning at once; ``None`` where one has to come after the other."""
    request, space = plan.request, plan.embedder.space
    if plan.mode != "hybrid" or plan.query.strict or plan.embedder.tuning.external:
        return None
    most = over_fetch(request, VECTOR_CANDIDATES)
    limits = over_fetch(request, KEYWORD_CANDIDATES), most
    deadline = time.monotonic() + request.deadline
    keyword: list[Scored] = []
    try:
        vector = embed()
        if vector is None:
            return None
        try:
            keyword, nearest = ahead.hybrid(
                plan.query, vector, space, limits, request.where, deadline=deadline
            )
        except DeadlineExceeded:
            nearest = plan.store.vector(vector, space, most, request.where)
            degraded.append(stopped(request))
    except (EmbedderError, StoreDamaged):
        return None  # each branch alone tells what it lacks
    return Branches(keyword, nearest.hits, nearest.cosines, nearest.among, nearest.approximate)


def gather(
    plan: Plan,
    ahead: ReadAhead,
    branches: Branches,
    expected: Mapping[Ref, hybrid.Fused],
    evidence: Evidence,
    *,
    talks: bool,
) -> Conversation | None:
    """Read what will be asked for if candidates are ranked as expected; they are, as a rule.

    Only words that the best hits lack, and lively conversations, change it afterwards.
    """
    judged = [ref for ref, _ in (branches.keyword or ())[: hybrid.JUDGED_BY]]
    wanted = list(dict.fromkeys([*judged, *first_read(plan.request, expected)]))
    if not wanted:
        return None
    messages = [*expected] if talks else []
    try:
        rows, turns, replies = ahead.gather(wanted, evidence.terms, messages, plan.request.where)
    except StoreDamaged:
        return None  # each read alone tells what it lacks
    evidence.has_read(rows)
    return Conversation(turns, replies) if talks else None


def for_both_pages(first: Plan, deep: Plan) -> tuple[Branches | None, Branches | None]:
    """Search once for the first page and for the ranking that later pages continue with.

    The candidates of the first page are the best of the others.
    """
    many = run_branches(deep)
    if many.approximate:
        return None, many  # the nearest of many need not be those of few
    best = (
        *(many.keyword or ())[: over_fetch(first.request, KEYWORD_CANDIDATES)],
        *(many.vector or ())[: over_fetch(first.request, VECTOR_CANDIDATES)],
    )
    cosines = {ref: many.cosines[ref] for ref, _ in best if ref in many.cosines}
    return many._replace(cosines=cosines), many


def matches_nothing(expression: Expression | None, vocabulary: Vocabulary) -> bool:
    """Tell whether no passage can match an expression: it requires a word that none contains."""
    if expression is None:
        return False
    if isinstance(expression, Term):
        # Of its last word, another form may be there.
        last = -1 if expression.prefix or expression.ending else None
        return any(_is_absent(word, vocabulary) for word in expression.words[:last])
    parts = [matches_nothing(part, vocabulary) for part in expression.parts]
    if expression.operator == "not":
        return parts[0]
    return all(parts) if expression.operator == "or" else any(parts)


def _is_absent(word: str, vocabulary: Vocabulary) -> bool:
    terms = vocabulary.terms.get(word, ())
    return any(vocabulary.holding.get(term) == 0 for _, _, term in terms)
