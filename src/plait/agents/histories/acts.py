"""Tool calls as data and as one line: what was edited, what was run, and how it ended.

Hooks read calls by the same rules: this module loads little.
"""

import re
from collections.abc import Mapping
from typing import Any

from plait.agents.histories import Act
from plait.text.failures import LONGEST_SHOWN, short_line, telling_line

# Characters of a command in which secrets are looked for: what is shown is far shorter.
_MOST_MASKED = 8_000
# Characters of an answer, at each end, in which an error is looked for. A secret of several lines,
# such as a key, is recognised by its first line.
_MOST_ANSWER = 100_000
# The names that tools give to the same thing.
_PATHS = (
    *("file_path", "filePath", "path", "notebook_path", "absolute_path", "target_file"),
    "old_path",
)
_COMMANDS = ("command", "cmd", "script")
# What the text editor and the memory of Anthropic's models are told to do with a file: no commands
# of a shell.
_EDITS = ("view", "create", "str_replace", "insert", "undo_edit", "delete", "rename")
_PATCHES = ("patch", "input")
_OTHERS = ("query", "pattern", "url", "description", "prompt", "skill", "name", "title")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.M)
_DRIVE = re.compile(r"[A-Za-z]:/")
# How lines begin that the shell's tool of Gemini CLI puts around what a command printed.
_FRAME = (
    *("Command: ", "Directory: ", "Error: (none)", "Exit Code: ", "Signal: "),
    *("Background PIDs: ", "Process Group PGID: "),
)
_EXIT = re.compile(r"(?:exit(?:ed with)? (?:code|status):? |exit=)(-?\d{1,5})\b", re.I)


def act_of(tool: str, given: Mapping[str, Any]) -> Act:
    """Return the call of a tool with its arguments, before it ended.

    >>> act_of("Bash", {"command": "pytest -q"}).line, act_of("Edit", {"file_path": "a.py"}).line
    ('Bash: pytest -q', 'Edit: a.py')
    """
    name, path, command = _named(tool, given)
    tool = on_one_line(name) or "tool"
    # Before the cut: half of a block is not recognised.
    shown = command or path or _text(given, _OTHERS) or ""
    shown = on_one_line(_kept(shown))
    return Act(tool, f"{tool}: {shown}" if shown else tool, path, command)


def patched_files(patch: str) -> list[str]:
    r"""Return the files that a patch of Codex changes; none if the text is no patch.

    >>> patched_files("*** Begin Patch\n*** Update File: a.py\n*** Add File: b.py\n+x")
    ['a.py', 'b.py']
    """
    files = _PATCHED.findall(patch) if "*** " in patch else []
    return list(dict.fromkeys(file.strip() for file in files))


def unframed(text: str) -> str:
    r"""Return what a command printed, without the lines in which Gemini CLI frames it.

    >>> unframed("Command: make\nOutput: E   KeyError: 'total'\nExit Code: 1")
    "E   KeyError: 'total'"
    """
    rows = (row for row in text.splitlines() if not row.startswith(_FRAME))
    return "\n".join(row.removeprefix("Output: ") for row in rows)


def target_of(tool: str, given: Mapping[str, Any]) -> tuple[str, str | None, str | None]:
    """Return what a tool does, to which file, and the command; of a patch, its first file.

    >>> target_of("Edit", {"file_path": "a.py"}), target_of("sh", {"command": ["sh", "-c", "make"]})
    (('Edit', 'a.py', None), ('sh', None, 'make'))
    """
    line = given.get("command")
    if isinstance(line, list) and len(line) == 3 and line[1] in ("-lc", "-c"):
        return tool, None, line[2] if isinstance(line[2], str) else None
    tool, path, command = _named(tool, given)
    files = patched_files(command or _text(given, _PATCHES) or "")
    return (tool, files[0], None) if files else (tool, path, command)


