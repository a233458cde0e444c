"""Purged means gone: not a byte of it is left in the file, its journal or its shared memory."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from plait.errors import NotFound, PlaitError, StoreBusy, advise
from plait.memory import Memory
from plait.protocols import Entry
from plait.stores.sqlite import migrating, rebuilding
from plait.testing import HashingEmbedder
from plait.types import Document, Passage
from plait.types.reports import NewEntity
from plait.writing import deleting
from plait.writing.changes import Change, put
from tests.interfaces.command import spawn
from tests.reliability import memories, plants, purge_child
from tests.reliability.processes import Child, children, posix_only
from tests.reliability.scale import SCALE

pytestmark = [posix_only, pytest.mark.slow]


def secret(dice: random.Random) -> str:
    """A word that occurs nowhere else, of letters that nothing folds or splits."""
    return "qz" + "".join(dice.choices("bcdfghjkmnpqrtvwxz", k=14))


def look(path: Path, words: list[str], shared: int = purge_child.SHARED_PREFIX) -> list[str]:
    """Where these words can be read on the disk at this moment."""
    places: list[str] = answer(purge_child.look, path.parent, words, shared)
    return places


_WORDS = {
    purge_child.look: "places",
    purge_child.free_bytes: "parts",
    purge_child.lock: "lock",
}


def answer(act: Callable[..., None], *arguments: object) -> Any:
    """What another process answers."""
    with children(Child(act, *arguments)) as (child,):
        value = child.expect(_WORDS[act])[1]
        child.finish()
    return value


def plant_secrets(memory: Memory, words: list[str]) -> list[str]:
    """Documents that hold each word in every place a document has; their keys."""
    for number, word in enumerate(words):
        text = memories.prose(f"n{number}", 6) + f"# Section {word}\nThe {word} is {word}.\n"
        memory.store(
            text,
            key=f"key-{word}",
            title=f"About {word}",
            tags=[word],
            metadata={"name": word},
            summary=word,
            session=word,
        )
    return [f"key-{word}" for word in words]


def purge(path: Path, count: int, *, from_trash: bool = False) -> list[str]:
    """Plant secrets, purge them, and look for what is left while the memory is still open."""
    dice = random.Random(count)
    words = [secret(dice) for _ in range(count)]
    with memories.open_memory(path, durability="normal") as memory:
        memory.store(memories.prose("stays"), key="stays")
        keys = plant_secrets(memory, words)
        assert look(path, words[:3])
        if from_trash:
            memory.delete(*keys)
        for start in range(0, count, 20):
            memory.delete(*keys[start : start + 20], purge=True)
        assert memory.search(words[0], mode="keyword") == ()
        assert memories.faults(memory) == []
        left = look(path, words)
    with memories.open_memory(path) as memory:
        assert memories.contents(memory) == {"note:stays": memories.prose("stays")}
        with pytest.raises(NotFound):
            memory.undo()
    return left


@pytest.mark.parametrize("from_trash", [False, True])
def test_no_byte_of_a_purged_document_is_left(tmp_path, from_trash):
    assert purge(tmp_path / "memory.db", SCALE.secrets, from_trash=from_trash) == []


def test_what_is_deleted_without_purge_comes_back_whole(tmp_path):
    with memories.open_memory(tmp_path / "memory.db") as memory:
        keys = plant_secrets(memory, ["qzbcd", "qzfgh"])
        before = memories.documents(memory)
        memory.delete(*keys)
        assert memories.contents(memory) == {}
        assert memory.search("qzbcd", mode="keyword") == ()
        memory.undo()
        assert sorted(memories.documents(memory)) == sorted(before)
        assert memory.search("qzbcd", mode="keyword")[0].doc_id == "key-qzbcd"
        assert [row for row in memory.doctor() if row.level != "ok"] == []


@pytest.mark.parametrize("plant", ["no scrub", "no secure delete"])
def test_the_search_for_bytes_catches(tmp_path, plant):
    with plants.planted(plant):
        assert purge(tmp_path / "memory.db", 20) != []


# -- in bulk -------------------------------------------------------------------------------

PREFIX = "qzsharedbeginning"  # so long that the places between FTS5's pages repeat half of a word
COMMON = "qzbkgdtfplm"


class Bulk:
    """Notes with words of their own, written many at a time; the first ones are to be purged."""

    def __init__(self, path: Path, count: int = 1_000, doomed: int = 400) -> None:
        dice = random.Random(count)
        self.path = path
        self.notes = [[PREFIX + secret(dice) for _ in range(4)] for _ in range(count)]
        self.doomed, self.kept = self.notes[:doomed], self.notes[doomed:]
        changes = [
            Change(self._entry(number, words, "gone" if number < doomed else "kept"))
            for number, words in enumerate(self.notes)
        ]
        dice.shuffle(changes)
        with memories.open_memory(path, durability="normal") as memory:
            for start in range(0, count, 250):
                put(memories.store_of(memory), changes[start : start + 250])
            memories.store_of(memory).tidy()

    @staticmethod
    def _entry(number: int, words: Sequence[str], tag: str) -> Entry:
        common = COMMON if tag == "gone" else "stays"
        text = f"{words[0]} {words[1]} and {common} {words[2]}."
        document = Document(
            key=f"key-{words[0]}",
            title=f"About {words[3]}",
            text=text,
            tags=(tag, words[1]),
            metadata={"name": words[2]},
            summary=words[3],
            created_at=1,
            updated_at=1,
            event_at=number,
            indexed_at=1,
        )
        return Entry(document, [Passage(text, words[0], 1, 1, 0, 0)])

    def purged(self) -> list[str]:
        """Everything that must be gone: words, pairs of words, keys."""
        pairs = [f"{first} {second}" for first, second, *_ in self.doomed]
        return [word for words in self.doomed for word in words] + pairs

    def left(self) -> list[str]:
        """What of it can still be read, and what of the others cannot."""
        problems = ["free parts"] * answer(purge_child.free_bytes, self.path)
        problems += look(self.path, self.purged(), shared=len(PREFIX))
        problems += look(self.path, [COMMON])
        with memories.open_memory(self.path) as memory:
            problems += memories.faults(memory)
            connection = memories.connection_of(memory)
            if not rebuilding.is_sound(connection):
                problems.append("the keyword index is not sound")
            terms = {term for (term,) in connection.execute("SELECT term FROM passages_vocab")}
            begun = {term[:end].encode() for term in terms for end in range(1, len(term) + 1)}
            for (separator,) in connection.execute("SELECT term FROM passages_fts_idx"):
                if separator[1:] and separator[1:] not in begun:
                    problems.append(f"{separator} begins no term")
            for words in self.kept[::20]:
                hits = memory.search(words[2], mode="keyword")
                problems += [] if len(hits) == 1 else [f"{words[2]} finds {len(hits)}"]
        return problems


def by_filter(bulk: Bulk) -> None:
    with memories.open_memory(bulk.path, durability="normal") as memory:
        deleted = memory.delete(where={"tags": ("gone",)}, purge=True)
        assert len(deleted.ids) == len(set(deleted.ids)) == deleted.chunks_deleted == 400
        assert {f"key-{words[0]}" for words in bulk.doomed} == set(deleted.doc_ids)


def by_names(bulk: Bulk) -> None:
    with memories.open_memory(bulk.path, durability="normal") as memory:
        memory.delete(*[f"key-{words[0]}" for words in bulk.doomed], purge=True)


def from_the_trash(bulk: Bulk) -> None:
    with memories.open_memory(bulk.path, durability="normal") as memory:
        assert len(memory.delete(where={"tags": ("gone",)}).ids) == 400
        memory.delete(*[f"key-{words[0]}" for words in bulk.doomed], purge=True)


def after_an_undo(bulk: Bulk) -> None:
    with memories.open_memory(bulk.path, durability="normal") as memory:
        memory.delete(where={"tags": ("gone",)})
        assert len(memory.undo()) == 400, "many slices are one delete"
        memory.delete(where={"tags": ("gone",)}, purge=True)


def by_command(bulk: Bulk) -> None:
    env = {"PLAIT_DB_PATH": str(bulk.path), "PLAIT_EMBEDDING_PROVIDER": "none"}
    ran = spawn(
        *("delete", "--tag", "gone", "--project", "personal", "--purge", "--yes", "--json"), env=env
    )
    assert ran.code == 0, ran.err
    assert (len(ran.json["ids"]), ran.json["purged"]) == (400, True)


@pytest.mark.parametrize(
    "act",
    [by_filter, by_names, from_the_trash, after_an_undo, by_command],
    ids=lambda act: act.__name__,
)
def test_no_byte_is_left_of_400_of_1000_notes(tmp_path, act):
    bulk = Bulk(tmp_path / "memory.db")
    assert look(bulk.path, bulk.purged()[:3], shared=len(PREFIX))
    act(bulk)
    assert bulk.left() == []


def test_no_byte_is_left_of_a_purged_entity(tmp_path):
    path, dice = tmp_path / "memory.db", random.Random(5)
    words = [secret(dice) for _ in range(deleting.SLICE_DOCUMENTS * 2 + 10)]
    with memories.open_memory(path, durability="normal") as memory:
        memory.graph.create([NewEntity("Ada", "person", tuple(words)), NewEntity("Bob", "person")])
        erased = memory.graph.delete(["Ada"], purge=True)
        assert len(erased.documents.ids) == len(words) + 1
        assert [entity.name for entity in memory.graph.read().entities] == ["Bob"]
        assert look(path, words) == []
        assert memories.faults(memory) == []


@pytest.mark.parametrize("plant", ["page slack", "term counts", "separators"])
def test_the_search_for_bytes_catches_in_bulk(tmp_path, plant):
    bulk = Bulk(tmp_path / "memory.db")
    with plants.planted(plant):
        by_filter(bulk)
    assert bulk.left() != []


# -- in slices -----------------------------------------------------------------------------


def slices_of(memory: Memory, act: Callable[[], object]) -> list[int]:
    """How many documents each transaction of an act deletes, of those that delete any."""
    return memories.documents_per_transaction(memory, act, apsw.SQLITE_DELETE)


@pytest.mark.parametrize("purge", [False, True])
def test_no_transaction_deletes_more_than_a_slice(tmp_path, purge):
    bulk = Bulk(tmp_path / "memory.db", 300, 260)
    with memories.open_memory(bulk.path, durability="normal") as memory:
        slices = slices_of(memory, lambda: memory.delete(where={"tags": ("gone",)}, purge=purge))
    assert slices == [deleting.SLICE_DOCUMENTS] * 10 + [10]


@pytest.mark.parametrize("purge", [False, True])
@pytest.mark.parametrize("is_quick", [False, True])
def test_slices_grow_while_many_documents_go_quickly(tmp_path, monkeypatch, purge, is_quick):
    """Each transaction waits for the disk: that is most of the time of many small ones."""
    bulk = Bulk(tmp_path / "memory.db", 300, 260)
    monkeypatch.setattr(deleting, "MANY_DOCUMENTS", 50)
    monkeypatch.setattr(deleting, "SLICE_S", 1000.0 if is_quick else 0.0)
    monkeypatch.setattr(deleting, "TURN_S", 0.0)
    with memories.open_memory(bulk.path, durability="normal") as memory:
        slices = slices_of(memory, lambda: memory.delete(where={"tags": ("gone",)}, purge=purge))
        assert slices == ([25, 25, 50, 50, 50, 50, 10] if is_quick else [25] * 10 + [10])
        if not purge:
            restored = memories.documents_per_transaction(memory, memory.undo, apsw.SQLITE_INSERT)
            assert restored == slices


def test_slices_that_take_long_shrink_again_but_on_a_full_disk_none_grows():
    slices = deleting.Slices()
    for _ in range(40):
        slices.note(25, 0.0)
    assert slices.documents == deleting.MANY_DOCUMENTS
    assert slices.passages == deleting.MANY_DOCUMENTS  # the next ones may be large
    slices.note(400, 1.0)
    assert slices.documents == 200
    for _ in range(9):
        slices.note(25, 1.0)
    assert slices.documents == deleting.SLICE_DOCUMENTS
    slices.documents = 6
    slices.note(6, 0.0)
    assert (slices.documents, slices.passages) == (6, deleting.SLICE_PASSAGES)


def test_long_documents_make_shorter_slices(tmp_path):
    with memories.open_memory(tmp_path / "memory.db", durability="normal") as memory:
        for number in range(6):
            memory.store(memories.prose(f"n{number}", 200), key=f"n{number}", tags=["gone"])
        slices = slices_of(memory, lambda: memory.delete(where={"tags": ("gone",)}))
        chunks = memory.undo()[0].chunk_count
    assert deleting.SLICE_PASSAGES / 2 < chunks < deleting.SLICE_PASSAGES
    assert slices == [2, 2, 2]


def test_entities_keep_their_observations_unless_these_alone_fill_slices(tmp_path):
    dice = random.Random(6)
    many = tuple(secret(dice) for _ in range(deleting.SLICE_DOCUMENTS * 4))
    with memories.open_memory(tmp_path / "memory.db", durability="normal") as memory:
        few = [NewEntity(f"E{n}", "thing", tuple(f"E{n} {f}" for f in "abcd")) for n in range(7)]
        memory.graph.create([*few, NewEntity("Big", "thing", many)])
        names = [entity.name for entity in few]
        assert slices_of(memory, lambda: memory.graph.delete(names)) == [25, 10]
        assert slices_of(memory, lambda: memory.graph.delete(["Big"])) == [25, 25, 25, 25, 1]
        assert len(memory.undo()) == len(many) + 1
        assert len(memory.undo()) == 35
        assert [row for row in memory.doctor() if row.level == "error"] == []


@pytest.mark.parametrize("purge", [False, True])
def test_another_process_writes_between_two_slices(tmp_path, purge):
    bulk = Bulk(tmp_path / "memory.db", 300, 300)
    writer = Child(purge_child.write_beside, bulk.path, "gone")
    deleter = Child(purge_child.purge_in_turns, bulk.path, "gone", purge)
    with children(writer, deleter):
        writer.expect("ready")
        deleter.expect("begun")
        writer.tell("go")
        left = writer.expect("wrote")[1]
        assert deleter.expect("deleted")[1:] == (300, 300)
        writer.finish()
        deleter.finish()
    assert left % deleting.SLICE_DOCUMENTS == 0, "only whole slices are ever seen"
    assert 0 < left < 300


# -- interrupted ---------------------------------------------------------------------------

DEATHS = [
    ("deleting._delete_slice", 1),
    ("deleting._purge", 3),
    ("deleting._delete_slice", 4),
    ("scrubbing._clear_terms", 1),
    ("scrubbing._clear_slice", 1),
    ("slack.free_parts", 60),
    ("scrubbing.set_meta", 1),
    ("scrubbing._empty_journal", 2),
    ("scrubbing.checkpoint", 3),
]


@pytest.mark.parametrize(("where", "call"), DEATHS)
def test_a_killed_purge_loses_nothing_and_can_be_finished(tmp_path, where, call):
    bulk = Bulk(tmp_path / "memory.db", 300, 180)
    with children(Child(purge_child.purge_and_die, bulk.path, "gone", where, call)) as (child,):
        child.expect("dying")
        child.finish()
    with memories.open_memory(bulk.path) as memory:
        left = memories.store_of(memory).scan(purge_child.marked("gone"))
        purged = 180 - len(left)
        assert purged in (*range(0, 180, deleting.SLICE_DOCUMENTS), 180)
        assert memories.faults(memory) == []
        assert len(memories.documents(memory)) == 120 + len(left)
        state = memories.store_of(memory).state()
        reported = [row for row in memory.doctor() if row.check == "purge"]
        assert [row.level for row in reported] == ["warning"] * (state.unscrubbed is not None)
        assert (state.unscrubbed is not None) or purged in (0, 180)
        if where == "deleting._purge":  # reindexing finishes it too
            memory.reindex()
            assert memories.store_of(memory).state().unscrubbed is None
        if left:
            assert len(memory.delete(where={"tags": ("gone",)}, purge=True).ids) == len(left)
        else:
            memory.doctor(fix=True)
        assert memories.store_of(memory).state().unscrubbed is None
        assert [row for row in memory.doctor() if row.check == "purge"] == []
    assert bulk.left() == []


def test_a_reader_delays_the_end_of_a_purge_which_doctor_then_finishes(tmp_path):
    bulk = Bulk(tmp_path / "memory.db", 120, 60)
    with children(Child(purge_child.read, bulk.path)) as (reader,):
        reader.expect("reading")
        config = memories.settings(bulk.path, durability="normal", timeout=0.3)
        with Memory.open(embedder=HashingEmbedder(memories.DIMS), config=config) as memory:
            with pytest.raises(StoreBusy) as busy:
                memory.delete(where={"tags": ("gone",)}, purge=True)
            assert busy.value.code == "journal_in_use"
            assert busy.value.advice == advise("doctor_fix")
            assert memory.search(COMMON, mode="keyword") == ()
            [row] = [row for row in memory.doctor(fix=True) if row.check == "purge"]
            # A repair that cannot be done does not advise itself.
            assert (row.level, row.advice) == ("warning", None)
            reader.tell("stop")
            reader.finish()
            [row] = [row for row in memory.doctor(fix=True) if row.check == "purge"]
            assert (row.level, row.fixed) == ("ok", True)
    assert bulk.left() == []


def test_a_failed_slice_says_how_much_is_done(tmp_path):
    bulk = Bulk(tmp_path / "memory.db", 120, 120)
    with memories.open_memory(bulk.path, durability="normal") as memory:
        connection = memories.connection_of(memory)
        commits = []

        def refuse() -> bool:
            commits.append(True)
            return len(commits) > 1

        connection.set_commit_hook(refuse)
        with pytest.raises(PlaitError) as failed:
            memory.delete(where={"tags": ("gone",)})
        connection.set_commit_hook(None)
        assert f"{deleting.SLICE_DOCUMENTS} documents were deleted" in failed.value.notice.text
        assert len(memories.documents(memory)) == 120 - deleting.SLICE_DOCUMENTS
        assert len(memory.delete(where={"tags": ("gone",)}).ids) == 120 - deleting.SLICE_DOCUMENTS
        assert memories.faults(memory) == []


def test_a_purge_keeps_the_locks_of_its_process(tmp_path):
    bulk = Bulk(tmp_path / "memory.db", 60, 30)
    with memories.open_memory(bulk.path, durability="normal") as memory:
        assert answer(purge_child.lock, bulk.path)
        memory.delete(where={"tags": ("gone",)}, purge=True)
        assert answer(purge_child.lock, bulk.path)
    assert not answer(purge_child.lock, bulk.path)


def test_a_purge_through_a_link_clears_the_file_behind_it(tmp_path):
    bulk = Bulk(tmp_path / "memory.db", 120, 60)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(bulk.path)
    with memories.open_memory(link, durability="normal") as memory:
        memory.delete(where={"tags": ("gone",)}, purge=True)
    assert bulk.left() == []


def test_a_purge_of_a_file_without_wal_leaves_no_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(migrating, "journal_mode", lambda _: "delete")
    bulk = Bulk(tmp_path / "memory.db", 300, 150)
    with (
        memories.open_memory(bulk.path, durability="normal") as memory,
        memories.open_memory(bulk.path, durability="normal") as other,
    ):
        assert memories.connection_of(memory).execute("PRAGMA journal_mode").get == "delete"
        other.search("stays", limit=100)
        memory.delete(where={"tags": ("gone",)}, purge=True)
        other.store("something new")
        assert look(bulk.path, bulk.purged(), shared=len(PREFIX)) == []
    with memories.open_memory(bulk.path) as memory:
        assert memories.faults(memory) == []


def test_cleared_pages_do_not_come_back_from_the_cache_of_another_connection(tmp_path):
    bulk = Bulk(tmp_path / "memory.db", 300, 150)
    with (
        memories.open_memory(bulk.path, durability="normal") as memory,
        memories.open_memory(bulk.path, durability="normal") as other,
    ):
        other.search("stays", limit=100)
        connection = memories.connection_of(other)
        connection.execute("SELECT sum(length(text)) FROM passages").fetchall()
        connection.execute("SELECT sum(length(block)) FROM passages_fts_data").fetchall()
        memory.delete(where={"tags": ("gone",)}, purge=True)
        for number in range(30):
            other.store(f"something new {number}")
            memory.store(f"something else {number}")
        assert look(bulk.path, bulk.purged(), shared=len(PREFIX)) == []
