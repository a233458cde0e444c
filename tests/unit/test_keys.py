"""Keys: where they come from, that each stays with its address, and that none is ever shown."""

import getpass
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backends.null import Keyring as NullKeyring

from plait.cli import main
from plait.errors import Advice, ConfigError, UsageError, advise
from plait.settings import file, keys, loading
from plait.settings.loading import Config
from plait.settings.schema import Settings
from plait.settings.secrets import Secret, Vault
from plait.settings.trust import TrustedFiles, fingerprint
from plait.settings.values import parse_setting
from tests.codes import has_code
from tests.interfaces.command import PATIENCE_S, PLAIT, Ran, environment, spawn
from tests.keyrings import MemoryKeyring

POSIX_ONLY = pytest.mark.skipif(sys.platform == "win32", reason="file modes are a POSIX notion")
CANARY = "sk-canary-5d1e77c0ffee"
OPENAI = ("openai", "https://api.openai.com:443")
CUSTOM = ("custom", "https://models.example:443")
CUSTOM_LINE = 'embedding_provider = "custom:https://models.example/v1#bge"'
NO_KEYRING = {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}


@pytest.fixture(autouse=True)
def null_keyring(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test reaches the keyring or the keys of whoever runs it."""
    keyring.set_keyring(NullKeyring())
    for name in ("OPENAI_API_KEY", "API_KEY"):
        monkeypatch.delenv(name, raising=False)
    yield
    keyring.set_keyring(NullKeyring())


class House:
    """A home folder and a git repository to look for keys in."""

    def __init__(self, folder: Path) -> None:
        self.home, self.repo = folder / "home", folder / "repo"
        self.folder = self.home / ".config" / "plait"
        self.user_file = self.folder / "config.toml"
        self.folder.mkdir(parents=True)
        (self.repo / ".git").mkdir(parents=True)
        self.environ = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / ".config")}

    def user(self, *lines: str, mode: int = 0o600) -> None:
        self.user_file.write_text("\n".join(["[memory]", *lines]), encoding="utf-8")
        self.user_file.chmod(mode)

    def project(self, *lines: str) -> Path:
        path = self.repo / "plait.toml"
        path.write_text("\n".join(["[memory]", *lines]), encoding="utf-8")
        return path

    def load(self, flags: dict[str, object] | None = None, /, **environ: str) -> Config:
        return loading.load(flags, environ={**self.environ, **environ}, cwd=str(self.repo))

    def rows(self, flags: dict[str, object] | None = None, /, **environ: str) -> list[keys.KeyRow]:
        loaded = self.load(flags, **environ)
        assert loaded.keys is not None
        return loaded.keys().rows()


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.setattr(sys, "platform", "linux")
    return House(tmp_path.resolve())


# The order.


@POSIX_ONLY
def test_the_first_place_that_has_a_key_wins(house: House) -> None:
    environ = {"OPENAI_API_KEY": "from-its-variable", "API_KEY": "from-any-variable"}
    Vault(str(house.folder)).put(*OPENAI, Secret("from-the-file"))
    keyring.set_keyring(MemoryKeyring())
    keyring.set_password("plait", " ".join(OPENAI), "from-the-keyring")
    house.user('api_key = "explicit"', 'embedding_provider = "openai"')
    assert house.load(**environ).key_for(*OPENAI) == "explicit"
    assert house.load({"api_key": "by-python"}, **environ).key_for(*OPENAI) == "by-python"
    assert house.load(PLAIT_API_KEY="by-plait", **environ).key_for(*OPENAI) == "by-plait"
    house.user('embedding_provider = "openai"')
    assert house.load(**environ).key_for(*OPENAI) == "from-its-variable"
    assert house.load(API_KEY="from-any-variable").key_for(*OPENAI) == "from-any-variable"
    assert house.load().key_for(*OPENAI) == "from-the-keyring"
    keyring.set_keyring(NullKeyring())
    assert house.load().key_for(*OPENAI) == "from-the-file"
    Vault(str(house.folder)).remove(*OPENAI)
    assert house.load().key_for(*OPENAI) is None


def test_settings_made_by_hand_have_no_keys() -> None:
    assert Config(Settings(db_path=""), {}, (), None, ()).key_for(*OPENAI) is None


# A key stays with its address.


@pytest.mark.parametrize(
    ("provider", "origin"),
    [
        ("openai", "http://api.openai.com:443"),
        ("openai", "http://api.openai.com:80"),
        ("openai", "https://api.openai.com:8443"),
        ("openai", "https://api.openai.com.evil.example:443"),
        ("openai", "https://evil.example:443"),
        ("openai", "https://api.openai.com@evil.example"),
        ("custom", "https://api.openai.com:443"),
        ("custom", "https://evil.example:443"),
        ("ollama", "http://localhost:11434"),
    ],
)
def test_openais_key_goes_to_openai_alone(house: House, provider: str, origin: str) -> None:
    house.user('embedding_provider = "openai"', 'api_key = "explicit"')
    keys.keep_key(str(house.folder), OPENAI, Secret("kept"))
    loaded = house.load(OPENAI_API_KEY=CANARY, API_KEY=CANARY)
    assert loaded.key_for(provider, origin) is None
    assert loaded.key_for("openai", "https://API.openai.com") == "explicit"


@pytest.mark.parametrize(
    ("line", "server"),
    [
        ('embedding_provider = "openai:text-embedding-3-small"', OPENAI),
        (CUSTOM_LINE, CUSTOM),
        (
            'embedding_provider = "custom:http://localhost:8080"',
            ("custom", "http://localhost:8080"),
        ),
        ('embedding_provider = "ollama"', ("ollama", "http://localhost:11434")),
        (
            'ollama_url = "https://gpu.example"\nembedding_provider = "ollama:nomic"',
            ("ollama", "https://gpu.example:443"),
        ),
        ('embedding_provider = "builtin"', None),
        ('embedding_provider = "custom:https://me:word@models.example"', None),
        ("limit = 3", None),
    ],
)
def test_a_key_in_a_file_belongs_to_the_embedder_of_that_file(
    house: House, line: str, server: tuple[str, str] | None
) -> None:
    house.user(line, f'api_key = "{CANARY}"')
    loaded = house.load({"embedding_provider": "custom:https://other.example"})
    everywhere = {OPENAI, CUSTOM, ("custom", "https://other.example:443"), *filter(None, [server])}
    assert {each for each in everywhere if loaded.key_for(*each)} == {*filter(None, [server])}
    assert ("key_unused" in [row.code for row in loaded.warnings]) == (server is None)
    assert CANARY not in str(loaded.warnings)


@pytest.mark.parametrize(
    ("flags", "environ"),
    [
        ({"embedding_provider": "custom:https://models.example/v1"}, {}),
        ({}, {"PLAIT_EMBEDDING_PROVIDER": "custom:https://models.example/v1#x"}),
        ({}, {}),
    ],
)
@pytest.mark.parametrize("variable", ["API_KEY", "PLAIT_API_KEY"])
def test_the_shared_variable_serves_what_the_user_chose(
    house: House, flags: dict[str, object], environ: dict[str, str], variable: str
) -> None:
    if not flags and not environ:
        house.user(CUSTOM_LINE)
    loaded = house.load(flags, **environ, **{variable: CANARY})
    assert loaded.key_for(*CUSTOM) == CANARY
    assert loaded.key_for("custom", "https://models.example:8443") is None
    assert loaded.key_for("custom", "http://models.example:443") is None
    assert loaded.key_for(*OPENAI) is None


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("variable", ["API_KEY", "PLAIT_API_KEY"])
def test_the_shared_variable_never_serves_what_a_repository_chose(
    house: House, variable: str, trusted: bool
) -> None:
    here = ("custom", "http://localhost:8080")
    house.project('embedding_provider = "custom:http://localhost:8080/v1"')
    if trusted:
        trust(house)
    assert house.load(**{variable: CANARY}).key_for(*here) is None
    house.project('embedding_provider = "ollama"', 'ollama_url = "http://localhost:9"')
    if trusted:
        trust(house)
    assert house.load(**{variable: CANARY}).key_for("ollama", "http://localhost:9") is None
    house.user('ollama_url = "http://gpu.example"')
    loaded = house.load(**{variable: CANARY})
    assert loaded.key_for("ollama", "http://localhost:9") is None
    assert loaded.key_for("ollama", "http://gpu.example:80") == CANARY


def trust(house: House) -> None:
    path = house.repo / "plait.toml"
    TrustedFiles(str(house.folder)).add(str(path), fingerprint(path.read_bytes()))


@pytest.mark.parametrize("trusted", [False, True])
def test_a_repository_never_brings_a_key(house: House, trusted: bool) -> None:
    path = house.project(CUSTOM_LINE, f'api_key = "{CANARY}"')
    if trusted:
        trust(house)
    loaded = house.load()
    assert loaded.key_for(*CUSTOM) is None
    assert loaded.settings.api_key is None
    [warning] = loaded.warnings
    assert warning.subject == str(path)
    assert "api_key" in warning.text
    assert CANARY not in f"{warning} {loaded}"


@pytest.mark.parametrize("variable", ["API_KEY", "PLAIT_API_KEY"])
def test_a_trusted_repository_gets_only_a_key_that_was_set_for_its_server(
    house: House, variable: str
) -> None:
    house.project(CUSTOM_LINE)
    trust(house)
    assert house.load().settings.embedding_provider == CUSTOM_LINE.split('"')[1]
    assert house.load(**{variable: CANARY}).key_for(*CUSTOM) is None
    keys.keep_key(str(house.folder), CUSTOM, Secret(CANARY))
    assert house.load().key_for(*CUSTOM) == CANARY


def test_a_kept_key_is_not_used_after_the_address_changed(house: House) -> None:
    keys.keep_key(str(house.folder), CUSTOM, Secret(CANARY))
    house.user(CUSTOM_LINE)
    assert house.load().key_for(*CUSTOM) == CANARY
    house.user('embedding_provider = "custom:https://models.example:8443/v1"')
    assert house.load().key_for("custom", "https://models.example:8443") is None


@pytest.mark.parametrize(
    ("lines", "name", "value"),
    [
        ([CUSTOM_LINE], "embedding_provider", "custom:https://other.example"),
        ([CUSTOM_LINE], "embedding_provider", "custom:http://models.example/v1"),
        ([CUSTOM_LINE], "embedding_provider", "openai"),
        ([CUSTOM_LINE], "embedding_provider", "builtin"),
        ([CUSTOM_LINE], "embedding_provider", None),
        (['embedding_provider = "ollama"'], "ollama_url", "http://gpu.example"),
    ],
)
def test_the_address_beside_a_key_cannot_be_changed_under_it(
    house: House, lines: list[str], name: str, value: str | None
) -> None:
    house.user(*lines, f'api_key = "{CANARY}"')
    before = house.user_file.read_bytes()
    unset = advise("unset", setting="api_key")
    stays = has_code("key_would_move", str(house.user_file), unset)
    with pytest.raises(ConfigError, check=stays) as caught:
        if value is None:
            file.remove_value(str(house.user_file), name)
        else:
            file.write_value(str(house.user_file), name, value)
    assert CANARY not in str(caught.value)
    assert house.user_file.read_bytes() == before
    assert file.remove_value(str(house.user_file), "api_key")
    if value is not None:
        file.write_value(str(house.user_file), name, value)


@pytest.mark.parametrize(
    ("lines", "name", "value"),
    [
        ([CUSTOM_LINE], "limit", "5"),
        ([CUSTOM_LINE], "embedding_provider", "custom:https://models.example/v2#e5"),
        (["limit = 3"], "embedding_provider", "openai"),
    ],
)
def test_other_settings_beside_a_key_can_be_changed(
    house: House, lines: list[str], name: str, value: str
) -> None:
    house.user(*lines, f'api_key = "{CANARY}"')
    file.write_value(str(house.user_file), name, value)
    assert house.load().origins[name] == str(house.user_file)


# Encrypted values and modes.


def sealed_for(house: House, server: tuple[str, str]) -> str:
    vault = Vault(str(house.folder))
    vault.put(*server, Secret(CANARY))
    entry = vault.remove(*server)
    assert entry is not None
    assert entry.sealed is not None
    return entry.sealed


def test_an_encrypted_value_in_a_file_opens_for_its_address(house: House) -> None:
    house.user(CUSTOM_LINE, f'api_key = "{sealed_for(house, CUSTOM)}"', mode=0o644)
    loaded = house.load()
    assert loaded.warnings == ()
    assert loaded.key_for(*CUSTOM) == CANARY


def test_an_encrypted_value_moved_to_another_address_does_not_open(house: House) -> None:
    house.user(CUSTOM_LINE, f'api_key = "{sealed_for(house, OPENAI)}"')
    again = advise("set_server_key", provider="custom", url=CUSTOM[1])
    closed = has_code("key_does_not_open", CUSTOM[1], again)
    with pytest.raises(ConfigError, match=f"in {house.user_file}", check=closed):
        house.load().key_for(*CUSTOM)
    file.write_value(str(house.user_file), "embedding_provider", "openai")
    assert house.load().key_for(*OPENAI) == CANARY


@POSIX_ONLY
@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o644, 0o604])
def test_a_plain_key_in_a_file_that_others_can_read_is_used_with_a_warning(
    house: House, mode: int
) -> None:
    house.user(CUSTOM_LINE, f'api_key = "{CANARY}"', mode=mode)
    loaded = house.load()
    assert loaded.key_for(*CUSTOM) == CANARY
    hide = advise("hide_key", path=str(house.user_file))
    expected = [("key_readable", hide)] if mode & 0o077 else []
    assert [(row.code, row.advice) for row in loaded.warnings] == expected


# What is shown.


def test_loaded_settings_do_not_show_the_key(house: House) -> None:
    house.user(CUSTOM_LINE, f'api_key = "{CANARY}"')
    loaded = house.load(OPENAI_API_KEY=CANARY, API_KEY=CANARY, PLAIT_API_KEY=CANARY)
    assert CANARY not in f"{loaded} {loaded!r} {loaded.settings} {loaded.keys!r}"
    assert loaded.keys is not None
    assert CANARY not in f"{loaded.keys()!r} {loaded.keys().rows()}"


@pytest.mark.parametrize("value", [f"{CANARY} and more", f"{CANARY}\nX: y", [CANARY], "é" + CANARY])
def test_a_bad_key_is_refused_without_being_repeated(value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_setting("api_key", value, "a test")
    assert str(caught.value) == (
        "api_key must be one line of printable ASCII without spaces, "
        "got a value that is not shown (a test)."
    )


@pytest.mark.parametrize(
    "line",
    [
        f"api_key = {CANARY}",
        f'api_key = "{CANARY}',
        f'api_key = "{CANARY}"\napi_key = "{CANARY}"',
        f'api_kye = "{CANARY}"',
        f'openai_api_key = "{CANARY}"',
        f'api_key = ["{CANARY}"]',
        f'[other]\n[memory.api_key]\nvalue = "{CANARY}"',
    ],
)
def test_a_mistake_around_a_key_is_said_without_the_key(house: House, line: str) -> None:
    house.user(line)
    with pytest.raises(ConfigError) as caught:
        house.load()
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "API_KEY"])
def test_a_variable_that_is_no_key_is_named_and_not_shown(house: House, name: str) -> None:
    house.user('embedding_provider = "openai"')
    with pytest.raises(ConfigError, check=has_code("bad_key", name)) as caught:
        house.load(**{name: f"{CANARY} {CANARY}"}).key_for(*OPENAI)
    assert CANARY not in str(caught.value)
    assert house.load(**{name: f"{CANARY}\n"}).key_for(*OPENAI) == CANARY


def test_every_key_is_listed_with_its_address_and_place(house: House) -> None:
    house.user(CUSTOM_LINE, 'api_key = "x"')
    vault = Vault(str(house.folder))
    vault.put(*CUSTOM, Secret("y"))
    vault.put("custom", "https://third.example:443", Secret("z"))
    rows = house.rows(OPENAI_API_KEY=CANARY, API_KEY=CANARY)
    assert rows == [
        (*OPENAI, "environment OPENAI_API_KEY", True),
        (*CUSTOM, str(house.user_file), True),
        (*CUSTOM, "environment API_KEY", False),
        (*CUSTOM, vault.path, False),
        ("custom", "https://third.example:443", vault.path, True),
    ]


def test_keys_in_the_keyring_are_listed_too(house: House) -> None:
    keyring.set_keyring(MemoryKeyring())
    assert keys.keep_key(str(house.folder), CUSTOM, Secret(CANARY)) == "keyring"
    assert house.rows() == [(*CUSTOM, "keyring", True)]
    assert house.load().key_for(*CUSTOM) == CANARY
    assert keys.forget_key(str(house.folder), CUSTOM) == ["keyring"]
    assert house.rows() == []


def test_a_key_that_moves_into_the_keyring_leaves_the_file(house: House) -> None:
    folder = str(house.folder)
    assert keys.keep_key(folder, CUSTOM, Secret("old")) == Vault(folder).path
    keyring.set_keyring(MemoryKeyring())
    assert keys.keep_key(folder, CUSTOM, Secret(CANARY)) == "keyring"
    keyring.set_keyring(NullKeyring())
    assert house.load().key_for(*CUSTOM) is None


@pytest.mark.parametrize(("server", "variable"), [(OPENAI, "OPENAI_API_KEY"), (CUSTOM, "API_KEY")])
def test_without_keyring_and_package_the_way_out_is_said(
    house: House, monkeypatch: pytest.MonkeyPatch, server: tuple[str, str], variable: str
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    advice = advise("install_or_variable", extra="keys", variable=variable)
    missing = has_code("cryptography_missing", "cryptography", advice)
    with pytest.raises(ConfigError, check=missing):
        keys.keep_key(str(house.folder), server, Secret(CANARY))


def test_a_folder_that_cannot_keep_keys_is_said_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "plait").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, check=has_code("cannot_write")):
        keys.keep_key(str(tmp_path / "plait"), CUSTOM, Secret(CANARY))


# Whose key a person means.


@pytest.mark.parametrize(
    ("spec", "url", "provider", "server"),
    [
        ("openai", None, None, OPENAI),
        ("openai:text-embedding-3-large", "https://api.openai.com/v1", None, OPENAI),
        ("custom", "https://models.example/v1", None, CUSTOM),
        ("custom:https://models.example/v1#bge", None, None, CUSTOM),
        ("custom", None, "custom:https://models.example#bge", CUSTOM),
        ("ollama", None, None, ("ollama", "http://gpu.example:80")),
        ("ollama", "https://box.example", None, ("ollama", "https://box.example:443")),
    ],
)
def test_a_server_is_meant_by_name_address_or_setting(
    spec: str, url: str | None, provider: str | None, server: tuple[str, str]
) -> None:
    chosen = Settings(db_path="", embedding_provider=provider, ollama_url="http://gpu.example")
    assert keys.named_server(spec, url, lambda: chosen) == server


@pytest.mark.parametrize(
    ("spec", "url", "code", "advice"),
    [
        ("builtin", None, "no_key_needed", None),
        ("fastembed", None, "no_key_needed", None),
        ("opnai", None, "unknown_provider", advise("did_you_mean", name="openai")),
        (
            CANARY,
            None,
            "unknown_provider",
            advise("choose", choices="ollama, openai, custom, anthropic"),
        ),
        ("custom", None, "no_address", None),
        ("custom", f"https://me:{CANARY}@models.example", "bad_address", None),
        (
            "openai",
            "https://models.example",
            "other_server",
            advise("set_server_key", provider="custom", url=CUSTOM[1]),
        ),
    ],
)
def test_a_server_that_cannot_be_meant_is_refused(
    spec: str, url: str | None, code: str, advice: Advice | None
) -> None:
    with pytest.raises(UsageError, check=has_code(code, advice=advice)) as caught:
        keys.named_server(spec, url, lambda: Settings(db_path="", embedding_provider="openai"))
    assert CANARY not in str(caught.value)


# The command.


class Terminal(io.StringIO):
    """Where a person types."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def plait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)

    def run(*words: str, typed: "str | Terminal" = "") -> Ran:
        stdin = io.StringIO(typed) if isinstance(typed, str) else typed
        monkeypatch.setattr(sys, "stdin", stdin)
        capsys.readouterr()
        code = main(words)
        captured = capsys.readouterr()
        assert CANARY not in captured.out + captured.err
        return Ran(code, captured.out, captured.err)

    return run


def test_a_key_is_set_listed_used_and_removed(plait, home: Path) -> None:
    ran = plait("config", "set-key", "openai", typed=f"{CANARY}\n")
    place = ran.json["kept_in"]
    assert ran.json == {"provider": OPENAI[0], "origin": OPENAI[1], "kept_in": place}
    assert str(home) in place
    assert CANARY.encode() not in Path(place).read_bytes()
    listed = plait("config", "keys").json["keys"]
    assert listed == [{"provider": OPENAI[0], "origin": OPENAI[1], "source": place, "used": True}]
    text = plait("config", "keys", "--format", "text").out
    assert text == f"openai  {OPENAI[1]}  from {place}\n"
    assert loading.load().key_for(*OPENAI) == CANARY
    assert plait("config", "remove-key", "openai").json["removed_from"] == [place]
    assert plait("config", "remove-key", "openai").code == 3
    assert plait("config", "keys").json == {"keys": []}
    assert plait("config", "keys", "--format", "text").out == "No keys are set.\n"


def test_the_command_says_which_place_keeps_the_key(plait) -> None:
    words = ("config", "set-key", "custom", "--url", "https://models.example/v1")
    ran = plait(*words, "--format", "text", typed=CANARY)
    assert ran.out.startswith(f"The key for custom at {CUSTOM[1]} is saved encrypted in ")
    keyring.set_keyring(MemoryKeyring())
    ran = plait(*words, "--format", "text", typed=CANARY)
    assert ran.out.endswith("is saved in the system's keyring.\n")
    ran = plait("config", "remove-key", "custom", "--url", CUSTOM[1], "--format", "text")
    assert ran.out == f"Removed the key for custom at {CUSTOM[1]} from keyring.\n"


def test_a_key_that_another_one_hides_is_said(plait, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    ran = plait("config", "set-key", "openai", typed="other")
    assert ran.code == 0
    assert f"key for {OPENAI[1]} takes precedence: environment OPENAI_API_KEY." in ran.err
    assert "(not used)" in plait("config", "keys", "--format", "text").out


@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("http://models.example", True),
        ("https://models.example", False),
        ("http://localhost:8080", False),
        ("http://127.0.0.1", False),
    ],
)
def test_a_key_for_an_open_line_is_warned_about(plait, url: str, warned: bool) -> None:
    ran = plait("config", "set-key", "custom", "--url", url, typed=CANARY)
    assert ran.code == 0
    assert ("is not encrypted" in ran.err) == warned


