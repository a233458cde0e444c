"""Store facts: skip text that was recalled from this memory, report near duplicates."""

import re

from plait.facts import echo, likeness
from plait.facts.trust import at_least
from plait.protocols import Entry
from plait.types import Document, Filter, Ref
from plait.types.reports import Near, Stored
from plait.writing import echoes
from plait.writing.backfill import ON_THE_SIDE
from plait.writing.changes import Change, entity_named
from plait.writing.writer import Writer

# Passages compared with a new text, by words and by vector each.
COMPARED = 5
MOST_NEAR = 3
NEAR_SNIPPET_CHARS = 100
# Characters. Two long texts are never near duplicates by chance.
LONGEST_COMPARED = 2_000


def store_observation(writer: Writer, document: Document, entity: str | None) -> Stored:
    """Store one observation; report what it repeats, replaces and resembles."""
    about = None if entity is None else _entity_id(writer, entity)
    shortened = False
    if document.origin in echo.GUARDED:
        echoed = _echoed(writer, document, about)
        if echoed is not None:
            return echoed
        rest, shortened = echo.unfenced(document.text)
        document = document._replace(text=rest.strip() if shortened else rest)
    entry = writer.prepare(document)
    [entry] = writer.embed([entry])
    similar = _similar(writer, entry, about)
    [stored] = writer.write([Change(entry, entity=entity)])
    if stored.entity is not None:
        fill_profiles(writer, most=ON_THE_SIDE)
    known = {stored.id, *stored.superseded}
    near = () if stored.duplicate else [other for other in similar if other.id not in known]
    return stored._replace(
        near=tuple(near)[:MOST_NEAR], shortened=shortened, trouble=writer.trouble
    )


def new_part(writer: Writer, document: Document, about: str | None) -> str | None:
    """Return the new part of a text: all of it, or the part outside fences; ``None`` for nothing.

    Only text of agents and tools is checked. ``about`` is the id of an entity, empty
    for one that does not exist yet.
    """
    if document.origin not in echo.GUARDED:
        return document.text
    if _echoed(writer, document, about) is not None:
        return None
    rest, fenced = echo.unfenced(document.text)
    return rest.strip() if fenced else rest


def fill_profiles(writer: Writer, *, most: int | None = None) -> None:
    """Compute missing vectors: profiles change inside a transaction, without a vector."""
    if writer.trouble is None:
        writer.backfill.catch_up(most=most)


def _echoed(writer: Writer, document: Document, about: str | None) -> Stored | None:
    """Return the result for a text that was recalled from this memory; ``None`` for a new one."""
    text = document.text
    rest, fenced = echo.unfenced(text)
    all_fenced = fenced and not re.search(r"\w", rest)
    # A caller who gives a topic or supersedes does not store by accident.
    deliberate = document.topic is not None or document.supersedes is not None
    if all_fenced:
        # Text inside a fence certainly came from this memory.
        where = Filter(projects=(writer.project, None))
        source = echoes.find_repeated(writer.store, text, where, wholly=False)
    elif deliberate:
        return None
    else:
        where = _where_repeated(writer, document._replace(text=rest), about)
        source = echoes.find_repeated(writer.store, rest, where)
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


def _where_repeated(writer: Writer, document: Document, about: str | None) -> Filter:
    """Return where to look for duplicates: under the entity, else anywhere in the project.

    Less trusted text does not count. A text with a type, an importance or a pin can only repeat an
    observation: if it repeated a file or a note, these fields would be lost.
    """
    trusts = at_least(document.trust)
    everywhere = Filter(projects=(writer.project, None), trusts=trusts)
    if echo.PREFACE in document.text:
        return everywhere
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
    refs = [ref for ref, _ in store.keyword(echoes.plain_query(text), COMPARED, where)]
    vector = entry.vectors[0] if entry.vectors else None
    cosines: dict[Ref, float] = {}
    if vector is not None and writer.state.space == space:
        nearest = store.vector(vector, space, COMPARED, where, also=refs)
        refs += [ref for ref, _ in nearest.hits]
        cosines = nearest.cosines
    near = []
    for ref, candidate in store.hydrate(refs).items() if refs else ():
        passage = candidate.passage
        verdict = likeness.compare(text, passage.text, cosines.get(ref))
        if not verdict.near:
            # A small model may see less similarity than the words show.
            verdict = likeness.compare(text, passage.text)
        if verdict.near:
            alike = verdict.similarity if verdict.cosine is None else verdict.cosine
            snippet = " ".join(passage.text.split())[:NEAR_SNIPPET_CHARS]
            near.append(
                Near(
                    candidate.document.id,
                    round(alike, 4),
                    snippet,
                    verdict.reason,
                    verdict.differences,
                )
            )
    return sorted(near, key=lambda other: (-other.similarity, other.id))
