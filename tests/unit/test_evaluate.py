"""Measuring search: the arithmetic by hand, and small collections from end to end."""

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait import evaluate
from plait.errors import IN_PYTHON, EmbedderError, PlaitError, UsageError, advise
from plait.evaluate import Evaluation, EvaluationOptions, Quality, Run
from plait.evaluate.metrics import ndcg, recall_at, reciprocal_rank
from plait.memory import Memory
from plait.protocols import Vector
from plait.testing import HashingEmbedder
from plait.types import TextKind
from tests.codes import has_code

Form = Literal["NFC", "NFD"]
SHARED = Path(__file__).parents[3] / "shared" / "eval"

DOCUMENTS = [
    {"_id": "ann/1", "title": "Keys", "text": "Rotate the ssh keys every quarter."},
    {"_id": "ann/2", "title": "", "text": "The garden needs water in summer."},
    {"_id": "ben/1", "title": "", "text": "Ben keeps his ssh keys on a token; ssh keys expire."},
    {"_id": "ben/2", "title": "Empty", "text": ""},
    {"_id": "ben/3", "title": "", "text": ""},
]


def write(folder: Path, documents: Any, queries: Any, qrels: str) -> str:
    folder.mkdir(exist_ok=True)
    for name, rows in (("corpus", documents), ("queries", queries)):
        lines = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    (folder / "qrels.tsv").write_text(qrels, encoding="utf-8")
    return str(folder)


def collection(folder: Path, *queries: dict[str, Any], **answers: str) -> str:
    """A folder with the documents above; ``answers`` are ids with spaces between."""
    lines = [f"{query}\t{key}\t1\n" for query, keys in answers.items() for key in keys.split()]
    return write(folder, DOCUMENTS, queries, "query-id\tcorpus-id\tscore\n" + "".join(lines))


def run_of(evaluation: Evaluation, name: str) -> Run:
    return next(run for run in evaluation.runs if run.name == name)


@pytest.mark.parametrize(
    ("ranking", "grades", "expected"),
    [
        ("abc", {"a": 1}, 1.0),
        ("xya", {"a": 1}, 1 / math.log2(4)),
        ("axb", {"a": 1, "b": 1}, (1 + 1 / 2) / (1 + 1 / math.log2(3))),
        # Gains are linear: a grade of 2 counts twice, not three times.
        ("ba", {"a": 2, "b": 1}, (1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3))),
        ("", {"a": 1}, 0.0),
        ("xyz", {"a": 1}, 0.0),
        ("0123456789a", {"a": 1}, 0.0),
        ("abc", {}, 0.0),
        # With more answers than places, ten right ones are perfect.
        ("abcdefghij", dict.fromkeys("abcdefghijklmno", 1), 1.0),
    ],
)
def test_ndcg_is_what_one_computes_by_hand(
    ranking: str, grades: dict[str, float], expected: float
) -> None:
    assert ndcg(ranking, grades) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("ranking", "depth", "expected"),
    [("abxxx", 5, 1.0), ("axxxxb", 5, 0.5), ("axxxxb", 10, 1.0), ("", 5, 0.0)],
)
def test_recall_counts_the_answers_among_the_first(
    ranking: str, depth: int, expected: float
) -> None:
    assert recall_at(ranking, {"a": 1, "b": 1}, depth) == expected


@pytest.mark.parametrize(
    ("ranking", "expected"), [("ax", 1.0), ("xxb", 1 / 3), ("xxxxxxxxxxa", 0.0), ("", 0.0)]
)
def test_reciprocal_rank_looks_for_the_first_answer(ranking: str, expected: float) -> None:
    assert reciprocal_rank(ranking, {"a": 1, "b": 1}) == pytest.approx(expected)


@given(
    grades=st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from([1.0, 2.0]), min_size=1),
    ranking=st.permutations("abcdefgh"),
)
def test_no_order_beats_the_one_by_grade(grades: dict[str, float], ranking: list[str]) -> None:
    best = sorted("abcdefgh", key=lambda key: -grades.get(key, 0.0))
    assert 0.0 <= ndcg(ranking, grades) <= ndcg(best, grades) == pytest.approx(1.0)


