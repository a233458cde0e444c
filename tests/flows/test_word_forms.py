"""A word finds its forms with other stems, and they count as the word."""

import pytest

from plait.memory import Memory
from plait.stores.sqlite import analysis, fileless
from plait.text import parse
from plait.text.english import _lines, other_forms

NOTES = {
    "release": "The deployment of the tile server runs on Fridays.",
    "bill": "She bought the ladder; the payment is due in June.",
    "check": "Verification of certificates takes a minute.",
    "other": "Nothing else happened.",
}


@pytest.fixture
def memory() -> Memory:
    opened = Memory.open(":memory:", project="")
    for key, text in NOTES.items():
        opened.store(text, key=key)
    return opened


@pytest.mark.parametrize("line", sorted(set(_lines().values())))
def test_each_word_of_a_line_has_a_stem_of_its_own(line: tuple[str, ...]) -> None:
    stems = [analysis.tokens(fileless.connection(), word)[0][2] for word in line]
    assert len(set(stems)) == len(line) > 1


@pytest.mark.parametrize(
    ("query", "key", "shown"),
    [
        ("deploying tile", "release", "deployment"),
        ("who buys", "bill", "bought"),
        ("pay", "bill", "payment"),
        ("verified", "check", "Verification"),
        ("notify", None, None),
    ],
)
@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
def test_another_form_is_found_highlighted_and_counts_as_the_word(
    memory: Memory, query: str, key: str | None, shown: str | None, mode: str
) -> None:
    answer = memory.search(query, mode=mode)  # type: ignore[arg-type]
    if key is None:
        assert not any(hit.signals.matched for hit in answer)
        return
    hit = answer[0]
    assert hit.document.key == key
    assert shown in [hit.snippet[start:end] for start, end in hit.highlights]
    assert hit.signals.coverage == 1.0
    assert set(hit.signals.matched) <= set(query.split())
    assert answer.receipt.corrections == ()


@pytest.mark.parametrize(
    ("query", "found"),
    [("tile NOT deploy", True), ("deploy*", True), ("deploy AND tile", False), ('"deploy"', False)],
)
def test_operators_match_what_is_written(memory: Memory, query: str, found: bool) -> None:
    answer = memory.search(query, mode="keyword", strict=True)
    assert ("release" in [hit.document.key for hit in answer]) == found


def test_a_much_rarer_form_does_not_come_before_the_word(memory: Memory) -> None:
    for number in range(60):
        memory.store(f"We ship parcel {number}.")
        memory.store(f"Filler {number}.")
    memory.store("A shipment of plums.", key="shipment")
    answer = memory.search("ship", mode="keyword")
    assert "shipment" not in [hit.document.key for hit in answer]


def test_a_word_that_is_asked_for_is_no_other_form() -> None:
    assert other_forms(["deploy", "deployments"]) == ()
    assert other_forms(["deploys"]) == (("deployment", ("deploys",)),)


@pytest.mark.parametrize(
    ("query", "form"),
    [
        *(("LED", ()), ("an LED strip", ()), ("FED and SAT", ())),
        *(("\u24b6", ()), ("\u24b6 LED", ())),  # a letter in a circle is in capitals, and no word
        *(("who led it", ("lead",)), ("WHO LED THE TEAM", ("lead",)), ("DEPLOY", ("deployment",))),
        *(("Led by whom", ("lead",)), ("the API was deployed", ("deployment",))),
    ],
)
def test_an_abbreviation_has_no_other_forms(query: str, form: tuple[str, ...]) -> None:
    assert tuple(other for other, _ in parse(query).forms) == form


def test_an_abbreviation_that_no_note_has_finds_nothing(memory: Memory) -> None:
    memory.store("Ana is the lead of the project.", key="lead")
    assert memory.recall("LED").items == ()
    assert [item.hit.document.key for item in memory.recall("who led the project").items] == [
        "lead"
    ]
