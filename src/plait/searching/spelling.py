"""Correct words that the memory does not hold to words that it does.

A corrected word is searched beside the typed one and counts for less; the receipt shows it. Loaded
only for a question with an unknown word.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations, takewhile
from typing import TYPE_CHECKING

from plait.embedders.pieces import is_word
from plait.errors import EmbedderError, StoreDamaged
from plait.protocols import Store
from plait.ranking import hybrid
from plait.searching.dividing import (
    SHORT_WORD,
    Divided,
    any_together,
    divided_ones,
    pairs_of,
    read_otherwise,
)
from plait.searching.evidence import content_of, in_sight, unknown_in
from plait.searching.scoring import Request
from plait.text import capped, parts, spelling, words_in
from plait.text.english import empty_words
from plait.text.function_words import function_words_of, showing_words
from plait.text.operators import without_exact
from plait.types import Filter
from plait.types.queries import Expression, Group, Query, Spelling, Term, Vocabulary
from plait.types.records import NamedTuple

if TYPE_CHECKING:
    from plait.protocols import ReadAhead

# A passage that matches by a correction alone has this share of the evidence of the word itself.
CERTAINTY = 0.7
MOST_CORRECTED = 8  # words, the first ones: each costs some milliseconds
# A word in ten times as many passages is as likely as one that is this much nearer, in edits.
TENFOLD = 0.2
# Of two that are as near, the one that begins with more of the same letters is meant: "passwort" is
# a password, not a passport. Languages and forms of words differ at the end.
BEGINS_OTHERWISE = 0.1
# How unlikely a correction may be, in edits: if a passage has it beside other words of the
# question, if none has, and if there are no others. A word of another subject has neighbours
# here too, but they rarely stand together.
BESIDE = 1.2
APART = 0.5
ALONE = 1.0
# A word in at most this many passages, or this share of them, is company enough by itself.
RARE_PASSAGES = 3
RARE_SHARE = 0.01
# In a small memory most words are in more than one passage of a hundred.
RARE_IN_SMALL = 0.1
MOST_RARE_IN_SMALL = 20
# A common word is company, too, if it is in so many times as many passages with the correction as
# chance would put it in, and in so many at least.
OFTENER = 4.0
LEAST_TOGETHER = 3
COUNTED_TOGETHER = 100  # passages with a correction and its company; more say no more
COMPARED_SPELLINGS = 4  # candidates whose company is looked up, and other words it is looked up for

# Letters of a name of code that is corrected, and the small ones among them: in capitals alone, and
# in a short name, any letter may be meant.
SHORTEST_NAME = 6
SMALL_IN_NAME = 3

# A question in another language has at least so many words that are right, but not here, and a
# little word that few of the passages hold. In it only long words are corrected: these are mostly
# the same word ("parlament"), short ones another.
RIGHT_IN_FOREIGN = 2
LONG_IN_FOREIGN = 8  # letters
LONG_LITTLE_WORD = 5  # letters: a shorter one may be a slip, as "oder" is for "order"
HELD_IN_OWN = 0.1  # of the passages, by a little word of the language that they are in


class Corrected(NamedTuple):
    """A search with the corrections in it, and each word as typed and as searched for."""

    request: Request
    query: Query
    vocabulary: Vocabulary
    corrections: tuple[tuple[str, str], ...]


def corrected(
    store: Store,
    request: Request,
    query: Query,
    vocabulary: Vocabulary,
    unknown: Sequence[str],
    ahead: "ReadAhead | None" = None,
) -> Corrected:
    """Return the search with corrections of the unknown words, as far as there are any.

    What stands in quotes, and the beginning of a word, is meant as it is written.
    """
    unchanged = Corrected(request, query, vocabulary, ())
    words = doubted(request, unknown)
    divided = divided_ones(request, unknown)
    if not words and not divided:
        return unchanged
    right = {word for word in unknown if is_right(word)}
    where = request.where
    try:
        if ahead is not None:
            foresee(ahead, request, words, divided, vocabulary)
            if words:
                ahead.alike(words[:MOST_CORRECTED], where)
        if words and _is_foreign(store, request, right, vocabulary, ahead):
            words = _long_ones(words)
        words = words[:MOST_CORRECTED]
        likely = _likely_ones(store, where, words, vocabulary, ahead) if words else []
        chosen, more = _chosen(store, where, likely, divided, ahead)
    except StoreDamaged:
        return unchanged  # what is damaged is told by the search itself
    if not chosen:
        return unchanged
    text, parsed = request.text, query.text
    added = _words_of(chosen)
    phrases = tuple(Term(tuple(meant.split())) for meant in chosen.values() if " " in meant)
    for typed, meant in chosen.items():
        if typed in right:
            continue  # the model knows it in one piece
        pattern = re.compile(rf"(?<!\w){re.escape(typed)}(?!\w)", re.IGNORECASE)
        # Both, because their lengths tell whether the end of a query was cut off.
        text, parsed = pattern.sub(meant, text), pattern.sub(meant, parsed)
    beside = query._replace(
        text=parsed,
        words=tuple(dict.fromkeys((*query.words, *added))),
        expression=_any_more(query.expression, [*(Term((word,)) for word in added), *phrases]),
        # subtle: beside an expression they would bring back what its NOT excludes.
        boosts=(*query.boosts, *phrases) if query.expression is None else query.boosts,
    )
    return Corrected(
        request._replace(text=text),
        beside,
        _weighed(vocabulary, more, chosen),
        tuple(chosen.items()),
    )


def _long_ones(words: Sequence[str]) -> list[str]:
    """Return the words that are corrected in a question in another language."""
    return [word for word in words if len(word) >= LONG_IN_FOREIGN][:MOST_CORRECTED]


def doubted(request: Request, unknown: Collection[str]) -> list[str]:
    """Return those of the words that the memory does not hold that may be misspelt."""
    text = capped(request.text)
    asked = re.findall(r"\w+", text)
    marked = {word for word in asked if spelling.is_identifier(word)}
    names = {word for word in marked if _is_misspelt_name(word, unknown)}
    left_alone = set() if text.isupper() else {word.lower() for word in marked - names}
    left_alone |= {part for word in marked for part in parts(word)}
    left_alone |= {word for word in showing_words() if len(word) >= LONG_LITTLE_WORD}
    loose = without_exact(text)
    may_be_wrong = {*words_in(loose), *parts(loose)} - left_alone
    return [
        word
        for word in unknown
        if word in may_be_wrong and spelling.allowed(word) and not is_right(word)
    ]


def foresee(
    ahead: "ReadAhead",
    request: Request,
    words: Sequence[str],
    divided: Divided,
    vocabulary: Vocabulary,
) -> None:
    """Have read with the next trip what `corrected` will ask for."""
    if divided:
        pairs, parts_of_pairs = pairs_of(divided)
        ahead.expect_company(pairs, COUNTED_TOGETHER, request.where, parts_of_pairs)
    if words:
        little, left_out = _function_words(request, vocabulary)
        beside = left_out if little else []
        # If the question is in another language.
        instead = _long_ones(words) if little else []
        listed = words[:MOST_CORRECTED]
        ahead.foresee(listed, request.where, beside, in_sight(request.where), instead)


def is_right(word: str) -> bool:
    """Tell whether a word is known to the built-in model: then it is rare here, not misspelt."""
    try:
        return word.isalpha() and is_word(word)
    except EmbedderError:
        return False


def _is_misspelt_name(word: str, unknown: Collection[str]) -> bool:
    """Tell whether a name in capitals and small letters has a part that the memory does not hold.

    "serverMail" is another name; "PostgerSQL" is none. Capitals alone are an abbreviation.
    """
    return (
        len(word) >= SHORTEST_NAME
        and sum(map(str.islower, word)) >= SMALL_IN_NAME
        and any(part in unknown for part in parts(word))
    )


def _function_words(request: Request, vocabulary: Vocabulary) -> tuple[set[str], list[str]]:
    """Return the function words of a question, and its words that are not searched for."""
    words = [word.lower() for word in re.findall(r"\w+", capped(request.text))]
    # A query is without the function words of its language.
    left_out = [word for word in dict.fromkeys(words) if word not in vocabulary.terms]
    # "in" and "was" are English, too: that notes hold them does not show their language.
    return {*function_words_of(words).intersection(words)} - empty_words(), left_out


def _is_foreign(
    store: Store,
    request: Request,
    right: Collection[str],
    vocabulary: Vocabulary,
    ahead: "ReadAhead | None",
) -> bool:
    """Tell whether a question is in another language than the notes, as far as its words show.

    Some of its words are ``right``, but not here, and its function words are of a language that the
    notes are not in: misspelt questions have the function words of their notes.
    """
    little, left_out = _function_words(request, vocabulary)
    if not little:
        return False
    others, sight = vocabulary, in_sight(request.where)
    if left_out:
        # One that has read ahead knows them.
        read = store.vocabulary if ahead is None else ahead.vocabulary
        others = read(left_out, seen_by=sight)
    if any(_is_common(word, vocabulary) or _is_common(word, others) for word in little):
        return False
    others_right = {word for word in unknown_in(others) if is_right(word)}
    return len({*right, *others_right}) >= RIGHT_IN_FOREIGN


def _is_common(word: str, vocabulary: Vocabulary) -> bool:
    """Tell whether many passages hold a word."""
    least = max(1.0, vocabulary.passages * HELD_IN_OWN)
    return word not in vocabulary.unseen and any(
        vocabulary.holding.get(term, 0) >= least for _, _, term in vocabulary.terms.get(word, ())
    )


def _is_slip(typed: str, meant: str) -> bool:
    """Tell whether a hand may have typed one word for another: it does not add marks to letters."""
    return typed.isascii() or not meant.isascii() or len(typed) >= spelling.TWO_EDITS_FROM


class _Likely(NamedTuple):
    """A typed word, a word that may be meant, and a query for its company, if there is any.

    ``common`` has queries for it beside each common word alone, and in how many passages they must
    stand together.
    """

    typed: str
    spelt: Spelling
    company: Query | None
    common: tuple[tuple[Query, float], ...] = ()


def _likely_ones(
    store: Store,
    where: Filter,
    words: Sequence[str],
    vocabulary: Vocabulary,
    ahead: "ReadAhead | None",
) -> list[_Likely]:
    """Return the likely corrections of each word."""
    # A stored word is shown to people and models: letters alone cannot mean anything else.
    similar = {
        typed: [
            row
            for row in rows
            if spelling.is_plain(row.word)
            and row.word not in empty_words()
            and spelling.folded(row.word) != spelling.folded(typed)
            and _is_slip(typed, row.word)
        ]
        for typed, rows in (ahead or store).alike(words, where).items()
    }
    first = {typed: min(rows, key=_unlikely).word for typed, rows in similar.items() if rows}
    known = {
        word: max(vocabulary.holding.get(term, 0) for _, _, term in terms)
        for word, terms in vocabulary.terms.items()
        if terms and word not in empty_words() and word not in vocabulary.unseen
    }
    known = {word: count for word, count in known.items() if count}
    passages = vocabulary.passages
    small = min(MOST_RARE_IN_SMALL, passages * RARE_IN_SMALL)
    common = max(RARE_PASSAGES, small, passages * RARE_SHARE)
    likely: list[_Likely] = []
    for typed, rows in similar.items():
        others = [word for other, word in first.items() if other != typed]
        rare = [word for word, count in known.items() if count <= common] + others
        company = sorted(known, key=known.__getitem__) + others
        frequent = [word for word in company if word not in rare and len(company) > 1]
        for row in _likely(rows):
            by_chance = {word: row.holding * known[word] / passages for word in frequent}
            apart = [
                (_beside(row.word, (), (word,)), max(LEAST_TOGETHER, OFTENER * by_chance[word]))
                for word in frequent[:COMPARED_SPELLINGS]
            ]
            together = _beside(row.word, rare, company) if company else None
            likely.append(_Likely(typed, row, together, tuple(apart)))
    return likely


def _chosen(
    store: Store,
    where: Filter,
    likely: Sequence[_Likely],
    divided: Divided,
    ahead: "ReadAhead | None",
) -> tuple[dict[str, str], Vocabulary]:
    """Return the correction of each word, where one is likely enough, and their vocabulary.

    One that stands beside the others of the question is preferred to one that does not. A word
    without any is two, if these stand together in a passage.
    """
    if ahead is None:

        def count_of(query: Query) -> int:
            return len(store.keyword(query, COUNTED_TOGETHER, where))

        best = _best(likely, count_of)
        whole = _without(divided, best)
        # One search tells that no pair of any word stands together, as a rule.
        if whole and store.keyword(any_together(whole), 1, where):
            best |= read_otherwise(whole, count_of)
        return best, store.vocabulary(_words_of(best)) if best else Vocabulary(0, {}, {})
    queries = [row.company for row in likely if row.company is not None]
    queries += [query for row in likely for query, _ in row.common]
    pairs, parts_of_pairs = pairs_of(divided)
    counts: dict[Query, int] = {}
    told: dict[str, Vocabulary] = {}
    for asked, words in (queries, [row.spelt.word for row in likely]), (pairs, parts_of_pairs):
        if words:
            counted, listed = ahead.company(asked, COUNTED_TOGETHER, where, words)
            counts |= zip(asked, counted, strict=True)
            told |= {word: vocabulary for vocabulary in listed for word in vocabulary.terms}
    best = _best(likely, counts.__getitem__)
    best |= read_otherwise(_without(divided, best), counts.__getitem__)
    return best, _told_of(told, _words_of(best))


def _without(divided: Divided, corrected: Collection[str]) -> Divided:
    """Return what words may be: of corrected long ones, other spellings, but no two words."""
    return {
        word: kept
        for word, read in divided.items()
        if (kept := read if word not in corrected or len(word) <= SHORT_WORD else _spellings(read))
    }


def _spellings(read: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [words for words in read if len(words) == 1]


def _words_of(chosen: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words that are meant, each once."""
    return tuple(dict.fromkeys(" ".join(chosen.values()).split()))


