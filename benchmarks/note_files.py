"""The corpus of notes.py: the Markdown files of five packages of the npm registry."""

import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from random import Random
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent.parent / ".notes"  # ignored by git
ENDINGS = (".md", ".mdx")
# Legal texts and lists of changes are not notes. Translations would answer a question twice.
LEFT_OUT = ("license", "changelog", "node_modules")
TRANSLATIONS = re.compile(r"docs/(?:[a-z]{2}-[a-z]{2}|de|es|fr|ru|tr)/")
SAMPLE_SEED = 10
LEAST_CHARACTERS = 400  # of a note in the sample: a shorter one says too little to ask about


class Package(NamedTuple):
    """An npm package, the folder in it that holds notes, and how many notes the sample takes."""

    name: str
    version: str
    licence: str
    folder: str
    sampled: int


PACKAGES = (
    Package("clawdbot", "2026.1.24", "MIT", "", 40),
    Package("ecc-universal", "2.0.0", "MIT", "", 40),
    Package("ai", "6.0.326", "Apache-2.0", "docs", 20),
    Package("npm", "11.21.1", "Artistic-2.0", "docs", 12),
    Package("linux-command", "1.22.0", "MIT", "", 8),  # in Chinese
)


def downloaded_notes() -> Path:
    """Return the folder of the notes; download the packages that are not there yet."""
    for package in PACKAGES:
        if not (FOLDER / package.name).is_dir():
            _download(package)
    return FOLDER


def _download(package: Package) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("The notes come from the npm registry. Install npm and try again.")
    FOLDER.mkdir(exist_ok=True)
    # Beside its place: a rename cannot leave half a package behind.
    with tempfile.TemporaryDirectory(dir=FOLDER) as scratch:
        name = f"{package.name}@{package.version}"
        subprocess.run(
            [npm, "pack", "--silent", name], cwd=scratch, check=True, stdout=subprocess.DEVNULL
        )
        [archive] = Path(scratch).glob("*.tgz")
        unpacked = Path(scratch) / "notes"
        with tarfile.open(archive) as files:
            for member in files:
                # The first part of every path is "package".
                path = PurePosixPath(*PurePosixPath(member.name).parts[1:])
                content = files.extractfile(member) if _is_note(path, package.folder) else None
                if content is not None:
                    target = unpacked / path.with_suffix(".md")
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(content.read())
        unpacked.rename(FOLDER / package.name)


def _is_note(path: PurePosixPath, folder: str) -> bool:
    name = path.as_posix().lower()
    return (
        path.suffix in ENDINGS
        and path.is_relative_to(folder)
        and not any(part.startswith(".") for part in path.parts)
        and not any(word in name for word in LEFT_OUT)
        and not TRANSLATIONS.search(name)
    )


def draw_sample() -> list[str]:
    """Return the notes that questions were written about: the same on every machine."""
    dice = Random(SAMPLE_SEED)
    chosen = []
    for package in PACKAGES:
        paths = sorted(
            path.relative_to(FOLDER).as_posix()
            for path in (FOLDER / package.name).rglob("*.md")
            if len(path.read_text(encoding="utf-8", errors="replace")) >= LEAST_CHARACTERS
        )
        chosen += dice.sample(paths, package.sampled)
    return chosen
