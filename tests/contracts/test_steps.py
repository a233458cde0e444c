"""Steps belong to their message: they are found by name, and go and come back with it."""

import pytest

from plait.protocols import Store, Trashed
from plait.searching.steps import stored_steps
from plait.stores.confined import ConfinedStore
from plait.types.steps import Step, StepName
from tests.builders import EVERYTHING, entry, is_sound, write

EDIT = Step("Edit", path="src/cart.py")
RUN = Step("Bash", command="pytest -q", program="pytest", exit=1, error="KeyError: 'x'", failure=7)
OTHER = Step("Bash", command="make", program="make", exit=0)


def message(key, *steps, turn=1, text="done", **fields):
    fields = {"kind": "message", "session": "s", "project": "p", "event_at": turn, **fields}
    made = entry(key, text, turn=turn, sha256=text, **fields)
    return made._replace(steps=steps)


def shown(store: Store, where=EVERYTHING, limit=None, **named) -> list[Step]:
    return [row.step for row in store.steps(where, StepName(**named), limit)]


@pytest.fixture
def filled(store: Store) -> Store:
    write(store, message("a", EDIT, RUN), message("b", OTHER, EDIT, turn=2, project="q"))
    return store


def test_steps_are_found_by_what_they_name_the_newest_first(filled: Store) -> None:
    assert shown(filled) == [EDIT, OTHER, RUN, EDIT]
    assert shown(filled, limit=1) == [EDIT]
    assert shown(filled, file="cart.py") == [EDIT, EDIT]
    assert shown(filled, file="src/cart.py") == []
    assert shown(filled, program="make") == [OTHER]
    assert shown(filled, failure=7) == [RUN]
    assert shown(filled, failure=7, program="make") == []
    row = filled.steps(EVERYTHING, StepName(failure=7))[0]
    assert (row.project, row.session, row.turn, row.event_at, row.place) == ("p", "s", 1, 1, 1)
    assert stored_steps(filled, row.document) == [EDIT, RUN]


def test_steps_of_one_moment_stay_together_the_last_message_first(store: Store) -> None:
    same = {"turn": 1, "event_at": 5}
    write(store, message("a", EDIT, RUN, session="s", **same))
    write(store, message("b", OTHER, EDIT, session="t", **same))
    write(store, message("c", RUN, session="u", turn=None, event_at=5))
    assert shown(store) == [EDIT, OTHER, RUN, EDIT, RUN]
    assert shown(store, file="") == []


def test_filters_hold(filled: Store) -> None:
    here = EVERYTHING._replace(projects=("p",))
    assert shown(filled, here) == [RUN, EDIT]
    assert shown(filled, here, file="cart.py") == [EDIT]
    assert shown(filled, EVERYTHING._replace(session="other")) == []
    confined = ConfinedStore(filled, "q")
    assert shown(confined) == [EDIT, OTHER]
    assert shown(confined, here) == []
    document = filled.steps(here)[0].document
    assert stored_steps(confined, document) == []


def test_steps_of_quarantined_messages_are_asked_for_by_name(store: Store) -> None:
    write(store, message("a", EDIT, trust="quarantined"))
    assert shown(store, EVERYTHING._replace(trusts=("trusted", "untrusted"))) == []
    assert shown(store) == [EDIT]


def test_steps_stay_with_the_same_text_and_go_with_another(store: Store) -> None:
    [put] = write(store, message("a", EDIT))
    write(store, message("a", id=put.id)._replace(steps=None))
    assert shown(store) == [EDIT]
    write(store, message("a", OTHER, id=put.id))
    assert shown(store) == [OTHER]
    write(store, message("a", id=put.id, text="another")._replace(steps=None))
    assert shown(store) == []


def test_steps_go_with_their_message_and_are_in_the_trash(filled: Store) -> None:
    [row] = filled.find("a", EVERYTHING)
    with filled.transaction() as tx:
        [document] = tx.load([row[0].id])
        tx.trash([Trashed("b", 5, document, tx.passages(document.id))])
        tx.delete([document.id])
    assert shown(filled) == [EDIT, OTHER]
    assert [trashed.steps for trashed in filled.trashed()] == [(EDIT, RUN)]
    assert [trashed.steps for trashed in filled.trashed(texts=False)] == [()]
    assert is_sound(filled)


def test_a_version_has_the_steps_of_its_time(store: Store) -> None:
    [put] = write(store, message("a", EDIT))
    with store.transaction() as tx:
        [document] = tx.load([put.id])
        old = document._replace(id="bbbbbbbbbbbbb")
        tx.trash([Trashed("", 5, old, tx.passages(put.id), version_of=put.id)])
    write(store, message("a", OTHER, id=put.id, text="another"))
    assert [trashed.steps for trashed in store.trashed()] == [(EDIT,)]
