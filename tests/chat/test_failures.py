"""What goes wrong between plait and a model's server: one sentence, and what came is kept."""

import builtins
import socket
from contextlib import closing
from typing import Any

import pytest

from plait import Memory
from plait.chat import models
from plait.chat.models import ChatServer as Endpoint
from plait.chat.models import message_in, open_model, patient_answer
from plait.chat.talk import Talk
from plait.chat.turns import ChatTurn
from plait.errors import PIP, ChatError, ConfigError, advise
from plait.settings.chat_models import parse_chat_model
from plait.settings.loading import load
from tests.chat.server import Call, ChatServer, Reply
from tests.codes import has_code

# Statuses, the code of the error, and whether the client tries again by itself.
STATUSES = [
    ("400", "refused", False),
    ("401", "bad_key", False),
    ("403", "bad_key", False),
    ("404", "unknown_model", False),
    ("429", "rate_limited", True),
    ("500", "server_failed", True),
    ("529", "server_failed", True),
    ("redirect", "redirected", False),
]


# For servers that say nothing more; those that do are given time, however busy the machine is.
SHORT_S = 0.5


def opened(server: ChatServer, protocol: str, quiet_s: float = 30.0, **environ: str):
    config = load({}, environ={"HOME": "/nowhere", **environ})
    spec = parse_chat_model(server.model(protocol), server.address)
    return open_model(spec, config, [], quiet_s=quiet_s)


def answer(server: ChatServer, protocol: str, quiet_s: float = 30.0):
    model = opened(server, protocol, quiet_s)
    try:
        return [*patient_answer(model, "You answer.", [ChatTurn("user", "Hi.")], tools=False)]
    finally:
        model.close()


@pytest.mark.parametrize(("status", "code", "_"), STATUSES)
def test_a_status_is_an_error_with_a_code(work, server, protocol, status, code, _):
    server.replies = [Reply(fault=status, message="bad\x1b[2J luck")]
    with pytest.raises(ChatError, check=has_code(code)) as caught:
        answer(server, protocol)
    assert "\x1b" not in str(caught.value)


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """No pause before the next try."""
    monkeypatch.setattr(models, "PAUSES_S", (0.0, 0.0))


@pytest.mark.parametrize(("status", "_", "again"), STATUSES)
def test_what_passes_is_tried_again(chat, server, status, _, again):
    server.replies = [Reply(fault=status), Reply(fault=status), Reply("Fine.")]
    ran = chat("hi")
    assert (ran.code, len(server.requests)) == ((0, 3) if again else (1, 1))


def test_a_server_that_stays_busy_is_told(chat, server):
    server.replies = [Reply(fault="429", message="You exceeded your quota")]
    ran = chat("hi")
    assert "has too many requests: 'You exceeded your quota'. Try again later." in ran.err
    assert len(server.requests) == 3


@pytest.mark.parametrize("reply", [Reply("So: ", fault="error"), Reply(fault="hang")])
def test_a_request_is_not_repeated_if_it_was_answered_or_is_slow(chat, server, reply):
    server.replies = [reply]
    patience = str(SHORT_S) if reply.fault == "hang" else "30"
    assert chat("hi", "--timeout", patience).code == 1
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("cut", "stream_cut"),
        ("ends", "stream_cut"),
        ("hang", "server_silent"),
        ("error", "server_failed"),
        ("garbage", "bad_answer"),
    ],
)
@pytest.mark.parametrize("parts", [(), ("It is ",)], ids=["at once", "after some words"])
def test_a_stream_that_breaks_is_an_error(work, server, protocol, fault, code, parts):
    server.replies = [Reply(*parts, fault=fault)]
    with pytest.raises(ChatError, check=has_code(code)):
        answer(server, protocol, quiet_s=SHORT_S if fault == "hang" else 30.0)


# Parts that make at least five events of a stream.
FIVE_EVENTS = {"ollama": 5, "openai": 2, "anthropic": 1}


def test_a_silent_server_can_be_waited_for(chat, server):
    server.replies = [Reply(fault="hang")]
    assert "To wait longer, add: --timeout" in chat("hi", "--timeout", "0.1").err


def test_a_slow_stream_is_read_to_its_end(work, server, protocol):
    parts = ["word "] * FIVE_EVENTS[protocol]
    server.replies = [Reply(*parts, pause_s=0.2)]
    # Longer than the patience, which is for each word.
    assert answer(server, protocol, quiet_s=0.8) == parts


def delta(**fields: object) -> dict[str, object]:
    return {"choices": [{"delta": fields}]}


