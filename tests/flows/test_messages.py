"""Messages, however they are stored: by hand, many at once, under names that others have."""

from typing import Any

import apsw
import pytest

from plait.errors import NotFound, StoreDamaged, UsageError
from plait.memory import Memory
from plait.settings.loading import load
from plait.types import Document
from tests.codes import has_code


def message(text: str, session: str | None = "s", **fields: Any) -> Document:
    return Document(kind="message", text=text, session=session, **fields)


def spoken(memory: Memory, session: str) -> list[str]:
    return [row.text for row in memory.conversation(session)]


# -- many documents, some of them messages --------------------------------------------------------


def test_a_key_belongs_to_its_session_also_in_store_many(memory):
    first = memory.store_many([message("One.", "a", key="1"), message("Two.", "b", key="1")])
    assert [row.replaced for row in first] == [False, False]
    again = memory.store_many([message("One.", "a", key="1"), message("Two!", "b", key="1")])
    assert [(row.duplicate, row.replaced) for row in again] == [(True, False), (False, True)]
    assert (spoken(memory, "a"), spoken(memory, "b")) == (["One."], ["Two!"])
    # The same messages as a chat API has them are the same.
    memory.add_messages([{"role": "user", "content": "One?", "id": "1"}], session="a")
    assert spoken(memory, "a") == ["One?"]


@pytest.mark.parametrize(
    ("role", "given", "origin"),
    [
        ("assistant", "user", "agent"),
        ("tool", "user", "tool"),
        ("user", "user", "user"),
        ("user", "web", "web"),
        (None, "user", "user"),
    ],
)
def test_a_role_tells_the_origin_also_in_store_many(memory, role, given, origin):
    memory.store_many([message("Hello.", role=role, origin=given)])
    [row] = memory.conversation("s")
    assert row.origin == origin


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"session": None}, "no_session"),
        ({"session": " "}, "empty_name"),
        ({"session": "x" * 5_000}, "long_name"),
        ({"topic": "port"}, "message_with_fact_fields"),
        ({"role": " "}, "empty_name"),
    ],
)
def test_a_refused_message_stores_nothing_of_its_batch(memory, fields, code):
    with pytest.raises(UsageError, check=has_code(code)):
        memory.store_many([Document(text="A note.", key="n"), message("Bad.", **fields)])
    assert memory.stats().doc_count == 0


def test_results_of_mixed_documents_keep_their_order(memory):
    rows = [
        Document(text="A fact."),
        message("Yes."),
        Document(text="A note.", key="n"),
        message("Yes."),
        message("No.", "t"),
    ]
    stored = memory.store_many(rows)
    assert [memory.get(row.id).text for row in stored] == [row.text for row in rows]
    assert [row.turn for row in stored] == [None, 1, None, 2, 1]


# -- one after another ----------------------------------------------------------------------------


def test_messages_are_in_order_in_time_however_quickly_they_are_stored(memory, monkeypatch):
    monkeypatch.setattr("time.time_ns", lambda: 1_800_000_000_000 * 1_000_000)
    for part in range(3):
        memory.add_messages(
            [{"role": "user", "content": f"{part} {n}"} for n in range(40)], session="s"
        )
    memory.store("3 0", role="user", session="s")
    memory.store_many([message("3 1"), message("3 2")])
    listed = [row.summary for row in memory.timeline(limit=1000)][::-1]
    assert listed == spoken(memory, "s")
    times = [row.event_at for row in memory.conversation("s")]
    assert times == list(range(1_800_000_000_000, 1_800_000_000_000 + len(times)))


def test_a_message_of_the_next_century_does_not_move_those_after_it(memory, monkeypatch):
    now = 1_800_000_000_000
    monkeypatch.setattr("time.time_ns", lambda: now * 1_000_000)
    far = now + 100 * 365 * 86_400_000
    memory.add_messages([{"role": "user", "content": "Far.", "time": far}], session="s")
    memory.add_messages([{"role": "user", "content": text} for text in "ab"], session="s")
    assert [row.event_at for row in memory.conversation("s")] == [far, now, now + 1]


# -- names ------------------------------------------------------------------------------------


def test_the_id_of_a_message_names_it_only_if_nothing_else_has_the_name(memory):
    for name in ("n", "n-0", "gone"):
        memory.add_messages([{"role": "user", "content": "Said.", "id": name}], session=name)
    assert memory.get("n").text == "Said."
    note = memory.store("A note.", key="n")
    taken = note.id[:8]
    memory.add_messages([{"role": "user", "content": "Said.", "id": taken}], session="t")
    assert memory.get("n").text == memory.get("n-0").text == memory.get(taken).text == "A note."
    assert memory.delete("n").ids == (note.id,)
    assert memory.get("n").kind == "message"
    memory.delete("n")
    assert [row.kind for row in memory.undo("n")] == ["note"]


