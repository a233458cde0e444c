"""What the text of candidates tells: which words of the query they contain, alone and together."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cached_property
from typing import TYPE_CHECKING

from plait.errors import Notice, StoreDamaged
from plait.protocols import Candidate, State, Store, Use
from plait.ranking import hybrid
from plait.ranking.relevance import relevance
from plait.searching.snippets import in_base_forms
from plait.text import has_runs, parts, prefixes_of, words_in
from plait.text.english import STOP_WORDS, empty_words
from plait.types import EVERYTHING, Filter, Hit, Passage, Ref, Signals
from plait.types.queries import Chance, Expression, Group, Query, Term, Vocabulary

if TYPE_CHECKING:
    from plait.protocols import ReadAhead
    from plait.searching.scoring import Request
    from plait.searching.uncommon import WordsAtLarge

CHATTY_WORDS = 3
CHATTY_CERTAINTY = 0.5
CHATTY_BUT_RARE = 3  # passages: a word in so few of them is looked up, whatever words are around it
LOOKED_UP_WORDS = 2  # so many, all of them telling, are no question: they are looked up
LOOKED_UP_CHARACTERS = 6  # and so many of a script without blanks
LEAST_QUOTED = 3  # little words that rarely stand side by side but in the phrase that is meant
MOST_GATHERED = 1_000  # candidates at once
BEST = 5  # candidates that show which language a memory is in
KNOWS_ALL_WORDS = 30_000  # passages: how many of so many have a word tells how rare it is
IN_PASSAGE = 2  # function words of a language, in a passage that is in it
# Beyond ASCII, but words of ASCII can be written with them: the sign of kelvin, full-width letters.
_FOR_ASCII = re.compile("[\u212a\uff00-\uffef]")


def in_sight(where: Filter) -> Filter:
    """Return the filter for all that the caller may see; the rest of it is what they look for."""
    return Filter(
        projects=where.projects,
        trusts=where.trusts,
        as_of=where.as_of,
        all_versions=where.all_versions,
        scopes=where.scopes,
    )


def survey(
    store: Store, ahead: "ReadAhead | None", request: "Request", query: Query
) -> tuple[State, Vocabulary]:
    """Return the state of a memory, and what it holds of a query's words."""
    begun, sight = prefixes_of(query), in_sight(request.where)
    asked, prefixes = looked_up_in(query, begun)
    if ahead is not None:
        from plait.searching.ahead import survey as read_ahead

        state, vocabulary = read_ahead(ahead, request, asked, prefixes, sight)
    else:
        state = store.state()
        vocabulary = store.vocabulary(asked.words, prefixes=prefixes, seen_by=sight)
    if query.forms:
        from plait.searching.forms import with_forms

        vocabulary = with_forms(vocabulary, query)
    elif asked is not query:
        from plait.searching.beginnings import with_completed

        vocabulary = with_completed(vocabulary, query.words, begun)
    return state, vocabulary


def looked_up_in(query: Query, begun: Sequence[str]) -> tuple[Query, Sequence[str]]:
    """Return a query with all words that are looked up for it, and the beginnings of words."""
    if query.strict and begun:
        from plait.searching.beginnings import looked_up

        others, begun = looked_up(begun)
        return query._replace(words=(*query.words, *others)), begun
    if query.forms:
        from plait.searching.forms import with_form_words

        return with_form_words(query), begun
    return query, begun


def matched(query: Query) -> Query:
    """Return a query as passages must match it: words and prefixes stand for other stems, too."""
    if query.forms:
        from plait.searching.forms import with_form_words

        return with_form_words(query)
    if not query.strict:
        return query
    from plait.searching.beginnings import with_completed_words

    return with_completed_words(query)


def unknown_in(vocabulary: Vocabulary) -> tuple[str, ...]:
    """Return the words that no passage in sight holds; a damaged index knows of none."""
    holding = vocabulary.holding
    return tuple(
        word
        for word, terms in vocabulary.terms.items()
        if terms
        and (word in vocabulary.unseen or not any(holding.get(term, 1) for _, _, term in terms))
    )