def by_keyword(path: str) -> Memory:
    return Memory.open(path, embedder="none", project="")


def test_a_collection_is_measured_end_to_end(tmp_path: Path) -> None:
    folder = collection(
        tmp_path / "notes",
        {"_id": "first", "text": "garden water"},
        {"_id": "second", "text": "rotate ssh keys"},
        {"_id": "third", "text": "zeppelin"},
        {"_id": "unjudged", "text": "summer"},
        first="ann/2",
        second="ben/1 ann/1",
        third="ann/2",
    )
    evaluation = evaluate.evaluate(folder, open_memory=by_keyword)
    assert (evaluation.collection, evaluation.documents, evaluation.passages) == ("notes", 5, 4)
    assert (evaluation.chunk_size, evaluation.chunk_overlap) == (1200, 120)
    assert evaluation.ingest_per_s > 0
    run = run_of(evaluation, "keyword")
    assert [run.name for run in evaluation.runs] == ["keyword", "grep"]
    assert run.quality[0] == 3
    assert run.quality[1:] == pytest.approx([2 / 3] * 5)
    assert run.median_ms is not None
    assert run.p95_ms is not None
    assert 0 <= run.median_ms <= run.p95_ms


def test_hits_collapse_to_documents_so_that_long_ones_count_once(tmp_path: Path) -> None:
    long = " ".join(f"Paragraph {n} about ssh keys and nothing else.\n\n" for n in range(200))
    documents = [{"_id": "long", "text": long}, {"_id": "short", "text": "a lock and keys"}]
    folder = write(
        tmp_path / "long", documents, [{"_id": "q", "text": "ssh keys"}], "q\tshort\t1\n"
    )
    evaluation = evaluate.evaluate(folder)
    assert evaluation.passages > 5
    assert run_of(evaluation, "keyword").quality.mrr_10 == 0.5


def test_conv_narrows_the_search_to_its_own_documents(tmp_path: Path) -> None:
    asked = {"_id": "q", "text": "ssh keys"}
    free = evaluate.evaluate(collection(tmp_path / "free", asked, q="ann/1"))
    narrow = evaluate.evaluate(collection(tmp_path / "narrow", {**asked, "conv": "ben"}, q="ann/1"))
    for name in ("keyword", "grep"):
        assert run_of(free, name).quality.recall_10 == 1.0, name
        assert run_of(narrow, name).quality.recall_10 == 0.0, name


def test_categories_are_measured_apart(tmp_path: Path) -> None:
    folder = collection(
        tmp_path / "notes",
        {"_id": "easy", "text": "garden", "category": 1},
        {"_id": "hard", "text": "zeppelin", "category": "two"},
        {"_id": "plain", "text": "garden"},
        easy="ann/2",
        hard="ann/2",
        plain="ann/2",
    )
    evaluation = evaluate.evaluate(folder)
    categories = dict(run_of(evaluation, "keyword").categories)
    assert {name: quality[:2] for name, quality in categories.items()} == {
        "1": (1, 1.0),
        "two": (1, 0.0),
    }
    assert "notes, category two" in evaluate.markdown_table([evaluation])


def test_grep_ranks_by_distinct_words_and_then_by_how_often(tmp_path: Path) -> None:
    documents = [
        {"_id": "often", "text": "key KEY key key"},
        {"_id": "both", "text": "monkeys need water"},
        {"_id": "none", "text": "a garden"},
        {"_id": "once", "title": "Key", "text": "something"},
    ]
    queries = [{"_id": "q", "text": "where is the key to the water?"}]
    ranks = {}
    for key in ("often", "both", "none", "once"):
        evaluation = evaluate.evaluate(write(tmp_path / key, documents, queries, f"q\t{key}\t1\n"))
        ranks[key] = run_of(evaluation, "grep").quality.mrr_10
    assert ranks == {"both": 1.0, "often": 0.5, "once": pytest.approx(1 / 3), "none": 0.0}


