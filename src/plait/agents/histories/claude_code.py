"""Claude Code: ``~/.claude/projects/<folder>/<session>.jsonl``, a file for each session.

One answer of the model is several lines with the same ``message.id``. Whose words a line of type
"user" holds is told by ``turnOrigin`` and ``origin`` in current versions, by its beginning in
older ones. The name of the file is the session's id: its lines may name several.
"""

import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from plait.agents.histories import (
    Act,
    Bookmark,
    HistoryFile,
    Places,
    Reading,
    Role,
    Session,
    SessionKind,
    Utterance,
)
from plait.agents.histories.acts import act_of, ended
from plait.agents.histories.claude_code_prompts import is_command, is_mixed, typed_in
from plait.agents.histories.collecting import FULL, with_parts
from plait.agents.histories.files import history_file, oldest_first, read_json
from plait.agents.histories.lines import JsonLines
from plait.agents.histories.stripping import without_own
from plait.agents.histories.values import hashed, moment_of, note_folder, number, records_of
from plait.facts.masking import masked
from plait.times import parse_time

AGENT = "claude-code"
_MAIN: SessionKind = "main"
_SUBAGENT: SessionKind = "subagent"
# Days after the last activity; `cleanupPeriodDays` in settings.json changes it.
RETENTION_DAYS = 30
# Folders of tools that keep sessions of their own there.
_FOREIGN = ("observer-sessions",)
COMPACTION = "compact_boundary"
# Fields of lines of type "user" that a program wrote.
_INJECTED = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "teamName")
# Named as the author of what the program itself says in the model's place.
_NO_MODEL = "<synthetic>"
# How the answer to a command begins that goes on running.
_IN_BACKGROUND = "Command running in background"
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")


# -- find ------------------------------------------------------------------------------------


def find(places: Places) -> Iterator[HistoryFile]:
    """Yield the session files, those that were used longest ago first."""
    sources = [source for file in places.files for source in _source(Path(file), None)]
    for folder in () if places.files else _config_folders(places):
        days = _retention_days(folder)
        for path in _transcripts(folder / "projects"):
            sources += _source(path, days)
    yield from oldest_first(sources)


def _config_folders(places: Places) -> list[Path]:
    named = places.environ.get("CLAUDE_CONFIG_DIR", "")
    folders = [*map(Path, filter(None, named.split(os.pathsep))), Path(places.home, ".claude")]
    return [Path(folder) for folder in dict.fromkeys(map(os.path.realpath, folders))]


def _retention_days(folder: Path) -> int:
    days = number(read_json(folder / "settings.json"), "cleanupPeriodDays")
    return days if days is not None and days > 0 else RETENTION_DAYS


def _transcripts(folder: Path) -> Iterator[Path]:
    refused: list[Path] = []

    def note(error: OSError) -> None:
        if isinstance(error, PermissionError):
            refused.append(Path(error.filename))

    for top, folders, names in os.walk(folder, onerror=note):
        folders[:] = (
            name
            for name in folders
            if name not in ("tool-results", "memory") and not any(tool in name for tool in _FOREIGN)
        )
        yield from (Path(top, name) for name in names if name.endswith(".jsonl"))
    yield from refused


def _source(path: Path, days: int | None) -> list[HistoryFile]:
    """Return a file as a source; nothing if it is none."""
    name, kind = path.name.removesuffix(".jsonl"), _MAIN
    if name.startswith("agent-"):
        # The lines of a subagent repeat its parent's session.
        parts = path.parts
        parent = parts[parts.index("subagents") - 1] if "subagents" in parts[1:] else ""
        kind, name = _SUBAGENT, f"{parent}/{name}" if parent else name
    return history_file(AGENT, path, name, kind, days)


# -- read ------------------------------------------------------------------------------------


def read(source: HistoryFile, mark: Bookmark | None) -> Iterator[Reading]:
    """Yield what a session file says since a mark."""
    lines = JsonLines(source.path, mark)
    if mark is not None and lines.is_unchanged:
        return
    transcript = _Transcript(source, lines.state)
    while not (yield from _batches(lines, transcript)):
        lines.restart()
        transcript = _Transcript(source, lines.state)


