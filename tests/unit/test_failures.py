"""Which line of an output tells the error, and which errors are the same."""

import pytest

from plait.text.failures import failure_of, same_error, telling_line

PYTEST = """
    def test_total():
>       assert total(cart) == 3
E       KeyError: 'total'

tests/test_cart.py:3: KeyError
=========== short test summary info ===========
FAILED tests/test_cart.py::test_total - KeyError: 'total'
1 failed in 0.12s
"""


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (PYTEST, "KeyError: 'total'"),
        ("collecting 3 items\nKeyError: 'total'\n", "KeyError: 'total'"),
        (
            "running\nTypeError: x is not a function\n    at f (a.js:3:4)",
            "TypeError: x is not a function",
        ),
        (
            "x\nsqlite3.OperationalError: no such table: a",
            "sqlite3.OperationalError: no such table: a",
        ),
        ("x\nstd::RangeError: out of it", "std::RangeError: out of it"),
        ("ValueError: a\n\nDuring handling\n\nKeyError: 'b'", "KeyError: 'b'"),
        (
            "compiling\nerror[E0308]: mismatched types\n --> a.rs:3",
            "error[E0308]: mismatched types",
        ),
        ("build\na.ts(3,4): error TS2322: no", "a.ts(3,4): error TS2322: no"),
        ("Exit code 127\nbash: uvx: command not found", "bash: uvx: command not found"),
        ("just words\nmore", "just words"),
        ("", ""),
    ],
)
def test_the_line_that_tells_the_error(output, line):
    assert telling_line(output) == line


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("KeyError: 'total'", "KeyError: 'sum'", True),
        ("no such file: /a/b.py line 3", "no such file: /c/d.py line 77", True),
        ("cannot connect to 10.0.0.1:5432", "cannot connect to 10.0.0.2:5433", True),
        ("KeyError: 'total'", "ValueError: 'total'", False),
    ],
)
def test_errors_that_differ_only_in_numbers_places_and_names_are_the_same(one, other, is_same):
    assert (failure_of(one) == failure_of(other)) is is_same
    assert same_error(one, names=True) != same_error(other, names=True) or "'" not in one


def test_an_error_that_says_too_little_is_none():
    assert failure_of("exit 1") is None
