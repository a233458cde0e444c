"""Sessions become conversations: nothing is lost, doubled, read back or brought back."""

import os
import random
import shutil
import subprocess
import sys
from collections import Counter

import pytest

from plait.agents.choosing import EXCLUDE_FILE, Wanted
from plait.agents.histories import Places
from plait.agents.importing import (
    import_histories,
    import_transcript,
    sources_of,
)
from plait.agents.undoing import undo_import
from plait.errors import NotFound, UsageError
from plait.facts.credentials import secret_kinds
from plait.memory import Memory
from plait.times import parse_time
from plait.types import EVERYTHING
from plait.types.reports import Deleted
from plait.writing import deleting
from tests.agents.histories import Histories
from tests.agents.test_claude_code import answer, call, text, transcript, user
from tests.codes import has_code
from tests.interfaces.command import ROOT

SECRET = "password: 'Kq7-88xZ!41w'"
RANDOM_HISTORIES = 12


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with Memory.open(tmp_path / "memory.db", embedder="hashing") as opened:
        yield opened


def imported(memory, home, wanted=Wanted(), **options):  # noqa: B008
    sources = sources_of(Places(str(home), {}), ["claude-code"])
    return import_histories(memory, sources, wanted, **options)


def messages(memory):
    return memory.engine.scan(EVERYTHING._replace(kinds=("message",)), by_turn=True, whole=True)


def texts(memory):
    return [document.text for document in messages(memory)]


def test_messages_keep_who_said_them_when_and_where(memory, tmp_path):
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)
    transcript(
        tmp_path,
        user("u1", "why is the total off?", cwd=str(folder / "src")),
        answer("a1", text("A float is used."), call("t1", "Edit", file_path="cart.py")),
    )
    (folder / "src").mkdir()
    report = imported(memory, tmp_path)
    asked, answered = messages(memory)
    assert (asked.role, asked.origin, asked.trust) == ("user", "user", "trusted")
    assert (answered.role, answered.origin, answered.trust) == ("assistant", "agent", "untrusted")
    assert {(row.door, row.verb) for row in memory.log()} == {("import", "import")}
    assert answered.text == "A float is used.\nEdit: cart.py"
    assert asked.project == os.path.realpath(folder)
    assert asked.metadata["agent"] == "claude-code"
    assert asked.metadata["branch"] == "main"
    assert asked.key == "u1"
    assert (asked.session or "").startswith("claude-code:")
    assert report.by_month == {(asked.project, "2026-11"): 2}
    assert [row.text for row in memory.engine.scan(EVERYTHING, whole=True)][-1] == asked.text


def test_a_message_of_a_time_to_come_has_the_time_of_the_one_before(memory, tmp_path):
    transcript(
        tmp_path,
        user("u1", "why is the total off?", timestamp="2026-11-02T08:00:00.000Z"),
        answer("a1", text("A float is used."), timestamp="2199-01-01T00:00:00.000Z"),
        user("u2", "and the tax?", timestamp=None),
        user("u3", "and the shipping?", timestamp=1793610000000),
    )
    report = imported(memory, tmp_path)
    assert {month for _, month in report.by_month} == {"2026-11"}
    first, *others, last = [row.event_at for row in messages(memory)]
    assert first == parse_time("2026-11-02T08:00:00Z")
    assert others == [first, first]
    assert last == 1793610000000


def test_a_session_stays_in_its_project_when_the_folder_is_gone(memory, tmp_path):
    shop = tmp_path / "shop"
    (shop / ".git").mkdir(parents=True)
    worked = shop / "src"
    worked.mkdir()
    first = [user("u1", "why?", cwd=str(worked)), answer("a1", text("I look."))]
    transcript(tmp_path, *first)
    imported(memory, tmp_path)
    shutil.rmtree(shop)
    grown = answer("a2", call("t1", "Edit", file_path=str(worked / "cart.py")), id="msg_2")
    transcript(tmp_path, *first, grown, user("u2", "thanks"))
    report = imported(memory, tmp_path)
    assert (report.messages, report.replaced, report.skipped.get("deleted")) == (1, 1, None)
    assert {row.project for row in messages(memory)} == {str(shop)}
    assert [row.step.path for row in memory.engine.steps(EVERYTHING)] == ["src/cart.py"]


