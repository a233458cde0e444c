"""No search waits more than six times for the server, whatever is asked, filtered and turned to."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from plait.memory import Memory
from plait.stores.postgres.store import PostgresStore
from plait.types.ids import AGENT_FIELD, IMPORTED_SESSION
from plait.writing.documents import now_ms
from tests.unit.test_postgres_trips import MOST_TRIPS, NAMES, filled, stopped_at, trips

# Of an imported session, as answers show it.
SHORT, SESSION = "claude:12345678", "claude:12345678abc"
_KNOWN = (
    "rotate keys key deploy fridays care ana1 tea costs water gardens wifi settings lamp we the"
)
_MISSPELT = "rotaet kyes deplyo crae watesr gardesn settigns bakcup postgersql zzyqx frdiay mornign"
_FOREIGN = "ключи серверами сервеар Schlüssel Schlussel 会議 3月5日 क्या anahtarlar"
# Many stems that begin alike: of which one a word is misspelt is known late.
_FAMILIES = (
    "Archives fit the switches in place. Placed brackets were fitted; fitting rooms stay placid.",
    "Archivists archived the architecture of arches. Settled settlers settle in settings, settees.",
    "Statements state the status of stations; stated statistics stay static, patience is placed.",
    "Connected connectors connect connections consecutively, constantly and consequently.",
    "A personal person persists perfectly in performing permanent permissions.",
)
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
    (0.05, {"entity": ["Tea", "Ana2"]}),
    (0.1, {"session": "standup"}),
    (0.1, {"session": SHORT}),
    (0.1, {"as_of": "2030-01-01"}),
    (0.1, {"all_versions": True}),
    (0.1, {"key_prefix": "note"}),
)
_TEXTS: Sequence[str] = _FAMILIES
_OF_RECALL = ("where", "min_score", "strict", "all_projects")
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
    ("consecuively settteees ptaence Statemnets archive Statmeentss sstay", {}),
    ("Connscted oroms settleeбnt statins asches", {}),
    ("perfectlo premissions pefectly satus settleemnu staus", {"window": 2}),
    ("peronal settlse seиting perrsists arrchitecture statsitcs", {"offset": 2}),
    ("wo ist der rad tfts satyy stroes eanwhil uno consqeuently statinos setlement", {"limit": 1}),
    ("wi fi deplyo fridais rotaet kyes", {"where": {"entity": ["Ana1", "Tea"], "session": SHORT}}),
    ("who watesr it", {"where": {"session": SHORT}, "window": 1}),
    ("", {"where": {"session": SHORT}}),
)
QUESTIONS = 12  # of each seed
MANY = 600


@pytest.fixture(scope="module")
def mixed() -> Iterator[Memory]:
    """With notes, facts, conversations, messages of an agent, copies and long texts."""
    with filled() as memory:
        imported = {AGENT_FIELD: "claude"}
        for turn in range(1, 8):
            said = f"Ana does that ({turn})." if turn % 2 else f"Who rotates the keys on {turn}?"
            memory.store(said, session="standup", role="assistant" if turn % 2 else "user")
            role, text = ("user", "Who waters it?") if turn % 2 else ("assistant", f"Ben, {turn}.")
            memory.store(text, session=SESSION, role=role, metadata=imported)
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
        for number, text in enumerate(_FAMILIES):
            memory.store(text, key=f"family-{number}")
        with memory.engine.transaction() as transaction:
            transaction.remember(**{f"{IMPORTED_SESSION}{SESSION}": "7"})
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


def _misspelt(chance: Random, word: str) -> str:
    for _ in range(chance.choice((1, 1, 1, 2))):
        place = chance.randrange(len(word))
        before, letter, after = word[:place], word[place], word[place + 1 :]
        forms = (f"{before}{after[:1]}{letter}{after[1:]}", f"{before}{after}" or letter)
        word = chance.choice((*forms, f"{before}{letter}{letter}{after}", f"{before}e{after}"))
    return word


def _question(chance: Random) -> str:
    kind = chance.random()
    if kind < 0.1:
        return chance.choice(NAMES)
    if kind < 0.25:
        words = re.findall(r"\w{4,}", chance.choice(_TEXTS))
        several = range(chance.randint(1, 8))
        return " ".join(_misspelt(chance, chance.choice(words)) for _ in several)
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


def _twice(
    memory: Memory, ask: Callable[[], Any], asked: object, patching: pytest.MonkeyPatch
) -> tuple[Any, Any]:
    """Return the answer of a few trips, which are counted, and that of many."""
    told = list[Any]()
    memory.write_down_use()  # or it is written down between the two
    assert trips(memory, lambda: told.append(ask())) <= MOST_TRIPS, asked
    with patching.context() as patch:
        patch.setattr(PostgresStore, "ahead", None)
        told.append(ask())
    together, apart = told
    same = apart.receipt._replace(milliseconds=together.receipt.milliseconds)
    assert together.receipt == same, asked
    return together, apart


def _check(
    memory: Memory, query: str, options: dict[str, Any], patching: pytest.MonkeyPatch
) -> None:
    ask = partial(memory.search, query, explain=True, **options)
    together, apart = _twice(memory, ask, (query, options), patching)
    assert together.hits == apart.hits, (query, options)


def _check_recall(
    memory: Memory, query: str, options: dict[str, Any], patching: pytest.MonkeyPatch
) -> None:
    given = {name: options[name] for name in _OF_RECALL if name in options}
    if not query.strip():
        return
    ask = partial(memory.recall, query, **given)
    together, apart = _twice(memory, ask, (query, given), patching)
    assert together.items == apart.items, (query, given)
    assert together.left_out == apart.left_out, (query, given)


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
    _ask_many(mixed, Random(seed), QUESTIONS, monkeypatch)


def _ask_many(memory: Memory, chance: Random, many: int, patching: pytest.MonkeyPatch) -> None:
    for _ in range(many):
        check = _check if chance.random() < 0.75 else _check_recall
        check(memory, _question(chance), _options(chance), patching)


@pytest.mark.soak
@pytest.mark.usefixtures("_stopped_clock")
@pytest.mark.parametrize("seed", range(100, 104))
def test_any_of_many_questions_takes_at_most_six_trips(
    mixed: Memory, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a memory with many words, of which any may be misspelt."""
    written = [*_FAMILIES, *_paragraphs()]
    monkeypatch.setattr("tests.unit.test_postgres_any_question._TEXTS", written)
    for number, text in enumerate(written):
        mixed.store(text, key=f"written-{number}")
    _ask_many(mixed, Random(seed), MANY, monkeypatch)