def block(kind: str, **fields: object) -> dict[str, object]:
    return {"type": kind, "index": 0, **fields}


# Valid JSON, or nearly, that is no answer of any provider.
NONSENSE = [
    *("", "null", "3", "[]", '"text"', "{}", "[" * 20_000, '{"a":' * 20_000),
    *({"choices": 5}, {"choices": {"a": 1}}, {"choices": [5]}, {"choices": [None]}),
    *(delta(content=5), delta(content=["x"]), delta(tool_calls=5), delta(tool_calls=[5])),
    *(
        delta(tool_calls=[{"index": "x", "function": {"name": 5}}]),
        delta(tool_calls=[{"index": [], "function": 5}]),
    ),
    *({"message": 5, "done": True}, {"message": {"role": 5}}, {"done": "maybe"}),
    {"message": {"role": "assistant", "tool_calls": [{"function": {"name": 5}}]}, "done": False},
    *(block("content_block_start"), block("content_block_start", content_block=5)),
    *(
        block("content_block_delta", delta=5),
        block("content_block_delta", delta={"type": "text_delta", "text": 5}),
        block("content_block_delta", delta={"type": "text_delta"}),
    ),
    *(
        block("message_delta"),
        block("message_delta", delta={"stop_reason": [5]}),
        block("nonsense"),
    ),
]


@pytest.mark.parametrize("raw", NONSENSE, ids=lambda raw: str(raw)[:40])
def test_no_answer_is_too_strange(work, server, protocol, raw):
    server.replies = [Reply(raw=raw)]
    with pytest.raises(ChatError) as caught:
        answer(server, protocol)
    assert caught.value.code in ("bad_answer", "stream_cut", "server_failed")


@pytest.mark.parametrize("fault", ["cut", "ends", "hang", "error", "garbage"])
def test_what_came_is_shown_and_kept(chat, server, work, fault):
    server.replies = [Reply("It is ", "Friday", fault=fault)]
    patience = str(SHORT_S) if fault == "hang" else "30"
    ran = chat("when?", "--format", "text", "--session", "s1", "--timeout", patience)
    assert (ran.code, ran.out) == (1, "It is Friday\n")
    line, *_ = ran.err.splitlines()
    assert line.startswith("plait: ") and "The answer is incomplete." in line
    with Memory.open(project="") as memory:
        assert [turn.text for turn in memory.conversation("s1")] == ["when?", "It is Friday"]


def test_a_program_is_told_that_an_answer_is_incomplete(chat, server):
    server.replies = [Reply("It is ", fault="cut")]
    answer = chat("when?").json
    assert (answer["answer"], answer["complete"]) == ("It is", False)
    assert "incomplete" in answer["warnings"][-1]


@pytest.mark.parametrize("fault", ["length", "window"])
def test_the_limit_of_a_model_is_told(chat, server, fault):
    server.replies = [Reply("It is", fault=fault)]
    ran = chat("when?", "--format", "text")
    assert (ran.code, ran.out) == (1, "It is\n")
    assert "the model's limit" in ran.err


def test_a_call_that_was_cut_is_not_run(chat, server, work):
    store = Call("memory_store", {"text": "Half a fact."})
    server.replies = [Reply("I store ", store, fault="cut")]
    assert chat("remember").code == 1
    with Memory.open(project="") as memory:
        assert memory.stats().doc_count == 2


def test_nothing_is_kept_of_a_question_that_failed(chat, server, work):
    server.replies = [Reply(fault="401")]
    ran = chat("when?", "--session", "s1")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.count("\n") == 1
    with Memory.open(project="") as memory:
        assert memory.conversation("s1") == []


def test_an_answer_without_end_is_cut(chat, server, monkeypatch):
    monkeypatch.setattr(models, "MOST_ANSWER_CHARS", 5)
    server.replies = [Reply("abc", "def", "ghi")]
    ran = chat("when?", "--format", "text")
    assert (ran.code, ran.out) == (1, "abcdef\n")


@pytest.mark.parametrize(
    ("limit", "value"), [("MOST_BYTES", 2_000), ("MOST_ANSWER_S", -1.0)], ids=["bytes", "seconds"]
)
@pytest.mark.parametrize(
    "reply",
    [
        Reply(Call("memory_store", {"text": "x" * 4_000})),
        Reply(*[Call("memory_search", {"query": "x"})] * 100),
        Reply(raw="x" * 4_000),
        Reply(*[""] * 500),
        Reply(fault="500", message="x" * 4_000),
    ],
    ids=["a call", "calls", "a line", "no words", "an error"],
)
def test_a_server_that_sends_without_end_is_cut(
    work, server, protocol, monkeypatch, reply, limit, value
):
    monkeypatch.setattr(models, limit, value)
    server.replies = [reply]
    with pytest.raises(ChatError, check=has_code("answer_too_long")):
        answer(server, protocol)
    assert len(server.requests) == 1


