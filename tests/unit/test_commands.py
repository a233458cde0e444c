"""What a line for a shell runs, and when two lines run the same."""

import pytest

from plait.text.commands import is_alike, program_of


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("(cd src && make)", "make"),
        ("cd src;make", "make"),
        ("make&&ls", "make"),
        ("# first the tests\nmake all", "make"),
        ("set -e\nmake", "make"),
        ("FOO=bar ./run.sh --x", "run.sh"),
        ("bash -c 'pytest -q'", "pytest"),
        ('bash -lc "cd x && npm test"', "npm"),
        ("bash script.sh", "bash"),
        ("if true; then make; fi", "make"),
        ("for f in a b; do wc $f; done", "wc"),
        ("source .venv/bin/activate && pytest", "pytest"),
        ("python3.11 -m pytest", "pytest"),
        ("python script.py", "python"),
        (r"C:\x\python.exe -m pytest", "pytest"),
        (r".venv\Scripts\mypy.exe src", "mypy"),
        ("env -i FOO=1 make", "make"),
        ("git -C x status", "git"),
        ("#", None),
        ("()", None),
        ("", None),
    ],
)
def test_the_program_that_a_command_is_about(command, program):
    assert program_of(command) == program


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("npm run test", "npm run build", False),
        ("npm run test", "npm run test -- --bail", True),
        ("docker compose up -d", "docker compose down", False),
        ("gh pr create", "gh pr list", False),
        ("cargo build", "cargo test", False),
        ("git commit -m one", "git commit -m two", True),
        ("pytest", "pytest tests/a.py", True),
        ("bash -lc 'pytest -q'", "pytest -q", True),
        ("(cd a && make test)", "make test", True),
    ],
)
def test_a_command_that_does_another_thing_is_no_proof(one, other, alike):
    assert is_alike(one, other) is is_alike(other, one) is alike
