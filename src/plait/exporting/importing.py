"""Import what `reading` has read: documents and relations, or a reference memory server's graph."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from plait.errors import UsageError
from plait.exporting import jsonl, reference
from plait.exporting.narrowing import hidden_documents, is_hidden
from plait.exporting.reading import Importable
from plait.facts.credentials import document_secrets
from plait.facts.names import entity_named
from plait.facts.relations import merge
from plait.facts.trust import may_replace, outranks
from plait.graph import Graph
from plait.graph.edges import relate
from plait.protocols import Entry, Store
from plait.text.normal_form import composed
from plait.types import EVERYTHING, Document, Trust
from plait.types.ids import AGENT_FIELD, IMPORTED_SESSION, SCOPE_PREFIX
from plait.types.relations import Relation
from plait.types.reports import Imported
from plait.types.visibility import TEAM, Visibility, visible_to, wanted_visibility
from plait.writing import documents
from plait.writing.changes import ENTITY_FIELDS, Change
from plait.writing.copies import New, copying_relations, with_trust_of_copies
from plait.writing.writer import Writer

_Row = TypeVar("_Row")
# Whose keys are, by who sees them, project and source.
_Owners = dict[tuple[str | None, ...], str]


def import_content(
    writer: Writer,
    graph: Graph,
    content: Importable,
    *,
    trust: Trust = "trusted",
    dry_run: bool = False,
) -> Imported:
    """Import what was read; newer documents here are kept.

    Args:
        writer: Writes the documents.
        graph: Writes the graph of a reference memory server.
        content: What was read.
        trust: The highest trust that a document gets, whatever the import says.
        dry_run: Only count what would be done.

    Raises:
        UsageError: A document or relation cannot be written; nothing was.
    """
    if content.graph is not None:
        imported = import_graph(writer, graph, content.graph, trust=trust, dry_run=dry_run)
    else:
        imported = import_export(writer, content.parts, trust=trust, dry_run=dry_run)
        if writer.trouble is None and not dry_run:
            writer.backfill.catch_up()
    if not dry_run:
        writer.store.tidy()
    return imported._replace(
        trouble=imported.trouble or writer.trouble,
        left_out=content.left_out,
        source=content.source,
        dry_run=dry_run,
    )


def import_export(
    writer: Writer,
    parts: Sequence[jsonl.ExportPart],
    *,
    trust: Trust = "trusted",
    dry_run: bool = False,
) -> Imported:
    """Import what `jsonl.read_export` returned: documents first, then relations.

    Raises:
        UsageError: A key belongs to another document of the memory ("key_taken"), or a relation
            has an unknown entity ("unknown_entity").
    """
    # An export names only what not all see: then the rest is the team's, or as the caller wants.
    default = wanted_visibility() or (TEAM if hidden_documents(parts) else None)
    entries = [
        part._replace(
            visibility=part.visibility or default,
            document=part.document._replace(
                project=writer.home_of(part.document.project),
                trust=trust if outranks(part.document.trust, trust) else part.document.trust,
            ),
        )
        for part in parts
        if isinstance(part, Entry)
    ]
    relations = [
        part._replace(
            project=writer.home_of(part.project),
            # Between what few see and what all see: its ends are looked for among both.
            visibility=None if is_hidden(part) else default,
        )
        for part in parts
        if isinstance(part, jsonl.ExportedRelation)
    ]
    headers = [part for part in parts if isinstance(part, jsonl.ExportHeader)]
    changes = [header.changed_at for header in headers if header.changed_at is not None]
    _check_ends(writer.store, entries, relations)
    copying = copying_relations(writer.store, [exported.relation for exported in relations])
    relations = _without(copying, relations)
    changed_at = max(changes, default=None)
    imported = import_entries(writer, entries, changed_at=changed_at, dry_run=dry_run)
    if not dry_run:
        _note_sessions(writer.store, entries)
    are_new: list[bool] = []
    if dry_run:
        are_new = _are_new(writer.store, relations)
        relations = []
    for home in dict.fromkeys(exported[1:] for exported in relations):
        project, visibility = home
        at_home = [exported.relation for exported in relations if exported[1:] == home]
        with visible_to(visibility):
            are_new += relate(writer.store, at_home, project)
    return imported._replace(relations=sum(are_new), untrusted_relations=sum(copying))


def _note_sessions(store: Store, entries: Iterable[Entry]) -> None:
    """Note the sessions of agents that an import brought: answers name them in short.

    What is noted is about the whole memory: a user's scope has none.
    """
    messages = (row.document for row in entries if row.document.kind == "message")
    names = {
        f"{IMPORTED_SESSION}{message.session}"
        for message in messages
        if (message.session or "").startswith(f"{message.metadata.get(AGENT_FIELD, '')}:")
        and not (message.project or "").startswith(SCOPE_PREFIX)
    }
    new = dict.fromkeys((name for name in sorted(names) if not store.remembered(name)), "")
    if new:
        with store.transaction() as transaction:
            transaction.remember(**new)


def _are_new(store: Store, relations: Sequence[jsonl.ExportedRelation]) -> list[bool]:
    """Tell for each relation whether `relate` would add it, without writing anything."""
    ends = dict.fromkeys(
        (row[1:], name) for row in relations for name in (row.relation.source, row.relation.target)
    )
    ids: dict[tuple[tuple[str | None, ...], str], str] = {}
    here: set[str] = set()
    for (project, visibility), name in ends:
        named = [entity_named(name, home) for home in dict.fromkeys((project, None))]
        with visible_to(visibility):
            homes = store.known(named)
        id_ = next((home.id for home in homes if home is not None), None)
        if id_ is not None:
            here.add(id_)
        # An entity that the import brings has no id yet.
        place = (project, visibility)
        ids[place, name] = id_ or repr((*place, composed(name)))
    known: dict[tuple[str, str, str], list[Relation]] = {}
    for edge in store.relations(sorted(here), EVERYTHING) if here else ():
        known.setdefault((edge.source_id, edge.target_id, edge.type), []).append(edge)
    now = documents.now_ms()
    are_new = []
    for edge, project, visibility in relations:
        type_, place = composed(edge.type), (project, visibility)
        of_both = known.setdefault((ids[place, edge.source], ids[place, edge.target], type_), [])
        merged, is_new = merge(edge._replace(type=type_), of_both, now)
        if merged is not None and is_new:
            of_both.append(merged)
        are_new.append(is_new)
    return are_new


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


def import_graph(
    writer: Writer,
    graph: Graph,
    imported: reference.ReferenceGraph,
    *,
    trust: Trust = "trusted",
    dry_run: bool = False,
) -> Imported:
    """Import a reference memory server's graph; existing entities get the new observations."""
    names = [entity.name for entity in imported.entities]
    existing = {entity.name for entity in graph.open(names).entities}
    relations = _without(copying_relations(writer.store, imported.relations), imported.relations)
    if dry_run:
        edges = [jsonl.ExportedRelation(row, writer.project) for row in relations]
        fresh = _are_new(writer.store, edges)
        kept = len(existing)
        left_out = len(imported.relations) - len(relations)
        return Imported(len(names) - kept, 0, kept, sum(fresh), imported.unknown, None, left_out)
    entities = graph.create(imported.entities, origin="import", trust=trust)
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
    writer: Writer,
    entries: Iterable[Entry],
    *,
    changed_at: int | None = None,
    dry_run: bool = False,
) -> Imported:
    """Import the documents of an export, all or none; newer and more trusted ones here are kept.

    Raises:
        UsageError: A key belongs to another document of the memory ("key_taken").
    """
    now = documents.now_ms()
    owners: _Owners = {}
    changes: list[Change] = []
    kept = unchanged = known_entities = 0
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
        with visible_to(entry.visibility):
            here = _counterpart(writer.store, document, entry.visibility, owners)
        # Entities are always written: they are merged, and their observations need them.
        is_entity = document.kind == "entity"
        claimed = document._replace(trust=draft.document.trust)
        if here is not None and _is_unchanged(writer.store, here, claimed):
            unchanged += 1
            continue
        if here is not None and not is_entity and _stays(here, document):
            kept += 1
            continue
        if not entry.passages:
            chunked = writer.chunk(draft._replace(document=document))
            entry = chunked._replace(steps=entry.steps, visibility=entry.visibility)
        if here is None or is_entity:
            known_entities += here is not None
            changes.append(Change(entry._replace(document=document), imported=True))
            continue
        if here.id == document.id:
            document = _still_ended(document, here)
        # Without ``expects`` a document that became trusted meanwhile could be replaced.
        replacement = entry._replace(document=document)
        changes.append(Change(replacement, expects=here, imported=True))
    kinds = (document_secrets(change.entry.document) for change in changes)
    secret = tuple(dict.fromkeys(kind for held in kinds for kind in held))
    if dry_run:
        replaced = sum(change.expects is not None for change in changes) + known_entities
        added = len(changes) - replaced
        return Imported(added, replaced, kept, unchanged=unchanged, secret=secret)
    written = writer.write(changes, changed_at=changed_at)
    replaced = sum(result.replaced for result in written)
    # Not written: a duplicate, or another process replaced the document in the meantime.
    skipped = sum(
        not result.replaced and (result.duplicate or change.expects is not None)
        for change, result in zip(changes, written, strict=True)
    )
    added = len(changes) - replaced - skipped
    return Imported(added, replaced, kept + skipped, unchanged=unchanged, secret=secret)


