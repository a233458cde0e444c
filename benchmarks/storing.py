"""What writing costs: one note in memories of several sizes, files, and rows without embedding.

    python benchmarks/storing.py --sizes 10000 100000
    python benchmarks/storing.py --sizes 1000000 --folder /large/disk

All figures are CPU time of one process, with the built-in model: median / 95th percentile of single
notes, the best of several runs of the rest. The growth is that of the median, as an exponent.
"""

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import corpus
from measure import Spread, cpu_ms, plain_environment, processes, spread

from plait.facts.fingerprints import fingerprint
from plait.memory import Memory, named_embedder
from plait.protocols import Entry
from plait.stores.sqlite.store import SQLiteStore
from plait.types import Document, Passage
from plait.types.ids import new_id

STORES = 100
UNMEASURED = 5  # the first notes of a process load what the others use
FACTS = 100
FILES, SECTIONS, SHORT_FILES = 2_000, 5, 3_000
ROWS = 10_000
RUNS = 3
BATCH = 2_500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--folder", type=Path, default=None, help="where the memories are built")
    given = parser.parse_args()
    sizes = sorted(given.sizes)
    passages = corpus.read_passages(max(sizes[-1] + 2 * STORES, FILES * SECTIONS + SHORT_FILES))
    texts = [passage.text for passage in passages]
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="plait-bench-") as name:
        folder = Path(name)
        print("| notes in the memory | store one | one fact of an entity with 100 |")
        print("|---|---|---|")
        medians: list[tuple[int, float]] = []
        for size in sizes:
            path = folder / f"{size}.db"
            build_notes(path, texts[: min(size, len(texts) - 2 * STORES)])
            single, fact = store_notes(path, texts[-2 * STORES :])
            path.unlink()
            medians.append((size, single.median))
            print(f"| {size:,} | {single} | {fact} |", flush=True)
        for (small, cheap), (large, dear) in pairwise(medians):
            growth = math.log(dear / cheap) / math.log(large / small)
            print(f"\ngrowth from {small:,} to {large:,}: {growth:.2f}")
        print("\n| what | passages per CPU second |")
        print("|---|---|")
        sections = write_files(folder / "sections", texts, FILES, SECTIONS)
        print(f"| `plait ingest`, {FILES:,} files of {SECTIONS} sections | {ingested(sections)} |")
        short = write_files(folder / "short", texts[FILES * SECTIONS :], SHORT_FILES, 1)
        print(f"| `plait ingest`, {SHORT_FILES:,} files of one passage | {ingested(short)} |")
        print(f"| rows through the store, embedding not counted | {rows(folder, texts[:ROWS])} |")


def entries(texts: Sequence[str], per_document: int) -> Iterator[Entry]:
    """Yield notes, or files of several passages, with their vectors."""
    embedder = named_embedder("builtin")
    for start in range(0, len(texts), BATCH):
        batch = texts[start : start + BATCH]
        vectors = embedder.embed(batch, "passage")
        for place in range(0, len(batch), per_document):
            parts = batch[place : place + per_document]
            starts = [sum(map(len, parts[:number])) for number in range(len(parts))]
            cut = [
                Passage(part, start=at, ordinal=number)
                for number, (part, at) in enumerate(zip(parts, starts, strict=True))
            ]
            moment = 1_700_000_000_000 + start + place
            key = f"{start + place}.md" if per_document > 1 else None
            document = Document(
                id=new_id(),
                key=key,
                kind="observation" if key is None else "file",
                text="".join(parts),
                created_at=moment,
                updated_at=moment,
                event_at=moment,
                indexed_at=moment,
            )
            yield Entry(document, cut, vectors[place : place + len(parts)], embedder.space)


def build_notes(path: Path, texts: Sequence[str]) -> None:
    """Write each text as an observation."""
    store = SQLiteStore(str(path), durability="normal")
    for start in range(0, len(texts), BATCH):
        with store.transaction() as transaction:
            for entry in entries(texts[start : start + BATCH], 1):
                transaction.write(entry, fingerprint=fingerprint(entry.document.text))
    store.tidy()
    store.close()


def store_notes(path: Path, texts: Sequence[str]) -> tuple[Spread, Spread]:
    """Return what one note costs, and one fact of an entity that has many."""
    with Memory.open(path, project="") as memory:
        costs = [cpu_ms(lambda text=text: memory.store(text)) for text in texts[:STORES]]  # type: ignore[misc]
        for number in range(FACTS):
            memory.store(f"Fact {number}: {texts[number][:150]}", entity="Ana")
        facts = [
            cpu_ms(lambda text=text: memory.store(text[:150], entity="Ana"))  # type: ignore[misc]
            for text in texts[STORES:]
        ]
    return spread(costs[UNMEASURED:]), spread(facts)


def write_files(folder: Path, texts: Sequence[str], files: int, sections: int) -> Path:
    """Write Markdown files of so many sections."""
    folder.mkdir()
    for number in range(files):
        parts = texts[number * sections : (number + 1) * sections]
        if sections > 1:
            parts = [f"## Section {place}\n\n{part}" for place, part in enumerate(parts)]
        (folder / f"{number}.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return folder


def ingested(folder: Path) -> str:
    """Return how many passages `plait ingest` writes per CPU second, the start included."""
    path = folder.parent / "ingest.db"
    source = os.environ.get("PYTHONPATH", "")
    environment = {**plain_environment(folder.parent), "PYTHONPATH": source}
    command = [sys.executable, "-m", "plait", "ingest", str(folder), "--db", str(path)]
    best, count = math.inf, 0
    for _ in range(RUNS):
        [process] = processes([command], environment)
        if process.code:
            raise SystemExit(f"plait ingest failed with code {process.code}")
        with Memory.open(path, project="") as memory:
            count = memory.stats().chunk_count
        for file in folder.parent.glob("ingest.db*"):
            file.unlink()
        best = min(best, process.cpu_ms)
    return f"{count / best * 1000:,.0f}"


def rows(folder: Path, texts: Sequence[str]) -> str:
    """Return how many passages of files with vectors the store writes per CPU second."""
    made, best = list(entries(texts, SECTIONS)), math.inf
    for run in range(RUNS):
        store = SQLiteStore(str(folder / f"rows-{run}.db"), durability="normal")
        began = time.process_time()
        for start in range(0, len(made), 500):
            with store.transaction() as transaction:
                for entry in made[start : start + 500]:
                    transaction.write(entry)
        best = min(best, time.process_time() - began)
        store.close()
    return f"{len(texts) / best:,.0f}"


if __name__ == "__main__":
    main()
