"""When a hook speaks: what a hit needs beside being relevant, because nobody asked for it.

Words that stand together in it must be rarer than chance puts together in a memory of this size, in
answer to an order more so than to a question. A name of the prompt in the hit counts for it, and so
does a message beside it that is among the best too: both are rare where the subject is another.
"""

import math
from collections.abc import Iterable, Sequence

from plait.agents.hooks.prompts import is_order
from plait.protocols import Store
from plait.ranking.relevance import FLOOR
from plait.searching.evidence import Evidence
from plait.text import parse
from plait.text.capitals import names_in
from plait.text.english import empty_words
from plait.types import Hit
from plait.types.queries import Query, Vocabulary

# The numbers were chosen as benchmarks/quality.md tells, under silence of hooks.
# In a memory up to this size relevance tells enough. For each e-fold of passages above it, the
# words in common must be so many e-folds rarer together.
FEW = 200
ASKED, ORDERED = 2.2, 2.5
# An order of so few telling words is about a passage that has them all, but for a common one.
SHORT_ORDER, SHORT_COVER = 3, 0.75
# A question of so many telling words is about a passage that has them all, however common they are:
# those of what a memory is about stand in much of it.
WHOLE_QUESTION, WHOLE_COVER = 3, 0.99
# What a name and a message beside it count: in logits of the relevance, and of these e-folds.
NAMED, BESIDE = 1.0, 0.5
SPOKEN_FOR = 1.0
TURNS_BESIDE = 2


def sure_of(store: Store, prompt: str, hits: Sequence[Hit]) -> list[Hit]:
    """Return those of the hits that are clearly about a prompt."""
    likely = [hit for hit in hits if _logit(hit) >= FLOOR - NAMED - BESIDE]
    if not likely:
        return []
    query = parse(prompt)
    matched = [_telling(hit.signals.matched) for hit in likely]
    vocabulary = store.vocabulary({*query.words}.union(*matched))
    evidence = Evidence(store, query, vocabulary)
    names = names_in(prompt)
    orders = is_order(prompt)
    size = math.log(max(1.0, vocabulary.passages / FEW))
    sure = []
    for hit, words in zip(likely, matched, strict=True):
        if not orders and evidence.is_across(hit.passage):
            # Few words of a question can be in it, and relevance counts with that.
            if not hit.is_weak:
                sure.append(hit)
            continue
        if orders and not _has_all(hit, query):
            continue
        named = not names.isdisjoint(words)
        beside = any(_is_beside(hit, other) for other in hits)
        needed = (ORDERED if orders else ASKED) - SPOKEN_FOR * (named + beside)
        if not orders and len(words) >= WHOLE_QUESTION and hit.signals.coverage >= WHOLE_COVER:
            needed = 0.0
        is_likely = _logit(hit) + NAMED * named + BESIDE * beside >= FLOOR
        if is_likely and _rarity(words, vocabulary) >= needed * size:
            sure.append(hit)
    return sure


def _has_all(hit: Hit, query: Query) -> bool:
    """Tell whether a hit has what an order says, if that is a few words."""
    asked = frozenset(query.words)
    if len(asked - empty_words()) > SHORT_ORDER or hit.signals.coverage >= SHORT_COVER:
        return True
    return not asked.issuperset(hit.signals.matched)  # what is misspelt is found in another form


def _rarity(words: Iterable[str], vocabulary: Vocabulary) -> float:
    """Return how rare words are together, in e-folds of passages."""
    passages, holding = max(1, vocabulary.passages), vocabulary.holding
    counts = [
        max((holding.get(term, 0) for *_, term in vocabulary.terms[word]), default=0)
        for word in words
    ]
    return sum(math.log(passages / max(1, count)) for count in counts)


def _telling(matched: Iterable[str]) -> list[str]:
    """Return the words that tell something; of a name of code and its parts, the whole."""
    words = set(matched) - empty_words()
    return [word for word in words if not any(word != other and word in other for other in words)]


def _is_beside(hit: Hit, other: Hit) -> bool:
    """Tell whether two hits are messages of one conversation with few or none between them."""
    one, two = hit.document, other.document
    if one.turn is None or two.turn is None or one.id == two.id:
        return False
    is_same = (one.project, one.session) == (two.project, two.session)
    return is_same and abs(one.turn - two.turn) <= TURNS_BESIDE


def _logit(hit: Hit) -> float:
    share = min(max(hit.relevance, 1e-6), 1.0 - 1e-6)
    return math.log(share / (1.0 - share))
