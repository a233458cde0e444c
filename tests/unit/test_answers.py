"""Lines of plait's own answers: the quick look at how a line begins misses none of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.facts import answers


@pytest.mark.parametrize("pattern", answers._TRAILERS, ids=lambda pattern: pattern[:30])
def test_a_line_is_recognised_by_its_beginning_first(pattern: str) -> None:
    @settings(max_examples=10, deadline=None)
    @given(st.from_regex(pattern, fullmatch=True))
    def begins(line: str) -> None:
        assert line[0].isdecimal() or line.startswith(answers._TRAILER_STARTS)

    begins()


def test_other_lines_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        pytest.fail("compiled")

    monkeypatch.setattr(answers, "_trailers", refuse)
    monkeypatch.setattr(answers, "_secret_mark", refuse)
    text = "We deploy on Fridays.\nThe staging server is called heron-2."
    assert answers.without_answers(text, lambda _: None) == (text, False)


def test_a_caveat_about_secrets_is_a_part_of_the_head() -> None:
    about = answers.About(frozenset({"notes.md"}), text="nothing of it")
    line = "0.98  abcdefgh  notes.md  secret: password"
    assert answers.without_answers(line, lambda _: about) == ("", True)
