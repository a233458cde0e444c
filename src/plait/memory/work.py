"""What agents did here: which sessions changed a file, which command worked, what ended an error.

The answers come from steps that an import kept beside messages. They are only given where they are
sure: a command must have succeeded, and what failed must have worked again in the same session.
Commands, errors and answers are other programs' words: whoever shows them marks them so.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from plait.memory.changes import changes_since, written_since
from plait.searching.steps import stored_steps
from plait.text import clean, single_spaced
from plait.text.commands import is_alike, program_of, words_of
from plait.text.failures import (
    failure_of,
    has_words,
    is_sentence,
    same_error,
    short_line,
    telling_line,
)
from plait.types import Document, Filter, Trust
from plait.types.records import NamedTuple
from plait.types.steps import FileSession, Fix, Invocation, Step, StepName, StepTaken

if TYPE_CHECKING:
    from plait.memory import Memory
    from plait.protocols import Store

# Steps that are looked at: the newest. A file that has more is changed by everybody.
_MOST_STEPS = 2_000
# Steps that are looked at for a program that is never the first one of a command.
_MOST_SCANNED = 20_000
# Sessions that are read for an answer, and messages of a turn.
_MOST_SESSIONS = 10
_MOST_TURNS = 40
# Steps that an answer lists.
_MOST_LISTED = 5
# How a command ends of which an import kept only the first words.
_CUT = "…"
_UNSEEN = ("find", "grep", "ls", "cat", "head", "tail", "sed", "rg", "wc", "pwd", "cd", "echo")


# -- about a file ----------------------------------------------------------------------------


def about(
    memory: "Memory",
    path: str,
    *,
    limit: int = 5,
    all_projects: bool = False,
) -> list[FileSession]:
    """Return the sessions that changed a file, the latest first; then those that read or named it.

    Args:
        memory: The memory.
        path: Whole, relative to the project, or the last parts of a path.
        limit: How many sessions.
        all_projects: Also those of other projects.
    """
    whole = clean(path).replace("\\", "/").removeprefix("./").rstrip("/")
    path = whole.removeprefix(_below(memory.config.project))
    file = path.rpartition("/")[2]
    if not file or memory._store is None:
        return []
    where = _messages(memory, all_projects=all_projects)
    steps = memory._required().steps(where, StepName(file=file), _MOST_STEPS)
    chosen = [
        row
        for row in steps
        if row.step.path in (path, whole) or f"{_below(row.project)}{row.step.path}" == whole
    ] or [row for row in steps if (row.step.path or "").endswith(f"/{path}")]
    sessions: dict[tuple[str | None, str | None], list[StepTaken]] = {}
    for row in chosen:
        sessions.setdefault((row.project, row.session), []).append(row)
    ranked = sorted(sessions.values(), key=lambda rows: not any(row.step.is_edit for row in rows))
    told = [_file_session(memory, rows) for rows in ranked[:limit]]
    known: set[tuple[str | None, str | None]] = {(row.project, row.session) for row in told}
    for message in _naming(memory, path, where) if len(told) < limit else ():
        if (message.project, message.session) not in known and len(told) < limit:
            known.add((message.project, message.session))
            told.append(_mention(memory, path, message))
    return told


def _below(project: str | None) -> str:
    """Return how the paths of files in a project begin; empty for none."""
    return f"{project.replace(chr(92), '/').rstrip('/')}/" if project else ""


def _file_session(memory: "Memory", rows: Sequence[StepTaken]) -> FileSession:
    edits = [row for row in rows if row.step.is_edit]
    last = (edits or rows)[0]
    path = last.step.path or ""
    turn = _turn(memory, last.document)
    message = next(iter(memory._required().load([last.document])), None)
    return FileSession(
        path,
        last.session or "",
        last.project,
        last.event_at,
        len(edits),
        len(rows) - len(edits),
        last.document,
        turn.request,
        turn.answer,
        message is not None and bool(written_since(memory._required(), message, [path])),
        turn.trust,
    )


def _naming(memory: "Memory", path: str, where: Filter) -> Iterator[Document]:
    """Yield messages whose text has the path, the best first."""
    from plait.memory.beyond import uncounted

    query = '+"{}"'.format(path.replace('"', " "))
    answer = uncounted(memory).search(query, limit=20, mode="keyword", strict=True, where=where)
    for hit in answer:
        if path.casefold() in hit.text.casefold():
            yield hit.document


def _mention(memory: "Memory", path: str, message: Document) -> FileSession:
    turn = _turn(memory, message.id)
    at = message.event_at or message.created_at
    changed = bool(written_since(memory._required(), message, [path]))
    place = (path, message.session or "", message.project, at)
    return FileSession(*place, 0, 0, message.id, turn.request, turn.answer, changed, turn.trust)


def request_before(memory: "Memory", id_: str) -> Document | None:
    """Return the message in which the user asked for what another message did.

    ``None`` if there is none, or if a program wrote it: its words are not the user's.
    """
    message = next(iter(memory._required().load([id_])), None)
    if message is None or message.session is None:
        return None
    asked = _asked(memory._required(), message)
    return asked if asked is not None and asked.trust == "trusted" else None


def _asked(store: "Store", message: Document) -> Document | None:
    """Return the message with the words before another one, which may not be the user's."""
    before = [message]
    if message.role != "user":
        where = _session_of(message)
        before = store.scan(
            where, limit=_MOST_TURNS, before=message.place, by_turn=True, whole=True
        )
    return next((row for row in before if row.role == "user"), None)


