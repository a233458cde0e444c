"""Store facts: skip text that was recalled from this memory, report near duplicates."""

from collections.abc import Iterable, Mapping, Sequence

from plait.errors import UsageError, quoted
from plait.facts import echo, likeness
from plait.facts.credentials import secret_kinds
from plait.facts.names import entity_named, is_item
from plait.facts.trust import RAISING, at_least
from plait.protocols import Candidate, Entry, State, Store
from plait.text import clean
from plait.types import KINDS, TRUSTS, Document, Filter, Ref
from plait.types.reports import Near, Stored
from plait.writing import echoes
from plait.writing.backfill import ON_THE_SIDE
from plait.writing.changes import Change
from plait.writing.conversations import Prepared, by_its_role, prepare
from plait.writing.copies import New
from plait.writing.echoes import NOTHING_NEW
from plait.writing.writer import Writer, batches

# Passages compared with a new text, by words and by vector each.
COMPARED = 5
MOST_NEAR = 3
MOST_TOPICS = 100  # facts that may have a topic in other letters
NEAR_SNIPPET_CHARS = 100
# Characters. Two long texts are never near duplicates by chance.
LONGEST_COMPARED = 2_000
# Of content words: only passages with so many in common are compared by vector too.
LEAST_IN_COMMON = 0.25
# Of vectors: what is farther away is near by its words or not at all.
LEAST_COSINE = 0.7
# Of a stored passage: only a fenced block, which is never cut, is longer than this.
LONGEST_CANDIDATE = 10_000


def store_observation(writer: Writer, document: Document, entity: str | None) -> Stored:
    """Store one observation; report what it repeats, replaces and resembles."""
    writer.check_size(document)
    writer.check_size(Document(key=entity))
    about = None if entity is None else _entity_id(writer, entity)
    asked, own = document, echoes.storable(writer.store, document, entity)
    echoed = _echoed(writer, asked, own, about)
    if echoed is not None:
        return echoed
    document = _with_known_topic(writer, own.document, about)
    if entity is not None:
        writer.check_secrets(Document(key=entity, origin=document.origin))
    entry = writer.prepare(document)
    [entry] = writer.embed([entry])
    similar = _similar(writer, entry, about)
    [stored] = writer.write([Change(entry, entity=entity)])
    if stored.entity is not None:
        # The profile waits for its vector, so the state need not be asked for again.
        waits = None if writer.state.space is None else writer.state._replace(pending=1)
        fill_profiles(writer, waits, most=ON_THE_SIDE)
    known = {stored.id, *stored.superseded}
    near = () if stored.duplicate else [other for other in similar if other.id not in known]
    stored = stored._replace(near=tuple(near)[:MOST_NEAR], trouble=writer.trouble)
    return own.noted(stored, asked)


def _with_known_topic(writer: Writer, document: Document, about: str | None) -> Document:
    """Return a fact with its topic as the facts that hold write it: "Port" is "port".

    Otherwise a correction would stand beside what it corrects. An import keeps what it brings.
    """
    topic = document.topic
    if topic is None:
        return document
    forms = (topic, topic.lower(), topic.capitalize(), topic.title(), topic.upper())
    where = Filter(projects=(document.project,), kinds=("observation",), topics=forms)
    where = where if about is None else where._replace(parents=(about,))
    rows = writer.store.scan(where, limit=MOST_TOPICS)
    known = [row.topic for row in rows if row.parent == about]
    return document if topic in known or not known else document._replace(topic=known[0])


def store_note(writer: Writer, document: Document, lines: Sequence[int] = ()) -> Stored:
    """Store a document with a key, without what an agent copied from an answer of this memory.

    ``lines`` has, for each line of the text, its line in the file; empty if they are the same.
    """
    writer.check_size(document)
    own = echoes.storable(writer.store, document)
    if own.is_empty:
        return NOTHING_NEW
    own = own._replace(document=_in_place_of_files(writer, [own.document])[0])
    if own.document.text != document.text:
        lines = ()
    return own.noted(writer.store_note(own.document, lines), document)


