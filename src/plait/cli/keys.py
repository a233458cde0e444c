"""config set-key, remove-key and keys. A key is never an argument, and never printed."""

import sys
from argparse import Namespace

from plait.cli.output import Output
from plait.config import config_folder
from plait.errors import NotFound, UsageError
from plait.keys import KEYRING, Server, forget, keep, named_server, stays_here
from plait.secrets import Secret, as_secret

# More than any key: reading stops there when somebody pipes in a file by mistake.
MAX_TYPED_CHARS = 100_000


def run(arguments: Namespace, out: Output) -> int:
    """Keep, remove or list keys."""
    if arguments.act == "keys":
        return _list(out)
    if arguments.value is not None:
        # The words are not repeated: one of them is probably the key.
        raise UsageError(
            "A key is not taken from the command line, where others can see it; it is asked for, "
            f"or read from stdin. Run: plait config {arguments.act} PROVIDER [--url URL]"
        )
    if arguments.name is None:
        raise UsageError(f"Say whose key, as in: plait config {arguments.act} openai")
    server = named_server(arguments.name, arguments.url, lambda: out.config.settings)
    return _set(server, out) if arguments.act == "set-key" else _remove(server, out)


def _list(out: Output) -> int:
    rows = out.config.keys().rows() if out.config.keys is not None else []
    text = "\n".join(
        f"{row.provider}  {row.origin}  from {row.source}" + ("" if row.used else "  (not used)")
        for row in rows
    )
    out.result({"keys": [row._asdict() for row in rows]}, text or "No keys are set.")
    return 0


def _set(server: Server, out: Output) -> int:
    provider, origin = server
    key = _typed_key(server)
    place = keep(config_folder(), server, key)
    where = "in the system's keyring" if place == KEYRING else f"encrypted in {place}"
    answer = {"provider": provider, "origin": origin, "kept_in": place}
    out.result(answer, f"The key for {provider} at {origin} is kept {where}.")
    if origin.startswith("http://") and not stays_here(origin):
        out.warn(f"{origin} is not encrypted: everybody on the way can read the key.")
    _warn_when_hidden(server, place, out)
    return 0


def _warn_when_hidden(server: Server, place: str, out: Output) -> None:
    rows = out.config.keys().rows() if out.config.keys is not None else []
    for row in rows:
        if (row.provider, row.origin) == server and row.used and row.source != place:
            out.warn(f"Another key for {row.origin} comes first: {row.source}.")


def _remove(server: Server, out: Output) -> int:
    provider, origin = server
    places = forget(config_folder(), server)
    if not places:
        raise NotFound(f"No key for {provider} at {origin} is kept. See: plait config keys")
    answer = {"provider": provider, "origin": origin, "removed_from": places}
    out.result(answer, f"The key for {provider} at {origin} is gone from {' and '.join(places)}.")
    return 0


def _typed_key(server: Server) -> Secret:
    text = _ask(server) if sys.stdin is not None and sys.stdin.isatty() else _piped()
    try:
        return as_secret(text)
    except ValueError:
        if not text.strip():
            raise UsageError("No key was given; nothing has changed.") from None
        raise UsageError(
            "That cannot be a key: it must be one line of printable ASCII without spaces. "
            "Nothing has changed."
        ) from None


def _ask(server: Server) -> str:
    import warnings
    from getpass import GetPassWarning, getpass

    prompt = f"Key for {server[0]} at {server[1]} (not shown): "
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", GetPassWarning)
            return getpass(prompt)
    except EOFError:
        return ""
    except GetPassWarning as error:
        raise UsageError(
            "This terminal would show the key. Pipe it in: plait config set-key … < FILE"
        ) from error


def _piped() -> str:
    try:
        return "" if sys.stdin is None else sys.stdin.read(MAX_TYPED_CHARS)
    except UnicodeDecodeError:
        return "\N{REPLACEMENT CHARACTER}"  # refused like every text that is no key
