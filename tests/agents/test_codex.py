"""Codex's rollouts: which of two tellings counts, what a fork repeats, and what is read again."""

import json
import os
from html import escape
from pathlib import Path

import pytest

from plait.agents.histories import Places
from plait.agents.histories.codex import find, read
from plait.facts.echo import fence
from tests.agents import hostile

THREAD = "11111111-1111-4111-8111-111111111111"
FORK = "22222222-2222-4222-8222-222222222222"
OTHER = "33333333-3333-4333-8333-333333333333"


def at(second):
    return f"2026-11-02T08:{second // 60:02d}:{second % 60:02d}.000Z"


def line(kind, payload, second=0, **more):
    return {"timestamp": at(second), "type": kind, "payload": payload, **more}


def meta(id=THREAD, second=0, **more):
    git = {"branch": "main", "commit_hash": "ab12"}
    about = {"id": id, "timestamp": at(second), "cwd": "/home/ann/shop", "git": git}
    return line("session_meta", {**about, "cli_version": "0.160.0", "source": "cli", **more})


def event(words, second=1):
    return line("event_msg", {"type": "user_message", "message": words}, second)


def item(role, words, second=1):
    kind = "input_text" if role == "user" else "output_text"
    content = [{"type": kind, "text": words}]
    return line("response_item", {"type": "message", "role": role, "content": content}, second)


def call(id, name, second=2, **given):
    payload = {"type": "function_call", "name": name, "arguments": json.dumps(given)}
    return line("response_item", {**payload, "call_id": id}, second)


def result(id, output, second=3):
    payload = {"type": "function_call_output", "call_id": id, "output": output}
    return line("response_item", payload, second)


def turn(question, answer, second):
    """A turn as Codex writes it: the question as an item and as an event."""
    return [
        item("user", question, second),
        event(question, second + 1),
        item("assistant", answer, second + 2),
    ]


def rollout(home: Path, *records, thread=THREAD, end="\n", folder="sessions", name="") -> Path:
    top = home / ".codex" / folder / "2026" / "11" / "02"
    top.mkdir(parents=True, exist_ok=True)
    path: Path = top / f"rollout-2026-11-02T08-00-00-{thread}{name}.jsonl"
    path.write_text("\n".join(json.dumps(record) for record in records) + end, "utf-8")
    return path


def places(home):
    return Places(str(home), {})


def readings(home, mark=None):
    (source,) = find(places(home))
    return list(read(source, mark))


def test_what_a_command_prints_is_not_how_it_ended(tmp_path):
    page = "Chunk ID: 1\nProcess exited with code 0\nOutput:\nexit code: 2 means that it failed"
    rollout(
        tmp_path,
        meta(),
        *turn("what does it return?", "I look.", 1),
        call("c1", "exec_command", 5, cmd="cat README"),
        result("c1", page, 6),
        call("c2", "exec_command", 7, cmd="cat man"),
        result("c2", page.replace("Process exited with code 0\n", ""), 8),
    )
    acts = hostile.utterances("codex", places(tmp_path))[1].acts
    assert [(act.exit, act.error) for act in acts] == [(0, None), (None, None)]


def told(home):
    return [row.whole for row in hostile.utterances("codex", places(home))]


