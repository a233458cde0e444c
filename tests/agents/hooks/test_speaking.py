"""In a large memory a hook asks for more than that a hit is relevant."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait import Memory
from plait.agents.hooks.injecting import InContext, _with_first, for_prompt
from plait.agents.hooks.speaking import FEW, sure_of
from plait.text.capitals import names_in
from plait.types import Document, Hit

WORDS = (
    *("align", "columns", "server", "restart", "timeout", "sidebar", "padding", "conflict"),
    *("header", "branch", "worker", "socket", "margin", "layout", "driver", "ledger"),
)
LARGE = 12 * FEW


def notes(count: int) -> list[Document]:
    """Notes of a few everyday words each, so that any two of the words stand in many."""
    dice = random.Random(7)
    chosen = [dice.sample(WORDS, 5) for _ in range(count)]
    return [
        Document(key=f"note-{number}", text=f"Commit {number}: {', '.join(words)}.")
        for number, words in enumerate(chosen)
    ]


@pytest.fixture(scope="module")
def large() -> Iterator[Memory]:
    with Memory.open(":memory:", project="") as memory:
        memory.store_many(notes(LARGE))
        memory.store("Align the columns of the Heron invoice to the right.", key="heron")
        memory.store("We rotate the certificates of the gateway in March.", key="gateway")
        yield memory


def hits_of(memory: Memory, prompt: str, relevance: float) -> list[Hit]:
    """The hits of a search, each as relevant as told."""
    return [hit._replace(relevance=relevance) for hit in memory.search(prompt, limit=5)]


@pytest.mark.parametrize("order", ["align the columns", "restart the server", "pad the sidebar"])
def test_an_order_of_everyday_words_finds_nothing_among_many_notes(
    large: Memory, order: str
) -> None:
    assert for_prompt(large, order).why in ("nothing_relevant", "needs_no_memory")


def test_a_memory_that_is_not_there_yet_knows_nothing(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "absent.db", create=False, project="") as memory:
        shown = for_prompt(memory, "where did Mara put the invoice of the heron?")
    assert (shown.hits, shown.why) == ((), "nothing_relevant")


def test_an_order_finds_everyday_words_among_few_notes() -> None:
    with Memory.open(":memory:", project="") as memory:
        memory.store("Restart the server with ops/restart.sh, never by hand.")
        memory.store("The parrot of the office is called Newton.")
        assert for_prompt(memory, "restart the server").hits


@pytest.mark.parametrize(
    ("prompt", "key"),
    [
        ("rotate the gateway certificates", "gateway"),
        ("when do we rotate the certificates of the gateway?", "gateway"),
        ("align the columns of the Heron invoice", "heron"),
    ],
)
def test_rare_words_together_are_found_among_many_notes(
    large: Memory, prompt: str, key: str
) -> None:
    assert [hit.document.key for hit in for_prompt(large, prompt).hits][:1] == [key]


def test_a_question_needs_rarer_words_the_larger_the_memory(large: Memory) -> None:
    prompt = "what is said about the server and the timeout?"
    assert large.search(prompt)[0].signals.matched == ("server", "timeout")
    assert not sure_of(large.engine, prompt, hits_of(large, prompt, 0.9))
    with Memory.open(":memory:", project="") as memory:
        memory.store_many(notes(FEW))
        assert sure_of(memory.engine, prompt, hits_of(memory, prompt, 0.9))


def test_a_question_may_be_about_what_is_in_much_of_a_memory() -> None:
    about = "the checkout service of the shop uses a timeout"
    with Memory.open(":memory:", project="") as memory:
        memory.store_many(
            Document(key=f"said-{number}", text=f"Change {number} of what {about} for.")
            for number in range(LARGE)
        )
        memory.store(f"In November {about} of 30 seconds for payments.", key="limit")
        assert for_prompt(memory, "which timeout does the checkout service of the shop use?").hits
        assert not for_prompt(memory, "which service has a timeout?").hits
        assert not for_prompt(memory, "increase the checkout timeout").hits


def test_an_order_of_few_words_needs_all_of_them(large: Memory) -> None:
    whole, part = "rotate gateway certificates", "photograph gateway certificates"
    [first, *_] = hits_of(large, whole, 0.9)
    assert sure_of(large.engine, whole, [first]) == [first]
    [first, *_] = hits_of(large, part, 0.9)
    assert first.document.key == "gateway" and not sure_of(large.engine, part, [first])


def test_a_name_counts_for_a_hit(large: Memory) -> None:
    for prompt, is_sure in (
        ("which invoice columns does Heron align?", True),
        ("which invoice columns does heron align?", False),
    ):
        [first, *_] = hits_of(large, prompt, 0.2)
        assert first.document.key == "heron"
        assert bool(sure_of(large.engine, prompt, [first])) is is_sure


def test_messages_beside_each_other_count_for_each_other(large: Memory) -> None:
    prompt = "when do we rotate the certificates of the gateway?"
    [first, *_] = hits_of(large, prompt, 0.2)
    [second, *_] = hits_of(large, "the Heron invoice", 0.0)
    for turn, is_sure in ((8, True), (9, True), (10, False)):
        talk = [
            hit._replace(document=hit.document._replace(session="s", turn=place))
            for hit, place in ((first, 7), (second, turn))
        ]
        assert sure_of(large.engine, prompt, talk) == talk[:1] * is_sure


def test_a_question_in_another_language_needs_no_words_in_common(large: Memory) -> None:
    question = "ゲートウェイの証明書はいつ更新しますか?"
    [first, *_] = hits_of(large, "rotate the certificates of the gateway", 0.5)
    alien = first._replace(signals=first.signals._replace(matched=(), coverage=0.0))
    assert sure_of(large.engine, question, [alien]) == [alien]
    assert not sure_of(large.engine, question, [alien._replace(relevance=0.2)])
    assert not sure_of(large.engine, "再试一次", [alien])


def test_the_first_hit_of_a_search_comes_with_those_that_are_sure(large: Memory) -> None:
    best = large.search("who restarts the server and the driver?", limit=5)
    first, other = best[0], best[1]
    assert _with_first((other,), best, (), InContext()) == (first, other)
    assert _with_first((first,), best, (), InContext()) == (first,)
    assert _with_first((other,), best, {first.id}, InContext()) == (other,)
    assert _with_first((other,), best, (), InContext(shown={first.id})) == (other,)


@pytest.mark.parametrize(
    ("prompt", "names"),
    [
        ("Where is Mara?", {"mara"}),
        ("Restart it. Then wait", set()),
        ("what about v2 of client.py?", {"v2", "client", "py", "client.py"}),
        ("was bedeutet das Wort und warum nicht die Zahl", set()),
        ("where is I", set()),
    ],
)
def test_names_are_told_by_capitals_and_by_the_form_of_code(prompt: str, names: set[str]) -> None:
    assert names_in(prompt) == names
