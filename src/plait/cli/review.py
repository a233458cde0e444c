"""review: look through the memory, and settle what it finds with one key each."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from functools import partial
from select import select

from plait.cli import NOTHING_FOUND, Output, as_integer, as_list, to_run, write_out
from plait.cli.delete import files_on_disk, files_remain
from plait.cli.search import ALL_PROJECTS
from plait.cli.shared import open_existing, warn_if_empty
from plait.errors import PlaitError
from plait.memory import Memory
from plait.memory.review import review
from plait.present.review import commands_of, item_lines, review_dict
from plait.present.text import counted
from plait.types.ids import SHORT_ID
from plait.types.records import NamedTuple
from plait.types.review import REVIEW_KINDS, MarkedDocuments, Review, ReviewItem

KEYS = "[y] do it  [n] leave it  [d] delete  [a] archive  [u] undo  [q] quit  "
LAST_KEYS = "[u] undo the last one  [q] quit  "
# Another key than the first one: who holds that down has not answered.
SURE = "this cannot be undone. [p] purge it  [n] leave it  "
# The last one is Ctrl-D that was pressed before keys were read alone.
END_OF_INPUT = ("", "\x03", "\x04", "\0")
ESCAPE = b"\x1b"
# Seconds within which the characters of one key come, also over a slow line.
TOGETHER_S = 0.05


def review_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait review``."""
    parser.add_argument(
        "--kind",
        dest="kinds",
        action="extend",
        type=as_list,
        choices=REVIEW_KINDS,
        metavar="X,Y",
        default=[],
        help=f"only these findings: {', '.join(REVIEW_KINDS)}",
    )
    parser.add_argument(
        "--limit", type=as_integer, default=50, metavar="N", help="maximum number of findings (50)"
    )
    parser.add_argument(
        "--list", action="store_true", help="only list them, also in a terminal; ask nothing"
    )
    parser.add_argument("--all-projects", action="store_true", help=ALL_PROJECTS)


def review_run(arguments: Namespace, out: Output) -> int:
    """List what a person may want to settle; in a terminal, ask about each."""
    with open_existing(out) as memory:
        results = review(
            memory,
            arguments.kinds,
            limit=arguments.limit,
            all_projects=arguments.all_projects,
        )
        asks = out.form == "text" and sys.stdin is not None and sys.stdin.isatty()
        if results.items and asks and not arguments.list:
            Settling(memory, out, read_key).run(results)
            return 0
        is_missing = not memory.is_there and not memory.is_off
    home = out.config.project
    lines = [line for item in results.items for line in _lines(item, home)]
    out.result(review_dict(results, lambda item: _commands(item, home)), "\n".join(lines))
    if not results.items:
        if is_missing:
            warn_if_empty(memory, out)
        elif not memory.is_off:
            out.warn("nothing to settle")
        return 0 if memory.is_off else NOTHING_FOUND
    if len(results.items) < results.total:
        out.warn(f"{results.total - len(results.items):,} more; see --limit and --kind")
    return 0


def _lines(item: ReviewItem, home: str | None) -> list[str]:
    return item_lines(item, _commands(item, home))


def _commands(item: ReviewItem, home: str | None) -> tuple[str, ...]:
    """Return the commands that settle a finding, in the project that its document belongs to."""
    elsewhere = {} if item.project in (None, home) else {"project": item.project}
    return tuple(to_run(command, **elsewhere) for command in commands_of(item))


def _ids(items: Sequence[ReviewItem]) -> list[str]:
    """Return the documents that findings are about."""
    ids = (
        id_
        for item in items
        for part in (item.ids, *(ids for _, ids in item.groups))
        for id_ in part
    )
    return [*dict.fromkeys(ids)]


class _Done(NamedTuple):
    """What was done about a finding, and how each part of it is taken back, if it can be."""

    place: int
    id: str
    text: str
    undo: Callable[[], object]


