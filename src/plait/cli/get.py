"""get: print whole documents or passages."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from plait.cli import NOTHING_FOUND, Output
from plait.cli.search import add_max_tokens, open_to_read
from plait.cli.shared import Rendered, fitted
from plait.cli.suggestions import with_suggestion
from plait.present.json import document_dict, passage_dict
from plait.present.text import document_text, on_a_line, passage_text
from plait.types import Document, Passage


def get_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait get``."""
    parser.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        help="an id or its first six or more characters, a key, or a chunk_id",
    )
    parser.add_argument(
        "--document", action="store_true", help="print the whole document of a passage"
    )
    add_max_tokens(parser)


def get_run(arguments: Namespace, out: Output) -> int:
    """Print documents or passages, and report the names that are unknown."""
    with open_to_read(out) as memory:
        documents, refused = memory.lookup_many(arguments.names)
        successors = memory.successors(document for document, _ in documents)
        secrets = memory.secrets(document for document, _ in documents)

        def as_dict(document: Document, passage: Passage | None) -> dict[str, Any]:
            successor, secret = successors.get(document.id), secrets.get(document.id, ())
            if passage is None or arguments.document:
                return document_dict(document, successor, secret)
            return passage_dict(passage, document, successor, secret)

        def as_text(document: Document, passage: Passage | None) -> str:
            successor = successors.get(document.id)
            if passage is None or arguments.document:
                return document_text(document, successor)
            return passage_text(passage, document, successor)

        def render(rows: Sequence[tuple[Document, Passage | None]], left_out: int) -> Rendered:
            if out.form == "text":
                return "\n\n".join(as_text(*row) for row in rows)
            return {"results": [as_dict(*row) for row in rows], "left_out": left_out}

        left_out = 0
        if documents:
            rendered, left_out = fitted(documents, render, arguments.max_tokens, out)
            out.show(rendered)
        _warn_of_secrets(documents[: len(documents) - left_out], secrets, out)
        for error in refused.values():
            out.error(with_suggestion(memory, error))
        out.flush()
    for error in refused.values():
        return error.exit_code
    return NOTHING_FOUND if left_out == len(documents) else 0


def _warn_of_secrets(
    rows: Sequence[tuple[Document, Passage | None]],
    secrets: Mapping[str, Sequence[str]],
    out: Output,
) -> None:
    """Name the documents that hold secrets; JSON output has a field for it."""
    for document, _ in rows if out.form == "text" else ():
        if document.id in secrets:
            held = ", ".join(secrets[document.id])
            out.warn(f"{on_a_line(document.doc_id)} holds a secret ({held})")
