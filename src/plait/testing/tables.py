"""The tables of `InMemoryStore`: dictionaries of values that are replaced, never changed.

A transaction works on a copy, so that readers see one moment and a failure leaves nothing behind.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from plait.errors import EmbedderError
from plait.protocols import PassageUse, Replies, State, Trashed, Unembedded, Use, Vector
from plait.stores.matching import Indexed
from plait.testing.filters import begins_or_ends, meets, mentions, same
from plait.times import LAST_MOMENT
from plait.types import Document, Filter, Passage, Ref, Space
from plait.types.audit import AuditEntry
from plait.types.ids import share_files
from plait.types.queries import Chance, Turn
from plait.types.records import NamedTuple
from plait.types.relations import Relation
from plait.types.reports import DocumentUsage
from plait.types.steps import Step, StepName, StepTaken

PLAIN_ANALYZER = "plain words, 1"
# Refs are opaque: these jump back and forth, so that nothing can depend on their order.
_REF_STEP = 0x9E3779B97F4A7  # odd, so that no two passages share a ref
_REF_BITS = 52  # a float in JSON holds them

EdgeKey = tuple[str, str, str, int]


class Reads(NamedTuple):
    """How often a passage was read, on how many days, the last day and time; and the feedback."""

    reads: int = 0
    days: int = 0
    last_day: int = -1
    last_read: int = 0
    good: int = 0
    wrong: int = 0

    def as_use(self) -> Use:
        """Return it as ranking reads it."""
        last = self.last_read or None
        return Use(self.reads, self.days, last, good=self.good, wrong=self.wrong)

    def once_more(self, day: int, now: int) -> "Reads":
        """Return it with one more read; a clock that was set back adds no day."""
        return self._replace(
            reads=self.reads + 1,
            days=self.days + (day > self.last_day),
            last_day=max(self.last_day, day),
            last_read=max(self.last_read, now),
        )


class VectorTable:
    """The vectors of one space, and why passages have none: ``pending`` or ``declined``."""

    def __init__(self, space: Space, *, answers: bool, sample: Vector | None = None) -> None:
        self.space = space
        self.answers = answers
        self.sample = sample
        self.vectors: dict[Ref, Vector] = {}
        self.missing: dict[Ref, str] = {}

    def copy(self) -> "VectorTable":
        """Return an independent copy."""
        twin = VectorTable(self.space, answers=self.answers, sample=self.sample)
        twin.vectors, twin.missing = dict(self.vectors), dict(self.missing)
        return twin

    def set(self, ref: Ref, vector: Vector | None, reason: str = "pending") -> None:
        """Set a passage's vector, or the reason why it has none.

        Raises:
            EmbedderError: The vector has another length or no direction.
        """
        if vector is None:
            self.vectors.pop(ref, None)
            self.missing[ref] = reason
        else:
            self.vectors[ref] = checked(vector, self.space)
            self.missing.pop(ref, None)

    def forget(self, ref: Ref) -> None:
        """Drop a passage."""
        self.vectors.pop(ref, None)
        self.missing.pop(ref, None)

    def pending(self) -> list[Ref]:
        """Return the passages that wait for a vector."""
        return [ref for ref, reason in self.missing.items() if reason == "pending"]


def checked(vector: Vector, space: Space) -> Vector:
    """Return a vector that fits a space.

    Raises:
        EmbedderError: It has another length, is not finite, or is zero.
    """
    if len(vector) != space.dims:
        raise EmbedderError(
            f"The embedder returned {len(vector)} dimensions instead of {space.dims}."
        )
    if not math.isfinite(sum(vector)) or not any(vector):
        raise EmbedderError("The embedder returned a vector without a direction.")
    return vector


class Tables:
    """The rows of a memory. Dictionaries keep the order of first writing."""

    def __init__(self) -> None:
        self.documents: dict[str, Document] = {}
        self.texts: dict[str, str] = {}
        self.fingerprints: dict[str, bytes | None] = {}
        self.places: dict[str, int] = {}
        self.passages: dict[Ref, Passage] = {}
        self.owners: dict[Ref, str] = {}
        self.refs: dict[str, tuple[Ref, ...]] = {}
        self.index: dict[Ref, Indexed] = {}
        self.generations: list[VectorTable] = []
        self.edges: dict[EdgeKey, Relation] = {}
        self.steps: dict[str, tuple[Step, ...]] = {}
        self.trash: dict[str, Trashed] = {}
        self.trashed_edges: list[tuple[int, Relation]] = []
        self.reads: dict[Ref, Reads] = {}
        self.audit: list[AuditEntry] = []
        self.purged: list[str] = []  # by the present transaction
        self.pairs: dict[tuple[Ref, Ref], tuple[int, int]] = {}
        self.cache: dict[str, tuple[int, Vector]] = {}
        self.facts: dict[str, str] = {}
        self.counter = 0

    def copy(self) -> "Tables":
        """Return an independent copy; the values are shared."""
        twin = Tables()
        for name, value in vars(self).items():
            setattr(twin, name, value if isinstance(value, int) else value.copy())
        twin.generations = [generation.copy() for generation in self.generations]
        return twin

    def forget(self, ids: Sequence[str], *, edges: bool) -> None:
        """Drop documents from the trash; with ``edges``, note that nothing may tell of them."""
        self.trash = {id_: row for id_, row in self.trash.items() if id_ not in ids}
        if not edges:
            return
        self.trashed_edges = [
            (at, edge)
            for at, edge in self.trashed_edges
            if not {edge.source_id, edge.target_id} & {*ids}
        ]
        self.purged += ids

    def use_by_id(self, document: str) -> dict[str, tuple[int, ...]]:
        """Return how the passages of a document were read and judged, alone and with others."""
        own = self.refs.get(document, ())
        alone = {self.passages[ref].id: tuple(self.reads[ref]) for ref in own if ref in self.reads}
        together = {
            f"{self.passages[one].id} {self.passages[other].id}": tuple(times)
            for (one, other), times in self.pairs.items()
            if one in own or other in own
        }
        return {**alone, **together}

    def usage(self, ids: Iterable[str]) -> dict[str, DocumentUsage]:
        """Return the sizes of documents that have passages, and how they were read."""
        listed = {}
        for id_ in ids:
            own = self.refs.get(id_, ())
            read = [self.reads.get(ref, Reads()) for ref in own]
            if own:
                listed[id_] = DocumentUsage(
                    sum(len(self.passages[ref].text.encode("utf-8")) for ref in own),
                    sum(row.reads for row in read),
                    max(row.last_read for row in read) or None,
                )
        return listed

    def restore_use(self, document: str, use: PassageUse) -> None:
        """Give passages that came back what is known about their use."""
        for ref in self.refs[document]:
            if self.passages[ref].id in use:
                self.reads.setdefault(ref, Reads(*use[self.passages[ref].id]))
        refs = {passage.id: ref for ref, passage in self.passages.items()}
        for name, (times, last) in ((name, row) for name, row in use.items() if " " in name):
            ids = name.split(" ")
            mates = sorted(refs[id_] for id_ in ids if id_ in refs)
            if len(mates) == len(ids):
                self.pairs.setdefault((mates[0], mates[1]), (times, last))
                continue
            for id_, row in self.trash.items():  # it waits for the other one
                if {*row.names} & {*ids}:
                    self.trash[id_] = row._replace(use={**(row.use or {}), name: (times, last)})

    def judge(self, refs: Sequence[Ref], good: int, wrong: int) -> None:
        """Add to the feedback on passages; without both, take all of it back."""
        for ref in dict.fromkeys(ref for ref in refs if ref in self.passages):
            reads = self.reads.get(ref, Reads())
            added = (reads.good + good, reads.wrong + wrong) if good or wrong else (0, 0)
            self.reads[ref] = reads._replace(good=added[0], wrong=added[1])
            if self.reads[ref] == Reads():
                del self.reads[ref]

    def use_of(self, ref: Ref, asked: Sequence[Ref], now: int) -> Use | None:
        """Return how a passage was read, alone and together with others asked for."""
        if not self.reads:
            return None
        reads = self.reads.get(ref)
        use = Use() if reads is None else reads.as_use()
        together = {
            mate: self.pairs[pair]
            for mate in asked
            if (pair := (min(ref, mate), max(ref, mate))) in self.pairs
        }
        ends = [
            edge for edge in self.edges.values() if edge.valid_to is None or edge.valid_to > now
        ]
        id_ = self.owners[ref]
        degree = sum((edge.source_id == id_) + (edge.target_id == id_) for edge in ends)
        if reads is None and not together and not degree:
            return None
        return use._replace(degree=degree, together=together)

    def new_ref(self) -> Ref:
        """Return a ref that was never used."""
        self.counter += 1
        return self.counter * _REF_STEP % (1 << _REF_BITS)

    # -- documents -------------------------------------------------------------------------

    def known(self, document: Document) -> Document | None:
        """Return the stored document that this one replaces."""
        if document.id in self.documents:
            return self.documents[document.id]
        if document.key is not None:
            for other in self.documents.values():
                if name_of(other) == name_of(document):
                    return other
        if document.kind != "file" or document.path is None:
            return None
        files = [
            other
            for other in self.documents.values()
            if other.kind == "file" and other.path == document.path
            if share_files(other.project, document.project)
        ]
        return min(files, key=lambda file: file.project != document.project, default=None)

    def load(self, ids: Sequence[str]) -> list[Document]:
        """Return whole documents in the order asked for."""
        return [
            self.documents[id_]._replace(text=self.texts[id_])
            for id_ in ids
            if id_ in self.documents
        ]

    def passages_of(self, id_: str) -> list[Passage]:
        """Return the passages of a document, in order."""
        return [self.passages[ref] for ref in self.refs.get(id_, ())]

    def selected(self, where: Filter, moment: int) -> Iterator[Document]:
        """Yield the documents that pass a filter."""
        return (
            row
            for row in self.documents.values()
            if meets(row, where, moment)
            if mentions((passage.text for passage in self.passages_of(row.id)), where)
        )

    def turns(self, refs: Iterable[Ref]) -> dict[Ref, Turn]:
        """Return the places in a conversation of those passages that are whole messages."""
        turns = {}
        for ref in refs:
            document = self.documents.get(self.owners.get(ref, ""))
            if document is None or (document.kind, document.chunk_count) != ("message", 1):
                continue
            if document.turn is not None:
                session = f"{document.project or ''}\0{document.session}"
                turns[ref] = Turn.of(session, document.turn, self.passages[ref].text)
        return turns

    def replies(self, asked: Iterable[Ref], where: Filter, moment: int) -> Replies:
        """Return the whole messages that come right after these and pass a filter."""
        visible = {
            turn[:2]: (ref, turn)
            for document in self.selected(where, moment)
            for ref, turn in self.turns(row.ref for row in self.passages_of(document.id)).items()
        }
        after = {ref: (turn.session, turn.number + 1) for ref, turn in self.turns(asked).items()}
        return {ref: [visible[place]] for ref, place in after.items() if place in visible}

    def out_of_date(self, moment: int) -> set[str]:
        """Return the entities whose profile is out of date."""
        due = self.facts.get("profiles_due")
        if due is None or int(due) > moment:
            return set()
        return set(self.changed(int(due) - 1, moment))

    def changed(self, since: int, until: int) -> list[str]:
        """Return entities with an observation that began or ended after one moment."""
        changed = [
            row.parent
            for row in self.documents.values()
            if row.parent is not None and begins_or_ends(row, since, until)
        ]
        return list(dict.fromkeys(changed))

    def successors(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the id of the successor of each of these documents."""
        replaced = {}
        for id_ in ids:
            document = self.documents.get(id_)
            if document is None or document.valid_to is None:
                continue
            rows = reversed(self.documents.values())
            by_name = [row.id for row in rows if row.supersedes == id_]
            rows = reversed(self.documents.values())
            by_topic = [row.id for row in rows if _follows(row, document)]
            if by_name or by_topic:
                replaced[id_] = (by_name or by_topic)[0]
        return replaced

    # -- the memory as a whole -------------------------------------------------------------

    def present(self, now: int) -> int:
        """Return now, but never a moment before the last change of a fact."""
        return max(now, min(LAST_MOMENT, int(self.facts.get("changed_at", now))))

    def state(self) -> State:
        """Return the state of the memory."""
        current = self.current()
        building = next((row for row in reversed(self.generations) if not row.answers), None)
        changed, due = self.facts.get("changed_at"), self.facts.get("profiles_due")
        return State(
            analyzer=PLAIN_ANALYZER,
            indexed_by=self.facts.get("indexed_by"),
            chunker=self.facts.get("chunker"),
            embedder=self.facts.get("embedder"),
            space=None if current is None else current.space,
            sample=None if current is None else current.sample,
            building=None if building is None else building.space,
            building_sample=None if building is None else building.sample,
            pending=0 if current is None else len(current.pending()),
            indexed_at=max((row.indexed_at for row in self.documents.values()), default=None),
            changed_at=None if changed is None else int(changed),
            profiles_due=None if due is None else int(due),
            has_messages=any(row.turn is not None for row in self.documents.values()),
            passages=len(self.owners),
            chance=self._chance(),
            purged=self.facts.get("purged"),
            unscrubbed=self.facts.get("unscrubbed"),
            retired=self.facts.get("retired"),
        )

    def _chance(self) -> Chance | None:
        """Return what chance finds, if it was sampled from the current vectors."""
        cosine, spread, passages, *space = json.loads(self.facts.get("chance", "[0, 0, 0]"))
        current = self.current()
        if current is None or list(current.space) != space:
            return None
        return Chance(cosine, spread, passages)

    def current(self) -> VectorTable | None:
        """Return the vectors that searches use."""
        return next((row for row in self.generations if row.answers), None)

    def target(self, space: Space, *, building: bool) -> VectorTable | None:
        """Return the vectors of a space to fill; ``building`` prefers the unfinished ones."""
        matching = [row for row in self.generations if row.space == space]
        matching.sort(key=lambda row: not row.answers)
        if building:
            return matching[-1] if matching else None
        return next((row for row in matching if row.answers), None)

    def pending(
        self, generation: VectorTable, limit: int, project: str | None = None
    ) -> list[Unembedded]:
        """Return passages that wait for a vector, as first written."""
        waiting = set(generation.pending())
        refs = [ref for ref in self.passages if ref in waiting]
        if project is not None:
            refs = [ref for ref in refs if self.documents[self.owners[ref]].project == project]
        return [self.unembedded(ref) for ref in refs[:limit]]

    def unembedded(self, ref: Ref) -> Unembedded:
        """Return what the embedder sees of a passage."""
        passage, title = self.passages[ref], self.documents[self.owners[ref]].title
        return Unembedded(ref, title, passage.heading, passage.text)

    def listed_trash(self, *, texts: bool = True) -> list[Trashed]:
        """Return what can be restored, the latest delete first; without ``texts``: no passages."""
        rows = [row if texts else row.without_texts for row in self.trash.values()]
        return sorted(rows, key=lambda row: (-row.deleted_at, row.batch, row.document.id))

    def named_edges(self, edges: Iterable[Relation]) -> list[Relation]:
        """Return edges with the present names of their ends."""
        return [
            edge._replace(
                source=self.documents[edge.source_id].key or "",
                target=self.documents[edge.target_id].key or "",
            )
            for edge in edges
        ]


