"""Which documents a document links to, and which link to it.

Nothing is stored: a link is a part of a text, so it is read from the texts when it is asked for.
What is ingested again, renamed, deleted, restored, purged or imported is therefore never out of
step, and a link finds its target whenever that appears.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from plait.protocols import Store
from plait.text.front_matter import front_matter
from plait.text.links import Link, links_in
from plait.text.normal_form import composed
from plait.types import ALIAS_FIELDS, Document, Filter, Kind
from plait.types.relations import Relation

# The type of the relation between two documents of which one links to the other.
LINKS_TO = "links_to"
# What a link leads to: texts that a person names. Facts and messages have no names.
_LINKED: tuple[Kind, ...] = ("file", "note", "entity")
# Endings that a link may leave out.
_ENDINGS = (".md", ".markdown", ".txt", ".rst", ".org", ".html", ".htm", ".ipynb", ".docx", ".pdf")
# What stands before the last part of a link's target.
_BEFORE = ("[[", "[[ ", "/", "(", "<")
# Characters. No name is longer, and each costs a search through all names.
_MAX_NAME = 300
# How many links of a document are resolved, and how many documents are read for links to it.
MOST_RESOLVED = 200
MOST_READ = 2_000


class Links(NamedTuple):
    """The links of a document and those to it, as relations of the type ``links_to``.

    A link that leads nowhere has no ``target_id``; ``context`` is the heading that it names.
    """

    links: tuple[Relation, ...] = ()
    backlinks: tuple[Relation, ...] = ()


def links_of(store: Store, document: Document, where: Filter) -> Links:
    """Return the links of a whole document and to it, among documents that pass a filter."""
    if document.kind not in _LINKED:
        return Links()
    scope = where._replace(kinds=_LINKED)
    return Links(tuple(_outgoing(store, document, scope)), tuple(_incoming(store, document, scope)))


def known_as(store: Store, name: str, where: Filter) -> list[Document]:
    """Return the documents that a link to this name may lead to, the nearest ones only.

    By their key without its ending, else by its last part, else by an alias.
    """
    wanted = _folded(name)
    if not wanted or len(name) > _MAX_NAME:
        return []
    candidates = _candidates(store, [name], where)
    ranked = [(_closeness(document, wanted), document) for document in candidates]
    best = min((rank for rank, _ in ranked if rank), default=0)
    return [document for rank, document in ranked if best and rank == best]


def _outgoing(store: Store, document: Document, scope: Filter) -> Iterable[Relation]:
    links = links_in(document.text)[:MOST_RESOLVED]
    names = [_name_in(document, link) for link in links]
    parts = {_last_part(name) for name in names if name and len(name) <= _MAX_NAME}
    candidates = _candidates(store, sorted(parts), scope) if parts else []
    seen: set[str] = set()
    for link, name in zip(links, names, strict=True):
        target = _nearest(document, link, name, candidates)
        mark = target.id if target is not None else name
        if mark in seen or (target is not None and target.id == document.id):
            continue
        seen.add(mark)
        yield Relation(
            source=document.doc_id,
            target=name if target is None else target.doc_id,
            type=LINKS_TO,
            context=link.anchor or None,
            source_id=document.id,
            target_id="" if target is None else target.id,
        )


def _incoming(store: Store, document: Document, scope: Filter) -> Iterable[Relation]:
    names = {_last_part(name) for name in _names_of(document)}
    written = {
        f"{sign}{form}" for name in names if name for form in _written(name) for sign in _BEFORE
    }
    if not written:
        return
    mentioning = store.scan(
        scope._replace(mentions=tuple(sorted(written))), limit=MOST_READ, whole=True, damaged=[]
    )
    rivals: dict[str, list[Document]] = {}
    for source in sorted(mentioning, key=lambda row: row.doc_id):
        if source.id == document.id or source.kind == "entity":
            continue
        for link in links_in(source.text):
            name = _name_in(source, link)
            if not _may_mean(document, link, name):
                continue
            part = _last_part(name)
            if part not in rivals:
                rivals[part] = _candidates(store, [part], scope)
            target = _nearest(source, link, name, rivals[part])
            if target is not None and target.id == document.id:
                yield Relation(
                    source=source.doc_id,
                    target=document.doc_id,
                    type=LINKS_TO,
                    context=link.anchor or None,
                    source_id=source.id,
                    target_id=document.id,
                )
                break


def _candidates(store: Store, names: Sequence[str], scope: Filter) -> list[Document]:
    """Return documents of which a part of the key or an alias is one of these names."""
    parts = tuple(dict.fromkeys(form for name in names for form in _cases(_last_part(name))))
    return store.scan(scope._replace(named=parts), by_writing=True, damaged=[]) if parts else []


def _nearest(
    source: Document, link: Link, name: str, candidates: Sequence[Document]
) -> Document | None:
    """Return the document that a link leads to: by path the very one, by name the nearest one."""
    wanted = _folded(name)
    if link.is_path:
        same = [
            row
            for row in candidates
            if (row.source, row.project) == (source.source, source.project)
            if wanted in (_folded(row.key or ""), _stem(_folded(row.key or "")))
        ]
        return same[0] if same else None
    ranked = [(rank, row) for row in candidates if (rank := _closeness(row, wanted))]
    # A note beside the text is nearer than one at the top; an alias counts last.
    order = sorted(ranked, key=lambda pair: (pair[0] == 3, *_distance(source, pair[1])))
    return order[0][1] if order else None


def _may_mean(document: Document, link: Link, name: str) -> bool:
    wanted = _folded(name)
    if link.is_path:
        key = _folded(document.key or "")
        return wanted in (key, _stem(key))
    return bool(wanted) and bool(_closeness(document, wanted))


def _distance(source: Document, target: Document) -> tuple[bool, bool, bool, int, str]:
    """Order the targets of one name: this project, this source, this folder, the shortest path."""
    key = target.key or ""
    same_folder = key.rpartition("/")[0] == (source.key or "").rpartition("/")[0]
    return (
        target.project != source.project,
        target.source != source.source,
        not same_folder,
        key.count("/"),
        key,
    )


def _closeness(document: Document, wanted: str) -> int:
    """Return 1 if a name is a document's key, 2 if it is the end of it, 3 an alias; 0 if none."""
    key = _folded(document.key or "")
    for rank, matches in ((1, str.__eq__), (2, _is_end)):
        if matches(key, wanted) or matches(_stem(key), wanted):
            return rank
    # A name may have a comma in it, and commas are between the names.
    names = (f", {_folded(written)}, " for written in document.aliases)
    return 3 if any(f", {wanted}, " in written for written in names) else 0


