"""What agents did: rows that belong to messages, inside a caller's transaction.

The name of a file is apart from its folder, so that it is found by either spelling of its path.
"""

from collections.abc import Sequence

import apsw

from plait.stores.sqlite.connection import SQLRow, rows
from plait.stores.sqlite.filters import Clause, joined
from plait.types.steps import Step, StepName, StepTaken, step_from

_COLUMNS = "s.tool, s.folder, s.file, s.command, s.program, s.exit, s.error, s.failure"
_NAMES = _COLUMNS.replace("s.", "")
_WIDTH = 8
_WRITE = (
    f"INSERT INTO steps (document, place, {_NAMES}) "  # noqa: S608
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_DROP = "DELETE FROM steps WHERE document = ?"
_OF_DOCUMENT = (
    f"SELECT {_COLUMNS} FROM documents AS d JOIN steps AS s ON s.document = d.rowid "  # noqa: S608
    "WHERE d.id = ? ORDER BY s.place"
)
_TAKEN = f"SELECT d.id, d.project, d.session, d.turn, d.event_at, s.place, {_COLUMNS} FROM "  # noqa: S608
_NAMED = {"file": "s.file", "program": "s.program", "failure": "s.failure", "document": "d.id"}
_NEWEST = " ORDER BY d.event_at DESC, d.turn DESC, d.rowid DESC, s.place DESC LIMIT ?"
# subtle: a cross join fixes the order, and few steps have one name; SQLite would begin with the
# project, which has many.
_STEPS_FIRST = "steps AS s CROSS JOIN documents AS d ON d.rowid = s.document WHERE "
_DOCUMENTS_FIRST = "documents AS d CROSS JOIN steps AS s ON s.document = d.rowid WHERE "


def write(connection: apsw.Connection, document: int, steps: Sequence[Step]) -> None:
    """Replace the steps of a document."""
    connection.execute(_DROP, (document,))
    add(connection, rows_of(document, steps))


def add(connection: apsw.Connection, listed: Sequence[SQLRow]) -> None:
    """Write the steps of new documents, as `rows_of` returns them."""
    connection.executemany(_WRITE, listed)


def rows_of(document: int, steps: Sequence[Step]) -> list[SQLRow]:
    """Return the rows of a document's steps."""
    return [(document, place, *row_of(step)) for place, step in enumerate(steps)]


def row_of(step: Step) -> tuple[str | int | None, ...]:
    """Return the columns of a step, from its tool on."""
    folder, file = None, None
    if step.path is not None:
        head, slash, file = step.path.rpartition("/")
        folder = head + slash
    ending = (step.command, step.program, step.exit, step.error, step.failure)
    return (step.tool, folder, file, *ending)


def is_sound(values: Sequence[object]) -> bool:
    """Tell whether the values of a row, from its tool on, are those of a step."""
    try:
        step_of(values)
    except apsw.CorruptError:
        return False
    return True


def step_of(values: Sequence[object]) -> Step:
    """Return the columns of a step as a value.

    Raises:
        apsw.CorruptError: One has a value that plait never writes.
    """
    tool, folder, file, *ending = values
    try:
        if isinstance(folder, str) and isinstance(file, str):
            return step_from((tool, folder + file, *ending))
        if folder is None and file is None:
            return step_from((tool, None, *ending))
    except ValueError:
        pass
    raise apsw.CorruptError("a step of a message cannot be read")


def of_document(connection: apsw.Connection, id_: str) -> list[Step]:
    """Return the steps of a document, in their order."""
    return [step_of(row) for row in rows(connection, _OF_DOCUMENT, (id_,))]


def find(
    connection: apsw.Connection,
    conditions: list[Clause],
    named: StepName | None,
    limit: int | None,
) -> list[StepTaken]:
    """Return the steps of documents that pass conditions, the newest first."""
    asked = named._asdict() if named is not None else {}
    own: list[Clause] = [
        (f"{_NAMED[key]} = ?", [name]) for key, name in asked.items() if name is not None
    ]
    sql, values = joined([*own, *conditions])
    source = _STEPS_FIRST if own and not asked["document"] else _DOCUMENTS_FIRST
    last = -1 if limit is None else limit
    return [
        _taken(row) for row in rows(connection, _TAKEN + source + sql + _NEWEST, (*values, last))
    ]


def _taken(row: SQLRow) -> StepTaken:
    id_, project, session, turn, event_at, place = row[:-_WIDTH]
    numbers = isinstance(event_at, int) and isinstance(place, int) and isinstance(turn, int | None)
    if not (numbers and isinstance(project, str) and isinstance(session, str | None)):
        raise apsw.CorruptError("the message of a step cannot be read")
    return StepTaken(step_of(row[-_WIDTH:]), id_, project or None, session, turn, event_at, place)