def _paragraphs() -> list[str]:
    docs = Path(__file__).parents[2] / "docs"
    whole = (path.read_text(encoding="utf-8") for path in sorted(docs.glob("*.md")))
    listed = [row for text in whole for row in text.split("\n\n") if 60 < len(row) < 900]
    return Random(1).sample(listed, 150)


@pytest.mark.usefixtures("_stopped_clock")
@pytest.mark.parametrize(("query", "options"), ONCE_MORE)
def test_questions_that_took_more_trips_take_six(
    mixed: Memory, query: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _check(mixed, query, options, monkeypatch)
    _check_recall(mixed, query, options, monkeypatch)


def test_the_filter_of_a_question_is_looked_up_with_its_words(mixed: Memory) -> None:
    for query in ("keys", "kyes", "who watesr it", "rotate AND kyes"):
        usual = trips(mixed, lambda query=query: mixed.search(query))  # type: ignore[misc]
        for where in ({"entity": "Ana1"}, {"session": SHORT}, {"session": SESSION}):
            ask = partial(mixed.search, query, where=where)
            assert trips(mixed, ask) <= usual + 1, (query, where)
    assert mixed.search("waters", where={"session": SHORT}).hits


def test_a_misspelt_word_is_not_remembered_as_there_for_what_begins_so(mixed: Memory) -> None:
    store = mixed.engine
    assert isinstance(store, PostgresStore)
    mixed.search("сейфе rotate the wi-fi wifi kyes rotaet")
    assert "rotaet" not in store.familiar
