"""Tells linear work from quadratic work, by the time that it takes on longer and longer texts."""

import time
from collections.abc import Callable, Sequence

# Work is measured as CPU time of this process, the least of some tries. Sizes grow 4 times a step:
# linear work takes 4 times as long, quadratic work 16 times.
MOST_GROWTH = 2.8**2
SIZES = (512, 2_048, 8_192)
# Below this, a step proves nothing. Quadratic work takes longer at the largest size, even if it
# reads memory as fast as a processor can.
MEASURABLE_NS = 1_500_000
TRIES = 5


def cpu_time(act: Callable[[str], object], text: str) -> int:
    """Return the nanoseconds of this process that an act takes."""
    start = time.process_time_ns()
    act(text)
    return time.process_time_ns() - start


def growth(
    act: Callable[[str], object], shape: Callable[[int], str], sizes: Sequence[int] = SIZES
) -> float:
    """Return by how much the work grows from one size to the next, where it is measurable.

    Sizes grow step by step, so that even cubic work is noticed before it takes minutes.
    """
    act(shape(sizes[0]))  # imports and caches
    before = sizes[0]
    for size in sizes[1:]:
        text = shape(size)
        took = cpu_time(act, text)
        if took > MEASURABLE_NS:
            # Somebody else may have used the processor's caches: only what repeats counts.
            smaller = shape(before)
            times = [(took, cpu_time(act, smaller))]
            while (ratio := ratio_of(times)) > MOST_GROWTH and len(times) < TRIES:
                times.append((cpu_time(act, text), cpu_time(act, smaller)))
            if ratio > MOST_GROWTH:
                return ratio
        before = size
    return 0.0


def ratio_of(times: list[tuple[int, int]]) -> float:
    """Return how many times the least time of the larger text is that of the smaller."""
    return min(large for large, _ in times) / max(1, min(small for _, small in times))
