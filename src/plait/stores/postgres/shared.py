"""What a store in PostgreSQL tells of who sees which document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plait.stores.postgres.connection import Connections
    from plait.types import Document
    from plait.types.visibility import Visibility


class SharedStore:
    """A store whose documents not all members see."""

    _connections: Connections

    def load(self, ids: Sequence[str]) -> list[Document]:
        """Read documents whole."""
        raise NotImplementedError

    def visibilities(self, ids: Sequence[str]) -> dict[str, Visibility]:
        """Return who sees documents, by their ids."""
        from plait.stores.postgres import sharing

        return self._connections.read(lambda session: sharing.visibilities(session, ids))

    def hidden(self, limit: int) -> tuple[list[Document], bool]:
        """Return the latest documents that not all see, and whether these are all of them.

        ``limit`` is how many passages they may have.
        """
        from plait.stores.postgres import sharing

        rows = self._connections.read(lambda session: sharing.hidden(session, limit + 1))
        ids: list[str] = []
        for id_, passages in rows:
            if limit <= 0:
                break
            ids.append(id_)
            limit -= max(1, passages)
        return self.load(ids) if ids else [], len(ids) == len(rows)

    def private_of_others(self, ids: Sequence[str]) -> set[str]:
        """Return those of documents that are private of another member."""
        from plait.stores.postgres import sharing

        return self._connections.read(lambda session: sharing.private_of_others(session, ids))
