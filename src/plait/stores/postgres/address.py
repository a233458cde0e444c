"""Where a memory is: the address of a database, and the name of a memory in it."""

from typing import Self
from urllib.parse import quote, unquote, urlsplit

from plait.errors import UsageError
from plait.types.records import NamedTuple

DEFAULT_NAMESPACE = "default"
MAX_NAMESPACE_CHARS = 200
LAST_PORT = 65_535
_NAMESPACE = "namespace"
_HEXADECIMAL = frozenset("0123456789abcdefABCDEF")
# Options that name the place and not who may enter it; no other is shown, it may be a password.
_SHOWN = (
    *("host", "hostaddr", "port", "dbname", "user", "service", "passfile"),
    *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "channel_binding", "gssencmode"),
    *("target_session_attrs", "load_balance_hosts", "connect_timeout", "application_name"),
)


class DatabaseAddress(NamedTuple):
    """A database as its driver takes it, the name of a memory, and both as they may be shown."""

    dsn: str
    namespace: str
    shown: str


class ShownAddress(str):
    """An address without what may not be shown; only ``whole`` has that, and opens the memory.

    >>> address = ShownAddress.of("postgresql://ana:geheim@db/team")
    >>> print(address, repr(address), address.whole)
    postgresql://ana@db/team 'postgresql://ana@db/team' postgresql://ana:geheim@db/team
    """

    __slots__ = ("whole",)
    whole: str

    @classmethod
    def of(cls, address: str) -> Self:
        """Return an address as it may be shown.

        Raises:
            UsageError: It is not one.
        """
        if isinstance(address, cls):
            return address
        shown = cls(parse(address).shown)
        shown.whole = address
        return shown

    @property
    def has_secret(self) -> bool:
        """Whether something of it is not shown, so that the rest may not open the memory."""
        return parse(self.whole).dsn != parse(str(self)).dsn


def parse(address: str) -> DatabaseAddress:
    """Split an address into its parts.

    >>> parse("postgresql://ana:geheim@db/team?namespace=shop&sslmode=require").shown
    'postgresql://ana@db/team?sslmode=require&namespace=shop'

    Raises:
        UsageError: It is not one.
    """
    address = getattr(address, "whole", address)
    if not address.isprintable():
        raise _bad("it has a character that cannot be printed")
    # subtle: what the driver says of it would repeat it, and it may be in a password.
    if any(not _is_escape(part[:2]) for part in address.split("%")[1:]):
        raise _bad("a % in it is written as %25, and no character is NUL")
    try:
        parts = urlsplit(address)
    except ValueError:  # subtle: its message may repeat a part of a password
        raise _bad("it has brackets or characters that no address has") from None
    login, at, hosts = parts.netloc.rpartition("@")
    # A password with one of these ends before its end, and the rest would be shown as a place.
    # subtle: libpq ends it at the first @, this function at the last one.
    misplaced = "@" in login + parts.path + parts.query
    if misplaced or parts.fragment or not _are_hosts(hosts):
        raise _bad(
            "write @ : / ? # and % in a user name or a password as %40 %3A %2F %3F %23 and %25"
        )
    options = [pair for pair in parts.query.split("&") if pair]
    if any("=" not in pair for pair in options):
        raise _bad("each of its options is written name=value")
    names = [pair for pair in options if pair.startswith(f"{_NAMESPACE}=")]
    if len(names) > 1:
        raise _bad("it has two names of a memory")
    namespace = unquote(names[-1].partition("=")[2]) if names else DEFAULT_NAMESPACE
    if not namespace or len(namespace) > MAX_NAMESPACE_CHARS or not namespace.isprintable():
        raise UsageError(
            f"The name of a memory has 1 to {MAX_NAMESPACE_CHARS} printable characters.",
            code="bad_namespace",
            subject=namespace[:MAX_NAMESPACE_CHARS],
        )
    # subtle: the driver reads a plus sign as one, so options stay as they were written.
    others = [pair for pair in options if pair not in names]
    public = [pair for pair in others if pair.partition("=")[0] in _SHOWN]
    if namespace != DEFAULT_NAMESPACE:
        public.append(f"{_NAMESPACE}={quote(namespace, safe='')}")
    place = f"{login.partition(':')[0]}{at}{hosts}"
    return DatabaseAddress(
        _written(parts.netloc, parts.path, others), namespace, _written(place, parts.path, public)
    )


def _is_escape(digits: str) -> bool:
    """Tell whether these stand for a character, after a percent sign."""
    return len(digits) == 2 and digits != "00" and _HEXADECIMAL.issuperset(digits)


def _are_hosts(hosts: str) -> bool:
    """Tell whether these are hosts with their ports, and not the beginning of a password."""
    return all(
        not port or (port.isdecimal() and int(port) <= LAST_PORT)
        for host in hosts.split(",")
        for port in [host.rpartition("]")[2].partition(":")[2]]
    )


def _written(netloc: str, path: str, options: list[str]) -> str:
    # By hand: `urlunsplit` leaves the slashes before a missing host out.
    return f"postgresql://{netloc}{path}{'?' if options else ''}{'&'.join(options)}"


def _bad(reason: str) -> UsageError:
    return UsageError(f"The address of the database cannot be read: {reason}.", code="bad_address")
