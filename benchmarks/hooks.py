"""How often a hook stays silent, and how many of the right first answers of a search it shows.

    .venv/bin/python benchmarks/hooks.py --eval ../shared/eval --train ../shared/train

Prints the rows of the table in `docs/hooks.md`; ``--only`` chooses memories by name. What the
prompts are, and their subjects, is told in `tests/agents/hooks/prompts/README.md`.
"""

import argparse
import lzma
import random
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from plait.agents.hooks.injecting import for_prompt
from plait.evaluate.collections import load_collection
from plait.memory import Memory
from plait.types import Document

ROOT = Path(__file__).parent.parent
PROMPTS = ROOT / "tests" / "agents" / "hooks" / "prompts"
EXAMPLES = ROOT / "examples"
QUESTIONS = 200
LARGE = 30_000
TALK = "pets plants cooking household crafts music sports games arts career cars medicine"
# The subjects of which a memory has something: prompts about these are not foreign to it.
SUBJECTS = {
    "sample": "code",
    "locomo_turns": TALK,
    "scifact": "medicine",
    "squad_dev": (
        "astronomy physics earth geography history animals math religion medicine law sports arts "
        "machines language"
    ),
    "cosqa_dev": "code math",
    "commits": "code",
    "manuals": "code",
    "talk": f"{TALK} code law",
}
MANUALS = ("docs_github", "docs_postgres_git", "docs_kubernetes_multi", "docs_mdn_en")


class Asked(NamedTuple):
    """A question and the keys, or names of files, of what answers it."""

    text: str
    answers: frozenset[str]


def prompts(name: str) -> list[str]:
    """Return the prompts of one kind."""
    lines = (PROMPTS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line.replace("\\n", "\n").replace("\\t", "\t") for line in lines]


def foreign(name: str) -> tuple[list[str], list[str]]:
    """Return the questions that are foreign to a memory, and those on its subjects."""
    parts: tuple[list[str], list[str]] = [], []
    for line in prompts("foreign"):
        subject, _, prompt = line.partition("\t")
        parts[subject in SUBJECTS[name].split()].append(prompt)
    return parts


def sample(memory: Memory) -> list[Asked]:
    """Store the notes of the examples; return their questions that have an answer."""
    memory.ingest(EXAMPLES / "memory")
    questions = load_collection(str(EXAMPLES / "questions"), str(EXAMPLES / "memory")).questions
    judged = [
        Asked(row.text, frozenset(key for key, grade in row.grades.items() if grade > 0))
        for row in questions
    ]
    return [question for question in judged if question.answers]


def collected(memory: Memory, path: Path, size: int) -> list[Asked]:
    """Store some texts of a collection; return those of its questions that they answer."""
    collection = load_collection(str(path))
    dice = random.Random(f"{path.name} {size}")
    documents = list(collection.documents)
    chosen = set(dice.sample([row.key for row in documents], min(size, len(documents))))
    memory.store_many(row for row in documents if row.key in chosen)
    answers = [
        Asked(row.text, frozenset(key for key, grade in row.grades.items() if grade > 0) & chosen)
        for row in collection.questions
    ]
    answerable = [question for question in answers if question.answers]
    return dice.sample(answerable, min(QUESTIONS, len(answerable)))


def commits(memory: Memory, training: Path, size: int) -> list[Asked]:
    """Store messages of commits; return subjects that their bodies answer."""
    with lzma.open(training / "commit_subject_body.tsv.xz", "rt", encoding="utf-8") as file:
        rows = (line.rstrip("\n").split("\t") for line in file)
        listed = [row for row in islice(rows, size) if len(row) >= 2 and row[1].strip()]
    memory.store_many(
        Document(key=f"commit/{number}", text=row[1]) for number, row in enumerate(listed)
    )
    chosen = random.Random("commits").sample(range(len(listed)), QUESTIONS)
    return [Asked(listed[number][0], frozenset([f"commit/{number}"])) for number in chosen]


def manuals(memory: Memory, training: Path, size: int) -> list[Asked]:
    """Store sections of manuals in English; return headings that they are under."""
    asked: list[Asked] = []
    for part in MANUALS:
        with lzma.open(training / f"{part}.tsv.xz", "rt", encoding="utf-8") as file:
            rows = (line.rstrip("\n").split("\t") for line in file)
            english = (row for row in rows if row[1].strip() and row[2][:2] in ("en", ""))
            listed = list(islice(english, size // len(MANUALS)))
        keys = [f"{part}/{number}" for number in range(len(listed))]
        memory.store_many(
            Document(key=key, text=row[1]) for key, row in zip(keys, listed, strict=True)
        )
        asked += [Asked(row[0], frozenset([key])) for key, row in zip(keys, listed, strict=True)]
    return random.Random("manuals").sample(asked, QUESTIONS)


def memories() -> Iterator[tuple[str, int]]:
    """Yield the names of the memories and their sizes."""
    yield "sample", 0
    for name in ("locomo_turns", "scifact", "squad_dev", "cosqa_dev"):
        yield from ((name, 50), (name, 2_000))
    yield from ((name, LARGE) for name in ("commits", "manuals", "talk"))


def filled(memory: Memory, name: str, size: int, evaluation: Path, training: Path) -> list[Asked]:
    """Fill a memory; return its questions."""
    if name == "sample":
        return sample(memory)
    if name == "commits":
        return commits(memory, training, size)
    if name == "manuals":
        return manuals(memory, training, size)
    if name == "talk":
        asked: list[Asked] = []
        for part in ("locomo_turns", "friendsqa_dev_utterances", "qmsum_val"):
            asked += collected(memory, evaluation / part, size)
        commits(memory, training, size - memory.stats().chunk_count)
        return random.Random("talk").sample(asked, QUESTIONS)
    return collected(memory, evaluation / name, size)


def silent(memory: Memory, asked: Sequence[str]) -> str:
    """Return the share of prompts that get nothing."""
    return f"{sum(not for_prompt(memory, prompt).text for prompt in asked) / len(asked):.1%}"


def kept(memory: Memory, questions: Sequence[Asked]) -> str:
    """Return how many of the right first answers of a search a hook shows."""
    right = shown = 0
    for question in questions:
        hits = memory.search(question.text, limit=5)
        if hits and re.sub(r".*examples/memory/", "", hits[0].document.key) in question.answers:
            right += 1
            shown += hits[0].id in for_prompt(memory, question.text).ids
    return f"{shown} of {right}"


def main() -> None:
    """Print one row for each memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--eval", type=Path, required=True)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--only", action="append", help="measure only these")
    arguments = parser.parse_args()
    for name, size in memories():
        if arguments.only and name not in arguments.only:
            continue
        with Memory.open(":memory:", project="") as memory:
            questions = filled(memory, name, size, arguments.eval, arguments.train)
            kinds = (prompts("no_memory"), prompts("held_out"), *foreign(name))
            cells = [silent(memory, asked) for asked in kinds]
            row = [name, f"{memory.stats().chunk_count:,}", *cells, kept(memory, questions)]
        print("|", " | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main()
