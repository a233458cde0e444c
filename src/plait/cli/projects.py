"""What ``--project`` names when no project is called exactly so.

A project is usually the path of a folder, and its last part is what people call it. Only the
command line takes it for the whole: a program or a model that names a project means exactly that.
"""

from collections.abc import Iterable

from plait.cli import Output
from plait.errors import StoreError, UsageError
from plait.memory import Memory
from plait.present.text import on_a_line
from plait.settings.schema import closest
from plait.types.ids import SCOPE_PREFIX

PROJECTS_LISTED = 8


def in_meant_project(memory: Memory, out: Output, *, create: bool, undo: bool = False) -> Memory:
    """Return the memory in the project that was typed, or in the only one that it can mean.

    Args:
        memory: The memory, opened in the project as it was typed.
        out: Tells the user if another project is meant.
        create: Whether a missing file is created.
        undo: Whether projects count of which everything was deleted.

    Raises:
        UsageError: It can mean several projects.
    """
    try:
        project = _meant(memory, undo=undo)
    except UsageError:
        memory.close()
        raise
    except StoreError:
        return memory  # damaged: the command itself tells, or repairs it
    if project is None:
        return memory
    memory.close()
    out.warn(f"--project {_typed(out)} is taken as {on_a_line(project)}")
    out.use_project(project)
    return Memory.open(config=out.config, create=create)


def warn_if_unknown(memory: Memory, out: Output) -> None:
    """Warn that the project that was typed has no documents, and suggest a similar one."""
    project = memory.config.project
    if out.arguments.project is None or project is None:
        return
    try:
        known, is_empty = _living(memory), not memory.stats().doc_count
    except StoreError:
        return  # damaged: the command itself tells
    if project in known or is_empty:  # of an empty memory, the command tells that
        return
    by_last_part = {_parts(name)[-1]: name for name in known}
    similar = closest(project, by_last_part) or closest(project, known)
    hint = f" Did you mean {on_a_line(by_last_part.get(similar, similar))}?" if similar else ""
    out.warn(f"no document is in project {_typed(out)}.{hint}")


def _meant(memory: Memory, *, undo: bool) -> str | None:
    """Return the only project that a short name fits, unless one is called exactly so."""
    short = memory.config.project
    if short is None or memory.timeline(limit=1, where={"projects": [short]}):
        return None
    living, trashed = _living(memory), _trashed(memory)
    if short in (*living, *trashed):
        return None
    fitting = _ending_in(short, {*living, *trashed} if undo else living)
    if len(fitting) > 1:
        listed = ", ".join(map(on_a_line, fitting[:PROJECTS_LISTED]))
        more = ", …" if len(fitting) > PROJECTS_LISTED else ""
        raise UsageError(
            f"--project {on_a_line(short)} fits several projects: {listed}{more}. "
            "Give one of them in full."
        )
    return fitting[0] if fitting else None


def _living(memory: Memory) -> list[str]:
    # A user's scope is no project, whatever its name ends in.
    names = (name for name, _ in memory.stats().projects if name)
    return [name for name in names if not name.startswith(SCOPE_PREFIX)]


def _trashed(memory: Memory) -> set[str]:
    if not memory.stats().trash_count:
        return set()
    names = {row.deleted_in for row in memory.engine.trashed(texts=False)} - {""}
    return {name for name in names if not name.startswith(SCOPE_PREFIX)}


def _ending_in(short: str, projects: Iterable[str]) -> list[str]:
    """Return the projects whose last parts are these.

    >>> _ending_in("pa", ["/n/pa", "/n/opa", "pa/x"])
    ['/n/pa']
    """
    parts = _parts(short)
    return sorted(name for name in projects if _parts(name)[-len(parts) :] == parts)


def _parts(name: str) -> list[str]:
    return name.replace("\\", "/").rstrip("/").split("/")


def _typed(out: Output) -> str:
    return on_a_line(str(out.arguments.project))
