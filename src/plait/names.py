"""What a name stands for: an id, the beginning of one, a key, or a place in a document.

An id is unique, wherever its document lives. A key is only a name: it means the document of this
project, else the personal one, and never reaches into another project by itself.
"""

from plait import text as words
from plait.errors import AmbiguousId, NotFound
from plait.protocols import Store
from plait.types import TRUSTS, Document, Filter, Passage

# Of many that fit, so many are listed.
LISTED = 8


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
            f"{(passage or document).id} ({document.path or document.title or document.key})"
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
    raise NotFound(f"Nothing is named '{name}'. Look for it with: plait search WORDS")
