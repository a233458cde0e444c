"""A write transaction of `InMemoryStore`: it changes a copy of the tables."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from plait.errors import EmbedderError, StoreError
from plait.protocols import (
    Entry,
    Rivals,
    Standing,
    State,
    Trashed,
    Unembedded,
    Vector,
    Written,
)
from plait.testing.filters import check_values, is_valid, same
from plait.testing.keyword import Analyze, index
from plait.testing.tables import EdgeKey, Reads, Tables, VectorTable, name_of
from plait.times import DAY_MS
from plait.types import Document, Passage, Ref, Space, Trust
from plait.types.ids import CACHED_ANSWER, new_id
from plait.types.relations import Relation

# Only pairs of an answer's first passages are counted.
MOST_PAIRED = 10


class InMemoryTransaction:
    """Reads and changes one copy of the tables; the store publishes it at the end."""

    def __init__(self, tables: Tables, analyze: Analyze, state: State, now: int) -> None:
        self._tables = tables
        self._analyze = analyze
        self.state = state
        self.now = now

    # -- reading ---------------------------------------------------------------------------

    def known(self, document: Document) -> Document | None:
        """Return the stored document that this one replaces, without its text."""
        return self._tables.known(document)

    def load(self, ids: Sequence[str]) -> list[Document]:
        """Return whole documents, in the order asked for."""
        return self._tables.load(ids)

    def passages(self, document: str) -> list[Passage]:
        """Return the passages of one document, in order."""
        return self._tables.passages_of(document)

    def rivals(self, document: Document, fingerprint: bytes, moment: int) -> Rivals:
        """Return what an observation may repeat or replace at a moment."""
        home = (document.project or None, document.parent or None)
        mates = [
            row
            for row in self._tables.documents.values()
            if row.kind == "observation" and (row.project, row.parent or None) == home
        ]
        still = [
            row
            for row in mates
            if row.id != document.id and (row.valid_to is None or row.valid_to > moment)
        ]
        fingerprints = self._tables.fingerprints
        same_text = [row for row in still if fingerprints[row.id] == fingerprint]
        if document.topic is None:
            return Rivals(same_text)
        same_topic = [row for row in still if same(row.topic) == same(document.topic)]
        is_new = not any(same(row.topic) == same(document.topic) for row in mates)
        return Rivals(same_text, same_topic, topic_is_new=is_new)

    def members(self, entities: Sequence[str]) -> list[str]:
        """Return the ids of the documents that belong to these entities."""
        rows = self._tables.documents
        real = {id_ for id_ in entities if id_ in rows and rows[id_].kind == "entity"}
        return [row.id for row in rows.values() if row.parent in real]

    def current_observations(self, entity: str, trust: Trust, moment: int) -> list[Standing]:
        """Return the observations of an entity that hold at a moment, as first written."""
        return [
            Standing(row.id, row.pinned, row.importance, row.event_at)
            for row in self._tables.documents.values()
            if row.parent == entity
            and (row.kind, row.trust) == ("observation", trust)
            and is_valid(row.valid_from, row.valid_to, moment)
        ]

    def openings(self, ids: Sequence[str]) -> list[str]:
        """Return the first passage of each document, in the order asked for."""
        return [passage.text for id_ in ids for passage in self._tables.passages_of(id_)[:1]]

    def entities_changed(self, since: int, until: int) -> list[str]:
        """Return entities with an observation that began or ended in between."""
        return self._tables.changed(since, until)

    def next_change(self, moment: int) -> int | None:
        """Return when the next observation of any entity begins or ends."""
        changes = [
            at
            for row in self._tables.documents.values()
            if row.parent is not None
            for at in (row.valid_from, row.valid_to)
            if at is not None and at > moment
        ]
        return min(changes, default=None)

    def next_turn(self, project: str | None, session: str, wanted: int | None = None) -> int:
        """Return the ``wanted`` turn number of a session if it is free, else the next one."""
        turns = {
            row.turn
            for row in self._tables.documents.values()
            if (row.project, row.session) == (project or None, session) and row.turn is not None
        }
        if wanted is not None and wanted not in turns:
            return wanted
        return 1 + max(turns, default=0)

    def last_event(self, project: str | None, session: str) -> int | None:
        """Return the time of a session's last turn; ``None`` if it has none."""
        turns = [
            (row.turn, row.event_at)
            for row in self._tables.documents.values()
            if (row.project, row.session) == (project or None, session) and row.turn is not None
        ]
        return max(turns)[1] if turns else None

    def successors(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the id of the successor of each of these documents."""
        return self._tables.successors(ids)

    def edges(self, source: str, target: str, type: str) -> list[Relation]:
        """Return all edges of one type between two entities."""
        wanted = (source, target, type)
        tables = self._tables
        return tables.named_edges(edge for key, edge in tables.edges.items() if key[:3] == wanted)

    def trashed(
        self,
        ids: Sequence[str] | None = None,
        *,
        related: bool = True,
        texts: bool = True,
    ) -> list[Trashed]:
        """Return what can be restored, the latest delete first; without ``texts``: no passages."""
        trash = self._tables.listed_trash(texts=texts)
        if ids is None:
            return trash
        wanted = {*ids}
        if not related:
            return [row for row in trash if row.document.id in wanted]
        parents = {row.document.parent for row in trash if row.document.id in wanted}
        return [
            row
            for row in trash
            if row.document.id in wanted | parents
            or row.document.parent in wanted
            or row.version_of in wanted
        ]

    # -- documents -------------------------------------------------------------------------

    def write(
        self, entry: Entry, *, fingerprint: bytes | None = None, keep_use: bool = False
    ) -> Written:
        """Write a whole document; it replaces the one with the same id."""
        check_values([entry.document, entry.passages])
        if entry.space is not None and not self._tables.generations:
            self.begin(entry.space)
        document = _as_stored(entry.document, chunk_count=len(entry.passages))
        self._refuse_conflict(document)
        tables = self._tables
        old = tables.documents.get(document.id)
        if old is None:
            tables.counter += 1
            tables.places[document.id] = tables.counter
        first = tables.refs.get(document.id, ())[:1]
        use = [self._use_of(ref) for ref in first] if keep_use else []
        if old is None or entry.steps is not None or old.sha256 != document.sha256:
            tables.steps[document.id] = tuple(entry.steps or ())
        tables.documents[document.id] = document
        tables.texts[document.id] = entry.document.text
        tables.fingerprints[document.id] = fingerprint
        pending = self._write_passages(document, old, entry)
        for reads, pairs in use:
            self._hand_on(first[0], document.id, reads, pairs)
        tables.restore_use(document.id, entry.use)
        return Written(len(entry.passages), pending)

    def _refuse_conflict(self, document: Document) -> None:
        """Refuse a name or a turn that another document has."""
        turn = (document.project, document.session, document.turn)
        for other in self._tables.documents.values():
            if other.id == document.id:
                continue
            same_name = document.key is not None and name_of(other) == name_of(document)
            same_turn = (other.project, other.session, other.turn) == turn
            if same_name or (same_turn and None not in turn[1:]):
                raise StoreError(f"Another document has the name or turn of {document.id}.")

    def _write_passages(self, document: Document, old: Document | None, entry: Entry) -> int:
        """Keep unchanged passages, write new ones, drop the rest; return how many are pending."""
        tables = self._tables
        kept: dict[tuple[str, str], list[Ref]] = {}
        for ref in tables.refs.get(document.id, ()):
            kept.setdefault(_content(tables.passages[ref]), []).append(ref)
        twins = [
            kept[content].pop(0) if kept.get(content := _content(passage)) else None
            for passage in entry.passages
        ]
        self._remove([ref for left in kept.values() for ref in left])
        retitled = old is not None and old.title != document.title
        refs, pending = [], 0
        for place, (twin, passage) in enumerate(zip(twins, entry.passages, strict=True)):
            vector = entry.vectors[place] if place < len(entry.vectors) else None
            ref = tables.new_ref() if twin is None else twin
            refs.append(ref)
            id_ = self._free_id(passage.id) if twin is None else tables.passages[twin].id
            tables.passages[ref] = passage._replace(id=id_, ref=ref)
            tables.owners[ref] = document.id
            if twin is None or retitled or vector is not None:
                reason = "declined" if place in entry.declined else "pending"
                pending += self._embed(ref, vector, entry.space, reason)
        tables.refs[document.id] = tuple(refs)
        self._index(document)
        return pending

    def _index(self, document: Document) -> None:
        for passage in self._tables.passages_of(document.id):
            self._tables.index[passage.ref] = index(document, passage, self._analyze)

    def _free_id(self, wanted: str) -> str:
        if not wanted or any(row.id == wanted for row in self._tables.passages.values()):
            return new_id()
        return wanted

    def _embed(self, ref: Ref, vector: Vector | None, space: Space | None, reason: str) -> int:
        """Set a passage's vector; return 1 if the current vectors still lack it."""
        waiting = 0
        for generation in self._tables.generations:
            if generation.space == space:
                generation.set(ref, vector, reason)
            else:
                generation.set(ref, None)
            waiting += generation.answers and generation.missing.get(ref) == "pending"
        return waiting

    def _remove(self, refs: Iterable[Ref]) -> None:
        tables = self._tables
        gone = set(refs)
        for ref in gone:
            for table in (tables.passages, tables.owners, tables.index, tables.reads):
                table.pop(ref, None)
            for generation in tables.generations:
                generation.forget(ref)
        tables.pairs = {pair: row for pair, row in tables.pairs.items() if not gone & {*pair}}

    def free_turn(self, project: str | None, session: str, turn: int) -> None:
        """If a message of a session has this turn number, move it and all later ones up by one."""
        documents = self._tables.documents
        later = [
            row
            for row in documents.values()
            if (row.project, row.session) == (project or None, session)
            and row.turn is not None
            and row.turn >= turn
        ]
        if any(row.turn == turn for row in later):
            for row in later:
                documents[row.id] = row._replace(turn=(row.turn or 0) + 1)

    def amend(self, id: str, **fields: Any) -> None:
        """Change fields of a document; its text and its passages stay."""
        check_values(fields.values())
        document = self._tables.documents.get(id)
        if document is not None:
            document = _as_stored(document._replace(**fields), chunk_count=document.chunk_count)
            self._tables.documents[id] = document
            self._index(document)

    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents with all that belongs to them; return the number of passages."""
        tables = self._tables
        gone = [ref for id_ in dict.fromkeys(ids) for ref in tables.refs.get(id_, ())]
        self._remove(gone)
        for id_ in ids:
            for table in (tables.documents, tables.texts, tables.fingerprints, tables.refs):
                table.pop(id_, None)
            tables.steps.pop(id_, None)
        tables.edges = {key: edge for key, edge in tables.edges.items() if not {*key[:2]} & {*ids}}
        return len(gone)

    # -- edges and trash -------------------------------------------------------------------

    def put_edge(self, relation: Relation) -> None:
        """Write an edge; it replaces the one with the same ends, type and ``created_at``."""
        check_values([relation])
        self._tables.edges[_edge_key(relation)] = relation

    def drop_edge(self, relation: Relation) -> None:
        """Delete an edge."""
        self._tables.edges.pop(_edge_key(relation), None)

    def trash(self, documents: Sequence[Trashed]) -> None:
        """Copy documents that are about to be deleted, and their edges, to the trash."""
        tables = self._tables
        latest = max((row.deleted_at for row in tables.trash.values()), default=0)
        for row in documents:
            moment = max(row.deleted_at, latest + 1)
            passages = [passage._replace(ref=0) for passage in row.passages]
            names = row.names or tuple(passage.id for passage in passages)
            place = tables.places.get(row.document.id, 0)
            source = row.version_of or row.document.id
            steps = tables.steps.get(source, ()) if row.steps is None else tuple(row.steps)
            use = tables.use_by_id(source) if row.use is None else row.use
            kept = row._replace(deleted_at=moment, passages=passages, names=names, place=place)
            tables.trash[row.document.id] = kept._replace(steps=steps, use=use)
        gone = {row.document.id for row in documents}
        tables.trashed_edges += [
            (max(documents[0].deleted_at, latest + 1), edge)
            for edge in tables.edges.values()
            if gone & {edge.source_id, edge.target_id}
        ]

    def set_aside(self, ids: Sequence[str]) -> None:
        """Make deleted documents restorable only by id."""
        for id_ in ids:
            if id_ in self._tables.trash:
                self._tables.trash[id_] = self._tables.trash[id_]._replace(batch="")

    def forget(self, ids: Sequence[str], *, edges: bool = True) -> None:
        """Drop documents from the trash; with ``edges``, their edges and audit entries too."""
        self._tables.forget(ids, edges=edges)

    def restore_edges(self) -> None:
        """Restore deleted edges whose two ends exist again."""
        tables = self._tables
        left = []
        for at, edge in tables.trashed_edges:
            if {edge.source_id, edge.target_id} <= tables.documents.keys():
                if edge.valid_to is not None or not self._has_open(edge):
                    tables.edges.setdefault(_edge_key(edge), edge)
            else:
                left.append((at, edge))
        tables.trashed_edges = left

    def _has_open(self, edge: Relation) -> bool:
        known = self.edges(edge.source_id, edge.target_id, edge.type)
        return any(other.valid_to is None for other in known)

    def expire(self, before: int) -> None:
        """Drop from the trash what was deleted before a moment."""
        tables = self._tables
        tables.trash = {id_: row for id_, row in tables.trash.items() if row.deleted_at >= before}
        tables.trashed_edges = [row for row in tables.trashed_edges if row[0] >= before]

    # -- facts, use and cache --------------------------------------------------------------

    def remember(self, **facts: str | None) -> None:
        """Store values about the memory by name; ``None`` drops one."""
        for name, value in facts.items():
            if value is None:
                self._tables.facts.pop(name, None)
            else:
                self._tables.facts[name] = value

    def touch(self, answers: Sequence[Sequence[Ref]]) -> None:
        """Count passages as read."""
        tables = self._tables
        day = self.now // DAY_MS
        for answer in answers:
            read = [
                ref
                for ref in dict.fromkeys(answer)
                if ref in tables.owners and tables.documents[tables.owners[ref]].trust == "trusted"
            ]
            for ref in read:
                tables.reads[ref] = tables.reads.get(ref, Reads()).once_more(day, self.now)
            for pair in combinations(sorted(read[:MOST_PAIRED]), 2):
                times, last_read = tables.pairs.get(pair, (0, 0))
                tables.pairs[pair] = (times + 1, max(last_read, self.now))

    def judge(self, refs: Sequence[Ref], *, good: int = 0, wrong: int = 0) -> None:
        """Add to the feedback on passages; without both, take all of it back."""
        self._tables.judge(refs, good, wrong)

    def unrecord(self, project: str) -> None:
        """Drop all entries of a project from the audit log."""
        self._tables.audit = [row for row in self._tables.audit if row.project != project]

    def _use_of(self, ref: Ref) -> tuple[Reads | None, dict[Ref, tuple[int, int]]]:
        pairs = {
            other if first == ref else first: row
            for (first, other), row in self._tables.pairs.items()
            if ref in (first, other)
        }
        return self._tables.reads.get(ref), pairs

    def _hand_on(
        self, old: Ref, id_: str, reads: Reads | None, pairs: dict[Ref, tuple[int, int]]
    ) -> None:
        """Give the first passage of a document the use of the passage that it replaces."""
        for ref in self._tables.refs[id_][:1]:
            if ref == old:
                continue
            if reads is not None:
                self._tables.reads[ref] = reads
            for mate, row in pairs.items():
                if mate in self._tables.passages:
                    self._tables.pairs[min(ref, mate), max(ref, mate)] = row

    def cache(self, vectors: Mapping[str, Vector], used: Iterable[str], most: int) -> None:
        """Cache vectors by the name of their text; keep the ``most`` recently used ones."""
        rows = self._tables.cache
        rows |= {name: (self.now, rows[name][1]) for name in used if name in rows}
        rows |= {name: (self.now, vector) for name, vector in vectors.items()}
        oldest = sorted(rows, key=lambda name: (rows[name][0], name))
        for name in oldest[: max(0, len(rows) - most)]:
            del rows[name]

    def clear_cache(self) -> None:
        """Drop every cached vector, and every cached answer of a chat."""
        self._tables.cache.clear()
        self.remember(**{n: None for n in self._tables.facts if n.startswith(CACHED_ANSWER)})

    # -- spaces ----------------------------------------------------------------------------

    def begin(
        self,
        space: Space,
        *,
        afresh: bool = False,
        sample: Vector | None = None,
        resume: bool = True,
    ) -> bool:
        """Make sure that vectors of this space can be written; return whether searches use them."""
        if not space.dims:
            raise EmbedderError(
                f"The length of the vectors of {space} is not known yet.", code="unknown_dims"
            )
        tables = self._tables
        known = tables.target(space, building=True)
        if known is not None and not known.answers and not resume:
            tables.generations.remove(known)
            known = tables.target(space, building=True)
        if known is None or (afresh and known.answers):
            known = VectorTable(space, answers=not tables.generations, sample=sample)
            known.missing = dict.fromkeys(tables.passages, "pending")
            tables.generations.append(known)
        return known.answers

    def fill(
        self, space: Space, vectors: Sequence[tuple[Unembedded, Vector | None]], *, building: bool
    ) -> int:
        """Write vectors of passages that are still the same; ``None`` marks one as keyword-only."""
        tables = self._tables
        generation = tables.target(space, building=building)
        if generation is None:
            return 0
        same = [
            pair
            for pair in vectors
            if pair[0].ref in tables.passages and tables.unembedded(pair[0].ref) == pair[0]
        ]
        for row, vector in same:
            generation.set(row.ref, vector, "declined")
        return sum(vector is not None for _, vector in same)

    def swap(self, space: Space) -> bool:
        """Make searches use this space if no passage is pending in it; drop the others."""
        if not space.dims:
            self._tables.generations = []
            return True
        generation = self._tables.target(space, building=True)
        if generation is None or (not generation.answers and generation.pending()):
            return False
        generation.answers = True
        self._tables.generations = [generation]
        return True


def _as_stored(document: Document, *, chunk_count: int) -> Document:
    return document._replace(
        text="",
        project=document.project or None,
        tags=tuple(document.tags),
        metadata=dict(document.metadata),
        event_at=document.event_at or 0,
        chunk_count=chunk_count,
    )


def _content(passage: Passage) -> tuple[str, str]:
    return passage.heading, passage.text


def _edge_key(relation: Relation) -> EdgeKey:
    return relation.source_id, relation.target_id, relation.type, relation.created_at
