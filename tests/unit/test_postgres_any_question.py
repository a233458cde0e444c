"""No search waits more than six times for the server, whatever is asked, filtered and turned to."""

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import pytest

from plait.memory import Memory
from plait.stores.postgres.store import PostgresStore
from plait.types.ids import AGENT_FIELD
from plait.writing.documents import now_ms
from tests.reliability.scale import SOAK
from tests.unit.test_postgres_trips import MOST_TRIPS, NAMES, filled, stopped_at, trips

_KNOWN = (
    "rotate keys key deploy fridays care ana1 tea costs water gardens wifi settings lamp we the"
)
_MISSPELT = "rotaet kyes deplyo crae watesr gardesn settigns bakcup postgersql zzyqx frdiay mornign"
_FOREIGN = "ключи серверами сервеар Schlüssel Schlussel 会議 3月5日 क्या anahtarlar"
_WORDS = [text.split() for text in (_KNOWN, _KNOWN, _MISSPELT, _MISSPELT, _FOREIGN)]
_OPTIONS: tuple[tuple[float, str, tuple[Any, ...]], ...] = (
    (0.5, "limit", (1, 2, 3, 5, 20, 50, 100)),
    (0.5, "offset", (1, 2, 5, 20, 60, 100, 500)),
    (0.2, "diverse", (True,)),
    (0.2, "best_per_document", (True,)),
    (0.3, "window", (1, 2, 5)),
    (0.3, "mode", ("keyword", "vector")),
    (0.3, "fusion", ("rrf", "max")),
    (0.1, "strict", (True,)),
    (0.2, "min_score", (0.1, 0.5, 0.9)),
    (0.1, "all_projects", (True,)),
    (0.1, "keyword_weight", (0.0, 1.0)),
)
_FILTERS: tuple[tuple[float, dict[str, Any]], ...] = (
    (0.15, {"tags": ["ops"]}),
    (0.15, {"entity": "Ana1"}),
    (0.1, {"session": "standup"}),
    (0.1, {"as_of": "2030-01-01"}),
    (0.1, {"all_versions": True}),
    (0.1, {"key_prefix": "note"}),
)
# Each was once asked in more trips, or answered otherwise in one than in several.
ONCE_MORE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("(frdiay) NOT (NEAR(the care, 5))", {"offset": 60, "fusion": "rrf", "min_score": 0.5}),
    ("rotaet", {"limit": 100, "where": {"entity": "Ana1"}}),
    ("keys/rotaet", {"mode": "keyword", "where": {"entity": "Ana1", "all_versions": True}}),
    ("crae wifi серверами postgersql frdiay we kyes deplyo", {"where": {"entity": "Ana1"}}),
    ("ben key deplyo care", {"limit": 1, "diverse": True, "window": 2}),
    ("会議 bakcup watesr", {"best_per_document": True, "window": 2}),
    ("watesr ben क्या kyes crae on backup", {"diverse": True, "window": 5}),
    ('"wi-fi" frdiay OR deplyo OR NEAR(gardens costs, 1) it', {"window": 5, "mode": "keyword"}),
    ("7 wrods rotate frdiay backup settigns Schlussel", {"limit": 3, "offset": 100, "window": 1}),
    ("(lamp) NOT (mornign watesr) AND (+zzyqx) (lamp) NEAR(rotate frdiay, 2)", {"offset": 1}),
    ('(frdiay AND kye*) AND ("3月5日" AND "key postgersql" NOT kyes)', {"mode": "vector"}),
    ("watesr frdiay key the क्या costs gifts", {"limit": 50, "offset": 1, "vector_weight": 0.0}),
)
QUESTIONS = 40 if SOAK else 12  # of each seed


