"""Ollama's own protocol: a list of texts to ``/api/embed``. Nothing is ever pulled."""

from collections.abc import Sequence

from plait.embedders.address import Address, parse_address
from plait.embedders.served import Served
from plait.embedders.transport import LIMITS, Client, FindKey, Limits, Refused, no_key
from plait.errors import EmbedderError
from plait.types import Finding, Space

DEFAULT_MODEL = "nomic-embed-text"
DEFAULT_PORT = 11434
# What a server listens on to be reached from everywhere; a client cannot go there.
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Ollama(Served):
    """A model that Ollama serves, on this machine or another."""

    provider = "ollama"

    def __init__(
        self,
        model: str | None = None,
        *,
        url: str = "",
        dims: int | None = None,
        known: Space | None = None,
        key: FindKey = no_key,
        limits: Limits = LIMITS,
    ) -> None:
        address = ollama_address(url)
        set_key = f"plait config set-key ollama --url {address.url}"
        start = "ollama serve" if address.is_loopback else ""
        client = Client("Ollama", address, key=key, set_key=set_key, start=start, limits=limits)
        super().__init__(client, model or DEFAULT_MODEL, dims, known)

    def _ask(self, texts: Sequence[str], *, patient: bool) -> object:
        # A text that is longer than the model reads loses its end, as everywhere else.
        body: dict[str, object] = {"model": self.model, "input": list(texts), "truncate": True}
        if self._asked_dims:
            body["dimensions"] = self._asked_dims
        try:
            answer = self.client.post("/api/embed", body, patient=patient)
        except Refused as error:
            if error.status == 404:
                raise EmbedderError(self._without_model()) from error
            raise
        return answer.get("embeddings") if isinstance(answer, dict) else None

    def _look(self) -> Finding:
        answer = self.client.get("/api/tags")
        models = answer.get("models") if isinstance(answer, dict) else None
        if not isinstance(models, list):
            raise EmbedderError(f"{self.client.name} does not list its models.")
        names = {str(model.get("name")) for model in models if isinstance(model, dict)}
        if {self.model, f"{self.model}:latest"} & names:
            return Finding("embedder", "ok", f"{self.client.name} has {self.model}")
        return Finding("embedder", "error", self._without_model())

    def _without_model(self) -> str:
        return f"{self.client.name} has no model '{self.model}'. Run: ollama pull {self.model}"


def ollama_address(text: str) -> Address:
    """Where Ollama is, in every form that its own ``OLLAMA_HOST`` may have.

    >>> ollama_address("0.0.0.0").url, ollama_address("gpu:8080").url
    ('http://127.0.0.1:11434', 'http://gpu:8080')
    >>> ollama_address("https://ollama.example.com").origin
    'https://ollama.example.com:443'

    Raises:
        ConfigError: It is none of them.
    """
    text = text.strip().strip("\"'")
    if "://" in text:
        found = parse_address(text)
    else:
        host, slash, path = text.partition("/")
        if host.startswith(":") and host[1:].isdigit():
            host = f"localhost{host}"
        elif host.count(":") > 1 and not host.startswith("["):
            host = f"[{host}]"
        found = parse_address(f"http://{host or 'localhost'}{slash}{path}")
        # Whoever leaves the port out means Ollama's; whoever writes a scheme means the web's.
        if not host.rpartition("]")[2].rpartition(":")[1]:
            found = found._replace(port=DEFAULT_PORT)
    return found._replace(host=EVERYWHERE.get(found.host, found.host))
