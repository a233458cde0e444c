"""Secrets at rest: a value that is never printed, the system's keyring, and an encrypted file.

The file's key is in the same folder. That protects a file that leaves the folder (in a backup, a
commit, a screenshot), but not against a program that runs as the same user. Where keys come from,
and in which order, is in `plait.settings.keys`.
"""

import os
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from plait.errors import Advice, ConfigError, advise
from plait.settings.private import cannot, locked, read_private, replace_private, write_aside
from plait.types.records import NamedTuple

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

APP = "plait"
KEY_FILE = "secret.key"
SECRETS_FILE = "keys.json"
LOCK_FILE = "keys.lock"
# Marks an encrypted value, here and in a settings file.
SEALED = "enc:"
# Code of the error that the package for encrypted keys is not installed.
CRYPTOGRAPHY_MISSING = "cryptography_missing"
KEY_BYTES = 32  # ChaCha20-Poly1305, RFC 8439
NONCE_BYTES = 12
MAX_SECRET_CHARS = 8_192  # what common servers accept as one header line
KEYS_FORMAT = 1


class Secret:
    """A text that no log, message or pickle shows; only ``reveal`` returns it.

    >>> key = Secret("sk-123")
    >>> f"{key} {key!r}", key.reveal()
    ('*** Secret(***)', 'sk-123')
    """

    __slots__ = ("__text",)

    def __init__(self, text: str) -> None:
        self.__text = text

    def reveal(self) -> str:
        """Return the text."""
        return self.__text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.__text == other.__text

    def __hash__(self) -> int:
        return hash((Secret, self.__text))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("A secret is neither copied nor pickled.")


def as_secret(value: object) -> Secret:
    """Return a key that fits on a header line; otherwise raise ``ValueError``, without the key."""
    if isinstance(value, Secret):
        return value
    text = value.strip() if isinstance(value, str) else ""
    fits = 0 < len(text) <= MAX_SECRET_CHARS and text.isascii() and text.isprintable()
    if not fits or " " in text:
        raise ValueError
    return Secret(text)


def origin_of(url: str) -> str | None:
    """Return scheme, host and port of a URL, or ``None`` if its host is ambiguous.

    >>> origin_of("HTTPS://Api.OpenAI.com/v1"), origin_of("http://[::1]:8080")
    ('https://api.openai.com:443', 'http://[::1]:8080')
    >>> origin_of("https://api.openai.com@evil.example")
    """
    import re

    # An allow-list: parsers disagree on URLs with user names, backslashes or non-ASCII letters.
    pattern = r"(https?)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::(\d{1,5}))?(?:[/?#]\S*)?"
    match = re.fullmatch(pattern, url.strip(), re.IGNORECASE | re.ASCII)
    if match is None:
        return None
    scheme, host = match[1].lower(), match[2].lower()
    port = int(match[3] or (443 if scheme == "https" else 80))
    return f"{scheme}://{host}:{port}" if 0 < port < 65_536 else None


class StoredKey(NamedTuple):
    """The key of a provider at an origin, encrypted; ``sealed`` is ``None`` in the keyring."""

    provider: str
    origin: str
    sealed: str | None


def _stored_key(row: dict[str, str | None]) -> StoredKey:
    provider, origin, sealed = row["provider"], row["origin"], row["sealed"]
    if not isinstance(provider, str) or not isinstance(origin, str):
        raise TypeError
    return StoredKey(provider, origin, sealed if sealed is None else str(sealed))


