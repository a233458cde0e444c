"""Write the latest results, with their budgets and other systems' figures, into two pages.

``python benchmarks/summary.py`` writes the parts between ``<!-- results -->`` and
``<!-- end of results -->`` in benchmarks/README.md and in README.md. The figures come
from results/DATE.md and quality.md.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
QUALITY = HERE / "quality.md"
BEGIN, END = "<!-- results -->", "<!-- end of results -->"

Row = dict[str, str]
Tables = dict[str, list[Row]]

FRESH = "A fresh process: `plait search`"
WARM = "Warm hybrid search"
BUILT_IN_MODE = "hybrid, built-in model"
INGEST = re.compile(r"`ingest`, embedder (\w+): .* passages of ([\d,]+) characters")
RATE = re.compile(r"([\d,]+) passages and ([\d.]+) MB per CPU second")
NAMES = {"builtin": "built-in model", "hashing": "stand-in", "none": "no vectors"}

FRESH_BUDGET_MS = {"10,000": 90.0, "100,000": 120.0}
FRESH_BUDGET_MB = 45.0
WARM_BUDGET_MS = {"10,000": 4.0, "100,000": 20.0, "1,000,000": 200.0}
RECALL_BUDGET = 0.98
INGEST_BUDGET = 2_000.0
KEYWORD_BUDGET = 0.590
HYBRID_BUDGET = 0.615

# Measured on another machine of this class before plait was written; see "Compared with others".
FRESH_PEERS = {
    "10,000": "sqlite-vec alone 29–40 ms; Chroma 982–1,271 ms; `qmd search` 1.4 s wall",
    "100,000": "sqlite-vec alone 102–106 ms; Chroma 1,405 ms",
}
WARM_PEERS = {
    "10,000": "vectors only: Chroma 1.0 ms, sqlite-vec 5.9 ms",
    "100,000": "vectors only: Chroma 1.6 ms, sqlite-vec 59 ms",
    "1,000,000": "vectors only: sqlite-vec 602 ms",
}
QUALITY_PEERS = "FTS5 alone 0.596; RRF 0.554; reference BM25 0.577"


class Line(NamedTuple):
    """One of our figures, its budget, and the best figure of other systems."""

    what: str
    ours: str
    budget: str = ""
    peer: str = ""

    def __str__(self) -> str:
        return "| " + " | ".join(self) + " |"


def tables(text: str) -> Tables:
    """Return the first table under each second-level heading, as rows by column name."""
    by_heading: Tables = {}
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        head, _, body = part.partition("\n")
        rows: list[list[str]] = []
        for line in body.splitlines():
            if line.startswith("|"):
                rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
            elif rows:
                break
        if len(rows) > 2:
            by_heading[head] = [dict(zip(rows[0], row, strict=False)) for row in rows[2:]]
    return by_heading


def number(cell: str) -> float:
    """Return the first number of a cell, as in ``1,234 / 5``."""
    match = re.search(r"\d[\d,]*(?:\.\d+)?", cell)
    if match is None:
        raise ValueError(f"there is no number in {cell!r}")
    return float(match[0].replace(",", ""))


def held(ours: str, value: float, limit: float | None, *, least: bool = False) -> str:
    """Return our figure, marked if it misses its budget."""
    if limit is None:
        return ours
    return ours if (value >= limit if least else value <= limit) else f"{ours}, **missed**"


def fresh_lines(results: Tables) -> list[Line]:
    lines = []
    for row in results[FRESH]:
        size, mode = row["passages"], row["mode"]
        if mode not in ("hybrid", BUILT_IN_MODE):
            continue
        embedder = NAMES["builtin" if mode == BUILT_IN_MODE else "hashing"]
        what = f"fresh process: `plait search`, {size} passages, {embedder}"
        cost = row["CPU ms, median / p95"]
        limit = FRESH_BUDGET_MS.get(size)
        budget = f"≤ {limit:g}" if limit else ""
        lines.append(
            Line(
                f"{what}, CPU ms",
                held(cost, number(cost), limit),
                budget,
                FRESH_PEERS.get(size, ""),
            )
        )
        if size == "10,000":
            peak = row["peak MB"]
            lines.append(
                Line(
                    f"{what}, peak MB",
                    held(peak, number(peak), FRESH_BUDGET_MB),
                    f"≤ {FRESH_BUDGET_MB:g}",
                )
            )
    return lines


def warm_lines(results: Tables) -> list[Line]:
    lines = []
    for row in results[WARM]:
        size, cost = row["passages"], row["total CPU ms, median / p95"]
        limit = WARM_BUDGET_MS.get(size)
        embedder = NAMES[row.get("embedder", "hashing")]
        lines.append(
            Line(
                f"warm hybrid search, {size} passages, {embedder}, CPU ms",
                held(cost, number(cost), limit),
                f"≤ {limit:g}" if limit else "",
                WARM_PEERS.get(size, ""),
            )
        )
    return lines


def start_lines(results: Tables) -> list[Line]:
    return [
        Line(f"starting {row['what']}, CPU ms", row["CPU ms, median / p95"])
        for row in results["Starting a process"]
    ]


def filter_lines(results: Tables) -> list[Line]:
    """Return the filters of the largest size that has a budget."""
    lines = []
    for row in results["Filters"]:
        if row["passages"] != "100,000":
            continue
        what = f"filter that {row['documents that pass']} pass, {row['passages']} passages"
        parts = [
            f"{branch} {row[f'{branch}, first query']}, then {row[f'{branch}, later']}"
            for branch in ("keyword", "vector")
        ]
        lines.append(Line(f"{what}, first query and later ones, CPU ms", "; ".join(parts)))
    return lines


def recall_lines(results: Tables) -> list[Line]:
    rows = results["Recall@10 of the int8 scan against exact float32"]
    return [
        Line(
            f"recall@10 of the vector scan against exact float32, {row['vectors']}",
            held(row["recall"], number(row["recall"]), RECALL_BUDGET, least=True),
            f"≥ {RECALL_BUDGET:g}",
            "Chroma 0.95, usearch int8 0.88, both at 100,000",
        )
        for row in rows
    ]


def ingest_rates(results: Tables) -> dict[str, tuple[str, str]]:
    """Return by embedder: passages per CPU second, and characters per passage."""
    rates = {}
    for row in results["Putting in"]:
        what, speed = INGEST.match(row["what"]), RATE.match(row["result"])
        if what is not None and speed is not None:
            rates[what[1]] = (speed[1], what[2])
    return rates


def ingest_lines(results: Tables) -> list[Line]:
    lines = []
    for embedder, (rate, characters) in ingest_rates(results).items():
        what = f"`ingest`, {NAMES[embedder]}: passages of {characters} characters per CPU second"
        limit = INGEST_BUDGET if embedder == "builtin" else None
        ours = held(rate, number(rate), limit, least=True)
        lines.append(Line(what, ours, f"≥ {limit:,.0f}" if limit else ""))
    return lines


def quality_means(text: str) -> dict[str, str]:
    """Return the mean nDCG@10 over the eight English collections, by way of searching."""
    means: dict[str, str] = {}
    results = tables(text)
    rows = results["Keyword search, default settings"]
    for place, row in enumerate(rows):
        if row["collection"] == "**mean of the eight**":
            means["keyword"] = row["nDCG@10"].strip("*")
            means["grep"] = rows[place + 1]["nDCG@10"].strip("*")
    for head, table in results.items():
        if "built-in model" not in head:
            continue
        for row in table:
            if row.get("collection", "").startswith("**mean"):
                means["vector"] = row["vector"].strip("*")
                means["hybrid"] = row["hybrid"].strip("*")
    return means


def quality_lines(means: dict[str, str]) -> list[Line]:
    what = "mean nDCG@10 over eight English collections"
    keyword = held(means["keyword"], number(means["keyword"]), KEYWORD_BUDGET, least=True)
    lines = [
        Line(f"{what}, keyword", keyword, f"≥ {KEYWORD_BUDGET:.3f}", f"grep {means['grep']}"),
    ]
    if "hybrid" in means:
        hybrid = held(means["hybrid"], number(means["hybrid"]), HYBRID_BUDGET, least=True)
        lines.append(
            Line(f"{what}, hybrid, built-in model", hybrid, f"≥ {HYBRID_BUDGET:.3f}", QUALITY_PEERS)
        )
    return lines


def ingest_words(results: Tables) -> str:
    """Return a remark on the budget of `ingest`."""
    rates = ingest_rates(results)
    words = ""
    if "hashing" in rates and number(rates["hashing"][0]) < INGEST_BUDGET:
        with_vectors, without = number(rates["hashing"][0]), number(rates["none"][0])
        words = (
            f"With the stand-in, `ingest` reaches {rates['hashing'][0]} passages a CPU second, "
            f"below the 2,000 of the budget: {1 - with_vectors / without:.0%} of that time is the "
            "stand-in itself, written in plain Python. The budget is meant for the built-in model"
        )
        words += _model_words(rates)
    return words


def _model_words(rates: dict[str, tuple[str, str]]) -> str:
    if "builtin" not in rates:
        return "; these results do not hold it yet."
    rate, characters = rates["builtin"]
    verdict = ", which misses it too" if number(rate) < INGEST_BUDGET else ", which keeps it"
    return f"{verdict}: {rate} passages of {characters} characters."


def results_part(name: str, text: str, quality: str) -> str:
    """Return the part of benchmarks/README.md: all figures with a budget or a peer."""
    results = tables(text)
    machine = [line for line in text.split("\n## ")[0].splitlines()[1:] if line.strip()]
    lines = [
        *quality_lines(quality_means(quality)),
        *fresh_lines(results),
        *start_lines(results),
        *warm_lines(results),
        *filter_lines(results),
        *recall_lines(results),
        *ingest_lines(results),
    ]
    words = [
        f"Measured {name}: {machine[0]}; {machine[1]}. In full: [results/{name}.md]"
        f"(results/{name}.md), and for nDCG [quality.md](quality.md). Median / 95th percentile. "
        "Peers were measured on another machine, by the same method: take them as orders of "
        "magnitude.",
        "| what | ours | budget | best peer today |\n|---|---|---|---|\n"
        + "\n".join(map(str, lines)),
    ]
    return "\n\n".join(filter(None, [*words, ingest_words(results)]))


def readme_part(name: str, text: str, quality: str) -> str:
    """Return the part of the front page: quality and speed in one small table."""
    results, means = tables(text), quality_means(quality)
    has_model = any(row["mode"] == BUILT_IN_MODE for row in results[FRESH])
    mode, embedder = (BUILT_IN_MODE, "builtin") if has_model else ("hybrid", "hashing")
    fresh = {r["passages"]: r["CPU ms, median / p95"] for r in results[FRESH] if r["mode"] == mode}
    warm = {
        row["passages"]: row["total CPU ms, median / p95"]
        for row in results[WARM]
        if row.get("embedder", "hashing") == embedder
    }
    machine = ", ".join(text.split("\n\n")[1].splitlines()[0].split(", ")[:2])
    quality_row = " · ".join(f"{way} {means[way]}" for way in means if way != "grep")
    lines = [
        f"| mean nDCG@10, eight English collections | {quality_row} · grep {means['grep']} |",
        *(
            f"| {what}, {size} passages, CPU ms | {_median(costs[size])} |"
            for what, costs in (("`plait search` as a new process", fresh), ("warm search", warm))
            for size in FRESH_BUDGET_MS
            if size in costs
        ),
    ]
    note = "" if has_model else " Times with the stand-in embedder, not yet with the model."
    return "| | |\n|---|---|\n" + "\n".join(lines) + f"\n\nMedians, {name}, {machine}.{note}"


def _median(cell: str) -> str:
    return cell.partition(" / ")[0]


def page(path: Path, body: str) -> str:
    """Return a page with the part between the marks replaced."""
    text = path.read_text(encoding="utf-8")
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.S)
    new, count = pattern.subn(lambda _: f"{BEGIN}\n\n{body}\n\n{END}", text)
    if count != 1:
        raise ValueError(f"{path.name} needs the marks {BEGIN} and {END} exactly once")
    return new


def pages() -> dict[Path, str]:
    """Return both pages, up to date."""
    latest = max(RESULTS.glob("*.md"))
    text, quality = latest.read_text(encoding="utf-8"), QUALITY.read_text(encoding="utf-8")
    return {
        HERE / "README.md": page(HERE / "README.md", results_part(latest.stem, text, quality)),
        HERE.parent / "README.md": page(
            HERE.parent / "README.md", readme_part(latest.stem, text, quality)
        ),
    }


def refresh() -> Sequence[Path]:
    """Write the pages that are not up to date."""
    changed = []
    for path, text in pages().items():
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


if __name__ == "__main__":
    for name in refresh():
        sys.stdout.write(f"wrote {name}\n")
