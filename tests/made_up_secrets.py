"""Made-up secrets in the shapes that vendors publish, and the texts that people write them in.

Every value is drawn from a seeded generator: none of them was ever valid anywhere.
"""

import base64
import json
import random
import string
from collections.abc import Callable, Iterator

LETTERS_DIGITS = string.ascii_letters + string.digits
URL_SAFE = LETTERS_DIGITS + "_-"
BASE64 = LETTERS_DIGITS + "+/"
HEX = "0123456789abcdef"
WORDS = ("otter", "lagoon", "heron", "maple", "cobalt", "ember", "quartz", "willow", "falcon")

Maker = Callable[[random.Random], str]


def _of(chance: random.Random, alphabet: str, length: int) -> str:
    return "".join(chance.choices(alphabet, k=length))


def _token(prefix: str, alphabet: str, length: int) -> Maker:
    return lambda chance: prefix + _of(chance, alphabet, length)


def _pem(label: str) -> Maker:
    def make(chance: random.Random) -> str:
        lines = [_of(chance, BASE64, 64) for _ in range(chance.randrange(3, 20))]
        return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----"])

    return make


def _pgp(chance: random.Random) -> str:
    body = "\n".join(_of(chance, BASE64, 64) for _ in range(8))
    label = "PGP PRIVATE KEY BLOCK"
    return f"-----BEGIN {label}-----\nVersion: GnuPG v2\n\n{body}\n-----END {label}-----"


def _service_account(chance: random.Random) -> str:
    key = "-----BEGIN PRIVATE KEY-----\n" + _of(chance, BASE64, 64) + "\n" + _of(chance, BASE64, 64)
    return json.dumps(
        {
            "type": "service_account",
            "project_id": "harbour-1234",
            "private_key_id": _of(chance, HEX, 40),
            "private_key": key + "\n-----END PRIVATE KEY-----\n",
            "client_email": "robot@harbour-1234.iam.gserviceaccount.com",
        },
        indent=2,
    )


def _jwt(chance: random.Random) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    head = {"alg": chance.choice(["HS256", "RS256", "ES256"]), "typ": "JWT"}
    body = {"sub": str(chance.randrange(10**9)), "exp": chance.randrange(2 * 10**9)}
    return f"{part(head)}.{part(body)}.{_of(chance, URL_SAFE, 43)}"


def _discord(chance: random.Random) -> str:
    number = str(chance.randrange(10**17, 10**18))
    head = base64.urlsafe_b64encode(number.encode()).decode().rstrip("=")
    return f"{head}.{_of(chance, URL_SAFE, 6)}.{_of(chance, URL_SAFE, 38)}"


def _telegram(chance: random.Random) -> str:
    return f"{chance.randrange(10**9, 10**10)}:AA{_of(chance, URL_SAFE, 33)}"


def _sas(chance: random.Random) -> str:
    raw = base64.b64encode(chance.randbytes(32)).decode()
    signature = raw.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
    day = f"2027-0{chance.randrange(1, 10)}-01"
    place = "https://otters.blob.core.windows.net/notes"
    return f"{place}?sv=2024-11-04&ss=b&srt=sco&sp=rl&se={day}&sig={signature}"


def _password(chance: random.Random) -> str:
    """A password as people choose it, or as a password manager does."""
    style = chance.randrange(3)
    if style == 0:
        words = chance.sample(WORDS, 2)
        return f"{words[0]}{chance.randrange(1, 1000)}-{words[1]}"
    if style == 1:
        return (
            f"{chance.choice(WORDS).title()}{chance.randrange(10, 10_000)}{chance.choice('!#%+')}"
        )
    some = _of(chance, LETTERS_DIGITS, chance.randrange(11, 20)) + chance.choice(string.digits)
    return some + chance.choice("!#%+=^") + chance.choice(string.ascii_letters)


def _url(*schemes: str) -> Maker:
    def make(chance: random.Random) -> str:
        password = _of(chance, LETTERS_DIGITS, chance.randrange(8, 24))
        host = f"{chance.choice(WORDS)}.internal"
        return f"{chance.choice(schemes)}://{chance.choice(WORDS)}:{password}@{host}:5432/app"

    return make


