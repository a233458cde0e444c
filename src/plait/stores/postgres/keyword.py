"""Keyword search over postings: FTS5's own scores, computed by the server.

Words, beginnings and phrases are ranked there, in one statement. Operators and NEAR are read here,
by the rules of `plait.stores.matching`, over the postings of their words.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from plait.protocols import Scored, Token
from plait.stores import matching as rules
from plait.stores.postgres import phrases
from plait.stores.postgres.connection import Channel, Escaped, SQLRow, SQLStatement, escaped
from plait.stores.postgres.documents import JOINED
from plait.stores.postgres.filters import Conditions, range_of
from plait.stores.postgres.phrases import Operand
from plait.stores.postgres.terms import POSITION_BITS, kept_term, terms_of
from plait.stores.sqlite import analysis, fileless
from plait.stores.sqlite.alone import K1, LEAST_IDF, LEAST_OWN_IDF, B
from plait.stores.sqlite.filters import LISTED_PASSAGES, after
from plait.stores.sqlite.keyword import MOST_FORMS, NARROWED_WORDS
from plait.stores.sqlite.narrow import LEAST_IDF as LEAST_LOCAL_IDF
from plait.stores.sqlite.narrow import LOCAL_SHARE
from plait.types import Ref
from plait.types.queries import FEW_PASSAGES, Expression, Group, Query, Term, Vocabulary

# subtle: a condition as a value, which PostgreSQL tests one passage after another, the best first.
_PASSES = f"(SELECT true FROM {JOINED} AND p.ref = x.ref AND {{conditions}})"  # noqa: S608
_COUNTED = (
    "SELECT coalesce(sum(s.chunk_count), 0)::float8 AS few FROM (SELECT d.chunk_count "  # noqa: S608
    f"FROM plait.documents AS d WHERE {{conditions}} LIMIT {LISTED_PASSAGES + 1}) AS s"
)
_IDF = "ln(greatest({0} - {1}, 0) + 0.5) - ln({1} + 0.5)"
_GENERAL = f"greatest({LEAST_LOCAL_IDF}, {_IDF.format('s.n', 'w.df')})"
_OWN = f"greatest({LEAST_LOCAL_IDF}, {_IDF.format('c.few', 'w.own')})"
# Words are also weighted by their rarity among few passages, see `plait.stores.sqlite.narrow`.
_WEIGHT = (
    "CASE WHEN w.o = ANY(%(whole)s) AND c.few <= %(listed)s "
    f"THEN ({LOCAL_SHARE} * {_OWN} + {1.0 - LOCAL_SHARE} * {_GENERAL}) / {_GENERAL} "
    "ELSE 1.0 END"
)
_BEST = (
    "WITH h AS MATERIALIZED ({hits}), s AS MATERIALIZED (SELECT passages::float8 AS n, "  # noqa: S608
    "greatest(tokens, 1)::float8 / greatest(passages, 1) AS average FROM plait.namespaces "
    f"WHERE ns = %(ns)s), c AS MATERIALIZED ({_COUNTED}), "
    # Evaluated only if there are few: the first condition is tested before any row is read.
    f"v AS MATERIALIZED (SELECT p.ref FROM {JOINED} AND (SELECT few FROM c) <= %(listed)s "
    "AND p.ref IN (SELECT ref FROM h) AND {conditions}), "
    "w AS MATERIALIZED (SELECT h.o, count(*)::float8 AS df, count(v.ref)::float8 AS own "
    "FROM h LEFT JOIN v ON v.ref = h.ref GROUP BY h.o), "
    "i AS MATERIALIZED (SELECT w.o, s.average, CASE WHEN s.n - w.df > w.df "
    f"THEN ln((s.n - w.df + 0.5) / (w.df + 0.5)) ELSE {LEAST_IDF}::float8 END AS idf, "
    f"{_WEIGHT} AS weight FROM w CROSS JOIN s CROSS JOIN c), "
    f"r AS (SELECT h.ref, sum(i.weight * (i.idf * ((h.times * {K1 + 1}) / (h.times + {K1}::float8 "
    f"* ({1 - B}::float8 + {B}::float8 * h.length / i.average)))) ORDER BY h.o) AS score "
    "FROM h JOIN i ON i.o = h.o GROUP BY h.ref) "
    "SELECT x.ref, x.score FROM (SELECT r.ref, r.score FROM r ORDER BY r.score DESC, r.ref "
    f"OFFSET 0) AS x WHERE {_PASSES} LIMIT %(limit)s"
)
_HITS_AMONG = f"SELECT x.o, x.ref, x.times, x.length FROM ({{hits}}) AS x WHERE {_PASSES}"  # noqa: S608
_TOTALS = "SELECT passages, tokens FROM plait.namespaces WHERE ns = %(ns)s"
# Materialized: a server that has not counted its tables yet would find them anew for each posting.
_POSTINGS = (
    "SELECT t.term, t.ref, t.length, t.places FROM plait.postings AS t "  # noqa: S608
    "WHERE t.ns = %(ns)s AND ({terms}) AND t.ref IN (WITH passing AS MATERIALIZED (SELECT x.ref "
    f"FROM (SELECT c.ref FROM ({{candidates}}) AS c OFFSET 0) AS x WHERE {_PASSES}) "
    "SELECT ref FROM passing)"
)
_COUNT = (
    "SELECT count(*) FROM (SELECT 1 FROM (SELECT c.ref FROM ({candidates}) AS c OFFSET 0) AS x "  # noqa: S608
    f"WHERE {_PASSES} LIMIT %(limit)s) AS s"
)
_LONGER = (
    "SELECT DISTINCT t.term FROM plait.postings AS t WHERE t.ns = %(ns)s AND {range} "
    "AND t.term <> %(term)s AND length(t.term) <= %(most)s ORDER BY t.term LIMIT %(limit)s"
)
# Whether a word, or one with a beginning, is in a passage that passes; only if few have it, or one
# of many passages after another would be tested.
_OF_WORD = (
    "SELECT t.ref FROM plait.postings AS t WHERE t.ns = %(ns)s AND t.term = q.term UNION ALL "
    "SELECT t.ref FROM plait.postings AS t WHERE t.ns = %(ns)s AND t.term >= q.low "
    "AND t.term < q.high"
)
_SEEN = (
    f"SELECT q.word, EXISTS (SELECT 1 FROM ({_OF_WORD}) AS x WHERE {_PASSES}) "  # noqa: S608
    "FROM unnest({}::text[], {}::text[], {}::text[], {}::text[]) AS q (word, term, low, high) "
    f"WHERE (SELECT count(*) FROM ({_OF_WORD} LIMIT {FEW_PASSAGES + 1}) AS s) <= {FEW_PASSAGES}"
)


class Rows(Protocol):
    """Whatever returns the rows of a statement."""

    def rows(self, sql: str, values: Mapping[str, Any] | None = None) -> list[SQLRow]:
        """Return all rows of one statement."""


# The forms of words that have an ending, as they are indexed.
Forms = Mapping[Term, Sequence[Term]]
# What to send for the passages that match a query, and how to read the answers.
Matching = tuple[list[SQLStatement], Callable[[Sequence[Sequence[SQLRow]]], list[Scored]]]


def operands(query: Query) -> list[Operand] | None:
    """Return what a query looks for, joined by OR; ``None`` if it joins them in another way."""
    if query.expression is None:
        asked = _words(query)
    else:
        parts = _alternatives(query.expression)
        if parts is None:
            return None
        asked = [_operand(term) for term in parts]
    if any(term.near for term in query.boosts):
        return None
    return [*asked, *map(_operand, query.boosts)]


def _words(query: Query) -> list[Operand]:
    """Return the words of a query; one may have several terms, or none."""
    listed = [tuple(terms_of(word)) for word in query.words]
    return [Operand(terms, whole=len(terms) == 1) for terms in listed]


def _operand(term: Term) -> Operand:
    return Operand(tuple(terms_of(" ".join(term.words))), term.prefix)


def _alternatives(expression: Expression) -> list[Term] | None:
    """Return the terms of an expression that only joins them by OR."""
    if isinstance(expression, Term):
        return None if expression.near or expression.ending else [expression]
    if expression.operator != "or":
        return None
    parts = [_alternatives(part) for part in expression.parts]
    return None if None in parts else [term for part in parts for term in part or ()]


def best(session: Channel, query: Query, limit: int, where: Conditions) -> list[Scored]:
    """Return the best passages by BM25, higher is better."""
    if query.rarest and not query.local:
        from plait.stores.postgres import resembling

        return resembling.by_rare_words(session, query, limit, where)
    if query.local:
        return _best_alone(session, query, limit, where)
    statements, scored = matching(query, limit, where, forms_of(session, query))
    return scored(session.together(*statements))


def matching(query: Query, limit: int, where: Conditions, forms: Forms) -> Matching:
    """Return how to read the best passages of a query; ``forms`` are those of its words."""
    statement = ranking(query, limit, where)
    if statement is not None:
        return [statement], lambda answers: [(row[0], row[1]) for row in answers[0]]
    statements, scores_of = _by_operators(query, where, forms)
    return statements, lambda answers: _ranked(scores_of(answers), limit)


def ranking(query: Query, limit: int, where: Conditions) -> SQLStatement | None:
    """Return the statement for the best passages; ``None`` if one is not enough."""
    asked = None if query.rarest or query.local else operands(query)
    if asked is None:
        return None
    few = query.expression is None and len(query.words) <= NARROWED_WORDS
    values: dict[str, Any] = {
        "limit": limit,
        "listed": LISTED_PASSAGES if few else -1,
        "whole": [number for number, operand in enumerate(asked) if operand.whole],
    }
    hits = phrases.hits(where.bind, asked)
    return where.stated(_BEST.replace("{hits}", hits)), {**where.values, **values}


def _ranked(scores: Mapping[Ref, float], limit: int) -> list[Scored]:
    """Return the best passages by their scores."""
    ranked = sorted((-score, ref) for ref, score in scores.items())
    return [(ref, -negative) for negative, ref in ranked[:limit]]


def candidates(query: Query, where: Conditions, forms: Forms) -> str:
    """Return SQL for the passages that may match a query with operators."""
    return phrases.candidates(where.bind, rules.compile_query(_with_forms(query, forms), terms_of))


def _by_operators(
    query: Query, where: Conditions, forms: Forms
) -> tuple[list[SQLStatement], Callable[[Sequence[Sequence[SQLRow]]], dict[Ref, float]]]:
    """Return how to read the scores of all passages that match operators and the conditions."""
    compiled = rules.compile_query(_with_forms(query, forms), terms_of)
    exact, begun = set[str](), set[str]()
    for phrase in compiled.phrases():
        if phrase.terms:
            (begun if phrase.prefix else exact).add(phrase.terms[-1])
            exact.update(phrase.terms[:-1])
    terms = [f"t.term = ANY({where.bind(sorted(exact))})"]
    terms += [range_of(where.bind, "t.term", start) for start in sorted(begun)]
    sql = _POSTINGS.replace("{terms}", " OR ".join(terms))
    sql = sql.replace("{candidates}", phrases.candidates(where.bind, compiled))
    asked = [Operand(tuple(phrase.terms), phrase.prefix) for phrase in compiled.phrases()]
    counted = Conditions(0)
    counting = phrases.counts(counted.bind, asked)
    mask = (1 << POSITION_BITS) - 1

    def scores_of(answers: Sequence[Sequence[SQLRow]]) -> dict[Ref, float]:
        places: dict[Ref, dict[str, list[rules.Position]]] = {}
        lengths: dict[Ref, int] = {}
        listed_postings, held, [(count, words)], *_ = answers
        for term, ref, length, listed in listed_postings:
            pairs = [(place >> POSITION_BITS, place & mask) for place in listed]
            places.setdefault(ref, {})[term] = pairs
            lengths[ref] = length
        passages = {ref: rules.Indexed(own, lengths[ref]) for ref, own in places.items()}
        if not passages:
            return {}
        numbers: dict[int, int] = {number: count for number, count in held}
        holding = [numbers.get(number, 0) for number in range(len(asked))]
        return rules.bm25(passages, compiled, count=count, words=words, holding=holding)

    return [(where.stated(sql), where.values), (counting, counted.values), (_TOTALS, {})], scores_of


def counting(query: Query, limit: int, where: Conditions) -> SQLStatement | None:
    """Return a statement that counts the passages that match a query, up to so many.

    ``None`` if their number is not that of passages with its words: with phrases, NEAR and NOT.
    """
    if query.expression is None or query.boosts or any(map(_is_special, _terms(query.expression))):
        return None
    compiled = rules.compile_query(query, terms_of)
    if any(len(phrase.terms) != 1 for phrase in compiled.phrases()) or _denies(query.expression):
        return None
    candidates = phrases.candidates(where.bind, compiled)
    sql = _COUNT.replace("{candidates}", candidates)
    return where.stated(sql), {**where.values, "limit": limit}


def _is_special(term: Term) -> bool:
    return bool(term.near or term.prefix or term.ending)


def _denies(expression: Expression) -> bool:
    if isinstance(expression, Term):
        return False
    return expression.operator == "not" or any(map(_denies, expression.parts))


def forms_of(session: Channel, query: Query) -> Forms:
    """Return the longer forms of the words of a query that have an ending, as indexed."""
    asking = asking_for_forms(query)
    return as_forms(asking, session.together(*asking.values())) if asking else {}


def asking_for_forms(query: Query) -> dict[Term, SQLStatement]:
    """Return the statements for the longer forms of words, by these words."""
    longer = [term for term in _terms(query.expression) if term.ending] if query.expression else []
    return {term: sql for term in longer if (sql := _longer_forms(term)) is not None}


def as_forms(asked: Iterable[Term], answers: Sequence[Sequence[SQLRow]]) -> Forms:
    """Return the answers to `asking_for_forms`."""
    return {
        term: [Term((form,)) for (form,) in rows] for term, rows in zip(asked, answers, strict=True)
    }


def _with_forms(query: Query, forms: Forms) -> Query:
    if query.expression is None:
        return query
    return query._replace(expression=_replaced(query.expression, forms))


def _terms(expression: Expression) -> list[Term]:
    if isinstance(expression, Term):
        return [expression]
    return [term for part in expression.parts for term in _terms(part)]


def _longer_forms(term: Term) -> SQLStatement | None:
    """Return the statement for the indexed words that a term with an ending stands for, too."""
    stems = terms_of(term.words[0])
    if len(stems) != 1:
        return None
    bound = Conditions(0)
    sql = _LONGER.replace("{range}", range_of(bound.bind, "t.term", stems[0]))
    most = len(stems[0]) + term.ending
    return sql, {**bound.values, "term": stems[0], "most": most, "limit": MOST_FORMS}


def _replaced(expression: Expression, forms: Forms) -> Expression:
    """Return an expression with each of these terms replaced by any of its forms."""
    if isinstance(expression, Group):
        parts = tuple(_replaced(part, forms) for part in expression.parts)
        return expression._replace(parts=parts)
    plain = expression._replace(ending=0)
    listed = forms.get(expression, ())
    return Group("or", (plain, *listed)) if listed else plain


def _best_alone(session: Channel, query: Query, limit: int, where: Conditions) -> list[Scored]:
    """Return the best passages as if there were no others, see `plait.stores.sqlite.alone`."""
    scores: dict[Ref, float] = {}
    if query.expression is not None:
        plain = query._replace(boosts=())
        statements, scores_of = _by_operators(plain, where, forms_of(session, plain))
        scores = dict.fromkeys(scores_of(session.together(*statements)), 0.0)
    any_ref = query.expression is None
    hits: dict[int, list[tuple[Ref, float, int]]] = {}
    listed = phrases.hits(where.bind, [*_words(query), *map(_operand, query.boosts)])
    sql = where.stated(_HITS_AMONG.replace("{hits}", listed))
    for number, ref, times, length in session.rows(sql, where.values):
        hits.setdefault(number, []).append((ref, times, length))
    lengths = {ref: length for rows in hits.values() for ref, _, length in rows}
    average = sum(lengths.values()) / len(lengths) if lengths else 1.0
    sql, values = _selecting(where, None)
    count = int(session.value(sql, values))
    for _, rows in sorted(hits.items()):
        idf = max(LEAST_OWN_IDF, _log_odds(count, len(rows)))
        for ref, times, length in rows:
            if any_ref or ref in scores:
                part = times * (K1 + 1) / (times + K1 * (1 - B + B * length / average))
                # Rounded, as in the SQLite store, whose way to the number of times is longer.
                scores[ref] = scores.get(ref, 0.0) + round(idf * part, 6)
    return _ranked(scores, limit)


def _log_odds(passages: int, holding: int) -> float:
    return math.log(max(passages - holding, 0) + 0.5) - math.log(holding + 0.5)


# -- counts --------------------------------------------------------------------------------


def vocabulary(
    session: Channel,
    words: Mapping[str, Sequence[Token]],
    begun_with: Mapping[str, str],
    where: Conditions | None,
    seen_by: Conditions | None,
) -> Vocabulary:
    """Return how many passages, all or those that meet conditions, contain some words.

    Of words that few passages contain, it tells which no passage contains that may be seen.
    """
    answers = session.together(*of_vocabulary(words, begun_with, where, seen_by))
    return vocabulary_of(session, answers, words, begun_with, where, seen_by)


def of_vocabulary(
    words: Mapping[str, Sequence[Token]],
    begun_with: Mapping[str, str],
    where: Conditions | None,
    seen_by: Conditions | None,
) -> list[SQLStatement]:
    """Return the statements for the counts of a vocabulary."""
    statements = [_counting(_asked(words, begun_with, where), where)]
    if seen_by is not None:
        statements.append(_seeing(words, begun_with, seen_by))
    if where is not None:
        statements.append(_selecting(where, None))
    return statements


def vocabulary_of(
    session: Rows,
    answers: Sequence[Sequence[SQLRow]],
    words: Mapping[str, Sequence[Token]],
    begun_with: Mapping[str, str],
    where: Conditions | None,
    seen_by: Conditions | None,
) -> Vocabulary:
    """Return the answers to `of_vocabulary` as a value; words of several terms are asked again."""
    begun: dict[str, str] = {}
    for word, start in begun_with.items():
        stems = analysis.tokens(fileless.connection(), start)
        if len(words[word]) == len(stems) == 1:
            begun.setdefault(stems[0][2], words[word][0][2])
    rows, *others = answers
    counted: dict[str | None, int] = dict(rows)
    terms = {term for listed in words.values() for _, _, term in listed}
    if where is None:
        holding = {term: counted.get(term, 0) for term in terms}
        counts = Vocabulary(counted.get(None, 0), words, holding, begun)
    else:
        holding = dict.fromkeys(terms, 0)
        for word, listed in words.items():
            for _, _, term in listed:
                holding[term] = max(holding[term], counted.get(word, 0))
        counts = Vocabulary(int(others[-1][0][0]), words, holding, begun)
    if seen_by is None or not (few := counts.in_few()):
        return counts
    seen: dict[str, bool] = dict(others[0])
    unseen = {word for word in few if not seen.get(word, True)}
    if unknown := [word for word in few if word not in seen]:
        unseen |= _unseen(session, unknown, words, begun_with, seen_by)
    return counts._replace(unseen=frozenset(unseen))


def _asked(
    words: Mapping[str, Sequence[Token]], begun_with: Mapping[str, str], where: Conditions | None
) -> dict[str, list[Operand]]:
    """Return what to count: words among some passages; else their terms, or how they begin."""
    if where is not None:
        return _either(words, begun_with)
    # subtle: of words with one term, the last one counts, in the order of the SQLite store.
    either = _either({word: words[word] for word in begun_with}, begun_with)
    terms = {term for listed in words.values() for _, _, term in listed}
    asked = {term: [Operand((kept_term(term),))] for term in sorted(terms)}
    return asked | {words[word][0][2]: either[word] for word in either if len(words[word]) == 1}


def _seeing(
    words: Mapping[str, Sequence[Token]], begun_with: Mapping[str, str], where: Conditions
) -> SQLStatement:
    """Return a statement for which words a passage contains that meets the conditions."""
    rows = []
    for word, listed in words.items():
        starts = terms_of(begun_with.get(word, ""))
        if len(listed) == 1 and len(starts) <= 1:
            begins = [escaped(start) for start in starts] or [""]
            ends = (Escaped(begins[0]), Escaped(after(begins[0]) if begins[0] else ""))
            rows.append((word, kept_term(listed[0][2]), *ends))
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    bound = [where.bind(column) for column in columns]
    return where.stated(_SEEN.format(*bound, conditions="{conditions}")), where.values


def _unseen(
    session: Rows,
    words: Iterable[str],
    tokens: Mapping[str, Sequence[Token]],
    begun_with: Mapping[str, str],
    where: Conditions,
) -> set[str]:
    """Return those of the words that no passage which meets the conditions contains."""
    forms = _either({word: tokens[word] for word in words}, begun_with)
    sql, values = _counting(forms, where)
    counts: dict[str | None, int] = dict(session.rows(sql, values))
    return {word for word in forms if not counts.get(word)}


def _either(
    words: Mapping[str, Sequence[Token]], begun_with: Mapping[str, str]
) -> dict[str, list[Operand]]:
    """Return what to look for: a word, and whatever begins like it."""
    forms: dict[str, list[Operand]] = {}
    for word in words:
        forms[word] = [Operand(tuple(terms_of(word)))]
        if word in begun_with:
            forms[word].append(Operand(tuple(terms_of(begun_with[word])), prefix=True))
    return forms


def _counting(asked: Mapping[str, Sequence[Operand]], where: Conditions | None) -> SQLStatement:
    """Return a statement for how many passages there are, and have one of each name's operands."""
    bound = where or Conditions(0)
    names: list[str] = []
    flat: list[Operand] = []
    for name, forms in asked.items():
        names += [name] * len(forms)
        flat += forms
    condition = "true" if where is None else _PASSES
    sql = (
        "SELECT NULL AS name, n.passages FROM plait.namespaces AS n WHERE n.ns = %(ns)s "  # noqa: S608
        "UNION ALL SELECT q.name, count(DISTINCT x.ref) "
        f"FROM unnest({bound.bind(list(range(len(names))))}::int[], {bound.bind(names)}::text[]) "
        f"AS q (o, name) JOIN ({phrases.hits(bound.bind, flat)}) AS x ON x.o = q.o "
        f"WHERE {condition} GROUP BY q.name"
    )
    return sql if where is None else where.stated(sql), bound.values


def _selecting(where: Conditions, most: int | None) -> SQLStatement:
    """Return a statement that counts the passages of no more documents than ``most``."""
    sql = (
        "SELECT coalesce(sum(s.chunk_count), 0)::bigint FROM (SELECT d.chunk_count "  # noqa: S608
        f"FROM plait.documents AS d WHERE {{conditions}} LIMIT {where.bind(most)}) AS s"
    )
    return where.stated(sql), where.values
