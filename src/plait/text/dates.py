"""Dates in a question, and how notes may write them: "3 March" is "2026-03-03" in a journal.

Loaded only for a question with a digit.
"""

import re
from collections.abc import Sequence
from itertools import zip_longest

from plait.text.english import MONTHS
from plait.types.queries import Date, Term

CUT_TO = 3  # letters of a month in English, where it is shortened

# German, French, Spanish, Italian, Dutch, Portuguese, Russian and Turkish, as they stand in a date.
_MONTHS = """
januar jänner janvier enero gennaio januari janeiro января ocak
februar février febrero febbraio februari fevereiro февраля şubat
märz mär mars marzo maart março марта mart
avril abril aprile апреля nisan
mai mayo maggio mei maio мая mayıs
juni juin junio giugno junho июня haziran
juli juillet julio luglio julho июля temmuz
août agosto augustus августа ağustos
sept septembre septiembre settembre setembro сентября eylül
oktober okt octobre octubre ottobre outubro октября ekim
novembre noviembre novembro ноября kasım
dezember dez décembre diciembre dicembre dezembro декабря aralık
"""
# The same in Polish, Swedish, Danish and Arabic, and as Russian has them before a year. A question
# in English does not look for them: each costs a walk through the index.
_ALSO = """
stycznia styczeń januari январь январе يناير
lutego luty februari февраль феврале فبراير
marca marzec marts март марте مارس
kwietnia kwiecień апрель апреле أبريل ابريل
maja maj май мае مايو
czerwca czerwiec июнь июне يونيو
lipca lipiec июль июле يوليو
sierpnia sierpień augusti август августе أغسطس
września wrzesień сентябрь сентябре سبتمبر
października październik октябрь октябре أكتوبر
listopada listopad ноябрь ноябре نوفمبر
grudnia grudzień декабрь декабре ديسمبر
"""
_MORE_NAMES = [line.split() for line in _ALSO.split("\n") if line]
# English first, with what it is cut to.
_NAMES = [
    [name, name[:CUT_TO], *line.split()]
    for name, line in zip(MONTHS, filter(None, _MONTHS.split("\n")), strict=True)
]
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_NUMBER_OF = {
    name: number
    for listed in (_NAMES, _MORE_NAMES)
    for number, names in enumerate(listed, 1)
    for name in names
}
# Others have no day behind the month, unless a year follows: "Mars 3" is a probe.
_ENGLISH = {name for names in _NAMES for name in names[:2]} | {"sept"}
_MONTH = r"(?P<month>[^\W\d_]{3,12})\b\.?"
_DAY = r"(?P<day>\d\d?)(?:st|nd|rd|th|er|º)?\b\.?"
_YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_ANY_YEAR = r"(?P<year>1\d{3}|20\d\d)\b"  # behind a day and a month it is no other number
_OF = r"\s+(?:of\s+|de\s+)?"
# A number may stand beside letters of a script without spaces; `\b` takes them for a part of it.
_START = "(?<![0-9a-z_])"
# "03/04/2026" is April in some countries and March in others: it is searched as it stands. And
# "2024.3.5" is a version, "2024. 3. 5." is none.
_IN_NUMBERS = (  # each with what must stand in a text that has such a date
    ("-", rf"{_START}(?P<year>(?:19|20)\d\d)-(?P<month>\d\d?)-(?P<day>\d\d?)(?!\d)"),
    ("/", rf"{_START}(?P<year>(?:19|20)\d\d)/(?P<month>\d\d?)/(?P<day>\d\d?)(?!\d)"),
    (".", rf"{_START}(?P<day>\d\d?)\.\s?(?P<month>\d\d?)\.\s?{_YEAR}"),
    ("/", rf"{_START}(?<!/)(?P<day>\d\d?)(?P<slash>/)(?P<month>\d\d?)/{_YEAR}(?!/)"),
    (
        ". ",
        rf"{_START}(?P<year>(?:19|20)\d\d)\.\s(?P<month>\d\d?)\.\s(?P<day>\d\d?)\b(?!\.?\s?[\d%])",
    ),
)
_WITH_NAMES = (
    rf"\b{_DAY}{_OF}{_MONTH}(?:,?{_OF}{_ANY_YEAR})?",
    rf"\b{_MONTH}\s+{_DAY}(?![-./:,]?\w)(?:,?\s+{_ANY_YEAR})?",
    rf"\b{_MONTH}{_OF}{_YEAR}",
)
# Of a version, an address or a date each part has a digit; a hyphen also joins words.
_PART = r"(?=[^\W\d_]*+\d)[^\W_]++"
_NUMBER = rf"(?<!\w){_PART}(?:[.,:/-]{_PART})+(?!\w)"
_ORDINALS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}
_ANY_DAY = r"\d\d?(?:st|nd|rd|th)?"
_MONTHS_IN_YEAR = 12  # beyond, a number is a day
MOST_DATES = 3  # of a question, the first ones
_LONGEST_DAY = 60  # characters: "Wednesday, the 23rd of September, 2026"


