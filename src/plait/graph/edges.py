"""Add and remove edges between entities; `plait.facts.relations` decides."""

from collections.abc import Sequence

from plait.errors import UsageError, quoted
from plait.facts import relations as rules
from plait.facts.credentials import document_secrets, refuse_secrets
from plait.facts.names import entity_named, unknown_entity
from plait.protocols import Store, Transaction
from plait.text.normal_form import composed, spellings
from plait.types import Document
from plait.types.relations import Relation
from plait.writing.copies import copying_relations


def relate(store: Store, relations: Sequence[Relation], project: str | None) -> list[bool]:
    """Add edges in one project, all in one transaction; return whether each one is new.

    Raises:
        NotFound: An end does not exist; nothing is written.
    """
    fresh = []
    with store.transaction() as transaction:
        ids: dict[str, str | None] = {}
        for relation in relations:
            edge = _with_ends(transaction, relation, project, ids)
            for name, id_ in ((edge.source, edge.source_id), (edge.target, edge.target_id)):
                if not id_:
                    raise unknown_entity(name)
            known = transaction.edges(edge.source_id, edge.target_id, edge.type)
            merged, is_new = rules.merge(edge, known, transaction.now)
            if merged is not None:
                transaction.put_edge(merged)
            fresh.append(is_new)
    return fresh


def refuse_copies(store: Store, relations: Sequence[Relation], project: str | None) -> None:
    """Refuse relations that say what only untrusted or hidden text says: they cannot be marked.

    Raises:
        UsageError: The type or context of one is such a copy ("untrusted_relation",
            "hidden_relation").
    """
    if hasattr(store, "hidden"):
        from plait.writing.confining import refuse_hidden

        refuse_hidden(store, relations, project)
    for edge, is_copy in zip(relations, copying_relations(store, relations), strict=True):
        if is_copy:
            raise UsageError(
                f"The relation from {quoted(edge.source)} to {quoted(edge.target)} repeats "
                "untrusted text. Nothing was stored; describe it in your own words.",
                code="untrusted_relation",
                subject=edge.source,
            )


def refuse_held_secrets(relations: Sequence[Relation]) -> None:
    """Refuse relations whose type or context holds a secret.

    Raises:
        UsageError: One does ("holds_secret").
    """
    texts = [Document(metadata={edge.type: edge.context or ""}) for edge in relations]
    refuse_secrets([*dict.fromkeys(kind for text in texts for kind in document_secrets(text))])


def unrelate(
    store: Store, relations: Sequence[Relation], project: str | None, *, end: int | None = None
) -> int:
    """Remove current edges, or end them at a moment; return how many there were."""
    count = 0
    with store.transaction() as transaction:
        ids: dict[str, str | None] = {}
        for relation in relations:
            edge = _with_ends(transaction, relation, project, ids)
            ends = edge.source_id, edge.target_id
            known = [row for form in spellings(edge.type) for row in transaction.edges(*ends, form)]
            for current in rules.current(known, transaction.now):
                if end is None:
                    transaction.drop_edge(current)
                else:
                    transaction.put_edge(rules.ended(current, end))
                count += 1
    return count


def _with_ends(
    transaction: Transaction, relation: Relation, project: str | None, ids: dict[str, str | None]
) -> Relation:
    """Return an edge with the ids of its ends; empty for an entity that does not exist."""
    for name in (relation.source, relation.target):
        if name not in ids:
            homes = [
                transaction.known(entity_named(name, home))
                for home in dict.fromkeys((project, None))
            ]
            ids[name] = next((home.id for home in homes if home is not None), None)
    return relation._replace(
        source_id=ids[relation.source] or "",
        target_id=ids[relation.target] or "",
        type=composed(relation.type),
    )
