"""Import the databases of five other memory systems, each recognised by its tables.

A row becomes a record as in a line of an export, so the same checks apply. Its id is made from the
other system's, so that a second import knows it again. What cannot be kept is told, by table.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from plait.errors import UsageError, advise
from plait.exporting import jsonl
from plait.exporting.columns import (
    as_metadata,
    as_moment,
    as_object,
    as_text,
    as_words,
    known_moment,
    size_of,
    sorted_by,
    stable_id,
)
from plait.protocols import Entry
from plait.stores.sqlite.others import OtherDatabase, Row, opened_other
from plait.types import MEMORY_TYPES
from plait.types.ids import ENTITY_SOURCE
from plait.types.records import NamedTuple

Record = dict[str, Any]
_LONGEST_OVERLAP, _SHORTEST_OVERLAP = 400, 10
_STATEMENT_CHARS = 10_000
_AUXILIARY = re.compile(r"\+\s*(\w+)")
_NUMBER_AT_END = re.compile(r"(\d{1,9})$")


class OtherMemory(NamedTuple):
    """What was read of another system's database, and what of it cannot be kept."""

    system: str
    parts: list[Entry | jsonl.ExportedRelation]
    left_out: tuple[str, ...] = ()


class _System(NamedTuple):
    """A system: its name, the columns that tell its tables, how to read them, what is lost."""

    name: str
    tables: Mapping[str, frozenset[str]]
    read: "Callable[[OtherDatabase, _Reader], Iterator[Record]]"
    left_out: Mapping[str, str]


class _Reader:
    """Collects what the rows of a database become, and what was left out of it."""

    def __init__(self, moment: int) -> None:
        self.moment = moment
        self.relations: list[Record] = []
        self.remarks: dict[str, int] = {}

    def remark(self, text: str) -> None:
        self.remarks[text] = self.remarks.get(text, 0) + 1


def read_database(path: str, max_bytes: int, moment: int) -> OtherMemory:
    """Return the contents of another system's database.

    Args:
        path: The file; nothing is written to it or beside it.
        max_bytes: How large one text may be.
        moment: When a row that has no time counts as written.

    Raises:
        UsageError: The tables are none of a known system ("unknown_database"), or it is too large.
        StoreError: The file cannot be read.
    """
    with opened_other(path, max_bytes) as database:
        if {"documents", "passages"} <= database.tables.keys():
            raise UsageError(
                f"{path} is a memory of plait: import its export instead. Nothing was imported.",
                code="own_database",
                subject=path,
                advice=advise("export_other", path=path),
            )
        for system in SYSTEMS:
            if all(names <= database.columns(table) for table, names in system.tables.items()):
                return _read(system, database, max_bytes, moment)
    known = ", ".join(system.name for system in SYSTEMS)
    raise UsageError(
        f"{path} is a database of no system that plait knows ({known}). Nothing was imported.",
        code="unknown_database",
        subject=path,
    )


def _read(system: _System, database: OtherDatabase, max_bytes: int, moment: int) -> OtherMemory:
    reader = _Reader(moment)
    parts: list[Entry | jsonl.ExportedRelation] = []
    ids: set[str] = set()
    for record in system.read(database, reader):
        if record["kind"] != "entity" and not record["text"].strip():
            reader.remark("without text")
        elif size_of(record["text"]) > max_bytes:
            reader.remark("with a text larger than the setting max_file_mb allows")
        elif record["id"] in ids:
            reader.remark("with what another one says")
        else:
            ids.add(record["id"])
            kept = {name: value for name, value in record.items() if value not in (None, "", {})}
            parts.append(jsonl.read_entry({**kept, "text": record["text"], "origin": "import"}))
    for edge in reader.relations:
        parts.append(jsonl.read_relation({"relation": edge, "project": None}))
    left_out = [f"{_rows(count)} {why}" for why, count in reader.remarks.items()]
    for table, why in system.left_out.items():
        count = database.count(table)
        if count:
            left_out.append(f"{_rows(count)} of {table} ({why})")
    return OtherMemory(system.name, parts, tuple(left_out))


def _rows(count: int) -> str:
    return f"{count:,} row" if count == 1 else f"{count:,} rows"


# -- tars ----------------------------------------------------------------------------------

_TARS_FILE = ("id", "collection_id", "path", "title", "memory_type", "mtime")


