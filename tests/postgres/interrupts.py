"""Raise KeyboardInterrupt wherever Python looks for a signal: after each call, in chosen files.

Python runs a handler between two instructions: when a function begins, and after a call. There is
one point for each such place of the code that an act passes, whenever it comes by first.
"""

import dis
import sys
from collections.abc import Callable
from functools import cache
from types import CodeType, FrameType
from typing import Any

Point = tuple[CodeType, int]
_LOOKED_AT = ("CALL", "RESUME", "JUMP_BACKWARD", "SEND")


@cache
def places(code: CodeType) -> frozenset[int]:
    """The instructions before which Python has looked for a signal."""
    listed, looks = set[int](), False
    for instruction in dis.get_instructions(code):
        if looks:
            listed.add(instruction.offset)
        looks = instruction.opname.startswith(_LOOKED_AT)
    return frozenset(listed)


def shown(point: Point) -> str:
    """Tell where a point is."""
    code, offset = point
    lines = [line for start, end, line in code.co_lines() if start <= offset < end]
    name = code.co_filename.rpartition("/")[2]
    return f"{name}:{lines[0] if lines else '?'} {code.co_qualname}@{offset}"


class Watch:
    """Which files are watched, and what an act passes there."""

    def __init__(self, *folders: str) -> None:
        self._is_watched = cache(lambda name: any(folder in name for folder in folders))
        self._wanted: Point | None = None
        self._seen: dict[Point, None] = {}
        self._last = False
        self.came = False

    def points(self, act: Callable[[], object]) -> list[Point]:
        """All points of an act, in the order in which it comes by."""
        self._wanted, self._seen = None, {}
        self._traced(act)
        return [*self._seen]

    def interrupt(self, act: Callable[[], object], point: Point) -> bool:
        """Interrupt an act at a point; return whether the interruption came out of it."""
        self._wanted, self._seen, self.came = point, {}, False
        try:
            self._traced(act)
        except KeyboardInterrupt:
            return True
        return False

    def _traced(self, act: Callable[[], object]) -> None:
        sys.settrace(self._entered)
        try:
            act()
        finally:
            sys.settrace(None)

    def _entered(self, frame: FrameType, event: str, _: object) -> Any:
        code = frame.f_code
        name, caller = code.co_filename, frame.f_back
        if self._is_watched(name) or (
            # What enters and leaves the contexts of these files.
            name.endswith("contextlib.py")
            and caller is not None
            and self._is_watched(caller.f_code.co_filename)
        ):
            wanted = self._wanted
            if wanted is None or wanted[0] is code:
                frame.f_trace_opcodes, frame.f_trace_lines = True, False
                return self._inside
        return None

    def _inside(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "opcode" and frame.f_lasti in places(frame.f_code):
            point = frame.f_code, frame.f_lasti
            if self._wanted is None:
                self._seen[point] = None
            elif point == self._wanted:
                self.came = True
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._inside
