"""Store a collection, ask its questions, and measure the answers."""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from plait.errors import EmbedderError, Notice, UsageError
from plait.evaluate.collections import Collection, Question, load_collection
from plait.evaluate.distractors import pad
from plait.evaluate.grep import rank_by_grep
from plait.evaluate.metrics import DEEP, DEPTH, Answered, Run, Silence, half_of, summarise_run
from plait.evaluate.report import Evaluation
from plait.evaluate.variants import (
    EvaluationOptions,
    SearchVariant,
    check_options,
    variants,
)
from plait.memory import Memory
from plait.searching.beginnings import MANY_BEGINNINGS
from plait.searching.branches import LONG_QUERY
from plait.searching.recall import NOT_LEFT_OUT, WORDS_FOLLOW
from plait.searching.search import MISREAD
from plait.searching.where import Where
from plait.stores import Planner, open_store
from plait.types import FILE_PATTERNS, Document, Mode, Receipt
from plait.types.ids import is_address

# Often enough to see progress, rarely enough to cost nothing.
DOCUMENTS_PER_MESSAGE = 64
QUESTIONS_PER_MESSAGE = 10

ReportLine = Callable[[str], None]


def _no_report(line: str) -> None:
    """Ignore a line of progress."""


def open_scratch_memory(path: str) -> Memory:
    """Open a memory with the settings of this machine, outside any project."""
    return Memory.open(path, project="")


def evaluate(
    folder: str,
    options: EvaluationOptions = EvaluationOptions(),  # noqa: B008 - a named tuple cannot change
    *,
    open_memory: Callable[[str], Memory] = open_scratch_memory,
    progress: ReportLine = _no_report,
) -> Evaluation:
    """Measure one collection in a memory of its own, deleted afterwards unless ``options.db``.

    Questions without an answer are asked of ``recall`` and counted in ``silence``, nowhere else.

    Args:
        folder: The collection.
        options: What to measure.
        open_memory: Opens a memory at a path; embedder and passage size are its settings.
        progress: Called with a line about each step.

    Raises:
        UsageError: The folder is not a collection, or an option is invalid.
        SourceError: There is no folder ``options.notes``.
        EmbedderError: The embedder failed while the documents were stored.
    """
    check_options(options)
    collection = load_collection(folder, options.notes)
    questions = _choose_questions(collection, options)
    others = [other for other in options.pad_from if not _is_same_folder(other, folder)]
    with ExitStack() as opened:
        scratch = opened.enter_context(tempfile.TemporaryDirectory(prefix="plait-eval-"))
        path = options.db or str(Path(scratch) / "eval.db")
        memory = opened.enter_context(open_memory(path))
        began = time.process_time()
        stored = _store_collection(memory, collection, options.notes, progress)
        seconds = time.process_time() - began
        if memory.stats().chunk_count < options.pad:
            progress(f"{collection.name}: padding to {options.pad:,} passages")
            pad(lambda batch: _store(memory, batch), memory, collection, others, options.pad)
        runs = []
        planned: dict[Planner, Memory] = {"auto": memory}
        for variant in variants(options, options.modes or available_modes(memory)):
            if variant.planner not in planned:
                planned[variant.planner] = opened.enter_context(
                    _with_planner(memory, variant.planner)
                )
            measured = planned[variant.planner]
            runs.append(measure(measured, questions, variant, options, progress=progress))
        silence = None
        if unanswerable := _of_half(collection.unanswerable[: options.max_queries], options.half):
            silence = measure_silence(memory, unanswerable, questions, progress=progress)
        settings = memory.config.settings
        passages = memory.stats().chunk_count
    if options.grep:
        progress(f"{collection.name}: grep, {len(questions):,} questions")
        answered = rank_by_grep(collection.documents, questions)
        runs.append(summarise_run("grep", answered, halves=options.half == "both"))
    return Evaluation(
        collection.name,
        len(collection.documents),
        passages,
        stored / max(seconds, 1e-9),
        settings.chunk_size,
        settings.chunk_overlap,
        tuple(runs),
        silence,
    )


def measure(
    memory: Memory,
    questions: Sequence[Question],
    variant: SearchVariant,
    options: EvaluationOptions = EvaluationOptions(),  # noqa: B008 - a named tuple cannot change
    *,
    progress: ReportLine = _no_report,
) -> Run:
    """Ask all questions in one variant of search, and return its quality and CPU time."""
    answered: list[Answered] = []
    spent_ms: list[float] = []
    for number, question in enumerate(questions):
        if number % QUESTIONS_PER_MESSAGE == 0:
            progress(f"{variant.name}: question {number + 1:,} of {len(questions):,}")
        began = time.process_time()
        ranking = _search(memory, question, variant, DEPTH)
        spent_ms.append((time.process_time() - began) * 1000)
        deep = _search(memory, question, variant, DEEP) if options.deep else None
        answered.append(Answered(question, ranking, deep))
    return summarise_run(variant.name, answered, spent_ms, halves=options.half == "both")


