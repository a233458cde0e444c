"""Doctor: every planted damage is reported, and repaired where that is possible."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from plait.errors import StoreDamaged, StoreError, UsageError, advise
from plait.stores.sqlite import doctor, vectors
from plait.stores.sqlite.store import SQLiteStore
from plait.text import parse
from plait.types import Filter
from plait.types.reports import Finding
from tests.builders import (
    SPACE,
    begin,
    by_keyword,
    by_vector,
    delete,
    entry,
    fill,
    passages_of,
    vector,
    write,
)

X, Y = vector(1, 0, 0, 0), vector(0, 1, 0, 0)
FIX = advise("doctor_fix")
POSIX = pytest.mark.skipif(os.name != "posix", reason="file modes are a POSIX notion")


@pytest.fixture
def store(store: SQLiteStore) -> SQLiteStore:
    write(
        store,
        entry("a", "apple pie ", "日本語 text", vectors=[X, Y], title="A"),
        entry("b", "banana", vectors=[X], title="B"),
    )
    return store


def finding(store: SQLiteStore, check: str, *, fix: bool = False) -> Finding:
    [finding] = [row for row in store.check(fix=fix) if row.check == check]
    return finding


def run(store: SQLiteStore, sql: str, *values: object) -> None:
    store._connections.get().execute(sql, values).fetchall()


def without_triggers(store: SQLiteStore, sql: str) -> None:
    connection = store._connections.get()
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    run(store, sql)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 1)


def patch_vectors(store: SQLiteStore, ref: int, row: bytes | None) -> None:
    vectors.write(store._connections.get(), 1, SPACE.dims, {ref: row})


DAMAGES: dict[str, tuple[str, Callable[[SQLiteStore], None]]] = {
    "a ghost in the keyword index": (
        "keyword index",
        lambda store: run(
            store, "INSERT INTO passages_fts (rowid, text) VALUES (999, 'nobody wrote this')"
        ),
    ),
    "a passage missing from the keyword index": (
        "keyword index",
        lambda store: run(
            store,
            "INSERT INTO passages_fts (passages_fts, rowid, title, heading, text) "
            "SELECT 'delete', rowid, title, heading, text FROM passages_terms WHERE rowid = 1",
        ),
    ),
    "stale words in the keyword index": (
        "keyword index",
        lambda store: without_triggers(store, "UPDATE passages SET text = 'new' WHERE rowid = 1"),
    ),
    "a stale title in the keyword index": (
        "keyword index",
        lambda store: without_triggers(store, "UPDATE passages SET title_terms = 'new'"),
    ),
    "unreadable pieces of the keyword index": (
        "keyword index",
        lambda store: run(store, "UPDATE passages_fts_data SET block = x'00000000' WHERE id > 100"),
    ),
    "no pieces of the keyword index": (
        "keyword index",
        lambda store: run(store, "DELETE FROM passages_fts_data WHERE id > 10"),
    ),
    "an unreadable list of the keyword index's pieces": (
        "keyword index",
        lambda store: run(store, "UPDATE passages_fts_data SET block = x'ff' WHERE id = 10"),
    ),
    "statistics of the keyword index that are none": (
        "keyword index",
        lambda store: run(store, "UPDATE passages_fts_data SET block = 'text' WHERE id = 1"),
    ),
    "a keyword index without a table of its own": (
        "keyword index",
        lambda store: run(store, "DROP TABLE passages_fts_data"),
    ),
    "a vector without a passage": (
        "vectors",
        lambda store: patch_vectors(store, 999, b"\1\1\1\1"),
    ),
    "a passage that lost its vector": ("vectors", lambda store: patch_vectors(store, 1, None)),
    "a vector marked as missing": (
        "vectors",
        lambda store: run(store, "INSERT INTO unembedded VALUES (1, 1, 'pending')"),
    ),
    "a wrong count of passages": (
        "counts",
        lambda store: run(store, "UPDATE documents SET chunk_count = 7 WHERE key = 'a'"),
    ),
}


def test_a_sound_store_has_nothing_to_repair(store: SQLiteStore) -> None:
    findings = store.check()
    assert {row.level for row in findings} == {"ok"}, findings
    assert {"sqlite", "file system", "modes", "pages", "keyword index", "rows", "counts"} | {
        "vectors",
        "journal",
    } == {row.check for row in findings}


@pytest.mark.parametrize(("check", "plant"), DAMAGES.values(), ids=DAMAGES)
def test_planted_damage_is_reported_and_repaired(
    store: SQLiteStore, check: str, plant: Callable[[SQLiteStore], None]
) -> None:
    plant(store)
    reported = finding(store, check)
    assert reported.level in ("error", "warning")
    assert reported.advice == FIX
    assert not reported.fixed
    repaired = finding(store, check, fix=True)
    assert (repaired.level, repaired.fixed) == ("ok", True)
    assert all(row.level != "error" for row in store.check())
    assert finding(store, "keyword index").level == "ok"
    assert store.stats().doc_count == 2


def test_what_lost_its_vector_waits_for_another(store: SQLiteStore) -> None:
    patch_vectors(store, 1, None)
    store.check(fix=True)
    assert [row.ref for row in store.pending(SPACE, 10, building=False)] == [1]
    assert "1 passages wait" in finding(store, "vectors").message


def test_damage_in_a_generation_that_is_being_built_is_found_too(store: SQLiteStore) -> None:
    other = SPACE._replace(model="other")
    begin(store, other)
    assert finding(store, "vectors being built").level == "warning"
    first = store.pending(other, 1, building=True)
    fill(store, [(first[0].ref, X)], other, building=True)
    assert "not finished" in finding(store, "vectors being built").message
    vectors.write(store._connections.get(), 2, SPACE.dims, {first[0].ref: None})
    assert finding(store, "vectors being built").level == "error"
    assert finding(store, "vectors being built", fix=True).fixed


def test_a_passage_without_its_document_is_an_error(store: SQLiteStore) -> None:
    connection = store._connections.get()
    connection.execute("PRAGMA foreign_keys = OFF").fetchall()
    run(store, "UPDATE passages SET document = 999 WHERE rowid = 1")
    connection.execute("PRAGMA foreign_keys = ON").fetchall()
    assert finding(store, "rows").level == "error"


@POSIX
def test_loose_modes_are_found_and_made_private(store: SQLiteStore) -> None:
    path = Path(store.path)
    path.chmod(0o644)
    Path(store.path + "-wal").chmod(0o666)
    assert finding(store, "modes").level == "warning"
    assert finding(store, "modes", fix=True).fixed
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(store.path + "-wal").stat().st_mode) == 0o600
    assert finding(store, "modes").level == "ok"


@POSIX
@pytest.mark.parametrize(("mode", "warned"), [(0o700, 0), (0o755, 0), (0o777, 1), (0o1777, 0)])
def test_a_folder_that_others_may_write_is_warned_of(
    store: SQLiteStore, mode: int, warned: int
) -> None:
    folder = Path(store.path).parent
    Path(store.path).chmod(0o644)
    folder.chmod(mode)
    findings = store.check(fix=True)
    assert len([row for row in findings if row.check == "folder"]) == warned
    assert stat.S_IMODE(Path(store.path).stat().st_mode) == 0o600, "its files are mended anyway"


def test_broken_pages_are_an_error_and_nothing_is_repaired_on_top_of_them(
    store: SQLiteStore,
) -> None:
    store.tidy(compact=True)
    connection = store._connections.get()
    root = connection.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name = 'documents_by_event'"
    ).get
    size = connection.execute("PRAGMA page_size").get
    path = Path(store.path)
    store.close()
    data = bytearray(path.read_bytes())
    start = (root - 1) * size
    data[start : start + 100] = b"\xff" * 100
    path.write_bytes(data)
    broken = SQLiteStore(str(path))
    findings = broken.check(fix=True)
    assert findings[-1].check == "pages"
    assert findings[-1].level == "error"
    assert "backup" in findings[-1].message
    broken.close()


@pytest.mark.parametrize(
    ("version", "level"), [((3, 40, 1), "error"), ((3, 51, 2), "error"), ((3, 54, 1), "ok")]
)
def test_an_unsafe_sqlite_is_an_error(
    store: SQLiteStore,
    monkeypatch: pytest.MonkeyPatch,
    version: tuple[int, int, int],
    level: str,
) -> None:
    monkeypatch.setattr(doctor, "sqlite_version", lambda: version)
    assert finding(store, "sqlite").level == level


def test_wal_on_a_network_file_system_is_an_error(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "file_system", lambda _: "nfs4")
    assert "nfs4" in finding(store, "file system").message
    assert finding(store, "file system").level == "error"


def test_the_journal_is_emptied_by_a_fix(store: SQLiteStore) -> None:
    wal = Path(store.path + "-wal")
    assert wal.stat().st_size > 0
    assert "bytes" in finding(store, "journal").message
    assert finding(store, "journal", fix=True).fixed
    assert wal.stat().st_size == 0


def test_a_journal_in_use_is_said_to_be(store: SQLiteStore) -> None:
    reader = apsw.Connection(store.path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM documents").fetchall()
    store._connections.get().set_busy_timeout(1)
    write(store, entry("c", "cherry"))
    left = finding(store, "journal", fix=True)
    assert (left.level, left.fixed) == ("warning", False)
    reader.close()


def test_a_store_in_memory_is_examined_too() -> None:
    store = SQLiteStore(":memory:")
    write(store, entry("a", "apple", vectors=[X]))
    assert {row.level for row in store.check(fix=True)} == {"ok"}
    store.close()


@pytest.mark.parametrize(
    "lose",
    ["DELETE FROM passages_fts_config", "UPDATE passages_fts_config SET v = 99"],
)
def test_an_index_that_cannot_even_be_opened_is_repaired(store: SQLiteStore, lose: str) -> None:
    run(store, lose)
    store.close()
    again = SQLiteStore(store.path)
    with pytest.raises(StoreDamaged) as refused:
        again.keyword(parse("banana"), 10, Filter())
    assert refused.value.advice == FIX
    assert [row.check for row in again.check() if row.level == "error"] == ["keyword index"]
    assert {row.level for row in again.check(fix=True)} == {"ok"}
    assert len(again.keyword(parse("banana"), 10, Filter())) == 1
    again.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE passages_fts_data SET block = x'00000000' WHERE id > 100",
        "DELETE FROM passages_fts_data",
        "DROP TABLE passages_fts_data",
    ],
)
def test_a_damaged_index_refuses_a_search_and_still_reads_words(
    store: SQLiteStore, damage: str
) -> None:
    run(store, damage)
    with pytest.raises(StoreDamaged) as refused:
        store.keyword(parse("banana"), 10, Filter())
    assert refused.value.advice == FIX
    vocabulary = store.vocabulary(["Bananas"])
    assert [term for _, _, term in vocabulary.terms["Bananas"]] == ["banana"]
    assert not vocabulary.holding
    assert len(store.load([document.id for document in store.scan(Filter())])) == 2


# A lost index is filled again when the file is opened.


@pytest.mark.parametrize(
    "lose",
    [
        "INSERT INTO passages_fts (passages_fts) VALUES ('delete-all')",
        "DROP TABLE passages_fts",
        "DROP TABLE passages_vocab",
        "DROP TABLE passages_fts_data",
        "DROP TABLE passages_fts_config",
        "DELETE FROM passages_fts_data WHERE id = 1",
        "INSERT INTO passages_fts (rowid, text) VALUES (999, 'nobody wrote this')",
        *[
            "INSERT INTO passages_fts (passages_fts, rowid, title, heading, text) "
            f"SELECT 'delete', rowid, title, heading, text FROM passages_terms WHERE rowid = {lost}"
            for lost in (1, 2, 3)
        ],
    ],
)
def test_an_index_that_is_lost_or_holds_other_passages_is_filled_at_the_next_opening(
    store: SQLiteStore, lose: str
) -> None:
    run(store, lose)
    store.close()
    again = SQLiteStore(store.path)
    assert len(again.keyword(parse("banana"), 10, Filter())) == 1
    assert len(again.keyword(parse("日本"), 10, Filter())) == 1
    assert again.vocabulary(["banana"])[::2] == (3, {"banana": 1})
    assert {row.level for row in again.check()} == {"ok"}
    write(again, entry("c", "cherry"))
    delete(again, "a")
    assert {row.level for row in again.check() if row.check == "keyword index"} == {"ok"}
    again.close()


def test_passages_written_behind_the_index_are_found_after_the_next_opening(
    store: SQLiteStore,
) -> None:
    columns = "document, ordinal, start, start_line, end_line, text, hash"
    without_triggers(
        store,
        f"INSERT INTO passages (id, {columns}) "
        "SELECT 'behind', document, 9, 9, 9, 9, 'cherry', x'00' FROM passages WHERE rowid = 1",
    )
    store.close()
    again = SQLiteStore(store.path)
    assert len(again.keyword(parse("cherry"), 10, Filter())) == 1
    assert finding(again, "keyword index").level == "ok"
    again.close()


def test_an_index_in_step_is_left_alone_at_the_next_opening(store: SQLiteStore) -> None:
    delete(store, "a")
    write(store, entry("a", "apple"), entry("b", "cherry"))
    version = store._connections.get().execute("PRAGMA schema_version").get
    store.close()
    again = SQLiteStore(store.path)
    assert again._connections.get().execute("PRAGMA schema_version").get == version
    again.close()


@pytest.mark.parametrize(
    ("large", "harm", "rebuilt"),
    [
        (False, "SELECT 1", True),
        (True, "SELECT 1", False),
        (True, "UPDATE meta SET value = 'older' WHERE name = 'analyzer'", True),
        (True, "UPDATE passages_fts_data SET block = x'00000000' WHERE id > 100", True),
        (True, "INSERT INTO passages_fts (rowid, text) VALUES (999, 'nobody wrote this')", True),
    ],
)
def test_a_large_index_is_rebuilt_only_where_it_does_not_serve(
    store: SQLiteStore, large: bool, harm: str, rebuilt: bool
) -> None:
    with store.transaction() as tx:
        tx.remember(indexed_by=store.analyzer)
    if large:
        store.rebuilt_passages = 3
    run(store, harm)
    connection = store._connections.get()
    version = connection.execute("PRAGMA schema_version").get
    store.tidy(keywords=True)
    assert (connection.execute("PRAGMA schema_version").get != version) is rebuilt
    assert finding(store, "keyword index").level == "ok"
    version = connection.execute("PRAGMA schema_version").get
    assert store._rebuild_keywords(force=True) == 3
    assert connection.execute("PRAGMA schema_version").get != version


def test_an_index_out_of_step_in_a_file_that_cannot_be_written_is_used_as_it_is(
    store: SQLiteStore,
) -> None:
    run(
        store,
        "INSERT INTO passages_fts (passages_fts, rowid, title, heading, text) "
        "SELECT 'delete', rowid, title, heading, text FROM passages_terms WHERE rowid = 1",
    )
    run(store, "PRAGMA query_only = ON")
    store._repair_lost_keywords()
    assert len(store.keyword(parse("apple"), 10, Filter())) == 0
    assert len(store.keyword(parse("banana"), 10, Filter())) == 1


def test_passages_split_under_older_rules_are_split_afresh_even_over_a_lost_index(
    store: SQLiteStore,
) -> None:
    run(store, "UPDATE passages SET text_terms = 'old split' WHERE rowid = 2")
    run(store, "INSERT INTO passages_fts (passages_fts) VALUES ('delete-all')")
    store.tidy(keywords=True)
    assert len(store.keyword(parse("日本"), 10, Filter())) == 1
    assert store.keyword(parse("split"), 10, Filter()) == []
    assert finding(store, "keyword index").level == "ok"


# Backups


def test_a_backup_is_a_whole_store(store: SQLiteStore, tmp_path: Path) -> None:
    write(store, entry("k", "cherry ", "pie", vectors=[vector(0, 0, 1, 0), None]))
    target = tmp_path / "copy.db"
    store.backup(str(target))
    copy = SQLiteStore(str(target), create=False)
    assert passages_of(copy, "k") == passages_of(store, "k")
    assert by_keyword(copy, "cherry") == ["k"]
    assert (by_vector(copy, 0, 0, 1, 0), copy.state().pending) == (["k"], 1)
    assert all(row.level != "error" for row in copy.check())
    copy.close()


@POSIX
def test_a_backup_is_private_whatever_the_umask(store: SQLiteStore, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store.backup(str(tmp_path / "copy.db"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600


def test_a_backup_never_overwrites(store: SQLiteStore, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_text("precious", encoding="utf-8")
    with pytest.raises(UsageError, match="already exists"):
        store.backup(str(target))
    assert target.read_text(encoding="utf-8") == "precious"


def test_a_backup_that_fails_leaves_nothing_behind(store: SQLiteStore, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="Cannot write the backup"):
        store.backup(str(tmp_path / "absent" / "copy.db"))
    with pytest.raises(StoreError):
        store.backup(str(tmp_path / ("n" * 300)))
    assert [file.name for file in tmp_path.iterdir() if "memory.db" not in file.name] == []


def test_a_backup_is_of_one_moment_while_others_write(store: SQLiteStore, tmp_path: Path) -> None:
    writer = SQLiteStore(store.path)
    connection = writer._connections.get()
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE documents SET title = 'half done'")
    store.backup(str(tmp_path / "copy.db"))
    connection.execute("ROLLBACK")
    writer.close()
    copy = SQLiteStore(str(tmp_path / "copy.db"))
    assert sorted(document.title for document in copy.scan(Filter())) == ["A", "B"]
    copy.close()
