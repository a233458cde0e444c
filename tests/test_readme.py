"""The README is executed: every command runs, and answers what stands there."""

import io
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

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAX_WORDS_BEFORE_FIRST_COMMAND = 120
FIRST_OUTPUT_BY_LINE = 40
MAX_WORDS = 900
ANYTHING = "…"  # what changes from run to run: ids, days, milliseconds


class Step(NamedTuple):
    """A command and what it prints."""

    command: str
    output: list[str]
    line: int


def blocks(language: str) -> list[tuple[int, list[str]]]:
    """Fenced blocks of a language: the number of the first line, and the lines."""
    found = []
    for match in re.finditer(rf"^```{language}\n(.*?)^```$", README, re.M | re.S):
        found.append((README.count("\n", 0, match.start(1)) + 1, match[1].splitlines()))
    return found


def steps() -> list[Step]:
    """The commands of the console blocks, in order."""
    found: list[Step] = []
    for first, lines in blocks("console"):
        for number, line in enumerate(lines, start=first):
            if line.startswith("$ "):
                found.append(Step(line[2:], [], number))
            else:
                found[-1].output.append(line)
    return found


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
    assert words[0] == "plait", f"the README shows only plait at work, not: {command}"
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


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX terminal")
def test_every_command_of_the_readme_answers_what_stands_there(home, tmp_path, monkeypatch):
    shutil.copytree(SAMPLE, home / "notes")
    monkeypatch.chdir(tmp_path)
    assert steps()
    for step in steps():
        with EmbeddingServer() as ollama:
            code, out = run_on_terminal(step.command, PLAIT_OLLAMA_URL=ollama.url)
        assert code in (0, 3), f"line {step.line}: {step.command}: {out}"
        assert re.fullmatch(pattern(step.output), out), (
            f"line {step.line}: {step.command} answered\n{out}\nthe README says\n"
            + "\n".join(step.output)
        )


def test_the_python_of_the_readme_prints_what_its_comments_say():
    ((first, lines),) = blocks("python")
    said = io.StringIO()
    with redirect_stdout(said):
        exec(compile("\n".join(lines), f"README.md:{first}", "exec"), {"__name__": "readme"})
    expected = [line.strip()[2:] for line in lines if line.strip().startswith("# ")]
    assert expected
    assert re.fullmatch(pattern(expected), said.getvalue()), said.getvalue()


def test_a_newcomer_reaches_a_command_and_an_answer_quickly():
    first = re.search(r"^(?: {4}|\$ )\S", README, re.M)
    assert first is not None
    before = README[: first.start()].replace("```console", "").split()
    assert len(before) <= MAX_WORDS_BEFORE_FIRST_COMMAND
    answered = next(step for step in steps() if step.output)
    assert answered.line + 1 <= FIRST_OUTPUT_BY_LINE
    assert len(README.split()) <= MAX_WORDS


def test_every_figure_comes_from_the_latest_results():
    pages: dict[Path, str] = runpy.run_path(str(ROOT / "benchmarks" / "summary.py"))["pages"]()
    assert {page.relative_to(ROOT).as_posix() for page in pages} == {
        "README.md",
        "benchmarks/README.md",
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
