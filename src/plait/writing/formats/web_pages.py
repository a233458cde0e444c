"""Read web pages: their text as Markdown, without scripts, styles and navigation.

A tokenizer of our own: on 60 KB of unclosed tags the standard library's parser (Python 3.11.7) is
busy for 30 seconds, because it starts over at each of them. Here the first unclosed tag ends the
parsing, and what follows is text.
"""

import codecs
import re
from html import unescape

from plait.writing.formats.encodings import Converted, decoded

_TOKEN = re.compile(
    r"""<(?:
      (?P<comment>!--)
    | (?P<bogus>[!?][^>]*+>)
    | (?P<end>/?+)(?P<name>[a-zA-Z][^\s/>]*+)
      (?P<attributes>(?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+'|))*+)>
    )""",
    re.X,
)
_TAG_START = re.compile(r"<(?:/?[a-zA-Z]|[!?])")
_ATTRIBUTE = re.compile(r"""([a-zA-Z-]{1,40})\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++))""")
_HIDDEN = re.compile(
    r"""(?:^|\s)hidden(?:\s|=|/|$)|display\s*+:\s*+none|=["']?navigation\b""", re.I
)
# Longer numbers name no character, and Python refuses to read numbers of thousands of digits.
_REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});?")
_SPACES = re.compile(r"[ \t\f\v\r]+")
_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w-]{1,40})""", re.I)

# The encodings of web pages, as Python names them. Some of its other codecs are no encodings, and
# some take quadratic time.
_ENCODINGS = frozenset(
    {"utf-8", "utf-16", "utf-16-le", "utf-16-be", "ascii", "koi8-r", "koi8-u", "cp866", "cp874"}
    | {f"cp125{number}" for number in range(9)}
    | {f"iso8859-{number}" for number in range(1, 17)}
    | {"shift_jis", "cp932", "euc_jp", "gb2312", "gbk", "gb18030", "big5", "euc_kr", "cp949"}
)
# Different elements of a page that are hidden and never closed. Each is looked for once, through
# the rest of the page.
_MOST_UNCLOSED = 20
# Their content is no text: the next closing tag ends it, whatever stands between.
_RAW = frozenset({"script", "style", "textarea", "template", "noscript", "iframe", "svg", "math"})
_NAVIGATION = frozenset({"nav", "menu"})
_VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr", "area", "base", "col"})
_BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "caption",
        "center",
        "dd",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "hr",
        "legend",
        "main",
        "nav",
        "ol",
        "option",
        "p",
        "pre",
        "section",
        "summary",
        "table",
        "tbody",
        "tfoot",
        "thead",
        "tr",
        "ul",
        "html",
        "head",
        "title",
        "li",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
    ]
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_RELATIVE = re.compile(r"(?![a-zA-Z][a-zA-Z0-9+.-]*:|[#/?])[^\s()<>]{1,500}$")


def convert_page(data: bytes, name: str, max_bytes: int) -> Converted:
    """Return the text of a web page as Markdown.

    Raises:
        NotText: It is binary or in an unknown encoding.
    """
    source = _decoded_page(data, name)
    page = _Page(source.text)
    page.read()
    text = "".join(f"{row}\n" for row in page.rows)
    return Converted(text, tuple(page.numbers), page.title, source.remark)


def _decoded_page(data: bytes, name: str) -> Converted:
    """Return the source of a page; an older page names its encoding itself."""
    declared = _META_CHARSET.search(data[:4096])
    if declared and declared[1].lower() not in (b"utf-8", b"utf8"):
        try:
            codec = codecs.lookup(declared[1].decode("ascii")).name
            if codec not in _ENCODINGS:
                return decoded(data, name)
            text = data.decode(codec)
        except (LookupError, ValueError):
            return decoded(data, name)
        if "\0" not in text:
            return Converted(text.replace("\r\n", "\n").replace("\r", "\n"))
    return decoded(data, name)


class _Page:
    """One pass over a page. ``rows`` are the lines of its text, ``numbers`` their source lines."""

    def __init__(self, source: str) -> None:
        self.rows: list[str] = []
        self.numbers: list[int] = []
        self.title = ""
        self._source = source
        # Where the count of the source's lines is, and the line that is being read.
        self._counted, self._lines_counted, self._line = 0, 1, 1
        # Elements that were hidden and never closed: looking for their ends again takes too long.
        self._unclosed: set[str] = set()
        # The line being written: its words, its first line in the source, its prefix.
        self._words: list[str] = []
        self._first = 1
        self._prefix = ""
        # Inside a heading, list item or cell, a line break of the source is a space.
        self._joined = False
        self._pre: list[str] | None = None
        self._in_title = False
        self._links: list[str] = []

    def read(self) -> None:
        at = 0
        source = self._source
        while (start := source.find("<", at)) >= 0:
            self._text(source[at:start], at)
            token = _TOKEN.match(source, start)
            if token is not None:
                at = self._tag(token)
                if at < 0:
                    at = start
                    break
            elif _TAG_START.match(source, start):
                at = start
                break
            else:
                self._text("<", start)
                at = start + 1
        # What follows a tag that is never closed.
        self._text(source[at:], at)
        self._end_pre()
        self._end_line()
        while self.rows and not self.rows[-1]:
            self.rows.pop()
            self.numbers.pop()

    def _tag(self, token: re.Match[str]) -> int:
        """Act on a tag; return where the text goes on, or -1 if it is never closed."""
        source, at = self._source, token.end()
        if token["comment"]:
            end = source.find("-->", at)
            return end if end < 0 else end + 3
        if token["bogus"]:
            return at
        name = token["name"].lower()
        if token["end"]:
            self._number(token.start())
            self._close(name)
            return at
        if name in _RAW:
            end = _behind(source, name, at, nested=name == "svg")
            return len(source) if end < 0 else end
        is_sought = name not in self._unclosed and len(self._unclosed) < _MOST_UNCLOSED
        if is_sought and _is_hidden(name, token["attributes"]):
            end = _behind(source, name, at, nested=True)
            if end >= 0:
                return end
            self._unclosed.add(name)
        self._number(token.start())
        self._open(name, token["attributes"])
        return at

    def _open(self, name: str, attributes: str) -> None:
        if name in _BLOCKS or name == "br":
            self._end_line(blank=name not in ("br", "tr", "li", "dd"))
        if name in _HEADINGS:
            self._prefix, self._joined = "#" * _HEADINGS[name] + " ", True
        elif name in ("li", "dd", "option"):
            self._prefix, self._joined = "- ", True
        elif name in ("td", "th") and self._words:
            self._words.append(" | ")
        elif name == "tr":
            self._joined = True
        elif name == "pre":
            self._pre = []
            self._first = self._line
        elif name == "title":
            self._in_title = True
        elif name == "a":
            self._open_link(attributes)

    def _open_link(self, attributes: str) -> None:
        """Keep a link to another page beside this one: it may be in the memory too."""
        target = ""
        for match in _ATTRIBUTE.finditer(attributes[:2000]):
            value = next((group for group in match.groups()[1:] if group), "")
            if match[1].lower() == "href" and _RELATIVE.match(value):
                target = _unescaped(value)
        self._links.append(target)
        if target and self._pre is None:
            self._write("[")

    def _close(self, name: str) -> None:
        if name == "a" and self._links:
            target = self._links.pop()
            if target and self._pre is None:
                self._words.append(f"]({target})")
        elif name == "pre":
            self._end_pre()
        elif name == "title":
            if not self.title:
                self.title = " ".join("".join(self._words).split())[:200]
            self._words, self._in_title = [], False
        elif name in _BLOCKS:
            self._end_line(blank=name not in ("tr", "li", "dd"))
            self._prefix, self._joined = "", False

    def _text(self, text: str, at: int) -> None:
        if not text:
            return
        self._number(at)
        text = _unescaped(text)
        if self._pre is not None:
            self._pre.append(text)
            return
        if self._in_title or self._joined:
            self._write(text.replace("\n", " "))
            return
        first, *others = text.split("\n")
        self._write(first)
        line = self._line
        for other in others:
            line += 1
            if other and not other.isspace():
                if self._words:
                    self._end_line()
                self._line = line
                self._write(other)
            elif self._words:
                self._words.append(" ")

    def _write(self, text: str) -> None:
        text = _SPACES.sub(" ", text)
        if not self._words:
            text = text.lstrip()
            self._first = self._line
        if text:
            self._words.append(text)

    def _number(self, at: int) -> None:
        """Count the lines of the source up to a position."""
        self._lines_counted += self._source.count("\n", self._counted, at)
        self._counted = max(at, self._counted)
        self._line = self._lines_counted

    def _end_line(self, *, blank: bool = False) -> None:
        text = _SPACES.sub(" ", "".join(self._words)).strip()
        if text and not self._in_title:
            self._add(self._prefix + text, self._first)
            self._prefix, self._joined = "", False
        self._words = []
        if blank and self.rows and self.rows[-1]:
            self._add("", self._line)

    def _end_pre(self) -> None:
        if self._pre is None:
            return
        whole = "".join(self._pre)
        code = whole.strip("\n")
        self._first += len(whole) - len(whole.lstrip("\n"))
        self._pre = None
        if not code.strip():
            return
        fence = "~~~~" if "```" in code else "```"
        self._add(fence, self._first)
        for number, row in enumerate(code.split("\n")):
            self._add(row.rstrip(), self._first + number)
        self._add(fence, self._line)
        self._add("", self._line)

    def _add(self, row: str, number: int) -> None:
        self.rows.append(row)
        self.numbers.append(number)


def _is_hidden(name: str, attributes: str) -> bool:
    """Tell whether an element is navigation, or nobody sees it in a browser."""
    if name in _VOID or name in ("html", "body"):
        return False
    return name in _NAVIGATION or bool(attributes and _HIDDEN.search(attributes[:1000]))


def _behind(source: str, name: str, at: int, *, nested: bool) -> int:
    """Return where an element ends whose content is left out; -1 if it is never closed."""
    depth = 1
    tag = re.compile(rf"<(/?){re.escape(name)}(?=[\s/>])[^>]*+>?", re.I)
    for match in tag.finditer(source, at):
        if match[1]:
            depth -= 1
        elif nested:
            depth += 1
        if not depth:
            return match.end()
    return -1


def _unescaped(text: str) -> str:
    if "&" not in text:
        return text
    return _REFERENCE.sub(lambda match: unescape(match[0]), text).replace("\0", "\ufffd")
