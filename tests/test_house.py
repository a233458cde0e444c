"""What the house promises about itself: public names, light imports, pages that are true."""

import json
import re
import runpy
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import plait
from plait.cli.verbs import VERBS
from plait.settings import SETTINGS
from tests.interfaces.command import ROOT, SAMPLE, environment

SOURCE = ROOT / "src" / "plait"
PAGES = sorted(
    page
    for page in [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "benchmarks").rglob("*.md"),
        *(ROOT / "training").rglob("*.md"),
        *(ROOT / "tests").rglob("*.md"),
    ]
    if page.is_file()
)

# What `plait search` loads of our own. A new entry here costs every search; is it worth it?
SEARCH_LOADS = {
    "plait",
    *(f"plait.cli{part}" for part in ("", ".filters", ".output", ".read", ".verbs")),
    *(f"plait.{part}" for part in ("config", "settings", "memory", "present", "recall", "scope")),
    *(f"plait.{part}" for part in ("identity", "opening")),
    *(f"plait.{part}" for part in ("checks", "errors", "protocols", "text", "times", "types")),
    *(f"plait.embedders{part}" for part in ("", ".builtin", ".none")),
    *(
        f"plait.ranking{part}"
        for part in ("", ".context", ".cover", ".evidence", ".fuse", ".trace")
    ),
    *(f"plait.stores{part}" for part in ("", ".sqlite")),
    *(
        f"plait.stores.sqlite.{part}"
        for part in (
            "connection",
            "filters",
            "fts",
            "generations",
            "narrow",
            "keywords",
            "reading",
            "rows",
        )
    ),
    *(
        f"plait.stores.sqlite.{part}"
        for part in ("cache", "schema", "searching", "store", "terms", "vectors", "writing")
    ),
}
# And of other people's: the two packages, and what of the standard library the rest stands on.
SEARCH_LOADS_OF_OTHERS = {
    *("apsw", "simsimd"),
    *(
        "argparse",
        "array",
        "bisect",
        "collections",
        "contextlib",
        "copyreg",
        "enum",
        "errno",
        "functools",
    ),
    *("gettext", "importlib", "itertools", "json", "keyword", "locale", "math", "mmap"),
    *("operator", "re", "reprlib", "types", "typing", "warnings", "zlib"),
    # Only newer Pythons split these off or need them for the above.
    *("annotationlib", "ast", "string", "templatelib"),
}
# Milliseconds each, measured in docs/design/dependencies.md. Named, so that the reason is at hand.
TOO_HEAVY = {
    *("asyncio", "concurrent.futures", "ctypes", "dataclasses", "datetime", "decimal", "difflib"),
    *("email", "hashlib", "http", "importlib.metadata", "importlib.resources", "inspect"),
    *("logging", "multiprocessing", "numpy", "pathlib", "pickle", "platform", "random", "select"),
    *("shutil", "socket", "ssl", "statistics", "subprocess", "tempfile", "threading", "tomllib"),
    *("traceback", "unicodedata", "urllib", "uuid", "zipfile"),
}
IMPORT_LOADS = {"plait", "plait.errors", "plait.types"}

# subtle: json is part of what is counted, so it must not be imported before the counting.
LOADED_BY = """
import sys
before = set(sys.modules)
{act}
loaded = sorted(set(sys.modules) - before)
import json
sys.stderr.write("\\n" + json.dumps(loaded))
"""


