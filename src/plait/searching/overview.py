"""The overview: what to know when a session begins, one line each, in one fenced text.

What is pinned and `MEMORY.md`, preferences, decisions, what was last worked on, and open ends. No
query and no embedder decide what is in it: the same memory gives the same lines. Each part is read
by a few scans with a limit, and of texts only those of the newest documents.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from plait.errors import Notice, StoreDamaged, quotable
from plait.facts.credentials import document_secrets
from plait.facts.messages import is_person
from plait.protocols import Store
from plait.searching.conversations import conversation, short_sessions
from plait.searching.overview_lines import OverviewLine, below_heading, cut, flat, items_of, packed
from plait.searching.readable import load_readable, readable_passages, unreadable
from plait.searching.recall import Recalled
from plait.text import parse
from plait.times import show_day
from plait.types import KINDS, Document, Filter, Kind, Passage, Trust
from plait.types.queries import asks

# How many lines each section has at most; see `plait.facts.echo.SECTIONS` for their names.
MOST_LINES = {
    "pinned": 10,
    "preferences": 8,
    "decisions": 6,
    "facts": 6,
    "recent": 4,
    "open": 6,
}
LINE_CHARS = 200
# The first lines of the file that is always loaded; they stand on one line.
ALWAYS_LOADED = ("MEMORY.md", "Memory.md")
FIRST_CHARS = 600
LINE_BREAK = " / "

# Names that a type, a tag or a topic says it with.
PREFERENCE_NAMES = ("preference", "preferences")
DECISION_NAMES = ("decision", "decisions")
# Words that say it in a short text. The keyword index finds them in their forms: "prefer" also
# finds "preferred" and "preference".
PREFERENCE_WORDS = (
    *("prefer", "bevorzugt", "bevorzuge", "bevorzugen", "prefiere", "prefiero", "prefieren"),
    *("préfère", "préfèrent", "préférence", "preferisce", "preferisco", "prefere", "prefiro"),
    *("preferencia", "voorkeur", "предпочитает", "предпочитаю", "tercih", "偏好", "好み", "선호"),
)
DECISION_WORDS = (
    *("decided", "decision", "entschieden", "beschlossen", "Entscheidung", "decidimos"),
    *("decidió", "decidido", "decisión", "décidé", "décision", "deciso", "decisione", "decidiu"),
    *("decisão", "besloten", "решили", "решено", "karar", "決定", "决定", "결정"),
)
# How many documents with a name or a word are looked at, and up to how many passages are few.
MOST_NAMED = 16
FEW_WORDED = 40
# A longer text that says "prefer" somewhere is about something else.
LONGEST_STATEMENT = 400

FACT_KINDS: tuple[Kind, ...] = ("observation", "note")
TEXT_KINDS: tuple[Kind, ...] = ("observation", "note", "file")
OVERVIEW_TRUSTS: tuple[Trust, ...] = ("trusted", "untrusted")
TRUSTED: tuple[Trust, ...] = ("trusted",)

# Tasks are looked for in these files, in documents with the word TODO, and in the newest ones.
TASK_FILES = ("TODO.md", "todo.md", "TASKS.md", "tasks.md")
NEWEST = 30
WITH_TODO = 10
# Of one document, passages that are read for tasks, and tasks that are shown.
TASK_PASSAGES = 10
TASKS_EACH = 3
_TASK = re.compile(r"^[^\S\n]{0,40}(?:[-*+]|\d{1,4}[.)]) \[ \] +(\S[^\n]*)", re.M)
_DONE = re.compile(r"^[^\S\n]{0,40}(?:[-*+]|\d{1,4}[.)]) \[[xX]\] [^\n]*", re.M)
_TODO = re.compile(r"^[^\w\n]{0,40}TODO(?:\([^()\n]{0,40}\))?(?::| -) *(\S[^\n]*)", re.M)

# The last sessions are looked for among so many messages, then among as many before the first turn
# of a session that fills them, and so on.
NEWEST_MESSAGES = 12
MOST_STEPS = 3
LAST_SESSIONS = 3
# How many of the first turns of a session may precede a person's.
FIRST_TURNS = 6


class _Reader:
    """Reads documents of one filter; those that cannot be read are named in ``damaged``."""

    def __init__(self, store: Store, where: Filter) -> None:
        self.store = store
        shown = tuple(trust for trust in where.trusts if trust in OVERVIEW_TRUSTS)
        # Nothing is named so: a filter without trusts would select all of them.
        self.where = where._replace(trusts=shown) if shown else where._replace(keys=("",))
        self.damaged: list[str] = []
        self.troubles: dict[str, Notice] = {}

    def scan(self, limit: int, **fields: Any) -> list[Document]:
        """Return the newest documents that also have one of the values of each field."""
        narrowed: dict[str, Any] = {}
        for name, values in fields.items():
            given = getattr(self.where, name)
            if name == "tags":
                narrowed[name] = (*given, *values)
                continue
            # Of the caller's words in a text, one must be there too; there is room for one list.
            if given and name == "mentions":
                return []
            narrowed[name] = [value for value in values if not given or value in given]
            if not narrowed[name]:
                return []
        narrowed = {name: tuple(values) for name, values in narrowed.items()}
        try:
            where = self.where._replace(**narrowed)
            return self.store.scan(where, limit=limit, damaged=self.damaged)
        except StoreDamaged as error:
            # A field that the filter tests cannot be read: other lines are shown all the same.
            self.troubles[error.notice.text] = error.notice
            return []

    def with_words(self, words: Sequence[str], most: int) -> list[Document] | None:
        """Return the documents with one of these words.

        ``None`` if so many passages have one, or if one of them cannot be read.
        """
        kinds = tuple(kind for kind in TEXT_KINDS if kind in (self.where.kinds or TEXT_KINDS))
        if not kinds:
            return []
        where = self.where._replace(kinds=kinds)
        try:
            refs = [ref for ref, _ in self.store.keyword(parse(" ".join(words)), most, where)]
            rows = self.store.hydrate(refs) if len(refs) < most else None
        except StoreDamaged as error:
            self.troubles[error.notice.text] = error.notice
            return None
        return None if rows is None else [row.document for row in rows.values()]

    def pinned(self, limit: int) -> list[Document]:
        """Return pinned documents that are trusted: they are in every prompt."""
        if self.where.pinned is False or "trusted" not in self.where.trusts:
            return []
        kinds = self.where.kinds or TEXT_KINDS
        where = self.where._replace(pinned=True, trusts=TRUSTED, kinds=kinds)
        return self.store.scan(where, limit=limit, damaged=self.damaged)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What could not be read."""
        damaged = map(unreadable, dict.fromkeys(self.damaged))
        return (*damaged, *self.troubles.values())

    def passages(self, document: Document, count: int = 1) -> list[Passage]:
        """Return the first passages of a document."""
        return readable_passages(self.store, document.id, 0, count - 1, self.damaged)


