"""Compare search with FTS5 over whole notes, on real notes, by the kind of question.

    python benchmarks/notes.py
    python benchmarks/notes.py --questions examples/questions --notes examples/memory --each

Counts how often the right note is among the first 1, 3 and 10. The notes are downloaded with
``npm pack`` (note_files.py); questions and answers are in ``notes/``. ``--pad`` stores the
documents of other collections beside the notes, ``--each`` shows each question, ``--sample`` prints
the notes that the questions were written about.
"""

import argparse
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import apsw
from note_files import downloaded_notes, draw_sample

from plait import evaluate
from plait.evaluate import Question, Silence
from plait.evaluate.collections import load_documents
from plait.memory import Memory
from plait.types import Document, Mode

QUESTIONS = Path(__file__).resolve().parent / "notes"
MODES: tuple[Mode, ...] = ("hybrid", "keyword", "vector")
DEPTHS = (1, 3, 10)
LONGEST = DEPTHS[-1]
WORD = re.compile(r"\w+")

Ranked = Callable[[str], Sequence[str]]  # the keys of the best documents for a question


class Ranks(NamedTuple):
    """The place of the right note for each question, in one kind of search; 0 is a miss."""

    search: str
    ranks: list[int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", default=str(QUESTIONS), metavar="FOLDER")
    parser.add_argument("--notes", metavar="FOLDER", help="instead of those downloaded")
    parser.add_argument("--pad", nargs="*", default=[], metavar="FOLDER", help="collections")
    parser.add_argument("--each", action="store_true", help="show each question")
    parser.add_argument("--sample", action="store_true", help="print the sample of the notes")
    chosen = parser.parse_args()
    notes = chosen.notes or str(downloaded_notes())
    if chosen.sample:
        print("\n".join(draw_sample()))
        return
    collection = evaluate.load_collection(chosen.questions, notes)
    padding = list(_padding(chosen.pad))
    with (
        tempfile.TemporaryDirectory() as scratch,
        Memory.open(Path(scratch) / "notes.db", project="") as memory,
    ):
        memory.ingest(notes)
        memory.store_many(padding)
        stats = memory.stats()
        print(f"{stats.doc_count:,} documents, {stats.chunk_count:,} passages\n")
        searches: dict[str, Ranked] = {mode: _plait(memory, mode) for mode in MODES}
        searches["FTS5"] = whole_notes([*collection.documents, *padding])
        table = [
            Ranks(
                name, [_rank(ranked(question.text), question) for question in collection.questions]
            )
            for name, ranked in searches.items()
        ]
        # Nobody has checked whether the padding answers them.
        unanswerable = () if padding else collection.unanswerable
        if chosen.each:
            show_each(collection.questions, table)
            show_unanswerable(memory, unanswerable)
        show_kinds(collection.questions, table)
        if unanswerable:
            show_silence(evaluate.measure_silence(memory, unanswerable, collection.questions))


def _padding(folders: Sequence[str]) -> Iterator[Document]:
    for folder in folders:
        for document in load_documents(folder):
            if document.text.strip():
                name = f"{Path(folder).name}/{document.key}"
                yield document._replace(key=name, session=name)


def _plait(memory: Memory, mode: Mode) -> Ranked:
    def ranked(text: str) -> list[str]:
        answer = memory.search(text, limit=LONGEST, mode=mode, best_per_document=True)
        return [hit.doc_id for hit in answer]

    return ranked


def whole_notes(documents: Sequence[Document]) -> Ranked:
    """Index whole documents in FTS5 with Porter's stemmer; any word of the question counts."""
    database = apsw.Connection(":memory:")
    database.execute("CREATE VIRTUAL TABLE note USING fts5(text, tokenize='porter unicode61')")
    database.executemany(
        "INSERT INTO note (rowid, text) VALUES (?, ?)",
        ((number, f"{note.title}\n{note.text}") for number, note in enumerate(documents)),
    )

    def ranked(text: str) -> list[str]:
        words = dict.fromkeys(WORD.findall(text.lower()))
        rows = database.execute(
            "SELECT rowid FROM note WHERE note MATCH ? ORDER BY bm25(note), rowid LIMIT ?",
            (" OR ".join(f'"{word}"' for word in words), LONGEST),
        )
        return [documents[number].doc_id for (number,) in rows]

    return ranked


def _rank(ranking: Sequence[str], question: Question) -> int:
    places = [rank for rank, key in enumerate(ranking, start=1) if key in question.grades]
    return places[0] if places else 0


def show_each(questions: Sequence[Question], table: Sequence[Ranks]) -> None:
    print("| question | kind | " + " | ".join(column.search for column in table) + " |")
    print("|---" * (2 + len(table)) + "|")
    for number, question in enumerate(questions):
        places = " | ".join(str(column.ranks[number] or "–") for column in table)
        print(f"| {question.text} | {question.category} | {places} |")
    print()


def show_unanswerable(memory: Memory, questions: Sequence[Question]) -> None:
    if not questions:
        return
    print("| question without an answer | relevance of the first hit | recall is silent |")
    print("|---|---|---|")
    for question in questions:
        first = memory.search(question.text, limit=1)
        relevance = f"{first[0].relevance:.2f}" if first else "nothing found"
        silent = "no" if memory.recall(question.text).items else "yes"
        print(f"| {question.text} | {relevance} | {silent} |")
    print()


def show_silence(silence: Silence) -> None:
    print(
        f"\nrecall is silent for {silence.silent:.0%} of {silence.unanswerable} questions without "
        f"an answer, and for {silence.right_first_silent:.0%} of {silence.right_first} whose first "
        "hit is right"
    )


def show_kinds(questions: Sequence[Question], table: Sequence[Ranks]) -> None:
    print("| kind | questions | " + " | ".join(column.search for column in table) + " |")
    print("|---" * (2 + len(table)) + "|")
    kinds = dict.fromkeys(question.category or "" for question in questions)
    for kind in (*kinds, "**all**"):
        chosen = [
            n for n, question in enumerate(questions) if kind in (question.category, "**all**")
        ]
        cells = [
            "/".join(
                str(sum(0 < column.ranks[number] <= depth for number in chosen)) for depth in DEPTHS
            )
            for column in table
        ]
        print(f"| {kind} | {len(chosen)} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
