"""Turn a fused ranking into hits: hydrate, score by evidence and use, explain."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from plait.errors import Notice, StoreDamaged
from plait.protocols import Candidate, Scored, Store, Token, Vocabulary
from plait.ranking import hybrid
from plait.text import empty_words, is_unspaced, single_spaced
from plait.times import DAY_MS
from plait.types import Branch, Document, Filter, Fusion, Hit, Mode, Passage, Ref, Signals, Tuning
from plait.types.queries import Query

DEADLINE_S = 2.0
HYDRATE_BATCH = 25
# A word that nobody uses has some nearest neighbour too, at about 0.03 with the built-in model.
NONSENSE_RELEVANCE = 0.05
SNIPPET_CHARS = 200  # two lines of a terminal
# Files of other endings, such as code and tables, mean something by their lines.
PROSE = (".md", ".markdown", ".txt", ".rst", ".org", ".html", ".htm", ".docx", ".pdf", ".ipynb")
FENCES = ("```", "~~~")
CODE_INDENT = ("    ", "\t")


class Request(NamedTuple):
    """One search, with every option resolved."""

    text: str
    limit: int = 10
    offset: int = 0
    block: int = 0  # hits that are sorted together; 0: those of a page
    mode: Mode = "hybrid"
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


class Branches(NamedTuple):
    """What the two branches returned; ``None`` is a branch that did not run."""

    keyword: list[Scored] | None = None
    vector: list[Scored] | None = None
    cosines: Mapping[Ref, float] = {}
    degraded: tuple[Notice, ...] = ()

    @property
    def mode_used(self) -> Mode:
        """Which branches answered."""
        if self.vector is None:
            return "keyword"
        return "vector" if self.keyword is None else "hybrid"


def with_entities(store: Store, hits: list[Hit]) -> list[Hit]:
    """Return the hits with the names of the entities that they are facts about."""
    parents = {hit.document.parent for hit in hits} - {None}
    if not parents:
        return hits
    entities = store.load([id_ for id_ in parents if id_])
    names = {entity.id: entity.title for entity in entities}
    return [hit._replace(entity=names.get(hit.document.parent or "")) for hit in hits]


class Scorer:
    """Walks the fused ranking from the top, hydrating in batches, until the answer is full."""

    def __init__(
        self,
        store: Store,
        request: Request,
        query: Query,
        vocabulary: Vocabulary,
        branches: Branches,
        fused: Mapping[Ref, hybrid.Fused],
        tuning: Tuning,
    ) -> None:
        self._store = store
        self._left_out: list[Notice] = []
        self._request = request
        self._vocabulary = vocabulary
        self._cosines = branches.cosines
        self._fused = fused
        self._tuning = tuning
        self._bm25 = dict(branches.keyword or ())
        self._no_keyword_hits = branches.keyword is not None and not branches.keyword
        # A caller who asks for vectors alone, or for another system's fusion, wants that order.
        self._boosts = request.fusion == "weighted" and branches.keyword is not None
        self._keyword_rank = _ranks(branches.keyword)
        self._vector_rank = _ranks(branches.vector)
        # Shown as the caller wrote them: "deploy", not the stem "deploi".
        self._word_of = {
            term: word for word in query.words for _, _, term in vocabulary.terms[word]
        }
        self._wanted = frozenset(self._word_of)
        content = [word for word in query.words if word not in empty_words()]
        telling = frozenset(content or query.words)
        self._telling = frozenset(term for term, word in self._word_of.items() if word in telling)

    def best(self) -> list[Hit]:
        """Return the best hits, as many as were asked for."""
        request = self._request
        # Candidates that coverage may raise are read even if fewer are wanted: how many are
        # wanted must not decide which one is first.
        block = request.block or request.limit
        block = max(block, hybrid.COVERAGE_DEPTH) if self._boosts else block
        last = request.offset + request.limit
        wanted = -(-last // block) * block
        if request.diverse:
            from plait.searching.diversity import POOL_FACTOR, diversified

            wanted = max(wanted, last * POOL_FACTOR)
        order = sorted(self._fused, key=lambda ref: -self._fused[ref].score)
        hits: list[Hit] = []
        candidates: dict[Ref, Candidate] = {}
        seen: set[str] = set()
        start = 0
        while start < len(order) and len(hits) < wanted:
            end = self._batch_end(order, start, wanted - len(hits))
            batch = self._hydrated(order[start:end])
            candidates.update((candidate.passage.ref, candidate) for candidate in batch)
            for candidate in batch:
                document = candidate.document
                if request.best_per_document and document.id in seen:
                    continue
                if _is_shown_already(candidate.passage, document, hits):
                    continue
                hit = self._hit(candidate)
                if self._convinces(hit):
                    seen.add(document.id)
                    hits.append(hit)
                if len(hits) == wanted:
                    break
            start = end
        scored = self._scored(hits, candidates, block)
        if request.diverse:
            scored = diversified(scored, last)
        hits = with_entities(self._store, scored[request.offset : last])
        return [self._widened(hit) for hit in hits] if request.window else hits

    def _batch_end(self, order: Sequence[Ref], start: int, wanted: int) -> int:
        """Keep equal scores in one batch, because only their keys can order them."""
        end = min(len(order), start + max(wanted, HYDRATE_BATCH if start else wanted))
        while (
            end < len(order) and self._fused[order[end]].score == self._fused[order[end - 1]].score
        ):
            end += 1
        return end

    def _hydrated(self, refs: Sequence[Ref]) -> list[Candidate]:
        rows = self._readable(refs)
        # A passage may have been deleted since the branches ran.
        candidates = [rows[ref] for ref in refs if ref in rows]
        candidates.sort(
            key=lambda row: (
                -self._fused[row.passage.ref].score,
                row.document.doc_id,
                row.passage.ordinal,
            )
        )
        return candidates

    def _readable(self, refs: Sequence[Ref]) -> dict[Ref, Candidate]:
        """Read passages; one that is damaged is left out, and told, instead of failing the rest."""
        try:
            return self._store.hydrate(refs, ranking=True)
        except StoreDamaged:
            rows: dict[Ref, Candidate] = {}
        for ref in refs:
            try:
                rows |= self._store.hydrate([ref], ranking=True)
            except StoreDamaged as error:
                self._left_out.append(error.notice)
        return rows

    @property
    def degraded(self) -> tuple[Notice, ...]:
        """What was left out of the answer, in one notice."""
        if not self._left_out:
            return ()
        first = self._left_out[0]
        count = len(self._left_out)
        text = f"{count:,} {'result' if count == 1 else 'results'} left out: {first.text}"
        return (first._replace(text=text),)

    def _hit(self, candidate: Candidate) -> Hit:
        passage = candidate.passage
        ref = passage.ref
        fused = self._fused[ref]
        terms = {term for _, _, term in candidate.tokens} | candidate.name_terms
        matched = self._wanted & terms
        covered = hybrid.coverage(
            self._telling, matched, self._vocabulary.passages, self._vocabulary.holding
        )
        cosine = self._cosines.get(ref)
        shown, highlights = self._snippet(passage, candidate)
        signals = Signals(
            bm25=self._bm25.get(ref),
            cosine=cosine,
            keyword=fused.keyword,
            vector=fused.vector,
            keyword_rank=self._keyword_rank.get(ref),
            vector_rank=self._vector_rank.get(ref),
            coverage=covered,
            matched=tuple(sorted({self._word_of[term] for term in matched})),
        )
        return Hit(
            passage=passage,
            document=candidate.document,
            score=fused.score,
            relevance=hybrid.relevance(covered, cosine, self._tuning),
            source=self._source(ref),
            snippet=shown,
            highlights=highlights,
            signals=signals,
            superseded_by=candidate.superseded_by,
        )

    def _snippet(
        self, passage: Passage, candidate: Candidate
    ) -> tuple[str, tuple[tuple[int, int], ...]]:
        """Cut out the matching words; headings are shown next to them, not repeated inside."""
        tokens = candidate.tokens
        path = candidate.document.path
        is_code = path is not None and not path.lower().endswith(PROSE)
        start = 0 if is_code else _after_headings(passage.text)
        if start:
            tokens = [(a - start, b - start, term) for a, b, term in tokens if a >= start]
        return snippet(
            passage.text[start:], tokens, self._wanted, SNIPPET_CHARS, keep_lines=is_code
        )

    def _source(self, ref: Ref) -> Branch:
        """Return which branch listed the hit, before the union was completed."""
        if ref in self._keyword_rank:
            return "hybrid" if ref in self._vector_rank else "keyword"
        return "vector"

    def _convinces(self, hit: Hit) -> bool:
        if self._request.floor == "rrf" and self._request.fusion == "rrf":
            return hit.score >= self._request.min_score
        if self._no_keyword_hits and hit.relevance < NONSENSE_RELEVANCE:
            return False  # no word is known, and nothing is near: better no answer than any
        lent = self._fused[hit.passage.ref].neighbours
        if hit.relevance <= 0.0 and self._boosts and not lent:
            return False  # even the nearest is not near: no answer is better than a wrong one
        return hit.relevance >= self._request.min_score

    # -- the final order -------------------------------------------------------------------

    def _scored(
        self, hits: list[Hit], candidates: Mapping[Ref, Candidate], block: int
    ) -> list[Hit]:
        """Return the hits in their final order, with their final scores and the reasons.

        They are sorted in blocks: a hit that a later page reads must not move to an earlier one,
        which has been shown already.
        """
        fused = [self._fused[hit.passage.ref] for hit in hits]
        if self._boosts:
            fused = hybrid.boost_coverage(fused, [hit.signals.coverage for hit in hits])
        scored = [
            hit._replace(score=row.score, reasons=self._reasons(hit, row))
            for hit, row in zip(hits, fused, strict=True)
        ]
        return [
            hit
            for start in range(0, len(scored), block)
            for hit in sorted(
                self._weighed(scored[start : start + block], candidates),
                key=lambda hit: -hit.score,
            )
        ]

    def _reasons(self, hit: Hit, fused: hybrid.Fused) -> tuple[str, ...]:
        if not self._request.explain:
            return ()
        from plait.ranking.explain import explain_score

        return explain_score(fused, hit.relevance, hit.signals)

    def _weighed(self, hits: list[Hit], candidates: Mapping[Ref, Candidate]) -> list[Hit]:
        """Return the hits with their scores adjusted by use and age."""
        changed = self._request.limbic
        if changed is None or self._request.fusion != "weighted":
            return hits  # a caller who asks for another system's fusion wants its scores
        refs = [hit.passage.ref for hit in hits]
        uses = {ref: candidates[ref].use for ref in refs}
        plain = (hit.document.kind == "file" and hit.document.importance is None for hit in hits)
        if not any(uses.values()) and all(plain):
            return hits  # files do not age, and nobody has read any of these
        from plait.ranking import use

        constants = use.constants_from(changed)
        # Whole days, so that the same search gives the same answer all day.
        now = time.time_ns() // 1_000_000 // DAY_MS * DAY_MS
        weighed = []
        for hit in hits:
            document = hit.document
            history = use.history_of(document, uses[hit.passage.ref], refs)
            weight = use.weigh(
                history,
                now,
                constants,
                kind=document.kind,
                trust=document.trust,
                pinned=document.pinned,
                stated=document.importance,
            )
            reasons = (*hit.reasons, use.explain_weight(weight, history)) if hit.reasons else ()
            weighed.append(hit._replace(score=hit.score * weight.factor, reasons=reasons))
        largest = max([1.0, *(hit.score for hit in weighed)])
        return [hit._replace(score=hit.score / largest) for hit in weighed]

    def _widened(self, hit: Hit) -> Hit:
        """Return the hit with its neighbours' text, overlaps merged."""
        ordinal, window = hit.passage.ordinal, self._request.window
        around = self._store.passages(hit.document.id, ordinal - window, ordinal + window)
        from plait.searching.joining import join

        return hit._replace(context=join(around))


