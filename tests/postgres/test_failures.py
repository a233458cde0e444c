"""What can be wrong with a server, or the way to it: one sentence and a code for each."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import psycopg
import pytest

from plait.errors import (
    DeadlineExceeded,
    PlaitError,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    UsageError,
    advise,
)
from plait.memory import Memory
from plait.stores.postgres import pool
from plait.text import parse
from plait.types.ids import new_id
from tests.builders import EVERYTHING, entry
from tests.codes import has_code
from tests.postgres.conftest import Opening
from tests.postgres.own_server import OwnServer
from tests.postgres.proxy import Proxy
from tests.postgres.test_lost_connections import names, put


def dsn_of(server: OwnServer, role: str = "postgres", database: str = "postgres") -> str:
    return f"postgresql://{role}@/{database}?host={server.folder}"


@pytest.fixture
def role(server: OwnServer) -> Iterator[str]:
    """A role that may do everything, to be given settings of its own."""
    name = f"role_{new_id()}"
    server.execute(f"CREATE ROLE {name} LOGIN SUPERUSER")
    yield name
    server.execute(f"REASSIGN OWNED BY {name} TO postgres; DROP OWNED BY {name}; DROP ROLE {name}")


# -- the way to the server -----------------------------------------------------------------


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://ana:geheim@127.0.0.1:1/team",
        "postgresql://ana:geheim@no-such-host.invalid/team",
        "postgresql://ana:geheim@/team?host=/no/such/folder",
    ],
)
def test_a_server_that_was_never_there_is_told_at_once(opening: Opening, dsn: str) -> None:
    started = time.process_time()
    check = has_code("no_connection", advice=advise("reach_server"))
    with pytest.raises(StoreError, match="does not answer", check=check) as raised:
        opening(dsn, timeout=600.0)
    assert time.process_time() - started < 5
    assert_one_sentence(raised.value)


def assert_one_sentence(error: PlaitError) -> None:
    text = error.notice.text
    assert "\n" not in text
    assert "geheim" not in text
    assert text.endswith(".")


def test_a_wrong_password_is_told(server: OwnServer, opening: Opening, role: str) -> None:
    rules = server.data / "pg_hba.conf"
    before = rules.read_text(encoding="utf-8")
    rules.write_text(f"local all {role} scram-sha-256\n{before}", encoding="utf-8")
    server.execute(f"ALTER ROLE {role} PASSWORD 'right'")
    server.execute("SELECT pg_reload_conf()")
    try:
        for password in (":geheim", ""):
            dsn = f"postgresql://{role}{password}@/postgres?host={server.folder}"
            with pytest.raises(StoreError, check=has_code("login_refused")) as raised:
                _open_until_refused(opening, dsn)
            assert_one_sentence(raised.value)
        opening(f"postgresql://{role}:right@/postgres?host={server.folder}")
    finally:
        rules.write_text(before, encoding="utf-8")
        server.execute("SELECT pg_reload_conf()")


def _open_until_refused(opening: Opening, dsn: str) -> None:
    """The server reads its rules again a moment after it was told to."""
    for _ in range(500):
        opening(dsn)
        time.sleep(0.01)


def test_a_missing_database_is_told(server: OwnServer, opening: Opening) -> None:
    with pytest.raises(StoreError, check=has_code("no_database")) as raised:
        opening(dsn_of(server, database="nowhere"))
    assert_one_sentence(raised.value)


def test_a_missing_role_is_told(server: OwnServer, opening: Opening) -> None:
    with pytest.raises(StoreError, check=has_code("login_refused")) as raised:
        opening(dsn_of(server, role="nobody_at_all"))
    assert_one_sentence(raised.value)


def test_an_unknown_option_is_told(server: OwnServer, opening: Opening) -> None:
    for option, told in (
        ("pasword=geheim", "(is it password?)"),
        ("namspace=shop", "(is it namespace?)"),
        ("geheim=1", "is not known, or has"),
        ("connect_timeout=geheim", "has a value that it cannot have"),
        ("sslmode=hokum", "invalid sslmode value"),
    ):
        with pytest.raises(UsageError, check=has_code("bad_address")) as raised:
            opening(f"{server.dsn}&{option}")
        assert_one_sentence(raised.value)
        assert told in raised.value.notice.text


def test_a_server_without_a_free_connection_is_waited_for(
    server: OwnServer, opening: Opening, role: str
) -> None:
    opening(server.dsn)
    server.execute(f"ALTER ROLE {role} NOSUPERUSER CONNECTION LIMIT 0")
    server.execute(f"GRANT ALL ON SCHEMA plait TO {role}")
    server.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA plait TO {role}")
    with pytest.raises(StoreBusy, check=has_code("too_many_connections")) as raised:
        opening(dsn_of(server, role), timeout=0.1)
    assert_one_sentence(raised.value)
    freeing = Thread(
        target=server.execute, args=(f"ALTER ROLE {role} CONNECTION LIMIT 5",), daemon=True
    )
    freeing.start()
    assert names(opening(dsn_of(server, role), timeout=30.0)) == []
    freeing.join()


# -- connections ---------------------------------------------------------------------------


def test_all_connections_in_use_are_told(server: OwnServer, opening: Opening) -> None:
    store = opening(server.dsn, timeout=0.05)
    connections = store._connections  # type: ignore[attr-defined]
    with ExitStack() as stack:
        for _ in range(pool.MOST_CONNECTIONS):
            stack.enter_context(connections.lent())
        with pytest.raises(StoreBusy, check=has_code("no_free_connection")) as raised:
            names(store)
        assert_one_sentence(raised.value)
    assert names(store) == []


def test_waiting_writers_leave_connections_for_readers(server: OwnServer, opening: Opening) -> None:
    """The thread that writes reads, too; those that wait must not have all connections."""
    store = opening(server.dsn, timeout=30.0)
    with store.transaction() as transaction:
        waiting = [
            Thread(target=put, args=(store, f"note{number}"), daemon=True)
            for number in range(2 * pool.MOST_CONNECTIONS)
        ]
        for thread in waiting:
            thread.start()
        transaction.write(entry("mine", "mine", id="mine"))
        assert names(store) == []
    for thread in waiting:
        thread.join()
    assert len(names(store)) == 1 + len(waiting)


def test_an_impatient_writer_gives_up_at_once(server: OwnServer, opening: Opening) -> None:
    store, other = opening(server.dsn, timeout=600.0), opening(server.dsn, timeout=600.0)
    with store.transaction():
        for rival in (other, store):
            outcome: list[str] = []

            def try_to_write(rival: object = rival, outcome: list[str] = outcome) -> None:
                try:
                    with rival.transaction(patient=False):  # type: ignore[attr-defined]
                        outcome.append("wrote")
                except StoreBusy as error:
                    outcome.append(error.code)

            thread = Thread(target=try_to_write, daemon=True)
            thread.start()
            thread.join(30)
            assert outcome == [StoreBusy.code]


def test_an_old_connection_is_not_used_again(
    server: OwnServer, proxy: Proxy, opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A firewall forgets it after some minutes, and tells nobody."""
    store = opening(proxy.dsn)
    before = proxy.count
    names(store)
    assert proxy.count == before
    monkeypatch.setattr(pool, "IDLE_S", -1.0)
    names(store)
    assert proxy.count == before + 1