def test_many_messages_of_one_id_hide_no_note(memory):
    for number in range(30):
        memory.add_messages([{"role": "user", "content": "x", "id": "1"}], session=f"s{number}")
    memory.store("A note.", key="1")
    assert memory.get("1").text == "A note."


# -- users --------------------------------------------------------------------------------------


def test_a_user_reads_his_own_session_before_a_shared_one(memory):
    memory.store("Shared.", role="user", session="s1")
    memory.store("Shared only.", role="user", session="s2")
    ana = memory.scope("ana", shared=[None])
    assert spoken(ana, "s1") == ["Shared."]
    ana.store("Mine.", role="user", session="s1")
    assert spoken(ana, "s1") == ["Mine."]
    assert [row.summary for row in ana.timeline(where={"session": "s1"})] == ["Mine."]
    assert spoken(ana, "s2") == ["Shared only."]
    assert spoken(memory, "s1") == ["Shared."]


def test_two_shared_sessions_of_one_name_are_not_mixed(tmp_path):
    for project in ("a", "b"):
        with Memory.open(tmp_path / "m.db", embedder="none", project=project) as memory:
            memory.store(f"Of {project}.", role="user", session="s")
    with Memory.open(tmp_path / "m.db", embedder="none", project="") as memory:
        assert spoken(memory.scope("ana", shared=["b", "a"]), "s") == ["Of b."]


def test_a_memory_that_is_off_takes_no_messages():
    off = load({"backend": "none", "project": ""})
    with Memory.open(":memory:", config=off) as memory:
        assert memory.add_messages([{"role": "user", "content": "x"}], session="s") == []


# -- damage -------------------------------------------------------------------------------------

DAMAGE = {
    "a field": "UPDATE documents SET title = x'05' WHERE turn = {turn}",
    "the text": "UPDATE passages SET text = x'05' WHERE document = "
    "(SELECT rowid FROM documents WHERE turn = {turn})",
}


def damaged_at(path: str, sql: str, turn: int) -> None:
    file = apsw.Connection(path)
    file.execute("PRAGMA ignore_check_constraints = ON").fetchall()
    triggers = "SELECT name FROM sqlite_schema WHERE type = 'trigger'"
    for (trigger,) in file.execute(triggers).fetchall():
        file.execute(f'DROP TRIGGER "{trigger}"')
    file.execute(sql.format(turn=turn))
    file.close()


@pytest.mark.parametrize("sql", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("turn", [1, 2])
def test_a_damaged_message_is_left_out_and_told(memory, sql, turn):
    said = ("Where does the ferry leave?", "At noon.", "Thanks.")
    stored = memory.add_messages([{"role": "user", "content": text} for text in said], session="s")
    bad = stored[turn - 1].id
    damaged_at(memory.path, sql, turn)
    named, troubles = memory.lookup_many(["s", "nobody"], conversations=True)
    left = [text for number, text in enumerate(said, 1) if number != turn]
    assert [document.text for document, _ in named] == left
    assert isinstance(troubles.pop("nobody"), NotFound)
    assert [(name, type(error)) for name, error in troubles.items()] == [(bad, StoreDamaged)]
    if turn == 2:
        recalled = memory.recall("where does the ferry leave")
        assert [item.hit.text for item in recalled.items] == [said[0]]
        assert [notice.subject for notice in recalled.receipt.degraded] == [bad]
    newest = memory.search("*")
    assert sorted(hit.text for hit in newest) == sorted(left)
    assert bad in [notice.subject for notice in newest.receipt.degraded]


# -- the newest ---------------------------------------------------------------------------------


def test_the_newest_have_pages_entities_and_successors(memory):
    for number in range(7):
        memory.store(f"Note {number}.", key=f"n{number}", event_at=f"2026-01-0{number + 1}")
    pages = [memory.search("*", limit=3, offset=offset) for offset in (0, 3, 6)]
    keys = [hit.doc_id for page in pages for hit in page]
    assert keys == [f"n{number}" for number in reversed(range(7))]
    scores = [hit.score for page in pages for hit in page]
    assert scores == sorted(scores, reverse=True) and len(set(scores)) == 7
    old = memory.store("Port 1.", entity="Server", topic="port")
    new = memory.store("Port 2.", entity="Server", topic="port")
    hits = {hit.id: hit for hit in memory.search("*", where={"all_versions": True})}
    facts = [hit for hit in hits.values() if hit.document.id in (old.id, new.id)]
    assert {hit.entity for hit in facts} == {"Server"}
    assert {hit.superseded_by for hit in facts} == {None, new.id}
