"""Parse settings that are pairs of a name and a number; loaded only if one is given."""

from collections.abc import Iterable, Mapping

from plait.settings.schema import Setting


def about_files(value: object, origin: str) -> str:
    """Say why files do not go by their age, if the rule for ages names them.

    >>> about_files("profile=3", ""), about_files("file=3", "")[:31]
    ('', ' Files do not go by their age: ')
    """
    parts = value.split(",") if isinstance(value, str) else value
    listed = parts if isinstance(parts, Iterable) else ()
    if "file" not in [str(part).partition("=")[0].strip() for part in listed]:
        return ""
    other = "--archive-days" if origin.startswith("flag ") else "archive_days"
    return (
        " Files do not go by their age: they stay as long as they are on your disk. "
        f"To archive those that nobody changed or read, use {other}."
    )


def parse_pairs(value: object, setting: Setting) -> tuple[tuple[str, float], ...]:
    """Parse ``name=number,…``, a list of such pairs, or a table.

    Raises:
        ValueError: It has another form, a name twice, or a name or number out of range.
    """
    if isinstance(value, Mapping):
        value = [f"{name}={number}" for name, number in value.items()]
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not parts:
        raise ValueError
    pairs = []
    for part in parts:
        name, _, number = str(part).partition("=")
        pairs.append((name.strip(), float(number)))
    if len(dict(pairs)) < len(pairs):
        raise ValueError  # whichever of the two counted, it could be the one that deletes more
    if setting.type == "limbic_constants":
        from plait.ranking.use import constants_from

        constants_from(tuple(pairs))
    for name, size in pairs if setting.type != "limbic_constants" else ():
        if name not in setting.options or not setting.low <= size <= setting.high:
            raise ValueError
        if setting.type == "counts" and not size.is_integer():
            raise ValueError
    return tuple(pairs)
