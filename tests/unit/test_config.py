"""Settings: where they come from, what they refuse, and what a repository may not do."""

import json
import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.errors import Advice, ConfigError, Notice, UsageError, advise
from plait.settings import file, loading
from plait.settings.loading import Config, Settings
from plait.settings.schema import ENVIRONMENT, SETTINGS
from plait.settings.showing import describe, shown
from plait.settings.values import parse_setting
from plait.writing.chunking import chunk
from plait.writing.sources import walk
from tests.codes import has_code

POSIX_ONLY = pytest.mark.skipif(sys.platform == "win32", reason="file modes are a POSIX notion")


class House:
    """A home folder and a git repository to load settings in."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.repo = folder / "repo"
        self.user_file = self.home / ".config" / "plait" / "config.toml"
        self.user_file.parent.mkdir(parents=True)
        (self.repo / ".git").mkdir(parents=True)
        self.environ = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / ".config")}

    def user(self, *lines: str) -> None:
        self.user_file.write_text("\n".join(["[memory]", *lines]), encoding="utf-8")

    def project(self, *lines: str, folder: str = "") -> Path:
        path = self.repo / folder / "plait.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(["[memory]", *lines]), encoding="utf-8")
        return path

    def load(
        self, flags: dict[str, object] | None = None, *, cwd: str = "", **options: Any
    ) -> Config:
        environ = {**self.environ, **options.pop("environ", {})}
        return loading.load(flags, environ=environ, cwd=str(self.repo / cwd), **options)


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.setattr(sys, "platform", "linux")
    return House(tmp_path.resolve())


def refusal(house: House, *args: Any, **options: Any) -> Notice:
    with pytest.raises(ConfigError) as caught:
        house.load(*args, **options)
    return caught.value.notice


def meant(name: str) -> Advice:
    return advise("did_you_mean", name=name)


# Where a value comes from.


@pytest.mark.parametrize(
    ("places", "value", "origin"),
    [
        ("", 10, "default"),
        ("user", 1, "{user}"),
        ("user project", 2, "{project}"),
        ("user project environment", 3, "environment PLAIT_LIMIT"),
        ("user project environment flag", 4, "flag --limit"),
        ("user environment", 3, "environment PLAIT_LIMIT"),
        ("project flag", 4, "flag --limit"),
        ("user flag", 4, "flag --limit"),
    ],
)
def test_the_strongest_place_wins_and_is_named(
    house: House, places: str, value: int, origin: str
) -> None:
    project_file = house.repo / "plait.toml"
    if "user" in places:
        house.user("limit = 1")
    if "project" in places:
        house.project("limit = 2")
    environ = {"PLAIT_LIMIT": "3"} if "environment" in places else {}
    loaded = house.load({"limit": 4 if "flag" in places else None}, environ=environ)
    assert loaded.settings.limit == value
    assert loaded.origins["limit"] == origin.format(user=house.user_file, project=project_file)


def test_places_are_merged_setting_by_setting(house: House) -> None:
    house.user("limit = 1", "rrf_k = 50")
    house.project("limit = 2")
    loaded = house.load({"quiet": True})
    assert (loaded.settings.limit, loaded.settings.rrf_k, loaded.settings.quiet) == (2, 50, True)
    assert loaded.files == (str(house.user_file), str(house.repo / "plait.toml"))


def test_a_file_given_by_flag_replaces_both_other_files(house: House) -> None:
    house.user("limit = 1", "rrf_k = 50")
    house.project("limit = 2")
    (house.repo / "mine.toml").write_text("[memory]\nlimit = 7\n", encoding="utf-8")
    loaded = house.load(config="mine.toml")
    assert (loaded.settings.limit, loaded.settings.rrf_k) == (7, 60)
    assert loaded.files == (str(house.repo / "mine.toml"),)


def test_every_setting_has_a_reader_a_description_and_an_environment_name() -> None:
    assert set(SETTINGS) == set(Settings._fields)
    for name, default, description in describe():
        assert default
        assert description.endswith(".")
        assert f"PLAIT_{name.upper()}" in ENVIRONMENT


def test_every_default_is_a_value_that_its_own_reader_accepts() -> None:
    for name, default in Settings._field_defaults.items():
        if default is not None:
            assert parse_setting(name, default, "default") == default
            assert parse_setting(name, shown(default), "default") == default


def test_without_files_environment_and_flags_everything_is_default(house: House) -> None:
    loaded = house.load()
    db_path = str(house.home / ".local/share/plait/memory.db")
    assert loaded.settings == Settings(db_path=db_path)
    assert set(loaded.origins.values()) == {"default"}
    assert (loaded.warnings, loaded.files) == ((), ())


def test_the_process_environment_and_folder_are_used_when_none_are_given(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIT_LIMIT", "42")
    monkeypatch.setenv("PLAIT_CONFIG", str(house.user_file))
    monkeypatch.chdir(house.repo)
    house.user()
    loaded = loading.load()
    assert (loaded.settings.limit, loaded.project) == (42, str(house.repo))


# Names of the environment.


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"PLAIT_DB": "/a.db"}, "/a.db"),
        ({"PLAIT_DB_PATH": "/b.db"}, "/b.db"),
        ({"PLAIT_DB": "/a.db", "PLAIT_DB_PATH": "/b.db"}, "/a.db"),
        ({"PLAIT_DB": "~/m.db"}, "{home}/m.db"),
        ({"PLAIT_DB": "notes/m.db"}, "{repo}/notes/m.db"),
        ({"PLAIT_DB": ":memory:"}, ":memory:"),
        ({"PLAIT_DB": ""}, "{home}/.local/share/plait/memory.db"),
        ({"XDG_DATA_HOME": "/data"}, "/data/plait/memory.db"),
        ({"XDG_DATA_HOME": "not/absolute"}, "{home}/.local/share/plait/memory.db"),
    ],
)
@POSIX_ONLY
def test_the_memory_file_is_found_by_its_names(
    house: House, environ: dict[str, str], expected: str
) -> None:
    path = house.load(environ=environ).settings.db_path
    assert path == expected.format(home=house.home, repo=house.repo)


@pytest.mark.parametrize(
    ("platform", "environ", "db_path", "user_file"),
    [
        (
            "linux",
            {"XDG_CONFIG_HOME": "/c"},
            "/h/.local/share/plait/memory.db",
            "/c/plait/config.toml",
        ),
        ("linux", {}, "/h/.local/share/plait/memory.db", "/h/.config/plait/config.toml"),
        (
            "darwin",
            {},
            "/h/Library/Application Support/plait/memory.db",
            "/h/Library/Application Support/plait/config.toml",
        ),
        (
            "win32",
            {"LOCALAPPDATA": "/l", "APPDATA": "/r"},
            "/l/plait/memory.db",
            "/r/plait/config.toml",
        ),
        (
            "win32",
            {},
            "/h/AppData/Local/plait/memory.db",
            "/h/AppData/Roaming/plait/config.toml",
        ),
        ("linux", {"PLAIT_CONFIG": "~/p.toml"}, "/h/.local/share/plait/memory.db", "/h/p.toml"),
    ],
)
@POSIX_ONLY
def test_each_platform_has_its_own_folders(
    monkeypatch: pytest.MonkeyPatch,
    platform: str,
    environ: dict[str, str],
    db_path: str,
    user_file: str,
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    environ = {"HOME": "/h", **environ}
    assert loading.default_db_path(environ) == db_path
    assert loading.user_config_path(environ) == user_file


def test_an_unknown_variable_is_ignored_aloud_with_a_suggestion(house: House) -> None:
    loaded = house.load(environ={"PLAIT_CHUNK_SISE": "5", "PLAIT_ZZZ": "1", "PLAITED": "1"})
    assert loaded.settings.chunk_size == 1200
    assert [(row.code, row.subject, row.advice) for row in loaded.warnings] == [
        ("ignored_variable", "PLAIT_CHUNK_SISE", meant("PLAIT_CHUNK_SIZE")),
        ("ignored_variable", "PLAIT_ZZZ", None),
    ]


def test_a_user_file_named_by_the_environment_but_missing_is_said_aloud(house: House) -> None:
    loaded = house.load(environ={"PLAIT_CONFIG": "/nowhere/c.toml"})
    [warning] = loaded.warnings
    assert (warning.code, warning.subject) == ("no_such_file", "/nowhere/c.toml")


# Values.


@pytest.mark.parametrize("word", ["on", "true", "1", "yes", " ON ", "True"])
def test_words_that_mean_on(house: House, word: str) -> None:
    assert house.load(environ={"PLAIT_AUTO_REINDEX": word}).settings.auto_reindex is True


@pytest.mark.parametrize("word", ["off", "false", "0", "no", "Off"])
def test_words_that_mean_off(house: House, word: str) -> None:
    assert house.load({"quiet": word}, environ={"PLAIT_QUIET": "on"}).settings.quiet is False


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("auto_reindex = true", "auto_reindex", True),
        ('auto_reindex = "on"', "auto_reindex", True),
        ("sqlite_open_timeout_secs = 5", "sqlite_open_timeout_secs", 5.0),
        ('ollama_url = "http://127.0.0.1:9/"', "ollama_url", "http://127.0.0.1:9"),
        ('fusion = "max"', "fusion", "max"),
        ('fusion = "seed001"', "fusion", "max"),
        ('patterns = ["*.md", "*.adoc"]', "patterns", ("*.md", "*.adoc")),
        ('patterns = "*.md, *.adoc"', "patterns", ("*.md", "*.adoc")),
        ('embedding_provider = "ollama:nomic"', "embedding_provider", "ollama:nomic"),
        (
            'embedding_provider = "custom:http://localhost:8080/v1/# bge-m3"',
            "embedding_provider",
            "custom:http://localhost:8080/v1#bge-m3",
        ),
        (
            'embedding_provider = "custom:http://localhost#"',
            "embedding_provider",
            "custom:http://localhost",
        ),
        ('memory_dir = "notes"', "memory_dir", "{folder}/notes"),
        ('db_path = ".plait/m.db"', "db_path", "{folder}/.plait/m.db"),
        ('project = "shop"', "project", "shop"),
        ('backend = "SQLite"', "backend", "sqlite"),
    ],
)
@POSIX_ONLY
def test_toml_values_are_read(house: House, line: str, name: str, value: object) -> None:
    house.user(line)
    loaded = getattr(house.load().settings, name)
    folder = house.user_file.parent
    assert loaded == (value.format(folder=folder) if isinstance(value, str) else value)
    assert type(loaded) is type(value)


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("limit", 0, None),
        ("limit", 1_000_000, None),
        ("limit", "many", None),
        ("limit", True, None),
        ("limit", 2.5, None),
        ("min_score", "nan", None),
        ("min_score", 1.1, None),
        ("min_score", False, None),
        ("quiet", "maybe", None),
        ("fusion", "weigthed", "weighted"),
        ("fusion", "seed002", None),
        ("backend", "sqlit", "sqlite"),
        ("backend", "duckdb", None),
        ("db_path", "", None),
        ("db_path", "a\0b", None),
        ("db_path", 5, None),
        ("model", " ", None),
        ("ollama_url", "ftp://localhost", None),
        ("embedding_provider", "custom:ftp://x", None),
        ("patterns", [], None),
        ("project", 3, None),
    ],
)
def test_a_bad_value_is_refused(house: House, name: str, value: object, hint: str | None) -> None:
    refused = refusal(house, {name: value})
    assert (refused.code, refused.subject) == ("bad_value", name)
    assert refused.advice == (None if hint is None else meant(hint))
    if (options := SETTINGS[name].options) and SETTINGS[name].type == "choice":
        flag = f"flag --{name}"
        sentence = f"{name} ({flag}) is {value!r}; choose one of: {', '.join(options)}."
    else:
        sentence = f"{name} must be {SETTINGS[name].expected}, got {value!r} (flag"
    assert refused.text.startswith(sentence)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("openai_api_key", "api_key"),
        ("chunk_sise", "chunk_size"),
        ("zzzzz", None),
        ("embedding_dimensions", "dims"),
    ],
)
def test_an_unknown_name_is_refused_with_the_closest(
    house: House, name: str, hint: str | None
) -> None:
    refused = refusal(house, {name: 3})
    assert (refused.code, refused.subject) == ("unknown_setting", name)
    assert refused.advice == (Advice("list_settings") if hint is None else meant(hint))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("limit", "a whole number from 1 to 1000"),
        ("max_file_mb", "a number from 0.001 to 4096"),
        ("fusion", "one of weighted, rrf, max"),
        ("backend", "one of sqlite, postgres, none"),
        ("quiet", "on or off"),
        ("db_path", "a path"),
        ("model", "a name"),
    ],
)
def test_what_a_setting_expects_is_told_in_words(name: str, expected: str) -> None:
    assert SETTINGS[name].expected == expected


def test_a_long_bad_value_is_shown_shortened(house: House) -> None:
    message = refusal(house, {"limit": "9" * 10_000}).text
    assert len(message) < 200
    assert "9…" in message


def test_a_bad_value_names_its_variable_or_its_file(house: House) -> None:
    assert "(environment PLAIT_DIMS)" in refusal(house, environ={"PLAIT_DIMS": "x"}).text
    house.user('dims = "x"')
    path = house.user_file
    assert refusal(house).text.endswith(f"got 'x' ({path}).")


@given(
    name=st.sampled_from(sorted(SETTINGS)),
    raw=st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.lists(st.text() | st.integers(), max_size=3)
    | st.dictionaries(st.text(), st.integers(), max_size=2),
)
def test_any_value_is_either_read_or_refused_in_a_sentence(name: str, raw: object) -> None:
    try:
        value = parse_setting(name, raw, "flag --x")
    except ConfigError as error:
        assert "flag --x" in str(error)
    else:
        assert parse_setting(name, value, "again") == value


# Settings that depend on each other.


@pytest.mark.parametrize(
    ("flags", "keyword", "vector"),
    [
        ({}, None, None),
        ({"keyword_weight": 0.3, "vector_weight": 0.7}, 0.3, 0.7),
        ({"keyword_weight": 0.1, "vector_weight": 0.9000000001}, 0.1, 0.9000000001),
        ({"keyword_weight": 0.2, "vector_weight": 0.3}, 0.2, 0.3),
        ({"keyword_weight": "0"}, 0.0, 1.0),
        ({"vector_weight": 0}, 1.0, 0.0),
        ({"vector_weight": 0.7}, 0.3, 0.7),
    ],
)
def test_weights_that_fit_are_kept_and_one_alone_gets_the_rest(
    house: House, flags: dict[str, object], keyword: float | None, vector: float | None
) -> None:
    settings = house.load(flags).settings
    assert (settings.keyword_weight, settings.vector_weight) == (keyword, vector)


def test_a_weight_that_follows_from_the_other_says_so(house: House) -> None:
    assert house.load({"keyword_weight": 0.4}).origins["vector_weight"] == "1 - keyword_weight"


def test_weights_above_one_are_refused_with_their_sum(house: House) -> None:
    house.user("vector_weight = 0.7")
    refused = refusal(house, {"keyword_weight": "0.5"})
    assert refused.code == "bad_weights"
    for part in ("0.5", "0.7", "1.2", "flag --keyword-weight", str(house.user_file)):
        assert part in refused.text


def test_two_weights_of_zero_are_refused(house: House) -> None:
    assert refusal(house, {"keyword_weight": 0, "vector_weight": 0}).code == "bad_weights"


@pytest.mark.parametrize(
    ("flags", "size", "overlap"),
    [
        ({}, 1200, 120),
        ({"chunk_size": 512, "chunk_overlap": 50}, 512, 50),
        ({"chunk_size": 512}, 512, 120),
        ({"chunk_size": 240}, 240, 24),
        ({"chunk_size": 100, "chunk_overlap": 49}, 100, 49),
        ({"chunk_overlap": 0}, 1200, 0),
    ],
)
def test_overlap_stays_under_half_a_passage(
    house: House, flags: dict[str, object], size: int, overlap: int
) -> None:
    settings = house.load(flags).settings
    assert (settings.chunk_size, settings.chunk_overlap) == (size, overlap)


@given(st.integers(0, 200))
def test_every_size_that_the_settings_accept_can_be_cut(size: int) -> None:
    try:
        accepted = parse_setting("chunk_size", size, "a test")
    except ConfigError:
        with pytest.raises(UsageError):
            chunk("some text", size=size, overlap=0)
    else:
        assert chunk("some text", size=accepted, overlap=0) != []


def test_the_files_that_a_walk_and_the_settings_mean_are_the_same(
    house: House, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for name in ("a.md", "b.markdown", "c.txt", "d.rst", "e.org", "f.py"):
        (folder / name).write_text("x", encoding="utf-8")
    names = [row.key for row in walk(folder)]
    assert names == ["a.md", "b.markdown", "c.txt", "d.rst", "e.org"]
    patterns = house.load().settings.patterns
    assert [row.key for row in walk(folder, patterns=patterns)] == names


def test_an_overlap_of_half_a_passage_is_refused(house: House) -> None:
    refused = refusal(house, {"chunk_size": 100, "chunk_overlap": 50})
    assert (refused.code, refused.subject) == ("bad_overlap", "chunk_overlap")
    assert "(flag --overlap)" in refused.text


# Files.


def test_an_unknown_key_in_a_file_gets_a_suggestion(house: House) -> None:
    house.user("chunk_sise = 5")
    refused = refusal(house)
    assert (refused.code, refused.advice) == ("unknown_setting", meant("chunk_size"))
    assert str(house.user_file) in refused.text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("limit = 3", "outside_memory_table"),
        ("[memori]\nlimit = 3", "unknown_setting"),
        ("memory = 3", "memory_is_no_table"),
        ('[storage.provider.config]\nprovider = "postgres"', "no_address"),
        ('[memory]\nbackend = "postgresql"', "no_address"),
        ('[memory]\ndb_path = "mysql://ana:geheim@db/x"', "unknown_engine"),
        ('[memory]\ndb_path = "postgresql://ana:gehe/im@db/x"', "bad_address"),
        ("[memory]\nlimit", "unreadable_settings"),
        ("a = " + "[" * 50_000, "unreadable_settings"),
        ("#" * 1_000_001, "unreadable_settings"),
    ],
    ids=lambda text: text[:24],
)
def test_a_file_that_makes_no_sense_is_refused(house: House, text: str, code: str) -> None:
    path = house.user_file
    path.write_text(text, encoding="utf-8")
    refused = refusal(house)
    assert refused.code == code
    assert str(path) in refused.text


def test_a_file_that_is_not_utf8_is_refused(house: House) -> None:
    path = house.user_file
    path.write_bytes(b'[memory]\nmodel = "\xff"')
    refused = refusal(house)
    assert (refused.code, refused.subject) == ("unreadable_settings", str(path))


def test_tables_of_other_programs_are_ignored_aloud(house: House) -> None:
    house.user_file.write_text(
        '[gateway]\nport = 1\n[storage.provider.config]\nprovider = "sqlite"\n[memory]\nlimit = 3',
        encoding="utf-8",
    )
    loaded = house.load()
    assert loaded.settings.limit == 3
    assert [(row.code, row.subject) for row in loaded.warnings] == [("ignored_name", "gateway")]


def test_a_file_written_by_a_windows_editor_is_read(house: House) -> None:
    (house.repo / "plait.toml").write_bytes(b"\xef\xbb\xbf[memory]\r\nlimit = 3\r\n")
    assert house.load().settings.limit == 3


@POSIX_ONLY
def test_a_config_json_with_nine_keys_is_read_by_flag(house: House) -> None:
    values = {
        "db_path": "data/hybrid_search.db",
        "ollama_url": "http://localhost:11434",
        "model": "nomic-embed-text",
        "chunk_size": 512,
        "chunk_overlap": 50,
        "keyword_weight": 0.3,
        "vector_weight": 0.7,
        "cache_size": 256,
        "dims": 768,
    }
    path = house.home / "config.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    loaded = house.load(config=str(path))
    assert {name: getattr(loaded.settings, name) for name in values} == {
        **values,
        "db_path": str(house.home / "data" / "hybrid_search.db"),
    }
    assert {loaded.origins[name] for name in values} == {str(path)}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"embedding_dimensions": 3}', "unknown_setting"),
        ('{"dims": "x"}', "bad_value"),
        ("[1]", "unreadable_settings"),
        ("{", "unreadable_settings"),
        ("[" * 100_000, "unreadable_settings"),
    ],
    ids=lambda text: text[:24],
)
def test_a_json_file_that_makes_no_sense_is_refused(house: House, text: str, code: str) -> None:
    path = house.repo / "config.json"
    path.write_text(text, encoding="utf-8")
    refused = refusal(house, config="config.json")
    assert refused.code == code
    assert str(path) in refused.text


def test_a_missing_file_named_by_flag_is_refused(house: House) -> None:
    refused = refusal(house, config="no.toml")
    assert (refused.code, refused.subject) == ("no_such_file", str(house.repo / "no.toml"))


# The project and its file.


def test_the_nearest_file_up_to_the_git_root_is_read(house: House) -> None:
    house.project("limit = 1")
    house.project("limit = 2", folder="a/b")
    (house.repo / "a/b/c").mkdir()
    assert house.load(cwd="a").settings.limit == 1
    assert house.load(cwd="a/b/c").settings.limit == 2


def test_no_file_above_the_git_root_is_read(house: House) -> None:
    (house.repo.parent / "plait.toml").write_text("[memory]\nlimit = 1", encoding="utf-8")
    assert house.load().settings.limit == 10


def test_without_a_git_root_only_the_working_folder_counts(house: House) -> None:
    (house.repo / ".git").rmdir()
    house.project("limit = 1")
    (house.repo / "a").mkdir()
    assert house.load().settings.limit == 1
    assert house.load(cwd="a").settings.limit == 10


def test_the_git_root_is_the_next_folder_above_that_has_a_git_entry(house: House) -> None:
    inner = house.repo / "work" / "deep"
    inner.mkdir(parents=True)
    assert loading.find_project(str(inner)) == str(house.repo)
    (house.repo / "work" / ".git").write_text("gitdir: elsewhere", encoding="utf-8")
    assert loading.find_project(str(inner)) == str(house.repo / "work")


def worktree(house: House, *, pointer: str = "{git}", listed: str = "{tree}/.git") -> Path:
    """A worktree as git lays it out: a file that points into the repository, which points back."""
    tree = house.repo.parent / "tree"
    (tree / "src").mkdir(parents=True)
    git = house.repo / ".git" / "worktrees" / "tree"
    git.mkdir(parents=True)
    names = {"git": git, "tree": tree}
    (tree / ".git").write_text(f"gitdir: {pointer.format(**names)}\n", encoding="utf-8")
    (git / "gitdir").write_text(f"{listed.format(**names)}\n", encoding="utf-8")
    return tree


@pytest.mark.parametrize(
    ("pointer", "listed"),
    [("{git}", "{tree}/.git"), ("../repo/.git/worktrees/tree", "../../../../tree/.git")],
)
def test_worktrees_share_the_project_of_their_repository(
    house: House, pointer: str, listed: str
) -> None:
    tree = worktree(house, pointer=pointer, listed=listed)
    for folder in (house.repo, tree, tree / "src"):
        assert house.load(cwd=str(folder)).project == str(house.repo)
        flags: dict[str, object] = {"project": str(folder)}
        assert house.load(flags).project == str(house.repo)
    # Files are those of the checkout.
    (tree / "plait.toml").write_text("[memory]\nlimit = 3", encoding="utf-8")
    assert house.load(cwd=str(tree / "src")).settings.limit == 3


@pytest.mark.parametrize(
    "listed", ["/elsewhere/.git", "{git}", "", "\0", "{tree}", "{tree}/.git/x"]
)
def test_a_folder_that_only_claims_to_be_a_worktree_is_a_project_of_its_own(
    house: House, listed: str
) -> None:
    tree = worktree(house, listed=listed)
    assert house.load(cwd=str(tree)).project == str(tree)


@pytest.mark.parametrize(
    "pointer",
    ["", "\0", "{git}/..", "{git}/gitdir", "../repo/.git/modules/tree", "/dev/null", "x" * 9_999],
)
def test_other_files_named_git_make_a_project_of_its_own(house: House, pointer: str) -> None:
    tree = worktree(house, pointer=pointer)
    assert house.load(cwd=str(tree)).project == str(tree)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "{repo}"),
        ("personal", None),
        ("", None),
        ("shop", "shop"),
        ("team/shop", "team/shop"),
        (".", "{repo}"),
        ("./sub/folder", "{repo}"),
        ("{home}/elsewhere", "{home}/elsewhere"),
        ("~/elsewhere", "{home}/elsewhere"),
    ],
)
@POSIX_ONLY
def test_a_project_is_named_by_word_or_by_folder(
    house: House, value: str | None, expected: str | None
) -> None:
    places = {"repo": house.repo, "home": house.home}
    flags: dict[str, object] = {"project": None if value is None else value.format(**places)}
    assert house.load(flags).project == (expected and expected.format(**places))


def test_outside_any_repository_the_project_is_personal(house: House) -> None:
    assert loading.load(environ=house.environ, cwd=str(house.home)).project is None


def test_an_empty_variable_chooses_the_personal_project(house: House) -> None:
    assert house.load(environ={"PLAIT_PROJECT": ""}).project is None


@pytest.mark.parametrize(
    "address",
    [
        "http://localhost@evil.example",
        "http://localhost:80@evil.example",
        "http://localhost\\\\@evil",
    ],
)
def test_an_address_that_two_programs_could_read_differently_is_no_address(
    house: House, address: str
) -> None:
    house.user(f'ollama_url = "{address}"')
    refused = refusal(house)
    assert (refused.code, refused.subject) == ("bad_value", "ollama_url")


@pytest.mark.parametrize(
    "line",
    [
        'db_path = "/var/mine.db"',
        'ollama_url = "http://gpu.example"',
        'embedding_provider = "openai"',
        'memory_dir = "~/notes"',
    ],
)
def test_the_user_may_do_what_a_repository_may_not(house: House, line: str) -> None:
    house.user(line)
    assert house.load().origins[line.split()[0]] == str(house.user_file)
    path = house.project(line)
    assert house.load(config=str(path)).origins[line.split()[0]] == str(path)
    trusted = house.load(environ={"PLAIT_CONFIG": str(path)})
    assert (trusted.files, trusted.origins[line.split()[0]]) == ((str(path),), str(path))


# Start-up.

WATCHED = {"tomllib", "json", "difflib", "pathlib", "dataclasses", "inspect", "logging", "tempfile"}


def modules_loaded_by(house: House) -> set[str]:
    script = (
        "import sys; before = set(sys.modules); from plait.settings import loading; "
        f"loading.load(environ={house.environ!r}, cwd={str(house.repo)!r}); "
        "sys.stdout.write(' '.join(sys.modules))"
    )
    # -S, since what a site's own start-up files load is none of plait's business.
    done = subprocess.run(
        [sys.executable, "-S", "-c", script],
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    return set(done.stdout.split()) & WATCHED


@POSIX_ONLY
def test_no_parser_is_loaded_without_a_file(house: House) -> None:
    assert modules_loaded_by(house) == set()


@POSIX_ONLY
def test_a_toml_file_loads_the_toml_parser_and_nothing_else(house: House) -> None:
    house.user('embedding_provider = "none"')
    assert modules_loaded_by(house) == {"tomllib"}


@POSIX_ONLY
def test_a_deleted_working_folder_does_not_stop_an_absolute_path(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    loaded = loading.load({"db_path": "/m.db"}, environ=house.environ)
    assert (loaded.settings.db_path, loaded.project) == ("/m.db", None)


# Writing one value.


@pytest.mark.parametrize(
    ("before", "name", "value", "after"),
    [
        ("", "limit", "5", "[memory]\nlimit = 5\n"),
        ("# mine\n", "limit", "5", "# mine\n\n[memory]\nlimit = 5\n"),
        ("[memory]\nlimit = 3\n", "limit", "5", "[memory]\nlimit = 5\n"),
        ("[memory]\nlimit = 3", "limit", "5", "[memory]\nlimit = 5\n"),
        ("[memory]\n limit=3 # why\n", "limit", "5", "[memory]\nlimit = 5  # why\n"),
        ("[memory]\n'limit' = 3\n", "limit", "5", "[memory]\nlimit = 5\n"),
        (
            '[memory]\nmodel = "a#b" # c\nrrf_k = 9\n',
            "model",
            "d#e",
            '[memory]\nmodel = "d#e"  # c\nrrf_k = 9\n',
        ),
        (
            "[memory] # ours\nrrf_k = 9\n\n# theirs\n[gateway]\nlimit = 1\n",
            "limit",
            "5",
            "[memory] # ours\nrrf_k = 9\nlimit = 5\n\n# theirs\n[gateway]\nlimit = 1\n",
        ),
        (
            '[memory]\npatterns = [\n  "*.md", # notes\n]\nrrf_k = 9\n',
            "patterns",
            "*.txt,*.md",
            '[memory]\npatterns = ["*.txt", "*.md"]\nrrf_k = 9\n',
        ),
        (
            "[memory]\r\nlimit = 3 # a\r\nrrf_k = 9\r\n",
            "limit",
            "5",
            "[memory]\r\nlimit = 5  # a\r\nrrf_k = 9\r\n",
        ),
        (
            "[gateway]\r\na = 1\r\n",
            "quiet",
            "on",
            "[gateway]\r\na = 1\r\n\r\n[memory]\r\nquiet = true\r\n",
        ),
        ("", "auto_reindex", "on", "[memory]\nauto_reindex = true\n"),
        ("", "min_score", "0.25", "[memory]\nmin_score = 0.25\n"),
        ("", "db_path", "~/m.db", '[memory]\ndb_path = "~/m.db"\n'),
        ("", "db_path", ":memory:", '[memory]\ndb_path = ":memory:"\n'),
        ("", "project", "personal", '[memory]\nproject = ""\n'),
    ],
)
def test_writing_a_value_changes_its_line_and_no_other(
    tmp_path: Path, before: str, name: str, value: str, after: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(before.encode())
    file.write_value(str(path), name, value)
    assert path.read_bytes().decode() == after


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (name, default)
        for name, default in Settings._field_defaults.items()
        if default is not None and name != "project"
    ]
    + [("limbic_constants", (("gamma", 0.0125), ("half_life_message", 30.0)))],
)
def test_what_is_written_is_what_is_read(house: House, name: str, value: object) -> None:
    file.write_value(str(house.user_file), name, shown(value))
    loaded = house.load()
    assert getattr(loaded.settings, name) == value
    assert loaded.origins[name] == str(house.user_file)


@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_text_survives_being_written(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.mktemp("written") / "config.toml"
    path.write_text("[memory]\nlimit = 3\n[other]\nkept = 1\n", encoding="utf-8")
    try:
        file.write_value(str(path), "model", text)
    except ConfigError:
        assert not text.strip() or "\0" in text
        return
    data = tomllib.loads(path.read_bytes().decode())
    assert data == {"memory": {"limit": 3, "model": text.strip()}, "other": {"kept": 1}}


def test_a_relative_path_is_written_from_the_folder_the_person_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "elsewhere" / "config.toml"
    file.write_value(str(path), "memory_dir", "notes")
    assert tomllib.loads(path.read_text(encoding="utf-8")) == {
        "memory": {"memory_dir": str(tmp_path / "notes")}
    }


@POSIX_ONLY
def test_the_written_file_is_private_and_a_link_stays_a_link(tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.toml"
    target.write_text("", encoding="utf-8")
    target.chmod(0o644)
    link = tmp_path / "made" / "config.toml"
    link.parent.mkdir()
    link.symlink_to(target)
    file.write_value(str(link), "limit", 5)
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == "[memory]\nlimit = 5\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["dotfiles.toml", "made"]


@POSIX_ONLY
def test_a_folder_made_for_the_file_is_private(tmp_path: Path) -> None:
    file.write_value(str(tmp_path / "plait" / "config.toml"), "limit", 5)
    assert stat.S_IMODE((tmp_path / "plait").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("before", "name", "value", "code"),
    [
        ("", "limit", "0", "bad_value"),
        ("", "limitt", "1", "unknown_setting"),
        ("", "api_key", "sk-1", "key_as_argument"),
        ("", "db_path", "mysql://db/x", "unknown_engine"),
        (
            '[storage.provider.config]\nprovider = "pg"\ndb_url = "postgres://db/x"\n',
            *("db_path", "notes.db", "not_editable"),
        ),
        ("", "model", "\ud800", "cannot_write"),
        ("[memory]\nvector_weight = 0.7\n", "keyword_weight", "0.5", "bad_weights"),
        ("[memory]\nfusion = 'x'\n", "limit", "5", "bad_value"),
        ("[memory\n", "limit", "5", "unreadable_settings"),
        ("memory = 3\n", "limit", "5", "memory_is_no_table"),
        ("memory = { limit = 3 }\n", "limit", "5", "not_editable"),
        ('note = """\n[memory]\nlimit = 3\n"""\n', "limit", "5", "not_editable"),
        ("[memory]\nsignals.count = 'read'\n", "signals_count", "listed", "not_editable"),
    ],
)
def test_a_refused_write_leaves_the_file_as_it_was(
    tmp_path: Path, before: str, name: str, value: str, code: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(before, encoding="utf-8")
    with pytest.raises(ConfigError, check=has_code(code)):
        file.write_value(str(path), name, value)
    assert path.read_text(encoding="utf-8") == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_hold_the_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    path = str(tmp_path / "file" / "config.toml")
    with pytest.raises(ConfigError, check=has_code("cannot_write", path)):
        file.write_value(path, "limit", 5)
    with pytest.raises(ConfigError, check=has_code("unreadable_settings", str(tmp_path))):
        file.write_value(str(tmp_path), "limit", 5)


def test_a_json_file_is_never_edited(tmp_path: Path) -> None:
    path = str(tmp_path / "config.json")
    with pytest.raises(ConfigError, check=has_code("not_editable", path)):
        file.write_value(path, "limit", 5)


@pytest.mark.parametrize("value", ["file=1", "message=0", "msg=90", {"entity": 3}, "message=x"])
def test_a_refused_retention_names_the_kinds_and_the_smallest_number(
    house: House, value: object
) -> None:
    refused = refusal(house, {"keep_days": value})
    assert (refused.code, refused.advice) == ("bad_value", None)
    assert "note, observation, message" in refused.text
    assert "from 1 to 36500" in refused.text


ZEROCLAW = (
    *("hygiene_enabled = true", "archive_after_days = 7", "purge_after_days = 30"),
    *("conversation_retention_days = 30", "snapshot_enabled = false", "mmr_lambda = 0.7"),
    *("search_mode = 'hybrid'", "audit_enabled = false", "limit = 3"),
)


def test_settings_of_another_memory_are_told_once_with_what_plait_has(house: House) -> None:
    house.user(*ZEROCLAW, "[memory.policy]", "max_entries_per_namespace = 5")
    config = house.load()
    assert config.settings.limit == 3
    [notice] = config.warnings
    assert notice.code == "foreign_settings"
    for line in ZEROCLAW[:-1]:
        assert line.split()[0] in notice.text
    assert "plait has keep_days" in notice.text
    file.write_value(str(house.user_file), "min_score", "0.2")
    assert house.load().settings.min_score == 0.2


def test_unknown_settings_are_refused_all_at_once(house: House) -> None:
    house.user("limitt = 3", "embedding_model = 'm'", "zzzzz = 1", "hygiene_enabled = true")
    refused = refusal(house)
    assert refused.code == "unknown_setting"
    for words in ("'limitt' (did you mean limit?)", "(did you mean model?)", "'zzzzz'."):
        assert words in refused.text
