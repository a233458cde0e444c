"""Which documents a document links to, and which link to it.

Nothing is stored: a link is a part of a text, so it is read from the texts when it is asked for.
What is ingested again, renamed, deleted, restored, purged or imported is therefore never out of
step, and a link finds its target whenever that appears.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import product

from plait.protocols import Store
from plait.text.front_matter import front_matter
from plait.text.links import Link, links_in
from plait.text.normal_form import composed
from plait.types import ALIAS_FIELDS, Document, Filter, Kind
from plait.types.records import NamedTuple
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
# How a name belongs to a document: it is its key, the end of its key, or an alias.
_IS_KEY, _IS_END, _IS_ALIAS = 1, 2, 3
# What counts before what: a key or its end, of anybody or of a trusted document, and an alias.
_TRUSTED_NAME, _NAME, _ALIAS, _DOUBTFUL_ALIAS = "trusted name", "name", "alias", "doubtful alias"
_OF_TRUSTED = (_TRUSTED_NAME, _ALIAS)
# How many links of a document are resolved, and how many documents are read for links to it.
MOST_RESOLVED = 200
MOST_READ = 2_000
# How many names of a document are looked for in the others: each is a search of its own.
MOST_NAMES = 50
# Names that are compared with every document inside the store; more of them are compared here.
_FEW_NAMES = 30
# A name in a list of aliases may itself have so many commas.
_COMMAS = 3


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
    scope = may_be_known_as(name, where)
    listed = [] if scope is None else store.scan(scope, by_writing=True, damaged=[])
    return nearest_known(name, listed)


def may_be_known_as(name: str, where: Filter) -> Filter | None:
    """Return a filter for at least the documents that `known_as` returns, ``None`` if it has none.

    `nearest_known` tells them apart, in the order of writing.
    """
    kinds = tuple(kind for kind in where.kinds or _LINKED if kind in _LINKED)
    parts = _parts_of([name]) if _folded(name) and len(name) <= _MAX_NAME else ()
    return where._replace(kinds=kinds, named=parts) if kinds and parts else None


def nearest_known(name: str, candidates: Iterable[Document]) -> list[Document]:
    """Return those of the candidates that `known_as` returns."""
    wanted = _folded(name)
    ranked = _Targets(candidates, {wanted}).ranked(wanted)
    # What is untrusted takes no name of a trusted document, and does not make it ambiguous.
    ranked = [pair for pair in ranked if pair[1].trust == "trusted"] or ranked
    best = min((rank for rank, _ in ranked), default=0)
    return [document for rank, document in ranked if rank == best]


def _outgoing(store: Store, document: Document, scope: Filter) -> Iterable[Relation]:
    links = links_in(document.text)[:MOST_RESOLVED]
    names = [_name_in(document, link) for link in links]
    parts = {_last_part(name) for name in names if name and len(name) <= _MAX_NAME}
    candidates = _candidates(store, sorted(parts), scope) if parts else []
    targets = _Targets(candidates, {_folded(name) for name in names})
    seen: set[str] = set()
    for link, name in zip(links, names, strict=True):
        target = targets.nearest(document, link, name)
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
    names = [_last_part(name) for name in _names_of(document)]
    names = [name for name in dict.fromkeys(names) if name and len(name) <= _MAX_NAME]
    names = names[:MOST_NAMES]
    written = {f"{sign}{form}" for name in names for form in _written(name) for sign in _BEFORE}
    if not written:
        return
    mentioning = store.scan(
        scope._replace(mentions=tuple(sorted(written))), limit=MOST_READ, whole=True, damaged=[]
    )
    own = dict(_answers_to(document))
    targets: _Targets | None = None
    for source in sorted(mentioning, key=lambda row: row.doc_id):
        if source.id == document.id or source.kind == "entity":
            continue
        for link in links_in(source.text):
            name = _name_in(source, link)
            if _folded(name) not in own:
                continue
            if targets is None:
                targets = _Targets(_candidates(store, names, scope), own)
            target = targets.nearest(source, link, name)
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
    """Return at least the documents of which a part of the key or an alias is one of these."""
    parts = _parts_of(names)
    if not parts:
        return []
    named = parts if len(parts) <= _FEW_NAMES else ()
    return store.scan(scope._replace(named=named), by_writing=True, damaged=[])


def _parts_of(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(form for name in names for form in _cases(_last_part(name))))


class _Targets:
    """Documents by the names that links have for them.

    One pass over the documents, then a few look-ups for each link: a name may belong to thousands
    of documents, and thousands may link to it.
    """

    def __init__(self, documents: Iterable[Document], wanted: Collection[str]) -> None:
        self._ranked: dict[str, list[tuple[int, Document]]] = {}
        self._by_path: dict[tuple[str, str | None, str], Document] = {}
        self._near: dict[str, dict[tuple[object, ...], Document]] = {}
        for document in documents:
            for name, rank in _answers_to(document):
                if name not in wanted:
                    continue
                self._ranked.setdefault(name, []).append((rank, document))
                if rank == _IS_KEY:
                    place = (document.source, document.project, name)
                    self._by_path.setdefault(place, document)

    def ranked(self, wanted: str) -> list[tuple[int, Document]]:
        """Return the documents with a folded name, and how it is theirs."""
        return self._ranked.get(wanted, [])

    def nearest(self, source: Document, link: Link, name: str) -> Document | None:
        """Return the document that a link leads to: by path the very one, by name the nearest."""
        wanted = _folded(name)
        if link.is_path:
            return self._by_path.get((source.source, source.project, wanted))
        if wanted not in self._near:
            self._near[wanted] = self._grouped(wanted)
        near = self._near[wanted]
        # A note beside the text is nearer than one at the top; an alias counts last, and one that
        # an untrusted document gives itself after all others. From a trusted text, what is
        # untrusted takes no name of a trusted document.
        first = _OF_TRUSTED if source.trust == "trusted" else ()
        claims = (*first, _NAME, _ALIAS, _DOUBTFUL_ALIAS)
        places = ((claim, *place) for claim in claims for place in _places(source))
        return next((near[place] for place in places if place in near), None)

    def _grouped(self, wanted: str) -> dict[tuple[object, ...], Document]:
        """Return the document with the shortest path for each place, and for several together."""
        groups: dict[tuple[object, ...], Document] = {}
        for rank, document in sorted(self.ranked(wanted), key=lambda pair: _length(pair[1])):
            for place in _places(document):
                for claim in _claims(document, is_alias=rank == _IS_ALIAS):
                    groups.setdefault((claim, *place), document)
        return groups


def _claims(document: Document, *, is_alias: bool) -> tuple[str, ...]:
    """Return in which ways a name is a document's."""
    if document.trust != "trusted":
        return (_DOUBTFUL_ALIAS if is_alias else _NAME,)
    return (_ALIAS,) if is_alias else (_TRUSTED_NAME, _NAME)


