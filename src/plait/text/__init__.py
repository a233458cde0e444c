"""Split text for the keyword index, and parse queries. Pure: no stores.

The keyword engine splits most scripts into words by itself. `plait.text.unspaced`, loaded where it
is needed, cuts the scripts that are written without spaces, and `parts` the names of code; `parse`
reads a query, all but its operators. What is known of languages stands in `english`, `asking`,
`function_words`, `stemming` and `dates`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache

from plait.text.english import LETTERS, STOP_WORDS
from plait.types import Document
from plait.types.queries import Date, Expression, Group, Query, Term

# Version of the rules of `parts` and `unspaced.split`: raise it with them, and users reindex.
SPLIT_VERSION = 2

MAX_QUERY_BYTES = 4_096  # A pasted page is cut here: more words give no better hits.
MAX_TERMS = 64  # Each term is a walk through the index.
MAX_TERM_CHARS = 128  # Longer than any word; a pasted token or URL is cut.

# What every passage repeats of its document's title and tags, in characters. The first passage has
# all of them: 200 KB of tags made 108 MB of a file of 0.4 MB.
REPEATED_NAME_CHARS = 500

# A text without any of these is plain words.
OPERATOR_MARKS = ('"', "*", "AND", "OR", "NOT", "NEAR(", "\u201c", "\u201e", "\u00ab")
# A longer name of code is a key or a hash, and so is one of many parts that are short on average.
MAX_NAME_CHARS, LEAST_NAME_CHARS = 48, 4
FEW_PARTS, MEAN_CHARS, LEAST_PART_CHARS = 3, 3, 2
# A capital after a small letter or digit, or the last one of several before a small letter.
_CAPITAL_INSIDE = "[A-Z](?:(?<=[a-z0-9].)|(?<=[A-Z].)(?=[a-z]))"
# Bytes as letters: "A" for capitals of ASCII, "a" for its digits and other letters.
_CASES = b" " * 48 + b"a" * 10 + b" " * 7 + b"A" * 26 + b" " * 6 + b"a" * 26 + b" " * 133

# Porter stems English only: words of other languages also match by their beginning, less so many
# letters. From benchmarks/quality.md.
ENDING_CHARS, LEAST_BEGINNING_CHARS = 2, 4


def needs_no_runs(text: str) -> bool:
    """Tell quickly that a text has none of a script without spaces; others may have none either."""
    # Much cheaper than the pattern of runs, and compiled in no time. Any text may have signs.
    return text.isascii() or not re.search("[^\0-\u0e00\u2000-\u2bff]", text)


def has_runs(text: str) -> bool:
    """Tell whether a text has characters of a script without spaces."""
    if needs_no_runs(text):
        return False
    from plait.text.unspaced import runs

    return runs().search(text) is not None


def is_unspaced(text: str) -> bool:
    """Tell whether all characters belong to one kind of script without spaces."""
    if needs_no_runs(text):
        return False
    from plait.text.unspaced import runs

    return runs().fullmatch(text) is not None


def single_spaced(text: str) -> str:
    """Replace each run of white space with one space, and strip the ends."""
    return " ".join(text.split())


def parts(text: str) -> list[str]:
    """List the parts of a text's names of code, each once, in lower case.

    The keyword engine divides ``max_retries`` by itself, but not ``maxRetries``.

    >>> parts("arrayToCSV of HTTPServer2, GitHub")
    ['array', 'to', 'csv', 'http', 'server2', 'server', 'git', 'hub']
    """
    cases = text.encode("utf-8", "replace").translate(_CASES)
    if cases.startswith(b"A") + cases.count(b" A") == cases.count(b"A"):
        return []  # all capitals begin a word; three times as fast as the pattern
    return list(dict.fromkeys(part for _, _, part in placed_parts(text)))


def placed_parts(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the parts of a text's names of code with their places."""
    reached, find = 0, re.compile(_CAPITAL_INSIDE).search
    while inside := find(text, reached):
        start, reached = inside.span()
        while start and inside.end() - start <= MAX_NAME_CHARS and text[start - 1].isalnum():
            start -= 1
        while reached < len(text) and text[reached].isalnum():
            reached += 1
        if LEAST_NAME_CHARS <= reached - start <= MAX_NAME_CHARS:
            for first, last, part in _parts_of(text[start:reached]):
                yield start + first, start + last, part


@lru_cache(maxsize=2_048)  # A project has few names, and most of its passages some of them.
def _parts_of(word: str) -> tuple[tuple[int, int, str], ...]:
    # A word of capitals only, as "IDs" is, has no parts.
    if word.rstrip("s").isupper() or not word.isascii():
        return ()
    pieces = list(re.finditer("[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+", word))
    if len(pieces) < 2 or (len(pieces) > FEW_PARTS and len(word) < MEAN_CHARS * len(pieces)):
        return ()
    return tuple(
        (part.start(), part.end(), form)
        for part in pieces
        for form in dict.fromkeys((part[0].lower(), part[0].lower().rstrip("0123456789")))
        if len(form) >= LEAST_PART_CHARS
    )


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


