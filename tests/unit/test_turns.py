"""The places of messages that a process remembers."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import get_ident, main_thread
from typing import Any

import pytest

from plait.stores.sqlite import turns
from plait.stores.sqlite.store import SQLiteStore
from tests.builders import entry, refs_of, write


def say(store: SQLiteStore, key: str, turn: int) -> None:
    row = entry(key, key, kind="message", session="talk", role="user")
    write(store, row._replace(document=row.document._replace(turn=turn)))


def test_what_another_connection_changes_is_read_again(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.db")
    reader, writer = SQLiteStore(path), SQLiteStore(path)
    say(writer, "one", 1)
    refs = refs_of(writer, "one")
    assert [turn.number for turn in reader.turns(refs).values()] == [1]
    with writer.transaction() as tx:
        tx.free_turn("", "talk", 1)
    assert [turn.number for turn in reader.turns(refs).values()] == [2]
    reader.close()
    writer.close()


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MOST_TURNS", 2)
    store = SQLiteStore(":memory:")
    for turn in range(1, 7):
        say(store, f"key {turn}", turn)
    refs = [ref for turn in range(1, 7) for ref in refs_of(store, f"key {turn}")]
    for first in range(5):
        asked = refs[first : first + 2]
        assert [turn.number for turn in store.turns(asked).values()] == [first + 1, first + 2]
        assert len(store._turns._known[1]) <= 4
    store.close()


class Interrupted(turns.KnownTurns):
    """Lets another thread read the same places whenever this one has noted some."""

    def __init__(self, other: Callable[[], object]) -> None:
        self._noted: Any = (None, {})
        self._other = other

    @property
    def _known(self) -> Any:
        return self._noted

    @_known.setter
    def _known(self, noted: Any) -> None:
        self._noted = noted
        if get_ident() == main_thread().ident:
            self._other()


def test_a_thread_does_not_remember_what_the_transaction_of_another_one_reads(
    tmp_path: Path,
) -> None:
    store = SQLiteStore(str(tmp_path / "memory.db"))
    say(store, "one", 1)
    refs = refs_of(store, "one")
    with ThreadPoolExecutor(1) as other:
        read = other.submit
        assert read(store.turns, refs).result()[refs[0]].number == 1
        store._turns = Interrupted(lambda: read(store.turns, [10_000]).result())
        with pytest.raises(ZeroDivisionError), store.transaction() as tx:
            tx.free_turn("", "talk", 1)
            assert store.turns(refs)[refs[0]].number == 2
            raise ZeroDivisionError
        assert read(store.turns, refs).result()[refs[0]].number == 1
        assert store.turns(refs)[refs[0]].number == 1
    store.close()
