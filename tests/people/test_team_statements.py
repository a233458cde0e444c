"""What is sent about members names their memory, but for what is of the whole server."""

from pathlib import Path

import pytest

from plait.exporting.migrating import migrate
from tests.people.conftest import Team
from tests.postgres.statements import Sent, everything_wrong, recorded

# Rights, fences and what the server counts are of the tables, whosever rows are in them; tables
# with fences are never spread over several servers.
OF_THE_TABLES = (
    *("ALTER TABLE", "CREATE POLICY", "DROP POLICY", "GRANT", "REVOKE", "CREATE OR REPLACE"),
    *("DROP FUNCTION", "CREATE FUNCTION"),
)
# Whoever is dismissed here may be a member elsewhere, and keeps the right to enter.
OF_ALL_MEMORIES = (
    "SELECT 1 FROM plait.members WHERE member = %s",
    "SELECT DISTINCT r.rolname FROM plait.members",
)
# The plan of this has a scan of the server's roles, which have no memory.
WITH_ROLES = "SELECT m.member FROM plait.members AS m JOIN pg_roles"


def test_every_statement_about_members_names_their_memory(
    team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = [team.person(name) for name in ("ana", "ben")]
    sent: dict[str, Sent] = {}
    with recorded(monkeypatch, sent):
        with team.memory() as memory:
            memory.store("Plums for all", key="plums")
            for person in people:
                memory.team.add(person, projects=["shop"])
            memory.team.role(people[0], "owner")
            assert len(memory.team.members()) == len(people)
        with team.memory(people[0]) as memory:
            memory.store("Mine alone", key="diary", visibility="private")
            memory.team.role(people[1], "reader")
            memory.team.remove(people[1])
        with team.memory() as memory:
            memory.team.add(people[1])
            memory.team.remove(people[1])
        migrate(team.address(), team.address(namespace="copy"))
    ours = {sql: row for sql, row in sent.items() if "plait." in sql}
    assert all("m.ns = %(ns)s" in sql for sql in ours if sql.startswith(WITH_ROLES))
    others = (*OF_THE_TABLES, *OF_ALL_MEMORIES, WITH_ROLES)
    own = {sql: row for sql, row in ours.items() if not sql.startswith(others)}
    assert everything_wrong(own, team.dsn()) == {}
    assert sum("plait.members" in sql for sql in own) > 5
