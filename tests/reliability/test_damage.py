"""Damaged files: one sentence, never a traceback; doctor proves; salvage keeps what can be read."""

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

from plait.errors import PlaitError, StoreDamaged
from plait.mcp.lazy import LazyMemory
from plait.mcp.server import Handlers, create_server
from plait.memory import Memory
from plait.testing import HashingEmbedder
from tests.reliability import damage
from tests.reliability.damage import CHECK, KEY, READS, REPAIR, ROW_DAMAGES, WRITES
from tests.reliability.memories import settings
from tests.reliability.scale import SCALE, SOAK

pytestmark = pytest.mark.unmeasured

# Copies per test, so that a failure names a small range.
BATCH = 11
# Every third of about fifty kinds with every push, all of them in the long run.
KINDS_OF_ROWS = list(ROW_DAMAGES)[:: 1 if SOAK else 3]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A sound memory, as bytes."""
    return damage.build(tmp_path_factory.mktemp("whole") / "memory.db")


@pytest.fixture
def content(whole: bytes, tmp_path: Path) -> damage.Content:
    """What the sound memory holds."""
    path = tmp_path / "sound.db"
    path.write_bytes(whole)
    content = damage.content_of(path)
    assert isinstance(content, dict)
    return content


@pytest.mark.parametrize("first", range(0, SCALE.damaged_copies, BATCH))
def test_a_damaged_file_gets_sentences_and_doctor_knows_it(
    whole: bytes, content: damage.Content, tmp_path: Path, first: int
) -> None:
    roots = damage.roots_of(whole)
    for seed in range(first, first + BATCH):
        name, data = damage.damaged_copy(whole, seed, roots)
        dice = random.Random(seed)
        path = tmp_path / f"{seed}.db"
        path.write_bytes(data)
        checked = damage.command(path, *CHECK)
        assert damage.bad_manners(checked) == [], (seed, name)
        if checked.code == 0:
            assert damage.content_of(path) == content, (seed, name)
        commands = [*dice.sample(READS, 2), dice.choice(WRITES), REPAIR]
        assert list(damage.trouble_with(path, commands)) == [], (seed, name)
        if damage.command(path, *CHECK).code == 0:
            after = [damage.command(path, *words) for words in dice.sample(READS, 2)]
            assert {done.code for done in after} <= {0, 3}, (seed, name, after)


@pytest.mark.parametrize("first", range(0, SCALE.damaged_copies // 3, BATCH))
def test_what_can_be_read_of_a_damaged_file_is_salvaged_and_the_rest_told(
    whole: bytes, content: damage.Content, tmp_path: Path, first: int
) -> None:
    roots = damage.roots_of(whole)
    for seed in range(10_000 + first, 10_000 + first + BATCH):
        name, data = damage.damaged_copy(whole, seed, roots)
        path, target = tmp_path / f"{seed}.db", tmp_path / f"{seed}-new.db"
        path.write_bytes(data)
        done = damage.command(path, "doctor", "--salvage", str(target))
        assert damage.bad_manners(done) == [], (seed, name)
        assert path.read_bytes() == data, (seed, name)
        if not done.out:
            assert not target.exists()
            continue
        report = json.loads(done.out)
        assert damage.command(target, *CHECK).code == 0, (seed, name)
        saved = damage.content_of(target)
        assert isinstance(saved, dict), (seed, name, saved)
        told = report["lost"] or report["mended"]
        assert told or saved == content, (seed, name)
        if name in ("zero_page", "swap_pages", "header", "page_head"):
            same = sum(saved.get(id_) == row for id_, row in content.items())
            assert same >= len(content) * 0.6, (seed, name, same)


HEALED_AT_OPENING = {"a count of passages that is none"}
NEEDS_SALVAGE = {"a passage of nobody"}
# What a repair may take away: a name that was unreadable, and vectors until a reindex.
TAKEN = (("get", KEY), ("search", "copper", "--mode", "vector"))


@pytest.mark.parametrize("name", KINDS_OF_ROWS)
def test_a_damaged_row_is_a_sentence_for_every_verb_and_is_mended(
    whole: bytes, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(whole)
    damage.damage_row(path, ROW_DAMAGES[name])
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())
    assert damage.command(path, *CHECK).code == (0 if name in HEALED_AT_OPENING else 1)
    assert list(damage.trouble_with(path, READS)) == []
    assert damage.command(path, *REPAIR).code == (1 if name in NEEDS_SALVAGE else 0)
    if name not in NEEDS_SALVAGE:
        assert damage.command(path, *CHECK).code == 0
        codes = {words: damage.command(path, *words).code for words in READS}
        assert {code for words, code in codes.items() if words not in TAKEN} == {0}
    assert list(damage.trouble_with(copy, (*WRITES, REPAIR))) == []


VERBS: tuple[Callable[[Memory], object], ...] = (
    lambda memory: memory.search("zanzibar3 copper", window=1),
    lambda memory: memory.recall("zanzibar3"),
    lambda memory: memory.overview(),
    lambda memory: memory.get(KEY),
    lambda memory: memory.timeline(limit=100),
    lambda memory: list(memory.export()),
    lambda memory: memory.stats(),
    lambda memory: memory.graph.read(),
    lambda memory: memory.doctor(),
    lambda memory: memory.store("A new fact.", entity="Ana"),
    lambda memory: memory.store("Another text.", key=KEY),
    lambda memory: memory.undo(),
    lambda memory: memory.delete(KEY),
    lambda memory: memory.reindex(),
    lambda memory: memory.doctor(fix=True),
)


@pytest.mark.parametrize("name", KINDS_OF_ROWS)
def test_a_damaged_row_is_an_error_of_ours_in_the_library(
    whole: bytes, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(whole)
    damage.damage_row(path, ROW_DAMAGES[name])
    config = settings(path)._replace(project="harbour")
    for verb in VERBS:
        try:
            with Memory.open(embedder=HashingEmbedder(), config=config) as memory:
                verb(memory)
        except PlaitError as error:
            assert error.code
            assert "\n" not in error.notice.text


def test_a_search_is_never_silent_because_of_damage(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(whole)
    damage.damage_row(path, "UPDATE passages_fts_data SET block = x'ffffffff' WHERE id > 10")
    config = settings(path)._replace(project="harbour")
    with Memory.open(embedder=HashingEmbedder(), config=config) as memory:
        answer = memory.search("copper", mode="hybrid")  # vectors can still answer
        assert len(answer) > 0
        assert answer.receipt.mode_used == "vector"
        assert [notice.code for notice in answer.receipt.degraded] == ["store_damaged"]
        with pytest.raises(StoreDamaged):
            memory.search("copper", mode="keyword")
        with pytest.raises(StoreDamaged):
            memory.search('"copper"', mode="hybrid")  # only words can tell what matches
    damage.damage_row(path, "UPDATE vector_blocks SET data = x'ff'")
    with (
        Memory.open(embedder=HashingEmbedder(), config=config) as memory,
        pytest.raises(StoreDamaged),
    ):
        memory.search("copper", mode="hybrid")


@pytest.mark.parametrize("name", KINDS_OF_ROWS)
def test_a_damaged_row_is_a_sentence_for_every_tool(
    whole: bytes, tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(whole)
    damage.damage_row(path, ROW_DAMAGES[name])
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("memory_search", {"query": "zanzibar3 copper"}),
        ("memory_recall", {"query": "zanzibar3"}),
        ("memory_get", {"ids": [KEY]}),
        ("memory_timeline", {}),
        ("memory_store", {"text": f"A fact about {name}"}),
        ("memory_delete", {"ids": [KEY]}),
    )
    config = settings(path)._replace(project="harbour")

    def opened(create: bool) -> Memory:
        return Memory.open(embedder=HashingEmbedder(), config=config, create=create)

    async def talk() -> list[str]:
        handlers = Handlers(LazyMemory(opened))
        answers = []
        async with Client(create_server(handlers)) as client:
            for tool, arguments in calls:
                answers.append(str((await client.call_tool(tool, arguments)).content))
            try:
                await client.list_resources()
            except MCPError as error:
                answers.append(str(error))
        handlers.close()
        return answers

    answers = asyncio.run(talk())
    assert not [answer for answer in answers if "a bug in plait" in answer]
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("words", [("search", "x"), CHECK, REPAIR, ("store", "x")])
@pytest.mark.parametrize("data", [b"# Cat\n", b"# Cat\n" * 9_000, bytes(range(256)) * 600])
def test_a_file_of_something_else_is_not_worth_a_salvage(
    tmp_path: Path, data: bytes, words: tuple[str, ...]
) -> None:
    path = tmp_path / "cat.md"
    path.write_bytes(data)
    done = damage.command(path, *words)
    assert done.code == 1
    assert "not a plait memory" in done.err
    assert "--db PATH" in done.err
    assert "salvage" not in done.err
    assert path.read_bytes() == data


@pytest.mark.parametrize("first", [0, 1, damage.PAGE])
def test_a_memory_with_a_lost_beginning_is_still_worth_one(
    whole: bytes, tmp_path: Path, first: int
) -> None:
    path = tmp_path / "memory.db"
    noise = random.Random(first).randbytes(first)
    path.write_bytes(noise + whole[first:] if first else whole[:200])
    assert "doctor --salvage" in damage.command(path, "search", "x").err
