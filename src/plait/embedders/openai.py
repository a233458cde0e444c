"""The OpenAI protocol: OpenAI itself, and other servers that speak it.

LM Studio, llama.cpp, vLLM, TEI, Infinity and LocalAI are reached as ``custom:URL#MODEL``.
"""

from collections.abc import Sequence

from plait.embedders.address import parse_address
from plait.embedders.served import Served
from plait.embedders.transport import LIMITS, Client, FindKey, Limits, Refused, no_key
from plait.errors import Advice, ConfigError, EmbedderError, advise
from plait.types import Space
from plait.types.reports import Finding

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_MODEL = "text-embedding-3-small"
# Sent to a custom server if no model is set: servers with a single model ignore the name.
ANY_MODEL = "default"
# Fixed by OpenAI; on other servers these names may mean other models.
OPENAI_DIMS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}


class OpenAI(Served):
    """A model of OpenAI. It needs a key, and OpenAI reads every text that is stored."""

    provider = "openai"
    title = "OpenAI"
    # OpenAI accepts 2,048, but with 3,072 numbers each the answer could exceed our limit.
    most_texts = 512
    # OpenAI accepts 300,000 tokens, and a token is at least one byte.
    most_bytes = 300_000

    def __init__(
        self,
        model: str | None = None,
        *,
        url: str = OPENAI_URL,
        dims: int | None = None,
        known: Space | None = None,
        key: FindKey = no_key,
        limits: Limits = LIMITS,
    ) -> None:
        address, set_key = parse_address(url), self._set_key(url)
        client = Client(self.title, address, key=key, set_key=set_key, limits=limits)
        super().__init__(client, model or OPENAI_MODEL, dims, known)
        if url == OPENAI_URL:
            self.dims = self.dims or OPENAI_DIMS.get(self.model)

    def _set_key(self, url: str) -> Advice:
        """Return the advice that an error about the key gives."""
        return advise("set_key", provider="openai")

    def _ask(self, texts: Sequence[str], *, patient: bool) -> object:
        self._require_key()  # before a text is sent that would be refused
        body: dict[str, object] = {"model": self.model, "input": list(texts)}
        # Many servers refuse a request with this field.
        if self._asked_dims:
            body["dimensions"] = self._asked_dims
        answer = self.client.post("/embeddings", body, patient=patient)
        self._note_model(answer)
        data = _data(answer)
        return None if data is None else self._in_order(data)

    def _require_key(self) -> None:
        if self.client.address.url == OPENAI_URL and self.client.key is None:
            raise EmbedderError(
                "OpenAI needs a key.",
                code="no_key",
                subject="openai",
                advice=self._set_key(self.client.address.url),
            )

    def _in_order(self, data: list[object]) -> list[object]:
        """Return the vectors in the order of the texts, by the index that each row has."""
        vectors: dict[int, object] = {}
        for number, row in enumerate(data):
            index = row.get("index", number) if isinstance(row, dict) else None
            if type(index) is int and isinstance(row, dict):
                vectors[index] = row.get("embedding")
        if vectors.keys() != set(range(len(data))):
            raise EmbedderError(
                f"{self.client.name} returned vectors with wrong indexes.", code="wrong_count"
            )
        return [vectors[number] for number in range(len(data))]

    def _look(self) -> Finding:
        self._require_key()
        try:
            data = _data(self.client.get("/models")) or []
        except Refused as error:
            if error.status not in (404, 405):
                raise
            data = []  # it answers, even if it does not list its models
        names = {row.get("id") for row in data if isinstance(row, dict)}
        if names and self.model not in names and self.model != ANY_MODEL:
            text = f"{self.client.name} answers, but does not list the model '{self.model}'."
            return Finding("embedder", "warning", text, code="unknown_model")
        return Finding("embedder", "ok", f"{self.client.name} answers")


class Custom(OpenAI):
    """Any server that speaks OpenAI's protocol, written ``URL#MODEL``.

    Without a model there, ``model`` counts; without either, the server's only model.
    """

    provider = "custom"
    title = "The embedder"
    # The default limit of a TEI server.
    most_texts = 32

    def __init__(
        self,
        url_and_model: str,
        *,
        model: str | None = None,
        dims: int | None = None,
        known: Space | None = None,
        key: FindKey = no_key,
        limits: Limits = LIMITS,
    ) -> None:
        url, _, named = url_and_model.partition("#")
        if not url:
            raise ConfigError(
                "A custom embedder needs its URL, as in custom:http://localhost:1234/v1.",
                code="no_address",
                subject="custom",
            )
        url = url.rstrip("/").removesuffix("/embeddings")
        model = named or model or ANY_MODEL
        super().__init__(model, url=url, dims=dims, known=known, key=key, limits=limits)

    def _set_key(self, url: str) -> Advice:
        return advise("set_server_key", provider="custom", url=url)


def _data(answer: object) -> list[object] | None:
    data = answer.get("data") if isinstance(answer, dict) else None
    return data if isinstance(data, list) else None
