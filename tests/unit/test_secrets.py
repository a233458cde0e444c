"""Secrets at rest: values that do not show themselves, the encrypted file, the keyring."""

import copy
import json
import os
import pickle
import stat
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeyring
from keyring.backends.null import Keyring as NullKeyring

from plait.errors import ConfigError, Notice, advise
from plait.settings import private, secrets
from plait.settings.secrets import Secret, Vault, as_secret, origin_of
from tests.codes import has_code
from tests.interfaces.command import environment
from tests.keyrings import BrokenKeyring, MemoryKeyring, Stubborn

POSIX_ONLY = pytest.mark.skipif(sys.platform == "win32", reason="file modes are a POSIX notion")
KEY = "sk-canary-1f3a9b"
OPENAI = ("openai", "https://api.openai.com:443")
ELSEWHERE = ("custom", "https://models.example:443")


@pytest.fixture(autouse=True)
def null_keyring() -> Iterator[None]:
    """No test reaches the keyring of whoever runs it."""
    keyring.set_keyring(NullKeyring())
    yield
    keyring.set_keyring(NullKeyring())


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(str(tmp_path / "plait"))


def opened(vault: Vault, provider: str, origin: str) -> str:
    entry = vault.entry(provider, origin)
    assert entry is not None
    assert entry.sealed is not None
    return vault.unseal(provider, origin, entry.sealed, vault.path).reveal()


def refusal(vault: Vault) -> Notice:
    with pytest.raises(ConfigError) as caught:
        opened(vault, *OPENAI)
    assert KEY not in "".join(traceback.format_exception(caught.value))
    return caught.value.notice


# The value.


def test_a_secret_is_shown_by_no_way_of_printing() -> None:
    secret = Secret(KEY)
    ways = [str(secret), repr(secret), f"{secret}", f"{secret!r}", "%s %r" % (secret, secret)]  # noqa: UP031
    ways += [repr([secret]), repr({"key": secret}), str(getattr(secret, "__dict__", ""))]
    assert KEY not in " ".join(ways)
    assert secret.reveal() == KEY


@pytest.mark.parametrize("act", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_secret_is_neither_copied_nor_pickled(act) -> None:
    with pytest.raises(TypeError, match="neither copied nor pickled"):
        act(Secret(KEY))


def test_json_refuses_a_secret() -> None:
    with pytest.raises(TypeError):
        json.dumps({"key": Secret(KEY)})


def test_equal_secrets_are_equal_and_nothing_else_is() -> None:
    assert Secret("a") == Secret("a")
    assert hash(Secret("a")) == hash(Secret("a"))
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"


@pytest.mark.parametrize("value", ["k", f" {KEY}\n", "x" * 8192, Secret(KEY)])
def test_a_key_is_taken_without_the_space_around_it(value: object) -> None:
    text = value.reveal() if isinstance(value, Secret) else str(value).strip()
    assert as_secret(value).reveal() == text


@pytest.mark.parametrize(
    "value", ["", " \n", "a b", "a\nb", "a\r\nX: y", "ключ", "x" * 8193, 5, None]
)
def test_what_no_header_can_carry_is_no_key(value: object) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        as_secret(value)


# Whose it is.


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://api.openai.com", "https://api.openai.com:443"),
        ("https://api.openai.com:443/v1", "https://api.openai.com:443"),
        ("HTTPS://API.OpenAI.COM/v1?a=b", "https://api.openai.com:443"),
        ("http://localhost:11434/", "http://localhost:11434"),
        ("http://gpu_box", "http://gpu_box:80"),
        ("https://[::1]:8443/v1", "https://[::1]:8443"),
        ("https://a.example#model", "https://a.example:443"),
        ("https://a.example:0080", "https://a.example:80"),
        ("https://user:pass@a.example", None),
        ("https://api.openai.com@evil.example", None),
        ("https://api.openai.com\\@evil.example", None),
        ("https://api.openai.com:443@evil.example", None),
        ("https://évil.example", None),
        ("https://a.example:0", None),
        ("https://a.example:65536", None),
        ("https://a.example:443443", None),
        ("https://a b.example", None),
        ("https://", None),
        ("ftp://a.example", None),
        ("a.example", None),
        ("", None),
    ],
)
def test_the_origin_is_scheme_host_and_port_or_nothing(url: str, origin: str | None) -> None:
    assert origin_of(url) == origin


