"""Where an embedding server is, and whether text may go there.

Plain http is for this machine and private networks only; link-local addresses, where clouds keep
their credentials, are never asked.
"""

from typing import TYPE_CHECKING, NamedTuple

from plait.errors import ConfigError, EmbedderError

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

DEFAULT_PORTS = {"http": 80, "https": 443}
# A socket's family, and the address and port to connect to.
Place = tuple[int, tuple[str, int]]


class Address(NamedTuple):
    """A base URL, taken apart. Only a proxy's has ``credentials``."""

    scheme: str
    host: str
    port: int
    path: str = ""
    credentials: str = ""

    @property
    def origin(self) -> str:
        """What a key belongs to.

        >>> parse_address("https://API.openai.com/v1/").origin
        'https://api.openai.com:443'
        """
        return f"{self.scheme}://{self._bracketed(self.host)}:{self.port}"

    @property
    def netloc(self) -> str:
        """Host and port as a browser shows them."""
        host = self._bracketed(self.host)
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The base URL in its one spelling.

        >>> parse_address("HTTP://localhost:80/v1/").url
        'http://localhost/v1'
        """
        return f"{self.scheme}://{self.netloc}{self.path}"

    @property
    def identity(self) -> str:
        """The base URL with one name for this machine, which people spell in three ways.

        >>> parse_address("http://127.0.0.1:11434").identity
        'http://localhost:11434'
        """
        return self._replace(host="localhost").url if self.is_loopback else self.url

    @property
    def is_loopback(self) -> bool:
        """Whether it is this machine, going by its name."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        number = _number(self.host)
        return number is not None and number.is_loopback

    def places(self) -> list[Place]:
        """Where to connect to, looked up and found harmless.

        Raises:
            EmbedderError: The name leads to a place that must not be asked.
        """
        found = addresses(self.host, self.port)
        for _, (number, _) in found:
            objection = _objection(self.scheme, _number(number))
            if objection:
                raise EmbedderError(f"{self.url} is not asked: {number} {objection}.")
        return found

    def proxy(self) -> "Address | None":
        """The system's proxy for this address.

        Plain http has none: it goes to this machine and to private networks only.

        Raises:
            ConfigError: The proxy is of a kind that plait does not speak to.
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
    """A base URL as an address.

    Raises:
        ConfigError: It is no URL that an embedding server could have.
    """
    if "@" in url.partition("://")[2].partition("/")[0]:
        # The URL is stored beside every vector, so whatever is in it is no secret.
        raise ConfigError("An embedder's URL may not hold a name or password. Use a key instead.")
    found = _split(url)
    objection = _objection(found.scheme, _number(found.host))
    if objection:
        raise ConfigError(f"'{url}' cannot be an embedder: {found.host} {objection}.")
    return found


def _split(url: str, schemes: tuple[str, ...] = ("http", "https")) -> Address:
    from urllib.parse import unquote, urlsplit

    wrong = f"'{url}' is no address of a server. Write it as in https://example.com/v1"
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise ConfigError(wrong)
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode()
        port = parts.port
    except ValueError as error:
        raise ConfigError(wrong) from error
    if parts.scheme not in schemes or not host or port == 0 or parts.query or parts.fragment:
        raise ConfigError(wrong)
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
        found = _split(given if "://" in given else f"http://{given}", ("http",))
    except ConfigError as error:
        # Without its text, which may hold a password.
        raise ConfigError(
            "The system's https proxy is not one that starts with http://."
        ) from error
    return found._replace(path="")


def addresses(host: str, port: int) -> list[Place]:
    """Every place that a host name stands for."""
    import socket

    return [
        (family, (str(place[0]), port))
        for family, _, _, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    ]


def _number(host: str) -> "IPv4Address | IPv6Address | None":
    """The host as a number, where it is one; an IPv4 address stays one in IPv6 clothes."""
    from ipaddress import ip_address

    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _objection(scheme: str, number: "IPv4Address | IPv6Address | None") -> str:
    if number is None:
        return ""
    if number.is_link_local:
        return "is a link-local address"
    if scheme == "http" and number.is_global:
        return "is on the internet, where text and keys need https"
    return ""
