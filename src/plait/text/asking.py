"""The words around a question that are not what it asks: "hey, do you know", "please". Pure.

And the question words of other languages than English, which are not what it is about.
"""

import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from plait.text import OPERATOR_MARKS, has_runs, words_in
from plait.text.english import empty_words

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
# Question words that no word, name or abbreviation in English is spelt like ("wer", "como", "kim",
# "qui", "quanto", "kto" and "hangi" are): each shows by itself that a question is not in English.
_ASKING = (
    # Danish, Dutch
    "hvad hvem hvilke hvilken hvilket hvordan hvorfor hvornår hoeveel waarom wanneer welke "
    # French
    "combien laquelle lequel lesquels où pourquoi quand quel quelle quelles quels quoi "
    # German
    "wann warum welche welchem welchen welcher welches weshalb wessen wie wieso wieviel wieviele "
    "wodurch wofür woher wohin womit woran worauf worin worüber wozu "
    # Italian, Portuguese
    "onde perche perchè perché quais quali quando quante quanti quantas quantos quem "
    # Polish, Swedish
    "dlaczego gdzie jakie kiedy która które który när varför vilka vilken vilket "
    # Spanish
    "adónde cómo cuál cuáles cuando cuándo cuanta cuánta cuantas cuántas cuanto cuánto cuantos "
    "cuántos cual cuales donde dónde qué quien quién quienes quiénes "
    # Turkish
    "hangisi hangileri kaç kimde kimden kimdi kimdir kiminle nasıl neden nelerdir nerde nerede "
    "nereden neresi nereye niçin niye"
)
# The same of two words that stand side by side, whichever of them is an English word.
_ASKING_PAIRS = {
    *(("ne", "zaman"), ("por", "que"), ("qui", "a"), ("qui", "est"), ("wer", "hat")),
    *(("wer", "ist"), ("wo", "ist"), ("wo", "sind")),
}
FEW_WORDS = 3  # of a question, if it has no more
_FIRST_OTHER_LETTER = "\u0370"  # of scripts that no English word is written in
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


@cache
def _asking() -> frozenset[str]:
    return frozenset(_ASKING.split())


def asking_words(words: Sequence[str]) -> frozenset[str]:
    """Return the question words that show by themselves that a question is not in English.

    >>> sorted(asking_words(["ne", "zaman", "tatil"])), sorted(asking_words(["wann", "umzug"]))
    (['ne', 'zaman'], ['wann'])
    >>> asking_words(["wer", "metric"])
    frozenset()
    """
    pairs = [pair for pair in pairwise(words) if pair in _ASKING_PAIRS]
    return _asking().intersection(words).union(*pairs)


def is_of_other_script(word: str) -> bool:
    """Tell whether a word is written in letters that no English word has."""
    return word[0] >= _FIRST_OTHER_LETTER


def without_function_words(words: Sequence[str], question: Sequence[str]) -> list[str]:
    """Return words without the function words of the language that the question shows to be in.

    >>> question = ["wann", "umzug"]
    >>> without_function_words(question, question)
    ['umzug']
    """
    shown = len(question) > FEW_WORDS or any(map(is_of_other_script, question))
    if not shown and not asking_words(question):
        return list(words)
    from plait.text.function_words import without_foreign_function_words

    return without_foreign_function_words(words, question)


def without_asking(text: str) -> str:
    """Return a question without the question words that no blank sets apart.

    >>> without_asking("什么时候搬家").strip(), without_asking("wann Umzug")
    ('搬家', 'wann Umzug')
    """
    if not has_runs(text) or any(mark in text for mark in OPERATOR_MARKS):
        return text  # whatever is quoted is meant
    from plait.text.unspaced_asking import without_asking as without

    return without(text)


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