@given(st.text())
def test_an_origin_is_its_own_origin(text: str) -> None:
    for url in (text, f"https://{text}", f"http://localhost{text}"):
        origin = origin_of(url)
        assert origin is None or origin_of(origin) == origin


# The encrypted file.


def test_what_is_kept_comes_back_for_its_own_address_only(vault: Vault) -> None:
    vault.put(*OPENAI, Secret(KEY))
    vault.put(*ELSEWHERE, Secret("other"))
    assert opened(vault, *OPENAI) == KEY
    assert opened(vault, *ELSEWHERE) == "other"
    assert vault.entry("custom", OPENAI[1]) is None
    assert [entry[:2] for entry in vault.entries()] == [ELSEWHERE, OPENAI]


def test_a_new_key_takes_the_place_of_the_old_one(vault: Vault) -> None:
    vault.put(*OPENAI, Secret("old"))
    vault.put(*OPENAI, Secret(KEY))
    assert opened(vault, *OPENAI) == KEY
    assert len(vault.entries()) == 1


def test_the_file_holds_no_key_and_never_the_same_bytes_twice(vault: Vault) -> None:
    vault.put(*OPENAI, Secret(KEY))
    once = Path(vault.path).read_bytes()
    vault.put(*OPENAI, Secret(KEY))
    assert KEY.encode() not in once
    assert KEY.encode().hex().encode() not in once
    assert Path(vault.path).read_bytes() != once


@POSIX_ONLY
def test_everything_in_the_folder_is_private(vault: Vault, tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        vault.put(*OPENAI, Secret(KEY))
    finally:
        os.umask(previous)
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "plait").iterdir()
    }
    assert modes == dict.fromkeys(("secret.key", "keys.json", "keys.lock"), 0o600)
    assert stat.S_IMODE((tmp_path / "plait").stat().st_mode) == 0o700


def test_the_key_file_is_made_once_and_never_overwritten(vault: Vault, tmp_path: Path) -> None:
    place = tmp_path / "plait" / "secret.key"
    vault.put(*OPENAI, Secret(KEY))
    made = place.read_bytes()
    vault.put(*ELSEWHERE, Secret("other"))
    vault._make_file_key()
    assert place.read_bytes() == made
    assert len(made) == 32
    assert sorted(path.name for path in place.parent.iterdir()) == [
        "keys.json",
        "keys.lock",
        "secret.key",
    ]


@pytest.mark.parametrize("moved_to", [ELSEWHERE, ("custom", OPENAI[1]), ("openai", ELSEWHERE[1])])
def test_a_ciphertext_moved_to_another_address_does_not_open(
    vault: Vault, moved_to: tuple[str, str]
) -> None:
    vault.put(*OPENAI, Secret(KEY))
    rows = json.loads(Path(vault.path).read_text(encoding="utf-8"))
    rows["keys"][0] |= {"provider": moved_to[0], "origin": moved_to[1]}
    Path(vault.path).write_text(json.dumps(rows), encoding="utf-8")
    with pytest.raises(ConfigError, check=has_code("key_does_not_open", moved_to[1])) as caught:
        opened(vault, *moved_to)
    assert caught.value.advice is not None
    assert dict(caught.value.advice.values)["provider"] == moved_to[0]


@given(position=st.integers(0, 200), bit=st.integers(0, 7))
def test_no_damaged_bit_goes_unnoticed(
    tmp_path_factory: pytest.TempPathFactory, position: int, bit: int
) -> None:
    vault = Vault(str(tmp_path_factory.mktemp("vault")))
    vault.put(*OPENAI, Secret(KEY))
    entry = vault.entry(*OPENAI)
    assert entry is not None
    assert entry.sealed is not None
    data = bytearray.fromhex(entry.sealed.removeprefix("enc:"))
    data[position % len(data)] ^= 1 << bit
    with pytest.raises(ConfigError, check=has_code("key_does_not_open")):
        vault.unseal(*OPENAI, "enc:" + data.hex(), "a test")


@pytest.mark.parametrize("sealed", ["enc:", "enc:zz", "enc:00", "enc:" + "00" * 12])
def test_what_is_no_ciphertext_is_refused_in_a_sentence(vault: Vault, sealed: str) -> None:
    vault.put(*OPENAI, Secret(KEY))
    with pytest.raises(ConfigError, match=r"in config\.toml", check=has_code("key_does_not_open")):
        vault.unseal(*OPENAI, sealed, "config.toml")


