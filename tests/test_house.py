"""What the house promises about itself: public names, light imports, pages that are true."""

import ast
import json
import re
import runpy
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import plait
from plait import stores
from plait.cli import main
from plait.cli.verbs import VERBS
from plait.protocols import Store
from plait.settings.schema import SETTINGS
from plait.text.english import STOP_WORDS
from tests.interfaces.command import ROOT, SAMPLE, environment
from tests.walk import crossings_of, files_visited, methods

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
    *(f"plait.cli{part}" for part in ("", ".search", ".verbs")),
    *(f"plait.settings{part}" for part in ("", ".loading", ".schema", ".values")),
    *(f"plait.memory{part}" for part in ("", ".maintenance", ".opening", ".settling", ".storing")),
    *(
        f"plait.searching.{part}"
        for part in ("branches", "evidence", "scoring", "search", "snippets", "uncommon", "where")
    ),
    *("plait.searching", "plait.types.shapes"),
    *(f"plait.{part}" for part in ("errors", "protocols", "times")),
    *(f"plait.text{part}" for part in ("", ".asking", ".english")),
    *(f"plait.types{part}" for part in ("", ".guarding", ".ids", ".queries", ".records")),
    *(f"plait.embedders{part}" for part in ("", ".builtin", ".none", ".pieces")),
    *(f"plait.ranking{part}" for part in ("", ".hybrid", ".relevance")),
    *(f"plait.stores{part}" for part in ("", ".sqlite")),
    *(f"plait.stores.sqlite.{part}" for part in ("analysis", "connection", "documents", "filters")),
    *(f"plait.stores.sqlite.{part}" for part in ("keyword", "state", "store", "vectors")),
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
IMPORT_LOADS = {"plait", "plait.errors", "plait.types", "plait.types.records"}

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
        cwd=ROOT.anchor,  # this checkout may be a worktree of git, which costs a look more
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


# What a hook loads beside what a search does; `datetime` and the like stay out.
HOOK_LOADS = {
    *(f"plait.agents{part}" for part in ("", ".hooks")),
    *(f"plait.agents.hooks.{part}" for part in ("answering", "forms", "injecting", "prompts")),
    *(
        "plait.agents.hooks.record",
        "plait.agents.hooks.speaking",
        "plait.agents.sessions",
        "plait.cli.hook",
        "plait.settings.private",
    ),
    *("plait.facts", "plait.facts.assigned", "plait.facts.credentials"),
    *("plait.facts.echo", "plait.facts.names"),
    *("plait.searching.joining", "plait.searching.recall", "plait.text.capitals"),
    *(f"plait.stores.sqlite.{part}" for part in ("journal", "pages", "reading")),
}
# Opening a memory for reading only needs a URI, and secrets are looked for in any script.
HOOK_LOADS_OF_OTHERS = {"urllib", "ipaddress", "struct", "unicodedata"}


@pytest.fixture
def hook_loads(tmp_path):
    """What a hook at a prompt loads, where it shows something."""
    database = str(tmp_path / "memory.db")
    with plait.Memory.open(database, project="") as memory:
        memory.ingest(SAMPLE / "runbooks")
    act = """
from plait.cli.hook import _asked
from plait.cli import arguments_for
from plait.agents.hooks.answering import respond
told = []
respond(
    _asked(arguments_for(sys.argv[1:])[1]), b'{"prompt": "how do we rotate ssh keys"}', told.append
)
assert "authorized_keys" in told[1]
"""
    return loaded_by(
        act, "--db", database, "--project", "personal", "hook", "codex", "UserPromptSubmit"
    )


def test_a_hook_loads_little_more_than_a_search(hook_loads):
    ours = {name for name in hook_loads if name.partition(".")[0] == "plait"}
    assert ours - SEARCH_LOADS == HOOK_LOADS
    assert theirs(hook_loads) <= SEARCH_LOADS_OF_OTHERS | HOOK_LOADS_OF_OTHERS


