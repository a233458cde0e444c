"""What a search reads next, read in one trip: the server may be far away.

The values are those of the store's own reads, one after the other; see `plait.protocols.ahead`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import partial
from operator import le
from typing import TYPE_CHECKING, Any

from plait.protocols import Candidate, Following, Nearest, Replies, Scored, State, Token, Vector
from plait.stores import spelling as spellings
from plait.stores.postgres import around, candidates, documents, hnsw, keyword, steps, vectors
from plait.stores.postgres.connection import Connections, SQLRow, SQLStatement
from plait.stores.postgres.filters import Conditions
from plait.stores.postgres.spelling import Index
from plait.stores.postgres.state import OF_STATE, state_of
from plait.stores.sqlite import analysis, fileless
from plait.text import beginnings, spelling
from plait.types import Document, Filter, Passage, Ref, Space
from plait.types.queries import Query, Spelling, Term, Terms, Turn, Vocabulary
from plait.types.steps import Step

if TYPE_CHECKING:
    from plait.stores.postgres.store import PostgresStore

# Words that a store remembers to be there: nobody looks for others that are spelt like them.
MOST_FAMILIAR = 10_000

RowLists = list[list[SQLRow]]
Span = tuple[str, int, int]


class Ahead:
    """The reads of one question, one thread's: what was read once is not read again."""

    def __init__(
        self,
        store: "PostgresStore",
        connections: Connections,
        where: Callable[..., Conditions],
        clock: Callable[[], int],
    ) -> None:
        self.trips = self.kept = self.most = 0
        self.has_gathered = False
        self._store = store
        self._connections = connections
        self._where = where
        self._clock = clock
        # What goes with the next trip, and who takes the answers.
        self._waiting: list[tuple[list[SQLStatement], Callable[[RowLists], None]]] = []
        self._known: dict[object, Any] = {}
        self._forms: dict[Term, Sequence[Term]] = {}
        self._branches: dict[object, tuple[tuple[int, ...], list[Scored], Nearest]] = {}
        self._hydrated: list[tuple[Set[Ref], Mapping[Ref, Candidate]]] = []
        self._placed: set[Ref] = set()
        self._turns: dict[Ref, Turn] = {}
        self._replies: dict[Ref, list[tuple[Ref, Turn]]] = {}
        self._spans: dict[Span, list[Passage]] = {}
        self._steps: dict[str, list[Step]] = {}

    def _together(
        self, *statements: SQLStatement, unlimited: int = 0, deadline: float | None = None
    ) -> RowLists:
        waiting, self._waiting = self._waiting, []
        others = [statement for own, _ in waiting for statement in own]

        def read(session: Any) -> RowLists:
            session.deadline = deadline
            listed: RowLists = session.together(
                *others, *statements, unlimited=len(others) + unlimited
            )
            return listed

        self.trips += 1
        answers = self._connections.read(read)
        for own, take in waiting:
            take(answers[: len(own)])
            del answers[: len(own)]
        return answers

    def rows(self, sql: str, values: Mapping[str, Any] | None = None) -> list[SQLRow]:
        """Return the rows of one statement."""
        return self._together((sql, values or {}))[0]

    # -- words -----------------------------------------------------------------------------

    def survey(
        self,
        query: Query,
        *,
        prefixes: Iterable[str],
        seen_by: Filter,
        doubtful: Sequence[str] = (),
        where: Filter,
    ) -> tuple[State, Vocabulary]:
        """Return `Store.state` and `Store.vocabulary`."""
        name = ("survey", query)
        if name not in self._known:
            familiar = self._store.familiar
            unfamiliar = [word for word in doubtful if word not in familiar]
            self._foresee_doubtful(unfamiliar, where)
            _, vocabulary = self._known[name] = self._surveyed(query, prefixes, seen_by)
            held = [word for word in unfamiliar if _is_held(vocabulary, word)]
            if len(familiar) + len(held) <= MOST_FAMILIAR:
                familiar.update(held)
        survey: tuple[State, Vocabulary] = self._known[name]
        return survey

    def _surveyed(
        self, query: Query, prefixes: Iterable[str], seen_by: Filter
    ) -> tuple[State, Vocabulary]:
        store, tokens = self._store, _tokens(query.words)
        starts, seen = beginnings(tokens, prefixes), self._where(seen_by, searching=True)
        counting = keyword.of_vocabulary(tokens, starts, None, seen)
        longer = keyword.asking_for_forms(query)
        answers = self._together(*OF_STATE, *longer.values(), *counting)
        own, answers = answers[: len(OF_STATE)], answers[len(OF_STATE) :]
        state = state_of(own, store.analyzer, has_vectors=store.has_vectors)
        store.indexes.passages = state.passages
        self._forms |= keyword.as_forms(longer, answers[: len(longer)])
        counts = answers[len(longer) :]
        return state, keyword.vocabulary_of(self, counts, tokens, starts, None, seen)

    def _foresee_doubtful(self, doubtful: Sequence[str], where: Filter) -> None:
        """Read the stems of words that may be misspelt with the next trip, if any is not there."""
        if not doubtful:
            return
        index, tokens = self._index(where), _tokens(doubtful)
        terms = [listed[0][2] for listed in tokens.values() if listed]
        typed = list(map(spelling.folded, doubtful))
        self._soon(index.asking_for_words(typed, terms), partial(index.take_words, typed))

    def foresee(
        self, words: Sequence[str], where: Filter, beside: Sequence[str], seen_by: Filter
    ) -> None:
        """Read with the next trip what `alike` of some words and `vocabulary` of others ask for."""
        index = self._index(where)
        if index.knows(map(spelling.folded, words)):
            wanted = index.unread(spellings.likely_stems(index, words))
            if wanted:
                self._soon([index.asking_for_stems(wanted)], partial(_take_stems, index, wanted))
        name = ("vocabulary", *beside)
        if beside and name not in self._known:
            tokens, seen = _tokens(beside), self._where(seen_by, searching=True)
            self._soon(
                keyword.of_vocabulary(tokens, {}, None, seen),
                partial(self._known.__setitem__, name),
            )

    def vocabulary(self, words: Sequence[str], seen_by: Filter) -> Vocabulary:
        """Return `Store.vocabulary` of words that were told by `foresee`."""
        name = ("vocabulary", *words)
        if name not in self._known:
            self._together()
        tokens, seen = _tokens(words), self._where(seen_by, searching=True)
        return keyword.vocabulary_of(self, self._known[name], tokens, {}, None, seen)

    def alike(self, words: Sequence[str], where: Filter) -> dict[str, list[Spelling]]:
        """Return `Store.alike`."""
        name = ("alike", *words)
        if name not in self._known:
            index = self._index(where)
            alike = spellings.alike(index, words)
            self._known[name] = alike if index.any_seen else {}
        spelt: dict[str, list[Spelling]] = self._known[name]
        return spelt

    def _index(self, where: Filter) -> Index:
        if "index" not in self._known:
            # Where trips are kept for later, no text may be missing.
            texts = spellings.COUNTED if self.kept else spellings.READ_PASSAGES
            chosen = self._where(where, searching=True)
            self._known["index"] = Index(self._together, chosen, texts=texts)
        index: Index = self._known["index"]
        return index

    def _soon(self, statements: list[SQLStatement], take: Callable[[RowLists], None]) -> None:
        self._waiting.append((statements, take))

    def company(
        self, queries: Sequence[Query], limit: int, where: Filter, words: Iterable[str]
    ) -> tuple[list[int], Vocabulary]:
        """Return how many passages `Store.keyword` has of each query, and `Store.vocabulary`."""
        tokens = _tokens(words)
        name = ("company", *queries, *tokens)
        if name not in self._known:
            sent, take = self._asking_for_company(queries, limit, where, tokens)
            self._known[name] = take(self._together(*sent))
        company: tuple[list[int], Vocabulary] = self._known[name]
        return company

    def expect_company(
        self, queries: Sequence[Query], limit: int, where: Filter, words: Iterable[str]
    ) -> None:
        """Read with the next trip what `company` of these asks for."""
        tokens = _tokens(words)
        name = ("company", *queries, *tokens)
        if name not in self._known:
            sent, take = self._asking_for_company(queries, limit, where, tokens)
            self._soon(sent, lambda answers: self._known.update({name: take(answers)}))

    def _asking_for_company(
        self,
        queries: Sequence[Query],
        limit: int,
        where: Filter,
        tokens: Mapping[str, Sequence[Token]],
    ) -> tuple[list[SQLStatement], Callable[[RowLists], tuple[list[int], Vocabulary]]]:
        sent: list[SQLStatement] = []
        counts: list[Callable[[RowLists], int]] = []
        for query in queries:
            counting = keyword.counting(query, limit, self._where(where, searching=True))
            first = len(sent)
            if counting is not None:
                sent.append(counting)
                counts.append(partial(_count, first))
            else:
                chosen = self._where(where, searching=True)
                asked, scored = keyword.matching(query, limit, chosen, self._forms_of(query))
                sent += asked
                counts.append(partial(_matches, first, len(asked), scored))
        asking = keyword.of_vocabulary(tokens, {}, None, None)

        def take(answers: RowLists) -> tuple[list[int], Vocabulary]:
            others = answers[len(sent) :]
            vocabulary = keyword.vocabulary_of(self, others, tokens, {}, None, None)
            return [count(answers) for count in counts], vocabulary

        return [*sent, *asking], take

    def _forms_of(self, query: Query) -> keyword.Forms:
        """Return the longer forms of words, which the survey has read, as a rule."""
        asking = keyword.asking_for_forms(query)
        if not asking.keys() <= self._forms.keys():
            self._forms |= keyword.as_forms(asking, self._together(*asking.values()))
        return self._forms

    # -- rankings --------------------------------------------------------------------------

    def branches(
        self,
        query: Query | None,
        vector: Vector | None,
        space: Space,
        limits: tuple[int, int, int],
        where: Filter,
        *,
        deadline: float,
    ) -> tuple[list[Scored], Nearest]:
        """Return `Store.keyword`, and `Store.vector` with the cosines of its hits."""
        name = (query, vector is not None)
        known = self._branches.get(name)
        if (
            known is None
            or not all(map(le, limits, known[0]))
            # The nearest of many need not be those of few.
            or (known[2].approximate and limits != known[0])
        ):
            known = limits, *self._searched(query, vector, space, limits, where, deadline)
            self._branches[name] = known
        return _best_of(*known[1:], limits)

    def _searched(
        self,
        query: Query | None,
        vector: Vector | None,
        space: Space,
        limits: tuple[int, int, int],
        where: Filter,
        deadline: float,
    ) -> tuple[list[Scored], Nearest]:
        store, near = self._store, Nearest([], {})
        if vector is None or not store.has_vectors:
            asked, scored = self._matching(query, limits[0], where)
            return scored(self._together(*asked, deadline=deadline)), near
        chosen, index = self._where(where, searching=True), None
        if store.indexes.may_serve:
            index = self._connections.read(partial(store.indexes.of, space=space))
        nearest = vectors.comparing(vector, space, limits[1], chosen, ())
        unlimited = [nearest]
        if index is not None:
            unlimited = hnsw.comparing(
                self._connections.membership.ns, index, vector, space, limits[1], chosen, ()
            )
        asked, scored = self._matching(query, limits[0], where)
        if len(asked) == 1:
            asked = [vectors.with_cosines(asked[0], vector, space)]
        elif query is not None and asked:
            own = Conditions(0)
            listed = keyword.candidates(query, own, self._forms_of(query))
            asked = [*asked, vectors.cosines_of(listed, own.values, vector, space)]
        sent = len(unlimited)
        answers = self._together(*unlimited, *asked, unlimited=sent, deadline=deadline)
        near = vectors.as_nearest(answers[sent - 1])
        if index is not None:
            near = near._replace(approximate=near.among is None)
            if not near.hits and limits[1]:
                store.indexes.forget()  # its vectors may have been replaced since
                near = vectors.as_nearest(self._together(nearest)[0])
        answers = answers[sent:]
        hits = scored(answers)
        pairs = [(row[0], row[-1]) for row in answers[-1]] if answers else []
        cosines = {ref: cosine for ref, cosine in pairs if cosine is not None}
        return hits, near._replace(cosines=cosines | near.cosines)

    def _matching(self, query: Query | None, limit: int, where: Filter) -> keyword.Matching:
        if query is None or not (query.words or query.expression):
            return [], lambda _: []
        chosen = self._where(where, searching=True)
        return keyword.matching(query, limit, chosen, self._forms_of(query))

    # -- candidates ------------------------------------------------------------------------

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
    ) -> tuple[Set[Ref], Mapping[Ref, Candidate]]:
        """Return `Store.hydrate` of ``refs``, and of which others it was read, too."""
        wanted, unplaced = set(refs), [ref for ref in messages if ref not in self._placed]
        for asked, rows in self._hydrated:
            if wanted <= asked and not unplaced:
                return asked, rows
        wanted.update(more)
        if more and self.most:  # wider searches of this question will ask for the others
            for limits, scored, ranked in self._branches.values():
                wanted.update(ref for ref, _ in (*scored[: limits[2]], *ranked.hits))
            unplaced = [*wanted - self._placed] if messages else []
        replying = candidates.replying(unplaced, self._where(where)) if unplaced else None
        statements = candidates.hydrating([*wanted], self._clock(), ranking=True)
        count = len(statements)
        if window and near:
            statements.append(documents.surrounding(near, window))
        if replying is not None:
            if replies:
                statements = [candidates.of_replies_too(row, replying) for row in statements]
            statements += [documents.placing(unplaced), replying]
        answers = self._together(*statements)
        self.has_gathered = True
        rows = candidates.unread(answers[:count])
        if window and near:
            self._spans |= documents.as_surroundings(answers[count], window)
        if replying is not None:
            self._placed.update(unplaced)
            self._turns |= documents.placed(answers[-2])
            self._replies |= candidates.replied(answers[-1])
        self._hydrated.append((wanted | rows.keys(), rows))
        return self._hydrated[-1]

    def conversation(self, messages: Sequence[Ref]) -> tuple[dict[Ref, Turn], Replies]:
        """Return `Store.turns` of messages that were gathered, and their replies."""
        turns = {ref: self._turns[ref] for ref in messages if ref in self._turns}
        return turns, {ref: self._replies[ref] for ref in messages if ref in self._replies}

    def with_words(self, candidate: Candidate, terms: Terms) -> Candidate:
        """Return a candidate with its words, as `Store.hydrate` does."""
        return candidates.with_words(candidate, terms)

    def spans(self, wanted: Sequence[Span]) -> list[list[Passage]]:
        """Return `Store.passages` of several documents: each an id, a first and a last ordinal."""
        missing = [span for span in dict.fromkeys(wanted) if span not in self._spans]
        if missing:
            [rows] = self._together(documents.spanning(missing))
            self._spans |= zip(missing, documents.as_spans(rows, len(missing)), strict=True)
        return [self._spans[span] for span in wanted]

    # -- what a recall shows beside its hits -----------------------------------------------

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Be what `Store.ahead` returns in this thread, for several searches of one question."""
        with self._store.asking(self):
            yield

    def beside(
        self,
        spans: Sequence[Span],
        messages: Sequence[str],
        where: Filter,
        pinned: Filter,
        replacing: Sequence[str],
        most: tuple[int, int, int],
    ) -> None:
        """Read all that a recall shows beside its hits: `spans`, and what follows here."""
        missing = [span for span in dict.fromkeys(spans) if span not in self._spans]
        following, pinned_ones, back = most
        statements = [
            documents.spanning(missing),
            around.beginnings(pinned_ones, self._where(pinned)),
        ]
        if messages:
            statements.append(around.stepping(messages, messages, following))
            # Of the very session and project of each.
            chosen = self._where(where._replace(session=None, projects=None))
            statements.append(around.following(messages, following, chosen))
        if replacing:
            statements.append(around.earlier(replacing, back))
        listed, begun, *others = self._together(*statements)
        self._spans |= zip(missing, documents.as_spans(listed, len(missing)), strict=True)
        self._known["pinned"] = around.as_beginnings(begun)
        self._known["following"] = {}
        if messages:
            taken, after, *others = others
            read = self._known["following"] = around.as_following(after)
            told = steps.as_steps(taken)
            for id_ in {*messages, *(row.id for rows in read.values() for row, _, _ in rows)}:
                self._steps[id_] = told.get(id_, [])
        self._known["earlier"] = dict(others[0]) if others else {}

    def steps(self, ids: Sequence[str]) -> dict[str, list[Step]]:
        """Return the steps of documents, in order."""
        missing = [id_ for id_ in ids if id_ not in self._steps]
        if missing:
            told = steps.as_steps(self.rows(*steps.of_documents(missing)))
            self._steps |= {id_: told.get(id_, []) for id_ in missing}
        return {id_: self._steps[id_] for id_ in ids}

    def following(self, message: str) -> list[Following]:
        """Return the messages after one."""
        following: dict[str, list[Following]] = self._known["following"]
        return following.get(message, [])

    def pinned(self) -> list[tuple[Document, Passage | None]]:
        """Return the pinned documents of a filter, newest first, each as it begins."""
        listed: list[tuple[Document, Passage | None]] = self._known["pinned"]
        return listed

    def earlier(self) -> dict[str, int]:
        """Return how many documents came before each that replaced one."""
        counts: dict[str, int] = self._known["earlier"]
        return counts


def _tokens(words: Iterable[str]) -> dict[str, Sequence[Token]]:
    return {word: analysis.tokens(fileless.connection(), word) for word in words}


def _is_held(vocabulary: Vocabulary, word: str) -> bool:
    terms = vocabulary.terms.get(word, ())
    return all(vocabulary.holding.get(term) for _, _, term in terms)


def _take_stems(index: Index, wanted: Sequence[str], answers: RowLists) -> None:
    index.take_stems(wanted, answers[0])


def _count(place: int, answers: RowLists) -> int:
    return int(answers[place][0][0])


def _matches(
    first: int, count: int, scored: Callable[[RowLists], list[Scored]], answers: RowLists
) -> int:
    return len(scored(answers[first : first + count]))


def _best_of(
    scored: Sequence[Scored], near: Nearest, limits: tuple[int, int, int]
) -> tuple[list[Scored], Nearest]:
    """Return the best, and only the cosines that belong to them."""
    hits = near.hits[: limits[1]]
    refs = [ref for ref, _ in (*scored[: limits[2]], *hits)]
    cosines = {ref: near.cosines[ref] for ref in refs if ref in near.cosines}
    return list(scored[: limits[0]]), near._replace(hits=hits, cosines=cosines)
