"""Ranking that learns from use: what was read rises a little, what is stale sinks a little."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from plait.memory import Memory
from plait.protocols import Use
from plait.settings.loading import load
from plait.types import Ref
from plait.writing.use import MAX_UNWRITTEN

TWINS = ("Rotate the ssh keys in March", "Rotate the ssh keys in April")


def open_with(path: Path, **flags: object) -> Memory:
    settings = {"db_path": str(path), "project": "", "embedding_provider": "none", **flags}
    return Memory.open(config=load(settings))


def order(memory: Memory, **options: Any) -> list[str]:
    return [hit.text for hit in memory.search("rotate ssh keys", **options)]


def uses(memory: Memory, refs: Sequence[Ref]) -> dict[Ref, Use]:
    """How these passages were read; unread ones are absent."""
    candidates = memory.engine.hydrate(refs, ranking=True)
    return {ref: row.use for ref, row in candidates.items() if row.use is not None}


def times_together(memory: Memory, refs: Sequence[Ref]) -> dict[frozenset[Ref], int]:
    """How often each pair of these passages was read together."""
    return {
        frozenset((ref, mate)): times
        for ref, use in uses(memory, refs).items()
        for mate, (times, _) in use.together.items()
    }


@pytest.fixture
def twins(memory: Memory) -> dict[str, str]:
    return {text: memory.store(text).id for text in TWINS}


def test_without_any_use_nothing_changes(memory: Memory, twins: dict[str, str]) -> None:
    scores = [hit.score for hit in memory.search("rotate ssh keys")]
    assert len(set(scores)) == 1


@pytest.mark.parametrize("text", TWINS)
def test_what_was_read_rises(memory: Memory, twins: dict[str, str], text: str) -> None:
    for _ in range(MAX_UNWRITTEN):
        memory.get(twins[text])
    assert order(memory)[0] == text
    [first, *_] = memory.search("rotate ssh keys", explain=True)
    assert any(f"{MAX_UNWRITTEN} reads on 1 day" in reason for reason in first.reasons)
    assert all(0.0 <= hit.score <= 1.0 for hit in memory.search("rotate ssh keys"))


def test_being_listed_is_not_being_read(memory: Memory, twins: dict[str, str]) -> None:
    for _ in range(2 * MAX_UNWRITTEN):
        order(memory, limit=1)
    refs = [hit.passage.ref for hit in memory.search("rotate ssh keys")]
    assert uses(memory, refs) == {}


def test_being_listed_counts_where_the_setting_says_so(tmp_path: Path) -> None:
    with open_with(tmp_path / "m.db", signals_count="listed") as memory:
        for text in TWINS:
            memory.store(text)
        for _ in range(MAX_UNWRITTEN):
            order(memory)
        refs = [hit.passage.ref for hit in memory.search("rotate ssh keys")]
        assert [uses(memory, refs)[ref].reads for ref in refs] == [MAX_UNWRITTEN] * 2
        assert times_together(memory, refs) == {frozenset(refs): MAX_UNWRITTEN}


def test_what_is_recalled_into_a_prompt_was_read(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with open_with(path) as memory:
        memory.store(TWINS[0])
        assert memory.recall("rotate ssh keys").items
    with open_with(path) as memory:
        [hit] = memory.search("rotate ssh keys")
        assert uses(memory, [hit.passage.ref])[hit.passage.ref].reads == 1


def test_several_documents_read_at_once_were_read_together(
    memory: Memory, twins: dict[str, str]
) -> None:
    named, troubles = memory.lookup_many(list(twins.values()))
    assert [document.text for document, _ in named] == list(TWINS)
    assert troubles == {}
    memory._flush()
    refs = [hit.passage.ref for hit in memory.search("rotate ssh keys")]
    assert times_together(memory, refs) == {frozenset(refs): 1}


def test_what_is_stale_sinks_and_what_is_pinned_does_not(memory: Memory) -> None:
    old = memory.store(TWINS[0], event_at="2001-01-01").id
    memory.store(TWINS[1])
    assert order(memory) == [TWINS[1], TWINS[0]]
    memory.delete(old)
    memory.store(TWINS[0], event_at="2001-01-01", pinned=True)
    scores = [hit.score for hit in memory.search("rotate ssh keys")]
    assert len(set(scores)) == 1


def test_the_untrusted_earns_nothing_by_being_read(memory: Memory) -> None:
    theirs = memory.store(TWINS[0], trust="untrusted", origin="web").id
    memory.store(TWINS[1])
    for _ in range(MAX_UNWRITTEN):
        memory.get(theirs)
    hits = {hit.text: hit.score for hit in memory.search("rotate ssh keys")}
    assert hits[TWINS[0]] <= hits[TWINS[1]]


def test_importance_that_was_stored_moves_the_score_and_is_explained(memory: Memory) -> None:
    ids = [memory.store(text).id for text in TWINS]
    plain = memory.search("rotate ssh keys", explain=True)
    assert plain[0].score == plain[1].score
    assert not any("importance" in reason for hit in plain for reason in hit.reasons)
    for id_, text, importance in zip(ids, TWINS, (0.0, 1.0), strict=True):
        memory.delete(id_)
        memory.store(text, importance=importance)
    hits = memory.search("rotate ssh keys", explain=True)
    assert [hit.text for hit in hits] == [TWINS[1], TWINS[0]]
    assert hits[1].score / hits[0].score == pytest.approx(0.9 / 1.1, abs=1e-3)
    assert "importance 1.1000" in hits[0].reasons[-1]
    assert "importance 0.9000" in hits[1].reasons[-1]


def test_scores_that_rise_above_one_are_divided_and_the_explanation_tells(memory: Memory) -> None:
    memory.store("the deploy runbook of the north", key="north", importance=1.0)
    memory.store("the deploy runbook of the south", key="south")
    for hit in memory.search("deploy runbook of the north", explain=True):
        lines = "\n".join(hit.reasons)
        before = float(re.findall(r"^score ([\d.]+)$", lines, re.M)[0])
        factor = float(re.findall(r"^limbic x ([\d.]+):", lines, re.M)[0])
        divisor = float(
            re.findall(r"; divided by ([\d.]+), so that no score is above 1$", lines, re.M)[0]
        )
        assert divisor > 1.0
        assert hit.score == pytest.approx(before * factor / divisor, abs=1e-3)


@pytest.mark.parametrize(
    ("flags", "moves"),
    [({}, True), ({"limbic": "off"}, False), ({"limbic_constants": "use_weight=0"}, False)],
)
def test_it_can_be_switched_off_and_tuned(
    tmp_path: Path, flags: dict[str, object], moves: bool
) -> None:
    path = tmp_path / "m.db"
    with open_with(path) as memory:
        ids = [memory.store(text).id for text in TWINS]
        for _ in range(MAX_UNWRITTEN):
            memory.get(ids[0])
    with open_with(path, **flags) as memory:
        hits = memory.search("rotate ssh keys", explain=True)
        assert (hits[0].score > hits[1].score) == moves
        explained = any("limbic" in reason for reason in hits[0].reasons)
        assert explained == (flags.get("limbic") != "off")


def test_another_systems_merge_keeps_its_own_scores(memory: Memory, twins: dict[str, str]) -> None:
    before = [hit.score for hit in memory.search("rotate ssh keys", fusion="rrf")]
    for _ in range(MAX_UNWRITTEN):
        memory.get(twins[TWINS[1]])
    assert [hit.score for hit in memory.search("rotate ssh keys", fusion="rrf")] == before


def test_a_long_document_read_whole_says_nothing_of_its_passages(memory: Memory) -> None:
    text = "\n\n".join(f"# Part {n}\n\n" + f"word{n} " * 180 for n in range(15))
    memory.store(text, key="long")
    memory.get("long")
    memory._flush()
    refs = [part.ref for part in memory.passages_of(memory.lookup("long")[0].id)]
    assert len(refs) > 10
    assert uses(memory, refs) == {}
