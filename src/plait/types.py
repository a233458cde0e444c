"""The words of plait as values: documents, passages, queries, filters, hits and receipts.

Named tuples, not dataclasses: ``dataclasses`` imports ``inspect``, which alone costs a search
7 of its 90 milliseconds. Times are UTC milliseconds here; doors show them local, with offset.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

Kind = Literal["file", "note", "observation", "entity", "message"]
MemoryType = Literal["semantic", "procedural", "episodic"]
Origin = Literal["user", "agent", "tool", "file", "web", "import"]
Trust = Literal["trusted", "untrusted", "quarantined"]
Mode = Literal["hybrid", "keyword", "vector"]
Fusion = Literal["weighted", "rrf", "seed001"]
TextKind = Literal["query", "passage"]
Branch = Literal["keyword", "vector", "hybrid"]

KINDS: tuple[Kind, ...] = ("file", "note", "observation", "entity", "message")
MEMORY_TYPES: tuple[MemoryType, ...] = ("semantic", "procedural", "episodic")
ORIGINS: tuple[Origin, ...] = ("user", "agent", "tool", "file", "web", "import")
TRUSTS: tuple[Trust, ...] = ("trusted", "untrusted", "quarantined")
MODES: tuple[Mode, ...] = ("hybrid", "keyword", "vector")
FUSIONS: tuple[Fusion, ...] = ("weighted", "rrf", "seed001")

# Which files of a folder count unless told otherwise.
FILE_PATTERNS = ("*.md", "*.markdown", "*.txt", "*.rst", "*.org")

# Keys of entities are names of things, keys of notes are names of texts: they must not meet.
ENTITY_SOURCE = "entity"
DEFAULT_ENTITY_TYPE = "Generic"

# The store's own number of a passage: stable, never reused, meaningless outside its memory.
Ref = int


# Embedders that have no choice of models.
ONE_MODEL = ("none", "builtin", "hashing")


class Space(NamedTuple):
    """Which vectors may be compared: two spaces that differ in any field never mix."""

    provider: str
    model: str
    dims: int
    host: str = ""
    revision: str = ""
    prefix: str = ""
    normalisation: str = "l2"

    def __str__(self) -> str:
        """``provider:model`` with its size, as people write it."""
        size = f" ({self.dims} dims)" if self.dims else ""
        return f"{self.provider}:{self.model}{size}"

    def beside(self, other: "Space") -> str:
        """As people write it, with what else tells it from another one.

        >>> here, there = (Space("ollama", "e5", 384, host=host) for host in ("here", "there"))
        >>> here.beside(there)
        'ollama:e5 (384 dims), host here'
        """
        fields = ("host", "revision", "prefix", "normalisation")
        unlike = [name for name in fields if getattr(self, name) != getattr(other, name)]
        same_name = (self.provider, self.model) == (other.provider, other.model)
        details = [f"{name} {getattr(self, name) or 'none'}" for name in unlike if same_name]
        return ", ".join([str(self), *details])

    @property
    def spec(self) -> str:
        """What to write into the settings to get this embedder.

        >>> Space("ollama", "nomic-embed-text", 768).spec, Space("builtin", "en", 256).spec
        ('ollama:nomic-embed-text', 'builtin')
        """
        if self.provider == "custom":
            return f"custom:{self.host}#{self.model}"
        return self.provider if self.provider in ONE_MODEL else f"{self.provider}:{self.model}"


class Tuning(NamedTuple):
    """What an embedder knows about itself: how far to trust it and how to call it.

    ``floor`` and ``ceiling`` are the cosines at which its vectors mean "unrelated" and "the same".
    ``external``: somebody else's model. It may be slow, fail or change under the same name, so it
    works beside the keyword search, its vectors are cached and a sample of them is checked.
    """

    keyword_weight: float = 0.6
    vector_weight: float = 0.4
    floor: float = 0.2
    ceiling: float = 0.8
    external: bool = False
    max_chars: int = 8_000


# Characters. Shorter passages are fragments of sentences.
MIN_CUT_SIZE = 50


class Cut(NamedTuple):
    """How texts are cut into passages, in characters; ``rules`` counts up when chunking changes."""

    size: int = 1200
    overlap: int = 120
    rules: int = 1

    @property
    def identity(self) -> str:
        """What is stored beside the passages, so that a change is noticed.

        >>> Cut(512, 50).identity
        '1:512:50'
        """
        return f"{self.rules}:{self.size}:{self.overlap}"


class Passage(NamedTuple):
    """A piece of a document. ``start`` is its character offset in the document's body."""

    text: str
    heading: str = ""
    start_line: int = 1
    end_line: int = 1
    start: int = 0
    ordinal: int = 0
    id: str = ""
    ref: Ref = 0


