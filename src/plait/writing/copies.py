"""Lower the trust of new texts that copy what only untrusted text says.

Every field is compared, word for word, with every field of what is not trusted, also of what was
deleted or replaced and still lies in the trash. The rules are in `plait.facts.copied` and `trust`.
"""

from collections.abc import Collection, Iterable, Sequence

from plait.facts import copied
from plait.facts.trust import COPIED, COPYING, VOUCHING, below, outranks
from plait.protocols import Store
from plait.text import parse
from plait.types import Document, Filter
from plait.types.queries import Expression, Group, Query
from plait.types.records import NamedTuple
from plait.types.relations import Relation
from plait.writing.documents import with_front_matter

# Passages of untrusted text that are read, and as many of the trash: some 60 ms a thousand. What is
# older is looked up in the keyword index, which has texts, headings, titles and tags.
MOST_SOURCES = 4_000
# Keyword searches for one text, some milliseconds each: for older sources, and for sentences that
# trusted text may say too. What is not looked up counts as copied.
MOST_PHRASES = 200
VOUCHING_PASSAGES = 5
# Words of a relation that copies: "is responsible for" may be in any text.
SHORTEST_LABEL = 5
# Characters of new texts that are compared at once: each takes some 25 bytes of memory.
COMPARED_AT_ONCE = 2_000_000
_SUSPECTS = Filter(trusts=below("trusted"), all_versions=True)
# Not what agents wrote: in pieces too short to count, they could vouch for all of a sentence.
_VOUCHED = Filter(trusts=("trusted",), origins=VOUCHING, all_versions=True)


class New(NamedTuple):
    """A new document, the name of the entity that it belongs to, and given headings."""

    document: Document
    entity: str | None = None
    headings: tuple[str, ...] = ()


def with_trust_of_copies(
    store: Store, new: Sequence[New], *, imported: bool = False
) -> list[Document]:
    """Return new documents with the trust that their sentences deserve.

    One copied sentence is enough, in whatever project it was. In names only long runs of words
    count: a title or a tag of two words proves nothing. They are also compared with each other,
    unless they are ``imported``: an export keeps what its documents were to each other, but its
    lines may name any origin.
    """
    documents = [row.document for row in new]
    places = [
        place
        for place, document in enumerate(documents)
        if (imported or document.origin in COPYING) and outranks(document.trust, COPIED)
    ]
    if not places:
        return documents
    sources, everything = _sources(store)
    beside = [row for row in documents if not imported and outranks("trusted", row.trust)]
    sources += beside
    if not sources:
        return documents
    persons = [row for row in documents if not imported and row.origin in VOUCHING]
    persons = [row for row in persons if row.trust == "trusted"]
    search = CopySearch(store, sources, persons, everything=everything)
    for group in _groups(places, documents):
        parts = [NewParts(new[place]) for place in group]
        for place, is_copy in zip(group, search.copies(parts), strict=True):
            if is_copy:
                documents[place] = documents[place]._replace(trust=COPIED)
    return documents


def copying_relations(store: Store, relations: Sequence[Relation]) -> list[bool]:
    """Tell for each relation whether its type or context copies what only untrusted text says."""
    sources, everything = _sources(store)
    if not sources or not relations:
        return [False] * len(relations)
    search = CopySearch(store, sources, (), everything=everything)
    texts = ("\n\n".join((edge.type, edge.context or "")) for edge in relations)
    return search.copies([NewParts(New(Document(text=text)), is_label=True) for text in texts])


def _sources(store: Store) -> tuple[list[Document], bool]:
    """Return what is not trusted, the latest, and whether that is all; then what was deleted."""
    heads = store.scan(_SUSPECTS, limit=MOST_SOURCES + 1)
    room, ids = MOST_SOURCES, list[str]()
    for head in heads:
        if room <= 0:
            break
        ids.append(head.id)
        room -= max(1, head.chunk_count)
    sources = store.load(ids) if ids else []
    deleted = store.trashed(distrusted=MOST_SOURCES)
    return [*sources, *(row.document for row in deleted)], len(ids) == len(heads)


def _groups(places: Sequence[int], documents: Sequence[Document]) -> list[list[int]]:
    """Divide documents so that not too much is compared at once."""
    groups: list[list[int]] = []
    room = 0
    for place in places:
        room -= len(documents[place].text)
        if not groups or room < 0:
            groups.append([])
            room = COMPARED_AT_ONCE - len(documents[place].text)
        groups[-1].append(place)
    return groups


class NewParts:
    """What may be copied in one new document: its sentences, read in two ways, and long names."""

    def __init__(self, new: New, *, is_label: bool = False) -> None:
        self.is_label = is_label
        document = with_front_matter(new.document)
        # The heading of an observation is the name of its entity.
        headings = new.headings if document.kind != "observation" else ()
        text = "\n\n".join([*copied.statements(document), *headings])
        self.readings = [copied.windows(text, by_line=by_line) for by_line in (False, True)]
        names = "\n\n".join([*copied.names(document), new.entity or "", *new.headings])
        self.names = [part for part in copied.windows(names) if any(copied.runs(part))]

    def all(self) -> dict[copied.Window, None]:
        """Return every part once: a sentence on one line is the same in both readings."""
        return dict.fromkeys(part for parts in (*self.readings, self.names) for part in parts)


