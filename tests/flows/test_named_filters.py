"""What a caller writes in a filter counts as written, and errors repeat his words."""

from datetime import date
from typing import Any

import pytest

from plait.errors import UsageError
from plait.memory import Memory
from plait.memory.beyond import beyond, documents_elsewhere
from plait.settings.loading import load
from plait.times import as_moment, parse_time
from plait.types import Document, Filter
from tests.builders import EVERYTHING
from tests.codes import has_code


@pytest.fixture
def two(tmp_path):
    """A memory in a project, with a note of its own, a personal and a pinned one."""
    with Memory.open(tmp_path / "m.db", embedder="none", project="acme") as memory:
        memory.store("Tea of the project.", key="ours")
        memory.store("Tea of mine.", key="mine", personal=True)
        memory.store("Tea, pinned.", key="pin", pinned=True)
        yield memory


def keys(rows: Any) -> set[str]:
    return {row.doc_id for row in rows}


@pytest.mark.parametrize("name", ["project", "projects"])
def test_no_project_means_personal_documents(two, name):
    assert keys(two.search("tea", where={name: None})) == {"mine"}
    assert keys(two.timeline(where={name: None})) == {"mine"}
    assert keys(two.timeline(where={name: None, "entity": None})) == {"mine"}
    assert two.delete(where={name: None}).doc_ids == ("mine",)


@pytest.mark.parametrize("value", ["", [""], ["acme", ""]])
def test_an_empty_project_is_refused(two, value):
    with pytest.raises(UsageError, check=has_code("bad_value", "project")):
        two.search("tea", where={"project": value})


@pytest.mark.parametrize(
    "name",
    [
        *("path", "source", "session", "since", "until", "as_of", "key", "key_prefix", "kind"),
        *("tag", "type", "entity", "topic", "named", "mentions", "status", "trust"),
    ],
)
@pytest.mark.parametrize("value", ["", " "])
def test_an_empty_filter_is_refused_because_it_would_select_more(two, name, value):
    where = {name: value, "pinned": True}
    acts = (
        lambda: two.search("tea", where=where),
        lambda: two.timeline(where=where),
        lambda: list(two.export(where=where)),
        lambda: two.delete(where=where),
    )
    for act in acts:
        with pytest.raises(UsageError, check=has_code("empty_filter", name)):
            act()


def test_an_empty_prefix_in_a_filter_of_the_library_is_refused(two):
    with pytest.raises(UsageError, check=has_code("empty_filter", "key_prefix")):
        two.delete(where=Filter(key_prefix=""))


def test_an_empty_list_means_any_value_for_reading_and_is_refused_for_deleting(two):
    where = {"tags": [], "pinned": True}
    assert keys(two.search("tea", where=where)) == {"pin"}
    with pytest.raises(UsageError, check=has_code("empty_filter", "tags")):
        two.delete(where=where)
    with pytest.raises(UsageError, check=has_code("empty_filter", "tags")):
        two.search("tea", where={"tags": ["", "ops"]})


def test_a_session_without_a_name_has_no_messages(two):
    assert two.conversation(" ") == two.conversation("") == []


def test_pinned_selects_either(two):
    assert keys(two.search("tea", where={"pinned": False})) == {"ours", "mine"}
    assert keys(two.search("tea", where={"pinned": True})) == {"pin"}
    assert keys(two.search("tea", where={"pinned": None})) == {"ours", "mine", "pin"}
    assert two.delete(where={"pinned": False}, dry_run=True).doc_ids == ("ours",)


@pytest.mark.parametrize(
    ("where", "code", "subject"),
    [
        ({"kind": "nothing"}, "bad_value", "kind"),
        ({"kinds": "nothing"}, "bad_value", "kinds"),
        ({"trust": ["high"]}, "bad_value", "trust"),
        ({"origin": 3}, "bad_type", "origin"),
        ({"path": 3}, "bad_type", "path"),
        ({"tag": 3}, "bad_type", "tag"),
        ({"tag": "\ud800"}, "bad_value", "tag"),
        ({"entity": "Ana", "kind": "nothing"}, "bad_value", "kind"),
        ({"entities": 3}, "bad_type", "entities"),
        ({"pinned": 0}, "bad_type", "pinned"),
        ({"since": "yesteryear"}, "bad_time", "since"),
    ],
)
def test_an_error_names_the_filter_as_the_caller_wrote_it(two, where, code, subject):
    acts = (lambda: two.search("tea", where=where), lambda: two.delete(where=where))
    for act in acts:
        with pytest.raises(UsageError, check=has_code(code, subject)) as refused:
            act()
        assert subject in str(refused.value)


