"""models: list embedders, or download a model for fastembed."""

import os
from argparse import ArgumentParser, Namespace

from plait.cli import Output, to_run
from plait.cli.search import open_to_read
from plait.embedders import PROVIDERS
from plait.errors import UsageError, shell_word


def models_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait models``."""
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        choices=("list", "pull"),
        metavar="ACTION",
        help="list: print the embedders; pull: download a model for fastembed",
    )
    # subtle: named `model`, it would overwrite the value of the global option --model.
    parser.add_argument("name", nargs="?", metavar="MODEL", help="pull: a fastembed model")


def models_run(arguments: Namespace, out: Output) -> int:
    """Print the embedders, or download a model."""
    if arguments.action == "pull":
        return _pull(arguments.name, out)
    if arguments.name is not None:
        raise UsageError(
            f"plait models list takes no name, got '{arguments.name}'. "
            f"{to_run('To download it: plait models pull')} {shell_word(arguments.name, 'MODEL')}"
        )
    with open_to_read(out) as memory:
        used = memory.embedder.space
    downloaded = sorted(_downloaded(out.config.models_folder))
    lines = []
    for name, provider in PROVIDERS.items():
        mark = "*" if name == used.provider else " "
        lines.append(f"{mark} {name:<10} {provider.summary}")
    lines += [f"    fastembed:{model}" for model in downloaded]
    change = to_run("To change it: plait reindex --embedder NAME, then:")
    lines += [f"In use: {used}. {change}", to_run("plait config set embedding_provider NAME")]
    value = {"providers": list(PROVIDERS), "used": used._asdict(), "fetched": downloaded}
    out.result(value, "\n".join(lines))
    return 0


def _pull(name: str | None, out: Output) -> int:
    from plait.embedders.fastembed import pull

    model = pull(name, out.config.models_folder, progress=out.on_terminal and not out.quiet)
    use = to_run("To use it: plait reindex --embedder")
    text = f"Downloaded {model}. {use} fastembed:{model}"
    out.result({"model": model, "folder": out.config.models_folder}, text)
    return 0


def _downloaded(folder: str) -> list[str]:
    """Return the models in the folder, which has the layout of the Hugging Face cache."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return [
        name.removeprefix("models--").replace("--", "/")
        for name in names
        if name.startswith("models--")
    ]
