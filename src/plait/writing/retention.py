"""Which documents have outlived the setting ``keep_days``; deleting them belongs in `deleting`."""

from collections.abc import Mapping

from plait.protocols import Store
from plait.times import DAY_MS
from plait.types import KINDS, Document, Filter, check_choice


def outlived(
    store: Store, where: Filter, keep_days: Mapping[str, float], now: int
) -> dict[str, Document]:
    """Return documents by id whose kind is to be kept for fewer days than they are old.

    A document is as old as the latest of what is known of it: when it happened, was stored and was
    changed. Pinned ones, files and entities never get too old.
    """
    doomed: dict[str, Document] = {}
    for name, days in keep_days.items():
        limit = now - round(days * DAY_MS)
        kind = check_choice("keep_days", name, KINDS)
        wanted = where._replace(kinds=(kind,), until=limit)
        doomed |= {
            row.id: row
            for row in store.scan(wanted)
            if not row.pinned and max(row.created_at, row.updated_at) < limit
        }
    return doomed