def _session_of(message: Document) -> Filter:
    return Filter(projects=(message.project,), session=message.session, kinds=("message",))


class _Turn(NamedTuple):
    request: str = ""
    answer: str = ""
    trust: Trust = "trusted"


def _turn(memory: "Memory", id_: str) -> _Turn:
    """Return the first line of what was asked before a message, of the last answer, and trust."""
    store = memory._required()
    message = next(iter(store.load([id_])), None)
    if message is None or message.session is None:
        return _Turn()
    asked = _asked(store, message)
    answers = [message] if message.role != "user" else []
    where = _session_of(message)
    after = store.scan(where, limit=_MOST_TURNS, after=message.place, by_turn=True, whole=True)
    for row in after:
        if row.role == "user":
            break
        answers.append(row)
    lines = [line for row in answers if (line := _first_words(memory, row))]
    answer = lines[-1] if lines else ""
    return (
        _Turn("", answer) if asked is None else _Turn(first_line(asked.text), answer, asked.trust)
    )


def _first_words(memory: "Memory", message: Document) -> str:
    """Return the first line of an answer that is not about a tool."""
    tools = {step.tool for step in stored_steps(memory._required(), message.id)}
    rows = (row for row in message.text.splitlines() if row.strip())
    return first_line(next((row for row in rows if row.partition(":")[0] not in tools), ""))


def first_line(text: str) -> str:
    """Return the first line of a text that says something, cut if it is long."""
    return short_line(next((row for row in text.splitlines() if row.strip()), ""))


def changed_since(memory: "Memory", documents: Iterable[Document]) -> dict[str, tuple[str, ...]]:
    """Return files of the project that were written after an imported message, by its id."""
    if memory._store is None:
        return {}
    return changes_since(memory._store, documents, memory.config.project)


# -- how to run a command --------------------------------------------------------------------


def how(
    memory: "Memory", command: str, *, limit: int = 5, all_projects: bool = False
) -> list[Invocation]:
    """Return the invocations of a command that worked: this project's first, then by use.

    The one that worked last is among the first two. All words of ``command`` occur in each.
    """
    program = program_of(command)
    if program is None or memory._store is None:
        return []
    where = _messages(memory, all_projects=all_projects)
    store = memory._required()
    rows = store.steps(where, StepName(program=program), _MOST_STEPS)
    told = _invocations(rows, words_of(command) - {program}, memory.config.project)
    if not told:
        # Never the first program of a line; perhaps it follows another.
        rows = store.steps(where, limit=_MOST_SCANNED)
        told = _invocations(rows, words_of(command), memory.config.project)
    return told[:limit]


