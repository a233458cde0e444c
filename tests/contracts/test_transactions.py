"""The memory as a whole: transactions, threads, its state, and what keeps it in order."""

from threading import Barrier, Event, Thread

import pytest

from plait.errors import EmbedderError, StoreBusy, StoreError
from plait.protocols import Store
from plait.text import parse
from plait.types import Filter
from plait.types.ids import CACHED_ANSWER
from plait.types.queries import Vocabulary
from plait.types.reports import Stats
from tests.builders import (
    EVERYTHING,
    NOW,
    SPACE,
    Engine,
    by_keyword,
    by_vector,
    delete,
    entry,
    is_sound,
    refs_of,
    vector,
    write,
)

X = vector(1, 0, 0, 0)


class Failed(Exception):
    """Raised by a test inside a transaction."""


def counts(store: Store) -> Stats:
    # A server tells only the size of all its memories.
    return store.stats()._replace(db_size_bytes=0, free_bytes=0)


# transactions


def test_entries_are_written_all_or_none(store: Store) -> None:
    write(store, entry("kept", "kept", vectors=[X]))
    with pytest.raises(EmbedderError):
        write(store, entry("a", "apple"), entry("b", "banana", vectors=[vector(1, 2)]))
    assert by_keyword(store, "apple banana kept") == ["kept"]
    assert is_sound(store)


def test_whatever_is_raised_inside_undoes_everything(store: Store) -> None:
    write(store, entry("kept", "kept", vectors=[X]), entry("b", "banana"))
    [ref] = refs_of(store, "kept")
    before = (store.state(), counts(store), store.hydrate([ref], ranking=True))
    with pytest.raises(Failed), store.transaction() as tx:
        tx.write(entry("kept", "changed", id=store.find("kept", EVERYTHING)[0][0].id))
        tx.write(entry("new", "apple", id="aaaaaaaaaaaaa", vectors=[X]))
        tx.delete([store.find("b", EVERYTHING)[0][0].id])
        tx.remember(changed_at="7")
        tx.touch([[ref]])
        tx.cache({"a": X}, (), 9)
        tx.begin(SPACE._replace(model="other"))
        raise Failed
    assert (store.state(), counts(store), store.hydrate([ref], ranking=True)) == before
    assert store.cached(["a"]) == {}
    assert by_keyword(store, "apple kept banana") == ["kept", "b"]
    assert by_vector(store, 1, 0, 0, 0) == ["kept"]
    assert is_sound(store)


def test_a_transaction_reads_what_it_wrote(store: Store) -> None:
    with store.transaction() as tx:
        row = entry("k", "one ", "two", id="aaaaaaaaaaaaa")
        tx.write(row)
        assert tx.known(row.document._replace(id="")) is not None
        assert [document.text for document in tx.load(["aaaaaaaaaaaaa"])] == ["one two"]
        assert [passage.text for passage in tx.passages("aaaaaaaaaaaaa")] == ["one ", "two"]
        tx.amend("aaaaaaaaaaaaa", title="T")
        assert tx.load(["aaaaaaaaaaaaa"])[0].title == "T"
        tx.delete(["aaaaaaaaaaaaa"])
        assert tx.load(["aaaaaaaaaaaaa"]) == []


def test_a_transaction_knows_its_moment_and_the_state_before_it_writes(engine: Engine) -> None:
    store = engine(clock=lambda: NOW)
    with store.transaction() as tx:
        assert (tx.now, tx.state) == (NOW, store.state())
        tx.remember(chunker="1")
        assert tx.state.chunker is None
    with store.transaction() as tx:
        assert tx.state.chunker == "1"
    store.close()


def test_a_transaction_inside_a_transaction_is_refused(store: Store) -> None:
    with pytest.raises(StoreError), store.transaction() as tx:
        tx.remember(chunker="1")
        with store.transaction():
            pass
    assert store.state().chunker is None
    write(store, entry("k", "x"))


def test_a_writer_that_may_not_wait_is_told_that_another_one_writes(store: Store) -> None:
    writing, done = Event(), Event()

    def hold() -> None:
        with store.transaction() as tx:
            tx.remember(chunker="theirs")
            writing.set()
            done.wait(5.0)

    other = Thread(target=hold)
    other.start()
    writing.wait(5.0)
    try:
        with pytest.raises(StoreBusy), store.transaction(patient=False):
            pass
    finally:
        done.set()
        other.join()
    with store.transaction(patient=False) as tx:
        assert tx.state.chunker == "theirs"


