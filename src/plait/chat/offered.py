"""The tools that a chat offers to its model: search, read and store; no others are run."""

from typing import Any

from plait.chat.context import ShownSource, sources_of
from plait.chat.turns import ModelCall
from plait.memory import Memory
from plait.settings.chat_models import ChatModel
from plait.tools.calling import reply_to
from plait.tools.formats import definitions
from plait.types.records import NamedTuple

READING = ("memory_search", "memory_get")
WRITING = ("memory_store",)


def offered_names(memory: Memory) -> tuple[str, ...]:
    """Return the names of the tools; without those that write, if the memory may not be written."""
    if memory.is_off:
        return ()
    return READING if memory.config.settings.read_only else READING + WRITING


def offered_tools(memory: Memory, model: ChatModel) -> list[dict[str, Any]]:
    """Return the definitions of the tools, as the model's server takes them."""
    # Only OpenAI itself knows the strict form of its definitions; others take Ollama's.
    is_strict = model.protocol != "openai" or model.needs_key
    rows = definitions(model.protocol if is_strict else "ollama")
    names = offered_names(memory)
    return [row for row in rows if row.get("function", row)["name"] in names]


class CallResult(NamedTuple):
    """What a model is told about its call, and which passages that shows."""

    text: str
    is_error: bool = False
    sources: tuple[ShownSource, ...] = ()


def run_call(memory: Memory, call: ModelCall, session: str | None) -> CallResult:
    """Execute a call; whatever the model sent, the answer is a text for it."""
    names = offered_names(memory)
    reply = reply_to(memory, call.name, call.arguments, only=names, session=session)
    if isinstance(reply, str):
        return CallResult(reply, is_error=True)
    return CallResult(reply.text, sources=sources_of(reply.data.get("results", ())))