@pytest.mark.parametrize(
    ("words", "typed", "message"),
    [
        (["set-key", "openai"], "", "No key was given."),
        (["set-key", "openai"], "\n", "No key was given."),
        (["set-key", "openai"], f"{CANARY}\n{CANARY}\n", "This is not a key"),
        (["set-key", "openai"], f"{CANARY} x", "This is not a key"),
        (["set-key"], CANARY, "Name a provider."),
        (["remove-key"], "", "Name a provider."),
        (["set-key", "openai", CANARY], "", "A key on the command line"),
        (["set-key", CANARY], "", "This is not a provider that needs a key."),
        (["set", "api_key", CANARY], "", "A key is never an argument of a command"),
        (["set-key", "openai", "--api-key", CANARY], "", "There is no option --api-key."),
        (["set-key", "openai", f"--api-key={CANARY}"], "", "There is no option --api-key."),
        (["show", "--url", "https://a.example"], "", "--url needs set-key"),
    ],
)
def test_a_key_is_refused_without_being_repeated(
    plait, home: Path, words: list[str], typed: str, message: str
) -> None:
    ran = plait("config", *words, typed=typed)
    assert ran.code == 2
    assert ran.err.startswith(f"plait: {message}")
    assert not [*home.rglob("keys.json")]


@pytest.mark.parametrize("verb", ["store", "search", "ingest", "reindex", "stats", "config"])
def test_no_command_takes_a_key_as_an_option(plait, verb: str) -> None:
    assert plait(verb, "x", "--api-key", CANARY).code == 2
    assert "--api-key" not in plait(verb, "--help").out


