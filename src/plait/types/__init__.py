"""The data types of plait: documents, passages, queries, filters, hits and receipts.

Named tuples, not dataclasses: ``dataclasses`` imports ``inspect``, which alone costs a search
7 of its 90 milliseconds. Times are UTC milliseconds; the interfaces show local time with offset.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from plait.errors import Notice, UsageError, is_plain_name, refused_choice
from plait.types.records import NamedTuple

# ``None`` is that of personal documents.
Project = str | None
Kind = Literal["file", "note", "observation", "entity", "message"]
MemoryType = Literal["semantic", "procedural", "episodic"]
Origin = Literal["user", "agent", "tool", "file", "web", "import"]
Trust = Literal["trusted", "untrusted", "quarantined"]
DocumentStatus = Literal["active", "done", "archived"]
Mode = Literal["hybrid", "keyword", "vector"]
Fusion = Literal["weighted", "rrf", "max"]
# The names that callers may use, with those of earlier versions and other systems.
ModeName = Literal["hybrid", "keyword", "vector", "fts", "vec"]
FusionName = Literal["weighted", "rrf", "max", "seed001"]
TextKind = Literal["query", "passage"]
Branch = Literal["keyword", "vector", "hybrid"]

KINDS: tuple[Kind, ...] = ("file", "note", "observation", "entity", "message")
MEMORY_TYPES: tuple[MemoryType, ...] = ("semantic", "procedural", "episodic")
ORIGINS: tuple[Origin, ...] = ("user", "agent", "tool", "file", "web", "import")
TRUSTS: tuple[Trust, ...] = ("trusted", "untrusted", "quarantined")
STATUSES: tuple[DocumentStatus, ...] = ("active", "done", "archived")
MODES: tuple[Mode, ...] = ("hybrid", "keyword", "vector")
FUSIONS: tuple[Fusion, ...] = ("weighted", "rrf", "max")
# Other names for them, from earlier versions.
FUSION_ALIASES: Mapping[str, str] = MappingProxyType({"seed001": "max"})

# What a text's writer may say of its making; kept in the metadata under these names.
PROVENANCE = ("model", "tool", "branch", "commit")

_Choice = TypeVar("_Choice", bound=str)


def check_choice(name: str, value: str, allowed: Sequence[_Choice]) -> _Choice:
    """Check that a value is one of those allowed, and return it.

    Raises:
        UsageError: It is not.
    """
    for choice in allowed:
        if choice == value:
            return choice
    raise refused_choice(name, value, allowed)


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Refuse a number outside its range.

    Raises:
        UsageError: It is too small or too large.
    """
    if not least <= value <= most:
        raise UsageError(
            f"{name} is {value:,}; choose {least:,} to {most:,}.", code="bad_value", subject=name
        )


# The largest turn number that may be given: programs count in microseconds, but not beyond.
MAX_TURN = 2**53
# In the order of a session: other documents come after all messages.
AFTER_TURNS = 2**62
MIN_CUT_SIZE = 50  # characters; shorter passages are fragments of sentences
# Which files of a folder count unless told otherwise: what people write and read, not code.
_ENDINGS = "md markdown txt rst org html htm ipynb docx srt vtt"
FILE_PATTERNS = tuple(f"*.{ending}" for ending in _ENDINGS.split())

# Fields of the metadata with other names of a note, as Obsidian writes them.
ALIAS_FIELDS = ("aliases", "alias")
DEFAULT_ENTITY_TYPE = "Generic"

# The store's own number of a passage: stable and never reused. Opaque: compare it, nothing else.
Ref = int

# Embedders that have no choice of models.
ONE_MODEL = ("none", "builtin", "hashing")


class Space(NamedTuple):
    """Which vectors may be compared: vectors of two spaces that differ in any field never mix."""

    provider: str
    model: str
    dims: int
    host: str = ""
    revision: str = ""
    prefix: str = ""
    normalisation: str = "l2"

    def __str__(self) -> str:
        """``provider:model`` with its size, as people write it.

        It may come out of somebody else's file and goes into sentences: odd names are left out.
        """
        size = f" ({self.dims} dims)" if self.dims else ""
        name = f"{self.provider}:{self.model}"
        return f"{name if is_plain_name(name) else 'an embedder with an odd name'}{size}"

    def beside(self, other: "Space") -> str:
        """Return it as people write it, with the fields that distinguish it from another one.

        >>> here, there = (Space("ollama", "e5", 384, host=host) for host in ("here", "there"))
        >>> here.beside(there)
        'ollama:e5 (384 dims), host here'
        """
        fields = ("host", "revision", "prefix", "normalisation")
        unlike = [name for name in fields if getattr(self, name) != getattr(other, name)]
        same_name = (self.provider, self.model) == (other.provider, other.model)
        values = [(name, getattr(self, name) or "none") for name in unlike if same_name]
        details = [f"{name} {value if is_plain_name(value) else '…'}" for name, value in values]
        return ", ".join([str(self), *details])

    @property
    def spec(self) -> str:
        """The setting that selects this embedder.

        >>> Space("ollama", "nomic-embed-text", 768).spec, Space("builtin", "en", 256).spec
        ('ollama:nomic-embed-text', 'builtin')
        """
        if self.provider == "custom":
            return f"custom:{self.host}#{self.model}"
        return self.provider if self.provider in ONE_MODEL else f"{self.provider}:{self.model}"


