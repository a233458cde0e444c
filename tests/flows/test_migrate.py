"""Move a memory from a file into a database, and back: all of it, however often it is stopped."""

from collections.abc import Callable
from contextlib import closing
from functools import cache
from hashlib import sha256
from pathlib import Path

import apsw
import pytest

from plait.errors import NotFound, Notice, StoreDamaged, StoreError, UsageError, advise
from plait.exporting import migrating
from plait.exporting.migrating import migrate
from plait.memory import Memory
from plait.stores.moving import DOCUMENTS, TABLES, Digest, Key, TornSnapshot
from plait.testing.hashing import HashingEmbedder
from plait.types.audit import AuditQuery
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from tests import moves
from tests.builders import EVERYTHING, document, entry, write
from tests.codes import has_code
from tests.moves import furnish, is_sound, new_place, open_at, open_store, rows_of

KINDS = ["file", "database"]
WAYS = [("file", "database"), ("database", "file")]
ALL_WAYS = [*WAYS, ("file", "file"), ("database", "database")]


@pytest.fixture(autouse=True)
def few_queries(monkeypatch):
    """Ask little where answers are not what is tested."""
    monkeypatch.setattr(migrating, "QUERIES", 3)


@pytest.fixture(scope="session")
def furnished(tmp_path_factory) -> Callable[[str], str]:
    """A memory with something in every table, made once: a move only reads it."""

    @cache
    def made(kind: str) -> str:
        place = new_place(tmp_path_factory.mktemp("furnished"), kind)
        furnish(place)
        return place

    return made


@pytest.fixture(params=WAYS, ids=lambda way: " to ".join(way))
def way(request, furnished, tmp_path) -> tuple[str, str]:
    """A memory with something in every table, and an empty place."""
    source, target = request.param
    return furnished(source), new_place(tmp_path, target)


@pytest.fixture(params=ALL_WAYS, ids=lambda way: " to ".join(way))
def any_way(request, furnished, tmp_path) -> tuple[str, str]:
    """Also between two files, and between two databases."""
    source, target = request.param
    return furnished(source), new_place(tmp_path, target)


@pytest.fixture(params=WAYS, ids=lambda way: " to ".join(way))
def own_way(request, tmp_path) -> tuple[str, str]:
    """The same, for a test that changes the source."""
    source, target = (new_place(tmp_path, kind) for kind in request.param)
    furnish(source)
    return source, target


class Stopped(Exception):
    """Somebody pressed Ctrl-C."""