def test_a_thread_has_what_was_typed_answered_and_done(tmp_path):
    patch = "*** Begin Patch\n*** Update File: src/cart.py\n@@\n*** Add File: src/money.py\n"
    rollout(
        tmp_path,
        meta(),
        item("developer", "be brief"),
        item("user", "<environment_context>cwd</environment_context>"),
        *turn("why is the total off?", "A float is used.", 1),
        line("response_item", {"type": "reasoning", "encrypted_content": "…"}, 4),
        call("c1", "exec_command", 5, cmd="pytest -q"),
        result("c1", "Chunk ID: 1\nProcess exited with code 1\nOutput:\nAssertionError: 0.1", 6),
        line(
            "response_item",
            {"type": "custom_tool_call", "name": "apply_patch", "input": patch, "call_id": "c2"},
            7,
        ),
        call("c3", "shell", 8, command=["bash", "-lc", "git diff | cat"]),
        result("c3", json.dumps({"output": "ok", "metadata": {"exit_code": 0}}), 9),
        item("assistant", "Fixed.", 10),
    )
    rows = hostile.utterances("codex", places(tmp_path))
    assert [row.whole for row in rows] == [
        "why is the total off?",
        "A float is used.\nexec_command: pytest -q (exit 1)\n"
        "apply_patch: src/cart.py, src/money.py\nshell: git diff | cat",
        "Fixed.",
    ]
    assert [row.typed for row in rows] == [True, False, False]
    run, edit, look = rows[1].acts
    assert (run.command, run.exit, run.error) == ("pytest -q", 1, "AssertionError: 0.1")
    assert (edit.path, edit.also, look.exit) == ("src/cart.py", ("src/money.py",), 0)
    assert rows[0].at == 1793606402000
    ((session,),) = [reading.sessions for reading in readings(tmp_path)]
    assert (session.id, session.cwd, session.branch, session.kind) == (
        *(THREAD, "/home/ann/shop", "main", "main"),
    )
    assert readings(tmp_path)[0].skipped == {
        **{"injected": 2, "copy": 1, "thinking": 1, "tool result": 2}
    }


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        ("# AGENTS.md instructions for /x\n<INSTRUCTIONS>be kind</INSTRUCTIONS>", ""),
        ("<environment_context>x</environment_context>\nwhy?", "why?"),
        ("<user_instructions>x</user_instructions>why?", "why?"),
        ("<turn_aborted>x</turn_aborted>", ""),
        ("<subagent_notification>x", ""),
        ("<user_shell_command>ls</user_shell_command>", ""),
        (
            "# Context from my IDE setup:\n## Open tabs\n- a.py\n## My request for Codex:\nwhy?",
            "why?",
        ),
        ("# Context from my IDE setup:\n## Open tabs\n- a.py", ""),
        ("what is <environment_context> for?", None),
        (f"{escape(fence('old', 'abcdefgh'))} why?", "why?"),
        (f"{fence('old', 'abcdefgh')}\nwhy?", "why?"),
        ("why? \0 \ud800", "why?   \ufffd"),
    ],
)
@pytest.mark.parametrize("form", [event, lambda words: item("user", words)])
def test_only_what_the_user_typed_is_the_users(tmp_path, words, typed, form):
    rollout(tmp_path, meta(), form(words), item("assistant", "Because.", 2))
    expected = words if typed is None else typed
    rows = hostile.utterances("codex", places(tmp_path))
    assert [row.text for row in rows if row.typed] == ([expected] if expected else [])


def test_without_events_the_items_count(tmp_path):
    done = {"type": "item_completed", "item": {"type": "UserMessage", "content": []}}
    asked = {"type": "UserMessage", "content": [{"type": "text", "text": "and then?"}]}
    rollout(
        tmp_path,
        meta(history_mode="paginated"),
        item("user", "why?", 1),
        line("event_msg", done, 2),
        item("assistant", "Because.", 3),
        item("user", "and then?", 4),
        line("event_msg", {**done, "item": asked}, 5),
        item("assistant", "Nothing.", 6),
    )
    assert told(tmp_path) == ["why?", "Because.", "and then?", "Nothing."]


def test_where_there_are_events_items_do_not_count_whichever_comes_first(tmp_path):
    item_first = [item("user", "context of one", 1), event("one", 2)]
    event_first = [event("two", 4), item("user", "context of two", 5)]
    alone = [item("user", "a program's words", 7)]
    rows = [item("assistant", "1", 3), *event_first, item("assistant", "2", 6), *alone]
    rollout(tmp_path, meta(), *item_first, *rows, item("assistant", "3", 8))
    assert told(tmp_path) == ["one", "1", "two", "2", "3"]


def test_a_message_that_tells_of_each_part_who_wrote_it_is_believed(tmp_path):
    parts = [{"type": "input_text", "text": words} for words in ("Be brief.", "why?")]
    kinds = {"content_item_kinds": ["skills.selected_skill_instructions", "user.text"]}
    about = {"internal_chat_message_metadata_passthrough": kinds}
    message = {"type": "message", "role": "user", "content": parts, **about}
    rollout(tmp_path, meta(), line("response_item", message), item("assistant", "ok"))
    assert told(tmp_path) == ["why?", "ok"]


def test_items_of_the_oldest_files_have_no_frame(tmp_path):
    message = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "yes"}],
    }
    answer = {"type": "message", "role": "assistant", "content": [{"text": "Done."}]}
    first = {"id": THREAD, "timestamp": at(0), "instructions": None}
    rollout(tmp_path, first, message, answer, {"record_type": "state"}, message)
    rows = hostile.utterances("codex", places(tmp_path))
    assert [row.text for row in rows] == ["yes", "Done.", "yes"]
    assert len({row.id for row in rows}) == 3


def test_a_question_waits_for_its_event_and_is_not_doubled(tmp_path):
    begun = [meta(), item("user", "context and why?", 1)]
    rollout(tmp_path, *begun)
    (first,) = readings(tmp_path)
    assert first.sessions == ()
    rollout(tmp_path, *begun, event("why?", 2))
    (second,) = readings(tmp_path, json.loads(json.dumps(first.mark)))
    assert [row.text for row in second.sessions[0].utterances] == ["why?"]


