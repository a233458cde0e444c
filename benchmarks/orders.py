"""Measure whether the order of storing changes what search finds in conversations.

    python benchmarks/orders.py ../shared/eval/locomo_turns … --max-queries 2000

Per collection, nDCG@10 of keyword and hybrid search. First one conversation is stored after the
other, then all in turns: the first message of each, the second of each, and so on.
"""

import argparse
import tempfile
from collections.abc import Sequence
from itertools import chain, zip_longest
from pathlib import Path

from plait import evaluate
from plait.evaluate import EvaluationOptions, Question
from plait.memory import Memory
from plait.types import Document, Mode

MODES: tuple[Mode, ...] = ("keyword", "hybrid")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--max-queries", type=int, default=2000)
    chosen = parser.parse_args()
    print("| collection | search | one after the other | in turns |")
    print("|---|---|---|---|")
    for folder in chosen.folders:
        collection = evaluate.load_collection(folder)
        questions = collection.questions[: chosen.max_queries]
        orders = [collection.documents, in_turns(collection.documents)]
        columns = [scores(order, questions) for order in orders]
        for mode, first, second in zip(MODES, *columns, strict=True):
            print(f"| {collection.name} | {mode} | {first:.4f} | {second:.4f} |")


def in_turns(documents: Sequence[Document]) -> list[Document]:
    """The first message of every conversation, then the second of every one, and so on."""
    conversations: dict[str | None, list[Document]] = {}
    for document in documents:
        conversations.setdefault(document.session, []).append(document)
    rounds = chain.from_iterable(zip_longest(*conversations.values()))
    return [document for document in rounds if document is not None]


def scores(documents: Sequence[Document], questions: Sequence[Question]) -> list[float]:
    """The nDCG@10 of each mode, for documents that are stored in this order."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        Memory.open(Path(scratch) / "orders.db", project="") as memory,
    ):
        memory.store_many(documents)
        options = EvaluationOptions(modes=MODES, deep=False)
        runs = [
            evaluate.measure(memory, questions, variant, options)
            for variant in evaluate.variants(options, MODES)
        ]
    return [run.quality.ndcg_10 for run in runs]


if __name__ == "__main__":
    main()
