"""Import an export of plait, or the graph of a reference memory server."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from plait.errors import UsageError
from plait.exporting import jsonl, reference
from plait.facts.names import entity_named
from plait.facts.trust import may_replace
from plait.graph import Graph
from plait.graph.edges import relate
from plait.protocols import Entry, Store
from plait.text.normal_form import composed
from plait.types import Document
from plait.types.reports import Imported
from plait.writing import documents
from plait.writing.changes import Change
from plait.writing.copies import New, copying_relations, with_trust_of_copies
from plait.writing.writer import Writer

_Row = TypeVar("_Row")


def import_lines(writer: Writer, graph: Graph, lines: Iterable[str]) -> Imported:
    """Import an export, or a reference memory server's file; newer documents here are kept.

    Raises:
        UsageError: A line belongs to neither format; the message names the line.
    """
    is_reference, lines = reference.recognise(lines)
    if is_reference:
        imported = import_graph(writer.store, graph, reference.read_graph_file(lines))
    else:
        imported = import_export(writer, list(jsonl.read_export(lines)))
        if writer.trouble is None:
            writer.backfill.catch_up()
    writer.store.tidy()
    return imported._replace(trouble=imported.trouble or writer.trouble)


def import_export(
    writer: Writer, parts: Sequence[Entry | jsonl.ExportedRelation | jsonl.ExportHeader]
) -> Imported:
    """Import what `jsonl.read_export` returned: documents first, then relations.

    Raises:
        UsageError: A key belongs to another document of the memory ("key_taken"), or a relation
            has an unknown entity ("unknown_entity").
    """
    entries = [
        part._replace(
            document=part.document._replace(project=writer.home_of(part.document.project))
        )
        for part in parts
        if isinstance(part, Entry)
    ]
    relations = [
        part._replace(project=writer.home_of(part.project))
        for part in parts
        if isinstance(part, jsonl.ExportedRelation)
    ]
    headers = [part for part in parts if isinstance(part, jsonl.ExportHeader)]
    changes = [header.changed_at for header in headers if header.changed_at is not None]
    _check_ends(writer.store, entries, relations)
    given = len(relations)
    copying = copying_relations(writer.store, [exported.relation for exported in relations])
    relations = _without(copying, relations)
    imported = import_entries(writer, entries, changed_at=max(changes, default=None))
    are_new: list[bool] = []
    for project in dict.fromkeys(exported.project for exported in relations):
        of_project = [exported.relation for exported in relations if exported.project == project]
        are_new += relate(writer.store, of_project, project)
    return imported._replace(relations=sum(are_new), untrusted_relations=given - len(relations))


def _without(left_out: Sequence[bool], rows: Sequence[_Row]) -> list[_Row]:
    return [row for row, is_out in zip(rows, left_out, strict=True) if not is_out]


def _check_ends(
    store: Store, entries: Sequence[Entry], relations: Sequence[jsonl.ExportedRelation]
) -> None:
    """Check that both entities of every relation are in the import or in the memory.

    Raises:
        UsageError: One of them is in neither.
    """
    known = {
        (entry.document.project, composed(entry.document.key or ""))
        for entry in entries
        if entry.document.kind == "entity"
    }
    for exported in relations:
        for name in exported.relation[:2]:
            places = [(project, composed(name)) for project in (exported.project, None)]
            if known.isdisjoint(places) and not any(_is_entity(store, *place) for place in places):
                raise UsageError(
                    f"A relation of the import names the entity '{name}', which is neither in the "
                    "import nor in the memory. Nothing was imported.",
                    code="unknown_entity",
                    subject=name,
                )


def _is_entity(store: Store, project: str | None, name: str) -> bool:
    return store.known([entity_named(name, project)]) != [None]


def import_graph(store: Store, graph: Graph, imported: reference.ReferenceGraph) -> Imported:
    """Import a reference memory server's graph; existing entities get the new observations."""
    names = [entity.name for entity in imported.entities]
    existing = {entity.name for entity in graph.open(names).entities}
    relations = _without(copying_relations(store, imported.relations), imported.relations)
    entities = graph.create(imported.entities, origin="import")
    new_relations = graph.relate(relations)
    new = [entity for entity in entities if entity.name not in existing]
    kept = len(entities) - len(new)
    return Imported(
        len(new),
        0,
        kept,
        len(new_relations),
        imported.unknown,
        entities.trouble,
        len(imported.relations) - len(relations),
    )


