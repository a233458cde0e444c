"""A backup can be restored: by the verb, by hand, under load and under kill -9."""

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import apsw
import pytest

from plait.errors import NotFound, PlaitError, SchemaTooNew, StoreDamaged, StoreError, UsageError
from plait.memory import Memory
from plait.stores import salvage
from plait.stores.sqlite import doctor, journal, migrating, scrubbing, state, store, table_checks
from plait.types.ids import new_id
from tests.codes import has_code
from tests.interfaces.command import spawn
from tests.reliability import memories, plants, restore_child
from tests.reliability.processes import Child, children, posix_only
from tests.reliability.test_strange_trees import as_nobody

pytestmark = posix_only

Replace = Callable[[Path, Path], object]


def move_over(source: Path, path: Path) -> None:
    other = source.with_name("moved.db")
    shutil.copyfile(source, other)
    other.replace(path)


def remove_and_move(source: Path, path: Path) -> None:
    path.unlink()
    move_over(source, path)


BY_HAND: dict[str, Replace] = {
    # Another process: a plain `open` of this one would drop SQLite's locks.
    "cp": lambda source, path: subprocess.run(["cp", source, path], check=True),
    "mv": move_over,
    "rm and mv": remove_and_move,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def backup(path: Path) -> Path:
    """A backup of a memory with two notes, which has a third one since."""
    copy = path.with_name("backup.db")
    with memories.open_memory(path) as memory:
        for key in ("one", "two"):
            memory.store(memories.prose(key), key=key)
        memory.backup(copy)
        memory.store(memories.prose("three"), key="three")
    return copy


def names(path: Path) -> list[str]:
    with memories.open_memory(path) as memory:
        assert memories.faults(memory) == []
        return sorted(document.doc_id for document in memories.documents(memory))


def leave_a_journal(path: Path, *, checkpoint: bool = False) -> None:
    Child(restore_child.write_and_die, path, 5, checkpoint).finish()
    assert path.with_name("memory.db-wal").stat().st_size > 0


# -- closing -------------------------------------------------------------------------------


def test_the_last_writer_to_close_leaves_one_file(path):
    with memories.open_memory(path) as memory:
        memory.store(memories.prose("a"), key="a")
    assert [file.name for file in path.parent.iterdir()] == ["memory.db"]


def test_the_last_reader_to_close_leaves_one_file(path, backup):
    backup.unlink()
    with memories.open_memory(path) as other:
        other.search("one")
        with memories.open_memory(path) as memory:
            memory.search("one")
        assert path.with_name("memory.db-wal").exists(), "another one is using it"
    assert [file.name for file in path.parent.iterdir()] == ["memory.db"]


def test_a_command_that_only_reads_leaves_one_file(path, backup):
    for words in (["search", "one"], ["get", "one"], ["stats"], ["timeline"], ["export"]):
        assert spawn("--db", str(path), *words).code == 0
        assert sorted(file.name for file in path.parent.iterdir()) == ["backup.db", "memory.db"]


def test_a_reader_neither_moves_nor_removes_what_is_in_the_journal(path):
    with memories.open_memory(path) as memory:
        memory.store(memories.prose("a"), key="a")
    leave_a_journal(path)
    files = [path, path.with_name("memory.db-wal")]
    before = [file.read_bytes() for file in files]
    assert spawn("--db", str(path), "search", "a").code == 0
    assert [file.read_bytes() for file in files] == before


def test_a_reader_that_closes_removes_no_journal_of_a_new_file(path, backup):
    with memories.open_memory(path) as reader:
        reader.search("one")
        BY_HAND["mv"](backup, path)
        leave_a_journal(path)
    assert path.with_name("memory.db-wal").stat().st_size > 0
    assert len(names(path)) == len(["one", "two"]) + 5


def test_a_kept_memory_has_no_empty_journal_once_nobody_uses_it(path, backup):
    with memories.open_memory(path) as memory:
        memory.search("one")
        assert spawn("--db", str(path), "restore", str(backup)).code == 0
        memory.search("one")
        assert not list(path.parent.glob("memory.db.kept-*-*-wal"))
        assert spawn("--db", str(path), "restore", "--undo").code == 0
    assert not list(path.parent.glob("memory.db.kept-*-*-wal"))
    assert not list(path.parent.glob("memory.db.kept-*-*-shm"))


def test_a_writer_that_closes_beside_a_reader_leaves_an_empty_journal(path):
    with memories.open_memory(path) as reader, memories.open_memory(path) as writer:
        writer.store(memories.prose("a"), key="a")
        writer.close()
        assert path.with_name("memory.db-wal").stat().st_size == 0
        assert len(memories.documents(reader)) == 1


def test_all_threads_of_a_writer_close(path):
    with memories.open_memory(path) as memory:
        for number in range(3):
            thread = Thread(target=memory.store, args=(memories.prose(f"t{number}"),))
            thread.start()
            thread.join()
    assert [file.name for file in path.parent.iterdir()] == ["memory.db"]


def test_connections_of_ended_threads_do_not_pile_up(path):
    with memories.open_memory(path) as memory:
        for _ in range(20):
            thread = Thread(target=memory.stats)
            thread.start()
            thread.join()
        assert len(memories.store_of(memory)._connections._by_thread) <= 2


# -- the verb ------------------------------------------------------------------------------


def test_restore_keeps_the_present_memory_and_can_be_undone(path, backup):
    done = Memory.restore(backup, path)
    assert names(path) == ["one", "two"]
    assert done.documents == 2
    assert done.kept is not None
    assert names(Path(done.kept)) == ["one", "three", "two"]
    undone = Memory.restore(None, path, undo=True)
    assert undone.source == done.kept
    assert names(path) == ["one", "three", "two"]
    Memory.restore(None, path, undo=True)
    assert names(path) == ["one", "two"], "an undo is undone in the same way"


def test_restore_leaves_the_backup_as_it_was(path, backup):
    before = backup.read_bytes()
    Memory.restore(backup, path)
    assert backup.read_bytes() == before
    left = {file.name for file in path.parent.iterdir()} - {"memory.db", "backup.db"}
    assert all(name.startswith("memory.db.kept-") for name in left)


def test_what_only_the_journal_had_is_kept_too(path, backup):
    leave_a_journal(path)
    done = Memory.restore(backup, path)
    assert names(path) == ["one", "two"]
    assert "w4" in names(Path(done.kept or ""))


def test_restore_where_there_is_no_memory_yet(path, backup, tmp_path):
    place = tmp_path / "new" / "machine.db"
    done = Memory.restore(backup, place)
    assert done.kept is None
    assert names(place) == ["one", "two"]
    assert place.stat().st_mode & 0o077 == 0


def test_restore_follows_a_link(path, backup):
    link = path.with_name("link.db")
    link.symlink_to(path)
    with memories.open_memory(link) as memory:
        Memory.restore(backup, link)
        assert len(memories.documents(memory)) == 2
    assert link.is_symlink()
    assert names(path) == ["one", "two"]


def test_a_damaged_memory_can_be_restored(path, backup):
    path.write_bytes(b"not a database at all" * 1_000)
    done = Memory.restore(backup, path)
    assert names(path) == ["one", "two"]
    assert Path(done.kept or "").read_bytes().startswith(b"not a database")


def test_an_older_backup_is_migrated(path, backup, tmp_path):
    import apsw

    old = apsw.Connection(str(backup))
    old.execute("PRAGMA user_version = 999")
    old.close()
    with pytest.raises(SchemaTooNew):
        Memory.restore(backup, path)
    assert "three" in names(path)


def spoil(backup: Path) -> None:
    data = bytearray(backup.read_bytes())
    data[20_000:60_000] = b"\xff" * 40_000
    backup.write_bytes(data)


@pytest.mark.parametrize(
    ("prepare", "error", "code"),
    [
        (lambda backup: backup.unlink(), NotFound, "no_backup"),
        (lambda backup: backup.write_bytes(b"text " * 900), StoreDamaged, "not_a_memory"),
        (lambda backup: backup.write_bytes(b""), StoreDamaged, "not_a_memory"),
        (spoil, StoreDamaged, "backup_damaged"),
    ],
    ids=["missing", "no database", "empty", "damaged"],
)
def test_a_bad_backup_replaces_nothing(path, backup, prepare, error, code):
    prepare(backup)
    with pytest.raises(error) as refused:
        Memory.restore(backup, path)
    assert refused.value.code == code
    assert names(path) == ["one", "three", "two"]
    assert not list(path.parent.glob("*.partial*"))
    assert not list(path.parent.glob("*kept*"))


def test_a_backup_that_may_not_be_read_is_named():
    with tempfile.TemporaryDirectory() as folder:
        present, closed = Path(folder, "memory.db"), Path(folder, "backup.db")

        def restore() -> str:
            with pytest.raises(StoreError, check=has_code("unreadable_backup")) as refused:
                Memory.restore(closed, present)
            return str(refused.value.subject)

        with memories.open_memory(present) as memory:
            memory.store("One.", key="one")
            memory.backup(closed)
        for place in (Path(folder), present):
            place.chmod(0o777)
        Memory.restore(closed, present)  # loads what nobody may read
        closed.chmod(0)
        assert as_nobody(restore) == str(closed)


def test_a_full_disk_replaces_nothing(path, backup):
    with children(Child(restore_child.restore_without_room, path, backup)) as (child,):
        assert child.expect("refused")[1] == "disk_failed"
    assert names(path) == ["one", "three", "two"]
    assert {file.name for file in path.parent.glob("memory.db*")} <= {
        *("memory.db", "memory.db-wal", "memory.db-shm")
    }


def test_restore_needs_something_to_restore(path, backup):
    for source, undo, code in ((path, False, "same_file"), (None, False, "no_backup")):
        with pytest.raises(UsageError) as refused:
            Memory.restore(source, path, undo=undo)
        assert refused.value.code == code
    with pytest.raises(NotFound) as nothing:
        Memory.restore(None, path, undo=True)
    assert nothing.value.code == "nothing_kept"


# -- by hand, with nobody there ------------------------------------------------------------


@pytest.mark.parametrize("replace", BY_HAND.values(), ids=list(BY_HAND))
@pytest.mark.parametrize("checkpoint", [False, True], ids=["", "checkpointed"])
def test_a_journal_of_another_file_is_not_replayed(path, backup, replace, checkpoint):
    leave_a_journal(path, checkpoint=checkpoint)
    replace(backup, path)
    for _ in range(2):  # looking does no harm
        with pytest.raises(StoreDamaged) as refused:
            memories.open_memory(path)
        assert refused.value.code == "foreign_journal"
    done = Memory.restore(None, path)
    assert done.journal is not None
    assert Path(done.journal).stat().st_size > 0
    assert names(path) == ["one", "two"]


def test_salvage_does_not_replay_it_either(path, backup, tmp_path):
    with memories.open_memory(backup) as memory:
        memory.store(memories.prose("own"), key="own")
    leave_a_journal(path)
    BY_HAND["cp"](backup, path)
    done = salvage(str(path), str(tmp_path / "new.db"))
    assert [(loss.table, loss.names) for loss in done.lost] == [("journal", (f"{path}-wal",))]
    assert names(tmp_path / "new.db") == ["one", "own", "two"]


@pytest.mark.parametrize("replace", BY_HAND.values(), ids=list(BY_HAND))
def test_a_plain_copy_of_an_older_file_is_told_apart_too(path, backup, replace):
    copy = path.with_name("plain.db")
    shutil.copyfile(path, copy)
    with memories.open_memory(path) as memory:  # the same size, schema and page 1
        memory.store(memories.prose("three"), key="three")
        memory.delete("two")
    leave_a_journal(path)
    replace(copy, path)
    with pytest.raises(StoreDamaged) as refused:
        memories.open_memory(path)
    assert refused.value.code == "foreign_journal"


@pytest.mark.parametrize("replace", BY_HAND.values(), ids=list(BY_HAND))
def test_a_copy_that_the_journal_continues_loses_nothing_and_the_verb_restores_it(
    path, backup, replace
):
    """The same bytes as after a crash: no rule could tell, see docs/backup.md."""
    copy = path.with_name("plain.db")
    shutil.copyfile(path, copy)
    leave_a_journal(path)
    replace(copy, path)
    assert {"w0", "w4"} < set(names(path))
    Memory.restore(copy, path)
    assert names(path) == names(copy) == ["one", "three", "two"]


def test_a_copy_taken_together_with_its_journal_is_one_memory(path, backup, tmp_path):
    leave_a_journal(path)
    moved = tmp_path / "moved" / "memory.db"
    moved.parent.mkdir()
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{path}{suffix}", f"{moved}{suffix}")
    assert "w4" in names(moved)
    done = Memory.restore(moved, path)
    assert done.documents == len(names(path))


def test_a_journal_that_is_the_files_own_is_replayed_however_it_was_left(path):
    for checkpoint in (False, True):
        leave_a_journal(path, checkpoint=checkpoint)
        assert journal.belongs(str(path)) is True
        with memories.open_memory(path) as memory:
            memory.store(memories.prose("after"), key="after")
        assert journal.belongs(str(path)) is None, "gone with a writer's clean close"
        assert {"after", "w4"} < set(names(path))


def test_without_the_check_the_journal_damages_or_undoes_what_was_copied(path, backup):
    """The test bites: this is what SQLite does by itself."""
    leave_a_journal(path)
    BY_HAND["cp"](backup, path)
    with plants.planted("unguarded journal"):
        try:
            assert names(path) != ["one", "two"]
        except (StoreError, AssertionError):
            return  # malformed


# -- under a process that has it open ------------------------------------------------------


def ask(child: Child, act: str, name: str = "") -> tuple[object, ...]:
    child.tell((act, name))
    answer = child.hear()
    assert answer[0] != "error", answer
    return answer


@pytest.mark.parametrize("by", ["verb", "mv", "rm and mv"])
def test_an_open_library_follows_its_file(path, backup, by):
    with children(Child(restore_child.serve, path)) as (server,):
        server.expect("ready")
        if by == "verb":
            Memory.restore(backup, path)
        else:
            BY_HAND[by](backup, path)
        assert ask(server, "read") == ("names", ["one", "two"])
        assert ask(server, "store", "four") == ("stored", "four")
        server.tell(None)
        server.expect("closed")
    assert names(path) == ["four", "one", "two"]


def test_an_open_library_follows_an_older_copy_of_its_file(path, backup):
    """Its journal fits that copy, but not what the user wants."""
    copy = path.with_name("copy.db")
    shutil.copyfile(path, copy)
    with children(Child(restore_child.serve, path)) as (server,):
        server.expect("ready")
        move_over(copy, path)
        assert ask(server, "read") == ("names", ["one", "three", "two"])
        assert ask(server, "store", "four") == ("stored", "four")
        server.tell(None)
        server.expect("closed")
    assert names(path) == ["four", "one", "three", "two"]


@pytest.mark.parametrize("change", ["VACUUM", "CREATE TABLE mine (id)"])
def test_a_journal_is_not_replayed_onto_a_copy_that_another_program_changed(path, backup, change):
    copy = path.with_name("copy.db")
    shutil.copyfile(path, copy)
    other = apsw.Connection(str(copy))
    other.execute(change).fetchall()
    other.close()
    leave_a_journal(path)
    move_over(copy, path)
    with pytest.raises(StoreDamaged, check=has_code("foreign_journal")):
        memories.open_memory(path)
    Memory.restore(path=path)
    with memories.open_memory(path) as memory:
        assert len(memories.documents(memory)) == 3


def test_an_open_library_refuses_a_copy_over_its_file_until_told(path, backup):
    with children(Child(restore_child.serve, path)) as (server,):
        server.expect("ready")
        BY_HAND["cp"](backup, path)
        assert ask(server, "store", "lost") == ("refused", "foreign_journal")
        assert ask(server, "read") == ("refused", "foreign_journal")
        assert Memory.restore(None, path).journal is not None
        assert ask(server, "read") == ("names", ["one", "two"])
        assert ask(server, "store", "four") == ("stored", "four")
        server.tell(None)
        server.expect("closed")
    assert names(path) == ["four", "one", "two"]


def test_an_open_library_follows_a_copy_over_its_file_if_its_journal_was_empty(path, backup):
    with memories.open_memory(path) as memory:
        assert len(memories.documents(memory)) == 3
        memory.engine.tidy(purged=True)
        assert path.with_name("memory.db-wal").stat().st_size == 0
        BY_HAND["cp"](backup, path)
        assert len(memories.documents(memory)) == 2
        memory.store(memories.prose("four"), key="four")
    assert names(path) == ["four", "one", "two"]


def test_an_open_library_says_that_its_file_is_gone(path, backup):
    with children(Child(restore_child.serve, path)) as (server,):
        server.expect("ready")
        path.rename(path.with_name("elsewhere.db"))
        assert ask(server, "store", "lost") == ("refused", "file_vanished")
        assert ask(server, "read") == ("refused", "file_vanished")
        path.with_name("elsewhere.db").rename(path)
        assert ask(server, "store", "back") == ("stored", "back")
        server.tell(None)
        server.expect("closed")
    assert names(path) == ["back", "one", "served", "three", "two"]


def test_what_a_removed_journal_held_is_saved(path, backup):
    with children(Child(restore_child.serve, path)) as (server,):
        server.expect("ready")
        path.with_name("memory.db-wal").unlink()
        assert ask(server, "store", "after") == ("stored", "after")
        server.kill()
    assert names(path) == ["after", "one", "served", "three", "two"]


@pytest.mark.parametrize("by", ["cp", "mv"])
def test_a_write_into_a_file_that_lost_its_name_is_not_acknowledged(path, backup, by):
    with memories.open_memory(path) as memory:
        with pytest.raises(StoreError) as refused, memory.engine.transaction() as transaction:
            transaction.remember(chunker="written elsewhere")
            BY_HAND[by](backup, path)
        assert refused.value.code == "file_replaced"
    if by == "cp":
        Memory.restore(None, path)
    assert names(path) == ["one", "two"]


def test_a_purge_under_way_takes_nothing_from_the_journal_of_a_new_file(path, backup, monkeypatch):
    """After mv, who opens the new file shares an empty journal with who has the old one open."""
    servers = []
    honest = scrubbing._clear_terms

    def replaced_meanwhile(connections):
        honest(connections)
        connections.get().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        move_over(backup, path)
        servers.append(Child(restore_child.serve, path))
        servers[0].expect("ready")

    with memories.open_memory(path) as memory:
        memory.store(memories.prose("gone"), key="gone")
        monkeypatch.setattr(scrubbing, "_clear_terms", replaced_meanwhile)
        memory.delete("gone", purge=True)
        servers[0].kill()
    assert names(path) == ["one", "served", "two"]


@pytest.mark.parametrize("longer", ["old", "new"])
def test_who_opens_a_new_file_beside_the_index_of_the_old_one_sees_all_its_pages(
    path, backup, longer
):
    """The index tells how many pages a file has; behind them SQLite would write over others."""
    with memories.open_memory(path) as memory:
        with memories.open_memory(backup) as other:
            for number in range(40):
                text, key = memories.prose(f"more {number}"), f"more {number}"
                (memory if longer == "old" else other).store(text, key=key)
        kept = names(backup)
        memory.store("the last one of the old file", key="last")
        memories.connection_of(memory).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        move_over(backup, path)
        server = Child(restore_child.serve, path)
        server.expect("ready")
        server.kill()
        assert len(memories.documents(memory)) == len(kept) + 1
    assert names(path) == sorted([*kept, "served"])


def move_over_an_empty_journal(backup: Path, path: Path, server: Child) -> None:
    """Replace a file that another process has open; its index is still that of the old file."""
    server.expect("ready")
    emptied = apsw.Connection(str(path))
    emptied.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    emptied.close()
    assert path.with_name("memory.db-wal").stat().st_size == 0
    move_over(backup, path)


def lengthen(path: Path) -> None:
    with memories.open_memory(path) as memory:
        for number in range(15):
            memory.store(memories.prose(f"more {number}"), key=f"more {number}")


@pytest.mark.parametrize("longer", ["old", "new"])
def test_who_reads_a_new_file_beside_the_index_of_the_old_one_reads_all_of_it(path, backup, longer):
    """A reader writes nothing, so it cannot set the index aside as a writer does."""
    lengthen(path if longer == "old" else backup)
    kept = names(backup)
    with children(Child(restore_child.serve, path)) as (server,):
        move_over_an_empty_journal(backup, path, server)
        before = {file.name for file in path.parent.glob("memory.db*")}
        with memories.open_to_read(path) as reader:
            read = sorted(document.doc_id for document in memories.documents(reader))
            assert read == kept
            assert {file.name for file in path.parent.glob("memory.db*")} == before
            assert ask(server, "store", "four") == ("stored", "four")  # it sets the index aside
            assert len(memories.documents(reader)) == len(kept) + 1, "it follows the new journal"
            server.tell(None)
            server.expect("closed")


def test_no_command_that_only_reads_calls_a_moved_memory_damaged(path, backup):
    lengthen(backup)
    with children(Child(restore_child.serve, path)) as (server,):
        move_over_an_empty_journal(backup, path, server)
        for words in (["search", "more"], ["backup", f"{path}.copy"], ["hook", "--try", "hello"]):
            ran = spawn("--db", str(path), "--read-only", *words)
            assert ran.code == (3 if "hook" in words else 0), ran.err
            assert "damaged" not in ran.err + ran.out


def test_a_reader_still_calls_a_damaged_memory_damaged(path, backup):
    backup.write_bytes(backup.read_bytes()[:8192])
    with children(Child(restore_child.serve, path)) as (server,):
        move_over_an_empty_journal(backup, path, server)
        with pytest.raises(StoreDamaged, match="damaged"):
            memories.open_to_read(path)


@pytest.mark.parametrize("act", ["tidy", "doctor"])
def test_an_act_of_several_steps_meets_a_restore_in_one_sentence(path, backup, monkeypatch, act):
    """What it read before is of the old file; it ends well, or says that the file was replaced."""
    with memories.open_memory(path) as memory:
        run = memories.connection_of(memory).execute
        run("INSERT INTO meta (name, value) VALUES ('unscrubbed', 'x')").fetchall()
        run("UPDATE documents SET chunk_count = 9").fetchall()
        monkeypatch.setattr(store, "get_meta", replacing(state.get_meta, backup, path))
        counts = replacing(table_checks.check_counts, backup, path)
        monkeypatch.setattr(doctor, "check_counts", counts)
        memory.store(memories.prose("four"), key="four")
        if act == "tidy":
            memories.store_of(memory).tidy()
        else:
            with pytest.raises(StoreError) as refused:
                memory.doctor(fix=True)
            assert refused.value.code == "file_replaced"
        assert len(memories.documents(memory)) == 2


def replacing(honest, backup, path):
    """Restore a backup just before a function does its work, once."""
    left = [lambda: Memory.restore(backup, path)]

    def act(*arguments, **how):
        if left:
            left.pop()()
        return honest(*arguments, **how)

    return act


def test_the_memory_of_this_process_follows_too_in_every_thread(path, backup):
    seen = []
    with memories.open_memory(path) as memory:
        Memory.restore(backup, path)
        thread = Thread(target=lambda: seen.append(memory.stats().doc_count))
        thread.start()
        thread.join()
        assert [*seen, memory.stats().doc_count] == [2, 2]


# -- under load and kill -9 ----------------------------------------------------------------


def test_no_acknowledged_note_is_lost_between_the_two_memories(path, backup):
    """Writers go on while the memory is swapped: each note is in one of the two."""
    writers = [Child(restore_child.store_until_killed, path, f"x{number}") for number in range(3)]
    kept = []
    with children(*writers):
        for writer in writers:
            writer.expect("ready")
        for _ in range(4):
            for writer in writers:
                writer.listen_until("ack", len(writer.messages) + 3)
            kept.append(Memory.restore(backup, path).kept)
        for writer in writers:
            writer.tell("stop")
            writer.finish()
    everywhere = {name for place in [*kept, str(path)] for name in names(Path(place or ""))}
    acknowledged = {row[1] for writer in writers for row in writer.messages if row[0] == "ack"}
    assert acknowledged - everywhere == set()
    # What was committed just before the swap is in the kept memory; its writer is told.
    refused = {row[2] for writer in writers for row in writer.messages if row[0] == "refused"}
    assert refused <= {"file_replaced"}


def test_kill_9_at_every_step_leaves_one_of_the_two_whole(path, backup):
    pristine = path.with_name("pristine")
    pristine.mkdir()
    leave_a_journal(path)
    for file in path.parent.glob("memory.db*"):
        shutil.copy(file, pristine)
    old, new = ["one", "three", "two", *(f"w{number}" for number in range(5))], ["one", "two"]
    outcomes, abandoned = [], []
    for step in range(100):
        for file in path.parent.glob("memory.db*"):
            file.unlink()
        for file in pristine.glob("memory.db*"):
            shutil.copy(file, path.parent)
        with children(Child(restore_child.restore_and_die, path, backup, step)) as (child,):
            finished = ("finished",) in child.finish()
        assert child.errors() == []
        outcomes.append(names(path))
        assert outcomes[-1] in (old, new), step
        kept = [file.name for file in path.parent.glob("*.kept-*")]
        if outcomes[-1] == new:
            places = [name for name in kept if not name.endswith(("-wal", "-shm"))]
            assert [names(path.with_name(name)) for name in places] == [old], step
        else:
            assert kept == [], step
        assert not path.with_name("memory.db-restoring").exists()
        left = list(path.parent.glob("*.partial"))
        abandoned.append(len(left))
        with memories.open_memory(path) as memory:
            [*told] = [row.message for row in memory.doctor() if row.check == "leftovers"]
            assert [str(folder) in text for folder in left for text in told] == [True] * len(left)
            memory.doctor(fix=True)
        assert not list(path.parent.glob("*.partial"))
        if finished:
            break
    assert finished
    assert outcomes == sorted(outcomes), "first the old one, then the new one"
    assert old in outcomes
    assert set(abandoned) == {0, 1}


def test_the_next_restore_removes_what_a_killed_one_left(path, backup):
    with children(Child(restore_child.restore_and_die, path, backup, 4)) as (child,):
        child.finish()
    assert len(list(path.parent.glob("*.partial"))) == 1
    Memory.restore(backup, path)
    assert not list(path.parent.glob("*.partial"))


def test_what_another_process_is_still_writing_is_not_taken_for_abandoned(path, backup):
    with children(Child(restore_child.copy_slowly, path, backup)) as (child,):
        child.expect("copying")
        with memories.open_memory(path) as memory:
            assert [row for row in memory.doctor(fix=True) if row.check == "leftovers"] == []
            memory.backup(path.with_name("another.db"))
        child.tell("go on")
        child.expect("finished")
    assert names(path) == ["one", "two"]
    assert not list(path.parent.glob("*.partial"))


# -- the command line ----------------------------------------------------------------------


def test_the_command_restores_undoes_and_says_how(path, backup):
    done = spawn("--db", str(path), "restore", str(backup), "--format", "text")
    assert done.code == 0
    assert f"plait --db {path} restore --undo" in done.err
    assert names(path) == ["one", "two"]
    undone = spawn("--db", str(path), "restore", "--undo", "--json")
    assert set(undone.json) == {"path", "source", "kept", "journal", "documents", "undoable"}
    assert names(path) == ["one", "three", "two"]
    ran = spawn("--db", str(path), "restore", "no.db")
    assert ran.code == 1 and "no.db. Check the path." in ran.err
    assert spawn("--db", str(path), "restore").code == 2


def test_an_undo_where_there_never_was_a_memory_is_a_sentence(tmp_path):
    done = spawn("--db", str(tmp_path / "no" / "folder" / "memory.db"), "restore", "--undo")
    assert done.code == 3
    assert "can be undone" in done.err
    assert not (tmp_path / "no").exists()


def damage_page(path: Path, number: int = 3) -> None:
    """Overwrite a page of the documents."""
    data = bytearray(path.read_bytes())
    data[number * 4096 - 4096 : number * 4096] = b"\xff" * 4096
    path.write_bytes(data)


def test_a_damaged_backup_is_refused_with_the_step_that_saves_its_rows(path, backup):
    damage_page(backup)
    done = spawn("--db", str(path), "restore", str(backup))
    assert done.code == 1
    assert f"plait --db {backup} doctor --salvage NEW.db" in done.err


def test_an_undo_is_not_offered_where_the_memory_before_was_damaged(path, backup):
    damage_page(path)
    done = spawn("--db", str(path), "restore", str(backup), "--format", "text")
    assert done.code == 0
    assert "--undo" not in done.err
    [kept] = path.parent.glob("memory.db.kept-*")
    assert f"plait --db {kept} doctor --salvage NEW.db" in done.err


def test_every_command_names_the_way_out_of_a_foreign_journal(path, backup):
    leave_a_journal(path)
    BY_HAND["cp"](backup, path)
    for words in (["search", "one"], ["store", "x"], ["doctor", "--fix"], ["backup", "b2.db"]):
        ran = spawn("--db", str(path), *words)
        assert ran.code == 1
        assert ran.err.count("\n") == 1
        assert f"plait --db {path} restore" in ran.err
    assert spawn("--db", str(path), "restore").code == 0
    assert spawn("--db", str(path), "search", "one").code == 0


LIMITED = """
import resource, sys
from plait.cli import main
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[1])))
sys.exit(main(sys.argv[2:]))
"""
# Every verb loads its modules when it is first called.
LIBRARY = """
import resource, sys
from plait import Memory, PlaitError
memory = Memory.open(sys.argv[2], project="", embedder="none")
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[1])))
try:
    getattr(memory, sys.argv[3])(sys.argv[4])
except PlaitError as error:
    sys.exit("".join((error.code, ": ", str(error), chr(10)))[:-1])
"""


@pytest.mark.parametrize("words", [["search", "one"], ["delete", "one"], ["backup", "copy.db"]])
@pytest.mark.parametrize("door", ["command", "library"])
def test_a_process_without_descriptors_fails_in_one_sentence(path, backup, door, words):
    sentences = set()
    for most in range(3, 11):
        program = [LIMITED, str(most), "--db"] if door == "command" else [LIBRARY, str(most)]
        ran = subprocess.run(
            [sys.executable, "-c", *program, str(path), *words],
            capture_output=True,
            encoding="utf-8",
            cwd=path.parent,
            check=False,
        )
        assert "Traceback" not in ran.stderr, (most, ran.stderr)
        if ran.returncode:
            assert ran.stderr.count("\n") == 1, (most, ran.stderr)
            sentences.add(ran.stderr)
    assert "three" in names(path)
    assert any("too many open files" in sentence.lower() for sentence in sentences)


# -- what can fail -------------------------------------------------------------------------


def refuse_to_replace(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """As a file that is mounted by itself: nothing can be renamed over it."""
    honest = os.replace

    def replace(source, target):
        if Path(target) == path:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        honest(source, target)

    monkeypatch.setattr(os, "replace", replace)


@pytest.mark.parametrize("links", [True, False], ids=["", "no hard links"])
def test_a_failed_swap_leaves_nothing_behind(path, backup, monkeypatch, links):
    def no_links(*arguments):
        raise OSError(errno.EPERM, "no links")

    done = Memory.restore(backup, path)
    before = sorted(path.parent.glob("*.kept-*"))
    with monkeypatch.context() as patch:
        refuse_to_replace(patch, path)
        if not links:
            patch.setattr(os, "link", no_links)
        for source, undo in ((backup, False), (None, True)):
            with pytest.raises(StoreError) as refused:
                Memory.restore(source, path, undo=undo)
            assert refused.value.code == "restore_failed"
    assert names(path) == ["one", "two"]
    assert sorted(path.parent.glob("*.kept-*")) == before
    assert not list(path.parent.glob("*.partial"))
    assert Memory.restore(path=path, undo=True).source == done.kept
    assert names(path) == ["one", "three", "two"]


# What can keep a folder from being locked, and the code of the sentence for it.
UNLOCKABLE = {"EMFILE": "too_many_files", "ENFILE": "too_many_files", "ENOLCK": "", "EACCES": ""}


@pytest.mark.parametrize("name", UNLOCKABLE)
@pytest.mark.parametrize("act", ["backup", "restore", "salvage"])
def test_a_folder_that_cannot_be_locked_is_tried_once(path, backup, monkeypatch, act, name):
    number = getattr(errno, name)
    target = path.with_name("another.db")
    acts: dict[str, Callable[[], object]] = {
        "backup": lambda: memory.backup(target),
        "restore": lambda: Memory.restore(backup, path),
        "salvage": lambda: salvage(str(path), str(target)),
    }
    tries = []

    def refuse(handle: int, operation: int) -> None:
        tries.append(handle)
        assert len(tries) < 10, "it goes on for ever"
        raise OSError(number, os.strerror(number))

    with memories.open_memory(path) as memory:
        with monkeypatch.context() as patch:
            patch.setattr(fcntl, "flock", refuse)
            with pytest.raises(StoreError) as refused:
                acts[act]()
        assert UNLOCKABLE[name] in ("", refused.value.code)
        assert UNLOCKABLE[name] or os.strerror(number) in str(refused.value)
        memory.backup(target)
    assert len(tries) == 1
    assert not list(path.parent.glob("*.partial"))
    assert names(path) == ["one", "three", "two"]


def test_the_note_of_a_restore_that_cannot_be_locked_is_no_restore_under_way(
    path, backup, monkeypatch
):
    def refuse(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    path.with_name("memory.db-restoring").touch()
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse)
        patch.setattr(time, "sleep", lambda _: pytest.fail("it waits for nobody"))
        with pytest.raises(PlaitError, match="No locks available") as refused:
            memories.open_memory(path)
    assert refused.value.code != "store_busy"
    assert names(path) == ["one", "three", "two"]


def test_what_cannot_be_locked_is_not_taken_for_abandoned(path, backup, monkeypatch):
    def refuse(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    folder = path.with_name(f"memory.db.{new_id()}.partial")
    folder.mkdir()
    with memories.open_memory(path) as memory:
        with monkeypatch.context() as patch:
            patch.setattr(fcntl, "flock", refuse)
            assert [row for row in memory.doctor(fix=True) if row.check == "leftovers"] == []
        assert folder.exists()
        assert [row.fixed for row in memory.doctor(fix=True) if row.check == "leftovers"] == [True]
    assert not folder.exists()


def test_a_second_name_that_an_earlier_plait_left_is_not_undone(path, backup):
    done = Memory.restore(backup, path)
    os.link(path, path.with_name("memory.db.kept-99991231-235959"))
    assert Memory.restore(path=path, undo=True).source == done.kept


def test_of_many_restores_within_one_second_the_last_is_undone(path, backup, monkeypatch):
    monkeypatch.setattr(time, "strftime", lambda *_: "20260101-000000")
    kept = [Memory.restore(backup, path).kept for _ in range(11)]
    assert str(kept[-1]).endswith("-11")
    assert Memory.restore(path=path, undo=True).source == kept[-1]


def test_a_second_name_of_a_killed_restore_goes_even_without_its_copy(path, backup):
    name = "memory.db.kept-20260101-000000"
    os.link(path, path.with_name(name))
    note = f'["gone.partial/memory.db", "{name}"]'
    path.with_name("memory.db-restoring").write_text(note, encoding="utf-8")
    assert names(path) == ["one", "three", "two"]
    assert not path.with_name(name).exists()


def test_a_system_that_cannot_rename_files_in_use_is_told_what_to_do(path, backup, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    for source in (backup, None):
        with pytest.raises(StoreError) as refused:
            Memory.restore(source, path)
        assert refused.value.code == "cannot_replace"
    assert names(path) == ["one", "three", "two"]


def test_undo_takes_no_backup(path, backup):
    with pytest.raises(UsageError) as refused:
        Memory.restore(backup, path, undo=True)
    assert refused.value.code == "undo_takes_no_backup"
    assert spawn("--db", str(path), "restore", str(backup), "--undo").code == 2


# -- names that are not UTF-8 --------------------------------------------------------------

STRANGE = os.fsdecode(b"\xff.db")
DOORS: dict[str, Callable[[Path, Path], object]] = {
    "open": lambda path, strange: Memory.open(strange),
    "backup": lambda path, strange: Memory.open(path, embedder="none").backup(strange),
    "restore": lambda path, strange: Memory.restore(strange, path),
    "restore to": lambda path, strange: Memory.restore(path, strange),
    "undo": lambda path, strange: Memory.restore(path=strange, undo=True),
    "salvage": lambda path, strange: Memory.salvage(strange, path.with_name("new.db")),
    "salvage to": lambda path, strange: Memory.salvage(path, strange),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("place", [STRANGE, f"{os.fsdecode(bytes([255]))}/m.db"])
def test_a_memory_has_a_name_that_sqlite_can_open(path, backup, door, place):
    strange = path.parent / place
    strange.parent.mkdir(exist_ok=True)
    shutil.copyfile(backup, strange)
    with pytest.raises(UsageError) as refused:
        DOORS[door](path, strange)
    assert refused.value.code == "path_not_utf8"
    refused.value.subject.encode()


COMMANDS: dict[str, list[str]] = {
    "db": ["--db", STRANGE, "search", "one"],
    "db to store": ["--db", STRANGE, "store", "one"],
    "backup": ["backup", STRANGE],
    "restore": ["restore", STRANGE],
    "salvage": ["doctor", "--salvage", STRANGE],
    "import": ["import", STRANGE],
    "export": ["export", f"no/folder/{STRANGE}"],
    "ingest": ["ingest", f"no/folder/{STRANGE}"],
    "store": ["store", "--file", STRANGE],
    "config": ["--config", STRANGE, "search", "one"],
    "eval": ["eval", STRANGE],
    "search": ["search", "one", "--path", STRANGE],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_with_such_a_path_ends_in_one_sentence(path, backup, command, tmp_path):
    shutil.copyfile(backup, path.parent / STRANGE)
    ran = subprocess.run(
        [sys.executable, "-m", "plait", "-q", "--db", str(path), *COMMANDS[command]],
        capture_output=True,
        encoding="utf-8",
        cwd=path.parent,
        check=False,
    )
    assert ran.returncode in (1, 2, 3)
    assert ran.stderr.startswith("plait: ")
    assert ran.stderr.count("\n") == 1
    assert names(path) == ["one", "three", "two"]


# -- salvage -------------------------------------------------------------------------------


def test_the_library_salvages_as_the_command_does(path, backup):
    new = path.with_name("new.db")
    path.write_bytes(path.read_bytes()[:-5_000])
    done = Memory.salvage(path, new)
    assert done.target == str(new)
    assert set(names(new)) <= {"one", "three", "two"}
    with pytest.raises(UsageError):
        Memory.salvage(path, new)
    with pytest.raises(NotFound):
        Memory.salvage(path.with_name("no.db"), path.with_name("other.db"))


def test_a_restore_names_the_memory_that_it_replaces(path, backup):
    with Memory.open(path) as memory, pytest.raises(UsageError, check=has_code("no_path")):
        memory.restore(backup)


class Watched(apsw.VFS):
    """The usual file system, which notes the rollback journals that are opened."""

    def __init__(self) -> None:
        self.journals: list[str] = []
        super().__init__("watched", "")

    def xOpen(self, name, flags):
        if flags[0] & apsw.SQLITE_OPEN_MAIN_JOURNAL and flags[0] & apsw.SQLITE_OPEN_CREATE:
            self.journals.append(str(name.filename() if hasattr(name, "filename") else name))
        return super().xOpen(name, flags)


def test_opening_a_backup_makes_no_journal_that_a_kill_would_leave(backup):
    watched = Watched()
    try:
        opened = store.SQLiteStore(str(backup), create=False, vfs="watched")
        assert opened._connections.get().execute("PRAGMA journal_mode").get == "wal"
        opened.close()
        assert watched.journals == []
        connection = apsw.Connection(str(backup), vfs="watched")  # what it would see
        connection.execute("PRAGMA journal_mode = DELETE; CREATE TABLE seen (x)").fetchall()
        connection.close()
        assert watched.journals
    finally:
        watched.unregister()


def test_a_file_in_use_keeps_its_journal_mode(backup):
    holder = apsw.Connection(str(backup))
    holder.execute("BEGIN; SELECT count(*) FROM meta").fetchall()
    opened = store.SQLiteStore(str(backup), create=False, timeout=0.1)
    assert opened._connections.get().execute("PRAGMA journal_mode").get == "delete"
    opened.close()
    holder.close()


@pytest.mark.parametrize("ending", ["-wal", "-journal"])
def test_a_backup_is_not_put_beside_the_journal_of_a_file_that_is_gone(path, backup, ending):
    target = path.with_name("copy.db")
    orphan = target.with_name(target.name + ending)
    orphan.write_bytes(b"\0" * 512)
    with memories.open_memory(path) as memory:
        with pytest.raises(UsageError, check=has_code("orphan_journal")):
            memory.backup(target)
        assert not target.exists()
        assert orphan.stat().st_size == 512
        orphan.write_bytes(b"")  # nothing to apply
        memory.backup(target)


def leave_a_rollback_journal(path: Path, backup: Path) -> Path:
    """Leave the journal of a small file that is gone; return a large backup to restore."""
    large = path.with_name("large.db")
    with memories.open_memory(path) as memory:
        for number in range(60):
            memory.store(f"Note {number} is about something else.")
        memory.backup(large)
    path.unlink()
    # As a killed switch of the journal mode: SQLite would cut the file to the size noted here.
    small = apsw.Connection(str(backup))
    small.execute("PRAGMA journal_mode = PERSIST; BEGIN IMMEDIATE").fetchall()
    small.execute("INSERT INTO meta VALUES ('half', 'done')").fetchall()
    small.cache_flush()
    BY_HAND["cp"](Path(f"{backup}-journal"), Path(f"{path}-journal"))
    small.execute("ROLLBACK").fetchall()
    small.close()
    return large


def is_whole(path: Path) -> bool:
    with memories.open_memory(path) as memory:
        wrong = [one for one in memory.doctor() if one.level == "error"]
        return not wrong and memory.stats().doc_count > 60


def test_a_restored_memory_is_not_undone_by_the_journal_of_a_file_that_is_gone(path, backup):
    large = leave_a_rollback_journal(path, backup)
    done = Memory.restore(large, path)
    assert is_whole(path)
    assert done.journal is not None
    assert Path(done.journal).stat().st_size
    with pytest.raises(NotFound, check=has_code("nothing_kept")):
        Memory.restore(path=path, undo=True)


KILLED = """
import os, sys
from plait.memory import Memory
from plait.stores.sqlite import restoring
restoring._keep_journal = lambda *names: os._exit(9)
Memory.restore(sys.argv[1], sys.argv[2])
"""


def test_a_restore_that_is_killed_after_the_swap_is_not_undone_by_such_a_journal(path, backup):
    large = leave_a_rollback_journal(path, backup)
    words = [sys.executable, "-c", KILLED, str(large), str(path)]
    assert subprocess.run(words, check=False).returncode == 9
    assert is_whole(path)


def test_a_file_that_others_use_is_not_taken_from_them_for_its_journal_mode(path, backup):
    with memories.open_memory(path) as memory:
        memory.store("It is open, as in a server.")
        other = apsw.Connection(str(path))
        migrating._set_journal_mode(other, "wal")  # otherwise busy for as long as that is open
        assert other.execute("PRAGMA journal_mode").get == "wal"
        other.close()
