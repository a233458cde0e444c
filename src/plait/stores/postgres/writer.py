"""Write documents with their passages, postings and vectors, in a caller's transaction."""

from collections.abc import Sequence
from typing import Any, Literal

from plait.errors import UsageError
from plait.protocols import Entry, Vector, Written
from plait.stores.postgres import generations, signals, steps, vectors
from plait.stores.postgres.audit import Recorder
from plait.stores.postgres.commits import Write
from plait.stores.postgres.connection import SQLRow
from plait.stores.postgres.documents import by_id, document_from, plain_row, row_of
from plait.stores.postgres.sharing import follow_project
from plait.stores.postgres.terms import listed_terms, postings
from plait.stores.sqlite.documents import DOCUMENT_COLUMNS, FIELDS, passage_hash
from plait.stores.sqlite.state import Generation, space_text
from plait.stores.sqlite.vectors import quantise
from plait.stores.sqlite.writer import preface_of, title_columns
from plait.types import Document, Passage, Ref, Space
from plait.types.ids import new_id

# Numbers that are taken at once by a long transaction.
MOST_RESERVED = 1_024
_CHUNK_COUNT, _TITLE, _HASH, _PROJECT = map(
    FIELDS.index, ("chunk_count", "title", "sha256", "project")
)
_COLUMNS = (*FIELDS, "preface", "fingerprint")
_INSERT_DOCUMENT = (
    f"INSERT INTO plait.documents (ns, place, label, {', '.join(_COLUMNS)}) "  # noqa: S608
    f"VALUES (%(ns)s, %(place)s, %(label)s, {', '.join(f'%({name})s' for name in _COLUMNS)}) "
    "ON CONFLICT (ns, id) DO NOTHING"
)
_UPDATE_DOCUMENT = (
    f"UPDATE plait.documents SET {', '.join(f'{name} = %({name})s' for name in _COLUMNS)} "  # noqa: S608
    "WHERE ns = %(ns)s AND place = %(place)s"
)
# Passages are numbered apart: in a file, the number is the place of a vector, and gaps are bytes.
_TAKE = {
    "counter": "UPDATE plait.namespaces SET counter = counter + %(count)s WHERE ns = %(ns)s",
    "refs": "UPDATE plait.namespaces SET refs = refs + %(count)s WHERE ns = %(ns)s",
}
_COUNT = (
    "UPDATE plait.namespaces SET passages = passages + %(passages)s, tokens = tokens + %(tokens)s "
    "WHERE ns = %(ns)s"
)
_OLD_PASSAGES = (
    "SELECT ref, hash, ordinal, start, start_line, end_line, id FROM plait.passages "
    "WHERE ns = %(ns)s AND document = %(document)s ORDER BY ref"
)
_PASSAGE_TYPES = {
    "ref": "bigint",
    "id": "text",
    "document": "bigint",
    "ordinal": "bigint",
    "start": "bigint",
    "start_line": "bigint",
    "end_line": "bigint",
    "heading": "text",
    "text": "text",
    "title_terms": "text",
    "hash": "bytea",
    "label": "bigint",
    "length": "bigint",
    "terms": "text",
}
_UNNESTED = ", ".join(f"%({name})s::{kind}[]" for name, kind in _PASSAGE_TYPES.items())
_INSERT_PASSAGES = (
    # A passage names its terms, by which its postings are deleted: an index would be larger.
    f"INSERT INTO plait.passages (ns, {', '.join(_PASSAGE_TYPES)}) "  # noqa: S608
    f"SELECT %(ns)s, {', '.join(f'v.{name}' for name in _PASSAGE_TYPES)}::text[] "
    f"FROM unnest({_UNNESTED}) AS v ({', '.join(_PASSAGE_TYPES)})"
)
_INSERT_POSTINGS = (
    "INSERT INTO plait.postings (ns, term, ref, times, length, places, label) "
    "SELECT %(ns)s, v.term, v.ref, v.times, v.length, v.places::int[], v.label "
    "FROM unnest(%(terms)s::text[], %(refs)s::bigint[], %(times)s::real[], %(lengths)s::int[], "
    "%(places)s::text[], %(labels_of)s::bigint[]) AS v (term, ref, times, length, places, label)"
)
_DROP_POSTINGS = (
    "DELETE FROM plait.postings AS t USING (SELECT p.ref, unnest(p.terms) AS term "
    "FROM plait.passages AS p WHERE p.ns = %(ns)s AND p.ref = ANY(%(refs)s)) AS v "
    "WHERE t.ns = %(ns)s AND t.term = v.term AND t.ref = v.ref"
)
_DROP_PASSAGES = (
    "DELETE FROM plait.passages WHERE ns = %(ns)s AND ref = ANY(%(refs)s) RETURNING length"
)
_DROP_USE = (
    "DELETE FROM plait.signals WHERE ns = %(ns)s AND ref = ANY(%(refs)s)",
    "DELETE FROM plait.signal_pairs WHERE ns = %(ns)s AND one = ANY(%(refs)s)",
    "DELETE FROM plait.signal_pairs WHERE ns = %(ns)s AND other = ANY(%(refs)s)",
    "DELETE FROM plait.unembedded WHERE ns = %(ns)s AND ref = ANY(%(refs)s)",
)
_DROP_VECTORS = "DELETE FROM plait.embeddings WHERE ns = %(ns)s AND ref = ANY(%(refs)s)"
_PASSAGES_OF = (
    "SELECT p.ref FROM plait.passages AS p WHERE p.ns = %(ns)s AND p.document = ANY(%(places)s)"
)
_DOOMED = (
    f"SELECT d.place, d.id, d.label, {DOCUMENT_COLUMNS} FROM plait.documents AS d "  # noqa: S608
    "WHERE d.ns = %(ns)s AND d.id = ANY(%(ids)s) ORDER BY d.id"
)
_DELETE = (
    "DELETE FROM plait.steps WHERE ns = %(ns)s AND document = ANY(%(places)s)",
    "DELETE FROM plait.tags WHERE ns = %(ns)s AND document = ANY(%(places)s)",
    "DELETE FROM plait.relations WHERE ns = %(ns)s AND source = ANY(%(places)s)",
    "DELETE FROM plait.relations WHERE ns = %(ns)s AND target = ANY(%(places)s)",
    "DELETE FROM plait.documents WHERE ns = %(ns)s AND place = ANY(%(places)s)",
)
LABEL = "SELECT label FROM plait.documents WHERE ns = %(ns)s AND id = %(id)s"
_TAKEN = "SELECT 1 FROM plait.passages WHERE ns = %(ns)s AND id = %(id)s"
_MOVE = (
    "UPDATE plait.passages SET ordinal = %(ordinal)s, start = %(start)s, "
    "start_line = %(start_line)s, end_line = %(end_line)s WHERE ns = %(ns)s AND ref = %(ref)s"
)
_OTHER_TITLES = (
    "SELECT ref, ordinal, heading, text, length, label FROM plait.passages WHERE ns = %(ns)s "
    "AND document = %(document)s "
    "AND title_terms <> CASE WHEN ordinal = 0 THEN %(first)s ELSE %(others)s END"
)
_RETITLE = (
    "UPDATE plait.passages AS p SET title_terms = v.title, terms = v.terms::text[], "
    "length = v.length FROM unnest(%(refs)s::bigint[], %(titles)s::text[], %(terms)s::text[], "
    "%(lengths)s::bigint[]) AS v (ref, title, terms, length) "
    "WHERE p.ns = %(ns)s AND p.ref = v.ref"
)
_WRITE_TAGS = (
    "INSERT INTO plait.tags (ns, tag, document, label) SELECT DISTINCT %(ns)s::bigint, tag, "
    "d.place, d.label FROM unnest(%(tags)s::text[]) AS tag CROSS JOIN plait.documents AS d "
    "WHERE d.ns = %(ns)s AND d.place = %(document)s ON CONFLICT DO NOTHING"
)
_DROP_TAGS = "DELETE FROM plait.tags WHERE ns = %(ns)s AND document = %(document)s"


