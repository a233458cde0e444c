"""Read the operators of a query: phrases, AND, OR, NOT, NEAR and prefixes. Not its plain words."""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from plait.text import MAX_TERMS, beginnings, boosts, words_in
from plait.text.english import STOP_WORDS, empty_words
from plait.text.unspaced import is_short
from plait.types.queries import Expression, Group, Query, Term

MAX_NESTING = 16  # Parentheses nested deeper than this are text, not operators.
NEAR_DISTANCE = 10  # Words between, in NEAR(a b) without a number, as in FTS5.
MAX_NEAR_DISTANCE = 1_000  # Wider than any passage.
MAX_ENDING_CHARS = 3  # After a word that NOT excludes: "сервер", "серверами".
# Each beginning of a word is a walk through all words that begin so: 12 of one letter take a second
# among 100,000 passages, 64 took longer than a search may.
MAX_BEGINNINGS = 12
MAX_PHRASES = 8  # Of words beside phrases; a pasted page has more quotes than a question.

# Also as people write them in prose: at the end of a sentence, or with typographic marks. Not the
# inches of `12" and 14" disks`.
_PHRASE = (
    r'(?<!\w)"([^"]+)"(?!\w)|[\u201c\u201e]([^\u201c-\u201e]+)[\u201c\u201d]'
    r"|\u00ab([^\u00ab\u00bb]+)\u00bb"
)

_QUOTES = "\u201c\u201d\u201e\u00ab\u00bb"
# Phrases, and everything between two spaces. Not the inches, here too.
_EXACT = rf'''(?:(?<!\w)"|[{_QUOTES}])[^"{_QUOTES}]*["{_QUOTES}]\*?|[^\s"{_QUOTES}]++'''
_OPERATOR = r'(?<!\S)(?:NOT|AND|OR)(?!\S)|(?<!\S)NEAR\(|(?<!\S)\+["\u201c\u201e\u00ab]'

_JOINING = ("AND", "OR", "NOT")
# "does the VPN NOT work": before an operator they make a sentence of it.
_AUXILIARY_WORDS = (
    "are be been can could did do does had has have is must shall should was were will would"
)
_AUXILIARIES = frozenset(_AUXILIARY_WORDS.split())
_ABBREVIATIONS = frozenset(("IT", "US", "WHO"))  # which would be function words in small letters
LEAST_SHOUTED = 4  # letters of a word that is no abbreviation, as "AWS" is


def phrases_in(text: str) -> tuple[Term, ...]:
    """Return the quoted phrases of plain words, each once; a single word is no phrase.

    >>> [" ".join(term.words) for term in phrases_in('Who wrote "The Long Rain", and "Kim"?')]
    ['the long rain']
    """
    quoted = (next(filter(None, match.groups())) for match in re.finditer(_PHRASE, text))
    terms = dict.fromkeys(Term(tuple(words_in(phrase))) for phrase in quoted)
    kept = [term for term in terms if 1 < len(term.words) <= MAX_TERMS]
    return tuple(kept[:MAX_PHRASES])


def loosened(query: Query) -> Query:
    """Return a query for the words of an expression, less what its NOT excludes.

    Phrases and words near each other are words, and rank passages that have them higher.
    """
    if query.expression is None:
        return query
    wanted = list(terms_of(query.expression))
    phrases = [term for term in wanted if len(term.words) > 1 and not term.near]
    begun = [Term(term.words[-1:], prefix=True) for term in wanted if term.prefix]
    text = " ".join(query.words)
    denied = list(dict.fromkeys(_denied(query.expression)))
    if not denied:
        return Query(text, query.words, boosts=boosts(query.words, (*phrases, *begun)))
    either = [*(Term((word,)) for word in query.words), *boosts(query.words, (*phrases, *begun))]
    return Query(text, query.words, Group("not", (_any(either), *denied)), strict=True)


