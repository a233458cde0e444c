"""Turn a fused ranking into hits: hydrate, score by evidence and use, explain."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, zip_longest

from plait.embedders import Embedder
from plait.errors import Notice
from plait.protocols import Candidate, Scored, Store
from plait.ranking import hybrid
from plait.ranking.relevance import NONSENSE
from plait.searching.evidence import Evidence, Nearby
from plait.searching.snippets import snippet_of
from plait.types import Branch, Filter, Fusion, Hit, Mode, Ref, Signals, Tuning
from plait.types.queries import Chance
from plait.types.records import NamedTuple

DEADLINE_S = 2.0
READ_AT_ONCE = 12  # candidates
# Where others have the words of the query, hits without any that are less likely about it are left
# out. From benchmarks/quality.md: 0.05 would cost 0.002 of nDCG@10, this nothing.
UNLIKELY = 0.02
# How much text is compared with the query sentence by sentence: twenty messages, a dozen long
# passages. Twenty of these would gain 0.001 of nDCG@10 and cost 2 ms.
COMPARED_CHARS = 9_000
COMPARED_PASSAGE = 2_000


class Request(NamedTuple):
    """One search, with every option resolved."""

    text: str
    limit: int = 10
    offset: int = 0
    block: int = 0  # hits that are sorted together; 0: those of a page
    mode: Mode = "hybrid"
    strict: bool = False
    where: Filter = Filter()
    fusion: Fusion = "weighted"
    keyword_weight: float | None = None
    vector_weight: float | None = None
    min_score: float = 0.0
    floor: str = "relevance"
    window: int = 0
    best_per_document: bool = False
    diverse: bool = False
    explain: bool = False
    expansion_factor: int = 3
    rrf_k: int = hybrid.RRF_K
    deadline: float = DEADLINE_S
    # Constants of `plait.ranking.use` that differ from the defaults; ``None`` ignores use and age.
    limbic: tuple[tuple[str, float], ...] | None = None

    def weights(self, tuning: Tuning) -> tuple[float, float]:
        """Return the caller's weights of both branches, else the fusion's, else the embedder's."""
        keyword, vector = self.keyword_weight, self.vector_weight
        if keyword is None and vector is None:
            if self.fusion == "max":
                return hybrid.MAX_KEYWORD_WEIGHT, hybrid.MAX_VECTOR_WEIGHT
            return tuning.keyword_weight, tuning.vector_weight
        if keyword is None:
            return 1.0 - vector if vector is not None else 1.0, vector or 0.0
        return keyword, 1.0 - keyword if vector is None else vector


class Branches(NamedTuple):
    """What the two branches returned; ``None`` is a branch that did not run."""

    keyword: list[Scored] | None = None
    vector: list[Scored] | None = None
    cosines: Mapping[Ref, float] = {}
    among: int | None = None
    approximate: bool = False
    degraded: tuple[Notice, ...] = ()

    @property
    def mode_used(self) -> Mode:
        """Which branches answered."""
        if self.vector is None:
            return "keyword"
        return "vector" if self.keyword is None else "hybrid"


class Gathered:
    """Hits by their fused scores, and what is to be decided when a second look was taken."""

    def __init__(self, *, looks_on: bool) -> None:
        self.hits: list[Hit] = []
        self.near: list[Candidate] = []  # whatever may get that look
        self.rivals: list[Hit] = []  # other passages of documents that one is to represent
        self.substitutes: list[Hit] = []  # more of these, if no other convinces
        self.hidden: list[Hit] = []  # what hits show besides, if they stay
        self.replies: list[Hit] = []  # messages that convince only if they answer a hit
        self.looked_at_replies = 0
        self.looks_on = looks_on
        self.looked_at = 0
        self.room = self.room_of_rivals = COMPARED_CHARS


def with_entities(store: Store, hits: list[Hit]) -> list[Hit]:
    """Return the hits with the names of the entities that they are facts about."""
    unnamed = [hit.document.parent for hit in hits if hit.entity is None and hit.document.parent]
    if not unnamed:
        return hits
    names = {entity.id: entity.title for entity in store.load([*dict.fromkeys(unnamed)])}
    return [
        hit if hit.entity else hit._replace(entity=names.get(hit.document.parent or ""))
        for hit in hits
    ]


