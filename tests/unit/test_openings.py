"""Which questions ask for the overview, and which ask for something."""

import json
from pathlib import Path

import pytest

from plait.searching.openings import LONGEST_OPENING, at_its_time, is_opening, time_asked
from plait.times import parse_time
from plait.types import Filter

COLLECTIONS = Path(__file__).parents[3] / "shared" / "eval"

OPENINGS = (
    # As agents asked at the beginning of a session.
    "what should I know",
    "What should I know about this repo?",
    "what do I need to know about this project before we start?",
    "continue where we left off",
    "where were we",
    "catch me up",
    "what do you know about me",
    "What were we working on last time?",
    # As people write.
    "Hi! Where were we?",
    "Let's pick up where we left off.",
    "Please bring me up to speed on this codebase",
    "where did I leave off yesterday?",
    "what’s the latest?",
    "what do you remember about me?",
    "can you fill me in?",
    "Tell me what you know about this project",
    "remind me where we left off",
    "what have we been working on?",
    "WHAT DID WE DO LAST SESSION",
    "what's still open?",
    "what is left to do in this repo",
    "give me an overview of the project",
    "what are my preferences?",
    "resume our last session",
    "summarise our last session",
    "What did we work on last week?",
    "any open questions?",
    "on en était où ?",
    "ok, so where do we stand?",
    "what should I work on next?",
    "Good morning! What's on the agenda today?",
    "what's next?",
    "what is the current state of the project?",
    "any open tasks here?",
    "what do I need to know before I start working here?",
    "Wo waren wir stehengeblieben?",
    "Hallo, was sollte ich über dieses Projekt wissen?",
    "Was weißt du über mich?",
    "Mach da weiter, wo wir aufgehört haben",
    "Was ist noch offen?",
    "Woran haben wir zuletzt gearbeitet?",
    "¿Dónde lo dejamos?",
    "¿Qué sabes de mí?",
    "Ponme al día, por favor",
    "Qu'est-ce que je dois savoir sur ce projet ?",
    "Où en étions-nous ?",
    "Que sais-tu de moi ?",
    "Reprenons là où nous nous étions arrêtés",
    "Dove eravamo rimasti?",
    "Onde paramos?",
    "Waar waren we gebleven?",
    "На чём мы остановились?",
    "Nerede kalmıştık?",
    "前回の続き",
    "前回の続きから始めましょう",
    "我们上次说到哪里了？",
    "继续我们上次的工作",
    "나에 대해 뭘 알아?",
    "Was haben wir zuletzt gemacht?",
    "worüber haben wir gestern gesprochen",
    "was haben wir beschlossen?",
    "¿Qué decidimos la última vez?",
    "De quoi avons-nous parlé hier soir ?",
)
QUESTIONS = (
    "what should I know about OAuth tokens",
    "what should I know about this repo's release process",
    "what do you know about me and Ana",
    "what do you know about Ana",
    "what did we decide about the deploy day",
    "where were we when the server failed",
    "where did we leave the keys",
    "continue",
    "continue the refactoring",
    "resume",
    "go on",
    "yes",
    "fix it",
    "hi",
    "please",
    "this repo",
    "about me",
    "before we start",
    "what happened",
    "what is left of the budget",
    "what is next to the crane",
    "what is the status of the invoice",
    "what is the current state of Bavaria",
    "what should I work on for Ana",
    "any open tasks for Ana",
    "what were we working on in March about the roof",
    "what happened in spring",
    "what happened in room 3",
    "what did we decide on 5 tiles",
    "what changed in version 3 2026",
    "catch me up on the Nordwind contract",
    "was muss ich über OAuth wissen",
    "dónde dejamos las llaves",
    "o que devo saber sobre o contrato",
    "",
    "?!",
    "where were we " + "please " * LONGEST_OPENING,
)


@pytest.mark.parametrize("question", OPENINGS)
def test_an_opening_question_is_recognised(question: str) -> None:
    assert is_opening(question)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_about_something_is_not_an_opening(question: str) -> None:
    assert not is_opening(question)


