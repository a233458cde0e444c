"""A memory that is read only writes nothing at all; one that is off answers empty and says so."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plait import Memory
from plait.errors import NotFound, StoreReadOnly, advise
from plait.graph import Subgraph
from plait.settings.loading import load
from plait.types import Document
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from tests.codes import has_code

EXPORT = ['{"format": "plait", "version": 1}', '{"key": "k", "kind": "note", "text": "Hi"}']
ADVISED = 97  # exit code: it is refused, and the error says how to read it
GRAPH = ['{"type": "entity", "name": "Zoe"}']
WRITES: dict[str, Callable[[Memory, Path], Any]] = {
    "store": lambda memory, folder: memory.store("x"),
    "store a note": lambda memory, folder: memory.store("x", key="k"),
    "store_many": lambda memory, folder: memory.store_many([Document(text="x")]),
    "ingest": lambda memory, folder: memory.ingest(folder),
    "delete": lambda memory, folder: memory.delete("heron"),
    "purge": lambda memory, folder: memory.delete("heron", purge=True),
    "undo": lambda memory, folder: memory.undo(),
    "prune": lambda memory, folder: memory.prune(dry_run=False),
    "maintain": lambda memory, folder: memory.maintain(),
    "reindex": lambda memory, folder: memory.reindex(),
    "compact": lambda memory, folder: memory.reindex(compact=True),
    "doctor": lambda memory, folder: memory.doctor(),
    "doctor fix": lambda memory, folder: memory.doctor(fix=True),
    "import": lambda memory, folder: memory.import_lines(EXPORT),
    "create": lambda memory, folder: memory.graph.create([NewEntity("Ana")]),
    "observe": lambda memory, folder: memory.graph.observe([("Bo", ["Sings"])]),
    "relate": lambda memory, folder: memory.graph.relate([Relation("Bo", "Bo", "knows")]),
    "delete entity": lambda memory, folder: memory.graph.delete(["Bo"]),
}
READS: dict[str, Callable[[Memory], Any]] = {
    "search": lambda memory: memory.search("herons"),
    "newest": lambda memory: memory.search(""),
    "recall": lambda memory: memory.recall("herons fish at dawn").items,
    "overview": lambda memory: memory.overview().items,
    "get": lambda memory: memory.get("heron"),
    "timeline": lambda memory: memory.timeline(),
    "stats": lambda memory: memory.stats().doc_count,
    "export": lambda memory: list(memory.export())[1:],
    "graph": lambda memory: memory.graph.read().entities,
    "dry run": lambda memory: memory.delete("heron", dry_run=True).ids,
    "dry run of an import": lambda memory: memory.import_lines(EXPORT, dry_run=True).added,
    "dry run of a graph": lambda memory: memory.import_lines(GRAPH, dry_run=True).added,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "folder" / "m.db"
    place.parent.mkdir()
    with Memory.open(place, project="") as memory:
        memory.store("Herons fish at dawn.", key="heron", event_at="2020-01-01")
        memory.graph.create([NewEntity("Bo", "person", ("Draws",))])
        memory.store("gone", key="gone")
        memory.delete("gone")
    return place


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in folder.iterdir()}


def reading(path: Path, **flags: object) -> Memory:
    settings = {"db_path": str(path), "project": "", "keep_days": "note=1,observation=1", **flags}
    return Memory.open(config=load(settings, environ={}), read_only=True)


@pytest.mark.parametrize("verb", WRITES)
def test_every_verb_that_writes_refuses_and_changes_no_byte(
    path: Path, tmp_path: Path, verb: str
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("Cranes dance.", encoding="utf-8")
    before = contents(path.parent)
    with reading(path) as memory, pytest.raises(StoreReadOnly, check=has_code("read_only")):
        WRITES[verb](memory, tmp_path / "notes")
    assert contents(path.parent) == before


@pytest.mark.parametrize("verb", READS)
def test_every_verb_that_reads_answers_and_changes_no_byte(path: Path, verb: str) -> None:
    before = contents(path.parent)
    with reading(path, signals_count="listed") as memory:
        assert READS[verb](memory)
    assert contents(path.parent) == before


def test_a_restore_into_a_read_only_memory_is_refused(path: Path, tmp_path: Path) -> None:
    with Memory.open(path) as memory:
        copy = memory.backup(tmp_path / "copy.db")
    config = load({"db_path": str(path), "read_only": True}, environ={})
    with pytest.raises(StoreReadOnly, check=has_code("read_only")):
        Memory.restore(copy, config=config)


def test_a_reader_sees_what_others_write_meanwhile(path: Path) -> None:
    with reading(path) as memory:
        assert len(memory.search("cranes")) == 0
        with Memory.open(path, project="") as writer:
            writer.store("Cranes dance.", key="crane")
            assert [hit.doc_id for hit in memory.search("cranes")] == ["crane"]
        assert [hit.doc_id for hit in memory.search("cranes")] == ["crane"]


def test_nothing_is_created_to_be_read(tmp_path: Path) -> None:
    with reading(tmp_path / "none.db") as memory:
        assert memory.search("x") == ()
        with pytest.raises(StoreReadOnly):
            memory.store("x")
        with pytest.raises(StoreReadOnly) as caught:
            memory.import_lines(EXPORT)
        assert caught.value.subject == str(tmp_path / "none.db")
        assert memory.import_lines(EXPORT, dry_run=True).added == 1
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_path_is_told_to_who_names_it_to_read_only(tmp_path: Path) -> None:
    with pytest.raises(NotFound, check=has_code("no_memory")):
        Memory.open(tmp_path / "typo.db", project="", read_only=True)
    with Memory.open(tmp_path / "typo.db", project="", read_only=True, create=False) as memory:
        assert memory.search("x") == () and not memory.is_there
    with Memory.open(":memory:", project="", read_only=True) as memory:
        assert memory.search("x") == ()
    assert list(tmp_path.iterdir()) == []


def test_a_memory_that_is_read_only_does_not_fill_itself(path: Path, tmp_path: Path) -> None:
    with Memory.open(path, project="") as memory:
        memory.export_folder(tmp_path / "none")
    for place in ("none.db", "there.db"):
        flags = {"memory_dir": str(tmp_path / "none"), "auto_hydrate": "on"}
        if place == "there.db":
            Memory.open(tmp_path / place, project="").close()
        with reading(tmp_path / place, **flags) as memory:
            assert [notice.code for notice in memory.opening_notices] == []
            assert memory.stats().doc_count == 0
    assert not (tmp_path / "none.db").exists()


@pytest.mark.skipif(os.name != "posix", reason="needs permissions of POSIX")
def test_a_memory_in_a_folder_that_cannot_be_written_is_searched() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Memory.open(folder / "m.db", embedder="none", project="") as memory:
            memory.store("Herons fish at dawn.", key="heron")
        (folder / "m.db").chmod(0o444)
        folder.chmod(0o555)
        before = contents(folder)
        assert _hits_of_nobody(folder / "m.db") == 1
        assert _hits_of_nobody(folder / "m.db", read_only=False) == ADVISED
        assert contents(folder) == before
        folder.chmod(0o755)


def _hits_of_nobody(path: Path, *, read_only: bool = True) -> int:
    """Search as a user who may write nothing there; root may write everywhere."""

    def search(read_only: bool = True) -> int:
        try:
            with Memory.open(path, project="", read_only=read_only) as memory:
                return len(memory.search("herons"))
        except StoreReadOnly as error:
            return ADVISED if error.advice == advise("open_read_only") else 98

    search()  # loads what the other user may not be allowed to read
    return _as_nobody(lambda: search(read_only))


def _as_nobody(act: Callable[[], int]) -> int:
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            os._exit(act())
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(os.name != "posix", reason="needs permissions of POSIX")
def test_a_memory_that_was_read_while_it_could_not_be_written_can_be_written_later() -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "m.db"
        Path(name).chmod(0o777)
        with Memory.open(path, embedder="none", project="") as memory:
            memory.store("Herons fish at dawn.")

        def write() -> int:
            path.chmod(0o444)
            with Memory.open(path, project="") as before:
                hits = len(before.search("herons"))
                index = path.with_name("m.db-shm")
                path.chmod(0o600)
                closed = index.stat().st_mode & 0o777
                with Memory.open(path, project="") as after:
                    after.store("Storks fish at noon.")
                # The one that was open all the time, too.
                before.store("Gulls fish all day.")
                return 0 if (hits, closed) == (1, 0o444) else 98

        assert _as_owner(path, write) == 0
        with Memory.open(path, project="") as memory:
            assert memory.stats().doc_count == 3


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="needs two users")
def test_a_journal_of_somebody_else_that_cannot_be_written_is_named() -> None:
    with tempfile.TemporaryDirectory() as name:
        path, index = Path(name) / "m.db", Path(name) / "m.db-shm"
        Path(name).chmod(0o777)
        with Memory.open(path, embedder="none", project="") as memory:
            memory.store("Herons fish at dawn.")
        path.with_name("m.db-wal").touch(0o666)
        path.with_name("m.db-wal").chmod(0o666)
        index.touch()
        index.chmod(0o444)

        def write() -> int:
            try:
                with Memory.open(path, project="") as memory:
                    memory.store("Storks fish at noon.")
            except StoreReadOnly as error:
                return ADVISED if str(index) in str(error) else 98
            return 0

        assert _as_owner(path, write) == ADVISED


def _as_owner(path: Path, act: Callable[[], int]) -> int:
    """Do an act as the owner of a file, whom permissions hold back; root may do everything."""
    if os.getuid() == 0:
        os.chown(path, 65534, 65534)
    return _as_nobody(act)


# -- off -----------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", sorted(WRITES.keys() - {"doctor", "doctor fix"}))
def test_a_memory_that_is_off_takes_everything_and_keeps_nothing(tmp_path: Path, verb: str) -> None:
    place = tmp_path / "m.db"
    (tmp_path / "notes").mkdir()
    flags = {"db_path": str(place), "backend": "none", "keep_days": "note=1"}
    with Memory.open(config=load(flags, environ={})) as memory:
        assert [notice.code for notice in memory.opening_notices] == ["memory_off"]
        WRITES[verb](memory, tmp_path / "notes")
        assert memory.graph.read() == Subgraph()
        assert memory.search("x") == memory.search("") == ()
        assert memory.recall("x").items == ()
        assert memory.timeline() == []
        assert memory.stats().doc_count == 0
    assert not place.exists()


def test_a_memory_that_is_off_hides_what_it_has(path: Path) -> None:
    before = contents(path.parent)
    config = load({"db_path": str(path), "backend": "none"}, environ={})
    with Memory.open(config=config) as memory:
        assert memory.search("herons") == ()
        assert memory.store("x").chunks == 0
    assert contents(path.parent) == before
