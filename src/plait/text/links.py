r"""Read the links and tags inside a Markdown text: ``[[wikilinks]]``, relative links, ``#tags``.

Pure and in linear time. What stands in code is neither. Which document a link leads to is decided
by `plait.searching.links`.
"""

import re

from plait.types.records import NamedTuple

# Of one text. A page with more is a list made by a machine.
MAX_LINKS = 1_000
MAX_TAGS = 100

# One pass: code comes first, so that nothing inside it is read.
_CODE = (
    r"^[ \t]{0,3}(?:[-*+>][ \t]++)*+(?P<fence>`{3,}+|~{3,}+)[^\n]*+\n(?:.*?)"
    r"(?:^[ \t>]*+(?P=fence)[`~]*+[ \t]*+$|\Z)"
    r"|(?<!`)(?P<ticks>`++)(?:[^`\n]++|(?!(?P=ticks)(?!`))`++){1,200}+(?P=ticks)(?!`)"
)
_LINK = re.compile(
    rf"""{_CODE}
    | \[\[(?P<wiki>[^\[\]\n|\#]{{0,300}}+)(?:\#(?P<anchor>[^\[\]\n|]{{0,200}}+))?
      (?:\|[^\[\]\n]{{0,300}}+)?\]\]
    | \]\([ \t]*+(?:<(?P<bracketed>[^<>\n]{{1,500}}+)>|(?P<bare>[^()\s<>]{{1,500}}+))
      (?:[ \t]++(?:"[^"\n]{{0,300}}"|'[^'\n]{{0,300}}'))?[ \t]*+\)""",
    re.X | re.M | re.S,
)
_CODE_ONLY = re.compile(_CODE, re.M | re.S)
_ABSOLUTE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]{0,30}+:|//|/|\#|\?")
_TAG = re.compile(r"#([\w/-]++)")
_COLOUR = re.compile(r"(?=[a-fA-F]*\d)(?:[0-9a-fA-F]{6}|[0-9a-fA-F]{8})")


class Link(NamedTuple):
    """A link: by the name of a note, or by a path from the folder of the text it is in."""

    target: str
    anchor: str = ""
    is_path: bool = False


def links_in(text: str) -> list[Link]:
    """Return the links of a text to other texts, each once, in the order of the text.

    >>> [link.target for link in links_in("[[Keys#Rotation|how]], ![[plan]], [ops](../ssh.md)")]
    ['Keys', 'plan', '../ssh.md']
    """
    if "[[" not in text and "](" not in text:
        return []
    links: dict[Link, None] = {}
    for match in _LINK.finditer(text):
        link = _link(match)
        if link is not None and link.target:
            links[link] = None
            if len(links) == MAX_LINKS:
                break
    return list(links)


def _link(match: re.Match[str]) -> Link | None:
    if match["wiki"] is not None:
        # In a table the bar is escaped.
        target = match["wiki"].removesuffix("\\").strip().removeprefix("/")
        return Link(target, (match["anchor"] or "").removesuffix("\\").strip())
    path = match["bracketed"] or match["bare"]
    if path is None or _ABSOLUTE.match(path):
        return None
    target, _, anchor = path.partition("#")
    if "%" in target:
        from urllib.parse import unquote

        target = unquote(target)
    return Link(target.partition("?")[0], anchor, is_path=True)


def inline_tags(text: str) -> list[str]:
    r"""Return the tags inside a text, each once: ``#ops``, ``#ops/ssh``; no headings, no ``#123``.

    >>> inline_tags("# Plan\n#ops and #ops/ssh, not a#b, `#code`, #12 or #00ff00")
    ['ops', 'ops/ssh']
    """
    tags: dict[str, int] = {}
    for match in _TAG.finditer(text):
        start = match.start()
        if start and not text[start - 1].isspace():
            continue
        tag = match[1].strip("/-_")
        if tag and not tag.replace("/", "").isdigit() and not _COLOUR.fullmatch(tag):
            tags.setdefault(tag, start)
    if not tags:
        return []
    return _outside_code(text, tags)[:MAX_TAGS]


def _outside_code(text: str, tags: dict[str, int]) -> list[str]:
    if "`" not in text and "~~~" not in text:
        return list(tags)
    # Blanked, not removed: a second mention outside code counts.
    bare = _CODE_ONLY.sub(lambda match: "\n" * bool(match), text)
    return inline_tags(bare) if bare != text else list(tags)
