"""The profile ``graph``: the reference memory server's nine tools with the same arguments.

Its clients get the same shapes and messages; the text form is the JSON of the result.
search_semantic is mcp-memory's.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from plait.errors import NotFound, UsageError
from plait.facts.trust import lowered_to
from plait.graph import Entity, Graph, Subgraph, reference_relation
from plait.present.text import counted
from plait.text.normal_form import composed
from plait.tools.graph_parts import fitted
from plait.tools.replies import Reply, named
from plait.tools.schemas import Schema, array_of, boolean, integer, object_of, string, strings
from plait.tools.tool import Call, Tool
from plait.types import Trust
from plait.types.relations import Relation
from plait.types.reports import NewEntity

if TYPE_CHECKING:
    from plait.memory import Memory

MAX_QUERY_CHARS = 2_048  # the reference server's limit
SEMANTIC_LIMIT = 10
MAX_SEMANTIC_LIMIT = 50
ONE_GRAPH = (
    "Every project has its own graph. For one graph in all folders, the user starts the server "
    "with --project personal."
)


def whole_graph(memory: "Memory") -> str:
    """Return the whole graph as JSON, as the reference server's resource shows it."""
    return _json(_read(memory, lambda graph: graph.read()).dict())


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _read(memory: "Memory", ask: Callable[[Graph], Subgraph]) -> Subgraph:
    """Return the trusted part of an answer; empty if there is no memory yet."""
    try:
        graph = memory.graph
    except NotFound:
        return Subgraph()
    subgraph = ask(graph)
    inside = {entity.name for entity in subgraph.entities}
    ends = {end for edge in subgraph.relations for end in (edge.source, edge.target)}
    return _only_trusted(subgraph, graph.open(sorted(ends - inside)).entities)


def _reply(
    call: Call,
    subgraph: Subgraph,
    *,
    names: Sequence[str] = (),
    words: str = "",
    reads: bool = True,
) -> Reply:
    """Return an answer in the reference server's shape; an empty one tells of other projects."""
    data = _for_reader(call, subgraph.dict(), words)
    if subgraph.entities:
        if reads:
            shown = {row["name"] for row in data["entities"]}
            read = [entity.id for entity in subgraph.entities if entity.name in shown]
            call.memory.graph.count_as_read(read)
    elif note := _elsewhere(call.memory, names):
        data["note"] = note
    return Reply(_json(data), data)


def _for_reader(call: Call, data: dict[str, Any], words: str = "") -> dict[str, Any]:
    """Return as much of an answer as reaches a model; a program gets all of it."""
    is_for_program = call.with_data and not call.as_rows
    return data if is_for_program else fitted(data, words)


def _elsewhere(memory: "Memory", names: Sequence[str] = ()) -> str:
    """Return how many entities other projects have: of these names, or if there is none here.

    The reference server has one graph for all folders, so its users expect to find them.
    """
    try:
        graph = memory.graph
    except NotFound:
        return ""
    if not names and graph.read(limit=1).entities:
        return ""
    count = graph.elsewhere(names)
    named = " of that name" if names else ""
    entities = counted(count, "entity")
    return f"Other projects have {entities}{named}. {ONE_GRAPH}" if count else ""


def _only_trusted(subgraph: Subgraph, neighbours: Iterable[Entity]) -> Subgraph:
    """Return the subgraph without the names and texts of untrusted sources.

    The reference server's shapes cannot mark a text as untrusted, and they have no fence.
    """
    entities = (*subgraph.entities, *neighbours)
    untrusted = {entity.id for entity in entities if entity.trust != "trusted"}
    return subgraph._replace(
        entities=tuple(
            entity._replace(
                observations=tuple(
                    observation
                    for observation in entity.observations
                    if observation.trust == "trusted"
                )
            )
            for entity in subgraph.entities
            if entity.id not in untrusted
        ),
        relations=tuple(
            edge for edge in subgraph.relations if not untrusted & {edge.source_id, edge.target_id}
        ),
    )


def _in_reference_words(memory: "Memory", error: NotFound) -> NotFound:
    """Return a missing entity's error in the reference server's words; any other unchanged."""
    if error.notice.code != "unknown_entity":
        return error
    name = error.notice.subject
    text = f"Entity with name {name} not found"
    if note := _elsewhere(memory, [name]):
        text += f". {note}"
    return NotFound(text, code="unknown_entity", subject=name)


