"""Doctor: every planted damage is reported, and repaired where that is possible."""

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import apsw
import pytest

from plait.errors import StoreDamaged, StoreError, UsageError, advise
from plait.memory import Memory
from plait.protocols import Trashed
from plait.stores import check_file
from plait.stores.sqlite import blocks, carving, file_checks, keyword, vectors
from plait.stores.sqlite.mending import DROPPED_TABLES
from plait.stores.sqlite.state import Generation, space_text
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
    blocks.write(store._connections.get(), 1, SPACE.dims, {ref: row})


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
        *("indexes", "schema", "values", "texts", "tags"),
        *("vectors", "signs", "journal"),
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
    blocks.write(store._connections.get(), 2, SPACE.dims, {first[0].ref: None})
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
    root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'documents'").get
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
    assert findings[-1].advice == advise("salvage", path=str(path))
    broken.close()


# Indexes against their tables


def closed(store: SQLiteStore, *names: str) -> tuple[Path, list[int]]:
    """Move everything into the file, so that its bytes can be changed; return some root pages."""
    store.tidy(compact=True)
    sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
    roots = [store._connections.get().execute(sql, (name,)).get for name in names]
    store.close()
    return Path(store.path), roots


def test_a_key_that_an_index_spells_otherwise_is_an_error_and_the_index_is_made_again(
    store: SQLiteStore,
) -> None:
    write(store, entry("KEYMARK3", "cherry"))
    path, roots = closed(store, "documents_by_name", "documents_by_key")
    data = bytearray(path.read_bytes())
    for root in roots:
        place = data.index(b"KEYMARK3", (root - 1) * 4096, root * 4096)
        data[place + 7] ^= 1
    path.write_bytes(data)
    damaged = SQLiteStore(str(path))
    assert damaged.find("KEYMARK3", Filter()) == []
    reported = finding(damaged, "indexes")
    assert (reported.level, reported.advice) == ("error", FIX)
    assert "documents_by_key" in reported.message
    assert finding(damaged, "indexes", fix=True).fixed
    assert {row.level for row in damaged.check()} <= {"ok", "warning"}
    [(document, _)] = damaged.find("KEYMARK3", Filter())
    assert document.key == "KEYMARK3"
    damaged.close()


@pytest.fixture
def full(store: SQLiteStore) -> tuple[bytes, dict[str, int]]:
    """The bytes of a memory with something in every table, and its root pages by name."""
    for key in ("a", "b"):
        write(store, entry(f"old {key}", "elder berry"))
        [document] = [row for row in store.scan(Filter()) if row.key == f"old {key}"]
        with store.transaction() as tx:
            tx.trash([Trashed("batch", 1, document, passages_of(store, f"old {key}"))])
        delete(store, f"old {key}")
    for table, *values in (
        ("relations", 1, 1, 2, "knows", None, 1, None, None),
        ("trashed_relations", "x", "y", "knows", None, 1, None, None, 1),
        ("signals", 1, 1, 1, 1, 1, 0, 0),
        ("signal_pairs", 1, 2, 1, 1),
        ("embedding_cache", "name", b"\0\0\x80\x3f\0\0\x80\x3f", 1, 1),
        ("frequent_terms", "apple", 1),
        ("vector_signs", 1, 1, 0, bytes(vectors.BLOCK_ROWS)),
        *(("vector_rows", ref, bytes(2)) for ref in range(9)),
        ("histories", "history:number", "1"),
        ("steps", 1, 0, "Bash", None, None, "make", "make", 2, "no rule", 7),
        ("meta", "latest_turn", "1"),
    ):
        run(store, f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", *values)
    write(store, entry("tagged", "cherry", tags=("fruit",)))
    sql = "SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 1"
    store.tidy(compact=True)
    roots = dict(store._connections.get().execute(sql))
    store.close()
    return Path(store.path).read_bytes(), roots


def rows_in(path: Path) -> set[str]:
    """Every row that can be read in a file, whatever table it seems to be in."""
    haul, _ = carving.read_rows(str(path), str(path.parent))
    return {
        # Numbers in `meta` change with every commit; all else stays.
        f"{table} {key}" if table == "meta" else f"{table} {sorted(row.items())}"
        for table, listed in haul.rows.items()
        for key, row in listed.items()
    }


def damage_quietly(store: SQLiteStore, sql: str) -> None:
    """Change rows as no plait would."""
    without_triggers(store, sql)
    assert store._connections.get().changes() > 0, sql


def meta_of(store: SQLiteStore) -> dict[str, str]:
    return dict(store._connections.get().execute("SELECT name, value FROM meta"))


BAD_TEXT = "CAST(x'ff' AS TEXT)"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("passages", "3"),
        ("counted_passages", "0"),  # they are counted again by the next tidy
        ("profiles_due", "0"),  # every profile is looked at
        ("unscrubbed", "lost"),  # a purge goes on
        ("latest_turn", None),
        ("chunker", None),
        ("analyzer", None),
    ],
)
@pytest.mark.parametrize("value", [BAD_TEXT, "x'ff'"])
def test_an_unreadable_value_in_meta_becomes_the_one_that_makes_plait_look_again(
    store: SQLiteStore, name: str, expected: str | None, value: str
) -> None:
    run(store, "INSERT OR REPLACE INTO meta VALUES (?, '7')", name)
    before = meta_of(store)
    damage_quietly(store, f"UPDATE meta SET value = {value} WHERE name = '{name}'")
    assert finding(store, "values").level == "error"
    assert finding(store, "values", fix=True).fixed
    assert {row.level for row in store.check()} <= {"ok", "warning"}
    after = meta_of(store)
    assert after.get(name) == expected
    same = before.keys() - {name, "lineage"}
    assert {key: after[key] for key in same} == {key: before[key] for key in same}
    write(store, entry("c", "cherry"))
    assert meta_of(store)["passages"] == "4"


