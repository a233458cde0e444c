"""Another model behind the same name, another embedder during a run: noticed and told."""

import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from plait.cli import main
from plait.embedders import CANARY
from plait.embedders.cached import RECHECK_QUERIES, RECHECK_S, CachedEmbedder
from plait.embedders.ollama import Ollama
from plait.embedders.openai import Custom
from plait.errors import UsageError, advise
from plait.memory import Memory
from plait.protocols import Vector
from plait.testing import HashingEmbedder
from plait.types import Document, Filter, Space, TextKind
from plait.writing import sources
from tests.embedding_server import EmbeddingServer
from tests.interfaces.command import Ran, spawn
from tests.mcp.talk import call, text_of

NOTES = ["We deploy on Fridays", "Keys are rotated monthly", "The fence is painted green"]


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as running:
        yield running


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def opened(place: Path, server: EmbeddingServer, protocol: str = "ollama") -> Memory:
    """A memory as a process opens it: nothing is known of the model but what the file says."""
    embedder = (
        Ollama(url=server.url)
        if protocol == "ollama"
        else Custom(f"{server.openai_url}#{server.models[1]}")
    )
    return Memory.open(place, embedder=embedder, project="")


def filled(place: Path, server: EmbeddingServer, protocol: str = "ollama") -> None:
    with opened(place, server, protocol) as memory:
        memory.store_many(Document(key=f"k{n}", text=text) for n, text in enumerate(NOTES))
        memory.reindex()
        assert memory.stats().pending_count == 0
    server.requests.clear()


def nearest(memory: Memory, number: int) -> tuple[str | None, tuple[str, ...]]:
    """The best hit by vector for the text of a note, and what the receipt says is missing."""
    answer = memory.search(NOTES[number], mode="vector", limit=1)
    codes = tuple(notice.code for notice in answer.receipt.degraded)
    return (answer[0].doc_id if answer and answer.receipt.mode_used == "vector" else None), codes


# -- a swapped model ---------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["ollama", "custom"])
def test_a_search_notices_another_model_and_leaves_vectors_out(
    place: Path, server: EmbeddingServer, protocol: str
) -> None:
    filled(place, server, protocol)
    with opened(place, server, protocol) as memory:
        assert [nearest(memory, n) for n in range(3)] == [("k0", ()), ("k1", ()), ("k2", ())]
    server.fault = "swapped"
    server.requests.clear()
    with opened(place, server, protocol) as memory:
        answer = memory.search("when is the fence painted")
        [notice] = answer.receipt.degraded
        assert (notice.code, notice.advice) == ("model_changed", advise("reindex_embeddings"))
        assert answer.receipt.mode_used == "keyword"
        assert [hit.doc_id for hit in answer] == ["k2"]
        [request] = server.requests  # the question and the sample together
        assert len(request.texts) == 2
        # Remembered: no text is sent to a model that cannot help.
        assert memory.search("another question").receipt.degraded[0].code == "model_changed"
        assert len(server.requests) == 1
        [finding] = [row for row in memory.doctor() if row.code == "model_changed"]
        assert (finding.level, finding.advice) == ("error", advise("reindex_embeddings"))


def test_a_query_cached_by_the_right_model_is_still_answered(
    place: Path, server: EmbeddingServer
) -> None:
    filled(place, server)
    with opened(place, server) as memory:
        assert nearest(memory, 1) == ("k1", ())
    server.fault = "swapped"
    with opened(place, server) as memory:
        assert nearest(memory, 1) == ("k1", ())
        assert nearest(memory, 2) == (None, ("model_changed",))


def test_question_and_sample_have_the_prefix_of_their_kind(
    place: Path, server: EmbeddingServer
) -> None:
    filled(place, server)
    with opened(place, server) as memory:
        assert nearest(memory, 0) == ("k0", ())
    [request] = server.requests
    assert request.texts == [f"search_query: {NOTES[0]}", f"search_document: {CANARY}"]


def test_a_swap_during_a_process_is_noticed_after_a_while_and_so_is_its_end(
    place: Path, server: EmbeddingServer
) -> None:
    filled(place, server)
    with opened(place, server) as memory:
        cached = memory.embedder
        assert isinstance(cached, CachedEmbedder)
        now = [0.0]
        cached._clock = lambda: now[0]
        assert nearest(memory, 0) == ("k0", ())
        server.fault = "swapped"
        wrong = memory.search("asked of the wrong model", mode="vector")
        assert wrong.receipt.degraded == ()
        now[0] += RECHECK_S
        assert nearest(memory, 1) == (None, ("model_changed",))
        server.fault = None
        assert nearest(memory, 1) == (None, ("model_changed",))
        now[0] += RECHECK_S
        assert nearest(memory, 1) == ("k1", ())
    # What the wrong model made of a question was not kept for others.
    server.requests.clear()
    with opened(place, server) as memory:
        memory.search("asked of the wrong model")
        memory.search(NOTES[1])
    assert [request.texts[0] for request in server.requests] == [
        "search_query: asked of the wrong model"
    ]


