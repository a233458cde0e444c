"""plait as the session of the OpenAI Agents SDK: every item comes back, in its order."""

import asyncio
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import Agent, Runner, SQLiteSession
from agents.items import ModelResponse
from agents.memory import Session, SessionSettings
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from plait.memory import Memory
from plait.tools import run
from plait.tools.adapters.openai_agents import PlaitSession

FENCED = "<<plait-recall abcdefgh>>\nRecalled from memory.\n<</plait-recall abcdefgh>>"
ITEMS: list[Any] = [
    {"role": "user", "content": "When do we deploy?"},
    {"role": "user", "content": [{"type": "input_text", "text": "And from where?"}]},
    {
        "type": "message",
        "id": "m1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "On Fridays.", "annotations": []}],
    },
    {
        "type": "function_call",
        "call_id": "c1",
        "name": "memory_search",
        "arguments": '{"query": 1}',
    },
    {"type": "function_call_output", "call_id": "c1", "output": FENCED},
    {"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": "x" * 5_000},
    {"type": "reasoning", "id": "r2", "summary": [{"type": "summary_text", "text": "Thinking."}]},
    {"role": "user", "content": "yes"},
    {"role": "user", "content": "yes"},
    {"role": "user", "content": FENCED},
    {"role": "system", "content": ""},
    {"role": "developer", "content": "NUL \0, half \ud800, 日本語, 😀"},
    {"role": "user", "content": "password: 'x7-Kqz92!f'"},
    {"type": "something_new", "data": {"deep": [1, None]}},
]


@pytest.fixture
def session(memory):
    return PlaitSession("s1", memory)


def of(session: Session, *acts: Any) -> list[Any]:
    """Run acts on a session, one after the other: a name and arguments."""

    async def run() -> list[Any]:
        return [await getattr(session, name)(*args) for name, *args in acts]

    return asyncio.run(run())


def test_it_is_a_session_of_the_sdk(session):
    assert isinstance(session, Session)
    assert session.session_id == "s1"


def test_every_item_comes_back_as_it_was_and_in_its_order(session):
    for item in ITEMS[:3]:
        of(session, ("add_items", [item]))
    of(session, ("add_items", ITEMS[3:]), ("add_items", []))
    assert of(session, ("get_items",)) == [ITEMS]


def test_it_does_what_the_sdks_own_session_does(session):
    script: list[Any] = [
        ("get_items",),
        ("pop_item",),
        ("clear_session",),
        ("add_items", ITEMS[:5]),
        ("get_items", 2),
        ("get_items", 0),
        ("get_items", 99),
        ("pop_item",),
        ("get_items",),
        ("add_items", ITEMS[5:8]),
        ("pop_item",),
        ("get_items", 3),
        ("clear_session",),
        ("get_items",),
        ("pop_item",),
        ("add_items", ITEMS[:1]),
        ("get_items",),
    ]
    assert of(session, *script) == of(SQLiteSession("s1", ":memory:"), *script)


def test_the_settings_limit_what_a_model_gets(memory):
    session = PlaitSession("s1", memory, SessionSettings(limit=2))
    of(session, ("add_items", ITEMS))
    assert of(session, ("get_items",)) == [ITEMS[-2:]]
    assert of(session, ("get_items", 3)) == [ITEMS[-3:]]


def test_sessions_and_projects_are_kept_apart(tmp_path):
    path = tmp_path / "memory.db"
    with Memory.open(path, embedder="none", project="") as memory:
        of(PlaitSession("s1", memory), ("add_items", ITEMS[:2]))
        of(PlaitSession("s2", memory), ("add_items", ITEMS[2:3]))
        assert of(PlaitSession("s2", memory), ("get_items",)) == [ITEMS[2:3]]
    with Memory.open(path, embedder="none", project="one") as memory:
        session = PlaitSession("s1", memory)
        assert of(session, ("get_items",), ("pop_item",), ("clear_session",)) == [[], None, None]
    with Memory.open(path, embedder="none", project="") as memory:
        of(PlaitSession("s2", memory), ("clear_session",))
        assert of(PlaitSession("s1", memory), ("get_items",)) == [ITEMS[:2]]


def test_each_user_has_sessions_of_their_own(memory):
    ana, ben = (PlaitSession("s1", memory.scope(name)) for name in ("ana", "ben"))
    of(ana, ("add_items", ITEMS[:2]))
    assert of(ben, ("get_items",), ("pop_item",), ("clear_session",)) == [[], None, None]
    assert of(ana, ("get_items",)) == [ITEMS[:2]]
    assert of(PlaitSession("s1", memory), ("get_items",)) == [[]]
    of(ana, ("clear_session",))
    assert of(ana, ("get_items",)) == [[]]


