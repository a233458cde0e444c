"""Answer lines that are no messages: bytes that are not UTF-8, broken JSON, unknown shapes.

The SDK drops such lines without a word, and a client that sent one waits for its answer forever.
"""

import json
from typing import Any

from mcp import types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

# Errors of the parser, not of the shape of a message.
_UNREADABLE = ("json_invalid", "string_unicode", "string_type")


def refusal_of(error: Exception) -> SessionMessage | None:
    """Return the JSON-RPC error for a line that is no message; ``None`` for a blank line.

    It has the id of the request if that can be read, and repeats nothing else of the line.
    """
    line, readable = _line_of(error)
    if isinstance(line, str) and not line.strip():
        return None
    code, reason = types.PARSE_ERROR, "Parse error: the line is not valid JSON in UTF-8."
    if readable:
        code, reason = (
            types.INVALID_REQUEST,
            "Invalid request: the line is no JSON-RPC 2.0 message.",
        )
    data = types.ErrorData(code=code, message=reason)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=_id_of(line), error=data))


def _line_of(error: Exception) -> tuple[Any, bool]:
    """Return the line, or its JSON value, and whether it could be parsed."""
    if not isinstance(error, ValidationError):
        return None, False
    details = error.errors(include_url=False, include_context=False)
    if details[0]["type"] in _UNREADABLE and not details[0]["loc"]:
        return details[0]["input"], False
    # The value as a whole is the input of an error about a missing field, or about its type.
    whole = (row["input"] for row in details if row["type"] in ("missing", "model_type"))
    return next(whole, None), True


def _id_of(line: Any) -> int | str | None:
    """Return the id of a request; ``None`` if it cannot be read, or if no request was meant."""
    message = line
    if isinstance(line, str):
        try:
            message = json.loads(line)  # more lenient: it reads a lone surrogate
        except (ValueError, RecursionError):
            return None
    if not isinstance(message, dict) or "method" not in message:
        return None  # the id of an answer is one of ours
    id_ = message.get("id")
    if isinstance(id_, bool) or not isinstance(id_, int | str):
        return None
    if isinstance(id_, str) and not _is_text(id_):
        return None
    return id_


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
