"""models: which embedders there are, and fetching one for fastembed."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable

from plait.cli.output import Output
from plait.cli.read import open_to_read
from plait.embedders import PROVIDERS
from plait.errors import UsageError

WHAT_THEY_ARE = {
    "builtin": "plait's own model: 256 dims, many languages, no download, nothing leaves here",
    "none": "no vectors: keyword search alone",
    "fastembed": "ONNX models on this machine; fetch one with: plait models pull",
    "ollama": "models that Ollama serves, as in ollama:nomic-embed-text",
    "openai": "OpenAI's, as in openai:text-embedding-3-small; needs a key and sends text there",
    "custom": "any server that speaks as OpenAI does: custom:http://localhost:1234/v1#MODEL",
}


def models_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait models``."""
    parser.add_argument(
        "act", nargs="?", default="list", choices=("list", "pull"), help="list, or fetch one"
    )
    # subtle: --model is a global option, and its value must not be overwritten by this one.
    parser.add_argument("name", nargs="?", metavar="MODEL", help="one that fastembed knows")


def models_run(arguments: Namespace, out: Output) -> int:
    """Show the embedders, or fetch a model."""
    if arguments.act == "pull":
        return _pull(arguments.name, out)
    if arguments.name is not None:
        raise UsageError(f"'{arguments.name}' is too much. To fetch it: plait models pull MODEL")
    with open_to_read(out) as memory:
        used = memory.embedder.space
    here = sorted(_fetched(out.config.models_folder))
    lines = []
    for name in PROVIDERS:
        mark = "*" if name == used.provider else " "
        lines.append(f"{mark} {name:<10} {WHAT_THEY_ARE[name]}")
    lines += [f"    fastembed:{model}" for model in here]
    lines.append(f"In use: {used}. Another one: plait reindex --embedder NAME, and to keep it:")
    lines.append("plait config set embedding_provider NAME")
    value = {"providers": list(PROVIDERS), "used": used._asdict(), "fetched": here}
    out.result(value, "\n".join(lines))
    return 0


def _pull(name: str | None, out: Output) -> int:
    from plait.embedders.fastembed import pull

    model = pull(name, out.config.models_folder, progress=out.on_terminal and not out.quiet)
    text = f"{model} is here. Use it with: plait reindex --embedder fastembed:{model}"
    out.result({"model": model, "folder": out.config.models_folder}, text)
    return 0


def _fetched(folder: str) -> Iterable[str]:
    """Models in the folder, by the names that the hub's cache gives them."""
    try:
        found = os.listdir(folder)
    except FileNotFoundError:
        return []
    return [
        name.removeprefix("models--").replace("--", "/")
        for name in found
        if name.startswith("models--")
    ]
