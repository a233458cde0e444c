"""Recognise plait's own answers in a text, so that they are not stored as something new.

An agent may paste what a search, a recall, a get or a timeline printed, as text or as JSON. The
lines that plait writes around stored text (heads, receipts, next steps) say nothing to remember.
Text between fences belongs to `plait.facts.echo`; which ids are known is looked up by
`plait.writing.echoes`. Every scanner here is linear.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from plait.facts.credentials import SECRET_KINDS
from plait.facts.echo import PREFACE, SECTIONS, section_line
from plait.types import KINDS, STATUSES, TRUSTS
from plait.types.ids import ID_LENGTH, SHORT_ID, is_id
from plait.types.records import NamedTuple
from plait.types.review import REVIEW_KINDS


class About(NamedTuple):
    """What the lines of an answer may say about a document: its names, its summary, its text.

    The text has single spaces; that of the passage that was named comes first.
    """

    names: frozenset[str]
    summary: tuple[str, ...] = ()
    text: str = ""


# Returns what is known about the document with an id or the beginning of one.
LookUp = Callable[[str], About | None]

# JSON values tried in one text, and how deeply one is searched for ids.
MOST_VALUES = 50
_DEEPEST = 8
_JSON_START = re.compile(r'[{\[](?=\s*[{"\[])')
_CODE_FENCE = re.compile(r"(?:^|\n)[ \t]*```\w*[ \t]*\n?[ \t]*\Z")
_QUOTE_MARKS = frozenset({">", "-", "*", "•"})
_NUMBERED = re.compile(r"\[\d{1,3}\]")
_SCORE = re.compile(r"[01]\.\d\d|\d{1,3}%")
_DAY = re.compile(r"\d{4}-\d\d-\d\d(?:T[\d:.+Z-]+)?")
# The kinds of secrets in a document, as a caveat; the longest first, as one may begin another.
_KIND = f"(?:{'|'.join(map(re.escape, sorted(SECRET_KINDS, key=len, reverse=True)))})"
_SECRET = "secret: "
_SHORT = re.compile(rf"[a-z2-7]{{{SHORT_ID}}}")
# How many copies of a hit were folded.
_COPIES_MARK = re.compile(r"\(\+ [\d,]{1,9} cop(?:y|ies)\)")
# How many facts one replaced; never the word of a sentence.
_EARLIER = re.compile(r"earlier[]),;]{1,3}")
_LINE_NUMBERS = re.compile(r":\d+(?:-\d+)?$")
# Words that a head may contain besides the names of its document.
_MARKS = frozenset(
    {*TRUSTS, *STATUSES, *KINDS, "weak", "until", "replaced", "by", "project", "personal", "topic"}
    | {""}
)
# Whole lines. A new sentence of an interface belongs here; tests/flows/test_pasting.py pastes them.
_NUMBER = r"\d[\d,]{0,9}"
_COUNTED = rf"{_NUMBER} (?:more |earlier )?(?:hit|document|older one)s?"
_RECEIPT = rf"{_COUNTED}, (?:hybrid|keyword|vector)\b.{{0,80}} tokens?"
_IDS = r"[a-z2-7]{13}(?:, [a-z2-7]{13}){0,20}"
# What became of other messages.
_OTHERS = rf"(?:, {_NUMBER} (?:replaced|known|left out)){{0,3}}"
# What a receipt adds about a text that was stored.
_REMARKS = (
    r"(?: The part that came from memory was left out\."
    rf"| It is long: {_NUMBER} passages\."
    rf"| It is (?:{'|'.join(TRUSTS)})[^.]{{0,120}}\."
    rf"| It holds a secret \({_KIND}(?:, {_KIND}){{0,{len(SECRET_KINDS)}}}\): tell the user\."
    rf"| It supersedes {_IDS}\.| It does not replace {_IDS}, which is more trusted\."
    r"| Similar: [a-z2-7]{13} \(\d\.\d\d\)(?:, [a-z2-7]{13} \(\d\.\d\d\)){0,9}\. If it "
    r"corrects one of them, store it with supersedes\.){0,7}"
)
# How the reasons of a review begin.
_REASONS = (
    r"(?:it holds a secret|two current facts on|the (?:later|other) text"
    r"|the same (?:words|in other)|they differ in a value|the entity it belongs"
    r"|an entity without facts|its file is gone"
    rf"|a later text has another|{_NUMBER} (?:facts, more|days old)|read \d)"
)
_TRAILERS = (
    rf"(?:# ?)?{_RECEIPT}",
    rf"{_COUNTED}\.",
    r"On \d{4}-\d\d-\d\d:",
    rf"(?:At least )?{_COUNTED} (?:did not fit|left out): .{{0,60}}\.",
    rf"(?:Stored|Replaced|Already stored as) \S{{1,200}} \({_NUMBER} passages?\)"
    r"(?:, replacing [a-z2-7, ]{8,200})?(?: in \S{1,100})?",
    rf"(?:Stored|Replaced) [a-z2-7]{{13}}\.{_REMARKS}",
    rf"Restored {_IDS}\.",
    rf"Marked {_IDS}\.",
    rf"Noted: {_IDS} (?:good|wrong|none)\.",
    rf"(?:{'|'.join(REVIEW_KINDS)})  {_REASONS}.{{0,400}}",
    r"→ (?:plait .{1,900}|memory_(?:mark|delete)\(.{1,900}\)|ask the user to purge it)",
    rf"(?:{_NUMBER} findings? left out: .{{1,80}}\. )?"
    r"Ask the user before you settle any of them\.",
    r"Already stored as [a-z2-7]{13}; nothing was added\.",
    rf"Stored .{{1,60}} \({_NUMBER} messages?{_OTHERS}\)"
    r"(?: in \S{1,100})?",
    rf"(?:Restored|Would restore) {_NUMBER} documents?:",
    rf"(?:Deleted|Would delete) {_NUMBER} documents?, {_NUMBER} passages?:",
    rf"(?:Deleted|Purged|Would delete) {_NUMBER} documents?, {_NUMBER} passages?: "
    r"[^\s,]{1,80}(?:, [^\s,]{1,80}){0,8}"
    r"(?: To undo within 30 days: undo=true, same ids\.)?"
    r"(?: What (?:it|they) had replaced stays outdated\.)?",
    r"Not stored: all of it was recalled from this memory",
    r"Not stored: all of this text came from memory\. Store only what is new\.",
    rf"{_NUMBER} more facts? (?:is|are) known about [a-z2-7]{{8}}\..{{0,400}}",
    rf"Cut: the whole is about {_NUMBER} tokens\..{{0,60}}",
    r"What my memory has about: .{0,400}",
    r"(?:keyword|vector|neighbours|words|sentence|score) -?\d\.\d{4}.{0,120}",
    r"relevance \d\.\d\d: matching words .{0,300}",
    r"limbic x \d\.\d{4}: .{0,200}",
)
# How each of them begins, but for those with a number.
_TRAILER_STARTS = (
    *("#", "On ", "At least ", "Stored ", "Replaced ", "Already stored ", "Restored ", "Marked "),
    *("Noted: ", "→ ", "Ask the user ", "Deleted ", "Purged ", "Would ", "Not stored: "),
    *("Cut: ", "What my memory has ", "relevance ", "limbic ", *REVIEW_KINDS),
    *("keyword ", "vector ", "neighbours ", "words ", "sentence ", "score "),
)
_NEXT_STEPS = re.compile(
    rf"{_RECEIPT}|{_COUNTED}|about {_NUMBER} tokens?|older documents|later ones"
    r"|restore, within 30 days"
)
# A line of an overview: its number, an id, names, remarks with a day, and the beginning of a text.
_OVERVIEW_LINE = re.compile(
    rf"\[\d{{1,3}}\] ([a-z2-7]{{{SHORT_ID}}})(?: [^()\n]*+)?"
    r"\([^()\n]{0,400}\d{4}-\d\d-\d\d[^()\n]*+\) (.+)"
)
_WORD = re.compile(r"\w+")
_SENTENCES = (
    PREFACE,
    *map(section_line, SECTIONS),
    "Read one whole: memory_get with its id.",
    "Try other words.",
    "No hits. Try other words.",
    "Nothing in that time.",
    "No hits.",
    "Nothing to show.",
    "Nothing to settle.",
    "Nothing in memory is relevant to that.",
    "Nothing in memory is relevant to that. Try other words with memory_search.",
    "Nothing else in memory is relevant to that.",
    "Nothing else in memory is relevant to that. Try other words with memory_search.",
    "Use it where it helps.",
)
_BEYOND = re.compile(
    rf" ?{_COUNTED}(?: in other projects: all_projects=true|"
    r", no longer valid: (?:memory_search with )?as_of=DATE)\."
)
_CURSOR = re.compile(r" ?(?:Older|Later) ones: cursor=-?\d{1,20}-[a-z2-7]{1,13}\.")
_LONGEST_TRAILER = 1_000


def without_answers(text: str, look_up: LookUp) -> tuple[str, bool]:
    r"""Return a text without the parts that an answer of plait adds, and whether there were any.

    >>> without_answers("We moved.\nplait get abcdefgh  # 2 hits", lambda id_: None)
    ('We moved.', True)
    """
    rest, cut = _without_values(text, look_up)
    kept = []
    hit: About | None = None
    for line in rest.split("\n"):
        hit = _known(line, look_up) or (hit if line.startswith(" ") else None)
        # The lines below the head of a hit are the rest of its snippet.
        own = None if hit and _is_excerpt(line.split(), hit) else _own_part(line, look_up)
        cut = cut or own is not line
        if own is not None:
            kept.append(own)
    return ("\n".join(kept), True) if cut else (text, False)


# -- JSON ----------------------------------------------------------------------------------


def _without_values(text: str, look_up: LookUp) -> tuple[str, bool]:
    """Leave out JSON values that contain an id of this memory, and empty answers."""
    decoder = json.JSONDecoder()
    parts: list[str] = []
    place = tried = 0
    cut = False
    start = _JSON_START.search(text)
    while start is not None and tried < MOST_VALUES:
        tried += 1
        end = start.end()
        try:
            value, end = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            value = None
        if _is_empty(value) or any(look_up(id_) is not None for id_ in _ids(value)):
            before = text[place : start.start()]
            opening = _CODE_FENCE.search(before[-40:])
            if opening is not None:
                before = before[: len(before) - len(opening[0])] + "\n"
                closing = text.find("```", end, end + 8)
                end = end if closing < 0 else closing + 3
            parts.append(before)
            place, cut = end, True
        start = _JSON_START.search(text, end)
    return "".join([*parts, text[place:]]), cut


def _is_empty(value: Any) -> bool:
    """Tell whether a JSON value is an answer without hits: it has no ids to know it by."""
    if not isinstance(value, dict):
        return False
    inner = value.get("structuredContent")
    if isinstance(inner, dict):
        return _is_empty(inner)
    return value.get("results") == [] and not {"receipt", "tokens", "counts"}.isdisjoint(value)


def _ids(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield the ids in a JSON value, as answers and exports write them."""
    if depth > _DEEPEST:
        return
    if isinstance(value, dict):
        listed = value.get("ids")
        for id_ in (value.get("id"), *(listed if isinstance(listed, list) else ())):
            if isinstance(id_, str) and is_id(id_):
                yield id_
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _ids(part, depth + 1)


