"""plait eval --make: how well a memory's own notes are found by their titles and headings."""

import pytest

from plait import Memory, UsageError
from plait.cli import main
from plait.evaluate.own import OwnRun, draw_questions, measure_own
from plait.settings.loading import load
from tests.codes import has_code


@pytest.fixture
def memory(tmp_path):
    with Memory.open(str(tmp_path / "memory.db"), project="") as memory:
        for number, (title, heading) in enumerate(
            [("Rotate ssh keys", "Old keys of Ana"), ("Bake rye bread", "Feed the sourdough")]
        ):
            memory.store(f"# {title}\n\nFirst.\n\n## {heading}\n\nMore text.", key=f"n{number}")
        memory.store("Usage", key="too-short")
        memory.store("a fact has no title of its own")
        yield memory


def quiet(line: str) -> None:
    """Take a line of progress."""


def test_questions_come_from_titles_and_headings_of_two_telling_words(memory):
    questions = draw_questions(memory, 10)
    assert {question.doc_id for question in questions} == {"n0", "n1"}
    assert {question.text for question in questions} <= {
        *("Rotate ssh keys", "Old keys of Ana", "Bake rye bread", "Feed the sourdough")
    }
    assert draw_questions(memory, 10) == questions
    assert draw_questions(memory, 1) == questions[:1]


def test_a_name_that_several_documents_have_is_no_question(memory):
    for number, other in enumerate(["Known open issues", "known OPEN issues"]):
        heading = f"Winter plan {number}"
        memory.store(f"# {other}\n\nA.\n\n## {heading}\n\nB.", key=f"shared{number}")
    memory.store("# Known open issues\n\nNothing else.", key="only-shared")
    asked = {question.doc_id: question.text for question in draw_questions(memory, 10)}
    assert set(asked) == {"n0", "n1", "shared0", "shared1"}
    assert asked["shared0"] == "Winter plan 0"
    assert asked["shared1"] == "Winter plan 1"


def test_a_heading_counts_where_its_document_has_a_better_passage(memory):
    long = "Plan of summer. " * 300
    memory.store(f"# Trips\n\n{long}\n\n## Plan of summer\n\nText.", key="long")
    memory.store('# Plan of summer\n\nText.\n\n## The "old" plan\n\nText.', key="other")
    asked = {question.doc_id: question.text for question in draw_questions(memory, 10)}
    assert asked["other"] == 'The "old" plan'
    assert "long" not in asked


def test_a_name_whose_words_very_many_documents_have_is_no_question(memory, monkeypatch):
    monkeypatch.setattr("plait.evaluate.own.MOST_BEARERS", 3)
    memory.store("# Storm warnings\n\nText.", key="named")
    memory.store("Storm warnings came.", key="a")
    assert "named" in {question.doc_id for question in draw_questions(memory, 10)}
    memory.store("Storm warnings went.", key="b")
    assert "named" not in {question.doc_id for question in draw_questions(memory, 10)}


def test_only_documents_that_are_drawn_or_share_a_name_are_read(tmp_path, monkeypatch):
    read = []
    passages_of = Memory.passages_of

    def counted(memory, id_):
        read.append(id_)
        return passages_of(memory, id_)

    monkeypatch.setattr(Memory, "passages_of", counted)
    with Memory.open(str(tmp_path / "m.db"), project="") as memory:
        for number in range(20):
            heading = "Things to do" if number % 2 else f"Errands of week{number}"
            memory.store(
                f"# Week{number} of spring\n\nText.\n\n## {heading}\n\nB.", key=f"{number}"
            )
        read.clear()
        assert len(draw_questions(memory, 3)) == 3
    assert len(read) < 10


def test_each_mode_reports_where_the_right_document_was(memory):
    questions, runs = measure_own(memory, 10, progress=quiet)
    assert [run.mode for run in runs] == ["keyword", "vector", "hybrid"]
    assert all(len(run.ranks) == len(questions) == 2 for run in runs)
    assert runs[0].share(1) == 1.0


def test_a_document_that_is_not_found_counts_as_missed():
    run = OwnRun("keyword", (0, 1, 3, 11))
    assert (run.share(1), run.share(3), run.share(10)) == (0.25, 0.5, 0.5)


def test_a_memory_without_titles_says_so(tmp_path):
    with Memory.open(str(tmp_path / "m.db"), project="") as memory:
        memory.store("only a fact")
        with pytest.raises(UsageError, check=has_code("no_questions")):
            measure_own(memory, 10, progress=quiet)


def test_asking_changes_nothing(memory):
    before = memory.stats()
    measure_own(memory, 10, progress=quiet)
    assert memory.stats() == before


def test_a_large_memory_is_read_in_pages(tmp_path, monkeypatch):
    monkeypatch.setattr("plait.evaluate.own.DOCUMENTS_AT_ONCE", 2)
    with Memory.open(str(tmp_path / "m.db"), project="") as memory:
        for number in range(7):
            memory.store(f"# Plan number{number} of spring\n\nText.", key=f"k{number}")
        assert len({question.doc_id for question in draw_questions(memory, 10)}) == 7


def test_asking_a_memory_its_own_questions_does_not_count_as_use(tmp_path):
    config = load({"db_path": str(tmp_path / "m.db"), "project": "", "signals_count": "listed"})
    with Memory.open(config=config) as memory:
        memory.store("# Rotate ssh keys\n\nFirst.", key="n")
        measure_own(memory, 5, ["keyword"], progress=quiet)
        memory.write_down_use()
        [row] = memory.timeline()
        [ref] = [part.ref for part in memory.passages_of(row.id)]
        assert memory.engine.hydrate([ref], ranking=True)[ref].use is None
        memory.search("rotate")
        memory.write_down_use()
        assert memory.engine.hydrate([ref], ranking=True)[ref].use is not None


@pytest.mark.parametrize(
    "words",
    [
        *(["--weights", "0.5"], ["--fusions", "rrf"], ["--sweep"], ["--half", "odd"]),
        *(["--pad", "9"], ["--pad-from", "x"], ["--planner", "never"], ["--max-queries", "3"]),
        *(["--no-deep"], ["--no-grep"], ["--notes", "x"]),
    ],
    ids=lambda words: words[0],
)
def test_options_of_folders_are_refused_with_make(capsys, words):
    assert main(["eval", "--make", "3", *words]) == 2
    assert f"{words[0]} is for folders" in capsys.readouterr().err
