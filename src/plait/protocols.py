"""The two seams of plait: what turns text into vectors, and what keeps and finds it."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from plait.types import (
    Deleted,
    Document,
    Filter,
    Finding,
    Passage,
    Query,
    Ref,
    Relation,
    Space,
    Stats,
    TextKind,
)

# float32, unit length or not: cosine is scale-free.
if TYPE_CHECKING:
    Vector = array[float]
else:
    Vector = array  # Python 3.11's array cannot be subscripted
Scored = tuple[Ref, float]
Belongs = Literal["make", "known", "new"]
# A token of a text: first and last character (exclusive) and the term it is indexed under.
Token = tuple[int, int, str]


class Embedder(Protocol):
    """Text to vectors.

    Optional: ``tuning`` (`plait.types.Tuning`) carries its own defaults; ``check()`` gives doctor
    findings; ``at_hand(text)`` gives the vector of a query that needs no work; ``forget_dims()``
    lets go of a length that was only assumed; ``doubt()`` says that a new act of writing begins.
    """

    @property
    def space(self) -> Space:
        """Identity of the vectors, stored beside every one; its ``dims`` are 0 until known."""

    @property
    def dims(self) -> int | None:
        """Length of a vector; 0: this embedder makes none; ``None``: the first one will tell."""

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        """One vector per text, in order.

        Raises:
            EmbedderError: The embedder is down or answered nonsense.
        """


class Entry(NamedTuple):
    """A document on its way in. ``vectors`` runs beside ``passages``; ``None`` stays pending."""

    document: Document
    passages: Sequence[Passage]
    vectors: Sequence[Vector | None] = ()
    space: Space | None = None
    # Ordinals of passages that the embedder itself declined: they stay keyword-only, not pending.
    declined: frozenset[int] = frozenset()
    # The stored document that this one was made from: where the memory holds another by now, or
    # none, nothing is written, and `Written.replaced` stays false.
    expects: Document | None = None
    # The name of the entity that an observation belongs to, and what to do where there is none:
    # make it, refuse, or write only if this very transaction made it.
    entity: str | None = None
    belongs: "Belongs" = "make"


class Written(NamedTuple):
    """What became of one entry."""

    id: str
    chunks: int
    replaced: bool = False
    duplicate: bool = False
    pending: int = 0
    superseded: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    parent: str | None = None


class Use(NamedTuple):
    """How a passage was used; ``degree`` counts the current relations of its entity."""

    reads: int = 0
    days: int = 0
    last_read: int | None = None
    degree: int = 0


class Uses(NamedTuple):
    """What is known of the use of some passages, and of their use together (times, last)."""

    of: Mapping[Ref, Use]
    together: Mapping[tuple[Ref, Ref], tuple[int, int]]


class Pending(NamedTuple):
    """A passage that waits for its vector, with all that the embedder may see of it."""

    ref: Ref
    title: str
    heading: str
    text: str


class Store(Protocol):
    """Keeps documents, passages and vectors; answers by keyword and by vector.

    Both searches return refs and scores only; `passages` hydrates the winners in one query.
    Every method may be called from any thread.
    """

    @property
    def analyzer(self) -> str:
        """Identity of the terms in the keyword index."""

    def put(self, entries: Sequence[Entry], *, turn: int | None = None) -> list[Written]:
        """Write each document whole, replacing the one of the same id or (project, source, key).

        A file also replaces the one of the same path, and takes its own name there. All entries
        are one transaction. Passages whose hash is unchanged keep id, ref and vector. With the
        latest ``turn`` of the memory that the entries come from, the present is no earlier than
        that, as far as clocks may differ.
        """

    def delete(self, ids: Sequence[str], *, purge: bool = False, undoable: bool = True) -> Deleted:
        """Remove documents and their index entries; keep a trash row unless ``purge``.

        Without ``undoable`` what was removed comes back only by its id. A purge also empties the
        trash of these ids, and reports what lay there alone.
        """

    def trashed(self) -> list[tuple[str, int, Document]]:
        """What can be brought back: (batch, deleted_at, document), newest first.

        The batch is empty for what comes back by its id only.
        """

    def trashed_as(self, name: str) -> list[str]:
        """Ids of deleted documents that a name stands for, as `find` would have read it before."""

    def restore(self, ids: Sequence[str] = ()) -> list[Document]:
        """Bring documents back from the trash; without ids, those of the latest delete.

        What cannot come back because a newer document has its name, or says the same, stays in the
        trash for its id only, so that the next call without ids reaches an older delete.
        """

    def keyword(
        self, query: Query, limit: int, where: Filter, *, deadline: float | None = None
    ) -> list[Scored]:
        """Best passages by BM25, higher is better.

        Raises:
            DeadlineExceeded: ``deadline`` (`time.monotonic`) has passed.
        """

    def vector(self, vector: Vector, space: Space, limit: int, where: Filter) -> list[Scored]:
        """Nearest passages by cosine, exact, among vectors of this space only."""

    def cosines(self, vector: Vector, space: Space, refs: Sequence[Ref]) -> dict[Ref, float]:
        """Cosine for these passages; those without a vector are absent."""

    def tokens(self, text: str) -> list[Token]:
        """The terms this memory's analyzer makes of a text, with their places."""

    def frequencies(self, terms: Iterable[str]) -> tuple[int, dict[str, int]]:
        """Number of passages in all, and how many hold each term."""

    def passages(self, refs: Sequence[Ref]) -> dict[Ref, tuple[Passage, Document]]:
        """Hydrate: passages with their documents (without the documents' text)."""

    def sessions(self, refs: Sequence[Ref]) -> dict[Ref, str]:
        """The session of each of these passages that is a whole message of one; others are absent.

        A message that was cut into several passages is no turn of a conversation.
        """

    def neighbours(self, document: str, ordinal: int, window: int) -> list[Passage]:
        """Passages of one document from ``ordinal - window`` to ``ordinal + window``."""

    def find(self, name: str, where: Filter) -> list[tuple[Document, Passage | None]]:
        """Documents and passages named by id, id prefix (six or more), chunk_id or key."""

    def load(self, ids: Sequence[str]) -> list[Document]:
        """Whole documents, text included, in the order asked for; unknown ids are left out."""

    def successors(self, ids: Sequence[str]) -> dict[str, str]:
        """What took the place of each of these documents, by id; those that still hold are absent.

        That is what supersedes it, else what began to hold of its topic when it ceased to.
        """

    def scan(
        self,
        where: Filter,
        *,
        limit: int | None = None,
        before: tuple[int, str] | None = None,
        after: tuple[int, str] | None = None,
    ) -> list[Document]:
        """Documents without text, newest event first, starting after the cursor ``before``.

        With the cursor ``after`` it goes the other way: what followed it, oldest event first.
        """

    def in_order(self, where: Filter, *, whole: bool = True) -> list[Document]:
        """Documents in the order in which they were first written, text included if ``whole``."""

    def latest_turn(self) -> int | None:
        """When one fact last took the place of another; the present is never before that."""

    def relate(self, relations: Sequence[Relation], project: str | None) -> list[bool]:
        """Join entities of one project, all in one transaction; whether each edge is new.

        Raises:
            NotFound: An end does not exist; nothing is written.
        """

    def unrelate(
        self, relations: Sequence[Relation], project: str | None, *, end: int | None = None
    ) -> int:
        """Remove current edges, or end them at a moment; how many there were."""

    def relations(self, ids: Sequence[str] | None, where: Filter) -> list[Relation]:
        """Edges with at least one end among these entities, or all; oldest first."""

    def touch(self, answers: Sequence[Sequence[Ref]]) -> None:
        """Count passages as read, those of one answer as read together; untrusted ones never.

        It is only a statistic: when the memory is busy, nothing happens.
        """

    def uses(self, refs: Sequence[Ref]) -> Uses:
        """How these passages were used so far."""

    def known(
        self, document: Document, passages: Sequence[Passage] = ()
    ) -> tuple[Document | None, frozenset[int]]:
        """The document that ``put`` would replace, and which of the passages have their vector."""

    def pending_count(self) -> int:
        """How many passages wait for a vector in the current generation."""

    def pending(
        self, space: Space, after: Ref, limit: int, *, answering: bool = False
    ) -> list[Pending]:
        """Passages without a vector in the generation of this space, in order of ref.

        That is the one in the wings where there is one; with ``answering``, the current one.
        """

    def fill(
        self,
        space: Space,
        vectors: Sequence[tuple[Ref, Vector | None]],
        *,
        upto: Ref | None = None,
        answering: bool = False,
    ) -> int:
        """Write vectors for passages that still exist; ``None`` marks one as keyword-only."""

    def cached(self, names: Sequence[str]) -> dict[str, Vector]:
        """Vectors that were made before, by the name of their text."""

    def cache(self, vectors: Mapping[str, Vector], used: Iterable[str], most: int) -> None:
        """Keep vectors for texts that come again, the ``most`` last used ones.

        It is only a cache: when the memory is busy, nothing happens.
        """

    def marked(self, space: Space, *, building: bool = False) -> Vector | None:
        """The sample vector kept with a space's vectors; ``building``: with those in the wings."""

    def space(self) -> Space | None:
        """The space whose vectors answer searches; ``None`` while the memory has none."""

    def begin(
        self,
        space: Space,
        *,
        anew: bool = False,
        sample: Vector | None = None,
        resume: bool = True,
    ) -> bool:
        """Make sure a generation for this space is there to be filled; true when it is current.

        With ``anew`` a second one is begun beside the current one of the same space. ``sample`` is
        kept with a new one. Without ``resume`` one that was left unfinished is thrown away.

        Raises:
            EmbedderError: Nobody knows yet how long the vectors are.
        """

    def swap(self, space: Space) -> bool:
        """Make this space's generation current if it has seen every passage; drop the others."""

    def rebuild_keywords(self, *, force: bool = False) -> int:
        """Rebuild the keyword index from the passages in one transaction; their number.

        A store may leave a large index that serves well as it is, unless ``force``.
        """

    def settle(self) -> None:
        """Call after bulk writing: refreshes statistics and shortens the journal."""

    def compact(self) -> None:
        """Give free pages back to the file system."""

    def meta(self, name: str) -> str | None:
        """A fact about the memory (analyzer, chunker, space …)."""

    def set_meta(self, name: str, value: str) -> None:
        """Remember a fact about the memory."""

    def stats(self) -> Stats:
        """Counts and sizes."""

    def check(self, *, fix: bool = False) -> list[Finding]:
        """Look the store over; with ``fix``, mend what can be mended."""

    def backup(self, target: str) -> None:
        """Write a consistent copy, safe under load."""

    def newest(self) -> int | None:
        """When a document was last indexed."""

    def close(self) -> None:
        """Release every connection."""
