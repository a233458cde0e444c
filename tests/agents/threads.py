"""Made-up Codex histories with known truth: threads that grow, are forked, cut off and archived."""

import random
import shutil
from pathlib import Path

from tests.agents.test_codex import at, call, meta, rollout, turn


class Threads:
    """The files of Codex, and every message that was ever said in them.

    A message is known by all words before it: if a fork goes on with the very words with which its
    parent went on, they are one message.
    """

    def __init__(self, home: Path, seed: int) -> None:
        self._home = home
        self.chance = random.Random(seed)
        self._clock = 0
        self._threads: dict[str, list[dict[str, object]]] = {}
        self._archived: set[str] = set()
        self._talks: dict[str, tuple[str, ...]] = {}
        self.messages: dict[tuple[str, ...], str] = {}

    def step(self) -> None:
        """Let something happen to one of the threads."""
        steps = [self.speak] * 5 + [self.fork, self.truncate, self.archive, self.rewrite]
        self.chance.choice(steps)()

    def heal(self) -> None:
        """Write all files whole, as Codex has them."""
        for thread in self._threads:
            self._write(thread)

    def speak(self) -> None:
        """Add a turn; people repeat their words, and so do models."""
        thread = self._thread()
        question = self.chance.choice(["yes", "go on", f"question {self._tick()}"])
        answer, line = self.chance.choice(["Done.", f"answer {self._tick()}"]), ""
        rows = turn(question, answer, self._tick(3))
        if answer != "Done.":
            name = f"file{self._tick()}.py"
            rows.append(call(name, "read", self._clock, path=name))
            line = f"\nread: {name}"
        self._threads[thread] += rows
        for words, whole in ((question, question), (answer, answer + line)):
            self._talks[thread] += (words,)
            self.messages[self._talks[thread]] = whole
        self._write(thread)

    def fork(self) -> None:
        """Repeat the lines of a thread in a new file, with new times and a line about itself."""
        parent = self._thread()
        if len(self._threads[parent]) < 2:
            return
        self._write(parent)
        name = self._new()
        second = self._tick()
        own = meta(name, second, forked_from_id=parent)
        copies = [{**row, "timestamp": at(second)} for row in self._threads[parent]]
        # A copy keeps the order of its original, not its times.
        copies = [
            {**row, "timestamp": at(second).replace("000Z", f"{place:03d}Z")}
            for place, row in enumerate(copies)
        ]
        self._threads[name] = [own, *copies]
        self._talks[name] = self._talks[parent]
        self._write(name)

    def truncate(self) -> None:
        """Cut a file off in the middle of a line."""
        path = self._path(self._thread())
        if path.exists():
            data = path.read_bytes()
            path.write_bytes(data[: self.chance.randrange(len(data) + 1)])

    def rewrite(self) -> None:
        """Write a file anew with other bytes."""
        thread = self._thread()
        for row in self._threads[thread]:
            row["ordinal"] = self._clock
        self._write(thread)

    def archive(self) -> None:
        """Move a file to the archive."""
        thread = self._thread()
        before = self._path(thread)
        if thread not in self._archived and before.exists():
            self._archived.add(thread)
            self._path(thread).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(before, self._path(thread))

    def _tick(self, seconds: int = 1) -> int:
        self._clock += seconds
        return self._clock - seconds

    def _new(self) -> str:
        return f"{len(self._threads):08d}-1111-4111-8111-111111111111"

    def _thread(self) -> str:
        if not self._threads or self.chance.random() < 0.15:
            name = self._new()
            self._threads[name] = [meta(name, self._tick())]
            self._talks[name] = (name,)
        return self.chance.choice(sorted(self._threads))

    def _path(self, thread: str) -> Path:
        folder = "archived_sessions" if thread in self._archived else "sessions"
        top = self._home / ".codex" / folder / "2026" / "11" / "02"
        return top / f"rollout-2026-11-02T08-00-00-{thread}.jsonl"

    def _write(self, thread: str) -> None:
        folder = "archived_sessions" if thread in self._archived else "sessions"
        rollout(self._home, *self._threads[thread], thread=thread, folder=folder)
