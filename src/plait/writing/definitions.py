r"""Find the definitions in source code, so that a passage is cut before one and is named after it.

A scanner of lines, not a parser: it reads what does not compile, in linear time. Strings and
comments of several lines are passed over. Pure. A line ends at ``\n`` and nowhere else.
"""

import re
from functools import cache

from plait.writing.outlines import MAX_HEADING_LEVEL, Heading, Outline

# Characters. Longer names are made by machines.
_MAX_NAME_CHARS = 120

_STRING = r'"(?:[^"\\\n]|\\.)*+"?'
_QUOTE = r"'(?:[^'\\\n]|\\.)*+'?"
# A quote that is not closed within so many characters is none: it hides no definitions.
_MAX_QUOTED = 20_000
_ESCAPE = r"\\."
_BACKTICK = rf"`(?:[^`\\]|\\.){{0,{_MAX_QUOTED}}}+`"
_RAW_BACKTICK = rf"`[^`]{{0,{_MAX_QUOTED}}}+`"
_RAW_QUOTE = rf"'[^']{{0,{_MAX_QUOTED}}}+'"
# Where a value is expected, a slash begins a regular expression, which may contain any quote.
_REGEX = (
    r"(?:[(,=:\[!&|?{};+]|=>|\breturn\b|^)[ \t]*+"
    r"/(?![/*])(?:[^/\\\n\[]|\\[^\n]|\[(?:[^\]\\\n]|\\[^\n]){0,100}+\]){1,100}+/"
)
# In a word, as in "don't", an apostrophe is a quote only if the line has a second one.
_SHELL_QUOTE = rf"(?<!\w){_RAW_QUOTE}|(?<=\w)'[^'\n]*+'"
_SHELL_COMMENT = r"(?<![^\s;|&(])\#[^\n]*+"
_SLASHES = r"//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z)"
_HASH = r"\#[^\n]*+"
_TRIPLE = r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"""|\Z)|' + r"'''(?:[^'\\]|\\.|'(?!''))*+(?:'''|\Z)"
_MODIFIERS = (
    r"(?:(?:public|private|protected|internal|fileprivate|static|final|abstract|sealed|open|data|"
    r"override|partial|async|virtual|suspend|inline|synchronized|native|default|readonly|export|"
    r"declare|unsafe|extern|case|implicit|lazy|mutating|@\w+)[ \t]++)*+"
)

# What to pass over, and what the lines of definitions look like; each has one name in a group.
_LANGUAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "python": (
        f"{_TRIPLE}|{_HASH}|{_STRING}|{_QUOTE}",
        (r"(?:async[ \t]++)?(?:def|class)[ \t]++(\w++)",),
    ),
    "javascript": (
        f"{_SLASHES}|{_REGEX}|{_STRING}|{_QUOTE}|{_BACKTICK}|{_ESCAPE}",
        (
            rf"{_MODIFIERS}(?:const[ \t]++(?=enum))?"
            r"(?:function\*?|class|interface|enum|namespace|type)[ \t]++([\w$]++)",
            r"(?:export[ \t]++)?(?:const|let|var)[ \t]++([\w$]++)[ \t]*+(?::[^=\n]{0,200})?=[ \t]*+"
            r"(?:async[ \t]*+)?(?:function\b|\([^()\n]{0,300}\)[^=;\n]{0,100}=>|[\w$]++[ \t]*+=>)",
            rf"{_MODIFIERS}(?:(?:get|set)[ \t]++)?"
            r"(?!(?:if|for|while|switch|catch|return|function|with|do|else)\b)"
            r"([\w$\#]++)[ \t]*+\([^()\n]{0,300}\)[^\n;={}()]{0,100}\{[ \t]*+$",
        ),
    ),
    "go": (
        f"{_SLASHES}|{_STRING}|{_QUOTE}|{_RAW_BACKTICK}",
        (r"func[ \t]++(?:\([^()\n]{0,200}\)[ \t]*+)?(\w++)", r"type[ \t]++(\w++)[ \t\[]"),
    ),
    "rust": (
        f"{_SLASHES}|{_STRING}",
        (
            r"(?:pub(?:\([^()\n]{0,40}\))?[ \t]++)?(?:(?:default|const|async|unsafe|extern)[ \t]++"
            r'(?:"C"[ \t]++)?)*+(?:fn|struct|enum|trait|mod|union|type|macro_rules!)[ \t]++(\w++)',
            r"(?:unsafe[ \t]++)?(impl\b[^{\n]{1,120})",
        ),
    ),
    "java": (
        f"{_SLASHES}|{_STRING}|{_QUOTE}",
        (
            rf"{_MODIFIERS}(?:class|@?interface|enum(?:[ \t]++class)?|record|struct|object|trait|"
            r"namespace|protocol|extension|fun|func|def)[ \t]++(?:<[^>\n]{0,80}>[ \t]*+)?([\w.]++)",
            rf"{_MODIFIERS}(?!(?:return|new|else|throw|await|in|is|as)\b)"
            r"[\w.]++(?:<[^()\n;=]{0,80}>)?(?:\[\])*+[ \t]++(\w++)[ \t]*+"
            r"\([^;\n]{0,300}[{,)][ \t]*+$",
        ),
    ),
    "c": (
        f"{_SLASHES}|{_STRING}|{_QUOTE}",
        (
            r"(?:template[ \t]*+<[^>\n]{0,120}>[ \t]*+)?(?:typedef[ \t]++)?"
            r"(?:class|struct|union|namespace|enum(?:[ \t]++class)?)[ \t]++([\w:]++)"
            r"(?=[^;()\n]{0,200}$)",
            r"\#[ \t]*+define[ \t]++(\w++)\(",
            r"(?![ \t\#}]|(?:if|for|while|switch|return|else|do|typedef|using)\b)"
            r"(?:[\w:<>,*&\[\]]++[ \t]++){1,8}[*&]*+([\w:~]++)[ \t]*+"
            r"\([^;{}\n]{0,400}[),][^;\n]{0,80}$",
        ),
    ),
    "ruby": (
        f"{_HASH}|{_STRING}|{_QUOTE}",
        (r"(?:def|class|module)[ \t]++([\w.:?!=]++)",),
    ),
    "php": (
        f"{_SLASHES}|{_HASH}|{_STRING}|{_QUOTE}",
        (rf"{_MODIFIERS}(?:function|class|interface|trait|enum)[ \t]++&?(\w++)",),
    ),
    "shell": (
        f"{_SHELL_COMMENT}|{_STRING}|{_SHELL_QUOTE}|{_ESCAPE}",
        (r"function[ \t]++([\w.:-]++)", r"([\w.:-]++)[ \t]*+\(\)[ \t]*+"),
    ),
    "sql": (
        rf"--[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z)|{_RAW_QUOTE}",
        (
            r"CREATE[ \t]++(?:OR[ \t]++REPLACE[ \t]++)?"
            r"(?:(?:TEMP|TEMPORARY|UNIQUE|MATERIALIZED|VIRTUAL|UNLOGGED)[ \t]++)*+"
            r"(?:TABLE|VIEW|INDEX|FUNCTION|PROCEDURE|TRIGGER|TYPE|SCHEMA)[ \t]++"
            r"(?:IF[ \t]++NOT[ \t]++EXISTS[ \t]++)?([\w.\"`\[\]]++)",
        ),
    ),
}
# Lines directly above a definition that belong to it: decorators, attributes and comments.
_BELONGS = ("@", "#", "//", "/*", "*", "--", '"""')


