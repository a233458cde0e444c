"""The one way out: JSON over HTTP to a single origin that the user configured.

It never follows a redirect, never unpacks, never reads more than it was told to, and gives up when
its time is over, however busily the other side trickles. Retrying is here; what a request means is
the business of the providers.
"""

import io
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, NoReturn, cast

from plait.embedders.address import Address, addresses
from plait.errors import EmbedderError

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from socket import socket

PIECE = 64 * 1024  # bytes per read and write
ERROR_BODY = 64 * 1024  # bytes; the sentence we look for is in there
ECHO_CHARS = 8  # so many characters of a key in a row are taken for a part of it
SAID_CHARS = 200  # of a server's own words that reach a person
BACK_OFF = 1.0  # seconds before the second try; doubles
LONGEST_WAIT = 60.0  # seconds; whoever asks for more is left alone and the vectors stay pending
TOO_LARGE = re.compile(
    r"too (?:large|long)|too many (?:inputs|texts|tokens)|batch size|input length"
    r"|context (?:length|size|window)|maximum (?:context|input|allowed)",
    re.I,
)
# The secret for an origin such as ``https://api.openai.com:443``, or none.
FindKey = Callable[[str], str | None]


def no_key(_: str) -> None:
    """There is no key for anybody."""


class Limits(NamedTuple):
    """How long to wait, in seconds, how much to read, in bytes, and how often to try a passage.

    ``silence`` is the longest time without a byte, ``whole`` the longest for a whole answer.
    ``sleep`` and ``dice`` are how it waits between two tries.
    """

    silence: float = 30.0
    whole: float = 60.0
    body: int = 64 * 1024 * 1024
    tries: int = 3
    sleep: Callable[[float], None] = time.sleep
    dice: Callable[[], float] | None = None


LIMITS = Limits()


class TooSlow(EmbedderError):
    """No answer in time; fewer texts at once may do."""


class BrokenOff(EmbedderError):
    """The connection broke off in the middle; worth another try."""


