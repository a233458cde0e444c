"""Which key is for which server, and which source of keys comes first.

A key is used only for the scheme, host and port that it was given for. How secrets are stored is in
`plait.settings.secrets`; the embedders ask for them.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from plait.embedders import LOCAL_PROVIDERS, PROVIDERS, Provider
from plait.errors import ConfigError, Notice, UsageError, advise
from plait.settings.private import is_private
from plait.settings.schema import Settings, Source, suggestion
from plait.settings.secrets import (
    CRYPTOGRAPHY_MISSING,
    SEALED,
    Secret,
    Vault,
    as_secret,
    from_keyring,
    origin_of,
    remove_from_keyring,
    to_keyring,
)
from plait.types.records import NamedTuple

SHARED_KEY_VARIABLE = "API_KEY"
# Embedders, and who only has chat models.
_KNOWN = {
    **PROVIDERS,
    "anthropic": Provider(
        "Anthropic, for plait chat",
        local=False,
        takes_key=True,
        key_variable="ANTHROPIC_API_KEY",
        key_origin="https://api.anthropic.com:443",
    ),
}
PROVIDERS_WITH_KEYS = tuple(name for name, provider in _KNOWN.items() if provider.takes_key)
PROVIDERS_WITHOUT_KEYS = ({*PROVIDERS} | {*LOCAL_PROVIDERS}) - {*PROVIDERS_WITH_KEYS}
# Providers whose key is for one server only.
_HOMES = {name: one.key_origin for name, one in _KNOWN.items() if one.key_origin}
KEYRING = "keyring"

Server = tuple[str, str]  # provider and origin
_Candidate = tuple[str, Callable[[], Secret]]


class KeyRow(NamedTuple):
    """A row of the list of keys: its server, its source, and whether it is used."""

    provider: str
    origin: str
    source: str
    used: bool


class Keys:
    """The keys for the current settings; they are looked up on demand."""

    def __init__(self, sources: Sequence[Source], environ: Mapping[str, str], folder: str) -> None:
        self._sources = sources
        self._environ = environ
        self._vault = Vault(folder)

    def find(self, provider: str, origin: str) -> Secret | None:
        """Return the key for a provider at an origin, from the first source that has one.

        Raises:
            ConfigError: There is one, but it cannot be read.
        """
        address = origin_of(origin)
        if address is None:
            return None
        for _, read in self._candidates((provider, address)):
            return read()
        return None

    def rows(self) -> list[KeyRow]:
        """Return all keys that can be listed, in the order in which they are looked up."""
        servers = [*_HOMES.items()]
        servers += [*self._chosen(), *self._bound()]
        servers += [(entry.provider, entry.origin) for entry in self._vault.entries()]
        return [
            KeyRow(*server, origin, used=rank == 0)
            for server in dict.fromkeys(servers)
            for rank, (origin, _) in enumerate(self._candidates(server))
        ]

    def _candidates(self, server: Server) -> Iterator[_Candidate]:
        yield from self._explicit(server)
        yield from self._from_environment(server)
        entry = self._vault.entry(*server)
        # A server on this machine rarely needs a key, and loading a keyring costs 60 ms.
        secret = None if entry is None and stays_here(server[1]) else from_keyring(*server)
        if secret is not None:
            yield KEYRING, lambda: secret
        if entry is not None and entry.sealed is not None:
            sealed = entry.sealed
            yield self._vault.path, lambda: self._unsealed(server, sealed, self._vault.path)

    def _explicit(self, server: Server) -> Iterator[_Candidate]:
        for source in reversed(self._sources):
            if "api_key" not in source.given:
                continue
            key, origin = source.given["api_key"]
            meant = [server_of(source.given)] if source.is_file else self._servers_meant(source)
            if server in meant:
                yield origin, self._reader(server, key, origin)

    def _servers_meant(self, source: Source) -> list[Server | None]:
        """Return the servers that a key from a flag or a variable is for.

        That is the server of the same source, else of the next weaker source, else of a stronger
        one; without any, each server that the user chose.
        """
        own = [row for row in self._sources if not row.foreign]
        at = own.index(source)
        for row in (source, *reversed(own[:at]), *own[at + 1 :]):
            if "embedding_provider" in row.given:
                return [server_of({**_ollama_url_in(own), **row.given})]
        return [*self._chosen()]

    def _reader(self, server: Server, key: Secret, origin: str) -> Callable[[], Secret]:
        if not key.reveal().startswith(SEALED):
            return lambda: key
        return lambda: self._unsealed(server, key.reveal(), origin)

    def _unsealed(self, server: Server, sealed: str, origin: str) -> Secret:
        return self._vault.unseal(*server, sealed, origin)

    def _from_environment(self, server: Server) -> Iterator[_Candidate]:
        provider, origin = server
        known = _KNOWN.get(provider)
        if known and origin == known.key_origin and self._environ.get(known.key_variable):
            variable = known.key_variable
            yield f"environment {variable}", lambda: self._variable(variable)
        # Many programs share this variable: only a server that the user chose gets its key.
        if self._environ.get(SHARED_KEY_VARIABLE) and server in self._chosen():
            yield f"environment {SHARED_KEY_VARIABLE}", lambda: self._variable(SHARED_KEY_VARIABLE)

    def _variable(self, name: str) -> Secret:
        try:
            return as_secret(self._environ[name])
        except ValueError:
            raise ConfigError(
                f"{name} in the environment cannot be a key: it must be one line of printable "
                "ASCII without spaces. Its value is not shown.",
                code="bad_key",
                subject=name,
            ) from None

    def _chosen(self) -> list[Server]:
        """Return the servers that the user chose, by file, variable or flag."""
        own = [source for source in self._sources if not source.foreign]
        servers = [
            server_of({**_ollama_url_in(own), **source.given})
            for source in own
            if "embedding_provider" in source.given
        ]
        if address := _ollama_url_in(own):
            servers.append(server_of({**address, "embedding_provider": ("ollama", "")}))
        servers += [
            chat_server_of({**_ollama_url_in(own), **source.given})
            for source in own
            if "chat_model" in source.given
        ]
        return [server for server in servers if server is not None]

    def _bound(self) -> list[Server]:
        files = [source.given for source in self._sources if source.is_file]
        servers = [server_of(given) for given in files if "api_key" in given]
        return [server for server in servers if server is not None]


def stays_here(origin: str) -> bool:
    """Return whether an origin is this machine."""
    return origin.partition("://")[2].startswith(("localhost:", "127.", "[::1]:"))


def _ollama_url_in(sources: Iterable[Source]) -> dict[str, Any]:
    """Return the setting ``ollama_url`` of the strongest source that has it, or nothing."""
    setting: dict[str, Any] = {}
    for source in sources:
        setting |= {name: given for name, given in source.given.items() if name == "ollama_url"}
    return setting


def server_of(given: Mapping[str, tuple[Any, str]]) -> Server | None:
    """Return the server that settings name, or ``None`` if text stays in this process."""
    spec, _ = given.get("embedding_provider", ("", ""))
    provider, _, rest = spec.partition(":")
    if provider in _HOMES:
        return provider, _HOMES[provider]
    if provider == "custom":
        url = rest.partition("#")[0]
    elif provider == "ollama":
        url, _ = given.get("ollama_url", (Settings._field_defaults["ollama_url"], ""))
    else:
        return None
    origin = origin_of(url)
    return None if origin is None else (provider, origin)


def chat_server_of(given: Mapping[str, tuple[Any, str]]) -> Server | None:
    """Return the server of the chat model that settings name, or ``None`` if it has a bad name."""
    from plait.settings.chat_models import parse_chat_model

    spec, _ = given["chat_model"]
    url, _ = given.get("ollama_url", (Settings._field_defaults["ollama_url"], ""))
    try:
        model = parse_chat_model(spec, url)
    except ConfigError:  # told when it is used
        return None
    return model.key_provider, model.address.origin


def named_server(spec: str, url: str | None, configured: Callable[[], Settings]) -> Server:
    """Return the server for ``openai``, ``ollama``, or ``custom`` with a URL.

    Raises:
        UsageError: There is no such provider, it needs no key, or its address is missing.
    """
    provider, _, rest = spec.strip().partition(":")
    if provider in PROVIDERS_WITHOUT_KEYS:
        raise UsageError(f"{provider} needs no key.", code="no_key_needed", subject=provider)
    if provider not in PROVIDERS_WITH_KEYS:
        choose = advise("choose", choices=", ".join(PROVIDERS_WITH_KEYS))
        # The word is not repeated: it may be the key, typed in the wrong place.
        raise UsageError(
            "This is not a provider that needs a key.",
            code="unknown_provider",
            advice=suggestion(provider, PROVIDERS_WITH_KEYS) or choose,
        )
    if url is None and provider == "custom":
        url = rest or _custom_url(configured()) or None
    if url is None and provider == "ollama":
        url = configured().ollama_url
    if url is None:
        url = _HOMES.get(provider)
    if url is None:
        raise UsageError(
            "The address that the key is for is missing.",
            code="no_address",
            subject=provider,
            advice=advise("set_server_key", provider=provider, url="https://models.example/v1"),
        )
    origin = origin_of(url.partition("#")[0])
    if origin is None:
        # The address is not repeated: it may contain a password.
        raise UsageError(
            "A key needs an address such as https://models.example/v1, without a user name or "
            "password.",
            code="bad_address",
            subject=provider,
        )
    if provider in _HOMES and origin != _HOMES[provider]:
        raise UsageError(
            f"A key for {provider} is for {_HOMES[provider]} only. Another server with the same "
            "protocol is a custom one.",
            code="other_server",
            subject=origin,
            advice=advise("set_server_key", provider="custom", url=origin),
        )
    return provider, origin


def _custom_url(settings: Settings) -> str:
    provider, _, rest = (settings.embedding_provider or "").partition(":")
    return rest if provider == "custom" else ""


def keep_key(folder: str, server: Server, key: Secret) -> str:
    """Store a key in the keyring, else in the encrypted file of ``folder``; return which.

    Raises:
        ConfigError: Neither can be used.
    """
    vault = Vault(folder)
    if to_keyring(*server, key):
        vault.put(*server, None)
        return KEYRING
    try:
        vault.put(*server, key)
    except ConfigError as error:
        if error.notice.code != CRYPTOGRAPHY_MISSING:
            raise
        known = _KNOWN.get(server[0])
        variable = known.key_variable if known and known.key_variable else SHARED_KEY_VARIABLE
        raise ConfigError(
            "There is no keyring here, and the encrypted file needs the package cryptography.",
            code=CRYPTOGRAPHY_MISSING,
            subject="cryptography",
            advice=advise("install_or_variable", extra="keys", variable=variable),
        ) from error
    return vault.path


def forget_key(folder: str, server: Server) -> list[str]:
    """Remove a key from the keyring and the encrypted file; return where it was."""
    places = [KEYRING] if remove_from_keyring(*server) else []
    vault = Vault(folder)
    entry = vault.remove(*server)
    return [*places, vault.path] if entry is not None and entry.sealed is not None else places


def key_warnings(path: str, given: Mapping[str, tuple[Any, str]]) -> Iterator[Notice]:
    """Yield warnings about an ``api_key`` in a settings file."""
    key: Secret = given["api_key"][0]
    if not key.reveal().startswith(SEALED) and not is_private(os.stat(path)):
        text = f"Other users can read the api_key in {path}."
        yield Notice(text, "key_readable", path, advise("hide_key", path=path))
    if server_of(given) is None:
        text = (
            f"The api_key in {path} is not used: it is for the embedder that the same file sets, "
            "and that file sets none that needs a key."
        )
        yield Notice(text, "key_unused", path, advise("set_provider"))


def refuse_to_move_key(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Refuse an edit that would send the key of a settings file to another server.

    Raises:
        ConfigError: The file has a key, and its embedder would be on another server than before.
    """
    key = after.get("api_key")
    if not isinstance(key, str) or key.startswith(SEALED):
        return
    old, new = (
        server_of({name: (value, path) for name, value in table.items() if isinstance(value, str)})
        for table in (before, after)
    )
    if old is not None and old != new:
        raise ConfigError(
            f"{path} has an api_key for {old[1]}, and a key stays with its address.",
            code="key_would_move",
            subject=path,
            advice=advise("unset", setting="api_key"),
        )
