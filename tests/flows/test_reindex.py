"""Reindex: search never goes dark, a new space takes over whole, and what was cut short goes on."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any

import apsw
import pytest

from plait.errors import EmbedderError, Notice, advise
from plait.memory import Memory
from plait.protocols import Vector
from plait.settings.loading import load
from plait.testing import HashingEmbedder
from plait.types import TextKind
from plait.types.reports import Reindexed
from plait.writing import backfill, reindex
from tests.builders import Counting, Failing, vector

COUNT = 10


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A memory of ten notes with vectors of 256 dims; batches are small enough to stop between."""
    monkeypatch.setattr(backfill, "EMBED_BATCH", 3)
    place = tmp_path / "memory.db"
    with opened(place) as memory:
        for number in range(COUNT):
            memory.store(f"kubernetes note {number}", key=f"{number}")
    return place


def opened(path: Path, embedder: Any = "hashing", **flags: Any) -> Memory:
    config = load({"db_path": str(path), "project": "", **flags})
    return Memory.open(embedder=embedder, config=config)


def levels(memory: Memory) -> set[str]:
    return {finding.level for finding in memory.doctor()}


class Stepping(HashingEmbedder):
    """Stops after its first batch until the test has looked around."""

    def __init__(self, dims: int, look: Callable[[], None]) -> None:
        super().__init__(dims)
        self._look = look

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        if kind == "passage":
            self._look()
        return super().embed(texts, kind)


@pytest.mark.parametrize("dims", [64, 256], ids=["new space", "same space anew"])
def test_search_answers_in_full_at_every_step_of_a_reindex(path: Path, dims: int) -> None:
    looks: list[tuple[int, int]] = []
    with opened(path) as reader:

        def look() -> None:
            by_word = reader.search("kubernetes", mode="keyword", limit=50)
            by_likeness = reader.search("kuberntes", mode="vector", limit=50)
            assert by_likeness.receipt.degraded == ()
            looks.append((len(by_word), len(by_likeness)))

        with opened(path, Stepping(dims, look)) as writer:
            done = writer.reindex(embeddings=True)
            assert (done.chunks, done.embedded, done.swapped) == (COUNT, COUNT, True)
            assert writer.search("kuberntes", mode="vector").receipt.degraded == ()
            assert levels(writer) == {"ok"}
    assert looks == [(COUNT, COUNT)] * 4


def test_search_answers_from_another_thread_while_a_reindex_runs(path: Path) -> None:
    inside, looked = Event(), Event()

    def look() -> None:
        inside.set()
        looked.wait(30)

    with opened(path, Stepping(64, look)) as memory, opened(path) as reader:
        worker = Thread(target=memory.reindex)
        worker.start()
        assert inside.wait(30)
        during = reader.search("kuberntes", mode="vector", limit=50)
        looked.set()
        worker.join()
        assert len(during) == COUNT
        assert memory.stats().space == memory.embedder.space


def test_a_new_space_takes_over_and_the_old_one_leaves_nothing(path: Path) -> None:
    with opened(path, HashingEmbedder(64)) as memory:
        assert [notice.code for notice in memory.outdated_rules()] == ["other_embedder"]
        done = memory.reindex()
        assert (done.embedded, done.swapped, done.trouble) == (COUNT, True, None)
        assert memory.outdated_rules() == []
        assert memory.search("kuberntes").receipt.degraded == ()
        assert memory.stats().space == HashingEmbedder(64).space
        assert levels(memory) == {"ok"}
    with opened(path, HashingEmbedder(256)) as old:
        [notice] = old.search("kuberntes").receipt.degraded
        assert notice.code == "other_embedder"
        assert "64 dims" in notice.text


