"""The read path: modes, missing parts, floors, windows and reasons, from stored text to hits."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pytest

from plait.embedders import Embedder
from plait.errors import DeadlineExceeded, Notice, StoreDamaged, UsageError, advise
from plait.memory import Memory, named_embedder
from plait.protocols import Nearest, Scored, Store, Vector
from plait.searching.scoring import Request
from plait.searching.search import search
from plait.settings.loading import load
from plait.stores.sqlite.store import SQLiteStore
from plait.testing import HashingEmbedder, InMemoryStore
from plait.text import parse
from plait.types import (
    Answer,
    Document,
    Filter,
    FusionName,
    Hit,
    Mode,
    ModeName,
    Ref,
    Space,
    TextKind,
    Tuning,
)
from plait.types.queries import Query
from tests.builders import (
    NOW,
    SPACE,
    Counting,
    Failing,
    delete,
    entry,
    memory_on,
    vector,
    write,
)
from tests.codes import has_code

NOTES = {
    "deploy": "We deploy the web service on Fridays.",
    "keys": "Rotate the ssh keys every quarter.",
    "garden": "Tomatoes grow best in full sun.",
    "kubernetes": "The kubernetes cluster runs in Vienna.",
    "coffee": "Ana drinks her coffee black.",
}
FUSIONS = ("weighted", "rrf", "max")


@pytest.fixture
def embedder() -> Counting:
    return Counting()


@pytest.fixture
def filled(tmp_path: Path, embedder: Counting) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory.db", embedder=embedder, project="") as memory:
        for key, text in NOTES.items():
            memory.store(text, key=key)
        embedder.asked.clear()
        yield memory


class WatchedStore(InMemoryStore):
    """Notes how many candidates each branch is asked for; ``after_keyword`` acts in between."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, int] = {}
        self.deadlines: list[float | None] = []
        self.after_keyword: Callable[[], object] = lambda: None

    def keyword(
        self, query: Query, limit: int, where: Filter, *, deadline: float | None = None
    ) -> list[Scored]:
        self.asked["keyword"] = limit
        self.deadlines.append(deadline)
        hits = super().keyword(query, limit, where, deadline=deadline)
        self.after_keyword()
        return hits

    def vector(
        self,
        vector: Vector,
        space: Space,
        limit: int,
        where: Filter,
        *,
        also: Sequence[Ref] = (),
        latest: bool = False,
    ) -> Nearest:
        self.asked["vector"] = limit
        return super().vector(vector, space, limit, where, also=also, latest=latest)


@pytest.fixture
def watched(embedder: Counting) -> WatchedStore:
    """The notes, with vectors, in a store that can be watched."""
    store = WatchedStore()
    memory = memory_on(store, embedder)
    for key, text in NOTES.items():
        memory.store(text, key=key)
    embedder.asked.clear()
    store.asked.clear()
    return store


@pytest.fixture(params=["sqlite", "dictionaries"])
def engine(request: pytest.FixtureRequest) -> Callable[[], Store]:
    """Opens empty stores of one engine."""
    return InMemoryStore if request.param == "dictionaries" else lambda: SQLiteStore(":memory:")


def keys(answer: Answer) -> list[str]:
    return [hit.doc_id for hit in answer]


def reopened(filled: Memory, embedder: Any) -> Memory:
    return Memory.open(filled.path, embedder=embedder, project="")


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_what_an_operator_excludes_does_not_count_in_the_scores_of_the_others(
    engine: Callable[[], Store], mode: Mode
) -> None:
    def scores(*texts: str) -> list[float]:
        memory = memory_on(engine(), HashingEmbedder())
        for text in texts:
            memory.store(text, key=text)
        return [hit.score for hit in memory.search("(ssh OR tea) NOT coffee", mode=mode)]

    kept = "ssh keys are rotated by the people on call"
    nearer = "ssh tea coffee"
    assert scores(kept, nearer) == pytest.approx(scores(kept))


# Modes


@pytest.mark.parametrize("fusion", FUSIONS)
def test_hybrid_finds_by_word_and_by_likeness(filled: Memory, fusion: FusionName) -> None:
    answer = filled.search("ssh kuberntes", fusion=fusion)
    assert {"keys", "kubernetes"} <= set(keys(answer))
    assert answer.receipt.mode_used == "hybrid"
    assert answer.receipt.degraded == ()
    assert answer.receipt.fusion == fusion


