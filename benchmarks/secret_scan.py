"""Measure what looking for secrets costs, as a share of storing without vectors.

    .venv/bin/python benchmarks/secret_scan.py

CPU time of the scan of each text, divided by that of `ingest` (many files at once) and of `store`
(one note each, with its own commit), with the embedder "none". Scan and storing are measured in
turns, so that the load of the machine concerns both.
"""

import tempfile
import time
from pathlib import Path
from unittest import mock

import corpus

from plait.facts.credentials import document_secrets
from plait.memory import Memory
from plait.types import Document
from plait.writing import writer

PASSAGES = 6_000
ROUNDS = 5
NOTES = 400


class Scan:
    """The scanner, with a clock."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, document: Document) -> tuple[str, ...]:
        began = time.process_time()
        kinds = document_secrets(document)
        self.seconds += time.process_time() - began
        return kinds


def share(path: Path, act: str, notes: Path, texts: list[str]) -> tuple[float, float]:
    """Return the seconds of the scan and of all of it."""
    scan = Scan()
    with (
        Memory.open(path, embedder="none", project="") as memory,
        mock.patch.object(writer, "document_secrets", scan),
    ):
        began = time.process_time()
        if act == "ingest":
            memory.ingest(notes)
        else:
            for text in texts:
                memory.store(text)
        return scan.seconds, time.process_time() - began


def main() -> None:
    passages = corpus.read_passages(PASSAGES)
    groups: dict[int, list[str]] = {}
    for passage in passages:
        groups.setdefault(passage.document, []).append(passage.text)
    with tempfile.TemporaryDirectory() as name:
        notes = Path(name) / "notes"
        notes.mkdir()
        for number, texts in groups.items():
            (notes / f"{number}.md").write_text("\n\n".join(texts) + "\n", encoding="utf-8")
        size = sum(len(passage.text) for passage in passages)
        for act in ("ingest", "store"):
            texts = [passage.text for passage in passages[:NOTES]]
            runs = [share(Path(name) / f"{act}{n}.db", act, notes, texts) for n in range(ROUNDS)]
            scan, whole = min(run[0] for run in runs), min(run[1] for run in runs)
            size = sum(map(len, texts)) if act == "store" else size
            print(
                f"{act}: scan {scan:.3f} s of {whole:.3f} s CPU, {scan / whole:.1%}; "
                f"{scan / size * 1e9:.0f} ns a character"
            )


if __name__ == "__main__":
    main()