class Vault:
    """The encrypted keys of one folder. Several processes may use it at once."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, SECRETS_FILE)
        self._folder = folder
        self._key_path = os.path.join(folder, KEY_FILE)

    def entries(self) -> list[StoredKey]:
        """Return the stored keys, ordered by provider and origin.

        Raises:
            ConfigError: The file is damaged, or others can read it.
        """
        import json

        data = read_private(self.path)
        if data is None:
            return []
        try:
            parsed = json.loads(data)
            entries = [_stored_key(row) for row in parsed["keys"]]
            version = int(parsed["version"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise _damaged(self.path) from error
        if version > KEYS_FORMAT:
            raise ConfigError(
                f"{self.path} was written by a newer version of plait.",
                code="keys_too_new",
                subject=self.path,
                advice=advise("upgrade"),
            )
        return sorted(entries, key=lambda entry: entry[:2])

    def entry(self, provider: str, origin: str) -> StoredKey | None:
        """Return the stored key of a provider at an origin."""
        return next((entry for entry in self.entries() if entry[:2] == (provider, origin)), None)

    def put(self, provider: str, origin: str, secret: Secret | None) -> None:
        """Store a secret instead of an older one; ``None`` notes that the keyring has it.

        Raises:
            ConfigError: The folder cannot be written, or the package cryptography is missing.
        """
        with locked(self._folder, LOCK_FILE):
            sealed = None if secret is None else self._seal(provider, origin, secret)
            others = [entry for entry in self.entries() if entry[:2] != (provider, origin)]
            self._write([*others, StoredKey(provider, origin, sealed)])

    def remove(self, provider: str, origin: str) -> StoredKey | None:
        """Remove a stored key and return it."""
        if not os.path.lexists(self.path):
            return None
        with locked(self._folder, LOCK_FILE):
            entries = self.entries()
            gone = next((entry for entry in entries if entry[:2] == (provider, origin)), None)
            if gone is not None:
                self._write([entry for entry in entries if entry is not gone])
        return gone

    def unseal(self, provider: str, origin: str, sealed: str, where: str) -> Secret:
        """Decrypt a sealed value; an error names ``where`` it was read.

        Raises:
            ConfigError: It was sealed for another provider or origin, or with another key file.
        """
        cipher = _cipher()(self._file_key())
        from cryptography.exceptions import InvalidTag

        try:
            data = bytes.fromhex(sealed.removeprefix(SEALED))
            text = cipher.decrypt(
                data[:NONCE_BYTES], data[NONCE_BYTES:], _bound_to(provider, origin)
            )
            return as_secret(text.decode())
        except (ValueError, InvalidTag) as error:
            raise ConfigError(
                f"The key for {provider} at {origin} in {where} cannot be decrypted with "
                f"{self._key_path}: it is damaged, or was set for another address.",
                code="key_does_not_open",
                subject=origin,
                advice=_set_key(provider, origin),
            ) from error

    def _seal(self, provider: str, origin: str, secret: Secret) -> str:
        cipher = _cipher()(self._file_key(create=True))
        nonce = os.urandom(NONCE_BYTES)
        sealed = cipher.encrypt(nonce, secret.reveal().encode(), _bound_to(provider, origin))
        return SEALED + (nonce + sealed).hex()

    def _file_key(self, *, create: bool = False) -> bytes:
        data = read_private(self._key_path)
        if data is None and create:
            self._make_file_key()
            data = read_private(self._key_path)
        if data is None:
            raise ConfigError(
                f"The file {self._key_path}, which decrypts keys, is missing.",
                code="no_key_file",
                subject=self._key_path,
                advice=advise("restore_or_set_keys"),
            )
        if len(data) != KEY_BYTES:
            raise ConfigError(
                f"{self._key_path} is damaged: it has {len(data)} bytes instead of {KEY_BYTES}.",
                code="damaged_keys",
                subject=self._key_path,
                advice=advise("restore_or_set_keys"),
            )
        return data

    def _make_file_key(self) -> None:
        aside = write_aside(self._key_path, os.urandom(KEY_BYTES))
        try:
            # Unlike a rename, a link never replaces a key that is already there.
            os.link(aside, self._key_path)
        except FileExistsError:
            return
        except OSError as error:
            raise cannot("write", self._key_path, error) from error
        finally:
            os.unlink(aside)

    def _write(self, entries: list[StoredKey]) -> None:
        import json

        rows = [entry._asdict() for entry in sorted(entries, key=lambda entry: entry[:2])]
        text = json.dumps({"version": KEYS_FORMAT, "keys": rows}, indent=1) + "\n"
        replace_private(self.path, text.encode())


def from_keyring(provider: str, origin: str) -> Secret | None:
    """Return the secret from the system's keyring, if there is one."""
    # Broad on purpose: a keyring is third-party code that talks to daemons. One that is absent,
    # locked or broken counts as one without this secret.
    try:
        import keyring

        text = keyring.get_password(APP, f"{provider} {origin}")
        return None if text is None else as_secret(text)
    except Exception:  # noqa: BLE001
        return None


def to_keyring(provider: str, origin: str, secret: Secret) -> bool:
    """Store a secret in the system's keyring; return whether it is there now."""
    try:
        import keyring

        keyring.set_password(APP, f"{provider} {origin}", secret.reveal())
    except Exception:  # noqa: BLE001 - as above
        return False
    # Some keyrings accept everything and store nothing.
    return from_keyring(provider, origin) == secret


def remove_from_keyring(provider: str, origin: str) -> bool:
    """Remove a secret from the system's keyring; return whether it was there and is gone."""
    if from_keyring(provider, origin) is None:
        return False
    with suppress(Exception):  # as above
        import keyring

        keyring.delete_password(APP, f"{provider} {origin}")
    return from_keyring(provider, origin) is None


def _bound_to(provider: str, origin: str) -> bytes:
    """Return what a secret is bound to: for another server it cannot be decrypted."""
    return f"{APP}|{provider}|{origin}".encode()


def _cipher() -> "type[ChaCha20Poly1305]":
    try:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    except ImportError as error:
        raise ConfigError(
            "Encrypted keys need the package cryptography.",
            code=CRYPTOGRAPHY_MISSING,
            subject="cryptography",
            advice=advise("install", extra="keys"),
        ) from error
    return ChaCha20Poly1305


def _set_key(provider: str, origin: str) -> Advice:
    if provider in ("openai", "anthropic"):
        return advise("set_key", provider=provider)
    return advise("set_server_key", provider=provider, url=origin)


def _damaged(path: str) -> ConfigError:
    return ConfigError(
        f"{path} is damaged.",
        code="damaged_keys",
        subject=path,
        advice=advise("remove_and_set_keys"),
    )
