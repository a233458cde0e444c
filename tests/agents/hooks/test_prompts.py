"""Prompts that need no memory get none, and questions are not taken for such prompts."""

import json
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait import Memory
from plait.agents.hooks.injecting import for_prompt
from plait.agents.hooks.prompts import query_of
from plait.types import Document

ROOT = Path(__file__).parents[3]
PROMPTS = Path(__file__).parent / "prompts"
LEAST_SILENT = 0.9
LEAST_KEPT = 0.95


def prompts(name: str) -> list[str]:
    lines = (PROMPTS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    if name == "foreign":
        lines = [line.partition("\t")[2] for line in lines]
    return [line.replace("\\n", "\n").replace("\\t", "\t") for line in lines]


def questions() -> list[str]:
    lines = (ROOT / "examples" / "questions" / "queries.jsonl").read_text(encoding="utf-8")
    return [json.loads(line)["text"] for line in lines.splitlines()]


TOPICS = (
    *("invoice", "parser", "garden", "battery", "permit", "harbour", "turbine", "novel", "roster"),
    *("sensor", "bakery", "glacier", "violin", "statute", "vaccine", "freight", "quarry", "loom"),
)
ACTS = ("moved", "renamed", "measured", "painted", "approved", "delayed", "replaced", "sold")


def note(number: int) -> Document:
    topic, act = TOPICS[number % len(TOPICS)], ACTS[number % len(ACTS)]
    other = TOPICS[(number * 7 + 3) % len(TOPICS)]
    text = f"The {topic} number {number} was {act} in week {number % 52} because of the {other}."
    return Document(key=f"note-{number}", text=text)


@pytest.fixture(scope="module", params=[50, 2_000])
def memory(request: pytest.FixtureRequest) -> Iterator[Memory]:
    """The runbooks and decisions of the sample among other notes: so many passages in all."""
    with Memory.open(":memory:", project="") as memory:
        memory.ingest(ROOT / "examples" / "memory" / "runbooks")
        if request.param > 50:
            memory.ingest(ROOT / "examples" / "memory")
        missing = request.param - memory.stats().chunk_count
        memory.store_many([note(number) for number in range(missing)])
        yield memory


def test_there_are_enough_prompts() -> None:
    for name in ("no_memory", "held_out", "foreign"):
        assert len(set(prompts(name))) == len(prompts(name)) >= 200
    assert not set(prompts("held_out")) & set(prompts("no_memory"))


def test_every_memory_has_enough_foreign_prompts_and_every_subject_is_told() -> None:
    lines = (PROMPTS / "foreign.txt").read_text(encoding="utf-8").splitlines()
    subjects = [line.partition("\t")[0] for line in lines]
    told = (PROMPTS / "README.md").read_text(encoding="utf-8")
    assert all(f"`{subject}`" in told for subject in subjects)
    measured = runpy.run_path(str(ROOT / "benchmarks" / "hooks.py"))["SUBJECTS"]
    for name, own in measured.items():
        assert {*own.split()} <= {*subjects}, name
        assert sum(subject not in own.split() for subject in subjects) >= 200, name


@pytest.mark.unmeasured
@pytest.mark.parametrize("name", ["no_memory", "foreign", "held_out"])
def test_hooks_are_silent_where_no_memory_is_needed(memory: Memory, name: str) -> None:
    asked = prompts(name)
    shown = [prompt for prompt in asked if for_prompt(memory, prompt).text]
    assert len(shown) <= (1 - LEAST_SILENT) * len(asked), shown


@pytest.mark.unmeasured
def test_hooks_keep_the_first_answers_of_recall(memory: Memory) -> None:
    lost, answered = [], 0
    for question in questions():
        hits = [hit for hit in memory.search(question, limit=5) if not hit.is_weak]
        if hits:
            answered += 1
            shown = for_prompt(memory, question)
            left_out = [hit.id for hit, why in shown.left_out if why == "secret"]
            if hits[0].id not in (*shown.ids, *left_out):
                lost.append(question)
    assert answered >= 5
    assert len(lost) <= (1 - LEAST_KEPT) * answered, lost


@pytest.mark.parametrize(
    ("prompt", "query"),
    [
        ("error handling in payments is broken", "error handling in payments is broken"),
        ("note that Mara approves releases", "note that Mara approves releases"),
        ("at the office (Berlin) we use cable", "at the office (Berlin) we use cable"),
        ("10:30 meeting with Dev about pricing", "10:30 meeting with Dev about pricing"),
        ("/etc/nginx/sites is a mess of links", "/etc/nginx/sites is a mess of links"),
        ("when do we deploy?", "when do we deploy?"),
        ("how do I run the tests", "how do I run the tests"),
        ("Why Pennant?\nKeyError: 'x'", "Why Pennant?"),
        ("pg_wal", "pg_wal"),
        ("我们什么时候部署到生产环境", "我们什么时候部署到生产环境"),
        (
            "<ide_selection>def total(): ...</ide_selection>\nwhen do we deploy?",
            "when do we deploy?",
        ),
        ("<a>x</a>\n<b c='d'>y</b> when do we deploy?", "when do we deploy?"),
        ("<3 when do we deploy?", "<3 when do we deploy?"),
        (
            "# Files mentioned by the user:\n\n## deploy.md: /notes/deploy.md\n\n"
            "## My request for Codex:\nwhen do we deploy?",
            "when do we deploy?",
        ),
        ("<pasted>We deploy on Fridays</pasted>", ""),
        ("<task-notification>The tests of billing have ended</task-notification>", ""),
        ('<agent-message from="a">When do we deploy?</agent-message>', ""),
        ("why does git log --oneline hang?", "why does git log --oneline hang?"),
        ("the job ended with exit code 137", "the job ended with exit code 137"),
        ("docker: which registry?", "docker: which registry?"),
        ("KeyError: 'x'\nthe importer drops it", "the importer drops it"),
        ("git log --oneline", ""),
        ("cat package.json", ""),
        ("cp build report.txt", ""),
        ("tail latency budget", "tail latency budget"),
        ("cat vaccination schedule", "cat vaccination schedule"),
        ("sync && reboot", ""),
        ("$ tsc -p .\nerror Command failed with exit code 2.", ""),
        ("go: module example.com/m: git fetch: exit status 128", ""),
        ('ERROR: relation "x" does not exist\nLINE 1: SELECT "x"."id"', ""),
        ("3 failing\n  1) parses empty input:", ""),
        ("Error: Cannot find module 'x'\nRequire stack:\n- /app/index.js", ""),
        ("/compact", ""),
        ("!git status", ""),
        ("Summarize the discussion about the childcare offer.", "the childcare offer."),
        ("please recap our meetings on invoice rounding", "invoice rounding"),
        ("summarise why we left Heroku", "why we left Heroku"),
        ("sum up the heron census", "the heron census"),
        ("Summarize", ""),
        ("summarize the discussion", ""),
        ("summarize the discussion so far", ""),
        ("sum up the findings above", ""),
        ("summarize the discussion and conclusions so far", ""),
        ("Summarize the conversation above in three bullet points", ""),
        ("recap the changes so far and the remaining tests", ""),
        ("summarize the discussion on tests so far", ""),
        ("Recap the talk on caching up to now", "caching"),
        ("recap our meeting about Heroku", "Heroku"),
        (
            "summarize why the Krause invoice stayed unpaid until now",
            "why the Krause invoice stayed unpaid",
        ),
        (
            "Recap the caching bug above in the parser module",
            "the caching bug in the parser module",
        ),
        (
            "sum up the deploy steps Anna wrote\n\nIgnore the section above the table.",
            "the deploy steps Anna wrote\n\nIgnore the section the table.",
        ),
        ("how far above the table is the lamp?", "how far above the table is the lamp?"),
        ("summarize what you did", ""),
        ("summarize the diff", ""),
        ("the summary of the heron census", "the summary of the heron census"),
        ("", ""),
        ("   \n ", ""),
    ],
)
def test_what_is_asked_with_is_what_a_person_typed(prompt: str, query: str) -> None:
    assert query_of(prompt) == query


@pytest.mark.parametrize(
    ("prompt", "asked"),
    [
        ("when do we rotate keys? <private>Bob is ill</private>", "when do we rotate keys?"),
        ("<private>Bob\nis ill</private> when do we rotate keys?", "when do we rotate keys?"),
        ("how do we deploy the heron <private>Bob is ill", "how do we deploy the heron"),
        ("<private>where does Bob keep the heron?</private>", ""),
    ],
)
def test_what_is_private_is_not_asked_with(prompt: str, asked: str) -> None:
    assert query_of(prompt) == asked


def test_that_a_text_is_to_be_summed_up_counts_against_no_passage() -> None:
    with Memory.open(":memory:", project="") as memory:
        memory.store_many([note(number) for number in range(2_000)])
        memory.store("The council offers childcare from the age of two, for thirty hours a week.")
        for frame in ("", "Summarize ", "Summarize the discussion about "):
            for prompt in ("the childcare offer", "the childcare hours", "the thirty hours"):
                assert "thirty hours" in for_prompt(memory, frame + prompt).text
