"""The doors of the library: check what callers pass to public methods, and word system errors.

A method's annotations say what it takes. Here they are compared with the values of each call, so
that a wrong one is refused in one sentence before anything is read or written.
"""

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, cast

from plait.errors import (
    PlaitError,
    SourceError,
    StoreFull,
    UsageError,
    lacks_descriptors,
    too_many_files,
)
from plait.types import KINDS, MEMORY_TYPES, ORIGINS, STATUSES, TRUSTS

# Characters of a wrong value that an error repeats.
VALUE_CHARS = 60
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_GENERATOR = 0x20  # inspect.CO_GENERATOR; importing inspect costs a search 7 ms
_VARIADIC = 0x04  # inspect.CO_VARARGS

_Class = TypeVar("_Class", bound=type)
_Method = Callable[..., Any]
_Verb = TypeVar("_Verb", bound=Callable[..., Any])
_RECORDED = "recorded_as"
# Return whether a value is of a type.
Test = Callable[[Any], bool]


def guarded(cls: _Class) -> _Class:
    """Guard the public methods of a class, its named constructors and its properties."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_"):
            continue
        if isinstance(member, FunctionType):
            setattr(cls, name, _guarded(member))
        elif isinstance(member, classmethod):
            setattr(cls, name, classmethod(_guarded(member.__func__)))
        elif isinstance(member, property) and member.fget is not None:
            setattr(cls, name, property(_guarded(member.fget), doc=member.__doc__))
    return cls


def recorded(verb: str) -> Callable[[_Verb], _Verb]:
    """Mark a method of a guarded class: the audit log has what it writes under this verb."""

    def mark(method: _Verb) -> _Verb:
        setattr(method, _RECORDED, verb)
        return method

    return mark


def _guarded(verb: _Method) -> _Method:
    code = cast("FunctionType", verb).__code__
    names = code.co_varnames[: code.co_argcount]
    more = code.co_argcount + code.co_kwonlyargcount
    rest = code.co_varnames[more] if code.co_flags & _VARIADIC else ""
    annotations: Mapping[str, str] = verb.__annotations__

    def checked(values: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
        for name, value in options.items():
            if name in annotations:
                options[name] = check_type(name, value, annotations[name])
        places = [*names, *[rest] * (len(values) - len(names))]
        return tuple(
            check_type(name, value, annotations[name]) if name in annotations else value
            for name, value in zip(places, values, strict=False)
        )

    if code.co_flags & _GENERATOR:

        @wraps(verb)
        def generate(*values: Any, **options: Any) -> Iterator[Any]:
            values = checked(values, options)
            return _iterate(verb(*values, **options))

        return generate

    name_in_log = getattr(verb, _RECORDED, None)

    @wraps(verb)
    def call(*values: Any, **options: Any) -> Any:
        values = checked(values, options)
        try:
            if name_in_log is not None:
                from plait.types.audit import acting

                with acting(name_in_log, door="import" if name_in_log == "import" else None):
                    return verb(*values, **options)
            return verb(*values, **options)
        except (OSError, ImportError) as error:
            ours = _ours(error)
            if ours is None:
                raise
            raise ours from error

    return call


def _iterate(results: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from results
    except (OSError, ImportError) as error:
        ours = _ours(error)
        if ours is None:
            raise
        raise ours from error


def _ours(error: OSError | ImportError) -> PlaitError | None:
    """Return a failure of the system as one of plait's errors; ``None`` if it is none of ours."""
    name = getattr(error, "filename", None)
    name = name if isinstance(name, str) else "A file"
    if lacks_descriptors(error):
        return too_many_files(name)
    # A pipe is the caller's own output, in a function that reports progress.
    if isinstance(error, ImportError | BrokenPipeError):
        return None
    reason = error.strerror or str(error)
    if error.errno in _NO_SPACE:
        return StoreFull(
            f"No space is left for {name} ({reason}). Free some space and retry.", subject=name
        )
    return SourceError(
        f"{name} cannot be read or written: {reason}. Check that it exists and that you may use "
        "it.",
        subject=name,
    )


# Slightly above 1: shares that add up to 1 on paper may be larger in binary.
MOST_WEIGHT = 1.0 + 1e-9


