"""What must not be kept is in no byte of the memory's files, and does not come back."""

import subprocess
from pathlib import Path

import pytest

from plait.agents.choosing import EXCLUDE_FILE, Wanted
from plait.agents.histories import Places
from plait.agents.histories.acts import act_of, ended
from plait.agents.importing import import_histories, sources_of
from plait.facts.masking import masked
from plait.memory import Memory
from plait.types import EVERYTHING
from tests.agents import test_aider, test_claude_code, test_codex, test_copilot

TOKEN = "ghp_" + "vR8kQ2mZx7LpT4nWc9YbJ3sHf6DgK1aUeX5o"
SALARY = "zanzibar salary"
PURGED = "forget the quokka"


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with Memory.open(tmp_path / "memory.db", embedder="hashing") as opened:
        yield opened


def imported(memory, home, agent, wanted=Wanted(), folder="shop"):  # noqa: B008
    places = Places(str(home), {}, (str(home / folder),))
    return import_histories(memory, sources_of(places, [agent]), wanted)


def stored(memory):
    rows = memory.engine.scan(EVERYTHING._replace(kinds=("message",)), whole=True)
    return {row.text: row for row in rows}


def bytes_of(folder):
    # Not opened here: closing a file of a database in use drops the locks of this process.
    return subprocess.check_output(["cat", *folder.glob("memory.db*")])


def claude_code(home, *words):
    rows = [test_claude_code.user(f"u{place}", text) for place, text in enumerate(words)]
    rows = [{**row, "gitBranch": TOKEN} for row in rows]
    titles = {"custom-title": "customTitle", "ai-title": "aiTitle"}
    titles |= {"last-prompt": "lastPrompt", "summary": "summary"}
    titled = [{"type": kind, field: words[0]} for kind, field in titles.items()]
    test_claude_code.transcript(home, *rows, *titled)


def codex(home, *words):
    turns = [test_codex.turn(text, "ok", place * 3) for place, text in enumerate(words)]
    about = test_codex.meta(git={"branch": TOKEN})
    test_codex.rollout(home, about, *(row for turn in turns for row in turn))


def copilot(home, *words):
    rows = [test_copilot.ask(f"e{place}", text) for place, text in enumerate(words, 1)]
    title = test_copilot.event("session.title_changed", "t", title=words[0])
    begin = test_copilot.begin()
    begin["data"]["context"]["branch"] = TOKEN
    test_copilot.session(home, begin, *rows, title)


@pytest.mark.parametrize("write", [claude_code, codex, copilot])
def test_no_byte_tells_a_secret_a_private_word_or_what_was_purged(memory, tmp_path, write):
    agent = write.__name__.replace("_", "-")
    first = f"{PURGED} {TOKEN} <private>{SALARY}</private>"
    write(tmp_path, first, "keep this")
    imported(memory, tmp_path, agent)
    doomed = next(row for text, row in stored(memory).items() if PURGED in text)
    assert TOKEN.encode() not in bytes_of(tmp_path)
    assert SALARY.encode() not in bytes_of(tmp_path)
    assert PURGED.encode() in bytes_of(tmp_path)
    memory.delete(doomed.id, purge=True, all_projects=True)
    write(tmp_path, first, "keep this", "and this")
    imported(memory, tmp_path, agent)
    assert {"keep this", "and this"} <= set(stored(memory))
    for words in (TOKEN, SALARY, PURGED):
        assert words.encode() not in bytes_of(tmp_path), words


def test_what_was_purged_does_not_return_when_aiders_project_moves(memory, tmp_path):
    talk = f"{test_aider.HEAD}#### {PURGED}\n\nI do.\n\n#### keep this\n"
    path = test_aider.project(tmp_path, talk)
    imported(memory, tmp_path, "aider")
    doomed = next(row for text, row in stored(memory).items() if PURGED in text)
    memory.delete(doomed.id, purge=True, all_projects=True)
    path.parent.rename(tmp_path / "moved")
    imported(memory, tmp_path, "aider", folder="moved")
    assert sorted(stored(memory)) == ["I do.", "keep this"]
    assert PURGED.encode() not in bytes_of(tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        "a <private>{} <private>b</private> {}</private> z",
        "a <private>{}</private> b <PRIVATE >{}</Private > z",
        'a <private why="tax">{}</private> z <private>b <private>c</private> {}',
        "a <private>\n<private>\n{}\n</private>\n{}\n</private>\nz",
    ],
)
def test_a_private_block_ends_where_the_outermost_one_does(memory, tmp_path, words):
    said = words.replace("{}", SALARY)
    used = test_claude_code.call("t1", "Bash", command=f"make {said}")
    rows = test_claude_code.user("u1", said), test_claude_code.answer("a1", used)
    test_claude_code.transcript(tmp_path, *rows)
    assert imported(memory, tmp_path, "claude-code").messages == 2
    assert SALARY.encode() not in bytes_of(tmp_path)
    for text in stored(memory):
        assert {"a", "z"} <= set(text.split())