@cache
def _scanner(language: str) -> re.Pattern[str]:
    skipped, definitions = _LANGUAGES[language]
    flags = re.M | re.S | (re.I if language == "sql" else 0)
    return re.compile(rf"^([ \t]*+)(?:{'|'.join(definitions)})|(?:{skipped})", flags)


def outline_code(language: str, text: str, size: int) -> Outline:
    r"""Return the definitions of a program as headings; those inside others are below them.

    >>> code = "class Key:\n    def rotate(self):\n        pass\n\ndef main(): ...\n"
    >>> [(row.level, row.title) for row in outline_code("python", code, 1200)[0]]
    [(1, 'Key'), (2, 'rotate'), (1, 'main')]
    """
    headings: list[Heading] = []
    indents: list[int] = []
    floor = 0
    for match in _scanner(language).finditer(text):
        if match[1] is None:
            continue
        # The first group is the indent; of the others, the definition that matched has its name.
        name = next(filter(None, match.groups()[1:]), "")
        indent = len(match[1].expandtabs(4))
        while indents and indents[-1] >= indent:
            indents.pop()
        indents.append(indent)
        start = _first_line(text, match.start(), floor)
        floor = text.find("\n", match.end()) + 1 or len(text)
        level = min(len(indents), MAX_HEADING_LEVEL)
        title = " ".join(name.split())[:_MAX_NAME_CHARS]
        headings.append(Heading(start, floor, level, title))
    return headings, {}


def _first_line(text: str, start: int, floor: int) -> int:
    """Return where the decorators and comments above a definition begin."""
    while start > floor:
        above = text.rfind("\n", floor, start - 1) + 1 or floor
        if not text[above:start].lstrip().startswith(_BELONGS):
            break
        start = above
    return start
