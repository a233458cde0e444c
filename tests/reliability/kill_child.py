"""The process that is killed: works on a memory and says before and after each operation."""

import json
import random
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from plait.exporting import jsonl
from plait.writing import backfill
from tests.reliability import memories, plants

ACK_FIRST = "ack first"  # the one planted bug that lies in the telling, not in the store

Effects = dict[str, str | None]


def live(pipe: Connection, path: Path, scenario: str, seed: int, plant: str) -> None:
    """Work on the memory until somebody kills this process."""
    # More transactions per reindex: more moments to die in.
    backfill.EMBED_BATCH = 8
    with plants.planted("" if plant == ACK_FIRST else plant):
        if scenario == "create":
            pipe.send(("ready",))
        worker = Worker(pipe, path, seed, lies=plant == ACK_FIRST)
        if scenario != "create":
            pipe.send(("ready",))
        act = {"create": worker.write, "write": worker.write}.get(scenario)
        act = act or {"ingest": worker.ingest, "reindex": worker.reindex}[scenario]
        while True:
            act()


class Worker:
    """One life. What it sends: ``begin`` with the effects to come, then ``ack``."""

    def __init__(self, pipe: Connection, path: Path, seed: int, *, lies: bool) -> None:
        self._pipe = pipe
        self._path = path
        self._dice = random.Random(seed)
        self._life = f"life{seed}x"
        self._lies = lies
        self._count = 0
        self._memory = memories.open_memory(path)
        space = memories.store_of(self._memory).state().space
        self._dims = memories.DIMS if space is None else space.dims
        if self._dims != memories.DIMS:
            self._memory.close()
            self._memory = memories.open_memory(path, self._dims)
        self._now = memories.contents(self._memory)

    def _do(self, effects: Effects, act: Callable[[], object], *, atomic: bool = True) -> None:
        self._pipe.send(("begin", effects, atomic))
        if self._lies:
            self._pipe.send(("ack",))
        act()
        if not self._lies:
            self._pipe.send(("ack",))
        for name, text in effects.items():
            if text is None:
                self._now.pop(name, None)
            else:
                self._now[name] = text

    def _text(self) -> str:
        self._count += 1
        return memories.prose(f"{self._life}n{self._count}", self._dice.randint(2, 14))

    def _some(self, most: int = 1, kinds: tuple[str, ...] = ("note:", "observation:")) -> list[str]:
        names = [name for name in self._now if name.startswith(kinds)]
        return self._dice.sample(names, min(most, len(names)))

    # -- notes and observations ------------------------------------------------------------

    def write(self) -> None:
        """One random operation of those that are one transaction each."""
        crowded = len(self._now) > 30
        removals = [self._forget, self._forget_several, self._purge]
        additions = [self._note, self._note, self._replace, self._observe, self._import]
        others = [self._undo, self._back_up]
        self._dice.choice(removals if crowded else [*removals, *additions, *others])()

    def _note(self) -> None:
        key, text = f"{self._life}k{self._count}", self._text()
        self._do({f"note:{key}": text}, lambda: self._memory.store(text, key=key))

    def _replace(self) -> None:
        names = self._some(kinds=("note:",))
        if not names:
            return
        old, key = self._now[names[0]], names[0].partition(":")[2]
        # Half of the old text stays, so that some passages are kept and others replaced.
        text = memories.token_of(self._text()) + " " + old[: len(old) // 2] + self._text()
        self._do({names[0]: text}, lambda: self._memory.store(text, key=key))

    def _observe(self) -> None:
        text = self._text()
        name = f"observation:{memories.token_of(text)}"
        self._do({name: text}, lambda: self._memory.store(text))

    def _forget(self) -> None:
        self._drop(self._some())

    def _forget_several(self) -> None:
        self._drop(self._some(3))

    def _purge(self) -> None:
        self._drop(self._some(2), purge=True)

    def _drop(self, names: list[str], *, purge: bool = False) -> None:
        if names:
            ids = {memories.name_of(row): row.id for row in memories.documents(self._memory)}
            gone: Effects = dict.fromkeys(names)
            self._do(gone, lambda: self._memory.delete(*[ids[n] for n in names], purge=purge))

    def _undo(self) -> None:
        names = self._some(2)
        back: Effects = {name: self._now[name] for name in names}
        self._drop(names)
        if back:
            self._do(back, self._memory.undo)

    def _import(self) -> None:
        """Three documents in one transaction, or none of them."""
        texts = {f"{self._life}i{self._count}-{number}": self._text() for number in range(3)}
        lines = [
            json.dumps({"key": key, "kind": "note", "text": text, "created_at": 1})
            for key, text in texts.items()
        ]
        self._do(
            {f"note:{key}": text for key, text in texts.items()},
            lambda: self._memory.import_lines([jsonl.header_line(), *lines]),
        )

    def _back_up(self) -> None:
        target = self._path.with_name("backup.db")
        if not target.exists():
            self._do({}, lambda: self._memory.backup(target))

    # -- files -----------------------------------------------------------------------------

    def ingest(self) -> None:
        """Change some files of a folder, then take them in."""
        folder = self._path.with_name("notes")
        folder.mkdir(exist_ok=True)
        for number in self._dice.sample(range(12), 4):
            file = folder / f"{number}.md"
            if self._dice.random() < 0.2:
                file.unlink(missing_ok=True)
                continue
            # A file must never be seen half-written: that would be the harness's own crash.
            draft = folder / "draft"
            draft.write_text(self._text(), encoding="utf-8")
            draft.replace(file)
        on_disk = {
            f"file:{file.name}": file.read_text(encoding="utf-8") for file in folder.glob("*.md")
        }
        effects: Effects = {
            name: text for name, text in on_disk.items() if self._now.get(name) != text
        }
        effects |= {name: None for name in self._now.keys() - on_disk if name.startswith("file:")}
        incremental = self._dice.random() < 0.5
        self._do(
            effects,
            lambda: self._memory.ingest(folder, incremental=incremental),
            # A run is one transaction per batch of files, then one per vanished file.
            atomic=False,
        )

    # -- indexes ---------------------------------------------------------------------------

    def reindex(self) -> None:
        """Rebuild the keyword index, remake all vectors, or move to another space."""
        choice = self._dice.randrange(4)
        if choice == 0:
            self._do({}, self._memory.reindex)
        elif choice == 1:
            self._do({}, lambda: self._memory.reindex(embeddings=True))
        elif choice == 2:
            self._note()
        else:
            self._do({}, self._switch)

    def _switch(self) -> None:
        self._memory.close()
        both = memories.DIMS + memories.OTHER_DIMS
        self._memory = memories.open_memory(self._path, both - self._dims)
        self._dims = both - self._dims
        self._memory.reindex()
