"""A server whose embedder prints, as other people's libraries do."""

import os
import sys

from plait.mcp import stdio
from plait.mcp.lazy import LazyMemory
from plait.memory import Memory
from plait.testing import HashingEmbedder


class Chatty(HashingEmbedder):
    def embed(self, texts, kind):
        print("loading model")  # noqa: T201 - that is the point
        os.write(1, b"progress 100%\n")
        return super().embed(texts, kind)


if __name__ == "__main__":
    path = sys.argv[1]
    stdio.serve_stdio(
        LazyMemory(lambda create: Memory.open(path, embedder=Chatty(), project="", create=create)),
        (),
    )
