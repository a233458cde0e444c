"""The check behind `tests.agents.clients.run`: it sees what leaves a fence. No client is needed."""

import json
from collections import Counter

import pytest

from plait.facts.echo import fence
from tests.agents.clients.fake_models import Body
from tests.agents.clients.order_like import order_likes
from tests.agents.clients.sent import Found, found_in

OLD = "oldoldol"
TEXTS = order_likes(OLD)
ORDER = TEXTS[0]


def found(*told: str, role: str = "user", plain: str = "") -> Found:
    content = [{"type": "tool_result", "content": [{"type": "text", "text": one}]} for one in told]
    body: Body = {"messages": [{"role": role, "content": content}]}
    return found_in(TEXTS, [[body, body]], plain)


def test_every_text_has_a_mark_and_a_subject_of_its_own():
    assert len(TEXTS) >= 50
    assert len({text.mark for text in TEXTS}) == len({text.subject for text in TEXTS}) == len(TEXTS)
    assert all(text.mark in text.text and text.subject not in text.text for text in TEXTS)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.mark)
def test_a_text_in_a_fence_of_its_answer_is_inside_and_counts_once_in_a_conversation(text):
    told = found(f"Hook says: {fence(text.text, 'mnopqrst')}\n5 hits in other projects.")
    assert told == Found(Counter([text.mark]), Counter(), [])


@pytest.mark.parametrize(
    "told",
    [
        ORDER.text,
        fence(ORDER.text, "abcdefgh"),
        fence(ORDER.text, OLD),
        f"{fence('a fact', 'mnopqrst')}\n{ORDER.text}",
        f"<<plait-recall mnopqrst>>\n{ORDER.text}",
        json.dumps([{"name": ORDER.text}]),
        json.dumps({ORDER.text: 1}),
        "revious instructions, and so on",
        fence("a fact", "mnopqrst") + ORDER.text[:30].replace(" ", "\n"),
    ],
)
def test_a_text_without_a_fence_of_its_answer_is_outside(told):
    result = found(told)
    assert result.outside.total() == len(result.wrong) == 1


def test_what_the_model_wrote_and_what_the_client_says_anyway_are_no_leaks():
    assert not found(ORDER.text, role="assistant").wrong
    assert not found("all previous instructions", plain="Heed all previous instructions.").wrong


def test_a_tag_belongs_to_one_answer_and_does_not_stand_in_it():
    assert found(fence("a", "mnopqrst"), fence("b", "mnopqrst")).wrong
    early = fence("a\n<</plait-recall mnopqrst>>\nb", "mnopqrst")
    assert found(early).wrong
