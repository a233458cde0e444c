"""config set-key, remove-key and keys. A key is never an argument and is never printed."""

import sys
from argparse import Namespace

from plait.cli import Output, to_run
from plait.errors import NotFound, UsageError
from plait.settings.keys import KEYRING, Server, forget_key, keep_key, named_server, stays_here
from plait.settings.loading import config_folder
from plait.settings.project import own_settings
from plait.settings.secrets import Secret, as_secret
from plait.text import visible

# Longer than any key: reading stops here if a large file is piped in by mistake.
MAX_TYPED_CHARS = 100_000


def keys_run(arguments: Namespace, out: Output) -> int:
    """Save, remove or list keys."""
    if arguments.action == "keys":
        return _list(out)
    if arguments.value is not None:
        # The message does not repeat the arguments: one of them is probably the key.
        raise UsageError(
            "A key on the command line could be seen by others. This command asks for it, or "
            + to_run(f"reads it from stdin: plait config {arguments.action} PROVIDER [--url URL]")
        )
    if arguments.name is None:
        example = to_run(f"Example: plait config {arguments.action} openai")
        raise UsageError(f"Name a provider. {example}")
    server = named_server(arguments.name, arguments.url, lambda: own_settings(out.config))
    return _set(server, out) if arguments.action == "set-key" else _remove(server, out)


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
    place = keep_key(config_folder(), server, key)
    where = "in the system's keyring" if place == KEYRING else f"encrypted in {place}"
    answer = {"provider": provider, "origin": origin, "kept_in": place}
    out.result(answer, f"The key for {provider} at {origin} is saved {where}.")
    if origin.startswith("http://") and not stays_here(origin):
        out.warn(f"{origin} is not encrypted: anyone on the network path can read the key.")
    _warn_if_not_used(server, place, out)
    return 0


def _warn_if_not_used(server: Server, place: str, out: Output) -> None:
    rows = out.config.keys().rows() if out.config.keys is not None else []
    for row in rows:
        if (row.provider, row.origin) == server and row.used and row.source != place:
            out.warn(f"Another key for {row.origin} takes precedence: {row.source}.")


def _remove(server: Server, out: Output) -> int:
    provider, origin = server
    places = forget_key(config_folder(), server)
    if not places:
        see = to_run("See: plait config keys")
        raise NotFound(f"No key is saved for {provider} at {origin}. {see}")
    answer = {"provider": provider, "origin": origin, "removed_from": places}
    out.result(answer, f"Removed the key for {provider} at {origin} from {' and '.join(places)}.")
    return 0


def _typed_key(server: Server) -> Secret:
    text = _ask(server) if sys.stdin is not None and sys.stdin.isatty() else _piped()
    try:
        return as_secret(text)
    except ValueError:
        if not text.strip():
            raise UsageError("No key was given. Nothing was changed.") from None
        raise UsageError(
            "This is not a key: a key is one line of printable ASCII without spaces. "
            "Nothing was changed."
        ) from None


def _ask(server: Server) -> str:
    import warnings
    from getpass import GetPassWarning, getpass

    prompt = visible(f"Key for {server[0]} at {server[1]} (not shown): ", one_line=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", GetPassWarning)
            return getpass(prompt)
    except EOFError:
        return ""
    except GetPassWarning as error:
        raise UsageError(
            "This terminal would display the key. "
            + to_run("Pipe it in: plait config set-key … < FILE")
        ) from error


def _piped() -> str:
    try:
        return "" if sys.stdin is None else sys.stdin.read(MAX_TYPED_CHARS)
    except UnicodeDecodeError:
        return "\N{REPLACEMENT CHARACTER}"  # refused as not a key
