"""Opening a memory: which file, and which embedder its vectors are read and written with."""

import os

from plait.config import LOCAL_PROVIDERS, Config, load
from plait.embedders import PROVIDERS, Options, open_embedder
from plait.embedders.none import NoEmbedder
from plait.errors import PlaitError
from plait.protocols import Embedder, Store
from plait.recall import tuning_of
from plait.settings import IN_MEMORY
from plait.stores import exists, open_store
from plait.types import Space

DEFAULT_EMBEDDER = "builtin"


def open_parts(
    path: str | os.PathLike[str] | None,
    embedder: Embedder | str | None,
    *,
    project: str | None,
    create: bool,
    config: Config | None,
) -> tuple[Store | None, Embedder, Config]:
    """The store, if there is a file for it, the embedder, and the settings that chose both.

    Raises:
        StoreError: The file cannot be used.
        ConfigError: A setting is wrong.
    """
    flags: dict[str, object] = {}
    if path is not None:
        flags["db_path"] = os.fspath(path)
    if project is not None:
        flags["project"] = project
    if isinstance(embedder, str):
        flags["embedding_provider"] = embedder
    found = config if config is not None else load(flags)
    spec = embedder if isinstance(embedder, str) else found.settings.embedding_provider
    by_name = embedder is None or isinstance(embedder, str)
    if spec is not None and by_name:
        # A name that means nothing is refused before a file is made.
        embedder = named_embedder(spec, found)
    store = _store_of(found, create=create)
    if embedder is None or isinstance(embedder, str):
        embedder = _embedder_of(store, found)
    elif by_name and embedder.dims is None and spec is not None and store is not None:
        # What the memory knows of its own vectors need not be asked for again.
        embedder = named_embedder(spec, found, known=store.space())
    return store, _cached(embedder, store, found), found


def embedder_of_vectors(store: Store, config: Config) -> Embedder:
    """What a memory's vectors were made with, whatever the settings say now."""
    return _cached(_embedder_of(store, config), store, config)


def _cached(embedder: Embedder, store: Store | None, config: Config) -> Embedder:
    if store is None or not tuning_of(embedder).external:
        return embedder
    from plait.embedding import CachedEmbedder

    return CachedEmbedder(embedder, store, config.settings.cache_size)


def _store_of(config: Config, *, create: bool) -> Store | None:
    settings = config.settings
    if not (create or settings.db_path == IN_MEMORY or exists(settings.db_path)):
        return None
    return open_store(
        settings.db_path,
        create=create,
        timeout=settings.sqlite_open_timeout_secs,
        durability=settings.durability,
    )


def _embedder_of(store: Store | None, config: Config) -> Embedder:
    """What the memory was built with; the built-in model for a new one."""
    space = store.space() if store is not None else None
    first = store.meta("embedder") if store is not None else None
    spec = space.spec if space is not None else first or DEFAULT_EMBEDDER
    provider = spec.partition(":")[0]
    if provider not in (*PROVIDERS, *LOCAL_PROVIDERS):
        return NoEmbedder(f"this memory's vectors are by {spec}, which is not one of plait's own")
    if provider not in LOCAL_PROVIDERS:
        # The file may come from somebody else: only this machine's settings send text away.
        return NoEmbedder(
            f"this memory's vectors are by {spec}, a server that only your own settings may "
            f"choose. If you want that run: plait config set embedding_provider {spec}"
        )
    try:
        return named_embedder(spec, config, known=space)
    except PlaitError as error:
        return NoEmbedder(f"this memory's vectors are by {spec}. {error}")


def named_embedder(
    spec: str, config: Config | None = None, *, known: Space | None = None
) -> Embedder:
    """The embedder of a settings string; ``hashing`` is the stand-in of `plait.testing`.

    Raises:
        ConfigError: There is no such provider, or what it needs is not installed.
    """
    provider = spec.partition(":")[0]
    if provider == "hashing":
        from plait.testing import HashingEmbedder

        return HashingEmbedder()
    if config is None:
        return open_embedder(spec, Options(known=known))
    settings = config.settings
    options = Options(
        model=settings.model,
        dims=settings.dims,
        ollama_url=settings.ollama_url,
        key=lambda origin: config.key_for(provider, origin),
        folder=config.models_folder,
        known=known,
    )
    return open_embedder(spec, options)