def import_entries(
    writer: Writer, entries: Iterable[Entry], *, changed_at: int | None = None
) -> Imported:
    """Import the documents of an export, all or none; newer and more trusted ones here are kept.

    Raises:
        UsageError: A key belongs to another document of the memory ("key_taken").
    """
    now = documents.now_ms()
    owners: dict[tuple[str | None, str, str], str] = {}
    changes: list[Change] = []
    kept = 0
    entries = list(entries)
    drafts = [documents.complete(entry.document, now) for entry in entries]
    new = [
        New(draft.document, headings=tuple({passage.heading for passage in entry.passages} - {""}))
        for entry, draft in zip(entries, drafts, strict=True)
    ]
    trusted = with_trust_of_copies(writer.store, new, imported=True)
    for entry, draft, document in zip(entries, drafts, trusted, strict=True):
        if document.kind == "entity":
            # An empty type stays empty.
            type_ = entry.document.type
            document = document._replace(type=type_ and composed(type_))
        here = _counterpart(writer.store, document, owners)
        # Entities are always written: they are merged, and their observations need them.
        is_entity = document.kind == "entity"
        if here is not None and not is_entity and _stays(here, document):
            kept += 1
            continue
        if not entry.passages:
            entry = writer.chunk(draft._replace(document=document))
        if here is None or is_entity:
            changes.append(Change(entry._replace(document=document), imported=True))
            continue
        if here.id == document.id:
            document = _still_ended(document, here)
        # Without ``expects`` a document that became trusted meanwhile could be replaced.
        replacement = entry._replace(document=document)
        changes.append(Change(replacement, expects=here, imported=True))
    written = writer.write(changes, changed_at=changed_at)
    replaced = sum(result.replaced for result in written)
    # Not written: a duplicate, or another process replaced the document in the meantime.
    skipped = sum(
        not result.replaced and (result.duplicate or change.expects is not None)
        for change, result in zip(changes, written, strict=True)
    )
    return Imported(len(changes) - replaced - skipped, replaced, kept + skipped)


def _stays(here: Document, document: Document) -> bool:
    """Tell whether the stored document is newer than the import's, or more trusted."""
    return here.updated_at > document.updated_at or not may_replace(here, document)


def _still_ended(document: Document, here: Document) -> Document:
    """Return an unchanged document of an import with the earlier ``valid_to`` of both memories.

    Being superseded changes neither a document's content nor its ``updated_at``.
    """
    ends = [end for end in (document.valid_to, here.valid_to) if end is not None]
    if here.updated_at != document.updated_at or not ends:
        return document
    return document._replace(valid_to=min(ends))


def _counterpart(
    store: Store, document: Document, owners: dict[tuple[str | None, str, str], str]
) -> Document | None:
    """Return the stored document that this one would replace, and note its key in ``owners``."""
    same, namesake = store.known([Document(id=document.id), document._replace(id="")])
    if document.key is None:
        return same
    name = (document.project, document.source, document.key)
    owner = owners.get(name) or (document.id if namesake is None else namesake.id)
    if same is not None and owner != same.id:
        raise UsageError(
            f"The import's document {same.id} has the key '{document.key}', which belongs to "
            f"{owner}. Delete or rename one of them. Nothing was imported.",
            code="key_taken",
            subject=document.key,
        )
    owners[name] = owner
    return same or namesake
