"""The command line in tests: in this process where it can be, as a real one where it must be."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "examples" / "memory"
PLAIT = (sys.executable, "-m", "plait")
PATIENCE_S = 120  # far above what any command needs: a hang becomes a failure, not a stuck run


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its answer, when that is JSON."""
        return json.loads(self.out)


def spawn(
    *words: str | bytes,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    before: Sequence[str] = (),
) -> Ran:
    """Run ``plait`` as a process of its own, perhaps behind another command."""
    done = subprocess.run(
        [*before, *PLAIT, *words],
        input=stdin,
        capture_output=True,
        env=environment(**(env or {})),
        timeout=PATIENCE_S,
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def environment(**more: str) -> dict[str, str]:
    """This process's environment; `plait` is found from anywhere, and compiled only once."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(ROOT / "src"), **more}
