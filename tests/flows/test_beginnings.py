"""``prefix*`` finds every word that begins like it, although the index has stems."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.memory import Memory
from plait.protocols import Store
from plait.searching.evidence import survey
from plait.searching.scoring import Request
from plait.stores.sqlite.store import SQLiteStore
from plait.testing import HashingEmbedder, InMemoryStore
from plait.text import parse
from tests.builders import memory_on

# One in each note. Some lose an ending to the stemmer, double a letter before it, or change a "y".
_LISTED = """
warning electricity application allotment darkness extensible combination conference stopped
splitting living spacing identically configuring liability endurance attention fried studies
keyboard keys bicycle encrypted playground payment buses nosql posture aws awkward newsletter
happiness relational organizer criticism possibility effectively adequacy logging hopping
tls13 dns01
keine keystone
"""
WORDS = _LISTED.split()
ENGINES: dict[str, Callable[[], Store]] = {
    "sqlite": lambda: SQLiteStore(":memory:"),
    "dictionaries": InMemoryStore,
}


def filled(store: Store, *, vectors: bool = False) -> Memory:
    memory = memory_on(store, HashingEmbedder() if vectors else None)
    for word in WORDS:
        memory.store(f"A note on {word}, nothing else.", key=word)
    return memory


@pytest.fixture(params=ENGINES)
def memory(request: pytest.FixtureRequest) -> Iterator[Memory]:
    with filled(ENGINES[request.param]()) as opened:
        yield opened


@pytest.fixture(scope="module")
def by_both() -> Iterator[Memory]:
    with filled(SQLiteStore(":memory:"), vectors=True) as opened:
        yield opened


@given(word=st.sampled_from(WORDS), data=st.data())
def test_a_prefix_finds_every_word_that_begins_with_it(
    by_both: Memory, word: str, data: st.DataObject
) -> None:
    start = word[: data.draw(st.integers(3, len(word)))]
    hits = by_both.search(f"{start}*", strict=True, limit=len(WORDS))
    assert {hit.doc_id for hit in hits} >= {other for other in WORDS if other.startswith(start)}
    assert not hits.receipt.degraded
    assert hits[0].signals.matched == (start,)


@pytest.mark.parametrize("query", ["warni*", "key*", "bicy*", "splitt*", "applicati*"])
def test_what_completes_a_prefix_counts_as_the_word_that_was_asked_for(
    memory: Memory, query: str
) -> None:
    hits = memory.search(query, strict=True, explain=True)
    assert hits
    for hit in hits:
        assert hit.document.key is not None
        assert hit.document.key.startswith(query[:-1])
        assert hit.signals.matched == (query[:-1],)
        assert hit.signals.coverage == 1.0
        assert not hit.is_weak


@pytest.mark.parametrize(("query", "wrong"), [("nos*", "note"), ("aws*", "awkward")])
def test_a_prefix_that_ends_like_a_plural_is_not_cut_short(
    memory: Memory, query: str, wrong: str
) -> None:
    """Every note has the word "note"."""
    hits = memory.search(query, strict=True, limit=len(WORDS))
    assert [hit.document.key for hit in hits if hit.document.key == wrong] == []
    assert len(hits) == 1


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("note NOT key*", len(WORDS) - 3),
        ("note NOT warni*", len(WORDS) - 1),
        ("warni* OR key*", 4),
        ('+"note on warni"*', 1),
        ("warni* AND nothing", 1),
        ("warni* AND key*", 0),
        ("warni* AND warning", 1),
        ("key* OR keys", 3),
        ("key* OR keyb*", 3),
    ],
)
def test_a_prefix_means_the_same_in_every_place(memory: Memory, query: str, expected: int) -> None:
    assert len(memory.search(query, strict=True, limit=len(WORDS))) == expected


def test_a_passage_counts_once_however_many_words_would_have_its_stem(
    by_both: Memory,
) -> None:
    """Those are "warning" and "warnings" here."""
    request = Request("warni*", strict=True)
    _, vocabulary = survey(by_both.engine, None, request, parse(request.text, strict=True))
    assert vocabulary.holding["warni"] == 1


@pytest.mark.parametrize(("query", "found"), [("tls*", "tls13"), ("dns*", "dns01")])
def test_a_number_may_follow_what_ends_like_a_plural(
    memory: Memory, query: str, found: str
) -> None:
    assert [hit.document.key for hit in memory.search(query, strict=True)] == [found]


@pytest.mark.parametrize(
    ("query", "following"),
    [
        ("warni* AND xylophone", {"warning"}),
        ("key* AND xylophone", {"keyboard", "keys", "keystone"}),
        ("key* AND xylophone NOT keyboard", {"keys", "keystone"}),
    ],
)
def test_where_words_follow_a_prefix_finds_what_it_finds_alone(
    memory: Memory, query: str, following: set[str]
) -> None:
    hits = memory.search(query)
    assert {hit.document.key for hit in hits} == following
    assert [notice.code for notice in hits.receipt.degraded] == ["words_follow"]


def test_a_prefix_that_begins_nothing_finds_nothing(memory: Memory) -> None:
    assert not memory.search("warnx*", strict=True)
    assert not memory.search("zzy*", strict=True)
