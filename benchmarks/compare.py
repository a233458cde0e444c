"""Compare the speed of search in two checkouts, in turns on one machine.

    python benchmarks/compare.py ../older --passages 10000 --rounds 40

Per checkout, CPU milliseconds of `plait search` as a new process and of a warm search, with the
built-in model. The two take turns, so that other work on the machine hits both alike.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
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
SEARCH = ("search", "ka3 lo17 mi200")
WARM_ROUNDS = 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path)
    parser.add_argument("--passages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=40)
    chosen = parser.parse_args()
    checkouts = [chosen.other.resolve(), HERE]
    with tempfile.TemporaryDirectory() as scratch:
        files = {place: f"{scratch}/{number}.db" for number, place in enumerate(checkouts)}
        for place in checkouts:
            run(place, scratch, "-c", FILL, files[place], str(chosen.passages))
        fresh: dict[Path, list[float]] = {place: [] for place in checkouts}
        warm: dict[Path, list[float]] = {place: [] for place in checkouts}
        for number in range(chosen.rounds):
            for place in checkouts[:: 1 if number % 2 else -1]:
                spent, _ = run(place, scratch, "-m", "plait", "--db", files[place], *SEARCH)
                fresh[place].append(spent)
        for number in range(WARM_ROUNDS):
            for place in checkouts[:: 1 if number % 2 else -1]:
                _, printed = run(place, scratch, "-c", WARM, files[place])
                warm[place].append(float(printed))
    print("| checkout | new process, median | least | warm, median | least |")
    print("|---|---|---|---|---|")
    for place in checkouts:
        cells = [median(fresh[place]), min(fresh[place]), median(warm[place]), min(warm[place])]
        print(f"| {place} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")


def run(checkout: Path, home: str, *words: str) -> tuple[float, str]:
    """Run Python with a checkout's plait; its CPU milliseconds and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": str(checkout / "src"), "HOME": home},
        capture_output=True,
        encoding="utf-8",
        cwd=home,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent * 1000, done.stdout


if __name__ == "__main__":
    main()
