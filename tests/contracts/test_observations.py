"""What an engine answers about observations; what that means is decided by `plait.facts`."""

from typing import Any

import pytest

from plait.facts import profiles
from plait.facts.fingerprints import fingerprint
from plait.protocols import Entry, Rivals, Standing, Store
from plait.types import Document
from tests.builders import EVERYTHING, NOW, delete, document, entry, write


def observation(key: str, text: str = "", **fields: Any) -> Entry:
    """An observation; the key only names it in these tests."""
    return entry(key, text or key, kind="observation", **fields)


def rivals(store: Store, text: str, moment: int = NOW, **fields: Any) -> Rivals:
    with store.transaction() as tx:
        new = document(None, text, kind="observation", **fields)
        return tx.rivals(new, fingerprint(text), moment)


def keys(documents: Any) -> list[str | None]:
    return [row.key for row in documents]


def ids(store: Store) -> dict[str, str]:
    return {row.key or "": row.id for row in store.scan(EVERYTHING)}


# rivals


def test_rivals_have_the_same_text_in_the_same_project_and_entity(store: Store) -> None:
    write(
        store,
        observation("same", "likes  tea"),
        observation("other text", "likes coffee"),
        observation("other project", "likes tea", project="p"),
        observation("other entity", "likes tea", parent="ana"),
        entry("a note", "likes tea"),
        observation("over", "likes tea", valid_to=NOW),
        observation("to come", "likes tea", valid_from=NOW + 9),
    )
    assert keys(rivals(store, "likes tea").same_text) == ["same", "to come"]
    assert keys(rivals(store, "likes tea", project="p").same_text) == ["other project"]
    assert keys(rivals(store, "likes tea", parent="ana").same_text) == ["other entity"]
    assert keys(rivals(store, "likes tea", NOW - 1).same_text) == ["same", "over", "to come"]
    assert rivals(store, "likes tea").same_topic == ()


def test_rivals_of_a_topic_are_all_that_have_not_ended(store: Store) -> None:
    write(
        store,
        observation("old", topic="home", valid_to=NOW - 5),
        observation("current", topic="home", valid_from=NOW - 5),
        observation("planned", topic="home", valid_from=NOW + 5),
        observation("other topic", topic="work"),
        observation("other project", topic="home", project="p"),
    )
    answer = rivals(store, "new", topic="home")
    assert (keys(answer.same_topic), answer.topic_is_new) == (["current", "planned"], False)
    assert keys(rivals(store, "new", NOW - 9, topic="home").same_topic) == [
        "old",
        "current",
        "planned",
    ]


def test_a_topic_is_new_only_if_nothing_was_ever_written_about_it(store: Store) -> None:
    assert rivals(store, "x", topic="home").topic_is_new
    write(store, observation("old", topic="home", valid_to=5))
    over = rivals(store, "x", topic="home")
    assert (keys(over.same_topic), over.topic_is_new) == ([], False)
    assert rivals(store, "x", topic="work").topic_is_new
    assert rivals(store, "x", topic="home", parent="ana").topic_is_new


def test_a_document_is_not_its_own_rival(store: Store) -> None:
    [done] = write(store, observation("a", "likes tea", topic="drink"))
    answer = rivals(store, "likes tea", id=done.id, topic="drink")
    assert (answer.same_text, answer.same_topic) == ([], [])


# members, current_observations, openings


def test_members_belong_to_real_entities_and_come_as_first_written(store: Store) -> None:
    [ana, bo, note] = write(
        store,
        entry("Ana", "Ana", kind="entity"),
        entry("Bo", "Bo", kind="entity"),
        entry("note", "x"),
    )
    for key, parent in (("b", bo.id), ("a", ana.id), ("n", note.id), ("c", ana.id)):
        write(store, observation(key, parent=parent))
    named = ids(store)
    with store.transaction() as tx:
        assert tx.members([ana.id]) == [named["a"], named["c"]]
        assert tx.members([ana.id, bo.id]) == [named["b"], named["a"], named["c"]]
        assert tx.members([note.id]) == tx.members([]) == []


