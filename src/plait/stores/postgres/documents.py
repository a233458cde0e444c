"""Read documents and passages: rows to values, by name, by ref, whole, or in order."""

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any

from plait.stores.postgres.connection import Channel, Escaped, SQLRow, SQLStatement, escaped
from plait.stores.postgres.filters import Conditions
from plait.stores.sqlite.documents import (
    DOCUMENT_COLUMNS,
    FIELDS,
    LAST_ORDINAL,
    MOST_NAMESAKES,
    ORDINAL_DIGITS,
    PASSAGE_WIDTH,
    DocumentOrPassage,
    document_row,
    passage_from,
    stitched,
)
from plait.stores.sqlite.documents import document_from as _document_from
from plait.stores.sqlite.filters import spellings_of
from plait.types import AFTER_TURNS, Document, Passage, Ref
from plait.types.ids import ID_LENGTH, ID_PREFIX, SCOPE_PREFIX
from plait.types.queries import Turn

PASSAGE_COLUMNS = "p.text, p.heading, p.start_line, p.end_line, p.start, p.ordinal, p.id, p.ref"
JOINED = (
    "plait.passages AS p JOIN plait.documents AS d ON d.ns = %(ns)s AND d.place = p.document "
    "WHERE p.ns = %(ns)s"
)
AMONG = f"SELECT p.ref FROM {JOINED} AND p.ref = ANY(%(refs)s) AND {{conditions}}"  # noqa: S608
_TAGS_AT, _METADATA_AT, _PROJECT_AT = map(FIELDS.index, ("tags", "metadata", "project"))
_NO_PASSAGE = ", ".join(["NULL"] * PASSAGE_WIDTH)
_DOCUMENT = (
    f"SELECT {_NO_PASSAGE}, {DOCUMENT_COLUMNS} FROM plait.documents AS d "  # noqa: S608
    "WHERE d.ns = %(ns)s AND "
)
_PLACED = f"SELECT d.place, {DOCUMENT_COLUMNS} FROM plait.documents AS d WHERE d.ns = %(ns)s AND "  # noqa: S608
_PASSAGE = f"SELECT {PASSAGE_COLUMNS}, {DOCUMENT_COLUMNS} FROM {JOINED} AND "  # noqa: S608
HYDRATE = _PASSAGE + "p.ref = ANY(%(refs)s)"
_TURNS = (
    f"SELECT p.ref, d.project, d.session, d.turn, p.text FROM {JOINED} "  # noqa: S608
    "AND p.ref = ANY(%(refs)s) AND d.turn IS NOT NULL AND d.kind = 'message' AND d.chunk_count = 1"
)
_PASSAGES = (
    f"SELECT {PASSAGE_COLUMNS} FROM {JOINED} AND d.id = %(id)s "  # noqa: S608
    "AND p.ordinal BETWEEN %(first)s AND %(last)s ORDER BY p.ordinal"
)
_SPANS = (
    f"SELECT w.number, {PASSAGE_COLUMNS} "  # noqa: S608
    "FROM unnest(%(ids)s::text[], %(first)s::bigint[], %(last)s::bigint[]) "
    "WITH ORDINALITY AS w (id, first, last, number) "
    "JOIN plait.documents AS d ON d.ns = %(ns)s AND d.id = w.id "
    "JOIN plait.passages AS p ON p.ns = %(ns)s AND p.document = d.place "
    "AND p.ordinal BETWEEN w.first AND w.last ORDER BY w.number, p.ordinal"
)
_AROUND = (
    f"SELECT d.id, o.ordinal, {PASSAGE_COLUMNS} FROM plait.passages AS o "  # noqa: S608
    "JOIN plait.documents AS d ON d.ns = %(ns)s AND d.place = o.document "
    "JOIN plait.passages AS p ON p.ns = %(ns)s AND p.document = o.document AND p.ordinal "
    "BETWEEN o.ordinal - %(window)s AND o.ordinal + %(window)s "
    "WHERE o.ns = %(ns)s AND o.ref = ANY(%(refs)s) ORDER BY o.ref, p.ordinal"
)
_WHOLE = (
    f"SELECT d.place, d.preface, {DOCUMENT_COLUMNS} FROM plait.documents AS d "  # noqa: S608
    "WHERE d.ns = %(ns)s AND "
)
# With its text in one statement: between two, another writer may replace or delete it.
_PIECES_OF = (
    "SELECT array_agg(p.{} ORDER BY p.ordinal) FROM plait.passages AS p "
    "WHERE p.ns = %(ns)s AND p.document = d.place"
)
_WITH_TEXT = _WHOLE.replace(
    "d.preface, ",
    f"d.preface, ({_PIECES_OF.format('start')}), ({_PIECES_OF.format('text')}), ",
)
SUCCESSORS = (
    "SELECT s.id, s.successor FROM (SELECT d.id, coalesce("
    "(SELECT n.id FROM plait.documents AS n WHERE n.ns = %(ns)s AND n.supersedes = d.id "
    "ORDER BY n.place DESC LIMIT 1), "
    # One text may end several of its topic, but supersedes names only one of them.
    "(SELECT n.id FROM plait.documents AS n WHERE n.ns = %(ns)s AND n.topic = d.topic "
    "AND n.project = d.project AND coalesce(n.parent, '') = coalesce(d.parent, '') "
    "AND n.valid_from = d.valid_to AND n.id <> d.id ORDER BY n.place DESC LIMIT 1)) AS successor "
    "FROM plait.documents AS d WHERE d.ns = %(ns)s AND d.id = ANY(%(ids)s) "
    "AND d.valid_to IS NOT NULL) AS s WHERE s.successor IS NOT NULL"
)
SUCCESSORS_OF = SUCCESSORS.replace(
    "d.id = ANY(%(ids)s)",
    "d.place IN (SELECT p.document FROM plait.passages AS p "
    "WHERE p.ns = %(ns)s AND p.ref = ANY(%(refs)s))",
)
_NEAREST = "array_position(%(near)s::bigint[], d.label)"
_BY_PATH = (
    f"SELECT d.label, d.place, {DOCUMENT_COLUMNS} FROM plait.documents AS d "  # noqa: S608
    "WHERE d.ns = %(ns)s AND d.kind = 'file' AND d.path = %(path)s "
    "AND (d.project = %(project)s OR NOT "
    f"(starts_with(d.project, '{SCOPE_PREFIX}') OR starts_with(%(project)s, '{SCOPE_PREFIX}'))) "
    "ORDER BY d.project <> %(project)s, d.place"
)
_MEMBERS = (
    "SELECT o.id FROM plait.documents AS e JOIN plait.documents AS o "
    "ON o.ns = %(ns)s AND o.parent = e.id AND o.label = e.label WHERE e.ns = %(ns)s "
    "AND e.kind = 'entity' AND e.id = ANY(%(ids)s) ORDER BY o.place"
)
_AS_WRITTEN = "d.created_at, d.place"
# `Document.place`, but for the id.
IN_SESSION = f"coalesce(d.turn, d.event_at + {AFTER_TURNS})"


