"""A conversation on a terminal: a real one, and its commands one by one."""

import os
import stat

import pytest

from plait import Memory
from plait.cli import Output, arguments_for
from plait.cli import conversation as conversing
from tests.chat.server import Call, Reply

pty = pytest.importorskip("pty", reason="needs a POSIX terminal")
from prompt_toolkit.application import create_app_session  # noqa: E402
from prompt_toolkit.input import create_pipe_input  # noqa: E402
from prompt_toolkit.output import DummyOutput  # noqa: E402

from tests.chat.terminal import Terminal  # noqa: E402

EVIL = "\x1b[2J\x1b]0;owned\x07\x00b\u202eok"


@pytest.fixture
def history(home):
    return home / ".local" / "share" / "plait" / "chat-history"


# -- a real terminal -------------------------------------------------------------------------


def test_a_conversation_on_a_terminal(work, server, history):
    server.replies = [
        Reply("I look. ", Call("memory_search", {"query": "deploy"})),
        Reply("On Friday."),
        Reply("After lunch."),
    ]
    with Terminal("chat", *server.options("ollama"), "--session", "s1") as screen:
        screen.wait_for("/help lists commands")
        screen.wait_for(">")
        screen.type("when do we deploy?\r")
        screen.wait_for("(memory_search: deploy)")
        screen.wait_for("On Friday.")
        screen.wait_for(">")
        screen.type("at what time?\r")
        screen.wait_for("After lunch.")
        screen.wait_for(">")
        screen.type("\x04")
        assert screen.end() == 0
        assert "chat --session s1 --model ollama:m  # go on" in screen.text
    first, _, third = server.requests
    assert "<relevant-context>" in first.turns[0]["content"]
    assert third.turns[-1]["content"] == "at what time?", "later turns search by the tool"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "+when do we deploy?" in history.read_text(encoding="utf-8")
    with Memory.open(project="") as memory:
        assert len(memory.conversation("s1")) == 4


def test_ctrl_c_stops_the_answer_and_not_the_chat(work, server):
    server.replies = [Reply("Once upon a time ", fault="hang"), Reply("The end.")]
    with Terminal("chat", *server.options("openai"), "--session", "s1") as screen:
        screen.wait_for(">")
        screen.type("tell me a story\r")
        screen.wait_for("Once upon a time")
        screen.type("\x03")
        screen.wait_for("Stopped.")
        screen.type("\x03")  # while it is saved, or at the prompt
        screen.wait_for(">")
        screen.type("half a line\x03")  # only empties the line
        screen.wait_for(">")
        screen.type("go on\r")
        screen.wait_for("The end.")
        screen.wait_for(">")
        screen.type("/quit\r")
        assert screen.end() == 0
    assert [turn["content"] for turn in server.requests[1].turns[1:]] == [
        "Once upon a time",
        "go on",
    ]
    with Memory.open(project="") as memory:
        texts = [row.text for row in memory.conversation("s1")]
    assert texts == ["tell me a story", "Once upon a time", "go on", "The end."]


def test_a_terminal_obeys_nothing_that_a_model_says(work, server):
    server.replies = [Reply("Look: ", Call("x" + EVIL, {"y": EVIL})), Reply(EVIL)]
    with Terminal("chat", "hi", *server.options("anthropic")) as screen:
        assert screen.end() == 0
        for bad in ("\x1b[2J", "\x1b]0;", "\x07", "\x00", "\u202e", "\x1b[1m"):
            assert bad not in screen.raw
        assert "\\u001b[2J" in screen.raw


def test_ctrl_c_ends_a_single_answer(work, server):
    server.replies = [Reply("Once upon a time ", fault="hang")]
    with Terminal("chat", "a story", *server.options("ollama")) as screen:
        screen.wait_for("Once upon a time")
        screen.type("\x03")
        assert screen.end() == 130


def test_an_error_does_not_end_the_conversation(work, server):
    server.replies = [Reply(fault="401"), Reply("Now it works.")]
    with Terminal("chat", *server.options("openai")) as screen:
        screen.wait_for("is not saved (auto_save is off")
        screen.wait_for(">")
        screen.type("hello\r")
        screen.wait_for("refused the key")
        screen.wait_for(">")
        screen.type("again\r")
        screen.wait_for("Now it works.")
        screen.wait_for(">")
        screen.type("\x04")
        assert screen.end() == 0
    assert len(server.requests[1].turns) == 1