class Tuning(NamedTuple):
    """The defaults of an embedder: how far to trust it and how to call it.

    ``unrelated`` and ``spread`` are the `Chance` among 1,000 passages, until a memory has its own.
    ``external``: a third-party model. It may be slow, fail or change under the same name, so it
    runs in parallel to keyword search, its vectors are cached, and a sample is checked.
    """

    keyword_weight: float = 0.6
    vector_weight: float = 0.4
    unrelated: float = 0.3
    spread: float = 0.06
    external: bool = False
    max_chars: int = 8_000


class Cut(NamedTuple):
    """How texts are cut into passages, in characters; ``rules`` counts up when chunking changes.

    Unless it was ``chosen``, a memory keeps the sizes of its first write.
    """

    size: int = 1200
    overlap: int = 120
    rules: int = 1
    chosen: bool = False

    def for_memory(self, built: str | None) -> "Cut":
        """Return the sizes to use in a memory whose first write used ``built``.

        >>> Cut().for_memory("1:512:50").size, Cut(900, 0, chosen=True).for_memory("1:512:50").size
        (512, 900)
        """
        # A damaged file may have anything here.
        sizes = [int(part) for part in (built or "")[:40].split(":") if part.isdecimal()]
        fits = not self.chosen and len(sizes) == 3 and sizes[2] * 2 < sizes[1] >= MIN_CUT_SIZE
        return Cut(sizes[1], sizes[2]) if fits and sizes[0] == self.rules else self

    @property
    def identity(self) -> str:
        """The form stored with the passages, to detect a change.

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
    """A stored text. ``text`` is complete when it comes from ``get`` or goes into the store.

    ``event_at`` is when it happened, ``None`` before it is stored. ``status`` ``None`` is active.
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
    role: str | None = None
    turn: int | None = None
    parent: str | None = None
    topic: str | None = None
    supersedes: str | None = None
    importance: float | None = None
    pinned: bool = False
    status: DocumentStatus | None = None
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
        """The caller's name for the document, or its id if it has none."""
        return self.key or self.id

    @property
    def place(self) -> tuple[int, str]:
        """The place in its session: messages by their turns, then all else by its time.

        >>> Document(id="a", turn=3, event_at=9).place < Document(id="b", event_at=1).place
        True
        """
        number = AFTER_TURNS + (self.event_at or 0) if self.turn is None else self.turn
        return number, self.id

    def to_dict(self) -> dict[str, Any]:
        """Return it as ``plait get --json`` prints it without its links, for `json.dumps`."""
        from plait.types.shapes import document_dict

        return document_dict(self)

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names of a note, as its metadata lists them."""
        return tuple(self.metadata[name] for name in ALIAS_FIELDS if name in self.metadata)


class Filter(NamedTuple):
    """Selects documents. Every field that is set must match; ``None`` and ``()`` mean "any".

    ``projects`` has ``None`` for personal documents. ``tags`` must all be present. ``since`` is
    inclusive, ``until`` exclusive, both on ``event_at``. ``as_of`` selects facts valid then,
    else only current ones count, unless ``all_versions``. ``parents`` are ids of entities.
    ``pinned`` selects pinned ones or the others. Without ``scopes``, those of users do not count.
    A tag also selects those below it: ``ops`` selects ``ops/ssh``. ``named`` are parts of a key or
    of the aliases, ``mentions`` words of the text, as written, but for the case of ASCII letters;
    one of each must be there. ``hashes`` are those of the bytes of files, SHA-256.
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
    statuses: tuple[DocumentStatus, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    since: int | None = None
    until: int | None = None
    as_of: int | None = None
    all_versions: bool = False
    parents: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    pinned: bool | None = None
    scopes: bool = True
    named: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()
    hashes: tuple[str, ...] = ()

    @classmethod
    def of_project(cls, project: str | None) -> "Filter":
        """Return the filter for a project and personal documents.

        >>> Filter.of_project("heron").projects
        (None, 'heron')
        """
        return cls(projects=(None, project) if project else (None,))


EVERYTHING = Filter(trusts=TRUSTS, all_versions=True)  # superseded ones too


class Signals(NamedTuple):
    """The numbers behind one hit. ``None`` means that this signal has no value for it.

    ``bm25`` and ``cosine`` are raw; ``keyword`` and ``vector`` are what entered the score. The
    passage has ``coverage`` of the query's words, by idf; its best ``sentence``, by meaning.
    """

    bm25: float | None = None
    cosine: float | None = None
    keyword: float | None = None
    vector: float | None = None
    keyword_rank: int | None = None
    vector_rank: int | None = None
    coverage: float = 0.0
    matched: tuple[str, ...] = ()
    sentence: float | None = None


WEAK_RELEVANCE = 0.25  # below this, a hit is probably about something else


class Hit(NamedTuple):
    """A passage with its ``score`` (order), its ``relevance`` (evidence) and the reasons.

    ``folded`` are the ids of copies that a diverse search left out in its favour. ``changed_since``
    are files that the steps of a message touched, and that were written later.
    """

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
    folded: tuple[str, ...] = ()
    changed_since: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The passage's id, for ``get``."""
        return self.passage.id

    @property
    def doc_id(self) -> str:
        """The document's key, or its id if it has none."""
        return self.document.doc_id

    @property
    def chunk_id(self) -> str:
        """``{doc_id}-{index}``, counted from 0."""
        return f"{self.document.doc_id}-{self.passage.ordinal}"

    @property
    def chunk_rowid(self) -> int:
        """The passage's stable number in the store."""
        return self.passage.ref

    @property
    def heading(self) -> str:
        """The headings above the passage, ``H1 > H2 > H3``; for a fact, what it is about."""
        return self.passage.heading or self.entity or ""

    @property
    def text(self) -> str:
        """The passage, with its neighbours if a window was requested."""
        return self.passage.text if self.context is None else self.context

    @property
    def content(self) -> str:
        """The same text, under the name used by other systems."""
        return self.text

    @property
    def file_path(self) -> str | None:
        """The path of the file when it was read; ``None`` for stored text."""
        return self.document.path

    @property
    def file_title(self) -> str:
        """The document's title."""
        return self.document.title

    @property
    def kind(self) -> Kind:
        """What its document is: a file, note, observation, entity or message."""
        return self.document.kind

    @property
    def tags(self) -> tuple[str, ...]:
        """The document's tags."""
        return self.document.tags

    @property
    def project(self) -> str | None:
        """The document's project; ``None`` for a personal one."""
        return self.document.project

    @property
    def trust(self) -> Trust:
        """How far the document is trusted."""
        return self.document.trust

    @property
    def event_at(self) -> int | None:
        """When it happened, in UTC milliseconds."""
        return self.document.event_at

    @property
    def memory_type(self) -> MemoryType | None:
        """semantic, procedural or episodic, if known."""
        return self.document.memory_type

    @property
    def is_weak(self) -> bool:
        """Whether the hit has little in common with the query; the score only compares hits."""
        return self.relevance < WEAK_RELEVANCE

    @property
    def start_line(self) -> int:
        """First line, counted from 1."""
        return self.passage.start_line

    @property
    def end_line(self) -> int:
        """Last line."""
        return self.passage.end_line

    def to_dict(self) -> dict[str, Any]:
        """Return it as ``plait search --json`` prints it, ready for `json.dumps`."""
        from plait.types.shapes import hit_dict

        return hit_dict(self)


class Receipt(NamedTuple):
    """What an answer cost, settings without effect, and words as typed and as searched for."""

    query: str = ""
    mode_asked: Mode = "hybrid"
    mode_used: Mode = "hybrid"
    fusion: Fusion = "weighted"
    keyword_weight: float = 1.0
    vector_weight: float = 0.0
    degraded: tuple[Notice, ...] = ()
    keyword_candidates: int = 0
    vector_candidates: int = 0
    candidates: int = 0
    pending_vectors: int = 0
    indexed_at: int | None = None
    milliseconds: float = 0.0
    tokens: int = 0
    ignored: tuple[Notice, ...] = ()
    corrections: tuple[tuple[str, str], ...] = ()
    approximate: bool = False  # of a very large memory, a few of the nearest may be missing


class Answer(tuple[Hit, ...]):
    """The hits, best first, and the receipt. It is a tuple: iterate, index and count it."""

    receipt: Receipt

    def __new__(
        cls, hits: "tuple[Hit, ...] | list[Hit]" = (), receipt: Receipt | None = None
    ) -> "Answer":
        """Combine hits and receipt."""
        answer = super().__new__(cls, hits)
        answer.receipt = receipt or Receipt()
        return answer

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The hits as a plain tuple."""
        return tuple(self)

    def to_dict(self) -> dict[str, Any]:
        """Return hits and receipt as ``plait search --json`` prints them."""
        from plait.types.shapes import answer_dict

        return answer_dict(self)
