"""entity: named things, what is said of them, and how they hang together."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from plait import present
from plait.cli.meant import namesake, no_entity
from plait.cli.output import Output
from plait.cli.read import NOTHING_FOUND, open_to_read, suggesting
from plait.cli.verbs import whole_number
from plait.cli.write import open_to_write
from plait.errors import NotFound, UsageError
from plait.memory import Memory
from plait.scope import moment
from plait.times import show_day, show_time
from plait.types import ORIGINS, TRUSTS, Document, NewEntity, Relation

if TYPE_CHECKING:
    from plait.graph import Entity, Subgraph

ACTS = ("show", "list", "add", "observe", "relate", "unrelate", "delete")
DIRECTIONS = ("both", "out", "in")
# Options that belong to some acts, and what they are where nobody gave them: elsewhere they would
# be left out in silence.
_OPTIONS: dict[str, tuple[tuple[str, ...], object]] = {
    "type": (("add", "observe"), None),
    "context": (("relate",), None),
    "since": (("relate",), None),
    "until": (("relate", "unrelate"), None),
    "depth": (("show",), None),
    "direction": (("show",), None),
    "forget": (("observe",), []),
    "purge": (("delete",), False),
    "origin": (("add", "observe"), None),
    "trust": (("add", "observe"), None),
    "limit": (("list",), None),
    "cursor": (("list",), None),
}
# How each act is called, for whoever calls it otherwise.
_CALLED = {
    "add": "plait entity add NAME --type TYPE [TEXT …]",
    "observe": "plait entity observe NAME TEXT …",
    "relate": "plait entity relate FROM TYPE TO",
    "unrelate": "plait entity unrelate FROM TYPE TO",
    "show": "plait entity show NAME …",
    "delete": "plait entity delete NAME …",
}


def entity_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait entity``."""
    parser.add_argument(
        "act",
        choices=ACTS,
        help="show entities by name; list all; add one with what is known of it; observe adds to "
        "a known one; relate or unrelate two of them (FROM TYPE TO); delete them",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="names, and texts after the first")
    parser.add_argument("--type", metavar="X", help="add: the entity's type; observe: the texts'")
    parser.add_argument("--context", metavar="TEXT", help="relate: why, or in what respect")
    parser.add_argument("--since", metavar="TIME", help="relate: from when on it holds")
    parser.add_argument("--until", metavar="TIME", help="relate, unrelate: when it ceases to hold")
    parser.add_argument(
        "--depth", type=whole_number, metavar="N", help="show: neighbours too, 1 to 10"
    )
    parser.add_argument(
        "--direction", choices=DIRECTIONS, help="show: which way to follow edges (both)"
    )
    parser.add_argument(
        "--delete-observation",
        dest="forget",
        action="append",
        default=[],
        metavar="TEXT",
        help="observe: take this one back, by its words or id",
    )
    parser.add_argument("--purge", action="store_true", help="delete: leave no byte, no way back")
    parser.add_argument(
        "--origin", choices=ORIGINS, metavar="X", help="add, observe: who says it (user)"
    )
    parser.add_argument(
        "--trust", choices=TRUSTS, metavar="X", help="add, observe: how far (trusted)"
    )
    parser.add_argument("--limit", type=whole_number, metavar="N", help="list: how many")
    parser.add_argument("--cursor", metavar="ID", help="list: go on where an earlier one ended")


def entity_run(arguments: Namespace, out: Output) -> int:
    """Show or change entities."""
    act = arguments.act
    exactly = 3 if act in ("relate", "unrelate") else None
    if act != "list" and (
        not arguments.names or (exactly is not None and len(arguments.names) != exactly)
    ):
        raise UsageError(f"Write it as in: {_CALLED[act]}")
    _refuse_others_options(arguments)
    if act == "show":
        return _show(arguments, out)
    if act == "list":
        return _list(arguments, out)
    if act in ("delete", "unrelate"):
        with Memory.open(config=out.config, create=False) as memory:
            return (_delete if act == "delete" else _relate)(arguments, memory, out)
    ends = arguments.names[::2] if act == "relate" else arguments.names[:1]
    with open_to_write(out) as memory, suggesting(memory, entities=ends):
        return (_relate if act == "relate" else _add)(arguments, memory, out)


