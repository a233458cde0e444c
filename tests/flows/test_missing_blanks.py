"""A word that no note holds is searched as the two that stand together in one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plait.memory import Memory
from plait.types import Document
from plait.types.queries import Query

NOTES = {
    "packing": "Take ear plugs and a head torch to the hut.",
    "piano": "The choir buys a Yamaha P-525, because the stand is included.",
    "insurance": "The household is insured for 62,000, liability for less.",
    "plumber": "Reach the plumber at 0171 5550142 before noon.",
    "movers": "The contract with the movers is A-2209.",
    "lawyer": "The contract with the lawyer is I-771.",
    "fiddle": "The fiddle of O'Reilly is in the attic.",
    "post": "Whoever sent the first e-mail was polite.",
    "nothing": "To get her home, call us now here in 18 minutes or 500 seconds, at a 18 mm drill.",
}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory.db", project="") as opened:
        for key, text in NOTES.items():
            opened.store(text, key=key)
        yield opened


@pytest.mark.parametrize(
    ("query", "typed", "meant", "key"),
    [
        ("earplugs", "earplugs", "ear plugs", "packing"),
        ("which headtorch for the hut", "headtorch", "head torch", "packing"),
        ("Yamaha P525", "p525", "p 525", "piano"),
        ("insured for 62000", "62000", "62 000", "insurance"),
        ("who has 01715550142", "01715550142", "0171 5550142", "plumber"),
        ("A2209", "a2209", "a 2209", "movers"),  # "a" is an article, too
        ("which contract is I771", "i771", "i 771", "lawyer"),
        # In capitals and small letters as in small ones, with one part of several letters.
        ("OReilly", "oreilly", "o reilly", "fiddle"),
        ("who sent the eMail", "email", "e mail", "post"),
    ],
)
def test_a_missing_blank_is_put_in_and_told(
    memory: Memory, query: str, typed: str, meant: str, key: str
) -> None:
    answer = memory.search(query, explain=True)
    assert answer.receipt.corrections == ((typed, meant),)
    assert answer[0].document.key == key
    assert set(meant.split()) <= set(answer[0].signals.matched)


@pytest.mark.parametrize(
    "query",
    [
        "nowhere",  # little words
        "together",
        "18500",  # both are there, but apart
        "plumberpiano",
        'the "earplugs" of the hut',  # as written
        "torch NOT earplugs",
        "earpl*",
        "2026",
        "A18",  # "a 18 mm" and the like are no names
        "GetHer",
    ],
)
def test_words_are_only_divided_where_the_two_stand_together(memory: Memory, query: str) -> None:
    assert memory.search(query, strict="*" in query).receipt.corrections == ()


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("earplugs NOT torch", ["hut"]),
        ("earplugs AND xylophone NOT torch", ["hut"]),
        ("(earplugs OR piano) NOT torch", ["piano", "hut"]),
    ],
)
def test_what_not_excludes_never_follows_as_two_words(
    memory: Memory, query: str, keys: list[str]
) -> None:
    memory.store("The hut sells ear plugs.", key="hut")
    answer = memory.search(query, mode="keyword")
    assert [hit.document.key for hit in answer] == keys
    assert answer.receipt.corrections == (("earplugs", "ear plugs"),)


@pytest.mark.parametrize(("letters", "divided"), [(20, True), (21, False)])
def test_a_run_of_letters_that_is_no_word_is_not_divided(
    memory: Memory, letters: int, divided: bool
) -> None:
    """A hash or a key has as many places to look at as letters."""
    first, second = "q" * letters, "x" * letters
    memory.store(f"Between {first} {second} is a blank.")
    assert bool(memory.search(first + second).receipt.corrections) == divided


def test_words_that_cannot_be_two_leave_their_turn_to_others(memory: Memory) -> None:
    answer = memory.search("zzq qqz wxz earplugs", mode="keyword")
    assert answer.receipt.corrections == (("earplugs", "ear plugs"),)


def test_one_search_tells_that_nothing_stands_together(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Query] = []
    keyword = memory.engine.keyword

    def counted(query: Query, *others: Any, **options: Any) -> Any:
        asked.append(query)
        return keyword(query, *others, **options)

    monkeypatch.setattr(memory.engine, "keyword", counted)
    assert memory.search("0a1b2c3d4e5f6a7b 7b6a5f4e3d2c1b0a").receipt.corrections == ()
    assert len(asked) == 2  # and the search itself


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("07531555012", "07531 555 012"),
        ("who is 07531555012", "07531 555 012"),
        ("+494315550199", "49 431 5550199"),
        ("4315550199", "431 5550199"),
    ],
)
def test_a_telephone_number_is_found_however_its_digits_are_grouped(
    memory: Memory, query: str, told: str
) -> None:
    memory.store("Plumber: call 07531 555 012", key="plumber")
    memory.store("Heron Ltd., office +49 431 5550199", key="heron")
    memory.store("Box 07531, shelf 555, row 012; 49 jars, 431 lids", key="cellar")
    answer = memory.search(query, mode="keyword")
    assert told in answer[0].text and not answer[0].is_weak
    assert [written for _, written in answer.receipt.corrections] == [told]
    assert memory.search("07531555013", mode="keyword") == ()


def test_a_word_that_a_note_holds_is_never_divided(memory: Memory) -> None:
    memory.store("Earplugs are in the drawer.", key="drawer")
    answer = memory.search("earplugs")
    assert answer.receipt.corrections == ()
    assert answer[0].document.key == "drawer"


def test_only_what_the_search_may_see_divides_a_word(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.db", project="one") as memory:
        memory.store_many([Document(text=NOTES["packing"], key="packing", project="two")])
        assert memory.search("earplugs").receipt.corrections == ()
        assert memory.search("earplugs", all_projects=True).receipt.corrections


JOINED_OR_NOT = {
    "cabin": "The Wi-Fi of the cabin has its password on the fridge.",
    "club": "My wife likes the wiki of the club.",
    "landlord": "Send an e-mail to the landlord.",
    "shop": "The log-in of the shop is broken.",
    "size": "The T-shirt of Leni is size 128.",
    "knee": "The X-ray was fine.",
    "night": "The backup runs at night.",
    "door": "Our checklist is on the door.",
    "server": "Our database is Postgres.",
    "seat": "A back seat, a base and some data, and the list of a check.",
    "queue": "We queue up in line for the cab in town.",
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    path = tmp_path_factory.mktemp("written") / "memory.db"
    with Memory.open(path, project="") as opened:
        for key, text in JOINED_OR_NOT.items():
            opened.store(text, key=key)
        for number in range(20):
            opened.store(f"Filler {number} on house and garden.")
        yield opened


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("wifi", "cabin"),
        ("what is the wifi password", "cabin"),
        ("email", "landlord"),
        ("login", "shop"),
        ("tshirt", "size"),
        ("xray", "knee"),
    ],
)
def test_a_word_is_found_that_notes_write_with_a_hyphen(
    written: Memory, query: str, key: str
) -> None:
    answer = written.search(query, mode="keyword")
    assert answer[0].document.key == key
    assert not answer[0].is_weak


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("when does the back-up run", "night"),
        ("check-list", "door"),
        ("data base", "server"),
        ("where is the back-up?", "night"),
        ("data base?", "server"),
        ("Data-Base of Postgres", "server"),
    ],
)
def test_two_words_find_what_notes_write_as_one(written: Memory, query: str, key: str) -> None:
    answer = written.search(query, mode="keyword")
    hit = {hit.document.key: hit for hit in answer}[key]
    assert hit.signals.coverage == 1.0
    assert not hit.is_weak
    assert answer.receipt.corrections == ()


@pytest.mark.parametrize("query", ["robin", "cabins", "lineup on fridge", "toxic", "trains"])
def test_little_words_and_letters_are_no_parts_of_other_words(written: Memory, query: str) -> None:
    assert not any(" " in meant for _, meant in written.search(query).receipt.corrections)


def test_two_words_that_stand_together_are_not_joined(written: Memory) -> None:
    written.store("The backseat is folded.", key="folded")
    answer = written.search("back seat", mode="keyword")
    assert [hit.document.key for hit in answer if hit.document.key == "folded"] == []


@pytest.mark.parametrize(
    ("text", "query", "meant"),
    [
        ("The plumber is called Łukasz.", "Lukasz", "łukasz"),
        ("The electrician is called Yıldız.", "YILDIZ", "yıldız"),
        ("She works for Nørgaard on turbines.", "norgaard", "nørgaard"),
        ("Turn left into the Hauptstraße.", "Hauptstrasse", "hauptstraße"),
        ("The dentist is called Moller.", "Møller", "moller"),
        ("Boats are mended by Ægir.", "Aegir", "ægir"),
        ("Tennis with Đoković is at nine.", "Djokovic", "đokovic"),
        ("The fiddle belongs to O'Reilly.", "oreilly", "o reilly"),
        ("Ёжик спит в саду.", "ежик", "ёжик"),
        ("Переплётчик пришёл в мастерскую.", "переплетчик", "переплётчик"),
        ("Елка стоит в зале.", "ёлка", "елка"),
    ],
)
def test_a_letter_that_a_keyboard_lacks_is_put_in_and_told(
    memory: Memory, text: str, query: str, meant: str
) -> None:
    memory.store(text, key="letter")
    answer = memory.search(query)
    assert answer.receipt.corrections == ((query.lower(), meant),)
    assert answer[0].document.key == "letter"
    assert not answer[0].is_weak


@pytest.mark.parametrize("query", ['"Lukasz"', "Lukas*", "lodger", "dinner", "все", '"ежик"'])
def test_no_letter_is_put_in_where_none_is_missing(memory: Memory, query: str) -> None:
    memory.store("The plumber is called Łukasz, from Łódź.", key="letter")
    memory.store("Ёжик знает всё, и все знают ёжика.", key="hedgehog")
    assert memory.search(query).receipt.corrections == ()


def test_a_letter_of_a_note_out_of_sight_is_never_told(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "other.db", project="theirs") as theirs:
        theirs.store("The plumber is called Łukasz.")
    with Memory.open(tmp_path / "other.db", project="ours") as ours:
        ours.store("The plumber has no name.")
        assert ours.search("plumber Lukasz").receipt.corrections == ()
