"""Count which passages were read; recorded after the answer and never while others write."""

from collections.abc import Sequence

from plait.errors import StoreError
from plait.protocols import Store
from plait.types import Ref

# Answers whose use is collected before it is written.
MAX_UNWRITTEN = 16


class UseCounter:
    """Collects reads; ``counts_listed`` also counts hits that a search only listed."""

    def __init__(self, store: Store | None, *, counts_listed: bool = False) -> None:
        self._store = store
        self._counts_listed = counts_listed
        self._answers: list[tuple[Ref, ...]] = []

    @property
    def unwritten(self) -> int:
        """How many answers wait."""
        return len(self._answers)

    def read(self, refs: Sequence[Ref]) -> None:
        """Count passages as read together."""
        if refs and self._store is not None:
            self._answers.append(tuple(refs))
            # For programs that never flush; the interfaces flush after each answer.
            self.flush(MAX_UNWRITTEN)

    def listed(self, refs: Sequence[Ref]) -> None:
        """Count listed passages as read, if the settings ask for it."""
        if self._counts_listed:
            self.read(refs)

    def flush(self, least: int = 1) -> None:
        """Write the collected reads, if that many answers wait; drop them if the memory is busy."""
        if self._store is None or len(self._answers) < least:
            return
        answers, self._answers = self._answers, []
        try:
            with self._store.transaction(patient=False) as transaction:
                transaction.touch(answers)
        except StoreError:
            return  # only a statistic
