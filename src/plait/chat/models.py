"""Open the client of a chat model: one server, its own key, no redirects, errors in one sentence.

The official clients read keys, addresses and headers from the environment and follow redirects.
Here none of that counts: they never see the key. It is added to each request at the last moment,
if the request goes to the model's own scheme, host and port.
"""

import gc
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from plait.chat.turns import ChatTurn, Model, ModelCall, Part
from plait.embedders.transport import without_key
from plait.errors import Advice, ChatError, Notice, advise, quotable
from plait.settings.chat_models import ChatModel
from plait.settings.loading import Config
from plait.text import clean
from plait.types.records import NamedTuple

CONNECT_S = 10.0
# Seconds without a byte. A local model may need a minute to load.
QUIET_S = 120.0
# Of one answer: bytes with all that a protocol adds, characters of its text, and seconds. A server
# that never ends is cut.
MOST_BYTES = 64 * 1024 * 1024
MOST_ANSWER_CHARS = 400_000
MOST_ANSWER_S = 3_600.0
# Characters of a server's own message that are looked at.
MESSAGE_CHARS = 2_000
# How the HTTP clients call an error before a connection was made.
_NOT_CONNECTED = ("ConnectError", "ConnectTimeout", "ProxyError")
# Headers that a client may send. Anything else that it finds in the environment stays here.
SENT_HEADERS = frozenset(
    {
        *("accept", "accept-encoding", "anthropic-version", "connection", "content-length"),
        *("content-type", "host", "transfer-encoding", "user-agent"),
    }
)
# Errors that pass, and the seconds to wait before each new try. The clients would also repeat a
# request that was only answered slowly.
PASSING = ("rate_limited", "server_failed")
PAUSES_S = (1.0, 4.0)
# What the clients raise, and code that reads their data, for an answer of another shape.
UNREADABLE = (ValueError, AttributeError, TypeError, LookupError, RecursionError)
# The code of the error that a server refused a request because of its tools.
NO_TOOLS = "no_tools"
# What a client asks for as a key; it is never sent.
NO_KEY = "unused"


