"""Answers of many parts and calls are read and kept in time linear in their length."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from plait.agents.histories import Act, Places, reader_of
from plait.agents.histories.acts import act_of
from plait.agents.steps import mask_beside, steps_of
from plait.facts.masking import MASK, masked
from tests.agents import test_claude_code as claude_code
from tests.agents import test_copilot as copilot
from tests.linear_time import growth

WORDS = "one answer in many pieces, " * 10
SIZES = (500, 2_000, 8_000)


def claude_pieces(count: int) -> list[dict[str, object]]:
    pieces = [claude_code.answer(f"a{n}", claude_code.text(f"{WORDS}{n}")) for n in range(count)]
    return [claude_code.user("u", "go on"), *pieces]


def claude_calls(count: int) -> list[dict[str, object]]:
    rows = [claude_code.user("u", "go on"), claude_code.answer("a", claude_code.text("I will."))]
    for n in range(count):
        rows.append(claude_code.answer(f"c{n}", claude_code.call(f"t{n}", "Bash", command="make")))
        rows.append(claude_code.result(f"r{n}", f"t{n}"))
    return rows


def copilot_pieces(count: int) -> list[dict[str, object]]:
    pieces = [copilot.answer(f"a{n}", f"{WORDS}{n}", apiCallId="one") for n in range(count)]
    return [copilot.begin(), copilot.ask("u", "go on"), *pieces]


Talk = Callable[[int], list[dict[str, object]]]


@pytest.mark.parametrize(
    ("agent", "name", "talk"),
    [
        ("claude-code", "s.jsonl", claude_pieces),
        ("claude-code", "s.jsonl", claude_calls),
        ("copilot", "events.jsonl", copilot_pieces),
    ],
)
def test_an_answer_of_many_parts_is_read_in_linear_time(
    agent: str, name: str, talk: Talk, tmp_path: Path
) -> None:
    places = Places("", {}, files=(str(tmp_path / name),))

    def read(lines: str) -> None:
        (tmp_path / name).write_text(lines, "utf-8")
        [source] = reader_of(agent).find(places)
        rows = [
            row
            for reading in reader_of(agent).read(source, None)
            for session in reading.sessions
            for row in session.utterances
        ]
        assert len(rows) == 2

    def lines_of(count: int) -> str:
        return "".join(f"{json.dumps(row)}\n" for row in talk(count))

    assert growth(read, lines_of, SIZES) == 0


@pytest.mark.parametrize("secret", ["", " password=Zx9%dkQ3vT7pLm2"])
def test_the_calls_of_an_answer_are_kept_in_linear_time(secret: str) -> None:
    def keep(lines: str) -> None:
        text, kinds = masked(lines)
        acts = [act_of("sh", {"command": line}) for line in lines.splitlines()]
        steps = steps_of(acts, None, None, mask_beside(lines, text, kinds))
        assert len(steps) == len(acts)

    def lines_of(count: int) -> str:
        return "\n".join(f"sh: echo {n}{secret % n if secret else ''}" for n in range(count))

    assert growth(keep, lines_of, SIZES) == 0


@pytest.mark.parametrize("count", [1, 200])
def test_a_secret_of_the_words_is_masked_in_every_call(count: int) -> None:
    """Also where the words have so many that none of them are kept."""
    secrets = [f"Zx9dkQ3vT7pLm2{n}" for n in range(count)]
    words = "\n".join(f"password: {secret}" for secret in secrets)
    text, kinds = masked(words)
    acts = [Act("sh", "sh: log in", command=f"login {one}, {one}") for one in secrets]
    for step in steps_of(acts, None, None, mask_beside(words, text, kinds)):
        assert step.command == f"login {MASK}, {MASK}"
