"""Transcripts of Cursor's agents: lines with a role and parts, without ids, times and results.

A file is in a folder named after the project, with dashes for all that is no letter or digit.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from plait.agents.histories import Bookmark, HistoryFile, Reading, Session, Utterance
from plait.agents.histories.acts import act_of
from plait.agents.histories.collecting import Utterances
from plait.agents.histories.files import is_unchanged, state_of
from plait.agents.histories.lines import JsonLines
from plait.agents.histories.stripping import holds_block, inner, without_head
from plait.agents.histories.values import (
    hashed,
    joined,
    moment_of,
    record_of,
    records_of,
    string,
    texts_of,
)

TRANSCRIPTS = "agent-transcripts"
_QUERY = "user_query"
# Stands at the end of a part, or alone, for what the model thought.
_REDACTED = "[REDACTED]"
_HEAD_TAGS = ("timestamp", "cursor_commands", "user_info", "system_reminder", "open_files")


def read_transcript(source: HistoryFile, mark: Bookmark | None) -> Iterator[Reading]:
    """Yield a transcript of the command line; its lines are known by their words."""
    state = state_of(source.path)
    if is_unchanged(mark, state):
        return
    rows, at = Utterances(), moment_of(state[0][1] // 1_000_000)
    skipped: Counter[str] = Counter()
    times: Counter[str] = Counter()
    parts: dict[str, list[str]] = {}
    for line in JsonLines(source.path, None):
        if line.record is None:
            skipped[line.reason] += 1
            continue
        role, content = (
            line.record.get("role"),
            record_of(line.record.get("message")).get("content"),
        )
        texts = texts_of(content, "text")
        texts = [_typed(text) for text in texts] if role == "user" else texts
        text = joined(texts)
        words = hashed(source.session, role, text or content)
        times[words] += 1
        id_ = f"{words}:{times[words]}"
        if role == "assistant":
            texts = [text.strip().removesuffix(_REDACTED) for text in texts]
            text = joined(texts)
        parts[id_] = texts
        if role == "user" and text:
            is_mixed = holds_block(text, (*_HEAD_TAGS, _QUERY))
            rows.say(id_, "user", text, at, typed=source.kind == "main" and not is_mixed)
        elif role == "assistant":
            if text:
                rows.say(id_, "assistant", text, at)
            for part in records_of(content):
                if part.get("type") == "tool_use":
                    act = act_of(string(part, "name"), record_of(part.get("input")))
                    rows.call(act, id_, id_, at)
    utterances = with_twins(rows.take(), parts)
    project = next(
        (top.parent.name for top in Path(source.path).parents if top.name == TRANSCRIPTS), ""
    )
    cwd = _existing_folder(Path("/"), project)
    sessions = (
        Session(
            source.agent,
            source.session or Path(source.path).stem,
            utterances,
            cwd,
            None,
            source.kind,
        ),
    )
    yield Reading(sessions if utterances else (), {"files": state}, +skipped)


def with_twins(
    utterances: Iterable[Utterance], parts: Mapping[str, Sequence[str]] | None = None
) -> tuple[Utterance, ...]:
    """Return a whole session's utterances with what they are known by in the other source.

    That is who said which words, and the how manieth time; a line of a transcript may have as parts
    what are messages in the database. Calls without words are known by what was said before.
    """
    times: Counter[str] = Counter()
    rows: list[Utterance] = []
    for row in utterances:
        texts = (parts or {}).get(row.id) or [row.text]
        spoken = [words for text in texts if (words := " ".join(text.split()))]
        before = rows[-1].twins[-1:] if rows else ()
        known = [hashed(row.role, words) for words in spoken] or [hashed("calls", *before)]
        twins = []
        for twin in known:
            times[twin] += 1
            twins.append(f"{twin}:{times[twin]}")
        rows.append(row._replace(twins=tuple(twins)))
    return tuple(rows)


def _typed(text: str) -> str:
    text = without_head(text, _HEAD_TAGS)
    # The last one: a file that is shown before it may hold the same tag.
    _, opened, rest = text.rpartition(f"<{_QUERY}>")
    is_framed = text.startswith(opened) or text.endswith(f"</{_QUERY}>")
    return inner(opened + rest, _QUERY) if opened and is_framed else text


def _existing_folder(top: Path, name: str) -> str | None:
    """Return the folder that has a name with dashes for all else, if exactly one exists."""
    if not name:
        return None
    matches: list[str | None] = []
    try:
        rows = sorted(row for row in top.iterdir() if row.is_dir())
    except OSError:
        return None
    for row in rows:
        dashed = "".join(letter if letter.isalnum() else "-" for letter in row.name).lstrip("-")
        if name == dashed:
            matches.append(str(row))
        elif dashed and name.startswith(f"{dashed}-"):
            matches.append(_existing_folder(row, name.removeprefix(f"{dashed}-").lstrip("-")))
    known = [match for match in matches if match]
    return known[0] if len(known) == 1 else None