def _read_tars(database: OtherDatabase, reader: _Reader) -> Iterator[Record]:
    """Yield the files of a vault, put together from their chunks by line number."""
    names = _AUXILIARY.findall(database.tables.get("vec_chunks", "")[:_STATEMENT_CHARS])
    columns = {name: f"value{place:02d}" for place, name in enumerate(names)}
    wanted = ("file_id", "chunk_sequence", "start_line", "end_line", "content")
    chunks: dict[object, list[Row]] = {}
    if all(name in columns for name in wanted):
        for row in database.rows("vec_chunks_auxiliary", [columns[name] for name in wanted]):
            chunk = {name: row[columns[name]] for name in wanted}
            chunks.setdefault(chunk["file_id"], []).append(chunk)
    collections = {row["id"]: row["name"] for row in database.rows("collections", ("id", "name"))}
    for file in sorted_by(database.rows("files", _TARS_FILE), "id"):
        moment = as_moment(file["mtime"], reader.moment)
        type_ = as_text(file["memory_type"])
        collection = collections.get(file["collection_id"])
        yield {
            "id": stable_id("tars", collection, file["path"]),
            "kind": "note",
            "key": as_text(file["path"]),
            "title": as_text(file["title"]),
            "text": _joined_lines(sorted_by(chunks.get(file["id"], ()), "chunk_sequence")),
            "memory_type": type_ if type_ in MEMORY_TYPES else None,
            "metadata": as_metadata(
                {"collection": collection, "memory_type": "" if type_ in MEMORY_TYPES else type_}
            ),
            "created_at": moment,
            "updated_at": moment,
            "event_at": moment,
        }


def _joined_lines(chunks: Iterable[Row]) -> str:
    """Return the lines of chunks, each once: a chunk begins before the one before it ends."""
    lines: list[str] = []
    reached = 0
    for chunk in chunks:
        own = as_text(chunk["content"]).splitlines(keepends=True)
        start = chunk["start_line"] if isinstance(chunk["start_line"], int) else reached + 1
        end = chunk["end_line"] if isinstance(chunk["end_line"], int) else start + len(own) - 1
        if own and lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        lines += own[max(0, reached - start + 1) :]
        reached = max(reached, end)
    return "".join(lines)


# -- hybrid-memory -------------------------------------------------------------------------


def _read_hybrid(database: OtherDatabase, reader: _Reader) -> Iterator[Record]:
    """Yield the documents, put together from their chunks, which overlap."""
    chunks: dict[object, list[Row]] = {}
    for row in database.rows("chunks", ("doc_id", "chunk_id", "content", "created_at")):
        chunks.setdefault(row["doc_id"], []).append(row)
    known = {row["doc_id"]: row for row in database.rows("documents", _HYBRID_DOCUMENT)}
    blank = dict.fromkeys(_HYBRID_DOCUMENT)
    for doc_id in dict.fromkeys([*known, *chunks]):
        document = known.get(doc_id, blank)
        rows = sorted(chunks.get(doc_id, ()), key=_chunk_number)
        first = rows[0]["created_at"] if rows else None
        indexed = as_moment(document["indexed_at"], as_moment(first, reader.moment))
        yield {
            "id": stable_id("hybrid-memory", doc_id),
            "kind": "note",
            "key": as_text(doc_id),
            "text": _joined_overlaps([as_text(row["content"]) for row in rows]),
            "metadata": as_metadata({"source_path": document["source_path"]}),
            "created_at": indexed,
            "updated_at": indexed,
            "event_at": as_moment(document["file_mtime"], indexed),
        }


_HYBRID_DOCUMENT = ("doc_id", "source_path", "file_mtime", "indexed_at")


def _chunk_number(row: Row) -> tuple[int, str]:
    name = as_text(row["chunk_id"])
    number = _NUMBER_AT_END.search(name[-12:])
    return (int(number[1]) if number else 0, name)


def _joined_overlaps(texts: Iterable[str]) -> str:
    r"""Return texts as one, without what each repeats of the end of the one before.

    >>> _joined_overlaps(["We deploy on Fridays", "oy on Fridays, at noon", "New."])
    'We deploy on Fridays, at noon\nNew.'
    """
    whole = ""
    for text in texts:
        longest = min(len(text), len(whole), _LONGEST_OVERLAP)
        for length in range(longest, _SHORTEST_OVERLAP - 1, -1):
            if whole.endswith(text[:length]):
                whole += text[length:]
                break
        else:
            whole += text if not whole or whole.endswith("\n") else f"\n{text}"
    return whole


# -- mcp-memory ----------------------------------------------------------------------------

