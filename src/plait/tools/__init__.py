"""Tools that a model calls: their schemas, the functions behind them, and what they answer.

`definitions` gives the schemas in the shape of any provider, and `run` executes a call. Nothing
here knows a protocol or asks a model: `plait.mcp` and every other interface take the tools from
here, so that a tool has one name, one schema and one answer.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plait.tools.calling import ToolResult, run, run_text
    from plait.tools.formats import definitions
    from plait.tools.loop import Prompt, TurnTaken, remember_turn, take_turn, with_context
    from plait.tools.memory_tool import MemoryTool

__all__ = [
    "MemoryTool",
    "Prompt",
    "ToolResult",
    "TurnTaken",
    "definitions",
    "remember_turn",
    "run",
    "run_text",
    "take_turn",
    "with_context",
]

_HOMES = {
    "MemoryTool": "memory_tool",
    **dict.fromkeys(("Prompt", "TurnTaken", "remember_turn", "take_turn", "with_context"), "loop"),
    "ToolResult": "calling",
    "definitions": "formats",
    "run": "calling",
    "run_text": "calling",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for: whoever needs one part of this package does not wait for the rest."""
    if name not in _HOMES:
        raise AttributeError(f"module 'plait.tools' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"plait.tools.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """List every public name, including those not loaded yet."""
    return sorted({*globals(), *__all__})
