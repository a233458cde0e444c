"""Opening safely: which SQLite, which file system, whose file, and plait's own errors."""

import os
import stat
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread

import apsw
import pytest

from plait import errors
from plait.stores.sqlite import modes, permissions
from plait.stores.sqlite.connection import (
    Connections,
    Guard,
    checkpoint,
    translate,
)
from plait.stores.sqlite.creating import create_private
from plait.stores.sqlite.modes import (
    SAFE_SQLITE,
    file_system,
    journal_mode,
    sqlite_version,
    wal_is_safe,
)
from plait.stores.sqlite.state import set_meta
from plait.stores.sqlite.store import SQLiteStore
from plait.stores.sqlite.write_lock import WriteLock
from tests.builders import entry, write

POSIX = pytest.mark.skipif(os.name != "posix", reason="file modes are a POSIX notion")


@pytest.mark.parametrize(
    ("version", "safe"),
    [
        ((3, 7, 0), False),
        ((3, 40, 1), False),
        ((3, 44, 5), False),
        ((3, 44, 6), True),
        ((3, 45, 0), False),
        ((3, 49, 9), False),
        ((3, 50, 6), False),
        ((3, 50, 7), True),
        ((3, 51, 0), False),
        ((3, 51, 2), False),
        ((3, 51, 3), True),
        ((3, 52, 0), True),
        ((4, 0, 0), True),
    ],
)
def test_wal_is_safe_from_the_version_that_mended_it(
    version: tuple[int, int, int], safe: bool
) -> None:
    assert wal_is_safe(version) is safe


def test_the_sqlite_at_hand_is_safe() -> None:
    assert sqlite_version() >= SAFE_SQLITE


@pytest.fixture
def mounts(tmp_path: Path) -> str:
    file = tmp_path / "mounts"
    file.write_text(
        "overlay / overlay rw 0 0\n"
        "server:/export /mnt/nfs nfs4 rw 0 0\n"
        "//host/share /mnt/my\\040share cifs rw 0 0\n"
        "tmpfs /mnt/nfs/cache tmpfs rw 0 0\n"
        "broken line\n\n",
        encoding="utf-8",
    )
    return str(file)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/anywhere/memory.db", "overlay"),
        ("/mnt/nfs/memory.db", "nfs4"),
        ("/mnt/nfs", "nfs4"),
        ("/mnt/nfs-not/memory.db", "overlay"),
        ("/mnt/nfs/cache/memory.db", "tmpfs"),
        ("/mnt/my share/deep/memory.db", "cifs"),
    ],
)
def test_the_longest_mount_above_a_path_tells_its_file_system(
    mounts: str, path: str, kind: str
) -> None:
    assert file_system(path, mounts) == kind


def test_where_the_system_does_not_tell_nothing_is_assumed(tmp_path: Path) -> None:
    assert file_system("/x", str(tmp_path / "absent")) == ""


@pytest.mark.parametrize(
    ("kind", "version", "mode"),
    [
        ("ext4", (3, 54, 1), "wal"),
        ("", (3, 54, 1), "wal"),
        ("nfs4", (3, 54, 1), "delete"),
        ("fuse.sshfs", (3, 54, 1), "delete"),
        ("ext4", (3, 40, 1), "delete"),
    ],
)
def test_no_wal_where_it_would_lose_data(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    version: tuple[int, int, int],
    mode: str,
) -> None:
    monkeypatch.setattr(modes, "file_system", lambda _: kind)
    monkeypatch.setattr(modes, "sqlite_version", lambda: version)
    path = str(tmp_path / "memory.db")
    assert journal_mode(path) == mode
    store = SQLiteStore(path)
    write(store, entry("k", "x"))
    assert store._connections.get().execute("PRAGMA journal_mode").get == mode
    store.close()


@POSIX
def test_files_and_folder_are_private_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "memory.db"
    before = os.umask(0)
    try:
        store = SQLiteStore(str(path))
        write(store, entry("k", "x"))
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        folder = stat.S_IMODE(path.parent.stat().st_mode)
        store.close()
    finally:
        os.umask(before)
    assert modes == {"memory.db": 0o600, "memory.db-wal": 0o600, "memory.db-shm": 0o600}
    assert folder == 0o700


def test_creating_what_another_process_has_just_created_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.write_text("theirs", encoding="utf-8")
    create_private(str(path))
    assert path.read_text(encoding="utf-8") == "theirs"


def test_a_folder_in_the_files_place_is_refused_with_the_way_out(tmp_path: Path) -> None:
    for act in (create_private, SQLiteStore):
        with pytest.raises(errors.StoreError) as refused:
            act(str(tmp_path))
        assert refused.value.notice.code == "is_folder"
        assert refused.value.advice == errors.advise("choose_file")


def test_a_place_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(errors.StoreError, match=r"Cannot (create|open)"):
        SQLiteStore(str(tmp_path / "file" / "memory.db"))


