"""Values that a text assigns to a name: ``password: X``, ``api_key=X``, a column of a table.

Names are words of many languages. Those of English and German, and what French, Portuguese and
Norwegian make of "pass", are looked for in every text. The others are looked for in short texts and
in those with letters of their script: looking for all of them everywhere would take half as long
again.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from math import log2
from typing import AnyStr, Literal

from plait.types.records import NamedTuple


def pattern(source: AnyStr, flags: int = 0) -> Callable[[], re.Pattern[AnyStr]]:
    """Return an expression that is compiled when it is first called for: few texts need any."""
    return cache(lambda: re.compile(source, flags))


# -- values that are no secrets --------------------------------------------------------------

# Words of examples. A random token of 40 characters contains one with a chance below 1 in 1,000.
_EXAMPLE_WORDS = pattern(
    r"example|your[_-]?|xxxx|changeme|change[_-]me|placeholder|redact|dummy|sample|insert[_-]|"
    r"\bfake|replace[_-]|\.\.\.|…|\*\*\*|here\b|todo|fixme|foobar|deadbeef|"
    r"my[_-](?:secret|token|key|pass)|not[_-]?(?:a[_-])?(?:real|secret)|omitted",
    re.I,
)
# Runs that fill an example up. They may also stand in a real token, beside enough of the rest.
_RUNS = pattern(r"123456789|abcdefg|0{8}", re.I)
FEWEST_BESIDE_RUNS = 20  # characters: with its prefix, the shortest token has as many
# Characters of code that computes a value, and of a template that is filled in later.
CODE = pattern(r"[<>(){}\[\]|\\]|\$[A-Za-z_]|%[sd(%]|::|->|https?:|^[$@&%#!/~.]|^--|\w@\w|==")
# The same for a value in quotes, where most characters may be part of a password.
_TEMPLATE = pattern(
    r"\$[{(]|\{\{|^<.{1,80}>$|^[\[{(%$@/~.]|%[sd(]|\w\(|->|::|^--|https?:|\w@\w{1,60}\.\w|\\[nt\"]"
)
# Words that stand for a value, or for the type of one.
_LISTED = (
    "string text none null true false undefined required optional empty nil str bytes bool int "
    "secret password passwd token default value basic bearer plain unset disabled enabled auto "
    "hunter letmein qwerty admin root user guest test testing demo guess wrong swordfish "
    # in URLs
    "pass pwd pw pswd word pass1 mypass userpass tiger postgres mysql mongo redis rabbit "
    "hostname anonymous"
)
NO_PASSWORDS = frozenset(_LISTED.split())
_PARTS = pattern(r"[A-Za-z]+|[0-9]+|[^A-Za-z0-9]+")
_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*:?$")
_DATE_OR_NUMBER = pattern(r"[\d.,:/TZ+-]+(?:[a-z]{1,3}|%)?$")
# Names of settings and fields, not values.
_OF_SECRETS = pattern(r"passw|secret|token|credential|\bkey\b|\bpwd\b|login")
FEWEST_DISTINCT = 6  # characters; a real token has more
FEWEST_BARE = 8  # characters of a password that follows its name without any sign
# Words with digits that follow "password" in prose and in code.
_TECHNICAL = pattern(
    r"sha-?\d|md5|base64|utf-?\d|rfc|oauth|pkcs|pbkdf|x509|http\d|iso-?\d|[=/_]|\.[a-z]{2,4}$|(?-i:^[a-z]+\d$)",
    re.I,
)
# Bits per character from which a long value is random: names in code have less.
RANDOM_BITS = 4.1


def is_example(value: str) -> bool:
    """Tell whether a token-shaped value is an example of the shape."""
    return len(set(value)) < FEWEST_DISTINCT or is_made_up(value)


def is_made_up(value: str) -> bool:
    """Tell whether a value has a word of examples in it, or is little more than 123456789.

    >>> is_made_up("ghp_abcdefghijklmnop0123456789"), is_made_up("9Kx2mQ7vT4bW8zR1nL5cabcdefg")
    (True, False)
    """
    if _EXAMPLE_WORDS().search(value):
        return True
    if not _RUNS().search(value):
        return False
    # Each run is left with its first character.
    rest = "".join(b for a, b in pairwise(f" {value}") if ord(b) - ord(a) not in (0, 1))
    return len(rest) < FEWEST_BESIDE_RUNS or not _is_random(rest)


def _classes(value: str) -> int:
    """Return how many kinds of characters a value mixes: lower, upper, digits, others."""
    return (
        any(char.islower() for char in value)
        + any(char.isupper() for char in value)
        + any(char.isdigit() for char in value)
        + any(not char.isalnum() for char in value)
    )


def _is_random(value: str) -> bool:
    """Tell whether letters and digits alternate as they do in no word and no name."""
    parts = [part for part in _PARTS().findall(value) if part.isalnum()]
    digits = sum(part.isdigit() for part in parts)
    cased = value.lower() != value and value.upper() != value
    if digits >= 3 or (digits >= 2 and cased and len(value) >= 10):
        return True
    return len(value) >= 20 and cased and digits >= 1 and _entropy(value) >= RANDOM_BITS


def _entropy(value: str) -> float:
    """Return the bits per character of a value, by how often each character occurs in it."""
    shares = [value.count(char) / len(value) for char in set(value)]
    return -sum(share * log2(share) for share in shares)


class Assigned(NamedTuple):
    """A value that a text assigns to a name such as ``password``."""

    name: str
    value: str
    quote: str
    next: str
    # What tells the two apart: a sign or a verb, a blank only, or the option of a command.
    link: Literal["sign", "blank", "option"] = "sign"


def is_password(row: Assigned) -> bool:
    """Tell whether a value assigned to a ``password`` is one that a person or program chose."""
    value = row.value.rstrip(".,;:!?)") if not row.quote else row.value
    low = value.lower()
    if len(value) < 6 or low in NO_PASSWORDS or len(set(value)) < 4 or is_made_up(value):
        return False
    if " " in value or _DATE_OR_NUMBER().match(value) or _OF_SECRETS().search(low):
        return False
    classes, digits = _classes(value), any(char.isdigit() for char in value)
    is_free = row.quote or row.link == "option" or classes == 4
    if (_TEMPLATE if is_free else CODE)().search(value):
        return False
    if row.link == "blank":
        return _is_chosen(value)
    if row.link == "option":  # what stands there is a password: few words mix their cases
        is_mixed = value.lower() != value and value[1:].upper() != value[1:]
        return classes >= 2 and (digits or classes >= 3 or (is_mixed and not value.istitle()))
    if row.quote:
        words = re.split(r"[^A-Za-z0-9]+", value)
        phrase = len(words) >= 3 and min(map(len, words)) >= 3 and row.quote == "`"
        return phrase or (classes >= 2 and (digits or classes >= 3))
    if row.next in ("(", "[", ".") or not digits or classes < 2:
        return False
    # A word with one number in it may be the name of a variable.
    return "_" not in value or not _NAME().match(value) or _is_random(value)


def _is_chosen(value: str) -> bool:
    """Tell whether a word behind "password" can only be one: nothing else says that it is."""
    return (
        len(value) >= FEWEST_BARE
        and any(char.isdigit() for char in value)
        and any(char.isalpha() for char in value)
        and _TECHNICAL().search(value) is None
    )


def is_token(row: Assigned) -> bool:
    """Tell whether a value assigned to a ``token``, ``secret`` or ``api_key`` is random."""
    value = row.value.rstrip(".,;:!?)") if not row.quote else row.value
    if len(value) < 12 or " " in value or is_example(value) or CODE().search(value):
        return False
    if not row.quote and (row.next in ("(", "[", ".") or ("." in value and _NAME().match(value))):
        return False
    return _DATE_OR_NUMBER().match(value) is None and _is_random(value)


# Bytes. A longer value and its name are read once, whatever names occur in them.
LONGEST_VALUE = 80


# -- names -----------------------------------------------------------------------------------

# As they begin, in lower case; a "key" is secret after these words.
PASSWORD_NAMES = (b"pass", b"pw", b"kennwort")
TOKEN_NAMES = (b"secret", b"token", b"authorization")  # and "key"
_PASSWORD_ENDS = (b"word", b"wd", b"wort", b"phrase", b"code")
_KEYS_OF = tuple(
    word + sign
    for word in (b"api", b"access", b"auth", b"private", b"secret", b"encryption", b"signing")
    for sign in (b"", b"_", b"-", b" ")
)
# "passe" and "passord" are French, Portuguese and Norwegian words for it, in these places only.
_BEFORE_PASSE = (b"mot de ", b"mots de ", b"palavra-", b"palavra ")
# What follows "pass" there, or where it is the whole name.
_AFTER_PASS = (b"e", b"ord", *(sign.encode() for sign in ":= \"'`*)]"))
# What follows "pw" in a name.
_AFTER_PW = (b"d", *_AFTER_PASS[2:])
# Names in other languages, without their first letter where a capital one has other bytes.
_LATIN_NAMES = tuple(
    name.encode()
    for name in (
        *("contrase", "senha", "parol", "heslo", "salasana", "lozinka", "adgangskode"),
        *("wachtwoord", "lösenord", "jelsz", "asło", "şifre", "Şifre"),
    )
)
# By the first byte of a letter of the script.
_NAMES_IN_SCRIPT: tuple[tuple[bytes, tuple[bytes, ...]], ...] = tuple(
    (name.encode()[:1], tuple(word.encode() for word in (name, *more)))
    for name, *more in (
        ("арол", "АРОЛ"),
        ("ωδικ",),
        ("סיסמ",),
        ("المرور",),
        ("كلمة السر",),
        ("पासवर्ड", "รหัสผ่าน"),
        ("ật khẩu",),
        ("パスワード",),
        ("密码", "密碼"),
        ("口令",),
        ("비밀번호",),
        ("암호",),
        ("패스워드",),
    )
)
_ABROAD = frozenset(
    {
        *(*PASSWORD_NAMES[2:], *_LATIN_NAMES),
        *(word for _, words in _NAMES_IN_SCRIPT for word in words),
    }
)
_LATIN_LEADS = (b"\xc3", b"\xc4", b"\xc5")
SHORT_TEXT = 200  # bytes
# A sign and the value, in quotes or without.
_VALUE = (
    rb"[\s*]{0,5}(?:(?:bearer|basic)\s)?"
    rb"(?:([\"'`])([^\n\"'`]{4,240})\2|([^\s\"'`,;&<|]{4,160}))(.?)"
)
# The same without a sign.
_BARE_VALUE = rb"(?:([\"'`])([!-~]{8,160}?)\2|([^\s\"'`,;&<|\x80-\xff]{8,160}))(.?)"
_COLON = "\N{FULLWIDTH COLON}".encode()
# "is" and a dash, in the languages of the names.
_IS = "|".join(
    (
        *("is", "ist", "lautet", "es", "est", "è", "é", "är", "er", "jest", "je", "это"),
        *("\N{EN DASH}", "\N{EM DASH}"),
    )
).encode()
_FOR = "for|of|on|to|at|für|fürs|von|vom|zum|zur|im|de|del|della|di|du|da|do|per|pour|para|voor|van"
# The rest of the name, then these.
_ASSIGNED = pattern(
    rb"\"?([A-Za-z0-9_.-]{2,40}+)[\"'`*)\]]{0,3}\s{0,3}"
    rb"(?:(?:" + _FOR.encode() + rb")\s[^\n:=\"'`]{1,40}?)??"
    rb"(?:=>|->|:=|==|[=:>]|"
    + _COLON
    + rb"|\bis\b(?: now| still)?:?|(?<=\s)(?:"
    + _IS
    + rb")(?=\s))"
    + _VALUE,
    re.I,
)
_BARE = pattern(rb"(pass(?:word|wd|wort|phrase|code)|pwd?)\*{0,2}[ \t]{1,3}" + _BARE_VALUE, re.I)
# The same behind a name in another language: its ending, perhaps what it is for, and a sign.
_SPACES = "\N{NO-BREAK SPACE}|\N{NARROW NO-BREAK SPACE}".encode()
_ASSIGNED_ABROAD = pattern(
    rb"([A-Za-z\x80-\xff]{0,12}?)[\"'`*)\]]{0,3}(?:\s|" + _SPACES + rb"){0,3}"
    rb"(?:(?<=[\s(])(?:[^\n:=\"'`]|(?<=[a-z])'(?=[a-z])){1,40}?)??"
    rb"(?:=>|:=|=|:|"
    + _COLON
    + b"|"
    + "|".join("是为為は").encode()
    + rb"|(?<=\s)(?:to|"  # "to" is Polish
    + _IS
    + rb")(?=\s))"
    + _VALUE,
    re.I,
)
# Scripts without blanks between words need none here.
_BARE_ABROAD = pattern(
    rb"([A-Za-z\x80-\xff]{0,12})(?:[ \t]{1,3}|(?<=[\x80-\xff]))" + _BARE_VALUE, re.I
)


def names_abroad(low: bytes) -> list[bytes]:
    """Return the names in other languages that occur in a text."""
    is_short = len(low) <= SHORT_TEXT
    if low.isascii():
        return [name for name in _LATIN_NAMES if name in low] if is_short else []
    is_latin = is_short or any(lead in low for lead in _LATIN_LEADS)
    names = list(_LATIN_NAMES) if is_latin else []
    for lead, words in _NAMES_IN_SCRIPT:
        if lead in low:
            names += words
    return [name for name in names if name in low]


def assigned(mark: bytes, low: bytes, data: bytes) -> Iterator[Assigned]:
    """Yield the values that are assigned to names with this mark."""
    place = low.find(mark)
    while place >= 0:
        start, place = place, place + len(mark)
        match = _value_of(mark, start, low, data)
        if match is not None:
            if match.end() > start + LONGEST_VALUE:
                place = match.end()  # what is in a value is not read again
            name, quote, quoted, bare, following = (
                (part or b"").decode("utf-8", "replace") for part in match.groups()
            )
            is_bare = match.re in (_BARE(), _BARE_ABROAD()) and data[start - 1 : start] != b"-"
            link: Literal["sign", "blank"] = "blank" if is_bare else "sign"
            yield Assigned(name.lower(), quoted or bare, quote, following, link)
        place = low.find(mark, place)


def _value_of(mark: bytes, start: int, low: bytes, data: bytes) -> re.Match[bytes] | None:
    """Return the name that begins or ends with a mark at this place, with its value."""
    end = start + len(mark)
    if mark == b"key":
        # Most keys are keys of something else.
        is_secret = low.endswith(_KEYS_OF, max(0, start - 12), start)
        return _ASSIGNED().match(data, start) if is_secret else None
    if mark == b"pass" and not low.startswith(_PASSWORD_ENDS, end):
        return _after_pass(start, end, low, data) if low.startswith(_AFTER_PASS, end) else None
    if mark == b"pw" and not (
        low.startswith(_AFTER_PW, end) and not data[max(0, start - 1) : start].isalnum()
    ):
        return None
    if mark in _ABROAD:
        return _ASSIGNED_ABROAD().match(data, end) or _BARE_ABROAD().match(data, end)
    match = _ASSIGNED().match(data, start)
    return match if match or mark in TOKEN_NAMES else _BARE().match(data, start)


def _after_pass(start: int, end: int, low: bytes, data: bytes) -> re.Match[bytes] | None:
    """Return a bare "pass", or what other languages make of it, with its value."""
    for ending in (b"e", b"ord"):
        if low.startswith(ending, end):
            if ending == b"e" and not low.endswith(_BEFORE_PASSE, max(0, start - 8), start):
                return None
            end += len(ending)
            return _ASSIGNED_ABROAD().match(data, end) or _BARE_ABROAD().match(data, end)
    # A bare "pass" is a name, but not in "compass", nor in "PASS: TestLogin2" of a test run.
    before = data[max(0, start - 1) : start]
    if before.isalnum() or (before != b"_" and data.startswith(b"PASS:", start)):
        return None
    return _ASSIGNED().match(data, start)


# -- other places ----------------------------------------------------------------------------

NETRC = pattern(
    rb"machine\s{1,4}\S{1,120}\s{1,8}login\s{1,4}\S{1,120}\s{1,8}password\s{1,4}(\S{4,200})"
)
# A user and a password for a server: curl -u admin:X https://…
_CURL = pattern(
    rb"curl\s[^\n]{0,200}?(?:-u|--user)[\s=]{0,2}([\"']?)[^\s:\"']{1,80}:([^\s\"']{4,200})"
)
# What stands in a command line before its password: not another command.
_BEFORE = rb"\s(?:[^\n|;&]{0,200}?\s)??"
_GIVEN = rb"([\"']?)([^\s\"']{4,200})"
_PASS_OPTION = rb"(?:-p[\s=]{0,2}|--pass(?:word)?[\s=]{1,2})"
# Programs that are given a password with an option that means something else elsewhere.
_SSHPASS = pattern(rb"sshpass\s(?:-[vP]\s?\S{0,40}\s){0,2}-p\s{0,2}" + _GIVEN)
_REGISTRY = pattern(rb"(?:docker|podman)\slogin" + _BEFORE + _PASS_OPTION + _GIVEN)
# With a blank behind -p, they ask for it, and the next word is a database.
_MYSQL = pattern(
    rb"(?:mysql[a-z]{0,10}|mariadb(?:-[a-z]{1,10})?)" + _BEFORE + rb"(?:-p|--password=)" + _GIVEN
)
_MONGO = pattern(rb"mongo[a-z]{0,10}" + _BEFORE + _PASS_OPTION + _GIVEN)
_REDIS = pattern(rb"redis-cli" + _BEFORE + rb"(?:-a\s{1,2}|--pass[\s=]{1,2})" + _GIVEN)
_COMMANDS = {
    **{b"sshpass": _SSHPASS, b"docker": _REGISTRY, b"podman": _REGISTRY},
    **{b"mysql": _MYSQL, b"mariadb": _MYSQL, b"mongo": _MONGO},
}
_RULE = b" \t\r|:-"
_PASS_HEADINGS = (b"passw", b"passphrase", b"passord", b"mot de passe", b"palavra-passe")


def is_netrc(match: re.Match[bytes]) -> bool:
    """Tell whether an entry of a netrc file has a password of its own."""
    password = match[1].decode("utf-8", "replace")
    return password.lower() not in NO_PASSWORDS and not CODE().search(password)


def runs_commands(low: bytes, data: bytes) -> bool:
    """Tell whether a text may have a command with a password: `in_commands` looks for it.

    Three looks are enough in most texts: all but two programs have an option that begins with -p.
    """
    return (
        b"curl" in low
        or b"redis-cli" in low
        or (b"-p" in data and any(program in low for program in _COMMANDS))
    )


def in_commands(low: bytes, data: bytes) -> Iterator[Assigned]:
    """Yield the passwords that commands give to their programs."""
    for program, shape in _COMMANDS.items() if b"-p" in data else ():
        yield from _given_to(program, shape, low, data)
    yield from _given_to(b"redis-cli", _REDIS, low, data)
    yield from _given_to(b"curl", _CURL, low, data)


def _given_to(
    program: bytes, shape: Callable[[], re.Pattern[bytes]], low: bytes, data: bytes
) -> Iterator[Assigned]:
    place = low.find(program)
    while place >= 0:
        match = shape().match(data, place)
        if match is not None:
            value = match[2].decode("utf-8", "replace")
            yield Assigned(program.decode(), value, match[1].decode(), "", "option")
        place = low.find(program, place + len(program) if match is None else match.end())


def in_tables(mark: bytes, low: bytes, data: bytes) -> Iterator[Assigned]:
    """Yield the cells of the columns of Markdown tables whose headings have this mark."""
    lines, headings = data.splitlines(), low.splitlines()
    columns: list[int] = []
    for number, line in enumerate(lines):
        if b"|" not in line:
            columns = []
        elif not line.strip(_RULE) and b"--" in line and number:
            names = _cells(headings[number - 1])
            columns = [n for n, name in enumerate(names) if _is_heading(name, mark)]
        elif columns:
            cells = _cells(line)
            for column in columns:
                if column < len(cells):
                    yield _cell(cells[column].decode("utf-8", "replace").strip())


def _is_heading(cell: bytes, mark: bytes) -> bool:
    if mark not in (b"pass", b"pw"):
        return mark in cell
    headings = _PASS_HEADINGS if mark == b"pass" else (b"pwd",)
    return cell.strip(b" *`") == mark or any(name in cell for name in headings)


def _cells(line: bytes) -> list[bytes]:
    return line.strip().removeprefix(b"|").split(b"|")


def _cell(text: str) -> Assigned:
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "`\"'"
    return Assigned("", text[1:-1] if is_quoted else text, text[0] if is_quoted else "", "")
