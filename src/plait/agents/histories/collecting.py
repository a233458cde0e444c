"""The utterances of one session while they are read: texts in order, calls with how they ended."""

from collections.abc import Iterator

from plait.agents.histories import Act, Role, Session, Utterance
from plait.agents.histories.acts import ended
from plait.agents.histories.lines import FAR_BYTES
from plait.agents.histories.stripping import opens_with_block, without_own
from plait.text import clean

# A batch ends with the first turn after so many utterances.
FULL = 500


class Utterances:
    """What was said so far. Calls belong to the answer before them, or make one without words."""

    def __init__(self) -> None:
        self._rows: list[Utterance] = []
        # The texts and the calls of each utterance; an answer may have thousands.
        self._texts: list[list[str]] = []
        self._acts: list[list[Act]] = []
        self._turns: list[int] = []
        # Places of calls that have not ended: of the utterance, and of the call in it.
        self._calls: dict[str, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def is_full(self) -> bool:
        """Whether it is time for a batch."""
        return len(self._rows) >= FULL

    def take(self) -> tuple[Utterance, ...]:
        """Return all utterances, one for each id, and begin anew."""
        whole = map(with_parts, self._rows, self._texts, self._acts)
        rows = {row.id: row for row in whole if row.text or row.acts}
        self._rows, self._texts, self._acts, self._turns, self._calls = [], [], [], [], {}
        return tuple(rows.values())

    def say(
        self, id: str, role: Role, text: str, at: int | None = None, *, typed: bool = False
    ) -> None:
        """Add an utterance; what plait injected into its text is taken out."""
        text = without_own(text).strip()
        if role == "user":
            self._turns.append(len(self._rows))
            typed = typed and not opens_with_block(text)
        self._rows.append(Utterance(id, role, "", at, typed))
        self._texts.append([text])
        self._acts.append([])

    def call(self, act: Act, call_id: str, id: str, at: int | None = None) -> None:
        """Add a call of a tool; ``id`` and time are for an answer that has no words."""
        if not self._rows or self._rows[-1].role == "user":
            self.say(id, "assistant", "", at)
        act = act._replace(
            tool=clean(act.tool),
            line=clean(act.line),
            path=act.path and clean(act.path),
            command=act.command and clean(act.command),
            also=tuple(map(clean, act.also)),
        )
        self._calls[call_id] = len(self._rows) - 1, len(self._acts[-1])
        self._acts[-1].append(act)

    def end(self, call_id: str, result: str, *, failed: bool, exit: int | None = None) -> bool:
        """Add to a call how it ended; false if there is no such call."""
        place = self._calls.pop(call_id, None)
        if place is None:
            return False
        acts = self._acts[place[0]]
        acts[place[1]] = ended(acts[place[1]], result, failed=failed, exit=exit)
        return True

    def undo_turns(self, count: int) -> int:
        """Remove the last turns, as the user did; return how many utterances."""
        if count <= 0 or not self._turns:
            return 0
        return self._cut(self._turns[-min(count, len(self._turns))])

    def undo_to(self, start: int) -> int:
        """Remove all but the first utterances; return how many."""
        return self._cut(start) if 0 <= start < len(self._rows) else 0

    def continue_with(self, text: str) -> None:
        """Add more words to the last utterance."""
        self._texts[-1].append(without_own(text).strip())

    def _cut(self, start: int) -> int:
        gone = len(self._rows) - start
        del self._rows[start:], self._texts[start:], self._acts[start:]
        self._turns = [turn for turn in self._turns if turn < start]
        self._calls = {name: call for name, call in self._calls.items() if call[0] < start}
        return gone


def with_parts(row: Utterance, texts: list[str], acts: list[Act]) -> Utterance:
    """Return an utterance with what was collected of it; joined once, however many parts it has."""
    return row._replace(text="\n\n".join(filter(None, texts)), acts=tuple(acts))


def portions(session: Session) -> Iterator[Session]:
    """Yield a session that was read as a whole in parts, each small enough for a batch."""
    rows: list[Utterance] = []
    size = 0
    for row in session.utterances:
        if len(rows) >= FULL or size >= FAR_BYTES:
            yield session._replace(utterances=tuple(rows))
            rows, size = [], 0
        rows.append(row)
        size += len(row.text)
    yield session._replace(utterances=tuple(rows))
