"""The places of messages in conversations. Loaded only for a memory that has some."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import apsw

from plait.stores.sqlite.connection import rows
from plait.stores.sqlite.documents import DOCUMENT_COLUMNS, FIELDS, check_document
from plait.stores.sqlite.filters import Clause, joined
from plait.stores.sqlite.state import data_version, may_remember
from plait.types import Ref
from plait.types.queries import LAST_CHARS, Turn

MOST_TURNS = 16_384  # that are remembered, 0.2 KB each
# A message cut into several passages is a text rather than a turn of a conversation.
_TURNS = (
    f"SELECT p.rowid, d.project, d.session, d.turn, substr(p.text, -{LAST_CHARS}) "  # noqa: S608
    "FROM passages AS p "
    "JOIN documents AS d ON d.rowid = p.document "
    "WHERE p.rowid IN (SELECT value FROM json_each(?)) "
    "AND d.turn IS NOT NULL AND d.kind = 'message' AND d.chunk_count = 1"
)
# CROSS, because an order that SQLite chooses itself may begin with all messages.
_REPLIES = (
    f"SELECT asking.rowid, p.rowid, substr(p.text, -{LAST_CHARS}), "  # noqa: S608
    f"{DOCUMENT_COLUMNS} FROM json_each(?) AS wanted "
    "CROSS JOIN passages AS asking ON asking.rowid = wanted.value "
    "CROSS JOIN documents AS q ON q.rowid = asking.document "
    "CROSS JOIN documents AS d ON d.project = q.project AND d.session = q.session "
    "AND d.turn = q.turn + 1 "
    "CROSS JOIN passages AS p ON p.document = d.rowid AND p.ordinal = 0 "
    "WHERE d.chunk_count = 1 AND "
)


class KnownTurns:
    """Reads the places of messages, and remembers them until the file changes."""

    _known: tuple[object, dict[Ref, Turn | None]] = (None, {})

    def of(self, connection: apsw.Connection, refs: Sequence[Ref]) -> dict[Ref, Turn]:
        """Return the places of those that are whole messages; each project has its sessions."""
        if not may_remember(connection):
            return _read(connection, refs, {})
        version, (latest, known) = data_version(connection), self._known
        if version != latest or len(known) > MOST_TURNS:
            # Another thread may set its own meanwhile: never use what is in the attribute by then.
            known = {}
            self._known = version, known
        return _read(connection, refs, known)

    def replies(
        self, connection: apsw.Connection, asked: Sequence[Ref], conditions: list[Clause]
    ) -> dict[Ref, list[tuple[Ref, Turn]]]:
        """Return the whole messages that come right after these, if they meet the conditions.

        One that is damaged is left out: `get` and `doctor` tell.
        """
        sql, values = joined(conditions)
        listed = rows(connection, _REPLIES + sql, (json.dumps(list(asked)), *values))
        replies: dict[Ref, list[tuple[Ref, Turn]]] = {}
        for asking, ref, end, *values in listed:
            with suppress(apsw.CorruptError):
                check_document(values)
                place: dict[str, Any] = dict(zip(FIELDS, values, strict=True))
                session = f"{place['project']}\0{place['session']}"
                if isinstance(end, str):
                    replies[asking] = [(ref, Turn.of(session, place["turn"], end))]
        return replies


def _read(
    connection: apsw.Connection, refs: Sequence[Ref], known: dict[Ref, Turn | None]
) -> dict[Ref, Turn]:
    """Return the places of some messages, and note those that were not known."""
    if missing := [ref for ref in refs if ref not in known]:
        listed = rows(connection, _TURNS, (json.dumps(missing),))
        known |= dict.fromkeys(missing) | {
            ref: Turn.of(f"{project}\0{session}", turn, str(end))
            for ref, project, session, turn, end in listed
            if isinstance(turn, int)
        }
    return {ref: turn for ref in sorted(refs) if (turn := known[ref])}
