"""Prove that a command is an MCP server of plait: start it, and shake hands with it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from plait.agents.connecting.places import Launch
from plait.errors import PlaitError, flattened
from plait.types.records import NamedTuple

# A cold start on a loaded machine takes seconds; agents wait ten to thirty.
HANDSHAKE_PATIENCE_S = 30.0
PROTOCOL = "2025-06-18"
# Of this process alone: an agent starts the server without them.
OWN_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP")
SHOWN_CHARS = 300


class Proof(NamedTuple):
    """The version of the server that answered, and how many tools it offers."""

    version: str
    tools: int


def launch_of(options: Sequence[str] = ()) -> Launch:
    """Return the command that starts this plait: its script, or else its interpreter.

    Raises:
        PlaitError: This plait will be gone soon.
    """
    folder = os.path.dirname(sys.executable)
    # `uvx` runs programs out of a cache that is emptied.
    if f"{os.sep}archive-v" in folder:
        raise PlaitError(
            "This plait runs in a temporary environment, which an agent would not find again. "
            "Install it first, in a clone of plait: uv tool install '.[mcp]'",
            code="temporary_install",
        )
    script = os.path.join(folder, "plait.exe" if sys.platform == "win32" else "plait")
    if os.path.isfile(script) and os.access(script, os.X_OK):
        return Launch((script, *options))
    # -P: a folder named plait in the working folder must not be taken for the package.
    return Launch((sys.executable, "-P", "-m", "plait", *options))


def prove(launch: Launch, environ: Mapping[str, str], folder: str) -> Proof:
    """Start a server as an agent would, ask for its tools, and let it end.

    Args:
        launch: The command.
        environ: The variables of this process.
        folder: The working folder, in which nothing of plait should be.

    Raises:
        PlaitError: There was no proper answer in time.
    """
    messages: list[dict[str, Any]] = [
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": PROTOCOL,
                "capabilities": {},
                "clientInfo": {"name": "plait connect", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    command = [launch.program, *launch.server]
    kept = {name: value for name, value in environ.items() if name not in OWN_VARIABLES}
    try:
        ran = subprocess.run(
            command,
            input=lines.encode(),
            capture_output=True,
            timeout=HANDSHAKE_PATIENCE_S,
            cwd=folder,
            env=kept,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        why = f"it did not answer within {HANDSHAKE_PATIENCE_S:g} s"
        raise _refused(command, why) from error
    except OSError as error:
        raise _refused(command, error.strerror or str(error)) from error
    results = _results(ran.stdout)
    tools = results.get(2, {}).get("tools")
    server = results.get(1, {}).get("serverInfo", {})
    if not tools or not isinstance(tools, list) or server.get("name") != "plait":
        complaint = ran.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        why = complaint[0] if complaint else "it answered something else"
        raise _refused(command, why)
    return Proof(str(server.get("version", "")), len(tools))


def _results(output: bytes) -> dict[int, dict[str, Any]]:
    results = {}
    for line in output.splitlines():
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if isinstance(message, dict) and isinstance(message.get("result"), dict):
            results[message.get("id")] = message["result"]
    return {key: value for key, value in results.items() if isinstance(key, int)}


def _refused(command: Sequence[str], why: str) -> PlaitError:
    complaint = flattened(why)[:SHOWN_CHARS].rstrip(".")
    if complaint.startswith("plait: "):  # it is plait, and says itself what is wrong
        text = f"{complaint.removeprefix('plait: ')}."
    else:
        text = f"{flattened(' '.join(command))} is no MCP server of plait: {complaint}."
    return PlaitError(f"{text} Nothing was changed.", code="no_handshake", subject=command[0])
