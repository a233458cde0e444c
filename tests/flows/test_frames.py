"""What is said to the one who is asked is no part of the question."""

from collections.abc import Iterator

import pytest

from plait.memory import Memory
from plait.text.asking import question_in

NOTES = {
    "glossary": "MTTR is the mean time to recovery, PSP a payment service provider.",
    "boiler": "The boiler was serviced in September by Heiko, who also changed the filter.",
    "song": "Hey Jude is the first song of the evening.",
}


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory.open(":memory:", project="") as opened:
        for key, text in NOTES.items():
            opened.store(text, key=key)
        for number in range(30):
            opened.store(f"Row {number} of the table has {number * 7} chairs and a blue lamp.")
        yield opened


@pytest.mark.parametrize(
    ("frame", "question", "key"),
    [
        (frame, question, key)
        for question, key in (
            ("MTTR", "glossary"),
            ("what does PSP stand for", "glossary"),
            ("when the boiler was serviced", "boiler"),
        )
        for frame in (
            *("Hey, {}", "Do you know {}?", "can you please tell me {}", "{} please", "{}???"),
            *("Q: {}", "Hi all, does anyone remember {}? Thanks!", "{} \U0001f642"),
        )
    ],
)
def test_a_frame_changes_neither_hit_nor_relevance(
    memory: Memory, frame: str, question: str, key: str
) -> None:
    query = frame.format(question)
    answer = memory.search(query)
    assert answer[0].document.key == key
    assert answer[0].relevance == pytest.approx(memory.search(question)[0].relevance, abs=0.15)
    assert answer.receipt.query == query
    assert [item.hit.document.key for item in memory.recall(query).items] == [key]


@pytest.mark.parametrize(
    "text",
    [
        *("Hey Jude", "please", "tell me", "tell me more", "hello world", "know your rights"),
        *("please review the request", "thank you notes", "the U.S.A.", "so long", "who am I?"),
        *("how to say thank you", "the Japanese word for thanks", "who said please?"),
        *("hello, world", "Hello, World!", "hello - world program in Rust"),
        *('tell me "as written"', "please AND thanks", "tell me warni*"),
    ],
)
def test_what_may_be_the_subject_stays(text: str) -> None:
    assert question_in(text) == text


def test_a_song_is_found_by_its_greeting(memory: Memory) -> None:
    assert set(memory.search("Hey Jude")[0].signals.matched) == {"hey", "jude"}


def test_thanks_are_found_by_what_they_are(memory: Memory) -> None:
    memory.store("Arigatou means thank you in Japanese.", key="japanese")
    memory.store("People say that the lake freezes.", key="lake")
    assert memory.search("how to say thank you")[0].document.key == "japanese"
    assert question_in("what is the key for, thanks") == "what is the key for"


def test_the_first_program_is_no_greeting(memory: Memory) -> None:
    memory.store("The world map hangs beside the map of the world.", key="map")
    memory.store("A hello, world program prints one line.", key="program")
    assert memory.search("Hello, World!")[0].document.key == "program"


def test_a_strict_search_takes_every_word(memory: Memory) -> None:
    matched = memory.search("tell me the mean time", strict=True)[0].signals.matched
    assert set(matched) == {"mean", "time"}


@pytest.mark.parametrize("query", ["deploying", "who\u2019s deploying", "deploying \u20ac 5"])
def test_a_mark_beyond_ascii_makes_no_other_language(memory: Memory, query: str) -> None:
    memory.store("The deployment takes a minute.", key="release")
    assert "deploying" in memory.search(query)[0].signals.matched
