"""Measure what typing errors cost a search, and how often a right word is corrected.

    python benchmarks/typos.py ../shared/eval/scifact --queries 300
    python benchmarks/typos.py ../shared/eval/xquad_ru --questions
    python benchmarks/typos.py ../shared/eval/squad_dev --foreign ../shared/eval/scifact
    python benchmarks/typos.py --notes --queries 200

Titles of documents are the queries (``--questions``: the collection's own questions). Each is asked
as it is, with one typing error, and with one in every long word. With ``--foreign`` the questions
of another collection are asked, and those with a correction are counted. With ``--notes`` the
documents are the English notes of notes.py, and their first headings are the titles. The errors
are the same on every run with the same ``--seed``.
"""

import argparse
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from note_files import PACKAGES, downloaded_notes

from plait import evaluate
from plait.evaluate import Question
from plait.evaluate.metrics import ndcg
from plait.memory import Memory
from plait.types import Document

SEED = 10
LONG_WORD = 5  # letters
LEAST_LONG_WORDS = 2  # of a title that is a query
KEYBOARDS = (
    ("qwertyuiop", "asdfghjkl", "zxcvbnm"),
    ("йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю"),
)
MODES = ("hybrid", "keyword")
FIRST_HEADING = re.compile(r"^# +(.+?)\s*$", re.MULTILINE)
CHINESE = "linux-command"
MOST_CHARACTERS = 6_000  # of a note: what follows is rarely what its title is about


def beside(key: str) -> str:
    """The keys that touch a key; itself where no keyboard has it."""
    for rows in KEYBOARDS:
        for number, row in enumerate(rows):
            place = row.find(key)
            if place < 0:
                continue
            near = row[max(0, place - 1) : place] + row[place + 1 : place + 2]
            if number:
                near += rows[number - 1][place : place + 2]
            if number + 1 < len(rows):
                near += rows[number + 1][max(0, place - 1) : place + 1]
            return near
    return key


def misspelt(word: str, dice: random.Random) -> str:
    """The word with one error: a wrong, missing, extra, doubled or swapped letter, anywhere."""
    while True:
        at = dice.randrange(len(word))
        letter = word[at]
        kind = dice.choice(("replace", "delete", "insert", "double", "swap"))
        near = dice.choice(beside(letter.lower()))
        if kind == "replace":
            typed = word[:at] + near + word[at + 1 :]
        elif kind == "delete":
            typed = word[:at] + word[at + 1 :]
        elif kind == "insert":
            typed = word[:at] + near + word[at:]
        elif kind == "double":
            typed = word[:at] + letter + word[at:]
        else:
            typed = word[:at] + word[at + 1 : at + 2] + letter + word[at + 2 :]
        if typed.lower() != word.lower():
            return typed


def long_words(text: str) -> list[re.Match[str]]:
    """The words of letters alone that have at least five of them."""
    return [word for word in re.finditer(r"\w+", text) if is_long(word[0])]


def is_long(word: str) -> bool:
    return len(word) >= LONG_WORD and word.isalpha()


def with_one(text: str, dice: random.Random) -> str:
    """The text with one error in one of its long words."""
    word = dice.choice(long_words(text))
    return text[: word.start()] + misspelt(word[0], dice) + text[word.end() :]


def with_all(text: str, dice: random.Random) -> str:
    """The text with one error in each of its long words."""
    return re.sub(
        r"\w+", lambda word: misspelt(word[0], dice) if is_long(word[0]) else word[0], text
    )


ERRORS: dict[str, Callable[[str, random.Random], str]] = {
    "none": lambda text, _: text,
    "one": with_one,
    "every long word": with_all,
}


def titles(documents: Sequence[Document], wanted: int) -> list[Question]:
    """Titles that only one document has, as questions for it."""
    counts: dict[str, int] = {}
    for document in documents:
        counts[document.title] = counts.get(document.title, 0) + 1
    own = [row for row in documents if counts[row.title] == 1 and telling(row.title)]
    random.Random(SEED).shuffle(own)
    return [
        Question(row.title, row.title, None, None, {row.key or "": 1.0}) for row in own[:wanted]
    ]


def note_documents() -> list[Document]:
    """The English notes that have a first heading, with it as their title."""
    folder = downloaded_notes()
    documents = []
    for package in PACKAGES:
        for path in sorted((folder / package.name).rglob("*.md")):
            text = path.read_text(encoding="utf-8", errors="replace")
            heading = FIRST_HEADING.search(text)
            if heading and heading[1].isascii() and package.name != CHINESE:
                key = path.relative_to(folder).as_posix()
                documents.append(Document(key=key, title=heading[1], text=text[:MOST_CHARACTERS]))
    return documents


def telling(text: str) -> bool:
    return len(long_words(text)) >= LEAST_LONG_WORDS


def answers(
    memory: Memory, questions: Sequence[Question], errors: str, mode: str, seed: int = SEED
) -> Iterator[tuple[bool, float, bool, float]]:
    """First hit right, nDCG@10, whether a word was corrected, and CPU milliseconds."""
    for number, question in enumerate(questions):
        dice = random.Random(f"{seed} {number} {errors}")
        text = ERRORS[errors](question.text, dice)
        began = time.process_time()
        answer = memory.search(text, limit=10, mode=mode, best_per_document=True)
        spent = (time.process_time() - began) * 1000
        keys = [hit.document.key or "" for hit in answer]
        first = bool(keys) and question.grades.get(keys[0], 0.0) > 0
        corrected = bool(getattr(answer.receipt, "corrections", ()))
        yield first, ndcg(keys, question.grades), corrected, spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--questions", action="store_true")
    parser.add_argument("--foreign", metavar="FOLDER")
    parser.add_argument("--notes", action="store_true")
    parser.add_argument("--seed", type=int, default=SEED, help="of the errors")
    chosen = parser.parse_args()
    if bool(chosen.folder) == chosen.notes:
        parser.error("name a collection, or --notes")
    if chosen.notes:
        name, documents = "notes", note_documents()
    else:
        collection = evaluate.load_collection(chosen.folder)
        name, documents = collection.name, list(collection.documents)
    questions = titles(documents, chosen.queries)
    if chosen.foreign or chosen.questions:
        asked = evaluate.load_collection(chosen.foreign or chosen.folder).questions
        questions = [row for row in asked if telling(row.text)][: chosen.queries]
    with (
        tempfile.TemporaryDirectory() as scratch,
        Memory.open(Path(scratch) / "typos.db", project="") as memory,
    ):
        memory.store_many(documents)
        print(f"{name}: {len(questions)} queries")
        print("| search | errors | first hit right | nDCG@10 | of none | corrected | CPU ms |")
        print("|---|---|---|---|---|---|---|")
        for mode in MODES:
            clean = 0.0
            for errors in ["none"] if chosen.foreign else ERRORS:
                rows = list(answers(memory, questions, errors, mode, chosen.seed))
                first, gain, corrected, spent = (
                    sum(column) / len(rows) for column in zip(*rows, strict=True)
                )
                clean = clean or gain
                share = gain / clean if clean else 0.0
                print(
                    f"| {mode} | {errors} | {first:.3f} | {gain:.4f} | {share:.3f} "
                    f"| {corrected:.3f} | {spent:.2f} |"
                )


if __name__ == "__main__":
    main()
