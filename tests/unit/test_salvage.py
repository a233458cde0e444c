"""Salvage: what can be read of a damaged memory goes into a new one, and the rest is told."""

import json
import os
import stat
from pathlib import Path

import apsw
import pytest

from plait.errors import NotFound, StoreDamaged, StoreError, UsageError
from plait.memory import Memory
from plait.present.text import salvaged_text
from plait.stores import salvage
from plait.stores.sqlite import schema
from plait.stores.sqlite.connection import APPLICATION_ID
from plait.stores.sqlite.pages import PageReader
from plait.stores.sqlite.store import SQLiteStore
from plait.testing import HashingEmbedder
from plait.types import TRUSTS
from plait.types.reports import Salvaged
from tests.builders import EVERYTHING, entry, write
from tests.reliability import damage
from tests.reliability.memories import documents, settings, store_of

PAGE = damage.PAGE


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return damage.build(tmp_path_factory.mktemp("whole") / "memory.db")


def salvaged(folder: Path, data: bytes) -> tuple[Salvaged, Path]:
    old, new = folder / "old.db", folder / "new.db"
    old.write_bytes(data)
    report = salvage(str(old), str(new))
    assert old.read_bytes() == data
    assert sorted(path.name for path in folder.iterdir()) == ["new.db", "old.db"]
    return report, new


def opened(path: Path) -> Memory:
    config = settings(path)._replace(project="harbour")
    return Memory.open(embedder=HashingEmbedder(), config=config)


def dump(path: Path, *tables: str) -> dict[str, list[tuple[object, ...]]]:
    connection = apsw.Connection(str(path))
    rows = {
        table: sorted(connection.execute(f"SELECT * FROM {table}").fetchall(), key=repr)
        for table in tables
    }
    connection.close()
    return rows


def lost(report: Salvaged) -> dict[str, tuple[int, tuple[str, ...]]]:
    return {loss.table: (loss.rows, loss.names) for loss in report.lost}


def pages_of(data: bytes, table: str) -> list[int]:
    """The pages of a table, by SQLite's own account."""
    connection = apsw.Connection(":memory:")
    connection.deserialize("main", data[:18] + b"\1\1" + data[20:])
    pages = [
        int(page)
        for (page,) in connection.execute("SELECT pageno FROM dbstat WHERE name = ?", (table,))
    ]
    connection.close()
    return pages


def without_page(data: bytes, page: int) -> bytes:
    return data[: (page - 1) * PAGE] + bytes(PAGE) + data[page * PAGE :]


# -- whole files -----------------------------------------------------------------------------


def test_a_sound_memory_is_copied_row_by_row(whole: bytes, tmp_path: Path) -> None:
    report, new = salvaged(tmp_path, whole)
    assert (report.lost, report.mended) == ((), ())
    tables = ("documents", "passages", "relations", "trash", "signals", "signal_pairs")
    copied = (*tables, "embedding_cache", "trashed_relations", "histories", "steps")
    assert dump(new, *copied) == dump(tmp_path / "old.db", *copied)
    assert set(tables) <= dict(report.kept).keys()
    with opened(new) as memory:
        levels = {row.check: row.level for row in memory.doctor()}
        assert levels.pop("vectors") == "warning", "they wait to be made again"
        assert set(levels.values()) == {"ok"}
        stats = memory.stats()
        assert stats.pending_count == stats.chunk_count
        assert stats.space is not None
        assert stats.space.provider == "hashing"
        memory.reindex()
        assert memory.stats().pending_count == 0
        assert memory.undo()


def test_the_new_file_is_private(whole: bytes, tmp_path: Path) -> None:
    _, new = salvaged(tmp_path, whole)
    if os.name == "posix":
        assert stat.S_IMODE(new.stat().st_mode) == 0o600


