"""A backup can be restored: by the verb, by hand, under load and under kill -9."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from plait.errors import NotFound, SchemaTooNew, StoreDamaged, StoreError, UsageError
from plait.memory import Memory
from plait.stores import salvage
from plait.stores.sqlite import journal
from tests.interfaces.command import spawn
from tests.reliability import memories, plants, restore_child
from tests.reliability.processes import Child, children, posix_only

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


def test_a_full_disk_replaces_nothing(path, backup):
    with children(Child(restore_child.restore_without_room, path, backup)) as (child,):
        assert child.expect("refused")[1] == "store_full"
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
    outcomes = []
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
        if finished:
            break
    assert finished
    assert outcomes == sorted(outcomes), "first the old one, then the new one"
    assert old in outcomes


# -- the command line ----------------------------------------------------------------------


def test_the_command_restores_undoes_and_says_how(path, backup):
    done = spawn("--db", str(path), "restore", str(backup), "--format", "text")
    assert done.code == 0
    assert "plait restore --undo" in done.err
    assert names(path) == ["one", "two"]
    undone = spawn("--db", str(path), "restore", "--undo", "--json")
    assert set(undone.json) == {"path", "source", "kept", "journal", "documents"}
    assert names(path) == ["one", "three", "two"]
    assert spawn("--db", str(path), "restore", "no.db").code == 3
    assert spawn("--db", str(path), "restore").code == 2


def test_every_command_names_the_way_out_of_a_foreign_journal(path, backup):
    leave_a_journal(path)
    BY_HAND["cp"](backup, path)
    for words in (["search", "one"], ["store", "x"], ["doctor", "--fix"], ["backup", "b2.db"]):
        ran = spawn("--db", str(path), *words)
        assert ran.code == 1
        assert ran.err.count("\n") == 1
        assert "plait restore" in ran.err
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
