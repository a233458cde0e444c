"""Secrets are recognised by their shape; documentation, examples and code are none."""

import base64
import json
import random
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.facts.credentials import SECRET_KINDS, document_secrets, secret_kinds
from plait.types import Document
from tests.interfaces.command import ROOT, environment
from tests.made_up_secrets import NAMED, SHAPED, STAND_INS, made_up_secrets

EACH = 60
LINES = 10_000
# What an assignment is called by its name, where that differs from the kind of the generator.
REPORTED_AS = {"aws secret": "api key"}


def test_at_least_twenty_kinds_are_made_up():
    assert len({*SHAPED, *NAMED}) >= 20


@pytest.mark.parametrize("seed", [1, 2])
def test_recall_is_at_least_95_percent_overall_and_for_every_kind(seed):
    made: Counter[str] = Counter()
    named: Counter[str] = Counter()
    for kind, text in made_up_secrets(EACH, seed):
        made[kind] += 1
        named[kind] += REPORTED_AS.get(kind, kind) in secret_kinds(text)
    assert named.total() / made.total() >= 0.98
    assert {kind: named[kind] for kind in made if named[kind] < 0.95 * EACH} == {}


@pytest.mark.parametrize("text", STAND_INS)
def test_what_only_stands_for_a_secret_is_none(text):
    assert secret_kinds(text) == ()


