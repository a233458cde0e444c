"""Advice is data: each act that the code names has its words, and gets the values they need."""

import ast
from functools import cache
from pathlib import Path
from string import Formatter

import pytest

import plait
from plait.cli.wording import SHELL
from plait.errors import IN_PYTHON
from plait.tools.wording import FOR_MODELS

SOURCE = Path(plait.__file__).parent


@cache
def calls() -> list[tuple[str, str, set[str]]]:
    """File, act and values of each advice that the package gives."""
    rows = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        text = path.read_text(encoding="utf-8")
        if "advise(" not in text and "Advice(" not in text:
            continue  # to parse every file takes seconds
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", "")
            if name == "advise" or (name == "Advice" and place != "errors.py"):
                act, *positional = node.args
                assert isinstance(act, ast.Constant), f"{place} computes an act"
                assert not positional, f"{place} gives values without names"
                values = {keyword.arg or "" for keyword in node.keywords}
                rows.append((place, str(act.value), values))
    return rows


@pytest.mark.parametrize("table", [IN_PYTHON, SHELL, FOR_MODELS], ids=["python", "shell", "model"])
@pytest.mark.parametrize(("path", "act", "values"), calls())
def test_every_act_has_words_and_their_values(
    path: str, act: str, values: set[str], table: dict[str, str]
) -> None:
    fields = {field for _, field, _, _ in Formatter().parse(table[act]) if field}
    assert fields <= values


def test_every_act_with_words_is_advised_somewhere() -> None:
    assert IN_PYTHON.keys() == {act for _, act, _ in calls()}