def test_a_patient_writer_waits_for_the_other_one(store: Store) -> None:
    writing = Event()

    def hold() -> None:
        with store.transaction() as tx:
            writing.set()
            tx.remember(chunker="theirs")

    other = Thread(target=hold)
    other.start()
    writing.wait(5.0)
    with store.transaction() as tx:
        assert tx.state.chunker == "theirs"
    other.join()


def test_a_filter_sees_what_another_thread_has_just_written(store: Store) -> None:
    where = Filter(projects=("p",))
    write(store, entry("a", "apple", project="p"), entry("b", "apple", project="q"))
    assert by_keyword(store, "apple", where=where) == ["a"]
    writer = Thread(target=lambda: write(store, entry("c", "apple", project="p")))
    writer.start()
    writer.join()
    assert sorted(by_keyword(store, "apple", where=where)) == ["a", "c"]


def test_many_threads_write_and_search_one_store(store: Store) -> None:
    threads, notes = 4, 10
    together = Barrier(threads)
    trouble: list[BaseException] = []

    def work(name: int) -> None:
        try:
            together.wait()
            for number in range(notes):
                write(store, entry(f"{name}/{number}", "apple", vectors=[X], project=f"p{name}"))
                mine = Filter(projects=(f"p{name}",))
                assert len(store.keyword(parse("apple"), 100, mine)) == number + 1
                assert len(store.vector(X, SPACE, 100, mine).hits) == number + 1
        except BaseException as error:  # noqa: BLE001 - the test raises it again
            trouble.append(error)

    workers = [Thread(target=work, args=(name,)) for name in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert trouble == []
    assert store.stats().doc_count == threads * notes
    assert is_sound(store)


# state


def test_values_of_a_caller_are_read_back_by_the_beginning_of_their_names(store: Store) -> None:
    names = ("history:a", "history:a:1", "history:a:2", "history:b")
    with store.transaction() as tx:
        tx.remember(**dict.fromkeys(names, "x"), chunker="c")
    with pytest.raises(Failed), store.transaction() as tx:
        tx.remember(**{"history:a:1": "lost"})
        raise Failed
    with store.transaction() as tx:
        tx.remember(**{"history:a:2": None, "history:b": "y"})
    assert store.remembered("history:a") == {"history:a": "x", "history:a:1": "x"}
    assert store.remembered("history:") == {**dict.fromkeys(names[:2], "x"), "history:b": "y"}
    assert store.state().chunker == "c"


def test_the_state_tells_what_was_remembered(store: Store) -> None:
    state = store.state()
    assert state.analyzer
    state = state._replace(remote=False)
    assert state[1:] == (None,) * 7 + (0, None, None, None, False, 0, *(None,) * 7, False)
    with store.transaction() as tx:
        tx.remember(indexed_by="i", chunker="c", embedder="e", changed_at="7", profiles_due="9")
        tx.remember(retired="r")
    state = store.state()
    assert (state.indexed_by, state.chunker, state.embedder) == ("i", "c", "e")
    assert (state.changed_at, state.profiles_due, state.retired) == (7, 9, "r")
    with store.transaction() as tx:
        tx.remember(chunker="d", changed_at=None)
    state = store.state()
    assert (state.chunker, state.changed_at, state.profiles_due) == ("d", None, 9)


def test_facts_keep_their_names_in_whatever_order_they_were_written(store: Store) -> None:
    for name in ("profiles_due", "embedder", "chunker", "changed_at"):
        with store.transaction() as tx:
            tx.remember(**{name: "7"})
    with store.transaction() as tx:
        tx.remember(chunker="c", **{f"x{number}": str(number) for number in range(300, 0, -1)})
    store.tidy(compact=True)  # an engine may read names and values by different ways from now on
    state = store.state()
    assert (state.chunker, state.embedder, state.changed_at, state.profiles_due) == ("c", "7", 7, 7)


def test_the_state_follows_the_documents(store: Store) -> None:
    write(store, entry("a", "x", vectors=[X], indexed_at=5), entry("b", "y", indexed_at=9))
    state = store.state()
    assert (state.space, state.pending, state.indexed_at) == (SPACE, 1, 9)
    delete(store, "b")
    assert (store.state().pending, store.state().indexed_at) == (0, 5)


# stats, tidy, check, close


def test_an_empty_store_answers_everything(store: Store) -> None:
    assert by_keyword(store, "apple") == []
    assert by_vector(store, 1, 0, 0, 0) == []
    assert not [*store.scan(EVERYTHING), *store.load(["x"]), *store.trashed()]
    assert not [
        *store.find("x", EVERYTHING),
        *store.passages("x"),
        *store.relations(None, Filter()),
    ]
    assert store.vocabulary(["a"])[:3:2] == (0, {"a": 0})
    assert store.vocabulary([]) == Vocabulary(0, {}, {})
    assert store.known([entry("k").document]) == [None]
    assert (store.hydrate([1]), store.turns([1]), store.successors(["x"])) == ({}, {}, {})
    assert (store.cached(["x"]), store.pending(SPACE, 9, building=True)) == ({}, [])
    store.tidy(keywords=True, compact=True, purged=True)
    assert store.stats().doc_count == 0
    assert is_sound(store)


def test_stats_count_what_is_there(store: Store) -> None:
    write(
        store,
        entry("a", "x ", "y", vectors=[X, None], project="p", event_at=5),
        entry("b", "z", kind="file", source="/s", event_at=7, indexed_at=NOW + 9),
    )
    stats = store.stats()
    assert (stats.doc_count, stats.chunk_count, stats.embedded_count) == (2, 3, 1)
    assert (stats.pending_count, stats.trash_count, stats.space) == (2, 0, SPACE)
    assert stats.kinds == (("file", 1), ("note", 1))
    assert stats.projects == ((None, 1), ("p", 1))
    assert stats.sources == (("/s", 1),)
    assert (stats.first_event_at, stats.last_event_at) == (5, 7)
    assert stats.indexed_at == NOW + 9


def test_tidying_loses_nothing(store: Store) -> None:
    write(store, entry("k", "apple", vectors=[X]))
    for keywords, compact, purged in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)):
        store.tidy(keywords=bool(keywords), compact=bool(compact), purged=bool(purged))
        assert (by_keyword(store, "apple"), by_vector(store, 1, 0, 0, 0)) == (["k"], ["k"])
    assert is_sound(store)


