"""What a member may not see changes no answer: a memory with it and one without answer alike."""

import random
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from plait import Memory
from plait.searching.recall import Recalled
from plait.stores.postgres.connection import number_of
from plait.stores.postgres.store import PostgresStore
from plait.types import Answer, Filter
from plait.types.ids import new_id
from plait.types.steps import Step
from plait.types.visibility import Visibility, visible_to
from tests.builders import NOW, entry
from tests.people.conftest import Team, made_team

VISIBLE = (
    "server keyboard orange deploy harbor lantern morning violet garden engine stars ear plugs"
)
HIDDEN = "kraken serves keyboards oranges lanterns mornings earplugs 18500 p525 secretive harbour"
SEED = 7
MEMORIES = 2
QUESTIONS = 12
TRIES = 60
Reply = TypeVar("Reply", Answer, Recalled)


class Draw:
    """The same documents for two memories, of which only one also gets the hidden ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.visible, self.hidden = VISIBLE.split(), HIDDEN.split()

    def words(self, count: int, *, hidden: bool = False) -> str:
        listed = [*self.visible, *(self.hidden if hidden else ())]
        return " ".join(self.random.choices(listed, k=count))

    def documents(self) -> Iterator[tuple[bool, dict[str, Any]]]:
        """Documents, each with whether it is hidden."""
        turn = 0
        for number in range(70):
            hidden = self.random.random() < 0.4
            text = self.words(self.random.randint(2, 12), hidden=hidden)
            fields: dict[str, Any] = {"id": f"{number:a>13}", "title": self.words(1, hidden=hidden)}
            kind = self.random.choice(("note", "note", "message", "observation", "entity"))
            if kind == "message":
                turn += 1
                session = self.random.choice(("talk", "chat"))
                text += self.random.choice(("", "?", "?"))
                fields |= {"session": session, "turn": turn, "role": "user"}
            fields |= {"kind": kind, "pinned": self.random.random() < 0.1}
            fields |= {"project": self.random.choice(("", "", "heron"))}
            fields |= {"event_at": NOW + number * 1000, "indexed_at": NOW + number * 1000}
            yield hidden, {"text": text, **fields}

    def filter(self) -> Filter:
        return self.random.choice(
            (
                Filter(),
                Filter(),
                Filter(projects=("heron",)),
                Filter(kinds=("message",)),
                Filter(session="talk"),
                Filter(pinned=True),
                Filter(mentions=(self.words(1, hidden=True),)),
                Filter(as_of=NOW + 30_000),
                Filter(all_versions=True),
            )
        )

    def question(self) -> str:
        one, two = (self.words(1, hidden=True) for _ in range(2))
        slip = list(one)
        del slip[self.random.randrange(len(slip))]
        wrong = "".join(slip)
        return self.random.choice(
            (
                self.words(3, hidden=True),
                f"{wrong} {two}",
                f"{wrong} AND {two}",
                wrong,
                one + two,
                f"{one[:3]}*",
                f"{one[:3]}* OR {two[:4]}*",
                f'"{one} {two}"',
                f"{one} NOT {two}",
                f"{one} {wrong} what is the {two}?",
                "what is pinned?",
            )
        )


def write(store: PostgresStore, draw: Draw, *, all_of_them: bool) -> None:
    last: dict[tuple[str, bool], str] = {}
    for hidden, fields in draw.documents():
        steps = [Step("Bash", command=fields["text"])] if fields["kind"] == "message" else []
        before = last.get((fields["project"], hidden))
        if fields["kind"] == "observation":
            if before is not None:
                fields["supersedes"] = before
            last[fields["project"], hidden] = fields["id"]
        if hidden and not all_of_them:
            continue
        row = entry(None, fields.pop("text"), **fields)._replace(steps=steps)
        visibility: Visibility = "private" if hidden else "team"
        with visible_to(visibility), store.transaction() as tx:
            tx.write(row)


@pytest.fixture(scope="module")
def people(empty_team: Team) -> Iterator[tuple[Team, str, str]]:
    with made_team(empty_team) as team:
        yield team, team.person("wim"), team.person("rita")


def pair(people: tuple[Team, str, str], seed: int, **options: Any) -> list[Memory]:
    """The reader's view of two memories: one with what it may not see, one without."""
    team, wim, rita = people
    memories, namespaces = list[Memory](), list[str]()
    for all_of_them in (True, False):
        namespace = new_id()
        store = PostgresStore(team.address(namespace=namespace))
        store.admit(wim, "writer", [])
        store.admit(rita, "reader", [])
        store.close()
        writer = PostgresStore(team.address(wim, namespace))
        write(writer, Draw(seed), all_of_them=all_of_them)
        writer.close()
        namespaces.append(namespace)
        chosen = {"embedder": "none", "project": None, **options}
        memories.append(Memory.open(team.address(rita, namespace), **chosen))
    # The docs say that these two numbers of a memory are known to all members.
    counted = team.as_administrator(
        "SELECT passages, tokens FROM plait.namespaces WHERE ns = %s", [number_of(namespaces[0])]
    )
    team.as_administrator(
        "UPDATE plait.namespaces SET passages = %s, tokens = %s WHERE ns = %s",
        [*counted[0], number_of(namespaces[1])],
    )
    # As the server does by itself a minute later: without it, NOT takes seconds to be answered.
    team.as_administrator("ANALYZE")
    return memories


