"""What the filter of a question names, looked up with its first trip: entities, a session."""

from collections.abc import Callable
from functools import partial
from typing import Any

from plait.stores.postgres import documents, histories
from plait.stores.postgres.connection import Connections
from plait.stores.postgres.filters import Conditions
from plait.stores.postgres.trips import RowLists, Trips
from plait.types import Document, Filter


class LookedUp(Trips):
    """The reads of one question that are about its filter."""

    def __init__(self, connections: Connections, where: Callable[..., Conditions]) -> None:
        super().__init__(connections)
        self._where = where
        self._known: dict[object, Any] = {}

    def scan(self, where: Filter) -> list[Document]:
        """Return `Store.scan` in the order of writing, read with what was expected."""
        [rows] = self._together(documents.as_written(self._where(where)))
        return [document for document, _ in map(documents.beginning, rows)]

    def expect_session(self, own: Filter, begun: Filter) -> None:
        """Read with the next trip what `session` of these asks for."""
        key = ("session", own, begun)
        if key not in self._known:
            label = self._connections.membership.personal
            chosen = self._where(begun._replace(session=None))
            begun_ones = histories.sessions(begun.session or "", label, chosen)
            asked = [documents.any_of(self._where(own)), begun_ones]
            self._soon(asked, partial(self._take_session, key))

    def _take_session(self, key: object, answers: RowLists) -> None:
        own, begun = answers
        self._known[key] = bool(own), dict(begun)

    def session(self, own: Filter, begun: Filter) -> tuple[bool, dict[str, bool]]:
        """Return whether any document passes a filter, and the imported sessions that begin so.

        Each with whether any document of it passes the other filter.
        """
        key = ("session", own, begun)
        if key not in self._known:
            self.expect_session(own, begun)
            self._together()
        session: tuple[bool, dict[str, bool]] = self._known[key]
        return session
