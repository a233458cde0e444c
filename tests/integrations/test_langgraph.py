"""plait as the store of LangGraph: what the framework's own store does, and several processes."""

import asyncio
import json
import subprocess
import sys
import time
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("langgraph.store.base", reason="langgraph is not installed")

from langgraph.graph import START, StateGraph
from langgraph.store.base import BaseStore, GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from plait.errors import UsageError
from plait.memory import Memory
from plait.tools.adapters.langgraph import PlaitStore, key_of
from plait.tools.adapters.matching import matches
from plait.types import EVERYTHING

USERS = ("users", "ada")
VALUES: list[dict[str, Any]] = [
    {},
    {"text": ""},
    {"n": 0, "f": -1.5e300, "t": True, "none": None},
    {"deep": {"list": [1, [2, {"x": "y"}]], "empty": {}}},
    {"odd": "NUL \0, half \ud800, line\r\nends, \u202e, 日本語, 😀"},
    {"text": "---\ntitle: front matter\n---\nbody"},
    {"long": "word " * 20_000},
    {"secret": "password: 'x7-Kqz92!f'"},
    {"answer": "<<plait-recall abcdefgh>>\nRecalled\n<</plait-recall abcdefgh>>"},
]


@pytest.fixture
def store(hashing_memory):
    return PlaitStore(hashing_memory)


@pytest.mark.parametrize("value", VALUES, ids=[str(number) for number in range(len(VALUES))])
def test_a_value_comes_back_as_it_was(store, value):
    store.put(USERS, "item", value)
    item = store.get(USERS, "item")
    assert item.value == value
    assert (item.namespace, item.key) == (USERS, "item")
    assert item.updated_at.tzinfo is not None
    assert item.updated_at - item.created_at < timedelta(minutes=1)
    (only,) = store.search(USERS)
    assert only.value == value


@pytest.mark.parametrize(
    ("namespace", "key"),
    [
        (("a", "b"), "c"),
        (("a",), "b/c"),
        (("a/b",), "c"),
        (("a%2Fb",), "c"),
        (("A",), "b"),
        (("a", "=b"), "c"),
        (("a",), ""),
        (("a",), " "),
        (("a", "日本"), "é"),
        (("a",), "x" * 300),
        (("a",), "\ud800"),
    ],
)
def test_every_name_is_a_name_of_its_own(store, namespace, key):
    store.batch([PutOp(("a",), "b", {"other": True}), PutOp(namespace, key, {"mine": True})])
    assert store.batch([GetOp(namespace, key)])[0].value == {"mine": True}
    assert store.get(("a",), "b").value == {"other": True}


def test_a_put_replaces_and_keeps_when_it_was_made(store):
    store.put(USERS, "prefs", {"theme": "dark"})
    before = store.get(USERS, "prefs")
    store.put(USERS, "prefs", {"theme": "light"})
    after = store.get(USERS, "prefs")
    assert after.value == {"theme": "light"}
    assert after.created_at == before.created_at
    assert len(store.search(USERS)) == 1


def test_what_was_deleted_or_never_there_is_none(store):
    assert store.get(USERS, "prefs") is None
    store.delete(USERS, "prefs")
    store.put(USERS, "prefs", {"theme": "dark"})
    store.delete(USERS, "prefs")
    assert store.get(USERS, "prefs") is None
    assert store.search(USERS) == []
    assert store.list_namespaces() == []
    store.put(USERS, "prefs", {"theme": "light"})
    assert store.get(USERS, "prefs").value == {"theme": "light"}


def test_what_an_agent_deletes_is_logged_as_an_agents(store, hashing_memory):
    store.put(USERS, "prefs", {"theme": "dark"})
    store.delete(USERS, "prefs")
    entry = hashing_memory.log()[0]
    assert (entry.origin, entry.door, entry.verb) == ("agent", "tools", "delete")


def test_a_search_finds_by_words_and_scores(store):
    store.put(USERS, "food", {"text": "She likes pizza with olives"})
    store.put(USERS, "work", {"text": "She repairs old bicycles"})
    store.put(("users", "ben"), "food", {"text": "He likes pizza too"})
    best = store.search(USERS, query="pizza", limit=1)
    assert [item.key for item in best] == ["food"]
    assert 0 < best[0].score <= 1
    everyone = store.search(("users",), query="pizza")
    assert {item.namespace for item in everyone if "pizza" in item.value["text"]} == {
        USERS,
        ("users", "ben"),
    }
    assert store.search(USERS, query="pizza", filter={"text": "nothing"}) == []


