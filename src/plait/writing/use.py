"""Count which passages were read; recorded after the answer and never while others write."""

from collections.abc import Callable, Collection, Sequence

from plait.errors import StoreError
from plait.protocols import Store
from plait.types import Ref

# Returns those passages of some whose use one user may count.
Own = Callable[[Collection[Ref]], set[Ref]]
# Answers whose use is collected before it is written: one `get` in so many pays for that.
MAX_UNWRITTEN = 32


class UseCounter:
    """Collects reads."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._answers: list[tuple[tuple[Ref, ...], Own | None]] = []

    @property
    def unwritten(self) -> int:
        """How many answers wait."""
        return len(self._answers)

    def read(self, refs: Sequence[Ref], own: Own | None = None) -> None:
        """Count passages as read together; with ``own`` only those that it returns."""
        if refs and self._store is not None:
            self._answers.append((tuple(refs), own))
            # For programs that never flush; the interfaces flush after each answer.
            self.flush(MAX_UNWRITTEN)

    def flush(self, least: int = 1) -> None:
        """Write the collected reads, if that many answers wait; drop them if the memory is busy."""
        if self._store is None or len(self._answers) < least:
            return
        answers, self._answers = self._answers, []
        try:
            with self._store.transaction(patient=False) as transaction:
                transaction.touch([answer for answer in map(_owned, answers) if answer])
        except StoreError:
            return  # only a statistic


class ConfinedUse(UseCounter):
    """Counts what one user reads, together with what others do: none of it waits for him."""

    def __init__(self, all_users: UseCounter, own: Own) -> None:
        super().__init__(None)
        self._all_users = all_users
        self._own = own

    @property
    def unwritten(self) -> int:
        """How many answers wait, of all users."""
        return self._all_users.unwritten

    def read(self, refs: Sequence[Ref], own: Own | None = None) -> None:
        """Count passages of this user as read together."""
        self._all_users.read(refs, own or self._own)

    def flush(self, least: int = 1) -> None:
        """Write the collected reads of all users."""
        self._all_users.flush(least)


def _owned(answer: tuple[tuple[Ref, ...], Own | None]) -> tuple[Ref, ...]:
    refs, own = answer
    kept = set(refs) if own is None else own(refs)
    return tuple(ref for ref in refs if ref in kept)
