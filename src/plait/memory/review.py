"""Look through a memory for what a person may want to settle: nothing is changed here.

Repeats, contradictions, facts that a later text contradicts, facts that nobody reads, entities that
are too large, secrets, and what belongs to nothing any more. Words, numbers, dates and counts
decide; no language model is asked. A model that runs here may confirm that two texts mean the same.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from plait.errors import EmbedderError
from plait.facts import statements, trust, versions
from plait.facts.credentials import document_secrets
from plait.facts.masking import masked
from plait.facts.names import is_item
from plait.facts.splitting import most_facts, split_facts
from plait.facts.statements import StatedFact, SubjectIndex
from plait.facts.trash import is_detached
from plait.protocols import Store
from plait.searching.timeline import summary_of
from plait.text import single_spaced
from plait.times import DAY_MS, show_day
from plait.types import KINDS, TRUSTS, Document, Filter, Kind, check_choice, check_range
from plait.types.ids import SHORT_ID
from plait.types.records import NamedTuple
from plait.types.review import REVIEW_KINDS, Review, ReviewAction, ReviewItem, ReviewKind

if TYPE_CHECKING:
    from plait.memory import Memory

# Documents that are read at once.
PAGE = 500
# A fact that nobody has read for so long, and rarely before: mcp-memory's rule.
STALE_DAYS = 90
RARELY_READ = 2
# What is this important, 0 to 1, need not be read to stay.
IMPORTANT = 0.7
# More values than this for one sentence are measurements, not corrections.
MOST_CORRECTIONS = 3
# Facts on one topic, each of which holds at another time, that one more is compared with.
MOST_ON_TOPIC = 60
# Characters of a text that is one statement; a longer one is read sentence by sentence.
ONE_STATEMENT = 300
# Pairs of reworded texts that a model is asked about, and how near their words must be: "begins"
# and "starts" are 0.6, "payments" and "search" 0.0, "madrid" and "barcelona" 0.3.
MOST_REWORDED = 2_000
SAME_MEANING = 0.4
# Sentences of texts that facts are compared with: as many as 10,000 long passages have.
MOST_SENTENCES = 30_000
MOST_LISTED = 1_000


class _Fact(NamedTuple):
    """A fact or a short note, and what it states."""

    document: Document
    states: StatedFact
    home: tuple[str | None, str | None]


class _Reviewer:
    """One review: reads what it needs once, and collects findings by kind."""

    def __init__(self, memory: "Memory", store: Store, where: Filter, now: int) -> None:
        self._memory = memory
        self._store = store
        self._where = where
        self._now = now
        self._items: dict[ReviewKind, list[ReviewItem]] = {kind: [] for kind in REVIEW_KINDS}
        # Ids that a finding already ends: one document is settled once.
        self._ended: set[str] = set()
        self._secrets: dict[str, tuple[str, ...]] = {}
        self._is_damaged = False
        self._entities = {row.id: row for row in self._documents(("entity",), whole=False)}

    def run(self, kinds: Sequence[ReviewKind]) -> dict[ReviewKind, list[ReviewItem]]:
        """Return the findings of these kinds."""
        wanted = {*kinds}
        # What a program keeps here is for the program to tidy.
        documents = [row for row in self._documents(("observation", "note")) if not is_item(row)]
        if "secret" in wanted:
            self._find_secrets()
        facts = [fact for row in documents if (fact := self._fact(row)) is not None]
        if wanted & {"contradiction", "outdated", "duplicate"}:
            self._compare(facts)
        if "outdated" in wanted:
            self._compare_with_texts(facts)
        if "orphan" in wanted:
            self._find_orphans(documents)
        if "oversized" in wanted:
            self._find_oversized(documents)
        if wanted & {"unread", "stale"}:
            self._find_unread(documents)
        return {kind: self._items[kind] for kind in REVIEW_KINDS if kind in wanted}

    def _documents(
        self, kinds: Sequence[Kind], *, whole: bool = True, where: Filter | None = None
    ) -> Iterator[Document]:
        """Yield documents, the newest event first; what is damaged is for ``doctor`` to tell."""
        where = (where or self._where)._replace(kinds=tuple(kinds))
        before: tuple[int, str] | None = None
        while True:
            damaged: list[str] = []
            page = self._store.scan(where, limit=PAGE, before=before, whole=whole, damaged=damaged)
            yield from page
            self._is_damaged |= bool(damaged)
            if not page or len(page) + len(damaged) < PAGE:
                return
            before = (page[-1].event_at or 0, page[-1].id)

    def _add(
        self,
        kind: ReviewKind,
        action: ReviewAction,
        documents: Sequence[Document],
        why: str,
        *,
        groups: tuple[tuple[str, tuple[str, ...]], ...] = (),
        hidden: bool = False,
    ) -> None:
        named = [row if row.text else row._replace(text=row.title) for row in documents]
        hidden = hidden or any(map(self._has_secret, documents))
        excerpts = tuple(
            _name_of(row) if hidden else single_spaced(summary_of(row)) for row in named
        )
        ids = tuple(row.id for row in documents)
        home = documents[0].project
        self._items[kind].append(ReviewItem(kind, ids, why, action, excerpts, home, groups))

    def _has_secret(self, row: Document) -> bool:
        if row.id not in self._secrets:
            self._secrets[row.id] = document_secrets(row)
        return bool(self._secrets[row.id])

    # -- repeats and contradictions --------------------------------------------------------

    def _fact(self, row: Document) -> _Fact | None:
        text = single_spaced(row.text)
        if not text or len(text) > ONE_STATEMENT or row.chunk_count > 1:
            return None
        entity = self._entities.get(row.parent or "")
        states = statements.statement(text, entity.title if entity else "")
        return _Fact(row, states, (row.project, row.parent))

    def _compare(self, facts: Sequence[_Fact]) -> None:
        self._compare_topics(facts)
        listed = [fact.states for fact in facts]
        series = _values_by_frame(listed)
        unsure: list[tuple[_Fact, _Fact]] = []
        for place, other in SubjectIndex(listed).pairs():
            first, second = facts[place], facts[other]
            if self._is_settled(first.document, second.document):
                continue
            if not _comparable(first, second):
                continue
            verdict = statements.compare(first.states, second.states)
            if verdict == "other" or len(series[first.states.frame]) > MOST_CORRECTIONS:
                continue
            if statements.is_about_the_same(first.states, second.states):
                self._judge(first, second)
            else:
                unsure.append((first, second))
        for first, second in self._reworded(unsure):
            self._judge(first, second, reworded=True)

    def _judge(self, first: _Fact, second: _Fact, *, reworded: bool = False) -> None:
        """Note that two facts on the same thing repeat or contradict each other."""
        if statements.compare(first.states, second.states) == "same":
            kept, repeat = sorted((first.document, second.document), key=_worth, reverse=True)
            why = "the same in other words" if reworded else "the same words and values"
            self._settle("duplicate", repeat, kept, why)
            return
        older, newer = _older_first(first.document, second.document)
        old, new = (first, second) if older is first.document else (second, first)
        apart = (newer.event_at or 0) - (older.event_at or 0)
        kind: ReviewKind = "outdated" if apart >= DAY_MS else "contradiction"
        self._settle(kind, older, newer, _why_not_both(old.states, new.states, older, newer))

    def _compare_topics(self, facts: Sequence[_Fact]) -> None:
        """Find two facts that are both current on one topic of one thing."""
        answers: dict[tuple[object, ...], list[_Fact]] = {}
        for fact in facts:
            row = fact.document
            if row.topic is None:
                continue
            mates = answers.setdefault((*fact.home, row.topic), [])
            for mate in mates:
                if versions.overlap(row, mate.document, self._now):
                    older, newer = _older_first(row, mate.document)
                    self._settle("contradiction", older, newer, "two current facts on one topic")
            left = [mate for mate in (*mates, fact) if mate.document.id not in self._ended]
            mates[:] = left[-MOST_ON_TOPIC:]

    def _reworded(self, pairs: Sequence[tuple[_Fact, _Fact]]) -> Iterator[tuple[_Fact, _Fact]]:
        """Yield the pairs whose unlike words mean the same, if a model runs here that can tell."""
        embedder = self._memory.embedder
        if embedder.tuning.external or not embedder.dims:
            return
        asked = [
            (pair, words)
            for pair in pairs[:MOST_REWORDED]
            if (words := statements.unlike_words(pair[0].states, pair[1].states)) is not None
            and not any(
                _has_name(fact.document.text, side) for fact, side in zip(pair, words, strict=True)
            )
        ]
        texts = list(dict.fromkeys(text for _, words in asked for text in words))
        try:
            vectors = dict(zip(texts, embedder.embed_safely(texts, "passage"), strict=True))
        except EmbedderError:
            return  # the words alone decide
        for pair, words in asked:
            first, second = (vectors[text] for text in words)
            if first is not None and second is not None and _cosine(first, second) >= SAME_MEANING:
                yield pair

    def _is_settled(self, first: Document, second: Document) -> bool:
        """Tell whether a finding already ends one of two documents."""
        return first.id in self._ended or second.id in self._ended

    def _settle(self, kind: ReviewKind, ending: Document, kept: Document, why: str) -> None:
        """Propose to end one document in favour of another, unless that is less trusted."""
        if trust.outranks(ending.trust, kept.trust):
            ending, kept = kept, ending
        if self._is_settled(ending, kept) or ending.kind not in versions.REPLACEABLE:
            return
        self._ended.add(ending.id)
        hidden = self._has_secret(ending) or self._has_secret(kept)
        why = "they differ in a value" if hidden and kind != "duplicate" else why
        self._add(kind, "supersede", (ending, kept), why, hidden=hidden)

    def _compare_with_texts(self, facts: Sequence[_Fact]) -> None:
        """Find facts that a sentence of a later file, note or message of a user contradicts."""
        stating = [
            fact for fact in facts if fact.states.values and fact.document.id not in self._ended
        ]
        if not stating:
            return
        index = SubjectIndex([fact.states for fact in stating], statements.SAME_SUBJECT)
        seen: dict[str, tuple[Document, StatedFact]] = {}
        for row, states in islice(self._stated_in_texts(), MOST_SENTENCES):
            for place in index.near(states):
                fact = stating[place]
                if (
                    fact.document.id not in seen
                    and fact.document.project == row.project
                    and not trust.outranks(fact.document.trust, row.trust)
                    and (row.event_at or 0) - (fact.document.event_at or 0) >= DAY_MS
                    and statements.compare(fact.states, states) == "value"
                    and statements.is_about_the_same(fact.states, states)
                ):
                    seen[fact.document.id] = (row, states)
        by_id = {fact.document.id: fact for fact in stating}
        for id_, (row, states) in seen.items():
            fact = by_id[id_]
            why = _why_not_both(fact.states, states, fact.document, row)
            hidden = self._has_secret(fact.document) or self._has_secret(row)
            why = "a later text has another value" if hidden else why
            self._ended.add(id_)
            self._add("outdated", "archive", (fact.document, row), why, hidden=hidden)

    def _stated_in_texts(self) -> Iterator[tuple[Document, StatedFact]]:
        """Yield sentences with a value of files, long notes and messages of users, newest first."""
        for row in self._documents(("note", "file", "message")):
            if row.kind == "message" and row.role != "user":
                continue
            if len(row.text) <= ONE_STATEMENT and row.kind == "note":
                continue  # compared as a fact
            for sentence in statements.sentences(row.text):
                if statements.has_value(sentence):
                    yield row, statements.statement(sentence)

    # -- the rest --------------------------------------------------------------------------

    def _find_secrets(self) -> None:
        """Find secrets also in what is over or quarantined: those are in the file, too."""
        where = self._where._replace(all_versions=True, trusts=TRUSTS)
        for row in self._documents(KINDS, where=where):
            # The text of an entity repeats its facts, which are told themselves.
            kinds = document_secrets(row._replace(text="") if row.kind == "entity" else row)
            if kinds:
                why = f"it holds a secret ({', '.join(kinds)})"
                self._add("secret", "purge", (row,), why, hidden=True)

    def _find_orphans(self, documents: Sequence[Document]) -> None:
        self._find_lost_files()
        if not self._is_damaged:  # else what cannot be read may be what is missed
            self._find_detached(documents)

    def _find_detached(self, documents: Sequence[Document]) -> None:
        busy = {row.parent for row in documents if row.parent is not None}
        damaged: list[str] = []
        ended = self._store.scan(
            self._where._replace(kinds=("observation",), all_versions=True), damaged=damaged
        )
        busy |= {row.parent for row in ended if row.parent is not None}
        related = {
            id_
            for edge in self._store.relations(
                None, self._where._replace(all_versions=True), damaged=damaged
            )
            for id_ in (edge.source_id, edge.target_id)
        }
        if damaged:
            return
        for row in documents:
            if row.parent is not None and row.parent not in self._entities:
                self._add("orphan", "delete", (row,), "the entity it belongs to does not exist")
        for entity in self._entities.values():
            if entity.id not in busy and entity.id not in related and not entity.pinned:
                self._add("orphan", "delete", (entity,), "an entity without facts and relations")

    def _find_lost_files(self) -> None:
        for row in self._documents(("file",), whole=False):
            path = row.path
            if path is None or is_detached(row) or os.path.lexists(path):
                continue
            # Of a folder that is gone, such as a disk that is not mounted, nothing is known.
            if os.path.isdir(os.path.dirname(path)):
                self._add("orphan", "delete", (row,), f"its file is gone: {path}")

    def _find_oversized(self, documents: Sequence[Document]) -> None:
        facts: dict[str, dict[str, str]] = {}
        for row in documents:
            # A word of a secret must not become a name.
            if (
                row.kind == "observation"
                and row.parent in self._entities
                and not self._has_secret(row)
            ):
                facts.setdefault(row.parent or "", {})[row.id] = row.text
        for id_, texts in facts.items():
            entity = self._entities[id_]
            most = most_facts(entity.type)
            if len(texts) <= most:
                continue
            groups = tuple((name, tuple(ids)) for name, ids in split_facts(entity.title, texts))
            if groups:
                names = ", ".join(f"{name} ({len(ids)})" for name, ids in groups)
                why = f"{len(texts)} facts, more than {most}; they fall into {names}"
                self._add("oversized", "split", (entity,), why, groups=groups)

    def _find_unread(self, documents: Sequence[Document]) -> None:
        limit = self._now - STALE_DAYS * DAY_MS
        old = [
            row
            for row in documents
            if max(row.created_at, row.updated_at, row.event_at or 0) < limit
            and row.status in (None, "active")
            and not row.pinned
            and (row.importance or 0.0) < IMPORTANT
            and row.id not in self._ended
        ]
        refs = {part.ref: row.id for row in old for part in self._store.passages(row.id)}
        uses = self._store.hydrate(list(refs), ranking=True, terms=frozenset()) if refs else {}
        reads: dict[str, list[tuple[int, int]]] = {}
        for ref, candidate in uses.items():
            if candidate.use is not None and candidate.use.reads:
                last = candidate.use.last_read or 0
                reads.setdefault(refs[ref], []).append((candidate.use.reads, last))
        for row in reversed(old):
            age = (self._now - max(row.created_at, row.updated_at)) // DAY_MS
            counted = reads.get(row.id, [])
            if not counted:
                self._add("unread", "archive", (row,), f"{age} days old and never read")
                continue
            times, last = sum(count for count, _ in counted), max(last for _, last in counted)
            if times <= RARELY_READ and last < limit:
                days = (self._now - last) // DAY_MS
                why = f"read {times} time{'s' * (times > 1)}, the last time {days} days ago"
                self._add("stale", "archive", (row,), why)


def review(
    memory: "Memory",
    kinds: Sequence[str] = (),
    *,
    limit: int = 50,
    all_projects: bool = False,
) -> Review:
    """Return what a person may want to settle, the worst first, each with one proposed act.

    Args:
        memory: The memory.
        kinds: Only these kinds of findings; all by default.
        limit: How many findings, 1 to 1000; `Review.counts` has all of them.
        all_projects: All projects, not only this one and personal documents.

    Raises:
        UsageError: There is no such kind, or the limit is out of range.
    """
    from plait.writing.documents import now_ms

    check_range("limit", limit, 1, MOST_LISTED)
    wanted = [check_choice("kind", kind, REVIEW_KINDS) for kind in kinds] or list(REVIEW_KINDS)
    store = memory._store
    if store is None:
        return Review()
    where = memory._read_filter(None, all_projects=all_projects)
    items = _Reviewer(memory, store, where, now_ms()).run(wanted)
    listed = [item for part in items.values() for item in part]
    counts = tuple((kind, len(rows)) for kind, rows in items.items() if rows)
    return Review(tuple(listed[:limit]), counts)


def _name_of(row: Document) -> str:
    """Return which document this is, without its text."""
    if row.kind == "message":
        return masked(single_spaced(f"{row.role} in {row.session}"))[0]
    name = row.key or row.path or f"{row.kind} of {show_day(row.event_at)}"
    return masked(single_spaced(name))[0]


def _comparable(first: _Fact, second: _Fact) -> bool:
    """Tell whether two facts may be about the same thing."""
    one, other = first.document, second.document
    parents = {one.parent, other.parent}
    topics = {one.topic, other.topic}
    return (
        one.project == other.project
        and (len(parents) == 1 or None in parents)
        and (len(topics) == 1 or None in topics)
        and one.id != other.id
    )


def _older_first(first: Document, second: Document) -> tuple[Document, Document]:
    older, newer = sorted((first, second), key=lambda row: (row.event_at or 0, row.created_at))
    return older, newer


def _worth(row: Document) -> tuple[object, ...]:
    """Return what decides which of two repeats stays: what others have said about it, then age."""
    told = (row.pinned, row.parent is not None, row.topic is not None, row.importance or 0.5)
    return (not trust.outranks("trusted", row.trust), *told, len(row.tags), -row.created_at, row.id)


def _why_not_both(old: StatedFact, new: StatedFact, older: Document, newer: Document) -> str:
    when = "later" if (newer.event_at or 0) > (older.event_at or 0) else "other"
    what = statements.difference(old, new)
    return f"the {when} text ({newer.id[:SHORT_ID]}) has another value: {what}"


def _values_by_frame(listed: Sequence[StatedFact]) -> dict[str, set[object]]:
    values: dict[str, set[object]] = {}
    for states in listed:
        values.setdefault(states.frame, set()).add(states.values)
    return values


def _has_name(text: str, words: str) -> bool:
    """Tell whether one of these words is a name: it is capitalised inside of a sentence."""
    capitalised = {
        word.strip(".,;:!?()\"'").lower() for word in text.split()[1:] if word[0].isupper()
    }
    return not capitalised.isdisjoint(words.split())


def _cosine(first: Sequence[float], second: Sequence[float]) -> float:
    dot = sum(one * other for one, other in zip(first, second, strict=True))
    norms = sum(one * one for one in first) * sum(one * one for one in second)
    return dot / norms**0.5 if norms else 0.0
