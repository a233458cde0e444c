"""A user who is erased leaves no byte in the memory, and the others answer as before."""

import random

import pytest

from plait.memory import Memory
from plait.types import Document
from plait.types.relations import Relation
from tests.reliability import memories
from tests.reliability.processes import posix_only
from tests.reliability.test_purge import look, secret

pytestmark = [posix_only, pytest.mark.slow]
QUESTIONS = ("stays", "tea harbour", "zanzibar", '"of the harbour"')


def fill(memory: Memory, name: str, words: list[str]) -> None:
    """A user with documents of every kind that hold words of his own."""
    scope = memory.scope(name)
    for number, word in enumerate(words):
        scope.store(
            memories.prose(f"{name}{number}", 3) + f"# {word}\nThe {word} of the harbour.\n",
            key=f"key-{word}",
            title=f"About {word}",
            tags=[word],
            metadata={"name": word},
            session=word,
        )
        scope.store(f"{word} drinks tea in zanzibar.", entity=f"Person {word}", topic=word)
        scope.store(f"{word} drinks rum in zanzibar.", entity=f"Person {word}", topic=word)
        scope.store_many([Document(kind="message", text=f"yes {word}", session="s")])
    first, last = words[0], words[-1]
    scope.graph.relate([Relation(f"Person {first}", f"Person {last}", f"knows {first}", last)])
    scope.store(f"Replaced {first}.", key=f"key-{first}")
    scope.delete(f"key-{last}")
    scope.graph.delete([f"Person {last}"])
    scope.search(first)
    scope.get(f"key-{first}")
    scope.write_down_use()


def answers(memory: Memory, name: str) -> list[object]:
    scope = memory.scope(name)
    hits = [scope.search(question, limit=50) for question in QUESTIONS]
    return [
        [[(hit.id, hit.text, hit.score, hit.relevance) for hit in answer] for answer in hits],
        scope.timeline(limit=1000),
        scope.graph.read(),
        scope.stats(),
        list(scope.export()),
    ]


def test_no_byte_of_an_erased_user_is_left(tmp_path):
    dice = random.Random(9)
    mine, theirs = [secret(dice) for _ in range(8)], [secret(dice) for _ in range(8)]
    path = tmp_path / "memory.db"
    with memories.open_memory(path, durability="normal") as memory:
        fill(memory, "ana", mine)
        fill(memory, "ben", theirs)
        memory.store(memories.prose("stays"), key="stays")
        assert look(path, mine[:3])
        before = answers(memory, "ben")
        erased = memory.scope("ana").erase()
        assert erased.documents > 20
        assert erased.trashed > 2
        assert (erased.left, erased.copies) == (0, ())
        assert look(path, mine) == []
        assert look(path, theirs[:1])
        assert answers(memory, "ben") == before
        assert memory.scope("ana").erase()[:5] == (0, 0, 0, 0, 0)
        assert {finding.level for finding in memory.doctor()} == {"ok"}
    with memories.open_memory(path) as memory:
        assert memory.get("stays").text == memories.prose("stays")
        assert look(path, mine) == []


def test_a_backup_of_another_memory_is_no_copy_of_this_one(tmp_path):
    for name in ("mine", "other"):
        with memories.open_memory(tmp_path / f"{name}.db") as memory:
            memory.scope("ana").store("First.", key="k")
            memory.backup(tmp_path / f"{name} backup.db")
    with memories.open_memory(tmp_path / "mine.db") as memory:
        copies = memory.scope("ana").erase().copies
        assert copies == (str(tmp_path / "mine backup.db"),)
        memory.store("Second.", key="k")
        assert memory.delete("k", purge=True).copies == copies


def test_an_erased_user_can_begin_again_and_backups_are_named(tmp_path):
    path = tmp_path / "memory.db"
    with memories.open_memory(path) as memory:
        scope = memory.scope("ana")
        scope.store("First.", key="k")
        copy = memory.backup(tmp_path / "memory.db.copy")
        assert copy in scope.erase().copies
        assert not scope.store("Second.", key="k").replaced
        assert [hit.text for hit in scope.search("first second")] == ["Second."]