def create_entities(call: Call) -> Reply:
    """Create the entities that do not exist yet, and return them.

    Raises:
        UsageError: One has no name; nothing is created.
    """
    for place, row in enumerate(call.arguments["entities"]):
        if not row["name"].strip():
            raise UsageError(
                f"entities[{place}].name is empty, so nothing was created. Give it a name.",
                code="empty_name",
            )
    made = call.memory.graph.create(
        [
            NewEntity(row["name"], row["entityType"], tuple(row["observations"]))
            for row in call.arguments["entities"]
        ],
        merge=False,
        origin="agent",
        session=call.session,
        allow_secret=call.arguments["allow_secret"],
    )
    rows = [
        {
            **entity.dict(),
            **_lowered(lowered_to("trusted", [fact.trust for fact in entity.observations])),
        }
        for entity in made
    ]
    return Reply(_json(rows), {"entities": rows})


def _lowered(trust: Trust | None) -> dict[str, Any]:
    """Return the field for facts that got a lower trust than was asked for, if any did."""
    return {} if trust is None else {"lowered": trust}


def create_relations(call: Call) -> Reply:
    """Create relations, and return the new ones."""
    relations = _relations(call.arguments["relations"])
    allow_secret = call.arguments["allow_secret"]
    try:
        fresh = call.memory.graph.relate(relations, origin="agent", allow_secret=allow_secret)
    except NotFound as error:
        raise _in_reference_words(call.memory, error) from error
    rows = [reference_relation(relation) for relation in fresh]
    return Reply(_json(rows), {"relations": rows})


def _relations(rows: Sequence[dict[str, Any]]) -> list[Relation]:
    return [Relation(row["from"], row["to"], row["relationType"]) for row in rows]


def add_observations(call: Call) -> Reply:
    """Add facts to entities, all or none; return what is new."""
    additions = [(row["entityName"], row["contents"]) for row in call.arguments["observations"]]
    try:
        added = call.memory.graph.observe(
            additions,
            origin="agent",
            session=call.session,
            allow_secret=call.arguments["allow_secret"],
        )
    except NotFound as error:
        raise _in_reference_words(call.memory, error) from error
    rows = [
        {
            "entityName": row.name,
            "addedObservations": list(row.added),
            **_lowered(row.lowered),
        }
        for row in added
    ]
    return Reply(_json(rows), {"results": rows})


def delete_entities(call: Call) -> Reply:
    """Delete entities with their observations and relations."""
    names = call.arguments["entityNames"]
    missing = set(call.memory.graph.delete(names).missing)
    if not missing:
        return _done("Entities deleted successfully")
    absent = [name for name in names if composed(name) in missing]
    gone = len(names) - len(absent)
    return _done(f"Deleted {gone} of {len(names)} entities. Not found: {named(absent)}")


def delete_observations(call: Call) -> Reply:
    """Delete facts by their text."""
    deletions = [(row["entityName"], row["observations"]) for row in call.arguments["deletions"]]
    forgotten = call.memory.graph.forget(deletions)
    asked = sum(len(texts) for _, texts in deletions)
    if forgotten.deleted == asked:
        return _done("Observations deleted successfully")
    missing = f" Entities not found: {named(forgotten.missing)}" if forgotten.missing else ""
    return _done(f"Deleted {forgotten.deleted} of {asked} observations.{missing}")


def delete_relations(call: Call) -> Reply:
    """Delete relations."""
    relations = _relations(call.arguments["relations"])
    gone = call.memory.graph.unrelate(relations)
    if gone == len(relations):
        return _done("Relations deleted successfully")
    return _done(f"Deleted {gone} of {len(relations)} relations. The rest matched nothing.")


def _done(message: str) -> Reply:
    return Reply(message, {"success": True, "message": message})


def read_graph(call: Call) -> Reply:
    """Return the whole graph."""
    return _reply(call, _read(call.memory, lambda graph: graph.read()), reads=False)


def search_nodes(call: Call) -> Reply:
    """Return the entities that contain a text."""
    query = call.arguments["query"]
    subgraph = _read(call.memory, lambda graph: graph.search(query))
    # Untrusted observations have been removed by now, and their matches with them.
    matching = [entity for entity in subgraph.entities if entity.contains(query)]
    ids = {entity.id for entity in matching}
    edges = (edge for edge in subgraph.relations if ids & {edge.source_id, edge.target_id})
    return _reply(call, Subgraph(tuple(matching), tuple(edges)), words=query)


def open_nodes(call: Call) -> Reply:
    """Return entities by name, in the order of the graph, as the reference server does."""
    names = call.arguments["names"]
    opened = _read(call.memory, lambda graph: graph.open(names, as_created=True))
    return _reply(call, opened, names=names)