class Document(NamedTuple):
    """What was put in. ``text`` is whole when it comes from ``get`` or goes into the store.

    ``event_at`` is when it happened; ``None`` only on the way in, while nobody has said.
    """

    id: str = ""
    key: str | None = None
    kind: Kind = "note"
    title: str = ""
    text: str = ""
    path: str | None = None
    source: str = ""
    project: str | None = None
    memory_type: MemoryType | None = None
    type: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = MappingProxyType({})
    summary: str | None = None
    origin: Origin = "user"
    trust: Trust = "trusted"
    session: str | None = None
    parent: str | None = None
    topic: str | None = None
    supersedes: str | None = None
    importance: float | None = None
    pinned: bool = False
    created_at: int = 0
    updated_at: int = 0
    event_at: int | None = None
    valid_from: int | None = None
    valid_to: int | None = None
    size: int | None = None
    mtime: int | None = None
    sha256: str | None = None
    indexed_at: int = 0
    chunk_count: int = 0

    @property
    def doc_id(self) -> str:
        """The caller's name for the document, or its id where the caller gave none."""
        return self.key or self.id


class Filter(NamedTuple):
    """Which documents count. Every field that is set must hold; ``None`` and ``()`` mean "any".

    ``projects`` holds the wanted projects, ``None`` among them meaning personal; as a whole
    ``None`` it means every project. ``tags`` must all be present. ``since`` is inclusive and
    ``until`` exclusive, both on ``event_at``. ``as_of`` picks what was valid at that moment;
    without it only what is valid now counts, unless ``all_versions``. ``parents`` are ids of
    entities whose observations are meant.
    """

    projects: tuple[str | None, ...] | None = None
    kinds: tuple[Kind, ...] = ()
    memory_types: tuple[MemoryType, ...] = ()
    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    key_prefix: str | None = None
    path_prefix: str | None = None
    source: str | None = None
    session: str | None = None
    origins: tuple[Origin, ...] = ()
    trusts: tuple[Trust, ...] = ("trusted", "untrusted")
    metadata: tuple[tuple[str, str], ...] = ()
    since: int | None = None
    until: int | None = None
    as_of: int | None = None
    all_versions: bool = False
    parents: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


class Term(NamedTuple):
    """One thing to look for: a word, a phrase of several words, a prefix, or words near each other.

    ``near`` is the largest number of words between them; 0 means an ordinary word or phrase.
    """

    words: tuple[str, ...]
    prefix: bool = False
    near: int = 0


class Group(NamedTuple):
    """Terms and groups joined by one operator; for ``not`` the first part minus all the others."""

    operator: Literal["and", "or", "not"]
    parts: "tuple[Term | Group, ...]"


Expression = Term | Group


class Query(NamedTuple):
    """A search string, read once and always valid.

    ``words`` are the content words in order (stop words dropped where enough remain): the bag that
    is joined by OR, ranked, highlighted and counted for relevance. ``expression`` says it in
    operators where a bag of words would not do; ``strict`` means that the caller wrote them, so
    that nothing else may come back, from either branch.
    """

    text: str
    words: tuple[str, ...] = ()
    expression: Expression | None = None
    strict: bool = False


class Signals(NamedTuple):
    """The numbers behind one hit. ``None`` means that this signal said nothing about it.

    ``bm25`` and ``cosine`` are raw; ``keyword`` and ``vector`` are what entered the score;
    ``coverage`` is the idf-weighted share of the query's words found in the passage.
    """

    bm25: float | None = None
    cosine: float | None = None
    keyword: float | None = None
    vector: float | None = None
    keyword_rank: int | None = None
    vector_rank: int | None = None
    coverage: float = 0.0
    matched: tuple[str, ...] = ()