def test_a_small_answer_that_grows_is_not_read(work, server, protocol):
    server.replies = [Reply("It is Friday.", fault="compressed")]
    with pytest.raises(ChatError, match="compressed", check=has_code("bad_answer")):
        answer(server, protocol)
    assert server.requests[0].headers["accept-encoding"] == "identity"


HALF = "\ud83d"


@pytest.mark.parametrize(
    ("replies", "shown"),
    [
        ([Reply(f"a{HALF}", "\ude00b")], "a\N{GRINNING FACE}b"),
        ([Reply(f"a{HALF}")], "a\N{REPLACEMENT CHARACTER}"),
        ([Reply(f"a{HALF}b")], "a\N{REPLACEMENT CHARACTER}b"),
        ([Reply(Call(f"memory{HALF}", {"query": "x"})), Reply("b")], "b"),
        ([Reply(Call("memory_search", {"query": f"x{HALF}"})), Reply("b")], "b"),
        ([Reply(Call("memory_search", {HALF: [HALF]})), Reply("b")], "b"),
    ],
)
def test_half_a_character_does_not_end_a_conversation(chat, server, replies, shown):
    server.replies = replies
    first = chat("when?", "--session", "s1")
    assert (first.code, first.json["answer"]) == (0, shown)
    server.replies = [Reply("And then.")]
    assert chat("and then?", "--session", "s1").code == 0


def test_half_a_character_stays_in_no_turn(work, server, protocol):
    spec = parse_chat_model(server.model(protocol), server.address)
    server.replies = [Reply(f"a{HALF}b", Call("memory_search", {"query": HALF})), Reply("c")]
    with (
        Memory.open(project="") as memory,
        closing(open_model(spec, load({}, environ={}), [])) as model,
    ):
        talk = Talk(memory, model, spec, today="2026-11-16")
        assert "c" in [*talk.ask("when?")]
        assert "c" in [*talk.ask("and then?")], "what came is sent back"


@pytest.mark.parametrize("parts", [(), ("",), ("\n", " ")], ids=["none", "empty", "blank"])
def test_an_empty_answer_is_an_error(chat, server, parts):
    server.replies = [Reply(*parts)]
    ran = chat("when?", "--session", "s1")
    assert (ran.code, ran.out) == (1, "") and "gave no answer." in ran.err
    assert ran.err.count("\n") == 1


def test_a_server_that_is_not_there_is_one_sentence(plait, protocol):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ChatServer() as server:
        options = [
            word.replace(server.address, f"http://127.0.0.1:{port}")
            for word in server.options(protocol)
        ]
    ran = plait("chat", "hi", *options)
    assert (ran.code, ran.out) == (1, "")
    assert f"at http://127.0.0.1:{port}" in ran.err and "cannot be reached." in ran.err
    step = "ollama serve" if protocol == "ollama" else "Check that it runs"
    assert step in ran.err
    assert ran.err.count("\n") == 1


def test_a_missing_model_of_ollama_says_how_to_get_it(plait, server):
    server.replies = [Reply(fault="404", message="model 'm' not found")]
    ran = plait("chat", "hi", *server.options("ollama"))
    assert "has no model 'm'. Run: ollama pull m" in ran.err


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_a_wrong_path_of_a_server_is_told_in_its_words(chat, server):
    server.replies = [Reply(fault="404", message="No such path: /chat/completions")]
    assert "has no model 'm': 'No such path: /chat/completions'." in chat("hi").err


@pytest.mark.parametrize(
    ("spec", "name"), [("openai:gpt-5", "OpenAI"), ("anthropic:x", "Anthropic")]
)
def test_a_missing_key_is_told_before_anything_is_sent(plait, spec, name):
    ran = plait("chat", "hi", "--model", spec)
    provider = spec.partition(":")[0]
    assert ran.err == f"plait: {name} needs a key. Run: plait config set-key {provider}\n"


def test_without_a_model_the_next_step_is_told(plait):
    ran = plait("chat", "hi")
    assert ran.code == 2
    assert ran.err.startswith("plait: No chat model is set. Name one: --model ollama:")


def test_the_model_of_the_settings_is_used(plait, server):
    assert plait("config", "set", "chat_model", server.model("openai", "kept")).code == 0
    assert plait("chat", "hi").json["model"] == server.model("openai", "kept")
    assert server.requests[0].body["model"] == "kept"


