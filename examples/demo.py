"""What `make demo` shows: the sample memory, asked by keyword, by meaning, and by both."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SAMPLE = HERE / "memory"
FOLDER = HERE.parent / ".demo"
DATABASE = FOLDER / "memory.db"
# Nothing but the demonstration's own file and settings.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PLAIT_")}
ENVIRONMENT |= {"PLAIT_DB": str(DATABASE), "PLAIT_CONFIG": str(FOLDER / "config.toml")}
PLAIT = [sys.executable, "-m", "plait"]


def say(text: str = "") -> None:
    """Print at once, so that words and command output keep their order."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def show(*arguments: str) -> None:
    """Run one command as a person would, and show what it says."""
    words = " ".join(f'"{word}"' if " " in word else word for word in arguments)
    say(f"\n$ plait {words}")
    subprocess.run(
        [*PLAIT, *arguments, "--project", "personal", "--format", "text", "--quiet"],
        env=ENVIRONMENT,
        check=True,
    )


def main() -> None:
    """Index the sample and ask it several kinds of questions."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    (FOLDER / "config.toml").write_text("[memory]\n", encoding="utf-8")
    say("1. Index 42 notes of a developer's agent. Nothing leaves this machine.")
    say("   The vectors come from the small model that is part of plait.")
    show("ingest", "examples/memory")
    say("\n2. By keyword: the words of the question stand in the note.")
    show("search", "GPU server SSH password", "--mode", "keyword", "--limit", "1")
    say("\n3. By meaning: no word of the question stands in the note; the second is in Spanish.")
    show("search", "leaked credentials", "--limit", "1")
    show("search", "holidays in Spain", "--limit", "1")
    say("\n4. Misspelt: keywords find nothing, the parts of the words still mean something.")
    show("search", "certifcate renewl", "--limit", "1")
    say("\n5. Both fused, and why each hit stands where it does.")
    show("search", "restore databse backup", "--limit", "2", "--explain")
    say("\n6. Japanese, without spaces between words.")
    show("search", "勤務の交代", "--limit", "1", "--mode", "keyword")
    say("\nThe memory is one file: .demo/memory.db. Go on with:\n")
    for command in (
        "search how do we rotate the ssh keys",
        "timeline --since 2026-10-01",
        'store "We deploy on Fridays" --type decision --tags ops',
        "doctor",
    ):
        say(f"  .venv/bin/plait --db .demo/memory.db --project personal {command}")


if __name__ == "__main__":
    main()
