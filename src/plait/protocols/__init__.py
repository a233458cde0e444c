"""The storage interface that every engine implements: `Store` and its `Transaction`.

A `Store` reads; its `Transaction` changes, so that what was read inside is still true when it is
written. Neither knows what a fact or a profile means: `plait.facts` decides, `plait.writing` calls.
Only interfaces and the values that cross them are here; an engine belongs in `plait.stores`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from plait.errors import Notice
from plait.types import Document, Filter, Passage, Ref, Space
from plait.types.queries import Chance, Query, Spelling, Terms, Turn, Vocabulary
from plait.types.records import NamedTuple

if TYPE_CHECKING:
    # Others import them from here; see ``__getattr__``.
    from plait.protocols.ahead import ReadAhead as ReadAhead
    from plait.protocols.transaction import Transaction as Transaction
    from plait.types.audit import AuditEntry, AuditQuery
    from plait.types.relations import Relation
    from plait.types.reports import DocumentUsage, Finding, Stats
    from plait.types.steps import Step, StepName, StepTaken
    from plait.types.visibility import Visibility

    Vector = array[float]  # float32, unit length or not: cosine is scale-free
else:
    Vector = array  # Python 3.11's array cannot be subscripted
Scored = tuple[Ref, float]
# A token of a text: first and last character (exclusive) and the term it is indexed under.
Token = tuple[int, int, str]
# How passages were read and judged, by their ids, and read together, by two ids and a space.
PassageUse = Mapping[str, tuple[int, ...]]
# The messages that come after each question, with their places.
Replies = Mapping[Ref, Iterable[tuple[Ref, Turn]]]
# A message after another one, its passage if it is a single one, and whether a filter selects it.
Following = tuple[Document, Passage | None, bool]


class Entry(NamedTuple):
    """A document to write. ``vectors`` has one entry per passage; ``None`` stays pending."""

    document: Document
    passages: Sequence[Passage]
    vectors: Sequence[Vector | None] = ()
    space: Space | None = None
    declined: frozenset[int] = frozenset()  # ordinals of passages that stay keyword-only
    steps: Sequence[Step] | None = None  # ``None``: the stored ones stay with the same text
    use: PassageUse = MappingProxyType({})
    visibility: Visibility | None = None  # who shall see it; ``None``: as the caller wants all
    is_new: bool = False  # no document is known that it replaces; its id, if any, was made for it


class Use(NamedTuple):
    """How a passage was read; ``together`` gives (times, last) for each passage read with it.

    ``degree`` counts the current relations of its entity, ``good`` and ``wrong`` the feedback.
    """

    reads: int = 0
    days: int = 0
    last_read: int | None = None
    degree: int = 0
    good: int = 0
    wrong: int = 0
    together: Mapping[Ref, tuple[int, int]] = MappingProxyType({})


class Candidate(NamedTuple):
    """A passage with everything that ranking needs, read in one query."""

    passage: Passage
    document: Document  # without its text
    tokens: Sequence[Token] = ()
    name_terms: frozenset[str] = frozenset()  # of the title, the heading and the tags
    use: Use | None = None
    superseded_by: str | None = None
    entity: str | None = None  # the name of the document's parent, where that was read, too


class Nearest(NamedTuple):
    """The nearest passages, best first, and the cosines of these and of other requested ones."""

    hits: list[Scored]
    cosines: dict[Ref, float]
    among: int | None = None  # how many passages the filter selects, if that is known
    approximate: bool = False  # a few of the nearest may be missing, as in very large memories


class Unembedded(NamedTuple):
    """A passage that waits for its vector, with the fields that the embedder may see."""

    ref: Ref
    title: str
    heading: str
    text: str


class State(NamedTuple):
    """The state of a memory, read in one query.

    ``analyzer`` is the engine's own; ``indexed_by``, ``chunker`` and ``embedder`` are those of the
    memory's first write. ``space`` and ``sample`` belong to the vectors that answer searches,
    ``building…`` to those being made beside them. ``changed_at``: when a fact last replaced one;
    the present is never earlier. ``profiles_due``: when a profile is next outdated; ``purged`` and
    ``unscrubbed``: of the latest purge, and of one whose bytes may be there; ``retired``: the key
    of the marks of files that rules removed; ``vector_damage``, ``vectorless``: why vectors are
    not.
    """

    analyzer: str
    indexed_by: str | None = None
    chunker: str | None = None
    embedder: str | None = None
    space: Space | None = None
    sample: Vector | None = None
    building: Space | None = None
    building_sample: Vector | None = None
    pending: int = 0
    indexed_at: int | None = None
    changed_at: int | None = None
    profiles_due: int | None = None
    has_messages: bool = False
    passages: int = 0
    chance: Chance | None = None  # a sample of the current vectors
    purged: str | None = None
    unscrubbed: str | None = None
    retired: str | None = None
    vector_damage: str | None = None
    vectorless: Notice | None = None
    full: Notice | None = None  # why the memory can only be read, until there is room
    remote: bool = False  # every read is a trip over a network

    def sample_of(self, space: Space, *, building: bool = False) -> Vector | None:
        """Return the sample stored with a space's vectors; ``building``: of the unfinished ones."""
        samples = [(self.space, self.sample), (self.building, self.building_sample)]
        samples = samples[::-1] if building else samples
        return next((sample for name, sample in samples if name == space), None)


