"""`ScopedMemory`: one user's part of a memory that several users share."""

from __future__ import annotations

import time
from base64 import b32encode
from collections.abc import Collection, Iterable
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from plait.errors import StoreReadOnly, UsageError, advise, quoted
from plait.memory import Memory
from plait.searching.where import Where
from plait.stores.confined import ConfinedStore
from plait.stores.confined_writes import not_here, shared_only
from plait.text.normal_form import composed
from plait.types import EVERYTHING, Cut, Document, Filter
from plait.types.guarding import guarded, recorded
from plait.types.ids import ID_LENGTH, SCOPE_PREFIX
from plait.types.reports import Erasure

if TYPE_CHECKING:
    from plait.exporting.jsonl import ExportPart
    from plait.exporting.reading import Importable
    from plait.facts.names import Reach
    from plait.graph import Graph
    from plait.memory.team import Team
    from plait.searching.scoring import Request
    from plait.types.reports import Imported, Stored
    from plait.writing.writer import Writer

# Names of users and customers are shorter.
MAX_NAME = 200
# Fields of a document that have an id.
_REFERENCES = ("id", "parent", "supersedes")
# A program that goes on storing for a user is not waited for.
ERASE_ROUNDS = 3


def scope_project(name: str) -> str:
    """Return the project in which a scope's documents are stored.

    No name has a meaning of its own, and the spelling decides: ``user:7`` is not ``USER:7``. Only
    an accented letter that can be written in two ways is one letter.

    >>> scope_project("user:7"), scope_project("personal"), scope_project("../x")
    ('scope:user:7', 'scope:personal', 'scope:../x')

    Raises:
        UsageError: The name is empty, too long, or has spaces around it or invisible characters.
    """
    problem = ""
    if not name.strip():
        problem = "is empty"
    elif name != name.strip():
        problem = "begins or ends with a space"
    elif not name.isprintable():
        problem = "has a character that cannot be printed"
    elif len(name) > MAX_NAME:
        problem = f"has {len(name):,} characters; at most {MAX_NAME} are allowed"
    if problem:
        raise UsageError(
            f"The name of a scope {problem}.",
            code="bad_scope",
            subject="name",
            advice=advise("name_scope"),
        )
    return f"{SCOPE_PREFIX}{composed(name)}"


def derived_id(*parts: str) -> str:
    """Return the id that always belongs to the same texts, and to no others.

    >>> derived_id("a", "b") == derived_id("a", "b") != derived_id("ab", "")
    True
    """
    digest = sha256("\0".join(parts).encode()).digest()
    return b32encode(digest).decode().lower()[:ID_LENGTH]


def _refused(verb: str) -> Any:
    """Return a method that refuses what concerns the whole file."""

    def refuse(*_: object, **__: object) -> None:
        raise not_here(f"{verb} concerns the whole memory, not only this scope.", verb)

    refuse.__annotations__ = {}  # whatever is passed
    refuse.__doc__ = f"Refuse: `Memory.{verb}` concerns the whole memory."
    return refuse