@pytest.mark.parametrize("mode", ["keyword", "fts"])
def test_keyword_mode_never_asks_the_embedder(
    filled: Memory, embedder: Counting, mode: ModeName
) -> None:
    answer = filled.search("kuberntes ssh", mode=mode)
    assert keys(answer) == ["keys"]
    assert (answer.receipt.mode_asked, answer.receipt.mode_used) == ("keyword", "keyword")
    assert embedder.asked == []
    assert answer[0].source == "keyword"


@pytest.mark.parametrize("mode", ["vector", "vec"])
def test_vector_mode_never_looks_for_words(
    watched: WatchedStore, embedder: Counting, mode: ModeName
) -> None:
    answer = memory_on(watched, embedder).search("kuberntes", mode=mode)
    assert watched.asked.keys() == {"vector"}
    assert keys(answer)[0] == "kubernetes"
    assert (answer.receipt.mode_asked, answer.receipt.mode_used) == ("vector", "vector")
    assert {hit.source for hit in answer} == {"vector"}
    assert answer[0].signals.bm25 is None


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_weight_of_0_switches_its_branch_off_entirely(
    watched: WatchedStore, embedder: Counting, fusion: FusionName
) -> None:
    memory = memory_on(watched, embedder)
    by_word = memory.search("ssh keys", vector_weight=0.0, fusion=fusion)
    assert embedder.asked == []
    assert watched.asked.keys() == {"keyword"}
    assert (keys(by_word), by_word.receipt.mode_used) == (["keys"], "keyword")
    watched.asked.clear()
    by_likeness = memory.search("ssh keys", keyword_weight=0.0, fusion=fusion)
    assert watched.asked.keys() == {"vector"}
    assert keys(by_likeness)[0] == "keys"
    assert by_likeness.receipt.mode_used == "vector"


def test_the_source_of_a_hit_is_the_branch_that_listed_it(filled: Memory) -> None:
    answer = filled.search("rotate kuberntes", limit=5)
    sources = {hit.doc_id: hit.source for hit in answer}
    assert sources["keys"] == "hybrid"
    assert sources["kubernetes"] == "vector"


def test_weights_are_the_embedders_unless_the_caller_or_the_merge_has_its_own(
    filled: Memory,
) -> None:
    def weights(**options: Any) -> tuple[float, float]:
        receipt = filled.search("ssh", **options).receipt
        return receipt.keyword_weight, receipt.vector_weight

    tuning = filled.embedder.tuning
    assert weights() == (tuning.keyword_weight, tuning.vector_weight)
    assert weights(fusion="max") == weights(fusion="seed001") == (0.3, 0.7)
    assert weights(keyword_weight=0.2, vector_weight=0.5) == (0.2, 0.5)
    assert weights(keyword_weight=0.75) == (0.75, 0.25)
    assert weights(vector_weight=0.75) == (0.25, 0.75)


# Degraded


def degraded(answer: Answer) -> Notice:
    [notice] = answer.receipt.degraded
    return notice


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
@pytest.mark.parametrize("external", [False, True])
def test_an_embedder_that_is_down_leaves_the_words(
    filled: Memory, mode: ModeName, external: bool
) -> None:
    down = Failing()
    down.tuning = down.tuning._replace(external=external)
    with reopened(filled, down) as memory:
        answer = memory.search("ssh keys", mode=mode)
        assert keys(answer) == ["keys"]
        assert answer[0].score == pytest.approx(1.0)
        assert answer.receipt.mode_used == "keyword"
        assert degraded(answer).code == "embedder_failed"
        assert "the embedder is down" in degraded(answer).text


@pytest.mark.parametrize("keyword_weight", [0.0, 0.3, 1.0])
def test_the_words_keep_their_order_whatever_they_weigh(
    filled: Memory, keyword_weight: float
) -> None:
    filled.store("ssh and a great many other words, so that it matters less here", key="aaa")
    with reopened(filled, Failing()) as memory:
        answer = memory.search("ssh keys", keyword_weight=keyword_weight)
        assert keys(answer) == ["keys", "aaa"]
        assert answer[0].score > answer[1].score > 0.0


