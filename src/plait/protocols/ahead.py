"""`ReadAhead`: reads of a store on another machine that go there together.

Each read of such a store is a trip, which costs more than what it reads. `Store.ahead` has this;
the values are those of the store's own reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from typing import Protocol

from plait.protocols import Candidate, Following, Nearest, Replies, Scored, State, Vector
from plait.types import Document, Filter, Passage, Ref, Space
from plait.types.queries import Query, Spelling, Terms, Turn, Vocabulary
from plait.types.steps import Step

# No question makes more: the last one reads all that may be asked for.
MOST_TRIPS = 6


class ReadAhead(Protocol):
    """Reads of `Store` for one question and one filter: several in one trip, and none twice."""

    trips: int  # so far
    kept: int  # trips for what comes after the search
    sizes: Collection[int]  # numbers of hits that this question may ask for later
    reads_beside: bool  # whether `beside` will be asked for, which has steps
    has_gathered: bool  # candidates, for an earlier search

    def scan(self, where: Filter) -> list[Document]:
        """Return `Store.scan` in the order of writing, read with what was expected."""

    def expect_session(self, own: Filter, begun: Filter) -> None:
        """Read with the next trip what `session` of these asks for."""

    def session(self, own: Filter, begun: Filter) -> tuple[bool, dict[str, bool]]:
        """Return whether any document passes ``own``, and the imported sessions that begin so.

        Each that begins like the one in the filter ``begun``, with whether a document of it passes.
        """

    def expect_survey(
        self,
        query: Query,
        *,
        prefixes: Iterable[str],
        seen_by: Filter,
        doubtful: Sequence[str] = (),
        where: Filter | None = None,
    ) -> None:
        """Read with the next trip what `survey` of these asks for; it may not be known ``where``.

        An entity in the filter may be looked up in the same trip.
        """

    def survey(
        self,
        query: Query,
        *,
        prefixes: Iterable[str],
        seen_by: Filter,
        doubtful: Sequence[str] = (),
        where: Filter,
    ) -> tuple[State, Vocabulary]:
        """Return `Store.state` and `Store.vocabulary` of the query's words.

        If any of the ``doubtful`` ones is not there, what `alike` reads first of them is read, too.
        """

    def foresee(
        self,
        words: Sequence[str],
        where: Filter,
        beside: Sequence[str],
        seen_by: Filter,
        instead: Sequence[str] = (),
    ) -> None:
        """Read with the next trip what `alike` of some words and `vocabulary` of others ask for.

        `alike` may be asked for other words ``instead``, when that is known.
        """

    def vocabulary(self, words: Sequence[str], seen_by: Filter) -> Vocabulary:
        """Return `Store.vocabulary` of words that `foresee` was told as ``beside``."""

    def alike(self, words: Sequence[str], where: Filter) -> dict[str, list[Spelling]]:
        """Return `Store.alike`."""

    def company(
        self, queries: Sequence[Query], limit: int, where: Filter, words: Iterable[str]
    ) -> tuple[list[int], list[Vocabulary]]:
        """Return how many passages `Store.keyword` has of each query, and `Store.vocabulary`.

        Of each word as if it were asked for without others that have one of its terms.
        """

    def expect_company(
        self, queries: Sequence[Query], limit: int, where: Filter, words: Iterable[str]
    ) -> None:
        """Read with the next trip what `company` of these asks for."""

    def branches(
        self,
        query: Query | None,
        vector: Vector | None,
        space: Space,
        limits: tuple[int, int, int],
        where: Filter,
        *,
        deadline: float,
        later: Sequence[tuple[int, int, int]] = (),
    ) -> tuple[list[Scored], Nearest]:
        """Return `Store.keyword`, and `Store.vector` with the cosines of its hits; or one of them.

        ``limits``: how many of each, and of how many by words the cosines; what may be asked for
        ``later`` is read in the same trip.

        Raises:
            DeadlineExceeded: The search by words took too long.
        """

    def gather(
        self,
        refs: Sequence[Ref],
        messages: Sequence[Ref],
        where: Filter,
        *,
        more: Sequence[Ref] = (),
        near: Sequence[Ref] = (),
        window: int = 0,
        replies: bool = False,
        steps: bool = False,
    ) -> tuple[Set[Ref], Mapping[Ref, Candidate]]:
        """Return `Store.hydrate` of ``refs`` but without words, and of which it was read.

        If it has to be read, then with that of ``more`` passages, what `conversation` asks for of
        the ``messages``, with ``replies`` that of their replies, the passages in a window around
        those that are ``near``, and what `steps` asks for of all of them.
        """

    def conversation(self, messages: Sequence[Ref]) -> tuple[dict[Ref, Turn], Replies]:
        """Return `Store.turns` of messages that were gathered, and their replies."""

    def with_words(self, candidate: Candidate, terms: Terms) -> Candidate:
        """Return a candidate with its words, as `Store.hydrate` does."""

    def spans(self, wanted: Sequence[tuple[str, int, int]]) -> list[list[Passage]]:
        """Return `Store.passages` of several documents: each an id, a first and a last ordinal."""

    def expect_spans(self, wanted: Sequence[tuple[str, int, int]]) -> None:
        """Read with the next trip what `spans` of these asks for."""

    def expect_named(self, name: str, where: Filter, linked: Filter | None) -> None:
        """Read with the next trip what `named` of these asks for."""

    def named(
        self, name: str, where: Filter, linked: Filter | None
    ) -> tuple[list[tuple[Document, Passage | None]], list[Document]]:
        """Return `Store.find`, and `Store.scan` of the ``linked`` ones in the order of writing."""

    def shared(self) -> AbstractContextManager[None]:
        """Be what `Store.ahead` returns in this thread, for several searches of one question."""

    def expect_pinned(self, where: Filter, most: int) -> None:
        """Read with the next trip what `pinned` returns: so many documents of a filter."""

    def beside(
        self,
        spans: Sequence[tuple[str, int, int]],
        messages: Sequence[str],
        imported: Sequence[str],
        where: Filter,
        replacing: Sequence[str],
        most: tuple[int, int],
    ) -> None:
        """Read all that a recall shows beside its hits: `spans`, and what is below.

        ``imported`` are those whose `steps` are asked for. ``most``: messages after each one, and
        documents before one.
        """

    def steps(self, ids: Sequence[str]) -> dict[str, list[Step]]:
        """Return the steps of documents, in order."""

    def following(self, message: str) -> list[Following]:
        """Return the messages after one."""

    def followed(self, messages: Sequence[str], where: Filter) -> dict[str, int]:
        """Return the times of what comes after messages in their sessions, and passes a filter."""

    def pinned(self) -> list[tuple[Document, Passage | None]]:
        """Return the documents of `expect_pinned`, newest first, each as it begins."""

    def earlier(self) -> dict[str, int]:
        """Return how many documents came before each that replaced one."""