def test_a_closed_or_unreadable_stdin_gives_no_key(
    plait, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for stdin in (None, io.TextIOWrapper(io.BytesIO(b"\xff\xfe"), encoding="utf-8")):
        monkeypatch.setattr(sys, "stdin", stdin)
        assert main(["config", "set-key", "openai"]) == 2
    errors = capsys.readouterr().err
    assert "No key was given" in errors
    assert "This is not a key" in errors


def test_the_setting_is_shown_as_set_and_never_itself(
    plait, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plait("config", "get", "api_key", "--format", "text").out == "unset\n"
    assert plait("config", "show").json["api_key"] is None
    path = home / "mine.toml"
    path.write_text(f'[memory]\n{CUSTOM_LINE}\napi_key = "{CANARY}"\n', encoding="utf-8")
    path.chmod(0o600)
    monkeypatch.setenv("PLAIT_CONFIG", str(path))
    assert plait("config", "get", "api_key", "--format", "text").out == "set\n"
    assert plait("config", "get", "api_key").json == {"api_key": "set"}
    shown = plait("config", "show", "--origin").json["api_key"]
    assert shown == {"value": "set", "origin": str(path)}
    assert f"= set  # {path}" in plait("config", "show", "--origin", "--format", "text").out
    assert plait("config", "unset", "api_key").code == 0
    assert CANARY not in path.read_text(encoding="utf-8")


def at_a_terminal(typed: bytes, *command: str) -> tuple[int, bytes]:
    """Run a command in a terminal of its own, and answer its question."""
    import pty

    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command,
        env=environment(**NO_KEYRING),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as child:
        os.close(theirs)
        seen, answered = b"", False
        try:
            while more := os.read(ours, 1000):
                seen += more
                if b"(not shown): " in seen and not answered:
                    answered = os.write(ours, typed) > 0
        except OSError:  # how Linux says that the other side is closed
            pass
        code = child.wait(timeout=PATIENCE_S)
    os.close(ours)
    return code, seen


@POSIX_ONLY
def test_a_terminal_does_not_show_the_key_that_is_typed() -> None:
    typed = CANARY.encode() + b"\n"
    code, seen = at_a_terminal(typed, *PLAIT, "config", "set-key", "openai")
    assert (code, CANARY.encode() in seen) == (0, False)
    assert b"is saved encrypted in" in seen
    assert loading.load().key_for(*OPENAI) == CANARY


@POSIX_ONLY
def test_an_empty_answer_at_a_terminal_changes_nothing() -> None:
    code, seen = at_a_terminal(b"\x04", *PLAIT, "config", "set-key", "openai")
    assert (code, b"No key was given." in seen) == (2, True)


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        (CANARY, 0, ""),
        (EOFError(), 2, "No key was given"),
        (getpass.GetPassWarning("can not control echo"), 2, "This terminal would display the key."),
    ],
)
def test_whatever_a_terminal_answers_is_not_shown(
    plait, monkeypatch: pytest.MonkeyPatch, answer: object, code: int, message: str
) -> None:
    # The tests' own terminal must not be asked, so its answer is given here.
    def ask(prompt: str) -> str:
        assert prompt == f"Key for openai at {OPENAI[1]} (not shown): "
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    monkeypatch.setattr(getpass, "getpass", ask)
    ran = plait("config", "set-key", "openai", typed=Terminal())
    assert (ran.code, message in ran.err) == (code, True)