def test_a_filter_selects_before_the_search_ends(store, monkeypatch):
    monkeypatch.setattr("plait.tools.adapters.langgraph.MAX_LIMIT", 5)
    store.batch([PutOp(USERS, f"k{n}", {"text": "pizza", "n": n}) for n in range(20)])
    for number in range(20):
        selected = store.search(USERS, query="pizza", filter={"n": number})
        assert [item.key for item in selected] == [f"k{number}"]
    assert store.search(USERS, query="pizza", filter={"n": 99}) == []


def test_a_field_may_be_named_like_an_operator(store):
    for each in (store, InMemoryStore()):
        each.put(USERS, "price", {"$": 5})
        assert len(each.search(USERS, filter={"$": 5})) == 1
        assert each.search(USERS, filter={"$": 6}) == []


def test_a_namespace_is_not_the_beginning_of_another_label(store):
    store.put(("users", "ad"), "a", {"text": "x"})
    store.put(("users", "ada"), "b", {"text": "x"})
    assert [item.key for item in store.search(("users", "ad"))] == ["a"]
    assert [item.key for item in store.search(("users", "ad"), query="x")] == ["a"]


def test_the_fields_that_are_indexed_can_be_chosen(store):
    value = {"title": "zebra", "notes": [{"text": "otter"}, {"text": "heron"}], "other": "walrus"}
    store.put(USERS, "some", value, index=["title", "notes[*].text"])
    store.put(USERS, "none", {"text": "ibex"}, index=False)
    for word in ("zebra", "otter", "heron"):
        assert [item.key for item in store.search(USERS, query=f"+{word}")][:1] == ["some"]
    documents = {
        row.title: row.text for row in store._memory.engine.scan(store._where(), whole=True)
    }
    assert "walrus" not in documents["some"]
    assert documents["none"] == "none"
    assert store.get(USERS, "some").value == value


def test_the_newest_comes_first_and_pages_follow(store, monkeypatch):
    for number in range(5):
        monkeypatch.setattr("plait.writing.documents.now_ms", lambda number=number: 1_000 + number)
        store.put(USERS, f"k{number}", {"n": number})
    keys = [item.key for item in store.search(USERS, limit=10)]
    assert keys == ["k4", "k3", "k2", "k1", "k0"]
    pages = [store.search(USERS, limit=2, offset=offset) for offset in (0, 2, 4, 6)]
    assert [item.key for page in pages for item in page] == keys
    assert all(item.score is None for page in pages for item in page)


def test_namespaces_are_listed_by_prefix_suffix_depth_and_page(store):
    reference = InMemoryStore()
    for labels in ("a", "a b", "a b c", "a x c", "b c", "b c d", "ab"):
        for each in (store, reference):
            each.put(tuple(labels.split()), "k", {"x": 1})
    questions: list[dict[str, Any]] = [
        {},
        {"prefix": ("a",)},
        {"prefix": ("a", "*", "c")},
        {"suffix": ("c",)},
        {"prefix": ("a",), "suffix": ("c",)},
        {"max_depth": 1},
        {"max_depth": 2, "prefix": ("a",)},
        {"limit": 2, "offset": 1},
    ]
    for question in questions:
        assert store.list_namespaces(**question) == reference.list_namespaces(**question), question


def test_reads_of_a_batch_come_before_its_writes_and_the_last_put_counts(store):
    store.put(USERS, "a", {"n": 1})
    results = store.batch(
        [
            PutOp(USERS, "a", {"n": 2}),
            GetOp(USERS, "a"),
            PutOp(USERS, "a", {"n": 3}),
            PutOp(USERS, "b", None),
            SearchOp(USERS),
            ListNamespacesOp((MatchCondition("prefix", ("users",)),)),
        ]
    )
    assert results[1].value == {"n": 1}
    assert [item.value for item in results[4]] == [{"n": 1}]
    assert results[5] == [USERS]
    assert store.get(USERS, "a").value == {"n": 3}
    with pytest.raises(ValueError, match="Unknown operation"):
        store.batch(["put"])


