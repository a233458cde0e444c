"""Pure arithmetic on rankings: how good one is, given which documents answer the question."""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from plait.evaluate.collections import Question

DEPTH = 10  # of nDCG and MRR, and what a search answers by default
DEEP = 100  # of the recall that a re-ranker could start from


class Quality(NamedTuple):
    """Means over the questions; ``recall_100`` is absent where it was not asked for."""

    queries: int
    ndcg_10: float
    recall_5: float
    recall_10: float
    recall_100: float | None
    mrr_10: float


class Run(NamedTuple):
    """One way of searching: its quality, and the CPU milliseconds of a search for ten documents."""

    name: str
    quality: Quality
    categories: tuple[tuple[str, Quality], ...] = ()
    median_ms: float | None = None
    p95_ms: float | None = None
    halves: tuple[tuple[str, Quality], ...] = ()


class Answered(NamedTuple):
    """A question with the documents found: as a user gets them, and the long list."""

    question: Question
    ranking: Sequence[str]
    deep: Sequence[str] | None = None


def ndcg(ranking: Sequence[str], grades: Mapping[str, float], depth: int = DEPTH) -> float:
    """Normalised discounted cumulative gain: linear gains, each divided by log2(rank + 1).

    >>> round(ndcg(["x", "a"], {"a": 1.0}), 4)
    0.6309
    """
    gained = [grades.get(document, 0.0) for document in ranking[:depth]]
    ideal = sorted(grades.values(), reverse=True)[:depth]
    return _discounted(gained) / _discounted(ideal) if ideal else 0.0


def _discounted(gains: Iterable[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def recall(ranking: Sequence[str], grades: Mapping[str, float], depth: int) -> float:
    """Share of the answers that are among the first ``depth``.

    >>> recall(["x", "a"], {"a": 1.0, "b": 1.0}, 5)
    0.5
    """
    return len(grades.keys() & set(ranking[:depth])) / len(grades) if grades else 0.0


def reciprocal_rank(
    ranking: Sequence[str], grades: Mapping[str, float], depth: int = DEPTH
) -> float:
    """1 / rank of the first answer; 0 when it is not among the first ``depth``.

    >>> reciprocal_rank(["x", "a"], {"a": 1.0})
    0.5
    """
    for rank, document in enumerate(ranking[:depth], start=1):
        if document in grades:
            return 1.0 / rank
    return 0.0


def half_of(question: str) -> str:
    """``odd`` or ``even``: by the SHA-256 of a question's id, so it is the same everywhere.

    >>> [half_of(name) for name in ("1", "2", "3")]
    ['odd', 'odd', 'even']
    """
    return "odd" if hashlib.sha256(question.encode("utf-8")).digest()[-1] % 2 else "even"


def summarise(
    name: str,
    answered: Sequence[Answered],
    spent_ms: Sequence[float] = (),
    *,
    halves: bool = False,
) -> Run:
    """One way of searching, over all questions and per category where they carry one."""
    groups: dict[str, list[Answered]] = {}
    split: dict[str, list[Answered]] = {}
    for one in answered:
        if one.question.category is not None:
            groups.setdefault(one.question.category, []).append(one)
        if halves:
            split.setdefault(half_of(one.question.id), []).append(one)
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
    if all(one.deep is not None for one in answered):
        deep = mean(recall(one.deep or (), one.question.grades, DEEP) for one in answered)
    return Quality(
        len(answered),
        mean(ndcg(one.ranking, one.question.grades) for one in answered),
        mean(recall(one.ranking, one.question.grades, 5) for one in answered),
        mean(recall(one.ranking, one.question.grades, DEPTH) for one in answered),
        deep,
        mean(reciprocal_rank(one.ranking, one.question.grades) for one in answered),
    )
