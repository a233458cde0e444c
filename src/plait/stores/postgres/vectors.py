"""Vectors as int8 numbers, compared by the server: exactly, or by an index in a very large memory.

The numbers are those of the SQLite store, so both find the same passages.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from plait.protocols import Nearest, Scored, Vector
from plait.stores.postgres.connection import Channel, SQLRow, SQLStatement
from plait.stores.postgres.documents import JOINED
from plait.stores.postgres.filters import Conditions
from plait.stores.sqlite.filters import LISTED_PASSAGES, SHORT_PASSAGES, SHORT_SHARE
from plait.stores.sqlite.resembling import MOST_TESTED, UNLIKE_COSINE
from plait.stores.sqlite.state import space_text
from plait.stores.sqlite.vectors import quantise
from plait.types import Ref, Space

# The latest passages, which are compared with a new text.
LATEST_PASSAGES = 4_096

_SAME_VECTORS = (
    "e.ns = %(ns)s AND e.generation = (SELECT g.id FROM plait.generations AS g "
    "WHERE g.ns = %(ns)s AND g.current = 1 AND g.space = %(space)s)"
)
# subtle: in a query of its own, or a prepared statement would read the text for every row.
_COSINE = "1 - (e.embedding <=> (SELECT %(query)s::halfvec))"
_PASSES = f"(SELECT true FROM {JOINED} AND p.ref = x.ref AND {{conditions}})"  # noqa: S608
_FEW = (
    "greatest(%(listed)s, (SELECT round(n.passages * %(share)s) FROM plait.namespaces AS n "
    "WHERE n.ns = %(ns)s))"
)
# The nearest of all, one after the other, until enough of them pass.
_SCAN = (
    "SELECT x.ref, x.cosine FROM ("  # noqa: S608
    f"SELECT e.ref, {_COSINE} AS cosine FROM plait.embeddings AS e WHERE {_SAME_VECTORS} "
    "AND (SELECT few FROM c) > (SELECT most FROM m) ORDER BY 2 DESC, 1 OFFSET 0) AS x "
    f"WHERE x.cosine > 0 AND {_PASSES} LIMIT %(limit)s"
)
# How many passages pass, up to one more than few; then the nearest of these, or else of all, the
# nearest first; then the cosines of those that were asked for.
NEAREST_OF_MEMORY = (
    "WITH c AS MATERIALIZED (SELECT coalesce(sum(s.chunk_count), 0)::bigint AS few FROM ("  # noqa: S608
    "SELECT d.chunk_count FROM plait.documents AS d "
    f"WHERE {{conditions}} LIMIT {_FEW} + 1) AS s), "
    f"m AS MATERIALIZED (SELECT {_FEW} AS most), near AS ({{scan}}), "
    f"narrow AS (SELECT e.ref, {_COSINE} AS cosine FROM (SELECT p.ref FROM {JOINED} "
    "AND (SELECT few FROM c) <= (SELECT most FROM m) AND {conditions}) AS own "
    f"JOIN plait.embeddings AS e ON {_SAME_VECTORS} AND e.ref = own.ref "
    "ORDER BY 2 DESC, 1 LIMIT %(limit)s) "
    "SELECT 0, c.few, NULL FROM c CROSS JOIN m WHERE c.few <= m.most "
    "UNION ALL SELECT 1, ref, cosine FROM near WHERE cosine > 0 "
    "UNION ALL SELECT 1, ref, cosine FROM narrow WHERE cosine > 0 "
    f"UNION ALL SELECT 2, e.ref, {_COSINE} FROM plait.embeddings AS e WHERE {_SAME_VECTORS} "
    "AND e.ref = ANY(%(also)s)"
)
_COSINES = (
    f"SELECT e.ref, {_COSINE} FROM plait.embeddings AS e WHERE {_SAME_VECTORS} "  # noqa: S608
    "AND e.ref = ANY(%(also)s)"
)
_WITH_COSINES = (
    f"SELECT k.*, (SELECT {_COSINE} FROM plait.embeddings AS e WHERE {_SAME_VECTORS} "  # noqa: S608
    "AND e.ref = k.ref) FROM ({ranking}) AS k"
)
_COSINES_OF = (
    f"SELECT e.ref, {_COSINE} FROM plait.embeddings AS e WHERE {_SAME_VECTORS} "  # noqa: S608
    "AND e.ref IN (SELECT x.ref FROM ({candidates}) AS x)"
)
_LATEST = (
    f"SELECT x.ref, x.cosine FROM (SELECT e.ref, {_COSINE} AS cosine FROM ("  # noqa: S608
    f"SELECT e.ref, e.embedding FROM plait.embeddings AS e WHERE {_SAME_VECTORS} "
    f"ORDER BY e.ref DESC LIMIT %(latest)s) AS e ORDER BY 2 DESC, 1 LIMIT {MOST_TESTED}) AS x "
    f"WHERE x.cosine >= %(least)s AND {_PASSES} LIMIT %(limit)s"
)
_BEST_OF_TRUSTED = (
    "SELECT max(1 - (e.embedding <=> q.vector)) "  # noqa: S608
    "FROM plait.embeddings AS e JOIN plait.passages AS p ON p.ns = %(ns)s AND p.ref = e.ref "
    "JOIN plait.documents AS d ON d.ns = %(ns)s AND d.place = p.document CROSS JOIN "
    "unnest(%(queries)s::halfvec[]) WITH ORDINALITY AS q (vector, number) "
    f"WHERE {_SAME_VECTORS} AND d.trust = 'trusted' GROUP BY q.number ORDER BY q.number"
)
_WRITE = (
    "INSERT INTO plait.embeddings (ns, generation, ref, embedding, label) "
    "SELECT %(ns)s, %(generation)s, v.ref, v.embedding::halfvec, p.label "
    "FROM unnest(%(refs)s::bigint[], %(rows)s::text[]) AS v (ref, embedding) "
    "JOIN plait.passages AS p ON p.ns = %(ns)s AND p.ref = v.ref "
    "ON CONFLICT (ns, generation, ref, label) DO UPDATE SET embedding = excluded.embedding"
)
_DROP = (
    "DELETE FROM plait.embeddings WHERE ns = %(ns)s AND generation = %(generation)s "
    "AND ref = ANY(%(refs)s)"
)


def text_of(row: bytes) -> str:
    """Return int8 numbers as the server reads a vector."""
    return f"[{','.join(map(str, memoryview(row).cast('b')))}]"


def indexed_scan(ns: int, generation: int, dims: int) -> str:
    """Return the scan by one memory's index, which serves only statements with its numbers."""
    distance = f"(e.embedding::halfvec({dims})) <=> %(query)s::halfvec({dims})"
    passes = _PASSES.replace("x.ref", "e.ref")
    return (
        f"SELECT e.ref, {_COSINE} AS cosine FROM plait.embeddings AS e "  # noqa: S608
        f"WHERE e.ns = {ns} AND e.generation = {generation} "
        f"AND (SELECT few FROM c) > (SELECT most FROM m) AND {passes} "
        f"ORDER BY {distance} LIMIT %(limit)s"
    )


