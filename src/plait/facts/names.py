"""What a name refers to: an id, an id prefix, a key, or a passage of a document.

An id is unique across projects. A key is only a name: it refers to the document of this
project, else to the personal one, and never to another project's.
"""

from collections.abc import Sequence

from plait.errors import AmbiguousId, NotFound, advise
from plait.types import ID_PREFIX, Document, Passage

# How many matching documents an error lists.
LISTED = 8
# How many characters of a path are shown: its end tells paths apart.
PATH_SHOWN = 60

Named = tuple[Document, Passage | None]


def choose(
    name: str, candidates: Sequence[Named], project: str | None, *, all_projects: bool = False
) -> Named:
    """Return the one document that a name refers to, and the passage if it names one.

    Args:
        name: The name as given.
        candidates: What `Store.find` returns for it.
        project: The current project.
        all_projects: Take a key of any project.

    Raises:
        NotFound: Nothing has that name.
        AmbiguousId: Several documents have it; the message lists them.
    """
    near = list(candidates)
    if not all_projects and any(name == document.key for document, _ in candidates):
        near = [pair for pair in candidates if pair[0].project == project]
        near = near or [pair for pair in candidates if pair[0].project is None]
    if len(near) > 1:
        listed = ", ".join(
            f"{(passage or document).id} ({_origin(document)})"
            for document, passage in near[:LISTED]
        )
        raise AmbiguousId(
            f"'{name}' matches {len(near)} entries: {listed}. Use an id.", subject=name
        )
    if near:
        return near[0]
    if candidates:
        other = candidates[0][0].project or ""
        raise NotFound(
            f"Nothing in this project is named '{name}', but {other} has one.",
            code="other_project",
            subject=name,
            advice=advise("in_project", project=other),
        )
    raise unknown_name(name)


def unknown_name(name: str) -> NotFound:
    """Return the error for an unknown name.

    >>> unknown_name("ajt").notice.text
    "Nothing is named 'ajt': an id needs at least 6 characters."
    """
    is_short = len(name) < ID_PREFIX and name.isascii() and name.isalnum()
    reason = f": an id needs at least {ID_PREFIX} characters" if is_short else ""
    return NotFound(
        f"Nothing is named '{name}'{reason}.",
        code="unknown_name",
        subject=name,
        advice=advise("search"),
    )


def _origin(document: Document) -> str:
    """Return the kind, or a file's path: an error must not repeat stored text."""
    if document.path is None:
        return document.kind
    path = " ".join(document.path.split())
    return path if len(path) <= PATH_SHOWN else f"…{path[1 - PATH_SHOWN :]}"
