"""The only network access: JSON over HTTP to one origin that the user configured.

A client never follows a redirect, never decompresses, never reads more than its limit, and stops
at its deadline, even if the server keeps sending. Retries belong here; the format of requests and
answers belongs to the providers.
"""

import io
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, cast

from plait.embedders.address import Address, look_up
from plait.errors import Advice, EmbedderError, advise, flattened
from plait.types.records import NamedTuple

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from socket import socket

BLOCK_BYTES = 64 * 1024  # per read and write
ERROR_BODY_BYTES = 64 * 1024  # read of an error's body
ECHO_CHARS = 8  # this many consecutive characters of a key count as part of it
SERVER_TEXT_CHARS = 200  # shown of a server's own message
BACK_OFF = 1.0  # seconds before the second try; doubles
LONGEST_WAIT = 60.0  # seconds; if a server asks for more, the vectors stay pending
TOO_LARGE = re.compile(
    r"too (?:large|long)|too many (?:inputs|texts|tokens)|batch size|input length"
    r"|context (?:length|size|window)|maximum (?:context|input|allowed)",
    re.I,
)
# Returns the key for an origin such as ``https://api.openai.com:443``, or ``None``.
FindKey = Callable[[str], str | None]


def no_key(_: str) -> None:
    """Return no key for any origin."""


class Limits(NamedTuple):
    """How many seconds to wait, how many bytes to read, and how often to try passages.

    ``silence`` is the longest time without a byte, ``whole`` the longest for a whole answer.
    ``sleep`` and ``dice`` (a random number from 0 to 1) make the pause between two tries.
    """

    silence: float = 30.0
    whole: float = 60.0
    body: int = 64 * 1024 * 1024
    tries: int = 3
    sleep: Callable[[float], None] = time.sleep
    dice: Callable[[], float] | None = None


LIMITS = Limits()


class TooSlow(EmbedderError):
    """No answer in time; a smaller batch may be fast enough."""

    code = "too_slow"


class ConnectionLost(EmbedderError):
    """The connection ended in the middle of an answer; another try may work."""

    code = "connection_lost"


class Refused(EmbedderError):
    """The server answered with an error.

    ``server_text`` is the server's own message, ``wait`` the seconds that it asks to wait.
    """

    code = "refused"

    def __init__(
        self,
        text: str,
        status: int,
        server_text: str = "",
        wait: float | None = None,
        *,
        code: str | None = None,
        advice: Advice | None = None,
    ) -> None:
        super().__init__(text, code=code, advice=advice)
        self.status = status
        self.wait = wait
        # "Too many tokens" of a rate limit means too many a minute: wait, do not cut the text.
        is_rate_limit = status == 429
        self.too_large = not is_rate_limit and (
            status in (413, 422) or bool(TOO_LARGE.search(server_text))
        )
        self.passing = is_rate_limit or status >= 500
        # If the model crashes on a text or returns NaN, the server reports an error.
        self.about_text = status == 400 or status >= 500


