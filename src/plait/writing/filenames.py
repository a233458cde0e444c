"""Read a file's name: its title, its day and its memory type.

Works on keys, which are POSIX paths below a source's root. Opens no files.
"""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from plait.types import MEMORY_TYPES, MemoryType

_TYPES_BY_NAME: dict[str, MemoryType] = {
    "tools": "procedural", "agents": "procedural", "procedural": "procedural",
    "memory": "semantic",
}  # fmt: skip
_TYPES_BY_FOLDER: dict[str, MemoryType] = {
    "diary": "episodic", "journal": "episodic", "session": "episodic", "log": "episodic",
    "runbook": "procedural", "how-to": "procedural", "howto": "procedural",
    "procedure": "procedural", "playbook": "procedural",
    "decision": "semantic", "fact": "semantic", "people": "semantic",
}  # fmt: skip
_DAY = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?!\d)")
# Folder names that also tell the type when they are part of a file's name.
_TYPE_WORD = re.compile(
    r"(?:^|-)(runbook|how-to|howto|procedure|playbook|decision|fact|people)s?(?=-|$)"
)


def title_from_name(key: str) -> str:
    """Return a title made from a file's name, for a text without a title.

    >>> title_from_name("ops/rotate-ssh_keys.md"), title_from_name("2026-03-01-outage.md")
    ('rotate ssh keys', '2026-03-01 outage')
    """
    name = PurePosixPath(key).name
    stem, dot, suffix = name.rpartition(".")
    if dot and stem and not suffix.isdigit():
        name = stem
    # Between digits, the hyphen or underscore is part of a date or a version.
    title = re.sub(r"(?<!\d)[-_\s]+|[-_\s]+(?!\d)", " ", name).strip()
    return title or PurePosixPath(key).name


def day_in_name(key: str) -> str | None:
    """Return the day that a file's name starts with.

    >>> day_in_name("diary/2026-03-01-outage.md"), day_in_name("notes.md")
    ('2026-03-01', None)
    """
    day = _DAY.match(PurePosixPath(key).name)
    return day[0] if day else None


def memory_type_for(key: str, values: Mapping[str, object]) -> MemoryType | None:
    """Return a file's memory type: from its front matter, else from its name and folders.

    A folder takes precedence over a date: ``decisions/2026-03-01-sqlite.md`` is semantic.

    >>> memory_type_for("diary/2026-03-01.md", {}), memory_type_for("TOOLS.md", {})
    ('episodic', 'procedural')
    """
    declared = str(values.get("memory_type", "")).strip().lower()
    for memory_type in MEMORY_TYPES:
        if declared == memory_type:
            return memory_type
    *folders, name = [re.sub(r"[\s_]+", "-", part.lower()) for part in key.split("/")]
    stem = PurePosixPath(name).stem
    if stem in _TYPES_BY_NAME:
        return _TYPES_BY_NAME[stem]
    for folder in reversed(folders):
        by_folder = _TYPES_BY_FOLDER.get(folder) or _TYPES_BY_FOLDER.get(folder.removesuffix("s"))
        if by_folder:
            return by_folder
    if _DAY.match(stem):
        return "episodic"
    word = _TYPE_WORD.search(stem)
    return _TYPES_BY_FOLDER[word[1]] if word else None
