"""Numbers from elsewhere become unit vectors, or an error: nothing else leaves an embedder."""

import math
from array import array
from collections.abc import Sequence
from operator import mul

from plait.errors import EmbedderError
from plait.protocols import Vector


def unit_vectors(answers: Sequence[object], dims: int | None, name: str) -> list[Vector]:
    """Every answer as a float32 vector of length 1, all with the same number of dimensions.

    Args:
        answers: Lists of numbers, as JSON gives them.
        dims: How many numbers a vector must have; ``None``: as many as the first.
        name: Who gave them, for the error.

    Raises:
        EmbedderError: One of them is no direction in that space.
    """
    found: list[Vector] = []
    for answer in answers:
        vector = _unit_vector(answer, name)
        expected = dims or len(found[0] if found else vector)
        if len(vector) != expected:
            raise EmbedderError(
                f"{name} gave a vector of {len(vector)} numbers where {expected} were expected. "
                "If the model has changed run: plait reindex --embeddings"
            )
        found.append(vector)
    return found


def _unit_vector(answer: object, name: str) -> Vector:
    # bool is a number to Python, and numbers in quotes are none.
    if not isinstance(answer, list) or not set(map(type, answer)) <= {int, float}:
        raise EmbedderError(f"{name} gave something that is not a list of numbers as a vector.")
    try:
        numbers = array("f", answer)
    except OverflowError:
        numbers = array("f", [math.inf])
    length = math.sqrt(sum(map(mul, numbers, numbers)))
    if not math.isfinite(length):
        raise EmbedderError(f"{name} gave a vector with a number beyond float32 or none at all.")
    if not length:
        raise EmbedderError(f"{name} gave a vector without a direction: all zeros.")
    return array("f", [number / length for number in numbers])
