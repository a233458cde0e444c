"""Packages that run late: what a plain import gives, at the price of what is used."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plait.chat.late_packages import names_passed_on
from tests.chat.server import Call, ChatServer, Reply

Run = Callable[[str], Any]

# A small package of the shape of the providers': each module that runs notes its name.
NOTE = "import builtins\nbuiltins.ran = [*getattr(builtins, 'ran', []), __name__]\n"
SDK = {
    "sdk/__init__.py": NOTE + "from . import types\nfrom ._client import Client\n"
    "from .types import Answer, Model\n__all__ = ['Client', 'types', 'Answer', 'Model']\n",
    "sdk/_client.py": NOTE + "from . import _errors\nfrom .types import Model\n"
    "from .types.beta import Tool\nfrom ._errors import Error\n\nclass Client:\n"
    "    model = Model\n    error = _errors.Error\n    tool = Tool\n",
    "sdk/_errors.py": NOTE + "class Error(Exception):\n    pass\n",
    "sdk/types/__init__.py": '"""Types."""\n\nfrom __future__ import annotations\n\n'
    "from .model import Model as Model\nfrom .answer import Answer as Answer, ANSWERS\n",
    "sdk/types/model.py": NOTE + "class Model:\n    pass\n",
    "sdk/types/answer.py": NOTE + "from .model import Model\nANSWERS = [Model]\n\n"
    "class Answer:\n    pass\n",
    "sdk/types/beta/__init__.py": "from .tool import Tool as Tool\n"
    "from .much import Much as Much\n",
    "sdk/types/beta/tool.py": NOTE + "class Tool:\n    pass\n",
    "sdk/types/beta/much.py": NOTE + "class Much:\n    pass\n",
}
LATE = """
import builtins, json, sys
from plait.chat.late_packages import late_packages
with late_packages("sdk"):
    from sdk._client import Client
early = builtins.ran
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run code in a fresh process that can import `sdk`; return what it shows as JSON."""
    for name, text in SDK.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")

    def run(code: str) -> Any:
        return shown(code, cwd=tmp_path)

    return run


def shown(code: str, *words: str, cwd: Path | None = None) -> Any:
    command = [sys.executable, "-W", "error", "-c", code, *words]
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", cwd=cwd, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_only_what_is_used_runs(run):
    assert run(LATE + "print(json.dumps(early))") == [
        "sdk._client",
        "sdk._errors",
        "sdk.types.model",
        "sdk.types.beta.tool",
    ]


@pytest.mark.parametrize(
    "use",
    [
        "import sdk\nuse = sdk.types.beta.Much, sdk.Answer, sdk.types.ANSWERS",
        "import sdk\nuse = sdk.types.beta.much.Much, sdk.types.answer.Answer, 1",
        "from sdk.types.beta import *\nfrom sdk import *\nuse = Much, Answer, 1",
        "from sdk.types.beta.much import Much\nfrom sdk import Answer\nuse = Much, Answer, 1",
        "import sdk.types.beta.much\nuse = sdk.types.beta.much.Much, vars(sdk)['Answer'], 1",
        "use = [getattr(sys.modules['sdk._client'], 'Client').model]\nimport sdk",
    ],
)
def test_all_of_it_is_there_for_who_imports_it_later(run, use):
    seen = run(
        LATE
        + use
        + """
