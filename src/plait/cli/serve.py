"""mcp: the verb that serves agents. The SDK is imported here and nowhere else."""

import os
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from plait.cli.filters import split_commas
from plait.cli.output import Output
from plait.cli.verbs import place, whole_number
from plait.config import config_folder
from plait.errors import PlaitError, UsageError

if TYPE_CHECKING:
    from plait.mcp.shared import Shared

INSTALL = "pip install 'plait[mcp]'"


def mcp_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait mcp``."""
    parser.add_argument(
        "--tools",
        action="append",
        default=[],
        metavar="X,Y",
        help="profiles of tools: core (the default), layers, graph",
    )
    parser.add_argument(
        "--http", action="store_true", help="over HTTP on this machine, instead of stdin and stdout"
    )
    parser.add_argument("--host", metavar="NAME", help="with --http: 127.0.0.1 (default) or ::1")
    parser.add_argument(
        "--port", type=whole_number, metavar="N", help="with --http: 8765; 0 takes a free one"
    )
    parser.add_argument(
        "--token-file",
        type=place,
        metavar="FILE",
        help="with --http: where the token is, made if it is not there",
    )


def mcp_run(arguments: Namespace, out: Output) -> int:
    """Serve until the client leaves."""
    for flag in ("host", "port", "token_file"):
        if getattr(arguments, flag) is not None and not arguments.http:
            raise UsageError(f"--{flag.replace('_', '-')} goes with --http. Add it.")
    profiles = split_commas(arguments.tools)
    config = out.config
    try:
        from plait.mcp.server import tools_of
        from plait.mcp.shared import Shared
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "plait":
            raise
        raise PlaitError(
            f"plait mcp needs the MCP SDK, which is not installed. Run: {INSTALL}"
        ) from error
    from plait.memory import Memory

    tools_of(profiles)
    shared = Shared(lambda create: Memory.open(config=config, create=create))
    if arguments.http:
        return _over_http(shared, profiles, arguments, out)
    if sys.stdin is None:
        raise UsageError("plait mcp talks over stdin, and that is closed. Leave it open.")
    if sys.stdin.isatty():
        out.warn("waiting for an agent's messages; agents start this themselves. Ctrl-C ends it.")
    from plait.mcp import stdio

    stdio.serve(shared, profiles)
    return 0


def _over_http(shared: "Shared", profiles: list[str], arguments: Namespace, out: Output) -> int:
    from plait.mcp import http

    listener = http.listen(
        arguments.host or http.LOOPBACK[0],
        http.DEFAULT_PORT if arguments.port is None else arguments.port,
    )
    with listener:
        path = arguments.token_file or os.path.join(config_folder(), http.TOKEN_FILE)
        token, made = http.read_token(path)
        out.warn(f"serving at {http.url_of(listener)}; the token is in {path}")
        if made:
            # Once, so that it can be copied; later it is in the file only.
            out.warn(f"token made for you: {token}")
        out.flush()
        http.serve(shared, profiles, listener, token)
    return 0
