"""Edit one entry below a top-level key of a YAML text and leave every other byte as it is.

Only the plain form is edited: top-level keys at the start of their lines, entries indented below.
Any other form is refused, because nothing here reads YAML as a whole.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from plait.agents.connecting.jsonc import NotEditable, line_break
from plait.types.records import NamedTuple

_YAML_KEY = re.compile(r"""(?P<name>[A-Za-z_][\w.-]*|"[^"\\]*"|'[^']*')[ \t]*:(?=[ \t\r\n]|$)""")
_YAML_ENTRY = re.compile(r"[ ]+")
DEFAULT_YAML_INDENT = "  "


class _Block(NamedTuple):
    """The line of a top-level key, the entries below it, and where they end."""

    line: int
    value: str
    entries: dict[str, tuple[int, int]]
    indent: str | None
    end: int


def entry_of(text: str, keys: Sequence[str]) -> Any:
    """Return the value of an entry that is written as JSON, ``None`` if there is no entry.

    Raises:
        NotEditable: The text has another form than what can be edited.
    """
    top, name = keys
    lines = _lines(text)
    block = _block(lines, top)
    if block is None or name not in block.entries:
        return None
    start, end = block.entries[name]
    value = "".join(lines[start:end]).partition(":")[2].strip()
    try:
        return json.loads(value)
    except ValueError:
        raise NotEditable(f"'{name}' is there already, written in another way") from None


def set_entry(text: str, keys: Sequence[str], value: Mapping[str, Any]) -> tuple[str, bool]:
    """Give an entry a value; return the text, and whether its top-level key is new.

    Raises:
        NotEditable: The text has another form than what can be edited.
    """
    top, name = keys
    entry_of(text, keys)
    lines = _lines(text)
    newline = line_break(text)
    body = f"{name}: {json.dumps(value, ensure_ascii=False)}"
    block = _block(lines, top)
    if block is None:
        between = newline if text else ""
        return f"{text}{between}{top}:{newline}{DEFAULT_YAML_INDENT}{body}{newline}", True
    if name in block.entries:
        start, end = block.entries[name]
        old = lines[start]
        ending = lines[end - 1][len(lines[end - 1].rstrip("\r\n")) :]
        lines[start:end] = [old[: len(old) - len(old.lstrip(" "))] + body + ending]
        return "".join(lines), False
    if block.value == "{}":
        raise NotEditable(f"'{top}' is written as {{}}; remove the braces")
    entry = (block.indent or DEFAULT_YAML_INDENT) + body
    head = lines[block.line]
    if head.endswith("\n"):
        lines.insert(block.line + 1, entry + newline)
    else:
        lines[block.line] = head + newline + entry
    return "".join(lines), False


def remove_entry(text: str, keys: Sequence[str], *, with_top: bool) -> str:
    """Remove an entry, and its top-level key if that was made for it and has no others.

    Raises:
        NotEditable: There is no such entry, or the text has another form.
    """
    top, name = keys
    lines = _lines(text)
    block = _block(lines, top)
    if block is None or name not in block.entries:
        raise NotEditable(f"there is no '{name}' below '{top}'")
    start, end = block.entries[name]
    if with_top and len(block.entries) == 1:
        start = block.line
        before = "".join(lines[:start])
        rest = "".join(lines[end:])
        if before.endswith("\r\n") and (not rest or before[:-2].endswith("\n")):
            before = before[:-2]
        elif before.endswith("\n") and (not rest or before[:-1].endswith("\n")):
            before = before[:-1]
        return before + rest
    last = lines[end - 1]
    del lines[start:end]
    if not last.endswith("\n") and start == len(lines) and start:
        lines[-1] = lines[-1].removesuffix("\n").removesuffix("\r")
    return "".join(lines)


def _lines(text: str) -> list[str]:
    # `splitlines` knows more line breaks than YAML.
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def _block(lines: list[str], top: str) -> _Block | None:
    """Return the block of a top-level key.

    Raises:
        NotEditable: The text has another form than what can be edited.
    """
    place, value = -1, ""
    for number, line in enumerate(lines):
        if "\t" in line[: len(line) - len(line.lstrip())]:
            raise NotEditable(f"line {number + 1}: it is indented by a tab")
        name = _top_name(line, number, is_first=number == 0)
        if name == top:
            if place >= 0:
                raise NotEditable(f"'{top}' is there twice")
            place = number
            value = line[line.index(":") + 1 :].partition(" #")[0].strip()
    if place < 0:
        return None
    if value not in ("", "{}"):
        raise NotEditable(f"line {place + 1}: '{top}' has a value on its line")
    return _entries(lines, place, value)


def _top_name(line: str, number: int, *, is_first: bool) -> str:
    """Return the key at the start of a line, or nothing if the line continues or is blank."""
    text = line.lstrip("\ufeff") if is_first else line
    if not text.strip() or text[0] in " #":
        return ""
    if text.startswith("- ") or (is_first and text.rstrip() == "---"):
        return ""
    match = _YAML_KEY.match(text)
    if match is None:
        raise NotEditable(f"line {number + 1}: it is no plain 'name: value'")
    return match["name"].strip("\"'")


def _entries(lines: list[str], place: int, value: str) -> _Block:
    entries: dict[str, tuple[int, int]] = {}
    indent, name, end = None, "", place + 1
    for number in range(place + 1, len(lines)):
        line = lines[number]
        stripped = line.strip()
        if stripped and not line.startswith((" ", "#")):
            if line.startswith("- "):
                raise NotEditable(f"line {number + 1}: a list, where entries should be")
            break
        if not stripped or stripped.startswith("#"):
            continue
        depth = _YAML_ENTRY.match(line)
        spaces = "" if depth is None else depth[0]
        indent = spaces if indent is None else indent
        if spaces == indent:
            match = _YAML_KEY.match(line, len(spaces))
            if match is None:
                raise NotEditable(f"line {number + 1}: it is no plain 'name: value'")
            name = match["name"].strip("\"'")
            if name in entries:
                raise NotEditable(f"'{name}' is there twice")
            entries[name] = (number, number + 1)
        elif len(spaces) < len(indent):
            raise NotEditable(f"line {number + 1}: its indent fits to no line above")
        else:
            entries[name] = (entries[name][0], number + 1)
        end = number + 1
    return _Block(place, value, entries, indent, end)
