"""The turn of an agent's own loop: recall, prompt, answer, save."""

import pytest

from plait.errors import StoreBusy
from plait.memory import Memory
from plait.tools import remember_turn, take_turn, with_context

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3gH5"


@pytest.fixture
def saving(tmp_path, monkeypatch):
    """A memory whose setting auto_save is on."""
    monkeypatch.setenv("PLAIT_AUTO_SAVE", "on")
    with Memory.open(tmp_path / "memory.db", embedder="none", project="") as memory:
        memory.store("We deploy on Fridays.")
        yield memory


def test_the_prompt_has_what_the_memory_knows_in_a_fence_above_the_question(saving):
    prompt = with_context(saving, "Do we deploy on Fridays?")
    assert prompt.context.startswith("<<plait-recall ")
    assert "We deploy on Fridays." in prompt.context
    assert str(prompt) == f"{prompt.context}\n\nDo we deploy on Fridays?"
    assert prompt.notices == ()


@pytest.mark.parametrize("text", ["Which zebra?", "", "  "])
def test_without_anything_to_tell_the_prompt_is_the_question(saving, text):
    assert str(with_context(saving, text)) == text


def test_the_context_keeps_to_its_limits(saving):
    saving.store("We deploy from the main branch.", type="fact")
    assert with_context(saving, "deploy", limit=1).context.count("We deploy") == 1
    where = {"type": ("fact",)}
    assert "Fridays" not in with_context(saving, "deploy", where=where).context
    assert with_context(saving, "deploy", min_score=1.0).context == ""
    assert with_context(saving, "deploy", budget_tokens=1).context == ""


def test_a_secret_does_not_leave_the_machine_in_a_prompt(saving):
    saving.store(f"The deploy token is {TOKEN}", key="token")
    context = with_context(saving, "deploy token").context
    assert "The deploy token is" in context
    assert TOKEN not in context


def test_a_turn_is_answered_and_saved_in_its_order(saving):
    prompts = []

    def model(prompt: str) -> str:
        prompts.append(prompt)
        return "Yes, we do."

    turn = take_turn(saving, "s1", "Do we deploy on Fridays?", model)
    assert prompts == [str(turn.prompt)]
    assert turn.answer == "Yes, we do."
    assert len(turn.saved) == 2
    take_turn(saving, "s1", "And on Mondays?", lambda prompt: "No.")
    assert [(message.role, message.text) for message in saving.conversation("s1")] == [
        ("user", "Do we deploy on Fridays?"),
        ("assistant", "Yes, we do."),
        ("user", "And on Mondays?"),
        ("assistant", "No."),
    ]


def test_what_was_recalled_and_secrets_are_not_saved_again(saving):
    turn = take_turn(saving, "s1", "Do we deploy on Fridays?", lambda prompt: prompt)
    assert "We deploy on Fridays." in turn.answer
    take_turn(saving, "s1", f"My token is {TOKEN}", lambda prompt: prompt)
    messages = saving.conversation("s1")
    assert len(messages) == 4
    for message in messages:
        assert TOKEN not in message.text
        assert "plait-recall" not in message.text
        assert "We deploy on Fridays." not in message.text


def test_nothing_is_saved_unless_the_setting_says_so(memory):
    turn = take_turn(memory, "s1", "Do we deploy on Fridays?", lambda prompt: "Yes, we do.")
    assert turn.saved == ()
    assert memory.timeline() == []


def test_a_read_only_memory_saves_nothing(saving):
    with Memory.open(saving.path, read_only=True) as memory:
        assert memory.config.settings.auto_save
        assert take_turn(memory, "s1", "When?", lambda prompt: "Now.").saved == ()


def test_what_is_empty_is_not_saved(saving):
    assert remember_turn(saving, "s1", " ", "") == ()
    (stored,) = remember_turn(saving, "s1", "Do we deploy on Fridays?")
    assert stored.id


def test_a_model_that_fails_saves_nothing(saving):
    def failing(prompt: str) -> str:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        take_turn(saving, "s1", "Do we deploy on Fridays?", failing)
    assert saving.conversation("s1") == []


@pytest.mark.parametrize(
    ("verb", "told"),
    [("recall", "The memory was not searched: "), ("add_messages", "This turn was not saved: ")],
)
def test_a_memory_that_fails_does_not_stop_the_turn(saving, monkeypatch, verb, told):
    def busy(*_: object, **__: object) -> None:
        raise StoreBusy("Another process writes. Retry.")

    monkeypatch.setattr(Memory, verb, busy)
    turn = take_turn(saving, "s1", "Do we deploy on Fridays?", lambda prompt: "Yes, we do.")
    assert turn.answer == "Yes, we do."
    (notice,) = turn.notices
    assert notice.text == f"{told}Another process writes. Retry."
