"""What a new note resembles is looked up at the same cost in a memory of any size."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plait.memory import Memory
from plait.protocols import Entry
from plait.stores.sqlite import filters, rebuilding, resembling
from plait.stores.sqlite.connection import rows
from plait.stores.sqlite.store import SQLiteStore
from plait.stores.sqlite.vectors import BLOCK_ROWS
from plait.testing import HashingEmbedder
from plait.types import Document, Filter, Passage
from plait.types.ids import new_id
from plait.types.queries import Query
from plait.writing.echoes import plain_query

FACT = "The staging gateway forwards heartbeat telemetry to the archive cluster"
COMMON = "we moved the meeting about the budget to the large room"
OBSERVATIONS = Filter(kinds=("observation",))


def write(store: SQLiteStore, texts: list[str], kind: str = "observation") -> None:
    embedder = HashingEmbedder()
    made = embedder.embed(texts, "passage")
    with store.transaction() as transaction:
        for text, vector in zip(texts, made, strict=True):
            document = Document(id=new_id(), kind=kind, text=text, event_at=1)  # type: ignore[arg-type]
            transaction.write(Entry(document, [Passage(text)], [vector], embedder.space))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(str(tmp_path / "memory.db"), durability="normal")
    yield store
    store.close()


def resembled(store: SQLiteStore, text: str, where: Filter = OBSERVATIONS) -> list[str]:
    query = plain_query(text)._replace(rarest=True)
    refs = [ref for ref, _ in store.keyword(query, 5, where)]
    rows = store.hydrate(refs)
    return [rows[ref].passage.text for ref in refs]


def test_the_passage_with_most_of_the_rarest_words_comes_first(store: SQLiteStore) -> None:
    others = [f"note {number} about the gateway of the cluster" for number in range(30)]
    write(store, [*others[:15], FACT, *others[15:]])
    assert resembled(store, FACT.replace("archive", "new"))[0] == FACT


@pytest.mark.parametrize("edited", [COMMON, COMMON.replace("budget", "garden"), COMMON + " again"])
def test_a_text_of_common_words_is_told_by_several_of_them_together(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch, edited: str
) -> None:
    monkeypatch.setattr(resembling, "RARE_IN_PASSAGES", 3)
    words = COMMON.split()
    write(store, [f"{word} {words[place - 1]}" for place, word in enumerate(words)] * 5)
    write(store, [COMMON])
    write(store, ["garden again"] * 5)
    assert resembled(store, edited)[0] == COMMON


def test_only_what_meets_the_conditions_counts(store: SQLiteStore) -> None:
    write(store, [FACT + " file"] * 3, kind="note")
    write(store, [FACT])
    assert resembled(store, FACT) == [FACT]
    assert resembled(store, FACT, Filter(kinds=("file",))) == []
    assert resembled(store, FACT, Filter(projects=("elsewhere",))) == []


@pytest.mark.parametrize("query", [Query("", ("nowhere",), rarest=True), Query("", rarest=True)])
def test_words_of_no_passage_resemble_nothing(store: SQLiteStore, query: Query) -> None:
    write(store, [FACT])
    assert store.keyword(query, 5, OBSERVATIONS) == []


def test_by_vector_the_latest_passages_are_compared_and_their_cosines_are_exact(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resembling, "LATEST_BLOCKS", 1)
    write(store, [FACT, *(f"filler number {number}" for number in range(BLOCK_ROWS))])
    write(store, [f"{FACT} now"])
    embedder = HashingEmbedder()
    [vector] = embedder.embed([FACT], "passage")
    assert vector is not None
    ask = (vector, embedder.space, 3, OBSERVATIONS)
    everything, latest = store.vector(*ask), store.vector(*ask, latest=True)
    first = everything.hits[0][0]
    assert first // BLOCK_ROWS == 0
    assert [ref // BLOCK_ROWS for ref, _ in latest.hits] == [1] * len(latest.hits)
    assert set(latest.hits) <= set(store.vector(*ask[:2], BLOCK_ROWS, OBSERVATIONS).hits)
    # Passages that were named are compared wherever they are.
    assert store.vector(*ask, also=[first], latest=True).cosines[first] == everything.hits[0][1]
    assert store.vector(*ask[:3], Filter(kinds=("file",)), latest=True).hits == []


def test_a_memory_without_vectors_has_no_latest_ones(store: SQLiteStore) -> None:
    embedder = HashingEmbedder()
    [vector] = embedder.embed([FACT], "passage")
    assert vector is not None
    assert store.vector(vector, embedder.space, 3, OBSERVATIONS, latest=True).hits == []


def test_storing_a_note_lists_no_observations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[object] = []
    passing = filters.passing

    def watched(*values: object, **options: object) -> list[int]:
        if options.get("among") is None:
            listed.append(values)
        return passing(*values, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(filters, "passing", watched)
    with Memory.open(tmp_path / "memory.db", embedder="hashing", project="") as memory:
        old = memory.store(FACT)
        for number in range(20):
            memory.store(f"Remembered as number {number}")
        # Of old notes too, what is nearly the same is named.
        monkeypatch.setattr(resembling, "LATEST_BLOCKS", 0)
        near = memory.store(FACT.replace("archive", "new")).near
    assert [other.id for other in near] == [old.id]
    assert listed == []


def test_copies_elsewhere_do_not_hide_the_note_that_is_meant(store: SQLiteStore) -> None:
    copies = 65
    write(store, [FACT])
    write(store, [FACT] * copies, kind="note")
    assert resembled(store, FACT) == [FACT]
    embedder = HashingEmbedder()
    [vector] = embedder.embed([FACT], "passage")
    assert vector is not None
    hits = store.vector(vector, embedder.space, 3, OBSERVATIONS, latest=True).hits
    assert [ref for ref, _ in hits] == [1]


@pytest.mark.parametrize("facts", [resembling.FACTS_COMPARED, 0])
def test_a_fact_that_many_others_have_too_is_told_for_its_own_entity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: int
) -> None:
    """However many facts its entity has: all are compared, or those with the rarest words."""
    monkeypatch.setattr(resembling, "FACTS_COMPARED", facts)
    with Memory.open(tmp_path / "memory.db", embedder="none", project="") as memory:
        names = [f"Person {number}" for number in range(65)]
        stored = [memory.store(FACT, entity=name) for name in names]
        near = memory.store(FACT.replace("archive", "new"), entity=names[2]).near
    assert [other.id for other in near] == [stored[2].id]


@pytest.mark.parametrize("text", ["数据库备份每天凌晨三点运行", "КОПИЯ данных делается ночью"])
def test_a_common_fact_is_told_in_every_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(resembling, "RARE_IN_PASSAGES", 3)
    with Memory.open(tmp_path / "memory.db", embedder="none", project="") as memory:
        stored = [memory.store(text, entity=f"Person {number}") for number in range(20)]
        near = memory.store(f"{text} 2", entity="Person 2").near
    assert [other.id for other in near] == [stored[2].id]


def test_no_word_that_was_counted_is_looked_up_again(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lookup in a million passages takes 0.06 ms, and a note has a dozen such words."""
    monkeypatch.setattr(rebuilding, "RARE_IN_PASSAGES", 10)
    monkeypatch.setattr(resembling, "RARE_IN_PASSAGES", 10)
    store.tidied_passages = 1
    write(store, [f"{COMMON} number{number}" for number in range(60)])
    write(store, [f"seldom number{number}" for number in range(5)])
    asked: list[str] = []

    def told(connection: Any, sql: str, values: Any = ()) -> Any:
        asked.extend(values[:1] if "MATCH" in sql else ())
        return rows(connection, sql, values)

    monkeypatch.setattr(resembling, "rows", told)
    resembled(store, f"seldom {COMMON}")
    assert '"budget"' in asked
    asked.clear()
    store.tidy()
    resembled(store, f"seldom {COMMON}")
    assert [match for match in asked if " AND " not in match] == ['"seldom"']


def test_of_common_words_the_less_common_ones_are_looked_up_first_together(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuilding, "RARE_IN_PASSAGES", 10)
    monkeypatch.setattr(resembling, "RARE_IN_PASSAGES", 10)
    store.tidied_passages = 1
    write(store, [f"everywhere{'' if number % 2 else ' often'} {COMMON}" for number in range(60)])
    write(store, ["everywhere meeting"] * 20)
    write(store, ["ant bee cat"] * 12)
    store.tidy()
    asked: list[str] = []

    def told(connection: Any, sql: str, values: Any = ()) -> Any:
        asked.extend(values[:1] if " AND " in str(values[:1]) else ())
        return rows(connection, sql, values)

    monkeypatch.setattr(resembling, "rows", told)
    resembled(store, "everywhere meeting often ant bee cat")
    assert asked[0] == '"ant" AND "bee" AND "cat"'
    assert "everywhere" not in asked[1]
