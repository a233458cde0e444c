"""A diverse search folds copies and shows different things, and hides no correction."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait import Document, Hit, Memory, Passage
from plait.agents.hooks.injecting import for_prompt
from plait.chat.context import relevant_context
from plait.searching.diversity import diversified
from plait.types.ids import new_id

DEPLOY = "We deploy on Fridays, after the tests are green and the release notes are written"


@pytest.fixture
def memory():
    with Memory.open(":memory:", project="") as memory:
        yield memory


def texts(answer):
    return [hit.text for hit in answer]


def test_a_copy_folds_into_the_better_hit_and_is_named_there(memory: Memory) -> None:
    memory.store(DEPLOY + ".", key="one")
    memory.store(DEPLOY.replace(",", "") + "!", key="two")
    memory.store("Deploy keys are in the vault of the team", key="keys")
    plain = memory.search("deploy")
    diverse = memory.search("deploy", diverse=True)
    assert len(plain) == 3
    assert len(diverse) == 2
    [first] = [hit for hit in diverse if hit.doc_id in ("one", "two")]
    assert {first.id, *first.folded} == {hit.id for hit in plain if hit.doc_id != "keys"}
    assert all(not hit.folded for hit in plain)


@pytest.mark.parametrize(
    ("fact", "correction"),
    [
        ("The API listens on port 8080", "The API listens on port 8443"),
        ("We deploy on Fridays", "We do not deploy on Fridays"),
        ("Ana manages Ben", "Ben manages Ana"),
        ("The staging server runs on Debian", "The staging server runs on Ubuntu"),
        ("The temperature is -5", "The temperature is 5"),
    ],
)
@pytest.mark.parametrize("key", [True, False])
def test_a_correction_is_never_hidden(
    memory: Memory, fact: str, correction: str, key: bool
) -> None:
    for name, text in (("a", fact), ("b", correction)):
        memory.store(text, key=name if key else None)
    assert len(memory.search(fact, diverse=True)) == 2


def test_text_that_nobody_vouches_for_does_not_stand_for_trusted_text(memory: Memory) -> None:
    memory.store(DEPLOY, key="ours")
    memory.store(DEPLOY, key="theirs", origin="web", trust="untrusted")
    assert len(memory.search("deploy fridays", diverse=True)) == 2


def test_facts_about_two_things_are_two_facts(memory: Memory) -> None:
    memory.store("lives in Berlin", entity="Ana")
    memory.store("lives in Berlin", entity="Ben")
    hits = memory.search("lives in Berlin", diverse=True, where={"kinds": "observation"})
    assert {hit.entity for hit in hits} == {"Ana", "Ben"}


def made_up(text: str, score: float, kind: str) -> Hit:
    document = Document(id=new_id(), kind=kind, text=text)  # type: ignore[arg-type]
    return Hit(Passage(text, id=new_id()), document, score, score, "keyword")


@pytest.mark.parametrize(("kind", "order"), [("note", "acb"), ("observation", "abc")])
def test_a_passage_that_repeats_comes_later_and_a_fact_never(kind: str, order: str) -> None:
    backup = "The backup runs every night and keeps seven copies on the archive disk"
    hits = {
        "a": made_up(f"{backup} in the cellar.", 1.0, kind),
        "b": made_up(f"{backup} in the attic.", 0.95, kind),
        "c": made_up("To restore it, put the file back where it was.", 0.85, kind),
    }
    shown = diversified(list(hits.values()), 3)
    assert [hit.id for hit in shown] == [hits[name].id for name in order]


@given(
    st.lists(
        st.tuples(
            st.text("ab ,1-", max_size=12),
            st.floats(0, 1),
            st.sampled_from(["file", "note", "observation", "message"]),
        ),
        max_size=12,
    ),
    st.integers(1, 12),
)
def test_every_hit_is_shown_or_folded_once(rows, limit) -> None:
    hits = sorted((made_up(*row) for row in rows), key=lambda hit: -hit.score)
    everything = diversified(hits, len(hits) or 1)
    named = [id_ for hit in everything for id_ in (hit.id, *hit.folded)]
    assert sorted(named) == sorted(hit.id for hit in hits)
    assert [hit.id for hit in diversified(hits, limit)] == [hit.id for hit in everything[:limit]]


def test_what_a_model_is_shown_has_no_copies(tmp_path) -> None:
    """The same notes in two folders, and other notes on the subject in the places of the copies."""
    keys = "Rotate the SSH keys of the build server every ninety days."
    others = (
        "The SSH keys of the build server are stored in the vault.",
        "Who rotates SSH keys tells the team of the build server before.",
    )
    for folder in ("work", "copy"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "keys.md").write_text(keys, "utf-8")
    for number, text in enumerate(others):
        (tmp_path / "work" / f"{number}.md").write_text(text, "utf-8")
    with Memory.open(":memory:", project="") as memory:
        memory.ingest(tmp_path)
        query = "How often do we rotate the SSH keys of the build server?"
        assert [hit.text for hit in memory.search(query, limit=4)].count(keys) == 2
        shown = [
            [item.hit.text for item in memory.recall(query, limit=3).items],
            [hit.text for hit in for_prompt(memory, query).hits],
        ]
        assert [sorted(texts) for texts in shown] == [sorted([keys, *others])] * 2
        context = relevant_context(memory, query, is_local=True).text
        assert [context.count(text) for text in (keys, *others)] == [1, 1, 1]


def test_the_same_sentence_in_the_log_of_each_month_is_no_copy(memory: Memory) -> None:
    text = "The production database was restored from the backup of the night before."
    days = ("2026-01-05", "2026-02-09", "2026-03-02")
    for day in days:
        memory.store(text, key=f"log/{day}", event_at=day)
    memory.store(text, key="copy")
    memory.store(text, key="another copy")
    query = "When was the production database restored?"
    shown = [item.hit.document.key for item in memory.recall(query).items]
    assert {f"log/{day}" for day in days} < {*shown}
    assert len(shown) == 4
    assert len(memory.search(query, diverse=True)) == 4


def test_many_copies_leave_room_for_others(memory: Memory) -> None:
    for number in range(12):
        memory.store(f"{DEPLOY}.", key=f"copy {number}")
    for day in ("Mondays", "Tuesdays"):
        memory.store(f"We deploy on {day}, after the tests are green.", key=day)
    shown = [item.hit.text for item in memory.recall("When do we deploy?", limit=3).items]
    assert len({*shown}) == len(shown) == 3