UNHIDDEN = """
import io, sys
class Glass(io.StringIO):
    def isatty(self):
        return True
sys.stdin = Glass("sk-canary")
from plait.cli import main
sys.exit(main(["config", "set-key", "openai"]))
"""


@POSIX_ONLY
def test_a_terminal_that_would_show_the_key_is_not_asked() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNHIDDEN],
        env=environment(**NO_KEYRING),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        start_new_session=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("plait: This terminal would display the key.")


def test_a_server_on_this_machine_loads_no_keyring_until_it_has_a_key(house: House) -> None:
    here = ("ollama", "http://localhost:11434")
    keyring.set_keyring(MemoryKeyring())
    keyring.set_password("plait", " ".join(here), "not-asked-for")
    keyring.set_password("plait", " ".join(CUSTOM), "asked-for")
    assert house.load().key_for(*here) is None
    assert house.load().key_for(*CUSTOM) == "asked-for"
    keys.keep_key(str(house.folder), here, Secret("given"))
    assert house.load().key_for(*here) == "given"


# A canary through real processes.


class Parrot(BaseHTTPRequestHandler):
    """An embedding server that refuses, and repeats in its refusal all that it was sent."""

    heard: list[str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.heard.append(str(self.headers.get("Authorization")))
        answer = json.dumps({"error": {"message": f"{self.headers} {body!r}"}}).encode()
        self.send_response(401, f"no {self.headers.get('Authorization')}")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@pytest.fixture
def parrot() -> Iterator[tuple[str, list[str]]]:
    heard: list[str] = []
    handler = type("Listening", (Parrot,), {"heard": heard})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1", heard
        server.shutdown()
        thread.join()


EVERY_VERB = [
    ["store", "We deploy on Fridays"],
    ["search", "when do we deploy"],
    ["search", "--json", "--explain", "--mode", "vector", "deploy"],
    ["reindex", "--embeddings"],
    ["stats"],
    ["doctor"],
    ["config", "show", "--origin"],
    ["config", "show", "--format", "text"],
    ["config", "get", "api_key"],
    ["config", "keys"],
    ["export", "all.jsonl"],
    ["config", "set", "limit", "many"],
    ["search", "--limit", "0", "x"],
    ["search"],
]


@pytest.mark.parametrize("place", ["API_KEY", "PLAIT_API_KEY", "file", "store"])
def test_no_process_ever_shows_or_stores_a_key(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    home: Path,
    parrot: tuple[str, list[str]],
    place: str,
) -> None:
    url, heard = parrot
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    env = {**NO_KEYRING, "PLAIT_DB": str(work / "memory.db"), "PLAIT_CONFIG": str(work / "c.toml")}
    lines = ["[memory]", f'embedding_provider = "custom:{url}#m"']
    if place == "file":
        lines.append(f'api_key = "{CANARY}"')
    elif place == "store":
        set_key = spawn("config", "set-key", "custom", "--url", url, env=env, stdin=CANARY.encode())
        assert (set_key.code, CANARY in set_key.out + set_key.err) == (0, False)
    else:
        env[place] = CANARY
    (work / "c.toml").write_text("\n".join(lines), encoding="utf-8")
    (work / "c.toml").chmod(0o600)
    for words in EVERY_VERB:
        ran = spawn(*words, env=env)
        assert CANARY not in ran.out + ran.err, words
    assert f"Bearer {CANARY}" in heard
    (work / "c.toml").unlink()
    for path in [*work.rglob("*"), *home.rglob("*")]:
        if path.is_file():
            assert CANARY.encode() not in path.read_bytes(), path


CRASH = """
import sys
from plait.settings import loading
from plait.cli import main, stats
loaded = loading.load()
assert loaded.key_for("openai", "https://api.openai.com:443") == loaded.settings.api_key.reveal()
def crash(arguments, out):
    raise RuntimeError(f"broken with {out.config} and {out.config.settings.api_key}")
stats.stats_run = crash
sys.exit(main(["stats"]))
"""


def test_a_traceback_with_all_settings_in_it_holds_no_key(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(
        f'[memory]\nembedding_provider = "openai"\napi_key = "{CANARY}"\n', encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-c", CRASH],
        env=environment(PLAIT_CONFIG=str(path), API_KEY=CANARY, **NO_KEYRING),
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "broken with Config(settings=Settings(" in done.stderr
    assert CANARY not in done.stdout + done.stderr


def test_a_search_with_the_built_in_model_loads_nothing_of_this(tmp_path: Path) -> None:
    env = {"PLAIT_DB": str(tmp_path / "m.db"), "OPENAI_API_KEY": CANARY, "API_KEY": CANARY}
    assert spawn("store", "We deploy on Fridays", env=env).code == 0
    script = (
        "import sys; from plait.cli import main; assert main(['search', 'deploy']) == 0;"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(**env),
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=True,
    )
    loaded = set(done.stderr.split())
    assert "plait.embedders.builtin" in loaded
    assert not loaded & {
        "plait.settings.keys",
        "plait.settings.secrets",
        "keyring",
        "cryptography",
        "getpass",
    }


def test_a_key_from_the_environment_stays_with_the_server_it_was_set_for(house: House) -> None:
    house.user('embedding_provider = "openai"')
    flags: dict[str, object] = {"embedding_provider": "custom:https://models.example/v1"}
    loaded = house.load(flags, PLAIT_API_KEY=CANARY)
    assert loaded.key_for(*OPENAI) == CANARY
    assert loaded.key_for(*CUSTOM) is None
    beside = house.load(
        PLAIT_API_KEY=CANARY, PLAIT_EMBEDDING_PROVIDER="custom:https://models.example/v1"
    )
    assert beside.key_for(*CUSTOM) == CANARY
    assert beside.key_for(*OPENAI) is None