def weights_problem(keyword: float, vector: float) -> str:
    """Return why two weights cannot be used together; empty if they can.

    >>> weights_problem(0.5, 0.7)
    'keyword_weight 0.5 and vector_weight 0.7 add up to 1.2; at most 1 is allowed.'
    """
    if keyword + vector > MOST_WEIGHT:
        return (
            f"keyword_weight {keyword:g} and vector_weight {vector:g} add up to "
            f"{keyword + vector:g}; at most 1 is allowed."
        )
    if keyword == vector == 0.0:
        return "keyword_weight and vector_weight are both 0, which leaves nothing to search with."
    return ""


# -- types ---------------------------------------------------------------------------------


def check_type(name: str, value: Any, annotation: str) -> Any:
    """Return an argument if it is of its type; values of an iterator are checked as they come.

    >>> check_type("limit", 5, "int | None")
    5
    >>> check_type("limit", "a", "int | None")
    Traceback (most recent call last):
    ...
    plait.errors.UsageError: limit is 'a'; it must be a whole number or None.

    Raises:
        UsageError: It is of another type.
    """
    if "os.PathLike[str]" in annotation and isinstance(value, str) and "\0" in value:
        raise UsageError(f"{name} has a null character.", code="bad_path", subject=name)
    for kind in annotation.split(" | "):
        test, _ = KINDS_OF_VALUES[kind]
        if not test(value):
            continue
        if kind in _ITERABLES and not isinstance(value, Sequence | Mapping | set | frozenset):
            inner = kind[kind.index("[") + 1 : -1]
            return (check_type(f"A value of {name}", part, inner) for part in value)
        return value
    raise _wrong(name, value, annotation)


def _wrong(name: str, value: object, annotation: str) -> UsageError:
    wanted = [KINDS_OF_VALUES[kind][1] for kind in annotation.split(" | ")]
    phrase = " or ".join([", ".join(wanted[:-1]), wanted[-1]] if wanted[1:] else wanted)
    is_choice = isinstance(value, str) and any(words.startswith("one of ") for words in wanted)
    code = "bad_value" if is_choice else "bad_type"
    return UsageError(f"{name} is {_shown(value)}; it must be {phrase}.", code=code, subject=name)


def _shown(value: object) -> str:
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 - the caller's own class may raise anything
        text = f"an object of type {type(value).__name__}"
    return text if len(text) <= VALUE_CHARS else f"{text[: VALUE_CHARS - 1]}…"


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_stored_number(value: Any) -> bool:
    return _is_whole(value) and -(2**63) <= value < 2**63


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_listing(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _all(test: Test, container: Test = _is_sequence) -> Test:
    return lambda value: container(value) and all(map(test, value))


def _many(test: Test) -> Test:
    """Return the test for several values, which an iterator gives one by one."""
    return lambda value: (
        _is_listing(value) and (isinstance(value, Iterator) or all(map(test, value)))
    )


def _is_mapping(value: Any) -> bool:
    texts = isinstance(value, Mapping) and all(map(_is_text, value))
    return texts and all(map(_is_text, value.values()))


def _is_record(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, value))


def _pair(first: Test, second: Test) -> Test:
    return lambda value: (
        _is_sequence(value) and len(value) == 2 and first(value[0]) and second(value[1])
    )


def _named(kind: str) -> Test:
    """Return the test for one of plait's classes, which need not be loaded for it."""
    return lambda value: any(base.__name__ == kind for base in type(value).__mro__)


def _of_fields(kind: str, default: str, /, **fields: str) -> Test:
    """Return the test for a named tuple, all of whose fields must be of their types."""
    is_kind = _named(kind)

    def fits(value: Any) -> bool:
        if not is_kind(value):
            return False
        usual = value._field_defaults
        for name, part in zip(value._fields, value, strict=True):
            if name in usual and part is usual[name]:  # most fields of most documents
                continue
            annotation = fields.get(name, default)
            if not any(KINDS_OF_VALUES[option][0](part) for option in annotation.split(" | ")):
                raise _wrong(f"{kind}.{name}", part, annotation)
        return True

    return fits


def _one_of(choices: Sequence[str]) -> tuple[Test, str]:
    return (lambda value: value in choices if _is_text(value) else False), (
        f"one of {', '.join(choices)}"
    )


_MOMENTS = dict.fromkeys(("created_at", "valid_from", "valid_to"), "Number | None")
_is_document = _of_fields(
    "Document",
    "str | None",
    **dict.fromkeys(("created_at", "updated_at", "indexed_at", "chunk_count"), "Number | None"),
    **dict.fromkeys(("event_at", "valid_from", "valid_to"), "Moment | None"),
    **dict.fromkeys(("size", "mtime"), "Number | None"),
    turn="int | None",
    text="str",
    title="str",
    kind="Kind",
    origin="Origin",
    trust="Trust",
    memory_type="MemoryType | None",
    status="DocumentStatus | None",
    tags="Sequence[str]",
    metadata="Mapping[str, str]",
    importance="float | None",
    pinned="bool",
)
_is_new_entity = _of_fields("NewEntity", "str | None", name="str", observations="Sequence[str]")
_is_relation = _of_fields("Relation", "str", context="str | None", **_MOMENTS)

