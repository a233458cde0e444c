"""The shapes of the JSON answers are those that docs/cli.md lists."""

import re

import pytest

from tests.interfaces.command import ROOT


def documented(verb: str) -> list[str]:
    """The fields of a verb's answer, in the order of the page."""
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    [shape] = re.findall(rf"^\| `{verb}` \| `{{(.*?)}}`", page, re.M)
    # Only the outermost fields: what is in brackets belongs to one of them.
    return re.findall(r'"(\w+)"', re.sub(r"\[.*?\]", "", shape))


@pytest.fixture
def answers(plait, notes):
    """One answer of each verb."""
    return {
        "store": plait("store", "A fact", "--key", "a").json,
        "ingest": plait("ingest", "notes").json,
        "get": plait("get", "a").json,
        "timeline": plait("timeline").json,
        "delete": plait("delete", "a").json,
        "reindex": plait("reindex").json,
        "doctor": plait("doctor").json,
        "import": plait("import", exported(plait)).json,
        "restore": plait("restore", plait("backup", "copy.db").json["path"]).json,
    }


def exported(plait) -> str:
    """The path of an export of the memory."""
    path: str = plait("export", "all.jsonl").json["path"]
    return path


def test_every_field_of_an_answer_is_documented(answers):
    fields = {verb: sorted(answer) for verb, answer in answers.items()}
    assert fields == {verb: sorted(documented(verb)) for verb in answers}
