"""A key goes only to its own server, whatever the environment, a clone or a server says."""

import json
from typing import Any

import httpx2
import pytest

from plait import Memory
from plait.chat.context import instructions, relevant_context
from plait.chat.models import ChatServer as Endpoint
from plait.chat.models import open_model
from plait.chat.talk import Talk, ToolUse
from plait.chat.turns import ChatTurn
from plait.errors import ChatError
from plait.settings.chat_models import parse_chat_model
from plait.settings.keys import Keys, keep_key, named_server
from plait.settings.loading import config_folder, load
from plait.settings.schema import Source
from plait.settings.secrets import Secret
from tests.chat.server import Call, ChatServer, Reply
from tests.codes import has_code

KEY = "sk-own-4711"
# What official clients would read from the environment and send.
FOREIGN = {
    "OPENAI_API_KEY": "sk-openai-1",
    "OPENAI_ADMIN_KEY": "sk-openai-2",
    "OPENAI_ORG_ID": "sk-openai-3",
    "OPENAI_PROJECT_ID": "sk-openai-4",
    "OPENAI_CUSTOM_HEADERS": "x-secret: sk-openai-5",
    "ANTHROPIC_API_KEY": "sk-ant-1",
    "ANTHROPIC_AUTH_TOKEN": "sk-ant-2",
    "ANTHROPIC_CUSTOM_HEADERS": "x-secret: sk-ant-3\nauthorization: sk-ant-4",
    "OLLAMA_API_KEY": "sk-ollama-1",
}


def test_no_key_of_the_environment_reaches_another_server(chat, server, monkeypatch):
    for name, value in FOREIGN.items():
        monkeypatch.setenv(name, value)
    assert chat("hi").code == 0
    sent = json.dumps([*server.requests[0].headers.items()])
    assert not [value for value in FOREIGN.values() if value[-10:] in sent]
    assert "x-secret" not in sent and "sk-" not in sent


def test_addresses_of_the_environment_do_not_count(chat, server, monkeypatch):
    with ChatServer() as other:
        for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST", "HTTP_PROXY"):
            monkeypatch.setenv(name, other.address)
            monkeypatch.setenv(name.lower(), other.address)
        assert chat("hi").code == 0
        assert other.requests == []
    assert len(server.requests) == 1


def test_a_kept_key_goes_to_its_server(chat, server, protocol):
    provider = "ollama" if protocol == "ollama" else "custom"
    address = named_server(provider, server.address, lambda: load({}).settings)
    keep_key(config_folder(), address, Secret(KEY))
    assert chat("hi").code == 0
    headers = server.requests[0].headers
    carried = headers["x-api-key"] if protocol == "anthropic" else headers["authorization"]
    assert carried.removeprefix("Bearer ") == KEY
    assert KEY not in json.dumps(server.requests[0].body)


def test_the_same_key_does_not_go_to_another_port(plait, server, protocol):
    provider = "ollama" if protocol == "ollama" else "custom"
    address = named_server(provider, server.address, lambda: load({}).settings)
    keep_key(config_folder(), address, Secret(KEY))
    with ChatServer() as other:
        assert plait("chat", "hi", *other.options(protocol)).code == 0
        assert KEY not in json.dumps([*other.requests[0].headers.items()])


def test_the_shared_key_goes_to_a_server_that_the_user_chose(plait, server, monkeypatch):
    monkeypatch.setenv("API_KEY", KEY)
    plait("chat", "hi", *server.options("openai"))
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_key_that_a_server_repeats_is_not_shown(plait, server, monkeypatch):
    monkeypatch.setenv("API_KEY", KEY)
    server.replies = [Reply(fault="401", message=f"bad key {KEY}")]
    ran = plait("chat", "hi", *server.options("openai"))
    assert "refused the key" in ran.err and KEY not in ran.err
    server.replies = [Reply("So: ", fault="error", message=f"bad key {KEY}")]
    ran = plait("chat", "hi", *server.options("openai"))
    assert KEY not in ran.err + ran.out