# -- lines ---------------------------------------------------------------------------------


def _own_part(line: str, look_up: LookUp) -> str | None:
    """Return the line itself, the stored text behind a head in it, or ``None`` for no text."""
    if _is_trailer(line.strip()):
        return None
    if _is_of_overview(line.strip(), look_up):
        return None
    words = _words(line)
    head, known = _head(words), _known(line, look_up)
    if head is None or known is None:
        return line
    rest = _without_versions(_without_summary(words[head + 1 :], known.summary))
    scored = any(word == "weak" or _SCORE.fullmatch(word) for word in words[: head + 2])
    if scored:
        while rest and _is_mark(rest[0], known.names):
            rest = rest[1:]
        return None if _is_excerpt(rest, known) else " ".join(rest)
    return None if all(_is_mark(word, known.names) for word in rest) else line


def _is_of_overview(line: str, look_up: LookUp) -> bool:
    """Tell whether a line of an overview has only words of its document, in their order."""
    match = _OVERVIEW_LINE.fullmatch(line) if len(line) <= _LONGEST_TRAILER else None
    known = match and look_up(match[1])
    if not match or not known:
        return False
    words = _WORD.findall(match[2])
    # The last word may be cut off.
    words = words[:-1] if match[2].endswith("…") else words
    text = iter(_WORD.findall(known.text))
    return bool(words) and all(word in text for word in words)


