"""`Transaction`: what changes a store.

`Store.transaction` begins one. A search changes nothing, so it does not load this file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from plait.protocols import (
    Entry,
    Rivals,
    Standing,
    State,
    Trashed,
    Unembedded,
    Vector,
    Written,
)
from plait.types import Document, Passage, Ref, Space, Trust
from plait.types.relations import Relation


class Transaction(Protocol):
    """One write transaction; it is committed at the end of its ``with`` block, or not at all."""

    now: int  # by the store's clock

    # Reading inside the transaction.

    @property
    def state(self) -> State:
        """What the memory said about itself when this was first asked; ask before writing."""

    def known(self, document: Document) -> Document | None:
        """Return the stored document of this id, else this name, else this path of a file."""

    def load(self, ids: Sequence[str]) -> list[Document]:
        """Return whole documents, in the order asked for; unknown ids are absent."""

    def passages(self, document: str) -> list[Passage]:
        """Return the passages of one document, in order."""

    def rivals(self, document: Document, fingerprint: bytes, moment: int) -> Rivals:
        """Return the other observations that this one may repeat or replace at a moment."""

    def members(self, entities: Sequence[str]) -> list[str]:
        """Return the ids of documents that belong to these entities, in the order of writing."""

    def current_observations(self, entity: str, trust: Trust, moment: int) -> list[Standing]:
        """Return an entity's observations that are valid at a moment, in the order of writing."""

    def openings(self, ids: Sequence[str]) -> list[str]:
        """Return the text of the first passage of each document, in the order asked for."""

    def entities_changed(self, since: int, until: int) -> list[str]:
        """Return entities with an observation that begins or ends in (``since``, ``until``]."""

    def next_change(self, moment: int) -> int | None:
        """Return when the next observation of any entity begins or ends after a moment."""

    def next_turn(self, project: str | None, session: str, wanted: int | None = None) -> int:
        """Return the ``wanted`` turn number of a session if it is free, else the next one."""

    def last_event(self, project: str | None, session: str) -> int | None:
        """Return the time of a session's last turn; ``None`` if it has none."""

    def successors(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the id of the successor of each of these documents; current ones are absent."""

    def edges(self, source: str, target: str, type: str) -> list[Relation]:
        """Return all edges of one type between two entities, by id, in the order of writing."""

    def trashed(
        self, ids: Sequence[str] | None = None, *, related: bool = True, texts: bool = True
    ) -> list[Trashed]:
        """Return what can be restored, the latest delete first; without ``texts``: no passages.

        With ``ids``, only these documents, and if ``related`` their versions, their entities and
        what belongs to them.
        """

    # Writing.

    def write(
        self, entry: Entry, *, fingerprint: bytes | None = None, keep_use: bool = False
    ) -> Written:
        """Write a whole document; it replaces the one with the same id.

        Passages with unchanged heading and text keep id, ref and vector; with ``keep_use`` the
        first passage keeps its use even if its text changes. The first vectors of a memory create
        their space. A passage gets the id it asks for unless that is taken. A vector of another
        length, or zero, is an `EmbedderError`.
        """

    def free_turn(self, project: str | None, session: str, turn: int) -> None:
        """If a message of a session has this turn number, move it and all later ones up by one."""

    def amend(self, id: str, **fields: Any) -> None:
        """Change fields of a document; its text and its passages stay."""

    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents with passages, vectors, edges and use; return how many passages."""

    def put_edge(self, relation: Relation) -> None:
        """Write an edge; it replaces the one with the same ends, type and ``created_at``."""

    def drop_edge(self, relation: Relation) -> None:
        """Delete the edge with these ends, type and ``created_at``."""

    def trash(self, documents: Sequence[Trashed]) -> None:
        """Copy documents that are about to be deleted, and their edges, to the trash.

        Their delete counts as later than every earlier one, even within one millisecond.
        """

    def set_aside(self, ids: Sequence[str]) -> None:
        """Make deleted documents restorable only by id."""

    def forget(self, ids: Sequence[str], *, edges: bool = True) -> None:
        """Drop documents from the trash; with ``edges``, their edges and audit entries too."""

    def restore_edges(self) -> None:
        """Restore deleted edges whose two ends exist again."""

    def expire(self, before: int) -> None:
        """Drop from the trash what was deleted before a moment."""

    def remember(self, **facts: str | None) -> None:
        """Store values (fields of `State`, or a caller's own) by name; ``None`` drops one."""

    def touch(self, answers: Sequence[Sequence[Ref]]) -> None:
        """Count passages as read, those of one answer as read together; ignore untrusted ones."""

    def judge(self, refs: Sequence[Ref], *, good: int = 0, wrong: int = 0) -> None:
        """Add to the feedback on passages; without both, take all of it back."""

    def unrecord(self, project: str) -> None:
        """Drop all entries of a project from the audit log."""

    def cache(self, vectors: Mapping[str, Vector], used: Iterable[str], most: int) -> None:
        """Cache vectors by the name of their text; keep the ``most`` recently used ones."""

    def clear_cache(self) -> None:
        """Drop every cached vector, and every cached answer of a chat."""

    def begin(
        self,
        space: Space,
        *,
        afresh: bool = False,
        sample: Vector | None = None,
        resume: bool = True,
    ) -> bool:
        """Make sure that vectors of this space can be written; return whether searches use them.

        Every passage is pending in a new space. Searches use the first space of a memory at once; a
        later one is built beside it, with ``afresh`` even under the same name. Without ``resume``
        an unfinished one is dropped first. An unknown length of vectors is an `EmbedderError`.
        """

    def fill(
        self, space: Space, vectors: Sequence[tuple[Unembedded, Vector | None]], *, building: bool
    ) -> int:
        """Write vectors of passages that did not change; ``None`` marks one as keyword-only."""

    def swap(self, space: Space) -> bool:
        """Make searches use this space if no passage is pending in it; drop the others."""