def row_of(document: Document) -> list[Any]:
    """Return the values of `FIELDS`, ready to bind; lists keep a NUL as every other text does."""
    values = document_row(document)
    tags = [escaped(tag) for tag in document.tags]
    metadata = {escaped(name): escaped(value) for name, value in document.metadata.items()}
    values[_TAGS_AT] = Escaped(json.dumps(tags, ensure_ascii=False))
    values[_METADATA_AT] = Escaped(json.dumps(metadata, ensure_ascii=False))
    return values


def plain_row(row: Sequence[Any]) -> list[Any]:
    """Return the values of `FIELDS` as `document_row` gives them."""
    values = list(row)
    for place in (_TAGS_AT, _METADATA_AT):
        if "\0" in values[place]:
            values[place] = json.dumps(json.loads(values[place], strict=False), ensure_ascii=False)
    return values


def document_from(row: Sequence[Any], text: str = "") -> Document:
    """Return a row of `DOCUMENT_COLUMNS` as a value."""
    return _document_from(plain_row(row), text)


def passage_and_document(row: SQLRow) -> tuple[Passage, Document]:
    """Return a row of both as values."""
    return passage_from(row[:PASSAGE_WIDTH]), document_from(row[PASSAGE_WIDTH:])


def beginning(row: Sequence[Any]) -> DocumentOrPassage:
    """Return a row of both as values, the document first; it may be without a passage."""
    own = row[:PASSAGE_WIDTH]
    return document_from(row[PASSAGE_WIDTH:]), None if own[0] is None else passage_from(own)


def turns(session: Channel, refs: Sequence[Ref]) -> dict[Ref, Turn]:
    """Return the places in a conversation of those passages that are whole messages."""
    return placed(session.rows(*placing(refs)))


def placing(refs: Sequence[Ref]) -> SQLStatement:
    """Return the statement for the places of messages."""
    return _TURNS, {"refs": list(refs)}


def placed(rows: Sequence[SQLRow]) -> dict[Ref, Turn]:
    """Return the answer to `placing` as values."""
    return {
        ref: Turn.of(f"{project}\0{name}", turn, text) for ref, project, name, turn, text in rows
    }


