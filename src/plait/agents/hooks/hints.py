"""One line for an agent that is about to act, or that just failed: what happened here before.

Nothing is said unless it is sure, and never more than a few words. The words are other programs':
they stand between fences, as everything that is recalled.
"""

from zlib import crc32

from plait.agents.histories.acts import relative_path
from plait.agents.hooks.tools import ToolCall
from plait.facts.echo import PREFACE, TAG_CHARS, fence
from plait.memory import Memory
from plait.memory.work import first_line, fixed, request_before
from plait.text import single_spaced
from plait.text.commands import is_alike, program_of
from plait.times import show_day
from plait.types.ids import new_id
from plait.types.records import NamedTuple
from plait.types.steps import StepName, StepTaken

# Tokens of all that the model sees: the line and its fences.
HINT_BUDGET = 60
_BYTES = 4 * HINT_BUDGET
_MOST_STEPS = 500
# Sessions and answers that are looked at: the newest.
_MOST_SESSIONS = 2
_MOST_FIXES = 3
# Bytes that the less telling part of a line gets, if both parts are long.
_LEAST_PART = 16
_CUT = "…"


class Hint(NamedTuple):
    """A line between fences, the line alone, and the messages whose words are in it."""

    text: str = ""
    line: str = ""
    documents: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """A number by which the same line is known again."""
        return crc32(self.line.encode("utf-8", "surrogatepass"))


def hint_before(
    memory: Memory, call: ToolCall, *, folder: str | None = None, session: str | None = None
) -> Hint:
    """Return a line for an agent that is about to edit a file or to run a command; mostly empty.

    Before an edit: the last request for which another session changed this file. Before a command:
    that it failed the last time, and what worked instead.

    Args:
        memory: The memory, in the project of the session.
        call: What the agent is about to do.
        folder: Where the agent works.
        session: The session that asks, as it is named in the memory: its own steps are no news.
    """
    if memory.is_off or memory._store is None:
        return Hint()
    if call.command is not None:
        return _before_command(memory, single_spaced(call.command), session)
    if call.path is not None and call.is_edit:
        path = relative_path(call.path, folder, memory.config.project)
        return _before_edit(memory, path, session)
    return Hint()


def hint_after_failure(memory: Memory, call: ToolCall, *, session: str | None = None) -> Hint:
    """Return a line for an agent whose command just failed: what ended this error before.

    Args:
        memory: The memory, in the project of the session.
        call: What failed, and what it printed.
        session: The session that asks, as it is named in the memory.
    """
    if memory.is_off or memory._store is None or call.command is None:
        return Hint()
    for fix in fixed(memory, call.output, limit=_MOST_FIXES):
        if fix.is_same and fix.session != session and is_alike(call.command, fix.failed):
            steps = "; ".join(single_spaced(step.shown) for step in fix.steps[-2:])
            told = f"This error came here on {show_day(fix.at)}. What ended it: "
            return _hint((told, "", "", steps, ""), fix.document, *fix.documents[-2:])
    return Hint()


def _before_edit(memory: Memory, path: str, session: str | None) -> Hint:
    file = path.rpartition("/")[2]
    where = memory._read_filter({"kinds": ("message",)}, all_projects=False)
    rows = memory.engine.steps(where, StepName(file=file), _MOST_STEPS)
    last: dict[str | None, StepTaken] = {}
    for row in rows:
        if row.step.path == path and row.step.is_edit and row.session != session:
            last.setdefault(row.session, row)
    for row in list(last.values())[:_MOST_SESSIONS]:
        asked = request_before(memory, row.document)
        request = "" if asked is None else single_spaced(first_line(asked.text))
        if asked is not None and request:
            parts = (
                "",
                single_spaced(file),
                f' was changed on {show_day(row.event_at)} for: "',
                request,
            )
            return _hint((*parts, '"'), row.document, asked.id)
    return Hint()


def _before_command(memory: Memory, command: str, session: str | None) -> Hint:
    program = program_of(command)
    if program is None:
        return Hint()
    where = memory._read_filter({"kinds": ("message",)}, all_projects=False)
    rows = memory.engine.steps(where, StepName(program=program), _MOST_STEPS)
    ended = [row for row in rows if row.step.exit is not None or row.step.has_failed]
    same = [row for row in ended if single_spaced(row.step.command or "") == command]
    if not same or same[0].session == session or not same[0].step.has_failed:
        return Hint()
    failed = same[0]
    instead = [row for row in ended if _is_instead(row, failed)]
    if not instead:
        return Hint()
    # The newest comes first: the last one is that which followed the failure.
    worked, error = instead[-1], single_spaced(failed.step.error or "")
    told = f"This failed here on {show_day(failed.event_at)} ("
    parts = (told, error, "). What worked: ", single_spaced(worked.step.shown), "")
    return _hint(parts, failed.document, worked.document)


def _is_instead(row: StepTaken, failed: StepTaken) -> bool:
    """Tell whether a step of the same session shows how a failed command has to be run."""
    is_later = row.session == failed.session and row.order > failed.order
    alike = is_alike(row.step.command or "", failed.step.command or "")
    return is_later and alike and row.step.exit == 0


def _hint(parts: tuple[str, str, str, str, str], *documents: str) -> Hint:
    """Return a line within the budget: the first and the second part of others' words are cut."""
    before, minor, between, main, after = parts
    frame = fence(f"{PREFACE}\n{before}{between}{after}", "x" * TAG_CHARS)
    room = _BYTES - _size(frame)
    main = _cut(main, room - min(_size(minor), _LEAST_PART))
    line = f"{before}{_cut(minor, room - _size(main))}{between}{main}{after}"
    text = fence(f"{PREFACE}\n{line}", new_id(TAG_CHARS))
    return Hint(text, line, tuple(dict.fromkeys(documents)))


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _cut(text: str, size: int) -> str:
    """Return a text in so many bytes."""
    if _size(text) <= size:
        return text
    kept = text.encode("utf-8", "surrogatepass")[: max(0, size - _size(_CUT))]
    return kept.decode("utf-8", "ignore").rstrip() + _CUT
