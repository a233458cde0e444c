"""Dates as they are written in Chinese, Japanese and Korean: "2024年3月5日", "三月五日". Pure."""

import re

_DIGITS = "〇一二三四五六七八九"
_NUMERAL = "[0-9\uff10-\uff19〇零一二三四五六七八九十]"
# The year before the first one of each era, the latest first.
_ERAS = {"令和": 2018, "平成": 1988, "昭和": 1925, "大正": 1911, "明治": 1867}
_FIRST_YEARS = {**_ERAS, "民國": 1911, "民国": 1911}
SHAPE = (
    rf"(?<!{_NUMERAL})(?:(?P<era>{'|'.join(_FIRST_YEARS)})?\s?(?P<year>{_NUMERAL}{{1,4}}|元)"
    rf"\s?[年년]\s?)?(?P<month>{_NUMERAL}{{1,3}})\s?[月월](?:\s?(?P<day>{_NUMERAL}{{1,3}})\s?[日号號일])?"
)
LEAST_YEAR = 100  # a year of two digits is of no known century
_FULL_WIDTH = {0xFF10 + digit: 0x30 + digit for digit in range(10)}


def parts_of(match: re.Match[str]) -> tuple[int, int, int]:
    """Return year, month and day of a match of the shape; 0 for what is not given.

    >>> parts_of(re.search(SHAPE, "令和六年十二月二十五日"))
    (2024, 12, 25)
    """
    year, month, day = (_value(match[part] or "") for part in ("year", "month", "day"))
    if match["era"]:
        year += _FIRST_YEARS[match["era"]]
    return (year if year >= LEAST_YEAR else 0), month, day


def with_plain_digits(text: str) -> str:
    """Return a text with the digits of full width as ordinary ones."""
    return text.translate(_FULL_WIDTH)


def phrases(year: int, month: int, day: int) -> list[tuple[str, ...]]:
    """Return what stands in the index of a text with this date.

    The sign of the day is left out behind digits: it belongs to the run of letters after it.
    """
    if not day:
        era = [(name, str(number), "年", str(month)) for name, number in _eras_of(year)]
        return [(str(year), "年", str(month)), (str(year), "년", str(month)), *era]
    in_words = f"{_numeral(month)}月{_numeral(day)}日"
    # As `words_in` divides it, without compiling what tells the scripts.
    pairs = tuple(in_words[at : at + 2] for at in range(len(in_words) - 1))
    return [(str(month), "月", str(day)), pairs, (str(month), "월", str(day))]


def pattern(year: int, month: int, day: int) -> str:
    """Return a pattern of all ways to write a date, or a month of a year."""
    eras = [
        f"{name}(?:{number}|{'元' if number == 1 else _numeral(number)})"
        for name, number in _eras_of(year)
    ]
    years = "|".join([str(year), "".join(_DIGITS[int(digit)] for digit in str(year)), *eras])
    of_year = rf"(?:{years})\s?[年년]\s?" if year else ""
    of_day = rf"\s?(?:0?{day}|{_numeral(day)})\s?[日号號일]" if day else ""
    return rf"(?<!{_NUMERAL}){of_year}(?:0?{month}|{_numeral(month)})\s?[月월]{of_day}"


def _eras_of(year: int) -> list[tuple[str, int]]:
    """Return the Japanese era of a year and its number in it; two in the year of a change."""
    last = year
    eras = []
    for name, before in _ERAS.items():
        if before < year <= last:
            eras.append((name, year - before))
        last = before + 1
    return eras


def _value(written: str) -> int:
    """Return the value of a numeral: "二〇二四" by digits, "二十五" by tens, 元 as the first."""
    plain = with_plain_digits(written).replace("零", "〇").replace("元", "一")
    if plain.isdecimal() or not plain:
        return int(plain or 0)
    if "十" not in plain:
        return int("".join(_digit(sign) for sign in plain))
    tens, _, ones = plain.partition("十")
    if len(tens) > 1 or len(ones) > 1:
        return 0
    return int(_digit(tens) if tens else 1) * 10 + int(_digit(ones) if ones else 0)


def _digit(sign: str) -> str:
    return str(_DIGITS.index(sign)) if sign in _DIGITS else sign if sign.isdecimal() else "0"


def _numeral(number: int) -> str:
    """Return how a number below a hundred is written.

    >>> _numeral(5), _numeral(10), _numeral(25)
    ('五', '十', '二十五')
    """
    tens, ones = divmod(number, 10)
    head = "" if not tens else "十" if tens == 1 else f"{_DIGITS[tens]}十"
    return head + (_DIGITS[ones] if ones else "")
