"""The list of tags agrees with the documents, whatever writes them, and filters agree with both."""

import json
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.memory import Memory
from plait.stores.sqlite import carving, filters, schema
from plait.stores.sqlite import connection as opening
from plait.stores.sqlite.filters import LIST_TAGS_OF_NEW
from plait.stores.sqlite.store import SQLiteStore
from plait.types import Document, Filter
from tests.builders import by_keyword, delete, entry, write

TAGS = ("a", "a/b", "a/c", "a0", "ab", "b", "café", "cafe\u0301", "untrusted", '"]', "A")


@pytest.fixture(params=[1_000, 0], ids=["by the list", "by the documents"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[SQLiteStore]:
    monkeypatch.setattr(filters, "LEAST_TAGGED", request.param)
    opened = SQLiteStore(":memory:")
    yield opened
    opened.close()


def listed(store: SQLiteStore) -> list[tuple[str, int]]:
    return list(store._connections.get().execute("SELECT tag, document FROM document_tags"))


def written(store: SQLiteStore) -> list[tuple[str, int]]:
    """What the list should have, by reading every document."""
    rows = store._connections.get().execute("SELECT rowid, tags FROM documents")
    return sorted((tag, rowid) for rowid, tags in rows for tag in set(json.loads(tags)))


def has(tags: tuple[str, ...], tag: str) -> bool:
    """Tell whether a document has a tag or one below it, in any spelling: the rule, by hand."""
    spellings = {"café": ("café", "cafe\u0301"), "cafe\u0301": ("café", "cafe\u0301")}
    return any(
        own == form or own.startswith(f"{form}/")
        for own in tags
        for form in spellings.get(tag, (tag,))
    )


CHANGES = st.lists(
    st.tuples(
        st.sampled_from("vwxyz"),
        st.none() | st.lists(st.sampled_from(TAGS), max_size=3).map(tuple),
    ),
    max_size=12,
)


@pytest.mark.parametrize("few", [1_000, 0])
@settings(max_examples=25)
@given(changes=CHANGES)
def test_a_filter_selects_what_a_plain_scan_selects(
    few: int, changes: list[tuple[str, tuple[str, ...] | None]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filters, "LEAST_TAGGED", few)
        store = SQLiteStore(":memory:")
        kept: dict[str, tuple[str, ...]] = {}
        for key, tags in changes:
            if tags is None:
                delete(store, key)
                kept.pop(key, None)
            else:
                write(store, entry(key, "word", tags=tags))
                kept[key] = tags
        assert listed(store) == written(store)
        for tag in TAGS:
            wanted = {key for key, tags in kept.items() if has(tags, tag)}
            assert {row.key for row in store.scan(Filter(tags=(tag,)))} == wanted
            assert set(by_keyword(store, "word", 10, Filter(tags=(tag,)))) == wanted
            wanted &= {key for key, tags in kept.items() if has(tags, "a")}
            assert {row.key for row in store.scan(Filter(tags=(tag, "a")))} == wanted
        store.close()


def test_a_tag_of_few_documents_is_looked_up_and_one_of_many_is_not(store: SQLiteStore) -> None:
    write(store, *[entry(f"{n}", "word", tags=("many",)) for n in range(3)])
    write(store, entry("one", "word", tags=("few",)))
    connection = store._connections.get()
    [(sql, _)] = filters.clauses(connection, Filter(tags=("many",)), 0)
    assert ("document_tags" in sql) == (filters.LEAST_TAGGED > 0)
    plan = [
        row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {of_passages(sql)}", ("",) * 3)
    ]
    assert any("SCAN d" in line for line in plan) == (filters.LEAST_TAGGED == 0), plan


def of_passages(condition: str) -> str:
    return (
        "SELECT p.rowid FROM documents AS d JOIN passages AS p ON p.document = d.rowid "
        f"WHERE {condition}"
    )


def tagged(memory: Memory, tag: str) -> set[str | None]:
    return {row.document.key for row in memory.search("", where={"tags": [tag]})}


def test_every_verb_that_writes_tags_keeps_the_list(memory: Memory, tmp_path: Path) -> None:
    engine = memory.engine
    assert isinstance(engine, SQLiteStore)

    def agree() -> None:
        assert listed(engine) == written(engine)

    memory.store("one", key="one", tags=["x", "x/y"])
    memory.store("two", key="two", tags=["x"])
    memory.store_many([Document(text="three", key="three", tags=("y",))])
    agree()
    backup = memory.backup(tmp_path / "backup.db")
    memory.store("one, again", key="one", tags=["y"])
    assert (tagged(memory, "x"), tagged(memory, "y")) == ({"two"}, {"one", "three"})
    lines = list(memory.export())
    memory.delete("one", "two")
    assert (tagged(memory, "x"), tagged(memory, "y")) == (set(), {"three"})
    agree()
    memory.undo()
    assert (tagged(memory, "x"), tagged(memory, "y")) == ({"two"}, {"one", "three"})
    memory.delete("one", "two", purge=True)
    agree()
    memory.import_lines(lines)
    assert (tagged(memory, "x"), tagged(memory, "y")) == ({"two"}, {"one", "three"})
    note = tmp_path / "note.md"
    note.write_text("---\ntags: [x, z]\n---\nfrom a file", encoding="utf-8")
    memory.ingest(note)
    assert len(tagged(memory, "z")) == 1
    note.write_text("---\ntags: [x]\n---\nfrom a file", encoding="utf-8")
    memory.ingest(note)
    assert tagged(memory, "z") == set()
    memory.reindex()
    agree()
    Memory.restore(backup, engine.path)
    assert (tagged(memory, "x"), tagged(memory, "y")) == ({"one", "two"}, {"three"})


def of_version_7(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    for migration in schema.MIGRATIONS[:7]:
        for _ in connection.execute(migration):
            pass
    connection.execute("PRAGMA user_version = 7")
    connection.execute(f"PRAGMA application_id = {opening.APPLICATION_ID}")
    return connection


STORED = ('["b", "a", "a"]', "[]", "[1", "7", '[1, null, ["c"], "d"]', '{"e": "f"}', '["g"]')


def insert(connection: apsw.Connection, number: int, tags: str) -> None:
    connection.execute(
        "INSERT INTO documents (id, key, kind, tags, created_at, updated_at, event_at, indexed_at) "
        "VALUES (?, ?, 'note', ?, 1, 1, 1, 1)",
        (f"{'a' * 12}{number}", f"k{number}", tags),
    )


def test_an_older_file_gets_the_list_and_damaged_tags_do_not_keep_it_from_opening(
    tmp_path: Path,
) -> None:
    path = tmp_path / "memory.db"
    connection = of_version_7(path)
    for number, tags in enumerate(STORED):
        insert(connection, number, tags)
    connection.close()
    store = SQLiteStore(str(path))
    wanted = [("a", 1), ("b", 1), ("d", 5), ("f", 6), ("g", 7)]
    assert listed(store) == wanted
    assert [row.key for row in store.scan(Filter(tags=("b",)))] == ["k0"]
    store.close()
    # Writers and triggers read tags as the migration does.
    store = SQLiteStore(":memory:")
    for number, tags in enumerate(STORED):
        insert(store._connections.get(), number, tags)
        store._connections.get().execute(LIST_TAGS_OF_NEW, (number + 1, tags))
    assert listed(store) == wanted
    store._connections.get().execute("UPDATE documents SET tags = '[\"h\"]' WHERE rowid < 7")
    store._connections.get().execute("DELETE FROM documents WHERE rowid IN (2, 7)")
    assert listed(store) == [("h", rowid) for rowid in (1, 3, 4, 5, 6)]
    store.close()


def test_no_trigger_slows_the_insert_of_a_document() -> None:
    # Beside one, SQLite copies every page that the new row changes: three times the time.
    store = SQLiteStore(":memory:")
    triggers = store._connections.get().execute(
        "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'documents' "
        "AND sql LIKE '% AFTER INSERT ON %'"
    )
    assert triggers.fetchall() == []
    store.close()


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM document_tags WHERE tag = 'a'",
        "INSERT INTO document_tags VALUES ('b', 1)",
        "INSERT INTO document_tags VALUES ('a', 99)",
        "INSERT INTO document_tags VALUES (x'61', 1)",
    ],
)
def test_doctor_makes_a_wrong_list_again(memory: Memory, damage: str) -> None:
    memory.store("one", key="one", tags=["a"])
    memory.store("two", key="two", tags=["b"])
    engine = memory.engine
    assert isinstance(engine, SQLiteStore)
    engine._connections.get().execute(damage)
    assert [row.check for row in engine.check() if row.level != "ok"] == ["tags"]
    assert "tags" in [row.check for row in engine.check(fix=True) if row.fixed]
    assert listed(engine) == written(engine) == [("a", 1), ("b", 2)]
    assert {row.level for row in engine.check()} == {"ok"}


def test_a_wrong_list_keeps_no_document_from_being_written(memory: Memory) -> None:
    memory.store("one", key="one", tags=["a"])
    engine = memory.engine
    assert isinstance(engine, SQLiteStore)
    engine._connections.get().execute("INSERT INTO document_tags VALUES ('a', 2), ('b', 1)")
    memory.store("two", key="two", tags=["a"])
    memory.store("one again", key="one", tags=["b"])
    assert listed(engine) == written(engine) == [("a", 2), ("b", 1)]


def test_mended_tags_are_listed(memory: Memory) -> None:
    memory.store("one", key="one", tags=["a"])
    engine = memory.engine
    assert isinstance(engine, SQLiteStore)
    engine._connections.get().execute("UPDATE documents SET tags = '[\"b\", 7]'")
    engine.check(fix=True)
    assert listed(engine) == written(engine)
    assert tagged(memory, "b") == {"one"}


def test_a_tag_that_reads_like_a_trust_gives_what_is_salvaged_none() -> None:
    for entries in (["untrusted", "quarantined"], ["quarantined", "trusted", "untrusted"]):
        hints = carving.Hints({}, {}, {}, set(), set())
        for name in entries:
            carving._note((name, 1), hints)
        assert hints.trusts == {1: "quarantined"}