def test_an_embedder_adds_the_other_modes(tmp_path: Path) -> None:
    folder = collection(tmp_path / "notes", {"_id": "q", "text": "gardxyz watxyz"}, q="ann/2")

    def open_memory(path: str) -> Memory:
        return Memory.open(path, embedder="hashing", project="")

    evaluation = evaluate.evaluate(folder, EvaluationOptions(grep=False), open_memory=open_memory)
    ranks = {run.name: run.quality.mrr_10 for run in evaluation.runs}
    assert ranks == {"keyword": 0.0, "vector": 1.0, "hybrid": 1.0}
    only = evaluate.evaluate(
        folder,
        EvaluationOptions(modes=("hybrid",), weights=(1.0,), grep=False),
        open_memory=open_memory,
    )
    assert {run.name: run.quality.mrr_10 for run in only.runs} == {"hybrid, keyword 1": 0.0}


def test_merges_and_weights_are_compared_on_one_index(tmp_path: Path) -> None:
    folder = collection(tmp_path / "notes", {"_id": "q", "text": "gardxyz watxyz"}, q="ann/2")
    opened: list[str] = []

    def open_memory(path: str) -> Memory:
        opened.append(path)
        return Memory.open(path, embedder="hashing", project="")

    options = EvaluationOptions(
        modes=("keyword", "hybrid"),
        fusions=("weighted", "rrf"),
        weights=(0.0, 1.0),
        grep=False,
        deep=False,
    )
    evaluation = evaluate.evaluate(folder, options, open_memory=open_memory)
    assert len(opened) == 1
    assert [(run.name, run.quality.mrr_10) for run in evaluation.runs] == [
        ("keyword", 0.0),
        ("hybrid, weighted, keyword 0", 1.0),
        ("hybrid, weighted, keyword 1", 0.0),
        ("hybrid, rrf", 1.0),
    ]


def test_halves_are_reported_beside_the_whole_or_alone(tmp_path: Path) -> None:
    # By SHA-256 of their ids, 1 and 2 are odd and 3 is even.
    queries = [{"_id": name, "text": text} for name, text in
               (("1", "garden"), ("2", "zeppelin"), ("3", "garden"))]  # fmt: skip
    folder = collection(tmp_path / "notes", *queries, **dict.fromkeys(("1", "2", "3"), "ann/2"))

    def measured(half: str | None) -> Run:
        options = EvaluationOptions(modes=("keyword",), half=half, deep=False)
        return run_of(evaluate.evaluate(folder, options), "keyword")

    both = measured("both")
    assert both.quality.queries == 3
    assert both.quality.ndcg_10 == pytest.approx(2 / 3)
    assert {half: quality[:2] for half, quality in both.halves} == {
        "even": (1, 1.0),
        "odd": (2, 0.5),
    }
    assert measured("odd").quality == dict(both.halves)["odd"]
    assert measured("even").quality == dict(both.halves)["even"]
    assert measured(None).halves == measured("odd").halves == ()


def test_a_half_without_questions_is_refused(tmp_path: Path) -> None:
    folder = collection(tmp_path / "notes", {"_id": "1", "text": "garden"}, **{"1": "ann/2"})
    with pytest.raises(UsageError) as caught:
        evaluate.evaluate(folder, EvaluationOptions(half="even"))
    assert caught.value.notice[1:3] == ("no_questions", "notes")


def test_documents_know_the_conversation_that_questions_narrow_to(tmp_path: Path) -> None:
    documents = [{"_id": name, "text": "hello"} for name in ("a/b/1", "a/2", "c/1", "plain")]
    queries = [{"_id": "q", "text": "hello", "conv": "a/b"}, {"_id": "r", "text": "x", "conv": "c"}]
    folder = write(tmp_path / "talks", documents, queries, "q\ta/b/1\t1\nr\tc/1\t1\n")
    documents_read = evaluate.load_collection(folder).documents
    assert {document.key: document.session for document in documents_read} == {
        "a/b/1": "a/b",
        "a/2": "a/2",  # one of its own
        "c/1": "c",
        "plain": "plain",
    }