def test_a_value_in_meta_that_is_only_of_another_type_is_kept(store: SQLiteStore) -> None:
    damage_quietly(store, "UPDATE meta SET value = CAST(value AS BLOB) WHERE name = 'passages'")
    assert "1 mended, 0 dropped" in finding(store, "values", fix=True).message
    assert meta_of(store)["passages"] == "3"


def test_a_lost_count_of_passages_is_told_and_comes_back(store: SQLiteStore) -> None:
    run(store, "DELETE FROM meta WHERE name = 'passages'")
    reported = finding(store, "counts")
    assert (reported.level, reported.advice) == ("error", FIX)
    assert finding(store, "counts", fix=True).fixed
    assert finding(store, "counts").level == "ok"
    assert meta_of(store)["passages"] == "3"
    delete(store, "b")
    assert meta_of(store)["passages"] == "2"


@pytest.mark.parametrize("version", ["'text'", "7"])
def test_an_unreadable_version_of_a_block_becomes_a_new_one(
    store: SQLiteStore, version: str
) -> None:
    hits = by_vector(store, *X)
    assert hits
    damage_quietly(store, f"UPDATE block_versions SET version = {version}")
    assert by_vector(store, *X) == hits
    assert "1 mended, 0 dropped" in finding(store, "values", fix=True).message
    assert {row.level for row in store.check()} <= {"ok", "warning"}
    sql = "SELECT typeof(version), length(version) FROM block_versions"
    assert list(store._connections.get().execute(sql)) == [("blob", 8)]
    assert by_vector(store, *X) == hits


@pytest.mark.parametrize(
    "change",
    ["dims = 'many'", "dims = 0", "canary = x'010203'", "canary = 'text'"],
)
def test_vectors_are_kept_if_their_space_can_still_be_read(store: SQLiteStore, change: str) -> None:
    hits = by_vector(store, *X)
    assert hits
    damage_quietly(store, f"UPDATE generations SET {change}")
    assert "1 mended, 0 dropped" in finding(store, "values", fix=True).message
    assert {row.level for row in store.check()} <= {"ok", "warning"}
    assert by_vector(store, *X) == hits


def test_a_number_of_another_type_is_damage_whatever_was_checked_before() -> None:
    sound = Generation(1, space_text(SPACE), 4, 1)
    for _ in range(2):
        assert sound.is_sound()
        assert not sound._replace(dims=4.0).is_sound()  # type: ignore[arg-type]


def test_vectors_that_nobody_knows_to_be_current_wait_for_a_reindex(store: SQLiteStore) -> None:
    damage_quietly(store, "UPDATE generations SET current = 7")
    assert "1 mended, 0 dropped" in finding(store, "values", fix=True).message
    assert store.state().building == SPACE


