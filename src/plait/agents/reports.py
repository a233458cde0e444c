"""What an import of agents' histories did: for the command line, and for programs."""

from collections.abc import Mapping

from plait.errors import Notice
from plait.types.records import NamedTuple


class HistoryReport(NamedTuple):
    """What an import did, or would do.

    ``by_month`` counts new messages by project and month; ``skipped`` what was left out, by reason.
    ``days_left`` is how soon an agent deletes the first of the files, if one does, and
    ``days_left_of`` which. ``unreadable`` has the files that could not be read this time, each with
    the cause.
    """

    run: str = ""
    sources: int = 0
    read: int = 0
    sessions: int = 0
    messages: int = 0
    replaced: int = 0
    unchanged: int = 0
    masked: int = 0
    vectors: int = 0
    by_month: Mapping[tuple[str | None, str], int] = {}
    skipped: Mapping[str, int] = {}
    agents: Mapping[str, int] = {}
    days_left: int | None = None
    days_left_of: str | None = None
    interrupted: bool = False
    dry_run: bool = False
    trouble: Notice | None = None
    unreadable: Mapping[str, str] = {}
