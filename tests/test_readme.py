"""The README and three guides are executed: every command runs and prints what the page shows."""

import io
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.embedding_server import EmbeddingServer
from tests.interfaces.command import PLAIT, ROOT, SAMPLE, environment

README = "README.md"
WITH_COMMANDS = [README, "docs/conversations.md", "docs/snapshot.md", "docs/tour.md"]
WITH_PYTHON = [README, "docs/conversations.md", "docs/python.md", "docs/snapshot.md"]
MAX_WORDS_BEFORE_FIRST_COMMAND = 120
FIRST_OUTPUT_BY_LINE = 40
MAX_WORDS = 600
MAX_COLUMNS = 120
ANYTHING = "…"  # ids, days, milliseconds: they change from run to run


class Step(NamedTuple):
    """A command and what it prints."""

    command: str
    output: list[str]
    line: int


def read(page: str) -> str:
    """The text of a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[tuple[int, list[str]]]:
    """Fenced blocks of a language: the number of the first line, and the lines."""
    text = read(page)
    return [
        (text.count("\n", 0, match.start(1)) + 1, match[1].splitlines())
        for match in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)
    ]


def steps(page: str) -> list[Step]:
    """The commands of the console blocks, in order."""
    commands: list[Step] = []
    for first, lines in blocks(page, "console"):
        for number, line in enumerate(lines, start=first):
            if line.startswith("$ "):
                commands.append(Step(line[2:], [], number))
            else:
                commands[-1].output.append(line)
    return commands


def pattern(lines: list[str]) -> str:
    """Lines as a regular expression: … stands for anything in a line, alone for any lines."""
    parts = [
        r"(?:.*\n)*?" if line == ANYTHING else re.escape(line).replace(ANYTHING, ".*") + r"\n"
        for line in lines
    ]
    return "".join(parts)


def run_on_terminal(command: str, **env: str) -> tuple[int, str]:
    """What a person sees: text, because stdout is a terminal."""
    words = [
        str(Path(word).expanduser()) if word.startswith("~") else word
        for word in shlex.split(command, comments=True)
    ]
    assert words[0] == "plait", f"only plait commands can be run here, not: {command}"
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [*PLAIT, *words[1:]],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=environment(NO_COLOR="1", **env),
    ) as child:
        os.close(theirs)
        seen = b""
        try:
            while more := os.read(ours, 65_536):
                seen += more
        except OSError:  # Linux says so when the other side is closed
            pass
        os.close(ours)
    return child.returncode, seen.decode().replace("\r\n", "\n")


def write_history(home: Path) -> None:
    """Write a session of Claude Code in a project: a question and its answer."""
    project = home / "shop"
    (project / ".git").mkdir(parents=True)
    said = {
        "user": "The cart shows 19.999999 euros. Why?",
        "assistant": "Floats cannot hold 0.1, so cart.py counts whole cents.",
    }
    rows = [
        {
            "type": role,
            "uuid": role,
            "sessionId": "s1",
            "cwd": str(project),
            "timestamp": "2026-11-11T12:00:00.000Z",
            "message": {"role": role, "id": role, "content": [{"type": "text", "text": text}]},
        }
        for role, text in said.items()
    ]
    folder = home / ".claude" / "projects" / "shop"
    folder.mkdir(parents=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "s1.jsonl").write_text(lines, encoding="utf-8")


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX terminal")
@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_every_command_prints_what_the_page_shows(page, home, tmp_path, monkeypatch):
    shutil.copytree(SAMPLE, home / "notes")
    write_history(home)
    monkeypatch.chdir(tmp_path)
    assert steps(page)
    for step in steps(page):
        with EmbeddingServer() as ollama:
            # The variable alone would mean Ollama, also for a memory that names no embedder.
            named = {"PLAIT_OLLAMA_URL": ollama.url} if "ollama" in step.command else {}
            code, out = run_on_terminal(step.command, **named)
        assert code in (0, 3), f"line {step.line}: {step.command}: {out}"
        assert re.fullmatch(pattern(step.output), out), (
            f"line {step.line}: {step.command} printed\n{out}\n{page} shows\n"
            + "\n".join(step.output)
        )


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_the_python_of_a_page_prints_what_its_comments_say(page):
    assert blocks(page, "python")
    for first, lines in blocks(page, "python"):
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile("\n".join(lines), f"{page}:{first}", "exec"), {"__name__": "readme"})
        expected = [line.strip()[2:] for line in lines if line.strip().startswith("# ")]
        assert expected
        assert re.fullmatch(pattern(expected), printed.getvalue()), printed.getvalue()


def test_the_mcp_settings_of_the_readme_start_the_server():
    for _, lines in blocks(README, "json"):
        server = json.loads("\n".join(lines))["mcpServers"]["plait"]
        assert server["command"] == "plait"
        assert run_on_terminal(" ".join(["plait", *server["args"], "--help"]))[0] == 0


def test_a_newcomer_reaches_a_command_and_an_answer_quickly():
    text = read(README)
    first = re.search(r"^(?: {4}|\$ )\S", text, re.M)
    assert first is not None
    before = text[: first.start()].replace("```console", "").split()
    assert len(before) <= MAX_WORDS_BEFORE_FIRST_COMMAND
    answered = next(step for step in steps(README) if step.output)
    assert answered.line + 1 <= FIRST_OUTPUT_BY_LINE
    assert len(text.split()) <= MAX_WORDS


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_the_readme_shows_how_to_try_and_test_it(command):
    assert re.search(rf"^ {{4}}{command}\b", read(README), re.M)


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(("target", "installed"), [("demo", "'.'"), ("check", "'.[dev]'")])
def test_the_demonstration_installs_plait_alone(target, installed, tmp_path):
    """The tools of the tests are ten times as large and take a minute."""
    words = ["make", "--dry-run", target, f"VENV={tmp_path / 'venv'}"]
    planned = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, encoding="utf-8")
    assert re.findall("--editable (.*)", planned.stdout) == [installed]


def test_every_figure_comes_from_the_latest_results():
    pages: dict[Path, str] = runpy.run_path(str(ROOT / "benchmarks" / "summary.py"))["pages"]()
    assert {page.relative_to(ROOT).as_posix() for page in pages} == {
        "README.md",
        "benchmarks/README.md",
        "benchmarks/results/growth.svg",
    }
    for page, text in pages.items():
        assert page.read_text(encoding="utf-8") == text, "run: python benchmarks/summary.py"


def test_a_figure_beyond_its_budget_is_called_missed():
    held = runpy.run_path(str(ROOT / "benchmarks" / "summary.py"))["held"]
    assert held("91.0 / 99", 91.0, 90.0) == "91.0 / 99, **missed**"
    assert held("89.0 / 99", 89.0, 90.0) == "89.0 / 99"
    assert held("1,642", 1642.0, 2000.0, least=True) == "1,642, **missed**"
    assert held("210 / 266", 210.0, None) == "210 / 266"


def test_the_executor_tells_a_wrong_answer_from_a_right_one():
    right = pattern(["1.00  …  a.md:7", "…", "end"])
    assert re.fullmatch(right, "1.00  abcdefgh  a.md:7\nend\n")
    assert re.fullmatch(right, "1.00  abcdefgh  a.md:7\none\ntwo\nend\n")
    assert not re.fullmatch(right, "0.90  abcdefgh  a.md:7\nend\n")
    assert not re.fullmatch(right, "1.00  abcdefgh  a.md:7\n")
    assert sys.version_info >= (3, 11)


@pytest.mark.parametrize(
    "page", [README, "SECURITY.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
)
def test_prose_keeps_to_the_width_of_the_page(page):
    prose = re.sub(r"^```.*?^```", "", read(page), flags=re.M | re.S)
    lines = [line for line in prose.splitlines() if not line.startswith("|")]
    assert [line for line in lines if len(line) > MAX_COLUMNS] == []
