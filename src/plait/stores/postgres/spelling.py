"""The postings as an index of words, for `plait.stores.spelling`."""

from collections.abc import Collection, Sequence

from plait.protocols import Token
from plait.stores import spelling
from plait.stores.postgres.connection import Channel
from plait.stores.postgres.documents import JOINED
from plait.stores.postgres.filters import Conditions
from plait.stores.postgres.terms import terms_of
from plait.stores.sqlite import analysis, fileless
from plait.types import Ref

_ANY = (
    "SELECT 1 FROM plait.postings AS t WHERE t.ns = %(ns)s "
    "AND t.term >= %(low)s AND t.term < %(high)s LIMIT 1"
)
_RANGE = (
    "SELECT t.term, count(*) FROM plait.postings AS t WHERE t.ns = %(ns)s "
    "AND t.term >= %(low)s AND t.term < %(high)s GROUP BY t.term ORDER BY t.term LIMIT %(limit)s"
)
_KNOWN = (
    "SELECT t.term, count(*) FROM plait.postings AS t "
    "WHERE t.ns = %(ns)s AND t.term = ANY(%(terms)s) GROUP BY t.term"
)
_TEXTS = (
    "SELECT p.text, p.heading, p.title_terms FROM plait.passages AS p "
    "WHERE p.ns = %(ns)s AND p.ref = ANY(%(refs)s)"
)
_HOLDING = (
    "SELECT t.ref FROM plait.postings AS t WHERE t.ns = %(ns)s AND t.term = %(term)s "
    "AND ({visible}) ORDER BY t.ref LIMIT %(limit)s"
)


class Index:
    """What a search may see of the postings."""

    def __init__(self, session: Channel, where: Conditions) -> None:
        self._session = session
        self._where = where
        sql = (
            "SELECT EXISTS (SELECT 1 FROM plait.documents AS d WHERE d.ns = %(ns)s "
            "AND NOT coalesce({conditions}, false)), EXISTS (SELECT 1 FROM plait.documents AS d "
            "WHERE d.chunk_count > 0 AND {conditions})"
        )
        [(self.confined, self.any_seen)] = session.rows(where.stated(sql), where.values)

    def has_between(self, low: str, high: str) -> bool:
        """Tell whether there is a term from ``low`` up to, but without, ``high``."""
        return bool(self._session.value(_ANY, low=low, high=high))

    def between(self, low: str, high: str, limit: int) -> list[tuple[str, int]]:
        """Return such terms in order, and how many passages contain each."""
        rows = self._session.rows(_RANGE, low=low, high=high, limit=limit)
        return [(term, count) for term, count in rows]

    def known(self, terms: Collection[str]) -> list[tuple[str, int]]:
        """Return those of the terms that there are, and how many passages contain each."""
        return [(term, count) for term, count in self._session.rows(_KNOWN, terms=list(terms))]

    def holding(self, word: str) -> list[Ref]:
        """Return some passages that hold a word and may be seen."""
        terms = terms_of(word)
        if len(terms) != 1:
            return []
        visible, limit = "true", spelling.READ_PASSAGES
        if self.confined:
            visible = f"SELECT true FROM {JOINED} AND p.ref = t.ref AND {{conditions}}"  # noqa: S608
            limit = spelling.COUNTED
        sql = self._where.stated(_HOLDING.replace("{visible}", visible))
        return [
            ref
            for (ref,) in self._session.rows(sql, self._where.values, term=terms[0], limit=limit)
        ]

    def texts(self, refs: Sequence[Ref]) -> list[tuple[str, ...]]:
        """Return the text, the heading and the names of passages."""
        return self._session.rows(_TEXTS, refs=list(refs))

    def tokens(self, text: str) -> list[Token]:
        """Return the terms that a text is indexed under."""
        return analysis.tokens(fileless.connection(), text)