def stop_after(steps: int) -> Callable[[int, int, str], None]:
    """Progress that stops a move at a step."""
    left = [steps]

    def progress(done: int, total: int, table: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Stopped

    return progress


def half_moved(source: str, target: str, steps: int = 5) -> None:
    with pytest.raises(Stopped):
        migrate(source, target, progress=stop_after(steps))


# -- everything ------------------------------------------------------------------------------


def test_every_row_moves_and_both_sides_are_compared(any_way):
    source, target = any_way
    before = rows_of(source)
    assert all(before.values()), "a table without rows proves nothing"
    done = migrate(source, target)
    assert rows_of(target) == before == rows_of(source)
    assert {table.name: table.rows for table in done.tables} == {
        name: len(rows) for name, rows in before.items()
    }
    assert (done.rounds, done.queries, done.same) == (1, 3, 3)
    assert is_sound(target)


def test_a_memory_comes_back_as_it_was(tmp_path, furnished, monkeypatch):
    monkeypatch.setattr(migrating, "QUERIES", 100)
    first = furnished("file")
    second, third = (new_place(tmp_path, kind) for kind in ("database", "file"))
    there, back = migrate(first, second), migrate(second, third)
    assert there.tables == back.tables
    passages = len(rows_of(first)["passages"])
    assert (there.queries, there.same, back.same) == (passages, passages, passages)
    assert rows_of(third) == rows_of(first)


def test_searches_answer_the_same_after_a_move(any_way):
    source, target = any_way
    migrate(source, target)
    with open_at(source) as old, open_at(target) as new:
        here, there = (memory.engine.state()._replace(remote=False) for memory in (new, old))
        assert here == there
        for words in ("anchor basket", "sky", "日本語", "sails", "???"):
            for mode in ("hybrid", "keyword", "vector"):
                ours, theirs = (memory.search(words, mode=mode) for memory in (old, new))
                assert [hit.id for hit in ours] == [hit.id for hit in theirs], (words, mode)
                scores = [hit.score for hit in theirs]
                assert [hit.score for hit in ours] == pytest.approx(scores, abs=1e-4)
        for where in (EVERYTHING, EVERYTHING._replace(tags=("x\0y",))):
            assert new.engine.scan(where, by_writing=True) == old.engine.scan(
                where, by_writing=True
            )


def test_an_undo_after_the_move_brings_back_the_document_and_its_relations(way):
    source, target = way
    migrate(source, target)
    with open_at(target) as memory:
        assert "Cy" in [row.key for row in memory.undo()]
        assert [row.source for row in memory.graph.read().relations] == ["Ana", "Cy"]
        memory.undo()
        assert memory.get("note 5").text == moves.text_of(5)
    assert is_sound(target)


def test_what_an_older_plait_deleted_comes_back_with_its_use(tmp_path):
    source, target = new_place(tmp_path, "file"), new_place(tmp_path, "database")
    furnish(source)
    with open_at(source) as memory:
        refs = [memory.engine.passages(memory.get(f"note {n}").id)[0].ref for n in (2, 3)]
        with memory.engine.transaction() as tx:
            tx.touch([refs])
        for name in ("note 2", "note 3"):
            memory.delete(name)
    with closing(apsw.Connection(source)) as connection:
        connection.execute("UPDATE trash SET document = json_remove(document, '$.names')")
    migrate(source, target)
    with open_at(target) as memory:
        for name in ("note 3", "note 2"):
            assert [row.key for row in memory.undo()] == [name]
        refs = [memory.engine.passages(memory.get(f"note {n}").id)[0].ref for n in (2, 3)]
        uses = [row.use for row in memory.engine.hydrate(refs, ranking=True).values()]
    assert [use is not None and bool(use.together) for use in uses] == [True, True]


def test_the_copy_goes_on_with_numbers_that_were_never_used(own_way):
    source, target = own_way
    with open_at(source) as memory:
        memory.store("the newest of all", key="newest")
        [newest] = memory.engine.passages(memory.get("newest").id)
        memory.delete("newest")
    migrate(source, target)
    with open_at(target) as memory:
        memory.store("stored after the move", key="later")
        memory.graph.create([NewEntity("Di", "person")])
        memory.graph.relate([Relation("Di", "Bo", "knows", None)])
        [later] = memory.engine.passages(memory.get("later").id)
    assert later.ref > newest.ref
    assert is_sound(target)


def test_hashes_of_the_audit_log_stay_comparable(own_way):
    source, target = own_way
    migrate(source, target)
    latest = []
    for place in (source, target):
        with closing(open_store(place)) as store:
            row = next(row for row in store.scan(EVERYTHING) if row.key == "note 2")
            with store.transaction() as tx:
                tx.amend(row.id, title="renamed")
            [last] = store.audit(AuditQuery(documents=(row.id,)), 1)
            latest.append((last.before, last.after))
    assert latest[0] == latest[1]
    assert None not in latest[0]


def test_no_text_is_embedded_again(way, monkeypatch):
    source, target = way
    monkeypatch.setattr(HashingEmbedder, "embed", None)
    migrate(source, target)


def test_reindexing_goes_on_with_vectors_that_were_being_built(way):
    source, target = way
    migrate(source, target)
    with closing(open_store(source)) as old, closing(open_store(target)) as new:
        waiting = [row.ref for row in old.pending(moves.OTHER, 100, building=True)]
        assert waiting
        assert [row.ref for row in new.pending(moves.OTHER, 100, building=True)] == waiting
        assert new.state().building_sample == old.state().building_sample is not None


# -- stopped ---------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 3, 20])
def test_a_move_that_was_stopped_goes_on(way, steps):
    source, target = way
    half_moved(source, target, steps)
    half_moved(source, target, steps)
    migrate(source, target)
    assert rows_of(target) == rows_of(source)
    assert is_sound(target)


def test_rows_that_are_there_are_not_written_again(way, monkeypatch):
    source, target = way
    half_moved(source, target, 8)
    opened = migrating._rows_at(target, create=True, timeout=5.0)
    rows = [type(writer) for writer in [opened.writing().__enter__()]]
    opened.close()
    inserted: list[tuple[str, Key]] = []
    insert = rows[0].insert

    def counting(self, table, listed):
        inserted.extend((table.name, table.key(row)) for row in listed)
        insert(self, table, listed)

    monkeypatch.setattr(rows[0], "insert", counting)
    monkeypatch.setattr(rows[0], "delete", lambda self, table, keys: None if not keys else 1 / 0)
    migrate(source, target)
    assert inserted
    assert not {name for name, _ in inserted} & {"facts", "documents", "passages", "generations"}


@pytest.mark.parametrize("kind", KINDS)
def test_until_it_is_whole_the_copy_is_of_no_other_use(tmp_path, furnished, kind):
    source, target = furnished("file"), new_place(tmp_path, kind)
    half_moved(source, target)
    shown = migrating._rows_at(target, create=True, timeout=5.0)
    shown.close()
    step = advise("finish_move", source=source, target=shown.path)
    refused = has_code("half_moved", shown.path, step)
    with closing(open_store(target)) as store:
        with pytest.raises(StoreError, check=refused):
            store.state()
        with pytest.raises(StoreError, check=refused), store.transaction() as tx:
            _ = tx.state
    for read_only in (False, True):
        with pytest.raises(StoreError, check=refused):
            Memory.open(target, project="", read_only=read_only)
    with pytest.raises(StoreError, check=refused):
        Memory.examine(target, fix=True)
    with pytest.raises(StoreError, check=refused):  # half of a memory is not to be moved either
        migrate(target, new_place(tmp_path, "file"))
    migrate(source, target)
    with open_at(target) as memory:
        assert memory.get("note 1").text == moves.text_of(1)


def test_who_has_the_place_open_already_cannot_write_into_a_move(way):
    """It would be deleted again, because the source does not have it."""
    source, target = way
    with closing(open_store(target)) as early:
        early.state()
        half_moved(source, target)
        for patient in (True, False):
            with (
                pytest.raises(StoreError, check=has_code("half_moved")),
                early.transaction(patient=patient) as transaction,
            ):
                transaction.write(entry("late"))
        migrate(source, target)
        write(early, entry("in time"))
    assert len(rows_of(target)["documents"]) == len(rows_of(source)["documents"]) + 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_unfinished_move_can_be_dropped_and_nothing_else(tmp_path, furnished, kind):
    source, target = furnished("file"), new_place(tmp_path, kind)
    half_moved(source, target, 12)
    migrating.drop(target)
    if kind == "file":
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(NotFound, check=has_code("no_memory")):
            migrating.drop(target)
    with closing(open_store(target)) as store:
        assert store.stats().doc_count == 0
    migrate(source, target)
    with pytest.raises(UsageError, check=has_code("no_move")):
        migrating.drop(target)
    assert rows_of(target) == rows_of(source)


def test_another_process_may_drop_or_finish_a_move_meanwhile(way):
    source, target = way

    def drop(done: int, total: int, table: str) -> None:
        if table == "vectors":
            migrating.drop(target)

    with pytest.raises((UsageError, StoreError)):
        migrate(source, target, progress=drop)


# -- refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_memory_with_something_in_it_is_not_moved_into(tmp_path, furnished, kind):
    source, target = furnished("file"), new_place(tmp_path, kind)
    with open_at(target) as memory:
        memory.store("mine")
    before = rows_of(target)
    with pytest.raises(UsageError, check=has_code("target_not_empty")):
        migrate(source, target)
    assert rows_of(target) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_move_of_another_memory_is_not_overwritten(tmp_path, kind):
    first, second = (new_place(tmp_path, "file") for _ in range(2))
    target = new_place(tmp_path, kind)
    for place in (first, second):
        furnish(place)
    half_moved(first, target)
    with pytest.raises(StoreError, check=has_code("half_moved")):
        migrate(second, target)
    migrate(first, target)
    assert rows_of(target) == rows_of(first)


@pytest.mark.parametrize("kind", KINDS)
def test_a_memory_is_not_moved_to_where_it_is(tmp_path, kind):
    place = new_place(tmp_path, kind)
    with open_at(place) as memory:
        memory.store("mine")
    with pytest.raises(UsageError, check=has_code("same_place")):
        migrate(place, place)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_there_is_not_moved_and_leaves_nothing_behind(tmp_path, kind):
    with pytest.raises((NotFound, StoreError), check=has_code("no_memory")):
        migrate(new_place(tmp_path, kind), str(tmp_path / "new.db"))
    assert list(tmp_path.iterdir()) == []


def test_an_index_of_another_version_is_made_anew_first(own_way):
    source, target = own_way
    with closing(open_store(source)) as store, store.transaction() as tx:
        tx.remember(indexed_by="an older one")
    with pytest.raises(UsageError, check=has_code("other_analyzer", advice=advise("reindex"))):
        migrate(source, target)


def test_vectors_are_not_moved_to_a_server_that_cannot_keep_them(tmp_path, furnished, monkeypatch):
    source, target = furnished("file"), new_place(tmp_path, "database")
    monkeypatch.setattr("plait.stores.postgres.moving.prepare", lambda *_, **__: False)
    with open_at(target):
        pass  # makes the tables, which the other way would have made
    with pytest.raises(StoreError, check=has_code("no_vectors")):
        migrate(source, target)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE documents SET title = x'00' WHERE key = 'note 2'",
        "UPDATE trash SET document = '{' WHERE id = (SELECT max(id) FROM trash)",
        "UPDATE signals SET reads = 'many'",
    ],
)
def test_a_damaged_row_is_told_before_anything_is_in_use(tmp_path, damage):
    source, target = new_place(tmp_path, "file"), new_place(tmp_path, "database")
    furnish(source)
    with closing(apsw.Connection(source)) as connection:
        connection.execute(damage)
    with pytest.raises(StoreDamaged):
        migrate(source, target)
    with (
        closing(open_store(target)) as store,
        pytest.raises(StoreError, check=has_code("half_moved")),
    ):
        store.state()


