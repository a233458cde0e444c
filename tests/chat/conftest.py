"""Commands of the chat in this process, against a server that speaks a provider's protocol."""

import gc
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from plait import Memory
from plait.cli import main
from tests.chat.server import PROTOCOLS, ChatServer
from tests.interfaces.command import Ran

Chat = Callable[..., Ran]

for _package in ("anthropic", "ollama", "openai", "prompt_toolkit"):
    if find_spec(_package) is None:
        pytest.skip("needs: pip install '.[chat]'", allow_module_level=True)

# Before a server of a test runs in a thread, so that their packages run late here, too.
for _protocol in PROTOCOLS:
    import_module(f"plait.chat.{_protocol}")


@pytest.fixture(autouse=True, scope="module")
def thawed() -> Iterator[None]:
    """What a chat keeps from the collector, because its process ends with it, is given back."""
    yield
    gc.unfreeze()
    gc.collect()


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, outside any project, and a memory that knows a few things."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PLAIT_DB", str(folder / "memory.db"))
    with Memory.open(project="") as memory:
        memory.store("We deploy on Fridays, after lunch.", key="deploys", title="Deploys")
        memory.store("Herons fish at dawn.", key="herons")
    return folder


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as opened:
        yield opened


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def plait(work: Path, capsys: pytest.CaptureFixture[str]) -> Chat:
    """Run a command line in this process."""

    def run(*words: str) -> Ran:
        capsys.readouterr()
        code = main(words)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def chat(plait: Chat, server: ChatServer, protocol: str) -> Chat:
    """Ask one question of the server, by one of the protocols."""
    return lambda *words: plait("chat", *server.options(protocol), *words)


@pytest.fixture
def on_screen(work: Path) -> Callable[..., tuple[int, str, str]]:
    """Run a command with stdout and stderr on terminals of their own."""
    from tests.interfaces.test_terminal import terminals

    def run(*words: str) -> tuple[int, str, str]:
        with pytest.MonkeyPatch.context() as patch, terminals(patch) as (out, err):
            code = main(words)
        return code, out.text(), err.text()

    return run
