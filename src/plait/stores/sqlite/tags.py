"""The list of tags as a whole: compare it with the documents, and make it again.

Triggers keep it (`plait.stores.sqlite.filters.TAG_TRIGGERS`), and writers list new documents;
repairs of single rows do neither. Loaded only to check, repair and copy whole memories.
"""

from collections.abc import Callable

import apsw

from plait.errors import advise
from plait.stores.sqlite.connection import Connections
from plait.stores.sqlite.filters import LIST_TAGS
from plait.stores.sqlite.write_lock import WriteLock
from plait.types.reports import Finding

TAG_TABLE = "document_tags"
_LISTED = LIST_TAGS[LIST_TAGS.index("SELECT") : LIST_TAGS.index(" ORDER BY")]
_DIFFERS = (
    f"SELECT EXISTS ({_LISTED} EXCEPT SELECT tag, document FROM {TAG_TABLE}) "  # noqa: S608
    f"OR EXISTS (SELECT tag, document FROM {TAG_TABLE} EXCEPT {_LISTED})"
)


def list_again(connection: apsw.Connection) -> None:
    """Make the list from the documents, in the caller's transaction."""
    connection.execute(f"DELETE FROM {TAG_TABLE}")  # noqa: S608
    connection.execute(LIST_TAGS)


def check(
    connections: Connections, misplaced: Callable[[], str | None], *, fix: bool
) -> Finding | None:
    """Check that filters by tag select the documents that have the tag.

    Return ``None``, and repair nothing, if rows of another table may lie in this one.
    """
    connection = connections.get()
    if not connection.execute(_DIFFERS).get:
        return Finding("tags", "ok", "the list of tags matches the documents")
    if not fix:
        text = "The list of tags does not match the documents."
        return Finding("tags", "error", text, advice=advise("doctor_fix"))
    if misplaced() is not None:
        return None
    with WriteLock(connections) as connection:
        list_again(connection)
    return Finding("tags", "ok", "the list of tags was made again", fixed=True)