class Settling:
    """Asks about each finding, does what the key says, and can take it back."""

    def __init__(self, memory: Memory, out: Output, key: Callable[[], str]) -> None:
        self._memory = memory
        self._out = out
        self._key = key
        self._done: list[_Done] = []
        self._purged = 0
        self._texts: dict[str, str] = {}

    def run(self, results: Review) -> None:
        """Go through the findings until the last one, or until a person has enough."""
        self._texts = self._read(_ids(results.items))
        place: int | None = 0
        while place is not None:
            is_last = place == len(results.items)
            place = self._look_back() if is_last else self._settle(results, place)
        made = len(self._done) + self._purged
        self._say(f"\n{counted(made, 'change')} made.")
        if made:
            self._out.suggest("plait log --limit 20", "see what was changed")

    def _settle(self, results: Review, place: int) -> int | None:
        """Ask about a finding until there is an answer; return the next one to ask about."""
        item = results.items[place]
        if any(done.id in item.ids for done in self._done):
            return place + 1
        lines = _lines(item, self._memory.config.project)
        self._say("\n".join([f"\n{place + 1} of {results.total:,}", *lines]))
        while True:
            key = self._ask(KEYS)
            if key in ("q", *END_OF_INPUT):
                return None
            if key == "n" or (key in ("y", "d", "a") and self._does(place, item, key)):
                return place + 1
            if key == "u" and (back := self._undo()) is not None:
                return back

    def _look_back(self) -> int | None:
        """Let the last act be taken back, too; return the finding that it was about."""
        while self._done:
            key = self._ask(LAST_KEYS)
            if key in ("q", *END_OF_INPUT):
                break
            if key == "u" and (back := self._undo()) is not None:
                return back
        return None

    def _does(self, place: int, item: ReviewItem, key: str) -> bool:
        """Do what a key says; tell whether it was done."""
        action = {"y": item.action, "d": "delete", "a": "archive"}[key]
        ids = _ids([item])
        if self._read(ids) != {id_: self._texts[id_] for id_ in ids if id_ in self._texts}:
            self._out.warn("this has changed since it was reviewed, and is left as it is")
            self._out.suggest("plait review", "look again")
            return False
        try:
            done = self._purge(item) if action == "purge" else self._act(place, item, action)
        except PlaitError as error:
            self._out.error(error.notice)
            return False
        if done is not None:
            self._say(done)
        return done is not None

    def _purge(self, item: ReviewItem) -> str | None:
        if self._ask(SURE) != "p":
            return None
        self._delete(item.ids[0], purge=True)
        self._purged += 1
        return f"Purged {item.ids[0][:SHORT_ID]}."

    def _act(self, place: int, item: ReviewItem, action: str) -> str:
        first, memory = item.ids[0], self._memory
        shown = first[:SHORT_ID]
        undo: Callable[[], object]
        match action:
            case "delete":
                self._delete(first)
                text, undo = f"Deleted {shown}.", partial(memory.undo, first, all_projects=True)
            case "archive":
                marked = memory.mark(first, status="archived", all_projects=True)
                text, undo = f"Archived {shown}.", partial(memory.unmark, marked)
            case "supersede":
                marked = memory.mark(first, superseded_by=item.ids[1], all_projects=True)
                text = f"Ended {shown} in favour of {item.ids[1][:SHORT_ID]}."
                undo = partial(memory.unmark, marked)
            case _:
                text, undo = self._split(item)
        self._done.append(_Done(place, first, text, undo))
        return text

    def _delete(self, id_: str, *, purge: bool = False) -> None:
        files = files_on_disk(self._memory, [id_])
        self._memory.delete(id_, purge=purge, all_projects=True)
        if files:
            self._out.warn(files_remain(files))

    def _split(self, item: ReviewItem) -> tuple[str, Callable[[], object]]:
        """Move all groups of facts, or none of them."""
        moved: list[MarkedDocuments] = []

        def undo() -> None:
            while moved:
                self._memory.unmark(moved[-1])
                moved.pop()

        try:
            for name, ids in item.groups:
                moved.append(self._memory.mark(*ids, entity=name, all_projects=True))
        except PlaitError:
            undo()
            raise
        told = [f"Moved {counted(len(ids), 'fact')} to {name}." for name, ids in item.groups]
        return " ".join(told), undo

    def _read(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the texts of documents; of an entity its name, as its text follows its facts."""
        rows = self._memory.engine.load(ids)
        return {row.id: row.title or "" if row.kind == "entity" else row.text for row in rows}

    def _undo(self) -> int | None:
        """Take the last act back; return the finding that it was about."""
        if not self._done:
            self._say("A purge cannot be undone." if self._purged else "Nothing to undo.")
            return None
        last = self._done.pop()
        try:
            last.undo()
        except PlaitError as error:
            self._out.error(error.notice)
            return None
        self._say(f"Took back: {last.text}")
        return last.place

    def _ask(self, question: str) -> str:
        """Return the key that answers a question."""
        self._say(question, end="")
        key = self._key().lower()
        self._say("")
        return key

    def _say(self, text: str, end: str = "\n") -> None:
        write_out(text + end)
        self._out.flush()


def read_key() -> str:
    """Return the next key that is pressed; where keys cannot be read alone, the next line's first.

    Empty at the end of the input. An arrow sends letters, too: none of them counts.
    """
    try:
        import termios
        import tty
    except ImportError:  # Windows
        return sys.stdin.readline()[:1]
    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)
    try:
        tty.setcbreak(handle, termios.TCSADRAIN)  # keys that were pressed early count, too
        # Past the stream's own buffer, which would swallow the keys behind this one.
        key = os.read(handle, 1)
        if key == ESCAPE:
            _skip_sequence(handle)
        return key.decode("ascii", "replace")
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)


def _skip_sequence(handle: int) -> None:
    """Read the rest of what one key sends: ``[`` up to a letter, ``O`` and one, or one."""
    following = _read_soon(handle)
    if following == b"O":
        _read_soon(handle)
    elif following == b"[":
        while (part := _read_soon(handle)) and not b"@" <= part <= b"~":
            pass


def _read_soon(handle: int) -> bytes:
    """Return the next character, if it comes together with the one before."""
    ready, _, _ = select([handle], [], [], TOGETHER_S)
    return os.read(handle, 1) if ready else b""
