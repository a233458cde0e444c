"""The server itself shows nobody what is not his: plain SQL, past plait and its own filter."""

from typing import Any

import psycopg
from psycopg import errors
from psycopg.types.json import Jsonb

from plait.stores.postgres import fences
from plait.stores.postgres.connection import SCHEMA_VERSION
from plait.stores.postgres.labels import label_of
from plait.stores.postgres.store import PostgresStore
from plait.types.visibility import Visibility
from tests.people.conftest import Team, Trio, run
from tests.people.filling import fill

TABLES = (
    "SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'plait'::regnamespace "
    "AND c.relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY 1"
)
# It tells nothing of anybody.
OPEN = "schema_version"
# Of the memory as a whole: every member sees these, and their rows have no other label.
COMMON = {"namespaces", "members", "facts", "commits", "generations", OPEN}
ADD = "INSERT INTO plait.{0} ({1}) SELECT {1} FROM jsonb_populate_record(NULL::plait.{0}, %s)"


def tables(team: Team) -> list[str]:
    listed = [name for (name,) in team.as_administrator(TABLES)]
    assert {"documents", "postings", "embeddings", "members"} <= {*listed}
    return listed


def filled(team: Team, role: str | None, word: str, visibility: Visibility | None = None) -> None:
    store = PostgresStore(team.address(role))
    fill(store, word, visibility)
    store.close()


def changed(connection: "psycopg.Connection[Any]", statement: str, values: Any = None) -> int:
    """How many rows a statement changes; none if the server refuses it. All is taken back."""
    try:
        [(count,)] = run(connection, statement, values)
    except errors.InsufficientPrivilege:
        count = 0
    except errors.UniqueViolation:
        count = 1  # the fence has let it pass
    connection.rollback()
    return int(count)


def adding(table: str, row: dict[str, Any]) -> str:
    """A statement that adds a row, less what the server makes of the others."""
    return ADD.format(table, ", ".join(sorted({*row} - {"fence"})))


def reached(team: Team, role: str, condition: str = "true") -> dict[str, int]:
    """How many rows a role can see, change, delete or put back, of each table, if any."""
    listed: dict[str, int] = {}
    with psycopg.connect(team.dsn(role)) as connection:
        for table in tables(team):
            where = "true" if table == OPEN else condition
            key = "version" if table == OPEN else "ns"
            try:
                [(count,)] = run(connection, f"SELECT count(*) FROM plait.{table} WHERE {where}")
            except errors.InsufficientPrivilege:
                connection.rollback()
                count = 0
            count += changed(connection, f"UPDATE plait.{table} SET {key} = {key} WHERE {where}")
            count += changed(connection, f"DELETE FROM plait.{table} WHERE {where}")
            sample = f"SELECT to_jsonb(t) FROM plait.{table} AS t WHERE {where} LIMIT 1"
            for (row,) in team.as_administrator(sample):
                # Another number, so that nothing but the fence is in its way.
                other = {
                    name: "copy" if isinstance(row[name], str) else -1
                    for name in ("number", "place", "ref", "id")
                    if name in row
                }
                count += changed(connection, adding(table, row), [Jsonb({**row, **other})])
            if count:
                listed[table] = count
    return listed


def test_every_table_is_fenced(trio: Trio) -> None:
    listed = trio.team.as_administrator(
        "SELECT c.relname, c.relrowsecurity, (SELECT count(*) FROM pg_policy AS p "
        "WHERE p.polrelid = c.oid) FROM pg_class AS c "
        "WHERE c.relnamespace = 'plait'::regnamespace AND c.relkind IN ('r', 'p')"
    )
    assert {name: row for name, *row in listed} == {name: [True, 4] for name in tables(trio.team)}


def test_every_table_has_rows_in_these_tests(trio: Trio) -> None:
    team, private = trio.team, label_of(trio.team.ns, "private", trio.writer)
    filled(team, trio.writer, "apple", "private")
    empty = [
        table
        for table in tables(team)
        if not team.as_administrator(
            f"SELECT 1 FROM plait.{table}"
            + ("" if table in COMMON else f" WHERE label = {private}")
            + " LIMIT 1"
        )
    ]
    assert not empty


def test_a_stranger_with_all_rights_reaches_nothing(trio: Trio) -> None:
    team = trio.team
    filled(team, trio.writer, "apple")
    filled(team, trio.writer, "secret", "private")
    stranger = team.person("sam")
    team.as_administrator(f"GRANT USAGE ON SCHEMA plait TO {stranger}")
    team.as_administrator(f"GRANT ALL ON ALL TABLES IN SCHEMA plait TO {stranger}")
    for name in fences.FUNCTIONS:
        team.as_administrator(f"GRANT EXECUTE ON FUNCTION plait.{name} TO {stranger}")
    assert {*reached(team, stranger)} == {OPEN}
    assert reached(team, stranger)[OPEN] == SCHEMA_VERSION


def test_a_member_of_another_memory_reaches_nothing_of_this_one(trio: Trio) -> None:
    team = trio.team
    filled(team, trio.writer, "apple")
    other = team.person("otto")
    with psycopg.connect(team.dsn(), autocommit=True) as connection:
        fences.grant(connection, other)
        connection.execute(
            "INSERT INTO plait.members (ns, member, role, added_at) VALUES (1, %s, 'owner', 0)",
            [other],
        )
        connection.execute(
            "INSERT INTO plait.namespaces (ns, name, analyzer) VALUES (1, 'other', '')"
        )
    assert {*reached(team, other, f"ns = {team.ns}")} == {OPEN}
    assert team.as_role(other, "SELECT name FROM plait.namespaces") == [("other",)]


def test_a_member_reaches_nothing_that_is_private_of_another(trio: Trio) -> None:
    team, private = trio.team, label_of(trio.team.ns, "private", trio.writer)
    filled(team, trio.writer, "secret", "private")
    filled(team, trio.writer, "apple")
    for role in (trio.owner, trio.reader, team.member("willa")):
        assert {*reached(team, role, f"label = {private}")} == {OPEN}
    assert {*reached(team, trio.writer, f"label = {private}")} == {*tables(team)} - COMMON | {OPEN}


def test_a_member_without_the_project_reaches_nothing_of_it(trio: Trio) -> None:
    team = trio.team
    shop = team.member("shula", projects=["shop"])
    with team.memory(shop, project="shop") as memory:
        memory.store("the shop sells plums", key="stock", visibility="project")
    label = label_of(team.ns, "project", "shop")
    assert {*reached(team, trio.owner, f"label = {label}")} == {OPEN}
    assert reached(team, shop, f"label = {label}")["documents"] == 4


def test_a_reader_sees_what_is_the_teams_and_changes_nothing(trio: Trio) -> None:
    team = trio.team
    filled(team, trio.writer, "apple")
    sees = f"SELECT count(*) FROM plait.documents WHERE ns = {team.ns}"
    assert team.as_role(trio.reader, sees) == team.as_administrator(sees) != [(0,)]
    with psycopg.connect(team.dsn(trio.reader)) as connection:
        for table in tables(team):
            key = "version" if table == OPEN else "ns"
            assert not changed(connection, f"UPDATE plait.{table} SET {key} = {key}"), table
            assert not changed(connection, f"DELETE FROM plait.{table}"), table
            sample = f"SELECT to_jsonb(t) FROM plait.{table} AS t LIMIT 1"
            for (row,) in team.as_administrator(sample):
                assert not changed(connection, adding(table, row), [Jsonb(row)]), table