def _refuse_others_options(arguments: Namespace) -> None:
    for name, (acts, unset) in _OPTIONS.items():
        if arguments.act not in acts and getattr(arguments, name) != unset:
            flag = "delete-observation" if name == "forget" else name
            raise UsageError(
                f"--{flag} goes with entity {' and '.join(acts)}, not with {arguments.act}."
            )
    if arguments.direction is not None and arguments.depth is None:
        raise UsageError("--direction says which way --depth goes. Give both.")


def _show(arguments: Namespace, out: Output) -> int:
    with open_to_read(out) as memory:
        graph = memory.graph
        found = graph.open(arguments.names)
        known = {entity.name for entity in found.entities}
        missing = [name for name in arguments.names if name not in known]
        if arguments.depth is not None:
            way: Any = arguments.direction or "both"
            found = _joined(
                graph.neighbours(name, depth=arguments.depth, direction=way)
                for name in dict.fromkeys(arguments.names)
                if name in known
            )
        refusals = [no_entity(memory, name) for name in missing]
    if found.entities:
        out.result(subgraph_dict(found), subgraph_text(found))
    for refusal in refusals:
        out.error(refusal)
    return NOTHING_FOUND if missing else 0


def _joined(parts: "Iterable[Subgraph]") -> "Subgraph":
    """Several neighbourhoods as one, what they share shown once."""
    from plait.graph import Subgraph

    entities: dict[str, Entity] = {}
    relations: dict[Relation, None] = {}
    for part in parts:
        entities.update(
            {entity.id: entity for entity in part.entities if entity.id not in entities}
        )
        relations.update(dict.fromkeys(part.relations))
    return Subgraph(tuple(entities.values()), tuple(relations))


def _list(arguments: Namespace, out: Output) -> int:
    with open_to_read(out) as memory:
        try:
            found = memory.graph.read(limit=arguments.limit, after=arguments.cursor)
        except NotFound:
            if arguments.cursor is not None:
                raise
            from plait.graph import Subgraph

            found = Subgraph()  # no memory yet: no entities either
    rows = [
        f"{entity.name}  ({entity.type}, {present.counted(len(entity.contents), 'observation')})"
        for entity in found.entities
    ]
    out.result({**subgraph_dict(found), "next": found.next}, "\n".join(rows))
    if found.next is not None:
        out.suggest(f"plait entity list --cursor {found.next}", "more of them")
    if not found.entities:
        out.warn("there are no entities yet. Start with: plait entity add NAME")
        return NOTHING_FOUND
    return 0


def _add(arguments: Namespace, memory: Memory, out: Output) -> int:
    name, *texts = arguments.names
    graph = memory.graph
    code = 0
    said: dict[str, Any] = {
        "origin": arguments.origin or "user",
        "trust": arguments.trust or "trusted",
    }
    if arguments.act == "add":
        twin = namesake(memory, name)
        graph.create([NewEntity(name, arguments.type, tuple(texts))], **said)
        if twin is not None:
            out.warn(present.beside_namesake(name, twin))
    elif arguments.forget:
        code = _forget(memory, name, arguments.forget, out)
    if arguments.act == "observe" and texts:
        [added] = graph.observe([(name, texts)], type=arguments.type, **said)
        for text in added.duplicates:
            out.warn(f"known already: {text}")
        for text in added.recalled:
            out.warn(f"came out of this memory, not stored: {text}")
    found = graph.open([name])
    out.result(subgraph_dict(found), subgraph_text(found))
    out.warn_all(memory.troubles())
    return code


def _forget(memory: Memory, name: str, texts: list[str], out: Output) -> int:
    """Take observations back; the exit code."""
    gone = memory.graph.forget([(name, texts)])
    if gone.missing:
        out.error(no_entity(memory, name))
    elif gone.deleted < len(set(texts)):
        out.error(f"Some of these observations are not there. See: plait entity show '{name}'")
    else:
        return 0
    return NOTHING_FOUND