def measure_silence(
    memory: Memory,
    unanswerable: Sequence[Question],
    answerable: Sequence[Question],
    *,
    progress: ReportLine = _no_report,
) -> Silence:
    """Ask ``recall`` all questions, with its own settings, and count where it says nothing."""
    progress(f"recall: {len(unanswerable) + len(answerable):,} questions")
    right = []
    for question in answerable:
        where = _conversation(question)
        first = memory.search(
            question.text, limit=1, min_score=0.0, best_per_document=True, where=where
        )
        _refuse_degraded(first.receipt, question)
        if first and first[0].doc_id in question.grades:
            right.append(question)
    wrongly = sum(_is_silent(memory, question) for question in right)
    return Silence(
        len(unanswerable),
        sum(_is_silent(memory, question) for question in unanswerable) / len(unanswerable),
        len(right),
        wrongly / len(right) if right else 0.0,
    )


def _is_silent(memory: Memory, question: Question) -> bool:
    recalled = memory.recall(question.text, where=_conversation(question))
    _refuse_degraded(recalled.receipt, question)
    # What is pinned comes with every answer.
    return all(item.hit.document.pinned for item in recalled.items)


def _conversation(question: Question) -> Where | None:
    return {"key_prefix": f"{question.conv}/"} if question.conv else None


def _store_collection(
    memory: Memory, collection: Collection, notes: str | None, progress: ReportLine
) -> int:
    """Store the documents, or ingest the notes, and return the number of passages."""
    if notes is None:
        return _store(memory, _with_progress(collection, progress))
    progress(f"{collection.name}: reading {len(collection.documents):,} notes")
    # The same files as in the collection, whatever the person's own settings are.
    report = memory.ingest(notes, patterns=FILE_PATTERNS)
    _refuse_trouble(report.trouble)
    return report.chunks


def _with_progress(collection: Collection, progress: ReportLine) -> Iterator[Document]:
    """Yield the documents, and report from time to time how many there were."""
    total = len(collection.documents)
    for number, document in enumerate(collection.documents):
        if number % DOCUMENTS_PER_MESSAGE == 0:
            progress(f"{collection.name}: storing documents, {number:,} of {total:,}")
        yield document


def _store(memory: Memory, documents: Iterable[Document]) -> int:
    """Store documents and return the number of passages; empty documents are left out."""
    stored = memory.store_many(document for document in documents if document.text.strip())
    for result in stored:
        _refuse_trouble(result.trouble)
    return sum(result.chunks for result in stored)


def _refuse_trouble(trouble: Notice | None) -> None:
    if trouble is not None:
        text = f"Nothing was measured: {trouble.text}"
        raise EmbedderError(text, code="not_measured", advice=trouble.advice)


def available_modes(memory: Memory) -> tuple[Mode, ...]:
    """Return the modes of search that the memory's embedder supports."""
    return ("keyword", "vector", "hybrid") if memory.embedder.dims else ("keyword",)


def _choose_questions(collection: Collection, options: EvaluationOptions) -> Sequence[Question]:
    chosen = _of_half(collection.questions[: options.max_queries], options.half)
    if not chosen:
        raise UsageError(
            f"{collection.name} has no question in the {options.half} half.",
            code="no_questions",
            subject=collection.name,
        )
    return chosen


def _of_half(questions: Sequence[Question], half: str | None) -> Sequence[Question]:
    if half in (None, "both"):
        return questions
    return [question for question in questions if half_of(question.id) == half]


def _with_planner(memory: Memory, planner: Planner) -> Memory:
    """Open the same memory a second time, with another plan for long keyword queries."""
    if memory.path == ":memory:" or is_address(memory.path):
        message = "Planners other than auto need a memory in a file."
        raise UsageError(message, code="bad_option", subject="planners")
    settings = memory.config.settings
    store = open_store(
        memory.path,
        create=False,
        timeout=settings.sqlite_open_timeout_secs,
        durability=settings.durability,
        planner=planner,
    )
    return Memory(store, memory.embedder, memory.config, path=memory.path)


def _search(
    memory: Memory, question: Question, variant: SearchVariant, limit: int
) -> tuple[str, ...]:
    answer = memory.search(
        question.text,
        limit=limit,
        mode=variant.mode,
        best_per_document=True,
        fusion=variant.fusion,
        keyword_weight=variant.keyword_weight,
        where=_conversation(question),
    )
    _refuse_degraded(answer.receipt, question)
    return tuple(hit.doc_id for hit in answer)


def _refuse_degraded(receipt: Receipt, question: Question) -> None:
    for reason in receipt.degraded:
        if reason.code in (LONG_QUERY, MANY_BEGINNINGS, MISREAD, WORDS_FOLLOW, NOT_LEFT_OUT):
            continue  # as every search would
        # A number for half a search would be taken for the number of the whole.
        raise UsageError(
            f"'{question.text}' was not fully searched: {reason.text}",
            code="not_measured",
            subject=question.id,
            advice=reason.advice,
        )


def _is_same_folder(folder: str, other: str) -> bool:
    return Path(folder).resolve() == Path(other).resolve()