class Evidence:
    """Reads candidates, each one once, and tells which of the query's words they contain."""

    def __init__(
        self,
        store: Store,
        query: Query,
        vocabulary: Vocabulary,
        *,
        remote: bool = False,
        ahead: "ReadAhead | None" = None,
        window: int = 0,
    ) -> None:
        self._store = store
        self._ahead = ahead
        self._window = window  # passages around each hit that are asked for later
        # What was looked for before it was asked for, and what of it was there.
        self._sought: Set[Ref] = set()
        self._early: Mapping[Ref, Candidate] = {}
        self._order: Sequence[Ref] = ()  # all that can be asked for
        self._remote = remote
        self._vocabulary = vocabulary
        # Words after NOT must not attract hits, and a long text is cut off.
        self.text = " ".join(query.words) if query.strict else query.text
        self._asked: set[Ref] = set()
        self._read: dict[Ref, Candidate] = {}
        self._across: dict[Ref, bool] = {}
        self._matched: dict[Ref, frozenset[str]] = {}
        self._told: dict[frozenset[str], tuple[tuple[str, ...], float]] = {}
        self._left_out: list[Notice] = []
        # Shown as the caller wrote them: "deploy", not the stem "deploi".
        self._word_of = {
            term: word for word in query.words for _, _, term in vocabulary.terms[word]
        }
        self.wanted = frozenset(self._word_of)
        self._days = None
        self._dated: Set[Ref] = frozenset()  # passages that write a date in another way
        self._undated: Mapping[Ref, frozenset[str]] = {}  # words of a date in those of another day
        if query.dates:
            from plait.searching.days import Days

            self._days = days = Days(query.dates, vocabulary)
            self._dated, self._undated = days.written, days.other
        # Which words begin like an inflected one is known only when all are read.
        others = (term for term, _ in vocabulary.forms.values())
        self.terms = None if vocabulary.beginnings else self.wanted.union(others)
        content = content_of(query.words)
        telling = frozenset(content or query.words)
        listed = frozenset(term for term, word in self._word_of.items() if word in telling)
        self._implied, counted = self._names_with_parts(listed)
        holding = vocabulary.holding
        self._telling = hybrid.rarities(listed - counted, vocabulary.passages, holding)
        rarity = hybrid.rarity(self._telling, holding)
        # "Do it" has no subject that a passage could have words of: only nearness tells. A single
        # word in a sentence, as in "what time is it", tells half as much as one that was looked up,
        # but for a rare one: "when is our flight" is about whatever has "flight".
        # A phrase of little words that stands in the passage is no chance: "to be or not to be".
        telling_enough = content or _has_phrase(query)
        self.rarity = rarity if telling_enough else 0.0
        # Of a date that a passage writes in another way, the memory need not have any word.
        self._rarity_of_dated = math.fsum(self._telling.values()) if content else 0.0
        written = [word for word in self.text.split() if any(map(str.isalnum, word))]
        chatty = len(content) == 1 and len(written) >= CHATTY_WORDS
        held = max((holding.get(term, 0) for term in self._telling), default=0)
        looked_up = chatty and 0 < held <= CHATTY_BUT_RARE
        self._certainty = CHATTY_CERTAINTY if chatty and not looked_up else 1.0
        self._function_words = _function_words_of(query)
        english = empty_words().intersection(self.text.lower().split())
        self._is_unspaced = not english and has_runs(self.text)
        self._lookup = looked_up or (
            len(written) <= min(LOOKED_UP_WORDS, len(content))
            and (len(self.text) <= LOOKED_UP_CHARACTERS or not has_runs(self.text))
        )

    def _names_with_parts(
        self, telling: frozenset[str]
    ) -> tuple[dict[str, frozenset[str]], set[str]]:
        """Return the terms that others are part of, and which of them count as these parts.

        Whatever has a name of code has its parts, so it is no word beside them. Of a name with one
        telling part, it is: a tube is not YouTube.
        """
        implied: dict[str, frozenset[str]] = {}
        counted: set[str] = set()
        if self.text.islower():
            return implied, counted
        terms = self._vocabulary.terms
        for whole, listed in _parts_of_names(self.text).items():
            inner = {term for part in listed for _, _, term in terms.get(part, ())} & telling
            is_number = listed == [whole.rstrip("0123456789")]
            for _, _, term in terms.get(whole, ()):
                if inside := frozenset(inner - {term}):
                    implied[term] = inside
                    counted |= {term} if len(inside) > 1 or is_number else set()
        return implied, counted

    def read_ahead(self, refs: Sequence[Ref], order: Sequence[Ref]) -> None:
        """Read what will probably be asked for, where one large read costs less than several.

        ``order`` has all that can be asked for.
        """
        self._order = order
        missing = [ref for ref in refs if ref not in self._asked]
        if self._ahead is not None:
            if not self._sought >= set(missing):
                self._read_rest(self._ahead)
        elif self._remote and not all(ref in self._early for ref in missing):
            self._early = self._readable(missing)

    def has_read(self, refs: Set[Ref], rows: Mapping[Ref, Candidate]) -> None:
        """Take what was read of these ahead already, all of it together, but not their words."""
        self._sought, self._early = refs, rows

    def _read_rest(self, ahead: "ReadAhead") -> None:
        """Read what was not expected together with all that may be asked for yet."""
        rest = [ref for ref in self._order if ref not in self._asked][:MOST_GATHERED]
        near, window = self._order[:MOST_GATHERED], self._window
        try:
            read = ahead.gather(rest, (), EVERYTHING, near=near, window=window)
        except StoreDamaged:
            return  # each read alone tells what it lacks
        self.has_read(*read)

    def read(self, refs: Sequence[Ref]) -> list[Candidate]:
        """Return those of the passages that still exist, in the order asked for."""
        missing = [ref for ref in refs if ref not in self._asked]
        if missing:
            begun = self._vocabulary.beginnings
            rows = self._rows(missing)
            self._asked.update(missing)
            if self._vocabulary.forms:
                from plait.searching.forms import as_own

                rows = {ref: as_own(row, self._vocabulary) for ref, row in rows.items()}
            if self._days is not None:
                rows = {ref: self._days.told_by(row) for ref, row in rows.items()}
            self._read |= {ref: in_base_forms(row, begun, self.wanted) for ref, row in rows.items()}
        return [self._read[ref] for ref in refs if ref in self._read]

    def _rows(self, refs: Sequence[Ref]) -> dict[Ref, Candidate]:
        ahead = self._ahead
        if ahead is None:
            known = all(ref in self._early for ref in refs)
            return _of_batch(self._early, refs) if known else self._readable(refs)
        if not self._sought >= set(refs):
            self._order = self._order or refs
            self._read_rest(ahead)
        if not self._sought >= set(refs):
            return self._readable(refs)
        rows = _of_batch(self._early, [ref for ref in refs if ref in self._early])
        return {ref: ahead.with_words(row, self.terms) for ref, row in rows.items()}

    def _readable(self, refs: Sequence[Ref]) -> dict[Ref, Candidate]:
        """Read passages; one that is damaged is left out, and told, instead of failing the rest."""
        try:
            return self._store.hydrate(refs, ranking=True, terms=self.terms)
        except StoreDamaged:
            rows: dict[Ref, Candidate] = {}
        for ref in refs:
            try:
                rows |= self._store.hydrate([ref], ranking=True, terms=self.terms)
            except StoreDamaged as error:
                self._left_out.append(error.notice)
        return rows

    def words(self, *candidates: Candidate) -> tuple[tuple[str, ...], float]:
        """Return the query's words that candidates together contain, and their share by rarity."""
        matched = self._matched_by(candidates[0])
        for candidate in candidates[1:]:
            matched |= self._matched_by(candidate)
        told = self._told.get(matched)
        if told is None:
            inside = [self._implied[term] for term in matched if term in self._implied]
            covered = hybrid.coverage(self._telling, matched.union(*inside))
            told = tuple(sorted({self._word_of[term] for term in matched})), covered
            self._told[matched] = told
        return told

    def _matched_by(self, candidate: Candidate) -> frozenset[str]:
        """Return the terms of the query that a candidate has; it is asked for several times."""
        ref = candidate.passage.ref
        matched = self._matched.get(ref)
        if matched is None:
            terms = {term for _, _, term in candidate.tokens} | candidate.name_terms
            matched = self.wanted & terms - self._undated.get(ref, frozenset())
            self._matched[ref] = matched
        return matched

    def with_sentence(self, hit: Hit, score: float | None) -> Signals:
        """Return the signals of a hit with how much of the query its best sentence says.

        No embedder knows that two ways to write a date mean one day, and two days are not one.
        """
        if score is None:
            return hit.signals
        ref = hit.passage.ref
        if ref in self._dated:
            score = max(score, hit.signals.coverage)
        elif ref in self._undated:
            score *= 1.0 - hybrid.coverage(self._telling, self._undated[ref])
        return hit.signals._replace(sentence=score)

    def relevance(self, passage: Passage, signals: Signals, chance: Chance) -> float:
        """Return how likely a passage is about the query; words without a subject tell nothing."""
        undated = self._undated.get(passage.ref)
        if undated and self._telling.keys() <= undated:
            return 0.0  # of another day than the one that alone is asked for
        across, uncommon = self.told_by_language(passage, signals)
        dated = passage.ref in self._dated
        rarity = self._rarity_of_dated if dated else self.rarity
        certainty = self._certainty if rarity or across else 0.0
        sentence = signals.sentence
        covered = signals.coverage * certainty
        likely = relevance(
            covered,
            rarity,
            signals.cosine,
            chance,
            sentence=None if sentence is None else sentence * certainty,
            lookup=self._lookup,
            across=across,
            uncommon=uncommon,
        )
        # No embedder knows that two ways to write a date mean one day.
        return max(likely, relevance(covered, rarity, None, chance)) if dated else likely

    def told_by_language(self, passage: Passage, signals: Signals) -> tuple[bool, float]:
        """Return whether a passage is in another language, and how uncommon its words are."""
        return self.is_across(passage), self._uncommon(passage, signals)

    def _uncommon(self, passage: Passage, signals: Signals) -> float:
        """Return how uncommon words of the query are, where a small memory is in English."""
        passages = self._vocabulary.passages
        if passages >= KNOWS_ALL_WORDS or self._function_words:
            return 0.0
        return self._at_large.tell(passage, signals)

    @cached_property
    def _at_large(self) -> "WordsAtLarge":
        from plait.searching.uncommon import WordsAtLarge

        best = [self._read[ref].passage.text for ref in self._order[:BEST] if ref in self._read]
        return WordsAtLarge(self.text, self._word_of.values(), self._vocabulary, best)

    @property
    def is_in_other_language(self) -> bool:
        """Tell whether the query shows by its words that it is in another language than English."""
        return bool(self._function_words)

    def is_across(self, passage: Passage) -> bool:
        """Tell whether a passage is in another language than the query, as far as words show it.

        A note of few words shows no language.
        """
        if self._is_unspaced:
            return not has_runs(passage.text)
        if not self._function_words:
            return False
        across = self._across.get(passage.ref)
        if across is None:
            across = False
            if _may_be_english(passage.text):
                words = {*words_in(passage.text)}
                is_own = len(words & self._function_words) >= IN_PASSAGE
                across = not is_own and len(words & empty_words()) >= IN_PASSAGE
            self._across[passage.ref] = across
        return across

    def best_coverage(self, refs: Sequence[Ref]) -> float:
        """Return the largest share of the query's words that one of these passages contains."""
        return max((self.words(candidate)[1] for candidate in self.read(refs)), default=0.0)

    @property
    def degraded(self) -> tuple[Notice, ...]:
        """What was left out of the answer, in one notice."""
        if not self._left_out:
            return ()
        first, count = self._left_out[0], len(self._left_out)
        text = f"{count:,} {'result' if count == 1 else 'results'} left out: {first.text}"
        return (first._replace(text=text),)


