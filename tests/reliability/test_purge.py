"""Purged means gone: not a byte of it is left in the file, its journal or its shared memory."""

import random
from pathlib import Path

import pytest

from plait.errors import NotFound
from plait.memory import Memory
from tests.reliability import memories, plants, purge_child
from tests.reliability.processes import Child, children, posix_only
from tests.reliability.scale import SCALE

pytestmark = [posix_only, pytest.mark.slow]


def secret(dice: random.Random) -> str:
    """A word that occurs nowhere else, of letters that nothing folds or splits."""
    return "qz" + "".join(dice.choices("bcdfghjkmnpqrtvwxz", k=14))


def look(path: Path, words: list[str]) -> list[str]:
    """Where these words can be read on the disk at this moment."""
    with children(Child(purge_child.look, path.parent, words)) as (child,):
        places: list[str] = child.expect("places")[1]
        child.finish()
    return places


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
