"""A key with an accent is one name, however the accent is written."""

import itertools
import unicodedata

import pytest

from plait.errors import NotFound
from plait.memory import Memory
from tests.builders import entry, write
from tests.mcp.talk import call

NFC = "caf\u00e9/Jos\u00e9"
NFD = unicodedata.normalize("NFD", NFC)
PAIRS = list(itertools.product((NFC, NFD), repeat=2))


@pytest.fixture
def memory(tmp_path):
    with Memory.open(tmp_path / "memory.db", project="") as opened:
        yield opened


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_the_next_note_of_that_name_replaces_it(memory, first, second):
    one = memory.store("Fridays.", key=first)
    two = memory.store("Mondays.", key=second)
    assert (two.id, two.replaced, two.doc_id) == (one.id, True, NFC)
    assert memory.stats().doc_count == 1


@pytest.mark.parametrize(("stored", "asked"), PAIRS)
def test_every_verb_finds_it_by_either_spelling(memory, stored, asked):
    memory.store("Fridays.", key=stored)
    assert memory.get(asked).text == "Fridays."
    assert memory.get(f"{asked}-0").text == "Fridays."
    assert memory.timeline(anchor=asked)
    assert call(memory, "memory_get", {"ids": [asked]}).structured_content["results"]
    assert memory.delete(asked, dry_run=True).ids
    memory.delete(asked)
    with pytest.raises(NotFound):
        memory.get(asked)
    assert len(memory.undo(asked)) == 1
    memory.delete(asked)
    assert memory.delete(asked, purge=True).purged
    with pytest.raises(NotFound):
        memory.undo(stored)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_many_notes_keep_to_it_too(memory, first, second):
    [one, _] = memory.store_many([memory_note(first), memory_note("plain")])
    [two] = memory.store_many([memory_note(second)])
    assert (two.id, two.replaced, two.doc_id) == (one.id, True, NFC)
    assert memory.stats().doc_count == 2


def test_a_note_of_an_older_version_keeps_its_spelling(memory):
    [old] = write(memory.engine, entry(NFD, "Fridays."))
    assert memory.get(NFC).text == "Fridays."
    stored = memory.store("Mondays.", key=NFC)
    assert (stored.id, stored.doc_id) == (old.id, NFD)
    assert memory.stats().doc_count == 1


def memory_note(key):
    from plait.types import Document

    return Document(key=key, kind="note", text="Fridays.")


def test_a_name_with_endless_accents_is_only_itself(memory):
    name = "a" + "\u0327\u0301" * 5_000
    memory.store("Fridays.", key=name)
    assert memory.get(name).text == "Fridays."
