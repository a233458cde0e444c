"""Hooks as real processes: whatever happens, they end soon, and print an answer or nothing."""

import json
import os
import signal
import stat
import subprocess
import sys
import time

import apsw
import pytest

from plait.agents.hooks import record
from plait.agents.hooks.forms import HOOK_EVENTS
from tests.agents.hooks.conftest import ANSWER, PATIENT, QUESTION, Home, payload
from tests.agents.hooks.test_forms import KEYS, RECORDED, keys
from tests.interfaces.command import PATIENCE_S, PLAIT, environment, spawn

posix = pytest.mark.skipif(os.name != "posix", reason="needs fork")
SILENT = (0, "", "")


@pytest.mark.parametrize("agent", HOOK_EVENTS)
def test_every_agent_is_answered_in_its_form(home: Home, agent: str) -> None:
    start, prompt = (
        next(event for event in HOOK_EVENTS[agent] if event.moment == moment)
        for moment in ("start", "prompt")
    )
    for event, text in ((start, "Swedish"), (prompt, ANSWER)):
        sent = {**RECORDED[agent][event.word], "prompt": QUESTION}
        ran = spawn("hook", agent, event.word.upper(), *PATIENT, stdin=json.dumps(sent).encode())
        assert (ran.code, ran.err) == (0, "")
        expected = KEYS.get((agent, event.word))
        assert (keys(ran.out) if ran.out else None) == expected
        assert (text in ran.out) == (expected is not None)
    assert len(home.entries()) == 2


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("claude-code",),
        ("nobody", "Stop"),
        ("claude-code", "Nothing"),
        ("claude-code", "Stop", "more"),
        ("claude-code", "UserPromptSubmit", "--no-such-option"),
        ("claude-code", "UserPromptSubmit", "--deadline", "soon"),
        ("claude-code", "UserPromptSubmit", "--db", "/"),
        ("claude-code", "UserPromptSubmit", "--config", "/nowhere.toml"),
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_blocks_no_agent(home: Home, words: tuple[str, ...]) -> None:
    assert spawn("hook", *words, stdin=payload()) == SILENT
    assert spawn("--db", str(home.database), "hook", *words, stdin=payload()) == SILENT
    assert spawn("--bogus", "hook", *words, stdin=payload()) == SILENT
    told = [entry.did for entry in home.entries()]
    assert len(told) == 3 and set(told) <= {"failed", "silent"}


def test_a_broken_settings_file_blocks_no_agent(home: Home) -> None:
    folder = home.path / "config" / "plait"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("limit = ", encoding="utf-8")
    assert spawn("hook", "codex", "UserPromptSubmit", *PATIENT, stdin=payload()) == SILENT
    assert home.entries()[-1].did == "failed"


def test_a_damaged_memory_blocks_no_agent(home: Home) -> None:
    home.database.write_bytes(b"no database at all " * 500)
    for event in ("SessionStart", "UserPromptSubmit"):
        assert spawn("hook", "codex", event, *PATIENT, stdin=payload()) == SILENT
    assert [entry.did for entry in home.entries()] == ["failed", "failed"]


@posix
@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full"])
def test_closed_and_full_streams_are_no_failure(home: Home, closing: str) -> None:
    shell = ("sh", "-c", f'exec "$@" {closing}', "sh")
    ran = spawn("hook", "codex", "UserPromptSubmit", *PATIENT, stdin=payload(), before=shell)
    assert (ran.code, ran.err) == (0, "")


@posix
def test_the_record_is_private(home: Home) -> None:
    old_mask = os.umask(0)
    try:
        spawn("hook", "codex", "UserPromptSubmit", *PATIENT, stdin=payload())
        assert spawn("mute", "keys").code == 0
    finally:
        os.umask(old_mask)
    for name in (record.LOG_NAME, record.MUTED_NAME):
        assert stat.S_IMODE((home.data / name).stat().st_mode) == 0o600
    (home.data / record.LOG_NAME).chmod(0o644)
    spawn("hook", "codex", "UserPromptSubmit", *PATIENT, stdin=payload())
    assert stat.S_IMODE((home.data / record.LOG_NAME).stat().st_mode) == 0o600


def start(*words: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*PLAIT, "hook", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )


def test_an_agent_that_never_closes_its_input_is_not_waited_for(home: Home) -> None:
    with start("codex", "UserPromptSubmit", "--deadline", "0.2") as hook:
        # Nothing is sent, and the pipe stays open until the hook has ended.
        assert hook.wait(PATIENCE_S) == 0
        assert hook.stdout is not None and hook.stdout.read() == b""


def test_a_writer_at_work_is_not_waited_for(home: Home) -> None:
    with home.open() as memory, memory.engine.transaction():
        ran = spawn("hook", "codex", "UserPromptSubmit", *PATIENT, stdin=payload())
    assert ran.code == 0 and ANSWER in ran.out


def test_a_locked_database_is_no_failure(home: Home) -> None:
    connection = apsw.Connection(str(home.database))
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("BEGIN EXCLUSIVE")
    try:
        ran = spawn("hook", "codex", "UserPromptSubmit", *PATIENT, stdin=payload())
    finally:
        connection.execute("ROLLBACK")
        connection.close()
    assert (ran.code, ran.err) == (0, "")