class Hit(NamedTuple):
    """A passage with its order (``score``), its evidence (``relevance``) and the reasons."""

    passage: Passage
    document: Document
    score: float
    relevance: float
    source: Branch
    snippet: str = ""
    highlights: tuple[tuple[int, int], ...] = ()
    signals: Signals = Signals()
    reasons: tuple[str, ...] = ()
    context: str | None = None
    superseded_by: str | None = None
    entity: str | None = None

    @property
    def id(self) -> str:
        """The passage's id, for ``get``."""
        return self.passage.id

    @property
    def doc_id(self) -> str:
        """The document's key, or its id where it has none."""
        return self.document.doc_id

    @property
    def chunk_id(self) -> str:
        """``{doc_id}-{index}``, counted from 0."""
        return f"{self.document.doc_id}-{self.passage.ordinal}"

    @property
    def chunk_rowid(self) -> int:
        """A number that stays with the passage."""
        return self.passage.ref

    @property
    def heading(self) -> str:
        """The headings above the passage, ``H1 > H2 > H3``; for a fact, what it is about."""
        return self.passage.heading or self.entity or ""

    @property
    def text(self) -> str:
        """The passage, with its neighbours where a window was asked for."""
        return self.passage.text if self.context is None else self.context

    @property
    def content(self) -> str:
        """The same text under the name that users of the seed systems know."""
        return self.text

    @property
    def file_path(self) -> str | None:
        """Where the file lay when it was read; ``None`` for stored text."""
        return self.document.path

    @property
    def file_title(self) -> str:
        """The document's title."""
        return self.document.title

    @property
    def memory_type(self) -> MemoryType | None:
        """semantic, procedural or episodic, where known."""
        return self.document.memory_type

    @property
    def start_line(self) -> int:
        """First line, counted from 1."""
        return self.passage.start_line

    @property
    def end_line(self) -> int:
        """Last line."""
        return self.passage.end_line


class Receipt(NamedTuple):
    """What an answer cost and how far it can be trusted."""

    query: str = ""
    mode_asked: Mode = "hybrid"
    mode_used: Mode = "hybrid"
    fusion: Fusion = "weighted"
    keyword_weight: float = 1.0
    vector_weight: float = 0.0
    degraded: tuple[str, ...] = ()
    keyword_candidates: int = 0
    vector_candidates: int = 0
    candidates: int = 0
    pending_vectors: int = 0
    indexed_at: int | None = None
    milliseconds: float = 0.0
    tokens: int = 0


class Answer(tuple[Hit, ...]):
    """The hits, best first, and the receipt. It is a tuple: iterate, index and count it."""

    receipt: Receipt

    def __new__(
        cls, hits: "tuple[Hit, ...] | list[Hit]" = (), receipt: Receipt | None = None
    ) -> "Answer":
        """Join hits and receipt."""
        answer = super().__new__(cls, hits)
        answer.receipt = receipt or Receipt()
        return answer

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The hits as a plain tuple."""
        return tuple(self)


class Near(NamedTuple):
    """A stored observation that says almost the same as a new one."""

    id: str
    similarity: float
    snippet: str = ""
    reason: str = ""
    differences: tuple[str, ...] = ()


class Stored(NamedTuple):
    """What ``store`` did.

    ``matched`` is what says the same already, ``superseded`` what this text closed, ``beside`` the
    trusted texts that it contradicts and may not close, ``near`` what says almost the same.
    ``recalled``: the text came out of this memory, so that nothing was written; ``shortened``: a
    part of it did, and was left out.
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


class NewEntity(NamedTuple):
    """An entity on its way in; without a type, a known one keeps its own."""

    name: str
    type: str | None = None
    observations: tuple[str, ...] = ()


class Relation(NamedTuple):
    """A typed edge between two entities, by their names; ``valid_to`` is exclusive."""

    source: str
    target: str
    type: str
    context: str | None = None
    created_at: int = 0
    valid_from: int | None = None
    valid_to: int | None = None
    source_id: str = ""
    target_id: str = ""


class Imported(NamedTuple):
    """What ``import`` did; ``kept`` counts what the memory had already, as new or newer.

    ``unknown`` names the fields of another program's file that were left out.
    """

    added: int = 0
    replaced: int = 0
    kept: int = 0
    relations: int = 0
    unknown: tuple[str, ...] = ()


Outcome = Literal["added", "changed", "unchanged", "removed", "skipped", "failed"]


class FileReport(NamedTuple):
    """What became of one file."""

    path: str
    outcome: Outcome
    chunks: int = 0
    reason: str = ""


class IngestReport(NamedTuple):
    """What ``ingest`` did, file by file. ``ignored`` counts files of other types."""

    reports: tuple[FileReport, ...] = ()
    ignored: int = 0
    pending: int = 0
    interrupted: bool = False

    def count(self, *outcomes: Outcome) -> int:
        """How many files ended in one of these ways."""
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
    """One line of ``doctor``: what was looked at, whether it is well, and what to do if not."""

    check: str
    level: Literal["ok", "warning", "error"]
    message: str
    fixed: bool = False
