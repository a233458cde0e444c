"""config trust and untrust: accept the settings of a project's file, or take that back."""

import os
import sys
from argparse import Namespace
from typing import Any

from plait.cli import Output, to_run, write_error
from plait.errors import NotFound, UsageError
from plait.settings.loading import (
    PROJECT_FILE,
    TYPED,
    config_folder,
    find_project,
    working_folder,
)
from plait.settings.project import needing_trust, read_bounded
from plait.settings.showing import shown
from plait.settings.trust import TrustedFiles, fingerprint
from plait.text import visible

YES = ("y", "yes")
# Characters of a value that are shown.
MAX_VALUE = 200
ARROW = "→"


def trust_run(arguments: Namespace, out: Output) -> int:
    """Show what a project's file would change, ask, and trust it."""
    if arguments.name is not None:
        raise UsageError(
            f"config {arguments.action} takes no name: it is about the {PROJECT_FILE} of the "
            f"folder you are in. {to_run('Run: plait config')} {arguments.action}"
        )
    return _untrust(out) if arguments.action == "untrust" else _trust(arguments, out)


def _trust(arguments: Namespace, out: Output) -> int:
    config = out.config_with()  # without its warnings: they say what is about to be shown
    project = config.project_file
    if project is None:
        raise NotFound(f"There is no {PROJECT_FILE} here that needs trust.")
    # Read once: what is shown, accepted and remembered are the same bytes.
    data = read_bounded(project.path)
    changes = {
        name: {"old": getattr(config.settings, name), "new": value}
        for name, value in needing_trust(project, data).items()
    }
    known = fingerprint(data)
    answer = {"path": project.path, "sha256": known, "trusted": True, "changes": changes}
    text = "\n".join([f"{project.path} would set:", *_lines(changes, config.origins)])
    if not changes and project.trust != "changed":
        answer["trusted"] = project.trust == "trusted"
        out.result(answer, f"Nothing in {project.path} needs trust.")
        return 0
    trusted = TrustedFiles(config_folder())
    # Compared again: the file may have changed since the settings were read.
    if project.trust == "trusted" and trusted.hashes().get(project.path) == known:
        out.result(answer, f"{project.path} is already trusted as it is now.")
        return 0
    if changes and not arguments.yes:
        _ask(out, answer, text)
    trusted.add(project.path, known)
    done = f"Trusted {project.path} as it is now. {to_run('Take it back: plait config untrust')}"
    out.result(answer, f"{text}\n{done}" if changes and arguments.yes else done)
    return 0


def _ask(out: Output, answer: dict[str, Any], text: str) -> None:
    """Show what would change and ask.

    Raises:
        UsageError: Nobody can be asked, or the answer is no.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        out.result({**answer, "trusted": False}, text)
        raise UsageError("Nothing was trusted. Check the changes, then add --yes.")
    write_error(f"{text}\nTrust this file? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in YES:
        raise UsageError("Nothing was trusted.")


def _lines(changes: dict[str, dict[str, Any]], origins: dict[str, str]) -> list[str]:
    lines = []
    for name, change in changes.items():
        old, new = (_shown(change[age]) for age in ("old", "new"))
        is_typed = origins[name].startswith(TYPED)
        note = f"  (but {origins[name]} comes first)" if is_typed else ""
        lines.append(f"  {name}: {old or 'personal'} {ARROW} {new or 'personal'}{note}")
    return lines


def _shown(value: object) -> str:
    """Return a value on one line; its tail is left out, so that no value hides the others."""
    text = shown(value)
    return visible(text[:MAX_VALUE], one_line=True) + ("…" if len(text) > MAX_VALUE else "")


def _untrust(out: Output) -> int:
    trusted = TrustedFiles(config_folder())
    here = os.path.realpath(working_folder())
    root = find_project(here)
    folder = here
    # The file itself may be gone.
    while not trusted.remove(path := os.path.join(folder, PROJECT_FILE)):
        if root is None or folder == root:
            raise NotFound(f"No {PROJECT_FILE} of this folder is trusted.")
        folder = os.path.dirname(folder)
    answer = {"path": path, "trusted": False}
    out.result(answer, f"{path} is no longer trusted.")
    return 0