def passages(session: Channel, document: str, first: int, last: int | None) -> list[Passage]:
    """Return passages of one document, by ordinal."""
    span = {"id": document, "first": first, "last": LAST_ORDINAL if last is None else last}
    return [passage_from(row) for row in session.rows(_PASSAGES, span)]


def spanning(wanted: Sequence[tuple[str, int, int]]) -> SQLStatement:
    """Return the statement for passages of documents, each by its first and its last ordinal."""
    columns = [list(column) for column in zip(*wanted, strict=True)] or [[], [], []]
    return _SPANS, dict(zip(("ids", "first", "last"), columns, strict=True))


def as_spans(rows: Sequence[SQLRow], count: int) -> list[list[Passage]]:
    """Return the answer to `spanning` as values."""
    listed: list[list[Passage]] = [[] for _ in range(count)]
    for number, *row in rows:
        listed[number - 1].append(passage_from(row))
    return listed


def surrounding(refs: Sequence[Ref], window: int) -> SQLStatement:
    """Return the statement for the passages around some, by these."""
    return _AROUND, {"refs": list(refs), "window": window}


def as_surroundings(
    rows: Sequence[SQLRow], window: int
) -> dict[tuple[str, int, int], list[Passage]]:
    """Return the answer to `surrounding`: by ids, first and last ordinals."""
    around: dict[tuple[str, int, int], list[Passage]] = {}
    for id_, ordinal, *row in rows:
        span = (id_, ordinal - window, ordinal + window)
        around.setdefault(span, []).append(passage_from(row))
    return around


def find(session: Channel, name: str, where: Conditions) -> list[DocumentOrPassage]:
    """Return what a name refers to: an id, else a key, else a chunk_id, else an id prefix.

    The key of a message counts if nothing else has the name.
    """
    asked = finding(name, where)
    return meant(asked, session.together(*chain.from_iterable(asked)))


def finding(name: str, where: Conditions) -> list[list[SQLStatement]]:
    """Return the statements for what a name may refer to: groups, the likeliest first."""
    where.values["name"] = name
    others = "d.kind <> 'message' AND "
    groups = [
        [_documents("d.id = %(name)s", where)],
        [_passages("p.id = %(name)s", where)],
        [_documents(f"{others}d.key = %(name)s", where)],
        _chunk(name, others, where),
        _prefixed(name, where),
        [_documents("d.key = %(name)s", where)],
        _chunk(name, "", where),
    ]
    return [[(sql, where.values) for sql in group] for group in groups]


def meant(
    asked: Sequence[Sequence[SQLStatement]], answers: Sequence[Sequence[SQLRow]]
) -> list[DocumentOrPassage]:
    """Return the answers to the first group of `finding` that has any."""
    left = iter(answers)
    for group in asked:
        rows = [row for _ in group for row in next(left)]
        if rows:
            return list(map(beginning, rows))
    return []


def _chunk(name: str, others: str, where: Conditions) -> list[str]:
    head, dash, tail = name.rpartition("-")
    # subtle: int() would also take "٣" and "1_0".
    if not dash or not (tail.isascii() and tail.isdigit()) or len(tail) > ORDINAL_DIGITS:
        return []
    where.values.update(ordinal=int(tail), head=head)
    own = f"{others}p.ordinal = %(ordinal)s AND (d.id = %(head)s OR d.key = %(head)s)"
    return [_passages(own, where)]


def _prefixed(name: str, where: Conditions) -> list[str]:
    if not ID_PREFIX <= len(name) < ID_LENGTH or not name.isascii() or not name.isalnum():
        return []
    where.values.update(low=name.lower(), high=name.lower() + "~")
    return [
        _documents("d.id > %(low)s AND d.id < %(high)s", where),
        _passages("p.id > %(low)s AND p.id < %(high)s", where),
    ]


def _documents(own: str, where: Conditions) -> str:
    order = f" ORDER BY d.key NULLS FIRST, d.id LIMIT {MOST_NAMESAKES}"
    return where.stated(f"{_DOCUMENT}{own} AND {{conditions}}{order}")


def _passages(own: str, where: Conditions) -> str:
    order = f" ORDER BY d.key NULLS FIRST, p.ordinal, d.id LIMIT {MOST_NAMESAKES}"
    return where.stated(f"{_PASSAGE}{own} AND {{conditions}}{order}")


def load(session: Channel, ids: Sequence[str]) -> list[Document]:
    """Return whole documents, text joined from passages, in the order asked for."""
    listed = session.rows(_WITH_TEXT + "d.id = ANY(%(ids)s)", ids=list(ids))
    loaded = {document.id: document for document in map(_whole, listed)}
    return [loaded[id_] for id_ in ids if id_ in loaded]