def test_sessions_in_worktrees_belong_to_the_repository(memory, tmp_path):
    shop, tree = tmp_path / "shop", tmp_path / "shop-fix"
    tree.mkdir()
    git = shop / ".git" / "worktrees" / "shop-fix"
    git.mkdir(parents=True)
    (tree / ".git").write_text(f"gitdir: {git}\n", "utf-8")
    (git / "gitdir").write_text(f"{tree / '.git'}\n", "utf-8")
    edit = answer("a1", call("t1", "Edit", file_path=str(tree / "cart.py")))
    transcript(tmp_path, user("u1", "fix the cart", cwd=str(tree)), edit)
    imported(memory, tmp_path)
    assert {row.project for row in messages(memory)} == {str(shop)}
    assert [row.step.path for row in memory.engine.steps(EVERYTHING)] == ["cart.py"]


def test_recall_shows_the_answer_after_calls_of_tools(memory, tmp_path):
    question = "which port does the staging database listen on?"
    first = [
        user("u1", question, cwd="/nowhere/shop"),
        answer("a1", call("t1", "Read", file_path="compose.yaml"), id="msg_1"),
    ]
    transcript(tmp_path, *first)
    imported(memory, tmp_path)
    transcript(tmp_path, *first, answer("a2", text("It is 5433."), id="msg_2"))
    imported(memory, tmp_path)
    assert [(row.role, row.origin) for row in messages(memory)] == [
        *(("user", "user"), ("assistant", "tool"), ("assistant", "agent")),
    ]
    assert "It is 5433." in memory.recall(question, all_projects=True).text


def test_calls_whose_answer_gets_words_later_become_the_reply(memory, tmp_path):
    first = [user("u1", "which port?"), answer("a1", call("t1", "Read", file_path="a.yaml"))]
    transcript(tmp_path, *first)
    imported(memory, tmp_path)
    assert messages(memory)[1].origin == "tool"
    transcript(tmp_path, *first, answer("a2", text("It is 5433.")))
    imported(memory, tmp_path)
    _, reply = messages(memory)
    assert (reply.text, reply.origin) == ("It is 5433.\nRead: a.yaml", "agent")


def test_an_answer_of_private_words_is_its_calls(memory, tmp_path):
    words = text("<private>for you</private>")
    transcript(tmp_path, user("u1", "why?"), answer("a1", words, call("t1", "Read", path="a.py")))
    imported(memory, tmp_path)
    reply = messages(memory)[1]
    assert (reply.text, reply.origin) == ("Read: a.py", "tool")


def test_a_second_import_reads_and_writes_nothing(memory, tmp_path):
    transcript(tmp_path, user("u1", "why?"))
    imported(memory, tmp_path)
    report = imported(memory, tmp_path)
    assert (report.read, report.messages, report.unchanged) == (0, 0, 0)


def test_an_answer_that_grew_is_replaced_in_its_place(memory, tmp_path):
    first = [user("u1", "fix it"), answer("a1", text("I look."))]
    transcript(tmp_path, *first)
    imported(memory, tmp_path)
    ids = [document.id for document in messages(memory)]
    transcript(tmp_path, *first, answer("a2", call("t", "Bash", command="make"), id="msg_2"))
    report = imported(memory, tmp_path)
    assert (report.messages, report.replaced) == (0, 1)
    assert texts(memory) == ["fix it", "I look.\nBash: make"]
    assert [document.id for document in messages(memory)] == ids


def test_a_file_that_lost_its_end_takes_nothing_away(memory, tmp_path):
    first = [user("u1", "fix it"), answer("a1", text("I look."))]
    transcript(tmp_path, *first, answer("a2", call("t", "Bash", command="make"), id="msg_2"))
    imported(memory, tmp_path)
    transcript(tmp_path, *first)
    imported(memory, tmp_path)
    assert texts(memory) == ["fix it", "I look.\nBash: make"]


def test_messages_stay_when_the_agent_deletes_its_file(memory, tmp_path):
    transcript(tmp_path, user("u1", "why?")).unlink()
    transcript(tmp_path, user("u1", "why?"))
    imported(memory, tmp_path)
    transcript(tmp_path, user("u1", "why?")).unlink()
    imported(memory, tmp_path)
    assert texts(memory) == ["why?"]


