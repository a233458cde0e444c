"""The state of a memory: the rows of ``meta`` and the spaces of its vectors.

A generation contains the vectors of one space. Searches use one generation; another may be built
beside it, see `plait.stores.sqlite.generations`.
"""

import json
import re
from functools import lru_cache

import apsw

from plait.errors import quoted
from plait.protocols import State, Vector
from plait.stores.sqlite.connection import rows
from plait.types import Space
from plait.types.queries import LEAST_SPREAD, Chance
from plait.types.records import NamedTuple

# Names in ``meta``: when one fact last replaced another, and when a profile is next out of date.
CHANGED_AT = "latest_turn"
PROFILES_DUE = "profiles_due"
CHANCE = "chance"  # what chance finds, and in which space
LAST_ROW = 2**63 - 1
MOST_DIMS = 65_536  # more than any model has: a larger number is damage
# There while bytes of purged text may be left in the file; and which purge was the latest.
UNSCRUBBED = "unscrubbed"
PURGED = "purged"
RETIRED_KEY = "retired"  # the key of the marks of files that rules removed
# There while the keyword index may have words of profiles that were replaced.
STALE_TERMS = "stale_terms"
MOVING = "moving"  # there while another memory is being moved into this one

_GENERATIONS = "SELECT id, space, dims, current, canary FROM generations ORDER BY current DESC, id"
_PENDING_COUNT = "SELECT count(*) FROM unembedded WHERE generation = ? AND reason = 'pending'"
_NEWEST = "SELECT max(indexed_at) FROM documents"
TABLES = frozenset(
    (
        *("meta", "documents", "passages", "passages_fts", "passages_fts_data", "passages_fts_idx"),
        *("passages_fts_docsize", "passages_fts_config", "passages_vocab", "frequent_terms"),
        *("generations", "vector_blocks", "block_versions", "vector_signs", "vector_rows"),
        *("unembedded", "trash", "trashed_relations", "relations", "signals", "signal_pairs"),
        *("embedding_cache", "histories", "steps", "audit", "tallies", "document_tags"),
    )
)
# What a read of these computes is plait's own, or SQLite's.
_SEQUENCE = "sqlite_sequence"  # where SQLite keeps the number of each table's last row
READ_NAMES = TABLES | {"passages_terms", _SEQUENCE}
# Nothing else in these is computed, or comes from anywhere else: no word of their statements ends
# so. In capitals, because that takes a thirtieth of the time.
_COMPUTED = re.compile(r"(?:AS|VIRTUAL)\b")
_SCHEMA = "SELECT name, type, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL"
_TYPES = frozenset(("table", "index", "trigger", "view"))
_ANY_MESSAGE = "SELECT 1 FROM documents WHERE turn IS NOT NULL LIMIT 1"


def data_version(connection: apsw.Connection) -> tuple[apsw.Connection, int, int]:
    """Return a value that changes whenever this or any other connection commits."""
    return (
        connection,
        int(connection.execute("PRAGMA data_version").get),
        connection.total_changes(),
    )


def may_remember(connection: apsw.Connection) -> bool:
    """Tell whether what is read now holds until `data_version` changes.

    What a writer reads may be rolled back, which changes no version.
    """
    return connection.txn_state("main") != apsw.SQLITE_TXN_WRITE


class Generation(NamedTuple):
    """The vectors of one space."""

    id: int
    space: str
    dims: int
    current: int
    sample: bytes | None = None

    def is_sound(self) -> bool:
        """Tell whether every field has a value that plait writes."""
        return self.current in (0, 1) and _are_sound(self.space, self.dims, self.sample)

    @property
    def named(self) -> Space:
        """The space as a value."""
        return Space(*json.loads(self.space))

    @property
    def sample_vector(self) -> Vector | None:
        """The vector of the fixed text, as the model made it when the generation began."""
        if self.sample is None:
            return None
        vector = Vector("f")
        vector.frombytes(self.sample)
        return vector


# Nearly always the same, and a store asks eight times. Types count: 384.0 is damage.
@lru_cache(maxsize=1, typed=True)
def _are_sound(space: str, dims: int, sample: bytes | None) -> bool:
    try:
        return (
            isinstance(dims, int)
            and 0 < dims <= MOST_DIMS
            and tuple(map(type, Space(*json.loads(space)))) == tuple(map(type, Space("", "", 0)))
            and isinstance(sample, bytes | None)
            and len(sample or b"") % Vector("f").itemsize == 0
        )
    except (TypeError, ValueError, RecursionError):
        return False