# -- its commands ----------------------------------------------------------------------------


@pytest.fixture
def converse(work, server, capsys, monkeypatch):
    """Type lines into a conversation in this process, and return what was shown."""

    monkeypatch.setenv("NO_COLOR", "1")

    def run(*lines: str, words: tuple[str, ...] = ()) -> tuple[str, str]:
        from plait.cli.chat import chat_run

        with create_pipe_input() as keys:
            typed = "".join(f"{line}\r" for line in lines) + "\x04"
            keys.send_bytes(typed.encode("utf-8", "surrogateescape"))
            with create_app_session(input=keys, output=DummyOutput()):
                monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
                _, arguments = arguments_for(["chat", *server.options("openai"), *words])
                out = Output(arguments)
                out.on_terminal, out.form = True, "text"
                assert chat_run(arguments, out) == 0
        captured = capsys.readouterr()
        return captured.out, captured.err

    return run


def test_search_shows_hits_without_the_model(converse, server):
    out, err = converse("/search herons", "/search", "/search xyzzy", "/help", "")
    assert "Herons fish at dawn." in out and "/forget NAME" in out
    assert "For example: /search" in err and "Nothing found." in err
    assert server.requests == []


def test_remember_and_forget(converse):
    out, err = converse("/remember The ferry leaves at noon.", "/remember", "/forget", "/forget x")
    assert out.startswith("Stored ")
    assert "For example: /remember" in err and "For example: /forget" in err
    assert "Nothing is named 'x'" in err and "Search for it: /search WORDS" in err
    assert "plait search" not in err
    with Memory.open(project="") as memory:
        hit = memory.search("ferry")[0]
        assert (hit.text, hit.document.origin) == ("The ferry leaves at noon.", "user")
    out, _ = converse(f"/forget {hit.id}")
    assert out.startswith("Deleted 1 document") and "The ferry leaves" in out
    out, err = converse("/forget deploys")
    assert out.startswith("Deleted 1 document") and "plait delete --undo" in err
    with Memory.open(project="") as memory:
        assert memory.stats().doc_count == 1


def test_a_secret_to_remember_is_told(converse):
    _, err = converse("/remember the router password: 'x7-Kqz92!f'")
    assert "the stored text holds a secret (password)" in err


def test_sources_are_those_of_the_last_question(converse, server):
    search = Call("memory_search", {"query": "herons"})
    server.replies = [Reply("Fridays."), Reply(search), Reply("At dawn.")]
    out, err = converse("/sources", "when do we deploy?", "/sources")
    assert "shown nothing" in err
    assert "[note:Deploys:1-1]" in out
    server.replies = [Reply("Fridays."), Reply(search), Reply("At dawn.")]
    out, _ = converse("when do we deploy?", "and herons?", "/sources")
    assert "[note:herons:1-1]" in out and "Deploys" not in out


def test_a_model_without_tools_is_searched_for_every_time(converse, server):
    refusal = Reply(fault="400", message="this model does not support tools")
    server.replies = [refusal, Reply("Fridays."), Reply("At dawn.")]
    converse("when do we deploy?", "when do herons fish?")
    assert [bool(request.tools) for request in server.requests] == [True, False, False]
    assert "Herons fish at dawn." in server.requests[2].turns[-1]["content"]


def test_an_unknown_command_is_told_and_a_path_is_a_question(converse, server):
    _, err = converse("/serach x", "/etc/hosts is what?")
    assert "There is no command /serach" in err
    assert server.requests[0].turns[0]["content"].endswith("/etc/hosts is what?")


def test_quit_ends_the_conversation(converse, server):
    converse("/quit", "hello")
    converse("/exit", "hello")
    assert server.requests == []


def test_a_conversation_says_whether_it_is_kept(converse):
    assert "is saved as trip" in converse("hi", words=("--session", "trip"))[1]
    assert "goes on as trip" in converse(words=("--session", "trip"))[1]
    assert "the memory is not written" in converse(words=("--read-only",))[1]
    assert converse("hi", words=("--quiet", "--session", "trip"))[1] == ""


