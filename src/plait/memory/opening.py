"""Open a memory: find its file and embedder, and provide what every verb needs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Self

from plait.embedders import LOCAL_PROVIDERS, PROVIDERS, Embedder, EmbedderOptions, open_embedder
from plait.embedders.none import NoEmbedder, where_vectors_are_kept
from plait.errors import Advice, NotFound, Notice, PlaitError, UsageError, is_plain_name, quoted
from plait.protocols import State, Store
from plait.searching.where import Where, check_fields, given_fields, to_filter
from plait.settings.loading import Config, changed, load
from plait.settings.schema import IN_MEMORY, OF_EMBEDDER, of_ollama
from plait.stores import make_folders, open_if_there
from plait.types import EVERYTHING, Cut, Document, Filter, Space
from plait.types.guarding import guarded
from plait.types.records import NamedTuple

if TYPE_CHECKING:
    from plait.facts.names import Named, Reach
    from plait.graph import Graph
    from plait.searching.scoring import Request
    from plait.writing.use import UseCounter
    from plait.writing.writer import Writer

DEFAULT_EMBEDDER = "builtin"
_REINDEX = Advice("reindex")
MEMORY_OFF = Notice(
    "The memory is off (backend = none): nothing is stored, and nothing is found.", "memory_off"
)


class Parts(NamedTuple):
    """What a memory is made of, and its state when it was opened."""

    store: Store | None
    embedder: Embedder
    config: Config
    state: State | None


def open_parts(
    path: str | os.PathLike[str] | None,
    embedder: Embedder | str | None,
    *,
    project: str | None,
    create: bool,
    read_only: bool,
    config: Config | None,
) -> Parts:
    """Return the store (if its file exists), the embedder, and the settings for both.

    Raises:
        StoreError: The file cannot be used.
        ConfigError: A setting is wrong.
        UsageError: ``embedder`` is neither an `Embedder` nor a name.
    """
    if not (embedder is None or isinstance(embedder, str | Embedder)):
        kind = type(embedder).__name__
        raise UsageError(
            f"An object of type {kind} is not an embedder.",
            code="not_an_embedder",
            subject=kind,
            advice=Advice("derive_embedder"),
        )
    if config is None:
        config = load(
            {
                "db_path": None if path is None else os.fspath(path),
                "project": project,
                "embedding_provider": embedder if isinstance(embedder, str) else None,
            }
        )
    if read_only:
        config = config._replace(settings=config.settings._replace(read_only=True))
    spec = embedder if isinstance(embedder, str) else config.settings.embedding_provider
    by_name = embedder is None or isinstance(embedder, str)
    if spec is not None and by_name:
        # An unknown name is refused before a file is created.
        embedder = named_embedder(spec, config)
    store = _open_store(config, create=create)
    try:
        state = None if store is None else store.state()
        if embedder is None or isinstance(embedder, str):
            embedder = _embedder_of(state, config)
        elif by_name and embedder.dims is None and spec is not None and state is not None:
            # The memory knows the length of its vectors, so the embedder need not ask for it.
            embedder = named_embedder(spec, config, known=state.space)
        if state is not None and state.vectorless is not None:
            embedder = where_vectors_are_kept(embedder, state)
        return Parts(store, _cached(embedder, store, config), config, state)
    except BaseException:  # Ctrl-C, too: nobody else would close the store
        if store is not None:
            store.close()
        raise


def _stored_project(parts: Parts) -> str | None:
    """Return the current project, in the spelling of documents that an older plait stored."""
    project, store = parts.config.project, parts.store
    if project is None or project.isascii() or store is None:
        return project
    here = EVERYTHING._replace(projects=(project,))
    return next((row.project for row in store.scan(here, limit=1)), project)


def embedder_of_vectors(store: Store, state: State, config: Config) -> Embedder:
    """Return the embedder that made a memory's vectors, whatever the settings say now."""
    return _cached(_embedder_of(state, config), store, config)


def _cached(embedder: Embedder, store: Store | None, config: Config) -> Embedder:
    if store is None or not embedder.tuning.external:
        return embedder
    from plait.embedders.cached import CachedEmbedder

    return CachedEmbedder(embedder, store, config.settings.cache_size)


