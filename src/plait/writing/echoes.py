"""Look up what of a new text came out of this memory, so that it is not stored as something new.

The rules that decide are in `plait.facts`: `echo` and `answers`. How far a copy is trusted belongs
to `plait.writing.copies`.
"""

import re
from collections.abc import Sequence

from plait.errors import quotable
from plait.facts import echo
from plait.facts.answers import About, without_answers
from plait.facts.names import shown_names
from plait.protocols import Store
from plait.searching.timeline import summary_of
from plait.text import parse
from plait.types import EVERYTHING, Document, Filter, Ref
from plait.types.queries import Query
from plait.types.records import NamedTuple
from plait.types.reports import Stored
from plait.writing.copies import New, with_trust_of_copies

# Keyword searches for one text, about a millisecond each. A text needs another one only while all
# of it so far is known, and one passage can answer for several lines.
MAX_LOOKUPS = 100
PASSAGES_PER_LOOKUP = 5
QUERY_WORDS = 24
# Words that look like ids, in one text. A recall shows at most 50 hits.
MAX_IDS = 200
# Lines, the longest first, that decide which document is named as repeated.
MAX_COMPARED_LINES = 200
# Of a document, with which a line of an answer is compared.
PASTED_CHARS = 100_000
_FENCE_LINE = re.compile(r"\s*+```\w*+\s*+")  # it says nothing


# All of a text came from this memory, from no document in particular.
NOTHING_NEW = Stored("", "", 0, duplicate=True, recalled=True)


class Storable(NamedTuple):
    """The part of a text that is not plait's own answer, and whether anything was left out.

    ``answered``: also outside of fences.
    """

    document: Document
    shortened: bool = False
    answered: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether all of the text was left out."""
        return self.shortened and not self.document.text

    def noted(self, stored: Stored, asked: Document) -> Stored:
        """Return the result of a write, with what became of the text that was asked for."""
        lowered = None if self.document.trust == asked.trust else self.document.trust
        return stored._replace(shortened=self.shortened, lowered=lowered or stored.lowered)


def storable(store: Store, document: Document, entity: str | None = None) -> Storable:
    """Return a document as it may be stored; see `storable_all`."""
    return storable_all(store, [New(document, entity)])[0]


def storable_all(store: Store, new: Sequence[New]) -> list[Storable]:
    """Return documents without answers of plait, and trusted no more than what they copy.

    Answers are left out of text of agents and tools only. A text is empty if all of it was one.
    """
    own = [_without_answers(store, row.document) for row in new]
    trusted = with_trust_of_copies(
        store, [row._replace(document=mine.document) for row, mine in zip(new, own, strict=True)]
    )
    return [mine._replace(document=document) for mine, document in zip(own, trusted, strict=True)]


def _without_answers(store: Store, document: Document) -> Storable:
    is_guarded, answered = document.origin in echo.MACHINES, False
    if not is_guarded and document.kind != "message":
        return Storable(document)
    # Programs put recalled text into the messages of persons too, between fences.
    rest, fenced = echo.unfenced(document.text)
    if is_guarded:
        rest, answered = without_answers(rest, _Known(store))
    shortened = fenced or answered
    text = document.text
    if shortened:
        lines = (line for line in rest.splitlines() if not _FENCE_LINE.fullmatch(line))
        text = rest.strip() if any(re.search(r"\w", line) for line in lines) else ""
    return Storable(document._replace(text=text), shortened, answered)


class _Known:
    """What the heads of answers say about documents, by id; a text may name very many."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._about: dict[str, About | None] = {}

    def __call__(self, id_: str) -> About | None:
        if id_ not in self._about:
            if len(self._about) >= MAX_LOOKUPS:
                return None
            self._about[id_] = self._look_up(id_)
        return self._about[id_]

    def _look_up(self, id_: str) -> About | None:
        matches = self._store.find(id_, EVERYTHING)
        if not matches:
            return None
        names: set[str] = set()
        summary = text = ""
        for document, passage in matches:
            heading = "" if passage is None else passage.heading
            text = "" if passage is None else passage.text
            told = [document.title, heading, document.type, document.path, *document.tags]
            told += [document.role, document.session, quotable(document.project or "")]
            told += [quotable(document.topic or ""), document.doc_id.rpartition("/")[2]]
            # The heading of a fact is the name of its entity.
            wanted = [document.id, *filter(None, [document.parent])]
            for whole in self._store.load(wanted):
                if whole.id == document.id:
                    summary = summary_of(whole)
                    text += f" {whole.text[:PASTED_CHARS]}"
                else:
                    names.update(whole.title.split())
            names.update(" ".join(filter(None, [*told, *shown_names(document)])).split())
        return About(frozenset(names), tuple(summary.split()), " ".join(text.split()))


def find_repeated(
    store: Store, text: str, where: Filter, *, wholly: bool = True
) -> Document | None:
    """Return the stored document that a text repeats; ``wholly``: only if all of it is known."""
    own_words = echo.without_recall_marks(text, _Names(store).of)
    lines = [
        line
        for line in own_words.splitlines()
        if echo.sentences(line) and not _FENCE_LINE.fullmatch(line)
    ]
    known = echo.KnownSentences()
    candidates: dict[Ref, tuple[str, Document]] = {}
    lookups = 0
    lines.sort(key=len, reverse=True)
    for line in lines:
        if known.contain(line):
            continue
        if lookups < MAX_LOOKUPS:
            lookups += 1
            for ref, (passage, document) in _look_up(store, line, where).items():
                candidates[ref] = (passage, document)
                known.add(passage)
        if wholly and not known.contain(line):
            return None
    return echo.most_repeated(lines[:MAX_COMPARED_LINES], candidates.values())


class _Names:
    """The names of documents by their ids, each looked up once, and only so many."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._names: dict[str, str | None] = {}

    def of(self, id_: str) -> str | None:
        """Return the names of a document, or ``None`` if there is none with this id."""
        if id_ not in self._names:
            if len(self._names) == MAX_IDS:
                return None
            self._names[id_] = self._look_up(id_)
        return self._names[id_]

    def _look_up(self, id_: str) -> str | None:
        matches = self._store.find(id_, EVERYTHING)
        names = (
            " ".join(
                [
                    *shown_names(document),
                    document.title,
                    document.role or "",
                    passage.heading if passage else "",
                ]
            )
            for document, passage in matches
        )
        return " ".join(names) if matches else None


def _look_up(store: Store, line: str, where: Filter) -> dict[Ref, tuple[str, Document]]:
    refs = [ref for ref, _ in store.keyword(plain_query(line), PASSAGES_PER_LOOKUP, where)]
    rows = store.hydrate(refs)
    return {ref: (row.passage.text, row.document) for ref, row in rows.items()}


def plain_query(text: str) -> Query:
    """Make a query from the words of a text; quotes and AND in it are not operators."""
    return parse(" ".join(re.findall(r"\w+", text.lower())[:QUERY_WORDS]))
