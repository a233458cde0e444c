"""The rows of a memory in a form that belongs to no engine, to move a memory to another one.

Only what is stored is listed here. What an engine makes of it, such as indexes, lists of tags and
counts, it makes again. Numbers of rows stay as they are: others refer to them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from hashlib import blake2b
from typing import Any, Protocol

from plait.errors import StoreError, UsageError, advise
from plait.stores.sqlite.documents import FIELDS
from plait.types.records import NamedTuple

Row = tuple[Any, ...]
Key = tuple[Any, ...]

DIGEST_BYTES = 16


class Table(NamedTuple):
    """A table: its name, its columns, and how many of the first ones tell its rows apart.

    ``kinds`` has a letter for each column: integer, real, text or bytes; a capital one may be NULL.
    ``batch`` rows are read or written at a time. ``ranked``: the first column only orders the rows.
    """

    name: str
    columns: tuple[str, ...]
    kinds: str
    keys: int = 1
    batch: int = 500
    ranked: bool = False

    def key(self, row: Row) -> Key:
        """Return what tells a row apart from others."""
        return row[: self.keys]


def _table(name: str, columns: str, kinds: str, **others: Any) -> Table:
    return Table(name, tuple(columns.split()), kinds, **others)


# Of a document's columns, which are texts that may be NULL unless they are among these.
_TEXTS = ("id", "kind", "title", "source", "project", "tags", "metadata", "origin", "trust")
_NUMBERS = ("pinned", "created_at", "updated_at", "event_at", "indexed_at", "chunk_count")
_OPTIONAL_NUMBERS = ("turn", "valid_from", "valid_to", "size", "mtime")
_KINDS = {
    **dict.fromkeys(_TEXTS, "t"),
    **dict.fromkeys(_NUMBERS, "i"),
    **dict.fromkeys(_OPTIONAL_NUMBERS, "I"),
    "importance": "R",
}

DOCUMENTS = Table(
    "documents",
    ("place", *FIELDS, "preface", "fingerprint"),
    "i" + "".join(_KINDS.get(name, "T") for name in FIELDS) + "tB",
)
PASSAGES = _table(
    "passages",
    "ref id document ordinal start start_line end_line heading text title_terms hash",
    "itiiiiitttb",
)
GENERATIONS = _table("generations", "id space dims current canary", "itiiB")
VECTOR_TABLE = _table("vectors", "generation ref embedding", "iib", keys=2, batch=2_000)
FACT_TABLE = _table("facts", "name value", "tt")
TRASH = _table("trash", "id deleted_at batch document parent version_of", "tittTT", batch=20)
AUDIT = _table(
    "audit",
    "number at origin door verb session project document before after",
    "iitttTttBB",
    ranked=True,
)
# What others refer to comes first.
TABLES = (
    FACT_TABLE,
    DOCUMENTS,
    PASSAGES,
    GENERATIONS,
    VECTOR_TABLE,
    _table("unembedded", "generation ref reason", "iit", keys=2),
    TRASH,
    _table(
        "relations",
        "number source target type context created_at valid_from valid_to",
        "iiitTiII",
    ),
    _table(
        "trashed_relations",
        "number source target type context created_at valid_from valid_to deleted_at",
        "itttTiIIi",
    ),
    _table("signals", "ref reads days last_day last_read good wrong", "iiiiiii"),
    _table("signal_pairs", "one other times last_read", "iiii", keys=2),
    _table(
        "steps",
        "document place tool folder file command program exit error failure",
        "iitTTTTITI",
        keys=2,
    ),
    _table("histories", "name value", "tt"),
    _table("embedding_cache", "text_hash embedding created_at accessed_at", "tbii"),
    AUDIT,
)
# A memory with a row in one of these is not empty.
OWN_ROWS = ("documents", "trash", "histories", "embedding_cache", "audit")

_TYPES: dict[str, tuple[type, ...]] = {"i": (int,), "r": (float,), "t": (str,), "b": (bytes,)}


def refuse_odd_values(table: Table, rows: Iterable[Row]) -> None:
    """Refuse rows with values that plait never writes: a file may have anything anywhere.

    Raises:
        ValueError: There is one.
    """
    sound = set[tuple[type, ...]]()  # rows repeat a few combinations of types
    for row in rows:
        types = tuple(map(type, row))
        if types in sound:
            continue
        for kind, value in zip(table.kinds, row, strict=True):
            absent = value is None and kind.isupper()
            if not absent and not isinstance(value, _TYPES[kind.lower()]):
                raise ValueError(f"a row of {table.name} has a value that plait never writes")
        sound.add(types)


class Digest:
    """Counts rows and adds up their hashes, in whatever order an engine sorts texts.

    The order of a memory's rows is part of them: each has its number.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._sum = 0

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows."""
        for row in rows:
            data = repr(row).encode("utf-8", "surrogatepass")
            self._sum += int.from_bytes(blake2b(data, digest_size=DIGEST_BYTES).digest())
            self.rows += 1

    def __str__(self) -> str:
        """Return the sum as a text."""
        return f"{self._sum % 256**DIGEST_BYTES:0{2 * DIGEST_BYTES}x}"


class Counters(NamedTuple):
    """The largest numbers that were ever given to rows, so that none is given twice."""

    documents: int
    passages: int
    relations: int
    generations: int


class People(NamedTuple):
    """The members of a memory, and the labels of what not all of them see, by table."""

    names: dict[int, tuple[str, str]]
    members: list[Row]
    labels: dict[str, list[Row]]
    histories: list[Row]
    entries: list[Row]

    @property
    def hidden(self) -> int:
        """How many documents and relations, deleted ones too, not all members see."""
        return sum(map(len, self.labels.values()))


# Those of a file.
NO_PEOPLE = People({}, [], {}, [], [])


class RowReader(Protocol):
    """Reads the rows of a memory, all in one snapshot."""

    def count(self, table: Table) -> int:
        """Return how many rows there are."""

    def page(self, table: Table, after: Key | None) -> list[Row]:
        """Return the next rows by their keys, or the first ones; none at the end."""

    def rows(self, table: Table, keys: Sequence[Key]) -> list[Row]:
        """Return those rows with these keys that there are."""

    def counters(self) -> Counters:
        """Return the largest numbers that were given to rows."""

    def people(self) -> People:
        """Return the members, and who sees what."""


class RowWriter(RowReader, Protocol):
    """Reads and writes the rows of a memory in one transaction."""

    def insert(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows that are not there."""

    def delete(self, table: Table, keys: Sequence[Key]) -> None:
        """Delete rows."""

    def clear(self, table: Table) -> None:
        """Delete all rows of a table."""


