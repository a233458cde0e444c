"""The table of docs/capabilities.md is executed: every command runs and shows what the row says."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interfaces.command import PATIENCE_S, ROOT, SAMPLE, environment

PAGE = ROOT / "docs" / "capabilities.md"
CODE = re.compile(r"`` (.+?) ``|`([^`]+)`")


class Row(NamedTuple):
    """A capability, the command that uses it, and texts of its output."""

    capability: str
    command: str
    shows: list[str]


def cells(line: str) -> list[str]:
    r"""The cells of a line of a table, in which ``\|`` is no border."""
    return [cell.replace(r"\|", "|").strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def codes(cell: str) -> list[str]:
    """The texts of a cell that are set as code."""
    return [first or second for first, second in CODE.findall(cell)]


def table() -> list[Row]:
    """The rows of the page, without the head."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [cells(line) for line in lines if line.startswith("| ")]
    return [Row(row[0], " ".join(codes(row[1])), codes(row[2])) for row in rows if codes(row[1])]


def test_the_table_has_rows_and_every_row_can_fail():
    rows = table()
    assert len(rows) >= 19
    assert all(row.command and row.shows for row in rows)


@pytest.mark.parametrize("row", table(), ids=lambda row: row.capability)
def test_a_capability_is_shown_by_its_command(row: Row, tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "notes")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, call in (("plait", "-m plait"), ("python", "")):
        text = f'#!/bin/sh\nexec "{sys.executable}" {call} "$@"\n'
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o755)
    home = str(tmp_path / "home")
    settings = environment(
        HOME=home,
        XDG_DATA_HOME=f"{home}/data",
        XDG_CONFIG_HOME=f"{home}/config",
        XDG_STATE_HOME=f"{home}/state",
        PATH=f"{programs}:/usr/bin:/bin",
    )
    ran = subprocess.run(
        ["bash", "-c", f'{row.command}; echo "exit $?"'],
        cwd=tmp_path,
        env=settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )
    for text in row.shows:
        assert text in ran.stdout, ran.stdout
    assert "Traceback" not in ran.stdout
