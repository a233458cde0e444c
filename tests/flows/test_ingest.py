"""The write path: what becomes of every file, and what a failing embedder cannot spoil."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from plait import ingest, sources
from plait.errors import SourceError, UsageError
from plait.memory import Memory
from plait.protocols import Vector
from plait.testing import HashingEmbedder
from plait.types import IngestReport, TextKind
from tests.builders import Counting, Failing, entry, vector

SECTIONS = [
    f"## Part {n}\n\nThis is part number {n}. {'More of it follows. ' * 40}\n\n" for n in range(5)
]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    write(folder, "a.md", "# Apples\n\nAn apple a day.\n")
    write(folder, "sub/b.txt", "Bananas are yellow.\n")
    write(folder, "c.py", "print('ignored')\n")
    return folder


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def outcomes(report: IngestReport) -> dict[str, str]:
    return {Path(one.path).name: one.outcome for one in report.reports}


def texts(memory: Memory, query: str) -> list[str]:
    return [hit.text.strip() for hit in memory.search(query, limit=50)]


def with_embedder(tmp_path: Path, embedder: Any) -> Memory:
    return Memory.open(tmp_path / "memory.db", embedder=embedder, project="")


# What becomes of each file


def test_every_file_ends_in_the_report(memory: Memory, notes: Path) -> None:
    write(notes, "empty.md", "  \n")
    write(notes, "binary.md", b"\0\1\2")
    first = memory.ingest(notes)
    assert outcomes(first) == {
        "a.md": "added",
        "b.txt": "added",
        "empty.md": "skipped",
        "binary.md": "skipped",
    }
    assert (first.ignored, first.chunks, first.interrupted) == (1, 2, False)
    assert all(one.reason for one in first.reports if one.outcome == "skipped")
    write(notes, "a.md", "# Pears\n\nA pear a day.\n")
    (notes / "sub/b.txt").unlink()
    second = memory.ingest(notes)
    assert outcomes(second) == {
        "a.md": "changed",
        "b.txt": "removed",
        "empty.md": "skipped",
        "binary.md": "skipped",
    }
    assert texts(memory, "apple pear bananas") == ["# Pears\n\nA pear a day."]
    third = memory.ingest(notes)
    assert outcomes(third)["a.md"] == "unchanged"
    assert Counter(one.outcome for one in third.reports) == {"unchanged": 1, "skipped": 2}


def test_a_single_file_is_ingested_like_its_folder(memory: Memory, notes: Path) -> None:
    assert outcomes(memory.ingest(notes / "a.md")) == {"a.md": "added"}
    assert outcomes(memory.ingest(notes)) == {"a.md": "unchanged", "b.txt": "added"}


def test_patterns_choose_and_do_not_remove_what_they_leave_out(memory: Memory, notes: Path) -> None:
    memory.ingest(notes)
    assert outcomes(memory.ingest(notes, patterns=["*.md"])) == {"a.md": "unchanged"}
    assert texts(memory, "bananas") == ["Bananas are yellow."]


def test_a_file_that_the_rules_now_leave_out_leaves_the_index(memory: Memory, notes: Path) -> None:
    memory.ingest(notes)
    write(notes, ".plaitignore", "sub/\n")
    assert outcomes(memory.ingest(notes)) == {"a.md": "unchanged", "b.txt": "removed"}
    assert texts(memory, "bananas") == []


def test_a_file_that_became_empty_is_no_longer_found(memory: Memory, notes: Path) -> None:
    memory.ingest(notes)
    write(notes, "a.md", "")
    report = memory.ingest(notes)
    assert outcomes(report)["a.md"] == "removed"
    assert texts(memory, "apple") == []


def test_a_file_that_became_unreadable_keeps_what_is_known_of_it(
    memory: Memory, notes: Path
) -> None:
    memory.ingest(notes)
    write(notes, "a.md", b"\xff\xfe\0binary")
    assert outcomes(memory.ingest(notes))["a.md"] == "skipped"
    assert texts(memory, "apple") == ["# Apples\n\nAn apple a day."]


def test_a_file_that_changes_while_it_is_read_fails_alone(
    memory: Memory, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = sources.read

    def read(candidate: sources.Candidate) -> sources.Content:
        if candidate.key == "a.md":
            raise SourceError("changed while it was read")
        return real(candidate)

    monkeypatch.setattr(sources, "read", read)
    report = memory.ingest(notes)
    assert outcomes(report) == {"a.md": "failed", "b.txt": "added"}
    [failed] = [one for one in report.reports if one.outcome == "failed"]
    assert failed.reason == "changed while it was read"


def test_a_folder_that_is_gone_is_refused_and_keeps_its_documents(
    memory: Memory, notes: Path
) -> None:
    memory.ingest(notes)
    notes.rename(notes.with_name("moved"))
    with pytest.raises(SourceError):
        memory.ingest(notes)
    assert texts(memory, "apple") != []


def test_there_must_be_something_to_ingest(memory: Memory) -> None:
    with pytest.raises(UsageError, match="plait ingest"):
        memory.ingest()


def test_what_the_walk_leaves_out_is_reported_and_keeps_what_is_known_of_it(
    memory: Memory, notes: Path
) -> None:
    memory.ingest(notes)
    write(notes, "a.md", "x" * (sources.MAX_FILE_BYTES + 1))
    report = memory.ingest(notes)
    assert outcomes(report) == {"a.md": "skipped", "b.txt": "unchanged"}
    [skipped] = [one for one in report.reports if one.outcome == "skipped"]
    assert "too large" in skipped.reason
    assert texts(memory, "apple") != []


def test_progress_is_told_file_by_file(memory: Memory, notes: Path) -> None:
    seen: list[int] = []
    memory.ingest(notes, progress=lambda done, *_: seen.append(done))
    assert seen == [1, 2]


def test_many_files_are_written_in_several_batches(memory: Memory, tmp_path: Path) -> None:
    count = 2 * ingest.BATCH_DOCUMENTS + 3
    for number in range(count):
        write(tmp_path / "many", f"{number:03}.md", f"note number {number}\n")
    report = memory.ingest(tmp_path / "many")
    assert report.count("added") == count
    assert memory.stats().doc_count == count


# Incremental


def age(path: Path, milliseconds: int) -> None:
    """Set a file's time back; the system's own note of the change (ctime) stays now."""
    moment = path.stat().st_mtime_ns - milliseconds * 1_000_000
    os.utime(path, ns=(moment, moment))


def test_incremental_reads_nothing_that_surely_has_not_changed(
    memory: Memory, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = ingest.now_ms() + 2 * ingest.RACY_MS
    monkeypatch.setattr(ingest, "now_ms", lambda: later)
    memory.ingest(notes)
    monkeypatch.setattr(sources, "read", lambda candidate: pytest.fail(candidate.key))
    report = memory.ingest(notes, incremental=True)
    assert outcomes(report) == {"a.md": "unchanged", "b.txt": "unchanged"}


def test_without_incremental_every_file_is_read_again(
    memory: Memory, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.ingest(notes)
    read: list[str] = []
    real = sources.read

    def noted(candidate: sources.Candidate) -> sources.Content:
        read.append(candidate.key)
        return real(candidate)

    monkeypatch.setattr(sources, "read", noted)
    assert outcomes(memory.ingest(notes)) == {"a.md": "unchanged", "b.txt": "unchanged"}
    assert read == ["a.md", "sub/b.txt"]


def test_an_edit_of_the_same_size_and_time_is_noticed(memory: Memory, notes: Path) -> None:
    path = notes / "a.md"
    age(path, 60_000)
    memory.ingest(notes)
    stamp = path.stat()
    write(notes, "a.md", "# Apples\n\nAn orange days.\n")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (stamp.st_size, stamp.st_mtime_ns)
    assert outcomes(memory.ingest(notes, incremental=True))["a.md"] == "changed"
    assert texts(memory, "orange") != []


def test_a_touched_file_is_unchanged_because_the_hash_is_the_truth(
    memory: Memory, notes: Path
) -> None:
    memory.ingest(notes)
    before = memory.lookup("a.md")[0]
    age(notes / "a.md", 60_000)
    assert outcomes(memory.ingest(notes, incremental=True))["a.md"] == "unchanged"
    assert memory.lookup("a.md")[0].updated_at == before.updated_at


# Passages keep their identity


def test_unchanged_passages_keep_their_ids_after_an_edit_elsewhere(
    hashing_memory: Memory, notes: Path
) -> None:
    write(notes, "long.md", "# Long\n\n" + "".join(SECTIONS))
    hashing_memory.ingest(notes)
    before = {p.text: (p.id, p.ref) for p in passages(hashing_memory, "long.md")}
    edited = [*SECTIONS]
    edited[1] = "## Part 1\n\nSomething else entirely.\n\n"
    write(notes, "long.md", "# Long\n\nA new beginning.\n\n" + "".join(edited))
    hashing_memory.ingest(notes)
    after = {p.text: (p.id, p.ref) for p in passages(hashing_memory, "long.md")}
    kept = before.keys() & after.keys()
    assert len(kept) >= 3
    assert all(before[text] == after[text] for text in kept)
    assert hashing_memory.stats().pending_count == 0
    assert {finding.level for finding in hashing_memory.doctor()} == {"ok"}


def test_only_changed_passages_are_embedded_again(tmp_path: Path, notes: Path) -> None:
    embedder = Counting()
    with with_embedder(tmp_path, embedder) as memory:
        write(notes, "long.md", "# Long\n\n" + "".join(SECTIONS))
        memory.ingest(notes)
        embedder.asked.clear()
        edited = [*SECTIONS]
        edited[2] = "## Part 2\n\nSomething else entirely.\n\n"
        write(notes, "long.md", "# Long\n\n" + "".join(edited))
        memory.ingest(notes)
        assert [kind for kind, _ in embedder.asked] == ["passage"]
        assert "Something else entirely" in embedder.asked[0][1]


def test_what_the_embedder_sees_of_a_passage_begins_with_where_it_stands(
    tmp_path: Path, notes: Path
) -> None:
    embedder = Counting()
    write(notes, "a.md", "---\ntitle: Fruit\n---\n# Kinds\n\n## Apples\n\nRed.\n")
    with with_embedder(tmp_path, embedder) as memory:
        memory.ingest(notes / "a.md")
    assert embedder.asked[0][1].startswith("Fruit\nKinds > Apples\n")


def passages(memory: Memory, key: str) -> list[Any]:
    return memory.passages_of(memory.lookup(key)[0].id)


# Front matter


def test_front_matter_becomes_fields_and_the_rest_of_it_metadata(
    memory: Memory, notes: Path
) -> None:
    write(
        notes,
        "ops/keys.md",
        "---\ntitle: Rotating keys\ntags: [ops, '#ssh', ops]\ntype: decision\n"
        "memory_type: procedural\nsummary: Every quarter.\ndate: 2026-03-01T00:00Z\n"
        "author: Ana\nseen: [one, two]\n---\n# Heading\n\nRotate the keys.\n",
    )
    memory.ingest(notes)
    found, _ = memory.lookup("ops/keys.md")
    assert found.title == "Rotating keys"
    assert found.tags == ("ops", "ssh")
    assert (found.type, found.memory_type) == ("decision", "procedural")
    assert found.summary == "Every quarter."
    assert found.event_at == 1_772_323_200_000
    assert found.metadata == {"author": "Ana", "seen": "one, two"}
    assert (found.kind, found.origin, found.source) == ("file", "file", str(notes.resolve()))
    assert found.text == (notes / "ops/keys.md").read_text(encoding="utf-8")
    [passage] = passages(memory, "ops/keys.md")
    assert (passage.start_line, passage.end_line) == (11, 13)
    assert passage.text.startswith("# Heading")


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("x.md", "---\ntitle: Said\n---\n# Heading\n", "Said"),
        ("x.md", "intro\n\n# Heading\n", "Heading"),
        ("rotate-ssh_keys.md", "no heading here\n", "rotate ssh keys"),
        ("x.txt", "# no heading in plain text?\n", None),
        ("x.md", f"# {'long ' * 100}\n", ("long " * 100)[: ingest.TITLE_CHARS].strip()),
    ],
)
def test_a_title_comes_from_front_matter_or_heading_or_name(
    memory: Memory, notes: Path, name: str, text: str, title: str | None
) -> None:
    write(notes, name, text)
    memory.ingest(notes)
    if title is not None:
        assert memory.lookup(name)[0].title.strip() == title


def test_the_time_of_a_file_is_its_event_where_it_says_none(memory: Memory, notes: Path) -> None:
    os.utime(notes / "a.md", (1_000_000_000, 1_000_000_000))
    memory.ingest(notes)
    assert memory.lookup("a.md")[0].event_at == 1_000_000_000_000


# The embedder fails


def test_text_is_stored_and_found_while_the_embedder_is_down_and_vectors_follow(
    tmp_path: Path, notes: Path
) -> None:
    embedder = Failing()
    with with_embedder(tmp_path, embedder) as memory:
        report = memory.ingest(notes)
        assert report.count("added") == 2
        assert report.pending == memory.stats().pending_count == 2
        assert texts(memory, "apple") == ["# Apples\n\nAn apple a day."]
        embedder.healthy = True
        done = memory.reindex()
        assert (done.embedded, done.trouble) == (2, None)
        assert memory.stats().pending_count == 0
        assert memory.search("aple", mode="vector")[0].doc_id == "a.md"


def test_an_embedder_that_fails_half_way_is_not_asked_again_in_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "BATCH_DOCUMENTS", 2)
    for number in range(8):
        write(tmp_path / "many", f"{number}.md", f"note number {number}\n")
    embedder = Failing(calls=1)
    with with_embedder(tmp_path, embedder) as memory:
        report = memory.ingest(tmp_path / "many")
        assert (report.count("added"), report.pending) == (8, 6)
        assert embedder._left == -1


class Wrong(HashingEmbedder):
    """Answers nonsense for passages that say so."""

    def __init__(self, nonsense: Vector | None) -> None:
        super().__init__(4)
        self.nonsense = nonsense

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        good = super().embed(texts, kind)
        return [
            self.nonsense if "nonsense" in text else found
            for text, found in zip(texts, good, strict=True)
        ]


@pytest.mark.parametrize(
    "nonsense",
    [vector(0, 0, 0, 0), vector(float("nan"), 0, 0, 0), vector(1, 2)],
    ids=["zero", "nan", "wrong length"],
)
def test_a_vector_that_is_none_never_costs_the_text(tmp_path: Path, nonsense: Vector) -> None:
    with with_embedder(tmp_path, Wrong(nonsense)) as memory:
        memory.store("first good note", key="good")
        memory.store("pure nonsense", key="bad")
        assert {hit.doc_id for hit in memory.search("nonsense note")} == {"good", "bad"}
        assert memory.stats().embedded_count == 1
        assert all(finding.level != "error" for finding in memory.doctor())


def test_what_the_embedder_declines_is_keyword_only_and_not_pending(tmp_path: Path) -> None:
    with with_embedder(tmp_path, Wrong(None)) as memory:
        memory.store("good note")
        stored = memory.store("pure nonsense")
        assert stored.pending == 0
        stats = memory.stats()
        assert (stats.embedded_count, stats.pending_count) == (1, 0)
        assert {finding.level for finding in memory.doctor()} == {"ok"}


class Short(HashingEmbedder):
    """Loses the last answer of every batch."""

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        return list(super().embed(texts, kind))[:-1]


def test_too_few_vectors_are_not_given_to_the_wrong_passages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "EMBED_BATCH", 2)
    for number in range(5):
        write(tmp_path / "many", f"{number}.md", f"note number {number}\n")
    with with_embedder(tmp_path, Short()) as memory:
        assert memory.ingest(tmp_path / "many").pending == 5
        done = memory.reindex()
        assert done.embedded == 0
        assert done.trouble is not None
        assert "1 vectors for 2 texts" in done.trouble


# Interrupted


def test_ctrl_c_keeps_what_is_done_and_the_next_run_goes_on(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "BATCH_DOCUMENTS", 2)
    for number in range(7):
        write(tmp_path / "many", f"{number}.md", f"note number {number}\n")
    real = sources.read

    def read(candidate: sources.Candidate) -> sources.Content:
        if candidate.key == "5.md":
            raise KeyboardInterrupt
        return real(candidate)

    with monkeypatch.context() as patch:
        patch.setattr(sources, "read", read)
        report = memory.ingest(tmp_path / "many")
    assert report.interrupted
    assert Counter(one.outcome for one in report.reports) == {"added": 4, "skipped": 1}
    assert memory.stats().doc_count == 4
    again = memory.ingest(tmp_path / "many", incremental=True)
    assert Counter(one.outcome for one in again.reports) == {"unchanged": 4, "added": 3}


def test_ctrl_c_while_writing_loses_the_batch_whole_and_says_so(
    tmp_path: Path, notes: Path
) -> None:
    class Interrupted(HashingEmbedder):
        def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
            raise KeyboardInterrupt

    with with_embedder(tmp_path, Interrupted()) as memory:
        report = memory.ingest(notes)
        assert report.interrupted
        assert outcomes(report) == {"a.md": "skipped", "b.txt": "skipped"}
        assert memory.stats().doc_count == 0


def test_ctrl_c_forgets_no_vanished_file(
    memory: Memory, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.ingest(notes)
    (notes / "sub/b.txt").unlink()
    write(notes, "a.md", "# Pears\n")

    def read(_: sources.Candidate) -> sources.Content:
        raise KeyboardInterrupt

    monkeypatch.setattr(sources, "read", read)
    assert memory.ingest(notes).interrupted
    assert memory.stats().doc_count == 2


# Projects


def test_the_same_folder_belongs_to_each_project_that_ingests_it(
    tmp_path: Path, notes: Path
) -> None:
    for project in ("p", "q"):
        with Memory.open(tmp_path / "memory.db", embedder="none", project=project) as memory:
            assert memory.ingest(notes).count("added") == 2
    (notes / "a.md").unlink()
    with Memory.open(tmp_path / "memory.db", embedder="none", project="p") as memory:
        assert outcomes(memory.ingest(notes))["a.md"] == "removed"
        assert len(memory.search("apple", all_projects=True)) == 1


def test_an_error_that_nobody_expects_is_not_swallowed(tmp_path: Path, notes: Path) -> None:
    class Broken(HashingEmbedder):
        def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
            raise ZeroDivisionError

    with with_embedder(tmp_path, Broken()) as memory, pytest.raises(ZeroDivisionError):
        memory.ingest(notes)


def test_batches_hold_at_most_their_size() -> None:
    entries = [entry(f"{n}", "x") for n in range(5)]
    assert [len(batch) for batch in ingest.batches(entries, 2)] == [2, 2, 1]
    assert list(ingest.batches([], 2)) == []