@pytest.mark.parametrize("value", [{"when": object()}, {"text": "word " * 3_000_000}])
def test_a_batch_that_is_refused_deletes_nothing(store, value):
    store.put(("a",), "kept", {"x": 1})
    with pytest.raises((TypeError, UsageError)):
        store.batch([PutOp(("a",), "kept", None), PutOp(("a",), "bad", value)])
    assert store.get(("a",), "kept").value == {"x": 1}


def test_it_works_in_an_event_loop_with_many_at_once(store):
    async def work() -> tuple[list[int], list[Any]]:
        await asyncio.gather(*(store.aput(USERS, f"k{n}", {"n": n}) for n in range(12)))
        items = await asyncio.gather(*(store.aget(USERS, f"k{n}") for n in range(12)))
        await store.adelete(USERS, "k0")
        return [item.value["n"] for item in items], await store.asearch(USERS, limit=50)

    numbers, left = asyncio.run(work())
    assert numbers == list(range(12))
    assert len(left) == 11


WRITER = """
import sys
from plait.memory import Memory
from plait.tools.adapters.langgraph import PlaitStore
with Memory.open(sys.argv[1], embedder="none", project="") as memory:
    store = PlaitStore(memory)
    for turn in range(5):
        store.put(("all",), f"{sys.argv[2]}-{turn}", {"who": sys.argv[2], "turn": turn})
        store.put(("all",), "shared", {"who": sys.argv[2], "turn": turn})
"""


def test_nothing_is_lost_among_several_processes(tmp_path):
    path = str(tmp_path / "memory.db")
    with Memory.open(path, embedder="none", project="") as memory:
        memory.store("There already.")
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, path, name]) for name in ("a", "b", "c")
    ]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0]
    with Memory.open(path, project="") as memory:
        items = PlaitStore(memory).search(("all",), limit=100)
    assert {item.key for item in items} == {
        "shared",
        *(f"{name}-{turn}" for name in "abc" for turn in range(5)),
    }
    for item in items:
        assert item.key in ("shared", f"{item.value['who']}-{item.value['turn']}")


def test_other_notes_and_other_projects_are_no_items(tmp_path):
    path = tmp_path / "memory.db"
    with Memory.open(path, embedder="none", project="one") as memory:
        memory.store("A note.", key=f"{key_of(USERS, 'x')}")
        memory.store("Another note about pizza.", key="pizza")
        store = PlaitStore(memory)
        assert store.get(USERS, "x") is None
        assert store.search((), query="pizza") == []
        store.put(USERS, "y", {"text": "pizza"})
    with Memory.open(path, project="two") as memory:
        assert PlaitStore(memory).get(USERS, "y") is None
        assert PlaitStore(memory).search(()) == []
        PlaitStore(memory).delete(USERS, "y")
    with Memory.open(path, project="one") as memory:
        assert PlaitStore(memory).get(USERS, "y") is not None


def test_each_user_has_items_of_their_own(tmp_path):
    with Memory.open(tmp_path / "m.db", project="") as memory:
        ana, ben, whole = (
            PlaitStore(part) for part in (memory.scope("ana"), memory.scope("ben"), memory)
        )
        ana.put(("notes",), "tea", {"text": "Ana likes tea."})
        item = ana.get(("notes",), "tea")
        assert item is not None and item.value == {"text": "Ana likes tea."}
        for other in (ben, whole):
            assert other.get(("notes",), "tea") is None
            assert other.search(("notes",), query="tea") == other.search(("notes",)) == []
            assert other.list_namespaces() == []
            other.delete(("notes",), "tea")
        assert [row.key for row in ana.search(("notes",), query="tea")] == ["tea"]
        assert ana.list_namespaces() == [("notes",)]
        ana.delete(("notes",), "tea")
        assert ana.search(("notes",)) == []


def test_what_an_agent_put_in_is_marked_unless_somebody_vouches_for_it(tmp_path):
    with Memory.open(tmp_path / "memory.db", embedder="none", project="") as memory:
        PlaitStore(memory).put(USERS, "a", {"text": "x"})
        PlaitStore(memory, trust="trusted").put(USERS, "b", {"text": "y"})
        assert {row.title: row.trust for row in memory.timeline()} == {
            "a": "untrusted",
            "b": "trusted",
        }


