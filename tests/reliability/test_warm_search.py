"""Warm processes keep blocks of vectors while others write: no answer is old, none is mixed."""

from pathlib import Path

import pytest

from plait.stores.sqlite import signs, vectors
from tests.reliability import warm_child
from tests.reliability.processes import Child, children, posix_only

pytestmark = posix_only


@pytest.mark.parametrize("least", [10**9, 0], ids=["in full", "by signs"])
def test_a_warm_search_answers_from_one_moment_while_two_processes_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    path = tmp_path / "memory.db"
    # `prepare` sets them in this process too.
    monkeypatch.setattr(vectors, "BLOCK_ROWS", vectors.BLOCK_ROWS)
    monkeypatch.setattr(signs, "LEAST_PASSAGES", signs.LEAST_PASSAGES)
    warm_child.prepare(path, least)
    writers = [Child(warm_child.turn, path, least) for _ in range(2)]
    watchers = [Child(warm_child.watch, path, least) for _ in range(2)]
    with children(*writers, *watchers) as started:
        for child in started:
            child.expect("ready")
        for child in started:
            child.tell("begin")
        for writer in writers:
            writer.finish()
            assert writer.errors() == []
        for watcher in watchers:
            _, rounds = watcher.expect("seen")
            assert rounds > 1  # the first, the last, and mostly some between
