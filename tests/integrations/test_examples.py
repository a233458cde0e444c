"""Every example of docs/integrations.md runs as it is, with the real packages."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.integrations.conftest import SERVER_PYTHON

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "integrations.md"
PATIENCE_S = 120
TITLED = re.compile(r"^## (.+?)$|^```python\n(.*?)^```$", re.M | re.S)


def examples() -> list[tuple[str, str]]:
    """The code blocks of the page, with the titles above them."""
    blocks = []
    title = ""
    for heading, code in TITLED.findall(PAGE.read_text(encoding="utf-8")):
        title = heading or title
        if code:
            blocks.append((title, code))
    return blocks


def missing(code: str) -> list[str]:
    """The packages that an example imports and that are not installed."""
    tops = re.findall(r"^(?:from|import) (\w+)", code, re.M)
    adapters = re.findall(r"plait\.tools\.adapters\.(\w+)", code)
    names = {"openai_agents": "agents"}
    wanted = dict.fromkeys([*tops, *(names.get(name, name) for name in adapters)])
    return [name for name in wanted if find_spec(name) is None]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An empty home, and `plait` on the path, from the environment that can serve MCP."""
    programs = tmp_path / "bin"
    programs.mkdir()
    script = programs / "plait"
    command = f'PYTHONPATH="{ROOT / "src"}" exec "{SERVER_PYTHON}" -m plait "$@"'
    script.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
    script.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PLAIT_")}
    return {
        **kept,
        "HOME": str(tmp_path),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONWARNDEFAULTENCODING": "0",
    }


def test_there_is_an_example_of_every_kind():
    titles = {title for title, _ in examples()}
    assert titles >= {"LangGraph", "OpenAI Agents SDK", "LangChain", "LlamaIndex", "Pydantic AI"}


@pytest.mark.skipif(os.name == "nt", reason="the command is a shell script")
@pytest.mark.parametrize(
    ("title", "code"), examples(), ids=[f"{title} {n}" for n, (title, _) in enumerate(examples())]
)
def test_an_example_runs_and_finds_what_was_stored(environment, tmp_path, title, code):
    if names := missing(code):
        pytest.skip(f"not installed: {', '.join(names)}")
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert "We deploy on Fridays." in done.stdout