LONG_KEY = "sk-own-4711-Qw3rTy8uIoPlKj"


@pytest.mark.parametrize(
    "message",
    [
        f"{'x' * 40} {LONG_KEY}",  # a message is cut, and the key with it
        f"/{'x' * 5_000}{LONG_KEY}",
        LONG_KEY.upper(),
        f"{LONG_KEY[:12]}*{LONG_KEY[-12:]}",
        f"'{LONG_KEY[:12]}'\n{LONG_KEY[12:]}",
    ],
)
@pytest.mark.parametrize("status", [400, 401, 500])
def test_no_part_of_a_key_that_a_server_repeats_is_shown(status, message):
    endpoint = Endpoint(parse_chat_model("openai:m", ""), lambda: LONG_KEY)
    told = endpoint.refused(status, message).notice.text.lower()
    assert not any(LONG_KEY[at : at + 8].lower() in told for at in range(len(LONG_KEY) - 7))
    assert endpoint.refused(status, "no such thing").notice.text.count("'no such thing'") == 1


def test_a_redirect_is_not_followed(chat, server, monkeypatch):
    monkeypatch.setenv("API_KEY", KEY)
    server.replies = [Reply(fault="redirect")]
    ran = chat("hi")
    assert ran.code == 1 and "redirects" in ran.err
    assert len(server.requests) == 1


def test_a_clone_chooses_neither_the_model_nor_its_server(plait, server, work, monkeypatch):
    monkeypatch.setenv("API_KEY", KEY)
    (work / ".git").mkdir()
    with ChatServer() as evil:
        settings = (
            f'[memory]\nchat_model = "{evil.model("openai")}"\nollama_url = "{evil.address}"\n'
        )
        (work / "plait.toml").write_text(settings, encoding="utf-8")
        assert plait("chat", "hi").code == 2
        plait("chat", "hi", "--model", "ollama:m", "--timeout", "0.5")
        assert plait("chat", "hi", *server.options("openai")).code == 0
        assert plait("config", "trust", "--yes").code == 0
        assert plait("chat", "hi").code == 2, "not even if it is trusted"
        assert evil.requests == []


def test_a_clone_does_not_get_the_shared_key_by_the_address_of_ollama(work):
    own = Source({"chat_model": ("ollama:m", "flag --model")})
    foreign = Source({"ollama_url": ("http://127.0.0.1:9", "plait.toml")}, True, True)
    keys = Keys([foreign, own], {"API_KEY": KEY}, config_folder())
    assert keys.find("ollama", "http://127.0.0.1:9") is None
    assert keys.find("ollama", "http://localhost:11434") is not None


@pytest.mark.parametrize(
    ("provider", "variable", "origin"),
    [
        ("anthropic", "ANTHROPIC_API_KEY", "https://api.anthropic.com:443"),
        ("openai", "OPENAI_API_KEY", "https://api.openai.com:443"),
    ],
)
def test_a_providers_variable_is_for_its_own_server(work, monkeypatch, provider, variable, origin):
    config = load({"chat_model": f"{provider}:m"}, environ={variable: KEY})
    assert config.key_for(provider, origin) == KEY
    for other in (f"{origin[:-4]}:444", "https://evil.example:443", f"http{origin[5:]}"):
        assert config.key_for(provider, other) is None
        assert config.key_for("custom", other) is None
    model = open_model(parse_chat_model(f"{provider}:m", ""), config, [])
    model.close()


def test_a_bad_chat_model_hides_no_keys(work):
    source = Source({"chat_model": ("nonsense", "flag --model")})
    assert Keys([source], {"OPENAI_API_KEY": KEY}, config_folder()).rows()[0].provider == "openai"


