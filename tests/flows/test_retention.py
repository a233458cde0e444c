"""Rules that delete and archive: budgets, what is unused, what was archived long ago."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plait import Memory
from plait.errors import ConfigError, StoreFull, UsageError
from plait.settings.loading import load
from plait.times import DAY_MS
from plait.types import EVERYTHING, Document
from plait.types.ids import ARCHIVED_FIELD, RESERVED_FIELDS
from plait.types.reports import NewEntity
from plait.writing import retention
from plait.writing.documents import now_ms
from plait.writing.retired import RETIRED, marks_of
from tests.codes import has_code

OLD = now_ms() - 400 * DAY_MS
# Fields of a document that may differ from those in a list of it.
NOT_A_CHANGE = {"id", "text", "chunk_count", "indexed_at"}
ITEM = {"langgraph_value": "{}"}

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


def test_what_somebody_lately_preferred_to_another_text_is_not_old(memory: Memory) -> None:
    memory.store_many([old("better"), old("old")])
    memory.store("It was so.", key="worse")
    memory.mark("worse", superseded_by="better")
    assert memory.prune(keep_days={"note": 30}).doc_ids == ("old",)
    assert memory.prune(archive_days={"note": 30}).archived == (row_of(memory, "old").id,)
    assert memory.prune(keep_most={"note": 2}).doc_ids == ("worse",)


def test_what_was_preferred_long_ago_and_again_lately_is_not_old(memory: Memory) -> None:
    memory.store_many([old("better"), old("first"), old("second")])
    memory.mark("first", superseded_by="better")
    with memory.engine.transaction() as transaction:
        transaction.amend(row_of(memory, "first").id, valid_to=OLD + DAY_MS)
        transaction.amend(row_of(memory, "better").id, updated_at=OLD + DAY_MS)
    assert set(memory.prune(keep_days={"note": 90}).doc_ids) == {"better", "first", "second"}
    memory.mark("second", superseded_by="better")
    assert memory.prune(keep_days={"note": 90}, dry_run=False).doc_ids == ("first",)
    assert memory.prune(keep_days={"note": 90}).doc_ids == ()


@pytest.mark.parametrize("way", ["rule", "person"])
def test_what_was_lately_preferred_is_not_old_once_the_other_is_gone(
    memory: Memory, way: str
) -> None:
    memory.store_many([old("better"), old("worse", at=OLD + 1)])
    marked = memory.mark("worse", superseded_by="better")
    if way == "rule":
        rules: dict[str, Any] = {"keep_days": {"note": 30}, "keep_most": {"note": 1}}
        assert memory.prune(**rules, dry_run=False).doc_ids == ("worse",)
    else:
        memory.delete("worse")
    assert memory.prune(keep_days={"note": 30}, keep_most={"note": 1}).doc_ids == ()
    memory.undo()
    memory.unmark(marked)
    assert set(memory.prune(keep_days={"note": 30}).doc_ids) == {"better", "worse"}


def test_a_new_text_that_replaced_another_is_as_young_as_the_others_end(memory: Memory) -> None:
    worse = memory.store("It was so.").id
    better = old("", "observation", supersedes=worse)._replace(key=None)
    memory.store_many([better])
    memory.delete(worse)
    assert memory.prune(keep_days={"observation": 30}).ids == ()


@pytest.mark.parametrize("name", ["MEMORY.md", "Memory.md"])
def test_what_every_overview_shows_stays(memory: Memory, name: str) -> None:
    memory.store_many([old(name), old("other"), old("sub/MEMORY.md")])
    memory.store_many([old(name, project="p"), old("page", project="p", trust="untrusted")])
    gone = {"other", "sub/MEMORY.md", "page"}
    assert set(memory.prune(keep_most={"note": 0}, all_projects=True).doc_ids) == gone
    assert set(memory.prune(keep_days={"note": 1}, all_projects=True).doc_ids) == gone
    archived = memory.prune(archive_days={"note": 1}, all_projects=True).archived
    assert {row.key for row in memory.engine.load(archived)} == gone
    row = row_of(memory, name)
    assert retention.may_go(row._replace(trust="untrusted"), now_ms())
    assert retention.may_go(row._replace(valid_to=OLD), now_ms()), "no overview shows it any more"


# -- what is not trusted ---------------------------------------------------------------------


@pytest.mark.parametrize("trust", ["untrusted", "quarantined"])
def test_no_text_that_is_not_trusted_drives_out_the_persons(memory: Memory, trust: str) -> None:
    planted: Any = {"origin": "import", "trust": trust, "importance": 1.0, "pinned": True}
    memory.store_many([old("mine"), old("done", status="done")])
    memory.store_many([old(name, at=now_ms(), **planted) for name in "abc"])
    read(memory, "a")
    assert set(memory.prune(keep_most={"note": 2}).doc_ids) == {*"abc"}
    size = sum(
        row.size for id_, row in memory.engine.usage(EVERYTHING).items() if id_ in own_ids(memory)
    )
    assert set(memory.prune(keep_mb={"note": size / 1024 / 1024}).doc_ids) == {*"abc"}
    assert memory.prune(keep_most={"note": 1}).doc_ids[-1] == "done", "then what is settled"


def own_ids(memory: Memory) -> set[str]:
    return {row.id for row in memory.engine.scan(EVERYTHING) if row.trust == "trusted"}


def test_what_is_quarantined_goes_before_what_is_untrusted(memory: Memory) -> None:
    trusts = ("untrusted", "quarantined")
    memory.store_many([old(trust, trust=trust, origin="web") for trust in trusts])
    assert memory.prune(keep_most={"note": 1}).doc_ids == ("quarantined",)


def test_only_what_is_trusted_stays_for_being_pinned(memory: Memory) -> None:
    page: Any = {"origin": "web", "trust": "untrusted"}
    memory.store_many([old("mine", pinned=True), old("page", pinned=True, **page)])
    assert memory.prune(keep_days={"note": 30}).doc_ids == ("page",)
    assert memory.prune(archive_days={"note": 30}).archived == (row_of(memory, "page").id,)


def test_items_of_a_programs_store_are_the_programs(memory: Memory) -> None:
    memory.store_many([old("langgraph/a/=b", metadata=ITEM)])
    memory.store_many([old("langgraph/a/=c", metadata=ITEM, trust="untrusted"), old("mine")])
    assert memory.prune(keep_days={"note": 1}, keep_most={"note": 0}).doc_ids == ("mine",)
    assert memory.prune(keep_most={"note": 1}).ids == (), "they are in nobody's budget"


def test_a_text_that_only_says_that_it_is_an_item_goes(memory: Memory, tmp_path: Path) -> None:
    text = "---\nlanggraph_value: x\nowner: Ana\n---\nHerons fish."
    (tmp_path / "herons.md").write_text(text, encoding="utf-8")
    memory.ingest(tmp_path)
    memory.store(text, key="langgraph/a/=b")
    memory.store_many([old("note", metadata=ITEM), old("remark", "observation", metadata=ITEM)])
    memory.store_many([old("langgraph/README.md", metadata=ITEM)])
    assert row_of(memory, "herons.md").metadata == {"owner": "Ana"}
    assert row_of(memory, "langgraph/a/=b").metadata == {"owner": "Ana"}
    rule = {"note": 0, "observation": 0, "file": 0}
    assert set(memory.prune(keep_most=rule).doc_ids) == keys(memory)
    successor = memory.store("Something better").id
    memory.mark("note", superseded_by=successor)
    assert row_of(memory, "note").valid_to is not None


def test_what_changes_after_it_was_listed_stays(memory: Memory) -> None:
    memory.store_many([old("a"), old("b")])
    going = retention.departing(
        memory.engine, EVERYTHING, retention.RetentionRules({"note": 1}), now_ms()
    )
    memory.store("A new text", key="a")
    kept = row_of(memory, "a")
    assert not retention.is_as_listed(kept, going.doomed)
    assert retention.is_as_listed(row_of(memory, "b"), going.doomed)


def test_what_becomes_a_fact_or_a_successor_after_it_was_listed_stays(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    better = [old("better"), old("best")]
    memory.store_many([*better, old("remark", "observation"), old("old"), old("bad")])
    memory.store("It was so.", key="worse")
    memory.mark("bad", superseded_by="best")
    with memory.engine.transaction() as transaction:
        transaction.amend(row_of(memory, "bad").id, valid_to=OLD + DAY_MS)
        transaction.amend(row_of(memory, "best").id, updated_at=OLD + DAY_MS)
    chosen = retention.departing

    def then_changed(*arguments: Any) -> retention.Departing:
        going = chosen(*arguments)
        memory.mark("remark", entity="Heron")
        memory.mark("worse", superseded_by="better")
        memory.mark("better", superseded_by="best")
        return going

    monkeypatch.setattr(retention, "departing", then_changed)
    rules: dict[str, Any] = {"keep_days": {"note": 30, "observation": 30}}
    assert set(memory.prune(**rules, dry_run=False).doc_ids) == {"old", "bad"}


def test_what_a_person_archives_after_it_was_listed_stays(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.store_many([old("mine"), old("rules")])
    rows = {row.id: row for row in memory.engine.scan(EVERYTHING)}
    assert len([*retention.archive(memory.engine, rows, OLD + DAY_MS)]) == 1
    chosen = retention.departing

    def then_archived(*arguments: Any) -> retention.Departing:
        going = chosen(*arguments)
        memory.mark("mine", status="archived")
        return going

    monkeypatch.setattr(retention, "departing", then_archived)
    assert memory.prune(delete_archived_days=30, dry_run=False).doc_ids == ("rules",)


@pytest.mark.parametrize("field", sorted({*Document._fields} - NOT_A_CHANGE))
def test_no_change_after_the_listing_is_overlooked(memory: Memory, field: str) -> None:
    before = Document(id="a", event_at=1)
    value: Any = {"pinned": True, "metadata": {"owner": "Ana"}, "tags": ("x",)}.get(field, 7)
    after = before._replace(**{field: value})
    assert retention.is_as_listed(before._replace(text="of a load"), {"a": before})
    assert not retention.is_as_listed(after, {"a": before})


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


def test_what_is_read_after_a_rule_archived_it_is_not_deleted(memory: Memory) -> None:
    memory.store_many([old("used"), old("unused")])
    rows = {row.id: row for row in memory.engine.scan(EVERYTHING)}
    assert len([*retention.archive(memory.engine, rows, OLD + DAY_MS)]) == 1
    read(memory, "used")
    assert memory.prune(delete_archived_days=30).doc_ids == ("unused",)


def test_only_a_rule_can_tell_when_it_archived_something(memory: Memory, tmp_path: Path) -> None:
    front = f"---\nstatus: archived\n{ARCHIVED_FIELD}: 2001-01-01\nowner: Ana\n---\n"
    text = f"{front}# Herons\n\nThey fish."
    (tmp_path / "herons.md").write_text(text, encoding="utf-8")
    memory.ingest(tmp_path)
    memory.store(text, key="note")
    forged = {ARCHIVED_FIELD: "2001-01-01", "owner": "Ben"}
    memory.store_many([old("many", status="archived", metadata=forged)])
    memory.scope("ana").store_many([old("hers", status="archived", metadata=forged)])
    assert {row.status for row in memory.engine.scan(EVERYTHING)} == {"archived"}
    assert row_of(memory, "many").metadata == {"owner": "Ben"}
    assert memory.prune(delete_archived_days=1).doc_ids == ()
    assert memory.scope("ana").prune(delete_archived_days=1).doc_ids == ()


def test_an_export_keeps_when_a_rule_archived_something(memory: Memory, tmp_path: Path) -> None:
    memory.store_many([old("plan")])
    rows = {row.id: row for row in memory.engine.scan(EVERYTHING)}
    assert len([*retention.archive(memory.engine, rows, OLD + DAY_MS)]) == 1
    exported = tmp_path / "all.jsonl"
    exported.write_text("\n".join(memory.export()), encoding="utf-8")
    flags = {"db_path": str(tmp_path / "copy.db"), "project": "", "embedding_provider": "none"}
    with Memory.open(config=load(flags, environ={})) as copy:
        copy.import_from(exported)
        assert copy.prune(delete_archived_days=1).doc_ids == ("plan",)


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


@pytest.mark.parametrize("way", ["undo", "named"])
def test_a_file_that_came_back_is_no_longer_one_that_a_rule_removed(
    memory: Memory, tmp_path: Path, way: str
) -> None:
    file = tmp_path / "a.md"
    file.write_text("One.", encoding="utf-8")
    memory.ingest(tmp_path)
    memory.prune(keep_most={"file": 0}, dry_run=False)
    if way == "undo":
        memory.undo()
    else:
        memory.ingest(file)
    memory.delete("a.md")
    outcomes = {Path(row.path).name: row.outcome for row in memory.ingest(tmp_path).reports}
    assert outcomes["a.md"] == "added", "the person's own delete holds until the folder is read"


def test_a_purge_leaves_no_mark_of_a_file_that_a_rule_removed(
    memory: Memory, tmp_path: Path
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in ("a.md", "b.md"):
        (folder / name).write_text(f"The pin of {name} is 4711.", encoding="utf-8")
    memory.ingest(folder)
    memory.prune(keep_most={"file": 0}, dry_run=False)
    memory.delete("a.md", purge=True)
    assert len(memory.engine.remembered(RETIRED)) == 1
    outcomes = {Path(row.path).name: row.outcome for row in memory.ingest(folder).reports}
    assert outcomes == {"a.md": "added", "b.md": "skipped"}


@pytest.mark.parametrize("name", RESERVED_FIELDS)
def test_metadata_of_a_name_that_plait_reserves_is_refused(memory: Memory, name: str) -> None:
    with pytest.raises(UsageError, match=name, check=has_code("reserved_field", "metadata")):
        memory.store("It is mine.", key="mine", metadata={"owner": "Ben", name: "2001-01-01"})
    assert keys(memory) == set()


@pytest.mark.parametrize("incremental", [False, True])
def test_a_file_that_a_rule_removed_is_known_by_its_bytes(
    memory: Memory, tmp_path: Path, incremental: bool
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in ("touched.md", "edited.md"):
        (folder / name).write_text("Herons fish.", encoding="utf-8")
        aged(folder / name)
    memory.ingest(folder)
    memory.prune(keep_most={"file": 0}, dry_run=False)
    os.utime(folder / "touched.md")  # as by a checkout
    (folder / "edited.md").write_text("Cranes hunt.", encoding="utf-8")
    aged(folder / "edited.md")
    report = memory.ingest(folder, incremental=incremental)
    outcomes = {Path(row.path).name: row.outcome for row in report.reports}
    assert outcomes == {"touched.md": "skipped", "edited.md": "added"}


@pytest.mark.parametrize("mark", ["", "12", "12 x", "12 13 14 15 16", "x y z"])
def test_a_mark_that_plait_did_not_write_keeps_no_file_out(
    memory: Memory, tmp_path: Path, mark: str
) -> None:
    file = tmp_path / "a.md"
    file.write_text("Herons fish.", encoding="utf-8")
    with memory.engine.transaction() as transaction:
        names = marks_of(transaction.state, [Document(kind="file", path=str(file))])
        transaction.remember(**{**dict.fromkeys(names, mark), "retired": mark * 100})
    outcomes = {Path(row.path).name: row.outcome for row in memory.ingest(tmp_path).reports}
    assert outcomes["a.md"] == "added"


def test_a_file_counts_as_removed_only_if_it_was(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        (tmp_path / f"{name}.md").write_text(f"About {name}.", encoding="utf-8")
    memory.ingest(tmp_path)
    monkeypatch.setattr(retention, "is_as_listed", lambda row, _: row.key == "a.md")
    assert memory.prune(keep_most={"file": 0}, dry_run=False).doc_ids == ("a.md",)
    assert len(memory.engine.remembered(RETIRED)) == 1
    assert [Path(row.path).name for row in memory.ingest(tmp_path).reports if row.code] == ["a.md"]


@pytest.mark.parametrize(
    ("rules", "slices", "told"),
    [
        ({"keep_days": {"note": 1}}, 0, " Before that, 1 document was deleted; the others"),
        ({"keep_days": {"note": 1}}, 2, " Before that, 1 document was deleted and 2 archived;"),
        ({}, 2, " Before that, 2 documents were archived; the others are untouched."),
        ({}, 0, ""),
    ],
)
def test_what_was_done_before_archiving_failed_is_told(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, rules: Any, slices: int, told: str
) -> None:
    memory.store_many([old("gone"), *(old(name, "observation") for name in "abc")])
    archive = retention.archive
    whole = memory.engine.transaction
    opened: list[None] = []

    def filling() -> Any:
        if len(opened) == slices:
            raise StoreFull("Is the disk full?")
        opened.append(None)
        return whole()

    def archive_until_full(*arguments: Any) -> Any:
        monkeypatch.setattr(memory.engine, "transaction", filling)
        return archive(*arguments)

    monkeypatch.setattr(retention, "SLICE_DOCUMENTS", 1)
    monkeypatch.setattr(retention, "archive", archive_until_full)
    with pytest.raises(StoreFull) as failed:
        memory.prune(**rules, archive_days={"observation": 1}, dry_run=False)
    assert str(failed.value).startswith(f"Is the disk full?{told}")
    assert bool(told) == ("Before" in str(failed.value))
    statuses = [row.status for row in memory.engine.scan(EVERYTHING) if row.kind == "observation"]
    assert statuses.count("archived") == slices


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
        ("keep_most", {"note": 0.5}),
        ("keep_mb", {"note": float("nan")}),
        ("archive_days", {"web": 3}),
        ("archive_days", {"file": 0}),
        ("delete_archived_days", 0),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(memory: Memory, name: str, value: object) -> None:
    with pytest.raises(ConfigError, check=has_code("bad_value", name)):
        memory.prune(**{name: value})  # type: ignore[arg-type]


def test_a_number_of_documents_is_whole(memory: Memory) -> None:
    with pytest.raises(ConfigError, match=r"whole numbers from 0 to 1000000000, got 'note=0\.5'"):
        load({"keep_most": "note=0.5"}, environ={})
    assert memory.prune(keep_most={"note": 2.0}, keep_days={"note": 1.5}).ids == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("keep_most", "note=1,note=999"),
        ("keep_days", ["note=1", "note = 999"]),
        ("limbic_constants", "age_weight=0.1,age_weight=0"),
    ],
)
def test_a_name_that_is_there_twice_is_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match="each name once", check=has_code("bad_value", name)):
        load({name: value}, environ={})


def test_a_rule_of_the_call_stands_beside_those_that_are_set(tmp_path: Path) -> None:
    flags = {"db_path": str(tmp_path / "m.db"), "project": "", "keep_most": "message=1,note=5"}
    with Memory.open(config=load(flags, environ={})) as memory:
        memory.store_many(
            [old("a"), old("m", "message", session="s"), old("n", "message", session="s")]
        )
        assert memory.prune(keep_days={"note": 1}).rules == (("keep_days", 1), ("keep_most", 1))
        assert memory.prune(keep_most={"note": 0}).doc_ids == ("a",)
