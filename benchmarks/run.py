"""Measure every operation of plait at several sizes, and other systems beside it: ``make bench``.

A run that was interrupted goes on where it stopped, as long as the code is the same. Everything it
needs lies in ``.bench``: about 1.5 GB with the other systems, and 4 GB more for a million passages.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import corpus
import databases
import fresh
import measure
import peers
import summary
import warm

from plait.memory import named_embedder

ROOT = Path(__file__).resolve().parent.parent
SIZES = (10_000, 100_000)
MILLION = 1_000_000
# Files, text, index and vectors of a passage, twice over for the copy that is written to.
DISK_BYTES_PER_PASSAGE = 5_000
QUESTIONS = 50  # of each kind
KEYS = 60
# New processes, warm calls. Of twenty calls or fewer, the 95th percentile is the maximum.
SAMPLES = (24, QUESTIONS)
PEER_SAMPLES = 5
PEER_PASSAGES = 100_000  # larger ones only for plait: some peers would take an hour
PATIENCE_S = 420  # for one step of a peer, or one operation
FILES = 400
PASSAGES_PER_FILE = 8
# One thread each: CPU time would not show what several cost, but others on the machine feel it.
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "RAYON_NUM_THREADS",
        "LANCE_CPU_THREADS",
        "TOKIO_WORKER_THREADS",
    ),
    "1",
)
NOT_TRIED = (
    "qmd (needs npm and bun), txtai (needs PyTorch), semble and others that download a model: "
    "not tried"
)


def say(text: str) -> None:
    sys.stderr.write(f"{datetime.now(tz=UTC):%H:%M:%S}  {text}\n")


class Book:
    """What was measured so far, in a file that every result is added to at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.results: dict[str, Any] = {}
        if path.exists():
            self.results = json.loads(path.read_text(encoding="utf-8"))

    def measure(self, name: str, act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return what is written under a name; measure and write it if it is not there."""
        if name not in self.results:
            say(name)
            self.results[name] = act()
            part = self._path.with_suffix(".part")
            part.write_text(json.dumps(self.results, indent=1) + "\n", encoding="utf-8")
            part.replace(self._path)
        found: dict[str, Any] = self.results[name]
        return found


def main() -> int:
    """Measure, and write the results into the pages."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--million", action="store_true", help="also 1,000,000 passages")
    options.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="passages")
    options.add_argument("--no-peers", action="store_true", help="plait alone")
    options.add_argument("--folder", type=Path, default=ROOT / ".bench", help="working folder")
    options.add_argument("--output", type=Path, default=None, help="write the results only there")
    given = options.parse_args()
    began = time.monotonic()
    folder = _prepared(given.folder, mark_of_code())
    sizes = _affordable(sorted({*given.sizes, *([MILLION] if given.million else [])}), folder)
    book = Book(folder / "measured.json")
    passages = _passages(folder, max(sizes))
    sizes = sorted({min(size, len(passages)) for size in sizes})
    _describe(book, passages)
    installed = fresh.install(folder)
    _start(book, installed, folder)
    for size in sizes:
        _measure_size(book, installed, folder, passages[:size])
    if given.no_peers:
        book.measure("skipped/all", lambda: {"why": "run with --no-peers"})
    else:
        for size in (size for size in sizes if size <= PEER_PASSAGES):
            _measure_peers(book, given.folder / "peers", folder / f"{size}.db")
    _publish(book, given.output)
    say(f"done in {(time.monotonic() - began) / 60:.0f} minutes of this run")
    return 0


# -- preparing --------------------------------------------------------------------------------


