"""Write the latest results, their limits, their growth and other systems' figures into the pages.

``python benchmarks/summary.py`` writes the parts between ``<!-- results -->`` and
``<!-- end of results -->`` in benchmarks/README.md and in README.md, and the picture
``results/growth.svg``, from results/DATE.json and quality.md.
"""

import json
import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from math import log
from pathlib import Path
from textwrap import fill
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # also when it is run from elsewhere

from picture import Panel, draw  # noqa: E402

RESULTS = HERE / "results"
QUALITY = HERE / "quality.md"
PICTURE = RESULTS / "growth.svg"
BEGIN, END = "<!-- results -->", "<!-- end of results -->"
Results = dict[str, Any]

PAGE_WIDTH = 120
# The slowest twentieth may take so many times as long as the median.
MOST_SPREAD = 3.0
SEARCH_NEW = {10_000: 65.0, 100_000: 95.0, 1_000_000: 160.0}
SEARCH_WARM = {10_000: 6.0, 100_000: 14.0, 1_000_000: 60.0}


def _always(limit: float) -> dict[int, float]:
    return dict.fromkeys((10_000, 100_000, 1_000_000), limit)


# CPU milliseconds at most, or, of rates, at least.
LIMITS: dict[str, dict[int, float]] = {
    "plait search, short question": SEARCH_NEW,
    "plait search, long question": SEARCH_NEW,
    "search, short question": SEARCH_WARM,
    "search, long question": SEARCH_WARM,
    "search, stop words": _always(40.0),
    "store": _always(5.0),
    "fact of an entity that has 100": _always(6.0),
    "ingest": _always(2_000.0),
    "ingest, one passage a file": _always(1_600.0),
    "rows, vectors given": _always(12_000.0),
}
RATES = ("ingest", "ingest, one passage a file", "rows, vectors given")
NEW_PEAK_MB, WARM_PEAK_MB = 45.0, 110.0
WARM_SEARCHES = ("search, short question", "search, long question")
FRONT = (
    ("`plait search` as a new process, long question", "plait search, long question"),
    ("warm search, long question", "search, long question"),
    ("storing a note", "store"),
)


# -- figures ----------------------------------------------------------------------------------


