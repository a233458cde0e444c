"""Cursor: the editor's database ``state.vscdb``, and transcripts of its command line.

In the database, a session ("composer") lists its messages ("bubbles"), each under a key of its own.
Transcripts have no ids and no times. Both may have the same session, and either may lose it: its
messages are known in the other by their words (`Twins`).
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from plait.agents.histories import Bookmark, HistoryFile, Places, Reading, Session, SessionKind
from plait.agents.histories.acts import act_of
from plait.agents.histories.collecting import FULL, Utterances
from plait.agents.histories.cursor_transcripts import TRANSCRIPTS, read_transcript, with_twins
from plait.agents.histories.files import (
    below,
    data_folders,
    database_state,
    history_file,
    is_unchanged,
    matching,
    oldest_first,
    opened_history,
    workspace_folder,
)
from plait.agents.histories.values import (
    Fields,
    decoded,
    folder,
    hashed,
    identifier,
    moment_of,
    number,
    record_of,
    records_of,
    string,
)
from plait.stores.sqlite.others import LiveDatabase

_AGENT = "cursor"
_DATABASE = "state.vscdb"
_TABLE = "cursorDiskKV"
_USER, _ASSISTANT = 1, 2
# Sessions that are looked at together; the editor may have thousands.
_PAGE = 50


def find(places: Places) -> Iterator[HistoryFile]:
    """Yield databases, which tell times, then transcripts; those used longest ago first.

    If a database cannot be read now, transcripts wait for it: what it has too, it tells better. The
    import names the database, and the next one asks it again.
    """
    if places.files:
        yield from oldest_first(row for file in places.files for row in _source(Path(file)))
        return
    databases = [
        row
        for top in data_folders(places, "Cursor")
        for row in history_file(_AGENT, top / "globalStorage" / _DATABASE)
    ]
    yield from oldest_first(databases)
    if all(_is_readable(row.path) for row in databases):
        yield from oldest_first(row for path in _transcripts(places) for row in _source(path))


def _source(path: Path) -> list[HistoryFile]:
    if path.suffix != ".jsonl":
        return history_file(_AGENT, path)
    kind: SessionKind = "subagent" if "subagents" in path.parts else "main"
    return history_file(_AGENT, path, path.stem, kind)


def _transcripts(places: Places) -> Iterator[Path]:
    home = Path(places.environ.get("CURSOR_CONFIG_DIR") or Path(places.home, ".cursor"))
    for top in matching(home / "projects", f"*/{TRANSCRIPTS}"):
        yield from below(top, (".jsonl",), closed=True)


def _is_readable(database: str) -> bool:
    try:
        with opened_history(database) as opened:
            opened.select(_TABLE, ["key"], "LIMIT 1")
    except OSError:
        return False
    return True


def read(source: HistoryFile, mark: Bookmark | None) -> Iterator[Reading]:
    """Yield the sessions that changed since a mark."""
    if source.path.endswith(".jsonl"):
        yield from read_transcript(source, mark)
        return
    state = database_state(source.path)
    if is_unchanged(mark, state):
        return
    before = record_of((mark or {}).get("composers"))
    composers: dict[str, str] = {}
    sessions: list[Session] = []
    skipped: Counter[str] = Counter()
    with opened_history(source.path) as database:
        folders: dict[str, str] | None = None
        for name, composer in _composers(database, skipped):
            headers = records_of(composer.get("fullConversationHeadersOnly"))
            old = records_of(composer.get("conversation"))
            composers[name] = hashed(composer.get("lastUpdatedAt"), len(headers), len(old))
            if before.get(name) == composers[name]:
                continue
            if folders is None:
                folders = _folders(Path(source.path))
            bubbles = _bubbles(database, name, headers, skipped) if headers else old
            sessions += _session(name, composer, bubbles, folders.get(name, ""), skipped)
            if sum(len(session.utterances) for session in sessions) >= FULL:
                known = {**before, **composers}
                yield Reading(tuple(sessions), {"composers": known}, +skipped)
                sessions, skipped = [], Counter()
    yield Reading(tuple(sessions), {"files": state, "composers": composers}, +skipped)


def _composers(database: LiveDatabase, skipped: Counter[str]) -> Iterator[tuple[str, Fields]]:
    """Yield the sessions of a database with their ids, by key."""
    last = "composerData:"
    rest = f"WHERE key > ? AND key < 'composerData;' ORDER BY key LIMIT {_PAGE}"
    while rows := database.select(_TABLE, ["key", "value"], rest, [last]):
        for row in rows:
            value = decoded(row["value"])
            name = identifier(row, "key").partition(":")[2]
            if isinstance(value, dict) and name:
                yield name, value
            else:
                skipped["broken record"] += row["value"] is not None
        if str(rows[-1]["key"]) <= last:
            return  # a key that is not UTF-8 was repaired, and cannot be found again
        last = str(rows[-1]["key"])


def _bubbles(
    database: LiveDatabase, composer: str, headers: list[Fields], skipped: Counter[str]
) -> list[Fields]:
    """Return the messages of a session, in the order of its list."""
    rest = "WHERE key >= ? AND key < ?"
    ends = [f"bubbleId:{composer}:", f"bubbleId:{composer};"]
    values: dict[str, Fields] = {}
    for row in database.select(_TABLE, ["key", "value"], rest, ends):
        value = decoded(row["value"])
        skipped["broken record"] += row["value"] is not None and not isinstance(value, dict)
        values[str(row["key"]).rpartition(":")[2]] = record_of(value)
    ids = [identifier(header, "bubbleId") for header in headers]
    return [{**values[id_], "bubbleId": id_} for id_ in ids if id_ in values]


def _folders(database: Path) -> dict[str, str]:
    """Return the folders of sessions, by id, as the workspaces tell; newer sessions tell it."""
    folders: dict[str, str] = {}
    for path in sorted((database.parent.parent / "workspaceStorage").glob(f"*/{_DATABASE}")):
        place = workspace_folder(path.parent)
        if not place or not os.path.isfile(path):  # noqa: PTH113
            continue
        try:
            with opened_history(str(path)) as opened:
                rest = "WHERE key = 'composer.composerData'"
                rows = opened.select("ItemTable", ["value"], rest)
        except OSError:
            continue
        for row in rows:
            for composer in records_of(record_of(decoded(row["value"])).get("allComposers")):
                folders[identifier(composer, "composerId")] = place
    return folders


def _session(
    name: str,
    composer: Fields,
    bubbles: list[Fields],
    place: str,
    skipped: Counter[str],
) -> tuple[Session, ...]:
    rows = Utterances()
    begun = moment_of(composer.get("createdAt")) or moment_of(composer.get("lastUpdatedAt"))
    for number_, bubble in enumerate(bubbles):
        id_ = identifier(bubble, "bubbleId") or f"{name}:{number_}"
        timing = record_of(bubble.get("timingInfo"))
        at = moment_of(bubble.get("createdAt")) or moment_of(timing.get("clientStartTime")) or begun
        text = string(bubble, "text").strip()
        if bubble.get("type") == _USER and text:
            rows.say(id_, "user", text, at, typed=True)
        elif bubble.get("type") == _ASSISTANT:
            skipped["thinking"] += bool(bubble.get("thinking"))
            if text:
                rows.say(id_, "assistant", text, at)
            _add_call(rows, record_of(bubble.get("toolFormerData")), id_, at, skipped)
    utterances = with_twins(rows.take())
    if not utterances:
        return ()
    address = record_of(record_of(composer.get("workspaceIdentifier")).get("uri"))
    cwd = folder(address, "fsPath") or folder(address, "path") or place
    return (Session(_AGENT, name, utterances, cwd or None),)


def _add_call(
    rows: Utterances, call: Fields, id_: str, at: int | None, skipped: Counter[str]
) -> None:
    if not string(call, "name"):
        return
    given = record_of(decoded(call.get("rawArgs"))) or record_of(decoded(call.get("params")))
    rows.call(act_of(string(call, "name"), given), id_, id_, at)
    result = record_of(decoded(call.get("result")))
    skipped["tool result"] += bool(result)
    code = number(result, "exitCode")
    if call.get("status") in ("completed", "error"):
        told = (string(result, "error"), string(call.get("error"), "message"))
        error = next(filter(None, told), string(result, "output"))
        rows.end(id_, error, failed=call["status"] == "error", exit=code)
