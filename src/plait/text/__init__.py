"""Split text for the keyword index, and parse queries. Pure: no stores.

The keyword engine splits most scripts into words by itself. `split` cuts the scripts that are
written without spaces; `parse` reads the query language.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache

from plait.types.queries import Expression, Group, Query, Term

# Version of the splitting rules: raise it when the result of `split` changes; users then reindex.
SPLIT_VERSION = 1

MAX_QUERY_BYTES = 4_096  # A pasted page is cut here: more words give no better hits.
MAX_TERMS = 64  # Each term is a walk through the index.
MAX_TERM_CHARS = 128  # Longer than any word; a pasted token or URL is cut.
MAX_NESTING = 16  # Parentheses nested deeper than this are text, not operators.
NEAR_DISTANCE = 10  # Words between, in NEAR(a b) without a number, as in FTS5.
MAX_NEAR_DISTANCE = 1_000  # Wider than any passage.

# What every passage repeats of its document's title and tags, in characters. The first passage has
# all of them: 200 KB of tags made 108 MB of a file of 0.4 MB.
REPEATED_NAME_CHARS = 500

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
_FIRST_SPACELESS = "\u0e01"
_FIRST_VARIANT = "\U000e0100"
_PIECE_OF_GROUP = (0, 2, 3, 1)

_MARKS = ('"', "*", "AND", "OR", "NOT", "NEAR(")  # A text without any of these is plain words.

# Articles, the commonest prepositions, forms of be and do, pronouns and question words: few on
# purpose. BM25 discounts the rest: a list of 112 function words lowered the mean nDCG@10 of
# the eight English collections by 0.003 against these, no list at all by 0.005. Lists for German,
# Spanish, Russian and Turkish moved their collections by less than 0.005, and "die", "war" or "no"
# mean something in English.
_FUNCTION_WORDS = (
    "a an and are be did do does for he her him his how i in is me my of on or our she the their "
    "them they to us was we were what when where which who why you your"
)
STOP_WORDS: frozenset[str] = frozenset(_FUNCTION_WORDS.split())

# Words that say nothing about the subject of a passage. They may rank, but a match is no evidence
# that the passage answers.
_EMPTY_WORDS = (
    "about also am any as at because been being but by can cannot could doing done else ever from "
    "had has have having here hers herself himself if into it its itself just mine myself nor not "
    "ours ourselves shall should so some such than that theirs themselves then there these this "
    "those though thus too upon very whatever whether while whom whose will with would yes yet "
    "yours yourself yourselves"
)


@cache
def empty_words() -> frozenset[str]:
    """Return all function words, including the stop words."""
    return STOP_WORDS | frozenset(_EMPTY_WORDS.split())


@cache
def _runs() -> re.Pattern[str]:
    # Compiled for the first text that is not ASCII: most searches never need it.
    return re.compile(f"([{_PAIRS}]+)|([{_TRIPLES}]+)|([{_WIDE}]+)")


def is_unspaced(text: str) -> bool:
    """Tell whether all characters belong to one kind of script without spaces."""
    return min(text) >= _FIRST_SPACELESS and bool(_runs().fullmatch(text))


def single_spaced(text: str) -> str:
    """Replace each run of white space with one space, and strip the ends."""
    return " ".join(text.split())


def _needs_no_runs(text: str) -> bool:
    # Much cheaper than the pattern, and true for all European, Semitic and Indic scripts.
    return text.isascii() or max(text) < _FIRST_SPACELESS


def segments(text: str) -> Iterator[tuple[int, int, int]]:
    """Divide the whole text into consecutive runs ``(start, end, n)``.

    ``n`` is 0 for text that the keyword engine splits itself, 2 or 3 for a run of a script without
    spaces that is indexed in overlapping pieces of that many characters, and 1 for a full-width
    word that is indexed in its ordinary form.
    """
    done = 0
    if not _needs_no_runs(text):
        for run in _runs().finditer(text):
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
    if _needs_no_runs(text) or not _runs().search(text):
        return None
    return " ".join(
        " ".join(_pieces(text[start:end], n)) if n else text[start:end]
        for start, end, n in segments(text)
    )


def _pieces(run: str, n: int) -> list[str]:
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


def first_words(text: str, limit: int = REPEATED_NAME_CHARS) -> str:
    """Return the beginning of a text, up to a limit in characters, cut between two words.

    >>> first_words("rotate the ssh keys", 15), first_words("short", 15)
    ('rotate the ssh', 'short')
    """
    if len(text) <= limit:
        return text
    kept = text[: limit + 1]
    words = kept.rsplit(None, 1)
    return words[0] if len(words) > 1 or kept[-1].isspace() else kept[:limit]


def clean(text: str) -> str:
    r"""Make a text safe to store in any engine: lone surrogates become U+FFFD, NUL a space.

    >>> clean("one\0two")
    'one two'
    """
    if "\0" in text:
        text = text.replace("\0", " ")
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# Characters that a terminal obeys instead of showing them (C0 but tab and newline, DEL, C1), that
# reorder a line (bidi), or that nobody sees. Joiners stay: Persian, Hindi and emoji need them.
_UNSEEN = (
    *((0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F), (0x061C, 0x061C), (0x180E, 0x180E)),
    *((0x200B, 0x200B), (0x200E, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0xD800, 0xDFFF)),
    *((0xFEFF, 0xFEFF), (0xFFF9, 0xFFFB), (0xE0000, 0xE007F)),
)


@cache
def _escapes() -> dict[int, str]:
    import json

    return {
        code: json.dumps(chr(code))[1:-1] if code != 0x7F else "\\u007f"
        for first, last in _UNSEEN
        for code in range(first, last + 1)
    }


def visible(text: str, *, one_line: bool = False) -> str:
    r"""Make a text safe to print: what a terminal would obey or hide is shown as an escape.

    The escapes are those of JSON, so JSON has the same value afterwards. ``one_line`` escapes line
    breaks and tabs too.

    >>> visible("clear \x1b[2J\n"), visible("two\nlines", one_line=True)
    ('clear \\u001b[2J\n', 'two\\nlines')
    """
    if one_line:
        text = text.replace("\n", "\\n").replace("\t", "\\t")
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return text.translate(_escapes())


def parse(text: str) -> Query:
    """Parse a search string; every string is a valid query.

    ``"a phrase"``, ``AND``, ``OR``, ``NOT``, ``NEAR(a b, 5)``, ``prefix*`` and parentheses are
    operators if the whole string parses that way, else plain words. Words side by side mean "any
    of these, the more the better", also next to operators. A phrase next to words is required, and
    the words rank. Words after NOT are not in ``words``.

    >>> parse("where is the key of the SSH-server?").words
    ('key', 'ssh', 'server')
    """
    text = _capped(text)
    if any(mark in text for mark in _MARKS):
        expression = _read(text)
        if expression is not None:
            wanted = [word for term in _terms(expression, denied=False) for word in term.words]
            in_order = [word for word in _bag(text) if word in wanted]
            return Query(text, _content(in_order or wanted), expression, strict=True)
    content = _content(_bag(text))
    kept = content[:MAX_TERMS]
    return Query(text, kept, _prefixes(text, kept), left_out=len(content) - len(kept))


def _capped(text: str) -> str:
    """Return valid Unicode without NUL, at most `MAX_QUERY_BYTES` long, cut between words."""
    head = text[: MAX_QUERY_BYTES + 1].replace("\0", " ").encode("utf-8", "replace")
    if len(head) <= MAX_QUERY_BYTES:
        return head.decode()
    cut = head[:MAX_QUERY_BYTES].decode("utf-8", "ignore")
    whole_words = cut.rstrip().rsplit(None, 1)
    return whole_words[0] if len(whole_words) > 1 else cut


def _words(text: str) -> list[str]:
    """List the words in order, lower case, as they are in the index before stemming."""
    if text.isascii():
        return [word[:MAX_TERM_CHARS] for word in re.findall("[a-z0-9]+", text.lower())]
    words: list[str] = []
    for start, end, n in segments(text):
        pieces = _pieces(text[start:end], n) if n else _scan(text[start:end])
        words += [piece.lower()[:MAX_TERM_CHARS] for piece in pieces]
    return words


def _scan(text: str) -> list[str]:
    import unicodedata

    # Vowel signs and points belong to their word: without them Hindi falls into consonants.
    # The two selectors mean "as text" or "as emoji" and belong to no word.
    marks = {
        character
        for character in set(text)
        if unicodedata.category(character) in ("Mn", "Mc", "Co") and character not in "\ufe0e\ufe0f"
    }
    kept = "".join(
        character if character in marks or character.isalnum() else " " for character in text
    )
    return [word for word in kept.split() if not marks.issuperset(word)]


def _bag(text: str) -> list[str]:
    """List the words without leftovers of apostrophes: ``don't``, ``'s`` in ``John's``, ``l'``."""
    if "'" not in text and "\u2019" not in text:
        return _words(text)
    contraction = "(?i)[a-z]+n['\u2019]t\\b|['\u2019](?:s|d|m|ll|re|ve)\\b|\\b\\w['\u2019](?=\\w)"
    return _words(re.sub(contraction, " ", text)) or _words(text)


def _content(words: Sequence[str]) -> tuple[str, ...]:
    """Return each word once, without stop words if at least two others remain."""
    unique = list(dict.fromkeys(words))
    content = [word for word in unique if word not in STOP_WORDS]
    return tuple(content if len(content) > 1 else unique)


def _prefixes(text: str, bag: Sequence[str]) -> Expression | None:
    """Make a prefix of a short run that stands alone, like ``水`` in ``水 温度``."""
    if _needs_no_runs(text):
        return None
    alone = [words[0] for part in text.split() if len(words := _words(part)) == 1]
    short = {word for word in alone if _is_short(word)}
    return _any([Term((word,), prefix=word in short) for word in bag]) if short else None


def _is_short(word: str) -> bool:
    run = None if _needs_no_runs(word) else _runs().fullmatch(word)
    return run is not None and len(word) < _PIECE_OF_GROUP[run.lastindex or 0]


def _any(terms: Sequence[Expression]) -> Expression:
    return terms[0] if len(terms) == 1 else Group("or", tuple(terms))


def _all(terms: Sequence[Expression]) -> Expression:
    return terms[0] if len(terms) == 1 else Group("and", tuple(terms))


def _terms(expression: Expression, *, denied: bool = True) -> Iterator[Term]:
    if isinstance(expression, Term):
        yield expression
        return
    parts = expression.parts if denied or expression.operator != "not" else expression.parts[:1]
    for part in parts:
        yield from _terms(part, denied=denied)


class _NotOperators(Exception):
    """The string does not parse as operators: it is plain words, which is not a failure."""


def _read(text: str) -> Expression | None:
    """Return the expression of a string, or ``None`` if it is plain words."""
    try:
        reader = _Reader(text)
        expression = reader.either(0)
    except _NotOperators:
        return None
    whole = reader.at == len(reader.tokens)
    size = sum(len(term.words) for term in _terms(expression))
    return expression if whole and reader.operators and size <= MAX_TERMS else None


# A token ends at a space or a parenthesis: in `12" disk` and `5*3` nothing is an operator.
_TOKEN = (
    r'\s*+(?:"(?P<phrase>[^"]*)"(?P<begins>\*?)(?=[\s)]|$)'
    r"|NEAR\((?P<near>[^()]*)\)(?=[\s)]|$)"
    r"|(?P<bracket>[()])"
    r'|(?P<bare>[^\s()"]++)(?=[\s()]|$))'
)


class _Reader:
    """Recursive-descent parser of the operators; NOT binds tighter than AND, AND than OR."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str | tuple[Term, bool]] = []
        self.at = 0
        self.operators = 0
        pattern, place, text = re.compile(_TOKEN), 0, text.rstrip()
        while place < len(text):
            token = pattern.match(text, place)
            if token is None:
                raise _NotOperators
            place = token.end()
            self._add(token)

    def _add(self, token: re.Match[str]) -> None:
        """Add a bracket or operator as it is, anything else as (term, is it required)."""
        if bracket := token["bracket"]:
            self.tokens.append(bracket)
        elif bare := token["bare"]:
            if bare in ("AND", "OR", "NOT"):
                if bare == "NOT" and self.tokens[-1:] == ["AND"]:
                    self.tokens.pop()  # "a AND NOT b" is how people write "a NOT b".
                self.tokens.append(bare)
            elif words := _words(bare):
                begins = bare[-1] == "*" and (bare[-2].isalnum() or not bare[-2].isascii())
                short = len(words) == 1 and _is_short(words[0])
                self.tokens.append((Term(tuple(words), prefix=begins or short), False))
        elif token["near"] is not None:
            self.tokens.append((_near(token["near"]), True))
        elif words := _words(token["phrase"]):
            self.tokens.append((Term(tuple(words), prefix=bool(token["begins"])), True))
        else:
            raise _NotOperators

    def _accept(self, token: str) -> bool:
        accepted = self.tokens[self.at : self.at + 1] == [token]
        self.at += accepted
        self.operators += accepted and token not in "()"
        return accepted

    def either(self, depth: int) -> Expression:
        """Parse ``a OR b``."""
        parts = [self._both(depth)]
        while self._accept("OR"):
            parts.append(self._both(depth))
        return _any(parts)

    def _both(self, depth: int) -> Expression:
        parts = [self._minus(depth)]
        while self._accept("AND"):
            parts.append(self._minus(depth))
        return _all(parts)

    def _minus(self, depth: int) -> Expression:
        parts = [self._row(depth)]
        while self._accept("NOT"):
            parts.append(self._row(depth))
        return parts[0] if len(parts) == 1 else Group("not", tuple(parts))

    def _row(self, depth: int) -> Expression:
        """Parse operands side by side: phrases and groups are required, words rank."""
        required: list[Expression] = []
        optional: list[Expression] = []
        while self.at < len(self.tokens):
            before, token = self.operators, self.tokens[self.at]
            operand: Expression
            if not isinstance(token, str):
                self.at += 1
                operand, must = token
                self.operators += must or token[0].prefix
            elif self._accept("("):
                operand = self._group(depth + 1)
                must = self.operators > before
            else:
                break
            (required if must else optional).append(operand)
        return _side_by_side(required, optional)

    def _group(self, depth: int) -> Expression:
        if depth > MAX_NESTING:
            raise _NotOperators
        inside = self.either(depth)
        if not self._accept(")"):
            raise _NotOperators
        return inside


