"""Longer forms of words that an operator query excludes. Loaded only for queries with operators."""

import apsw

from plait.stores.sqlite.analysis import tokens
from plait.stores.sqlite.connection import rows
from plait.stores.sqlite.keyword import MOST_FORMS
from plait.types.queries import Expression, Group, Term

_LONGER = (
    "SELECT term FROM passages_vocab WHERE term > ? AND term < ? AND length(term) <= ? LIMIT ?"
)


def with_forms(connection: apsw.Connection, expression: Expression) -> Expression:
    """Return an expression with the longer forms of its words that have an ending, as indexed."""
    if isinstance(expression, Group):
        parts = tuple(with_forms(connection, part) for part in expression.parts)
        return expression._replace(parts=parts)
    stems = tokens(connection, expression.words[0]) if expression.ending else []
    if len(stems) != 1:
        return expression
    term = stems[0][2]
    most = len(term) + expression.ending
    forms = rows(connection, _LONGER, (term, f"{term}\U0010ffff", most, MOST_FORMS))
    return Group("or", (expression, *(Term((form,)) for (form,) in forms))) if forms else expression
