"""Every public method of `Memory` and `Graph`, the commands, and faults to try them in.

Run as a program it tries each method in each fault, always in a process of its own, as ``python -m
tests.interfaces.library_verbs FOLDER``, and prints what came out.
"""

import importlib
import io
import json
import os
import pkgutil
import resource
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import plait
from plait.cli import NOTHING_FOUND
from plait.cli import main as main_of_cli
from plait.errors import PlaitError
from plait.memory import Memory
from plait.types import Document
from plait.types.relations import Relation
from plait.types.reports import NewEntity

NOBODY = 65534
QUESTIONS = {
    "corpus.jsonl": '{"_id": "1", "title": "", "text": "We deploy on Fridays."}\n',
    "queries.jsonl": '{"_id": "q", "text": "when do we deploy"}\n',
    "qrels.tsv": "query-id\tcorpus-id\tscore\nq\t1\t1\n",
}
Act = Callable[[Memory, Path], Any]
EXPORT = [
    '{"format": "plait", "version": 1}',
    json.dumps({"key": "imported", "kind": "note", "text": "We sing on Sundays. " * 400}),
]


def prune(memory: Memory) -> object:
    """Prune by a rule: without one, nothing is read."""
    settings = memory.config.settings._replace(keep_days=(("note", 1.0),))
    memory.config = memory.config._replace(settings=settings)
    return memory.prune()