def test_vectors_of_an_unreadable_space_and_counts_of_terms_are_dropped(
    store: SQLiteStore,
) -> None:
    run(store, "INSERT INTO frequent_terms VALUES ('apple', 1), ('pie', 1)")
    damage_quietly(store, "UPDATE generations SET space = '[1'")
    damage_quietly(store, "UPDATE frequent_terms SET passages = 'many' WHERE term = 'pie'")
    assert "0 mended, 2 dropped" in finding(store, "values", fix=True).message
    assert {row.level for row in store.check()} <= {"ok", "warning"}
    assert by_keyword(store, "pie")


def with_swapped_pages(data: bytes, first: int, second: int) -> bytes:
    pages = [data[place : place + 4096] for place in range(0, len(data), 4096)]
    pages[first - 1], pages[second - 1] = pages[second - 1], pages[first - 1]
    return b"".join(pages)


MADE_AGAIN = (
    *("vector_blocks", "block_versions", "vector_signs", "vector_rows", "unembedded"),
    *("frequent_terms", "tallies", "document_tags", "passages_fts_config"),
)


SWAPPED = (*carving.ROWID_TABLES, *carving.KEYED_TABLES, *MADE_AGAIN, "documents_by_key")
NEVER_MENDED = {*carving.ROWID_TABLES} - {*DROPPED_TABLES}


Full = tuple[bytes, dict[str, int]]
# Each name is swapped with one in so many others, and with those whose outcome is known.
SWAPPED_EVERY = 6
KNOWN_OUTCOMES = {
    ("meta", "documents_by_key"): "refused",
    ("trash", "documents_by_key"): "refused",
    ("documents_by_key", "documents_by_session"): "mended",
}


@pytest.mark.unmeasured
@pytest.mark.parametrize("name", SWAPPED)
def test_a_fix_loses_no_row_after_two_root_pages_were_swapped(
    full: Full, tmp_path: Path, name: str
) -> None:
    place = SWAPPED.index(name)
    others = others_of(full, name)[place % SWAPPED_EVERY :: SWAPPED_EVERY]
    others += [other for first, other in KNOWN_OUTCOMES if first == name]
    swap_and_fix(full, tmp_path, name, others)


@pytest.mark.soak
@pytest.mark.parametrize("name", SWAPPED)
def test_a_fix_loses_no_row_whichever_two_root_pages_were_swapped(
    full: Full, tmp_path: Path, name: str
) -> None:
    swap_and_fix(full, tmp_path, name, others_of(full, name))


def others_of(full: Full, name: str) -> list[str]:
    """The pages to swap with this one; a pair with a name before this one is tried there."""
    return sorted(full[1].keys() - {*SWAPPED[: SWAPPED.index(name) + 1]})


def swap_and_fix(full: Full, tmp_path: Path, name: str, others: Sequence[str]) -> None:
    data, roots = full
    path = tmp_path / "swapped.db"
    path.write_bytes(data)
    whole = rows_in(path)
    assert {row.split()[0] for row in whole} == {*carving.ROWID_TABLES, *carving.KEYED_TABLES}
    outcomes = {}
    for other in others:
        for file in tmp_path.glob("swapped.db-*"):
            file.unlink()
        swapped = with_swapped_pages(data, roots[name], roots[other])
        if swapped == data:
            continue  # two empty pages
        path.write_bytes(swapped)
        outcomes[other] = outcome_of_a_fix(path)
        assert whole - rows_in(path) == set(), (other, outcomes[other])
        assert outcomes[other] != "unnoticed", other
        if NEVER_MENDED & {name, other}:
            assert outcomes[other] == "refused", other
    for (first, other), outcome in KNOWN_OUTCOMES.items():
        assert name != first or outcomes[other] == outcome


@pytest.mark.parametrize("name", ["vector_rows", "vector_signs"])
def test_rows_that_lie_where_a_small_memory_has_no_signs_are_noticed_and_kept(
    full: tuple[bytes, dict[str, int]], tmp_path: Path, name: str
) -> None:
    data, roots = full
    path = tmp_path / "swapped.db"
    path.write_bytes(data)
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM vector_signs; DELETE FROM vector_rows").fetchall()
    connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    connection.close()
    empty, whole = path.read_bytes(), rows_in(path)
    for other in ("signals", "relations", "audit", "passages", "signal_pairs"):
        for file in tmp_path.glob("swapped.db-*"):
            file.unlink()
        path.write_bytes(with_swapped_pages(empty, roots[name], roots[other]))
        assert outcome_of_a_fix(path) != "unnoticed", other
        assert whole - rows_in(path) == set(), other