def mark_of_code() -> str:
    """Return a mark of what is measured and of what measures it."""
    digest = blake2b(digest_size=6)
    scripts = ("run", "fresh", "warm", "peers", "corpus", "databases", "measure")
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "benchmarks" / f"{s}.py" for s in scripts)]
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _prepared(folder: Path, mark: str) -> Path:
    """Return the folder of this code; what other code left is removed."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.name not in (mark, "peers"):
            shutil.rmtree(old, ignore_errors=True)
    (folder / mark).mkdir(exist_ok=True)
    return folder / mark


def _affordable(sizes: Sequence[int], folder: Path) -> list[int]:
    free = shutil.disk_usage(folder).free
    fits = [size for size in sizes if size * DISK_BYTES_PER_PASSAGE < free]
    for size in sizes:
        if size not in fits:
            say(f"left out {size:,} passages: the disk has only {free / 1e9:.1f} GB free")
    if not fits:
        raise SystemExit("The disk is too full for any measurement. Give another with --folder.")
    return fits


def _passages(folder: Path, wanted: int) -> list[corpus.Passage]:
    """Return the corpus; it is read once, because that takes as long as measuring."""
    kept = folder / "corpus.json"
    if kept.exists():
        rows = json.loads(kept.read_text(encoding="utf-8"))
        if rows["wanted"] >= wanted:
            return [corpus.Passage(*row) for row in rows["passages"]][:wanted]
    say(f"collecting {wanted:,} passages of text")
    passages = corpus.read_passages(wanted)
    text = json.dumps({"wanted": wanted, "passages": passages})
    kept.write_text(text, encoding="utf-8")
    if len(passages) < wanted:
        say(f"this machine has only {len(passages):,} passages: the largest size is scaled down")
    return passages


def _questions(path: Path, passages: list[corpus.Passage]) -> dict[str, list[str]]:
    """Return what is asked, also as a file for the processes that ask it."""
    mixed = corpus.queries(passages, 2 * QUESTIONS)
    short, long = mixed[:QUESTIONS], mixed[QUESTIONS:]
    narrow = [passage for passage in passages if "one" in databases.tags_of(passage.document)]
    documents = passages[-1].document
    step = max(1, documents // KEYS)
    asked = {
        "short": short,
        "long": long,
        "mixed": [query for pair in zip(short, long, strict=True) for query in pair][:QUESTIONS],
        "stop": corpus.stop_word_questions(passages, QUESTIONS),
        # About what passes the filter: a weak answer makes the command search once more, elsewhere.
        # Short ones, to be compared with those without a filter.
        "narrow": corpus.queries(narrow, 2 * QUESTIONS)[:QUESTIONS],
        "keys": [f"{1 + n * step:08d}" for n in range(min(KEYS, documents))],
        "texts": [p.text for p in passages[:: max(1, len(passages) // KEYS)]][:KEYS],
    }
    path.write_text(json.dumps(asked), encoding="utf-8")
    return asked


def _describe(book: Book, passages: list[corpus.Passage]) -> None:
    characters = sum(len(passage.text) for passage in passages)
    book.results["about"] = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "machine": measure.machine(),
        "characters": round(characters / len(passages)),
        "load": round(os.getloadavg()[0], 1),
    }


# -- plait ------------------------------------------------------------------------------------


def _cost(values: Sequence[float], **more: Any) -> dict[str, Any]:
    spread = measure.spread(values)
    return {
        "median": round(spread.median, 3),
        "p95": round(spread.p95, 3),
        "samples": len(values),
        **more,
    }


def _start(book: Book, installed: fresh.Installed, folder: Path) -> None:
    def started() -> dict[str, Any]:
        costs = fresh.starting(installed, folder, SAMPLES[0])
        return _cost([cost.cpu_ms for cost in costs], how=installed.how)

    book.measure("start/python -c pass", started)


def _measure_size(
    book: Book, installed: fresh.Installed, folder: Path, passages: list[corpus.Passage]
) -> None:
    size = len(passages)
    path = folder / f"{size}.db"

    def built() -> dict[str, Any]:
        cost = databases.build(path, passages, named_embedder("builtin"))
        rate = round(cost.rows_per_second)
        return {"median": rate, "documents": cost.documents, "bytes": round(cost.bytes / size)}

    if not path.exists():
        book.results.pop(f"{size}/rows, vectors given", None)
    book.measure(f"{size}/rows, vectors given", built)
    asked = _questions(path.with_suffix(".json"), passages)
    new, calls = SAMPLES
    for name in fresh.COMMANDS:
        book.measure(f"{size}/{name}", lambda name=name: _fresh(installed, path, name, asked, new))  # type: ignore[misc]
    short = {kind: values[:calls] for kind, values in asked.items()}
    path.with_suffix(".warm.json").write_text(json.dumps(short), encoding="utf-8")
    for name in (*warm.OPERATIONS, "second search of a process"):
        book.measure(
            f"{size}/{name}",
            lambda name=name: _warm(installed, path, name, path.with_suffix(".warm.json")),  # type: ignore[misc]
        )
    for name, each in (("ingest", PASSAGES_PER_FILE), ("ingest, one passage a file", 1)):
        notes = _notes(folder / f"notes-{each}", passages, each)
        book.measure(
            f"{size}/{name}",
            lambda name=name, notes=notes: _warm(installed, path, name, notes),  # type: ignore[misc]
        )
    for left in folder.glob("copy.db*"):
        left.unlink()


def _copied(path: Path) -> Path:
    """Return a copy to write to, which is on the disk.

    Otherwise the first write that moves the journal into the file pays for the whole copy: 55 ms at
    a million passages.
    """
    copy = path.with_name("copy.db")
    for old in path.parent.glob("copy.db*"):
        old.unlink()
    shutil.copyfile(path, copy)
    with copy.open("rb+") as file:
        os.fsync(file.fileno())
    return copy


def _fresh(
    installed: fresh.Installed, path: Path, name: str, asked: dict[str, list[str]], most: int
) -> dict[str, Any]:
    target = _copied(path) if name in fresh.WRITING else path
    costs, journal = fresh.run(installed, target, name, asked, most)
    peak = max(cost.rss_mb for cost in costs)
    return _cost([cost.cpu_ms for cost in costs], peak_mb=round(peak, 1), journal_bytes=journal)


def _warm(installed: fresh.Installed, path: Path, name: str, given: Path) -> dict[str, Any]:
    writes = name in warm.WRITING or name.startswith("ingest")
    target = _copied(path) if writes else path
    script = str(ROOT / "benchmarks" / "warm.py")
    words = [installed.python, "-P", script, name, str(target), str(given)]
    done = subprocess.run(
        words,
        env=measure.plain_environment(path.parent),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    told = json.loads(done.stdout)
    return _cost(told["costs"], peak_mb=round(told["peak_mb"], 1))


def _notes(folder: Path, passages: list[corpus.Passage], each: int) -> Path:
    """Return a folder of notes, of the first passages, worded unlike those in the memory."""
    if not folder.exists():
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        for number in range(min(FILES, len(passages) // each)):
            mine = passages[number * each : (number + 1) * each]
            sections = [f"## Part {n}\n\nOf note {number}: {p.text}" for n, p in enumerate(mine)]
            text = f"# Note {number}\n\n" + "\n\n".join(sections) + "\n"
            (part / f"{number}.md").write_text(text, encoding="utf-8")
        part.rename(folder)
    return folder


# -- peers ------------------------------------------------------------------------------------


def _measure_peers(book: Book, environment: Path, path: Path) -> None:
    """Measure every peer on the passages of one memory; what fails is told, and left out."""
    if not path.exists():
        return  # measured by a run before this one
    size = path.stem
    python = _python_with_pip(environment)
    inputs = _inputs(path)
    for name, peer in peers.PEERS.items():
        key = f"peer/{size}/{name}"
        if f"skipped/{name}" in book.results or key in book.results:
            continue
        why = _install(python, peer.package)
        if why is None:
            try:
                book.measure(key, lambda name=name: _peer(python, name, path, inputs))  # type: ignore[misc]
                continue
            except (subprocess.SubprocessError, OSError, ValueError) as error:
                why = _last_line(error)
        book.measure(f"skipped/{name}", lambda why=why: {"why": f"{size} passages: {why}"})  # type: ignore[misc]


def _python_with_pip(environment: Path) -> Path:
    python = environment / "bin" / "python"
    if not (environment / "ready").exists():
        venv.create(environment, with_pip=True, clear=True)
        (environment / "ready").touch()
    return python


def _install(python: Path, package: str) -> str | None:
    """Install a peer; return why that failed."""
    try:
        subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", package, "apsw", "numpy"],
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE_S,
            check=True,
        )
    except (subprocess.SubprocessError, OSError) as error:
        return f"pip cannot install {package}: {_last_line(error)}"
    return None


def _last_line(error: BaseException) -> str:
    lines = str(getattr(error, "stderr", None) or error).strip().splitlines()
    return lines[-1][:200] if lines else type(error).__name__


def _inputs(path: Path) -> dict[str, list[Path]]:
    """Write what the peers are given; return a file for each question."""
    rows = json.loads((path.parent / "corpus.json").read_text(encoding="utf-8"))["passages"]
    texts = [row[0] for row in rows[: int(path.stem)]]
    path.with_suffix(".texts.json").write_text(json.dumps(texts), encoding="utf-8")
    asked = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    embedder = named_embedder("builtin")
    files: dict[str, list[Path]] = {}
    given: dict[str, list[dict[str, Any]]] = {}
    for kind in ("short", "long"):
        vectors = embedder.embed(asked[kind], "query")
        pairs = zip(asked[kind], vectors, strict=True)
        given[kind] = [{"text": text, "vector": list(v)} for text, v in pairs if v is not None]
        for number, question in enumerate(given[kind][:PEER_SAMPLES]):
            file = path.with_suffix(f".{kind}{number}.json")
            file.write_text(json.dumps(question), encoding="utf-8")
            files.setdefault(kind, []).append(file)
    path.with_suffix(".peers.json").write_text(json.dumps(given), encoding="utf-8")
    return files


def _peer(python: Path, name: str, path: Path, asked: dict[str, list[Path]]) -> dict[str, Any]:
    folder = path.parent / "peer"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    script = [str(python), "-P", str(ROOT / "benchmarks" / "peers.py"), name]
    environment = {**measure.plain_environment(path.parent), **ONE_THREAD}
    told: dict[str, Any] = {"ranks": peers.PEERS[name].ranks}
    for act in ("build", "warm"):
        done = subprocess.run(
            [*script, act, str(path), str(folder)],
            env=environment,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE_S,
            check=True,
        )
        told |= json.loads(done.stdout.splitlines()[-1])
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    told["rows_per_second"] = round(told["rows_per_second"])
    told["disk_mb"] = round(size / 1e6, 1)
    told["peak_mb"] = round(told["peak_mb"], 1)
    for kind, files in asked.items():
        told[kind] = _cost(told[kind])
        commands = [[*script, "once", str(file), str(folder)] for file in [files[0], *files]]
        costs = measure.processes(commands, environment)[1:]
        if any(cost.code for cost in costs):
            raise ValueError("a new process failed")
        told[f"new, {kind}"] = _cost(
            [cost.cpu_ms for cost in costs], peak_mb=round(max(cost.rss_mb for cost in costs), 1)
        )
    shutil.rmtree(folder, ignore_errors=True)
    return told


# -- results ----------------------------------------------------------------------------------


def _publish(book: Book, output: Path | None) -> None:
    book.results["about"]["not tried"] = NOT_TRIED
    date = book.results["about"]["date"]
    target = output or summary.RESULTS / f"{date}.json"
    target.parent.mkdir(exist_ok=True)
    text = json.dumps(book.results, indent=1, ensure_ascii=False) + "\n"
    target.write_text(text, encoding="utf-8")
    say(f"written to {target}")
    if output is None:
        for page in summary.refresh():
            say(f"refreshed {page}")


if __name__ == "__main__":
    sys.exit(main())
