"""The file's version: what is refused, what becomes a memory, and that it happens whole or not."""

import json
import os
import stat
from pathlib import Path

import apsw
import pytest

from plait.errors import (
    SchemaTooNew,
    StoreDamaged,
    StoreError,
    StoreReadOnly,
    UsageError,
    advise,
)
from plait.stores import exists, open_store
from plait.stores.sqlite import connection as opening
from plait.stores.sqlite import foreign, objects, reading, schema, trash, vectors
from plait.stores.sqlite.documents import passage_hash
from plait.stores.sqlite.store import SQLiteStore
from plait.stores.sqlite.transaction import LAST_TURN
from plait.text import parse
from plait.types import Filter
from tests.builders import EVERYTHING, SPACE, by_keyword, entry, fill, keys_of, swap, vector, write


def tables(path: Path) -> set[str]:
    connection = apsw.Connection(str(path))
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    connection.close()
    return names


def run(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def test_the_version_counts_the_migrations() -> None:
    assert len(schema.MIGRATIONS) == opening.SCHEMA_VERSION


def test_an_address_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(UsageError) as refused:
        open_store("postgresql://localhost/x?namespace=")
    assert refused.value.notice.code == "bad_namespace"


def test_a_new_file_carries_our_name_and_version(path: Path) -> None:
    SQLiteStore(str(path)).close()
    connection = apsw.Connection(str(path))
    assert connection.execute("PRAGMA user_version").get == opening.SCHEMA_VERSION
    assert connection.execute("PRAGMA application_id").get == opening.APPLICATION_ID
    connection.close()
    assert opening.APPLICATION_ID.to_bytes(4, "big") == b"plai"


def test_a_file_of_a_newer_plait_is_refused_and_left_alone(path: Path) -> None:
    store = SQLiteStore(str(path))
    write(store, entry("k", "apple"))
    store.close()
    run(path, f"PRAGMA user_version = {opening.SCHEMA_VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(SchemaTooNew) as refused:
        SQLiteStore(str(path))
    assert f"version {opening.SCHEMA_VERSION + 1}" in refused.value.notice.text
    assert refused.value.advice == advise("upgrade")
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [0, 1, opening.SCHEMA_VERSION, 7])
def test_somebody_elses_database_is_refused_and_left_alone(path: Path, version: int) -> None:
    run(path, "CREATE TABLE theirs (x)", f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(StoreDamaged) as refused:
        SQLiteStore(str(path))
    assert refused.value.notice.code == "not_a_memory"
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"just some text that is no database at all", b"SQLite format 3\0" + b"x" * 200]
)
def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content * 20)
    with pytest.raises(StoreDamaged):
        SQLiteStore(str(path))
    assert path.read_bytes() == content * 20


def test_an_empty_file_becomes_a_memory(path: Path) -> None:
    path.touch()
    store = SQLiteStore(str(path))
    write(store, entry("k", "apple"))
    assert len(store.keyword(parse("apple"), 10, Filter())) == 1
    store.close()


