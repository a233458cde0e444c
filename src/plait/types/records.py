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

        def __new__(cls, /, *values: Any, **named: Any) -> Self:
            """Make one from values in order, by name, or by default."""
            # subtle: typing writes a function for each class, which takes most of its time.
            open_fields = cls._fields[len(values) :]
            if open_fields:
                defaults = cls._field_defaults
                try:
                    rest = [named.pop(x) if x in named else defaults[x] for x in open_fields]
                except KeyError as error:
                    raise TypeError(f"{cls.__name__}() needs the field {error}") from None
                values += (*rest,)
            if named or len(values) > len(cls._fields):
                listed = ", ".join(named) or f"{len(values)} values"
                raise TypeError(f"{cls.__name__}() has no place for {listed}")
            return tuple.__new__(cls, values)

        @classmethod
        def _make(cls, values: Iterable[Any]) -> Self:
            """Make one from all of its values, in order."""
            made = tuple.__new__(cls, values)
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
            return tuple.__new__(type(self), values)

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
