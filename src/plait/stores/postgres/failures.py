"""PostgreSQL's failures as plait's errors."""

import re

import psycopg
from psycopg import errors

from plait.errors import (
    DeadlineExceeded,
    PlaitError,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    UsageError,
    advise,
)

# By the class of their code (https://www.postgresql.org/docs/current/errcodes-appendix.html).
_FULL = ("53100", "53200")
_LOST = ("08", "57P01", "57P02", "57P03", "57P05", "25P03", "25P04")
_BUSY = (errors.LockNotAvailable, errors.SerializationFailure, errors.DeadlockDetected)
_REFUSED = "FATAL:"
# What libpq says of options that are shown anyway.
_BAD_VALUE = re.compile(r"invalid (sslmode|channel_binding|gssencmode|load_balance_hosts) value")
# The driver gives no code for a login that failed, only what the server says, in its language: what
# is not among these is told in the server's own words.
_WORDS = {
    "wait": (
        *("starting up", "shutting down", "in recovery mode", "not accepting connections"),
        *("not yet accepting", "terminating connection"),
    ),
    "too_many": ("too many", "connection slots"),
    "no_database": ('FATAL:  database "',),
    "login": ("authentication failed", "no password supplied", 'role "', "no pg_hba.conf entry"),
    # The way there is not as the address, or a file of the user, wants it: libpq says so.
    "option": (
        *("server does not support SSL", "certificate", "private key file", "channel binding"),
        *("GSSAPI encryption required", "definition of service", "service file"),
        *("did not complete authentication", "authentication method"),
    ),
}


def refusal(error: BaseException) -> str:
    """Return why a login failed: a name of `_WORDS`, "refused", or "" if nobody answered."""
    text = str(error)
    for name, words in _WORDS.items():
        if any(word in text for word in words):
            return name
    return "refused" if _REFUSED in text else ""


def is_passing(error: BaseException, *, was_reached: bool) -> bool:
    """Tell whether a login that failed may succeed soon.

    A server that nobody has reached yet is probably not there at all.
    """
    why = refusal(error)
    return why in ("wait", "too_many") or (was_reached and not why)


def is_lost(error: BaseException | None) -> bool:
    """Tell whether the connection was lost, so that all may be tried on another one."""
    if isinstance(error, psycopg.Error) and error.sqlstate is not None:
        return error.sqlstate.startswith(_LOST)
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def is_rivalry(error: BaseException | None) -> bool:
    """Tell whether a statement failed only because of what others do at the same time."""
    return isinstance(error, errors.SerializationFailure | errors.DeadlockDetected)


def reason(error: BaseException) -> str:
    """Return what the server, or the way to it, says, on one line and without an address."""
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        return error.diag.message_primary
    lines = [line for line in str(error).splitlines() if line.strip() and line[0] not in "\t "]
    last = lines[-1] if lines else type(error).__name__
    words = last.rpartition(" failed: ")[2].removeprefix("connection is bad: ")
    return words.removeprefix(_REFUSED).strip().rstrip(".")


def translate(error: Exception, path: str) -> PlaitError:
    """Return a failure as one of plait's errors."""
    words = reason(error)
    if isinstance(error, _BUSY):
        return StoreBusy(
            f"Another process is writing to {path} ({words}). Try again in a moment.", subject=path
        )
    if isinstance(error, errors.QueryCanceled):
        return DeadlineExceeded("The query ran past its time limit.")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return StoreReadOnly(f"{path} cannot be written: {words}.", subject=path)
    if isinstance(error, psycopg.Error) and (error.sqlstate or "").startswith(_FULL):
        return StoreFull(
            f"No space is left for {path}: {words}. Free some and retry.", subject=path
        )
    if isinstance(error, errors.ProgramLimitExceeded):
        return UsageError(
            f"A name is too long for PostgreSQL, which takes some 2,600 bytes: {words}.",
            code="not_storable",
        )
    if isinstance(error, errors.NumericValueOutOfRange | errors.UntranslatableCharacter):
        return UsageError(f"A value cannot be stored or looked up: {words}.", code="not_storable")
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreError(
            f"The server does not allow this in {path}: {words}.",
            code="not_allowed",
            subject=path,
            advice=advise("ask_for_grant"),
        )
    if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
        return StoreDamaged(f"{path} lacks a part of its tables: {words}.", subject=path)
    if is_lost(error):
        return StoreError(
            f"The connection to {path} was lost: {words}. Try again in a moment.",
            code="connection_lost",
            subject=path,
        )
    return StoreError(f"{path}: {words}", subject=path)


def unconnected(error: Exception, path: str) -> PlaitError:
    """Return why there is no connection as one of plait's errors."""
    words, why = reason(error), refusal(error)
    is_option = isinstance(error, psycopg.ProgrammingError)
    if is_option or _BAD_VALUE.search(words):
        # subtle: the driver's own words repeat a part of the address, which may be a password.
        known = "" if is_option else f" ({words})"
        return UsageError(
            "The address of the database cannot be read: one of its options has a value that it "
            f"cannot have{known}.",
            code="bad_address",
        )
    if why == "too_many":
        return StoreBusy(
            f"The server of {path} has no connection left: {words}. Try again in a moment.",
            code="too_many_connections",
            subject=path,
        )
    if why == "no_database":
        return StoreError(
            f"The server of {path} has no such database: {words}. Create it first.",
            code="no_database",
            subject=path,
        )
    if why in ("login", "refused"):
        return StoreError(
            f"The server of {path} refuses the login: {words}.",
            code="login_refused",
            subject=path,
            advice=advise("log_in"),
        )
    if why == "option":
        return StoreError(
            f"No connection to {path} as its address wants it: {words}.",
            code="no_connection",
            subject=path,
            advice=advise("check_options"),
        )
    return StoreError(
        f"The server of {path} does not answer: {words}.",
        code="no_connection",
        subject=path,
        advice=advise("reach_server"),
    )


def undecided(error: Exception, path: str) -> PlaitError:
    """Return that nobody can tell whether a write was kept."""
    return StoreError(
        f"The connection to {path} was lost while a write was being committed, and the server "
        f"could not be asked whether it was kept: {reason(error)}. Look before you repeat it.",
        code="commit_unknown",
        subject=path,
    )
