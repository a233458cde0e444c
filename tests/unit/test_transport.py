"""The only way out: addresses that may be used, and what may come back from them."""

import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.utils import formatdate
from pathlib import Path
from threading import Thread
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.embedders import address as addressing
from plait.embedders.address import Address, parse_address
from plait.embedders.transport import (
    LONGEST_WAIT,
    SERVER_TEXT_CHARS,
    Client,
    ConnectionLost,
    Limits,
    Refused,
    TooSlow,
    _clean,
    _Line,
    _retry_after,
)
from plait.errors import ConfigError, EmbedderError, advise
from tests.codes import has_code
from tests.embedding_server import FAULTS, HARMLESS, PASSING, EmbeddingServer

KEY = "sk-canary-0123456789"
SET_KEY = advise("set_key", provider="test")
QUESTION = {"model": "nomic-embed-text", "input": ["one", "two"]}


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as opened:
        yield opened


def client(server: EmbeddingServer, **fields: object) -> Client:
    """A client that waits for nothing between two tries."""
    limits = Limits(**{"sleep": lambda _: None, **fields})  # type: ignore[arg-type]
    return Client(
        "Test",
        parse_address(server.url),
        key=lambda _: KEY,
        set_key=SET_KEY,
        limits=limits,
    )


# -- addresses -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "expected", "origin"),
    [
        ("http://localhost:11434", "http://localhost:11434", "http://localhost:11434"),
        ("https://api.openai.com/v1", "https://api.openai.com/v1", "https://api.openai.com:443"),
        ("HTTPS://API.OpenAI.com:443/v1//", "https://api.openai.com/v1", None),
        ("http://[::1]:8080/", "http://[::1]:8080", "http://[::1]:8080"),
        ("http://10.1.2.3", "http://10.1.2.3", "http://10.1.2.3:80"),
        ("http://100.64.0.9:1", "http://100.64.0.9:1", None),
        ("https://8.8.8.8/x", "https://8.8.8.8/x", None),
    ],
)
def test_an_address_has_one_spelling(url: str, expected: str, origin: str | None) -> None:
    address = parse_address(url)
    assert address.url == expected
    assert origin is None or address.origin == origin
    assert parse_address(address.url) == address


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("", "bad_address"),
        ("localhost:11434", "bad_address"),
        ("ftp://localhost", "bad_address"),
        ("file:///etc/passwd", "bad_address"),
        ("http://", "bad_address"),
        ("http://host:port", "bad_address"),
        ("http://host:0", "bad_address"),
        ("http://host:70000", "bad_address"),
        ("http://host/a?b=c", "bad_address"),
        ("http://host/a#b", "bad_address"),
        ("http://ho st", "bad_address"),
        ("http://host\r\nX: y", "bad_address"),
        ("http://höst", "bad_address"),
        (f"http://{'a' * 70}.example", "bad_address"),
        ("http://[::1", "bad_address"),
        ("https://169.254.169.254/latest", "forbidden_address"),
        ("http://169.254.169.254", "forbidden_address"),
        ("http://[fe80::1%25eth0]", "forbidden_address"),
        ("http://[::ffff:169.254.169.254]", "forbidden_address"),
        ("http://8.8.8.8", "forbidden_address"),
        ("http://[2606:4700::1111]", "forbidden_address"),
    ],
)
def test_an_address_that_must_not_be_asked_is_refused(url: str, code: str) -> None:
    with pytest.raises(ConfigError, check=has_code(code, url)):
        parse_address(url)


@pytest.mark.parametrize("url", ["http://me:s3cret@localhost", "https://s3cret@example.com/v1"])
def test_a_password_in_an_address_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ConfigError, check=has_code("password_in_address", "")) as caught:
        parse_address(url)
    assert "s3cret" not in str(caught.value)


@given(st.text())
def test_any_text_is_an_address_or_an_error(text: str) -> None:
    for url in (text, f"http://{text}"):
        try:
            address = parse_address(url)
        except ConfigError:
            continue
        assert parse_address(address.url) == address


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.9.9.9", "x.localhost"])
def test_this_machine_has_one_name_in_a_space(host: str) -> None:
    address = parse_address(f"http://{host}:11434/v1")
    assert address.is_loopback
    assert address.identity == "http://localhost:11434/v1"