def test_what_is_only_in_the_journal_is_salvaged_while_the_memory_is_in_use(
    tmp_path: Path,
) -> None:
    store = SQLiteStore(str(tmp_path / "memory.db"))
    write(store, entry("a", "apple"), entry("b", "x" * 300_000))
    assert Path(store.path).stat().st_size < Path(store.path + "-wal").stat().st_size
    report = salvage(store.path, str(tmp_path / "new.db"))
    assert report.lost == ()
    write(store, entry("c", "cherry"))  # its locks are still its own
    store.close()
    copy = SQLiteStore(str(tmp_path / "new.db"))
    assert {row.key: len(row.text) for row in copy.scan(EVERYTHING, whole=True)} == {
        "a": 5,
        "b": 300_000,
    }
    copy.close()


def test_a_journal_that_cannot_be_applied_is_told(whole: bytes, tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    old.write_bytes(bytes(100) + whole[100:])
    (tmp_path / "old.db-wal").write_bytes(b"\x37\x7f\x06\x82" + bytes(200))
    report = salvage(str(old), str(tmp_path / "new.db"))
    assert lost(report) == {"journal": (1, (f"{old}-wal",))}


@pytest.mark.parametrize("versions", [1, 2, 3, 4])
def test_a_file_of_an_older_schema_is_salvaged(tmp_path: Path, versions: int) -> None:
    path = tmp_path / "old.db"
    connection = apsw.Connection(str(path))
    for migration in schema.MIGRATIONS[:versions]:
        for _ in connection.execute(migration):
            pass
    connection.execute(f"PRAGMA user_version = {versions}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(
        "INSERT INTO documents (id, key, kind, created_at, updated_at, event_at, indexed_at) "
        "VALUES ('aaaaaaaaaaaaa', 'a', 'note', 1, 1, 1, 1)"
    )
    space = json.dumps(["test", "axes", 4])
    connection.execute("INSERT INTO generations (space, dims, current) VALUES (?, 4, 1)", (space,))
    document = {"id": "bbbbbbbbbbbbb", "kind": "observation", "parent": "aaaaaaaaaaaaa", "tags": []}
    record = json.dumps({"document": document, "passages": []})
    connection.execute("INSERT INTO trash VALUES ('bbbbbbbbbbbbb', 1, 'b', ?)", (record,))
    connection.close()
    report = salvage(str(path), str(tmp_path / "new.db"))
    assert dict(report.kept) == {"documents": 1, "generations": 1, "trash": 1}
    copy = SQLiteStore(str(tmp_path / "new.db"))
    with copy.transaction() as transaction:  # a purge must find what belongs to it
        assert [row.document.id for row in transaction.trashed(["aaaaaaaaaaaaa"])] == [
            "bbbbbbbbbbbbb"
        ]
    assert [row.key for row in copy.scan(EVERYTHING)] == ["a"]
    state = copy.state()
    assert state.space is not None
    assert state.space.model == "axes"
    copy.close()


# -- damaged files ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header", [bytes(100), b"\xff" * 100, b"SQLite format 3\0\x02\0" + bytes(82)]
)
def test_a_file_that_does_not_open_loses_nothing_by_its_header(
    whole: bytes, tmp_path: Path, header: bytes
) -> None:
    report, new = salvaged(tmp_path, header + whole[100:])
    assert (report.lost, report.mended) == ((), ())
    with opened(new) as memory:
        assert memory.stats().doc_count == dict(report.kept)["documents"]


def test_a_lost_page_of_documents_is_told_by_name_and_their_passages_are_kept_untrusted(
    whole: bytes, tmp_path: Path
) -> None:
    page = next(p for p in pages_of(whole, "documents") if b"KEYMARK9" in page_at(whole, p))
    report, new = salvaged(tmp_path, without_page(whole, page))
    count, names = lost(report)["documents"]
    assert count == len(names) > 0
    assert any(name.startswith("KEYMARK9 (") for name in names)
    with opened(new) as memory:
        hits = memory.search("zanzibar9", where={"trusts": TRUSTS})
        home = hits[0].document
        assert (home.key, home.project, home.trust) == ("KEYMARK9", "harbour", "untrusted")
        assert f"({home.id})" in " ".join(names)
        assert not [row for row in memory.doctor() if row.level == "error"]


