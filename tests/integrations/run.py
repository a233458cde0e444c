"""Adapters and the examples of docs/integrations.md with the real frameworks: `make integrations`.

They get an environment of their own, .venv-integrations, made once and again when the list below
changes. What pip cannot install is named, and what needs it is skipped; that is no failure.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / ".venv-integrations"
STAMP = PLACE / "packages.txt"
# What plait and its tests need, and the frameworks: each with what else is tested with it.
OURS = ("apsw>=3.51.3.0", "simsimd>=6.5,<7", "pytest>=9,<10", "hypothesis>=6.170", "coverage>=7.17")
FRAMEWORKS = (
    ("langgraph", "langchain-mcp-adapters>=0.3"),
    ("openai-agents>=0.24",),
    ("anthropic>=2.8", "openai>=3", "ollama>=0.6"),
    ("llama-index-tools-mcp>=0.4",),
    ("pydantic-ai-slim[mcp]>=2",),
)
ADAPTERS_FLOOR = 95
PATIENCE_S = 900


def say(text: str) -> None:
    """Print one line of progress."""
    sys.stdout.write(f"integrations: {text}\n")
    sys.stdout.flush()


def main() -> int:
    """Install what can be installed, and test with it; return 1 if a test fails."""
    missing = install()
    if missing is None:
        return 0
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONWARNDEFAULTENCODING": "1",
        "PLAIT_SERVER_PYTHON": sys.executable,
        "COVERAGE_FILE": str(PLACE / ".coverage"),
    }
    python = [str(python_of(PLACE)), "-m"]
    # Not by the configuration of the main tests, which leaves the adapters out.
    options = [f"--rcfile={os.devnull}", "--include=src/plait/tools/adapters/*"]
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", "tests/integrations"]
    # Frameworks warn of their own parts, which is none of our business.
    quiet = ["-W", "ignore", "-o", "filterwarnings="]
    commands = [[*python, "coverage", "run", "--branch", *options, *tests, *quiet]]
    if not missing:
        floor = f"--fail-under={ADAPTERS_FLOOR}"
        commands.append([*python, "coverage", "report", "--show-missing", *options, floor])
    for command in commands:
        if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
            return 1
    return 0


def install() -> list[str] | None:
    """Return the packages that are missing; ``None`` after saying why there is nothing at all."""
    wanted = "\n".join([*OURS, *(" ".join(group) for group in FRAMEWORKS)])
    if STAMP.exists() and STAMP.read_text(encoding="utf-8") == wanted:
        return []
    say(f"installing the frameworks into {PLACE.name}; this takes a minute, once")
    venv.create(PLACE, with_pip=True, clear=True)
    if why := pip(*OURS, *(package for group in FRAMEWORKS for package in group)):
        say(f"pip could not install everything at once ({why})")
        if why := pip(*OURS):
            say(f"skipped: pip reaches nothing ({why})")
            return None
        missing = [package for group in FRAMEWORKS if pip(*group) for package in group]
        say(f"skipped for want of their packages: {', '.join(missing)}" if missing else "all there")
        if missing:
            return missing
    STAMP.write_text(wanted, encoding="utf-8")
    return []


def pip(*packages: str) -> str:
    """Install packages; return the last line of what went wrong, if anything did."""
    options = ["--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "10"]
    command = [str(python_of(PLACE)), "-m", "pip", "install", *options, *packages]
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it took more than {PATIENCE_S} seconds"
    *_, last = ["no reason given", *done.stderr.strip().splitlines()]
    return "" if done.returncode == 0 else last


def python_of(place: Path) -> Path:
    """Return the Python of a virtual environment."""
    return place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


if __name__ == "__main__":
    sys.exit(main())