LONG = [
    f"{'y' * 148} GH={TOKEN} make",
    f"{'y ' * 75}https://bob:Hx92kqVeryLongPasswordHere7788@git.example/x",
    f"{'y' * 160} AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCYzzQ9k2LmT8v0 make",
]


@pytest.mark.parametrize("command", LONG)
@pytest.mark.parametrize("shift", range(0, 60, 7))
def test_the_cut_of_a_line_leaves_no_half_of_a_secret(command, shift):
    command = "x" * shift + command
    act = act_of("Bash", {"command": command})
    failed = ended(act, command, failed=True)
    for line in (act.line, failed.line, failed.error or ""):
        for half in (TOKEN[:8], "Hx92kq", "wJalrX"):
            # What is short enough to be whole is masked with the message.
            assert half not in masked(line)[0]


KEY_LINE = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW"
KEY = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{KEY_LINE}\n"
ANSWERS = {
    "a line of a key": KEY,
    "a line of a key far behind": "ok\n" * 60_000 + KEY * 20 + "error: bad key",
    "a private block": f"<private>\nerror: {SALARY}\n</private>",
    "half a private block": f"<private>{'x ' * 200_000}\nerror: {SALARY}\n</private>",
    "a line cut in the middle": f"x\n{'y' * 5000}\nz {TOKEN} error: bad {'k' * 3955}",
    "a recalled memory": f"<<plait-recall abcdefgh>>\nerror: {SALARY}\n<</plait-recall abcdefgh>>",
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=list(ANSWERS))
def test_the_error_of_a_step_is_no_line_that_must_not_be_kept(answer):
    error = ended(act_of("Bash", {"command": "make"}), answer, failed=True).error or ""
    for words in (KEY_LINE[:20], SALARY, TOKEN[-6:]):
        assert words not in error


@pytest.mark.parametrize("field", ["prompt", "command", "query", "file_path"])
def test_a_memory_that_an_agent_passes_on_to_a_tool_is_not_stored_as_new(memory, tmp_path, field):
    fenced = "<<plait-recall abcdefgh>>\n" + f"{SALARY} " * 40 + "\n<</plait-recall abcdefgh>>"
    for place, words in enumerate((fenced, f"<private>{SALARY}</private>" + "x" * 300)):
        used = test_claude_code.call("t1", "Task", **{field: f"look {words} and go on"})
        rows = test_claude_code.user("u1", "why?"), test_claude_code.answer("a1", used)
        test_claude_code.transcript(tmp_path, *rows, session=f"s{place}")
        imported(memory, tmp_path, "claude-code")
    assert SALARY.encode() not in bytes_of(tmp_path)


def test_what_masking_makes_room_for_holds_no_half_of_a_secret():
    key = KEY.replace(KEY_LINE, "MIIEow" * 1300)[:7_950] + "-----END OPENSSH PRIVATE KEY-----"
    for shift in range(0, 40, 3):
        act = act_of("Bash", {"command": f"echo '{key[shift:]}' GH={TOKEN} make"})
        assert TOKEN[4:8] not in act.line


def test_a_secret_that_the_words_beside_a_command_tell_is_none_of_its_words(memory, tmp_path):
    password = "Kq7-88xZ!41w"
    used = [
        test_claude_code.call("t1", "Bash", command=f"open-door {password} --now"),
        test_claude_code.call("t2", "Edit", file_path=f"/home/ann/{password}/cart.py"),
    ]
    told = test_claude_code.text(f"I use the password: '{password}' then.")
    rows = test_claude_code.user("u1", "why?"), test_claude_code.answer("a1", told, *used)
    test_claude_code.transcript(tmp_path, *rows)
    assert imported(memory, tmp_path, "claude-code").masked == 1
    assert password.encode() not in bytes_of(tmp_path)


def test_names_of_tools_sessions_and_files_are_no_place_for_a_secret(memory, tmp_path):
    used = test_claude_code.call("t1", TOKEN, file_path="/home/ann/shop/cart.py")
    rows = test_claude_code.user("u1", "why?"), test_claude_code.answer("a1", used)
    test_claude_code.transcript(tmp_path, *rows, session=f"s-{TOKEN}")
    assert imported(memory, tmp_path, "claude-code").messages == 2
    assert imported(memory, tmp_path, "claude-code", Wanted(again=True)).messages == 0
    assert TOKEN.encode() not in bytes_of(tmp_path)