def _whole(row: SQLRow) -> Document:
    _, preface, starts, texts, *columns = row
    pieces = list(zip(starts or (), texts or (), strict=True))
    return document_from(columns, stitched(preface, pieces))


def successors(session: Channel, ids: Sequence[str]) -> dict[str, str]:
    """Return the id of the successor of each of these documents."""
    return dict(session.rows(SUCCESSORS, ids=list(ids)))


def members(session: Channel, entities: Sequence[str]) -> list[str]:
    """Return the ids of the documents that belong to these entities."""
    return [id_ for (id_,) in session.rows(_MEMBERS, ids=list(entities))]


def by_id(session: Channel, id_: str, near: Sequence[int] | None = None) -> SQLRow | None:
    """Return the place of a document and its row; with ``near``, only if it has such a label."""
    own = "" if near is None else " AND d.label = ANY(%(near)s)"
    listed = session.rows(f"{_PLACED}d.id = %(id)s{own}", id=id_, near=near)
    return listed[0] if listed else None


def find_existing(
    session: Channel, document: Document, labels: Sequence[int], *, bound: bool = False
) -> tuple[int, Document] | None:
    """Return the stored document that this one replaces, with its place.

    A name is looked for under these labels, in this order; an id under any, unless ``bound``.

    It has the same id, else the same project, source and key, however its accents are written,
    except for a file: two files may differ in that. A file is also found by its path.
    """
    row = by_id(session, document.id, labels if bound else None) if document.id else None
    home = {"project": document.project or "", "source": document.source, "near": list(labels)}
    if row is None and document.key is not None:
        forms = [document.key] if document.kind == "file" else spellings_of(document.key)
        sql = (
            "d.project = %(project)s AND d.source = %(source)s AND d.key = ANY(%(keys)s) "
            f"AND d.label = ANY(%(near)s) ORDER BY {_NEAREST}, "
            "array_position(%(keys)s::text[], d.key) LIMIT 1"
        )
        row = next(iter(session.rows(_PLACED + sql, home, keys=forms)), None)
    if row is None and document.kind == "file" and document.path is not None:
        row = _by_path(session, document, labels)
    return None if row is None else (row[0], document_from(row[1:]))


def _by_path(session: Channel, document: Document, labels: Sequence[int]) -> SQLRow | None:
    """Return the place of a file and its row, under the first of these labels.

    What is visible to its project is looked for in every project: read in another one, the file
    is still the same.
    """
    rows = session.rows(_BY_PATH, path=document.path, project=document.project or "")
    of_project, home = session.membership.of_project, document.project or ""
    nearest: dict[int, SQLRow] = {}
    for label, *row in rows:
        is_shared = label == of_project(row[1 + _PROJECT_AT] or "")
        nearest.setdefault(of_project(home) if is_shared else label, tuple(row))
    return next((nearest[label] for label in labels if label in nearest), None)


def scan(
    session: Channel,
    where: Conditions,
    limit: int | None,
    *,
    before: tuple[int, str] | None,
    after: tuple[int, str] | None,
    by_writing: bool,
    by_turn: bool,
    whole: bool,
) -> list[Document]:
    """Return documents in order; a cursor tells the direction."""
    place = IN_SESSION if by_turn else "d.event_at"
    for sign, cursor in (("<", before), (">", after)):
        if cursor is not None:
            ends = f"({where.bind(cursor[0])}::bigint, {where.bind(cursor[1])}::text)"
            where.add(f"({place}, d.id) {sign} {ends}")
    backwards = before is not None if by_turn else after is None
    down = " DESC" if backwards else ""
    order = _AS_WRITTEN if by_writing else f"{place}{down}, d.id{down}"
    selected = _WITH_TEXT if whole else _WHOLE
    sql = f"{selected}{{conditions}} ORDER BY {order} LIMIT %(limit)s"
    listed = session.rows(where.stated(sql), where.values, limit=limit)
    return [_whole(row) if whole else document_from(row[2:]) for row in listed]


def any_of(where: Conditions) -> SQLStatement:
    """Return the statement that has a row if any document meets conditions."""
    sql = "SELECT 1 FROM plait.documents AS d WHERE {conditions} LIMIT 1"
    return where.stated(sql), where.values


def as_written(where: Conditions) -> SQLStatement:
    """Return the statement for documents as `scan` returns them, ``by_writing``."""
    return where.stated(f"{_DOCUMENT}{{conditions}} ORDER BY {_AS_WRITTEN}"), where.values
