"""Taking in what another memory gave out: an export of plait, or a reference server's graph."""

from collections.abc import Iterable, Sequence

from plait import archive
from plait.archive import reference
from plait.errors import UsageError
from plait.graph import Graph
from plait.ingest import Pen, complete, now_ms, style_of
from plait.protocols import Entry, Store
from plait.types import ENTITY_SOURCE, Document, Imported


def import_export(
    store: Store, pen: Pen, parts: Sequence[Entry | archive.Edge | archive.Turn]
) -> Imported:
    """Take in what `archive.read` has read: its clock, its documents, then its relations.

    Raises:
        UsageError: A document's key belongs to another document of the memory, or an edge has an
            end that nobody knows.
    """
    entries = [part for part in parts if isinstance(part, Entry)]
    edges = [part for part in parts if isinstance(part, archive.Edge)]
    turns = [part.moment for part in parts if isinstance(part, archive.Turn)]
    _check_ends(store, entries, edges)
    imported = import_entries(store, pen, entries, turn=max(turns, default=None))
    fresh: list[bool] = []
    for project in dict.fromkeys(edge.project for edge in edges):
        mine = [edge.relation for edge in edges if edge.project == project]
        fresh += store.relate(mine, project)
    return imported._replace(relations=sum(fresh))


def _check_ends(store: Store, entries: Sequence[Entry], edges: Sequence[archive.Edge]) -> None:
    """Refuse an edge of something that is neither in the import nor in the memory.

    Raises:
        UsageError: There is one.
    """
    known = {
        (entry.document.project, entry.document.key)
        for entry in entries
        if entry.document.kind == "entity"
    }
    for edge in edges:
        for name in edge.relation[:2]:
            homes = [(project, name) for project in (edge.project, None)]
            if known.isdisjoint(homes) and not any(_is_entity(store, *home) for home in homes):
                raise UsageError(
                    f"A relation of the import names the entity '{name}', which is neither in the "
                    "import nor in the memory. Nothing was imported."
                )


def _is_entity(store: Store, project: str | None, name: str) -> bool:
    wanted = Document(key=name, kind="entity", source=ENTITY_SOURCE, project=project)
    return store.known(wanted)[0] is not None


def import_graph(graph: Graph, found: reference.Graph) -> Imported:
    """Take in a reference memory server's graph; an entity of a known name learns from it."""
    names = [entity.name for entity in found.entities]
    before = {entity.name for entity in graph.open(names).entities}
    made = graph.create(found.entities, origin="import")
    fresh = graph.relate(found.relations)
    new = [entity for entity in made if entity.name not in before]
    return Imported(len(new), 0, len(made) - len(new), len(fresh), found.unknown)


def import_entries(
    store: Store, pen: Pen, entries: Iterable[Entry], *, turn: int | None = None
) -> Imported:
    """Take in the documents of an export, all of them or none; a newer one in the memory stays.

    Raises:
        UsageError: A document's key belongs to another document of the memory.
    """
    now = now_ms()
    owners: dict[tuple[str | None, str, str], str] = {}
    chosen: list[Entry] = []
    kept = 0
    for entry in entries:
        document = complete(entry.document, now)
        if document.kind == "entity":
            document = document._replace(type=entry.document.type)  # which may be an empty one
        here = _counterpart(store, document, owners)
        # An entity only learns: what is newer here stays, and what belongs to it finds it.
        learns = document.kind == "entity"
        if here is not None and here.updated_at > document.updated_at and not learns:
            kept += 1
            continue
        if not entry.passages:
            entry = pen.entry(document, style_of(document))
        if here is not None and here.id == document.id:
            chosen.append(entry._replace(document=_still_ended(document, here), expects=here))
        else:
            chosen.append(entry._replace(document=document))
    written = pen.write(chosen, turn=turn)
    replaced = sum(done.replaced for done in written)
    # Said already, or replaced in the meantime: neither was written.
    left = sum(
        not done.replaced and (done.duplicate or entry.expects is not None)
        for entry, done in zip(chosen, written, strict=True)
    )
    return Imported(len(chosen) - replaced - left, replaced, kept + left)


def _still_ended(document: Document, here: Document) -> Document:
    """A document of an import that did not change, with the end that either memory knows of.

    What took its place changed neither its content nor when that was last changed.
    """
    ends = [end for end in (document.valid_to, here.valid_to) if end is not None]
    if here.updated_at != document.updated_at or not ends:
        return document
    return document._replace(valid_to=min(ends))


def _counterpart(
    store: Store, document: Document, owners: dict[tuple[str | None, str, str], str]
) -> Document | None:
    """The stored document that this one would replace; notes in ``owners`` whose key is whose."""
    same, _ = store.known(Document(id=document.id)) if document.id else (None, frozenset())
    if document.key is None:
        return same
    namesake, _ = store.known(document._replace(id=""))
    name = (document.project, document.source, document.key)
    owner = owners.get(name) or (document.id if namesake is None else namesake.id)
    if same is not None and owner != same.id:
        raise UsageError(
            f"The import's document {same.id} has the key '{document.key}', which belongs to "
            f"{owner}. Delete or rename one of them. Nothing was imported."
        )
    owners[name] = owner
    return same or namesake
