"""Evaluations as a Markdown table or as JSON."""

from collections.abc import Sequence
from typing import Any

from plait.evaluate.metrics import Quality, Run, Silence
from plait.types.records import NamedTuple

_COLUMNS = (
    "collection",
    "search",
    "nDCG@10",
    "R@5",
    "R@10",
    "R@100",
    "MRR@10",
    "queries",
    "passages",
    "CPU ms, median",
    "p95",
    "passages stored per CPU s",
)


class Evaluation(NamedTuple):
    """The measurements of one collection; ``silence`` if some questions have no answer."""

    collection: str
    documents: int
    passages: int
    ingest_per_s: float
    chunk_size: int
    chunk_overlap: int
    runs: tuple[Run, ...]
    silence: Silence | None = None


def markdown_table(evaluations: Sequence[Evaluation]) -> str:
    """Return the results as a Markdown table, with means if there are several collections."""
    lines = [_cells(_COLUMNS), "|---" * len(_COLUMNS) + "|"]
    for evaluation in evaluations:
        for run in evaluation.runs:
            rest: list[object] = [""] * 4
            if run.median_ms is not None:
                speed = _number(run.median_ms, 1), _number(run.p95_ms, 1)
                rest = [evaluation.passages, *speed, round(evaluation.ingest_per_s)]
            lines.append(_line(evaluation.collection, run.name, run.quality, rest))
            for half, quality in run.halves:
                lines.append(_line(f"{evaluation.collection}, {half} half", run.name, quality))
            for category, quality in run.categories:
                name = f"{evaluation.collection}, category {category}"
                lines.append(_line(name, run.name, quality))
    if len(evaluations) > 1:
        lines += [_line("**mean**", name, quality) for name, quality in means(evaluations)]
        for half in _halves(evaluations):
            title = f"**mean**, {half} half"
            lines += [_line(title, name, quality) for name, quality in means(evaluations, half)]
        lines += ["", *_matrix(evaluations)]
    silences = [_silence(row.collection, row.silence) for row in evaluations if row.silence]
    if silences:
        lines += ["", *silences]
    return "\n".join(lines) + "\n"


def _matrix(evaluations: Sequence[Evaluation]) -> list[str]:
    """Return a table of nDCG@10 alone: one row per collection, one column per variant."""
    names = [name for name, _ in means(evaluations)]
    lines = [_cells(["nDCG@10", *names]), "|---" * (len(names) + 1) + "|"]
    for evaluation in evaluations:
        cells = {run.name: _number(run.quality.ndcg_10, 3) for run in evaluation.runs}
        lines.append(_cells([evaluation.collection, *(cells.get(name, "") for name in names)]))
    for half in (None, *_halves(evaluations)):
        mean = dict(means(evaluations, half))
        title = "**mean**" if half is None else f"**mean**, {half} half"
        lines.append(_cells([title, *(_number(mean[name].ndcg_10, 4) for name in names)]))
    return lines


def _silence(name: str, silence: Silence) -> str:
    silent = round(silence.silent * silence.unanswerable)
    wrongly = round(silence.right_first_silent * silence.right_first)
    return (
        f"{name}: recall says nothing to {silent} of {silence.unanswerable} questions without an "
        f"answer, and to {wrongly} of {silence.right_first} whose first hit is right."
    )


def _halves(evaluations: Sequence[Evaluation]) -> list[str]:
    """Return the halves that every run of every collection has."""
    sets = [
        {half for half, _ in run.halves} for evaluation in evaluations for run in evaluation.runs
    ]
    return sorted(set.intersection(*sets)) if sets else []


def means(evaluations: Sequence[Evaluation], half: str | None = None) -> list[tuple[str, Quality]]:
    """Return the mean quality per variant, of one half or the whole; collections count equally."""
    groups: dict[str, list[Quality]] = {}
    for evaluation in evaluations:
        for run in evaluation.runs:
            quality = run.quality if half is None else dict(run.halves)[half]
            groups.setdefault(run.name, []).append(quality)
    return [(name, _mean(qualities)) for name, qualities in groups.items()]


def mean_dicts(evaluations: Sequence[Evaluation]) -> dict[str, dict[str, Any]]:
    """Return the means for JSON, by variant; with ``halves`` if they were measured."""
    variants: dict[str, dict[str, Any]] = {
        name: quality._asdict() for name, quality in means(evaluations)
    }
    for half in _halves(evaluations):
        for name, quality in means(evaluations, half):
            variants[name].setdefault("halves", {})[half] = quality._asdict()
    return variants


def _mean(qualities: Sequence[Quality]) -> Quality:
    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    deep = [quality.recall_100 for quality in qualities if quality.recall_100 is not None]
    return Quality(
        sum(quality.queries for quality in qualities),
        mean([quality.ndcg_10 for quality in qualities]),
        mean([quality.recall_5 for quality in qualities]),
        mean([quality.recall_10 for quality in qualities]),
        mean(deep) if len(deep) == len(qualities) else None,
        mean([quality.mrr_10 for quality in qualities]),
    )


def _line(name: str, run: str, quality: Quality, rest: Sequence[object] = ("", "", "", "")) -> str:
    queries, *values = quality
    return _cells([name, run, *(_number(value, 3) for value in values), queries, *rest])


def _cells(cells: Sequence[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def evaluation_dict(evaluation: Evaluation) -> dict[str, Any]:
    """Return the results for JSON, under the names of the fields."""
    fields = evaluation._asdict()
    fields["runs"] = [
        run._asdict()
        | {
            "quality": run.quality._asdict(),
            "categories": {category: quality._asdict() for category, quality in run.categories},
            "halves": {half: quality._asdict() for half, quality in run.halves},
        }
        for run in evaluation.runs
    ]
    fields["silence"] = evaluation.silence and evaluation.silence._asdict()
    return fields