def _is_end(key: str, wanted: str) -> bool:
    return key.endswith(f"/{wanted}")


def aliases_of(document: Document) -> list[str]:
    """Return the other names of a document: from its front matter, else from its metadata."""
    values = front_matter(document.text)[0] if document.text else {}
    aliases: list[str] = []
    for field in ALIAS_FIELDS:
        value = values.get(field)
        written = document.metadata.get(field, "")
        aliases += value if isinstance(value, list) else written.split(",")
    return [alias.strip() for alias in aliases if alias.strip()]


def _names_of(document: Document) -> list[str]:
    key = document.key or ""
    return [key, _stem(key), *aliases_of(document)]


def _name_in(source: Document, link: Link) -> str:
    """Return the name of a link's target; that of a path is the key it leads to."""
    if not link.is_path:
        return link.target
    parts = (source.key or "").split("/")[:-1]
    for part in link.target.split("/"):
        if part == "..":
            if not parts:
                return ""  # outside the folder that was ingested
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _stem(key: str) -> str:
    lower = key.lower()
    ending = next((ending for ending in _ENDINGS if lower.endswith(ending)), "")
    return key[: len(key) - len(ending)]


def _last_part(name: str) -> str:
    return _stem(name).rpartition("/")[2]


def _folded(name: str) -> str:
    return composed(name).casefold().strip()


def _cases(name: str) -> list[str]:
    """Return a name in the cases it is likely written in; stores ignore only that of ASCII."""
    forms = [name] if name.isascii() else [name, name.lower(), name.upper(), name.capitalize()]
    return [form for form in forms if form]


def _written(name: str) -> list[str]:
    """Return how a link may write a name: as it is, or as an address does."""
    letters = [chr(byte) for byte in name.encode()]
    escaped = "".join(
        letter
        if letter.isascii() and (letter.isalnum() or letter in "_.-~")
        else f"%{ord(letter):02X}"
        for letter in letters
    )
    return list(dict.fromkeys([*_cases(name), name.replace(" ", "%20"), escaped]))
