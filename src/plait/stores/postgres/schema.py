"""The tables, and how a database gets them: each step once, under a lock that all versions know.

Every key begins with ``ns``, the number of a memory. There is no sequence, trigger or foreign key:
numbers come from the memory's own row, which a writer holds anyway, and deletes name what they
delete. So the same statements run where the tables are spread over several servers.
"""

from typing import LiteralString

from psycopg import errors

from plait.errors import StoreError, StoreReadOnly, advise
from plait.stores.postgres import distributing, fences
from plait.stores.postgres.commits import holding_all
from plait.stores.postgres.connection import (
    SCHEMA_VERSION,
    VERSION,
    Channel,
    Connections,
    located,
)
from plait.stores.postgres.labels import WHO, Membership, not_a_member, recognised
from plait.stores.postgres.pool import Connection
from plait.stores.postgres.requirements import (
    OPEN_TO_MEMBERS,
    refuse_few_characters,
    refuse_old_server,
    refuse_open_schemas,
)
from plait.stores.sqlite.analysis import ANALYZER

VECTOR_TABLE = "plait.embeddings"

_TABLES: LiteralString = """
CREATE SCHEMA IF NOT EXISTS plait;
CREATE TABLE plait.schema_version (version integer NOT NULL);

-- One row a memory. Writers lock it; it counts passages and their words, and gives out numbers.
CREATE TABLE plait.namespaces (
    ns bigint PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    analyzer text NOT NULL,
    passages bigint NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    counter bigint NOT NULL DEFAULT 0,
    refs bigint NOT NULL DEFAULT 0
);

-- Values about a memory; apart from them, what was imported of agents' histories.
CREATE TABLE plait.facts (
    ns bigint, name text COLLATE "C", value text NOT NULL, PRIMARY KEY (ns, name)
);
CREATE TABLE plait.histories (
    ns bigint, name text COLLATE "C", value text NOT NULL, PRIMARY KEY (ns, name)
);

CREATE TABLE plait.documents (
    ns bigint,
    place bigint NOT NULL,
    id text COLLATE "C",
    key text COLLATE "C",
    kind text COLLATE "C" NOT NULL,
    title text NOT NULL,
    preface text NOT NULL,
    path text COLLATE "C",
    source text COLLATE "C" NOT NULL,
    project text COLLATE "C" NOT NULL,
    memory_type text COLLATE "C",
    type text COLLATE "C",
    tags text NOT NULL,
    metadata text NOT NULL,
    summary text,
    origin text COLLATE "C" NOT NULL,
    trust text COLLATE "C" NOT NULL,
    session text COLLATE "C",
    parent text COLLATE "C",
    topic text COLLATE "C",
    supersedes text COLLATE "C",
    importance double precision,
    pinned bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    event_at bigint NOT NULL,
    valid_from bigint,
    valid_to bigint,
    size bigint,
    mtime bigint,
    sha256 text,
    indexed_at bigint NOT NULL,
    chunk_count bigint NOT NULL,
    role text,
    turn bigint,
    status text,
    fingerprint bytea,
    PRIMARY KEY (ns, id)
);
CREATE UNIQUE INDEX documents_by_place ON plait.documents (ns, place);
CREATE UNIQUE INDEX documents_by_name ON plait.documents (ns, project, source, key)
WHERE key IS NOT NULL;
CREATE UNIQUE INDEX documents_by_turn ON plait.documents (ns, project, session, turn)
WHERE turn IS NOT NULL;
CREATE INDEX documents_by_key ON plait.documents (ns, key) WHERE key IS NOT NULL;
CREATE INDEX documents_by_path ON plait.documents (ns, path) WHERE kind = 'file';
CREATE INDEX documents_by_event ON plait.documents (ns, event_at, id);
CREATE INDEX documents_by_indexed ON plait.documents (ns, indexed_at);
CREATE INDEX documents_by_fingerprint ON plait.documents (ns, fingerprint)
WHERE fingerprint IS NOT NULL;
CREATE INDEX documents_by_parent ON plait.documents (ns, parent) WHERE parent IS NOT NULL;
CREATE INDEX documents_by_session ON plait.documents (ns, session) WHERE session IS NOT NULL;
CREATE INDEX documents_by_topic ON plait.documents (ns, topic) WHERE topic IS NOT NULL;
CREATE INDEX documents_by_supersession ON plait.documents (ns, supersedes)
WHERE supersedes IS NOT NULL;
CREATE INDEX documents_ending ON plait.documents (ns, valid_to) WHERE valid_to IS NOT NULL;
CREATE INDEX documents_beginning ON plait.documents (ns, valid_from) WHERE valid_from IS NOT NULL;

CREATE TABLE plait.tags (
    ns bigint, tag text COLLATE "C", document bigint, PRIMARY KEY (ns, tag, document)
);
CREATE INDEX tags_by_document ON plait.tags (ns, document);

-- ``terms`` names the postings of a passage, each once; ``length`` counts all its words.
CREATE TABLE plait.passages (
    ns bigint,
    ref bigint,
    id text COLLATE "C" NOT NULL,
    document bigint NOT NULL,
    ordinal bigint NOT NULL,
    start bigint NOT NULL,
    start_line bigint NOT NULL,
    end_line bigint NOT NULL,
    heading text NOT NULL,
    text text NOT NULL,
    title_terms text NOT NULL,
    hash bytea NOT NULL,
    length bigint NOT NULL,
    terms text[] COLLATE "C" NOT NULL,
    PRIMARY KEY (ns, ref)
);
CREATE UNIQUE INDEX passages_by_id ON plait.passages (ns, id);
CREATE INDEX passages_by_document ON plait.passages (ns, document, ordinal);

-- ``times`` counts a term, weighted by column; ``places`` are its columns and positions.
CREATE TABLE plait.postings (
    ns bigint,
    term text COLLATE "C",
    ref bigint,
    times real NOT NULL,
    length integer NOT NULL,
    places integer[] NOT NULL,
    PRIMARY KEY (ns, term, ref) INCLUDE (times, length)
);

-- Vectors of one space. Exactly one generation answers searches; another may be filling up.
CREATE TABLE plait.generations (
    ns bigint,
    id bigint,
    space text NOT NULL,
    dims bigint NOT NULL,
    current bigint NOT NULL,
    canary bytea,
    PRIMARY KEY (ns, id)
);
CREATE TABLE plait.unembedded (
    ns bigint,
    generation bigint,
    ref bigint,
    reason text NOT NULL CHECK (reason IN ('pending', 'declined')),
    PRIMARY KEY (ns, generation, ref)
);

CREATE TABLE plait.trash (
    ns bigint,
    id text COLLATE "C",
    deleted_at bigint NOT NULL,
    batch text COLLATE "C" NOT NULL,
    document text NOT NULL,
    bare text NOT NULL,
    parent text COLLATE "C",
    version_of text COLLATE "C",
    trust text COLLATE "C" NOT NULL,
    PRIMARY KEY (ns, id)
);
CREATE INDEX trash_by_time ON plait.trash (ns, deleted_at);

CREATE TABLE plait.relations (
    ns bigint,
    number bigint,
    source bigint NOT NULL,
    target bigint NOT NULL,
    type text COLLATE "C" NOT NULL,
    context text,
    created_at bigint NOT NULL,
    valid_from bigint,
    valid_to bigint,
    PRIMARY KEY (ns, number)
);
CREATE UNIQUE INDEX relations_current ON plait.relations (ns, source, target, type)
WHERE valid_to IS NULL;
CREATE INDEX relations_by_target ON plait.relations (ns, target);
CREATE INDEX relations_by_source ON plait.relations (ns, source);
CREATE TABLE plait.trashed_relations (
    ns bigint,
    number bigint,
    source text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    context text,
    created_at bigint NOT NULL,
    valid_from bigint,
    valid_to bigint,
    deleted_at bigint NOT NULL,
    PRIMARY KEY (ns, number)
);

CREATE TABLE plait.signals (
    ns bigint,
    ref bigint,
    reads bigint NOT NULL,
    days bigint NOT NULL,
    last_day bigint NOT NULL,
    last_read bigint NOT NULL,
    good bigint NOT NULL DEFAULT 0,
    wrong bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (ns, ref)
);
CREATE TABLE plait.signal_pairs (
    ns bigint,
    one bigint,
    other bigint,
    times bigint NOT NULL,
    last_read bigint NOT NULL,
    PRIMARY KEY (ns, one, other)
);
CREATE INDEX signal_pairs_by_other ON plait.signal_pairs (ns, other);

CREATE TABLE plait.embedding_cache (
    ns bigint,
    text_hash text COLLATE "C",
    embedding bytea NOT NULL,
    created_at bigint NOT NULL,
    accessed_at bigint NOT NULL,
    PRIMARY KEY (ns, text_hash)
);
CREATE INDEX embedding_cache_by_use ON plait.embedding_cache (ns, accessed_at, text_hash);

CREATE TABLE plait.steps (
    ns bigint,
    document bigint,
    place bigint,
    tool text NOT NULL,
    folder text,
    file text COLLATE "C",
    command text,
    program text COLLATE "C",
    exit bigint,
    error text,
    failure bigint,
    PRIMARY KEY (ns, document, place)
);
CREATE INDEX steps_by_file ON plait.steps (ns, file) WHERE file IS NOT NULL;
CREATE INDEX steps_by_program ON plait.steps (ns, program) WHERE program IS NOT NULL;
CREATE INDEX steps_by_failure ON plait.steps (ns, failure) WHERE failure IS NOT NULL;

CREATE TABLE plait.audit (
    ns bigint,
    number bigint,
    at bigint NOT NULL,
    origin text COLLATE "C" NOT NULL,
    door text COLLATE "C" NOT NULL,
    verb text COLLATE "C" NOT NULL,
    session text,
    project text COLLATE "C" NOT NULL,
    document text COLLATE "C" NOT NULL,
    before bytea,
    after bytea,
    PRIMARY KEY (ns, number)
);
CREATE INDEX audit_by_document ON plait.audit (ns, document);
"""

