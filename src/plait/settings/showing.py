"""Settings as people read them: their names and defaults, and values as one would type them."""

from plait.settings.schema import SETTINGS, Settings


def describe() -> list[tuple[str, str, str]]:
    """Return name, default and description of each setting."""
    defaults = {"db_path": "memory.db in the platform's data folder", **Settings._field_defaults}
    return [(name, shown(defaults[name]), row.description) for name, row in SETTINGS.items()]


def shown(value: object) -> str:
    """Return a setting's value as a person would type it.

    >>> shown(True), shown(None), shown(("*.md", "*.txt"))
    ('on', 'unset', '*.md,*.txt')
    """
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(
            part if isinstance(part, str) else f"{part[0]}={part[1]:g}" for part in value
        )
    return f"{value:g}" if isinstance(value, float) else str(value)
