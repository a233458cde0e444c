"""Read chats that were exported as JSON: Slack, Discord (DiscordChatExporter) and Telegram.

Another JSON file stays as it is. A chat that was exported as text, as WhatsApp does, is a text.
"""

import datetime
from collections.abc import Iterator
from typing import Any

from plait.types.records import NamedTuple
from plait.writing.formats.encodings import Converted, decoded
from plait.writing.formats.located import Lines, parsed, starts_of

_NAME_CHARS = 80
# Before each further line of a message. Without it, the line could be a heading of the chat, or a
# fence that hides the days after it.
_FURTHER = "> "


class _Spoken(NamedTuple):
    """A message; ``number`` counts the items of the list from 0."""

    number: int
    day: str
    time: str
    name: str
    text: str


def convert_chat(data: bytes, name: str, max_bytes: int) -> Converted:
    """Return a chat as Markdown, a section for each day; another JSON file as it is."""
    source = decoded(data, name)
    value = parsed(source.text)
    messages = _messages(value)
    if not messages:
        return source
    rows: list[str] = []
    numbers: list[int] = []
    lines = Lines(source.text, starts_of(source.text, "messages"))
    day = ""
    for message in messages:
        first, *others = message.text.strip("\n").split("\n")
        lines.enter(message.number)
        number = lines.of(first)
        if message.day != day:
            day = message.day
            rows += [f"## {day}", ""]
            numbers += [number, number]
        rows.append(f"[{message.time}] {message.name}: {first}")
        rows += [f"{_FURTHER}{row}" if row.strip() else "" for row in others]
        rows.append("")
        numbers += [number] * (len(others) + 2)
    text = "".join(f"{row}\n" for row in rows)
    return Converted(text, tuple(numbers), _title(value), source.remark)


def _messages(value: object) -> list[_Spoken]:
    """Return the messages of a chat; none if this is not a chat that we know."""
    if isinstance(value, list):
        return list(_slack(value))
    messages = value.get("messages") if isinstance(value, dict) else None
    if not isinstance(messages, list):
        return []
    spoken = list(_telegram(messages))
    return spoken or list(_discord(messages))


def _slack(messages: list[Any]) -> Iterator[_Spoken]:
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("type") != "message":
            continue
        profile = message.get("user_profile")
        name = (profile.get("real_name") if isinstance(profile, dict) else "") or message.get(
            "username", message.get("user")
        )
        yield from _spoken(number, message.get("ts"), name, message.get("text"))


def _telegram(messages: list[Any]) -> Iterator[_Spoken]:
    for number, message in enumerate(messages):
        if isinstance(message, dict) and message.get("type") == "message" and "date" in message:
            text = _runs(message.get("text"))
            yield from _spoken(number, message["date"], message.get("from"), text)


def _discord(messages: list[Any]) -> Iterator[_Spoken]:
    for number, message in enumerate(messages):
        if isinstance(message, dict) and isinstance(message.get("author"), dict):
            author = message["author"]
            name = author.get("nickname") or author.get("name")
            yield from _spoken(number, message.get("timestamp"), name, message.get("content"))


def _runs(text: object) -> object:
    """Return a text of Telegram, which may be a list of plain and formatted runs."""
    if not isinstance(text, list):
        return text
    runs = [run.get("text") if isinstance(run, dict) else run for run in text]
    return "".join(run for run in runs if isinstance(run, str))


def _spoken(number: int, moment: object, name: object, text: object) -> Iterator[_Spoken]:
    when = _when(moment)
    if when is not None and isinstance(text, str) and text.strip():
        shown = " ".join(name.split())[:_NAME_CHARS] if isinstance(name, str) else "?"
        yield _Spoken(number, *when, shown or "?", text)


def _when(moment: object) -> tuple[str, str] | None:
    """Return day and time: of seconds since 1970 in UTC, of a date as it is written."""
    if not isinstance(moment, str):
        return None
    try:
        if moment.replace(".", "", 1).isdigit():
            when = datetime.datetime.fromtimestamp(float(moment), datetime.UTC)
        else:
            when = datetime.datetime.fromisoformat(moment)
    except (ValueError, OverflowError, OSError):
        return None
    return when.strftime("%Y-%m-%d"), when.strftime("%H:%M")


def _title(value: object) -> str:
    if not isinstance(value, dict):
        return ""
    channel = value.get("channel")
    name = value.get("name") or (channel.get("name") if isinstance(channel, dict) else "")
    return " ".join(name.split())[:_NAME_CHARS] if isinstance(name, str) else ""
