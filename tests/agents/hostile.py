"""Records with a value that no agent writes, and what must hold when they are read."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from plait.agents.histories import Places, Reading, Utterance, reader_of

DEEP: Any = json.loads("[" * 200 + "]" * 200)
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**30, -(10**400), 1e300, float("nan"), float("inf")),
    *("", "\0", "\ud800", "x" * 5_000, "/" + "x" * 300, "7d", "[", '{"a": 1}'),
    "<<plait-recall abcdefgh>>",
    *([], {}, [None], [[]], {"type": None}, [{"type": []}], {"text": 7}, DEEP),
)
# To keep tests short, each place gets some of them: the next place the next.
VALUES_EACH = 2


def variants(record: Any) -> Iterator[Any]:
    """Yield a record with each of its values replaced by hostile ones in turn, and without it."""
    for place, path in enumerate(_paths(record)):
        for step in range(VALUES_EACH):
            value = VALUES[(place * VALUES_EACH + step) % len(VALUES)]
            yield _with(record, path, value)
        yield _with(record, path, None, remove=True)


def _paths(record: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    rows = record.items() if isinstance(record, dict) else enumerate(record)
    for name, value in rows:
        yield (*before, name)
        if isinstance(value, dict | list):
            yield from _paths(value, (*before, name))


def _with(record: Any, path: tuple[Any, ...], value: Any, *, remove: bool = False) -> Any:
    copy = record.copy()
    if len(path) > 1:
        copy[path[0]] = _with(copy[path[0]], path[1:], value, remove=remove)
    elif remove:
        del copy[path[0]]
    else:
        copy[path[0]] = value
    return copy


def check(agent: str, places: Places) -> int:
    """Read all that there is, twice; return how many utterances there were."""
    total = 0
    for source in reader_of(agent).find(places):
        readings = list(reader_of(agent).read(source, None))
        for reading in readings:
            total += _check(reading)
        if readings and readings[-1].skipped.get("compressed with zstd") is None:
            mark = json.loads(json.dumps(readings[-1].mark))
            assert list(reader_of(agent).read(source, mark)) == []
    return total


def _check(reading: Reading) -> int:
    count = 0
    json.dumps(reading.mark, allow_nan=False)
    for session in reading.sessions:
        ids = [row.copy_of or row.id for row in session.utterances]
        assert len(ids) == len(set(ids)), "one id twice"
        texts = [session.id, session.cwd, session.branch, *ids]
        texts += [row.whole for row in session.utterances]
        for text in filter(None, texts):
            text.encode("utf-8")
        for row in session.utterances:
            assert row.whole
            assert row.id
            assert row.at is None or isinstance(row.at, int)
            for act in row.acts:
                "".join(filter(None, (act.tool, act.path, act.command, act.error))).encode("utf-8")
        for text in (session.id, session.cwd or "/", *ids):
            assert text
            assert "\0" not in text
            assert "\n" not in text
        if session.cwd:
            Path(session.cwd).is_dir()
        count += len(ids)
    return count


def read_all(agent: str, places: Places) -> list[Reading]:
    rows = reader_of(agent)
    return [reading for source in rows.find(places) for reading in rows.read(source, None)]


def utterances(agent: str, places: Places) -> list[Utterance]:
    sessions = [session for reading in read_all(agent, places) for session in reading.sessions]
    return [row for session in sessions for row in session.utterances]


def check_variants(
    agent: str, places: Places, records: list[Any], write: Callable[[list[Any]], object]
) -> int:
    """Write and read the records with each variant of each of them; return how many were read."""
    total = 0
    for place, record in enumerate(records):
        for variant in variants(record):
            write([*records[:place], variant, *records[place + 1 :]])
            total += check(agent, places)
    return total