def _best(likely: Sequence[_Likely], count_of: Callable[[Query], int]) -> dict[str, str]:
    """Return the best of likely words; ``count_of`` tells how many passages a query has."""
    chosen: dict[str, str] = {}
    best: dict[str, float] = {}
    for typed, row, company, common in likely:
        unlikely, limit = _unlikely(row), ALONE
        if company is not None:
            count, limit = count_of(company), BESIDE
            if not count:
                often = [n for query, least in common if (n := count_of(query)) >= least]
                count, limit = (max(often), ALONE) if often else (0, APART)
            unlikely -= TENFOLD * math.log10(max(1, count))
        rank = unlikely - limit + BEGINS_OTHERWISE * _share_after_start(typed, row.word)
        if unlikely <= limit and rank < best.get(typed, math.inf):
            best[typed], chosen[typed] = rank, row.word
    return chosen


def _share_after_start(typed: str, meant: str) -> float:
    """Return the share of a typed word that follows the letters with which both words begin.

    >>> _share_after_start("passwort", "password"), _share_after_start("passwort", "passport")
    (0.125, 0.5)
    """
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(typed, meant, strict=False))
    return 1.0 - sum(1 for _ in alike) / len(typed)


def _told_of(told: Mapping[str, Vocabulary], words: Sequence[str]) -> Vocabulary:
    """Return the vocabulary of some words; of those with one term, the last one counts."""
    terms = {word: told[word].terms[word] for word in words}
    holding = {term: told[word].holding[term] for word in words for _, _, term in terms[word]}
    return Vocabulary(0, terms, holding)


