"""The tables of a memory, as numbered migrations that are never edited once released.

A migration and its version number are written in one transaction. Loaded only when a file is
created, migrated or repaired.
"""

import os

import apsw

from plait.stores.sqlite.analysis import INDEX, INDEX_TERMS, INDEXED_VIEW, INDEXING
from plait.stores.sqlite.connection import APPLICATION_ID, version_of
from plait.stores.sqlite.filters import FIRST_TAG_TRIGGERS, LIST_TAGS
from plait.stores.sqlite.keyword import KEYWORD_SHADOWS, TRIGGERS

SMALLEST_FILE = 512  # of any database
# Apart, because it can be rebuilt from the passages.
_KEYWORD_INDEX = f"""
{INDEX};
INSERT INTO passages_fts (passages_fts, rank) VALUES ('secure-delete', 1);
{INDEX_TERMS};
"""  # noqa: S608

# subtle: FTS5 opens an index before it drops it, and opening needs a readable version number.
_DROP_KEYWORD_INDEX = """
CREATE TABLE IF NOT EXISTS passages_fts_config (k PRIMARY KEY, v) WITHOUT ROWID;
DELETE FROM passages_fts_config;
INSERT INTO passages_fts_config (k, v) VALUES ('version', 4);
DROP TABLE IF EXISTS passages_vocab;
DROP TABLE IF EXISTS passages_fts;
""" + "".join(f"DROP TABLE IF EXISTS {name};\n" for name in KEYWORD_SHADOWS)

_TRIGGERS = "".join(f"{sql};\n" for sql in TRIGGERS)
# All that acts in the schema of some version.
ACTING = TRIGGERS + FIRST_TAG_TRIGGERS + INDEXING

_M001 = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
-- Counting the passages row by row would take longer than a search.
INSERT INTO meta (name, value) VALUES ('passages', '0');

CREATE TABLE documents (
    rowid INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    key TEXT,
    kind TEXT NOT NULL CHECK (kind IN ('file', 'note', 'observation', 'entity', 'message')),
    title TEXT NOT NULL DEFAULT '',
    preface TEXT NOT NULL DEFAULT '',
    path TEXT,
    source TEXT NOT NULL DEFAULT '',
    project TEXT NOT NULL DEFAULT '',
    memory_type TEXT,
    type TEXT,
    tags TEXT NOT NULL DEFAULT '[]',
    metadata TEXT NOT NULL DEFAULT '{{}}',
    summary TEXT,
    origin TEXT NOT NULL DEFAULT 'user',
    trust TEXT NOT NULL DEFAULT 'trusted',
    session TEXT,
    parent TEXT,
    topic TEXT,
    supersedes TEXT,
    importance REAL,
    pinned INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    event_at INTEGER NOT NULL,
    valid_from INTEGER,
    valid_to INTEGER,
    size INTEGER,
    mtime INTEGER,
    sha256 TEXT,
    indexed_at INTEGER NOT NULL,
    chunk_count INTEGER NOT NULL DEFAULT 0,
    fingerprint BLOB
);
CREATE UNIQUE INDEX documents_by_name ON documents (project, source, key) WHERE key IS NOT NULL;
CREATE INDEX documents_by_project ON documents (project);
CREATE INDEX documents_by_key ON documents (key) WHERE key IS NOT NULL;
CREATE INDEX documents_by_source ON documents (source, key) WHERE source <> '';
CREATE INDEX documents_by_path ON documents (path) WHERE kind = 'file';
CREATE INDEX documents_by_event ON documents (event_at, id);
CREATE INDEX documents_by_indexed ON documents (indexed_at);
CREATE INDEX documents_by_fingerprint ON documents (fingerprint) WHERE fingerprint IS NOT NULL;
CREATE INDEX documents_by_parent ON documents (parent) WHERE parent IS NOT NULL;
CREATE INDEX documents_by_session ON documents (session) WHERE session IS NOT NULL;
CREATE INDEX documents_distrusted ON documents (trust) WHERE trust <> 'trusted';
CREATE INDEX documents_beginning ON documents (valid_from) WHERE valid_from IS NOT NULL;
CREATE INDEX documents_ending ON documents (valid_to) WHERE valid_to IS NOT NULL;

CREATE TABLE passages (
    rowid INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    document INTEGER NOT NULL REFERENCES documents (rowid) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    start INTEGER NOT NULL,
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    heading TEXT NOT NULL DEFAULT '',
    text TEXT NOT NULL,
    title_terms TEXT NOT NULL DEFAULT '',
    heading_terms TEXT,
    text_terms TEXT,
    hash BLOB NOT NULL
);
CREATE INDEX passages_by_document ON passages (document, ordinal);