def _in_place_of_files(writer: Writer, documents: Sequence[Document]) -> list[Document]:
    """Return notes with the ids of the files that have their names: no name would tell them apart.

    Raises:
        UsageError: A text is not a person's. Files are their owner's, and only ingest or a person
            replaces what is known of them.
    """
    # As they will be stored: no engine can be asked for other names, nor has a file one.
    documents = [
        document._replace(key=clean(document.key)) if document.key else document
        for document in documents
    ]
    keys = {document.key for document in documents if _may_name_file(document)}
    named = Filter(kinds=("file",), keys=tuple(key for key in keys if key), trusts=TRUSTS)
    files: dict[tuple[str | None, str | None], list[Document]] = {}
    for file in writer.store.scan(named) if keys else ():
        files.setdefault((file.project, file.key), []).append(file)
    placed = []
    for document in documents:
        others = files.get((document.project, document.key), [])
        is_new = len(others) == 1 and _may_name_file(document)
        if is_new and writer.store.known([document])[0] is None:
            if document.origin != RAISING:
                raise UsageError(
                    f"{quoted(document.key or '')} is a file of this memory. Store the text under "
                    "another name.",
                    code="name_of_file",
                    subject=document.key or "",
                )
            document = document._replace(id=others[0].id)
        placed.append(document)
    return placed


def _may_name_file(document: Document) -> bool:
    """Tell whether a text could have a file's name: one from a file is told by its path.

    A program finds its items by what they are, whatever a file beside them is called.
    """
    is_note = document.kind == "note" and document.path is None and not document.id
    return is_note and not is_item(document)


def store_many(writer: Writer, many: Iterable[Document]) -> list[Stored]:
    """Store documents, one transaction per batch; those without a project get the writer's.

    Raises:
        UsageError: A document is refused; those of earlier batches are stored.
    """
    stored: list[Stored] = []
    for batch in batches(map(writer.addressed, many)):
        stored += _store_batch(writer, batch)
    return stored


def _store_batch(writer: Writer, batch: Sequence[Document]) -> list[Stored]:
    messages, others = dict[int, Document](), dict[int, Document]()
    for place, document in enumerate(batch):
        if document.kind == "message":
            messages[place] = by_its_role(document)
        else:
            others[place] = document
    parts = (prepare(writer, messages), _prepared(writer, others))
    results = {place: stored for part in parts for place, stored in part.results.items()}
    changes = {place: change for part in parts for place, change in part.changes.items()}
    places = sorted(changes)
    written = writer.write([changes[place] for place in places]) if places else []
    for place, stored in zip(places, written, strict=True):
        part = parts[place in others]
        results[place] = part.noted(place, stored)
    return [results[place] for place in range(len(batch))]


def _prepared(writer: Writer, given: Mapping[int, Document]) -> Prepared:
    """Prepare facts and notes to be written, as `prepare` does messages."""
    news = [New(document) for document in given.values()]
    own = dict(zip(given, echoes.storable_all(writer.store, news) if news else (), strict=True))
    results: dict[int, Stored] = {}
    for place, asked in given.items():
        is_fact = asked.kind == "observation" and asked.key is None
        echoed = _echoed(writer, asked, own[place], asked.parent) if is_fact else None
        if echoed is not None:
            results[place] = echoed
        elif not is_fact and own[place].is_empty:
            results[place] = NOTHING_NEW
    places = [place for place in given if place not in results]
    documents = _in_place_of_files(writer, [own[place].document for place in places])
    changes = {
        place: Change(writer.prepare(document))
        for place, document in zip(places, documents, strict=True)
    }
    return Prepared(changes, results, given, own)


def new_parts(
    writer: Writer, new: Sequence[New], ids: Mapping[str | None, str]
) -> list[Document | None]:
    """Return the new part of each text with the trust it deserves; ``None`` if nothing is new.

    What an agent or a tool was told by this memory is not new. ``ids`` has those of the entities
    that exist already. A text without words stays as it is.
    """
    for row in new:
        writer.check_size(row.document)
    own = echoes.storable_all(writer.store, new)
    return [
        mine.document
        if not row.document.text.strip()
        or _echoed(writer, row.document, mine, ids.get(row.entity, "")) is None
        else None
        for row, mine in zip(new, own, strict=True)
    ]


def fill_profiles(writer: Writer, state: State | None = None, *, most: int | None = None) -> None:
    """Compute missing vectors: profiles change inside a transaction, without a vector."""
    if writer.trouble is None:
        writer.backfill.catch_up(state, most=most)


def _echoed(
    writer: Writer, asked: Document, own: echoes.Storable, about: str | None
) -> Stored | None:
    """Return the result for a text that was recalled from this memory; ``None`` for a new one."""
    if asked.origin not in echo.MACHINES:
        return None
    document = own.document
    all_recalled = own.is_empty
    # A caller who gives a topic or supersedes does not store by accident.
    deliberate = document.topic is not None or document.supersedes is not None
    if all_recalled:
        # Text inside a fence certainly came from this memory.
        where = Filter(projects=(writer.project, None))
        source = echoes.find_repeated(writer.store, asked.text, where, wholly=False)
    elif deliberate:
        return None
    else:
        where = _where_repeated(writer, document, about, recalled=own.answered)
        source = echoes.find_repeated(writer.store, document.text, where)
    if source is not None:
        return Stored(
            source.id,
            source.doc_id,
            source.chunk_count,
            duplicate=True,
            matched=source.id,
            recalled=True,
            entity=source.parent,
        )
    return NOTHING_NEW if all_recalled else None