def loaded_by(act: str, *words: str) -> set[str]:
    """Names of the modules that some code loads in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED_BY.format(act=act), *words],
        capture_output=True,
        encoding="utf-8",
        env=environment(),
        check=True,
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


def theirs(names: set[str]) -> set[str]:
    """The packages of others among module names; what is written in C below them is theirs too."""
    tops = {name.partition(".")[0] for name in names}
    return {top for top in tops if top != "plait" and not top.startswith("_")}


@pytest.fixture
def search_loads(tmp_path):
    """What a hybrid search on a small memory loads."""
    database = str(tmp_path / "memory.db")
    with plait.Memory.open(database, project="") as memory:
        memory.ingest(SAMPLE / "runbooks")
    act = "from plait.cli import main\nassert main(sys.argv[1:]) == 0"
    return loaded_by(act, "--db", database, "search", "rotate", "ssh", "keys", "--limit", "3")


def test_a_search_loads_no_module_that_is_not_on_the_list(search_loads):
    assert {name for name in search_loads if name.partition(".")[0] == "plait"} == SEARCH_LOADS
    assert theirs(search_loads) <= SEARCH_LOADS_OF_OTHERS


def test_a_search_loads_nothing_heavy(search_loads):
    heavy = {
        name
        for name in search_loads
        if any(name == bad or name.startswith(f"{bad}.") for bad in TOO_HEAVY)
    }
    assert heavy == set()
    assert not SEARCH_LOADS_OF_OTHERS & TOO_HEAVY


def test_importing_plait_is_light():
    found = loaded_by("import plait")
    assert {name for name in found if name.startswith("plait")} == IMPORT_LOADS
    assert not {"apsw", "simsimd", "argparse"} & theirs(found)
    assert not theirs(found) & TOO_HEAVY


# -- names ---------------------------------------------------------------------------------


def test_the_public_names_are_sorted_complete_and_there():
    assert plait.__all__ == sorted(plait.__all__)
    public = {
        name
        for name, value in vars(plait).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("plait.")
    }
    assert set(plait.__all__) == public | {"Memory", "__version__"}
    for name in plait.__all__:
        assert getattr(plait, name) is not None
    assert set(plait.__all__) <= set(dir(plait))
    with pytest.raises(AttributeError, match="Memoir"):
        _ = plait.Memoir


def test_the_package_is_typed_and_says_which_version_it_is():
    assert (SOURCE / "py.typed").exists()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["hatch"]["version"]["path"] == "src/plait/__init__.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+", plait.__version__)
    assert {re.split(r"[<>=]", row)[0] for row in project["project"]["dependencies"]} == {
        "apsw",
        "simsimd",
    }


def test_only_config_reads_the_environment():
    readers = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if re.search(r"\bos\.(environ|getenv)\b|from os import .*environ", path.read_text("utf-8"))
    }
    assert readers == {"config.py"}


def test_no_module_is_called_after_nothing():
    empty = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "core", "base"}
    assert not {path.stem for path in SOURCE.rglob("*.py")} & empty


# -- pages ---------------------------------------------------------------------------------


@cache
def generated() -> dict[str, str]:
    pages: dict[str, str] = runpy.run_path(str(ROOT / "docs" / "generate.py"))["pages"]()
    return pages


@pytest.mark.parametrize("name", ["cli.md", "configuration.md"])
def test_the_generated_pages_are_up_to_date(name):
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == generated()[name], "run: python docs/generate.py"


def test_every_verb_and_every_setting_is_documented():
    cli = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^### (\w+)$", cli, re.M) == list(VERBS)
    configuration = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", configuration, re.M) == list(SETTINGS)


def test_the_changelog_has_a_place_for_what_comes():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## \[Unreleased\]$", changelog, re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_relative_link_leads_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for link in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = page if not place else page.parent / place
        assert target.exists(), f"{link} in {page.name}"
        if anchor:
            assert anchor in anchors(target), f"{link} in {page.name}"


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_plait_command_in_a_page_exists(page):
    text = page.read_text(encoding="utf-8")
    for verb in re.findall(r"(?:`|\$ |^    )plait ([a-z]+)\b", text, re.M):
        assert verb in VERBS or verb == "help", f"plait {verb} in {page.name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_make_target_in_a_page_exists(page):
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for target in re.findall(r"(?:`|^)make ([a-z]+)\b", page.read_text(encoding="utf-8"), re.M):
        assert target in targets, f"make {target} in {page.name}"


def test_every_case_of_the_seeds_is_answered_by_a_test_that_exists():
    page = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    cases = re.findall(r"^\| (\d+) \| [^|]+ \| (.*) \|$", page, re.M)
    assert len(cases) == 12 + 43
    assert [number for number, answer in cases if not answer.strip()] == []
    written = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.M)
    }
    named = set(re.findall(r"`(test_\w+)(?!\w|\.py)", page))
    assert named - written == set()


def test_agents_md_names_every_room_and_stays_short():
    agents = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    assert agents.count("\n") < 60
    rooms = {path.stem for path in SOURCE.iterdir() if not path.name.startswith(("_", "py."))}
    for room in rooms:
        assert f"`{room}`" in agents, room


def test_no_page_and_no_module_names_a_place_on_somebodys_machine():
    tracked = [*SOURCE.rglob("*.py"), *PAGES, ROOT / "Makefile", ROOT / "pyproject.toml"]
    for path in tracked:
        found = re.search(r"/(?:root|home/\w+|Users/\w+|work)/", path.read_text(encoding="utf-8"))
        assert found is None, f"{found and found[0]} in {path.name}"
