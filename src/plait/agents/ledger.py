"""What was imported, kept in the memory beside it: marks, message ids, and runs.

* A mark for each source: where its last reading ended.
* For each session the ids of its messages, hashed. They stay when a message is deleted, so that it
  does not return; a copy of a message in another session is known by them.
* For each session that two sources may have under other ids: by what each message is known in the
  other, hashed, with its id.
* A number that every import raises, by which two at the same time notice each other.

The rows are small texts under names that begin with ``history:``. They are written in the
transaction that writes the messages: after a crash they say what is there, no more and no less.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from plait.agents.histories import Bookmark, HistoryFile
from plait.facts.masking import masked
from plait.protocols import Store
from plait.types.ids import IMPORTED_SESSION
from plait.types.records import NamedTuple

_MARKS, _RUNS, _TWINS = "history:mark:", "history:run:", "history:twin:"
_NUMBER = "history:number"
# Of a run that was undone: its tokens.
_UNDONE = "undone"
# Of a message id: 72 bits, as 12 characters.
_TOKEN_BYTES = 9
TOKEN_CHARS = 12
# Of the number of imports; a row of somebody else may hold anything.
_MOST_DIGITS = 18
# Runs that a mark remembers, for undo.
MOST_RUNS = 50

Values = dict[str, str | None]


class Overtaken(Exception):
    """Another process imported something since this one looked."""


class Marked(NamedTuple):
    """The mark of a source, with the runs that moved it and the kinds of sessions it counts."""

    mark: Bookmark
    path: str
    runs: tuple[str, ...] = ()
    kinds: frozenset[str] = frozenset()


def token_of(agent: str, message: str) -> str:
    """Return the short hash by which a message is known."""
    name = f"{agent}\0{message}".encode("utf-8", "replace")
    return b64encode(blake2b(name, digest_size=_TOKEN_BYTES).digest()).decode("ascii")


def mark_name(source: HistoryFile) -> str:
    """Return the name under which the mark of a source is kept."""
    place = blake2b(source.path.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
    return f"{_MARKS}{source.agent}:{place}"


class Ledger:
    """Reads the rows of a memory; what is to be written is returned as values."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._number = self._read_number()
        self._marks = self._store.remembered(_MARKS)
        self._owners: dict[str, str] | None = None
        self._twins: dict[str, dict[str, str]] = {}

    def _read_number(self) -> str:
        return self._store.remembered(_NUMBER).get(_NUMBER, "0")

    def check(self) -> None:
        """Refuse to go on if another process imported meanwhile; call inside the transaction.

        Raises:
            Overtaken: It did.
        """
        if self._read_number() != self._number:
            raise Overtaken

    def reload(self) -> None:
        """Read all rows again."""
        self.__init__(self._store)  # type: ignore[misc]

    # -- marks

    def marked(self, source: HistoryFile) -> Marked | None:
        """Return the mark of a source; ``None`` if it was never read or its row is damaged."""
        text = self._marks.get(mark_name(source))
        try:
            values = json.loads(text) if text else {}
            runs, kinds = dict.fromkeys(values["runs"]), frozenset(values["kinds"])
            mark, path = values["mark"], values["path"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        return Marked(mark, path, tuple(runs), kinds) if isinstance(mark, dict) else None

    def mark_values(
        self, source: HistoryFile, mark: Bookmark, run: str, kinds: frozenset[str]
    ) -> Values:
        """Return the row for a new mark of a source."""
        before = self.marked(source)
        runs = dict.fromkeys([*(before.runs if before is not None else ()), run])
        value = {
            "path": masked(source.path)[0],
            "mark": mark,
            "runs": list(runs)[-MOST_RUNS:],
            "kinds": sorted(kinds),
        }
        return {mark_name(source): json.dumps(value)}

    # -- messages

    def owner(self, token: str) -> str | None:
        """Return the session in which a message was imported."""
        return self._all_owners().get(token)

    def _all_owners(self) -> dict[str, str]:
        if self._owners is None:
            self._owners = {}
            for name, tokens in self._store.remembered(IMPORTED_SESSION).items():
                session = name.removeprefix(IMPORTED_SESSION)
                self._owners.update(dict.fromkeys(_parts(tokens), session))
        return self._owners

    def message_values(self, new: Mapping[str, Sequence[str]]) -> Values:
        """Return the rows of sessions with these new messages."""
        values: Values = {}
        for session, tokens in new.items():
            name = f"{IMPORTED_SESSION}{session}"
            before = self._store.remembered(name).get(name, "")
            values[name] = before + "".join(tokens)
        return values

    def twins(self, session: str) -> Mapping[str, str]:
        """Return by what messages of a session are known in its other source, with their tokens."""
        if session not in self._twins:
            name = f"{_TWINS}{session}"
            parts = list(_parts(self._store.remembered(name).get(name, "")))
            self._twins[session] = dict(zip(parts[::2], parts[1::2], strict=False))
        return self._twins[session]

    def twin_values(self, new: Mapping[str, Mapping[str, str]]) -> Values:
        """Return the rows of sessions whose messages got these twins."""
        return {
            f"{_TWINS}{session}": "".join(
                twin + token for twin, token in {**self.twins(session), **twins}.items()
            )
            for session, twins in new.items()
            if not twins.items() <= self.twins(session).items()
        }

    def took_twins(self, new: Mapping[str, Mapping[str, str]]) -> None:
        """Note the twins that were written."""
        for session, twins in new.items():
            self._twins[session] = {**self.twins(session), **twins}

    def took(self, values: Values, new: Mapping[str, Sequence[str]]) -> None:
        """Note what was written, so that it need not be read again."""
        self._number = values.get(_NUMBER) or self._number
        for name, value in values.items():
            if name.startswith(_MARKS) and value is not None:
                self._marks[name] = value
        if self._owners is not None:
            for session, tokens in new.items():
                self._owners.update(dict.fromkeys(tokens, session))

    def next_number(self) -> Values:
        """Return the row by which others notice this import."""
        is_number = self._number.isdecimal() and len(self._number) <= _MOST_DIGITS
        return {_NUMBER: str(int(self._number) + 1 if is_number else 1)}

    # -- runs

    def run_values(self, run: str, **about: Any) -> Values:
        """Return the row of a run, for the list of those that can be undone.

        A run may go on after it was undone: what is known of that stays.
        """
        return {f"{_RUNS}{run}": json.dumps({**self.runs().get(run, {}), **about})}

    def runs(self) -> dict[str, dict[str, Any]]:
        """Return the runs that can be undone, the earliest first."""
        rows: dict[str, dict[str, Any]] = {}
        for name, text in self._store.remembered(_RUNS).items():
            try:
                about = json.loads(text)
            except (ValueError, RecursionError):
                continue
            if isinstance(about, dict) and isinstance(about.get("at"), int):
                rows[name.removeprefix(_RUNS)] = about
        return dict(sorted(rows.items(), key=lambda row: (row[1]["at"], row[0])))

    def undone(self, run: str) -> set[str]:
        """Return the tokens of messages that were undone with a run; empty if it was not undone."""
        tokens = self.runs().get(run, {}).get(_UNDONE)
        return set(_parts(tokens)) if isinstance(tokens, str) else set()

    def without_run(self, run: str, gone: Iterable[tuple[str, str]]) -> Values:
        """Return the rows as they are without a run: its sources are read anew.

        ``gone`` are its messages, each as session and token. They stay known as those of the run:
        if they are restored, it can be undone again.
        """
        gone = list(gone)
        before = self.undone(run)
        undone = sorted(before | {token for _, token in gone})
        values: Values = {
            **self.run_values(run, **{_UNDONE: "".join(undone)}),
            **self.next_number(),
        }
        for name, text in self._marks.items():
            try:
                runs = json.loads(text)["runs"]
            except (ValueError, KeyError, TypeError, RecursionError):
                runs = [run]
            # After an undo that was taken back, a later run may have made the mark.
            if before or run in runs:
                values[name] = None
        of_sessions: dict[str, set[str]] = {}
        for session, token in gone:
            of_sessions.setdefault(session, set()).add(token)
        for session, tokens in of_sessions.items():
            name = f"{IMPORTED_SESSION}{session}"
            row = self._store.remembered(name).get(name, "")
            # Without a token, too, it tells the session by a short name if they are restored.
            values[name] = "".join(part for part in _parts(row) if part not in tokens)
        return values


def _parts(tokens: str) -> Iterator[str]:
    return (tokens[at : at + TOKEN_CHARS] for at in range(0, len(tokens), TOKEN_CHARS))
