"""Whatever an embedding server does: text stays, search answers, no bad vector gets in (R12)."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from plait.embedders import Embedder
from plait.embedders.ollama import Ollama
from plait.embedders.openai import Custom
from plait.embedders.transport import Limits
from plait.errors import advise
from plait.memory import Memory
from plait.types import Space
from plait.writing.backfill import embedding_input
from tests.builders import cosines
from tests.embedding_server import DIMS, HARMLESS, LASTING, PASSING, EmbeddingServer

pytestmark = pytest.mark.unmeasured

KEY = "sk-canary-7f3b19c2e5d84a60"
NOTES = 6
# Nobody waits in vain for a server that answers; for one that never will, a moment is enough.
PATIENT = Limits(body=2_000_000, sleep=lambda _: None)
HASTY = PATIENT._replace(silence=0.3, whole=0.6)
SILENT = ("hang", "drip", "drip-head")

PROTOCOLS = ("ollama", "openai")


class Workbench(NamedTuple):
    server: EmbeddingServer
    folder: Path
    protocol: str

    def embedder(self, known: Space | None = None) -> Embedder:
        def key(origin: str) -> str | None:
            assert origin == self.server.url
            return KEY

        limits = HASTY if self.server.fault in SILENT else PATIENT
        if self.protocol == "ollama":
            return Ollama(url=self.server.url, known=known, key=key, limits=limits)
        place = f"{self.server.openai_url}#text-embedding-3-small"
        return Custom(place, known=known, key=key, limits=limits)

    def memory(self) -> Memory:
        return Memory.open(self.folder / "memory.db", embedder=self.embedder(), project="")

    def write_notes(self, first: int = 0) -> Path:
        notes = self.folder / "notes"
        notes.mkdir(exist_ok=True)
        for number in range(first, first + NOTES):
            # Unlike each other, so that a vector in the wrong place would show.
            filling = " ".join(
                f"{random.Random(100 * number + word).getrandbits(40):x}" for word in range(9)
            )
            text = f"# Note {number}\n\npassword machine{number} swordfish{number}.\n{filling}\n"
            (notes / f"{number}.md").write_text(text, encoding="utf-8")
        return notes


@pytest.fixture(params=PROTOCOLS)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workbench]:
    with EmbeddingServer() as server:
        yield Workbench(server, tmp_path, request.param)
        sent = [dict(request.headers) for request in server.elsewhere.requests]
        assert sent == [], "another host was asked"
        for file in tmp_path.glob("memory.db*"):
            assert KEY.encode() not in file.read_bytes()


def assert_everything_is_found(memory: Memory, count: int) -> None:
    for number in range(count):
        answer = memory.search(f"machine{number}", mode="keyword", limit=1)
        assert f"swordfish{number}" in answer[0].text


def assert_no_bad_vector(memory: Memory, bench: Workbench) -> None:
    """Every stored vector is the one that the healthy server gives for its very passage."""
    store = memory.engine
    space = store.state().space
    assert space is not None
    assert space.dims == DIMS
    healthy = bench.embedder(space)
    for document in memory.timeline(limit=100):
        for passage in memory.passages_of(document.id):
            seen = embedding_input(document.title, passage.heading, passage.text, 8_000)
            [expected] = healthy.embed([seen], "passage")
            assert expected is not None
            # Rounded to bytes in the store, so not quite 1; other notes are below 0.9.
            [cosine] = cosines(store, expected, [passage.ref], space).values()
            assert cosine > 0.99, document.key


def assert_drains(bench: Workbench, count: int) -> None:
    bench.server.fault = None
    with bench.memory() as memory:
        done = memory.reindex()
        assert done.trouble is None
        assert memory.stats().pending_count == 0
        assert memory.stats().embedded_count == memory.stats().chunk_count
        assert_everything_is_found(memory, count)
        assert_no_bad_vector(memory, bench)
        assert not [row for row in memory.doctor() if row.level == "error"]


@pytest.mark.parametrize("fault", LASTING)
def test_an_ingest_keeps_all_text_and_the_vectors_follow(bench: Workbench, fault: str) -> None:
    folder = bench.write_notes()
    bench.server.fault = fault
    with bench.memory() as memory:
        report = memory.ingest(folder)
        assert report.count("added") == NOTES
        assert report.pending == NOTES
        assert report.trouble is not None
        assert KEY not in str(report.trouble)
        assert "\n" not in report.trouble.text
        assert memory.stats().embedded_count == 0
        assert_everything_is_found(memory, NOTES)
    assert_drains(bench, NOTES)


@pytest.mark.parametrize("fault", LASTING)
def test_a_search_answers_by_keyword_in_time_and_says_why(bench: Workbench, fault: str) -> None:
    folder = bench.write_notes()
    with bench.memory() as memory:
        assert memory.ingest(folder).pending == 0
    bench.server.fault = fault
    with bench.memory() as memory:
        answer = memory.search("what is the password of machine3", limit=1)
        assert "swordfish3" in answer[0].text
        assert answer.receipt.mode_used == "keyword"
        [reason] = answer.receipt.degraded
        assert KEY not in str(reason)
    bench.server.fault = None
    with bench.memory() as memory:
        again = memory.search("what is the password of machine3", limit=1)
        assert (again.receipt.mode_used, again.receipt.degraded) == ("hybrid", ())


@pytest.mark.parametrize("fault", LASTING)
def test_a_reindex_leaves_the_old_vectors_answering(bench: Workbench, fault: str) -> None:
    folder = bench.write_notes()
    with bench.memory() as memory:
        memory.ingest(folder)
    bench.server.fault = fault
    with bench.memory() as memory:
        done = memory.reindex(embeddings=True)
        assert done.trouble is not None
        assert not done.swapped
        assert KEY not in str(done.trouble)
        assert memory.stats().embedded_count == NOTES
        assert_everything_is_found(memory, NOTES)
    assert_drains(bench, NOTES)


@pytest.mark.parametrize("fault", [*PASSING, *(set(HARMLESS) - {"swapped"})])
def test_what_passes_or_does_no_harm_leaves_nothing_pending(bench: Workbench, fault: str) -> None:
    folder = bench.write_notes()
    bench.server.fault = fault
    with bench.memory() as memory:
        report = memory.ingest(folder)
        assert (report.count("added"), report.pending, report.trouble) == (NOTES, 0, None)
        assert memory.stats().embedded_count == NOTES
    assert_drains(bench, NOTES)


def test_a_model_swapped_for_one_of_the_same_size_is_never_mixed_in(bench: Workbench) -> None:
    with bench.memory() as memory:
        memory.ingest(bench.write_notes())
    bench.server.fault = "swapped"
    with bench.memory() as memory:
        report = memory.ingest(bench.write_notes(NOTES), incremental=True)
        assert (report.count("added"), report.pending) == (NOTES, NOTES)
        assert report.trouble is not None
        assert report.trouble.code == "model_changed"
        assert memory.stats().embedded_count == NOTES
        assert memory.reindex().trouble is not None
        [finding] = [row for row in memory.doctor() if row.level == "error"]
        assert (finding.check, finding.advice) == ("embedder", advise("reindex_embeddings"))
        assert_everything_is_found(memory, 2 * NOTES)
    assert_drains(bench, 2 * NOTES)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_model_of_another_size_takes_over_only_when_told_to(
    bench: Workbench, is_known: bool
) -> None:
    with bench.memory() as memory:
        memory.ingest(bench.write_notes())
        space = memory.engine.state().space
    bench.server.dims = 2 * DIMS
    embedder = bench.embedder(space if is_known else None)
    with Memory.open(bench.folder / "memory.db", embedder=embedder, project="") as memory:
        assert memory.search("password of machine3").receipt.mode_used == "keyword"
        assert memory.store("one more", key="more").pending == 1
        assert memory.stats().embedded_count == NOTES
        done = memory.reindex(embeddings=True)
        assert (done.trouble, done.embedded, done.swapped) == (None, NOTES + 1, True)
        assert memory.search("password of machine4").receipt.mode_used == "hybrid"


def test_the_key_goes_to_its_own_host_and_into_no_file(bench: Workbench) -> None:
    with bench.memory() as memory:
        memory.ingest(bench.write_notes())
    asked = [request.headers.get("authorization") for request in bench.server.requests]
    assert set(asked) == {f"Bearer {KEY}"}
    bench.server.fault = "redirect"
    with bench.memory() as memory:
        memory.reindex(embeddings=True)
        memory.search("password machine1")