def _open_store(config: Config, *, create: bool) -> Store | None:
    settings = config.settings
    create = create and not settings.read_only
    if settings.backend == "none":
        return None
    if create and config.origins.get("db_path", "default") == "default":
        # Only this place: a typing error in another one must not leave a tree of folders behind.
        make_folders(settings.db_path)
    return open_if_there(
        settings.db_path,
        create=create,
        timeout=settings.sqlite_open_timeout_secs,
        durability=settings.durability,
        read_only=settings.read_only,
        brief=config.brief,
    )


def _implied_embedder(config: Config) -> str:
    """Return the embedder of a new memory: settings such as ``model`` mean one of Ollama."""
    return "ollama" if changed(config.origins, of_ollama(config.settings)) else DEFAULT_EMBEDDER


def _embedder_of(state: State | None, config: Config) -> Embedder:
    """Return the embedder that the memory was built with; the built-in model for a new one."""
    space = None if state is None else state.space
    first = None if state is None else state.embedder
    spec = space.spec if space is not None else first or _implied_embedder(config)
    provider = spec.partition(":")[0]
    # The file may come from somebody else: its words may neither tell whom to send text to, nor
    # stand in a sentence as if they were plait's.
    known = provider in (*PROVIDERS, *LOCAL_PROVIDERS)
    if not known or not (spec == provider or is_plain_name(spec)):
        reason = "This memory's vectors were made by an embedder that plait does not know."
        return NoEmbedder(Notice(reason, "foreign_vectors", spec))
    if provider not in LOCAL_PROVIDERS:
        return NoEmbedder(
            Notice(
                f"This memory's vectors were made by a server ({provider}). plait calls a server "
                "only if your own settings name it.",
                "server_not_chosen",
                spec,
                Advice("choose_embedder"),
            )
        )
    try:
        return named_embedder(spec, config, known=space)
    except PlaitError as error:
        text = f"This memory's vectors were made by {quoted(spec)}. {error.notice.text}"
        return NoEmbedder(error.notice._replace(text=text, subject=spec))


def _ineffective(config: Config, embedder: Embedder) -> list[Notice]:
    """Return which settings of embedders cannot act on the one in use."""
    if embedder.reason is not None or not changed(config.origins, OF_EMBEDDER):
        return []
    from plait.settings.effects import without_effect_on_embedder

    spec, external = embedder.space.spec, embedder.tuning.external
    return without_effect_on_embedder(config.settings, config.origins, spec, external=external)


def named_embedder(
    spec: str, config: Config | None = None, *, known: Space | None = None
) -> Embedder:
    """Return the embedder of a settings string; ``hashing`` is the stand-in of `plait.testing`.

    Raises:
        ConfigError: There is no such provider, or a package that it needs is not installed.
    """
    provider = spec.partition(":")[0]
    if provider == "hashing":
        from plait.testing.hashing import HashingEmbedder

        return HashingEmbedder()
    if config is None:
        return open_embedder(spec, EmbedderOptions(known=known))
    settings = config.settings
    options = EmbedderOptions(
        model=settings.model,
        dims=settings.dims,
        ollama_url=settings.ollama_url,
        key=lambda origin: config.key_for(provider, origin),
        folder=config.models_folder,
        known=known,
    )
    return open_embedder(spec, options)


def chosen_cut(config: Config) -> Cut:
    """Return how the settings cut texts, and whether the user chose that."""
    settings, origins = config.settings, config.origins
    chosen = any(origins.get(name) != "default" for name in ("chunk_size", "chunk_overlap"))
    return Cut(settings.chunk_size, settings.chunk_overlap, chosen=chosen)


def outdated_rules(state: State, cut: Cut, embedder: Embedder) -> list[Notice]:
    """Return which parts were indexed under older rules; a reindex fixes that."""
    notices = []
    identity = cut.for_memory(state.chunker).identity
    if state.chunker is not None and state.chunker != identity:
        cut_with = quoted(state.chunker)
        text = f"The passages were cut with {cut_with}; the settings now say {identity}."
        notices.append(Notice(text, "other_chunker", advice=_REINDEX))
    if state.indexed_by is not None and state.indexed_by != state.analyzer:
        built_with = quoted(state.indexed_by)
        text = f"The keyword index was built with {built_with}, not {state.analyzer}."
        notices.append(Notice(text, "other_analyzer", advice=_REINDEX))
    if state.vectorless is not None and embedder.space.provider != "none":
        notices.append(state.vectorless)
    space = state.space
    if space is not None and embedder.dims != 0 and space != embedder.space:
        text = (
            f"The vectors were made by {quoted(space.beside(embedder.space))}; the embedder is now "
            f"{embedder.space.beside(space)}."
        )
        notices.append(Notice(text, "other_embedder", advice=_REINDEX))
    return notices