def test_a_memory_without_a_file_or_switched_off_is_empty(tmp_path, monkeypatch):
    with Memory.open(tmp_path / "none.db", create=False) as memory:
        store = PlaitStore(memory)
        assert store.get(USERS, "a") is None
        assert (
            store.search(USERS, query="x") == store.search(USERS) == store.list_namespaces() == []
        )
    monkeypatch.setenv("PLAIT_BACKEND", "none")
    with Memory.open(tmp_path / "off.db") as memory:
        PlaitStore(memory).put(USERS, "a", {"x": 1})
        assert PlaitStore(memory).get(USERS, "a") is None


def test_a_graph_remembers_between_its_runs(store):
    def node(state: dict[str, Any], *, store: BaseStore) -> dict[str, Any]:
        before = store.get(USERS, "visits")
        count = (before.value["count"] if before else 0) + 1
        store.put(USERS, "visits", {"count": count})
        return {"count": count}

    graph = StateGraph(dict)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    compiled = graph.compile(store=store)
    assert [compiled.invoke({})["count"] for _ in range(3)] == [1, 2, 3]


# -- filters, compared with the framework's own store --------------------------------------

SCALARS = st.sampled_from([None, True, False, 0, 1, 2.5, -3, "a", "b", "", "2"])
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=2)
    ),
    max_leaves=5,
)
RECORDS = st.dictionaries(st.sampled_from("xyz"), JSON, max_size=3)
NUMBERS = st.integers(-2, 2)
CONDITIONS = (
    JSON
    | st.fixed_dictionaries({"$eq": SCALARS})
    | st.fixed_dictionaries({"$ne": SCALARS})
    | st.fixed_dictionaries({"$gte": NUMBERS, "$lt": NUMBERS})
    | st.fixed_dictionaries({"$gt": NUMBERS})
    | st.fixed_dictionaries({"$lte": NUMBERS})
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(value=RECORDS, wanted=st.dictionaries(st.sampled_from("xyz"), CONDITIONS, max_size=2))
def test_filters_select_what_the_frameworks_own_store_selects(value, wanted):
    reference = InMemoryStore()
    reference.put(("n",), "k", json.loads(json.dumps(value)))
    try:
        expected = bool(reference.search(("n",), filter=wanted))
    except (TypeError, ValueError):
        return  # it compares with numbers what is none
    assert matches(value, wanted) == expected


def test_an_unknown_operator_is_refused_and_what_is_no_number_is_not_more():
    with pytest.raises(ValueError, match="Unsupported operator"):
        matches({"a": 1}, {"a": {"$in": [1]}})
    assert not matches({"a": "x"}, {"a": {"$gt": 1}})
    assert not matches({}, {"a": {"$lte": 1}})


# -- time to live ----------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """Moves the clock of the memory by minutes."""
    start, passed = time.time_ns(), [0.0]
    monkeypatch.setattr("time.time_ns", lambda: start + round(passed[0] * 60e9))

    def move(minutes):
        passed[0] += minutes

    return move


def test_an_item_lives_as_long_as_it_was_given(store, hashing_memory, clock):
    assert store.supports_ttl
    store.put(USERS, "code", {"text": "the door code"}, ttl=10)
    store.put(USERS, "name", {"text": "the door name"})
    clock(9)
    assert store.get(USERS, "code", refresh_ttl=False).value == {"text": "the door code"}
    clock(1.1)
    assert store.get(USERS, "code") is None
    assert [item.key for item in store.search(USERS)] == ["name"]
    assert [item.key for item in store.search(USERS, query="door code")] == ["name"]
    assert "code" not in " ".join(hit.text for hit in hashing_memory.search("the door code"))
    store.put(USERS, "code", {"text": "a new code"})
    clock(1000)
    assert store.get(USERS, "code").value == {"text": "a new code"}


@pytest.mark.parametrize("reading", ["get", "list", "query", "async"])
def test_reading_lets_an_item_live_on(store, clock, reading):
    store.put(USERS, "code", {"text": "the door code"}, ttl=10)
    for _ in range(5):
        clock(9)
        if reading == "get":
            assert store.get(USERS, "code") is not None
        elif reading == "async":
            assert asyncio.run(store.aget(USERS, "code")) is not None
        else:
            assert store.search(USERS, query="door code" if reading == "query" else None)
    clock(11.1)
    assert store.get(USERS, "code") is None


def test_reading_without_a_refresh_changes_nothing(store, hashing_memory, clock):
    store.put(USERS, "code", {"text": "the door code"}, ttl=10)
    store.put(USERS, "plain", {"text": "no ttl"})
    before = len(hashing_memory.log())
    clock(5)
    for refresh in (False, True, True, True):
        store.get(USERS, "plain", refresh_ttl=refresh)
        store.get(USERS, "code", refresh_ttl=False)
        store.search(USERS, query="door code", refresh_ttl=False)
    assert len(hashing_memory.log()) == before
    store.get(USERS, "code")
    for _ in range(5):
        clock(0.1)
        store.get(USERS, "code")
    assert len(hashing_memory.log()) == before + 1, "one write for many reads"
    assert hashing_memory.log()[0].verb == "refresh"


def test_the_settings_of_the_store_are_the_defaults(hashing_memory, clock):
    store = PlaitStore(hashing_memory, ttl={"default_ttl": 10, "refresh_on_read": False})
    store.put(USERS, "default", {"a": 1})
    store.put(USERS, "own", {"a": 1}, ttl=100)
    store.put(USERS, "for ever", {"a": 1}, ttl=None)
    store.put(USERS, "now", {"a": 1}, ttl=0)
    assert store.get(USERS, "now") is None
    clock(9)
    assert store.get(USERS, "default") is not None
    clock(2)
    assert {item.key for item in store.search(USERS)} == {"own", "for ever"}
    assert store.get(USERS, "own", refresh_ttl=True) is not None
    clock(99)
    assert {item.key for item in store.search(USERS)} == {"own", "for ever"}


def test_what_has_expired_is_swept_and_nothing_else(store, hashing_memory, clock):
    assert store.sweep_ttl() == 0
    store.put(USERS, "code", {"text": "the door code"}, ttl=10)
    store.put(USERS, "long", {"text": "the long code"}, ttl=1000)
    store.put(USERS, "name", {"text": "the door name"})
    assert store.sweep_ttl() == 0
    clock(11)
    assert store.sweep_ttl() == 1
    assert store.sweep_ttl() == 0
    everything = EVERYTHING._replace(key_prefix="langgraph/")
    assert len(hashing_memory.engine.scan(everything)) == 2
    assert hashing_memory.log()[0].verb == "delete"


def test_a_store_sweeps_when_it_is_used_and_due(hashing_memory, clock):
    store = PlaitStore(hashing_memory, ttl={"default_ttl": 1, "sweep_interval_minutes": 5})
    store.put(USERS, "code", {"a": 1})
    everything = EVERYTHING._replace(key_prefix="langgraph/")
    clock(2)
    assert store.get(USERS, "code") is None
    assert len(hashing_memory.engine.scan(everything)) == 1
    clock(4)
    store.get(USERS, "other")
    assert hashing_memory.engine.scan(everything) == []


def test_each_user_has_items_that_expire(hashing_memory, clock):
    ada, ben = (PlaitStore(hashing_memory.scope(name)) for name in ("ada", "ben"))
    for each in (ada, ben):
        each.put(USERS, "code", {"text": "the door code"}, ttl=10)
    clock(9)
    assert ada.get(USERS, "code") is not None
    clock(9)
    assert (ada.get(USERS, "code") is None, ben.get(USERS, "code") is None) == (False, True)
    assert (ada.sweep_ttl(), ben.sweep_ttl()) == (0, 1)


def test_a_memory_that_is_only_read_prolongs_nothing(hashing_memory, tmp_path, clock):
    store = PlaitStore(hashing_memory)
    store.put(USERS, "code", {"text": "the door code"}, ttl=10)
    settings = hashing_memory.config.settings._replace(read_only=True)
    hashing_memory.config = hashing_memory.config._replace(settings=settings)
    clock(9)
    assert store.get(USERS, "code") is not None
    clock(2)
    assert store.get(USERS, "code") is None