def names_of(document: Document, ordinal: int = 0) -> str:
    """Return the names that a passage is found under: title, tags, aliases and name of the file.

    Passages after the first repeat only the beginning.
    """
    names = [document.title, *document.tags, *document.aliases]
    if document.kind == "file" and document.key:
        stem = document.key.rsplit("/", 1)[-1].rsplit(".", 1)[0]
        if stem.casefold() not in document.title.casefold():
            names.append(stem)
    joined = " ".join(filter(None, names))
    return first_words(joined) if ordinal else joined


def clean(text: str) -> str:
    r"""Make a text safe to store in any engine: lone surrogates become U+FFFD, NUL a space.

    >>> clean("one\0two")
    'one two'
    """
    text = text.replace("\0", " ")
    if text.isascii():  # which Python knows without a look at the text
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


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


def parse(text: str, *, strict: bool = False) -> Query:
    """Parse a search string; every string is a valid query.

    Words side by side mean "any of these, the more the better", and a ``"phrase"`` among them ranks
    passages with the phrase higher. ``+"a phrase"``, ``AND``, ``OR``, ``NOT``, ``NEAR(a b, 5)``,
    ``prefix*`` and parentheses are operators if the whole string parses that way, else plain words;
    so is a string of phrases alone, and with ``strict`` every phrase. Words after NOT are not in
    ``words``.

    >>> parse("where is the key of the SSH-server?").words
    ('key', 'ssh', 'server')
    """
    text = capped(text)
    if any(mark in text for mark in OPERATOR_MARKS):
        from plait.text import operators

        expression = operators.read(text, strict=strict)
        if expression is not None:
            wanted = [word for term in operators.terms_of(expression) for word in term.words]
            in_order = [word for word in _bag(text) if word in wanted]
            few, others = operators.with_few_beginnings(expression)
            return Query(text, _content(in_order or wanted), few, strict=True, unbegun=others)
        phrases = operators.phrases_in(text)
        query = plain(text, phrases)._replace(
            misread=operators.has_operators(text), unbegun=operators.beginnings_beyond(text)
        )
        if strict and phrases and not query.misread:
            expression = operators.requiring(phrases, query.words)
            # subtle: boosts beside an expression would match passages without the phrases.
            return query._replace(expression=expression, strict=True, boosts=())
        return query
    return plain(text)


def plain(text: str, phrases: Sequence[Term] = ()) -> Query:
    """Return a query for any of the words of a text; passages with the phrases rank higher."""
    from plait.text.asking import without_asking

    content = _content([*_bag(without_asking(text)), *parts(text)])
    kept = content[:MAX_TERMS]
    left_out = len(content) - len(kept)
    if "_" in text:
        # The engine divides `max_retries`, but passages with the whole name come first.
        names = [words_in(name) for name in re.findall(r"\w+", text) if "_" in name.strip("_")]
        phrases = (*phrases, *(Term(tuple(words)) for words in names if len(words) > 1))
    dates: tuple[Date, ...] = ()
    if re.search("[0-9月]", text):
        from plait.text.dates import dates_in, numbers_in, phrases_of

        dates = dates_in(text)
        phrases = (*phrases, *numbers_in(text), *phrases_of(dates))
    expression, raising = _prefixes(text, kept), boosts(kept, phrases)
    query = Query(text, kept, expression, left_out=left_out, boosts=raising, dates=dates)
    if not all(map(str.isascii, kept)):
        return query  # a mark beyond ASCII, as in "who\u2019s paying", makes no other language
    from plait.text.english import joined_words, other_forms

    forms = (*other_forms(kept, text), *joined_words(text, kept))
    return query._replace(forms=forms[: MAX_TERMS - len(kept)])


def boosts(words: Sequence[str], phrases: Sequence[Term] = ()) -> tuple[Term, ...]:
    """Return what else raises a passage: phrases, and other forms of the words."""
    begun = [Term((start,), prefix=True) for start in beginnings(words).values()]
    first = [*dict.fromkeys(phrases)][: max(0, MAX_TERMS - len(begun))]
    return tuple(dict.fromkeys([*first, *begun]))


