"""Texts as the server keeps them: PostgreSQL has no NUL in a text."""

from typing import Any, cast

import psycopg
from psycopg.adapt import Loader
from psycopg.types.string import StrDumper, TextLoader

# NUL is written as the first of these, which is written twice.
_ESCAPE, _NUL, _ITSELF = "\ue000", "\ue000\ue002", "\ue000\ue001"


class Escaped(str):
    """A text in which NUL is written as PostgreSQL can keep it."""

    __slots__ = ()


def escaped(text: str) -> str:
    """Return a text as it is kept."""
    if _ESCAPE in text:
        text = text.replace(_ESCAPE, _ITSELF)
    return text.replace("\0", _NUL) if "\0" in text else text


def unescaped(text: str) -> str:
    """Return a text that was kept as it was."""
    if _ESCAPE not in text:
        return text
    return text.replace(_NUL, "\0").replace(_ITSELF, _ESCAPE)


class _Dumper(StrDumper):
    def dump(self, obj: str) -> Any:
        return super().dump(obj if isinstance(obj, Escaped) else escaped(obj))


class _Loader(TextLoader):
    def load(self, data: Any) -> Any:
        text = super().load(data)
        return unescaped(text) if isinstance(text, str) else text


def adapt(connection: "psycopg.Connection[Any]") -> None:
    """Make a connection read and write texts so."""
    connection.adapters.register_dumper(str, _Dumper)
    connection.adapters.register_dumper(Escaped, _Dumper)
    for name in ("text", "varchar"):
        connection.adapters.register_loader(name, cast("type[Loader]", _Loader))
