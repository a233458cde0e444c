"""Made-up Claude Code histories of any size, and what it costs to import them.

    python benchmarks/histories.py FOLDER --messages 100000     # generate
    python benchmarks/histories.py FOLDER --measure             # import, import again

Times are CPU seconds of this process; the memory is the most it ever held.
"""

import argparse
import json
import random
import resource
import shutil
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

WORDS = (
    "cart total cache queue worker deploy branch merge test fixture schema index vector token "
    "config retry timeout socket parser lexer shader kernel driver packet router ledger invoice "
    "rounding decimal float string buffer thread mutex signal handler migration column trigger "
    "release notes review comment pipeline runner image layer secret vault policy region cluster"
)
PHRASES = (
    "we decided to keep the {a} {b} because the {c} {d} broke in {e}",
    "the {a} of the {b} is {n}, not {m}, since the last {c}",
    "please look at why {a} {b} fails when the {c} is {d}",
    "I changed {a}_{b}.py so that the {c} waits for the {d} before it {e}s",
    "run the {a} {b} again with --{c}={n} and compare the {d}",
    "remember that the {a} {b} needs a {c} larger than {n} for every {d}",
)
COMMANDS = (
    "cd src && uv run pytest -q tests/test_{a}.py -k {b}",
    "git add -A && git commit -m 'Change {a} of {b}' && git push origin {c}",
    "npm run {a} -- --{b}={c} | tail -20",
    "docker compose up -d {a}",
)
ENDED = {"content": "x" * 300, "is_error": False}
FEW = "password: 'Kq7-{n}xZ!{m}'"


def words(chance: random.Random) -> str:
    pick = {name: chance.choice(WORDS.split()) for name in "abcde"}
    return chance.choice(PHRASES).format(**pick, n=chance.randrange(9999), m=chance.randrange(9999))


def text(chance: random.Random, characters: int) -> str:
    parts: list[str] = []
    while sum(map(len, parts)) < characters:
        parts.append(words(chance).capitalize() + ".")
    if chance.random() < 0.005:
        parts.append(FEW.format(n=chance.randrange(999), m=chance.randrange(999)))
    return " ".join(parts)


def calls(chance: random.Random, project: str) -> list[dict[str, object]]:
    """Return an edit of a file and a command, as calls of tools."""
    a, b, c = (chance.choice(WORDS.split()) for _ in range(3))
    command = chance.choice(COMMANDS).format(a=a, b=b, c=c)
    given = {"Edit": {"file_path": f"{project}/src/{a}/{b}.py"}, "Bash": {"command": command}}
    return [{"type": "tool_use", "name": name, "input": row} for name, row in given.items()]


def ended(chance: random.Random) -> dict[str, object]:
    """Return what a command printed; one in seven fails."""
    if chance.random() > 1 / 7:
        return ENDED
    a, b = (chance.choice(WORDS.split()) for _ in range(2))
    where = f'  File "/home/ann/{a}.py", line {chance.randrange(999)}, in {b}'
    trace = f"Exit code 1\nTraceback (most recent call last):\n{where}\nKeyError: '{a}'"
    return {"content": trace, "is_error": True}


def generate(
    folder: Path,
    messages: int,
    seed: int = 1,
    characters: int = 600,
    projects: int = 7,
    home: str = "/home/ann",
) -> int:
    """Write sessions of 20 to 400 messages; return how many messages there are."""
    chance = random.Random(seed)
    top = folder / ".claude" / "projects"
    at = datetime(2026, 5, 1, 8, tzinfo=UTC)
    written = session = 0
    while written < messages:
        session += 1
        project = f"{home}/project-{session % projects}"
        path = top / project.replace("/", "-") / f"{session:08d}-0000-4000-8000-000000000000.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        head = {"cwd": project, "gitBranch": "main", "sessionId": path.stem, "isSidechain": False}
        turns = min(chance.randrange(10, 200), (messages - written + 1) // 2)
        with path.open("w", encoding="utf-8") as file:
            for turn in range(turns):
                at += timedelta(seconds=chance.randrange(20, 900))
                uuid = f"{session}-{turn}"
                stamp = at.strftime("%Y-%m-%dT%H:%M:%S.000Z")
                asked = text(chance, chance.randrange(1, 2 * characters))
                user = {"role": "user", "content": asked}
                record = {"type": "user", "uuid": f"u-{uuid}", "timestamp": stamp, "message": user}
                file.write(json.dumps({**record, **head}) + "\n")
                said = {"type": "text", "text": text(chance, chance.randrange(1, 2 * characters))}
                edit, run = calls(chance, project)
                for part, block in enumerate(
                    (said, {"id": f"e-{uuid}", **edit}, {"id": f"t-{uuid}", **run})
                ):
                    message = {"id": f"msg-{uuid}", "role": "assistant", "content": [block]}
                    record = {"type": "assistant", "uuid": f"a{part}-{uuid}", "timestamp": stamp}
                    file.write(json.dumps({**record, **head, "message": message}) + "\n")
                for name, result in (("e", ENDED), ("t", ended(chance))):
                    part_of = {"type": "tool_result", "tool_use_id": f"{name}-{uuid}", **result}
                    message = {"role": "user", "content": [part_of]}
                    record = {"type": "user", "uuid": f"{name}r-{uuid}", "message": message}
                    file.write(json.dumps({**record, "timestamp": stamp, **head}) + "\n")
                written += 2
    return written


def measure(folder: Path) -> None:
    from plait.agents.histories import Places
    from plait.agents.importing import VECTORS, import_histories, sources_of
    from plait.memory import Memory

    base = folder / "memory"
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir()
    places = Places(str(folder), {})
    marks: list[float] = []

    def note(_done: int, _total: int, name: str) -> None:
        if name != VECTORS:
            marks.append(time.process_time())

    with Memory.open(base / "memory.db") as memory:
        for number in (1, 2):
            start = time.process_time()
            report = import_histories(memory, sources_of(places, ["claude-code"]), progress=note)
            seconds = time.process_time() - start
            texts = max(marks, default=start) - start
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            passages = memory.stats().chunk_count if number == 1 else 0
            print(
                f"run {number}: {report.messages:,} messages ({passages:,} passages), "
                f"{report.masked:,} with secrets masked; {seconds:.2f} s CPU, texts {texts:.2f} s, "
                f"{most:.0f} MB at most; {report.messages / max(texts, 1e-9):,.0f} messages/s as "
                f"text, {passages / max(seconds, 1e-9):,.0f} passages/s in all"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--measure", action="store_true")
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.folder)
    else:
        sys.stdout.write(f"{generate(arguments.folder, arguments.messages):,} messages\n")


if __name__ == "__main__":
    main()
