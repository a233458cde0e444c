"""Any string is a valid search, answers within its time limit, and quoted literals are found."""

import random
import time
from collections.abc import Iterator
from itertools import count
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plait.errors import StoreError
from plait.memory import Memory
from plait.protocols import Entry
from plait.searching.scoring import Request
from plait.searching.search import search
from plait.types import Answer, Document, Passage
from tests.builders import write
from tests.reliability import memories, plants
from tests.reliability.scale import SCALE

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

MEGABYTE = 1_000_000
# Things people look for literally, and which full-text syntax would read as something else.
LITERALS = """
We pinned ubuntu 20.04 and python3.11-slim for the runner of foo-bar.
Set FOO_BAR="1" (see https://example.com/a/b?c=d&e=f#g) before c++ or C# builds.
Mail ops@example.com about error E_NOENT: 0x7f-42 ~ 3.5% of AND/OR cases NOT near $HOME/.ssh/id_rsa.
The key is sk_live_51H8x; the host is db-01.internal:5432, user "root", pid {42}.
これは日本語の文章です。東京タワーは高い。
鍵のローテーションは四半期ごとに行う。
การหมุนคีย์ทุกไตรมาส เป็นกฎของทีม
Überprüfung der Größe: naïve café, façade, Ångström, ﬁle, İstanbul.
ключ ротация каждый квартал; שלום עולם; مرحبا بالعالم; नमस्ते दुनिया
emoji 🚀🔥 launch 👩‍👩‍👧 day; tabs\tand  double  spaces; it's the user's don't
""".strip().splitlines()

