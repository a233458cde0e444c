"""What one measurement compares: every way of searching that the options ask for, with its name."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from plait.errors import UsageError
from plait.types import FUSIONS, MODES, Fusion, Mode

PLANNERS = ("auto", "always", "never")
HALVES = ("odd", "even", "both")
# Shares of the keyword branch; the vector branch has the rest.
SWEEP = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


class Options(NamedTuple):
    """What to measure. Without ``modes``: all that the memory's embedder can do.

    ``fusions`` and ``weights`` (of the keyword branch) multiply the hybrid runs; each collection is
    stored once, whatever is measured on it. ``half`` asks only the questions whose id has an odd or
    an even SHA-256, or with ``both`` reports the two beside the whole: choose settings on one, and
    see on the other whether they hold. ``pad`` fills the memory up to so many passages with the
    documents of the folders ``pad_from``, other than the one measured, and where they do not
    suffice, with phrases of all mixed anew. ``deep`` adds recall@100, which costs a second, longer
    search per question. ``db`` says where the memory is made, and kept.
    """

    modes: tuple[Mode, ...] = ()
    planners: tuple[str, ...] = ("auto",)
    fusions: tuple[Fusion, ...] = ()
    weights: tuple[float, ...] = ()
    half: str | None = None
    max_queries: int | None = None
    pad: int = 0
    pad_from: tuple[str, ...] = ()
    deep: bool = True
    grep: bool = True
    db: str | None = None


class Way(NamedTuple):
    """One way of searching; ``None`` is the memory's own setting."""

    name: str
    mode: Mode
    planner: str = "auto"
    fusion: Fusion | None = None
    keyword_weight: float | None = None


def check(options: Options) -> None:
    """Refuse what cannot be measured.

    Raises:
        UsageError: An option makes no sense.
    """
    if options.max_queries is not None and options.max_queries < 1:
        raise UsageError(f"max_queries is {options.max_queries}; choose 1 or more.")
    if options.pad < 0:
        raise UsageError(f"pad is {options.pad}; choose how many passages there shall be, or 0.")
    halves = () if options.half is None else (options.half,)
    for names, allowed in (
        (options.modes, MODES),
        (options.planners, PLANNERS),
        (options.fusions, FUSIONS),
        (halves, HALVES),
    ):
        for name in names:
            if name not in allowed:
                raise UsageError(f"There is no '{name}'. Choose from: {', '.join(allowed)}.")
    for weight in options.weights:
        if not 0.0 <= weight <= 1.0:
            raise UsageError(f"A keyword weight is {weight:g}; choose 0 to 1.")


def ways(options: Options, modes: Sequence[Mode]) -> Iterator[Way]:
    """Every way that the options ask for, in their order.

    >>> [way.name for way in ways(Options(weights=(0.5,), fusions=("weighted", "rrf")), ["hybrid"])]
    ['hybrid, weighted, keyword 0.5', 'hybrid, rrf']
    """
    for mode in modes:
        for fusion, weight in _merges(options) if mode == "hybrid" else [(None, None)]:
            for planner in options.planners:
                parts = [
                    mode,
                    fusion or "",
                    "" if weight is None else f"keyword {weight:g}",
                    "" if options.planners == ("auto",) else f"planner {planner}",
                ]
                yield Way(", ".join(filter(None, parts)), mode, planner, fusion, weight)


def _merges(options: Options) -> Iterator[tuple[Fusion | None, float | None]]:
    for fusion in options.fusions or (None,):
        # Ranks have no weights: one run tells all.
        for weight in (None,) if fusion == "rrf" else options.weights or (None,):
            yield fusion, weight