_ENTITY = ("id", "name", "entity_type", "status", "created_at", "updated_at")
# The others are active here: "activo" is, and what is paused goes on some day.
_STATUS = {"completado": "done", "archivado": "archived"}
_OBSERVATION = ("id", "entity_id", "content", "kind", "supersedes", "superseded_at", "created_at")
_EDGE = ("from_entity", "to_entity", "relation_type", "context", "active", "ended_at", "created_at")
_REFLECTION = ("id", "target_type", "target_id", "author", "content", "mood", "created_at")


def _read_graph(database: OtherDatabase, reader: _Reader) -> Iterator[Record]:
    """Yield entities, their observations and reflections; relations go to the reader."""
    names: dict[object, str] = {}
    for row in sorted_by(database.rows("entities", _ENTITY), "id"):
        name = as_text(row["name"]).strip()
        if not name:
            reader.remark("of entities without a name")
            continue
        names[row["id"]] = name
        created = as_moment(row["created_at"], reader.moment)
        yield {
            "id": stable_id("mcp-memory", name),
            "kind": "entity",
            "key": name,
            "title": name,
            "source": ENTITY_SOURCE,
            "type": as_text(row["entity_type"]) or "Generic",
            "text": "",
            "metadata": as_metadata({"status": row["status"]}),
            "status": _STATUS.get(as_text(row["status"]).lower()),
            "created_at": created,
            "updated_at": as_moment(row["updated_at"], created),
            "event_at": created,
        }
    yield from _observations(database, reader, names)
    for row in sorted_by(database.rows("relations", _EDGE), "created_at"):
        ends = [names.get(row[end]) for end in ("from_entity", "to_entity")]
        if None in ends:
            reader.remark("of relations without an entity")
            continue
        ended = row["active"] == 0
        created = as_moment(row["created_at"], reader.moment)
        edge = {
            "source": ends[0],
            "target": ends[1],
            "type": as_text(row["relation_type"]),
            "context": as_text(row["context"]) or None,
            "created_at": created,
            "valid_to": as_moment(row["ended_at"], created) if ended else None,
        }
        reader.relations.append({name: value for name, value in edge.items() if value is not None})


def _observations(
    database: OtherDatabase, reader: _Reader, names: Mapping[object, str]
) -> Iterator[Record]:
    rows = sorted_by(database.rows("observations", _OBSERVATION), "id")
    ids = {
        row["id"]: stable_id("mcp-memory", names.get(row["entity_id"]), as_text(row["content"]))
        for row in rows
    }
    successors = {row["supersedes"]: row for row in rows if row["supersedes"] is not None}
    for row in rows:
        if row["entity_id"] not in names:
            reader.remark("of observations without an entity")
            continue
        created = as_moment(row["created_at"], reader.moment)
        kind = as_text(row["kind"])
        ended = known_moment(row["superseded_at"])
        if ended is None and row["id"] in successors:
            ended = as_moment(successors[row["id"]]["created_at"], created)
        yield {
            "id": ids[row["id"]],
            "kind": "observation",
            "parent": stable_id("mcp-memory", names[row["entity_id"]]),
            "text": as_text(row["content"]),
            "type": kind if kind != "generic" else None,
            "supersedes": ids.get(row["supersedes"]),
            "valid_to": ended,
            "created_at": created,
            "updated_at": created,
            "event_at": created,
        }
    for row in sorted_by(database.rows("reflections", _REFLECTION), "id"):
        created = as_moment(row["created_at"], reader.moment)
        name = names.get(row["target_id"]) if row["target_type"] == "entity" else None
        yield {
            "id": stable_id("mcp-memory", "reflection", row["id"], as_text(row["content"])),
            "kind": "observation",
            "parent": None if name is None else stable_id("mcp-memory", name),
            "text": as_text(row["content"]),
            "type": "reflection",
            "metadata": as_metadata({"author": row["author"], "mood": row["mood"]}),
            "created_at": created,
            "updated_at": created,
            "event_at": created,
        }


# -- mcb -----------------------------------------------------------------------------------

_MCB = ("id", "project_id", "content", "tags", "observation_type", "metadata", "created_at")


def _read_mcb(database: OtherDatabase, reader: _Reader) -> Iterator[Record]:
    """Yield the observations."""
    for row in sorted_by(database.rows("observations", _MCB), "created_at", "id"):
        created = as_moment(row["created_at"], reader.moment)
        metadata = as_object(row["metadata"])
        yield {
            "id": stable_id("mcb", row["id"]),
            "kind": "observation",
            "text": as_text(row["content"]),
            "type": as_text(row["observation_type"]),
            "tags": as_words(row["tags"]),
            "session": as_text(metadata.get("session_id")),
            "metadata": as_metadata({**metadata, "project_id": row["project_id"]}),
            "created_at": created,
            "updated_at": created,
            "event_at": created,
        }


