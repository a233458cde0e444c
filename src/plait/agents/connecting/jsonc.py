"""Edit single values of a JSON text and leave every other byte as it is.

Reads JSON with comments and trailing commas, and JSON5 if asked. A new value becomes the first one
of its object, or the last one of its array, in which others may be known by their number. It is
inserted right behind what is there, so that taking it out again gives back the same bytes.
"""

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from plait.types.records import NamedTuple

MAX_JSON_DEPTH = 200
DEFAULT_INDENT = "  "
Steps = Sequence[str | int]

_JSON_BLANK = re.compile(r"[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/", re.S)
_JSON_WHITE = " \t\r\n"
_JSON_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"', re.S)
_JSON_SINGLE_QUOTED = re.compile(r"'(?:[^'\\\n]|\\.)*'", re.S)
_JSON_BARE = re.compile(r"[^\s,:{}\[\]\"'/]+")
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_INDENTED_LINE = re.compile(r"\n([ \t]{1,8})[^\s]")
_JSON_LITERALS = ("true", "false", "null")


class NotEditable(ValueError):
    """A text is not what it should be, or cannot be edited; the message says where."""


class Bare(NamedTuple):
    """A value of JSON5 that JSON has not, as it is written."""

    token: str


class Member(NamedTuple):
    """A value in a container: where its key begins, or the value itself in an array."""

    key: str
    start: int
    node: "Located"
    comma: int | None


class Located(NamedTuple):
    """A value, and where it is in the text; ``members`` are those of an object or array."""

    start: int
    end: int
    value: Any
    members: tuple[Member, ...] = ()


def parse(text: str, *, json5: bool = False) -> Located:
    """Return the value that a text holds.

    >>> parse('{"a": [1, 2,], // last' + chr(10) + '}').value
    {'a': [1, 2]}

    Raises:
        NotEditable: It is no such text.
    """
    return _parsed(text, json5)


# An edit looks at one text several times, and a file with an agent's history takes seconds.
@lru_cache(maxsize=2)
def _parsed(text: str, json5: bool) -> Located:
    reader = _Reader(text, json5)
    at = reader.skip(0)
    node = reader.value(at, 0)
    at = reader.skip(node.end)
    if at != len(text):
        raise reader.refuse(at, "something follows the value")
    return node


class _Reader:
    """Reads one text."""

    def __init__(self, text: str, json5: bool) -> None:
        self.text = text
        self.json5 = json5

    def refuse(self, at: int, why: str) -> NotEditable:
        return NotEditable(f"line {self.text.count(chr(10), 0, at) + 1}: {why}")

    def skip(self, at: int) -> int:
        while match := _JSON_BLANK.match(self.text, at):
            at = match.end()
        return at

    def value(self, at: int, depth: int) -> Located:
        if depth > MAX_JSON_DEPTH:
            raise self.refuse(at, f"values are nested more than {MAX_JSON_DEPTH} deep")
        start = self.text[at : at + 1]
        if start == "{":
            return self.container(at, depth, "}", self.key)
        if start == "[":
            return self.container(at, depth, "]", None)
        end, value = self.scalar(at)
        return Located(at, end, value)

    def scalar(self, at: int) -> tuple[int, Any]:
        if match := _JSON_STRING.match(self.text, at):
            return match.end(), self.decoded(match)
        if self.json5 and (match := _JSON_SINGLE_QUOTED.match(self.text, at)):
            return match.end(), Bare(match[0])
        match = _JSON_BARE.match(self.text, at)
        if match is None:
            raise self.refuse(at, "a value is missing")
        if match[0] in _JSON_LITERALS or _JSON_NUMBER.fullmatch(match[0]):
            try:
                return match.end(), json.loads(match[0])
            except ValueError:  # more digits than Python converts
                return match.end(), Bare(match[0])
        if self.json5:
            return match.end(), Bare(match[0])
        raise self.refuse(at, f"{match[0][:40]!r} is no value")

    def decoded(self, match: re.Match[str]) -> Any:
        try:
            return json.loads(match[0], strict=False)
        except ValueError:
            if self.json5:
                return Bare(match[0])
            raise self.refuse(match.start(), "a string has an invalid escape") from None

    def key(self, at: int) -> tuple[str, int]:
        if match := _JSON_STRING.match(self.text, at):
            end, key = match.end(), self.decoded(match)
        else:
            match = (_JSON_SINGLE_QUOTED.match(self.text, at) if self.json5 else None) or (
                _JSON_BARE.match(self.text, at) if self.json5 else None
            )
            if match is None:
                raise self.refuse(at, "a name is missing")
            end, key = match.end(), match[0].strip("'")
        at = self.skip(end)
        if self.text[at : at + 1] != ":":
            raise self.refuse(at, "a colon is missing")
        return str(key), self.skip(at + 1)

    def container(
        self, start: int, depth: int, close: str, key_at: Callable[[int], tuple[str, int]] | None
    ) -> Located:
        members: list[Member] = []
        at = self.skip(start + 1)
        while self.text[at : at + 1] != close:
            if members and members[-1].comma is None:
                raise self.refuse(at, f"a comma or {close} is missing")
            key, value_at = key_at(at) if key_at else ("", at)
            node = self.value(value_at, depth + 1)
            end = self.skip(node.end)
            has_comma = self.text[end : end + 1] == ","
            members.append(Member(key, at, node, end if has_comma else None))
            at = self.skip(end + 1) if has_comma else end
        plain: Any = [member.node.value for member in members]
        if key_at:
            plain = {member.key: member.node.value for member in members}
        return Located(start, at + 1, plain, tuple(members))


# -- looking ---------------------------------------------------------------------------------