def test_a_lost_page_of_passages_is_counted_by_document(whole: bytes, tmp_path: Path) -> None:
    page = next(p for p in pages_of(whole, "passages") if b"zanzibar9 " in page_at(whole, p))
    report, new = salvaged(tmp_path, without_page(whole, page))
    count, names = lost(report)["passages"]
    assert any(name.endswith(" of KEYMARK9") for name in names)
    with opened(new) as memory:
        assert memory.stats().chunk_count == dict(report.kept)["passages"]
        assert len(documents(memory)) == dict(report.kept)["documents"]
    counted = ("passages", str(count + dict(report.kept)["passages"]))
    assert counted in dump(tmp_path / "old.db", "meta")["meta"]


def test_a_page_lost_in_the_middle_of_a_tree_hides_no_other(whole: bytes, tmp_path: Path) -> None:
    [root] = [page for page in pages_of(whole, "passages") if whole[(page - 1) * PAGE] == 5][:1]
    report, _ = salvaged(tmp_path, without_page(whole, root))
    assert report.lost == ()


def test_trash_that_lies_under_another_root_is_salvaged_and_never_repaired_away(
    whole: bytes, tmp_path: Path
) -> None:
    [trash], [other] = pages_of(whole, "trash")[:1], pages_of(whole, "generations_current")
    data = bytearray(whole)
    damage._swap(data, trash, other)
    report, _ = salvaged(tmp_path, bytes(data))
    assert report.lost == ()
    assert dict(report.kept)["trash"] == len(damage.DELETED)
    store = SQLiteStore(str(tmp_path / "old.db"))
    last = store.check(fix=True)[-1]
    assert (last.code, last.advice and last.advice.act) == ("store_damaged", "salvage")
    store.close()
    again = salvage(str(tmp_path / "old.db"), str(tmp_path / "again.db"))
    assert dict(again.kept)["trash"] == len(damage.DELETED)


def test_two_notes_of_one_name_are_both_kept(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    store = SQLiteStore(str(path))
    write(store, entry("a", "apple"), entry("b", "banana"))
    store._connections.get().execute("DROP INDEX documents_by_name")
    store._connections.get().execute("UPDATE documents SET key = 'a'")
    store.close()
    salvage(str(path), str(tmp_path / "new.db"))
    copy = SQLiteStore(str(tmp_path / "new.db"))
    assert {(row.key, row.text) for row in copy.scan(EVERYTHING, whole=True)} == {
        ("a", "apple"),
        (None, "banana"),
    }
    copy.close()


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("UPDATE documents SET trust = x'74727573746564'", ("untrusted", "")),
        ("UPDATE documents SET project = NULL", ("trusted", "salvaged")),
    ],
)
def test_what_cannot_be_read_gains_neither_trust_nor_a_wider_project(
    tmp_path: Path, sql: str, expected: tuple[str, str]
) -> None:
    path = tmp_path / "old.db"
    store = SQLiteStore(str(path))
    write(store, entry("a", "apple"))
    store.close()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA writable_schema = ON").fetchall()
    connection.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, 'project TEXT NOT NULL', 'project TEXT') "
        "WHERE name = 'documents'"
    )
    connection.close()
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.close()
    report = salvage(str(path), str(tmp_path / "new.db"))
    assert report.mended == ("documents a",)
    copy = SQLiteStore(str(tmp_path / "new.db"))
    [document] = copy.scan(EVERYTHING)
    assert (document.trust, document.project or "") == expected
    copy.close()