def found_at(*numbers: str) -> Callable[..., list[tuple[object, ...]]]:
    """A name server that gives these answers."""
    return lambda *_, **__: [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (number, 80)) for number in numbers
    ]


@pytest.mark.parametrize(
    ("url", "numbers"),
    [
        ("http://gpu.example", ["10.0.0.1", "8.8.8.8"]),
        ("https://metadata.example", ["169.254.169.254"]),
        ("http://2852039166", ["169.254.169.254"]),
        ("https://six.example", ["fe80::1%eth0"]),
    ],
)
def test_a_name_that_leads_to_a_forbidden_place_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, url: str, numbers: list[str]
) -> None:
    # A name server is the one boundary that a test cannot hold.
    monkeypatch.setattr(socket, "getaddrinfo", found_at(*numbers))
    with pytest.raises(EmbedderError, check=has_code("forbidden_address", url)):
        Client("Test", parse_address(url)).get("/")


def test_a_name_in_a_private_network_may_be_asked_in_the_clear(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", found_at("192.168.1.5"))
    assert parse_address("http://gpu").endpoints() == [(socket.AF_INET, ("192.168.1.5", 80))]


def test_every_address_of_a_name_is_tried(
    monkeypatch: pytest.MonkeyPatch, server: EmbeddingServer
) -> None:
    other = EmbeddingServer()
    other.fault = "refuse"
    places = [(socket.AF_INET, ("127.0.0.1", each.port)) for each in (other, server)]
    monkeypatch.setattr(Address, "endpoints", lambda _: places)
    assert client(server).get("/api/tags")
    other.close()


def test_a_host_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(EmbedderError, match=r"nowhere\.example/v1", check=has_code("unknown_host")):
        Client("Test", parse_address("https://nowhere.example/v1")).get("/models")


def test_other_trouble_of_the_network_has_a_sentence(
    monkeypatch: pytest.MonkeyPatch, server: EmbeddingServer
) -> None:
    def unreachable(*_: object) -> None:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(Address, "endpoints", unreachable)
    with pytest.raises(EmbedderError, check=has_code("unreachable")):
        client(server).get("/")


# -- proxies -------------------------------------------------------------------------------


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    # macOS and Windows keep theirs elsewhere, too.
    from urllib import request

    for name in ("getproxies", "proxy_bypass"):
        monkeypatch.setattr(request, name, getattr(request, f"{name}_environment"))
    return monkeypatch


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("https://api.example/v1", Address("http", "proxy.example", 3128, "", "me:p w")),
        ("https://inside.example/v1", None),
        ("https://localhost/v1", None),
        ("https://127.0.0.1/v1", None),
        ("http://10.0.0.1/v1", None),
    ],
)
def test_the_systems_proxy_counts_for_other_hosts_over_https(
    no_proxies: pytest.MonkeyPatch, url: str, proxy: Address | None
) -> None:
    no_proxies.setenv("https_proxy", "http://me:p%20w@proxy.example:3128/")
    no_proxies.setenv("http_proxy", "http://other.example")
    no_proxies.setenv("no_proxy", "inside.example")
    assert parse_address(url).proxy() == proxy


def test_without_a_proxy_there_is_none(no_proxies: pytest.MonkeyPatch) -> None:
    assert parse_address("https://api.example").proxy() is None
    no_proxies.setenv("https_proxy", "proxy.example:8080")
    assert parse_address("https://api.example").proxy() == Address("http", "proxy.example", 8080)


def test_a_proxy_of_another_kind_is_refused_without_its_password(
    no_proxies: pytest.MonkeyPatch,
) -> None:
    no_proxies.setenv("https_proxy", "socks5://me:s3cret@proxy.example")
    with pytest.raises(ConfigError, check=has_code("bad_proxy")) as caught:
        parse_address("https://api.example").proxy()
    assert "s3cret" not in str(caught.value)


