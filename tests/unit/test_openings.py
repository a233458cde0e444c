"""Which questions ask for the overview, and which ask for something."""

import json
from pathlib import Path

import pytest

from plait.searching.openings import LONGEST_OPENING, is_opening

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
    "what were we working on in March",
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
