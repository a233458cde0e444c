"""An embedder behind a server: texts go out in batches that it takes, sound vectors come back."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from plait.embedders.prefixes import prefixes_of
from plait.embedders.transport import Client, Refused, TooSlow
from plait.embedders.unit import unit_vectors
from plait.errors import ConfigError, EmbedderError
from plait.protocols import Vector
from plait.types import Finding, Space, TextKind, Tuning

# Texts that even a machine without a graphics card embeds within the time limit.
SLOW_BATCH = 4
# Texts refused one after the other that mean more than texts that a model cannot stomach.
REFUSED_IN_A_ROW = 3
# Characters. A text is halved until it is taken, but not below this: a server that finds so few too
# many means something else.
SHORTEST = 64
# Measured nowhere yet: models of this size beat the keyword search on most collections and are
# beaten on some, and their cosines are known to bunch up high, so the evidence is read cautiously.
TUNING = Tuning(
    keyword_weight=0.5, vector_weight=0.5, floor=0.3, ceiling=0.85, external=True, max_chars=8_000
)


class Served(ABC):
    """What all servers have in common; a subclass knows one protocol."""

    provider = ""
    most_texts = 32
    # UTF-8 bytes per request.
    most_bytes = 1_000_000
    tuning = TUNING

    def __init__(
        self, client: Client, model: str, dims: int | None = None, known: Space | None = None
    ) -> None:
        self.client = client
        self.model = model
        self._asked_dims = dims
        self._prefixes = prefixes_of(model)
        self.dims = dims or self._dims_of(known) or None
        self._limit = self.most_texts

    @property
    def space(self) -> Space:
        """Identity of the vectors; its ``dims`` are 0 until the server has told them."""
        return self._space(self.dims or 0)

    def forget_dims(self) -> None:
        """Take vectors of any length again, unless one was asked for: the model may be another."""
        self.dims = self._asked_dims

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        """One unit vector per text, in order; a text without a visible character has none.

        A query is asked once. For passages passing troubles are sat out, a batch or a text that
        the server finds too large is halved, and a text that it refuses among others has none.

        Raises:
            EmbedderError: The server is down, refuses, or answered nonsense.
        """
        wanted = [number for number, text in enumerate(texts) if text.strip()]
        prefix = self._prefixes.before(kind)
        full = [prefix + _sendable(texts[number]) for number in wanted]
        vectors = self._all(full, len(prefix), kind)
        found: list[Vector | None] = [None] * len(texts)
        for number, vector in zip(wanted, vectors, strict=True):
            found[number] = vector
        return found

    def _all(self, full: list[str], prefix: int, kind: TextKind) -> list[Vector | None]:
        vectors: list[Vector | None] = []
        limit = self._limit
        refusals = 0
        while len(vectors) < len(full):
            batch = self._batch(full, len(vectors), limit)
            try:
                # Passing troubles are sat out once; a batch that was halved has had its chance.
                vectors += self._vectors(batch, patient=kind == "passage" and not refusals)
            except TooSlow:
                if kind == "query" or len(batch) <= SLOW_BATCH:
                    raise
                # It will not be faster the next time.
                limit = self._limit = SLOW_BATCH
            except Refused as error:
                if not (error.too_large or (error.about_text and kind == "passage")):
                    raise
                if not error.too_large:
                    refusals += 1
                if len(batch) == 1:
                    _give_way(full, vectors, prefix, error)
                limit = max(1, len(batch) // 2)
            else:
                # One text among many made it small: the others need not suffer.
                limit, refusals = min(2 * limit, self._limit), 0
        return vectors

    def check(self) -> list[Finding]:
        """Whether the server is there and can be used; for ``doctor``."""
        try:
            return [self._look()]
        except (EmbedderError, ConfigError) as error:
            return [Finding("embedder", "error", str(error))]

    @abstractmethod
    def _look(self) -> Finding:
        """Whether the server is there and has the model."""

    @abstractmethod
    def _ask(self, texts: Sequence[str], *, patient: bool) -> object:
        """Put the question; the list in the answer that should hold one vector per text."""

    def _space(self, dims: int) -> Space:
        return Space(
            self.provider,
            self.model,
            dims,
            host=self.client.address.identity,
            prefix=self._prefixes.identity,
        )

    def _dims_of(self, known: Space | None) -> int | None:
        """The dimensions of the memory's vectors, where they are ours."""
        return known.dims if known is not None and known == self._space(known.dims) else None

    def _batch(self, texts: Sequence[str], start: int, limit: int) -> Sequence[str]:
        """As many of the texts as one request may hold, one at least."""
        size = 0
        for end in range(start, min(len(texts), start + limit)):
            size += len(texts[end].encode())
            if size > self.most_bytes and end > start:
                return texts[start:end]
        return texts[start : start + limit]

    def _vectors(self, texts: Sequence[str], *, patient: bool) -> list[Vector]:
        answers = self._ask(texts, patient=patient)
        name = self.client.name
        if not isinstance(answers, list):
            raise EmbedderError(f"{name} answered without vectors.")
        if len(answers) != len(texts):
            # Which vector belongs to which text is anybody's guess: take none of them.
            raise EmbedderError(f"{name} gave {len(answers)} vectors for {len(texts)} texts.")
        vectors = unit_vectors(answers, self.dims, name)
        self.dims = len(vectors[0])
        return vectors


def _give_way(full: list[str], vectors: list[Vector | None], prefix: int, error: Refused) -> None:
    """Shorten the text that was refused alone, or go on without it.

    One text that a model cannot stomach must not keep all others waiting; but where the next ones
    fare no better, or no other text is taken either, it is the server that has the trouble.
    """
    if error.too_large:
        full[len(vectors)] = _shortened(full[len(vectors)], prefix + SHORTEST, error)
        return
    in_a_row = [None] * (REFUSED_IN_A_ROW - 1)
    if vectors[-len(in_a_row) :] == in_a_row or (
        len(full) == len(vectors) + 1 and not any(vectors)
    ):
        raise error
    vectors.append(None)


def _sendable(text: str) -> str:
    """Without half characters and NUL, at which some servers stop reading."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()


def _shortened(text: str, least: int, error: Refused) -> str:
    """The first half of a text; the error again where there is too little left to halve."""
    half = len(text) // 2
    if half < least:
        raise error
    return text[:half]
