"""One run that does what is due, and the doors that stay open."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plait import Memory
from plait.embedders import Embedder
from plait.errors import EmbedderError, StoreBusy, UsageError
from plait.mcp.lazy import LazyMemory
from plait.memory import upkeep
from plait.ranking.use import HOUR_MS
from plait.settings.loading import load
from plait.testing.hashing import HashingEmbedder
from plait.times import DAY_MS
from plait.types import EVERYTHING, Document
from plait.types.reports import Maintained
from plait.writing.documents import now_ms
from tests.codes import has_code

OLD = now_ms() - 400 * DAY_MS


def opened(path: Path, **flags: object) -> Memory:
    given = {"db_path": str(path), "project": "", "embedding_provider": "none", **flags}
    return Memory.open(config=load(given, environ={}))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path / "m.db", keep_days="note=30", keep_most="message=1") as one:
        yield one


def old(key: str, **fields: Any) -> Document:
    times = {"created_at": OLD, "updated_at": OLD, "event_at": OLD, "indexed_at": OLD}
    return Document(key=key, text=f"text of {key}", **{**times, **fields})


def test_a_run_indexes_prunes_and_is_noted_in_the_log(memory: Memory, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("Herons fish.", encoding="utf-8")
    memory.store_many([old("gone"), old("elsewhere", project="other")])
    done = memory.maintain(notes)
    assert (done.ingested, set(done.pruned.doc_ids), done.troubles) == (
        1,
        {"gone", "elsewhere"},
        (),
    )
    assert {entry.verb for entry in memory.log()} == {"maintain", "store_many"}
    assert memory.maintain(notes) == Maintained()
    memory.undo()
    assert "gone" in {row.key for row in memory.engine.scan(EVERYTHING)}


def test_without_a_rule_nothing_is_deleted(tmp_path: Path) -> None:
    with opened(tmp_path / "m.db") as memory:
        memory.store_many([old("kept")])
        assert memory.maintain() == Maintained()
        assert memory.lookup("kept")


def test_the_folder_of_the_settings_is_indexed(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("Herons fish.", encoding="utf-8")
    with opened(tmp_path / "m.db", memory_dir=str(tmp_path / "notes")) as memory:
        assert memory.maintain(light=True).ingested == 0, "it would get the project of a server"
        assert memory.maintain().ingested == 1
        (tmp_path / "notes" / "a.md").unlink()
        (tmp_path / "notes" / "b.md").write_text("Cranes dance.", encoding="utf-8")
        assert memory.maintain().ingested == 2


def test_a_dry_run_tells_and_changes_nothing(memory: Memory, tmp_path: Path) -> None:
    memory.store_many([old("gone")])
    done = memory.maintain(tmp_path / "nowhere", dry_run=True)
    assert (done.dry_run, done.pruned.doc_ids) == (True, ("gone",))
    assert [notice.code for notice in done.troubles] == ["no_such_source"]
    assert memory.lookup("gone")
    assert memory.engine.remembered(upkeep.MAINTAINED) == {}


def test_one_step_that_fails_does_not_keep_back_the_others(memory: Memory, tmp_path: Path) -> None:
    memory.store_many([old("gone")])
    done = memory.maintain(tmp_path / "nowhere")
    assert [notice.code for notice in done.troubles] == ["no_such_source"]
    assert done.pruned.doc_ids == ("gone",)
    assert memory.engine.remembered(upkeep.MAINTAINED) != {}


class Failing(HashingEmbedder):
    """An embedder that works only when it is told to."""

    works = False

    def embed(self, texts: Any, kind: Any) -> Any:
        if not self.works:
            raise EmbedderError("It is down.", code="down")
        return super().embed(texts, kind)


def test_what_was_done_is_told_even_if_the_end_of_a_run_cannot_be_noted(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.store_many([old("gone")])
    tidied = upkeep._Run.tidy

    def then_busy(run: upkeep._Run, *, compact: bool) -> None:
        def busy(**_: object) -> None:
            raise StoreBusy("Somebody else is writing.")

        tidied(run, compact=compact)
        monkeypatch.setattr(memory.engine, "transaction", busy)

    monkeypatch.setattr(upkeep._Run, "tidy", then_busy)
    done = memory.maintain()
    assert done.pruned.doc_ids == ("gone",)
    assert [notice.text for notice in done.troubles] == ["Somebody else is writing."]


def test_missing_vectors_are_made_or_the_trouble_is_told(tmp_path: Path) -> None:
    embedder: Embedder = Failing()
    with opened(tmp_path / "m.db") as memory:
        memory._embedder = embedder
        memory.store("Herons fish at dawn.", key="heron")
        assert [notice.code for notice in memory.maintain().troubles] == ["down"]
        embedder.works = True  # type: ignore[attr-defined]
        assert memory.maintain().vectors == 1
        assert memory.stats().embedded_count == 1


def test_the_trash_is_emptied_of_what_is_older_than_30_days(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.store("A remark", key="k")
    memory.delete("k")
    assert memory.maintain().expired == 0
    later = (now_ms() + 31 * DAY_MS) * 1_000_000
    monkeypatch.setattr("time.time_ns", lambda: later)
    assert memory.maintain().expired == 1
    assert memory.stats().trash_count == 0


def test_what_left_the_trash_is_counted_also_if_rules_and_files_deleted_more(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for name in "ab":
        (notes / f"{name}.md").write_text(f"About {name}.", encoding="utf-8")
    memory.ingest(notes)
    memory.store_many([old("gone"), Document(key="k", text="A remark")])
    memory.delete("k")
    (notes / "a.md").unlink()
    later = (now_ms() + 31 * DAY_MS) * 1_000_000
    monkeypatch.setattr("time.time_ns", lambda: later)
    done = memory.maintain(notes)
    assert (done.ingested, done.pruned.doc_ids, done.expired) == (1, ("gone",), 1)


def test_what_the_rules_deleted_is_told_even_if_the_memory_is_busy_then(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object, **__: object) -> int:
        raise StoreBusy("Somebody else is writing.")

    memory.store_many([old("gone")])
    monkeypatch.setattr("plait.writing.backfill.Backfill.catch_up", busy)
    done = memory.maintain()
    assert done.pruned.doc_ids == ("gone",)
    assert [notice.text for notice in done.troubles] == ["Somebody else is writing."]


@pytest.mark.parametrize("verb", ["delete", "undo", "mark", "unmark", "prune"])
def test_a_change_that_is_done_is_told_even_if_its_vectors_must_wait(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    def busy(*_: object, **__: object) -> int:
        raise StoreBusy("Somebody else is writing.")

    fact = memory.store("Ana lives in Graz.", entity="Ana").id
    memory.store_many([old("gone"), old("trashed")])
    memory.delete("trashed")
    marked = memory.mark(fact, status="done")
    monkeypatch.setattr("plait.writing.backfill.Backfill.catch_up", busy)
    if verb == "delete":
        assert memory.delete(fact).ids == (fact,)
    elif verb == "undo":
        assert [row.key for row in memory.undo()] == ["trashed"]
    elif verb == "mark":
        assert memory.mark(fact, status="archived").before
    elif verb == "unmark":
        memory.unmark(marked)
        assert memory.lookup(fact)[0].status is None
    else:
        assert memory.prune(dry_run=False).doc_ids == ("gone",)


def test_a_file_with_much_free_space_becomes_smaller(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.store_many([Document(key=f"k{n}", text=f"{n} " * 4000) for n in range(40)])
    memory.delete(where={"kinds": "note"}, purge=True)
    monkeypatch.setattr(upkeep, "FREE_BYTES", 1)
    before = memory.stats()
    assert before.free_bytes > before.db_size_bytes / 4
    assert not memory.maintain(light=True).compacted
    assert memory.maintain(dry_run=True).compacted
    assert memory.maintain().compacted
    after = memory.stats()
    assert after.db_size_bytes < before.db_size_bytes
    assert after.free_bytes == 0
    assert not memory.maintain().compacted


def test_a_scope_cannot_maintain_the_memory(memory: Memory) -> None:
    with pytest.raises(UsageError, check=has_code("not_in_scope", "maintain")):
        memory.scope("ana").maintain()


# -- doors ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "due"),
    [({}, False), ({"maintain_hours": 2}, True), ({"maintain_hours": 2, "read_only": "on"}, False)],
)
def test_a_door_maintains_only_if_the_person_wants_it(
    tmp_path: Path, flags: dict[str, object], due: bool
) -> None:
    with opened(tmp_path / "m.db") as memory:
        memory.store("x")
    with opened(tmp_path / "m.db", **flags) as memory:
        assert upkeep.is_due(memory) is due


def test_it_is_due_again_after_so_many_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "m.db", maintain_hours=2) as memory:
        memory.store("x")
        memory.maintain()
        assert not upkeep.is_due(memory)
        start = now_ms()
        for hours, due in ((1.9, False), (2.1, True)):
            moment = start + round(hours * HOUR_MS)
            monkeypatch.setattr(upkeep, "now_ms", lambda moment=moment: moment)
            assert upkeep.is_due(memory) is due


@pytest.mark.parametrize(("ahead_hours", "due"), [(1.9, False), (2.1, True)])
def test_a_clock_that_is_a_little_ahead_does_not_make_others_run_it_again(
    tmp_path: Path, ahead_hours: float, due: bool
) -> None:
    with opened(tmp_path / "m.db", maintain_hours=2) as memory:
        memory.store("x")
        with memory.engine.transaction() as transaction:
            noted = now_ms() + round(ahead_hours * HOUR_MS)
            transaction.remember(**{upkeep.MAINTAINED: str(noted)})
        assert upkeep.is_due(memory) is due


def test_a_server_does_it_between_requests_and_looks_now_and_then(tmp_path: Path) -> None:
    flags = {"maintain_hours": 2, "keep_days": "note=30"}
    with opened(tmp_path / "m.db", **flags) as memory:
        memory.store_many([old("gone")])
        lazy = LazyMemory.opened(memory)
        lazy.maintain_if_due()
        assert {entry.verb for entry in memory.log()} == {"maintain", "store_many"}
        assert memory.log()[0].door == "mcp"
        memory.store_many([old("later")])
        with memory.engine.transaction() as transaction:
            transaction.remember(**{upkeep.MAINTAINED: "0"})
        lazy.maintain_if_due()
        assert memory.lookup("later"), "it looks again only after some minutes"
        lazy._next_look = 0.0
        lazy.maintain_if_due()
        assert "later" not in {row.key for row in memory.engine.scan(EVERYTHING)}


def test_a_server_whose_person_did_not_ask_does_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "m.db", keep_days="note=30") as memory:
        memory.store_many([old("kept")])
        LazyMemory.opened(memory).maintain_if_due()
        assert memory.lookup("kept")


@pytest.mark.parametrize("last", ["later", "9" * 5_000, "soon", "-5"])
def test_a_time_that_cannot_be_that_of_the_last_run_does_not_stop_the_next(
    tmp_path: Path, last: str
) -> None:
    noted = str(now_ms() + 400 * DAY_MS) if last == "later" else last
    with opened(tmp_path / "m.db", maintain_hours=2) as memory:
        memory.store("x")
        with memory.engine.transaction() as transaction:
            transaction.remember(**{upkeep.MAINTAINED: noted})
        assert upkeep.is_due(memory)


def test_a_server_tells_what_stopped_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def busy(_: upkeep._Run) -> None:
        raise StoreBusy("Somebody else is writing.")

    monkeypatch.setattr(upkeep._Run, "prune", busy)
    with opened(tmp_path / "m.db", maintain_hours=2) as memory:
        memory.store("x")
        LazyMemory.opened(memory).maintain_if_due()
    assert capsys.readouterr().err == "Somebody else is writing.\n"