def _query(vector: Vector, space: Space) -> dict[str, Any]:
    return {"query": text_of(quantise(vector, space.dims)), "space": space_text(space)}


def asked(
    vector: Vector, space: Space, limit: int, where: Conditions, also: Sequence[Ref]
) -> dict[str, Any]:
    """Return the values of `NEAREST_OF_MEMORY`."""
    return {
        **where.values,
        **_query(vector, space),
        "limit": limit,
        "also": list(also),
        "listed": max(LISTED_PASSAGES, SHORT_PASSAGES),
        "share": SHORT_SHARE,
    }


def as_nearest(listed: Sequence[SQLRow]) -> Nearest:
    """Return the rows of `NEAREST_OF_MEMORY` as a value."""
    among = next((int(few) for kind, few, _ in listed if kind == 0), None)
    hits: list[Scored] = [(ref, cosine) for kind, ref, cosine in listed if kind == 1]
    hits.sort(key=lambda hit: (-hit[1], hit[0]))
    others = {ref: cosine for kind, ref, cosine in listed if kind == 2}
    return Nearest(hits, others | dict(hits), among)


def nearest(
    session: Channel,
    vector: Vector,
    space: Space,
    limit: int,
    where: Conditions,
    also: Sequence[Ref],
) -> Nearest:
    """Return the nearest passages that meet the conditions, and the cosines of some others."""
    return as_nearest(session.rows(*comparing(vector, space, limit, where, also)))


def comparing(
    vector: Vector, space: Space, limit: int, where: Conditions, also: Sequence[Ref]
) -> SQLStatement:
    """Return the statement for the nearest passages, compared exactly."""
    sql = where.stated(NEAREST_OF_MEMORY.replace("{scan}", _SCAN))
    return sql, asked(vector, space, limit, where, also)


def with_cosines(ranking: SQLStatement, vector: Vector, space: Space) -> SQLStatement:
    """Return a statement that ranks passages, with the cosine of each that has a vector."""
    sql, values = ranking
    return _WITH_COSINES.replace("{ranking}", sql), {**values, **_query(vector, space)}


def cosines_of(
    candidates: str, bound: Mapping[str, Any], vector: Vector, space: Space
) -> SQLStatement:
    """Return a statement for the cosines of candidates, given as SQL with bound values."""
    sql = _COSINES_OF.replace("{candidates}", candidates)
    return sql, {**bound, **_query(vector, space)}


def latest(
    session: Channel,
    vector: Vector,
    space: Space,
    limit: int,
    where: Conditions,
    also: Sequence[Ref],
) -> Nearest:
    """Return the nearest of the latest passages, among those that meet the conditions."""
    values = {
        **where.values,
        **_query(vector, space),
        "limit": limit,
        "latest": LATEST_PASSAGES,
        "least": UNLIKE_COSINE,
    }
    statements: list[SQLStatement] = [(where.stated(_LATEST), values)]
    if also:
        statements.append((_COSINES, {**_query(vector, space), "also": list(also)}))
    listed, *others = session.together(*statements)
    hits: list[Scored] = [(ref, cosine) for ref, cosine in listed]
    return Nearest(hits, dict(row for rows in others for row in rows) | dict(hits))


def best_cosines(session: Channel, foreign: Iterable[Vector], space: Space) -> list[float]:
    """Return the cosine of the nearest of all trusted passages to each vector."""
    queries = [text_of(quantise(vector, space.dims)) for vector in foreign]
    values = {"queries": queries, "space": space_text(space)}
    return [cosine for (cosine,) in session.rows(_BEST_OF_TRUSTED, values)]


def write(session: Channel, generation: int, rows: Mapping[Ref, bytes | None]) -> None:
    """Write rows of a generation; ``None`` drops one."""
    gone = [ref for ref, row in rows.items() if row is None]
    made = {ref: text_of(row) for ref, row in rows.items() if row is not None}
    if gone:
        session.execute(_DROP, generation=generation, refs=gone)
    if made:
        session.execute(_WRITE, generation=generation, refs=list(made), rows=list(made.values()))
