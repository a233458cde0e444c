"""entity: show and edit entities, their observations and their relations."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from typing import Any

from plait.cli import NOTHING_FOUND, Output, as_integer, to_run
from plait.cli.search import open_to_read
from plait.cli.shared import (
    open_existing,
    open_to_write,
    or_empty,
    suggest_page,
    vectors_missing,
    warn_if_empty,
    warn_of_copies,
)
from plait.cli.store import VISIBILITY_HELP
from plait.cli.suggestions import missing_entity, same_but_for_case, similar_entity
from plait.errors import NotFound, UsageError, shell_word
from plait.graph import DIRECTIONS, Entity, Subgraph
from plait.graph.values import Added, Created
from plait.memory import Memory
from plait.present.graph import full_relation_dict, relation_text, subgraph_dict, subgraph_text
from plait.present.json import deleted_dict
from plait.present.text import as_lines, counted, lowered_remark, secret_remark
from plait.text.normal_form import composed
from plait.times import as_moment
from plait.types import ORIGINS, TRUSTS
from plait.types.relations import Relation
from plait.types.reports import Deleted, NewEntity
from plait.types.visibility import VISIBILITIES

ACTIONS = ("show", "list", "add", "observe", "relate", "unrelate", "delete")
# The actions that take an option, and its value if it was not given. Other actions refuse it,
# because ignoring it would hide a mistake.
_OPTIONS: dict[str, tuple[tuple[str, ...], object]] = {
    "type": (("add", "observe"), None),
    "context": (("relate",), None),
    "since": (("relate",), None),
    "until": (("relate", "unrelate"), None),
    "depth": (("show",), None),
    "direction": (("show",), None),
    "delete_observation": (("observe",), []),
    "purge": (("delete",), False),
    "origin": (("add", "observe"), None),
    "trust": (("add", "observe"), None),
    "allow_secret": (("add", "observe"), False),
    "visibility": (("add", "observe"), None),
    "limit": (("list",), None),
    "cursor": (("list",), None),
}
_RELATION_WORDS = 3  # FROM TYPE TO
_USAGE = {
    "add": "add NAME --type TYPE [TEXT …]",
    "observe": "observe NAME TEXT …",
    "relate": "relate FROM TYPE TO",
    "unrelate": "unrelate FROM TYPE TO",
    "show": "show NAME …",
    "delete": "delete NAME …",
}


def entity_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait entity``."""
    parser.add_argument(
        "action",
        choices=ACTIONS,
        metavar="ACTION",
        help="show: print entities; list: print all entities; add: create an entity, with "
        "observations (facts) about it; observe: add observations; relate, unrelate: add or "
        "remove a relation (FROM TYPE TO); delete: delete entities",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        default=[],  # without it, argparse calls a missing name an error, and list needs none
        help="names; add and observe take a name and then texts",
    )
    parser.add_argument(
        "--type", metavar="X", help="add: type of the entity; observe: type of the observations"
    )
    parser.add_argument(
        "--context", metavar="TEXT", help="relate: a comment, for example the reason"
    )
    parser.add_argument("--since", metavar="TIME", help="relate: when the relation starts")
    parser.add_argument("--until", metavar="TIME", help="relate, unrelate: when the relation ends")
    parser.add_argument(
        "--depth",
        type=as_integer,
        metavar="N",
        help="show: also entities that are up to N relations away, 1 to 10",
    )
    parser.add_argument(
        "--direction",
        choices=DIRECTIONS,
        help="show: which relations --depth follows (both)",
    )
    parser.add_argument(
        "--delete-observation",
        action="append",
        default=[],
        metavar="TEXT",
        help="observe: delete this observation, given by its text or id",
    )
    parser.add_argument(
        "--purge",
        action="store_true",
        help="delete: delete permanently: no undo, no trace in the memory",
    )
    parser.add_argument(
        "--origin",
        choices=ORIGINS,
        metavar="X",
        help="add, observe: where the observations come from (user)",
    )
    parser.add_argument(
        "--trust",
        choices=TRUSTS,
        metavar="X",
        help="add, observe: how far to trust them (trusted)",
    )
    parser.add_argument(
        "--allow-secret",
        action="store_true",
        help="add, observe: with --origin agent or tool, store keys, tokens and passwords too",
    )
    parser.add_argument(
        "--visibility",
        choices=VISIBILITIES,
        metavar="X",
        help=f"add, observe: {VISIBILITY_HELP}",
    )
    parser.add_argument(
        "--limit", type=as_integer, metavar="N", help="list: maximum number of entities"
    )
    parser.add_argument(
        "--cursor", metavar="ID", help="list: cursor of the next page, from the previous output"
    )


