"""Items of the LangGraph store that others wrote, and times to live that no clock has."""

import pytest

pytest.importorskip("langgraph.store.base", reason="langgraph is not installed")

from plait.tools.adapters.langgraph import PlaitStore, key_of
from plait.types import EVERYTHING, Document

USERS = ("users", "ada")
ITEM = {
    "langgraph_namespace": '["users", "ada"]',
    "langgraph_key": '"odd"',
    "langgraph_value": "{}",
}


@pytest.fixture
def store(hashing_memory):
    return PlaitStore(hashing_memory)


@pytest.mark.parametrize("ttl", [float("inf"), 1e300, 10**400, 1e12])
def test_an_item_that_outlives_the_calendar_is_kept(store, ttl):
    store.put(USERS, "code", {"text": "the door code"}, ttl=ttl)
    assert store.get(USERS, "code").value == {"text": "the door code"}
    assert store.sweep_ttl() == 0


@pytest.mark.parametrize("ttl", [0, -1, -1e300, float("-inf")])
def test_an_item_without_any_time_to_live_has_expired(store, ttl):
    store.put(USERS, "code", {"text": "the door code"}, ttl=ttl)
    assert store.get(USERS, "code") is None
    assert store.sweep_ttl() == 1


def test_a_long_life_that_is_prolonged_stays_within_the_calendar(store, hashing_memory):
    store.put(USERS, "code", {"text": "the door code"}, ttl=4_000_000_000)
    for _ in range(2):
        assert store.get(USERS, "code") is not None
    assert len("\n".join(hashing_memory.export()).splitlines()) == 2


def test_a_time_to_live_that_is_no_number_is_refused(store, hashing_memory):
    with pytest.raises(ValueError, match="ttl is nan"):
        store.put(USERS, "code", {"text": "the door code"}, ttl=float("nan"))
    assert hashing_memory.engine.scan(EVERYTHING) == []


@pytest.mark.parametrize(
    "metadata",
    [
        {"langgraph_value": "{}"},
        {**ITEM, "langgraph_value": "[not json"},
        {**ITEM, "langgraph_value": "[" * 100_000},
        {**ITEM, "langgraph_value": "3"},
        {**ITEM, "langgraph_key": "{}"},
        {**ITEM, "langgraph_namespace": "7"},
        {**ITEM, "langgraph_namespace": '[["users"]]'},
        {**ITEM, "langgraph_namespace": '"uv"'},
        {**ITEM, "langgraph_namespace": '{"users": 1}'},
        {**ITEM, "langgraph_ttl": "soon"},
        {**ITEM, "langgraph_ttl": "nan"},
        {**ITEM, "langgraph_ttl": "1e305"},
        {**ITEM, "langgraph_ttl": "2.9e303"},
    ],
)
def test_a_note_that_only_looks_like_an_item_hides_no_other(store, hashing_memory, metadata):
    store.put(USERS, "code", {"text": "the door code"})
    odd = Document(key=key_of(USERS, "odd"), text="the door code", metadata=metadata)
    hashing_memory.store_many([odd])
    assert store.get(USERS, "odd") is None
    for query in (None, "door code"):
        assert [item.key for item in store.search(USERS, query=query)] == ["code"]
    assert store.search(USERS, filter={"text": "the door code"})
    assert store.list_namespaces() == [USERS]
    assert store.sweep_ttl() == 0


@pytest.mark.parametrize("trust", ["untrusted", "trusted"])
@pytest.mark.parametrize("first", ["item", "file"])
def test_a_file_with_the_name_of_an_item_leaves_it_alone(hashing_memory, tmp_path, trust, first):
    """A repository may hold such a file, by chance or on purpose."""
    store = PlaitStore(hashing_memory, trust=trust)
    file = tmp_path / f"{key_of(USERS, 'prefs.md')}"
    file.parent.mkdir(parents=True)
    file.write_text("Coffee in a repository.", "utf-8")
    if first == "file":
        hashing_memory.ingest(tmp_path)
    store.put(USERS, "prefs.md", {"text": "tea"})
    for _ in range(2):
        hashing_memory.ingest(tmp_path)
        assert store.get(USERS, "prefs.md").value == {"text": "tea"}
        assert [item.value for item in store.search(USERS)] == [{"text": "tea"}]
        files = [row for row in hashing_memory.engine.scan(EVERYTHING) if row.kind == "file"]
        assert len(files) == 1
    file.unlink()
    hashing_memory.ingest(tmp_path)
    assert store.get(USERS, "prefs.md").value == {"text": "tea"}