def _where_repeated(
    writer: Writer, document: Document, about: str | None, *, recalled: bool
) -> Filter:
    """Return where to look for duplicates: under the entity, else anywhere in the project.

    Less trusted text does not count. A text with a type, an importance or a pin can only repeat an
    observation: if it repeated a file or a note, these fields would be lost.
    """
    trusts = at_least(document.trust)
    everywhere = Filter(projects=(writer.project, None), trusts=trusts)
    if recalled:
        return everywhere._replace(all_versions=True)  # an answer may show what has ended
    # What was only said in a conversation is not yet stored as a fact.
    everywhere = everywhere._replace(kinds=tuple(kind for kind in KINDS if kind != "message"))
    if about is not None:
        return Filter(parents=(about,), trusts=trusts)
    says_more = document.type is not None or document.importance is not None
    if says_more or document.pinned:
        return everywhere._replace(kinds=("observation",))
    return everywhere


def _entity_id(writer: Writer, name: str) -> str:
    """Return the id of the entity of this name, of the project or personal; empty for none."""
    homes = [entity_named(name, project) for project in (writer.project, None)]
    known = [document for document in writer.store.known(homes) if document is not None]
    return known[0].id if known else ""


def _similar(writer: Writer, entry: Entry, about: str | None) -> list[Near]:
    """Return near duplicates, the most similar first."""
    text = entry.document.text
    if about == "" or len(entry.passages) != 1 or len(text) > LONGEST_COMPARED:
        return []
    where = Filter(kinds=("observation",), projects=(writer.project,))
    if about is not None:
        where = where._replace(projects=None, parents=(about,))
    store, space = writer.store, writer.embedder.space
    query = echoes.plain_query(text)._replace(rarest=True)
    refs = [ref for ref, _ in store.keyword(query, COMPARED, where)]
    compared = _Compared(store, text)
    compared.add(refs)
    vector = entry.vectors[0] if entry.vectors else None
    cosines: dict[Ref, float] = {}
    if vector is not None and writer.state.space == space:
        also = compared.in_common(LEAST_IN_COMMON)
        nearest = store.vector(vector, space, COMPARED, where, also=also, latest=True)
        compared.add([ref for ref, cosine in nearest.hits if cosine >= LEAST_COSINE])
        cosines = nearest.cosines
    near = []
    for ref, (candidate, wording) in compared.candidates.items():
        body = wording.text
        verdict = likeness.compare(compared.wording, wording, cosines.get(ref))
        if not verdict.near:
            # A small model may see less similarity than the words show.
            verdict = likeness.compare(compared.wording, wording)
        if verdict.near:
            alike = verdict.similarity if verdict.cosine is None else verdict.cosine
            snippet = " ".join(body.split())[:NEAR_SNIPPET_CHARS]
            # What differs may be a part of a secret.
            differences = () if secret_kinds(f"{text}\n{body}") else verdict.differences
            near.append(
                Near(
                    candidate.document.id,
                    round(alike, 4),
                    snippet,
                    verdict.reason,
                    differences,
                )
            )
    return sorted(near, key=lambda other: (-other.similarity, other.id))


class _Compared:
    """Stored passages that a new text is compared with, each read once."""

    def __init__(self, store: Store, text: str) -> None:
        self._store = store
        self.wording = likeness.TextWords(text)
        self.candidates: dict[Ref, tuple[Candidate, likeness.TextWords]] = {}

    def add(self, refs: Sequence[Ref]) -> None:
        """Read passages that were not read yet."""
        new = [ref for ref in refs if ref not in self.candidates]
        for ref, candidate in self._store.hydrate(new).items() if new else ():
            body = likeness.TextWords(candidate.passage.text[:LONGEST_CANDIDATE])
            self.candidates[ref] = (candidate, body)

    def in_common(self, least: float) -> list[Ref]:
        """Return the passages with at least this share of content words in common."""
        mine = self.wording.content
        return [
            ref
            for ref, (_, other) in self.candidates.items()
            if likeness.in_common(mine, other.content) >= least
        ]
