"""Several processes append to one session: every turn is one message's, and none is lost."""

from pathlib import Path

from tests.reliability import append_child, memories
from tests.reliability.processes import Child, children, posix_only

pytestmark = posix_only

WRITERS = 2
MESSAGES = 30
SPARED = 4  # messages that the killed writer may store first


def talk(path: Path, *, kill: bool) -> tuple[list[list[str]], list[tuple[int | None, str]]]:
    """Let writers append; return what each was told is stored, and the session."""
    writers = [Child(append_child.append, path, n, MESSAGES) for n in range(WRITERS)]
    with children(*writers):
        for child in writers:
            child.expect("ready")
        for child in writers:
            child.tell("go")
        if kill:
            writers[0].listen_until("stored", SPARED)
            writers[0].kill()
        for child in writers:
            if not child.ended:
                child.finish()
            assert child.errors() == []
    told = [
        [text for message in child.messages if message[0] == "stored" for text in message[1]]
        for child in writers
    ]
    with memories.open_memory(path) as memory:
        assert {row.level for row in memory.doctor()} == {"ok"}
        return told, [(row.turn, row.text) for row in memory.conversation("talk")]


def test_turns_are_unique_and_none_is_lost(tmp_path: Path) -> None:
    told, session = talk(tmp_path / "memory.db", kill=False)
    assert [turn for turn, _ in session] == list(range(1, WRITERS * MESSAGES + 1))
    for number in range(WRITERS):
        mine = [text for _, text in session if text.startswith(f"writer {number} ")]
        assert mine == told[number], "in the order in which it was said"
        assert len(mine) == MESSAGES
    assert_pairs_are_whole(session)


def test_a_killed_writer_loses_nothing_that_was_stored(tmp_path: Path) -> None:
    told, session = talk(tmp_path / "memory.db", kill=True)
    assert [turn for turn, _ in session] == list(range(1, len(session) + 1))
    of_killed, of_other = (
        [text for _, text in session if text.startswith(f"writer {number} ")]
        for number in range(WRITERS)
    )
    assert of_killed[: len(told[0])] == told[0]
    assert len(told[0]) >= SPARED
    assert of_other == told[1]
    assert len(of_other) == MESSAGES
    assert_pairs_are_whole(session)


def assert_pairs_are_whole(session: list[tuple[int | None, str]]) -> None:
    """Two messages that were added together are there together, one after the other."""
    texts = [text for _, text in session]
    for place, text in enumerate(texts):
        writer, number = text.split()[1], int(text.split()[3])
        if number % 3 == 1:
            assert texts[place + 1] == f"writer {writer} message {number + 1}"