class MovableStore(Protocol):
    """A memory whose rows can be moved."""

    path: str
    has_vectors: bool
    keeps_members: bool

    def reading(self) -> AbstractContextManager[RowReader]:
        """Begin to read, in one snapshot."""

    def writing(self) -> AbstractContextManager[RowWriter]:
        """Begin a transaction of a move; refuse a memory that is not being moved into."""

    def claim(self, mark: str) -> None:
        """Mark a memory as being moved into; refuse one that is not empty, or another move's."""

    def finish(self, counters: Counters) -> None:
        """Make what only this engine has."""

    def admit(self, people: People) -> None:
        """Hide what was hidden, then let the members in; a place without members ignores them."""

    def release(self) -> None:
        """Take the mark away: the memory can be used."""

    def drop(self) -> None:
        """Remove a memory that is being moved into, with all that was copied."""

    def close(self) -> None:
        """Release every connection."""


class TornSnapshot(Exception):
    """The file was changed under a reader that had no journal to read through."""


# -- the mark ------------------------------------------------------------------------------


def mark_of(source: str, target: str) -> str:
    """Return the fact that marks a memory as being moved into."""
    return json.dumps({"from": source, "to": target}, ensure_ascii=False)


def refuse_half_moved(mark: str) -> None:
    """Refuse a memory that is being moved into, or whose move was stopped.

    Raises:
        StoreError: Always; the code is "half_moved".
    """
    source, target = _ends(mark)
    raise StoreError(
        f"{target} is not complete yet: a move from {source} into it is not finished.",
        code="half_moved",
        subject=target,
        advice=advise("finish_move", source=source, target=target),
    )


def _ends(mark: str) -> tuple[str, str]:
    try:
        ends: Mapping[str, str] = json.loads(mark)
        return str(ends["from"]), str(ends["to"])
    except (ValueError, TypeError, LookupError, RecursionError):
        return "another memory", "This memory"


def check_claim(own: str | None, wanted: str, target: str, *, empty: bool) -> None:
    """Refuse to move into a memory that has something, unless the same move put it there.

    Raises:
        StoreError: Another move into it is not finished; the code is "half_moved".
        UsageError: It is not empty; the code is "target_not_empty".
    """
    if own == wanted:
        return
    if own is not None:
        refuse_half_moved(own)
    if not empty:
        raise UsageError(
            f"{target} is not empty, so nothing is moved into it. Choose a new place.",
            code="target_not_empty",
            subject=target,
        )


def refuse_unclaimed(target: str) -> None:
    """Refuse to go on with a move that another process finished or dropped.

    Raises:
        UsageError: Always; the code is "no_move".
    """
    raise UsageError(
        f"No move into {target} is under way; nothing was changed.", code="no_move", subject=target
    )
