"""Values of foreign records: a type or nothing, and never an error."""

import pytest

from plait.agents.histories.values import (
    decoded,
    folder,
    identifier,
    moment_of,
    number,
    records_of,
    string,
    texts_of,
)
from tests.agents import hostile

NO_TIMES: tuple[object, ...] = (
    *(True, False, 0, -1, 1e300, 10**400, float("nan"), float("inf"), None, [], {}),
    *("", "now", "7d", "nan", "2025-13-40T99:00"),
)


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (1762070400, 1762070400000),
        (1762070400.25, 1762070400250),
        (1762070400000, 1762070400000),
        (1762070400000.75, 1762070400001),
        ("1762070400", 1762070400000),
        ("2025-11-02T08:00:00Z", 1762070400000),
        ("2025-11-02T08:00:00.250+00:00", 1762070400250),
        ("2025-11-02T09:00:00+01:00", 1762070400000),
        *((value, None) for value in NO_TIMES),
    ],
)
def test_times_of_every_form(value, moment):
    assert moment_of(value) == moment


@pytest.mark.parametrize(
    ("path", "is_folder"),
    [
        ("/home/ann/shop", True),
        ("C:\\Users\\ann", True),
        ("c:/users/ann", True),
        ("\\\\server\\share", True),
        ("shop", False),
        ("../shop", False),
        ("scope:user:7", False),
        ("/a\nb", False),
        ("/" + "x" * 300, False),
        ("/x" * 3_000, False),
        ("/" + "é" * 200, False),
        (None, False),
        (7, False),
    ],
)
def test_only_paths_that_could_exist_are_folders(path, is_folder):
    assert folder({"cwd": path}, "cwd") == (path if is_folder else "")


@pytest.mark.parametrize("value", hostile.VALUES)
def test_no_value_is_an_error(value):
    record = {"x": value}
    for text in (string(record, "x"), identifier(record, "x"), folder(record, "x")):
        text.encode("utf-8")
    for text in (*texts_of(value), *texts_of(value, "text")):
        text.encode("utf-8")
    assert "\n" not in identifier(record, "x")
    assert len(identifier(record, "x")) <= 200
    assert number(record, "x") is None or abs(number(record, "x") or 0) < 1 << 53
    assert moment_of(value) is None or isinstance(moment_of(value), int)
    assert isinstance(records_of(value), list)
    decoded(value)
    assert string(value, "x") == identifier(value, "x") == folder(value, "x") == ""