def first_read(request: Request, fused: Mapping[Ref, hybrid.Fused]) -> list[Ref]:
    """Return the candidates that a `Scorer` reads first."""
    return _first_batches(fused, _in_order(fused), _pool(request))


def _first_batches(
    fused: Mapping[Ref, hybrid.Fused], order: Sequence[Ref], wanted: int
) -> list[Ref]:
    """Return all that get a second look, as a rule: two batches."""
    first = _batch_end(fused, order, 0, max(wanted, READ_AT_ONCE))
    return [*order[: _batch_end(fused, order, first, READ_AT_ONCE)]]


def _batch_end(
    fused: Mapping[Ref, hybrid.Fused], order: Sequence[Ref], start: int, wanted: int
) -> int:
    """Keep equal scores in one batch, because only their keys can order them."""
    end = min(len(order), start + wanted)
    while end < len(order) and fused[order[end]].score == fused[order[end - 1]].score:
        end += 1
    return end


def _in_order(fused: Mapping[Ref, hybrid.Fused]) -> list[Ref]:
    return sorted(fused, key=lambda ref: -fused[ref].score)


def _pool(request: Request) -> int:
    """Return how many hits to choose from."""
    last = request.offset + request.limit
    if not request.diverse:
        return last
    from plait.searching.diversity import POOL_FACTOR

    return max(last, last * POOL_FACTOR)


