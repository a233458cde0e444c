"""Who the members of a memory are: roles of the server, added and changed by owners.

The administrator is the role that owns plait's tables. It alone can fence them and give rights to
a role of the server; afterwards owners make it a member of their memories.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from psycopg import errors

from plait.errors import NotFound, StoreError, UsageError, advise
from plait.stores.postgres import cache, distributing, fences
from plait.stores.postgres.audit import Recorder
from plait.stores.postgres.commits import Write, holding_all
from plait.stores.postgres.connection import Channel, Connections
from plait.stores.postgres.labels import Membership
from plait.stores.postgres.requirements import OPEN_SCHEMAS, refuse_open_schemas
from plait.text.normal_form import composed
from plait.types.audit import acting
from plait.types.visibility import MemberRole, TeamMember

_LISTED = (
    "SELECT m.member, m.role, m.projects, m.added_at FROM plait.members AS m "
    "WHERE m.ns = %(ns)s AND m.role <> 'former' ORDER BY m.member"
)
_ADD = (
    "INSERT INTO plait.members (ns, member, role, projects, added_at) "
    "VALUES (%(ns)s, %(member)s, %(role)s, %(projects)s, %(now)s) "
    "ON CONFLICT (ns, member) DO UPDATE SET role = excluded.role, projects = excluded.projects"
)
_IS_ROLE = "SELECT 1 FROM pg_roles WHERE rolname = %s"
_MAY_ENTER = (
    "SELECT has_schema_privilege(%(member)s, 'plait', 'USAGE') "
    "AND has_table_privilege(%(member)s, 'plait.documents', 'INSERT')"
)
_IS_ELSEWHERE = "SELECT 1 FROM plait.members WHERE member = %s AND role <> 'former' LIMIT 1"
# What a membership is that has ended.
_FORMER = "former"


def members(session: Channel) -> list[TeamMember]:
    """Return the members of a memory, by name."""
    listed = session.rows(_LISTED)
    return [TeamMember(name, role, tuple(projects), at) for name, role, projects, at in listed]


def admit(
    connections: Connections,
    name: str,
    role: MemberRole | None,
    projects: Sequence[str],
    clock: Callable[[], int],
) -> TeamMember:
    """Make a role of the server a member, or change what it is; return it as it is now.

    Without ``role`` a member keeps its own, and a new one is a writer. Projects are added.

    Raises:
        StoreError: The caller is neither an owner nor the administrator, or may not give rights;
            or others may add functions to a schema that is searched for them.
        UsageError: It is the caller, or the last owner, or the tables are spread.
        NotFound: The server has no such role.
    """
    _refuse_others(connections)
    _let_in(connections, name)
    with connections.writing() as session:
        known = {member.name: member for member in members(session)}
        old = known.get(name)
        given = dict.fromkeys([*(old.projects if old else ()), *map(composed, projects)])
        new = TeamMember(
            name,
            role or (old.role if old else "writer"),
            tuple(given),
            old.added_at if old else clock(),
        )
        _check(session.membership, name, known, stays_owner=new.role == "owner")
        _write(session, new, new.role, clock())
        if not known:
            # With members there is no cache, and no purge of theirs would reach these.
            cache.forget_answers(session)
        has_rights = session.value(_MAY_ENTER, member=name)
    if not has_rights:  # it was dismissed from its last other memory meanwhile
        _let_in(connections, name)
    return new


def change_role(
    connections: Connections, name: str, role: MemberRole, clock: Callable[[], int]
) -> TeamMember:
    """Give a member another role.

    Raises:
        StoreError: The caller is neither an owner nor the administrator.
        UsageError: It is the caller, or the last owner.
        NotFound: It is no member.
    """
    _refuse_others(connections)
    with connections.writing() as session:
        known = {member.name: member for member in members(session)}
        _check(session.membership, name, known, stays_owner=role == "owner")
        if name not in known:
            raise _unknown(name, connections.path)
        new = known[name]._replace(role=role)
        _write(session, new, role, clock())
    return new


def dismiss(connections: Connections, name: str, clock: Callable[[], int]) -> TeamMember:
    """End a membership; what only this member sees stays, for when it is added again.

    Raises:
        StoreError: The caller is neither an owner nor the administrator.
        UsageError: It is the caller, or the last owner of a memory with other members.
        NotFound: It is no member.
    """
    _refuse_others(connections)
    with connections.writing() as session:
        known = {member.name: member for member in members(session)}
        alone = [*known] == [name]
        _check(session.membership, name, known, stays_owner=alone)
        if name not in known:
            raise _unknown(name, connections.path)
        _write(session, known[name]._replace(projects=()), _FORMER, clock())
    if connections.membership.is_administrator:
        with _alone(connections) as connection:
            if not _exists(connection, _IS_ELSEWHERE, name) and _exists(connection, _IS_ROLE, name):
                fences.revoke(connection, name)
    return known[name]


def _write(session: Write, member: TeamMember, role: str, now: int) -> None:
    projects = list(member.projects)
    session.execute(_ADD, member=member.name, role=role, projects=projects, now=now)
    recorder = Recorder(session)
    recorder.join(member.name, role, projects)
    with acting("team"):
        recorder.finish(now)


def _refuse_others(connections: Connections) -> None:
    membership = connections.recognise()
    if membership.role not in (None, "owner"):
        raise StoreError(
            f"{membership.name} is a {membership.role} of this memory; only its owners change who "
            "its members are.",
            code="not_an_owner",
            subject=membership.name,
        )


def _check(
    membership: Membership, name: str, known: dict[str, TeamMember], *, stays_owner: bool
) -> None:
    if not membership.is_administrator and name == membership.name:
        raise UsageError(
            f"You are {name}, and nobody changes their own membership. Another owner can, or "
            "whoever administers the database.",
            code="own_membership",
            subject=name,
        )
    owners = [member.name for member in known.values() if member.role == "owner"]
    if owners == [name] and not stays_owner:
        raise UsageError(
            f"{name} is the last owner of this memory. Make somebody else an owner first.",
            code="last_owner",
            subject=name,
        )


def _unknown(name: str, path: str) -> NotFound:
    return NotFound(
        f"{name} is not a member of the memory {path}.",
        code="unknown_member",
        subject=name,
        advice=advise("add_member", member=name),
    )


def _let_in(connections: Connections, name: str) -> None:
    """Fence the tables, and give a role of the server the rights that every member has."""
    path = connections.path
    with connections.lent() as session:
        connection = session.connection
        if distributing.is_spread(connection):
            raise UsageError(
                f"The tables of {path} are spread over several servers, and cannot have members: "
                "the fences between them work on one server only.",
                code="spread_without_members",
                subject=path,
            )
        if not _exists(connection, _IS_ROLE, name):
            raise NotFound(
                f"The server of {path} has no role named {name}.",
                code="unknown_role",
                subject=name,
                advice=advise("create_role", member=name),
            )
        if not session.membership.is_administrator:
            if not session.value(_MAY_ENTER, member=name):
                raise _not_granted(name, path)
            return
        refuse_open_schemas(session.rows(OPEN_SCHEMAS), path)
    rewritten: list[str] = []
    try:
        with _alone(connections) as connection:
            if fences.are_up(connection):
                fences.forget_counts(connection)
            else:
                rewritten = fences.put_up(connection)
            fences.grant(connection, name)
    except StoreError as error:
        if isinstance(error.__cause__, errors.InsufficientPrivilege):
            raise _not_granted(name, path) from None
        raise
    with connections.lent() as session:
        fences.clear(session.connection, rewritten, connections.timeout)


@contextmanager
def _alone(connections: Connections) -> Iterator[Any]:
    """Begin a transaction about all memories, in which nobody writes or changes rights."""
    with connections.lent() as session, holding_all(session.connection, connections.timeout):
        yield session.connection


def _not_granted(name: str, path: str) -> StoreError:
    return StoreError(
        f"{name} may not use the tables of {path} yet, and only their owner can allow it.",
        code="needs_administrator",
        subject=name,
        advice=advise("ask_administrator", member=name),
    )


def _exists(connection: Any, statement: str, name: str) -> bool:
    return connection.execute(statement, (name,)).fetchone() is not None