def number(value: float) -> str:
    """Return a figure with three digits or so."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def held(ours: str, value: float, limit: float | None, *, least: bool = False) -> str:
    """Return our figure, marked if it misses its limit."""
    if limit is None:
        return ours
    return ours if (value >= limit if least else value <= limit) else f"{ours}, **missed**"


def sizes_of(results: Results) -> list[int]:
    return sorted({int(name.split("/")[0]) for name in results if name[0].isdigit()})


def operations_of(results: Results) -> list[str]:
    """Return the names of all operations, as first measured; rates last."""
    names = dict.fromkeys(name.split("/", 1)[1] for name in results if name[0].isdigit())
    return sorted(names, key=lambda name: (name in RATES, not name.startswith("plait")))


def growth(costs: dict[int, float]) -> str:
    """Return the exponents b of cost ~ size^b between one size and the next.

    >>> growth({10_000: 2.0, 100_000: 20.0, 1_000_000: 20.0})
    '1.00, 0.00'
    """
    sizes = sorted(size for size, cost in costs.items() if cost > 0)
    exponents = [log(costs[b] / costs[a]) / log(b / a) for a, b in pairwise(sizes)]
    return ", ".join(f"{exponent + 0.0:.2f}" for exponent in exponents)


def _cell(row: Results | None, limit: float | None, *, rate: bool) -> str:
    if row is None:
        return ""
    median = row["median"]
    if rate:
        return held(number(median), median, limit, least=True)
    text = held(f"{number(median)} / {number(row['p95'])}", median, limit)
    return text if row["p95"] <= MOST_SPREAD * median else f"{text} (uneven)"


def _table(results: Results, names: Sequence[str]) -> str:
    sizes = sizes_of(results)
    lines = [
        f"| | {' | '.join(f'{size:,}' for size in sizes)} | growth | limit |",
        "|---" * (len(sizes) + 3) + "|",
    ]
    for name in names:
        rows = {size: results.get(f"{size}/{name}") for size in sizes}
        limits, rate = LIMITS.get(name, {}), name in RATES
        cells = [_cell(row, limits.get(size), rate=rate) for size, row in rows.items()]
        costs = {size: row["median"] for size, row in rows.items() if row is not None}
        allowed = sorted({limits[size] for size in sizes if size in limits})
        told = f"{'≥' if rate else '≤'} {', '.join(f'{limit:,.0f}' for limit in allowed)}"
        shown = f"`{name}`" if name.startswith("plait") and "," not in name else name
        grown = "" if rate else growth(costs)
        lines.append(f"| {shown} | {' | '.join(cells)} | {grown} | {told if allowed else ''} |")
    return "\n".join(lines)


def _sizes_table(results: Results) -> str:
    """Return memory and disk, at every size."""
    sizes = sizes_of(results)
    lines = [
        f"| | {' | '.join(f'{size:,}' for size in sizes)} | limit |",
        "|---" * (len(sizes) + 2) + "|",
    ]
    new, warm, left, disk = [], [], [], []
    for size in sizes:
        peaks = [results[f"{size}/{name}"]["peak_mb"] for name in SEARCHES_OF["plait"]]
        new.append(held(number(max(peaks)), max(peaks), NEW_PEAK_MB))
        peaks = [results[f"{size}/{name}"]["peak_mb"] for name in SEARCHES_OF["warm"]]
        warm.append(held(number(max(peaks)), max(peaks), WARM_PEAK_MB))
        commands = [n for n in operations_of(results) if n.startswith("plait")]
        bytes_left = max(results[f"{size}/{name}"]["journal_bytes"] for name in commands)
        left.append(held(f"{bytes_left:,}", bytes_left, 0.0))
        disk.append(number(results[f"{size}/rows, vectors given"]["bytes"]))
    for what, cells, limit in (
        ("memory of a new process that searches, MB", new, f"≤ {NEW_PEAK_MB:.0f}"),
        ("memory of a process that goes on searching, MB", warm, f"≤ {WARM_PEAK_MB:.0f}"),
        ("left in the journal after a command, bytes", left, "0"),
        ("file, bytes a passage", disk, ""),
    ):
        lines.append(f"| {what} | {' | '.join(cells)} | {limit} |")
    return "\n".join(lines)


SEARCHES_OF = {
    "plait": ("plait search, short question", "plait search, long question"),
    "warm": WARM_SEARCHES,
}


# -- peers ------------------------------------------------------------------------------------


def _peer_table(results: Results, size: int) -> str:
    lines = [
        f"{size:,} passages:",
        "",
        "| | ranks by | new process, short / long | warm, short / long | passages a CPU second "
        "| disk, MB | memory new / warm, MB |",
        "|---|---|---|---|---|---|---|",
    ]
    own = {name: results[f"{size}/{name}"] for names in SEARCHES_OF.values() for name in names}
    (new_short, new_long), (short, long) = SEARCHES_OF["plait"], SEARCHES_OF["warm"]
    rows = results[f"{size}/rows, vectors given"]
    lines.append(
        "| **plait, which embeds the question itself** | both "
        f"| {_pair(own[new_short], own[new_long])} "
        f"| {_pair(own[short], own[long])} | {number(rows['median'])} "
        f"| {number(rows['bytes'] * size / 1e6)} "
        f"| {number(own[new_long]['peak_mb'])} / {number(own[long]['peak_mb'])} |"
    )
    for key, row in results.items():
        if not key.startswith(f"peer/{size}/"):
            continue
        name = f"{key.split('/', 2)[2]} ({row['version']})"
        lines.append(
            f"| {name} | {row['ranks']} | {_pair(row['new, short'], row['new, long'])} "
            f"| {_pair(row['short'], row['long'])} | {number(row['rows_per_second'])} "
            f"| {number(row['disk_mb'])} "
            f"| {number(row['new, long']['peak_mb'])} / {number(row['peak_mb'])} |"
        )
    return "\n".join(lines)


def _pair(one: Results, other: Results) -> str:
    return f"{number(one['median'])} / {number(other['median'])}"


def _peers(results: Results) -> list[str]:
    sizes = sorted({int(key.split("/")[1]) for key in results if key.startswith("peer/")})
    parts = [_peer_table(results, size) for size in sizes]
    skipped = [
        f"{key.split('/', 1)[1]} ({row['why']})"
        for key, row in results.items()
        if key.startswith("skipped/")
    ]
    skipped.append(results["about"].get("not tried", ""))
    return [*parts, _wrapped(f"Left out: {'; '.join(filter(None, skipped))}.")]


def _wrapped(text: str) -> str:
    return fill(text, PAGE_WIDTH, break_long_words=False, break_on_hyphens=False)


# -- quality ----------------------------------------------------------------------------------


def tables(text: str) -> dict[str, list[dict[str, str]]]:
    """Return the first table under each second-level heading, as rows by column name."""
    by_heading: dict[str, list[dict[str, str]]] = {}
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


# -- pages ------------------------------------------------------------------------------------


def results_part(name: str, results: Results) -> str:
    """Return the part of benchmarks/README.md: every operation, then every peer."""
    about = results["about"]
    names = operations_of(results)
    commands = [name for name in names if name.startswith("plait")]
    calls = [name for name in names if name not in commands and name not in RATES]
    rates = [name for name in names if name in RATES]
    python = number(results["start/python -c pass"]["median"])
    return "\n\n".join(
        [
            _wrapped(
                f"Measured {about['date']}: {'; '.join(about['machine'])}; load {about['load']}. "
                f"Text: {about['characters']} characters a passage. All figures: "
                f"[results/{name}.json](results/{name}.json)."
            ),
            "![Cost of each operation against the number of passages](results/growth.svg)",
            "### A command as a new process, CPU ms, median / 95th percentile",
            f"Starting Python alone takes {python} of them.",
            _table(results, commands),
            "### In a process that is running, CPU ms, median / 95th percentile",
            _table(results, calls),
            "### Many at once, passages a CPU second",
            _table(results, rates),
            "### Memory and disk",
            _sizes_table(results),
            "### Other systems, in the same run, median CPU ms",
            *_peers(results),
        ]
    )


def readme_part(results: Results, quality: str) -> str:
    """Return the part of the front page: quality and speed in one small table."""
    means = quality_means(quality)
    quality_row = " · ".join(f"{way} {means[way]}" for way in means if way != "grep")
    sizes = sizes_of(results)
    lines = [
        f"| mean nDCG@10, eight English collections | {quality_row} · grep {means['grep']} |",
        *(
            f"| {what}, {_among(sizes)} passages, CPU ms | "
            f"{' · '.join(number(results[f'{size}/{name}']['median']) for size in sizes)} |"
            for what, name in FRONT
        ),
    ]
    about = results["about"]
    machine = ", ".join(about["machine"][0].split(", ")[:2])
    return "| | |\n|---|---|\n" + "\n".join(lines) + f"\n\nMedians, {about['date']}, {machine}."


def _among(sizes: Sequence[int]) -> str:
    return " · ".join(f"{size:,}" for size in sizes)


def picture(results: Results) -> str:
    panels = []
    for name in operations_of(results):
        rows = {size: results.get(f"{size}/{name}") for size in sizes_of(results)}
        costs = {size: row["median"] for size, row in rows.items() if row is not None}
        limits = {size: limit for size, limit in LIMITS.get(name, {}).items() if size in costs}
        unit = "passages a CPU second" if name in RATES else "CPU ms"
        panels.append(Panel(name, unit, costs, limits))
    return draw(panels)


def page(path: Path, body: str) -> str:
    """Return a page with the part between the marks replaced."""
    text = path.read_text(encoding="utf-8")
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.S)
    new, count = pattern.subn(lambda _: f"{BEGIN}\n\n{body}\n\n{END}", text)
    if count != 1:
        raise ValueError(f"{path.name} needs the marks {BEGIN} and {END} exactly once")
    return new


def pages() -> dict[Path, str]:
    """Return both pages and the picture, up to date."""
    latest = max(RESULTS.glob("*.json"))
    results = json.loads(latest.read_text(encoding="utf-8"))
    quality = QUALITY.read_text(encoding="utf-8")
    own, front = HERE / "README.md", HERE.parent / "README.md"
    return {
        own: page(own, results_part(latest.stem, results)),
        front: page(front, readme_part(results, quality)),
        PICTURE: picture(results),
    }


def refresh() -> Sequence[Path]:
    """Write the pages that are not up to date."""
    changed = []
    for path, text in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


if __name__ == "__main__":
    for name in refresh():
        sys.stdout.write(f"wrote {name}\n")