@pytest.mark.parametrize("stored", ["NFC", "NFD"])
@pytest.mark.parametrize("judged", ["NFC", "NFD"])
@pytest.mark.parametrize("notes", [False, True])
def test_accents_of_ids_may_be_written_in_two_ways(
    tmp_path: Path, stored: Form, judged: Form, notes: bool
) -> None:
    key, name = (normalize(form, "café/é.md") for form in (stored, judged))
    queries = [{"_id": normalize(stored, "é"), "text": "garden", "conv": name.split("/")[0]}]
    documents = [] if notes else [{"_id": key, "text": "a garden"}]
    line = f"{normalize(judged, 'é')}\t{name}\t1\n"
    folder = write(tmp_path / "accents", documents, queries, line)
    options = EvaluationOptions()
    if notes:
        (tmp_path / "notes" / key).parent.mkdir(parents=True)
        (tmp_path / "notes" / key).write_text("a garden", encoding="utf-8")
        options = EvaluationOptions(notes=str(tmp_path / "notes"))
    evaluation = evaluate.evaluate(folder, options)
    for mode in ("keyword", "grep"):
        assert run_of(evaluation, mode).quality.mrr_10 == 1.0, mode


@pytest.mark.parametrize("file", ["corpus.jsonl", "queries.jsonl"])
def test_two_ids_that_are_stored_as_one_are_refused(tmp_path: Path, file: str) -> None:
    forms: tuple[Form, ...] = ("NFC", "NFD")
    rows = [{"_id": normalize(form, "é"), "text": form} for form in forms]
    documents = rows if file == "corpus.jsonl" else rows[:1]
    queries = rows if file == "queries.jsonl" else rows[:1]
    folder = write(tmp_path / "twice", documents, queries, "\u00e9\t\u00e9\t1\n")
    with pytest.raises(UsageError, match="two ways", check=has_code("bad_collection")) as caught:
        evaluate.load_collection(folder)
    assert caught.value.subject.endswith(f"{file}:2")


def test_a_search_that_is_not_whole_is_no_measurement(tmp_path: Path) -> None:
    folder = collection(tmp_path / "notes", {"_id": "q", "text": "garden"}, q="ann/2")
    with pytest.raises(UsageError) as caught:
        evaluate.evaluate(folder, EvaluationOptions(modes=("vector",)), open_memory=by_keyword)
    assert caught.value.notice[1:3] == ("not_measured", "q")


class Down(HashingEmbedder):
    """Fails when it embeds these kinds of text, and knows what helps."""

    def __init__(self, *kinds: TextKind) -> None:
        super().__init__()
        self.kinds = kinds

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        if kind in self.kinds:
            raise EmbedderError("It is down.", advice=advise("start_ollama"))
        return super().embed(texts, kind)


@pytest.mark.parametrize("kind", ["passage", "query"])
def test_a_failed_measurement_advises_what_the_embedder_does(
    tmp_path: Path, kind: TextKind
) -> None:
    folder = collection(tmp_path / "notes", {"_id": "q", "text": "garden"}, q="ann/2")

    def open_memory(path: str) -> Memory:
        return Memory.open(path, embedder=Down(kind), project="")

    with pytest.raises(PlaitError, check=has_code("not_measured")) as caught:
        evaluate.evaluate(folder, open_memory=open_memory)
    assert caught.value.advice == advise("start_ollama")
    assert "It is down." in caught.value.notice.text
    assert IN_PYTHON["start_ollama"] not in caught.value.notice.text


def test_every_planner_is_a_run_of_its_own(tmp_path: Path) -> None:
    folder = collection(tmp_path / "notes", {"_id": "q", "text": "garden water"}, q="ann/2")
    options = EvaluationOptions(planners=("always", "never"), grep=False)
    evaluation = evaluate.evaluate(folder, options, open_memory=by_keyword)
    assert [(run.name, run.quality.ndcg_10) for run in evaluation.runs] == [
        ("keyword, planner always", 1.0),
        ("keyword, planner never", 1.0),
    ]


