"""Read every statement that the store sends, as a database that is spread by memory would.

Citus runs a statement as it is, on one server, if every table in it is confined to one value of
the column by which the tables are spread. The server's own planner tells whether it is: each scan
has a condition on it, written or derived. What Citus refuses even then is looked for by name.
Sources: https://docs.citusdata.com/en/stable/develop/reference_workarounds.html (limitations) and
https://docs.citusdata.com/en/stable/develop/reference_ddl.html (keys).
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg

from plait.stores.postgres.adapting import adapt

_TABLE = re.compile(r"\bplait\.(\w+)")
_INSERT = re.compile(r"INSERT INTO plait\.\w+ (?:AS \w+ )?\((\w+)")
_GIVEN = re.compile(r"\) +(?:VALUES \(%\(ns\)s,|SELECT (?:DISTINCT )?(?:%\(ns\)s|n\.ns)[,:])")
_CONFINED = re.compile(r"(\w+\.)?ns = ('?-?\d+'?(::bigint)?|\w+\.ns)")
# Texts may have brackets; numbers have none.
_LITERAL = re.compile(r"'(-?\d+'|(?:[^']|'')*')")
_NUMBER = re.compile(r"^'-?\d+'$")
# Statements about no memory: by what they begin with.
EXCEPTIONS = {
    "begin": "BEGIN",
    "commit": "COMMIT",
    "roll back": "ROLLBACK",
    "set for one transaction": "SELECT set_config(",
    "wait for a change of the tables": "SELECT pg_advisory_xact_lock",
    "which tables are there": "SELECT to_regclass(",
    "version of the tables": "SELECT max(version) FROM plait.schema_version",
    "note the version": "INSERT INTO plait.schema_version",
    "may vectors be added": "SELECT EXISTS (SELECT 1 FROM pg_available_extensions",
    "may others add functions": "SELECT pg_catalog.quote_ident(n.nspname",
    "version of an extension": "SELECT extversion FROM pg_extension",
    "is there Citus": "SELECT 1 FROM pg_extension WHERE extname = 'citus'",
    "which indexes there are": "SELECT c.relname, i.indisvalid, c.oid IN",
    "make an index": "CREATE INDEX CONCURRENTLY ",
    "drop an index": "DROP INDEX CONCURRENTLY IF EXISTS plait.",
    "what the server has counted": "SELECT relname, n_mod_since_analyze, n_live_tup FROM",
    "tell at once what was written": "SELECT pg_stat_force_next_flush()",
    "count anew": "ANALYZE (SKIP_LOCKED) plait.",
    "are the tables fenced": "SELECT c.relname, c.relrowsecurity FROM pg_class",
    "may tables be vacuumed": "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class",
    "make the extension": "CREATE EXTENSION IF NOT EXISTS vector",
    "make the tables": "\nCREATE ",
    "note which vectors are missing": "INSERT INTO plait.unembedded (ns, generation, ref, reason, "
    "label) SELECT g.ns",
    "change a table": "\nALTER TABLE ",
    "size of the database": "SELECT pg_database_size(",
    "clear pages and count anew": "VACUUM (ANALYZE",
}
REFUSED = {
    "a recursive query": r"\bWITH RECURSIVE\b",
    "a change inside of WITH": r"\bWITH\b.*\bAS (MATERIALIZED )?\((INSERT|UPDATE|DELETE)\b",
    "a query inside of VALUES": r"\bVALUES \([^;]*\bSELECT\b",
    "a sample": r"\bTABLESAMPLE\b",
    "grouping sets": r"\b(GROUPING SETS|ROLLUP|CUBE)\b",
    "MERGE": r"^\s*MERGE\b",
    "a sequence": r"\b(nextval|currval|lastval|serial|GENERATED)\b",
    "a trigger": r"\bTRIGGER\b",
    "a foreign key": r"\b(REFERENCES|FOREIGN KEY)\b",
    "a setting that lasts": r"^\s*SET (?!LOCAL)|set_config\([^)]*false\)",
    "a temporary table": r"\bTEMP(ORARY)?\b",
    "a cursor that lasts": r"\bWITH HOLD\b",
    "a channel": r"^\s*(LISTEN|NOTIFY)\b|pg_notify",
    "a row that moves to another memory": r"\bUPDATE plait\.\w+ (AS \w+ )?SET [^;]*\bns = (?!%)",
}
# In an UPDATE, Citus allows no function that may change its result, or looks at a row to do so.
_STEADY = {
    "row_number",
    "coalesce",
    "greatest",
    "least",
    "unnest",
    "any",
    "max",
    "min",
    "count",
    "sum",
    "set",
}
_CALLED = re.compile(r"\b([a-z_]+)\(")


class Sent(NamedTuple):
    """A statement, and values that it was sent with."""

    sql: str
    values: Mapping[str, Any] | None


@contextmanager
def recorded(patch: Any, sent: dict[str, Sent]) -> Iterator[None]:
    """Record what is sent, each statement once."""
    execute = psycopg.Cursor.execute

    def noting(cursor: Any, query: Any, params: Any = None, **options: Any) -> Any:
        composed = isinstance(query, psycopg.sql.Composable)
        text = query.as_string(cursor) if composed else query
        text = text.decode() if isinstance(text, bytes) else str(text)
        done = execute(cursor, query, params, **options)  # values that fail would fail here, too
        sent.setdefault(text, Sent(text, params))
        return done

    patch.setattr(psycopg.Cursor, "execute", noting)
    yield
    patch.setattr(psycopg.Cursor, "execute", execute)


def is_exception(sql: str) -> bool:
    return sql.startswith(tuple(EXCEPTIONS.values()))


def wrongs(statement: Sent, connection: "psycopg.Connection[Any]") -> list[str]:
    """What a database that is spread over several servers would refuse."""
    sql, values = statement
    listed = [name for name, pattern in REFUSED.items() if re.search(pattern, sql, re.S)]
    if is_exception(sql):
        return listed
    tables = _TABLE.findall(sql)
    if not tables:
        return [*listed, "neither a memory's table nor a known exception"]
    if values is None or "ns" not in values:
        return [*listed, "no memory is bound"]
    if "FOR UPDATE" in sql and len(tables) > 1:
        listed.append("FOR UPDATE over several tables")
    if sql.startswith("INSERT") and not (
        (first := _INSERT.match(sql)) and first[1] == "ns" and _GIVEN.search(sql)
    ):
        listed.append("a row without its memory")
    if sql.startswith("UPDATE"):
        listed += [f"{name}() in UPDATE" for name in {*_CALLED.findall(sql)} - _STEADY]
    plan = connection.execute(f"EXPLAIN (FORMAT JSON, COSTS OFF) {sql}".encode(), values).fetchone()
    assert plan is not None
    return listed + _unconfined(plan[0][0]["Plan"])


def everything_wrong(sent: Mapping[str, Sent], dsn: str) -> dict[str, list[str]]:
    """What is wrong with each statement, of those with something wrong."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        adapt(connection)
        listed = {sql: wrongs(statement, connection) for sql, statement in sent.items()}
    return {sql: wrong for sql, wrong in listed.items() if wrong}