class Slow(HashingEmbedder):
    """An external embedder that answers only when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.tuning = self.tuning._replace(external=True)
        self.may_answer = Event()

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        if kind == "query":
            self.may_answer.wait(30)
        return super().embed(texts, kind)


def test_an_external_embedder_that_is_too_slow_is_not_waited_for(filled: Memory) -> None:
    slow, store = Slow(), filled.engine
    answer = search(store, lambda _: slow, Request("ssh keys", deadline=0.02))
    slow.may_answer.set()
    assert keys(answer) == ["keys"]
    assert degraded(answer).code == "embedder_failed"
    assert "did not answer within 0.02 s" in degraded(answer).text


def test_an_external_embedder_works_while_words_are_looked_for(watched: WatchedStore) -> None:
    slow = Slow()
    # If the embedder were waited for first, the search would never come to the words.
    watched.after_keyword = slow.may_answer.set
    answer = search(watched, lambda _: slow, Request("kuberntes", deadline=30.0))
    assert keys(answer)[0] == "kubernetes"
    assert answer.receipt.degraded == ()


def test_why_not_left_nothing_is_not_looked_for_without_a_time_limit(
    watched: WatchedStore, embedder: Counting
) -> None:
    request = Request("keys NOT ssh NOT keys", mode="keyword", strict=True)
    told = search(watched, lambda _: embedder, request)
    assert [notice.code for notice in told.receipt.degraded] == ["not_left_out"]
    assert None not in watched.deadlines

    def late() -> None:
        if len(watched.deadlines) > 1:
            raise DeadlineExceeded("late")

    watched.deadlines.clear()
    watched.after_keyword = late
    assert search(watched, lambda _: embedder, request).receipt.degraded == ()


def test_vectors_answer_by_the_embedder_that_made_them_until_a_reindex(filled: Memory) -> None:
    with reopened(filled, HashingEmbedder(64)) as memory:
        answer = memory.search("ssh keys")
        assert (keys(answer)[0], answer.receipt.mode_used) == ("keys", "hybrid")
        assert [hit.doc_id for hit in answer if not hit.is_weak] == ["keys"]
        assert answer.receipt.degraded == ()
        [notice] = memory.outdated_rules()
        assert notice.code == "other_embedder"
        assert "64 dims" in notice.text
        memory.reindex()
        assert memory.search("ssh keys").receipt.mode_used == "hybrid"
        assert memory.outdated_rules() == []


def test_another_space_is_said_aloud_and_never_compared(filled: Memory) -> None:
    with reopened(filled, HashingEmbedder(64)) as memory:
        memory.reindex()
    # No embedder that plait could open by itself makes 64 dims.
    with reopened(filled, HashingEmbedder(32)) as memory:
        answer = memory.search("ssh keys")
        assert keys(answer) == ["keys"]
        notice = degraded(answer)
        assert notice.code == "other_embedder"
        assert notice.advice == advise("reindex_with", embedder=memory.embedder.space.spec)
        assert "64 dims" in notice.text


def test_a_memory_without_vectors_yet_says_what_to_run(memory: Memory) -> None:
    memory.store("ssh keys", key="keys")
    with reopened(memory, HashingEmbedder()) as hashing:
        answer = hashing.search("ssh")
        assert keys(answer) == ["keys"]
        spec = hashing.embedder.space.spec
        assert degraded(answer)[1:] == ("no_vectors", "", advise("reindex_with", embedder=spec))


def test_no_embedder_is_no_trouble_unless_vectors_were_asked_for(memory: Memory) -> None:
    memory.store("ssh keys", key="keys")
    assert memory.search("ssh").receipt.degraded == ()
    answer = memory.search("ssh", mode="vector")
    assert keys(answer) == ["keys"]
    assert degraded(answer).code == "no_embedder"


def test_an_empty_memory_answers_with_nothing_and_no_complaint(hashing_memory: Memory) -> None:
    answer = hashing_memory.search("anything")
    assert (tuple(answer), answer.receipt.degraded) == ((), ())


class Nonsense(HashingEmbedder):
    """Good for passages, nonsense for queries."""

    def __init__(self, answer: Vector | None) -> None:
        super().__init__()
        self._answer = answer

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        return [self._answer] if kind == "query" else super().embed(texts, kind)


@pytest.mark.parametrize(
    "answer",
    [vector(*[0.0] * 256), vector(*[float("nan")] * 256), vector(1.0), None],
    ids=["zero", "nan", "wrong length", "declined"],
)
@pytest.mark.parametrize("mode", ["hybrid", "vector"])
def test_a_query_vector_that_is_none_leaves_the_words(
    filled: Memory, answer: Vector | None, mode: ModeName
) -> None:
    with reopened(filled, Nonsense(answer)) as memory:
        by_word = memory.search("ssh keys", mode=mode)
        assert keys(by_word) == ["keys"]
        assert by_word.receipt.mode_used == "keyword"
        assert len(by_word.receipt.degraded) == (answer is not None)


@pytest.mark.parametrize(
    ("trouble", "code", "detail"),
    [
        (DeadlineExceeded("late"), "deadline_exceeded", "2 s"),
        (StoreDamaged("broken"), "store_damaged", "broken"),
    ],
)
def test_when_the_words_fail_likeness_answers(
    watched: WatchedStore, embedder: Counting, trouble: Exception, code: str, detail: str
) -> None:
    def fail() -> None:
        raise trouble

    watched.after_keyword = fail
    answer = memory_on(watched, embedder).search("kubernetes")
    assert keys(answer)[0] == "kubernetes"
    assert degraded(answer).code == code
    assert detail in degraded(answer).text


def test_a_keyword_search_stops_at_its_deadline(store: SQLiteStore) -> None:
    write(store, *(entry(f"{n}", "common words " * 20) for n in range(300)))
    with pytest.raises(DeadlineExceeded):
        store.keyword(parse("common words"), 10, Filter(), deadline=0.0)
    assert len(store.keyword(parse("common words"), 10, Filter())) == 10


def test_a_note_stored_while_the_embedder_was_down_keeps_its_place(filled: Memory) -> None:
    with reopened(filled, Failing()) as memory:
        memory.store("Rotate the ssh keys of the backup host too.", key="pending")
    answer = filled.search("rotate ssh keys", explain=True)
    assert answer.receipt.pending_vectors == 1
    assert keys(answer)[:2] == ["keys", "pending"]
    pending = answer[1]
    assert pending.signals.cosine is None
    assert any("vector pending" in reason for reason in pending.reasons)


# Requests that make no sense


@pytest.mark.parametrize(
    ("options", "code", "subject"),
    [
        ({"limit": 0}, "bad_value", "limit"),
        ({"limit": -1}, "bad_value", "limit"),
        ({"limit": 1_000_000}, "bad_value", "limit"),
        ({"window": 6}, "bad_value", "window"),
        ({"window": -1}, "bad_value", "window"),
        ({"min_score": 1.1}, "bad_value", "min_score"),
        ({"min_score": float("nan")}, "bad_value", "min_score"),
        ({"mode": "magic"}, "bad_value", "mode"),
        ({"fusion": "magic"}, "bad_value", "fusion"),
        ({"where": {"colour": "red"}}, "unknown_filter", "colour"),
        ({"where": {"kinds": ("thing",)}}, "bad_value", "kinds"),
        ({"where": {"since": "soonish"}}, "bad_time", "since"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_in_a_sentence(
    filled: Memory, options: dict[str, Any], code: str, subject: str
) -> None:
    with pytest.raises(UsageError, check=has_code(code, subject)):
        filled.search(**{"query": "ssh", **options})


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({"keyword_weight": 1.5}, "keyword_weight is 1.5"),
        ({"vector_weight": float("nan")}, "vector_weight is nan"),
        ({"keyword_weight": 0.8, "vector_weight": 0.8}, "1.6"),
        ({"keyword_weight": 0.0, "vector_weight": 0.0}, "0"),
    ],
)
def test_weights_that_make_no_sense_are_refused_with_their_values(
    filled: Memory, options: dict[str, Any], value: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(value)):
        filled.search("ssh", **options)


@pytest.mark.parametrize(
    "query", ["???", "AND OR NOT", '"', "-", "日本", "a" * 10_000, "\0", "\ud800"]
)
def test_any_other_string_is_a_query(filled: Memory, query: str) -> None:
    assert filled.search(query).receipt.query == query


@pytest.mark.parametrize(("limit", "count"), [(1, 1), (3, 3), (1000, 5)])
def test_there_are_at_most_as_many_hits_as_asked_for(
    filled: Memory, limit: int, count: int
) -> None:
    answer = filled.search("the ssh deploy sun coffee kubernetes", limit=limit)
    assert len(answer) == count
    scores = [hit.score for hit in answer]
    assert scores == sorted(scores, reverse=True)


# Order and evidence are two numbers


@pytest.mark.parametrize("fusion", FUSIONS)
def test_min_score_tests_relevance_not_order(filled: Memory, fusion: FusionName) -> None:
    # Dividing by the maximum makes the best of nonsense look perfect; its relevance does not.
    nonsense = filled.search("zebra unicorn keys", fusion=fusion)
    assert nonsense[0].relevance < 0.3
    assert filled.search("zebra unicorn keys", fusion=fusion, min_score=0.3) == ()
    for floor in (0.0, 0.3, 0.7):
        answer = filled.search("rotate ssh keys", fusion=fusion, min_score=floor)
        assert all(hit.relevance >= floor for hit in answer)
        assert keys(answer)[:1] == ["keys"]


def test_min_score_looks_behind_the_best_until_the_answer_is_full(filled: Memory) -> None:
    for number in range(60):
        filled.store(f"the weather on day {number} was fine", key=f"day {number:02}")
    everything = filled.search("weather ssh", limit=70)
    floor = max(hit.relevance for hit in everything) - 0.01
    convincing = [hit.doc_id for hit in everything if hit.relevance >= floor]
    assert 0 < len(convincing) < len(everything)
    assert keys(filled.search("weather ssh", limit=70, min_score=floor)) == convincing
    assert keys(filled.search("weather ssh", limit=1, min_score=floor)) == convincing[:1]


def test_floor_rrf_tests_the_normalised_rrf_score(tmp_path: Path) -> None:
    flags = {"db_path": str(tmp_path / "r.db"), "fusion": "rrf", "floor": "rrf", "project": ""}
    with Memory.open(config=load(flags), embedder="none") as memory:
        for number in range(5):
            memory.store("apple " * (5 - number) + "and filler " * number, key=f"{number}")
        scores = [hit.score for hit in memory.search("apple")]
        assert scores == pytest.approx([61 / (60 + rank) for rank in range(1, 6)])
        assert len(memory.search("apple", min_score=0.97)) == 2
        by_relevance = memory.search("apple", min_score=0.2, fusion="weighted")
        assert len(by_relevance) == 5
        assert len(memory.search("apple", min_score=0.99, fusion="weighted")) == 0


def test_relevance_does_not_depend_on_the_other_hits(filled: Memory) -> None:
    def of_keys(query: str) -> float:
        return {hit.doc_id: hit.relevance for hit in filled.search(query, mode="keyword")}["keys"]

    alone = of_keys("ssh")
    filled.store("ssh for tomatoes", key="sun")
    assert of_keys("ssh") == pytest.approx(alone, abs=0.1)
    assert not filled.search("ssh", mode="keyword")[0].is_weak


@pytest.mark.parametrize("limit", [5, 50])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("river AND invoice", 4),
        ("river AND invoice NOT xylophone", 4),
        ("riv* AND invoi*", 4),
        ("(river OR creek) AND (invoice OR bill)", 4),
        ("river AND xylophone", 0),
    ],
)
def test_vectors_alone_find_all_that_operators_match(
    tmp_path: Path, query: str, expected: int, limit: int
) -> None:
    # More are nearer than are looked at, and none of them matches.
    notes = [f"{word} {n}: the {word}." for word in ("River", "Invoice") for n in range(120)]
    bread = "Grandmother bakes bread with rye and caraway on Saturday, while the cat sleeps. "
    notes += [f"{bread * 3} The river rose. An invoice of {n} came." for n in range(4)]
    with Memory.open(tmp_path / "m.db", project="") as memory:
        memory.store_many(Document(key=str(n), text=text) for n, text in enumerate(notes))
        answer = memory.search(query, mode="vector", strict=True, limit=limit)
    assert len(answer) == expected
    scores = [hit.score for hit in answer]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert {hit.signals.vector_rank for hit in answer} == {*range(1, expected + 1)}


# What a hit carries


def test_a_hit_carries_what_every_seed_promised(filled: Memory) -> None:
    hit = filled.search("ssh keys")[0]
    assert (hit.doc_id, hit.chunk_id) == ("keys", "keys-0")
    assert hit.text == hit.content == NOTES["keys"]
    assert (hit.start_line, hit.end_line) == (1, 1)
    assert (hit.file_path, hit.memory_type, hit.heading) == (None, None, "")
    assert hit.chunk_rowid == hit.passage.ref > 0
    assert 0.0 <= hit.score <= 1.0
    shown = [hit.snippet[start:end] for start, end in hit.highlights]
    assert shown == ["ssh", "keys"]
    assert hit.signals.matched == ("keys", "ssh")
    assert (hit.signals.keyword_rank, hit.signals.vector_rank) == (1, 1)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("#todo call the plumber\nand buy milk", "plumber"),
        ("#include <stdio.h>\nint main(void);", "stdio"),
        ("# Plan\n\n#1 paint the fence\n#2 repair the gate", "fence"),
        ("#ops #urgent\n\nRestart the gateway.", "urgent"),
        ("####### seven marks\n\nNo heading.", "seven"),
    ],
)
def test_a_line_that_begins_with_a_number_sign_is_shown(
    memory: Memory, text: str, word: str
) -> None:
    memory.store(text, key="a")
    [hit] = memory.search(word, mode="keyword")
    assert word in [hit.snippet[start:end].lower() for start, end in hit.highlights]
    body = text.removeprefix("# Plan\n\n")
    assert hit.snippet == " ".join(body.split())


@pytest.mark.parametrize("heading", ["# Plan", "###### Plan", "#\tPlan", "# A\n\n## Plan"])
def test_a_heading_is_shown_beside_the_snippet_only(memory: Memory, heading: str) -> None:
    memory.store(f"{heading}\n\nPaint the fence.", key="a")
    assert memory.search("fence", mode="keyword")[0].snippet == "Paint the fence."


def test_words_of_title_heading_and_tags_count_as_found(memory: Memory) -> None:
    memory.store("# Servers\n\nPort 22.", key="a", title="Gateway", tags=["ssh"])
    hit = memory.search("gateway servers ssh")[0]
    assert hit.signals.coverage == 1.0 and not hit.is_weak


def test_the_receipt_tells_what_the_answer_cost(filled: Memory) -> None:
    receipt = filled.search("ssh kubernetes").receipt
    assert receipt.query == "ssh kubernetes"
    assert receipt.keyword_candidates == 2
    assert receipt.vector_candidates >= 2
    assert receipt.candidates >= receipt.keyword_candidates
    assert receipt.pending_vectors == 0
    assert receipt.indexed_at == filled.stats().indexed_at
    assert receipt.milliseconds >= 0.0
    assert receipt.tokens > 0


LONG = "".join(
    f"## Part {n}\n\nThis is part number {n}. {'More of it. ' * 90}\n\n" for n in range(5)
)


@pytest.mark.parametrize("window", [0, 1, 2, 5])
def test_a_window_adds_the_neighbours_without_repeating_them(memory: Memory, window: int) -> None:
    memory.store(LONG, key="long")
    pieces = memory.passages_of(memory.lookup("long")[0].id)
    hit = memory.search("number 2", window=window)[0]
    middle = hit.passage.ordinal
    wanted = pieces[max(0, middle - window) : middle + window + 1]
    first, last = wanted[0], wanted[-1]
    body = memory.lookup("long")[0].text
    assert hit.text == body[first.start : last.start + len(last.text)]
    assert hit.passage.text in hit.text


def test_best_per_document_shows_each_document_once(memory: Memory) -> None:
    memory.store(LONG, key="long")
    memory.store("part of something else", key="short")
    assert len(memory.search("part")) > 2
    best = memory.search("part", best_per_document=True)
    assert sorted(keys(best)) == ["long", "short"]
    everything = memory.search("part")
    assert [hit.id for hit in best] == [
        next(hit.id for hit in everything if hit.doc_id == key) for key in keys(best)
    ]


def contributions(hit: Hit) -> float:
    parts = "keyword|vector|neighbours|words|sentence"
    numbers = re.compile(rf"^(?:{parts}) (?:.* = )?(-?[\d.]+)(?: \(|$)")
    return sum(float(match[1]) for line in hit.reasons if (match := numbers.match(line)))


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
@pytest.mark.parametrize("weight", [None, 0.0, 0.25, 1.0])
def test_the_reasons_of_every_hit_add_up_to_its_score(
    filled: Memory, fusion: FusionName, mode: ModeName, weight: float | None
) -> None:
    answer = filled.search(
        "ssh kubernetes coffe", fusion=fusion, mode=mode, keyword_weight=weight, explain=True
    )
    assert answer
    for hit in answer:
        assert contributions(hit) == pytest.approx(hit.score, abs=2e-4)
        assert f"score {hit.score:.4f}" in hit.reasons


def test_a_reply_is_found_through_the_message_that_it_answers(tmp_path: Path) -> None:
    turns = ["Shall we meet at the harbour museum?", "Yes, at noon!", "Fine.", "Bring a coat."]
    strangers = ["The museum is closed.", "A harbour in the north."]
    with Memory.open(tmp_path / "talk.db", embedder="none", project="") as memory:
        memory.store_many(
            [
                *(Document(kind="message", session="s", key=f"s/{n}", text=t)
                  for n, t in enumerate(turns)),
                *(Document(kind="message", session=t, key=f"x/{n}", text=t)
                  for n, t in enumerate(strangers)),
            ]
        )  # fmt: skip
        answer = memory.search("meet harbour museum noon", explain=True)
        assert keys(answer)[:2] == ["s/1", "s/0"]
        assert any(line.startswith("neighbours 0.") for line in answer[0].reasons)
        assert [contributions(hit) for hit in answer] == pytest.approx(
            [hit.score for hit in answer], abs=2e-4
        )
        assert keys(memory.search("meet harbour museum noon", limit=1)) == ["s/1"]


# No two of these tie for a question: a branch ranks equal passages in the order of their writing.
TALKS = {
    "harbour": [
        "Shall we meet at the harbour museum?",
        "Yes, at noon!",
        "Fine, see you there.",
        "Bring a coat, the wind at the pier is cold.",
    ],
    "garden": [
        "When do the tomatoes get their water?",
        "Every evening, before noon it burns the leaves.",
        "And who waters them at the museum?",
        "Nobody does.",
    ],
    "ships": [
        "Which of all these ships lie in the harbour today?",
        "Two ferries and a grain freighter.",
        "Do they leave at noon?",
        "Only the freighter.",
    ],
}


def turns_of(name: str, *, numbered: bool = False) -> list[Document]:
    return [
        Document(
            kind="message",
            session=name,
            key=f"{name}/{number}",
            text=text,
            event_at=NOW,
            turn=number if numbered else None,
        )
        for number, text in enumerate(TALKS[name])
    ]


def one_after_the_other() -> list[Document]:
    return [turn for name in TALKS for turn in turns_of(name)]


def round_robin() -> list[Document]:
    return [turn for turns in zip(*map(turns_of, TALKS), strict=True) for turn in turns]


def interleaved_at_random() -> list[Document]:
    waiting = [turns_of(name) for name in TALKS]
    places = [place for place, turns in enumerate(waiting) for _ in turns]
    Random(7).shuffle(places)
    return [waiting[place].pop(0) for place in places]


def shuffled_with_numbers() -> list[Document]:
    turns = [turn for name in TALKS for turn in turns_of(name, numbered=True)]
    Random(7).shuffle(turns)
    return turns


@pytest.mark.parametrize("embedder_name", ["none", "hashing"])
@pytest.mark.parametrize("order", [round_robin, interleaved_at_random, shuffled_with_numbers])
def test_the_order_of_storing_changes_nothing_for_neighbouring_messages(
    engine: Callable[[], Store], order: Callable[[], list[Document]], embedder_name: str
) -> None:
    def outcome(documents: list[Document]) -> list[list[tuple[object, ...]]]:
        store = engine()
        memory = memory_on(store, named_embedder(embedder_name))
        memory.store_many(documents)
        answers = [
            memory.search(query, limit=12, explain=True)
            for query in ("meet harbour museum noon", "who waters tomatoes", "ships at noon")
        ]
        store.close()
        return [
            [(hit.doc_id, hit.score, hit.relevance, hit.signals, hit.reasons) for hit in answer]
            for answer in answers
        ]

    expected = outcome(one_after_the_other())
    lent = [str(reasons) for answer in expected for *_, reasons in answer]
    assert any("neighbours 0." in reasons for reasons in lent), "neighbours lend to each other"
    assert outcome(order()) == expected


def test_vectors_alone_keep_their_own_order(tmp_path: Path) -> None:
    turns = ["harbour museum", "noon", "harbors and museums", "seaside", "museum of harbours"]
    with Memory.open(tmp_path / "talk.db", embedder="hashing", project="") as memory:
        memory.store_many(
            Document(kind="message", session="s", key=f"s/{n}", text=text)
            for n, text in enumerate(turns)
        )
        answer = memory.search("harbour museums at noon", mode="vector", explain=True)
        cosines = [hit.signals.cosine or 0.0 for hit in answer]
        assert cosines == sorted(cosines, reverse=True)
        assert not any(line.startswith(("neighbours", "words 0")) for line in answer[0].reasons)


def test_how_many_are_asked_for_does_not_change_which_come_first(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "many.db", embedder="none", project="") as memory:
        for number in range(30):
            memory.store(f"Something else, number {number}.", key=f"else-{number}")
        memory.store("ssh " * 6, key="often")
        memory.store("we rotate", key="other")
        memory.store("How to use ssh, and why we rotate things.", key="both")
        whole = memory.search("ssh rotate", limit=20)
        assert [hit.signals.keyword_rank for hit in whole] == [2, 1, 3], "words outweigh BM25"
        for limit in (1, 2, 3):
            assert keys(memory.search("ssh rotate", limit=limit)) == keys(whole)[:limit]


def test_reasons_are_given_only_when_asked_for(filled: Memory) -> None:
    assert {hit.reasons for hit in filled.search("ssh keys")} == {()}


# Order


class Axes(Embedder):
    """Gives each text the same direction."""

    space = SPACE
    dims = 4
    tuning = Tuning()

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        return [vector(1, 0, 0, 0) for _ in texts]


@pytest.mark.parametrize("mode", ["keyword", "vector", "hybrid"])
def test_equal_hits_come_by_key_and_then_by_place(engine: Callable[[], Store], mode: Mode) -> None:
    store = engine()
    for key in ("c", "a", "d", "b"):
        write(store, entry(key, "apple", "apple", vectors=[vector(1, 0, 0, 0)] * 2))
    for limit in (1, 3, 8):
        request = Request("apple", limit=limit, mode=mode)
        answer = search(store, lambda _: Axes(), request)
        wanted = [f"{key}-{place}" for key in "abcd" for place in (0, 1)]
        assert [hit.chunk_id for hit in answer] == wanted[:limit]
    store.close()


def test_the_same_search_gives_the_same_answer(filled: Memory) -> None:
    first = filled.search("the ssh deploy sun coffee", limit=5)
    for _ in range(3):
        assert filled.search("the ssh deploy sun coffee", limit=5) == first


def test_a_passage_deleted_between_finding_and_showing_is_left_out(
    watched: WatchedStore, embedder: Counting
) -> None:
    watched.after_keyword = lambda: delete(watched, "keys")
    answer = memory_on(watched, embedder).search("ssh deploy", mode="keyword")
    assert keys(answer) == ["deploy"]


def test_each_branch_over_fetches_as_promised(watched: WatchedStore, embedder: Counting) -> None:
    memory = memory_on(watched, embedder)
    memory.search("ssh", limit=10)
    assert watched.asked == {"keyword": 200, "vector": 100}
    memory.search("ssh", limit=100)
    assert watched.asked == {"keyword": 300, "vector": 300}
    memory.search("ssh", limit=10, fusion="rrf")
    assert watched.asked == {"keyword": 30, "vector": 30}


def test_whatever_an_embedder_raises_keywords_answer_and_the_receipt_names_it(
    filled: Memory,
) -> None:
    class Broken(HashingEmbedder):
        def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
            raise ZeroDivisionError

    with reopened(filled, Broken()) as memory:
        answer = memory.search("ssh")
    assert answer
    assert degraded(answer).code == "embedder_failed"
    assert "ZeroDivisionError" in degraded(answer).text
