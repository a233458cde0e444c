"""Interrupt acts on a memory in PostgreSQL, and tell what is not as it should be afterwards.

Usage: interrupt_child.py ADDRESS FOLDER SHARE SIGNALS FILES...: of the points of each act in files
with such names, one in SHARE is tried, and then so many real signals come at any moment. Prints a
line for each problem, and how many points there were. A process of its own, because it traces.
"""

import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from plait import Memory
from plait.errors import PlaitError
from plait.exporting import migrating
from plait.protocols import Entry
from plait.stores.postgres.commits import LOCK
from plait.stores.postgres.connection import SCHEMA_VERSION, VERSION, number_of
from plait.stores.sqlite.state import MOVING
from plait.types import Document, Passage
from plait.types.ids import new_id
from plait.types.reports import NewEntity
from tests.postgres.interrupts import Point, Watch, shown

# So long a server may need to notice that a client is gone.
PATIENCE_S = 5.0
CHECKED_EVERY = 25
# An act that takes so long waits for what never comes.
HANGS_S = 20.0
_SESSIONS = (
    "SELECT coalesce(max(state) FILTER (WHERE state <> 'idle'), ''), count(*), "
    "(SELECT count(*) FROM pg_locks AS l JOIN pg_stat_activity AS s USING (pid) "
    "WHERE s.application_name = %(name)s AND l.locktype <> 'virtualxid') "
    "FROM pg_stat_activity WHERE application_name = %(name)s"
)
_WRITABLE = (
    "SELECT pg_try_advisory_xact_lock(%(lock)s), (SELECT ns FROM plait.namespaces "
    "WHERE ns = %(ns)s FOR UPDATE NOWAIT)"
)
# What is half written shows here: passages without a document, or another number than was counted.
_WHOLE = (
    "SELECT (SELECT count(*) FROM plait.passages WHERE ns = %(ns)s) - n.passages, "
    "(SELECT coalesce(sum(length), 0) FROM plait.passages WHERE ns = %(ns)s) - n.tokens, "
    "(SELECT coalesce(sum(chunk_count), 0) FROM plait.documents WHERE ns = %(ns)s) - n.passages "
    "FROM plait.namespaces AS n WHERE ns = %(ns)s"
)
_TABLES_OF_MEMORIES = (
    "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('plait') "
    "AND relkind = 'r' AND relname <> 'schema_version'"
)


class HangError(BaseException):
    """Something waits for ever."""


def hang(*_: object) -> None:
    raise HangError


class Outside:
    """Looks at a memory from another session."""

    def __init__(self, dsn: str, name: str) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._name = name

    def row(self, sql: Any, **values: object) -> tuple[Any, ...]:
        row = self._connection.execute(sql, values).fetchone()
        assert row is not None
        return row

    def close(self) -> None:
        self._connection.close()

    def run(self, sql: str) -> None:
        self._connection.execute(sql.encode())

    def problems(self, ns: int | None) -> Iterator[str]:
        until = time.monotonic() + PATIENCE_S
        while (seen := self.row(_SESSIONS, name=self._name))[0] or seen[2]:
            if time.monotonic() > until:
                yield f"left {seen[0] or 'locks'}"
                break
            time.sleep(0.002)
        if seen[1] > 8:
            yield f"{seen[1]} sessions"
        if ns is None:
            return
        try:
            if not self.row(_WRITABLE, lock=LOCK, ns=ns)[0]:
                yield "the tables are locked"
        except psycopg.errors.LockNotAvailable:
            yield "the memory is locked"
        if any(off := self.row(_WHOLE, ns=ns)):
            yield f"half written {off}"


class Act(NamedTuple):
    """What is interrupted: prepared, done, and looked at afterwards, each with a number."""

    name: str
    do: Callable[[int], object]
    prepare: Callable[[int], object] = lambda number: None
    # Whether it was done, from outside; a problem if it is neither done nor undone.
    look: Callable[[int], str | None] = lambda number: None
    ns: int | None = None
    sound: Callable[[], str | None] = lambda: None
    most: int | None = None  # of its points, because it takes long