def test_a_users_scope_takes_no_histories(memory, tmp_path):
    transcript(tmp_path, user("u1", "why?"))
    memory.store("a note", key="n")
    with pytest.raises(UsageError, check=has_code("not_in_scope")):
        imported(memory.scope("user:7"), tmp_path)
    assert imported(memory, tmp_path).messages == 1


@pytest.mark.parametrize("purge", [False, True])
def test_what_was_deleted_does_not_return(memory, tmp_path, purge):
    rows = [user("u1", "forget this"), user("u2", "keep this")]
    transcript(tmp_path, *rows)
    imported(memory, tmp_path)
    memory.delete(messages(memory)[0].id, purge=purge, all_projects=True)
    transcript(tmp_path, *rows, user("u3", "and this"))
    report = imported(memory, tmp_path, Wanted(again=True))
    assert texts(memory) == ["keep this", "and this"]
    assert report.skipped["deleted"] == 1


def test_secrets_are_masked_and_private_blocks_left_out(memory, tmp_path):
    said = f"use {SECRET} <private>my salary is 5</private> there"
    transcript(tmp_path, user("u1", said), answer("a1", text(SECRET)), user("u2", "<private>x"))
    report = imported(memory, tmp_path)
    stored = texts(memory)
    assert stored == ["use password: '[secret]'   there", "password: '[secret]'"]
    assert not any(map(secret_kinds, stored))
    assert (report.masked, report.skipped["private blocks"]) == (2, 2)


def test_an_id_that_looks_like_a_token_costs_no_message(memory, tmp_path):
    odd = "ghp_q7Zt0LmW4xR9cVbN2sKdF6hJ8yTgUe3aPi5o"
    transcript(tmp_path, user("u1", "why?"), answer(odd, text("Because.")))
    imported(memory, tmp_path)
    assert texts(memory) == ["why?", "Because."]


def test_folders_of_the_exclude_file_are_left_out(memory, tmp_path):
    transcript(tmp_path, user("u1", "why?", cwd="/home/ann/secret/plans"))
    file = tmp_path / "config" / "plait" / EXCLUDE_FILE
    file.parent.mkdir(parents=True)
    file.write_text("# mine\n/home/ann/secret\n", "utf-8")
    report = imported(memory, tmp_path)
    assert texts(memory) == []
    assert report.skipped == {"excluded": 1}


def test_an_exclude_file_that_is_a_pipe_is_refused_and_not_waited_for(memory, tmp_path):
    file = tmp_path / "config" / "plait" / EXCLUDE_FILE
    file.parent.mkdir(parents=True)
    os.mkfifo(file)
    with pytest.raises(UsageError, check=has_code("bad_exclude_file")):
        imported(memory, tmp_path)


def test_headless_sessions_come_only_when_asked_for(memory, tmp_path):
    transcript(tmp_path, user("u1", "summarise", turnOrigin="sdk"))
    assert imported(memory, tmp_path).skipped == {"headless sessions": 1}
    report = imported(memory, tmp_path, Wanted(headless=True))
    assert report.messages == 1
    assert [document.trust for document in messages(memory)] == ["untrusted"]
    assert imported(memory, tmp_path, Wanted(headless=True)).read == 0
    assert imported(memory, tmp_path).read == 0


def test_only_what_is_wanted_is_taken_and_the_rest_can_follow(memory, tmp_path):
    transcript(tmp_path, user("u1", "one", cwd="/home/ann/a"), session="s1")
    transcript(tmp_path, user("u2", "two", cwd="/home/ann/b"), session="s2")
    imported(memory, tmp_path, Wanted(folder="/home/ann/a"))
    assert texts(memory) == ["one"]
    imported(memory, tmp_path, Wanted(session="s2"))
    assert sorted(texts(memory)) == ["one", "two"]
    assert imported(memory, tmp_path).messages == 0


