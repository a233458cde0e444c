"""Search a memory on another machine, where each read is a trip and costs more than what it reads.

Reads that a search makes one after the other elsewhere go there together, by `Store.ahead`. The
values are the same. Loaded only for such a store.
"""

import time
from collections.abc import Callable, Iterable, Sequence

from plait.errors import DeadlineExceeded, EmbedderError, Notice, StoreDamaged
from plait.protocols import Nearest, ReadAhead, Scored, State, Vector
from plait.protocols.ahead import MOST_TRIPS
from plait.ranking import hybrid
from plait.searching.answers import Conversation
from plait.searching.branches import (
    KEYWORD_CANDIDATES,
    MATCHES,
    VECTOR_CANDIDATES,
    Plan,
    over_fetch,
    stopped,
)
from plait.searching.conversations import may_be_short, reach_of_session
from plait.searching.evidence import Evidence, in_sight, looked_up_in, matched, unknown_in
from plait.searching.scoring import Branches, Request, first_read
from plait.searching.search import ANYTHING, fuse, parsed, weighs_turns
from plait.text import prefixes_of, spelling
from plait.text.operators import wanted_alone
from plait.types import Filter, Ref
from plait.types.queries import Expression, Query, Term, Vocabulary, may_be_name

# Words that are looked up at once with those that are there: more are another language. Who has
# more to ask afterwards, as a recall has, does not wait for them once more.
DOUBTED_AT_ONCE = 4


def expect_filter(
    ahead: ReadAhead, where: Filter, names: Sequence[str], asked: Request | None
) -> None:
    """Read with the trip that looks up what a filter names all that a search reads first.

    ``names`` are those of entities. ``asked`` is the search, but for its filter.
    """
    may_begin = where.session is not None and may_be_short(where.session)
    if may_begin:
        ahead.expect_session(*reach_of_session(where))
    if asked is None or asked.text.strip() in ANYTHING or not (names or may_begin):
        return
    request, query = parsed(asked)
    words, prefixes = looked_up_in(query, prefixes_of(query))
    sight = in_sight(where if where.projects else where._replace(scopes=False))
    doubtful = _doubtful_in(request, words)
    ahead.expect_survey(words, prefixes=prefixes, seen_by=sight, doubtful=doubtful)


def survey(
    ahead: ReadAhead, request: Request, query: Query, prefixes: Iterable[str], sight: Filter
) -> tuple[State, Vocabulary]:
    """Return the state of the memory and the words of a query, and expect misspelt ones."""
    doubtful = _doubtful_in(request, query)
    doubtful = doubtful if ahead.kept or len(doubtful) <= DOUBTED_AT_ONCE else []
    if query.forms:
        from plait.searching.forms import side_by_side

        for beside in side_by_side(query):
            ahead.expect_company([beside], 1, request.where, ())
    state, vocabulary = ahead.survey(
        query, prefixes=prefixes, seen_by=sight, doubtful=doubtful, where=request.where
    )
    return state, vocabulary


def _doubtful_in(request: Request, query: Query) -> list[str]:
    """Return the words that are looked up as misspelt if they are not there."""
    if request.strict or not any(map(spelling.allowed, query.words)):
        return []
    from plait.searching.spelling import doubted

    return doubted(request, query.words)


def both_branches(
    plan: Plan, ahead: ReadAhead, embed: Callable[[], Vector | None], degraded: list[Notice]
) -> Branches | None:
    """Search by words and by meaning at once; ``None`` where one has to come after the other."""
    request, space, strict = plan.request, plan.embedder.space, plan.query.strict
    if plan.mode == "keyword":
        return None
    keyword, nearest = list[Scored](), Nearest([], {})
    try:
        vector = embed()
        if vector is None:
            return None
        if not (strict and matches_nothing(matched(plan.query).expression, plan.vocabulary)):
            _foresee(plan, ahead)
            try:
                keyword, nearest = _searched(plan, ahead, vector)
            except DeadlineExceeded:
                if not strict:
                    most = over_fetch(request, VECTOR_CANDIDATES)
                    nearest = plan.store.vector(vector, space, most, request.where)
                degraded.append(stopped(request))
    except (EmbedderError, StoreDamaged):
        return None  # each branch alone tells what it lacks
    if strict and not keyword:
        return Branches(keyword, [], {})  # nothing that is near would be left
    by_words = None if plan.mode == "vector" and not strict else keyword
    return Branches(by_words, nearest.hits, nearest.cosines, nearest.among, nearest.approximate)


def _searched(plan: Plan, ahead: ReadAhead, vector: Vector) -> tuple[list[Scored], Nearest]:
    request, strict, space = plan.request, plan.query.strict, plan.embedder.space
    # By vector alone, unless what is near must match operators.
    query = matched(plan.query) if plan.mode == "hybrid" or strict else None
    deadline = time.monotonic() + request.deadline
    limits, *later = (
        _limits(request._replace(limit=size), strict=strict)
        for size in (request.limit, *ahead.sizes)
    )
    where = request.where
    return ahead.branches(query, vector, space, limits, where, deadline=deadline, later=later)


