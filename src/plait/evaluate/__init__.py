"""How well a memory finds things: `plait eval FOLDER…` on collections of questions with answers.

Documents go in by the public way, so long ones are cut into passages; hits collapse to documents.
Nothing here knows how search works.
"""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from random import Random

from plait import text as words
from plait.errors import EmbedderError, UsageError
from plait.evaluate.collections import Collection, Question, load, load_documents
from plait.evaluate.measures import DEEP, DEPTH, Answered, Quality, Run, half_of, summarise
from plait.evaluate.report import Evaluation, as_dict, mean_dicts, means, table
from plait.evaluate.ways import HALVES, PLANNERS, SWEEP, Options, Way, check, ways
from plait.memory import Memory
from plait.types import Document, Mode

__all__ = [
    "HALVES",
    "PLANNERS",
    "SWEEP",
    "Collection",
    "Evaluation",
    "Options",
    "Quality",
    "Question",
    "Run",
    "as_dict",
    "evaluate",
    "load",
    "mean_dicts",
    "means",
    "table",
]

# Distractors are made of runs this long: whole phrases stay, so that pairs of words still co-occur.
FRAGMENT_WORDS = 30
FRAGMENTS = 4
PAD_BATCH = 2_000  # documents between two looks at how many passages there are
PAD_SEED = 20  # the same distractors on every run
PAD_PREFIX = "pad/"
# A word often enough to see it move, and seldom enough to cost nothing.
TELL_EVERY_DOCUMENT = 64
TELL_EVERY_QUESTION = 10


Progress = Callable[[str], None]


def open_scratch(path: str) -> Memory:
    """A memory with the settings of this machine, outside any project."""
    return Memory.open(path, project="")


def evaluate(
    folder: str,
    options: Options = Options(),  # noqa: B008 - a named tuple cannot change
    *,
    open_memory: Callable[[str], Memory] = open_scratch,
    progress: Progress | None = None,
) -> Evaluation:
    """Measure one collection in a memory of its own, deleted afterwards unless ``options.db``.

    Args:
        folder: The collection.
        options: What to measure.
        open_memory: Opens a memory at a path; embedder and passage size are its settings.
        progress: Called with a line about each step.

    Raises:
        UsageError: The folder is not a collection, or an option makes no sense.
    """
    check(options)
    collection = load(folder)
    questions = _asked(collection, options)
    tell = progress or _silent
    with (
        tempfile.TemporaryDirectory(prefix="plait-eval-") as scratch,
        open_memory(options.db or str(Path(scratch) / "eval.db")) as memory,
    ):
        began = time.process_time()
        stored = _store(memory, _told(collection, tell))
        spent = time.process_time() - began
        _pad(
            memory,
            collection,
            [place for place in options.pad_from if not _same(place, folder)],
            options.pad,
            tell,
        )
        runs = [
            _measure(memory, questions, options, way, tell)
            for way in ways(options, options.modes or _modes(memory))
        ]
        settings = memory.config.settings
        passages = memory.stats().chunk_count
    if options.grep:
        tell(f"{collection.name}: grep, {len(questions):,} questions")
        found = _by_grep(collection.documents, questions)
        runs.append(summarise("grep", found, halves=options.half == "both"))
    return Evaluation(
        collection.name,
        len(collection.documents),
        passages,
        stored / max(spent, 1e-9),
        settings.chunk_size,
        settings.chunk_overlap,
        tuple(runs),
    )


def _silent(line: str) -> None:
    """Nobody wants to know."""


def _told(collection: Collection, tell: Progress) -> Iterator[Document]:
    """The documents, with a word now and then on how many went in."""
    total = len(collection.documents)
    for number, document in enumerate(collection.documents):
        if number % TELL_EVERY_DOCUMENT == 0:
            tell(f"{collection.name}: storing documents, {number:,} of {total:,}")
        yield document


def _store(memory: Memory, documents: Iterable[Document]) -> int:
    """Put documents in; how many passages they made. An empty one stays out, and unfindable."""
    stored = memory.store_many(document for document in documents if document.text.strip())
    if troubles := memory.troubles():
        raise EmbedderError(f"Nothing was measured: {troubles[0]}")
    return sum(done.chunks for done in stored)


def _modes(memory: Memory) -> tuple[Mode, ...]:
    return ("keyword", "vector", "hybrid") if memory.embedder.dims else ("keyword",)