def entity_run(arguments: Namespace, out: Output) -> int:
    """Show or edit entities."""
    action = arguments.action
    is_relation = action in ("relate", "unrelate")
    is_wrong = len(arguments.names) != _RELATION_WORDS if is_relation else not arguments.names
    if action != "list" and is_wrong:
        raise UsageError(f"Usage: plait entity {_USAGE[action]}")
    _refuse_options_of_others(arguments)
    if action == "observe" and not (arguments.names[1:] or arguments.delete_observation):
        raise UsageError(f"Usage: plait entity {_USAGE[action]}")
    named = 1 if action in ("add", "observe") else len(arguments.names)
    arguments.names[:named] = map(composed, arguments.names[:named])
    if action == "show":
        return _show(arguments, out)
    if action == "list":
        return _list(arguments, out)
    if action in ("delete", "unrelate"):
        nothing = {"deleted": [], "not_found": arguments.names, **deleted_dict(Deleted())}
        empty = nothing if action == "delete" else {"deleted": 0}
        with open_existing(out) as memory, or_empty(out, empty):
            return (_delete if action == "delete" else _unrelate)(arguments, memory, out)
    with open_to_write(out) as memory:
        if action == "relate":
            return _relate(arguments, memory, out)
        with memory.team.writing(arguments.visibility):
            return _add(arguments, memory, out)


def _refuse_options_of_others(arguments: Namespace) -> None:
    for name, (actions, unset) in _OPTIONS.items():
        if arguments.action not in actions and getattr(arguments, name) != unset:
            raise UsageError(
                f"--{name.replace('_', '-')} works with entity {' and '.join(actions)}, "
                f"not with {arguments.action}."
            )
    if arguments.direction is not None and arguments.depth is None:
        raise UsageError("--direction needs --depth. Give both.")


def _show(arguments: Namespace, out: Output) -> int:
    with open_to_read(out) as memory, or_empty(out, subgraph_dict(Subgraph())):
        graph = memory.graph.open(arguments.names)
        known = {entity.name for entity in graph.entities}
        missing = [name for name in arguments.names if name not in known]
        if arguments.depth is not None:
            direction: Any = arguments.direction or "both"
            graph = _union(
                memory.graph.neighbours(name, depth=arguments.depth, direction=direction)
                for name in dict.fromkeys(arguments.names)
                if name in known
            )
        if graph.entities:
            memory.graph.count_as_read([entity.id for entity in graph.entities])
        notices = [] if memory.is_off else [missing_entity(memory, name) for name in missing]
    out.result(subgraph_dict(graph), subgraph_text(graph))
    for notice in notices:
        out.error(notice)
    return NOTHING_FOUND if missing else 0


def _union(graphs: Iterable[Subgraph]) -> Subgraph:
    """Merge several graphs; what they share appears once."""
    entities: dict[str, Entity] = {}
    relations: dict[Relation, None] = {}
    for graph in graphs:
        for entity in graph.entities:
            entities.setdefault(entity.id, entity)
        relations.update(dict.fromkeys(graph.relations))
    return Subgraph(tuple(entities.values()), tuple(relations))


def _list(arguments: Namespace, out: Output) -> int:
    with open_to_read(out) as memory:
        try:
            graph = memory.graph.read(limit=arguments.limit, after=arguments.cursor)
        except NotFound:
            if arguments.cursor is not None:
                raise
            graph = Subgraph()
            warn_if_empty(memory, out)
    lines = [
        f"{entity.name}  ({entity.type}, {counted(len(entity.contents), 'observation')})"
        for entity in graph.entities
    ]
    out.result({**subgraph_dict(graph), "next": graph.next}, as_lines(lines))
    if graph.next is not None:
        suggest_page(out, graph.next, "more entities")
    if not graph.entities:
        if memory.is_there:
            out.warn(to_run("there are no entities yet. Start with: plait entity add NAME"))
        return NOTHING_FOUND
    return 0