def _batches(lines: JsonLines, transcript: "_Transcript") -> Generator[Reading, None, bool]:
    """Yield the batches of one pass; return false if it must begin at the start of the file."""
    for line in lines:
        if line.record is None:
            transcript.skipped[line.reason] += 1
            continue
        if line.record.get("subtype") == COMPACTION and not lines.from_start:
            # Lines that a compaction copies are known by those before it.
            return False
        is_turn = begins_turn(line.record)
        # Not among the copies: the next reading must see the compaction that made them.
        if is_turn and not transcript.may_be_copy(line.record):
            lines.begin_turn()
            if lines.is_known:
                transcript.reading(lines.mark())
            elif transcript.is_full or lines.is_far:
                yield transcript.reading(lines.mark())
        transcript.add(line.record, is_turn=is_turn)
    yield transcript.reading(lines.mark())
    return True


def begins_turn(record: Mapping[str, Any]) -> bool:
    """Tell whether a record may be what the user typed: the calls of tools end before it."""
    if record.get("type") != "user" or record.get("isMeta") or record.get("isSidechain"):
        return False
    content = _content(record)
    if not isinstance(content, list):
        return True
    for part in content:
        if isinstance(part, dict) and part.get("type") == "tool_result":
            return False
    return True


class _Transcript:
    """Collects the utterances of a session, record by record."""

    def __init__(self, source: HistoryFile, state: dict[str, Any]) -> None:
        self._source, self._state = source, state
        self._folder: object = None  # of the last record
        self._branch = ""
        self.skipped: Counter[str] = Counter()
        self._utterances: list[Utterance] = []
        # The texts and the calls of each utterance; an answer may have thousands.
        self._words: list[list[str]] = []
        self._acts: list[list[Act]] = []
        self._ids: set[str] = set()
        self._texts: set[int] = set()
        # Times of the lines since a compaction: its copies have one in common.
        self._copied_at: set[str | None] = set()
        # Places in `_utterances`: of the model's answers, and of calls that have not ended.
        self._answers: dict[str, int] = {}
        self._calls: dict[str, tuple[int, int]] = {}
        self._last_answer: int | None = None

    @property
    def is_full(self) -> bool:
        return len(self._utterances) >= FULL

    def reading(self, mark: Bookmark) -> Reading:
        """Return what was collected, and begin anew."""
        state = self._state
        session = Session(
            AGENT,
            self._source.session or "",
            tuple(map(with_parts, self._utterances, self._words, self._acts)),
            next(iter(state.get("folders", ())), None),
            state.get("branch"),
            "headless" if state.get("headless") else self._source.kind,
            tuple(state.get("folders", ())),
        )
        skipped, self.skipped = self.skipped, Counter()
        self._utterances, self._words, self._acts = [], [], []
        self._begin_turn()
        return Reading((session,) if session.utterances else (), mark, skipped)

    def _begin_turn(self) -> None:
        self._answers, self._calls, self._last_answer = {}, {}, None

    def may_be_copy(self, record: Mapping[str, Any]) -> bool:
        """Tell whether a record has the time of another one since a compaction."""
        at = _string(record, "timestamp")
        return at is not None and at in self._copied_at

    def add(self, record: Mapping[str, Any], *, is_turn: bool) -> None:
        """Add what a record says; ``is_turn``: a turn begins with it."""
        self._note(record)
        if is_turn:
            self._begin_turn()
        kind = record.get("type")
        if record.get("isSidechain") and self._source.kind != "subagent":
            self.skipped["subagent"] += 1
        elif kind == "user":
            self._add_user(record)
        elif kind == "assistant":
            self._add_answer(record)
        elif kind == "attachment":
            self._add_steering(record)
        elif kind == "system" and record.get("subtype") == "away_summary":
            text = _string(record, "content") or ""
            if text and not self._is_repeated(record, text):
                self._say(record, "assistant", text)
        if self._copied_at and kind in ("user", "assistant"):
            self._copied_at |= {_string(record, "timestamp")}
        elif record.get("subtype") == COMPACTION:
            self._copied_at = {_string(record, "timestamp")}

    def _note(self, record: Mapping[str, Any]) -> None:
        """Keep what a record tells about the whole session."""
        state, folder, branch = self._state, record.get("cwd"), record.get("gitBranch")
        if folder != self._folder or "folders" not in state:
            self._folder = folder
            note_folder(state, record)
        if branch != self._branch and isinstance(branch, str) and branch:
            self._branch = branch
            state["branch"] = masked(branch)[0]
        if "headless" not in state and record.get("type") == "user" and not record.get("isMeta"):
            state["headless"] = _is_by_program(record)

    # -- the user's side

    def _add_user(self, record: Mapping[str, Any]) -> None:
        parts = _parts(record)
        results = [part for part in parts if part.get("type") == "tool_result"]
        for part in results:
            self._end_call(part, record)
        if results:
            self.skipped["tool result"] += len(results)
            return
        origin = _origin(record)
        get = record.get
        injected = any(map(get, _INJECTED))
        if injected or origin not in (None, "human", "sdk"):
            self.skipped["injected"] += 1
            return
        whole = _texts(parts)
        text = _typed_in_all(whole, origin)
        if not text:
            reason = "injected" if whole else "no text"
            self.skipped["command" if any(map(is_command, whole)) else reason] += 1
            return
        by_program = origin == "sdk" or _is_by_program(record) or any(map(is_mixed, whole))
        self._add_prompt(record, text, by_program=by_program)

    def _add_steering(self, record: Mapping[str, Any]) -> None:
        """Add what the user typed while the model was at work."""
        attachment = record.get("attachment")
        if not isinstance(attachment, dict) or attachment.get("type") != "queued_command":
            return
        origin, mode = _origin(attachment), attachment.get("commandMode")
        if origin not in (None, "human") or mode not in (None, "prompt"):
            self.skipped["injected"] += 1
            return
        prompt = attachment.get("prompt")
        whole = [prompt] if isinstance(prompt, str) else _texts(records_of(prompt))
        text = _typed_in_all(whole, origin)
        if text:
            mixed = any(map(is_mixed, whole))
            self._add_prompt(record, text, by_program=mixed or _is_by_program(record))
        elif any(map(is_command, whole)):
            self.skipped["command"] += 1

    def _add_prompt(self, record: Mapping[str, Any], text: str, *, by_program: bool) -> None:
        if self._is_repeated(record, text):
            return
        by_program |= self._source.kind != "main" or bool(self._state.get("headless"))
        self._say(record, "user", text, typed=not by_program)

    # -- the model's side

    def _add_answer(self, record: Mapping[str, Any]) -> None:
        message = record.get("message")
        model = _string(message, "model") if isinstance(message, dict) else None
        if record.get("isApiErrorMessage") or model == _NO_MODEL:
            self.skipped["injected"] += 1
            return
        texts, calls = [], []
        for part in _parts(record):
            kind = part.get("type")
            if kind == "text" and isinstance(part.get("text"), str):
                texts.append(without_own(part["text"]).strip())
            elif kind in _CALLS:
                given = part.get("input")
                call = act_of(str(part.get("name")), given if isinstance(given, dict) else {})
                calls.append((str(part.get("id")), call))
            elif kind in ("thinking", "redacted_thinking"):
                self.skipped["thinking"] += 1
        text = "\n\n".join(filter(None, texts))
        if (text or calls) and not self._is_repeated(record, text or calls[0][1].line):
            place = self._place_of(record, text)
            for id_, call in calls:
                self._call(place, id_, call)

    def _place_of(self, record: Mapping[str, Any], text: str) -> int:
        """Return where an answer belongs: to its other lines, or after them.

        Calls without a text belong to the answer before them.
        """
        message = record.get("message")
        answer = _string(message, "id") if isinstance(message, dict) else None
        place = self._answers.get(answer) if answer else None
        if place is None and not text:
            place = self._last_answer
        if place is None:
            place = self._say(record, "assistant", text)
        elif text:
            self._words[place].append(text)
        if answer:
            self._answers[answer] = place
        self._last_answer = place
        return place

    def _call(self, place: int, id_: str, call: Act) -> None:
        self._calls[id_] = place, len(self._acts[place])
        self._acts[place].append(call)

    def _end_call(self, part: Mapping[str, Any], record: Mapping[str, Any]) -> None:
        """Add to a call how it ended; what the tool answered is left out."""
        place = self._calls.pop(str(part.get("tool_use_id")), None)
        if place is None:
            return
        utterance, number = place
        answer = part.get("content")
        if isinstance(answer, list):
            answer = next(iter(records_of(answer)), {}).get("text")
        result = record.get("toolUseResult")
        code = result.get("exitCode") if isinstance(result, dict) else None
        words = answer if isinstance(answer, str) else ""
        failed = part.get("is_error") is True
        if code is None and not failed and self._is_over(result, words):
            code = 0
        acts = self._acts[utterance]
        acts[number] = ended(
            acts[number],
            words,
            failed=failed,
            exit=code if isinstance(code, int) and acts[number].command else None,
        )

    @staticmethod
    def _is_over(result: object, words: str) -> bool:
        """Tell whether a command that did not fail has ended, and was not stopped."""
        if words.startswith(_IN_BACKGROUND):
            return False
        return not (isinstance(result, dict) and result.get("interrupted"))

    # -- both

    def _is_repeated(self, record: Mapping[str, Any], text: str) -> bool:
        """Tell whether a record was read before: the same line again, or a compaction's copy."""
        uuid = _string(record, "uuid") or ""
        words = hash((record.get("type"), text))
        if (self.may_be_copy(record) and words in self._texts) or (uuid and uuid in self._ids):
            self.skipped["copy"] += 1
            return True
        self._ids.add(uuid)
        self._texts.add(words)
        return False

    def _say(self, record: Mapping[str, Any], role: Role, text: str, *, typed: bool = False) -> int:
        """Add an utterance and return its place."""
        forked = record.get("forkedFrom")
        told_at = _string(record, "timestamp") or ""
        at = parse_time(told_at) if told_at else moment_of(record.get("timestamp"))
        id_ = _string(record, "uuid") or f"{self._source.session}:{hashed(role, told_at, text)}"
        self._utterances.append(
            Utterance(
                id_,
                role,
                "",
                at,
                typed,
                copy_of=_string(forked, "messageUuid") if isinstance(forked, dict) else None,
            )
        )
        self._words.append([text])
        self._acts.append([])
        return len(self._utterances) - 1


