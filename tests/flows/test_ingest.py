"""The write path: what becomes of every file, and what a failing embedder cannot spoil."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from plait.errors import SourceError, UsageError, advise
from plait.memory import Memory
from plait.protocols import Vector
from plait.testing import HashingEmbedder
from plait.text import front_matter
from plait.times import parse_time
from plait.types import Cut, Document, Filter, TextKind
from plait.types.reports import FileReport, IngestInterrupted, IngestReport, NewEntity
from plait.writing import backfill, documents, folder, sources
from plait.writing.changes import Change
from plait.writing.writer import Writer, batches
from tests.builders import Counting, Failing, entry, vector
from tests.codes import has_code

SECTIONS = [
    f"## Part {n}\n\nThis is part number {n}. {'More of it follows. ' * 40}\n\n" for n in range(5)
]

MOMENT = 1_700_000_000_000


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
    return {Path(row.path).name: row.outcome for row in report.reports}


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
    assert all(row.reason for row in first.reports if row.outcome == "skipped")
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
    assert Counter(row.outcome for row in third.reports) == {"unchanged": 1, "skipped": 2}


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
    real = sources.read_file

    def read(file: sources.SourceFile) -> sources.Content:
        if file.key == "a.md":
            raise SourceError("changed while it was read")
        return real(file)

    monkeypatch.setattr(sources, "read_file", read)
    report = memory.ingest(notes)
    assert outcomes(report) == {"a.md": "failed", "b.txt": "added"}
    [failed] = [row for row in report.reports if row.outcome == "failed"]
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
    with pytest.raises(UsageError, check=has_code("no_source", advice=advise("give_source"))):
        memory.ingest()


def test_what_the_walk_leaves_out_is_reported_and_keeps_what_is_known_of_it(
    memory: Memory, notes: Path
) -> None:
    memory.ingest(notes)
    write(notes, "a.md", "x" * (sources.MAX_SOURCE_BYTES + 1))
    report = memory.ingest(notes)
    assert outcomes(report) == {"a.md": "skipped", "b.txt": "unchanged"}
    [skipped] = [row for row in report.reports if row.outcome == "skipped"]
    assert "too large" in skipped.reason
    assert texts(memory, "apple") != []


def test_progress_never_exceeds_its_total(memory: Memory, notes: Path) -> None:
    for name in ("gone", "empty", "kept"):
        (notes / f"{name}.md").write_text(f"About {name}.", encoding="utf-8")
    memory.ingest(notes)
    (notes / "gone.md").unlink()
    (notes / "empty.md").write_text("", encoding="utf-8")
    steps: list[tuple[int, int]] = []
    report = memory.ingest(notes, progress=lambda done, total, _: steps.append((done, total)))
    assert report.count("removed") == 2
    assert all(done <= total for done, total in steps)
    assert steps[-1] == (len(report.reports), len(report.reports))


def test_each_file_is_reported_when_it_is_done(memory: Memory, notes: Path) -> None:
    seen: list[FileReport] = []
    report = memory.ingest(notes, on_file=seen.append)
    assert tuple(seen) == report.reports
    assert sum(row.chunks for row in seen) == report.chunks > 0


def test_progress_is_told_file_by_file(memory: Memory, notes: Path) -> None:
    seen: list[int] = []
    memory.ingest(notes, progress=lambda done, *_: seen.append(done))
    assert seen == [1, 2]


def test_many_files_are_written_in_several_batches(memory: Memory, tmp_path: Path) -> None:
    count = 2 * folder.BATCH_FILES + 3
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
    later = documents.now_ms() + 2 * sources.RACY_MS
    monkeypatch.setattr(documents, "now_ms", lambda: later)
    memory.ingest(notes)
    monkeypatch.setattr(sources, "read_file", lambda file: pytest.fail(file.key))
    report = memory.ingest(notes, incremental=True)
    assert outcomes(report) == {"a.md": "unchanged", "b.txt": "unchanged"}


def test_without_incremental_every_file_is_read_again(
    memory: Memory, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.ingest(notes)
    read: list[str] = []
    real = sources.read_file

    def noted(file: sources.SourceFile) -> sources.Content:
        read.append(file.key)
        return real(file)

    monkeypatch.setattr(sources, "read_file", noted)
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
    document, _ = memory.lookup("ops/keys.md")
    assert document.title == "Rotating keys"
    assert document.tags == ("ops", "ssh")
    assert (document.type, document.memory_type) == ("decision", "procedural")
    assert document.summary == "Every quarter."
    assert document.event_at == 1_772_323_200_000
    assert document.metadata == {"author": "Ana", "seen": "one, two"}
    assert (document.kind, document.origin, document.source) == (
        "file",
        "file",
        str(notes.resolve()),
    )
    assert document.text == (notes / "ops/keys.md").read_text(encoding="utf-8")
    [passage] = passages(memory, "ops/keys.md")
    assert (passage.start_line, passage.end_line) == (11, 13)
    assert passage.text.startswith("# Heading")


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("x.md", "---\ntitle: Said\n---\n# Heading\n", "Said"),
        ("x.md", "intro\n\n# Heading\n", "Heading"),
        ("rotate-ssh_keys.md", "no heading here\n", "rotate ssh keys"),
        ("Berlin trip.md", "We go in May.\n\n## Hotel\n\nAdlon.\n", "Berlin trip"),
        ("Berlin trip.md", "## Hotel\n\nAdlon.\n\n## Food\n\nCurrywurst.\n", "Berlin trip"),
        ("x.md", "## The trip\n\n### Hotel\n\nAdlon.\n", "The trip"),
        ("x.txt", "# no heading in plain text?\n", None),
        ("x.md", f"# {'long ' * 100}\n", ("long " * 100)[: documents.TITLE_CHARS].strip()),
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
    monkeypatch.setattr(folder, "BATCH_FILES", 2)
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
            self.nonsense if "nonsense" in text else row
            for text, row in zip(texts, good, strict=True)
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
    monkeypatch.setattr(backfill, "EMBED_BATCH", 2)
    for number in range(5):
        write(tmp_path / "many", f"{number}.md", f"note number {number}\n")
    with with_embedder(tmp_path, Short()) as memory:
        assert memory.ingest(tmp_path / "many").pending == 5
        done = memory.reindex()
        assert done.embedded == 0
        assert done.trouble is not None
        assert "1 vectors for 2 texts" in done.trouble.text


# Interrupted


def interrupted(memory: Memory, place: Path, **options: Any) -> IngestReport:
    """Return how far an ingest came that Ctrl-C ends: the program must hear of it."""
    with pytest.raises(KeyboardInterrupt) as stop:
        memory.ingest(place, **options)
    assert isinstance(stop.value, IngestInterrupted)
    assert stop.value.report.interrupted
    assert "kept" in str(stop.value)
    return stop.value.report


def test_ctrl_c_keeps_what_is_done_and_the_next_run_goes_on(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "BATCH_FILES", 2)
    for number in range(7):
        write(tmp_path / "many", f"{number}.md", f"note number {number}\n")
    real = sources.read_file

    def read(file: sources.SourceFile) -> sources.Content:
        if file.key == "5.md":
            raise KeyboardInterrupt
        return real(file)

    with monkeypatch.context() as patch:
        patch.setattr(sources, "read_file", read)
        report = interrupted(memory, tmp_path / "many")
    assert Counter(row.outcome for row in report.reports) == {"added": 4, "skipped": 1}
    assert report.left == 2
    assert memory.stats().doc_count == 4
    again = memory.ingest(tmp_path / "many", incremental=True)
    assert Counter(row.outcome for row in again.reports) == {"unchanged": 4, "added": 3}


def test_ctrl_c_while_files_are_told_counts_all_that_is_written(
    memory: Memory, tmp_path: Path
) -> None:
    for number in range(5):
        write(tmp_path / "many", f"{number}.md", f"note number {number}\n")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    report = interrupted(memory, tmp_path / "many", progress=interrupt)
    assert report.left == 0
    assert len(report.reports) == memory.stats().doc_count == 5


def test_ctrl_c_while_writing_loses_the_batch_whole_and_says_so(
    tmp_path: Path, notes: Path
) -> None:
    class Interrupted(HashingEmbedder):
        def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
            raise KeyboardInterrupt

    with with_embedder(tmp_path, Interrupted()) as memory:
        report = interrupted(memory, notes)
        assert outcomes(report) == {"a.md": "skipped", "b.txt": "skipped"}
        assert memory.stats().doc_count == 0


def test_ctrl_c_forgets_no_vanished_file(
    memory: Memory, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.ingest(notes)
    (notes / "sub/b.txt").unlink()
    write(notes, "a.md", "# Pears\n")

    def read(_: sources.SourceFile) -> sources.Content:
        raise KeyboardInterrupt

    monkeypatch.setattr(sources, "read_file", read)
    interrupted(memory, notes)
    assert memory.stats().doc_count == 2
    with pytest.raises(KeyboardInterrupt):  # no step of a maintenance goes on either
        memory.maintain(notes)


def test_of_two_runs_at_once_each_file_is_added_by_one(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, others = sources.read_file, []

    def read(file: sources.SourceFile) -> sources.Content:
        monkeypatch.setattr(sources, "read_file", real)
        with Memory.open(tmp_path / "memory.db", embedder="hashing", project="") as other:
            others.append(outcomes(other.ingest(notes)))
        return real(file)

    with Memory.open(tmp_path / "memory.db", embedder="hashing", project="") as memory:
        monkeypatch.setattr(sources, "read_file", read)
        assert outcomes(memory.ingest(notes)) == {"a.md": "unchanged", "b.txt": "unchanged"}
        assert others == [{"a.md": "added", "b.txt": "added"}]
        assert memory.stats().doc_count == 2


# Projects


def read_into(
    memory: Memory, place: Path, project: str | None, *, keep_project: bool = True
) -> dict[str, str]:
    writer = Writer.begin(memory.engine, memory.embedder, Cut(), project, max_bytes=1_000_000)
    run = folder.Ingest(writer, incremental=True, keep_project=keep_project)
    return outcomes(run.run(sources.walk(place)))


def files(memory: Memory) -> set[tuple[str | None, str, str | None]]:
    rows = memory.engine.scan(Filter(kinds=("file",)))
    return {(row.project, Path(row.source).name, row.key) for row in rows}


def test_a_known_file_stays_in_its_project_unless_another_was_named(
    memory: Memory, notes: Path
) -> None:
    read_into(memory, notes, "p")
    ids = {row.id for row in memory.engine.scan(Filter())}
    write(notes, "a.md", "# Pears\n\nA pear a day.\n")
    assert read_into(memory, notes, "q") == {"a.md": "changed", "b.txt": "unchanged"}
    assert files(memory) == {("p", "notes", "a.md"), ("p", "notes", "sub/b.txt")}
    moved = read_into(memory, notes, "q", keep_project=False)
    assert moved == {"a.md": "moved", "b.txt": "moved"}
    assert files(memory) == {("q", "notes", "a.md"), ("q", "notes", "sub/b.txt")}
    assert {row.id for row in memory.engine.scan(Filter())} == ids


@pytest.mark.parametrize("first", ["sub", "sub/b.txt"], ids=["folder", "file"])
def test_a_file_is_one_document_and_named_after_the_widest_folder_it_was_read_from(
    memory: Memory, notes: Path, first: str
) -> None:
    memory.ingest(notes / first)
    assert files(memory) == {(None, "sub", "b.txt")}
    before = memory.lookup("b.txt")[0]
    assert outcomes(memory.ingest(notes)) == {"a.md": "added", "b.txt": "moved"}
    widest = {(None, "notes", "a.md"), (None, "notes", "sub/b.txt")}
    assert files(memory) == widest
    after = memory.lookup("sub/b.txt")[0]
    assert (after.id, after.updated_at) == (before.id, before.updated_at)
    assert outcomes(memory.ingest(notes / first)) == {"b.txt": "unchanged"}
    write(notes, "sub/b.txt", "Bananas are green.\n")
    assert outcomes(memory.ingest(notes / first)) == {"b.txt": "changed"}
    assert files(memory) == widest
    assert texts(memory, "bananas") == ["Bananas are green."]


def test_a_folder_that_was_ingested_too_wide_gets_its_own_names_again(
    memory: Memory, notes: Path
) -> None:
    write(notes, "sub/c.txt", "Cherries are red.\n")
    memory.ingest(notes / "sub")
    ids = {row.id for row in memory.engine.scan(Filter())}
    memory.ingest(notes)
    memory.delete("a.md", "sub/b.txt")
    # Something of the wider folder is left: its names go on.
    memory.ingest(notes / "sub")
    assert files(memory) == {(None, "notes", "sub/b.txt"), (None, "notes", "sub/c.txt")}
    memory.delete("sub/b.txt", "sub/c.txt")
    memory.ingest(notes / "sub")
    assert files(memory) == {(None, "sub", "b.txt"), (None, "sub", "c.txt")}
    assert {row.id for row in memory.engine.scan(Filter())} == ids


def test_a_file_that_vanished_is_noticed_from_a_narrower_folder_too(
    memory: Memory, notes: Path
) -> None:
    memory.ingest(notes)
    (notes / "sub/b.txt").unlink()
    assert outcomes(memory.ingest(notes / "sub")) == {"b.txt": "removed"}
    assert texts(memory, "bananas apple") == ["# Apples\n\nAn apple a day."]


def test_a_folder_read_for_itself_outlives_a_run_over_the_folder_around_it(
    memory: Memory, notes: Path
) -> None:
    write(notes, ".plaitignore", "sub/\n")
    memory.ingest(notes / "sub")
    assert outcomes(memory.ingest(notes)) == {"a.md": "added"}
    assert texts(memory, "bananas") == ["Bananas are yellow."]
    (notes / "sub").rename(notes.with_name("unplugged"))
    assert outcomes(memory.ingest(notes)) == {"a.md": "unchanged"}
    assert texts(memory, "bananas") == ["Bananas are yellow."]


def test_undo_takes_back_the_latest_removal_first_whoever_removed(
    memory: Memory, notes: Path
) -> None:
    memory.store("mine", key="mine")
    memory.ingest(notes)
    memory.delete("mine")
    (notes / "a.md").unlink()
    write(notes, "sub/b.txt", "")
    assert outcomes(memory.ingest(notes)) == {"a.md": "removed", "b.txt": "removed"}
    assert {document.key for document in memory.undo()} == {"a.md", "sub/b.txt"}
    assert [document.key for document in memory.undo()] == ["mine"]


# Times


@pytest.mark.parametrize(
    ("name", "text", "moment"),
    [
        ("2026-03-01-outage.md", "---\ndate: 2026-04-01T00:00Z\n---\nx\n", "2026-04-01T00:00Z"),
        ("a.md", "---\ndate: March 5, 2026\n---\nx\n", "2026-03-05"),
        ("a.md", "---\ncreated: Do, 5. März 2026\n---\nx\n", "2026-03-05"),
        ("a.md", "---\ndate: 2026/3/5\n---\nx\n", "2026-03-05"),
        ("a.md", '+++\ndate = "25/12/2026"\n+++\nx\n', "2026-12-25"),
        ("a.md", "---\ndate: 03/04/2026\n---\nApril or March\n", "2001-09-09T01:46:40Z"),
        ("a.md", "---\ndate: by 5 March 2026 or so\n---\nx\n", "2001-09-09T01:46:40Z"),
        ("diary/2026-03-01.md", "x\n", "2026-03-01"),
        ("2026-03-01 outage.txt", "x\n", "2026-03-01"),
        ("2026-02-31.md", "no such day\n", "2001-09-09T01:46:40Z"),
        ("outage-2026-03-01.md", "not at the start\n", "2001-09-09T01:46:40Z"),
        ("2026-03-01/outage.md", "a folder's date\n", "2001-09-09T01:46:40Z"),
    ],
)
def test_a_file_happened_when_it_says_or_its_name_or_its_time_stamp(
    memory: Memory, notes: Path, name: str, text: str, moment: str
) -> None:
    path = write(notes, name, text)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    memory.ingest(notes)
    assert memory.lookup(name)[0].event_at == parse_time(moment)


def test_an_event_of_1970_is_a_date_like_any_other(memory: Memory) -> None:
    memory.store("the beginning", key="k", event_at="1970-01-01T00:00Z")
    assert memory.lookup("k")[0].event_at == 0


def test_the_same_text_stored_again_is_not_an_update(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([1000, 2000, 3000])
    monkeypatch.setattr(documents, "now_ms", lambda: next(clock))
    seen = []
    for text in ("a note", "a note", "an edited note"):
        memory.store(text, key="k")
        seen.append(memory.lookup("k")[0].updated_at)
    assert seen == [1000, 1000, 3000]


# Front matter of notes

FRONT = (
    "---\ntitle: Rotating keys\ntags: [ops, ssh]\ntype: decision\nmemory_type: procedural\n"
    "summary: Every quarter.\ndate: 2026-03-01T00:00Z\nauthor: Ana\n---\nRotate the keys.\n"
)


def test_front_matter_of_a_note_counts_like_that_of_a_file(memory: Memory) -> None:
    memory.store(FRONT, key="k")
    document = memory.lookup("k")[0]
    assert (document.title, document.tags, document.type) == (
        "Rotating keys",
        ("ops", "ssh"),
        "decision",
    )
    assert (document.memory_type, document.summary) == ("procedural", "Every quarter.")
    assert (document.event_at, document.metadata) == (1_772_323_200_000, {"author": "Ana"})


def test_what_the_caller_says_wins_over_the_front_matter(memory: Memory) -> None:
    memory.store(
        FRONT,
        key="k",
        title="T",
        tags=["mine"],
        type="note",
        memory_type="semantic",
        summary="S",
        event_at=MOMENT,
        metadata={"author": "Bo", "more": "x"},
    )
    document = memory.lookup("k")[0]
    assert (document.title, document.tags, document.type) == ("T", ("mine",), "note")
    assert (document.memory_type, document.summary, document.event_at) == ("semantic", "S", MOMENT)
    assert document.metadata == {"author": "Bo", "more": "x"}


def test_front_matter_alone_is_no_text(memory: Memory, notes: Path) -> None:
    alone = "---\ntitle: Nothing\n---\n\n"
    with pytest.raises(UsageError, check=has_code("no_body")):
        memory.store(alone, key="k")
    write(notes, "alone.md", alone)
    assert outcomes(memory.ingest(notes))["alone.md"] == "skipped"


def test_front_matter_is_parsed_once_per_stored_text(
    memory: Memory, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    real = front_matter.front_matter

    def counting(text: str) -> tuple[dict[str, str | list[str]], int]:
        parsed.append(text)
        return real(text)

    monkeypatch.setattr(documents, "front_matter", counting)
    many = [Document(key=f"m{n}", text=f"---\ntitle: T\n---\nnumber {n}") for n in range(3)]
    memory.store(FRONT, key="k")
    memory.store("The staging host is heron.", origin="agent")
    memory.store("Ana drinks tea.", entity="Ana", topic="drink")
    memory.store_many(many)
    memory.graph.create([NewEntity("Bo", "person", ("Bo drinks coffee.",))])
    memory.ingest(notes)
    assert Counter(parsed) == Counter(
        [
            FRONT,
            "The staging host is heron.",
            "Ana drinks tea.",
            *(document.text for document in many),
            "Bo drinks coffee.",
            "# Apples\n\nAn apple a day.\n",
            "Bananas are yellow.\n",
        ]
    )


# Other people's embedders


class Broken(HashingEmbedder):
    """Fails in a way that nobody expects."""

    def __init__(self, failure: Exception) -> None:
        super().__init__(4)
        self._failure = failure

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        raise self._failure


@pytest.mark.parametrize("failure", [ZeroDivisionError("oops"), OSError("oops"), KeyError("oops")])
def test_no_failure_of_an_embedder_costs_the_text(
    tmp_path: Path, notes: Path, failure: Exception
) -> None:
    with with_embedder(tmp_path, Broken(failure)) as memory:
        report = memory.ingest(notes)
        assert report.count("added") == 2
        assert report.trouble is not None
        assert report.trouble.code == "embedder_failed"
        assert "oops" in report.trouble.text
        assert type(failure).__name__ in report.trouble.text
        assert memory.stats().pending_count == 2
    with with_embedder(tmp_path, "none") as memory:
        assert texts(memory, "apple") == ["# Apples\n\nAn apple a day."]


class Loose(HashingEmbedder):
    """Answers with whatever it was given instead of vectors."""

    def __init__(self, answer: Any) -> None:
        super().__init__(4)
        self._answer = answer

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        answer: Sequence[Vector | None] = self._answer
        return answer


@pytest.mark.parametrize("answer", [None, 5, [5], ["abcd"], [[1, "x"]], [], [None, None]])
def test_an_answer_that_is_no_vector_costs_no_text_either(tmp_path: Path, answer: Any) -> None:
    with with_embedder(tmp_path, Loose(answer)) as memory:
        stored = memory.store("apples", key="k")
        assert stored.pending == 1
        assert stored.trouble is not None
    with with_embedder(tmp_path, "none") as memory:
        assert texts(memory, "apples") == ["apples"]


def test_numbers_in_a_plain_list_or_generator_are_a_vector() -> None:
    for answer in ([[1, 0, 0, 0.5]], iter([(1.0, 0.0, 0.0, 0.5)])):
        assert Loose(answer).embed_safely(["x"], "passage") == [vector(1, 0, 0, 0.5)]


def test_batches_hold_at_most_their_size() -> None:
    changes = [Change(entry(f"{n}", "x")) for n in range(5)]
    assert [len(batch) for batch in batches(changes, 2)] == [2, 2, 1]
    assert list(batches([], 2)) == []


def test_a_file_that_takes_the_place_of_a_note_of_its_name_is_reported_as_changed(
    memory: Memory, notes: Path
) -> None:
    memory.store("My own words.", key="a.md")
    write(notes, "a.md", "The words of the file.")
    assert outcomes(memory.ingest(notes))["a.md"] == "changed"
    assert memory.get("a.md").text == "The words of the file."
    assert [row.doc_id for row in memory.undo("a.md")] == ["a.md"]
    assert memory.get("a.md").text == "My own words."
    assert outcomes(memory.ingest(notes)) == {"a.md": "changed", "b.txt": "unchanged"}
