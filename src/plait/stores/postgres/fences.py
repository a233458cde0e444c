"""The second fence: the server itself shows a member only the rows of its memories and labels.

The owner of the tables passes by: it sees all rows, and pays nothing. Members log in under their
own names, and hold exactly the rights of `grant`. Policies ask functions without arguments, each
once a statement, which know a member by the name of its login. So nothing that a member sends, not
even a statement of its own, shows what is not meant for it.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, LiteralString

import psycopg
from psycopg import errors, sql

from plait.errors import StoreError
from plait.stores.postgres import vacuuming
from plait.stores.postgres.pool import Patience
from plait.types.records import NamedTuple

# Who has joined. A row stays when somebody leaves, because its name tells whose the private rows
# are; it has no rights. Labels are computed, never stored: an owner could give himself any.
_MEMBERS: LiteralString = """
CREATE TABLE plait.members (
    ns bigint,
    member text COLLATE "C",
    role text COLLATE "C" NOT NULL CHECK (role IN ('reader', 'writer', 'owner', 'former')),
    projects text[] COLLATE "C" NOT NULL DEFAULT '{}',
    added_at bigint NOT NULL,
    label bigint NOT NULL DEFAULT 0 CHECK (label = 0),
    PRIMARY KEY (ns, member)
);
"""
# subtle: the name of the login, because inside of these functions the user is their owner.
_FUNCTION: LiteralString = """
CREATE FUNCTION plait.{name}() RETURNS bigint[] LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
SELECT coalesce(array_agg(m.ns), '{}') FROM plait.members AS m
WHERE m.member = session_user::text AND m.role IN ({roles}) $$;
REVOKE ALL ON FUNCTION plait.{name}() FROM PUBLIC;
"""
# As `plait.stores.postgres.labels.label_of`.
_LABEL: LiteralString = (
    "('x' || encode(substr(sha256(convert_to("
    "m.ns || chr(31) || '{kind}' || chr(31) || {name}, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint"
)
_OWN_LABELS: LiteralString = """
CREATE FUNCTION plait.my_labels() RETURNS bigint[] LANGUAGE sql STABLE SECURITY DEFINER
PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
SELECT array_agg(l.label) FROM (SELECT 0::bigint AS label
UNION SELECT {private} FROM plait.members AS m
WHERE m.member = session_user::text AND m.role <> 'former'
UNION SELECT {project} FROM plait.members AS m CROSS JOIN LATERAL unnest(m.projects) AS p (name)
WHERE m.member = session_user::text AND m.role <> 'former') AS l $$;
REVOKE ALL ON FUNCTION plait.my_labels() FROM PUBLIC;
"""
# Until version 4 it was asked first, see `_FIRST`. It took four times as long as a subscript.
_SEES: LiteralString = """
CREATE FUNCTION plait.sees(memories bigint[], labels bigint[], ns bigint, label bigint)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 0.0001 AS $$ BEGIN
RETURN ns OPERATOR(pg_catalog.=) ANY (memories) AND label OPERATOR(pg_catalog.=) ANY (labels);
END $$;
REVOKE ALL ON FUNCTION plait.sees(bigint[], bigint[], bigint, bigint) FROM PUBLIC;
"""
_ROLES: dict[LiteralString, LiteralString] = {
    "my_memories": "'reader', 'writer', 'owner'",
    "my_writable_memories": "'writer', 'owner'",
    "my_own_memories": "'owner'",
}
FUNCTIONS: tuple[LiteralString, ...] = tuple(
    f"{name}()" for name in (*_ROLES, "my_labels", "my_rows")
)

# Keys with the label: somebody else's row must neither be in the way nor betray itself by that.
# Not so the ids of documents, which are random, and the numbers of documents and passages.
_KEYS: dict[LiteralString, LiteralString] = {
    "histories": "ns, name, label",
    "tags": "ns, tag, document, label",
    "postings": "ns, term, ref, label) INCLUDE (times, length",
    "unembedded": "ns, generation, ref, label",
    "trash": "ns, id, label",
    "relations": "ns, number, label",
    "trashed_relations": "ns, number, label",
    "signals": "ns, ref, label",
    "signal_pairs": "ns, one, other, label",
    "embedding_cache": "ns, text_hash, label",
    "steps": "ns, document, place, label",
    "audit": "ns, number, label",
}
_UNIQUE_INDEXES: dict[LiteralString, tuple[LiteralString, LiteralString]] = {
    "documents_by_name": ("documents (ns, project, source, key, label)", "key IS NOT NULL"),
    "documents_by_turn": ("documents (ns, project, session, turn, label)", "turn IS NOT NULL"),
    "passages_by_id": ("passages (ns, id, label)", ""),
    "relations_current": ("relations (ns, source, target, type, label)", "valid_to IS NULL"),
}
# With the label in it, an index does not tell a member how many rows of others meet a condition.
_INDEXES: dict[LiteralString, tuple[LiteralString, LiteralString]] = {
    "documents_by_key": ("documents (ns, key, label)", "key IS NOT NULL"),
    "documents_by_path": ("documents (ns, path, label)", "kind = 'file'"),
    "documents_by_fingerprint": ("documents (ns, fingerprint, label)", "fingerprint IS NOT NULL"),
    "documents_by_parent": ("documents (ns, parent, label)", "parent IS NOT NULL"),
    "documents_by_session": ("documents (ns, session, label)", "session IS NOT NULL"),
    "documents_by_topic": ("documents (ns, topic, label)", "topic IS NOT NULL"),
    "documents_by_supersession": ("documents (ns, supersedes, label)", "supersedes IS NOT NULL"),
    "steps_by_file": ("steps (ns, file, label)", "file IS NOT NULL"),
    "steps_by_program": ("steps (ns, program, label)", "program IS NOT NULL"),
    "audit_by_document": ("audit (ns, document, label)", ""),
}
# Of the memory as a whole: their rows are always the team's.
SHARED: tuple[LiteralString, ...] = ("namespaces", "facts", "generations", "commits")
# Entries of the log have numbers of their own, of which a member sees only some.
_AUDITED: LiteralString = """
ALTER TABLE plait.audit ADD COLUMN member text COLLATE "C";
ALTER TABLE plait.namespaces ADD COLUMN audited bigint NOT NULL DEFAULT 0;
UPDATE plait.namespaces AS n SET audited = a.latest FROM (SELECT ns AS memory, max(number) AS latest
FROM plait.audit GROUP BY ns) AS a WHERE a.memory = n.ns;
"""
_ADD_LABEL: LiteralString = "\nALTER TABLE plait.{} ADD COLUMN label bigint NOT NULL DEFAULT 0{};"
_ADD_KEY: LiteralString = (
    "\nALTER TABLE plait.{0} DROP CONSTRAINT {0}_pkey, ADD CONSTRAINT {0}_pkey PRIMARY KEY ({1});"
)
_VECTORS_FENCED: LiteralString = "\nDO $$ BEGIN IF to_regclass('plait.embeddings') IS NOT NULL THEN"
_VECTORS_FENCED_END: LiteralString = "\nEND IF; END $$;\n"
VECTOR_KEY: LiteralString = "ns, generation, ref, label"


def _migration() -> LiteralString:
    step: LiteralString = ""
    for table in SHARED:
        step += _ADD_LABEL.format(table, " CHECK (label = 0)")
    for table in ("documents", "passages", *_KEYS):
        step += _ADD_LABEL.format(table, "")
    for table, key in _KEYS.items():
        step += _ADD_KEY.format(table, key)
    step += _VECTORS_FENCED
    step += _ADD_LABEL.format("embeddings", "").replace("COLUMN", "COLUMN IF NOT EXISTS")
    step += _ADD_KEY.format("embeddings", VECTOR_KEY)
    step += _VECTORS_FENCED_END
    for unique, indexes in ((" UNIQUE", _UNIQUE_INDEXES), ("", _INDEXES)):
        for name, (columns, condition) in indexes.items():
            where: LiteralString = f" WHERE {condition}" if condition else ""
            step += f"\nDROP INDEX plait.{name};"
            step += f"\nCREATE{unique} INDEX {name} ON plait.{columns}{where};"
    step += _AUDITED + _MEMBERS + _SEES
    for name, roles in _ROLES.items():
        step += _FUNCTION.replace("{name}", name).replace("{roles}", roles)
    private = _LABEL.replace("{kind}", "private").replace("{name}", "m.member")
    project = _LABEL.replace("{kind}", "project").replace("{name}", "p.name")
    return step + _OWN_LABELS.replace("{private}", private).replace("{project}", project)


PEOPLE: LiteralString = _migration()

# A memory and a label in few letters, in every row, and as the names of an object for those that a
# member sees. Two of them may have the same letters: other conditions decide, these come first.
_LETTERS: LiteralString = (
    "encode(substr(sha256(int8send({ns}) || int8send({label})), 1, 3), 'base64')"
)
# With the first member: whoever has none pays for none.
_ADD_FENCE: LiteralString = (
    'ALTER TABLE plait.{} ADD COLUMN fence text COLLATE "C" GENERATED ALWAYS AS ('
    + _LETTERS.replace("{ns}", "ns").replace("{label}", "label")
    + ") STORED"
)
# Searches by words read this index and nothing else.
_FENCED_KEY: LiteralString = _ADD_KEY.format("postings", _KEYS["postings"] + ", fence")
_OWN_ROWS: LiteralString = """
CREATE FUNCTION plait.my_rows() RETURNS jsonb LANGUAGE sql STABLE SECURITY DEFINER
PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
SELECT coalesce(jsonb_object_agg({letters}, 1), '{}') FROM plait.members AS m CROSS JOIN LATERAL (
SELECT 0::bigint AS label UNION SELECT {private}
UNION SELECT {project} FROM unnest(m.projects) AS p (name)) AS l
WHERE m.member = session_user::text AND m.role <> 'former' $$;
REVOKE ALL ON FUNCTION plait.my_rows() FROM PUBLIC;
DROP FUNCTION plait.sees(bigint[], bigint[], bigint, bigint) CASCADE;
"""


def _own_rows() -> LiteralString:
    private = _LABEL.replace("{kind}", "private").replace("{name}", "m.member")
    project = _LABEL.replace("{kind}", "project").replace("{name}", "p.name")
    letters = _LETTERS.replace("{ns}", "m.ns").replace("{label}", "l.label")
    step = _OWN_ROWS.replace("{letters}", letters)
    return step.replace("{private}", private).replace("{project}", project)


OWN_ROWS: LiteralString = _own_rows()


class Fence(NamedTuple):
    """What a member may see and change of one table: conditions on its rows, and rights.

    ``changing`` is also a condition on how a changed row looks afterwards, ``adding`` only on that.
    """

    seeing: str
    changing: str = "false"
    adding: str = ""
    removing: str = ""
    rights: tuple[str, ...] = ("SELECT", "INSERT", "UPDATE", "DELETE")


_MINE = "{0}.ns = ANY((SELECT plait.my_memories())::bigint[])"
_WRITABLE = "{0}.ns = ANY((SELECT plait.my_writable_memories())::bigint[])"
_OWNED = "{0}.ns = ANY((SELECT plait.my_own_memories())::bigint[])"
# First in every policy that shows rows, and asked before any condition of a statement, because the
# server takes a subscript to cost nothing: otherwise it would try conditions of the member's own
# first, on rows that are not for it, and `EXPLAIN` tells whether one held. The conditions beside it
# say the same, exactly, and in a way that finds an index.
_FIRST = "((SELECT plait.my_rows())::jsonb)[{0}.fence] IS NOT NULL AND "
_LABELLED = " AND {0}.label = ANY((SELECT plait.my_labels())::bigint[])"
# Only rows of something that this member sees, with the same label: nobody can slip a row of his
# own under somebody else's document, to be filled or counted with what is not his.
_OF_DOCUMENT = (
    " AND EXISTS (SELECT 1 FROM plait.documents AS d WHERE d.ns = {0}.ns "
    "AND d.place = {0}.document AND d.label = {0}.label)"
)
_OF_PASSAGE = (
    " AND EXISTS (SELECT 1 FROM plait.passages AS p WHERE p.ns = {0}.ns "
    "AND p.ref = {0}.ref AND p.label = {0}.label)"
)
# Between two, of which one is the whole team's, or both are of the same few.
_BETWEEN = (
    " AND EXISTS (SELECT 1 FROM plait.{1} AS a JOIN plait.{1} AS b ON b.ns = {{0}}.ns "
    "AND b.{2} = {{0}}.{4} WHERE a.ns = {{0}}.ns AND a.{2} = {{0}}.{3} "
    "AND a.label IN (0, {{0}}.label) AND b.label IN (0, {{0}}.label) "
    "AND {{0}}.label IN (a.label, b.label))"
)
_OF_TWO_DOCUMENTS = _BETWEEN.format("", "documents", "place", "source", "target")
_OF_TWO_PASSAGES = _BETWEEN.format("", "passages", "ref", "one", "other")


def _rows(more: str = "", check: str = "", **others: Any) -> Fence:
    """Return the fence of rows with labels; ``more`` holds for all, ``check`` for new ones."""
    return Fence(
        _MINE + _LABELLED + more,
        _WRITABLE + _LABELLED + more,
        _WRITABLE + _LABELLED + more + check,
        **others,
    )


TABLE_FENCES = {
    "namespaces": Fence(
        _MINE,
        _WRITABLE,
        rights=("SELECT", "UPDATE (passages, tokens, counter, refs, commits, audited)"),
    ),
    # A memory that another one is being moved into is refused, and may be dropped.
    "facts": _rows(check=" AND {0}.name <> 'moving'"),
    "generations": _rows(rights=("SELECT", "INSERT")),
    "commits": _rows(),
    # What a member keeps for itself; the administrator's own has the team's label.
    "histories": _rows(" AND {0}.label <> 0"),
    "embedding_cache": _rows(" AND {0}.label <> 0"),
    "documents": _rows(),
    "passages": _rows(check=_OF_DOCUMENT),
    "tags": _rows(check=_OF_DOCUMENT),
    "steps": _rows(check=_OF_DOCUMENT),
    "postings": _rows(check=_OF_PASSAGE),
    "unembedded": _rows(check=_OF_PASSAGE),
    "embeddings": _rows(check=_OF_PASSAGE),
    "signals": _rows(check=_OF_PASSAGE),
    "signal_pairs": _rows(check=_OF_TWO_PASSAGES),
    "relations": _rows(check=_OF_TWO_DOCUMENTS),
    "trashed_relations": _rows(),
    "trash": _rows(),
    # Under its own name only; and who became a member, nobody can invent or erase.
    "audit": Fence(
        _MINE + _LABELLED,
        adding=_WRITABLE
        + _LABELLED
        + " AND {0}.member = session_user::text AND ({0}.verb <> 'team' OR "
        + _OWNED
        + ")",
        removing=_WRITABLE + _LABELLED + " AND {0}.verb <> 'team'",
        rights=("SELECT", "INSERT", "DELETE"),
    ),
    # Nobody changes his own membership, so that an owner cannot leave a memory without one.
    "members": Fence(
        _MINE,
        _OWNED + " AND {0}.member <> session_user::text",
        removing="false",
        rights=("SELECT", "INSERT", "UPDATE (role, projects)"),
    ),
    "schema_version": Fence("true", rights=("SELECT",)),
}

_TABLES = (
    "SELECT c.relname, c.relrowsecurity FROM pg_class AS c "
    "WHERE c.relnamespace = 'plait'::regnamespace AND c.relkind IN ('r', 'p') ORDER BY 1"
)
_WITHOUT_COLUMN = (
    "SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'plait'::regnamespace "
    "AND c.relkind IN ('r', 'p') AND c.relname <> 'schema_version' AND NOT EXISTS (SELECT 1 "
    "FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'fence') ORDER BY 1"
)
_POLICIES = (
    "SELECT p.tablename, p.policyname FROM pg_policies AS p WHERE p.schemaname = 'plait' ORDER BY 1"
)
_MEMBER_ROLES = (
    "SELECT DISTINCT r.rolname FROM plait.members AS m JOIN pg_roles AS r ON r.rolname = m.member "
    "WHERE m.role <> 'former' ORDER BY 1"
)
_TRIGGERS = (
    "SELECT t.tgname FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid "
    "WHERE c.relnamespace = 'plait'::regnamespace AND NOT t.tgisinternal ORDER BY 1"
)
# Roles that have rights in the schema without owning it; without a name, the public.
_GRANTEES = (
    "SELECT DISTINCT r.rolname FROM (SELECT a.grantee, c.relowner AS owner "
    "FROM pg_class AS c, aclexplode(c.relacl) AS a WHERE c.relnamespace = 'plait'::regnamespace "
    "UNION ALL SELECT a.grantee, c.relowner FROM pg_class AS c JOIN pg_attribute AS t "
    "ON t.attrelid = c.oid, aclexplode(t.attacl) AS a WHERE c.relnamespace = 'plait'::regnamespace "
    "UNION ALL SELECT a.grantee, n.nspowner FROM pg_namespace AS n, aclexplode(n.nspacl) AS a "
    "WHERE n.nspname = 'plait') AS g LEFT JOIN pg_roles AS r ON r.oid = g.grantee "
    "WHERE g.grantee <> g.owner ORDER BY 1"
)
# The server counts the values of columns to plan by, and whoever may ask for a plan learns from its
# estimates which are frequent, or first and last, whoever sees them. So texts are not counted:
# statements are written so that they need it not. All members know the tables and columns here.
_KNOWN_TABLES = (*SHARED, "members", "schema_version")
_KNOWN_VALUES = (
    *("kind", "trust", "origin", "role", "status"),
    *("reason", "verb", "door", "member", "fence"),
)
_COUNTED_TEXTS = (
    "SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), o.collname "
    "FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid "
    "LEFT JOIN pg_collation AS o ON o.oid = a.attcollation AND o.collname <> 'default' "
    "WHERE c.relnamespace = 'plait'::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0 "
    "AND NOT a.attisdropped AND a.atttypid IN ('text'::regtype, 'text[]'::regtype, "
    "'bytea'::regtype) AND c.relname <> ALL(%s) AND a.attname <> ALL(%s) "
    "AND coalesce(a.attstattarget, -1) <> 0 ORDER BY 1, 2"
)
_Server = psycopg.Connection[Any]


def are_up(connection: _Server) -> bool:
    """Tell whether the server shows members only their rows."""
    listed = dict(connection.execute(_TABLES).fetchall())
    return bool(listed.get("documents"))


def put_up(connection: _Server) -> list[str]:
    """Fence every table, and give members their rights, in the caller's transaction.

    What is fenced already gets the same fences again: a newer plait may have changed them. Rights
    from before end, because some, such as TRUNCATE or TRIGGER, pass by every fence. Return the
    tables that were written anew: `clear` them after the transaction.

    Raises:
        StoreError: The schema has tables or triggers that are not plait's; they see all rows.
    """
    tables = [name for name, _ in connection.execute(_TABLES).fetchall()]
    triggers = [name for (name,) in connection.execute(_TRIGGERS).fetchall()]
    if foreign := sorted({*tables} - TABLE_FENCES.keys()) + triggers:
        raise StoreError(
            f"The schema plait has a table or trigger that is not plait's: {foreign[0]}. Remove it "
            "before the memory gets members, because it could show them everything.",
            code="foreign_table",
            subject=foreign[0],
        )
    for (grantee,) in connection.execute(_GRANTEES).fetchall():
        revoke(connection, grantee)
    for table, policy in connection.execute(_POLICIES).fetchall():
        _run(connection, "DROP POLICY {} ON plait.{}", policy, table)
    forget_counts(connection)
    unfenced = [name for (name,) in connection.execute(_WITHOUT_COLUMN).fetchall()]
    for table in unfenced:
        _run(connection, _ADD_FENCE, table)
    if "postings" in unfenced:
        connection.execute(_FENCED_KEY)
    for table in tables:
        _fence(connection, table, TABLE_FENCES[table])
    for (member,) in connection.execute(_MEMBER_ROLES).fetchall():
        grant(connection, member)
    return unfenced


def forget_counts(connection: _Server) -> None:
    """Let the server count no texts any more, and forget what it has counted."""
    known = (list(_KNOWN_TABLES), list(_KNOWN_VALUES))
    acts: dict[str, list[sql.Composable]] = {}
    for table, column, kind, collation in connection.execute(_COUNTED_TEXTS, known).fetchall():
        named = [sql.SQL("COLLATE {}").format(sql.Identifier(collation))] if collation else []
        # subtle: who changes the type of a column, be it to the same, drops what was counted of it.
        typed = sql.SQL(" ").join([sql.SQL(kind), *named])
        part = sql.SQL("ALTER COLUMN {0} SET STATISTICS 0, ALTER COLUMN {0} TYPE {1}")
        acts.setdefault(table, []).append(part.format(sql.Identifier(column), typed))
    for table, parts in acts.items():
        statement = sql.SQL("ALTER TABLE plait.{} {}")
        connection.execute(statement.format(sql.Identifier(table), sql.SQL(", ").join(parts)))


def clear(connection: Any, tables: Sequence[str], timeout: float) -> None:
    """Vacuum tables that were written anew, which the server does not do by itself.

    Until then a search by words looks up every row twice. Nothing else depends on it.
    """
    patience = Patience(timeout)
    with suppress(errors.QueryCanceled):
        for table in tables:
            vacuuming.vacuum(connection, table, patience=patience)


def _fence(connection: _Server, table: str, fence: Fence) -> None:
    first = "" if table == "schema_version" else _FIRST
    seeing, changing = ((first + part).format(table) for part in (fence.seeing, fence.changing))
    adding = (fence.adding or fence.changing).format(table)
    removing = (first + (fence.removing or fence.changing)).format(table)
    for name, action, condition in (
        ("seeing", "SELECT", f"USING ({seeing})"),
        ("adding", "INSERT", f"WITH CHECK ({adding})"),
        ("changing", "UPDATE", f"USING ({changing}) WITH CHECK ({adding})"),
        ("removing", "DELETE", f"USING ({removing})"),
    ):
        _run(
            connection,
            f"CREATE POLICY {name} ON plait.{{}} FOR {action} {condition}",
            table,
        )
    _run(connection, "ALTER TABLE plait.{} ENABLE ROW LEVEL SECURITY", table)


def grant(connection: _Server, member: str) -> None:
    """Give a role of the server the rights that every member has; rows are the fences' affair."""
    _run(connection, "GRANT USAGE ON SCHEMA plait TO {}", member)
    for name in FUNCTIONS:
        _run(connection, f"GRANT EXECUTE ON FUNCTION plait.{name} TO {{}}", member)
    for (table,) in _named(connection, _TABLES):
        rights = ", ".join(TABLE_FENCES[table].rights)
        _run(connection, f"GRANT {rights} ON plait.{{}} TO {{}}", table, member)


def revoke(connection: _Server, member: str | None) -> None:
    """Take all rights from a role; without a name, from the public."""
    whom: Any = sql.SQL("PUBLIC") if member is None else sql.Identifier(member)
    for things in ("ALL TABLES IN SCHEMA plait", "SCHEMA plait"):
        connection.execute(sql.SQL("REVOKE ALL ON {} FROM {}").format(sql.SQL(things), whom))
    for name in FUNCTIONS:
        function = sql.SQL("REVOKE ALL ON FUNCTION plait.{} FROM {}")
        connection.execute(function.format(sql.SQL(name), whom))


def _named(connection: _Server, statement: LiteralString) -> Sequence[tuple[str]]:
    return [(row[0],) for row in connection.execute(statement).fetchall()]


def _run(connection: _Server, statement: Any, *names: str) -> None:
    connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