@pytest.mark.parametrize("package", ["openai", "anthropic", "ollama"])
def test_a_missing_package_is_one_sentence(plait, server, monkeypatch, package):
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> object:
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest, **named)

    monkeypatch.delitem(__import__("sys").modules, f"plait.chat.{package}", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    ran = plait("chat", "hi", *server.options(package))
    expected = (
        f"The chat needs the package {package}. Run in a clone of plait: {PIP} install '.[chat]'"
    )
    assert (ran.code, ran.err) == (1, f"plait: {expected}\n")


def test_a_package_of_plait_that_is_missing_is_a_bug(work, server, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "plait.chat.openai", None)
    with pytest.raises(ModuleNotFoundError):
        opened(server, "openai")


# -- names of models -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "server", "key"),
    [
        ("ollama:llama3.2:3b", "Ollama at http://localhost:11434", "ollama"),
        ("custom:http://127.0.0.1:9/v1#m", "The server at http://127.0.0.1:9/v1", "custom"),
        ("anthropic:claude", "Anthropic", "anthropic"),
        ("openai:gpt", "OpenAI", "openai"),
        ("custom:https://a.example/v1#gpt", "The server at https://a.example/v1", "custom"),
        ("anthropic:https://a.example#claude", "The server at https://a.example", "custom"),
    ],
)
def test_a_model_is_named_by_provider_server_and_name(spec, server, key):
    model = parse_chat_model(spec, "localhost")
    assert (str(model), model.server, model.key_provider) == (spec, server, key)


@pytest.mark.parametrize(
    "spec",
    ["", "llama3.2", "nobody:x", "ollama", "ollama:", "openai:a b", "custom:gpt", "custom:",
     "anthropic:https://a.example", "openai:https://a.example/v1#x"],
)  # fmt: skip
def test_other_names_are_refused(spec):
    with pytest.raises(ConfigError, check=has_code("bad_chat_model")):
        parse_chat_model(spec, "localhost")


def test_a_server_of_openais_protocol_without_a_name_has_one_model():
    assert parse_chat_model("custom:http://localhost:8080/v1", "").name == "default"


@pytest.mark.parametrize(
    "url",
    ["http://169.254.169.254", "http://8.8.8.8/v1", "https://me:secret@a.example", "https://"],
)
@pytest.mark.parametrize("kind", ["custom", "anthropic"])
def test_text_is_not_sent_just_anywhere(plait, url, kind):
    ran = plait("chat", "hi", "--model", f"{kind}:{url}#m")
    assert ran.code == 2 and ran.err.count("\n") == 1
    assert "secret" not in ran.err.replace("password", "")


def test_a_name_that_leads_to_the_internet_is_refused_without_tls(work, server, monkeypatch):
    monkeypatch.setattr(
        "plait.embedders.address.look_up", lambda host, port: [(2, ("93.184.216.34", port))]
    )
    spec = parse_chat_model("custom:http://models.test/v1#m", "")
    with pytest.raises(ChatError, check=has_code("forbidden_address")):
        open_model(spec, load({}, environ={}), [])


def test_a_name_that_nobody_knows_is_told(work, server, monkeypatch):
    def unknown(host: str, port: int) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("plait.embedders.address.look_up", unknown)
    spec = parse_chat_model("custom:http://models.test/v1#m", "")
    with pytest.raises(ChatError, check=has_code("no_server")):
        open_model(spec, load({}, environ={}), [])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["hi", "--timeout", "0"], "--timeout is 0"),
        (["hi", "--context", "1"], "--context is 1"),
        (["  "], "The question is empty"),
        (["\udcff"], "not UTF-8"),
        ([], "A conversation needs a terminal"),
    ],
)
def test_bad_values_are_refused(plait, server, words, problem):
    ran = plait("chat", *words, *server.options("openai"))
    assert ran.code == 2 and problem in ran.err
    assert server.requests == []


def test_a_pipe_is_told_how_to_ask_the_same_model(plait, server):
    ran = plait("chat", *server.options("openai"))
    assert f"""chat "QUESTION" --model '{server.model("openai")}' (- reads it""" in ran.err


def test_messages_of_errors_are_read_in_every_form():
    assert message_in({"detail": [{"msg": "x"}]}) == ""
    assert message_in({"error": {"message": {"message": "deep"}}}) == "deep"


def test_advice_on_a_key_names_the_server():
    spec = parse_chat_model("custom:https://a.example/v1#m", "")
    url = advise("set_server_key", provider="custom", url="https://a.example/v1")
    assert Endpoint(spec, lambda: None).set_key == url
