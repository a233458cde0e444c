"""The variants of search that an evaluation compares."""

from collections.abc import Iterator, Sequence
from typing import get_args

from plait.errors import UsageError, refused_choice
from plait.stores import Planner
from plait.types import FUSIONS, MODES, Fusion, Mode
from plait.types.records import NamedTuple

PLANNERS: tuple[Planner, ...] = get_args(Planner)
HALVES = ("odd", "even", "both")
# Weights of the keyword branch; the vector branch has the rest.
SWEEP_WEIGHTS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


class EvaluationOptions(NamedTuple):
    """What to measure.

    Without ``modes``, all modes that the embedder supports are measured. ``fusions`` and
    ``weights`` (of the keyword branch) multiply the hybrid runs; each collection is stored once.

    ``half`` asks only the questions whose id has an odd or an even SHA-256; ``both`` reports the
    two halves beside the whole. Choose settings on one half and check them on the other.

    ``pad`` fills the memory up to this many passages, with the documents of the folders
    ``pad_from`` (except the measured one) and, if they are too few, with mixed phrases.

    ``notes`` is a folder of files that are the documents, instead of those of the collection.

    ``deep`` adds recall@100, which costs a second, longer search per question. ``db`` is where the
    memory is created and kept.
    """

    modes: tuple[Mode, ...] = ()
    planners: tuple[Planner, ...] = ("auto",)
    fusions: tuple[Fusion, ...] = ()
    weights: tuple[float, ...] = ()
    half: str | None = None
    max_queries: int | None = None
    pad: int = 0
    pad_from: tuple[str, ...] = ()
    notes: str | None = None
    deep: bool = True
    grep: bool = True
    db: str | None = None


class SearchVariant(NamedTuple):
    """One variant of search; ``None`` is the memory's own setting."""

    name: str
    mode: Mode
    planner: Planner = "auto"
    fusion: Fusion | None = None
    keyword_weight: float | None = None


def check_options(options: EvaluationOptions) -> None:
    """Check that the options can be measured.

    Raises:
        UsageError: An option is invalid; the code is "bad_option", the subject its name.
    """
    if options.max_queries is not None and options.max_queries < 1:
        raise _bad_option("max_queries", f"max_queries is {options.max_queries}; choose 1 or more.")
    if options.pad < 0:
        raise _bad_option("pad", f"pad is {options.pad}; choose a number of passages, or 0.")
    halves = () if options.half is None else (options.half,)
    choices: tuple[tuple[str, Sequence[str], Sequence[str]], ...] = (
        ("modes", options.modes, MODES),
        ("planners", options.planners, PLANNERS),
        ("fusions", options.fusions, FUSIONS),
        ("half", halves, HALVES),
    )
    for option, names, allowed in choices:
        for name in names:
            if name not in allowed:
                raise refused_choice(option, name, allowed, code="bad_option")
    for weight in options.weights:
        if not 0.0 <= weight <= 1.0:
            raise _bad_option("weights", f"A keyword weight is {weight:g}; choose 0 to 1.")


def _bad_option(option: str, message: str) -> UsageError:
    return UsageError(message, code="bad_option", subject=option)


def variants(options: EvaluationOptions, modes: Sequence[Mode]) -> Iterator[SearchVariant]:
    """Yield the variants that the options ask for, in their order.

    >>> options = EvaluationOptions(weights=(0.5,), fusions=("weighted", "rrf"))
    >>> [variant.name for variant in variants(options, ["hybrid"])]
    ['hybrid, weighted, keyword 0.5', 'hybrid, rrf']
    """
    for mode in modes:
        for fusion, weight in _fusions(options) if mode == "hybrid" else [(None, None)]:
            for planner in options.planners:
                parts = [
                    mode,
                    fusion or "",
                    "" if weight is None else f"keyword {weight:g}",
                    "" if options.planners == ("auto",) else f"planner {planner}",
                ]
                yield SearchVariant(", ".join(filter(None, parts)), mode, planner, fusion, weight)


def _fusions(options: EvaluationOptions) -> Iterator[tuple[Fusion | None, float | None]]:
    for fusion in options.fusions or (None,):
        # Reciprocal rank fusion has no weights: one run is enough.
        for weight in (None,) if fusion == "rrf" else options.weights or (None,):
            yield fusion, weight