def test_since_counts_the_last_message_and_not_the_file_that_was_copied(
    memory, tmp_path, monkeypatch
):
    monkeypatch.setattr("plait.agents.histories.claude_code.FULL", 1)
    old, new = "2026-01-02T08:00:00Z", "2026-11-02T08:00:00Z"
    transcript(tmp_path, user("u1", "old", timestamp=old), session="s1")
    rows = [user("u2", "old, too", timestamp=old), user("u3", "new", timestamp=new)]
    transcript(tmp_path, *rows, session="s2")
    transcript(tmp_path, user("u4", "timeless", timestamp=""), session="s3")
    since = parse_time("2026-10-01")
    report = imported(memory, tmp_path, Wanted(since=since))
    assert sorted(texts(memory)) == ["new", "old, too", "timeless"]
    assert report.skipped == {"not wanted": 1}
    assert imported(memory, tmp_path).messages == 1
    path = transcript(tmp_path, user("u5", "before", timestamp=old), session="s4")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert imported(memory, tmp_path, Wanted(since=since)).messages == 0


def test_a_dry_run_counts_and_writes_nothing(memory, tmp_path):
    transcript(tmp_path, user("u1", "why?"))
    report = imported(memory, tmp_path, dry_run=True)
    assert (report.messages, report.dry_run) == (1, True)
    assert texts(memory) == []
    assert imported(memory, tmp_path).messages == 1


def test_a_whole_import_can_be_undone_and_made_again(memory, tmp_path):
    transcript(tmp_path, user("u1", "one"), session="s1")
    first = imported(memory, tmp_path).run
    transcript(tmp_path, user("u2", "two"), session="s2")
    second = imported(memory, tmp_path).run
    assert undo_import(memory) == (second, 1)
    assert texts(memory) == ["one"]
    assert undo_import(memory, first) == (first, 1)
    assert imported(memory, tmp_path).messages == 2
    with pytest.raises(NotFound, check=has_code("no_import")):
        undo_import(memory, "nothing")


def test_an_undo_deletes_in_the_order_of_the_keyword_index(memory, tmp_path, monkeypatch):
    """From the front of the lists: the other way round takes twice as long."""
    for session in ("s2", "s1"):
        turns = [
            user(f"{session}{turn}", f"turn {turn}", timestamp=f"2026-11-02T08:00:0{turn}Z")
            for turn in range(3)
        ]
        transcript(tmp_path, *turns, session=session)
        imported(memory, tmp_path)
    indexed = {row.id: (row.indexed_at, row.turn) for row in messages(memory)}
    deleted = []

    def delete(store, ids, **_):
        deleted.append([indexed[id_] for id_ in ids])
        return Deleted()

    monkeypatch.setattr(deleting, "delete", delete)
    undo_import(memory)
    undo_import(memory)
    assert [len(rows) for rows in deleted] == [3, 3]
    assert deleted == [sorted(rows) for rows in deleted]


def test_an_undo_that_was_stopped_goes_on_with_the_same_import(memory, tmp_path, monkeypatch):
    transcript(tmp_path, user("u1", "one"))
    imported(memory, tmp_path)
    transcript(tmp_path, user("u1", "one"), user("u2", "two"))
    second = imported(memory, tmp_path).run

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(memory, "_deleted", stop, raising=False)
        undo_import(memory)
    assert undo_import(memory) == (second, 1)
    assert texts(memory) == ["one"]
    assert imported(memory, tmp_path).messages == 1
    assert sorted(texts(memory)) == ["one", "two"]


def test_an_undo_leaves_messages_that_only_name_the_import(memory, tmp_path):
    transcript(tmp_path, user("u1", "one"))
    run = imported(memory, tmp_path).run
    named = {"import": run, "agent": "claude-code"}
    session = messages(memory)[0].session
    for key, place in (("foreign", "a talk"), ("u1", "another talk"), ("u9", session)):
        memory.store(f"of {key}", key=key, role="user", session=place, metadata=named)
    assert undo_import(memory, run, dry_run=True) == (run, 1)
    assert undo_import(memory, run) == (run, 1)
    assert sorted(texts(memory)) == ["of foreign", "of u1", "of u9"]


def test_an_id_that_cannot_be_stored_as_it_is_is_undone_too(memory, tmp_path):
    transcript(tmp_path, user("u\ud8001", "one"), user("u\0002", "two"))
    assert undo_import(memory, imported(memory, tmp_path).run)[1] == 2
    assert imported(memory, tmp_path).messages == 2