class Scenes:
    """The acts, on one memory and on new ones."""

    def __init__(self, address: str, folder: Path) -> None:
        self._name = f"interrupted-{new_id()}"
        mark = "&" if "?" in address else "?"
        self._server = f"{address}{mark}application_name={self._name}"
        self.outside = Outside(address, self._name)
        self._namespace = new_id()
        self._folder = folder
        self._notes = folder / "notes"
        self._notes.mkdir()
        self.memory = self._open(self._namespace)
        self._ns = number_of(self._namespace)
        self._databases: list[_Database] = []

    def _open(self, namespace: str, **options: Any) -> Memory:
        where = f"{self._server}&namespace={namespace}"
        return Memory.open(where, **{"embedder": "hashing", "project": "", **options})

    def _sound(self) -> str | None:
        """Check all of a memory, and that it can be written to and searched as ever."""
        word = f"w{new_id()}"
        try:
            self.memory.store(f"Sound {word}.", key="sound")
            hits = [hit.document.key for hit in self.memory.search(word, limit=1).hits]
            if hits != ["sound"]:
                return f"found {hits}"
            bad = [row for row in self.memory.doctor() if row.level == "error"]
        except PlaitError as error:
            return f"{error.code}: {error}"
        return str(bad[0]) if bad else None

    def _text(self, key: str) -> str | None:
        sql = "SELECT min(p.text) FROM plait.passages AS p JOIN plait.documents AS d "
        sql += "ON d.ns = p.ns AND d.place = p.document WHERE d.ns = %(ns)s AND d.key = %(key)s"
        text: str | None = self.outside.row(sql, ns=self._ns, key=key)[0]
        return text

    def acts(self) -> Iterator[Act]:
        memory, own = self.memory, {"ns": self._ns, "sound": self._sound}
        memory.store("Nothing else.", key="other")

        def stored(number: int) -> str | None:
            text = self._text("note")
            expected = [None, *(f"Number {at}." for at in range(number + 1))]
            return None if text in expected else f"stored {text}"

        def act(name: str, do: Callable[[int], object], **more: Any) -> Act:
            return Act(name, do, **{**own, **more})

        yield act("store", lambda n: memory.store(f"Number {n}.", key="note"), look=stored)
        yield act("store_many", lambda n: memory.store_many(self._texts(n)))
        yield act("search", self._search)
        yield act("search in a transaction", self._search_inside, look=self._nothing_kept)
        yield act("ingest", lambda n: memory.ingest(self._notes), prepare=self._write_notes)
        yield act(
            "delete",
            lambda n: memory.delete("gone"),
            prepare=lambda n: memory.store("Gone soon.", key="gone"),
        )
        yield act(
            "undo",
            lambda n: memory.undo("gone"),
            prepare=lambda n: self._delete(),
        )
        yield act(
            "mark",
            lambda n: memory.mark("other", status="done" if n % 2 else "active"),
        )
        yield act("entity", lambda n: memory.graph.create(self._entity(n)))
        yield act("use", lambda n: self._use())
        yield act("reindex", lambda n: memory.reindex(), most=40)
        yield act("maintain", lambda n: memory.maintain(), most=40)
        yield act("open", lambda n: self._open(self._namespace, create=False).close(), most=60)
        yield act("create", lambda n: self._open(f"{self._namespace}-{n}").close(), most=60)
        yield from self._on_tables(act)

    def _on_tables(self, act: Callable[..., Act]) -> Iterator[Act]:
        """What concerns all memories of a database, on one of its own."""
        own = _Database(self.outside, self._server)
        self._databases.append(own)
        tables = {"ns": None, "sound": own.sound, "look": own.look}
        yield act("make the tables", own.open, prepare=own.drop_tables, most=6, **tables)
        yield act("the first member", own.admit, prepare=own.drop_tables, most=6, **tables)
        yield act("a member", own.promote, prepare=own.admit, most=10, **tables)
        yield act("a former member", own.dismiss, prepare=own.admit, most=10, **tables)
        yield act("migrate", own.migrate, prepare=own.drop_memory, most=12, **tables)

    def close(self) -> None:
        self.memory.close()
        for database in self._databases:
            database.close()

    def _texts(self, number: int) -> list[Document]:
        return [Document(text=f"Text {number} {at}.", key=f"many{number}{at}") for at in range(3)]

    def _search(self, number: int) -> None:
        self.memory.search("nothing else", limit=3)

    def _search_inside(self, number: int) -> None:
        with self.memory.engine.transaction() as transaction:
            words = "kept by nobody"
            document = Document(id=f"inside{number}", key=f"inside{number}", text=words)
            transaction.write(Entry(document, [Passage(words)]))
            self.memory.search("nothing else", limit=3)
            raise KeyboardInterrupt

    def _nothing_kept(self, number: int) -> str | None:
        hits = self.memory.search("kept by nobody", mode="keyword").hits
        return "kept" if any(hit.document.id.startswith("inside") for hit in hits) else None

    def _write_notes(self, number: int) -> None:
        for at in range(2):
            path = self._notes / f"{at}.md"
            path.write_text(f"# File {at}\n\nTurn {number}.\n", encoding="utf-8")

    def _delete(self) -> None:
        self.memory.store("Gone soon.", key="gone")
        self.memory.delete("gone")

    def _entity(self, number: int) -> list[NewEntity]:
        return [NewEntity("Ana", "person", (f"has the number {number}",))]

    def _use(self) -> None:
        hits = self.memory.search("nothing else", limit=1).hits
        self.memory.used([hit.passage.ref for hit in hits])
        self.memory.write_down_use()


