"""Settle findings: a status, an end in favour of another, another entity, feedback; and undo."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from plait.errors import NotFound, StoreReadOnly, UsageError
from plait.memory import Memory
from plait.types import Document, Filter
from plait.types.audit import acting
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from plait.types.review import MarkedDocuments
from plait.writing import marking
from tests.codes import has_code


@pytest.fixture
def memory(tmp_path: Path) -> Any:
    with Memory.open(tmp_path / "memory.db", project="", embedder="builtin") as opened:
        yield opened


# Everything that a person, a search or an export can see. The numbers of rows are the store's own.
DUMPED = (
    "SELECT {} FROM documents ORDER BY id",
    "SELECT p.id, d.id, p.ordinal, p.heading, p.text, s.reads, s.days, s.last_read, s.good, s.wrong"
    " FROM passages AS p JOIN documents AS d ON d.rowid = p.document "
    "LEFT JOIN signals AS s ON s.passage = p.rowid ORDER BY p.id",
    "SELECT min(a.id, b.id), max(a.id, b.id), t.times, t.last_read FROM signal_pairs AS t "
    "JOIN passages AS a ON a.rowid = t.one JOIN passages AS b ON b.rowid = t.other ORDER BY 1, 2",
    "SELECT s.id, t.id, r.type, r.created_at, r.valid_to FROM relations AS r JOIN documents AS s "
    "ON s.rowid = r.source JOIN documents AS t ON t.rowid = r.target ORDER BY 1, 2, 3",
    "SELECT count(*) FROM trash",
    "SELECT count(*) FROM unembedded",
    "SELECT name, value FROM meta WHERE name IN ('latest_turn', 'profiles_due') ORDER BY name",
)


def dump(memory: Memory) -> list[object]:
    """The whole memory, but for the order of its rows and the audit log."""
    memory.write_down_use()
    connection = apsw.Connection(memory.path, flags=apsw.SQLITE_OPEN_READONLY)
    fields = [name for name in Document._fields if name != "text"]
    try:
        rows = [list(connection.execute(sql.format(", ".join(fields)))) for sql in DUMPED]
    finally:
        connection.close()
    return [*rows, list(memory.export(all_projects=True))]


def named(memory: Memory, ids: list[str]) -> list[str | None]:
    """What each of these documents names as superseded."""
    return [row.supersedes for row in memory.engine.load(ids)]


def facts(memory: Memory) -> list[str]:
    texts = ["Fridays are for deploys", "Deploys happen on Fridays", "Ana approves each deploy"]
    ids = [memory.store(text, entity="Deploy").id for text in texts]
    entity = memory.lookup(ids[0])[0].parent or ""
    memory.lookup_many([ids[0], ids[1], entity])
    memory.write_down_use()
    memory.feedback(ids[0], "good")
    memory.graph.observe([("Deploy", ["Takes 20 minutes"])])
    memory.graph.create([NewEntity("Ana", "person", ("Likes tea",))])
    memory.graph.relate([Relation("Ana", "Deploy", "approves")])
    return ids


@pytest.mark.parametrize(
    "what",
    [
        {"status": "archived"},
        {"status": "active"},
        {"superseded_by": 1},
        {"entity": "Fridays"},
        {"entity": "Deploy"},
        {"status": "done", "superseded_by": 1, "entity": "Fridays"},
    ],
    ids=str,
)
def test_undo_restores_the_exact_state(memory: Memory, what: dict[str, Any]) -> None:
    ids = facts(memory)
    before = dump(memory)
    if "superseded_by" in what:
        what = {**what, "superseded_by": ids[1]}
    marked = memory.mark(ids[0], ids[2], **what)
    assert (dump(memory) == before) == (what in ({"status": "active"}, {"entity": "Deploy"}))
    memory.unmark(marked)
    assert dump(memory) == before
    memory.unmark(MarkedDocuments())
    assert dump(memory) == before


def test_a_chain_of_marks_is_taken_back_one_by_one(memory: Memory) -> None:
    ids = facts(memory)
    states, marks = [dump(memory)], []
    for what in ({"superseded_by": ids[1]}, {"status": "done"}, {"entity": "Team"}):
        target = ids[0] if "superseded_by" in what else ids[2]
        marks.append(memory.mark(target, **what))  # type: ignore[arg-type]
        states.append(dump(memory))
    for marked, state in zip(reversed(marks), reversed(states[:-1]), strict=True):
        memory.unmark(marked)
        assert dump(memory) == state


def test_facts_of_two_projects_move_and_come_back(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db", project="north", embedder="builtin") as memory:
        ids = [
            memory.store("The gate is red", entity="Gate").id,
            memory.store("Ana likes tea", entity="Ana", personal=True).id,
        ]
        ids.append(memory.store("Blue is a colour").id)  # of no entity
        before = dump(memory)
        marked = memory.mark(*ids, entity="Colours")
        assert len(marked.created) == 2
        memory.unmark(marked)
        assert dump(memory) == before


def test_a_moved_fact_gets_the_entity_that_a_new_one_gets(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db", project="north", embedder="builtin") as memory:
        tea = memory.store("Ana likes tea", entity="Ana", personal=True).id
        planted = memory.store("Gates are gates", entity="Gate", trust="untrusted").id
        gate = memory.lookup(planted)[0].parent or ""
        red = memory.store("The door is red", entity="Door").id
        before = dump(memory)
        marked = [memory.mark(red, entity="Ana")]
        moved, other = memory.engine.load([red, tea])
        assert moved.parent == other.parent
        marked.append(memory.mark(red, entity="Gate"))
        assert memory.engine.load([gate])[0].trust == "trusted"
        for each in reversed(marked):
            memory.unmark(each)
        assert dump(memory) == before


def test_names_of_other_projects_count_only_if_asked_for(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db", project="north", embedder="none") as memory:
        old, new = (memory.store(text).id for text in ("The port is 80", "The port is 81"))
    with Memory.open(tmp_path / "memory.db", project="south", embedder="none") as memory:
        for act in (
            lambda: memory.mark(old, status="done"),
            lambda: memory.delete(old),
            lambda: memory.undo(old),
        ):
            with pytest.raises(NotFound):
                act()
        memory.unmark(memory.mark(old, superseded_by=new, all_projects=True))
        for names in ((old,), ()):
            memory.delete(old, all_projects=True)
            assert [row.id for row in memory.undo(*names, all_projects=True)] == [old]


@pytest.mark.parametrize("name", ["fact", "note", "Deploy", "both", "all"])
def test_an_undone_delete_restores_the_exact_state(memory: Memory, name: str) -> None:
    ids = facts(memory)
    memory.store("A note on deploys", key="note")
    memory.lookup_many([*ids, "note", "Deploy", "Ana"])  # read together
    memory.feedback("Deploy", "wrong")
    before = dump(memory)
    names = {"fact": ids[:1], "both": [ids[0], "note"], "all": [*ids, "note", "Deploy", "Ana"]}
    chosen = names.get(name, [name])
    memory.delete(*chosen)
    assert dump(memory) != before
    memory.undo()
    assert dump(memory) == before
    for each in chosen:  # one delete after the other
        memory.delete(each)
    for each in chosen if name == "both" else reversed(chosen):
        memory.undo(each)
    assert dump(memory) == before


def test_what_was_read_with_deleted_text_is_not_named_after_its_purge(memory: Memory) -> None:
    memory.store("One", key="one")
    memory.store("Two", key="two")
    memory.store("Three", key="three")
    memory.lookup_many(["one", "two", "three"])
    memory.write_down_use()
    passages = {key: memory.lookup(key)[0].id for key in ("one", "two", "three")}
    ids = {key: memory.engine.passages(id_)[0].id for key, id_ in passages.items()}
    memory.delete("one")
    memory.delete("two", purge=True)
    [row] = memory.engine.trashed()
    together = [name for name in row.use or {} if " " in name]
    assert [{*name.split(" ")} for name in together] == [{ids["one"], ids["three"]}]
    memory.undo()
    assert ids["two"] not in str(dump(memory))


def test_what_was_deleted_meanwhile_stays_deleted(memory: Memory) -> None:
    ids = facts(memory)
    marked = memory.mark(ids[0], entity="Fridays")
    memory.delete(ids[0])
    memory.unmark(marked)
    with pytest.raises(NotFound):
        memory.get(ids[0])


def test_what_was_written_meanwhile_stays_written(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "plan.md"
    path.write_text("---\ntags: old\n---\n# Plan\n\nBuy paint.", encoding="utf-8")
    memory.ingest(path)
    marked = memory.mark("plan.md", status="archived")
    path.write_text("---\ntags: new\n---\n# Another plan\n\nBuy a roof.", encoding="utf-8")
    memory.ingest(path)
    [written] = memory.engine.scan(Filter(kinds=("file",)))
    memory.unmark(marked)
    [row] = memory.engine.scan(Filter(kinds=("file",)))
    assert row == written._replace(status=None)
    assert (row.title, row.tags) == ("Another plan", ("new",))
    fact = memory.store("The gate is red", entity="Gate").id
    gate = memory.lookup(fact)[0].parent or ""
    moved = memory.mark(fact, entity="Colours")
    memory.delete(gate)
    memory.unmark(moved)
    assert memory.lookup("Colours")[0].id == memory.lookup(fact)[0].parent


def test_undo_leaves_what_others_changed_meanwhile(memory: Memory) -> None:
    memory.store("One", key="n", title="First", tags=["a"])
    marked = memory.mark("n", status="archived")
    memory.store("Two", key="n", title="Second", tags=["b"])
    changed = memory.lookup("n")[0]
    memory.unmark(marked)
    assert memory.lookup("n")[0] == changed._replace(status=None)


def test_undo_twice_is_undo_once(memory: Memory) -> None:
    id_ = memory.store("The port is 80").id
    marked = memory.mark(id_, status="done")
    memory.unmark(marked)
    memory.mark(id_, status="archived")
    memory.unmark(marked)
    assert memory.lookup(id_)[0].status == "archived"


def test_undo_of_a_move_leaves_the_fact_if_its_former_entity_is_gone(memory: Memory) -> None:
    id_ = memory.store("Fridays are for deploys", entity="Old").id
    marked = memory.mark(id_, entity="New")
    memory.graph.delete(["Old"])
    before = dump(memory)
    memory.unmark(marked)
    assert dump(memory) == before


@pytest.mark.parametrize("use", ["relation", "fact", "pin"])
def test_undo_of_a_move_keeps_an_entity_that_others_use(memory: Memory, use: str) -> None:
    id_ = memory.store("Fridays are for deploys", entity="Old").id
    marked = memory.mark(id_, entity="New")
    if use == "relation":
        memory.graph.create([NewEntity("Ana", "person")])
        memory.graph.relate([Relation("Ana", "New", "knows")])
    elif use == "fact":
        memory.store("Something else", entity="New")
    else:
        memory.mark(marked.created[0], status="done")
    before = memory.graph.read()
    memory.unmark(marked)
    after = memory.graph.read()
    assert "New" in {row.name for row in after.entities}
    assert after.relations == before.relations


def test_undo_does_not_make_a_profile_older_than_its_facts(memory: Memory) -> None:
    ids = facts(memory)
    marked = memory.mark(ids[0], entity="Fridays")
    memory.store("Rollbacks take a minute", entity="Deploy")
    entity = memory.lookup(ids[1])[0].parent or ""
    stored_at = memory.lookup(entity)[0].updated_at
    memory.unmark(marked)
    assert memory.lookup(entity)[0].updated_at >= stored_at


def test_two_facts_cannot_end_each_other(memory: Memory) -> None:
    first, second, third = (memory.store(f"The port is {port}").id for port in (80, 81, 82))
    memory.mark(first, superseded_by=second)
    with pytest.raises(UsageError, match=second, check=has_code("already_superseded")):
        memory.mark(second, superseded_by=first)
    with pytest.raises(UsageError, check=has_code("already_superseded")):
        memory.mark(third, superseded_by=first)
    assert {hit.document.id for hit in memory.search("port")} == {second, third}


def test_a_superseded_fact_is_history_of_the_other(memory: Memory) -> None:
    old, new = (memory.store(text).id for text in ("The port is 80", "The port is 81"))
    memory.mark(old, superseded_by=new)
    assert [hit.document.id for hit in memory.search("port")] == [new]
    assert memory.successors([memory.lookup(old)[0]]) == {old: new}
    assert memory.earlier([memory.lookup(new)[0]]) == {new: 1}
    with pytest.raises(UsageError, check=has_code("already_superseded")):
        memory.mark(old, superseded_by=new)


def test_all_that_ended_in_favour_of_one_is_its_history(memory: Memory) -> None:
    ids = [memory.store(f"The port is {number}").id for number in range(80, 85)]
    before = dump(memory)
    marks = [memory.mark(*ids[:2], superseded_by=ids[4]), memory.mark(ids[2], superseded_by=ids[4])]
    marks.append(memory.mark(ids[4], superseded_by=ids[3]))
    assert memory.earlier(memory.engine.load(ids)) == {
        **{ids[1]: 1, ids[2]: 2},  # what ended last is named first
        **{ids[4]: 3, ids[3]: 4},
    }
    assert memory.successors(memory.engine.load(ids)).keys() == {*ids} - {ids[3]}
    for marked in reversed(marks):
        memory.unmark(marked)
    assert dump(memory) == before


def test_a_text_that_ends_again_is_once_in_the_history(memory: Memory) -> None:
    first, second, new = (memory.store(f"The port is {port}").id for port in (80, 81, 82))
    taken_back = memory.mark(first, superseded_by=new)
    memory.mark(second, superseded_by=new)
    memory.unmark(taken_back)
    memory.mark(first, superseded_by=new)
    rows = memory.engine.load([new, first, second])
    assert {row.id: row.supersedes for row in rows} == {new: first, first: second, second: None}
    assert memory.earlier(rows) == {new: 2, first: 1}


def test_two_texts_that_end_each_other_in_turn_have_a_history_with_an_end(memory: Memory) -> None:
    ids = [memory.store(f"The port is {port}").id for port in (80, 81, 82)]
    taken_back = memory.mark(ids[0], superseded_by=ids[1])
    memory.mark(ids[2], superseded_by=ids[1])
    memory.unmark(taken_back)
    memory.mark(ids[1], superseded_by=ids[0])
    assert [row.supersedes for row in memory.engine.load(ids)] == [ids[1], ids[2], None]


def test_the_profiles_follow(memory: Memory) -> None:
    ids = facts(memory)
    memory.mark(ids[0], superseded_by=ids[1])
    memory.mark(ids[2], entity="Approvals")
    profiles = {row.name: row.contents for row in memory.graph.read().entities}
    assert "Fridays are for deploys" not in profiles["Deploy"]
    assert profiles["Approvals"] == ("Ana approves each deploy",)


def test_odd_marks_are_refused_and_change_nothing(memory: Memory) -> None:
    ids = facts(memory)
    note = memory.store("A note.", key="n").id
    planted = memory.store("Nobody approves", trust="untrusted").id
    entity = memory.lookup(ids[0])[0].parent or ""
    before = dump(memory)
    cases: list[tuple[tuple[str, ...], dict[str, Any], str]] = [
        ((), {"status": "done"}, "nothing_to_mark"),
        ((ids[0],), {}, "nothing_to_mark"),
        ((ids[0],), {"status": "gone"}, "bad_value"),
        ((ids[0],), {"superseded_by": ids[0]}, "bad_value"),
        ((ids[0],), {"superseded_by": planted}, "more_trusted"),
        ((entity,), {"superseded_by": ids[0]}, "not_replaceable"),
        ((note,), {"entity": "Deploy"}, "not_a_fact"),
        ((ids[0],), {"entity": "  "}, "empty_name"),
        ((ids[0], "nobodynobody2"), {"status": "done"}, "unknown_name"),
    ]
    for names, what, code in cases:
        with pytest.raises((UsageError, NotFound), check=has_code(code)):
            memory.mark(*names, **what)
    assert dump(memory) == before


def test_a_status_lowers_a_score_and_not_the_relevance(memory: Memory) -> None:
    texts = ("The otter swims in the lagoon", "The otter sleeps in the lagoon")
    ids = [memory.store(text).id for text in texts]
    plain = {hit.document.id: hit for hit in memory.search("otter lagoon", explain=True)}
    memory.mark(ids[0], status="archived")
    marked = {hit.document.id: hit for hit in memory.search("otter lagoon", explain=True)}
    assert marked[ids[0]].score == pytest.approx(0.8 * plain[ids[0]].score)
    assert marked[ids[0]].relevance == plain[ids[0]].relevance
    assert marked[ids[1]].score == plain[ids[1]].score
    assert "status 0.8000" in marked[ids[0]].reasons[-1]
    assert [hit.document.id for hit in memory.search("otter", where={"status": "active"})] == [
        ids[1]
    ]


def test_feedback_changes_a_score_is_explained_and_can_be_taken_back(memory: Memory) -> None:
    texts = ("The otter swims in the lagoon", "The otter sleeps in the lagoon")
    ids = [memory.store(text).id for text in texts]
    plain = {hit.document.id: hit.score for hit in memory.search("otter lagoon")}
    memory.feedback(ids[0], "wrong")
    hits = {hit.document.id: hit for hit in memory.search("otter lagoon", explain=True)}
    assert hits[ids[0]].score == pytest.approx(0.9 * plain[ids[0]])
    assert hits[ids[1]].score == plain[ids[1]]
    assert "feedback 0.9000 (0 good, 1 wrong)" in hits[ids[0]].reasons[-1]
    for _ in range(50):
        memory.feedback(ids[0], "wrong")
    [low] = [hit for hit in memory.search("otter lagoon") if hit.document.id == ids[0]]
    assert low.score >= 0.8 * plain[ids[0]]
    memory.feedback(ids[0], None)
    assert {hit.document.id: hit.score for hit in memory.search("otter lagoon")} == plain
    with pytest.raises(UsageError, check=has_code("bad_value")):
        memory.feedback(ids[0], "so-so")


def test_feedback_on_a_passage_concerns_only_that_one(memory: Memory) -> None:
    text = "\n\n".join(f"# Part {n}\n\nThe heron flies. " + "Water. " * 150 for n in range(3))
    memory.store(text, key="long")
    passages = memory.passages_of(memory.lookup("long")[0].id)
    memory.feedback(passages[1].id, "good")
    rows = memory.engine.hydrate([part.ref for part in passages], ranking=True)
    assert [bool(rows[part.ref].use) for part in passages] == [False, True, False]
    memory.feedback("long", "good")
    rows = memory.engine.hydrate([part.ref for part in passages], ranking=True)
    assert [rows[part.ref].use.good for part in passages] == [1, 2, 1]  # type: ignore[union-attr]


def test_a_status_of_front_matter_is_taken_and_other_words_are_metadata(
    memory: Memory, tmp_path: Path
) -> None:
    for name, status in (("a", "done"), ("b", "Archived"), ("c", "draft")):
        text = f"---\nstatus: {status}\n---\n\nAbout {name}."
        (tmp_path / f"{name}.md").write_text(text, encoding="utf-8")
    memory.ingest(tmp_path, patterns=["*.md"])
    rows = [memory.lookup(f"{name}.md")[0] for name in "abc"]
    assert [row.status for row in rows] == ["done", "archived", None]
    assert [row.metadata["status"] for row in rows] == ["done", "Archived", "draft"]


def test_what_replaces_a_document_keeps_its_status(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "todo.md"
    path.write_text("Buy paint.", encoding="utf-8")
    memory.ingest(path)
    memory.mark("todo.md", status="done")
    path.write_text("Buy paint and brushes.", encoding="utf-8")
    memory.ingest(path)
    assert memory.lookup("todo.md")[0].status == "done"
    memory.store("One", key="n", status="archived")
    memory.store("Two", key="n")
    assert memory.lookup("n")[0].status == "archived"
    memory.store("Three", key="n", status="active")
    assert memory.lookup("n")[0].status == "active"


def test_a_status_goes_with_the_front_matter_that_stated_it(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "todo.md"
    told = []
    for text in ("---\nstatus: Done\n---\n\nBuy paint.", "Buy paint and brushes.", "Buy a roof."):
        path.write_text(text, encoding="utf-8")
        memory.ingest(path)
        told.append(memory.lookup("todo.md")[0].status)
    assert told == ["done", None, None]


def test_nothing_is_marked_where_nothing_may_be_written(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Memory.open(path, project="", embedder="none") as memory:
        id_ = memory.store("A fact").id
        marked = memory.mark(id_, status="done")
    with Memory.open(path, project="", embedder="none", read_only=True) as memory:
        for act in (
            lambda: memory.mark(id_, status="active"),
            lambda: memory.unmark(marked),
            lambda: memory.feedback(id_, "good"),
        ):
            with pytest.raises(StoreReadOnly):
                act()


# -- the audit log ---------------------------------------------------------------------------


def test_every_verb_that_changes_documents_is_told(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("A file.", encoding="utf-8")
    id_ = memory.store("We deploy on Fridays", entity="Deploy").id
    with acting(door="mcp", session="talk"):
        memory.mark(id_, status="done")
        memory.feedback(id_, "good")
        memory.delete(id_)
    memory.undo(id_)
    memory.ingest(tmp_path / "a.md")
    memory.store_many([Document(kind="note", key="k", text="Agent's", origin="agent")])
    memory.graph.create([])
    memory.import_lines(
        ['{"format": "plait", "version": 1}', '{"key": "i", "kind": "note", "text": "I"}']
    )
    entries = memory.log(limit=100)
    told = {(row.verb, row.door, row.origin) for row in entries}
    assert told == {
        ("store", "library", "user"),
        ("mark", "mcp", "agent"),
        ("feedback", "mcp", "agent"),
        ("delete", "mcp", "agent"),
        ("undo", "library", "user"),
        ("ingest", "library", "file"),
        ("store_many", "library", "agent"),
        ("import", "import", "user"),
    }
    assert {row.session for row in entries if row.door == "mcp"} == {"talk"}
    assert not any(b"Fridays" in (row.before or b"") + (row.after or b"") for row in entries)


def test_a_reindex_tells_nothing_and_a_search_neither(memory: Memory) -> None:
    memory.store("We deploy on Fridays")
    before = memory.log()
    memory.reindex(embeddings=True)
    memory.search("deploy")
    memory.get(before[0].document)
    memory.write_down_use()
    assert memory.log() == before


def test_two_memories_give_one_text_two_hashes(tmp_path: Path) -> None:
    marks = set()
    for name in ("a", "b"):
        with Memory.open(tmp_path / f"{name}.db", project="", embedder="none") as memory:
            memory.import_lines(
                [
                    '{"format": "plait", "version": 1}',
                    '{"id": "abcdefghijklm", "key": "k", "kind": "note", "text": "Same", '
                    '"created_at": 1, "updated_at": 1, "event_at": 1}',
                ]
            )
            marks.add(memory.log()[0].after)
    assert len(marks) == 2


def test_the_log_is_bounded(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    from plait.stores.sqlite import audit

    monkeypatch.setattr(audit, "MOST_ENTRIES", 20)
    monkeypatch.setattr(audit, "TRIMMED_EVERY", 5)
    for number in range(60):
        memory.store(f"Note {number}", key=f"k{number}")
    assert 20 <= len(memory.log(limit=1_000)) <= 25
    assert memory.log()[0].document == memory.lookup("k59")[0].id


def test_a_backup_has_the_log_and_an_export_does_not(memory: Memory, tmp_path: Path) -> None:
    memory.store("We deploy on Fridays")
    copy = memory.backup(tmp_path / "copy.db")
    with Memory.open(copy, project="", embedder="none") as restored:
        assert restored.log() == memory.log()
    assert "library" not in "".join(memory.export())


def test_a_purge_leaves_no_id_and_no_hash_in_the_file(memory: Memory) -> None:
    memory.store("Something else stays", key="other")
    doomed = memory.store("The zebra eats at noon", key="zebra")
    memory.mark("zebra", status="done")
    memory.feedback("zebra", "good")
    hashes = [
        mark
        for row in memory.log()
        if row.document == doomed.id
        for mark in (row.before, row.after)
        if mark
    ]
    assert hashes
    memory.delete("zebra", purge=True)
    assert not any(row.document == doomed.id for row in memory.log(limit=100))
    assert memory.log()[0].verb == "purge"
    memory.close()
    data = Path(memory.path).read_bytes()
    journal = Path(f"{memory.path}-wal")
    data += journal.read_bytes() if journal.exists() else b""
    assert doomed.id.encode() not in data
    assert not any(mark in data for mark in hashes)


def test_a_scope_sees_its_own_entries_and_erasing_it_drops_them(memory: Memory) -> None:
    memory.store("For all")
    ana, bo = memory.scope("ana"), memory.scope("bo")
    ana.store("Ana's", key="k")
    ana.delete("k")
    bo.store("Bo's", key="k")
    assert {row.project for row in ana.log()} == {"scope:ana"}
    assert {row.project for row in memory.log()} == {None}
    ana.erase()
    assert ana.log() == []
    assert len(bo.log()) == 1


def test_what_others_purge_hides_nothing_of_a_scope(memory: Memory) -> None:
    ana, bo = memory.scope("ana"), memory.scope("bo")
    kept = ana.store("Ana's", key="k").id
    for _ in range(3):
        bo.store("Bo's", key="k")
        bo.delete("k", purge=True)
    assert [row.document for row in ana.log(limit=1)] == [kept]
    assert {row.verb for row in bo.log()} == {"purge"}
    assert memory.log() == []


def test_an_erased_user_leaves_no_session_in_the_log(memory: Memory) -> None:
    ana = memory.scope("ana")
    with acting(session="zebra-session"):
        ana.store("Ana's", key="k")
        ana.delete("k", purge=True)
        ana.store("Ana's", key="k")
        ana.erase()
    assert ana.log() == []
    assert [(row.verb, row.session, row.project) for row in memory.log()] == [("purge", None, None)]
    memory.close()
    assert b"zebra-session" not in Path(memory.path).read_bytes()
    assert b"scope:ana" not in Path(memory.path).read_bytes()


def foreign(memory: Memory, *statements: str) -> None:
    connection = apsw.Connection(memory.path)
    for statement in statements:
        connection.execute(statement)
    connection.close()


ADD = "INSERT INTO audit (rowid, at, origin, door, verb, project, document) "


@pytest.mark.parametrize("number", [2**63 - 1, 2**63 - 2, 2**53, -5])
def test_foreign_numbers_in_the_log_do_not_keep_a_memory_from_writing(
    memory: Memory, number: int
) -> None:
    kept = memory.store("One", key="a").id
    foreign(memory, f"{ADD} VALUES ({number}, 1, 'user', 'cli', 'store', '', 'x')")
    ids = [memory.store("Text", key=key).id for key in "bcd"]
    listed = [row.document for row in memory.log()]
    assert listed[:4] == [*reversed(ids), kept]


def test_a_number_at_the_end_of_the_log_without_its_row_does_no_harm(memory: Memory) -> None:
    kept = memory.store("One", key="a").id
    foreign(memory, f"UPDATE sqlite_sequence SET seq = {2**63 - 1} WHERE name = 'audit'")
    assert [memory.store("Two", key="b").id, kept] == [row.document for row in memory.log()]


def test_foreign_rows_in_the_log_hide_no_others(memory: Memory) -> None:
    kept = memory.store("One", key="a").id
    for number in range(5, 9):
        foreign(memory, f"{ADD} VALUES ({number}, 1, x'00', 'cli', 'store', '', 'x')")
    assert [row.document for row in memory.log(limit=1)] == [kept]


@pytest.mark.parametrize(("good", "wrong"), [(1000, -999), (-999, 1000), (2**62, 2**62), (-5, -5)])
def test_foreign_feedback_stays_within_its_bounds(memory: Memory, good: int, wrong: int) -> None:
    memory.store("The otter swims in the lagoon", key="otter")
    [plain] = memory.search("otter")
    memory.feedback("otter", "good")
    foreign(memory, f"UPDATE signals SET good = {good}, wrong = {wrong}")
    [hit] = memory.search("otter", explain=True)
    assert 0.8 * plain.score <= hit.score <= 1.2 * plain.score


# -- taking an end back ----------------------------------------------------------------------


def test_what_was_superseded_holds_again(memory: Memory) -> None:
    old, new, older = (memory.store(f"The gate is {name}", entity="Gate").id for name in "ABC")
    before = dump(memory)
    memory.mark(old, older, superseded_by=new)
    ended = dump(memory)
    observations = {"kinds": "observation"}
    assert [hit.document.id for hit in memory.search("gate", where=observations)] == [new]
    marked = memory.mark(old, older, not_superseded=True)
    rows = {row.id: row for row in memory.engine.load([old, new, older])}
    assert [(row.valid_to, row.supersedes) for row in rows.values()] == [(None, None)] * 3
    assert len(memory.search("gate", where=observations)) == 3
    assert "The gate is A" in memory.lookup("Gate")[0].text
    memory.unmark(marked)
    assert dump(memory) == ended != before


def test_the_middle_of_a_history_leaves_it_to_the_others(memory: Memory) -> None:
    ids = [memory.store(f"Version {number} of the plan").id for number in range(3)]
    memory.mark(ids[0], superseded_by=ids[2])
    memory.mark(ids[1], superseded_by=ids[2])
    assert named(memory, ids) == [None, ids[0], ids[1]]
    ended = list(memory.export())
    marked = memory.mark(ids[1], not_superseded=True)
    assert named(memory, ids) == [None, None, ids[0]], "both ended in favour of the last"
    assert [row.valid_to is None for row in memory.engine.load(ids)] == [False, True, True]
    assert memory.successors(memory.engine.load(ids)) == {ids[0]: ids[2]}
    memory.unmark(marked)
    assert list(memory.export()) == ended


@pytest.mark.parametrize("way", ["marked", "stored"])
def test_the_middle_of_a_history_keeps_what_ended_in_favour_of_it(memory: Memory, way: str) -> None:
    first, last = (memory.store(f"Version {number} of the plan").id for number in (1, 3))
    supersedes = first if way == "stored" else None
    middle = memory.store("Version 2 of the plan", supersedes=supersedes).id
    if way == "marked":
        memory.mark(first, superseded_by=middle)
    memory.mark(middle, superseded_by=last)
    ended = dump(memory)
    marked = memory.mark(middle, not_superseded=True)
    assert named(memory, [first, middle, last]) == [None, first, None]
    memory.unmark(marked)
    assert dump(memory) == ended


def test_no_text_supersedes_itself(memory: Memory) -> None:
    a, b, c = (memory.store(f"The port is {port}").id for port in (80, 81, 82))
    memory.mark(a, superseded_by=b)
    back = memory.mark(a, not_superseded=True)
    memory.mark(a, superseded_by=c)
    memory.unmark(back)
    assert named(memory, [a, b, c]) == [None, None, a], "by now it is the history of another"
    memory.mark(b, superseded_by=c)
    assert named(memory, [a, b, c]) == [None, a, b]


def test_a_text_in_two_histories_is_once_in_the_joined_one(memory: Memory) -> None:
    a, b, c = (memory.store(f"The port is {port}").id for port in (80, 81, 82))
    memory.mark(a, superseded_by=c)
    with memory.engine.transaction() as transaction:
        transaction.amend(b, supersedes=a)  # as earlier versions of plait could leave it
    memory.mark(b, superseded_by=c)
    assert named(memory, [a, b, c]) == [None, a, b]


def test_taking_back_makes_no_history_without_an_end(memory: Memory) -> None:
    a, b, c = (memory.store(f"The port is {port}").id for port in (80, 81, 82))
    memory.mark(a, superseded_by=b)
    memory.mark(b, superseded_by=c)
    with memory.engine.transaction() as transaction:
        transaction.amend(b, updated_at=1)  # what ended in favour of which is not known any more
    back = memory.mark(a, not_superseded=True)
    memory.mark(c, superseded_by=a)
    assert named(memory, [a, b, c]) == [c, None, b]
    memory.unmark(back)
    assert named(memory, [a, b, c]) == [c, None, b]


def test_a_mark_reads_a_history_once(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    *ids, new = (memory.store(f"The port is {port}").id for port in range(20))
    for id_ in ids[:-1]:
        memory.mark(id_, superseded_by=new)
    read: list[str] = []
    walk = marking._history

    def counting(transaction: Any, id_: str) -> list[Document]:
        rows = walk(transaction, id_)
        read.extend(row.id for row in rows)
        return rows

    monkeypatch.setattr(marking, "_history", counting)
    marked = memory.mark(ids[-1], superseded_by=new)
    assert len(read) == len(set(read)) == 20
    assert {row.id for row in marked.before} == {new, *ids[-2:]}, "only what changed is remembered"


def test_a_fact_that_a_new_text_superseded_holds_again(memory: Memory) -> None:
    old = memory.store("The port is 8080").id
    memory.store("The port is 8443", supersedes=old)
    memory.mark(old, not_superseded=True)
    assert len(memory.search("port")) == 2


def test_what_outlived_its_successor_holds_again(memory: Memory) -> None:
    old, new = (memory.store(f"The port is {port}").id for port in (80, 81))
    memory.mark(old, superseded_by=new)
    memory.delete(new)
    memory.mark(old, not_superseded=True)
    assert [hit.document.id for hit in memory.search("port")] == [old]


def test_only_one_fact_of_a_topic_can_hold(memory: Memory) -> None:
    old = memory.store("The port is 8080", topic="port").id
    new = memory.store("The port is 8443", topic="port").id
    with pytest.raises(UsageError, check=has_code("topic_taken", new)):
        memory.mark(old, not_superseded=True)
    memory.delete(new)
    memory.mark(old, not_superseded=True)
    assert [hit.document.id for hit in memory.search("port")] == [old]


def test_what_has_not_ended_was_not_superseded(memory: Memory) -> None:
    memory.store("The port is 8080", key="port")
    with pytest.raises(UsageError, check=has_code("not_superseded", "port")):
        memory.mark("port", not_superseded=True)


def test_what_was_preferred_is_the_same_in_a_memory_that_imports_it(
    memory: Memory, tmp_path: Path
) -> None:
    old, new = (memory.store(f"The port is {port}").id for port in (80, 81))
    with Memory.open(tmp_path / "other.db", embedder="hashing") as other:
        other.import_lines(list(memory.export()))
        memory.mark(old, superseded_by=new)
        other.import_lines(list(memory.export()))
        again = other.import_lines(list(memory.export()))
        assert (again.replaced, again.unchanged) == (0, 2)
        assert times(other, old, new) == times(memory, old, new)


def times(memory: Memory, *ids: str) -> list[tuple[str | None, int | None, int]]:
    return [(row.supersedes, row.valid_to, row.updated_at) for row in memory.engine.load(ids)]


# -- to another project ------------------------------------------------------------------------


def contents_of(place: Path, *projects: str) -> list[Any]:
    rows: list[Any] = []
    for project in projects:
        with Memory.open(place, embedder="none", project=project) as memory:
            where = {"projects": (project,), "all_versions": True}
            found = memory.engine.scan(memory._filter(where), whole=True)
            rows.append(sorted(row._replace(indexed_at=0, updated_at=0) for row in found))
    return rows


def test_the_facts_of_a_renamed_project_move_with_their_histories_and_come_back(tmp_path):
    place = tmp_path / "m.db"
    with Memory.open(place, embedder="none", project="/n/app") as memory:
        memory.store("The staging gate is 4711")
        memory.store("Ana likes tea", entity="Ana", topic="drink")
        memory.store("Ana likes coffee", entity="Ana", topic="drink")
        memory.store("a note", key="k.md")
        memory.store("Personal", personal=True)
        memory.store("said", session="s1", role="user")
        before = contents_of(place, "/n/app", "/n/app2")
        done = memory.mark(to_project="/n/app2")
        assert len(done.ids) == 4
        assert [row.kind for row in memory.timeline(where={"projects": ("/n/app",)})] == ["message"]
        assert all(finding.level == "ok" for finding in memory.doctor())
        with Memory.open(place, embedder="none", project="/n/app2") as moved:
            assert moved.search("staging gate")[0].text == "The staging gate is 4711"
            ana = moved.timeline(where={"entity": "Ana"})
            assert [moved.get(fact.id).text for fact in ana] == ["Ana likes coffee"]
            assert moved.get("k.md").text == "a note"
            # What the move left is the newer fact's history as before.
            assert moved.earlier([moved.search("coffee")[0].document])
        memory.unmark(done)
        assert contents_of(place, "/n/app", "/n/app2") == before
        assert all(finding.level == "ok" for finding in memory.doctor())


@pytest.mark.parametrize(
    "there",
    [
        {"text": "The staging gate is 4711"},
        {"text": "another", "key": "k.md"},
        {"text": "Ana likes milk", "entity": "Ana", "topic": "drink"},
    ],
)
def test_nothing_moves_to_where_one_of_its_kind_is(tmp_path, there):
    place = tmp_path / "m.db"
    with Memory.open(place, embedder="none", project="/n/app2") as memory:
        memory.store(**there)
    with Memory.open(place, embedder="none", project="/n/app") as memory:
        memory.store("The staging gate is 4711")
        memory.store("a note", key="k.md")
        memory.store("Ana likes tea", entity="Ana", topic="drink")
        before = contents_of(place, "/n/app", "/n/app2")
        with pytest.raises(UsageError, check=has_code("topic_taken")):
            memory.mark(to_project="/n/app2")
    assert contents_of(place, "/n/app", "/n/app2") == before


def test_files_messages_and_what_is_personal_do_not_move(tmp_path):
    (tmp_path / "n").mkdir()
    (tmp_path / "n" / "a.md").write_text("file", encoding="utf-8")
    with Memory.open(tmp_path / "m.db", embedder="none", project="/n/app") as memory:
        memory.ingest(tmp_path / "n")
        said = memory.store("said", session="s1", role="user")
        for name in ("a.md", said.id):
            with pytest.raises(UsageError, check=has_code("not_a_fact")):
                memory.mark(name, to_project="/n/app2")
    with Memory.open(tmp_path / "m.db", embedder="none", project="") as personal:
        personal.store("mine")
        with pytest.raises(UsageError, check=has_code("nothing_to_mark")):
            personal.mark(to_project="/n/app2")


def test_nothing_of_a_user_leaves_a_scope_and_nothing_enters_one(tmp_path):
    with Memory.open(tmp_path / "m.db", embedder="none", project="/n/app") as memory:
        scope = memory.scope("user:7")
        stored = scope.store("only mine")
        shared = memory.store("of the project")
        for names in ((), (stored.id,)):
            with pytest.raises(UsageError):
                scope.mark(*names, to_project="/n/app")
        for target in ("scope:user:7", "scope:user:8"):
            with pytest.raises(UsageError):
                memory.mark(shared.id, to_project=target)
        with pytest.raises(NotFound):
            memory.mark(stored.id, to_project="/n/app2")
        with pytest.raises(UsageError):
            memory.mark(stored.id, to_project="/n/app2", all_projects=True)
        assert [hit.text for hit in scope.search("mine")] == ["only mine"]