def test_another_key_file_does_not_open_it(vault: Vault, tmp_path: Path) -> None:
    vault.put(*OPENAI, Secret(KEY))
    place = tmp_path / "plait" / "secret.key"
    place.write_bytes(bytes(32))
    assert refusal(vault).code == "key_does_not_open"


def test_a_lost_or_cut_key_file_is_said(vault: Vault, tmp_path: Path) -> None:
    vault.put(*OPENAI, Secret(KEY))
    place = tmp_path / "plait" / "secret.key"
    place.write_bytes(b"short")
    damaged = refusal(vault)
    assert (damaged.code, damaged.subject) == ("damaged_keys", str(place))
    with pytest.raises(ConfigError, check=has_code("damaged_keys", str(place))):
        vault.put(*OPENAI, Secret(KEY))
    assert place.read_bytes() == b"short"
    place.unlink()
    lost = refusal(vault)
    assert (lost.code, lost.subject) == ("no_key_file", str(place))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "5",
        '{"version": 1}',
        '{"version": 1, "keys": [{}]}',
        '{"version": 1, "keys": 3}',
        '{"version": 1, "keys": [{"provider": 5, "origin": "", "sealed": null}]}',
        '{"version": "x", "keys": []}',
        "[" * 100_000,
    ],
    ids=lambda text: text[:20],
)
def test_a_damaged_file_is_said_and_left_alone(vault: Vault, text: str) -> None:
    vault.put(*OPENAI, Secret(KEY))
    Path(vault.path).write_text(text, encoding="utf-8")
    damaged = refusal(vault)
    assert (damaged.code, damaged.subject) == ("damaged_keys", vault.path)
    with pytest.raises(ConfigError, check=has_code("damaged_keys")):
        vault.put(*OPENAI, Secret(KEY))
    assert Path(vault.path).read_text(encoding="utf-8") == text


def test_a_file_of_a_newer_plait_is_left_alone(vault: Vault) -> None:
    vault.put(*OPENAI, Secret(KEY))
    Path(vault.path).write_text('{"version": 2, "keys": []}', encoding="utf-8")
    newer = refusal(vault)
    assert (newer.code, newer.advice) == ("keys_too_new", advise("upgrade"))


def test_a_file_too_large_to_be_ours_is_not_read(vault: Vault) -> None:
    vault.put(*OPENAI, Secret(KEY))
    Path(vault.path).write_text(" " * 1_000_001, encoding="utf-8")
    assert refusal(vault).code == "damaged_keys"


@POSIX_ONLY
@pytest.mark.parametrize("name", ["secret.key", "keys.json"])
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_file_that_others_can_reach_is_refused(
    vault: Vault, tmp_path: Path, name: str, mode: int
) -> None:
    vault.put(*OPENAI, Secret(KEY))
    place = tmp_path / "plait" / name
    place.chmod(mode)
    refused = refusal(vault)
    assert refused.code == "not_private"
    assert refused.advice == advise("make_private", path=str(place))


@POSIX_ONLY
@pytest.mark.parametrize("name", ["secret.key", "keys.json", "keys.lock"])
def test_a_link_in_the_place_of_a_file_is_not_followed(
    vault: Vault, tmp_path: Path, name: str
) -> None:
    vault.put(*OPENAI, Secret(KEY))
    place = tmp_path / "plait" / name
    target = tmp_path / "target"
    place.rename(target)
    place.symlink_to(target)
    before = target.read_bytes()
    with pytest.raises(ConfigError, match=str(place)):
        vault.put(*OPENAI, Secret(KEY))
    assert place.is_symlink()
    assert target.read_bytes() == before


@POSIX_ONLY
def test_something_that_is_no_file_is_refused_without_waiting(vault: Vault, tmp_path: Path) -> None:
    vault.put(*OPENAI, Secret(KEY))
    place = tmp_path / "plait" / "secret.key"
    place.unlink()
    os.mkfifo(place, 0o600)
    refused = refusal(vault)
    assert (refused.code, refused.subject) == ("not_a_file", str(place))


@POSIX_ONLY
@pytest.mark.skipif(sys.platform != "win32" and os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_said(vault: Vault, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ConfigError, check=has_code("cannot_write")):
            vault.put(*OPENAI, Secret(KEY))
    finally:
        tmp_path.chmod(0o700)


def test_a_file_in_the_place_of_the_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "plait").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"keys\.lock", check=has_code("cannot_write")):
        Vault(str(tmp_path / "plait")).put(*OPENAI, Secret(KEY))
    with pytest.raises(ConfigError, match=r"keys\.json", check=has_code("cannot_read")):
        Vault(str(tmp_path / "plait")).entries()