def _any(terms: Sequence[Expression]) -> Expression:
    return terms[0] if len(terms) == 1 else Group("or", tuple(terms))


def _all(terms: Sequence[Expression]) -> Expression:
    return terms[0] if len(terms) == 1 else Group("and", tuple(terms))


def terms_of(expression: Expression, *, denied: bool = False) -> Iterator[Term]:
    """Yield the terms in order; with ``denied`` also those after NOT."""
    if isinstance(expression, Term):
        yield expression
        return
    parts = expression.parts if denied or expression.operator != "not" else expression.parts[:1]
    for part in parts:
        yield from terms_of(part, denied=denied)


def with_few_beginnings(expression: Expression) -> tuple[Expression, int]:
    """Return an expression with its first beginnings of words, the others whole, and their number.

    A short run of a script without spaces is no beginning that somebody marked.
    """
    begun = [term for term in terms_of(expression, denied=True) if _is_begun(term)]
    others = frozenset([*dict.fromkeys(begun)][MAX_BEGINNINGS:])
    return (_whole(expression, others), len(others)) if others else (expression, 0)


def _is_begun(term: Term) -> bool:
    return term.prefix and not is_short(term.words[-1])


def _whole(expression: Expression, terms: frozenset[Term]) -> Expression:
    if isinstance(expression, Group):
        parts = [_whole(part, terms) for part in expression.parts]
        if expression.operator == "or":
            parts = list(dict.fromkeys(parts))  # the same walk again would cost as much
        return expression._replace(parts=tuple(parts))
    return expression._replace(prefix=False) if expression in terms else expression


def beginnings_beyond(text: str) -> int:
    """Return how many beginnings of words a string has that is too long for operators.

    >>> beginnings_beyond("a* b* " * MAX_TERMS), beginnings_beyond("a* b*")
    (2, 0)
    """
    if "*" not in text or len(words_in(text)) <= MAX_TERMS:
        return 0
    return len({part for part in text.split() if _begins(part)})


def _denied(expression: Expression) -> Iterator[Expression]:
    """Yield what NOT excludes, anywhere in the expression."""
    if isinstance(expression, Group):
        excluded = expression.parts[1:] if expression.operator == "not" else ()
        yield from excluded
        for part in expression.parts[: len(expression.parts) - len(excluded)]:
            yield from _denied(part)


def wanted_alone(query: Query) -> Query | None:
    """Return a query without what its NOT excludes; ``None`` if it excludes nothing."""
    if query.expression is None or not any(_denied(query.expression)):
        return None
    return query._replace(expression=_without_denied(query.expression))


def _without_denied(expression: Expression) -> Expression:
    if isinstance(expression, Term):
        return expression
    if expression.operator == "not":
        return _without_denied(expression.parts[0])
    return expression._replace(parts=tuple(map(_without_denied, expression.parts)))


def without_exact(text: str) -> str:
    """Return a string without its phrases and its beginnings of words.

    >>> without_exact('+"mail server" renew* AND key')
    '+    AND key'
    """
    return re.sub(_EXACT, lambda part: " " if _is_exact(part[0]) else part[0], text)


def _is_exact(part: str) -> bool:
    return part[0] in f'"{_QUOTES}' or _begins(part.rstrip(")"))


def _begins(bare: str) -> bool:
    """Tell whether a star marks the beginning of a word; two of them only stress it."""
    return bare[-1:] == "*" and (bare[-2:-1].isalnum() or not bare[-2:-1].isascii())


def _plain_quotes(text: str) -> str:
    return re.sub(f"[{_QUOTES}]", '"', text)


class _NotOperators(Exception):
    """The string does not parse as operators: it is plain words, which is not a failure."""


def has_operators(text: str) -> bool:
    """Tell whether a string has what would be an operator if all of it could be read."""
    return bool(re.search(_OPERATOR, text))


def requiring(phrases: Sequence[Term], words: Sequence[str]) -> Expression:
    """Return an expression for passages with all of some phrases, ranked by words."""
    return _side_by_side(phrases, [Term((word,)) for word in words])


