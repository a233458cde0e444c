"""Exports of chat services: a zip, a JSON file or a folder with a list of conversations.

Conversations are read one at a time, because the list may have hundreds of megabytes. Nothing is
unpacked: members of a zip are only read, and one that would become absurdly large is refused.
"""

import json
import os
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any

from plait.agents.histories import Bookmark, HistoryFile, Places, Reading, Session
from plait.agents.histories.collecting import FULL
from plait.agents.histories.files import (
    below,
    history_file,
    is_unchanged,
    oldest_first,
    state_of,
)
from plait.agents.histories.values import Fields, number

# How the names of lists begin.
_LISTS = "conversations"
_BLOCK = 1024 * 1024
# Characters of one conversation.
_LONGEST_CONVERSATION = 128 * 1024 * 1024
# Text shrinks to a tenth; what shrinks more, and is large, was made to fill a disk.
_MOST_SHRUNK, _SURELY_SMALL = 100, 64 * 1024 * 1024
# RuntimeError: a member that is encrypted, or packed in a way that zipfile does not know.
_UNREADABLE = (OSError, ValueError, RuntimeError, EOFError, zlib.error)
_BREAKS = (*_UNREADABLE, zipfile.BadZipFile, zipfile.LargeZipFile)

Conversion = Callable[[Fields, Counter[str]], tuple[Session, ...]]


def exported_files(agent: str, places: Places) -> Iterator[HistoryFile]:
    """Yield the exports that the user named; in a folder, the lists of conversations."""
    sources: list[HistoryFile] = []
    for file in places.files:
        path = Path(file)
        members = [path]
        if os.path.isdir(path):  # noqa: PTH112 - raises for no folder
            rows = below(path, (".json",), closed=True)
            # One without that ending is a folder that cannot be looked into.
            members = sorted(
                row for row in rows if row.name.startswith(_LISTS) or row.suffix != ".json"
            )
        for member in members:
            sources += history_file(agent, member)
    yield from oldest_first(sources)


def read_export(
    source: HistoryFile, mark: Bookmark | None, convert: Conversion
) -> Iterator[Reading]:
    """Yield the conversations of an export, if it changed since a mark."""
    state = state_of(source.path)
    if is_unchanged(mark, state):
        return
    is_partly = mark is not None and mark.get("partly") == state
    done = (number(mark, "done") or 0) if is_partly else 0
    sessions: list[Session] = []
    skipped: Counter[str] = Counter()
    place = 0
    for place, record in enumerate(_conversations(source.path, skipped), 1):
        if place <= done:
            continue
        if isinstance(record, dict):
            sessions += convert(record, skipped)
        else:
            skipped["broken record"] += 1
        if sum(len(session.utterances) for session in sessions) >= FULL:
            yield Reading(tuple(sessions), {"partly": state, "done": place}, +skipped)
            sessions, skipped = [], Counter()
    yield Reading(tuple(sessions), {"files": state}, +skipped)


def _conversations(path: str, skipped: Counter[str]) -> Iterator[Any]:
    """Yield the conversations of all lists of an export."""
    if not zipfile.is_zipfile(path):
        with Path(path).open("rb") as file:
            yield from _rows(file, skipped)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            for member in sorted(archive.infolist(), key=lambda info: info.filename):
                if not _is_list(member):
                    continue
                if _is_bomb(member):
                    skipped["too large"] += 1
                    continue
                with archive.open(member) as file:
                    yield from _rows(file, skipped)
    except _BREAKS:
        skipped["broken archive"] += 1


def _is_list(member: zipfile.ZipInfo) -> bool:
    name = PurePosixPath(member.filename.replace("\\", "/"))
    is_file = not member.is_dir() and not stat.S_ISLNK(member.external_attr >> 16)
    is_named = name.name.startswith(_LISTS) and name.suffix == ".json"
    return is_file and is_named and "__MACOSX" not in name.parts


def _is_bomb(member: zipfile.ZipInfo) -> bool:
    return member.file_size > max(_SURELY_SMALL, _MOST_SHRUNK * member.compress_size)


def _rows(file: IO[bytes], skipped: Counter[str]) -> Iterator[Any]:
    """Yield the elements of a JSON list, or the one element that is there instead of a list.

    What cannot be read ends the list: nothing tells where the next element begins.
    """
    import codecs

    decoder, scanner = codecs.getincrementaldecoder("utf-8-sig")("replace"), json.JSONDecoder()
    text, place, is_list, more = "", 0, None, True
    wanted = _BLOCK
    while True:
        if more and len(text) - place < wanted:
            block = file.read(wanted)
            more = bool(block)
            text, place = text[place:] + decoder.decode(block, not more), 0
        place = _after(text, place, " \t\r\n," if is_list else " \t\r\n")
        if is_list is None and place < len(text):
            is_list = text[place] == "["
            place += is_list
            continue
        if place >= len(text) and more:
            continue
        if place >= len(text) or (is_list and text[place] == "]"):
            skipped["broken file"] += place >= len(text) and is_list is not False
            return
        value, end = None, -1
        with suppress(ValueError, RecursionError):
            value, end = scanner.raw_decode(text, place)
        if end >= 0 and not (more and end == len(text)):
            place, wanted = end, _BLOCK
            yield value
            if not is_list:
                return
        elif more and wanted < _LONGEST_CONVERSATION:
            wanted *= 2
        else:
            skipped["broken file"] += 1
            return


def _after(text: str, place: int, blank: str) -> int:
    while place < len(text) and text[place] in blank:
        place += 1
    return place