def test_a_folder_in_the_place_of_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "secret.key").mkdir()
    with pytest.raises(ConfigError, match=r"secret\.key", check=has_code("not_a_file")):
        Vault(str(tmp_path)).put(*OPENAI, Secret(KEY))
    (tmp_path / "keys.json").mkdir()
    with pytest.raises(ConfigError, match=r"keys\.json", check=has_code("not_a_file")):
        Vault(str(tmp_path)).entries()


def test_removing_forgets_one_and_keeps_the_rest(vault: Vault) -> None:
    assert vault.remove(*OPENAI) is None
    vault.put(*OPENAI, Secret(KEY))
    vault.put(*ELSEWHERE, Secret("other"))
    assert vault.remove(*OPENAI) is not None
    assert vault.remove(*OPENAI) is None
    assert [entry[:2] for entry in vault.entries()] == [ELSEWHERE]


def test_without_the_package_nothing_is_written_and_the_command_is_named(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    install = advise("install", extra="keys")
    with pytest.raises(ConfigError, check=has_code("cryptography_missing", advice=install)):
        vault.put(*OPENAI, Secret(KEY))
    assert [path.name for path in Path(vault.path).parent.iterdir()] == ["keys.lock"]


def test_a_note_that_the_keyring_has_it_needs_no_package(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    vault.put(*OPENAI, None)
    assert vault.entries() == [secrets.StoredKey(*OPENAI, None)]


WRITER = """
import sys
from plait.settings.secrets import Secret, Vault
folder, name = sys.argv[1:]
sys.stdin.readline()
for number in range(8):
    Vault(folder).put("custom", f"https://{name}-{number}.example:443", Secret(f"{name}-{number}"))
"""


def test_processes_that_keep_keys_at_once_lose_none(tmp_path: Path) -> None:
    folder, names = str(tmp_path / "plait"), ["a", "b", "c"]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, folder, name],
            env=environment(),
            stdin=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        for name in names
    ]
    for writer in writers:  # none has begun before the last one was started
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0
    vault = Vault(folder)
    assert len(vault.entries()) == 24
    for name in names:
        assert opened(vault, "custom", f"https://{name}-7.example:443") == f"{name}-7"


@POSIX_ONLY
def test_a_lock_that_is_never_let_go_ends_in_a_sentence(
    vault: Vault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    monkeypatch.setattr(private, "LOCK_PATIENCE_S", 0.05)
    vault.put(*OPENAI, Secret(KEY))
    with (tmp_path / "plait" / "keys.lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, check=has_code("settings_locked")):
            vault.put(*OPENAI, Secret("new"))
    assert opened(vault, *OPENAI) == KEY


# The keyring.


def test_a_keyring_that_works_keeps_gives_and_forgets() -> None:
    keyring.set_keyring(ring := MemoryKeyring())
    assert secrets.from_keyring(*OPENAI) is None
    assert secrets.to_keyring(*OPENAI, Secret(KEY))
    assert secrets.from_keyring(*OPENAI) == Secret(KEY)
    assert secrets.from_keyring(*ELSEWHERE) is None
    assert ring.kept == {("plait", "openai https://api.openai.com:443"): KEY}
    assert secrets.remove_from_keyring(*OPENAI)
    assert not secrets.remove_from_keyring(*OPENAI)


@pytest.mark.parametrize("backend", [NullKeyring, NoKeyring, BrokenKeyring])
def test_a_keyring_that_keeps_nothing_counts_as_none(backend: type[KeyringBackend]) -> None:
    keyring.set_keyring(backend())
    assert not secrets.to_keyring(*OPENAI, Secret(KEY))
    assert secrets.from_keyring(*OPENAI) is None
    assert not secrets.remove_from_keyring(*OPENAI)


def test_a_keyring_that_does_not_let_go_is_not_said_to_have_forgotten() -> None:
    keyring.set_keyring(Stubborn())
    assert secrets.to_keyring(*OPENAI, Secret(KEY))
    assert not secrets.remove_from_keyring(*OPENAI)


def test_without_the_package_there_is_no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert not secrets.to_keyring(*OPENAI, Secret(KEY))
    assert secrets.from_keyring(*OPENAI) is None