# How many writes a memory has had, and which was the last of each writer: whoever lost the answer
# to a commit finds out by these whether it has happened.
_COMMITS: LiteralString = """
ALTER TABLE plait.namespaces ADD COLUMN commits bigint NOT NULL DEFAULT 0;
CREATE TABLE plait.commits (
    ns bigint, writer bigint, number bigint NOT NULL, PRIMARY KEY (ns, writer)
);
"""

# The newest schema has all of them; an older one gets those that it lacks.
MIGRATIONS: tuple[LiteralString, ...] = (_TABLES, _COMMITS, fences.PEOPLE, fences.OWN_ROWS)

# Rows of int8 numbers, which half precision holds exactly. Apart from the passages: a row that is
# too long for a page is kept elsewhere, and reading it takes six times as long.
_VECTORS: LiteralString = """
CREATE TABLE IF NOT EXISTS plait.embeddings (
    ns bigint, generation bigint, ref bigint, embedding halfvec NOT NULL,
    label bigint NOT NULL DEFAULT 0, PRIMARY KEY (ns, generation, ref, label)
)
"""
# The schema of the extension only if it is none of those in which this role looks for types.
_VECTORS_THERE = (
    "SELECT to_regclass(%(name)s), CASE WHEN to_regtype('halfvec') IS NULL THEN ("
    "SELECT quote_ident(n.nspname) FROM pg_extension AS e JOIN pg_namespace AS n "
    "ON n.oid = e.extnamespace WHERE e.extname = 'vector') END"
)
# A database that was restored without the extension has lost its vectors, not what tells of them.
_AWAIT_VECTORS = (
    "INSERT INTO plait.unembedded (ns, generation, ref, reason, label) "
    "SELECT g.ns, g.id, p.ref, 'pending', p.label FROM plait.generations AS g "
    "JOIN plait.passages AS p ON p.ns = g.ns ON CONFLICT DO NOTHING"
)
# Whoever may not make the table must not wait for a lock to be told so at every opening.
_MAY_ADD_VECTORS = (
    "SELECT EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'vector') "
    "AND has_schema_privilege('plait', 'CREATE') "
    "AND current_setting('transaction_read_only') = 'off'"
)
# The first tables that can have members.
FIRST_WITH_PEOPLE = 3
_ADD_NAMESPACE = (
    "INSERT INTO plait.namespaces (ns, name, analyzer) VALUES (%(ns)s, %(name)s, %(analyzer)s) "
    "ON CONFLICT (ns) DO NOTHING"
)


