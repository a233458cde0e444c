"""Convert a model's numbers into unit vectors, or refuse them."""

import math
from array import array
from collections.abc import Sequence
from operator import mul

from plait.errors import EmbedderError, advise
from plait.protocols import Vector


def unit_vectors(answers: Sequence[object], dims: int | None, name: str) -> list[Vector]:
    """Return each answer as a float32 vector of length 1, all with the same number of dims.

    Args:
        answers: Lists of numbers, as JSON gives them.
        dims: How many numbers a vector must have; ``None``: as many as the first.
        name: Where they come from, for the error.

    Raises:
        EmbedderError: An answer is not a vector of that size, or is zero.
    """
    vectors: list[Vector] = []
    for answer in answers:
        vector = _unit_vector(answer, name)
        expected = dims or len(vectors[0] if vectors else vector)
        if len(vector) != expected:
            raise EmbedderError(
                f"{name} returned a vector of {len(vector)} numbers; expected {expected}. "
                "If the model has changed, all vectors must be recomputed.",
                code="wrong_dims",
                advice=advise("reindex_embeddings"),
            )
        vectors.append(vector)
    return vectors


def _unit_vector(answer: object, name: str) -> Vector:
    # Exact types: bool is a subclass of int.
    if not isinstance(answer, list) or not set(map(type, answer)) <= {int, float}:
        raise EmbedderError(
            f"{name} returned a vector that is not a list of numbers.", code="bad_vector"
        )
    try:
        numbers = array("f", answer)
    except OverflowError:
        numbers = array("f", [math.inf])
    length = math.sqrt(sum(map(mul, numbers, numbers)))
    if not math.isfinite(length):
        raise EmbedderError(
            f"{name} returned a vector with a number that float32 cannot hold.", code="bad_vector"
        )
    if not length:
        raise EmbedderError(f"{name} returned a zero vector.", code="bad_vector")
    return array("f", [number / length for number in numbers])
