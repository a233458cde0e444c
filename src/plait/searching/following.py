"""Words after operators: what a query finds beyond an expression that matches little.

Whoever writes operators wants what they match first. Where that is little, the words alone may know
more; these hits come after, and the receipt says so.
"""

import time
from collections.abc import Iterable

from plait.errors import DeadlineExceeded, Notice, advise
from plait.searching.beginnings import beyond_most, with_completed_boosts
from plait.searching.branches import Plan
from plait.searching.evidence import matched, unknown_in
from plait.searching.recall import NOT_LEFT_OUT, WORDS_FOLLOW
from plait.searching.scoring import Branches, Request
from plait.searching.search import MISREAD, Ranked, candidates_for, rank
from plait.searching.spelling import Corrected, corrected
from plait.text.operators import loosened, read, wanted_alone
from plait.types import Hit
from plait.types.queries import Query

# As many passages are worth reading in any case, and nobody misses others.
ENOUGH_MATCHES = 3
_IN_A_SENTENCE = "the operators are searched as words; to use them, put what follows them in quotes"
_UNREADABLE = "the operators cannot be read: all is searched as words"


def read_otherwise(query: Query, *, strict: bool) -> list[Notice]:
    """Return the notices that operators of a query are words.

    Raises:
        UsageError: The search is strict, and the query has too many beginnings of words.
    """
    notices = [Notice(why_misread(query), MISREAD)] if query.misread else []
    return [*notices, beyond_most(query.unbegun, strict=strict)] if query.unbegun else notices


def why_misread(query: Query) -> str:
    """Return why operators are words: they are in a sentence, or quotes would not help either."""
    return _UNREADABLE if read(query.text, strict=True) is None else _IN_A_SENTENCE


def matches_little(branches: Branches) -> bool:
    """Tell whether few passages match the operators; not if time ran out before that was known."""
    matches = branches.vector if branches.keyword is None else branches.keyword
    return len(matches or ()) < ENOUGH_MATCHES and not _is_late(branches.degraded)


def _is_late(notices: Iterable[Notice]) -> bool:
    return any(notice.code == DeadlineExceeded.code for notice in notices)


def followed(plan: Plan, pool: int, branches: Branches) -> Ranked:
    """Return the hits of the operators, then those of the words, as many as were asked for."""
    request, query, vocabulary, corrections = _words_of(plan)
    words = plan._replace(request=request, query=query, vocabulary=vocabulary)
    if plan.ahead is not None and not branches.keyword:
        from plait.searching.ahead import expect_wanted

        expect_wanted(plan, plan.ahead)
    others = candidates_for(words, pool)
    if plan.ahead is not None:
        from plait.searching.ahead import gather_both

        gather_both(plan.ahead, [(plan, branches), (words, others)], pool)
    after = rank(words, pool, others)._replace(corrections=corrections)
    return _with_words(rank(plan, pool, branches), after, request)


def told_of_not(plan: Plan, ranked: Ranked) -> Ranked:
    """Return what operators found; if it is nothing because of NOT, with a notice of that."""
    query = wanted_alone(plan.query)
    if query is None or ranked.candidates or plan.request.offset or _is_late(ranked.degraded):
        return ranked
    try:
        if not _matches(plan, matched(query)):
            return ranked
    except DeadlineExceeded:
        return ranked  # nobody waits any longer to be told why there is nothing
    text = "NOT left out every passage with the other words."
    notice = Notice(text, NOT_LEFT_OUT, advice=advise("search_not"))
    return ranked._replace(degraded=(*ranked.degraded, notice))


def _matches(plan: Plan, query: Query) -> bool:
    """Tell whether any passage matches a query.

    Raises:
        DeadlineExceeded: It took too long.
    """
    where = plan.request.where
    if plan.ahead is not None:
        return bool(plan.ahead.company([query], 1, where, ())[0][0])
    deadline = time.monotonic() + plan.request.deadline
    return bool(plan.store.keyword(query, 1, where, deadline=deadline))


def _words_of(plan: Plan) -> Corrected:
    """Return the search for the words of an expression, with corrections of the unknown ones."""
    unknown, query = unknown_in(plan.vocabulary), with_completed_boosts(loosened(plan.query))
    search = corrected(plan.store, plan.request, query, plan.vocabulary, unknown, plan.ahead)
    return search._replace(request=plan.request._replace(text=search.query.text))


def _with_words(ranked: Ranked, words: Ranked, request: Request) -> Ranked:
    """Return the hits of the operators, then those of the words, as many as the request wants."""
    shown = {id_ for hit in ranked.hits for id_ in (hit.id, *hit.folded)}
    documents = {hit.document.id for hit in ranked.hits} if request.best_per_document else set()
    others = [hit for hit in words.hits if hit.id not in shown and hit.document.id not in documents]
    others = _below(ranked.hits, others[: max(0, request.limit - len(ranked.hits))])
    if not others:
        return ranked
    notices = (*ranked.degraded, *words.degraded, _notice(len(ranked.hits)))
    return words._replace(hits=[*ranked.hits, *others], degraded=tuple(dict.fromkeys(notices)))


def _below(first: list[Hit], others: list[Hit]) -> list[Hit]:
    """Return the others with scores that are not above those of the first."""
    least = min((hit.score for hit in first), default=1.0)
    most = max((hit.score for hit in others), default=0.0)
    if most <= least:
        return others
    factor = least / most
    return [
        hit._replace(
            score=hit.score * factor,
            reasons=hit.reasons and (*hit.reasons, f"x {factor:.4f} (words, not the operators)"),
        )
        for hit in others
    ]


def _notice(matching: int) -> Notice:
    if not matching:
        text = "nothing matches the operators: these hits are for the words and their meaning"
    else:
        which = "first hit matches" if matching == 1 else f"first {matching} hits match"
        text = f"only the {which} the operators: the others are for the words and their meaning"
    return Notice(text, WORDS_FOLLOW)