def _named(tool: str, given: Mapping[str, Any]) -> tuple[str, str | None, str | None]:
    """Return tool, file and command; a tool that does several things to files is what it does."""
    path, command = _text(given, _PATHS), _text(given, _COMMANDS)
    return (command, path, None) if path and command in _EDITS else (tool, path, command)


def relative_path(path: str, folder: str | None, root: str | None) -> str:
    r"""Return a path, as seen from ``folder``, relative to ``root`` if it lies below it.

    Without a root it stays whole: files of two folders may have one name.

    >>> relative_path("cart.py", "/srv/shop/src", "/srv/shop"), relative_path("/etc/rc", "/a", "/a")
    ('src/cart.py', '/etc/rc')
    >>> relative_path("a.py", "/srv", None), relative_path("/c:/shop/a.py", None, "C:\\shop")
    ('/srv/a.py', 'a.py')
    """
    path = _slashed(path)
    is_absolute = path.startswith(("/", "~")) or _DRIVE.match(path) is not None
    if not is_absolute and folder:
        path = f"{_slashed(folder).rstrip('/')}/{path}"
    if "/." in path:
        path = _resolved(path)
    # The folder, too: it may be a link to one in the project.
    for top in (root, folder) if root else ():
        above = _slashed(top or "").rstrip("/") + "/"
        if len(above) > 1 and path.startswith(above):
            return path[len(above) :]
    return path


def _slashed(path: str) -> str:
    """Return a path with one kind of slashes and one spelling of a drive."""
    path = path.replace("\\", "/")
    path = path[1:] if path.startswith("/") and _DRIVE.match(path, 1) else path
    return path[0].upper() + path[1:] if _DRIVE.match(path) else path


def _resolved(path: str) -> str:
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and len(parts) > 1:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def ended(act: Act, result: str, *, failed: bool, exit: int | None = None) -> Act:
    r"""Return a call with how it ended; ``result`` is what the tool answered.

    >>> ended(act_of("Bash", {"command": "make"}), "Exit code 2\nno rule", failed=True).line
    'Bash: make (exit 2)'
    """
    if exit is None and failed:
        told = _EXIT.search(result[:LONGEST_SHOWN])
        exit = int(told[1]) if told is not None else None
    if exit:
        failed = True
    if not failed:
        return act._replace(exit=exit)
    how = f"exit {exit}" if exit is not None else "failed"
    error = on_one_line(telling_line(_safe(result))) or how
    return act._replace(line=f"{act.line} ({how})", exit=exit, error=error)


def _safe(result: str) -> str:
    """Return an answer of which each line may be kept: a line alone does not tell that it may not.

    It may be part of a key or of a private block, or be a memory that the tool was shown.
    """
    from plait.facts.masking import masked

    result = _kept(result)
    if len(result) > 2 * _MOST_ANSWER:
        head, tail = result[:_MOST_ANSWER], result[-_MOST_ANSWER:]
        result = "\n".join((head.rpartition("\n")[0], tail.partition("\n")[2]))
    return masked(result)[0]


def _kept(text: str) -> str:
    """Return a text without private blocks and without what plait itself put in."""
    if "<" not in text and "plait-recall" not in text:
        return text
    from plait.agents.histories.stripping import without_own
    from plait.agents.private import without_private

    return without_own(without_private(text))


def on_one_line(text: str) -> str:
    """Return a text on one line, cut if it is long, without secrets that the cut would hide.

    What tells a secret, such as the address after a password, may lie behind the cut.
    """
    if len(text) > LONGEST_SHOWN:
        from plait.facts.masking import masked

        looked_at = text[:_MOST_MASKED]
        if len(text) > _MOST_MASKED:  # its last word may be half a secret, which nobody recognises
            looked_at = looked_at.rpartition(" ")[0] or looked_at
        text = masked(looked_at)[0]
    return short_line(text)


def _text(given: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    for name in names:
        value = given.get(name)
        if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
            value = " ".join(value)
        if isinstance(value, str) and value.strip():
            return value
    return None