def name_of(document: Document) -> tuple[str | None, str, str | None]:
    """Return the unique name of a document with a key; two files may differ in spelling."""
    key = document.key if document.kind == "file" else same(document.key)
    return document.project or None, document.source, key


def _follows(document: Document, ended: Document) -> bool:
    """Tell whether a document became valid for the topic of another when that one ended."""
    return (
        ended.topic is not None
        and document.id != ended.id
        and (document.topic, document.project, document.parent or None)
        == (ended.topic, ended.project, ended.parent or None)
        and document.valid_from == ended.valid_to
    )


def taken_steps(
    documents: Iterable[Document],
    steps: Mapping[str, Sequence[Step]],
    written: Mapping[str, int],
    named: StepName,
) -> list[StepTaken]:
    """Return the steps of documents that have a name, newest first, ties by ``written``."""

    def order(row: StepTaken) -> tuple[int, int, int, int]:
        turn = -1 if row.turn is None else row.turn
        return row.event_at, turn, written.get(row.document, 0), row.place

    listed = [
        StepTaken(step, row.id, row.project, row.session, row.turn, row.event_at or 0, place)
        for row in documents
        for place, step in enumerate(steps.get(row.id, ()))
        for file in [None if step.path is None else step.path.rpartition("/")[2]]
        for own in [(file, step.program, step.failure, row.id)]
        if all(name in (None, mine) for name, mine in zip(named, own, strict=True))
    ]
    return sorted(listed, key=order, reverse=True)
