"""A small file stays small: a memory grows in proportion to what goes in, in whatever field."""

from collections.abc import Callable
from pathlib import Path

import pytest

from plait.memory import Memory
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from tests.reliability import memories

SIZES = (30_000, 60_000)
# Twice the input, twice what an empty memory does not have, but for pages that are not full.
MOST_GROWTH = 2.3
# Bytes of the file per byte of the input: index and vectors included.
MOST_BYTES = 20


def body(size: int) -> str:
    """Paragraphs, cut into hundreds of passages."""
    words = " ".join(memories.WORDS)
    return "\n\n".join(f"Paragraph {number}. {words}" for number in range(size // 200))


def long_words(size: int) -> list[str]:
    return [f"word{number}" for number in range(size // 10)]


def long_name(size: int) -> str:
    return " ".join(long_words(size))


def facts(size: int) -> tuple[str, ...]:
    return tuple(f"fact number {number} about {number * 7}" for number in range(size // 30))


def ingest(memory: Memory, folder: Path, name: str, text: str) -> None:
    path = folder / "notes" / name
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    memory.ingest(folder / "notes")


def relate(memory: Memory, relation: str, context: str | None = None) -> None:
    memory.graph.create([NewEntity("Ada"), NewEntity("Bob")])
    memory.graph.relate([Relation("Ada", "Bob", relation, context)])


def sections(size: int, title: str, mark: str) -> str:
    """One long heading, and many short sections under it."""
    return title + "".join(f"{mark} {n}\n\ntext {n}\n\n" for n in range(size // 40))


# How each field gets long, together with a text of many passages, or many small documents.
FIELDS: dict[str, Callable[[Memory, Path, int], object]] = {
    "title": lambda memory, _, size: memory.store(body(size), title=long_name(size)),
    "tags": lambda memory, _, size: memory.store(body(size), tags=long_words(size)),
    "one tag": lambda memory, _, size: memory.store(body(size), tags=["x" * size]),
    "key": lambda memory, _, size: memory.store(body(size), key=long_name(size)),
    "session": lambda memory, _, size: memory.store(body(size), session=long_name(size)),
    "type": lambda memory, _, size: memory.store(body(size), type=long_name(size)),
    "topic": lambda memory, _, size: memory.store(body(size), topic=long_name(size)),
    "summary": lambda memory, _, size: memory.store(body(size), summary=long_name(size)),
    "metadata": lambda memory, _, size: memory.store(
        body(size), metadata={word: word for word in long_words(size)}
    ),
    "entity name": lambda memory, _, size: memory.graph.create(
        [NewEntity(long_name(size), "thing", facts(size))]
    ),
    "entity type": lambda memory, _, size: memory.graph.create(
        [NewEntity("Ada", long_name(size), facts(size))]
    ),
    "observations": lambda memory, _, size: memory.graph.create(
        [NewEntity("Ada", "person", facts(size))]
    ),
    "long observation": lambda memory, _, size: memory.graph.create(
        [NewEntity("Ada", "person", (body(2 * size),))]
    ),
    "relation": lambda memory, _, size: relate(memory, long_name(2 * size)),
    "relation context": lambda memory, _, size: relate(memory, "knows", long_name(2 * size)),
    "path": lambda memory, folder, size: ingest(
        memory, folder, "/".join(["d" * 200] * 8) + "/a.md", body(2 * size)
    ),
    "front matter tags": lambda memory, folder, size: ingest(
        memory, folder, "a.md", f"---\ntags: [{', '.join(long_words(size))}]\n---\n{body(size)}"
    ),
    "front matter title": lambda memory, folder, size: ingest(
        memory, folder, "a.md", f"---\ntitle: {long_name(size)}\n---\n{body(size)}"
    ),
    "front matter": lambda memory, folder, size: ingest(
        memory,
        folder,
        "a.md",
        f"---\nother: {long_name(size)}\naliases: [{long_name(size)}]\n---\n{body(size)}",
    ),
    "heading": lambda memory, folder, size: ingest(
        memory, folder, "a.md", sections(size, f"# {long_name(size)}\n\n", "##")
    ),
    "heading of one section": lambda memory, folder, size: ingest(
        memory, folder, "a.md", f"# {long_name(size)}\n{body(size)}"
    ),
    "nested headings": lambda memory, folder, size: ingest(
        memory,
        folder,
        "a.md",
        "".join(f"{'#' * level} {long_name(size // 6)}\n\n" for level in range(1, 7)) + body(size),
    ),
    "org heading": lambda memory, folder, size: ingest(
        memory, folder, "a.org", sections(size, f"* {long_name(size)}\n\n", "**")
    ),
    "deep org headings": lambda memory, folder, size: ingest(
        memory,
        folder,
        "a.org",
        "".join(
            f"{'*' * level} {'heading ' * 30}{level}\n{body(2_000)}\n"
            for level in range(1, size // 1_000)
        ),
    ),
}


def size_of(path: Path) -> int:
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))


def grown(folder: Path, size: int, fill: Callable[[Memory, Path, int], object]) -> int:
    """The size of a memory's file after something of this size was stored in it."""
    folder = folder / str(size)
    folder.mkdir()
    path = folder / "memory.db"
    with memories.open_memory(path, durability="normal") as memory:
        memory.store("something else")
        if size:
            fill(memory, folder, size)
        memory.reindex(compact=True)
    return size_of(path)


@pytest.mark.unmeasured
@pytest.mark.parametrize("field", FIELDS)
def test_a_memory_grows_in_proportion_to_a_long_field(tmp_path: Path, field: str) -> None:
    empty, small, large = (grown(tmp_path, size, FIELDS[field]) for size in (0, *SIZES))
    assert large - empty < MOST_GROWTH * (small - empty)
    assert large - empty < 2 * SIZES[1] * MOST_BYTES


def test_a_reindex_shortens_what_earlier_versions_repeated(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with memories.open_memory(path, durability="normal") as memory:
        memory.store(body(20_000), key="long", tags=long_words(20_000))
        connection = memories.connection_of(memory)
        connection.execute(
            "UPDATE passages SET title_terms = "
            "(SELECT title_terms FROM passages WHERE ordinal = 0) WHERE ordinal > 0"
        )
        memory.reindex()
        longest = connection.execute(
            "SELECT max(length(title_terms)) FROM passages WHERE ordinal > 0"
        ).get
        assert longest <= 2_000
        assert memory.search("word1999", mode="keyword")[0].doc_id == "long"
        assert [row for row in memory.doctor() if row.level != "ok"] == []