def _is_by_program(record: Mapping[str, Any]) -> bool:
    """Tell whether a program sent a record; one may resume what a person began."""
    origin = _string(record, "turnOrigin")
    return origin == "sdk" if origin else (_string(record, "entrypoint") or "").startswith("sdk")


def _origin(record: Mapping[str, Any]) -> str | None:
    """Return who a record says wrote it: "human", a program, or nothing in older files."""
    origin = record.get("origin")
    told = _string(origin, "kind") if isinstance(origin, dict) else None
    return _string(record, "turnOrigin") or told


def _typed_in_all(texts: Iterable[str], origin: str | None) -> str:
    """Return what the user typed of the texts of a line."""
    parts = (typed_in(text, is_known=origin == "human") for text in texts)
    return "\n\n".join(filter(None, parts))


def _content(record: Mapping[str, Any]) -> Any:
    message = record.get("message")
    return message.get("content") if isinstance(message, dict) else None


def _parts(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the content of a message as parts."""
    content = _content(record)
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return records_of(content)


def _texts(parts: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the words of a message; documents and images have their own types."""
    texts = (part.get("text") for part in parts if part.get("type") in (None, "text"))
    return [text for text in texts if isinstance(text, str)]


def _string(record: Mapping[str, Any], name: str) -> str | None:
    value = record.get(name)
    return value if isinstance(value, str) else None