@POSIX
def test_a_file_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    name = "n" * 300  # longer than any file system allows, so that it fails for root too
    with pytest.raises(errors.StoreReadOnly, match="Cannot create"):
        create_private(str(tmp_path / name))


@POSIX
def test_a_link_that_leads_nowhere_is_not_followed(tmp_path: Path) -> None:
    link, target = tmp_path / "link.db", tmp_path / "elsewhere.db"
    link.symlink_to(target)
    with pytest.raises(errors.StoreError, match="plait makes no memory through a link") as refused:
        SQLiteStore(str(link))
    assert str(target) in str(refused.value)
    assert not target.exists()
    target.touch()  # as the message says
    SQLiteStore(str(link)).close()
    assert target.stat().st_size and link.is_symlink()
    link.unlink()
    link.symlink_to(link)
    with pytest.raises(errors.StoreError, match="plait makes no memory through a link"):
        SQLiteStore(str(link))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (apsw.BusyError, errors.StoreBusy),
        (apsw.LockedError, errors.StoreBusy),
        (apsw.FullError, errors.StoreFull),
        (apsw.NotADBError, errors.StoreDamaged),
        (apsw.CorruptError, errors.StoreDamaged),
        (apsw.ReadOnlyError, errors.StoreReadOnly),
        (apsw.InterruptError, errors.DeadlineExceeded),
        (apsw.IOError, errors.StoreFull),
        (apsw.CantOpenError, errors.StoreError),
        (apsw.SQLError, errors.StoreError),
        (apsw.ConstraintError, errors.StoreDamaged),
        (apsw.MismatchError, errors.StoreDamaged),
    ],
)
def test_every_failure_of_sqlite_becomes_one_of_ours_that_names_the_file(
    theirs: type[apsw.Error], ours: type[errors.PlaitError]
) -> None:
    error = translate(theirs("the reason"), "/m/memory.db")
    assert type(error) is ours
    assert error.notice.subject == "/m/memory.db"
    if ours is not errors.DeadlineExceeded:
        assert "/m/memory.db" in error.notice.text


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("vtable constructor failed: passages_fts", "keywords_damaged"),
        ("no such table: passages_vocab", "keywords_damaged"),
        ("no such fts5 table: main.passages_fts", "keywords_damaged"),
        ("invalid fts5 file format (found 0, expected 4 or 5)", "keywords_damaged"),
        ("no such table: strange", "store_damaged"),
        ("malformed JSON", "store_damaged"),
        ('near "x": syntax error', "store_failed"),
    ],
)
def test_what_our_statements_name_and_sqlite_cannot_open_is_damage(reason: str, code: str) -> None:
    error = translate(apsw.SQLError(reason), "/m/memory.db")
    assert error.code == code
    damaged = code != "store_failed"
    assert isinstance(error, errors.StoreDamaged) is damaged
    assert (error.advice == errors.advise("doctor_fix")) is damaged


