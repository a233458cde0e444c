"""What a program gets from the library if the system fails it, or if it passes nonsense."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from plait.errors import PlaitError, UsageError
from plait.graph import Graph
from plait.memory import Memory
from plait.searching.where import Where
from plait.types import Document, Filter
from plait.types.guarding import KINDS_OF_VALUES, VALUE_CHARS, guarded
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from tests.codes import has_code
from tests.interfaces import library_verbs
from tests.interfaces.command import PATIENCE_S, ROOT, environment

posix_only = pytest.mark.skipif(os.name != "posix", reason="needs POSIX limits and permissions")
# The code of the error that is expected, if the fault keeps the verb from its work.
CODES = {
    "no descriptors": {"too_many_files"},
    "no descriptors, nothing loaded": {"too_many_files"},
    "file removed": {"file_vanished", "no_memory"},
    "no permission": {"file_unreachable", "store_failed", "restore_failed", "unreadable_source"},
    "full disk": {"store_full", "disk_failed"},
}


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def test_the_table_holds_every_public_method():
    assert set(library_verbs.MEMORY_VERBS) == public(Memory)
    assert set(library_verbs.GRAPH_VERBS) == public(Graph)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, str]]:
    """What every verb answers in every fault."""
    with TemporaryDirectory(prefix="plait-tests-") as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)  # a process of nobody looks into it
        library_verbs.prepare(folder / "prepared")
        done = subprocess.run(
            [sys.executable, "-m", "tests.interfaces.library_verbs", str(folder)],
            capture_output=True,
            encoding="utf-8",
            env=environment(),
            cwd=ROOT,
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.stderr == ""
    by_fault: dict[str, dict[str, str]] = json.loads(done.stdout)
    assert by_fault.keys() == library_verbs.FAULTS.keys()
    return by_fault


@posix_only
@pytest.mark.parametrize("fault", library_verbs.FAULTS)
def test_a_failing_system_is_told_by_an_error_of_ours_and_passes(outcomes, fault):
    failed = {verb: result for verb, result in outcomes[fault].items() if result != "done"}
    verbs = {verb: failed[verb] for verb in library_verbs.VERBS if verb in failed}
    commands = {verb: failed[verb] for verb in library_verbs.COMMANDS if verb in failed}
    assert verbs
    assert commands or fault == "file removed"  # a command finds no memory then, or makes one
    for result in verbs.values():
        assert "\n" not in result and result.split(":")[0] in CODES[fault], verbs
    for told in commands.values():
        assert told.startswith("plait: ") and told.count("\n") == 1, commands


# -- wrong types -------------------------------------------------------------------------------

WRONG: tuple[Any, ...] = (
    3,
    2.5,
    True,
    None,
    b"bytes",
    "a",
    object(),
    [1],
    ["x", None],
    {"x": 1},
    {1: "x"},
    ("a", "b", "c"),
    datetime(2026, 1, 1, tzinfo=UTC),
    Document(text=3),  # type: ignore[arg-type]
    [Document(tags="x")],  # type: ignore[arg-type]
    [NewEntity(3)],  # type: ignore[arg-type]
    [Relation("a", None, "b")],  # type: ignore[arg-type]
)
RIGHT: dict[str, Any] = {
    "text": "We deploy on Fridays",
    "query": "deploy",
    "name": "plan",
    "names": "plan",
    "id_": "abcdefghijklm",
    "target": "copy.db",
    "source": "backup.db",
}


def arguments_of(cls: type) -> list[tuple[str, str, str]]:
    """Every argument of every public method, with its annotation."""
    return [
        (verb, name, annotation)
        for verb in sorted(public(cls))
        for name, annotation in getattr(getattr(cls, verb), "__annotations__", {}).items()
        if name != "return"
    ]


def allows(annotation: str, value: object) -> bool:
    try:
        return any(KINDS_OF_VALUES[kind][0](value) for kind in annotation.split(" | "))
    except UsageError:
        return False


@pytest.mark.parametrize("cls", [Memory, Graph])
def test_every_argument_has_an_annotation_that_is_checked(cls):
    arguments = arguments_of(cls)
    assert len(arguments) > 25
    for _, _, annotation in arguments:
        assert set(annotation.split(" | ")) <= KINDS_OF_VALUES.keys()


@pytest.mark.parametrize(
    ("cls", "verb"),
    sorted({(cls, row[0]) for cls in (Memory, Graph) for row in arguments_of(cls)}, key=str),
)
def test_a_value_of_a_wrong_type_is_refused_in_one_sentence(memory, monkeypatch, cls, verb):
    method = getattr(memory if cls is Memory else memory.graph, verb)
    code = method.__wrapped__.__code__
    given = {other: RIGHT.get(other, []) for other in code.co_varnames[1 : code.co_argcount]}
    for _, name, annotation in [row for row in arguments_of(cls) if row[0] == verb]:
        for value in [value for value in WRONG if not allows(annotation, value)]:
            with pytest.raises(UsageError) as refused:
                if name == "names" and name not in given and cls is Memory:
                    method(value)
                else:
                    method(**{**given, name: value})
            is_word = isinstance(value, str) and "one of" in str(refused.value)
            assert refused.value.code == ("bad_value" if is_word else "bad_type")
            assert refused.value.subject
            sentence = str(refused.value)
            assert "\n" not in sentence
            assert len(sentence) < VALUE_CHARS + 250
    assert memory.stats().doc_count == 0


FIELDS: Where = {
    "projects": 3,
    "kinds": 3,
    "memory_types": [3],
    "types": 3,
    "tags": [3],
    "keys": {"a": "b"},
    "key_prefix": 3,
    "path_prefix": ["x"],
    "source": 3,
    "session": ["x"],
    "origins": 3,
    "trusts": [None],
    "metadata": {"x": 1},
    "since": b"2026",
    "until": ["x"],
    "as_of": [datetime(2026, 1, 1, tzinfo=UTC)],
    "all_versions": "yes",
    "parents": 3,
    "topics": [3],
    "pinned": "yes",
    "scopes": "yes",
    "named": 3,
    "mentions": [3],
    "statuses": 3,
    "hashes": [3],
    "entity": 3,
}


@pytest.mark.parametrize(("field", "value"), FIELDS.items())
def test_a_filter_of_a_wrong_type_is_refused_by_every_verb_that_takes_one(memory, field, value):
    assert FIELDS.keys() == {*Filter._fields, "entity"}
    fields = {"types": "fact", field: value}  # a filter that selects nothing deletes nothing
    wheres: list[Any] = [fields]
    if field != "entity":
        wheres.append(Filter(**fields))
    for where in wheres:
        acts = (
            lambda where=where: memory.search("x", where=where),
            lambda where=where: memory.recall("x", where=where),
            lambda where=where: memory.overview(where=where),
            lambda where=where: memory.timeline(where=where),
            lambda where=where: memory.delete(where=where),
            lambda where=where: list(memory.export(where=where)),
        )
        for act in acts:
            with pytest.raises(UsageError, check=has_code("bad_type", field)):
                act()


def test_values_out_of_an_iterator_are_checked_as_they_come(memory):
    with pytest.raises(UsageError, check=has_code("bad_type")):
        memory.store_many(iter([Document(text="One."), "Two."]))
    with pytest.raises(UsageError, check=has_code("bad_type")):
        memory.import_lines(iter(['{"format": "plait", "version": 1}', 3]))
    assert memory.stats().doc_count == 0
    memory.store_many(Document(text=f"Fact {number}.") for number in range(3))
    assert memory.stats().doc_count == 3


def test_an_object_that_cannot_be_shown_is_refused_too(memory):
    class Shy:
        def __repr__(self) -> str:
            raise ValueError("no")

    with pytest.raises(PlaitError, check=has_code("bad_type")) as refused:
        memory.search(Shy())
    assert "an object of type Shy" in str(refused.value)


@pytest.mark.parametrize("error", [BrokenPipeError("gone"), ImportError("no module")])
def test_what_is_none_of_ours_travels_as_it_is(tmp_path, error):
    @guarded
    class Door:
        def call(self) -> None:
            raise error

        def each(self) -> Iterator[str]:
            yield ""
            raise error

    for act in (Door().call, lambda: list(Door().each())):
        with pytest.raises(type(error)) as raised:
            act()
        assert raised.value is error
        assert raised.value.__cause__ is None, "an error is not its own cause"