HANGING = """
import ctypes, sys
import plait.memory

def hang(*_, **__):
    {hang}

plait.memory.Memory.search = hang
from plait.cli import main
sys.exit(main(sys.argv[1:]))
"""


@posix
@pytest.mark.parametrize(
    "hang",
    # The second one keeps the interpreter's lock, as a page of a mapped file on a slow disk does.
    ["import time; time.sleep(1000)", "ctypes.PyDLL(None).sleep(1000)"],
    ids=["waits", "keeps the lock"],
)
def test_a_hook_that_hangs_ends_at_its_deadline(home: Home, hang: str) -> None:
    script = HANGING.format(hang=hang)
    command = [sys.executable, "-c", script, "hook", "codex", "UserPromptSubmit"]
    done = subprocess.run(
        [*command, "--deadline", "1.5"],
        input=payload(),
        capture_output=True,
        env=environment(),
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    # The line is written by a process that nobody waits for.
    patience = time.monotonic() + PATIENCE_S
    while not home.entries() and time.monotonic() < patience:
        time.sleep(0.01)
    [entry] = home.entries()
    assert (entry.agent, entry.event, entry.did) == ("codex", "UserPromptSubmit", "late")


WITHOUT_FORK = """
import sys, time
from plait.agents.hooks.deadline import within

def work(send):
    send("begun")
    if sys.argv[1] == "hang":
        time.sleep(1000)
    send("answer")

deliver = lambda messages: (sys.stdout.write(",".join(messages)), sys.stdout.flush())
late = lambda messages: (sys.stderr.write("late"), sys.stderr.flush())
within(0.5 if sys.argv[1] == "hang" else 60, work, deliver, late, fork=False)
"""


@pytest.mark.parametrize(
    ("how", "out", "err"), [("hang", b"begun", b"late"), ("work", b"begun,answer", b"")]
)
def test_without_fork_the_process_ends_itself(how: str, out: bytes, err: bytes) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_FORK, how],
        capture_output=True,
        env=environment(),
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, out, err)


@posix
def test_a_killed_hook_leaves_everything_as_it_was(home: Home) -> None:
    for _ in range(3):
        with start("codex", "UserPromptSubmit", "--deadline", "2") as hook:
            hook.send_signal(signal.SIGKILL)
    ran = spawn("hook", "codex", "UserPromptSubmit", *PATIENT, stdin=payload())
    assert ran.code == 0 and ANSWER in ran.out
    with home.open() as memory:
        assert memory.search(QUESTION)


def test_eight_hooks_at_once(home: Home) -> None:
    hooks = [start("codex", "UserPromptSubmit", *PATIENT) for _ in range(8)]
    for number, hook in enumerate(hooks):
        out, err = hook.communicate(payload(session_id=f"s{number}"), timeout=PATIENCE_S)
        assert (hook.returncode, err) == (0, b"") and ANSWER.encode() in out
    entries = home.entries()
    assert {entry.session for entry in entries} == {f"s{number}" for number in range(8)}
    assert len(entries) == 8


def test_a_person_at_a_terminal_is_told_how_to_try(home: Home) -> None:
    ran = spawn("hook", "--help")
    assert ran.code == 0 and "--try" in ran.out


def test_the_verbs_name_does_no_harm_elsewhere(home: Home) -> None:
    for words in (("search", "hook", "--no-such-option"), ("--bogus", "search", "hook")):
        ran = spawn(*words)
        assert ran.code == 2 and ran.err


def test_without_a_home_there_is_still_an_answer(home: Home) -> None:
    ran = spawn("hook", "codex", "UserPromptSubmit", *PATIENT, stdin=payload(), env={"HOME": ""})
    assert ran.code == 0 and ANSWER in ran.out


@posix
def test_a_list_of_muted_items_that_cannot_be_read_silences_all(home: Home) -> None:
    assert spawn("mute", "parrot").code == 0
    (home.data / record.MUTED_NAME).chmod(0o644)
    assert spawn("hook", "codex", "UserPromptSubmit", *PATIENT, stdin=payload()) == SILENT
    assert home.entries()[-1].why == "not_private"


def test_a_session_is_saved_by_the_hooks_own_process(home: Home) -> None:
    text = "The heron desk moves to the second floor."
    row = {
        "type": "user",
        "uuid": "u1",
        "sessionId": "s1",
        "timestamp": "2026-11-02T08:00:00.000Z",
        "message": {"role": "user", "content": text},
    }
    transcript = home.path / "s1.jsonl"
    transcript.write_text(json.dumps(row) + "\n", encoding="utf-8")
    assert spawn("config", "set", "auto_save", "on").code == 0
    sent = payload(transcript_path=str(transcript))
    assert spawn("hook", "claude-code", "Stop", *PATIENT, stdin=sent) == SILENT
    ran = spawn("timeline", "--saved", "--json")
    assert [saved["summary"] for saved in json.loads(ran.out)["results"]] == [text]
