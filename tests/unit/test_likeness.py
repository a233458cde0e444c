"""Texts that say nearly the same are flagged, with what differs all the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.facts import likeness
from plait.facts.likeness import Likeness, TextWords


def compare(first: str, second: str, cosine: float | None = None) -> Likeness:
    return likeness.compare(TextWords(first), TextWords(second), cosine)


def is_near(first: str, second: str, cosine: float | None = None) -> bool:
    return compare(first, second, cosine).near


WORDS = "we do not deploy the api on port 8080 8443 fridays never"
TEXTS = st.text(max_size=60) | st.lists(st.sampled_from(WORDS.split()), max_size=9).map(" ".join)
COSINES = st.none() | st.floats(-1.0, 1.0)
FACT = "The staging API listens on port 8080 behind nginx"
LONG = f"{FACT}, which terminates TLS, writes an access log and forwards every request header."


@pytest.mark.parametrize(
    ("first", "second", "cosine", "near"),
    [
        (FACT, "Something else entirely", 0.85, True),
        (FACT, "Something else entirely", 0.8499, False),
        (FACT, "Something else entirely", None, False),
        (FACT, LONG, 0.1, True),
        (FACT, LONG, None, True),
        ("staging api uses redis cache", LONG, 0.1, False),
        # Seven words of ten, then six; the longer text is more than twice as long.
        ("the staging api listens on port 8080 via haproxy today", LONG, 0.1, True),
        ("the staging api listens on gate 8080 via haproxy today", LONG, 0.1, False),
        # All words are there, but it is not twice as long.
        (FACT, f"{FACT} and TLS", 0.1, False),
        ("We deploy on Fridays.", "we deploy on fridays", None, True),
        ("We deploy on Fridays", "We deploy on Mondays", None, False),
        (FACT, FACT.replace("8080", "8443"), None, True),
        (FACT, FACT.replace("nginx", "caddy").replace("8080", "8443"), None, False),
        ("Do use tabs", "Don't use tabs", None, True),
        ("毎週金曜日にデプロイする", "毎週金曜日にデプロイする。", None, True),
        ("हम शुक्रवार को तैनात करते हैं", "हम सोमवार को बैठक करते थे", None, False),
        ("caf\u00e9 au lait", "cafe\u0301 au lait", None, True),
        ("the of and", "The of, and!", None, True),
        ("", "", None, False),
        ("", FACT, None, False),
        ("!!!", "???", None, False),
    ],
)
def test_near_is_by_cosine_or_containment_or_without_cosine_by_words(
    first: str, second: str, cosine: float | None, near: bool
) -> None:
    assert is_near(first, second, cosine) is near
    assert is_near(second, first, cosine) is near


def test_words_do_not_overrule_a_cosine() -> None:
    assert is_near("Ann calls Bob", "Bob calls Ann")
    assert not is_near("Ann calls Bob", "Bob calls Ann", 0.6)


@pytest.mark.parametrize(
    ("first", "second", "differences"),
    [
        (FACT, FACT, ()),
        (FACT, FACT.lower(), ()),
        (FACT, FACT.replace("8080", "8443"), ("numbers differ: 8080 and 8443",)),
        (FACT, FACT.replace("8080", "one"), ("numbers differ: 8080 and none",)),
        ("Python 3.11 is fine", "Python 3.12 is fine", ("numbers differ: 3.11 and 3.12",)),
        ("costs 1,000 euros", "costs 1000 euros", ()),
        ("We deploy on Fridays", "We do not deploy on Fridays", ("one of them is negated",)),
        ("We deploy on Fridays", "We don’t deploy on Fridays", ("one of them is negated",)),
        ("Usamos tabuladores", "Nunca usamos tabuladores", ("one of them is negated",)),
        ("Usamos tabuladores", "Jama\u0301s usamos tabuladores", ("one of them is negated",)),
        ("We do not deploy", "We never deploy", ()),
        ("Ann calls Bob", "Bob calls Ann", ("the same words in another order",)),
        (
            "Retry 3 times, then page",
            "Never retry 5 times, then page",
            ("numbers differ: 3 and 5", "one of them is negated"),
        ),
    ],
)
def test_numbers_negation_and_order_are_named_and_never_decide(
    first: str, second: str, differences: tuple[str, ...]
) -> None:
    verdict = compare(first, second, 0.95)
    assert verdict.near
    assert verdict.reason == "cosine 0.95"
    assert verdict.differences == differences


@pytest.mark.parametrize(
    ("first", "second", "cosine", "reason"),
    [
        (FACT, LONG, None, "the longer text contains 100% of the shorter one's words"),
        (FACT, FACT.replace("8080", "8443"), None, "86% of the content words in common"),
        (FACT, "Tabs", None, ""),
    ],
)
def test_the_reason_says_which_rule_held(
    first: str, second: str, cosine: float | None, reason: str
) -> None:
    assert compare(first, second, cosine).reason == reason


def test_texts_that_are_not_near_have_no_differences_to_tell() -> None:
    assert compare("port 1", "gate 2", 0.0) == Likeness(near=False, cosine=0.0)


def test_a_word_of_any_length_is_read_once() -> None:
    # A pattern that starts anew at every letter would take minutes here.
    long = "n" * 200_000
    assert compare(long, long).similarity == 1.0


@given(TEXTS, TEXTS, COSINES)
def test_the_order_of_the_two_texts_does_not_matter(
    first: str, second: str, cosine: float | None
) -> None:
    there, back = compare(first, second, cosine), compare(second, first, cosine)
    assert there._replace(differences=()) == back._replace(differences=())
    assert len(there.differences) == len(back.differences)
    assert there.similarity == back.similarity


@given(TEXTS, TEXTS, COSINES)
def test_measures_stay_between_none_and_all(first: str, second: str, cosine: float | None) -> None:
    verdict = compare(first, second, cosine)
    assert 0.0 <= verdict.similarity <= 1.0
    assert verdict.near == bool(verdict.reason)


@given(TEXTS, st.sampled_from(WORDS.split()))
def test_a_text_with_words_is_near_itself(text: str, word: str) -> None:
    assert is_near(f"{text} {word}", f"{text} {word}")


@given(TEXTS)
def test_a_text_differs_from_itself_in_nothing(text: str) -> None:
    assert compare(text, text, 1.0).differences == ()


@given(TEXTS, TEXTS, st.floats(-1.0, 1.0), st.floats(-1.0, 1.0))
def test_a_closer_vector_never_takes_the_flag_away(
    first: str, second: str, cosine: float, closer: float
) -> None:
    cosine, closer = sorted((cosine, closer))
    assert is_near(first, second, closer) >= is_near(first, second, cosine)
