"""The postings as an index of words, for `plait.stores.spelling`.

What is asked for one after the other is read in two trips: the stems of all words, then their
passages. What nobody could expect takes one more, unless none is left: then all that may be asked
for is read at once.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from plait.protocols import Token
from plait.stores import spelling
from plait.stores.postgres.connection import SQLStatement
from plait.stores.postgres.documents import JOINED
from plait.stores.postgres.filters import Conditions
from plait.stores.postgres.terms import kept_term
from plait.stores.postgres.trips import RowLists
from plait.stores.sqlite import analysis, fileless
from plait.types import Ref

_ASKED = "SELECT 1 WHERE {asked}"
_SEEN = (
    "SELECT EXISTS (SELECT 1 FROM plait.documents AS d WHERE d.ns = %(ns)s "
    "AND NOT coalesce({conditions}, false)), EXISTS (SELECT 1 FROM plait.documents AS d "
    "WHERE d.chunk_count > 0 AND {conditions})"
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
# Passages with each stem, and the texts of the first ones, each once: of so many stems of each list
# as are looked at, which are the first ones that any passage has.
_HOLDING = (
    "WITH held AS MATERIALIZED (SELECT q.number, h.ref, h.place FROM unnest(%(terms)s::text[]) "
    "WITH ORDINALITY AS q (term, number) CROSS JOIN LATERAL ("
    "SELECT t.ref, row_number() OVER (ORDER BY t.ref) AS place FROM plait.postings AS t "
    "WHERE t.ns = %(ns)s AND t.term = q.term AND ({visible}) ORDER BY t.ref LIMIT %(limit)s) "
    "AS h), tried AS (SELECT w.number, "
    "row_number() OVER (PARTITION BY w.list ORDER BY w.place) AS time FROM "
    "unnest(%(lists)s::int[], %(numbers)s::int[]) WITH ORDINALITY AS w (list, number, place) "
    "WHERE w.number IN (SELECT number FROM held)) "
    "SELECT s.number, s.ref, p.text, p.heading, p.title_terms FROM (SELECT h.*, "
    "row_number() OVER (PARTITION BY h.ref ORDER BY l.number IS NULL, h.place) = 1 "
    "AND l.number IS NOT NULL AND h.place <= %(texts)s AS told FROM held AS h LEFT JOIN "
    "(SELECT DISTINCT number FROM tried WHERE time <= %(stems)s) AS l ON l.number = h.number) AS s "
    "LEFT JOIN plait.passages AS p ON p.ns = %(ns)s AND p.ref = s.ref AND s.told "
    "ORDER BY s.number, s.ref"
)
_VISIBLE = f"SELECT true FROM {JOINED} AND p.ref = t.ref AND {{conditions}}"  # noqa: S608
_TEXTS = (
    "SELECT p.ref, p.text, p.heading, p.title_terms FROM plait.passages AS p "
    "WHERE p.ns = %(ns)s AND p.ref = ANY(%(refs)s)"
)


# Sends statements at once, and returns the rows of each.
Together = Callable[..., RowLists]
# Takes the answers to statements.
Take = Callable[[RowLists], None]
Asking = tuple[list[SQLStatement], Take]


class Index:
    """What a search may see of the postings.

    Before it is known ``where`` that looks, the stems of words can be read, but no passages.
    """

    def __init__(
        self,
        together: Together,
        where: Conditions | None = None,
        is_last: Callable[[], bool] = bool,
    ) -> None:
        self.where = where
        self.instead: Sequence[str] = ()  # words that may be looked up later
        # Before it was read whether this is so.
        self.confined = True
        self.any_seen = True
        self._is_told = False
        self._together = together
        self._is_last = is_last  # whether no trip is left after the next one
        self._typed: set[str] = set()
        self._possible: Iterable[Sequence[str]] = ()
        self._letters: set[str] = set()
        self._ranges: dict[tuple[str, str], list[tuple[str, int]]] = {}
        self._counts: dict[str, int] = {}
        self._holding: dict[str, list[Ref]] = {}
        self._texts: dict[Ref, tuple[str, ...]] = {}

    def expect_words(self, typed: Sequence[str]) -> None:
        """Read the stems of all words."""
        missing = [word for word in typed if word not in self._typed]
        if missing:
            statements, take = self.asking_for_words(missing)
            take(self._together(*statements))

    def knows(self, typed: Iterable[str]) -> bool:
        """Tell whether the stems of all these words were read."""
        return self._typed.issuperset(typed)

    def asking_for_words(self, typed: Sequence[str], absent: Sequence[str] | None = None) -> Asking:
        """Return what `expect_words` asks; with ``absent`` only if one of these words is."""
        ranges = list(dict.fromkeys(map(spelling.beginning, typed)))
        letters = {letter for word in typed if not word.isascii() for letter in word[:2]}
        varied = {term for word in typed for term in spelling.varied_words(self, word)}
        lows = sorted(letters)
        statements: list[SQLStatement] = [
            *([] if absent is None else [(_ASKED, {})]),
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
        statements = [
            (sql.replace("{asked}", asked), {**values, **doubtful}) for sql, values in statements
        ]
        return statements, partial(self._take_words, typed, ranges)

    def _take_words(
        self,
        typed: Sequence[str],
        ranges: Sequence[tuple[str, str]],
        answers: RowLists,
    ) -> None:
        *asked, begun, known = answers[: len(answers) - len(ranges)]
        if asked == [[]]:
            return  # no word was absent
        self._typed.update(typed)
        self._letters |= {low for (low,) in begun}
        self._counts |= dict(known)
        for ends, rows in zip(ranges, answers[-len(ranges) :], strict=True):
            self._ranges[ends] = [(term, count) for term, count in rows]

    def expect_stems(self, stems: Iterable[str], possible: Iterable[Sequence[str]]) -> None:
        """Read the passages of all stems, and the first texts of each."""
        if asked := self.asking_for_stems(stems, possible):
            statements, take = asked
            take(self._together(*statements))

    def asking_for_stems(
        self, stems: Iterable[str], possible: Iterable[Sequence[str]]
    ) -> Asking | None:
        """Return what is asked of the stems that were not read, and who takes the answers."""
        self._possible = possible
        lists = [[stem] for stem in self._unread(stems)]
        if not lists:
            return None
        is_last = self._is_last()
        return self._holding_of(self._rest() if is_last else lists, every_text=is_last)

    def _unread(self, stems: Iterable[str]) -> list[str]:
        """Return those of the stems whose passages were not read, each once."""
        if not self.any_seen:
            return []
        return [stem for stem in dict.fromkeys(stems) if stem not in self._holding]

    def _rest(self) -> list[list[str]]:
        """Return all that may be asked for yet, in the order of asking."""
        possible = [*self._possible, *spelling.stems_for(self, self.instead)[1]]
        self._possible, self.instead = (), ()
        words = (
            [stem for stem in self._unread(stems) if spelling.word_of(self, stem) is not None]
            for stems in possible
        )
        return [listed for listed in words if listed]

    def _holding_of(self, lists: Sequence[Sequence[str]], *, every_text: bool) -> Asking:
        where = self.where
        assert where is not None  # passages are asked for when the filter is known
        wanted = list(dict.fromkeys(stem for listed in lists for stem in listed))
        places = {stem: place for place, stem in enumerate(wanted, start=1)}
        visible, limit = "true", spelling.READ_PASSAGES
        if self.confined:
            visible, limit = _VISIBLE, spelling.COUNTED
        own = {
            "terms": list(map(kept_term, wanted)),
            "limit": limit,
            "texts": limit if every_text else spelling.READ_PASSAGES,
            "stems": spelling.STEMS,
            "lists": [number for number, listed in enumerate(lists) for _ in listed],
            "numbers": [places[stem] for listed in lists for stem in listed],
        }
        asked = where.stated(_HOLDING.replace("{visible}", visible)), {**where.values, **own}
        seen = [] if self._is_told else [(where.stated(_SEEN), where.values)]
        return [asked, *seen], partial(self._take_stems, wanted)

    def _take_stems(self, wanted: Sequence[str], answers: RowLists) -> None:
        rows, *seen = answers
        if seen:
            [[(self.confined, self.any_seen)]] = seen
            self._is_told = True
        self._holding |= {stem: [] for stem in wanted}
        for number, ref, *texts in rows:
            self._holding[wanted[number - 1]].append(ref)
            self._keep(ref, texts)
        if not self.confined:  # more were read before that was known
            for stem in wanted:
                del self._holding[stem][spelling.READ_PASSAGES :]

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
        if self._unread([stem]):
            # With all that may be asked for yet, and every text: then nothing is left to ask.
            self._read([*self._rest(), [stem]])
        return self._holding.get(stem, [])

    def texts(self, refs: Sequence[Ref]) -> list[tuple[str, ...]]:
        """Return the text, the heading and the names of passages."""
        if any(ref not in self._texts for ref in refs):
            # Of all, because as a rule the texts of the next stems do not have the word either.
            self._read(self._rest() if self._is_last() else ())
        return [self._texts[ref] for ref in refs if ref in self._texts]

    def _read(self, lists: Sequence[Sequence[str]]) -> None:
        """Read the passages of stems, with every text of these and of those that were read."""
        asked, texts = list[SQLStatement](), self._asking_for_texts()
        if lists:
            asked, take = self._holding_of(lists, every_text=True)
        *answers, rows = self._together(*asked, texts)
        if lists:
            take(answers)
        for ref, *text in rows:
            self._keep(ref, text)

    def _asking_for_texts(self) -> SQLStatement:
        return _TEXTS, {"refs": [*(set().union(*self._holding.values()) - self._texts.keys())]}

    def tokens(self, text: str) -> list[Token]:
        """Return the terms that a text is indexed under."""
        return analysis.tokens(fileless.connection(), text)


def _after(letter: str) -> str:
    return chr(ord(letter) + 1)
