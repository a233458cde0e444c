"""A parsed query as FTS5 text, and which plan to run.

Every word is quoted: FTS5 reads NOT, OR, ``-`` and ``:`` as operators otherwise
(https://sqlite.org/fts5.html#full_text_query_syntax).
"""

from collections.abc import Mapping, Sequence

from plait.types import Expression, Query, Term

# Title, heading, text. Title x 2 is the best single setting over the eight English collections.
COLUMN_WEIGHTS = (2.0, 1.0, 1.0)
RANK = "bm25({}, {}, {})".format(*COLUMN_WEIGHTS)
BM25_K1 = 1.2  # fixed inside FTS5

# FTS5 ranks about 700,000 matches per CPU second; below this many, plain OR is fast enough.
PLAIN_OR_MATCHES = 5_000
ANCHOR_TERMS = 5
# A term this rare is worth a visit by itself.
VERY_RARE = 0.002


def quote(word: str) -> str:
    """One word as an FTS5 string.

    >>> print(quote('5" disk'))
    "5"" disk"
    """
    return '"' + word.replace('"', '""').replace("\0", " ") + '"'


def any_of(words: Sequence[str]) -> str:
    """All words joined by OR."""
    return " OR ".join(map(quote, words))


def compile_expression(expression: Expression) -> str:
    """An operator query as FTS5 text, fully bracketed."""
    if isinstance(expression, Term):
        if expression.near:
            return f"NEAR({' '.join(map(quote, expression.words))}, {expression.near})"
        star = " *" if expression.prefix else ""
        return quote(" ".join(expression.words)) + star
    operator = f" {expression.operator.upper()} "
    return "(" + operator.join(compile_expression(part) for part in expression.parts) + ")"


def pairs_anchored(words: Sequence[str], frequency: Mapping[str, int], passages: int) -> str:
    """Visit only passages with two of the rarest words, or one very rare; rank them by all words.

    OR over common words makes FTS5 rank most of the store; nearly all of the best passages hold
    at least two of the query's rare words.
    """
    rarest = sorted(dict.fromkeys(words), key=lambda word: frequency.get(word, 0))[:ANCHOR_TERMS]
    anchors = [
        f"({quote(one)} AND {quote(other)})"
        for place, one in enumerate(rarest)
        for other in rarest[place + 1 :]
    ]
    anchors += [
        quote(word) for word in rarest if 0 < frequency.get(word, 0) <= passages * VERY_RARE
    ]
    return f"({' OR '.join(anchors)}) AND ({any_of(words)})"


def plan(query: Query, frequency: Mapping[str, int], passages: int, *, force: bool = False) -> str:
    """The FTS5 text for a query; ``frequency`` counts the passages that hold each word."""
    if query.expression is not None:
        return compile_expression(query.expression)
    known = [word for word in query.words if frequency.get(word, 1) > 0]
    crowded = sum(frequency.get(word, 0) for word in known) > PLAIN_OR_MATCHES
    if len(known) > 1 and (crowded or force):
        return pairs_anchored(known, frequency, passages)
    return any_of(query.words)
