"""The filter options that search, timeline, delete and export share."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from typing import Any

from plait.cli.verbs import place
from plait.errors import UsageError
from plait.types import KINDS, MEMORY_TYPES, TRUSTS

# Option, field of Filter, allowed values (any where empty), help. All may be given several times.
_LISTS: tuple[tuple[str, str, Sequence[str], str], ...] = (
    ("--kind", "kinds", KINDS, f"only this kind: {', '.join(KINDS)}"),
    (
        "--memory-type",
        "memory_types",
        MEMORY_TYPES,
        f"only this kind of memory: {', '.join(MEMORY_TYPES)}",
    ),
    ("--type", "types", (), "only this type: decision, fact, …"),
    ("--tag", "tags", (), "only documents with this tag"),
    ("--entity", "entity", (), "only what is said of this entity"),
    ("--topic", "topics", (), "only facts of this topic"),
    ("--trust", "trusts", TRUSTS, f"only documents trusted so: {', '.join(TRUSTS)}"),
)
_VALUES = (
    ("--key-prefix", "key_prefix", "TEXT", "only documents whose key starts so"),
    (
        "--path",
        "path_prefix",
        "PATH",
        "only this file, or the files below this folder: on the disk, or as hits show it",
    ),
    ("--source", "source", "FOLDER", "only files of this ingested folder"),
    ("--session", "session", "NAME", "only this session"),
    ("--since", "since", "TIME", "from this time on: 2026-03-01, 7d, today"),
    ("--until", "until", "TIME", "before this time"),
    ("--as-of", "as_of", "TIME", "what was valid at this time"),
)


def add_filters(parser: ArgumentParser) -> None:
    """Declare the filter options."""
    group = parser.add_argument_group(
        "filters",
        "All must hold. Lists may be repeated or take commas, as in --tag red,blue: several tags\n"
        "must all be there; of the other lists, any one.",
    )
    for flag, name, _, words in _LISTS:
        group.add_argument(flag, dest=name, action="append", metavar="X,Y", default=[], help=words)
    for flag, name, value, words in _VALUES:
        kind = place if flag in ("--path", "--source") else str
        group.add_argument(flag, dest=name, type=kind, metavar=value, default=None, help=words)
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
    found: dict[str, Any] = {
        name: _chosen(flag, given[name], allowed)
        for flag, name, allowed, _ in _LISTS
        if given.get(name)
    }
    found.update({name: given[name] for _, name, *_ in _VALUES if given.get(name) is not None})
    if "source" in found:
        found["source"] = os.path.realpath(os.path.expanduser(found["source"]))
    if "path_prefix" in found:
        path = found.pop("path_prefix")
        if "key_prefix" not in found and _is_key(path):
            found["key_prefix"] = _as_prefix(os.path.normpath(path).replace(os.sep, "/"), "/")
        else:
            found["path_prefix"] = _on_disk(path)
    if given.get("metadata"):
        found["metadata"] = tuple(pair(text) for text in given["metadata"])
    if given.get("all_versions"):
        found["all_versions"] = True
    return found


def split_commas(texts: Iterable[str]) -> list[str]:
    """Values that were given one by one, separated by commas, or both.

    >>> split_commas(["red, blue", "green"])
    ['red', 'blue', 'green']
    """
    return [part.strip() for part in ",".join(texts).split(",") if part.strip()]


def _chosen(flag: str, texts: Sequence[str], allowed: Sequence[str]) -> tuple[str, ...]:
    values = split_commas(texts)
    if not values:
        # Left out silently, it would widen what a delete takes.
        raise UsageError(f"{flag} is empty. Give it a value, or leave it out.")
    for value in values:
        if allowed and value not in allowed:
            raise UsageError(f"There is no {flag} '{value}'. Choose from: {', '.join(allowed)}.")
    return tuple(values)


def _is_key(path: str) -> bool:
    """Whether a path can only be one that hits show: the disk has none of that name."""
    starts_on_disk = path.startswith(("~", ".")) or os.path.isabs(path)
    return bool(path) and not starts_on_disk and not os.path.lexists(path)


def _on_disk(path: str) -> str:
    """The path as ingest recorded it: absolute, with the links above it resolved."""
    path = os.path.abspath(os.path.expanduser(path))
    if os.path.isdir(path):
        return os.path.join(os.path.realpath(path), "")
    path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    return path if os.path.exists(path) else _as_prefix(path, os.sep)


def _as_prefix(path: str, separator: str) -> str:
    """With the separator at its end, `--path notes` leaves `notes-old` alone.

    What is not on the disk can only be told to be a file by its name.
    """
    return path if os.path.splitext(path)[1] else f"{path.rstrip(separator)}{separator}"


def pair(text: str) -> tuple[str, str]:
    """``key=value`` taken apart.

    >>> pair("author=Ana")
    ('author', 'Ana')
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"'{text}' is not KEY=VALUE. Write it as in: --metadata author=Ana")
    return name, value
