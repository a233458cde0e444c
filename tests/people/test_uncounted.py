"""A memory that was just filled: the server has not counted its tables, and plans by guesses."""

import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from plait import Memory
from plait.stores.postgres import keyword
from plait.stores.postgres.store import PostgresStore
from plait.text import parse
from plait.types import EVERYTHING, Document
from plait.types.ids import new_id
from tests.people.conftest import Team

PASSAGES = 300
# Pages that are looked at for a passage: of its postings, its row, and its document's.
PAGES_EACH = 60


def explained(store: PostgresStore, sql: str, values: Mapping[str, Any]) -> Any:
    """The plan of a statement, with what it has looked at."""
    explaining = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}"
    told: Any = store._connections.read(lambda session: session.rows(explaining, values))[0][0]
    return (json.loads(told) if isinstance(told, str) else told)[0]["Plan"]


def test_words_that_documents_mention_are_looked_for_once(team: Team) -> None:
    namespace = new_id()
    owner = PostgresStore(team.address(namespace=namespace))
    for table in ("postings", "documents", "passages"):
        team.as_administrator(f"ALTER TABLE plait.{table} SET (autovacuum_enabled = false)")
    team.as_administrator("ANALYZE")
    with Memory.open(team.address(namespace=namespace), embedder="none") as memory:
        memory.store_many(Document(text=f"lantern {number}") for number in range(PASSAGES))
    where = owner._where(EVERYTHING._replace(mentions=("lantern",)), searching=True)
    statement = keyword.ranking(parse("lantern"), 10, where)
    owner.close()
    assert statement is not None
    in_time = "&options=-c%20statement_timeout%3D10000"
    with closing(PostgresStore(team.address(namespace=namespace) + in_time)) as store:
        plan = explained(store, *statement)
    assert plan["Actual Rows"] == 10
    assert plan["Shared Hit Blocks"] < PASSAGES * PAGES_EACH


def test_operators_look_at_each_passage_once(team: Team) -> None:
    rita, namespace = team.person("rita"), new_id()
    owner = PostgresStore(team.address(namespace=namespace))
    owner.admit(rita, "reader", [])
    team.as_administrator("ALTER TABLE plait.postings SET (autovacuum_enabled = false)")
    owner.close()
    with Memory.open(team.address(namespace=namespace), embedder="none") as memory:
        memory.store_many(Document(text=f"lantern {number}") for number in range(PASSAGES))
    store = PostgresStore(team.address(rita, namespace))
    where = store._where(EVERYTHING, searching=True)
    [(sql, values), *_], _ = keyword.matching(parse("lantern NOT harbour"), 10, where, {})
    plan = explained(store, sql, values)
    store.close()
    assert plan["Actual Rows"] == PASSAGES
    assert plan["Shared Hit Blocks"] < PASSAGES * PAGES_EACH