def _of_batch(rows: Mapping[Ref, Candidate], refs: Sequence[Ref]) -> dict[Ref, Candidate]:
    """Return candidates as if these had been read alone: read together with one another only."""
    batch = {}
    for ref in refs:
        use = rows[ref].use
        if use is not None and use.together:
            together = {other: times for other, times in use.together.items() if other in refs}
            use = use._replace(together=together)
        batch[ref] = rows[ref]._replace(use=None if use == Use() else use)
    return batch


class Nearby:
    """What the candidates near the top contain together: documents, and runs of messages.

    Only these count, so that it does not depend on how many hits are wanted.
    """

    def __init__(self, evidence: Evidence, candidates: Iterable[Candidate]) -> None:
        self._evidence = evidence
        self._of_document: dict[str, list[Candidate]] = {}
        self._of_turn: dict[tuple[str | None, str | None, int], Candidate] = {}
        for candidate in candidates:
            document = candidate.document
            self._of_document.setdefault(document.id, []).append(candidate)
            if document.turn is not None and document.chunk_count == 1:
                self._of_turn[document.project, document.session, document.turn] = candidate

    def look(self, hit: Hit) -> hybrid.SecondLook:
        """Return what the text of a hit tells, together with what is near it."""
        document = hit.document
        members = self._of_document.get(document.id, ())
        turns: list[Candidate] = []
        if document.turn is not None:
            reach = len(hybrid.NEIGHBOUR_SHARES)
            places = range(document.turn - reach, document.turn + reach + 1)
            keys = [(document.project, document.session, place) for place in places]
            turns = [self._of_turn[key] for key in keys if key in self._of_turn]
        return hybrid.SecondLook(
            coverage=hit.signals.coverage,
            document=self._evidence.words(*members)[1] if len(members) > 1 else 0.0,
            around=self._evidence.words(*turns)[1] if len(turns) > 1 else 0.0,
            sentence=hit.signals.sentence or 0.0,
        )