def test_another_planner_searches_the_same_memory(tmp_path: Path) -> None:
    folder = collection(tmp_path / "notes", {"_id": "q", "text": "garden water"}, q="ann/2")
    opened: list[str] = []

    def open_memory(path: str) -> Memory:
        opened.append(path)
        return by_keyword(path)

    options = EvaluationOptions(planners=("auto", "always", "never"), grep=False)
    evaluation = evaluate.evaluate(folder, options, open_memory=open_memory)
    assert len(opened) == 1, "the collection is stored once"
    assert [run.quality.ndcg_10 for run in evaluation.runs] == [1.0, 1.0, 1.0]


def test_padding_fills_the_memory_with_other_text_first_and_then_with_mixed_phrases(
    tmp_path: Path,
) -> None:
    folder = collection(tmp_path / "notes", {"_id": "q", "text": "garden water"}, q="ann/2")
    other = tmp_path / "other"
    write(other, [{"_id": "ann/2", "text": "garden water, garden water"}], [], "")
    one_more = evaluate.evaluate(folder, EvaluationOptions(pad=5, pad_from=(folder, str(other))))
    assert one_more.passages == 5
    assert run_of(one_more, "keyword").quality.mrr_10 == 0.5, "the other folder answers better"
    place = tmp_path / "kept.db"
    many = evaluate.evaluate(
        folder, EvaluationOptions(pad=40, pad_from=(str(other),), db=str(place))
    )
    assert many.passages == 40
    with Memory.open(place, project="") as kept:
        keys = {document.key for document in kept.timeline(limit=100)}
    assert {"ann/2", "pad/0/ann/2", "pad/mixed/0"} <= keys


def test_the_memory_is_deleted_unless_a_place_for_it_was_given(tmp_path: Path) -> None:
    folder = collection(tmp_path / "notes", {"_id": "q", "text": "garden"}, q="ann/2")
    opened: list[str] = []

    def open_memory(path: str) -> Memory:
        opened.append(path)
        return Memory.open(path, project="")

    evaluate.evaluate(folder, open_memory=open_memory)
    kept = tmp_path / "kept.db"
    evaluate.evaluate(folder, EvaluationOptions(db=str(kept)), open_memory=open_memory)
    assert opened[1] == str(kept)
    assert [Path(path).exists() for path in opened] == [False, True]