class Scorer:
    """Walks the fused ranking from the top, hydrating in batches, until the answer is full."""

    def __init__(
        self,
        store: Store,
        request: Request,
        evidence: Evidence,
        branches: Branches,
        fused: Mapping[Ref, hybrid.Fused],
        covered: float,
        chance: Chance,
        embedder: Embedder,
    ) -> None:
        self._store = store
        self._request = request
        self._evidence = evidence
        self._cosines = branches.cosines
        self._fused = fused
        self._chance = chance
        self._embedder = embedder
        self._bm25 = dict(branches.keyword or ())
        self._may_be_nonsense = branches.keyword == [] and not evidence.is_in_other_language
        # A caller who asks for one branch alone, or for another system's fusion, wants that order.
        self._boosts = request.fusion == "weighted" and branches.keyword is not None
        self._interacts = self._boosts and branches.vector is not None
        self._covered = covered if self._boosts else 0.0
        self._keyword_rank = _ranks(branches.keyword)
        self._vector_rank = _ranks(branches.vector)
        self._seen: set[str] = set()  # documents with a hit
        self._talks: set[tuple[str | None, str | None]] = set()  # and conversations

    def best(self) -> list[Hit]:
        """Return the best hits, as many as were asked for."""
        request = self._request
        last = request.offset + request.limit
        rows = self._gathered(_pool(request))
        if self._is_chance(rows.hits):
            return []
        scored = self._scored(rows.hits, Nearby(self._evidence, rows.near), rows.looked_at)
        if request.diverse:
            from plait.searching.diversity import diversified

            scored = diversified(scored, last)
        hits = [self._shown(hit) for hit in scored[request.offset : last]]
        return with_entities(self._store, hits)

    def _gathered(self, wanted: int) -> Gathered:
        """Return as many hits as wanted, by their fused scores, and who gets a second look.

        Candidates that it may raise are read even if fewer are wanted: how many are wanted must
        not decide which one is first. They are judged when all of them have been compared.
        """
        order = _in_order(self._fused)
        rows = Gathered(looks_on=self._boosts)
        start = 0
        self._evidence.read_ahead(_first_batches(self._fused, order, wanted), order)
        while start < len(order) and (len(rows.hits) < wanted or rows.looks_on):
            end = _batch_end(self._fused, order, start, max(wanted - len(rows.hits), READ_AT_ONCE))
            batch = self._hydrated(order[start:end])
            unlikely = 0
            for candidate in batch:
                if len(rows.hits) >= wanted and not rows.looks_on:
                    break
                unlikely += self._gather(candidate, rows)
                if rows.looks_on and not self._looks_on(rows):
                    self._judge(rows)
            if unlikely == len(batch):
                break  # what follows has nothing either
            start = end
        if rows.looks_on:
            self._judge(rows)
        self._settle_replies(rows)
        del rows.hits[max(wanted, rows.looked_at) :]
        return rows

    def _gather(self, candidate: Candidate, rows: Gathered) -> bool:
        """Put a candidate where it belongs; tell whether it has nothing to do with the query."""
        looks_on = rows.looks_on
        if looks_on:
            rows.near.append(candidate)
        if self._request.best_per_document and candidate.document.id in self._seen:
            if looks_on and self._interacts and rows.room_of_rivals > 0:
                rows.rivals.append(self._hit(candidate, looks_on=True))
                rows.room_of_rivals -= len(candidate.passage.text[:COMPARED_PASSAGE])
            elif looks_on and self._request.min_score:
                rows.substitutes.append(self._hit(candidate, looks_on=True))
            return False
        hit = self._hit(candidate, looks_on=looks_on)
        if _is_shown_already(hit, rows.hits):
            if looks_on:
                rows.hidden.append(hit)
            return False
        if self._is_likely(hit) if looks_on else self._convinces(hit):
            self._note([hit])
            rows.hits.append(hit)
            rows.looked_at += looks_on
            rows.room -= len(hit.passage.text[:COMPARED_PASSAGE])
        elif not looks_on and hit.document.turn is not None:
            rows.replies.append(hit)
        return self._has_nothing(hit)

    def _note(self, hits: Iterable[Hit]) -> None:
        """Note whose hits these are."""
        for hit in hits:
            self._seen.add(hit.document.id)
            self._talks.add((hit.document.project, hit.document.session))

    def _judge(self, rows: Gathered) -> None:
        """End the second look: compare the hits, and keep those that convince now."""
        rows.looks_on = False
        hits = self._best_of_each(self._convincing(rows.hits + rows.rivals, rows), rows)
        if len(hits) < len(rows.hits):
            represented = {hit.document.id for hit in hits}
            missing = [hit for hit in rows.substitutes if hit.document.id not in represented]
            hits += self._best_of_each(self._convincing(missing[: hybrid.RERANKED], rows), rows)
            for hit in self._convincing(rows.hidden, rows):
                if not _is_shown_already(hit, hits):
                    hits.append(hit)
            hits.sort(key=lambda hit: -self._fused[hit.passage.ref].score)
            self._seen.clear()
            self._talks.clear()
            self._note(hits)
        rows.hits, rows.looked_at = hits, len(hits)
        rows.looked_at_replies = len(rows.replies)

    def _settle_replies(self, rows: Gathered) -> None:
        """Let answers inherit from their questions, and take in those that convince with that."""
        last, convince = len(rows.hits), list[bool]()
        hits = _with_answers(rows.hits + rows.replies)
        for reply in hits[last:]:
            is_other = not self._request.best_per_document or reply.document.id not in self._seen
            convince.append(is_other and self._convinces(reply))
            if convince[-1]:
                self._note([reply])
        rows.looked_at += sum(convince[: rows.looked_at_replies])
        rows.hits = hits[:last] + list(compress(hits[last:], convince))
        if any(convince):
            rows.hits.sort(key=lambda hit: -self._fused[hit.passage.ref].score)

    def _convincing(self, hits: list[Hit], rows: Gathered) -> list[Hit]:
        """Return those that convince when their sentences are compared."""
        compared = self._compared(hits) if hits else []
        weak = [hit for hit in compared if not self._convinces(hit)]
        rows.replies += [hit for hit in weak if hit.document.turn is not None]
        return [hit for hit in compared if self._convinces(hit)]

    def _best_of_each(self, hits: list[Hit], rows: Gathered) -> list[Hit]:
        """Return the best passage of each document, where passages compete."""
        if not rows.rivals and not rows.substitutes:
            return hits
        best: dict[str, Hit] = {}
        for hit in hits:
            other = best.setdefault(hit.document.id, hit)
            if self._with_sentence(hit) > self._with_sentence(other):
                best[hit.document.id] = hit
        return list(best.values())

    def _looks_on(self, rows: Gathered) -> bool:
        """Tell whether one more candidate gets a second look: ten at least, then as text allows."""
        if rows.looked_at < hybrid.COVERED:
            return True
        return self._interacts and rows.room > 0 and rows.looked_at < hybrid.RERANKED

    def _hydrated(self, refs: Sequence[Ref]) -> list[Candidate]:
        # A passage may have been deleted since the branches ran.
        candidates = self._evidence.read(refs)
        candidates.sort(
            key=lambda row: (
                -self._fused[row.passage.ref].score,
                row.document.doc_id,
                row.passage.ordinal,
            )
        )
        return candidates

    def _hit(self, candidate: Candidate, *, looks_on: bool) -> Hit:
        """Return the hit of a candidate; its relevance may wait until sentences are compared."""
        passage = candidate.passage
        ref = passage.ref
        fused = self._fused[ref]
        matched, covered = self._evidence.words(candidate)
        # subtle: to name all values takes five times as long.
        signals = Signals(
            self._bm25.get(ref),
            self._cosines.get(ref),
            fused.keyword,
            fused.vector,
            self._keyword_rank.get(ref),
            self._vector_rank.get(ref),
            covered,
            matched,
        )
        is_compared = looks_on and matched and self._interacts
        return Hit(
            passage,
            candidate.document,
            fused.score,
            0.0 if is_compared else self._evidence.relevance(passage, signals, self._chance),
            self._source(ref),
            signals=signals,
            superseded_by=candidate.superseded_by,
            entity=candidate.entity,
        )

    def _shown(self, hit: Hit) -> Hit:
        """Return the hit with its snippet, which only those of the answer need."""
        [candidate] = self._evidence.read([hit.passage.ref])
        shown, highlights = snippet_of(candidate, self._evidence.wanted)
        return hit._replace(snippet=shown, highlights=highlights)

    def _source(self, ref: Ref) -> Branch:
        """Return which branch listed the hit, before the union was completed."""
        if ref in self._keyword_rank:
            return "hybrid" if ref in self._vector_rank else "keyword"
        return "vector"

    def _convinces(self, hit: Hit) -> bool:
        if self._request.floor == "rrf" and self._request.fusion == "rrf":
            return hit.score >= self._request.min_score
        return self._is_likely(hit) and hit.relevance >= self._request.min_score

    def _is_likely(self, hit: Hit) -> bool:
        return not self._has_nothing(hit) or self._is_beside(hit)

    def _has_nothing(self, hit: Hit) -> bool:
        """Tell whether others have the words of the query, and this one nothing to do with it."""
        if hit.signals.matched or hit.relevance >= UNLIKELY:
            return False
        return self._covered >= hybrid.ENOUGH_COVERAGE

    def _is_beside(self, hit: Hit) -> bool:
        """Tell whether other hits of its conversation speak for a message."""
        document = hit.document
        if self._fused[hit.passage.ref].neighbours > 0.0:
            return True
        return document.turn is not None and (document.project, document.session) in self._talks

    def _is_chance(self, hits: Sequence[Hit]) -> bool:
        """Tell whether the words mean nothing here and nothing is near: no answer is better then.

        The answer is judged, not each hit: the right one may be less near than the nearest. Words
        of another language are no nonsense, though passages in this one are far from them; and
        what was said in a conversation need not have any word of the question.
        """
        if not self._may_be_nonsense or any(hit.document.turn is not None for hit in hits):
            return False
        best = max((hit.relevance for hit in hits[: hybrid.RERANKED]), default=0.0)
        text = self._request.text
        # A curly apostrophe, a dash or a hard space from a phone or a page is no other alphabet.
        is_plain = all(letter.isascii() for letter in text if letter.isalpha())
        return best < NONSENSE and (is_plain or not self._embedder.knows(text))

    # -- the final order -------------------------------------------------------------------

    def _scored(self, hits: list[Hit], nearby: Nearby, looked_at: int) -> list[Hit]:
        """Return the hits in their final order, with their final scores and the reasons.

        They are sorted in blocks: a hit that a later page reads must not move to an earlier one,
        which has been shown already.
        """
        fused = [self._fused[hit.passage.ref] for hit in hits]
        looks: list[hybrid.SecondLook] = []
        if self._boosts:
            looks = [nearby.look(hit) for hit in hits[:looked_at]]
            fused = hybrid.rerank(fused, looks)
        scored = [
            hit._replace(score=row.score, reasons=self._reasons(hit, row, look))
            for hit, row, look in zip_longest(hits, fused, looks)
        ]
        block = self._request.block or len(scored) or 1
        return [
            hit
            for start in range(0, len(scored), block)
            for hit in sorted(
                self._weighed(scored[start : start + block]), key=lambda hit: -hit.score
            )
        ]

    def _compared(self, hits: list[Hit]) -> list[Hit]:
        """Return the hits with their best sentences compared, and as relevant as that tells."""
        if not self._interacts:
            return hits
        texts = [hit.passage.text[:COMPARED_PASSAGE] for hit in hits]
        scores = self._embedder.interact(self._evidence.text, texts)
        compared = []
        for hit, score in zip(hits, [None] * len(hits) if scores is None else scores, strict=True):
            signals = self._evidence.with_sentence(hit, score)
            relevance = self._evidence.relevance(hit.passage, signals, self._chance)
            compared.append(hit._replace(signals=signals, relevance=relevance))
        return compared

    def _with_sentence(self, hit: Hit) -> float:
        """Return a score by which passages of one document differ: its words count for them all."""
        sentence = hybrid.SENTENCE_BOOST * (hit.signals.sentence or 0.0)
        return self._fused[hit.passage.ref].score + sentence

    def _reasons(
        self, hit: Hit, fused: hybrid.Fused, look: hybrid.SecondLook | None
    ) -> tuple[str, ...]:
        if not self._request.explain:
            return ()
        from plait.ranking.explain import explain_score

        across, rare = self._evidence.told_by_language(hit.passage, hit.signals)
        given = (hit.relevance, hit.signals, self._chance, look)
        return explain_score(fused, *given, across=across, uncommon=rare)

    def _weighed(self, hits: list[Hit]) -> list[Hit]:
        """Return the hits with their scores times the one factor of `plait.ranking.use`."""
        changed = self._request.limbic
        if changed is None or self._request.fusion != "weighted":
            return hits  # a caller who asks for another system's fusion wants its scores
        refs = [hit.passage.ref for hit in hits]
        uses = {row.passage.ref: row.use for row in self._evidence.read(refs)}
        if not any(uses.values()) and all(map(_is_plain, hits)):
            return hits  # files do not age, and nobody has read or judged any of these
        from plait.searching.weighing import weighed

        return weighed(hits, uses, changed)


def _is_shown_already(hit: Hit, hits: Iterable[Hit]) -> bool:
    """Tell whether a profile and one of its observations would both be shown."""
    document = hit.document
    if document.kind == "entity":
        return any(other.document.parent == document.id for other in hits)
    if document.parent is None:
        return False
    # A profile shows trusted facts while there is room: the others must be shown on their own.
    line = "- " + " ".join(hit.passage.text.split())
    return any(
        other.document.id == document.parent and line in other.passage.text.splitlines()
        for other in hits
    )


def _with_answers(hits: list[Hit]) -> list[Hit]:
    """Return the hits; the message after a question is as relevant as that, but for a share."""
    if all(hit.document.turn is None for hit in hits):
        return hits
    from plait.searching.answers import answering

    return answering(hits)


def _ranks(branch: list[Scored] | None) -> dict[Ref, int]:
    return {ref: rank for rank, (ref, _) in enumerate(branch or (), start=1)}


def _is_plain(hit: Hit) -> bool:
    document = hit.document
    return (document.kind, document.importance, document.status) == ("file", None, None)