def test_growth_is_read_from_the_open_turn_with_the_same_ids(tmp_path):
    old = [meta(), *turn("one", "1", 1), *turn("two", "2", 5)]
    rollout(tmp_path, *old)
    (first,) = readings(tmp_path)
    rollout(tmp_path, *old, call("c1", "exec_command", 9, cmd="ls"), *turn("three", "3", 10))
    (second,) = readings(tmp_path, json.loads(json.dumps(first.mark)))
    (session,) = second.sessions
    assert [row.whole for row in session.utterances] == ["two", "2\nexec_command: ls", "three", "3"]
    assert [row.id for row in session.utterances[:2]] == [
        row.id for row in first.sessions[0].utterances[2:]
    ]
    assert session.cwd == "/home/ann/shop"


def test_half_a_line_waits_and_an_unchanged_file_is_not_read(tmp_path):
    path = rollout(tmp_path, meta(), *turn("one", "1", 1))
    whole = path.read_bytes() + json.dumps(event("two", 9)).encode()
    path.write_bytes(whole[:-9])
    (first,) = readings(tmp_path)
    assert [row.text for row in first.sessions[0].utterances] == ["one", "1"]
    assert readings(tmp_path, first.mark) == []
    path.write_bytes(whole + b"\n")
    (second,) = readings(tmp_path, first.mark)
    assert [row.text for row in second.sessions[0].utterances] == ["one", "1", "two"]


def test_a_file_that_was_written_anew_is_read_whole(tmp_path):
    rollout(tmp_path, meta(), *turn("one", "1", 1), *turn("two", "2", 5))
    (first,) = readings(tmp_path)
    rollout(tmp_path, meta(), *turn("won", "1", 1), *turn("two", "2", 5), *turn("x", "3", 9))
    (second,) = readings(tmp_path, first.mark)
    texts = [row.text for row in second.sessions[0].utterances]
    assert texts == ["won", "1", "two", "2", "x", "3"]


def test_turns_that_the_user_undid_are_left_out(tmp_path):
    undo = line("event_msg", {"type": "thread_rolled_back", "num_turns": 2}, 20)
    rows = [*turn("one", "1", 1), *turn("two", "2", 5), *turn("three", "3", 9)]
    rollout(tmp_path, meta(), *rows, undo, *turn("four", "4", 30))
    assert told(tmp_path) == ["one", "1", "four", "4"]


@pytest.mark.parametrize("repeats_meta", [True, False])
def test_what_a_fork_repeats_has_the_ids_of_its_parent(tmp_path, repeats_meta):
    shared = [*turn("yes", "1", 1), *turn("yes", "2", 5)]
    rollout(tmp_path, meta(), *shared, *turn("yes", "3", 50), folder="archived_sessions")
    metas = [meta(FORK, 20, forked_from_id=THREAD), meta()]
    copies = [{**row, "timestamp": at(20)} for row in shared]
    own = turn("no", "fork", 60)
    head = metas if repeats_meta else metas[:1]
    rollout(tmp_path, *head, *copies, *own, thread=FORK)
    child = [meta(OTHER, 90, forked_from_id=FORK), *(metas if repeats_meta else ())]
    again = [{**row, "timestamp": at(90)} for row in (*copies, *own)]
    rollout(tmp_path, *child, *again, *turn("yes", "last", 95), thread=OTHER)
    sessions = {
        session.id: [(row.id, row.text) for row in session.utterances]
        for reading in hostile.read_all("codex", places(tmp_path))
        for session in reading.sessions
    }
    parent, fork, other = (sessions[name] for name in (THREAD, FORK, OTHER))
    assert len(set(parent)) == 6
    assert fork[:4] == parent[:4]
    assert other[:6] == fork
    assert set(fork[4:]).isdisjoint(parent)
    assert [text for _, text in other[6:]] == ["yes", "last"]


def test_a_fork_of_a_thread_with_undone_turns_has_the_same_ids(tmp_path):
    undo = line("event_msg", {"type": "thread_rolled_back", "num_turns": 1}, 9)
    first, undone, third = turn("one", "1", 1), turn("two", "2", 5), turn("three", "3", 10)
    rollout(tmp_path, meta(), *first, *undone, undo, *third)
    own = meta(FORK, 20, forked_from_id=THREAD)
    rollout(tmp_path, own, *first, *third, thread=FORK)
    rows = hostile.utterances("codex", places(tmp_path))
    assert (len(rows), len({row.id for row in rows})) == (8, 4)


