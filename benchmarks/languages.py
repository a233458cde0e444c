"""Measure how often a question in another language than the notes gets an answer, or silence.

    PYTHONPATH=src python benchmarks/languages.py ../shared/eval

XQuAD's questions are asked of English passages that have the answers, and of other English ones.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterable
from pathlib import Path

from plait.memory import Memory
from plait.types import Document

LANGUAGES = ("de", "es", "tr", "ru", "zh", "ar", "hi", "en")
OWN = ("xquad_en", "scifact", "friendsqa_dev_utterances")
FOREIGN = (("cranfield", "scifact", "qmsum_val"), ("locomo_sessions", "cosqa_dev"))
PASSAGES = 2_000
EACH = 4  # every fourth question is asked
SEED = 1
HITS = 5  # `recall` answers if one of these is not weak


def lines(path: Path) -> list[dict[str, str]]:
    """Return the records of a collection's file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def memory_of(top: Path, collections: Iterable[str]) -> Memory:
    """Return a memory of the first collection, filled up from the others."""
    documents: list[Document] = []
    for collection in collections:
        rows = [row for row in lines(top / collection / "corpus.jsonl") if row["text"].strip()]
        if documents:
            random.Random(SEED).shuffle(rows)
        documents += [Document(key=f"{collection}|{row['_id']}", text=row["text"]) for row in rows]
    memory = Memory.open(":memory:", project="")
    memory.store_many(documents[:PASSAGES])
    return memory


def right_answers(folder: Path) -> dict[str, set[str]]:
    """Return the documents that answer each question."""
    answers: dict[str, set[str]] = {}
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        question, document, *_ = line.split("\t")
        answers.setdefault(question, set()).add(document)
    return answers


def main() -> None:
    """Print a row for each language."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    top = parser.parse_args().folder
    own = memory_of(top, OWN)
    others = [memory_of(top, collections) for collections in FOREIGN]
    sys.stdout.write("| questions in | right first | answered | silent |\n|---|---|---|---|\n")
    for language in LANGUAGES:
        folder = top / f"xquad_{language}"
        right = right_answers(folder)
        asked = sorted(lines(folder / "queries.jsonl"), key=lambda row: row["_id"])[::EACH]
        right_first = answered = 0
        for row in asked:
            hits = list(own.search(row["text"], limit=HITS))
            key = (hits[0].document.key or "") if hits else ""
            if key.partition("|")[2] in right[row["_id"]]:
                right_first += 1
                answered += not all(hit.is_weak for hit in hits)
        silent = [
            sum(all(hit.is_weak for hit in other.search(row["text"], limit=HITS)) for row in asked)
            for other in others
        ]
        shares = " ".join(f"{count / len(asked):.3f}" for count in silent)
        sys.stdout.write(
            f"| {language} | {right_first} | {answered / right_first:.2f} | {shares} |\n"
        )


if __name__ == "__main__":
    main()
