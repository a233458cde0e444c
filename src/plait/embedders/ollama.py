"""Ollama's own protocol: a list of texts to ``/api/embed``. Models are never pulled."""

from collections.abc import Sequence

from plait.embedders.address import Address, parse_address
from plait.embedders.served import Served
from plait.embedders.transport import LIMITS, Client, FindKey, Limits, Refused, no_key
from plait.errors import EmbedderError, advise
from plait.types import Space
from plait.types.reports import Finding

OLLAMA_MODEL = "nomic-embed-text"
OLLAMA_PORT = 11434
# Addresses that a server listens on to be reached from everywhere; a client cannot connect to them.
LISTEN_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "::1"}


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
        client = Client(
            "Ollama",
            address,
            key=key,
            set_key=advise("set_server_key", provider="ollama", url=address.url),
            start=advise("start_ollama") if address.is_loopback else None,
            limits=limits,
        )
        super().__init__(client, model or OLLAMA_MODEL, dims, known)

    def _ask(self, texts: Sequence[str], *, patient: bool) -> object:
        # The model reads the beginning of a text that is too long for it.
        body: dict[str, object] = {"model": self.model, "input": list(texts), "truncate": True}
        if self._asked_dims:
            body["dimensions"] = self._asked_dims
        try:
            answer = self.client.post("/api/embed", body, patient=patient)
        except Refused as error:
            if error.status == 404:
                raise self._unknown_model() from error
            raise
        self._note_model(answer)
        return answer.get("embeddings") if isinstance(answer, dict) else None

    def _look(self) -> Finding:
        answer = self.client.get("/api/tags")
        models = answer.get("models") if isinstance(answer, dict) else None
        if not isinstance(models, list):
            raise EmbedderError(f"{self.client.name} does not list its models.", code="no_models")
        names = {str(model.get("name")) for model in models if isinstance(model, dict)}
        if {self.model, f"{self.model}:latest"} & names:
            return Finding("embedder", "ok", f"{self.client.name} has {self.model}")
        raise self._unknown_model()

    def _unknown_model(self) -> EmbedderError:
        return EmbedderError(
            f"{self.client.name} has no model '{self.model}'.",
            code="unknown_model",
            subject=self.model,
            advice=advise("pull_ollama_model", model=self.model),
        )


def ollama_address(text: str) -> Address:
    """Return where Ollama is; the text may have any form that ``OLLAMA_HOST`` may have.

    >>> ollama_address("0.0.0.0").url, ollama_address("gpu:8080").url
    ('http://127.0.0.1:11434', 'http://gpu:8080')
    >>> ollama_address("https://ollama.example.com").origin
    'https://ollama.example.com:443'

    Raises:
        ConfigError: The text has none of these forms.
    """
    text = text.strip().strip("\"'")
    if "://" in text:
        address = parse_address(text)
    else:
        host, slash, path = text.partition("/")
        if host.startswith(":") and host[1:].isdigit():
            host = f"localhost{host}"
        elif host.count(":") > 1 and not host.startswith("["):
            host = f"[{host}]"
        address = parse_address(f"http://{host or 'localhost'}{slash}{path}")
        # Without a scheme the default port is Ollama's; with one it is that of http or https.
        if not host.rpartition("]")[2].rpartition(":")[1]:
            address = address._replace(port=OLLAMA_PORT)
    return address._replace(host=LISTEN_ADDRESSES.get(address.host, address.host))