class Trashed(NamedTuple):
    """A deleted document, with everything needed to restore it.

    ``batch`` identifies its delete; it is empty if the document can be restored only by id.
    ``place`` orders documents by first writing. ``names`` are the ids of its passages. ``home`` is
    the project in which it was deleted, empty for none; ``None``: that of the document.
    ``version_of`` is the id of the document if this is an earlier version of it, with its own id.
    """

    batch: str
    deleted_at: int
    document: Document
    passages: Sequence[Passage] = ()
    place: int = 0
    names: tuple[str, ...] = ()
    home: str | None = None
    version_of: str = ""
    steps: Sequence[Step] | None = None  # ``None``: the stored ones
    use: PassageUse | None = None  # the same

    @property
    def deleted_in(self) -> str:
        """The project in which it was deleted; empty for none."""
        return (self.document.project or "") if self.home is None else self.home

    @property
    def without_texts(self) -> Trashed:
        """The same without the text and its passages, for what only compares names."""
        document = self.document._replace(text="")
        return self._replace(document=document, passages=(), steps=(), use={})


class Standing(NamedTuple):
    """What decides where an observation stands in the profile of its entity."""

    id: str
    pinned: bool = False
    importance: float | None = None
    event_at: int | None = None


class Rivals(NamedTuple):
    """Observations of one project and entity that a new one may repeat or replace.

    Only those that have not ended before the given moment, in the order of writing.
    ``topic_is_new``: no observation ever had this topic.
    """

    same_text: Sequence[Document] = ()
    same_topic: Sequence[Document] = ()
    topic_is_new: bool = True


class Written(NamedTuple):
    """The result of writing one entry: how many passages, how many without a vector."""

    chunks: int
    pending: int = 0


