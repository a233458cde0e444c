"""Import agents' histories: sessions become conversations of messages.

Texts come first, in batches, each with the marks of its sources in one transaction; then vectors.
Whatever stops an import, what was written stays, and the next one goes on from there.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from plait.agents.choosing import Wanted, excluded_folders, is_excluded, with_whole_session
from plait.agents.copies import Copies
from plait.agents.histories import (
    Bookmark,
    HistoryFile,
    Places,
    Reading,
    Session,
    Utterance,
    reader_of,
)
from plait.agents.histories.files import database_state, refuse_closed
from plait.agents.histories.stripping import without_own
from plait.agents.ledger import Ledger, Overtaken, token_of
from plait.agents.private import without_private
from plait.agents.projects import Home, Projects
from plait.agents.reports import HistoryReport
from plait.agents.sessions import session_name
from plait.agents.steps import endings, mask_beside, steps_of
from plait.errors import PlaitError, StoreError, UsageError
from plait.facts.masking import masked
from plait.facts.trust import may_replace
from plait.memory import Memory
from plait.protocols import Entry
from plait.searching.steps import stored_steps
from plait.text import clean
from plait.times import DAY_MS, FIRST_MOMENT, show_day
from plait.types import Document, Origin
from plait.types.audit import acting
from plait.types.ids import AGENT_FIELD, SESSION_SOURCE, new_id
from plait.types.records import NamedTuple
from plait.types.steps import Step
from plait.writing.backfill import ON_THE_SIDE, Progress
from plait.writing.changes import Change
from plait.writing.documents import now_ms
from plait.writing.writer import Writer

# Messages that one transaction writes, or a few more: a batch ends between two turns.
BATCH_MESSAGES = 1_000
# Under this name the metadata of a message tells which import brought it.
RUN_FIELD = "import"
# How the names of imports by hooks begin; a day follows.
LIVE = "live-"
# What progress is told instead of a path while vectors are made, and after how many.
VECTORS = "vectors"
VECTORS_AT_ONCE = 2_048
# Reasons for leaving something out that a file of another kind has, too.
FOREIGN_REASONS = frozenset(
    {"broken archive", "broken file", "broken line", "broken record", "empty conversation"}
)


def sources_of(places: Places, agents: Iterable[str]) -> list[HistoryFile]:
    """Return what there is to read, each agent's oldest first."""
    return [source for agent in agents for source in reader_of(agent).find(places)]


def import_histories(
    memory: Memory,
    sources: Iterable[HistoryFile],
    wanted: Wanted = Wanted(),  # noqa: B008 - a value
    *,
    run: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    visibility: str | None = None,
    named: bool = False,
) -> HistoryReport:
    """Import sessions; what was imported before is not read again.

    Imports with one name, ``run``, are undone together; by default each has its own. In a memory
    with members, ``visibility`` says who sees new messages: private, project or team, the default.

    Ctrl-C ends it early: what was written stays, and the report says so. ``progress`` is told the
    bytes that were read, those of all sources, and a path; then vectors made, all, and `VECTORS`.
    With ``named``, somebody chose the files: one without any session counts as unreadable.

    Raises:
        StoreError: The memory cannot be written.
        NotFound: A session is wanted that none of the sources has.
    """
    files = list(sources)
    wanted = with_whole_session(wanted, files)
    started = _Import(memory, wanted, run or new_run(), dry_run=dry_run, named=named)
    with memory._visible(visibility):
        return started.all_of(files, progress)


def new_run() -> str:
    """Return a name for an import."""
    return new_id(8)


def import_transcript(memory: Memory, agent: str, path: str) -> HistoryReport:
    """Import what one transcript says since the last time, as `import_histories` would.

    For hooks, which are told the path. Many vectors that are missing wait for the next import.

    Raises:
        UsageError: There is no such agent.
        StoreError: The memory cannot be written.
    """
    places = Places("", {}, files=(path,))
    # One run for each day: all that hooks saved on it can be undone at once.
    run = _Import(memory, Wanted(), f"{LIVE}{show_day(now_ms())}", dry_run=False)
    # A hook may be killed: each reading is written at once, so that the next one has less to do.
    return run.all_of(list(reader_of(agent).find(places)), None, vectors=False)


class _Row(NamedTuple):
    """A message to store, and how it is known."""

    document: Document
    steps: Sequence[Step]
    token: str
    session: str
    is_new: bool
    twins: Sequence[str]


