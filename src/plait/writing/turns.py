"""The place of a message in its session, decided inside the transaction that writes it."""

from typing import Any

from plait.facts.versions import CLOCKS_DIFFER_MS
from plait.protocols import Transaction
from plait.types import Document

# A session, with the project that it belongs to.
_Home = tuple[str | None, str]


class Turns:
    """Numbers and dates the messages of one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        # The last turn of each session that a message without a number was added to.
        self._last_turns: dict[_Home, int] = {}
        # Sessions in which a message could not have the number it asked for.
        self._appended: set[_Home] = set()
        self._last_times: dict[_Home, int] = {}

    def placed(self, document: Document, old: Document | None, *, undated: bool) -> Document:
        """Return a document with its place."""
        return document._replace(**self.place_of(document, old, undated=undated))

    def place_of(
        self, document: Document, old: Document | None, *, undated: bool
    ) -> dict[str, Any]:
        """Return the turn of a document; of a new message without a time, that too.

        Messages are said one after another. With one time for several, or with times that overlap
        those of the messages before, a timeline would shuffle them.
        """
        if document.kind != "message" or document.session is None:
            return {} if document.turn is None else {"turn": None}
        home = (document.project, document.session)
        turn = self._number(document, old, home)
        if undated and old is None:
            return {"turn": turn, "event_at": self._next_time(home)}
        return {"turn": turn}

    def _number(self, document: Document, old: Document | None, home: _Home) -> int:
        """Number a message within its session: as before, as it asks, or after the last one."""
        if old is not None and old.turn is not None and (old.project, old.session) == home:
            return old.turn
        last, wanted = self._last_turns.get(home), document.turn
        if last is not None and (wanted is None or home in self._appended):
            turn = max(last + 1, wanted or 0)  # without a query for each message of a batch
        else:
            turn = self._transaction.next_turn(*home, wanted)
            if wanted not in (None, turn):
                # Another conversation has this name: the rest of this one follows it, in order.
                self._appended.add(home)
        if wanted is None or last is not None or home in self._appended:
            self._last_turns[home] = turn if last is None else max(last, turn)
        return turn

    def _next_time(self, home: _Home) -> int:
        """Return a moment after that of the last message, unless its time is far ahead."""
        now = self._transaction.now
        last = self._last_times.get(home)
        if last is None:
            last = self._transaction.last_event(*home)
        behind = last is not None and now <= last <= now + CLOCKS_DIFFER_MS
        self._last_times[home] = last + 1 if last is not None and behind else now
        return self._last_times[home]