def documentation_lines() -> list[str]:
    """Lines of the documentation and the code of Python and of what is installed here."""
    library, packages = (Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib"))
    files = [*library.glob("*.py"), *packages.glob("*/*.py"), *packages.glob("*/*.md")]
    chance = random.Random(8)
    lines: list[str] = []
    for path in chance.sample(sorted(files), len(files)):
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        lines += [line for line in text.splitlines() if line.strip()]
        if len(lines) >= LINES:
            break
    return lines[:LINES]


def test_at_most_one_line_of_documentation_in_200_is_flagged():
    lines = documentation_lines()
    if len(lines) < LINES:
        pytest.skip(f"only {len(lines)} lines of documentation are installed")
    flagged = [line for line in lines if secret_kinds(line)]
    assert len(flagged) <= LINES * 0.005, flagged[:5]


def test_our_own_pages_hold_no_secret_but_the_one_of_the_example():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    flagged = {page.name for page in pages if secret_kinds(page.read_text(encoding="utf-8"))}
    assert flagged == {"TOOLS.md"}


@pytest.mark.parametrize(
    "text",
    [
        "SSH password: `hunter2-otter-lagoon`",
        "- GPU server SSH password: `hunter2-otter-lagoon` (keys preferred)",
        "The password for the router is Maple-6154 now.",
        "PASSWORD=hunter2x",
        "wifi passphrase: `maple-otter-lagoon`",
        '{"password": "kX9#v[2q)L!m"}',
        "Passwort: Quartz7135!",
        "İstanbul password: `hunter2-otter`",
    ],
)
def test_passwords_in_notes_are_recognised(text):
    assert secret_kinds(text) == ("password",)


# The words for a password, as people write them before a value.
ABROAD = (
    *("Kennwort", "Kennwort für den Router", "mot de passe ", "Mot de passe du wifi\u00a0"),
    *("contraseña", "Contraseña del wifi", "contrasena", "senha", "Senha do wifi", "parola"),
    *("palavra-passe", "wachtwoord", "heslo", "hasło", "Hasło", "lösenord", "Lösenord", "jelszó"),
    *("şifre", "Şifre", "salasana", "adgangskode", "passord", "lozinka", "mật khẩu", "Mật khẩu"),
    *("пароль", "Пароль от wifi", "ПАРОЛЬ", "парола", "κωδικός", "Κωδικός πρόσβασης"),
    *("密码", "密碼", "パスワード", "비밀번호", "암호", "كلمة المرور", "סיסמה", "पासवर्ड", "รหัสผ่าน"),
)
VALUES = ("Zx81Spectrum", "Quartz7135!", "`maple-otter-lagoon`", '"kX9#v[2q)L!m"', "hunter2x")


@pytest.mark.parametrize("name", ["pass", "DB_PASS", *ABROAD])
def test_the_word_for_a_password_may_be_of_any_language(name):
    for value in VALUES:
        assert secret_kinds(f"Router\n{name}: {value}\n") == ("password",), value
    assert secret_kinds(f"{name}: <password>, {name}: ********") == ()
    assert secret_kinds(f"{name}: 8") == ()


@pytest.mark.parametrize("name", [name for name in ABROAD if not name.isascii()])
def test_words_with_letters_of_their_own_are_seen_in_long_texts_too(name):
    assert secret_kinds(f"{'We meet on Mondays. ' * 500}\n{name}: Zx81Spectrum") == ("password",)


@pytest.mark.parametrize(
    "text",
    [
        "密码：Zx81Spectrum",
        "密码是Zx81Spectrum",
        "パスワードは Zx81Spectrum です",
        "Das Kennwort ist Zx81Spectrum.",
        "pass=Zx81Spectrum",
        "user: ana, pass: Zx81Spectrum",
        '{"pass": "Zx81Spectrum"}',
        "curl -u admin:Zx81Spectrum https://host/api",
        "The root password is: Zx81Spectrum.",
        "password -> Zx81Spectrum",
        "password：Zx81Spectrum",
        "<password>Zx81Spectrum</password>",
        "curl -X POST --user 'admin:Zx81Spectrum' https://host/api",
        "curl -sS https://host/api -u admin:Zx81Spectrum",
        "| host | password |\n|---|---|\n| one | - |\n| two | Zx81Spectrum |",
        "host | Passwort\n:--- | ---:\ntwo | `maple-otter-lagoon`",
        "| пароль | host |\r\n| --- | --- |\r\n| Zx81Spectrum | two |",
    ],
)
def test_passwords_are_recognised_in_other_places(text):
    assert secret_kinds(text) == ("password",)


@pytest.mark.parametrize(
    "text",
    [
        "PASS: TestLogin2",
        "compass: north12a",
        "tests passed: 12ab34",
        "pass-through: abc123x",
        "passenger: ab12cd34",
        "bypass: v1.2.3x",
        "密码：至少8个字符",
        "пароль: не менее 8 символов",
        "Kennwort: mindestens 8 Zeichen",
        "Le mot de passe est requis",
        "curl -u user:password https://host",
        "curl -u $USER:$PASS1 https://host",
        'curl -u "<user>:<pass1>" https://host',
        "| parameter | type |\n|---|---|\n| password | str1ng |",
        "| password | note |\n|---|---|\n| required | Zx81Spectrum |",
        "| password |\n|---|\n\nNo table: | Zx81Spectrum |",
    ],
)
def test_words_that_only_look_like_a_password_are_none(text):
    assert secret_kinds(text) == ()


def test_a_secret_in_any_field_of_a_document_is_recognised():
    secret = "AKIAZ7Q2M3N4P5R6S7TX"
    fields: dict[str, Any] = {
        "text": f"key {secret}",
        "title": secret,
        "key": secret,
        "summary": f"the key {secret}",
        "topic": secret,
        "type": secret,
        "session": secret,
        "role": secret,
        "tags": ("aws", secret),
        "metadata": {"aws": secret},
    }
    for field, value in fields.items():
        assert document_secrets(Document(**{field: value})) == ("aws access key",), field
    assert document_secrets(Document(metadata={"password": "Quartz7135!"})) == ("password",)
    assert document_secrets(Document(text="We deploy on Fridays")) == ()


def test_a_kind_never_contains_the_value():
    for _, text in made_up_secrets(3):
        for kind in secret_kinds(text):
            assert kind not in text or kind in ("password", "private key", "secret", "token")
            assert not any(char.isdigit() for char in kind)


# -- the time it takes ---------------------------------------------------------------------------

# What a scanner might read again and again.
PATHOLOGICAL = (
    *("password", "password=", "password: `", "password for ", "token:", "secret is ", "api_key="),
    *(
        "eyJ",
        "eyJ.eyJ.",
        "://",
        "://a:",
        "://:@",
        "a://b:c",
        "machine a login b ",
        "MDM",
        "MD.aaaaaa.",
    ),
    *("-----BEGIN RSA PRIVATE KEY-----\n", "BEGIN RSA PRIVATE KEY-----\na: b\n", "PRIVATE KEY"),
    *('"service_account"', "AKIA", "ghp_", "xox", "xoxb-", "sig=", "&sig=", "SK", ":AA", "1:AA"),
    *("a", "A1", ".", "=", "\\n", " ", "\n", "é", "_v1_", "sk-proj-", "hooks.slack.com/services/"),
    *("пароль", "пароль: ", "密码是", "kennwort ", "mot de passe ", "pass: ", "passe", "curl "),
    *("curl -u a:", "://curl -u ", "|password|\n|---|\n", "|---|\n|password|", "|---\npassword\n"),
    *("AccountKey=", "github_pat_", "private_key: ", "Authorization: Bearer ", "key key "),
)
SMALL, FACTOR = 20_000, 8


def seconds(text: str) -> float:
    """CPU seconds of the best of three runs."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        secret_kinds(text)
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("part", PATHOLOGICAL, ids=ascii)
def test_the_time_grows_with_the_length_of_the_text(part):
    small = (part * SMALL)[:SMALL]
    # Quadratic time would be 64 times as much. Below a millisecond nothing can be said.
    assert seconds(small * FACTOR) <= max(seconds(small), 0.001) * FACTOR * 3


def test_an_expression_is_compiled_only_for_a_text_that_needs_it():
    act = (
        "import json, re, sys\n"
        "import plait.types, plait.errors\n"
        "sources, usual = [], re.compile\n"
        "def compile(source, flags=0):\n"
        "    sources.append(source)\n"
        "    return usual(source, flags)\n"
        "re.compile = compile\n"
        "from plait.facts.credentials import secret_kinds\n"
        "for text in json.loads(sys.argv[1]):\n"
        "    kinds = secret_kinds(text)\n"
        "    print(len(sources), *kinds)\n"
    )
    token = next(text for kind, text in made_up_secrets(1, 1) if kind == "github token")
    texts = ["We meet on Mondays.", token, token, "BEGIN PRIVATE KEY, they say"]
    done = subprocess.run(
        [sys.executable, "-c", act, json.dumps(texts)],
        capture_output=True,
        encoding="utf-8",
        env=environment(),
        check=True,
    )
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    assert [kinds for _, _, kinds in lines] == ["", "github token", "github token", ""]
    plain, first, second, last = (int(count) for count, _, _ in lines)
    assert plain == 0
    assert 0 < first == second < last < 20


# -- what only looks like a secret ---------------------------------------------------------------


@pytest.mark.parametrize("length", range(20, 33))
def test_the_first_part_of_a_bots_token_may_have_any_length(length):
    digits = base64.urlsafe_b64encode(b"1" * 24).decode()  # the number of a bot, in base64
    for head in (digits[:length], "MT" + "z" * (length - 2), "MT" + "_" * (length - 2)):
        kinds = secret_kinds(f"{head}.{'Ab3_x-'}.{'Zq7-' * 8}")
        assert kinds in ((), ("discord bot token",))
        assert kinds == () or length in range(24, 29)


def spoiled(value: str) -> Iterator[str]:
    """Yield a text cut off, and with a character more or less, at each of its first places."""
    for place in range(min(len(value), 200)):
        yield value[:place]
        yield value[:place] + value[place + 1 :]
        for char in "A=.\u5bc6":
            yield value[:place] + char + value[place:]


@pytest.mark.parametrize("kind", [*SHAPED, *NAMED])
def test_a_spoiled_secret_is_a_secret_or_none(kind):
    value = {**SHAPED, **NAMED}[kind](random.Random(kind))
    for text in spoiled(value):
        assert set(secret_kinds(text)) <= SECRET_KINDS


PARTS = st.sampled_from([*(secret for _, secret in made_up_secrets(1)), *PATHOLOGICAL])
CUTS = st.builds(lambda part, start, end: part[start:end], PARTS, *[st.integers(-80, 80)] * 2)


@given(text=st.lists(st.one_of(CUTS, st.text(max_size=20)), max_size=8).map("".join))
def test_no_text_stops_the_search_for_secrets(text):
    assert set(secret_kinds(text)) <= SECRET_KINDS