def generations(connection: apsw.Connection) -> list[Generation]:
    """Return all generations, the current one first."""
    listed = [Generation(*row) for row in rows(connection, _GENERATIONS)]
    for generation in listed:
        if not generation.is_sound():  # half-written pages read like this
            raise apsw.CorruptError(f"the description of vectors {generation.id} cannot be read")
    return listed


def _readable_generations(
    connection: apsw.Connection,
) -> tuple[list[Generation], str | None]:
    """Return the generations, or none of them and why."""
    try:
        return generations(connection), None
    except (apsw.CorruptError, UnicodeDecodeError) as error:
        return [], str(error)


def answering(connection: apsw.Connection, space: Space | None = None) -> Generation | None:
    """Return the current generation, only if it is of this space."""
    current = next((row for row in generations(connection) if row.current), None)
    if current is None or space is None or current.space == space_text(space):
        return current
    return None


def space_text(space: Space) -> str:
    """Return a space as it is stored: every field counts."""
    return json.dumps(list(space), ensure_ascii=False)


def pending_count(connection: apsw.Connection, generation: Generation) -> int:
    """Return how many passages wait for a vector."""
    return int(connection.execute(_PENDING_COUNT, (generation.id,)).get)


def get_number(connection: apsw.Connection, name: str) -> int | None:
    """Return a value about the memory that is a whole number."""
    return _number(name, get_meta(connection, name))


def _number(name: str, value: str | None) -> int | None:
    try:
        return None if value is None else int(value)
    except ValueError:
        raise apsw.CorruptError(f"the value of {name} in meta is not a number") from None


def get_meta(connection: apsw.Connection, name: str) -> str | None:
    """Return a value about the memory."""
    value = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).get
    return None if value is None else str(value)