{INDEXED_VIEW};

{_KEYWORD_INDEX}
{_TRIGGERS}

-- How many passages hold a very common term; rarer ones are counted when asked for.
CREATE TABLE frequent_terms (term TEXT PRIMARY KEY, passages INTEGER NOT NULL) WITHOUT ROWID;

-- Vectors of one space. Exactly one generation answers searches; another may be filling up.
CREATE TABLE generations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    space TEXT NOT NULL,
    dims INTEGER NOT NULL,
    current INTEGER NOT NULL DEFAULT 0,
    filled_to INTEGER NOT NULL DEFAULT 0,
    UNIQUE (space, current)
);
CREATE UNIQUE INDEX generations_current ON generations (current) WHERE current = 1;

-- int8 rows; passage r lies in block r / BLOCK_ROWS. A row of zeros means "no vector".
CREATE TABLE vector_blocks (
    rowid INTEGER PRIMARY KEY,
    generation INTEGER NOT NULL REFERENCES generations (id) ON DELETE CASCADE,
    block INTEGER NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (generation, block)
);

-- Passages without a vector: 'pending' will get one, 'declined' has none by its nature.
CREATE TABLE unembedded (
    generation INTEGER NOT NULL REFERENCES generations (id) ON DELETE CASCADE,
    passage INTEGER NOT NULL REFERENCES passages (rowid) ON DELETE CASCADE,
    reason TEXT NOT NULL CHECK (reason IN ('pending', 'declined')),
    PRIMARY KEY (generation, passage)
) WITHOUT ROWID;
CREATE INDEX unembedded_by_passage ON unembedded (passage);