# -- ZeroClaw ------------------------------------------------------------------------------

_ZEROCLAW = (
    *("id", "key", "content", "category", "created_at", "updated_at", "session_id", "namespace"),
    *("importance", "superseded_by", "kind", "pinned", "tenant_id", "agent_id"),
)


def _read_zeroclaw(database: OtherDatabase, reader: _Reader) -> Iterator[Record]:
    """Yield the memories as notes; the keys of several agents are told apart by the agent."""
    rows = sorted_by(database.rows("memories", _ZEROCLAW), "created_at", "id")
    agents = {as_text(row["agent_id"]) for row in rows}
    predecessors = {row["superseded_by"]: row["id"] for row in rows if row["superseded_by"]}
    times = {row["id"]: known_moment(row["created_at"]) for row in rows}
    current: dict[tuple[str, str], Row] = {}
    for row in rows:
        name = _zeroclaw_name(row)
        current[name] = max(current.get(name, row), row, key=_is_current)
    for row in rows:
        created = as_moment(row["created_at"], reader.moment)
        updated = as_moment(row["updated_at"], created)
        agent, key = name = _zeroclaw_name(row)
        if current[name] is not row:
            reader.remark("that a newer one with the same key replaced")
            continue
        kind = as_text(row["kind"]).strip('"')
        kind = next(iter(as_object(row["kind"])), kind).lower()
        importance, successor = row["importance"], row["superseded_by"]
        is_share = isinstance(importance, int | float) and 0 <= importance <= 1
        namespace = as_text(row["namespace"])
        earlier = predecessors.get(row["id"])
        yield {
            "id": stable_id("zeroclaw", agent, key),
            "kind": "note",
            "key": f"{agent}/{key}" if len(agents) > 1 and agent else key,
            "text": as_text(row["content"]),
            "type": as_text(row["category"]),
            "memory_type": kind if kind in MEMORY_TYPES else None,
            "session": as_text(row["session_id"]),
            "importance": float(importance) if is_share else None,
            "pinned": row["pinned"] == 1 or None,
            "valid_to": (times.get(successor) or updated) if successor else None,
            "metadata": as_metadata(
                {
                    "namespace": namespace if namespace != "default" else "",
                    "tenant_id": row["tenant_id"],
                    "agent_id": agent,
                    "supersedes": earlier,
                }
            ),
            "created_at": created,
            "updated_at": updated,
            "event_at": created,
        }


def _zeroclaw_name(row: Row) -> tuple[str, str]:
    """Return agent and key. Its table allows several rows of one key where the agent is NULL."""
    return as_text(row["agent_id"]), as_text(row["key"]) or as_text(row["id"])


def _is_current(row: Row) -> tuple[bool, int, int]:
    """Order the rows of one key: one that none superseded comes last, then the newest."""
    created = as_moment(row["created_at"], 0)
    return not row["superseded_by"], as_moment(row["updated_at"], created), created


_USE = "counts of use, which begin anew"
_VECTORS = "vectors, which are made again"
SYSTEMS = (
    _System(
        "tars",
        {
            "files": frozenset({"collection_id", "path", "memory_type", "content_hash"}),
            "collections": frozenset({"id", "name"}),
        },
        _read_tars,
        {"file_links": "links between files, which are in their text"},
    ),
    _System(
        "hybrid-memory",
        {
            "documents": frozenset({"doc_id", "source_path", "indexed_at"}),
            "chunks": frozenset({"doc_id", "chunk_id", "content"}),
        },
        _read_hybrid,
        {},
    ),
    _System(
        "mcp-memory",
        {
            "entities": frozenset({"id", "name", "entity_type"}),
            "observations": frozenset({"entity_id", "content"}),
            "relations": frozenset({"from_entity", "to_entity", "relation_type"}),
        },
        _read_graph,
        {
            "entity_access": _USE,
            "entity_access_log": _USE,
            "co_occurrences": _USE,
            "search_events": "a log of searches",
            "implicit_feedback": "a log of searches",
        },
    ),
    _System(
        "mcb",
        {"observations": frozenset({"id", "content", "content_hash", "observation_type"})},
        _read_mcb,
        {
            "session_summaries": "summaries of sessions",
            "error_patterns": "patterns of errors",
            "executions": "a log of commands",
            "quality_gates": "results of checks",
        },
    ),
    _System(
        "ZeroClaw",
        {"memories": frozenset({"id", "key", "content", "category"})},
        _read_zeroclaw,
        {"embedding_cache": _VECTORS},
    ),
)
