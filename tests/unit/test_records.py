"""Our named tuples are those of the standard library to whoever uses them."""

import copy
import inspect
import pickle
import sys
import typing

import pytest

from plait.types import Document, Filter, Space
from plait.types.records import NamedTuple


class Ours(NamedTuple):
    """A place."""

    name: str
    size: int = 3
    tags: tuple[str, ...] = ()

    @property
    def doubled(self) -> int:
        return self.size * 2


class Theirs(typing.NamedTuple):
    """A place."""

    name: str
    size: int = 3
    tags: tuple[str, ...] = ()


BOTH = pytest.mark.parametrize("kind", [Ours, Theirs])


@BOTH
def test_fields_have_places_names_and_defaults(kind):
    value = kind("pond", tags=("wet",))
    assert value == ("pond", 3, ("wet",)) == (value.name, value.size, value.tags)
    assert repr(value) == f"{kind.__name__}(name='pond', size=3, tags=('wet',))"
    assert value._replace(size=5)._asdict() == {"name": "pond", "size": 5, "tags": ("wet",)}
    assert kind._make(("pond", 1, ())) == kind("pond", 1)
    assert kind._fields == kind.__match_args__ == ("name", "size", "tags")
    assert kind._field_defaults == {"size": 3, "tags": ()}
    assert kind.__doc__ == "A place."


@BOTH
def test_a_tuple_is_complete_and_cannot_be_changed(kind):
    for wrong in (
        lambda: kind(),
        lambda: kind("a", 1, (), 2),
        lambda: kind("a", colour="red"),
        lambda: kind("a", name="b"),
        lambda: kind._make(("a", 1)),
        lambda: kind._make(("a", 1, (), 2)),
    ):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ValueError, match="colour"):
        kind("a")._replace(colour="red")
    for name in ("size", "colour"):
        with pytest.raises(AttributeError):
            setattr(kind("a"), name, 1)


@BOTH
def test_other_code_sees_the_fields(kind):
    parameters = inspect.signature(kind).parameters
    assert [(each.name, each.default) for each in parameters.values()] == [
        ("name", inspect.Parameter.empty),
        ("size", 3),
        ("tags", ()),
    ]
    assert typing.get_type_hints(kind)["size"] is int
    match kind("pond", 4):
        case kind(name, size):
            assert (name, size) == ("pond", 4)
        case _:
            pytest.fail("not matched")


@BOTH
def test_a_copy_is_equal_and_of_the_same_class(kind):
    value = kind("pond", 4)
    for other in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert (other, type(other)) == (value, kind)


def test_a_copy_with_other_values_is_made_by_the_standard_library_too():
    replaced: object = Ours("pond").__replace__(size=5)  # type: ignore[attr-defined, unused-ignore]
    assert replaced == Ours("pond", 5)
    if sys.version_info >= (3, 13):
        assert copy.replace(Ours("pond"), size=5) == copy.replace(Theirs("pond"), size=5)


def test_a_class_may_have_methods_of_its_own():
    assert Ours("pond").doubled == 6
    assert str(Space("ollama", "e5", 384)) == "ollama:e5 (384 dims)"


def test_a_field_without_a_default_cannot_follow_one_that_has_one():
    with pytest.raises(TypeError):
        exec("class Wrong(NamedTuple):\n    a: int = 1\n    b: int")


@pytest.mark.parametrize("kind", [Document, Filter])
def test_public_values_are_named_tuples(kind):
    assert issubclass(kind, tuple)
    assert len(kind()) == len(kind._fields)
