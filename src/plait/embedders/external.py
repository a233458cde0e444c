"""What fastembed and the servers have in common: the identity, size and prefixes of a model."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from plait.embedders import CANARY, Embedder, checked_vectors
from plait.embedders.prefixes import prefixes_of
from plait.protocols import Vector
from plait.types import Space, TextKind, Tuning

# Not measured yet. Models of this size beat keyword search on most collections but not on all, and
# their cosines lie close together near 1: treat them as weak evidence.
EXTERNAL_TUNING = Tuning(
    keyword_weight=0.5,
    vector_weight=0.5,
    unrelated=0.45,
    spread=0.08,
    external=True,
    max_chars=8_000,
)


class ExternalEmbedder(Embedder, ABC):
    """An external model. Its first answer shows the length of its vectors.

    Args:
        model: Its name; the prefixes of queries and passages follow from it.
        dims: The length to ask for; ``None``: whatever the model gives.
        known: The space of the memory's vectors; if this model made them, their length is known.
        host: Where the model is served; empty for this process.
    """

    provider = ""
    dims: int | None
    tuning = EXTERNAL_TUNING

    def __init__(
        self,
        model: str,
        *,
        dims: int | None = None,
        known: Space | None = None,
        host: str = "",
    ) -> None:
        self.model = model
        self._host = host
        self._asked_dims = dims
        self._prefixes = prefixes_of(model)
        self.dims = dims or None
        if dims is None and known is not None and known == self._space(known.dims):
            self.dims = known.dims or None

    @property
    def space(self) -> Space:
        """Identity of the vectors; its ``dims`` are 0 until the first answer."""
        return self._space(self.dims or 0)

    def forget_dims(self) -> None:
        """Accept vectors of any length again, unless a length was asked for."""
        self.dims = self._asked_dims

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        """Return one unit vector per text, in order; ``None`` for a text that has none.

        Raises:
            EmbedderError: The model cannot be used, or its answer is invalid.
        """
        numbers = [number for number, text in enumerate(texts) if text.strip()]
        prefix = self._prefixes.before(kind)
        inputs = [self._input(texts[number], kind) for number in numbers]
        vectors: list[Vector | None] = [None] * len(texts)
        if inputs:
            rows = self._embed_inputs(inputs, kind, len(prefix))
            for number, vector in zip(numbers, rows, strict=True):
                vectors[number] = vector
        return vectors

    def embed_with_sample(self, text: str) -> tuple[Vector | None, Vector | None]:
        """Return the vectors of a query and of `CANARY`, each with its prefix, in one request.

        Raises:
            EmbedderError: The model cannot be used, or its answer is invalid.
        """
        if not text.strip():
            return super().embed_with_sample(text)
        inputs = [self._input(text, "query"), self._input(CANARY, "passage")]
        prefix_chars = len(self._prefixes.before("query"))
        vector, sample = checked_vectors(
            lambda: self._embed_inputs(inputs, "query", prefix_chars),
            len(inputs),
            type(self).__name__,
        )
        return vector, sample

    def _input(self, text: str, kind: TextKind) -> str:
        # Lone surrogates can be neither sent nor read by a tokenizer.
        return self._prefixes.before(kind) + text.encode("utf-8", "replace").decode()

    @abstractmethod
    def _embed_inputs(
        self, inputs: list[str], kind: TextKind, prefix_chars: int
    ) -> Sequence[Vector | None]:
        """Return one vector per input; each is a text with visible characters, prefix included."""

    def _space(self, dims: int) -> Space:
        return Space(
            self.provider, self.model, dims, host=self._host, prefix=self._prefixes.identity
        )
