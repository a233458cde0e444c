"""Measuring search on questions without an answer, and on a folder of notes."""

import json
from pathlib import Path
from typing import Any

import pytest

from plait import evaluate
from plait.errors import SourceError, UsageError
from plait.evaluate import Evaluation, EvaluationOptions, Silence
from plait.evaluate.running import open_scratch_memory
from plait.memory import Memory
from plait.settings.loading import load
from tests.codes import has_code

KEYWORD = EvaluationOptions(modes=("keyword",), deep=False, grep=False)
UNANSWERABLE = {"_id": "none", "text": "sourdough bread", "answerable": False}


def write(folder: Path, *queries: dict[str, Any], **answers: str) -> str:
    """A folder of questions about the notes below; ``answers`` are paths."""
    folder.mkdir(exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in queries)
    (folder / "queries.jsonl").write_text(lines, encoding="utf-8")
    rows = "".join(f"{query}\t{path}\t1\n" for query, path in answers.items())
    (folder / "qrels.tsv").write_text(rows, encoding="utf-8")
    return str(folder)


@pytest.fixture
def notes(tmp_path: Path) -> str:
    place = tmp_path / "notes"
    (place / "ops").mkdir(parents=True)
    (place / "ops" / "keys.md").write_text(
        "# Keys\n\nRotate the ssh keys every quarter.", encoding="utf-8"
    )
    (place / "garden.md").write_text(
        "# Garden\n\nThe roses need water in summer.", encoding="utf-8"
    )
    (place / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    return str(place)


def measured(folder: str, notes: str, **options: Any) -> Evaluation:
    return evaluate.evaluate(folder, KEYWORD._replace(notes=notes, **options))


def test_the_files_of_a_folder_are_the_documents(tmp_path: Path, notes: str) -> None:
    query = {"_id": "q", "text": "rotate ssh keys"}
    folder = write(tmp_path / "questions", query, q="ops/keys.md")
    evaluation = measured(folder, notes, grep=True)
    assert (evaluation.documents, evaluation.passages) == (2, 2)
    assert [(run.name, run.quality.mrr_10) for run in evaluation.runs] == [
        ("keyword", 1.0),
        ("grep", 1.0),
    ]
    assert evaluation.silence is None


def test_notes_are_the_same_files_whatever_the_settings_say(tmp_path: Path, notes: str) -> None:
    folder = write(tmp_path / "questions", {"_id": "q", "text": "roses"}, q="garden.md")

    def open_memory(path: str) -> Memory:
        return Memory.open(config=load({"db_path": path, "project": "", "patterns": ["*.txt"]}))

    evaluation = evaluate.evaluate(folder, KEYWORD._replace(notes=notes), open_memory=open_memory)
    assert evaluation.runs[0].quality.mrr_10 == 1.0


def test_an_answer_that_is_no_file_is_refused(tmp_path: Path, notes: str) -> None:
    folder = write(tmp_path / "questions", {"_id": "q", "text": "roses"}, q="photo.png")
    with pytest.raises(UsageError, match=r"qrels\.tsv:1: .*notes has no document 'photo\.png'"):
        measured(folder, notes)


def test_an_absent_folder_of_notes_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "questions", {"_id": "q", "text": "roses"}, q="garden.md")
    with pytest.raises(SourceError, match="absent"):
        measured(folder, str(tmp_path / "absent"))


def test_questions_without_an_answer_count_as_silence_only(tmp_path: Path, notes: str) -> None:
    folder = write(
        tmp_path / "questions",
        UNANSWERABLE,
        {"_id": "near", "text": "rotate the ssh keys", "answerable": False},
        {"_id": "q", "text": "roses need water in summer"},
        q="garden.md",
    )
    evaluation = measured(folder, notes)
    assert evaluation.runs[0].quality.queries == 1
    assert evaluation.silence == Silence(2, 0.5, 1, 0.0)


