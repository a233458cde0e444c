r"""Recognise private keys, tokens and passwords by their shape. No answer or error names a value.

A text is first searched for the fixed parts of the shapes ("PRIVATE KEY", "passw"), those of
tokens ("ghp_") only in its long words: some 15 microseconds for 1,000 characters. A regular
expression runs only where such a part occurs, and every quantifier has an upper bound, so that the
time grows with the text's length.

The shapes are those that the vendors publish. What nobody could sign in with does not count:
YOUR_KEY, xxxx, <password>, ${VAR}, AKIAIOSFODNN7EXAMPLE.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from plait.errors import UsageError, advise
from plait.facts.assigned import (
    FEWEST_DISTINCT,
    NETRC,
    NO_PASSWORDS,
    PASSWORD_NAMES,
    TOKEN_NAMES,
    Assigned,
    assigned,
    in_commands,
    in_tables,
    is_example,
    is_made_up,
    is_netrc,
    is_password,
    is_token,
    names_abroad,
    pattern,
    runs_commands,
)
from plait.types import Document
from plait.types.records import NamedTuple

# -- shapes ----------------------------------------------------------------------------------


class _Shape(NamedTuple):
    """A kind of secret: the fixed parts that a text must contain, then the whole shape.

    A match begins at a mark, unless it may be ``anywhere`` in a text with one; ``lead`` is what of
    the secret stands before the mark. ``check`` decides about a match; by default, examples of the
    shape do not count.
    """

    kind: str
    marks: tuple[str, ...]
    shape: Callable[[], re.Pattern[str]]
    check: Callable[[re.Match[str]], bool]
    anywhere: bool
    lead: Callable[[], re.Pattern[str]]


def _is_no_example(match: re.Match[str]) -> bool:
    return not is_example(match[0])


def _shape(
    kind: str,
    marks: str,
    shape: str,
    check: Callable[[re.Match[str]], bool] = _is_no_example,
    *,
    anywhere: bool = False,
    lead: str = "",
) -> _Shape:
    return _Shape(
        kind, tuple(marks.split("|")), pattern(shape), check, anywhere, pattern(rf"(?:{lead})$")
    )


def _has_key_body(match: re.Match[str]) -> bool:
    return len(set(match[1])) > FEWEST_DISTINCT


def _is_jwt(match: re.Match[str]) -> bool:
    return b'"alg"' in _decoded(match[1])


def _is_of_discord(match: re.Match[str]) -> bool:
    """Tell whether the first part of a token is the number of a bot, in base64."""
    return _decoded(match[0].partition(".")[0]).isdigit()


def _decoded(part: str) -> bytes:
    """Return what a part of a token says in base64; nothing if it is none."""
    from base64 import urlsafe_b64decode

    try:
        return urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:  # one character more than whole bytes need
        return b""


def _is_url_password(match: re.Match[str]) -> bool:
    password = match[1]
    low = password.lower()
    if len(password) < 4 or password.isdigit() or is_made_up(password):
        return False
    if low in NO_PASSWORDS or re.search(r"passw|secret|token", low):
        return False
    # A percent sign may be an escape: %40 is an @.
    return not re.search(r"[<>${}*(\[|\\,]|%(?![0-9A-Fa-f]{2})", password)


def _pem(kind: str, label: str) -> _Shape:
    r"""Return the shape of a key in PEM: its first line, headers and the first line of the key.

    The line breaks of a key in JSON or in a shell are written as ``\n``.
    """
    gap = r"(?:\s|\\n|\\r){1,4}+"
    headers = r"(?:[A-Za-z-]{2,30}: ?[^\n\\]{0,200}(?:\n|\\n)){0,8}(?:\s|\\n){0,4}"
    shape = rf"{label}-----{gap}{headers}(?:>\s?)?([A-Za-z0-9+/=]{{20,80}})"
    return _shape(kind, label, shape, _has_key_body)


# No token goes on behind it.
_END = r"(?![A-Za-z0-9_-])"

# Keys of several lines, in a text that contains this mark.
_KEY_MARK = b"PRIVATE KEY"
_KEYS = (
    _pem("rsa private key", "BEGIN RSA PRIVATE KEY"),
    _pem("ec private key", "BEGIN EC PRIVATE KEY"),
    _pem("dsa private key", "BEGIN DSA PRIVATE KEY"),
    _pem("openssh private key", "BEGIN OPENSSH PRIVATE KEY"),
    _pem("pgp private key", "BEGIN PGP PRIVATE KEY BLOCK"),
    _pem("private key", "BEGIN PRIVATE KEY"),
    _pem("private key", "BEGIN ENCRYPTED PRIVATE KEY"),
    _shape(
        "gcp service account",
        '"service_account"',
        r"\"service_account\"[^{}]{0,400}?\"private_key\"\s{0,4}:\s{0,4}\"-----BEGIN PRIVATE KEY"
        r"-----\\n([A-Za-z0-9+/=]{20,80})",
        _has_key_body,
    ),
)
# What may contain a slash, anywhere in a text.
_WITH_SLASHES = (
    _shape("azure storage key", "AccountKey=", r"AccountKey=[A-Za-z0-9+/]{86}=="),
    _shape("azure sas token", "sig=", r"sig=(?<=[?&;]sig=)[A-Za-z0-9%/+]{43,90}(?:%3D|%3d|=)"),
)
# Addresses that let anybody post, after a scheme.
_WEBHOOKS = (
    _shape(
        "slack webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{36,200}",
    ),
    _shape("discord webhook", "/api/webhooks/", r"/api/webhooks/\d{17,20}/[A-Za-z0-9_-]{60,80}"),
)
# Tokens, each in one long word.
_TOKENS = (
    _shape("age secret key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    _shape(
        "aws access key",
        "AKIA|ASIA",
        r"A[KS]IA(?<![A-Za-z0-9/+]A...)[A-Z2-7]{16}(?![A-Za-z0-9])",
    ),
    _shape("github token", "ghp_|gho_|ghu_|ghs_|ghr_", rf"gh._[A-Za-z0-9]{{36,251}}{_END}"),
    _shape("github token", "github_pat_", r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{40,80}"),
    _shape(
        "gitlab token",
        "glpat-|gldt-|glrt-",
        r"gl[a-z]{2,3}-[A-Za-z0-9_.-]{20,300}",
    ),
    _shape("slack token", "xox", r"xox[abeoprs]-[0-9A-Za-z-]{16,300}"),
    _shape("slack token", "xapp-", r"xapp-\d-[A-Z0-9]{8,20}-\d{8,20}-[0-9a-f]{32,80}"),
    _shape(
        "stripe key",
        "k_live_|k_test_",
        r"k_(?:live|test)_(?<=[sr]k_...._)[A-Za-z0-9]{16,250}",
        lead="[sr]",
    ),
    _shape("stripe webhook secret", "whsec_", r"whsec_[A-Za-z0-9+=]{24,100}"),
    _shape("google api key", "AIza", rf"AIza[0-9A-Za-z_-]{{35}}{_END}"),
    _shape("google oauth secret", "GOCSPX-", r"GOCSPX-[0-9A-Za-z_-]{28}"),
    _shape("google oauth token", "ya29.", r"ya29\.[0-9A-Za-z_-]{30,500}"),
    _shape(
        "azure client secret",
        "8Q~|7Q~",
        r"[78]Q~[A-Za-z0-9_~.-]{31,34}",
        lead="[A-Za-z0-9_~.-]{0,3}",
    ),
    _shape("anthropic key", "sk-ant-", r"sk-ant-[a-z0-9]{3,10}-[A-Za-z0-9_-]{24,200}"),
    _shape(
        "openai key",
        "sk-proj-|sk-svcacct-|sk-admin-",
        r"sk-[a-z]{4,7}-[A-Za-z0-9_-]{24,250}",
    ),
    _shape(
        "openai key",
        "T3BlbkFJ",
        r"T3BlbkFJ[A-Za-z0-9_-]{20,120}",
        lead="sk-[A-Za-z0-9_-]{1,120}",
    ),
    _shape("npm token", "npm_", rf"npm_[A-Za-z0-9]{{36}}{_END}"),
    _shape("pypi token", "pypi-AgE", r"pypi-AgE[A-Za-z0-9_-]{50,300}"),
    _shape("docker token", "dckr_", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,60}"),
    _shape(
        "json web token",
        "eyJ",
        r"(eyJ(?:(?<![A-Za-z0-9_-]eyJ)|(?<=\nneyJ))[A-Za-z0-9_-]{10,600}+)"
        r"\.eyJ[A-Za-z0-9_-]{8,4000}+\.[A-Za-z0-9_-]{20,800}",
        _is_jwt,
    ),
    _shape(
        "telegram bot token",
        ":AA",
        rf":AA(?<=\d{{8}}:AA)[A-Za-z0-9_-]{{33}}{_END}",
        lead=r"\d{8,12}",
    ),
    _shape(
        "discord bot token",
        ".",
        r"[MNO][DTjz](?<![A-Za-z0-9_-]..)[A-Za-z0-9_-]{22,26}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,45}",
        _is_of_discord,
        anywhere=True,
    ),
    _shape("sendgrid key", "SG.", r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    _shape("twilio key", "SK", r"SK(?<![A-Za-z0-9_]SK)[0-9a-f]{32}(?![A-Za-z0-9])"),
    _shape("hugging face token", "hf_", rf"hf_(?<![A-Za-z0-9]hf_)[A-Za-z0-9]{{34,40}}{_END}"),
    _shape("digitalocean token", "_v1_", r"_v1_(?<=do[opr]_v1_)[0-9a-f]{64}", lead="do."),
    _shape("shopify token", "shpat_|shpca_|shppa_|shpss_", r"shp.._[0-9a-fA-F]{32}"),
    _shape("databricks token", "dapi", r"dapi(?<![A-Za-z0-9]dapi)[0-9a-f]{32}(?![0-9A-Za-z])"),
    _shape("grafana token", "glsa_", r"glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"),
    _shape("vault token", "hvs.", r"hvs\.[A-Za-z0-9_-]{24,200}"),
    _shape("linear key", "lin_api_", r"lin_api_[A-Za-z0-9]{32,60}"),
    _shape("groq key", "gsk_", r"gsk_[A-Za-z0-9]{48,60}"),
    _shape("tailscale key", "tskey-", r"tskey-[a-z]{3,6}-[A-Za-z0-9]{8,30}-[A-Za-z0-9]{20,60}"),
)

_DATABASES = pattern(
    r"(?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|sqlserver|oracle|clickhouse|"
    r"cockroachdb|cassandra|neo4j|bolt)(?:\+\w{1,20})?$",
    re.I,
)
_SCHEME = pattern(r"[a-zA-Z][a-zA-Z0-9+.:-]{1,30}$")
# user:password@host, after the scheme.
_IN_URL = pattern(r"://[^\s:/?#@\"'<>]{0,80}:([^\s/?#@\"'<>`]{1,200})@[A-Za-z0-9\[]")

# The kinds of what has no shape of its own: by its place, else by the name of its value.
_PASSWORD, _IN_NETRC, _OF_DATABASE, _OF_URL, _OTHER = (
    *("password", "netrc password", "database password", "password in a url", "login"),
)
_NAMED_KINDS = (("key", "api key"), ("token", "token"), ("secret", "secret"))
# All of them, as answers name them.
SECRET_KINDS = frozenset(
    {
        *(shape.kind for shape in (*_KEYS, *_WITH_SLASHES, *_WEBHOOKS, *_TOKENS)),
        *(kind for _, kind in _NAMED_KINDS),
        *(_PASSWORD, _IN_NETRC, _OF_DATABASE, _OF_URL, _OTHER),
    }
)
LONGEST_LEAD = 128  # characters
# Bytes. Every token has a run of at least so many letters, digits, _ - and ~.
LONG_RUN = 20
_LONG = b"x" * LONG_RUN
_SPACE = b" "
_IN_RUNS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-~"
_RUNS = bytes(ord("x") if char in _IN_RUNS else ord(_SPACE) for char in range(256))
_NOT_IN_WORDS = b" \t\n\r\v\f<>\"'`,;()[]{}|\\*/"  # what no token contains
_WORDS_OF = bytes(ord(_SPACE) if char in _NOT_IN_WORDS else ord("x") for char in range(256))
_REST_OF_WORD = pattern(rb"[^" + re.escape(_NOT_IN_WORDS) + rb"]+")
# Every token has a digit or a capital letter.
_IN_NAMES = b"abcdefghijklmnopqrstuvwxyz_-~."
# Bytes before the long run that may belong to a token: the number of a bot, a short first part.
MOST_BEFORE = 80


# What nobody sees: controls but blanks, and what Unicode made to be invisible.
_UNSEEN = (
    "\\x00-\\x08\\x0e-\\x1f\\x7f-\\x84\\x86-\\x9f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f"
    "\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb"
    "\\U000e0000-\\U000e001f\\U000e007f-\\U000e0fff"
)
_CONTROLS = bytes([*range(9), *range(0x0E, 0x20), 0x7F])
# A second ASCII that nobody sees, and a model reads.
_FIRST_TAG = 0xE0000
_TAGS = {chr(_FIRST_TAG + code): chr(code) for code in range(0x20, 0x7F)}
_HIDING = pattern(f"[{_UNSEEN}{min(_TAGS)}-{max(_TAGS)}]+")


def as_shown(text: str) -> str:
    r"""Return a text as it is read: without what nobody sees, and with hidden letters shown.

    >>> as_shown("one\u200bword"), as_shown("\U000e0069\U000e0067")
    ('oneword', 'ig')
    """
    if text.isascii():  # which a table does in a third of the time
        left = text.encode().translate(None, _CONTROLS)
        return text if len(left) == len(text) else left.decode()
    if not _HIDING().search(text):
        return text
    return _HIDING().sub(lambda run: "".join(_TAGS.get(sign, "") for sign in run[0]), text)


def spread(value: str) -> re.Pattern[str]:
    """Return what finds a value in a text of which `as_shown` shows it."""
    tags = {letter: tag for tag, letter in _TAGS.items()}
    letters = (re.escape(sign + tags.get(sign, sign)) for sign in value)
    return re.compile(f"[{_UNSEEN}]*+".join(f"[{pair}]" for pair in letters))


def secret_kinds(text: str) -> tuple[str, ...]:
    """Return the kinds of secrets that a text holds, each once; empty for none.

    >>> secret_kinds("SSH password: `hunter2-otter-lagoon`"), secret_kinds("password: <password>")
    (('password',), ())
    """
    kinds = _kinds(text)
    shown = as_shown(text)
    if shown is not text:  # whoever copies it takes the rest out
        kinds += _kinds(shown)
    return tuple(dict.fromkeys(kinds)) if kinds else ()


def secret_values(text: str) -> Iterator[str]:
    """Yield what has to go from a text, so that nobody can sign in with the rest.

    For the writer who takes it out; a place that only its surroundings tell may be missing.
    """
    yield from _values(text)
    shown = as_shown(text)
    if shown is not text:
        yield from _values(shown)


def _values(text: str) -> Iterator[str]:
    data = text.encode("utf-8", "replace")
    low = data.lower()
    for shape in (*_KEYS, *_WITH_SLASHES, *_WEBHOOKS, *_TOKENS):
        for mark in shape.marks:
            if mark in text:
                matches = filter(shape.check, _matches(shape, mark, text))
                yield from (_led(shape, match) + match[0] for match in matches)
    yield from (match[1] for match in _IN_URL().finditer(text) if _is_url_password(match))
    for name in (b"key", *TOKEN_NAMES):
        yield from (row.value for row in assigned(name, low, data) if is_token(row))
    for name in (*PASSWORD_NAMES, *names_abroad(low)):
        rows = [*assigned(name, low, data), *in_tables(name, low, data)]
        yield from (row.value for row in rows if is_password(row))
    yield from (row.value for row in in_commands(low, data) if is_password(row))


def _led(shape: _Shape, match: re.Match[str]) -> str:
    """Return what of a secret stands before its match."""
    start = match.start()
    lead = shape.lead().search(match.string[max(0, start - LONGEST_LEAD) : start])
    return lead[0] if lead else ""


def document_secrets(document: Document) -> tuple[str, ...]:
    """Return the kinds of secrets in the text, the names and the other fields of a document."""
    fields = [document.text]
    fields += filter(None, (document.title, document.key, document.summary, document.topic))
    fields += document.tags
    fields += [f"{name}: {value}" for name, value in document.metadata.items()]
    fields += filter(None, (document.type, document.session, document.role))
    return secret_kinds("\n".join(fields))


def refuse_secrets(kinds: Sequence[str]) -> None:
    """Refuse a text that holds secrets of these kinds; the error names no value.

    Raises:
        UsageError: There are any; the code is "holds_secret".
    """
    if kinds:
        listed = ", ".join(kinds)
        raise UsageError(
            f"Not stored: the text holds a secret ({listed}).",
            code="holds_secret",
            subject=listed,
            advice=advise("insist_on_secret"),
        )


def _kinds(text: str) -> list[str]:
    # A list: of a short text, a generator for each kind would take as long as the search.
    kinds: list[str] = []
    # Bytes have a table to translate by, and as many bytes in lower case.
    data = text.encode("utf-8", "replace")
    low = data.lower()
    if b"key" in low:
        kinds += _kinds_of_keys(text, data, low)
    if b"=" in data:
        kinds += _shaped(_WITH_SLASHES, text)
    if b"://" in data:
        kinds += _kinds_in_urls(text)
    words = _long_words(data)
    if words:
        kinds += _shaped(_TOKENS, words)
    for name in TOKEN_NAMES:
        if name in low:
            kinds += _first(_token_kind, assigned(name, low, data))
    for name in (*[name for name in PASSWORD_NAMES if name in low], *names_abroad(low)):
        kinds += _kinds_of_passwords(name, low, data)
    if runs_commands(low, data):
        kinds += _first(_password_kind, in_commands(low, data))
    return kinds


def _kinds_of_keys(text: str, data: bytes, low: bytes) -> Iterator[str]:
    if _KEY_MARK in data:
        yield from _shaped(_KEYS, text)
    yield from _first(_token_kind, assigned(b"key", low, data))


def _kinds_of_passwords(name: bytes, low: bytes, data: bytes) -> Iterator[str]:
    yield from _first(_password_kind, assigned(name, low, data))
    if b"|" in data and b"---" in data:
        yield from _first(_password_kind, in_tables(name, low, data))
    if b"machine" in low and any(map(is_netrc, NETRC().finditer(data))):
        yield _IN_NETRC


def _first(kind_of: Callable[[Assigned], str], rows: Iterator[Assigned]) -> Iterator[str]:
    """Yield the kind of the first value that is a secret, if there is any."""
    return islice(filter(None, map(kind_of, rows)), 1)


def _long_words(data: bytes) -> str:
    r"""Return the words with a run that is long enough for a token, each after a line break.

    A backslash ends a word too: the n of a ``\n`` may then precede a token.
    """
    runs = data.translate(_RUNS)
    words = [b""]
    start = runs.find(_LONG)
    while start >= 0:
        rest = _REST_OF_WORD().match(data, start)
        assert rest is not None
        if rest[0].translate(None, _IN_NAMES):  # no line of dashes, no name_in_a_program
            before = data[max(0, start - MOST_BEFORE) : start]
            words.append(before[before.translate(_WORDS_OF).rfind(_SPACE) + 1 :] + rest[0])
        start = runs.find(_LONG, rest.end())
    return b"\n".join(words).decode("utf-8", "replace") if len(words) > 1 else ""


def _shaped(shapes: Sequence[_Shape], text: str) -> Iterator[str]:
    for shape in shapes:
        for mark in shape.marks:
            if mark in text and any(map(shape.check, _matches(shape, mark, text))):
                yield shape.kind
                break


def _matches(shape: _Shape, mark: str, text: str) -> Iterator[re.Match[str]]:
    if shape.anywhere:
        yield from shape.shape().finditer(text)
        return
    place = text.find(mark)
    while place >= 0:
        match = shape.shape().match(text, place)
        if match is not None:
            yield match
        place = text.find(mark, place + len(mark))


def _kinds_in_urls(text: str) -> Iterator[str]:
    yield from _shaped(_WEBHOOKS, text)
    for match in _IN_URL().finditer(text):
        before = _SCHEME().search(text, max(0, match.start() - 32), match.start())
        if before is not None and _is_url_password(match):
            is_database = _DATABASES().search(before[0]) is not None
            yield _OF_DATABASE if is_database else _OF_URL


def _password_kind(row: Assigned) -> str:
    return _PASSWORD if is_password(row) else ""


def _token_kind(row: Assigned) -> str:
    if not is_token(row) or any(_shaped(_TOKENS, row.value)):
        return ""  # a token of a known shape has been named already
    return next((kind for part, kind in _NAMED_KINDS if part in row.name), _OTHER)