def overview(store: Store, where: Filter, budget: int, home: str | None) -> Recalled:
    """Return the overview of the documents that a filter selects, within a token budget.

    Args:
        store: The memory.
        where: Which documents count. Quarantined ones never do.
        budget: Maximum number of tokens of the text, fence included.
        home: The current project; lines out of another one name it.
    """
    reader = _Reader(store, where)
    newest = reader.scan(NEWEST, kinds=TEXT_KINDS)
    sessions = _sessions(reader)
    tagged = _tagged(reader)
    decisions = _stated(reader, tagged, DECISION_NAMES, DECISION_WORDS, OVERVIEW_TRUSTS)
    latest = next(decisions, None)
    sections: dict[str, Iterable[OverviewLine]] = {
        "pinned": _pinned(reader),
        "preferences": _stated(reader, tagged, PREFERENCE_NAMES, PREFERENCE_WORDS, TRUSTED),
        "decisions": () if latest is None else chain([latest], decisions),
        "facts": _facts(reader) if latest is None else (),
        "recent": _recent(reader, newest, sessions),
        "open": _open_ends(reader, newest, sessions),
    }
    items = items_of(store, _once(sections), home)
    return packed(items, budget, reader.notices)


# -- sections ------------------------------------------------------------------------------


def _pinned(reader: _Reader) -> Iterator[OverviewLine]:
    """Yield the files that are always loaded, then what is pinned, newest first."""
    for document in reader.scan(len(ALWAYS_LOADED) * 2, keys=ALWAYS_LOADED, trusts=TRUSTED):
        passages = reader.passages(document)
        for passage in passages:
            lines = map(flat, _shown_of(passage).splitlines())
            yield OverviewLine(
                document,
                passage,
                cut(LINE_BREAK.join(filter(None, lines)), FIRST_CHARS),
                passage.start_line,
            )
    for document in reader.pinned(2 * MOST_LINES["pinned"]):
        yield from _beginning(reader, document)


