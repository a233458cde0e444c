"""mcp: serve agents. The MCP SDK is imported only here."""

import os
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from plait.cli import Output, as_integer, as_list, as_path
from plait.errors import PlaitError, UsageError, advise
from plait.settings.loading import config_folder
from plait.tools.profiles import PROFILES

if TYPE_CHECKING:
    from plait.mcp.lazy import LazyMemory


def mcp_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait mcp``."""
    parser.add_argument(
        "--tools",
        action="extend",
        type=as_list,
        choices=PROFILES,
        default=[],
        metavar="X,Y",
        help="tool profiles to serve: core (default), layers, graph, work, review",
    )
    parser.add_argument(
        "--http",
        action="store_true",
        help="serve over HTTP on this machine instead of stdin and stdout",
    )
    parser.add_argument("--host", metavar="NAME", help="with --http: 127.0.0.1 (default) or ::1")
    parser.add_argument(
        "--port",
        type=as_integer,
        metavar="N",
        help="with --http: the port (8765); 0 for any free port",
    )
    parser.add_argument(
        "--token-file",
        type=as_path,
        metavar="FILE",
        help="with --http: file with the access token; created if missing",
    )


def mcp_run(arguments: Namespace, out: Output) -> int:
    """Serve until the client disconnects."""
    for name in ("host", "port", "token_file"):
        if getattr(arguments, name) is not None and not arguments.http:
            raise UsageError(f"--{name.replace('_', '-')} needs --http. Add it.")
    profiles = arguments.tools
    config = out.config
    try:
        from plait.mcp import server  # noqa: F401 - fails here if the SDK is missing
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "plait":
            raise
        raise PlaitError(
            "plait mcp needs the MCP SDK, which is not installed.",
            advice=advise("install", extra="mcp"),
        ) from error
    from plait.mcp.lazy import LazyMemory
    from plait.memory import Memory
    from plait.tools.profiles import check_profiles

    check_profiles(profiles)
    lazy = LazyMemory(lambda create: Memory.open(config=config, create=create), config)
    if arguments.http:
        return _over_http(lazy, profiles, arguments, out)
    if sys.stdin is None:
        raise UsageError(
            "plait mcp reads standard input, which is closed. Start it with standard input open."
        )
    if sys.stdin.isatty():
        out.warn(
            "waiting for an MCP client on standard input; normally the client starts this "
            "command. Press Ctrl-C to stop."
        )
    from plait.mcp import stdio

    stdio.serve_stdio(lazy, profiles, with_data=arguments.json)
    return 0


def _over_http(lazy: "LazyMemory", profiles: list[str], arguments: Namespace, out: Output) -> int:
    from plait.mcp import http

    listener = http.listen(
        arguments.host or http.HTTP_HOST,
        http.HTTP_PORT if arguments.port is None else arguments.port,
    )
    with listener:
        path = arguments.token_file or os.path.join(config_folder(), http.TOKEN_FILE)
        token, is_new = http.read_token(path)
        out.warn(f"serving at {http.url_of(listener)}; the token is in {path}")
        if is_new:
            # Printed once, to be copied; from now on it is only in the file.
            out.warn(f"new token: {token}")
        out.flush()
        http.serve_http(lazy, profiles, listener, token, with_data=arguments.json)
    return 0