# By the name of the method; a property is read.
MEMORY_VERBS: dict[str, Act] = {
    "open": lambda memory, folder: Memory.open(memory.path, embedder="none").close(),
    "close": lambda memory, folder: memory.close(),
    "engine": lambda memory, folder: memory.engine,
    "embedder": lambda memory, folder: memory.embedder,
    "graph": lambda memory, folder: memory.graph,
    "team": lambda memory, folder: memory.team.visibilities([]),
    "outdated_rules": lambda memory, folder: memory.outdated_rules(),
    "scope": lambda memory, folder: memory.scope("user:7").store("Mine.", key="mine"),
    "reindex": lambda memory, folder: memory.reindex(embeddings=True, compact=True),
    "stats": lambda memory, folder: memory.stats(),
    "doctor": lambda memory, folder: memory.doctor(fix=True),
    "examine": lambda memory, folder: Memory.examine(memory.path, fix=True),
    "backup": lambda memory, folder: memory.backup(folder / "home" / "copy.db"),
    "restore": lambda memory, folder: Memory.restore(folder / "backup.db", memory.path),
    "salvage": lambda memory, folder: Memory.salvage(memory.path, folder / "home" / "saved.db"),
    "export": lambda memory, folder: list(memory.export()),
    "export_graph": lambda memory, folder: list(memory.export_graph()),
    "export_folder": lambda memory, folder: memory.export_folder(folder / "home" / "snapshot"),
    "import_lines": lambda memory, folder: memory.import_lines(map(str, EXPORT)),
    "import_from": lambda memory, folder: memory.import_from(folder / "export.jsonl"),
    "store": lambda memory, folder: memory.store("Bea prefers coffee." * 400, entity="Bea"),
    "store_many": lambda memory, folder: memory.store_many([Document(key="k", text="A" * 9_000)]),
    "add_messages": lambda memory, folder: memory.add_messages(
        [{"role": "user", "content": "A" * 9_000}], session="s"
    ),
    "ingest": lambda memory, folder: memory.ingest(folder / "notes"),
    "used": lambda memory, folder: memory.used([1]),
    "write_down_use": lambda memory, folder: memory.write_down_use(),
    "search": lambda memory, folder: memory.search("deploy", where={"entity": "Ana"}),
    "recall": lambda memory, folder: memory.recall("deploy on Fridays"),
    "overview": lambda memory, folder: memory.overview(),
    "get": lambda memory, folder: memory.get("plan"),
    "lookup": lambda memory, folder: memory.lookup("plan"),
    "lookup_many": lambda memory, folder: memory.lookup_many(["plan", "nothing"]),
    "conversation": lambda memory, folder: memory.conversation("s"),
    "successors": lambda memory, folder: memory.successors(
        [Document(id="abcdefghijklm", valid_to=1)]
    ),
    "earlier": lambda memory, folder: memory.earlier(
        [Document(id="abcdefghijklm", supersedes="nopqrstuvwxyz")]
    ),
    "secrets": lambda memory, folder: memory.secrets(memory.timeline()),
    "links": lambda memory, folder: [memory.links(row) for row in memory.timeline()],
    "passages_of": lambda memory, folder: memory.passages_of("abcdefghijklm"),
    "unshown_facts": lambda memory, folder: memory.unshown_facts(memory.timeline()),
    "timeline": lambda memory, folder: memory.timeline(anchor="plan"),
    "delete": lambda memory, folder: memory.delete("plan", purge=True),
    "undo": lambda memory, folder: memory.undo(),
    "mark": lambda memory, folder: memory.mark("plan", status="done"),
    "unmark": lambda memory, folder: memory.unmark(memory.mark("plan", status="done")),
    "feedback": lambda memory, folder: memory.feedback("plan", "good"),
    "log": lambda memory, folder: memory.log(),
    "prune": lambda memory, folder: prune(memory),
    "maintain": lambda memory, folder: memory.maintain(folder),
    "is_off": lambda memory, folder: memory.is_off,
    "is_there": lambda memory, folder: memory.is_there,
}
GRAPH_VERBS: dict[str, Act] = {
    "create": lambda memory, folder: memory.graph.create([NewEntity("Cid", "person", ("Tall.",))]),
    "observe": lambda memory, folder: memory.graph.observe([("Ana", ["Short."])]),
    "forget": lambda memory, folder: memory.graph.forget([("Ana", ["Ana prefers tea."])]),
    "relate": lambda memory, folder: memory.graph.relate([Relation("Ana", "Dan", "knows")]),
    "unrelate": lambda memory, folder: memory.graph.unrelate([Relation("Ana", "Dan", "likes")]),
    "delete": lambda memory, folder: memory.graph.delete(["Dan"]),
    "open": lambda memory, folder: memory.graph.open(["Ana"]),
    "ids_of": lambda memory, folder: memory.graph.ids_of(["Ana"]),
    "search": lambda memory, folder: memory.graph.search("tea"),
    "read": lambda memory, folder: memory.graph.read(),
    "neighbours": lambda memory, folder: memory.graph.neighbours("Ana"),
    "count_as_read": lambda memory, folder: memory.graph.count_as_read(["abcdefghijklm"]),
    "elsewhere": lambda memory, folder: memory.graph.elsewhere(["Ana"]),
    "search_semantic": lambda memory, folder: memory.graph.search_semantic("tea"),
}
VERBS = {
    **MEMORY_VERBS,
    **{f"graph.{name}": act for name, act in GRAPH_VERBS.items()},
}
COMMANDS = (
    "plait store Something",
    "plait search deploy",
    "plait recall deploy",
    "plait overview",
    "plait get plan",
    "plait timeline",
    "plait entity list",
    "plait delete plan",
    "plait reindex",
    "plait stats",
    "plait doctor",
    "plait ingest notes",
    "plait export",
    "plait export all.jsonl",
    "plait export --format markdown home/snapshot",
    "plait import export.jsonl",
    "plait backup home/copy.db",
    "plait restore backup.db",
    "plait eval questions",
    "plait models",
    "plait config",
)


def prepare(folder: Path) -> None:
    """A memory in ``home``, and beside it notes, questions, a backup and an export."""
    (folder / "home").mkdir(parents=True)
    (folder / "notes").mkdir()
    (folder / "notes" / "new.md").write_text("# New\n\nSomething new.\n" * 300, encoding="utf-8")
    (folder / "export.jsonl").write_text("\n".join(EXPORT), encoding="utf-8")
    (folder / "questions").mkdir()
    for name, text in QUESTIONS.items():
        (folder / "questions" / name).write_text(text, encoding="utf-8")
    with Memory.open(folder / "home" / "memory.db", embedder="hashing", project="") as memory:
        memory.store("We deploy on Fridays.", key="plan")
        memory.store("We paint on Mondays.", key="kept")
        memory.store("Ana prefers tea.", entity="Ana")
        memory.store("Dan is new.", entity="Dan")
        memory.graph.relate([Relation("Ana", "Dan", "likes")])
        memory.store("Old.", key="old")
        memory.delete("old")
        memory.backup(folder / "backup.db")


@contextmanager
def no_descriptors(folder: Path) -> Iterator[None]:
    """Nothing can be opened any more."""
    held = []
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        yield
    finally:
        for handle in held:
            os.close(handle)


