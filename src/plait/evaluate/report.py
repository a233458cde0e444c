"""Measurements as a Markdown table or as JSON."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from plait.evaluate.measures import Quality, Run

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
    """All that was measured on one collection."""

    collection: str
    documents: int
    passages: int
    ingest_per_s: float
    chunk_size: int
    chunk_overlap: int
    runs: tuple[Run, ...]


def table(evaluations: Sequence[Evaluation]) -> str:
    """The results as a Markdown table, with means where there are several collections."""
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
            found = means(evaluations, half)
            lines += [_line(f"**mean**, {half} half", name, quality) for name, quality in found]
        lines += ["", *_matrix(evaluations)]
    return "\n".join(lines) + "\n"


def _matrix(evaluations: Sequence[Evaluation]) -> list[str]:
    """nDCG@10 alone, collections down and ways of searching across: what one compares."""
    names = [name for name, _ in means(evaluations)]
    lines = [_cells(["nDCG@10", *names]), "|---" * (len(names) + 1) + "|"]
    for evaluation in evaluations:
        found = {run.name: _number(run.quality.ndcg_10, 3) for run in evaluation.runs}
        lines.append(_cells([evaluation.collection, *(found.get(name, "") for name in names)]))
    for half in (None, *_halves(evaluations)):
        mean = dict(means(evaluations, half))
        title = "**mean**" if half is None else f"**mean**, {half} half"
        lines.append(_cells([title, *(_number(mean[name].ndcg_10, 4) for name in names)]))
    return lines


def _halves(evaluations: Sequence[Evaluation]) -> list[str]:
    """The halves that every run of every collection has."""
    sets = [{half for half, _ in run.halves} for one in evaluations for run in one.runs]
    return sorted(set.intersection(*sets)) if sets else []


def means(evaluations: Sequence[Evaluation], half: str | None = None) -> list[tuple[str, Quality]]:
    """Mean quality per way of searching, of one half alone if asked; collections count the same."""
    groups: dict[str, list[Quality]] = {}
    for evaluation in evaluations:
        for run in evaluation.runs:
            quality = run.quality if half is None else dict(run.halves)[half]
            groups.setdefault(run.name, []).append(quality)
    return [(name, _mean(qualities)) for name, qualities in groups.items()]


def mean_dicts(evaluations: Sequence[Evaluation]) -> dict[str, dict[str, Any]]:
    """The means for JSON, by way of searching; with ``halves`` where they were measured."""
    found: dict[str, dict[str, Any]] = {
        name: quality._asdict() for name, quality in means(evaluations)
    }
    for half in _halves(evaluations):
        for name, quality in means(evaluations, half):
            found[name].setdefault("halves", {})[half] = quality._asdict()
    return found


def _mean(qualities: Sequence[Quality]) -> Quality:
    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    deep = [one.recall_100 for one in qualities if one.recall_100 is not None]
    return Quality(
        sum(one.queries for one in qualities),
        mean([one.ndcg_10 for one in qualities]),
        mean([one.recall_5 for one in qualities]),
        mean([one.recall_10 for one in qualities]),
        mean(deep) if len(deep) == len(qualities) else None,
        mean([one.mrr_10 for one in qualities]),
    )


def _line(name: str, run: str, quality: Quality, rest: Sequence[object] = ("", "", "", "")) -> str:
    queries, *values = quality
    return _cells([name, run, *(_number(value, 3) for value in values), queries, *rest])


def _cells(cells: Sequence[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def as_dict(evaluation: Evaluation) -> dict[str, Any]:
    """The results for JSON, under the names of the fields."""
    found = evaluation._asdict()
    found["runs"] = [
        run._asdict()
        | {
            "quality": run.quality._asdict(),
            "categories": {category: quality._asdict() for category, quality in run.categories},
            "halves": {half: quality._asdict() for half, quality in run.halves},
        }
        for run in evaluation.runs
    ]
    return found