def test_a_vanished_server_is_noticed(server: OwnServer, proxy: Proxy, opening: Opening) -> None:
    store = opening(f"{proxy.dsn}&keepalives_count=7")
    with store._connections.lent() as session:  # type: ignore[attr-defined]
        options = session.connection.info.get_parameters()
    assert int(options["keepalives_idle"]) + 7 * int(options["keepalives_interval"]) <= 120
    assert options["keepalives_count"] == "7"  # what the address says counts
    assert int(options["tcp_user_timeout"]) <= 60_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_has_connections_of_its_own(server: OwnServer, opening: Opening) -> None:
    store = opening(server.dsn)
    put(store, "parent")
    with store.transaction() as transaction:
        transaction.write(entry("later", "later", id="later"))
        child = os.fork()
        if not child:
            code = 1
            try:
                assert names(store) == ["parent"]
                store.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
    child = os.fork()
    if not child:
        code = 1
        try:
            put(store, "child")
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    put(store, "last")
    assert sorted(names(store)) == ["child", "last", "later", "parent"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_waits_for_no_writer_that_only_its_parent_has(
    server: OwnServer, opening: Opening
) -> None:
    store = opening(server.dsn)
    turn = store._connections._turn.take(0.0)  # type: ignore[attr-defined]
    assert turn is not None
    child = os.fork()
    if not child:
        code = 1
        try:
            put(store, "child")
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert names(store) == ["child"]


# -- what the server refuses ---------------------------------------------------------------


def test_a_statement_that_lasts_too_long_is_told(
    server: OwnServer, opening: Opening, role: str
) -> None:
    opening(server.dsn)
    server.execute(f"ALTER ROLE {role} SET statement_timeout = '200ms'")
    store = opening(dsn_of(server, role))
    connections = store._connections  # type: ignore[attr-defined]
    with pytest.raises(DeadlineExceeded):
        connections.read(lambda session: session.value("SELECT pg_sleep(60)"))
    with pytest.raises(DeadlineExceeded), store.transaction() as transaction:
        transaction.write(entry("lost", "lost"))
        transaction._documents.value("SELECT pg_sleep(60)")  # type: ignore[attr-defined]
    put(store, "kept")
    assert names(store) == ["kept"]


def test_a_read_only_server_answers_and_refuses_to_write(
    server: OwnServer, opening: Opening, role: str
) -> None:
    store = opening(server.dsn)
    put(store, "first")
    server.execute(f"ALTER ROLE {role} SET default_transaction_read_only = on")
    replica = opening(dsn_of(server, role))
    assert names(replica) == ["first"]
    assert len(replica.keyword(parse("text"), 5, EVERYTHING)) == 1
    with pytest.raises(StoreReadOnly) as raised:
        put(replica, "second")
    assert_one_sentence(raised.value)


def test_a_memory_that_is_not_there_cannot_be_made_on_a_read_only_server(
    server: OwnServer, opening: Opening, role: str
) -> None:
    server.execute(f"ALTER ROLE {role} SET default_transaction_read_only = on")
    with pytest.raises(StoreReadOnly) as raised:
        opening(dsn_of(server, role))
    assert_one_sentence(raised.value)


def test_after_a_failover_a_write_looks_for_the_new_primary(
    server: OwnServer, opening: Opening, role: str
) -> None:
    """Old connections lead to a server that is read-only now; a new one finds the other."""
    put(opening(server.dsn), "first")
    server.execute(f"ALTER ROLE {role} SET default_transaction_read_only = on")
    store = opening(dsn_of(server, role))
    assert names(store) == ["first"]
    server.execute(f"ALTER ROLE {role} RESET default_transaction_read_only")
    put(store, "second")
    assert sorted(names(store)) == ["first", "second"]


def test_a_statement_that_failed_unseen_lets_nothing_be_acknowledged(
    server: OwnServer, opening: Opening
) -> None:
    import psycopg

    store = opening(server.dsn)
    refused = pytest.raises(StoreError, match="nothing of it was kept")
    with refused, store.transaction() as transaction:
        transaction.write(entry("lost", "lost"))
        with pytest.raises(psycopg.Error):
            transaction._documents.value("SELECT 1 / 0")  # type: ignore[attr-defined]
        transaction.finish = lambda: None  # type: ignore[attr-defined]
    put(store, "kept")
    assert names(store) == ["kept"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with room for a few megabytes."""
    folder = Path("/tmp") / f"plait-small-{new_id()}"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m,mode=0777", "tmpfs", folder],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        folder.rmdir()
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)
    folder.rmdir()


def test_a_full_disk_is_told_and_loses_nothing(
    server: OwnServer, opening: Opening, small_disk: Path
) -> None:
    place = small_disk / "space"
    place.mkdir()
    subprocess.run(["chown", "pgserver", place], check=True)
    server.execute(f"CREATE TABLESPACE small LOCATION '{place}'")
    server.execute("CREATE DATABASE small TABLESPACE small")
    try:
        store = opening(dsn_of(server, database="small"))
        # Pages of the new database that are only in the server's memory have no room of their own
        # yet: later, to read something else might mean to write them.
        server.execute("CHECKPOINT")
        room = os.statvfs(small_disk)
        filler = small_disk / "filler"
        filler.write_bytes(bytes(room.f_bavail * room.f_bsize - 2_000_000))
        kept = []
        with pytest.raises(StoreFull) as raised:
            for number in range(500):
                text = " ".join(f"w{number}x{word}" for word in range(1_000))
                with store.transaction() as transaction:
                    transaction.write(entry(f"note{number}", text, id=f"note{number}"))
                kept.append(f"note{number}")
        assert_one_sentence(raised.value)
        assert kept
        assert sorted(names(store)) == sorted(kept)
        filler.unlink()
        put(store, "with-room-again")
        assert len(names(store)) == len(kept) + 1
        store.close()
    finally:
        server.execute("DROP DATABASE small WITH (FORCE)")
        server.execute("DROP TABLESPACE small")


# -- what a restore and a purge leave ------------------------------------------------------


def test_vectors_that_a_restore_lost_are_missed_and_made_anew(server: OwnServer) -> None:
    """As after pg_restore into a database without the extension."""
    database = f"restored_{new_id()}"
    server.execute(f"CREATE DATABASE {database}")
    address = f"{dsn_of(server, database=database)}&namespace=shop"
    with Memory.open(address, project="") as memory:
        for number in range(3):
            memory.store(f"The otter number {number} sleeps at noon", key=f"otter-{number}")
        assert memory.stats().embedded_count == 3
        with psycopg.connect(dsn_of(server, database=database), autocommit=True) as connection:
            connection.execute("DROP TABLE plait.embeddings")
    with Memory.open(address, project="") as memory:
        assert memory.search("otter").receipt.pending_vectors == 3
        assert memory.stats().embedded_count == 0
        assert memory.reindex().embedded == 3
        assert memory.search("otter", mode="vector")
        assert memory.stats().embedded_count == 3


def test_a_purge_by_who_may_not_vacuum_says_what_it_leaves(server: OwnServer, role: str) -> None:
    namespace = new_id()
    with Memory.open(f"{server.dsn}&namespace={namespace}", project="") as memory:
        memory.store("The otter sleeps at noon", key="otter")
        memory.store("The badger digs at night", key="badger")
        assert memory.delete("badger", purge=True).copies == ()
    server.execute(f"ALTER ROLE {role} NOSUPERUSER")
    server.execute(f"GRANT USAGE ON SCHEMA plait TO {role}")
    server.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA plait TO {role}")
    with Memory.open(f"{dsn_of(server, role)}&namespace={namespace}", project="") as memory:
        [left] = memory.delete("otter", purge=True).copies
        assert "the owner of its tables" in left
