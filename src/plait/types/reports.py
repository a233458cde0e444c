"""Results of the verbs that change or check a memory. A search does not load these."""

from collections.abc import Callable
from typing import Literal, get_args

from plait.errors import Advice, Notice, PlaitError
from plait.types import Space, Trust
from plait.types.records import NamedTuple


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
    part of it did, and was left out. ``lowered`` is the trust that it got instead of the one asked
    for. ``trouble`` is why vectors are missing; the text is stored. ``secret`` names the kinds of
    secrets in the text, never their values. ``turn`` is the number of a message in its session.
    ``confined``: who sees it, because it repeats a text that not all see.
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
    lowered: Trust | None = None
    secret: tuple[str, ...] = ()
    turn: int | None = None
    confined: str | None = None


class NewEntity(NamedTuple):
    """An entity to create; without a type, an existing one keeps its own."""

    name: str
    type: str | None = None
    observations: tuple[str, ...] = ()


class Restored(NamedTuple):
    """What ``restore`` did.

    ``kept`` is where the memory that was replaced is kept, ``journal`` a journal of another file
    that was set aside. It can be undone unless what was kept is damaged.
    """

    path: str
    source: str | None
    kept: str | None = None
    journal: str | None = None
    documents: int | None = None
    undoable: bool = False


class Exported(NamedTuple):
    """What ``export`` did to a folder: how many documents it has, and how many files changed.

    ``kept`` are the files that a person edited, which were left as they are. ``with_secrets``
    counts the written files that hold secrets, ``secret`` names their kinds, never their values.
    """

    path: str
    documents: int = 0
    written: int = 0
    unchanged: int = 0
    removed: int = 0
    kept: tuple[str, ...] = ()
    with_secrets: int = 0
    secret: tuple[str, ...] = ()


class Imported(NamedTuple):
    """What ``import`` did; ``kept`` counts documents that were newer or more trusted in the memory.

    ``unknown`` names the fields of another program's file that were left out, ``left_out`` says
    what else of it plait cannot keep, ``untrusted_relations`` counts relations that were left out:
    they repeat untrusted text. ``secret`` names the kinds of secrets in what was written.
    ``source`` is the format that was read; after a ``dry_run`` nothing was written. ``scoped``
    counts documents and relations that were left out because they belong to users' scopes,
    ``unhidden`` documents that not all saw where they come from: here, without members, all do.
    """

    added: int = 0
    replaced: int = 0
    kept: int = 0
    relations: int = 0
    unknown: tuple[str, ...] = ()
    trouble: Notice | None = None
    untrusted_relations: int = 0
    unchanged: int = 0
    left_out: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    source: str = ""
    dry_run: bool = False
    scoped: int = 0
    unhidden: int = 0


