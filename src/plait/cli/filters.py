"""The filter options that search, timeline, delete and export share."""

from argparse import ArgumentParser, Namespace
from typing import Any

from plait.types import KINDS, MEMORY_TYPES, TRUSTS

# Option, field of Filter, help. All may be given several times.
_LISTS = (
    ("--kind", "kinds", f"only this kind: {', '.join(KINDS)}"),
    ("--memory-type", "memory_types", f"only this kind of memory: {', '.join(MEMORY_TYPES)}"),
    ("--type", "types", "only this type: decision, fact, …"),
    ("--tag", "tags", "only documents with this tag"),
    ("--trust", "trusts", f"only documents trusted so: {', '.join(TRUSTS)}"),
)
_VALUES = (
    ("--key-prefix", "key_prefix", "TEXT", "only documents whose key starts so"),
    ("--path", "path_prefix", "PATH", "only this file, or the files below this folder"),
    ("--source", "source", "FOLDER", "only files of this ingested folder"),
    ("--session", "session", "NAME", "only this session"),
    ("--since", "since", "TIME", "from this time on: 2026-03-01, 7d, today"),
    ("--until", "until", "TIME", "before this time"),
    ("--as-of", "as_of", "TIME", "what was valid at this time"),
)


def add_filters(parser: ArgumentParser) -> None:
    """Declare the filter options."""
    group = parser.add_argument_group(
        "filters", "All must hold. Several --tag must all be there; of the other lists, any one."
    )
    for flag, name, words in _LISTS:
        group.add_argument(flag, dest=name, action="append", metavar="X", default=[], help=words)
    for flag, name, value, words in _VALUES:
        group.add_argument(flag, dest=name, metavar=value, default=None, help=words)
    group.add_argument(
        "--metadata",
        dest="metadata",
        action="append",
        metavar="K=V",
        default=[],
        help="only documents with this metadata",
    )
    group.add_argument("--all-versions", action="store_true", help="superseded facts too")
    group.add_argument(
        "--all-projects", action="store_true", help="every project, not only this one and personal"
    )


def filters_of(arguments: Namespace) -> dict[str, Any]:
    """The fields of `Filter` that were asked for."""
    given = vars(arguments)
    found: dict[str, Any] = {name: tuple(given[name]) for _, name, _ in _LISTS if given.get(name)}
    found.update({name: given[name] for _, name, *_ in _VALUES if given.get(name) is not None})
    for name in ("path_prefix", "source"):
        if name in found:
            found[name] = _place(found[name], is_source=name == "source")
    if given.get("metadata"):
        found["metadata"] = tuple(pair(text) for text in given["metadata"])
    if given.get("all_versions"):
        found["all_versions"] = True
    return found


def _place(path: str, *, is_source: bool) -> str:
    """The path as ingest recorded it: absolute, with the links above it resolved."""
    import os

    path = os.path.abspath(os.path.expanduser(path))
    if is_source:
        return os.path.realpath(path)
    if os.path.isdir(path):
        # With the separator at its end, `--path notes` leaves `notes-old` alone.
        return os.path.join(os.path.realpath(path), "")
    path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    # A folder that is gone can only be told from a file by its name.
    is_file = os.path.exists(path) or os.path.splitext(path)[1]
    return path if is_file else os.path.join(path, "")


def pair(text: str) -> tuple[str, str]:
    """``key=value`` taken apart.

    >>> pair("author=Ana")
    ('author', 'Ana')
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        from plait.errors import UsageError

        raise UsageError(f"'{text}' is not KEY=VALUE. Write it as in: --metadata author=Ana")
    return name, value