import sdk, types
print(json.dumps({
    "is_same": [sdk.Client is Client, sdk.Model is Client.model, sdk._client.Client is Client,
                sdk.types.beta.Tool is Client.tool, sdk._errors.Error is Client.error],
    "kinds": sorted({type(m).__name__ for n, m in sys.modules.items() if n.startswith("sdk")}),
    "names": [*dir(sdk)], "types": [*dir(sdk.types)], "file": sdk.__spec__.loader.path,
    "ran": sorted(builtins.ran),
}))
"""
    )
    plain = run(
        "import builtins, json, sdk\n"
        "print(json.dumps([sorted(builtins.ran), dir(sdk), dir(sdk.types), sdk.__file__]))"
    )
    assert [seen["ran"], seen["names"], seen["types"], seen["file"]] == plain
    assert all(seen["is_same"]) and seen["kinds"] == ["module"]


def test_a_reference_to_a_late_package_runs_it(run):
    got = run(
        LATE.replace("import Client", "import Client\n    from sdk import types")
        + "before = [*builtins.ran]\n"
        + "print(json.dumps([before == early, 'sdk' in before, types.Answer.__name__, "
        "'sdk' in builtins.ran, type(types).__name__]))"
    )
    assert got == [True, False, "Answer", True, "module"]


def test_threads_that_use_it_at_once_all_get_all_of_it(run):
    got = run(
        LATE
        + """
import threading
sys.setswitchinterval(1e-6)
kept = {}
gate = threading.Barrier(16)
def use(number):
    gate.wait()
    if number % 2:
        import sdk
        kept[number] = sdk.Answer, sdk.types.beta.Much, sdk.Client
    else:
        from sdk import Answer, Client  # first: threads that begin inside may block each other
        from sdk.types.beta import Much  # in any package
        kept[number] = Answer, Much, Client