def prepare(connections: Connections, namespace: str, *, create: bool, read_only: bool) -> bool:
    """Give a database plait's tables and a memory's row, where they lack; tell if it has vectors.

    Raises:
        SchemaTooNew: A newer plait made the tables.
        StoreError: There is no such memory, and it is not to be created.
        StoreReadOnly: An older plait made the tables, and nothing is to be changed.
    """
    with connections.lent() as session:
        refuse_old_server(session, connections.path)
        refuse_few_characters(session, connections.path)
        version = _version(session, connections.path)
        connections.refuse_newer(version)
        known = _is_known(session, namespace, connections.path) if version else False
        if version >= FIRST_WITH_PEOPLE:
            connections.joined_as(_membership(session, connections.path, known=known))
        if not known and not create:
            raise StoreError(
                f"There is no memory at {connections.path} yet.",
                code="no_memory",
                subject=connections.path,
                advice=advise("store_first"),
            )
        if read_only and version < FIRST_WITH_PEOPLE:
            raise StoreReadOnly(
                f"{connections.path} is from an older plait and must be opened once for writing, "
                "by the role that owns its tables.",
                code="read_only_upgrade",
                subject=connections.path,
            )
        if not read_only:
            # A member works with older tables, too, until the administrator opens a memory.
            if version < SCHEMA_VERSION and connections.membership.is_administrator:
                _migrate(session.connection, connections.timeout)
                if _version(session, connections.path) >= FIRST_WITH_PEOPLE:
                    connections.joined_as(_membership(session, connections.path, known=True))
            if not known:
                session.execute(_ADD_NAMESPACE, name=namespace, analyzer=ANALYZER)
                _is_known(session, namespace, connections.path)
        has_vectors = _has_vectors(session, create=not read_only, timeout=connections.timeout)
        connections.vectors_in = session.vectors_in
        return has_vectors