# -- the source ------------------------------------------------------------------------------


def test_the_file_that_is_moved_does_not_change(tmp_path):
    source = new_place(tmp_path, "file")
    furnish(source)
    before = sha256(Path(source).read_bytes()).digest(), Path(source).stat().st_mtime_ns
    half_moved(source, new_place(tmp_path, "file"))
    migrate(source, new_place(tmp_path, "file"))
    assert (sha256(Path(source).read_bytes()).digest(), Path(source).stat().st_mtime_ns) == before
    assert not list(tmp_path.glob(f"{Path(source).name}-*"))


@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open elsewhere"])
def test_what_is_written_meanwhile_is_copied_too(own_way, is_open):
    source, target = own_way
    memory = open_at(source) if is_open else None
    changes = iter([_change])

    def progress(done: int, total: int, table: str) -> None:
        if table == "steps" and (change := next(changes, None)):
            if memory is not None:
                change(memory)
                return
            with open_at(source) as own:
                change(own)

    notices: list[Notice] = []
    done = migrate(source, target, progress=progress, warn=notices.append)
    if memory is not None:
        memory.close()
    assert rows_of(target) == rows_of(source)
    assert done.rounds == 1 + len(notices) > 1
    assert is_sound(target)


def _change(memory: Memory) -> None:
    """Whatever can happen to rows that were copied already."""
    memory.store("written in the middle", key="middle")
    memory.store("another text under an old name", key="note 2")
    memory.delete("note 7")
    memory.delete("note 8")
    memory.undo()
    memory.mark("note 1", status="active")
    memory.feedback("note 3", None)
    memory.graph.relate([Relation("Bo", "Ana", "asks", None)])
    store = memory.engine
    with store.transaction() as tx:
        tx.free_turn(None, "s1", 1)  # moves every later turn up by one
        tx.swap(moves.OTHER)
    write(store, entry("turned", "first", session="s1", turn=1, kind="message", role="user"))