def _asked(collection: Collection, options: Options) -> Sequence[Question]:
    first = collection.questions[: options.max_queries]
    if options.half in (None, "both"):
        return first
    chosen = [question for question in first if half_of(question.id) == options.half]
    if not chosen:
        raise UsageError(f"{collection.name} has no question in the {options.half} half.")
    return chosen


def _measure(
    memory: Memory, questions: Sequence[Question], options: Options, way: Way, tell: Progress
) -> Run:
    _set_planner(memory, way.planner)
    answered: list[Answered] = []
    spent_ms: list[float] = []
    for number, question in enumerate(questions):
        if number % TELL_EVERY_QUESTION == 0:
            tell(f"{way.name}: question {number + 1:,} of {len(questions):,}")
        began = time.process_time()
        ranking = _ask(memory, question, way, DEPTH)
        spent_ms.append((time.process_time() - began) * 1000)
        deep = _ask(memory, question, way, DEEP) if options.deep else None
        answered.append(Answered(question, ranking, deep))
    return summarise(way.name, answered, spent_ms, halves=options.half == "both")


def _set_planner(memory: Memory, planner: str) -> None:
    # Which plan to run is an engine's own affair, so the seam does not speak of it.
    if hasattr(memory.engine, "planner"):
        setattr(memory.engine, "planner", planner)  # noqa: B010 - not a field of the protocol
    elif planner != "auto":
        raise UsageError(f"This memory's engine has no planner, so it cannot be '{planner}'.")


def _ask(memory: Memory, question: Question, way: Way, limit: int) -> tuple[str, ...]:
    answer = memory.search(
        question.text,
        limit=limit,
        mode=way.mode,
        best_per_document=True,
        fusion=way.fusion,
        keyword_weight=way.keyword_weight,
        where={"key_prefix": f"{question.conv}/"} if question.conv else None,
    )
    if answer.receipt.degraded:
        # A figure for half a search would be taken for the whole one's.
        raise UsageError(f"'{question.text}' was not fully searched: {answer.receipt.degraded[0]}")
    return tuple(hit.doc_id for hit in answer)


def _same(place: str, other: str) -> bool:
    return Path(place).resolve() == Path(other).resolve()


def _pad(
    memory: Memory, collection: Collection, folders: Sequence[str], pad: int, tell: Progress
) -> None:
    if memory.stats().chunk_count >= pad:
        return
    tell(f"{collection.name}: padding to {pad:,} passages")
    others = [
        document._replace(key=f"{PAD_PREFIX}{number}/{document.key}")
        for number, folder in enumerate(folders)
        for document in load_documents(folder)
    ]
    distractors = chain(others, _mixed([*collection.documents, *others]))
    # A document makes at least one passage, so this never overshoots by more than a batch's rest.
    while (missing := pad - memory.stats().chunk_count) > 0:
        _store(memory, list(islice(distractors, min(PAD_BATCH, missing))))


def _mixed(documents: Sequence[Document]) -> Iterator[Document]:
    """Documents without end that say nothing, in phrases of these: common words stay common."""
    dice = Random(PAD_SEED)
    texts = [document.text.split() for document in documents]
    number = 0
    while True:
        parts: list[str] = []
        for _ in range(FRAGMENTS):
            source = dice.choice(texts)
            start = dice.randrange(max(1, len(source) - FRAGMENT_WORDS))
            parts += source[start : start + FRAGMENT_WORDS]
        yield Document(key=f"{PAD_PREFIX}mixed/{number}", kind="message", text=" ".join(parts))
        number += 1


def _by_grep(documents: Sequence[Document], questions: Sequence[Question]) -> list[Answered]:
    """What an agent gets that greps for each word of the question, stop words left out.

    Documents are ranked by how many of the words they hold anywhere, then by how often.
    """
    texts = [f"{document.title}\n{document.text}".lower() for document in documents]
    keys = [document.key or "" for document in documents]
    counts: dict[str, dict[int, int]] = {}
    answered = []
    for question in questions:
        wanted = {word.lower() for word in words.parse(question.text).words}
        scores: dict[int, tuple[int, int]] = {}
        for word in wanted:
            if word not in counts:
                counts[word] = {
                    place: body.count(word) for place, body in enumerate(texts) if word in body
                }
            for place, times in counts[word].items():
                if question.conv is None or keys[place].startswith(f"{question.conv}/"):
                    distinct, total = scores.get(place, (0, 0))
                    scores[place] = distinct + 1, total + times
        order = sorted(scores, key=lambda place: (*(-n for n in scores[place]), keys[place]))
        ranking = [keys[place] for place in order[:DEEP]]
        answered.append(Answered(question, ranking, ranking))
    return answered