def test_the_last_gate_refuses_any_other_address():
    spec = parse_chat_model("custom:https://models.example/v1#m", "")
    options = Endpoint(spec, lambda: KEY).client_options(httpx2, lambda key: ("authorization", key))
    [gate] = options["event_hooks"]["request"]
    own = httpx2.Request("POST", "https://models.example/v1/x", headers={"x-other": "y"})
    gate(own)
    assert own.headers["authorization"] == KEY and "x-other" not in own.headers
    for url in ("http://models.example/v1", "https://models.example:444/", "https://e.example/"):
        request = httpx2.Request("POST", url)
        with pytest.raises(ChatError, check=has_code("other_server")):
            gate(request)
        assert "authorization" not in request.headers
    assert (options["follow_redirects"], options["verify"], options["trust_env"]) == (
        False,
        True,
        True,
    )


def test_a_client_that_wants_another_address_is_told_as_such(work, server, protocol, monkeypatch):
    config = load({}, environ={})
    spec = parse_chat_model(server.model(protocol), server.address)
    model: Any = open_model(spec, config, [])
    client = model._client  # what the gate stands below
    inner = client._client
    inner.base_url = "http://127.0.0.1:9"
    if protocol != "ollama":
        client.base_url = "http://127.0.0.1:9"
        client.max_retries = 0
    with pytest.raises(ChatError, check=has_code("other_server")):
        [*model.answer("", [ChatTurn("user", "hi")], tools=False)]
    model.close()


def test_a_key_can_be_set_for_anthropic(plait, monkeypatch, tmp_path):
    path = tmp_path / "key"
    path.write_text(KEY, encoding="utf-8")
    with path.open(encoding="utf-8") as file:
        monkeypatch.setattr("sys.stdin", file)
        ran = plait("config", "set-key", "anthropic")
    assert ran.json["origin"] == "https://api.anthropic.com:443"
    assert KEY not in ran.out + ran.err
    assert load({}).key_for("anthropic", "https://api.anthropic.com:443") == KEY


# -- secrets of the memory -------------------------------------------------------------------

PASSWORD = "x7-Kqz92!f"


@pytest.mark.parametrize("is_local", [True, False])
def test_secrets_of_the_memory_stay_on_this_machine(work, is_local):
    with Memory.open(project="") as memory:
        memory.store(f"The router's password: '{PASSWORD}'", key="router")
        memory.store(f"Our wifi password: '{PASSWORD}'", key="MEMORY.md")
        shown = relevant_context(memory, "router password", is_local=is_local).text
        always = instructions(memory, "today", is_local=is_local).text
    assert "router" in shown and "wifi" in always
    assert (PASSWORD in shown, PASSWORD in always) == (is_local, is_local)


@pytest.fixture
def elsewhere(server):
    """A function that opens a talk whose model counts as one on another machine."""

    def opened(memory: Memory, **options: Any) -> Talk:
        spec = parse_chat_model(server.model("openai"), "")
        model = open_model(spec, load({}, environ={}), [])
        far = spec._replace(address=spec.address._replace(host="models.example"))
        return Talk(memory, model, far, today="today", **options)

    return opened


def test_results_of_tools_hold_no_secret_for_another_machine(work, server, elsewhere):
    server.replies = [Reply(Call("memory_search", {"query": "router"})), Reply("Ask Ana.")]
    with Memory.open(project="") as memory:
        memory.store(f"The router's password: '{PASSWORD}'", key="router")
        events = elsewhere(memory).ask("which password?")
        uses = [event for event in events if isinstance(event, ToolUse)]
    assert "router" in uses[0].result
    assert PASSWORD not in json.dumps(server.requests[1].body)


@pytest.mark.parametrize("context", [16_000, 500], ids=["whole", "shortened"])
def test_a_session_that_goes_on_holds_no_secret_for_another_machine(
    work, server, elsewhere, context
):
    rows = [("user", f"My password: '{PASSWORD}'"), ("assistant", "Noted. " + "So. " * 400)] * 2
    with Memory.open(project="") as memory:
        messages = [{"role": role, "content": text} for role, text in rows]
        memory.add_messages(messages, session="s1")
        assert PASSWORD in memory.conversation("s1")[0].text
        assert [*elsewhere(memory, session="s1", history_tokens=context).ask("and now?")]
    sent = json.dumps(server.requests[0].body)
    assert "Noted." in sent and PASSWORD not in sent
