"""What a hook costs: CPU milliseconds of fresh processes, over imported messages of one project.

    .venv/bin/python benchmarks/hook_costs.py FOLDER --passages 10000 --passages 100000

Makes each memory once in FOLDER. Prints the rows of the table in `docs/hooks.md`: the least and the
median of nine runs. All kinds run in turns, beside a search, so that a busy machine shows in both.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from histories import WORDS, generate
from measure import plain_environment

from plait.agents.histories import Places
from plait.agents.hooks.hints import hint_after_failure, hint_before
from plait.agents.hooks.tools import ToolCall
from plait.agents.importing import import_histories, sources_of
from plait.memory import Memory
from plait.types import Document

RUNS = 9
FACTS = 1_000
QUESTION = "where does Ann keep the spare keys of the boathouse?"
FACT = "Ann keeps the spare keys of the boathouse in the blue tin."
# Each of these words is in half of the messages, or nearly.
COMMON = f"why does the {' '.join(WORDS.split()[1:7])} fail?"
MANY_COMMON = f"why does the {' '.join(WORDS.split()[10:40])} fail?"
PLAIT = [sys.executable, "-m", "plait"]


def made(folder: Path, passages: int) -> Path:
    """Return a memory of so many passages, all of them of one project."""
    path = folder / f"hooks-{passages}.db"
    if path.exists():
        return path
    histories = folder / f"histories-{passages}"
    # A folder with one is a project.
    (folder / "project-0" / ".git").mkdir(parents=True, exist_ok=True)
    generate(histories, passages - FACTS, projects=1, home=str(folder))
    with Memory.open(path, project=str(folder / "project-0")) as memory:
        import_histories(memory, sources_of(Places(str(histories), {}), ["claude-code"]))
        memory.store_many(
            Document(text=f"The {word} number {at} belongs to shelf {at % 97}.", origin="user")
            for at, word in zip(range(FACTS - 1), WORDS.split() * FACTS, strict=False)
        )
        memory.store(FACT, personal=True)
    return path


def kinds(path: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the event and the payload of each kind of hook."""
    known = _acts(path)
    project = str(path.parent / "project-0")
    prompts = {
        "prompt, something shown": QUESTION,
        "prompt, nothing shown": "which wine goes with grilled trout?",
        "prompt that needs no memory": "yes, go on",
        "prompt of 6 common words": COMMON,
        "prompt of 30 common words": MANY_COMMON,
    }
    edit, new = known["Edit"], {"file_path": f"{project}/src/nobody/knows.py"}
    bash, failing = {"command": known["known"]}, {"command": known["failed"]}
    other = {"command": "terraform apply -auto-approve"}
    failed = {"tool_name": "Bash", "tool_input": failing, "error": known["error"]}
    return {
        "session start": ("SessionStart", {"source": "startup"}),
        **{name: ("UserPromptSubmit", {"prompt": text}) for name, text in prompts.items()},
        "before an edit": ("PreToolUse", {"tool_name": "Edit", "tool_input": {"file_path": edit}}),
        "before an edit of a new file": ("PreToolUse", {"tool_name": "Edit", "tool_input": new}),
        "before a command": ("PreToolUse", {"tool_name": "Bash", "tool_input": bash}),
        "before a new command": ("PreToolUse", {"tool_name": "Bash", "tool_input": other}),
        "after a failure": ("PostToolUseFailure", failed),
        "stop, `auto_save` off": ("Stop", {}),
    }


def _acts(path: Path) -> dict[str, str]:
    """Return a file that was edited, and failures of which a hint tells."""
    folder = path.parent / f"histories-{path.stem.partition('-')[2]}"
    found: dict[str, str] = {}
    with Memory.open(path, project=str(path.parent / "project-0"), read_only=True) as memory:
        for file in sorted(folder.rglob("*.jsonl")):
            for line in file.read_text(encoding="utf-8").splitlines():
                for block in json.loads(line)["message"]["content"]:
                    if isinstance(block, dict):
                        _note(memory, block, found)
            if {"known", "Edit", "error"} <= found.keys():
                break
    return found


def _note(memory: Memory, block: dict[str, Any], found: dict[str, str]) -> None:
    """Keep an act, if nothing is known yet that a hint tells of."""
    given = block.get("input", {})
    if block.get("name") == "Edit":
        found.setdefault("Edit", given["file_path"])
    elif block.get("name") == "Bash":
        found["last"] = given["command"]
    elif block.get("is_error"):
        call = ToolCall("Bash", command=found["last"], output=block["content"], has_failed=True)
        if "known" not in found and hint_before(memory, call).text:
            found["known"] = found["last"]
        if "error" not in found and hint_after_failure(memory, call).text:
            found |= {"failed": found["last"], "error": block["content"]}


def cpu_ms(words: list[str], sent: str, environment: dict[str, str]) -> tuple[float, str]:
    """Run a process; return its CPU milliseconds and what it printed."""
    ran = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, encoding="utf-8"
    )
    assert ran.stdin is not None and ran.stdout is not None
    ran.stdin.write(sent)
    ran.stdin.close()
    out = ran.stdout.read()
    _, status, used = os.wait4(ran.pid, 0)
    ran.returncode = os.waitstatus_to_exitcode(status)
    assert ran.returncode == 0, words
    return (used.ru_utime + used.ru_stime) * 1000, out


def measure(folder: Path, passages: int) -> None:
    """Print a line for each kind."""
    path = made(folder, passages)
    home = folder / f"home-{passages}"
    shutil.rmtree(home, ignore_errors=True)  # what was shown before is not shown again
    home.mkdir()
    environment = plain_environment(home)
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = str(Path(os.environ["PYTHONPATH"]).resolve())
    common = [*PLAIT, "--db", str(path)]
    chosen = kinds(path)
    spent: dict[str, list[float]] = {"search": [], **{name: [] for name in chosen}}
    spoke = set()
    for turn in range(RUNS + 1):
        search = ["--project", str(folder / "project-0"), "search", QUESTION]
        cost, _ = cpu_ms([*common, *search], "", environment)
        costs = {"search": cost}
        for name, (event, more) in chosen.items():
            # Each its own session: none is shown the same again.
            payload = {
                "session_id": f"{name}-{turn}",
                "cwd": str(folder / "project-0"),
                "hook_event_name": event,
            }
            words = [*common, "hook", "claude-code", event, "--deadline", "60"]
            costs[name], out = cpu_ms(words, json.dumps({**payload, **more}), environment)
            if out:
                spoke.add(name)
        if turn:  # the first one fills the page cache
            for name, cost in costs.items():
                spent[name].append(cost)
    for name, values in spent.items():
        said = "spoke" if name in spoke else ""
        least, median = min(values), statistics.median(values)
        print(f"| {passages:,} | {name} | {least:.0f} | {median:.0f} | {said} |", flush=True)


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--passages", type=int, action="append", required=True)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for passages in arguments.passages:
        measure(arguments.folder.resolve(), passages)


if __name__ == "__main__":
    main()
