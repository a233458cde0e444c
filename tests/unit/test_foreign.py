"""A memory of somebody else whose tables were altered: it can be read, and nothing is written."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import apsw
import pytest

from plait.errors import SchemaTooNew, StoreDamaged
from plait.memory import Memory
from plait.stores import check_file
from plait.stores.sqlite import connection as opening
from plait.stores.sqlite import foreign, objects, schema, state
from plait.stores.sqlite.keyword import KEYWORD_TABLES
from plait.stores.sqlite.store import SQLiteStore
from plait.types import Filter
from tests.builders import entry, write

TABLES = sorted(
    name
    for name, (kind, sql) in objects.own_objects().items()
    if kind == "table" and name not in KEYWORD_TABLES
)
TRIGGERS = sorted(name for name, (kind, sql) in objects.own_objects().items() if kind == "trigger")
REFERS = "CREATE TABLE evil (x REFERENCES documents (rowid) ON DELETE RESTRICT)"


def run(path: str, *statements: str) -> None:
    file = apsw.Connection(path)
    for statement in statements:
        file.execute(statement).fetchall()
    file.close()


def rewrite(path: str, name: str, old: str, new: str) -> None:
    run(
        path,
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_schema SET sql = replace(sql, '{old}', '{new}') WHERE name = '{name}'",
    )


@pytest.fixture
def path(tmp_path: Path) -> str:
    place = str(tmp_path / "theirs.db")
    with Memory.open(place) as memory:
        memory.store("A note of a friend", key="seed")
    return place


WRITES: dict[str, Callable[[Memory], object]] = {
    "store": lambda memory: memory.store("Another note", key="other"),
    "delete": lambda memory: memory.delete("seed"),
    "purge": lambda memory: memory.delete("seed", purge=True),
    "import": lambda memory: memory.import_lines(list(memory.export())),
    "reindex": lambda memory: memory.reindex(),
}


def test_the_mark_is_that_of_a_new_memory() -> None:
    store = SQLiteStore(":memory:")
    assert foreign.schema_mark(store._connections.get()) == foreign.OWN_SCHEMA
    store.close()


@pytest.mark.parametrize("version", range(1, len(schema.MIGRATIONS)))
def test_a_file_of_every_older_schema_has_the_same_mark(tmp_path: Path, version: int) -> None:
    path = str(tmp_path / "old.db")
    run(
        path,
        *schema.MIGRATIONS[:version],
        f"PRAGMA user_version = {version}",
        f"PRAGMA application_id = {opening.APPLICATION_ID}",
    )
    store = SQLiteStore(path)
    assert foreign.schema_mark(store._connections.get()) == foreign.OWN_SCHEMA
    write(store, entry("k", "apple"))
    store.close()


@pytest.mark.parametrize("verb", WRITES)
def test_no_verb_writes_into_an_altered_table(path: str, verb: str) -> None:
    rewrite(path, "documents", "fingerprint BLOB", "fingerprint BLOB CHECK (rowid < 2)")
    with Memory.open(path) as memory:
        before = list(memory.export())
        assert memory.search("friend").hits
        with pytest.raises(StoreDamaged, match="'documents' was altered") as refused:
            WRITES[verb](memory)
        assert refused.value.advice is not None
        assert refused.value.advice.act == "salvage"
        assert list(memory.export()) == before


@pytest.mark.parametrize("table", TABLES)
def test_an_altered_table_of_any_name_is_refused(path: str, table: str) -> None:
    rewrite(path, table, "(", "( ")
    store = SQLiteStore(path)
    with pytest.raises(StoreDamaged, match=f"'{table}' was altered"):
        write(store, entry("k", "apple"))
    store.close()


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_nothing_is_written_without_a_trigger_until_it_is_repaired(path: str, trigger: str) -> None:
    with Memory.open(path) as memory:
        memory.store("An apple", key="before", tags=["kept"])
        run(path, f"DROP TRIGGER {trigger}")
        assert memory.search("friend").hits
        for verb in WRITES.values():
            with pytest.raises(StoreDamaged, match=f"'{trigger}' is missing") as refused:
                verb(memory)
            assert refused.value.advice is not None
            assert refused.value.advice.act == "doctor_fix"
        memory.doctor(fix=True)
        memory.store("A pear", key="after", tags=["kept"])
        memory.delete("before")
        hits = memory.search("apple pear friend", where=Filter(tags=("kept",)))
        assert [hit.document.key for hit in hits] == ["after"]


@pytest.mark.parametrize("conflict", ["REPLACE", "IGNORE"])
def test_a_constraint_loses_no_note_and_salvage_leaves_it_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conflict: str
) -> None:
    constraint = f", UNIQUE (origin, kind) ON CONFLICT {conflict}\n)"
    first = schema.MIGRATIONS[0].replace("fingerprint BLOB\n)", f"fingerprint BLOB{constraint}")
    theirs, saved = tmp_path / "theirs.db", tmp_path / "saved.db"
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (first, *schema.MIGRATIONS[1:]))
        with Memory.open(theirs) as memory:
            memory.store("A note of a friend", key="seed")
    with Memory.open(theirs) as memory, pytest.raises(StoreDamaged):
        memory.store("Another note", key="other")
    Memory.salvage(theirs, saved)
    with Memory.open(saved) as memory:
        memory.store("Another note", key="other")
        assert len(list(memory.export())) == 3


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE UNIQUE INDEX evil ON documents (origin, kind)",
        "CREATE INDEX evil ON passages (abs(rowid))",
        "CREATE UNIQUE INDEX evil ON passages (ordinal)",
    ],
)
def test_a_foreign_index_is_refused_until_doctor_removes_it(path: str, sql: str) -> None:
    run(path, sql)
    with Memory.open(path) as memory:
        with pytest.raises(StoreDamaged, match="index 'evil' is not plait's") as refused:
            memory.store("Another note", key="other")
        assert refused.value.advice is not None
        assert refused.value.advice.act == "doctor_fix"
    check_file(path, fix=True)
    with Memory.open(path) as memory:
        memory.store("Another note", key="other")


@pytest.mark.parametrize("name", ["evil", "sqlite_evil"])
def test_a_foreign_table_that_refers_to_a_note_is_named(
    path: str, tmp_path: Path, name: str
) -> None:
    run(path, REFERS, "INSERT INTO evil SELECT rowid FROM documents")
    run(
        path,
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_schema SET name = '{name}', tbl_name = '{name}', "
        f"sql = replace(sql, 'evil', '{name}') WHERE name = 'evil'",
    )
    with Memory.open(path) as memory:
        with pytest.raises(StoreDamaged, match=f"table '{name}' is not plait's") as refused:
            memory.delete("seed", purge=True)
        assert refused.value.advice is not None
        assert refused.value.advice.act == "salvage"
    Memory.salvage(path, tmp_path / "saved.db")
    with Memory.open(tmp_path / "saved.db") as memory:
        assert memory.delete("seed", purge=True)


def test_tables_of_other_tools_may_stay(path: str) -> None:
    run(
        path,
        "CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)",
        "CREATE UNIQUE INDEX theirs ON _litestream_seq (seq)",
        "CREATE VIEW titles AS SELECT title FROM documents",
        "ANALYZE",
    )
    with Memory.open(path) as memory:
        memory.store("Another note", key="other")
        assert memory.delete("seed", purge=True)


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("trigger", ["documents_updated", "passages_deleted"])
def test_no_verb_writes_where_a_trigger_is_missing(path: str, verb: str, trigger: str) -> None:
    run(path, f"DROP TRIGGER {trigger}")
    with Memory.open(path) as memory:
        with pytest.raises(StoreDamaged, match=trigger):
            WRITES[verb](memory)
        memory.doctor(fix=True)
        WRITES[verb](memory)
        assert {row.level for row in memory.doctor()} <= {"ok", "warning"}


NEWER = """
CREATE TABLE newer (x);
CREATE TRIGGER newest AFTER INSERT ON documents BEGIN SELECT 1; END;
"""


@pytest.mark.parametrize("verb", [*WRITES, "doctor", "fix"])
def test_a_process_that_still_runs_changes_nothing_in_a_file_of_a_newer_plait(
    path: str, verb: str
) -> None:
    acts: dict[str, Callable[[Memory], object]] = {
        **WRITES,
        "doctor": lambda memory: memory.doctor(),
        "fix": lambda memory: memory.doctor(fix=True),
    }
    with Memory.open(path) as memory:
        memory.store("A note before the other plait came")
        run(path, NEWER, f"PRAGMA user_version = {opening.SCHEMA_VERSION + 1}")
        with pytest.raises(SchemaTooNew):
            acts[verb](memory)
    file = apsw.Connection(path)
    assert file.execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'newe%'").get == 2
    assert file.execute("SELECT count(*) FROM documents").get == 2
    file.close()


# -- what a read would compute -------------------------------------------------------------------

# Without an end, a read would take for ever.
ROWS = "WITH RECURSIVE r (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 9) SELECT {} FROM r"
VIEWS = {
    "frequent_terms": "'a' AS term, x AS passages",
    "meta": "'passages' AS name, x AS value",
    "passages_vocab": "'a' AS term, x AS doc, 1 AS cnt",
}


def test_the_tables_of_plait_are_known_and_compute_nothing() -> None:
    own = objects.own_objects()
    assert {name for name, (kind, _) in own.items() if kind == "table"} == state.TABLES
    tables = [sql.upper() for kind, sql in own.values() if kind == "table"]
    assert not any(word.endswith("AS") for sql in tables for word in re.findall(r"\w+", sql))


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_view_in_the_place_of_a_table_is_not_read(path: str, name: str, read_only: bool) -> None:
    run(path, f"DROP TABLE {name}", f"CREATE VIEW {name.upper()} AS {ROWS.format(VIEWS[name])}")
    with pytest.raises(StoreDamaged, match=f"its view '{name.upper()}' is not plait's"):
        Memory.open(path, read_only=read_only)
    assert (Memory.examine(path)[-1].check, Memory.examine(path)[-1].level) == ("schema", "error")


@pytest.mark.parametrize("name", ["frequent_terms", "passages_vocab"])
def test_doctor_replaces_a_view_by_the_table_and_keeps_the_notes(path: str, name: str) -> None:
    run(path, f"DROP TABLE {name}", f"CREATE VIEW {name} AS {ROWS.format(VIEWS[name])}")
    assert Memory.examine(path)[-1].check == "schema"
    Memory.examine(path, fix=True)
    with Memory.open(path) as memory:
        assert [hit.document.key for hit in memory.search("friend").hits] == ["seed"]
        assert not [row for row in memory.doctor() if row.level == "error"]


@pytest.mark.parametrize("computed", ["AS (hex(zeroblob(9)))", "generated always as(1)STORED"])
def test_a_table_that_computes_a_column_is_not_read(path: str, computed: str) -> None:
    rewrite(path, "documents", "summary TEXT", f"summary TEXT {computed}")
    with pytest.raises(StoreDamaged, match="its table 'documents' is not plait's"):
        Memory.open(path)


@pytest.mark.parametrize("kind", ["trigger", "view", "table"])
def test_what_acts_is_found_whatever_the_letters_of_its_type(
    path: str, kind: str, tmp_path: Path
) -> None:
    run(
        path,
        f"CREATE TRIGGER evil {DELETES}",
        f"CREATE VIEW listed AS {ROWS.format(VIEWS['frequent_terms'])}",
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_schema SET type = upper(type) WHERE type = '{kind}'",
    )
    for act in (Memory.open, partial(Memory.restore, path=tmp_path / "restored.db")):
        with pytest.raises(StoreDamaged, match="a type that SQLite never writes"):
            act(path)
    findings = Memory.examine(path, fix=True)
    assert [row.level for row in findings if "never writes" in row.message] == ["error"]


@pytest.mark.parametrize("name", ["sqlite_sequence", "SQLite_Sequence"])
def test_a_view_in_the_place_of_the_numbers_of_rows_is_not_read(
    path: str, name: str, tmp_path: Path
) -> None:
    with Memory.open(path, embedder="none") as memory:
        run(
            path,
            "PRAGMA writable_schema = ON",
            "UPDATE sqlite_schema SET name = 'x', tbl_name = 'x', sql = 'CREATE TABLE x (a, b)' "
            "WHERE name = 'sqlite_sequence'",
            f"INSERT INTO sqlite_schema VALUES ('view', '{name}', '{name}', 0, "
            f"'CREATE VIEW {name} (name, seq) AS {ROWS.format('1, x')}')",
        )
        with pytest.raises(StoreDamaged, match=f"its view '{name}' is not plait's"):
            memory.store("Another note", key="other")
    for act in (Memory.open, partial(Memory.restore, path=tmp_path / "restored.db")):
        with pytest.raises(StoreDamaged, match=f"its view '{name}' is not plait's"):
            act(path)
    assert (Memory.examine(path)[-1].check, Memory.examine(path)[-1].level) == ("schema", "error")
    assert [row.level for row in Memory.examine(path, fix=True)][-1] == "error"
    assert dict(Memory.salvage(path, tmp_path / "salvaged.db").kept)["documents"] == 1


def test_views_and_computed_columns_of_others_stay(path: str) -> None:
    run(path, "CREATE TABLE theirs (a, b AS (a))", "CREATE VIEW listed AS SELECT a FROM theirs")
    with Memory.open(path) as memory:
        assert memory.search("friend").hits
        assert memory.store("Another note")


ENDLESS = "WITH RECURSIVE r (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT {} FROM r"


def columns(path: str, table: str) -> list[str]:
    file = apsw.Connection(path)
    names = [row[1] for row in file.execute(f"PRAGMA table_info({table})")]
    file.close()
    return [name for name in names if name != "rowid"]


def make_virtual(path: str, table: str) -> None:
    """Replace a table by one whose rows come from a view without an end."""
    names = columns(path, table)
    listed = ", ".join(["x AS place", *(f"'a' || x AS {name}" for name in names)])
    run(
        path,
        f"DROP TABLE {table}",
        f"CREATE VIEW endless AS {ENDLESS.format(listed)}",
        f"CREATE VIRTUAL TABLE {table} "
        f"USING fts5 ({', '.join(names)}, content = 'endless', content_rowid = 'place')",
    )


@pytest.mark.parametrize("name", ["meta", "documents", "generations", "signals", "frequent_terms"])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_virtual_table_in_the_place_of_a_table_is_not_read(
    path: str, name: str, read_only: bool, tmp_path: Path
) -> None:
    make_virtual(path, name)
    with pytest.raises(StoreDamaged, match=f"its table '{name}' is not plait's"):
        Memory.open(path, read_only=read_only)
    assert (Memory.examine(path)[-1].check, Memory.examine(path)[-1].level) == ("schema", "error")
    with pytest.raises(StoreDamaged, match=f"the table '{name}' is not plait's"):
        Memory.restore(path, tmp_path / "restored.db")
    assert dict(Memory.salvage(path, tmp_path / "salvaged.db").kept)["passages"] == 1


def test_what_the_keyword_index_is_made_from_is_not_read_if_it_is_not_plaits(path: str) -> None:
    endless = ENDLESS.format("x AS rowid, 'a' AS title, 'b' AS heading, 'c' AS text")
    run(
        path,
        "DROP VIEW passages_terms",
        f"CREATE VIEW passages_terms AS {endless}",
        "DELETE FROM passages_fts_docsize",  # so that opening would rebuild the index
    )
    with pytest.raises(StoreDamaged, match="its view 'passages_terms' is not plait's"):
        Memory.open(path)
    Memory.examine(path, fix=True)
    with Memory.open(path) as memory:
        assert [hit.document.key for hit in memory.search("friend").hits] == ["seed"]


def test_an_index_of_another_view_is_not_read(path: str) -> None:
    run(path, f"CREATE VIEW endless AS {ENDLESS.format('x AS rowid')}")
    rewrite(path, "passages_fts", "passages_terms", "endless")
    with pytest.raises(StoreDamaged, match="its table 'passages_fts' is not plait's"):
        Memory.open(path)


# -- triggers that hide --------------------------------------------------------------------------

DELETES = "AFTER INSERT ON documents BEGIN DELETE FROM documents WHERE rowid < new.rowid; END"


@pytest.mark.parametrize("hidden", ["type", "name", "tbl_name", "sql"])
def test_a_trigger_whose_words_are_bytes_is_found(path: str, hidden: str, tmp_path: Path) -> None:
    run(
        path,
        f"CREATE TRIGGER evil {DELETES}",
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_schema SET {hidden} = CAST({hidden} AS BLOB) WHERE name = 'evil'",
    )
    with pytest.raises(StoreDamaged, match="a value that is no text"):
        Memory.open(path)
    findings = Memory.examine(path, fix=True)
    assert [row.level for row in findings if "no text" in row.message] == ["error"]
    assert dict(Memory.salvage(path, tmp_path / "salvaged.db").kept)["documents"] == 1


@pytest.mark.parametrize("name", ["documents", "passages_fts_data", "sqlite_stat1"])
def test_a_trigger_with_the_name_of_a_table_is_found_and_removed(path: str, name: str) -> None:
    with Memory.open(path) as memory:
        run(path, f"CREATE TRIGGER evil {DELETES}")
        rewrite(path, "evil", "evil", name)
        run(
            path,
            "PRAGMA writable_schema = ON",
            f"UPDATE sqlite_schema SET name = '{name}' WHERE name = 'evil'",
        )
        with pytest.raises(StoreDamaged, match=f"its trigger '{name}' is not plait's"):
            memory.store("Another note")
    Memory.examine(path, fix=True)
    with Memory.open(path) as memory:
        assert [row.key for row in memory.timeline()] == ["seed"]
        assert not [row for row in memory.doctor() if row.level == "error"]


@pytest.mark.parametrize("version", [1, 8, 9])
@pytest.mark.parametrize("event", ["UPDATE ON documents", "UPDATE ON meta", "INSERT ON meta"])
def test_a_migration_runs_no_trigger_of_somebody_else(
    tmp_path: Path, version: int, event: str
) -> None:
    path = str(tmp_path / "old.db")
    run(
        path,
        *schema.MIGRATIONS[:version],
        f"PRAGMA user_version = {version}",
        f"PRAGMA application_id = {opening.APPLICATION_ID}",
        "INSERT INTO documents (id, key, kind, created_at, updated_at, event_at, indexed_at) "
        "VALUES ('abcdefghijklm', 'seed', 'note', 1, 1, 1, 1)",
        f"CREATE TRIGGER evil AFTER {event} BEGIN DELETE FROM documents; END",
    )
    for act in (Memory.open, lambda place: Memory.restore(place, tmp_path / "restored.db")):
        with pytest.raises(StoreDamaged, match="its trigger 'evil' is not plait's"):
            act(path)
    assert dict(Memory.salvage(path, tmp_path / "salvaged.db").kept)["documents"] == 1


# -- the numbers of rows -------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["9223372036854775807", "1e300", "'many'", "x'00'", "NULL"])
@pytest.mark.parametrize("table", ["documents", "passages", "audit"])
def test_a_number_behind_which_no_row_has_one_is_damage_and_no_full_disk(
    path: str, table: str, number: str
) -> None:
    run(path, f"UPDATE sqlite_sequence SET seq = {number} WHERE name = '{table}'")
    with Memory.open(path) as memory:
        assert memory.search("friend").hits
        with pytest.raises(StoreDamaged, match="the number of a last row cannot be read"):
            memory.store("Another note", key="other")
        assert [row.check for row in memory.doctor() if row.level == "error"] == ["values"]
        memory.doctor(fix=True)
        assert not [row for row in memory.doctor() if row.level == "error"]
        assert memory.store("Another note", key="other").id
