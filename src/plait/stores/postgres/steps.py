"""What agents did: rows that belong to messages, inside a caller's transaction."""

from collections.abc import Sequence

from plait.stores.postgres.connection import Channel, SQLRow, SQLStatement
from plait.stores.postgres.filters import Conditions
from plait.stores.sqlite.steps import row_of, step_of
from plait.types.steps import Step, StepName, StepTaken

_NAMES = ("tool", "folder", "file", "command", "program", "exit", "error", "failure")
_COLUMNS = ", ".join(f"s.{name}" for name in _NAMES)
_WRITE = (
    f"INSERT INTO plait.steps (ns, document, place, label, {', '.join(_NAMES)}) "  # noqa: S608
    f"SELECT %(ns)s, d.place, %(place)s, d.label, {', '.join(f'%({name})s' for name in _NAMES)} "
    "FROM plait.documents AS d WHERE d.ns = %(ns)s AND d.place = %(document)s"
)
_DROP = "DELETE FROM plait.steps WHERE ns = %(ns)s AND document = %(document)s"
_FROM = (
    "FROM plait.documents AS d JOIN plait.steps AS s ON s.ns = %(ns)s AND s.document = d.place "
    "WHERE d.ns = %(ns)s AND "
)
_OF_DOCUMENT = f"SELECT {_COLUMNS} {_FROM} d.id = %(id)s ORDER BY s.place"
_OF_DOCUMENTS = (
    f"SELECT d.id, {_COLUMNS} {_FROM} (d.id = ANY(%(ids)s){{others}}) ORDER BY d.id, s.place"
)
_PLACES = "SELECT p.document FROM plait.passages AS p WHERE p.ns = %(ns)s AND p.ref = ANY(%(refs)s)"
_TAKEN = (
    f"SELECT d.id, d.project, d.session, d.turn, d.event_at, s.place, {_COLUMNS} {_FROM} "
    "{conditions} ORDER BY d.event_at DESC, d.turn DESC NULLS LAST, d.place DESC, s.place DESC "
    "LIMIT %(limit)s"
)
_NAMED = {"file": "s.file", "program": "s.program", "failure": "s.failure", "document": "d.id"}


def write(session: Channel, document: int, steps: Sequence[Step]) -> None:
    """Replace the steps of a document."""
    session.execute(_DROP, document=document)
    for place, step in enumerate(steps):
        values = dict(zip(_NAMES, row_of(step), strict=True))
        session.execute(_WRITE, values, document=document, place=place)


def of_document(session: Channel, id_: str) -> list[Step]:
    """Return the steps of a document, in their order."""
    return [step_of(row) for row in session.rows(_OF_DOCUMENT, id=id_)]


def of_documents(ids: Sequence[str], also: str = "") -> SQLStatement:
    """Return the statement for the steps of documents; ``also``: SQL for the places of others."""
    others = f" OR d.place IN ({also})" if also else ""
    return _OF_DOCUMENTS.replace("{others}", others), {"ids": list(ids)}


def of_passages(refs: Sequence[int]) -> SQLStatement:
    """Return the statement for the steps of the documents that passages are of."""
    sql, values = of_documents((), _PLACES)
    return sql, {**values, "refs": list(refs)}


def as_steps(rows: Sequence[SQLRow]) -> dict[str, list[Step]]:
    """Return the answer to `of_documents`, by the documents."""
    listed: dict[str, list[Step]] = {}
    for id_, *row in rows:
        listed.setdefault(id_, []).append(step_of(row))
    return listed


def find(
    session: Channel, where: Conditions, named: StepName | None, limit: int | None
) -> list[StepTaken]:
    """Return the steps of documents that pass conditions, the newest first."""
    for key, name in (named._asdict() if named is not None else {}).items():
        if name is not None:
            where.add(f"{_NAMED[key]} = {where.bind(name)}")
    rows = session.rows(where.stated(_TAKEN), where.values, limit=limit)
    return [_taken(row) for row in rows]


def _taken(row: SQLRow) -> StepTaken:
    id_, project, session, turn, event_at, place = row[: -len(_NAMES)]
    step = step_of(row[-len(_NAMES) :])
    return StepTaken(step, id_, project or None, session, turn, event_at, place)
