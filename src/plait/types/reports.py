"""Results of the verbs that change or check a memory. A search does not load these."""

from typing import Literal, NamedTuple

from plait.errors import Advice, Notice, PlaitError
from plait.types import Space


class Near(NamedTuple):
    """A stored observation that is a near duplicate of a new one."""

    id: str
    similarity: float
    snippet: str = ""
    reason: str = ""
    differences: tuple[str, ...] = ()


class Stored(NamedTuple):
    """What ``store`` did.

    ``matched`` is the stored duplicate, ``superseded`` what this text ended, ``beside`` the
    trusted texts that it contradicts and may not end, ``near`` the near duplicates.
    ``recalled``: the text came from this memory, so nothing was written; ``shortened``: a
    part of it did, and was left out. ``trouble`` is why vectors are missing; the text is stored.
    """

    id: str
    doc_id: str
    chunks: int
    duplicate: bool = False
    replaced: bool = False
    pending: int = 0
    matched: str | None = None
    superseded: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    near: tuple[Near, ...] = ()
    recalled: bool = False
    entity: str | None = None
    shortened: bool = False
    trouble: Notice | None = None


class NewEntity(NamedTuple):
    """An entity to create; without a type, an existing one keeps its own."""

    name: str
    type: str | None = None
    observations: tuple[str, ...] = ()


class Imported(NamedTuple):
    """What ``import`` did; ``kept`` counts documents that were as new or newer in the memory.

    ``unknown`` names the fields of another program's file that were left out.
    """

    added: int = 0
    replaced: int = 0
    kept: int = 0
    relations: int = 0
    unknown: tuple[str, ...] = ()
    trouble: Notice | None = None


Outcome = Literal["added", "changed", "unchanged", "removed", "skipped", "failed"]


class FileReport(NamedTuple):
    """The outcome for one file, with why it was left out and the code of that reason."""

    path: str
    outcome: Outcome
    chunks: int = 0
    reason: str = ""
    code: str = ""


class IngestReport(NamedTuple):
    """What ``ingest`` did, file by file. ``ignored`` counts files of other types.

    ``trouble`` is why vectors are missing; the text is stored.
    """

    reports: tuple[FileReport, ...] = ()
    ignored: int = 0
    pending: int = 0
    interrupted: bool = False
    trouble: Notice | None = None

    def count(self, *outcomes: Outcome) -> int:
        """Return how many files have one of these outcomes."""
        return sum(report.outcome in outcomes for report in self.reports)

    @property
    def chunks(self) -> int:
        """Passages written by this run."""
        return sum(
            report.chunks for report in self.reports if report.outcome in ("added", "changed")
        )


class Deleted(NamedTuple):
    """What ``delete`` removed: the documents' names and the number of their passages."""

    doc_ids: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    chunks_deleted: int = 0
    purged: bool = False


class Reindexed(NamedTuple):
    """What ``reindex`` did; ``trouble`` is why vectors are missing."""

    chunks: int
    embedded: int = 0
    rechunked: int = 0
    swapped: bool = False
    trouble: Notice | None = None


class Stats(NamedTuple):
    """The size and state of a memory."""

    doc_count: int = 0
    chunk_count: int = 0
    embedded_count: int = 0
    pending_count: int = 0
    trash_count: int = 0
    db_size_bytes: int = 0
    path: str = ""
    schema: int = 0
    space: Space | None = None
    kinds: tuple[tuple[str, int], ...] = ()
    projects: tuple[tuple[str | None, int], ...] = ()
    sources: tuple[tuple[str, int], ...] = ()
    first_event_at: int | None = None
    last_event_at: int | None = None
    indexed_at: int | None = None


class Finding(NamedTuple):
    """One finding of ``doctor``: what was checked, the result, and what to do about it."""

    check: str
    level: Literal["ok", "warning", "error"]
    message: str
    fixed: bool = False
    advice: Advice | None = None
    code: str = ""

    @property
    def notice(self) -> Notice:
        """The message with its advice, for an interface to word."""
        return Notice(self.message, self.code, self.check, self.advice)


def finding_of(error: PlaitError) -> Finding:
    """Return a problem with an embedder as a finding of ``doctor``."""
    text = error.notice.text
    return Finding("embedder", "error", text, advice=error.advice, code=error.code)