def _relate(arguments: Namespace, memory: Memory, out: Output) -> int:
    source, type_, target = arguments.names
    until = moment(arguments.until)
    if arguments.act == "unrelate":
        edge = Relation(source, target, type_)
        count = memory.graph.unrelate([edge], end=until)
        verb = "Removed" if until is None else "Ended"
        out.result({"deleted": count}, f"{verb} {present.counted(count, 'relation')}")
        return 0 if count else NOTHING_FOUND
    edge = Relation(
        source,
        target,
        type_,
        arguments.context,
        valid_from=moment(arguments.since),
        valid_to=until,
    )
    fresh = memory.graph.relate([edge])
    verb = "Related" if fresh else "Known already"
    value = {**relation_dict(edge), "new": bool(fresh)}
    out.result(value, f"{verb}: {relation_text(edge)}")
    return 0


def _delete(arguments: Namespace, memory: Memory, out: Output) -> int:
    erased = memory.graph.delete(arguments.names, purge=arguments.purge)
    value = {
        "deleted": list(erased.deleted),
        "not_found": list(erased.missing),
        **present.deleted_dict(erased.documents),
    }
    verb = "Purged" if arguments.purge else "Deleted"
    entities = present.counted(len(erased.deleted), "entity")
    observations = present.counted(len(erased.documents.ids) - len(erased.deleted), "observation")
    text = f"{verb} {entities} with {observations}: {', '.join(erased.deleted)}"
    out.result(value, text if erased.deleted else "")
    for name in erased.missing:
        out.error(no_entity(memory, name))
    if erased.deleted and not arguments.purge:
        out.suggest("plait delete --undo", "bring it back, within 30 days")
    return NOTHING_FOUND if erased.missing else 0


def observation_dict(observation: Document) -> dict[str, Any]:
    """One observation of an entity, with what decides how far to trust it."""
    found = present.document_dict(observation)
    kept = ("id", "text", "type", "tags", "topic", "origin", "trust", "event_at", "valid_from")
    return {name: found[name] for name in kept}


def entity_dict(entity: "Entity") -> dict[str, Any]:
    """An entity, in the reference memory server's words and ours."""
    return {
        "id": entity.id,
        **entity.dict(),
        "project": entity.project,
        "facts": [observation_dict(observation) for observation in entity.observations],
    }


def relation_dict(relation: Relation) -> dict[str, Any]:
    """A relation with its context and period."""
    found: dict[str, Any] = {
        "from": relation.source,
        "to": relation.target,
        "relationType": relation.type,
        "context": relation.context,
    }
    for name in ("valid_from", "valid_to"):
        value = getattr(relation, name)
        found[name] = None if value is None else show_time(value)
    return found


def subgraph_dict(found: "Subgraph") -> dict[str, Any]:
    """Entities and the relations between them."""
    return {
        "entities": [entity_dict(entity) for entity in found.entities],
        "relations": [relation_dict(relation) for relation in found.relations],
    }


def relation_text(relation: Relation) -> str:
    """A relation in one line.

    >>> relation_text(Relation("Ana", "Deploy", "approves", "since the outage"))
    'Ana -approves-> Deploy (since the outage)'
    """
    period = [
        f"{word} {show_day(value)}"
        for word, value in (("from", relation.valid_from), ("until", relation.valid_to))
        if value is not None
    ]
    remarks = "; ".join([*([relation.context] if relation.context else []), *period])
    line = f"{relation.source} -{relation.type}-> {relation.target}"
    return f"{line} ({remarks})" if remarks else line


def subgraph_text(found: "Subgraph") -> str:
    """Entities with their observations, then the relations, for people."""
    lines = []
    for entity in found.entities:
        lines.append(f"{entity.name}  ({entity.type})")
        for observation in entity.observations:
            label = f"{observation.id[: present.SHORT_ID]}  {show_day(observation.event_at)}"
            warning = "" if observation.trust == "trusted" else f"  [{observation.trust}]"
            lines.append(f"  {label}  {' '.join(observation.text.split())}{warning}")
    if found.relations and len(found.entities) > 1:
        lines += ["", "Relations"]  # else they would seem to belong to the last one
    lines += [f"  {relation_text(relation)}" for relation in found.relations]
    return "\n".join(lines)