def test_a_closed_store_refuses_to_answer(store: Store) -> None:
    store.close()
    store.close()
    with pytest.raises(StoreError):
        store.stats()
    with pytest.raises(StoreError):
        write(store, entry("k", "x"))


# what a transaction wrote, it reads


@pytest.mark.parametrize("count", [1, 4, 5, 300])
def test_a_transaction_reads_the_passages_that_it_wrote(store: Store, count: int) -> None:
    write(store, entry("before", "before", vectors=[X]))
    with store.transaction() as tx:
        for number in range(count):
            row = entry(f"k{number}", f"word{number}", id=f"id{number:011}")
            tx.write(row)
        assert [passage.text for passage in tx.passages("id00000000000")] == ["word0"]
        again = entry("k0", "other words", id="id00000000000")
        tx.write(again)
        assert tx.openings(["id00000000000"]) == ["other words"]
        [document] = tx.load(["id00000000000"])
        assert document.text == "other words"
        tx.delete([f"id{count - 1:011}"])
    left = [f"k{number}" for number in range(count - 1)]
    assert by_keyword(store, "other") == (["k0"] if count > 1 else [])
    assert store.state().pending == len(left)
    assert sorted(by_keyword(store, f"word{count // 2}")) == ([f"k{count // 2}"] * (count > 1))
    assert is_sound(store)


def test_a_passage_keeps_an_id_only_if_no_other_one_of_the_transaction_has_it(store: Store) -> None:
    with store.transaction() as tx:
        for key in ("first", "second"):
            row = entry(key, "text", id=key)
            wanted = [passage._replace(id="a" * 13) for passage in row.passages]
            tx.write(row._replace(passages=wanted))
        first, second = tx.passages("first")[0].id, tx.passages("second")[0].id
    assert first == "a" * 13
    assert second not in ("", first)


def test_clearing_the_cache_drops_answers_and_nothing_else_that_is_remembered(store: Store) -> None:
    answers = {f"{CACHED_ANSWER}{name}": name for name in ("a", "é")}
    others = {"history:answers": "x", "history:said:s": "y"}
    with store.transaction() as tx:
        tx.remember(**answers, **others)
    assert store.remembered(CACHED_ANSWER) == answers
    with store.transaction() as tx:
        tx.clear_cache()
    assert store.remembered("history:") == others
