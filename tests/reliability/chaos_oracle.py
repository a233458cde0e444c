"""What must be in a memory after chaos, by the ledgers of its workers and of its keeper.

The memory is replaced meanwhile. What it holds is the backup, plus what was acknowledged after it
was restored. An act that overlaps such a moment, or was killed, may count or not.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

# How the names of files begin.
FILE = "file "
# All texts that a name may have; nothing is `None`.
Allowed = dict[str, set[str | None]]
Line = dict[str, Any]


class Window(NamedTuple):
    """Between which moments something happened."""

    start: float
    end: float


END = Window(math.inf, math.inf)


class Act(NamedTuple):
    """What a worker did, and whether it was acknowledged."""

    window: Window
    outcome: dict[str, str | None]
    acknowledged: bool
    more: Line


class Restore(NamedTuple):
    """A memory was replaced by a backup."""

    backup: Window
    window: Window


def acts_of(lines: Sequence[Line]) -> list[Act]:
    """Return the acts in a worker's ledger that may have had an effect."""
    acts = []
    for line, answer in zip(lines, [*lines[1:], {"at": math.inf}], strict=True):
        if "begun" in line and "refused" not in answer:
            window = Window(line["at"], answer["at"])
            acts.append(Act(window, line["begun"], "done" in answer, line))
    return acts


def restores_of(lines: Iterable[Line], state: str) -> list[Restore]:
    """Return the restores in the keeper's ledger that happened; ``state`` is the memory's mark."""
    backups: dict[str, Window] = {}
    restores: list[Restore] = []
    begun: Line | None = None
    saving = 0.0
    for line in [*lines, {"state": state, "at": math.inf}]:
        if "saving" in line:
            saving = line["at"]
        elif "saved" in line:
            backups[line["saved"]] = Window(saving, line["at"])
        elif "restoring" in line:
            begun = line
        elif begun is not None:
            mark = begun["restoring"]
            if mark in (line.get("restored"), line.get("state")):
                restores.append(Restore(backups[mark], Window(begun["at"], line["at"])))
            begun = None
    return restores


class Oracle:
    """What one worker's ledger says."""

    def __init__(self, acts: Sequence[Act], restores: Sequence[Restore]) -> None:
        self._acts, self._restores = acts, restores
        self._ever: Allowed = {}
        self._undone: set[str] = set()
        self.purged: set[str] = set()
        self.allowed = self._possible(END)
        self.acknowledged = sum(act.acknowledged for act in acts)

    def _possible(self, moment: Window) -> Allowed:
        """Return what every name may have been at a moment."""
        latest = [restore for restore in self._restores if restore.window.end <= moment.start]
        if moment == END:
            latest = list(self._restores)
        allowed: Allowed = {}
        since = Window(-math.inf, -math.inf)
        self._undone = set()
        if latest:
            # subtle: with what undo had brought back by then, which a backup keeps.
            allowed, since = self._possible(latest[-1].backup), latest[-1].window
        self.purged = set()
        before: Allowed = {}
        self._ever = {}
        for act in self._acts:
            if act.window.start >= moment.end:
                break
            for name, text in act.outcome.items():
                self._ever.setdefault(name, {None}).add(text)
            if act.window.end > since.start:
                sure = act.window.start >= since.end and act.window.end <= moment.start
                self._apply(act, allowed, before, sure=sure and act.acknowledged)
            elif act.more.get("watched"):
                # Whoever watches reads files again whenever it likes.
                for name, text in act.outcome.items():
                    allowed.setdefault(name, {None}).add(text)
        return allowed

    def _apply(self, act: Act, allowed: Allowed, before: Allowed, *, sure: bool) -> None:
        for name in act.more.get("purged", ()) if sure else ():
            self.purged |= {text for text in self._ever.get(name, ()) if text is not None}
        for name, text in act.outcome.items():
            known = allowed.get(name, {None})
            before[name] = known
            # A file that is not there stays as undo brought it back, until it is there again.
            stays = text is None and name in self._undone
            allowed[name] = {text} if sure and not stays else known | {text}
            if sure and not stays:
                self._undone.discard(name)
        if "back" in act.more:
            self._bring_back(act, allowed, before, sure=sure)
        if "any" in act.more:
            name = act.more["any"]
            allowed[name] = self._ever.get(name, {None}) | {None}

    def _bring_back(self, act: Act, allowed: Allowed, before: Allowed, *, sure: bool) -> None:
        """Undo a delete; if the memory was replaced in between, another delete was the latest."""
        span = Window(act.more["since"], act.window.end)
        if any(overlap(span, restore.window) for restore in self._restores):
            for name, texts in self._ever.items():
                allowed[name] = texts | {None}
            self._undone |= {name for name in self._ever if name.startswith(FILE)}
            return
        name = act.more["back"]
        known = before.get(name, self._ever.get(name, set())) - {None}
        allowed[name] = known if sure else known | allowed.get(name, {None})


def overlap(one: Window, other: Window) -> bool:
    """Tell whether two windows have a moment in common."""
    return one.start < other.end and other.start < one.end