class Proxy:
    """Takes one connection, keeps what it was sent, and gives one answer."""

    def __init__(self, answer: bytes) -> None:
        self.asked = b""
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://me:pw@127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection, suppress(ConnectionError):
            while b"\r\n\r\n" not in self.asked:
                self.asked += connection.recv(4096)
            connection.sendall(self._answer)
            while piece := connection.recv(4096):
                self.asked += piece
                connection.sendall(b"HTTP/1.1 400 this is not TLS\r\n\r\n")

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._listener.close()


def test_a_proxy_that_refuses_is_named_and_never_sees_the_key(
    no_proxies: pytest.MonkeyPatch,
) -> None:
    with Proxy(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n") as proxy:
        no_proxies.setenv("https_proxy", proxy.url)
        asking = Client("Test", parse_address("https://api.example/v1"), key=lambda _: KEY)
        with pytest.raises(EmbedderError, check=has_code("proxy_failed")) as caught:
            asking.post("/embeddings", QUESTION)
    assert proxy.asked.startswith(b"CONNECT api.example:443 HTTP/1.1\r\nHost: api.example:443\r\n")
    assert b"Proxy-Authorization: Basic bWU6cHc=" in proxy.asked
    assert KEY.encode() not in proxy.asked
    assert "pw" not in str(caught.value)


def test_behind_a_proxy_the_other_host_must_still_prove_who_it_is(
    no_proxies: pytest.MonkeyPatch,
) -> None:
    with Proxy(b"HTTP/1.1 200 go ahead\r\n\r\n") as proxy:
        no_proxies.setenv("https_proxy", proxy.url.replace("me:pw@", ""))
        asking = Client("Test", parse_address("https://api.example/v1"), key=lambda _: KEY)
        with pytest.raises(EmbedderError, check=has_code("unsafe_connection")):
            asking.post("/embeddings", QUESTION)
    assert b"Proxy-Authorization" not in proxy.asked
    assert KEY.encode() not in proxy.asked


# -- TLS -----------------------------------------------------------------------------------


def test_a_server_without_tls_is_not_sent_anything(server: EmbeddingServer) -> None:
    asking = Client("Test", parse_address(server.tls_url), key=lambda _: KEY)
    with pytest.raises(EmbedderError, check=has_code("unsafe_connection")):
        asking.get("/models")
    assert server.requests == []


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for localhost that nobody vouches for, with its key."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is needed to make a certificate")
    file = tmp_path / "both.pem"
    words = "req -x509 -nodes -days 2 -subj /CN=localhost -newkey rsa:2048"
    names = ["-addext", "subjectAltName=DNS:localhost"]
    made = subprocess.run(
        [program, *words.split(), *names, "-keyout", file, "-out", tmp_path / "cert.pem"],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("this openssl makes no such certificate")
    with file.open("ab") as both:
        both.write((tmp_path / "cert.pem").read_bytes())
    return file


def one_tls_answer(certificate: Path) -> tuple[int, Thread]:
    """A server that answers one request over TLS, and the port it listens on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener:
            connection, _ = listener.accept()
            try:
                with context.wrap_socket(connection, server_side=True) as safe:
                    safe.recv(4096)
                    safe.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            except OSError:
                connection.close()

    thread = Thread(target=serve)
    thread.start()
    return listener.getsockname()[1], thread


def test_a_certificate_that_nobody_vouches_for_is_refused(certificate: Path) -> None:
    port, thread = one_tls_answer(certificate)
    with pytest.raises(EmbedderError, match="self", check=has_code("unsafe_connection")):
        Client("Test", parse_address(f"https://localhost:{port}")).get("/")
    thread.join()


@pytest.mark.parametrize(("host", "is_right"), [("localhost", True), ("127.0.0.1", False)])
def test_a_trusted_certificate_counts_for_its_own_host_only(
    certificate: Path, monkeypatch: pytest.MonkeyPatch, host: str, is_right: bool
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_name("cert.pem")))
    port, thread = one_tls_answer(certificate)
    asking = Client("Test", parse_address(f"https://{host}:{port}"))
    if is_right:
        assert asking.get("/") == {}
    else:
        with pytest.raises(EmbedderError, check=has_code("unsafe_connection")):
            asking.get("/")
    thread.join()


# -- requests ------------------------------------------------------------------------------


def test_a_request_carries_json_the_key_and_no_wish_for_packing(server: EmbeddingServer) -> None:
    asked: list[str] = []

    def key(origin: str) -> str:
        asked.append(origin)
        return f" {KEY}\n"

    asking = Client("Test", parse_address(server.openai_url), key=key)
    answer = asking.post("/embeddings", QUESTION)
    asking.get("/models")
    assert isinstance(answer, dict)
    assert [row["index"] for row in answer["data"]] == [0, 1]
    sent, listed = server.requests
    assert (sent.method, sent.path, sent.body) == ("POST", "/v1/embeddings", QUESTION)
    assert sent.headers["authorization"] == listed.headers["authorization"] == f"Bearer {KEY}"
    assert sent.headers["accept-encoding"] == "identity"
    assert sent.headers["host"] == f"127.0.0.1:{server.port}"
    assert asked == [f"http://127.0.0.1:{server.port}"]


def test_without_a_key_none_is_sent(server: EmbeddingServer) -> None:
    Client("Test", parse_address(server.url)).get("/api/tags")
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize("bad", ["sk\r\nX-Evil: 1", "sk\0", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(
    server: EmbeddingServer, bad: str
) -> None:
    asking = Client("Test", parse_address(server.url), key=lambda _: bad)
    with pytest.raises(EmbedderError, check=has_code("bad_key")) as caught:
        asking.get("/api/tags")
    assert bad[:2] not in str(caught.value).replace("characters", "")
    assert server.requests == []


def test_a_long_body_goes_out_whole(server: EmbeddingServer) -> None:
    text = "long " * 100_000
    client(server).post("/api/embed", {"model": "nomic-embed-text", "input": [text]})
    assert server.requests[0].texts == [text]


# -- faults --------------------------------------------------------------------------------

CODES = {
    "refuse": "not_running",
    "429": "refused",
    "500": "refused",
    "401": "bad_key",
    "403": "bad_key",
    "redirect": "redirected",
    "missing": "refused",
    "truncated": "not_json",
    "short-body": "connection_lost",
    "html": "not_json",
    "empty": "not_json",
    "not-http": "not_http",
    "deep": "not_json",
    "gzip": "compressed_answer",
    "huge": "answer_too_large",
    "huge-announced": "answer_too_large",
    "reset": "connection_lost",
}
ADVICE = {"401": SET_KEY, "403": SET_KEY, "redirect": advise("set_address")}


@pytest.mark.parametrize("fault", CODES)
def test_every_fault_has_a_code_and_a_sentence_that_names_the_server(
    server: EmbeddingServer, fault: str
) -> None:
    server.fault = fault
    with pytest.raises(EmbedderError, check=has_code(CODES[fault])) as caught:
        client(server, body=1_000_000).post("/api/embed", QUESTION)
    assert str(caught.value).startswith(f"Test at {server.url}")
    assert caught.value.advice == ADVICE.get(fault)


@pytest.mark.parametrize("fault", ["hang", "drip", "drip-head"])
def test_neither_silence_nor_trickling_is_waited_for(server: EmbeddingServer, fault: str) -> None:
    server.fault = fault
    with pytest.raises(TooSlow, match=r"did not answer within 0\.3 s"):
        client(server, whole=0.3).post("/api/embed", QUESTION, patient=True)
    assert len(server.requests) <= 1


@pytest.mark.parametrize(("left", "silence"), [(5.0, 30.0), (600.0, 30.0)])
def test_no_step_may_take_longer_than_what_is_left(left: float, silence: float) -> None:
    line = _Line(parse_address("http://localhost"), monotonic() + left, silence)
    with pytest.raises(TimeoutError):
        line._ready()
    with socket.socket() as line._socket:
        assert 0 < (line._ready().gettimeout() or 0.0) <= min(left, silence)
        line._until = monotonic() - 1.0
        with pytest.raises(TimeoutError):
            line._ready()


def test_silence_has_its_own_limit(server: EmbeddingServer) -> None:
    server.fault = "hang"
    with pytest.raises(TooSlow, match=r"did not answer within 0\.1 s"):
        client(server, silence=0.1).post("/api/embed", QUESTION)


def test_a_redirect_is_not_followed_and_the_key_stays_here(server: EmbeddingServer) -> None:
    server.fault = "redirect"
    with pytest.raises(EmbedderError, check=has_code("redirected")):
        client(server).post("/api/embed", QUESTION, patient=True)
    assert len(server.requests) == 1
    assert server.elsewhere.requests == []


@pytest.mark.parametrize("location", ["", "/login", "http://[", "http://evil\x1b.example/"])
def test_a_redirect_to_nowhere_in_particular_is_one_too(
    server: EmbeddingServer, location: str
) -> None:
    with pytest.raises(EmbedderError, match=r"redirects to [a-z .]+ plait") as caught:
        client(server)._refuse_redirect(location)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("fault", "tries"),
    [("429", 3), ("500", 3), ("reset", 3), ("short-body", 3), ("401", 1), ("html", 1)],
)
def test_only_passing_troubles_are_tried_again_and_not_for_ever(
    server: EmbeddingServer, fault: str, tries: int
) -> None:
    server.fault = fault
    pauses: list[float] = []
    with pytest.raises(EmbedderError):
        client(server, sleep=pauses.append).post("/api/embed", QUESTION, patient=True)
    assert len(server.requests) == tries
    assert len(pauses) == tries - 1


@pytest.mark.parametrize("fault", PASSING)
def test_what_passes_is_sat_out_for_the_patient_alone(server: EmbeddingServer, fault: str) -> None:
    server.fault = fault
    with pytest.raises((Refused, ConnectionLost)):
        client(server).post("/api/embed", QUESTION)
    server.fault = None
    server.fault = fault
    assert client(server).post("/api/embed", QUESTION, patient=True)


@pytest.mark.parametrize("rolled", [0.0, 0.5, 1.0])
def test_pauses_grow_and_differ(server: EmbeddingServer, rolled: float) -> None:
    server.fault = "500"
    pauses: list[float] = []
    limits = Limits(tries=4, sleep=pauses.append, dice=lambda: rolled)
    with pytest.raises(Refused):
        Client("Test", parse_address(server.url), limits=limits).post("/", QUESTION, patient=True)
    assert pauses == [(0.5 + rolled) * pause for pause in (1.0, 2.0, 4.0)]


def test_a_wish_for_patience_is_granted_within_reason(server: EmbeddingServer) -> None:
    server.fault = "429"
    server.retry_after = "7"
    pauses: list[float] = []
    with pytest.raises(Refused):
        client(server, sleep=pauses.append, dice=lambda: 0.5).post("/", QUESTION, patient=True)
    assert pauses == [7.05, 7.05]
    server.retry_after = str(int(LONGEST_WAIT) + 1)
    server.requests.clear()
    with pytest.raises(Refused):
        client(server, sleep=pauses.append).post("/", QUESTION, patient=True)
    assert len(server.requests) == 1
    assert len(pauses) == 2


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(None, None), ("3", 3.0), (" 0.5 ", 0.5), ("soon", None), ("-1", None), ("٣", None)],
)
def test_retry_after_is_read_as_seconds(value: str | None, seconds: float | None) -> None:
    assert _retry_after(value) == seconds


def test_retry_after_is_read_as_a_date() -> None:
    assert _retry_after(formatdate(0, usegmt=True)) == 0.0
    wait = _retry_after(formatdate(4_000_000_000, usegmt=True))
    assert wait is not None
    assert wait > LONGEST_WAIT
    assert _retry_after("Thu, 41 Jan 2026 00:00:00 GMT") is None


@pytest.mark.parametrize(
    ("fault", "too_large"), [("batch-limit", True), ("batch-limit-422", True), ("500", False)]
)
def test_what_is_too_large_is_told_apart_and_not_repeated(
    server: EmbeddingServer, fault: str, too_large: bool
) -> None:
    server.fault = fault
    server.most_texts = 1
    with pytest.raises(Refused) as caught:
        client(server).post("/api/embed", QUESTION, patient=True)
    assert caught.value.too_large is too_large
    assert len(server.requests) == (1 if too_large else 3)


# -- words of the server -------------------------------------------------------------------


def test_the_key_is_masked_where_a_server_repeats_it(server: EmbeddingServer) -> None:
    server.message = f"quota of {KEY} is used up"
    for fault in ("500", "401"):
        server.fault = fault
        with pytest.raises(Refused) as caught:
            client(server).post("/api/embed", QUESTION)
        assert KEY not in str(caught.value)
    server.fault = "500"
    with pytest.raises(Refused, match=r"quota of … is used up"):
        client(server).post("/api/embed", QUESTION)


def test_a_missing_key_is_told_from_a_refused_one(server: EmbeddingServer) -> None:
    server.fault = "401"
    keys: list[str | None] = [None, KEY]
    asking = Client("Test", parse_address(server.url), key=lambda _: keys.pop(0))
    with pytest.raises(Refused, check=has_code("no_key")):
        asking.get("/api/tags")
    with pytest.raises(Refused, check=has_code("bad_key")):
        asking.get("/api/tags")


def test_a_key_that_was_refused_is_looked_up_again(server: EmbeddingServer) -> None:
    keys = ["old", "new"]
    asking = Client("Test", parse_address(server.url), key=lambda _: keys.pop(0))
    server.fault = "401"
    with pytest.raises(Refused, check=has_code("bad_key")):
        asking.get("/api/tags")
    server.fault = None
    asking.get("/api/tags")
    assert [request.headers["authorization"] for request in server.requests] == [
        "Bearer old",
        "Bearer new",
    ]


@pytest.mark.parametrize(
    ("body", "server_text"),
    [
        (b'{"error": "no such model"}', "no such model"),
        (b'{"error": {"message": "too fast", "code": 1}}', "too fast"),
        (b'{"message": "broken"}', "broken"),
        (b'{"detail": "Not Found"}', "Not Found"),
        (b'{"error": "one\\n\\ttwo\\u001b[31m"}', "one two [31m"),
        (b'{"error": 7}', ""),
        (b'["error"]', ""),
        (b"<html>secret page</html>", ""),
        (b"", ""),
    ],
)
def test_of_an_error_only_the_sentence_for_people_is_repeated(
    server: EmbeddingServer, body: bytes, server_text: str
) -> None:
    assert client(server)._server_text(body) == server_text


@given(st.text())
def test_a_servers_words_are_one_short_printable_line(words: str) -> None:
    line = _clean(words)
    assert len(line) <= SERVER_TEXT_CHARS
    assert line.isprintable()
    assert "\n" not in line


def test_a_packed_error_is_not_unpacked(server: EmbeddingServer) -> None:
    answer = b"HTTP/1.1 500 oh\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(answer)

    thread = Thread(target=serve)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(Refused, match=r"answered HTTP 500$"):
        Client("Test", parse_address(url)).get("/")
    thread.join()
    listener.close()


def test_the_server_of_the_tests_knows_its_faults() -> None:
    assert len(set(FAULTS)) == len(FAULTS) >= 20
    assert set(HARMLESS) | set(PASSING) | set(CODES) <= set(FAULTS)
    assert addressing.DEFAULT_PORTS["https"] == 443


@pytest.mark.parametrize(
    "echo", [KEY, KEY.upper(), f"Bearer {KEY[:12]}…", f"bad key '{KEY[3:15]}'", f"{KEY}.{KEY}"]
)
def test_no_part_of_the_key_comes_back_in_a_server_s_own_words(
    server: EmbeddingServer, echo: str
) -> None:
    server.fault, server.message = "500", f"cannot serve {echo} today"
    with pytest.raises(EmbedderError) as caught:
        client(server).post("/api/embed", QUESTION)
    message = str(caught.value).lower()
    assert "cannot serve" in message
    assert "today" in message
    assert not any(KEY[at : at + 8].lower() in message for at in range(len(KEY) - 7))


def test_too_many_tokens_a_minute_are_waited_for_and_nothing_is_cut(
    server: EmbeddingServer,
) -> None:
    server.fault, server.retry_after = "429-once", "1"
    server.message = "Too many tokens, please wait before trying again."
    pauses: list[float] = []
    limits = {"sleep": pauses.append, "dice": lambda: 0.0}
    client(server, **limits).post("/api/embed", QUESTION, patient=True)
    assert pauses == [1.0]
    assert [request.body for request in server.requests] == [QUESTION] * 2