def month_of(name: str) -> int:
    """Return the number of the month that a word names, in lower case; 0 if it names none.

    >>> month_of("märz"), month_of("sept"), month_of("spring")
    (3, 9, 0)
    """
    return _NUMBER_OF.get(name, 0)


def day_of(text: str) -> str:
    """Return the day that a text is, as ``2026-03-05``; empty if it is none, or none for sure.

    >>> day_of("Thursday, March 5, 2026"), day_of("5. März 2026"), day_of("2026/3/5")
    ('2026-03-05', '2026-03-05', '2026-03-05')
    >>> day_of("03/04/2026"), day_of("March 2026"), day_of("5 March"), day_of("5 March 2026 or so")
    ('', '', '', '')
    """
    if len(text) > _LONGEST_DAY:
        return ""
    dates, words = dates_in(text), tuple(re.findall(r"[^\W_]+", text.lower()))
    if len(dates) != 1 or dates[0].words not in (words, words[1:]):
        return ""
    return next(("-".join(phrase) for phrase in dates[0].phrases if _is_day(phrase)), "")


def _is_day(phrase: tuple[str, ...]) -> bool:
    is_long = [len(part) for part in phrase] == [4, 2, 2]
    return is_long and all(part.isascii() and part.isdecimal() for part in phrase)


def numbers_in(text: str) -> list[Term]:
    """Return the numbers with marks inside as phrases: the engine divides them.

    A version is written with a "v" before it or without, and is meant either way.

    >>> [number.words for number in numbers_in("ping 10:0 with v3.2, 1 or 2")]
    [('10', '0'), ('v3', '2'), ('3', '2')]
    """
    numbers = re.findall(_NUMBER, text.lower())
    written = [tuple(re.findall(r"[^\W_]+", number)) for number in numbers]
    versions = [words for words, number in zip(written, numbers, strict=True) if "." in number]
    return [*map(Term, written), *map(Term, filter(None, map(_as_version, versions)))]