def in_time(ask: Callable[[], Reply]) -> Reply:
    """An answer that no busy machine has cut short."""
    for _ in range(TRIES):
        reply = ask()
        assert reply.receipt is not None
        if all(notice.code != "deadline_exceeded" for notice in reply.receipt.degraded):
            break
    return reply


def told(memory: Memory, question: str, **options: Any) -> str:
    """All that an answer says, but for how long it took, and numbers and names of passages."""
    answer = in_time(lambda: memory.search(question, **options))
    assert answer.receipt is not None
    hits = [hit._replace(passage=hit.passage._replace(ref=0, id="")) for hit in answer]
    return repr((hits, answer.receipt._replace(milliseconds=0.0)))


def recalled(memory: Memory, question: str) -> str:
    """All that a recall says, with that same exception."""
    shown = in_time(lambda: memory.recall(question))
    items = [(item.hit.document, *item[1:4], item.whole, *item[6:]) for item in shown.items]
    pieces = [line for line in shown.text.split("\n") if not line.startswith(("[", "<<"))]
    receipt = shown.receipt._replace(milliseconds=0.0)
    return repr((items, pieces, shown.tokens, shown.left_out, receipt))


@pytest.mark.parametrize("seed", range(SEED, SEED + MEMORIES))
def test_no_answer_tells_of_what_is_hidden(people: tuple[Team, str, str], seed: int) -> None:
    full, bare = pair(people, seed)
    draw = Draw(-seed)
    with full, bare:
        for _ in range(QUESTIONS):
            question = draw.question()
            options: dict[str, Any] = {
                "limit": draw.random.choice((1, 3, 10)),
                "offset": draw.random.choice((0, 0, 2)),
                "window": draw.random.choice((0, 1)),
                "diverse": draw.random.choice((False, True)),
                "where": draw.filter(),
                "explain": True,
            }
            one, other = told(full, question, **options), told(bare, question, **options)
            assert one == other, (question, options)
            assert recalled(full, question) == recalled(bare, question), question


def test_such_questions_do_tell_of_what_one_may_see(people: tuple[Team, str, str]) -> None:
    team, wim, _ = people
    full, bare = pair(people, SEED)
    draw, other = Draw(-SEED), 0
    namespace = full.path.rpartition("namespace=")[2]
    own = Memory.open(team.address(wim, namespace), embedder="none", project=None)
    with full, bare, own:
        for _ in range(QUESTIONS):
            question = draw.question()
            other += told(own, question) != told(bare, question)
    assert other > QUESTIONS // 2