class _Import:
    """One run: reads sources, collects batches, writes them."""

    def __init__(
        self, memory: Memory, wanted: Wanted, run: str, *, dry_run: bool, named: bool = False
    ) -> None:
        self._memory = memory
        self._wanted = wanted
        self._run = run
        self._dry_run = dry_run
        self._named = named
        self._latest = now_ms() + DAY_MS  # a later time is that of a clock that was wrong
        self._store = memory.engine
        self._ledger = Ledger(self._store)
        # The writer is that of all other verbs: same sizes, same embedder, same limits. Secrets are
        # masked before; the ids of messages are random and may look like some.
        begin = memory._dry_writer if dry_run else memory._begin
        self._writer: Writer = begin(allow_secret=True)
        self._projects = Projects(self._writer)
        # By agent and branch, whose name is without the secrets in it.
        self._metadata: dict[tuple[str, str | None], dict[str, str]] = {}
        self._excluded = excluded_folders()
        self._batch: list[tuple[HistoryFile, Reading, bool]] = []
        self._waiting = 0
        self._skipped: Counter[str] = Counter()
        self._unreadable: dict[str, str] = {}
        self._months: Counter[tuple[str | None, str]] = Counter()
        self._agents: Counter[str] = Counter()
        self._sessions: set[str] = set()
        self._counts: Counter[str] = Counter()

    def all_of(
        self, sources: list[HistoryFile], progress: Progress | None, *, vectors: bool = True
    ) -> HistoryReport:
        """Import sources, then make vectors; return what was done."""
        total, done = sum(source.size for source in sources), 0
        interrupted = False
        try:
            for source in sources:
                self._read(source, BATCH_MESSAGES if vectors else 1)
                done += source.size
                if progress is not None:
                    progress(done, total, source.path)
            self._commit()
            if not self._dry_run:
                self._make_vectors(progress, all_of_them=vectors)
        except KeyboardInterrupt:
            interrupted = True
        ends = ((row.expires_at, row.agent) for row in sources if row.expires_at)
        soonest, agent = min(ends, default=(None, None))
        counts = self._counts
        return HistoryReport(
            run=self._run,
            sources=len(sources),
            read=counts["read"],
            sessions=len(self._sessions),
            messages=counts["messages"],
            replaced=counts["replaced"],
            unchanged=counts["unchanged"],
            masked=counts["masked"],
            vectors=counts["vectors"],
            by_month=dict(sorted(self._months.items(), key=lambda row: (row[0][0] or "", row[0]))),
            skipped=dict(self._skipped),
            agents=dict(self._agents),
            days_left=None if soonest is None else max(0, (soonest - now_ms()) // DAY_MS),
            days_left_of=agent,
            interrupted=interrupted,
            dry_run=self._dry_run,
            trouble=self._writer.trouble,
            unreadable=self._unreadable,
        )

    def _make_vectors(self, progress: Progress | None, *, all_of_them: bool) -> None:
        """Make the vectors that are missing, also those of an import that was interrupted."""
        backfill = self._writer.backfill
        if not all_of_them:
            self._counts["vectors"] = backfill.catch_up(most=ON_THE_SIDE)
            return
        done = 0
        while made := backfill.catch_up(most=VECTORS_AT_ONCE):
            done += made
            if progress is not None:
                progress(done, done + self._store.state().pending, VECTORS)
            if backfill.trouble is not None:
                break
        self._counts["vectors"] = done
        if self._counts["messages"] or done:
            self._memory._after_writing(self._writer)
            self._store.tidy()

    # -- reading

    def _read(self, source: HistoryFile, full: int) -> None:
        """Read a source from its mark on, and write batches of so many messages."""
        if source.kind == "subagent" and not self._wanted.subagents:
            self._skipped["subagent sessions"] += 1
            return
        session = source.session
        is_named = session is None or self._wanted.names(source.agent, session)
        if not is_named or self._is_too_old(source):
            self._skipped["not wanted"] += 1
            return
        for reading, is_whole in self._readings(source):
            self._skipped.update(reading.skipped)
            self._batch.append((source, reading, is_whole))
            self._waiting += sum(len(session.utterances) for session in reading.sessions)
            if self._waiting >= full:
                self._commit()

    def _readings(self, source: HistoryFile) -> Iterator[tuple[Reading, bool]]:
        """Yield what a source says, and whether its mark may be moved."""
        mark = self._mark_of(source)
        is_whole = True
        is_foreign = self._named and mark is None
        number = 0
        try:
            refuse_closed(source)
            last = self._last_times(source, mark)
            for reading in reader_of(source.agent).read(source, mark):
                number += 1
                is_foreign &= not reading.sessions and FOREIGN_REASONS.issuperset(reading.skipped)
                sessions = [
                    session for session in reading.sessions if self._is_wanted(session, last)
                ]
                # What is left out now may be wanted by a later import.
                narrows = self._wanted.narrows or bool(self._excluded)
                narrowed = narrows and len(sessions) < len(reading.sessions)
                is_whole = is_whole and not narrowed
                yield reading._replace(sessions=sessions), is_whole and not is_foreign
        except (OSError, PlaitError) as error:
            if isinstance(error, StoreError):
                raise
            self._skipped["unreadable"] += 1
            cause = (error.strerror if isinstance(error, OSError) else None) or str(error)
            self._unreadable[clean(source.path)] = cause
        else:
            if is_foreign:
                self._unreadable[clean(source.path)] = f"it has no conversation of {source.agent}"
        self._counts["read"] += bool(number)

    def _mark_of(self, source: HistoryFile) -> Bookmark | None:
        marked = None if self._wanted.again else self._ledger.marked(source)
        return marked.mark if marked is not None and self._wanted.kinds <= marked.kinds else None

    def _last_times(self, source: HistoryFile, mark: Bookmark | None) -> dict[str, int]:
        """Return when the last message of each session was said, if that matters and is known.

        A file may be younger than its messages: it was copied, or restored from a backup. All of it
        is looked through before, as the last message comes last.
        """
        last: dict[str, int] = {}
        if self._wanted.since is None:
            return last
        for reading in reader_of(source.agent).read(source, mark):
            for session in reading.sessions:
                times = [row.at for row in session.utterances if row.at is not None]
                last[session.id] = max([last.get(session.id, 0), *times])
        return {session: at for session, at in last.items() if at > 0}

    def _is_too_old(self, source: HistoryFile) -> bool:
        """Tell whether a file was not used since; then it says nothing newer."""
        since = self._wanted.since
        if since is None:
            return False
        # What a database has in its log is newer than its file.
        used = max(time for _, time in database_state(source.path)) // 1_000_000
        return 0 < used < since

    def _is_wanted(self, session: Session, last: Mapping[str, int]) -> bool:
        """Tell whether a session is one that was asked for; count it if not."""
        wanted, reason = self._wanted, ""
        folder = session.cwd or ""
        if session.kind not in wanted.kinds:
            reason = f"{session.kind} sessions"
        elif not wanted.takes(session.agent, session.id, folder, last.get(session.id)):
            reason = "not wanted"
        elif any(is_excluded(place, self._excluded) for place in {folder, *session.folders}):
            reason = "excluded"
        if reason:
            self._skipped[reason] += 1
        return not reason

    # -- writing

    def _commit(self) -> None:
        """Write what was collected, with the marks, in one transaction."""
        batch, self._batch, self._waiting = self._batch, [], 0
        if not batch:
            return
        while True:
            counts, skipped = self._counts.copy(), self._skipped.copy()
            months, agents = self._months.copy(), self._agents.copy()
            sessions = self._sessions.copy()
            try:
                self._write(batch)
            except BaseException as error:  # nothing of it was written, whatever stopped it
                self._counts, self._skipped, self._sessions = counts, skipped, sessions
                self._months, self._agents = months, agents
                if not isinstance(error, Overtaken):
                    raise
                # Another process wrote: what it brought must not be doubled.
                self._ledger.reload()
            else:
                return

    def _write(self, batch: list[tuple[HistoryFile, Reading, bool]]) -> None:
        new: dict[str, list[str]] = {}
        rows = self._rows(batch, new)
        changes = list(self._changes(rows))
        for row in rows:
            if row.is_new:
                new.setdefault(row.session, []).append(row.token)
        twins: dict[str, dict[str, str]] = {}
        for row in rows:
            twins.setdefault(row.session, {}).update(dict.fromkeys(row.twins, row.token))
        if self._dry_run:
            self._ledger.took_twins(twins)
            self._ledger.took({}, new)  # copies in later batches are copies all the same
            return
        values = self._ledger.message_values(new) | self._ledger.twin_values(twins)
        for source, reading, is_whole in batch:
            if is_whole:
                kinds = self._wanted.kinds
                values |= self._ledger.mark_values(source, reading.mark, self._run, kinds)
        values |= self._ledger.next_number()
        if changes:
            values |= self._ledger.run_values(self._run, at=now_ms())
        with acting("import", door="import"):
            self._writer.write_texts(changes, values, check=self._ledger.check)
        self._ledger.took_twins(twins)
        self._ledger.took(values, new)

    def _rows(
        self, batch: Iterable[tuple[HistoryFile, Reading, bool]], aliases: dict[str, list[str]]
    ) -> list[_Row]:
        """Return the messages of a batch that are not copies of others.

        ``aliases`` gets the ids of copies: a copy of a copy names one of them.
        """
        rows: dict[tuple[str, str], _Row] = {}
        copies = Copies(self._ledger, aliases)
        for session in chain.from_iterable(reading.sessions for _, reading, _ in batch):
            name = session_name(session.agent, session.id)
            home = self._projects.of(name, session.cwd)
            last = None
            for utterance in session.utterances:
                # As they are stored: an undo knows a message by its key.
                ids = [clean(id_) for id_ in (utterance.copy_of, utterance.id) if id_]
                tokens = [token_of(session.agent, id_) for id_ in dict.fromkeys(ids)]
                twins = [token_of(session.agent, twin) for twin in utterance.twins]
                if copies.is_copy(tokens, name) or copies.is_twin(tokens[0], twins, name):
                    self._skipped["copy"] += 1
                    continue
                copies.note(tokens[0], twins, name)
                is_known = utterance.at is not None and FIRST_MOMENT <= utterance.at <= self._latest
                last = utterance.at if is_known else last
                made = self._document(session, name, home, utterance, last)
                if made is None:
                    continue
                document, steps = made
                token = tokens[0]
                before = rows.get((name, token))
                if before is not None and len(before.document.text) > len(document.text):
                    continue
                is_new = self._ledger.owner(token) is None
                rows[name, token] = _Row(document, steps, token, name, is_new, twins)
        return list(rows.values())

    def _document(
        self,
        session: Session,
        name: str,
        home: Home,
        utterance: Utterance,
        at: int | None,
    ) -> tuple[Document, list[Step]] | None:
        """Return an utterance as a message with its steps; ``None`` if none of it may be stored."""
        whole = utterance.whole
        text = without_private(whole)
        has_private = len(text) < len(whole)
        if has_private:
            self._skipped["private blocks"] += 1
        words = without_own(text.replace("\0", "")).strip()
        text, kinds = masked(words)
        self._counts["masked"] += bool(kinds)
        if not text.strip():
            return None
        # Calls of tools alone are no reply: that is the next message with words.
        told = without_private(utterance.text) if has_private else utterance.text
        origin: Origin = "user" if utterance.typed else "agent" if told.strip() else "tool"
        steps: list[Step] = []
        if utterance.acts:
            mask = mask_beside(words, text, kinds)
            steps = steps_of(utterance.acts, session.cwd, home.root, mask)
        document = Document(
            key=clean(utterance.copy_of or utterance.id),
            kind="message",
            text=text,
            source=f"{SESSION_SOURCE}{name}",
            project=home.project,
            metadata=self._metadata_of(session),
            origin=origin,
            trust="trusted" if utterance.typed else "untrusted",
            session=name,
            role=utterance.role,
            event_at=at,
        )
        return document, steps

    def _metadata_of(self, session: Session) -> Mapping[str, str]:
        """Return the metadata of a session's messages, the same mapping for all of them."""
        place = (session.agent, session.branch)
        if place not in self._metadata:
            self._metadata[place] = {AGENT_FIELD: session.agent, RUN_FIELD: self._run}
            if session.branch:
                self._metadata[place]["branch"] = masked(clean(session.branch))[0]
        return self._metadata[place]

    def _changes(self, rows: list[_Row]) -> Iterator[Change]:
        """Yield what has to be written; a message that was deleted stays deleted."""
        known = self._store.known([row.document for row in rows]) if rows else []
        for row, here in zip(rows, known, strict=True):
            if here is None and not row.is_new:
                self._skipped["deleted"] += 1
                continue
            try:
                entry = self._writer.prepare(row.document)._replace(steps=row.steps)
            except UsageError as error:
                self._skipped[f"refused ({error.code})"] += 1
                continue
            if here is None:
                self._counts["messages"] += 1
                self._agents[row.document.metadata[AGENT_FIELD]] += 1
                self._sessions.add(row.session)
                self._months[row.document.project, show_day(entry.document.event_at)[:7]] += 1
                yield Change(entry, undated=row.document.event_at is None)
            elif self._grew(entry, here):
                self._counts["replaced"] += 1
                self._sessions.add(row.session)
                metadata = {**entry.document.metadata, **here.metadata}
                document = entry.document._replace(metadata=metadata, event_at=here.event_at)
                yield Change(entry._replace(document=document), expects=here)
            else:
                self._counts["unchanged"] += 1

    def _grew(self, entry: Entry, here: Document) -> bool:
        """Tell whether a stored message says less than it does now, or less of how steps ended."""
        document = entry.document
        if not may_replace(here, document):
            return False
        if document.sha256 == here.sha256:
            ended = endings(entry.steps or ())
            return ended > 0 and ended > endings(stored_steps(self._store, here.id))
        return not any(
            whole.text.startswith(document.text) for whole in self._store.load([here.id])
        )
