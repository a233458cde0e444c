"""Other forms of a question's words that the stemmer parts from them, as far as they are stored.

Loaded only for a question with such a word.
"""

from typing import TYPE_CHECKING

from plait.protocols import Candidate, Store
from plait.ranking import hybrid
from plait.searching.scoring import Request
from plait.types import Filter
from plait.types.queries import Query, Term, Vocabulary

if TYPE_CHECKING:
    from plait.protocols import ReadAhead

# Another form weighs what its rarity says, and must not weigh much more than the word itself: then
# it would bring passages before those with the word. Where that is in few passages, any form helps.
MOST_RARER = 1.2
IN_FEW = 20  # passages


def with_form_words(query: Query) -> Query:
    """Return a query that has the other forms among its words."""
    forms = [form for form, _ in query.forms]
    return query._replace(words=tuple(dict.fromkeys((*query.words, *forms))))


def held(
    store: Store,
    ahead: "ReadAhead | None",
    query: Query,
    vocabulary: Vocabulary,
    request: Request,
) -> Query:
    """Return a query with those forms alone that a vocabulary counts.

    Two words are joined if they have a hyphen, or if no passage has them side by side.
    """
    query = query._replace(forms=tuple(pair for pair in query.forms if pair[0] in vocabulary.forms))
    beside = side_by_side(query)
    if beside and ahead is not None:
        from plait.searching.ahead import foresee_words

        foresee_words(ahead, request, vocabulary)
    if beside and _has(store, ahead, beside[0], request.where):
        return query._replace(forms=tuple(pair for pair in query.forms if len(pair[1]) == 1))
    return query


def side_by_side(query: Query) -> list[Query]:
    """Return a query for each two words that another form joins, if they may be meant apart."""
    joined = [words for _, words in query.forms if len(words) > 1 and "-" not in query.text]
    return [Query("", words, Term(words), strict=True) for words in joined]


def _has(store: Store, ahead: "ReadAhead | None", query: Query, where: Filter) -> bool:
    if ahead is None:
        return bool(store.keyword(query, 1, where))
    return bool(ahead.company([query], 1, where, ())[0][0])


def with_forms(vocabulary: Vocabulary, query: Query) -> Vocabulary:
    """Return the vocabulary of a query's words, in which other forms of a word count as it."""
    terms = {word: vocabulary.terms[word] for word in query.words}
    taken = {term for listed in terms.values() for _, _, term in listed}
    holding, unseen = dict(vocabulary.holding), set(vocabulary.unseen)
    forms: dict[str, tuple[str, tuple[str, ...]]] = {}
    for form, words in query.forms:
        term = vocabulary.terms[form][0][2]
        if term in taken:
            continue
        taken.add(term)
        own = {word: terms[word][0][2] for word in words}
        count = holding.pop(term, 0)
        known = [0 if word in vocabulary.unseen else holding.get(own[word], 0) for word in words]
        if form in unseen or not count or not _is_common(count, min(known), vocabulary.passages):
            continue
        forms[form] = (term, tuple(own.values()))
        for word, before in zip(words, known, strict=True):
            holding[own[word]] = min(vocabulary.passages, before + count)
        unseen.difference_update(words)
    return vocabulary._replace(terms=terms, holding=holding, unseen=frozenset(unseen), forms=forms)


def _is_common(form: int, word: int, passages: int) -> bool:
    """Tell whether a form is common enough, by the passages with it and with the word."""
    return word <= IN_FEW or hybrid.idf(passages, form) <= MOST_RARER * hybrid.idf(passages, word)


def as_own(candidate: Candidate, vocabulary: Vocabulary) -> Candidate:
    """Return a candidate in which other forms of words are these words."""
    own = dict(vocabulary.forms.values())
    tokens = [
        (start, end, counted)
        for start, end, term in candidate.tokens
        for counted in own.get(term, (term,))
    ]
    names = {counted for term in candidate.name_terms for counted in own.get(term, (term,))}
    return candidate._replace(tokens=tokens, name_terms=frozenset(names))