@pytest.fixture(scope="module")
def mixed() -> Iterator[Memory]:
    """With notes, facts, conversations, messages of an agent, copies and long texts."""
    with filled() as memory:
        imported = {AGENT_FIELD: "claude"}
        for turn in range(1, 8):
            said = f"Ana does that ({turn})." if turn % 2 else f"Who rotates the keys on {turn}?"
            memory.store(said, session="standup", role="assistant" if turn % 2 else "user")
            role, text = ("user", "Who waters it?") if turn % 2 else ("assistant", f"Ben, {turn}.")
            memory.store(text, session="claude:12345678abc", role=role, metadata=imported)
        for number in range(3):
            memory.store(f"Ana{number} rotates keys and hates Fridays.", entity=f"Ana{number}")
            memory.store(f"Tea costs {number} euros.", entity="Tea", topic="price")
            memory.store(f"# A\n\n{f'words about gardens {number} ' * 300}", key=f"long-{number}")
        for number in range(20):
            memory.store("Gardens need water.", key=f"copy-{number}")
        memory.store("# Gifts\n\nA lamp. See [[door-code]].", key="notes/gifts.md")
        memory.store("The code is 4711.", key="door-code", metadata={"aliases": "gate-pin"})
        memory.store("A backup of the wifi settings.", key="settings")
        memory.store("2026年3月5日に会議があります。", key="kaigi")
        memory.store("Wir sichern die Schlüssel im Tresor.", key="tresor")
        yield memory


def _atom(chance: Random) -> str:
    first, second = chance.choice(chance.choice(_WORDS)), chance.choice(chance.choice(_WORDS))
    forms = (first, first, first, f'"{first} {second}"', f"{first[:3]}*", f'+"{first}"')
    return chance.choice((*forms, f"NEAR({first} {second}, 3)"))


def _expression(chance: Random, depth: int = 0) -> str:
    if depth > 2 or chance.random() < 0.3:
        return _atom(chance)
    operator = chance.choice((" AND ", " OR ", " NOT ", " "))
    return f"({_expression(chance, depth + 1)}){operator}({_expression(chance, depth + 1)})"


def _question(chance: Random) -> str:
    kind = chance.random()
    if kind < 0.1:
        return chance.choice(NAMES)
    if kind < 0.4:
        words = [chance.choice(chance.choice(_WORDS)) for _ in range(chance.randint(1, 9))]
        return " ".join(words)
    return _expression(chance)


def _options(chance: Random) -> dict[str, Any]:
    options = {name: chance.choice(row) for share, name, row in _OPTIONS if chance.random() < share}
    where: dict[str, Any] = {}
    for share, fields in _FILTERS:
        where |= fields if chance.random() < share else {}
    return {**options, "where": where} if where else options


def _check(
    memory: Memory, query: str, options: dict[str, Any], patching: pytest.MonkeyPatch
) -> None:
    ask, told = partial(memory.search, query, explain=True, **options), list[Any]()
    memory.write_down_use()  # or it is written down between the two
    assert trips(memory, lambda: told.append(ask())) <= MOST_TRIPS, (query, options)
    with patching.context() as patch:
        patch.setattr(PostgresStore, "ahead", None)
        apart = ask()
    [together] = told
    assert together.hits == apart.hits, (query, options)
    same = apart.receipt._replace(milliseconds=together.receipt.milliseconds)
    assert together.receipt == same, (query, options)


@pytest.fixture
def _stopped_clock() -> Iterator[None]:
    stopped_at.append(now_ms())
    yield
    stopped_at.clear()


@pytest.mark.usefixtures("_stopped_clock")
@pytest.mark.parametrize("seed", range(6))
def test_any_question_takes_at_most_six_trips_and_has_the_answer_of_many(
    mixed: Memory, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Random(seed)
    for _ in range(QUESTIONS):
        _check(mixed, _question(chance), _options(chance), monkeypatch)


@pytest.mark.usefixtures("_stopped_clock")
@pytest.mark.parametrize(("query", "options"), ONCE_MORE)
def test_questions_that_took_more_trips_take_six(
    mixed: Memory, query: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _check(mixed, query, options, monkeypatch)


def test_a_misspelt_word_is_not_remembered_as_there_for_what_begins_so(mixed: Memory) -> None:
    store = mixed.engine
    assert isinstance(store, PostgresStore)
    mixed.search("сейфе rotate the wi-fi wifi kyes rotaet")
    assert "rotaet" not in store.familiar