def test_a_reindex_cut_short_leaves_the_old_vectors_and_the_next_one_goes_on(path: Path) -> None:
    with opened(path, Failing(calls=2, dims=64)) as memory:
        done = memory.reindex()
        assert (done.embedded, done.swapped) == (6, False)
        assert done.trouble == Notice("the embedder is down", "embedder_failed")
    with opened(path) as memory:
        assert len(memory.search("kuberntes", mode="vector", limit=50)) == COUNT
    embedder = Counting(64)
    with opened(path, embedder) as memory:
        assert "not finished" in str(memory.doctor())
        done = memory.reindex()
        assert (done.embedded, done.swapped) == (4, True)
        assert len(embedder.asked) == 4, "what was done is not done again"
        assert levels(memory) == {"ok"}


def test_what_is_written_during_a_reindex_is_in_the_new_space_too(path: Path) -> None:
    notes = iter(["late one", "late two"])
    with opened(path, HashingEmbedder(256)) as writer:

        def look() -> None:
            text = next(notes, None)
            if text is not None:
                writer.store(text, key=text)
                writer.delete("3" if text == "late one" else "4")

        with opened(path, Stepping(64, look)) as memory:
            assert memory.reindex().swapped
            stats = memory.stats()
            assert (stats.chunk_count, stats.embedded_count) == (COUNT, COUNT)
            assert {hit.doc_id for hit in memory.search("late", mode="vector", limit=2)} == {
                "late one",
                "late two",
            }
            assert levels(memory) == {"ok"}


def test_a_reindex_with_nothing_to_do_embeds_nothing(path: Path) -> None:
    embedder = Counting()
    with opened(path, embedder) as memory:
        done = memory.reindex()
        assert (done.chunks, done.embedded, done.swapped, done.rechunked) == (COUNT, 0, False, 0)
        assert embedder.asked == []


def test_vectors_can_be_made_for_a_memory_that_had_none(tmp_path: Path) -> None:
    place = tmp_path / "plain.db"
    with opened(place, "none") as memory:
        memory.store("kubernetes", key="k")
    with opened(place) as memory:
        assert memory.reindex().embedded == 1
        assert memory.search("kuberntes", mode="vector")[0].doc_id == "k"


def test_an_embedder_of_nothing_reindexes_the_words_alone(path: Path) -> None:
    with opened(path, "none") as memory:
        done = memory.reindex(compact=True)
        assert (done.chunks, done.embedded) == (COUNT, 0)
        assert memory.stats().embedded_count == 0, "whoever chooses no embedder keeps no vectors"


class Cracked(HashingEmbedder):
    """Has no direction for one passage."""

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        good = super().embed(texts, kind)
        return [
            vector(*[0.0] * self.dims) if "note 4" in text else row
            for text, row in zip(texts, good, strict=True)
        ]


def test_one_bad_vector_does_not_keep_a_memory_from_its_new_space(path: Path) -> None:
    with opened(path, Cracked(64)) as memory:
        done = memory.reindex()
        assert (done.embedded, done.swapped, done.trouble) == (COUNT - 1, True, None)
        assert len(memory.search("kubernetes", mode="keyword", limit=50)) == COUNT
        assert levels(memory) == {"ok"}


class Useless(HashingEmbedder):
    """Promises a size that it does not keep."""

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        return HashingEmbedder(8).embed(texts, kind)


def test_an_embedder_that_is_wrong_about_itself_is_named_and_changes_nothing(path: Path) -> None:
    with opened(path, Useless(64)) as memory:
        done = memory.reindex()
        assert done.trouble is not None
        assert done.trouble.code == "embedder_failed"
        assert "8 dimensions instead of 64" in done.trouble.text
        assert not done.swapped
    with opened(path) as memory:
        assert len(memory.search("kuberntes", mode="vector", limit=50)) == COUNT


def test_a_space_begun_and_given_up_is_cleared_by_the_next_reindex(path: Path) -> None:
    with opened(path, Failing(calls=1, dims=64)) as memory:
        memory.reindex()
    with opened(path) as memory:
        assert "warning" in levels(memory)
        memory.reindex()
        assert levels(memory) == {"ok"}


def test_progress_is_told(path: Path) -> None:
    seen: list[int] = []
    with opened(path) as memory:
        memory.reindex(embeddings=True, progress=lambda done, *_: seen.append(done))
    assert seen == [3, 6, 9, 10]


