r"""Read front matter: a small part of YAML and TOML, enough for titles, dates and tags.

Pure and in linear time. A line ends at ``\n`` and nowhere else. What the values mean for a document
is decided by the caller.
"""

import re

_OPENING = re.compile(r"\ufeff?(---|\+\+\+)[ \t\r]*\n")
_YAML_KEY = re.compile(
    r"""("[^"]*"|'[^']*'|[^\s\-#\[\]{}"'][^\n]{0,63}?)[ \t]{0,63}+:(?:[ \t]+(.*)|$)""", re.S
)
_TOML_KEY = re.compile(r"""("[^"]*"|'[^']*'|[\w.-]{1,64})[ \t]*=[ \t]*(.*)""", re.S)
_TOML_TABLE = re.compile(r"\[{1,2}([^\[\]]+)\]{1,2}$")
_LIST_ITEM = re.compile(
    r"""\s*+("(?:[^"\\]|\\.)*+"|'(?:[^']|'')*+'|[^,"'][^,]*+)\s*(?:,|$)""", re.S
)
_VISIBLE = re.compile(r"\S")


def front_matter(text: str) -> tuple[dict[str, str | list[str]], int]:
    r"""Return the values at the head of a note, and how many characters they take up.

    Anything nested deeper than a list is returned as it is written. A block with a line that is not
    part of a value is not front matter.

    >>> front_matter("---\ntitle: 'Keys'\ntags: [ssh, ops]\n---\nRotate them.\n")
    ({'title': 'Keys', 'tags': ['ssh', 'ops']}, 39)
    >>> front_matter("No front matter.")
    ({}, 0)
    """
    opening = _OPENING.match(text)
    if not opening:
        return {}, 0
    toml = opening[1] == "+++"
    closings = ("+++",) if toml else ("---", "...")
    entries: list[tuple[str, list[str]]] = []
    table = ""
    at = opening.end()
    while at < len(text):
        end = text.find("\n", at) + 1 or len(text)
        line = text[at:end].rstrip()
        at = end
        if line in closings:
            return {key: _value(lines) for key, lines in entries}, at
        if toml and (header := _TOML_TABLE.match(line)):
            table = header[1].strip() + "."
        elif key := (_TOML_KEY if toml else _YAML_KEY).match(line):
            entries.append((table + _scalar(key[1]), [key[2] or ""]))
        elif line and line[0] in " \t-]})" and entries:
            entries[-1][1].append(line)
        elif line and line[0] != "#":
            break
    return {}, 0


def _value(lines: list[str]) -> str | list[str]:
    """Return the value of one key from the rest of its line and the lines that follow."""
    head, rest = lines[0].strip(), lines[1:]
    if head[:1] not in ("|", ">"):
        rest = [line for line in rest if not line.lstrip().startswith("#")]
    if rest and head[:1] not in ("", "|", ">", "#"):
        head, rest = " ".join([head, *(line.strip() for line in rest)]), []
    if head.startswith("[") and (items := _inline_list(head)) is not None:
        return items
    if not rest:
        return _scalar(head)
    bare = [line.strip() for line in rest]
    if head[:1] in ("", "#") and all(line[:2] in ("-", "- ") for line in bare):
        return [_scalar(line[1:].strip()) for line in bare]
    if head[:1] == ">":
        return " ".join(bare)
    margin = min(len(line) - len(line.lstrip()) for line in rest)
    return "\n".join(line[margin:] for line in rest)


def _inline_list(value: str) -> list[str] | None:
    """Return the items between brackets, or ``None`` if the value is not a flat list."""
    inside, bracket, comment = value[1:].rpartition("]")
    if not bracket or "[" in inside or "{" in inside or comment.strip()[:1] not in ("", "#"):
        return None
    items = []
    at = 0
    while _VISIBLE.search(inside, at):
        item = _LIST_ITEM.match(inside, at)
        if not item:
            return None
        items.append(_scalar(item[1]))
        at = item.end()
    return items


def _scalar(value: str) -> str:
    """Return a single value without its quotes and without the comment behind it."""
    value = value.strip()
    quote = value[:1]
    if quote in ("'", '"') and (end := value.rfind(quote)):
        if value[end + 1 :].strip()[:1] in ("", "#"):
            inside = value[1:end]
            return inside.replace("''", "'") if quote == "'" else inside.replace('\\"', '"')
        return value
    return "" if quote == "#" else value.partition(" #")[0].rstrip()
