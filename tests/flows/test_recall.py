"""The read path: modes, missing parts, floors, windows and reasons, from stored text to hits."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from plait import recall
from plait.config import load
from plait.errors import DeadlineExceeded, StoreDamaged, UsageError
from plait.memory import Memory
from plait.protocols import Vector
from plait.stores.sqlite.store import SQLiteStore
from plait.testing import HashingEmbedder
from plait.text import parse
from plait.types import Answer, Document, Filter, Hit, TextKind, Tuning
from tests.builders import SPACE, Counting, Failing, entry, vector

NOTES = {
    "deploy": "We deploy the web service on Fridays.",
    "keys": "Rotate the ssh keys every quarter.",
    "garden": "Tomatoes grow best in full sun.",
    "kubernetes": "The kubernetes cluster runs in Vienna.",
    "coffee": "Ana drinks her coffee black.",
}
FUSIONS = ("weighted", "rrf", "seed001")


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


def keys(answer: Answer) -> list[str]:
    return [hit.doc_id for hit in answer]


def reopened(filled: Memory, embedder: Any) -> Memory:
    return Memory.open(filled.path, embedder=embedder, project="")


# Modes


@pytest.mark.parametrize("fusion", FUSIONS)
def test_hybrid_finds_by_word_and_by_likeness(filled: Memory, fusion: str) -> None:
    answer = filled.search("ssh kuberntes", fusion=fusion)
    assert {"keys", "kubernetes"} <= set(keys(answer))
    assert answer.receipt.mode_used == "hybrid"
    assert answer.receipt.degraded == ()
    assert answer.receipt.fusion == fusion


@pytest.mark.parametrize("mode", ["keyword", "fts"])
def test_keyword_mode_never_asks_the_embedder(
    filled: Memory, embedder: Counting, mode: str
) -> None:
    answer = filled.search("kuberntes ssh", mode=mode)
    assert keys(answer) == ["keys"]
    assert (answer.receipt.mode_asked, answer.receipt.mode_used) == ("keyword", "keyword")
    assert embedder.asked == []
    assert answer[0].source == "keyword"


@pytest.mark.parametrize("mode", ["vector", "vec"])
def test_vector_mode_never_looks_for_words(
    filled: Memory, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SQLiteStore, "keyword", lambda *_, **__: pytest.fail("keyword search"))
    answer = filled.search("kuberntes", mode=mode)
    assert keys(answer)[0] == "kubernetes"
    assert (answer.receipt.mode_asked, answer.receipt.mode_used) == ("vector", "vector")
    assert {hit.source for hit in answer} == {"vector"}
    assert answer[0].signals.bm25 is None


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_weight_of_0_switches_its_branch_off_entirely(
    filled: Memory, embedder: Counting, fusion: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_word = filled.search("ssh keys", vector_weight=0.0, fusion=fusion)
    assert embedder.asked == []
    assert (keys(by_word), by_word.receipt.mode_used) == (["keys"], "keyword")
    monkeypatch.setattr(SQLiteStore, "keyword", lambda *_, **__: pytest.fail("keyword search"))
    by_likeness = filled.search("ssh keys", keyword_weight=0.0, fusion=fusion)
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

    tuning = filled.embedder.tuning  # type: ignore[attr-defined]
    assert weights() == (tuning.keyword_weight, tuning.vector_weight)
    assert weights(fusion="seed001") == (0.3, 0.7)
    assert weights(keyword_weight=0.2, vector_weight=0.5) == (0.2, 0.5)
    assert weights(keyword_weight=0.75) == (0.75, 0.25)
    assert weights(vector_weight=0.75) == (0.25, 0.75)


# Degraded


def degraded(answer: Answer) -> str:
    [reason] = answer.receipt.degraded
    return reason


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
@pytest.mark.parametrize("external", [False, True])
def test_an_embedder_that_is_down_leaves_the_words(
    filled: Memory, mode: str, external: bool
) -> None:
    down = Failing()
    down.tuning = down.tuning._replace(external=external)
    with reopened(filled, down) as memory:
        answer = memory.search("ssh keys", mode=mode)
        assert keys(answer) == ["keys"]
        assert answer[0].score == pytest.approx(1.0)
        assert answer.receipt.mode_used == "keyword"
        assert "the embedder is down" in degraded(answer)


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
    slow = Slow()
    answer = recall.search(filled.engine, slow, recall.Request("ssh keys", deadline=0.02))
    slow.may_answer.set()
    assert keys(answer) == ["keys"]
    assert "no answer within 0.02 s" in degraded(answer)


def test_an_external_embedder_works_while_words_are_looked_for(
    filled: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow()
    real = SQLiteStore.keyword

    def keyword(*args: Any, **options: Any) -> Any:
        # If the embedder were asked first, the search would be stuck before it came here.
        slow.may_answer.set()
        return real(*args, **options)

    monkeypatch.setattr(SQLiteStore, "keyword", keyword)
    answer = recall.search(filled.engine, slow, recall.Request("kuberntes", deadline=30.0))
    assert keys(answer)[0] == "kubernetes"
    assert answer.receipt.degraded == ()


def test_vectors_answer_by_the_embedder_that_made_them_until_a_reindex(filled: Memory) -> None:
    with reopened(filled, HashingEmbedder(64)) as memory:
        answer = memory.search("ssh keys")
        assert (keys(answer), answer.receipt.mode_used) == (["keys"], "hybrid")
        assert answer.receipt.degraded == ()
        assert "64 dims" in memory.identity_warnings()[0]
        memory.reindex()
        assert memory.search("ssh keys").receipt.mode_used == "hybrid"
        assert memory.identity_warnings() == []


def test_another_space_is_said_aloud_and_never_compared(filled: Memory) -> None:
    with reopened(filled, HashingEmbedder(64)) as memory:
        memory.reindex()
    # No embedder that plait could open by itself makes 64 dims.
    with reopened(filled, HashingEmbedder(32)) as memory:
        answer = memory.search("ssh keys")
        assert keys(answer) == ["keys"]
        assert "64 dims" in degraded(answer)
        assert "plait reindex" in degraded(answer)


def test_a_memory_without_vectors_yet_says_what_to_run(memory: Memory) -> None:
    memory.store("ssh keys", key="keys")
    with reopened(memory, HashingEmbedder()) as hashing:
        answer = hashing.search("ssh")
        assert keys(answer) == ["keys"]
        assert "plait reindex" in degraded(answer)


def test_no_embedder_is_no_trouble_unless_vectors_were_asked_for(memory: Memory) -> None:
    memory.store("ssh keys", key="keys")
    assert memory.search("ssh").receipt.degraded == ()
    answer = memory.search("ssh", mode="vector")
    assert keys(answer) == ["keys"]
    assert "no embedder" in degraded(answer)


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
    filled: Memory, answer: Vector | None, mode: str
) -> None:
    with reopened(filled, Nonsense(answer)) as memory:
        found = memory.search("ssh keys", mode=mode)
        assert keys(found) == ["keys"]
        assert found.receipt.mode_used == "keyword"
        assert len(found.receipt.degraded) == (answer is not None)


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (DeadlineExceeded("late"), "keyword search stopped after 2 s"),
        (StoreDamaged("broken"), "keyword search failed: broken"),
    ],
)
def test_when_the_words_fail_likeness_answers(
    filled: Memory, trouble: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keyword(*_: Any, **__: Any) -> Any:
        raise trouble

    monkeypatch.setattr(SQLiteStore, "keyword", keyword)
    answer = filled.search("kubernetes")
    assert keys(answer)[0] == "kubernetes"
    assert degraded(answer) == said


def test_a_keyword_search_stops_at_its_deadline(store: SQLiteStore) -> None:
    store.put([entry(f"{n}", "common words " * 20) for n in range(300)])
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
    ("options", "said"),
    [
        ({"query": ""}, "query is empty"),
        ({"query": " \n"}, "query is empty"),
        ({"limit": 0}, "limit is 0"),
        ({"limit": -1}, "limit is -1"),
        ({"limit": 1_000_000}, "limit is 1000000"),
        ({"window": 6}, "window is 6"),
        ({"window": -1}, "window is -1"),
        ({"min_score": 1.1}, "min_score is 1.1"),
        ({"min_score": float("nan")}, "min_score is nan"),
        ({"mode": "magic"}, "mode"),
        ({"fusion": "magic"}, "fusion"),
        ({"keyword_weight": 1.5}, "keyword_weight is 1.5"),
        ({"vector_weight": float("nan")}, "vector_weight is nan"),
        ({"keyword_weight": 0.8, "vector_weight": 0.8}, "1.6"),
        ({"keyword_weight": 0.0, "vector_weight": 0.0}, "Both weights are 0"),
        ({"where": {"colour": "red"}}, "colour"),
        ({"where": {"kinds": ("thing",)}}, "thing"),
        ({"where": {"since": "soonish"}}, "soonish"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_in_a_sentence(
    filled: Memory, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        filled.search(**{"query": "ssh", **options})


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
def test_min_score_tests_relevance_not_order(filled: Memory, fusion: str) -> None:
    # Dividing by the maximum makes the best of nonsense look perfect; its relevance does not.
    nonsense = filled.search("zebra unicorn keys", fusion=fusion)
    assert nonsense[0].relevance < 0.3
    assert filled.search("zebra unicorn keys", fusion=fusion, min_score=0.3) == ()
    for floor in (0.0, 0.3, 0.9, 1.0):
        answer = filled.search("rotate ssh keys", fusion=fusion, min_score=floor)
        assert all(hit.relevance >= floor for hit in answer)
        assert keys(answer)[:1] == ["keys"]


def test_min_score_looks_behind_the_best_until_the_answer_is_full(filled: Memory) -> None:
    for number in range(60):
        filled.store(f"the weather on day {number} was fine", key=f"day {number:02}")
    everything = filled.search("weather ssh", limit=70)
    convincing = [hit.doc_id for hit in everything if hit.relevance >= 0.55]
    assert 0 < len(convincing) < len(everything)
    assert keys(filled.search("weather ssh", limit=70, min_score=0.55)) == convincing
    assert keys(filled.search("weather ssh", limit=1, min_score=0.55)) == convincing[:1]


def test_floor_rrf_tests_the_normalised_rrf_score(tmp_path: Path) -> None:
    flags = {"db_path": str(tmp_path / "r.db"), "fusion": "rrf", "floor": "rrf", "project": ""}
    with Memory.open(config=load(flags), embedder="none") as memory:
        for number in range(5):
            memory.store("apple " * (5 - number) + "and filler " * number, key=f"{number}")
        scores = [hit.score for hit in memory.search("apple")]
        assert scores == pytest.approx([61 / (60 + rank) for rank in range(1, 6)])
        assert len(memory.search("apple", min_score=0.97)) == 2
        assert len(memory.search("apple", min_score=0.97, fusion="weighted")) == 5


def test_relevance_does_not_depend_on_the_other_hits(filled: Memory) -> None:
    def of_keys(query: str) -> float:
        return {hit.doc_id: hit.relevance for hit in filled.search(query, mode="keyword")}["keys"]

    alone = of_keys("ssh")
    filled.store("tomatoes", key="another", tags=["x"])
    assert of_keys("ssh") == alone == 1.0


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


def test_words_of_title_heading_and_tags_count_as_found(memory: Memory) -> None:
    memory.store("# Servers\n\nPort 22.", key="a", title="Gateway", tags=["ssh"])
    hit = memory.search("gateway servers ssh")[0]
    assert hit.relevance == 1.0


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
    numbers = re.compile(r"^(?:keyword|vector|neighbours|words) (?:.* = )?([\d.]+)(?: \(|$)")
    return sum(float(match[1]) for line in hit.reasons if (match := numbers.match(line)))


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
@pytest.mark.parametrize("weight", [None, 0.0, 0.25, 1.0])
def test_the_reasons_of_every_hit_add_up_to_its_score(
    filled: Memory, fusion: str, mode: str, weight: float | None
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
                *(Document(kind="message", key=f"x/{n}", text=t) for n, t in enumerate(strangers)),
            ]
        )  # fmt: skip
        answer = memory.search("meet harbour museum noon", explain=True)
        assert keys(answer)[:2] == ["s/0", "s/1"]
        assert any(line.startswith("neighbours 0.") for line in answer[1].reasons)
        assert [contributions(hit) for hit in answer] == pytest.approx(
            [hit.score for hit in answer], abs=2e-4
        )
        assert keys(memory.search("meet harbour museum noon", limit=1)) == ["s/0"]


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


@pytest.mark.parametrize("mode", ["keyword", "vector", "hybrid"])
def test_equal_hits_come_by_key_and_then_by_place(tmp_path: Path, mode: str) -> None:
    store = SQLiteStore(str(tmp_path / "m.db"))
    same = vector(1, 0, 0, 0)
    for key in ("c", "a", "d", "b"):
        store.put([entry(key, "apple", "apple", vectors=[same, same])])

    class Axes:
        space = SPACE
        dims = 4
        tuning = Tuning()

        def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
            return [same for _ in texts]

    for limit in (1, 3, 8):
        request = recall.Request("apple", limit=limit, mode=mode)  # type: ignore[arg-type]
        found = recall.search(store, Axes(), request)
        wanted = [f"{key}-{place}" for key in "abcd" for place in (0, 1)]
        assert [hit.chunk_id for hit in found] == wanted[:limit]
    store.close()


def test_the_same_search_gives_the_same_answer(filled: Memory) -> None:
    first = filled.search("the ssh deploy sun coffee", limit=5)
    for _ in range(3):
        assert filled.search("the ssh deploy sun coffee", limit=5) == first


def test_a_passage_deleted_between_finding_and_showing_is_left_out(
    filled: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SQLiteStore.keyword

    def keyword(self: SQLiteStore, *args: Any, **options: Any) -> Any:
        found = real(self, *args, **options)
        self.delete([filled.lookup("keys")[0].id])
        return found

    monkeypatch.setattr(SQLiteStore, "keyword", keyword)
    assert keys(filled.search("ssh deploy", mode="keyword")) == ["deploy"]


def test_each_branch_over_fetches_as_promised(
    filled: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, int] = {}
    real_keyword, real_vector = SQLiteStore.keyword, SQLiteStore.vector

    def keyword(self: Any, query: Any, limit: int, *args: Any, **options: Any) -> Any:
        asked["keyword"] = limit
        return real_keyword(self, query, limit, *args, **options)

    def by_vector(self: Any, query: Any, space: Any, limit: int, *args: Any) -> Any:
        asked["vector"] = limit
        return real_vector(self, query, space, limit, *args)

    monkeypatch.setattr(SQLiteStore, "keyword", keyword)
    monkeypatch.setattr(SQLiteStore, "vector", by_vector)
    filled.search("ssh", limit=10)
    assert asked == {"keyword": 200, "vector": 100}
    filled.search("ssh", limit=100)
    assert asked == {"keyword": 300, "vector": 300}
    filled.search("ssh", limit=10, fusion="rrf")
    assert asked == {"keyword": 30, "vector": 30}


def test_whatever_an_embedder_raises_keywords_answer_and_the_receipt_names_it(
    filled: Memory,
) -> None:
    class Broken(HashingEmbedder):
        def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
            raise ZeroDivisionError

    with reopened(filled, Broken()) as memory:
        answer = memory.search("ssh")
    assert answer
    assert "ZeroDivisionError" in answer.receipt.degraded[0]
