"""What a memory needs from time to time, as one run: for a schedule, and for doors that stay open.

No step asks a language model, and none deletes what no rule of the person's says.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial

from plait.errors import Notice, PlaitError
from plait.facts.trash import KEPT_MS
from plait.memory import Memory
from plait.memory.responses import ResponseCache
from plait.memory.retention import set_rules
from plait.ranking.use import HOUR_MS
from plait.types.reports import IngestReport, Maintained
from plait.writing import changes
from plait.writing.documents import now_ms

# When the last run was; under the prefix of what is not about the memory's state.
MAINTAINED = "history:maintained"
# Digits of a time in milliseconds; a file may come from anywhere.
MOST_DIGITS = 18
# A file is rewritten if this share of it is free, and so many bytes: it takes as long as a copy.
FREE_SHARE = 0.25
FREE_BYTES = 4 * 1024 * 1024
# Seconds between two looks of a door that stays open at the time of the last run.
LOOK_S = 300.0
# Vectors that a door makes between two answers.
FEW_VECTORS = 256


def maintain(
    memory: Memory,
    folders: Sequence[str],
    *,
    dry_run: bool = False,
    light: bool = False,
    visibility: str | None = None,
) -> Maintained:
    """Run all that is due, in all projects; one step that fails does not keep back the others.

    Args:
        memory: An open memory.
        folders: Folders and files whose changes are indexed first.
        dry_run: Only tell what would be done.
        light: Leave out what takes long: a door must answer meanwhile.
        visibility: Who sees new files, in a memory with members.

    Raises:
        NotFound: There is no memory.
    """
    if dry_run:
        return _forecast(memory, folders)
    run = _Run(memory)
    if memory.is_there:
        # First: whatever deletes empties the trash too, and nobody would count it.
        run.step(run.empty_trash)
    for folder in folders:
        run.step(partial(run.index, folder, visibility))
    memory._required()  # where there is no memory, no step can be taken
    run.step(run.prune)
    run.step(lambda: run.embed(FEW_VECTORS if light else None))
    run.step(lambda: run.tidy(compact=not light))
    run.step(run.note)
    return run.done


class _Run:
    """The steps of one run, and what they did."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.done = Maintained()

    def step(self, act: Callable[[], None]) -> None:
        """Take a step; what stops it is told at the end."""
        try:
            act()
        except PlaitError as error:
            self._tell(error.notice)

    def _tell(self, notice: Notice | None) -> None:
        if notice is not None and notice not in self.done.troubles:
            self.done = self.done._replace(troubles=(*self.done.troubles, notice))

    def index(self, folder: str, visibility: str | None) -> None:
        """Index what changed in a folder."""
        report = self._memory.ingest(folder, incremental=True, visibility=visibility)
        self._tell(report.caution)
        self._tell(report.outdated)
        self._tell(report.unread)
        self._tell(report.trouble)
        before = self.done.ingested
        self.done = self.done._replace(ingested=before + _changed(report))

    def prune(self) -> None:
        """Delete and archive what the rules say, if there is one."""
        if set_rules(self._memory.config.settings) is not None:
            pruned = self._memory.prune(dry_run=False, all_projects=True)
            self.done = self.done._replace(pruned=pruned)

    def embed(self, most: int | None) -> None:
        """Make missing vectors and profiles, and sample what chance finds."""
        memory = self._memory
        writer = memory._begin()
        due = writer.state.profiles_due
        if due is not None and due <= now_ms():
            changes.put(writer.store, ())
        made = writer.backfill.catch_up(most=most)
        self._tell(writer.trouble)
        self.done = self.done._replace(vectors=made)
        if writer.trouble is None:
            memory._after_writing(writer)

    def empty_trash(self) -> None:
        """Drop what was deleted more than 30 days ago, and cached answers that are too old."""
        store = self._memory._required()
        before = store.stats().trash_count
        with store.transaction() as transaction:
            transaction.expire(transaction.now - KEPT_MS)
        # Also if the person has switched the cache off since: nobody else would drop them.
        ResponseCache(self._memory).drop_expired()
        self.done = self.done._replace(expired=before - store.stats().trash_count)

    def tidy(self, *, compact: bool) -> None:
        """Tidy the indexes, and return free space to the disk if there is much of it."""
        store = self._memory._required()
        stats = store.stats()
        wasteful = compact and _wastes(stats.free_bytes, stats.db_size_bytes)
        store.tidy(keywords=compact, compact=wasteful)
        self.done = self.done._replace(compacted=wasteful)

    def note(self) -> None:
        """Note the time, for doors that look whether a run is due."""
        with self._memory._required().transaction() as transaction:
            transaction.remember(**{MAINTAINED: str(transaction.now)})


def _forecast(memory: Memory, folders: Sequence[str]) -> Maintained:
    """Return what a run would do; files are not read for it, so none is counted."""
    stats = memory.stats()
    done = Maintained(
        dry_run=True,
        vectors=stats.pending_count,
        compacted=_wastes(stats.free_bytes, stats.db_size_bytes),
    )
    if set_rules(memory.config.settings) is not None and memory.is_there:
        done = done._replace(pruned=memory.prune(all_projects=True))
    missing = [folder for folder in folders if not os.path.exists(folder)]
    if missing:
        text = f"No such file or folder: {missing[0]}. Check the spelling, or give the full path."
        notice = Notice(text, "no_such_source", missing[0])
        done = done._replace(troubles=(notice,))
    return done


def _wastes(free: int, size: int) -> bool:
    return free >= FREE_BYTES and free >= FREE_SHARE * size


def _changed(report: IngestReport) -> int:
    return report.count("added", "changed", "moved", "removed")


def is_due(memory: Memory) -> bool:
    """Tell whether a door should maintain the memory: the person wants it, and it is long ago."""
    hours = memory.config.settings.maintain_hours
    if hours is None or memory.is_off or memory.config.settings.read_only or not memory.is_there:
        return False
    last = memory._required().remembered(MAINTAINED).get(MAINTAINED, "")
    if not last.isdecimal() or len(last) > MOST_DIGITS:
        return True
    # Clocks differ: a run in the near future was just now. One that a clock has put further ahead
    # counts for nothing: it would be the last one.
    return abs(now_ms() - int(last)) >= hours * HOUR_MS
