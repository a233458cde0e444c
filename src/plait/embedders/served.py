"""An embedder behind a server: send texts in batches that it accepts, and check its vectors."""

from abc import abstractmethod
from collections.abc import Sequence

from plait.embedders.external import ExternalEmbedder
from plait.embedders.transport import Client, Refused, TooSlow
from plait.embedders.unit import unit_vectors
from plait.errors import ConfigError, EmbedderError
from plait.protocols import Vector
from plait.types import Space, TextKind
from plait.types.reports import Finding, finding_of

# A batch that even a machine without a GPU embeds within the time limit.
SLOW_BATCH = 4
# If this many texts in a row are refused, the server is failing, not the texts.
REFUSED_IN_A_ROW = 3
# Characters. A text that is too large is halved, but not below this: a server that refuses so short
# a text means something else.
SHORTEST = 64


class Served(ExternalEmbedder):
    """Common to all servers: batches, retries, refusals; a subclass knows one protocol."""

    most_texts = 32
    # UTF-8 bytes per request.
    most_bytes = 1_000_000

    def __init__(
        self, client: Client, model: str, dims: int | None = None, known: Space | None = None
    ) -> None:
        super().__init__(model, dims=dims, known=known, host=client.address.identity)
        self.client = client
        self._limit = self.most_texts

    def _embed_inputs(
        self, inputs: list[str], kind: TextKind, prefix_chars: int
    ) -> list[Vector | None]:
        """Send the inputs in batches that the server accepts.

        A query is sent once. Passages are retried after a temporary failure; a batch or a text
        that is too large for the server is halved; a single text that it refuses has no vector.
        """
        # Some servers stop reading at NUL.
        full = [text.replace("\0", " ") for text in inputs]
        vectors: list[Vector | None] = []
        limit = self._limit
        refusals = 0
        while len(vectors) < len(full):
            batch = self._batch(full, len(vectors), limit)
            try:
                # A batch that was halved has already been retried.
                vectors += self._vectors(batch, patient=kind == "passage" and not refusals)
            except TooSlow:
                if kind == "query" or len(batch) <= SLOW_BATCH:
                    raise
                # The server would be just as slow next time.
                limit = self._limit = SLOW_BATCH
            except Refused as error:
                if not (error.too_large or (error.about_text and kind == "passage")):
                    raise
                if not error.too_large:
                    refusals += 1
                if len(batch) == 1:
                    _give_way(full, vectors, prefix_chars, error)
                limit = max(1, len(batch) // 2)
            else:
                # One text may have made the batch small; the others can be sent together.
                limit, refusals = min(2 * limit, self._limit), 0
        return vectors

    def check(self) -> list[Finding]:
        """Return for ``doctor`` whether the server answers and has the model."""
        try:
            return [self._look()]
        except (EmbedderError, ConfigError) as error:
            return [finding_of(error)]

    @abstractmethod
    def _look(self) -> Finding:
        """Ask whether the server answers and has the model."""

    def _note_model(self, answer: object) -> None:
        """Remember what the server calls the model that answered."""
        name = answer.get("model") if isinstance(answer, dict) else None
        if isinstance(name, str):
            self.answered_as = name

    @abstractmethod
    def _ask(self, texts: Sequence[str], *, patient: bool) -> object:
        """Send the texts; return the list that should contain one vector per text."""

    def _batch(self, texts: Sequence[str], start: int, limit: int) -> Sequence[str]:
        """Return as many of the texts as one request may hold, at least one."""
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
            raise EmbedderError(f"{name} answered without vectors.", code="no_vectors")
        if len(answers) != len(texts):
            # It is not known which vector belongs to which text: use none of them.
            raise EmbedderError(
                f"{name} returned {len(answers)} vectors for {len(texts)} texts.",
                code="wrong_count",
            )
        vectors = unit_vectors(answers, self.dims, name)
        self.dims = len(vectors[0])
        return vectors


def _give_way(full: list[str], vectors: list[Vector | None], prefix: int, error: Refused) -> None:
    """Shorten the text that was refused alone, or leave it without a vector.

    One text that the model cannot handle must not keep all others waiting. But if the next texts
    are refused too, or no text was accepted at all, the server fails and the error is raised.
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


def _shortened(text: str, least: int, error: Refused) -> str:
    """Return the first half of a text; raise the error if the text is too short to halve."""
    half = len(text) // 2
    if half < least:
        raise error
    return text[:half]
