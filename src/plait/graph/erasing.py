"""Which entities a purge removes beside the existing ones: deleted ones of the same names."""

from collections.abc import Collection, Mapping

from plait.protocols import Store
from plait.text.normal_form import composed
from plait.types import Document


def with_trashed(
    store: Store, doomed: Mapping[str, Document], names: Collection[str], project: str | None
) -> dict[str, Document]:
    """Return existing entities by id, with those of the same names in the trash."""
    together = dict(doomed)
    homes = {document.key: document.project for document in doomed.values()}
    trash = [row.document for row in store.trashed(texts=False)]
    trash = [with_composed_name(document) for document in trash if document.kind == "entity"]
    for home in (project, None):
        # As for existing ones, the project's own entities hide the personal ones.
        mine = [row for row in trash if row.project == home and row.key in names]
        mine = [row for row in mine if homes.get(row.key, home) == home]
        together.update({row.id: row for row in mine})
        homes.update({row.key: home for row in mine})
    return together


def with_composed_name(entity: Document) -> Document:
    """Return an entity by the spelling that names are compared by."""
    return entity._replace(key=composed(entity.key or ""))