class Refused(EmbedderError):
    """The server answered that it would not."""

    def __init__(self, message: str, status: int, said: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.wait = wait
        # "Too many tokens" of a rate limit means too many a minute: that is waited for, not cut.
        is_pace = status == 429
        self.too_large = not is_pace and (status in (413, 422) or bool(TOO_LARGE.search(said)))
        self.passing = is_pace or status >= 500
        # A text that makes a model crash, or nothing finite, shows as an error of the server.
        self.about_text = status == 400 or status >= 500


class Client:
    """Asks one origin. The key is asked for once, for that origin, and goes nowhere else.

    ``set_key`` and ``start`` are the commands that an error suggests.
    """

    def __init__(
        self,
        name: str,
        address: Address,
        *,
        key: FindKey = no_key,
        set_key: str = "",
        start: str = "",
        limits: Limits = LIMITS,
    ) -> None:
        self.name = f"{name} at {address.url}"
        self.address = address
        self._find_key = key
        self._key: str | None = None  # until asked for; then empty where there is none
        self._set_key = set_key
        self._start = start
        self._limits = limits

    @property
    def key(self) -> str | None:
        """The secret for this origin, or ``None``.

        Raises:
            EmbedderError: It is no key that a header could carry.
        """
        if self._key is None:
            found = (self._find_key(self.address.origin) or "").strip()
            if not (found.isascii() and found.isprintable()):
                raise EmbedderError(f"The key for {self.name} holds characters that no key has.")
            self._key = found
        return self._key or None

    def get(self, path: str) -> object:
        """The JSON behind a path, asked for once."""
        return self._once("GET", path, None)

    def post(self, path: str, body: object, *, patient: bool = False) -> object:
        """The JSON answer to a JSON question; with ``patient``, passing troubles are sat out.

        Raises:
            TooSlow: There was no answer in time.
            Refused: The server said no.
            EmbedderError: Anything else that can go wrong on a network.
        """
        import json

        data = json.dumps(body).encode()
        for attempt in range(1, self._limits.tries if patient else 1):
            try:
                return self._once("POST", path, data)
            except (BrokenOff, Refused) as error:
                self._limits.sleep(self._pause(error, attempt))
        return self._once("POST", path, data)

    def _pause(self, error: "BrokenOff | Refused", attempt: int) -> float:
        """Seconds until the next try; raises the error where another try makes no sense."""
        from random import random

        dice = self._limits.dice or random
        pause: float = BACK_OFF * 2 ** (attempt - 1) * (0.5 + dice())
        if isinstance(error, Refused):
            if error.too_large or not error.passing or (error.wait or 0.0) > LONGEST_WAIT:
                raise error
            # Many clients are told the same moment: a little jitter on top keeps them apart.
            pause = pause if error.wait is None else error.wait + 0.1 * dice()
        return pause

    def _once(self, method: str, path: str, data: bytes | None) -> object:
        import http.client
        import socket
        import ssl

        until = time.monotonic() + self._limits.whole
        try:
            with _Line(self.address, until, self._limits.silence) as line:
                answer = line.ask(method, self.address.path + path, self._headers(data), data)
                return self._read(answer)
        except TimeoutError as error:
            waited = min(self._limits.silence, self._limits.whole)
            raise TooSlow(f"{self.name} gave no answer within {waited:g} s.") from error
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", "") or error.reason or "no TLS there"
            words = reason.lower().replace("_", " ")
            raise EmbedderError(f"{self.name}: no safe connection: {words}.") from error
        except socket.gaierror as error:
            raise EmbedderError(
                f"{self.name} cannot be found: {error.strerror or 'no such host'}."
            ) from error
        except ConnectionRefusedError as error:
            hint = f" Start it with: {self._start}" if self._start else ""
            raise EmbedderError(f"{self.name} is not running: connection refused.{hint}") from error
        except (ConnectionError, http.client.IncompleteRead) as error:
            raise BrokenOff(f"{self.name} broke off its answer.") from error
        except http.client.HTTPException as error:
            raise EmbedderError(f"{self.name} does not speak HTTP.") from error
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise EmbedderError(f"{self.name} cannot be reached: {reason}.") from error

    def _headers(self, data: bytes | None) -> dict[str, str]:
        headers = {
            "Host": self.address.netloc,
            "Accept": "application/json",
            # A packed answer could unpack to anything.
            "Accept-Encoding": "identity",
            "User-Agent": "plait",
            "Connection": "close",
        }
        if data is not None:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        return headers

    def _read(self, answer: "HTTPResponse") -> object:
        encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
        if 300 <= answer.status < 400:
            self._complain_of_redirect(answer.headers.get("Location", ""))
        if answer.status >= 400:
            raise self._refusal(
                answer, b"" if encoding != "identity" else _body(answer, ERROR_BODY)
            )
        if encoding != "identity":
            raise EmbedderError(f"{self.name} sent a packed answer, which was not asked for.")
        most = self._limits.body
        body = b"" if (answer.length or 0) > most else _body(answer, most)
        if (answer.length or len(body)) > most:
            raise EmbedderError(f"{self.name} sent more than {most:,} bytes.")
        return self._json(body)

    def _json(self, body: bytes) -> object:
        import json

        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise EmbedderError(f"{self.name} answered with something that is not JSON.") from error

    def _complain_of_redirect(self, location: str) -> NoReturn:
        from urllib.parse import urlsplit

        try:
            host = urlsplit(location).hostname or "another path"
        except ValueError:
            host = "nowhere"
        raise EmbedderError(
            f"{self.name} redirects to {self._shown(host)}, which plait never follows. "
            "Set the address that it should ask."
        )

    def _refusal(self, answer: "HTTPResponse", body: bytes) -> Refused:
        status = answer.status
        said = self._said(body)
        if status in (401, 403):
            # The server's own words may hold the key, or half of it.
            trouble = "refused the key" if self.key else "wants a key, and none is set"
            self._key = None  # by the next time a better one may be set
            hint = f" Run: {self._set_key}" if self._set_key else ""
            return Refused(f"{self.name} {trouble} (HTTP {status}).{hint}", status, "")
        wait = _retry_after(answer.headers.get("Retry-After"))
        words = f": {said}" if said else ""
        return Refused(f"{self.name} answered HTTP {status}{words}", status, said, wait)

    def _said(self, body: bytes) -> str:
        """The one sentence of an error body that is meant for people."""
        try:
            found = self._json(body)
        except EmbedderError:
            return ""
        for name in ("error", "message", "detail"):
            found = found.get(name, found) if isinstance(found, dict) else found
        if not isinstance(found, str):
            return ""
        return self._shown(found)

    def _shown(self, words: str) -> str:
        """A server's own words without what it may have echoed of the key."""
        key = self._key or ""
        pieces = {key[at : at + ECHO_CHARS].lower() for at in range(len(key) - ECHO_CHARS + 1)}
        lower = words.lower()
        hidden = (
            [
                any(
                    lower[at - back : at - back + ECHO_CHARS] in pieces
                    for back in range(ECHO_CHARS)
                )
                for at in range(len(words))
            ]
            if pieces
            else []
        )
        if any(hidden):
            marked = "".join(
                "\0" if hide else char for char, hide in zip(words, hidden, strict=True)
            )
            words = re.sub("\0+", "…", marked)
        return _clean(words)


class _Line:
    """One connection for one question, with an end that nobody can put off."""

    def __init__(self, address: Address, until: float, silence: float) -> None:
        self._address = address
        self._until = until
        self._silence = silence
        self._socket: socket | None = None

    def __enter__(self) -> "_Line":
        try:
            self._connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()

    def ask(
        self, method: str, path: str, headers: dict[str, str], data: bytes | None
    ) -> "HTTPResponse":
        """Send a request; the head of its answer."""
        import http.client

        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {headers[name]}" for name in headers)]
        message = "\r\n".join([*lines, "", ""]).encode("latin-1") + (data or b"")
        for start in range(0, len(message), PIECE):
            self._ready().sendall(message[start : start + PIECE])
        # It wants nothing of a socket but something to read from.
        answer = http.client.HTTPResponse(cast("socket", _Reading(self._ready)), method=method)
        answer.begin()
        return answer

    def _connect(self) -> None:
        proxy = self._address.proxy()
        places = addresses(proxy.host, proxy.port) if proxy else self._address.places()
        for number, (family, place) in enumerate(places, start=1):
            try:
                self._call(family, place)
                break
            except OSError:
                if number == len(places):
                    raise
        if proxy:
            self._tunnel(proxy)
        if self._address.scheme == "https":
            import ssl

            # The certificates of the system; verification and host names are on by default.
            context = ssl.create_default_context()
            self._socket = context.wrap_socket(
                self._ready(),
                server_hostname=self._address.host,
            )

    def _call(self, family: int, place: tuple[str, int]) -> None:
        import socket

        self.__exit__()
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._ready().connect(place)

    def _tunnel(self, proxy: Address) -> None:
        target = self._address.origin.partition("://")[2]
        headers = {"Host": target}
        if proxy.credentials:
            from base64 import b64encode

            token = b64encode(proxy.credentials.encode()).decode()
            headers["Proxy-Authorization"] = f"Basic {token}"
        answer = self.ask("CONNECT", target, headers, None)
        if answer.status != 200:
            raise EmbedderError(f"The proxy at {proxy.url} answered HTTP {answer.status}.")

    def _ready(self) -> "socket":
        """The socket, allowed to take as long as is left."""
        left = self._until - time.monotonic()
        if left <= 0 or self._socket is None:
            raise TimeoutError
        self._socket.settimeout(min(left, self._silence))
        return self._socket


class _Reading(io.RawIOBase):
    """What `http.client` reads from: every read has only the time that is left."""

    def __init__(self, ready: Callable[[], "socket"]) -> None:
        self._ready = ready

    def makefile(self, _: str) -> io.BufferedReader:
        """As a socket's own."""
        return io.BufferedReader(self, PIECE)

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        """Some bytes, at least one unless the other side has finished."""
        return self._ready().recv_into(buffer)


def _body(answer: "HTTPResponse", most: int) -> bytes:
    """The body; of a longer one ``most`` bytes and a few more, which tells that it is longer."""
    pieces: list[bytes] = []
    size = 0
    while size <= most:
        piece = answer.read(PIECE)
        if not piece:
            if answer.length:
                # subtle: to those who read in pieces http.client does not tell of an early end.
                raise ConnectionResetError
            break
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _retry_after(value: str | None) -> float | None:
    """Seconds, from a number or a date."""
    if value is None:
        return None
    if re.fullmatch(r"\s*\d{1,9}(\.\d+)?\s*", value, re.ASCII):
        return float(value)
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _clean(words: str) -> str:
    """One short line that no terminal obeys."""
    plain = "".join(char if char.isprintable() else " " for char in words)
    return " ".join(plain.split())[:SAID_CHARS]
