"""The words around a question that are not what it asks: "hey, do you know", "please". Pure."""

import re
from functools import cache

from plait.text import OPERATOR_MARKS, empty_words, words_in

# What people say to others, and not of their subject, at the beginning of a question. A greeting
# needs a mark or a question word behind it: "Hey Jude" is a song, and "hello, world" a program.
_GREETING = (
    r"(?:hey|hi|hello(?!\W+world\b)|hallo|ok|okay|so|well|sorry|please|bitte|question|frage|q)\b"
    r"(?:\s(?:all|there|team|everyone|everybody|folks|guys|zusammen))?"
    r"(?:\s?[,!.:;\u2013\u2014-]+\s|\s(?=(?:what|who|whose|when|where|why|how|which|is|are|do|does|did"
    r"|can|could|would|please|tell|remind|was|wer|wann|wo|warum|wie|welche)\b))"
)
_FRAME = (
    r"(?:can|could|would|will)\s(?:you|anyone|anybody|someone|somebody)\s(?:please\s)?"
    r"(?:tell|remind|show|explain\sto)\s(?:me|us)\b(?:\sagain)?"
    r"|(?:do|does|would)\s(?:you|anyone|anybody|someone|somebody)\s(?:still\s|happen\sto\s)?"
    r"(?:know|remember|recall)\b"
    r"|(?:please\s)?(?:tell|remind)\s(?:me|us)\b(?:\sagain)?"
    r"|i(?:\swould|['\u2019]d)?\s(?:like|want|need)\sto\sknow\b"
    r"|(?:kannst\sdu|k\u00f6nnen\ssie)\s(?:mir|uns)\s(?:bitte\s)?sagen\b"
    r"|(?:wei\u00dft\sdu|wissen\ssie|sag\smir|peux-tu\sme\sdire|dis-moi|sais-tu|puedes\sdecirme|dime|sabes)\b"
)
_BEHIND_FRAME = r"(?:\s?[,:]+)?(?:\s(?:please|bitte|about|of|if|whether|ob)\b,?)?\s"
# Most questions begin and end otherwise: that is told without compiling the patterns.
_FIRST = (
    "hey hi hello hallo ok okay so well sorry please bitte question frage q can could would will "
    "do does tell remind i kannst können weißt wissen sag peux dis sais puedes dime sabes"
)
# "Tell me more" asks for nothing in particular.
_NOTHING = (
    "more again everything anything something nothing all next later first last else yes no sure "
    "go ahead continue on good great fine cool nice wait stop mehr alles nochmal weiter ja nein"
)
_FIRST_WORDS = frozenset(_FIRST.split())
_LAST_WORDS = ("please", "pls", "thanks", "you", "thx", "bitte", "danke", "merci", "gracias")
_BEFORE_SUBJECT = ("say", "saying", "said", "the", "a", "of", "for")
_MARKS = " \t\r\n?!.,"
_LAST_CHARS = 40  # of a text, enough for such an end


@cache
def _start() -> re.Pattern[str]:
    return re.compile(rf"\s*(?:{_GREETING})?\s*(?:(?:{_FRAME}){_BEHIND_FRAME})?", re.IGNORECASE)


@cache
def _end() -> re.Pattern[str]:
    polite = "please|pls|thanks|thank\\syou|thx|bitte|danke|merci|gracias"
    # "How to say thank you" is a question about it.
    named = "".join(rf"(?<!\b{word})" for word in _BEFORE_SUBJECT)
    marks = r",.!\u2013\u2014-"
    # Blanks and marks in one class: of alternatives, each blank could be either one's.
    return re.compile(rf"(?:{named}\s|[{marks}])[\s{marks}]*(?:{polite})$", re.IGNORECASE)


def question_in(text: str) -> str:
    """Return what a text asks, without what is said to the one who is asked.

    >>> question_in("Hey, do you know when the boiler was serviced? Thanks!")
    'when the boiler was serviced?'
    >>> question_in("Hey Jude"), question_in("please"), question_in("MTTR???")
    ('Hey Jude', 'please', 'MTTR?')
    """
    if any(mark in text for mark in OPERATOR_MARKS):
        return text
    rest = _with_one_mark(text)
    body = rest.rstrip(_MARKS)
    if body[-_LAST_CHARS:].lower().endswith(_LAST_WORDS):
        end = _end().search(body, max(0, len(body) - _LAST_CHARS))
        rest = rest if end is None else _with_one_mark(body[: end.start()])
    first = re.match(r"\s*([^\W\d_]+)", rest)
    if first is not None and first[1].lower() in _FIRST_WORDS and (start := _start().match(rest)):
        rest = rest[start.end() :]
    if rest == text:
        return text
    return text if empty_words().union(_NOTHING.split()).issuperset(words_in(rest)) else rest


def _with_one_mark(text: str) -> str:
    """Return a text with one mark at its end at most: "why???" asks no more than "why?"."""
    body = text.rstrip(_MARKS)
    return body + text[len(body) :].strip()[:1]
