"""Taking in what another memory gave out: an export of plait, or a reference server's graph."""

from collections.abc import Iterable, Sequence

from plait import archive
from plait.archive import reference
from plait.errors import UsageError
from plait.graph import Graph
from plait.ingest import Pen, complete, now_ms, style_of
from plait.protocols import Entry, Store
from plait.types import Document, Imported


def import_export(
    store: Store, pen: Pen, parts: Sequence[Entry | archive.Edge | archive.Turn]
) -> Imported:
    """Take in what `archive.read` has read: its clock, its documents, then its relations.

    Raises:
        UsageError: A document's key belongs to another document of the memory.
    """
    for part in parts:
        if isinstance(part, archive.Turn):
            store.advance(part.moment)
    imported = import_entries(store, pen, [part for part in parts if isinstance(part, Entry)])
    edges = [part for part in parts if isinstance(part, archive.Edge)]
    fresh: list[bool] = []
    for project in dict.fromkeys(edge.project for edge in edges):
        mine = [edge.relation for edge in edges if edge.project == project]
        fresh += store.relate(mine, project)
    return imported._replace(relations=sum(fresh))


def import_graph(graph: Graph, found: reference.Graph) -> Imported:
    """Take in a reference memory server's graph; an entity of a known name learns from it."""
    names = [entity.name for entity in found.entities]
    before = {entity.name for entity in graph.open(names).entities}
    made = graph.create(found.entities, origin="import")
    fresh = graph.relate(found.relations)
    new = [entity for entity in made if entity.name not in before]
    return Imported(len(new), 0, len(made) - len(new), len(fresh), found.unknown)


def import_entries(store: Store, pen: Pen, entries: Iterable[Entry]) -> Imported:
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
        here = _counterpart(store, document, owners)
        # An entity only learns: what is newer here stays, and what belongs to it finds it.
        learns = document.kind == "entity"
        if here is not None and here.updated_at > document.updated_at and not learns:
            kept += 1
            continue
        if not entry.passages:
            entry = pen.entry(document, style_of(document))
        same = here is not None and here.id == document.id
        chosen.append(entry._replace(document=document, expects=here if same else None))
    written = pen.write(chosen)
    replaced = sum(done.replaced for done in written)
    # Said already, or replaced in the meantime: neither was written.
    left = sum(
        not done.replaced and (done.duplicate or entry.expects is not None)
        for entry, done in zip(chosen, written, strict=True)
    )
    return Imported(len(chosen) - replaced - left, replaced, kept + left)


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