def beginnings(words: Iterable[str], prefixes: Iterable[str] = ()) -> dict[str, str]:
    """Return the letters that other forms of the words begin with; English words have none.

    Words with a letter beyond ASCII have them, and the long ones beside such words. A prefix is
    the beginning of whatever it matches.

    >>> beginnings(["читаю", "книгами", "kubernetes", "日本"]), beginnings(["reading", "books"])
    ({'читаю': 'чита', 'книгами': 'книга', 'kubernetes': 'kubernet'}, {})
    """
    words, typed = list(words), {word: word for word in prefixes}
    if all(map(str.isascii, words)):
        return typed
    # A piece of a run without spaces is no word, and a number has no other forms.
    inflected = [word for word in words if not any(map(str.isdigit, word)) and not has_runs(word)]
    others = [word for word in inflected if not word.isascii()]
    # One name with an accent, as in "Zoë's server", makes no other language of a question.
    english = len(others) < 2 and set("".join(others)) <= LETTERS
    return {
        word: word[: max(LEAST_BEGINNING_CHARS, len(word) - ENDING_CHARS)]
        for word in (others if english else inflected)
        if len(word) > LEAST_BEGINNING_CHARS + word.isascii()
    } | typed


def prefixes_of(query: Query) -> tuple[str, ...]:
    """Return those of a query's words that every longer word matches."""
    pending: list[Expression] = [*query.boosts]
    if query.expression is not None:
        pending.append(query.expression)
    begun: set[str] = set()
    while pending:
        part = pending.pop()
        if isinstance(part, Group):
            pending += part.parts
        elif part.prefix:
            begun.add(part.words[-1])
    return tuple(word for word in query.words if word in begun)


def capped(text: str) -> str:
    """Return valid Unicode without NUL, at most `MAX_QUERY_BYTES` long, cut between words."""
    head = text[: MAX_QUERY_BYTES + 1].replace("\0", " ").encode("utf-8", "replace")
    if len(head) <= MAX_QUERY_BYTES:
        return head.decode()
    cut = head[:MAX_QUERY_BYTES].decode("utf-8", "ignore")
    whole_words = cut.rstrip().rsplit(None, 1)
    return whole_words[0] if len(whole_words) > 1 else cut


def words_in(text: str) -> list[str]:
    """List the words in order, lower case, as they are in the index before stemming."""
    if text.isascii():
        return [word[:MAX_TERM_CHARS] for word in re.findall("[a-z0-9]+", text.lower())]
    if needs_no_runs(text):
        words = _scan(text)
    else:
        from plait.text.unspaced import pieces_of, segments

        words = []
        for start, end, n in segments(text):
            words += pieces_of(text[start:end], n) if n else _scan(text[start:end])
    return [word.lower()[:MAX_TERM_CHARS] for word in words]


def _scan(text: str) -> list[str]:
    from unicodedata import category

    # Vowel signs and points belong to their word: without them Hindi falls into consonants.
    # The two selectors mean "as text" or "as emoji" and belong to no word.
    others = {mark for mark in set(text) if not mark.isalnum()}
    marks = {mark for mark in others if category(mark) in ("Mn", "Mc", "Co")} - {*"\ufe0e\ufe0f"}
    if not marks:
        return re.findall(r"[^\W_]+", text)
    kept = text.translate(dict.fromkeys(map(ord, others - marks), " "))
    return [word for word in kept.split() if not marks.issuperset(word)]


def _bag(text: str) -> list[str]:
    """List the words without leftovers of apostrophes: ``don't``, ``'s`` in ``John's``, ``l'``."""
    if "'" not in text and "\u2019" not in text:
        return words_in(text)
    contraction = "(?i)[a-z]+n['\u2019]t\\b|['\u2019](?:s|d|m|ll|re|ve)\\b|\\b\\w['\u2019](?=\\w)"
    return words_in(re.sub(contraction, " ", text)) or words_in(text)


def _content(words: Sequence[str]) -> tuple[str, ...]:
    """Return each word once, without stop words if at least two others remain."""
    unique = list(dict.fromkeys(words))
    content = [word for word in unique if word not in STOP_WORDS]
    if 1 < len(unique) < 2 * len(content):  # else it is in English
        from plait.text.asking import without_function_words

        own = without_function_words(content, unique)
        if 0 < len(own) < len(content):
            return tuple(own)  # among notes in English the others would be the rarest words
    return tuple(content if len(content) > 1 else unique)


def _prefixes(text: str, bag: Sequence[str]) -> Expression | None:
    """Make a prefix of a short run that stands alone, like ``水`` in ``水 温度``."""
    if needs_no_runs(text):
        return None
    from plait.text.unspaced import is_short

    alone = [words[0] for part in text.split() if len(words := words_in(part)) == 1]
    short = {word for word in alone if is_short(word)}
    terms = tuple(Term((word,), prefix=word in short) for word in bag)
    return None if not short else terms[0] if len(terms) == 1 else Group("or", terms)