def _is_unchanged(store: Store, here: Document, document: Document) -> bool:
    """Tell whether the memory has a document exactly as it is imported."""
    if document.kind == "entity":
        # The rest of it is made from its observations.
        fields = ("id", "key", "project", "trust", *ENTITY_FIELDS)
        return all(getattr(here, name) == getattr(document, name) for name in fields)
    aside: dict[str, Any] = {"text": "", "indexed_at": 0, "chunk_count": 0}
    if here._replace(**aside) != document._replace(**aside):
        return False
    if document.kind != "file":
        return True  # the hash is that of the text
    return [row.text for row in store.load([here.id])] == [document.text]


def _stays(here: Document, document: Document) -> bool:
    """Tell whether the stored document is newer than the import's, or more trusted."""
    return here.updated_at > document.updated_at or not may_replace(here, document)


def _still_ended(document: Document, here: Document) -> Document:
    """Return an unchanged document of an import with the earlier ``valid_to`` of both memories.

    Being superseded changes neither a document's content nor its ``updated_at``; that another one
    ended in favour of it changes only the latter.
    """
    ends = [end for end in (document.valid_to, here.valid_to) if end is not None]
    same_text = here.sha256 is not None and here.sha256 == document.sha256
    if not ends or not (same_text or here.updated_at == document.updated_at):
        return document
    return document._replace(valid_to=min(ends))


def _counterpart(
    store: Store, document: Document, visibility: Visibility | None, owners: _Owners
) -> Document | None:
    """Return the stored document that this one would replace, and note its key in ``owners``."""
    same, namesake = store.known([Document(id=document.id), document._replace(id="")])
    if document.key is None:
        return same
    name = (visibility, document.project, document.source, document.key)
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