def _limits(request: Request, *, strict: bool) -> tuple[int, int, int]:
    """Return how many passages are looked for by words and by vector, and those with a cosine."""
    by_words = over_fetch(request, KEYWORD_CANDIDATES)
    # An operator query limits what the vector branch may return, so all matches are needed.
    return MATCHES if strict else by_words, over_fetch(request, VECTOR_CANDIDATES), by_words


def by_keyword(plan: Plan, ahead: ReadAhead, size: int, deadline: float) -> list[Scored]:
    """Return the passages with the query's words.

    Raises:
        DeadlineExceeded: It took too long.
    """
    query, space = matched(plan.query), plan.embedder.space
    if query.strict and matches_nothing(query.expression, plan.vocabulary):
        return []
    _foresee(plan, ahead)
    limits, where = (size, 0, 0), plan.request.where
    return ahead.branches(query, None, space, limits, where, deadline=deadline)[0]


def _foresee(plan: Plan, ahead: ReadAhead) -> None:
    """Read beside the search what is asked for after it."""
    if plan.query.strict:
        foresee_words(ahead, plan.request, plan.vocabulary)
    elif may_be_name(plan.request.text):
        from plait.searching.named import foresee_named

        foresee_named(ahead, plan.request)


def foresee_words(ahead: ReadAhead, request: Request, vocabulary: Vocabulary) -> None:
    """Look misspelt words up beside something else, such as a search for operators.

    If that finds little, words follow.
    """
    unknown = unknown_in(vocabulary)
    if not unknown or request.strict:
        return
    from plait.searching.dividing import divided_ones
    from plait.searching.spelling import doubted, foresee

    words, divided = doubted(request, unknown), divided_ones(request, unknown)
    foresee(ahead, request, words, divided, vocabulary)


def expect_wanted(plan: Plan, ahead: ReadAhead) -> None:
    """Read with the next trip whether it is for NOT that nothing matches, if no other is left.

    It is asked for if the words find nothing either, which their search and candidates come before.
    """
    query = wanted_alone(plan.query)
    if query is not None and ahead.trips + ahead.kept + 2 >= MOST_TRIPS:
        ahead.expect_company([matched(query)], 1, plan.request.where, ())


def gather(
    plan: Plan, ahead: ReadAhead, branches: Branches, pool: int, evidence: Evidence
) -> Conversation | None:
    """Read what will be asked for if candidates are ranked as expected; they are, as a rule.

    Only words that the best hits lack, and lively conversations, change it afterwards.
    """
    if not plan.query.strict and may_be_name(plan.request.text):
        from plait.searching.named import foresee_beginnings

        foresee_beginnings(ahead, plan.request)
    messages = gather_both(ahead, [(plan, branches)], pool, evidence)
    if messages is None or not weighs_turns(plan, branches):
        return None
    return Conversation(*ahead.conversation(messages))


def gather_both(
    ahead: ReadAhead,
    ranked: Sequence[tuple[Plan, Branches]],
    pool: int,
    evidence: Evidence | None = None,
) -> list[Ref] | None:
    """Read the candidates of rankings together; ``None`` if there are none, or damaged ones."""
    judged: list[Ref] = []
    first: list[Ref] = []
    every: list[Ref] = []
    messages: dict[Ref, None] = {}
    # Each ranking may need one trip more, unless it has everything.
    left = MOST_TRIPS - ahead.trips - ahead.kept
    # What imported messages tell of is looked up at the end, if a trip is left for it.
    imported = ranked[0][0].state.has_messages and not ahead.reads_beside
    is_last = left - imported <= len(ranked)
    for plan, branches in ranked:
        wide = plan._replace(request=plan.request._replace(limit=pool))
        expected = fuse(wide, branches, 1.0)
        judged += [ref for ref, _ in (branches.keyword or ())[: hybrid.JUDGED_BY]]
        first += first_read(wide.request, expected)
        every += expected
        if weighs_turns(plan, branches):
            messages |= dict.fromkeys(expected)
    if not every:
        return None
    refs, request = list(dict.fromkeys([*judged, *first])), ranked[0][0].request
    # Another search of the same question has not found enough in what was read.
    more = every if is_last or ahead.has_gathered else ()
    # Of a page behind the first one, few of what is read are shown.
    around = [*refs, *more] if is_last or not request.block else []
    try:
        read = ahead.gather(
            refs,
            list(messages),
            request.where,
            more=more,
            near=around,
            window=request.window,
            replies=is_last,
            steps=imported and left <= len(ranked),
        )
    except StoreDamaged:
        return None  # each read alone tells what it lacks
    if evidence is not None:
        evidence.has_read(*read)
    return list(messages)


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