threads = [threading.Thread(target=use, args=(number,)) for number in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(json.dumps([len(kept), len({*kept.values()}), len(builtins.ran), len({*builtins.ran})]))
"""
    )
    assert got[:2] == [16, 1] and got[2] == got[3]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("sdk/_client.py", "from .elsewhere import Client\n"),
        ("sdk/_client.py", "from .types import Nobody\n"),
        ("sdk/_client.py", "from . import types\nclass Client:\n    x = types.model.Model\n"),
        ("sdk/_client.py", "raise TypeError('other')\n"),
        ("sdk/_client.py", "raise RuntimeError('half a class')\n"),
        ("sdk/_client.py", "raise RecursionError\n"),
        ("sdk/_client.py", "assert not __name__\n"),
        ("sdk/_client.py", "class\n"),
        ("sdk/_client.py", None),
    ],
)
def test_if_it_fails_the_package_is_as_if_never_imported(run, tmp_path, file, text):
    (tmp_path / file).unlink()
    if text is not None:
        (tmp_path / file).write_text(text, "utf-8")
    got = run(
        "import sys, json\nfinders = [*sys.meta_path]\n"
        "from plait.chat.late_packages import late_packages\n"
        "try:\n    with late_packages('sdk'):\n        from sdk._client import Client\n"
        "except ImportError as error:\n    failed = True\n"
        "left = [name for name in sys.modules if name.startswith('sdk')]\n"
        "print(json.dumps([failed, left, sys.meta_path == finders]))"
    )
    assert got == [True, [], True]


def test_another_package_of_that_name_that_comes_first_later_is_not_run(run, tmp_path):
    clone = tmp_path / "clone"
    for package in ("sdk", "sdk/types"):
        (clone / package).mkdir(parents=True)
        (clone / package / "__init__.py").write_text(
            "import builtins\nbuiltins.ran = 'clone'\n", "utf-8"
        )
    got = run(
        LATE
        + f"import os\nsys.path[:0] = [{str(clone)!r}, '']\nos.chdir({str(clone)!r})\n"
        + "import sdk\n"
        + "print(json.dumps(['clone' in builtins.ran, sdk.__spec__.origin, sdk.__file__]))"
    )
    assert got == [False, *[str(tmp_path / "sdk" / "__init__.py")] * 2]


def test_a_package_that_is_imported_already_and_one_among_threads_stay_as_they_are(run):
    late = "with late_packages('sdk'):\n    from sdk._client import Client\n"
    tell = "print(json.dumps([len(sys.meta_path) - finders, 'sdk.types.answer' in sys.modules]))"
    begin = "import json, sys, threading\nfrom plait.chat.late_packages import late_packages\n"
    begin += "finders = len(sys.meta_path)\n"
    assert run(begin + "import sdk\n" + late + tell) == [0, True]
    waiting = "end = threading.Event()\nthreading.Thread(target=end.wait).start()\n"
    assert run(begin + waiting + late + "end.set()\n" + tell) == [0, True]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("from .a import b as c, d\n", {"c": (".a", "b"), "d": (".a", "d")}),
        ("'''Types.'''\nfrom __future__ import annotations\n", {}),
        ("from .a import *\n", None),
        ("from . import a\n", None),
        ("from ..a import b\n", None),
        ("from a import b\n", None),
        ("from .a import b\nb.rebuild()\n", None),
        ("try:\n    from .a import b\nexcept ImportError:\n    pass\n", None),
    ],
)
def test_only_a_package_that_passes_on_names_of_its_modules_can_be_late(tmp_path, text, names):
    (tmp_path / "p.py").write_text(text, "utf-8")
    assert names_passed_on(str(tmp_path / "p.py")) == names


def test_a_package_that_does_more_runs_at_once(run, tmp_path):
    (tmp_path / "sdk/types/beta/__init__.py").write_text(
        NOTE + "from .tool import Tool\nfrom .much import Much\n", "utf-8"
    )
    ran = run(LATE + "print(json.dumps(early))")
    assert ran[3:] == ["sdk.types.beta", "sdk.types.beta.tool", "sdk.types.beta.much"]


# -- the providers' packages -------------------------------------------------------------------

ALL_NAMES = """
import importlib, json, sys
from types import ModuleType
root = sys.argv[1]
if len(sys.argv) > 2:
    importlib.import_module(f"plait.chat.{root}")
    early = {name for name in sys.modules if name.startswith(root)}
    assert root not in early, "it was imported as a whole"
package = importlib.import_module(root)
inner = {name: importlib.import_module(f"{root}.{name}") for name in ("types", "_exceptions")}
if len(sys.argv) > 2:
    assert len(early) < 0.5 * sum(name.startswith(root) for name in sys.modules), len(early)
    client = sys.modules[f"plait.chat.{root}"]
    assert client.APIStatusError is package.APIStatusError and client.Stream is package.Stream
    assert issubclass(package.RateLimitError, client.APIStatusError)
def touch(module):
    for value in [*vars(module).values()]:
        if isinstance(value, ModuleType) and value.__name__.startswith(f"{module.__name__}."):
            touch(value)
touch(inner["types"])
names = {where: sorted(dir(module)) for where, module in {"": package, **inner}.items()}
names["loaded"] = sorted(name for name in sys.modules if name.startswith(root))
print(json.dumps(names))
"""


@pytest.mark.parametrize("package", ["anthropic", "openai"])
def test_the_client_comes_without_its_types_and_whoever_wants_them_gets_them(package):
    assert shown(ALL_NAMES, package, "late") == shown(ALL_NAMES, package)


@pytest.mark.parametrize("package", ["anthropic", "openai"])
def test_an_answer_loads_no_more_of_the_client_and_an_error_is_told_with_all_of_it(
    package, tmp_path
):
    code = (
        "import json, sys\nfrom plait.cli import main\n"
        "for _ in range(2):\n"
        "    code = main(sys.argv[2:])\n"
        "    print(json.dumps([code, sys.argv[1] in sys.modules]), file=sys.stderr)\n"
        "    __import__(sys.argv[1])\n"
    )
    replies = [Reply(Call("memory_search", {"query": "x"})), Reply("Yes."), Reply(fault="401")]
    with ChatServer(replies) as server:
        words = ["--db", str(tmp_path / "m.db"), "chat", "hi", *server.options(package)]
        command = [sys.executable, "-c", code, package, *words]
        done = subprocess.run(
            command, capture_output=True, text=True, encoding="utf-8", cwd=tmp_path, check=False
        )
    lines = done.stderr.splitlines()
    assert [lines[0], lines[-1]] == ["[0, false]", "[1, true]"], done.stderr
    assert json.loads(done.stdout)["answer"] == "Yes." and "refused the key" in lines[1]
