"""No secret that plait recognises is left in a masked text, and the words around it stay."""

import pytest

from plait.facts.credentials import secret_kinds
from plait.facts.masking import MASK, masked
from tests import made_up_secrets


@pytest.mark.parametrize("text", ["", "no secrets here", "password: <password>", "token = ${X}"])
def test_a_text_without_secrets_stays_as_it_is(text):
    assert masked(text) == (text, ())


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("use password: 'x7-Kqz92!f' there", "use password: '[secret]' there"),
        (
            "password: Abc9xyzQ! and password: Qrs8tuv2!",
            "password: [secret] and password: [secret]",
        ),
        ("sshpass -p Zx81Spectrum ssh a@b", "sshpass -p [secret] ssh a@b"),
        ("mysql -u root -pZx81Spectrum shop", "mysql -u root -p[secret] shop"),
        ("docker login -u ci -p 'Zx81Spectrum'", "docker login -u ci -p '[secret]'"),
        ("redis-cli -a Zx81Spectrum ping", "redis-cli -a [secret] ping"),
        ("go to postgres://ann:Kx82hfQ1z@db/x now", "go to postgres://ann:[secret]@db/x now"),
    ],
)
def test_only_the_value_goes(text, left):
    assert masked(text)[0] == left


def test_the_value_goes_wherever_it_is_repeated():
    assert "Kq7-88xZ!41w" not in masked("password: 'Kq7-88xZ!41w', again: Kq7-88xZ!41w")[0]


HIDDEN = ["\u200b", "\u00ad", "\ufeff", "\x01", "\x7f", "\u2060", "\ufe0f", "\u3164", "\U000e0001"]


@pytest.mark.parametrize("unseen", HIDDEN)
def test_a_secret_with_unseen_characters_in_it_is_one(unseen):
    recognised = 0
    for kind, text in made_up_secrets.made_up_secrets(1):
        if not (kinds := secret_kinds(text)):
            continue
        recognised += 1
        hiding = unseen.join(text)
        assert set(kinds) <= {*secret_kinds(hiding)}, kind
        without, _ = masked(f"Before it.\n{hiding}\nAfter it.")
        assert not secret_kinds(without), kind
    assert recognised > 20


def test_a_secret_in_letters_that_only_a_model_reads_is_one():
    secret = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    tags = "".join(chr(0xE0000 + ord(letter)) for letter in secret)
    assert masked(f"Look: {tags}!") == ("Look: [secret]!", ("github token",))


@pytest.mark.parametrize(
    "text",
    [
        "ge\u00adheim\u00adnis",
        "\ufeffPlain",
        "می\u200cخواهم",
        "\U0001f468\u200d\U0001f469\ufe0f",
    ],
)
def test_unseen_characters_of_ordinary_texts_stay(text):
    token = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    assert masked(text) == (text, ())
    assert masked(f"{text}: {token}")[0] == f"{text}: {MASK}"


def test_no_made_up_secret_is_recognised_after_masking():
    recognised = whole = 0
    for kind, text in made_up_secrets.made_up_secrets(4):
        without, kinds = masked(f"Before it.\n{text}\nAfter it.")
        assert not secret_kinds(without), kind
        recognised += bool(kinds)
        whole += without == MASK
    assert recognised > 100
    assert whole <= recognised // 20
