"""The texts that plait ships for agents: the skill, two snippets, a plugin."""

import json
import os
from collections.abc import Sequence
from typing import Literal

from plait import __version__

AgentText = Literal["skill", "agents", "heartbeat"]
SNIPPETS: dict[AgentText, str] = {
    "skill": os.path.join("plait", "SKILL.md"),
    "agents": "AGENTS.md",
    "heartbeat": "HEARTBEAT.md",
}
SKILL_MARK = "plait-version:"
PLUGIN_MARK = "// Written by plait connect opencode"
_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


def snippet(name: AgentText) -> str:
    """Return a text for agents to read."""
    return _read(SNIPPETS[name]).replace("VERSION", __version__, 1 if name == "skill" else 0)


def skill_text() -> str:
    """Return the skill, with the version of this plait."""
    return snippet("skill")


def opencode_plugin(words: Sequence[str], *, work: bool = True) -> str:
    """Return opencode's plugin, which starts this command; with ``work``, also after failures."""
    text = _read("opencode.ts").replace("HINTS = true", f"HINTS = {json.dumps(work)}", 1)
    return text.replace('["plait"]', json.dumps(list(words), ensure_ascii=False), 1)


def _read(name: str) -> str:
    with open(os.path.join(_FOLDER, name), encoding="utf-8", newline="") as file:
        return file.read()
