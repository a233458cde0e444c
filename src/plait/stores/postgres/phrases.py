"""Words of a query as SQL over the postings: terms, beginnings of terms, and phrases."""

from collections.abc import Callable, Sequence

from plait.stores.matching import Node, Phrase
from plait.stores.postgres.filters import range_of
from plait.stores.postgres.terms import POSITION_BITS
from plait.stores.sqlite.keyword import COLUMN_WEIGHTS
from plait.types.records import NamedTuple

Bind = Callable[[object], str]

_WEIGHT = (
    f"CASE x >> {POSITION_BITS} "
    + " ".join(f"WHEN {column} THEN {weight}" for column, weight in enumerate(COLUMN_WEIGHTS))
    + " END"
)
_FROM = "FROM plait.postings AS t0 CROSS JOIN LATERAL unnest(t0.places) AS x WHERE t0.ns = %(ns)s "


class Operand(NamedTuple):
    """One thing to look for: terms one after the other, the last of which may be a beginning.

    ``whole``: its rarity among few passages counts, too.
    """

    terms: tuple[str, ...]
    prefix: bool = False
    whole: bool = True


def hits(bind: Bind, operands: Sequence[Operand]) -> str:
    """Return SQL for who has which operand: its number, a passage, how often, and its length."""
    single = [
        (number, operand.terms[0])
        for number, operand in enumerate(operands)
        if len(operand.terms) == 1 and not operand.prefix
    ]
    parts = []
    if single:
        numbers, terms = bind([row[0] for row in single]), bind([row[1] for row in single])
        parts.append(
            "SELECT q.o, t.ref, t.times::float8 AS times, t.length "  # noqa: S608
            f"FROM unnest({numbers}::int[], {terms}::text[]) AS q (o, term) "
            "JOIN plait.postings AS t ON t.ns = %(ns)s AND t.term = q.term"
        )
    for number, operand in enumerate(operands):
        if len(operand.terms) > 1:
            parts.append(_phrase(bind, number, operand))
        elif operand.terms and operand.prefix:
            parts.append(
                f"SELECT {number} AS o, t.ref, sum(t.times::float8) AS times, "  # noqa: S608
                "min(t.length) AS length FROM plait.postings AS t WHERE t.ns = %(ns)s "
                f"AND {range_of(bind, 't.term', operand.terms[0])} GROUP BY t.ref"
            )
    nothing = "SELECT 0 AS o, 0::bigint AS ref, 0::float8 AS times, 0 AS length WHERE false"
    return " UNION ALL ".join(parts or [nothing])


def counts(bind: Bind, operands: Sequence[Operand]) -> str:
    """Return SQL for how many passages have each operand, by its number."""
    return f"SELECT x.o, count(*) FROM ({hits(bind, operands)}) AS x GROUP BY x.o"  # noqa: S608


def candidates(bind: Bind, node: Node) -> str:
    """Return SQL for the passages that may match a query: they have the words that it requires."""
    nodes = [part for part in node.parts if isinstance(part, Node)]
    own = [part for part in node.parts if isinstance(part, Phrase)]
    if node.operator == "not":
        return candidates(bind, nodes[0])
    if nodes:
        joined = " INTERSECT " if node.operator == "and" else " UNION "
        return joined.join(f"({candidates(bind, part)})" for part in nodes)
    if not own or not all(part.terms for part in own):
        return "SELECT 0::bigint AS ref WHERE false"
    words = [
        range_of(bind, "t.term", term)
        if part.prefix and step == len(part.terms)
        else f"t.term = {bind(term)}"
        for part in own
        for step, term in enumerate(part.terms, start=1)
    ]
    return " INTERSECT ".join(
        f"SELECT t.ref FROM plait.postings AS t WHERE t.ns = %(ns)s AND {word}"  # noqa: S608
        for word in words
    )


def _phrase(bind: Bind, number: int, operand: Operand) -> str:
    first, *others = operand.terms
    return (
        f"SELECT {number} AS o, t0.ref, sum({_WEIGHT})::float8 AS times, t0.length {_FROM}"
        f"AND t0.term = {bind(first)} {_followed(bind, others, prefix=operand.prefix)} "
        "GROUP BY t0.ref, t0.length"
    )


def _followed(bind: Bind, others: Sequence[str], *, prefix: bool = False) -> str:
    """Return the conditions that these terms come after the place ``x`` of a posting ``t0``."""
    conditions = []
    for step, term in enumerate(others, start=1):
        same = f"t.term = {bind(term)}"
        if prefix and step == len(others):
            same = range_of(bind, "t.term", term)
        conditions.append(
            "AND EXISTS (SELECT 1 FROM plait.postings AS t WHERE t.ns = %(ns)s "  # noqa: S608
            f"AND {same} AND t.ref = t0.ref AND x + {step} = ANY(t.places))"
        )
    return " ".join(conditions)
