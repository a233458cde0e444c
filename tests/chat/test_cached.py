"""The response cache: off by default, exact, bounded, cleared by a purge."""

from contextlib import suppress

import pytest

from plait import Memory
from plait.chat.cached import CachedModel
from plait.chat.turns import ChatTurn, ModelCall
from plait.errors import ChatError, Notice, StoreBusy, StoreError
from plait.memory.responses import ResponseCache, response_cache, response_key
from plait.settings.loading import load
from plait.tools import take_turn
from plait.types.ids import CACHED_ANSWER
from plait.writing.documents import now_ms
from tests.chat.server import Call, Reply

QUESTION = "when do we deploy?"
ASKED = "Do we deploy on Fridays?"


@pytest.fixture
def on(monkeypatch):
    monkeypatch.setenv("PLAIT_RESPONSE_CACHE_ENABLED", "on")


def test_nothing_is_cached_unless_the_person_wants_it(chat, server, work):
    for _ in range(2):
        assert chat(QUESTION).json["cached"] is False
    assert len(server.requests) == 2
    with Memory.open(project="") as memory:
        assert memory.engine.remembered(CACHED_ANSWER) == {}


def test_the_same_question_is_answered_from_the_cache_and_says_so(chat, plait, server, on):
    server.replies = [Reply("On ", "Fridays."), Reply("Another answer.")]
    first = chat(QUESTION).json
    assert (first["answer"], first["cached"]) == ("On Fridays.", False)
    for used in ("once", "2 times"):
        again = chat(QUESTION).json
        assert (again["answer"], again["cached"]) == ("On Fridays.", True)
        assert [f"used {used}." in warning for warning in again["warnings"]] == [True]
        assert again["sources"] == first["sources"]
    assert len(server.requests) == 1
    told = chat(QUESTION, "--format", "text")
    assert told.out == "On Fridays.\n"
    assert "--no-cache" in told.err
    assert chat(QUESTION, "--no-cache").json["answer"] == "Another answer."
    assert chat(QUESTION).json["answer"] == "Another answer.", "it took the place of the first"
    assert plait("chat", "--clear-cache").json == {"cleared": 1, "hits": 1}
    assert plait("chat", "--clear-cache").json == {"cleared": 0, "hits": 0}
    assert plait("chat", "--clear-cache", "why").code == 2
    chat(QUESTION)
    assert len(server.requests) == 3


def test_another_question_or_another_memory_is_another_prompt(chat, plait, server, on):
    chat(QUESTION)
    chat("when do we deploy? Be brief.")
    plait("store", "We deploy on Mondays now.", "--key", "deploys")
    assert chat(QUESTION).json["cached"] is False
    assert len(server.requests) == 3


def test_an_answer_that_uses_tools_is_not_replayed(chat, server, on):
    store = Call("memory_store", {"text": "The boss is Ana"})
    server.replies = [Reply("I note it.", store), Reply("Done."), Reply("I know."), Reply("No.")]
    assert chat("remember that the boss is Ana").json["tool_calls"] != []
    chat("remember that the boss is Ana")
    assert len(server.requests) >= 3, "the model is asked again whether to use a tool"


def test_a_purge_clears_it_and_leaves_no_byte(chat, plait, server, on, work):
    server.replies = [Reply("Xyzzyplugh is the word.")]
    chat(QUESTION)
    database = work / "memory.db"
    files = [database, work / "memory.db-wal"]
    assert any(b"Xyzzyplugh" in file.read_bytes() for file in files if file.exists())
    assert plait("delete", "herons", "--purge").code == 0
    assert not any(b"Xyzzyplugh" in file.read_bytes() for file in files if file.exists())
    chat(QUESTION)
    assert len(server.requests) == 2


# -- the cache itself ------------------------------------------------------------------------


def opened(tmp_path, **flags):
    given = {"db_path": str(tmp_path / "m.db"), "project": "", "embedding_provider": "none"}
    given |= {"response_cache_enabled": "on", **flags}
    return Memory.open(config=load(given, environ={}))


