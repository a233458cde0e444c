"""A memory behaves like a dictionary, whatever is done to it and in whatever order."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from plait.errors import NotFound
from plait.types import Document, ModeName
from tests.reliability import memories, plants
from tests.reliability.scale import SCALE

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

DIMS = (16, 24)
# Syncing is not what is tested here, and most of the time would go into it.
MEMORY_DISK = "/dev/shm" if Path("/dev/shm").is_dir() else None
KEYS = ("alpha", "beta", "gamma")
TOKENS = tuple(memories.WORDS[:8])
GLUE = (" ", "\n", "\n\n", "\n# ", "\n- ", "\n```\n", ". ", " 日本語 ", " é ")
SIZES = settings(
    max_examples=SCALE.machines,
    stateful_step_count=SCALE.steps,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=False,
)

# A planted bug need not be shrunk to be seen.
UNSHRUNK = settings(SIZES, phases=[Phase.generate])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Markdown of one to a few passages, made of words that can be looked for."""
    parts = draw(st.lists(st.tuples(st.sampled_from(TOKENS), st.sampled_from(GLUE)), min_size=1))
    repeat = draw(st.sampled_from((1, 1, 4)))
    return "".join(word + glue for word, glue in parts) * repeat + draw(st.sampled_from(TOKENS))


class Entry:
    """One document of the model."""

    def __init__(self, id_: str, key: str | None, text: str) -> None:
        self.id, self.key, self.text = id_, key, text

    @property
    def meaning(self) -> tuple[str | None, str]:
        """Observations that differ in spacing only are one."""
        return self.key, " ".join(self.text.split())