@cache
def _secret_mark() -> re.Pattern[str]:
    """Return the pattern of such a caveat; compiled when a line has one, because it takes 1 ms."""
    return re.compile(rf"\b{_SECRET}{_KIND}(?:, {_KIND}){{0,{len(SECRET_KINDS)}}}(?!\w)")


def _words(line: str) -> list[str]:
    if _SECRET in line:
        line = _secret_mark().sub("", line)
    return _COPIES_MARK.sub("", line).split()


def _known(line: str, look_up: LookUp) -> About | None:
    """Return what is known about the id in the head of a line."""
    words = _words(line)
    head = _head(words)
    return None if head is None else look_up(words[head].strip("()[],;:"))


def _is_excerpt(words: Sequence[str], known: About) -> bool:
    """Tell whether words are a part of the text that their line is about, or no words at all."""
    return " ".join(words).strip("… ") in known.text


def _is_trailer(line: str) -> bool:
    if not line or len(line) > _LONGEST_TRAILER:
        return False
    command, mark, why = line.rpartition("# ")
    if mark and command.startswith("plait ") and _NEXT_STEPS.fullmatch(why):
        return True
    line = _BEYOND.sub("", line)
    for sentence in _SENTENCES:
        line = line.removesuffix(sentence).rstrip()
    line = _CURSOR.sub("", line)
    if not line or not (line[0].isdecimal() or line.startswith(_TRAILER_STARTS)):
        return not line
    return _trailers().fullmatch(line) is not None


