"""The prefixes of queries and passages that a model was trained with.

Neither Ollama nor fastembed nor any OpenAI-compatible server adds them; without them the vectors
are worse, and nothing reports it.
"""

import re

from plait.types import TextKind
from plait.types.records import NamedTuple


class Prefixes(NamedTuple):
    """The prefixes of queries and passages."""

    query: str = ""
    passage: str = ""

    def before(self, kind: TextKind) -> str:
        """Return the prefix for this kind of text."""
        return self.query if kind == "query" else self.passage

    @property
    def identity(self) -> str:
        """Both prefixes as one string, stored with the vectors so that a change is noticed.

        >>> Prefixes("query: ", "passage: ").identity
        'query: | passage: '
        """
        return f"{self.query}| {self.passage}" if any(self) else ""


_SENTENCE = Prefixes("Represent this sentence for searching relevant passages: ")
_TASK = "Instruct: Given a web search query, retrieve relevant passages that answer the query\n"

# From the models' cards. The first pattern that matches the name counts.
_TABLE = (
    (r"nomic-embed-text", Prefixes("search_query: ", "search_document: ")),
    (r"\be5\b.*-instruct", Prefixes(f"{_TASK}Query: ")),
    (r"\be5\b", Prefixes("query: ", "passage: ")),
    (r"arctic-embed(?:2|.*-v2)", Prefixes("query: ")),
    (r"arctic-embed", _SENTENCE),
    (r"bge-(?:small|base|large)(?!-zh)", _SENTENCE),
    (r"mxbai-embed", _SENTENCE),
    (r"embedding-?gemma", Prefixes("task: search result | query: ", "title: none | text: ")),
    (r"qwen3-embedding", Prefixes(f"{_TASK}Query:")),
)


def prefixes_of(model: str) -> Prefixes:
    """Return the prefixes of a model; owner, tag and file ending of the name do not matter.

    >>> prefixes_of("intfloat/multilingual-e5-small").query
    'query: '
    >>> prefixes_of("all-minilm:l6-v2")
    Prefixes(query='', passage='')
    """
    name = re.sub(r"[_ ]", "-", model.lower())
    for pattern, prefixes in _TABLE:
        if re.search(pattern, name):
            return prefixes
    return Prefixes()
