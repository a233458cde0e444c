"""What a search does with queries at the edges: none, any, nonsense, far too long."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from plait import Memory
from plait.errors import UsageError
from plait.types import FusionName
from tests.codes import has_code

DAY_MS = 86_400_000
FIRST_DAY = 1_700_000_000_000


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "m.db", project="") as opened:
        for number, text in enumerate(("Herons fish at dawn.", "Cranes dance.", "Gulls steal.")):
            opened.store(
                text, key=f"bird {number}", event_at=FIRST_DAY + number * DAY_MS, tags=["bird"]
            )
        yield opened


@pytest.mark.parametrize("query", ["", " \n", "*", " * "])
def test_a_query_without_words_lists_the_newest_first(memory: Memory, query: str) -> None:
    answer = memory.search(query, limit=2, explain=True)
    assert [hit.doc_id for hit in answer] == ["bird 2", "bird 1"]
    assert answer[0].score > answer[1].score
    assert answer[0].reasons == ("the newest documents: the query has no words",)
    assert answer.receipt.degraded == ()
    assert not memory.search(query, where={"tags": "fish"})


def test_recall_needs_a_question(memory: Memory) -> None:
    with pytest.raises(UsageError, check=has_code("empty_query")):
        memory.recall(" ")


@pytest.mark.parametrize("fusion", ["weighted", "rrf", "max"])
def test_nonsense_finds_nothing(memory: Memory, fusion: FusionName) -> None:
    assert memory.search("qqqqzzzz", fusion=fusion) == ()


@pytest.mark.parametrize(
    "query",
    [
        "what\u2019s quantum entanglement",  # the apostrophe of a phone
        "quantum\u00a0entanglement",
        "quantum \u2013 entanglement\u2026",
        "quantum \U0001f680 entanglement",
        "\u20ac5 quantum",
    ],
)
def test_marks_beyond_ascii_make_no_other_language_of_a_question(
    memory: Memory, query: str
) -> None:
    plain = query.encode("ascii", "replace").decode().replace("?", " ")
    assert memory.search(plain) == memory.search(query) == ()


def test_words_of_another_alphabet_are_no_nonsense(memory: Memory) -> None:
    assert memory.search("\u043a\u0432\u0430\u043d\u0442 \u0438 \u0446\u0430\u043f\u043b\u044f")


def test_a_hit_with_little_evidence_is_marked_weak(memory: Memory) -> None:
    for hit in memory.search("zebra unicorn quartz dance lyrics"):
        assert hit.is_weak == (hit.relevance < 0.25)
    assert not memory.search("herons fish")[0].is_weak


@pytest.mark.parametrize(
    ("query", "is_evidence"),
    [
        ('"to be or not to be"', True),
        ('+"to be or not to be"', True),
        ('"to be or not to be" NOT herons', True),
        ('"to be"', False),  # many a sentence has two little words side by side
        ("to be or not to be", False),
        ('"to be or not to be" OR that', False),
        ("NEAR(to be not, 5)", False),
    ],
)
def test_a_quoted_phrase_of_little_words_is_evidence(
    memory: Memory, query: str, is_evidence: bool
) -> None:
    for number in range(60):
        memory.store(f"Gull {number} steals a herring of {number} grams.", key=f"gull {number}")
    memory.store("To be or not to be, that is what he asked.", key="monologue")
    memory.store("Not all of it is to be read, or so they say.", key="other")
    hits = memory.search(query, mode="keyword")
    assert hits[0].document.key == "monologue"
    assert (not hits[0].is_weak) is is_evidence
    assert all(hit.is_weak for hit in hits[1:])


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (" ".join(f"w{n}" for n in range(64)), False),
        (" ".join(f"w{n}" for n in range(65)), True),
        ("herons " * 500, False),
        ("herons " * 1000, True),
    ],
    ids=["64 words", "65 words", "one word 500 times", "7,000 bytes"],
)
def test_words_beyond_the_limit_are_told(memory: Memory, query: str, told: bool) -> None:
    notices = [notice.code for notice in memory.search(query).receipt.degraded]
    assert notices == (["long_query"] if told else [])
