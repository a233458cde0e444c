"""Metrics of a ranking, given the documents that answer the question. Pure arithmetic."""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence

from plait.evaluate.collections import Question
from plait.types.records import NamedTuple

DEPTH = 10  # of nDCG and MRR, and the default limit of a search
DEEP = 100  # of the recall that a re-ranker could start from


class Quality(NamedTuple):
    """Means over the questions; ``recall_100`` is ``None`` if it was not measured."""

    queries: int
    ndcg_10: float
    recall_5: float
    recall_10: float
    recall_100: float | None
    mrr_10: float


class Run(NamedTuple):
    """One variant of search: its quality, and the CPU time of a search for ten documents."""

    name: str
    quality: Quality
    categories: tuple[tuple[str, Quality], ...] = ()
    median_ms: float | None = None
    p95_ms: float | None = None
    halves: tuple[tuple[str, Quality], ...] = ()


class Silence(NamedTuple):
    """How often ``recall`` says nothing.

    ``silent`` is the share of the questions without an answer, where it should;
    ``right_first_silent`` that of the questions whose first hit is right, where it should not.
    """

    unanswerable: int
    silent: float
    right_first: int
    right_first_silent: float


class Answered(NamedTuple):
    """A question and its ranking: the first ten documents, and the first hundred in ``deep``."""

    question: Question
    ranking: Sequence[str]
    deep: Sequence[str] | None = None


def ndcg(ranking: Sequence[str], grades: Mapping[str, float], depth: int = DEPTH) -> float:
    """Return the normalised discounted cumulative gain, with linear gains over log2(rank + 1).

    >>> round(ndcg(["x", "a"], {"a": 1.0}), 4)
    0.6309
    """
    gained = [grades.get(document, 0.0) for document in ranking[:depth]]
    ideal = sorted(grades.values(), reverse=True)[:depth]
    return _discounted(gained) / _discounted(ideal) if ideal else 0.0


def _discounted(gains: Iterable[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def recall_at(ranking: Sequence[str], grades: Mapping[str, float], depth: int) -> float:
    """Return the share of the answers among the first ``depth`` documents.

    >>> recall_at(["x", "a"], {"a": 1.0, "b": 1.0}, 5)
    0.5
    """
    return len(grades.keys() & set(ranking[:depth])) / len(grades) if grades else 0.0


def reciprocal_rank(
    ranking: Sequence[str], grades: Mapping[str, float], depth: int = DEPTH
) -> float:
    """Return 1 / rank of the first answer; 0 if none is among the first ``depth``.

    >>> reciprocal_rank(["x", "a"], {"a": 1.0})
    0.5
    """
    for rank, document in enumerate(ranking[:depth], start=1):
        if document in grades:
            return 1.0 / rank
    return 0.0


def half_of(question: str) -> str:
    """Return ``odd`` or ``even`` by the SHA-256 of a question's id: the same on every machine.

    >>> [half_of(name) for name in ("1", "2", "3")]
    ['odd', 'odd', 'even']
    """
    return "odd" if hashlib.sha256(question.encode("utf-8")).digest()[-1] % 2 else "even"


def summarise_run(
    name: str,
    answered: Sequence[Answered],
    spent_ms: Sequence[float] = (),
    *,
    halves: bool = False,
) -> Run:
    """Return the metrics of one variant, over all questions and per category."""
    groups: dict[str, list[Answered]] = {}
    split: dict[str, list[Answered]] = {}
    for answer in answered:
        if answer.question.category is not None:
            groups.setdefault(answer.question.category, []).append(answer)
        if halves:
            split.setdefault(half_of(answer.question.id), []).append(answer)
    ordered = sorted(spent_ms)
    return Run(
        name,
        _quality(answered),
        tuple((category, _quality(groups[category])) for category in sorted(groups)),
        ordered[(len(ordered) - 1) // 2] if ordered else None,
        ordered[math.ceil(len(ordered) * 0.95) - 1] if ordered else None,
        tuple((half, _quality(split[half])) for half in sorted(split)),
    )


def _quality(answered: Sequence[Answered]) -> Quality:
    def mean(values: Iterable[float]) -> float:
        return sum(values) / len(answered)

    deep = None
    if all(answer.deep is not None for answer in answered):
        deep = mean(
            recall_at(answer.deep or (), answer.question.grades, DEEP) for answer in answered
        )
    graded = [(answer.ranking, answer.question.grades) for answer in answered]
    return Quality(
        len(answered),
        mean(ndcg(ranking, grades) for ranking, grades in graded),
        mean(recall_at(ranking, grades, 5) for ranking, grades in graded),
        mean(recall_at(ranking, grades, DEPTH) for ranking, grades in graded),
        deep,
        mean(reciprocal_rank(ranking, grades) for ranking, grades in graded),
    )
