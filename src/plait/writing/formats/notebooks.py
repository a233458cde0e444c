"""Read Jupyter notebooks: Markdown cells, code cells and the beginning of their output."""

from collections.abc import Iterator
from typing import Any

from plait.writing.formats.encodings import Converted, NotText, decoded
from plait.writing.formats.located import Lines, parsed, starts_of

# Characters of a cell's output. The rest is mostly tables and logs that the code prints again.
_OUTPUT_CHARS = 500
_LANGUAGE_CHARS = 20


def convert_notebook(data: bytes, name: str, max_bytes: int) -> Converted:
    """Return a notebook as Markdown: each code cell is a section of its own.

    Raises:
        NotText: It is not a notebook.
    """
    source = decoded(data, name)
    notebook = parsed(source.text)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if isinstance(notebook, dict) and not isinstance(cells, list):
        cells = _cells_of_version_3(notebook)
    if not isinstance(notebook, dict) or cells is None:
        raise NotText("not a Jupyter notebook: no list of cells", subject=name)
    rows: list[str] = []
    numbers: list[int] = []
    lines = Lines(source.text, starts_of(source.text, "cells"))
    language = _language(notebook)
    for number, cell in enumerate(cells, start=1):
        if not isinstance(cell, dict):
            continue
        lines.enter(number - 1)
        for row, in_source in _cell(cell, number, language):
            line = lines.of(row) if in_source else lines.of("")
            rows.append(row)
            numbers.append(line)
    text = "".join(f"{row}\n" for row in rows)
    return Converted(text if text.strip() else "", tuple(numbers), remark=source.remark)


def _cell(cell: dict[str, Any], number: int, language: str) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a cell, and whether each is in the file as it is."""
    source = _joined(cell.get("source", cell.get("input"))).strip("\n").split("\n")
    kind = cell.get("cell_type")
    if kind != "code":
        # A heading of the former format has its level beside it.
        level = cell.get("level")
        is_heading = kind == "heading" and isinstance(level, int) and 1 <= level <= 6
        mark = "#" * int(level or 0) + " " if is_heading else ""
        for row in source:
            yield mark + row, not mark
        yield "", False
        return
    if not any(map(str.strip, source)):
        return
    # Level 6 keeps the headings of the Markdown cells above it.
    yield f"###### Cell {number}", False
    fence = "~~~~" if any("```" in row for row in source) else "```"
    yield f"{fence}{language}", False
    for row in source:
        yield row, True
    yield fence, False
    yield "", False
    output = _output(cell.get("outputs"))
    if output:
        yield "Output:", False
        for row in output.split("\n"):
            yield f"    {row}", False
        yield "", False


def _output(outputs: object) -> str:
    """Return the beginning of what a cell printed; pictures and pages are left out."""
    parts: list[str] = []
    for output in outputs if isinstance(outputs, list) else ():
        if not isinstance(output, dict):
            continue
        data = output.get("data")
        plain = data.get("text/plain") if isinstance(data, dict) else None
        part = _joined(output.get("text")) or _joined(plain)
        if output.get("output_type") in ("error", "pyerr"):
            part = f"{_joined(output.get('ename')) or 'Error'}: {_joined(output.get('evalue'))}"
        if part.strip():
            parts.append(part.strip("\n"))
        if sum(map(len, parts)) > _OUTPUT_CHARS:
            break
    text = "\n".join(parts)
    return text if len(text) <= _OUTPUT_CHARS else text[:_OUTPUT_CHARS].rstrip() + " …"


def _joined(value: object) -> str:
    """Return a text that may be a list of lines."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _language(notebook: dict[str, Any]) -> str:
    metadata = notebook.get("metadata")
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    plain = isinstance(name, str) and name.isalnum() and len(name) <= _LANGUAGE_CHARS
    return name.lower() if plain and isinstance(name, str) else ""


def _cells_of_version_3(notebook: dict[str, Any]) -> list[Any] | None:
    sheets = notebook.get("worksheets")
    if not isinstance(sheets, list):
        return None
    cells: list[Any] = []
    for sheet in sheets:
        own = sheet.get("cells") if isinstance(sheet, dict) else None
        cells += own if isinstance(own, list) else []
    return cells
