"""Settings that name a database: as flag, variable and file, in plait's words and ZeroClaw's."""

import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from plait.errors import ConfigError
from plait.present.commands import chosen_options, with_options
from plait.settings.file import write_value
from plait.stores.postgres.address import ShownAddress
from tests.codes import has_code
from tests.unit.test_config import House, refusal
from tests.unit.test_config import house as house
from tests.unit.test_project_file import Clone
from tests.unit.test_project_file import clone as clone

ADDRESS = "postgresql://ana:geheim@db/team?namespace=shop"
SHOWN = "postgresql://ana@db/team?namespace=shop"
STORAGE = '[storage.provider.config]\nprovider = "{}"\n{} = "{}"\n'


def whole(value: object) -> str:
    assert isinstance(value, ShownAddress)
    return value.whole


@pytest.mark.parametrize(
    ("given", "origin"),
    [
        ({"flags": {"db_path": ADDRESS}}, "flag --db"),
        ({"environ": {"PLAIT_DB": ADDRESS}}, "environment PLAIT_DB"),
        ({"environ": {"PLAIT_DB_PATH": ADDRESS}}, "environment PLAIT_DB_PATH"),
        ({"user": f"[memory]\ndb_path = '{ADDRESS}'"}, "{user}"),
        *[
            ({"user": STORAGE.format(name, key, ADDRESS)}, "{user}")
            for name in ("postgres", "PostgreSQL", "pg")
            for key in ("db_url", "dbURL", "database_url", "databaseUrl")
        ],
        ({"user": '[memory]\nbackend = "sqlite"\n' + STORAGE.format("pg", "db_url", ADDRESS)}, ""),
    ],
)
def test_an_address_is_taken_as_it_is_and_decides_the_engine(
    house: House, given: dict[str, Any], origin: str
) -> None:
    if "user" in given:
        house.user_file.write_text(given["user"], encoding="utf-8")
    loaded = house.load(given.get("flags"), environ=given.get("environ", {}))
    assert (loaded.settings.db_path, whole(loaded.settings.db_path)) == (SHOWN, ADDRESS)
    assert loaded.settings.backend == "postgres"
    if origin:
        origin = origin.format(user=house.user_file)
        assert loaded.origins["db_path"] == loaded.origins["backend"] == origin
    assert not loaded.warnings
    assert "geheim" not in repr(loaded)
    assert not any(house.repo.glob("postgres*"))


def test_a_stronger_file_takes_its_engine_along(house: House) -> None:
    house.user('backend = "postgres"', f'db_path = "{ADDRESS}"')
    loaded = house.load({"db_path": "notes.db"})
    assert loaded.settings.backend == "sqlite"
    assert loaded.settings.db_path == str(house.repo / "notes.db")
    assert loaded.origins["backend"] == "flag --db"
    # Off stays off, wherever the memory would be.
    assert house.load({"backend": "none"}).settings.backend == "none"


def test_postgresql_without_an_address_is_refused_with_its_origin(house: House) -> None:
    refused = refusal(house, environ={"PLAIT_BACKEND": "pg"})
    assert (refused.code, refused.subject) == ("no_address", "environment PLAIT_BACKEND")
    assert house.load({"backend": "pg", "db_path": ADDRESS}).settings.backend == "postgres"


def test_another_engine_of_zeroclaw_changes_nothing(house: House) -> None:
    house.user_file.write_text(STORAGE.format("sqlite", "db_url", ADDRESS), encoding="utf-8")
    assert house.load().settings.db_path.endswith("memory.db")


def test_two_places_in_one_file_are_refused(house: House) -> None:
    text = '[memory]\ndb_path = "notes.db"\n' + STORAGE.format("postgres", "db_url", ADDRESS)
    house.user_file.write_text(text, encoding="utf-8")
    refused = refusal(house)
    assert (refused.code, refused.subject) == ("set_twice", "db_path")
    assert "geheim" not in refused.text


def test_a_suggested_command_names_the_memory_without_its_password(house: House) -> None:
    options = chosen_options(house.load({"db_path": ADDRESS}))
    assert with_options("Run: plait reindex", options) == f"Run: plait --db '{SHOWN}' reindex"


def test_config_set_keeps_the_whole_address_in_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    assert write_value(str(path), "db_path", ADDRESS) == SHOWN
    assert tomllib.loads(path.read_text("utf-8")) == {"memory": {"db_path": ADDRESS}}
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    # Its engine may be said beside it, and other settings can be changed.
    write_value(str(path), "backend", "postgresql")
    write_value(str(path), "limit", "3")
    assert tomllib.loads(path.read_text("utf-8"))["memory"]["backend"] == "postgres"


def test_config_set_leaves_the_address_of_zeroclaw_alone(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    text = STORAGE.format("postgres", "db_url", ADDRESS)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, check=has_code("not_editable")) as refused:
        write_value(str(path), "db_path", "notes.db")
    assert "geheim" not in str(refused.value)
    write_value(str(path), "limit", "3")
    assert path.read_text("utf-8").startswith(text)


# A cloned repository.

HOSTILE = "postgresql://spy:geheim@attacker.example/catch"


@pytest.mark.parametrize(
    "text",
    [
        f'[memory]\ndb_path = "{HOSTILE}"\n',
        f'[memory]\nbackend = "postgres"\ndb_path = "{HOSTILE}"\n',
        STORAGE.format("postgres", "db_url", HOSTILE),
        '[storage.provider.config]\nprovider = "postgres"\n',
        '[memory]\nbackend = "postgres"\n',
        "[memory]\nlimit = 3\n" + STORAGE.format("pg", "databaseUrl", HOSTILE),
    ],
)
def test_a_clone_cannot_name_a_server(clone: Clone, text: str) -> None:
    clone.write(text)
    loaded = clone.load()
    assert loaded.settings.backend == "sqlite"
    assert loaded.settings.db_path == str(clone.home / ".local/share/plait/memory.db")
    [notice] = loaded.warnings
    assert notice.code == "untrusted_project_file"
    assert "db_path" in notice.text or "backend" in notice.text
    assert "attacker" not in str(notice) and "geheim" not in str(notice)


def test_a_person_can_say_otherwise_after_seeing_it(clone: Clone) -> None:
    from plait.settings.project import needing_trust

    path = clone.write(STORAGE.format("postgres", "db_url", HOSTILE))
    project = clone.load().project_file
    assert project is not None
    asked = needing_trust(project, path.read_bytes())
    assert asked == {"db_path": "postgresql://spy@attacker.example/catch"}
    clone.trust(path)
    assert whole(clone.load().settings.db_path) == HOSTILE
    # The user's own still comes first.
    assert clone.load({"db_path": ADDRESS}).settings.db_path == SHOWN
