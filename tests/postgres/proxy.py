"""A way to the server that cuts, delays and halves what goes over it, at chosen bytes."""

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread
from time import sleep
from typing import Literal, NamedTuple

Way = Literal["up", "down"]
_CHUNK = 65_536
_RESET = struct.pack("ii", 1, 0)  # closing it tells the other end at once, and sends nothing more


class Cut(NamedTuple):
    """Cut a connection when some bytes pass: before them, or in the middle of them."""

    way: Way
    needle: bytes
    where: Literal["before", "half", "after"] = "before"

    def place(self, data: bytes) -> int | None:
        """How many bytes still pass; ``None`` if all do."""
        start = data.find(self.needle)
        if start < 0:
            return None
        return {"before": 0, "half": start + len(self.needle) // 2, "after": len(data)}[self.where]


class Proxy:
    """Listens on a port of this machine, and passes everything on to a socket."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._lock = Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self.cuts: list[Cut] = []
        self.on_cut: Callable[[], None] = lambda: None
        # Returns how many bytes of a connection pass before it is cut; ``None`` is no limit.
        self.limit: Callable[[], int | None] = lambda: None
        self.delay_s = 0.0
        self.in_halves = False
        self.refusing = False
        self.count = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres?sslmode=disable"

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            upstream = socket.socket(socket.AF_UNIX)
            try:
                if self.refusing:
                    raise ConnectionRefusedError
                upstream.connect(self._target)
            except OSError:
                _close(client)
                upstream.close()
                continue
            with self._lock:
                self._pairs.append((client, upstream))
                self.count += 1
            budget = _Budget(self.limit())
            for way, source, target in (("up", client, upstream), ("down", upstream, client)):
                arguments = (way, source, target, budget)
                Thread(target=self._pump, args=arguments, daemon=True).start()

    def _pump(
        self, way: Way, source: socket.socket, target: socket.socket, budget: "_Budget"
    ) -> None:
        try:
            while data := source.recv(_CHUNK):
                passing = self._passing(way, data, budget)
                if self.delay_s:
                    sleep(self.delay_s)
                pieces = [data[:passing]]
                if self.in_halves:
                    pieces = [data[: passing // 2], data[passing // 2 : passing]]
                for piece in pieces:
                    target.sendall(piece)
                if passing < len(data) or budget.spent:
                    break
        except OSError:
            pass
        if budget.cut_by not in (None, way):
            return
        client, upstream = (source, target) if way == "up" else (target, source)
        _close(upstream)
        if budget.cut_by is not None:
            self.on_cut()  # before the client knows
        _close(client)

    def _passing(self, way: Way, data: bytes, budget: "_Budget") -> int:
        with self._lock:
            for cut in self.cuts:
                place = cut.place(data) if cut.way == way else None
                if place is not None:
                    self.cuts.remove(cut)
                    budget.spent, budget.cut_by = True, way
                    return place
            return budget.take(len(data))

    def cut(self) -> None:
        """Cut every connection now."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                _close(end)

    def close(self) -> None:
        self._listening.close()
        self.cut()


class _Budget:
    """The bytes that a connection may still pass, in both directions together."""

    def __init__(self, limit: int | None) -> None:
        self.left = limit
        self.spent = False
        self.cut_by: Way | None = None

    def take(self, count: int) -> int:
        if self.left is None:
            return count
        passing = min(count, self.left)
        self.left -= passing
        self.spent = self.spent or passing < count
        return passing


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        if end.family == socket.AF_INET:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        # Wakes the thread that is waiting for this end.
        end.shutdown(socket.SHUT_RDWR)
    end.close()
