"""The profile ``graph``: the reference memory server's nine tools, argument for argument.

Clients that were written for it find its shapes, its messages and its text, which is the JSON of
the result. search_semantic is seed 002's.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from plait.errors import NotFound
from plait.graph import Entity, Graph, Subgraph, relation_dict
from plait.mcp.arguments import Schema
from plait.mcp.tool import Call, Reply, Tool, listed, takes, text, texts, whole
from plait.types import NewEntity, Relation

if TYPE_CHECKING:
    from plait.memory import Memory

KNOWLEDGE_GRAPH = "memory://knowledge-graph"
MAX_QUERY_CHARS = 2_048  # the reference server's limit
SEMANTIC_LIMIT = 10
MOST_SEMANTIC = 50


def whole_graph(memory: "Memory") -> str:
    """Everything, as the reference server's resource shows it."""
    return _json(_read(memory, lambda graph: graph.read()).dict())


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _read(memory: "Memory", ask: Callable[[Graph], Subgraph]) -> Subgraph:
    """What the graph answers that is trusted; a memory that does not exist yet has an empty one."""
    try:
        graph = memory.graph
    except NotFound:
        return Subgraph()
    found = ask(graph)
    inside = {entity.name for entity in found.entities}
    ends = {end for edge in found.relations for end in (edge.source, edge.target)}
    return _only_trusted(found, graph.open(sorted(ends - inside)).entities)


def _subgraph(found: Subgraph) -> Reply:
    return Reply(_json(found.dict()), found.dict())


def _holds(entity: Entity, query: str) -> bool:
    said = (entity.name, entity.type, *entity.contents)
    return any(query.casefold() in text.casefold() for text in said)


def _only_trusted(found: Subgraph, beyond: Iterable[Entity]) -> Subgraph:
    """A part of the graph without the names and words of those who are not trusted.

    The reference server's shapes have no room for a mark, and nothing in them is fenced.
    """
    every = (*found.entities, *beyond)
    doubtful = {entity.id for entity in every if entity.trust != "trusted"}
    return found._replace(
        entities=tuple(
            entity._replace(
                observations=tuple(one for one in entity.observations if one.trust == "trusted")
            )
            for entity in found.entities
            if entity.id not in doubtful
        ),
        relations=tuple(
            edge for edge in found.relations if not doubtful & {edge.source_id, edge.target_id}
        ),
    )


def _in_its_words(error: NotFound, names: Iterable[str]) -> NotFound:
    """The refusal as the reference server says it; as it is where it is about something else."""
    for name in names:
        if f"'{name}'" in str(error):
            return NotFound(f"Entity with name {name} not found")
    return error


def create_entities(call: Call) -> Reply:
    """Make the entities that do not exist yet; answers with those."""
    made = call.memory.graph.create(
        [
            NewEntity(row["name"], row["entityType"], tuple(row["observations"]))
            for row in call.given["entities"]
        ],
        merge=False,
        origin="agent",
        session=call.session,
    )
    rows = [entity.dict() for entity in made]
    return Reply(_json(rows), {"entities": rows})


def create_relations(call: Call) -> Reply:
    """Join entities; answers with the edges that are new."""
    relations = _relations(call.given["relations"])
    try:
        fresh = call.memory.graph.relate(relations)
    except NotFound as error:
        ends = [end for edge in relations for end in (edge.source, edge.target)]
        raise _in_its_words(error, ends) from error
    rows = [relation_dict(relation) for relation in fresh]
    return Reply(_json(rows), {"relations": rows})


def _relations(rows: Sequence[dict[str, Any]]) -> list[Relation]:
    return [Relation(row["from"], row["to"], row["relationType"]) for row in rows]


def add_observations(call: Call) -> Reply:
    """Add facts to entities, all or none."""
    additions = [(row["entityName"], row["contents"]) for row in call.given["observations"]]
    try:
        added = call.memory.graph.observe(additions, origin="agent", session=call.session)
    except NotFound as error:
        raise _in_its_words(error, [name for name, _ in additions]) from error
    rows = [{"entityName": row.name, "addedObservations": list(row.added)} for row in added]
    return Reply(_json(rows), {"results": rows})


def delete_entities(call: Call) -> Reply:
    """Delete entities with all that belongs to them."""
    names = call.given["entityNames"]
    missing = set(call.memory.graph.delete(names).missing)
    if not missing:
        return _done("Entities deleted successfully")
    absent = [name for name in names if name in missing]
    gone = len(names) - len(absent)
    return _done(f"Deleted {gone} of {len(names)} entities. Not found: {', '.join(absent)}")


def delete_observations(call: Call) -> Reply:
    """Delete facts by their text."""
    deletions = [(row["entityName"], row["observations"]) for row in call.given["deletions"]]
    forgotten = call.memory.graph.forget(deletions)
    asked = sum(len(texts) for _, texts in deletions)
    if forgotten.deleted == asked:
        return _done("Observations deleted successfully")
    missing = f" Entities not found: {', '.join(forgotten.missing)}" if forgotten.missing else ""
    return _done(f"Deleted {forgotten.deleted} of {asked} observations.{missing}")


def delete_relations(call: Call) -> Reply:
    """Delete edges."""
    relations = _relations(call.given["relations"])
    gone = call.memory.graph.unrelate(relations)
    if gone == len(relations):
        return _done("Relations deleted successfully")
    return _done(f"Deleted {gone} of {len(relations)} relations. The rest matched nothing.")


def _done(message: str) -> Reply:
    return Reply(message, {"success": True, "message": message})