# What an annotation of a public method allows, and its name in an error.
KINDS_OF_VALUES: dict[str, tuple[Test, str]] = {
    "None": (lambda value: value is None, "None"),
    "str": (_is_text, "text"),
    "int": (_is_whole, "a whole number"),
    "Ref": (_is_stored_number, "the number of a passage"),
    "Number": (_is_stored_number, "a whole number of at most 63 bits"),
    "float": (_is_number, "a number"),
    "bool": (lambda value: isinstance(value, bool), "True or False"),
    "Moment": (
        lambda value: _is_text(value) or _is_number(value) or _named("date")(value),
        "a time (2026-03-01, 7d, a datetime, seconds or milliseconds)",
    ),
    "Kind": _one_of(KINDS),
    "MemoryType": _one_of(MEMORY_TYPES),
    "Origin": _one_of(ORIGINS),
    "Trust": _one_of(TRUSTS),
    "DocumentStatus": _one_of(STATUSES),
    # Their values are checked where other names are known.
    **dict.fromkeys(("Direction", "ModeName", "FusionName"), (_is_text, "text")),
    "os.PathLike[str]": (lambda value: hasattr(value, "__fspath__"), "a path"),
    "Progress": (callable, "a function"),
    "OnFile": (callable, "a function"),
    "Config": (_named("Config"), "a Config"),
    "Embedder": (lambda value: not isinstance(value, str | None), "an Embedder"),
    "Filter": (_named("Filter"), "a Filter"),
    "Where": (_all(_is_text, lambda value: isinstance(value, Mapping)), "filters by name"),
    "Document": (_is_document, "a Document"),
    "NewEntity": (_is_new_entity, "a NewEntity"),
    "Relation": (_is_relation, "a Relation"),
    "MarkedDocuments": (_named("MarkedDocuments"), "what mark returned"),
    "AuditQuery": (_named("AuditQuery"), "an AuditQuery"),
    "tuple[int, str]": (_pair(_is_stored_number, _is_text), "a pair of a time and an id"),
    "tuple[str, Sequence[str]]": (
        _pair(_is_text, _all(_is_text)),
        "a pair of a name and a list of texts",
    ),
    "tuple[Trust, ...]": (_all(_one_of(TRUSTS)[0]), f"several of {', '.join(TRUSTS)}"),
    "Sequence[str]": (_all(_is_text), "a list of texts"),
    "set[str]": (_all(_is_text, lambda value: isinstance(value, set | frozenset)), "a set"),
    "Sequence[Project]": (
        _all(lambda value: isinstance(value, str | None)),
        "a list of texts, with None for personal documents",
    ),
    "Sequence[tuple[str, str]]": (_all(_pair(_is_text, _is_text)), "a list of pairs of texts"),
    "Sequence[int]": (_all(_is_stored_number), "a list of whole numbers"),
    "list[str]": (lambda value: isinstance(value, list), "a list"),
    "Sequence[Ref]": (_all(_is_stored_number), "a list of numbers of passages"),
    "Iterable[str]": (_many(_is_text), "a list of texts"),
    "Mapping[str, str]": (_is_mapping, "a mapping of texts to texts"),
    "Mapping[str, float]": (
        lambda value: _is_record(value) and all(map(_is_number, value.values())),
        "a mapping of texts to numbers",
    ),
    "Mapping[str, Any]": (_is_record, "a mapping"),
    "Iterable[Mapping[str, Any]]": (_many(_is_record), "a list of mappings"),
    "Iterable[Document]": (_many(_is_document), "a list of Documents"),
    "Iterable[NewEntity]": (_many(_is_new_entity), "a list of NewEntity"),
    "Iterable[Relation]": (_many(_is_relation), "a list of Relations"),
    "Iterable[tuple[str, Sequence[str]]]": (
        _many(_pair(_is_text, _all(_is_text))),
        "a list of pairs of a name and a list of texts",
    ),
}
_ITERABLES = frozenset(kind for kind in KINDS_OF_VALUES if kind.startswith("Iterable["))
