"""The questions about the sample memory: what search reaches today, with a little room."""

import csv
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait import Memory, evaluate
from plait.evaluate import Evaluation, EvaluationOptions

ROOT = Path(__file__).parents[2]
QUESTIONS = ROOT / "examples" / "questions"
BENCHMARK = ROOT / "benchmarks" / "notes"


@pytest.fixture(scope="module")
def measured() -> Evaluation:
    options = EvaluationOptions(
        modes=("hybrid",), deep=False, grep=False, notes=str(ROOT / "examples" / "memory")
    )
    return evaluate.evaluate(str(QUESTIONS), options)


def kinds(folder: Path) -> Counter[str]:
    lines = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    return Counter(json.loads(line)["category"] for line in lines)


def test_there_are_forty_questions_of_all_kinds():
    counts = kinds(QUESTIONS)
    assert counts.total() == 40
    assert set(counts) == set(kinds(BENCHMARK))


def test_hybrid_search_finds_the_right_notes(measured):
    """Measured on 2026-11-16: nDCG@10 0.71, recall@10 0.85, own words 1.000 by MRR."""
    [run] = measured.runs
    assert run.quality.queries == 32
    assert run.quality.ndcg_10 >= 0.69
    assert run.quality.recall_10 >= 0.8
    assert dict(run.categories)["own words"].mrr_10 >= 0.9


def test_recall_says_nothing_to_most_foreign_questions(measured):
    """Measured on 2026-11-19: silent for 7 of 8, and for 5 of 19 whose first hit is right.

    The second number is far from its aim of one in twenty.
    """
    assert measured.silence.unanswerable == 8
    assert measured.silence.silent >= 0.85
    assert measured.silence.right_first_silent <= 0.27


@pytest.fixture(scope="module")
def sample() -> Iterator[Memory]:
    with Memory.open(":memory:", project="") as memory:
        memory.ingest(ROOT / "examples" / "memory")
        yield memory


@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("Wie oft erneuern wir die SSH-Schlüssel?", "rotate-ssh-keys"),
        ("Comment restaurer une sauvegarde de la base de données ?", "restore-a-backup"),
        ("почему мы сменили поставщика SMS", "2026-02-03-sms-provider"),
    ],
)
def test_recall_answers_questions_in_another_language_than_the_notes(sample, question, note):
    recalled = sample.recall(question)
    assert note in recalled.text.partition("[2]")[0]


@pytest.mark.parametrize(
    "question",
    [
        "Wie mache ich einen Sauerteig mit Roggen?",
        "¿Cuántos pisos tiene la torre Eiffel?",
        "Quand est-ce que le match commence ce soir ?",
        "Когда начинается футбольный матч?",
        "烤面包需要多长时间",
    ],
)
def test_recall_is_silent_on_foreign_questions_in_another_language(sample, question):
    assert sample.recall(question).text == ""


@pytest.mark.parametrize("mark", ["🙏", "😀", "서울", "日本", "ﬁ"])
def test_a_sign_makes_no_other_language_of_a_question(sample, mark):
    question = "how much does a new laptop cost for the clinic"
    plain = [hit.relevance for hit in sample.search(question, mode="vector")]
    marked = [hit.relevance for hit in sample.search(f"{question} {mark}", mode="vector")]
    assert max(marked) < max(plain) + 0.1


def test_the_questions_of_the_benchmark_are_about_its_sample():
    sample = set((BENCHMARK / "sample.txt").read_text(encoding="utf-8").split())
    with (BENCHMARK / "qrels.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    about = {row["query-id"] for row in rows if row["corpus-id"] in sample}
    assert about == {row["query-id"] for row in rows}
    counts = kinds(BENCHMARK)
    assert len(about) == counts.total() - counts["unanswerable"] == 110