def search_semantic(call: Call) -> Reply:
    """Return entities ranked by meaning, words and use."""
    data: dict[str, Any] = {"results": []}
    try:
        graph = call.memory.graph
    except NotFound:
        return Reply(_json(data), data)
    ranked = graph.search_semantic(
        call.arguments["query"], call.arguments["limit"], trusts=("trusted",)
    )
    data = _for_reader(call, {"results": list(ranked)}, call.arguments["query"])
    if ranked.degraded:
        data["degraded"] = [call.worded(reason) for reason in ranked.degraded]
    if not ranked and (note := _elsewhere(call.memory)):
        data["note"] = note
    return Reply(_json(data), data)


_ENTITY = object_of(
    "name",
    "entityType",
    "observations",
    name=string("the entity's name"),
    entityType=string("its type: person, project, …"),
    observations=strings("facts about it, one each"),
)
_RELATION: Schema = {
    "type": "object",
    "properties": {
        "from": string("name of the entity where it starts"),
        "to": string("name of the entity where it ends"),
        "relationType": string("how they are related, in active voice: works_at"),
    },
    "required": ["from", "to", "relationType"],
}
_GRAPH = object_of(
    "entities", "relations", entities=array_of(_ENTITY), relations=array_of(_RELATION)
)
# The reference server has no such argument; a refusal names it.
_INSISTING = {"allow_secret": boolean()}
_MESSAGE = object_of("success", "message", success={"type": "boolean"}, message=string())

GRAPH_TOOLS = (
    Tool(
        "create_entities",
        "Create new entities in the knowledge graph. Entities that exist are not changed: add to "
        "those with add_observations.",
        object_of("entities", entities=array_of(_ENTITY), **_INSISTING),
        create_entities,
        output=object_of("entities", entities=array_of(_ENTITY)),
        title="Create Entities",
        writes=True,
        idempotent=False,
        strict=False,
    ),
    Tool(
        "create_relations",
        "Create relations between entities. Both must exist: create them with create_entities.",
        object_of("relations", relations=array_of(_RELATION), **_INSISTING),
        create_relations,
        output=object_of("relations", relations=array_of(_RELATION)),
        title="Create Relations",
        writes=True,
        idempotent=False,
        strict=False,
    ),
    Tool(
        "add_observations",
        "Add facts to existing entities. Known facts are left out.",
        object_of(
            "observations",
            observations=array_of(
                object_of(
                    "entityName",
                    "contents",
                    entityName=string("which entity"),
                    contents=strings("the facts, one each"),
                )
            ),
            **_INSISTING,
        ),
        add_observations,
        output=object_of(
            "results",
            results=array_of(
                object_of(
                    "entityName",
                    "addedObservations",
                    entityName=string(),
                    addedObservations=strings(),
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
        object_of("entityNames", entityNames=strings("names of the entities")),
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
        object_of(
            "deletions",
            deletions=array_of(
                object_of(
                    "entityName",
                    "observations",
                    entityName=string("which entity"),
                    observations=strings("the facts to delete, word for word"),
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
        "Delete relations between entities.",
        object_of("relations", relations=array_of(_RELATION, "the relations to delete")),
        delete_relations,
        output=_MESSAGE,
        title="Delete Relations",
        writes=True,
        destroys=True,
        strict=False,
    ),
    Tool(
        "read_graph",
        "Read the whole knowledge graph. A large graph costs many tokens: prefer search_nodes.",
        object_of(),
        read_graph,
        output=_GRAPH,
        title="Read Graph",
        strict=False,
    ),
    Tool(
        "search_nodes",
        "Find entities whose name, type or observations contain a text.",
        object_of("query", query=string("the text to find", maxLength=MAX_QUERY_CHARS)),
        search_nodes,
        output=_GRAPH,
        title="Search Nodes",
        strict=False,
    ),
    Tool(
        "open_nodes",
        "Read entities by name, with their relations.",
        object_of("names", names=strings("names of the entities")),
        open_nodes,
        output=_GRAPH,
        title="Open Nodes",
        strict=False,
    ),
    Tool(
        "search_semantic",
        "Find entities by meaning, words and use. Prefer it to search_nodes when you do not know "
        "the exact words.",
        object_of(
            "query",
            query=string("words or a question"),
            limit=integer(minimum=1, maximum=MAX_SEMANTIC_LIMIT, default=SEMANTIC_LIMIT),
        ),
        search_semantic,
        output=object_of("results", results=array_of({"type": "object"})),
        title="Search Semantic",
        strict=False,
    ),
)
