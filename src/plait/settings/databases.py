"""Settings that name a database instead of a file: plait's own, and ZeroClaw's."""

from typing import Any

from plait.errors import ConfigError, UsageError, advise
from plait.types.ids import is_address

POSTGRES_NAMES = ("postgres", "postgresql", "pg")
# Below `[storage.provider.config]`. The last three are older names of the first.
_ADDRESS_NAMES = ("db_url", "dbURL", "database_url", "databaseUrl")
_EXAMPLE = "postgresql://you@server/database"


def parse_address(raw: str, origin: str = "") -> str:
    """Return the address of a database; what is printed of it has no password.

    Raises:
        ConfigError: It cannot be read, or is of an engine that plait does not have. The message
            does not repeat it: it may have a password.
    """
    from plait.stores.postgres.address import ShownAddress

    if isinstance(raw, ShownAddress):
        return raw
    where = f" ({origin})" if origin else ""
    if "://" not in raw:
        raise ConfigError(
            f"This is neither a file nor the address of a database{where}; an address is written "
            f"{_EXAMPLE}.",
            code="bad_address",
            subject="db_path",
        )
    scheme, _, rest = raw.strip().partition("://")
    # A folder may be called so, but nobody means that.
    address = f"{scheme.lower()}://{rest}"
    if not is_address(address):
        raise ConfigError(
            f"plait has no engine for {scheme[:20]}://{where}. A memory is a file, or in "
            f"PostgreSQL: {_EXAMPLE}.",
            code="unknown_engine",
            subject=scheme[:20],
            advice=advise("choose_file"),
        )
    try:
        return ShownAddress.of(address)
    except UsageError as error:
        raise ConfigError(
            error.notice.text + where, code=error.notice.code, subject="db_path"
        ) from None


def without_passwords(text: str) -> str:
    """Return a text in which no address of a server has a password.

    >>> without_passwords("Unknown: 'postgres://ana:a/b@db/x?password=c'.")
    "Unknown: 'postgres://ana@db/x?password=…"
    """
    return " ".join(map(_without_password, text.split(" ")))


def _without_password(word: str) -> str:
    start, mark, rest = word.partition("://")
    login, at, place = rest.rpartition("@")
    if at:
        word = f"{start}{mark}{login.partition(':')[0]}@{place}"
    kept, name, _ = word.partition("password=")
    return f"{kept}{name}…" if name and mark else word


def settle_backend(values: dict[str, Any], origins: dict[str, str]) -> None:
    """Complete the engine, which the place of the memory decides.

    Raises:
        ConfigError: PostgreSQL is wanted, but nothing says where.
    """
    if values.get("backend") == "none" or not values["db_path"]:
        return  # off, or only a part of the settings
    named = is_address(values["db_path"])
    wanted = values.get("backend", "sqlite") == "postgres"
    if named == wanted:
        return
    if wanted and origins.get("db_path", "default") == "default":
        raise missing_address(origins["backend"])
    values["backend"] = "postgres" if named else "sqlite"
    origins["backend"] = origins["db_path"]


def missing_address(origin: str) -> ConfigError:
    """Return the error for PostgreSQL without a place."""
    return ConfigError(
        f"PostgreSQL is chosen ({origin}), but no address: set db_path, for example {_EXAMPLE}.",
        code="no_address",
        subject=origin,
    )


def wants_database(data: dict[str, Any]) -> bool:
    """Tell whether ZeroClaw's ``[storage.provider.config]`` asks for PostgreSQL."""
    return str(_storage(data).get("provider")).strip().lower() in POSTGRES_NAMES


def database_of(data: dict[str, Any], path: str) -> str | None:
    """Return the address in ZeroClaw's ``[storage.provider.config]``, if it asks for PostgreSQL.

    Raises:
        ConfigError: It does, but has no address.
    """
    if not wants_database(data):
        return None
    table = _storage(data)
    given = next((table[name] for name in _ADDRESS_NAMES if table.get(name)), None)
    if not isinstance(given, str) or not is_address(given.strip().lower()):
        raise missing_address(path)
    return given


def _storage(data: dict[str, Any]) -> dict[str, Any]:
    table: Any = data
    for key in ("storage", "provider", "config"):
        table = table.get(key) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}
