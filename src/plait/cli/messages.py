"""store --messages: add the messages of a chat API to a session."""

import json
from argparse import Namespace
from typing import Any

from plait.cli import Output
from plait.cli.shared import open_to_write, standard_input, vectors_missing
from plait.cli.store import read_source
from plait.errors import UsageError, advise, quotable
from plait.present.json import added_dict
from plait.present.text import added_text, pending_notice, secret_remark

# Options of `store` that say something about one text.
_OF_ONE_TEXT = (
    *("words", "text", "file", "key", "title", "type", "memory_type", "tags", "metadata"),
    "provenance",
    *("summary", "role", "importance", "pinned", "event_at", "entity", "topic", "supersedes"),
    *("valid_from", "status"),
)


def add_messages(arguments: Namespace, out: Output) -> int:
    """Add the messages of a file to a session, all or none."""
    others = [
        name for name in _OF_ONE_TEXT if getattr(arguments, name) not in (None, "", [], False)
    ]
    if others:
        name = {"words": "TEXT", "key": "--doc-id"}.get(others[0])
        option = name or f"--{others[0].replace('_', '-')}"
        raise UsageError(f"{option} is about one text. Leave it out, or leave out --messages.")
    if arguments.session is None:
        raise UsageError(
            "Messages belong to a session.",
            code="no_session",
            subject="session",
            advice=advise("give_session"),
        )
    limit = round(out.config.settings.max_file_mb * 1024 * 1024)
    source = arguments.messages
    text = standard_input(limit) if source == "-" else read_source(source, limit, out).text
    messages = _parsed(text)
    with open_to_write(out) as memory:
        stored = memory.add_messages(
            messages,
            session=arguments.session,
            origin=arguments.origin,
            trust=arguments.trust,
            allow_secret=arguments.allow_secret,
            visibility=arguments.visibility,
        )
    project = out.config.project
    out.result(
        added_dict(stored, arguments.session, project),
        "" if memory.is_off else added_text(stored, arguments.session, project),
    )
    _warn(stored, out)
    return 0


def _warn(stored: list[Any], out: Output) -> None:
    """Say once what concerns several messages."""
    for place, row in enumerate(stored):
        if row.secret:
            out.warn(f"messages[{place}]: {secret_remark(row.secret)}")
        if row.lowered:
            out.warn(f"messages[{place}]: stored as {row.lowered}")
        if row.shortened or (row.recalled and not row.id):
            out.warn(f"messages[{place}]: what was recalled from this memory was left out")
    pending = sum(row.pending for row in stored)
    if pending:
        out.warn_all(vectors_missing(next(filter(None, (row.trouble for row in stored)), None)))
        out.warn(pending_notice(pending))


def _parsed(text: str) -> list[Any]:
    """Return messages: a JSON list, an object with a list of them, or one object on each line."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _parsed_lines(text)
    if isinstance(value, dict):
        inner = value.get("messages")
        value = inner if isinstance(inner, list) else [value]
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise _bad_messages("the JSON is not a list of messages")
    return value


def _parsed_lines(text: str) -> list[Any]:
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise _bad_messages(f"line {number} is not JSON ({quotable(str(error))})") from None
    return rows


def _bad_messages(problem: str) -> UsageError:
    return UsageError(
        f"These are no messages: {problem}. Nothing was stored. Write a list like "
        '[{"role": "user", "content": "hello"}], or one such object on each line.',
        code="bad_messages",
    )
