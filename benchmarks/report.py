"""The measurements as Markdown, each with its budget."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from databases import TAGS, Built
from fresh import Fresh
from measure import Spread
from warm import Filtered, Planned, Split
from writing import Ingested

# CPU milliseconds unless a unit is given.
FRESH_BUDGET = {10_000: "≤ 90 ms, ≤ 45 MB", 100_000: "≤ 120 ms"}
WARM_BUDGET = {10_000: "≤ 4", 100_000: "≤ 20", 1_000_000: "≤ 200"}
RECALL_BUDGET = "≥ 0.98"
INGEST_BUDGET = "≥ 2,000 passages"
BUILT_IN = "hybrid, built-in model"  # plain "hybrid" is the stand-in

HEADS = {
    "Starting a process": "what | CPU ms, median / p95 | peak MB | modules loaded",
    "A fresh process: `plait search`": "passages | mode | CPU ms, median / p95 | peak MB | budget",
    "Warm hybrid search": (
        "passages | embedder | total CPU ms, median / p95 | keyword branch | vector branch | rest "
        "| budget"
    ),
    "Vector branch alone": "passages | kernel | CPU ms, median / p95",
    "Recall@10 of the int8 scan against exact float32": "passages | vectors | recall | budget",
    "Filters": (
        "passages | documents that pass | keyword, first query | keyword, later "
        "| vector, first query | vector, later"
    ),
    "Long questions: plain OR and the planner": (
        "passages | plain OR, CPU ms | planner, CPU ms | share of the top 10 in common "
        "| same first hit"
    ),
    "Building through the store": (
        "passages | embedder | documents | passages per CPU second | of it embedding "
        "| bytes per passage"
    ),
    "Putting in": "what | result | budget",
}


class Report:
    """Collects rows under their headings."""

    def __init__(self) -> None:
        self._rows: dict[str, list[str]] = defaultdict(list)
        self._intro: list[str] = []

    def _row(self, head: str, *cells: object) -> None:
        assert len(cells) == HEADS[head].count("|") + 1
        self._rows[head].append("| " + " | ".join(map(str, cells)) + " |")

    def machine(self, lines: Sequence[str], corpus: Sequence[int]) -> None:
        passages, characters = corpus
        self._intro = [
            *lines,
            f"Text: {passages:,} distinct passages, {characters / passages:.0f} characters on "
            "average, from this machine's Python library, manuals and documentation.",
            "CPU time, median / p95; 200 queries, half of 2–3 words, half questions of 8–12.",
        ]

    def starts(self, how: str, costs: Mapping[str, Fresh], modules: Mapping[str, int]) -> None:
        self._intro.append(f"Fresh processes run the console script of {how}.")
        for name, cost in costs.items():
            loaded = modules.get(name, "")
            self._row("Starting a process", f"`{name}`", cost.cpu, f"{cost.rss_mb:.1f}", loaded)

    def fresh(self, size: int, mode: str, cost: Fresh) -> None:
        budget = FRESH_BUDGET.get(size, "") if mode in ("hybrid", BUILT_IN) else ""
        self._row(
            "A fresh process: `plait search`",
            f"{size:,}",
            mode,
            cost.cpu,
            f"{cost.rss_mb:.1f}",
            budget,
        )

    def warm(self, size: int, embedder: str, cost: Split) -> None:
        budget = WARM_BUDGET.get(size, "")
        self._row("Warm hybrid search", f"{size:,}", embedder, *cost, budget)

    def kernel(self, size: int, name: str, cost: Spread) -> None:
        self._row("Vector branch alone", f"{size:,}", name, cost)

    def recall(self, size: int, vectors: str, share: float) -> None:
        head = "Recall@10 of the int8 scan against exact float32"
        self._row(head, f"{size:,}", vectors, f"{share:.3f}", RECALL_BUDGET)

    def filtered(self, size: int, row: Filtered) -> None:
        self._row(
            "Filters",
            f"{size:,}",
            f"{dict(TAGS)[row.tag]} %",
            f"{row.keyword_first:.1f}",
            row.keyword,
            f"{row.vector_first:.1f}",
            row.vector,
        )

    def planned(self, size: int, row: Planned) -> None:
        self._row(
            "Long questions: plain OR and the planner",
            f"{size:,}",
            row.plain,
            row.planned,
            f"{row.overlap:.2f}",
            f"{row.same_first:.2f}",
        )

    def built(self, built: Built) -> None:
        self._row(
            "Building through the store",
            f"{built.passages:,}",
            built.embedder,
            f"{built.documents:,}",
            f"{built.passages / built.seconds:,.0f}",
            f"{built.embedding_seconds / built.seconds:.0%}",
            f"{built.bytes_per_passage:,.0f}",
        )

    def single(self, size: int, cost: Spread) -> None:
        what = f"`store` of one observation into {size:,} passages, CPU ms"
        self._row("Putting in", what, cost, "")

    def ingested(self, row: Ingested) -> None:
        what = (
            f"`ingest`, embedder {row.embedder}: {row.files:,} files, {row.passages:,} passages "
            f"of {row.characters / row.passages:.0f} characters"
        )
        speed = (
            f"{row.passages / row.seconds:,.0f} passages and "
            f"{row.characters / row.seconds / 1e6:.1f} MB per CPU second, "
            f"{row.disk_bytes / row.passages:,.0f} bytes per passage on disk"
        )
        self._row("Putting in", what, speed, INGEST_BUDGET if row.embedder == "builtin" else "")

    def text(self) -> str:
        """Return the whole report."""
        lines = [*self._intro]
        for head, columns in HEADS.items():
            width = columns.count("|") + 1
            lines += ["", f"## {head}", "", f"| {columns} |", "|" + "---|" * width]
            lines += self._rows[head]
        return "\n".join(lines) + "\n"