class ChatServer(NamedTuple):
    """The server of a model and how to talk to it. ``key`` is never shown."""

    model: ChatModel
    key: Callable[[], str | None]
    quiet_s: float = QUIET_S

    def failure(self, text: str, code: str, advice: Advice | None = None) -> ChatError:
        """Return an error about this server."""
        return ChatError(f"{self.model.server} {text}", code=code, advice=advice)

    @property
    def set_key(self) -> Advice:
        """How to give the key for this server."""
        provider = self.model.key_provider
        if self.model.needs_key:
            return advise("set_key", provider=provider)
        return advise("set_server_key", provider=provider, url=self.model.address.url)

    def client_options(
        self, http: Any, key_header: Callable[[str], tuple[str, str]]
    ) -> dict[str, Any]:
        """Return the options of the HTTP client below an official client.

        Args:
            http: The package of that HTTP client.
            key_header: Returns the header, name and value, that carries a key.
        """
        address, key = self.model.address, self.key()
        header = None if key is None else key_header(key)

        def restrict(request: Any) -> None:
            port = request.url.port or {"http": 80, "https": 443}.get(request.url.scheme)
            host = request.url.raw_host.decode("ascii")
            if (request.url.scheme, host, port) != address[:3]:
                raise self.failure("wanted a request to another address.", "other_server")
            for name in {*request.headers} - SENT_HEADERS:
                del request.headers[name]
            # A small answer could become a very large one.
            request.headers["accept-encoding"] = "identity"
            if header is not None:
                request.headers[header[0]] = header[1]

        def limit(response: Any) -> None:
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise self.failure("sent a compressed answer.", "bad_answer")
            inner = response.stream
            # The client reads from nothing but a stream of its own kind.
            methods = {"__iter__": lambda _: self._at_most(inner), "close": lambda _: inner.close()}
            response.stream = type("LimitedStream", (http.SyncByteStream,), methods)()

        over_tls = address.scheme == "https" and not address.is_loopback
        return {
            "base_url": address.url,
            "follow_redirects": False,
            # As for embedders: a proxy is used for https only.
            "trust_env": over_tls,
            # No certificate is checked over plain http, and loading them takes 20 ms.
            "verify": address.scheme == "https",
            "event_hooks": {"request": [restrict], "response": [limit]},
        }

    def _at_most(self, stream: Iterable[bytes]) -> Iterator[bytes]:
        size, until = 0, time.monotonic() + MOST_ANSWER_S
        for data in stream:
            size += len(data)
            if size > MOST_BYTES or time.monotonic() > until:
                raise self.failure("sent an answer that has no end.", "answer_too_long")
            yield data

    def refused(self, status: int, message: str) -> ChatError:
        """Return the error for a status of HTTP; the server's words are quoted."""
        name, told = quotable(self.model.name), ""
        if message:
            # The key first: what is cut is not recognised.
            told = quotable(without_key(message[:MESSAGE_CHARS], self.key()))
        words = f": '{told}'" if told else ""
        if status in (401, 403):
            return self.failure(f"refused the key{words}.", "bad_key", self.set_key)
        if status == 404:
            if self.model.protocol == "ollama":
                pull = advise("pull_ollama_model", model=self.model.name)
                return self.failure(f"has no model '{name}'.", "unknown_model", pull)
            # Or the address is wrong: the server's words tell.
            return self.failure(f"has no model '{name}'{words}.", "unknown_model")
        if status == 429:
            text = f"has too many requests{words}."
            return self.failure(text, "rate_limited", advise("retry_later"))
        if 300 <= status < 400:
            return self.failure("redirects.", "redirected", advise("set_address"))
        if status >= 500:
            text = f"failed (status {status}){words}."
            return self.failure(text, "server_failed", advise("retry_later"))
        # Ollama: "does not support tools"; vLLM: "tool choice requires --enable-auto-tool-choice".
        code = NO_TOOLS if status in (400, 422) and "tool" in message.lower() else "refused"
        return self.failure(f"refused the request (status {status}){words}.", code)

    @property
    def unreachable(self) -> ChatError:
        """The error that nobody answers at the address."""
        is_local = self.model.protocol == "ollama" and self.model.address.is_loopback
        advice = advise("start_ollama") if is_local else advise("reach_server")
        return self.failure("cannot be reached.", "no_server", advice)

    @property
    def silent(self) -> ChatError:
        """The error that no more bytes came."""
        text = f"sent nothing for {self.quiet_s:g} s."
        return self.failure(text, "server_silent", advise("wait_longer"))

    def disconnected(self, error: Exception) -> ChatError:
        """Return the error for a connection that failed, as an official client tells it."""
        cause = error.__cause__ or error
        if isinstance(cause, ChatError):
            return cause
        name = type(cause).__name__
        if name in _NOT_CONNECTED:
            return self.unreachable
        return self.silent if name.endswith("Timeout") else self.broke_off

    @property
    def broke_off(self) -> ChatError:
        """The error that the answer ended before its end."""
        return self.failure("broke off the answer.", "stream_cut")

    def unreadable(self, error: Exception) -> ChatError:
        """Return the error that an answer is not of the protocol."""
        return self.failure(f"sent no valid answer ({type(error).__name__}).", "bad_answer")


# Why an answer stops too early, by the words of the providers.
_LIMIT = Notice("The answer stops here: it reached the model's limit.", "answer_limit")
_FILTER = Notice("The answer stops here: the provider's filter ended it.", "answer_filtered")
EARLY_STOPS = {
    "length": _LIMIT,
    "max_tokens": _LIMIT,
    "model_context_window_exceeded": _LIMIT,
    "content_filter": _FILTER,
    "refusal": _FILTER,
}


