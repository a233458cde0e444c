"""What a search reads next, read in one trip: the server may be far away.

The values are those of the store's own reads, one after the other; see `plait.protocols.ahead`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from plait.protocols import Candidate, Nearest, Replies, Scored, State, Token, Vector
from plait.protocols.ahead import MOST_TRIPS
from plait.stores import spelling as spellings
from plait.stores.postgres import candidates, documents, hnsw, keyword, vectors
from plait.stores.postgres.beside import Beside
from plait.stores.postgres.connection import Connections, SQLStatement
from plait.stores.postgres.filters import Conditions
from plait.stores.postgres.ranked_lists import HowMany, RankedLists, nearest_of
from plait.stores.postgres.spelling import Index
from plait.stores.postgres.state import OF_STATE, state_of
from plait.stores.postgres.steps import of_passages
from plait.stores.postgres.terms import is_absent, is_held, without_common_terms
from plait.stores.postgres.trips import RowLists
from plait.stores.sqlite import analysis, fileless
from plait.stores.sqlite.documents import DocumentOrPassage
from plait.text import beginnings, spelling
from plait.types import Document, Filter, Ref, Space
from plait.types.queries import Query, Spelling, Term, Terms, Turn, Vocabulary

if TYPE_CHECKING:
    from plait.stores.postgres.store import PostgresStore

Company = tuple[list[int], list[Vocabulary]]
# Trips after the misspelt words: their company, the search, its candidates.
AFTER_WORDS = 3
# Words that a store remembers to be there: nobody looks for others that are spelt like them.
MOST_FAMILIAR = 10_000


class Ahead(Beside):
    """The reads of one question, one thread's: what was read once is not read again."""

    def __init__(
        self,
        store: "PostgresStore",
        connections: Connections,
        where: Callable[..., Conditions],
        clock: Callable[[], int],
    ) -> None:
        super().__init__(connections, where)
        self.kept = 0
        self.reads_beside = False
        self.sizes: Collection[int] = ()
        self.has_gathered = False
        self._store = store
        self._clock = clock
        self._forms: dict[Term, Sequence[Term]] = {}
        self._branches: dict[object, RankedLists] = {}
        self._hydrated: list[tuple[Set[Ref], Mapping[Ref, Candidate]]] = []
        self._expected: set[object] = set()
        self._placed: set[Ref] = set()
        self._turns: dict[Ref, Turn] = {}
        self._misspelt = False  # whether `foresee` has words or stems in store
        self._replies: dict[Ref, list[tuple[Ref, Turn]]] = {}

    def shared(self) -> "Shared":
        """Be what `Store.ahead` returns in this thread, for several searches of one question."""
        return Shared(self._store, self)

    # -- words -----------------------------------------------------------------------------

    def expect_survey(
        self,
        query: Query,
        *,
        prefixes: Iterable[str],
        seen_by: Filter,
        doubtful: Sequence[str] = (),
        where: Filter | None = None,
    ) -> None:
        """Read with the next trip what `survey` asks for."""
        name = ("survey", query, seen_by)
        if name in self._expected:
            return
        self._expected.add(name)
        familiar = self._store.familiar
        # Another process may have deleted them since, which takes a trip if that is not looked for.
        unfamiliar = [word for word in doubtful if self.kept or word not in familiar]
        self._foresee_doubtful(unfamiliar, where)
        self._foresee_index()
        tokens = _tokens(query.words)
        starts, seen = beginnings(tokens, prefixes), self._where(seen_by, searching=True)
        counting = keyword.of_vocabulary(tokens, starts, None, seen)
        longer = keyword.asking_for_forms(query)

        def read(answers: RowLists) -> tuple[State, Vocabulary]:
            own, counts = answers[: len(OF_STATE)], answers[len(OF_STATE) + len(longer) :]
            state = state_of(own, self._store.analyzer, has_vectors=self._store.has_vectors)
            self._store.indexes.passages = state.passages
            self._forms |= keyword.as_forms(longer, answers[len(OF_STATE) :][: len(longer)])
            vocabulary = keyword.vocabulary_of(self, counts, tokens, starts, None, seen)
            self._foresee_index()  # by now it is known how large the memory is
            held = [word for word in unfamiliar if is_held(vocabulary, word)]
            familiar.difference_update(word for word in doubtful if is_absent(vocabulary, word))
            if len(familiar) + len(held) <= MOST_FAMILIAR:
                familiar.update(held)
            return state, vocabulary

        def take(answers: RowLists) -> None:
            self._known[name] = partial(read, answers[:])

        self._soon([*OF_STATE, *longer.values(), *counting], take)

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
        name = ("survey", query, seen_by)
        if name not in self._known:
            self.expect_survey(
                query, prefixes=prefixes, seen_by=seen_by, doubtful=doubtful, where=where
            )
            self._together()
        if callable(read := self._known[name]):
            self._known[name] = read()
        survey: tuple[State, Vocabulary] = self._known[name]
        return survey

    def _foresee_doubtful(self, doubtful: Sequence[str], where: Filter | None) -> None:
        """Read the stems of words that may be misspelt with the next trip, if any is not there."""
        if not doubtful:
            return
        index, tokens = self._index(where), _tokens(doubtful)
        terms = [listed[0][2] for listed in tokens.values() if listed]
        self._soon(*index.asking_for_words(list(map(spelling.folded, doubtful)), terms))

    def _foresee_index(self) -> None:
        """Look for the index of the vectors with the next trip, if there may be one."""
        indexes, ns = self._store.indexes, self._connections.membership.ns
        if indexes.may_serve and (asking := indexes.asking(ns)):
            self._soon(asking, partial(indexes.take, ns))

    def foresee(
        self,
        words: Sequence[str],
        where: Filter,
        beside: Sequence[str],
        seen_by: Filter,
        instead: Sequence[str] = (),
    ) -> None:
        """Read with the next trip what `alike` of some words and `vocabulary` of others ask for."""
        index = self._index(where)
        index.instead = instead
        typed = list(dict.fromkeys(map(spelling.folded, [*words, *instead])))
        if missing := [word for word in typed if not index.knows([word])]:
            self._soon(*index.asking_for_words(missing))
            self._misspelt = True
        else:
            asked = index.asking_for_stems(*spellings.stems_for(index, words))
            if asked:
                self._soon(*asked)
                self._misspelt = True
        name = ("vocabulary", *beside)
        if beside and name not in self._known:
            tokens, seen = _tokens(beside), self._where(seen_by, searching=True)
            self._soon(
                keyword.of_vocabulary(tokens, beginnings(tokens), None, seen),
                partial(self._known.__setitem__, name),
            )

    def vocabulary(self, words: Sequence[str], seen_by: Filter) -> Vocabulary:
        """Return `Store.vocabulary` of words that were told by `foresee`."""
        name = ("vocabulary", *words)
        if name not in self._known:
            self._together()
        tokens, seen = _tokens(words), self._where(seen_by, searching=True)
        starts = beginnings(tokens)
        return keyword.vocabulary_of(self, self._known[name], tokens, starts, None, seen)

    def alike(self, words: Sequence[str], where: Filter) -> dict[str, list[Spelling]]:
        """Return `Store.alike`."""
        name = ("alike", *words)
        if name not in self._known:
            index = self._index(where)
            if self._misspelt and self._waiting:
                self._together()  # what was foreseen of them
            self._misspelt = False
            alike = spellings.alike(index, words)
            self._known[name] = alike if index.any_seen else {}
        spelt: dict[str, list[Spelling]] = self._known[name]
        return spelt

    def _index(self, where: Filter | None) -> Index:
        if "index" not in self._known:
            self._known["index"] = Index(self._together, is_last=self._is_last_look)
        index: Index = self._known["index"]
        if where is not None and index.where is None:
            index.where = self._where(where, searching=True)
        return index

    def _is_last_look(self) -> bool:
        """Tell whether the next trip is the last one for words: the others come after them."""
        return self.trips + self.kept + 2 + AFTER_WORDS > MOST_TRIPS

    def company(
        self, queries: Sequence[Query], limit: int, where: Filter, words: Iterable[str]
    ) -> Company:
        """Return how many passages `Store.keyword` has of each query, and `Store.vocabulary`."""
        tokens = _tokens(words)
        name = ("company", *queries, *tokens)
        if name not in self._known:
            sent, take = self._asking_for_company(queries, limit, where, tokens)
            self._known[name] = take(self._together(*sent))
        company: Company = self._known[name]
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
    ) -> tuple[list[SQLStatement], Callable[[RowLists], Company]]:
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
        # Words with one stem have counts of their own, of what begins like each.
        groups = [(group, beginnings(group)) for group in without_common_terms(tokens)]
        asking = [keyword.of_vocabulary(*group, None, None) for group in groups]

        def take(answers: RowLists) -> Company:
            others = iter(answers[len(sent) :])
            listed = [
                keyword.vocabulary_of(self, [next(others) for _ in own], *group, None, None)
                for own, group in zip(asking, groups, strict=True)
            ]
            return [count(answers) for count in counts], listed

        return [*sent, *chain.from_iterable(asking)], take

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
        limits: HowMany,
        where: Filter,
        *,
        deadline: float,
        later: Sequence[HowMany] = (),
    ) -> tuple[list[Scored], Nearest]:
        """Return `Store.keyword`, and `Store.vector` with the cosines of its hits."""
        name = (query, vector is not None)
        listed = self._branches.get(name)
        best = None if listed is None else listed.best(limits)
        if best is None:
            wanted = [limits, *later]
            listed = self._searched(query, vector, space, wanted, where, deadline)
            self._branches[name] = listed
            best = listed.best(limits)
        assert best is not None
        return best

    def _searched(
        self,
        query: Query | None,
        vector: Vector | None,
        space: Space,
        wanted: Sequence[HowMany],
        where: Filter,
        deadline: float,
    ) -> RankedLists:
        limits = by_words, by_vector, _ = tuple(map(max, zip(*wanted, strict=True)))
        asked, scored = self._matching(query, by_words, where)
        if vector is None or not self._store.has_vectors:
            hits = scored(self._together(*asked, deadline=deadline))
            return RankedLists(limits, hits, {by_vector: Nearest([], {})})
        index, sizes = self._index_of(space), [row[1] for row in wanted]
        ns, conditions = self._connections.membership.ns, partial(self._where, where)
        sizes, comparing = nearest_of(vector, space, sizes, index, ns, conditions)
        if len(asked) == 1:
            asked = [vectors.with_cosines(asked[0], vector, space)]
        elif query is not None and asked:
            own = Conditions(0)
            listed = keyword.candidates(query, own, self._forms_of(query))
            asked = [*asked, vectors.cosines_of(listed, own.values, vector, space)]
        sent = len(comparing)
        answers = self._together(*comparing, *asked, unlimited=sent, deadline=deadline)
        # The last statement for each size is the search; what comes before sets how it searches.
        step = sent // len(sizes)
        nearest = dict(
            zip(sizes, map(vectors.as_nearest, answers[step - 1 : sent : step]), strict=True)
        )
        if step > 1:
            nearest = {
                size: near._replace(approximate=near.among is None)
                for size, near in nearest.items()
            }
            if by_vector and not nearest[by_vector].hits:
                self._store.indexes.forget()  # its vectors may have been replaced since
                chosen = self._where(where, searching=True)
                exact = vectors.comparing(vector, space, by_vector, chosen, ())
                nearest = {by_vector: vectors.as_nearest(self._together(exact)[0])}
        answers = answers[sent:]
        pairs = [(row[0], row[-1]) for row in answers[-1]] if answers else []
        cosines = {ref: cosine for ref, cosine in pairs if cosine is not None}
        nearest = {
            size: near._replace(cosines=cosines | near.cosines) for size, near in nearest.items()
        }
        return RankedLists(limits, scored(answers), nearest)

    def _index_of(self, space: Space) -> hnsw.VectorIndex | None:
        indexes = self._store.indexes
        if not indexes.may_serve:
            return None
        self._foresee_index()
        if indexes.asking(self._connections.membership.ns):
            self._together()
        return indexes.known(space)

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
        steps: bool = False,
    ) -> tuple[Set[Ref], Mapping[Ref, Candidate]]:
        """Return `Store.hydrate` of ``refs``, and of which others it was read, too."""
        wanted, unplaced = set(refs), [ref for ref in messages if ref not in self._placed]
        for asked, rows in self._hydrated:
            if wanted <= asked and not unplaced:
                return asked, rows
        wanted.update(more)
        if more and self.sizes:  # wider searches of this question will ask for the others
            listed = self._listed()
            wanted |= listed
            near = [*near, *listed] if near else ()
            unplaced = [*wanted - self._placed] if messages else []
        statements = candidates.hydrating([*wanted], self._clock(), ranking=True)
        beside = self._beside(near, window, wanted if steps else ())
        if unplaced:
            replying = candidates.replying(unplaced, self._where(where))
            if replies:
                statements = [candidates.of_replies_too(row, replying) for row in statements]
                beside = [(candidates.of_replies_too(row, replying), take) for row, take in beside]
            placing = [documents.placing(unplaced), replying]
            self._soon(placing, partial(self._take_turns, unplaced))
        for statement, take in beside:
            self._soon([statement], take)
        rows = candidates.unread(self._together(*statements))
        self.has_gathered = True
        if steps:
            for candidate in rows.values():
                self._steps.setdefault(candidate.document.id, [])
        self._hydrated.append((wanted | rows.keys(), rows))
        return self._hydrated[-1]

    def _beside(
        self, near: Sequence[Ref], window: int, acting: Collection[Ref]
    ) -> list[tuple[SQLStatement, Callable[[RowLists], None]]]:
        """Return what is asked beside candidates, and who takes it: around some, steps of some."""
        asked: list[tuple[SQLStatement, Callable[[RowLists], None]]] = []
        if window and near:
            asked.append((documents.surrounding(near, window), partial(self._take_around, window)))
        if acting:
            asked.append((of_passages([*acting]), self._take_steps))
        return asked

    def _listed(self) -> set[Ref]:
        """Return all passages of the rankings so far that may become candidates."""
        refs: set[Ref] = set()
        for listed in self._branches.values():
            ranked = (near.hits for near in listed.nearest.values())
            hits = chain(listed.scored[: listed.limits[2]], *ranked)
            refs.update(ref for ref, _ in hits)
        return refs

    def _take_turns(self, unplaced: Sequence[Ref], answers: RowLists) -> None:
        self._placed.update(unplaced)
        self._turns |= documents.placed(answers[0])
        self._replies |= candidates.replied(answers[1])

    def conversation(self, messages: Sequence[Ref]) -> tuple[dict[Ref, Turn], Replies]:
        """Return `Store.turns` of messages that were gathered, and their replies."""
        turns = {ref: self._turns[ref] for ref in messages if ref in self._turns}
        return turns, {ref: self._replies[ref] for ref in messages if ref in self._replies}

    def with_words(self, candidate: Candidate, terms: Terms) -> Candidate:
        """Return a candidate with its words, as `Store.hydrate` does."""
        return candidates.with_words(candidate, terms)

    def expect_named(self, name: str, where: Filter, linked: Filter | None) -> None:
        """Read with the next trip what `named` of these asks for."""
        key = ("named", name)
        if key not in self._known:
            asked = documents.finding(name, self._where(where))
            sent = list(chain.from_iterable(asked))
            if linked is not None:
                sent.append(documents.as_written(self._where(linked)))

            def take(answers: RowLists) -> None:
                others = [] if linked is None else answers.pop()
                named = [document for document, _ in map(documents.beginning, others)]
                self._known[key] = documents.meant(asked, answers), named

            self._soon(sent, take)

    def named(
        self, name: str, where: Filter, linked: Filter | None
    ) -> tuple[list[DocumentOrPassage], list[Document]]:
        """Return `Store.find`, and `Store.scan` of the ``linked`` ones in the order of writing."""
        key = ("named", name)
        if key not in self._known:
            self.expect_named(name, where, linked)
            self._together()
        named: tuple[list[DocumentOrPassage], list[Document]] = self._known[key]
        return named


class Shared:
    """Several searches of one question.

    subtle: no generator, in which Ctrl-C would leave what it read to the next question.
    """

    def __init__(self, store: "PostgresStore", ahead: Ahead) -> None:
        self._store = store
        self._ahead = ahead
        self._before: Ahead | None = None

    def __enter__(self) -> None:
        """Begin."""
        self._before = self._store.ask(self._ahead)

    def __exit__(self, *_: object) -> None:
        """End."""
        self._store.ask(self._before)


def _tokens(words: Iterable[str]) -> dict[str, Sequence[Token]]:
    return {word: analysis.tokens(fileless.connection(), word) for word in words}


def _count(place: int, answers: RowLists) -> int:
    return int(answers[place][0][0])


def _matches(
    first: int, count: int, scored: Callable[[RowLists], list[Scored]], answers: RowLists
) -> int:
    return len(scored(answers[first : first + count]))
