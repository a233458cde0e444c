"""A folder of several formats: what is read, where a hit leads, and what is told of the rest."""

from pathlib import Path

import pytest

from plait.memory import Memory
from tests.unit.test_formats import CODE, PAGE, notebook, paragraph, word


@pytest.fixture
def memory():
    with Memory.open(":memory:", embedder="none", project="") as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "stuff"
    root.mkdir()
    long = "".join(f"<h2>Part {n}</h2>\n\n\n<p>{'filler ' * 60}</p>\n" for n in range(9))
    (root / "keys.html").write_text(
        PAGE.replace("<p>The end", f"{long}<p>Last marmot"), encoding="utf-8"
    )
    cell = {"cell_type": "code", "source": ["quokka = 1\n"], "outputs": []}
    (root / "churn.ipynb").write_text(notebook(cell), encoding="utf-8")
    (root / "film.srt").write_text(
        "1\n00:01:02,500 --> 00:01:04,000\nA wombat!\n", encoding="utf-8"
    )
    (root / "plan.docx").write_bytes(word(paragraph("An echidna.", "Heading1")))
    (root / "guide.rst").write_text(
        "Guide to numbats\n================\n\ntext\n", encoding="utf-8"
    )
    (root / "todo.org").write_text("#+title: Bilby list\n* One\n", encoding="utf-8")
    (root / "old.txt").write_bytes("Un café près du dingo".encode("cp1252"))
    (root / "tool.py").write_text(CODE["python"][0], encoding="utf-8")
    (root / "tool.pdf").write_bytes(b"%PDF broken")
    (root / "photo.png").write_bytes(b"\x89PNG\0")
    return root


def test_a_folder_is_read_in_its_formats_and_the_rest_is_listed_by_type(memory, folder):
    report = memory.ingest(folder)
    assert report.count("added") == 7
    assert dict(report.ignored_types) == {".pdf": 1, ".png": 1, ".py": 1}
    [told] = [row for row in report.reports if row.reason]
    assert (Path(told.path).name, told.outcome) == ("old.txt", "added")
    for words, name in [
        ("marmot", "keys.html"),
        ("quokka", "churn.ipynb"),
        ("wombat", "film.srt"),
        ("echidna", "plan.docx"),
        ("dingo", "old.txt"),
    ]:
        assert memory.search(words)[0].doc_id == name
    titles = {name: memory.get(name).title for name in ("keys.html", "guide.rst", "todo.org")}
    assert list(titles.values()) == ["Keys & locks", "Guide to numbats", "Bilby list"]


def smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have memories opened from now on cut again, into smaller passages."""
    monkeypatch.setenv("PLAIT_CHUNK_SIZE", "300")
    monkeypatch.setenv("PLAIT_CHUNK_OVERLAP", "0")


def test_a_hit_leads_to_the_line_of_the_file_also_after_a_reindex(tmp_path, folder, monkeypatch):
    path = str(tmp_path / "m.db")
    source = (folder / "keys.html").read_text(encoding="utf-8").split("\n")

    def check(memory: Memory) -> None:
        hit = next(hit for hit in memory.search('"part 7"') if "Part 7" in hit.heading)
        assert "Part 7" in source[hit.start_line - 1]
        assert hit.start_line <= hit.end_line <= len(source)
        wombat = memory.search("wombat")[0]
        assert (wombat.start_line, wombat.end_line) == (2, 3)

    with Memory.open(path, embedder="none", project="") as memory:
        memory.ingest(folder)
        check(memory)
    smaller(monkeypatch)
    with Memory.open(path, embedder="none", project="") as memory:
        assert memory.reindex().rechunked
        check(memory)


def test_a_reindex_keeps_the_lines_of_plain_files(tmp_path, monkeypatch):
    notes = tmp_path / "n"
    notes.mkdir()
    text = "---\ntitle: T\n---\n\n\n# A\n\n" + "".join(f"Line {n} of it.\n\n" for n in range(200))
    (notes / "a.md").write_text(text, encoding="utf-8")
    path = str(tmp_path / "m.db")
    with Memory.open(path, embedder="none", project="") as memory:
        memory.ingest(notes)
        before = len(memory.passages_of(memory.get("a.md").id))
    smaller(monkeypatch)
    with Memory.open(path, embedder="none", project="") as memory:
        memory.reindex()
        passages = memory.passages_of(memory.get("a.md").id)
    assert len(passages) > before
    for passage in passages:
        rows = text.split("\n")[passage.start_line - 1 : passage.end_line]
        assert "\n".join(rows).strip() == passage.text.strip()


def test_code_is_read_when_it_is_asked_for(memory, folder):
    report = memory.ingest(folder, include=("code", "*.png"))
    assert report.count("added") == 8
    hit = memory.search("async")[0]
    assert (hit.doc_id, hit.file_title, hit.heading) == ("tool.py", "tool.py", "a; B > c")
    memory.ingest(folder)
    assert memory.get("tool.py")


def test_a_file_that_is_not_what_its_name_says_is_skipped_and_the_rest_goes_on(memory, folder):
    (folder / "bad.ipynb").write_text("[" * 100_000, encoding="utf-8")
    (folder / "bad.docx").write_bytes(b"PK nothing")
    report = memory.ingest(folder, include=("pdf",))
    skipped = {
        Path(row.path).name: row.reason for row in report.reports if row.outcome == "skipped"
    }
    assert skipped.keys() == {"bad.ipynb", "bad.docx", "tool.pdf"}
    assert all(reason and "\n" not in reason for reason in skipped.values())


def test_a_file_of_another_format_that_moved_stays_the_same_document(memory, folder):
    memory.ingest(folder)
    before = memory.get("plan.docx").id
    (folder / "plan.docx").rename(folder / "new.docx")
    report = memory.ingest(folder)
    assert report.count("moved") == 1
    assert memory.get("new.docx").id == before


def test_a_reader_that_fails_ends_nothing_but_its_own_file(memory, folder, monkeypatch):
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("plait.writing.formats.notebooks.convert_notebook", fail)
    report = memory.ingest(folder)
    assert report.count("added") == 6
    [failed] = [row for row in report.reports if row.outcome == "failed"]
    assert (Path(failed.path).name, failed.code) == ("churn.ipynb", "unreadable_format")