@cache
def _trailers() -> re.Pattern[str]:
    """Return the pattern of such lines; compiled when one may be there, because it takes 4 ms."""
    return re.compile("|".join(_TRAILERS))


def _head(words: Sequence[str]) -> int | None:
    """Return the place of an id at the beginning of a line, behind numbers, scores and days."""
    for place, word in enumerate(words[:5]):
        if len(word) in (SHORT_ID, ID_LENGTH) and word.islower() and word.isalnum():
            return place
        if word in _QUOTE_MARKS or any(
            pattern.fullmatch(word) for pattern in (_NUMBERED, _SCORE, _DAY)
        ):
            continue
        return None
    return None


def _without_summary(words: Sequence[str], summary: Sequence[str]) -> list[str]:
    """Leave out the first occurrence of a summary, or of its beginning at the end of the line.

    >>> _without_summary(["fact", "We", "dep…"], ["We", "deploy", "on", "Fridays"])
    ['fact']
    """
    words, summary = list(words), list(summary)
    for place in range(len(words)) if summary else ():
        run = words[place : place + len(summary)]
        if run == summary:
            return [*words[:place], *words[place + len(summary) :]]
        whole, last = run[:-1], run[-1].removesuffix("…")
        if (
            last != run[-1]
            and place + len(run) == len(words)
            and whole == summary[: len(whole)]
            and summary[len(whole)].startswith(last)
        ):
            return words[:place]
    return words


def _without_versions(words: list[str]) -> list[str]:
    """Leave out the id behind "replaced by", and how many came earlier."""
    kept: list[str] = []
    for word in words:
        before = [part.lstrip("(") for part in kept[-2:]]
        behind = before == ["replaced", "by"]
        if _EARLIER.fullmatch(word) and before and before[-1].lstrip("[").isdecimal():
            kept[-1:] = ["", ""]
        else:
            kept.append("" if behind and _SHORT.fullmatch(word.strip("()[],;:.")) else word)
    return kept


def _is_mark(word: str, names: frozenset[str]) -> bool:
    if word in names or _SCORE.fullmatch(word):
        return True
    bare = word.strip("()[],;:.")
    if not bare or bare in names or bare in _MARKS or _DAY.fullmatch(bare):
        return True
    name = _LINE_NUMBERS.sub("", bare)
    cut = name.startswith("…") and any(known.endswith(name[1:]) for known in names)
    return cut or name in names
