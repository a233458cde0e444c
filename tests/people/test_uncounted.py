"""A memory that was just filled: the server has not counted its tables, and plans by guesses."""

import json
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
    explaining = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}"
    told: Any = store._connections.read(lambda session: session.rows(explaining, values))[0][0]
    plan = (json.loads(told) if isinstance(told, str) else told)[0]["Plan"]
    store.close()
    assert plan["Actual Rows"] == PASSAGES
    assert plan["Shared Hit Blocks"] < PASSAGES * PAGES_EACH
