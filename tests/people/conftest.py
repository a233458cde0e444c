"""A memory with members: roles of the test server that log in under their own names."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

import psycopg
import pytest

from plait import Memory
from plait.stores.postgres.connection import number_of
from plait.types.ids import new_id
from plait.types.visibility import MemberRole
from tests.servers import need

Rows = list[tuple[Any, ...]]


class Team:
    """A database of its own, one memory in it, and roles of the server."""

    def __init__(self, server: str, database: str, namespace: str | None = None) -> None:
        self.database = database
        self.namespace = namespace or new_id()
        self.ns = number_of(self.namespace)
        self._server = server
        self.people: list[str] = []

    def person(self, name: str) -> str:
        """Make a role that may log in; return its name, which no other test uses."""
        role = f"{name}_{new_id()}"
        self.as_administrator(f"CREATE ROLE {role} LOGIN")
        self.people.append(role)
        return role

    def dsn(self, role: str | None = None) -> str:
        """The address of the database, for a role or for the administrator."""
        options = psycopg.conninfo.conninfo_to_dict(self._server)
        host, port = options.get("host", ""), options.get("port", "")
        user = role or options["user"]
        place = f"postgresql://{user}@/{self.database}?host={quote(str(host), safe='')}"
        return f"{place}&port={port}" if port else place

    def address(self, role: str | None = None, namespace: str | None = None) -> str:
        return f"{self.dsn(role)}&namespace={namespace or self.namespace}"

    def memory(self, role: str | None = None, **options: Any) -> Memory:
        """Open the memory; without a role, as the administrator."""
        chosen = {"embedder": "none", "project": None, **options}
        return Memory.open(self.address(role), **chosen)

    def member(
        self, name: str, role: MemberRole = "writer", *, projects: Sequence[str] = ()
    ) -> str:
        """Make a role, and a member of it."""
        person = self.person(name)
        with self.memory() as memory:
            memory.team.add(person, role=role, projects=projects)
        return person

    def as_role(self, role: str, statement: str, values: Any = None) -> Rows:
        """Run a statement in a session of a role, past plait."""
        with psycopg.connect(self.dsn(role)) as connection:
            return run(connection, statement, values)

    def as_administrator(self, statement: str, values: Any = None) -> Rows:
        with psycopg.connect(self.dsn()) as connection:
            return run(connection, statement, values)


def run(connection: "psycopg.Connection[Any]", statement: str, values: Any = None) -> Rows:
    """The rows of a statement; for one without any, how many it has changed."""
    cursor = connection.execute(statement.encode(), values)
    return cursor.fetchall() if cursor.description else [(cursor.rowcount,)]


class Trio(NamedTuple):
    """A memory with an owner, a writer and a reader."""

    team: Team
    owner: str
    writer: str
    reader: str


@contextmanager
def made_team(like: Team | None = None) -> Iterator[Team]:
    """A new database, perhaps a copy of another one; with the roles that are made for it."""
    server = need()
    database = f"people_{new_id()}"
    with psycopg.connect(server, autocommit=True) as connection:
        template = "" if like is None else f" TEMPLATE {like.database}"
        connection.execute(f"CREATE DATABASE {database}{template}".encode())
        made = Team(server, database, None if like is None else like.namespace)
        try:
            yield made
        finally:
            connection.execute(f"DROP DATABASE {database} WITH (FORCE)".encode())
            for role in made.people:
                connection.execute(f"DROP ROLE {role}".encode())


@pytest.fixture(scope="session")
def empty_team() -> Iterator[Team]:
    """A memory without members, to be copied: making its tables takes much longer."""
    with made_team() as made:
        made.memory().close()
        yield made


@pytest.fixture(scope="session")
def three() -> Iterator[Trio]:
    """A memory with three members, to be copied. No test may change their roles."""
    with made_team() as made:
        owner = made.member("olga", "owner")
        yield Trio(made, owner, made.member("wim", "writer"), made.member("rita", "reader"))


@pytest.fixture
def team(request: pytest.FixtureRequest) -> Iterator[Team]:
    has_members = "trio" in request.fixturenames
    like: Team = (
        request.getfixturevalue("three").team
        if has_members
        else request.getfixturevalue("empty_team")
    )
    with made_team(like) as made:
        yield made


@pytest.fixture
def trio(team: Team, three: Trio) -> Trio:
    return three._replace(team=team)


Opened = Callable[[str | None], Memory]


@pytest.fixture
def opened(team: Team) -> Iterator[Opened]:
    """Opens the memory as a role, and closes it at the end."""
    memories: list[Memory] = []

    def open_as(role: str | None) -> Memory:
        memories.append(team.memory(role))
        return memories[-1]

    yield open_as
    for memory in memories:
        memory.close()