def test_the_current_observations_of_an_entity_have_the_trust_asked_for(store: Store) -> None:
    write(
        store,
        observation("usual", parent="ana", event_at=5),
        observation("later", parent="ana", event_at=6),
        observation("later still", parent="ana", event_at=6),
        observation("unimportant", parent="ana", importance=0.1, event_at=9),
        observation("important", parent="ana", importance=0.9, event_at=1),
        observation("pinned", parent="ana", importance=0.0, pinned=True, event_at=0),
        observation("over", parent="ana", valid_to=NOW),
        observation("to come", parent="ana", valid_from=NOW + 1),
        observation("untrusted", parent="ana", trust="untrusted"),
        observation("of Bo", parent="bo"),
        entry("a note", "x", parent="ana"),
    )
    named = ids(store)
    with store.transaction() as tx:
        current = tx.current_observations("ana", "trusted", NOW)
        assert current == [
            Standing(named["usual"], event_at=5),
            Standing(named["later"], event_at=6),
            Standing(named["later still"], event_at=6),
            Standing(named["unimportant"], importance=0.1, event_at=9),
            Standing(named["important"], importance=0.9, event_at=1),
            Standing(named["pinned"], pinned=True, importance=0.0, event_at=0),
        ]
        before = tx.current_observations("ana", "trusted", NOW - 1)
        assert named["over"] in [standing.id for standing in before]
        [doubtful] = tx.current_observations("ana", "untrusted", NOW)
        assert doubtful.id == named["untrusted"]
        assert tx.current_observations("nobody", "trusted", NOW) == []
        chosen = profiles.prominent(current)
        assert tx.openings(chosen) == [
            *("pinned", "important", "later still", "later", "usual", "unimportant")
        ]
        assert tx.openings(["absent", named["over"]]) == ["over"]


# entities_changed, next_change


def test_changes_are_listed_after_one_moment_up_to_another(store: Store) -> None:
    write(
        store,
        observation("a", parent="ana", valid_from=10),
        observation("b", parent="bo", valid_to=20),
        observation("c", parent="cy", valid_from=20, valid_to=30),
        observation("d", valid_from=20),
    )
    with store.transaction() as tx:
        assert sorted(tx.entities_changed(0, 10)) == ["ana"]
        assert sorted(tx.entities_changed(10, 20)) == ["bo", "cy"]
        assert tx.entities_changed(30, 99) == []
        assert [tx.next_change(moment) for moment in (0, 10, 19, 20, 30)] == [10, 20, 20, 30, None]


# successors


@pytest.fixture
def versions(store: Store) -> dict[str, str]:
    write(
        store,
        observation("first", topic="home", valid_to=10),
        observation("second", topic="home", valid_from=10, valid_to=20),
        observation("third", topic="home", valid_from=20),
        observation("elsewhere", topic="home", project="p", valid_from=10),
        observation("plain", valid_to=7),
        observation("ended", topic="work", valid_to=7),
    )
    named = ids(store)
    write(store, observation("by name", supersedes=named["plain"], valid_from=7))
    return named | ids(store)


def test_what_replaced_a_document_is_known_by_name_or_by_topic(
    store: Store, versions: dict[str, str]
) -> None:
    expected = {
        versions["first"]: versions["second"],
        versions["second"]: versions["third"],
        versions["plain"]: versions["by name"],
    }
    wanted = [*versions.values(), "unknown"]
    assert store.successors(wanted) == expected
    with store.transaction() as tx:
        assert tx.successors(wanted) == expected


def test_the_latest_successor_counts(store: Store, versions: dict[str, str]) -> None:
    write(store, observation("named later", supersedes=versions["first"], valid_from=30))
    assert store.successors([versions["first"]]) == {versions["first"]: ids(store)["named later"]}
    delete(store, "named later")
    assert store.successors([versions["first"]]) == {versions["first"]: versions["second"]}


def test_documents_in_a_transaction_have_no_text_until_loaded(store: Store) -> None:
    write(store, observation("a", "likes tea"))
    answer = rivals(store, "likes tea").same_text
    assert [type(row) for row in answer] == [Document]
    assert [row.text for row in answer] == [""]