def test_a_source_that_never_rests_is_refused_with_the_next_step(own_way, monkeypatch):
    monkeypatch.setattr(migrating, "COPY_ROUNDS", 2)
    source, target = own_way
    with open_at(source) as memory:

        def progress(done: int, total: int, table: str) -> None:
            if table == "audit":
                memory.store(f"{done} of {total}")

        with pytest.raises(
            StoreError, check=has_code("source_changes", advice=advise("stop_writers"))
        ):
            migrate(source, target, progress=progress)
    migrate(source, target)
    assert rows_of(target) == rows_of(source)


def test_a_file_that_changes_under_a_reader_is_noticed(tmp_path):
    source = new_place(tmp_path, "file")
    furnish(source)
    with (
        closing(migrating._rows_at(source, create=False, timeout=5.0)) as opened,
        pytest.raises(TornSnapshot),
        opened.reading() as reader,
    ):
        assert reader.page(DOCUMENTS, None)
        with open_at(source) as memory:
            memory.store("changed")
        reader.page(DOCUMENTS, None)


# -- bounds and digests ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_no_more_than_a_batch_is_read_at_a_time(furnished, kind):
    place = furnished(kind)
    everything = rows_of(place)
    with (
        closing(migrating._rows_at(place, create=False, timeout=5.0)) as opened,
        opened.reading() as reader,
    ):
        for table in TABLES:
            small = table._replace(batch=3)
            pages = list(migrating._pages(reader, small))
            assert all(len(page) <= 3 for page in pages)
            rows = [row for page in pages for row in page]
            assert len(rows) == len({*rows}) == reader.count(table)
            assert {*rows} == everything[table.name]