@pytest.mark.parametrize("write", [claude_code, codex, copilot])
def test_the_name_of_a_folder_that_is_gone_is_no_place_for_a_secret(memory, tmp_path, write):
    folder, agent = f"/home/ann/job-{TOKEN}/src", write.__name__.replace("_", "-")
    write(tmp_path, "why?", "who?")
    for path in filter(Path.is_file, tmp_path.rglob("*.jsonl")):
        path.write_text(path.read_text("utf-8").replace("/home/ann/shop", folder), "utf-8")
    report = imported(memory, tmp_path, agent)
    assert {project for project, _ in report.by_month} == {folder.replace(TOKEN, "[secret]")}
    assert imported(memory, tmp_path, agent, Wanted(again=True)).messages == 0
    assert TOKEN.encode() not in bytes_of(tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        "<<plait-re<private>x</private>call abcdefgh>>\nhello\n"
        "<</plait-re<private>x</private>call abcdefgh>> tail",
        "<<plait-\0recall abcdefgh>>hello<</plait-recall abcdefgh>> tail",
        "<pri<private>x</private>vate>tail",
        "<<plait-re<<plait-recall abcdefgh>>x<</plait-recall abcdefgh>>call bcdefghi>>y"
        "<</plait-recall bcdefghi>> tail",
        "<<plait-re" * 50
        + "<<plait-recall abcdefgh>>x<</plait-recall abcdefgh>>"
        + "call bcdefghi>>y<</plait-recall bcdefghi>>" * 50,
    ],
)
def test_what_is_taken_out_leaves_no_tag_behind(memory, tmp_path, words):
    test_claude_code.transcript(tmp_path, test_claude_code.user("u1", words))
    imported(memory, tmp_path, "claude-code")
    for text in stored(memory):
        assert "<private>" not in text
        assert "<<plait-recall" not in text


@pytest.mark.parametrize("mask", ["{}/link", "{}/real", "{}/*", "{}/r?al", "{}/link/"])
@pytest.mark.parametrize("place", ["link", "real", "link/plans", "real/plans/deep"])
def test_a_kept_out_folder_is_kept_out_under_all_its_names(memory, tmp_path, mask, place):
    tmp_path.joinpath("real", "plans", "deep").mkdir(parents=True)
    tmp_path.joinpath("link").symlink_to(tmp_path / "real")
    test_claude_code.transcript(
        tmp_path, test_claude_code.user("u1", "why?", cwd=str(tmp_path / place))
    )
    file = tmp_path / "config" / "plait" / EXCLUDE_FILE
    file.parent.mkdir(parents=True)
    file.write_text(mask.format(tmp_path), "utf-8")
    assert imported(memory, tmp_path, "claude-code").skipped == {"excluded": 1}


def moves_claude_code(home, folder):
    rows = test_claude_code.user("u1", "why?"), test_claude_code.user("u2", "plan", cwd=folder)
    test_claude_code.transcript(home, *rows)


def moves_codex(home, folder):
    moved = test_codex.line("turn_context", {"cwd": folder})
    rows = *test_codex.turn("why?", "ok", 1), moved, *test_codex.turn("plan", "ok", 5)
    test_codex.rollout(home, test_codex.meta(), *rows)


def moves_copilot(home, folder):
    moved = test_copilot.event("session.context_changed", "m", cwd=folder)
    rows = test_copilot.ask("u1", "why?"), moved, test_copilot.ask("u2", "plan")
    test_copilot.session(home, test_copilot.begin(), *rows)


@pytest.mark.parametrize("write", [moves_claude_code, moves_codex, moves_copilot])
def test_a_session_that_moves_into_a_kept_out_folder_is_left_out(memory, tmp_path, write):
    file = tmp_path / "config" / "plait" / EXCLUDE_FILE
    file.parent.mkdir(parents=True)
    file.write_text("/home/ann/secret", "utf-8")
    write(tmp_path, "/home/ann/secret/plans")
    agent = write.__name__.removeprefix("moves_").replace("_", "-")
    assert imported(memory, tmp_path, agent).skipped["excluded"] == 1
    assert stored(memory) == {}


@pytest.mark.parametrize("cwd", ["/" + "x" * 5000, "/x" * 2500, "/a\0b", "/a\ud800", 7])
def test_a_folder_that_cannot_be_stops_no_import(memory, tmp_path, cwd):
    test_claude_code.transcript(
        tmp_path, test_claude_code.user("u1", "why?", cwd=cwd), session="s1"
    )
    test_claude_code.transcript(tmp_path, test_claude_code.user("u2", "who?"), session="s2")
    assert imported(memory, tmp_path, "claude-code").messages == 2
