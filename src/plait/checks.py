"""What a caller said, refused where it cannot be meant: with the value, and what to say instead."""

from collections.abc import Sequence
from typing import TypeVar

from plait import text as words
from plait.errors import UsageError

Choice = TypeVar("Choice", bound=str)

# A hair above 1: shares that add up to 1 on paper may come out larger in binary.
MOST_WEIGHT = 1.0 + 1e-9


def one_of(name: str, value: str, allowed: Sequence[Choice]) -> Choice:
    """A value that is one of a few.

    Raises:
        UsageError: It is none of them.
    """
    for choice in allowed:
        if choice == value:
            return choice
    raise UsageError(f"{name} is '{value}'; choose one of: {', '.join(allowed)}.")


def count(name: str, value: int, least: int, most: int) -> int:
    """A number of things.

    Raises:
        UsageError: It is out of its range.
    """
    if not least <= value <= most:
        raise UsageError(f"{name} is {value}; choose {least} to {most}.")
    return value


def share(name: str, value: float | None) -> float | None:
    """A number from 0 to 1, if there is one.

    Raises:
        UsageError: It is out of its range.
    """
    if value is not None and not 0.0 <= value <= 1.0:
        raise UsageError(f"{name} is {value:g}; choose 0 to 1.")
    return value


def weights(keyword: float | None, vector: float | None) -> None:
    """The weights of the two branches of a search, each of them perhaps left to the embedder.

    Raises:
        UsageError: One is out of its range, or nothing or too much is weighed by both.
    """
    for name, weight in (("keyword_weight", keyword), ("vector_weight", vector)):
        if weight is not None and not 0.0 <= weight <= 1.0:
            raise UsageError(f"{name} is {weight}; choose 0 to 1.")
    if keyword is not None and vector is not None:
        if keyword + vector > MOST_WEIGHT:
            raise UsageError(
                f"keyword_weight {keyword} and vector_weight {vector} add up to "
                f"{keyword + vector:g}; they must not exceed 1."
            )
        if keyword == vector == 0.0:
            raise UsageError("Both weights are 0: then nothing is searched. Raise one of them.")


def key(said: str | None) -> str | None:
    """A key that a note can have, as it was said.

    Raises:
        UsageError: It is empty.
    """
    if said is not None and not said.strip():
        raise UsageError("The key is empty. Give a name, as in: --doc-id TOOLS")
    return said


def label(what: str, said: str | None) -> str | None:
    """The name of an entity or a topic, as it is kept.

    Raises:
        UsageError: It is empty.
    """
    if said is not None and not said.strip():
        raise UsageError(f"The {what} is empty. Give it a name, or leave it out.")
    return None if said is None else words.clean(said)


def no_fact(*said: object) -> None:
    """What only a fact can have, given for a note.

    Raises:
        UsageError: Any of it was given.
    """
    if any(value is not None for value in said):
        raise UsageError(
            "A text with a key is a note: it is replaced by its key, and has no entity, topic, "
            "supersedes or valid_from. Leave out the key, or the others."
        )
