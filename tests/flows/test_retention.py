"""Rules that delete and archive: budgets, what is unused, what was archived long ago."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plait import Memory
from plait.errors import ConfigError
from plait.settings.loading import load
from plait.times import DAY_MS
from plait.types import EVERYTHING, Document
from plait.types.ids import ARCHIVED_FIELD
from plait.types.reports import NewEntity
from plait.writing import retention
from plait.writing.documents import now_ms
from tests.codes import has_code

OLD = now_ms() - 400 * DAY_MS

Opened = Callable[..., Memory]


@pytest.fixture
def memory(tmp_path: Path) -> Any:
    flags = {"db_path": str(tmp_path / "m.db"), "project": "", "embedding_provider": "none"}
    with Memory.open(config=load(flags, environ={})) as opened:
        yield opened


def old(key: str, kind: str = "note", at: int = OLD, **fields: Any) -> Document:
    times = {"created_at": at, "updated_at": at, "event_at": at, "indexed_at": at}
    return Document(key=key, kind=kind, text=f"text of {key}", **{**times, **fields})  # type: ignore[arg-type]


def keys(memory: Memory) -> set[str | None]:
    return {row.key for row in memory.engine.scan(EVERYTHING)}


def row_of(memory: Memory, key: str) -> Document:
    return memory.lookup(key)[0]


def read(memory: Memory, key: str) -> None:
    memory.get(key)
    memory.write_down_use()


# -- budgets -------------------------------------------------------------------------------


def test_a_budget_of_documents_lets_the_least_used_go_then_the_oldest(memory: Memory) -> None:
    memory.store_many([old(name, at=OLD + place) for place, name in enumerate("abcde")])
    read(memory, "a")
    listed = memory.prune(keep_most={"note": 2})
    assert listed.doc_ids == ("b", "c", "d")
    assert listed.rules == (("keep_most", 3),)
    assert keys(memory) == {*"abcde"}
    assert memory.prune(keep_most={"note": 2}, dry_run=False) == listed
    assert keys(memory) == {"a", "e"}
    assert memory.prune(keep_most={"note": 2}).ids == ()
    memory.undo()
    assert keys(memory) == {*"abcde"}


def test_a_budget_counts_what_is_kept_whatever_happens(memory: Memory) -> None:
    memory.store_many([old("pin", pinned=True), old("a"), old("b", at=OLD + 1)])
    assert memory.prune(keep_most={"note": 2}).doc_ids == ("a",)
    assert memory.prune(keep_most={"note": 0}).doc_ids == ("a", "b")


def test_each_project_has_a_budget_of_its_own(memory: Memory) -> None:
    homes = (None, "north", "south")
    memory.store_many(
        [old(f"{home}{n}", at=OLD + n, project=home) for home in homes for n in range(2)]
    )
    memory.scope("ana").store("hers", key="hers")
    listed = memory.prune(keep_most={"note": 1}, all_projects=True)
    assert set(listed.doc_ids) == {"None0", "north0", "south0"}
    assert memory.prune(keep_most={"note": 1}).doc_ids == ("None0",)
    assert memory.prune(keep_most={"note": 2}, all_projects=True).ids == ()


def test_what_is_important_or_active_stays_longer(memory: Memory) -> None:
    documents = [
        old("done", status="done", at=OLD + 9),
        old("trifle", importance=0.1, at=OLD + 8),
        old("usual", at=OLD),
        old("vital", importance=0.9, at=OLD),
    ]
    memory.store_many(documents)
    for count, gone in ((3, "done"), (2, "trifle"), (1, "usual")):
        assert memory.prune(keep_most={"note": count}).doc_ids[-1] == gone


def test_a_budget_of_megabytes_counts_the_bytes_of_texts(memory: Memory) -> None:
    for place, name in enumerate("abc"):
        document = old(name, at=OLD + place)._replace(text="é" * 5_000)
        memory.store_many([document])
    sizes = [usage.size for usage in memory.engine.usage(EVERYTHING).values()]
    assert min(sizes) >= 10_000
    rule = {"note": (sizes[0] + sizes[1]) / 1024 / 1024}
    listed = memory.prune(keep_mb=rule)
    assert (listed.doc_ids, listed.rules) == (("a",), (("keep_mb", 1),))
    assert memory.prune(keep_mb={"note": 1}).ids == ()


def test_a_budget_may_be_that_of_an_origin(memory: Memory) -> None:
    memory.store_many(
        [
            old("page", origin="web", trust="untrusted"),
            old("remark", "observation", origin="web", trust="untrusted", at=OLD + 1),
            old("mine"),
        ]
    )
    assert memory.prune(keep_most={"web": 1}).doc_ids == ("page",)
    assert set(memory.prune(keep_most={"web": 0}).doc_ids) == {"page", "remark"}


def test_facts_in_force_stay_and_what_they_replaced_goes(memory: Memory) -> None:
    memory.graph.create([NewEntity("Ana", "person", ("Ana likes tea.",))])
    remark = memory.store("A plain remark").id
    first = memory.store("The port is 8080", topic="port").id
    memory.store("The port is 8443", topic="port")
    assert memory.prune(keep_most={"observation": 0}).ids == (first, remark)
    assert memory.prune(keep_most={"observation": 3}).ids == (first,), "what has ended goes first"


def test_facts_in_force_stay_however_old_they_are(memory: Memory) -> None:
    memory.store_many([old("port", "observation", topic="port"), old("remark", "observation")])
    assert memory.prune(keep_days={"observation": 30}).doc_ids == ("remark",)


def test_a_fact_that_ended_is_as_old_as_its_end(memory: Memory) -> None:
    memory.store_many([old("first", "observation", topic="port")])
    memory.store("The port is 8443", topic="port")
    assert row_of(memory, "first").valid_to is not None
    assert memory.prune(keep_days={"observation": 30}).ids == ()


def test_items_of_a_programs_store_are_the_programs(memory: Memory) -> None:
    memory.store_many([old("langgraph/a/=b", metadata={"langgraph_value": "{}"})])
    assert memory.prune(keep_days={"note": 1}, keep_most={"note": 0}).ids == ()


def test_what_changes_after_it_was_listed_stays(memory: Memory) -> None:
    memory.store_many([old("a"), old("b")])
    going = retention.departing(
        memory.engine, EVERYTHING, retention.RetentionRules({"note": 1}), now_ms()
    )
    memory.store("A new text", key="a")
    kept = row_of(memory, "a")
    assert not retention.is_as_listed(kept, going.doomed)
    assert retention.is_as_listed(row_of(memory, "b"), going.doomed)


# -- archiving -----------------------------------------------------------------------------


def test_what_nobody_changed_or_read_is_archived_and_later_deleted(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.store_many([old("unread"), old("read"), old("pinned", pinned=True), old("done")])
    memory.mark("done", status="done")
    read(memory, "read")
    rules: dict[str, Any] = {"archive_days": {"note": 365}, "delete_archived_days": 30}
    listed = memory.prune(**rules)
    unread = row_of(memory, "unread")
    assert (listed.ids, listed.archived) == ((), (unread.id,))
    assert unread.status is None
    assert memory.prune(**rules, dry_run=False).archived == (unread.id,)
    assert row_of(memory, "unread").status == "archived"
    assert memory.prune(**rules) == type(listed)()  # not in the same breath
    later = now_ms() + 31 * DAY_MS
    monkeypatch.setattr("plait.memory.retention.now_ms", lambda: later)
    gone = memory.prune(**rules, dry_run=False)
    assert (gone.doc_ids, gone.rules) == (("unread",), (("delete_archived_days", 1),))
    assert keys(memory) == {"read", "pinned", "done"}
    [back] = memory.undo()
    assert back.key == "unread"


def test_what_a_person_archived_is_not_deleted(memory: Memory) -> None:
    memory.store_many([old("mine"), old("rules"), old("both")])
    memory.mark("mine", status="archived")
    memory.prune(archive_days={"note": 1}, dry_run=False)
    memory.mark("both", status="archived")  # looked at, and meant
    assert ARCHIVED_FIELD not in row_of(memory, "both").metadata
    assert row_of(memory, "both").status == "archived"
    with memory.engine.transaction() as transaction:
        document = row_of(memory, "rules")
        transaction.amend(document.id, metadata={ARCHIVED_FIELD: "2020-01-01T00:00:00+00:00"})
    assert memory.prune(delete_archived_days=1).doc_ids == ("rules",)


def test_an_archived_text_that_is_changed_is_active_again(memory: Memory) -> None:
    memory.store_many([old("plan")])
    memory.prune(archive_days={"note": 1}, dry_run=False)
    assert row_of(memory, "plan").status == "archived"
    memory.store("A new plan", key="plan")
    assert row_of(memory, "plan").status is None
    memory.mark("plan", status="archived")
    memory.store("A newer plan", key="plan")
    assert row_of(memory, "plan").status == "archived"


def aged(path: Path) -> None:
    os.utime(path, (OLD / 1000, OLD / 1000))


def test_a_file_is_archived_then_removed_and_stays_out_until_it_is_written(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in ("a.md", "b.md"):
        (folder / name).write_text(f"About {name}", encoding="utf-8")
        aged(folder / name)
    memory.ingest(folder)
    rules: dict[str, Any] = {"archive_days": {"file": 100}, "delete_archived_days": 30}
    assert memory.prune(**rules).archived == (), "it was stored just now"
    start = now_ms()
    monkeypatch.setattr("plait.memory.retention.now_ms", lambda: start + 101 * DAY_MS)
    assert len(memory.prune(**rules, dry_run=False).archived) == 2
    memory.ingest(folder)
    assert row_of(memory, "a.md").status == "archived", "reading it again changes nothing"
    monkeypatch.setattr("plait.memory.retention.now_ms", lambda: start + 140 * DAY_MS)
    assert set(memory.prune(**rules, dry_run=False).doc_ids) == {"a.md", "b.md"}
    for incremental in (False, True):
        report = memory.ingest(folder, incremental=incremental)
        assert [(row.outcome, row.code) for row in report.reports] == [("skipped", "pruned")] * 2
    assert (folder / "a.md").read_text(encoding="utf-8") == "About a.md"
    (folder / "a.md").write_text("About a.md, anew", encoding="utf-8")
    outcomes = {Path(row.path).name: row.outcome for row in memory.ingest(folder).reports}
    assert outcomes == {"a.md": "added", "b.md": "skipped"}
    assert row_of(memory, "a.md").status is None
    assert [row.outcome for row in memory.ingest(folder / "b.md").reports] == ["added"]
    assert [row.outcome for row in memory.ingest(folder).reports] == ["unchanged"] * 2


def test_files_have_a_budget_too(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("One.", encoding="utf-8")
    (tmp_path / "b.md").write_text("Two.", encoding="utf-8")
    memory.ingest(tmp_path)
    read(memory, "a.md")
    assert memory.prune(keep_most={"file": 1}, dry_run=False).doc_ids == ("b.md",)
    outcomes = {Path(row.path).name: row.outcome for row in memory.ingest(tmp_path).reports}
    assert (outcomes["a.md"], outcomes["b.md"]) == ("unchanged", "skipped")
    memory.undo()
    assert keys(memory) == {"a.md", "b.md"}


def test_in_a_scope_only_its_own_documents_count(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("One.", encoding="utf-8")
    ana, bob = memory.scope("ana"), memory.scope("bob")
    bob.store("Bob's", key="note")
    ana.ingest(tmp_path / "a.md")
    ana.store_many([old("n"), old("m")])
    rules: dict[str, Any] = {"keep_most": {"note": 1, "file": 0}}
    assert len(ana.prune(**rules, all_projects=True, dry_run=False).ids) == 2
    assert len(ana.timeline()) == 1
    assert [row.key for row in bob.timeline()] == ["note"]


# -- the rules themselves ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("keep_most", {"entity": 1}),
        ("keep_most", {"note": -1}),
        ("keep_mb", {"note": float("nan")}),
        ("archive_days", {"web": 3}),
        ("archive_days", {"file": 0}),
        ("delete_archived_days", 0),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(memory: Memory, name: str, value: object) -> None:
    with pytest.raises(ConfigError, check=has_code("bad_value", name)):
        memory.prune(**{name: value})  # type: ignore[arg-type]


def test_a_rule_of_the_call_stands_beside_those_that_are_set(tmp_path: Path) -> None:
    flags = {"db_path": str(tmp_path / "m.db"), "project": "", "keep_most": "message=1,note=5"}
    with Memory.open(config=load(flags, environ={})) as memory:
        memory.store_many(
            [old("a"), old("m", "message", session="s"), old("n", "message", session="s")]
        )
        assert memory.prune(keep_days={"note": 1}).rules == (("keep_days", 1), ("keep_most", 1))
        assert memory.prune(keep_most={"note": 0}).doc_ids == ("a",)
