"""What a search reads next, read in one trip: the server may be far away.

The values are those of the store's own reads, one after the other; see `plait.protocols.ahead`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from plait.protocols import Candidate, Nearest, Scored, State, Token, Vector
from plait.stores.postgres import candidates, documents, keyword, vectors
from plait.stores.postgres.connection import Channel, Connections, SQLRow
from plait.stores.postgres.filters import Conditions
from plait.stores.postgres.state import OF_STATE, state_of
from plait.stores.sqlite import analysis, fileless
from plait.text import beginnings
from plait.types import Filter, Passage, Ref, Space
from plait.types.queries import Query, Terms, Turn, Vocabulary

if TYPE_CHECKING:
    from plait.stores.postgres.store import PostgresStore


class Ahead:
    """Reads of one store that belong together."""

    def __init__(
        self,
        store: "PostgresStore",
        connections: Connections,
        where: Callable[..., Conditions],
        clock: Callable[[], int],
    ) -> None:
        self._store = store
        self._connections = connections
        self._where = where
        self._clock = clock

    def survey(
        self, words: Iterable[str], *, prefixes: Iterable[str], seen_by: Filter
    ) -> tuple[State, Vocabulary]:
        """Return `Store.state` and `Store.vocabulary`."""
        store = self._store
        tokens = _tokens(words)
        starts = beginnings(tokens, prefixes)

        def surveyed(session: Channel) -> tuple[State, Vocabulary]:
            seen = self._where(seen_by, searching=True)
            counting = keyword.of_vocabulary(tokens, starts, None, seen)
            answers = session.together(*OF_STATE, *counting)
            own, others = answers[: len(OF_STATE)], answers[len(OF_STATE) :]
            state = state_of(own, store.analyzer, has_vectors=store.has_vectors)
            return state, keyword.vocabulary_of(session, others, tokens, starts, None, seen)

        state, vocabulary = self._connections.read(surveyed)
        store.indexes.passages = state.passages
        return state, vocabulary

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
        """Return `Store.keyword`, and `Store.vector` with the cosines of its hits."""
        store = self._store
        by_words, by_vector = (self._where(where, searching=True) for _ in limits)
        ranking = keyword.ranking(query, limits[0], by_words) if query.words else None
        if ranking is None or not store.has_vectors or store.indexes.may_serve:
            scored = store.keyword(query, limits[0], where, deadline=deadline)
            also = [ref for ref, _ in scored]
            return scored, store.vector(vector, space, limits[1], where, also=also)
        ranked = vectors.with_cosines(ranking, vector, space)
        nearest = vectors.comparing(vector, space, limits[1], by_vector, ())

        def compared(session: Channel) -> tuple[list[Scored], Nearest]:
            session.deadline = deadline  # of the search by words alone
            near, listed = session.together(nearest, ranked, unlimited=1)
            scored = [(ref, score) for ref, score, _ in listed]
            cosines = {ref: cosine for ref, _, cosine in listed if cosine is not None}
            hits = vectors.as_nearest(near)
            return scored, hits._replace(cosines=cosines | hits.cosines)

        return self._connections.read(compared)

    def gather(
        self, refs: Sequence[Ref], terms: Terms, messages: Sequence[Ref], where: Filter
    ) -> tuple[dict[Ref, Candidate], dict[Ref, Turn], dict[Ref, list[tuple[Ref, Turn]]]]:
        """Return `Store.hydrate` of ``refs``, `Store.turns` of ``messages``, and their replies."""
        statements = candidates.hydrating(refs, self._clock(), ranking=True)
        count = len(statements)
        if messages:
            statements.append(documents.placing(messages))
            statements.append(candidates.replying(messages, self._where(where)))
        answers = self._connections.read(lambda session: session.together(*statements))
        rows = candidates.hydrated(answers[:count], ranking=True, terms=terms)
        if not messages:
            return rows, {}, {}
        return rows, documents.placed(answers[-2]), candidates.replied(answers[-1])

    def company(
        self, queries: Sequence[Query], limit: int, where: Filter, words: Iterable[str]
    ) -> tuple[list[int], Vocabulary]:
        """Return how many passages `Store.keyword` has of each query, and `Store.vocabulary`."""
        store, tokens = self._store, _tokens(words)
        starts = beginnings(tokens, ())
        counting = {
            number: statement
            for number, query in enumerate(queries)
            if (statement := keyword.counting(query, limit, self._where(where, searching=True)))
        }

        def counted(session: Channel) -> tuple[list[list[SQLRow]], Vocabulary]:
            asked = keyword.of_vocabulary(tokens, starts, None, None)
            answers = session.together(*counting.values(), *asked)
            own, others = answers[: len(counting)], answers[len(counting) :]
            return own, keyword.vocabulary_of(session, others, tokens, starts, None, None)

        rows, vocabulary = self._connections.read(counted)
        counts = {number: int(row[0][0]) for number, row in zip(counting, rows, strict=True)}
        return [
            counts[number] if number in counts else len(store.keyword(query, limit, where))
            for number, query in enumerate(queries)
        ], vocabulary

    def spans(self, wanted: Sequence[tuple[str, int, int]]) -> list[list[Passage]]:
        """Return `Store.passages` of several documents: each an id, a first and a last ordinal."""
        return self._connections.read(lambda session: documents.spans(session, wanted))


def _tokens(words: Iterable[str]) -> dict[str, Sequence[Token]]:
    return {word: analysis.tokens(fileless.connection(), word) for word in words}