def cache_of(memory):
    cache = response_cache(memory)
    assert cache is not None
    return cache


def test_answers_expire_and_the_least_recently_used_make_room(tmp_path, monkeypatch):
    now = [1_700_000_000_000]
    monkeypatch.setattr("plait.memory.responses.now_ms", lambda: now[0])
    limits = {"response_cache_ttl_minutes": 10, "response_cache_max_entries": 2}
    with opened(tmp_path, **limits) as memory:
        cache = cache_of(memory)
        for name in "ab":
            now[0] += 1
            cache.put(name, name.upper())
        now[0] += 1
        assert cache.get("a").text == "A"
        now[0] += 1
        cache.put("c", "C")
        assert [cache.get(name) is None for name in "abc"] == [False, True, False]
        now[0] += 10 * 60_000
        assert [cache.get(name) for name in "abc"] == [None] * 3
        assert len(memory.engine.remembered(CACHED_ANSWER)) == 2
        memory.maintain()
        assert memory.engine.remembered(CACHED_ANSWER) == {}
        cache.put("d", "D")
        now[0] -= 1000
        assert cache.get("d") is None, "a clock that was set back makes nothing younger"


def test_what_cannot_be_cached_is_not(tmp_path):
    with opened(tmp_path) as memory:
        cache = cache_of(memory)
        for text in ("", "  ", "x" * 200_000):
            cache.put("k", text)
        with memory.engine.transaction() as transaction:
            transaction.remember(**{f"{CACHED_ANSWER}bad": "[", f"{CACHED_ANSWER}odd": "3"})
        assert (cache.get("k"), cache.get("bad"), cache.get("odd")) == (None, None, None)
        assert cache.clear() == (2, 0)
        assert response_cache(memory.scope("ana")) is None
    with opened(tmp_path, read_only="on") as memory:
        assert response_cache(memory) is None
    with opened(tmp_path, backend="none") as memory:
        assert response_cache(memory) is None
    with opened(tmp_path, response_cache_enabled="off") as memory:
        assert response_cache(memory) is None


def test_a_busy_memory_does_not_stop_an_answer(tmp_path, monkeypatch):
    with opened(tmp_path) as memory:
        cache = ResponseCache(memory)

        def busy(*_, **__):
            raise StoreBusy("busy")

        monkeypatch.setattr(memory.engine, "transaction", busy)
        cache.put("k", "text")
        assert cache.get("k") is None


@pytest.mark.parametrize(
    ("model", "system", "turns"),
    [
        ("other", "s", [("user", "q")]),
        ("m", "t", [("user", "q")]),
        ("m", "s", [("user", "q "), ("assistant", "a")]),
        ("m", "s", [("assistant", "q")]),
        ("ms", "", [("user", "q")]),
    ],
)
def test_every_part_of_a_prompt_counts(model, system, turns):
    assert response_key(model, system, turns) != response_key("m", "s", [("user", "q")])


class Scripted:
    """A model that answers in parts."""

    def __init__(self, *parts):
        self.parts, self.asked = parts, 0

    def answer(self, system, turns, *, tools):
        self.asked += 1
        for part in self.parts:
            if isinstance(part, Exception):
                raise part
            yield part

    def close(self):
        pass


@pytest.mark.parametrize(
    "parts",
    [
        ("a", ModelCall("1", "memory_search", {})),
        ("a", Notice("cut")),
        ("a", ChatError("broke off", code="x")),
        ("",),
    ],
)
def test_only_whole_answers_in_words_are_cached(tmp_path, parts):
    with opened(tmp_path) as memory:
        inner = Scripted(*parts)
        model = CachedModel(inner, cache_of(memory), "m")
        for _ in range(2):
            with suppress(ChatError):
                list(model.answer("s", [ChatTurn("user", "q")], tools=True))
            assert model.hit is None
        assert inner.asked == 2


def test_an_answer_that_nobody_waited_for_is_not_cached(tmp_path):
    with opened(tmp_path) as memory:
        model = CachedModel(Scripted("a", "b"), cache_of(memory), "m")
        answer = model.answer("s", [ChatTurn("user", "q")], tools=False)
        assert next(answer) == "a"
        del answer
        assert memory.engine.remembered(CACHED_ANSWER) == {}


