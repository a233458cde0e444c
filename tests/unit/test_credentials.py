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
from plait.facts.masking import MASK, masked
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
        "curl -u admin:Zx81Spectrum localhost:8080/api",
        "sshpass -p Zx81Spectrum ssh deploy@host",
        "sshpass -v -p 'Zx81Spectrum' scp a host:b",
        "RUN sshpass -pZx81Spectrum rsync a b",
        "docker login -u ci -p Zx81Spectrum registry.host",
        "docker login --username ci --password Zx81Spectrum",
        "podman login -p=Zx81Spectrum quay.io",
        "mysql -u root -pZx81Spectrum shop",
        "mysqldump --all-databases -h db -p'Zx81Spectrum' > all.sql",
        "mariadb-dump -pZx81Spectrum shop",
        "mongosh -u root -p Zx81Spectrum",
        "redis-cli -h cache -a Zx81Spectrum ping",
        "redis-cli --pass Zx81Spectrum ping",
        "mysql -uroot -ptbrEZymlKx",
        "mysqladmin -u root --password=tbrEZymlKx ping",
        "mysql --user=root --password Zx81Spectrum",
        "sshpass -p tbrEZymlKx ssh deploy@host",
        "psql --password Zx81Spectrum",
        "backup.sh --passwd 'Zx81Spectrum' --all",
        "ENV DB_PASSWORD Zx81Spectrum",
        "login ann, password Zx81Spectrum",
        "**password** Zx81Spectrum",
        "login ann, password `Zx81Spectrum`, port 22",
        "ann / passwort Zx81Spectrum, dann 22",
        "mot de passe Zx81Spectrum",
        "senha Zx81Spectrum",
        "пароль Zx81Spectrum",
        "密码Zx81Spectrum",
        "비밀번호는 Zx81Spectrum",
        "pw: Q4yl0bv12h",
        "PW=Q4yl0bv12h",
        "wifi pw is Q4yl0bv12h",
        "db_pw: Q4yl0bv12h",
        "ann, pwd: Q4yl0bv12h",
        "| host | pw |\n|---|---|\n| two | Zx81Spectrum |",
        "| host | password |\n|---|---|\n| one | - |\n| two | Zx81Spectrum |",
        "host | Passwort\n:--- | ---:\ntwo | `maple-otter-lagoon`",
        "| пароль | host |\r\n| --- | --- |\r\n| Zx81Spectrum | two |",
    ],
)
def test_passwords_are_recognised_in_other_places(text):
    assert secret_kinds(text) == ("password",)
    assert not any(value in masked(text)[0] for value in ("Spectrum", "Q4yl0bv12h", "tbrEZymlKx"))


@pytest.mark.parametrize(
    "name",
    [
        *("das Passwort ist", "Mein Passwort lautet", "Das Passwort für den Router ist"),
        *("la contraseña es", "le mot de passe est", "le mot de passe du wifi est"),
        *("la password è", "la parola d'ordine è", "a senha é", "a palavra-passe é"),
        *("het wachtwoord is", "lösenordet är", "passordet er", "hasło to", "heslo je"),
        *("мой пароль это", "пароль —", "密码是", "密碼為", "パスワードは"),
    ],
)
def test_a_verb_of_any_language_gives_a_password_its_value(name):
    assert masked(f"{name} Gartenzwerg7") == (f"{name} {MASK}", ("password",))
    assert secret_kinds(f"{name} geheim") == ()
    assert secret_kinds(f"{name} 12") == ()


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
        "mkdir -p build/Zx81Spectrum",
        "cp -a src/Zx81Spectrum Zx82Spectrum",
        "ssh -p 22 deploy@Zx81Spectrum",
        "docker run -p 8080:80 image-Zx81Spectrum",
        "docker login && mkdir -p Zx81Spectrum",
        "docker login --password-stdin registry-Zx81.host",
        "docker login -p $DOCKER_PASS1",
        "docker ps -a Zx81Spectrum",
        "mysql -u root -p Zx81Spectrum",
        "mysql -P 3306 -h Zx81Spectrum",
        "mysql -h host | mkdir -pZx81Spectrum",
        "mysql -p$MYSQL_PASS1 shop",
        "mysqld --port=3306 --pid-file=Zx81Spectrum",
        "mysql -u root -pYourPassword",
        "mysql -u root -pSecret",
        "gcc -lmysqlclient -pthread -pedantic-errors",
        "redis-cli -h Zx81Spectrum -p 6379",
        "curl -u ann:access-key https://host",
        "Arguments to pass to `check_X` and `check_y`.",
        "pass Zx81Spectrum to the emulator",
        "password machine1",
        "password Zx81x",
        "password Zx81Spectrum()",
        "hash the password PBKDF2-SHA1 first",
        "password user_name_2",
        "password ISO-27001",
        "password Report2026.pdf",
        "the password `some-setting-name`",
        "the passwords Zx81Spectrum",
        "tokens: secret Zx81Spectrum",
        "--password $DB_PASS1234",
        "--password your-password1",
        "pwm: Q4yl0bv12h",
        "cpw: Q4yl0bv12h",
        "| pwm |\n|---|\n| Zx81Spectrum |",
        "Das Passwort ist erforderlich",
        "la contraseña es obligatoria",
        "密码8-16位数字和字母组合",
        "redis-cli -a your-password1",
        "grep -a Zx81Spectrum; redis-cli ping",
        "sshpass -f Zx81Spectrum ssh -p 2222 host",
        "sshpass -e ssh -p Zx81Spectrum host",
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


