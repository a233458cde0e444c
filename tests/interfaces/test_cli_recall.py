"""plait recall: what is known, packed for a prompt."""

import pytest

from plait.packing import tokens_of
from tests.interfaces.conftest import FILLING


def test_recall_prints_fenced_text_within_its_budget(plait, notes):
    plait("ingest", str(notes))
    ran = plait("recall", "GPU", "server", "password", "--budget", "120", "--format", "text")
    assert ran.code == 0
    assert ran.out.startswith("<<plait-recall ")
    assert "otter-lagoon" in ran.out
    assert tokens_of(ran.out.rstrip("\n")) <= 120
    assert "plait get " in ran.err


def test_recall_answers_in_json_with_its_parts_and_its_receipt(plait, notes):
    plait("ingest", str(notes))
    found = plait("recall", "--query", "GPU server password", "--limit", "1").json
    assert found["budget_tokens"] == 1_500
    assert found["tokens"] == tokens_of(found["text"])
    assert [row["doc_id"] for row in found["results"]] == ["TOOLS.md"]
    assert found["results"][0]["whole"] is True
    assert FILLING.strip() in found["text"]
    assert found["receipt"]["query"] == "GPU server password"


def test_recall_takes_filters(plait):
    plait("store", "We deploy on Fridays", "--type", "decision")
    plait("store", "The last deploy was calm", "--type", "fact")
    found = plait("recall", "deploy", "--type", "fact").json
    assert "calm" in found["text"] and "Fridays" not in found["text"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["recall", "zebra"], "nothing found. Try other words."),
        (["recall", "deploy", "--budget", "9"], "nothing fits into 9 tokens. Try --budget."),
        (["recall", "zebra", "--min-score", "1"], "nothing found"),
    ],
)
def test_recall_says_when_it_has_nothing_to_say(plait, words, said):
    plait("store", "We deploy on Fridays")
    ran = plait(*words)
    assert ran.code == 3
    assert ran.json["results"] == []
    assert said in ran.err


def test_recall_of_an_absent_memory_makes_no_file(plait, work):
    ran = plait("--db", str(work / "none.db"), "recall", "anything")
    assert (ran.code, ran.json["text"]) == (3, "")
    assert not (work / "none.db").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["recall"], "The query is empty"),
        (["recall", "x", "--query", "y"], "Give the query once"),
        (["recall", "x", "--budget", "0"], "budget_tokens is 0"),
        (["recall", "x", "--limit", "51"], "limit is 51"),
    ],
)
def test_recall_refuses_what_makes_no_sense(plait, words, said):
    plait("store", "We deploy on Fridays")
    ran = plait(*words)
    assert ran.code == 2
    assert said in ran.err