def _add(arguments: Namespace, memory: Memory, out: Output) -> int:
    """Run ``add`` and ``observe``."""
    name, *texts = arguments.names
    code = 0
    provenance: dict[str, Any] = {
        "origin": arguments.origin or "user",
        "trust": arguments.trust or "trusted",
        "allow_secret": arguments.allow_secret,
    }
    added: Added | Created | None = None
    if arguments.action == "add":
        similar = same_but_for_case(memory, name)
        added = memory.graph.create([NewEntity(name, arguments.type, tuple(texts))], **provenance)
        if similar is not None:
            out.warn(similar_entity(name, similar))
    elif arguments.delete_observation:
        code = _delete_observations(memory, name, arguments.delete_observation, out)
    if arguments.action == "observe" and texts:
        [added] = memory.graph.observe([(name, texts)], type=arguments.type, **provenance)
        # By number: the text itself may hold a secret, and stderr goes into logs.
        for text in added.duplicates:
            out.warn(f"already stored: {_ordinal(texts, text)}")
        for text in added.recalled:
            reason = "it was recalled from this memory"
            out.warn(f"not stored, because {reason}: {_ordinal(texts, text)}")
    graph = memory.graph.open([name])
    out.result(subgraph_dict(graph), subgraph_text(graph))
    if added is not None:
        out.warn_all(vectors_missing(added.trouble))
        if added.lowered:
            out.warn(lowered_remark(added.lowered))
        if added.secret:
            out.warn(secret_remark(added.secret))
    return code


def _ordinal(texts: Sequence[str], text: str) -> str:
    """Return which of the given texts this one is."""
    place = texts.index(text) + 1 if text in texts else 1
    return f"text {place} of {len(texts)}"


def _delete_observations(memory: Memory, name: str, texts: list[str], out: Output) -> int:
    """Delete observations and return the exit code."""
    forgotten = memory.graph.forget([(name, texts)])
    if memory.is_off:
        return 0
    if forgotten.missing:
        out.error(missing_entity(memory, name))
    elif forgotten.deleted < len(set(texts)):
        word = shell_word(name, "NAME")
        see = to_run("See: plait entity show")
        out.error(f"Some of these observations do not exist. {see} {word}")
    else:
        return 0
    return NOTHING_FOUND


def _relate(arguments: Namespace, memory: Memory, out: Output) -> int:
    source, type_, target = arguments.names
    relation = Relation(
        source,
        target,
        type_,
        arguments.context,
        valid_from=as_moment(arguments.since, "--since"),
        valid_to=as_moment(arguments.until, "--until"),
    )
    created = memory.graph.relate([relation])
    verb = "Related" if created else "Already exists"
    value = {**full_relation_dict(relation), "new": bool(created)}
    out.result(value, "" if memory.is_off else f"{verb}: {relation_text(relation)}")
    return 0


def _unrelate(arguments: Namespace, memory: Memory, out: Output) -> int:
    source, type_, target = arguments.names
    end = as_moment(arguments.until, "--until")
    count = memory.graph.unrelate([Relation(source, target, type_)], end=end)
    verb = "Removed" if end is None else "Ended"
    out.result({"deleted": count}, f"{verb} {counted(count, 'relation')}" if count else "")
    if memory.is_off:
        return 0
    if not count:
        out.warn(f"there is no such relation: {relation_text(Relation(source, target, type_))}")
    return 0 if count else NOTHING_FOUND


def _delete(arguments: Namespace, memory: Memory, out: Output) -> int:
    erased = memory.graph.delete(arguments.names, purge=arguments.purge)
    value = {
        "deleted": list(erased.deleted),
        "not_found": list(erased.missing),
        **deleted_dict(erased.documents),
    }
    verb = "Purged" if arguments.purge else "Deleted"
    entities = counted(len(erased.deleted), "entity")
    observations = counted(len(erased.documents.ids) - len(erased.deleted), "observation")
    text = f"{verb} {entities} with {observations}: {', '.join(erased.deleted)}"
    out.result(value, as_lines([text]) if erased.deleted else "")
    for name in erased.missing:
        out.error(missing_entity(memory, name))
    warn_of_copies(erased.documents, out)
    if erased.deleted and not arguments.purge:
        out.suggest("plait delete --undo", "restore, within 30 days")
    return NOTHING_FOUND if erased.missing else 0
