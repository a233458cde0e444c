"""What a model may write as arguments, and what it is told when it cannot be meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.errors import UsageError
from plait.tools.arguments import check_arguments
from plait.tools.profiles import PROFILES, tools_of

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "maxLength": 5},
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        "share": {"type": "number", "minimum": 0, "maximum": 1},
        "on": {"type": "boolean"},
        "mode": {"type": "string", "enum": ["a", "b"]},
        "names": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "rows": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}},
                "required": ["name"],
            },
        },
        "box": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
}
DEFAULTS = {"count": 3, "on": False}


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (None, {}),
        ({"text": None}, {}),
        ({"text": "", "mode": "", "names": "", "count": "", "box": ""}, {}),
        ({"count": "5"}, {"count": 5}),
        ({"count": 5.0}, {"count": 5}),
        ({"count": "5.0"}, {"count": 5}),
        ({"share": "0.5"}, {"share": 0.5}),
        ({"share": 1}, {"share": 1}),
        ({"on": True}, {"on": True}),
        ({"on": "TRUE"}, {"on": True}),
        ({"names": "x"}, {"names": ["x"]}),
        ({"names": '["x", "y"]'}, {"names": ["x", "y"]}),
        ({"names": "[x"}, {"names": ["[x"]}),
        ({"rows": {"name": "x"}}, {"rows": [{"name": "x"}]}),
        ({"rows": ['{"name": "x"}']}, {"rows": [{"name": "x"}]}),
        ({"box": '{"name": "x"}'}, {"box": {"name": "x"}}),
        ({"mode": "a", "text": "abcde"}, {"mode": "a", "text": "abcde"}),
    ],
)
def test_what_can_only_mean_one_thing_is_taken_as_that(given, meant):
    assert check_arguments("tool", SCHEMA, given) == {**DEFAULTS, **meant}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([], "The arguments of tool must be an object; got []."),
        ({"text": 5}, "text must be a text of at most 5 characters; got 5."),
        ({"text": "abcdef"}, "text must be a text of at most 5 characters; got 6 characters."),
        ({"count": 0}, "count must be a whole number from 1 to 9; got 0."),
        ({"count": "many"}, 'count must be a whole number from 1 to 9; got "many".'),
        ({"count": 1.5}, "count must be a whole number from 1 to 9; got 1.5."),
        ({"count": True}, "count must be a whole number from 1 to 9; got true."),
        ({"share": float("nan")}, "share must be a number from 0 to 1; got NaN."),
        ({"share": [1]}, "share must be a number from 0 to 1; got [1]."),
        ({"on": "maybe"}, 'on must be true or false; got "maybe".'),
        ({"mode": "c"}, 'mode must be one of a, b; got "c".'),
        ({"names": ["a", "b", "c"]}, "names must be a list of texts, at most 2; got 3 items."),
        ({"names": [1]}, "names[0] must be a text; got 1."),
        ({"rows": [{"name": "x"}, {}]}, "tool needs rows[1].name, a text."),
        ({"text": 5, "mode": ""}, "text must be a text of at most 5 characters; got 5."),
        ({"rows": ["x"]}, 'rows[0] must be an object; got "x".'),
        ({"rows": [{"nam": "x"}]}, "tool has no argument rows[0].nam. Did you mean name?"),
        (
            {"rows": [{"name": "x"}] * 1_001},
            "rows must be a list of objects, at most 1,000; got 1001 items.",
        ),
        ({"box": 3}, "box must be an object; got 3."),
        ({"zebra": 1}, "tool has no argument zebra. It takes: text, count"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_is_allowed(given, sentence):
    with pytest.raises(UsageError) as caught:
        check_arguments("tool", SCHEMA, given)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("given", "code", "subject"),
    [
        ({"names": [1]}, "bad_argument", "names[0]"),
        ({"rows": [{}]}, "missing_argument", "rows[0].name"),
        ({"zebra": 1}, "unknown_argument", "zebra"),
    ],
)
def test_a_refusal_names_the_argument(given, code, subject):
    with pytest.raises(UsageError) as caught:
        check_arguments("tool", SCHEMA, given)
    assert caught.value.notice[1:3] == (code, subject)


def test_an_empty_text_is_an_answer_where_one_is_required():
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    assert check_arguments("tool", schema, {"text": ""}) == {"text": ""}


def test_a_lenient_tool_leaves_out_what_it_does_not_know():
    assert check_arguments("tool", SCHEMA, {"zebra": 1}, strict=False) == DEFAULTS
    with pytest.raises(UsageError, match="takes: no arguments"):
        check_arguments("tool", {"type": "object"}, {"zebra": 1})


def test_what_is_endless_is_repeated_only_in_part():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in ("x" * 10_000, deep):
        with pytest.raises(UsageError) as caught:
            check_arguments("tool", SCHEMA, {"count": value})
        assert len(str(caught.value)) < 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
NAMES = sorted({name for tool in tools_of(PROFILES) for name in tool.input["properties"]})


@given(
    st.dictionaries(st.sampled_from(NAMES), JSON, max_size=6),
    st.sampled_from(tools_of(PROFILES)),
)
def test_any_json_is_either_what_the_schema_says_or_a_sentence(arguments, tool):
    try:
        values = check_arguments(tool.name, tool.input, arguments, strict=False)
    except UsageError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 300
    else:
        assert values.keys() <= tool.input["properties"].keys()
        assert values.keys() >= set(tool.input.get("required", ()))
