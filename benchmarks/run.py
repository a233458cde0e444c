"""Measure plait and write a table: ``make bench``, or ``python benchmarks/run.py --million``."""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import corpus
import databases
import fresh
import measure
import report
import summary
import warm
import writing

from plait.memory import named_embedder

SIZES = (10_000, 100_000)
MILLION = 1_000_000
BUILT_IN_PASSAGES = 100_000  # above that only the stand-in: the model would take minutes
# Text, index and vectors of a passage, twice over for the copy that measures `store`.
DISK_BYTES_PER_PASSAGE = 2_500
QUERIES = 200
# What fresh processes are asked: a name, the options, and the step through the queries.
FRESH = (
    ("hybrid", (), 1),
    ("hybrid, a filter that half pass", ("--tag", "half"), 4),
    ("keyword", ("--mode", "keyword"), 4),
)
KERNEL_QUERIES = 50
BY_HAND_ROWS = 300_000  # compared by plain Python in all: about ten seconds
RECALL_QUERIES = 100
RECALL_PASSAGES = 20_000
FILTER_QUERIES = 40
PLAIN_OR_QUERIES = 30  # a million passages by plain OR take up to two seconds each
STORES = 100


def say(text: str) -> None:
    sys.stderr.write(f"{time.process_time():7.1f} s  {text}\n")


def main() -> int:
    """Run every measurement and print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--million", action="store_true", help="also 1,000,000 passages")
    options.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="passages")
    options.add_argument("--folder", type=Path, default=None, help="where the memories are built")
    options.add_argument("--output", type=Path, default=None, help="where the table is written")
    given = options.parse_args()
    sizes = sorted({*given.sizes, *([MILLION] if given.million else [])})
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="plait-bench-") as name:
        folder = Path(name)
        sizes = _affordable(sizes, folder)
        say(f"gathering {max(sizes):,} passages of text")
        passages = corpus.read_passages(max(sizes))
        sizes = _available(sizes, len(passages))
        table = _measured(folder, passages, sizes)
    today = datetime.now(tz=UTC).date().isoformat()
    target = given.output or summary.RESULTS / f"{today}.md"
    target.parent.mkdir(exist_ok=True)
    target.write_text(f"# {today}\n\n{table}", encoding="utf-8")
    sys.stdout.write(table)
    say(f"written to {target}")
    if given.output is None:
        for page in summary.refresh():
            say(f"refreshed {page}")
    return 0


def _affordable(sizes: Sequence[int], folder: Path) -> list[int]:
    free = shutil.disk_usage(folder).free
    fits = [size for size in sizes if size * DISK_BYTES_PER_PASSAGE < free]
    for size in sizes:
        if size not in fits:
            say(f"left out {size:,} passages: the disk has only {free / 1e9:.1f} GB free")
    if not fits:
        raise SystemExit("The disk is too full for any measurement. Give another with --folder.")
    return fits


def _available(sizes: Sequence[int], available: int) -> list[int]:
    if available < max(sizes):
        say(
            f"this machine has only {available:,} passages of text: the largest size is scaled down"
        )
    return sorted({min(size, available) for size in sizes})


def _measured(folder: Path, passages: list[corpus.Passage], sizes: Sequence[int]) -> str:
    out = report.Report()
    out.machine(measure.machine(), [len(passages), sum(len(p.text) for p in passages)])
    say("installing")
    installed = fresh.install(folder)
    out.starts(
        installed.how,
        fresh.starts(installed, folder),
        {
            name: fresh.modules(installed, folder, name)
            for name in ("import plait", "import plait.memory")
        },
    )
    for size in sizes:
        part = passages[:size]
        say(f"building {size:,} passages")
        built = databases.build(folder / f"{size}.db", part, named_embedder("hashing"))
        out.built(built)
        asked = corpus.queries(part, QUERIES)
        _searched(out, installed, folder, built, asked)
        if size == sizes[0]:
            say("storing single observations")
            texts = [f"Remembered {i}: {p.text[:200]}" for i, p in enumerate(part[:STORES])]
            out.single(size, writing.single(built.path, folder, texts))
        built.path.unlink()
        if size <= BUILT_IN_PASSAGES:
            _searched_by_meaning(out, installed, folder, part, asked)
    texts = [passage.text for passage in passages[:RECALL_PASSAGES]]
    say("recall of the vector search")
    asked = corpus.queries(passages[:RECALL_PASSAGES], RECALL_QUERIES)
    out.recall(len(texts), "the stand-in's vectors of text", warm.recall_on_text(texts, asked))
    clusters = warm.recall_on_clusters(len(texts), 256, corpus.SEED, RECALL_QUERIES)
    out.recall(len(texts), "random vectors in clusters", clusters)
    for embedder in ("none", "hashing", "builtin"):
        say(f"ingesting files, embedder {embedder}")
        out.ingested(writing.ingest(folder, passages, embedder))
    return out.text()


def _searched(
    out: report.Report,
    installed: fresh.Installed,
    folder: Path,
    built: databases.Built,
    asked: list[str],
) -> None:
    size = built.passages
    for name, options, step in FRESH:
        say(f"{size:,}: fresh processes, {name}")
        started = fresh.search(installed, folder, built.path, asked[::step], *options)
        out.fresh(size, name, started)
    say(f"{size:,}: warm searches")
    out.warm(size, "hashing", warm.hybrid(built.path, asked))
    say(f"{size:,}: vector kernels")
    slow = min(10, max(1, BY_HAND_ROWS // size))
    for name, cost in warm.kernels(built.path, asked[:: QUERIES // KERNEL_QUERIES], slow).items():
        out.kernel(size, name, cost)
    say(f"{size:,}: filters")
    for row in warm.filtered(
        built.path, asked[:: QUERIES // FILTER_QUERIES], ("one", "half", "most")
    ):
        out.filtered(size, row)
    say(f"{size:,}: planner")
    questions = asked[QUERIES // 2 :][:PLAIN_OR_QUERIES]
    out.planned(size, warm.planner(built.path, questions))


def _searched_by_meaning(
    out: report.Report,
    installed: fresh.Installed,
    folder: Path,
    part: list[corpus.Passage],
    asked: list[str],
) -> None:
    """Run the same searches with the built-in model instead of the stand-in."""
    size = len(part)
    say(f"{size:,}: the same with the built-in model")
    built = databases.build(folder / "builtin.db", part, named_embedder("builtin"))
    out.built(built)
    out.fresh(size, report.BUILT_IN, fresh.search(installed, folder, built.path, asked))
    out.warm(size, "builtin", warm.hybrid(built.path, asked))
    built.path.unlink()


if __name__ == "__main__":
    sys.exit(main())