def read(text: str, *, strict: bool = False) -> Expression | None:
    """Return the expression of a string, or ``None`` if it is words, with or without phrases."""
    text = _plain_quotes(text)
    # Outside of a phrase, the mark at the end of a sentence says nothing.
    text = re.sub(r'(?<=[\w)])"[,.;:!?]+(?=\s|$)', '"', text)
    try:
        reader = _Reader(text, strict=strict)
        expression = reader.either(0)
    except _NotOperators:
        return None
    if reader.at < len(reader.tokens) or not reader.operators:
        return None
    if not strict and reader.has_words and reader.operators == reader.soft:
        return None
    size = sum(len(term.words) for term in terms_of(expression, denied=True))
    if size > MAX_TERMS or (not strict and is_sentence(text)):
        return None
    return expression


def is_sentence(text: str) -> bool:
    """Tell whether AND, OR or NOT is a word of a sentence or of a pasted error.

    What is in quotes or parentheses, or begins a word, is written for a search.

    >>> is_sentence("why does the VPN NOT work"), is_sentence("nginx 404 NOT FOUND")
    (True, True)
    >>> is_sentence("vpn NOT openvpn"), is_sentence('restore NOT "in the cloud"')
    (False, False)
    """
    loud = text.isupper()
    parts = re.findall(r'"[^"]*"\*?|[()]|[^\s()"]+', text)
    depths = accumulate((part == "(") - (part == ")") for part in parts)
    outside = [depth <= 0 for depth in depths]
    places = [place for place, part in enumerate(parts) if part in _JOINING and outside[place]]
    for place, end in pairwise([*places, len(parts)]):
        before, after = parts[:place], parts[place + 1 : end]
        if not after or after[0][0] in '("' or _begins(after[0]):
            continue
        if any(_is_little(part, loud=loud) for part in (*before[-1:], after[0])):
            return True
        if any(part.lower() in _AUXILIARIES for part in before if loud or part[1:].islower()):
            return True
        if parts[place] == "NOT" and _negates(before, after, loud=loud):
            return True
    return False


def _negates(before: Sequence[str], after: Sequence[str], *, loud: bool) -> bool:
    """Tell whether NOT is a word of a sentence by what it would exclude."""
    first = "".join(words_in(after[0]))
    if after[0].isupper() and len(first) >= LEAST_SHOUTED and first.isalpha():
        return True  # "NOT FOUND", "NOT NULL"
    if before[-1:] and before[-1].lower() in _AUXILIARIES:
        return True
    if any(_is_little(part, loud=loud) for part in after):
        return True
    # Nobody wants and excludes a word: "winter tyres NOT summer tyres".
    plain = {word for part in before for word in words_in(part) if part[0] != '"'}
    return "(" not in before and not plain.isdisjoint(words_in(" ".join(after)))


def _is_little(part: str, *, loud: bool) -> bool:
    """Tell whether a part of a query is a function word; capitals alone may be abbreviations."""
    if part.isupper() and (part in _ABBREVIATIONS or not (loud or len(part) >= LEAST_SHOUTED)):
        return False
    return len(part) > 1 and part.upper() not in _JOINING and part.lower() in empty_words()


# A token ends at a space or a parenthesis: in `12" disk` and `5*3` nothing is an operator.
_TOKEN = (
    r'\s*+(?:(?P<plus>\+?)"(?P<phrase>[^"]*)"(?P<begins>\*?)(?=[\s)]|$)'
    r"|NEAR\((?P<near>[^()]*)\)(?=[\s)]|$)"
    r"|(?P<bracket>[()])"
    r'|(?P<bare>[^\s()"]++)(?=[\s()]|$))'
)