# Identity


LONG = "".join(f"Sentence number {n} of a long note. " for n in range(100))


@pytest.fixture
def cut(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "cut.db"
    with opened(place) as memory:
        memory.store(LONG, key="long", title="Long")
        memory.store("short", key="short")
        memory.store("a fact")
    yield place


@pytest.mark.parametrize("value", ["x", "", "1:512", "1:many:50", "1:2:3:4"])
def test_an_unknown_way_of_cutting_is_told_and_mended(cut: Path, value: str) -> None:
    connection = apsw.Connection(str(cut))
    connection.execute("UPDATE meta SET value = ? WHERE name = 'chunker'", (value,))
    connection.close()
    with opened(cut) as memory:
        assert [notice.code for notice in memory.outdated_rules()] == ["other_chunker"]
        assert memory.store(LONG, key="another").chunks == memory.lookup("long")[0].chunk_count
        memory.reindex()
        assert memory.outdated_rules() == []


def test_another_way_of_cutting_is_noticed_said_and_mended(cut: Path) -> None:
    with opened(cut, chunk_size=300, chunk_overlap=30) as memory:
        [notice] = memory.outdated_rules()
        assert (notice.code, notice.advice) == ("other_chunker", advise("reindex"))
        assert "1200" in notice.text
        assert "300" in notice.text
        told = [(finding.message, finding.advice) for finding in memory.doctor()]
        assert (notice.text, notice.advice) in told
        before = memory.lookup("long")[0]
        assert memory.search("number 42").receipt.mode_used == "hybrid"
        done = memory.reindex()
        assert done.rechunked == 3
        after = memory.lookup("long")[0]
        assert after.chunk_count > before.chunk_count
        assert after._replace(chunk_count=0) == before._replace(chunk_count=0)
        assert memory.outdated_rules() == []
        assert memory.stats().pending_count == 0
        assert levels(memory) == {"ok"}
        assert memory.reindex().rechunked == 0


def test_cutting_anew_keeps_the_passages_that_come_out_the_same(cut: Path) -> None:
    with opened(cut, chunk_size=300, chunk_overlap=30) as memory:
        before = [p.id for p in memory.passages_of(memory.lookup("short")[0].id)]
        memory.reindex()
        assert [p.id for p in memory.passages_of(memory.lookup("short")[0].id)] == before


def test_files_are_cut_anew_in_their_own_style(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.org").write_text("* Heading\n" + LONG, encoding="utf-8")
    with opened(tmp_path / "m.db") as memory:
        memory.ingest(folder)
    with opened(tmp_path / "m.db", chunk_size=300, chunk_overlap=30) as memory:
        memory.reindex()
        pieces = memory.passages_of(memory.lookup("a.org")[0].id)
        assert len(pieces) > 5
        assert {piece.heading for piece in pieces} == {"Heading"}


class Meddling(HashingEmbedder):
    """Lets another process act the first time it is asked for a passage's vector."""

    def __init__(self, dims: int, act: Callable[[], object], times: int = 1) -> None:
        super().__init__(dims)
        self._act = act
        self._times = times

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        if kind == "passage" and self._times:
            self._times -= 1
            self._act()
        return super().embed(texts, kind)


def test_cutting_anew_never_undoes_what_was_stored_meanwhile(cut: Path) -> None:
    with opened(cut, "none") as other:

        def store() -> None:
            other.store("quite another text", key="long", title="Long")

        with opened(cut, Meddling(256, store), chunk_size=300, chunk_overlap=30) as memory:
            assert memory.reindex().rechunked == 2
            assert memory.lookup("long")[0].text == "quite another text"
            assert levels(memory) == {"ok"}


@pytest.mark.parametrize("again", [False, True], ids=["gone", "gone and stored again"])
def test_cutting_anew_never_brings_back_what_was_purged_meanwhile(cut: Path, again: bool) -> None:
    with opened(cut, "none") as other:

        def purge() -> None:
            other.delete("long", purge=True)
            if again:
                other.store("a fresh start", key="long")

        with opened(cut, Meddling(256, purge), chunk_size=300, chunk_overlap=30) as memory:
            assert memory.reindex().rechunked == 2
            texts = [hit.text for hit in memory.search("sentence number start", mode="keyword")]
            assert texts == (["a fresh start"] if again else [])
            assert memory.stats().doc_count == 2 + again
            assert levels(memory) == {"ok"}


def test_a_reindex_starts_over_once_when_another_has_dropped_its_vectors(path: Path) -> None:
    with (
        opened(path, HashingEmbedder(32)) as other,
        opened(path, Meddling(64, other.reindex)) as memory,
    ):
        done = memory.reindex()
        assert (done.swapped, done.trouble) == (True, None)
        stats = memory.stats()
        assert stats.space == HashingEmbedder(64).space
        assert (stats.embedded_count, stats.pending_count) == (COUNT, 0)
        assert levels(memory) == {"ok"}


def test_two_reindexes_that_fight_over_a_memory_do_not_go_on_for_ever(path: Path) -> None:
    rounds: list[Reindexed] = []
    with (
        opened(path, HashingEmbedder(32)) as other,
        opened(path, Meddling(64, lambda: rounds.append(other.reindex()), times=9)) as memory,
    ):
        done = memory.reindex()
        assert len(rounds) == reindex.BEGINNINGS
        assert not done.swapped
        assert done.trouble is not None
        assert done.trouble.code == "rival_reindex"
        assert memory.stats().space == HashingEmbedder(32).space
        assert len(other.search("kuberntes", mode="vector", limit=50)) == COUNT
        assert levels(other) == {"ok"}


def test_another_analyzer_is_noticed_said_and_mended(cut: Path) -> None:
    with opened(cut) as memory:
        with memory.engine.transaction() as transaction:
            transaction.remember(indexed_by="an older one")
        [notice] = memory.outdated_rules()
        assert notice.code == "other_analyzer"
        assert "an older one" in notice.text
        memory.reindex()
        assert memory.outdated_rules() == []


def test_a_memory_is_opened_with_the_embedder_it_was_built_with(cut: Path) -> None:
    with Memory.open(cut, project="") as memory:
        assert memory.embedder.space == HashingEmbedder().space
        assert memory.outdated_rules() == []


def test_vectors_of_an_embedder_that_cannot_be_opened_leave_the_words(tmp_path: Path) -> None:
    class Foreign(HashingEmbedder):
        def __init__(self) -> None:
            super().__init__()
            self.space = self.space._replace(provider="their own program")

    with opened(tmp_path / "f.db", Foreign()) as memory:
        memory.store("kubernetes", key="k")
    with Memory.open(tmp_path / "f.db", project="") as memory:
        assert [hit.doc_id for hit in memory.search("kubernetes")] == ["k"]
        memory.store("another")
        assert memory.stats().pending_count == 1


def test_trouble_is_an_embedder_error_not_a_crash(path: Path) -> None:
    class Crashing(HashingEmbedder):
        def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
            raise EmbedderError("out of memory")

    with opened(path, Crashing(32)) as memory:
        assert memory.reindex().trouble == Notice("out of memory", "embedder_failed")


class Renamed(HashingEmbedder):
    """Calls itself otherwise after its first batch: its answer told more than its name."""

    def __init__(self) -> None:
        super().__init__(64)
        self.batches = 0

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        self.batches += 1
        if self.batches > COUNT:
            raise EmbedderError("asked for the same passages again and again")
        vectors = super().embed(texts, kind)
        self.space = self.space._replace(revision="2")
        return vectors


def test_a_model_that_changes_its_name_meanwhile_does_not_embed_for_ever(path: Path) -> None:
    with opened(path) as memory:
        store, model = memory.engine, Renamed()
        with store.transaction() as transaction:
            transaction.begin(model.space)
        run = backfill.Backfill(store, model)
        assert (run.fill(), run.trouble, model.batches) == (COUNT, None, 4)