class _Database:
    """A database of its own, with a role that may become a member, and a file to move there."""

    def __init__(self, outside: Outside, server: str) -> None:
        self._outside = outside
        self._name = f"interrupted_{new_id()}"
        outside.run(f"CREATE DATABASE {self._name}")
        outside.run(f"CREATE ROLE {self._name} NOLOGIN")
        head, mark, options = server.partition("?")
        dsn = f"{head.rpartition('/')[0]}/{self._name}{mark}{options}"
        self._address = f"{dsn}&namespace=interrupted"
        self._own = psycopg.connect(dsn.replace("application_name=", "fallback_application_name="))
        self._own.autocommit = True
        self._own.execute("SET application_name = outside")
        self._own.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        self._folder = tempfile.TemporaryDirectory()
        self._file = f"{self._folder.name}/moved.db"
        with Memory.open(self._file, embedder="hashing", project="") as memory:
            memory.store("To be moved.", key="moved")

    def open(self, _: int = 0) -> None:
        self._opened().close()

    def _opened(self) -> Memory:
        return Memory.open(self._address, embedder="hashing", project="")

    def drop_tables(self, _: int = 0) -> None:
        self._own.execute("DROP SCHEMA IF EXISTS plait CASCADE")

    def drop_memory(self, _: int) -> None:
        for (table,) in self._own.execute(_TABLES_OF_MEMORIES).fetchall():
            self._own.execute(f"DELETE FROM plait.{table}".encode())

    def admit(self, _: int) -> None:
        with self._opened() as memory:
            memory.team.add(self._name, role="writer")

    def promote(self, _: int) -> None:
        with self._opened() as memory:
            memory.team.role(self._name, "reader")

    def dismiss(self, _: int) -> None:
        with self._opened() as memory:
            memory.team.remove(self._name)

    def migrate(self, _: int) -> None:
        migrating.migrate(self._file, self._address, timeout=5.0)

    def look(self, number: int) -> str | None:
        """Everything is there, or nothing, and what was interrupted can be done now."""
        (version,) = self._outside_tables()
        if version not in (0, SCHEMA_VERSION):
            return f"tables of version {version}"
        if number % 2:
            return None
        return self.sound()

    def _outside_tables(self) -> tuple[int]:
        there = self._own.execute("SELECT to_regclass('plait.schema_version')").fetchone()
        row = (0,) if there == (None,) else self._own.execute(VERSION).fetchone()
        return (row[0] or 0,) if row else (0,)

    def sound(self) -> str | None:
        try:
            mark = self._marked()
            if mark:
                self.migrate(0)
            with self._opened() as memory:
                memory.store(f"Sound {new_id()}.", key="sound")
                bad = [row for row in memory.doctor() if row.level == "error"]
                if mark and memory.get("moved").text != "To be moved.":
                    return "not moved"
        except PlaitError as error:
            return f"{error.code}: {error}"
        return str(bad[0]) if bad else None

    def _marked(self) -> bool:
        there = self._own.execute("SELECT to_regclass('plait.facts')").fetchone()
        sql = "SELECT 1 FROM plait.facts WHERE name = %s"
        return there != (None,) and bool(self._own.execute(sql, (MOVING,)).fetchall())

    def close(self) -> None:
        self._own.close()
        self._folder.cleanup()
        self._outside.run(f"DROP DATABASE {self._name} WITH (FORCE)")
        self._outside.run(f"DROP ROLE {self._name}")


