"""The reference memory server's file, as it and related servers write it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.errors import UsageError
from plait.exporting import reference
from plait.exporting.jsonl import header_line
from plait.types.relations import Relation
from plait.types.reports import NewEntity

ENTITY = '{"type":"entity","name":"Ana","entityType":"person","observations":["Likes tea"]}'
RELATION = '{"type":"relation","from":"Ana","to":"Bo","relationType":"knows"}'
ANA = NewEntity("Ana", "person", ("Likes tea",))
BO = NewEntity("Bo")
KNOWS = Relation("Ana", "Bo", "knows")

names = st.text(min_size=1).filter(str.strip)


@given(
    st.lists(
        st.builds(NewEntity, names, names, st.lists(names, unique=True).map(tuple)),
        unique_by=lambda entity: entity.name,
    ),
    st.data(),
)
def test_what_is_written_is_what_is_read(entities: list[NewEntity], data: st.DataObject) -> None:
    ends = st.sampled_from([entity.name for entity in entities]) if entities else st.nothing()
    edges = data.draw(st.lists(st.tuples(ends, ends, names), unique=True))
    relations = tuple(Relation(*edge) for edge in edges)
    lines = list(reference.graph_file_lines(entities, relations))
    assert reference.read_graph_file(lines) == (tuple(entities), relations, ())
    assert not lines or reference.recognise(lines)[0]


VARIANTS = {
    "as the server writes it": [ENTITY, RELATION],
    "with blank lines": ["", ENTITY, "  ", RELATION, ""],
    "with a byte order mark": ["\ufeff" + ENTITY, RELATION],
    "with line ends of Windows": [ENTITY + "\r\n", RELATION + "\r\n"],
    "without types": [
        '{"name":"Ana","entityType":"person","observations":["Likes tea"]}',
        '{"from":"Ana","to":"Bo","relationType":"knows"}',
    ],
    "in other spellings": [
        '{"type":"entity","entityName":"Ana","entity_type":"person","observations":"Likes tea"}',
        '{"type":"relation","from_id":"Ana","to_id":"Bo","relation_type":"knows"}',
    ],
    "with every line twice": [ENTITY, ENTITY, RELATION, RELATION],
    "in two parts": [
        '{"type":"entity","name":"Ana","entityType":"person"}',
        '{"type":"entity","name":"Ana","observations":[{"content":"Likes tea"}]}',
        RELATION,
    ],
    "relations first": [RELATION, ENTITY],
    "as one object": [f'{{"entities":[{ENTITY}],"relations":[{RELATION}]}}'],
    "as one object over many lines": json.dumps(
        {"entities": [json.loads(ENTITY)], "relations": [json.loads(RELATION)]}, indent=2
    ).splitlines(keepends=True),
    "as a list": ["[", ENTITY, ",", RELATION, "]"],
}


@pytest.mark.parametrize("lines", VARIANTS.values(), ids=VARIANTS)
def test_known_variants_mean_the_same(lines: list[str]) -> None:
    known, again = reference.recognise(iter(lines))
    assert known
    graph = reference.read_graph_file(again)
    assert {entity.name: entity for entity in graph.entities} == {"Ana": ANA, "Bo": BO}
    assert graph.relations == (KNOWS,)
    assert graph.unknown == ()


def test_fields_without_a_place_are_named() -> None:
    graph = reference.read_graph_file(
        ['{"type":"entity","name":"Ana","mood":"fine"}', RELATION[:-1] + ',"weight":2}']
    )
    assert graph.unknown == ("mood", "weight")


BROKEN = {
    "no JSON": "{nonsense",
    "no object": '"text"',
    "no name": '{"type":"entity","entityType":"person"}',
    "an empty name": '{"type":"entity","name":" "}',
    "a name that is no text": '{"type":"entity","name":7}',
    "a type that is no text": '{"type":"entity","name":"Bo","entityType":["x"]}',
    "observations that are none": '{"type":"entity","name":"Bo","observations":7}',
    "an observation that is no text": '{"type":"entity","name":"Bo","observations":[7]}',
    "a relation without an end": '{"type":"relation","from":"Ana","relationType":"x"}',
    "a relation without a type": '{"type":"relation","from":"Ana","to":"Bo"}',
    "half a character": '{"type":"entity","name":"\\ud800"}',
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN)
def test_a_line_that_makes_no_sense_is_named(line: str) -> None:
    with pytest.raises(UsageError) as caught:
        reference.read_graph_file([ENTITY, line])
    assert caught.value.notice[1:3] == ("bad_graph_file", "Line 2")


@pytest.mark.parametrize(
    "line",
    [
        header_line(),
        '{"text": "a note", "kind": "note", "type": "entity"}',
        '{"text": "a note", "id": "x"}',
        "",
        "nonsense",
        "[]",
        "7",
    ],
)
def test_other_files_are_not_taken_for_one(line: str) -> None:
    known, lines = reference.recognise([line, "second"])
    assert not known
    assert list(lines) == [line, "second"]
