"""Look up which stored document a new text repeats.

The rules that decide are in `plait.facts.echo`.
"""

import re

from plait.facts import echo
from plait.protocols import Store
from plait.text import parse
from plait.types import TRUSTS, Document, Filter, Query, Ref

# Keyword searches for one text, about a millisecond each. A text needs another one only while all
# of it so far is known, and one passage can answer for several lines.
MAX_LOOKUPS = 100
PASSAGES_PER_LOOKUP = 5
QUERY_WORDS = 24


def find_repeated(
    store: Store, text: str, where: Filter, *, wholly: bool = True
) -> Document | None:
    """Return the stored document that a text repeats; ``wholly``: only if all of it is known."""
    own_words = echo.without_recall_marks(text, lambda id_: _names_of(store, id_))
    lines = [line for line in own_words.splitlines() if echo.sentences(line)]
    known = echo.KnownSentences()
    candidates: dict[Ref, tuple[str, Document]] = {}
    lookups = 0
    for line in sorted(lines, key=len, reverse=True):
        if known.contain(line):
            continue
        if lookups < MAX_LOOKUPS:
            lookups += 1
            for ref, (passage, document) in _look_up(store, line, where).items():
                candidates[ref] = (passage, document)
                known.add(passage)
        if wholly and not known.contain(line):
            return None
    return echo.most_repeated(lines, candidates.values())


def _names_of(store: Store, id_: str) -> str | None:
    matches = store.find(id_, Filter(trusts=TRUSTS, all_versions=True))
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
