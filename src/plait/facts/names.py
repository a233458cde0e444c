"""What a name refers to: an id, an id prefix, a key, or a passage of a document.

A name is looked up in this project and among personal documents. A key, and a passage named by
it, is only a name: the project's hides the personal one. An id is unique and cannot be guessed, so
whoever has one may read what it names wherever that is; nothing outside is changed by any name.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from plait.errors import Advice, AmbiguousId, NotFound, advise, quotable, quoted
from plait.types import Document, Passage
from plait.types.ids import ENTITY_SOURCE, ID_PREFIX, ITEM_FIELD, SCOPE_PREFIX, is_item_key

# How many matching documents an error lists.
LISTED = 8
# How many folders tell two files apart. A path out of an import may have a million.
MOST_FOLDERS = 12
# The word for no project, as every interface takes it.
PERSONAL = "personal"
# The advice that names a user's scope.
IN_SCOPE = "in_scope"
# Characters of a file's name in a mark.
MARK_CHARS = 24
_NO_BRACKETS = str.maketrans("()[]", "    ")

Named = tuple[Document, Passage | None]
# Why the beginning of an id is no name.
TOO_SHORT = f": an id needs at least {ID_PREFIX} characters"
# What a name is for. To read, an id reaches into other projects; to mark a place in this project's
# timeline or to change something, no name does, unless everything is asked for.
Reach = Literal["read", "anchor", "change", "everything"]


def is_item(document: Document) -> bool:
    """Tell whether a note is an item of a program's store, by its key and where its value is.

    >>> value = {"langgraph_value": "{}"}
    >>> is_item(Document(key="langgraph/=a", metadata=value)), is_item(Document(metadata=value))
    (True, False)
    """
    is_named = document.key is not None and is_item_key(document.key)
    return document.kind == "note" and is_named and ITEM_FIELD in document.metadata


def choose(name: str, candidates: Sequence[Named], project: str | None) -> Named | None:
    """Return the one document that a name refers to here, and the passage if it names one.

    Args:
        name: The name as given.
        candidates: What `Store.find` returns for it in this project and among personal documents.
        project: The current project.

    Raises:
        AmbiguousId: Several documents have it; the message lists them.
    """
    near = list(candidates)
    if any(not is_by_id(name, pair) for pair in candidates):
        near = [pair for pair in candidates if pair[0].project == project]
        near = near or [pair for pair in candidates if pair[0].project is None]
    return _only_one(name, near) if near else None


def choose_elsewhere(name: str, candidates: Sequence[Named], reach: Reach) -> Named:
    """Return the one document of another project that a name refers to; nothing here has it.

    Args:
        name: The name as given.
        candidates: What `Store.find` returns for it in all projects.
        reach: What the name is for.

    Raises:
        NotFound: Nothing has that name, or only something out of reach.
        AmbiguousId: Several documents have it; the message lists them.
    """
    if not candidates:
        raise unknown_name(name)
    within = [
        pair
        for pair in candidates
        if reach == "everything" or (reach == "read" and is_by_id(name, pair))
    ]
    if not within:
        raise out_of_reach(name, candidates[0][0], reach)
    return _only_one(name, within)


def is_by_id(name: str, named: Named) -> bool:
    """Tell whether a name refers to a document by an id or its beginning, rather than by its key.

    >>> is_by_id("aabbcc", (Document(id="aabbccddeeffg", key="k"), None))
    True
    """
    document, passage = named
    if name == document.key:
        return False
    if passage is not None and name == f"{document.id}-{passage.ordinal}":
        return True
    own = document.id if passage is None else passage.id
    return len(name) >= ID_PREFIX and own.startswith(name.lower())


def where_it_is(document: Document, act: str) -> Advice:
    """Return the advice to do something in a document's project; no project is a user's scope."""
    project = document.project or PERSONAL
    if project.startswith(SCOPE_PREFIX):
        return advise(IN_SCOPE, scope=project.removeprefix(SCOPE_PREFIX))
    return advise(act, project=project)


def out_of_reach(name: str, document: Document, reach: Reach) -> NotFound:
    """Return the error for a name that only another project has."""
    advice = where_it_is(document, "in_project" if reach == "read" else "act_in_project")
    # The name of a project is in the advice: whoever chose it must not speak to a model.
    other = "another project" if document.project else f"'{PERSONAL}'"
    if advice.act == IN_SCOPE:
        other = "a user's scope"
    elif reach == "anchor":
        advice = advise("all_projects")
    return NotFound(
        f"Nothing in this project is named '{name}', but {other} has one.",
        code="other_project",
        subject=name,
        advice=advice,
    )


def _only_one(name: str, near: Sequence[Named]) -> Named:
    if len(near) > 1:
        shown = [(document, (passage or document).id) for document, passage in near[:LISTED]]
        listed = ", ".join(f"{id_} ({document.kind})" for document, id_ in shown)
        # Apart from the sentence: whoever named the files must not speak to a model.
        files = [f"{id_} is {quoted(row.path)}" for row, id_ in shown if row.path is not None]
        raise AmbiguousId(
            f"'{name}' matches {len(near)} entries: {listed}.",
            subject=name,
            advice=advise("use_id_of_file", files=", ".join(files)) if files else advise("use_id"),
        )
    return near[0]


def changed_mark(paths: Sequence[str]) -> str:
    """Return the words beside a message whose files were written since; empty without any.

    >>> changed_mark(["src/cart.py"]), changed_mark(["a.py", "b.py", "c.py"]), changed_mark([])
    ('changed since: cart.py', 'changed since: a.py +2', '')
    """
    if not paths:
        return ""
    more = f" +{len(paths) - 1}" if len(paths) > 1 else ""
    # A bracket would end the remark that it stands in.
    name = quotable(paths[0].rpartition("/")[2]).translate(_NO_BRACKETS).strip()
    short = name if len(name) <= MARK_CHARS else f"{name[: MARK_CHARS - 1]}…"
    return f"changed since: {short}{more}"


def distinct_names(documents: Iterable[Document]) -> dict[str, str]:
    """Return the name to show for each id: files of one name get as much of their path as tells.

    >>> files = [Document(id=top, key="a.md", path=f"/n/{top}/a.md") for top in ("x", "y")]
    >>> distinct_names([*files, Document(id="z", key="b.md", path="/n/x/b.md")])
    {'x': 'x/a.md', 'y': 'y/a.md', 'z': 'b.md'}
    """
    longer = {document.id: shown_names(document) for document in documents}
    names = {id_: forms.pop(0) for id_, forms in longer.items()}
    while True:
        uses = Counter(names.values())
        clashing = [id_ for id_, name in names.items() if uses[name] > 1 and longer[id_]]
        if not clashing:
            return names
        names |= {id_: longer[id_].pop(0) for id_ in clashing}


def shown_names(document: Document) -> list[str]:
    """Return the names that a document may be shown by: its key, then more and more of its path."""
    parts = (document.path or "").replace("\\", "/").split("/")
    shortest = document.doc_id.count("/") + 2
    longest = min(len(parts), shortest + MOST_FOLDERS)
    return [document.doc_id, *("/".join(parts[-count:]) for count in range(shortest, longest + 1))]


def unknown_name(name: str) -> NotFound:
    """Return the error for an unknown name.

    >>> unknown_name("ajt4").notice.text, unknown_name("ajt").notice.text
    ("Nothing is named 'ajt4': an id needs at least 6 characters.", "Nothing is named 'ajt'.")
    """
    # A word is more likely a key that was misspelt.
    is_short = len(name) < ID_PREFIX and name.isascii() and name.isalnum() and not name.isalpha()
    return NotFound(
        f"Nothing is named '{name}'{TOO_SHORT if is_short else ''}.",
        code="unknown_name",
        subject=name,
        advice=advise("search"),
    )


def entity_named(name: str, project: str | None) -> Document:
    """Return a document with the name of an entity, to look the stored one up by."""
    return Document(key=name, kind="entity", source=ENTITY_SOURCE, project=project)


def unknown_entity(name: str, advice: Advice | None = None) -> NotFound:
    """Return the error for an entity that does not exist; by default the advice is to create it."""
    return NotFound(
        f"There is no entity named '{name}'.",
        code="unknown_entity",
        subject=name,
        advice=advice or advise("create_entity", name=name),
    )
