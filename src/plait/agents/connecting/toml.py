"""Edit one table of a TOML text and leave every other byte as it is.

A new table goes to the end, behind one line break more than the text has. Taking it out takes that
line break with it, so the text is as it was before.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from plait.agents.connecting.jsonc import NotEditable, line_break
from plait.types.records import NamedTuple

MAX_TOML_CHARS = 1_000_000
# What a scanner must not look into, and what opens or closes a value of several lines. An end may
# be missing, so that no beginning is tried again and again; in TOML that was parsed it never is.
_TOML_TOKEN = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*(?:"{3,5})?'
    r"|'''(?:[^']|'(?!''))*(?:'{3,5})?"
    r'|"(?:[^"\\\n]|\\.)*"?'
    r"|'[^'\n]*'?"
    r"|\#[^\n]*|[\[{]|[\]}]|\n",
    re.S,
)


class Statement(NamedTuple):
    """A line of TOML: the header of a table, or a key with its value, which may have more lines.

    ``end`` is behind its line break.
    """

    start: int
    end: int
    is_header: bool


def parse_toml(text: str) -> dict[str, Any]:
    """Return the values of a text.

    Raises:
        NotEditable: It is no TOML.
    """
    import tomllib

    if len(text) > MAX_TOML_CHARS:
        raise NotEditable(f"it has more than {MAX_TOML_CHARS:,} characters")
    try:
        # Codex takes a byte order mark, tomllib does not.
        return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise NotEditable(str(error)) from error


def add_table(text: str, path: Sequence[str], values: Mapping[str, Any]) -> str:
    """Add a table at the end.

    Raises:
        NotEditable: A table of this name cannot be added there.
    """
    wanted = parse_toml(text)
    _place(wanted, path)[path[-1]] = dict(values)
    line = line_break(text)
    rows = [f"[{'.'.join(path)}]", *(f"{key} = {_toml(value)}" for key, value in values.items())]
    edited = text + (line if text else "") + line.join(rows) + line
    return _checked(edited, wanted, path)


def set_in_table(text: str, path: Sequence[str], values: Mapping[str, Any]) -> str:
    """Give a table some values and keep its others.

    Raises:
        NotEditable: The table is written in a way that cannot be edited by lines.
    """
    wanted = parse_toml(text)
    table = _place(wanted, path)[path[-1]]
    for key, value in values.items():
        if table.get(key) == value:
            continue
        table[key] = value
        start, end = _span(text, path, with_subtables=False)
        rows = [row for row in _statements(text) if start <= row.start < end and not row.is_header]
        same = [row for row in rows if _key_of(text[row.start : row.end]) == key]
        entry = f"{key} = {_toml(value)}"
        if same:
            old = text[same[0].start : same[0].end]
            ending = old[len(old.rstrip("\r\n")) :]
            text = text[: same[0].start] + entry + ending + text[same[0].end :]
        else:
            header = next(row for row in _statements(text) if row.start == start)
            line = line_break(text)
            before = "" if text[: header.end].endswith("\n") else line
            text = text[: header.end] + before + entry + line + text[header.end :]
    return _checked(text, wanted, path)


def remove_table(text: str, path: Sequence[str]) -> str:
    """Remove a table, with the tables inside it and the line break before it.

    Raises:
        NotEditable: The table is written in a way that cannot be edited by lines.
    """
    wanted = parse_toml(text)
    parent = _place(wanted, path)
    del parent[path[-1]]
    start, end = _span(text, path, with_subtables=True)
    size = 2 if text[:start].endswith("\r\n") else int(text[:start].endswith("\n"))
    # Without it, the line before and the one behind would become one.
    if end == len(text) or text[: start - size].endswith("\n"):
        start -= size
    edited = text[:start] + text[end:]
    if not parent and len(path) > 1:
        # A parent that only our header named is gone with it; one that is written out stays.
        rest = parse_toml(edited)
        if path[0] not in rest:
            wanted.pop(path[0])
    return _checked(edited, wanted, path)


def _place(values: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    for step in path[:-1]:
        values = values.setdefault(step, {})
        if not isinstance(values, dict):
            raise NotEditable(f"'{step}' is no table")
    return values


def _checked(edited: str, wanted: dict[str, Any], path: Sequence[str]) -> str:
    try:
        is_right = parse_toml(edited) == wanted
    except NotEditable:
        is_right = False
    if not is_right:
        raise NotEditable(f"{'.'.join(path)} is written in a way that cannot be edited")
    return edited


def _span(text: str, path: Sequence[str], *, with_subtables: bool) -> tuple[int, int]:
    """Return where a table begins and ends: at the next header, without comments before that."""
    start = end = -1
    for row in _statements(text):
        if row.is_header:
            names = _names_of(text[row.start : row.end])
            is_inside = names[: len(path)] == list(path)
            if start < 0 and names == list(path):
                start = row.start
            elif start >= 0 and not (is_inside and with_subtables):
                break
        if start >= 0:
            end = row.end
    if start < 0:
        raise NotEditable(f"there is no table [{'.'.join(path)}]")
    return start, end


def _statements(text: str) -> Iterator[Statement]:
    at = 0
    while at < len(text):
        while at < len(text) and text[at] in " \t\r\n\ufeff":
            at += 1
        start, depth = at, 0
        is_comment = text[at : at + 1] == "#"
        at = len(text)
        for match in _TOML_TOKEN.finditer(text, start):
            token = match[0]
            depth += (token in ("[", "{")) - (token in ("]", "}"))
            if token == "\n" and depth <= 0:
                at = match.end()
                break
        if not is_comment and start < len(text):
            yield Statement(start, at, text[start] == "[")


def _names_of(header: str) -> list[str]:
    """Return the names of a header; those of an array of tables are never ours."""
    if header.startswith("[["):
        return []
    values: Any = parse_toml(header)
    names = []
    while isinstance(values, dict) and values:
        [(name, values)] = values.items()
        names.append(name)
    return names


def _key_of(statement: str) -> str:
    """Return the key of a statement, or nothing if it has several names."""
    values = parse_toml(statement)
    [(key, value)] = values.items()
    is_dotted = isinstance(value, dict) and not statement.partition("=")[2].lstrip().startswith("{")
    return "" if is_dotted else key


def _toml(value: object) -> str:
    # JSON and TOML write texts and lists of texts alike, except for the character DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
