"""plait's memory tool for Anthropic's tool runner: ``client.beta.messages.run_tools``."""

from collections.abc import Mapping
from typing import Any

from plait.errors import PIP

try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, ToolError
except ModuleNotFoundError as error:
    raise ImportError(
        f"plait.tools.adapters.anthropic needs Anthropic's SDK. Run: {PIP} install anthropic"
    ) from error

from plait.tools.memory_tool import MemoryTool


class AnthropicMemoryTool(BetaAbstractMemoryTool):
    """The tool ``memory`` for the SDK's runner, over a `MemoryTool`."""

    def __init__(self, tool: MemoryTool) -> None:
        """Take the tool that executes the commands."""
        super().__init__()
        self._tool = tool

    def execute(self, command: Any) -> str:
        """Execute a command of the model.

        Raises:
            ToolError: It was refused; the SDK tells the model why.
        """
        fields = command if isinstance(command, Mapping) else command.model_dump(exclude_none=True)
        result = self._tool.run(fields)
        if result.is_error:
            raise ToolError(result.text)
        return result.text

    view = create = str_replace = insert = delete = rename = execute
