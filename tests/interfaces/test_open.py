"""plait open: the file of a hit, at its line, in the editor of the environment."""

import json
import os
import sys

import pytest

from plait import Memory
from plait.cli.editor import editor_command
from plait.types import Document


@pytest.fixture
def editor(tmp_path, monkeypatch):
    """An editor that writes down how it was called."""
    calls = tmp_path / "calls.json"
    script = tmp_path / "vim.py"
    script.write_text(
        f"import json, sys; json.dump(sys.argv[1:], open({str(calls)!r}, 'w'))", "utf-8"
    )
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{sys.executable} '{script}'")
    return lambda: json.loads(calls.read_text("utf-8"))


@pytest.fixture
def folder(tmp_path, plait):
    folder = tmp_path / "odd $(name) notes"
    folder.mkdir()
    text = "# Ops\n\nFirst.\n\n## Keys\n\nRotate the ssh keys in spring.\n"
    (folder / "ssh.md").write_text(text, encoding="utf-8")
    plait("ingest", str(folder))
    return folder


def test_open_starts_the_editor_with_the_file_as_one_argument(plait, folder, editor):
    [hit, *_] = plait("search", "rotate keys").json["results"]
    assert plait("open", hit["id"][:8]).code == 0
    assert editor() == [str(folder / "ssh.md")]


def test_print_gives_the_line_to_scripts_and_opens_nothing(plait, folder, monkeypatch):
    monkeypatch.setenv("EDITOR", "false")
    [hit, *_] = plait("search", "rotate keys").json["results"]
    shown = plait("open", "--print", hit["id"])
    assert shown.code == 0
    assert shown.json == {"file_path": str(folder / "ssh.md"), "start_line": hit["start_line"]}


@pytest.mark.parametrize("editor_value", ["", "no-such-editor --wait"])
def test_without_an_editor_that_starts_it_says_what_to_set(
    plait, folder, monkeypatch, editor_value
):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", editor_value)
    refused = plait("open", "ssh.md")
    assert refused.code == 2
    assert "EDITOR" in refused.err


def test_an_editor_that_fails_is_a_failure(plait, folder, monkeypatch):
    monkeypatch.setenv("EDITOR", f"{sys.executable} -c 'raise SystemExit(3)'")
    assert plait("open", "ssh.md").code == 1


def test_a_changed_file_is_told(plait, folder, editor):
    os.utime(folder / "ssh.md", (1, 1))
    assert "has changed" in plait("open", "ssh.md").err


def test_stored_text_has_no_file(plait):
    plait("store", "Deploy on Fridays", "--doc-id", "deploy")
    refused = plait("open", "deploy")
    assert refused.code == 2
    assert "plait get deploy" in refused.err


def test_a_file_that_is_gone_or_is_a_pipe_is_not_opened(plait, folder, editor):
    (folder / "ssh.md").unlink()
    assert "not there" in plait("open", "ssh.md").err
    os.mkfifo(folder / "ssh.md")
    assert plait("open", "ssh.md").code == 1


@pytest.mark.parametrize(
    ("editor", "command"),
    [
        ("vim", ["vim", "+7", "/n/a.md"]),
        ("/usr/bin/nano -w", ["/usr/bin/nano", "-w", "+7", "/n/a.md"]),
        ("cursor --wait", ["cursor", "--wait", "--goto", "/n/a.md:7"]),
        ("hx", ["hx", "/n/a.md:7"]),
        ("some-editor", ["some-editor", "/n/a.md"]),
    ],
)
def test_editors_get_the_line_in_their_own_way(editor, command):
    assert editor_command(editor, "/n/a.md", 7) == command


@pytest.mark.parametrize("value", ["'", "  ", '"nano'])
def test_an_editor_that_is_no_command_is_refused_in_one_sentence(plait, folder, monkeypatch, value):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", value)
    refused = plait("open", "ssh.md")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "EDITOR=nano" in refused.err


@pytest.mark.parametrize("ending", ["pdf", "docx", "DOCX"])
def test_a_file_whose_lines_no_editor_knows_is_opened_without_one(
    plait, folder, editor, monkeypatch, ending
):
    path = folder / f"rye.{ending}"
    path.write_bytes(b"not read")
    with Memory.open(project="") as memory:
        memory.store_many([Document(kind="file", key=path.name, path=str(path), text="Rye bread")])
    assert plait("open", path.name, "--print", "--format", "text").out == f"{path}\n"
    assert plait("open", path.name, "--print").json == {"file_path": str(path), "start_line": None}
    assert editor_command("vim", str(path), None) == ["vim", str(path)]