def _tagged(reader: _Reader) -> list[Document]:
    """Return documents with a tag that is one of the names, or below it."""
    names = (*PREFERENCE_NAMES, *DECISION_NAMES)
    # Tags are in the keyword index. If it has few passages with these words, all of them are read;
    # testing the tags of every document takes longer.
    worded = reader.with_words(names, FEW_WORDED)
    if worded is not None:
        return [row for row in worded if _has_tag(row, names)]
    lists = [reader.scan(MOST_NAMED, tags=(name,), kinds=TEXT_KINDS) for name in names]
    return [row for rows in lists for row in rows]


def _has_tag(document: Document, names: Sequence[str]) -> bool:
    """Tell whether a document has one of these tags, or one below it.

    >>> _has_tag(Document(tags=("Decision/api",)), ["decision"])
    True
    """
    return any(tag.lower().partition("/")[0] in names for tag in document.tags)


def _stated(
    reader: _Reader,
    tagged: Sequence[Document],
    names: tuple[str, ...],
    words: tuple[str, ...],
    trusts: tuple[Trust, ...],
) -> Iterator[OverviewLine]:
    """Yield documents with one of the names, and short texts with one of the words, newest first.

    ``tagged`` are documents with these or other names as their tags.
    """
    types = (*names, *(name.capitalize() for name in names))
    rows = reader.scan(MOST_NAMED, types=types, kinds=TEXT_KINDS, trusts=trusts)
    rows += reader.scan(MOST_NAMED, topics=names, kinds=FACT_KINDS, trusts=trusts)
    rows += [row for row in tagged if row.trust in trusts and _has_tag(row, names)]
    named = {row.id for row in rows}
    rows += reader.scan(MOST_NAMED, mentions=words, kinds=FACT_KINDS, trusts=trusts)
    for row in _newest_first(rows):
        for line in _beginning(reader, row):
            if row.id in named or _is_statement(row, line.passage):
                yield line


def _facts(reader: _Reader) -> Iterator[OverviewLine]:
    """Yield the newest facts."""
    for row in reader.scan(2 * MOST_LINES["facts"], kinds=("observation",)):
        yield from _beginning(reader, row)


def _is_statement(document: Document, passage: Passage) -> bool:
    """Tell whether a text is short enough to say only this, and is no question."""
    text = passage.text.strip()
    is_short = document.chunk_count == 1 and len(text) <= LONGEST_STATEMENT
    return is_short and not asks(text)


def _recent(
    reader: _Reader, newest: Sequence[Document], sessions: Sequence[Sequence[Document]]
) -> Iterator[OverviewLine]:
    """Yield what the last sessions were about, then the notes and files that changed last."""
    names = short_sessions(last for _, last in sessions)
    for first, last in sessions:
        day = show_day(last.event_at)
        remark = f"session {quotable(names[last.session or ''])}"
        if day != show_day(first.event_at):
            remark += f", last turn {day}"
        for line in _beginning(reader, first):
            yield line._replace(remark=remark)
    for document in newest:
        if document.kind != "observation":
            yield from _beginning(reader, document)


def _open_ends(
    reader: _Reader, newest: Sequence[Document], sessions: Sequence[Sequence[Document]]
) -> Iterator[OverviewLine]:
    """Yield questions at the end of a session, then tasks that are not done."""
    names = short_sessions(last for _, last in sessions)
    for _, last in sessions:
        if is_person(last.role):
            for line in _beginning(reader, last):
                if asks(line.passage.text):
                    name = quotable(names[last.session or ""])
                    yield line._replace(remark=f"session {name}, no answer")
    files = reader.scan(len(TASK_FILES), keys=(*TASK_FILES, *ALWAYS_LOADED), kinds=TEXT_KINDS)
    marked = reader.scan(WITH_TODO, mentions=("TODO",), kinds=TEXT_KINDS)
    documents = {row.id: row for row in (*files, *newest, *marked)}
    small = [id_ for id_, row in documents.items() if row.chunk_count <= TASK_PASSAGES]
    texts = {row.id: row.text for row in load_readable(reader.store, small, reader.damaged)}
    for id_, document in documents.items():
        text = texts.get(id_)
        if text is None or _TASK.search(text) or _TODO.search(text):
            yield from _tasks(reader, document)


