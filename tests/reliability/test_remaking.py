"""A damaged page: derived data is made again without losing a row, the rest needs a salvage."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from plait.memory import Memory
from plait.stores.sqlite.connection import rows
from plait.testing import HashingEmbedder
from tests.reliability import damage
from tests.reliability.damage import ANY_TRUST, CHECK, PAGE, REPAIR
from tests.reliability.memories import settings

# What people and programs stored; everything else is made from it, or comes again with use.
STORED = ("documents", "passages", "trash", "relations", "trashed_relations", "generations")
ESSENTIAL = {*STORED, "meta", "sqlite_schema"}
# Which number of the commit, and what was counted when, changes with every repair.
META = "SELECT * FROM meta WHERE name NOT IN ('lineage', 'counted_passages')"
PARTS = 8
KEYWORD = "zanzibar7"
VECTOR_PAGES = 4  # of many like them

Rows = dict[str, list[tuple[object, ...]]]


def opened(path: Path) -> apsw.Connection:
    return apsw.Connection(str(path))


def stored_rows(path: Path) -> Rows:
    connection = opened(path)
    try:
        queries = {table: f"SELECT * FROM {table} NOT INDEXED" for table in STORED}
        queries["meta"] = META
        return {table: connection.execute(sql).fetchall() for table, sql in queries.items()}
    finally:
        connection.close()


def owners_of_pages(path: Path) -> dict[int, str]:
    """Which table or index has a page; of the vectors' pages only a few."""
    connection = opened(path)
    try:
        listed = rows(connection, "SELECT pageno, name FROM dbstat ORDER BY pageno")
    finally:
        connection.close()
    owners: dict[int, str] = dict(listed)
    vectors = [page for page, name in owners.items() if name == "vector_blocks"]
    return {page: name for page, name in owners.items() if page not in vectors[VECTOR_PAGES:]}


def noise_in(data: bytes, page: int) -> bytes:
    noise = random.Random(page).randbytes(PAGE)
    return data[: (page - 1) * PAGE] + noise + data[page * PAGE :]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "memory.db"
    damage.build(path)
    return path


@pytest.fixture(scope="module")
def owners(whole: Path) -> dict[int, str]:
    return owners_of_pages(whole)


@pytest.fixture(scope="module")
def rows_before(whole: Path) -> Rows:
    return stored_rows(whole)


@pytest.mark.parametrize("part", range(PARTS))
def test_any_damaged_page_is_repaired_without_loss_or_needs_a_salvage(
    whole: Path,
    owners: dict[int, str],
    rows_before: Rows,
    tmp_path: Path,
    part: int,
) -> None:
    for page in sorted(owners)[part::PARTS]:
        owner = owners[page]
        path = tmp_path / f"{page}.db"
        data = noise_in(whole.read_bytes(), page)
        path.write_bytes(data)
        done = damage.command(path, *REPAIR)
        assert damage.bad_manners(done) == [], owner
        if owner in ESSENTIAL:
            assert done.code == 1, owner
            assert "doctor --salvage" in done.out + done.err, owner
            assert path.read_bytes() == data, owner
        else:
            assert done.code == 0, (owner, done)
            checked = damage.command(path, *CHECK)
            assert (checked.code, '"level": "error"' in checked.out) == (0, False), owner
            assert stored_rows(path) == rows_before, owner
            assert KEYWORD in damage.command(path, "search", KEYWORD, "--mode", "keyword").out


@pytest.mark.parametrize("name", ["documents_by_path", "passages_fts_data", "passages"])
def test_doctor_names_what_a_damaged_page_belongs_to_and_the_step_that_helps(
    whole: Path, owners: dict[int, str], tmp_path: Path, name: str
) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(noise_in(whole.read_bytes(), page_of(owners, name)))
    done = damage.command(path, *CHECK)
    assert f"{name} page " in done.out
    assert "Tree" not in done.out
    assert ("doctor --salvage" if name in ESSENTIAL else "doctor --fix") in done.out


def page_of(owners: dict[int, str], name: str) -> int:
    return min(page for page, owner in owners.items() if owner == name)


def test_a_repair_of_vectors_lets_every_passage_wait_for_one(
    whole: Path, owners: dict[int, str], tmp_path: Path
) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(noise_in(whole.read_bytes(), page_of(owners, "vector_blocks")))
    assert damage.command(path, *REPAIR).code == 0
    config = settings(path)._replace(project="harbour")
    with Memory.open(embedder=HashingEmbedder(), config=config) as memory:
        assert memory.stats().pending_count > 0
        memory.reindex()
        assert memory.stats().pending_count == 0
        assert memory.search("copper garden", mode="vector")


def test_many_damaged_trees_are_made_again_at_once(
    whole: Path, owners: dict[int, str], rows_before: Rows, tmp_path: Path
) -> None:
    data = whole.read_bytes()
    for page, owner in owners.items():
        if owner not in ESSENTIAL:
            data = noise_in(data, page)
    path = tmp_path / "memory.db"
    path.write_bytes(data)
    assert damage.command(path, *REPAIR).code == 0
    assert damage.command(path, *CHECK).code == 0
    assert stored_rows(path) == rows_before


def test_a_memory_that_another_connection_has_open_is_repaired_under_it(
    whole: Path, owners: dict[int, str], tmp_path: Path
) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(noise_in(whole.read_bytes(), page_of(owners, "documents_by_path")))
    config = settings(path)._replace(project="harbour")
    with Memory.open(embedder=HashingEmbedder(), config=config) as memory:
        assert memory.search(KEYWORD, mode="keyword")
        assert damage.command(path, *REPAIR).code == 0
        hits = memory.search(KEYWORD, mode="keyword", where=ANY_TRUST)
        assert KEYWORD in hits[0].passage.text
        memory.store("Written after the repair.", key="after")
    assert damage.command(path, *CHECK).code == 0
    assert "after the repair" in damage.command(path, "get", "after").out


KILLED = """
import os, signal, sys
from plait.stores import check_file
from plait.stores.sqlite import doctor, integrity
def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "before the commit":
    integrity.damage_left = die
else:
    doctor._pages = die
check_file(sys.argv[1], fix=True)
"""


@pytest.mark.parametrize("name", ["signals", "passages_fts_data", "sqlite_autoindex_passages_1"])
@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_a_killed_repair_leaves_the_old_file_or_the_new_one(
    whole: Path,
    owners: dict[int, str],
    rows_before: Rows,
    tmp_path: Path,
    moment: str,
    name: str,
) -> None:
    path = tmp_path / "memory.db"
    data = noise_in(whole.read_bytes(), page_of(owners, name))
    path.write_bytes(data)
    child = subprocess.run([sys.executable, "-c", KILLED, str(path), moment], check=False)
    assert child.returncode == -signal.SIGKILL
    checked = damage.command(path, *CHECK)
    assert ("only what can be made again" in checked.out) == (moment == "before the commit")
    assert damage.command(path, *REPAIR).code == 0
    assert damage.command(path, *CHECK).code == 0
    assert stored_rows(path) == rows_before