def refresh(connections: Connections) -> None:
    """Bring the tables up to date, whatever memories they have.

    Raises:
        StoreError: There are none.
    """
    with connections.lent() as session:
        version = _version(session, connections.path)
        connections.refuse_newer(version)
        if not version:
            raise StoreError(
                f"There are no memories at {connections.path} yet.",
                code="no_memory",
                subject=connections.path,
                advice=advise("store_first"),
            )
        if version < SCHEMA_VERSION:
            _migrate(session.connection, connections.timeout)


def _version(session: Channel, path: str) -> int:
    try:
        return int(session.value(VERSION) or 0)
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return 0
    except errors.InsufficientPrivilege:
        raise not_a_member(str(session.connection.info.user), path) from None


def _membership(session: Channel, path: str, *, known: bool) -> Membership:
    """Return what the role of this session is in the memory.

    Raises:
        StoreError: It is nothing, and sees only what its members are to see; or others may add
            functions to a schema in which it looks for them.
    """
    who, schemas = session.together((WHO, {}), (OPEN_TO_MEMBERS, {}))
    refuse_open_schemas(schemas, path)
    membership = recognised(who, session.ns, path)
    if not known and not membership.is_administrator:
        raise not_a_member(membership.name, path)
    return membership


def _is_known(session: Channel, namespace: str, path: str) -> bool:
    name = session.value("SELECT name FROM plait.namespaces WHERE ns = %(ns)s")
    if name not in (None, namespace):
        raise StoreError(
            f"Another memory has the number of {path}. Choose another name.",
            code="namespace_taken",
            subject=namespace,
        )
    return name is not None


def _migrate(connection: Connection, timeout: float) -> None:
    """Apply the steps that are missing; others wait, and then find that nothing is."""
    rewritten: list[str] = []
    with holding_all(connection, timeout):
        done = 0
        if connection.execute("SELECT to_regclass('plait.schema_version')").fetchone() != (None,):
            row = connection.execute(VERSION).fetchone()
            done = int(str(row[0])) if row and row[0] is not None else 0
        for number, step in enumerate(MIGRATIONS[done:], start=done + 1):
            connection.execute(step)
            connection.execute("INSERT INTO plait.schema_version (version) VALUES (%s)", (number,))
        if distributing.is_spread(connection):
            distributing.spread(connection)
        if fences.are_up(connection):
            rewritten = fences.put_up(connection)
    fences.clear(connection, rewritten, timeout)


def _look_for_vectors(session: Channel) -> bool:
    """Tell whether there is a table of vectors; note where pgvector is."""
    session.vectors_in = None  # or it would be looked for there, and found
    ((table, session.vectors_in),) = session.rows(_VECTORS_THERE, name=VECTOR_TABLE)
    return table is not None


def _has_vectors(session: Channel, *, create: bool, timeout: float) -> bool:
    """Tell whether there is a table of vectors; make it where the extension can be had."""
    if _look_for_vectors(session):
        return True
    if not create or not session.value(_MAY_ADD_VECTORS):
        return False
    try:
        with holding_all(session.connection, timeout):
            session.connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            _look_for_vectors(session)
            session.connection.execute(located(_VECTORS, session.vectors_in))
            session.connection.execute(_AWAIT_VECTORS)
            if distributing.is_spread(session.connection):
                distributing.spread(session.connection)
            if fences.are_up(session.connection):
                fences.put_up(session.connection)
    except (
        errors.InsufficientPrivilege,
        errors.UndefinedObject,
        errors.UndefinedColumn,  # tables that an older plait has just made
        errors.InvalidSchemaName,  # the search path has no schema for the extension
        errors.ReadOnlySqlTransaction,
        errors.LockNotAvailable,
    ):
        return False  # keyword only; the state says why
    return True
