"""The address of a server that embeds or chats, and whether text may be sent there.

Plain http is allowed for this machine and private networks only. Link-local addresses are refused:
clouds serve credentials there.
"""

from typing import TYPE_CHECKING

from plait.errors import ConfigError, EmbedderError
from plait.types.records import NamedTuple

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

DEFAULT_PORTS = {"http": 80, "https": 443}
# A socket's family, and the IP address and port to connect to.
Endpoint = tuple[int, tuple[str, int]]


class Address(NamedTuple):
    """The parts of a base URL. Only a proxy has ``credentials``."""

    scheme: str
    host: str
    port: int
    path: str = ""
    credentials: str = ""

    @property
    def origin(self) -> str:
        """Scheme, host and port: a key belongs to these three.

        >>> parse_address("https://API.openai.com/v1/").origin
        'https://api.openai.com:443'
        """
        return f"{self.scheme}://{self._bracketed(self.host)}:{self.port}"

    @property
    def netloc(self) -> str:
        """Host and port; the default port is left out."""
        host = self._bracketed(self.host)
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The base URL in normal form.

        >>> parse_address("HTTP://localhost:80/v1/").url
        'http://localhost/v1'
        """
        return f"{self.scheme}://{self.netloc}{self.path}"

    @property
    def identity(self) -> str:
        """The base URL, with ``localhost`` for each spelling of this machine.

        >>> parse_address("http://127.0.0.1:11434").identity
        'http://localhost:11434'
        """
        return self._replace(host="localhost").url if self.is_loopback else self.url

    @property
    def is_loopback(self) -> bool:
        """Whether the name means this machine."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        number = _number(self.host)
        return number is not None and number.is_loopback

    def endpoints(self) -> list[Endpoint]:
        """Look up the IP addresses to connect to.

        Raises:
            EmbedderError: The name resolves to an address that must not be used.
        """
        endpoints = look_up(self.host, self.port)
        for _, (number, _) in endpoints:
            objection = _objection(self.scheme, _number(number))
            if objection:
                raise EmbedderError(
                    f"Nothing is sent to {self.url}: {number} {objection}.",
                    code="forbidden_address",
                    subject=self.url,
                )
        return endpoints

    def proxy(self) -> "Address | None":
        """Return the system's proxy for this address.

        Plain http has none: it is used on this machine and in private networks only.

        Raises:
            ConfigError: plait does not support this kind of proxy.
        """
        if self.scheme != "https" or self.is_loopback:
            return None
        from urllib.request import getproxies, proxy_bypass

        given = getproxies().get("https")
        if not given or proxy_bypass(self.host):
            return None
        return _parse_proxy(given)

    @staticmethod
    def _bracketed(host: str) -> str:
        return f"[{host}]" if ":" in host else host


def parse_address(url: str) -> Address:
    """Parse a base URL.

    Raises:
        ConfigError: It is not the URL of a server, or text must not be sent there.
    """
    if "@" in url.partition("://")[2].partition("/")[0]:
        # The URL is stored with the vectors, where a password does not stay secret.
        raise ConfigError(
            "The URL of a server may not contain a user name or password. Use a key instead.",
            code="password_in_address",
        )
    address = _split(url)
    objection = _objection(address.scheme, _number(address.host))
    if objection:
        raise ConfigError(
            f"'{url}' cannot be used: {address.host} {objection}.",
            code="forbidden_address",
            subject=url,
        )
    return address


def _split(url: str, schemes: tuple[str, ...] = ("http", "https")) -> Address:
    from urllib.parse import unquote, urlsplit

    wrong = ConfigError(
        f"'{url}' is not the address of a server, such as https://example.com/v1.",
        code="bad_address",
        subject=url,
    )
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise wrong
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode()
        port = parts.port
    except ValueError as error:
        raise wrong from error
    if parts.scheme not in schemes or not host or port == 0 or parts.query or parts.fragment:
        raise wrong
    name, password = unquote(parts.username or ""), unquote(parts.password or "")
    return Address(
        parts.scheme,
        host,
        DEFAULT_PORTS[parts.scheme] if port is None else port,
        parts.path.rstrip("/"),
        f"{name}:{password}" if name else "",
    )


def _parse_proxy(given: str) -> Address:
    try:
        address = _split(given if "://" in given else f"http://{given}", ("http",))
    except ConfigError as error:
        # The proxy's text is left out: it may contain a password.
        raise ConfigError(
            "The system's https proxy does not start with http://.", code="bad_proxy"
        ) from error
    return address._replace(path="")


def look_up(host: str, port: int) -> list[Endpoint]:
    """Return all IP addresses that a host name resolves to."""
    import socket

    return [
        (family, (str(address[0]), port))
        for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    ]


def _number(host: str) -> "IPv4Address | IPv6Address | None":
    """Parse the host as an IP address, if it is one; IPv4 mapped into IPv6 becomes IPv4."""
    from ipaddress import ip_address

    try:
        number = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(number, "ipv4_mapped", None) or number


def _objection(scheme: str, number: "IPv4Address | IPv6Address | None") -> str:
    if number is None:
        return ""
    if number.is_link_local:
        return "is a link-local address"
    if scheme == "http" and number.is_global:
        return "is on the internet, which needs https"
    return ""