class Client:
    """Send requests to one origin. Its key is looked up once and sent nowhere else.

    ``set_key`` and ``start`` are the advice of errors about the key and of a server that is down.
    """

    def __init__(
        self,
        name: str,
        address: Address,
        *,
        key: FindKey = no_key,
        set_key: Advice | None = None,
        start: Advice | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self.name = f"{name} at {address.url}"
        self.address = address
        self._find_key = key
        self._key: str | None = None  # before the look-up; then empty if there is none
        self._set_key = set_key
        self._start = start
        self._limits = limits

    @property
    def key(self) -> str | None:
        """The key for this origin, or ``None``.

        Raises:
            EmbedderError: It has characters that a header cannot carry.
        """
        if self._key is None:
            key = (self._find_key(self.address.origin) or "").strip()
            if not (key.isascii() and key.isprintable()):
                raise EmbedderError(
                    f"The key for {self.name} contains characters that are not allowed in a key.",
                    code="bad_key",
                    advice=self._set_key,
                )
            self._key = key
        return self._key or None

    def get(self, path: str) -> object:
        """Request a path once and return its JSON."""
        return self._request("GET", path, None)

    def post(self, path: str, body: object, *, patient: bool = False) -> object:
        """Send JSON and return the JSON of the answer; if ``patient``, retry temporary failures.

        Raises:
            TooSlow: There was no answer in time.
            Refused: The server answered with an error.
            EmbedderError: The network failed in another way.
        """
        import json

        data = json.dumps(body).encode()
        for attempt in range(1, self._limits.tries if patient else 1):
            try:
                return self._request("POST", path, data)
            except (ConnectionLost, Refused) as error:
                self._limits.sleep(self._pause(error, attempt))
        return self._request("POST", path, data)

    def _pause(self, error: "ConnectionLost | Refused", attempt: int) -> float:
        """Return the seconds until the next try; raise the error if a retry cannot help."""
        from random import random

        dice = self._limits.dice or random
        pause: float = BACK_OFF * 2 ** (attempt - 1) * (0.5 + dice())
        if isinstance(error, Refused):
            if error.too_large or not error.passing or (error.wait or 0.0) > LONGEST_WAIT:
                raise error
            # Many clients may be told to retry at the same time: a little jitter spreads them.
            pause = pause if error.wait is None else error.wait + 0.1 * dice()
        return pause

    def _request(self, method: str, path: str, data: bytes | None) -> object:
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
            raise TooSlow(f"{self.name} did not answer within {waited:g} s.") from error
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", "") or error.reason or "no TLS there"
            words = reason.lower().replace("_", " ")
            text = f"{self.name}: the connection is not secure: {words}."
            raise EmbedderError(text, code="unsafe_connection") from error
        except socket.gaierror as error:
            text = f"{self.name}: unknown host: {error.strerror or 'no such host'}."
            raise EmbedderError(text, code="unknown_host") from error
        except ConnectionRefusedError as error:
            text = f"{self.name} is not running: connection refused."
            raise EmbedderError(text, code="not_running", advice=self._start) from error
        except (ConnectionError, http.client.IncompleteRead) as error:
            raise ConnectionLost(f"{self.name} closed the connection too early.") from error
        except http.client.HTTPException as error:
            raise EmbedderError(f"{self.name} does not speak HTTP.", code="not_http") from error
        except OSError as error:
            reason = error.strerror or type(error).__name__
            text = f"{self.name} cannot be reached: {reason}."
            raise EmbedderError(text, code="unreachable") from error

    def _headers(self, data: bytes | None) -> dict[str, str]:
        headers = {
            "Host": self.address.netloc,
            "Accept": "application/json",
            # A small compressed answer could become arbitrarily large.
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
            self._refuse_redirect(answer.headers.get("Location", ""))
        if answer.status >= 400:
            raise self._refusal(
                answer, b"" if encoding != "identity" else _body(answer, ERROR_BODY_BYTES)
            )
        if encoding != "identity":
            raise EmbedderError(
                f"{self.name} sent a compressed answer, which plait did not request.",
                code="compressed_answer",
            )
        most = self._limits.body
        body = b"" if (answer.length or 0) > most else _body(answer, most)
        if (answer.length or len(body)) > most:
            raise EmbedderError(
                f"{self.name} sent more than {most:,} bytes.", code="answer_too_large"
            )
        return self._json(body)

    def _json(self, body: bytes) -> object:
        import json

        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            text = f"{self.name} answered with something that is not JSON."
            raise EmbedderError(text, code="not_json") from error

    def _refuse_redirect(self, location: str) -> NoReturn:
        from urllib.parse import urlsplit

        try:
            host = urlsplit(location).hostname or "another path"
        except ValueError:
            host = "nowhere"
        raise EmbedderError(
            f"{self.name} redirects to {self._masked(host)}. plait never follows a redirect.",
            code="redirected",
            advice=advise("set_address"),
        )

    def _refusal(self, answer: "HTTPResponse", body: bytes) -> Refused:
        status = answer.status
        if status in (401, 403):
            # Without the server's own message, which may repeat the key or a part of it.
            code = "bad_key" if self.key else "no_key"
            problem = "refused the key" if self.key else "needs a key, and none is set"
            self._key = None  # it may be set correctly before the next request
            text = f"{self.name} {problem} (HTTP {status})."
            return Refused(text, status, code=code, advice=self._set_key)
        server_text = self._server_text(body)
        wait = _retry_after(answer.headers.get("Retry-After"))
        details = f": {server_text}" if server_text else ""
        return Refused(f"{self.name} answered HTTP {status}{details}", status, server_text, wait)

    def _server_text(self, body: bytes) -> str:
        """Return the message of an error's body."""
        try:
            value = self._json(body)
        except EmbedderError:
            return ""
        for name in ("error", "message", "detail"):
            value = value.get(name, value) if isinstance(value, dict) else value
        if not isinstance(value, str):
            return ""
        return self._masked(value)

    def _masked(self, words: str) -> str:
        """Return a server's message without any part of the key that it repeats."""
        return _clean(without_key(words, self._key))


class _Line:
    """One connection for one request, with a deadline."""

    def __init__(self, address: Address, until: float, silence: float) -> None:
        self._address = address
        self._until = until
        self._silence = silence
        self._socket: socket | None = None

    def __enter__(self) -> "_Line":
        try:
            self._connect()
        except BaseException:  # Ctrl-C, too: nobody else would close the socket
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()

    def ask(
        self, method: str, path: str, headers: dict[str, str], data: bytes | None
    ) -> "HTTPResponse":
        """Send a request and read the head of its answer."""
        import http.client

        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {headers[name]}" for name in headers)]
        message = "\r\n".join([*lines, "", ""]).encode("latin-1") + (data or b"")
        for start in range(0, len(message), BLOCK_BYTES):
            self._ready().sendall(message[start : start + BLOCK_BYTES])
        # subtle: HTTPResponse uses only makefile() of a socket.
        answer = http.client.HTTPResponse(cast("socket", _Reading(self._ready)), method=method)
        answer.begin()
        return answer

    def _connect(self) -> None:
        proxy = self._address.proxy()
        endpoints = look_up(proxy.host, proxy.port) if proxy else self._address.endpoints()
        for number, (family, endpoint) in enumerate(endpoints, start=1):
            try:
                self._connect_to(family, endpoint)
                break
            except OSError:
                if number == len(endpoints):
                    raise
        if proxy:
            self._tunnel(proxy)
        if self._address.scheme == "https":
            import ssl

            # The system's certificates; certificate and host name are verified by default.
            context = ssl.create_default_context()
            self._socket = context.wrap_socket(
                self._ready(),
                server_hostname=self._address.host,
            )

    def _connect_to(self, family: int, endpoint: tuple[str, int]) -> None:
        import socket

        self.__exit__()
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._ready().connect(endpoint)

    def _tunnel(self, proxy: Address) -> None:
        target = self._address.origin.partition("://")[2]
        headers = {"Host": target}
        if proxy.credentials:
            from base64 import b64encode

            token = b64encode(proxy.credentials.encode()).decode()
            headers["Proxy-Authorization"] = f"Basic {token}"
        answer = self.ask("CONNECT", target, headers, None)
        if answer.status != 200:
            raise EmbedderError(
                f"The proxy at {proxy.url} answered HTTP {answer.status}.",
                code="proxy_failed",
                subject=proxy.url,
            )

    def _ready(self) -> "socket":
        """Return the socket with the remaining time as its timeout."""
        left = self._until - time.monotonic()
        if left <= 0 or self._socket is None:
            raise TimeoutError
        self._socket.settimeout(min(left, self._silence))
        return self._socket


class _Reading(io.RawIOBase):
    """A file for `http.client` to read from; each read may take the remaining time."""

    def __init__(self, ready: Callable[[], "socket"]) -> None:
        self._ready = ready

    def makefile(self, _: str) -> io.BufferedReader:
        """Return a buffered reader, as a socket does."""
        return io.BufferedReader(self, BLOCK_BYTES)

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        """Read some bytes, at least one unless the other side has finished."""
        return self._ready().recv_into(buffer)


def _body(answer: "HTTPResponse", most: int) -> bytes:
    """Read the body, at most a little more than ``most`` bytes, to notice when it is longer."""
    blocks: list[bytes] = []
    size = 0
    while size <= most:
        block = answer.read(BLOCK_BYTES)
        if not block:
            if answer.length:
                # subtle: http.client does not report an early end to a reader of blocks.
                raise ConnectionResetError
            break
        blocks.append(block)
        size += len(block)
    return b"".join(blocks)


def _retry_after(value: str | None) -> float | None:
    """Return the seconds to wait, from a number or a date."""
    if value is None:
        return None
    if re.fullmatch(r"\s*\d{1,9}(\.\d+)?\s*", value, re.ASCII):
        return float(value)
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def without_key(words: str, key: str | None) -> str:
    """Return a server's words with an ellipsis for each part of the key that they repeat.

    >>> without_key("bad key sk-12345678…9", "sk-123456789")
    'bad key ……9'
    """
    if not key:
        return words
    pieces = {key[at : at + ECHO_CHARS].lower() for at in range(len(key) - ECHO_CHARS + 1)}
    lower = words.lower()
    hidden = [
        any(lower[at - back : at - back + ECHO_CHARS] in pieces for back in range(ECHO_CHARS))
        for at in range(len(words))
    ]
    marked = "".join("\0" if hide else char for char, hide in zip(words, hidden, strict=True))
    return re.sub("\0+", "…", marked)


def _clean(words: str) -> str:
    """Return one short line without control characters."""
    return flattened(words)[:SERVER_TEXT_CHARS]
