"""CPU time, memory and the machine they were measured on."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Spread(NamedTuple):
    """Median and 95th percentile."""

    median: float
    p95: float

    def __str__(self) -> str:
        return f"{_short(self.median)} / {_short(self.p95)}"


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def spread(values: Iterable[float]) -> Spread:
    """Return median and 95th percentile of some numbers."""
    ranked = sorted(values)
    return Spread(ranked[len(ranked) // 2], ranked[min(len(ranked) - 1, len(ranked) * 95 // 100)])


def cpu_ms(act: Callable[[], object]) -> float:
    """Return the CPU milliseconds of this thread for one act."""
    began = time.thread_time()
    act()
    return (time.thread_time() - began) * 1000


def peak_mb() -> float:
    """Return the most memory that this process had, without that of the one it was forked from."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text("ascii").partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


class Process(NamedTuple):
    """The cost of one process."""

    cpu_ms: float
    rss_mb: float
    code: int


# A process of its own, because a child's peak memory counts that of the parent it was forked from.
_LAUNCHER = """
import json, os, sys
quiet = os.open(os.devnull, os.O_RDWR)
for line in sys.stdin:
    words, environment = json.loads(line)
    pid = os.posix_spawn(words[0], words, environment, file_actions=[
        (os.POSIX_SPAWN_DUP2, quiet, 0), (os.POSIX_SPAWN_DUP2, quiet, 1)])
    _, status, used = os.wait4(pid, 0)
    print(used.ru_utime + used.ru_stime, used.ru_maxrss, os.waitstatus_to_exitcode(status))
"""


def processes(commands: Sequence[Sequence[str]], environment: dict[str, str]) -> list[Process]:
    """Run commands one after the other, each in a fresh process."""
    lines = "\n".join(json.dumps([list(words), environment]) for words in commands)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _LAUNCHER],
        input=lines,
        text=True,
        encoding="utf-8",
        capture_output=True,
        check=True,
    )
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes
    costs = []
    for line in done.stdout.splitlines():
        seconds, peak, code = line.split()
        costs.append(Process(float(seconds) * 1000, int(peak) * unit / 1e6, int(code)))
    return costs


def plain_environment(home: Path) -> dict[str, str]:
    """Return an environment without the user's settings."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "HOME": str(home)}


def machine() -> list[str]:
    """Return lines about the machine and the versions."""
    import apsw

    processor = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
                break
    versions: dict[str, Any] = {
        "Python": platform.python_version(),
        "SQLite": apsw.sqlite_lib_version(),
        "APSW": apsw.apsw_version(),
    }
    return [
        f"{processor}, {os.cpu_count()} CPUs, {platform.system()} {platform.release()}",
        ", ".join(f"{name} {version}" for name, version in versions.items()),
    ]
