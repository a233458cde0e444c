"""A question whose reads fail on the way leaves nothing behind for the next one."""

from collections.abc import Iterator

import pytest
from psycopg import errors

from plait import Memory
from plait.errors import StoreError
from plait.stores.postgres.ahead import Ahead
from plait.stores.postgres.connection import Channel
from plait.stores.postgres.store import PostgresStore
from plait.testing.hashing import HashingEmbedder
from plait.types.ids import new_id
from tests import servers
from tests.builders import memory_on

QUESTIONS = ("how do we rotaet the kyes", "rotaet AND fridyas", "key* NOT deploy", "oncall rota")


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    address = servers.address(new_id())
    with memory_on(PostgresStore(address), HashingEmbedder()) as writer:
        for number in range(12):
            writer.store(f"We rotate key {number} on Fridays, the on call rota says.")
    # Who only reads changes no ranking by it.
    store = PostgresStore(address, read_only=True)
    with memory_on(store, HashingEmbedder()) as opened:
        yield opened


def told(memory: Memory, question: str) -> object:
    answer, shown = memory.search(question), memory.recall(question)
    hits = [(hit.document.id, hit.score, hit.relevance) for hit in answer]
    assert answer.receipt is not None
    items = [(item.hit.document.id, item.text) for item in shown.items]
    return hits, answer.receipt.corrections, answer.receipt.degraded, items


@pytest.mark.parametrize("trip", range(6))
@pytest.mark.parametrize(
    "error", [errors.SerializationFailure, errors.AdminShutdown, errors.QueryCanceled]
)
def test_the_next_question_is_answered_as_if_nothing_had_happened(
    memory: Memory, trip: int, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    together, send = Ahead._together, Channel.together
    failed: list[int] = []

    def fail(channel: Channel, *statements: object, **options: object) -> object:
        monkeypatch.setattr(Channel, "together", send)
        failed.append(trip)
        # Some of what goes there at once is answered, and nobody waits for the rest.
        channel.execute("SELECT 1 FROM plait.namespaces WHERE ns = %(ns)s")
        raise error

    def counted(ahead: Ahead, *statements: object, **options: object) -> object:
        if ahead.trips == trip and not failed:
            monkeypatch.setattr(Channel, "together", fail)
        return together(ahead, *statements, **options)  # type: ignore[arg-type]

    for question in QUESTIONS:
        expected = told(memory, question)
        monkeypatch.setattr(Ahead, "_together", counted)
        for ask in (memory.search, memory.recall):
            failed.clear()
            try:
                ask(question)
            except StoreError:
                assert failed
            monkeypatch.setattr(Channel, "together", send)
        monkeypatch.setattr(Ahead, "_together", together)
        assert told(memory, question) == expected
