"""`plait migrate` at the command line: what it prints, and what it refuses."""

from contextlib import closing

import pytest

from plait.errors import PIP
from plait.exporting import migrating
from plait.stores.postgres.moving import PostgresRows
from plait.stores.postgres.state import get_fact
from plait.stores.sqlite.state import MOVING
from tests.moves import new_place, rows_of


@pytest.fixture
def filled(plait, monkeypatch):
    """A memory with two notes, one of them deleted."""
    monkeypatch.setenv("PLAIT_DB_PATH", "memory.db")
    plait("store", "The otter sleeps by the river", "--key", "otter")
    plait("store", "The heron fishes at dawn", "--key", "heron")
    plait("delete", "heron")
    return plait


def test_a_move_tells_what_it_moved_and_that_it_was_verified(filled, work):
    ran = filled("migrate", "--to", "new.db", "--format", "text")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        f"Moved {work / 'memory.db'} to {work / 'new.db'}: 1 document, 1 passage\n"
        f"Verified: {sum(map(len, rows_of('new.db').values()))} rows in 15 tables, and the "
        "hits of 1 of 1 sample query, are the same\n"
    )
    assert filled("--db", "new.db", "delete", "--undo").json["restored"] == ["heron"]


def test_there_and_back_through_a_database(filled, tmp_path):
    place = new_place(tmp_path, "database")
    there = filled("migrate", "--to", place).json
    back = filled("migrate", "--from", place, "--to", "back.db").json
    assert there["tables"] == back["tables"]
    assert (there["rounds"], there["queries"], there["same"]) == (1, 1, 1)
    assert rows_of("back.db") == rows_of("memory.db")


def test_an_unfinished_move_names_the_commands_that_finish_or_remove_it(filled, work, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(migrating, "_samples", stopped)
        assert filled("migrate", "--to", "new.db").code == 130
    ran = filled("--db", "new.db", "search", "otter")
    commands = (
        f"plait migrate --from {work / 'memory.db'} --to {work / 'new.db'}",
        f"plait migrate --to {work / 'new.db'} --drop",
    )
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert all(command in ran.err for command in commands)
    drop = filled(*commands[1].split()[1:])
    assert drop.json == {"dropped": str(work / "new.db")}
    assert not (work / "new.db").exists()
    assert filled(*commands[0].split()[1:]).code == 0


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["--to", "memory.db"], 2, "is there already"),
        (["--from", "none.db", "--to", "new.db"], 3, "There is no memory at"),
        (["--from", "none.db", "--to", "new.db", "--drop"], 2, "--drop takes no --from"),
        (["--from", "none.db", "--to", "new.db"], 3, "Check what --from names."),
        (["--db", "none.db", "--to", "new.db"], 3, "Name the memory with --from."),
        (["--to", "none.db", "--drop"], 3, "There is no memory at"),
        (["--to", "memory.db", "--drop"], 2, "No move into"),
        (["--from", "memory.db"], 2, "--to"),
        (["--to", "postgresql://x/?namespace="], 2, "name of a memory has 1 to 200"),
    ],
)
def test_what_cannot_be_moved_is_told_in_one_sentence(filled, work, words, code, problem):
    ran = filled("migrate", *words)
    assert (ran.code, ran.err.count("\n")) == (code, 1)
    assert (ran.out != "") == (code == 3)  # then it is the empty form
    assert problem in ran.err
    assert not (work / "new.db").exists()
    assert not (work / "none.db").exists()


def test_other_answers_of_the_copy_are_told(filled, monkeypatch):
    monkeypatch.setattr(migrating, "_compare_answers", lambda *_: 0)
    ran = filled("migrate", "--to", "new.db")
    assert (ran.code, ran.json["same"]) == (1, 0)
    assert "1 of 1 sample query found other passages" in ran.err
    assert filled("--db", "new.db", "search", "otter").code == 0


def test_no_password_is_kept_or_shown(filled, tmp_path, monkeypatch):
    place = new_place(tmp_path, "database").replace("postgres:@", "postgres:sesame@")
    if "sesame" not in place:
        pytest.skip("needs a server that takes any password")
    monkeypatch.setattr(migrating, "_samples", lambda old: 1 / 0)
    filled("migrate", "--to", place)
    with (
        closing(PostgresRows(place, create=True, timeout=5.0)) as opened,
        opened.reading() as reader,
    ):
        mark = get_fact(reader.session, MOVING)
    assert mark is not None
    assert "memory.db" in mark
    assert "sesame" not in mark


def test_a_missing_driver_is_told_with_the_command_that_installs_it(filled, monkeypatch):
    monkeypatch.setattr("plait.stores.databases.find_spec", lambda name: None)
    ran = filled("migrate", "--to", "postgresql://db.example/team")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert f"{PIP} install '.[postgres]'" in ran.err
