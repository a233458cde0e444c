"""The processes that append to one session at once, until they are done or killed."""

from multiprocessing.connection import Connection
from pathlib import Path

from tests.reliability import memories


def append(pipe: Connection, path: Path, number: int, messages: int) -> None:
    """Append messages one by one and in pairs; report each after it was stored."""
    with memories.open_memory(path) as memory:
        pipe.send(("ready",))
        pipe.recv()
        for place in range(0, messages, 3):
            texts = [f"writer {number} message {place + more}" for more in range(3)]
            memory.store(texts[0], role="user", session="talk")
            pipe.send(("stored", texts[:1]))
            pair = [{"role": "assistant", "content": text} for text in texts[1:]]
            memory.add_messages(pair, session="talk")
            pipe.send(("stored", texts[1:]))
        pipe.send(("done",))