def _netrc(chance: random.Random) -> str:
    gap = chance.choice(["\n  ", " ", "\n"])
    password = _of(chance, LETTERS_DIGITS, 14)
    return gap.join(
        ["machine git.internal", f"login {chance.choice(WORDS)}", f"password {password}"]
    )


# What assigns a value to a name: environment files, YAML, JSON, code, prose, Markdown.
ASSIGNMENTS = (
    "{upper}={value}",
    'export {upper}="{value}"',
    "{lower}: {value}",
    "{lower} = '{value}'",
    '  "{lower}": "{value}",',
    "The {spaced} is `{value}`.",
    "- {spaced}: `{value}` (rotate it in May)",
    "**{spaced}:** {value}",
    "--{dashed}={value}",
)


def _assigned(names: tuple[str, ...], value: Maker) -> Maker:
    def make(chance: random.Random) -> str:
        name = chance.choice(names)
        return chance.choice(ASSIGNMENTS).format(
            value=value(chance),
            lower=name,
            upper=name.upper(),
            spaced=name.replace("_", " "),
            dashed=name.replace("_", "-"),
        )

    return make


# kind: how to make one. A shape that is recognised by its own form is put into any sentence.
SHAPED: dict[str, Maker] = {
    "rsa private key": _pem("RSA PRIVATE KEY"),
    "ec private key": _pem("EC PRIVATE KEY"),
    "openssh private key": _pem("OPENSSH PRIVATE KEY"),
    "private key": _pem("PRIVATE KEY"),
    "pgp private key": _pgp,
    "age secret key": _token("AGE-SECRET-KEY-1", string.ascii_uppercase + string.digits, 58),
    "aws access key": _token("AKIA", string.ascii_uppercase + "234567", 16),
    "github token": lambda chance: chance.choice(
        [
            f"{chance.choice(['ghp', 'gho', 'ghs', 'ghu'])}_{_of(chance, LETTERS_DIGITS, 36)}",
            f"github_pat_{_of(chance, LETTERS_DIGITS, 22)}_{_of(chance, LETTERS_DIGITS, 59)}",
        ]
    ),
    "gitlab token": _token("glpat-", URL_SAFE, 20),
    "slack token": lambda chance: (
        f"xox{chance.choice('bp')}-{chance.randrange(10**11, 10**12)}-"
        f"{chance.randrange(10**11, 10**12)}-{_of(chance, LETTERS_DIGITS, 24)}"
    ),
    "slack webhook": lambda chance: (
        f"https://hooks.slack.com/services/T{_of(chance, string.ascii_uppercase, 8)}/"
        f"B{_of(chance, string.ascii_uppercase, 8)}/{_of(chance, LETTERS_DIGITS, 24)}"
    ),
    "stripe key": lambda chance: (
        f"{chance.choice(['sk', 'rk'])}_{chance.choice(['live', 'test'])}_"
        f"{_of(chance, LETTERS_DIGITS, 24)}"
    ),
    "google api key": _token("AIza", URL_SAFE, 35),
    "gcp service account": _service_account,
    "azure storage key": lambda chance: (
        "DefaultEndpointsProtocol=https;AccountName=otters;AccountKey="
        f"{base64.b64encode(chance.randbytes(64)).decode()};EndpointSuffix=core.windows.net"
    ),
    "azure sas token": _sas,
    "openai key": _token("sk-proj-", URL_SAFE, 64),
    "anthropic key": _token("sk-ant-api03-", URL_SAFE, 93),
    "npm token": _token("npm_", LETTERS_DIGITS, 36),
    "pypi token": _token("pypi-AgEIcHlwaS5vcmc", URL_SAFE, 120),
    "docker token": _token("dckr_pat_", URL_SAFE, 27),
    "json web token": _jwt,
    "telegram bot token": _telegram,
    "discord bot token": _discord,
    "discord webhook": lambda chance: (
        f"https://discord.com/api/webhooks/{chance.randrange(10**17, 10**18)}/"
        f"{_of(chance, URL_SAFE, 68)}"
    ),
    "sendgrid key": lambda chance: f"SG.{_of(chance, URL_SAFE, 22)}.{_of(chance, URL_SAFE, 43)}",
    "twilio key": _token("SK", HEX, 32),
    "hugging face token": _token("hf_", string.ascii_letters, 34),
    "digitalocean token": _token("dop_v1_", HEX, 64),
    "database password": _url("postgres", "postgresql+psycopg", "mysql", "mongodb+srv", "redis"),
    "password in a url": _url("https", "http", "ftp", "git+https"),
    "netrc password": _netrc,
}
NAMED: dict[str, Maker] = {
    "password": _assigned(("password", "db_password", "ssh_password", "smtp_passwd"), _password),
    "api key": _assigned(("api_key", "stripe_api_key"), _token("", LETTERS_DIGITS, 32)),
    "aws secret": _assigned(("aws_secret_access_key",), _token("", BASE64, 40)),
    "secret": _assigned(("client_secret", "jwt_secret"), _token("", URL_SAFE, 40)),
    "token": _assigned(("auth_token", "twilio_auth_token"), _token("", HEX, 32)),
}
CARRIERS = (
    "{value}",
    "The key of the harbour crane is {value}, ask Ana.",
    "export CRANE={value}\nexport LANG=C",
    '{{"crane": "{value}", "port": 8080}}',
    "```\n{value}\n```",
    "curl -H 'X-Crane: {value}' https://crane.internal/v1/lift",
    "crane:\n  key: {value}\n  name: north",
    "| crane | `{value}` | north |",
)


