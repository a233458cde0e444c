"""Secrets at rest: a value that does not show itself, the system's keyring, and an encrypted file.

The file's key lies in the same folder. That protects what leaves the folder (a backup, a commit, a
screenshot of the file), and not against a program that runs as the same user. Where keys come
from, and in which order, is the business of ``plait.keys``.
"""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from plait.errors import ConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

APP = "plait"
KEY_FILE = "secret.key"
SECRETS_FILE = "keys.json"
LOCK_FILE = "keys.lock"
# Marks a value that only the key file opens, here and in a settings file.
SEALED = "enc:"
INSTALL = "pip install 'plait[keys]'"
KEY_BYTES = 32  # ChaCha20-Poly1305, RFC 8439
NONCE_BYTES = 12
MAX_SECRET_CHARS = 8_192  # what common servers take as one header line
# Dozens of keys are a few kilobytes; more is not a file of ours.
MAX_FILE_BYTES = 1_000_000
LOCK_PATIENCE_S = 10.0
LOCK_PAUSE_S = 0.02
FORMAT = 1
PRIVATE = 0o600
# Windows has neither; there a user's folder is closed to others by itself.
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
# A pipe in the place of a file must not make us wait for a writer.
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)


class Secret:
    """A text that no log, message or pickle shows; only ``reveal`` gives it away.

    >>> key = Secret("sk-123")
    >>> f"{key} {key!r}", key.reveal()
    ('*** Secret(***)', 'sk-123')
    """

    __slots__ = ("__text",)

    def __init__(self, text: str) -> None:
        self.__text = text

    def reveal(self) -> str:
        """The text itself."""
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
    """A key that fits on a header line, or ``ValueError``; the error never repeats it."""
    if isinstance(value, Secret):
        return value
    text = value.strip() if isinstance(value, str) else ""
    fits = 0 < len(text) <= MAX_SECRET_CHARS and text.isascii() and text.isprintable()
    if not fits or " " in text:
        raise ValueError
    return Secret(text)


def origin_of(url: str) -> str | None:
    """Scheme, host and port of an address, or ``None`` where its host could be read in two ways.

    >>> origin_of("HTTPS://Api.OpenAI.com/v1"), origin_of("http://[::1]:8080")
    ('https://api.openai.com:443', 'http://[::1]:8080')
    >>> origin_of("https://api.openai.com@evil.example")
    """
    import re

    # An allow-list: parsers disagree on addresses with names, backslashes or foreign letters.
    pattern = r"(https?)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::(\d{1,5}))?(?:[/?#]\S*)?"
    found = re.fullmatch(pattern, url.strip(), re.IGNORECASE | re.ASCII)
    if found is None:
        return None
    scheme, host = found[1].lower(), found[2].lower()
    port = int(found[3] or (443 if scheme == "https" else 80))
    return f"{scheme}://{host}:{port}" if 0 < port < 65_536 else None


class Entry(NamedTuple):
    """A secret that was given for a provider at an origin; not ``sealed``: the keyring has it."""

    provider: str
    origin: str
    sealed: str | None


def _entry(row: dict[str, str | None]) -> Entry:
    provider, origin, sealed = row["provider"], row["origin"], row["sealed"]
    if not isinstance(provider, str) or not isinstance(origin, str):
        raise TypeError
    return Entry(provider, origin, sealed if sealed is None else str(sealed))


