"""Embedders turn text into vectors, one module per provider. The rest of plait sees `Embedder`.

Batching texts and storing their vectors belongs in `plait.writing`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from plait.errors import ConfigError, EmbedderError, Notice, advise
from plait.protocols import Vector
from plait.types import ONE_MODEL, Space, TextKind, Tuning
from plait.types.records import NamedTuple

if TYPE_CHECKING:
    from plait.types.reports import Finding

OLLAMA_URL = "http://localhost:11434"


class Provider(NamedTuple):
    """Where vectors come from.

    A provider that is not ``local`` may send text to another machine. Its key may stand in
    ``key_variable``; a key that is for one server only goes to ``key_origin`` and nowhere else.
    """

    summary: str
    local: bool = True
    takes_key: bool = False
    key_variable: str = ""
    key_origin: str = ""


PROVIDERS: dict[str, Provider] = {
    "builtin": Provider(
        "plait's own model: 256 dimensions, many languages; nothing leaves this machine"
    ),
    "none": Provider("no vectors: keyword search only"),
    "fastembed": Provider(
        "ONNX models on this machine; download one with: plait models pull MODEL"
    ),
    "ollama": Provider(
        "models served by Ollama, for example ollama:nomic-embed-text", takes_key=True
    ),
    "openai": Provider(
        "OpenAI, for example openai:text-embedding-3-small; needs a key; gets your text",
        local=False,
        takes_key=True,
        key_variable="OPENAI_API_KEY",
        key_origin="https://api.openai.com:443",
    ),
    "custom": Provider(
        "any server with OpenAI's API, for example custom:http://localhost:1234/v1#MODEL",
        local=False,
        takes_key=True,
    ),
}
# With the embedder of `plait.testing`, which no person chooses.
LOCAL_PROVIDERS = (*(name for name, provider in PROVIDERS.items() if provider.local), "hashing")


# A fixed text. Its vector, kept with a memory's vectors, shows whether the model is still the same.
CANARY = "The canary in the mine sang until the air went bad; then the miners knew."


class Learnt(NamedTuple):
    """What a check of an embedder found out before all vectors are computed.

    ``sample`` is kept with them; ``resume`` tells whether vectors that an earlier run left
    unfinished are by the same model.
    """

    sample: Vector | None = None
    resume: bool = True


class Embedder:
    """Base class of embedders: define ``space``, ``dims`` and `embed`."""

    # The embedder's defaults: how far to trust it, and how to call it.
    tuning: Tuning = Tuning()
    # Why it returns no vectors although the memory has some; ``None`` if the user chose that.
    reason: Notice | None = None
    # What a server called its model in its latest answer.
    answered_as: str = ""

    if TYPE_CHECKING:  # only declared, so that a subclass may use an attribute or a property

        @property
        def space(self) -> Space:
            """Identity of the vectors, stored with them; its ``dims`` are 0 until known."""

        @property
        def dims(self) -> int | None:
            """Length of a vector; 0: no vectors; ``None``: unknown until the first one."""

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        """Return one vector per text, in order; ``None`` for a text that has no meaning.

        Raises:
            EmbedderError: The embedder is down or returned an invalid answer.
        """
        raise NotImplementedError

    def embed_safely(self, texts: Sequence[str], kind: TextKind) -> list[Vector | None]:
        """Call `embed` and check its answer; other people's embedders may return anything.

        Raises:
            EmbedderError: It failed in any way, or its answer does not match the request.
        """
        return checked_vectors(lambda: self.embed(texts, kind), len(texts), type(self).__name__)

    def embed_with_sample(self, text: str) -> tuple[Vector | None, Vector | None]:
        """Return the vectors of a query and of `CANARY`, in one request where that is possible.

        Raises:
            EmbedderError: It failed in any way, or its answer does not match the request.
        """
        [vector] = self.embed_safely([text], "query")
        [sample] = self.embed_safely([CANARY], "passage")
        return vector, sample

    def interact(self, query: str, texts: Sequence[str]) -> list[float] | None:
        """Return for each text, in 0..1, how well its best sentence meets the query's words.

        ``None``: this embedder has only one vector per text.
        """
        return None

    def knows(self, text: str) -> bool:
        """Tell whether any word of a text is known to mean something; false if nobody can tell."""
        return False

    def cached_query(self, text: str) -> Vector | None:
        """Return the vector of a query if it is cached."""
        return None

    def learn(self, *, afresh: bool = False) -> Learnt:
        """Make sure that the space is known before many vectors are computed.

        With ``afresh`` the model is accepted as it is now, whatever made earlier vectors.

        Raises:
            EmbedderError: It does not answer, or is not the model that made the memory's vectors.
        """
        if self.dims is None:
            self.embed_safely([CANARY], "passage")
        return Learnt()

    def recheck(self) -> None:
        """Note that a new write starts: the model behind the name may have changed."""

    def forget_dims(self) -> None:
        """Forget a vector length that was only assumed."""

    def check(self) -> list[Finding]:
        """Return the findings for ``doctor``."""
        return []

    def flush(self) -> None:
        """Write what was postponed while a caller waited."""


def checked_vectors(
    embed: Callable[[], Sequence[Vector | None]], count: int, name: str
) -> list[Vector | None]:
    """Call an embedder and check that its answer is one vector or ``None`` per text.

    Raises:
        EmbedderError: It failed in any way, or its answer does not match the request.
    """
    try:
        vectors = [_as_vector(numbers) for numbers in embed()]
    except EmbedderError:
        raise
    except Exception as error:
        # Broad on purpose: this is other people's code, and the text must be stored anyway.
        raise EmbedderError(f"{name} failed: {type(error).__name__}: {error}") from error
    if len(vectors) != count:
        # It is unknown which vector belongs to which text: use none of them.
        raise EmbedderError(f"the embedder returned {len(vectors)} vectors for {count} texts")
    return vectors


def _as_vector(numbers: Vector | Sequence[float] | None) -> Vector | None:
    """Accept lists and other arrays too, as long as they contain numbers."""
    return numbers if numbers is None or isinstance(numbers, array) else array("f", numbers)


class EmbedderOptions(NamedTuple):
    """What an embedder may need in addition to its name.

    ``key`` returns the key for an origin such as ``https://api.openai.com:443``, or ``None``.
    ``folder`` is where models are kept. ``known`` is the space of the memory's vectors: if this
    embedder made them, it need not ask how long they are.
    """

    model: str | None = None
    dims: int | None = None
    ollama_url: str = OLLAMA_URL
    key: Callable[[str], str | None] = lambda _: None
    folder: str = ""
    known: Space | None = None


NO_OPTIONS = EmbedderOptions()


def open_embedder(spec: str, options: EmbedderOptions = NO_OPTIONS) -> Embedder:
    """Return the embedder of a setting: ``builtin``, ``ollama:MODEL``, ``custom:URL#MODEL``.

    Nothing is loaded and no server is called before the first text.

    Raises:
        ConfigError: The provider is unknown, or a package that it needs is not installed.
    """
    provider, _, rest = spec.partition(":")
    if provider in ONE_MODEL and rest:
        raise ConfigError(
            f"'{spec}' names a model, but the embedder '{provider}' has only one.",
            code="no_choice_of_models",
            subject=provider,
        )
    if provider == "none":
        from plait.embedders.none import NoEmbedder

        return NoEmbedder()
    if provider == "builtin":
        from plait.embedders.builtin import Builtin

        return Builtin()
    if provider in PROVIDERS:
        return _open_external(provider, rest, options)
    raise ConfigError(
        f"Unknown embedder '{spec}'.",
        code="unknown_embedder",
        subject=spec,
        advice=advise("choose", choices=", ".join((*PROVIDERS, "hashing"))),
    )


def _open_external(provider: str, rest: str, options: EmbedderOptions) -> Embedder:
    model, dims, known = rest or options.model, options.dims, options.known
    if provider == "fastembed":
        from plait.embedders.fastembed import Fastembed

        return Fastembed(model, folder=options.folder, dims=dims, known=known)
    if provider == "ollama":
        from plait.embedders.ollama import Ollama

        url = options.ollama_url
        return Ollama(model, url=url, dims=dims, known=known, key=options.key)
    from plait.embedders.openai import Custom, OpenAI

    if provider == "openai":
        return OpenAI(model, dims=dims, known=known, key=options.key)
    if provider == "custom":
        return Custom(rest, model=options.model, dims=dims, known=known, key=options.key)
    raise AssertionError(f"PROVIDERS lists {provider}, but nothing opens it")