# -- the turn of one's own loop --------------------------------------------------------------


def test_a_turn_is_answered_once_if_the_model_is_named(tmp_path):
    asked = []

    def answer(prompt):
        asked.append(prompt)
        return f"answer {len(asked)}"

    with opened(tmp_path) as memory:
        memory.store("We deploy on Fridays.", key="deploys")
        turns = [take_turn(memory, "s", ASKED, answer, model="m") for _ in range(2)]
        assert [(turn.answer, turn.cached) for turn in turns] == [
            ("answer 1", False),
            ("answer 1", True),
        ]
        assert "Fridays" in asked[0], "the tags of its fences differ, and it is the same prompt"
        assert take_turn(memory, "s", ASKED, answer).answer == "answer 2"
        assert take_turn(memory, "s", ASKED, answer, model="n").answer == "answer 3"
        memory.store("We deploy on Fridays, after lunch.", key="deploys")
        assert take_turn(memory, "s", ASKED, answer, model="m").answer == "answer 4"


def test_a_session_or_a_project_is_not_given_the_answer_of_another(tmp_path):
    """Whoever answers may know more than the prompt shows: who asks, and what was said before."""

    def said_to(name):
        return lambda _: f"What {name} said."

    question = "What do you know about me?"
    with opened(tmp_path) as memory:
        for session in ("ada", "ben"):
            turn = take_turn(memory, session, question, said_to(session), model="m")
            assert (turn.answer, turn.cached) == (f"What {session} said.", False)
        assert take_turn(memory, "ada", question, said_to("nobody"), model="m").cached
    for project in ("shop", "office"):
        with opened(tmp_path, project=project) as memory:
            turn = take_turn(memory, "ada", question, said_to(project), model="m")
            assert (turn.answer, turn.cached) == (f"What {project} said.", False)


def test_an_answer_to_a_prompt_from_before_a_purge_is_not_kept(tmp_path):
    with opened(tmp_path) as memory:
        memory.store("The word is Xyzzyplugh.", key="word")

        def answer(prompt):
            memory.delete("word", purge=True)
            return "It is Xyzzyplugh."

        turn = take_turn(memory, "s", "What is the word?", answer, model="m")
        assert "Xyzzyplugh" in turn.answer
        assert memory.engine.remembered(CACHED_ANSWER) == {}
        again = take_turn(memory, "s", "What is the word?", lambda _: "No idea.", model="m")
        assert (again.answer, again.cached) == ("No idea.", False)
        assert len(memory.engine.remembered(CACHED_ANSWER)) == 1, "a later prompt is cached again"
    files = [tmp_path / "m.db", tmp_path / "m.db-wal"]
    assert not any(b"Xyzzyplugh" in file.read_bytes() for file in files if file.exists())


def test_a_conversation_that_goes_on_after_a_purge_keeps_no_answer(tmp_path):
    class Echo:
        def answer(self, system, turns, *, tools):
            yield turns[0].text

        def close(self):
            pass

    turns = [ChatTurn("user", "Xyzzyplugh")]
    with opened(tmp_path) as memory:
        memory.store("The word is Xyzzyplugh.", key="word")
        model = CachedModel(Echo(), cache_of(memory), "m")
        assert list(model.answer("", turns, tools=False)) == ["Xyzzyplugh"]
        assert list(model.answer("", turns, tools=False)) == ["Xyzzyplugh"]
        assert model.hit is not None
        memory.scope("ana").store("Hers.", key="hers")
        memory.scope("ana").delete("hers", purge=True)
        for _ in range(2):
            assert list(model.answer("", turns, tools=False)) == ["Xyzzyplugh"]
            assert model.hit is None
        assert memory.engine.remembered(CACHED_ANSWER) == {}


