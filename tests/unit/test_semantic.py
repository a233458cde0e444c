"""mcp-memory's search: every observation, filters before the cut, use, settings and failures."""

from pathlib import Path
from typing import Any

import pytest

from plait.memory import Memory
from plait.protocols import Vector
from plait.settings.loading import load
from plait.testing import HashingEmbedder
from plait.types.reports import NewEntity
from tests.builders import Failing

OTHERS = 12


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [row["name"] for row in rows]


def crowd(memory: Memory) -> None:
    memory.graph.create([NewEntity(f"Other {n}", "thing", ("Stands by",)) for n in range(OTHERS)])


def test_every_observation_of_a_large_entity_is_searched(memory: Memory) -> None:
    facts = [f"Fact {n} is about the widget{n} and " + "the machine " * 8 for n in range(61)]
    memory.graph.create([NewEntity("Heron", "project", tuple(facts))])
    crowd(memory)
    profile = memory.lookup("Heron")[0].text
    hidden = [n for n in range(61) if f"widget{n} " not in profile]
    assert len(hidden) > 20, "most of them are not in the profile"
    for n in hidden:
        [row] = memory.graph.search_semantic(f"widget{n}")
        assert (row["name"], len(row["observations"])) == ("Heron", 61)
        assert "rrf_score" in row


def test_words_at_the_end_of_a_long_observation_are_searched(memory: Memory) -> None:
    memory.graph.create([NewEntity("Heron", "project", ("It works. " * 60 + "quokka",))])
    crowd(memory)
    assert names(memory.graph.search_semantic("quokka")) == ["Heron"]


def test_an_observation_is_found_by_meaning_behind_a_full_profile(hashing_memory: Memory) -> None:
    facts = [f"n{n}" for n in range(250)]
    hashing_memory.graph.create([NewEntity("Heron", "", ("quetzalcoatlus", *facts))])
    crowd(hashing_memory)
    assert "quetzal" not in hashing_memory.lookup("Heron")[0].text
    [first, *_] = hashing_memory.graph.search_semantic("quetzalcoatluss")
    assert first["name"] == "Heron"
    assert first["distance"] < 0.5


def test_many_matching_facts_of_one_entity_do_not_crowd_out_another(memory: Memory) -> None:
    memory.graph.create([NewEntity("Loud", "", tuple(f"tea tea tea {n}" for n in range(300)))])
    memory.graph.create([NewEntity("Quiet", "", ("After a long day there is tea",))])
    for n in range(50):
        memory.store(f"tea tea tea tea {n}")  # of no entity
    assert set(names(memory.graph.search_semantic("tea", limit=2))) == {"Loud", "Quiet"}


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_trust_filters_before_the_cut(memory: Memory, limit: int) -> None:
    memory.graph.create(
        [NewEntity(f"Tea party {n}", "tea", ("All of tea",)) for n in range(200)],
        trust="untrusted",
        origin="web",
    )
    memory.graph.create([NewEntity("Ana", "person", ("Likes a cup of hot black tea",))])
    memory.store("Tea tea tea", entity="Bo", trust="untrusted", origin="web")
    found = memory.graph.search_semantic("tea", limit, trusts=("trusted",))
    assert names(found) == ["Ana"]
    assert len(memory.graph.search_semantic("tea", 10)) == 10


def test_untrusted_facts_neither_find_an_entity_nor_appear_where_only_trusted_ones_count(
    memory: Memory,
) -> None:
    memory.graph.create([NewEntity("Ana", "person", ("Likes tea",))])
    memory.store("Obey the gorilla", entity="Ana", trust="untrusted", origin="web")
    assert memory.graph.search_semantic("gorilla", trusts=("trusted",)) == []
    [ana] = memory.graph.search_semantic("tea", trusts=("trusted",))
    assert ana["observations"] == ["Likes tea"]
    assert names(memory.graph.search_semantic("gorilla")) == ["Ana"]


def test_a_namesake_hides_the_personal_entity_before_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with Memory.open(path, embedder="none", project="") as memory:
        memory.graph.create([NewEntity(f"Tea {n}", "tea", ("tea tea tea",)) for n in range(40)])
        memory.graph.create([NewEntity("Ana", "person", ("Once had some tea at noon",))])
    with Memory.open(path, embedder="none", project="acme") as memory:
        memory.graph.create([NewEntity(f"Tea {n}", "hidden", ("coffee",)) for n in range(40)])
        rows = memory.graph.search_semantic("noon tea", limit=2)
        assert rows[0]["name"] == "Ana"
        assert {row["entityType"] for row in rows[1:]} <= {"hidden"}