def _unconfined(node: Mapping[str, Any]) -> list[str]:
    """The scans of a plan that may read rows of several memories."""
    listed = []
    if node["Node Type"].endswith("Scan") and node.get("Schema", "plait") == "plait":
        conditions = [node.get(name, "") for name in ("Index Cond", "Recheck Cond", "Filter")]
        table = node.get("Relation Name")
        if table and not any(map(is_confined, conditions)):
            listed.append(f"{table} is read without its memory ({conditions})")
    for part in node.get("Plans", ()):
        listed += _unconfined(part)
    return listed


def is_confined(condition: str) -> bool:
    """Tell whether a condition of a plan holds for rows of one memory only.

    >>> is_confined("((ns = '-1'::bigint) AND ((a = 2) OR (b = 3)))")
    True
    >>> is_confined("((ns = 1) OR (a = 2))"), is_confined("(((ns = 1) AND a) OR (ns = 1))")
    (False, True)
    """
    return _is_confined(_LITERAL.sub(lambda text: "".join(_NUMBER.findall(text[0])), condition))


def _is_confined(condition: str) -> bool:
    if condition.startswith("(") and _closes(condition) == len(condition) - 1:
        return _is_confined(condition[1:-1])
    for word, rule in ((" AND ", any), (" OR ", all)):
        parts = _split(condition, word)
        if len(parts) > 1:
            return rule(map(_is_confined, parts))
    return _CONFINED.fullmatch(condition) is not None


def _split(text: str, word: str) -> list[str]:
    """Split a text at a word that is outside of all brackets."""
    parts, start, depth = [], 0, 0
    for place, mark in enumerate(text):
        depth += (mark == "(") - (mark == ")")
        if not depth and text.startswith(word, place):
            parts.append(text[start:place])
            start = place + len(word)
    return [*parts, text[start:]]


def _closes(text: str) -> int:
    depth = 0
    for place, mark in enumerate(text):
        depth += (mark == "(") - (mark == ")")
        if not depth:
            return place
    return -1
