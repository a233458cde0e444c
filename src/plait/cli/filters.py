"""The filter options that search, timeline, delete and export share."""

from argparse import ArgumentParser, Namespace
from typing import Any

from plait.types import KINDS, MEMORY_TYPES, TRUSTS

# Option, field of Filter, help. All may be given several times.
_LISTS = (
    ("--kind", "kinds", f"only these kinds: {', '.join(KINDS)}"),
    ("--memory-type", "memory_types", f"only these: {', '.join(MEMORY_TYPES)}"),
    ("--type", "types", "only this type (decision, fact, …)"),
    ("--tag", "tags", "only documents with this tag"),
    ("--trust", "trusts", f"only these: {', '.join(TRUSTS)}"),
)
_VALUES = (
    ("--key-prefix", "key_prefix", "only documents whose name starts so"),
    ("--path", "path_prefix", "only files below this path"),
    ("--source", "source", "only files of this ingested folder"),
    ("--session", "session", "only this session"),
    ("--since", "since", "from this time on: 2026-03-01, 7d, today"),
    ("--until", "until", "before this time"),
    ("--as-of", "as_of", "what was valid at this time"),
)


def add_filters(parser: ArgumentParser) -> None:
    """Declare the filter options."""
    group = parser.add_argument_group("filters")
    for flag, name, words in _LISTS:
        group.add_argument(flag, dest=name, action="append", metavar="X", default=[], help=words)
    for flag, name, words in _VALUES:
        group.add_argument(flag, dest=name, metavar="X", default=None, help=words)
    group.add_argument(
        "--meta", dest="metadata", action="append", metavar="K=V", default=[], help="by metadata"
    )
    group.add_argument("--all-versions", action="store_true", help="superseded facts too")
    group.add_argument("--all-projects", action="store_true", help="every project")


def filters_of(arguments: Namespace) -> dict[str, Any]:
    """The fields of `Filter` that were asked for."""
    given = vars(arguments)
    found: dict[str, Any] = {name: tuple(given[name]) for _, name, _ in _LISTS if given.get(name)}
    found.update({name: given[name] for _, name, _ in _VALUES if given.get(name) is not None})
    for name in ("path_prefix", "source"):
        if name in found:
            from os.path import abspath, expanduser

            found[name] = abspath(expanduser(found[name]))
    if given.get("metadata"):
        found["metadata"] = tuple(pair(text) for text in given["metadata"])
    if given.get("all_versions"):
        found["all_versions"] = True
    return found


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