@pytest.mark.parametrize("words", [("get", "n"), ("timeline",)], ids=lambda words: words[0])
def test_reading_loads_nothing_of_the_write_path(tmp_path, words):
    database = str(tmp_path / "memory.db")
    with plait.Memory.open(database, embedder="none", project="") as memory:
        memory.store("A note.", key="n")
    act = "from plait.cli import main\nassert main(sys.argv[1:]) == 0"
    loaded = loaded_by(act, "--db", database, "--project", "personal", *words)
    ours = {name for name in loaded if name.startswith("plait.writing.")}
    assert ours <= {"plait.writing.held_secrets", "plait.writing.use"}


def test_named_tuples_are_those_that_are_quick_to_define():
    # errors.py cannot use them: it is loaded before the package that has them.
    others = {SOURCE / "errors.py", SOURCE / "types" / "records.py"}
    for path in sorted({*modules()} - others):
        imported = re.search(r"^from typing import .*\bNamedTuple\b", path.read_text("utf-8"), re.M)
        assert imported is None, f"{path.name}: import NamedTuple from plait.types.records"


def test_importing_plait_is_light():
    loaded = loaded_by("import plait")
    assert {name for name in loaded if name.startswith("plait")} == IMPORT_LOADS
    assert not {"apsw", "simsimd", "argparse"} & theirs(loaded)
    assert not theirs(loaded) & TOO_HEAVY


# -- size ----------------------------------------------------------------------------------

# Rooms that the contract has named from the start; they have a place whether they are built or not.
PLANNED = {"chat", "http", "tools"}
MOST_TOP_LEVEL_NAMES = 21
MOST_ROWS = 10
MOST_LINES = 500
MOST_STORE_METHODS = 29
MOST_FILES_OF_A_SEARCH = 35
MOST_CROSSINGS_OF_A_SEARCH = 12
MOST_CROSSINGS_OF_A_STORE = 8
CROSSINGS_FOR_A_TOPIC = 1  # is it known in other letters?


def top_level_names() -> set[str]:
    return {path.stem for path in SOURCE.iterdir() if not path.name.startswith(("_", "py."))}


@cache
def syntax_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def test_the_house_has_few_rooms_in_few_rows():
    rows = runpy.run_path(str(ROOT / "docs" / "layers.py"))["rows"]()
    assert len(top_level_names() - PLANNED) <= MOST_TOP_LEVEL_NAMES
    assert len(rows) <= MOST_ROWS
    in_contract = {name for row in rows for name in (*row.modules, *row.planned)}
    assert in_contract == top_level_names() | PLANNED


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_no_file_is_too_long_to_read(path):
    assert path.read_text(encoding="utf-8").count("\n") <= MOST_LINES


def test_text_of_another_process_is_read_in_a_named_encoding():
    """`make test` warns of it where it runs; here it fails in any run, and also where none does."""
    unnamed = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for folder in ("src", "tests", "benchmarks", "training", "examples", "docs")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "text=True" in path.read_text(encoding="utf-8")  # to parse every file takes seconds
        for node in ast.walk(syntax_of(path))
        if isinstance(node, ast.Call)
        for given in [{keyword.arg: keyword.value for keyword in node.keywords}]
        if getattr(given.get("text"), "value", None) is True and "encoding" not in given
    ]
    assert unnamed == []


def test_a_store_has_few_methods():
    assert len(methods(Store)) <= MOST_STORE_METHODS


