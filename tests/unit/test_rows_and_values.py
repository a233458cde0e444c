"""Rows and values: ids, hashes, and a text put together from its passages."""

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plait.stores.sqlite.documents import (
    FIELDS,
    document_from,
    document_from_record,
    document_row,
    passage_hash,
    stitched,
)
from plait.text.front_matter import front_matter
from plait.types.ids import ID_LENGTH, new_id
from plait.writing.chunking import chunk
from tests.builders import document

TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]))


def test_ids_are_13_letters_that_never_need_escaping_and_do_not_repeat() -> None:
    ids = [new_id() for _ in range(2_000)]
    assert len(set(ids)) == len(ids)
    assert {len(id_) for id_ in ids} == {ID_LENGTH}
    assert set("".join(ids)) == set(string.ascii_lowercase + "234567")


@given(TEXTS, st.integers(50, 200))
@example("# H\n\ntext\n\n## H2\nmore\n", 50)
def test_a_text_is_stitched_together_exactly_as_it_was(text: str, size: int) -> None:
    body = text * 4
    passages = chunk(body, size=size, overlap=size // 3)
    if passages:
        assert stitched("front", [(p.start, p.text) for p in passages]) == "front" + body


@given(st.text("ab \n#", max_size=400))
def test_overlaps_are_laid_over_each_other(text: str) -> None:
    pieces = [(start, text[start : start + 60]) for start in range(0, len(text), 40)]
    assert stitched("", pieces) == text


def test_a_piece_inside_another_adds_nothing() -> None:
    assert stitched("", [(0, "abcdef"), (1, "bc"), (4, "efgh")]) == "abcdefgh"


def test_a_document_survives_its_row_and_its_record() -> None:
    full = document(
        "k", id=new_id(), tags=("a", "b"), metadata={"x": "y"}, project="p", pinned=True
    )
    assert document_from(document_row(full)) == full
    assert document_from_record({**full._asdict(), "tags": list(full.tags)}) == full
    bare = document(None, id=new_id())
    assert document_from(document_row(bare)) == bare
    assert len(document_row(bare)) == len(FIELDS)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("a", "b"), ("ab", "")),
        (("", "ab"), ("a", "b")),
        (("H", "t"), ("h", "t")),
        (("", "é"), ("", "e")),
    ],
)
def test_passages_that_differ_have_different_hashes(
    first: tuple[str, str], second: tuple[str, str]
) -> None:
    assert passage_hash(*first) != passage_hash(*second)


def test_front_matter_is_what_passages_do_not_cover() -> None:
    text = "---\ntitle: T\n---\n# H\nbody\n"
    _, front = front_matter(text)
    [passage] = chunk(text[front:])
    assert stitched(text[:front], [(passage.start, passage.text)]) == text