-- Deleted documents, unindexed, for undo.
CREATE TABLE trash (
    id TEXT PRIMARY KEY,
    deleted_at INTEGER NOT NULL,
    batch TEXT NOT NULL,
    document TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX trash_by_time ON trash (deleted_at);
"""  # noqa: S608

_M002 = """
-- text_hash is over space, kind and text, so that no two models ever share a row.
CREATE TABLE embedding_cache (
    text_hash TEXT PRIMARY KEY,
    embedding BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    accessed_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX embedding_cache_by_use ON embedding_cache (accessed_at, text_hash);
-- The vector of one fixed text: shows whether the same name still means the same model.
ALTER TABLE generations ADD COLUMN canary BLOB;
"""

_M003 = """
CREATE INDEX documents_by_topic ON documents (topic, project) WHERE topic IS NOT NULL;
CREATE INDEX documents_by_supersession ON documents (supersedes) WHERE supersedes IS NOT NULL;
CREATE INDEX documents_of_entities ON documents (project, rowid) WHERE kind = 'entity';

CREATE TABLE relations (
    rowid INTEGER PRIMARY KEY AUTOINCREMENT,
    source INTEGER NOT NULL REFERENCES documents (rowid) ON DELETE CASCADE,
    target INTEGER NOT NULL REFERENCES documents (rowid) ON DELETE CASCADE,
    type TEXT NOT NULL,
    context TEXT,
    created_at INTEGER NOT NULL,
    valid_from INTEGER,
    valid_to INTEGER
);
CREATE UNIQUE INDEX relations_current ON relations (source, target, type) WHERE valid_to IS NULL;
CREATE INDEX relations_by_source ON relations (source);
CREATE INDEX relations_by_target ON relations (target);

-- Apart from the trash of the two entities: whichever of them is purged takes this with it.
CREATE TABLE trashed_relations (
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    type TEXT NOT NULL,
    context TEXT,
    created_at INTEGER NOT NULL,
    valid_from INTEGER,
    valid_to INTEGER,
    deleted_at INTEGER NOT NULL
);
CREATE INDEX trashed_relations_by_source ON trashed_relations (source);
CREATE INDEX trashed_relations_by_target ON trashed_relations (target);

-- How often a passage was read, on how many days (counted from 1970), and when last.
CREATE TABLE signals (
    passage INTEGER PRIMARY KEY REFERENCES passages (rowid) ON DELETE CASCADE,
    reads INTEGER NOT NULL,
    days INTEGER NOT NULL,
    last_day INTEGER NOT NULL,
    last_read INTEGER NOT NULL
);
-- Passages that were read together; the smaller number comes first.
CREATE TABLE signal_pairs (
    one INTEGER NOT NULL REFERENCES passages (rowid) ON DELETE CASCADE,
    other INTEGER NOT NULL REFERENCES passages (rowid) ON DELETE CASCADE,
    times INTEGER NOT NULL,
    last_read INTEGER NOT NULL,
    PRIMARY KEY (one, other)
) WITHOUT ROWID;
CREATE INDEX signal_pairs_by_other ON signal_pairs (other);
"""

_M004 = """
-- A message is a turn of its session; messages stored before had no number but their order.
ALTER TABLE documents ADD COLUMN role TEXT;
ALTER TABLE documents ADD COLUMN turn INTEGER;
UPDATE documents SET turn = numbered.turn FROM (
    SELECT rowid, row_number() OVER (PARTITION BY project, session ORDER BY rowid) AS turn
    FROM documents WHERE kind = 'message' AND session IS NOT NULL
) AS numbered WHERE documents.rowid = numbered.rowid;
CREATE UNIQUE INDEX documents_by_turn ON documents (project, session, turn)
WHERE turn IS NOT NULL;

-- Vectors being built list what they lack, like those that answer. A mark on the row order would
-- pass over a row of a lower number that is committed later.
INSERT OR IGNORE INTO unembedded (generation, passage, reason)
SELECT g.id, p.rowid, 'pending' FROM generations AS g JOIN passages AS p ON p.rowid > g.filled_to
WHERE g.current = 0;
ALTER TABLE generations DROP COLUMN filled_to;
"""

_M005 = """
-- A purge in many slices looks in each of them for what belongs to its entities, and for earlier
-- versions of its documents.
ALTER TABLE trash ADD COLUMN parent TEXT;
ALTER TABLE trash ADD COLUMN version_of TEXT;
-- A damaged row is left as it is: it must not keep the memory from opening.
UPDATE trash SET parent = document ->> '$.document.parent'
WHERE CASE WHEN json_valid(document) THEN document ->> '$.document.parent' END IS NOT NULL;
CREATE INDEX trash_by_parent ON trash (parent) WHERE parent IS NOT NULL;
CREATE INDEX trash_by_version ON trash (version_of) WHERE version_of IS NOT NULL;
-- New texts are compared with what is not trusted, deleted or not.
CREATE INDEX trash_distrusted ON trash (deleted_at)
WHERE CASE WHEN json_valid(document) THEN document ->> '$.document.trust' END <> 'trusted';
"""

_M006 = """
-- What was imported of agents' histories, and how far. Apart from meta, which must stay one page.
CREATE TABLE histories (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- What agents did, by the message that tells of it. A path is its folder, with the last slash, and
-- its file; failure is the same for errors that differ only in numbers, places and names.
CREATE TABLE steps (
    document INTEGER NOT NULL REFERENCES documents (rowid) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    tool TEXT NOT NULL,
    folder TEXT,
    file TEXT,
    command TEXT,
    program TEXT,
    exit INTEGER,
    error TEXT,
    failure INTEGER,
    PRIMARY KEY (document, place)
) WITHOUT ROWID;
CREATE INDEX steps_by_file ON steps (file) WHERE file IS NOT NULL;
CREATE INDEX steps_by_program ON steps (program) WHERE program IS NOT NULL;
CREATE INDEX steps_by_failure ON steps (failure) WHERE failure IS NOT NULL;

-- Few of many: an overview must not read every message to find the notes, or what is pinned.
CREATE INDEX documents_but_messages ON documents (event_at, id) WHERE kind <> 'message';
CREATE INDEX documents_pinned ON documents (event_at, id) WHERE pinned = 1;
CREATE INDEX documents_tagged ON documents (event_at, id) WHERE tags <> '[]';
CREATE INDEX documents_by_type ON documents (type) WHERE type IS NOT NULL;
"""

_M007 = """
-- NULL is active.
ALTER TABLE documents ADD COLUMN status TEXT;
ALTER TABLE signals ADD COLUMN good INTEGER NOT NULL DEFAULT 0;
ALTER TABLE signals ADD COLUMN wrong INTEGER NOT NULL DEFAULT 0;

-- Who changed which document, by which door and verb; hashes before and after, keyed for this file.
CREATE TABLE audit (
    rowid INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    origin TEXT NOT NULL,
    door TEXT NOT NULL,
    verb TEXT NOT NULL,
    session TEXT,
    project TEXT NOT NULL,
    document TEXT NOT NULL,
    before BLOB,
    after BLOB
);
CREATE INDEX audit_by_document ON audit (document);
"""

_TAG_TRIGGERS = "".join(f"{sql};\n" for sql in FIRST_TAG_TRIGGERS)

_M008 = """
-- How many documents are of a kind, in a project, from a source: counting them would be linear.
CREATE TABLE tallies (
    part TEXT NOT NULL,
    name TEXT NOT NULL,
    documents INTEGER NOT NULL,
    PRIMARY KEY (part, name)
) WITHOUT ROWID;
INSERT INTO tallies (part, name, documents)
SELECT 'kind', kind, count(*) FROM documents GROUP BY kind
UNION ALL SELECT 'project', project, count(*) FROM documents GROUP BY project
UNION ALL SELECT 'source', source, count(*) FROM documents
WHERE source NOT IN ('', 'entity') AND substr(source, 1, 8) <> 'session:' GROUP BY source;

-- A block of vectors gets another random number with every write, so that a process that kept some
-- reads only those again that changed. Of a table after the vectors' own: an older plait that is
-- still running then refuses to write, which would leave the numbers as they are.
CREATE TABLE block_versions (
    generation INTEGER NOT NULL REFERENCES generations (id) ON DELETE CASCADE,
    block INTEGER NOT NULL,
    version BLOB NOT NULL,
    PRIMARY KEY (generation, block)
) WITHOUT ROWID;
INSERT INTO block_versions (generation, block, version)
SELECT generation, block, randomblob(8) FROM vector_blocks;

-- Of large memories: the signs of a block's vectors as bits, and its rows singly, by their passage.
-- A block has both or neither. The rows are of the vectors that have signs.
CREATE TABLE vector_signs (
    rowid INTEGER PRIMARY KEY,
    generation INTEGER NOT NULL REFERENCES generations (id) ON DELETE CASCADE,
    block INTEGER NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (generation, block)
);
CREATE TABLE vector_rows (rowid INTEGER PRIMARY KEY, data BLOB NOT NULL);
"""
_M008 += f"""
-- The tags of documents, one a row: a filter by tag must not read every document.
CREATE TABLE document_tags (
    tag TEXT NOT NULL,
    document INTEGER NOT NULL,
    PRIMARY KEY (tag, document)
) WITHOUT ROWID;
{LIST_TAGS};
{_TAG_TRIGGERS}
"""

_M009 = """
-- Whoever writes a document lists its tags. Beside a trigger, an insert takes three times as long.
DROP TRIGGER documents_inserted;
"""

_M010 = """
-- Whether a new file is a known one at another path: without this, each ingest reads all files.
CREATE INDEX documents_by_content ON documents (sha256) WHERE kind = 'file';
"""

MIGRATIONS: tuple[str, ...] = (
    _M001,
    _M002,
    _M003,
    _M004,
    _M005,
    _M006,
    _M007,
    _M008,
    _M009,
    _M010,
)


# How many of the first rows of the passages, and of the index's own tables, are another table's: a
# root page was mixed up, and making the index again would destroy what lies there.
_FOREIGN = (
    "SELECT avg(typeof(hash) <> 'blob' OR typeof(document) <> 'integer') "
    "FROM (SELECT hash, document FROM passages LIMIT 100)",
    "SELECT avg(typeof(block) <> 'blob') FROM (SELECT block FROM passages_fts_data LIMIT 100)",
    "SELECT avg(typeof(sz) <> 'blob') FROM (SELECT sz FROM passages_fts_docsize LIMIT 100)",
    "SELECT avg(typeof(term) <> 'blob') FROM (SELECT term FROM passages_fts_idx LIMIT 100)",
    "SELECT avg(k NOT IN ('version', 'secure-delete', 'automerge', 'crisismerge', 'pgsz', 'rank', "
    "'hashsize', 'usermerge', 'deletemerge', 'insttoken')) FROM passages_fts_config",
)


def make_keyword_index(connection: apsw.Connection) -> None:
    """Replace the remains of the keyword index with an empty one.

    Raises:
        apsw.CorruptError: What carries the index's names is something else.
    """
    for sql in _FOREIGN:
        try:
            share = connection.execute(sql).get
        except apsw.SQLError:
            continue  # the table is lost
        if share is not None and share > 0.5:
            raise apsw.CorruptError("another table lies where the keyword index should be")
    for _ in connection.execute(_DROP_KEYWORD_INDEX + _KEYWORD_INDEX):
        pass


def refuse_torso(connection: apsw.Connection) -> None:
    """Refuse what is left of a file that was cut off: SQLite takes it for an empty one.

    Raises:
        apsw.CorruptError: The file has something, but less than any database.
    """
    if connection.filename and 0 < os.stat(connection.filename).st_size < SMALLEST_FILE:
        raise apsw.CorruptError("it is cut off")


def migrate(connection: apsw.Connection) -> None:
    """Apply the migrations that are missing. Call inside a write transaction."""
    version = version_of(connection)
    for migration in MIGRATIONS[version:]:
        # APSW runs statements lazily: iterating is what makes all of them run.
        for _ in connection.execute(migration):
            pass
    if version < len(MIGRATIONS):
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
