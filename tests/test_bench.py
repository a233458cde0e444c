"""The benchmark's own arithmetic, and its habits: it goes on where it stopped."""

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from tests.interfaces.command import ROOT


@pytest.fixture
def script(monkeypatch):
    """Import a script of the benchmarks, which are no package."""
    folder = ROOT / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    yield importlib.import_module
    # Names such as `secrets` and `run` must not stand for other modules in the tests that follow.
    for name in {path.stem for path in folder.glob("*.py")}:
        module = sys.modules.get(name)
        if module is not None and str(module.__file__).startswith(str(folder)):
            del sys.modules[name]


def measured(median: float, p95: float = 0.0, **more: object) -> dict[str, object]:
    return {"median": median, "p95": p95 or median, "samples": 9, "peak_mb": 20.0, **more}


def results_of(summary: ModuleType) -> dict[str, object]:
    """Results of two sizes: everything is ten times as dear at the larger one."""
    results: dict[str, object] = {
        "about": {
            "date": "2026-11-16",
            "machine": ["A, 2 CPUs, L", "B"],
            "characters": 9,
            "load": 1,
        },
        "start/python -c pass": measured(10.0),
        "peer/10000/tantivy": {
            **{"version": "1", "ranks": "words", "rows_per_second": 9, "disk_mb": 1, "peak_mb": 2},
            **{"short": measured(0.1), "long": measured(0.2)},
            **{"new, short": measured(31.0), "new, long": measured(32.0)},
        },
        "skipped/Chroma": {"why": "pip cannot install chromadb: no network"},
    }
    names = [*(name for names in summary.SEARCHES_OF.values() for name in names), "store"]
    for size, cost in ((10_000, 3.0), (100_000, 30.0)):
        results |= {f"{size}/{name}": measured(cost, journal_bytes=0) for name in names}
        results[f"{size}/rows, vectors given"] = measured(13_000.0, bytes=1_300)
    return results


def test_a_run_that_was_interrupted_goes_on_where_it_stopped(script, tmp_path):
    run = script("run")
    asked = []

    def act(name: str) -> dict[str, float]:
        asked.append(name)
        if name == "killed":
            raise KeyboardInterrupt
        return {"median": 1.0}

    book = run.Book(tmp_path / "measured.json")
    book.measure("first", lambda: act("first"))
    with pytest.raises(KeyboardInterrupt):
        book.measure("second", lambda: act("killed"))
    book = run.Book(tmp_path / "measured.json")
    assert book.measure("first", lambda: act("first")) == {"median": 1.0}
    book.measure("second", lambda: act("second"))
    assert asked == ["first", "killed", "second"]


def test_a_copy_to_write_to_is_on_the_disk_before_it_is_measured(script, tmp_path, monkeypatch):
    run = script("run")
    synced = []
    monkeypatch.setattr(run.os, "fsync", lambda file: synced.append(run.os.fstat(file).st_size))
    original = tmp_path / "9.db"
    original.write_bytes(b"x" * 5_000)
    assert run._copied(original).read_bytes() == original.read_bytes()
    assert synced == [5_000]


def test_other_code_starts_anew_and_keeps_the_peers(script, tmp_path):
    run = script("run")
    (tmp_path / "peers").mkdir()
    old = run._prepared(tmp_path, "old")
    (old / "measured.json").write_text("{}", encoding="utf-8")
    assert run._prepared(tmp_path, "old") == old
    assert (old / "measured.json").exists()
    run._prepared(tmp_path, "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "peers"]


def test_a_peer_that_cannot_be_installed_is_left_out_with_the_reason(script, monkeypatch):
    run = script("run")

    def fail(words, **_):
        raise subprocess.CalledProcessError(1, words, stderr="Looking\nERROR: No network\n")

    monkeypatch.setattr(run.subprocess, "run", fail)
    why = run._install(Path("python"), "chromadb")
    assert why == "pip cannot install chromadb: ERROR: No network"


def test_growth_is_the_exponent_between_sizes(script):
    summary = script("summary")
    assert summary.growth({10_000: 2.0, 100_000: 20.0, 1_000_000: 20.0}) == "1.00, 0.00"
    assert summary.growth({10_000: 2.0}) == ""


def test_the_table_has_every_operation_its_limit_and_what_was_left_out(script):
    summary = script("summary")
    results = results_of(summary)
    results["10000/store"] = measured(3.0, 9.5, journal_bytes=0)
    part = summary.results_part("2026-11-16", results)
    assert "| store | 3.00 / 9.50 (uneven) | 30.0 / 30.0, **missed** | 1.00 | ≤ 5 |" in part
    assert "| rows, vectors given | 13,000 | 13,000 |  | ≥ 12,000 |" in part
    assert "| tantivy (1) | words | 31.0 / 32.0 | 0.10 / 0.20 |" in part
    assert "Left out: Chroma (pip cannot install chromadb: no network)." in part
    assert "| left in the journal after a command, bytes | 0 | 0 | 0 |" in part


def test_the_picture_has_a_panel_for_every_operation(script):
    summary = script("summary")
    results = results_of(summary)
    root = ElementTree.fromstring(summary.picture(results))
    names = [node.text for node in root.iter() if node.get("class") == "name"]
    assert names == summary.operations_of(results)
    assert "store" in names
    dots = [float(node.get("cy", 0)) for node in root.iter() if node.get("class") == "dot"]
    assert dots[0] > dots[1], "what costs more lies higher"
    assert len([node for node in root.iter() if node.get("class") == "limit"]) == 2 * len(names)


def test_questions_of_stop_words_are_the_same_each_time(script):
    corpus = script("corpus")
    passages = [corpus.Passage("Several ordinary words about gardens", "file", 1)]
    asked = corpus.stop_word_questions(passages, 8)
    assert asked == corpus.stop_word_questions(passages, 8)
    assert asked[3] == "in the beginning"
    assert all(len(question.split()) <= 6 for question in asked)
