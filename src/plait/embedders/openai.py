"""The OpenAI protocol: OpenAI itself, and every server that speaks as it does.

LM Studio, llama.cpp, vLLM, TEI, Infinity and LocalAI are reached as ``custom:URL#MODEL``.
"""

from collections.abc import Sequence

from plait.embedders.address import parse_address
from plait.embedders.served import Served
from plait.embedders.transport import LIMITS, Client, FindKey, Limits, Refused, no_key
from plait.errors import ConfigError, EmbedderError
from plait.types import Finding, Space

URL = "https://api.openai.com/v1"
DEFAULT_MODEL = "text-embedding-3-small"
# Sent to a custom server when nobody has named a model: those that serve only one do not care.
ANY_MODEL = "default"
# Fixed by OpenAI; elsewhere a name promises nothing.
DIMS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}


class OpenAI(Served):
    """A model of OpenAI's, which reads every text that is stored. It needs a key."""

    provider = "openai"
    # OpenAI takes 2,048; with 3,072 numbers each, more than this could pass our limit on answers.
    most_texts = 512
    # OpenAI takes 300,000 tokens, and none of them is shorter than a byte.
    most_bytes = 300_000

    def __init__(
        self,
        model: str | None = None,
        *,
        url: str = URL,
        dims: int | None = None,
        known: Space | None = None,
        key: FindKey = no_key,
        limits: Limits = LIMITS,
    ) -> None:
        name, set_key = self._names(url)
        client = Client(name, parse_address(url), key=key, set_key=set_key, limits=limits)
        super().__init__(client, model or DEFAULT_MODEL, dims, known)
        if url == URL:
            self.dims = self.dims or DIMS.get(self.model)

    def _names(self, url: str) -> tuple[str, str]:
        """What to call the server, and the command that sets its key."""
        return "OpenAI", "plait config set-key openai"

    def _ask(self, texts: Sequence[str], *, patient: bool) -> object:
        if self.client.address.url == URL and self.client.key is None:
            # Nobody should read a text that he will then refuse to embed.
            raise EmbedderError(f"OpenAI needs a key. Run: {self._names('')[1]}")
        body: dict[str, object] = {"model": self.model, "input": list(texts)}
        # Many servers refuse a request that holds this name.
        if self._asked_dims:
            body["dimensions"] = self._asked_dims
        data = _data(self.client.post("/embeddings", body, patient=patient))
        return None if data is None else self._in_order(data)

    def _in_order(self, data: list[object]) -> list[object]:
        """The vectors in the order of the texts, by the index that each of them carries."""
        found: dict[int, object] = {}
        for number, row in enumerate(data):
            index = row.get("index", number) if isinstance(row, dict) else None
            if type(index) is int and isinstance(row, dict):
                found[index] = row.get("embedding")
        if found.keys() != set(range(len(data))):
            raise EmbedderError(f"{self.client.name} numbered its vectors wrongly.")
        return [found[number] for number in range(len(data))]

    def _look(self) -> Finding:
        if self.client.key is None and self.client.address.url == URL:
            return Finding("embedder", "error", f"OpenAI needs a key. Run: {self._names('')[1]}")
        try:
            data = _data(self.client.get("/models")) or []
        except Refused as error:
            if error.status not in (404, 405):
                raise
            data = []  # a server that does not list its models is there all the same
        names = {row.get("id") for row in data if isinstance(row, dict)}
        if names and self.model not in names and self.model != ANY_MODEL:
            message = f"{self.client.name} answers, but does not list the model '{self.model}'"
            return Finding("embedder", "warning", message)
        return Finding("embedder", "ok", f"{self.client.name} answers")


class Custom(OpenAI):
    """Any server that speaks as OpenAI does; its place is written ``URL#MODEL``.

    Without a model the one of ``model`` counts, and without either the server's only one.
    """

    provider = "custom"
    # What a TEI server takes unless it is told otherwise.
    most_texts = 32

    def __init__(
        self,
        place: str,
        *,
        model: str | None = None,
        dims: int | None = None,
        known: Space | None = None,
        key: FindKey = no_key,
        limits: Limits = LIMITS,
    ) -> None:
        url, _, named = place.partition("#")
        if not url:
            raise ConfigError("A custom embedder needs its URL: custom:http://localhost:1234/v1")
        url = url.rstrip("/").removesuffix("/embeddings")
        model = named or model or ANY_MODEL
        super().__init__(model, url=url, dims=dims, known=known, key=key, limits=limits)

    def _names(self, url: str) -> tuple[str, str]:
        return "The embedder", f"plait config set-key custom --url {url}"


def _data(answer: object) -> list[object] | None:
    data = answer.get("data") if isinstance(answer, dict) else None
    return data if isinstance(data, list) else None