def test_only_the_first_queries_count_when_asked(tmp_path: Path) -> None:
    queries = [{"_id": f"q{n}", "text": "garden"} for n in range(5)]
    answers = {f"q{n}": "ann/2" for n in range(5)}
    lines: list[str] = []
    evaluation = evaluate.evaluate(
        collection(tmp_path / "notes", *queries, **answers),
        EvaluationOptions(max_queries=2, deep=False),
        open_memory=by_keyword,
        progress=lines.append,
    )
    assert run_of(evaluation, "keyword").quality == Quality(2, 1.0, 1.0, 1.0, None, 1.0)
    assert lines == [
        "notes: storing documents, 0 of 5",
        "keyword: question 1 of 2",
        "notes: grep, 2 questions",
    ]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("corpus.jsonl", '{"_id": "a", "text": "x"}\n{"_id"', r"corpus\.jsonl:2: not JSON"),
        ("corpus.jsonl", "[1]\n", r"corpus\.jsonl:1: expected an object"),
        ("corpus.jsonl", '{"text": "x"}\n', r"corpus\.jsonl:1: '_id' must be a text, not null"),
        ("corpus.jsonl", '{"_id": " ", "text": "x"}\n', r"corpus\.jsonl:1: '_id' is empty"),
        ("corpus.jsonl", '{"_id": true, "text": "x"}\n', r"'_id' must be a text, not true"),
        ("corpus.jsonl", '{"_id": "a", "text": ["x"]}\n', r"'text' must be a text, not \[\"x\"\]"),
        ("corpus.jsonl", '{"_id": "a"}\n\n{"_id": "a"}\n', r"corpus\.jsonl:3: the _id 'a' occurs"),
        ("queries.jsonl", '{"_id": "q", "text": ""}\n', r"queries\.jsonl:1: 'text' is empty"),
        ("queries.jsonl", '{"_id": "z", "text": "x"}\n', r"queries\.jsonl has no query 'q'"),
        ("queries.jsonl", '{"_id":"q","text":"x"}\n' * 2, r"queries\.jsonl:2: the _id 'q' occurs"),
        ("qrels.tsv", "q\tann/1\n", r"qrels\.tsv:1: expected query-id, corpus-id and a number"),
        ("qrels.tsv", "q\tann/1\tyes\n", r"qrels\.tsv:1: expected query-id"),
        ("qrels.tsv", "\nq\tcat\t1\n", r"qrels\.tsv:2: corpus\.jsonl has no document 'cat'"),
        ("qrels.tsv", "q\tann/1\t0\n", r"No query of .* has an answer"),
        ("qrels.tsv", "q\tann/1\tnan\n", r"qrels\.tsv:1: the grade is nan; choose a number up to"),
        ("qrels.tsv", "q\tann/1\tinf\n", r"qrels\.tsv:1: the grade is inf"),
        ("qrels.tsv", "q\tann/1\t1e308\n", r"qrels\.tsv:1: the grade is 1e308"),
        ("qrels.tsv", "q\tann/1\t1\nq\tann/1\t0\n", r"qrels\.tsv:2: 'ann/1' has another grade"),
        ("corpus.jsonl", '{"_id": "a", "text": ' + "[" * 99_999, r"corpus\.jsonl:1: its brackets"),
        (
            "queries.jsonl",
            '{"_id": "q", "text": ' + "[" * 99_999,
            r"queries\.jsonl:1: its brackets",
        ),
        ("corpus.jsonl", '{"_id": %s}' % ("[" * 99 + "]" * 99), r"not \[{80}…\.$"),
        ("corpus.jsonl", r'{"_id": "\ud800", "text": "x"}', r"corpus\.jsonl:1: '_id' has a char"),
        ("queries.jsonl", r'{"_id": "\u0000", "text": "x"}', r"queries\.jsonl:1: '_id' has a char"),
        ("qrels.tsv", "", r"No query of .* has an answer"),
        ("qrels.tsv", None, r"Cannot read .*qrels\.tsv \(No such file"),
        ("queries.jsonl", b"\xff\xfe", r"queries\.jsonl is not UTF-8"),
    ],
)
def test_a_malformed_folder_is_refused_with_file_and_line(
    tmp_path: Path, file: str, content: str | bytes | None, message: str
) -> None:
    folder = tmp_path / "notes"
    collection(folder, {"_id": "q", "text": "garden"}, q="ann/2")
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError, match=message) as caught:
        evaluate.evaluate(str(folder))
    assert caught.value.notice.code == "bad_collection"


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
@pytest.mark.parametrize("file", ["corpus.jsonl", "queries.jsonl", "qrels.tsv"])
def test_what_is_no_file_is_refused_and_not_waited_for(
    tmp_path: Path, file: str, kind: str
) -> None:
    folder = tmp_path / "notes"
    collection(folder, {"_id": "q", "text": "garden"}, q="ann/2")
    (folder / file).unlink()
    if kind == "pipe":
        os.mkfifo(folder / file)
    elif kind == "device":
        (folder / file).symlink_to("/dev/zero")
    else:
        (folder / file).mkdir()
    with pytest.raises(UsageError, match="is not a file") as caught:
        evaluate.evaluate(str(folder))
    assert caught.value.notice[1:3] == ("bad_collection", str(folder / file))


def test_an_absent_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        evaluate.evaluate(str(tmp_path / "absent"))
    path = str(tmp_path / "absent" / "corpus.jsonl")
    assert caught.value.notice[1:3] == ("bad_collection", path)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_queries", 0),
        ("pad", -1),
        ("modes", ("psychic",)),
        ("planners", ("psychic",)),
        ("fusions", ("psychic",)),
        ("half", "psychic"),
        ("weights", (0.5, 1.5)),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, option: str, value: Any) -> None:
    folder = collection(tmp_path / "notes", {"_id": "q", "text": "garden"}, q="ann/2")
    with pytest.raises(UsageError) as caught:
        evaluate.evaluate(folder, EvaluationOptions(**{option: value}))
    assert caught.value.notice[1:3] == ("bad_option", option)


