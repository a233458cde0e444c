"""Measure search on a person's own memory, with its titles and headings as questions.

It tells whether notes are found by what they call themselves. Nothing is stored or copied.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

from plait.errors import UsageError
from plait.evaluate.running import ReportLine, available_modes
from plait.memory import Memory
from plait.searching.where import Where
from plait.text import parse
from plait.text.english import empty_words
from plait.types import Document, Hit, Mode
from plait.types.records import NamedTuple

FIRST_PAGE = 10  # hits of an ordinary search
DOCUMENTS_AT_ONCE = 1_000
LEAST_WORDS = 2  # content words of a question: "Usage" alone asks for nothing
MISSES_SHOWN = 10
MOST_BEARERS = 50  # documents with the words of a name that are compared; more make it a common one
_ASKED: Where = {"kinds": ("file", "note")}


class OwnQuestion(NamedTuple):
    """A title or heading, and the document that it was taken from."""

    text: str
    document: str
    doc_id: str


class OwnRun(NamedTuple):
    """How a mode of search ranked the right documents; 0 is a miss."""

    mode: Mode
    ranks: tuple[int, ...]

    def share(self, depth: int) -> float:
        """Return the share of the questions answered by one of the first ``depth`` hits.

        >>> OwnRun("hybrid", (1, 4, 0, 2)).share(3)
        0.5
        """
        return sum(0 < rank <= depth for rank in self.ranks) / len(self.ranks)


def measure_own(
    memory: Memory, count: int, modes: Sequence[Mode] = (), *, progress: ReportLine
) -> tuple[list[OwnQuestion], list[OwnRun]]:
    """Draw questions from a memory and ask them in each mode.

    Raises:
        UsageError: No document has a title or heading of its own with two telling words.
    """
    config = memory.config
    # A test of the search must not change what it ranks.
    memory.config = config._replace(settings=config.settings._replace(signals_count="read"))
    try:
        questions = draw_questions(memory, count)
        if not questions:
            raise UsageError(
                "No document here has a title or heading of its own with at least two telling "
                "words.",
                code="no_questions",
            )
        return questions, _runs(memory, questions, modes or available_modes(memory), progress)
    finally:
        memory.config = config


def _runs(
    memory: Memory, questions: Sequence[OwnQuestion], modes: Sequence[Mode], progress: ReportLine
) -> list[OwnRun]:
    runs = []
    for mode in modes:
        ranks = []
        for number, question in enumerate(questions, start=1):
            progress(f"{mode}: question {number:,} of {len(questions):,}")
            answer = memory.search(
                question.text, limit=FIRST_PAGE, mode=mode, best_per_document=True
            )
            ranks.append(_rank(question, answer))
        runs.append(OwnRun(mode, tuple(ranks)))
    return runs


def draw_questions(memory: Memory, count: int) -> list[OwnQuestion]:
    """Return one question per document, of as many documents as wanted.

    A name that several documents have asks for none of them. The choice goes by a hash of the ids:
    it is the same tomorrow, and new notes change little.
    """
    questions: list[OwnQuestion] = []
    shared: set[str] = set()
    for document in sorted(_documents(memory), key=lambda row: _shuffled(row.id)):
        if len(questions) == count:
            break
        for name in sorted(filter(_tells, _names_of(memory, document)), key=_shuffled):
            folded = name.casefold()
            if folded not in shared and not _is_shared(memory, name, document):
                questions.append(OwnQuestion(name, document.id, document.doc_id))
                break
            shared.add(folded)
    return questions


def _names_of(memory: Memory, document: Document) -> set[str]:
    names = [document.title, *(part.heading for part in memory.passages_of(document.id))]
    return {_last(name) for name in names}


def _is_shared(memory: Memory, name: str, document: Document) -> bool:
    """Tell whether another document has a name too, or very many contain its words."""
    # Whatever has the name has its words in this order, so no other document needs to be read.
    phrase = name.replace('"', " ")
    answer = memory.search(
        f'"{phrase}"',
        limit=MOST_BEARERS,
        mode="keyword",
        min_score=0.0,
        best_per_document=True,
        strict=True,
        where=_ASKED,
    )
    others = [hit.document for hit in answer if hit.document.id != document.id]
    folded = name.casefold()
    return len(answer) == MOST_BEARERS or any(
        folded in map(str.casefold, _names_of(memory, other)) for other in others
    )


def _documents(memory: Memory) -> Iterator[Document]:
    end: tuple[int, str] | None = None
    while page := memory.timeline(limit=DOCUMENTS_AT_ONCE, before=end, where=_ASKED):
        yield from page
        end = (page[-1].event_at or 0, page[-1].id)


def _shuffled(text: str) -> bytes:
    return sha256(text.encode("utf-8")).digest()


def _last(heading: str) -> str:
    """Return the innermost of the headings ``H1 > H2``."""
    return heading.rpartition(" > ")[2].strip()


def _tells(text: str) -> bool:
    return len(set(parse(text).words) - empty_words()) >= LEAST_WORDS


def _rank(question: OwnQuestion, answer: Sequence[Hit]) -> int:
    """Return the place of the right document; 0 if it is not there."""
    ids = [hit.document.id for hit in answer]
    return ids.index(question.document) + 1 if question.document in ids else 0


# -- the report -------------------------------------------------------------------------------


def own_dict(questions: Sequence[OwnQuestion], runs: Sequence[OwnRun]) -> dict[str, Any]:
    """Return the report for JSON."""
    return {
        "questions": len(questions),
        "runs": [
            {
                "mode": run.mode,
                "first": round(run.share(1), 4),
                "in_3": round(run.share(3), 4),
                "in_10": round(run.share(FIRST_PAGE), 4),
                "missed": [
                    {"question": question.text, "doc_id": question.doc_id}
                    for question, rank in zip(questions, run.ranks, strict=True)
                    if not rank
                ],
            }
            for run in runs
        ],
    }


def own_table(questions: Sequence[OwnQuestion], runs: Sequence[OwnRun]) -> str:
    """Return the report as a Markdown table, and some questions that the last mode missed."""
    lines = [
        f"{len(questions):,} questions from titles and headings; where the right document was:",
        "",
        "| search | first | among 3 | among 10 |",
        "|---|---|---|---|",
    ]
    for run in runs:
        cells = " | ".join(f"{run.share(depth):.0%}" for depth in (1, 3, FIRST_PAGE))
        lines.append(f"| {run.mode} | {cells} |")
    pairs = zip(questions, runs[-1].ranks, strict=True)
    missed = [question for question, rank in pairs if not rank]
    if missed:
        lines += ["", f"Not among 10 ({runs[-1].mode}):"]
        lines += [f"- {q.text}  ({q.doc_id})" for q in missed[:MISSES_SHOWN]]
        if len(missed) > MISSES_SHOWN:
            lines.append(f"- and {len(missed) - MISSES_SHOWN:,} more")
    return "\n".join(lines)