def test_many_questions_are_not_asked_without_a_comparison(
    place: Path, server: EmbeddingServer
) -> None:
    filled(place, server)
    with opened(place, server) as memory:
        for number in range(2 * RECHECK_QUERIES + 2):
            assert memory.search(f"question {number}").receipt.degraded == ()
    sizes = [len(request.texts) for request in server.requests]
    assert sizes == [2, *[1] * RECHECK_QUERIES, 2, *[1] * RECHECK_QUERIES]


@pytest.mark.parametrize("protocol", ["ollama", "custom"])
def test_a_server_that_names_another_model_is_checked_at_once(
    place: Path, server: EmbeddingServer, protocol: str
) -> None:
    filled(place, server, protocol)
    with opened(place, server, protocol) as memory:
        assert nearest(memory, 0) == ("k0", ())
        server.answers_as = "m-renamed"
        server.requests.clear()
        assert nearest(memory, 1) == ("k1", ())
        assert [len(request.texts) for request in server.requests] == [1, 1]
        server.answers_as, server.fault = "m2", "swapped"
        assert nearest(memory, 2) == (None, ("model_changed",))


def test_a_reindex_elsewhere_ends_it_at_once(place: Path, server: EmbeddingServer) -> None:
    filled(place, server)
    server.fault = "swapped"
    with opened(place, server) as memory, opened(place, server) as other:
        assert nearest(memory, 0) == (None, ("model_changed",))
        assert other.reindex(embeddings=True).trouble is None
        assert nearest(memory, 0) == ("k0", ())


def test_entities_are_not_ranked_by_another_model(place: Path, server: EmbeddingServer) -> None:
    with opened(place, server) as memory:
        memory.store("works on compilers", entity="Ana")
        assert memory.stats().pending_count == 0
        assert distances(memory, "compilers") != [None]
    server.fault = "swapped"
    with opened(place, server) as memory:
        assert distances(memory, "who knows compilers") == [None]


def distances(memory: Memory, query: str) -> list[float | None]:
    return [row["distance"] for row in memory.graph.search_semantic(query)]