def _invocations(rows: Iterable[StepTaken], words: set[str], home: str | None) -> list[Invocation]:
    known: dict[tuple[str | None, str], Invocation] = {}
    for row in rows:
        step = row.step
        command = single_spaced(step.command or "")
        if not command or command.endswith(_CUT) or not words <= words_of(command):
            continue
        if step.exit is None and not step.has_failed:
            continue  # nobody knows how it ended
        key = (row.project, command)
        place = (row.event_at, row.project, row.session, row.document)
        # The newest comes first: later ones only count.
        mine = known.get(key) or Invocation(command, 0, 0, *place)
        if step.exit == 0:
            known[key] = mine if mine.worked else Invocation(command, 0, mine.failed, *place)
            known[key] = known[key]._replace(worked=mine.worked + 1)
        else:
            known[key] = mine._replace(failed=mine.failed + 1)
    worked = [row for row in known.values() if row.worked]
    ranked = sorted(worked, key=lambda row: (row.project != home, -row.worked, -row.at))
    latest = max(ranked, key=lambda row: (row.project == home, row.at), default=None)
    if latest is not None and latest not in ranked[:2]:
        ranked.remove(latest)
        ranked.insert(1, latest)
    return ranked


# -- what ended an error ---------------------------------------------------------------------


def fixed(memory: "Memory", error: str, *, limit: int = 3, all_projects: bool = False) -> list[Fix]:
    """Return what was run and edited after an error that did not come back, the surest first.

    ``error`` may be a whole output. An answer needs that what failed worked later in the session.
    If no error is the same, those that have all the words are meant: people remember half a line;
    then those that have all but its names and numbers.
    """
    line = short_line(telling_line(error))
    failure = failure_of(line)
    if failure is None or memory._store is None:
        return []
    where = _messages(memory, all_projects=all_projects)
    rows = memory._required().steps(where, StepName(failure=failure), _MOST_STEPS)
    # A number of 32 bits may be that of another error.
    rows = [row for row in rows if same_error(row.step.error or "") == same_error(line)]
    if not rows:
        all_steps = memory._required().steps(where, limit=_MOST_SCANNED)
        rows = [row for row in all_steps if has_words(row.step.error or "", line)]
        if not rows and is_sentence(same := same_error(line)):
            rows = [row for row in all_steps if has_words(same_error(row.step.error or ""), same)]
    named = same_error(line, names=True)
    newest: dict[tuple[str | None, str | None], StepTaken] = {}
    for row in rows:
        newest.setdefault((row.project, row.session), row)
    last = list(newest.values())
    last.sort(key=lambda row: same_error(row.step.error or "", names=True) != named)
    fixes = (_fix(memory, row, named) for row in last[:_MOST_SESSIONS])
    return [fix for fix in fixes if fix is not None][:limit]


def _fix(memory: "Memory", failed: StepTaken, named: str) -> Fix | None:
    """Return what followed the last time that a session had an error; ``None``: nobody knows."""
    where = Filter(projects=(failed.project,), session=failed.session, kinds=("message",))
    rows = sorted(memory._required().steps(where), key=lambda row: row.order)
    later = [row for row in rows if row.order > failed.order]
    again = next((n for n, row in enumerate(later) if _is_proof(row.step, failed.step)), None)
    if again is None:
        return None
    proof = later[again]
    between = [row for row in later[:again] if _is_telling(row.step)]
    if proof.step.command != failed.step.command:
        between.append(proof)
    if not between:
        return None  # the same again, and it worked: chance
    told = {row.step: row.document for row in reversed(between)}
    steps = tuple(dict.fromkeys(row.step for row in between))[-_MOST_LISTED:]
    error = failed.step.error or ""
    return Fix(
        error,
        failed.step.shown,
        steps,
        proof.step.shown,
        same_error(error, names=True) == named,
        failed.event_at,
        failed.project,
        failed.session,
        failed.document,
        tuple(told[step] for step in steps),
    )


def _is_proof(step: Step, failed: Step) -> bool:
    """Tell whether a step shows that what failed works now."""
    if failed.command is not None:
        return step.exit == 0 and is_alike(step.command or "", failed.command)
    return (step.tool, step.path) == (failed.tool, failed.path) and not step.has_failed


def _is_telling(step: Step) -> bool:
    """Tell whether a step may have ended an error: an edit, or a command that does something."""
    if step.command is None:
        return step.is_edit
    return step.exit == 0 and step.program not in _UNSEEN and not step.command.endswith(_CUT)


def _messages(memory: "Memory", *, all_projects: bool) -> Filter:
    return memory._read_filter({"kinds": ("message",)}, all_projects=all_projects)
