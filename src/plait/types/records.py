"""`NamedTuple`, quick to define. Nothing here knows what a tuple is for.

A search defines forty named tuples before it can begin, and `typing.NamedTuple` takes 0.08 ms for
each, because it writes a function for each. To its users, a class made here is the same.
"""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

# Python 3.14 evaluates annotations later than the class is made, by rules that `typing` knows.
if TYPE_CHECKING or sys.version_info >= (3, 14):
    from typing import NamedTuple as NamedTuple
else:
    from _collections import _tuplegetter

    _MISSING = object()  # the default of a field without one
    _new = tuple.__new__

    def _constructor(fields: tuple[str, ...], defaults: dict[str, Any]) -> Any:
        """Return what makes a tuple with these fields; `typing` writes and compiles it instead."""
        number, required = len(fields), len(fields) - len(defaults)
        usual = tuple(defaults.get(field, _MISSING) for field in fields)
        place_of = {field: place for place, field in enumerate(fields)}.get

        def __new__(cls: Any, /, *values: Any, **named: Any) -> Any:
            """Make one from values in order, by name, or by default."""
            given = len(values)
            if not named and required <= given <= number:
                return _new(cls, values if given == number else values + usual[given:])
            row: Any = values
            if given != number:
                if given > number:
                    raise TypeError(f"{cls.__name__}() has no place for {given} values")
                row += usual[given:]
            if named:
                row = [*row]
                for name, value in named.items():
                    place = place_of(name, -1)
                    if place < given:
                        raise TypeError(f"{cls.__name__}() has no place for {name}")
                    row[place] = value
            if given < required and _MISSING in row[:required]:
                raise TypeError(f"{cls.__name__}() needs the field '{fields[row.index(_MISSING)]}'")
            return _new(cls, row)

        return __new__

    class _Maker(type):
        """Makes the fields of a class out of its annotations."""

        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            fields = tuple(body.get("__annotations__", ()))
            body["__slots__"] = ()
            if fields:
                defaults = {field: body[field] for field in fields if field in body}
                if (*defaults,) != fields[len(fields) - len(defaults) :]:
                    raise TypeError(f"{name} has a field without a default after one with one")
                body |= {field: _tuplegetter(place, "") for place, field in enumerate(fields)}
                body |= {"_fields": fields, "__match_args__": fields, "_field_defaults": defaults}
                body["_places"] = {field: place for place, field in enumerate(fields)}
                body["__new__"] = _constructor(fields, defaults)
            return super().__new__(cls, name, bases, body)

        @property
        def __signature__(cls) -> Any:
            """What ``help`` and editors show as the arguments of a class."""
            from inspect import Parameter, Signature

            types = getattr(cls, "__annotations__", {})
            rows = (
                (field, cls._field_defaults.get(field, Parameter.empty)) for field in cls._fields
            )
            return Signature(
                [
                    Parameter(
                        field,
                        Parameter.POSITIONAL_OR_KEYWORD,
                        default=default,
                        annotation=types.get(field, Parameter.empty),
                    )
                    for field, default in rows
                ]
            )

    class NamedTuple(tuple, metaclass=_Maker):
        """A tuple whose fields have names, given by the annotations of a class."""

        @classmethod
        def _make(cls, values: Iterable[Any]) -> Self:
            """Make one from all of its values, in order."""
            made = _new(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **changed: Any) -> Self:
            """Return a copy with other values for some fields."""
            # As `typing` does it, a look at every field, a tuple of many takes four times as long.
            values, places = list(self), self._places
            try:
                for name, value in changed.items():
                    values[places[name]] = value
            except KeyError:
                unexpected = [name for name in changed if name not in places]
                raise ValueError(f"Got unexpected field names: {unexpected!r}") from None
            return _new(type(self), values)

        __replace__ = _replace  # for `copy.replace` of Python 3.13

        def _asdict(self) -> dict[str, Any]:
            """Return the values by the names of their fields."""
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            pairs = zip(self._fields, self, strict=True)
            values = ", ".join(f"{name}={value!r}" for name, value in pairs)
            return f"{type(self).__name__}({values})"

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)
