"""Silence is an answer: what a memory says to questions that it has nothing to do with."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from plait import Memory
from plait.embedders.builtin import Builtin
from plait.errors import EmbedderError
from plait.protocols import State, Vector
from plait.stores import open_store
from plait.stores.confined import ConfinedStore
from plait.types import WEAK_RELEVANCE, Document, TextKind
from plait.writing.chance import QUESTIONS, sample_chance

SAMPLE = Path(__file__).parents[2] / "examples" / "memory"
OWN = (
    "how do we rotate the ssh keys",
    "restore a backup",
    "on-call rota",
    "certificate renewal",
    "one PostgreSQL database for everything",
    "kubernetes upgrade",
    "which SMS provider did we pick",
    "mara",
)
FOREIGN = (
    "how long does sourdough have to rise",
    "who won the football match in Lisbon",
    "which violin strings sound warmest",
    "when do swallows fly south",
    "what does the vet say about ticks",
    "cheapest flight to Reykjavik in June",
    "recipe for plum jam without sugar",
    "how deep is the lake behind the mill",
    "cuántos huevos lleva la tarta",
    "wie viele Eier braucht der Kuchen",
    "奶奶的蛋糕需要几个鸡蛋",
    "zxqv wvut",
)
SUBJECTS = ("tide", "quartz", "saffron", "lathe", "glacier", "violin", "comet", "orchard")


def notes(count: int, first: int = 0) -> list[Document]:
    return [
        Document(key=f"{number:03}", text=f"The {SUBJECTS[number % 8]} of day {number} was fine.")
        for number in range(first, first + count)
    ]


def state_of(memory: Memory) -> State:
    return memory.engine.state()


def sampled_at(memory: Memory) -> int | None:
    """How many passages there were when chance was last sampled."""
    chance = state_of(memory).chance
    return None if chance is None else chance.passages


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    path = tmp_path_factory.mktemp("silence") / "memory.db"
    with Memory.open(path, project="") as memory:
        memory.ingest(SAMPLE)
        yield memory


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory.db", project="", embedder=Builtin()) as memory:
        yield memory


# What is asked


@pytest.mark.parametrize("question", OWN)
def test_recall_answers_what_the_memory_is_about(sample: Memory, question: str) -> None:
    assert sample.recall(question).items
    assert not sample.search(question)[0].is_weak


@pytest.mark.parametrize("question", FOREIGN)
def test_recall_is_silent_on_anything_else(sample: Memory, question: str) -> None:
    recalled = sample.recall(question)
    assert (recalled.text, recalled.items) == ("", ())
    assert all(hit.is_weak for hit in sample.search(question))


@pytest.mark.parametrize(
    "question", ["where is the {}?", "what about the {}", "when is our {}?", "tell me about {}"]
)
@pytest.mark.parametrize("word", ["flight", "inhaler", "piano"])
def test_a_rare_word_is_looked_up_whatever_little_words_are_around_it(
    memory: Memory, word: str, question: str
) -> None:
    memory.ingest(SAMPLE)
    memory.store("Our flight to Lisbon leaves at 7:40.")
    memory.store(
        "Packed for the lake: two towels, the tent, Mia's inhaler, a torch, tea, a charger."
    )
    memory.store(
        "Tuesdays: dancing at three, groceries, piano at half past four, then Lisbon calls."
    )
    assert word in memory.recall(question.format(word)).text


def test_search_still_shows_what_is_weak_and_recall_when_asked(sample: Memory) -> None:
    question = "certificate for the ladder of my uncle"
    hits = sample.search(question)
    assert hits and hits[0].relevance < WEAK_RELEVANCE
    assert sample.recall(question).items == ()
    assert sample.recall(question, min_score=0.0).items


def test_nonsense_finds_nothing(sample: Memory) -> None:
    assert sample.search("zxqv wvut") == ()


def test_the_explanation_names_what_relevance_is_made_of(sample: Memory) -> None:
    [hit] = sample.search("rotate ssh keys", limit=1, explain=True)
    [line] = [reason for reason in hit.reasons if reason.startswith("relevance ")]
    chance = state_of(sample).chance
    assert chance is not None
    assert "matching words keys, rotate, ssh (100%)" in line
    assert f"chance ({chance.cosine:.3f} ± {chance.spread:.3f} among {chance.passages})" in line


def test_the_order_of_storing_changes_neither_chance_nor_relevance(tmp_path: Path) -> None:
    told = []
    for seed in (1, 2):
        shuffled = notes(40)
        random.Random(seed).shuffle(shuffled)
        with Memory.open(tmp_path / f"{seed}.db", project="", embedder=Builtin()) as memory:
            memory.store_many(shuffled)
            hits = memory.search("violin of day 13", limit=20)
            told.append((state_of(memory).chance, {hit.doc_id: hit.relevance for hit in hits}))
    assert told[0] == told[1]


def test_a_small_part_of_a_large_memory_is_judged_by_its_own_size(memory: Memory) -> None:
    memory.store_many(notes(60))
    memory.store_many([Document(key="x/1", text="The violin is in the attic.", project="attic")])
    [whole] = memory.search("violin attic", limit=1, explain=True, all_projects=True)
    part = memory.search("violin attic", limit=1, explain=True, where={"projects": ("attic",)})
    assert "among 61)" in " ".join(whole.reasons) and "among 1)" in " ".join(part[0].reasons)
    assert part[0].relevance > whole.relevance


# When a sample is taken


def test_a_sample_is_taken_when_the_memory_has_grown_by_half(memory: Memory) -> None:
    memory.store_many(notes(15))
    assert sampled_at(memory) is None  # too few to tell
    memory.store_many(notes(1, 15))
    assert sampled_at(memory) == 16
    memory.store_many(notes(7, 16))
    assert sampled_at(memory) == 16
    memory.store_many(notes(1, 23))
    assert sampled_at(memory) == 24


def test_single_stores_take_one_too(memory: Memory) -> None:
    for note in notes(18):
        memory.store(note.text, key=note.key)
    assert sampled_at(memory) in (16, 17)


def test_an_import_takes_one(memory: Memory, tmp_path: Path) -> None:
    memory.store_many(notes(20))
    exported = list(memory.export())
    assert "chance" not in " ".join(exported)
    with Memory.open(tmp_path / "other.db", project="", embedder=Builtin()) as other:
        other.import_lines(exported)
        assert state_of(other).chance == state_of(memory).chance


def test_a_memory_that_lost_half_takes_a_new_one_with_its_next_write(memory: Memory) -> None:
    memory.store_many(notes(40))
    memory.delete(*[f"{number:03}" for number in range(22)])
    memory.store("A last one.")
    assert sampled_at(memory) in (18, 19)


def test_a_purge_takes_the_sample_anew(memory: Memory) -> None:
    memory.store_many(notes(40))
    before = state_of(memory).chance
    memory.delete("007", purge=True)
    after = state_of(memory).chance
    assert before is not None and after is not None
    assert (before.passages, after.passages) == (40, 39)


def test_a_purge_leaves_no_sample_of_too_few(memory: Memory) -> None:
    memory.store_many(notes(16))
    memory.delete("007", purge=True)
    assert state_of(memory).chance is None


def test_a_reindex_takes_one_for_old_files(memory: Memory) -> None:
    memory.store_many(notes(20))
    with memory.engine.transaction() as transaction:
        transaction.remember(chance=None)
    assert memory.search("violin of day 13")[0].doc_id == "013"  # the embedder's numbers serve
    memory.reindex()
    assert sampled_at(memory) == 20


def test_without_vectors_there_is_no_sample(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.db", project="", embedder="none") as memory:
        memory.store_many(notes(40))
        assert state_of(memory).chance is None
        assert not memory.search("violin of day 13")[0].is_weak
        assert memory.recall("how deep is the lake").items == ()


class Failing(Builtin):
    """Fails as soon as it is asked for the vectors of questions."""

    def embed(self, texts: Any, kind: TextKind) -> Any:
        if kind == "query":
            raise EmbedderError("the server is down")
        return super().embed(texts, kind)


def test_an_embedder_that_fails_now_costs_no_write(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.db", project="", embedder=Failing()) as memory:
        stored = memory.store_many(notes(20))
        assert all(done.trouble is None for done in stored)
        assert state_of(memory).chance is None
        assert memory.search("violin of day 13")[0].doc_id == "013"


class Counted(Builtin):
    """Counts how often it is asked for the vectors of all questions."""

    asked = 0

    def embed(self, texts: Any, kind: TextKind) -> Any:
        self.asked += len(texts) == len(QUESTIONS)
        return super().embed(texts, kind)


def test_samples_become_rare_as_a_memory_grows(tmp_path: Path) -> None:
    embedder = Counted()
    with Memory.open(tmp_path / "m.db", project="", embedder=embedder) as memory:
        for first in range(0, 200, 4):
            memory.store_many(notes(4, first))
    assert 4 <= embedder.asked <= 8  # 16, 24, 36, 56, 84, 128, 192


# Others at work, and files from anywhere


def test_a_writer_at_work_is_not_waited_for(memory: Memory) -> None:
    memory.store_many(notes(20))
    with memory.engine.transaction() as transaction:
        transaction.remember(chance=None)
    state = state_of(memory)
    busy = apsw.Connection(memory.path)
    busy.execute("BEGIN IMMEDIATE")
    try:
        sample_chance(memory.engine, memory.embedder, state)
    finally:
        busy.close()
    assert state_of(memory).chance is None
    sample_chance(memory.engine, memory.embedder, state)
    assert sampled_at(memory) == 20


def test_two_processes_that_grow_a_memory_agree_on_its_sample(memory: Memory) -> None:
    with Memory.open(memory.path, project="", embedder=Builtin()) as other:
        for first in range(0, 60, 10):
            (memory, other)[first % 20 // 10].store_many(notes(10, first))
        assert state_of(memory).chance == state_of(other).chance
        assert (sampled_at(memory) or 0) * 1.5 >= 60


@pytest.mark.parametrize(
    "value",
    [
        "",
        "7",
        "{}",
        "null",
        '"text"',
        "[0.2, 0.04, 100]",
        '[0.2, 0.04, 100, "test", "axes", 5]',
        "[" * 100_000,
        "[1e999, 0.04, 100, SPACE]",
        "[NaN, 0.04, 100, SPACE]",
        "[0.2, Infinity, 100, SPACE]",
        "[0.2, 0.0, 100, SPACE]",
        "[0.2, -0.04, 100, SPACE]",
        "[0.2, 2.0, 100, SPACE]",
        "[-0.2, 0.04, 100, SPACE]",
        "[1.2, 0.04, 100, SPACE]",
        "[0.2, 0.04, 0, SPACE]",
        "[0.2, 0.04, 1.5, SPACE]",
        "[0.2, 0.04, true, SPACE]",
        '["0.2", 0.04, 100, SPACE]',
        "[[0.2], 0.04, 100, SPACE]",
        "[null, 0.04, 100, SPACE]",
        f"[0.2, 0.04, {'9' * 400}, SPACE]",
        f"[{'9' * 400}, 0.04, 100, SPACE]",
        f"[0.2, 0.04, {'9' * 5_000}, SPACE]",
    ],
)
def test_a_file_with_numbers_that_no_sample_has_is_searched_without(
    memory: Memory, value: str
) -> None:
    memory.store_many(notes(3))
    connection = apsw.Connection(memory.path)
    [(space,)] = connection.execute("SELECT space FROM generations").fetchall()
    written = value.replace("SPACE", str(space)[1:-1])
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('chance', ?)", (written,))
    connection.close()
    assert state_of(memory).chance is None
    assert memory.search("saffron of day 2")[0].doc_id == "002"


def test_doctor_backup_and_a_read_only_memory_keep_the_sample(
    memory: Memory, tmp_path: Path
) -> None:
    memory.store_many(notes(20))
    chance = state_of(memory).chance
    assert {finding.level for finding in memory.doctor()} == {"ok"}
    copy = open_store(memory.backup(tmp_path / "copy.db"), create=False, read_only=True)
    assert copy.state().chance == chance
    copy.close()


def test_users_of_one_memory_learn_nothing_from_its_sample(memory: Memory) -> None:
    memory.store_many(notes(40))
    state = ConfinedStore(memory.engine, "ana").state()
    assert (state.chance, state.passages) == (None, 0)


def test_the_questions_are_many_and_differ() -> None:
    assert len(set(QUESTIONS)) == len(QUESTIONS) >= 64
    vectors: list[Vector | None] = list(Builtin().embed(QUESTIONS, "query"))
    assert None not in vectors


@pytest.mark.parametrize(
    "query",
    [
        "Wann gehen wir mit dem Hund zum Tierarzt",
        "Wann wird die Heizung gewartet?",
        "Wie wird der Schl\u00fcssel getauscht",
    ],
)
def test_a_question_in_another_language_is_no_nonsense_with_or_without_marks(
    tmp_path: Path, query: str
) -> None:
    with Memory.open(tmp_path / "m.db", project="") as memory:
        for place in range(40):
            memory.store(f"Shelf {place} of the cellar holds {SUBJECTS[place % 8]} number {place}.")
        assert memory.search(query)
        assert not memory.recall(query).items
        assert not memory.search("gehn hnud tirzat wuff")