def _tasks(reader: _Reader, document: Document) -> Iterator[OverviewLine]:
    """Yield the first tasks of a document that are not ticked."""
    tasks: dict[str, OverviewLine] = {}
    for passage in reader.passages(document, TASK_PASSAGES):
        matches = [match for pattern in (_TASK, _TODO) for match in pattern.finditer(passage.text)]
        for match in sorted(matches, key=re.Match.start):
            number = passage.start_line + passage.text.count("\n", 0, match.start(1))
            text = cut(flat(match[1]), LINE_CHARS)
            if text and len(tasks) < TASKS_EACH:
                # Passages overlap.
                tasks.setdefault(text, OverviewLine(document, passage, text, number, "not done"))
    yield from tasks.values()


def _sessions(reader: _Reader) -> list[tuple[Document, Document]]:
    """Return the first turn of a person and the last turn of each of the last sessions."""
    if not reader.store.state().has_messages or "message" not in (reader.where.kinds or KINDS):
        return []
    sessions: dict[tuple[str | None, str], tuple[Document, Document] | None] = {}
    cursor: tuple[int, str] | None = None
    for _ in range(MOST_STEPS):
        where = reader.where._replace(kinds=("message",))
        messages = reader.store.scan(
            where, limit=NEWEST_MESSAGES, before=cursor, damaged=reader.damaged
        )
        for message in messages:
            name = (message.project, message.session or "")
            if name[1] and name not in sessions and len(sessions) < LAST_SESSIONS:
                sessions[name], first = _ends(reader, where, message)
                cursor = min(cursor or first, first)
        if len(messages) < NEWEST_MESSAGES or len(sessions) == LAST_SESSIONS:
            break
    return [ends for ends in sessions.values() if ends is not None]


def _ends(
    reader: _Reader, where: Filter, message: Document
) -> tuple[tuple[Document, Document] | None, tuple[int, str]]:
    """Return a person's first turn in the session of a message and its last turn, if it has both.

    Also returns the time of the first of all turns, as a cursor.
    """
    where = where._replace(projects=(message.project,), session=message.session)
    turns = reader.store.scan(where, by_turn=True, limit=FIRST_TURNS, damaged=reader.damaged)
    persons = [row for row in turns if is_person(row.role)]
    whole = load_readable(reader.store, [row.id for row in persons], reader.damaged)
    shown = [row for row in whole if not document_secrets(row)]
    last = conversation(reader.store, where, 1, reader.damaged)
    first = min((row.event_at or 0, row.id) for row in (*turns, message))
    return (shown[0], last[0]) if shown and last else None, first


# -- lines ---------------------------------------------------------------------------------


def _newest_first(rows: Iterable[Document]) -> list[Document]:
    known = {row.id: row for row in rows}
    return sorted(known.values(), key=lambda row: (row.event_at or 0, row.id), reverse=True)


def _beginning(reader: _Reader, document: Document) -> Iterator[OverviewLine]:
    """Yield the summary of a document, else its first words; nothing if it cannot be read."""
    for passage in reader.passages(document):
        text = cut(flat(document.summary or _shown_of(passage)), LINE_CHARS)
        yield OverviewLine(document, passage, text, passage.start_line)


def _shown_of(passage: Passage) -> str:
    """Return the text of a passage without its tasks, below the headings that its line names."""
    return below_heading(_without_tasks(passage.text), passage.heading)


def _without_tasks(text: str) -> str:
    """Return a text without its tasks: those that are not done are open ends."""
    for pattern in (_TASK, _DONE, _TODO):
        text = pattern.sub("", text)
    return text


def _once(sections: dict[str, Iterable[OverviewLine]]) -> list[tuple[str, OverviewLine]]:
    """Return the lines to show, no document twice but for its tasks, and no text twice."""
    shown: dict[str, str] = {}
    texts: set[str] = set()
    chosen = []
    for section, lines in sections.items():
        count = 0
        for line in lines:
            if count == MOST_LINES[section]:
                break
            id_ = line.document.id
            is_known = line.text in shown.get(id_, "") if section == "open" else id_ in shown
            if not line.text or is_known or line.text in texts:
                continue
            if document_secrets(line.document._replace(text=line.passage.text)):
                continue
            shown[id_] = f"{shown.get(id_, '')}\n{line.text}"
            texts.add(line.text)
            chosen.append((section, line))
            count += 1
    return chosen