class Store(Protocol):
    """Keeps documents, passages and vectors; answers by keyword and by vector.

    Searches return only refs and scores, `hydrate` reads the winners; any thread may call these.
    """

    @property
    def ahead(self) -> ReadAhead | None:
        """Several reads in one trip, for a store on another machine; ``None`` for one on this."""

    def state(self) -> State:
        """Return the state of the memory."""

    def keyword(
        self, query: Query, limit: int, where: Filter, *, deadline: float | None = None
    ) -> list[Scored]:
        """Return the best passages by BM25; past ``deadline`` raise `DeadlineExceeded`."""

    def vector(
        self,
        vector: Vector,
        space: Space,
        limit: int,
        where: Filter,
        *,
        also: Sequence[Ref] = (),
        latest: bool = False,
    ) -> Nearest:
        """Return the nearest passages by cosine among vectors of this space only.

        ``also`` lists passages whose cosines are wanted even if they are not near. ``latest``: a
        large memory need not compare all passages, only the latest few thousand.
        """

    def vocabulary(
        self,
        words: Iterable[str],
        where: Filter | None = None,
        *,
        prefixes: Iterable[str] = (),
        seen_by: Filter | None = None,
    ) -> Vocabulary:
        """Return the terms of some words, and how many passages, all or some, contain each.

        Words that few contain, and none that passes the filter ``seen_by``, are ``unseen``.
        """

    def alike(self, words: Iterable[str], where: Filter) -> dict[str, list[Spelling]]:
        """Return the words of visible passages that are spelt like these, nearest first."""

    def turns(self, refs: Sequence[Ref]) -> dict[Ref, Turn]:
        """Return the places of those passages that are whole messages, not parts of one."""

    def replies(self, asked: Sequence[Ref], where: Filter) -> Replies:
        """Return what follows each of these questions, if it is a whole message and may be seen."""

    def hydrate(
        self, refs: Sequence[Ref], *, ranking: bool = False, terms: Terms = None
    ) -> dict[Ref, Candidate]:
        """Read passages with their documents; with ``ranking`` also tokens, use and successors.

        ``terms`` are those whose tokens are wanted; without them, all.
        """

    def passages(self, document: str, first: int = 0, last: int | None = None) -> list[Passage]:
        """Return passages of one document by ordinal, from ``first`` to ``last`` inclusive."""

    def embedded(self, document: Document, passages: Sequence[Passage]) -> frozenset[int]:
        """Return the ordinals of passages that would keep their vector in this document."""

    def known(self, documents: Sequence[Document]) -> list[Document | None]:
        """Return for each document the stored one that it would replace, without its text."""

    def find(self, name: str, where: Filter) -> list[tuple[Document, Passage | None]]:
        """Return what a name refers to among the documents that pass a filter.

        A name is an id, else a key, else a chunk_id, else an id prefix of six or more letters.
        """

    def load(self, ids: Sequence[str]) -> list[Document]:
        """Return whole documents, text included, in the order asked for; unknown ids are absent."""

    def scan(
        self,
        where: Filter,
        *,
        limit: int | None = None,
        before: tuple[int, str] | None = None,
        after: tuple[int, str] | None = None,
        by_writing: bool = False,
        by_turn: bool = False,
        whole: bool = False,
        damaged: list[str] | None = None,
    ) -> list[Document]:
        """Return documents, newest event first, starting after the cursor ``before``.

        With the cursor ``after``: oldest event first. ``by_turn`` takes the place in the session
        instead (see `Document.place`), forwards unless there is a cursor ``before``; ``by_writing``
        the first writing. ``whole`` reads texts too. Documents that cannot be read are named in
        ``damaged``, if it is given; otherwise the first one is an error.
        """

    def steps(
        self, where: Filter, named: StepName | None = None, limit: int | None = None
    ) -> list[StepTaken]:
        """Return steps of documents that pass a filter, newest first."""

    def successors(self, ids: Sequence[str]) -> dict[str, str]:
        """Return for documents that ended the id of what supersedes each, else its topic's next."""

    def relations(
        self, ids: Sequence[str] | None, where: Filter, *, damaged: list[str] | None = None
    ) -> list[Relation]:
        """Return edges with at least one end among these entities, or all; oldest first.

        Those that cannot be read are named in ``damaged``, if given; else the first is an error.
        """

    def usage(self, where: Filter) -> dict[str, DocumentUsage]:
        """Return the sizes of documents that pass a filter, and how they were read, by id."""

    def trashed(self, *, texts: bool = True, distrusted: int | None = None) -> list[Trashed]:
        """Return what can be restored, the latest delete first; without ``texts``: no passages.

        With ``distrusted``, only readable ones that are not trusted, until they have so many.
        """

    def pending(
        self, space: Space, limit: int, *, building: bool, project: str | None = None
    ) -> list[Unembedded]:
        """Return passages, or a project's, without a vector; ``building``: of the next space."""

    def cached(self, names: Sequence[str]) -> dict[str, Vector]:
        """Return vectors that were made before, by the name of their text."""

    def remembered(self, prefix: str) -> dict[str, str]:
        """Return the values of `remember` whose names begin with this prefix."""

    def audit(self, wanted: AuditQuery, limit: int) -> list[AuditEntry]:
        """Return entries of the audit log, the newest first."""

    def transaction(self, *, patient: bool = True) -> AbstractContextManager[Transaction]:
        """Begin a write transaction; `StoreBusy` if another one lasts, or at once if impatient."""

    def sample_chance(self, space: Space, foreign: Sequence[Vector]) -> None:
        """Sample `State.chance` anew, by questions that have nothing to do with the memory."""

    def tidy(
        self, *, keywords: bool = False, compact: bool = False, purged: bool = False
    ) -> tuple[str, ...]:
        """Tidy up after many writes: statistics, journal, what an interrupted purge left.

        ``keywords`` rebuilds the keyword index where that helps, ``compact`` returns free space to
        the disk, ``purged`` removes every trace of what was deleted, and the mark ``unscrubbed``;
        it returns other files beside the store's that may still have some, and is a `StoreBusy`
        if another process keeps the traces in use.
        """

    def stats(self, where: Filter | None = None) -> Stats:
        """Return counts and sizes; with a filter, counts of the documents that pass it."""

    def check(self, *, fix: bool = False) -> list[Finding]:
        """Check the store; with ``fix``, repair what can be repaired."""

    def close(self) -> None:
        """Release every connection."""


def __getattr__(name: str) -> Any:
    """Load what a search does not need when it is first used."""
    if name == "Transaction":
        from plait.protocols.transaction import Transaction

        return Transaction
    if name == "ReadAhead":
        from plait.protocols.ahead import ReadAhead

        return ReadAhead
    raise AttributeError(f"module 'plait.protocols' has no attribute {name!r}")
