"""Messages: each is a turn of its session, whatever is stored between them."""

import pytest

from plait.errors import StoreError
from plait.protocols import Store
from plait.types import Document, Filter
from plait.types.queries import Turn
from tests.builders import delete, entry, passages_of, refs_of, write


def say(store: Store, key: str, *texts: str, session: str = "talk", project: str = "") -> None:
    """Write a message as the next turn of its session."""
    row = entry(key, *texts, kind="message", session=session, project=project, role="user")
    with store.transaction() as tx:
        turn = tx.next_turn(project, session)
        document = row.document._replace(id=f"{key.replace(' ', 'm'):m>13}", turn=turn)
        tx.write(row._replace(document=document))


def turn_of(store: Store, key: str) -> Turn:
    [ref] = refs_of(store, key)
    return store.turns([ref])[ref]


def test_interleaved_sessions_number_their_own_turns(store: Store) -> None:
    for number in range(3):
        for session in "abc":
            say(store, f"{session}{number}", "hello", session=session)
            write(store, entry(f"note {session}{number}", "between"))
    turns = {key: turn_of(store, key) for key in ("a0", "a1", "a2", "b1", "c1")}
    assert [turn.number for turn in turns.values()] == [1, 2, 3, 2, 2]
    assert len({turn.session for turn in turns.values()}) == 3
    assert turns["a0"][0] == turns["a1"][0] == turns["a2"][0]
    assert store.state().has_messages


def test_one_name_in_two_projects_is_two_sessions(store: Store) -> None:
    say(store, "mine", "hello", project="p")
    say(store, "yours", "hello", project="q")
    say(store, "again", "hello", project="p")
    mine, yours, again = (turn_of(store, key) for key in ("mine", "yours", "again"))
    assert (mine[1], yours[1], again[1]) == (1, 1, 2)
    assert mine[0] == again[0] != yours[0]


@pytest.mark.parametrize(("wanted", "turn"), [(None, 3), (0, 0), (1, 3), (7, 7)])
def test_a_turn_gets_the_number_it_wants_if_that_is_free(
    store: Store, wanted: int | None, turn: int
) -> None:
    say(store, "one", "hello")
    say(store, "two", "bye")
    with store.transaction() as tx:
        assert tx.next_turn("", "talk", wanted) == turn


@pytest.mark.parametrize(("freed", "turns"), [(2, [1, 3, 4]), (1, [2, 3, 4]), (9, [1, 2, 3])])
def test_a_turn_is_freed_by_moving_later_ones(store: Store, freed: int, turns: list[int]) -> None:
    for key in ("one", "two", "three"):
        say(store, key, key)
        say(store, f"other {key}", key, session="other")
    with store.transaction() as tx:
        tx.free_turn("", "talk", freed)
    assert [turn_of(store, key)[1] for key in ("one", "two", "three")] == turns
    assert [turn_of(store, f"other {key}")[1] for key in ("one", "two", "three")] == [1, 2, 3]


def test_only_whole_messages_of_a_session_are_turns(store: Store) -> None:
    say(store, "one", "hello")
    say(store, "two", "long ", "message")
    say(store, "three", "bye")
    write(
        store,
        entry("no session", "x", kind="message"),
        entry("a note", "x", session="talk"),
    )
    refs = {
        key: passages_of(store, key)[0].ref
        for key in ("one", "two", "three", "no session", "a note")
    }
    turns = store.turns([*refs.values(), 10_000])
    assert {ref: turn.number for ref, turn in turns.items()} == {refs["one"]: 1, refs["three"]: 3}
    assert store.turns([]) == {}


def test_a_turn_tells_whether_it_asks(store: Store) -> None:
    say(store, "question", "Where did you put the key, the small one?")
    say(store, "answer", "In the blue box.")
    assert [turn_of(store, key).asks for key in ("question", "answer")] == [True, False]


def test_the_next_turn_follows_the_last_one_that_is_left(store: Store) -> None:
    for key in ("a", "b", "c"):
        say(store, key, "hello")
    delete(store, "b")
    say(store, "d", "hello")
    assert [turn_of(store, key)[1] for key in ("a", "c", "d")] == [1, 3, 4]
    with store.transaction() as tx:
        assert tx.next_turn("", "talk") == 5
        assert tx.next_turn(None, "talk") == 5
        assert tx.next_turn("p", "talk") == 1