def test_rows_without_a_name_are_only_counted(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    path.write_bytes(whole)
    connection = apsw.Connection(str(path))
    connection.execute(
        "UPDATE signals SET passage = 999999 WHERE rowid = (SELECT min(rowid) FROM signals)"
    )
    connection.close()
    report = salvage(str(path), str(tmp_path / "new.db"))
    assert lost(report) == {"signals": (1, ())}
    assert salvaged_text(report).endswith("lost     signals: 1")


MADE_AGAIN = ("vectors", "sample", "count", "cached", "mark", "meta", "use ", "pairs", "reason")


@pytest.mark.measured
@pytest.mark.parametrize("name", damage.ROW_DAMAGES)
def test_every_damaged_row_is_mended_or_told(whole: bytes, tmp_path: Path, name: str) -> None:
    path = tmp_path / "old.db"
    path.write_bytes(whole)
    damage.damage_row(path, damage.ROW_DAMAGES[name])
    report = salvage(str(path), str(tmp_path / "new.db"))
    if not any(part in name for part in MADE_AGAIN):
        assert report.mended or report.lost
    copy = SQLiteStore(str(tmp_path / "new.db"))
    assert {row.level for row in copy.check()} <= {"ok", "warning"}
    assert copy.stats().doc_count >= dict(report.kept)["documents"] > damage.NOTES
    copy.close()


# -- refusals --------------------------------------------------------------------------------


def test_nothing_is_overwritten_and_nothing_is_made_of_nothing(
    whole: bytes, tmp_path: Path
) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    with pytest.raises(NotFound):
        salvage(str(old), str(new))
    old.write_text("not a memory " * 1_000, encoding="utf-8")
    with pytest.raises(StoreDamaged) as refused:
        salvage(str(old), str(new))
    assert refused.value.code == "nothing_to_salvage"
    with pytest.raises(UsageError) as taken:
        salvage(str(old), str(old))
    assert taken.value.code == "target_exists"
    with pytest.raises(StoreError):
        salvage(str(old), str(tmp_path / "absent" / "new.db"))
    with pytest.raises(StoreError):
        salvage(str(tmp_path), str(new))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old.db"]


def page_at(data: bytes, page: int) -> bytes:
    return data[(page - 1) * PAGE : page * PAGE]


# -- the page reader against SQLite ------------------------------------------------------------


@pytest.mark.parametrize("page_bytes", [512, 4_096, 65_536])
def test_pages_read_as_sqlite_reads_them(tmp_path: Path, page_bytes: int) -> None:
    path = tmp_path / "any.db"
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA page_size = {page_bytes}").fetchall()
    connection.execute("CREATE TABLE t (n, x)")
    values = [
        None,
        0,
        1,
        -1,
        127,
        -128,
        300,
        2**23,
        -(2**31),
        2**47,
        2**62,
        1.5,
        "",
        "é",
        b"",
        b"\0",
    ]
    values += ["long " * size for size in (90, 800, 4_000, 30_000)]
    rows = [(number, value) for number, value in enumerate(values)]
    connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
    connection.execute("UPDATE t SET rowid = -n WHERE n < 3")
    expected = {tuple(row) for row in connection.execute("SELECT rowid, n, x FROM t")}
    connection.close()
    reader = PageReader(path.read_bytes(), page_bytes)
    read = {
        (cell.rowid, *cell.values)
        for cell in reader.cells()
        if cell.rowid is not None and len(cell.values) == 2
    }
    assert read == expected
    assert reader.unreadable == 0


def test_a_store_of_the_memory_is_the_one_that_was_salvaged(whole: bytes, tmp_path: Path) -> None:
    _, new = salvaged(tmp_path, whole)
    with opened(new) as copy, opened(tmp_path / "old.db") as old:
        assert {row.id: row for row in documents(copy)} == {row.id: row for row in documents(old)}
        assert store_of(copy).relations(None, EVERYTHING) == store_of(old).relations(
            None, EVERYTHING
        )
