"""An ingest says where documents are that a search from elsewhere, or from here, does not find."""

import re
import shlex

import pytest

from tests.interfaces.command import Ran


@pytest.fixture
def repository(work, monkeypatch):
    """A git repository, beside the folder of notes, in which commands run."""
    folder = work / "repository"
    (folder / ".git").mkdir(parents=True)
    (folder / "README.md").write_text("The lagoon is deep.\n", encoding="utf-8")
    monkeypatch.chdir(folder)
    return folder


def advised(ran: Ran) -> list[str]:
    """The words of the command that puts the documents everywhere."""
    [command] = re.findall(r"everywhere: plait (.*)", ran.err)
    return shlex.split(command)


@pytest.mark.parametrize("verb_options", [[], ["--include", "code"]], ids=["plain", "options"])
def test_notes_outside_of_the_repository_are_told_to_be_in_its_project(
    plait, notes, repository, work, monkeypatch, verb_options
):
    ran = plait("ingest", str(notes), *verb_options)
    assert ran.json["project"] == str(repository)
    assert f"plait: {notes} is outside of the repository {repository}, but " in ran.err
    assert ran.json["hints"] == [ran.err.strip().removeprefix("plait: ")]
    assert advised(ran) == ["--project", "personal", "ingest", str(notes), *verb_options]
    assert plait(*advised(ran)).json["moved"] == 3
    monkeypatch.chdir(work)
    assert "fence" in plait("search", "fence").out


def test_files_of_another_project_are_told_to_be_there(plait, notes, repository, work, monkeypatch):
    plait("ingest", str(notes))
    monkeypatch.chdir(work)
    ran = plait("ingest", "notes")
    assert (ran.json["unchanged"], ran.json["elsewhere"]) == (3, {str(repository): 3})
    assert f"3 files are in project {repository} and found only there" in ran.err
    assert len(ran.json["hints"]) == 1
    text = plait("ingest", "notes", "--format", "text")
    assert "plait search WORDS --all-projects" in text.err
    plait(*advised(ran))
    after = plait("ingest", "notes")
    assert (after.json["elsewhere"], after.json["hints"], after.err) == ({}, [], "")
    assert "fence" in plait("search", "fence").out


def test_a_file_that_changed_and_stays_in_another_project_is_told_too(
    plait, notes, repository, work, monkeypatch
):
    plait("ingest", str(notes))
    monkeypatch.chdir(work)
    (notes / "diary.txt").write_text("We painted the fence blue.\n", encoding="utf-8")
    ran = plait("ingest", "notes/diary.txt")
    assert (ran.json["changed"], ran.json["elsewhere"]) == (1, {str(repository): 1})
    assert f"1 file is in project {repository} and found only there" in ran.err


@pytest.mark.parametrize("options", [["--project", "shop"], ["--project", "personal"]])
def test_a_project_that_was_chosen_is_not_commented_on(plait, notes, repository, options):
    assert plait("ingest", str(notes), *options).err == ""


def test_files_of_the_repository_are_not_commented_on(plait, repository, notes):
    assert plait("ingest", ".").err == ""
    assert plait("ingest", str(notes), "--project", "personal").err == ""
    # What is personal is found here too.
    assert plait("ingest", str(notes)).json["hints"] == []


def test_a_watch_says_it_once(plait, notes, repository, monkeypatch):
    watchfiles = pytest.importorskip("watchfiles")

    def watch(*_, **__):
        for number in range(3):
            (notes / f"new{number}.md").write_text(f"New {number}.\n", encoding="utf-8")
            yield {("added", "new.md")}

    monkeypatch.setattr(watchfiles, "watch", watch)
    ran = plait("watch", str(notes))
    assert ran.err.count("is outside of the repository") == 1
    assert "plait --project personal watch" in ran.err