def test_commands_of_a_memory_that_is_off_do_nothing(converse, monkeypatch):
    monkeypatch.setenv("PLAIT_BACKEND", "none")
    out, err = converse("/remember x", "/search x")
    assert out == "" and "not written" in err


def test_json_is_no_conversation(work, server, monkeypatch):
    from plait.cli.chat import chat_run
    from plait.errors import UsageError

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    _, arguments = arguments_for(["chat", *server.options("openai"), "--json"])
    out = Output(arguments)
    out.on_terminal = True
    with pytest.raises(UsageError, match="Give a question"):
        chat_run(arguments, out)


# -- the history of what was typed -----------------------------------------------------------


def test_the_history_holds_no_secret(converse, history):
    converse("/search plain words", "my password: 'x7-Kqz92!f'")
    text = history.read_text(encoding="utf-8")
    assert "plain words" in text and "x7-Kqz92" not in text


def test_a_history_that_others_can_read_is_made_private(converse, history):
    history.parent.mkdir(parents=True, exist_ok=True)
    history.write_text("", encoding="utf-8")
    history.chmod(0o644)
    converse("/help")
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_a_long_history_loses_its_older_half(tmp_path, monkeypatch):
    monkeypatch.setattr(conversing, "MOST_HISTORY_BYTES", 1_000)
    path = tmp_path / "history"
    path.write_text("".join(f"\n# 2026\n+line {n}\n" for n in range(100)), encoding="utf-8")
    conversing.prepare_history(str(path))
    text = path.read_text(encoding="utf-8")
    assert len(text) <= 500 and text.startswith("\n# 2026\n+line ") and "line 99" in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_history_that_is_no_file_is_not_used(converse, history, tmp_path, kind):
    history.parent.mkdir(parents=True, exist_ok=True)
    target = tmp_path / "target"
    if kind == "link":
        target.write_text("mine", encoding="utf-8")
        history.symlink_to(target)
    else:
        os.mkfifo(history)
    _, err = converse("/search herons")
    assert "what you type is not kept" in err
    assert kind == "pipe" or target.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("now", ["gone", "link", "folder"])
def test_a_history_that_is_lost_meanwhile_stays_private_and_ends_no_chat(
    converse, server, history, tmp_path, monkeypatch, now
):
    target = tmp_path / "target"
    prepare = conversing.prepare_history
    calls: list[str] = []

    def lose(path: str) -> None:
        if len(calls) == 1:
            history.unlink()
            if now == "link":
                target.write_text("mine", encoding="utf-8")
                history.symlink_to(target)
            elif now == "folder":
                history.mkdir()
        calls.append(path)
        prepare(path)

    monkeypatch.setattr(conversing, "prepare_history", lose)
    before = os.umask(0o022)
    try:
        _, err = converse("when do we deploy?", "and then?")
    finally:
        os.umask(before)
    assert len(server.requests) == 2
    if now == "gone":
        assert stat.S_IMODE(history.stat().st_mode) == 0o600
    else:
        assert err.count("what you type is not kept") == 1
    assert now != "link" or target.read_text(encoding="utf-8") == "mine"


def test_bytes_that_are_no_text_end_no_chat(converse, server):
    out, err = converse("/remember caf\udcff", "/search caf\udcff", "caf\udcff?", "And now?")
    assert out.startswith("Stored ") and "no valid answer" not in err
    assert "caf\ufffd?" in server.requests[0].turns[0]["content"]
    assert len(server.requests) == 2


def test_a_missing_prompt_is_one_sentence(work, server, monkeypatch):
    from plait.errors import ChatError

    monkeypatch.setitem(__import__("sys").modules, "prompt_toolkit", None)
    with pytest.raises(ChatError, match="needs the package prompt_toolkit"):
        conversing._prompt(None)  # type: ignore[arg-type]
    with pytest.raises(ChatError, match="needs the package prompt_toolkit"):
        conversing.accept_facts(None, ["x"], "s", "m", None)  # type: ignore[arg-type]
