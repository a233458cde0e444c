"""The postings as an index of words, for `plait.stores.spelling`.

What is asked for one after the other is read in two trips: the stems of all words, then their
passages. What nobody could expect takes one more.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from plait.protocols import Token
from plait.stores import spelling
from plait.stores.postgres.connection import SQLRow, SQLStatement
from plait.stores.postgres.documents import JOINED
from plait.stores.postgres.filters import Conditions
from plait.stores.postgres.terms import kept_term
from plait.stores.sqlite import analysis, fileless
from plait.types import Ref

_SEEN = (
    "SELECT EXISTS (SELECT 1 FROM plait.documents AS d WHERE d.ns = %(ns)s "
    "AND NOT coalesce({conditions}, false)), EXISTS (SELECT 1 FROM plait.documents AS d "
    "WHERE d.chunk_count > 0 AND {conditions}) WHERE {asked}"
)
_RANGE = (
    "SELECT t.term, count(*) FROM plait.postings AS t WHERE t.ns = %(ns)s "
    "AND t.term >= %(low)s AND t.term < %(high)s AND {asked} "
    "GROUP BY t.term ORDER BY t.term LIMIT %(limit)s"
)
_ANY = (
    "SELECT r.low FROM unnest(%(low)s::text[], %(high)s::text[]) AS r (low, high) "
    "WHERE {asked} AND EXISTS (SELECT 1 FROM plait.postings AS t WHERE t.ns = %(ns)s "
    "AND t.term >= r.low AND t.term < r.high)"
)
# Each looked up in the index: of so many terms, the server may expect half of all postings.
_KNOWN = (
    "SELECT q.term, h.count FROM unnest(%(terms)s::text[]) AS q (term) CROSS JOIN LATERAL ("
    "SELECT count(*) FROM plait.postings AS t WHERE t.ns = %(ns)s AND t.term = q.term) AS h "
    "WHERE h.count > 0 AND {asked}"
)
# subtle: it refers to nothing outside, so it is tested once, before anything else is read.
_ANY_ABSENT = (
    "EXISTS (SELECT 1 FROM unnest(%(doubtful)s::text[]) AS w (term) WHERE NOT EXISTS "
    "(SELECT 1 FROM plait.postings AS t WHERE t.ns = %(ns)s AND t.term = w.term))"
)
# Passages with each stem; of the first ones also the texts, each once.
_HOLDING = (
    "SELECT s.number, s.ref, p.text, p.heading, p.title_terms FROM (SELECT q.number, h.ref, "
    "h.place, row_number() OVER (PARTITION BY h.ref ORDER BY h.place) AS time FROM unnest("
    "%(terms)s::text[]) WITH ORDINALITY AS q (term, number) CROSS JOIN LATERAL ("
    "SELECT t.ref, row_number() OVER (ORDER BY t.ref) AS place FROM plait.postings AS t "
    "WHERE t.ns = %(ns)s AND t.term = q.term AND ({visible}) ORDER BY t.ref LIMIT %(limit)s) AS h) "
    "AS s LEFT JOIN plait.passages AS p ON p.ns = %(ns)s AND p.ref = s.ref AND s.time = 1 "
    "AND s.place <= %(texts)s ORDER BY s.number, s.ref"
)
_VISIBLE = f"SELECT true FROM {JOINED} AND p.ref = t.ref AND {{conditions}}"  # noqa: S608
_TEXTS = (
    "SELECT p.ref, p.text, p.heading, p.title_terms FROM plait.passages AS p "
    "WHERE p.ns = %(ns)s AND p.ref = ANY(%(refs)s)"
)


# Sends statements at once, and returns the rows of each.
Together = Callable[..., Sequence[Sequence[SQLRow]]]


class Index:
    """What a search may see of the postings."""

    def __init__(
        self,
        together: Together,
        where: Conditions,
        reads_every_text: Callable[[], bool] = bool,
    ) -> None:
        self._together = together
        self._reads_every_text = reads_every_text
        self._where = where
        self.confined = True
        self.any_seen = False
        self._typed: set[str] = set()
        self._possible: Iterable[str] = ()
        self._letters: set[str] = set()
        self._ranges: dict[tuple[str, str], list[tuple[str, int]]] = {}
        self._counts: dict[str, int] = {}
        self._holding: dict[str, list[Ref]] = {}
        self._texts: dict[Ref, tuple[str, ...]] = {}

    def expect_words(self, typed: Sequence[str]) -> None:
        """Read the stems of all words, and whether some passages may not be seen."""
        missing = [word for word in typed if word not in self._typed]
        if missing:
            self.take_words(missing, self._together(*self.asking_for_words(missing)))

    def knows(self, typed: Iterable[str]) -> bool:
        """Tell whether the stems of all these words were read."""
        return self._typed.issuperset(typed)

    def asking_for_words(
        self, typed: Sequence[str], absent: Sequence[str] | None = None
    ) -> list[SQLStatement]:
        """Return the statements for `expect_words`; with ``absent`` only if one of these is."""
        ranges = list(dict.fromkeys(map(spelling.beginning, typed)))
        letters = {letter for word in typed if not word.isascii() for letter in word[:2]}
        varied = {term for word in typed for term in spelling.varied_words(self, word)}
        where, lows = self._where, sorted(letters)
        statements: list[SQLStatement] = [
            (where.stated(_SEEN), where.values),
            (_ANY, {"low": lows, "high": [_after(low) for low in lows]}),
            (_KNOWN, {"terms": sorted(varied)}),
            *(
                (_RANGE, {"low": low, "high": high, "limit": spelling.LISTED_STEMS})
                for low, high in ranges
            ),
        ]
        asked, doubtful = "true", {}
        if absent is not None:
            asked, doubtful = _ANY_ABSENT, {"doubtful": list(map(kept_term, absent))}
        return [
            (sql.replace("{asked}", asked), {**values, **doubtful}) for sql, values in statements
        ]

    def take_words(self, typed: Sequence[str], answers: Sequence[Sequence[SQLRow]]) -> None:
        """Take the answers to `asking_for_words`."""
        seen, begun, known, *listed = answers
        if not seen:
            return  # no word was absent
        [(self.confined, self.any_seen)] = seen
        self._typed.update(typed)
        self._letters |= {low for (low,) in begun}
        self._counts |= dict(known)
        ranges = dict.fromkeys(map(spelling.beginning, typed))
        for ends, rows in zip(ranges, listed, strict=True):
            self._ranges[ends] = [(term, count) for term, count in rows]

    def expect_stems(self, stems: Iterable[str], possible: Iterable[str]) -> None:
        """Read the passages of all stems, and the first texts of each."""
        self._possible = possible
        wanted = self.unread(stems)
        if wanted:
            [rows] = self._together(self.asking_for_stems(wanted))
            self.take_stems(wanted, rows)

    def unread(self, stems: Iterable[str]) -> list[str]:
        """Return those of the stems whose passages were not read, each once."""
        if not self.any_seen:
            return []
        return [stem for stem in dict.fromkeys(stems) if stem not in self._holding]

    def asking_for_stems(self, wanted: Sequence[str], *, every_text: bool = False) -> SQLStatement:
        """Return the statement for `expect_stems`."""
        visible, limit = "true", spelling.READ_PASSAGES
        if self.confined:
            visible, limit = _VISIBLE, spelling.COUNTED
        where, terms = self._where, list(map(kept_term, wanted))
        every_text = every_text or self._reads_every_text()
        texts = limit if every_text else spelling.READ_PASSAGES
        own = {"terms": terms, "limit": limit, "texts": texts}
        return where.stated(_HOLDING.replace("{visible}", visible)), {**where.values, **own}

    def take_stems(self, wanted: Sequence[str], rows: Sequence[SQLRow]) -> None:
        """Take the answer to `asking_for_stems`."""
        self._holding |= {stem: [] for stem in wanted}
        for number, ref, *texts in rows:
            self._holding[wanted[number - 1]].append(ref)
            self._keep(ref, texts)

    def _keep(self, ref: Ref, texts: Sequence[str | None]) -> None:
        if texts[0] is not None:
            self._texts[ref] = tuple(text or "" for text in texts)

    def has_between(self, low: str, high: str) -> bool:
        """Tell whether there is a term from ``low`` up to, but without, ``high``."""
        return low in self._letters

    def between(self, low: str, high: str, limit: int) -> list[tuple[str, int]]:
        """Return such terms in order, and how many passages contain each."""
        return self._ranges[low, high] if self.any_seen else []

    def known(self, terms: Collection[str]) -> list[tuple[str, int]]:
        """Return those of the terms that there are, and how many passages contain each."""
        listed = terms if self.any_seen else ()
        return [(term, self._counts[term]) for term in listed if term in self._counts]

    def holding(self, stem: str) -> list[Ref]:
        """Return some passages that hold a word with this stem and may be seen."""
        if spelling.word_of(self, stem) is None:
            return []
        if stem not in self._holding:
            # With all that may be asked for yet, and every text: then nothing is left to ask.
            wanted, self._possible = self.unread([stem, *self._possible]), ()
            if wanted:
                more, texts = self._together(
                    self.asking_for_stems(wanted, every_text=True), self._asking_for_texts()
                )
                self.take_stems(wanted, more)
                self._take_texts(texts)
        return self._holding.get(stem, [])

    def texts(self, refs: Sequence[Ref]) -> list[tuple[str, ...]]:
        """Return the text, the heading and the names of passages."""
        if any(ref not in self._texts for ref in refs):
            # Of all, because as a rule the texts of the next stems do not have the word either.
            [rows] = self._together(self._asking_for_texts())
            self._take_texts(rows)
        return [self._texts[ref] for ref in refs if ref in self._texts]

    def _asking_for_texts(self) -> SQLStatement:
        return _TEXTS, {"refs": [*(set().union(*self._holding.values()) - self._texts.keys())]}

    def _take_texts(self, rows: Sequence[SQLRow]) -> None:
        for ref, *texts in rows:
            self._keep(ref, texts)

    def tokens(self, text: str) -> list[Token]:
        """Return the terms that a text is indexed under."""
        return analysis.tokens(fileless.connection(), text)


def _after(letter: str) -> str:
    return chr(ord(letter) + 1)
