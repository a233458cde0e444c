"""kill -9 while rules delete and archive: all of it is in the memory or in the trash."""

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from plait import Memory
from plait.errors import NotFound
from plait.times import DAY_MS
from plait.types import EVERYTHING, Document
from plait.types.ids import ARCHIVED_FIELD
from plait.writing.documents import now_ms
from plait.writing.retired import RETIRED
from tests.reliability import retention_child
from tests.reliability.processes import Child, children, posix_only
from tests.reliability.scale import SCALE

pytestmark = [posix_only, pytest.mark.slow, pytest.mark.unmeasured]

OLD = now_ms() - 400 * DAY_MS
# About how many seconds a run takes, without the turns that it gives others.
RUN_S = 0.3


def fill(memory: Memory, folder: Path) -> None:
    """Store what each rule takes, over several slices, and what none may take."""

    def old(key: str, **fields: Any) -> Document:
        times = {"created_at": OLD, "updated_at": OLD, "event_at": OLD, "indexed_at": OLD}
        return Document(**{"key": key, "text": f"text of {key}", **times, **fields})

    archived: dict[str, Any] = {
        "status": "archived",
        "metadata": {ARCHIVED_FIELD: "2025-01-01T00:00:00+00:00"},
    }
    memory.store_many(
        [
            *(old(f"note {n}") for n in range(60)),
            *(old(f"kept {n}", pinned=True) for n in range(5)),
            *(old(f"remark {n}", kind="observation") for n in range(30)),
            *(old(f"fact {n}", kind="observation", topic=f"topic {n}") for n in range(5)),
            *(old(f"gone {n}", kind="observation") for n in range(30)),
        ]
    )
    with memory.engine.transaction() as transaction:
        for row in memory.engine.scan(EVERYTHING):
            if (row.key or "").startswith("gone "):
                transaction.amend(row.id, **archived)
    memory.add_messages(
        [{"role": "user", "content": f"message {n}"} for n in range(40)], session="s"
    )
    folder.mkdir()
    for n in range(40):
        (folder / f"{n}.md").write_text(f"# File {n}\n\nAbout subject {n}.\n", encoding="utf-8")
    memory.ingest(folder)


def in_memory(memory: Memory) -> dict[str, Document]:
    return {row.id: row for row in memory.engine.scan(EVERYTHING)}


def problems(memory: Memory, folder: Path, before: dict[str, Document]) -> list[str]:
    """What a death has left behind that must not be."""
    there = in_memory(memory)
    trash = {row.document.id for row in memory.engine.trashed(texts=False)}
    lost = [row.doc_id for id_, row in before.items() if id_ not in there and id_ not in trash]
    taken = [
        row.doc_id
        for id_, row in before.items()
        if (row.pinned or row.topic is not None) and id_ not in there
    ]
    doubled = [row.path for row in memory.ingest(folder).reports if row.outcome == "added"]
    unmarked = [
        row.doc_id
        for row in there.values()
        if row.status == "archived" and ARCHIVED_FIELD not in row.metadata
    ]
    named = (("lost", lost), ("taken", taken), ("doubled", doubled), ("unmarked", unmarked))
    damage = [finding.message for finding in memory.doctor() if finding.level == "error"]
    return [f"{name}: {rows}" for name, rows in named if rows] + damage


class Killer:
    """Kills one run of rules after another on the same memory, and restores all in between."""

    def __init__(self, folder: Path, *, seed: int, plant: str = "") -> None:
        self._path, self._notes, self._plant = folder / "memory.db", folder / "notes", plant
        self._dice = random.Random(seed)
        with retention_child.opened(self._path) as memory:
            fill(memory, self._notes)
            self._before = in_memory(memory)
        # How many documents the deaths have left.
        self.left = set[int]()

    def kill(self) -> list[str]:
        """Return what is wrong after one death."""
        act = retention_child.live
        with children(Child(act, self._path, self._notes, self._plant)) as (child,):
            child.expect("ready")
            child.listen_until("begin", self._dice.randint(1, 2))
            child.listen(self._dice.uniform(0, RUN_S * self._dice.choice([1, 4])))
            child.kill()
        with retention_child.opened(self._path) as memory:
            self.left.add(len(in_memory(memory)))
            wrong = child.errors() + problems(memory, self._notes, self._before)
            with suppress(NotFound):
                while memory.undo():
                    pass
            with memory.engine.transaction() as transaction:
                # Or those of an earlier life would do.
                transaction.remember(**dict.fromkeys(memory.engine.remembered(RETIRED)))
            missing = self._before.keys() - in_memory(memory).keys()
        return [*wrong, *(f"not restored: {self._before[id_].doc_id}" for id_ in missing)]


def test_nothing_is_lost_whenever_a_run_is_killed(tmp_path: Path) -> None:
    killer = Killer(tmp_path, seed=5)
    for _ in range(SCALE.kills // 2):
        assert killer.kill() == []
    assert len(killer.left) > 4, "deaths came between slices"


def test_the_harness_catches_marks_that_are_written_later(tmp_path: Path) -> None:
    killer = Killer(tmp_path, seed=7, plant="marks later")
    for _ in range(100):
        if any(problem.startswith("doubled") for problem in killer.kill()):
            return
    pytest.fail("100 kills did not show the planted bug")