@contextmanager
def file_removed(folder: Path) -> Iterator[None]:
    """The memory's files are gone for a while, as on a drive that was unmounted."""
    files = list((folder / "home").glob("memory.db*"))
    for file in files:
        file.rename(folder / file.name)
    yield
    for file in (folder / "home").glob("memory.db*"):
        file.unlink()
    for file in files:
        (folder / file.name).rename(file)


@contextmanager
def no_permission(folder: Path) -> Iterator[None]:
    """Nobody may look into the folder of the memory, nor at the others."""
    for name in ("home", "notes"):
        (folder / name).chmod(0)
    yield
    for name in ("home", "notes"):
        (folder / name).chmod(0o755)


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """No file may grow beyond one page."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


NOTHING_LOADED = "no descriptors, nothing loaded"
FAULTS = {
    "no descriptors": no_descriptors,
    NOTHING_LOADED: no_descriptors,
    "file removed": file_removed,
    "no permission": no_permission,
    "full disk": full_disk,
}


def outcome(fault: str, verb: str, folder: Path) -> str:
    """Try a verb in a fault, then see whether the memory works again."""
    if fault == "no permission" and os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    if FAULTS[fault] is no_descriptors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    path = folder / "home" / "memory.db"
    if verb not in VERBS:
        with FAULTS[fault](folder):
            return answer_of(
                ["--db", str(path), "--embedder", "hashing", *verb.split()[1:]], folder
            )
    memory = Memory.open(path, embedder="hashing", project="")
    result = "done"
    with FAULTS[fault](folder):
        try:
            VERBS[verb](memory, folder)
        except PlaitError as error:
            result = f"{error.code}: {error}"
        except Exception:  # noqa: BLE001 - this is what is looked for
            return traceback.format_exc()
    problem = "" if result == "done" and verb != "close" else problem_afterwards(memory, path, verb)
    return f"{result}; afterwards: {problem}" if problem else result


def answer_of(words: Sequence[str], folder: Path) -> str:
    """Return what a command says if it fails."""
    os.chdir(folder)
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    code = main_of_cli(words)
    told = sys.stderr.getvalue()
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    return "done" if code in (0, NOTHING_FOUND) else told


def problem_afterwards(memory: Memory, path: Path, verb: str) -> str:
    """Return what is wrong with a memory after the fault has passed."""
    if verb == "close":
        memory = Memory.open(path, embedder="hashing", project="")
    if memory.get("kept").text != "We paint on Mondays." or not memory.search("paint"):
        return "something is missing"
    memory.store("It works again.", key="again")
    memory.close()
    with Memory.open(path, embedder="hashing", project="") as again:
        again.get("again")
        again.doctor(fix=True)  # a purge that was interrupted is finished here
        return "; ".join(row.message for row in again.doctor() if row.level != "ok")


def in_process_of_its_own(act: Callable[[], str]) -> str:
    """Return what an act in a fork of this process answers."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = act()
        except BaseException:  # noqa: BLE001 - nothing may return into the parent's loop
            answer = traceback.format_exc()
        os.write(writing, answer.encode()[:30_000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as answers:
        answer = answers.read()
    os.waitpid(child, 0)
    return answer or "the process died"


def outcomes_in(fault: str, folder: Path) -> dict[str, str]:
    """Try each verb in a fault, on a copy of what was prepared."""
    outcomes = {}
    for number, verb in enumerate((*VERBS, *COMMANDS)):
        place = folder / fault / str(number)
        shutil.copytree(folder / "prepared", place)
        if os.getuid() == 0:
            for file in (place, *place.rglob("*")):
                os.chown(file, NOBODY, NOBODY)
        outcomes[verb] = in_process_of_its_own(partial(outcome, fault, verb, place))
    return outcomes


def main() -> None:
    """Print the outcome of each verb in each fault as JSON."""
    folder = Path(sys.argv[1])
    outcomes = {NOTHING_LOADED: outcomes_in(NOTHING_LOADED, folder)}
    # The interpreter may live in a folder that is root's alone.
    for module in pkgutil.walk_packages(plait.__path__, "plait."):
        if not module.name.endswith("__main__") and ".adapters." not in module.name:
            importlib.import_module(module.name)
    for fault in FAULTS:
        if fault != NOTHING_LOADED:
            outcomes[fault] = outcomes_in(fault, folder)
    sys.stdout.write(json.dumps(outcomes))


if __name__ == "__main__":
    main()
