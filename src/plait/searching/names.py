"""Look up what names refer to; the rules are in `plait.facts.names`."""

from collections.abc import Sequence

from plait.errors import AmbiguousId, NotFound
from plait.facts.names import Named, choose
from plait.protocols import Store
from plait.text import clean
from plait.types import TRUSTS, Filter


def resolve(store: Store, name: str, project: str | None, *, all_projects: bool = False) -> Named:
    """Return the one document that a name refers to, and the passage if it names one.

    Raises:
        NotFound: Nothing has that name.
        AmbiguousId: Several documents have it; the message lists them.
    """
    candidates = store.find(clean(name), Filter(trusts=TRUSTS, all_versions=True))
    return choose(name, candidates, project, all_projects=all_projects)


def load_named(
    store: Store, names: Sequence[str], project: str | None
) -> tuple[list[Named], dict[str, NotFound | AmbiguousId]]:
    """Read whole documents and named passages at once, and why the other names failed."""
    resolved: list[tuple[str, Named]] = []
    troubles: dict[str, NotFound | AmbiguousId] = {}
    for name in names:
        try:
            resolved.append((name, resolve(store, name, project)))
        except (NotFound, AmbiguousId) as trouble:
            troubles[name] = trouble
    whole = {row.id: row for row in store.load([row.id for _, (row, _) in resolved])}
    named: list[Named] = []
    for name, (row, passage) in resolved:
        if row.id in whole:
            named.append((whole[row.id], passage))
        else:  # another process deleted it between the two reads
            troubles[name] = NotFound(
                f"Nothing is named '{name}' any more: it was deleted just now.",
                code="unknown_name",
                subject=name,
            )
    return named, troubles