class CopySearch:
    """Looks for the parts of new documents in sources that are not trusted.

    ``everything``: the sources are all there are. ``persons`` are new documents that vouch.
    """

    def __init__(
        self,
        store: Store,
        sources: Sequence[Document],
        persons: Sequence[Document],
        *,
        everything: bool,
    ) -> None:
        self._store = store
        self._sources = sources
        self._persons = persons
        self._everything = everything
        self._lookups = 0

    def copies(self, new: Sequence[NewParts]) -> list[bool]:
        """Tell for each document whether it copies what nothing trusted says."""
        sought = copied.Sought(part for parts in new for part in parts.all())
        shared = _shared(sought, self._sources)
        persons = self._persons if shared else ()
        vouched = _shared(sought, persons, in_sentences=True)
        return [self._is_copy(parts, shared, vouched) for parts in new]

    def _is_copy(
        self, parts: NewParts, shared: set[copied.Gram], vouched: set[copied.Gram]
    ) -> bool:
        self._lookups = 0
        known: dict[copied.Window, bool] = {}

        def copies(part: copied.Window) -> bool:
            if part not in known:
                grams = set(copied.grams(part))
                mine = grams & shared
                if not self._everything and not mine:
                    mine = self._among_older(part)
                known[part] = bool(mine - vouched) and not self._is_vouched(part, mine - vouched)
            return known[part]

        for reading in parts.readings:
            marked = []
            for part in reading:
                if parts.is_label and len(part) < SHORTEST_LABEL:
                    continue
                if copies(part):
                    marked.append(part)
                    if copied.tells(part):
                        return True
            if marked and len(marked) == len(reading) and not parts.is_label:
                return True
        return any(map(copies, parts.names))

    def _among_older(self, part: copied.Window) -> set[copied.Gram]:
        """Return what a part copies from untrusted text that was not read."""
        grams = copied.grams(part)
        if self._is_exhausted():
            return set(grams)
        phrases = [_phrase(gram) for gram in grams]
        wanted = [phrase.expression for phrase in phrases if phrase.expression is not None]
        if len(wanted) == len(phrases):
            whole = Query(copied.as_text(part), part, _either(wanted), strict=True)
            if not self._is_suspected(whole):
                return set()
        return {
            gram
            for gram, phrase in zip(grams, phrases, strict=True)
            # A phrase matches other forms of its words too; that is close enough.
            if (phrase.expression is not None and self._is_suspected(phrase))
            or (phrase.expression is None and gram in self._in_passages(gram, vouching=False))
        }

    def _is_vouched(self, part: copied.Window, mine: set[copied.Gram]) -> bool:
        """Tell whether trusted text says all that a part copies."""
        if self._is_exhausted():
            return False
        if mine <= self._in_passages(part, vouching=True):
            return True
        if len(copied.grams(part)) == 1:
            return False
        # Several texts may say it together.
        return all(
            not self._is_exhausted() and gram in self._in_passages(gram, vouching=True)
            for gram in mine
        )

    def _in_passages(self, words: Sequence[str], *, vouching: bool) -> set[copied.Gram]:
        """Return what the passages with these words in this order contain of them."""
        where = self._where(vouching=vouching)
        refs = [ref for ref, _ in self._store.keyword(_phrase(words), VOUCHING_PASSAGES, where)]
        sought = copied.Sought([tuple(words)])
        known: set[copied.Gram] = set()
        rows = list(self._store.hydrate(refs).values())
        counting = self._counting([row.document for row in rows], vouching=vouching)
        for row in rows:
            if row.document.id not in counting:
                continue
            names = copied.names(row.document)
            told = [row.passage.text, row.passage.heading, *names]
            known |= sought.shared_with(told, in_sentences=vouching)
        return known

    def _is_suspected(self, phrase: Query) -> bool:
        """Tell whether a text to be compared with, of any age, has a phrase."""
        return bool(self._store.keyword(phrase, 1, _SUSPECTS))

    def _where(self, *, vouching: bool) -> Filter:
        return _VOUCHED if vouching else _SUSPECTS

    def _counting(self, documents: Sequence[Document], *, vouching: bool) -> Collection[str]:
        """Return the ids of those documents that count, for a text or against it."""
        return {row.id for row in documents}

    def _is_exhausted(self) -> bool:
        self._lookups += 1
        return self._lookups > MOST_PHRASES


def _shared(
    sought: copied.Sought, sources: Iterable[Document], *, in_sentences: bool = False
) -> set[copied.Gram]:
    shared: set[copied.Gram] = set()
    for source in sources:
        fields = [*copied.statements(source), *copied.names(source)]
        shared |= sought.shared_with(fields, in_sentences=in_sentences)
    return shared


def _phrase(words: Sequence[str]) -> Query:
    """Make a query for words in this order."""
    return parse(f'"{copied.as_text(words)}"')


def _either(expressions: Sequence[Expression]) -> Expression:
    return expressions[0] if len(expressions) == 1 else Group("or", tuple(expressions))
