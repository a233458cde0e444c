"""English: its function words, its months, and what Porter's stemmer keeps apart. Pure.

Words of other languages are in `plait.text.asking`, `plait.text.function_words` and
`plait.text.dates`.
"""

import re
from collections.abc import Sequence
from functools import cache, lru_cache

# Articles, the commonest prepositions, forms of be and do, pronouns and question words: few on
# purpose. BM25 discounts the rest: 112 function words lowered the mean nDCG@10 of the eight English
# collections by 0.003 against these, none by 0.005. For other languages see `function_words`.
_STOP_WORDS = (
    "a an and are be did do does for he her him his how i in is me my of on or our she the their "
    "them they to us was we were what when where which who why you your"
)
STOP_WORDS: frozenset[str] = frozenset(_STOP_WORDS.split())
# Words that say nothing about the subject of a passage. They may rank, but a match is no evidence
# that the passage answers.
_EMPTY_WORDS = (
    "about also am any as at because been being but by can cannot could doing done else ever "
    "from had has have having here hers herself himself if into it its itself just mine "
    "myself no nor not now ok okay ours ourselves please shall should so some such than "
    "thanks that theirs themselves then there these this those though thus too upon very "
    "whatever whether while whom whose will with would yes yet yours yourself yourselves"
)

# Letters of names and loanwords in English texts.
LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzáàâäåãæçéèêëíìîïñóòôöøõœúùûüý")

# Words that hardly any other language has: "was" is German, and "no" is Spanish.
_SHOWING_WORDS = (
    "about and are because could did does each every from how its that the their them then there "
    "these they this those what when where which who why with would you your"
)
_SHOWING = frozenset(_SHOWING_WORDS.split())
BEGINNING = 1_000  # characters of a text that show its language

MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september"),
    *("october", "november", "december"),
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

# Words that belong together, though they have different stems: "deploy" is indexed as "deploi",
# "deployment" as "deploy". A word of a question also finds the others of its line, in all their
# regular forms. The list is closed and was measured: general rules, and lines such as "produce
# production" or "child children", found fewer right passages. One word for each stem of a line, in
# its base form where it has one.
_LINES = """
annoy annoyance|agree agreement|argue argument|betray betrayal|comply compliance|decide decision
deny denial|deploy deployment|describe description|destroy destroyer|disagree disagreement
employ employment|enjoy enjoyment|explain explanation|judge judgment judgement
maintain maintenance|pay payment paid|portray portrayal|prescribe prescription
repay repayment repaid|settle settlement|ship shipment|submit submission|subscribe subscription
transcribe transcription
foot feet|knife knives|leaf leaves|loaf loaves|shelf shelves|tooth teeth|wife wives|wolf wolves
become became|begin began begun|bite bitten|break broke broken|bring brought|build built|buy bought
catch caught|choose chose chosen|come came|deal dealt|dig dug|draw drew drawn|drink drank drunk
drive drove driven|eat ate eaten|fall fell fallen|feed fed|feel felt|fight fought|fly flew flown
forget forgot forgotten|freeze froze frozen|give gave|go went gone|grow grew grown
hang hung|hear heard|hide hid hidden|keep kept|lead led|leave left|lend lent|lose lost|make made
meet met|ride rode ridden|ring rang rung|rise risen|run ran|say said|seek sought|sell sold|send sent
shake shook shaken|shoot shot|sing sang sung|sink sank sunk|sit sat|sleep slept|speak spoken
spend spent|stand stood|steal stole stolen|stick stuck|swear swore sworn|sweep swept|swim swam swum
take took taken|teach taught|tear tore torn|tell told|think thought|throw threw thrown
understand understood|wake woke woken|wear wore worn|win won|write wrote
"""
# Regular endings, and what a base form has instead; "submitted" also loses a letter.
_ENDINGS = (
    *(("", ""), ("s", ""), ("es", ""), ("ed", ""), ("d", ""), ("ing", ""), ("ing", "e")),
    *(("ies", "y"), ("ied", "y")),
)
# What may stand around a word of a sentence; what is in quotes is meant as it is written.
_MARKS_AROUND = ".,;:!?()[]"
LONGEST_ABBREVIATION = 3  # letters, where a text has capitals only: "LED" is one, "DEPLOY" is not
# "verify verification", "notify notification".
_VERB_IN_FY, _NOUN_OF_FY = ("ify", "ifies", "ified", "ifying"), ("ification", "ifications")

# Endings of comparison, which Porter's stemmer keeps: "cheapest" does not become "cheap".
_COMPARISONS = ("est", "er")
SHORTEST_COMPARED = 4  # letters before such an ending: "rest" and "under" compare nothing