def test_the_command_line_tells_it_in_receipt_and_doctor(
    place: Path, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIT_OLLAMA_URL", server.url)
    filled(place, server)
    server.fault = "swapped"
    words = ("--db", str(place), "--embedder", "ollama")
    ran = spawn("search", "fence", *words)
    assert ran.code == 0
    [reason] = ran.json["receipt"]["degraded"]
    assert "no longer the model" in reason
    assert reason.endswith(f"Run: plait --db {place} --embedder ollama reindex --embeddings")
    assert reason in spawn("search", "fence", *words, "--format", "text").err
    doctor = spawn("doctor", *words)
    assert doctor.code == 1
    assert "no longer the model" in doctor.out


def test_an_agent_is_told_too(place: Path, server: EmbeddingServer) -> None:
    filled(place, server)
    server.fault = "swapped"
    with opened(place, server) as memory:
        told = text_of(call(memory, "memory_search", {"query": "when is the fence painted"}))
    assert "The fence is painted green" in told
    assert "no longer the model" in told
    assert "reindex --embeddings" in told


# -- another embedder during an ingest ---------------------------------------------------------


class Foreign(HashingEmbedder):
    """An embedder that nobody else can open."""

    def __init__(self) -> None:
        super().__init__()
        self.space = Space("foreign", "model", self.dims)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number, text in enumerate(NOTES):
        (folder / f"n{number}.md").write_text(text, encoding="utf-8")
    return folder


def change_during_ingest(
    monkeypatch: pytest.MonkeyPatch, place: Path, *embedders: HashingEmbedder | str
) -> None:
    """Have others reindex with another embedder while each of the first files is read."""
    real, left = sources.read_file, list(embedders)

    def read(file: sources.SourceFile) -> sources.Content:
        if left:
            with Memory.open(place, embedder=left.pop(0), project="") as other:
                assert other.reindex().trouble is None
        return real(file)

    monkeypatch.setattr(sources, "read_file", read)


@pytest.mark.parametrize("others", [["builtin"], ["builtin", "hashing"], ["hashing", "builtin"]])
def test_an_ingest_follows_the_embedder_that_another_process_changes(
    place: Path, notes: Path, monkeypatch: pytest.MonkeyPatch, others: list[str]
) -> None:
    with Memory.open(place, embedder="hashing", project="") as memory:
        memory.store("first", key="first")
        change_during_ingest(monkeypatch, place, *others)
        report = memory.ingest(notes)
        assert (report.count("added"), report.pending, report.trouble) == (3, 0, None)
        stats = memory.stats()
        assert (stats.doc_count, stats.pending_count) == (4, 0)
        assert stats.space is not None
        assert stats.space.provider == others[-1]


@pytest.mark.parametrize("quiet", [(), ("--quiet",)], ids=["", "quiet"])
def test_an_ingest_that_cannot_follow_says_so_in_one_sentence(
    place: Path,
    notes: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    quiet: tuple[str, ...],
) -> None:
    with Memory.open(place, embedder="hashing", project="") as memory:
        memory.store("first", key="first")
    change_during_ingest(monkeypatch, place, Foreign())
    code = main(["--db", str(place), "--project", "personal", "ingest", str(notes), *quiet])
    ran = Ran(code, *capsys.readouterr())
    assert (ran.code, ran.json["added"], ran.json["pending"]) == (1, 3, 3)
    assert ran.err.count("\n") == 1
    assert "foreign:model" in ran.err
    assert f"plait --db {place} --project personal reindex" in ran.err
    with Memory.open(place, project="") as memory:
        answer = memory.search("fence", mode="keyword", all_projects=True)
        assert [hit.doc_id for hit in answer] == ["n2.md"]


def test_what_an_ingest_could_not_follow_is_in_its_report(
    place: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory.open(place, embedder="hashing", project="") as memory:
        memory.store("first", key="first")
        change_during_ingest(monkeypatch, place, Foreign())
        report = memory.ingest(notes)
        assert report.trouble is not None
        assert (report.trouble.code, report.trouble.advice) == (
            "vectors_pending",
            advise("reindex"),
        )


# -- threads -----------------------------------------------------------------------------------


class Changing(HashingEmbedder):
    """An external model that may become another one; ``meanwhile`` runs while it embeds."""

    def __init__(self, *, changed: bool = False) -> None:
        super().__init__(32)
        self.tuning = self.tuning._replace(external=True)
        self.changed = changed
        self.meanwhile: Callable[[], object] | None = None

    def embed(self, texts: Sequence[str], kind: TextKind) -> list[Vector | None]:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            other = threading.Thread(target=meanwhile)
            other.start()
            other.join()
        return [self._own(vector) for vector in super().embed(texts, kind)]

    def _own(self, vector: Vector | None) -> Vector | None:
        if vector is None or not self.changed:
            return vector
        return array("f", [-x if place % 2 else x for place, x in enumerate(vector)])


def test_a_write_on_another_thread_does_not_mix_old_vectors_into_a_reindex(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    texts = [f"note {number} about {number * 7 % 13}" for number in range(100)]
    with Memory.open(path, embedder=Changing(), project="") as memory:
        memory.store("a known fact")
        memory.store_many(Document(key=text, text=text) for text in texts)
    model = Changing(changed=True)
    with Memory.open(path, embedder=model, project="") as memory:

        def between(done: int, total: int, name: str) -> None:
            model.meanwhile = model.meanwhile or (lambda: memory.store("a known fact"))

        assert memory.reindex(embeddings=True, progress=between).trouble is None
        for text in texts:
            [vector] = model.embed([text], "query")
            assert vector is not None
            best = memory.engine.vector(vector, model.space, 1, Filter()).hits[0]
            assert best[1] > 0.98, text


def test_a_refusal_on_another_thread_does_not_look_like_another_model(tmp_path: Path) -> None:
    model = Changing()
    notes = tmp_path / "notes"
    notes.mkdir()
    for number in range(100):
        (notes / f"{number}.md").write_text(f"file {number} about {number * 7 % 13}", "utf-8")
    with Memory.open(tmp_path / "memory.db", embedder=model, project="") as memory:
        memory.store("a known fact")

        def refused() -> None:
            with pytest.raises(UsageError):
                memory.store("  ")

        def between(done: int, total: int, name: str) -> None:
            model.meanwhile = refused

        report = memory.ingest(notes, progress=between)
        assert (report.trouble, report.pending) == (None, 0)
