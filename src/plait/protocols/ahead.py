"""`ReadAhead`: reads of a store on another machine that go there together.

Each read of such a store is a trip, which costs more than what it reads. `Store.ahead` has this;
the values are those of the store's own reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from plait.protocols import Candidate, Nearest, Replies, Scored, State, Vector
from plait.types import Filter, Passage, Ref, Space
from plait.types.queries import Query, Terms, Turn, Vocabulary


class ReadAhead(Protocol):
    """Several reads of `Store` in one trip."""

    def survey(
        self, words: Iterable[str], *, prefixes: Iterable[str], seen_by: Filter
    ) -> tuple[State, Vocabulary]:
        """Return `Store.state` and `Store.vocabulary`."""

    def hybrid(
        self,
        query: Query,
        vector: Vector,
        space: Space,
        limits: tuple[int, int],
        where: Filter,
        *,
        deadline: float,
    ) -> tuple[list[Scored], Nearest]:
        """Return `Store.keyword`, and `Store.vector` with the cosines of its hits.

        Raises:
            DeadlineExceeded: The search by words took too long.
        """

    def gather(
        self, refs: Sequence[Ref], terms: Terms, messages: Sequence[Ref], where: Filter
    ) -> tuple[dict[Ref, Candidate], dict[Ref, Turn], Replies]:
        """Return `Store.hydrate` of ``refs``, `Store.turns` of ``messages``, and their replies."""

    def company(
        self, queries: Sequence[Query], limit: int, where: Filter, words: Iterable[str]
    ) -> tuple[list[int], Vocabulary]:
        """Return how many passages `Store.keyword` has of each query, and `Store.vocabulary`."""

    def spans(self, wanted: Sequence[tuple[str, int, int]]) -> list[list[Passage]]:
        """Return `Store.passages` of several documents: each an id, a first and a last ordinal."""
