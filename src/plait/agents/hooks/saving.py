"""Save what was said in a session: take in the end of the transcript that the agent keeps."""

import os

from plait.agents.importing import LIVE, RUN_FIELD, import_transcript
from plait.errors import UsageError, quotable
from plait.memory import Memory
from plait.settings.loading import Config
from plait.types import Document
from plait.types.audit import acting

# Agents whose transcript is the file that `plait import` reads. Cursor's editor names a copy of
# what is in its database under other ids: saved from both, every message would be there twice.
SAVED_BY_HOOKS = ("claude-code", "codex", "gemini", "copilot")

# Why an import takes nothing of a session, in its words, and the code for the record.
_LEFT_OUT = {
    "headless sessions": "headless",
    "subagent sessions": "subagent",
    "excluded": "excluded",
    "unreadable": "unreadable",
}


def save_transcript(config: Config, agent: str, path: str) -> str:
    """Take in what is new in a transcript; return a code: what was done, or why nothing was.

    It may be killed at any time: what was taken in stays, and the rest is taken in the next time.
    """
    if not config.settings.auto_save:
        return "auto_save_off"
    if config.settings.read_only or config.settings.backend == "none":
        return "read_only"
    if not path or not os.path.isfile(path):
        return "no_transcript"
    if agent not in SAVED_BY_HOOKS:
        return "not_by_hooks"
    with acting(door="hook"), Memory.open(config=config) as memory:
        report = import_transcript(memory, agent, path)
    if report.messages:
        return "taken_in"
    return next((code for why, code in _LEFT_OUT.items() if why in report.skipped), "nothing_new")


def saved_messages(memory: Memory, day: str = "", *, all_projects: bool = False) -> list[Document]:
    """Return the messages of this project and the personal ones that hooks saved, newest first.

    Args:
        memory: The memory.
        day: Only those saved on this day, or in this month: ``2026-11-16``, ``2026-11``.
        all_projects: Those of other projects, too.

    Raises:
        UsageError: It is neither a day nor a month.
    """
    parts = day.split("-")
    lengths = [len(part) for part in parts if part.isascii() and part.isdecimal()]
    if day and (lengths not in ([4, 2], [4, 2, 2]) or len(lengths) < len(parts)):
        raise UsageError(
            f"'{quotable(day)}' is neither a day nor a month. Write it like 2026-11-16 or 2026-11.",
            code="not_a_day",
            subject=day,
        )
    if not memory.stats().doc_count:
        return []
    where = memory._read_filter({"kinds": ("message",)}, all_projects=all_projects)
    rows = memory.engine.scan(where, damaged=[])
    return [row for row in rows if row.metadata.get(RUN_FIELD, "").startswith(LIVE + day)]