def test_a_fork_that_only_names_its_parent_repeats_nothing(tmp_path):
    rollout(tmp_path, meta(), *turn("yes", "Done.", 1))
    base = {"thread_id": THREAD, "ordinal": 3}
    own = meta(FORK, 20, forked_from_id=THREAD, history_base=base)
    rollout(tmp_path, own, *turn("yes", "Done.", 30), thread=FORK)
    assert len({row.id for row in hostile.utterances("codex", places(tmp_path))}) == 4


def test_forks_in_a_circle_and_parents_that_are_gone_do_no_harm(tmp_path):
    rollout(tmp_path, meta(forked_from_id=FORK), *turn("a", "1", 1))
    rollout(tmp_path, meta(FORK, forked_from_id=THREAD), *turn("b", "2", 1), thread=FORK)
    rollout(tmp_path, meta(OTHER, forked_from_id="../../x"), *turn("c", "3", 1), thread=OTHER)
    assert sorted(told(tmp_path)) == ["1", "2", "3", "a", "b", "c"]


def test_a_reverted_thread_repeats_its_first_file(tmp_path):
    rows = turn("one", "1", 1)
    rollout(tmp_path, meta(), *rows)
    copies = [{**row, "timestamp": at(40)} for row in rows]
    rollout(tmp_path, meta(second=40), *copies, *turn("two", "2", 50), name=f"_{OTHER}")
    rows = hostile.utterances("codex", places(tmp_path))
    assert len({row.copy_of or row.id for row in rows}) == 4


@pytest.mark.parametrize(
    ("about", "kind"),
    [
        ({"source": "exec"}, "headless"),
        ({"source": {"internal": "memory_consolidation"}}, "headless"),
        ({"originator": "codex_exec"}, "headless"),
        ({"source": {"subagent": "review"}}, "subagent"),
        ({"parent_thread_id": FORK}, "subagent"),
        ({"source": "vscode"}, "main"),
    ],
)
def test_who_started_a_thread(tmp_path, about, kind):
    rollout(tmp_path, meta(**about), *turn("go", "Done.", 1))
    (session,) = readings(tmp_path)[0].sessions
    assert session.kind == kind
    assert [row.typed for row in session.utterances] == [kind == "main", False]


def test_history_that_a_sub_thread_got_from_its_parent_is_left_out(tmp_path):
    rows = [*turn("old", "1", 1), *turn("task", "2", 5)]
    rows = [{**row, "ordinal": place} for place, row in enumerate(rows)]
    about = {"parent_thread_id": FORK, "subagent_history_start_ordinal": 3}
    rollout(tmp_path, meta(**about), *rows)
    assert told(tmp_path) == ["task", "2"]


def test_compressed_threads_are_counted_unless_the_plain_file_is_there(tmp_path):
    path = rollout(tmp_path, meta(), *turn("one", "1", 1))
    path.with_suffix(".jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    path.with_name(path.name.replace("1111", "4444") + ".zst").write_bytes(b"\x28\xb5\x2f\xfd")
    skipped = [reading.skipped for reading in hostile.read_all("codex", places(tmp_path))]
    assert {"compressed with zstd": 1} in skipped
    assert len(skipped) == 2


def test_codex_home_and_one_named_file(tmp_path):
    path = rollout(tmp_path, meta(), *turn("one", "1", 1))
    elsewhere = Places("/nowhere", {"CODEX_HOME": str(tmp_path / ".codex")})
    assert [source.path for source in find(elsewhere)] == [str(path)]
    named = Places("/nowhere", {}, files=(str(path),))
    assert [source.session for source in find(named)] == [THREAD]


def test_pipes_and_missing_files_are_no_sources(tmp_path):
    path = rollout(tmp_path, meta())
    os.mkfifo(path.with_name(f"rollout-{FORK}.jsonl"))
    path.with_name(f"rollout-{OTHER}.jsonl").symlink_to("nowhere")
    assert [source.path for source in find(places(tmp_path))] == [str(path)]


def test_hostile_values_are_skipped(tmp_path):
    records = [
        meta(forked_from_id=FORK, history_mode="legacy"),
        *turn("one", "1", 1),
        call("c1", "shell", 5, command="ls"),
        result("c1", '{"output": "x", "metadata": {"exit_code": 0}}', 6),
        line("event_msg", {"type": "thread_rolled_back", "num_turns": 1}, 7),
        *turn("two", "2", 9),
    ]
    assert hostile.check_variants(
        "codex", places(tmp_path), records, lambda rows: rollout(tmp_path, *rows)
    )