class Vault:
    """The encrypted secrets of one folder. Several processes may use it at once."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, SECRETS_FILE)
        self._folder = folder
        self._key_path = os.path.join(folder, KEY_FILE)

    def entries(self) -> list[Entry]:
        """What was given, in the order of provider and origin.

        Raises:
            ConfigError: The file is damaged, or others can read it.
        """
        import json

        data = _read_private(self.path)
        if data is None:
            return []
        try:
            parsed = json.loads(data)
            found = [_entry(row) for row in parsed["keys"]]
            version = int(parsed["version"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ConfigError(
                f"{self.path} is damaged. Remove it and give your keys again: "
                "plait config set-key PROVIDER"
            ) from error
        if version > FORMAT:
            raise ConfigError(f"{self.path} was written by a newer plait; update this one.")
        return sorted(found, key=lambda entry: entry[:2])

    def entry(self, provider: str, origin: str) -> Entry | None:
        """What was given for one provider at one origin."""
        return next((each for each in self.entries() if each[:2] == (provider, origin)), None)

    def put(self, provider: str, origin: str, secret: Secret | None) -> None:
        """Keep a secret, in place of an older one; ``None`` notes that the keyring keeps it.

        Raises:
            ConfigError: The folder cannot be written, or the package for it is missing.
        """
        with self._locked():
            sealed = None if secret is None else self._seal(provider, origin, secret)
            others = [each for each in self.entries() if each[:2] != (provider, origin)]
            self._write([*others, Entry(provider, origin, sealed)])

    def remove(self, provider: str, origin: str) -> Entry | None:
        """Forget a secret; the answer is what was there."""
        if not os.path.lexists(self.path):
            return None
        with self._locked():
            entries = self.entries()
            gone = next((each for each in entries if each[:2] == (provider, origin)), None)
            if gone is not None:
                self._write([each for each in entries if each is not gone])
        return gone

    def unseal(self, provider: str, origin: str, sealed: str, where: str) -> Secret:
        """The secret in a sealed value; ``where`` it was read is said when it does not open.

        Raises:
            ConfigError: It was sealed for another provider or origin, or with another key file.
        """
        again = f"Give it again: plait config set-key {provider}"
        again += "" if provider == "openai" else f" --url {origin}"
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
                f"The key for {provider} at {origin} in {where} does not open with "
                f"{self._key_path}: it is damaged, or was given for another address. {again}"
            ) from error

    def _seal(self, provider: str, origin: str, secret: Secret) -> str:
        cipher = _cipher()(self._file_key(create=True))
        nonce = os.urandom(NONCE_BYTES)
        sealed = cipher.encrypt(nonce, secret.reveal().encode(), _bound_to(provider, origin))
        return SEALED + (nonce + sealed).hex()

    def _file_key(self, *, create: bool = False) -> bytes:
        data = _read_private(self._key_path)
        if data is None and create:
            self._make_file_key()
            data = _read_private(self._key_path)
        if data is None:
            raise ConfigError(
                f"There is no file {self._key_path}, without which no encrypted key opens. Bring "
                "it back, or give your keys again: plait config set-key PROVIDER"
            )
        if len(data) != KEY_BYTES:
            raise ConfigError(
                f"{self._key_path} is damaged: it has {len(data)} bytes and not {KEY_BYTES}. Bring "
                "back a copy, or remove it and give your keys again: plait config set-key PROVIDER"
            )
        return data

    def _make_file_key(self) -> None:
        aside = _write_aside(self._key_path, os.urandom(KEY_BYTES))
        try:
            # Unlike a rename, a link never takes the place of a key that is already there.
            os.link(aside, self._key_path)
        except FileExistsError:
            return
        except OSError as error:
            raise _cannot("write", self._key_path, error) from error
        finally:
            os.unlink(aside)

    def _write(self, entries: list[Entry]) -> None:
        import json

        rows = [each._asdict() for each in sorted(entries, key=lambda each: each[:2])]
        text = json.dumps({"version": FORMAT, "keys": rows}, indent=1) + "\n"
        aside = _write_aside(self.path, text.encode())
        try:
            os.replace(aside, self.path)
        except OSError as error:
            os.unlink(aside)
            raise _cannot("write", self.path, error) from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time: each reads all secrets and writes them back."""
        path = os.path.join(self._folder, LOCK_FILE)
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | _NO_FOLLOW | _NO_WAIT, PRIVATE)
        except OSError as error:
            raise _cannot("write", path, error) from error
        try:
            try:
                _wait_for(handle, path)
            except OSError as error:
                raise _cannot("lock", path, error) from error
            yield
        finally:
            os.close(handle)  # lets the lock go, too