def _as_version(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return a number with a "v" before it, or without; the engine joins it to the first part."""
    first, *rest = words
    if first[:1] == "v" and first[1:].isdecimal():
        return (first[1:], *rest)
    return (f"v{first}", *rest) if all(map(str.isdecimal, words)) else None


def dates_in(text: str) -> tuple[Date, ...]:
    """Return the dates of a text, each with its words and the phrases that others write it as.

    >>> date = dates_in("What was decided on 3 March 2026?")[0]
    >>> date.words, date.phrases[0], date.phrases[-1]
    (('3', 'march', '2026'), ('2026', '03', '03'), ('3', '월', '3'))
    """
    text, dates = text.lower(), list[Date]()

    def without(match: re.Match[str]) -> str:
        date = _date_of(match)
        if date is None:
            return match[0]
        dates.append(date)
        return " "

    names = not _NUMBER_OF.keys().isdisjoint(re.findall(r"[^\W\d_]+", text))
    shapes = _eastern_shapes(text)
    shapes += [shape for mark, shape in _IN_NUMBERS if mark in text]
    for shape in (*shapes, *(_WITH_NAMES if names else ())):
        # Each is taken out, lest a part of it counts as another date.
        text = re.sub(shape, without, text)
    return tuple(dates[:MOST_DATES])


def phrases_of(dates: Sequence[Date]) -> list[Term]:
    """Return how dates are written, the commonest ways of each one first."""
    rows = zip_longest(*(date.phrases for date in dates))
    return [Term(phrase) for row in rows for phrase in row if phrase is not None]


def is_in_other_words(date: Date, text: str) -> bool:
    """Tell whether a text has a date, but not as it is written in the question.

    >>> date = dates_in("3 March 2026")[0]
    >>> texts = "a/2026-03-03.md", "Mar 3rd, 2026", "3 March, 2026"
    >>> [is_in_other_words(date, text) for text in texts]
    [True, True, False]
    """
    if not text.isascii():
        from plait.text import eastern_dates

        text = eastern_dates.with_plain_digits(text)
    if _is_eastern(text) and re.search(date.eastern, text):
        return True  # whether or not it is written so in the question
    if date.number not in text:
        return False
    if re.search(date.pattern, text, re.IGNORECASE) is None:
        return False
    typed = r"\W{1,2}".join(date.words)
    return re.search(rf"\b{typed}\b", text, re.IGNORECASE) is None


def has_other_day(date: Date, text: str) -> bool:
    """Tell whether a text has another day than the one that is asked for, and not this one.

    >>> date = dates_in("5 March 2024")[0]
    >>> texts = "6 March 2024", "from 5 March 2024 to 2024-03-06", "March 2024"
    >>> [has_other_day(date, text) for text in texts]
    [True, False, False]
    """
    if not date.is_day or re.search(date.pattern, text, re.IGNORECASE):
        return False
    if _is_eastern(text) and re.search(date.eastern, text):
        return False
    return any(other.is_day for other in dates_in(text))


def _date_of(match: re.Match[str]) -> Date | None:
    """Return the date of a match of one of the shapes; ``None`` if there is no such day."""
    groups = match.groupdict()
    if "era" in groups:
        return _eastern(match)
    name = groups["month"]
    month = int(name) if name.isdecimal() else _NUMBER_OF.get(name, 0)
    day, year = (int(groups.get(part) or 0) for part in ("day", "year"))
    if groups.get("slash") and month != day:
        if month <= _MONTHS_IN_YEAR and day <= _MONTHS_IN_YEAR:
            return None
        day, month = max(day, month), min(day, month)
    if not 1 <= month <= _MONTHS_IN_YEAR or day > _DAYS[month - 1] or ("day" in groups and not day):
        return None
    if day and not year and match.start("month") < match.start("day") and name not in _ENGLISH:
        return None
    return _ways(year, month, day, tuple(re.findall(r"[^\W_]+", match[0])), name)


def _eastern(match: re.Match[str]) -> Date | None:
    """Return a date in Chinese, Japanese or Korean, what is written there first; else ``None``."""
    from plait.text import eastern_dates, words_in

    year, month, day = eastern_dates.parts_of(match)
    if not 1 <= month <= _MONTHS_IN_YEAR or day > _DAYS[month - 1] or not (year or day):
        return None
    date = _ways(year, month, day, tuple(words_in(match[0])), "")
    return date._replace(phrases=(*eastern_dates.phrases(year, month, day), *date.phrases))


def _ways(year: int, month: int, day: int, words: tuple[str, ...], name: str) -> Date:
    """Return a date with the ways to write it; ``name`` is that of the month in the question."""
    from plait.text import eastern_dates

    known, more = _NAMES[month - 1], _MORE_NAMES[month - 1]
    # Both orders are usual in English, and whatever was asked may be written the other way round.
    usual = dict.fromkeys((*known[:2], *([name] if name in _NUMBER_OF else ())))
    names, padded = "|".join((*known, *more)), (f"{month:02}", f"{day:02}")
    eastern = eastern_dates.pattern(year, month, day)
    phrases: list[tuple[str, ...]] = [] if year else [padded[::-1]]
    if not day:
        own = Date(words, ((str(year), padded[0]),), "", str(year))
        phrases = [(other, str(year)) for other in dict.fromkeys((*usual, *known))]
        phrases += eastern_dates.phrases(year, month, day)
        return _date(
            own, phrases, rf"(?:{names})\W{{1,2}}(?:{_ANY_DAY}\W{{1,2}})?(?:de )?{year}", eastern
        )
    numbers = _numbers_of(year, month, day) if year else [padded]
    days = dict.fromkeys((str(day), f"{day}{_ORDINALS.get(day, 'th')}", padded[1]))
    phrases += [pair for other in usual for form in days for pair in ((form, other), (other, form))]
    bare = dict.fromkeys((str(day), padded[1]))
    phrases += [(form, other) for other in known if other not in usual for form in bare]
    phrases += eastern_dates.phrases(year, month, day)
    after = rf"\W{{1,2}}(?:de )?{year}" if year else ""
    form = rf"0?{day}(?:st|nd|rd|th|er|\u00ba)?"
    first = names if year else "|".join(name for name in known if name in _ENGLISH)
    both = rf"(?:{form}\W{{1,2}}(?:of |de )?(?:{names})|(?:{first})\W{{1,2}}{form}){after}"
    if not year:
        # "3.12." without a year may be a version at the end of a sentence.
        both += rf"|(?<!\.)0?{day}\.\s?0?{month}\.\s?(?:19|20)\d\d"
    own = Date(words, tuple(numbers), "", str(year or day), is_day=True)
    return _date(own, phrases, both, eastern)


def _numbers_of(year: int, month: int, day: int) -> list[tuple[str, ...]]:
    padded = f"{day:02}", f"{month:02}", str(year)
    bare = str(day), str(month), str(year)
    numbers = [padded[::-1], padded, bare]
    if day > _MONTHS_IN_YEAR:
        numbers += [(second, first, last) for first, second, last in (padded, bare)]
    return [*dict.fromkeys(numbers), ("".join(padded[::-1]),)]


def _date(own: Date, phrases: Sequence[tuple[str, ...]], with_names: str, eastern: str) -> Date:
    """Return a date in numbers with phrases and a pattern that have the names of months, too."""
    numbers = "|".join(r"[-./_]\s?".join(number) for number in own.phrases)
    # subtle: the phrases with names lack the year. With it, one date would count twice.
    pattern = rf"(?<![0-9a-z])(?:{numbers})(?![0-9a-su-z])|(?<![^\W_])(?:{with_names})(?![^\W_T])"
    return own._replace(phrases=(*own.phrases, *phrases), pattern=pattern, eastern=eastern)


def _eastern_shapes(text: str) -> list[str]:
    if not _is_eastern(text):
        return []
    from plait.text import eastern_dates

    return [eastern_dates.SHAPE]


def _is_eastern(text: str) -> bool:
    return "月" in text or "월" in text