def test_a_hit_that_a_purge_overtakes_is_not_written_back(tmp_path, monkeypatch):
    with opened(tmp_path) as memory:
        memory.store("The word is Xyzzyplugh.", key="word")
        cache = cache_of(memory)
        cache.put("k", "Xyzzyplugh")
        read = memory.engine.remembered

        def purged_meanwhile(prefix):
            rows = read(prefix)
            monkeypatch.setattr(memory.engine, "remembered", read)
            memory.delete("word", purge=True)
            return rows

        monkeypatch.setattr(memory.engine, "remembered", purged_meanwhile)
        assert cache.get("k").text == "Xyzzyplugh"
        assert memory.engine.remembered(CACHED_ANSWER) == {}


def test_an_answer_with_a_secret_is_not_kept(tmp_path):
    with opened(tmp_path) as memory:
        cache = cache_of(memory)
        cache.put("k", "You told me that the password: 'Kq7-88xZ!41w' is new.")
        cache.put("l", "Use ghp_a1B2c3D4e5\u200bF6g7H8i9J0k1L2m3N4o5P6q7R8 for it.")
        assert memory.engine.remembered(CACHED_ANSWER) == {}


@pytest.mark.parametrize(
    "value",
    [
        '["text", "yesterday", 0, 0]',
        '["text", 1]',
        "[1, 2, 3, 4]",
        '["text", 1, 2, 3, 4]',
        '{"text": 1, "made_at": 2, "hits": 3, "used_at": 4}',
        "[]",
        "null",
        "[" * 100_000,
        '["text", 1e999, 0, 0]',
        f'["text", 1{"0" * 400}, 0, 0]',
        f'["text", -1{"0" * 400}, 0, 0]',
        f'["text", {now_ms()}, {"9" * 4_300}, 0]',
        f'["text", {now_ms()}, 0, 1{"0" * 400}]',
        f'["text", {now_ms()}, 0, {"9" * 5_000}]',
    ],
)
def test_what_plait_did_not_write_is_no_answer(tmp_path, value):
    with opened(tmp_path) as memory:
        cache = cache_of(memory)
        with memory.engine.transaction() as transaction:
            transaction.remember(**{f"{CACHED_ANSWER}k": value})
        assert cache.get("k") is None
        cache.put("other", "text")
        assert set(memory.engine.remembered(CACHED_ANSWER)) == {f"{CACHED_ANSWER}other"}


@pytest.mark.parametrize(
    "number",
    [f"1{'0' * 400}", f"-1{'0' * 400}", str(now_ms() + 10**9)],
    ids=["huge", "negative", "future"],
)
def test_an_answer_of_no_time_or_of_the_future_is_dropped(tmp_path, number):
    value = f'["text", {number}, 0, 0]'
    with opened(tmp_path) as memory:
        for drop in (memory.maintain, lambda: cache_of(memory).put("other", "text")):
            with memory.engine.transaction() as transaction:
                transaction.remember(**{f"{CACHED_ANSWER}k": value})
            assert cache_of(memory).get("k") is None
            drop()
            assert f"{CACHED_ANSWER}k" not in memory.engine.remembered(CACHED_ANSWER)


def test_old_answers_go_also_after_the_cache_was_switched_off(tmp_path, monkeypatch):
    with opened(tmp_path) as memory:
        cache_of(memory).put("k", "text")
    with opened(tmp_path, response_cache_enabled="off") as memory:
        memory.maintain()
        assert len(memory.engine.remembered(CACHED_ANSWER)) == 1, "it may be switched on again"
        later = now_ms() + 61 * 60_000
        monkeypatch.setattr("plait.memory.responses.now_ms", lambda: later)
        memory.maintain()
        assert memory.engine.remembered(CACHED_ANSWER) == {}


def test_a_memory_that_is_away_does_not_stop_an_answer(tmp_path, monkeypatch):
    with opened(tmp_path) as memory:
        cache = cache_of(memory)

        def away(*_, **__):
            raise StoreError("The server is away.")

        monkeypatch.setattr(memory.engine, "remembered", away)
        assert cache.get("k") is None
        cache.put("k", "text")
        monkeypatch.setattr(memory.engine, "state", away)
        assert response_cache(memory) is None