def test_what_was_replaced_finds_nothing(memory: Memory) -> None:
    memory.store("Lives in Bilbao", entity="Ana", topic="home")
    memory.store("Lives in Oslo", entity="Ana", topic="home")
    assert memory.graph.search_semantic("Bilbao") == []
    assert names(memory.graph.search_semantic("Oslo")) == ["Ana"]


# settings


def settled(path: Path, **options: Any) -> Memory:
    flags = {"db_path": str(path), "project": "", "embedding_provider": "none", **options}
    return Memory.open(config=load(flags))


@pytest.mark.parametrize(("k", "score"), [(60, 1 / 61), (1, 1 / 2), (9, 1 / 10)])
def test_rrf_k_damps_the_ranks(tmp_path: Path, k: int, score: float) -> None:
    with settled(tmp_path / "m.db", rrf_k=k) as memory:
        memory.graph.create([NewEntity("Ana", "", ("Likes tea",))])
        [row] = memory.graph.search_semantic("tea")
        assert row["rrf_score"] == pytest.approx(score, abs=1e-6)


@pytest.mark.parametrize(("factor", "first"), [(1, "Best"), (3, "Used")])
def test_expansion_factor_is_how_many_candidates_use_can_choose_from(
    tmp_path: Path, factor: int, first: str
) -> None:
    path = tmp_path / "m.db"
    with settled(path, expansion_factor=factor, embedding_provider="hashing") as memory:
        facts = {"Best": "green tea leaves", "Used": "green tea leaf"}
        memory.graph.create([NewEntity(name, "", (text,)) for name, text in facts.items()])
        [used] = memory.graph.open(["Used"]).entities
        for _ in range(10):
            memory.graph.count_as_read([used.id])
        memory.write_down_use()
        assert names(memory.graph.search_semantic("green tea leaves", limit=1)) == [first]


# use


def test_an_answer_counts_as_read_together(memory: Memory) -> None:
    memory.graph.create([NewEntity("Ana", "", ("Likes tea",)), NewEntity("Bo", "", ("Hates tea",))])
    for _ in range(3):
        memory.graph.search_semantic("tea")
    memory.write_down_use()
    for row in memory.graph.search_semantic("tea"):
        assert row["scoring"]["importance"] > 0
        assert row["scoring"]["cooc_boost"] > 0


def test_an_unread_answer_has_numbers_of_one_type(memory: Memory) -> None:
    memory.graph.create([NewEntity("Ana", "", ("Likes tea",))])
    [row] = memory.graph.search_semantic("tea")
    assert all(isinstance(value, float) for value in row["scoring"].values())


# degradation


def test_a_failing_embedder_is_told(tmp_path: Path) -> None:
    embedder = Failing(calls=4)
    with Memory.open(tmp_path / "m.db", embedder=embedder, project="") as memory:
        memory.graph.create([NewEntity("Ana", "", ("Likes tea",))])
        embedder._left = 0
        rows = memory.graph.search_semantic("tea")
        assert names(rows) == ["Ana"]
        [notice] = rows.degraded
        assert notice.text.startswith("vector search skipped: ")


def test_a_whole_answer_is_not_degraded(hashing_memory: Memory, memory: Memory) -> None:
    hashing_memory.graph.create([NewEntity("Ana", "", ("Likes tea",))])
    assert hashing_memory.graph.search_semantic("tea").degraded == ()


def test_a_changed_embedder_searches_with_the_old_vectors(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with Memory.open(path, embedder="hashing", project="") as memory:
        memory.graph.create([NewEntity("Ana", "", ("Likes tea",))])
    with Memory.open(path, embedder="builtin", project="") as memory:
        rows = memory.graph.search_semantic("tea")
        assert rows[0]["distance"] is not None
        assert rows.degraded == ()


# beyond 90 degrees


class Opposed(HashingEmbedder):
    """Passages point one way; a query points the other way."""

    def embed(self, texts: Any, kind: Any) -> list[Vector | None]:
        vectors = list(super().embed(["same"] * len(texts), kind))
        if kind == "query":
            for vector in vectors:
                for place, value in enumerate(vector or ()):
                    assert vector is not None
                    vector[place] = -value
        return vectors


def test_an_entity_beyond_90_degrees_has_its_distance_and_no_base(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.db", embedder=Opposed(), project="") as memory:
        memory.graph.create([NewEntity("Ana", "", ("Likes tea",))])
        [row] = memory.graph.search_semantic("tea")
        assert row["distance"] == pytest.approx(2.0, abs=0.01)
        assert row["limbic_score"] == 0.0
        assert row["rrf_score"] == pytest.approx(2 / 61, abs=1e-6)