def _is_shown_already(passage: Passage, document: Document, hits: Iterable[Hit]) -> bool:
    """Tell whether a profile and one of its observations would both be shown."""
    if document.kind == "entity":
        return any(hit.document.parent == document.id for hit in hits)
    if document.parent is None:
        return False
    # A profile shows trusted facts while there is room: the others must be shown on their own.
    line = "- " + " ".join(passage.text.split())
    return any(
        hit.document.id == document.parent and line in hit.passage.text.splitlines() for hit in hits
    )


def _after_headings(text: str) -> int:
    """Return where the body of a passage begins; 0 if it has only headings."""
    place = 0
    while place < len(text) and text[place] in "#\n":
        end = text.find("\n", place)
        if end < 0:
            return 0
        place = end + 1
    return place


def _ranks(branch: list[Scored] | None) -> dict[Ref, int]:
    return {ref: rank for rank, (ref, _) in enumerate(branch or (), start=1)}


# -- snippets ------------------------------------------------------------------------------------


def snippet(
    text: str,
    tokens: Sequence[Token],
    wanted: frozenset[str],
    width: int = SNIPPET_CHARS,
    *,
    keep_lines: bool = False,
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Cut about ``width`` characters with the most distinct wanted terms; return their places too.

    White space becomes single spaces, but lines of code, lists and tables stay lines. ``…`` marks a
    cut end, and adjacent places are joined.

    Args:
        text: The passage.
        tokens: Its terms as ``(start, end, term)``, in order of start.
        wanted: The terms to show.
        width: Size of the window in characters of the passage.
        keep_lines: Whether every line stays a line.
    """
    matches = [token for token in tokens if token[2] in wanted]
    first, last = _densest(matches, width)
    slack = max(0, width - (last - first))
    start = max(0, min(first - slack // 2, len(text) - width))
    end = min(len(text), start + width)
    while 0 < start < first and not _between_words(text, start):
        start += 1
    while last < end < len(text) and not _between_words(text, end):
        end -= 1
    window = text[start:end]
    own_lines = _own_lines(text[:end], keep_all=keep_lines) if "\n" in window else {}
    shown, where = "", None
    if not own_lines:
        start, window = start + len(window) - len(window.lstrip()), window.strip()
        end, shown = start + len(window), single_spaced(window)
    # If every gap was one character already, all characters stay in their places.
    if len(shown) != len(window):
        shown, where = _spaced(window, {at - start: gap for at, gap in own_lines.items()})
    before, after = ("…" if cut.strip() else "" for cut in (text[:start], text[end:]))
    marked: list[tuple[int, int]] = []
    for left, right, _ in matches:
        if right <= start or left >= end:
            continue
        opening, closing = max(left, start) - start, min(right, end) - start
        if where is not None:
            opening, closing = where[opening], where[closing]
        opening, closing = len(before) + opening, len(before) + closing
        if marked and opening <= marked[-1][1]:
            marked[-1] = (marked[-1][0], max(closing, marked[-1][1]))
        elif closing > opening:
            marked.append((opening, closing))
    return before + shown + after, tuple(marked)


def _densest(matches: Sequence[Token], width: int) -> tuple[int, int]:
    """Return the bounds of the window with the most distinct terms, then with the most terms."""
    best, bounds = (0, 0), (0, 0)
    counts: dict[str, int] = {}
    oldest = 0
    for newest, (_, end, term) in enumerate(matches):
        counts[term] = counts.get(term, 0) + 1
        while oldest < newest and end - matches[oldest][0] > width:
            gone = matches[oldest][2]
            counts[gone] -= 1
            if not counts[gone]:
                del counts[gone]
            oldest += 1
        size = (len(counts), newest - oldest + 1)
        if size > best:
            best, bounds = size, (matches[oldest][0], end)
    return bounds


def _between_words(text: str, at: int) -> bool:
    """Tell whether a cut before this character splits no word."""
    left, right = text[at - 1], text[at]
    if not (left.isalnum() and right.isalnum()):
        # subtle: a mark is not alphanumeric and still belongs to the letter before it.
        return right.isascii() or left.isspace() or right.isspace()
    return is_unspaced(left + right)


def _own_lines(text: str, *, keep_all: bool) -> dict[int, str]:
    """Return where a line begins that stays a line, with its indentation.

    Lines of code, lists, tables and quotes do, and what follows them after an empty line.
    """
    kept: dict[int, str] = {}
    fence, after_code, in_list, after_gap = "", False, False, False
    place = 0
    for line in text.split("\n"):
        bare = line.lstrip()
        at = place + len(line) - len(bare)
        place += len(line) + 1
        if not bare:
            after_gap = True
            continue
        marks = bare[:3] if bare.startswith(FENCES) else ""
        is_code = bool(fence or marks) or line.startswith(CODE_INDENT)
        is_item = not is_code and _is_item(bare)
        if keep_all or is_code or is_item or after_code or (in_list and after_gap):
            # Other white space, such as U+2028, may end a line on a screen.
            indent = line[: len(line) - len(bare)]
            kept[at] = "".join("\t" if mark == "\t" else " " for mark in indent)
        if marks and fence in ("", marks):
            fence = "" if fence else marks
        in_list = is_item or (in_list and not after_gap)
        after_code, after_gap = is_code, False
    return kept


def _is_item(line: str) -> bool:
    """Tell whether a line of Markdown is an item of a list, a row of a table or a quote."""
    head = line.partition(" ")[0]
    return head in ("-", "*", "+") or line[0] in "|>" or (head[-1] in ".)" and head[:-1].isdigit())


def _spaced(window: str, own_lines: Mapping[int, str]) -> tuple[str, list[int]]:
    """Return the words with one space, or a line break and indentation, between them.

    Also return where each character of the window is now, and its end.
    """
    shown, outer = "", own_lines.get(len(window) - len(window.lstrip()), "")
    where: list[int] = []
    for word in window.split():
        at = window.index(word, len(where))
        skipped = [len(shown)] * (at > len(where))  # the end of the word before it
        if shown:
            indent = own_lines.get(at)
            shown += " " if indent is None else "\n" + indent.removeprefix(outer)
        where += [*skipped, *[len(shown)] * (at - len(where) - 1)]
        where += range(len(shown), len(shown) + len(word))
        shown += word
    return shown, [*where, *[len(shown)] * (len(window) + 1 - len(where))]