def _places(document: Document) -> list[tuple[object, ...]]:
    """Return where a document is, from the narrowest place to the widest: everywhere."""
    folder = (document.key or "").rpartition("/")[0]
    # Each as a tuple of its own: a name is never taken for the absence of one.
    parts = (("project", document.project), ("source", document.source), ("folder", folder))
    return list(product(*((part, None) for part in parts)))


def _length(document: Document) -> tuple[int, str]:
    key = document.key or ""
    return key.count("/"), key


def _answers_to(document: Document) -> Iterator[tuple[str, int]]:
    """Yield the folded names of a document, each once, with the nearest way in which it is one."""
    key = _folded(document.key or "")
    names: dict[str, int] = {}
    for form in (key, _stem(key)):
        names.setdefault(form, _IS_KEY)
    for form in (key, _stem(key)):
        # No link is longer.
        end = form[-_MAX_NAME - 1 :]
        while "/" in end:
            end = end.partition("/")[2]
            names.setdefault(end, _IS_END)
    for written in document.aliases:
        pieces = _folded(written).split(", ")
        for start in range(len(pieces)):
            for count in range(1, _COMMAS + 2):
                names.setdefault(", ".join(pieces[start : start + count]), _IS_ALIAS)
    names.pop("", None)
    yield from names.items()


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