def outcome_of_a_fix(path: Path) -> str:
    """Repair a file: it is sound then, or was left alone with the advice to salvage it."""
    try:
        damaged = SQLiteStore(str(path))
    except StoreDamaged as error:
        assert error.advice in (FIX, advise("salvage", path=str(path)))
        return "refused"
    try:
        if not any(row.level == "error" for row in damaged.check()):
            return "unnoticed"
        *_, last = findings = damaged.check(fix=True)
        assert all(row.advice != FIX for row in findings)
        if last.code == "store_damaged":
            assert last.advice == advise("salvage", path=str(path))
            return "refused"
        assert all(row.level != "error" for row in damaged.check()), findings
        return "mended"
    finally:
        damaged.close()


def test_a_page_of_rows_that_no_tree_leads_to_is_not_freed(store: SQLiteStore) -> None:
    write(store, *(entry(f"k{number}", "word " * 100) for number in range(40)))
    path, [root] = closed(store, "passages")
    whole = rows_in(path)
    data = bytearray(path.read_bytes())
    head = (root - 1) * 4096
    assert data[head] == 5, "a root page with children"
    count, content = (int.from_bytes(data[head + at : head + at + 2], "big") for at in (3, 5))
    pointers = range(head + 12, head + 12 + 2 * count, 2)
    last, other = sorted(int.from_bytes(data[at : at + 2], "big") for at in pointers)[:2]
    assert last == content, "the last cell, which is taken out as SQLite would"
    data[head + 3 : head + 7] = (count - 1).to_bytes(2, "big") + other.to_bytes(2, "big")
    path.write_bytes(data)
    assert outcome_of_a_fix(path) == "refused"
    assert whole - rows_in(path) == set()


@pytest.mark.parametrize("wrong", ["an unused page", "the number", "the first page"])
def test_a_wrong_list_of_free_pages_is_made_right(store: SQLiteStore, wrong: str) -> None:
    path, [root] = closed(store, "documents")
    if wrong == "the first page":
        again = SQLiteStore(str(path))
        write(again, entry("long", "x" * 50_000))
        delete(again, "long")
        again.check(fix=True)
        assert finding(again, "pages").level == "ok", "pages are free, and listed"
        again.close()
    data = path.read_bytes()
    if wrong == "an unused page":
        pages = len(data) // 4096 + 1
        path.write_bytes(data[:28] + pages.to_bytes(4, "big") + data[32:] + bytes(4096))
    elif wrong == "the number":
        path.write_bytes(data[:36] + (5).to_bytes(4, "big") + data[40:])
    else:
        assert data[32:36] != bytes(4)
        path.write_bytes(data[:32] + root.to_bytes(4, "big") + data[36:])
    leaky = SQLiteStore(str(path))
    assert (finding(leaky, "pages").level, finding(leaky, "pages").advice) == ("warning", FIX)
    assert finding(leaky, "pages", fix=True).fixed
    assert {row.level for row in leaky.check()} == {"ok"}
    leaky.close()


def test_a_text_that_is_not_the_stored_one_is_an_error_and_its_file_is_read_again(
    store: SQLiteStore,
) -> None:
    write(store, entry("f", "cherry", kind="file", path="/f.md", sha256="00", mtime=1, size=6))
    run(store, "UPDATE passages SET text = 'sherry' WHERE text = 'cherry'")
    assert [row.check for row in store.check() if row.level == "error"] == ["texts"]
    assert finding(store, "texts", fix=True).fixed
    assert finding(store, "texts").level == "ok"
    [document] = [row for row in store.scan(Filter()) if row.key == "f"]
    assert (document.sha256, document.mtime, document.size) == (None, None, None)


def test_use_and_vectors_of_nobody_are_dropped(store: SQLiteStore) -> None:
    connection = store._connections.get()
    connection.execute("PRAGMA foreign_keys = OFF").fetchall()
    run(
        store,
        "INSERT INTO signals (passage, reads, days, last_day, last_read) VALUES (999, 1, 1, 1, 1)",
    )
    run(store, "INSERT INTO signal_pairs VALUES (1, 999, 1, 1)")
    connection.execute("PRAGMA foreign_keys = ON").fetchall()
    assert (finding(store, "rows").level, finding(store, "rows").advice) == ("error", FIX)
    assert finding(store, "rows", fix=True).fixed
    assert {row.level for row in store.check()} == {"ok"}