def _likely(spellings: Sequence[Spelling]) -> list[Spelling]:
    """Return the spellings between which other words decide, most likely first."""
    ranked = sorted(spellings, key=_unlikely)
    return [
        row
        for row in ranked[:COMPARED_SPELLINGS]
        if _unlikely(row) <= _unlikely(ranked[0]) + BESIDE
    ]


def _unlikely(row: Spelling) -> float:
    return row.cost - TENFOLD * math.log10(max(1, row.holding))


def _beside(word: str, rare: Sequence[str], company: Sequence[str]) -> Query:
    """Return a query for passages with the word and another rare one, or two common ones."""
    alone = [Term((other,)) for other in rare if other != word][:COMPARED_SPELLINGS]
    pairs: list[Expression] = []
    terms = [Term((other,)) for other in company if other != word][:COMPARED_SPELLINGS]
    if len(terms) == 1:
        alone = terms
    else:
        pairs = [Group("and", pair) for pair in combinations(terms, 2)]
    either = (*alone, *pairs)
    expression = Term((word,)) if not either else Group("and", (Term((word,)), _any(either)))
    return Query("", (word,), expression, strict=True)


def _any(parts: Sequence[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else Group("or", tuple(parts))


def _any_more(expression: Expression | None, terms: Sequence[Term]) -> Expression | None:
    """Return an expression that also matches the terms; ``None`` already joins all by OR."""
    if expression is None:
        return None
    if isinstance(expression, Group) and expression.operator == "not":
        # What is excluded stays so.
        wanted, *denied = expression.parts
        return Group("not", (Group("or", (wanted, *terms)), *denied))
    return Group("or", (expression, *terms))


def _weighed(vocabulary: Vocabulary, more: Vocabulary, chosen: Mapping[str, str]) -> Vocabulary:
    """Return the vocabulary of the typed words and their corrections.

    A typed word counts as one that every passage lacks: just so common that its correction alone
    is covered by `CERTAINTY`.
    """
    holding = {**vocabulary.holding, **more.holding}
    passages = vocabulary.passages
    for typed, meant in chosen.items():
        weight = sum(
            hybrid.idf(passages, more.holding.get(term, 0))
            for word in content_of(meant.split()) or meant.split()
            for _, _, term in more.terms[word]
        )
        missing = weight * (1.0 - CERTAINTY) / CERTAINTY
        for _, _, term in vocabulary.terms[typed]:
            holding[term] = round((passages + 1.0) / math.exp(missing) - 0.5)
    return vocabulary._replace(terms={**vocabulary.terms, **more.terms}, holding=holding)