def read_graph(call: Call) -> Reply:
    """Everything."""
    return _subgraph(_read(call.memory, lambda graph: graph.read()))


def search_nodes(call: Call) -> Reply:
    """Entities that hold a text."""
    query = call.given["query"]
    found = _read(call.memory, lambda graph: graph.search(query))
    kept = [entity for entity in found.entities if _holds(entity, query)]
    ids = {entity.id for entity in kept}
    touching = (edge for edge in found.relations if ids & {edge.source_id, edge.target_id})
    return _subgraph(Subgraph(tuple(kept), tuple(touching)))


def open_nodes(call: Call) -> Reply:
    """Entities by name."""
    return _subgraph(_read(call.memory, lambda graph: graph.open(call.given["names"])))


def search_semantic(call: Call) -> Reply:
    """Entities by meaning, words and use."""
    try:
        graph = call.memory.graph
    except NotFound:
        found = []
    else:
        found = graph.search_semantic(call.given["query"], call.given["limit"])
        names = [row["name"] for row in found]
        shown = _read(call.memory, lambda graph: graph.open(names))
        said = {entity.name: list(entity.contents) for entity in shown.entities}
        found = [{**row, "observations": said[row["name"]]} for row in found if row["name"] in said]
    data = {"results": found}
    return Reply(_json(data), data)


_ENTITY = takes(
    "name",
    "entityType",
    "observations",
    name=text("the entity's name"),
    entityType=text("its type: person, project, …"),
    observations=texts("facts about it, one each"),
)
_RELATION: Schema = {
    "type": "object",
    "properties": {
        "from": text("name of the entity where it starts"),
        "to": text("name of the entity where it ends"),
        "relationType": text("what joins them, in active voice: works_at"),
    },
    "required": ["from", "to", "relationType"],
}
_GRAPH = takes("entities", "relations", entities=listed(_ENTITY), relations=listed(_RELATION))
_MESSAGE = takes("success", "message", success={"type": "boolean"}, message=text())

TOOLS = (
    Tool(
        "create_entities",
        "Make new named things in the knowledge graph. Names that exist already are left as they "
        "are: add to those with add_observations.",
        takes("entities", entities=listed(_ENTITY)),
        create_entities,
        output=takes("entities", entities=listed(_ENTITY)),
        title="Create Entities",
        writes=True,
        idempotent=False,
        strict=False,
    ),
    Tool(
        "create_relations",
        "Join entities by typed edges. Both ends must exist: make them first with create_entities.",
        takes("relations", relations=listed(_RELATION)),
        create_relations,
        output=takes("relations", relations=listed(_RELATION)),
        title="Create Relations",
        writes=True,
        idempotent=False,
        strict=False,
    ),
    Tool(
        "add_observations",
        "Add facts to entities that exist. Facts that are known already are left out.",
        takes(
            "observations",
            observations=listed(
                takes(
                    "entityName",
                    "contents",
                    entityName=text("which entity"),
                    contents=texts("the facts, one each"),
                )
            ),
        ),
        add_observations,
        output=takes(
            "results",
            results=listed(
                takes(
                    "entityName", "addedObservations", entityName=text(), addedObservations=texts()
                )
            ),
        ),
        title="Add Observations",
        writes=True,
        idempotent=False,
        strict=False,
    ),
    Tool(
        "delete_entities",
        "Delete entities with their observations and relations.",
        takes("entityNames", entityNames=texts("names of the entities")),
        delete_entities,
        output=_MESSAGE,
        title="Delete Entities",
        writes=True,
        destroys=True,
        strict=False,
    ),
    Tool(
        "delete_observations",
        "Delete facts of entities, by their exact text.",
        takes(
            "deletions",
            deletions=listed(
                takes(
                    "entityName",
                    "observations",
                    entityName=text("which entity"),
                    observations=texts("the facts to delete, word for word"),
                )
            ),
        ),
        delete_observations,
        output=_MESSAGE,
        title="Delete Observations",
        writes=True,
        destroys=True,
        strict=False,
    ),
    Tool(
        "delete_relations",
        "Delete edges between entities.",
        takes("relations", relations=listed(_RELATION, "the edges to delete")),
        delete_relations,
        output=_MESSAGE,
        title="Delete Relations",
        writes=True,
        destroys=True,
        strict=False,
    ),
    Tool(
        "read_graph",
        "Read the whole knowledge graph. Long graphs cost many tokens: prefer search_nodes.",
        takes(),
        read_graph,
        output=_GRAPH,
        title="Read Graph",
        strict=False,
    ),
    Tool(
        "search_nodes",
        "Find entities whose name, type or observations hold this text.",
        takes("query", query=text("the text to find", maxLength=MAX_QUERY_CHARS)),
        search_nodes,
        output=_GRAPH,
        title="Search Nodes",
        strict=False,
    ),
    Tool(
        "open_nodes",
        "Read entities by name, with the relations that touch them.",
        takes("names", names=texts("names of the entities")),
        open_nodes,
        output=_GRAPH,
        title="Open Nodes",
        strict=False,
    ),
    Tool(
        "search_semantic",
        "Find entities by meaning, words and use. Prefer it to search_nodes when you do not know "
        "the exact words.",
        takes(
            "query",
            query=text("words or a question"),
            limit=whole(minimum=1, maximum=MOST_SEMANTIC, default=SEMANTIC_LIMIT),
        ),
        search_semantic,
        output=takes("results", results=listed({"type": "object"})),
        title="Search Semantic",
        strict=False,
    ),
)
