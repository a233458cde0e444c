"""A minimum relevance: who is judged by what, and what takes the place of hits that fail it."""

import random
from collections.abc import Callable, Iterator

import pytest

from plait import Memory
from plait.ranking.relevance import relevance
from plait.searching.evidence import CHATTY_BUT_RARE, Evidence
from plait.text import parse
from plait.types import WEAK_RELEVANCE, Document, Mode

WORDS = (
    *("river", "mountain", "tax", "invoice", "kernel", "banana"),
    *("guitar", "novel", "train", "summer", "window", "pencil"),
)
QUESTION = "zeppelin harbour quartz permit"


def filler(dice: random.Random, count: int) -> str:
    return " ".join(dice.choice(WORDS) for _ in range(count))


@pytest.fixture
def dice() -> random.Random:
    return random.Random(5)


@pytest.fixture
def memory(dice: random.Random) -> Iterator[Memory]:
    with Memory.open(":memory:", project="") as memory:
        memory.store_many(
            Document(key=f"filler-{number}", text=f"{filler(dice, 12)} filler{number}")
            for number in range(300)
        )
        yield memory


def many_poor_parts(dice: random.Random) -> str:
    poor = [
        f"# S{number}\n\nZeppelin. {filler(dice, 12)}. {'Zeppelin quartz. ' * 4}{filler(dice, 200)}"
        for number in range(9)
    ]
    good = f"# Good\n\n{filler(dice, 150)}. Zeppelin harbour quartz permit. {filler(dice, 150)}"
    return "\n\n".join([*poor, good])


def one_poor_part(dice: random.Random) -> str:
    good = f"{filler(dice, 160)}. The zeppelin harbour quartz permit expires. {filler(dice, 120)}"
    return f"# One\n\nzeppelin zeppelin zeppelin.\n\n# Two\n\n{good}"


@pytest.mark.parametrize(
    ("mode", "text"), [("hybrid", many_poor_parts), ("keyword", one_poor_part)]
)
def test_another_passage_represents_a_document_whose_best_ranked_one_fails(
    memory: Memory, dice: random.Random, mode: Mode, text: Callable[[random.Random], str]
) -> None:
    memory.store_many([Document(key="doc", text=text(dice))])
    hits = memory.search(QUESTION, limit=30, mode=mode)
    best = max(hit.relevance for hit in hits if hit.document.key == "doc")
    assert hits[0].document.key == "doc" and hits[0].relevance < best - 0.2, "the example"
    floor = best - 0.01
    [shown] = memory.search(QUESTION, mode=mode, min_score=floor, best_per_document=True)
    assert shown.document.key == "doc"
    assert shown.relevance >= floor


@pytest.fixture
def heating(memory: Memory, dice: random.Random) -> Memory:
    """An entity whose profile has all the words of a question, and whose facts have one each."""
    for week in range(5):
        memory.store(f"{filler(dice, 9)} in week {week}", entity="Heating")
    for text in ("The pump, the pump", "Valves are here", "Lindqvist came", "Marta called"):
        memory.store(text, entity="Heating")
    return memory


@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
def test_a_profile_takes_the_place_of_facts_that_fail(heating: Memory, mode: Mode) -> None:
    question = "which pump and valves are for Lindqvist and for Marta"
    facts = [hit for hit in heating.search(question, mode=mode) if hit.document.parent]
    least = max([0.5, *(hit.relevance for hit in facts)]) + 0.001
    hits = heating.search(question, mode=mode, min_score=least)
    assert [hit.document.kind for hit in hits] == ["entity"]
    assert hits[0].relevance >= least
    if mode == "hybrid":
        assert hits[0].signals.sentence is not None, "it got a second look"


def test_hits_are_judged_by_what_their_sentences_say(memory: Memory) -> None:
    question = "which banana guitar novel has a train in the summer"
    query = parse(question)
    evidence = Evidence(memory.engine, query, memory.engine.vocabulary(query.words))
    chance = memory.engine.state().chance
    assert chance is not None
    changes = {
        hit.id: (
            evidence.relevance(hit.passage, hit.signals._replace(sentence=None), chance),
            hit.relevance,
        )
        for hit in memory.search(question)
    }
    changed, (before, after) = max(changes.items(), key=lambda row: row[1][1] - row[1][0])
    assert after > before + 0.02, "the example"
    kept = memory.search(question, min_score=(before + after) / 2)
    assert changed in [hit.id for hit in kept]


# -- looking up ----------------------------------------------------------------------------


def lookup(memory: Memory, text: str) -> bool:
    query = parse(text)
    return Evidence(memory.engine, query, memory.engine.vocabulary(query.words))._lookup


