"""What `make demo` shows: searches of the sample memory by keyword, by meaning, and by both."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SAMPLE = HERE / "memory"
FOLDER = HERE.parent / ".demo"
DATABASE = FOLDER / "memory.db"
# Use only the file and the settings of the demonstration.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PLAIT_")}
ENVIRONMENT |= {"PLAIT_DB": str(DATABASE), "PLAIT_CONFIG": str(FOLDER / "config.toml")}
PLAIT = [sys.executable, "-m", "plait"]


def say(text: str = "") -> None:
    """Print and flush, so that this text and the output of commands stay in order."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def show(*arguments: str) -> None:
    """Run one command and show its output."""
    words = " ".join(f'"{word}"' if " " in word else word for word in arguments)
    say(f"\n$ plait {words}")
    subprocess.run(
        [*PLAIT, *arguments, "--project", "personal", "--format", "text", "--quiet"],
        env=ENVIRONMENT,
        check=True,
    )


def main() -> None:
    """Index the sample and search it in several ways."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    (FOLDER / "config.toml").write_text("[memory]\n", encoding="utf-8")
    say("1. Index 42 notes of a developer's agent. No text leaves this machine.")
    say("   The vectors come from the small model that is part of plait.")
    show("ingest", "examples/memory")
    say("\n2. By keyword: the note contains the words of the question.")
    show("search", "GPU server SSH password", "--mode", "keyword", "--limit", "1")
    say("\n3. By meaning: the note is in Spanish, and contains no word of the question.")
    show("search", "holidays in Spain", "--limit", "1")
    say("\n4. Misspelt: words that the notes do not hold are searched as those they do.")
    show("search", "certifcate renewl", "--limit", "1")
    say("\n5. Both fused, with the reasons for each score.")
    show("search", "restore databse backup", "--limit", "2", "--explain")
    say("\n6. Japanese, which has no spaces between words.")
    show("search", "勤務の交代", "--limit", "1", "--mode", "keyword")
    say("\nThe memory is one file: .demo/memory.db. Try next:\n")
    for command in (
        "search how do we rotate the ssh keys",
        "timeline --since 2026-10-01",
        'store "We deploy on Fridays" --type decision --tags ops',
        "doctor",
    ):
        say(f"  .venv/bin/plait --db .demo/memory.db --project personal {command}")


if __name__ == "__main__":
    main()