def made_up_secrets(each: int, seed: int = 1) -> Iterator[tuple[str, str]]:
    """Yield this many texts with a secret for each kind, with the name of the kind."""
    for kind, make in (*SHAPED.items(), *NAMED.items()):
        chance = random.Random(f"{seed} {kind}")
        for number in range(each):
            value = make(chance)
            whole = kind in NAMED or "\n" in value
            carrier = "Before.\n\n{value}\n\nAfter." if whole else CARRIERS[number % len(CARRIERS)]
            yield kind, carrier.format(value=value)


# Texts of documentation that look like secrets and are none.
STAND_INS = (
    *(
        "password: <password>",
        "password=${DB_PASSWORD}",
        "PASSWORD=$PASSWORD",
        "password: ********",
    ),
    *("api_key = YOUR_API_KEY", "api_key: your-api-key-here", "token: xxxxxxxxxxxxxxxxxxxx"),
    *("secret: {{ vault.secret }}", "AKIAIOSFODNN7EXAMPLE", "password = os.environ['PASSWORD']"),
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "postgres://user:password@localhost:5432/db",
    "postgresql://${USER}:${PASSWORD}@db.internal/app",
    "https://<user>:<token>@github.com/org/repo.git",
    "mysql://user:%s@host/db",
    "sk_test_xxxxxxxxxxxxxxxxxxxxxxxx",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "sk-proj-XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX",
    "-----BEGIN RSA PRIVATE KEY-----\n...\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEbWx8Nq0q3d8Q6Yh2\n",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGq3Zb8f0v7mS2kqk1dXyN9 ana@laptop",
    "The password is stored in the vault.",
    "password: required, at least 12 characters",
    "def login(user: str, password: str) -> Token: ...",
    "token = tokens[0]",
    "self.password = password",
    "passwd = getpass.getpass('Password: ')",
    "if password == confirm_password:",
    "SECRET_KEY = config('SECRET_KEY')",
    "Set the api key with: plait config set-key openai",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "id: 123e4567-e89b-12d3-a456-426614174000",
    "https://example.com/a/very/long/path/with/AKIA/in/it?sig=short",
    "The token bucket is: 100 requests a minute, the secret of its speed is simplicity.",
    "autocomplete='current-password' name='password'",
    "password: `string`, token: `str | None`",
)
