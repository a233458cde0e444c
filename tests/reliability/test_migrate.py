"""kill -9 in the middle of a move, again and again: it goes on, and nothing is lost or doubled."""

import random
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from plait.errors import StoreError
from plait.exporting.migrating import migrate
from tests.codes import has_code
from tests.moves import furnish, is_sound, new_place, open_store, rows_of
from tests.reliability import migrate_child
from tests.reliability.processes import Child, children, posix_only

pytestmark = [posix_only, pytest.mark.slow]

KILLS = 10
STEP_S = 0.01  # about how long a step takes


def is_whole(place: str) -> bool:
    """Whether a move into this place is complete; what is not refuses to be used, or is empty."""
    with closing(open_store(place)) as store:
        try:
            return store.state().passages > 0
        except StoreError as error:
            assert has_code("half_moved")(error)
            return False


@pytest.mark.parametrize("kinds", [("file", "database"), ("database", "file")])
def test_a_move_that_is_killed_again_and_again_ends_with_the_same_memory(tmp_path, kinds):
    source, target = (new_place(tmp_path, kind) for kind in kinds)
    furnish(source, notes=24)
    before = rows_of(source)
    steps: list[None] = []
    migrate_child.move_in_steps(source, new_place(tmp_path, kinds[1]), lambda: steps.append(None))
    dice = random.Random(2026)
    deaths = 0
    while deaths < KILLS:
        with children(Child(migrate_child.live, source, target)) as (child,):
            child.expect("ready")
            child.listen_until("step", dice.randrange(len(steps)))
            child.listen(dice.uniform(0, STEP_S))
            child.kill()
        assert child.errors() == []
        deaths += ("done",) not in child.messages
        if is_whole(target):  # it was faster, or killed before it could say so
            assert rows_of(target) == before
            target = new_place(tmp_path, kinds[1])
    done = migrate(source, target)
    assert done.same == done.queries
    assert rows_of(target) == before == rows_of(source)
    assert is_sound(target)


def test_a_file_is_as_it_was_after_a_killed_move_from_it(tmp_path):
    source = new_place(tmp_path, "file")
    furnish(source)
    before = sha256(Path(source).read_bytes()).digest()
    with children(Child(migrate_child.live, source, new_place(tmp_path, "file"))) as (child,):
        child.listen_until("step", 9)
        child.kill()
    assert sha256(Path(source).read_bytes()).digest() == before
    assert not list(tmp_path.glob(f"{Path(source).name}-*"))
