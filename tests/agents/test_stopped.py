"""Imports and undos that are stopped or overtaken: what they count is true, and they go on."""

import pytest

from plait.agents.ledger import Overtaken
from plait.agents.undoing import undo_import
from plait.writing import deleting
from plait.writing.writer import Writer
from tests.agents.test_claude_code import answer, text, transcript, user
from tests.agents.test_importing import SECRET, imported, memory, texts

__all__ = ["memory"]


def test_what_a_stopped_batch_did_not_write_is_not_counted(memory, tmp_path, monkeypatch):
    transcript(tmp_path, user("u1", "one"), answer("a1", text(SECRET)))

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr("plait.writing.writer.Writer.write_texts", stop)
        report = imported(memory, tmp_path)
    assert report.interrupted
    assert (report.messages, report.sessions, report.masked) == (0, 0, 0)
    assert (report.agents, report.by_month) == ({}, {})
    assert imported(memory, tmp_path).messages == 2


def test_what_another_import_overtook_is_counted_once(memory, tmp_path, monkeypatch):
    transcript(tmp_path, user("u1", "one"))
    write = Writer.write_texts
    tries = []

    def overtaken(self, changes, values, *, check):
        tries.append(1)
        if len(tries) == 1:
            raise Overtaken
        return write(self, changes, values, check=check)

    monkeypatch.setattr(Writer, "write_texts", overtaken)
    report = imported(memory, tmp_path)
    assert (report.messages, report.agents) == (1, {"claude-code": 1})


def test_a_dry_run_counts_copies_of_another_batch_as_copies(memory, tmp_path, monkeypatch):
    monkeypatch.setattr("plait.agents.importing.BATCH_MESSAGES", 1)
    for session in ("s1", "s2"):
        transcript(tmp_path, user("u1", "one"), user("u2", "two"), session=session)
    told = imported(memory, tmp_path, dry_run=True)
    done = imported(memory, tmp_path)
    assert (told.messages, told.sessions, told.skipped) == (2, 1, {"copy": 2})
    assert (told.messages, told.sessions) == (done.messages, done.sessions)


@pytest.mark.parametrize("is_deleted", [True, False])
def test_an_undo_that_was_interrupted_is_undone_and_imported_again(
    memory, tmp_path, monkeypatch, is_deleted
):
    transcript(tmp_path, user("u1", "one"), user("u2", "two"))
    run = imported(memory, tmp_path).run
    delete = deleting.delete

    def stop(*given, **options):
        if is_deleted:
            delete(*given, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(deleting, "delete", stop)
        with pytest.raises(KeyboardInterrupt):
            undo_import(memory)
    if not is_deleted:
        assert undo_import(memory) == (run, 2)
    assert texts(memory) == []
    assert imported(memory, tmp_path).messages == 2