operators = st.sampled_from(
    [
        *("AND", "OR", "NOT", "NEAR(", "NEAR", "(", ")", '"', "*", "^", "+", "-", ":", ",", "{"),
        *("}", "text:", "title :", "rowid", "a*", "* a", "''", "\0", "\ud800", "5)", "--", ";"),
        *("\u24b6", "\u216b", "\u2160\u2161", "LED", "wi-fi", "2026-03-03", "03/04", "thanks"),
    ]
)
anything = st.text(st.characters(exclude_categories=()), max_size=40)
queries = st.one_of(
    anything,
    st.lists(st.one_of(operators, st.sampled_from(memories.WORDS), anything), max_size=25).map(
        " ".join
    ),
    st.lists(operators, max_size=60).map("".join),
    st.lists(st.sampled_from(LITERALS), min_size=1, max_size=3).map(" ".join),
)
ENORMOUS = {
    "one word": "a" * MEGABYTE,
    "many words": "anchor " * (MEGABYTE // 7),
    "distinct words": " ".join(f"w{number}" for number in range(MEGABYTE // 8)),
    "quotes": '"' * MEGABYTE,
    "brackets": "(" * MEGABYTE,
    "nested brackets": "(" * 1_000 + "anchor" + ")" * 1_000,
    "NEAR": "NEAR(" * (MEGABYTE // 5),
    "AND": "anchor AND " * (MEGABYTE // 11),
    "NOT": "NOT " * (MEGABYTE // 4),
    "stars": "a* " * (MEGABYTE // 3),
    "NUL": "\0" * MEGABYTE + "a",
    "surrogates": "\ud800" * MEGABYTE,
    "Japanese": "日本" * (MEGABYTE // 2),
    "marks": "e" + "\u0301" * MEGABYTE,
    "spaces": " " * MEGABYTE + "a",
}

# What a search may tell of any query.
TOLD = {"long_query", "many_beginnings", "operators_misread", "words_follow", "not_left_out"}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    path = tmp_path_factory.mktemp("small") / "memory.db"
    with memories.open_memory(path, 16, durability="normal") as memory:
        for number, line in enumerate(LITERALS):
            memory.store(line, key=f"literal{number}")
        for number in range(20):
            memory.store(memories.prose(f"n{number}"), key=f"n{number}")
        yield memory


@settings(
    max_examples=SCALE.queries,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(query=queries, mode=st.sampled_from(["keyword", "hybrid", "vector"]))
def test_any_string_is_a_valid_search(small, query, mode):
    answer = small.search(query, mode=mode, limit=3, window=1, explain=True)
    assert {notice.code for notice in answer.receipt.degraded} <= TOLD
    for hit in answer:
        assert 0.0 <= hit.relevance <= 1.0
        assert all(0 <= start < end <= len(hit.snippet) for start, end in hit.highlights)


@pytest.mark.parametrize("name", ENORMOUS)
def test_a_megabyte_is_a_query_like_any_other(small, name):
    began = time.thread_time()
    answer = small.search(ENORMOUS[name], mode="keyword")
    assert {notice.code for notice in answer.receipt.degraded} <= TOLD
    # Processor time, not the clock on the wall: a busy machine is no failure.
    assert time.thread_time() - began < 2.0


def test_a_quoted_literal_is_always_found(small):
    dice = random.Random(11)
    missed = []
    for _ in range(SCALE.literals):
        number = dice.randrange(len(LITERALS))
        words = LITERALS[number].split()
        start = dice.randrange(len(words))
        literal = " ".join(words[start : start + dice.randint(1, 6)]).replace('"', " ")
        if not any(char.isalnum() for char in literal):
            continue
        hits = small.search(f'"{literal}"', mode="keyword", limit=50)
        if f"literal{number}" not in {hit.doc_id for hit in hits}:
            missed.append(literal)
    assert missed == []


# -- killers: queries that made full-text search run for seconds or minutes -------------------

PASSAGES_PER_DOCUMENT = 200
CROWD = 20_000
COMMON = "water"


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """20,000 passages of 50 words, all of which begin with the same letter."""
    path = tmp_path_factory.mktemp("crowd") / "memory.db"
    dice = random.Random(3)
    vocabulary = [f"w{dice.randrange(10**6)}" for _ in range(5_000)]
    with memories.open_memory(path, 16, durability="normal") as memory:
        store = memories.store_of(memory)
        for number in range(CROWD // PASSAGES_PER_DOCUMENT):
            passages, start = [], 0
            for ordinal in range(PASSAGES_PER_DOCUMENT):
                text = " ".join([*dice.choices(vocabulary, k=40), *[COMMON] * 10]) + "\n"
                line = ordinal + 1
                passages.append(Passage(text, "", line, line, start, ordinal))
                start += len(text)
            document = Document(key=f"d{number}", created_at=1, event_at=1, indexed_at=1)
            write(store, Entry(document, passages))
        yield memory


STOPPED = {
    "prefix": "w*",
    "prefixes": " OR ".join(["w*"] * 5),
    "all prefixes": " AND ".join(["w*"] * 30),
    "many prefixes": "w* " * 64,
    "negation": "w* NOT anchor",
    "near itself": f"NEAR({' '.join([COMMON] * 30)}, 10)",
    "phrase of one word": '"' + " ".join([COMMON] * 9) + '" OR w1*',
}
CAPPED = {
    "thousand words": " ".join(f"w{number}" for number in range(1_000)),
    "thousand alternatives": " OR ".join(f"w{number}" for number in range(1_000)),
    "word with itself": " AND ".join([COMMON] * 300),
}


def ask(memory: Memory, query: str, deadline: float) -> Answer:
    request = Request(query, mode="keyword", deadline=deadline)
    return search(memory.engine, lambda _: memory.embedder, request)


def looks_at_the_clock(memory: Memory, query: str) -> Answer:
    """Search with a clock that moves by a tenth of a second whenever somebody looks at it."""
    ticks = count()
    with mock.patch("time.monotonic", lambda: next(ticks) / 10):
        return ask(memory, query, deadline=2.0)


@pytest.mark.parametrize("name", STOPPED)
def test_a_killer_is_stopped_at_its_time_limit(crowd, name):
    [notice] = looks_at_the_clock(crowd, STOPPED[name]).receipt.degraded
    assert notice.code == "deadline_exceeded"


@pytest.mark.parametrize("name", [*STOPPED, *CAPPED])
def test_a_killer_does_not_overrun_its_time_limit(crowd, name):
    deadline, grace = 0.2, 0.5
    began = time.thread_time()
    ask(crowd, {**STOPPED, **CAPPED}[name], deadline)
    assert time.thread_time() - began < deadline + grace


def test_after_a_killer_the_memory_answers_as_before(crowd):
    looks_at_the_clock(crowd, STOPPED["prefix"])
    answer = ask(crowd, COMMON, deadline=60.0)
    assert len(answer) == 10
    assert answer.receipt.degraded == ()


def test_the_killers_catch_a_search_without_time_limit(crowd):
    with plants.planted("no deadline"):
        assert looks_at_the_clock(crowd, STOPPED["prefix"]).receipt.degraded == ()


@pytest.mark.parametrize("query", ["foo-bar", "20.04", "C#", "don't", "a:b", '"', "a AND", "NEAR("])
def test_the_strings_catch_a_query_that_reaches_fts_as_it_was_typed(small, query):
    # FTS5 calls some of them wrong, and in others it looks for a column that a sound file has.
    with plants.planted("raw query"):
        try:
            answer = small.search(query, mode="keyword")
        except StoreError:
            return
    assert answer.receipt.degraded != ()
