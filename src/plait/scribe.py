"""Facts on their way in: what came out of this memory stays out, what repeats another is flagged.

Between the write path, which knows nothing of other documents, and the facade.
"""

import re
from collections.abc import Callable, Sequence

from plait import guard
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
        fill: Callable[[], None],
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

    def fill(self) -> None:
        """Make the vectors that are missing: profiles change inside a transaction, without one."""
        if self._embedder.dims != 0 and self._store.pending_count():
            self._fill()

    def recalled(self, text: str, entity: str | None) -> bool:
        """Whether a text came out of this memory, as a whole or for the most part."""
        return self._seen_before(text, entity) is not None

    def store(self, document: Document, entity: str | None) -> Stored:
        """Store one observation; what it came out of, repeats, closes and resembles is told."""
        if document.origin in guard.GUARDED:
            # Who names a topic or what is superseded does not save by accident.
            decided = document.topic is not None or document.supersedes is not None
            known = self._seen_before(document.text, entity, only_fences=decided)
            if known is not None:
                return known
            document = document._replace(text=guard.unfenced(document.text)[0])
        entry = self.entry(document)._replace(entity=entity)
        pen = self._pen()
        [entry] = pen.embed([entry])
        alike = self._near(entry, entity)
        [stored] = pen.write([entry])
        if stored.entity is not None and pen.trouble is None:
            self.fill()
        others = {stored.id, *stored.superseded}
        found = () if stored.duplicate else (one for one in alike if one.id not in others)
        return stored._replace(near=tuple(found)[:MOST_NEAR])

    def _seen_before(
        self, text: str, entity: str | None, *, only_fences: bool = False
    ) -> Stored | None:
        """What to answer for a text that this memory itself has said; ``None`` for a new one."""
        rest, fenced = guard.unfenced(text)
        all_fenced = fenced and not re.search(r"\w", rest)
        if only_fences and not all_fenced:
            return None
        where = self._where(entity)
        source = None
        if where is not None:
            # What a fence holds is ours for certain, whatever else is written there.
            said, least = (guard.without_fences(text), 0.0) if all_fenced else (rest, guard.MOSTLY)
            source = guard.known_from(self._store, said, where, least)
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

    def _where(self, entity: str | None) -> Filter | None:
        """Where a text would be a repetition: under its entity, else anywhere in the project.

        ``None`` for an entity that does not exist yet: nothing was said of it.
        """
        if entity is None:
            return Filter(projects=(self._project, None), trusts=TRUSTS)
        key = Document(key=entity, kind="entity", source=ENTITY_SOURCE, project=self._project)
        known, _ = self._store.known(key)
        return None if known is None else Filter(parents=(known.id,), trusts=TRUSTS)

    def _near(self, entry: Entry, entity: str | None) -> list[Near]:
        """Observations that say almost the same, the most alike first."""
        text = entry.document.text
        where = self._where(entity)
        if where is None or len(entry.passages) != 1 or len(text) > LONGEST_COMPARED:
            return []
        where = where._replace(kinds=("observation",), projects=(self._project,))
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
