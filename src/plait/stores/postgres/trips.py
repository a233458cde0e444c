"""Trips to the server: what is not needed at once goes with the next one."""

from collections.abc import Callable, Mapping
from typing import Any

from plait.stores.postgres.connection import Connections, SQLRow, SQLStatement

RowLists = list[list[SQLRow]]


class Trips:
    """Sends statements of one question, and counts how often it waits for the answers."""

    def __init__(self, connections: Connections) -> None:
        self.trips = 0
        self._connections = connections
        # What goes with the next trip, and who takes the answers.
        self._waiting: list[tuple[list[SQLStatement], Callable[[RowLists], None]]] = []

    def _soon(self, statements: list[SQLStatement], take: Callable[[RowLists], None]) -> None:
        self._waiting.append((statements, take))

    def _together(
        self, *statements: SQLStatement, unlimited: int = 0, deadline: float | None = None
    ) -> RowLists:
        waiting, self._waiting = self._waiting, []
        others = [statement for own, _ in waiting for statement in own]

        def read(session: Any) -> RowLists:
            session.deadline = deadline
            listed: RowLists = session.together(
                *others, *statements, unlimited=len(others) + unlimited
            )
            return listed

        self.trips += 1
        answers = self._connections.read(read)
        for own, take in waiting:
            take(answers[: len(own)])
            del answers[: len(own)]
        return answers

    def rows(self, sql: str, values: Mapping[str, Any] | None = None) -> list[SQLRow]:
        """Return the rows of one statement."""
        return self._together((sql, values or {}))[0]