def test_two_messages_cannot_be_the_same_turn(store: Store) -> None:
    say(store, "a", "hello")
    again = entry("b", "hello", kind="message", session="talk", turn=1)
    with pytest.raises(StoreError):
        write(store, again)
    assert [row.key for row in store.scan(Filter(session="talk"))] == ["a"]


def test_a_message_written_again_keeps_its_turn(store: Store) -> None:
    say(store, "a", "hello")
    known: Document | None = store.known([entry("a", "x").document])[0]
    assert known is not None
    write(store, entry("a", "good evening", kind="message", session="talk", turn=known.turn))
    assert turn_of(store, "a")[1] == 1


def test_a_memory_without_messages_says_so(store: Store) -> None:
    write(store, entry("a", "x"), entry("b", "y", kind="message"))
    assert not store.state().has_messages


def test_a_session_is_scanned_in_its_order_both_ways(store: Store) -> None:
    write(store, entry("fact", "x", session="talk", event_at=1))
    for key in ("c", "a", "b"):
        say(store, key, key)
        say(store, f"other {key}", key, session="other")
    where = Filter(session="talk")
    rows = store.scan(where, by_turn=True)
    assert [row.key for row in rows] == ["c", "a", "b", "fact"]
    assert [row.place for row in rows] == sorted(row.place for row in rows)
    assert store.scan(where, by_turn=True, limit=2) == rows[:2]
    assert store.scan(where, by_turn=True, after=rows[0].place) == rows[1:]
    assert store.scan(where, by_turn=True, before=rows[3].place) == rows[2::-1]
    assert store.scan(where, by_turn=True, before=rows[3].place, limit=1) == [rows[2]]
    assert [row.text for row in store.scan(where, by_turn=True, whole=True)] == ["c", "a", "b", "x"]


def test_the_last_turn_has_the_time_that_counts(store: Store) -> None:
    def last(project: str | None, session: str = "talk") -> int | None:
        with store.transaction() as tx:
            return tx.last_event(project, session)

    assert last(None) is None
    for turn, moment, project in ((1, 500, None), (2, 300, None), (1, 900, "p")):
        row = entry(None, "yes", kind="message", session="talk", turn=turn, event_at=moment)
        write(store, row._replace(document=row.document._replace(project=project)))
    assert (last(None), last("p"), last("q"), last(None, "other")) == (300, 900, None, None)


def test_places_that_were_read_before_follow_every_change(store: Store) -> None:
    for key in ("one", "two"):
        say(store, key, key)
    [first], [second] = refs_of(store, "one"), refs_of(store, "two")

    def numbers() -> tuple[int, ...]:
        turns = store.turns([second, first])
        return tuple(turns[ref].number for ref in (first, second) if ref in turns)

    assert numbers() == numbers() == (1, 2)
    with pytest.raises(StoreError), store.transaction() as tx:
        tx.free_turn("", "talk", 1)
        numbers()
        raise StoreError("rolled back")
    assert numbers() == (1, 2)
    with store.transaction() as tx:
        tx.free_turn("", "talk", 1)
    assert numbers() == (2, 3)
    delete(store, "one")
    assert numbers() == (3,)


def test_the_reply_to_a_message_is_the_next_whole_one_that_passes(store: Store) -> None:
    for session in ("talk", "other"):
        say(store, f"{session} one", "Where is the key?", session=session)
        say(store, f"{session} two", "Which of them?", session=session)
        say(store, f"{session} three", "In the ", "blue box.", session=session)
        say(store, f"{session} four", "Thanks.", session=session)
    say(store, "yours", "Not here.", project="p")
    refs = {
        f"{session} {key}": passages_of(store, f"{session} {key}")[0].ref
        for session in ("talk", "other")
        for key in ("one", "two", "four")
    }
    replies = store.replies([*refs.values(), 10_000], Filter())
    assert {ref: list(rows) for ref, rows in replies.items() if rows} == {
        refs[f"{session} one"]: [(ref, store.turns([ref])[ref])]
        for session in ("talk", "other")
        for ref in [refs[f"{session} two"]]
    }
    assert not any(store.replies([*refs.values()], Filter(projects=("p",))).values())
    assert not any(store.replies([*refs.values()], Filter(trusts=("untrusted",))).values())
    assert not store.replies([], Filter())