@guarded
class OpenMemory:
    """An opened memory without verbs: its parts, and code that the verbs share."""

    def __init__(
        self, store: Store | None, embedder: Embedder, config: Config, *, path: str
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._former: Embedder | None = None
        self._counter: UseCounter | None = None
        self._cut = chosen_cut(config)
        # What was indexed under other rules when the memory was opened.
        self.opening_notices: list[Notice] = []
        self.config = config
        self.path = path

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        embedder: Embedder | str | None = None,
        project: str | None = None,
        create: bool = True,
        read_only: bool = False,
        config: Config | None = None,
    ) -> Self:
        """Open a memory; create its file if it does not exist.

        Args:
            path: The file, or the address of a database; ``:memory:`` for one that is never
                written; default: the settings. A file's folder is made if only that is missing.
            embedder: An embedder or its name; by default the one the memory was built with.
            project: New documents belong to it, and searches cover it and personal documents; the
                git repository of the working directory by default, so that a program started
                elsewhere sees another one. ``""`` for none, whatever the directory.
            create: With ``False``, a missing file is not created, and every answer is empty.
            read_only: Refuse every write; nothing is created, not even use is counted. A ``path``
                where there is no memory is an error then, unless ``create`` is ``False``.
            config: Settings that were already loaded.

        Raises:
            StoreError: The file cannot be used.
            ConfigError: A setting is wrong.
        """
        parts = open_parts(
            path, embedder, project=project, create=create, read_only=read_only, config=config
        )
        is_named, path = path is not None, parts.config.settings.db_path
        config = parts.config._replace(project=_stored_project(parts))
        opened = cls(parts.store, parts.embedder, config, path=path)
        if parts.state is not None:
            opened.opening_notices = outdated_rules(parts.state, opened._cut, parts.embedder)
            opened.opening_notices += [parts.state.full] if parts.state.full else []
        opened.opening_notices += _ineffective(config, parts.embedder)
        if opened.is_off:
            opened.opening_notices.append(MEMORY_OFF)
        elif read_only and create and is_named and parts.store is None:
            raise opened._no_memory()  # most likely a wrong name: nothing could ever be in it
        wanted = config.settings.auto_hydrate and path != IN_MEMORY
        if wanted and (parts.store is None or not parts.store.stats().doc_count):
            opened._hydrate()
        return opened

    def _hydrate(self) -> None:
        """Fill the memory, which is empty; `MaintainedMemory` can."""

    def _create(self) -> None:
        """Create the file of a memory that was opened without one."""
        self._store = _open_store(self.config, create=True)
        if self._store is not None:
            self._embedder = where_vectors_are_kept(self._embedder, self._store.state())
        self._embedder = _cached(self._embedder, self._store, self.config)
        self._counter = None

    def __enter__(self) -> Self:
        """Support ``with``, which closes the memory at its end."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Release the file; the memory cannot be used afterwards."""
        self._flush()
        if self._store is not None:
            self._store.close()

    @property
    def is_off(self) -> bool:
        """Whether the setting ``backend`` is none: every answer is empty and nothing is stored."""
        return self.config.settings.backend == "none"

    @property
    def is_there(self) -> bool:
        """Whether the memory exists; one that was opened with ``create=False`` need not."""
        return self._store is not None

    @property
    def engine(self) -> Store:
        """The store underneath, for programs that measure or examine it."""
        return self._required()

    @property
    def embedder(self) -> Embedder:
        """The embedder of this memory."""
        return self._embedder

    @property
    def graph(self) -> Graph:
        """The entities of this memory's project, and the relations between them.

        Raises:
            NotFound: There is no memory yet.
        """
        return self._graph((self.config.project, None))

    def _graph(self, places: Sequence[str | None]) -> Graph:
        from plait.memory.entities import graph_of

        return graph_of(self, places)

    def outdated_rules(self) -> list[Notice]:
        """Return which parts are indexed under older rules; `reindex` fixes that."""
        if self._store is None:
            return []
        return outdated_rules(self._store.state(), self._cut, self._embedder)

    # -- inside ----------------------------------------------------------------------------

    def _begin(
        self, file_cut: Cut | None = None, *, allow_secret: bool = False, personal: bool = False
    ) -> Writer:
        from plait.writing.writer import Writer

        self._check_writable()
        store, project = self._required(), None if personal else self.config.project
        return Writer.begin(
            store,
            self._embedder,
            self._cut,
            project,
            max_bytes=self._max_bytes,
            allow_secret=allow_secret,
            file_cut=file_cut,
        )

    def _check_writable(self) -> None:
        if self.config.settings.read_only:
            from plait.stores import refuse_to_write

            refuse_to_write(self.path)

    @property
    def _max_bytes(self) -> int:  # of one file or text
        return round(self.config.settings.max_file_mb * 1024 * 1024)

    def _after_writing(self, writer: Writer, *, much: bool = True, afresh: bool = False) -> None:
        from plait.writing.chance import sample_chance

        if self.config.settings.auto_reindex:
            from plait.writing.reindex import follow_embedder

            follow_embedder(writer)
        state = writer.store.state() if much else writer.state
        sample_chance(writer.store, writer.embedder, state, afresh=afresh)

    @property
    def _reads(self) -> UseCounter:
        if self._counter is None:
            from plait.writing.use import UseCounter

            self._counter = UseCounter(self._store)
        return self._counter

    def _embedder_for(self, store: Store, state: State) -> Embedder:
        """Return the embedder for queries: the one that made the vectors, until a reindex."""
        space = state.space
        if self._embedder.dims == 0 or space in (None, self._embedder.space):
            return self._embedder
        if self._former is None or self._former.space != space:
            self._former = embedder_of_vectors(store, state, self.config)
        return self._former if self._former.space == space else self._embedder

    def _required(self) -> Store:
        if self._store is None:
            raise self._no_memory()
        return self._store

    def _no_memory(self, name: str = "") -> NotFound:
        if self.is_off:
            return NotFound(MEMORY_OFF.text, code=MEMORY_OFF.code, subject=name)
        beginning = f"Nothing is named '{name}': there" if name else "There"
        text = f"{beginning} is no memory at {self.path} yet."
        subject = name or self.path
        return NotFound(text, code="no_memory", subject=subject, advice=Advice("store_first"))

    def _flush(self) -> None:
        """Write what was postponed while a caller waited for an answer."""
        if self._store is not None:
            self._embedder.flush()
        if self._counter is not None:
            self._counter.flush()

    def _named(self, name: str, reach: Reach, *, exactly: bool = False) -> Named:
        """Return what a name refers to; ``reach`` says what it is for."""
        from plait.searching.names import resolve

        if self._store is None:
            raise self._no_memory(name)
        return resolve(self._store, name, self.config.project, self._reach(reach), exactly=exactly)

    def _reach(self, reach: Reach) -> Reach:
        """Return how far names reach in this memory."""
        return reach

    def _check_changeable(self, documents: Iterable[Document]) -> None:
        """Refuse documents that this memory may read but not change; by default there are none."""

    def _one_question(self) -> AbstractContextManager[object]:
        """Begin a question: of a store on another machine, nothing is read twice for it."""
        ahead = None if self._store is None else self._store.ahead
        return nullcontext() if ahead is None else ahead.shared()

    def _filter(
        self,
        wanted: Filter | Where | None,
        *,
        all_projects: bool = False,
        asked: Request | None = None,
    ) -> Filter:
        """Return the caller's filter; ``entity`` selects the facts about these entities.

        ``asked``: the search that it is for.
        """
        if not wanted:
            return Filter() if all_projects else Filter.of_project(self.config.project)
        names: list[str] = []
        if not isinstance(wanted, Filter) and (fields := given_fields(wanted)).get("entity"):
            check_fields(fields, wanted)
            listed = fields.pop("entity")
            names = [listed] if isinstance(listed, str) else list(listed)
            wanted = fields
        where = to_filter(wanted, self.config.project, all_projects=all_projects)
        if self._store is not None and (ahead := self._store.ahead) is not None:
            from plait.searching.ahead import expect_filter

            expect_filter(ahead, where, names, asked)
        if names:
            where = where._replace(parents=self.graph.ids_of(names))
        if where.session is None or self._store is None:
            return where
        from plait.searching.conversations import whole_session

        return whole_session(self._store, where)