@pytest.mark.parametrize(
    ("raised", "becomes"),
    [
        (apsw.FullError("full"), errors.StoreFull),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "no"), errors.UsageError),
        (OverflowError("too big"), errors.UsageError),
        (errors.NotFound("x"), errors.NotFound),
        (ZeroDivisionError(), ZeroDivisionError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_the_guard_translates_what_it_knows_and_lets_the_rest_travel(
    raised: BaseException, becomes: type[BaseException]
) -> None:
    guard = Guard(Connections(":memory:"))
    with pytest.raises(becomes), guard:
        raise raised


def test_a_transaction_is_undone_by_whatever_is_raised_inside(store: SQLiteStore) -> None:
    def fail() -> None:
        with WriteLock(store._connections) as connection:
            set_meta(connection, "chunker", "b")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert store.state().chunker is None
    with WriteLock(store._connections) as connection:
        set_meta(connection, "chunker", "c")
    assert store.state().chunker == "c"


def test_after_an_io_error_the_connection_is_replaced(store: SQLiteStore) -> None:
    before = store._connections.get()

    def fail() -> None:
        with WriteLock(store._connections):
            raise apsw.IOError("sync failed")

    with pytest.raises(apsw.IOError):
        fail()
    assert store._connections.get() is not before
    write(store, entry("k", "x"))
    assert store.stats().doc_count == 1


def test_a_commit_that_fails_is_rolled_back(store: SQLiteStore) -> None:
    def fail() -> None:
        with WriteLock(store._connections) as connection:
            connection.execute("PRAGMA defer_foreign_keys = ON")
            connection.execute(
                "INSERT INTO unembedded (generation, passage, reason) VALUES (1, 1, 'pending')"
            )

    with pytest.raises(apsw.ConstraintError):
        fail()
    assert not store._connections.get().in_transaction
    write(store, entry("k", "x"))


def test_every_thread_of_a_file_has_its_own_connection(store: SQLiteStore) -> None:
    seen = []
    thread = Thread(target=lambda: seen.append(store._connections.get()))
    thread.start()
    thread.join()
    assert seen[0] is not store._connections.get()


LOCK = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_file_that_another_process_keeps_locked_is_busy(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.db")
    store = SQLiteStore(path, timeout=0.0)
    store._connections.get().set_busy_timeout(1)
    with subprocess.Popen(
        [sys.executable, "-c", LOCK, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == b"locked"
        assert store.stats().doc_count == 0, "reading goes on"
        with pytest.raises(errors.StoreBusy):
            write(store, entry("k", "x"))
        with pytest.raises(errors.StoreBusy), store.transaction(patient=False):
            pass
        other.communicate(b"")
    write(store, entry("k", "x"))
    assert store.stats().doc_count == 1
    store.close()


def test_a_checkpoint_that_others_hold_up_says_so(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.db")
    store = SQLiteStore(path)
    reader = apsw.Connection(path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM documents").fetchall()
    write(store, entry("k", "x"))
    connection = store._connections.get()
    connection.set_busy_timeout(1)
    assert not checkpoint(connection, "TRUNCATE")
    reader.close()
    assert checkpoint(connection, "TRUNCATE")
    assert Path(path + "-wal").stat().st_size == 0
    store.close()


@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("normal", 1)])
def test_durability_is_as_chosen(tmp_path: Path, durability: str, level: int) -> None:
    store = SQLiteStore(str(tmp_path / "m.db"), durability=durability)
    assert store._connections.get().execute("PRAGMA synchronous").get == level
    store.close()


@pytest.mark.parametrize(
    ("pragma", "value"),
    [
        ("foreign_keys", 1),
        ("trusted_schema", 0),
        ("secure_delete", 1),
        ("mmap_size", 0),
        ("journal_mode", "wal"),
    ],
)
def test_every_connection_follows_the_recipe(
    store: SQLiteStore, pragma: str, value: object
) -> None:
    seen: list[object] = []
    here = store._connections.get().execute(f"PRAGMA {pragma}").get
    thread = Thread(
        target=lambda: seen.append(store._connections.get().execute(f"PRAGMA {pragma}").get)
    )
    thread.start()
    thread.join()
    assert [here, *seen] == [value, value]


def test_threads_that_share_a_connection_take_turns() -> None:
    """A database in memory belongs to one connection."""
    connections = Connections(":memory:", timeout=0.05)
    answers: list[str] = []

    def use(*, patient: bool) -> None:
        try:
            with Guard(connections, patient=patient):
                answers.append("used")
        except errors.StoreBusy:
            answers.append("busy")

    with Guard(connections), Guard(connections):  # one thread may nest
        for patient in (True, False):
            thread = Thread(target=use, kwargs={"patient": patient})
            thread.start()
            thread.join()
    use(patient=False)
    assert answers == ["busy", "busy", "used"]
    connections.close()


def test_an_ordinary_opening_does_not_load_the_migrations(store: SQLiteStore) -> None:
    store.close()
    code = (
        "import sys; from plait.stores import open_store; open_store(sys.argv[1]).state(); "
        "print('plait.stores.sqlite.schema' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, store.path], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.strip() == "False"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="links and modes of POSIX")
@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
@pytest.mark.parametrize("ending", ["-shm", "-wal"])
def test_a_link_beside_a_memory_opens_no_private_file_to_others(
    tmp_path: Path, link: str, ending: str
) -> None:
    private = tmp_path / "private"
    private.write_text("a key", encoding="utf-8")
    private.chmod(0o400)
    memory = tmp_path / "m.db"
    memory.write_bytes(b"")
    memory.chmod(0o666)
    beside = tmp_path / f"m.db{ending}"
    getattr(beside, link)(private)
    with suppress(OSError):
        permissions._change_mode(str(beside), 0o666)
    assert private.stat().st_mode & 0o777 == 0o400


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="modes of POSIX")
def test_a_plain_file_beside_a_memory_gets_its_mode(tmp_path: Path) -> None:
    beside = tmp_path / "m.db-shm"
    beside.write_bytes(b"")
    beside.chmod(0o400)
    permissions._change_mode(str(beside), 0o640)
    assert beside.stat().st_mode & 0o777 == 0o640


def test_a_snapshot_after_a_write_is_no_abandoned_transaction(tmp_path: Path) -> None:
    with closing(SQLiteStore(str(tmp_path / "m.db"))) as store:
        with store.transaction() as transaction:
            transaction.remember(chunker="c")
        connection = store._connections.get()
        assert store._connections.writers == {}
        with connection:
            assert store.state().chunker == "c"
            assert connection.in_transaction


def test_a_transaction_whose_writer_is_gone_is_rolled_back_by_the_next_read(tmp_path: Path) -> None:
    with closing(SQLiteStore(str(tmp_path / "m.db"))) as store:
        set_meta(WriteLock(store._connections).__enter__(), "chunker", "lost")
        assert store.state().chunker is None
        assert not store._connections.get().in_transaction