@guarded
class ScopedMemory(Memory):
    """A memory in which only one user's documents exist; `Memory.scope` makes it.

    Every verb works, and reaches nothing of anybody else: other ids, keys, entities and deleted
    documents are unknown here. What concerns the whole file is refused with the code
    ``not_in_scope``.
    """

    def __init__(self, whole: Memory, name: str, shared: Collection[str | None] = ()) -> None:
        own = scope_project(name)
        if "" in shared:
            raise UsageError(
                "shared has an empty name; None stands for personal documents.",
                code="bad_value",
                subject="shared",
            )
        shared = [place if place is None else composed(place) for place in shared]
        inner = whole._store
        store = None if inner is None else ConfinedStore(inner, own, shared)
        config = whole.config._replace(
            project=own,
            origins={**whole.config.origins, "project": "scope"},
            project_file=None,
        )
        super().__init__(store, whole.embedder, config, path=whole.path)
        self._memory = whole
        self._whole = inner
        if store is not None:
            from plait.writing.use import ConfinedUse

            # A scope may last for one request: the memory keeps what it has not written down.
            self._counter = ConfinedUse(whole._reads, store.own_refs)
        self._places = (own, *(place for place in dict.fromkeys(shared) if place != own))
        self._shared = shared
        self._own = own
        self.name = composed(name)

    def close(self) -> None:
        """Write what was postponed; the memory stays open for other users."""
        self._flush()

    @recorded("erase")
    def erase(self) -> Erasure:
        """Purge everything of this user, for good, and prove that nothing is left.

        Documents, entities, relations, deleted documents and earlier versions, counts of use and
        cached vectors are gone, and no byte of the text stays in the file. Nothing of other users
        and of shared projects changes. ``left`` of the result counts what is there afterwards; it
        is 0 unless somebody stores for this user meanwhile. The scope can be used again.

        Raises:
            StoreBusy: Another process keeps the traces in use; call it again.
        """
        from plait.writing import deleting

        self._flush()
        if self._store is None:
            return Erasure()
        store, own = self._store, self._own
        mine = EVERYTHING._replace(projects=(own,))
        relations = len(store.relations(None, mine))
        documents = passages = trashed = left = 0
        copies: tuple[str, ...] = ()
        for _ in range(ERASE_ROUNDS):
            living = store.scan(mine, by_writing=True)
            deleted = store.trashed(texts=False)
            documents += len(living)
            passages += sum(row.chunk_count for row in living)
            trashed += len(deleted)
            ids = [*(row.id for row in living), *(row.document.id for row in deleted)]
            # Without any, too: what expired from the trash may have left bytes.
            with store.transaction() as transaction:
                transaction.unrecord(own)
            copies = deleting.delete(store, ids, purge=True, home=own).copies
            left = self._left(mine)
            if not left:
                break
        return Erasure(documents, passages, trashed, relations, left, copies)

    def _left(self, mine: Filter) -> int:
        """Count what the whole memory has of this user."""
        whole, own = self._whole, self._own
        if whole is None:
            return 0
        trash = [row for row in whole.trashed(texts=False) if row.document.project == own]
        return len(whole.scan(mine)) + len(trash) + len(whole.relations(None, mine))

    def store_many(
        self,
        documents: Iterable[Document],
        *,
        allow_secret: bool = False,
        visibility: str | None = None,
    ) -> list[Stored]:
        """Store many documents; as in `Memory.store_many`, all in this scope.

        Raises:
            UsageError: A document names another project, or an id that is not one of this scope.
        """
        checked = map(self._checked, documents)
        return super().store_many(checked, allow_secret=allow_secret, visibility=visibility)

    def _checked(self, document: Document) -> Document:
        own = self._own
        if document.project not in (None, own):
            raise self._outside("project", document.project or "")
        for field in _REFERENCES:
            id_ = getattr(document, field)
            if id_ and self._required().known([Document(id=id_)]) == [None]:
                raise self._outside(field, id_)
        return document._replace(project=own)

    @staticmethod
    def _outside(field: str, value: str) -> UsageError:
        return not_here(f"{field} is {quoted(value)}, which is not in this scope.", field)

    def _import(
        self,
        content: Importable,
        trust: str,
        *,
        dry_run: bool,
        scopes: bool = False,
    ) -> Imported:
        # Documents that are not in this scope get ids of their own, the same ones each time.
        parts = [self._adopted(part) for part in content.parts]
        own = content._replace(parts=parts)
        return super()._import(own, trust, dry_run=dry_run, scopes=True)

    def _create(self) -> None:
        if self._memory._store is None:
            self._memory._create()
        self._whole = self._memory._required()
        self._store = ConfinedStore(self._whole, self._own, self._shared)
        self._embedder = self._memory.embedder
        self._counter = None

    def _adopted(self, part: ExportPart) -> ExportPart:
        """Return a part of an export as it is stored here."""
        from plait.exporting.jsonl import ExportedRelation, ExportHeader

        own = self._own
        if isinstance(part, ExportHeader):
            return ExportHeader()  # its time would move that of all users
        if isinstance(part, ExportedRelation):
            return part._replace(project=own)
        id_, passages = self._renamed(part.document.id), part.passages
        if id_ != part.document.id:
            passages = [passage._replace(id="") for passage in passages]
        document = part.document._replace(
            id=id_,
            parent=self._renamed(part.document.parent or "") or None,
            supersedes=self._renamed(part.document.supersedes or "") or None,
            project=own,
        )
        return part._replace(document=document, passages=passages)

    open = _refused("open")
    scope = _refused("scope")
    reindex = _refused("reindex")
    maintain = _refused("maintain")
    doctor = _refused("doctor")
    backup = _refused("backup")
    restore = _refused("restore")
    salvage = _refused("salvage")
    examine = _refused("examine")
    engine = property(_refused("engine"))
    team = property(_refused("team"))

    # -- inside ----------------------------------------------------------------------------

    @property
    def _members(self) -> Team:
        return self._memory._members

    def _filter(
        self,
        wanted: Filter | Where | None,
        *,
        all_projects: bool = False,
        asked: Request | None = None,
    ) -> Filter:
        # A filter that names no project means all that may be read.
        where = super()._filter(wanted, all_projects=True, asked=asked)
        return where if where.projects else where._replace(projects=self._places)

    @property
    def _session_places(self) -> tuple[str | None, ...]:
        return self._places

    def _reach(self, reach: Reach) -> Reach:
        # Shared projects are read by key too.
        return "everything" if reach in ("read", "anchor") else reach

    def _changed_in(self, *, all_projects: bool) -> Where:
        # What is shared is no other project of this user's: it cannot be changed here.
        return {"projects": (self._own,)}

    def _check_changeable(self, documents: Iterable[Document]) -> None:
        for document in documents:
            if document.project != self._own:
                raise shared_only(document)

    def _begin(
        self, file_cut: Cut | None = None, *, allow_secret: bool = False, personal: bool = False
    ) -> Writer:
        if personal:
            raise not_here("personal documents are outside of this scope.", "personal")
        self._refresh_profiles()
        return super()._begin(file_cut, allow_secret=allow_secret)

    @property
    def graph(self) -> Graph:
        """The entities of this scope and of what is shared with it, and their relations."""
        self._refresh_profiles()
        return self._graph(self._places)

    def _refresh_profiles(self) -> None:
        """Rebuild profiles that are due, of whatever user: a scope's transaction sees only one."""
        if self._whole is None or self.config.settings.read_only:
            return
        due = self._whole.state().profiles_due
        if due is not None and due <= time.time_ns() // 1_000_000:
            from plait.writing.changes import put

            with suppress(StoreReadOnly):  # of a member who only reads; the next writer does it
                put(self._whole, ())

    def _renamed(self, id_: str) -> str:
        """Return the id that a document of an import has here: its own only if it is here."""
        if not id_:
            return id_
        if self._store is not None and self._store.known([Document(id=id_)]) != [None]:
            return id_
        return derived_id(self.name, id_)