# -- tokens --------------------------------------------------------------------------------------

# A run that fills examples up.
LIVE = "sk_" + "live_"  # in two parts: a scanner of repositories would take it for a key
RUNS = ("ABCDEFGHIJKLMN", "abcdefg", "123456789", "00000000")


@pytest.mark.parametrize("run", RUNS)
def test_a_run_of_the_alphabet_makes_no_example_of_a_random_token(run):
    for text in (
        f"{LIVE}51HqLyjWDarjtT1zdp7dc{run}",
        f"{LIVE}{run}51HqLyjWDarjtT1zdp7dc",
        f"ghp_q7Zt0LmW4xR9cVbN2sKdF6hJ8yTgUe3{run}",
        f"api_key = q7Zt0LmW4xR9cVbN2sKdF6hJ8{run}",
        f"password: q7Zt0LmW4xR9cVbN2sKdF6hJ8{run}",
        f"https://ann:q7Zt0LmW4xR9cVbN2sKdF6hJ8{run}@host/",
    ):
        assert secret_kinds(text) != (), text


@pytest.mark.parametrize(
    "text",
    [
        "sk_live_abcdefghijklmnopqrstuvwxyz",
        "sk_test_1234567890abcdefghijABCDEFGHIJ",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "AIzaSyABCDEFGHIJKLMNOPQRSTUVWXYZ1234567",
        "xoxb-123456789012-1234567890123-abcdefghijklmnopqrstuvwx",
        "sk-proj-abcdefghijklmnop1234567890abcdefghijklmnop",
        "password: Abcdefgh123456789",
    ],
)
def test_what_is_little_more_than_a_run_is_an_example(text):
    assert secret_kinds(text) == ()


WHOLE_TOKENS = [kind for kind in SHAPED if kind.endswith((" token", " key", " secret"))]


@pytest.mark.parametrize("kind", WHOLE_TOKENS)
def test_nothing_of_a_token_is_left_beside_the_mask(kind):
    chance = random.Random(kind)
    for value in (SHAPED[kind](chance) for _ in range(20)):
        if value.isascii() and not set(value) & set(" \n;?"):  # no block, no address
            assert masked(f"KEY={value} end") == (f"KEY={MASK} end", (kind,))


@pytest.mark.parametrize(
    "value",
    [
        "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",
        "q7Z8Q~q7Zt0LmW4xR9cVbN2sKdF6hJ8yTgUe3aPi",
    ],
)
def test_a_token_with_its_mark_in_the_midst_is_masked_whole(value):
    assert masked(f"use {value}, please")[0] == f"use {MASK}, please"


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
    *("sshpass -p ", "docker login ", "mysql -p", "mysql ", "redis-cli -a ", "mongo -p", " -p"),
    *("curl -u a:", "://curl -u ", "|password|\n|---|\n", "|---|\n|password|", "|---\npassword\n"),
    *("pw", "pw: ", "password Aa1", "--password ", "mysql --password=", "пароль Aa1", "密码Aa1"),
    *("passwort ist ", "passwort für ", "parola d'", "senha é ", "password `Aa1", "123456789"),
    *("AccountKey=", "github_pat_", "private_key: ", "Authorization: Bearer ", "key key "),
)
SMALL, FACTOR = 10_000, 8
TRIES = 5


def seconds(text: str) -> float:
    """CPU seconds of one run."""
    start = time.process_time()
    secret_kinds(text)
    return time.process_time() - start


@pytest.mark.unmeasured
@pytest.mark.parametrize("part", PATHOLOGICAL, ids=ascii)
def test_the_time_grows_with_the_length_of_the_text(part):
    small = (part * SMALL)[:SMALL]
    large = small * FACTOR
    secret_kinds(small[:1_000])  # compiles what is needed
    times = [(seconds(small), seconds(large))]
    # Quadratic time would be 64 times as much. Below a millisecond nothing can be said.
    while (
        is_slow := min(b for _, b in times) > max(min(a for a, _ in times), 0.001) * FACTOR * 3
    ) and len(times) < TRIES:  # somebody else may have used the processor: only what repeats counts
        times.append((seconds(small), seconds(large)))
    assert not is_slow, times


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
