"""Look up what of a new text came out of this memory, and how far that is trusted.

The rules that decide are in `plait.facts`: `echo`, `answers`, `copied` and `trust`.
"""

import re
from typing import NamedTuple

from plait.facts import copied, echo
from plait.facts.answers import About, without_answers
from plait.facts.trust import at_least, below, outranks
from plait.protocols import Store
from plait.searching.timeline import summarise
from plait.text import parse
from plait.types import TRUSTS, Document, Filter, Query, Ref, Trust

# Keyword searches for one text, about a millisecond each. A text needs another one only while all
# of it so far is known, and one passage can answer for several lines.
MAX_LOOKUPS = 100
PASSAGES_PER_LOOKUP = 5
QUERY_WORDS = 24
# Words that look like ids, in one text. A recall shows at most 50 hits.
MAX_IDS = 200
# Lines, the longest first, that decide which document is named as repeated.
MAX_COMPARED_LINES = 200
# The trust of a text that copies a less trusted one. Not less: quarantine is a person's decision.
COPIED: Trust = "untrusted"
_FENCE_LINE = re.compile(r"\s*+```\w*+\s*+")  # it says nothing
_ANYTHING = Filter(trusts=TRUSTS, all_versions=True)


class Guarded(NamedTuple):
    """The part of a text that is not plait's own answer, and whether anything was left out.

    ``answered``: also outside of fences.
    """

    document: Document
    shortened: bool = False
    answered: bool = False


def guarded(store: Store, document: Document, entity: str | None = None) -> Guarded:
    """Return a document as it may be stored: without answers of plait, trusted no more than copied.

    Only text of agents and tools is checked. The text is empty if all of it was an answer.
    """
    if document.origin not in echo.GUARDED:
        return Guarded(document)
    rest, fenced = echo.unfenced(document.text)
    rest, answered = without_answers(rest, _Known(store))
    shortened = fenced or answered
    text = document.text
    if shortened:
        lines = (line for line in rest.splitlines() if not _FENCE_LINE.fullmatch(line))
        text = rest.strip() if any(re.search(r"\w", line) for line in lines) else ""
    own = with_trust_of_copies(store, document._replace(text=text), entity)
    return Guarded(own, shortened, answered)


def with_trust_of_copies(store: Store, document: Document, entity: str | None = None) -> Document:
    """Return a document of an agent or a tool with the trust that its sentences deserve."""
    if document.origin not in echo.GUARDED:
        return document
    names = (document.title, document.key, document.topic, document.type, entity, *document.tags)
    trust = trust_of_copies(
        store,
        document.trust,
        "\n\n".join([document.text, document.summary or "", *document.metadata.values()]),
        "\n\n".join(filter(None, names)),
    )
    return document._replace(trust=trust)


def trust_of_copies(store: Store, trust: Trust, text: str, names: str = "") -> Trust:
    """Return the trust of a text: lower if it copies something that only less trusted text says.

    One copied sentence is enough, in whatever project it was. In ``names`` only long runs of words
    count: a title or a tag of two words proves nothing.
    """
    suspects = Filter(trusts=below(trust), all_versions=True)
    if not outranks(trust, COPIED) or not store.scan(suspects, limit=1):
        return trust

    known: dict[copied.Window, bool] = {}  # a sentence on one line is the same in both readings

    def copies(part: copied.Window) -> bool:
        if part not in known:
            known[part] = _copies(store, part, suspects, trust)
        return known[part]

    for by_line in (False, True):
        parts = copied.windows(text, by_line=by_line)
        marked = [part for part in parts[:MAX_LOOKUPS] if copies(part)]
        if marked and (len(marked) == len(parts) or any(map(copied.tells, marked))):
            return COPIED
    long = [part for part in copied.windows(names) if len(part) >= copied.RUN_WORDS]
    return COPIED if any(map(copies, long[:MAX_LOOKUPS])) else trust


def _copies(store: Store, part: copied.Window, suspects: Filter, trust: Trust) -> bool:
    """Tell whether a part copies a suspect and nothing that is as trusted as it wants to be."""
    runs = _runs_in(store, part, suspects)
    if not runs:
        return False
    vouched = Filter(trusts=at_least(trust), all_versions=True)
    return bool(runs - _runs_in(store, part, vouched))


def _runs_in(store: Store, part: copied.Window, where: Filter) -> frozenset[str]:
    passages = _look_up(store, " ".join(part), where).values()
    runs = (copied.Original(passage).copied_by(part) for passage, _ in passages)
    return frozenset().union(*runs)


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
        matches = self._store.find(id_, _ANYTHING)
        if not matches:
            return None
        names: set[str] = set()
        summary = ""
        for document, passage in matches:
            heading = "" if passage is None else passage.heading
            told = (document.doc_id, document.title, heading, document.type, document.path)
            # The heading of a fact is the name of its entity.
            wanted = [document.id, *filter(None, [document.parent])]
            for whole in self._store.load(wanted):
                if whole.id == document.id:
                    summary = document.summary or summarise(whole.text)
                else:
                    names.update(whole.title.split())
            names.update(" ".join(filter(None, (*told, *document.tags))).split())
        return About(frozenset(names), tuple(summary.split()))


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
        matches = self._store.find(id_, _ANYTHING)
        names = (
            f"{document.doc_id} {document.title} {passage.heading if passage else ''}"
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
