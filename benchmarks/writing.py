"""Measure writing: CPU time and disk space."""

import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import corpus
from measure import Spread, cpu_ms, spread

from plait.memory import Memory

FILES = 1_500


class Ingested(NamedTuple):
    """One run of ``Memory.ingest`` over a folder."""

    embedder: str
    files: int
    passages: int
    characters: int
    seconds: float
    disk_bytes: int


def ingest(folder: Path, passages: Sequence[corpus.Passage], embedder: str) -> Ingested:
    """Index a folder of notes through the public path: read, chunk, embed, store."""
    notes = folder / "notes"
    if not notes.exists():
        notes.mkdir()
        groups = groupby(passages, key=lambda passage: passage.document)
        for (number, group), _ in zip(groups, range(FILES), strict=False):
            text = "\n\n".join(passage.text for passage in group)
            (notes / f"{number}.md").write_text(text + "\n", encoding="utf-8")
    path = folder / f"ingest-{embedder}.db"
    with Memory.open(path, embedder=embedder, project="") as memory:
        began = time.process_time()
        memory.ingest(notes)
        seconds = time.process_time() - began
        stats = memory.stats()
    characters = sum(note.stat().st_size for note in notes.iterdir())
    size = path.stat().st_size
    path.unlink()
    return Ingested(embedder, stats.doc_count, stats.chunk_count, characters, seconds, size)


def single(path: Path, folder: Path, texts: Sequence[str]) -> Spread:
    """Measure ``store`` of single observations into a filled memory, each with its own commit."""
    copy = folder / "single.db"
    with Memory.open(path, create=False, project="") as memory:
        memory.backup(copy)
    with Memory.open(copy, embedder="hashing", project="") as memory:
        costs = spread(
            cpu_ms(lambda text=text: memory.store(text))  # type: ignore[misc]
            for text in texts
        )
    copy.unlink()
    return costs
