"""What the keyword index gets of a passage and of its names. Loaded by writers only."""

from plait.text import parts
from plait.text.unspaced import split


def split_terms(text: str) -> str | None:
    """Return what is indexed of a name: its words, split, and the parts of names of code.

    ``None``: the keyword engine reads the text as it is.
    """
    listed = parts(text)
    return " ".join([split(text) or text, *listed]) if listed else split(text)


def split_columns(heading: str, text: str) -> tuple[str | None, str | None]:
    """Return what is indexed of a passage's heading and text, each ``None`` if as it is.

    The parts of names of code in the text go with the heading: beside the text they would need a
    second copy of it.
    """
    listed = parts(text)
    if heading:  # most messages have none
        listed = list(dict.fromkeys([*parts(heading), *listed]))
    return " ".join([split(heading) or heading, *listed]) if listed else split(heading), split(text)