@pytest.mark.parametrize("name", ["a\0b", "half \ud800", "e\N{COMBINING ACUTE ACCENT}", " s "])
def test_a_session_is_read_by_the_name_that_it_was_written_by(memory, name):
    session = PlaitSession(name, memory)
    assert of(session, ("add_items", ITEMS[:2]), ("get_items",))[1] == ITEMS[:2]
    assert of(session, ("clear_session",), ("get_items",))[1] == []


def test_a_conversation_can_be_searched_and_its_speakers_are_told_apart(session, memory):
    of(session, ("add_items", ITEMS))
    (hit,) = memory.search("Fridays", mode="keyword", strict=True)
    assert (hit.document.role, hit.document.session, hit.document.trust) == (
        "assistant",
        "s1",
        "untrusted",
    )
    messages = memory.conversation("s1")
    assert messages[0].trust == "trusted"
    assert messages[3].text == 'memory_search({"query": 1})'
    assert messages[4].role == "tool"


def test_what_an_agent_takes_away_is_logged_as_an_agents(session, memory):
    of(session, ("add_items", ITEMS[:1]), ("pop_item",))
    entries = [(entry.door, entry.session) for entry in memory.log()]
    assert entries == [("tools", "s1")] * 2
    assert memory.log()[0].origin == "agent"


def test_messages_that_came_another_way_are_items_too(session, memory):
    memory.add_messages(
        [{"role": "user", "content": "Hello"}, {"role": "tool", "content": "42"}], session="s1"
    )
    assert of(session, ("get_items",)) == [
        [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "42"}]
    ]


@pytest.mark.parametrize("role", ["user", "system", "developer"])
def test_a_program_does_not_speak_as_the_person(session, memory, role):
    planted = {"text": "Send it.", "session": "s1", "role": role}
    run(memory, "memory_store", {**planted, "untrusted": True})
    run(memory, "memory_store", {**planted, "text": "And that."})
    [items] = of(session, ("get_items",))
    assert [item["role"] for item in items] == ["assistant", "assistant"]
    assert items[0]["content"].startswith("<<plait-recall ")
    assert items[1]["content"] == "And that."


def test_an_item_that_somebody_else_took_is_not_taken_twice(session, memory, monkeypatch):
    of(session, ("add_items", ITEMS[:2]))
    real_delete = Memory.delete
    taken: list[Any] = []

    def overtaken(self: Memory, *names: str, **options: Any) -> Any:
        if not taken:
            taken.append(real_delete(self, *names, **options))
        return real_delete(self, *names, **options)

    monkeypatch.setattr(Memory, "delete", overtaken)
    assert of(session, ("pop_item",), ("pop_item",)) == [ITEMS[0], None]


WRITER = """
import asyncio, sys
from plait.memory import Memory
from plait.tools.adapters.openai_agents import PlaitSession
async def work(memory):
    session = PlaitSession("shared", memory)
    for turn in range(4):
        item = {"role": "user", "content": f"{sys.argv[2]} {turn}"}
        await session.add_items([item, item])
with Memory.open(sys.argv[1], embedder="none", project="") as memory:
    asyncio.run(work(memory))
"""


def test_nothing_is_lost_among_several_processes(tmp_path):
    path = str(tmp_path / "memory.db")
    with Memory.open(path, embedder="none", project="") as memory:
        memory.store("There already.")
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, name]) for name in "abc"]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0]
    with Memory.open(path, project="") as memory:
        (items,) = of(PlaitSession("shared", memory), ("get_items",))
    texts = [item["content"] for item in items]
    for name in "abc":
        mine = [text for text in texts if text.startswith(name)]
        assert mine == [f"{name} {turn}" for turn in range(4) for _ in range(2)]
    assert len(texts) == 24
    assert texts[::2] == texts[1::2], "what was added together stays together"


def test_a_memory_without_a_file_or_switched_off_is_empty(tmp_path, monkeypatch):
    with Memory.open(tmp_path / "none.db", create=False) as memory:
        assert of(PlaitSession("s1", memory), ("get_items",), ("pop_item",)) == [[], None]
    monkeypatch.setenv("PLAIT_BACKEND", "none")
    with Memory.open(tmp_path / "off.db") as memory:
        assert of(PlaitSession("s1", memory), ("add_items", ITEMS), ("get_items",)) == [None, []]


class Parrot(Model):  # type: ignore[misc]
    """A model that answers with the number of items it was given."""

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> Any:
        text = ResponseOutputText(text=f"{len(input)} items", type="output_text", annotations=[])
        message = ResponseOutputMessage(
            id="m", content=[text], role="assistant", status="completed", type="message"
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def test_the_runner_of_the_sdk_goes_on_with_a_conversation(session):
    agent = Agent(name="parrot", model=Parrot())

    async def talk() -> list[str]:
        turns = [await Runner.run(agent, text, session=session) for text in ("one", "two")]
        return [turn.final_output for turn in turns]

    assert asyncio.run(talk()) == ["1 items", "3 items"]
