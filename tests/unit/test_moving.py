"""Everything that an engine stores is moved: a new table or column must not be forgotten."""

from contextlib import closing
from pathlib import Path

import apsw

import plait
from plait.stores.moving import AUDIT, TABLES, VECTOR_TABLE
from plait.stores.postgres import moving as postgres_moving
from plait.stores.postgres.connection import number_of
from plait.stores.postgres.store import PostgresStore
from plait.stores.sqlite import moving as sqlite_moving
from plait.stores.sqlite import schema
from plait.stores.sqlite.keyword import KEYWORD_TABLES
from plait.types.ids import new_id
from tests import servers

# What an engine makes of the rest, by table; a table without columns is made as a whole.
MADE_IN_FILES = {
    **dict.fromkeys(KEYWORD_TABLES, ()),
    **dict.fromkeys(("frequent_terms", "tallies", "document_tags", "sqlite_sequence"), ()),
    **dict.fromkeys(("vector_blocks", "vector_signs", "vector_rows", "block_versions"), ()),
    "passages": ("heading_terms", "text_terms"),
}
MADE_IN_DATABASES = {
    **dict.fromkeys(
        ("schema_version", "namespaces", "tags", "postings", "embeddings", "commits", "members"), ()
    ),
    "passages": ("length", "terms"),
    "trash": ("bare", "trust"),
    "audit": ("member",),
}


def test_every_table_and_column_of_a_file_is_moved_or_made():
    with closing(apsw.Connection(":memory:")) as connection:
        schema.migrate(connection)
        sql = "SELECT name FROM sqlite_schema WHERE type = 'table'"
        names = [name for (name,) in connection.execute(sql)]
        columns = {
            name: {row[1] for row in connection.execute(f"PRAGMA table_info({name})")}
            for name in names
        }
    moved = {
        sqlite_moving._name(table): {*sqlite_moving._columns(table, written=True)}
        for table in TABLES
        if table != VECTOR_TABLE
    }
    assert {name for name in columns if MADE_IN_FILES.get(name) != ()} == moved.keys()
    for name, own in moved.items():
        assert columns[name] - {"rowid"} == (own | {*MADE_IN_FILES.get(name, ())}) - {"rowid"}, name


def test_every_table_and_column_of_a_database_is_moved_or_made():
    with closing(PostgresStore(servers.address(new_id()))) as store:
        listed = store._connections.read(
            lambda session: session.rows(
                "SELECT table_name, column_name FROM information_schema.columns "
                "WHERE table_schema = 'plait'"
            )
        )
    columns: dict[str, set[str]] = {}
    for table, column in listed:
        columns.setdefault(table, set()).add(column)
    moved = {table.name: {*table.columns} for table in TABLES if table != VECTOR_TABLE}
    assert {name for name in columns if MADE_IN_DATABASES.get(name) != ()} == moved.keys()
    for name, own in moved.items():
        # Who sees a row is moved by `moving_people`, where there are members.
        beside = {"ns", "label", *MADE_IN_DATABASES.get(name, ())}
        assert columns[name] == own | beside, name


def test_kinds_tell_of_every_column():
    assert all(len(table.kinds) == len(table.columns) for table in TABLES)
    assert len({table.name for table in TABLES}) == len(TABLES)


def test_a_dropped_move_leaves_no_row_of_its_memory():
    name = new_id()
    with closing(PostgresStore(servers.address(name))):
        pass
    rows = postgres_moving.PostgresRows(servers.address(name), create=True, timeout=5.0)
    rows.claim("{}")
    rows.drop()
    with closing(PostgresStore(servers.address(new_id()))) as other:
        count = "SELECT count(*) FROM plait.namespaces WHERE ns = %(own)s"
        left = other._connections.read(lambda session: session.value(count, own=number_of(name)))
    assert left == 0


def test_the_log_of_a_file_is_ranked_once_for_many_rows(tmp_path: Path) -> None:
    """Its rows have no numbers that last, and to count up to one takes reading all before it."""
    path = str(tmp_path / "memory.db")
    with plait.Memory.open(path, project="") as memory:
        for number in range(20):
            memory.store(f"The door number {number} sticks.")
    with closing(sqlite_moving.SQLiteRows(path, create=False, timeout=5)) as place:
        with place.reading() as reader:
            keys = [AUDIT.key(row) for row in reader.page(AUDIT, None)]
            assert len(keys) == 20
            statements: list[str] = []
            reader.connection.trace_v2(
                apsw.SQLITE_TRACE_STMT, lambda event: statements.append(event["sql"])
            )
            some = reader.rows(AUDIT, keys[3:17])
            reader.connection.trace_v2(0)
        assert [AUDIT.key(row) for row in some] == keys[3:17]
        assert len(statements) == 1