def test_silence_where_the_first_hit_is_right_is_counted_too(tmp_path: Path, notes: str) -> None:
    query = {"_id": "q", "text": "roses or tulips"}
    folder = write(tmp_path / "questions", UNANSWERABLE, query, q="garden.md")

    def open_memory(path: str) -> Memory:
        return Memory.open(config=load({"db_path": path, "project": "", "min_score": 1.0}))

    options = KEYWORD._replace(notes=notes)
    evaluation = evaluate.evaluate(folder, options, open_memory=open_memory)
    assert evaluation.silence == Silence(1, 1.0, 1, 1.0)


def test_a_first_hit_that_is_wrong_may_be_silent(tmp_path: Path, notes: str) -> None:
    folder = write(
        tmp_path / "questions", UNANSWERABLE, {"_id": "q", "text": "ssh keys"}, q="garden.md"
    )
    assert measured(folder, notes).silence == Silence(1, 1.0, 0, 0.0)


def test_what_is_pinned_is_no_answer(tmp_path: Path, notes: str) -> None:
    with open_scratch_memory(str(tmp_path / "memory.db")) as memory:
        memory.ingest(notes)
        memory.store("Be kind to the neighbours.", pinned=True)
        folder = write(
            tmp_path / "questions", UNANSWERABLE, {"_id": "q", "text": "roses"}, q="garden.md"
        )
        collection = evaluate.load_collection(folder, notes)
        silence = evaluate.measure_silence(memory, collection.unanswerable, collection.questions)
        assert memory.recall("sourdough bread").items
    assert silence == Silence(1, 1.0, 1, 0.0)


@pytest.mark.parametrize(
    ("options", "count"), [({"max_queries": 1}, 1), ({"half": "even"}, 1), ({"half": "both"}, 3)]
)
def test_silence_is_measured_on_the_chosen_questions(
    tmp_path: Path, notes: str, options: dict[str, Any], count: int
) -> None:
    # 1 and 2 belong to the odd half, 3 to the even one.
    queries = [UNANSWERABLE | {"_id": name} for name in "123"]
    asked = [{"_id": name, "text": "roses"} for name in ("a", "b", "c", "d")]
    answers = dict.fromkeys(("a", "b", "c", "d"), "garden.md")
    folder = write(tmp_path / "questions", *queries, *asked, **answers)
    silence = measured(folder, notes, **options).silence
    assert silence is not None
    assert silence.unanswerable == count


@pytest.mark.parametrize(
    ("answerable", "message"),
    [
        (False, r"queries\.jsonl:1: qrels\.tsv names an answer to 'q', which is not answerable"),
        ("no", r"queries\.jsonl:1: 'answerable' must be true or false"),
        (None, r"queries\.jsonl:1: 'answerable' must be true or false"),
    ],
)
def test_a_question_is_either_answerable_or_not(
    tmp_path: Path, notes: str, answerable: Any, message: str
) -> None:
    query = {"_id": "q", "text": "roses", "answerable": answerable}
    folder = write(tmp_path / "questions", query, q="garden.md")
    with pytest.raises(UsageError, match=message, check=has_code("bad_collection")):
        measured(folder, notes)


def test_only_questions_without_an_answer_are_no_collection(tmp_path: Path, notes: str) -> None:
    folder = write(tmp_path / "questions", UNANSWERABLE)
    with pytest.raises(UsageError, match="has an answer", check=has_code("bad_collection")):
        measured(folder, notes)


def test_the_report_tells_the_silence() -> None:
    evaluation = Evaluation("home", 3, 4, 1000.0, 1200, 120, (), Silence(8, 0.75, 20, 0.05))
    table = evaluate.markdown_table([evaluation])
    assert table.endswith(
        "\n\nhome: recall says nothing to 6 of 8 questions without an answer, "
        "and to 1 of 20 whose first hit is right.\n"
    )
    record = json.loads(json.dumps(evaluate.evaluation_dict(evaluation)))
    assert record["silence"] == {
        "unanswerable": 8,
        "silent": 0.75,
        "right_first": 20,
        "right_first_silent": 0.05,
    }
    silent = evaluation._replace(silence=None)
    assert "recall" not in evaluate.markdown_table([silent])
    assert evaluate.evaluation_dict(silent)["silence"] is None