def from_keyring(provider: str, origin: str) -> Secret | None:
    """The secret that the system's keyring has, if there is a keyring."""
    # Broad on purpose: a keyring is other people's code in front of other people's daemons, and
    # one that is absent, locked or broken is for us the same as one without this secret.
    try:
        import keyring

        text = keyring.get_password(APP, f"{provider} {origin}")
        return None if text is None else as_secret(text)
    except Exception:  # noqa: BLE001
        return None


def to_keyring(provider: str, origin: str, secret: Secret) -> bool:
    """Hand a secret to the system's keyring; whether it is there now."""
    try:
        import keyring

        keyring.set_password(APP, f"{provider} {origin}", secret.reveal())
    except Exception:  # noqa: BLE001 - as above
        return False
    # Some keyrings take everything and keep nothing.
    return from_keyring(provider, origin) == secret


def remove_from_keyring(provider: str, origin: str) -> bool:
    """Take a secret out of the system's keyring; whether it was there and is gone."""
    if from_keyring(provider, origin) is None:
        return False
    with suppress(Exception):  # as above
        import keyring

        keyring.delete_password(APP, f"{provider} {origin}")
    return from_keyring(provider, origin) is None


def is_private(status: os.stat_result) -> bool:
    """Whether only its owner can read a file."""
    return sys.platform == "win32" or not stat.S_IMODE(status.st_mode) & 0o077


def _bound_to(provider: str, origin: str) -> bytes:
    """What is sealed with a secret but not hidden: moved to another address, it does not open."""
    return f"{APP}|{provider}|{origin}".encode()


def _cipher() -> "type[ChaCha20Poly1305]":
    try:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    except ImportError as error:
        raise ConfigError(
            f"Encrypted keys need the package cryptography. Install it with: {INSTALL}"
        ) from error
    return ChaCha20Poly1305


def _read_private(path: str) -> bytes | None:
    """The bytes of a file that only its owner can read; ``None`` where there is no file."""
    try:
        if os.path.islink(path):
            raise ConfigError(f"{path} is a link; put the file itself in its place.")
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | _NO_FOLLOW | _NO_WAIT)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _cannot("read", path, error) from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{path} is not a file; remove it.")
        if not is_private(status):
            mode = stat.S_IMODE(status.st_mode)
            raise ConfigError(
                f"{path} can be read by others (mode {mode:03o}). Run: chmod 600 {path}"
            )
        if status.st_size > MAX_FILE_BYTES:
            raise ConfigError(f"{path} is damaged: more than 1 MB cannot be keys. Remove it.")
        return os.read(handle, MAX_FILE_BYTES)
    finally:
        os.close(handle)


def _write_aside(path: str, data: bytes) -> str:
    """A new private file in the folder of ``path``, with its bytes on the disk."""
    import tempfile

    try:
        # mkstemp makes the file 0600, so that nobody else reads it even for a moment.
        handle, aside = tempfile.mkstemp(prefix=".keys-", dir=os.path.dirname(path))
        try:
            with open(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            os.unlink(aside)
            raise
    except OSError as error:
        raise _cannot("write", path, error) from error
    return aside


def _cannot(act: str, path: str, error: OSError) -> ConfigError:
    return ConfigError(f"Cannot {act} {path}: {error.strerror}.")


def _wait_for(handle: int, path: str) -> None:
    import time

    deadline = time.monotonic() + LOCK_PATIENCE_S
    while not _try_lock(handle):
        if time.monotonic() > deadline:
            raise ConfigError(
                f"Another plait has held {path} for {LOCK_PATIENCE_S:g} s. Try again later."
            )
        time.sleep(LOCK_PAUSE_S)


def _try_lock(handle: int) -> bool:
    try:
        if sys.platform == "win32":  # pragma: no cover
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # the latter is how Windows says it
        return False
    return True
