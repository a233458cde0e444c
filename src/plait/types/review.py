"""What a review proposes: kinds of findings, and the one act that would settle each."""

from typing import Literal

from plait.types import Document
from plait.types.records import NamedTuple

ReviewKind = Literal[
    "secret", "contradiction", "outdated", "duplicate", "orphan", "oversized", "unread", "stale"
]
# In the order of a review: what may do harm first.
REVIEW_KINDS: tuple[ReviewKind, ...] = (
    *("secret", "contradiction", "outdated", "duplicate", "orphan", "oversized", "unread"),
    "stale",
)
# End the first document in favour of the second; archive, delete or purge it; move facts to others.
ReviewAction = Literal["supersede", "archive", "delete", "purge", "split"]


class ReviewItem(NamedTuple):
    """One finding of a review; nothing is done about it until somebody says so.

    ``ids`` are the documents that it is about, the one to change first. ``excerpts`` are their
    first words, or the names of what holds a secret; ``project`` is that of the first. ``groups``
    has, for a split, the new entities and the ids of their facts.
    """

    kind: ReviewKind
    ids: tuple[str, ...]
    why: str
    action: ReviewAction
    excerpts: tuple[str, ...] = ()
    project: str | None = None
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Review(NamedTuple):
    """The findings, the worst first, and how many there are of each kind in all."""

    items: tuple[ReviewItem, ...] = ()
    counts: tuple[tuple[ReviewKind, int], ...] = ()

    @property
    def total(self) -> int:
        """How many findings there are."""
        return sum(number for _, number in self.counts)


class MarkedDocuments(NamedTuple):
    """What `mark` changed, and what takes it back: the documents as they were and as it left them.

    ``created`` are the ids of entities that were made for it, ``changed_at`` the time of the last
    change of a fact before and after it.
    """

    ids: tuple[str, ...] = ()
    before: tuple[Document, ...] = ()
    created: tuple[str, ...] = ()
    changed_at: tuple[int | None, int | None] = (None, None)
    after: tuple[Document, ...] = ()
