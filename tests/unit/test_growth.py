"""A small file stays small: a memory grows in proportion to what goes in, in whatever field."""

from pathlib import Path

import pytest

from plait.memory import Memory
from tests.reliability import memories

SIZES = (60_000, 120_000)
# Twice the input, twice the file, but for pages that are not full.
MOST_GROWTH = 2.3
# Bytes of the file per byte of the input: index, vectors and empty tables included.
MOST_BYTES = 25
FIELDS = ("tags", "title", "key", "session", "summary", "metadata")


def body(size: int) -> str:
    """Paragraphs, cut into hundreds of passages."""
    words = " ".join(memories.WORDS)
    return "\n\n".join(f"Paragraph {number}. {words}" for number in range(size // 200))


def long_words(size: int) -> list[str]:
    return [f"word{number}" for number in range(size // 10)]


def store_field(memory: Memory, field: str, size: int) -> None:
    words = long_words(size)
    if field == "tags":
        memory.store(body(size), tags=words)
    elif field == "metadata":
        memory.store(body(size), metadata={word: word for word in words})
    else:
        joined = " ".join(words)
        memory.store(body(size), **{field: joined})  # type: ignore[arg-type]


def size_of(path: Path) -> int:
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))


def grown(folder: Path, size: int, field: str) -> int:
    path = folder / f"{size}.db"
    with memories.open_memory(path, durability="normal") as memory:
        store_field(memory, field, size)
        memory.reindex(compact=True)
        assert memory.stats().chunk_count > size // 500
    return size_of(path)


@pytest.mark.parametrize("field", FIELDS)
def test_a_memory_grows_in_proportion_to_a_long_field(tmp_path: Path, field: str) -> None:
    small, large = (grown(tmp_path, size, field) for size in SIZES)
    assert large / small < MOST_GROWTH
    assert large < 2 * SIZES[1] * MOST_BYTES


FILES = {
    "tags.md": lambda size: f"---\ntags: [{', '.join(long_words(size))}]\n---\n{body(size)}",
    "title.md": lambda size: f"---\ntitle: {' '.join(long_words(size))}\n---\n{body(size)}",
    "headings.md": lambda size: f"# {' '.join(long_words(size))}\n{body(size)}",
    "deep.org": lambda size: "".join(
        f"{'*' * level} {'heading ' * 30}{level}\n{body(2_000)}\n"
        for level in range(1, size // 2_000)
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_memory_grows_in_proportion_to_a_file(tmp_path: Path, name: str) -> None:
    sizes = []
    for size in SIZES:
        folder = tmp_path / str(size)
        folder.mkdir()
        (folder / name).write_text(FILES[name](size), encoding="utf-8")
        path = tmp_path / f"{size}.db"
        with memories.open_memory(path, durability="normal") as memory:
            memory.ingest(folder)
            memory.reindex(compact=True)
        sizes.append(size_of(path))
    assert sizes[1] / sizes[0] < MOST_GROWTH
    assert sizes[1] < 2 * SIZES[1] * MOST_BYTES


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
