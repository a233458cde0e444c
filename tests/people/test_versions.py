"""Tables of the version before members: they get what they lack, and older plaits stop."""

from collections.abc import Iterator

import psycopg
import pytest

from plait.errors import SchemaTooNew, StoreReadOnly
from plait.stores.postgres import connection, schema
from plait.stores.postgres.connection import number_of
from plait.stores.postgres.store import PostgresStore
from plait.stores.sqlite.state import space_text
from plait.text import parse
from plait.types import Filter
from plait.types.audit import AuditQuery
from plait.types.ids import new_id
from tests.builders import SPACE, vector
from tests.codes import has_code
from tests.people.conftest import Trio
from tests.servers import need

# As plait made it until version 2.
OLD_VECTORS = (
    "CREATE EXTENSION IF NOT EXISTS vector; CREATE TABLE plait.embeddings (ns bigint, "
    "generation bigint, ref bigint, embedding halfvec NOT NULL, PRIMARY KEY (ns, generation, ref))"
)
OLD_ROWS = (
    "INSERT INTO plait.namespaces (ns, name, analyzer, passages, tokens, counter, refs) "
    "VALUES ({ns}, 'old', '', 1, 2, 1, 1)",
    "INSERT INTO plait.documents (ns, place, id, key, kind, title, preface, source, project, tags, "
    "metadata, origin, trust, pinned, created_at, updated_at, event_at, indexed_at, chunk_count) "
    "VALUES ({ns}, 1, 'a', 'plum', 'note', '', '', '', '', '[]', '{{}}', 'user', 'trusted', 0, "
    "1, 1, 1, 1, 1)",
    "INSERT INTO plait.passages (ns, ref, id, document, ordinal, start, start_line, end_line, "
    "heading, text, title_terms, hash, length, terms) "
    "VALUES ({ns}, 1, 'p', 1, 0, 0, 1, 1, '', 'red plum', '', '', 2, '{{red,plum}}')",
    "INSERT INTO plait.postings (ns, term, ref, times, length, places) "
    "VALUES ({ns}, 'plum', 1, 1, 2, '{{1073741825}}'), ({ns}, 'red', 1, 1, 2, '{{1073741824}}')",
    "INSERT INTO plait.generations (ns, id, space, dims, current) "
    "VALUES ({ns}, 1, '{space}', 4, 1)",
    "INSERT INTO plait.embeddings (ns, generation, ref, embedding) "
    "VALUES ({ns}, 1, 1, '[127,0,0,0]')",
    "INSERT INTO plait.audit (ns, number, at, origin, door, verb, project, document) "
    "VALUES ({ns}, 41, 1, 'user', 'cli', 'store', '', 'a')",
)


@pytest.fixture
def old_database() -> Iterator[str]:
    """A database with the tables of version 2, and a memory in it."""
    server, name = need(), f"old_{new_id()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        info = psycopg.conninfo.conninfo_to_dict(server)
        dsn = f"postgresql://{info['user']}@/{name}?host={info['host']}"
        with psycopg.connect(dsn) as inside:
            for number, step in enumerate(schema.MIGRATIONS[:2], start=1):
                inside.execute(step)
                inside.execute(f"INSERT INTO plait.schema_version VALUES ({number})".encode())
            inside.execute(OLD_VECTORS)
            for row in OLD_ROWS:
                filled = row.format(ns=number_of("old"), space=space_text(SPACE))
                inside.execute(filled.encode())
        yield dsn
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def test_an_older_database_keeps_its_rows_and_can_have_members(old_database: str) -> None:
    store = PostgresStore(f"{old_database}&namespace=old")
    assert [ref for ref, _ in store.keyword(parse("plum"), 5, Filter())] == [1]
    assert store.vector(vector(1, 0, 0, 0), SPACE, 5, Filter()).hits[0][0] == 1
    with store.transaction() as transaction:
        transaction.amend("a", title="Fruit")
    assert [entry.verb for entry in store.audit(AuditQuery(), 10)] == ["write", "store"]
    with psycopg.connect(old_database) as connection:
        number = connection.execute("SELECT max(number), count(*) FROM plait.audit").fetchone()
        assert number == (42, 2)
        role = f"ana_{new_id()}"
        connection.execute(f"CREATE ROLE {role} LOGIN".encode())
        connection.commit()
    try:
        store.admit(role, "reader", [])
        member = PostgresStore(f"{old_database}&namespace=old".replace("postgres@", f"{role}@"))
        assert [ref for ref, _ in member.keyword(parse("plum"), 5, Filter())] == [1]
        member.close()
    finally:
        store.close()
        with psycopg.connect(old_database) as connection:
            connection.execute(f"DROP OWNED BY {role}".encode())
            connection.execute(f"DROP ROLE {role}".encode())


def test_an_older_database_is_not_changed_by_a_reader(old_database: str) -> None:
    with pytest.raises(StoreReadOnly, check=has_code("read_only_upgrade")):
        PostgresStore(f"{old_database}&namespace=old", read_only=True)


def test_a_plait_without_members_refuses_tables_that_may_have_some(
    old_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    PostgresStore(f"{old_database}&namespace=old").close()
    monkeypatch.setattr(connection, "SCHEMA_VERSION", 2)
    with pytest.raises(SchemaTooNew):
        PostgresStore(f"{old_database}&namespace=old")


def test_a_member_works_with_the_tables_of_before_until_the_administrator_comes(trio: Trio) -> None:
    """A member may not change tables, and has nobody to wait for."""
    before = f"DELETE FROM plait.schema_version WHERE version = {connection.SCHEMA_VERSION}"
    trio.team.as_administrator(before)
    with trio.team.memory(trio.writer) as memory:
        memory.store("red plums", key="fruit")
        assert [hit.document.key for hit in memory.search("plums")] == ["fruit"]