def find(node: Located, path: Steps) -> Located | None:
    """Return the value at a path of names and positions, or ``None`` if there is none.

    Raises:
        NotEditable: A name is there twice, or leads through something that is no object.
    """
    above = "it"
    for step in path:
        if isinstance(step, str) and not isinstance(node.value, dict):
            raise NotEditable(f"{above} is no object")
        index = _index(node, step)
        if index is None:
            return None
        node, above = node.members[index].node, f"'{step}'"
    return node


def _index(node: Located, step: str | int) -> int | None:
    if isinstance(step, int):
        return step if step < len(node.members) else None
    places = [at for at, member in enumerate(node.members) if member.key == step]
    if len(places) > 1:
        raise NotEditable(f"'{step}' is there twice")
    return places[0] if places else None


# -- editing ---------------------------------------------------------------------------------


def add(
    text: str, path: Sequence[str], value: Any, *, json5: bool = False
) -> tuple[str, list[str] | None]:
    """Add a value as the first one of its object; return the text, and the first object made.

    Raises:
        NotEditable: The text cannot be edited, or something is there already.
    """
    node, depth = parse(text, json5=json5), 0
    while (below := find(node, path[depth : depth + 1])) is not None:
        node, depth = below, depth + 1
        if depth == len(path):
            raise NotEditable(f"'{path[-1]}' is there already")
    if not isinstance(node.value, dict):
        raise NotEditable(f"'{path[depth - 1]}' is no object")
    for step in reversed(path[depth + 1 :]):
        value = {step: value}
    rendered = f"{json.dumps(path[depth], ensure_ascii=False)}: "
    edited = _inserted(text, node, rendered, value)
    made = None if depth == len(path) - 1 else list(path[: depth + 1])
    return edited, made


def add_element(text: str, path: Sequence[str], value: Any, *, json5: bool = False) -> str:
    """Add a value as the last one of an array, which must be there.

    Raises:
        NotEditable: There is no array.
    """
    node = find(parse(text, json5=json5), path)
    if node is None or not isinstance(node.value, list):
        raise NotEditable(f"'{'.'.join(path)}' is no list")
    if not node.members:
        return _inserted(text, node, "", value)
    indent, last = _indent_in(text, node), node.members[-1]
    start = " " if indent is None else line_break(text) + indent
    body = start + _rendered(text, value, indent)
    if last.comma is None:
        return f"{text[: last.node.end]},{body}{text[last.node.end :]}"
    return f"{text[: last.comma + 1]}{body},{text[last.comma + 1 :]}"


def replace(text: str, path: Steps, value: Any, *, json5: bool = False) -> str:
    """Replace a value in its place.

    Raises:
        NotEditable: There is none.
    """
    node = find(parse(text, json5=json5), path)
    if node is None:
        raise NotEditable(f"there is no '{path[-1]}'")
    line_start = text.rfind("\n", 0, node.start) + 1
    line = text[line_start : node.start]
    is_spread = "\n" in text[node.start : node.end]
    indent = line[: len(line) - len(line.lstrip(_JSON_WHITE))] if is_spread else None
    return text[: node.start] + _rendered(text, value, indent) + text[node.end :]


def remove(text: str, path: Steps, *, json5: bool = False) -> str:
    """Remove a value with its name, its comma and the blanks before it; comments stay.

    Raises:
        NotEditable: There is none.
    """
    parent = find(parse(text, json5=json5), path[:-1])
    index = None if parent is None else _index(parent, path[-1])
    if parent is None or index is None:
        raise NotEditable(f"there is no '{path[-1]}'")
    member = parent.members[index]
    comma = member.comma
    if comma is None and index:  # a comma before the end is no JSON
        comma = parent.members[index - 1].comma
    start = member.start
    while text[start - 1] in _JSON_WHITE:
        start -= 1
    edited = _without(text, start, member.node.end, comma)
    try:
        parse(edited, json5=json5)
    except NotEditable:  # the line break ended a comment
        edited = _without(text, member.start, member.node.end, comma)
    return edited


def _without(text: str, start: int, end: int, comma: int | None) -> str:
    if comma is None:
        return text[:start] + text[end:]
    if comma < start:
        return text[:comma] + text[comma + 1 : start] + text[end:]
    return text[:start] + text[end:comma] + text[comma + 1 :]


def _inserted(text: str, container: Located, name: str, value: Any) -> str:
    at = container.start + 1
    indent = _indent_in(text, container)
    body = name + _rendered(text, value, indent)
    start = "" if indent is None else line_break(text) + indent
    return text[:at] + start + body + ("," if container.members else "") + text[at:]


def _indent_in(text: str, container: Located) -> str | None:
    """Return what stands before a value of a container, or ``None`` if all is on one line."""
    first = container.members[0].start if container.members else container.end - 1
    inside = text[container.start + 1 : first]
    if "\n" not in inside:
        return None
    if container.members:
        last_line = inside[inside.rfind("\n") + 1 :]
        return last_line if not last_line.strip(_JSON_WHITE) else DEFAULT_INDENT
    line = text[text.rfind("\n", 0, container.start) + 1 : container.start]
    return line[: len(line) - len(line.lstrip(_JSON_WHITE))] + _unit(text)


def _rendered(text: str, value: Any, indent: str | None) -> str:
    if indent is None:
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, ensure_ascii=False, indent=_unit(text)).split("\n")
    return (line_break(text) + indent).join(lines)


def _unit(text: str) -> str:
    """Return the indent of the first line that has one."""
    match = _INDENTED_LINE.search(text)
    return match[1] if match else DEFAULT_INDENT


def line_break(text: str) -> str:
    """Return how the lines of a text end."""
    return "\r\n" if "\r\n" in text else "\n"
