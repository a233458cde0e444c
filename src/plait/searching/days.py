"""Which passages are of a day that a query names, and which of another day.

Loaded only for a query with dates.
"""

from collections.abc import Iterable, Sequence

from plait.protocols import Candidate
from plait.text.dates import has_other_day, is_in_other_words
from plait.types import Ref
from plait.types.queries import Date, Vocabulary

IN_OTHER_DAY = 2  # words of a date, in a passage of another day: "March" and "2024"


class Days:
    """What the candidates tell of the dates of a query.

    ``written`` are the passages that write one in another way, ``other`` those of another day, with
    the words of the dates that tell nothing in them.
    """

    def __init__(self, dates: Sequence[Date], vocabulary: Vocabulary) -> None:
        """Take the dates of a query, and what the memory has of its words."""
        self.written: set[Ref] = set()
        self.other: dict[Ref, frozenset[str]] = {}
        self._dates = [(date, _terms_of(date.words, vocabulary)) for date in dates]
        # "October" alone tells nothing of 5 October in a passage of 14 October, but "5" may.
        self._months = {
            date: _terms_of(filter(str.isalpha, date.words), vocabulary) for date in dates
        }

    def told_by(self, candidate: Candidate) -> Candidate:
        """Return a candidate that has the words of the dates that it writes in another way."""
        passage, document = candidate.passage, candidate.document
        text = "\n".join((document.title, document.key or "", passage.heading, passage.text))
        written = [terms for date, terms in self._dates if is_in_other_words(date, text)]
        if written:
            self.written.add(passage.ref)
            return candidate._replace(name_terms=candidate.name_terms.union(*written))
        terms = candidate.name_terms.union(term for _, _, term in candidate.tokens)
        others = frozenset(
            term
            for date, words in self._dates
            if len(terms.intersection(words)) >= IN_OTHER_DAY
            or not terms.isdisjoint(self._months[date])
            if has_other_day(date, text)
            for term in words
        )
        if others:
            self.other[passage.ref] = others
        return candidate


def _terms_of(words: Iterable[str], vocabulary: Vocabulary) -> list[str]:
    return [term for word in words for _, _, term in vocabulary.terms.get(word, ())]
