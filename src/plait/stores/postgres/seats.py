"""Seats that only so many may have at a time; each is free again once nobody has it.

Ctrl-C comes between any two steps, also between taking something and noting that it was taken. So
nothing here is counted up and down: a seat is taken as long as somebody has its object.
"""

import time
from threading import Lock, get_ident
from typing import Generic, TypeVar
from weakref import ref

# How soon it is noticed that somebody who had a seat, or was to be the next, is gone.
NOTICED_S = 0.1


class Seat:
    """A seat, until it is given back, or nobody has it any more."""

    __slots__ = ("__weakref__", "thread")

    def __init__(self) -> None:
        self.thread = get_ident()


Taken = TypeVar("Taken", bound=Seat)


class Seats(Generic[Taken]):
    """So many seats for the threads of a process."""

    def __init__(self, count: int, kind: type[Taken]) -> None:
        self._count = count
        self._kind = kind
        self._lock = Lock()
        self._taken: list[ref[Taken]] = []
        # Threads that wait, each for a lock of its own, and the first for the next seat.
        self._waiting: list[Lock] = []

    def take(self, until: float) -> Taken | None:
        """Return a seat, or ``None`` if there was none up to a moment of `time.monotonic`."""
        while True:
            turn = Lock()
            turn.acquire()
            with self._lock:
                self._taken = [seat for seat in self._taken if seat() is not None]
                if len(self._taken) < self._count:
                    seat = self._kind()
                    self._taken.append(ref(seat))
                    return seat
                self._waiting.append(turn)
            left = until - time.monotonic()
            turn.acquire(timeout=max(0.0, min(left, NOTICED_S)))
            with self._lock:
                self._waiting = [other for other in self._waiting if other is not turn]
            if left <= 0:
                return None

    def give_back(self, given: Taken) -> None:
        """Let others have a seat."""
        with self._lock:
            self._taken = [seat for seat in self._taken if seat() not in (None, given)]
            if self._waiting:
                self._waiting.pop(0).release()

    def has(self, thread: int) -> bool:
        """Tell whether a thread has a seat."""
        with self._lock:
            others = [seat() for seat in self._taken]
        return any(seat is not None and seat.thread == thread for seat in others)