@pytest.mark.parametrize(
    "text",
    [
        *("kubernetes", "kubernetes deployments", "get_user_by_id", "src/plait/memory.py"),
        *("192.168.1.17", "2026-11-16", "HTTPServer error", "人工智能", "東京"),
        "kubernetes AND deployments",
    ],
)
def test_a_word_or_two_are_looked_up(memory: Memory, text: str) -> None:
    assert lookup(memory, text)


@pytest.mark.parametrize(
    "text",
    [
        *("why kubernetes?", "what is kubernetes", "do it", "who?", "when do we deploy"),
        *("three plain words", "人工智能是什么时候开始的", "如何用plait搜索记忆"),
    ],
)
def test_questions_are_not_looked_up(memory: Memory, text: str) -> None:
    assert not lookup(memory, text)


def test_whatever_has_a_word_that_is_looked_up_is_more_relevant_than_to_a_question(
    memory: Memory,
) -> None:
    query = parse("river")
    evidence = Evidence(memory.engine, query, memory.engine.vocabulary(query.words))
    chance = memory.engine.state().chance
    assert chance is not None
    for hit in memory.search("river"):
        signals = hit.signals
        of_question = relevance(
            signals.coverage, evidence.rarity, signals.cosine, chance, sentence=signals.sentence
        )
        assert hit.relevance > of_question + 0.02
        assert not hit.is_weak


def test_one_telling_word_in_a_sentence_tells_half_as_much_unless_it_is_rare(
    memory: Memory,
) -> None:
    memory.store("We deploy after the summer.", key="deploy")
    looked_up, asked = (memory.search(text)[0] for text in ("deploy", "when do we deploy this"))
    assert asked.relevance > looked_up.relevance - 0.1
    for number in range(CHATTY_BUT_RARE):
        memory.store(f"The lamps of hall {number} deploy on rails of steel.", key=f"hall {number}")
    looked_up, asked = (memory.search(text)[0] for text in ("deploy", "when do we deploy this"))
    assert looked_up.document.key == asked.document.key == "deploy"
    assert asked.relevance < looked_up.relevance - 0.1
    assert (asked.signals.sentence or 0.0) > 0.9, "the word itself is in it"
    assert looked_up.relevance > WEAK_RELEVANCE


def test_a_floor_keeps_every_hit_that_is_as_relevant_also_answers(dice: random.Random) -> None:
    """An answer is as relevant as its question, but for a share, wherever either of them ranks."""
    with Memory.open(":memory:", project="") as memory:
        memory.store_many(Document(key=f"n{n}", text=filler(dice, 40)) for n in range(100))
        for number in range(20):
            asked = {"role": "user", "content": f"{filler(dice, 7)}?"}
            answered = {"role": "assistant", "content": filler(dice, 7)}
            memory.add_messages([asked, answered], session=f"talk {number % 3}")
        inherited = 0
        for _ in range(12):
            query = " ".join(dice.sample(WORDS, 4))
            hits = memory.search(query, limit=1_000)
            for place in (len(hits) // 4, len(hits) // 2):
                floor = sorted(hit.relevance for hit in hits)[place]
                above = memory.search(query, limit=1_000, min_score=floor)
                expected = {hit.id for hit in hits if hit.relevance >= floor}
                assert {hit.id for hit in above} == expected
                inherited += any(hit.document.role == "assistant" for hit in above)
        assert inherited


def test_an_answer_without_a_word_of_its_question_passes_the_floor_with_it() -> None:
    question = "Which wine goes with the roast for Marta's birthday dinner?"
    with Memory.open(":memory:", project="") as memory:
        for number in range(60):
            memory.store(f"filler note {number} about gardens and rain", key=f"f{number}")
        talk = [("user", question), ("assistant", "The Blaufränkisch from 2019.")]
        memory.add_messages(
            [{"role": role, "content": content} for role, content in talk], session="s"
        )
        answer = memory.search(question, min_score=WEAK_RELEVANCE)
        assert [hit.document.role for hit in answer] == ["user", "assistant"]


def test_of_a_long_answer_one_passage_represents_it_with_a_floor_too(dice: random.Random) -> None:
    question = "Which database should we use for the billing service?"
    long = "\n\n".join(f"Well, {filler(dice, 200)} need the database." for _ in range(8))
    with Memory.open(":memory:", project="") as memory:
        memory.store_many(Document(key=f"n{n}", text=filler(dice, 12)) for n in range(60))
        talk = [{"role": "user", "content": question}, {"role": "assistant", "content": long}]
        memory.add_messages(talk, session="s")
        for floor in (0.0, 0.1, 0.3, 0.5):
            hits = memory.search(question, best_per_document=True, min_score=floor)
            ids = [hit.document.id for hit in hits]
            assert len(ids) == len({*ids}) >= 2
