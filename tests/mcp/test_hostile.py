"""Broken, hostile or huge frames neither end the server nor put anything but JSON on stdout."""

import os

import pytest

from plait import Memory
from tests.mcp.hostile import frames
from tests.mcp.talk import talking

FRAMES = 5_000
BETWEEN_SEARCHES = 100
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
# `make soak` gives every course a seed of its own.
SEEDS = range(1, 6) if os.environ.get("PLAIT_SOAK") else (1,)


@pytest.mark.slow
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("seed", SEEDS)
def test_hostile_frames_end_nothing_and_every_hundredth_search_is_answered(tmp_path, era, seed):
    path = str(tmp_path / "memory.db")
    with Memory.open(path, embedder="none", project="") as memory:
        memory.store("We deploy on Fridays")
    meta = {} if era == "legacy" else {"_meta": MODERN_META}
    search = {"name": "memory_search", "arguments": {"query": "deploy"}, **meta}
    with talking("--db", path, "--embedder", "none", "--project", "personal", "mcp") as talk:
        if era == "legacy":
            talk.hello()
        else:
            assert "result" in talk.ask("server/discover", meta)
        for number, frame in enumerate(frames(FRAMES, seed), start=1):
            talk.send(frame)
            if number % BETWEEN_SEARCHES == 0:
                answer = talk.ask("tools/call", search)
                text = answer["result"]["content"][0]["text"]
                assert text.count("We deploy on Fridays") == 1
        assert talk.leave() == 0
        for line in talk.rest():
            assert line.startswith(b'{"jsonrpc":"2.0"')
        # Many of them were requests, and were answered as such.
        assert len(talk.heard) > FRAMES // 10
        assert "Traceback" not in talk.log()
