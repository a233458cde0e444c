"""Write the table of layers into the pages that show it.

The contract in pyproject.toml says which modules exist and which may import which. The first
sentence of each module's docstring says what belongs in it. Run: python docs/generate.py
"""

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "plait"
CONTRACT = "Data flows one way"
PAGES = ("AGENTS.md", "CONTRIBUTING.md", "docs/design/README.md")
BEGIN, END = "<!-- begin layers -->", "<!-- end layers -->"


class Row(NamedTuple):
    """One row of the contract: modules that exist, modules to come, and whether they may mix."""

    modules: list[str]
    planned: list[str]
    mixed: bool


def rows() -> list[Row]:
    """Return the rows of the layer contract, top to bottom."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["name"] == CONTRACT)
    return [_row(layer) for layer in layers]


def _row(layer: str) -> Row:
    names = [name.strip(" ()") for name in re.split(r"[|:]", layer)]
    exists = {name: _file(name) is not None for name in names}
    return Row(
        [name for name in names if exists[name]],
        [name for name in names if not exists[name]],
        ":" in layer,
    )


def _file(module: str) -> Path | None:
    candidates = (SOURCE / module / "__init__.py", SOURCE / f"{module}.py")
    return next((path for path in candidates if path.is_file()), None)


def summary(module: str) -> str:
    """Return the first sentence of a module's docstring, on one line."""
    path = _file(module)
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) if path else None
    if not text:
        raise ValueError(f"plait.{module} has no docstring")
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s", paragraph)[0]


def table() -> str:
    """Return the layers as Markdown: a line per module, then which rows mix and what is planned."""
    lines = ["| row | module | what belongs there |", "|---|---|---|"]
    planned: list[str] = []
    for number, row in enumerate(rows(), start=1):
        lines += [
            f"| {number} | `{module}` | {summary(module).replace('|', chr(92) + '|')} |"
            for module in row.modules
        ]
        planned += row.planned
    mixed = [str(number) for number, row in enumerate(rows(), start=1) if row.mixed]
    notes = [
        "A module imports only from rows below its own.",
        f"Modules of one row import each other in rows {_joined(mixed)} only.",
    ]
    if planned:
        notes.append(f"Planned: {_joined([f'`{name}`' for name in planned])}.")
    return "\n".join([*lines, "", " ".join(notes)])


def _joined(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def pages() -> dict[str, str]:
    """Return every page that shows the layers, as it should be."""
    part = f"{BEGIN}\n\n{table()}\n\n{END}"
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.S)
    written = {}
    for name in PAGES:
        text, count = pattern.subn(lambda _: part, (ROOT / name).read_text(encoding="utf-8"))
        if count != 1:
            raise ValueError(f"{name} needs the marks of the layers exactly once")
        written[name] = text
    return written


def main() -> int:
    """Write the pages that are not up to date."""
    for name, text in pages().items():
        if (ROOT / name).read_text(encoding="utf-8") != text:
            (ROOT / name).write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
