"""A server without pgvector (Debian's PostgreSQL 15): keywords only, and one sentence about it."""

from collections.abc import Iterator

import pytest

from plait.cli import main
from plait.errors import StoreError
from plait.memory import Memory
from plait.stores.postgres import requirements, schema
from plait.testing.hashing import HashingEmbedder
from plait.tools.calling import run
from plait.types import TextKind
from plait.types.ids import new_id
from tests import servers
from tests.codes import has_code

CODE = "no_vector_extension"


class Counting(HashingEmbedder):
    """Counts how often it is asked for vectors."""

    asked = 0

    def embed(self, texts, kind: TextKind):
        self.asked += 1
        return super().embed(texts, kind)


@pytest.fixture
def address() -> str:
    return servers.address_without_vectors(new_id())


@pytest.fixture
def memory(address: str) -> Iterator[Memory]:
    with Memory.open(address, project="") as opened:
        opened.store("The otter sleeps at noon", key="otter")
        yield opened


def test_it_answers_by_keywords_and_says_why_in_the_receipt(memory: Memory) -> None:
    answer = memory.search("otter")
    assert [hit.doc_id for hit in answer] == ["otter"]
    assert answer.receipt.mode_used == "keyword"
    assert [notice.code for notice in answer.receipt.degraded] == [CODE]
    assert answer.receipt.pending_vectors == 0
    assert [notice.code for notice in memory.opening_notices] == [CODE]


def test_no_vector_is_made_or_waited_for(address: str) -> None:
    embedder = Counting()
    with Memory.open(address, embedder=embedder, project="") as memory:
        memory.store("The otter sleeps at noon", key="otter")
        memory.store("Ana likes tea", entity="Ana")
        memory.search("otter")
        memory.recall("otter")
        done = memory.reindex()
        stats = memory.stats()
        assert memory.engine.state().pending == 0
    assert embedder.asked == 0
    assert (stats.pending_count, stats.embedded_count) == (0, 0)
    assert done.trouble is not None and done.trouble.code == CODE


def test_a_memory_without_an_embedder_misses_nothing(address: str) -> None:
    with Memory.open(address, embedder="none", project="") as memory:
        memory.store("The otter sleeps at noon", key="otter")
        answer = memory.search("otter")
        assert (answer.receipt.degraded, memory.opening_notices) == ((), [])
        assert memory.reindex().trouble is None
        assert [row.code for row in memory.search("otter", mode="vector").receipt.degraded] == [
            CODE
        ]


def test_the_doctor_tells_it_as_a_warning(memory: Memory) -> None:
    told = [row for row in memory.doctor() if row.level != "ok"]
    assert [(row.level, "vector" in row.message) for row in told] == [("warning", True)]


@pytest.mark.parametrize("words", ["search otter", "store x", "ingest .", "recall otter"])
def test_a_command_tells_it_once(
    address: str,
    memory: Memory,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.md").write_text("# A\n\nSome words.\n", encoding="utf-8")
    assert main(["--db", address, *words.split()]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("lacks the extension vector") == 1
    assert "CREATE EXTENSION vector" in captured.err
    assert "plait --db" in captured.err and "reindex" in captured.err


def test_a_model_is_told_too(memory: Memory) -> None:
    answer = run(memory, "memory_search", {"query": "otter"})
    assert "lacks the extension vector" in str(answer)


def test_the_vectors_are_made_once_the_extension_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a server that has it: first hidden, then not."""
    address = servers.address(new_id())
    with monkeypatch.context() as hidden:
        hidden.setattr(schema, "_has_vectors", lambda *_, **__: False)
        with Memory.open(address, embedder="hashing", project="") as memory:
            memory.store("The otter sleeps at noon", key="otter")
            memory.store("Deploys are on Fridays", key="deploys")
            assert memory.engine.state().embedder == "hashing"
            assert [row.code for row in memory.search("otter").receipt.degraded] == [CODE]
    with Memory.open(address, project="") as memory:
        assert [row.code for row in memory.search("otter").receipt.degraded] == ["no_vectors"]
        assert memory.reindex().embedded == 2
        answer = memory.search("otter", mode="vector")
        assert (answer.receipt.degraded, answer[0].doc_id) == ((), "otter")
        assert memory.stats().pending_count == 0


def test_an_older_server_is_refused_in_one_sentence(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "OLDEST_SERVER", 16)
    with pytest.raises(StoreError, check=has_code("old_server")) as refused:
        Memory.open(address)
    assert "PostgreSQL 15; plait needs 16 or newer" in str(refused.value)