def set_meta(connection: apsw.Connection, name: str, value: str) -> None:
    """Store a value about the memory."""
    connection.execute(
        "INSERT INTO meta (name, value) VALUES (?, ?) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )


def forget_meta(connection: apsw.Connection, name: str) -> None:
    """Drop a value about the memory."""
    connection.execute("DELETE FROM meta WHERE name = ?", (name,))


def set_chance(connection: apsw.Connection, chance: Chance, space: Space) -> None:
    """Store what chance finds among the vectors of a space."""
    set_meta(connection, CHANCE, json.dumps([*chance, *space], ensure_ascii=False))


def read_chance(text: str | None, space: Space | None) -> Chance | None:
    """Return what `set_chance` stored for this space; ``None`` for anything else.

    A file may come from anywhere: its numbers must be such as a sample has.
    """
    try:
        values = json.loads(text or "[]")
        if space is None or not isinstance(values, list) or values[3:] != list(space):
            return None
        cosine, spread, passages = values[:3]
        sound = (
            type(passages) is int
            and type(cosine) is type(spread) is float
            and 0 < passages <= LAST_ROW
            and 0.0 <= cosine <= 1.0
            and LEAST_SPREAD <= spread <= 1.0
        )
        return Chance(cosine, spread, passages) if sound else None
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def refuse_if_moving(connection: apsw.Connection) -> None:
    """Refuse to write while another memory is being moved into this one: it would delete that.

    Raises:
        StoreError: It is; the code is "half_moved".
    """
    _refuse_if_marked(get_meta(connection, MOVING))


def _refuse_if_marked(mark: str | None) -> None:
    if mark is not None:
        from plait.stores.moving import refuse_half_moved

        refuse_half_moved(mark)


def read_state(connection: apsw.Connection, analyzer: str) -> State:
    """Return the state of the memory."""
    facts = {name: str(value) for name, value in rows(connection, "SELECT name, value FROM meta")}
    _refuse_if_marked(facts.get(MOVING))
    listed, damage = _readable_generations(connection)
    current = next((row for row in listed if row.current), None)
    building = next((row for row in reversed(listed) if not row.current), None)
    indexed_at = connection.execute(_NEWEST).get
    if not isinstance(indexed_at, int | None):
        raise apsw.CorruptError("the time of the newest document is not a number")
    changed, due = facts.get(CHANGED_AT), facts.get(PROFILES_DUE)
    return State(
        analyzer=analyzer,
        indexed_by=facts.get("analyzer"),
        chunker=facts.get("chunker"),
        embedder=facts.get("embedder"),
        space=None if current is None else current.named,
        sample=None if current is None else current.sample_vector,
        building=None if building is None else building.named,
        building_sample=None if building is None else building.sample_vector,
        pending=0 if current is None else pending_count(connection, current),
        indexed_at=indexed_at,
        changed_at=_number(CHANGED_AT, changed),
        profiles_due=_number(PROFILES_DUE, due),
        has_messages=bool(connection.execute(_ANY_MESSAGE).get),
        passages=_number("passages", facts.get("passages")) or 0,
        chance=read_chance(facts.get(CHANCE), None if current is None else current.named),
        purged=facts.get(PURGED),
        unscrubbed=facts.get(UNSCRUBBED),
        retired=facts.get(RETIRED_KEY),
        vector_damage=damage,
    )


class KnownState:
    """Reads the state of a memory, and remembers it until the file changes."""

    _known: tuple[object, State | None] = (None, None)

    def of(self, connection: apsw.Connection, analyzer: str, own: tuple[str, ...]) -> State:
        """Return the state of the memory.

        Raises:
            apsw.CorruptError: Something in it acts, see `refuse_foreign_objects`.
        """
        keeps = may_remember(connection)
        with connection:
            schema = connection.execute("PRAGMA schema_version").get
            version = (analyzer, schema, *data_version(connection))
            # Another thread may set its own meanwhile: never look twice.
            latest, known = self._known
            if keeps and known is not None and version == latest:
                return known
            refuse_foreign_objects(connection, own)
            present = read_state(connection, analyzer)
        if keeps:
            self._known = version, present
        return present


def made_objects(connection: apsw.Connection) -> list[tuple[str, str, str, str]]:
    """Return name, type, table and SQL of all that the schema makes.

    Raises:
        apsw.CorruptError: One of these is no text, or a type is not as SQLite writes it. It reads
            them all the same, so that what acts may be no 'trigger' to whoever compares its type.
    """
    made: list[tuple[str, str, str, str]] = rows(connection, _SCHEMA)
    if not all(isinstance(value, str) for row in made for value in row):
        raise apsw.CorruptError("its schema has a value that is no text")
    if not _TYPES.issuperset(kind for _, kind, _, _ in made):
        raise apsw.CorruptError("its schema has a type that SQLite never writes")
    return made


def refuse_foreign_sequence(connection: apsw.Connection) -> None:
    """Refuse a view in the place of the numbers of last rows, which a write and a copy read.

    Raises:
        apsw.CorruptError: There is one.
    """
    for name, kind, _, _ in made_objects(connection):
        if kind != "table" and name.lower() == _SEQUENCE:
            raise apsw.CorruptError(f"its {kind} {quoted(name)} is not plait's")


def refuse_foreign_objects(connection: apsw.Connection, own: tuple[str, ...]) -> None:
    """Refuse a file whose schema would act: what it computes may take for ever, or all memory.

    A trigger that is not plait's changes what is stored next. A view or a virtual table in the
    place of a table, or a computed column, is run by every read. ``own`` has the SQL of all that
    acts in plait's own schema.

    Raises:
        SchemaTooNew: It is a newer plait's.
        apsw.CorruptError: There is one of these.
    """
    foreign = _foreign_object(tuple(made_objects(connection)), own)
    if foreign is not None:
        from plait.stores.sqlite.foreign import refuse_newer

        name, kind = foreign
        refuse_newer(connection, connection.filename)
        raise apsw.CorruptError(f"its {kind} {quoted(name)} is not plait's")


@lru_cache(maxsize=8)  # Every search asks, and a schema hardly ever changes.
def _foreign_object(
    made: tuple[tuple[str, str, str, str], ...], own: tuple[str, ...]
) -> tuple[str, str] | None:
    """Return name and type of the first object that acts and is not plait's."""
    for name, kind, _, sql in made:
        is_read = name.lower() in READ_NAMES
        acts = (
            kind == "trigger"
            or (kind == "view" and is_read)
            or (kind == "table" and is_read and _COMPUTED.search(sql.upper()) is not None)
        )
        if acts and sql not in own:
            return name, kind
    return None
