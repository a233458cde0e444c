"""What is shown beside hits, read in few trips: passages around them, steps, what follows them."""

from collections.abc import Callable, Sequence
from functools import partial

from plait.protocols import Following
from plait.stores.postgres import around, documents, steps
from plait.stores.postgres.connection import Connections
from plait.stores.postgres.filters import Conditions
from plait.stores.postgres.looked_up import LookedUp
from plait.stores.postgres.trips import RowLists
from plait.types import Document, Filter, Passage
from plait.types.steps import Step

Span = tuple[str, int, int]


class Beside(LookedUp):
    """The reads of one question that are about its hits."""

    def __init__(self, connections: Connections, where: Callable[..., Conditions]) -> None:
        super().__init__(connections, where)
        self._spans: dict[Span, list[Passage]] = {}
        self._steps: dict[str, list[Step]] = {}

    def spans(self, wanted: Sequence[Span]) -> list[list[Passage]]:
        """Return `Store.passages` of several documents: each an id, a first and a last ordinal."""
        if not self._spans.keys() >= set(wanted):
            self.expect_spans(wanted)
            self._together()
        return [self._spans[span] for span in wanted]

    def expect_spans(self, wanted: Sequence[Span]) -> None:
        """Read with the next trip what `spans` of these asks for."""
        missing = [span for span in dict.fromkeys(wanted) if span not in self._spans]
        if missing:
            self._soon([documents.spanning(missing)], partial(self._take_spans, missing))

    def _take_spans(self, missing: Sequence[Span], answers: RowLists) -> None:
        self._spans |= zip(missing, documents.as_spans(answers[0], len(missing)), strict=True)

    def _take_around(self, window: int, answers: RowLists) -> None:
        self._spans |= documents.as_surroundings(answers[0], window)

    def _take_steps(self, answers: RowLists) -> None:
        self._steps |= steps.as_steps(answers[0])

    def expect_pinned(self, where: Filter, most: int) -> None:
        """Read with the next trip what `pinned` returns: so many documents of a filter."""
        asking = around.beginnings(most, self._where(where))
        self._soon(
            [asking], lambda answers: self._known.update(pinned=around.as_beginnings(answers[0]))
        )

    def beside(
        self,
        spans: Sequence[Span],
        messages: Sequence[str],
        imported: Sequence[str],
        where: Filter,
        replacing: Sequence[str],
        most: tuple[int, int],
    ) -> None:
        """Read all that a recall shows beside its hits: `spans`, and what follows here."""
        missing = [span for span in dict.fromkeys(spans) if span not in self._spans]
        following, back = most
        statements = [documents.spanning(missing)] if missing else []
        if messages or imported:
            statements.append(around.stepping(imported, messages, following))
            # Of the very session and project of each.
            chosen = self._where(where._replace(session=None, projects=None))
            statements.append(around.following(messages, following, chosen))
        if replacing:
            statements.append(around.earlier(replacing, back))
        answers = iter(self._together(*statements) if statements else [])
        if missing:
            self._spans |= zip(
                missing, documents.as_spans(next(answers), len(missing)), strict=True
            )
        told = steps.as_steps(next(answers)) if messages or imported else {}
        read = around.as_following(next(answers)) if messages else {}
        self._known["following"] = read
        for id_ in {*imported, *(row.id for rows in read.values() for row, _, _ in rows)}:
            self._steps[id_] = told.get(id_, [])
        self._known["earlier"] = dict(next(answers)) if replacing else {}

    def steps(self, ids: Sequence[str]) -> dict[str, list[Step]]:
        """Return the steps of documents, in order."""
        missing = [id_ for id_ in ids if id_ not in self._steps]
        if missing:
            told = steps.as_steps(self.rows(*steps.of_documents(missing)))
            self._steps |= {id_: told.get(id_, []) for id_ in missing}
        return {id_: self._steps[id_] for id_ in ids}

    def following(self, message: str) -> list[Following]:
        """Return the messages after one."""
        following: dict[str, list[Following]] = self._known["following"]
        return following.get(message, [])

    def followed(self, messages: Sequence[str], where: Filter) -> dict[str, int]:
        """Return the times of what comes after messages in their sessions, and passes a filter."""
        return dict(self.rows(*around.followed(messages, self._where(where))))

    def pinned(self) -> list[tuple[Document, Passage | None]]:
        """Return the pinned documents of a filter, newest first, each as it begins."""
        if "pinned" not in self._known:
            self._together()
        listed: list[tuple[Document, Passage | None]] = self._known["pinned"]
        return listed

    def earlier(self) -> dict[str, int]:
        """Return how many documents came before each that replaced one."""
        counts: dict[str, int] = self._known["earlier"]
        return counts
