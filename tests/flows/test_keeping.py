"""What is kept and what goes: retention by kind, pinned memories, provenance, dropped vectors."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from plait import Memory
from plait.errors import ConfigError, UsageError
from plait.searching.recall import tokens_of
from plait.settings.loading import load
from plait.times import DAY_MS
from plait.types import Document, Filter
from plait.types.reports import NewEntity
from plait.writing.documents import now_ms
from tests.codes import has_code

OLD = now_ms() - 400 * DAY_MS
NEW = now_ms()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    flags = {"db_path": str(tmp_path / "m.db"), "project": "", "embedding_provider": "none"}
    config = load({**flags, "keep_days": "message=90,observation=365"}, environ={})
    with Memory.open(config=config) as opened:
        yield opened


def keys(memory: Memory) -> set[str | None]:
    return {row.key for row in memory.engine.scan(Filter(trusts=("trusted", "quarantined")))}


def old(key: str, kind: str, **fields: object) -> Document:
    times = {"created_at": OLD, "updated_at": OLD, "event_at": OLD, "indexed_at": OLD}
    return Document(key=key, kind=kind, text=f"text of {key}", **{**times, **fields})  # type: ignore[arg-type]


def test_prune_moves_what_is_too_old_to_the_trash_and_undo_brings_it_back(
    memory: Memory, tmp_path: Path
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "old.md").write_text("A file.", encoding="utf-8")
    memory.ingest(tmp_path / "notes")
    memory.graph.create([NewEntity("Ana")])
    memory.store_many(
        [
            old("message", "message", session="s"),
            old("observation", "observation"),
            old("quarantined", "observation", trust="quarantined"),
            old("note", "note"),
            old("pinned", "observation", pinned=True),
            old("young", "message", session="s", event_at=NEW),
            old("changed", "observation", updated_at=NEW),
            old("told of long ago", "observation", created_at=NEW),
            old("elsewhere", "message", session="s", project="other"),
        ]
    )
    everything = keys(memory)
    listed = memory.prune()
    assert set(listed.doc_ids) == {"message", "observation", "quarantined"}
    assert keys(memory) == everything
    assert memory.prune(dry_run=False).ids == listed.ids
    assert keys(memory) == everything - set(listed.doc_ids)
    memory.undo()
    assert keys(memory) == everything
    assert "elsewhere" in memory.prune(all_projects=True).doc_ids


def test_without_a_rule_prune_says_how_to_make_one(tmp_path: Path) -> None:
    with (
        Memory.open(tmp_path / "m.db") as memory,
        pytest.raises(UsageError, check=has_code("no_keep_days", "keep_days")),
    ):
        memory.prune()


@pytest.mark.parametrize(
    "value", ["file=3", "entity=3", "message", "message=0", "message=-1", "message=x", "", "=3"]
)
def test_a_rule_that_makes_no_sense_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, check=has_code("bad_value", "keep_days")):
        load({"keep_days": value}, environ={})


def test_a_rule_may_be_a_table(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[memory]\nkeep_days = { message = 90 }\n", encoding="utf-8")
    assert load(config=str(file), environ={}).settings.keep_days == (("message", 90.0),)


# -- pinned --------------------------------------------------------------------------------


def test_a_pinned_memory_is_recalled_first_whatever_is_asked(memory: Memory) -> None:
    memory.store("Always answer in French.", key="style", pinned=True)
    memory.store("Herons fish at dawn.", key="heron")
    for question in ("herons fish dawn", "qqqqzzzz"):
        recalled = memory.recall(question)
        assert recalled.items[0].hit.doc_id == "style"
        assert "Always answer in French." in recalled.text
        assert "pinned" in recalled.text
    assert [item.hit.doc_id for item in memory.recall("herons fish dawn").items] == [
        "style",
        "heron",
    ]
    assert [hit.doc_id for hit in memory.search("herons")] == ["heron"]


def test_a_pinned_memory_that_matches_is_shown_once_with_what_matches(memory: Memory) -> None:
    text = "# One\n\n" + "Pelicans. " * 150 + "\n\n# Two\n\nHerons fish at dawn.\n"
    memory.store(text, key="birds", pinned=True)
    [item] = memory.recall("herons fish dawn").items
    assert "Herons fish at dawn." in item.text


def test_pinned_memories_leave_most_of_the_budget_to_the_question(memory: Memory) -> None:
    for number in range(30):
        memory.store(f"Rule {number}. " + "Obey it. " * 20, key=f"rule {number}", pinned=True)
    memory.store("Herons fish at dawn.", key="heron")
    recalled = memory.recall("herons fish dawn", budget_tokens=1000)
    pinned = [item for item in recalled.items if item.hit.document.pinned]
    assert 1 <= len(pinned) < 30
    assert sum(tokens_of(item.text) for item in pinned) <= 250
    assert recalled.items[-1].hit.doc_id == "heron"


@pytest.mark.parametrize("fields", [{"trust": "untrusted"}, {"trust": "quarantined"}])
def test_only_trusted_memories_are_always_recalled(memory: Memory, fields: dict[str, str]) -> None:
    memory.store("Obey the crane.", key="style", pinned=True, **fields)  # type: ignore[arg-type]
    assert memory.recall("qqqqzzzz").items == ()


def test_pinned_memories_of_other_projects_and_filters_stay_out(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "p.db", embedder="none", project="other") as other:
        other.store("Theirs.", pinned=True)
    with Memory.open(tmp_path / "p.db", embedder="none", project="here") as here:
        assert here.recall("x").items == ()
        assert len(here.recall("x", all_projects=True).items) == 1
        here.store("Ours.", pinned=True, tags=["style"])
        assert len(here.recall("x", where={"tags": "style"}).items) == 1
        assert here.recall("x", where={"tags": "food"}).items == ()


# -- provenance ----------------------------------------------------------------------------


def test_provenance_is_kept_shown_and_a_filter(memory: Memory) -> None:
    made = {"model": "m-1", "tool": "editor", "branch": "main", "commit": "4f2a"}
    memory.store("Herons fish at dawn.", key="heron", metadata={"a": "b"}, provenance=made)
    memory.store("Herons sleep at noon.", key="other")
    document = memory.lookup("heron")[0]
    assert document.metadata == {"a": "b", **made}
    for name, value in made.items():
        [hit] = memory.search("herons", where={"metadata": {name: value}})
        assert hit.document.metadata[name] == value


@pytest.mark.parametrize(
    ("provenance", "code", "subject"),
    [({"author": "x"}, "bad_value", "provenance"), ({"model": " "}, "empty_name", None)],
)
def test_provenance_has_four_names(
    memory: Memory, provenance: dict[str, str], code: str, subject: str | None
) -> None:
    with pytest.raises(UsageError) as refused:
        memory.store("x", provenance=provenance)
    assert refused.value.code == code
    assert subject in (None, refused.value.subject)


# -- vectors -------------------------------------------------------------------------------


def test_a_reindex_without_an_embedder_drops_the_vectors_and_the_memory_remembers(
    tmp_path: Path,
) -> None:
    path = tmp_path / "v.db"
    with Memory.open(path, embedder="hashing", project="") as memory:
        memory.store("Herons fish at dawn.")
        assert memory.stats().embedded_count == 1
    with Memory.open(path, embedder="none", project="") as memory:
        assert memory.reindex().swapped
        stats = memory.stats()
        assert (stats.embedded_count, stats.pending_count, stats.space) == (0, 0, None)
        assert not memory.reindex().swapped
    with Memory.open(path, project="") as memory:
        assert memory.embedder.dims == 0
        memory.store("Cranes dance.")
        answer = memory.search("herons")
        assert (answer.receipt.mode_used, answer.receipt.degraded) == ("keyword", ())
    with Memory.open(path, embedder="hashing", project="") as memory:
        memory.reindex()
        assert memory.stats().embedded_count == 2


def test_vectors_of_an_embedder_that_cannot_be_used_are_not_dropped(tmp_path: Path) -> None:
    path = tmp_path / "v.db"
    with Memory.open(path, embedder="hashing", project="") as memory:
        memory.store("Herons fish at dawn.")
        memory.engine  # noqa: B018 - the store is open
        from plait.embedders.none import NoEmbedder
        from plait.errors import Notice

        memory._embedder = NoEmbedder(Notice("gone"))
        assert not memory.reindex().swapped
        assert memory.stats().embedded_count == 1


def test_days_to_keep_may_be_given_to_one_call(memory: Memory) -> None:
    memory.store_many([old("n", "note"), old("message", "message", session="s")])
    assert memory.prune(keep_days={"note": 1}).doc_ids == ("n",)
    assert memory.prune(keep_days={"note": 36_000}).doc_ids == ()
    assert memory.prune().doc_ids == ("message",)
    with pytest.raises(ConfigError, check=has_code("bad_value", "keep_days")):
        memory.prune(keep_days={"file": 1})
    assert memory.prune(keep_days={"note": 1}, dry_run=False).doc_ids == ("n",)
    assert keys(memory) == {"message"}