def chosen(points: Sequence[Point], share: int, most: int | None, first: int) -> Sequence[Point]:
    """Every so manieth point, from another one on for each act: many pass by the same ones."""
    step = share if most is None or share == 1 else max(share, -(-len(points) // most))
    return points[7 * first % step :: step]


def run(act: Act, watch: Watch, share: int, first: int, outside: Outside) -> int:
    """Interrupt an act at its points; return how many it was interrupted at."""
    for number in range(2):  # the first time, more is loaded
        act.prepare(number)
        with suppress(KeyboardInterrupt):
            act.do(number)
    act.prepare(2)
    points: list[Point] = []
    with suppress(KeyboardInterrupt):
        points = watch.points(lambda: act.do(2))
    points = points or [*watch._seen]
    came = 0
    for number, point in enumerate(chosen(points, share, act.most, first), start=3):
        problems: list[str | None] = []
        signal.setitimer(signal.ITIMER_REAL, HANGS_S)
        try:
            act.prepare(number)
            watch.interrupt(partial(act.do, number), point)
            came += watch.came
            problems += outside.problems(act.ns)
            problems.append(act.look(number))
            if number % CHECKED_EVERY == 0:
                problems.append(act.sound())
        except HangError:
            problems.append("hangs")
        except Exception as error:  # noqa: BLE001 - whatever it is
            problems.append(f"{type(error).__name__}: {error}")
        signal.setitimer(signal.ITIMER_REAL, 0)
        for problem in filter(None, problems):
            sys.stdout.write(f"{act.name}: {shown(point)}: {problem}\n")
    if unsound := act.sound():
        sys.stdout.write(f"{act.name}: at its end: {unsound}\n")
    return came


def signalled(act: Act, count: int, outside: Outside) -> int:
    """Send real signals, each at another moment of an act; return how many came in time."""
    dice = random.Random(act.name)
    act.prepare(0)
    began = time.monotonic()
    with suppress(KeyboardInterrupt):
        act.do(0)
    lasts = time.monotonic() - began
    came, acting = 0, False

    def stop(*_: object) -> None:
        if acting:  # one that comes later has missed the act
            raise KeyboardInterrupt

    for number in range(1, count + 1):
        act.prepare(number)
        signal.signal(signal.SIGALRM, stop)
        acting = True
        try:
            signal.setitimer(signal.ITIMER_REAL, lasts * dice.uniform(0.01, 1.0))
            act.do(number)
            acting = False
        except KeyboardInterrupt:
            came += 1
        except PlaitError as error:
            sys.stdout.write(f"{act.name}: signal {number}: {error.code}: {error}\n")
        acting = False
        signal.signal(signal.SIGALRM, hang)
        signal.setitimer(signal.ITIMER_REAL, HANGS_S)
        try:
            listed = [*outside.problems(act.ns), act.look(number)]
            if number == count:
                listed.append(act.sound())
        except HangError:
            listed = ["hangs"]
        signal.setitimer(signal.ITIMER_REAL, 0)
        for problem in filter(None, listed):
            sys.stdout.write(f"{act.name}: signal {number}: {problem}\n")
    return came


def main(address: str, folder: Path, share: int, signals: int, files: Sequence[str]) -> None:
    signal.signal(signal.SIGALRM, hang)
    scenes, watch = Scenes(address, folder), Watch(*files)
    total = came = 0
    for first, act in enumerate(scenes.acts()):
        began = time.process_time()
        count = run(act, watch, share, first, scenes.outside)
        sys.stderr.write(f"{act.name}: {count} points, {time.process_time() - began:.1f} s\n")
        total += count
        came += signalled(act, signals, scenes.outside)
    scenes.close()
    for problem in scenes.outside.problems(None):
        sys.stdout.write(f"at the end: {problem}\n")
    sys.stdout.write(f"points {total} signals {came}\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