def _function_words_of(query: Query) -> frozenset[str]:
    """Return the function words of the query's language that English has not.

    A query is without them. None if it is in English, or in a language that is not known.
    """
    asked = words_in(query.text)
    if query.text.isascii() and STOP_WORDS.issuperset({*asked}.difference(query.words)):
        return frozenset()  # all that is left out is English
    from plait.text.function_words import function_words_by_letters, function_words_of

    return (function_words_of(asked) or function_words_by_letters(query.text)) - empty_words()


def _may_be_english(text: str) -> bool:
    """Tell whether a text may have function words of English, in less time than to list words."""
    if text.isascii() or _FOR_ASCII.search(text):
        return True
    plain = text.encode("ascii", "replace").decode().lower()
    return len(empty_words().intersection(re.findall("[a-z0-9]+", plain))) >= IN_PASSAGE


def content_of(words: Iterable[str]) -> list[str]:
    """Return the words that tell what a passage is about."""
    return [word for word in words if word not in empty_words() and _tells(word)]


def _has_phrase(query: Query) -> bool:
    """Tell whether whatever matches a query has a phrase of several words, as it was quoted."""
    asked = query.expression
    required: Sequence[Expression | None] = (asked,)
    if isinstance(asked, Group) and asked.operator != "or":
        required = asked.parts if asked.operator == "and" else asked.parts[:1]
    return query.strict and any(
        isinstance(part, Term) and not part.near and len(part.words) >= LEAST_QUOTED
        for part in required
    )


def _tells(word: str) -> bool:
    # A single letter is rarely the word that was meant: "C++" is indexed as "c".
    return len(word) > 1 or not word.isascii() or word.isdecimal()


def _parts_of_names(text: str) -> dict[str, list[str]]:
    """Return what consists of parts, all in lower case: names of code, and parts with a number.

    >>> _parts_of_names("a HTTPServer2")
    {'httpserver2': ['http', 'server'], 'server2': ['server']}
    """
    inside: dict[str, list[str]] = {}
    for name in re.findall(r"[^\W_]+", text):
        forms = parts(name)
        without = {form: form.rstrip("0123456789") for form in forms}
        numbered = {form: [plain] for form, plain in without.items() if form != plain in forms}
        if forms:
            inside[name.lower()] = [form for form in forms if form not in numbered]
            inside |= numbered
    return inside