# -- users are not invited ------------------------------------------------------------------------


def test_all_projects_and_hints_leave_out_users_unless_they_are_named(two):
    for number in range(50):
        two.scope("ana").store(f"Tea tea tea {number}.", key=f"a{number}")
    two.store_many([Document(text="Tea elsewhere.", key="other", project="other")])
    everybody = {"ours", "mine", "pin", "other"}
    assert keys(two.search("tea", limit=100, all_projects=True)) == everybody
    assert keys(two.timeline(limit=100, all_projects=True)) == everybody
    recalled = two.recall("tea", limit=20, all_projects=True, min_score=0.0)
    assert {item.hit.doc_id for item in recalled.items} <= everybody
    assert beyond(two, "tea").elsewhere == documents_elsewhere(two) == 1
    named = {"project": "scope:ana"}
    assert len(two.search("tea", limit=100, where=named)) == 50
    assert len(two.timeline(limit=100, where=named)) == 50
    # What concerns the whole file does.
    assert len(list(two.export(all_projects=True))) == 1 + 54


def test_a_hint_counts_nothing_as_read(tmp_path):
    config = load({"signals_count": "listed", "db_path": str(tmp_path / "m.db"), "project": "p"})
    with Memory.open(config=config, embedder="none") as memory:
        memory.store_many([Document(text="Tea elsewhere.", key="other", project="q")])
        assert beyond(memory, "tea").elsewhere == 1
        memory.write_down_use()
        [row] = memory.engine.scan(EVERYTHING)
        refs = [part.ref for part in memory.engine.passages(row.id)]
        assert [row.use for row in memory.engine.hydrate(refs, ranking=True).values()] == [None]
        memory.search("tea", all_projects=True)
        memory.write_down_use()
        assert [row.use for row in memory.engine.hydrate(refs, ranking=True).values()] != [None]


def test_what_a_scope_read_is_counted_though_nobody_closed_it(memory):
    stored = memory.scope("ana").store("Ana's tea.", key="k")
    other = memory.store("Tea.", key="k")
    parts = {row.id: memory.passages_of(row.id)[0].ref for row in (stored, other)}
    memory.scope("ana").get("k")
    memory.scope("ben").used(list(parts.values()))  # of others
    memory.write_down_use()
    counted = memory.engine.hydrate(list(parts.values()), ranking=True)
    assert counted[parts[stored.id]].use is not None
    assert counted[parts[other.id]].use is None


# -- times --------------------------------------------------------------------------------------


def test_a_time_that_a_program_does_not_know_is_refused(memory):
    with pytest.raises(UsageError, check=has_code("bad_time", "event_at")):
        memory.store("x", event_at=0)
    with pytest.raises(UsageError, check=has_code("bad_time", "messages[0]")):
        memory.add_messages([{"role": "user", "content": "x", "time": 0}], session="s")
    for field in ("created_at", "updated_at", "indexed_at", "event_at", "valid_from", "valid_to"):
        with pytest.raises(UsageError, check=has_code("bad_time", field)):
            memory.store_many([Document(text="x")._replace(**{field: 17})])  # type: ignore[arg-type]
    assert memory.stats().doc_count == 0
    memory.store_many([Document(text="x", created_at=1_700_000_000)])
    [row] = memory.timeline(where={"since": 0})
    assert row.created_at == 1_700_000_000_000
    assert memory.timeline(where={"until": 0}) == []


def test_moments_without_a_date_are_refused():
    assert parse_time("999999y") is None
    with pytest.raises(UsageError, check=has_code("bad_time", "since")):
        as_moment("999999y", "since", zero=True)
    assert as_moment(date(1850, 1, 1), "event_at") is not None


@pytest.mark.parametrize("time", ["1700000000", "1700000000.25", "1700000000250", 1_700_000_000])
def test_a_message_may_have_its_number_of_seconds_as_a_text(memory, time):
    memory.add_messages([{"role": "user", "content": "x", "time": time}], session="s")
    [row] = memory.conversation("s")
    assert (row.event_at or 0) // 1000 == 1_700_000_000
