"""What agents did, as text and as data. Commands, errors and answers are marked as not trusted."""

from collections.abc import Sequence
from typing import Any

from plait.errors import flattened
from plait.present.text import counted, on_a_line
from plait.times import show_day, show_time
from plait.types.ids import SHORT_ID
from plait.types.steps import FileSession, Fix, Invocation, Step

UNTRUSTED = "untrusted"


def about_dict(row: FileSession) -> dict[str, Any]:
    """Return a session that changed, read or mentioned a file."""
    return {
        "path": row.path,
        "did": row.did,
        "changes": row.changes,
        "reads": row.reads,
        **_place(row),
        "request": row.request,
        "request_trust": row.request_trust if row.request else None,
        "answer": row.answer,
        "changed_since": row.has_changed,
        "trust": UNTRUSTED,
    }


def how_dict(row: Invocation) -> dict[str, Any]:
    """Return a command that worked."""
    return {
        "command": row.command,
        "worked": row.worked,
        "failed": row.failed,
        **_place(row),
        "trust": UNTRUSTED,
    }


def fixed_dict(row: Fix) -> dict[str, Any]:
    """Return what ended an error."""
    return {
        "error": row.error,
        "failed": row.failed,
        "then": [_step_dict(step) for step in row.steps],
        "worked": row.worked,
        "same": row.is_same,
        **_place(row),
        "trust": UNTRUSTED,
    }


def _step_dict(step: Step) -> dict[str, Any]:
    if step.command is not None:
        return {"command": step.command, "exit": step.exit}
    return {"tool": step.tool, "path": step.path}


def _place(row: FileSession | Invocation | Fix) -> dict[str, Any]:
    return {
        "at": show_time(row.at),
        "project": row.project,
        "session": row.session,
        "id": row.document,
    }


def about_text(rows: Sequence[FileSession], home: str | None) -> str:
    """Return sessions that changed, read or mentioned a file, for people and for models."""
    lines = []
    for row in rows:
        times = f" {counted(row.changes, 'time')}" if row.changes > 1 else ""
        since = " [changed since]" if row.has_changed else ""
        lines.append(f"{_head(row, home)}  {flattened(row.path)} {row.did}{times}{since}")
        if row.request:
            mark = "" if row.request_trust == "trusted" else f" [{row.request_trust}]"
            lines.append(f"  asked{mark}: {flattened(row.request)}")
        if row.answer:
            lines.append(f"  answer [{UNTRUSTED}]: {flattened(row.answer)}")
    return "\n".join(lines)


def changed_text(paths: Sequence[str]) -> str:
    """Return the files that changed since a message, on one line; empty without any."""
    return f"Changed since: {', '.join(map(flattened, paths))}" if paths else ""


def how_text(rows: Sequence[Invocation], home: str | None) -> str:
    """Return commands that worked, the best first."""
    lines = []
    for row in rows:
        failed = f", failed {row.failed:,}" if row.failed else ""
        lines.append(f"{_head(row, home)}  worked {row.worked:,}{failed} [{UNTRUSTED}]")
        lines.append(f"  {flattened(row.command)}")
    return "\n".join(lines)


def fixed_text(rows: Sequence[Fix], home: str | None) -> str:
    """Return what ended an error, the surest first."""
    lines = []
    for row in rows:
        similar = "" if row.is_same else " [similar]"
        lines.append(f"{_head(row, home)}  {flattened(row.error)} [{UNTRUSTED}]{similar}")
        lines.append(f"  failed: {flattened(row.failed)}")
        steps = [step.shown for step in row.steps]
        # What worked in the end may be the last step; once is enough.
        steps = steps[:-1] if steps[-1:] == [row.worked] else steps
        lines += [f"  then:   {flattened(step)}" for step in steps]
        lines.append(f"  worked: {flattened(row.worked)}")
    return "\n".join(lines)


def _head(row: FileSession | Invocation | Fix, home: str | None) -> str:
    """Return when it was and which message tells of it; of another project, which."""
    project = "" if row.project in (None, home) else f"  {on_a_line(row.project or '')}"
    return f"{show_day(row.at)}  {row.document[:SHORT_ID]}{project}"