def _evaluation(name: str, ndcg_10: float, deep: float | None) -> Evaluation:
    quality = Quality(2, ndcg_10, 0.5, 0.6, deep, 0.7)
    runs = (Run("keyword", quality, (), 1.234, 5.678), Run("grep", quality))
    return Evaluation(name, 3, 4, 1000.4, 1200, 120, runs)


def test_the_table_shows_every_run_and_the_means() -> None:
    table = evaluate.markdown_table([_evaluation("one", 0.5, 0.9), _evaluation("two", 0.25, None)])
    whole, _, matrix = table.partition("\n\n")
    assert matrix.splitlines() == [
        "| nDCG@10 | keyword | grep |",
        "|---|---|---|",
        "| one | 0.500 | 0.500 |",
        "| two | 0.250 | 0.250 |",
        "| **mean** | 0.3750 | 0.3750 |",
    ]
    lines = whole.splitlines()
    assert {line.count("|") for line in lines} == {13}
    assert lines[2] == (
        "| one | keyword | 0.500 | 0.500 | 0.600 | 0.900 | 0.700 | 2 | 4 | 1.2 | 5.7 | 1000 |"
    )
    assert lines[3] == "| one | grep | 0.500 | 0.500 | 0.600 | 0.900 | 0.700 | 2 |  |  |  |  |"
    assert lines[-1] == "| **mean** | grep | 0.375 | 0.500 | 0.600 |  | 0.700 | 4 |  |  |  |  |"
    assert "mean" not in evaluate.markdown_table([_evaluation("one", 0.5, 0.9)])


def test_the_table_and_the_json_show_the_means_of_both_halves() -> None:
    def halved(evaluation: Evaluation, odd: float) -> Evaluation:
        quality = evaluation.runs[0].quality
        halves = (("even", quality), ("odd", quality._replace(ndcg_10=odd)))
        return evaluation._replace(
            runs=tuple(run._replace(halves=halves) for run in evaluation.runs)
        )

    both = [halved(_evaluation("one", 0.5, 0.9), 0.75), halved(_evaluation("two", 0.25, 0.9), 0.5)]
    lines = evaluate.markdown_table(both).splitlines()
    assert (
        "| one, odd half | keyword | 0.750 | 0.500 | 0.600 | 0.900 | 0.700 | 2 |  |  |  |  |"
        in lines
    )
    assert any(line.startswith("| **mean**, odd half | grep | 0.625 |") for line in lines)
    assert lines[-1] == "| **mean**, odd half | 0.6250 | 0.6250 |"
    mean = evaluate.mean_dicts(both)["keyword"]
    assert mean["ndcg_10"] == 0.375
    assert {half: quality["ndcg_10"] for half, quality in mean["halves"].items()} == {
        "even": 0.375,
        "odd": 0.625,
    }
    assert "halves" not in evaluate.mean_dicts([_evaluation("one", 0.5, 0.9)])["grep"]
    assert evaluate.evaluation_dict(both[0])["runs"][0]["halves"]["odd"]["ndcg_10"] == 0.75


def test_results_can_be_written_as_json() -> None:
    evaluation = _evaluation("one", 0.5, None)
    evaluation = evaluation._replace(
        runs=(evaluation.runs[0]._replace(categories=(("1", evaluation.runs[0].quality),)),)
    )
    record = json.loads(json.dumps(evaluate.evaluation_dict(evaluation)))
    assert record["collection"] == "one"
    assert record["runs"][0]["quality"]["ndcg_10"] == 0.5
    assert record["runs"][0]["quality"]["recall_100"] is None
    assert record["runs"][0]["categories"]["1"]["queries"] == 2


@pytest.mark.eval
@pytest.mark.skipif(not SHARED.is_dir(), reason="the evaluation collections are not here")
@pytest.mark.parametrize(
    ("name", "least"), [("friendsqa_dev_utterances", 0.5), ("xquad_zh", 0.9), ("xquad_th", 0.9)]
)
def test_real_collections_reach_their_level(name: str, least: float) -> None:
    options = EvaluationOptions(modes=("keyword",), max_queries=40, deep=False, grep=False)
    evaluation = evaluate.evaluate(str(SHARED / name), options)
    assert run_of(evaluation, "keyword").quality.ndcg_10 >= least