class _Reader:
    """Recursive-descent parser of the operators; NOT binds tighter than AND, AND than OR."""

    def __init__(self, text: str, *, strict: bool) -> None:
        self.tokens: list[str | tuple[Term, Term, bool]] = []
        self.at = 0
        self._excluding = 0  # how many NOT the parser is behind
        self.operators = 0
        self.soft = 0  # of the operators: those that words may stand beside
        self.has_words = False
        # Where one phrase has a plus, the others are not required.
        self._must = strict or '+"' not in text
        pattern, place, text = re.compile(_TOKEN), 0, text.rstrip()
        while place < len(text):
            token = pattern.match(text, place)
            if token is None:
                raise _NotOperators
            place = token.end()
            self._add(token)

    def _add(self, token: re.Match[str]) -> None:
        """Add a bracket or operator as it is, other tokens as (term, after NOT, is required)."""
        if bracket := token["bracket"]:
            self.tokens.append(bracket)
        elif bare := token["bare"]:
            if bare in ("AND", "OR", "NOT"):
                if bare == "NOT" and self.tokens[-1:] == ["AND"]:
                    self.tokens.pop()  # "a AND NOT b" is how people write "a NOT b".
                self.tokens.append(bare)
            elif words := words_in(bare):
                begins = _begins(bare)
                short = len(words) == 1 and is_short(words[0])
                self.has_words = True
                self.soft += short and not begins
                term = Term(tuple(words), prefix=begins or short)
                self.tokens.append((term, _with_endings(term), False))
        elif token["near"] is not None:
            near = _near(token["near"])
            self.tokens.append((near, near, True))
        elif words := words_in(token["phrase"]):
            term = Term(tuple(words), prefix=bool(token["begins"]))
            plain = not token["plus"] and not term.prefix
            self.soft += plain and self._must
            self.tokens.append((term, term, self._must or not plain))
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
            self._excluding += 1
            parts.append(self._row(depth))
            self._excluding -= 1
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
                term, excluded, must = token
                operand = excluded if self._excluding else term
                self.operators += must or term.prefix
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
    apart = [word for operand in optional for term in terms_of(operand) for word in _apart(term)]
    content = [term for term in apart if _tells(term)]
    ranking = content if content or required else apart
    if not ranking and not required:
        raise _NotOperators
    if not ranking or not required:
        return _any(ranking) if ranking else _all(required)
    # The first phrase is repeated among the words: then no word is required and each one ranks.
    return _all([*required, _any([required[0], *ranking])])


def _with_endings(term: Term) -> Term:
    """Return a word that no stemmer knows with its longer forms, anything else as it is.

    For what is excluded: ``NOT сервер`` means "серверами" too. Not in Latin letters: there, a few
    more of them often make another word, as in "Zürichsee".
    """
    word, *others = term.words
    if others or term.prefix or not beginnings([word]) or any(map(_is_latin, word)):
        return term
    return term._replace(ending=MAX_ENDING_CHARS)


def _is_latin(letter: str) -> bool:
    """Tell whether a letter is of the Latin alphabet, whose blocks these are."""
    return letter < "\u0300" or "\u1e00" <= letter <= "\u1eff" or letter > "\u1fff"


def _apart(term: Term) -> list[Term]:
    words = [Term((word,)) for word in term.words]
    return [term] if term.prefix or len(words) == 1 else [term, *words]


def _tells(term: Term) -> bool:
    return term.prefix or not STOP_WORDS.issuperset(term.words)


def _near(inside: str) -> Term:
    """Parse ``a b, 5``; phrases inside count as their words."""
    head, comma, tail = inside.rpartition(",")
    distance = re.fullmatch(r"\s*([0-9]{1,9})\s*", tail) if comma else None
    words = tuple(words_in(head if distance else inside))
    if not words:
        raise _NotOperators
    if len(words) == 1:
        return Term(words)
    wanted = int(distance[1]) if distance else NEAR_DISTANCE
    return Term(words, near=min(max(wanted, 1), MAX_NEAR_DISTANCE))
