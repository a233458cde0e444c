"""Other forms of a question's words that the stemmer parts from them, as far as they are stored.

Loaded only for a question with such a word.
"""

from collections.abc import Mapping

from plait.protocols import Candidate
from plait.ranking import hybrid
from plait.types.queries import Query, Vocabulary

# Another form weighs what its rarity says, and must not weigh much more than the word itself: then
# it would bring passages before those with the word. Where that is in few passages, any form helps.
MOST_RARER = 1.2
IN_FEW = 20  # passages


def with_form_words(query: Query) -> Query:
    """Return a query that has the other forms among its words."""
    forms = [form for form, _ in query.forms]
    return query._replace(words=tuple(dict.fromkeys((*query.words, *forms))))


def held(query: Query, vocabulary: Vocabulary) -> Query:
    """Return a query with those forms alone that a vocabulary counts."""
    forms = tuple(pair for pair in query.forms if pair[0] in vocabulary.forms)
    return query._replace(forms=forms)


def with_forms(vocabulary: Vocabulary, query: Query) -> Vocabulary:
    """Return the vocabulary of a query's words, in which other forms of a word count as it."""
    terms = {word: vocabulary.terms[word] for word in query.words}
    taken = {term for listed in terms.values() for _, _, term in listed}
    holding, unseen = dict(vocabulary.holding), set(vocabulary.unseen)
    forms: dict[str, tuple[str, str]] = {}
    for form, word in query.forms:
        term, own = vocabulary.terms[form][0][2], terms[word][0][2]
        if term in taken:
            continue
        taken.add(term)
        count = holding.pop(term, 0)
        known = 0 if word in vocabulary.unseen else vocabulary.holding.get(own, 0)
        if form in unseen or not count or not _is_common(count, known, vocabulary.passages):
            continue
        forms[form] = (term, own)
        before = 0 if word in unseen else holding.get(own, 0)
        holding[own] = min(vocabulary.passages, before + count)
        unseen.discard(word)
    return vocabulary._replace(terms=terms, holding=holding, unseen=frozenset(unseen), forms=forms)


def _is_common(form: int, word: int, passages: int) -> bool:
    """Tell whether a form is common enough, by the passages with it and with the word."""
    return word <= IN_FEW or hybrid.idf(passages, form) <= MOST_RARER * hybrid.idf(passages, word)


def as_own(candidate: Candidate, forms: Mapping[str, tuple[str, str]]) -> Candidate:
    """Return a candidate in which other forms of words are these words."""
    own = dict(forms.values())
    tokens = [(start, end, own.get(term, term)) for start, end, term in candidate.tokens]
    names = frozenset(own.get(term, term) for term in candidate.name_terms)
    return candidate._replace(tokens=tokens, name_terms=names)
