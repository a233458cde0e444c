"""What a memory takes of an import: scopes of users only if asked, visibility only with members."""

from collections.abc import Sequence

from plait.errors import UsageError, quoted
from plait.exporting.jsonl import ExportedRelation, ExportHeader, ExportPart
from plait.protocols import Entry, Store
from plait.types import Document
from plait.types.ids import SCOPE_PREFIX
from plait.types.visibility import TEAM


def outside_scopes(parts: Sequence[ExportPart], store: Store | None) -> list[ExportPart]:
    """Return the parts of an import that neither lie in a user's scope nor name its ids."""
    rows = [part.document for part in parts if isinstance(part, Entry)]
    ids = {id_ for row in rows for id_ in (row.id, row.parent, row.supersedes) if id_}
    known = store.known([Document(id=id_) for id_ in ids]) if store is not None and ids else []
    guarded = {row.id for row in known if row is not None and _in_scope(row)}

    def is_outside(part: ExportPart) -> bool:
        if isinstance(part, Entry):
            named = {part.document.id, part.document.parent, part.document.supersedes}
            return not _in_scope(part.document) and named.isdisjoint(guarded)
        return not _in_scope(part)

    return [part for part in parts if is_outside(part)]


def _in_scope(part: Document | ExportPart) -> bool:
    """Tell whether something lies in a user's scope."""
    return (getattr(part, "project", None) or "").startswith(SCOPE_PREFIX)


def without_visibility(parts: Sequence[ExportPart]) -> list[ExportPart]:
    """Return the parts of an import for a memory without members, where all is everybody's.

    Raises:
        UsageError: Documents with the same key would become one ("key_taken").
    """
    names: dict[tuple[str | None, str, str], Entry] = {}
    for part in parts:
        # Entities of one name are merged.
        if not isinstance(part, Entry) or part.document.kind == "entity":
            continue
        document, key = part.document, part.document.key
        if key is None:
            continue
        twin = names.setdefault((document.project, document.source, key), part)
        if twin.visibility != part.visibility:
            raise UsageError(
                f"Different people see {twin.document.id} and {document.id}, which have the same "
                f"key {quoted(key)}; this memory has no members, and can have only "
                "one of them. Rename or delete one. Nothing was imported.",
                code="key_taken",
                subject=key,
            )
    return [
        part if isinstance(part, ExportHeader) else part._replace(visibility=None) for part in parts
    ]


def hidden_documents(parts: Sequence[ExportPart]) -> int:
    """Return how many documents of an import not all members saw where they come from."""
    return sum(isinstance(part, Entry) and is_hidden(part) for part in parts)


def is_hidden(part: Entry | ExportedRelation) -> bool:
    """Tell whether not all members saw a part of an export."""
    return part.visibility not in (None, TEAM)