@pytest.mark.parametrize(
    ("question", "time"),
    [
        ("What did we do yesterday?", "yesterday"),
        ("Hey, what did I work on today please", "today"),
        ("yesterday, what were we doing?", "yesterday"),
        ("what did we decide in this repo last week", "last week"),
        ("What happened on 2026-03-01?", "2026-03-01"),
        ("recap of 2026-03-01 please", "2026-03-01"),
        ("summarize this week", "this week"),
        ("what did we do on Friday", "friday"),
        ("where did we leave off last Friday?", "friday"),
        ("what have we done this month?", "this month"),
        ("Was haben wir gestern gemacht?", "yesterday"),
        ("woran haben wir letzte Woche gearbeitet", "last week"),
        ("¿Qué hicimos ayer?", "yesterday"),
        ("Qu'avons-nous fait aujourd'hui ?", "today"),
        # What is to be done is no question about that time.
        ("what should I work on today", ""),
        ("what is left to do this week", ""),
        ("continue from yesterday", ""),
        ("continue where we left off yesterday", ""),
        ("what did we do", ""),
        ("what happened", ""),
    ],
)
def test_a_question_about_the_past_may_name_its_time(question: str, time: str) -> None:
    assert time_asked(question) == time
    assert is_opening(question) or not time


@pytest.mark.parametrize(
    "question",
    [
        "what did we do yesterday about OAuth",
        "what did Ana do yesterday",
        "what happened to the server on 2026-03-01",
        "what happened in 2026-03",
        "yesterday",
        "summarize 2026-03-01 minutes",
    ],
)
def test_a_time_makes_no_opening_of_a_question_about_something(question: str) -> None:
    assert (is_opening(question), time_asked(question)) == (False, "")


@pytest.mark.parametrize(
    ("question", "since", "until"),
    [
        ("what did we do on Nov 10", "2025-11-10", "2025-11-11"),
        ("what did we do on the 3rd of March?", "2026-03-03", "2026-03-04"),
        ("What happened on March 4th", "2026-03-04", "2026-03-05"),
        ("what happened on March 5th", "2025-03-05", "2025-03-06"),
        ("what did we do on 31 December 2024", "2024-12-31", "2025-01-01"),
        ("Was haben wir am 10. November gemacht?", "2025-11-10", "2025-11-11"),
        ("¿Qué hicimos el 10 de noviembre de 2025?", "2025-11-10", "2025-11-11"),
        ("what were we working on in March", "2026-03-01", "2026-04-01"),
        ("recap of December 2025 please", "2025-12-01", "2026-01-01"),
        ("Was haben wir im Februar gemacht", "2026-02-01", "2026-03-01"),
        ("what did we do 3 days ago", "2026-03-01", "2026-03-02"),
        ("was haben wir vor 3 Tagen gemacht", "2026-03-01", "2026-03-02"),
        ("what did we do last year", "2025-01-01", "2026-01-01"),
        ("what happened on 29 February 2024", "2024-02-29", "2024-03-01"),
    ],
)
def test_a_day_or_a_month_may_be_named_in_words(question: str, since: str, until: str) -> None:
    narrowed = at_its_time(None, question, parse_time("2026-03-04T12:00"))
    assert isinstance(narrowed, dict)
    assert (narrowed["since"][:10], narrowed["until"][:10]) == (since, until)


def test_a_time_becomes_a_filter_unless_there_is_one() -> None:
    now = parse_time("2026-03-04T12:00") or 0
    asked = "what did we do yesterday"
    days = {"since": "2026-03-03T00:00:00", "until": "2026-03-04T00:00:00"}
    narrowed = at_its_time({"tags": ["x"]}, asked, now)
    assert isinstance(narrowed, dict)
    assert {name: str(value)[:19] for name, value in narrowed.items() if name != "tags"} == days
    assert narrowed["tags"] == ["x"]
    for own in ({"since": "2020-01-01"}, Filter(until=5)):
        assert at_its_time(own, asked, now) == own
    assert at_its_time(None, "where were we", now) is None
    assert at_its_time(None, "what did we do on 2026-13-45", now) is None


@pytest.mark.skipif(not COLLECTIONS.is_dir(), reason="the question collections are not here")
def test_no_question_of_the_collections_is_an_opening() -> None:
    lines = [
        line
        for file in COLLECTIONS.glob("*/queries.jsonl")
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    asked = [json.loads(line)["text"] for line in lines]
    assert len(asked) > 2_000
    assert [text for text in asked if is_opening(text)] == []
