"""Nothing of that name: each verb prints the empty form of its answer, then exits with 3."""

import pytest

NO_DOCUMENT = {
    "doc_id": "nope",
    "chunks_deleted": 0,
    "doc_ids": [],
    "ids": [],
    "purged": False,
    "copies": [],
    "dry_run": False,
}
NO_GRAPH: dict[str, list[str]] = {"entities": [], "relations": []}
UNKNOWN = [
    (["delete", "nope"], NO_DOCUMENT),
    (["delete", "--doc-id", "nope"], NO_DOCUMENT),
    (["delete", "nope", "--dry-run"], NO_DOCUMENT | {"dry_run": True}),
    (["delete", "nope", "--purge"], NO_DOCUMENT | {"purged": True}),
    (["delete", "--saved"], NO_DOCUMENT | {"doc_id": None}),
    (["delete", "--undo", "nope"], {"restored": [], "dry_run": False}),
    (["get", "nope"], {"results": [], "left_out": 0}),
    (["timeline", "--anchor", "nope"], {"results": [], "next": None, "left_out": 0}),
    (["entity", "show", "nope"], NO_GRAPH),
    (["entity", "delete", "nope"], {"deleted": [], "not_found": ["nope"], "chunks_deleted": 0}),
    (["entity", "unrelate", "a", "knows", "b"], {"deleted": 0}),
    (["mute", "nope"], {"muted": []}),
    (["unmute", "nope"], {"unmuted": []}),
    (["import", "--undo", "nope"], {"run": "nope", "messages": 0, "dry_run": False}),
    (["disconnect", "zed"], {"agent": "zed", "scope": "user", "files": [], "backups": []}),
]
ABSENT = [
    *UNKNOWN,
    (["delete", "--undo"], {"restored": [], "dry_run": False}),
    (["import", "--undo"], {"run": None, "messages": 0, "dry_run": False}),
    (["restore", "--undo"], {"source": None, "kept": None, "documents": None, "undoable": False}),
    (["reindex"], {"status": "ok", "chunks": 0, "embedded": 0, "swapped": False}),
    (["search", "nope"], {"results": []}),
    (["recall", "nope"], {"results": [], "text": "", "tokens": 0, "overview": False}),
    (["recall"], {"results": [], "text": "", "tokens": 0, "overview": True}),
    (["recall", "where were we"], {"results": [], "text": "", "tokens": 0, "overview": True}),
    (["overview"], {"results": [], "text": "", "tokens": 0, "overview": True}),
    (["timeline"], {"results": [], "next": None}),
    (["entity", "list"], NO_GRAPH),
    (["backup", "copy.db"], {"path": None, "bytes": 0}),
    (["open", "nope", "--print"], {"file_path": None, "start_line": None}),
    (["export", "--format", "markdown", "snapshot"], {"documents": 0, "written": 0, "kept": []}),
    (["doctor", "--salvage", "new.db"], {"kept": {}, "lost": [], "unreadable_cells": 0}),
    (["migrate", "--to", "new.db"], {"tables": [], "rounds": 0, "queries": 0, "same": 0}),
]


def named(rows):
    return [pytest.param(*row, id=" ".join(row[0])) for row in rows]


def check(ran, empty):
    answer = ran.json
    assert ran.code == 3
    assert {name: answer[name] for name in empty} == empty
    assert ran.err.startswith("plait: ")


@pytest.mark.parametrize(("words", "empty"), named(UNKNOWN))
def test_an_unknown_name_prints_the_empty_form(plait, words, empty):
    plait("store", "something")
    check(plait(*words), empty)
    assert plait("--format", "text", *words).out == ""


@pytest.mark.parametrize(("words", "empty"), named(ABSENT))
def test_an_absent_memory_prints_the_empty_form_and_makes_no_file(plait, words, empty, tmp_path):
    check(plait("--db", str(tmp_path / "absent.db"), *words), empty)
    assert not (tmp_path / "absent.db").exists()


def test_a_memory_that_is_absent_has_counts_of_nothing(plait, tmp_path):
    ran = plait("--db", str(tmp_path / "absent.db"), "stats")
    assert (ran.code, ran.json["doc_count"], ran.json["chunk_count"]) == (3, 0, 0)
