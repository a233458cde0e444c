"""What a name stands for: an id, the beginning of one, a key, or a place in a document.

An id is unique, wherever its document lives. A key is only a name: it means the document of this
project, else the personal one, and never reaches into another project by itself.
"""

from collections.abc import Sequence

from plait import text as words
from plait.errors import AmbiguousId, NotFound
from plait.protocols import Store
from plait.types import TRUSTS, Document, Filter, Passage

# Characters of an id that may stand for it; stores hold to the same.
LEAST_OF_AN_ID = 6
# Of many that fit, so many are listed.
LISTED = 8
# Characters of a path that tell it from another one: its end.
PATH_SHOWN = 60
Named = tuple[Document, Passage | None]


def load_known(
    store: Store, names: Sequence[str], project: str | None
) -> tuple[list[Named], dict[str, NotFound | AmbiguousId]]:
    """Whole documents and named passages, read in one query; beside them, which names fit nothing.

    The latter each with the error that says why.
    """
    named: list[tuple[str, Named]] = []
    troubles: dict[str, NotFound | AmbiguousId] = {}
    for name in names:
        try:
            named.append((name, resolve(store, name, project)))
        except (NotFound, AmbiguousId) as trouble:
            troubles[name] = trouble
    whole = {row.id: row for row in store.load([row.id for _, (row, _) in named])}
    found: list[Named] = []
    for name, (row, passage) in named:
        if row.id in whole:
            found.append((whole[row.id], passage))
        else:  # another process was quicker between the two reads
            troubles[name] = NotFound(
                f"Nothing is named '{name}' any more: it was deleted just now."
            )
    return found, troubles


def resolve(
    store: Store, name: str, project: str | None, *, all_projects: bool = False
) -> tuple[Document, Passage | None]:
    """The one document that a name stands for, and the passage if it names one.

    Raises:
        NotFound: Nothing has that name.
        AmbiguousId: Several have it; the message lists them.
    """
    found = store.find(words.clean(name), Filter(trusts=TRUSTS, all_versions=True))
    near = found
    if not all_projects and any(name == document.key for document, _ in found):
        near = [pair for pair in found if pair[0].project == project]
        near = near or [pair for pair in found if pair[0].project is None]
    if len(near) > 1:
        listed = ", ".join(
            f"{(passage or document).id} ({_where_from(document)})"
            for document, passage in near[:LISTED]
        )
        raise AmbiguousId(f"'{name}' fits {len(near)} entries: {listed}. Give an id.")
    if near:
        return near[0]
    if found:
        raise NotFound(
            f"Nothing is named '{name}' here; {found[0][0].project} has one. "
            f"Add: --project {found[0][0].project}"
        )
    raise NotFound(nothing_named(name))


def nothing_named(name: str) -> str:
    """What to say of a name that nothing has.

    >>> nothing_named("ajt").partition(". ")[0]
    "Nothing is named 'ajt': an id needs at least 6 characters"
    """
    is_short = len(name) < LEAST_OF_AN_ID and name.isascii() and name.isalnum()
    reason = f": an id needs at least {LEAST_OF_AN_ID} characters" if is_short else ""
    return f"Nothing is named '{name}'{reason}. Look for it with: plait search WORDS"


def _where_from(document: Document) -> str:
    """The kind, of a file the path too: what is stored must not speak in the words of an error."""
    if document.path is None:
        return document.kind
    path = " ".join(document.path.split())
    return path if len(path) <= PATH_SHOWN else f"…{path[1 - PATH_SHOWN :]}"
