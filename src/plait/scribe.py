"""Facts on their way in: what came out of this memory stays out, what repeats another is flagged.

Between the write path, which knows nothing of other documents, and the facade.
"""

import re
from collections.abc import Callable, Sequence

from plait import guard
from plait.filling import ON_THE_SIDE
from plait.ingest import Pen, check_text, complete, now_ms
from plait.protocols import Embedder, Entry, Store
from plait.ranking import near
from plait.types import (
    ENTITY_SOURCE,
    TRUSTS,
    Document,
    Filter,
    Near,
    Stored,
)

# Looked at for a likeness, by words and by vector each.
CANDIDATES = 5
MOST_NEAR = 3
SNIPPET_CHARS = 100
# Characters. Two long texts are never near duplicates of each other by chance.
LONGEST_COMPARED = 2_000


class Scribe:
    """Writes observations; a fresh pen for every act, so that its trouble is that act's own."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        *,
        pen: Callable[[], Pen],
        fill: Callable[[int | None], None],
        project: str | None,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._pen = pen
        self._fill = fill
        self._project = project

    def entry(self, document: Document) -> Entry:
        """A document, completed and cut into passages.

        Raises:
            UsageError: It has no text.
        """
        checked = document._replace(text=check_text(document.text))
        return self._pen().entry(complete(checked, now_ms()))

    def write(self, entries: Sequence[Entry]) -> list[Stored]:
        """Store entries in one transaction, then make the vectors that are missing."""
        pen = self._pen()
        stored = pen.write(entries)
        if pen.trouble is None:
            self.fill()
        return stored

    def fill(self, most: int | None = None) -> None:
        """Make the vectors that are missing: profiles change inside a transaction, without one."""
        if self._embedder.dims != 0 and self._store.pending_count():
            self._fill(most)

    def fresh(self, document: Document, about: str | None) -> str | None:
        """What of a text is new here: all of it, or what fences do not hold; ``None`` for nothing.

        Only whoever saves by itself is asked. ``about`` is the id of an entity, empty for one that
        does not exist yet.
        """
        if document.origin not in guard.GUARDED:
            return document.text
        if self._seen_before(document, about) is not None:
            return None
        rest, fenced = guard.unfenced(document.text)
        return rest.strip() if fenced else rest

    def store(self, document: Document, entity: str | None) -> Stored:
        """Store one observation; what it came out of, repeats, closes and resembles is told."""
        about = None if entity is None else self._entity_id(entity)
        shortened = False
        if document.origin in guard.GUARDED:
            known = self._seen_before(document, about)
            if known is not None:
                return known
            rest, shortened = guard.unfenced(document.text)
            document = document._replace(text=rest.strip() if shortened else rest)
        entry = self.entry(document)._replace(entity=entity)
        pen = self._pen()
        [entry] = pen.embed([entry])
        alike = self._near(entry, about)
        [stored] = pen.write([entry])
        if stored.entity is not None and pen.trouble is None:
            self.fill(ON_THE_SIDE)
        others = {stored.id, *stored.superseded}
        found = () if stored.duplicate else (one for one in alike if one.id not in others)
        return stored._replace(near=tuple(found)[:MOST_NEAR], shortened=shortened)

    def _seen_before(self, document: Document, about: str | None) -> Stored | None:
        """What to answer for a text that this memory itself has said; ``None`` for a new one."""
        text = document.text
        rest, fenced = guard.unfenced(text)
        all_fenced = fenced and not re.search(r"\w", rest)
        # Who names a topic or what is superseded does not save by accident.
        decided = document.topic is not None or document.supersedes is not None
        if all_fenced:
            # What a fence holds is ours for certain, whatever else is written there.
            where = Filter(projects=(self._project, None))
            source = guard.known_from(self._store, text, where, wholly=False)
        elif decided:
            return None
        else:
            where = self._where_said(document._replace(text=rest), about)
            source = guard.known_from(self._store, rest, where)
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
        return Stored("", "", 0, duplicate=True, recalled=True) if all_fenced else None

    def _where_said(self, document: Document, about: str | None) -> Filter:
        """Where a text would be a repetition: under its entity, else anywhere in the project.

        Nobody keeps a text out by having said it before with less trust; and what is said of a text
        besides its words would be lost in a file or a note.
        """
        trusts = TRUSTS[: TRUSTS.index(document.trust) + 1]
        everywhere = Filter(projects=(self._project, None), trusts=trusts)
        if guard.PREFACE in document.text:
            return everywhere
        if about is not None:
            return Filter(parents=(about,), trusts=trusts)
        says_more = document.type is not None or document.importance is not None
        if says_more or document.pinned:
            return everywhere._replace(kinds=("observation",))
        return everywhere

    def _entity_id(self, name: str) -> str:
        """The id of the entity of this name, of the project or else personal; empty for none."""
        for project in (self._project, None):
            wanted = Document(key=name, kind="entity", source=ENTITY_SOURCE, project=project)
            known, _ = self._store.known(wanted)
            if known is not None:
                return known.id
        return ""

    def _near(self, entry: Entry, about: str | None) -> list[Near]:
        """Observations that say almost the same, the most alike first."""
        text = entry.document.text
        if about == "" or len(entry.passages) != 1 or len(text) > LONGEST_COMPARED:
            return []
        where = Filter(kinds=("observation",), projects=(self._project,))
        if about is not None:
            where = where._replace(projects=None, parents=(about,))
        refs = [ref for ref, _ in self._store.keyword(guard.plain_query(text), CANDIDATES, where)]
        vector = entry.vectors[0] if entry.vectors else None
        cosines: dict[int, float] = {}
        if vector is not None and self._store.space() == self._embedder.space:
            space = self._embedder.space
            refs += [ref for ref, _ in self._store.vector(vector, space, CANDIDATES, where)]
            cosines = self._store.cosines(vector, space, refs)
        found = []
        for ref, (passage, document) in self._store.passages(refs).items():
            verdict = near.compare(text, passage.text, cosines.get(ref))
            if not verdict.near:
                # A small model may see less than the words themselves say.
                verdict = near.compare(text, passage.text)
            if verdict.near:
                alike = verdict.similarity if verdict.cosine is None else verdict.cosine
                shown = " ".join(passage.text.split())[:SNIPPET_CHARS]
                found.append(
                    Near(document.id, round(alike, 4), shown, verdict.reason, verdict.differences)
                )
        return sorted(found, key=lambda one: (-one.similarity, one.id))
