"""The name of a chat model: which protocol, which server, and whose key it takes.

Nothing is sent here; `plait.chat` talks to the server.
"""

from typing import Literal, get_args

from plait.embedders.address import Address, parse_address
from plait.embedders.ollama import ollama_address
from plait.embedders.openai import ANY_MODEL, OPENAI_URL
from plait.errors import ConfigError, advise, quoted
from plait.types.records import NamedTuple

ChatProtocol = Literal["anthropic", "openai", "ollama"]
ANTHROPIC_URL = "https://api.anthropic.com"
_CUSTOM = "custom"
# How each provider is written.
CHAT_FORMS = {
    "ollama": "ollama:NAME",
    "anthropic": "anthropic:NAME",
    "openai": "openai:NAME",
    _CUSTOM: "custom:URL#NAME",
}
CHAT_HOMES = {"anthropic": ANTHROPIC_URL, "openai": OPENAI_URL}


class ChatModel(NamedTuple):
    """A model on a server; its key is kept under ``key_provider`` and the server's origin."""

    protocol: ChatProtocol
    name: str
    address: Address
    key_provider: str

    @property
    def server(self) -> str:
        """The server, as a message names it."""
        names = {"anthropic": "Anthropic", "openai": "OpenAI", "ollama": "Ollama"}
        if self.needs_key:
            return names[self.protocol]
        where = self.address.url  # as it was typed
        return f"Ollama at {where}" if self.protocol == "ollama" else f"The server at {where}"

    @property
    def needs_key(self) -> bool:
        """Whether it is the provider's own server, which refuses requests without a key."""
        return self.key_provider in CHAT_HOMES

    def __str__(self) -> str:
        """Return its name, as in ``ollama:llama3.2``.

        >>> str(parse_chat_model("custom:http://localhost:8080/v1#qwen", ""))
        'custom:http://localhost:8080/v1#qwen'
        """
        if self.key_provider != _CUSTOM:
            return f"{self.protocol}:{self.name}"
        kind = "anthropic" if self.protocol == "anthropic" else _CUSTOM
        return f"{kind}:{self.address.url}#{self.name}"


def parse_chat_model(spec: str, ollama_url: str) -> ChatModel:
    """Parse ``ollama:NAME``, ``anthropic:NAME``, ``openai:NAME`` or ``custom:URL#NAME``.

    ``custom`` is any server with OpenAI's protocol; ``anthropic:URL#NAME`` one with Anthropic's.

    >>> parse_chat_model("ollama:llama3.2:3b", "localhost").name
    'llama3.2:3b'
    >>> parse_chat_model("anthropic:https://gateway.example#claude", "").key_provider
    'custom'

    Raises:
        ConfigError: The text has none of these forms, or text must not be sent to the address.
    """
    provider, _, rest = spec.strip().partition(":")
    rest = rest.strip()
    if provider not in CHAT_FORMS:
        raise _unknown(spec)
    is_url = rest.lower().startswith(("http://", "https://"))
    if provider == "openai" and is_url:
        raise ConfigError(
            "Another server with OpenAI's protocol is a custom one.",
            code="bad_chat_model",
            subject=spec,
            advice=advise("did_you_mean", name=f"custom:{rest}"),
        )
    url, _, name = rest.partition("#") if is_url else ("", "", rest)
    name = name.strip()
    if provider == _CUSTOM and is_url:
        return ChatModel("openai", name or ANY_MODEL, parse_address(url), _CUSTOM)
    if provider == _CUSTOM or not name.strip() or any(mark.isspace() for mark in name.strip()):
        raise ConfigError(
            f"The name of the model is missing: write {CHAT_FORMS[provider]}.",
            code="bad_chat_model",
            subject=spec,
        )
    if provider == "ollama":
        return ChatModel("ollama", name, ollama_address(ollama_url), "ollama")
    if is_url:
        return ChatModel("anthropic", name, parse_address(url), _CUSTOM)
    (protocol,) = (one for one in get_args(ChatProtocol) if one == provider)
    return ChatModel(protocol, name, parse_address(CHAT_HOMES[provider]), provider)


def _unknown(spec: str) -> ConfigError:
    provider, colon, _ = spec.partition(":")
    return ConfigError(
        f"There is no provider {quoted(provider)}." if colon else "The chat model has no provider.",
        code="bad_chat_model",
        subject=spec,
        advice=advise("choose", choices=", ".join(CHAT_FORMS.values())),
    )
