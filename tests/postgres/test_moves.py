"""What a move sends to the server names its memory, like everything else."""

from contextlib import closing

import pytest

from plait.exporting import migrating
from plait.exporting.migrating import drop, migrate
from plait.stores.moving import TABLES
from tests import servers
from tests.moves import furnish, new_place
from tests.postgres.statements import Sent, everything_wrong, recorded

# About the server itself: its extensions, counts and indexes, which other tests look at.
_OF_THE_SERVER = (
    "SELECT 1 FROM pg_extension",
    "SELECT relname",
    "SELECT c.relname",
    "SELECT extversion",
    "DROP INDEX",
)


@pytest.fixture
def source(tmp_path) -> str:
    place = new_place(tmp_path, "file")
    furnish(place)
    return place


def test_every_statement_of_a_move_names_its_memory(source, tmp_path, monkeypatch):
    monkeypatch.setattr(migrating, "QUERIES", 1)
    target, other = (new_place(tmp_path, "database") for _ in range(2))
    sent: dict[str, Sent] = {}
    with recorded(monkeypatch, sent):
        migrate(source, target)
        migrate(target, new_place(tmp_path, "file"))
        # Rows that differ from those of the source are deleted first.
        opened = migrating._rows_at(other, create=True, timeout=5.0)
        with closing(opened):
            opened.claim("{}")
            with closing(migrating._rows_at(source, create=False, timeout=5.0)) as old:
                with old.reading() as reader:
                    for table in TABLES:
                        page = reader.page(table, None)
                        with opened.writing() as writer:
                            writer.insert(table, page)
                with opened.writing() as writer:
                    for table in reversed(TABLES):
                        writer.delete(table, [table.key(row) for row in writer.page(table, None)])
                    writer.clear(TABLES[-1])
        drop(other)
    own = {sql: one for sql, one in sent.items() if not sql.startswith(_OF_THE_SERVER)}
    assert everything_wrong(own, servers.need()) == {}
    assert len(own) > 80