def test_what_a_search_cannot_read_is_left_out_and_told(hashing_memory: Memory) -> None:
    hashing_memory.store("apple pie", key="a", summary="one")
    hashing_memory.store("apple tart", key="b", summary="two")
    store = hashing_memory.engine
    assert isinstance(store, SQLiteStore)
    run(store, "UPDATE documents SET summary = CAST(x'ff' AS TEXT) WHERE key = 'a'")
    hits = hashing_memory.search("apple")
    assert [hit.document.key for hit in hits] == ["b"]
    [notice] = hits.receipt.degraded
    assert notice.text.startswith("1 result left out: ")
    assert (notice.code, notice.advice) == ("store_damaged", FIX)
    with pytest.raises(StoreDamaged) as refused:
        hashing_memory.get("a")
    assert refused.value.advice == FIX
    assert any(row.fixed for row in hashing_memory.doctor(fix=True) if row.check == "values")
    [fixed] = [hit for hit in hashing_memory.search("apple") if hit.document.key == "a"]
    assert fixed.document.summary == "\ufffd"


@pytest.mark.parametrize("size", [1, 50, 511])
def test_a_file_that_was_cut_off_does_not_become_an_empty_memory(
    store: SQLiteStore, size: int
) -> None:
    path, _ = closed(store)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(StoreDamaged) as refused:
        SQLiteStore(str(path))
    assert refused.value.advice == advise("salvage", path=str(path))
    assert path.stat().st_size == size


@pytest.mark.parametrize(
    ("version", "level"), [((3, 40, 1), "error"), ((3, 51, 2), "error"), ((3, 54, 1), "ok")]
)
def test_an_unsafe_sqlite_is_an_error(
    store: SQLiteStore,
    monkeypatch: pytest.MonkeyPatch,
    version: tuple[int, int, int],
    level: str,
) -> None:
    monkeypatch.setattr(file_checks, "sqlite_version", lambda: version)
    assert finding(store, "sqlite").level == level


def test_wal_on_a_network_file_system_is_an_error(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_checks, "file_system", lambda _: "nfs4")
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
    assert again.vocabulary(["banana"])[:3:2] == (3, {"banana": 1})
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


# -- the schema ----------------------------------------------------------------------------

TRIGGER = (
    "CREATE TRIGGER theirs AFTER INSERT ON trash BEGIN UPDATE documents SET trust = 'trusted'; END"
)
ALTERED_TRIGGER = keyword.TRIGGERS[0].replace(
    "BEGIN", "BEGIN UPDATE documents SET trust = 'trusted';"
)
# What is done to the schema, and whether it is a trigger, which would act from the next write on.
SCHEMA_CHANGES: dict[str, tuple[tuple[str, ...], bool]] = {
    "missing trigger": (("DROP TRIGGER passages_inserted",), False),
    "missing index": (("DROP INDEX documents_by_name",), False),
    "missing view": (("DROP VIEW passages_terms",), False),
    "foreign trigger": ((TRIGGER,), True),
    "altered trigger": (("DROP TRIGGER passages_inserted", ALTERED_TRIGGER), True),
    "trigger with a quoted name": ((TRIGGER.replace("theirs", '"a""b; --"'),), True),
    "foreign view": (("CREATE VIEW theirs AS SELECT * FROM documents",), False),
    "foreign index": (("CREATE UNIQUE INDEX theirs ON documents (trust, id)",), False),
    "altered index": (
        ("DROP INDEX documents_by_key", "CREATE INDEX documents_by_key ON documents (title)"),
        False,
    ),
}
_SCHEMA = "SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2"


@pytest.fixture
def whole_schema(store: SQLiteStore) -> list[tuple[object, ...]]:
    return store._connections.get().execute(_SCHEMA).fetchall()


def schema_of(store: SQLiteStore) -> list[tuple[object, ...]]:
    return store._connections.get().execute(_SCHEMA).fetchall()


