"""Which key opens which server: the order of the places, and that a key stays with its address.

A key is used only for the scheme, host and port that it was given for. How secrets are kept is
the business of ``plait.secrets``; who asks for one, that of the embedders.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from plait.errors import ConfigError, UsageError
from plait.secrets import (
    INSTALL,
    SEALED,
    Secret,
    Vault,
    as_secret,
    from_keyring,
    is_private,
    origin_of,
    remove_from_keyring,
    to_keyring,
)
from plait.settings import Place, Settings, did_you_mean

OPENAI_ORIGIN = "https://api.openai.com:443"
# A provider's own variable, and the only server that its key was given for.
VARIABLES = {"openai": ("OPENAI_API_KEY", OPENAI_ORIGIN)}
ANY_VARIABLE = "API_KEY"
KEYED = ("openai", "custom", "ollama")
KEYLESS = ("builtin", "none", "hashing", "fastembed")
KEYRING = "keyring"

Server = tuple[str, str]  # provider and origin
_Candidate = tuple[str, Callable[[], Secret]]


class Row(NamedTuple):
    """A key that was found: whose, where it comes from, and whether it is the one in use."""

    provider: str
    origin: str
    source: str
    used: bool


class Keys:
    """Every key there is for the settings at hand; looked up when asked for, never before."""

    def __init__(self, places: Sequence[Place], environ: Mapping[str, str], folder: str) -> None:
        self._places = places
        self._environ = environ
        self._vault = Vault(folder)

    def find(self, provider: str, origin: str) -> Secret | None:
        """The key for a provider at an origin, from the first place that has one for it.

        Raises:
            ConfigError: There is one, but it cannot be read.
        """
        address = origin_of(origin)
        if address is None:
            return None
        for _, read in self._candidates((provider, address)):
            return read()
        return None

    def rows(self) -> list[Row]:
        """All keys that can be listed, in the order in which they are looked for."""
        servers = [("openai", OPENAI_ORIGIN), *self._chosen(), *self._bound()]
        servers += [(entry.provider, entry.origin) for entry in self._vault.entries()]
        return [
            Row(*server, source, used=place == 0)
            for server in dict.fromkeys(servers)
            for place, (source, _) in enumerate(self._candidates(server))
        ]

    def _candidates(self, server: Server) -> Iterator[_Candidate]:
        yield from self._explicit(server)
        yield from self._from_environment(server)
        entry = self._vault.entry(*server)
        # A server on this machine seldom wants a key, and loading a keyring costs 60 ms.
        secret = None if entry is None and stays_here(server[1]) else from_keyring(*server)
        if secret is not None:
            yield KEYRING, lambda: secret
        if entry is not None and entry.sealed is not None:
            sealed = entry.sealed
            yield self._vault.path, lambda: self._unsealed(server, sealed, self._vault.path)

    def _explicit(self, server: Server) -> Iterator[_Candidate]:
        for place in reversed(self._places):
            if "api_key" not in place.given:
                continue
            key, source = place.given["api_key"]
            meant = [server_of(place.given)] if place.is_file else self._given_for(place)
            if server in meant:
                yield source, self._reader(server, key, source)

    def _given_for(self, place: Place) -> list[Server | None]:
        """The server that a key from outside a file was meant for.

        The one named beside it, else in a weaker place that counted when it was set, else in a
        stronger one; never two of them.
        """
        own = [each for each in self._places if not each.fenced]
        at = own.index(place)
        for each in (place, *reversed(own[:at]), *own[at + 1 :]):
            if "embedding_provider" in each.given:
                return [server_of({**_address_in(own), **each.given})]
        return [*self._chosen()]

    def _reader(self, server: Server, key: Secret, source: str) -> Callable[[], Secret]:
        if not key.reveal().startswith(SEALED):
            return lambda: key
        return lambda: self._unsealed(server, key.reveal(), source)

    def _unsealed(self, server: Server, sealed: str, source: str) -> Secret:
        return self._vault.unseal(*server, sealed, source)

    def _from_environment(self, server: Server) -> Iterator[_Candidate]:
        provider, origin = server
        variable, home = VARIABLES.get(provider, ("", ""))
        if origin == home and self._environ.get(variable):
            yield f"environment {variable}", lambda: self._variable(variable)
        # A name that many programs share: only a server that the user chose himself gets it.
        if self._environ.get(ANY_VARIABLE) and server in self._chosen():
            yield f"environment {ANY_VARIABLE}", lambda: self._variable(ANY_VARIABLE)

    def _variable(self, name: str) -> Secret:
        try:
            return as_secret(self._environ[name])
        except ValueError:
            raise ConfigError(
                f"{name} in the environment cannot be a key: it must be one line of printable "
                "ASCII without spaces. Its value is not shown."
            ) from None

    def _chosen(self) -> list[Server]:
        """The servers that the user named himself, by file, variable or option."""
        own = [place for place in self._places if not place.fenced]
        servers = [
            server_of({**_address_in(own), **place.given})
            for place in own
            if "embedding_provider" in place.given
        ]
        if address := _address_in(own):
            servers.append(server_of({**address, "embedding_provider": ("ollama", "")}))
        return [server for server in servers if server is not None]

    def _bound(self) -> list[Server]:
        files = [place.given for place in self._places if place.is_file]
        servers = [server_of(given) for given in files if "api_key" in given]
        return [server for server in servers if server is not None]


def stays_here(origin: str) -> bool:
    """Whether an origin is this machine."""
    return origin.partition("://")[2].startswith(("localhost:", "127.", "[::1]:"))


def _address_in(places: Iterable[Place]) -> dict[str, Any]:
    """Where Ollama is, by the strongest of some places that says so."""
    found: dict[str, Any] = {}
    for place in places:
        found |= {name: given for name, given in place.given.items() if name == "ollama_url"}
    return found


def server_of(given: Mapping[str, tuple[Any, str]]) -> Server | None:
    """The server that settings name, or ``None`` where text stays in this process."""
    spec, _ = given.get("embedding_provider", ("", ""))
    provider, _, rest = spec.partition(":")
    if provider == "openai":
        return provider, OPENAI_ORIGIN
    if provider == "custom":
        url = rest.partition("#")[0]
    elif provider == "ollama":
        url, _ = given.get("ollama_url", (Settings._field_defaults["ollama_url"], ""))
    else:
        return None
    origin = origin_of(url)
    return None if origin is None else (provider, origin)


def named_server(spec: str, url: str | None, configured: Callable[[], Settings]) -> Server:
    """The server that a person means by ``openai``, ``ollama`` or ``custom`` and an address.

    Raises:
        UsageError: There is no such provider, it needs no key, or its address is missing.
    """
    provider, _, rest = spec.strip().partition(":")
    if provider in KEYLESS:
        raise UsageError(f"{provider} needs no key.")
    if provider not in KEYED:
        hint = did_you_mean(provider, KEYED) or f" Choose one of: {', '.join(KEYED)}."
        # The word is not repeated: it may be the key, typed in the wrong place.
        raise UsageError(f"That is no provider that takes a key.{hint}")
    if url is None and provider == "custom":
        url = rest or _custom_url(configured()) or None
    if url is None and provider == "ollama":
        url = configured().ollama_url
    if url is None and provider == "openai":
        url = OPENAI_ORIGIN
    if url is None:
        raise UsageError(
            "Say for which address the key is, as in: "
            "plait config set-key custom --url https://models.example/v1"
        )
    origin = origin_of(url.partition("#")[0])
    if origin is None:
        # The address is not repeated: somebody may have written a password into it.
        raise UsageError(
            "A key needs an address such as https://models.example/v1, without a name or password."
        )
    if provider == "openai" and origin != OPENAI_ORIGIN:
        raise UsageError(
            f"A key for openai is for {OPENAI_ORIGIN} alone. For a server that speaks the same "
            f"language: plait config set-key custom --url {origin}"
        )
    return provider, origin


def _custom_url(settings: Settings) -> str:
    provider, _, rest = (settings.embedding_provider or "").partition(":")
    return rest if provider == "custom" else ""


def keep(folder: str, server: Server, key: Secret) -> str:
    """Keep a key in the keyring, else in the encrypted file of ``folder``; which of them it was.

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
        if INSTALL not in str(error):
            raise
        variable, _ = VARIABLES.get(server[0], (ANY_VARIABLE, ""))
        raise ConfigError(
            "There is no keyring here, and the encrypted file needs the package cryptography. "
            f"Install it with: {INSTALL} (or set the variable {variable})"
        ) from error
    return vault.path


def forget(folder: str, server: Server) -> list[str]:
    """Take a key out of the keyring and the encrypted file; the places where it was."""
    places = [KEYRING] if remove_from_keyring(*server) else []
    vault = Vault(folder)
    entry = vault.remove(*server)
    return [*places, vault.path] if entry is not None and entry.sealed is not None else places


def doubts(path: str, given: Mapping[str, tuple[Any, str]]) -> Iterator[str]:
    """What the user should know about an ``api_key`` in a settings file."""
    key: Secret = given["api_key"][0]
    if not key.reveal().startswith(SEALED) and not is_private(os.stat(path)):
        yield (
            f"Others can read the api_key in {path}. Run: chmod 600 {path} "
            "(or keep it out of the file: plait config set-key PROVIDER)"
        )
    if server_of(given) is None:
        yield (
            f"The api_key in {path} is not used: a key belongs to the embedder that the same file "
            "names, and it names none that takes one. Set embedding_provider there."
        )


def refuse_to_move_a_key(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """A key in a settings file must not follow when the address beside it changes.

    Raises:
        ConfigError: The file holds one, and its embedder would be another server than before.
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
            f"{path} holds an api_key for {old[1]}, and a key stays with its address. "
            "Take it out first: plait config unset api_key"
        )
