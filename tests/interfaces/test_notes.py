"""Formats and links as the command line and the MCP server show them."""

import re
from pathlib import Path

import pytest

from plait import Memory
from tests.mcp.talk import call, text_of


@pytest.fixture
def notes(work: Path) -> Path:
    folder = work / "notes"
    folder.mkdir()
    (folder / "keys.md").write_text(
        "---\naliases: [Key plan]\n---\n[[ssh]] [[Nowhere]]", encoding="utf-8"
    )
    (folder / "ssh.html").write_text("<h1>SSH</h1><a href='keys.md'>k</a>", encoding="utf-8")
    (folder / "tool.py").write_text("def marmot(): ...\n", encoding="utf-8")
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\0")
    (folder / "old.txt").write_bytes("Ein Gruß aus Köln".encode("cp1252"))
    return folder


def test_ingest_tells_what_it_ignored_with_the_option_that_includes_it(plait, notes):
    text = plait("ingest", "notes", "--format", "text").out
    assert "2 files of other types ignored (1 .jpg, 1 .py; read more with --include code)" in text
    assert f"added: {notes / 'old.txt'} (read as Windows-1252 (Latin-1): it is not UTF-8)" in text
    report = plait("ingest", "notes", "--include", "code").json
    assert (report["files"], report["ignored_types"]) == (1, {".jpg": 1})
    assert plait("search", "marmot").json["results"][0]["heading"] == "marmot"


def test_each_ignored_type_that_may_have_text_has_an_option(plait, notes):
    for name in ("plan.tex", "b.TEX", "table.csv", "Makefile", "app.db"):
        (notes / name).write_text("A quokka.", encoding="utf-8")
    text = plait("ingest", "notes", "--format", "text").out
    options = re.findall(r"--include (\S+?)[ )]", text)
    assert sorted(options) == ["'*.csv'", "'*.tex'", "code"]
    report = plait("ingest", "notes", "--include", "*.tex").json
    assert report["files"] == 2


def test_get_shows_links_and_backlinks_and_takes_an_alias(plait, notes):
    plait("ingest", "notes")
    text = plait("get", "Key plan", "--format", "text").out
    assert "Links to: ssh.html, Nowhere (not there)\nLinked from: ssh.html" in text
    [result] = plait("get", "keys").json["results"]
    assert [row["target"] for row in result["links"]] == ["ssh.html", "Nowhere"]
    assert result["links"][1]["id"] is None
    assert [row["source"] for row in result["backlinks"]] == ["ssh.html"]


def test_a_file_in_windows_1252_is_stored_with_a_warning(plait, notes):
    ran = plait("store", "--file", "notes/old.txt")
    assert ran.code == 0
    assert "Windows-1252" in ran.err
    assert "Köln" in plait("get", "old.txt").json["results"][0]["text"]


def test_an_agent_sees_links_inside_the_fence():
    with Memory.open(":memory:", embedder="none", project="") as memory:
        memory.store("See [[b]] and [[c]].", key="a")
        memory.store("Text", key="b")
        got = call(memory, "memory_get", {"ids": ["a"]})
        text = text_of(got)
        assert "Links to: b, c (not there)" in text.partition("<</")[0]
        [row] = got.structured_content["results"]
        assert [link["target"] for link in row["links"]] == ["b", "c"]
        assert "backlinks" not in row