def test_an_import_whose_undo_was_taken_back_can_be_undone_again(memory, tmp_path):
    transcript(tmp_path, user("u1", "one", cwd=""), user("u2", "two", cwd=""))
    run = imported(memory, tmp_path).run
    for name in (None, run):
        assert undo_import(memory) == (run, 2)
        with pytest.raises(NotFound, check=has_code("no_import")):
            undo_import(memory, name)
        assert len(memory.undo()) == 2
        assert undo_import(memory, name) == (run, 2)
        assert texts(memory) == []
        memory.undo()
    later = imported(memory, tmp_path)
    assert (later.messages, later.unchanged) == (0, 2)
    assert undo_import(memory) == (run, 2)
    assert imported(memory, tmp_path).messages == 2


def test_a_hook_imports_the_tail_under_the_same_ids(memory, tmp_path):
    path = transcript(tmp_path, user("u1", "one"))
    import_transcript(memory, "claude-code", str(path))
    transcript(tmp_path, user("u1", "one"), user("u2", "two"))
    assert import_transcript(memory, "claude-code", str(path)).messages == 1
    assert imported(memory, tmp_path).messages == 0
    assert texts(memory) == ["one", "two"]


def test_a_run_that_goes_on_after_its_undo_can_be_undone_whole(memory, tmp_path):
    path = transcript(tmp_path, user("u1", "one", cwd=""))
    run = import_transcript(memory, "claude-code", str(path)).run
    assert undo_import(memory, run) == (run, 1)
    transcript(tmp_path, user("u2", "two", cwd=""), session="other")
    import_transcript(memory, "claude-code", str(path.with_stem("other")))
    memory.undo()
    assert undo_import(memory, run) == (run, 2)
    assert texts(memory) == []


def test_vectors_follow_the_texts_in_the_same_import(memory, tmp_path):
    transcript(tmp_path, user("u1", "why is the total off?"))
    assert imported(memory, tmp_path).vectors == 1
    assert memory.stats().pending_count == 0


def test_vectors_that_an_interruption_left_out_are_made_the_next_time(memory, tmp_path):
    transcript(tmp_path, user("u1", "why is the total off?"))

    def stop(*_):
        raise KeyboardInterrupt

    assert imported(memory, tmp_path, progress=stop).interrupted
    transcript(tmp_path, user("u1", "why is the total off?"), user("u2", "and now?"))
    import_transcript(memory, "claude-code", str(next(tmp_path.rglob("*.jsonl"))))
    assert memory.stats().pending_count == 0
    assert imported(memory, tmp_path).vectors == 0


def test_what_was_written_before_an_interruption_stays(memory, tmp_path, monkeypatch):
    monkeypatch.setattr("plait.agents.importing.BATCH_MESSAGES", 1)
    for number in range(5):
        transcript(tmp_path, user(f"u{number}", f"text {number}"), session=f"s{number}")
    seen = []

    def stop(*_):
        seen.append(1)
        if len(seen) == 3:
            raise KeyboardInterrupt

    report = imported(memory, tmp_path, progress=stop)
    assert (report.interrupted, report.messages) == (True, 3)
    assert imported(memory, tmp_path).messages == 2
    assert len(texts(memory)) == 5


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a"), ("b", "c", "a")])
def test_a_fork_of_a_fork_is_one_message_whichever_is_read_first(memory, tmp_path, order):
    rows = {
        "a": user("u1", "why?"),
        "b": user("n1", "why?", forkedFrom={"messageUuid": "u1"}),
        "c": user("n2", "why?", forkedFrom={"messageUuid": "n1"}),
    }
    for session in (*order, *order):
        transcript(tmp_path, rows[session], session=session)
        imported(memory, tmp_path, Wanted(session=session, again=True))
    assert texts(memory) == ["why?"]


@pytest.mark.parametrize("seed", range(RANDOM_HISTORIES))
def test_nothing_is_lost_or_doubled_whatever_happens_to_the_files(memory, tmp_path, seed):
    histories = Histories(tmp_path, seed)
    for _ in range(25):
        histories.step()
        if histories._chance.random() < 0.3:
            imported(memory, tmp_path)
    histories.heal()
    imported(memory, tmp_path)
    assert Counter(texts(memory)) == Counter(histories.said.values())