@pytest.mark.parametrize("change", SCHEMA_CHANGES)
def test_a_changed_schema_is_reported_and_repaired(store, whole_schema, change) -> None:
    statements, acts = SCHEMA_CHANGES[change]
    for sql in statements:
        run(store, sql)
    reported = finding(store, "schema")
    assert (reported.level, reported.advice) == ("error", FIX)
    if acts:
        with pytest.raises(StoreDamaged) as refused:
            store.state()
        assert refused.value.advice == FIX
    repaired = finding(store, "schema", fix=True)
    assert (repaired.level, repaired.fixed) == ("ok", True)
    assert schema_of(store) == whole_schema
    assert {row.level for row in store.check()} == {"ok"}
    store.state()


@pytest.mark.parametrize("change", SCHEMA_CHANGES)
def test_restore_takes_no_part_of_a_changed_schema(store, whole_schema, tmp_path, change) -> None:
    backup = str(tmp_path / "backup.db")
    store.backup(backup)
    connection = apsw.Connection(backup)
    for sql in SCHEMA_CHANGES[change][0]:
        connection.execute(sql)
    connection.close()
    target = tmp_path / "restored.db"
    Memory.restore(backup, target)
    restored = SQLiteStore(str(target))
    assert schema_of(restored) == whole_schema
    restored.close()


def test_a_foreign_table_is_named_and_left(store, tmp_path) -> None:
    run(store, "CREATE TABLE theirs (x)")
    run(store, "INSERT INTO theirs VALUES (1)")
    for fix in (False, True):
        reported = finding(store, "schema", fix=fix)
        assert reported.level == "warning"
        assert "'theirs'" in reported.message
    assert store._connections.get().execute("SELECT x FROM theirs").get == 1


def test_an_altered_table_cannot_be_repaired_nor_restored(store, tmp_path) -> None:
    backup = str(tmp_path / "backup.db")
    store.backup(backup)
    for sql in ("ALTER TABLE trash ADD COLUMN theirs", "DROP TABLE signals"):
        connection = apsw.Connection(backup)
        connection.execute(sql)
        connection.close()
        with pytest.raises(StoreDamaged) as refused:
            Memory.restore(backup, tmp_path / "restored.db")
        assert refused.value.code == "backup_damaged"
        run(store, sql)
        reported = store.check(fix=True)[-1]
        assert (reported.check, reported.code) == ("schema", StoreDamaged.code)


def test_doctor_opens_a_file_with_a_foreign_trigger(store, tmp_path) -> None:
    """Every other verb refuses it."""
    run(store, TRIGGER)
    path = store.path
    store.close()
    with pytest.raises(StoreDamaged):
        Memory.open(path)
    assert any(row.level == "error" for row in check_file(path))
    check_file(path, fix=True)
    Memory.open(path).close()


@pytest.mark.parametrize("value", ["x'05'", "'1:0:0'", "'1:9:9'", "'1:2'", "'a:b:c'", "''"])
def test_a_memory_with_senseless_rules_of_cutting_opens_and_is_repaired(
    tmp_path: Path, value: str
) -> None:
    path = tmp_path / "memory.db"
    with Memory.open(path, embedder="none", project="") as memory:
        memory.store("We deploy on Fridays.", key="plan")
    file = apsw.Connection(str(path))
    file.execute(f"UPDATE meta SET value = {value} WHERE name = 'chunker'").fetchall()
    file.close()
    with Memory.open(path, embedder="none", project="") as memory:
        assert memory.get("plan").text == "We deploy on Fridays."
        assert not memory.store("We paint on Mondays. " * 99, key="more").duplicate
        memory.doctor(fix=True)
        memory.reindex()
        assert not memory.outdated_rules()


def test_a_memory_that_does_not_open_is_examined_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Memory.open(path, embedder="none", project="") as memory:
        memory.store("We deploy on Fridays.", key="plan")
    file = apsw.Connection(str(path))
    file.execute("UPDATE meta SET value = CAST(x'ff' AS TEXT) WHERE name = 'embedder'").fetchall()
    file.close()
    with pytest.raises(StoreDamaged):
        Memory.open(path)
    assert "error" in {finding.level for finding in Memory.examine(path)}
    assert any(finding.fixed for finding in Memory.examine(path, fix=True))
    with Memory.open(path, embedder="none", project="") as memory:
        assert memory.get("plan").text == "We deploy on Fridays."


def test_examining_a_memory_that_is_not_there_creates_none(tmp_path: Path) -> None:
    [finding] = Memory.examine(tmp_path / "memory.db", fix=True)
    assert (finding.level, finding.code) == ("warning", "no_memory")
    assert not (tmp_path / "memory.db").exists()