def _side_by_side(required: Sequence[Expression], optional: Sequence[Expression]) -> Expression:
    if not required and len(optional) == 1:
        return optional[0]  # An operand like "ssh-key" is a phrase of its words.
    single = [word for operand in optional for term in _terms(operand) for word in _apart(term)]
    content = [term for term in single if term.prefix or term.words[0] not in STOP_WORDS]
    ranking = content if content or required else single
    if not ranking and not required:
        raise _NotOperators
    if not ranking or not required:
        return _any(ranking) if ranking else _all(required)
    # The first phrase is repeated among the words: then no word is required and each one ranks.
    return _all([*required, _any([required[0], *ranking])])


def _apart(term: Term) -> list[Term]:
    return [term] if term.prefix else [Term((word,)) for word in term.words]


def _near(inside: str) -> Term:
    """Parse ``a b, 5``; phrases inside count as their words."""
    head, comma, tail = inside.rpartition(",")
    distance = re.fullmatch(r"\s*([0-9]{1,9})\s*", tail) if comma else None
    words = tuple(_words(head if distance else inside))
    if not words:
        raise _NotOperators
    if len(words) == 1:
        return Term(words)
    wanted = int(distance[1]) if distance else NEAR_DISTANCE
    return Term(words, near=min(max(wanted, 1), MAX_NEAR_DISTANCE))