def test_a_digest_tells_every_difference_but_not_the_order():
    def digest(*rows):
        value = Digest()
        value.add(rows)
        return str(value)

    rows = [(1, "a", None), (2, "b", b"x")]
    assert digest(*rows) == digest(*reversed(rows))
    others = [digest(rows[0]), digest(*rows, rows[0]), digest(), digest((1,))]
    assert len({digest(*rows), *others}) == 5
    assert digest((1, "a")) != digest(("1", "a")) != digest((1, b"a"))


def test_memories_that_answer_otherwise_are_told_apart(tmp_path, furnished, monkeypatch):
    monkeypatch.setattr(migrating, "QUERIES", 20)
    source, other = furnished("file"), new_place(tmp_path, "file")
    with closing(open_store(other)) as store:
        write(store, *(entry(str(number), moves.text_of(number)) for number in range(20)))
    with closing(migrating._rows_at(source, create=False, timeout=5.0)) as opened:
        samples = migrating._samples(opened)
    assert migrating._compare_answers(samples, source, source, 5.0) == len(samples)
    assert migrating._compare_answers(samples, source, other, 5.0) < len(samples) // 4


def test_an_empty_memory_moves_too(tmp_path):
    source, target = new_place(tmp_path, "file"), new_place(tmp_path, "database")
    with closing(open_store(source)):
        pass
    done = migrate(source, target)
    assert done.queries == 0
    with closing(open_store(target)) as store:
        write(store, entry("first", "words"))
        assert [row.key for row in store.scan(EVERYTHING)] == [document("first").key]
