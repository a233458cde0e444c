"""Measure what use and age do to the ranking: documents are 0 to 4 years old, and some were read.

    python benchmarks/ages.py ../shared/eval/scifact … --max-queries 300

Per collection, nDCG@10 of hybrid search: without the re-rank; with it, before anything was read;
and after the answers of three questions in ten were read one to five times in the last 90 days, for
the questions that were asked before and for the others.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from plait import evaluate
from plait.evaluate import Collection, EvaluationOptions, Question
from plait.memory import Memory
from plait.settings.loading import load as settings
from plait.types import Filter

YEARS = 4
DAY_MS = 24 * 3600 * 1000
ASKED_BEFORE = 0.3
READ_WITHIN_DAYS = 90


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--max-queries", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    print("| collection | off | on, never read | asked before: off | on | never asked: off | on |")
    print("|---|---|---|---|---|---|---|")
    rows = [row(folder, chosen.max_queries, chosen.seed) for folder in chosen.folders]
    if len(rows) > 1:
        show("**mean**", [sum(column) / len(rows) for column in zip(*rows, strict=True)])


def row(folder: str, most: int, seed: int) -> list[float]:
    collection = evaluate.load_collection(folder)
    dice = Random(seed)
    questions = collection.questions[:most]
    before = [question for question in questions if dice.random() < ASKED_BEFORE]
    others = [question for question in questions if question not in before]
    with tempfile.TemporaryDirectory() as scratch:
        path = str(Path(scratch) / "ages.db")
        fill(path, collection, dice)
        figures = [score(path, questions, limbic="off"), score(path, questions, limbic="on")]
        off = [score(path, part, limbic="off") for part in (before, others)]
        read(path, before, dice)
        on = [score(path, part, limbic="on") for part in (before, others)]
    figures += [off[0], on[0], off[1], on[1]]
    show(collection.name, figures)
    return figures


def fill(path: str, collection: Collection, dice: Random) -> None:
    now = time.time_ns() // 1_000_000
    with Memory.open(path, project="") as memory:
        memory.store_many(
            document._replace(
                kind="observation", event_at=now - round(dice.random() * YEARS * 365 * DAY_MS)
            )
            for document in collection.documents
            if document.text.strip()
        )


def read(path: str, questions: Sequence[Question], dice: Random) -> None:
    """Read each answer one to five times, on days of the last three months."""
    with Memory.open(path, project="") as memory:
        now = time.time_ns() // 1_000_000
        stored = {document.key for document in memory.engine.scan(Filter())}
        for question in questions:
            for key in question.grades.keys() & stored:  # an empty document is not there
                document, _ = memory.lookup(key)
                ref = memory.passages_of(document.id)[0].ref
                for _ in range(dice.randint(1, 5)):
                    moment = now - round(dice.random() * READ_WITHIN_DAYS * DAY_MS)
                    memory.engine._clock = lambda moment=moment: moment  # type: ignore[attr-defined]
                    memory.engine.touch([[ref]])


def score(path: str, questions: Sequence[Question], limbic: str) -> float:
    config = settings({"db_path": path, "project": "", "limbic": limbic})
    options = EvaluationOptions(modes=("hybrid",), deep=False, grep=False)
    [variant] = evaluate.variants(options, ("hybrid",))
    with Memory.open(config=config) as memory:
        run = evaluate.measure(memory, questions, variant, options)
    return run.quality.ndcg_10


def show(name: str, figures: Sequence[float]) -> None:
    print(f"| {name} | " + " | ".join(f"{figure:.4f}" for figure in figures) + " |", flush=True)


if __name__ == "__main__":
    main()