class MemoryMachine(RuleBasedStateMachine):
    """The memory beside its model: ``live`` by id, the batches of deletes, oldest first, and what
    undo has left aside because something newer had taken its place.
    """

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY_DISK)
        self.files = 0
        self.dims = DIMS[0]
        self.now = 1_700_000_000_000
        self.live: dict[str, Entry] = {}
        self.trash: list[list[Entry]] = []
        self.aside: list[Entry] = []
        self._open(self._new_path())

    def teardown(self) -> None:
        if hasattr(self, "memory"):
            self.memory.close()
            self.folder.cleanup()

    def _new_path(self) -> Path:
        self.files += 1
        return Path(self.folder.name) / f"{self.files}.db"

    def _open(self, path: Path) -> None:
        self.memory = memories.open_specially(
            path, self.dims, durability="normal", clock=lambda: self.now
        )

    def _named(self, key: str | None) -> Entry | None:
        return next((entry for entry in self.live.values() if entry.key == key), None)

    # -- putting in ------------------------------------------------------------------------

    @rule(key=st.sampled_from(KEYS), text=texts())
    def store_a_note(self, key: str, text: str) -> None:
        old = self._named(key)
        stored = self.memory.store(text, key=key)
        assert stored.replaced == (old is not None)
        assert old is None or stored.id == old.id
        self.live[stored.id] = Entry(stored.id, key, text)

    @rule(text=texts())
    def store_an_observation(self, text: str) -> None:
        fresh = Entry("", None, text)
        twins = {entry.id for entry in self.live.values() if entry.meaning == fresh.meaning}
        stored = self.memory.store(text)
        assert stored.duplicate == bool(twins)
        if twins:
            assert stored.id in twins
        else:
            self.live[stored.id] = Entry(stored.id, None, text)

    # -- taking out ------------------------------------------------------------------------

    @precondition(lambda self: self.live)
    @rule(data=st.data(), several=st.booleans(), purge=st.booleans())
    def delete(self, data: st.DataObject, several: bool, purge: bool) -> None:
        most = 3 if several else 1
        chosen = data.draw(
            st.lists(st.sampled_from(list(self.live)), min_size=1, max_size=most, unique=True)
        )
        names = [self.live[id_].key or id_ for id_ in chosen]
        done = self.memory.delete(*names, purge=purge)
        gone = [self.live.pop(id_) for id_ in chosen]
        older = [entry.id for entry in self._trashed() if entry.key in names] if purge else []
        assert sorted(done.ids) == sorted([*chosen, *older])
        for id_ in older:
            self._take_from_trash(id_)
        if not purge:
            self.trash.append(gone)

    @precondition(lambda self: self._trashed())
    @rule(data=st.data())
    def purge_from_the_trash(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self._trashed()))
        assert self.memory.delete(entry.id, purge=True).ids == (entry.id,)
        self._take_from_trash(entry.id)

    def _trashed(self) -> list[Entry]:
        return [entry for batch in [self.aside, *self.trash] for entry in batch]

    def _take_from_trash(self, id_: str) -> None:
        self.trash = [[entry for entry in batch if entry.id != id_] for batch in self.trash]
        self.trash = [batch for batch in self.trash if batch]
        self.aside = [entry for entry in self.aside if entry.id != id_]

    @rule()
    def undo(self) -> None:
        if not self.trash:
            with pytest.raises(NotFound):
                self.memory.undo()
            return
        batch = self.trash.pop()
        taken = [entry for entry in batch if self._is_taken(entry)]
        free = {entry.id: entry for entry in batch if entry not in taken}
        self.aside += taken
        if free:
            assert {document.id for document in self.memory.undo()} == free.keys()
        else:
            with pytest.raises(NotFound):
                self.memory.undo()
        self.live |= free

    def _is_taken(self, entry: Entry) -> bool:
        """Whether a newer note has its key, or a newer observation says the same."""
        if entry.key is not None:
            return self._named(entry.key) is not None
        return any(other.meaning == entry.meaning for other in self.live.values())

    # -- looking ---------------------------------------------------------------------------

    @rule(token=st.sampled_from(TOKENS), mode=st.sampled_from(("keyword", "hybrid")))
    def search(self, token: str, mode: ModeName) -> None:
        hits = self.memory.search(token, mode=mode, limit=1_000)
        by_keyword = {hit.document.id for hit in hits if hit.source != "vector"}
        holding = {entry.id for entry in self.live.values() if token in _words(entry.text)}
        assert by_keyword == holding
        assert {hit.document.id for hit in hits} <= self.live.keys()

    @precondition(lambda self: self.live)
    @rule(data=st.data(), by_key=st.booleans())
    def get(self, data: st.DataObject, by_key: bool) -> None:
        entry = self.live[data.draw(st.sampled_from(list(self.live)))]
        document = self.memory.get(entry.key if by_key and entry.key else entry.id)
        assert isinstance(document, Document)
        assert (document.id, document.key, document.text) == (entry.id, entry.key, entry.text)

    # -- looking after ---------------------------------------------------------------------

    @rule(embeddings=st.booleans(), compact=st.booleans())
    def reindex(self, embeddings: bool, compact: bool) -> None:
        self.memory.reindex(embeddings=embeddings, compact=compact)
        assert [row.message for row in self.memory.doctor() if row.level != "ok"] == []

    @rule(milliseconds=st.sampled_from((-5_000, 1, 5_000)))
    def let_the_clock_jump(self, milliseconds: int) -> None:
        self.now += milliseconds

    @rule(switch=st.booleans())
    def reopen(self, switch: bool) -> None:
        path = Path(self.memory.path)
        self.memory.close()
        if switch:
            self.dims = sum(DIMS) - self.dims
        self._open(path)

    @rule()
    def move_into_a_backup(self) -> None:
        path = self._new_path()
        self.memory.backup(path)
        self.memory.close()
        self._open(path)

    @rule()
    def move_by_export_and_import(self) -> None:
        lines = list(self.memory.export())
        self.memory.close()
        self._open(self._new_path())
        done = self.memory.import_lines(lines)
        assert done.added + done.replaced + done.kept == len(self.live)
        assert sorted(map(_lasting, self.memory.export())) == sorted(map(_lasting, lines))
        self.trash = []
        self.aside = []

    # -- what always holds -----------------------------------------------------------------

    @invariant()
    def the_memory_holds_what_the_model_holds(self) -> None:
        if not hasattr(self, "memory"):
            return
        actual = {document.id: document for document in memories.documents(self.memory)}
        assert {id_: document.text for id_, document in actual.items()} == {
            id_: entry.text for id_, entry in self.live.items()
        }
        assert {id_: document.key for id_, document in actual.items()} == {
            id_: entry.key for id_, entry in self.live.items()
        }
        errors = [row.message for row in self.memory.doctor() if row.level == "error"]
        assert errors == []
        stats = self.memory.stats()
        assert stats.doc_count == len(self.live)
        assert stats.chunk_count == sum(document.chunk_count for document in actual.values())
        assert stats.trash_count == len(self._trashed())


def _lasting(line: str) -> str:
    """An exported line without the time of indexing, which is the importer's own."""
    record = json.loads(line)
    record.pop("indexed_at", None)
    return json.dumps(record, sort_keys=True)


def _words(text: str) -> set[str]:
    return set("".join(char if char.isalnum() else " " for char in text).split())


def test_the_memory_behaves_like_its_model():
    run_state_machine_as_test(MemoryMachine, settings=SIZES)


@pytest.mark.parametrize("plant", ["no delete trigger", "vectors stay", "replace documents"])
def test_the_model_catches(plant):
    with plants.planted(plant), pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(MemoryMachine, settings=UNSHRUNK)