def open_model(
    model: ChatModel, config: Config, tools: list[dict[str, Any]], *, quiet_s: float = QUIET_S
) -> Model:
    """Open the client of a model.

    Args:
        model: The model.
        config: The settings, for the key.
        tools: The definitions of tools, in the form of the model's provider.
        quiet_s: Seconds without a byte after which the server is given up.

    Raises:
        ChatError: The package is missing, a key is, or text must not be sent to the address.
    """
    key = config.key_for(model.key_provider, model.address.origin)
    server = ChatServer(model, lambda: key, quiet_s)
    if key is None and model.needs_key:
        raise server.failure("needs a key.", "no_key", server.set_key)
    opened: Model
    with _package(model.protocol):
        if model.protocol == "anthropic":
            from plait.chat.anthropic import AnthropicModel

            opened = AnthropicModel(server, tools)
        elif model.protocol == "openai":
            from plait.chat.openai import OpenAIModel

            opened = OpenAIModel(server, tools)
        else:
            from plait.chat.ollama import OllamaModel

            opened = OllamaModel(server, tools)
    _check_address(server)
    return opened


def _whole(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield parts that can be stored and sent back; half a character waits for its other half."""
    half, length = "", 0
    for part in parts:
        match part:
            case str():
                text = half + part
                half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
                if kept := clean(text.removesuffix(half)):
                    yield kept
                length += len(part)
                if length > MOST_ANSWER_CHARS:
                    raise ChatError("The answer has no end.", code="answer_too_long")
            case ModelCall():
                yield _whole_call(part)
            case Notice():
                yield part
            case _:  # clients give on what a server sent in the place of a text
                raise ChatError("The server sent no valid answer.", code="bad_answer")
    if half:
        yield clean(half)


def _whole_call(call: ModelCall) -> ModelCall:
    arguments = call.arguments
    if isinstance(arguments, str):
        return ModelCall(clean(call.id), clean(call.name), clean(arguments))
    try:
        written = clean(json.dumps(arguments, ensure_ascii=False))
        return ModelCall(clean(call.id), clean(call.name), json.loads(written))
    except UNREADABLE as error:
        raise ChatError("The server sent no valid answer.", code="bad_answer") from error


def patient_answer(
    model: Model, system: str, turns: Sequence[ChatTurn], *, tools: bool
) -> Iterator[Part]:
    """Yield the parts of the next answer; if the server is busy before the first, try again.

    Raises:
        ChatError: The server cannot be reached, refused, broke off, or is still busy.
    """
    for pause in (*PAUSES_S, None):
        began = False
        try:
            for part in _whole(model.answer(system, turns, tools=tools)):
                began = True
                yield part
        except ChatError as error:
            if began or pause is None or error.code not in PASSING:
                raise
            time.sleep(pause)
        else:
            return


@contextmanager
def _package(name: str) -> Iterator[None]:
    """Import a client; until it is there, the collector of cycles rests.

    It would look through thousands of new classes again and again, a tenth of the time until the
    first word; they stay to the end, so it leaves them alone afterwards, too.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("plait", ""):
            raise
        raise missing_package(name) from error
    finally:
        if was_on:
            gc.freeze()
            gc.enable()


def missing_package(name: str) -> ChatError:
    """Return the error that a package of the extra ``chat`` is not installed."""
    return ChatError(
        f"The chat needs the package {name}.",
        code="package_missing",
        subject=name,
        advice=advise("install", extra="chat"),
    )


def _check_address(server: ChatServer) -> None:
    """Refuse a name that leads to an address that text must not be sent to."""
    from plait.errors import EmbedderError

    address = server.model.address
    if address.scheme == "https" or address.is_loopback:
        return
    try:
        address.endpoints()
    except EmbedderError as error:
        raise ChatError(
            error.notice.text, code=error.code, subject=error.subject, advice=error.advice
        ) from error
    except OSError as error:
        raise server.unreachable from error


def message_in(body: object) -> str:
    """Return the message of an error as providers write it; nothing if there is none.

    >>> message_in({"error": {"message": "No."}}), message_in({"error": "No."}), message_in(3)
    ('No.', 'No.', '')
    """
    if isinstance(body, Mapping):
        for name in ("error", "message", "detail"):
            inner = body.get(name)
            if isinstance(inner, str):
                return inner
            if isinstance(inner, Mapping):
                return message_in(inner)
    return ""