ODD: tuple[object, ...] = (
    None,
    "",
    "x",
    "\ud800",
    "\0",
    "scope:user:7",
    -1,
    1e300,
    True,
    [],
    [[]],
    {},
    {"a": [1]},
)


@pytest.mark.parametrize("cwd", ["scope:user:7", "..", "x", ""])
def test_a_folder_that_is_no_path_is_no_project(memory, tmp_path, cwd):
    transcript(tmp_path, user("u1", "why?", cwd=cwd))
    imported(memory, tmp_path)
    (message,) = messages(memory)
    assert message.project is None


def oddly(value, chance):
    """Return a record with something in it that no agent writes."""
    if chance.random() < 0.12:
        return chance.choice(ODD)
    if isinstance(value, dict):
        return {name: oddly(part, chance) for name, part in value.items()}
    return [oddly(part, chance) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(5))
def test_whatever_a_file_holds_the_rest_is_imported_and_no_scope_reached(memory, tmp_path, seed):
    chance = random.Random(seed)
    rows = []
    for number in range(60):
        at = f"2026-11-02T08:{number:02d}:00Z"
        more = {"timestamp": at, "forkedFrom": {"messageUuid": f"o{number}"}}
        steering = {"type": "queued_command", "prompt": [text("go")], "origin": {"kind": "human"}}
        rows += [
            user(f"u{number}", f"question {number}", **more, origin={"kind": "human"}),
            answer(f"a{number}", text("yes"), call("t", "Bash", command="x"), id=f"m{number}"),
            {"type": "attachment", "uuid": f"q{number}", "attachment": steering},
            {"type": "system", "subtype": "away_summary", "content": "done", "uuid": f"s{number}"},
        ]
    records = [oddly(row, chance) for row in rows]
    transcript(tmp_path, *records, user("sound", "a sound question", cwd="/nowhere/x"))
    imported(memory, tmp_path)
    assert "a sound question" in texts(memory)
    assert not any((row.project or "").startswith("scope:") for row in messages(memory))


IMPORT = """
import sys
from plait.agents.histories import Places
from plait.agents.importing import import_histories, sources_of
from plait.memory import Memory
with Memory.open(sys.argv[1], embedder="none") as memory:
    import_histories(memory, sources_of(Places(sys.argv[2], {}), ["claude-code"]))
"""


def test_an_import_that_was_killed_goes_on_where_it_ended(tmp_path):
    rows = [user(f"u{number}", f"text {number}") for number in range(400)]
    for session in range(4):
        transcript(tmp_path, *rows[session * 100 : session * 100 + 100], session=f"s{session}")
    path = tmp_path / "memory.db"
    killing = f"""
import os
import plait.agents.importing as importing
importing.BATCH_MESSAGES = 100
from plait.writing.writer import Writer
write, calls = Writer.write_texts, []
def dying(self, *values, **options):
    calls.append(1)
    if len(calls) == 3:
        os.kill(os.getpid(), 9)
    return write(self, *values, **options)
Writer.write_texts = dying
{IMPORT}"""
    command = [sys.executable, "-c", killing, str(path), str(tmp_path)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -9
    with Memory.open(path, embedder="none") as memory:
        assert len(texts(memory)) == 200
        report = imported(memory, tmp_path)
        assert (report.messages, report.unchanged) == (200, 0)
        assert len(set(texts(memory))) == 400


def test_two_imports_at_once_double_nothing(tmp_path):
    histories = Histories(tmp_path, 5)
    for _ in range(30):
        histories.step()
    histories.heal()
    path = str(tmp_path / "memory.db")
    with Memory.open(path, embedder="none"):
        pass
    command = [sys.executable, "-c", IMPORT, path, str(tmp_path)]
    both = [subprocess.Popen(command, cwd=ROOT) for _ in range(2)]
    assert [process.wait(120) for process in both] == [0, 0]
    with Memory.open(path, embedder="none") as memory:
        assert Counter(texts(memory)) == Counter(histories.said.values())
