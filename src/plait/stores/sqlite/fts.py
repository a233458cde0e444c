"""A parsed query as FTS5 text, and which plan to run.

Every word is quoted: FTS5 reads NOT, OR, ``-`` and ``:`` as operators otherwise
(https://sqlite.org/fts5.html#full_text_query_syntax).
"""

from collections.abc import Mapping, Sequence

from plait.types import Expression, Query, Term

# Title, heading, text. Over the eight English collections title x 1 loses 0.001 of nDCG@10 and
# x 1.5 to x 4 differ by less (benchmarks/quality.md).
COLUMN_WEIGHTS = (2.0, 1.0, 1.0)
_WEIGHTS = ", ".join(map(str, COLUMN_WEIGHTS))
RANK = f"bm25({_WEIGHTS})"
SCORE = f"-bm25(passages_fts, {_WEIGHTS})"

# FTS5 ranks about 1,000 passages per CPU millisecond; below this many, plain OR is fast enough.
PLAIN_OR_MATCHES = 5_000
# The rarest words find passages alone, up to this many together; the next few only in pairs.
# Measured at 100,000 passages: 0.997 of plain OR's ten best, in 0.4 of its time.
ANCHORED_ALONE = 1_500
PAIRED_WORDS = 4


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


def matching(query: Query) -> str:
    """What a query matches, and by which words its matches are ranked."""
    if query.expression is not None:
        return compile_expression(query.expression)
    return any_of(query.words)


def anchors(words: Sequence[str], frequency: Mapping[str, int]) -> str | None:
    """Which passages are worth ranking: those with a rare word, or with two less rare ones.

    Nearly all of the best passages are among them. ``frequency`` counts the passages that hold each
    word. ``None`` means that all words together are rare enough to rank whatever matches.

    >>> print(anchors(["deploy", "zanzibar"], {"deploy": 9000, "zanzibar": 3}))
    "zanzibar"
    >>> print(anchors(["deploy", "key", "host"], {"deploy": 9000, "key": 7000, "host": 8000}))
    ("key" AND "host") OR ("key" AND "deploy") OR ("host" AND "deploy")
    """
    known = {word: frequency[word] for word in words if frequency[word]}
    rest = sorted(known, key=known.__getitem__)
    found: list[str] = []
    matches = 0
    while rest and matches + frequency[rest[0]] <= ANCHORED_ALONE:
        matches += frequency[rest[0]]
        found.append(quote(rest.pop(0)))
    if not rest:
        return None
    paired = rest[:PAIRED_WORDS]
    found += [
        f"({quote(one)} AND {quote(other)})"
        for place, one in enumerate(paired)
        for other in paired[place + 1 :]
    ]
    return " OR ".join(found) or None