@pytest.fixture
def crossings(tmp_path, monkeypatch):
    """How often each method of the store is called, for a memory that holds some notes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLAIT_DB_PATH", str(tmp_path / "memory.db"))
    with plait.Memory.open(project="") as memory:
        memory.ingest(SAMPLE / "runbooks")
        memory.store("We deploy on Mondays.")  # like what is stored below, so they are compared
    counts: Counter[str] = Counter()
    open_store = stores.open_store
    monkeypatch.setattr(
        stores, "open_store", lambda *args, **kw: crossings_of(open_store(*args, **kw), counts)
    )
    return counts


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (["search", "rotate ssh keys"], MOST_CROSSINGS_OF_A_SEARCH),
        (["store", "We deploy on Fridays."], MOST_CROSSINGS_OF_A_STORE),
        (
            ["store", "We deploy on Fridays.", "--topic", "deploys"],
            MOST_CROSSINGS_OF_A_STORE + CROSSINGS_FOR_A_TOPIC,
        ),
    ],
    ids=["search", "store", "store under a topic"],
)
def test_an_act_crosses_the_store_a_few_times(crossings, words, most):
    assert main(words) == 0
    crossings.pop("close")
    assert 3 <= crossings.total() <= most, crossings


def test_a_search_visits_few_files(tmp_path):
    database = str(tmp_path / "memory.db")
    with plait.Memory.open(database, project="") as memory:
        memory.ingest(SAMPLE / "runbooks")
    visited = files_visited("--db", database, "search", "rotate ssh keys")
    assert "searching/search.py" in visited
    # Nobody reads how a named tuple works to follow a search.
    assert len({*visited} - {"types/records.py"}) <= MOST_FILES_OF_A_SEARCH, visited


def test_the_page_on_the_design_has_the_numbers_of_today():
    page = " ".join((ROOT / "docs" / "design" / "README.md").read_text(encoding="utf-8").split())
    assert f"A search for three words visits at most {MOST_FILES_OF_A_SEARCH} files" in page
    assert f"`Store` has {MOST_STORE_METHODS} methods" in page
    assert f"is a protocol of {MOST_STORE_METHODS} methods" in page
    assert f"Few stop words: {len(STOP_WORDS)} " in page
    assert f"`agents` is the {MOST_TOP_LEVEL_NAMES}st name" in page


def test_every_folder_says_what_belongs_in_it_and_what_does_not():
    negations = re.compile(r"\b(nothing|only|not|no|never|belongs? (in|to)|without)\b", re.I)
    for path in SOURCE.rglob("__init__.py"):
        says = ast.get_docstring(syntax_of(path)) or ""
        assert path.parent == SOURCE or negations.search(says), path.parent.name


def test_a_module_at_the_top_has_several_users_or_is_a_door():
    users: dict[str, set[str]] = {name: set() for name in top_level_names()}
    eager: dict[str, set[str]] = {name: set() for name in top_level_names()}
    for path in modules():
        user = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for node in ast.walk(syntax_of(path)):
            if not isinstance(node, ast.ImportFrom) or node.level or not node.module:
                continue
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in {f"{name}..".split(".")[1] for name in names if name.startswith("plait.")}:
                if name in users and name != user:
                    users[name].add(user)
                    if node.col_offset == 0:
                        eager[name].add(user)
    doors = {"cli", "mcp"}
    assert {name for name in users if not users[name]} <= doors, "nobody uses it"
    lonely = {name for name in users if len(users[name]) < 2} - doors
    assert {name for name in lonely if eager[name] - doors} == set(), "not loaded lazily either"


# -- names ---------------------------------------------------------------------------------


def defined(path: Path) -> set[str]:
    """The public classes and constants of a module."""
    names: set[str] = set()
    for node in syntax_of(path).body:
        match node:
            case ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return {name for name in names if not name.startswith("_") and name[0].isupper()}


def test_no_public_class_or_constant_has_two_meanings():
    # Two engines may give the same thing the same name.
    engines = (SOURCE / "stores", SOURCE / "testing")
    places: dict[str, set[Path]] = {}
    for path in modules():
        place = engines[0] if any(path.is_relative_to(engine) for engine in engines) else path
        for name in defined(path):
            places.setdefault(name, set()).add(place)
    twice = {name: sorted(paths) for name, paths in places.items() if len(paths) > 1}
    assert twice == {}


def names_in(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(syntax_of(path)):
        for field in ("id", "arg", "attr", "name"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                names.add(value)
    return names


def test_names_tell_what_was_found_and_what_was_said():
    empty = re.compile(r"(\w+_)?(found|said)(_\w+)?")
    allowed = {"not_found"}  # a field of memory_get's reply
    for path in modules():
        assert {name for name in names_in(path) if empty.fullmatch(name)} <= allowed, path.name


def test_users_never_meet_our_numbers_for_the_five_systems():
    for path in [*modules(), *PAGES]:
        text = path.read_text(encoding="utf-8")
        numbered = set(re.findall(r"\bseed[ -]?00\d\b", text, re.I))
        # The old word of an option, still accepted.
        assert numbered <= {"seed001"}, path.name
        if path.suffix == ".py" and numbered:
            assert "FUSION_ALIASES" in text, path.name


def test_the_public_names_are_sorted_complete_and_there():
    assert plait.__all__ == sorted(plait.__all__)
    public = {
        name
        for name, value in vars(plait).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("plait.")
    }
    assert set(plait.__all__) == public | {
        *("Embedder", "Memory", "NewEntity", "Relation", "__version__")
    }
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
    assert readers == {"settings/loading.py"}


def test_no_module_is_called_after_nothing():
    empty = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "core", "base"}
    # tools/core.py is the profile of tools that users know by the name "core".
    paths = {path for path in SOURCE.rglob("*.py") if path != SOURCE / "tools" / "core.py"}
    assert not {path.stem for path in paths} & empty


# -- pages ---------------------------------------------------------------------------------


@cache
def generated() -> dict[str, str]:
    pages: dict[str, str] = runpy.run_path(str(ROOT / "docs" / "generate.py"))["pages"]()
    return pages


@pytest.mark.parametrize("name", ["cli.md", "configuration.md"])
def test_the_generated_pages_are_up_to_date(name):
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == generated()[name], "run: python docs/generate.py"


@cache
def layer_pages() -> dict[str, str]:
    pages: dict[str, str] = runpy.run_path(str(ROOT / "docs" / "layers.py"))["pages"]()
    return pages


@pytest.mark.parametrize("name", ["AGENTS.md", "CONTRIBUTING.md", "docs/design/README.md"])
def test_the_layers_of_a_page_are_those_of_the_contract(name):
    written = (ROOT / name).read_text(encoding="utf-8")
    assert written == layer_pages()[name], "run: python docs/generate.py"


def test_nobody_is_told_to_install_plait_from_an_index():
    # It is in none, and another project may have the name there.
    pages = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.md"), *(ROOT / "docs").rglob("*.md")]
    by_name = re.compile(r"(?:pip|tool|pipx) install\b[^\n.]*['\" ]plait(?:\[|['\"\s])")
    told = [
        f"{path}: {found[0]}"
        for path in [ROOT / "README.md", *pages]
        if (found := by_name.search(path.read_text(encoding="utf-8")))
    ]
    assert told == []


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


def test_every_file_that_contributing_sends_you_to_exists():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page.partition("## How the code is laid out")[2].partition("## What a change needs")[
        0
    ]
    paths = set(re.findall(r"`((?:[a-z_]+/)+(?:\w+\.py)?|\w+\.py)`", section)) - {"__init__.py"}
    assert len(paths) > 20
    missing = {
        path for path in paths if not any((place / path).exists() for place in (SOURCE, ROOT))
    }
    assert missing == set()


def test_every_case_of_the_systems_that_plait_replaces_has_a_test():
    page = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    cases = re.findall(r"^\| (\d+) \| [^|]+ \| (.*) \|$", page, re.M)
    assert len(cases) == 12 + 43
    assert [number for number, answer in cases if not answer.strip()] == []
    tests = ROOT / "tests"
    written = {
        (path.relative_to(tests).as_posix(), name)
        for path in tests.rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.M)
    }
    files = r"`((?:\w+/)+test_\w+\.py)`"
    named = {
        (path, name)
        for path, listed in re.findall(rf"{files}: ((?:`test_[^`]+`(?:, | and )?)+)", page)
        for name in re.findall(r"`(test_\w+)", listed)
    }
    assert len(named) > 40
    assert named - written == set()
    assert {name for name in re.findall(files, page) if not (tests / name).exists()} == set()


def test_every_promise_of_security_md_has_tests():
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| [^|]+ \| (`.*`) \|$", page, re.M)
    assert len(rows) > 20
    for row in rows:
        for name in re.findall(r"`([^`]+)`", row):
            assert (ROOT / "tests" / name).is_file(), name


def test_agents_md_names_every_room_and_stays_short():
    agents = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    assert agents.count("\n") < 60
    rooms = {path.stem for path in SOURCE.iterdir() if not path.name.startswith(("_", "py."))}
    for room in rooms:
        assert f"`{room}`" in agents, room


def test_no_page_and_no_module_names_a_place_on_somebodys_machine():
    tracked = [*SOURCE.rglob("*.py"), *PAGES, ROOT / "Makefile", ROOT / "pyproject.toml"]
    for path in tracked:
        place = re.search(r"/(?:root|home/\w+|Users/\w+|work)/", path.read_text(encoding="utf-8"))
        assert place is None, f"{place and place[0]} in {path.name}"