# Endings of words, what they follow, and what the root may have instead: "channes" is no plural.
_INFLECTIONS = (
    ("s", tuple("abcdefghijklmnopqrtuvwxyz"), ("",)),
    ("es", ("s", "x", "z", "ch", "sh", "o"), ("",)),
    ("ies", ("",), ("y",)),
    ("ed", ("",), ("", "e")),
    ("ing", ("",), ("", "e")),
    ("ly", ("",), ("", "e")),
)
SHORTEST_ROOT = 4  # letters of a word before its ending


@cache
def empty_words() -> frozenset[str]:
    """Return all function words, including the stop words."""
    return STOP_WORDS | frozenset(_EMPTY_WORDS.split())


def shows_english(text: str, least: int = 1) -> bool:
    """Tell whether a text has so many different words that hardly any other language has.

    >>> shows_english("where is it"), shows_english("blood type")
    (True, False)
    """
    return len(_SHOWING.intersection(re.findall(r"\w+", text[:BEGINNING].lower()))) >= least


def without_comparison(stem: str) -> str:
    """Return a stem without an ending of comparison.

    >>> [without_comparison(stem) for stem in ("cheapest", "faster", "rest")]
    ['cheap', 'fast', 'rest']
    """
    for ending in _COMPARISONS:
        if stem.endswith(ending) and len(stem) >= len(ending) + SHORTEST_COMPARED:
            return stem.removesuffix(ending)
    return stem


def roots_of(word: str) -> list[str]:
    """Return what a word may be without an ending, if it has one.

    >>> roots_of("searched"), roots_of("families"), roots_of("nginx")
    (['search', 'searche'], ['familie', 'family'], [])
    """
    roots = []
    for ending, after, instead in _INFLECTIONS:
        root = word.removesuffix(ending)
        if SHORTEST_ROOT <= len(root) < len(word) and root.endswith(after):
            roots += [root + letters for letters in instead]
    return roots


@cache
def _lines() -> dict[str, tuple[str, ...]]:
    lines = [tuple(line.split()) for line in _LINES.replace("\n", "|").split("|")]
    return {word: line for line in lines for word in line}


@lru_cache(maxsize=4_096)  # questions repeat words
def _base_of(word: str) -> str | None:
    """Return the word of the list that a word is a regular form of."""
    lines = _lines()
    for ending, instead in _ENDINGS:
        if word.endswith(ending):
            base = word[: len(word) - len(ending)] + instead
            if base in lines:
                return base
            if base[-1:] == base[-2:-1] and base[:-1] in lines:
                return base[:-1]
    return None


def _others(word: str) -> tuple[str, ...]:
    base = _base_of(word)
    if base is not None:
        return tuple(other for other in _lines()[base] if other != base)
    if "if" not in word:
        return ()
    stem, _, _ = word.rpartition("if")
    if word.endswith(_NOUN_OF_FY):
        return (word[: word.rindex("ification")] + "ify",)
    return (f"{stem}ification",) if stem and word.endswith(_VERB_IN_FY) else ()


def other_forms(words: Sequence[str], text: str = "") -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the words that belong to some words, but have other stems, each with its word.

    What is an abbreviation in the text that they are from has no forms: an LED leads nobody.

    >>> other_forms(["deploying", "notified", "kubernetes"])
    (('deployment', ('deploying',)), ('notification', ('notified',)))
    """
    listed: dict[str, tuple[str, ...]] = {}
    known = {*words, *filter(None, map(_base_of, words))}
    abbreviations = _abbreviations_in(text)
    for word in words:
        if word in abbreviations:
            continue
        for other in _others(word):
            if other not in known:
                listed.setdefault(other, (word,))
    return tuple(listed.items())


def _abbreviations_in(text: str) -> set[str]:
    """Return the words in capitals, in small letters; none of a text that is shouted."""
    written = re.findall(r"\w+", text)
    # subtle: a text may be in capitals without any word, as "\u24b6" is: a letter in a circle.
    if text.isupper() and any(len(word) > LONGEST_ABBREVIATION for word in written):
        return set()
    return {word.lower() for word in written if word.isupper()}


def joined_words(text: str, words: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return what others write as one word: two with a hyphen between, or two alone.

    >>> joined_words("what is the wi-fi?", ["wi", "fi"])
    [('wifi', ('wi', 'fi'))]
    """
    parts = [part.strip(_MARKS_AROUND) for part in text.lower().split()]
    pairs = [part.split("-") for part in parts if "-" in part]
    if not pairs and len(words) == 2:
        pairs = [parts]
    return [
        ("".join(pair), tuple(word for word in pair if word in words))
        for pair in pairs
        if len(pair) == 2 and all(map(str.isalpha, pair)) and not set(pair).isdisjoint(words)
    ]
