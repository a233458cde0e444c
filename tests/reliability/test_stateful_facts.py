"""Entities, facts over time and relations behave like a small model, in whatever order."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from plait.errors import NotFound
from plait.facts.profiles import compose
from plait.types import Filter
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from tests.reliability import memories
from tests.reliability.scale import SCALE

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

MEMORY_DISK = "/dev/shm" if Path("/dev/shm").is_dir() else None
NAMES = ("Ana", "Bo", "Cy")
TEXTS = ("likes tea", "likes coffee", "has a cat", "lives in Lima", "lives in Rome")
TOPICS = (None, None, "home", "drink")
KINDS = ("knows", "hires")
SIZES = settings(
    max_examples=SCALE.machines,
    stateful_step_count=SCALE.steps,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=False,
)
Edge = tuple[str, str, str]


class Fact:
    """One observation of the model."""

    def __init__(self, id_: str, entity: str, text: str, topic: str | None) -> None:
        self.id, self.entity, self.text, self.topic = id_, entity, text, topic
        self.closed = False


class Thing:
    """One entity of the model, under the id that tells it from a later one of the same name."""

    def __init__(self, id_: str, name: str) -> None:
        self.id, self.name = id_, name


class FactsMachine(RuleBasedStateMachine):
    """The memory beside its model. Ids of things, not names, tell whose a fact or an edge is."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY_DISK)
        self.now = 1_700_000_000_000
        self.files = 0
        self.things: dict[str, Thing] = {}
        self.facts: list[Fact] = []
        self.edges: dict[Edge, None] = {}
        self.lost_edges: list[Edge] = []
        self.trash: list[list[Thing | Fact]] = []
        # What could not be undone, and lies in the trash for its id only.
        self.set_aside: list[Thing | Fact] = []
        self._open()

    def _open(self, path: Path | None = None) -> None:
        self.files += path is None
        self.path = path or Path(self.folder.name) / f"{self.files}.db"
        self.memory = memories.open_specially(
            self.path, 16, durability="normal", clock=lambda: self.now
        )

    def teardown(self) -> None:
        if hasattr(self, "memory"):
            self.memory.close()
            self.folder.cleanup()

    def _known(self, name: str) -> Thing | None:
        return next((thing for thing in self.things.values() if thing.name == name), None)

    def _current(self, thing: Thing) -> list[Fact]:
        return [fact for fact in self.facts if fact.entity == thing.id and not fact.closed]

    # -- putting in ------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES))
    def make(self, name: str) -> None:
        [made] = self.memory.graph.create([NewEntity(name)])
        self.things.setdefault(made.id, Thing(made.id, name))
        assert self._known(name) is self.things[made.id]

    @rule(name=st.sampled_from(NAMES), text=st.sampled_from(TEXTS), topic=st.sampled_from(TOPICS))
    def say(self, name: str, text: str, topic: str | None) -> None:
        stored = self.memory.store(text, entity=name, topic=topic)
        assert stored.entity is not None
        thing = self.things.setdefault(stored.entity, Thing(stored.entity, name))
        assert self._known(name) is thing
        current = self._current(thing)
        # Several of one text stand under different topics; any of them may be what was matched.
        twins = [fact for fact in current if fact.text == text]
        if stored.duplicate:
            [matched] = [fact for fact in twins if fact.id == stored.matched]
            assert topic in (None, matched.topic)
            return
        assert all(fact.topic not in (None, topic) or topic is not None for fact in twins)
        closed = {fact.id for fact in current if topic is not None and fact.topic == topic}
        closed_twins = {fact.id for fact in twins if fact.topic is None} - closed
        assert closed <= set(stored.superseded) <= closed | closed_twins
        for fact in current:
            fact.closed |= fact.id in stored.superseded
        self.facts.append(Fact(stored.id, thing.id, text, topic))

    @rule(edge=st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(KINDS)))
    def relate(self, edge: Edge) -> None:
        ends = [self._known(name) for name in edge[:2]]
        if None in ends:
            with pytest.raises(NotFound):
                self.memory.graph.relate([Relation(*edge)])
            return
        key = (ends[0].id, ends[1].id, edge[2])  # type: ignore[union-attr]
        assert bool(self.memory.graph.relate([Relation(*edge)])) == (key not in self.edges)
        self.edges[key] = None

    # -- taking out ------------------------------------------------------------------------

    @precondition(lambda self: self.edges)
    @rule(data=st.data())
    def unrelate(self, data: st.DataObject) -> None:
        # By name: ids differ from run to run, and the choice must not.
        named = {
            (self.things[one].name, self.things[other].name, kind): (one, other, kind)
            for one, other, kind in self.edges
        }
        source, target, kind = data.draw(st.sampled_from(sorted(named)))
        key = named[source, target, kind]
        assert self.memory.graph.unrelate([Relation(source, target, key[2])]) == 1
        del self.edges[key]

    @rule(name=st.sampled_from(NAMES), purge=st.booleans())
    def delete_an_entity(self, name: str, purge: bool) -> None:
        erased = self.memory.graph.delete([name], purge=purge)
        thing = self._known(name)
        trashed = self._forget_trashed(name) if purge else False
        assert erased.missing == (() if thing is not None or trashed else (name,))
        if thing is None:
            return
        gone = [fact for fact in self.facts if fact.entity == thing.id]
        self.facts = [fact for fact in self.facts if fact.entity != thing.id]
        del self.things[thing.id]
        cut = [edge for edge in self.edges if thing.id in edge]
        self.edges = {edge: None for edge in self.edges if edge not in cut}
        if purge:
            self._drop_from_trash({thing.id})
            return
        assert len(erased.documents.ids) == 1 + len(gone)
        self.trash.append([thing, *gone])
        self.lost_edges += cut

    def _forget_trashed(self, name: str) -> bool:
        """Drop what had this name before from the trash; whether anything had."""
        rows = [one for batch in (*self.trash, self.set_aside) for one in batch]
        ids = {one.id for one in rows if isinstance(one, Thing) and one.name == name}
        self._drop_from_trash(ids)
        return bool(ids)

    def _drop_from_trash(self, things: set[str]) -> None:
        def kept(batch: list[Thing | Fact]) -> list[Thing | Fact]:
            owners = [(one.id if isinstance(one, Thing) else one.entity, one) for one in batch]
            return [one for owner, one in owners if owner not in things]

        self.trash = [batch for batch in map(kept, self.trash) if batch]
        self.set_aside = kept(self.set_aside)
        self.lost_edges = [edge for edge in self.lost_edges if not things & set(edge[:2])]

    @precondition(lambda self: self.facts)
    @rule(data=st.data())
    def delete_a_fact(self, data: st.DataObject) -> None:
        # By what they say: ids differ from run to run, and the choice must not.
        named = sorted(
            range(len(self.facts)),
            key=lambda place: (
                self.things[self.facts[place].entity].name,
                self.facts[place].text,
                self.facts[place].topic or "",
                place,
            ),
        )
        fact = self.facts[data.draw(st.sampled_from(named))]
        assert self.memory.delete(fact.id).ids == (fact.id,)
        self.facts.remove(fact)
        self.trash.append([fact])

    @rule()
    def undo(self) -> None:
        if not self.trash:
            with pytest.raises(NotFound):
                self.memory.undo()
            return
        back = 0
        for one in self.trash.pop():
            if isinstance(one, Thing) and self._known(one.name) is None:
                self.things[one.id] = one
                back += 1
            elif isinstance(one, Fact) and one.entity in self.things and not self._is_taken(one):
                self.facts.append(one)
                back += 1
            else:
                self.set_aside.append(one)
        if back:
            assert len(self.memory.undo()) == back
        else:
            with pytest.raises(NotFound):
                self.memory.undo()
        ready = [edge for edge in self.lost_edges if set(edge[:2]) <= self.things.keys()]
        # What cannot be undone any more lies in the trash for its id, and so do its edges.
        if back:
            self.edges.update(dict.fromkeys(ready))
            self.lost_edges = [edge for edge in self.lost_edges if edge not in ready]

    def _is_taken(self, fact: Fact) -> bool:
        if fact.closed:
            return False
        others = self._current(self.things[fact.entity])
        return any(
            other.text == fact.text if fact.topic is None else other.topic == fact.topic
            for other in others
        )

    # -- looking after ---------------------------------------------------------------------

    @rule(milliseconds=st.sampled_from((-5_000, 1, 5_000)))
    def let_the_clock_jump(self, milliseconds: int) -> None:
        self.now += milliseconds

    @rule(embeddings=st.booleans())
    def reindex(self, embeddings: bool) -> None:
        self.memory.reindex(embeddings=embeddings)

    @rule()
    def reopen(self) -> None:
        self.memory.close()
        self._open(self.path)

    @rule()
    def move_by_export_and_import(self) -> None:
        lines = list(self.memory.export())
        self.memory.close()
        self._open()
        self.memory.import_lines(lines)
        self.trash, self.set_aside, self.lost_edges = [], [], []

    # -- what always holds -----------------------------------------------------------------

    @invariant()
    def the_memory_holds_what_the_model_holds(self) -> None:
        if not hasattr(self, "memory"):
            return
        graph = self.memory.graph.read()
        assert {entity.id for entity in graph.entities} == self.things.keys()
        for entity in graph.entities:
            texts = sorted(fact.text for fact in self._current(self.things[entity.id]))
            assert sorted(entity.contents) == texts
            topics = [one.topic for one in entity.observations if one.topic is not None]
            assert len(set(topics)) == len(topics)
            lines = self.memory.lookup(entity.id)[0].text.splitlines()
            assert lines[0] == compose(entity.name, entity.type, [])
            assert sorted(lines[1:]) == [f"- {text}" for text in texts]
        assert {(edge.source_id, edge.target_id, edge.type) for edge in graph.relations} == {
            *self.edges
        }
        every = self.memory.engine.scan(Filter(kinds=("observation",), all_versions=True))
        assert {row.id for row in every} == {fact.id for fact in self.facts}
        closed = {row.id for row in every if row.valid_to is not None}
        assert closed == {fact.id for fact in self.facts if fact.closed}
        troubles = [one.message for one in self.memory.doctor() if one.level != "ok"]
        assert troubles == []


def test_facts_and_entities_behave_like_their_model() -> None:
    run_state_machine_as_test(FactsMachine, settings=SIZES)