class _Numbers:
    """Numbers that were never used, from one counter of the memory's row, which a writer holds."""

    def __init__(self, session: Write, counter: Literal["counter", "refs"]) -> None:
        self._session = session
        self._counter = counter
        self._next = self._free = self._reserved = 0

    def take(self, count: int) -> int:
        """Return the first of so many."""
        if count > self._free:
            # The first time no more than that, then more and more: most writes are small.
            self.give_back()
            taken = max(count, self._reserved)
            self._reserved = min(2 * taken, MOST_RESERVED)
            self._next = 1 + self._session.counters[self._counter]
            self._free = taken
            self._move(taken)
        first = self._next
        self._next, self._free = first + count, self._free - count
        return first

    def give_back(self) -> None:
        """Return those that nobody took."""
        if self._free:
            self._move(-self._free)
            self._free = 0

    def _move(self, count: int) -> None:
        self._session.execute(_TAKE[self._counter], count=count)
        self._session.counters[self._counter] += count


class DocumentWriter:
    """Writes documents with their passages; `settle` writes all that was collected, at once."""

    def __init__(
        self,
        session: Write,
        recorder: Recorder,
        spaces: Sequence[Generation],
        *,
        has_vectors: bool,
    ) -> None:
        self._session = session
        self._recorder = recorder
        self._has_vectors = has_vectors
        self._generations = list(spaces)
        self._rows: dict[int, dict[Ref, bytes | None]] = {}
        self._unembedded: dict[tuple[int, Ref], str] = {}
        self._embedded: dict[int, list[Ref]] = {}
        self._added: list[tuple[Any, ...]] = []
        self._taken: set[str] = set()
        self._numbers = _Numbers(session, "counter")
        self._refs = _Numbers(session, "refs")

    def next_number(self, count: int = 1) -> int:
        """Return the first of so many numbers that were never used."""
        return self._numbers.take(count)

    def finish(self) -> None:
        """Write what was collected, and return the numbers that no passage got."""
        self.settle()
        self._refs.give_back()

    def settle(self) -> None:
        """Write what was collected; call it before anything reads passages or vectors."""
        if self._added:
            added, self._added = self._added, []
            self._taken.clear()
            self.add(added)
        if self._unembedded:
            noted, self._unembedded = self._unembedded, {}
            generations.note(self._session, [(*key, reason) for key, reason in noted.items()])
        for generation, vectors_ in self._rows.items():
            vectors.write(self._session, generation, vectors_)
        for generation, refs in self._embedded.items():
            self._session.execute(generations.EMBEDDED, generation=generation, refs=refs)
        self._rows, self._embedded = {}, {}

    def add(self, added: Sequence[tuple[Any, ...]]) -> None:
        """Write passages with their postings; a row has all columns of a passage but its terms."""
        indexed, columns_of_postings = _indexed(
            [(row[0], Passage(row[8], row[7]), row[9], row[11]) for row in added]
        )
        rows = [(*row, *own) for row, own in zip(added, indexed, strict=True)]
        columns = zip(*rows, strict=True)
        self._session.execute(
            _INSERT_PASSAGES,
            {name: list(column) for name, column in zip(_PASSAGE_TYPES, columns, strict=True)},
        )
        # After the passages: the server takes only postings of what is there.
        if columns_of_postings:
            self._session.execute(_INSERT_POSTINGS, columns_of_postings)
        self._session.execute(_COUNT, passages=len(rows), tokens=sum(own[0] for own in indexed))

    def write(
        self, entry: Entry, fingerprint: bytes | None, *, keep_use: bool, label: int, bound: bool
    ) -> Written:
        """Write a whole document; it replaces the one with the same id, and keeps its label.

        Raises:
            UsageError: Something that cannot be seen here has this id, or, if the document is
                ``bound`` to its label, something with another one.
        """
        session = self._session
        if entry.space is not None and not self._generations and self._has_vectors:
            begun = generations.begin(session, entry.space, has_vectors=self._has_vectors)
            self._generations = [begun]
        document = entry.document
        fields = row_of(document)
        fields[_CHUNK_COUNT] = len(entry.passages)
        values = dict(zip(FIELDS, fields, strict=True))
        values |= {"preface": preface_of(entry), "fingerprint": fingerprint}
        # Most are new: one trip less than to look first.
        place = self.next_number()
        added = session.change(_INSERT_DOCUMENT, values, place=place, label=label)
        row = None if added else by_id(session, document.id)
        self._recorder.label(document.id, label)
        if not added:
            label = self._kept_label(document, row, label if bound else None)
        before = None if row is None else plain_row(row[1:])
        if not keep_use:  # a profile repeats what other documents say
            self._recorder.change(document.id, before, _recorded(document, len(entry.passages)))
            self._recorder.wrote(document.id, document.origin)
        use = None
        if row is None:
            old_title = None
            if entry.steps:
                steps.write(session, place, entry.steps)
        else:
            self.settle()  # its passages may be among those
            place, old_title, old_hash = row[0], row[1 + _TITLE], row[1 + _HASH]
            # Other words may tell of other steps.
            if entry.steps is not None or old_hash != document.sha256:
                steps.write(session, place, entry.steps or ())
            use = signals.keep(session, place) if keep_use else None
            session.execute(_UPDATE_DOCUMENT, values, place=place)
        self.tag(place, document, fresh=row is None)
        pending = self._passages(place, document, old_title, entry, label)
        if use is not None or entry.use:
            self.settle()
        if use is not None:
            signals.hand_on(session, use, place)
        if entry.use:
            signals.restore(session, place, entry.use)
        return Written(len(entry.passages), pending)

    def _kept_label(self, document: Document, row: SQLRow | None, wanted: int | None) -> int:
        """Return the label that a replaced document has from now on."""
        id_ = document.id
        label: int | None = self._session.value(LABEL, id=id_)
        if label is None or row is None:
            raise UsageError(
                f"The id {id_} is taken. Store the text without it.", code="id_taken", subject=id_
            )
        self._recorder.label(id_, label)
        if row[1 + _PROJECT] != (document.project or ""):
            self.settle()  # its passages may be among those
            project, has_vectors = document.project, self._has_vectors
            label = follow_project(
                self._session, self._recorder, id_, project, has_vectors=has_vectors
            )
        if wanted not in (None, label):
            raise UsageError(
                f"{id_} is the id of another document, which is not visible to the same people. "
                "Delete that one first, or change its visibility.",
                code="other_visibility",
                subject=id_,
            )
        return label

    def tag(self, place: int, document: Document, *, fresh: bool = False) -> None:
        """List the tags of a document, for filters."""
        if not fresh:
            self._session.execute(_DROP_TAGS, document=place)
        if document.tags:
            self._session.execute(_WRITE_TAGS, document=place, tags=list(document.tags))

    def _passages(
        self, place: int, document: Document, old_title: str | None, entry: Entry, label: int
    ) -> int:
        """Keep what is unchanged, write what is new, drop what is gone; how many stay pending.

        ``old_title`` is ``None`` for a document that was not stored before.
        """
        kept: dict[bytes, list[SQLRow]] = {}
        if old_title is not None:
            for row in self._session.rows(_OLD_PASSAGES, document=place):
                kept.setdefault(row[1], []).append(row)
        retitled = old_title not in (None, document.title)
        titles = title_columns(document)
        marks = [passage_hash(passage.heading, passage.text) for passage in entry.passages]
        twins = [kept[mark].pop(0) if kept.get(mark) else None for mark in marks]
        # First, so that a passage of an import may keep its id although its text was edited.
        self.remove([row[0] for left in kept.values() for row in left])
        fresh = [place for place, twin in enumerate(twins) if twin is None]
        first = self._refs.take(len(fresh)) if fresh else 0
        pending = 0
        for number, passage in enumerate(entry.passages):
            vector = entry.vectors[number] if number < len(entry.vectors) else None
            twin = twins[number]
            if twin is None:
                ref = first
                first += 1
                title = titles[passage.ordinal > 0]
                self._add(ref, place, passage, title, marks[number], label)
            else:
                ref = self._keep(twin, passage)
            if twin is None or retitled or vector is not None:
                reason = "declined" if number in entry.declined else "pending"
                pending += self._embed(ref, vector, entry.space, reason, fresh=twin is None)
        if old_title is not None:
            self._retitle(place, titles)
        return pending

    def _add(
        self, ref: Ref, place: int, passage: Passage, title: str, mark: bytes, label: int
    ) -> None:
        id_ = self._free_id(passage.id)
        where = (passage.ordinal, passage.start, passage.start_line, passage.end_line)
        words = (passage.heading, passage.text, title)
        self._added.append((ref, id_, place, *where, *words, mark, label))

    def _free_id(self, wanted: str) -> str:
        """Return the id that an import or undo wants, unless another document's passage has it."""
        taken = not wanted or wanted in self._taken or self._session.value(_TAKEN, id=wanted)
        id_ = new_id() if taken else wanted
        self._taken.add(id_)
        return id_

    def _keep(self, row: SQLRow, passage: Passage) -> Ref:
        ref, _, *place, _ = row
        moved = [passage.ordinal, passage.start, passage.start_line, passage.end_line]
        if place != moved:
            names = ("ordinal", "start", "start_line", "end_line")
            self._session.execute(_MOVE, dict(zip(names, moved, strict=True)), ref=ref)
        return int(ref)

    def _embed(
        self, ref: Ref, vector: Vector | None, space: Space | None, reason: str, *, fresh: bool
    ) -> int:
        """Write a passage's vector to every generation; return 1 if it stays pending."""
        waiting = 0
        name = None if space is None else space_text(space)
        for generation in self._generations:
            rows = self._rows.setdefault(generation.id, {})
            if vector is not None and generation.space == name:
                rows[ref] = quantise(vector, generation.dims)
                self._unembedded.pop((generation.id, ref), None)
                if not fresh:
                    self._embedded.setdefault(generation.id, []).append(ref)
            else:
                if not fresh:
                    rows[ref] = None
                mine = reason if generation.space == name else "pending"
                self._unembedded[generation.id, ref] = mine
                waiting += generation.current and mine == "pending"
        return waiting

    def remove(self, refs: Sequence[Ref]) -> None:
        """Delete passages with their postings, vectors and use."""
        if not refs:
            return
        session, listed = self._session, list(refs)
        session.execute(_DROP_POSTINGS, refs=listed)
        lengths = [length for (length,) in session.rows(_DROP_PASSAGES, refs=listed)]
        session.execute(_COUNT, passages=-len(lengths), tokens=-sum(lengths))
        for sql in _DROP_USE:
            session.execute(sql, refs=listed)
        if self._has_vectors:
            session.execute(_DROP_VECTORS, refs=listed)

    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents with their passages; return how many passages there were."""
        self.settle()
        places = []
        for place, id_, label, *row in self._session.rows(_DOOMED, ids=list(ids)):
            places.append(place)
            self._recorder.label(id_, label)
            self._recorder.change(id_, plain_row(row), None)
        refs = [ref for (ref,) in self._session.rows(_PASSAGES_OF, places=places)]
        self.remove(refs)
        for sql in _DELETE:
            self._session.execute(sql, places=places)
        return len(refs)

    def retitle(self, id_: str) -> None:
        """Index the passages of a document under its present title, tags and key."""
        self.settle()
        row = by_id(self._session, id_)
        if row is not None:
            document = document_from(row[1:])
            self.tag(row[0], document)
            self._retitle(row[0], title_columns(document))

    def _retitle(self, place: int, titles: tuple[str, str]) -> None:
        self.settle()
        first, others = titles
        listed = self._session.rows(_OTHER_TITLES, document=place, first=first, others=others)
        if not listed:
            return
        refs = [row[0] for row in listed]
        self._session.execute(_DROP_POSTINGS, refs=refs)
        chosen = [first if row[1] == 0 else others for row in listed]
        indexed, columns_of_postings = _indexed(
            [
                (row[0], Passage(row[3], row[2]), title, row[5])
                for row, title in zip(listed, chosen, strict=True)
            ]
        )
        if columns_of_postings:
            self._session.execute(_INSERT_POSTINGS, columns_of_postings)
        lengths = [own[0] for own in indexed]
        self._session.execute(
            _RETITLE, refs=refs, titles=chosen, terms=[own[1] for own in indexed], lengths=lengths
        )
        added = sum(lengths) - sum(row[4] for row in listed)
        self._session.execute(_COUNT, passages=0, tokens=added)


def _indexed(
    passages: Sequence[tuple[Ref, Passage, str, int]],
) -> tuple[list[tuple[int, str]], dict[str, str]]:
    """Return of each passage how many words it has, and its terms; and the postings of all."""
    terms: list[str] = []
    places: list[str] = []
    numbers: tuple[list[float], ...] = ([], [], [], [])
    listed = []
    for ref, passage, title, label in passages:
        own, length = postings(passage, title)
        listed.append((length, listed_terms(posting.term for posting in own)))
        for posting in own:
            terms.append(posting.term)
            places.append(f"{{{','.join(map(str, posting.places))}}}")
            for column, value in zip(numbers, (ref, posting.times, length, label), strict=True):
                column.append(value)
    if not terms:
        return listed, {}
    refs, times, lengths, labels = (f"{{{','.join(map(str, column))}}}" for column in numbers)
    columns = (listed_terms(terms), refs, times, lengths, listed_terms(places), labels)
    names = ("terms", "refs", "times", "lengths", "places", "labels_of")
    # As texts: the driver takes twice as long to write a list as to find its values.
    return listed, dict(zip(names, columns, strict=True))


def _recorded(document: Document, chunks: int) -> list[Any]:
    """Return the row of a document as the audit log hashes it."""
    from plait.stores.sqlite.documents import document_row

    values = document_row(document)
    values[_CHUNK_COUNT] = chunks
    return values
