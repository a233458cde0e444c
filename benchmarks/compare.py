"""Compare the speed of search in two checkouts, in turns on one machine.

    python benchmarks/compare.py ../older --passages 10000 --rounds 40
    python benchmarks/compare.py ../older --documents DOCUMENTS.jsonl --questions QUESTIONS.json

Per checkout, CPU milliseconds of `plait search` as a new process and of a warm search, with the
built-in model. The two take turns, so that other work on the machine hits both alike.

Texts are made up, or those of a file: a line for each document, with the arguments of `Document` as
JSON. Its questions are a list; each is asked of both checkouts before the next one.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent.parent
WORDS = "[s + str(n) for s in ('ka', 'lo', 'mi', 'nu', 'pe', 'ri', 'so', 'tu') for n in range(500)]"
FILL = f"""
import random, sys
from plait import Document, Memory
dice, words = random.Random(1), {WORDS}
weights = [1 / (rank + 1) for rank in range(len(words))]
with Memory.open(sys.argv[1], embedder="builtin", project="") as memory:
    memory.store_many(
        Document(key=f"k{{n}}", text=" ".join(dice.choices(words, weights, k=60)))
        for n in range(int(sys.argv[2]))
    )
"""
WARM = f"""
import random, statistics, sys, time
from plait import Memory
dice, words, spent = random.Random(2), {WORDS}, []
with Memory.open(sys.argv[1], embedder="builtin", project="") as memory:
    for _ in range(220):
        query = " ".join(dice.choices(words, k=3))
        began = time.process_time()
        memory.search(query)
        spent.append((time.process_time() - began) * 1000)
print(statistics.median(spent[20:]))
"""
FILL_FROM_FILE = """
import json, sys
from plait import Document, Memory
with Memory.open(sys.argv[1], embedder="builtin", project="") as memory, open(
    sys.argv[2], encoding="utf-8"
) as lines:
    memory.store_many((Document(**json.loads(line)) for line in lines), allow_secret=True)
"""
ANSWER = """
import json, sys, time
from plait import Memory
with Memory.open(sys.argv[1], create=False, project="") as memory:
    for line in sys.stdin:
        began = time.process_time()
        memory.search(json.loads(line))
        print((time.process_time() - began) * 1000, flush=True)
"""
UNCOUNTED = 20  # questions: the first ones load modules and fill caches
SEARCH = ("search", "ka3 lo17 mi200")
WARM_ROUNDS = 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path)
    parser.add_argument("--passages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--documents", type=Path)
    parser.add_argument("--questions", type=Path)
    chosen = parser.parse_args()
    checkouts = [chosen.other.resolve(), HERE]
    with tempfile.TemporaryDirectory() as scratch:
        files = {place: f"{scratch}/{number}.db" for number, place in enumerate(checkouts)}
        fresh: dict[Path, list[float]] = {place: [] for place in checkouts}
        warm: dict[Path, list[float]] = {place: [] for place in checkouts}
        questions = []
        if chosen.documents:
            questions = json.loads(chosen.questions.read_text(encoding="utf-8"))
            for place in checkouts:
                run(place, scratch, "-c", FILL_FROM_FILE, files[place], str(chosen.documents))
            warm = asked_in_turns(questions, files, scratch)
        else:
            for place in checkouts:
                run(place, scratch, "-c", FILL, files[place], str(chosen.passages))
        for number in range(chosen.rounds):
            words = (
                ("search", "--query", questions[number % len(questions)]) if questions else SEARCH
            )
            for place in checkouts[:: 1 if number % 2 else -1]:
                spent, _ = run(place, scratch, "-m", "plait", "--db", files[place], *words)
                fresh[place].append(spent)
        for number in range(0 if questions else WARM_ROUNDS):
            for place in checkouts[:: 1 if number % 2 else -1]:
                _, printed = run(place, scratch, "-c", WARM, files[place])
                warm[place].append(float(printed))
    print("| checkout | new process, median | least | warm, median | least |")
    print("|---|---|---|---|---|")
    for place in checkouts:
        cells = [median(fresh[place]), min(fresh[place]), median(warm[place]), min(warm[place])]
        print(f"| {place} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")


def asked_in_turns(
    questions: list[str], files: dict[Path, str], home: str
) -> dict[Path, list[float]]:
    """Ask one running process of each checkout; CPU milliseconds of each answer."""
    spent: dict[Path, list[float]] = {place: [] for place in files}
    with ExitStack() as opened:
        asked = {
            place: opened.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", ANSWER, path],
                    env=environment(place, home),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    encoding="utf-8",
                    cwd=home,
                )
            )
            for place, path in files.items()
        }
        for number, question in enumerate(questions):
            for place in list(asked)[:: 1 if number % 2 else -1]:
                process = asked[place]
                assert process.stdin and process.stdout
                process.stdin.write(json.dumps(question) + "\n")
                process.stdin.flush()
                spent[place].append(float(process.stdout.readline()))
    return {place: costs[UNCOUNTED:] for place, costs in spent.items()}


def environment(checkout: Path, home: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(checkout / "src"), "HOME": home}


def run(checkout: Path, home: str, *words: str) -> tuple[float, str]:
    """Run Python with a checkout's plait; its CPU milliseconds and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *words],
        env=environment(checkout, home),
        capture_output=True,
        encoding="utf-8",
        cwd=home,
        check=False,
    )
    if done.returncode not in (0, 3):  # 3: nothing matches
        raise SystemExit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent * 1000, done.stdout


if __name__ == "__main__":
    main()
