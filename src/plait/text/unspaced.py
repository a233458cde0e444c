"""Scripts that are written without spaces: they are indexed in overlapping pieces. Pure.

Two characters are a word in Chinese and often in Japanese; Thai, Lao, Khmer and Burmese need three.
"""

import re
from collections.abc import Iterator
from functools import cache

from plait.text import has_runs, needs_no_runs

# Two characters are a word in Chinese and often in Japanese. Korean puts spaces between words but
# joins particles to them, and pairs match the word inside. NFD marks and jamo belong to the run.
_PAIRS = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003fffd\U000e0100-\U000e01ef"  # Han, iteration marks, variant selectors
    "\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
    "\U0001b000-\U0001b16f\u3105-\u312f\u31a0-\u31bf"  # Hiragana, Katakana, Bopomofo
    "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb\uffa1-\uffdc"  # Hangul
)
# Vowels and tones are separate characters here, so three correspond to two above.
_TRIPLES = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf"  # Thai, Lao
    "\u1780-\u17d3\u17d7\u17dc\u17dd"  # Khmer
    "\u1000-\u103f\u1050-\u108f\u109a-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f"  # Burmese
)
_WIDE = "\uff10-\uff19\uff21-\uff3a\uff41-\uff5a"  # Full-width digits and Latin letters
_FIRST_VARIANT = "\U000e0100"
_PIECE_OF_GROUP = (0, 2, 3, 1)


@cache
def runs() -> re.Pattern[str]:
    """Return the pattern of a run: a group for each kind of script, see `_PIECE_OF_GROUP`."""
    return re.compile(f"([{_PAIRS}]+)|([{_TRIPLES}]+)|([{_WIDE}]+)")


def is_short(word: str) -> bool:
    """Tell whether a run of a script without spaces is shorter than its pieces in the index."""
    run = None if needs_no_runs(word) else runs().fullmatch(word)
    return run is not None and len(word) < _PIECE_OF_GROUP[run.lastindex or 0]


def segments(text: str) -> Iterator[tuple[int, int, int]]:
    """Divide the whole text into consecutive runs ``(start, end, n)``.

    ``n`` is 0 for text that the keyword engine splits itself, 2 or 3 for a run of a script without
    spaces that is indexed in overlapping pieces of that many characters, and 1 for a full-width
    word that is indexed in its ordinary form.
    """
    done = 0
    if not needs_no_runs(text):
        for run in runs().finditer(text):
            if run.start() > done:
                yield done, run.start(), 0
            yield run.start(), run.end(), _PIECE_OF_GROUP[run.lastindex or 0]
            done = run.end()
    if done < len(text):
        yield done, len(text), 0


def grams(text: str, start: int, end: int, n: int) -> Iterator[tuple[int, int, str]]:
    """Yield the pieces of one run of `segments` with their places in the text.

    A run shorter than ``n`` is one piece. Half-width and decomposed characters are composed, so a
    piece may have fewer characters than its place in the text.

    >>> list(grams("日本語", 0, 3, 2))
    [(0, 2, '日本'), (1, 3, '本語')]
    """
    run = text[start:end]
    if n == 1:
        yield start, end, _folded(run).lower()
    elif _stands_for_itself(run, n):
        for at in range(max(1, len(run) - n + 1)):
            yield start + at, min(start + at + n, end), run[at : at + n]
    else:
        units = _composed(run)
        for at in range(max(1, len(units) - n + 1)):
            piece = units[at : at + n]
            yield start + piece[0][0], start + piece[-1][1], "".join(unit[2] for unit in piece)


def split(text: str) -> str | None:
    """Put spaces between the pieces of scripts without spaces; ``None`` for a text without them.

    Queries are split by the same rules, so both sides match. Single characters are not indexed:
    `parse` reads a query of one character as a prefix, which matches the pairs that begin with it.

    >>> split("plait は日本語を探す")
    'plait  は日 日本 本語 語を を探 探す'
    """
    if not has_runs(text):
        return None
    return " ".join(
        " ".join(pieces_of(text[start:end], n)) if n else text[start:end]
        for start, end, n in segments(text)
    )


def pieces_of(run: str, n: int) -> list[str]:
    """Return the pieces of one run of `segments`, as `grams` yields them."""
    if n > 1 and _stands_for_itself(run, n):  # Computing the places takes half the time of `grams`.
        return [run[at : at + n] for at in range(max(1, len(run) - n + 1))]
    return [gram for _, _, gram in grams(run, 0, len(run), n)]


def _stands_for_itself(run: str, n: int) -> bool:
    import unicodedata

    # subtle: NFKC splits the common Thai vowel am, and triples have no variant forms to fold.
    return n > 2 or (max(run) < _FIRST_VARIANT and unicodedata.is_normalized("NFKC", run))


def _folded(run: str) -> str:
    import unicodedata

    return unicodedata.normalize("NFKC", run)


def _composed(run: str) -> list[tuple[int, int, str]]:
    """List composed characters with their places, marks joined to their base; never empty."""
    clusters = re.finditer(
        "[\u1100-\u115f\ua960-\ua97c][\u1160-\u11a7\ud7b0-\ud7c6]+[\u11a8-\u11ff\ud7cb-\ud7fb]*"
        "|.[\u3099\u309a\uff9e\uff9f\U000e0100-\U000e01ef]*",
        run,
    )
    return [
        (cluster.start(), cluster.end(), character)
        for cluster in clusters
        for character in _folded(cluster[0])
        if character < _FIRST_VARIANT
    ] or [(0, len(run), run)]
