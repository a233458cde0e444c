"""Errors in the words of this door: whoever reads them here calls tools, and types no commands."""

import re

# How the core ends a sentence for a person at a terminal, and how the same is said to a model.
_ADVICE = (
    (r"Look for it with: plait search WORDS", "Look for it with memory_search."),
    (r"See: plait entity list", "Look for its name with memory_search."),
    (r"Make it with: plait entity add .*", "Make it first: memory_store with entity."),
    (r"Add: --project .*", "Find its id with memory_search and all_projects=true."),
    (r"Store it there: --project .*", "Store it without supersedes."),
    (r"Start with: plait store TEXT", "Start with memory_store."),
    (r"(?:\. Give (?:some|a name))?, as in: (?:plait |--).*", "."),
    (r"[Rr]un: (plait .*)", r"Only the user can do that, by: \1"),
)
_ENDINGS = tuple((re.compile(rf"{ending}\Z", re.DOTALL), said) for ending, said in _ADVICE)


def for_models(sentence: str) -> str:
    """A sentence of the core with advice that a model can follow.

    >>> for_models("Nothing is named 'x'. Look for it with: plait search WORDS")
    "Nothing is named 'x'. Look for it with memory_search."
    """
    for ending, said in _ENDINGS:
        found = ending.search(sentence)
        if found is not None:
            return sentence[: found.start()] + found.expand(said)
    return sentence
