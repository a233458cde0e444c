"""The steps of one message."""

from plait.protocols import Store
from plait.types import EVERYTHING
from plait.types.steps import Step, StepName


def stored_steps(store: Store, document: str) -> list[Step]:
    """Return what a message tells of, in order."""
    rows = store.steps(EVERYTHING, StepName(document=document))
    return [row.step for row in reversed(rows)]
