"""What a server and a database must be for plait: new enough, of all characters, and safe."""

from collections.abc import Sequence

from plait.errors import StoreError
from plait.stores.postgres.connection import Channel, SQLRow

OLDEST_SERVER = 15
# Schemas of the search path in which others may create something, and who; the administrator may.
# The statements of this package mean functions and operators of PostgreSQL. One of the same name in
# such a schema is called instead if its types fit better, with all rights of whoever runs the
# statement: a member could read as another one, or as the administrator, what it may not see
# (https://wiki.postgresql.org/wiki/A_Guide_to_CVE-2018-1058).
# subtle: types are exact and functions have their schema, so that this finds the server's own.
OPEN_SCHEMAS = (
    "SELECT pg_catalog.quote_ident(n.nspname::text), CASE a.grantee WHEN 0::oid THEN 'PUBLIC' "
    "ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)::text) END "
    "FROM pg_catalog.pg_namespace AS n CROSS JOIN LATERAL pg_catalog.aclexplode(n.nspacl) AS a "
    "WHERE n.nspname = ANY(pg_catalog.current_schemas(false)) "
    "AND a.privilege_type = 'CREATE'::text AND a.grantee <> n.nspowner "
    "AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles AS r WHERE r.oid = a.grantee "
    "AND (r.rolsuper OR r.rolname = current_user OR r.oid = (SELECT o.nspowner "
    "FROM pg_catalog.pg_namespace AS o WHERE o.nspname = 'plait'::name)))"
)
# The same where members see only their rows.
OPEN_TO_MEMBERS = (
    f"{OPEN_SCHEMAS} AND EXISTS (SELECT 1 FROM pg_catalog.pg_class AS c "  # noqa: S608
    "JOIN pg_catalog.pg_namespace AS p ON p.oid = c.relnamespace "
    "WHERE p.nspname = 'plait'::name AND c.relname = 'documents'::name AND c.relrowsecurity)"
)


def refuse_old_server(session: Channel, path: str) -> None:
    """Refuse a server that is too old.

    Raises:
        StoreError: It is.
    """
    number = session.connection.info.server_version // 10_000
    if number < OLDEST_SERVER:
        raise StoreError(
            f"{path} is on PostgreSQL {number}; plait needs {OLDEST_SERVER} or newer. Upgrade the "
            "server, or choose another one.",
            code="old_server",
            subject=path,
        )


def refuse_few_characters(session: Channel, path: str) -> None:
    """Refuse a database that cannot keep every character.

    Raises:
        StoreError: It cannot.
    """
    encoding = session.connection.info.parameter_status("server_encoding")
    if encoding not in (None, "UTF8"):
        raise StoreError(
            f"The database of {path} has the encoding {encoding}, which lacks most characters; "
            "plait needs UTF8. Create another one, in SQL: CREATE DATABASE name ENCODING 'UTF8' "
            "TEMPLATE template0;",
            code="database_encoding",
            subject=path,
        )


def refuse_open_schemas(listed: Sequence[SQLRow], path: str) -> None:
    """Refuse a search path that leads to what others may have made.

    Raises:
        StoreError: It does.
    """
    if listed:
        schema, grantee = listed[0]
        who = "every role" if grantee == "PUBLIC" else f"the role {grantee}"
        raise StoreError(
            f"In the schema {schema} of {path}, {who} may create functions, by which a member "
            "could act as another one who searches that schema. In SQL: REVOKE CREATE ON SCHEMA "
            f"{schema} FROM {grantee}; then drop what they made there. Or, for each member and the "
            "administrator: ALTER ROLE name SET search_path = '';",
            code="open_search_path",
            subject=schema,
        )