def test_a_folder_is_no_memory(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        SQLiteStore(str(tmp_path))


def test_an_absent_file_stays_absent_when_it_must_not_be_created(path: Path) -> None:
    with pytest.raises(StoreError) as refused:
        SQLiteStore(str(path), create=False)
    assert refused.value.notice.code == "no_memory"
    assert not path.exists()


def test_an_empty_file_stays_empty_when_nothing_must_be_created(path: Path) -> None:
    path.touch()
    assert not exists(str(path))
    with pytest.raises(StoreError) as refused:
        SQLiteStore(str(path), create=False)
    assert refused.value.notice.code == "no_memory"
    assert path.stat().st_size == 0
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.skipif(os.name != "posix", reason="file modes are a POSIX notion")
def test_an_empty_file_that_becomes_a_memory_becomes_private(path: Path) -> None:
    path.touch()
    path.chmod(0o644)
    SQLiteStore(str(path)).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    SQLiteStore(str(path)).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640, "a memory keeps the mode its owner gave it"


def test_a_memory_exists_once_it_is_made(path: Path) -> None:
    assert not exists(str(path))
    assert not exists(f"{path}\0")
    SQLiteStore(str(path)).close()
    assert exists(str(path))
    assert not exists(str(path / "below"))
    assert exists(str(path.parent)), "a folder is no memory, but opening it must say so"
    assert exists(os.devnull), "nothing but a plain file may be made into a memory"


def test_a_migration_that_fails_half_way_leaves_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = (*schema.MIGRATIONS, "CREATE TABLE extra (x); CREATE TABLE extra (x);")
    monkeypatch.setattr(schema, "MIGRATIONS", broken)
    monkeypatch.setattr(opening, "SCHEMA_VERSION", len(broken))
    with pytest.raises(StoreError, match="extra"):
        SQLiteStore(str(path))
    assert tables(path) == set()
    monkeypatch.undo()
    SQLiteStore(str(path)).close()
    assert "passages" in tables(path)


def test_an_older_file_is_brought_up_to_date_and_keeps_its_documents(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SQLiteStore(str(path))
    write(store, entry("k", "apple"))
    store.close()
    later = (*schema.MIGRATIONS, "CREATE TABLE later (x); INSERT INTO later VALUES (1);")
    monkeypatch.setattr(schema, "MIGRATIONS", later)
    monkeypatch.setattr(opening, "SCHEMA_VERSION", len(later))
    store = SQLiteStore(str(path))
    assert store.stats().schema == len(later)
    assert len(store.keyword(parse("apple"), 10, Filter())) == 1
    store.close()
    assert "later" in tables(path)


@pytest.mark.parametrize("version", range(reading.OLDEST_READABLE, opening.SCHEMA_VERSION))
def test_a_file_that_cannot_be_written_is_read_without_migrations_that_only_add_an_index(
    path: Path, version: int
) -> None:
    store = SQLiteStore(str(path))
    write(store, entry("k", "apple"))
    store.close()
    run(path, "DROP INDEX documents_by_content", f"PRAGMA user_version = {version}")
    store = SQLiteStore(str(path), read_only=True)
    assert len(store.keyword(parse("apple"), 10, Filter())) == 1
    assert store.scan(Filter(kinds=("file",), hashes=("0",))) == []
    store.close()
    run(path, f"PRAGMA user_version = {reading.OLDEST_READABLE - 1}")
    with pytest.raises(StoreReadOnly, match="copy it to where it can"):
        SQLiteStore(str(path), read_only=True)


def test_migrating_twice_changes_nothing(path: Path) -> None:
    store = SQLiteStore(str(path))
    connection = store._connections.get()
    before = connection.execute("PRAGMA schema_version").get
    schema.migrate(connection)
    assert connection.execute("PRAGMA schema_version").get == before
    store.close()


# Migration 4

OTHER = SPACE._replace(model="other")
# Key, project, session: two conversations in one project, one of the same name elsewhere.
MESSAGES = [
    ("a1", "", "a"),
    ("b1", "", "b"),
    ("p1", "p", "a"),
    ("a2", "", "a"),
    ("b2", "", "b"),
    ("a3", "", "a"),
]


def insert(connection: apsw.Connection, table: str, **values: object) -> int:
    marks = ", ".join("?" * len(values))
    connection.execute(
        f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values())
    )
    return connection.last_insert_rowid()


def write_row(connection: apsw.Connection, key: str, **fields: object) -> int:
    """A document of schema 3 with one passage, whose ref is returned."""
    times = dict.fromkeys(("created_at", "updated_at", "event_at", "indexed_at"), 1)
    values = {"id": f"{key:x>13}", "key": key, "kind": "note", "chunk_count": 1, **times, **fields}
    document = insert(connection, "documents", **values)
    return insert(
        connection,
        "passages",
        id=f"{key:y>13}",
        document=document,
        ordinal=0,
        start=0,
        start_line=1,
        end_line=1,
        text=f"apple {key}",
        hash=passage_hash("", f"apple {key}"),
    )


@pytest.fixture
def old_file(path: Path) -> Path:
    """A file of schema 3 in which a reindex was interrupted."""
    connection = apsw.Connection(str(path))
    for migration in schema.MIGRATIONS[:3]:
        for _ in connection.execute(migration):
            pass
    connection.execute("PRAGMA user_version = 3")
    connection.execute(f"PRAGMA application_id = {opening.APPLICATION_ID}")
    refs = [
        write_row(connection, key, kind="message", project=project, session=session)
        for key, project, session in MESSAGES
    ]
    refs.append(write_row(connection, "note", session="a"))
    refs.append(write_row(connection, "alone", kind="message"))
    for number, (space, current, filled) in enumerate([(SPACE, 1, 0), (OTHER, 0, refs[3])], 1):
        name = json.dumps(list(space))
        insert(connection, "generations", space=name, dims=4, current=current, filled_to=filled)
        made = refs if current else [refs[0], refs[2], refs[3], refs[5]]
        data = bytearray(4 * vectors.BLOCK_ROWS)
        for ref in made:
            data[4 * ref] = 127
        insert(connection, "vector_blocks", generation=number, block=0, data=bytes(data))
    # Written again behind the mark, and declined by its nature.
    insert(connection, "unembedded", generation=2, passage=refs[1], reason="pending")
    insert(connection, "unembedded", generation=2, passage=refs[6], reason="declined")
    record = {
        "document": {"id": "gone", "key": "gone", "kind": "note", "text": "pear", "tags": ["t"]},
        "passages": [["ppppppppppppp", 0, 0, 1, 1, "H", "pear"]],
        "place": 3,
    }
    insert(connection, "trash", id="gone", deleted_at=7, batch="b", document=json.dumps(record))
    insert(connection, "meta", name="chunker", value="1:1200:120")
    insert(connection, "meta", name="latest_turn", value="9")
    connection.close()
    return path


def test_old_messages_become_turns_of_their_session_in_the_order_of_their_rows(
    old_file: Path,
) -> None:
    store = SQLiteStore(str(old_file))
    turns = {
        row.key: (row.project, row.session, row.turn)
        for row in store.scan(Filter(kinds=("message",)))
        if row.turn is not None
    }
    assert turns == {
        "a1": (None, "a", 1),
        "a2": (None, "a", 2),
        "a3": (None, "a", 3),
        "b1": (None, "b", 1),
        "b2": (None, "b", 2),
        "p1": ("p", "a", 1),
    }
    assert {row.role for row in store.scan(EVERYTHING)} == {None}
    with store.transaction() as tx:
        assert (tx.next_turn(None, "a"), tx.next_turn("p", "a")) == (4, 2)
    refs = [ref for ref, _ in store.keyword(parse("apple"), 20, EVERYTHING)]
    known = store.turns(refs)
    assert sorted(keys_of(store, known)) == sorted(key for key, _, _ in MESSAGES)
    assert len({turn.session for turn in known.values()}) == 3
    store.close()


def test_old_unfinished_vectors_list_what_they_lack(old_file: Path) -> None:
    store = SQLiteStore(str(old_file))
    state = store.state()
    assert (state.space, state.building, state.pending) == (SPACE, OTHER, 0)
    waiting = store.pending(OTHER, 20, building=True)
    # Past the mark: b2 and a3 and those after them, but not what was declined.
    assert keys_of(store, [row.ref for row in waiting]) == ["b1", "b2", "a3", "alone"]
    assert [row.level for row in store.check() if row.check == "vectors being built"] == ["warning"]
    assert not swap(store, OTHER)
    fill(store, [(row.ref, vector(0, 1, 0, 0)) for row in waiting], OTHER, building=True)
    assert swap(store, OTHER)
    assert store.state().space == OTHER
    assert {row.level for row in store.check()} <= {"ok", "warning"}
    assert store.stats().embedded_count == 7
    store.close()


def test_every_block_of_an_old_file_gets_a_version_of_its_own(old_file: Path) -> None:
    store = SQLiteStore(str(old_file))
    listed = list(
        store._connections.get().execute(
            "SELECT b.generation, v.version FROM vector_blocks AS b "
            "LEFT JOIN block_versions AS v USING (generation, block)"
        )
    )
    assert [generation for generation, _ in listed] == [1, 2]
    assert len({version for _, version in listed} - {None}) == 2
    store.close()


def test_an_older_plait_that_still_runs_writes_no_vectors_without_versions(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SQLiteStore(str(path))
    older = {name: own for name, own in objects.own_objects().items() if name != "block_versions"}
    monkeypatch.setattr(objects, "own_objects", lambda: older)
    monkeypatch.setattr(foreign, "OWN_SCHEMA", "of the older one")
    with pytest.raises(StoreDamaged, match="block_versions"):
        write(store, entry("k", "apple"))
    store.close()


def test_an_old_file_keeps_its_trash_its_facts_and_its_words(old_file: Path) -> None:
    store = SQLiteStore(str(old_file))
    [row] = store.trashed()
    assert (row.batch, row.deleted_at, row.place) == ("b", 7, 3)
    assert (row.document.key, row.document.tags, row.document.turn) == ("gone", ("t",), None)
    assert [(passage.id, passage.heading) for passage in row.passages] == [("ppppppppppppp", "H")]
    assert row.names == ("ppppppppppppp",)
    state = store.state()
    assert (state.chunker, state.changed_at, state.has_messages) == ("1:1200:120", 9, True)
    assert len(by_keyword(store, "apple", 20)) == 8
    assert store.stats().schema == opening.SCHEMA_VERSION
    write(store, entry("a1", "new", kind="message", session="a", turn=1))
    store.close()
    SQLiteStore(str(old_file)).close()


def test_the_trash_of_an_old_file_knows_its_entities_even_beside_a_damaged_row(
    old_file: Path,
) -> None:
    document = {"id": "tea", "kind": "observation", "parent": "gone", "tags": []}
    record = {"document": document, "passages": []}
    connection = apsw.Connection(str(old_file))
    insert(connection, "trash", id="tea", deleted_at=8, batch="b", document=json.dumps(record))
    insert(connection, "trash", id="torn", deleted_at=9, batch="c", document='{"document": {"par')
    connection.close()
    store = SQLiteStore(str(old_file))
    with store.transaction() as tx:
        assert [row.document.id for row in tx.trashed(["gone"])] == ["tea", "gone"]
        assert [row.document.id for row in tx.trashed(["tea"])] == ["tea", "gone"]
        tx.forget(["torn"])
    assert len(store.trashed()) == 2
    store.close()


def test_a_part_of_the_trash_is_read_by_indexes(path: Path) -> None:
    SQLiteStore(str(path)).close()
    connection = apsw.Connection(str(path))
    query = "EXPLAIN QUERY PLAN " + trash._LISTED.format("document", trash._RELATED)
    plan = "\n".join(str(step[3]) for step in connection.execute(query, ("[]",)))
    assert "SCAN trash" not in plan
    assert "INDEX trash_by_parent (parent=?)" in plan
    connection.close()


def test_the_last_turn_of_a_long_session_is_read_from_the_end_of_an_index(path: Path) -> None:
    SQLiteStore(str(path)).close()
    connection = apsw.Connection(str(path))
    [(*_, plan)] = connection.execute(f"EXPLAIN QUERY PLAN {LAST_TURN}", ("", "talk"))
    assert "COVERING INDEX documents_by_turn (project=? AND session=?" in str(plan)
    connection.close()


def test_untrusted_trash_is_read_by_its_index_alone(path: Path) -> None:
    """Comparing a new text costs nothing where nothing untrusted was deleted."""
    SQLiteStore(str(path)).close()
    connection = apsw.Connection(str(path))
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {trash._DISTRUSTED}")]
    connection.close()
    assert plan == ["SCAN trash USING INDEX trash_distrusted"]


def test_a_trash_row_that_is_no_json_does_not_keep_new_texts_out(path: Path) -> None:
    store = SQLiteStore(str(path))
    connection = apsw.Connection(str(path))
    for id_, record in (("a", "{broken"), ("b", '{"document": {"trust": "untrusted"}}')):
        connection.execute("INSERT INTO trash VALUES (?, 1, '', ?, NULL, NULL)", (id_, record))
    connection.close()
    assert store.trashed(distrusted=10) == []
    store.close()


def test_documents_that_are_not_trusted_are_read_by_their_index(path: Path) -> None:
    # An agent's text is compared with them at every store; most memories have very few.
    store = SQLiteStore(str(path))
    statements: list[str] = []
    connection = store._connections.get()
    connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: statements.append(event["sql"]))
    store.scan(Filter(trusts=("untrusted", "quarantined"), all_versions=True), limit=1)
    connection.trace_v2(0, None)
    [query] = [sql for sql in statements if "FROM documents" in sql and "LIMIT" in sql]
    values = [None] * query.count("?")
    plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", values)]
    store.close()
    assert any("documents_distrusted" in step for step in plan), plan