Outcome = Literal["added", "changed", "moved", "unchanged", "removed", "kept", "skipped", "failed"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class FileReport(NamedTuple):
    """The outcome for one file, with why it was left out and the code of that reason.

    A file that was added or changed has a reason if it was read in an unusual way.

    ``secret`` names the kinds of secrets in a file that was added or changed, ``taken_from`` the
    project that its document was in before its folder moved to this one, ``elsewhere`` the other
    project that its document is in and stays in. ``old_text`` is the day of the text that is
    kept of a file that could not be read this time.
    """

    path: str
    outcome: Outcome
    chunks: int = 0
    reason: str = ""
    code: str = ""
    secret: tuple[str, ...] = ()
    taken_from: str = ""
    elsewhere: str = ""
    old_text: str = ""


# Files that one sentence names.
FILES_NAMED = 8

# Called with the outcome of each file as soon as it is known.
OnFile = Callable[[FileReport], None]


class IngestReport(NamedTuple):
    """What ``ingest`` did, file by file. ``ignored`` counts files of other types.

    ``ignored_types`` counts them by the ending of their names, the most frequent first.

    ``trouble`` is why vectors are missing; the text is stored. ``caution`` is why documents of
    missing files were kept. ``unread`` says why a file that was named was left out, unless it
    is merely empty. ``left`` counts the files that an interrupted run did not come to.
    """

    reports: tuple[FileReport, ...] = ()
    ignored: int = 0
    pending: int = 0
    interrupted: bool = False
    trouble: Notice | None = None
    caution: Notice | None = None
    ignored_types: tuple[tuple[str, int], ...] = ()
    left: int = 0
    unread: Notice | None = None

    def count(self, *outcomes: Outcome) -> int:
        """Return how many files have one of these outcomes."""
        return sum(report.outcome in outcomes for report in self.reports)

    @property
    def taken_from(self) -> dict[str, int]:
        """How many documents moved here from each other project, with their folder."""
        projects = [report.taken_from for report in self.reports if report.taken_from]
        return {project: projects.count(project) for project in dict.fromkeys(projects)}

    @property
    def elsewhere(self) -> dict[str, int]:
        """How many of the files are in each other project, and are not found in this one."""
        projects = [report.elsewhere for report in self.reports if report.elsewhere]
        return {project: projects.count(project) for project in dict.fromkeys(projects)}

    @property
    def outdated(self) -> Notice | None:
        """Which files have an older text in the memory, because they could not be read."""
        old = [report for report in self.reports if report.old_text]
        if not old:
            return None
        names = ", ".join(f"{row.path} (of {row.old_text})" for row in old[:FILES_NAMED])
        more = ", …" if len(old) > FILES_NAMED else ""
        files = "1 file" if len(old) == 1 else f"{len(old):,} files"
        text = f"The memory keeps the older text of {files} that could not be read: {names}{more}."
        return Notice(text, "old_text", old[0].path)

    @property
    def chunks(self) -> int:
        """Passages written by this run."""
        return sum(
            report.chunks for report in self.reports if report.outcome in ("added", "changed")
        )


class IngestInterrupted(KeyboardInterrupt):
    """Ctrl-C during an ingest. ``report`` says how far it came; the next run goes on from there."""

    def __init__(self, report: IngestReport) -> None:
        done = f"{report.count('added', 'changed', 'moved'):,}"
        super().__init__(f"Interrupted: what was indexed is kept ({done} files), the rest follows.")
        self.report = report


class Deleted(NamedTuple):
    """What ``delete`` removed: the documents' names and the number of their passages.

    ``copies``: other files beside the memory that may still have what was purged. Of a ``prune``,
    ``archived`` are the ids of documents that it archived, and ``rules`` counts those that each
    rule deleted.
    """

    doc_ids: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    chunks_deleted: int = 0
    purged: bool = False
    copies: tuple[str, ...] = ()
    archived: tuple[str, ...] = ()
    rules: tuple[tuple[str, int], ...] = ()


class DocumentUsage(NamedTuple):
    """The size of a document, in bytes of its passages, and how often and when it was read."""

    size: int = 0
    reads: int = 0
    last_read: int | None = None


class Erasure(NamedTuple):
    """What ``erase`` purged of a user: documents, passages, deleted documents, relations.

    ``left`` counts what is still there afterwards. ``copies``: other files beside the memory that
    may still have some of it, such as backups.
    """

    documents: int = 0
    passages: int = 0
    trashed: int = 0
    relations: int = 0
    left: int = 0
    copies: tuple[str, ...] = ()


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
    free_bytes: int = 0
    path: str = ""
    schema: int = 0
    space: Space | None = None
    kinds: tuple[tuple[str, int], ...] = ()
    projects: tuple[tuple[str | None, int], ...] = ()
    sources: tuple[tuple[str, int], ...] = ()
    first_event_at: int | None = None
    last_event_at: int | None = None
    indexed_at: int | None = None


class Maintained(NamedTuple):
    """What ``maintain`` did: files that changed, what the rules took, vectors made.

    ``expired`` documents left the trash. ``compacted``: free space went back to the disk.
    ``troubles`` kept back single steps. Of a ``dry_run``, what would be done, without the files.
    """

    ingested: int = 0
    pruned: Deleted = Deleted()
    vectors: int = 0
    expired: int = 0
    compacted: bool = False
    troubles: tuple[Notice, ...] = ()
    dry_run: bool = False


NO_MEMORY = "no_memory"  # the code of the only finding where there is none


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


class Loss(NamedTuple):
    """Rows of one table that could not be salvaged; ``names`` are those that are known."""

    table: str
    rows: int
    names: tuple[str, ...] = ()


class Salvaged(NamedTuple):
    """What ``salvage`` copied into a new memory, and what is lost.

    ``kept`` counts rows by table. ``mended`` names rows that were copied with a value replaced.
    ``unreadable_cells`` counts pieces of pages that could not be read, whatever they were.
    """

    path: str
    target: str
    kept: tuple[tuple[str, int], ...] = ()
    lost: tuple[Loss, ...] = ()
    mended: tuple[str, ...] = ()
    unreadable_cells: int = 0


class MovedTable(NamedTuple):
    """A table of a memory that was moved: how many rows it has, and a hash of all of them."""

    name: str
    rows: int
    digest: str


class Migrated(NamedTuple):
    """What a move copied, and how the copy was compared with its source.

    ``rounds`` counts how often the source was gone through: more than once if it was written to
    meanwhile. Of the ``queries`` that were asked of both, ``same`` had the same hits.
    """

    source: str
    target: str
    tables: tuple[MovedTable, ...]
    rounds: int
    queries: int
    same: int


def finding_of(error: PlaitError) -> Finding:
    """Return a problem with an embedder as a finding of ``doctor``."""
    text = error.notice.text
    return Finding("embedder", "error", text, advice=error.advice, code=error.code)
