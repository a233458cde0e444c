"""Frames that no client should send: broken, huge, nested, of wrong types, of unknown methods."""

import json
import random
from collections.abc import Iterator
from typing import Any

DEPTH = 5_000
GIANT = 2_000_000  # bytes of a line
METHODS = (
    *("tools/call", "tools/list", "resources/read", "resources/list", "prompts/get", "ping"),
    *("initialize", "server/discover", "logging/setLevel", "completion/complete", "no/such"),
    *("notifications/cancelled", "notifications/initialized", "notifications/progress", "", "\x00"),
)
TOOLS = ("memory_search", "memory_get", "memory_recall", "memory_timeline", "no_such_tool", "")
IDS: tuple[Any, ...] = (0, -1, 10**30, 1.5, "", "x" * 500, None, True, [], {}, "\ud800")
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**40, 1.5, "", "x" * 3_000, "\x00", "日本", '"', "a AND (b", "🙂" * 50),
    *([], {}, [[]], {"a": [1]}, ["\u202e"], {"": ""}),
)
MODERN = "io.modelcontextprotocol/protocolVersion"


def frames(count: int, seed: int = 1) -> Iterator[bytes]:
    """Return this many frames, the same on every run."""
    chance = random.Random(seed)
    for number in range(count):
        # The giants are few: they cost a hundred times what the others do.
        yield _giant(chance) if number % 500 == 250 else chance.choice(_KINDS)(chance)


def _noise(chance: random.Random) -> bytes:
    return chance.randbytes(chance.randrange(1, 200)).replace(b"\n", b" ")


def _broken(chance: random.Random) -> bytes:
    whole = _odd_call(chance)
    return whole[: chance.randrange(len(whole))]


def _invalid_text(chance: random.Random) -> bytes:
    query = bytes([chance.randrange(128, 256) for _ in range(8)])
    head = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"memory_search",'
    return head + b'"arguments":{"query":"' + query.replace(b"\n", b"") + b'"}}}'


def _nested(chance: random.Random) -> bytes:
    opening, closing = chance.choice([(b"[", b"]"), (b'{"a":', b"}")])
    deep = opening * DEPTH + b"1" + closing * chance.choice([0, DEPTH])
    if chance.random() < 0.5:
        return deep
    return b'{"jsonrpc":"2.0","id":7,"method":"tools/list","params":' + deep + b"}"


def _batch(chance: random.Random) -> bytes:
    return b"[" + b",".join(_odd_call(chance) for _ in range(chance.randrange(4))) + b"]"


def _odd_envelope(chance: random.Random) -> bytes:
    message: dict[str, Any] = {"jsonrpc": chance.choice(["2.0", "1.0", 2, None])}
    message["method"] = chance.choice(METHODS)
    if chance.random() < 0.7:
        message["id"] = chance.choice(IDS)
    if chance.random() < 0.7:
        message["params"] = chance.choice(VALUES)
    if chance.random() < 0.2:
        message[chance.choice(["result", "error"])] = chance.choice(VALUES)
    return json.dumps(message).encode()


def _odd_call(chance: random.Random) -> bytes:
    names = ("query", "limit", "ids", "since", "tags", "max_tokens", "zebra")
    arguments: object = {
        chance.choice(names): chance.choice(VALUES) for _ in range(chance.randrange(4))
    }
    if chance.random() < 0.2:
        arguments = chance.choice(VALUES)
    params = {"name": chance.choice(TOOLS), "arguments": arguments}
    if chance.random() < 0.3:
        params["_meta"] = chance.choice([{MODERN: chance.choice(VALUES)}, *VALUES])
    message = {"jsonrpc": "2.0", "id": chance.choice(IDS), "method": "tools/call", "params": params}
    return json.dumps(message).encode()


def _cancel(chance: random.Random) -> bytes:
    params = {"requestId": chance.choice(IDS), "reason": chance.choice(VALUES)}
    message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    return json.dumps(message).encode()


def _giant(chance: random.Random) -> bytes:
    if chance.random() < 0.3:
        return b"x" * GIANT
    query = b"word " * (GIANT // 5)
    head = b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"memory_search",'
    return head + b'"arguments":{"query":"' + query + b'"}}}'


_KINDS = (_noise, _broken, _invalid_text, _nested, _batch, _odd_envelope, _odd_call, _cancel)
